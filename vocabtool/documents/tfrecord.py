"""Read TFRecord files, whose records are ``tf.Example`` messages, without TensorFlow.

A record consists of:

- the length of its data (uint64, little-endian)
- a checksum of these eight bytes
- the data
- a checksum of the data

A checksum is a masked CRC-32C: it is rotated, and a constant is added. Layout:
tensorflow.org/tutorials/load_data/tfrecord and ``record_writer.cc`` in TensorFlow's source.
Messages: ``tensorflow/core/example/example.proto`` and ``feature.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack, unpack_from
from typing import Final

import google_crc32c

from vocabtool.documents.batch import MAX_ROWS, BadRow, Batch, Request
from vocabtool.documents.files import Readable
from vocabtool.documents.objects import Row, gather, row_of
from vocabtool.documents.options import TEXT
from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.vocabulary import decode

MAX_RECORD_BYTES: Final = 64 << 20  # a longer record is an invalid row
PIECE: Final = 1 << 20  # bytes read at a time in a skipped record
HEADER: Final = 12  # bytes of a length and its checksum
CHECKSUM: Final = 4
GZIP: Final = b"\x1f\x8b"

# Field numbers in the messages Example, Features, its map entries, and Feature.
FEATURES: Final = 1
ENTRY: Final = 1
KEY, VALUE = 1, 2
BYTES, FLOATS, INTEGERS = 1, 2, 3
VALUES: Final = 1
KEY_TAG: Final = KEY << 3 | wire.LEN
VALUE_TAG: Final = VALUE << 3 | wire.LEN
BYTES_TAG: Final = BYTES << 3 | wire.LEN  # also the tag of the values in a BytesList


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Read each record as a document.

    A damaged length or a truncated file always raises :class:`InvalidFile`, even if ``on_error``
    is ``"skip"``.
    """
    return gather(_rows(file, request), request, MAX_ROWS)


def _rows(file: Readable, request: Request) -> Iterator[Row]:
    options = request.options
    texts = options.fields or (options.single_field or TEXT,)
    names = (*texts, options.id_field or TEXT, *options.kept_fields)
    wanted = None if request.whole else frozenset(names)
    number, offset = 0, 0
    while header := _up_to(file, HEADER):
        number += 1
        if header.startswith(GZIP) and number == 1:
            raise InvalidFile("compressed with gzip: rename it to end in .gz", offset=0)
        if len(header) < HEADER:
            raise InvalidFile(f"the header of record {number:,} is truncated", offset=offset)
        length, stored = unpack("<QI", header)
        if checksum(header[:8]) != stored:
            what = "the checksum of its length is wrong: damaged, or not TFRecord"
            raise InvalidFile(f"record {number:,}: {what}", offset=offset)
        left_out = bool(request.ahead.left) and request.ahead.skip_unread(1)
        kept, left = b"", length + CHECKSUM
        is_read = not left_out and length <= MAX_RECORD_BYTES
        while left:
            most = left if is_read else min(left, PIECE)
            piece = _up_to(file, most)
            if len(piece) < most:
                what = f"record {number:,} of {length:,} bytes is truncated"
                raise InvalidFile(what, offset=offset)
            left -= len(piece)
            kept = piece
        if is_read:
            try:
                yield _row(kept, number, offset, wanted, request)
            except BadRow as bad:
                request.refuse(number, str(bad))
        elif not left_out:
            request.refuse(number, f"a record with more than {MAX_RECORD_BYTES:,} bytes")
        offset += HEADER + length + CHECKSUM


def _up_to(file: Readable, size: int) -> bytes:
    data = file.read(size)
    while data and len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def checksum(data: bytes | memoryview) -> int:
    """Return the masked CRC-32C of ``data``."""
    crc = int(google_crc32c.value(bytes(data)))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def _row(
    data: bytes, number: int, offset: int, wanted: frozenset[str] | None, request: Request
) -> Row:
    content, stored = data[:-CHECKSUM], int.from_bytes(data[-CHECKSUM:], "little")
    if checksum(content) != stored:
        raise BadRow(f"the record's checksum does not match (at byte {offset:,})")
    try:
        values = features(content, wanted)
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

    ``wanted``: the names of the features to read. The value of any other feature may be ``None``.
    """
    found: dict[str, object] = {}
    for message in wire.messages(example, (0, len(example)), FEATURES):
        for start, end in wire.messages(example, message, ENTRY):
            name, value = _entry(example, start, end, wanted)
            found[name] = value
    return found


def _entry(
    example: bytes, start: int, end: int, wanted: frozenset[str] | None
) -> tuple[str, object]:
    """Return the name and the value of a feature. An unwanted value may be ``None``."""
    key = start + 2
    if end - start > 2 and example[start] == KEY_TAG and example[start + 1] < 128:
        key_end = key + example[start + 1]
        if feature := _content_start(example, key_end, end, VALUE_TAG):
            name = decode(example[key:key_end])
            if wanted is not None and name not in wanted:
                return name, None
            if (listed := _content_start(example, feature, end, BYTES_TAG)) and (
                value := _content_start(example, listed, end, BYTES_TAG)
            ):
                return name, example[value:end]
    name = decode(wire.last_bytes(example, (start, end), KEY))
    values = _values(example, (start, end))
    return name, values[0] if len(values) == 1 else values


def _content_start(data: bytes, start: int, end: int, tag: int) -> int:
    """Return where the content of a field begins.

    Returns 0 unless ``data[start:end]`` is a single field with this ``tag``.
    """
    if end - start < 2 or data[start] != tag:
        return 0
    length, at = data[start + 1], start + 2
    if length > 127:
        length, at = wire.varint(data, start + 1, end)
    return at if at + length == end else 0


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
            for field, wire_type, start, end in wire.fields(example, first, last):
                if field != VALUES:
                    continue
                if kind == INTEGERS:
                    values += wire.integers(example, (start, end), wire_type)
                elif kind == FLOATS:
                    if wire_type not in (wire.FIXED32, wire.LEN) or (end - start) % 4:
                        what = f"expected floats of 4 bytes, got {end - start:,} bytes of wire type"
                        what = f"{what} {wire_type}"
                        raise InvalidFile(what)
                    values += unpack_from(f"<{(end - start) // 4}f", example, start)
                elif wire_type == wire.LEN:
                    values.append(example[start:end])
    return values
