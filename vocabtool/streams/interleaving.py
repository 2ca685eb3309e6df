"""Several streams in turn, a block of each: the deterministic order of ``tf.data``'s interleave.

Streams drawn by chance are in ``mixing.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import close, closed_after

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
        opened: deque[Iterator[T] | None] = deque()  # in the order of their turns; None: ended
        try:
            with closed_after(self.streams(0)) as remaining:
                yield from self._in_turn(opened, remaining)
        finally:
            for stream in opened:
                if stream is not None:
                    close(stream)

    def _in_turn(
        self, opened: deque[Iterator[T] | None], remaining: Iterator[Iterable[T]]
    ) -> Iterator[T]:
        begun = map(iter, remaining)
        for first in islice(begun, self.length):
            opened.append(first)
            yield from self._turn(opened, first)
        while opened:
            stream = opened.popleft() or next(begun, None)
            if stream is not None:
                opened.append(stream)
                yield from self._turn(opened, stream)

    def _turn(self, opened: deque[Iterator[T] | None], stream: Iterator[T]) -> Iterator[T]:
        """A block of the stream that was put last."""
        for _ in range(self.block):
            for item in stream:
                yield item
                break
            else:
                opened[-1] = None
                return
