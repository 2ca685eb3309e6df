"""Real servers on free ports of this machine: in a thread of the test's process, or outside."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from tests.cli.running import environment
from tests.conftest import ROOT
from vocabtool.serve.application import application, settings
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.serve.guard import Protection


@contextmanager
def serving(
    folders: Mapping[str, Path], port: int = 0, *, writable: bool = False, **options: Any
) -> Iterator[httpx.Client]:
    """Serve indexes; give a client when they are open. ``port``: 0 for a free one."""
    served = {name: ServedIndex(name, path) for name, path in folders.items()}
    limits = options.get("protection", Protection())
    catalog = Catalog(served, writable=writable, waiting=limits.waiting)
    server = uvicorn.Server(settings(application(catalog, **options), port=port))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started or any(each.index is None for each in served.values()):
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def begin(client: httpx.Client, path: str, length: int) -> socket.socket:
    """Send all of a request but its body; return the connection when the server waits for it."""
    url = client.base_url
    connection = socket.create_connection((url.host, url.port or 0), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
    return connection


@dataclass
class Served:
    """``vocabtool serve`` in a process of its own. ``lines``: what it wrote to standard error."""

    process: subprocess.Popen[str]
    client: httpx.Client
    lines: list[str] = field(default_factory=list)

    def logged(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def until_ready(self) -> None:
        """Wait until all indexes are open."""
        until(lambda: self.client.get("/ready").status_code == 200)

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(kind)
        return self.process.wait()


def until(holds: Callable[[], bool], seconds: float = 60) -> float:
    """Wait until something holds; return how many seconds that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.01)
    return time.monotonic() - began


@contextmanager
def serve_process(*arguments: str | Path, name: str = "serve") -> Iterator[Served]:
    """Run the command of this name on a free port; give a client when it listens."""
    command = [sys.executable, "-m", "tests.plain_command", name, "--port", "0"]
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    found = re.search(r"http://[^;]+", first)
    assert found, first
    with httpx.Client(base_url=found[0], timeout=60) as client:
        served = Served(process, client, [first])
        reader = threading.Thread(target=served.lines.extend, args=(process.stderr,))
        reader.start()
        try:
            yield served
        finally:
            if process.poll() is None:
                served.stop()
            reader.join()
            process.stderr.close()
