"""Where a stream starts: what gives its elements anew, from any of them on.

Operators are made of such starts, and are such starts themselves; how is in the files beside this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeAlias, TypeVar, cast

from vocabtool.documents.items import Indexable, is_indexable
from vocabtool.errors import VocabtoolError
from vocabtool.system.parallel import closed_after

T = TypeVar("T")

Start: TypeAlias = Callable[[int], Iterator[T]]
"""``start(first)``: a new pass over the elements, without the first ones. Reads nothing yet."""

ONCE = (
    "this stream comes from what can be read only once (an iterator, a queue or standard input), "
    "and it was read: make it of a list, a file or a function that is called anew, or put .cache() "
    "behind it"
)


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """Starts in what a caller can iterate; in an indexable nothing is touched before the start."""

    items: Iterable[T] | Indexable

    def __call__(self, first: int) -> Iterator[T]:
        if is_indexable(self.items):
            return _indexed(self.items, first)
        return rest(self._iterated(), first)

    def _iterated(self) -> Iterator[T]:
        with closed_after(cast(Iterable[T], self.items)) as remaining:
            yield from remaining


@dataclass(slots=True)
class Once(Generic[T]):
    """A start of what can be read once. A second pass raises rather than to find nothing."""

    source: Start[T]
    read: bool = False

    def __call__(self, first: int) -> Iterator[T]:
        if self.read:
            raise VocabtoolError(ONCE)
        self.read = True
        yield from self.source(first)


def _indexed(items: Indexable, first: int) -> Iterator[T]:
    for index in range(first, len(items)):
        yield items[index]


def rest(items: Iterator[T], first: int) -> Iterator[T]:
    """What comes after the first ones, which are read and dropped."""
    return items if first == 0 else _rest(items, first)


def _rest(items: Iterator[T], first: int) -> Iterator[T]:
    with closed_after(items) as remaining:
        yield from islice(remaining, first, None)
