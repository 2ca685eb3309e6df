r"""Read files of rows: text lines, JSON lines, JSON arrays and TFRecord.

In lines and JSON lines, blank lines are left out, but line numbers count them.

Text lines: a line ends with ``\n`` or ``\r\n``. A lone CR, NUL, U+0085 and U+2028 are part of the
text. A byte order mark at the start of the file is left out.

JSON lines: each line is a string, which is the text, or an object with the text in one field. A
lone surrogate (``\ud83d``) becomes invalid UTF-8, as in Python's texts. If a key is repeated, its
last value is used.

TFRecord: each record is a ``tf.Example``, read without TensorFlow. A record is the length of its
data (uint64, little-endian), a checksum of these eight bytes, the data, and a checksum of the data.
Layout: tensorflow.org/tutorials/load_data/tfrecord and ``record_writer.cc`` in TensorFlow's source.
Messages: ``tensorflow/core/example/example.proto`` and ``feature.proto``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from struct import unpack, unpack_from
from typing import Any, Final

import google_crc32c
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

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
    joined_text,
    numbers_of,
    row_of,
    strings,
    types_of,
)
from vocabtool.documents.files import Readable, read_up_to, refuse_utf16
from vocabtool.documents.options import TEXT
from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.vocabulary import decode

BOM: Final = b"\xef\xbb\xbf"
BLANKS: Final = " \t\v\f\r"  # a line of these is blank
HEAD: Final = 1 << 16  # bytes at the beginning of a text that show its line ends
MAX_LINE_BYTES: Final = 64 << 20  # of a line with its end, or of a record; a longer one is invalid


def read_lines(file: Readable, request: Request) -> Iterator[Batch]:
    """Read each line that is not blank as a document."""
    if (name := request.read.field_of_rows) is not None:
        hint = "use --input-format (format=) if the file has another format"
        raise InvalidFile(f"text lines have no field {name!r}; {hint}")
    for first, data in blocks(file, request):
        if first == 1 and not (data := data.removeprefix(BOM)):
            continue
        content = pa.array([data.replace(b"\r\n", b"\n")], pa.binary())
        texts = pc.split_pattern(content, "\n").values.view(pa.string())
        rows = np.flatnonzero(pc.binary_length(pc.ascii_trim(texts, BLANKS)))
        if request.skip_unread(len(rows)):
            continue
        columns = dict.fromkeys(request.read.kept_fields, pa.nulls(len(rows), pa.string()))
        batch = Batch(request.source, texts.take(pa.array(rows)), first + rows, columns=columns)
        yield from in_size(batch, request.size)


def blocks(file: Readable, request: Request) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, about ``request.size`` bytes at a time, after the first line's number.

    A line of ``MAX_LINE_BYTES`` or more is refused. If the first ``HEAD`` bytes have CR as their
    only line end, each CR becomes LF.
    """
    first, open_line, only_cr = 1, b"", False  # ``open_line``: the start of a line without its end
    is_head = True
    while True:
        # Each read of a long line doubles it, so that its bytes are not copied again and again.
        size = max(request.size, HEAD if is_head else len(open_line))
        block = file.read(min(size, MAX_LINE_BYTES - len(open_line)))
        if not block:
            break
        if is_head:
            refuse_utf16(block)
            # A CR at the end of the head may belong to CR LF.
            only_cr = b"\r" in block[: HEAD - 1] and b"\n" not in block[:HEAD]
            is_head = False
        data = open_line + (block.replace(b"\r", b"\n") if only_cr else block)
        end = data.rfind(b"\n") + 1
        if end:
            yield first, data[:end]
            first += data.count(b"\n")
            open_line = data[end:]
        elif len(data) == MAX_LINE_BYTES:
            request.refuse(first, f"a line with more than {MAX_LINE_BYTES:,} bytes")
            open_line, first = b"", first + 1
            while data := file.read(request.size):  # to the end of the refused line
                data = data.replace(b"\r", b"\n") if only_cr else data
                if end := data.find(b"\n") + 1:
                    open_line = data[end:]
                    break
        else:
            open_line = data
    if open_line:
        yield first, open_line


BLANK: Final = b" \t\r\n"
# The text of a value, for the types that need no more than this.
PLAIN: Final[dict[type, Callable[[Any], bytes]]] = {
    str: str.encode,
    int: lambda value: b"%d" % value,
}
ONE_A_LINE: Final = "--input-format jsonl (format=) reads one object per line"
LONG: Final = re.compile(rb"[0-9]{20}")  # perhaps an integer that orjson would round
MAX_INTEGER_DIGITS: Final = 4300  # Python converts no longer string to int


