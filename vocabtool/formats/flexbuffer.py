"""FlexBuffers: the strings of the vector that a buffer is about.

Layout: google/flatbuffers, docs/source/flexbuffers.md. A buffer ends with its root, the root's
type and the root's width in bytes. A vector has its size before it and a type for each value
behind it; a value that is not a number is the unsigned distance back to it.
"""

from __future__ import annotations

from typing import Final

from vocabtool.errors import InvalidFile

STRING: Final = 5  # types, in the upper six bits; the lower two are log2 of a width
VECTOR: Final = 10
BLOB: Final = 25
WIDTHS: Final = (1, 2, 4, 8)
MAX_VALUES: Final = 1_000


def strings(buffer: bytes) -> list[bytes]:
    """The strings and blobs among the values. Raises :class:`InvalidFile` for another buffer."""
    if len(buffer) < 3 or buffer[-1] not in WIDTHS or buffer[-2] >> 2 != VECTOR:
        end = f"a FlexBuffer that ends {buffer[-3:].hex(' ')}" if buffer else "an empty FlexBuffer"
        raise InvalidFile(f"{end}, wanted a vector")
    root, width = len(buffer) - 2 - buffer[-1], 1 << (buffer[-2] & 3)
    vector = root - _number(buffer, root, buffer[-1])
    count = _number(buffer, vector - width, width)
    if count > MAX_VALUES:
        raise InvalidFile(f"{count:,} values, wanted at most {MAX_VALUES:,}", offset=vector)
    found = []
    for number in range(count):
        at = vector + number * width
        kind = _number(buffer, vector + count * width + number, 1)
        if kind >> 2 in (STRING, BLOB):
            start, size = at - _number(buffer, at, width), 1 << (kind & 3)
            length = _number(buffer, start - size, size)
            if start + length > len(buffer):
                raise InvalidFile(f"a string of {length:,} bytes runs past the end", offset=start)
            found.append(buffer[start : start + length])
    return found


def _number(buffer: bytes, position: int, width: int) -> int:
    """Read one number. The only place where a position is used, so the only check of one."""
    if not 0 <= position <= len(buffer) - width:
        raise InvalidFile(f"a number lies outside {len(buffer):,} bytes", offset=position)
    return int.from_bytes(buffer[position : position + width], "little")
