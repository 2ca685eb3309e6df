"""An index made, changed and read: what each change leaves, and who sees it when."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from tests import counted_letters
from tests.builders.small_indexes import (
    DIM,
    add,
    answers,
    contents,
    delete,
    document,
    documents,
    ids,
    made,
    scored,
    texts,
    vector,
    vectors,
)
from tests.conftest import ROOT
from vocabtool import Document, Index, open_encoder
from vocabtool.errors import FolderInUse, FolderNotEmpty, NotFound, OtherModel, VocabtoolError


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An empty one, of own vectors."""
    return Index.create(tmp_path / "index", dim=DIM)


def test_pickling(index: Index) -> None:
    """Says what to send instead; a copy shares the open files."""
    with pytest.raises(VocabtoolError, match=r"cannot be pickled, .* send its path"):
        pickle.dumps(index)
    assert copy.copy(index).path == index.path


# Making and opening


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "pass a model, or dim.*keywords alone, pass dim=1"),
        ({"dim": 0}, "dim"),
        ({"dim": 4, "metric": "hamming"}, "metric"),
        ({"dim": 4, "dtype": "int8"}, "dtype"),
        ({"dim": 4, "recall": 0.0}, "recall"),
        ({"dim": 4, "exact_below": 1e4}, "exact_below"),
        ({"dim": 4, "rule": "keras"}, "rule"),
        ({"dim": 4, "weights": "idf"}, "weights"),
    ],
)
def test_wrong_arguments_make_no_index(
    tmp_path: Path, arguments: dict[str, Any], told: str
) -> None:
    """They are refused before anything is written."""
    with pytest.raises(ValueError, match=told):
        Index.create(tmp_path / "index", **arguments)
    assert not (tmp_path / "index").exists()


def test_options_of_an_index_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    recall: Any = np.float32(0.5)
    Index.create(tmp_path / "index", dim=4, recall=recall)
    assert Index.open(tmp_path / "index").configuration.recall == 0.5


def test_an_index_is_made_in_an_empty_folder_only(tmp_path: Path) -> None:
    """What is there already stays; what a killed command began is taken over."""
    (tmp_path / "notes.txt").write_text("mine")
    for name, told in (("nothing", "nothing"), ("notes.txt", r"notes\.txt"), (".", "no index")):
        with pytest.raises(NotFound, match=told):
            Index.open(tmp_path / name)
    with pytest.raises(FolderNotEmpty, match=r"notes\.txt"):
        Index.create(tmp_path, dim=2)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(NotFound, match=r"notes\.txt"):
        Index.create(tmp_path / "notes.txt", dim=2)
    index = made(tmp_path / "index")
    with pytest.raises(FolderNotEmpty, match=r"index: already contains an index.*--force \(force="):
        Index.create(tmp_path / "index", dim=2)
    assert len(index) == 10
    shutil.move(index.path / "generation-000000", index.path / "generation-000000.part")
    assert len(Index.create(tmp_path / "index", dim=2)) == 0
    assert len(Index.open(tmp_path / "index")) == 0


def test_without_force_nothing_is_replaced(tmp_path: Path) -> None:
    """Also not by a new index whose folder is named as that of a replacement."""
    made(tmp_path / "index")
    path = tmp_path / "index" / ".new-0123456789abcdef"
    assert Index.create(path, dim=2).path == path
    assert len(Index.open(tmp_path / "index")) == 10


def test_another_index_takes_the_place_of_one(tmp_path: Path) -> None:
    """With ``force``; who has the old one open goes on, and files of others are in the way."""
    old = made(tmp_path / "index", vocabulary=["amber"])
    before = answers(old)
    unread = Index.open(tmp_path / "index")
    new = Index.create(tmp_path / "index", dim=2, vocabulary=["birch"], force=True)
    assert (len(new), new.path, len(Index.open(tmp_path / "index"))) == (0, tmp_path / "index", 0)
    assert answers(old) == before
    assert answers(unread) == before
    with pytest.raises(VocabtoolError, match="replaced by another index"):
        old.refresh()
    add(new, ["a text"], [[1, 2]])
    assert not [each for each in tmp_path.rglob("*") if ".new-" in each.name]
    assert len([*(tmp_path / "index").glob("vocabulary-*")]) == 1
    (tmp_path / "index" / "notes.txt").write_text("mine")
    with pytest.raises(FolderNotEmpty, match=r"notes\.txt"):
        Index.create(tmp_path / "index", dim=2, force=True)
    assert len(Index.open(tmp_path / "index")) == 1
    (tmp_path / "index" / "notes.txt").unlink()
    next((tmp_path / "index").rglob("index.db")).write_bytes(b"\0")  # damage
    assert len(Index.create(tmp_path / "index", dim=2, force=True)) == 0


