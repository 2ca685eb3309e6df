"""What is read of a whole commit, also while an index is opened, written and searched at once."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests import counted_letters
from tests.builders.small_indexes import (
    FUSIONS,
    QUERIES,
    Scored,
    add,
    delete,
    documents,
    made,
    scored,
    set_manifest,
    snapshot_of,
    temporary_folder,
    vector,
    vectors,
)
from vocabtool import Document, Index
from vocabtool.errors import (
    InvalidCondition,
    InvalidFile,
    NotFound,
    OtherModel,
    VocabtoolError,
)
from vocabtool.index import folder_store, generation
from vocabtool.index.database import DatabaseWriter
from vocabtool.index.folder import Commit, Manifest
from vocabtool.index.folder_store import verify as verified
from vocabtool.index.generation import FolderSnapshot, canaries_of
from vocabtool.index.measures import Canaries
from vocabtool.index.snapshot import VerifyReport
from vocabtool.keywords.tantivy_index import TantivyReader


def test_documents_in_order(tmp_path: Path) -> None:
    """All of one commit, whatever a writer does; an update moves a document to the end."""
    index = made(tmp_path / "index", range(40))
    texts = index.documents()
    first = next(texts)
    other = Index.open(tmp_path / "index")
    with other.writer() as writer:
        writer.update(documents([5], version=1), vectors([5]))
        writer.delete(["d0", "d7"])
    other.compact()
    assert [first, *texts] == documents(range(40))
    assert [*index.ids()] == [f"d{number}" for number in range(40)]
    index.refresh()
    left = [number for number in range(40) if number not in (0, 5, 7)]
    assert [*index.documents()] == [*documents(left), *documents([5], version=1)]
    assert [*index.ids("n < 3 or n = 5")] == ["d1", "d2", "d5"]
    assert [*index.documents("even and n < 5")] == documents([2, 4])
    with pytest.raises(InvalidCondition, match="no field 'm'"):
        index.ids("m = 1").__next__()


def test_long_texts_are_read_in_small_blocks(tmp_path: Path) -> None:
    """After the first block, as many documents at once as have 4 MB of text."""
    index = made(tmp_path / "index", range(1))
    long = [{"id": f"l{number}", "text": f"{number} {'x ' * 300_000}"} for number in range(40)]
    with index.writer() as writer:
        writer.add(long, vectors(range(40)))
    sizes: list[int] = []
    fetch = FolderSnapshot.fetch_documents

    def noted(self: object, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Document]:
        sizes.append(len(rows))
        return fetch(self, rows)  # type: ignore[arg-type] # any store of documents

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderSnapshot, "fetch_documents", noted)
        assert [each.id for each in index.documents()] == ["d0", *(row["id"] for row in long)]
    assert sizes == [16, 7, 6, 6, 6]


def test_what_a_table_cannot_hold_as_it_is(tmp_path: Path) -> None:
    """Invalid UTF-8 of a field becomes U+FFFD; a column of numbers has one type."""
    index = Index.create(tmp_path / "index", dim=1)
    rows = [
        {"id": "a", "text": "x", "code": "caf\udce9", "n": 2**60 + 1, "none": None},
        {"id": "b", "text": "y", "code": "0012", "n": 0.5, "none": None},
    ]
    with index.writer() as writer:
        writer.add(rows, [[1], [2]])
    for ending in ("jsonl", "parquet"):
        index.export(tmp_path / f"x.{ending}")
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_bytes().splitlines()]
    assert [row["code"] for row in lines] == ["caf\ufffd", "0012"]
    assert [row["n"] for row in lines] == [2**60 + 1, 0.5]
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.schema.field("n").type == pa.float64()
    assert table.column("n").to_pylist() == [2.0**60, 0.5]
    assert table.column("code").to_pylist() == ["caf\ufffd", "0012"]
    assert table.column("none").to_pylist() == [None, None]
    with index.writer() as writer:
        writer.add([{"id": "c", "text": "z", "vector": 1}], [[3]])
    with pytest.raises(ValueError, match="field 'vector'"):
        index.export(tmp_path / "y.arrow", vectors=True)
    with pytest.raises(ValueError, match=r"\.jsonl, \.parquet, \.arrow"):
        index.export(tmp_path / "y.csv")
    assert not (tmp_path / "y.arrow").exists()


def test_names_are_flushed_before_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure the database names nothing that is not there: names come first."""
    index = made(tmp_path / "index", range(20), exact_below=10)
    files = index.path / "generation-000000"
    flushed: set[str] = set()
    missing: list[set[str]] = []
    fsync, commit = os.fsync, DatabaseWriter.commit

    def noted(handle: int) -> None:
        fsync(handle)
        if Path(f"/proc/self/fd/{handle}").readlink() == files:
            flushed.update(each.name for each in files.iterdir())

    def committed(database: DatabaseWriter, data: bytes, deleted: bytes) -> None:
        missing.append({*Manifest.decode(data).code_files} - flushed)
        commit(database, data, deleted)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(DatabaseWriter, "commit", committed)
    with index.writer() as writer:
        writer.delete(["d3"])
        writer.add(documents(range(20, 90)), vectors(range(20, 90)))
    assert "codes-000002.faiss" in flushed
    assert missing == [set()]


