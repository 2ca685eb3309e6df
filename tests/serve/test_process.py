"""A server as a process: signals, and indexes that change under it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from tests.builders.served import Served, begin, serve_process, until
from tests.builders.small_indexes import made, vector
from tests.cli.running import run
from vocabtool import Index
from vocabtool.errors import NotFound
from vocabtool.serve import application

SEARCH = "/v1/indexes/index/search"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    with serve_process(folder) as served:
        served.until_ready()
        yield served


def ids_of(served: Served, query: str) -> list[str]:
    """Hits of a query."""
    found = served.client.post(SEARCH, json={"query": query}).json()
    return [each["id"] for each in found.get("hits", ())]


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_signals_finish_what_runs(served: Served, kind: signal.Signals) -> None:
    """A request that has begun is answered after the signal; then the process ends."""
    body = json.dumps({"query": "amber", "k": 2}).encode()
    with begin(served.client, SEARCH, len(body)) as connection:
        stopping = Thread(target=served.stop, args=(kind,))
        stopping.start()
        until(lambda: refuses(served))
        connection.sendall(body)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
        stopping.join()
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert len(json.loads(content)["hits"]) == 2
    assert served.process.returncode == (0 if kind == signal.SIGTERM else 130)
    assert "Traceback" not in "".join(served.lines)


def test_interrupted_in_the_background(folder: Path) -> None:
    """A shell starts what stands before "&" with SIGINT ignored; the exit code is the same."""
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with serve_process(folder) as served:
            served.until_ready()
            assert served.stop(signal.SIGINT) == 130
    finally:
        signal.signal(signal.SIGINT, earlier)


def refuses(served: Served) -> bool:
    """Whether it accepts no connections any more."""
    url = served.client.base_url
    try:
        with socket.create_connection((url.host, url.port or 0), timeout=60):
            return False
    except ConnectionError:
        return True


def test_replaced_index(served: Served, folder: Path, tmp_path: Path) -> None:
    """An index that ``--force`` put in its place is opened, and the facts are those of it."""
    documents, vectors = tmp_path / "other.jsonl", tmp_path / "vectors.npy"
    documents.write_text(json.dumps({"id": "new", "text": "zebra"}) + "\n")
    np.save(vectors, vector(1)[None])
    given = ("--id-field", "id", "--vectors", vectors, "--force")
    done = run("index", documents, "-o", folder, *given)
    assert done.returncode == 0, done.stderr
    assert until(lambda: ids_of(served, "zebra") == ["new"], 10) < 2
    assert ids_of(served, "amber") == []
    found = served.client.get("/v1/indexes/index").json()
    assert (found["documents"], found["status"]) == (1, "ready")


def test_removed_index(served: Served, folder: Path) -> None:
    """An index that is gone is said to be gone, and opened when it is back."""
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside)
    shutil.rmtree(folder, ignore_errors=True)
    until(lambda: served.client.get("/ready").status_code == 503)
    assert "no such folder" in served.client.get("/ready").json()["detail"]
    assert served.client.post(SEARCH, json={"query": "amber"}).status_code == 503
    aside.rename(folder)
    until(lambda: ids_of(served, "amber") != [])


def test_a_killed_server(folder: Path) -> None:
    """What it answered is in the index. It starts again; a batch that is repeated is there once."""
    rows = [{"id": f"n{n}", "text": "heron", "vector": vector(n).tolist()} for n in range(9)]
    batch = "".join(f"{json.dumps(row)}\n" for row in rows)
    for added, commit in ((9, 2), (0, 3)):
        with serve_process(folder, "--writable") as served:
            served.until_ready()
            headers = {"Content-Type": "application/x-ndjson"}
            path = "/v1/indexes/index/documents"
            answer = served.client.post(path, content=batch, headers=headers).json()
            assert answer == {"added": added, "replaced": 9 - added, "commit": commit}
            served.stop(signal.SIGKILL)
        assert Index.open(folder).verify().documents == 19


def test_address_in_use(folder: Path) -> None:
    """A message says so, without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        done = run("serve", folder, "--port", str(port))
    assert done.returncode != 0
    told = done.stderr.decode()
    assert f"cannot listen on 127.0.0.1, port {port}: {os.strerror(98)}" in told
    assert "Traceback" not in told


def test_one_server_writes(folder: Path) -> None:
    """A second one that may write is refused. One that reads starts, and commands write."""
    with serve_process(folder, "--writable") as served:
        served.until_ready()
        refused = run("serve", folder, "--writable", "--port", "0")
        told = refused.stderr.decode()
        assert (refused.returncode, str(folder) in told, "--writable" in told) == (3, True, True)
        with serve_process(folder) as reader:
            reader.until_ready()
        deleted = run("delete", folder, "d1")
        assert deleted.returncode == 0
        assert run("verify", folder).returncode == 0
    with serve_process(folder, "--writable") as served:
        served.until_ready()


@pytest.mark.parametrize("name", ["index.db", "keywords/.tantivy-writer.lock", ".server.lock"])
def test_rights_that_writing_needs(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the files that a write changes, and not to others beside them, which may be many."""
    (folder / "pictures").mkdir()
    (folder / "pictures" / "1.png").touch()
    started = list[object]()
    monkeypatch.setattr(application, "print_logs", lambda _: None)
    monkeypatch.setattr(application, "serve", lambda *given: started.append(given))
    options = application.ServeOptions(indexes={"index": folder}, writable=True)
    monkeypatch.setattr(os, "access", lambda path, _: "pictures" not in str(path))
    application.run(options)
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith(name))
    with pytest.raises(NotFound, match=f"{re.escape(name)}: this process may not write here"):
        application.run(options)
    assert len(started) == 1
