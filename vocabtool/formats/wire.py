"""Parse protobuf, FlatBuffers and FlexBuffers in any buffer, without a schema.

Every length and offset is checked before use. Nothing here recurses, so deep nesting is harmless.

Protobuf (protobuf.dev/programming-guides/encoding): single fields are read in Python, and long
lists of strings or varints with NumPy.

FlatBuffers (flatbuffers.dev/internals): a table begins with the signed distance back to its vtable.
The vtable contains its own size, the table's size, and for each field the distance from the start
of the table to the field, or 0 if the field is absent. A field refers to a vector, string or table
by an unsigned distance. Unions and nested vectors are not supported.

A FlexBuffer (google/flatbuffers, docs/source/flexbuffers.md) ends with its root, the root's type
and the root's width in bytes. The size of a vector is stored before its values, and the types of
the values are stored after them. For a value that is not a number, the vector contains the unsigned
distance back to the value.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.system.byte_strings import ByteStrings, Offsets

Buffer = bytes | mmap
Span = tuple[int, int]

VARINT, FIXED64, LEN, FIXED32 = 0, 1, 2, 5  # wire types

MAX_NAME: Final = 256  # bytes of a name in a message or table that are kept
MAX_FIELDS: Final = 400_000  # of a message, without long lists of strings
MAX_RANK: Final = 254  # of a tensor: TensorFlow's own limit
MAX_ELEMENTS: Final = (1 << 63) - 1
NO_STRINGS: Final = ByteStrings.of(())


def varint(buffer: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Read the varint at ``pos``; return its value, 0 to 2**64 - 1, and the position behind it."""
    value = shift = 0
    while True:
        if pos >= end or shift > 63:
            raise InvalidFile("a number is truncated or longer than 10 bytes", offset=pos)
        byte = buffer[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        shift += 7


def fields(buffer: Buffer, pos: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield ``(field number, wire type, start, end)`` for each field of the message in ``pos:end``.

    By wire type, ``start:end`` is a varint, 4 bytes, 8 bytes, or the bytes that follow a length.
    """
    while pos < end:
        key, pos = varint(buffer, pos, end)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise InvalidFile("field number 0 does not exist in protobuf", offset=pos - 1)
        start = pos
        if wire_type == LEN:
            length, start = varint(buffer, pos, end)
            pos = start + length
        elif wire_type == VARINT:
            _, pos = varint(buffer, pos, end)
        elif wire_type == FIXED64:
            pos += 8
        elif wire_type == FIXED32:
            pos += 4
        else:
            raise InvalidFile(f"wire type {wire_type} does not exist in protobuf", offset=pos - 1)
        if pos > end:
            what = f"field {number} runs {pos - end:,} bytes past the end of its message"
            raise InvalidFile(what, offset=start)
        yield number, wire_type, start, pos


def messages(buffer: Buffer, span: Span, wanted: int) -> Iterator[Span]:
    """Yield the span of each payload of a length-delimited field. ``wanted``: the field number."""
    for number, wire_type, start, end in fields(buffer, *span):
        if number == wanted and wire_type == LEN:
            yield start, end


def to_signed(value: int) -> int:
    """Convert a varint, read as an unsigned 64-bit number, to int64."""
    return value - (1 << 64) if value >> 63 else value


class Message:
    """The fields of a message. ``strings``: the payloads of one field, which must lie together."""

    def __init__(
        self,
        buffer: Buffer,
        span: Span,
        most: int = MAX_FIELDS,
        *,
        strings_field: int = 0,
        until: Container[int] = (),
    ) -> None:
        """Read the positions of at most ``most`` fields, up to the first of the fields ``until``.

        ``strings_field``: the number, at most 15, of the field for ``strings``; 0 if there is none.
        """
        self.span = span
        self.strings = NO_STRINGS
        self.size = 0
        self._buffer = buffer
        self._spans: dict[int, list[Span]] = {}
        self._integers: dict[int, int] = {}
        (pos, end), rest = span, fields(buffer, *span)
        while pos < end:
            if strings_field and buffer[pos] == (strings_field << 3 | LEN):
                if len(self.strings):
                    raise InvalidFile("the strings of a list are not together", offset=pos)
                data = buffer[pos:end]
                self.strings, length = string_fields(data, 0, len(data), data[0])
                pos += length
                rest = fields(buffer, pos, end)
                continue
            number, wire_type, start, pos = next(rest)
            if number in until:
                break
            self.size += 1
            if self.size > most:
                raise UnsupportedFormat(f"a message of more than {most:,} fields")
            if wire_type == LEN:
                self._spans.setdefault(number, []).append((start, pos))
            elif wire_type == VARINT:
                self._integers[number] = to_signed(varint(buffer, start, pos)[0])
            elif wire_type == FIXED32:
                self._integers[number] = int.from_bytes(buffer[start:pos], "little")

    def spans(self, number: int) -> list[Span]:
        return self._spans.get(number, [])

    def messages(self, number: int) -> Iterator[Message]:
        return (Message(self._buffer, span) for span in self.spans(number))

    def message(self, number: int) -> Message:
        """Return the last message in a field; an empty one if absent."""
        return Message(self._buffer, self._spans.get(number, [(0, 0)])[-1])

    def value(self, number: int) -> bytes:
        """Return the last payload of a field; ``b""`` if absent."""
        start, end = self._spans.get(number, [(0, 0)])[-1]
        return self._buffer[start:end]

    def text(self, number: int, most: int = MAX_NAME) -> bytes:
        """Return the first ``most`` bytes of the last payload of a field; ``b""`` if absent."""
        start, end = self._spans.get(number, [(0, 0)])[-1]
        return self._buffer[start : min(end, start + most)]

    def integer(self, number: int, default: int = 0) -> int:
        """Return the last value of an int32, int64, bool or fixed32 field."""
        return self._integers.get(number, default)

    def integers(self, wanted: int) -> Iterator[int]:
        """Yield the values of an int32, int64 or bool field, packed or not."""
        for number, wire_type, start, end in fields(self._buffer, *self.span):
            if number != wanted:
                continue
            if wire_type not in (VARINT, LEN):
                what = f"a field of wire type {wire_type} cannot contain integers"
                raise InvalidFile(what, offset=start)
            while start < end:
                value, start = varint(self._buffer, start, end)  # noqa: PLW2901
                yield to_signed(value)


class Cursor:
    """A position in a buffer; each read is checked and moves it. ``name``: for messages."""

    def __init__(self, buffer: Buffer, position: int, name: str) -> None:
        self.buffer = buffer
        self.position = position
        self.name = name

    @property
    def rest(self) -> int:
        return len(self.buffer) - self.position

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; return the position of the first."""
        start = self.position
        if not 0 <= start <= start + size <= len(self.buffer):
            what = f"wanted {size:,} bytes at {start:,}, but it has {len(self.buffer):,}"
            raise InvalidFile(f"{self.name} is truncated: {what}", offset=start)
        self.position = start + size
        return start

    def take(self, size: int) -> bytes:
        start = self.skip(size)
        return self.buffer[start : self.position]

    def number(self, layout: str) -> Any:
        """Read a number. ``layout``: its ``struct`` format, such as ``"<I"``."""
        start = self.skip(struct.calcsize(layout))
        return struct.unpack_from(layout, self.buffer, start)[0]

    def varint(self) -> int:
        value, self.position = varint(self.buffer, self.position, len(self.buffer))
        return value

    def count(self, layout: str, item_size: int = 1) -> int:
        """Read the number of items that follow. Each takes at least ``item_size`` bytes."""
        start = self.position
        count: int = self.number(layout)
        if count * item_size > self.rest:
            what = f"{count:,} items need {count * item_size:,} bytes, but only {self.rest:,} are"
            raise InvalidFile(f"{self.name}: {what} left", offset=start)
        return count

    def strings(self, count: int, layout: str) -> ByteStrings:
        """Read ``count`` strings, each after its length, whose ``struct`` format is ``layout``."""
        size, length_at = struct.calcsize(layout), struct.Struct(layout).unpack_from
        start, end, starts = self.position, self.position, array("q")  # with the lengths
        try:
            for _ in range(count):
                starts.append(end)
                end += size + length_at(self.buffer, end)[0]
        except (struct.error, OverflowError):
            end = len(self.buffer) + 1
        if end > len(self.buffer):
            raise InvalidFile(f"a string runs past the end of {self.name}", offset=starts[-1])
        if end - start > MAX_STRINGS:
            what = f"strings of {end - start:,} bytes, wanted at most {MAX_STRINGS:,}"
            raise UnsupportedFormat(f"{self.name}: {what}")
        self.position = end
        bounds = np.append(np.frombuffer(starts, np.int64) - start, end - start).astype(np.int32)
        return ByteStrings(self.buffer[start:end], bounds[:-1] + np.int32(size), bounds[1:])


MAX_STRINGS: Final = 1 << 28  # bytes of strings with their lengths
WINDOW: Final = 1 << 16  # bytes examined at a time: larger arrays would allocate new pages
LENGTH_BYTES: Final = 5  # a longer varint is a length of 2^35 or more, larger than any file
INTEGER_BYTES: Final = 10  # 64 bits, 7 per byte
TOO_LONG: Final = 1 << 40

Bytes = NDArray[np.uint8]
Lengths = NDArray[np.integer[Any]]


def string_fields(data: bytes, pos: int, end: int, tag: int) -> tuple[ByteStrings, int]:
    """Read consecutive fields with one tag; return the payloads, and the position after them."""
    array = np.frombuffer(data, np.uint8)[:end]
    dtype = np.dtype(np.int32 if len(data) < 1 << 31 else np.int64)
    all_starts, all_ends = [np.zeros(0, dtype)], [np.zeros(0, dtype)]
    while pos < end and data[pos] == tag:
        starts, ends = _window(array, pos, min(pos + WINDOW, end), tag)
        pos = int(ends[-1])
        if pos > end:
            what = f"the last string runs {pos - end:,} bytes past the end"
            raise InvalidFile(what, offset=int(starts[-1]))
        all_starts.append(starts.astype(dtype))
        all_ends.append(ends.astype(dtype))
    return ByteStrings(data, np.concatenate(all_starts), np.concatenate(all_ends)), pos


def _window(array: Bytes, pos: int, stop: int, tag: int) -> tuple[Offsets, Offsets]:
    """Return the starts and ends of the fields whose tags are in ``array[pos:stop]``.

    Each byte equal to the tag may begin a field, or be part of a string. A field begins where the
    previous one ends. So if a field does not end at the next candidate, all candidates before its
    end lie inside its string and are dropped.
    """
    tags = np.flatnonzero(array[pos:stop] == tag) + pos
    lengths, starts = lengths_at(array, tags + 1)
    ends = starts + lengths
    doubtful = np.flatnonzero(ends[:-1] != tags[1:])
    if not len(doubtful):
        return starts, ends
    following = np.searchsorted(tags, ends[doubtful])
    at_tag = tags.take(following, mode="clip") == ends[doubtful]
    is_field = np.ones(len(tags), np.bool_)
    decided = 0  # the candidates before this one are decided
    for candidate, after, is_tag in zip(
        doubtful.tolist(), following.tolist(), at_tag.tolist(), strict=True
    ):
        if candidate >= decided:
            is_field[candidate + 1 : after] = False
            decided = after
            if not is_tag:  # the run ends here, or continues in the next window
                is_field[after:] = False
                break
    rows = np.flatnonzero(is_field)
    return starts.take(rows), ends.take(rows)


def lengths_at(array: Bytes, positions: Offsets) -> tuple[Lengths, Offsets]:
    """Read the varint at each of the ascending ``positions``; return values and positions after.

    The value is ``TOO_LONG`` for more than 5 bytes, or if the varint exceeds the array.
    """
    byte = array.take(positions, mode="clip")
    behind = positions + 1
    if not len(byte) or (byte.max() < 128 and behind[-1] <= len(array)):
        return byte, behind
    values = byte.astype(np.int64)
    longer = np.flatnonzero(byte > 127)  # the varints with another byte
    values[longer] &= 127
    for k in range(1, LENGTH_BYTES):
        byte = array.take(positions[longer] + k, mode="clip")
        values[longer] |= (byte & np.uint8(127)).astype(np.int64) << (7 * k)
        behind[longer] += 1
        longer = longer[byte > 127]
    values[longer] = TOO_LONG
    values[behind > len(array)] = TOO_LONG
    return values, behind


def varint_run(data: bytes, count: int) -> tuple[NDArray[np.int64], int]:
    """Read ``count`` varints; return int64, shape (count,), and the position after the last."""
    if count > len(data):
        raise InvalidFile(f"wanted {count:,} numbers, got only {len(data):,} bytes")
    array = np.frombuffer(data, np.uint8)
    values = np.zeros(count, np.int64)
    done = pos = 0
    while done < count:
        lasts = pos + np.flatnonzero(array[pos : pos + WINDOW] < 128)[: count - done]
        if not len(lasts):
            raise InvalidFile(f"wanted {count:,} numbers, got {done:,}", offset=pos)
        starts = np.concatenate(([pos], lasts[:-1] + 1))
        width = int((lasts - starts).max()) + 1
        if width > INTEGER_BYTES:
            raise InvalidFile("a number is longer than 10 bytes", offset=int(starts[0]))
        numbers = (array[starts] & np.uint8(127)).astype(np.int64)
        for k in range(1, width):
            longer = np.flatnonzero(lasts - starts >= k)
            byte = array[starts[longer] + k] & np.uint8(127)
            numbers[longer] |= byte.astype(np.int64) << (7 * k)
        values[done : done + len(lasts)] = numbers
        done += len(lasts)
        pos = int(lasts[-1]) + 1
    return values, pos


def length_list(data: bytes, count: int, gap: int = 0) -> ByteStrings:
    """Read an EncodeStringList (tensorflow/core/lib/strings/coding): lengths, then strings.

    ``gap``: bytes between the two.
    """
    lengths, pos = varint_run(data, count)
    pos += gap
    if count and not 0 <= int(lengths.min()) <= int(lengths.max()) <= len(data):
        raise InvalidFile(f"a string is longer than the whole list, which has {len(data):,} bytes")
    filled = pos + int(lengths.sum())
    if filled != len(data):
        raise InvalidFile(f"the strings need {filled:,} bytes, got {len(data):,}")
    short = lengths.astype(np.int32 if len(data) < 1 << 31 else np.int64)
    del lengths
    ends = np.cumsum(short, dtype=short.dtype)
    ends += pos
    return ByteStrings(data, ends - short, ends)


MAX_BUFFER: Final = 1 << 30  # bytes; 30,000 wordpieces take 1.5 MB
# FlexBuffer types: upper six bits of a byte; lower two: log2 of a width.
FLEX_STRING, FLEX_VECTOR, FLEX_BLOB = 5, 10, 25
FLEX_WIDTHS: Final = (1, 2, 4, 8)
MAX_FLEX_VALUES: Final = 1_000
STRING_OVERHEAD: Final = 9  # bytes per string in a vector: distance, length and a NUL


@dataclass(frozen=True, slots=True)
class Table:
    """A FlatBuffers table; fields are numbered from 0 as in its schema."""

    buffer: Buffer
    position: int
    vtable: int
    vtable_size: int

    def integer(self, field: int, default: int = 0, layout: str = "<i") -> int:
        """Return an integer field; ``default`` if absent. ``layout``: its ``struct`` format."""
        at = self._at(field)
        return default if at is None else _number(self.buffer, at, layout)

    def uint(self, field: int) -> int:
        """Return a field of type ``uint`` (32 bits); 0 if absent."""
        return self.integer(field, layout="<I")

    def byte(self, field: int) -> int:
        """Return a field of type ``bool``, ``ubyte`` or a small enum (8 bits); 0 if absent."""
        return self.integer(field, layout="<B")

    def vector(self, field: int, dtype: str) -> NDArray[Any]:
        """Return a vector of numbers as a view of the buffer, shape (n,); empty if absent."""
        item = np.dtype(dtype)
        count, start = self._vector(field, item.itemsize)
        return np.frombuffer(self.buffer, item, count, start)

    def text(self, field: int) -> bytes:
        """Return the first ``MAX_NAME`` bytes of a string field; empty if absent."""
        return self.vector(field, "u1")[:MAX_NAME].tobytes()

    def string(self, field: int) -> bytes:
        """Return a string field, which must be present."""
        if not self.has(field):
            raise InvalidFile(f"field {field} is missing, wanted a string", offset=self.position)
        return self.vector(field, "u1").tobytes()

    def strings(self, field: int) -> ByteStrings:
        """Return a vector of strings; empty if absent."""
        count, start = self._vector(field, 4)
        if not count:
            return NO_STRINGS
        buffer, distances = self.buffer, np.frombuffer(self.buffer, "<u4", count, start)
        heads = start + 4 * np.arange(count, dtype=np.int64) + distances
        if int(heads.max()) > len(buffer) - 4:
            raise InvalidFile("a string lies outside the buffer", offset=int(heads.max()))
        windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(buffer, np.uint8), 4)
        lengths = windows[heads].view("<u4").ravel()  # may be unaligned
        wanted = int(lengths.sum(dtype=np.int64)) + STRING_OVERHEAD * count
        if wanted > len(buffer):
            what = f"the strings overlap: they need {wanted:,} bytes of {len(buffer):,}"
            raise InvalidFile(what, offset=start)
        starts = heads + 4
        ends = starts + lengths
        if int(ends.max()) > len(buffer):
            raise InvalidFile("a string runs past the end of the buffer", offset=int(ends.max()))
        return ByteStrings(bytes(buffer), starts.astype(np.int32), ends.astype(np.int32))

    def table(self, field: int) -> Table:
        """Return a table in a field, which must be present."""
        at = self._at(field)
        if at is None:
            raise InvalidFile(f"field {field} is missing, wanted a table", offset=self.position)
        return _table_at(self.buffer, at + _number(self.buffer, at, "<I"))

    def tables(self, field: int) -> Tables:
        """Return a vector of tables; empty if absent."""
        return Tables(self.buffer, *self._vector(field, 4))

    def has(self, field: int) -> bool:
        return self._at(field) is not None

    def _at(self, field: int) -> int | None:
        """Return the position of a field in the buffer; ``None`` if it is absent."""
        slot = 4 + 2 * field
        if slot + 2 > self.vtable_size:
            return None
        distance = _number(self.buffer, self.vtable + slot, "<H")
        return self.position + distance if distance else None

    def _vector(self, field: int, item_size: int) -> tuple[int, int]:
        """Return the number of items of a vector, 0 if it is absent, and where they begin."""
        at = self._at(field)
        if at is None:
            return 0, 0
        cursor = Cursor(self.buffer, at + _number(self.buffer, at, "<I"), "a vector")
        return cursor.count("<I", item_size), cursor.position


@dataclass(frozen=True, slots=True)
class Tables:
    """A FlatBuffers vector of tables, read on access. ``start``: position of its first offset."""

    buffer: Buffer
    count: int
    start: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Table:
        if not 0 <= index < self.count:
            what = f"table {index:,} does not exist: there are only {self.count:,}"
            raise InvalidFile(what, offset=self.start)
        at = self.start + 4 * index
        return _table_at(self.buffer, at + _number(self.buffer, at, "<I"))

    def __iter__(self) -> Iterator[Table]:
        return (self[index] for index in range(self.count))


def flatbuffer_root(buffer: Buffer) -> Table:
    if len(buffer) > MAX_BUFFER:
        raise InvalidFile(f"a flatbuffer of {len(buffer):,} bytes, wanted at most {MAX_BUFFER:,}")
    return _table_at(buffer, _number(buffer, 0, "<I"))


def _table_at(buffer: Buffer, position: int) -> Table:
    vtable = position - _number(buffer, position, "<i")
    size = _number(buffer, vtable, "<H")
    if size < 4 or vtable + size > len(buffer):
        what = f"a vtable of {size:,} bytes, wanted 4 to {len(buffer) - vtable:,}"
        raise InvalidFile(what, offset=vtable)
    return Table(buffer, position, vtable, size)


def _number(buffer: Buffer, position: int, layout: str) -> int:
    return int(Cursor(buffer, position, "the flatbuffer").number(layout))


def flexbuffer_strings(buffer: bytes) -> list[bytes]:
    """Return the strings and blobs in the root vector of a FlexBuffer."""
    if len(buffer) < 3 or buffer[-1] not in FLEX_WIDTHS or buffer[-2] >> 2 != FLEX_VECTOR:
        end = f"a FlexBuffer that ends {buffer[-3:].hex(' ')}" if buffer else "an empty FlexBuffer"
        raise InvalidFile(f"{end}, wanted a vector")
    root, width = len(buffer) - 2 - buffer[-1], 1 << (buffer[-2] & 3)
    vector = root - _flex_number(buffer, root, buffer[-1])
    count = _flex_number(buffer, vector - width, width)
    if count > MAX_FLEX_VALUES:
        what = f"a FlexBuffer vector of {count:,} values, wanted at most {MAX_FLEX_VALUES:,}"
        raise InvalidFile(what, offset=vector)
    strings = []
    for number in range(count):
        at = vector + number * width
        kind = _flex_number(buffer, vector + count * width + number, 1)
        if kind >> 2 in (FLEX_STRING, FLEX_BLOB):
            start, size = at - _flex_number(buffer, at, width), 1 << (kind & 3)
            length = _flex_number(buffer, start - size, size)
            strings.append(Cursor(buffer, start, "a string of the FlexBuffer").take(length))
    return strings


def _flex_number(buffer: bytes, position: int, width: int) -> int:
    return int.from_bytes(Cursor(buffer, position, "the FlexBuffer").take(width), "little")
