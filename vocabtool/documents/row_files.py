r"""Read files of rows: text lines, JSON lines, JSON arrays, CSV, TSV and TFRecord.

Text lines: a line ends with ``\n`` or ``\r\n``. A lone CR, NUL, U+0085 and U+2028 are part of the
text. An empty line is a document. A byte order mark at the start of the file is left out.

JSON lines: each line is a string, which is the text, or an object with the text in one field. Blank
lines are skipped, but line numbers count them. A lone surrogate (``\ud83d``) becomes three bytes of
invalid UTF-8. If a key is repeated, its last value is used.

CSV and TSV: the first row contains the field names. Quotes follow RFC 4180. Row numbers count
records, from 1 for the header; empty lines are not counted.

TFRecord: each record is a ``tf.Example``, read without TensorFlow. A record is the length of its
data (uint64, little-endian), a checksum of these eight bytes, the data, and a checksum of the data.
Layout: tensorflow.org/tutorials/load_data/tfrecord and ``record_writer.cc`` in TensorFlow's source.
Messages: ``tensorflow/core/example/example.proto`` and ``feature.proto``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from struct import unpack, unpack_from
from typing import Any, Final

import google_crc32c
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from vocabtool.documents.batch import (
    MAX_PARTS,
    BadRow,
    Batch,
    Request,
    Row,
    batch_of,
    check_parts,
    gather,
    in_size,
    join_texts,
    joined_text,
    null_columns,
    numbers_of,
    row_of,
    strings,
    text_column,
    text_columns,
)
from vocabtool.documents.files import (
    ArrowStream,
    Readable,
    arrow_errors,
    read_up_to,
    refuse_utf16,
)
from vocabtool.documents.options import TEXT
from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.vocabulary import decode

BOM: Final = b"\xef\xbb\xbf"
HEAD: Final = 1 << 16  # bytes at the beginning of a text that show its line ends
MAX_LINE_BYTES: Final = 64 << 20  # of a line with its end, or of a record; a longer one is invalid


def read_lines(file: Readable, request: Request) -> Iterator[Batch]:
    if (name := request.options.field_of_rows) is not None:
        hint = "use --input-format (format=) if the file has another format"
        raise InvalidFile(f"text lines have no field {name!r}; {hint}")
    for first, data in blocks(file, request):
        if first == 1 and not (data := data.removeprefix(BOM)):
            continue
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        if request.skip_unread(count):
            continue
        content = pa.array([data.replace(b"\r\n", b"\n")], pa.binary())
        texts = pc.split_pattern(content, "\n").values.slice(0, count)
        numbers = np.arange(first, first + count, dtype=np.int64)
        columns = null_columns(request, count)
        batch = Batch(request.source, texts.view(pa.string()), numbers, columns=columns)
        yield from in_size(batch, request.size)


def blocks(file: Readable, request: Request) -> Iterator[tuple[int, bytes]]:
    """Yield (first line number, whole lines), about ``request.size`` bytes at a time.

    If the first ``HEAD`` bytes have CR as their only line end, each CR becomes LF.
    """
    first, rest, only_cr, least = 1, b"", False, HEAD
    while more := file.read(min(max(request.size, len(rest), least), MAX_LINE_BYTES - len(rest))):
        if least:
            refuse_utf16(more)
            only_cr, least = b"\r" in more[: HEAD - 1] and b"\n" not in more[:HEAD], 0
        data = rest + (more.replace(b"\r", b"\n") if only_cr else more)
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
ONE_A_LINE: Final = "--input-format jsonl (format=) reads one object per line"
LONG: Final = re.compile(rb"[0-9]{20}")  # perhaps an integer that orjson would round
MAX_INTEGER_DIGITS: Final = 4300  # Python converts no longer string to int


def read_jsonl(file: Readable, request: Request) -> Iterator[Batch]:
    for first, data in blocks(file, request):
        lines = data.removesuffix(b"\n").split(b"\n")
        if first == 1:
            lines[0] = lines[0].removeprefix(BOM)
        if request.left:
            count = sum(bool(line.strip(BLANK)) for line in lines)
            if request.skip_unread(count):
                continue
        batch = None if request.whole else _all_at_once(lines, first, request)
        if batch is None:
            rows = (_row(line, number, request) for number, line in enumerate(lines, first))
            batch = batch_of([row for row in rows if row is not None], request)
        yield from in_size(batch, request.size)


def read_json(file: Readable, request: Request) -> Iterator[Batch]:
    """Read each item of a JSON array as a document. The file may have up to 64 MiB."""
    content = read_up_to(file, MAX_LINE_BYTES + 1)
    if len(content) > MAX_LINE_BYTES:
        raise InvalidFile(f"more than {MAX_LINE_BYTES:,} bytes of JSON; {ONE_A_LINE}")
    refuse_utf16(content)
    content = content.removeprefix(BOM)
    try:
        check_parts(content)
        try:
            items = _parse(content) if LONG.search(content) else orjson.loads(content)
        except orjson.JSONDecodeError:
            items = _parse(content)  # accepts lone surrogates, and gives the reason
    except BadRow as bad:
        raise InvalidFile(
            f"{str(bad).replace('of the line', 'of the file')}; {ONE_A_LINE}"
        ) from bad
    if not isinstance(items, list):
        raise InvalidFile(f"expected a JSON array of objects; {ONE_A_LINE}")
    rows = (_row(item, number, request) for number, item in enumerate(items, 1))
    return gather((row for row in rows if row is not None), request)


def _all_at_once(lines: list[bytes], first: int, request: Request) -> Batch | None:
    """Parse all lines at once; return ``None`` if a line is not an object with valid fields."""
    options = request.options
    text, id_field, vector = options.single_field or TEXT, options.id_field, options.vector_field
    several = options.fields
    try:
        for line in lines:
            if len(line) > MAX_PARTS:
                check_parts(line)
        values = [orjson.loads(line) for line in lines]
        ids = (
            None
            if id_field is None
            else strings([PLAIN[type(v[id_field])](v[id_field]) for v in values])
        )
        return Batch(
            request.source,
            strings([joined_text(v, several) if several else v[text].encode() for v in values]),
            np.arange(first, first + len(lines), dtype=np.int64),
            ids,
            {name: strings([_plain(v.get(name)) for v in values]) for name in options.kept_fields},
            vectors=None if vector is None else numbers_of([v[vector] for v in values], vector, 2),
        )
    except (orjson.JSONDecodeError, BadRow, LookupError, TypeError, AttributeError):
        return None


def _plain(value: str | int | None) -> bytes | None:
    return None if value is None else PLAIN[type(value)](value)


def _row(value: object, number: int, request: Request) -> Row | None:
    """Return the row of a parsed value, or of a line; ``None`` if it is invalid, or blank."""
    try:
        if isinstance(value, bytes):
            if not value.strip(BLANK):
                return None
            value = _parse(value)
        return row_of(value, number, request, _spell)
    except BadRow as bad:
        request.refuse(number, str(bad))
        return None


def _spell(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _parse(line: bytes) -> object:
    check_parts(line)
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

MAX_HEADER_BYTES: Final = 1 << 19  # half a million columns need 320 MB of memory
MAX_ROW_BYTES: Final = 8 << 20  # block size of Arrow; a row must fit in a block
ROWS: Final = 1 << 16  # rows of a block in a batch
PART_OF_TEXT: Final = "if its quotes are part of the text, use --no-quotes (quotes=False)"
OPEN: Final = f"a quote is never closed: the rest of the file would be one row; {PART_OF_TEXT}"


def read_csv(file: Readable, request: Request, delimiter: str) -> Iterator[Batch]:
    """Read each row as a document. A row that is too long always raises :class:`InvalidFile`.

    TSV has no quotes: https://www.iana.org/assignments/media-types/text/tab-separated-values
    """
    head = read_up_to(file, MAX_HEADER_BYTES)
    is_full = len(head) == MAX_HEADER_BYTES
    refuse_utf16(head)
    head = head.removeprefix(BOM).lstrip(b"\r\n")
    lines = io.StringIO(head.decode("latin-1"), newline="")  # one character per byte
    try:
        quoting: Any = csv.QUOTE_MINIMAL if _has_quotes(delimiter, request) else csv.QUOTE_NONE
        reader = csv.reader(iter(lines.readline, ""), delimiter=delimiter, quoting=quoting)
        row = next(reader, None)
    except csv.Error as error:
        raise InvalidFile(f"invalid header row: {error}") from error
    if row is None:
        raise InvalidFile("the file is empty (expected a header row)")
    if is_full and lines.tell() == len(head):
        raise InvalidFile(f"a header row of {MAX_HEADER_BYTES:,} bytes or more, or an open quote")
    names, rest = [decode(name.encode("latin-1")) for name in row], head[lines.tell() :]
    rows = _Rows(names, delimiter, request)
    rest = rest or file.read(request.size)
    if rest.strip(b"\r\n") or (rest := file.read(request.size)):
        # Start with an empty line; otherwise Arrow would drop a BOM at the start of a value.
        with closing(ArrowStream(b"\n" + rest, file, rows.appended)) as stream:
            yield from rows.batches(stream)


def _has_quotes(delimiter: str, request: Request) -> bool:
    return delimiter != "\t" and request.options.quotes


class _Rows:
    """Reads the rows after the header of a CSV file, with Arrow.

    After the end of the file, Arrow gets one more row, of random values. If Arrow does not return
    this row, a quote was never closed.
    """

    def __init__(self, names: list[str], delimiter: str, request: Request) -> None:
        options = request.options
        try:
            texts = text_columns(names, options)
            ids = None if options.id_field is None else text_column(names, options.id_field)
            kept = [name for name in options.kept_fields if name in names]
            self.kept = {name: text_column(names, name) for name in kept}
        except BadRow as bad:
            raise InvalidFile(str(bad)) from bad
        self.names, self.texts, self.ids = names, texts, ids
        self.delimiter, self.request = delimiter, request
        self.has_quotes = _has_quotes(delimiter, request)
        self.end = os.urandom(16).hex().encode()
        self.appended = b"\n" + delimiter.encode().join([self.end] * len(names)) + b"\n"
        # Arrow reads ahead, so these rows may come after the rows that it has returned.
        self.uneven: list[tuple[int, str]] = []

    def batches(self, stream: ArrowStream) -> Iterator[Batch]:
        request, following = self.request, 2
        left_out: list[int] = []
        try:
            for rows, is_open in self._without_appended_row(self._parts(stream)):
                left_out += self._refuse_uneven()
                if rows.num_rows:
                    count = rows.num_rows + len(left_out)
                    numbers = np.arange(following, following + count, dtype=np.int64)
                    numbers = numbers[~np.isin(numbers, left_out)][: rows.num_rows]
                    following = int(numbers[-1]) + 1
                    if is_open and max(left_out, default=0) < following:  # else in an uneven row
                        request.refuse(following - 1, OPEN)
                        numbers = numbers[:-1]
                    left_out = [number for number in left_out if number >= following]
                    batch = self._batch(rows.slice(0, len(numbers)), numbers)
                    yield from in_size(batch, request.size)
        except InvalidFile as error:  # Arrow raised it, in a row after those it returned
            error.file = error.file or f"{request.source}:{max(following - 1, *left_out, 1) + 1}"
            raise
        self._refuse_uneven()

    def _parts(self, stream: ArrowStream) -> Iterator[pa.RecordBatch]:
        places = {*self.texts, *([] if self.ids is None else [self.ids]), *self.kept.values()}
        every = range(len(self.names))
        wanted = [str(place) for place in (every if self.request.whole else sorted(places))]

        def skip(row: Any) -> str:
            reason = f"expected {row.expected_columns} values, got {row.actual_columns}"
            self.uneven.append((row.number + 1, reason))  # + 1 for the header
            return "skip"

        what = f"not CSV, or a row of more than {MAX_ROW_BYTES:,} bytes (an unclosed quote?)"
        with arrow_errors(what):
            blocks = arrow_csv.open_csv(
                pa.PythonFile(stream, "r"),
                arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=MAX_ROW_BYTES,
                    # Names may be repeated or not UTF-8, so Arrow gets numbers.
                    column_names=[str(place) for place in every],
                ),
                arrow_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.has_quotes else False,
                    newlines_in_values=self.has_quotes,
                    invalid_row_handler=skip,
                ),
                arrow_csv.ConvertOptions(
                    include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary())
                ),
            )
            for block in blocks:
                yield from (block.slice(at, ROWS) for at in range(0, block.num_rows, ROWS))

    def _without_appended_row(
        self, parts: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yield each part, and whether its last row has an unclosed quote."""
        before = None
        try:
            for chunk in parts:
                if before is not None:
                    yield before, False
                before = chunk
        except InvalidFile:
            if before is not None:
                yield before, False
            raise
        if before is not None:
            is_open = before.column(str(self.texts[0]))[-1].as_py() != self.end
            yield (before if is_open else before.slice(0, before.num_rows - 1)), is_open

    def _refuse_uneven(self) -> list[int]:
        uneven, self.uneven = self.uneven, []
        for number, reason in uneven:
            self.request.refuse(number, reason)
        return [number for number, _ in uneven]

    def _batch(self, rows: pa.RecordBatch, numbers: NDArray[np.int64]) -> Batch:
        def column(place: int) -> pa.StringArray:
            return rows.column(str(place)).view(pa.string())

        columns = null_columns(self.request, rows.num_rows)
        columns |= {name: column(place) for name, place in self.kept.items()}
        ids = None if self.ids is None else column(self.ids)
        fields: list[dict[str, object]] | None = None
        if self.request.whole:
            fields = [{} for _ in range(rows.num_rows)]
            hidden = self.request.options.hidden_fields(self.names[self.texts[0]])
            for place, name in enumerate(self.names):
                if name not in hidden:
                    for row, value in zip(fields, rows.column(str(place)).to_pylist(), strict=True):
                        row[name] = decode(value)
        texts = join_texts([*map(column, self.texts)])
        if self.has_quotes and not self.request.log.notes:  # one note is enough
            lines = pc.count_substring(texts.view(pa.binary()), "\n").to_numpy()
            for row in np.flatnonzero(lines)[:1].tolist():
                what = f"{self.request.source}:{numbers[row]}: a row with a text of several lines"
                self.request.log.notes.append(f"{what}; {PART_OF_TEXT}")
        return Batch(self.request.source, texts, numbers, ids, columns, fields)


