"""The limits of a server, and checks of JSON bodies, conditions and request rates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from vocabtool.errors import InvalidCondition
from vocabtool.search.conditions import Condition, Junction, Not, Test, parse
from vocabtool.serve.problems import ServeError

MAX_MEMBERS: Final = 1_000  # of one JSON object: each unknown one would be an error of its own
MAX_WHERE_TESTS: Final = 100  # each looks at every document
MAX_WHERE_VALUES: Final = 1_000
MAX_WAITING: Final = 64  # requests
MAX_CLIENTS: Final = 10_000  # whose requests are counted; the longest idle ones are forgotten
MAX_PIPELINED: Final = 16  # requests sent in one connection before the first is answered


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of each process of a server. Every value is a maximum.

    - ``body``: bytes of the body of a request.
    - ``documents_body``: bytes of the body of a request that adds documents.
    - ``bodies``: bytes of all bodies in memory. Bodies with documents to add are not counted.
    - ``header_bytes``: bytes of a request before its body.
    - ``connections``: number of open connections.
    - ``waiting``: number of requests that wait for a thread.
    - ``rate``: requests per second for each key, or for each address if the server has no keys.
      0: no limit.
    - ``seconds``: time of a request that only reads.
    - ``writing_seconds``: time of a request that writes.
    - ``header_seconds``: time until the headers of a request are complete.
    - ``stall_seconds``: time in which no byte of a request's body arrives.
    - ``unread_seconds``: time in which a client reads nothing of an answer.
    """

    body: int = 1 << 20
    documents_body: int = 16 << 20
    bodies: int = 64 << 20
    header_bytes: int = 32 << 10
    connections: int = 512
    waiting: int = MAX_WAITING
    rate: float = 1_000
    seconds: float = 30
    writing_seconds: float = 300
    header_seconds: float = 10
    stall_seconds: float = 10
    unread_seconds: float = 60


class Rates:
    """Limits the requests of each client, with a token bucket.

    - ``rate``: requests per second; 0: no limit. After a pause, a client may send this number of
      requests at once.
    - ``clock``: a function that returns the time in seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = max(1.0, rate)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # tokens, and when they were counted

    def wait(self, client: str) -> float:
        """Count a request. Return 0 if it is allowed, otherwise the seconds to wait."""
        if not self._rate:
            return 0.0
        now = self._clock()
        left, before = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - before) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[client] = (left if wait else left - 1, now)
        if len(self._left) > MAX_CLIENTS:
            del self._left[next(iter(self._left))]
        return wait


def check_json(content: bytes) -> None:
    """Check that a body is valid JSON in UTF-8, without repeated members, NaN or Infinity.

    Raises :class:`ServeError` if the check fails.
    """
    try:
        json.loads(
            content.decode(), object_pairs_hook=_check_members, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise ServeError(f"body: not valid UTF-8 at byte {error.start:,}") from error
    except RecursionError as error:
        raise ServeError("body: lists and objects are nested too deeply") from error
    except ValueError as error:
        raise ServeError(f"body: not valid JSON: {error}") from error


def _check_members(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > MAX_MEMBERS:
        what = f"an object can have at most {MAX_MEMBERS:,} members, got {len(pairs):,}"
        raise ValueError(what)
    names = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the key {name!r:.100} occurs twice in an object")
        names.add(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in JSON")


def check_condition(where: str) -> None:
    """Check that a condition is valid and does not have too many tests or values.

    Raises :class:`InvalidCondition` if the check fails.
    """
    tests = values = 0
    left: list[Condition] = [parse(where)]
    while left:
        match left.pop():
            case Not(condition):
                left.append(condition)
            case Junction(_, conditions):
                left += conditions
            case Test() as test:
                tests, values = tests + 1, values + len(test.values)
                for count, most, what in (
                    (tests, MAX_WHERE_TESTS, "tests"),
                    (values, MAX_WHERE_VALUES, "values"),
                ):
                    if count > most:
                        told = f"where: a request can have at most {most:,} {what}"
                        raise InvalidCondition(told, where, test.position)
