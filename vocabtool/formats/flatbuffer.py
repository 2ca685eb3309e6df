"""FlatBuffers and FlexBuffers: fields of a table, every offset checked before it is followed.

Layout: flatbuffers.dev/internals. A table begins with the signed distance back to its vtable;
the vtable holds its own size, the table's size, and for each field the distance from the table,
0 when the field is absent. Vectors, strings and tables are reached by an unsigned distance from
the field. Which field means what is the caller's; unions and nested vectors are left out.

A FlexBuffer (google/flatbuffers, docs/source/flexbuffers.md) ends with its root, the root's type
and the root's width in bytes. A vector has its size before it and a type for each value behind it;
a value that is not a number is the unsigned distance back to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings

MAX_BUFFER: Final = 1 << 30  # bytes; 30,000 wordpieces take 1.5 MB
FLEX_STRING: Final = 5  # types of a FlexBuffer, in the upper six bits; below, log2 of a width
FLEX_VECTOR: Final = 10
FLEX_BLOB: Final = 25
FLEX_WIDTHS: Final = (1, 2, 4, 8)
MAX_FLEX_VALUES: Final = 1_000
STRING_OVERHEAD: Final = 9  # bytes of one string in a vector: its distance, its length, a zero


@dataclass(frozen=True, slots=True)
class Table:
    """One table: fields are numbered from 0 as in its schema. An absent field has its default."""

    buffer: Buffer
    position: int
    vtable: int
    vtable_size: int

    def integer(self, field: int, default: int = 0, layout: str = "<i") -> int:
        """A whole number; ``layout``: how ``struct`` calls its type, ``int`` of 32 bits."""
        at = self._at(field)
        return default if at is None else _number(self.buffer, at, layout)

    def uint(self, field: int) -> int:
        """A field of type ``uint`` (32 bits)."""
        return self.integer(field, layout="<I")

    def byte(self, field: int) -> int:
        """A field of type ``bool``, ``ubyte`` or a small enum (8 bits)."""
        return self.integer(field, layout="<B")

    def vector(self, field: int, dtype: str) -> NDArray[Any]:
        """A vector of numbers as a view of the buffer, shape (n,); empty when absent."""
        at = self._at(field)
        item = np.dtype(dtype)
        if at is None:
            return np.zeros(0, item)
        count, start = self._vector(at, item.itemsize)
        return np.frombuffer(self.buffer, item, count, start)

    def string(self, field: int) -> bytes:
        """A string that must be there: absent, it is an :class:`InvalidFile`."""
        at = self._at(field)
        if at is None:
            raise InvalidFile(f"field {field} is missing, wanted a string", offset=self.position)
        length, start = self._vector(at, 1)
        return self.buffer[start : start + length]

    def strings(self, field: int) -> ByteStrings:
        """A vector of strings, over the buffer itself (a copy, if mapped); empty when absent."""
        at = self._at(field)
        if at is None:
            return ByteStrings.of(())
        count, start = self._vector(at, 4)
        return _strings(self.buffer, start, np.frombuffer(self.buffer, "<u4", count, start))

    def table(self, field: int) -> Table:
        """A table that must be there: absent, it is an :class:`InvalidFile`."""
        at = self._at(field)
        if at is None:
            raise InvalidFile(f"field {field} is missing, wanted a table", offset=self.position)
        return _table(self.buffer, at + _number(self.buffer, at, "<I"))

    def tables(self, field: int) -> Tables:
        """A vector of tables; empty when absent."""
        at = self._at(field)
        count, start = (0, 0) if at is None else self._vector(at, 4)
        return Tables(self.buffer, count, start)

    def has(self, field: int) -> bool:
        """Whether a field is there."""
        return self._at(field) is not None

    def _at(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self.vtable_size:
            return None
        distance = _number(self.buffer, self.vtable + slot, "<H")
        return self.position + distance if distance else None

    def _vector(self, at: int, item_size: int) -> tuple[int, int]:
        """The number of items in the vector that ``at`` refers to, and where the first lies."""
        start = at + _number(self.buffer, at, "<I")
        count = _number(self.buffer, start, "<I")
        left = len(self.buffer) - start - 4
        if count * item_size > left:
            raise InvalidFile(
                f"a vector wants {count * item_size:,} bytes, {left:,} are left", offset=start
            )
        return count, start + 4


@dataclass(frozen=True, slots=True)
class Tables:
    """A vector of ``count`` tables from ``start`` on, each read when it is asked for."""

    buffer: Buffer
    count: int
    start: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Table:
        """Raises :class:`InvalidFile` where there is none of that number."""
        if not 0 <= index < self.count:
            raise InvalidFile(f"number {index:,} of {self.count:,} tables", offset=self.start)
        at = self.start + 4 * index
        return _table(self.buffer, at + _number(self.buffer, at, "<I"))

    def __iter__(self) -> Iterator[Table]:
        return (self[index] for index in range(self.count))


def root(buffer: Buffer) -> Table:
    """The table that a buffer is about. Raises :class:`InvalidFile` when there is none."""
    if len(buffer) > MAX_BUFFER:
        raise InvalidFile(f"a flatbuffer of {len(buffer):,} bytes, wanted at most {MAX_BUFFER:,}")
    return _table(buffer, _number(buffer, 0, "<I"))


def _table(buffer: Buffer, position: int) -> Table:
    vtable = position - _number(buffer, position, "<i")
    size = _number(buffer, vtable, "<H")
    if size < 4 or vtable + size > len(buffer):
        raise InvalidFile(
            f"a vtable of {size:,} bytes, wanted 4 to {len(buffer) - vtable:,}", offset=vtable
        )
    return Table(buffer, position, vtable, size)


def _number(buffer: Buffer, position: int, layout: str) -> int:
    """Read one integer. The only place where a position is used, so the only check of one."""
    if not 0 <= position <= len(buffer) - struct.calcsize(layout):
        raise InvalidFile(
            f"a number lies outside the buffer of {len(buffer):,} bytes", offset=position
        )
    number: int = struct.unpack_from(layout, buffer, position)[0]
    return number


def _strings(buffer: Buffer, start: int, distances: NDArray[np.uint32]) -> ByteStrings:
    """The strings that ``distances``, the items of the vector at ``start``, refer to."""
    if not len(distances):
        return ByteStrings.of(())
    heads = start + 4 * np.arange(len(distances), dtype=np.int64) + distances
    if int(heads.max()) > len(buffer) - 4:
        raise InvalidFile("a string lies outside the buffer", offset=int(heads.max()))
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(buffer, np.uint8), 4)
    lengths = windows[heads].view("<u4").ravel()  # aligned or not
    wanted = int(lengths.sum(dtype=np.int64)) + STRING_OVERHEAD * len(heads)
    if wanted > len(buffer):
        raise InvalidFile(
            f"{len(heads):,} strings want {wanted:,} bytes, the buffer has {len(buffer):,}: "
            "they overlap",
            offset=start,
        )
    starts = heads + 4
    ends = starts + lengths
    if int(ends.max()) > len(buffer):
        raise InvalidFile("a string runs past the end of the buffer", offset=int(ends.max()))
    return ByteStrings(bytes(buffer), starts.astype(np.int32), ends.astype(np.int32))


def flexbuffer_strings(buffer: bytes) -> list[bytes]:
    """The strings and blobs in the vector that a FlexBuffer is about.

    Raises :class:`InvalidFile` for another buffer.
    """
    if len(buffer) < 3 or buffer[-1] not in FLEX_WIDTHS or buffer[-2] >> 2 != FLEX_VECTOR:
        end = f"a FlexBuffer that ends {buffer[-3:].hex(' ')}" if buffer else "an empty FlexBuffer"
        raise InvalidFile(f"{end}, wanted a vector")
    root, width = len(buffer) - 2 - buffer[-1], 1 << (buffer[-2] & 3)
    vector = root - _read_unsigned(buffer, root, buffer[-1])
    count = _read_unsigned(buffer, vector - width, width)
    if count > MAX_FLEX_VALUES:
        raise InvalidFile(f"{count:,} values, wanted at most {MAX_FLEX_VALUES:,}", offset=vector)
    found = []
    for number in range(count):
        at = vector + number * width
        kind = _read_unsigned(buffer, vector + count * width + number, 1)
        if kind >> 2 in (FLEX_STRING, FLEX_BLOB):
            start, size = at - _read_unsigned(buffer, at, width), 1 << (kind & 3)
            length = _read_unsigned(buffer, start - size, size)
            if start + length > len(buffer):
                raise InvalidFile(f"a string of {length:,} bytes runs past the end", offset=start)
            found.append(buffer[start : start + length])
    return found


def _read_unsigned(buffer: bytes, position: int, width: int) -> int:
    if not 0 <= position <= len(buffer) - width:
        raise InvalidFile(f"a number lies outside {len(buffer):,} bytes", offset=position)
    return int.from_bytes(buffer[position : position + width], "little")
