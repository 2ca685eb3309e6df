"""What the command ``search`` reads of standard input."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest

from vocabtool.cli import cli
from vocabtool.index.index import Index


def test_a_line_that_is_not_utf8_leaves_the_other_queries_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """An answer a line, whatever the locale takes the bytes for."""
    index = Index.create(tmp_path / "index", dim=2, vocabulary=["love"])
    with index.writer() as writer:
        writer.add(["xapian", "zébra"], vectors=np.ones((2, 2), np.float32))
    asked = BytesIO(b"xapian\n" + b"\xff\xfe\n" + "zébra".encode())
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(asked, encoding="ascii"))
    cli.main(["search", str(index.path), "-", "--format", "json"], standalone_mode=False)
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [[hit["text"] for hit in each["hits"]] for each in answers] == [
        ["xapian"], [], ["zébra"],
    ]  # fmt: skip  # one query, one list
