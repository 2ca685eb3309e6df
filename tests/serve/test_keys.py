"""Keys: the file that keeps them, the command that makes them, and what a server lets them do."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from tests.builders.served import serve_process, serving
from vocabtool.cli.main import cli
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.serve.guard import KeyFile, Protection, admit, make_key

SEARCH = "/v1/indexes/small/search"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture(scope="module")
def keyed(
    small: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx.Client, str, str]]:
    """A client of a server with keys, a key for reading, and one for writing."""
    path = tmp_path_factory.mktemp("keys") / "keys"
    read, write = make_key(path, "reader", "read"), make_key(path, "writer", "write")
    protection = Protection(keys=KeyFile(path))
    with serving({"small": small}, writable=True, protection=protection) as client:
        yield client, read, write


def test_command(file: Path) -> None:
    """Each key is printed once and kept as its SHA-256, in a file for the owner only."""
    made = [
        CliRunner().invoke(cli, ["api-key", str(file), *rest], catch_exceptions=False)
        for rest in (["reader"], ["writer", "--write"])
    ]
    texts = [each.output.strip() for each in made]
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert kept == [
        {"name": name, "access": access, "sha256": sha256(text.encode()).hexdigest()}
        for name, access, text in zip(("reader", "writer"), ("read", "write"), texts, strict=True)
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    assert all(len(text) > 43 for text in texts)  # 32 random bytes as base64
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"name": "a"}', "line 2.access is missing"),
        ('{"name": "a", "access": "read", "sha256": "00"}', "64 hexadecimal digits"),
        ('{"name": "b", "access": "read", "sha256": "%s"}' % ("0" * 64), "already a key"),
        ('{"name": "a b", "access": "read", "sha256": "%s"}' % ("0" * 64), "letters"),
        ("[" * 100_000, "line 2: not a line"),
        ("\n".join(["{}"] * 2_000_000), "at most 1,048,576 bytes"),
    ],
)
def test_damaged_files(file: Path, line: str, told: str) -> None:
    """What is wrong is said with the line, and no part of a key is shown."""
    make_key(file, "b", "read")
    before = file.read_text()
    file.write_text(before + line)
    with pytest.raises(InvalidFile) as caught:
        KeyFile(file)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidFile):
        make_key(file, "c", "read")
    assert file.read_text() == before + line


def test_wrong_names(file: Path) -> None:
    make_key(file, "b", "read")
    before = file.read_bytes()
    for name, told in (("a b", "a key's name has 1 to 100"), ("b", "already a key named 'b'")):
        with pytest.raises(VocabtoolError, match=told):
            make_key(file, name, "read")
    assert file.read_bytes() == before


def test_made_at_once(file: Path) -> None:
    """Keys that are made at the same time are all kept."""
    names = [f"key{number}" for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        texts = [*pool.map(lambda name: make_key(file, name, "read"), names)]
    keys = asyncio.run(KeyFile(file).keys())
    found = [admit(keys, f"Bearer {text}", writes=False) for text in texts]
    assert [key.name for key in found] == names
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_who_may_read(keyed: tuple[httpx.Client, str, str], client: httpx.Client) -> None:
    """Searches need a key; so do metrics and the description; whether the server lives does not."""
    served, read, write = keyed
    asked = {"query": "amber"}
    for key in (read, write):
        answer = served.post(SEARCH, json=asked, headers=bearer(key))
        assert answer.json() == client.post(SEARCH, json=asked).json()
    assert served.get("/openapi.json", headers=bearer(read)).json()["security"] == [{"key": []}]
    wrong: list[dict[str, str]] = [
        *({}, {"Authorization": read}, {"Authorization": f"Basic {read}"}),
        *(bearer(read[:-1]), bearer("x" * 10_000), bearer("\xff")),
    ]
    for headers in wrong:
        sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        for path in ("/openapi.json", "/metrics", "/v1/indexes", "/v1/anything"):
            answer = served.get(path, headers=sent)
            assert answer.status_code == 401, (path, headers)
            assert answer.headers["www-authenticate"].startswith('Bearer realm="vocabtool"')
            assert answer.headers["content-type"] == "application/problem+json"
            assert read not in answer.text
    twice = [("Authorization", f"Bearer {read}"), ("Authorization", f"Bearer {read}")]
    assert served.get("/openapi.json", headers=twice).status_code == 400
    for path in ("/", "/health", "/ready"):
        assert served.get(path).status_code != 401


@pytest.mark.parametrize(
    ("method", "path", "writes"),
    [
        *(("POST", SEARCH, False), ("POST", "/v1/words", False)),
        *(("GET", "/v1/indexes/a/documents/b", False), ("HEAD", "/v1/indexes", False)),
        *(("PUT", "/v1/indexes/a/documents/b", True), ("DELETE", "/v1/words", True)),
        *(("POST", "/v1/indexes/a/documents", True), ("POST", "/v1/indexes/a/b/search", True)),
        *(("POST", "/v1/anything", True), ("PATCH", SEARCH, True)),
    ],
)
def test_who_may_write(
    keyed: tuple[httpx.Client, str, str], method: str, path: str, *, writes: bool
) -> None:
    """A key for reading gets 403 from whatever is not known to read only."""
    served, read, write = keyed
    answer = served.request(method, path, headers=bearer(read))
    assert (answer.status_code == 403) == writes
    assert served.request(method, path, headers=bearer(write)).status_code not in (401, 403)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "--api-keys"),
        (["--api-keys", "keys", "--no-auth"], "not both"),
    ],
)
def test_refuses_to_start(small: Path, options: list[str], told: str) -> None:
    """A server that other machines can reach has keys, or is told to have none."""
    done = CliRunner().invoke(cli, ["serve", str(small), *options])
    assert done.exit_code == 2
    assert told in done.output


@pytest.mark.parametrize("options", [["--no-auth"], ["--api-keys", "FILE"]])
def test_starts_for_others(small: Path, file: Path, options: list[str]) -> None:
    """With keys, or --no-auth, it listens to other machines, and answers to any host name."""
    key = make_key(file, "reader", "read")
    given = [str(file) if option == "FILE" else option for option in options]
    with serve_process(small, "--host", "0.0.0.0", *given) as served:
        url = f"http://127.0.0.1:{served.client.base_url.port}/openapi.json"
        headers = {"Host": "search.example.org"} | bearer(key)
        assert httpx.get(url, headers=headers).status_code == 200
        assert httpx.get(url).status_code == (200 if options == ["--no-auth"] else 401)
    assert key not in "".join(served.lines)


def test_read_again(small: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is valid until its line is deleted. Without a file that can be read, none is."""
    monkeypatch.setattr("vocabtool.serve.guard.REREAD_SECONDS", 0.2)
    first, second = make_key(file, "a", "read"), make_key(file, "b", "read")
    with serving({"small": small}, protection=Protection(keys=KeyFile(file))) as client:

        def status(key: str) -> int:
            time.sleep(0.25)
            return client.get("/v1/indexes", headers=bearer(key)).status_code

        assert (status(first), status(second), status(second + "x")) == (200, 200, 401)
        third = make_key(file, "c", "read")
        content = b"".join(file.read_bytes().splitlines(keepends=True)[1:])
        file.write_bytes(content)
        assert (status(first), status(second), status(third)) == (401, 200, 200)
        for damage in ("missing", "pipe", "folder", "text"):
            if file.is_dir():
                file.rmdir()
            file.unlink(missing_ok=True)
            if damage == "pipe":
                os.mkfifo(file)
            elif damage == "folder":
                file.mkdir()
            elif damage == "text":
                file.write_text("{")
            assert (status(second), client.get("/health").status_code) == (503, 200)
        file.write_bytes(content)
        assert (status(first), status(second)) == (401, 200)


def test_a_file_that_blocks(small: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that hangs: no key is valid meanwhile, and the server answers."""
    monkeypatch.setattr("vocabtool.serve.guard.REREAD_SECONDS", 0.2)
    key = make_key(file, "a", "read")
    keys, goes_on = KeyFile(file), threading.Event()
    with serving({"small": small}, protection=Protection(keys=keys)) as client:
        with monkeypatch.context() as patched:
            patched.setattr(keys, "_read", goes_on.wait)
            time.sleep(0.25)
            for _ in range(3):
                refused = client.get("/v1/indexes", headers=bearer(key))
                assert (refused.status_code, client.get("/health").status_code) == (503, 200)
                assert "file of keys" in refused.json()["detail"]
        goes_on.set()
        time.sleep(0.25)
        assert client.get("/v1/indexes", headers=bearer(key)).status_code == 200


def test_no_file_and_a_pipe_instead(file: Path) -> None:
    with pytest.raises(NotFound):
        KeyFile(file)
    os.mkfifo(file)
    with pytest.raises(InvalidFile, match="not a regular file"):
        KeyFile(file)
    with pytest.raises(InvalidFile, match="not a regular file"):
        make_key(file, "a", "read")
