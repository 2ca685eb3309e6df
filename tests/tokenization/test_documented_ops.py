"""The page of TensorFlow ops names what the code understands."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from vocabtool.formats.saved_model import tables
from vocabtool.tokenization import infer_rule, op_steps


def test_every_op_is_named() -> None:
    """The page of ops names each op of the tables in the code, and calls each as understood."""
    page = (ROOT / "docs/reference/ops.md").read_text("utf-8")
    ops = {
        *(*op_steps.STEPS, *op_steps.SOURCES, *op_steps.DECODES, *op_steps.CODE_POINT_TOKENIZERS),
        *(*op_steps.SAME, *op_steps.BRANCHES, *op_steps.LOOPS),
        *(*infer_rule.TOKENIZERS, *tables.FINDS, *tables.WORDPIECES),
    }
    assert {op.decode() for op in ops} - set(re.findall(r"`(\w+)`", page)) == set()
    for op, (kind, _) in infer_rule.TOKENIZERS.items():
        row = re.search(rf"^\|.*`{op.decode()}`.*\| (yes|no)", page, re.MULTILINE)
        assert row is not None
        assert (row[1] == "yes") == (kind in infer_rule.UNDERSTOOD)