# Adding, updating, deleting


def test_nothing_of_a_failed_add_can_be_committed(tmp_path: Path) -> None:
    """Also where the caller goes on after the error."""
    index = made(tmp_path / "index", range(3))
    with pytest.raises(VocabtoolError, match="an earlier change failed"), index.writer() as writer:
        writer.add(documents([7]), vectors([7]))
        with pytest.raises(VocabtoolError, match="'d1' is in the index already"):
            writer.add(documents([8, 1]), vectors([8, 1]))
        with pytest.raises(VocabtoolError, match="an earlier change failed"):
            writer.add(documents([9]), vectors([9]))
        with pytest.raises(VocabtoolError, match="an earlier change failed"):
            writer.store_calibration(None)
    assert {*contents(Index.open(tmp_path / "index"))} == {"d0", "d1", "d2"}
    add(index, documents([8]), vectors([8]))
    assert {*contents(index)} == {"d0", "d1", "d2", "d8"}
    assert index.verify().documents == 4


TWICE = [Document(*pair) for pair in (("d1", "1"), ("x", "2"), ("x", "3"), ("y", "4"))]


@pytest.mark.parametrize(
    ("on_existing", "wanted"),
    [("skip", {"d1": document(1).text, "x": "2"}), ("update", {"d1": "1", "x": "3"})],
)
def test_documents_that_are_there_already(
    tmp_path: Path, on_existing: Any, wanted: dict[str, str]
) -> None:
    """``skip`` keeps the first of an id, ``update`` the last, with its vector, also in one call."""
    index = made(tmp_path / "index", range(2))
    with pytest.raises(ValueError, match="on_existing"):
        add(index, TWICE, np.eye(4), on_existing="replace")
    given = np.eye(4, dtype=np.float32)
    added = add(index, TWICE, given, on_existing=on_existing)
    assert added == (2 if on_existing == "skip" else 3)
    wanted = {**wanted, "d0": document(0).text, "y": "4"}
    assert texts(index) == wanted
    place = {each.text: at for at, each in enumerate(TWICE)}
    for id_ in ("x", "y"):
        best = index.search("", vector=given[place[wanted[id_]]], fusion="dense", k=1)
        assert (best[0].id, best[0].score) == (id_, 1.0)


@pytest.mark.parametrize("on_existing", ["skip", "update"])
def test_ids_are_compared_with_what_is_not_committed(index: Index, on_existing: Any) -> None:
    """Between two calls of one writer as between two commits."""
    with pytest.raises(VocabtoolError, match="'d0' is in the index"), index.writer() as writer:
        writer.add(documents([0]), vectors([0]))
        writer.add(documents([0], 1), vectors([0], 1))
    assert len(index) == 0
    with index.writer() as writer:
        writer.add(documents([0]), vectors([0]))
        writer.add(documents([0], 1), vectors([0], 1), on_existing=on_existing)
        writer.update(documents([0], 2), vectors([0], 2))
        writer.delete(["d0"])
        writer.add(documents([0], 3), vectors([0], 3), on_existing=on_existing)
    assert contents(index) == {"d0": document(0, 3)}


def test_more_documents_than_a_batch_holds(tmp_path: Path) -> None:
    """Each has its own vector, and an id that comes again much later is compared too."""
    index = Index.create(tmp_path / "index", dim=2, dtype="float32", metric="l2")
    count = 9000
    given = np.stack([np.arange(count), np.zeros(count)], axis=1)
    rows = [Document(f"d{number % 8999}", f"v{number}") for number in range(count)]
    add(index, rows, given, on_existing="update")
    assert len(index) == 8999
    for number in (1, 8191, 8192, 8999):
        hit = index.search("", vector=[number, 0], fusion="dense", k=1)[0]
        assert (hit.text, hit.score) == (f"v{number}", 0.0)
    assert index.get("d0") == Document("d0", "v8999")


