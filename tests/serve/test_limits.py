"""Limits and headers of a server: time, sizes, JSON, host names, pages of other sites."""

from __future__ import annotations

import gc
import re
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from tests.builders.served import begin, serving, until
from vocabtool import Index, VocabtoolError
from vocabtool.cli.main import cli
from vocabtool.serve import application, reads
from vocabtool.serve.answers import LOG
from vocabtool.serve.application import ServeOptions
from vocabtool.serve.catalog import THREADS
from vocabtool.serve.guard import LOOPBACK_HOSTS, PAGE_POLICY, REPORT_POLICY, Protection

SEARCH = "/v1/indexes/small/search"
ASKED = {"query": "amber"}
JSON = {"Content-Type": "application/json"}


def limited(small: Path, **limits: Any) -> Any:
    """A server with these limits, as a context that gives a client."""
    return serving({"small": small}, protection=Protection(**limits))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Searches wait until the event is set."""
    event, search = threading.Event(), reads.answer

    def wait(*given: Any) -> Any:
        assert event.wait(60)
        return search(*given)

    monkeypatch.setattr(reads, "answer", wait)
    yield event
    event.set()


def test_time_of_a_request(small: Path, held: threading.Event) -> None:
    """A request is given up after its time; its thread counts until it ends."""
    with limited(small, seconds=1, waiting=1) as client, ThreadPoolExecutor(THREADS) as pool:
        for answer in pool.map(lambda _: client.post(SEARCH, json=ASKED), range(THREADS)):
            assert answer.status_code == 504
            assert "retry-after" not in answer.headers  # it would take as long again
            assert "more than 1 seconds" in answer.json()["detail"]
        assert client.post(SEARCH, json=ASKED).status_code == 504  # waited, and never began
        statuses = [*pool.map(lambda _: client.post(SEARCH, json=ASKED).status_code, range(4))]
        assert sorted(statuses) == [429, 429, 429, 504]  # one may wait
        held.set()
        while (answer := client.post(SEARCH, json=ASKED)).status_code == 429:
            pass
        assert answer.status_code == 200


def test_memory_of_refused_requests(small: Path) -> None:
    """Their bodies are gone with the answer, without a collection of garbage."""
    bad = b'{"query":"' + b"x" * 900_000
    with limited(small) as client:
        client.post(SEARCH, content=bad, headers=JSON)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(20):
                assert client.post(SEARCH, content=bad, headers=JSON).status_code == 400
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert kept < 3 * len(bad)  # of one request, not of twenty


def test_explanation_of_a_long_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 5 MB is explained in its best 4,096 characters; a request that lasts is ended."""
    index = Index.create(str(tmp_path / "small"), dim=4, vocabulary=["amber"])
    with index.writer() as writer:
        writer.add([{"id": "long", "text": "amber " * 900_000}], np.ones((1, 4), np.float32))
    explain = ASKED | {"explain": True}
    with limited(tmp_path / "small") as client:
        (hit,) = client.post(SEARCH, json=explain).json()["hits"]
        marks = hit["explanation"]["highlights"]
        assert marks == [[6 * at, 6 * at + 5] for at in range(len(marks))]
        assert 0 < len(marks) < 1_000
    event = threading.Event()
    monkeypatch.setattr(reads, "hits_for_page", lambda _: event.wait(60))
    with limited(tmp_path / "small", seconds=1) as client:
        answer = client.post(SEARCH, json=explain)
        event.set()
        assert (answer.status_code, answer.json()["title"]) == (504, "Gateway Timeout")


def test_bodies_of_all_requests(small: Path) -> None:
    """Bodies in memory at the same time have a limit together; a single one may be larger."""
    with limited(small, bodies=40) as client:
        with begin(client, SEARCH, 100) as waiting:
            waiting.sendall(b"{" * 30)
            until(lambda: client.post(SEARCH, json=ASKED).status_code == 429)
            answer = client.post(SEARCH, json=ASKED)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        until(lambda: client.post(SEARCH, json={"query": "amber" * 10}).status_code == 200)


