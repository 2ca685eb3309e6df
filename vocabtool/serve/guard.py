"""Middleware that checks the host, key, size and time of each request, and the file of keys.

The middleware also adds security headers to the answers. Slow clients, rates and connections are
limited by the proxy in front of the server.

A file of keys stores the SHA-256 of each key, one JSON object per line:

    {"name": "team", "access": "read", "sha256": "5e88..."}

A fast hash without salt is enough, because nobody can try all keys of 256 random bits.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from errno import ENOSPC
from hashlib import sha256
from hmac import compare_digest
from http import HTTPStatus
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final, NoReturn

import orjson
from starlette.requests import ClientDisconnect, Request

from vocabtool.choices import Access
from vocabtool.errors import InvalidCondition, InvalidFile, VocabtoolError, reading
from vocabtool.search.conditions import Condition, Junction, Test, parse
from vocabtool.serve import answers
from vocabtool.serve.answers import LOG, ServeError, not_ready
from vocabtool.system.own_files import from_json, telling_full_disk

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
    (b"cache-control", b"no-cache"),  # files of the page change with the version
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
# A page of another site can send other types without asking the server first, but not these.
LINES: Final = ("application/x-ndjson", "application/jsonl")
ALIVE: Final = ("/health", "/ready")  # always answered: whoever asks watches the server
KEYED: Final = ("/metrics", "/openapi.json", "/mcp")  # and /v1/; the page has no secret
READING: Final = re.compile(r"/v1/(?:words|indexes/[^/]+/search)|/mcp")  # by POST
DOCUMENTS: Final = re.compile(r"/v1/indexes/[^/]+/documents")  # by POST: lines, not JSON

MAX_MEMBERS: Final = 1_000  # of one JSON object: each unknown one would be an error of its own
MAX_WHERE_TESTS: Final = 100  # each looks at every document
MAX_WHERE_VALUES: Final = 1_000
MAX_FILE: Final = 1 << 20  # bytes of a file of keys

REREAD_SECONDS: Final = 1.0  # until a file of keys is looked at again
DISCARD_SECONDS: Final = 1.0  # in which the rest of a refused body is read
NAME_RULE: Final = "a key's name has 1 to 100 letters, digits and any of _ . @ + -"
NAME: Final = re.compile(r"[\w.@+-]{1,100}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Protection:
    """Who may send requests, and the limits of a server.

    - ``keys``: the file of the valid keys; ``None`` if no key is needed.
    - ``hosts``: allowed values of the header ``Host``, in lower case, without port; ``None``: all.
    - ``origins``: other sites whose pages may send requests, such as ``https://example.org``.

    Every limit is a maximum:

    - ``body``: bytes of the body of a request.
    - ``documents_body``: bytes of the body of a request that adds documents.
    - ``bodies``: bytes of all bodies in memory; a single one may be larger.
    - ``waiting``: number of requests that wait for a thread, and of writes that wait for an index.
    - ``seconds``: time of a request that only reads.
    - ``writing_seconds``: time of a request that writes.
    """

    keys: KeyFile | None = None
    hosts: frozenset[str] | None = None
    origins: tuple[str, ...] = ()
    body: int = 1 << 20
    documents_body: int = 16 << 20
    bodies: int = 128 << 20
    waiting: int = 64
    seconds: float = 30
    writing_seconds: float = 300


class Guard:
    """Middleware that refuses requests that ``protection`` does not allow."""

    def __init__(self, app: ASGIApp, protection: Protection) -> None:
        self._app = app
        self._protection = protection
        self._body_bytes = 0  # of all bodies in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits, method, path = self._protection, scope["method"], scope["path"]
        # Whatever is not known to read only needs a key for writing.
        writes = method not in ("GET", "HEAD", "OPTIONS") and not (
            method == "POST" and READING.fullmatch(path)
        )
        seconds = limits.writing_seconds if writes else limits.seconds
        if method == "HEAD":  # whoever answers GET answers HEAD; uvicorn leaves the body out
            scope["method"] = "GET"
        body = bytearray()
        is_read = is_passed_on = has_started = False

        async def receive_piece() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        async def receive_body() -> Message:
            """Return the whole body, and after it what comes from the connection."""
            nonlocal is_passed_on
            if is_passed_on:
                return await receive()
            is_passed_on = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        async def answer(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                scope["method"] = method
                headers = [*message.get("headers", ())]
                if not is_read:  # or uvicorn would read the rest of an endless body
                    headers.append((b"connection", b"close"))
                policy = REPORT_POLICY if path.startswith("/v1/") else PAGE_POLICY
                headers += (*HEADERS, (b"content-security-policy", policy.encode()))
                message["headers"] = headers
            await send(message)

        try:
            async with asyncio.timeout(seconds) as timer:
                request_headers = await self._admit(scope, writes=writes)
                await self._read(scope, receive_piece, request_headers, body)
                await self._app(scope, receive_body, answer)
            return
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - an answer that shows nothing of it
            # No other name keeps it: with its traceback, this frame would keep itself and the body.
            is_late = isinstance(error, TimeoutError) and timer.expired()
            refusal = answers.of_error(
                Request(scope), _too_late(seconds, is_read=is_read) if is_late else error
            )
        finally:
            self._body_bytes -= len(body)
            body.clear()
        if has_started:
            return  # uvicorn closes the connection
        if not is_read:
            await _discard(receive_piece, limits.documents_body)
        await refusal(scope, receive, answer)

    async def _admit(self, scope: Scope, *, writes: bool) -> dict[bytes, str]:
        """Check host, origin and key, and return the headers by name.

        Raises :class:`ServeError` if a check fails, or if, for example, ``host`` occurs twice.
        """
        protection, path = self._protection, scope["path"]
        headers: dict[bytes, str] = {}
        for header, value in scope["headers"]:
            if header in headers and header in ONCE:
                raise ServeError(f"the header {header.decode('latin-1')} occurs twice")
            headers[header] = value.decode("latin-1")
        host = headers.get(b"host", "").lower()
        match = HOST.fullmatch(host)  # its first group is the host without the port
        if match is None or (protection.hosts is not None and match[1] not in protection.hosts):
            what = f"Host {host!r:.100} is not allowed; start the server with --allowed-host NAME"
            raise ServeError(what)
        if path in ALIVE:
            return headers
        origin = headers.get(b"origin")
        if writes or scope["method"] == "POST":
            is_same_site = origin is None or origin.lower().partition("://")[2] == host
            if not is_same_site and origin not in protection.origins:
                what = f"origin {origin!r:.100} is not allowed; start the server with --cors ORIGIN"
                raise ServeError(what, HTTPStatus.FORBIDDEN)
        if protection.keys is not None and (path in KEYED or path.startswith("/v1/")):
            keys = await protection.keys.keys()
            key = admit(keys, headers.get(b"authorization", ""), writes=writes)
            scope.setdefault("state", {})["key"] = key.name
        return headers

    async def _read(
        self, scope: Scope, receive: Receive, headers: dict[bytes, str], body: bytearray
    ) -> None:
        """Read the body, and check its size, type and JSON, or raise :class:`ServeError`."""
        limits, kind = self._protection, headers.get(b"content-type", "")
        adds_documents = scope["method"] == "POST" and DOCUMENTS.fullmatch(scope["path"])
        most = limits.documents_body if adds_documents else limits.body
        too_large = f"the body has more than {most:,} bytes; send less at a time"
        length = headers.get(b"content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise ServeError(f"Content-Length: wanted a number of bytes, got {length!r:.100}")
        if len(length.lstrip("0")) > len(str(most)) or int(length) > most:
            raise ServeError(too_large, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if adds_documents and kind.partition(";")[0].strip().lower() not in LINES:
            wanted = f"wanted Content-Type: {' or '.join(LINES)}, got {kind[:50] or 'none'}"
            raise ServeError(wanted, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            others = self._body_bytes - len(body)
            body += piece
            self._body_bytes += len(piece)
            if len(body) > most:
                raise ServeError(too_large, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            if others and self._body_bytes > limits.bodies:
                what = "all request bodies together are too large; try again"
                raise ServeError(what, HTTPStatus.TOO_MANY_REQUESTS)
            more_body = message.get("more_body", False)
        if body and not adds_documents and scope["method"] in ("POST", "PUT", "PATCH"):
            if not JSON.fullmatch(kind):
                wanted = f"wanted Content-Type: application/json, got {kind!r:.100}"
                raise ServeError(wanted, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            scope.setdefault("state", {})["json"] = parse_json(bytes(body))


async def _discard(receive: Receive, most: int) -> None:
    """Read the rest of a refused body, up to ``most`` bytes: a proxy reads the answer only then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            size, more_body = 0, True
            while more_body and size <= most:
                message = await receive()
                size += len(message.get("body", b""))
                more_body = message.get("more_body", False)


