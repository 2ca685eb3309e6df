"""Elements in lists: of one count, or of about one length for encoders that pay for padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import closed_after, in_batches

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batches(Generic[T]):
    """Lists of ``size`` elements; the last may be shorter."""

    source: Start[T]
    size: int

    def __call__(self, first: int) -> Iterator[list[T]]:
        return in_batches(self.source(first * self.size), self.size)


@dataclass(frozen=True, slots=True)
class BatchesByLength(Generic[T]):
    """Lists whose longest element times their count is at most ``tokens``, padding included.

    ``buffer`` elements are read, sorted by length, shortest first, and cut greedily.
    """

    source: Start[T]
    tokens: int
    length: Callable[[T], int]
    buffer: int

    def __call__(self, first: int) -> Iterator[list[T]]:
        return rest(self._batches(), first)

    def _batches(self) -> Iterator[list[T]]:
        with closed_after(in_batches(self.source(0), self.buffer)) as buffers:
            for held in buffers:
                yield from self._cut(held)

    def _cut(self, held: list[T]) -> Iterator[list[T]]:
        lengths = [max(self.length(item), 1) for item in held]
        batch: list[T] = []
        for index in sorted(range(len(held)), key=lengths.__getitem__):
            if batch and lengths[index] * (len(batch) + 1) > self.tokens:
                yield batch
                batch = []
            batch.append(held[index])
        if batch:
            yield batch


def text_length(item: object) -> int:
    """Characters of a text, or of what has a ``text``."""
    text = getattr(item, "text", item)
    if not isinstance(text, str | bytes):
        raise TypeError(f"wanted a text or a document, or length=, got {type(item).__name__}")
    return len(text)
