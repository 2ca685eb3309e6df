"""What nobody may see of an index that is opened and written to at once, and flushed in order."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.small_indexes import (
    answers,
    contents,
    delete,
    documents,
    ids,
    made,
    snapshot_of,
    vector,
    vectors,
)
from vocabtool import Index
from vocabtool.errors import InvalidFile, NotFound, OtherModel, VocabtoolError
from vocabtool.index import folder, maintenance
from vocabtool.index import index as index_module
from vocabtool.index.database import DatabaseWriter
from vocabtool.index.folder import Commit, Manifest, read_commit
from vocabtool.index.generation import Snapshot, open_snapshot
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.maintenance import verify as verified
from vocabtool.keywords.tantivy_index import TantivyReader
from vocabtool.search.search import search
from vocabtool.search.settings import Calibration

CALIBRATION = Calibration(a=0.25, judged=0, sample=100, seed=1)


def test_the_old_index_stays_until_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped just before the folder is renamed, all of it is there, its vocabulary too."""
    path = tmp_path / "index"
    before = answers(made(path, vocabulary=["amber"]))

    def stopped(part: Path, final: Path) -> None:
        if final.parent == path:
            raise InterruptedError
        make_current(part, final)

    make_current = folder.make_current
    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(folder, "make_current", stopped)
        Index.create(path, dim=2, vocabulary=["amber"], force=True)
    assert answers(Index.open(path)) == before
    (file,) = path.glob("vocabulary-*")
    file.write_bytes(b"nothing")
    Index.create(path, dim=2, vocabulary=["amber"], force=True)
    assert Index.open(path).verify().documents == 0


def test_no_thread_puts_back_an_earlier_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that began to refresh before a commit may end after a thread that saw it."""
    index = made(tmp_path / "index", range(3))
    other = Index.open(index.path)
    delete(other, ["d0"])
    begun, overtaken = threading.Event(), threading.Event()

    def slowly(*given: Any) -> Snapshot:
        opened = open_snapshot(*given)
        if threading.current_thread() is first:
            begun.set()
            overtaken.wait(1)  # in vain, as it should be
        return opened

    monkeypatch.setattr(index_module, "open_snapshot", slowly)
    first = threading.Thread(target=index.refresh)
    first.start()
    assert begun.wait(60)
    delete(other, ["d1"])
    index.refresh()
    overtaken.set()
    first.join()
    assert {*contents(index)} == {"d2"}


def test_several_queries_are_answered_by_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another one is seen before the last of them is answered."""
    index = made(tmp_path / "index", range(3))

    def searched(*given: Any, **more: Any) -> Any:
        if "d2" in index:
            delete(index, ["d2"])
        return search(*given, **more)

    monkeypatch.setattr(index_module, "search", searched)
    found = index.search_many(["only00002"] * 3, threads=1)
    assert [ids(each) for each in found] == [["d2"]] * 3
    assert ids(index.search("only00002")) == []


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

    def while_compacting(path: Path, snapshot: Snapshot, *more: Any) -> VerifyReport:
        if snapshot.commit.folder.name.endswith("0"):
            other.compact()
        return verified(path, snapshot, *more)

    monkeypatch.setattr(index_module, "verify", while_compacting)
    assert (index.verify().documents, snapshot_of(index).commit.folder.name[-1]) == (4, "1")
    (index.path / "generation-000001" / "vectors.bin").unlink()
    with pytest.raises(NotFound, match=r"vectors\.bin"):
        index.verify()


def test_calibration_is_kept_and_used(tmp_path: Path) -> None:
    """By who stores it and by who opens the folder, until a search says otherwise."""
    index = made(tmp_path / "index")
    index.store_calibration(CALIBRATION)
    for each in (index, Index.open(tmp_path / "index")):
        assert each.calibration == replace(CALIBRATION, documents=10)
        assert each.search("amber", vector=vector(0), fusion="convex").query.a == 0.25
        assert each.search("amber", vector=vector(0), fusion="convex", a=0.5).query.a == 0.5
    delete(index, ["d0"])
    index.compact()
    assert index.calibration == replace(CALIBRATION, documents=10)
    index.store_calibration(None)
    assert Index.open(tmp_path / "index").calibration is None
    assert index.search("amber", vector=vector(0), fusion="convex").query.a == 0.5


def test_another_keyword_rule_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that was cut by a rule of another version is not searched with ours."""
    from vocabtool.index import generation as module
    from vocabtool.keywords.cutter import Cutter

    ours = made(tmp_path / "index", range(3))

    class Newer(Cutter):
        def __init__(self, language: Any = "english") -> None:
            super().__init__(language)
            self.fingerprint = "f" * 64

    monkeypatch.setattr(module, "Cutter", Newer)
    with pytest.raises(OtherModel) as caught:
        Index.open(tmp_path / "index")
    assert (caught.value.part, caught.value.found) == ("keyword rule", "f" * 64)
    assert caught.value.wanted == ours.configuration.cutter


def test_a_copy_closes_the_generation_that_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer compacts while a copy begins: the transaction in the old database ends."""
    index = made(tmp_path / "index", range(40))
    index.delete([f"d{row}" for row in range(12)])
    found: list[Commit] = []

    def read(path: Path, earlier: Commit | None = None) -> Commit:
        if len(found) == 1:
            with monkeypatch.context() as plain:
                plain.setattr(maintenance, "read_commit", read_commit)
                Index.open(path).compact()
        found.append(read_commit(path, earlier))
        return found[-1]

    monkeypatch.setattr(maintenance, "read_commit", read)
    assert len(index.copy(tmp_path / "new")) == 28
    assert [commit.folder == found[0].folder for commit in found[:4]] == [True, *[False] * 3]
    for commit in found:
        with pytest.raises(VocabtoolError) as caught:
            commit.database.fetch("SELECT 1")
        assert "closed" in str(caught.value.__cause__)
