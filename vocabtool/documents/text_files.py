r"""Text lines, JSON lines, CSV and TSV: formats of text, read in blocks.

A line ends at ``\n`` or ``\r\n``; a lone CR, NUL, U+0085 and U+2028 are content. An empty line is a
document; a last line without an end is one, and behind a last ``\n`` there is none.

Of JSON lines each is an object of which one field is the text, or a string that is the text. Lines
of nothing but blanks hold no row, but are counted. A lone surrogate (``\ud83d``) has no UTF-8; the
text then holds its three bytes, which are not UTF-8. The last of equal keys counts.

Of CSV and TSV the first row names the fields, one of which is the text. Quotes are those of RFC
4180: ``"`` around a value, doubled inside it; a value in quotes may hold line ends. Rows are
counted as records, the header being row 1; empty lines are not counted.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from vocabtool.documents.batch import (
    BadRow,
    Batch,
    Request,
    in_size,
    null_columns,
    strings,
    text_column,
)
from vocabtool.documents.files import ArrowStream, Readable, arrow_errors, refuse_utf16
from vocabtool.documents.objects import TEXT, Row, batch_of, row_of
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import decode

BOM: Final = b"\xef\xbb\xbf"
MAX_LINE_BYTES: Final = 64 << 20  # with its end; a longer line is a bad row


def read_lines(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document. Raises :class:`InvalidFile` where a text or id field is asked for.

    Fields to be kept are null, as they are in rows of other formats that lack them.
    """
    for name in (request.options.field, request.options.id_field):
        if name is not None:
            hint = "Set the format if it is not lines of text."
            raise InvalidFile(f"lines of text have no field {name!r}. {hint}")
    for first, data in blocks(file, request):
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        if request.ahead.pass_over(count):
            continue
        content = pa.array([data.replace(b"\r\n", b"\n")], pa.binary())
        texts = pc.split_pattern(content, "\n").values.slice(0, count)
        numbers = np.arange(first, first + count, dtype=np.int64)
        columns = null_columns(request, count)
        batch = Batch(request.source, texts.view(pa.string()), numbers, columns=columns)
        yield from in_size(batch, request.size)


def blocks(file: Readable, request: Request) -> Iterator[tuple[int, bytes]]:
    """Whole lines in blocks of about ``request.size`` bytes, with the number of the first line.

    Raises :class:`InvalidFile` for UTF-16.
    """
    first, rest = 1, b""
    while more := file.read(min(max(request.size, len(rest)), MAX_LINE_BYTES - len(rest))):
        data = rest + more
        if first == 1 and not rest:
            refuse_utf16(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield first, data[:end]
            first += data.count(b"\n")
            rest = data[end:]
        elif len(data) == MAX_LINE_BYTES:
            request.refuse(first, f"a line with more than {MAX_LINE_BYTES:,} bytes")
            rest, first = b"", first + 1
            while data := file.read(request.size):
                if end := data.find(b"\n") + 1:
                    rest = data[end:]
                    break
        else:
            rest = data
    if rest:
        yield first, rest


BLANK: Final = b" \t\r\n"
PLAIN: Final[dict[type, Callable[[Any], bytes]]] = {
    str: str.encode,
    int: lambda value: b"%d" % value,
}
MAX_INTEGER_DIGITS: Final = 4300  # that Python makes an int of


def read_jsonl(file: Readable, request: Request) -> Iterator[Batch]:
    """Each line as a document; bad rows: not JSON, no such field, not a string."""
    for first, data in blocks(file, request):
        lines = data.removesuffix(b"\n").split(b"\n")
        if first == 1:
            lines[0] = lines[0].removeprefix(BOM)
        if request.ahead.left:
            count = sum(bool(line.strip(BLANK)) for line in lines)
            if request.ahead.pass_over(count):
                continue
        batch = None if request.whole else _all_at_once(lines, first, request)
        if batch is None:
            rows = (_row(line, number, request) for number, line in enumerate(lines, first))
            batch = batch_of([row for row in rows if row is not None], request)
        yield from in_size(batch, request.size)


def _all_at_once(lines: list[bytes], first: int, request: Request) -> Batch | None:
    """The rows of objects that all have what is asked for; ``None``: look at each line."""
    options = request.options
    text, id_field = options.field or TEXT, options.id_field
    try:
        values = [orjson.loads(line) for line in lines]
        ids = (
            None
            if id_field is None
            else strings([PLAIN[type(v[id_field])](v[id_field]) for v in values])
        )
        return Batch(
            request.source,
            strings([value[text].encode() for value in values]),
            np.arange(first, first + len(lines), dtype=np.int64),
            ids,
            {name: strings([_plain(v.get(name)) for v in values]) for name in options.keep},
        )
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return None


def _plain(value: str | int | None) -> bytes | None:
    """A value that is written one way only; ``LookupError`` for others."""
    return None if value is None else PLAIN[type(value)](value)


def _row(line: bytes, number: int, request: Request) -> Row | None:
    """The row in a line; ``None`` where there is none, and refused where it is bad."""
    if not line.strip(BLANK):
        return None
    try:
        return row_of(_parse(line), number, request, _spell)
    except BadRow as bad:
        request.refuse(number, str(bad))
        return None


def _spell(text: str | bytes) -> bytes:
    """A string of JSON as bytes: its surrogates stand for themselves, never for bytes."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _parse(line: bytes) -> object:
    try:
        return DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise BadRow(f"not UTF-8 (at byte {error.start:,} of the line)") from error
    except json.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error.msg} (at character {error.pos:,} of the line)") from error
    except RecursionError as error:
        raise BadRow("arrays or objects nested too deeply") from error


DECODER: Final = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) <= MAX_INTEGER_DIGITS else float(digits)
)


# ---- CSV and TSV

MAX_HEADER_BYTES: Final = 1 << 20
MAX_ROW_BYTES: Final = 8 << 20  # Arrow reads blocks of this size, and a row must fit
ROWS: Final = 1 << 16  # of a block, given out at a time
OPEN: Final = "a quote is never closed: the rest of the file would be one row"


def read_csv(file: Readable, request: Request, delimiter: str) -> Iterator[Batch]:
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
        raise InvalidFile(f"invalid header row: {error}") from error
    if row is None:
        raise InvalidFile("empty (expected a header row)")
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
            reason = f"expected {row.expected_columns} values, got {row.actual_columns}"
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
        def column(place: int) -> pa.StringArray:
            return part.column(str(place)).view(pa.string())

        columns = null_columns(self.request, part.num_rows)
        columns |= {name: column(place) for name, place in self.kept.items()}
        ids = None if self.ids is None else column(self.ids)
        fields: list[dict[str, object]] | None = None
        if self.request.whole:
            fields = [{} for _ in range(part.num_rows)]
            for place, name in enumerate(self.names):
                if place != self.text:
                    for row, value in zip(fields, part.column(str(place)).to_pylist(), strict=True):
                        row[name] = decode(value)
        return Batch(self.request.source, column(self.text), numbers, ids, columns, fields)
