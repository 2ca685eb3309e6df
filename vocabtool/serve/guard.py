"""Middleware that checks the host, key, rate, size and time of each request.

The middleware also adds security headers to the answers.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request

from vocabtool.serve import problems
from vocabtool.serve.keys import KeyFile
from vocabtool.serve.limits import Limits, Rates, check_json
from vocabtool.serve.problems import Busy, Refusal, ServeError, TooLarge

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
# Reports are whole pages with bars drawn by style attributes, and no script.
REPORT_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
LOOPBACK_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@]*)(?::[0-9]{1,5})?")
ONCE: Final = (b"host", b"authorization", b"origin", b"content-type", b"content-length")
JSON: Final = re.compile(
    r"application/(?:json|[\w.-]+\+json)\s*(?:;.*)?", re.IGNORECASE | re.DOTALL
)
ALIVE: Final = ("/health", "/ready")  # always answered: whoever asks watches the server
KEYED: Final = ("/metrics", "/openapi.json", "/mcp")  # and /v1/; the page has no secret
READING: Final = re.compile(r"/v1/(?:words|oov|indexes/[^/]+/search)|/mcp")  # by POST
DOCUMENTS: Final = re.compile(r"/v1/indexes/[^/]+/documents")  # by POST: lines, not JSON
MAX_DIGITS: Final = 15  # of a length
TOO_LARGE: Final = "the body has more than {:,} bytes; send less at a time"
HAVE_BODIES: Final = ("POST", "PUT", "PATCH")
WRONG_KEY: Final = 'Bearer realm="vocabtool", error="invalid_token"'
READING_KEY: Final = 'Bearer realm="vocabtool", error="insufficient_scope"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Protection:
    """Who may send requests, and the limits of requests.

    - ``keys``: the valid keys; ``None`` if no key is needed.
    - ``hosts``: allowed values of the header ``Host``, in lower case, without port; ``None``: all.
    - ``origins``: other sites whose pages may send requests, such as ``https://example.org``.
    """

    limits: Limits = field(default_factory=Limits)
    keys: KeyFile | None = None
    hosts: frozenset[str] | None = None
    origins: tuple[str, ...] = ()


def must_write(method: str, path: str) -> bool:
    """Return whether a request may change an index. Such a request needs a key for writing."""
    reads = method in ("GET", "HEAD", "OPTIONS")
    return not (reads or (method == "POST" and READING.fullmatch(path)))


class Guard:
    """Middleware that refuses requests that ``protection`` does not allow."""

    def __init__(self, app: ASGIApp, protection: Protection) -> None:
        self._app = app
        self._protection = protection
        self._rates = Rates(protection.limits.rate)
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        limits, writes = self._protection.limits, must_write(scope["method"], scope["path"])
        seconds = limits.writing_seconds if writes else limits.seconds
        error: Exception
        try:
            async with asyncio.timeout(seconds) as timer:
                headers = _headers_of(scope)
                exchange.expect(headers, limits)
                self._admit(scope, headers, writes=writes)
                await self._pass_on(exchange, headers)
            return
        except ClientDisconnect:
            return
        except TimeoutError as raised:
            told = f"the request took more than {seconds:g} seconds; ask for less"
            out_of_time = Refusal(HTTPStatus.GATEWAY_TIMEOUT, told)  # which clients do not repeat
            error = out_of_time if timer.expired() else raised
        except Exception as raised:  # noqa: BLE001 - an answer that shows nothing of it
            error = raised
        answer = problems.of_error(Request(scope), error)
        if not exchange.has_started:  # else uvicorn closes the connection
            await answer(scope, receive, exchange.send)

    def _admit(self, scope: Scope, headers: dict[bytes, str], *, writes: bool) -> None:
        """Check host, origin, key and rate. Raises :class:`ServeError` if a check fails."""
        protection, path = self._protection, scope["path"]
        host = headers.get(b"host", "").lower()
        name = HOST.fullmatch(host)
        if name is None or (protection.hosts is not None and name[1] not in protection.hosts):
            what = f"Host {host!r:.100} is not allowed; start the server with --allowed-host NAME"
            raise ServeError(what)
        if path in ALIVE:
            return
        origin = headers.get(b"origin")
        if writes or scope["method"] == "POST":
            own = origin is None or origin.lower().partition("://")[2] == host
            if not own and origin not in protection.origins:
                what = f"origin {origin!r:.100} is not allowed; start the server with --cors ORIGIN"
                raise Refusal(HTTPStatus.FORBIDDEN, what)
        client = (scope.get("client") or ("",))[0]
        if protection.keys is not None and (path in KEYED or path.startswith("/v1/")):
            try:
                client = _key_of(protection.keys, headers, writes=writes)
            except Refusal:
                self._count(client)
                raise
            scope.setdefault("state", {})["key"] = client
        self._count(client)

    def _count(self, client: str) -> None:
        if wait := self._rates.wait(client):
            told = f"more than {self._protection.limits.rate:g} requests a second"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, told, Retry_After=str(ceil(wait)))

    async def _pass_on(self, exchange: _Exchange, headers: dict[bytes, str]) -> None:
        """Read the body, check its size and its JSON, and let the application answer."""
        scope, limits = exchange.scope, self._protection.limits
        if exchange.adds_documents or not exchange.is_unread:
            await self._app(scope, exchange.receive, exchange.send)
            return
        content = bytearray()
        try:
            while exchange.is_unread:
                message = await exchange.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                content += piece
                self._held += len(piece)
                if self._held > limits.bodies:
                    raise Busy("all request bodies together are too large; try again")
            if content and scope["method"] in HAVE_BODIES:
                kind = headers.get(b"content-type", "")
                if not JSON.fullmatch(kind):
                    told = f"wanted Content-Type: application/json, got {kind!r:.100}"
                    raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told)
                check_json(bytes(content))
            exchange.content = bytes(content)
            await self._app(scope, exchange.receive, exchange.send)
        finally:
            self._held -= len(content)


def _key_of(keys: KeyFile, headers: dict[bytes, str], *, writes: bool) -> str:
    """Return the name of the key in the headers of a request.

    Raises :class:`Refusal` if the key is missing or invalid. If ``writes`` is true, also raises
    :class:`Refusal` for a key that may only read.
    """
    scheme, _, text = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        told, realm = "send the header Authorization: Bearer KEY", 'Bearer realm="vocabtool"'
        raise Refusal(HTTPStatus.UNAUTHORIZED, told, WWW_Authenticate=realm)
    key = keys.find(text.strip())
    if key is None:
        told = "the key is not valid"
        raise Refusal(HTTPStatus.UNAUTHORIZED, told, WWW_Authenticate=WRONG_KEY)
    if writes and key.access != "write":
        told = f"the key {key.name!r} may only read; writing needs one made with --write"
        raise Refusal(HTTPStatus.FORBIDDEN, told, WWW_Authenticate=READING_KEY)
    return key.name


class _Exchange:
    """A request and its answer. Counts the bytes of the body, and adds headers to the answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.adds_documents = scope["method"] == "POST" and bool(DOCUMENTS.fullmatch(scope["path"]))
        self.content: bytes | None = None  # a body that was read, but not yet passed on
        self.has_started = False
        self.is_unread = False
        self._is_long = False
        self._receive = receive
        self._send = send
        self._received = 0
        self._most = 0

    def expect(self, headers: dict[bytes, str], limits: Limits) -> None:
        """Check ``Content-Length``. Raises :class:`ServeError` if it is invalid or too large."""
        declared = headers.get(b"content-length", "0")
        if not (declared.isdecimal() and len(declared) <= MAX_DIGITS):
            raise ServeError(f"Content-Length: wanted a number of bytes, got {declared!r:.100}")
        length = int(declared)
        is_chunked = b"transfer-encoding" in headers
        self.is_unread = is_chunked or length > 0
        # If the answer comes before the end of a long body, close: uvicorn would read the rest.
        self._is_long = is_chunked or length > limits.body
        self._most = limits.documents_body if self.adds_documents else limits.body
        if length > self._most:
            raise TooLarge(TOO_LARGE.format(self._most))

    async def receive(self) -> Message:
        if self.content is not None:
            content, self.content = self.content, None
            return {"type": "http.request", "body": content, "more_body": False}
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._most:
                raise TooLarge(TOO_LARGE.format(self._most))
            self.is_unread = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            is_below = self.scope["path"].startswith("/v1/")
            policy = (REPORT_POLICY if is_below else PAGE_POLICY).encode()
            close = [(b"connection", b"close")] if self.is_unread and self._is_long else []
            given = [*message.get("headers", ()), *close]
            own = {name.lower() for name, _ in given}
            ours = (*HEADERS, (b"content-security-policy", policy))
            message["headers"] = given + [each for each in ours if each[0] not in own]
        await self._send(message)


def _headers_of(scope: Scope) -> dict[bytes, str]:
    """Return headers by name. Raises :class:`ServeError` if, for example, ``host`` occurs twice."""
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in found and name in ONCE:
            raise ServeError(f"the header {name.decode('latin-1')} occurs twice")
        found[name] = value.decode("latin-1")
    return found
