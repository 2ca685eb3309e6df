"""Functions and classes that implement the operators and sources of :class:`Stream`.

A ``Start`` is a function that begins a pass at a given position. An operator can be pickled if its
source and its function can be pickled.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, count, islice
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from vocabtool.documents.batch import Document, Indexable, ReadLog, is_indexable
from vocabtool.documents.files import ITERABLE, Source, Sources, each_source, find, kind_of
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import documents, extent, total
from vocabtool.documents.tables import row_counts
from vocabtool.errors import OperatorFailed, VocabtoolError, reading
from vocabtool.system.parallel import Workers, closed_after, in_batches, parallel_map
from vocabtool.system.parallel import prefetch as read_ahead

T = TypeVar("T")
R = TypeVar("R")

Start: TypeAlias = Callable[[int], Iterator[T]]
"""``start(first)``: a new pass that leaves out the first ``first`` elements; reads lazily."""

ONCE: Final = (
    "this stream can be read only once (it reads an iterator or standard input) and was "
    "already read: create it from a list, a file or an iterable that is not an iterator, or append "
    ".cache()"
)
NEARLY_NONE: Final = 1e-9  # weight of an exhausted stream: drawing it shows that it ended


@dataclass(slots=True)
class Passes:
    """The number of passes over a stream that have begun."""

    begun: int = 0


def once(source: Start[T], passes: Passes, first: int) -> Iterator[T]:
    """Begin the only pass over a source. A second pass raises ``VocabtoolError``."""
    passes.begun += 1
    if passes.begun > 1:
        raise VocabtoolError(ONCE)
    yield from source(first)


def begin(make: Callable[[], Iterable[T]], first: int) -> Iterator[T]:
    """Begin a pass over a source that must be read from its beginning: its first items, too."""
    with closed_after(make()) as remaining:
        yield from islice(remaining, first, None)


def items(source: Iterable[T] | Indexable, first: int) -> Iterator[T]:
    """Yield the items from position ``first`` on. A sequence is not read before this position."""
    if is_indexable(source):
        for index in range(first, len(source)):
            yield source[index]
    else:
        yield from begin(lambda: cast(Iterable[T], source), first)


# ---- elements in their order


def map_elements(
    source: Start[T], fn: Callable[[T], R], workers: int, ordered: bool, kind: Workers, first: int
) -> Iterator[R]:
    """See :meth:`Stream.map`.

    ``first``: the number of results to leave out. If results are in order, as many elements need
    not be read. Otherwise a result may come from any element, so all elements are mapped.
    """
    elements, work = number_elements(source, first if ordered else 0), partial(_call, fn)
    results: Iterator[R] = map(work, elements)
    if workers:
        results = parallel_map(work, elements, workers=workers, ordered=ordered, kind=kind)
    with closed_after(elements), closed_after(results) as mapped:
        yield from islice(mapped, 0 if ordered else first, None)


def flat_map(source: Start[T], fn: Callable[[T], Iterable[R]]) -> Iterator[R]:
    with closed_after(number_elements(source, 0)) as elements:
        for element in elements:
            try:
                with closed_after(fn(element[1])) as items:
                    yield from items
            except (VocabtoolError, MemoryError):
                raise
            except Exception as error:  # also from inside a generator of the caller
                raise _failure(fn, element, error) from error


def filter_elements(source: Start[T], fn: Callable[[T], object]) -> Iterator[T]:
    with closed_after(number_elements(source, 0)) as elements:
        for element in elements:
            if _call(fn, element):
                yield element[1]


def number_elements(source: Start[T], first: int) -> Iterator[tuple[int, T]]:
    """Begin a pass, and yield each element after its number, from ``first + 1`` on."""
    with closed_after(source(first)) as remaining:
        yield from enumerate(remaining, first + 1)


def _call(fn: Callable[[T], R], element: tuple[int, T]) -> R:
    """Call ``fn`` with a numbered element. Raises :class:`OperatorFailed` if it fails."""
    try:
        return fn(element[1])
    except (VocabtoolError, MemoryError):  # says itself what failed
        raise
    except Exception as error:  # the caller's function may raise anything
        raise _failure(fn, element, error) from error


def _failure(
    fn: Callable[..., Any], element: tuple[int, object], error: Exception
) -> OperatorFailed:
    number, value = element
    match value:
        case Document(id=place) | [Document(id=place)]:
            pass
        case [Document() as first, *_, Document() as last]:
            place = f"{first.id} to {last.id}"
        case _:
            place = f"element {number:,}"
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    return OperatorFailed(place, f"{name} raised {type(error).__name__}: {error}")


def take(source: Start[T], most: int, first: int) -> Iterator[T]:
    if first < most:
        with closed_after(source(first)) as remaining:
            yield from islice(remaining, most - first)


def skip(source: Start[T], count: int, first: int) -> Iterator[T]:
    return source(first + count)


def repeat(
    source: Start[T], times: int | None, rows: Callable[[], int | None], first: int
) -> Iterator[T]:
    """See :meth:`Stream.repeat`. ``rows`` returns the number of elements in a pass, or ``None``."""
    length = rows() if first else None
    if not length:
        return begin(partial(_passes, source, times, 0), first)
    left = None if times is None else times - first // length
    return _passes(source, left, first % length)


def _passes(source: Start[T], times: int | None, first: int) -> Iterator[T]:
    """Yield the elements of several passes. ``first``: where the first pass begins."""
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
    return read_ahead(source(first), count)


def lists(source: Start[T], size: int, first: int) -> Iterator[list[T]]:
    """See :meth:`Stream.batch`. ``first``: number of lists to leave out."""
    return in_batches(source(first * size), size)


def lists_by_length(
    source: Start[T], tokens: int, length: Callable[[T], int], buffer: int
) -> Iterator[list[T]]:
    with closed_after(in_batches(source(0), buffer)) as buffers:
        for elements in buffers:
            lengths = [max(length(item), 1) for item in elements]
            batch: list[T] = []
            for index in sorted(range(len(elements)), key=lengths.__getitem__):
                if batch and lengths[index] * (len(batch) + 1) > tokens:
                    yield batch
                    batch = []
                batch.append(elements[index])
            if batch:
                yield batch


def text_length(item: object) -> int:
    """Return the length of a string or bytes, or of the ``text`` of an object."""
    text = getattr(item, "text", item)
    if not isinstance(text, str | bytes):
        hint = "pass a function that measures an item (length=)"
        raise TypeError(f"wanted a text or a document, got {type(item).__name__}: {hint}")
    return len(text)


# ---- in random order


def shuffle(source: Start[T], buffer: int, seed: int, passes: Passes | None) -> Iterator[T]:
    number = 0
    if passes is not None:
        number, passes.begun = passes.begun, passes.begun + 1
    random = random_of(seed, number)
    with closed_after(source(0)) as remaining:
        elements = list(islice(remaining, buffer))
        size = len(elements)
        for item in remaining:
            at = int(random.random() * size)
            drawn, elements[at] = elements[at], item
            yield drawn
    random.shuffle(elements)
    while elements:  # frees each element
        yield elements.pop()


def random_of(seed: int, number: int) -> Random:
    """Return a random generator for pass ``number``, the same in every process."""
    return Random(f"{seed} {number}")  # noqa: S311 - an order, not a secret


# ---- several streams

UNNAMED: Final = re.compile(rf"{ITERABLE}([\d.]*)(?=:\d)")  # the start of an id that is a location


def number_ids(stream: tuple[int, Iterable[T]]) -> Generator[T, None, None]:
    """Yield the elements of a stream, with the stream's number in ids of unnamed sources."""
    number, source = stream
    if getattr(source, "has_names", False):  # a file that is called `texts` keeps its name
        yield from source
        return
    with closed_after(items(source, 0)) as remaining:
        for element in remaining:
            if isinstance(element, Document) and (unnamed := UNNAMED.match(element.id)):
                name = str(number) if number > 1 else ""
                if unnamed[1]:  # the number of a source or stream inside this stream
                    name = f"{number}.{unnamed[1]}"
                id_ = f"{ITERABLE}{name}{element.id[unnamed.end() :]}"
                yield cast(T, Document(id_, element.text, element.fields))
            else:
                yield element