def _too_late(seconds: float, *, is_read: bool) -> ServeError:
    what = f"the request took more than {seconds:g} seconds; ask for less"
    return ServeError(what, HTTPStatus.GATEWAY_TIMEOUT if is_read else HTTPStatus.REQUEST_TIMEOUT)


# Checks of JSON and of conditions.


def parse_json(content: bytes) -> Any:
    """Parse JSON in UTF-8. Repeated members, NaN and Infinity raise :class:`ServeError`."""
    with suppress(orjson.JSONDecodeError):
        value = orjson.loads(content)
        # Each member has a colon: if the object has as many members, none occurs twice. A float of
        # this size may be an integer of more than 64 bits, which orjson rounds.
        if (
            isinstance(value, dict)
            and content.count(b":") == len(value) <= MAX_MEMBERS
            and not any(isinstance(item, float) and abs(item) >= 1 << 63 for item in value.values())
        ):
            return value
    try:
        return json.loads(
            content.decode(), object_pairs_hook=_members, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise ServeError(f"body: not valid UTF-8 at byte {error.start:,}") from error
    except RecursionError as error:
        raise ServeError("body: lists and objects are nested too deeply") from error
    except ValueError as error:
        raise ServeError(f"body: not valid JSON: {error}") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises ``ValueError`` for too many members, or the same one twice."""
    if len(pairs) > MAX_MEMBERS:
        what = f"an object can have at most {MAX_MEMBERS:,} members, got {len(pairs):,}"
        raise ValueError(what)
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = max(names, key=names.count)
        raise ValueError(f"the key {twice!r:.100} occurs twice in an object")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in JSON")


def check_condition(where: str) -> None:
    """Raise :class:`InvalidCondition` if ``where`` is invalid, or has too many tests or values."""
    tests = values = 0
    unchecked: list[Condition] = [parse(where)]
    while unchecked:
        match unchecked.pop():
            case Junction(_, conditions):
                unchecked += conditions
            case Test() as test:
                tests, values = tests + 1, values + len(test.values)
                if tests > MAX_WHERE_TESTS or values > MAX_WHERE_VALUES:
                    most = f"{MAX_WHERE_TESTS:,} tests and {MAX_WHERE_VALUES:,} values"
                    message = f"where: a request can have at most {most}"
                    raise InvalidCondition(message, where, test.position)


# Keys.


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A key as stored in the file. ``access``: what the key allows; ``write`` includes reading."""

    name: str
    access: Access
    sha256: str


def make_key(path: Path, name: str, access: Access) -> str:
    """Make a key, add its hash to a file, and return the key.

    The file is created if it does not exist, and has the mode 0600. Several processes may add keys.

    Raises :class:`VocabtoolError` if the name is invalid or already in the file, and
    :class:`InvalidFile` if the file is damaged.
    """
    if not NAME.fullmatch(name):
        raise VocabtoolError(f"{NAME_RULE}, got {name!r:.120}")
    # Tools that look for leaked keys can recognise ours.
    text = "vocabtool_" + secrets.token_urlsafe(32)
    key = Key(name=name, access=access, sha256=_digest(text))
    line = json.dumps(asdict(key)).encode() + b"\n"
    with (
        telling_full_disk(path),
        reading(str(path)),
        open(path, "a+b", buffering=0, opener=_open_at_once) as file,
    ):
        fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        file.seek(0)
        before = file.read(MAX_FILE + 1)
        if any(known.name == name for known in decode_keys(before)):
            what = f"{path}: there is already a key named {name!r}"
            raise VocabtoolError(f"{what}; choose another name, or delete the line of that key")
        if before and not before.endswith(b"\n"):
            line = b"\n" + line
        decode_keys(before + line)  # not too long
        os.fchmod(file.fileno(), 0o600)
        if file.write(line) != len(line):  # as if the rest had found no space either
            file.truncate(len(before))
            raise OSError(ENOSPC, os.strerror(ENOSPC))
    return text


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def decode_keys(content: bytes) -> tuple[Key, ...]:
    """Skip empty lines. Raises :class:`InvalidFile` if the file is damaged or too long."""
    if len(content) > MAX_FILE:
        raise InvalidFile(
            f"a file of keys can have at most {MAX_FILE:,} bytes, got {len(content):,}"
        )
    keys: dict[str, Key] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):  # the line may be a key itself: it is not shown
            raise InvalidFile(f"line {number}: not a line that `vocabtool api-key` wrote")
        key: Key = from_json(Key, value, f"line {number}")
        if not NAME.fullmatch(key.name):
            raise InvalidFile(f"line {number}: {NAME_RULE}, got {key.name!r:.120}")
        if not DIGEST.fullmatch(key.sha256):
            raise InvalidFile(f"line {number}: sha256 must be 64 hexadecimal digits")
        if key.name in keys:
            raise InvalidFile(f"line {number}: there is already a key named {key.name!r}")
        keys[key.name] = key
    return tuple(keys.values())


