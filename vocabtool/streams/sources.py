"""Where a stream of documents starts, how large it is, and where its files can be cut.

Rows of Parquet, of Arrow IPC and of what has a length are exact. Of text files the line ends are
counted, which is quick; of very large ones those in blocks all over the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

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
from vocabtool.documents.objects import is_indexable
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import documents, extent, row_counts, total
from vocabtool.errors import VocabtoolError, reading
from vocabtool.streams.operators import Shuffle, interleave, items, random_of
from vocabtool.system.parallel import closed_after

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


class Size(NamedTuple):
    """``rows``: how many elements; ``exact``: whether that is no estimate.

    ``bytes``: how large the files are. ``None``: not known, or without end.
    """

    rows: int | None = None
    exact: bool = False
    bytes: int | None = None


Sized: TypeAlias = Callable[[], Size]


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
        exact = self.options.on_error == "raise" and all(size.exact for size in sizes)
        return together(sizes)._replace(exact=exact)

    def _file_size(self, file: str) -> Size:
        rows, size = extent(file, format=self.options.format)
        if rows is not None or size is None:
            return Size(rows, rows is not None, size)
        kind = kind_of(file, self.options.format)
        if kind.codec is not None or kind.format not in BY_LINES:
            return Size(None, False, size)
        return Size(_lines(Path(file), size), False, size)

    def shuffled_shards(self, seed: int, buffer: int, at_once: int) -> Iterator[Document]:
        """Shards in random order, ``at_once`` of them in turn, through a shuffle buffer."""
        shards = self.shards()
        random_of(seed, 0).shuffle(shards)
        turns = partial(interleave, partial(items, shards), at_once, 1)
        yield from Shuffle(lambda _: turns(), buffer, seed, reshuffle=False)()

    def shards(self) -> list[Shard]:
        """Where the sources can be cut; reads no document.

        Parquet at its row groups, Arrow IPC at its record batches, an indexable anywhere; other
        files stay whole, and all where only reading tells which rows are no documents.
        """
        shards: list[Shard] = []
        sources = list(each_source(self.sources))
        if len(sources) > 1 and not all(isinstance(source, Files) for source in sources):
            raise ValueError(SEVERAL)  # alone each would be called the same in ids
        for source in sources:
            if isinstance(source, Files):
                for file in find(source.name):
                    shards += self._cut(file, self._file_rows(file))
            elif is_indexable(source.source):
                count = len(source.source)
                starts = range(0, count, SHARD_ROWS)
                rows = [min(SHARD_ROWS, count - start) for start in starts]
                shards += self._cut(source.source, rows)
            else:
                raise ValueError(NO_SHARDS)
        return shards

    def _file_rows(self, file: str) -> list[int] | None:
        with reading(file):
            return row_counts(file, self.options.format)

    def _cut(self, source: Source, rows: list[int] | None) -> list[Shard]:
        if rows is None or self.options.on_error == "skip":
            return [Shard(self, source, 0, None)]
        starts = accumulate(rows, initial=0)
        return [Shard(self, source, start, n) for start, n in zip(starts, rows) if n]  # noqa: B905 - the last start is the end


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


def _lines(file: Path, size: int) -> int:
    """How many lines there are; of a large file about how many."""
    step = BLOCK if size <= MAX_COUNTED else size // BLOCKS
    ends = looked = 0
    last = b"\n"
    with file.open("rb") as opened:
        for at in range(0, size, step):
            opened.seek(at)
            block = opened.read(BLOCK)
            ends += block.count(b"\n")
            looked += len(block)
            last = block[-1:] or last
    count = ends * size // looked if looked else 0
    return count + (last != b"\n")


def unknown() -> Size:
    """Nothing is known."""
    return Size()


def of_items(count: Callable[[], int]) -> Size:
    """Of what has a length; it is asked each time, since lists grow."""
    return Size(count(), exact=True)


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
