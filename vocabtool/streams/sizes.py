"""How many elements a stream has, as far as that is known without reading it.

Rows of Parquet, of Arrow IPC and of what has a length are exact. Of text files the line ends are
counted, which is quick; of very large ones those in blocks all over the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from vocabtool.documents.extents import extent
from vocabtool.documents.opening import find, kind_of
from vocabtool.documents.sources import Named, told
from vocabtool.errors import VocabtoolError
from vocabtool.streams.reading import Reading

COUNTED: Final = 1 << 30  # bytes of a file of which all line ends are counted: half a second
BLOCK: Final = 1 << 20
BLOCKS: Final = 256  # of a larger one that are looked at
BY_LINES: Final = frozenset({"lines", "jsonl", "csv", "tsv"})


class Size(NamedTuple):
    """``rows``: how many elements; ``exact``: whether that is no estimate.

    ``bytes``: how large the files are. ``None``: not known, or without end.
    """

    rows: int | None = None
    exact: bool = False
    bytes: int | None = None


Sized: TypeAlias = Callable[[], Size]


def unknown() -> Size:
    return Size()


def of_items(count: Callable[[], int]) -> Size:
    """Of what has a length; it is asked each time, since lists grow."""
    return Size(count(), exact=True)


def of_reading(reading: Reading) -> Size:
    """Of files and other sources. Where bad rows are passed over nothing is exact."""
    sizes = []
    for source in told(reading.sources):
        if isinstance(source, Named):
            sizes += _of_name(source.name, reading)
        else:
            sizes.append(Size(extent([source.source]).rows, exact=True))
    return together(sizes)._replace(
        exact=reading.options.on_error == "raise" and all(s.exact for s in sizes)
    )


def together(sizes: Sequence[Size]) -> Size:
    """Of several, one after the other."""
    rows = [size.rows for size in sizes]
    return Size(_sum(rows), all(size.exact for size in sizes), _sum([s.bytes for s in sizes]))


def part(sized: Sized, start: int, most: int | None) -> Size:
    """Of what is left of a stream behind ``start``, at most so many."""
    rows, exact, _ = sized()
    return Size() if rows is None else Size(len(range(rows)[start:][:most]), exact)


def times(sized: Sized, number: int) -> Size:
    """Of a stream so many times over."""
    rows, exact, size = sized()
    return Size(None if rows is None else rows * number, exact, size and size * number)


def lists(sized: Sized, length: int) -> Size:
    """Of a stream in lists."""
    rows, exact, _ = sized()
    return Size() if rows is None else Size(-(-rows // length), exact)


def all_of(sized: Sequence[Sized]) -> Size:
    return together([each() for each in sized])


def exact_rows(sized: Sized) -> int | None:
    """How many elements there are, unless that is an estimate."""
    rows, exact, _ = sized()
    return rows if exact else None


def _of_name(name: str, reading: Reading) -> list[Size]:
    try:
        return [_of_file(file, reading) for file in find(name)]
    except (VocabtoolError, OSError):  # not there, or not readable: who reads it is told
        return [Size()]


def _of_file(file: str, reading: Reading) -> Size:
    found = extent(file, format=reading.options.format)
    if found.rows is not None or found.bytes is None:
        return Size(found.rows, found.rows is not None, found.bytes)
    kind = kind_of(file, reading.options.format)
    if kind.codec is not None or kind.format not in BY_LINES:
        return Size(None, False, found.bytes)
    return Size(_lines(Path(file), found.bytes), False, found.bytes)


def _lines(file: Path, size: int) -> int:
    """How many lines there are; of a large file about how many."""
    step = BLOCK if size <= COUNTED else size // BLOCKS
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


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
