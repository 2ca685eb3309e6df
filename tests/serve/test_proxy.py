"""The configuration of nginx in the guide, run by a real nginx in front of a server."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.builders.served import serving, until
from tests.builders.small_indexes import DIM, made
from tests.conftest import ROOT
from vocabtool.serve.guard import LOOPBACK_HOSTS, KeyFile, Protection, make_key

NGINX: Final = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NAME: Final = "search.example.org"
SEARCH: Final = "/v1/indexes/small/search"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, int, str]]:
    """A client of the proxy with a key for writing, the port of the proxy, and that key."""
    folder = tmp_path_factory.mktemp("proxied")
    key = make_key(folder / "keys", "writer", "write")
    made(folder / "small")
    protection = Protection(keys=KeyFile(folder / "keys"), hosts=LOOPBACK_HOSTS | {NAME})
    with serving({"small": folder / "small"}, writable=True, protection=protection) as client:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        write_configuration(folder, port, client.base_url.port or 0)
        command = [str(NGINX), "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
        subprocess.run([*command, "-t"], check=True, capture_output=True)
        with subprocess.Popen(command) as process:
            trusted = ssl.create_default_context(cafile=folder / f"{NAME}.pem")
            headers = {"Authorization": f"Bearer {key}", "Host": NAME}
            with httpx.Client(
                base_url=f"https://127.0.0.1:{port}", verify=trusted, headers=headers, timeout=60
            ) as proxy:
                until(lambda: accepts(port))
                yield proxy, port, key
            process.terminate()


def write_configuration(folder: Path, port: int, server: int) -> None:
    """Write the guide's configuration for these ports, with a certificate of its own.

    Clients get one second instead of ten, and may send fewer requests at once.
    """
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1"),
            *("-keyout", folder / f"{NAME}.key", "-out", folder / f"{NAME}.pem"),
        ],
        check=True,
        capture_output=True,
    )
    guide = (ROOT / "docs" / "how-to" / "serve.md").read_text("utf-8")
    (block,) = re.findall(r"^```nginx\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    for told, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("/etc/ssl/", f"{folder}/"),
        ("http://127.0.0.1:8765;", f"http://127.0.0.1:{server};"),
        ("client_header_timeout 10s;", "client_header_timeout 1s;"),
        ("client_body_timeout 10s;", "client_body_timeout 1s;"),
        ("burst=100", "burst=20"),
    ):
        assert told in block, told
        block = block.replace(told, here)
    user = "user root;\n" if os.geteuid() == 0 else ""  # to read what is in a folder of this test
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{user}daemon off;\npid {folder}/nginx.pid;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{block}}}\n"
    )


def accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60):
            return True
    except ConnectionError:
        return False


def test_searches_and_writes(proxied: tuple[httpx.Client, int, str]) -> None:
    """Requests reach the server with their key and host; its answers come back unchanged."""
    client, _, _ = proxied
    body = {"text": "heron", "vector": [1.0] * DIM}
    assert client.put("/v1/indexes/small/documents/a%2Fb", json=body).json()["added"] == 1
    found = client.post(SEARCH, json={"query": "heron", "k": 1})
    assert found.json()["hits"][0]["id"] == "a/b"
    assert found.headers["x-content-type-options"] == "nosniff"
    page = client.get("/")
    assert page.status_code == 200 and "<title>" in page.text
    refused = client.get("/v1/indexes", headers={"Authorization": "Bearer wrong"})
    assert (refused.status_code, refused.headers["content-type"]) == (
        401,
        "application/problem+json",
    )
    for origin, status in ((f"https://{NAME}", 200), ("https://evil.example", 403)):
        answer = client.post(SEARCH, json={"query": "heron"}, headers={"Origin": origin})
        assert answer.status_code == status
    assert client.get("/v1/indexes", headers={"Host": "evil.example"}).status_code == 400


def test_large_requests(proxied: tuple[httpx.Client, int, str]) -> None:
    """nginx refuses long headers and bodies; the server refuses bodies that are no batch."""
    client, _, _ = proxied
    assert client.get("/health", headers={"X": "y" * 9_000}).status_code == 400
    lines = {"Content-Type": "application/x-ndjson"}
    batch = "/v1/indexes/small/documents"
    assert client.post(batch, content=b" " * (17 << 20), headers=lines).status_code == 413
    assert client.post(batch, content=b" " * (15 << 20), headers=lines).status_code == 400
    query = {"query": "a" * (2 << 20)}
    assert client.post(SEARCH, json=query).headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("sent", ["", "POST ", f"POST {SEARCH} HTTP/1.1\r\nHost: ", "body"])
def test_slow_clients(proxied: tuple[httpx.Client, int, str], sent: str) -> None:
    """A connection on which nothing comes is closed, and the server answers others meanwhile."""
    client, port, key = proxied
    if sent == "body":
        sent = f"POST {SEARCH} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {key}\r\n"
        sent += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    trusting = ssl._create_unverified_context()
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        trusting.wrap_socket(plain, server_hostname=NAME) as slow,
    ):
        began = time.monotonic()
        slow.sendall(sent.encode())
        assert client.get("/health").status_code == 200
        while slow.recv(1 << 16):  # perhaps an answer of status 408
            pass
        assert time.monotonic() - began < 10


def test_many_requests(proxied: tuple[httpx.Client, int, str]) -> None:
    """More requests at once than allowed get 429."""
    client, _, _ = proxied
    with ThreadPoolExecutor(8) as pool:
        statuses = [*pool.map(lambda _: client.get("/health").status_code, range(200))]
    assert {*statuses} == {200, 429}
    until(lambda: client.get("/health").status_code == 200)
