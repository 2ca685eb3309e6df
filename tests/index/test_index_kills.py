"""Writers that are killed at random moments while readers run beside them, and killed copies.

A tenth of the kills by default, all with ``--full``: ``pytest --full tests/index``.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.builders.small_indexes import answers, made
from tests.conftest import ROOT
from tests.index_changes import DIM, EXACT_BELOW, content, differs
from vocabtool import Index
from vocabtool.errors import FolderInUse

KILLS: Final = 60
READERS: Final = 2
SEED: Final = 6
MOST_COMMITS: Final = 6  # of a writer before it is killed
LONGEST: Final = 0.4  # seconds until then


def started(what: str, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """A writer or reader in a process of its own."""
    command = [sys.executable, "-m", "tests.index_changes", what, str(folder), str(SEED), str(log)]
    return subprocess.Popen(command, cwd=ROOT)


def last(log: Path, word: str) -> int:
    """The last number that a log tells after a word; -1: none."""
    lines = log.read_text().splitlines() if log.exists() else []
    return max((int(line.split()[1]) for line in lines if line.startswith(word)), default=-1)


def commits(log: Path) -> int:
    """How many commits a log acknowledges; -1: its writer is still starting."""
    return max(last(log, "done") - last(log, "at"), 0) if last(log, "at") >= 0 else -1


def kill_at_work(folder: Path, log: Path, after: int, seconds: float) -> None:
    """Start a writer, and kill it some time after so many commits (0: after it began)."""
    log.unlink(missing_ok=True)
    writer = started("write", folder, log)
    deadline = time.monotonic() + 120
    while commits(log) < after:
        assert writer.poll() is None, "the writer ended by itself"
        assert time.monotonic() < deadline, "the writer does not commit"
        time.sleep(0.002)
    time.sleep(seconds)
    assert writer.poll() is None, "the writer ended by itself"
    writer.send_signal(signal.SIGKILL)
    writer.wait()


@contextmanager
def readers(folder: Path, logs: list[Path]) -> Iterator[None]:
    """Readers that run during the block, and not one of them has found anything wrong then."""
    running = [started("read", folder, log) for log in logs]
    try:
        yield
        assert [each.poll() for each in running] == [None] * len(running), "a reader ended"
    finally:
        for each in running:
            each.kill()
            each.wait()


def test_a_killed_writer_loses_nothing(
    tmp_path: Path, full: bool, record_property: Callable[[str, object], None]
) -> None:
    """Killed at any moment, in adding, updating, deleting, compacting and building codes.

    The index opens at the last commit that was acknowledged, or at the next one, if the kill came
    between the commit and its acknowledgement; both legs hold exactly that commit's documents; the
    next writer goes on from there. Readers in other processes see whole commits only, all the time.
    """
    folder, log = tmp_path / "index", tmp_path / "writer.log"
    Index.create(folder, dim=DIM, exact_below=EXACT_BELOW)
    draw = random.Random(SEED)
    logs = [tmp_path / f"reader{number}.log" for number in range(READERS)]
    rounds, ahead = KILLS if full else KILLS // 10, 0
    with readers(folder, logs):
        for _ in range(rounds):
            kill_at_work(folder, log, draw.randint(0, MOST_COMMITS), draw.uniform(0, LONGEST))
            acknowledged = max(last(log, "done"), last(log, "at"))
            snapshot = Index.open(folder).snapshot()
            commit = snapshot.manifest.commit
            assert acknowledged <= commit <= acknowledged + 1
            ahead += commit - acknowledged
            assert differs(snapshot, content(SEED, commit), draw) is None
    told = [line for each in logs for line in each.read_text().splitlines()[:-1]]
    assert [line for line in told if not line.endswith(" right")] == []
    seen = {int(line.split()[1]) for line in told}
    assert len(seen) > rounds  # they did read meanwhile
    with Index.open(folder).writer() as writer:  # what the last kill left is removed
        writer.delete(["no such document"])
    index = Index.open(folder)
    assert index.verify().documents == len(content(SEED, index.manifest.commit))
    record_property("kills", rounds)
    record_property("commits", index.manifest.commit)
    record_property("commits not yet acknowledged", ahead)
    record_property("looks of readers", len(told))


# Copies


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


def test_a_copy_after_a_killed_writer(tmp_path: Path) -> None:
    """It has exactly the last commit; beside a writer there is none."""
    folder, log = tmp_path / "index", tmp_path / "writer.log"
    index = Index.create(folder, dim=DIM, exact_below=EXACT_BELOW)
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
