"""Pages of the reference name the ops and choices that the code has."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from tests.conftest import ROOT
from vocabtool import choices, documents
from vocabtool.formats.saved_model import tables
from vocabtool.tokenization import infer_rule
from vocabtool.vocabulary import Kind


def test_every_op_is_named() -> None:
    """The page of ops names each op of the tables in the code, and calls each as understood."""
    page = (ROOT / "docs/reference/ops.md").read_text("utf-8")
    ops = {
        *(*infer_rule.STEPS, *infer_rule.SOURCES, *infer_rule.DECODES, infer_rule.SCRIPT_TOKENIZER),
        *(*infer_rule.SAME, *infer_rule.BRANCHES, *infer_rule.LOOPS),
        *(*infer_rule.TOKENIZERS, *tables.FINDS, *tables.WORDPIECES),
    }
    assert {op.decode() for op in ops} - set(re.findall(r"`(\w+)`", page)) == set()
    for op, (kind, _) in infer_rule.TOKENIZERS.items():
        row = re.search(rf"^\|.*`{op.decode()}`.*\| (yes|no)", page, re.MULTILINE)
        assert row is not None
        assert (row[1] == "yes") == (kind in infer_rule.UNDERSTOOD)


NAMES = {
    "encoders": (*choices.KINDS, *choices.WEIGHTINGS),
    "formats": (*get_args(documents.Format), *get_args(Kind)),
    "search": (*choices.FUSIONS, *get_args(choices.Metric)),
}


@pytest.mark.parametrize(("page", "names"), NAMES.items(), ids=NAMES)
def test_every_choice_is_named(page: str, names: tuple[str, ...]) -> None:
    text = (ROOT / f"docs/reference/{page}.md").read_text("utf-8")
    assert [name for name in names if not re.search(rf"`[^`]*\b{name}\b[^`]*`", text)] == []
