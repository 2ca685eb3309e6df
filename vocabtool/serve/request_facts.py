"""What is known of the request that runs: where its time went, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vocabtool.search.hits import Hits


@dataclass(slots=True)
class RequestFacts:
    """Facts of one request.

    - ``id``: as in its header ``X-Request-Id``.
    - ``seconds``: by step.
    - ``searched``: when its search ended, by :func:`time.perf_counter`.
    - ``hits``: how many it found; ``None`` if it searched nothing.
    - ``queries``: their texts.
    """

    id: str
    seconds: dict[str, float] = field(default_factory=dict)
    searched: float | None = None
    hits: int | None = None
    queries: list[str] = field(default_factory=list)


REQUEST_FACTS: Final[ContextVar[RequestFacts | None]] = ContextVar("request_facts", default=None)


def note_search(results: Sequence[Hits]) -> None:
    """Note what the request found, and the time that it took."""
    measured = REQUEST_FACTS.get()
    if measured is None or not results:
        return
    measured.seconds["encode"] = results[0].seconds["encode"]  # of all of them
    measured.seconds["search"] = sum(each.seconds["search"] for each in results)
    measured.hits = sum(map(len, results))
    measured.queries = [each.query.text for each in results]
    measured.searched = perf_counter()
