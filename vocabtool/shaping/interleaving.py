"""Several streams in turn, a block of each: the deterministic order of ``tf.data``'s interleave.

Streams drawn by chance are in ``mixing.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Generic, TypeVar

from vocabtool.parallel import close, closed_after
from vocabtool.shaping.starting import Start, rest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interleave(Generic[T]):
    """``length`` streams stay open, and each gives ``block`` elements when it is its turn.

    A stream that ends before gives the turn to the next; the turn after that its place is taken by
    the next stream that was not opened yet. Source: the documentation of
    ``tf.data.Dataset.interleave``, ``deterministic=True``.
    """

    streams: Start[Iterable[T]]
    length: int
    block: int

    def __call__(self, first: int) -> Iterator[T]:
        return rest(self._interleaved(), first)

    def _interleaved(self) -> Iterator[T]:
        opened: dict[int, Iterator[T]] = {}
        try:
            with closed_after(self.streams(0)) as remaining:
                yield from self._in_turn(opened, remaining)
        finally:
            for stream in opened.values():
                close(stream)

    def _in_turn(
        self, opened: dict[int, Iterator[T]], remaining: Iterator[Iterable[T]]
    ) -> Iterator[T]:
        for place in cycle(range(self.length)):
            if place not in opened:
                for stream in remaining:
                    opened[place] = iter(stream)
                    break
            if not opened:
                return
            if place in opened:
                yield from self._turn(opened, place)

    def _turn(self, opened: dict[int, Iterator[T]], place: int) -> Iterator[T]:
        for _ in range(self.block):
            for item in opened[place]:
                yield item
                break
            else:
                del opened[place]
                return