def test_a_reader_that_meets_a_commit_while_it_opens_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that it was about to open may be gone by then, those of the keyword leg first."""
    from vocabtool.index import generation as snapshot

    index = made(tmp_path / "index", range(3))
    tries = 0

    def reader(files: Path) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:  # what a writer does whose keyword leg is committed, and no more yet
            held = (files / "meta.json").read_bytes()
            (files / "meta.new").write_bytes(held)
            (files / "meta.new").replace(files / "meta.json")
            raise InvalidFile("missing", file=str(files / "gone.term"))
        return TantivyReader(files)

    monkeypatch.setattr(snapshot, "TantivyReader", reader)
    assert len(Index.open(index.path)) == 3
    monkeypatch.setattr(snapshot, "TantivyReader", lambda files: reader(files / ".." / "gone"))
    with pytest.raises(VocabtoolError, match="gone"):
        Index.open(index.path)


def test_verify_begins_again_where_a_writer_took_files_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction meanwhile is no damage; what is missing without one is."""
    index = made(tmp_path / "index", range(5))
    delete(index, ["d0"])
    other = Index.open(index.path)

    def while_compacting(path: Path, snapshot: FolderSnapshot, *more: Any) -> VerifyReport:
        if snapshot.commit.folder.name.endswith("0"):
            other.compact()
        return verified(path, snapshot, *more)

    monkeypatch.setattr(folder_store, "verify", while_compacting)
    assert (index.verify().documents, snapshot_of(index).commit.folder.name[-1]) == (4, "1")
    (index.path / "generation-000001" / "vectors.bin").unlink()
    with pytest.raises(NotFound, match=r"vectors\.bin"):
        index.verify()


@pytest.mark.parametrize("reading", [1, 2])
def test_a_model_is_compared_with_documents_that_a_writer_moves(
    reading: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction when the model is opened, or when `verify` encodes documents again."""
    index, readings = Index.create(tmp_path / "index", dim=counted_letters.DIM), list[Commit]()
    add(index, documents(range(5)), counted_letters.encode([d.text for d in documents(range(5))]))

    def read_meanwhile(commit: Commit) -> Canaries:
        readings.append(commit)
        if len(readings) == reading:
            delete(index, ["d0"])
            index.compact()
        return canaries_of(commit)

    monkeypatch.setattr(generation, "canaries_of", read_meanwhile)
    report = Index.open(index.path, counted_letters.encode).verify(model=True)
    assert report.encoded is not None
    assert (report.encoded.documents, len(readings)) == (4, 3)


def test_another_keyword_rule_is_refused(tmp_path: Path) -> None:
    """An index that was cut by a rule of another version is not searched with ours."""
    index = made(tmp_path / "index", range(3))
    ours, changed = index.configuration.cutter, replace(index.configuration, cutter="f" * 64)
    set_manifest(tmp_path / "index", replace(index.manifest, configuration=changed))
    with pytest.raises(OtherModel) as caught:
        Index.open(tmp_path / "index")
    told = caught.value
    assert (told.part, told.wanted, told.found) == ("keyword rule", "f" * 64, ours)
    assert str(told).endswith("Index the texts again")


# One ``Index`` object in several threads, as its docstring allows.


COMMITS: Final = 8
NUMBERS: Final = range(30)
VECTORS: Final = np.stack([vector(-at - 1 & 0xFF) for at in range(len(QUERIES))])
Asked = tuple[str, str]  # what is asked, and by which fusion


def ask(index: Index, kind: str, fusion: Any) -> Sequence[Scored | Document]:
    """What a call answers; everything in it must be of one commit."""
    if kind == "documents":
        return [*index.documents()]
    if kind == "many":
        return [*map(scored, index.search_many(QUERIES, vectors=VECTORS, fusion=fusion))]
    at = QUERIES.index(kind)
    return [scored(index.search(kind, vector=VECTORS[at], fusion=fusion, explain=True))]


ASKED: Final[list[Asked]] = [
    ("documents", ""),
    *((kind, fusion) for kind in ("many", *QUERIES) for fusion in FUSIONS),
]


def test_searches_refreshes_and_changes_at_once() -> None:
    """Every answer is that of one commit, as an object used by one thread gives it, in order."""
    done = threading.Event()

    def read(index: Index, seed: int) -> list[tuple[Asked, object]]:
        draw = np.random.default_rng(seed)
        found: list[tuple[Asked, object]] = []
        while not done.is_set() or len(found) < len(ASKED):
            asked = ASKED[draw.integers(len(ASKED))]
            found.append((asked, ask(index, *asked)))
        return found

    def refresh(index: Index) -> int:
        newer = 0
        while not done.is_set():
            newer += index.refresh()
        return newer

    with temporary_folder() as there:
        folder = Path(there) / "index"
        index, other = made(folder, NUMBERS), Index.open(folder)
        expected = [{asked: ask(Index.open(folder), *asked) for asked in ASKED}]
        with ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read, index, seed) for seed in range(4)]
            refreshing = pool.submit(refresh, index)
            for version in range(1, COMMITS):
                changed = NUMBERS[version::3]
                with (index, other)[version % 2].writer() as writer:
                    writer.update(documents(changed, version), vectors(changed, version))
                alone = Index.open(folder)
                expected.append({asked: ask(alone, *asked) for asked in ASKED})
            done.set()
            seen = [each.result() for each in readers]
            refreshing.result()
    for read_by_one in seen:
        commit = 0
        for asked, answer in read_by_one:
            while expected[commit][asked] != answer:
                commit += 1
                assert commit < COMMITS, (
                    f"{asked}: the answer is of no commit, or of an earlier one"
                )
    assert len({answer for each in expected for answer in map(str, each.values())}) > COMMITS


def test_columns_in_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest is kept in any case, so that a search reads each field once."""
    index = made(tmp_path / "index", range(5))
    snapshot = snapshot_of(index)
    assert snapshot.column("n") is snapshot.column("n")
    monkeypatch.setattr(generation, "KEPT_BYTES", snapshot.column("n").size)
    even = snapshot.column("even")
    assert snapshot.column("even") is even
    assert snapshot.column("n").values == (0, 1, 2, 3, 4)
    assert snapshot.column("even") is not even
