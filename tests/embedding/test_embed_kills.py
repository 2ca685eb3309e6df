"""Runs that are killed at random moments, and then gone on with.

A tenth of the kills by default, all with ``--full``: ``pytest --full tests/embedding``.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import ROOT
from tests.counted_letters import LOG, SECONDS, files_of, noted_as, write_corpus

DOCUMENTS: Final = 1500
SHARD: Final = 100
KILLS: Final = 60
BATCH_SECONDS: Final = "0.02"
LONGEST: Final = 6.0  # seconds from start to kill
MODEL: Final = "python:tests.counted_letters:logged"
# The command, for which a batch of 20 is slow.
MAIN: Final = """
from vocabtool.encoders import encoder
from vocabtool.cli.main import main
encoder.MOST_SECONDS = 0.04
main()
"""


class Runs:
    """One corpus, and what an uninterrupted run makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "corpus.jsonl"
        self.texts = write_corpus(self.corpus, DOCUMENTS)
        self.names = {*map(noted_as, self.texts)}
        self.environment = {**os.environ, SECONDS: BATCH_SECONDS, LOG: str(folder / "log")}
        start = time.monotonic()
        self.finish(folder / "whole")
        self.seconds = time.monotonic() - start
        self.wanted = files_of(folder / "whole")

    def command(self, out: Path) -> list[str]:
        options = ["--id-field", "id", "--keep", "title", "--shard-rows", str(SHARD), "--quiet"]
        options += ["--batch-size", "20", "-o", str(out)]
        command = [sys.executable, "-c", MAIN, "embed", str(self.corpus)]
        return [*command, "--model", MODEL, *options]

    def start(self, out: Path, *options: str) -> subprocess.Popen[bytes]:
        command, environment = [*self.command(out), *options], self.environment
        return subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True)

    def finish(self, out: Path) -> None:
        assert self.start(out).wait(timeout=120) == 0

    def encoded(self) -> Counter[str]:
        """How often each document was encoded since the log was begun."""
        log = Path(self.environment[LOG])
        lines = log.read_text().splitlines() if log.exists() else []
        whole = (parts for parts in map(str.split, lines) if len(parts) == 2)  # not cut by a kill
        return Counter(name for _, name in whole if name in self.names)

    def forget(self) -> None:
        Path(self.environment[LOG]).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("kills"))


def killed(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Kill a run after a while; whether it was still at work."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def killed_after(runs: Runs, process: subprocess.Popen[bytes], documents: int) -> bool:
    """Kill a run when so many documents were encoded; whether it was still at work."""
    deadline = time.monotonic() + 120
    while process.poll() is None and runs.encoded().total() < documents:
        assert time.monotonic() < deadline, "the run does not go on"
        time.sleep(0.005)
    return killed(process, 0)


def test_a_killed_run_goes_on(
    runs: Runs, full: bool, record_property: Callable[[str, object], None]
) -> None:
    """Killed at any moment: the folder ends with the same bytes, and little is done twice.

    The moment is drawn from the time that a run takes, starting included, or from its documents.
    No document is lost or there twice (the bytes are those of a whole run); what was encoded more
    than once is at most one shard for each kill.
    """
    generator = random.Random(1)
    kills = KILLS if full else KILLS // 10
    at_work = redone = number = 0
    while at_work < kills:  # a run that ended before its moment is looked at, but does not count
        assert number < 3 * kills, "most runs end before they are killed"
        out = runs.folder / f"out-{number}"
        runs.forget()
        process = runs.start(out)
        if number % 2:
            longest = min(LONGEST, 1.1 * runs.seconds)
            at_work += killed(process, generator.uniform(0.1, longest))
        else:
            at_work += killed_after(runs, process, generator.randrange(DOCUMENTS - SHARD))
        runs.finish(out)
        assert files_of(out) == runs.wanted
        again = sum(count - 1 for count in runs.encoded().values())
        assert again <= SHARD
        redone += again
        shutil.rmtree(out)
        number += 1
    record_property("runs", number)
    record_property("killed_at_work", at_work)
    record_property("documents_done_twice", redone)


def test_a_slow_run_loses_no_more_than_a_batch(runs: Runs) -> None:
    """Though no shard is finished: what was encoded is found again. Also half of a record.

    Three batches of 20 may be encoded, but not kept, when the process is killed.
    """
    options = ("--shard-rows", "65536")
    out, whole = runs.folder / "slow", runs.folder / "whole-slow"
    assert runs.start(whole, *options).wait(timeout=120) == 0
    runs.forget()
    assert killed_after(runs, runs.start(out, *options), 700)
    (kept,) = out.glob(".shard-*.vectors")
    with kept.open("ab") as file:
        file.write(b"half of a record")
    assert runs.start(out, *options).wait(timeout=120) == 0
    assert files_of(out) == files_of(whole)
    counts = runs.encoded().values()
    assert sum(counts) - len(counts) <= 60


def test_an_interrupted_run_goes_on(runs: Runs) -> None:
    """Control-C leaves no half of a shard."""
    out = runs.folder / "out-interrupted"
    handled = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", handled + MAIN, *runs.command(out)[3:]]
    options: dict[str, Any] = {"env": runs.environment, "cwd": ROOT, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **options)
    while not (out / "shard-000002.parquet").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert b"Traceback" not in told
    assert list(out.glob("*.part")) == []
    runs.finish(out)
    assert files_of(out) == runs.wanted
