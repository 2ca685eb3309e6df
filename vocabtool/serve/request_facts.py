"""Facts of the running request, for logs and metrics."""

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

    - ``id``: the value of the answer's header ``X-Request-Id``.
    - ``seconds``: how long each step took, by the name of the step.
    - ``searched``: when the search ended, by :func:`time.perf_counter`; ``None`` without a search.
    - ``hits``: the number of hits; ``None`` without a search.
    - ``queries``: the texts of the queries.
    """

    id: str
    seconds: dict[str, float] = field(default_factory=dict)
    searched: float | None = None
    hits: int | None = None
    queries: list[str] = field(default_factory=list)


REQUEST_FACTS: Final[ContextVar[RequestFacts | None]] = ContextVar("request_facts", default=None)


def note_search(results: Sequence[Hits]) -> None:
    """Store the hits, the queries and the times of a search in the facts of the running request."""
    measured = REQUEST_FACTS.get()
    if measured is None or not results:
        return
    measured.seconds["encode"] = results[0].seconds["encode"]  # of all of them
    measured.seconds["search"] = sum(each.seconds["search"] for each in results)
    measured.hits = sum(map(len, results))
    measured.queries = [each.query.text for each in results]
    measured.searched = perf_counter()
