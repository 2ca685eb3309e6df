"""A stream in random order, through a buffer that is refilled from everything to come.

The order over files that are larger than any buffer is in ``shards.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Generic, TypeVar

from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import closed_after

T = TypeVar("T")


@dataclass(slots=True)
class Passes:
    """How many passes were begun: they are shuffled differently where that is asked for."""

    begun: int = 0

    def begin(self) -> int:
        self.begun += 1
        return self.begun - 1


@dataclass(frozen=True, slots=True)
class Shuffle(Generic[T]):
    """Each time a random element of the buffer, whose place the next one of the stream takes.

    An element comes at most ``buffer - 1`` places earlier than it stood; later without a bound,
    ``buffer`` places on the average.
    """

    source: Start[T]
    buffer: int
    seed: int
    reshuffle: bool
    passes: Passes = field(default_factory=Passes)

    def __call__(self, first: int) -> Iterator[T]:
        return rest(self._shuffled(), first)

    def _shuffled(self) -> Iterator[T]:
        random = random_of(self.seed, self.passes.begin() if self.reshuffle else 0)
        with closed_after(self.source(0)) as remaining:
            held = list(islice(remaining, self.buffer))
            size = len(held)
            for item in remaining:
                at = int(random.random() * size)
                drawn, held[at] = held[at], item
                yield drawn
        random.shuffle(held)
        while held:  # and lets go of each
            yield held.pop()


def random_of(seed: int, number: int) -> Random:
    """The random numbers of one pass: the same in every process and every version of Python."""
    return Random(f"{seed} {number}")  # noqa: S311 - an order, no secret
