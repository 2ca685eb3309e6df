"""Encoders behind HTTP, against a server that fails on a schedule and notes what it was asked."""

from __future__ import annotations

import gzip
import json
import logging
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.builders import embedding_server as server_of
from tests.builders.embedding_server import Fault, Server, body, fields, half, lengths, rows, status
from tests.cli.running import run
from vocabtool import Document, Encoder, embed, open_encoder
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError

pytest.importorskip("urllib3", reason="the extra http is not installed")
openai = pytest.importorskip("vocabtool.encoders.openai")

TEXTS = [f"text {number} {'e' * number}" for number in range(10)]
WANTED = np.array(lengths(TEXTS), np.float32)
KEY = "sk-private/0123456789abcdef"


@pytest.fixture
def server() -> Iterator[Server]:
    with server_of.serve() as server:
        yield server


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a key nor a proxy of the person who runs the tests."""
    for name in ("OPENAI_API_KEY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def opened(server: Server, **options: Any) -> Encoder:
    """Requests of two texts; the one that opened it is forgotten."""
    encoder = open_encoder(server.model, **{"max_batch": 2, **options})
    server.requests.clear()
    server.asked.clear()
    server.vectors.clear()
    return encoder


def test_requests_and_vectors_are_those_of_the_openai_library(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same JSON, the same key in the same header, and the same vectors of the same answer."""
    library = pytest.importorskip("openai", reason="the library of OpenAI is the oracle")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = opened(server, max_batch=len(TEXTS)).encode(TEXTS)
    with library.OpenAI(api_key=KEY, base_url=server.url) as client:
        answer = client.embeddings.create(
            model=server_of.WORKS, input=TEXTS, encoding_format="float"
        )
    assert np.array_equal(found, np.array([row.embedding for row in answer.data], np.float32))
    (_, our_headers, ours), (_, headers, theirs) = server.requests
    assert ours == theirs
    for name in ("Authorization", "Content-Type"):
        assert our_headers[name] == headers[name]


def test_several_at_once_and_in_order(server: Server) -> None:
    """Never more at once than asked for, whichever threads ask; the first answer comes last."""
    encoder = opened(server, requests=3)
    server.schedule.extend([server_of.slow(0.3), rows(lambda data: data[::-1])])
    server.seconds = 0.02
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(encoder.encode, [TEXTS] * 4):
            assert np.array_equal(found, WANTED)
    assert server.most == 3
    assert [len(given["input"]) for _, _, given in server.requests] == [2] * 20


PASSING: dict[str, Fault] = {
    "slow": server_of.slow(0.6),
    "429": status(429),
    "503": status(503, "loading the model"),
    "half": half,
    "half of the JSON": body(b'{"data": [{"index": 0, "embe'),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_faults_that_pass(fault: Fault, server: Server) -> None:
    """Two requests of five fail: they alone are sent again, and nothing is lost."""
    # Only the slow answers need a short limit, which a busy machine may exceed.
    encoder = opened(server, timeout=0.4 if fault is PASSING["slow"] else 30)
    server.schedule.extend([None, fault, fault])
    assert np.array_equal(encoder.encode(TEXTS), WANTED)
    assert len(server.requests) == 7
    assert sorted(server.asked.values()) == [1] * 6 + [2] * 4


@pytest.mark.parametrize("at", ["1", "date"])
def test_retry_after(at: str, server: Server) -> None:
    """A request that is refused waits as long as the server says."""
    encoder = opened(server, requests=8)
    value = formatdate(time.time() + 2, usegmt=True) if at == "date" else at
    server.schedule.extend([status(429, Retry_After=value)] * 5)
    assert np.array_equal(encoder.encode(TEXTS), WANTED)
    begins = [begin for begin, _, _ in server.requests]
    assert len(begins) == 10
    assert begins[5] - begins[0] >= 0.7


ANSWER = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("at_once", "part"),
    [
        (ANSWER, b"X-Part: a\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 ", b"O"),
        (ANSWER + b"Content-Length: 9999\r\n\r\n", b" "),
        (ANSWER + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    ],
    ids=["headers", "continue", "status", "body", "chunk"],
)
def test_an_answer_that_never_ends(at_once: bytes, part: bytes) -> None:
    """The time limit is for the whole answer, in however many parts it comes."""

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(at_once)
            while True:
                connection.sendall(part)
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=[listening], daemon=True).start()
        began = time.monotonic()
        with pytest.raises(VocabtoolError, match="timed out"):
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
            open_encoder(f"openai:m@{url}", timeout=0.6, retries=0)
        assert time.monotonic() - began < 5


