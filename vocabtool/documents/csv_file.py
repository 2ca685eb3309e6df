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
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from vocabtool.documents.batch import BadRow, Batch, Request, in_size, null_columns, text_column
from vocabtool.documents.files import ArrowStream, Readable, arrow_errors, refuse_utf16
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import decode

BOM: Final = b"\xef\xbb\xbf"
MAX_HEADER_BYTES: Final = 1 << 20
MAX_ROW_BYTES: Final = 8 << 20  # Arrow reads blocks of this size, and a row must fit
ROWS: Final = 1 << 16  # of a block, given out at a time
OPEN: Final = "a quote is opened and never closed: all that follows would be in this row"


def read(file: Readable, request: Request, delimiter: str) -> Iterator[Batch]:
    """Each row as a document; bad rows have too few or too many values, or an open quote.

    Raises :class:`InvalidFile`: no header, no such field, a row that is too long (which no
    ``refuse`` can pass over: where it ends is not known).
    """
    names, rest = _header(file, delimiter)
    rows = _Rows(names, delimiter, request)
    rest = rest or file.read(request.size)
    if rest.strip(b"\r\n") or (rest := file.read(request.size)):
        # An empty line first: of a BOM there, Arrow would make nothing.
        with closing(ArrowStream(b"\n" + rest, file, rows.last_row)) as stream:
            yield from rows.batches(stream)


def _header(file: Readable, delimiter: str) -> tuple[list[str], bytes]:
    """The fields' names, and what was read behind them."""
    head = b""
    while len(head) < MAX_HEADER_BYTES and (piece := file.read(MAX_HEADER_BYTES - len(head))):
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
    return [decode(name.encode("latin-1")) for name in row], head[lines.tell() :]


class _Rows:
    """The rows behind the header.

    To Arrow each column is called by its place: names may be equal, or not UTF-8. A row of texts
    that no file holds is put behind the end: it comes out as it is unless a quote is open.
    """

    def __init__(self, names: list[str], delimiter: str, request: Request) -> None:
        options = request.options
        try:
            text = text_column(names, options.field)
            ids = None if options.id_field is None else text_column(names, options.id_field)
            self.kept = {name: text_column(names, name) for name in options.keep if name in names}
        except BadRow as bad:
            raise InvalidFile(str(bad)) from bad
        self.names, self.text, self.ids = names, text, ids
        self.delimiter, self.request = delimiter, request
        self.end = os.urandom(16).hex().encode()
        self.last_row = b"\n" + delimiter.encode().join([self.end] * len(names)) + b"\n"
        self.uneven: list[tuple[int, str]] = []  # Arrow reads ahead: perhaps behind what came out

    def batches(self, stream: ArrowStream) -> Iterator[Batch]:
        """The rows that are documents; the others are refused."""
        request, following = self.request, 2
        left_out: list[int] = []
        try:
            for part, is_open in self._without_end(self._parts(stream)):
                left_out += self._refuse_uneven()
                if part.num_rows:
                    count = part.num_rows + len(left_out)
                    numbers = np.arange(following, following + count, dtype=np.int64)
                    numbers = numbers[~np.isin(numbers, left_out)][: part.num_rows]
                    following = int(numbers[-1]) + 1
                    if is_open and max(left_out, default=0) < following:  # else in an uneven row
                        request.refuse(following - 1, OPEN)
                        numbers = numbers[:-1]
                    left_out = [number for number in left_out if number >= following]
                    batch = self._batch(part.slice(0, len(numbers)), numbers)
                    yield from in_size(batch, request.size)
        except InvalidFile as error:  # of Arrow, behind the rows that it gave
            error.file = error.file or f"{request.source}:{max(following - 1, *left_out, 1) + 1}"
            raise
        self._refuse_uneven()

    def _parts(self, stream: ArrowStream) -> Iterator[pa.RecordBatch]:
        """The columns that are wanted, ``binary``, a block at a time; ``uneven`` grows."""
        places = {self.text, *([] if self.ids is None else [self.ids]), *self.kept.values()}
        every = range(len(self.names))
        wanted = [str(place) for place in (every if self.request.whole else sorted(places))]

        def pass_over(row: Any) -> str:
            reason = f"wanted {row.expected_columns} values, got {row.actual_columns}"
            self.uneven.append((row.number + 1, reason))  # the header was not counted
            return "skip"

        what = f"not CSV, or a row of more than {MAX_ROW_BYTES:,} bytes (a quote left open?)"
        with arrow_errors(what):
            blocks = arrow_csv.open_csv(
                pa.PythonFile(stream, "r"),
                arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=MAX_ROW_BYTES,
                    column_names=[str(place) for place in every],
                ),
                arrow_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=pass_over
                ),
                arrow_csv.ConvertOptions(
                    include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary())
                ),
            )
            for block in blocks:
                yield from (block.slice(at, ROWS) for at in range(0, block.num_rows, ROWS))

    def _without_end(
        self, parts: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """The parts without the row behind the end; whether the last row of one has taken it in."""
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
            is_open = before.column(str(self.text))[-1].as_py() != self.end
            yield (before if is_open else before.slice(0, before.num_rows - 1)), is_open

    def _refuse_uneven(self) -> list[int]:
        """The numbers of the rows that were passed over so far, each refused once."""
        uneven, self.uneven = self.uneven, []
        for number, reason in uneven:
            self.request.refuse(number, reason)
        return [number for number, _ in uneven]

    def _batch(self, part: pa.RecordBatch, numbers: NDArray[np.int64]) -> Batch:
        def strings(place: int) -> pa.StringArray:
            return part.column(str(place)).view(pa.string())

        columns = null_columns(self.request, part.num_rows)
        columns |= {name: strings(place) for name, place in self.kept.items()}
        ids = None if self.ids is None else strings(self.ids)
        fields: list[dict[str, object]] | None = None
        if self.request.whole:
            fields = [{} for _ in range(part.num_rows)]
            for place, name in enumerate(self.names):
                if place != self.text:
                    for row, value in zip(fields, part.column(str(place)).to_pylist(), strict=True):
                        row[name] = decode(value)
        return Batch(self.request.source, strings(self.text), numbers, ids, columns, fields)