def interleave(streams: Start[Iterable[T]], length: int, block: int) -> Iterator[T]:
    """See :func:`vocabtool.interleave`."""
    turns: deque[Generator[T, None, None] | None] = deque()  # None: that stream has ended
    try:
        with closed_after(number_elements(streams, 0)) as numbered:
            unopened = map(number_ids, numbered)
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
                stream.close()


def _turn(turns: deque[Any], stream: Iterator[T], block: int) -> Iterator[T]:
    """Yield ``block`` elements of ``stream``. If it ends, ``None`` is put last in ``turns``."""
    count = 0
    for item in islice(stream, block):
        count += 1
        yield item
    if count < block:
        turns[-1] = None


def draw(
    sources: Sequence[Iterable[T]], shares: Callable[[], Sequence[tuple[float, float]]], seed: int
) -> Iterator[T]:
    """Mix streams: draw a stream at random, yield its next element, and repeat.

    ``shares`` returns two numbers for each stream: its weight at the start, and its minimum weight.
    Each element that is drawn reduces the weight of its stream by 1, but not below the minimum.
    """
    random = random_of(seed, 0)
    with ExitStack() as stack:
        numbered = map(number_ids, enumerate(sources, 1))
        streams = [stack.enter_context(closed_after(stream)) for stream in numbered]
        amounts = shares()
        weights = [weight for weight, _ in amounts]
        minimums = [minimum for _, minimum in amounts]
        live = list(range(len(streams)))
        while live:
            bounded = [max(weights[number], minimums[number]) for number in live]
            (chosen,) = random.choices(live, bounded)
            try:
                item = next(streams[chosen])
            except StopIteration:
                live.remove(chosen)
                continue
            weights[chosen] -= 1
            yield item