class KeyFile:
    """The keys of a file. The file is read again when it changes, so that keys can be revoked.

    Raises :class:`NotFound`, and :class:`InvalidFile` if it is damaged or not a regular file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._keys: tuple[Key, ...] = ()
        self._problem = ""
        # One thread: a file system that blocks it blocks nothing else.
        self._thread = ThreadPoolExecutor(1, "vocabtool-keys")
        self._started = time.monotonic()  # when the file was last looked at
        self._future = self._thread.submit(self._read)
        self._future.result()

    async def keys(self) -> tuple[Key, ...]:
        """Return the keys. The file is looked at once in ``REREAD_SECONDS``.

        Raises :class:`ServeError` while the file is missing, damaged or blocks.
        """
        now = time.monotonic()
        if self._future.done() and now - self._started >= REREAD_SECONDS:
            self._started, self._future = now, self._thread.submit(self._read)
        future = self._future
        await asyncio.wait([asyncio.wrap_future(future)], timeout=REREAD_SECONDS)
        problem = "it blocks" if not future.done() else str(future.exception() or "")
        if problem and problem != self._problem:
            LOG.error("no key is valid: %s: %s", self._path, problem)
        self._problem = problem
        if problem:
            raise not_ready("no key is valid, because the file of keys cannot be read")
        return future.result()

    def _read(self) -> tuple[Key, ...]:
        with reading(str(self._path)), open(self._path, "rb", opener=_open_at_once) as file:
            facts = os.fstat(file.fileno())
            version = facts.st_ino, facts.st_size, facts.st_mtime_ns
            if version != self._version:
                self._keys = decode_keys(file.read(MAX_FILE + 1))
                self._version = version
        return self._keys


def _open_at_once(path: str, flags: int) -> int:
    """Open a regular file, and refuse anything else: a pipe would wait for its other end."""
    handle = os.open(path, flags | os.O_NONBLOCK, 0o600)
    if not S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidFile("not a regular file; wanted a file that `vocabtool api-key` wrote")
    return handle


def admit(keys: Iterable[Key], authorization: str, *, writes: bool) -> Key:
    """Return the key in a header ``Authorization``. Hashes are compared in constant time.

    Raises :class:`ServeError` if it is missing or invalid, or may not write but ``writes`` is true.
    """
    realm = 'Bearer realm="vocabtool"'
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "bearer":
        what = "send the header Authorization: Bearer KEY"
        raise ServeError(what, HTTPStatus.UNAUTHORIZED, WWW_Authenticate=realm)
    digest, key = _digest(text.strip()), None
    for stored_key in keys:  # all of them: the time must not tell which key it is
        if compare_digest(stored_key.sha256, digest):
            key = stored_key
    if key is None:
        header = f'{realm}, error="invalid_token"'
        raise ServeError("the key is not valid", HTTPStatus.UNAUTHORIZED, WWW_Authenticate=header)
    if writes and key.access != "write":
        what = f"the key {key.name!r} may only read; writing needs one made with --write"
        header = f'{realm}, error="insufficient_scope"'
        raise ServeError(what, HTTPStatus.FORBIDDEN, WWW_Authenticate=header)
    return key
