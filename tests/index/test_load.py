"""Documents loaded from files: each is there once, whatever happens on the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests import counted_letters
from tests.builders.small_indexes import contents, ids, texts
from tests.index.noting import LONG, asked_of, fails_at, nothing_noted, noting  # noqa: F401 - a fixture
from vocabtool import (
    ChangedRun,
    Document,
    Index,
    InvalidFile,
    NotFound,
    OtherModel,
    VocabtoolError,
    embed,
    open_encoder,
)
from vocabtool.documents import ReadOptions, batches

DIM: Final = counted_letters.DIM
DOCUMENTS: Final = 5000


def of_file(documents: Sequence[tuple[str, str]], path: Path) -> Path:
    """JSON lines of ids and texts."""
    lines = (json.dumps({"id": id_, "text": text}) for id_, text in documents)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def before_the_block_of(number: int, path: Path) -> int:
    """How many documents of a file come before the block that a document is in."""
    read = batches(path, ReadOptions(id_field="id"), size=1 << 20)
    starts = [0, *accumulate(len(batch) for batch in read)]
    assert len(starts) > 2  # else the test tests nothing
    return max(start for start in starts if start <= number)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_load_that_stops_is_gone_on_with(tmp_path: Path, threads: int) -> None:
    """What was committed stays, the same call goes on: every document once, in order.

    Nothing is encoded again but what came after the last commit.
    """
    all_texts = counted_letters.write_corpus(tmp_path / "x.jsonl", DOCUMENTS, LONG)
    index = Index.create(tmp_path / "index", noting, exact_below=2000)
    load: dict[str, Any] = {"id_field": "id", "keep": ["n"], "commit_rows": 1, "threads": threads}
    fails_at.append(all_texts[3500])
    with pytest.raises(RuntimeError, match="failed at document 3500"):
        index.load(tmp_path / "x.jsonl", **load)
    stopped = Index.open(tmp_path / "index")
    held = len(stopped)
    assert held == before_the_block_of(3500, tmp_path / "x.jsonl")
    assert {*texts(stopped)} == {f"d{number}" for number in range(held)}
    assert stopped.verify().documents == held
    fails_at.clear()
    asked_of.clear()
    again = Index.open(tmp_path / "index", noting)
    report = again.load(tmp_path / "x.jsonl", **load)
    assert (report.read, report.resumed, report.added) == (DOCUMENTS, held, DOCUMENTS - held)
    new = [text for text in asked_of if text not in all_texts[:held]]
    assert sorted(new) == sorted(all_texts[held:])
    assert len(asked_of) - len(new) == 8  # the canaries
    assert texts(again) == {f"d{number}": text for number, text in enumerate(all_texts)}
    assert again.verify().approximate
    stored = again.snapshot().documents.ids(np.arange(DOCUMENTS))
    assert stored == [f"d{number}" for number in range(DOCUMENTS)]
    for number in (0, held - 1, held, DOCUMENTS - 1):
        found = again.snapshot().vectors.take(np.array([number]))[0]
        wanted = counted_letters.encode([all_texts[number]])[0]
        assert found == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-3)


def stop_half_way(tmp_path: Path, **options: Any) -> tuple[Index, list[str]]:
    """An index with the first of 2000 documents, up to some before the 1500th."""
    all_texts = counted_letters.write_corpus(tmp_path / "x.jsonl", 2000, LONG)
    index = Index.create(tmp_path / "index", noting)
    fails_at.append(all_texts[1500])
    with pytest.raises(RuntimeError, match="failed at"):
        index.load(tmp_path / "x.jsonl", id_field="id", commit_rows=1, threads=1, **options)
    fails_at.clear()
    asked_of.clear()
    return Index.open(tmp_path / "index", noting), all_texts


def touch(tmp_path: Path) -> dict[str, Any]:
    os.utime(tmp_path / "x.jsonl", (1, 1))
    return {"id_field": "id"}


def append(tmp_path: Path) -> dict[str, Any]:
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write('{"id": "new", "text": "new"}\n')
    return {"id_field": "id"}


@pytest.mark.parametrize(
    "change",
    [touch, append, lambda path: {}, lambda path: {"id_field": "id", "keep": ["n"]}],
    ids=["touched", "longer", "other ids", "other fields"],
)
def test_another_load_is_refused_while_one_is_half_done(
    tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    """Else nobody could tell which documents are in."""
    index, _ = stop_half_way(tmp_path)
    held = before_the_block_of(1500, tmp_path / "x.jsonl")
    arguments = change(tmp_path)
    with pytest.raises(ChangedRun, match="an earlier load was interrupted"):
        index.load(tmp_path / "x.jsonl", **arguments)
    with pytest.raises(ChangedRun, match="an earlier load was interrupted"):
        index.load(iter(["text"]))
    assert (len(index), asked_of, index.verify().loading) == (held, [], True)


@pytest.mark.parametrize("compact", [False, True])
def test_other_changes_between_two_parts_of_a_load(tmp_path: Path, compact: bool) -> None:
    """Are kept: what was deleted stays so, what was added may be of an id that comes yet."""
    index, all_texts = stop_half_way(tmp_path)
    with index.writer() as writer:
        writer.delete(["d5"])
        writer.add([Document("d1800", "mine")])
    if compact:
        assert index.compact() == 1
    with pytest.raises(VocabtoolError, match="'d1800' is in the index already"):
        index.load(tmp_path / "x.jsonl", id_field="id")
    report = index.load(tmp_path / "x.jsonl", id_field="id", on_existing="skip")
    assert report.read == 2000
    wanted = {f"d{number}": text for number, text in enumerate(all_texts)} | {"d1800": "mine"}
    del wanted["d5"]
    assert texts(index) == wanted


def test_a_field_keeps_its_kind(tmp_path: Path) -> None:
    """A later word among numbers is refused with its place, or left out and counted."""
    first, later = tmp_path / "first.jsonl", tmp_path / "later.jsonl"
    rows = [{"id": "a", "text": "one", "size": 1, "open": True, "tag": "x"}]
    first.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [
        {"id": "b", "text": "two", "size": 70.5, "open": False, "tag": 3},
        {"id": "c", "text": "three", "size": "big", "open": "ajar", "tag": [1]},
        {"id": "d", "text": "four", "size": None, "open": 1, "tag": None},
    ]
    later.write_text("".join(json.dumps(row) + "\n" for row in rows))
    index = Index.create(tmp_path / "index", noting)
    keep = ("size", "open", "tag")
    index.load(first, id_field="id", keep=keep)
    told = r"later\.jsonl:2: the field 'size'"
    with pytest.raises(VocabtoolError, match=told):
        index.load(later, id_field="id", keep=keep)
    assert len(index) == 1
    report = index.load(later, id_field="id", keep=keep, on_error="skip")
    assert (report.added, report.skipped, report.left_out) == (3, 0, 3)
    places = [
        (place.rpartition(":")[2], what.split("'")[1]) for place, what in report.first_left_out
    ]
    assert places == [("2", "size"), ("2", "open"), ("3", "open")]
    assert contents(index)["c"].fields == {"tag": "[1]"}
    assert ids(index.search(vector=np.ones(DIM), where="size > 60")) == ["b"]
    assert ids(index.search(vector=np.ones(DIM), where="size = 1 and open")) == ["a"]


def test_streams_are_loaded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iterator, standard input; nothing tells one from another, so it is never done."""
    index = Index.create(tmp_path / "index", noting)

    def stream() -> Iterator[Document]:
        for number in range(3000):
            yield Document(f"s{number}", f"document {number}")

    report = index.load(stream(), commit_rows=1000)
    assert (report.read, report.added, len(index)) == (3000, 3000, 3000)
    assert index.manifest.load is None
    with pytest.raises(VocabtoolError, match="in the index already"):
        index.load(stream())
    assert index.load(stream(), on_existing="skip").added == 0
    assert index.load([Document("t", "last")], on_existing="skip").added == 1
    assert {*texts(index)} == {"t", *(f"s{number}" for number in range(3000))}
    with of_file([("a", "one")], tmp_path / "x.jsonl").open() as opened:
        monkeypatch.setattr("sys.stdin", opened)
        assert index.load("-", format="jsonl", id_field="id").read == 1
    assert (texts(index)["a"], index.manifest.load) == ("one", None)


