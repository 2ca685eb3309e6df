"""Killed loaders and killed servers: what was acknowledged is there, once, with right statistics.

The oracle is the list of commits that each loader printed.
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

import pytest

from tests.builders.postgres_server import PostgresServer, running_server
from tests.builders.postgres_store import new_index, texts_in
from tests.conftest import ROOT
from vocabtool import VocabtoolError
from vocabtool.index.postgres.database import Connections

WAIT = 120.0  # seconds for what takes one or two


class Loader:
    """A process that loads documents of its own; what it prints goes to a file."""

    def __init__(self, address: str, owner: str, batches: int, folder: Path) -> None:
        self.owner = owner
        self._log = folder / owner
        module = ("-m", "tests.builders.postgres_store")
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


def test_killed_loaders(postgres_server: PostgresServer, full: bool, tmp_path: Path) -> None:
    """After a kill at any moment, nothing acknowledged is lost, and nothing is half done."""
    address = postgres_server.new_database()
    connections = new_index(address)
    draw = Random(30)
    for number in range(40 if full else 4):
        loader = Loader(address, f"k{number}", 10_000, tmp_path)
        try:
            loader.wait_for(1)
            time.sleep(draw.uniform(0, 0.3))  # the moment of the kill is what is drawn
        finally:
            loader.process.kill()
            loader.process.wait()
        assert loader.of(texts_in(connections)) in loader.states()
    assert len(texts_in(connections)) > 10


def test_killed_server(full: bool, tmp_path: Path) -> None:
    """After a kill nothing acknowledged is lost, nothing is half done, and readers go on."""
    draw = Random(10)
    with running_server() as server:
        address = server.new_database()
        connections = new_index(address)
        for number in range(10 if full else 2):
            loader = Loader(address, f"s{number}", 10_000, tmp_path)
            try:
                loader.wait_for(3)
                time.sleep(draw.uniform(0, 0.1))  # the moment of the kill is what is drawn
                crash(server)
                assert loader.process.wait(WAIT) != 0
            finally:
                loader.process.kill()
                loader.process.wait()
            stored = connections.fetch(
                f"SELECT id, text FROM documents_{connections.find_index('test')}"
            )
            assert dict(stored) == texts_in(connections)
            assert loader.of(dict(stored)) in loader.states()


def crash(server: PostgresServer) -> None:
    """Kill the postmaster with SIGKILL, and start the server again."""
    os.kill(server.handle.get_pid(), signal.SIGKILL)
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        try:  # its other processes end by themselves; until then the memory is theirs
            server.handle.ensure_postgres_running()
            Connections(server.address()).connect().close()
            return
        except (AssertionError, CalledProcessError, TimeoutExpired, VocabtoolError):
            time.sleep(0.2)
    pytest.fail("the server did not start again")
