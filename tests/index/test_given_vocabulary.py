"""Indexes of encoders that have no words, with a vocabulary that was given: the same answers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.builders.set_manifest import set_manifest
from tests.builders.small_indexes import DIM, add, documents, scored, vectors
from tests.builders.word_piece import tokenizer_of
from tests.cli.running import told
from tests.conftest import ROOT
from tests.encoder_cases import PIECES
from vocabtool import Document, Index, Words, extract, open_encoder
from vocabtool.errors import NotFound, OtherModel, VocabtoolError

GLOVE = ROOT / "data" / "small_glove.txt"
GRAPH = ROOT / "data" / "sentence_encoder"
QUERIES = ("I love Xapian", "xyzzy plugh", "love", "ERR-48007-X", "the index", "zzz love")
DOCUMENTS = [
    Document("a", "I love to use Xapian"),
    Document("b", "I love to use the index"),
    Document("c", "the error ERR-48007-X came back"),
    Document("d", "an error came back"),
]


def glove(texts: list[str]) -> NDArray[np.float32]:
    """The same vectors as the file itself gives, behind a callable."""
    return open_encoder(GLOVE, weights="none").encode(texts)


def answers(index: Index) -> list[Any]:
    """What is found, what is known, and what is told."""
    found = [index.search(query, explain=True) for query in QUERIES]
    return [
        (scored(hits), [word.known for word in hits.query.words], hits.query.m, hits.notes)
        for hits in found
    ]


def test_the_same_answers_as_an_encoder_with_its_own_words(tmp_path: Path) -> None:
    """Coverage, refusal of nonsense and explanations, now and opened again."""
    own = Index.create(tmp_path / "own", GLOVE, weights="none")
    lent = Index.create(tmp_path / "lent", glove, vocabulary=GLOVE)
    bare = Index.create(tmp_path / "bare", glove)
    for index in (own, lent, bare):
        add(index, DOCUMENTS)
    assert answers(lent) == answers(own) != answers(bare)
    assert answers(Index.open(tmp_path / "lent", glove)) == answers(own)


def tokenizer(folder: Path, entries: list[str] = PIECES) -> Path:
    tokenizer_of(entries).save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def known(index: Index, query: str = "love lucene") -> list[bool | None]:
    found = index.search(query, vector=np.ones(index.configuration.dim))
    return [word.known for word in found.query.words]


@pytest.mark.parametrize("given", ["path", "Words", "rule"])
def test_it_is_not_needed_again(tmp_path: Path, given: str) -> None:
    """The index has a copy; a file that changed is refused only if it is given again."""
    file = tokenizer(tmp_path)
    vocabulary: Any = {"path": file, "Words": Words.of(file), "rule": extract(file)}[given]
    rule = f"tokenizer:{file}" if given == "rule" else None
    index = Index.create(tmp_path / "index", dim=DIM, vocabulary=vocabulary, rule=rule)
    add(index, documents(range(4)), vectors(range(4)))
    assert known(index) == [True, False]
    assert known(Index.open(tmp_path / "index", vocabulary=file)) == [True, False]
    tokenizer(tmp_path, [*PIECES, "lucene"])
    with pytest.raises(OtherModel, match="vocabulary") as caught:
        Index.open(tmp_path / "index", vocabulary=file)
    if given == "path":
        assert str(file) in str(caught.value)
    file.unlink()
    again = Index.open(tmp_path / "index")
    assert known(again) == [True, False]
    assert again.verify().documents == 4
    add(again, documents([7]), vectors([7]))
    again.compact()
    assert known(Index.open(tmp_path / "index")) == [True, False]


def test_a_vocabulary_that_does_not_fit_the_rule(tmp_path: Path) -> None:
    """It is another one; the same is taken, also if its rule was in a file of its own."""
    file, entries, others = tokenizer(tmp_path), tmp_path / "vocab.txt", tmp_path / "others.txt"
    entries.write_text("".join(f"{piece}\n" for piece in PIECES))
    others.write_text("love\n##x\n")
    index = Index.create(tmp_path / "index", dim=DIM, vocabulary=entries, rule=f"tokenizer:{file}")
    listed = Index.create(tmp_path / "listed", dim=DIM, vocabulary=["love"], rule="lower")
    for each in (index, listed):
        add(each, documents(range(4)), vectors(range(4)))
    assert known(Index.open(index.path, vocabulary=entries)) == [True, False]
    for path, given in ((index.path, others), (listed.path, file)):
        with pytest.raises(VocabtoolError, match="not the vocabulary of the index") as caught:
            Index.open(path, vocabulary=given)
        told, cause = str(caught.value), str(caught.value.__cause__)
        assert "--rule" not in told
        assert f"({cause.partition('; ')[0]}). Leave it out" in told
    with pytest.raises(NotFound):
        Index.open(index.path, vocabulary=tmp_path / "nowhere")


def test_another_rule_of_the_same_entries_is_refused(tmp_path: Path) -> None:
    """The rule of a list is the recorded one, unless another is given."""
    index = Index.create(tmp_path / "index", dim=DIM, vocabulary=["love"], rule="lower")
    assert known(Index.open(index.path, vocabulary=["love"])) == [True, False]
    with pytest.raises(OtherModel, match="word rule of the vocabulary"):
        Index.open(index.path, vocabulary=["love"], rule="whitespace")


def test_a_rule_in_a_graph_needs_the_model(tmp_path: Path) -> None:
    """The index finds it by its path; elsewhere, the caller names it."""
    model = tmp_path / "model"
    shutil.copytree(GRAPH, model)
    index = Index.create(tmp_path / "index", dim=DIM, vocabulary=model)
    assert index.configuration.options == {"vocabulary": str(model)}
    assert known(index, "love xapian") == [True, False]
    assert known(Index.open(index.path), "love xapian") == [True, False]
    model.rename(tmp_path / "moved")
    with pytest.raises(NotFound, match=r"model.*vocabulary="):
        known(Index.open(index.path))
    moved = Index.open(index.path, vocabulary=tmp_path / "moved")
    assert known(moved, "love xapian") == [True, False]
    with pytest.raises(OtherModel):
        Index.open(index.path, vocabulary=GLOVE)
    (tmp_path / "words.txt").write_text("love\n")
    with pytest.raises(VocabtoolError, match="Pass that of the index"):
        Index.open(index.path, vocabulary=tmp_path / "words.txt")
    named = Index.create(tmp_path / "named", dim=DIM, vocabulary=f"{GRAPH}#Embeddings_words")
    assert known(Index.open(named.path), "love xapian") == [True, False]


def test_a_name_is_not_downloaded(tmp_path: Path) -> None:
    """What an index, perhaps of somebody else, names is opened only if it is a file here."""
    index = Index.create(tmp_path / "index", dim=DIM, vocabulary=Words.of(GRAPH))
    assert index.configuration.options == {"vocabulary": str(GRAPH)}
    options = {"vocabulary": "https://tfhub.dev/google/nnlm/1"}
    changed = replace(index.configuration, options=options)
    set_manifest(tmp_path / "index", replace(index.manifest, configuration=changed))
    with pytest.raises(NotFound, match=r"tfhub.*vocabulary="):
        known(Index.open(tmp_path / "index"))


def test_refused(tmp_path: Path) -> None:
    """By indexes that have no words, or those of their model."""
    with pytest.raises(VocabtoolError, match="own vocabulary"):
        Index.create(tmp_path / "index", GLOVE, weights="none", vocabulary=["love"])
    assert not (tmp_path / "index").exists()
    own = Index.create(tmp_path / "own", GLOVE, weights="none")
    with pytest.raises(VocabtoolError, match="omit the vocabulary"):
        Index.open(own.path, vocabulary=GLOVE)
    bare = Index.create(tmp_path / "bare", dim=DIM)
    with pytest.raises(VocabtoolError, match=r"without a vocabulary.*--force"):
        Index.open(bare.path, vocabulary=GLOVE)


def command(*arguments: object) -> str:
    return told(*map(str, arguments))[0]


def test_commands(tmp_path: Path) -> None:
    """index, search, update, eval and calibrate; embed, and an index of its folder."""
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"id": each.id, "text": each.text} for each in DOCUMENTS]
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "words.txt").write_text("i\nlove\nto\nuse\nthe\nerror\ncame\nback\n")
    model = ("--model", "python:tests.index.test_given_vocabulary:glove")
    words = ("--vocabulary", tmp_path / "words.txt")
    at = tmp_path / "index"
    make = (*("index", corpus, "--id-field", "id", *model, *words), "--rule", "lower", "-o", at)
    command(*make)
    command(*make, "--existing", "skip")
    command(*make, "--force")
    command("update", at, *model)
    found = json.loads(command("search", at, "xyzzy", *model, "--format", "json"))
    assert found["hits"] == []
    found = json.loads(
        command("search", at, "love xapian", *model, "--explain", "--format", "json")
    )
    assert [word["known"] for word in found["query"]["words"]] == [True, False]
    queries = [json.dumps({"_id": str(at), "text": "love xapian"}) for at in range(10)]
    (tmp_path / "queries.jsonl").write_text("\n".join(queries))
    lines = ("query-id\tcorpus-id\tscore", *(f"{number}\ta\t1" for number in range(10)))
    (tmp_path / "qrels.tsv").write_text("\n".join(lines))
    judged = ("--queries", tmp_path / "queries.jsonl", "--qrels", tmp_path / "qrels.tsv")
    command("eval", at, *model, *judged)
    command("calibrate", at, *model, *judged)
    shards = tmp_path / "shards"
    command("embed", corpus, *model, *words, "--rule", "lower", "-o", shards, "--id-field", "id")
    given = tmp_path / "given"
    command("index", shards, *words, "--rule", "lower", "-o", given)
    found = json.loads(command("search", given, "love xapian", "--format", "json"))
    assert [word["known"] for word in found["query"]["words"]] == [True, False]