@pytest.mark.parametrize(
    "given",
    [
        [Document("a", "one", {"n": 1}), Document("b", "two", {"n": None})],
        [{"id": "a", "text": "one", "n": 1}, {"text": "two", "id": "b"}],
        pa.table({"id": ["a", "b"], "text": ["one", "two"], "n": [1, None]}),
        pa.record_batch({"id": ["a", "b"], "text": ["one", "two"], "n": [1, None]}),
        pd.DataFrame({"id": ["a", "b"], "text": ["one", "two"], "n": [1.0, float("nan")]}),
    ],
    ids=["documents", "mappings", "table", "batch", "pandas"],
)
def test_documents_come_in_several_ways(index: Index, given: Any) -> None:
    """They are the same documents then."""
    with index.writer() as writer:
        assert writer.add(given, vectors([0, 1])) == 2
    assert contents(index) == {"a": Document("a", "one", {"n": 1}), "b": Document("b", "two", {})}
    assert ids(index.search("two", where="n = 1", vector=vector(0))) == ["a"]
    # Texts alone are called by their rows, which are counted on from commit to commit.
    for each in (["amber", "birch"], ["cedar"]):
        add(index, each, vectors(range(len(each))))
    assert {*texts(index)} == {"a", "b", "2", "3", "4"}


def test_many_documents_and_vectors_by_id(index: Index) -> None:
    """Those that exist, once each, in the order asked for; vectors as NumPy computes them."""
    add(index, documents(range(5)), vectors(range(5)))
    delete(index, "d3")
    asked = ["d4", "d9", "d0", "d3", "d4", "\ud800"]
    assert index.get_many(asked) == {id_: index.get(id_) for id_ in ("d4", "d0")}
    assert [*index.get_many(iter(asked))] == ["d4", "d0"]
    found = index.vectors(asked)
    assert {*found} == {"d4", "d0"}
    np.testing.assert_allclose(found["d4"], vector(4) / np.linalg.norm(vector(4)), rtol=2e-3)
    assert index.get_many([]) == index.vectors([]) == {}
    with pytest.raises(ValueError, match="ids must be a list of strings, got 1"):
        index.get_many([1])  # type: ignore[list-item] # refused


STRANGE = "a\udcffb"  # the byte 0xff
LONE = "a\ud800b"


def test_what_is_no_utf_8_is_replaced(index: Index) -> None:
    """In ids and texts by U+FFFD; who asks by the id as it came finds the document."""
    with index.writer() as writer:
        writer.add([Document(STRANGE, f"birch {STRANGE}")], vectors([0]))
        writer.add([{"id": LONE, "text": LONE, "f": LONE}], vectors([1]))
    assert {*texts(index)} == {"a\ufffdb", "a\ufffd\ufffd\ufffdb"}
    for id_ in (STRANGE, "a\ufffdb"):
        assert id_ in index
        found = index.get(id_)
        assert found is not None
        assert (found.id, found.text) == ("a\ufffdb", "birch a\ufffdb")
    assert ids(index.search(f"birch {LONE}", vector=vector(0), k=1)) == ["a\ufffdb"]
    assert index.get("\ud800") is None
    with index.writer() as writer:
        writer.update([Document(STRANGE, "new")], vectors([2]))
        assert writer.delete([LONE, "\ud800"]) == 1
    assert texts(index) == {"a\ufffdb": "new"}
    # Ids that are alike once they are UTF-8 are one document.
    both = [Document("\udcfe", "one"), Document("\udcff", "two")]
    with pytest.raises(VocabtoolError, match="twice"), index.writer() as writer:
        writer.add(both, vectors([0, 1]))
    with index.writer() as writer:
        writer.update(both, vectors([0, 1]))
    assert texts(index) == {"a\ufffdb": "new", "\ufffd": "two"}


