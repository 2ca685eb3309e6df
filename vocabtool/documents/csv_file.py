"""CSV and TSV: the first row names the fields, one of which is the text.

Quotes are those of RFC 4180: ``"`` around a value, doubled inside it; a value in quotes may hold
line ends. Rows are counted as records, the header being row 1; empty lines are not counted.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.opening import Readable, Stream, arrow_errors, refuse_utf16
from vocabtool.documents.rows import BadRow, Batch, Request, in_size, no_columns, text_column
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import decode

if TYPE_CHECKING:
    import pyarrow as pa

BOM: Final = b"\xef\xbb\xbf"
LONGEST_HEADER: Final = 1 << 20
LONGEST_ROW: Final = 8 << 20  # Arrow reads blocks of this size, and a row must fit
ROWS: Final = 1 << 16  # of a block, given out at a time
OPEN: Final = "a quote is opened and never closed: all that follows would be in this row"


class Header(NamedTuple):
    """The fields' names, and what was read behind them."""

    names: list[str]
    rest: bytes


class Columns(NamedTuple):
    """The names of all columns, and the places of those that are asked for.

    To Arrow each is called by its place: names may be equal, or not UTF-8.
    """

    names: list[str]
    text: int
    id: int | None
    kept: dict[str, int]

    def arrow(self) -> list[str]:
        """What Arrow calls them."""
        return [str(place) for place in range(len(self.names))]

    def wanted(self, request: Request) -> list[str]:
        """What Arrow calls those that are asked for, each once."""
        if request.whole:
            return self.arrow()
        ids = () if self.id is None else (self.id,)
        return [str(place) for place in sorted({self.text, *ids, *self.kept.values()})]


class Uneven(NamedTuple):
    """A row with too few or too many values."""

    number: int
    reason: str


def read(file: Readable, request: Request, delimiter: str) -> Iterator[Batch]:
    """Each row as a document; bad rows have too few or too many values, or an open quote.

    Raises :class:`InvalidFile`: no header, no such field, a row that is too long (which no
    ``refuse`` can pass over: where it ends is not known).
    """
    names, rest = _header(file, delimiter)
    columns = _asked(names, request)
    rest = rest or file.read(request.size)
    if rest.strip(b"\r\n") or (rest := file.read(request.size)):
        # an empty line first: of a BOM there, Arrow would make nothing
        # A row behind the end, of texts that no file holds: it comes out unless a quote is open.
        end = os.urandom(16).hex().encode()
        last = b"\n" + delimiter.encode().join([end] * len(names)) + b"\n"
        with closing(Stream(b"\n" + rest, file, last)) as stream:
            yield from _rows(stream, request, delimiter, columns, end)


def _header(file: Readable, delimiter: str) -> Header:
    head = b""
    while len(head) < LONGEST_HEADER and (piece := file.read(LONGEST_HEADER - len(head))):
        head += piece
    refuse_utf16(head)
    head = head.removeprefix(BOM).lstrip(b"\r\n")
    lines = io.StringIO(head.decode("latin-1"), newline="")  # one character a byte
    try:
        row = next(csv.reader(iter(lines.readline, ""), delimiter=delimiter), None)
    except csv.Error as error:
        raise InvalidFile(f"the first row names no fields: {error}") from error
    if row is None:
        raise InvalidFile("empty: wanted a first row that names the fields")
    names = [decode(name.encode("latin-1")) for name in row]
    return Header(names, head[lines.tell() :])


def _asked(names: list[str], request: Request) -> Columns:
    try:
        text = text_column(names, request.field)
        ids = None if request.id_field is None else text_column(names, request.id_field)
        kept = {name: text_column(names, name) for name in request.keep if name in names}
    except BadRow as bad:
        raise InvalidFile(str(bad)) from bad
    return Columns(names, text, ids, kept)


