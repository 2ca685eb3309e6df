"""FlatBuffers, written here byte by byte: what a table says, and the lies that are refused."""

from __future__ import annotations

import pytest

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire

# A table with all that a field can be. Field 3 is absent, and so is every field from 8 on.
BUFFER = b"".join(
    (
        b"\x18\x00\x00\x00",  # 0: the root table lies at 24
        b"\x14\x00\x20\x00",  # 4: the vtable: 20 bytes; its table has 32
        b"\x04\x00\x08\x00\x09\x00\x00\x00",  # 8: fields 0 to 3
        b"\x0c\x00\x10\x00\x14\x00\x18\x00",  # 16: fields 4 to 7
        b"\x14\x00\x00\x00",  # 24: the table: its vtable lies 20 bytes before
        b"\xfe\xff\xff\xff",  # 28: field 0, int: -2
        b"\x01\x07\x00\x00",  # 32: field 1, bool: true; 33: field 2, ubyte: 7
        b"\xff\xff\xff\xff",  # 36: field 4, uint: 2^32 - 1
        b"\x0c\x00\x00\x00",  # 40: field 5, string: 12 on, at 52
        b"\x14\x00\x00\x00",  # 44: field 6, vector of uint16: 20 on, at 64
        b"\x18\x00\x00\x00",  # 48: field 7, vector of strings: 24 on, at 72
        b"\x06\x00\x00\x00na\xc3\xafve\x00\x00",  # 52: a string of 6 bytes
        b"\x02\x00\x00\x00\x34\x12\xff\x00",  # 64: the numbers 0x1234 and 0x00FF
        b"\x03\x00\x00\x00",  # 72: three strings
        b"\x0c\x00\x00\x00\x10\x00\x00\x00\x14\x00\x00\x00",  # 76: at 88, 96, 104
        b"\x02\x00\x00\x00no\x00\x00",  # 88
        b"\x00\x00\x00\x00\x00\x00\x00\x00",  # 96: an empty string
        b"\x01\x00\x00\x00\n\x00\x00\x00",  # 104
    )
)


def patched(position: int, replacement: bytes) -> bytes:
    """The buffer with a few bytes replaced."""
    return BUFFER[:position] + replacement + BUFFER[position + len(replacement) :]


def read_all(buffer: bytes) -> tuple[object, ...]:
    """Every field of the table above."""
    table = wire.flatbuffer_root(buffer)
    return (
        table.integer(0),
        table.byte(1),
        table.byte(2),
        table.integer(3, default=42),
        table.uint(4),
        table.string(5),
        table.vector(6, "<u2").tolist(),
        list(table.strings(7)),
    )


def test_fields() -> None:
    """Numbers, flags, strings and vectors are read where the vtable says they are."""
    assert read_all(BUFFER) == (
        *(-2, 1, 7, 42, 2**32 - 1),
        "naïve".encode(),
        [0x1234, 0x00FF],
        [b"no", b"", b"\n"],
    )


@pytest.mark.parametrize(
    ("position", "data", "message"),
    [
        (0, b"\x80\x00\x00\x00", r"a number lies outside the buffer of 112 bytes \(at byte 128\)"),
        (24, b"\x19\x00\x00\x00", r"a number lies outside the buffer of 112 bytes \(at byte -1\)"),
        (4, b"\x02\x00", r"a vtable of 2 bytes, wanted 4 to 108 \(at byte 4\)"),
        (4, b"\x6d\x00", r"a vtable of 109 bytes, wanted 4 to 108 \(at byte 4\)"),
        (8, b"\x55\x00", r"a number lies outside the buffer of 112 bytes \(at byte 109\)"),
        (52, b"\x39\x00\x00\x00", r"a vector needs 57 bytes, but only 56 are left \(at byte 52\)"),
        (
            64,
            b"\x16\x00\x00\x80",
            r"a vector needs 4,294,967,340 bytes, but only 44 are left \(at byte",
        ),
        (72, b"\x0a\x00\x00\x00", r"a vector needs 40 bytes, but only 36 are left \(at byte 72\)"),
        (84, b"\x19\x00\x00\x00", r"a string lies outside the buffer \(at byte 109\)"),
        (104, b"\x05\x00\x00\x00", r"a string runs past the end of the buffer \(at byte 113\)"),
        (
            96,
            b"\x53\x00\x00\x00",
            r"the strings overlap: 3 strings need 113 bytes, but the buffer has 112",
        ),
    ],
)
def test_malformed(position: int, data: bytes, message: str) -> None:
    """Each distance and length is checked before it is followed, and the error says which."""
    with pytest.raises(InvalidFile, match=f"^{message}"):
        read_all(patched(position, data))