# Vectors


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.ones((2, 3)), r"shape \(n, 4\), got \(2, 3\)"),
        (np.ones((3, 4)), "3 vectors for 2 documents"),
        ([[1, 2, 3, 4], [1, 2, 3, 1e300]], "vector 1 contains NaN or infinity"),
        ([[1, 2, 3, 4], [1, 2, 3, 70000]], "vector 1 .* too large for float16"),
        ([[1, 2, 3, 4], [1, 2]], "inhomogeneous"),
    ],
)
def test_wrong_vectors_are_refused(tmp_path: Path, given: Any, told: str) -> None:
    """With the number of the vector; nothing is added."""
    index = Index.create(tmp_path / "index", dim=DIM, metric="inner-product")
    with pytest.raises(ValueError, match=told), index.writer() as writer:
        writer.add(documents([0, 1]), given)
    assert len(index) == 0
    assert len(Index.open(tmp_path / "index")) == 0


# Readers and writers beside each other


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """In the same process, by the same object in another thread, and in another process."""
    index = made(tmp_path / "index", range(3))
    other = Index.open(tmp_path / "index")
    with index.writer(), ThreadPoolExecutor(1) as pool:
        with pytest.raises(FolderInUse, match="index"):
            pool.submit(index.writer().__enter__).result()
        with pytest.raises(FolderInUse, match="index"), other.writer():
            pass
        with pytest.raises(
            FolderInUse, match=r"this process is already writing .* finish the first `with"
        ):
            other.compact()
        code = f"from vocabtool import Index\nIndex.open({str(index.path)!r}).compact()"
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert "FolderInUse" in run.stderr and "another process is writing" in run.stderr
    delete(other, ["d0"])
    assert len(other) == 2


@pytest.mark.parametrize("exact_below", [20_000, 100])
def test_a_snapshot_stays_as_it_is(tmp_path: Path, exact_below: int) -> None:
    """Whatever is updated, deleted, compacted and rebuilt: answers, ids and texts of both legs."""
    numbers = range(300)
    writing = made(tmp_path / "index", numbers, exact_below=exact_below)
    reading = Index.open(tmp_path / "index")
    held, before = contents(reading), answers(reading)
    with writing.writer() as writer:
        writer.update(documents(range(150), 1), vectors(range(150), 1))
        writer.delete(f"d{number}" for number in range(150, 200))
    assert (contents(reading), answers(reading)) == (held, before)
    assert writing.compact() == 200
    add(writing, documents(range(300, 900)), vectors(range(300, 900)))
    assert (contents(reading), answers(reading)) == (held, before)
    assert reading.refresh()
    assert contents(reading) == contents(writing)
    wanted = [*documents(range(150), 1), *documents([*range(200, 900)])]
    assert contents(reading) == {each.id: each for each in wanted}
    assert answers(reading) == answers(writing) == answers(Index.open(tmp_path / "index"))
    assert not reading.refresh()


FORKED = """
import os, sys
from pathlib import Path
from vocabtool.system.own_files import lock_folder
ends, end = os.pipe()
with lock_folder(Path(sys.argv[1])):
    if not os.fork():
        os.close(end)
        os.read(ends, 1)  # until its parent, which has the other end, is no more
        os._exit(0)
with lock_folder(Path(sys.argv[1])):
    pass
"""


READING = """
import os, signal, sys
from pathlib import Path
from tests.builders.small_indexes import add, answers, documents, made, scored, vectors
index = made(Path(sys.argv[1]), range(60), exact_below=20)
assert index.manifest.codes is not None
def told():
    queries, wanted = ["amber only00007", "birch"], vectors([7, 8])
    many = index.search_many(queries, vectors=wanted, where="n >= 5", threads=2)
    return answers(index), [scored(hits) for hits in many]
before, (ends, end) = told(), os.pipe()
if not (child := os.fork()):
    signal.alarm(60)
    same = told() == before
    os.close(end)
    os.read(ends, 1)  # until its parent has committed
    os._exit(0 if same and index.refresh() and len(index) == 90 and "d80" in index else 1)
os.close(ends)
add(index, documents(range(60, 90)), vectors(range(60, 90)))
os.close(end)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


ORPHAN = """
import os, subprocess, sys
from pathlib import Path
from tests.builders.small_indexes import add, documents, made, vectors
from vocabtool import Index
path = Path(sys.argv[1])
if len(sys.argv) > 2:
    for first in (10, 20, 30):
        rows = range(first, first + 10)
        add(Index.open(path), documents(rows), vectors(rows))
    sys.exit()