def test_retry_after_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits an hour for one request, nor until a time that is none."""
    monkeypatch.setattr(openai, "MAX_WAIT", 1)
    encoder = opened(server)
    for value in ("3600", "soon", "Mon, 01 Jan 99999 00:00:00 GMT"):
        server.schedule.append(status(429, "quota", Retry_After=value))
        began = time.monotonic()
        assert encoder.encode(["one"]).tolist() == [[3, 1, 1]]
        assert time.monotonic() - began < 5


def test_faults_that_stay(server: Server) -> None:
    """After the retries the last answer is told; with none, the first."""
    encoder = opened(server, retries=1)
    server.schedule.extend([status(503), status(502, "<html>\n bad\x1b gateway")])
    with pytest.raises(VocabtoolError, match=r"all attempts failed.* 502: .*bad.* gateway") as told:
        encoder.encode(["one"])
    assert "\x1b" not in str(told.value)
    assert server.asked == {"one": 2}
    server.schedule.append(status(429))
    with pytest.raises(VocabtoolError, match=r"all attempts failed.* 429"):
        opened(server, retries=0)
    encoder = opened(server, retries=0)
    assert encoder.encode(["one"]).tolist() == [[3, 1, 1]]
    server.stop()
    with pytest.raises(VocabtoolError, match=r"all attempts failed.*refused"):
        encoder.encode(["one"])


def index(value: Any) -> Fault:
    """The index of the second vector is another."""
    return rows(lambda data: [data[0], {**data[1], "index": value}])


def longer(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "embedding": [*row["embedding"], 1.0]} for row in data]


WRONG: dict[str, tuple[Fault, str]] = {
    "one number more": (rows(longer), r"shape \(2, 3\), got \(2, 4\)"),
    "an error": (body(b'{"error": "out of memory"}'), "wanted 2 vectors.*out of memory"),
    "index twice": (index(0), "`index` from 0 to 1"),
    "index true": (index(True), "`index` from 0 to 1"),
    "another model": (fields(model="other"), "it was 'numbers' and is now 'other'"),
    "a long name": (fields(model="x" * 257), "at most 256 characters"),
    "too many bytes": (body(b" " * 70_000), "2 texts has more than 67,872 bytes"),
    "a bomb": (
        body(gzip.compress(bytes(1 << 27), mtime=0), Content_Encoding="gzip"),
        "more than 67,872",
    ),
    "not gzip": (body(b"x" * 50, Content_Encoding="gzip"), "DecodeError"),
    "elsewhere": (
        lambda reply: server_of.Reply(status=307, headers={"Location": "http://127.0.0.1:1/"}),
        "status 307",
    ),
    "400": (status(400, "too many tokens"), "status 400: .*too many tokens"),
    "401": (status(401), "OPENAI_API_KEY.*--api-key-env"),
    "413": (status(413), "--batch-size"),
}


@pytest.mark.parametrize(("fault", "told"), WRONG.values(), ids=WRONG)
def test_wrong_answers(fault: Fault, told: str, server: Server) -> None:
    """Each is refused at once, and the server can be used again."""
    encoder = opened(server)
    server.schedule.append(fault)
    with pytest.raises(VocabtoolError, match=told) as caught:
        encoder.encode(TEXTS[:2])
    assert server.url in str(caught.value)
    assert len(server.requests) == 1
    assert np.array_equal(encoder.encode(TEXTS), WANTED)


def test_what_the_server_tells(server: Server) -> None:
    """Its other name for the model is a note, and part of the fingerprint."""
    plain = opened(server)
    assert "127.0.0.1" in plain.notes[0]
    server.schedule.extend([fields(model="numbers-002")] * 2)
    other = open_encoder(server.model)
    assert "'numbers-002'" in other.notes[-1]
    assert other.fingerprint != plain.fingerprint
    assert other.encode(["one"]).tolist() == [[3, 1, 1]]
    far = open_encoder(server.model.replace("127.0.0.1", "0.0.0.0"))
    assert ["unencrypted" in each.notes[0] for each in (far, plain)] == [True, False]


def test_fingerprint_of_addresses(server: Server) -> None:
    """Ways to write one URL are one encoder; another model or path is another."""
    found = opened(server).fingerprint
    same = open_encoder(server.model.replace("http", "HTTP") + "/", requests=1, timeout=5)
    assert same.fingerprint == found
    with pytest.raises(VocabtoolError, match="status 404"):
        open_encoder(server.model.replace("/v1", "/v2"))


def test_pickled(server: Server) -> None:
    """What the server told goes along: nothing is asked again."""
    encoder = opened(server, requests=2)
    again = pickle.loads(pickle.dumps(encoder))
    assert server.requests == []
    assert (again.fingerprint, again.dim) == (encoder.fingerprint, 3)
    server.schedule.append(fields(model="other"))
    with pytest.raises(VocabtoolError, match="is now 'other'"):
        again.encode(["one"])


def test_blank_texts_are_not_sent(server: Server) -> None:
    """OpenAI refuses them; a zero vector is one that a search by vectors does not find."""
    encoder = opened(server)
    assert encoder.encode(["", "one", " \n", "\t"]).tolist() == [
        [0, 0, 0],
        [3, 1, 1],
        *[[0] * 3] * 2,
    ]
    assert server.asked == {"one": 1}


def test_a_server_gets_prompts_and_the_length(server: Server) -> None:
    """Texts with their prompts, but no blank ones; the server itself cuts; several at once."""
    asked: dict[str, Any] = {"prompt_query": "ask: ", "prompt_document": "see: ", "dim": 2}
    encoder = open_encoder(server.model, max_batch=2, requests=3, **asked)
    server.seconds = 0.02
    texts = ["one", "", "two", "\u00a0", "three", "four", "five"]
    found = encoder.encode(texts)
    wanted = [
        row[:2] if text.strip() else [0, 0]
        for text, row in zip(texts, lengths([f"see: {text}" for text in texts]), strict=True)
    ]
    assert found.tolist() == wanted
    assert server.most == 3
    assert {given["dimensions"] for _, _, given in server.requests} == {2}
    assert encoder.encode_queries(["one"]).tolist() == [[8, 1]]
    sent = {text for text in server.asked if text != "How long is a vector?"}
    assert sent == {"ask: one", *(f"see: {text}" for text in texts if text.strip())}
    assert encoder.encode_batches(pa.array(texts), 3)[1].tolist() == wanted[3:6]
    assert open_encoder(server.model).fingerprint != encoder.fingerprint


def test_a_server_that_does_not_cut(server: Server) -> None:
    """It answers with whole vectors: refused, with what to leave out."""
    server.schedule.append(
        server_of.rows(lambda data: [{**row, "embedding": [1.0, 2.0, 3.0]} for row in data])
    )
    with pytest.raises(VocabtoolError, match=r"2 numbers \(--dim\), got 3: .* leave --dim out"):
        open_encoder(server.model, dim=2)


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_the_key_goes_nowhere_else(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is in the header, and in no file, log, message, pickle or repr."""
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    encoder = opened(server, api_key_env="MY_KEY", retries=0)
    documents = [Document(str(number), text, {}) for number, text in enumerate(TEXTS)]
    assert embed(documents, encoder, tmp_path / "out").counts.documents == 10
    assert {headers["Authorization"] for _, headers, _ in server.requests} == {f"Bearer {KEY}"}
    assert "MY_KEY" in encoder.notes[0]
    escaped = KEY.replace("/", "\\/")
    for told in (f"wrong key {KEY}", f"wrong key {escaped}"):
        server.schedule.append(status(401, told))
        with pytest.raises(VocabtoolError, match=r"wrong key \*\*\*.*MY_KEY") as caught:
            encoder.encode(["one"])
        assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
    told = f"{caplog.text} {encoder!r} {vars(encoder)} {encoder.options} {encoder.notes}"
    assert "urllib3" in caplog.text
    for secret in (KEY, escaped, KEY[:10]):
        assert secret not in told
        assert secret.encode() not in pickle.dumps(encoder)
        assert secret.encode() not in everything_in(tmp_path)