def _rows(
    stream: Stream, request: Request, delimiter: str, columns: Columns, end: bytes
) -> Iterator[Batch]:
    uneven: list[Uneven] = []
    left_out: list[int] = []
    following = 2
    parts = _parts(stream, delimiter, columns.arrow(), columns.wanted(request), uneven)
    try:
        for part, is_open in _without_end(parts, str(columns.text), end):
            left_out += _refused(uneven, request)
            if part.num_rows:
                numbers = _numbers(following, part.num_rows, left_out)
                following = int(numbers[-1]) + 1
                if is_open and max(left_out, default=0) < following:  # else it was in an uneven row
                    request.refuse(following - 1, OPEN)
                    numbers = numbers[:-1]
                left_out = [number for number in left_out if number >= following]
                whole = part.slice(0, len(numbers))
                yield from in_size(_batch(whole, numbers, columns, request), request.size)
    except InvalidFile as error:  # of Arrow, behind the rows that it gave
        error.file = error.file or f"{request.source}:{max(following - 1, *left_out, 1) + 1}"
        raise
    _refused(uneven, request)


def _without_end(
    parts: Iterator[pa.RecordBatch], text: str, end: bytes
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The parts without the row behind the end, and whether the last row of one has taken it in."""
    before = None
    try:
        for part in parts:
            if before is not None:
                yield before, False
            before = part
    except InvalidFile:
        if before is not None:
            yield before, False
        raise
    if before is not None:
        is_open = before.column(text)[-1].as_py() != end
        yield (before if is_open else before.slice(0, before.num_rows - 1)), is_open


def _batch(
    part: pa.RecordBatch, numbers: NDArray[np.int64], columns: Columns, request: Request
) -> Batch:
    import pyarrow as pa

    def strings(place: int) -> pa.StringArray:
        return part.column(str(place)).view(pa.string())

    kept = {name: strings(place) for name, place in columns.kept.items()}
    nulls = no_columns(request, part.num_rows)
    return Batch(
        request.source,
        strings(columns.text),
        numbers,
        None if columns.id is None else strings(columns.id),
        {name: kept.get(name, null) for name, null in nulls.items()},
        _fields(part, columns.names, columns.text) if request.whole else None,
    )


def _parts(
    stream: Stream, delimiter: str, columns: list[str], wanted: list[str], uneven: list[Uneven]
) -> Iterator[pa.RecordBatch]:
    """The columns that are wanted, ``binary``, a block at a time; ``uneven`` grows on the way.

    Arrow reads ahead: ``uneven`` may hold rows behind those that were given out.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    def pass_over(row: Any) -> str:
        reason = f"wanted {row.expected_columns} values, got {row.actual_columns}"
        uneven.append(Uneven(row.number + 1, reason))  # the header was not counted
        return "skip"

    with arrow_errors(f"not CSV, or a row of more than {LONGEST_ROW:,} bytes (a quote left open?)"):
        found = arrow_csv.open_csv(
            pa.PythonFile(stream, "r"),
            arrow_csv.ReadOptions(use_threads=False, block_size=LONGEST_ROW, column_names=columns),
            arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=pass_over
            ),
            arrow_csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary())
            ),
        )
        for part in found:
            yield from (part.slice(at, ROWS) for at in range(0, part.num_rows, ROWS))


def _refused(uneven: list[Uneven], request: Request) -> list[int]:
    """The numbers of the rows that were passed over so far, each refused once."""
    told = uneven.copy()
    uneven.clear()
    for row in told:
        request.refuse(row.number, row.reason)
    return [row.number for row in told]


def _numbers(following: int, count: int, left_out: list[int]) -> NDArray[np.int64]:
    """The next ``count`` numbers from ``following`` on, without those left out."""
    candidates = np.arange(following, following + count + len(left_out), dtype=np.int64)
    return candidates[~np.isin(candidates, left_out)][:count] if left_out else candidates


def _fields(part: pa.RecordBatch, names: list[str], column: int) -> list[dict[str, object]]:
    """What stands in the other columns, as ``str``."""
    others = [place for place in range(len(names)) if place != column]
    values = [map(decode, part.column(str(place)).to_pylist()) for place in others]
    named = [names[place] for place in others]
    rows = zip(*values, strict=True) if values else [()] * part.num_rows
    return [dict(zip(named, row, strict=True)) for row in rows]
