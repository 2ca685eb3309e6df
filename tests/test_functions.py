"""Functions with the names of commands give the answers of the commands."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import vocabtool
from tests.cli.running import run
from vocabtool.cli.main import COMMANDS
from vocabtool.documents import ReadOptions, batches, documents, extent, left_out
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


def test_words_are_those_of_the_command() -> None:
    words = vocabtool.words(MODEL, "I love Xapian!")
    assert [(word.word, word.id, word.known) for word in words][1:3] == [
        ("love", 1931, True),
        ("xapian", 0, False),
    ]
    shown = json.loads(run("words", MODEL, "I love Xapian!", "--format", "json").stdout)
    (text,) = shown["texts"]
    assert [word["word"] for word in text["words"]] == [word.word for word in words]


def test_an_index_by_its_path(tmp_path: Path) -> None:
    """``index`` makes an index or adds to one; each other function takes it or its path."""
    (tmp_path / "a.jsonl").write_text('{"id": "x", "text": "I love Xapian"}\n')
    (tmp_path / "b.jsonl").write_text('{"id": "e", "text": "old songs"}\n')
    folder, read, notes = tmp_path / "index", ReadOptions(id_field="id"), list[str]()
    files = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    model = "data/small_glove.txt"
    vocabtool.index(files[:1], tmp_path / "other", model, weights="none", notify=notes.append)
    assert "the documents have a field 'id'" in notes[0]
    vocabtool.index(files[:1], folder, model, language="none", weights="none", read=read)
    index = vocabtool.index(files[1:], folder, read=read)
    assert (index.configuration.language, len(index)) == ("none", 2)

    for place in (folder, str(folder), index):
        assert [hit.id for hit in vocabtool.search(place, "Xapian", k=1)] == ["x"]
        assert [document.id for document in vocabtool.list(place)] == ["x", "e"]
    assert [hit.id for hit in vocabtool.similar(folder, "x")] == ["e"]
    found = vocabtool.get(folder, "e")
    assert found is not None
    assert found.text == "old songs"
    assert vocabtool.stats(folder).documents == 2
    assert vocabtool.export(folder, tmp_path / "all.jsonl") == 2
    assert len(vocabtool.copy(folder, tmp_path / "copy")) == 2
    (tmp_path / "a.jsonl").write_text('{"id": "x", "text": "I use Xapian"}\n')
    assert vocabtool.update(folder).updated == 1
    assert vocabtool.delete(folder, ["e"]) == 1
    assert vocabtool.verify(folder).deleted == vocabtool.compact(folder) == 2
    with pytest.raises(TypeError, match="search has no argument 'wher'"):
        vocabtool.search(folder, "Xapian", wher="")  # type: ignore[call-arg]

    (tmp_path / "queries.tsv").write_text("1\tuse Xapian\n")
    (tmp_path / "qrels.tsv").write_text("1\tx\t1\n")
    scores = vocabtool.eval(folder, tmp_path / "queries.tsv", tmp_path / "qrels.tsv")
    assert scores.rows[0].measures["ndcg@10"] == 1


def test_options_of_reading_have_one_name() -> None:
    """``read``, in each function that takes them."""
    of_folders = (vocabtool.embed, vocabtool.index, vocabtool.Index.load)
    for function in (
        batches,
        documents,
        extent,
        left_out,
        vocabtool.oov,
        vocabtool.train,
        *of_folders,
    ):
        taken = inspect.signature(function).parameters.items()
        assert [name for name, about in taken if "ReadOptions" in str(about.annotation)] == ["read"]


def test_each_command_has_a_function() -> None:
    """Except for those that serve, or tell a story."""
    others = {"api-key", "demo", "mcp", "serve"}
    functions = {name for name in COMMANDS if callable(getattr(vocabtool, name, None))}
    assert {*COMMANDS} - functions == others
    arguments = [*inspect.signature(vocabtool.search).parameters]
    assert arguments[:2] == ["index", "text"]
    assert "where" in arguments
