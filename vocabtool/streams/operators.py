"""The operators of :class:`Stream`, where a stream of documents starts, and how large streams are.

A ``Start`` gives a pass from any element on. Operators that cannot begin in the middle are
generator functions of the whole pass, and ``FromStart`` drops the elements before. All can be
pickled where what they are made of can: so a stream travels to other processes.

Sizes: rows of Parquet, of Arrow IPC and of what has a length are exact. Of text files the line ends
are counted, which is quick; of very large ones those in blocks all over the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, count, islice
from pathlib import Path
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

from vocabtool.documents.batch import Document, ReadLog
from vocabtool.documents.files import (
    Files,
    Source,
    Sources,
    can_be_read_again,
    each_source,
    find,
    kind_of,
)
from vocabtool.documents.objects import Indexable, is_indexable
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import documents, extent, row_counts, total
from vocabtool.errors import OperatorFailed, VocabtoolError, reading
from vocabtool.system.parallel import Workers, close, closed_after, in_batches, parallel_map
from vocabtool.system.parallel import prefetch as read_ahead

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


def rest(items: Iterable[T], first: int) -> Iterator[T]:
    """What comes after the first ones, which are read and dropped."""
    with closed_after(items) as remaining:
        yield from islice(remaining, first, None)


def items(source: Iterable[T] | Indexable, first: int) -> Iterator[T]:
    """What a caller can iterate; in an indexable nothing is touched before the start."""
    if not is_indexable(source):
        yield from rest(cast(Iterable[T], source), first)
        return
    for index in range(first, len(source)):
        yield source[index]


# ---- elements in their order


def map_elements(
    source: Start[T], fn: Callable[[T], R], workers: int, ordered: bool, kind: Workers, first: int
) -> Iterator[R]:
    """``fn`` of each element; in order it is not called with what a later start leaves out."""
    unread, dropped = (first, 0) if ordered else (0, first)
    elements, work = number_elements(source, unread), _Naming(fn)
    with closed_after(elements):
        found: Iterator[R] = map(work, elements)
        if workers:
            found = parallel_map(work, elements, workers=workers, ordered=ordered, kind=kind)
        yield from rest(found, dropped)


def flat_map(source: Start[T], fn: Callable[[T], Iterable[R]]) -> Iterator[R]:
    """What each element becomes, one after the other."""
    with closed_after(number_elements(source, 0)) as elements:
        for element in elements:
            try:
                with closed_after(fn(element[1])) as parts:
                    yield from parts
            except Exception as error:  # what the caller's generator raises on the way, too
                raise _failure(fn, element, error) from error


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
    """Calls a function with a numbered element, which an error names; perhaps elsewhere."""

    fn: Callable[[T], R]

    def __call__(self, element: tuple[int, T]) -> R:
        try:
            return self.fn(element[1])
        except Exception as error:  # of a caller's function: any, and it is named by its place
            raise _failure(self.fn, element, error) from error


def _failure(
    fn: Callable[..., Any], element: tuple[int, object], error: Exception
) -> OperatorFailed:
    """A document is called by its id, a batch of them by the first and last."""
    match element[1]:
        case Document(id=place) | [Document(id=place)]:
            pass
        case [Document() as first, *_, Document() as last]:
            place = f"{first.id} to {last.id}"
        case _:
            place = f"element {element[0]:,}"
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    return OperatorFailed(place, f"{name} raised {type(error).__name__}: {error}")


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


def prefetch(source: Start[T], count: int, first: int) -> Iterator[T]:
    """The same, read ahead by a thread."""
    return read_ahead(source(first), count)


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
    """How many passes were begun, where each is to be shuffled differently."""

    begun: int = 0


def shuffle(source: Start[T], buffer: int, seed: int, passes: Passes | None) -> Iterator[T]:
    """Each time a random element of the buffer, whose place the next one of the stream takes.

    An element comes at most ``buffer - 1`` places earlier than it stood; later without a bound,
    ``buffer`` places on the average.
    """
    number = 0
    if passes is not None:
        number, passes.begun = passes.begun, passes.begun + 1
    random = random_of(seed, number)
    with closed_after(source(0)) as remaining:
        held = list(islice(remaining, buffer))
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


def draw(
    sources: Sequence[Start[T]], shares: Callable[[], Sequence[tuple[float, float]]], seed: int
) -> Iterator[T]:
    """The next element of a stream that is drawn each time, by the shares.

    Of each, ``shares`` gives how much of the mixture is its own, of which each element that it
    gives takes one, and what it has left at least until its end, since that may be an estimate; as
    much once more: a weight that stays.
    """
    random = random_of(seed, 0)
    with ExitStack() as stack:
        streams = [stack.enter_context(closed_after(source(0))) for source in sources]
        left = [[amount, least] for amount, least in shares()]
        live = list(range(len(streams)))
        while live:
            (chosen,) = random.choices(live, [max(left[number]) for number in live])
            for item in streams[chosen]:
                left[chosen][0] -= 1
                yield item
                break
            else:
                live.remove(chosen)


# ---- how large


class Size(NamedTuple):
    """``rows``: how many elements; ``exact``: whether that is no estimate.

    ``bytes``: how large the files are. ``None``: not known, or without end.
    """

    rows: int | None = None
    exact: bool = False
    bytes: int | None = None


Sized: TypeAlias = Callable[[], Size]


def size_of(source: Indexable) -> Size:
    """Of what has a length; it is asked each time, since lists grow."""
    return Size(len(source), exact=True)


def together(sizes: Sequence[Size]) -> Size:
    """Of several, one after the other."""
    rows, amounts = total(size.rows for size in sizes), total(size.bytes for size in sizes)
    return Size(rows, all(size.exact for size in sizes), amounts)


def all_of(sized: Sequence[Sized]) -> Size:
    """Of several streams."""
    return together([each() for each in sized])


def part(sized: Sized, start: int, most: int | None) -> Size:
    """Of what is left of a stream behind ``start``, at most so many."""
    rows, exact, _ = sized()
    return Size() if rows is None else Size(len(range(rows)[start:][:most]), exact)


def times(sized: Sized, number: int) -> Size:
    """Of a stream so many times over."""
    rows, exact, size = sized()
    return Size(None if rows is None else rows * number, exact, size and size * number)


def in_lists(sized: Sized, length: int) -> Size:
    """Of a stream in lists."""
    rows, exact, _ = sized()
    return Size() if rows is None else Size(-(-rows // length), exact)


def exact_rows(sized: Sized) -> int | None:
    """How many elements there are, unless that is an estimate."""
    rows, exact, _ = sized()
    return rows if exact else None


# ---- documents

MAX_COUNTED: Final = 1 << 30  # bytes of a file of which all line ends are counted: half a second
BLOCK: Final = 1 << 20
BLOCKS: Final = 256  # of a larger one that are looked at
BY_LINES: Final = frozenset({"lines", "jsonl", "csv", "tsv"})
SHARD_ROWS: Final = 10_000  # documents of an indexable that stay together
NO_SHARDS: Final = (
    "shuffle_shards wants files, or what has a length and can be indexed; of what can only be read "
    "through, .shuffle(buffer, seed) shuffles what its buffer holds"
)
SEVERAL: Final = "shuffle_shards wants files, or one source in memory, not several in memory"


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """Sources and how they are read; called with a number, a pass from that document on."""

    sources: Sources
    options: ReadOptions
    log: ReadLog | None

    def __call__(self, first: int) -> Iterator[Document]:
        return documents(self.sources, self.options, log=self.log, start=first)

    def only_once(self) -> bool:
        """Whether a second pass would find nothing."""
        return not all(map(can_be_read_again, each_source(self.sources)))

    def size(self) -> Size:
        """How much there is. Where bad rows are passed over nothing is exact."""
        sizes: list[Size] = []
        for source in each_source(self.sources):
            if not isinstance(source, Files):
                sizes.append(Size(extent([source.source]).rows, exact=True))
                continue
            try:
                sizes += [self._file_size(file) for file in find(source.name)]
            except (VocabtoolError, OSError):  # not there, or not readable: who reads it is told
                sizes.append(Size())
        whole = together(sizes)
        return whole._replace(exact=whole.exact and self.options.on_error == "raise")

    def _file_size(self, file: str) -> Size:
        """The rows that the file tells, else its lines; of a large file about how many."""
        rows, size = extent(file, format=self.options.format)
        if rows is not None or size is None:
            return Size(rows, rows is not None, size)
        kind = kind_of(file, self.options.format)
        if kind.codec is not None or kind.format not in BY_LINES:
            return Size(None, False, size)
        step = BLOCK if size <= MAX_COUNTED else size // BLOCKS
        ends = looked = 0
        last = b"\n"
        with Path(file).open("rb") as opened:
            for at in range(0, size, step):
                opened.seek(at)
                block = opened.read(BLOCK)
                ends += block.count(b"\n")
                looked += len(block)
                last = block[-1:] or last
        lines = ends * size // looked if looked else 0
        return Size(lines + (last != b"\n"), False, size)

    def shuffled_shards(self, seed: int, buffer: int, at_once: int) -> Iterator[Document]:
        """Shards in random order, ``at_once`` of them in turn, through a shuffle buffer."""
        shards = self.shards()
        random_of(seed, 0).shuffle(shards)
        turns: Iterator[Document] = interleave(lambda first: items(shards, first), at_once, 1)
        yield from shuffle(lambda _: turns, buffer, seed, None)

    def shards(self) -> list[Shard]:
        """Where the sources can be cut; reads no document.

        Parquet at its row groups, Arrow IPC at its record batches, an indexable anywhere; other
        files stay whole, and all where only reading tells which rows are no documents.
        """
        cuts: list[tuple[Source, list[int] | None]] = []
        sources = list(each_source(self.sources))
        if len(sources) > 1 and not all(isinstance(source, Files) for source in sources):
            raise ValueError(SEVERAL)  # alone each would be called the same in ids
        for source in sources:
            if isinstance(source, Files):
                for file in find(source.name):
                    with reading(file):
                        cuts.append((file, row_counts(file, self.options.format)))
            elif is_indexable(source.source):
                held = len(source.source)
                starts = range(0, held, SHARD_ROWS)
                cuts.append((source.source, [min(SHARD_ROWS, held - at) for at in starts]))
            else:
                raise ValueError(NO_SHARDS)
        shards: list[Shard] = []
        for each, rows in cuts:
            if rows is None or self.options.on_error == "skip":
                shards.append(Shard(self, each, 0, None))
            else:
                places = zip(accumulate(rows, initial=0), rows)  # noqa: B905 - the last is the end
                shards += [Shard(self, each, start, n) for start, n in places if n]
        return shards


@dataclass(frozen=True, slots=True)
class Shard:
    """Documents that follow each other in one source, read when they are iterated.

    ``count``: ``None``: all to its end.
    """

    whole: DocumentSource
    source: Source
    start: int
    count: int | None

    def __iter__(self) -> Iterator[Document]:
        options, log = self.whole.options, self.whole.log
        with closed_after(documents(self.source, options, log=log, start=self.start)) as remaining:
            yield from islice(remaining, self.count)