@pytest.mark.parametrize("key", ["sk private", "sk-\u00fc", "sk\r\nX-Other: 1", "sk-\x7f"])
def test_keys_that_no_header_takes(
    key: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is named, and its value is not shown."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(VocabtoolError, match="OPENAI_API_KEY: ") as caught:
        open_encoder(server.model)
    assert key not in str(caught.value)
    assert server.requests == []


def test_a_variable_without_a_key(server: Server) -> None:
    """One that was named must be there; the usual one need not: local servers want no key."""
    with pytest.raises(VocabtoolError, match="NO_SUCH_KEY: no such environment variable"):
        open_encoder(server.model, api_key_env="NO_SUCH_KEY")
    opened(server).encode(["one"])
    assert "Authorization" not in server.requests[0][1]


ADDRESSES = {
    "no URL": "numbers",
    "no model": "@http://localhost",
    "no port": "numbers@http://localhost:x/v1",
    "a surrogate": "num\udcffbers@http://localhost/v1",
    "a user": f"numbers@https://me:{KEY}@localhost/v1",
    "two URLs": f"numbers@https://me:{KEY}@http://localhost/v1",
    "a query": f"numbers@https://localhost/v1?key={KEY}",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_addresses_that_are_refused(address: str) -> None:
    """Nothing is sent, the form is told, and no secret in it. A path is none, either."""
    for model, kind in ((f"openai:{address}", None), (Path(address), "openai")):
        with pytest.raises(VocabtoolError, match=r"openai:MODEL@URL|credentials, a") as caught:
            open_encoder(model, kind=kind)
        assert KEY not in str(caught.value)


def test_no_server() -> None:
    """It is told at once, without retries: most probably the address is wrong."""
    began = time.monotonic()
    with pytest.raises(NotFound, match=r"http://127\.0\.0\.1:9: no such server"):
        open_encoder("openai:numbers@http://127.0.0.1:9")
    with server_of.serve() as server, pytest.raises(NotFound, match="SSL"):
        open_encoder(server.model.replace("http:", "https:"))
    assert time.monotonic() - began < 5


def test_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the environment names, with its password, unless the host is excepted."""
    proxy = server.url.replace("http://", "http://me:pass-word@").removesuffix("/v1")
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(VocabtoolError, match=r"status 404: .*no http://far.example/v1/embeddings"):
        open_encoder("openai:numbers@http://far.example/v1")
    assert server.requests[0][1]["Proxy-Authorization"].startswith("Basic ")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert opened(server).dim == 3
    for wrong in ("socks9://me:pass-word@localhost", "http://me:pass-word@[::1"):
        monkeypatch.setenv("http_proxy", wrong)
        with pytest.raises(VocabtoolError, match=r"HTTP_PROXY: .*http://HOST:PORT") as caught:
            open_encoder("openai:numbers@http://far.example/v1")
        assert "pass-word" not in f"{caught.value} {caught.value.__cause__}"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its extra is named."""
    monkeypatch.setitem(sys.modules, "urllib3", None)
    monkeypatch.delitem(sys.modules, "vocabtool.encoders.openai", raising=False)
    with pytest.raises(UnsupportedFormat, match=r"pip install '\.\[http\]'"):
        open_encoder("openai:numbers@http://localhost")


def test_commands(server: Server, tmp_path: Path) -> None:
    """An index is made, searched and added to; without the model in the command nothing is sent."""
    file, folder = tmp_path / "texts.txt", str(tmp_path / "index")
    file.write_text("".join(f"{text}\n" for text in TEXTS))
    given = {"MY_KEY": KEY}
    model = ["--model", server.model, "--api-key-env", "MY_KEY", "--timeout", "9"]
    done = run("index", file, *model, "-o", folder, environ=given)
    assert (done.returncode, b"127.0.0.1, with the key in MY_KEY" in done.stderr) == (0, True)
    server.requests.clear()
    done = run("search", folder, "text", *model, "--format", "json", environ=given)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"]
    assert [asked["input"] for _, _, asked in server.requests][1:] == [["text"]]
    assert {headers["Authorization"] for _, headers, _ in server.requests} == {f"Bearer {KEY}"}
    assert KEY.encode() not in everything_in(tmp_path) + done.stdout + done.stderr
    server.requests.clear()
    done = run("search", folder, "text")
    assert (done.returncode, b"--model" in done.stderr) == (3, True)
    assert server.requests == []