@pytest.mark.parametrize("size", [100, 101, 5_000, 3_000_000])
@pytest.mark.parametrize("declared", [True, False])
def test_size_of_a_body(small: Path, size: int, *, declared: bool) -> None:
    """A body of the limit is read; one byte more is not, whether its length is declared or not."""
    start = b'{"query": "'
    body = start + b"a" * (size - len(start) - 2) + b'"}'
    content: Any = body if declared else iter([body[:50], body[50:]])
    with limited(small, body=100) as client:
        answer = client.post(SEARCH, content=content, headers=JSON)
        assert answer.status_code == (200 if size == 100 else 413)
        if size > 100:
            assert "more than 100 bytes" in answer.json()["detail"]
        assert client.post(SEARCH, json=ASKED).status_code == 200


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"query": "\xff"}', "not valid UTF-8 at byte 11"),
        (b'{"query": "\\ud800"}', "body.query"),
        (b'{"query": "a", "query": "b"}', "the key 'query' occurs twice"),
        (b'{"query": "a", "quer\\u0079": "b"}', "the key 'query' occurs twice"),
        (b'{"where": {"a": 1, "a": 1}}', "the key 'a' occurs twice"),
        (b'{"query": "a", "a": NaN}', "NaN is not allowed in JSON"),
        (b'{"query": "a", "k": 1%s}' % (b"0" * 10_000), "not valid JSON"),
        (b'{"query": "a", "k": %d}' % (1 << 64), "body.k: Input should be less than or equal"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b'{"query": %s%s}' % (b"[" * 1_000, b"]" * 1_000), "body.query: Input should be a valid"),
        (b"{%s}" % b",".join(b'"%d":1' % n for n in range(2_000)), "at most 1,000 members"),
        (b'{"vector": [%s]}' % b",".join([b'""'] * 60_000), "body.vector.0"),
        (b"", "body"),
        (b'{"where": "%s"}' % b" or ".join([b"even"] * 101), "at most 100 tests"),
        (
            b'{"where": "n in (%s)"}' % b",".join([b"1"] * 1_001),
            "and 1,000 values",
        ),
        (b'{"query": "a", "identifier": "(a+)+$"}', "body.identifier"),
    ],
)
def test_wrong_bodies(client: httpx.Client, content: bytes, told: str) -> None:
    """Each gets a problem document of 400 that says what is wrong."""
    answer = client.post(SEARCH, content=content, headers=JSON)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert told in answer.json()["detail"]
    assert len(answer.content) < 2_000


@pytest.mark.parametrize("kind", ["text/plain", ""])
def test_other_media_types(client: httpx.Client, kind: str) -> None:
    """A page of another site may send these without asking; they are no JSON."""
    headers = {"Content-Type": kind} if kind else {}
    answer = client.post(SEARCH, content=b'{"query": "a"}', headers=headers)
    assert answer.status_code == 415


def test_headers(client: httpx.Client) -> None:
    """Every answer forbids scripts but the server's own, and other sites to load it."""
    for method, path, policy in (
        *(("POST", SEARCH, REPORT_POLICY), ("GET", "/openapi.json", PAGE_POLICY)),
        *(("GET", "/absent", PAGE_POLICY), ("PUT", "/openapi.json", PAGE_POLICY)),
    ):
        headers = client.request(method, path, json=ASKED if method == "POST" else None).headers
        assert headers["content-security-policy"] == policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    assert client.post(SEARCH, json={}).headers["content-security-policy"] == REPORT_POLICY