index, (ends, end) = made(path, range(10)), os.pipe()
if not (child := os.fork()):
    seen = []
    for _ in range(3):
        os.read(ends, 1)
        seen.append(index.refresh() and len(index))
    os._exit(0 if seen == [40, False, False] else 1)
del index
subprocess.run([sys.executable, "-c", os.environ["ORPHAN"], str(path), "write"], check=True)
os.write(end, b"...")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


# A lock that a thread of tantivy held during the fork: other processes would wait for it.
LOCKED = """
import fcntl, os, subprocess, sys
from pathlib import Path
from tests.builders.small_indexes import made
index, (ends, end) = made(Path(sys.argv[1]), range(10)), os.pipe()
(lock,) = Path(sys.argv[1]).rglob(".tantivy-meta.lock")
with lock.open("wb") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    if not (child := os.fork()):
        os.close(end)
        os.read(ends, 1)
        os._exit(0)
opened = "import sys, vocabtool; assert len(vocabtool.open(sys.argv[1])) == 10"
subprocess.run([sys.executable, "-c", opened, sys.argv[1]], check=True, timeout=60)
"""


@pytest.mark.parametrize(
    "code", [FORKED, READING, ORPHAN, LOCKED], ids=["lock", "reader", "orphan", "tantivy"]
)
def test_forked_processes(tmp_path: Path, code: str) -> None:
    """One that outlives a writer keeps no lock; a reader answers what its parent does, though it
    has used its threads, and outlives its index: SQLite's locks are its own."""
    (tmp_path / "index").mkdir()
    asked = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "index")]
    environment = os.environ | {"OMP_NUM_THREADS": "2", "ORPHAN": ORPHAN}
    assert subprocess.run(asked, cwd=ROOT, env=environment, check=False).returncode == 0


# Searching


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "search needs a text, a vector, 'where', 'sort' or 'facets'; got none"),
        ({"vector": np.ones(3)}, r"vector must have 4 numbers, got shape \(3,\)"),
        ({"vector": np.ones((2, 4))}, r"vector must have 4 numbers, got shape \(2, 4\)"),
        ({"text": "amber", "where": {"n": 3}}, r"where must be one text.* got \{'n': 3\}"),
    ],
)
def test_a_search_says_what_it_wants(tmp_path: Path, asked: dict[str, Any], told: str) -> None:
    """By the names of its arguments, and what was got."""
    index = made(tmp_path / "index")
    with pytest.raises(ValueError, match=told):
        index.search(**asked)
    with pytest.raises(TypeError, match="no argument 'filter'; its arguments are text, k,"):
        index.search("amber", filter="n = 3")  # type: ignore[call-arg] # the test
    with pytest.raises(TypeError, match=r"^search: too many positional arguments"):
        index.search("a", 3, None)  # type: ignore[call-arg] # the test
    with pytest.raises(TypeError, match=r"^create: missing a required argument: 'path'"):
        Index.create()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"shape \(2, 4\), got \(1, 4\)"):
        index.search_many(["amber", "birch"], vectors=vectors([1]))
    with pytest.raises(ValueError, match="got one text"):
        index.search_many("amber")


# Models


def other(texts: Sequence[str]) -> NDArray[np.float32]:
    """Another encoder of the same shape."""
    return counted_letters.encode(texts) + 1


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    """With both fingerprints, or where none made the vectors; what needs no encoder works."""
    own = Index.open(made(tmp_path / "own").path, counted_letters.encode)
    with pytest.raises(OtherModel, match=r"cosine"):
        own.search("amber")
    index = Index.create(tmp_path / "index", counted_letters.encode)
    add(index, [Document("x", "amber")])
    wrong = Index.open(tmp_path / "index", other)
    assert ids(wrong.search("amber", fusion="keyword")) == ["x"]
    with pytest.raises(OtherModel) as caught:
        wrong.search("amber")
    assert caught.value.part == "encoder"
    assert caught.value.wanted == open_encoder(counted_letters.encode).fingerprint
    assert caught.value.found == open_encoder(other).fingerprint
    assert "Perhaps its files or its code changed" in str(caught.value)
    with pytest.raises(OtherModel), wrong.writer() as writer:
        writer.add(["birch"])
    assert len(index) == 1


