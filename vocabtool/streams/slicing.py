"""Parts of a stream, and a stream several times over: take, skip, repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Generic, TypeVar

from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import closed_after

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Take(Generic[T]):
    """The first ``most`` elements; none after them is read."""

    source: Start[T]
    most: int

    def __call__(self, first: int) -> Iterator[T]:
        if first < self.most:
            with closed_after(self.source(first)) as remaining:
                yield from islice(remaining, self.most - first)


@dataclass(frozen=True, slots=True)
class Skip(Generic[T]):
    """The elements after the first ``left_out``."""

    source: Start[T]
    left_out: int

    def __call__(self, first: int) -> Iterator[T]:
        return self.source(first + self.left_out)


@dataclass(frozen=True, slots=True)
class Repeat(Generic[T]):
    """One pass after the other; ``times``: ``None`` for ever, until a pass finds nothing.

    ``rows``: how many elements a pass has, where that is known, so that none of those before a
    later start is read.
    """

    source: Start[T]
    times: int | None
    rows: Callable[[], int | None]

    def __call__(self, first: int) -> Iterator[T]:
        rows = self.rows() if first else None
        if not rows:
            return rest(self._passes(0, 0), first)
        return self._passes(first // rows, first % rows)

    def _passes(self, done: int, first: int) -> Iterator[T]:
        for _ in count() if self.times is None else range(self.times - done):
            found = False
            with closed_after(self.source(first)) as remaining:
                for item in remaining:
                    found = True
                    yield item
            first = 0
            if not found:
                return
