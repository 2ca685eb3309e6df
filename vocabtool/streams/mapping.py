"""Functions called with each element of a stream: map, flat_map, filter, and a reader ahead.

What they raise names the element. How work goes to threads and processes is in ``parallel.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vocabtool.documents.reading import Document
from vocabtool.errors import OperatorFailed
from vocabtool.streams.starting import Start, rest
from vocabtool.system.parallel import Workers, closed_after, parallel_map, prefetch

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Map(Generic[T, R]):
    """``fn`` of each element; it is not called with what a later start leaves out."""

    source: Start[T]
    fn: Callable[[T], R]
    workers: int
    ordered: bool
    kind: Workers

    def __call__(self, first: int) -> Iterator[R]:
        if first and not self.ordered:
            return rest(self(0), first)
        numbered, work = _numbered(self.source, first), _AtPlace(self.fn)
        if not self.workers:
            return _in_place(work, numbered)
        return parallel_map(
            work, numbered, workers=self.workers, ordered=self.ordered, kind=self.kind
        )


@dataclass(frozen=True, slots=True)
class FlatMap(Generic[T, R]):
    """What each element becomes, one after the other."""

    source: Start[T]
    fn: Callable[[T], Iterable[R]]

    def __call__(self, first: int) -> Iterator[R]:
        return rest(self._flat(), first)

    def _flat(self) -> Iterator[R]:
        with closed_after(_numbered(self.source, 0)) as elements:
            for element in elements:
                yield from self._parts(element)

    def _parts(self, element: tuple[int, T]) -> Iterator[R]:
        begin: _AtPlace[T, Iterator[R]] = _AtPlace(lambda item: iter(self.fn(item)), self.fn)
        with closed_after(begin(element)) as parts:
            while True:
                try:
                    part = next(parts)
                except StopIteration:
                    return
                except Exception as error:  # what the caller's generator raises on the way
                    raise _failed(self.fn, element, error) from error
                yield part


@dataclass(frozen=True, slots=True)
class Filter(Generic[T]):
    """The elements of which ``fn`` is true."""

    source: Start[T]
    fn: Callable[[T], object]

    def __call__(self, first: int) -> Iterator[T]:
        return rest(self._kept(), first)

    def _kept(self) -> Iterator[T]:
        keeps = _AtPlace(self.fn)
        with closed_after(_numbered(self.source, 0)) as elements:
            for element in elements:
                if keeps(element):
                    yield element[1]


@dataclass(frozen=True, slots=True)
class Prefetch(Generic[T]):
    """The elements, ``count`` of them read ahead by a thread."""

    source: Start[T]
    count: int

    def __call__(self, first: int) -> Iterator[T]:
        return prefetch(self.source(first), self.count)


@dataclass(frozen=True, slots=True)
class _AtPlace(Generic[T, R]):
    """Calls a function with a numbered element, perhaps in another process."""

    fn: Callable[[T], R]
    named: Callable[..., Any] | None = None  # what it is called in messages, if not itself

    def __call__(self, element: tuple[int, T]) -> R:
        try:
            return self.fn(element[1])
        except Exception as error:  # of a caller's function: any, and it is named by its place
            raise _failed(self.named or self.fn, element, error) from error


def _failed(
    fn: Callable[..., Any], element: tuple[int, object], error: Exception
) -> OperatorFailed:
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    return OperatorFailed(_place(*element), f"{name} raised {type(error).__name__}: {error}")


def _place(number: int, value: object) -> str:
    """What an element is called: a document by its id, a batch of them by the first and last."""
    match value:
        case Document():
            return value.id
        case [Document() as first, *_, Document() as last]:
            return f"{first.id} to {last.id}"
        case [Document() as only]:
            return only.id
        case _:
            return f"element {number:,}"


def _in_place(work: _AtPlace[T, R], elements: Iterator[tuple[int, T]]) -> Iterator[R]:
    with closed_after(elements) as remaining:
        for element in remaining:
            yield work(element)


def _numbered(source: Start[T], first: int) -> Iterator[tuple[int, T]]:
    """The elements with their numbers, counted from 1 in the whole stream."""
    with closed_after(source(first)) as remaining:
        yield from enumerate(remaining, first + 1)
