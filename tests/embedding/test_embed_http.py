"""Runs with an encoder behind HTTP: its server fails, or one of both is killed. The server counts.

Most kills run with ``--full`` only: ``pytest --full tests/embedding``.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.builders import embedding_server as server_of
from tests.builders.embedding_server import Reply, Server, body, half, lengths, status
from tests.conftest import ROOT
from tests.counted_letters import files_of, write_corpus
from vocabtool import Shards, embed, open_encoder
from vocabtool.errors import VocabtoolError

pytest.importorskip("urllib3", reason="the extra http is not installed")

DOCUMENTS: Final = 600
SHARD: Final = 100
BATCH: Final = 5
PROBE: Final = "How long is a vector?"


class Runs:
    """A corpus, and the numbers that its documents get."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "corpus.jsonl"
        self.texts = write_corpus(self.corpus, DOCUMENTS)

    def embed(self, server: Server, out: str = "out", retries: int = 3) -> Path:
        """Begin, or go on."""
        encoder = open_encoder(server.model, retries=retries)
        rows: Any = {"id_field": "id", "shard_rows": SHARD, "batch_size": BATCH}
        embed(str(self.corpus), encoder, self.folder / out, **rows)
        return self.folder / out

    def start(self, server: Server, out: str = "out") -> subprocess.Popen[bytes]:
        """The same as a person does it."""
        command = [sys.executable, "-m", "vocabtool", "embed", str(self.corpus), "--quiet"]
        command += ["--model", server.model, "--id-field", "id", "--shard-rows", str(SHARD)]
        command += ["--batch-size", str(BATCH)]
        command += ["-o", str(self.folder / out)]
        return subprocess.Popen(command, cwd=ROOT, env=os.environ, start_new_session=True)

    def committed(self, out: str = "out") -> list[str]:
        """The texts of the shards that are there."""
        shards = sorted((self.folder / out).glob("shard-*.parquet"))
        numbers = [int(shard.stem.partition("-")[2]) for shard in shards]
        return [text for at in numbers for text in self.texts[at * SHARD : (at + 1) * SHARD]]

    def check(self, server: Server, out: str = "out") -> None:
        """All documents are there, with the right vectors; nothing else was asked."""
        shards = Shards.open(self.folder / out)
        found = [vector.tolist() for batch in shards.vectors() for vector in batch]
        assert found == lengths(self.texts)
        assert {*server.asked} - {PROBE} == {*self.texts}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """In a folder of its own, without a key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Runs(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    """A request lasts 5 milliseconds."""
    with server_of.serve(seconds=0.005) as server:
        yield server


def again(server: Server, texts: list[str]) -> int:
    """How often these texts were asked after the first time."""
    return sum(max(server.asked[text] - 1, 0) for text in texts)


def test_a_storm(runs: Runs, server: Server) -> None:
    """Every fourth request fails, in five ways: the same bytes, and each vector was sent once."""
    whole = files_of(runs.embed(server, "whole"))
    server.asked.clear()
    server.vectors.clear()
    server.requests.clear()
    storm = [status(429, Retry_After="0"), status(503), half, body(b"{"), status(429)]
    server.schedule.extend(storm[at % 5] if at % 4 == 3 else None for at in range(4 * 40))
    assert files_of(runs.embed(server, retries=60)) == whole
    assert len(server.requests) == 1 + DOCUMENTS // BATCH + 40
    assert {*server.vectors.values()} == {1}
    runs.check(server)


def test_a_wrong_answer_midway(runs: Runs, server: Server) -> None:
    """It ends the run. The next one asks only for what is not committed."""
    wrong = server_of.rows(lambda data: [{**row, "embedding": [0.0] * 4} for row in data])
    server.schedule.extend([None] * 70)
    server.schedule.append(wrong)
    with pytest.raises(VocabtoolError, match=r"shape \(5, 3\), got \(5, 4\)"):
        runs.embed(server)
    committed = runs.committed()
    assert len(committed) == 3 * SHARD
    runs.embed(server)
    assert again(server, committed) == 0
    assert again(server, runs.texts) <= SHARD
    runs.check(server)


def test_a_server_that_is_killed(runs: Runs) -> None:
    """The run ends with what was committed, and goes on when the server is there again."""

    with server_of.serve(seconds=0.005) as server:

        def killed(reply: Reply) -> Reply:
            server.stop()
            return reply

        server.schedule.extend([None] * 50)
        server.schedule.append(killed)
        with pytest.raises(VocabtoolError, match=r"all attempts failed.*refused"):
            runs.embed(server)
    committed = runs.committed()
    assert len(committed) == 2 * SHARD
    with server_of.serve(port=server.server_port) as later:
        later.asked.update(server.asked)
        runs.embed(later)
        assert again(later, committed) == 0
        runs.check(later)


def test_a_server_that_starts_again(runs: Runs) -> None:
    """Within the retries the run does not end at all."""
    with server_of.serve(seconds=0.005) as server:
        process = runs.start(server)
        wait_for(server, 250, process)
        server.stop()
    assert process.poll() is None
    with server_of.serve(port=server.server_port) as later:
        assert process.wait(60) == 0
        later.asked.update(server.asked)
        assert again(later, runs.texts) <= 8 * BATCH
        runs.check(later)


def wait_for(server: Server, texts: int, process: subprocess.Popen[bytes]) -> None:
    """Until the server was asked for so many more, or the run ends."""
    end = time.monotonic() + 60
    start = server.asked.total()
    while process.poll() is None:
        with server.lock:
            if server.asked.total() - start >= texts:
                return
        assert time.monotonic() < end, "the run does not go on"
        time.sleep(0.001)


def test_a_run_that_is_killed(runs: Runs, server: Server, full: bool) -> None:
    """What is committed is never asked again; of the rest, at most a shard a kill."""
    generator = random.Random(1)
    for number in range(20 if full else 1):
        out = f"out-{number}"
        server.asked.clear()
        kills, kept = 0, dict[str, int]()  # how often each text was asked when it was committed
        while True:
            process = runs.start(server, out)
            wait_for(server, generator.randrange(SHARD, 2 * SHARD), process)
            if process.poll() is not None:
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            time.sleep(0.05)  # requests that were under way arrive
            kept = {text: server.asked[text] for text in runs.committed(out)} | kept
        assert process.returncode == 0
        assert kills > 1
        assert {text: server.asked[text] for text in kept} == kept
        assert again(server, runs.texts) <= kills * SHARD
        runs.check(server, out)