def test_wrong_sources_leave_the_index_as_it_is(tmp_path: Path) -> None:
    """A file that is not there, one in the index itself, an index of own vectors."""
    index = Index.create(tmp_path / "index", noting)
    with pytest.raises(NotFound, match="nothing"):
        index.load(tmp_path / "nothing.jsonl")
    with pytest.raises(VocabtoolError, match="is in the output folder"):
        index.load(tmp_path / "index" / "manifest.json")
    with pytest.raises(ValueError, match="commit_rows"):
        index.load(iter(["text"]), commit_rows=0)
    own = Index.create(tmp_path / "own", dim=4)
    with pytest.raises(VocabtoolError, match="contains your own vectors"):
        own.load(of_file([("a", "one")], tmp_path / "x.jsonl"))
    assert (len(index), len(own)) == (0, 0)
    with index.writer():
        pass  # nothing is locked


# Folders of ``vocabtool embed``


def embedded(tmp_path: Path, **options: Any) -> tuple[Path, list[str]]:
    """A folder of shards of 2000 documents."""
    all_texts = counted_letters.write_corpus(tmp_path / "x.jsonl", 2000, LONG)
    file, shards = tmp_path / "x.jsonl", tmp_path / "shards"
    encoder = open_encoder(counted_letters.encode, fingerprint="1")
    embed(file, encoder, shards, id_field="id", keep=["n", "title"], shard_rows=700, **options)
    return shards, all_texts


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    """Of each part for itself: a folder of shards, and files."""
    shards, _ = embedded(tmp_path)
    more = tmp_path / "more.jsonl"
    counted_letters.write_corpus(more, 3000, LONG)
    more.write_text(more.read_text().replace('"id": "d', '"id": "e'))
    index = Index.create(tmp_path / "index", counted_letters.encode, fingerprint="1")
    told: list[float] = []
    seen: list[str] = []

    def tell(step: str, share: float) -> None:
        if step.endswith(" documents"):
            seen.append(step)
            told.append(share)

    index.load(shards, progress=tell)
    assert told == [0.35, 0.7, 1.0]
    told.clear()
    index.load(more, ReadOptions(id_field="id"), progress=tell)
    assert told == sorted(told) and told[-1] == 1.0
    told.clear()
    index.update(sync=True, progress=tell)
    files, shares = told[:-3], told[-3:]  # the last one loaded is read first
    assert files == sorted(files) and files[-1] == 1.0
    assert shares == [0.35, 0.7, 1.0]