def read_jsonl(file: Readable, request: Request) -> Iterator[Batch]:
    """Read each line that is not blank as a JSON value: an object, or a string."""
    for first, data in blocks(file, request):
        lines = data.removesuffix(b"\n").split(b"\n")
        if first == 1:
            lines[0] = lines[0].removeprefix(BOM)
        if request.to_skip:
            count = sum(bool(line.strip(BLANK)) for line in lines)
            if request.skip_unread(count):
                continue
        batch = None if request.all_fields else _all_at_once(lines, first, request)
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
    """Parse all lines at once, which is fast; ``None`` if a line needs the slower :func:`_row`.

    That is a line that is not an object with valid fields. ``first``: the number of the first line.
    """
    read = request.read
    field, id_field, vector = read.single_field or TEXT, read.id_field, read.vector_field
    try:
        for line in lines:
            if len(line) > MAX_PARTS:
                check_parts(line)
        rows = [orjson.loads(line) for line in lines]
        if read.fields:
            texts = [joined_text(row, read.fields) for row in rows]
        else:
            texts = [row[field].encode() for row in rows]
        ids = None
        if id_field is not None:
            ids = strings([PLAIN[type(row[id_field])](row[id_field]) for row in rows])
        columns = {name: [row.get(name) for row in rows] for name in read.kept_fields}
        vectors = None if vector is None else numbers_of([row[vector] for row in rows], vector, 2)
        return Batch(
            request.source,
            strings(texts),
            np.arange(first, first + len(lines), dtype=np.int64),
            ids,
            {name: strings([*map(_plain, column)]) for name, column in columns.items()},
            vectors=vectors,
            types=types_of(columns),
        )
    except (orjson.JSONDecodeError, BadRow, LookupError, TypeError, AttributeError):
        return None


def _plain(value: str | int | None) -> bytes | None:
    """Return a string or an integer as text. Raises ``LookupError`` for any other type."""
    return None if value is None else PLAIN[type(value)](value)


def _row(value: object, number: int, request: Request) -> Row | None:
    """Return the row of a parsed value, or of a line; ``None`` if it is invalid, or blank."""
    try:
        if isinstance(value, bytes):
            if not value.strip(BLANK):
                return None
            value = _parse(value)
        return row_of(value, number, request)
    except BadRow as bad:
        request.refuse(number, str(bad))
        return None


def _parse(line: bytes) -> object:
    """Parse JSON as Python does. Raises :class:`BadRow`, which says what is wrong."""
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
    """Read each record as a document. A damaged length or a truncated file is never skipped."""

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
            is_skipped = bool(request.to_skip) and request.skip_unread(1)
            is_read = not is_skipped and length <= MAX_LINE_BYTES
            record, left = b"", length + CHECKSUM
            while left:  # a record that is not read is passed over in small pieces
                size = left if is_read else min(left, PIECE)
                record = read_up_to(file, size)
                if len(record) < size:
                    what = f"record {number:,} of {length:,} bytes is truncated"
                    raise InvalidFile(what, offset=offset)
                left -= size
            try:
                if is_read:
                    yield _example(record, number, offset, request)
                elif not is_skipped:
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
    """Return the row of a record, which ends with its checksum. Raises :class:`BadRow`."""
    content, stored = record[:-CHECKSUM], int.from_bytes(record[-CHECKSUM:], "little")
    if checksum(content) != stored:
        raise BadRow(f"the record's checksum does not match (at byte {offset:,})")
    read = request.read
    texts = read.fields or (read.single_field or TEXT,)
    names = frozenset((*texts, read.id_field or TEXT, *read.kept_fields))
    try:
        values = features(content, None if request.all_fields else names)
    except InvalidFile as error:
        raise BadRow(f"not a tf.Example: {error}") from error
    row = row_of(values, number, request)
    for name, value in row.fields.items():
        if isinstance(value, list):
            row.fields[name] = [decode(item) if isinstance(item, bytes) else item for item in value]
        elif isinstance(value, bytes):
            row.fields[name] = decode(value)
    return row


def features(example: bytes, names: frozenset[str] | None = None) -> dict[str, object]:
    """Return the features of an ``Example`` by name; only those in ``names`` have their value.

    Any other feature has ``None``; if ``names`` is ``None``, there are no others. A feature with
    one value is returned as this value, any other as a list. Values are ``bytes``, ``float`` (from
    32 bits) or ``int``.
    """
    features: dict[str, object] = {}
    for message in wire.messages(example, (0, len(example)), FEATURES):
        for entry in wire.messages(example, message, ENTRY):
            name = decode(wire.Message(example, entry).value(KEY))
            features[name] = None
            if names is None or name in names:
                values = _values(example, entry)
                features[name] = values[0] if len(values) == 1 else values
    return features


def _values(example: bytes, entry: wire.Span) -> list[bytes | float | int]:
    """Return the values of a feature. If they have several types, only the last type counts."""
    values: list[bytes | float | int] = []
    kind = None  # of the values so far: the field number of their list
    for feature in wire.messages(example, entry, VALUE):
        for number, wire_type, first, last in wire.fields(example, *feature):
            if number not in (BYTES, FLOATS, INTEGERS) or wire_type != wire.LEN:
                continue
            if number != kind:
                kind, values = number, []
            if kind == INTEGERS:
                values += wire.Message(example, (first, last), len(example)).integers(VALUES)
                continue
            for field, layout, start, end in wire.fields(example, first, last):
                if field != VALUES:
                    continue
                if kind == FLOATS:
                    if layout not in (wire.FIXED32, wire.LEN) or (end - start) % 4:
                        what = f"expected floats of 4 bytes, got {end - start:,} bytes of wire type"
                        raise InvalidFile(f"{what} {layout}")
                    values += unpack_from(f"<{(end - start) // 4}f", example, start)
                elif layout == wire.LEN:
                    values.append(example[start:end])
    return values
