"""A server of embeddings in OpenAI's form, which fails on a schedule and counts what it was asked.

A vector of a text is computed by a function that a person can follow. Each request takes its next
fault from ``schedule``; when none is left, it answers as it should.
"""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock, Thread
from typing import Any, Final

import orjson

Encode = Callable[[list[str]], Sequence[Sequence[float]]]

WORKS: Final = "numbers"  # name of the model


def lengths(texts: list[str]) -> list[list[float]]:
    """Characters, how many ``e``, and words."""
    return [[len(text), text.count("e"), len(text.split())] for text in texts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is sent. ``answer``: as JSON, unless there is a ``body``. ``share``: of it, then end."""

    answer: Any = None
    body: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    share: float = 1.0
    seconds: float = 0.0


Fault = Callable[[Reply], Reply]


def status(number: int, told: str = "no", **headers: str) -> Fault:
    """An error instead of an answer; ``Retry_After`` is the header ``Retry-After``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda reply: Reply(status=number, answer={"error": {"message": told}}, headers=named)


def slow(seconds: float) -> Fault:
    """A right answer, late."""
    return lambda reply: replace(reply, seconds=seconds)


def half(reply: Reply) -> Reply:
    """The length of the whole answer is told, and half of it is sent."""
    return replace(reply, share=0.5)


def body(data: bytes, **headers: str) -> Fault:
    """Other bytes than an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda reply: replace(reply, body=data, headers=named)


def rows(change: Callable[[list[dict[str, Any]]], Any]) -> Fault:
    """An answer with changed vectors."""
    return lambda reply: replace(
        reply, answer={**reply.answer, "data": change(reply.answer["data"])}
    )


def fields(**changed: Any) -> Fault:
    """An answer with other fields."""
    return lambda reply: replace(reply, answer={**reply.answer, **changed})


class Server(ThreadingHTTPServer):
    """``asked``: how often each text was asked; ``vectors``: how often its vector was sent whole.

    ``requests``: for each request its time, headers and JSON. ``most``: the most at once.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, encode: Encode = lengths, seconds: float = 0.0, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.encode, self.seconds = encode, seconds
        self.schedule: deque[Fault | None] = deque()
        self.asked: Counter[str] = Counter()
        self.vectors: Counter[str] = Counter()
        self.requests: list[tuple[float, dict[str, str], dict[str, Any]]] = []
        self.running = self.most = 0
        self.lock = Lock()
        self.connections: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """Without ``/embeddings``."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def model(self) -> str:
        """As ``open_encoder`` takes it."""
        return f"openai:{WORKS}@{self.url}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer all requests of a connection."""
        self.connections.add(request)
        super().finish_request(request, client_address)

    def stop(self) -> None:
        """As if its process was killed: what is not answered yet never is."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):  # it was closed before
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or waits no longer, is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def do_POST(self) -> None:
        server = self.server
        given = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            headers = {name.title(): value for name, value in self.headers.items()}
            server.requests.append((time.monotonic(), headers, given))
            server.asked.update(given["input"])
            fault = server.schedule.popleft() if server.schedule else None
            server.running += 1
            server.most = max(server.most, server.running)
        try:
            vectors = server.encode(given["input"])
            size = given.get("dimensions")
            data = [
                {"object": "embedding", "index": at, "embedding": list(vector)[:size]}
                for at, vector in enumerate(vectors)
            ]
            answer = {"object": "list", "data": data, "model": given["model"]}
            used = sum(len(text.split()) for text in given["input"])
            usage = {"usage": {"prompt_tokens": used, "total_tokens": used}}
            reply = Reply(answer={**answer, **usage}, seconds=server.seconds)
            if self.path != "/v1/embeddings":
                reply = status(404, f"no {self.path}")(reply)
            self.send(fault(reply) if fault else reply)
        finally:
            with server.lock:
                server.running -= 1
        if fault is None:
            with server.lock:
                server.vectors.update(given["input"])

    def send(self, reply: Reply) -> None:
        """Send the reply; after a part of it the connection ends."""
        time.sleep(reply.seconds)
        data = orjson.dumps(reply.answer) if reply.body is None else reply.body
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: int(len(data) * reply.share)])
        self.wfile.flush()
        self.close_connection = self.close_connection or reply.share < 1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log nothing."""


@contextmanager
def serve(encode: Encode = lengths, seconds: float = 0.0, port: int = 0) -> Iterator[Server]:
    """A server in a thread, to look into."""
    server = Server(encode, seconds, port)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def start(encode: Encode = lengths, seconds: float = 0.0) -> str:
    """Start a server in a process that ends with this one; return its model."""
    receiver, sender = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(
        target=_serve_alone, args=(sender, encode, seconds), daemon=True
    )
    process.start()
    sender.close()
    model: str = receiver.recv()
    receiver.close()
    return model


def _serve_alone(sender: Connection, encode: Encode, seconds: float) -> None:
    with Server(encode, seconds) as server:
        sender.send(server.model)
        sender.close()
        server.serve_forever()