# ---- TFRecord

PIECE: Final = 1 << 20  # bytes read at a time in a skipped record
HEADER: Final = 12  # bytes of a length and its checksum
CHECKSUM: Final = 4
GZIP: Final = b"\x1f\x8b"
# Field numbers in the messages Example, Features, its map entries, and Feature.
FEATURES, ENTRY, VALUES = 1, 1, 1
KEY, VALUE = 1, 2
BYTES, FLOATS, INTEGERS = 1, 2, 3


def read_tfrecord(file: Readable, request: Request) -> Iterator[Batch]:
    """Read each record as a document.

    A damaged length or a truncated file always raises :class:`InvalidFile`, even if ``on_error``
    is ``"skip"``.
    """

    def records() -> Iterator[Row]:
        number, offset = 0, 0
        while header := read_up_to(file, HEADER):
            number += 1
            if header.startswith(GZIP) and number == 1:
                raise InvalidFile("compressed with gzip: rename it to end in .gz", offset=0)
            if len(header) < HEADER:
                raise InvalidFile(f"the header of record {number:,} is truncated", offset=offset)
            length, stored = unpack("<QI", header)
            if checksum(header[:8]) != stored:
                what = "the checksum of its length is wrong: damaged, or not TFRecord"
                raise InvalidFile(f"record {number:,}: {what}", offset=offset)
            is_left_out = bool(request.left) and request.skip_unread(1)
            is_read = not is_left_out and length <= MAX_LINE_BYTES
            record, left = b"", length + CHECKSUM
            while left:
                size = left if is_read else min(left, PIECE)
                record = read_up_to(file, size)
                if len(record) < size:
                    what = f"record {number:,} of {length:,} bytes is truncated"
                    raise InvalidFile(what, offset=offset)
                left -= size
            try:
                if is_read:
                    yield _example(record, number, offset, request)
                elif not is_left_out:
                    raise BadRow(f"a record with more than {MAX_LINE_BYTES:,} bytes")
            except BadRow as bad:
                request.refuse(number, str(bad))
            offset += HEADER + length + CHECKSUM

    return gather(records(), request)


