"""Functions with the names of commands give the answers of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vocabtool
from tests.cli.running import run
from vocabtool.oov import report  # a later import must not replace the function by the package

MODEL = "data/sentence_encoder"


def test_oov_counts_as_the_command(tmp_path: Path) -> None:
    """A list of strings is files; texts are passed as an iterator. Words are texts."""
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text("I love to use Xapian!\nI love old songs.\n")
    counts = vocabtool.oov(MODEL, [str(file) for file in files])
    assert isinstance(counts, report.OovReport)
    assert [(word.word, word.count) for word in counts.commonest()] == [("songs", 2), ("xapian", 2)]
    assert counts.to_pandas()["word"].tolist() == counts.to_polars()["word"].to_list()
    shown = json.loads(run("oov", MODEL, *files, "--format", "json").stdout)
    assert shown["tokens"]["unknown"] == counts.tokens_unknown == 4
    assert shown["sources"] == list(counts.header.sources)
    assert vocabtool.oov(MODEL, iter(["I love Xapian"])).commonest(1)[0].word_bytes == b"xapian"
    with pytest.raises(vocabtool.NotFound, match="the texts: no document in it"):
        vocabtool.oov(MODEL, iter([]))
    with pytest.raises(ValueError, match="model must be"):
        vocabtool.oov([MODEL], files)  # type: ignore[arg-type]
