"""Protobuf framing: where fields begin and end, over any buffer, without a copy or a schema.

Wire format: protobuf.dev/programming-guides/encoding. Every length is checked against its parent
before use and nothing here recurses, so nesting cannot hurt. What a field means is the caller's.

Runs of protobuf fields and varints read by NumPy, where one object per entry would be too many.

``wire.py`` reads one field at a time; here 400,000 of them are found in a few milliseconds.
What the strings and numbers mean is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import ByteStrings, Offsets

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


WINDOW: Final = 1 << 16  # bytes looked at together: larger arrays cost fresh pages each
MAX_LENGTH_BYTES: Final = 5  # a varint of more bytes is a length of 2^35, more than any file has
MAX_INTEGER_BYTES: Final = 10  # 64 bits, 7 in a byte
TOO_LONG: Final = 1 << 40

Bytes = NDArray[np.uint8]
Lengths = NDArray[np.integer[Any]]


def string_fields(data: bytes, pos: int, end: int, tag: int) -> tuple[ByteStrings, int]:
    """Read the run of length-delimited fields ``tag`` that begins at ``pos``.

    Returns the payloads and the position behind the last: ``end``, or where another tag stands.
    Raises :class:`InvalidFile` when a payload runs past ``end``.
    """
    array = np.frombuffer(data, np.uint8)[:end]
    dtype = np.dtype(np.int32 if len(data) < 1 << 31 else np.int64)
    all_starts, all_ends = [np.zeros(0, dtype)], [np.zeros(0, dtype)]
    while pos < end and data[pos] == tag:
        starts, ends = _window(array, pos, min(pos + WINDOW, end), tag)
        pos = int(ends[-1])
        if pos > end:
            raise InvalidFile(
                f"the last string runs {pos - end:,} bytes past the end", offset=int(starts[-1])
            )
        all_starts.append(starts.astype(dtype))
        all_ends.append(ends.astype(dtype))
    return ByteStrings(data, np.concatenate(all_starts), np.concatenate(all_ends)), pos


def _window(array: Bytes, pos: int, stop: int, tag: int) -> tuple[Offsets, Offsets]:
    """The payloads of the fields whose tag lies in ``pos:stop``; ``pos`` holds the first tag.

    Every byte equal to ``tag`` may be a field's head, or may stand inside a string. A true head
    is where the true one before it ends, so only where a head does not end at the next one is
    there anything to decide: all up to its end lie inside its string.
    """
    heads = np.flatnonzero(array[pos:stop] == tag) + pos
    lengths, starts = lengths_at(array, heads + 1)
    ends = starts + lengths
    doubtful = np.flatnonzero(ends[:-1] != heads[1:])
    if not len(doubtful):
        return starts, ends
    targets = ends[doubtful]
    following = np.searchsorted(heads, targets)
    found = heads.take(following, mode="clip") == targets
    true = np.ones(len(heads), np.bool_)
    reached = 0
    for head, after, is_head in zip(
        doubtful.tolist(), following.tolist(), found.tolist(), strict=True
    ):
        if head >= reached:
            true[head + 1 : after] = False
            reached = after
            if not is_head:  # the run ends here, or goes on in the next window
                true[after:] = False
                break
    kept = np.flatnonzero(true)
    return starts.take(kept), ends.take(kept)


def lengths_at(array: Bytes, positions: Offsets) -> tuple[Lengths, Offsets]:
    """Read a length at each ascending position: the values, and the positions behind them.

    One of more than 5 bytes, or cut off by the end of the array, reads as a huge value, which
    no caller's check lets pass.
    """
    byte = array.take(positions, mode="clip")
    behind = positions + 1
    if not len(byte) or (byte.max() < 128 and behind[-1] <= len(array)):
        return byte, behind
    values = byte.astype(np.int64)
    more = np.flatnonzero(byte > 127)
    values[more] &= 127
    for k in range(1, MAX_LENGTH_BYTES):
        byte = array.take(positions[more] + k, mode="clip")
        values[more] |= (byte & np.uint8(127)).astype(np.int64) << (7 * k)
        behind[more] += 1
        more = more[byte > 127]
    values[more] = TOO_LONG
    values[behind > len(array)] = TOO_LONG
    return values, behind


def varint_run(data: bytes, count: int) -> tuple[NDArray[np.int64], int]:
    """Read ``count`` varints one behind the other from the start of ``data``.

    Returns the values, shape (count,), as the int64 that were written, and the position behind
    the last. Raises :class:`InvalidFile` when there are fewer, or one is longer than 10 bytes.
    """
    if count > len(data):
        raise InvalidFile(f"wanted {count:,} numbers, but there are only {len(data):,} bytes")
    array = np.frombuffer(data, np.uint8)
    values = np.zeros(count, np.int64)
    done = pos = 0
    while done < count:
        lasts = pos + np.flatnonzero(array[pos : pos + WINDOW] < 128)[: count - done]
        if not len(lasts):
            raise InvalidFile(f"wanted {count:,} numbers, found {done:,}", offset=pos)
        starts = np.concatenate(([pos], lasts[:-1] + 1))
        values[done : done + len(lasts)] = _varints_between(array, starts, lasts)
        done += len(lasts)
        pos = int(lasts[-1]) + 1
    return values, pos


def _varints_between(array: Bytes, starts: Offsets, lasts: Offsets) -> NDArray[np.int64]:
    width = int((lasts - starts).max()) + 1
    if width > MAX_INTEGER_BYTES:
        raise InvalidFile("a number is longer than 10 bytes", offset=int(starts[0]))
    values = (array[starts] & np.uint8(127)).astype(np.int64)
    for k in range(1, width):
        longer = np.flatnonzero(lasts - starts >= k)
        values[longer] |= (array[starts[longer] + k] & np.uint8(127)).astype(np.int64) << (7 * k)
    return values


def length_list(data: bytes, count: int) -> ByteStrings:
    """Read ``count`` varint lengths followed by that many byte strings, filling ``data`` exactly.

    TensorFlow's EncodeStringList (tensorflow/core/lib/strings/coding).
    """
    lengths, pos = varint_run(data, count)
    if count and not 0 <= int(lengths.min()) <= int(lengths.max()) <= len(data):
        raise InvalidFile(f"a string is longer than the {len(data):,} bytes that hold it")
    filled = pos + int(lengths.sum())
    if filled != len(data):
        raise InvalidFile(f"the strings take {filled:,} bytes, but there are {len(data):,}")
    short = lengths.astype(np.int32 if len(data) < 1 << 31 else np.int64)
    del lengths
    ends = np.cumsum(short, dtype=short.dtype)
    ends += pos
    return ByteStrings(data, ends - short, ends)
