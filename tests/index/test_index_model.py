"""The model of an index: one that changed behind its name, and a vocabulary that was given."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.builders.small_indexes import (
    DIM,
    add,
    documents,
    scored,
    set_manifest,
    vectors,
    write_rows,
)
from tests.builders.word_piece import tokenizer_of
from tests.conftest import ROOT
from tests.encoder_cases import PIECES
from vocabtool import Document, Index, Words, extract, open_encoder
from vocabtool.errors import NotFound, OtherModel, VocabtoolError

# Documents that are encoded again, their greatest length, and the lowest agreement.
CANARIES, MAX_CHARACTERS, MIN_AGREEMENT = 8, 4_000, 0.999
angle = [0.0]  # by which the model is turned
length = [1.0]  # of its vectors
noise = [0.0]  # how much more it is turned in larger batches
asked: list[str] = []


def turning(texts: Sequence[str]) -> NDArray[np.float64]:
    """A model of two numbers that can be turned; it knows no word of a text with a ``0``."""
    asked.extend(texts)
    own = angle[0] + noise[0] * math.log(max(len(texts), 1))
    turned = [own + len(text) / 7 for text in texts]
    rows = [[math.cos(each), math.sin(each)] for each in turned]
    known = [[0.0 if "0" in text else length[0]] for text in texts]
    vectors: NDArray[np.float64] = np.array(rows).reshape(-1, 2) * np.array(known).reshape(-1, 1)
    return vectors


turning.fingerprint = "turning"  # type: ignore[attr-defined]  # how a callable tells its version


@pytest.fixture(autouse=True)
def nothing_turned() -> None:
    """Each test starts with the model as it was."""
    angle[0], length[0], noise[0] = 0.0, 1.0, 0.0
    asked.clear()


def rows(path: Path, texts: dict[str, str]) -> Path:
    """A file of these documents."""
    return write_rows(path, ({"id": id_, "text": text} for id_, text in texts.items()))


def made(tmp_path: Path, texts: dict[str, str], **options: Any) -> Index:
    """An index of a file."""
    index = Index.create(tmp_path / "index", turning, **options)
    index.load(rows(tmp_path / "x.jsonl", texts), id_field="id")
    asked.clear()
    return index


TEXTS = {f"d{number}": "x" * number for number in range(1, 41)}


def turn(cosine: float) -> None:
    """Turn the model so far that new vectors have this cosine to the old ones."""
    angle[0] = math.acos(cosine)


def figures(error: OtherModel) -> tuple[float, float]:
    """The agreement that was measured, and the one that was wanted."""
    found = re.search(r"is (-?[\d.]+) \(the cosine.*wanted ([\d.]+) or more", str(error))
    assert found is not None
    return float(found[1]), float(found[2])


def test_a_change_is_refused_before_anything_is_added(tmp_path: Path) -> None:
    """With the figure, the text and the document; the index stays as it is."""
    index = made(tmp_path, TEXTS)
    rows(tmp_path / "x.jsonl", TEXTS | {"d7": "changed", "new": "a new text"})
    turn(0.9)
    with pytest.raises(OtherModel, match=r"'d\d+' was encoded again") as caught:
        index.update()
    assert caught.value.index == str(index.path)
    measured, wanted = figures(caught.value)
    assert measured == pytest.approx(0.9, abs=1e-3)
    assert wanted == MIN_AGREEMENT
    times, rest = divmod(len(asked), 2 * CANARIES)  # together, then one by one
    assert (times in (1, 2), rest) == (True, 0)  # a second thread asks too, before it is refused
    assert "index the documents with this model" in str(caught.value)
    for change in (
        lambda: add(index, ["one more"]),
        lambda: index.load([Document("one", "one more")]),
    ):
        with pytest.raises(OtherModel):
            change()
    assert (len(index), index.manifest.commit) == (40, Index.open(index.path).manifest.commit)
    angle[0] = 0.0
    assert index.update().added == 1
    assert len(index) == 41


@pytest.mark.parametrize(("cosine", "refused"), [(0.9995, False), (0.9985, True)])
def test_the_boundary(tmp_path: Path, cosine: float, refused: bool) -> None:
    """What rounding explains is accepted."""
    index = made(tmp_path, TEXTS)
    turn(cosine)
    if refused:
        with pytest.raises(OtherModel):
            add(index, ["one more"])
        with pytest.raises(OtherModel):
            index.verify(model=True)
    else:
        assert add(index, ["one more"]) == 1
        found = index.verify(model=True).encoded
        assert found is not None
        assert found.documents == CANARIES
        assert found.lowest == pytest.approx(cosine, abs=1e-4)


@pytest.mark.parametrize(
    ("metric", "agreement"), [("cosine", 1.0), ("inner-product", 0.8), ("l2", 0.8)]
)
def test_other_lengths_count_where_the_metric_uses_them(
    tmp_path: Path, metric: Any, agreement: float
) -> None:
    """Twice as long: 2 * 2 / (1 + 4)."""
    index = made(tmp_path, TEXTS, metric=metric)
    length[0] = 2.0
    if agreement == 1:
        assert add(index, ["one more"]) == 1
        return
    with pytest.raises(OtherModel) as caught:
        add(index, ["one more"])
    assert figures(caught.value)[0] == pytest.approx(agreement, abs=5e-4)  # stored as float16


def test_the_noise_of_an_inexact_model_is_no_change(tmp_path: Path) -> None:
    """A batch of 32 texts was stored, 8 are encoded again, then 1: angles of log 32, log 8, 0."""
    noise[0] = 0.1
    index = made(tmp_path, TEXTS)
    found = index.verify(model=True).encoded
    assert found is not None
    assert found.lowest == pytest.approx(math.cos(0.1 * math.log(4)), abs=1e-3)
    assert found.lowest < MIN_AGREEMENT
    assert add(index, ["one more"]) == 1
    turn(0.8)
    with pytest.raises(OtherModel) as caught:
        add(index, ["one more"])
    wanted = 1 - 4 * (1 - math.cos(0.1 * math.log(8)))
    assert figures(caught.value)[1] == pytest.approx(wanted, abs=1e-3)


def test_nothing_is_asked_if_nothing_is_encoded(tmp_path: Path) -> None:
    """A changed model harms no index to which nothing is added; only a whole verify asks it."""
    index = made(tmp_path, TEXTS)
    turn(0.0)
    rows(tmp_path / "x.jsonl", dict([*TEXTS.items()][:39]))
    assert index.update(sync=True).removed == 1
    with index.writer() as writer:
        writer.delete("d1")
        writer.add([Document("own", "one's own")], np.ones((1, 2)))
    index.compact()
    assert index.verify().encoded is None
    assert asked == []
    with pytest.raises(OtherModel):
        index.verify(model=True)


@pytest.mark.parametrize("threads", [1, 4])
def test_canaries_are_asked_once(tmp_path: Path, threads: int) -> None:
    """Of each writer, before its first text, however many batches follow."""
    index = made(tmp_path, TEXTS)
    more = {f"e{number}": "y" * number + " z" * 500 for number in range(3000)}
    index.load(rows(tmp_path / "y.jsonl", more), id_field="id", threads=threads)
    assert len(asked) == CANARIES + 3000
    again = [text for text in asked if text in TEXTS.values()]
    assert asked[:CANARIES] == again
    assert len(set(again)) == CANARIES
    assert {len(text) // 6 for text in again} == {0, 1, 2, 3, 4, 5, 6}  # from all over the index


def test_documents_that_are_no_canaries(tmp_path: Path) -> None:
    """With own vectors or none, blank, with U+FFFD, deleted; of long ones, the shortest is one."""
    index = Index.create(tmp_path / "index", turning)
    file = tmp_path / "x.jsonl"
    long = MAX_CHARACTERS + 1
    file.write_bytes(
        b'{"id": "nothing", "text": "0"}\n{"id": "blank", "text": "  "}\n'
        b'{"id": "bytes", "text": "\\ufffd"}\n{"id": "gone", "text": "gone"}\n'
        + b'{"id": "long", "text": "%s"}\n{"id": "longer", "text": "%s"}\n'
        % (b"x" * long, b"y" * 9999)
    )
    index.load(file, id_field="id")
    with index.writer() as writer:
        writer.delete("gone")
        writer.add([Document("own", "own")], np.ones((1, 2)))
    asked.clear()
    add(index, ["new"])
    assert asked == ["x" * long, "new"]
    asked.clear()
    add(index, ["newer"])  # what was added without vectors is a canary, too
    assert asked == ["new", "newer"]


def test_verify_without_a_model(tmp_path: Path) -> None:
    """Of an index of own vectors, no model can be verified but one that is named."""
    index = Index.create(tmp_path / "index", dim=2)
    assert index.verify(model=True).encoded is None
    with pytest.raises(VocabtoolError, match="own vectors"):
        add(index, ["text"])


# Indexes of encoders that have no words, with a vocabulary that was given: the same answers.


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
        assert f"({cause.partition('; ')[0]}). Pass that of the index, or leave it out" in told
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
