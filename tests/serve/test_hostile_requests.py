"""Hostile bytes over raw sockets: a clear 4xx or a closed connection, and memory stays."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.builders.served import Served, serve_process

Send = Callable[[socket.socket], None]
SEARCH: Final = b"/v1/indexes/small/search"
HOST: Final = b"Host: localhost\r\n"
JSON: Final = HOST + b"Content-Type: application/json\r\n"
SMUGGLED: Final = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
SILENCE: Final = 0.1  # seconds after an answer in which another one might come
GIGABYTE: Final = 1 << 30
MOST_MEMORY: Final = 50 << 20  # bytes that the server may need for all of them


def post(headers: bytes, body: bytes = b"", path: bytes = SEARCH) -> bytes:
    return b"POST %b HTTP/1.1\r\n%b\r\n%b" % (path, JSON + headers, body)


def sized(body: bytes, headers: bytes = b"") -> bytes:
    return post(b"Content-Length: %d\r\n%b" % (len(body), headers), body)


def request_lines() -> Iterator[bytes]:
    """First lines that are none, methods and versions that are not served, bytes by chance."""
    for line in (
        *(b"", b"\r\n\r\nX", b"GET", b"GET /", b"GET  / HTTP/1.1", b"GET / HTTP/9.9"),
        *(b"GET / HTTP/2.0", b"PRI * HTTP/2.0", b"GET / http/1.1", b"GET /a b HTTP/1.1"),
        *(b"G\0T / HTTP/1.1", b"\xff\xfe / HTTP/1.1", b"CONNECT evil.example:443 HTTP/1.1"),
        *(b"GET http://evil.example/ HTTP/1.1", b"GET \\\\evil\\c$ HTTP/1.1", b"TRACE / HTTP/1.1"),
        *(b"GET /\xff\xff HTTP/1.1", b"GET /\0 HTTP/1.1", b"GET / HTTP/1.1\rX: y", b"QUERY / X/1"),
        *(b"OPTIONS * HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-x"),
    ):
        yield line + b"\r\nHost: evil.example\r\n\r\n"
    draw = random.Random(0)
    for _ in range(100):
        yield draw.randbytes(draw.randrange(1, 2_000)) + b"\r\n\r\n"


def paths() -> Iterator[bytes]:
    """Ways out of a folder, and names that are not there."""
    for name in (
        *(b"..%2f..%2fetc%2fpasswd", b"../../etc/passwd", b"%2e%2e/%2e%2e", b"..%5c..%5c", b"..;/"),
        *(b"%00", b"%ff%fe", b"%c0%ae%c0%ae%c0%af", b"%u002e", b"%", b"%zz", b"small%00.html"),
        *(b"small/../small", b"small%2f..%2fsmall", b"/small", b"small/", b"small;a=b", b"Small"),
        *(b"a" * 20_000, b"%41" * 8_000, b"/" * 5_000, b"%25%32%66", b"small%20", b"*", b"~root"),
    ):
        for method, rest in (
            *((b"GET", b""), (b"GET", b"/search"), (b"POST", b"/search"), (b"DELETE", b"/search")),
        ):
            yield b"%b /v1/indexes/%b%b HTTP/1.1\r\n%b\r\n" % (method, name, rest, HOST)


def headers() -> Iterator[bytes]:
    """Floods, lines that are none, lengths that are none, hosts and origins of others."""
    for flood in (
        *(b"X: y\r\n" * 10_000, b"X: %b\r\n" % (b"y" * 1_000_000), b"X" * 1_000_000),
        b"".join(b"X%d: %d\r\n" % (n, n) for n in range(100_000)),
    ):
        yield b"GET /none HTTP/1.1\r\n" + HOST + flood + b"\r\n"
    yield b"GET /%b HTTP/1.1\r\n" % (b"a" * 1_000_000) + HOST + b"\r\n"
    yield b"GET /?%b HTTP/1.1\r\n" % (b"a&" * 500_000) + HOST + b"\r\n"
    for line in (
        *(b"no colon", b": empty", b"a b: c", b"X : y", b"X: y\0z", b"X\0: y"),
        *(b"X: a\rb", b"\xff: a"),
        *(b"Host: localhost", b"Host: evil.example", b"Content-Length: 1\r\nContent-Length: 2"),
        *(b"Content-Length: " + n for n in (b"-1", b"+5", b"1e3", b"", b"0x10", b"1 2", b"2,2")),
        *(b"Content-Length: 99999999999999999999999", b"Transfer-Encoding: gzip"),
        *(b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity"),
        *(b"Origin: https://evil.example", b"Origin: null", b"Content-Length: 5\r\nExpect: 1"),
        *(b"Content-Type: text/plain", b"Content-Encoding: gzip", b"Upgrade: websocket"),
    ):
        yield post(line + b"\r\n", b"{}")
    for host in (
        *(b"evil.example", b"", b"[", b"[::1", b"localhost:99999999", b"a" * 10_000, b"\xff"),
    ):
        yield b"GET /openapi.json HTTP/1.1\r\nHost: %b\r\n\r\n" % host


def smuggled() -> Iterator[bytes]:
    """Bodies whose end two servers see in different places, with a request inside."""
    body = b"0\r\n\r\n" + SMUGGLED
    codings = (
        *(b"Transfer-Encoding: chunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding: x"),
        *(b"Transfer-Encoding:\tchunked", b"Transfer-Encoding:\r\n chunked", b"X: y\nTransfer-E"),
        *(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", b"Transfer-Encoding: \x0bchunked"),
        *(b"Transfer-Encoding: chunked, chunked", b'Transfer-Encoding: "chunked"'),
    )
    for coding, (first, second) in itertools.product(codings, itertools.permutations((0, 1))):
        lines = (coding, b"Content-Length: %d" % len(body))
        yield post(lines[first] + b"\r\n" + lines[second] + b"\r\n", body)
    for size in (b"g", b"-1", b"0x5", b"5 5", b"", b"f" * 17, b"\xff", b"+5", b"5\n"):
        yield post(b"Transfer-Encoding: chunked\r\n", size + b"\r\nhello\r\n" + body)
    chunk = b"2%b\r\n{}\r\n0\r\n%b\r\n"
    yield post(b"Transfer-Encoding: chunked\r\n", chunk % (b";a=" + b"b" * 1_000_000, b""))
    yield post(b"Transfer-Encoding: chunked\r\n", chunk % (b"", b"X: y\r\n" * 100_000))
    yield post(b"Transfer-Encoding: chunked\r\n", chunk % (b"", b"X: " + b"y" * 1_000_000))


def bodies() -> Iterator[bytes]:
    """Broken UTF-8 and JSON, and deep nesting."""
    for body in (
        *(b"\xff", b'{"query": "\xc3\x28"}', b'{"query": "\xed\xa0\x80"}', b"\xff\xfe{}", b"{" * 9),
        *(b"[" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b"[" * 500_000, b"\0" * 1_000),
        *(b'{"query": NaN}', b'{"k": 1%b}' % (b"0" * 100_000), b'{"k": 1e400}', b"\x1f\x8b\x08\0"),
        *(b'{"query": "a", "query": "a"}', b'"' + b"\\u0000" * 10_000 + b'"', b"[]" * 100_000),
        b'{"vector": [%b]}' % b",".join([b'""'] * 100_000),
        b"{%b}" % b",".join(b'"%d":0' % n for n in range(90_000)),
    ):
        yield sized(body)


def long_and_slow() -> Iterator[bytes | Send]:
    """Declared gigabytes, streamed gigabytes, and clients that stop in the middle."""
    for headers in (b"", b"Expect: 100-continue\r\n"):
        yield post(b"Content-Length: %d\r\n" % GIGABYTE + headers, b"[" * 100)
        yield lambda s: stream(s, b"Content-Length: %d\r\n" % GIGABYTE, b"[" * (1 << 16))
    chunked = b"Transfer-Encoding: chunked\r\n"
    yield lambda s: stream(s, chunked, b"10000\r\n%b\r\n" % (b"[" * (1 << 16)))
    yield lambda s: stream(s, chunked, b"1\r\n[\r\n" * 10_000)
    yield lambda s: stream(s, chunked + b"Expect: 100-continue\r\n", b"1;a=b\r\n[\r\n" * 10_000)
    for start in (post(b"Content-Length: 100\r\n", b"{"), post(chunked, b"5\r\n{"), post(chunked)):
        yield lambda s, start=start: s.sendall(start)  # type: ignore[misc] # bound at once
        yield lambda s, start=start: trickle(s, start, b"a")  # type: ignore[misc] # the same


def stream(connection: socket.socket, headers: bytes, piece: bytes) -> None:
    """Send a gigabyte, until the server closes the connection."""
    connection.sendall(post(headers))
    for _ in range(GIGABYTE // len(piece)):
        connection.sendall(piece)


def trickle(connection: socket.socket, start: bytes, piece: bytes) -> None:
    """Send a byte now and then, until the server closes the connection."""
    connection.sendall(start)
    for _ in range(100):
        connection.sendall(piece)
        time.sleep(0.1)  # slow is what this client is


def answers(port: int, hostile: bytes | Send) -> list[int]:
    """Send, and return the statuses that come back until the server is silent or closes."""
    got, final = b"", re.compile(rb"^HTTP/1\.1 ([2-5][0-9]{2}) ", re.MULTILINE)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        with contextlib.suppress(ConnectionError):
            if callable(hostile):
                hostile(connection)
            else:
                connection.sendall(hostile)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while piece := connection.recv(1 << 16):
                got += piece
                if final.search(got):
                    connection.settimeout(SILENCE)
    return [int(each) for each in final.findall(got)]


def memory(process: subprocess.Popen[str], name: str) -> int:
    """Bytes of memory: ``VmRSS`` now, ``VmHWM`` at most until now."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(rf"{name}:\s+([0-9]+) kB", status)
    assert found is not None
    return int(found[1]) << 10