@pytest.mark.parametrize("model", [True, False])
def test_vectors_of_shards_are_taken_as_they_are(tmp_path: Path, model: bool) -> None:
    """With a model, which is not asked, or as one's own; a load may stop within a shard."""
    shards, all_texts = embedded(tmp_path)
    given: dict[str, Any] = (
        {"model": counted_letters.encode, "fingerprint": "1"} if model else {"dim": DIM}
    )
    index = Index.create(tmp_path / "index", metric="l2", dtype="float32", exact_below=500, **given)

    def tell(what: str, share: float) -> None:
        assert (what, share) in [("700 documents", 0.35), ("1,400 documents", 0.7)]
        if what.startswith("1,400"):
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        index.load(shards, commit_rows=1, progress=tell)
    assert len(Index.open(tmp_path / "index")) == 1400
    report = index.load(shards, commit_rows=500)
    assert (report.read, report.resumed, report.added) == (2000, 1400, 600)
    assert contents(index) == {
        f"d{number}": Document(f"d{number}", text, {"n": number, "title": f"t{number % 10}"})
        for number, text in enumerate(all_texts)
    }
    held = index.snapshot().vectors.take(np.arange(2000))
    assert held.tolist() == counted_letters.encode(all_texts).tolist()
    assert index.verify().approximate
    again = index.load(shards, commit_rows=500)
    assert (again.read, again.resumed, again.added) == (2000, 2000, 0)


def test_shards_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Of another encoder, of other dimensions, without texts, or damaged."""
    shards, _ = embedded(tmp_path)
    other = Index.create(tmp_path / "other", counted_letters.encode, fingerprint="2")
    with pytest.raises(OtherModel, match="encoder"):
        other.load(shards)
    wide = Index.create(tmp_path / "wide", dim=8)
    with pytest.raises(VocabtoolError, match="its vectors have 4 numbers"):
        wide.load(shards)
    assert Index.open(tmp_path / "wide").verify().documents == 0
    (tmp_path / "more").mkdir()
    bare, _ = embedded(tmp_path / "more", text=False)
    own = Index.create(tmp_path / "own", dim=DIM)
    with pytest.raises(VocabtoolError, match="contains no texts"):
        own.load(bare)
    shard = sorted(shards.glob("*.parquet"))[1]
    data = shard.read_bytes()
    shard.write_bytes(data[:-100])
    with pytest.raises(InvalidFile, match=shard.name):
        own.load(shards)
    assert len(Index.open(tmp_path / "own")) == 0
