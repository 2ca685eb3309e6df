"""Several streams drawn by chance, in proportion to what is left of each, or to given weights.

Streams that take turns are in ``interleaving.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from vocabtool.streams.shuffling import random_of
from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import closed_after

T = TypeVar("T")

NEARLY_NONE: Final = 1e-9  # streams at their end must be drawn too, to be found there


class Share(NamedTuple):
    """How much of the mixture is a stream's; each element that it gives is one less.

    ``least``: what it has left at least until its end, since ``amount`` may be an estimate; as much
    as ``amount``: a weight that stays.
    """

    amount: float
    least: float = NEARLY_NONE


@dataclass(frozen=True, slots=True)
class Mix(Generic[T]):
    """Draws a stream each time, by the shares, and gives its next element."""

    sources: tuple[Start[T], ...]
    shares: Callable[[], Sequence[Share]]
    seed: int

    def __call__(self, first: int) -> Iterator[T]:
        return rest(self._mixed(), first)

    def _mixed(self) -> Iterator[T]:
        random = random_of(self.seed, 0)
        with ExitStack() as opened:
            live = [
                _Live(opened.enter_context(closed_after(source(0))), share)
                for source, share in zip(self.sources, self.shares(), strict=True)
            ]
            while live:
                (drawn,) = random.choices(live, [each.chance() for each in live])
                for item in drawn.items:
                    drawn.given += 1
                    yield item
                    break
                else:
                    live.remove(drawn)


class _Live(Generic[T]):
    """A stream that is not known to be at its end; ``given``: how many elements it gave."""

    def __init__(self, items: Iterator[T], share: Share) -> None:
        self.items = items
        self.given = 0
        self._share = share

    def chance(self) -> float:
        return max(self._share.amount - self.given, self._share.least)
