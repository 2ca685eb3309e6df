"""What is read of a whole commit beside a writer, and copies and deletions that are killed.

The steps of a copy are its flushes to the disk: it is killed at some of them, with ``--full`` at
every one.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.builders.small_indexes import answers, documents, made, vectors
from tests.conftest import ROOT
from tests.index.test_index_kills import kill_at_work, last
from tests.index_changes import DIM as CHANGING_DIM
from tests.index_changes import EXACT_BELOW, content, differs
from vocabtool import Document, Index
from vocabtool.errors import FolderInUse, InvalidCondition

SEED: Final = 6  # that of the writers of test_index_kills.py
# Runs a command, and kills the process at a flush, numbered from 1.
KILLED: Final = """
import os, signal, sys
flush, left = os.fsync, int(sys.argv[1])
def flushed(handle):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(handle)
os.fsync = flushed
sys.argv = ["vocabtool", *sys.argv[2:]]
from vocabtool.cli.main import main
main()
"""


def killed(step: int, *arguments: str | Path) -> int:
    """Run a command that is killed at a flush; return its exit code: negative if it was killed."""
    command = [sys.executable, "-c", KILLED, str(step), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode


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
    fetch = type(index.snapshot().documents).fetch_documents

    def noted(self: object, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Document]:
        sizes.append(len(rows))
        return fetch(self, rows)  # type: ignore[arg-type] # any store of documents

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(index.snapshot().documents), "fetch_documents", noted)
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


def test_a_copy_after_a_killed_writer(tmp_path: Path) -> None:
    """It has exactly the last commit; beside a writer there is none."""
    folder, log = tmp_path / "index", tmp_path / "writer.log"
    index = Index.create(folder, dim=CHANGING_DIM, exact_below=EXACT_BELOW)
    with index.writer(), pytest.raises(FolderInUse, match="already writing"):
        index.copy(tmp_path / "copy")
    for copied in ("one", "two"):
        kill_at_work(folder, log, 2, 0.05)
        snapshot = Index.open(folder).copy(tmp_path / copied).snapshot()
        commit = snapshot.manifest.commit
        assert commit >= last(log, "done")
        assert differs(snapshot, content(SEED, commit), random.Random(SEED)) is None
        assert Index.open(tmp_path / copied).verify().deleted == snapshot.manifest.deleted


def test_a_killed_copy_leaves_no_folder(tmp_path: Path, full: bool) -> None:
    """At any flush: the next copy removes what is left beside, and is complete."""
    index = made(tmp_path / "index", range(40), exact_below=10, vocabulary=["amber"])
    new, wanted = tmp_path / "new", answers(index)
    codes = []
    for step in range(1, 40, 1 if full else 4):
        codes.append(killed(step, "copy", tmp_path / "index", new))
        if not new.exists():
            assert codes[-1] == -signal.SIGKILL
            assert (tmp_path / ".new.part").is_dir()
            continue
        assert answers(Index.open(new)) == wanted  # killed after it got its name, or not at all
        assert Index.open(new).verify().documents == 40
        assert not (tmp_path / ".new.part").exists()
        shutil.rmtree(new)
        if codes[-1] == 0:
            break
    assert codes.count(-signal.SIGKILL) > 2
    assert codes[-1] == 0