def test_files_are_asked_for_again_only_if_they_changed(client: httpx.Client) -> None:
    """Each file has its type, a tag, and is not kept without asking; nothing else is served."""
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    names = re.findall(r'(?:href|src)="(page/[^"]+)"', page.text)
    assert {"page/style.css", "page/main.js"} < {*names}
    for path in ("/", *names):
        answer = client.get(path)
        assert answer.headers["cache-control"] == "no-cache"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        same = client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        assert client.head(path).headers["etag"] == answer.headers["etag"]
    for path in ("/page/", "/page/none.js", "/page/../page.py", "/page/%2e%2e/page.py"):
        assert client.get(path).status_code == 404


@pytest.fixture(scope="module")
def local(small: Path) -> Iterator[httpx.Client]:
    """A server as it starts by default, for one other site."""
    protection = Protection(hosts=LOOPBACK_HOSTS, origins=("https://example.org",))
    with serving({"small": small}, protection=protection) as client:
        yield client


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("LOCALHOST:8765", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200)),
        *(("evil.example", 400), ("127.0.0.1.evil.example", 400), ("localhost.", 400)),
        *(("localhost@evil.example", 400), ("[", 400), ("evil.example#localhost", 400)),
        *(("", 400), ("localhost:x", 400), ("localhost:1:2", 400)),
    ],
)
def test_host_names(local: httpx.Client, host: str, status: int) -> None:
    """A name that another site made lead here is refused (DNS rebinding)."""
    assert local.get("/openapi.json", headers={"Host": host}).status_code == status


def test_pages_of_other_sites(local: httpx.Client) -> None:
    """Pages may ask if they are the server's own, or of a listed site; preflights say so."""
    host = local.base_url.netloc.decode()
    for origin, status, allowed in (
        (f"http://{host}", 200, None),
        ("https://example.org", 200, "https://example.org"),
        *((each, 403, None) for each in ("https://evil.example", "null", "http://example.org", "")),
    ):
        answer = local.post(SEARCH, json=ASKED, headers={"Origin": origin})
        assert answer.status_code == status, origin
        assert answer.headers.get("access-control-allow-origin") == allowed
        wanted = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        preflight = local.options(SEARCH, headers=wanted)
        assert preflight.headers.get("access-control-allow-origin") == allowed


def logged(caplog: pytest.LogCaptureFixture) -> list[object]:
    """The kinds of the errors that the server logged."""
    records = [each for each in caplog.records if each.name == LOG.name]
    return [each.exc_info and each.exc_info[0] for each in records]


def test_errors_of_the_server(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer to an error that nobody foresaw shows nothing of it; the log does."""

    def fail(*_: Any) -> Any:
        raise ValueError("secret")

    monkeypatch.setattr(reads, "answer", fail)
    answer = client.post(SEARCH, json=ASKED)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        **{"type": "about:blank", "title": "Internal Server Error", "status": 500},
        "detail": "an error of the server; its log has the details",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert logged(caplog) == [ValueError]


def test_a_model_that_fails(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no fault of the request: the client may try again, and the log tells."""

    def fail(*_: Any, **more: Any) -> Any:
        raise VocabtoolError("the encoder is away")

    monkeypatch.setattr(Index, "search", fail)
    answer = client.post(SEARCH, json=ASKED)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["detail"] == "the encoder is away"
    assert logged(caplog) == [VocabtoolError]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://Example.org", "https://example.org"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        *((each, None) for each in ("*", "https://*", "example.org", "https://a.org/", "null")),
    ],
)
def test_sites_that_may_ask(
    small: Path, monkeypatch: pytest.MonkeyPatch, given: str, kept: str | None
) -> None:
    """They are kept as browsers write them; what no browser sends is refused."""
    served: list[ServeOptions] = []
    monkeypatch.setattr(application, "run", served.append)
    done = CliRunner().invoke(cli, ["serve", str(small), "--cors", given])
    if kept is not None:
        assert [options.protection.origins for options in served] == [(kept,)]
        return
    assert (done.exit_code, served) == (2, [])
    assert "--cors: wanted SCHEME://HOST" in done.output
