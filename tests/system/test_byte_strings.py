"""Packed byte strings compared with what they stand for: a list of ``bytes``."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vocabtool import ByteStrings

# Few letters and lengths, so that entries repeat; some of 64 bytes, the limit between two ways.
ENTRY = st.one_of(
    st.binary(max_size=5),
    st.text("aé", max_size=3).map(str.encode),
    st.sampled_from(
        (b"", b"\n", b"\0", b"a", b"a\0", b"\0a", b"\xff", b"x" * 63, b"x" * 64, b"x" * 64 + b"\0")
    ),
)
ENTRIES = st.lists(ENTRY, max_size=20)
Case = tuple[list[bytes], ByteStrings]


def scattered(entries: list[bytes], order: list[int], gap: bytes) -> ByteStrings:
    """The entries lie in ``order``, each behind a gap: as in a model's file."""
    data = bytearray()
    starts, ends = np.zeros((2, len(entries)), np.int32)
    for index in order:
        data += gap
        starts[index] = len(data)
        data += entries[index]
        ends[index] = len(data)
    return ByteStrings(bytes(data + gap), starts, ends)


@st.composite
def layouts(draw: st.DrawFn) -> Case:
    """Entries as a list and packed in some way."""
    entries = draw(ENTRIES)
    in_order = list(range(len(entries)))
    order = draw(st.one_of(st.just(in_order), st.permutations(in_order)))
    gap = draw(st.sampled_from((b"", b"\0", b"\n\xff", b"abc")))
    packed = scattered(entries, order, gap)
    return entries, draw(st.sampled_from((packed, ByteStrings.of(entries))))


LAYOUTS = layouts()


def utf8(entry: bytes) -> bool:
    return entry.decode(errors="ignore").encode() == entry


@given(LAYOUTS)
def test_is_a_sequence_of_its_entries(case: Case) -> None:
    """By index, hash and equality, wherever entries lie; ``not_utf8`` is where decoding fails."""
    entries, packed = case
    assert len(packed) == len(entries)
    assert list(packed) == entries
    assert [packed[at] for at in range(-len(entries), len(entries))] == entries * 2
    assert packed.lengths.tolist() == [len(entry) for entry in entries]
    assert packed.sha256 == hashlib.sha256(b"\n".join(entries)).hexdigest()
    assert packed.not_utf8.tolist() == [at for at, entry in enumerate(entries) if not utf8(entry)]
    assert packed.distinct == len(set(entries))  # also where they differ by a NUL at their end
    assert packed == ByteStrings.of(iter(entries))
    assert hash(packed) == hash(ByteStrings.of(entries))
    with pytest.raises(IndexError):
        packed[len(entries)]


@given(LAYOUTS, ENTRY, st.data())
def test_parts_of_them(case: Case, wanted: bytes, data: st.DataObject) -> None:
    """Equal ones of any length; in any order, any number of times; pieces with terminators."""
    entries, packed = case
    for end in (b"\n", b"\0", b""):
        assert b"".join(packed.pieces(end)) == b"".join(entry + end for entry in entries)
    assert packed.equal_to(wanted).tolist() == [entry == wanted for entry in entries]
    positions = st.integers(0, max(len(entries) - 1, 0))
    indices = data.draw(st.lists(positions, max_size=30 if entries else 0))
    taken = packed.take(np.array(indices, np.int64))
    assert list(taken) == [entries[at] for at in indices]


@given(ENTRIES, ENTRIES)
@example([b"a\nb"], [b"a", b"b"])
@example([b"a\n", b""], [b"a", b"\n"])
def test_equality_is_that_of_lists(left: list[bytes], right: list[bytes]) -> None:
    """Packed entries are equal exactly if the lists are, also where they look alike joined."""
    assert (ByteStrings.of(left) == ByteStrings.of(right)) == (left == right)


def test_entries_may_overlap() -> None:
    """Entries may share bytes; nothing is lost where chunks and pieces end."""
    packed = ByteStrings(b"abc", np.array([0, 1, 0]), np.array([2, 3, 3]))
    assert (b"".join(packed.pieces(b"\n")), packed.distinct) == (b"ab\nbc\nabc\n", 3)
    entries = [b"%d" % at for at in range(70_000)]
    entries[32_768] = b"x" * (1 << 20)
    entries[40_000] = b"\xff"
    many = ByteStrings.of(entries)
    assert b"".join(many.pieces(b"\n")) == b"\n".join([*entries, b""])
    assert many.not_utf8.tolist() == [40_000]
    assert list(many) == entries
    assert many.sha256 == hashlib.sha256(b"\n".join(entries)).hexdigest()
