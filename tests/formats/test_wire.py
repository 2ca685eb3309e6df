"""Protobuf framing and its vectorised runs, against an encoder that shares nothing with them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import saved_model_bytes as b
from vocabtool.errors import InvalidFile
from vocabtool.formats import wire, wire_arrays

TAG = 0x42
# Strings full of bytes that look like the head of the next field.
TRICKY = st.binary(max_size=300) | st.lists(st.sampled_from([0x42, 0, 1, 2, 66, 130])).map(bytes)


def fields_of(strings: list[bytes]) -> bytes:
    return b"".join(b.field(8, string) for string in strings)


@given(st.integers(0, 2**64 - 1))
def test_varint_round_trip(value: int) -> None:
    """A varint reads as what was written, and where it ends."""
    data = b.varint(value)
    assert wire.varint(data, 0, len(data)) == (value, len(data))
    assert wire.varint_of(value) == data


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_round_trip(value: int) -> None:
    """A negative number comes back from its two's complement."""
    data = b.varint(value)
    assert wire.to_signed(wire.varint(data, 0, len(data))[0]) == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 11 + b"\x01"])
def test_varint_cut_off_or_too_long(data: bytes) -> None:
    """A number without an end is refused with its offset."""
    with pytest.raises(InvalidFile, match="cut off or longer than 10 bytes"):
        wire.varint(data, 0, len(data))


def test_fields_of_every_wire_type() -> None:
    """Each field is yielded with its number, type and the span of its payload."""
    data = b.number(1, 300) + b.field(2, b"ab") + b"\x1d\0\0\0\0" + b"\x21" + bytes(8)
    assert list(wire.fields(data, 0, len(data))) == [
        (1, wire.VARINT, 1, 3),
        (2, wire.LEN, 5, 7),
        (3, wire.FIXED32, 8, 12),
        (4, wire.FIXED64, 13, 21),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a\x05abc", "field 1 runs 2 bytes past the end"),
        (b"\x0d\0\0", "field 1 runs 2 bytes past the end"),
        (b"\x09\0\0", "field 1 runs 6 bytes past the end"),
        (b"\x00", "field number 0"),
        (b"\x0b", "wire type 3 is not in use"),
        (b"\x0c", "wire type 4 is not in use"),
        (b"\x0f", "wire type 7 is not in use"),
    ],
)
def test_broken_framing(data: bytes, message: str) -> None:
    """What breaks the framing is refused before it is used."""
    with pytest.raises(InvalidFile, match=message):
        list(wire.fields(data, 0, len(data)))


@given(st.lists(TRICKY, max_size=60), st.binary(max_size=5))
def test_string_fields_round_trip(strings: list[bytes], tail: bytes) -> None:
    """A run of string fields gives every string, and ends where another field begins."""
    data = fields_of(strings)
    foreign = b"" if tail[:1] == bytes([TAG]) else tail
    found, end = wire_arrays.string_fields(data + foreign, 0, len(data + foreign), TAG)
    assert list(found) == strings
    assert end == len(data)


def test_string_fields_across_windows() -> None:
    """A run much longer than the window that is looked at is read as one."""
    rng = random.Random(0)
    strings = [rng.randbytes(rng.choice([0, 5, 66, 130, 20_000])) for _ in range(600)]
    data = fields_of(strings)
    assert len(data) > 3 * wire_arrays.WINDOW
    found, end = wire_arrays.string_fields(data, 0, len(data), TAG)
    assert (list(found), end) == (strings, len(data))


@pytest.mark.parametrize("head", [b"\x42\x05", b"\x42\xff\xff\xff\xff\x7f", b"\x42" + b"\xff" * 9])
def test_string_fields_past_the_end(head: bytes) -> None:
    """A string that claims more than there is is refused, whatever stood before it."""
    data = fields_of([b"fine"] * 3) + head + b"abc"
    with pytest.raises(InvalidFile, match="past the end"):
        wire_arrays.string_fields(data, 0, len(data), TAG)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50), st.binary(max_size=3))
def test_varint_run_round_trip(values: list[int], tail: bytes) -> None:
    """Integers written one behind the other are read back, and where they end."""
    data = b"".join(map(b.varint, values))
    found, end = wire_arrays.varint_run(data + tail, len(values))
    assert found.tolist() == values
    assert end == len(data)


def test_varint_run_cut_off() -> None:
    """Fewer numbers than wanted are refused with how many there are."""
    with pytest.raises(InvalidFile, match="wanted 3 numbers, found 2"):
        wire_arrays.varint_run(b"\x01\x02\x80", 3)
    with pytest.raises(InvalidFile, match="wanted 9 numbers, but there are only 2 bytes"):
        wire_arrays.varint_run(b"\x01\x02", 9)
    with pytest.raises(InvalidFile, match="longer than 10 bytes"):
        wire_arrays.varint_run(b"\xff" * 11 + b"\x01", 1)


@given(st.lists(TRICKY, max_size=40))
def test_length_list_round_trip(strings: list[bytes]) -> None:
    """Lengths followed by strings are read back."""
    data = b"".join(b.varint(len(s)) for s in strings) + b"".join(strings)
    assert list(wire_arrays.length_list(data, len(strings))) == strings


def test_length_list_must_fill_its_buffer() -> None:
    """Bytes left over, or missing, are refused."""
    with pytest.raises(InvalidFile, match="the strings take 3 bytes, but there are 4"):
        wire_arrays.length_list(b"\x02abc", 1)
    with pytest.raises(InvalidFile, match="a string is longer than the 3 bytes"):
        wire_arrays.length_list(b"\x7fab", 1)


def test_lengths_that_would_overflow() -> None:
    """Lengths whose sum wraps around are refused one by one."""
    huge = b.varint((1 << 64) - 1)
    with pytest.raises(InvalidFile, match="a string is longer than"):
        wire_arrays.length_list(huge + huge + b"ab", 2)


def test_lengths_at_the_end_of_the_array() -> None:
    """A length that the end of the data cuts off reads as one that nothing can hold."""
    array = np.frombuffer(b"\x05\x80", np.uint8)
    values, behind = wire_arrays.lengths_at(array, np.array([0, 1]))
    assert values.tolist() == [5, wire_arrays.TOO_LONG]
    assert behind.tolist()[0] == 1
