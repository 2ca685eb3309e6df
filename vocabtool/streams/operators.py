"""The operators of :class:`Stream`: each a function that gives a pass over what is before it.

A ``Start`` gives a pass from any element on. Operators that cannot begin in the middle are
generator functions of the whole pass, and ``FromStart`` drops the elements before. All can be
pickled where what they are made of can: so a stream travels to other processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

from vocabtool.documents.batch import Document
from vocabtool.documents.objects import Indexable, is_indexable
from vocabtool.errors import OperatorFailed, VocabtoolError
from vocabtool.system.parallel import Workers, close, closed_after, in_batches, parallel_map

T = TypeVar("T")
R = TypeVar("R")

Start: TypeAlias = Callable[[int], Iterator[T]]
"""``start(first)``: a new pass over the elements, without the first ones. Reads nothing yet."""

ONCE: Final = (
    "this stream comes from what can be read only once (an iterator, a queue or standard input), "
    "and it was read: make it of a list, a file or a function that is called anew, or put .cache() "
    "behind it"
)
NEARLY_NONE: Final = 1e-9  # streams at their end must be drawn too, to be found there


@dataclass(frozen=True, slots=True)
class FromStart(Generic[T]):
    """A start of what must be read from its beginning; ``make``: gives a whole pass."""

    make: Callable[[], Iterator[T]]

    def __call__(self, first: int) -> Iterator[T]:
        return rest(self.make(), first)


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


def rest(items: Iterator[T], first: int) -> Iterator[T]:
    """What comes after the first ones, which are read and dropped."""
    return items if first == 0 else _rest(items, first)


def _rest(items: Iterator[T], first: int) -> Iterator[T]:
    with closed_after(items) as remaining:
        yield from islice(remaining, first, None)


def items(source: Iterable[T] | Indexable, first: int) -> Iterator[T]:
    """What a caller can iterate; in an indexable nothing is touched before the start."""
    if is_indexable(source):
        for index in range(first, len(source)):
            yield source[index]
    else:
        with closed_after(cast(Iterable[T], source)) as remaining:
            yield from islice(remaining, first, None)


# ---- elements in their order: map, flat_map, filter, take, skip, repeat, batch


def map_elements(
    source: Start[T], fn: Callable[[T], R], workers: int, ordered: bool, kind: Workers, first: int
) -> Iterator[R]:
    """``fn`` of each element; it is not called with what a later start leaves out."""
    if first and not ordered:
        return rest(map_elements(source, fn, workers, ordered, kind, 0), first)
    elements, work = number_elements(source, first), _Naming(fn)
    if workers:
        return parallel_map(work, elements, workers=workers, ordered=ordered, kind=kind)
    return _map_here(work, elements)


def _map_here(work: _Naming[T, R], elements: Iterator[tuple[int, T]]) -> Iterator[R]:
    with closed_after(elements) as remaining:
        for element in remaining:
            yield work(element)


def flat_map(source: Start[T], fn: Callable[[T], Iterable[R]]) -> Iterator[R]:
    """What each element becomes, one after the other."""
    begin: _Naming[T, Iterator[R]] = _Naming(lambda item: iter(fn(item)), fn)
    with closed_after(number_elements(source, 0)) as elements:
        for element in elements:
            with closed_after(begin(element)) as parts:
                while True:
                    try:
                        part = next(parts)
                    except StopIteration:
                        break
                    except Exception as error:  # what the caller's generator raises on the way
                        raise _failure(fn, element, error) from error
                    yield part


def filter_elements(source: Start[T], fn: Callable[[T], object]) -> Iterator[T]:
    """The elements of which ``fn`` is true."""
    keeps = _Naming(fn)
    with closed_after(number_elements(source, 0)) as elements:
        for element in elements:
            if keeps(element):
                yield element[1]


def number_elements(source: Start[T], first: int) -> Iterator[tuple[int, T]]:
    """The elements with their numbers, counted from 1 in the whole stream."""
    with closed_after(source(first)) as remaining:
        yield from enumerate(remaining, first + 1)


@dataclass(frozen=True, slots=True)
class _Naming(Generic[T, R]):
    """Calls a function with a numbered element, which an error names; perhaps elsewhere.

    ``named``: the function that messages name, if it is another.
    """

    fn: Callable[[T], R]
    named: Callable[..., Any] | None = None

    def __call__(self, element: tuple[int, T]) -> R:
        try:
            return self.fn(element[1])
        except Exception as error:  # of a caller's function: any, and it is named by its place
            raise _failure(self.named or self.fn, element, error) from error


def _failure(
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


def take(source: Start[T], most: int, first: int) -> Iterator[T]:
    """The first ``most`` elements; none after them is read."""
    if first < most:
        with closed_after(source(first)) as remaining:
            yield from islice(remaining, most - first)


def skip(source: Start[T], count: int, first: int) -> Iterator[T]:
    """The elements after the first ``count``."""
    return source(first + count)


def repeat(
    source: Start[T], times: int | None, rows: Callable[[], int | None], first: int
) -> Iterator[T]:
    """One pass after the other; ``times``: ``None`` for ever, until a pass finds nothing.

    ``rows``: how many elements a pass has, where that is known, so that none of those before a
    later start is read.
    """
    known = rows() if first else None
    if not known:
        return rest(_passes(source, times, 0), first)
    left = None if times is None else times - first // known
    return _passes(source, left, first % known)


def _passes(source: Start[T], times: int | None, first: int) -> Iterator[T]:
    for _ in count() if times is None else range(times):
        is_empty = True
        with closed_after(source(first)) as remaining:
            for item in remaining:
                is_empty = False
                yield item
        first = 0
        if is_empty:
            return


def lists(source: Start[T], size: int, first: int) -> Iterator[list[T]]:
    """Lists of ``size`` elements; the last may be shorter."""
    return in_batches(source(first * size), size)


def lists_by_length(
    source: Start[T], tokens: int, length: Callable[[T], int], buffer: int
) -> Iterator[list[T]]:
    """Lists whose longest element times their count is at most ``tokens``, padding included.

    ``buffer`` elements are read, sorted by length, shortest first, and cut greedily.
    """
    with closed_after(in_batches(source(0), buffer)) as buffers:
        for held in buffers:
            lengths = [max(length(item), 1) for item in held]
            batch: list[T] = []
            for index in sorted(range(len(held)), key=lengths.__getitem__):
                if batch and lengths[index] * (len(batch) + 1) > tokens:
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


# ---- in random order


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

    def __call__(self) -> Iterator[T]:
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


# ---- several streams


def interleave(streams: Start[Iterable[T]], length: int, block: int) -> Iterator[T]:
    """``length`` streams stay open, and each gives ``block`` elements when it is its turn.

    A stream that ends before gives the turn to the next; the turn after that its place is taken by
    the next stream that was not opened yet. Source: the documentation of
    ``tf.data.Dataset.interleave``, ``deterministic=True``.
    """
    turns: deque[Iterator[T] | None] = deque()  # None: that stream has ended
    try:
        with closed_after(streams(0)) as remaining:
            unopened = map(iter, remaining)
            while len(turns) < length and (stream := next(unopened, None)) is not None:
                turns.append(stream)
                yield from _turn(turns, stream, block)
            while turns:
                stream = turns.popleft() or next(unopened, None)
                if stream is not None:
                    turns.append(stream)
                    yield from _turn(turns, stream, block)
    finally:
        for stream in turns:
            if stream is not None:
                close(stream)


def _turn(turns: deque[Iterator[T] | None], stream: Iterator[T], block: int) -> Iterator[T]:
    """A block of the stream that was put last."""
    for _ in range(block):
        for item in stream:
            yield item
            break
        else:
            turns[-1] = None
            return


class Share(NamedTuple):
    """How much of the mixture is a stream's; each element that it gives is one less.

    ``least``: what it has left at least until its end, since ``amount`` may be an estimate; as much
    as ``amount``: a weight that stays.
    """

    amount: float
    least: float = NEARLY_NONE


def draw(
    sources: Sequence[Start[T]], shares: Callable[[], Sequence[Share]], seed: int
) -> Iterator[T]:
    """The next element of a stream that is drawn each time, by the shares."""
    random = random_of(seed, 0)
    with ExitStack() as stack:
        streams = [stack.enter_context(closed_after(source(0))) for source in sources]
        left = [[share.amount, share.least] for share in shares()]
        live = list(range(len(streams)))
        while live:
            (chosen,) = random.choices(live, [max(left[number]) for number in live])
            for item in streams[chosen]:
                left[chosen][0] -= 1
                yield item
                break
            else:
                live.remove(chosen)