@pytest.fixture(scope="module")
def served(small: Path) -> Iterator[Served]:
    """A server in a process of its own, impatient."""
    with serve_process(small, "--max-seconds", "5") as served:
        served.until_ready()
        yield served


def test_hostile_requests(served: Served) -> None:
    """Only 4xx, or a closed connection; then the server answers as before."""
    client, server, url = served.client, served.process, SEARCH.decode()
    port = client.base_url.port or 0
    asked = {"query": "amber", "explain": True}
    expected = client.post(url, json=asked)
    assert expected.status_code == 200
    for _ in range(200):
        assert client.post(url, json=asked).json() == expected.json()
    before = memory(server, "VmRSS")
    kinds = (request_lines, paths, headers, smuggled, bodies, long_and_slow)
    hostile = [each for kind in kinds for each in kind()]
    with ThreadPoolExecutor(16) as pool:
        statuses = [*pool.map(lambda each: answers(port, each), hostile)]
    wrong = [
        (got, each if callable(each) else each[:200])
        for each, got in zip(hostile, statuses, strict=True)
        if any(not 400 <= status < 500 for status in got)
    ]
    assert wrong == []
    assert client.post(url, json=asked).json() == expected.json()
    grown = memory(server, "VmHWM") - before
    assert grown < MOST_MEMORY, f"{grown >> 20} MB more memory"