# ---- sizes


class Size(NamedTuple):
    """``rows``, ``bytes``: ``None`` if unknown or endless. ``exact``: ``rows`` is no estimate."""

    rows: int | None = None
    exact: bool = False
    bytes: int | None = None


Sized: TypeAlias = Callable[[], Size]


def size_of(source: Indexable) -> Size:
    return Size(len(source), exact=True)


def all_of(sized: Sequence[Sized]) -> Size:
    """Return the size of several streams together."""
    sizes = [size() for size in sized]
    rows, amounts = total(size.rows for size in sizes), total(size.bytes for size in sizes)
    return Size(rows, all(size.exact for size in sizes), amounts)


def sliced(sized: Sized, start: int, most: int | None, step: int = 1) -> Size:
    """Return the size from ``start`` on, of at most ``most`` elements, in lists of ``step``."""
    rows, exact, _ = sized()
    return Size() if rows is None else Size(len(range(rows)[start:][:most:step]), exact)


def times(sized: Sized, number: int) -> Size:
    """Return the size of a stream that is repeated ``number`` times."""
    rows, exact, size = sized()
    of_rows = None if rows is None else rows * number
    return Size(of_rows, exact, None if size is None else size * number)


def exact_rows(sized: Sized) -> int | None:
    """Return the number of elements of a stream, or ``None`` if it is not known exactly."""
    rows, exact, _ = sized()
    return rows if exact else None


# ---- documents

