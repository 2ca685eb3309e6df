"""Requests that wait until others are written."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders.served import serving, until
from tests.serve.test_writes import DOCUMENTS, LINES, lines, row, send, wrote
from vocabtool import Index
from vocabtool.serve import writes
from vocabtool.serve.catalog import Catalog
from vocabtool.serve.guard import Protection


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], threading.Event]:
    """The indexes of requests that arrived; their commits wait until the event is set."""
    arrived: list[str] = []
    go, enqueue, commit = threading.Event(), Catalog.write, writes._commit

    async def count(self: Catalog, name: str, function: Any) -> Any:
        arrived.append(name)
        return await enqueue(self, name, function)

    def slowly(*given: Any) -> dict[str, int]:
        assert go.wait(60)
        return commit(*given)

    monkeypatch.setattr(Catalog, "write", count)
    monkeypatch.setattr(writes, "_commit", slowly)
    return arrived, go


def test_requests_that_wait(folder: Path, queue: tuple[list[str], threading.Event]) -> None:
    """Each is a commit of its own; wrong ones are refused, and so is one too many."""
    arrived, go = queue
    requests = [row(20), row(21, n="many"), row(22), row(23)]
    limited = Protection(waiting=4)
    with (
        serving({"small": folder}, writable=True, protection=limited) as writer,
        ThreadPoolExecutor(4) as pool,
    ):
        answers = [pool.submit(send, writer, each) for each in requests]
        until(lambda: len(arrived) == len(requests))
        refused = writer.delete(f"{DOCUMENTS}/d1")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        go.set()
        results = [each.result() for each in answers]
    assert [status for status, _ in results] == [200, 400, 200, 200]
    assert {answer["commit"] for status, answer in results if status == 200} == {2, 3, 4}
    assert results[1][1]["detail"].startswith("body:1: the field 'n'")
    index = Index.open(folder)
    assert index.manifest.rows == index.manifest.live == 13


def test_shutdown_commits_what_waits(
    folder: Path, queue: tuple[list[str], threading.Event]
) -> None:
    """A request that was accepted is answered, though the server is told to stop meanwhile."""
    arrived, go = queue
    with ThreadPoolExecutor(1) as pool:
        with serving({"small": folder}, writable=True) as client:
            url = str(client.base_url.join(DOCUMENTS))
            answer = pool.submit(httpx.post, url, content=lines(row(10)), headers=LINES, timeout=60)
            until(lambda: bool(arrived))
            threading.Timer(0.3, go.set).start()  # the server is told to stop before
        assert answer.result().json() == wrote(1, 0, 2)[1]