def checksum(data: bytes) -> int:
    """Return the masked CRC-32C of ``data``: it is rotated, and a constant is added."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def _example(record: bytes, number: int, offset: int, request: Request) -> Row:
    content, stored = record[:-CHECKSUM], int.from_bytes(record[-CHECKSUM:], "little")
    if checksum(content) != stored:
        raise BadRow(f"the record's checksum does not match (at byte {offset:,})")
    options = request.options
    texts = options.fields or (options.single_field or TEXT,)
    wanted = frozenset((*texts, options.id_field or TEXT, *options.kept_fields))
    try:
        values = features(content, None if request.whole else wanted)
    except InvalidFile as error:
        raise BadRow(f"not a tf.Example: {error}") from error
    row = row_of(values, number, request)
    for name, value in row.fields.items():
        if isinstance(value, list):
            row.fields[name] = [decode(v) if isinstance(v, bytes) else v for v in value]
        elif isinstance(value, bytes):
            row.fields[name] = decode(value)
    return row


def features(example: bytes, wanted: frozenset[str] | None = None) -> dict[str, object]:
    """Return the features of an ``Example`` by name.

    A feature with one value is returned as this value, any other as a list. Values are ``bytes``,
    ``float`` (from 32 bits) or ``int``.

    ``wanted``: the names of the features to read. The value of any other feature is ``None``.
    """
    features: dict[str, object] = {}
    for message in wire.messages(example, (0, len(example)), FEATURES):
        for entry in wire.messages(example, message, ENTRY):
            name = decode(wire.Message(example, entry).value(KEY))
            features[name] = None
            if wanted is None or name in wanted:
                values = _values(example, entry)
                features[name] = values[0] if len(values) == 1 else values
    return features


def _values(example: bytes, entry: wire.Span) -> list[bytes | float | int]:
    """Return the values of a feature. If it has several types, only the last type counts."""
    values: list[bytes | float | int] = []
    kind = None
    for feature in wire.messages(example, entry, VALUE):
        for number, listed, first, last in wire.fields(example, *feature):
            if number not in (BYTES, FLOATS, INTEGERS) or listed != wire.LEN:
                continue
            if number != kind:
                kind, values = number, []
            if kind == INTEGERS:
                values += wire.Message(example, (first, last), len(example)).integers(VALUES)
                continue
            for field, wire_type, start, end in wire.fields(example, first, last):
                if field != VALUES:
                    continue
                if kind == FLOATS:
                    if wire_type not in (wire.FIXED32, wire.LEN) or (end - start) % 4:
                        what = f"expected floats of 4 bytes, got {end - start:,} bytes of wire type"
                        raise InvalidFile(f"{what} {wire_type}")
                    values += unpack_from(f"<{(end - start) // 4}f", example, start)
                elif wire_type == wire.LEN:
                    values.append(example[start:end])
    return values