COUNTED_WHOLE: Final = 1 << 30  # bytes; larger files are sampled (counting takes 0.5 s)
BLOCK: Final = 1 << 20
BLOCKS: Final = 256  # blocks in which line ends of a larger file are counted
ONE_A_LINE: Final = frozenset({"lines", "jsonl", "csv", "tsv"})  # formats of a document a line
SHARD_ROWS: Final = 10_000  # documents in a shard of an indexable
NO_SHARDS: Final = (
    "shuffle_shards needs files, or an object with a length and an index; for any other iterable "
    "use .shuffle(buffer, seed=...), which shuffles within its buffer"
)
SEVERAL: Final = "shuffle_shards needs either files or one source in memory, got several sources"
Shard: TypeAlias = tuple[Source, int, int | None]  # first document, and how many; None: all


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A source of documents. A call reads the documents from position ``first`` on."""

    sources: Sources
    read: ReadOptions
    log: ReadLog | None

    def __call__(self, first: int) -> Iterator[Document]:
        return documents(self.sources, self.read, log=self.log, start=first)

    def size(self) -> Size:
        """Return the total size. If bad rows are skipped, it is not exact."""
        rows, size = extent(self.sources, read=self.read)
        if rows is not None or size is None:
            return Size(rows, rows is not None and self.read.on_error == "raise", size)
        names = (str(source) for _, source in each_source(self.sources))
        files = (file for name in names for file in find(name, self.read))
        return Size(total(map(self._count_lines, files)), False, size)

    def _count_lines(self, file: str) -> int | None:
        """Return the number of documents in a file: by its metadata, or by its line ends.

        In a file of more than ``COUNTED_WHOLE`` bytes, line ends are counted in a sample of blocks.
        ``None``: the number cannot be known without reading the documents.
        """
        rows, size = extent(file, read=self.read)
        format_, codec = kind_of(file, self.read)
        is_by_lines = codec is None and format_ in ONE_A_LINE and not self.read.splits_rows
        if rows is not None or size is None or not is_by_lines:
            return rows
        step = BLOCK if size <= COUNTED_WHOLE else size // BLOCKS
        line_ends = bytes_read = 0
        last = b"\n"
        with Path(file).open("rb") as opened:
            for start in range(0, size, step):
                opened.seek(start)
                block = opened.read(BLOCK)
                line_ends += block.count(b"\n")
                bytes_read += len(block)
                last = block[-1:] or last
        without_end = int(last != b"\n")  # the last line
        return (line_ends * size // bytes_read if bytes_read else 0) + without_end

    def shuffled_shards(self, seed: int, buffer: int, at_once: int) -> Iterator[Document]:
        """Read the shards in random order, ``at_once`` in turn, and shuffle within a buffer.

        If bad rows are skipped, each source is one shard, because its number of rows is unknown.
        """
        sources = [source for _, source in each_source(self.sources)]
        if len(sources) > 1 and not all(isinstance(source, str) for source in sources):
            raise ValueError(SEVERAL)  # read alone, each would give the same ids
        shards: list[Shard] = []
        for source in sources:
            if isinstance(source, str):
                for file in find(source, self.read):
                    with reading(file):
                        shards += self._shards_of(file, row_counts(file, self.read))
            elif is_indexable(source):
                starts = range(0, len(source), SHARD_ROWS)
                rows = [min(SHARD_ROWS, len(source) - start) for start in starts]
                shards += self._shards_of(source, rows)
            else:
                raise ValueError(NO_SHARDS)
        random_of(seed, 0).shuffle(shards)
        turns: Iterator[Document] = interleave(
            lambda _: (self._shard(*shard) for shard in shards), at_once, 1
        )
        yield from shuffle(lambda _: turns, buffer, seed, None)

    def _shards_of(self, source: Source, rows: list[int] | None) -> list[Shard]:
        """Return the shards of a source with these numbers of rows; ``None`` makes it one shard."""
        if rows is None or self.read.on_error == "skip":
            return [(source, 0, None)]
        starts = accumulate(rows[:-1], initial=0)
        return [(source, start, n) for start, n in zip(starts, rows, strict=False) if n]

    def _shard(self, source: Source, start: int, most: int | None) -> Iterator[Document]:
        with closed_after(documents(source, self.read, log=self.log, start=start)) as remaining:
            yield from islice(remaining, most)
