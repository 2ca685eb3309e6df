"""Writers that are killed at random moments while readers run beside them.

A tenth of the kills by default, all with ``--full``: ``pytest --full tests/index``.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.conftest import ROOT
from tests.index_changes import DIM, EXACT_BELOW, content, differs
from vocabtool import Index

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