def test_no_model_is_imported_because_a_folder_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where a file is called like the name: the caller names it, each time."""
    name = "python:tests.counted_letters:encode"
    index = Index.create(tmp_path / "index", name)
    add(index, [Document("x", "amber")])
    monkeypatch.chdir(tmp_path)
    for attempt in range(2):
        again = Index.open(tmp_path / "index")
        assert ids(again.search("amber", fusion="keyword")) == ["x"]
        with pytest.raises(NotFound, match=r"must be named each time, .*; pass the model"):
            again.search("amber")
        with pytest.raises(NotFound, match=name):
            assert again.encoder is None
        if not attempt:
            (tmp_path / name).write_text("")
    (tmp_path / name).unlink()
    assert ids(Index.open(tmp_path / "index", name).search("amber")) == ["x"]


@pytest.mark.parametrize("model", ["vectors.txt", "static:vectors.txt"])
def test_a_model_that_is_a_file_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """From any folder, with its weights. If it was moved or changed, the copy is used."""
    (tmp_path / "vectors.txt").write_text("amber 1.0 0.0\nbirch 0.0 1.0\n")
    monkeypatch.chdir(tmp_path)
    sample = ["amber birch", "amber"]
    with pytest.raises(VocabtoolError, match="fitted on a sample"):
        Index.create("index", model, weights="idf")
    assert not Path("index").exists()
    index = Index.create("index", model, weights="idf", sample=sample, rule="lower")
    add(index, [Document("x", "Amber"), Document("y", "Birch")])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = Index.open(tmp_path / "index")
    assert scored(again.search("amber", fusion="dense")) == [("x", 1.0), ("y", 0.0)]
    assert [word.known for word in again.search("birch zebra").query.words] == [True, False]
    with pytest.raises(VocabtoolError, match="another encoder"):
        Index.open(tmp_path / "index", weights="none").search("amber")
    (tmp_path / "vectors.txt").write_text("amber 1.0 0.0\nbirch 0.0 2.0\n")
    told = "another file of word vectors: expected .* Perhaps its files"
    with pytest.raises(VocabtoolError, match=told):
        Index.open(tmp_path / "index", tmp_path / "vectors.txt").search("amber")
    (tmp_path / "vectors.txt").unlink()
    moved = Index.open(tmp_path / "index")
    assert scored(moved.search("amber", fusion="dense")) == [("x", 1.0), ("y", 0.0)]


def test_an_index_is_removed_by_the_only_writer(tmp_path: Path) -> None:
    """Not while another one writes, and not if it shall be empty and is not."""
    path = tmp_path / "index"
    index = Index.create(path, dim=2)
    with index.writer() as writer:
        writer.add([{"id": "a", "text": "amber"}], [[1, 0]])
        with pytest.raises(FolderInUse):
            Index.open(path).remove()
    index.remove(if_empty=True)
    assert Index.open(path).search("amber")[0].id == "a"
    Index.open(path).remove()
    assert not path.exists()


def test_an_index_beside_an_unfinished_replacement(tmp_path: Path) -> None:
    """A new index removes what a killed process began to build in an empty folder."""
    Index.create(tmp_path, dim=2, force=True, in_place=False, build="all")
    assert [*tmp_path.glob(".new-*")]
    Index.create(tmp_path, dim=2)
    assert not [*tmp_path.glob(".new-*")]


def test_force_replaces_an_index_of_another_version(tmp_path: Path) -> None:
    """With the files of the model that earlier versions wrote."""
    path = tmp_path / "index"
    Index.create(path, dim=2).close()
    for name in (
        "vocabulary-0123456789abcdef-01234567.parquet",
        "weights-0123456789abcdef-01234567.json",
    ):
        (path / name).write_bytes(b"old")
    index = Index.create(path, dim=3, force=True)
    with index.writer() as writer:
        writer.add([{"id": "a", "text": "amber"}], [[1, 0, 0]])
    assert len(index) == 1
    assert not [*path.glob("*.parquet"), *path.glob("*.json")]
