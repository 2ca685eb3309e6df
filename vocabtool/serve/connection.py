"""Connections of uvicorn, with limits on headers, slow clients and the number of connections."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from vocabtool.serve.limits import MAX_PIPELINED, Limits
from vocabtool.serve.problems import problem

MAX_TICK: Final = 1.0  # seconds between two looks at a connection


class Connection(HttpToolsProtocol):
    """A connection that is closed if the client is too slow or sends headers that are too long."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        limits: Limits = self.app_state.get("limits") or Limits()
        self._limits = limits
        waits = (limits.header_seconds, limits.stall_seconds, limits.unread_seconds)
        self._tick = min(MAX_TICK, min(waits) / 4)
        self._phase: Literal["headers", "body", "between"] = "headers"
        self._since = self.loop.time()  # when the headers began, or the last piece of the body came
        self._blocked: float | None = None  # since when the client takes nothing
        self._overhead = 0  # bytes since the last that counts: of headers, or around chunks
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again")
        self._timer = self.loop.call_later(self._tick, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > self._limits.header_bytes:
            self._refuse(*self._too_long())

    def _too_long(self) -> tuple[HTTPStatus, str]:
        told = f"the headers have more than {self._limits.header_bytes:,} bytes"
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, told

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError(f"more than {MAX_PIPELINED} requests wait")  # becomes a 400
        if self._phase == "between":
            self._phase, self._since = "headers", self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase == "headers":  # one behind a body would count as one of the request
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        sizes = (len(name) + len(value) for name, value in self.headers)
        if len(self.url) + sum(sizes) > self._limits.header_bytes:
            self._refusal = self._too_long()
            raise ValueError
        super().on_headers_complete()
        self._overhead, self._phase, self._since = 0, "body", self.loop.time()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._overhead, self._since = 0, self.loop.time()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._overhead, self._phase = 0, "between"

    def pause_writing(self) -> None:
        super().pause_writing()
        self._blocked = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._blocked = None

    def _look(self) -> None:
        """Close the connection if its client is too slow."""
        now, limits = self.loop.time(), self._limits
        if self._blocked is not None and now - self._blocked > limits.unread_seconds:
            self.transport.abort()
            return
        if self.flow.read_paused:  # we let the client wait
            self._since = now
        if self._phase != "between" and not self.transport.is_closing():
            most = limits.header_seconds if self._phase == "headers" else limits.stall_seconds
            if now - self._since > most:
                told = f"the {self._phase} of the request did not come within {most:g} seconds"
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, told)
        self._timer = self.loop.call_later(self._tick, self._look)

    def send_400_response(self, msg: str) -> None:
        self._refuse(
            *self._refusal or (HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1")
        )

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Close the connection. If no answer has begun, send a problem document first."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            answer = problem(status, detail, {"Connection": "close"})
            lines = [b"%b: %b\r\n" % pair for pair in answer.raw_headers]
            self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", answer.body)))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
