"""Protobuf framing: where fields begin and end, over any buffer, without a copy or a schema.

Wire format: protobuf.dev/programming-guides/encoding. Every length is checked against its parent
before use and nothing here recurses, so nesting cannot hurt. What a field means is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Final

from vocabtool.errors import InvalidFile

Buffer = bytes | mmap
Span = tuple[int, int]

VARINT: Final = 0
FIXED64: Final = 1
LEN: Final = 2
FIXED32: Final = 5


def varint(buffer: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the unsigned varint at ``pos`` and the position behind it."""
    value = shift = 0
    while True:
        if pos >= end or shift > 63:
            raise InvalidFile("a number is cut off or longer than 10 bytes", offset=pos)
        byte = buffer[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        shift += 7


def varint_of(value: int) -> bytes:
    """Write a non-negative integer as a varint."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes((*written, value))


def fields(buffer: Buffer, pos: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield ``(field number, wire type, start, end)`` for each field of the message in ``pos:end``.

    ``start:end`` is the payload: the bytes behind the length, the varint itself, or 4 or 8 bytes.
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
            raise InvalidFile(f"wire type {wire_type} is not in use", offset=pos - 1)
        if pos > end:
            raise InvalidFile(
                f"field {number} runs {pos - end:,} bytes past the end of its message", offset=start
            )
        yield number, wire_type, start, pos


def messages(buffer: Buffer, span: Span, wanted: int) -> Iterator[Span]:
    """Yield the payload spans of the length-delimited field ``wanted`` of one message."""
    for number, wire_type, start, end in fields(buffer, *span):
        if number == wanted and wire_type == LEN:
            yield start, end


def last_bytes(buffer: Buffer, span: Span, wanted: int) -> bytes:
    """Return the payload of the last occurrence of a bytes field (as protobuf does), or ``b""``."""
    value = b""
    for start, end in messages(buffer, span, wanted):
        value = buffer[start:end]
    return value


def last_integer(buffer: Buffer, span: Span, wanted: int) -> int:
    """Return the last int32, int64 or bool of the field ``wanted`` of one message, or 0."""
    value = 0
    for number, wire_type, start, end in fields(buffer, *span):
        if number == wanted and wire_type == VARINT:
            value = to_signed(varint(buffer, start, end)[0])
    return value


def to_signed(value: int) -> int:
    """Read an unsigned 64-bit varint as the int64 that was written (two's complement)."""
    return value - (1 << 64) if value >> 63 else value


def integers(buffer: Buffer, span: Span, wire_type: int) -> Iterator[int]:
    """Yield the int32/int64 values of one occurrence of a repeated field, packed or not."""
    pos, end = span
    if wire_type not in (VARINT, LEN):
        raise InvalidFile(f"wire type {wire_type} cannot hold integers", offset=pos)
    while pos < end:
        value, pos = varint(buffer, pos, end)
        yield to_signed(value)
