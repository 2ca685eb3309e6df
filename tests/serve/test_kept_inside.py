"""Inside: facts that are computed once for each commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from vocabtool.errors import NotFound
from vocabtool.serve.answers import ServeError
from vocabtool.serve.catalog import Catalog


def test_once_for_each_version() -> None:
    """Requests at the same time share one computation; a new version is computed again."""
    made: list[int] = []
    go = Event()

    def make(version: int) -> Callable[[], int]:
        def work() -> int:
            made.append(version)
            go.wait()
            return version

        return work

    async def ask() -> None:
        kept = Catalog({})
        first, same, newer, other = (
            asyncio.create_task(kept.fact(name, "stats", version, make(version)))
            for name, version in (("a", 1), ("a", 1), ("a", 2), ("b", 3))
        )
        await asyncio.sleep(0)
        first.cancel()  # the others still wait for what it began
        go.set()
        assert [*await asyncio.gather(same, newer, other)] == [1, 1, 3]
        assert await kept.fact("a", "stats", 2, make(2)) == 2
        assert await kept.fact("a", "stats", 2, make(2)) == 2
        assert await kept.fact("a", "report", 2, make(4)) == 4

    asyncio.run(ask())
    assert sorted(made) == [1, 2, 3, 4]


def test_an_error_is_not_kept() -> None:
    """The next request tries again."""

    def fail() -> int:
        raise NotFound("gone")

    async def ask() -> None:
        kept = Catalog({})
        for _ in range(2):
            with pytest.raises(NotFound):
                await kept.fact("a", "stats", 1, fail)
        assert await kept.fact("a", "stats", 1, lambda: 5) == 5

    asyncio.run(ask())


def test_what_is_long_ends_with_the_server() -> None:
    """It goes on until then."""
    kept = Catalog({})
    kept.go_on("words counted", 0.5)
    kept.stops = True
    with pytest.raises(ServeError):
        kept.go_on("words counted", 0.5)
