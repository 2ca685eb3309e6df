"""Killed loaders and killed servers: what was acknowledged is there, once, with right statistics.

The oracle is what each loader printed: this module, run as a program. It prints what it is about to
commit, and that it did: ``B {"id": text}``, ``C {...}``, one line each. A text of ``null`` deletes
the document.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from subprocess import CalledProcessError, TimeoutExpired

import numpy as np
import pytest

from tests.builders.postgres_server import PostgresServer, running_server
from tests.conftest import ROOT
from vocabtool import Document, Index, VocabtoolError

WAIT = 120.0  # seconds for what takes one or two
DIM = 4
IDS = 60  # of each loader
BATCH = 8


class Loader:
    """A process that loads documents of its own; what it prints goes to a file."""

    def __init__(self, address: str, owner: str, batches: int, folder: Path) -> None:
        self.owner = owner
        self._log = folder / owner
        module = ("-m", "tests.stores.test_postgres_kills")
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *module, address, owner, str(batches)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    @property
    def commits(self) -> int:
        return self._log.read_text().count("\nC {")

    def wait_for(self, commits: int) -> None:
        until = time.monotonic() + WAIT
        while self.commits < commits:
            assert self.process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < until, "the loader stands still"
            time.sleep(0.02)

    def states(self) -> list[dict[str, str]]:
        """What the acknowledged commits left; then the same with the one that was about to follow.

        The last line may be cut off by a kill.
        """
        held: dict[str, str] = {}
        next_: dict[str, str] = {}
        for line in self._log.read_text().splitlines(keepends=True):
            if line[:3] not in ("B {", "C {"):  # the error that ended the loader
                break
            if line.endswith("\n"):
                changed = {**held, **json.loads(line[2:])}
                next_ = {id_: text for id_, text in changed.items() if text is not None}
                if line.startswith("C"):
                    held = next_
        return [held, next_]

    def of(self, texts: dict[str, str]) -> dict[str, str]:
        return {id_: text for id_, text in texts.items() if id_.startswith(f"{self.owner}-")}


def texts_in(address: str) -> dict[str, str]:
    """All documents; fails if a statistic differs from a recount."""
    with Index.open(address) as index:
        assert index.verify().documents == len(index)
        return {document.id: document.text for document in index.documents()}


def test_killed_loaders(postgres_server: PostgresServer, full: bool, tmp_path: Path) -> None:
    """After a kill at any moment, nothing acknowledged is lost, and nothing is half done."""
    address = f"{postgres_server.new_database()}&index=test"
    Index.create(address, dim=DIM).close()
    draw = Random(30)
    for number in range(40 if full else 4):
        loader = Loader(address, f"k{number}", 10_000, tmp_path)
        try:
            loader.wait_for(1)
            time.sleep(draw.uniform(0, 0.3))  # the moment of the kill is what is drawn
        finally:
            loader.process.kill()
            loader.process.wait()
        assert loader.of(texts_in(address)) in loader.states()
    assert len(texts_in(address)) > 10


def test_killed_server(full: bool, tmp_path: Path) -> None:
    """After a kill nothing acknowledged is lost, nothing is half done, and readers go on."""
    draw = Random(10)
    with running_server() as server:
        address = f"{server.new_database()}&index=test"
        reader = Index.create(address, dim=DIM)
        for number in range(10 if full else 2):
            loader = Loader(address, f"s{number}", 10_000, tmp_path)
            try:
                loader.wait_for(3)
                time.sleep(draw.uniform(0, 0.1))  # the moment of the kill is what is drawn
                crash(server, address)
                assert loader.process.wait(WAIT) != 0
            finally:
                loader.process.kill()
                loader.process.wait()
            stored = {document.id: document.text for document in reader.documents()}
            assert stored == texts_in(address)
            assert loader.of(stored) in loader.states()
        reader.close()


def crash(server: PostgresServer, address: str) -> None:
    """Kill the postmaster with SIGKILL, and start the server again."""
    os.kill(server.handle.get_pid(), signal.SIGKILL)
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        try:  # its other processes end by themselves; until then the memory is theirs
            server.handle.ensure_postgres_running()
            Index.open(address).close()
            return
        except (AssertionError, CalledProcessError, TimeoutExpired, VocabtoolError):
            time.sleep(0.2)
    pytest.fail("the server did not start again")


def tell(sign: str, changed: dict[str, str | None]) -> None:
    sys.stdout.write(f"{sign} {json.dumps(changed)}\n")
    sys.stdout.flush()


def load(address: str, owner: str, batches: int) -> None:
    draw, index = Random(owner), Index.open(address)
    with index.writer() as writer:
        for number in range(batches):
            ids = draw.sample(range(IDS), BATCH)
            changed: dict[str, str | None] = {
                f"{owner}-{at}": f"amber {owner} birch{number} SKU-{at} word{draw.random()}"
                for at in ids
            }
            changed |= dict.fromkeys([f"{owner}-{at}" for at in ids[: BATCH // 4]])
            tell("B", changed)
            documents = [Document(id_, text) for id_, text in changed.items() if text is not None]
            writer.update(documents, np.ones((len(documents), DIM)))
            writer.delete(id_ for id_, text in changed.items() if text is None)
            writer.commit()
            tell("C", changed)


if __name__ == "__main__":
    load(sys.argv[1], sys.argv[2], int(sys.argv[3]))
