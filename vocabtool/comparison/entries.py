"""Entries as Arrow arrays of type ``large_binary``, and which of them two vocabularies hold.

The conversions here do without ``pa.array`` and ``to_numpy``, which load pandas where that is
installed: a third of a second.

What characters entries are made of: a set of bits for each, a million entries in 0.1 s.

What kind of entry that makes is in ``kinds.py``, what folding makes of it in ``folds.py``. A
character is looked up in Unicode's tables once, whatever the number of entries that hold it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import is_utf8

LONG: Final = 255  # bytes: entries of so many or more are few, and are looked at together


def arrow(*parts: ByteStrings) -> pa.LargeBinaryArray:
    """Byte strings as one array, the parts one behind the other."""
    lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
    offsets = np.cumsum(lengths, out=lengths)
    data = b"".join(piece for part in parts for piece in _contents(part))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _contents(entries: ByteStrings) -> Iterator[bytes]:
    """The bytes of all entries; quickly for lines, each one byte behind the one before."""
    starts, ends = entries.starts, entries.ends
    if not len(entries) or not np.array_equal(starts[1:], ends[:-1] + 1):
        yield from entries.pieces(b"")
        return
    data = np.frombuffer(entries.data, np.uint8)
    for at in range(0, len(entries), CHUNK):
        stops = ends[at : at + CHUNK]
        first, last = int(starts[at]), int(stops[-1])
        kept = np.ones(last - first, np.bool_)
        kept[stops[:-1] - first] = False
        yield data[first:last].compress(kept).tobytes()


def byte_strings(entries: pa.LargeBinaryArray) -> ByteStrings:
    """An array as byte strings."""
    data, bounds = contents(entries)
    return ByteStrings(data.tobytes(), bounds[:-1], bounds[1:])


def contents(entries: pa.LargeBinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all entries, and where each begins and the last ends, shape (n + 1,)."""
    _, offsets, data = entries.buffers()
    bounds = np.zeros(1, np.int64)
    if offsets is not None and len(entries):
        bounds = np.frombuffer(offsets, np.int64)[entries.offset :][: len(entries) + 1]
    return np.frombuffer(data if data is not None else b"", np.uint8), bounds


def take(entries: pa.Array, places: NDArray[np.integer[Any]]) -> pa.Array:
    """The entries at ``places``."""
    buffer = pa.py_buffer(places.astype(np.int64, copy=False))
    return entries.take(pa.Int64Array.from_buffers(pa.int64(), len(places), [None, buffer]))


def replace(
    entries: pa.LargeBinaryArray, places: NDArray[np.intp], others: pa.LargeBinaryArray
) -> pa.LargeBinaryArray:
    """The entries, with ``others`` in place of those at ``places``."""
    if not len(places):
        return entries
    order = np.arange(len(entries))
    order[places] = np.arange(len(entries), len(entries) + len(places))
    return take(pa.concat_arrays([entries, others]), order)


def integers(numbers: pa.Int32Array) -> NDArray[np.integer[Any]]:
    """An array of ``int32`` without nulls."""
    values = np.frombuffer(numbers.buffers()[1] or b"", np.int32)
    return values[numbers.offset : numbers.offset + len(numbers)]


def booleans(truths: pa.BooleanArray) -> NDArray[np.bool_]:
    """An array of booleans without nulls."""
    values = np.frombuffer(truths.cast(pa.uint8()).buffers()[1] or b"", np.bool_)
    return values[: len(truths)]


def membership(numbers: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """True at each of ``numbers``: shape (count,)."""
    marks = np.zeros(count, np.bool_)
    marks[numbers] = True
    return marks


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The entries of a :class:`Union` that one vocabulary holds, in id order.

    ``numbers``: int64, shape (d,), where each of its d different entries stands in ``tokens``.
    ``positions``: int64, shape (d,), where it stands first in the vocabulary.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Union:
    """The different entries of A and B: what a comparison counts on.

    ``tokens``: large_binary, length u: A's in id order, then those that only B holds, in its
    order. ``a``, ``b``: which of them each holds, and where.
    """

    tokens: pa.LargeBinaryArray
    a: Members
    b: Members

    @classmethod
    def of(cls, entries: pa.LargeBinaryArray, size_a: int) -> Union:
        """A's entries and B's one behind the other; ``size_a``: how many are A's.

        Entries that repeat an earlier one of the same side are left out.
        """
        first = _first_places(entries)
        new = first == np.arange(len(entries))
        numbers = (np.cumsum(new) - 1)[first]
        tokens = take(entries, np.flatnonzero(new))
        a, b = (_members(side, len(tokens)) for side in (numbers[:size_a], numbers[size_a:]))
        return cls(tokens, a, b)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def in_a(self) -> NDArray[np.bool_]:
        """Whether A holds each token: shape (u,)."""
        return membership(self.a.numbers, len(self))

    @cached_property
    def in_b(self) -> NDArray[np.bool_]:
        """Whether B holds each token: shape (u,)."""
        return membership(self.b.numbers, len(self))


def _first_places(entries: pa.LargeBinaryArray) -> NDArray[np.int64]:
    """Where each entry stands first: shape (n,).

    Entries of one length are compared with each other only: small tables stay in the cache.
    """
    lengths = np.minimum(np.diff(contents(entries)[1]), LONG).astype(np.uint8)
    order = np.argsort(lengths, kind="stable")
    by_length = take(entries, order)
    first = np.empty(len(entries), np.int64)
    start = 0
    for count in np.bincount(lengths).tolist():
        places = order[start : start + count]
        encoded = by_length.slice(start, count).dictionary_encode()
        numbers = integers(encoded.indices)
        first[places] = places[_first_of_each(numbers, len(encoded.dictionary))[numbers]]
        start += count
    return first


def _members(numbers: NDArray[np.int64], count: int) -> Members:
    """From the number of each entry, repeated ones too."""
    positions = np.flatnonzero(_first_of_each(numbers, count)[numbers] == np.arange(len(numbers)))
    return Members(numbers[positions], positions)


def _first_of_each(numbers: NDArray[np.integer[Any]], count: int) -> NDArray[np.int64]:
    """Where each number stands first: shape (count,); undefined for one that does not occur."""
    first = np.empty(count, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of equal ones the earliest stays
    return first


# What an entry holds.
LETTER: Final = 1 << 0  # a letter of the Latin script
FOREIGN: Final = 1 << 1  # a letter of another script
UPPER: Final = 1 << 2  # beside these: it is upper case or title case
NUMBER: Final = 1 << 3  # a digit or any other number: 7, ½, Ⅷ
SIGN: Final = 1 << 4  # punctuation or a symbol
JOINER: Final = 1 << 5  # beside SIGN: one that may join the parts of an identifier
CASED: Final = 1 << 6  # changes when case is folded
COMPOSED: Final = 1 << 7  # may change in NFKC, with or without its neighbours or its case
WIDE: Final = 1 << 8  # is not ASCII
BROKEN: Final = 1 << 9  # the entry is not UTF-8, and nothing else is said of it
SEEN: Final = 1 << 15  # in the table below: the character was looked up

JOINERS: Final = frozenset("_/\\@:.+#")
JAMO: Final = range(0x1100, 0x1200)  # letters that NFKC composes to syllables
CHUNK_ENTRIES: Final = 1 << 14  # entries worked on at a time
CONTINUATION: Final = 0x80  # of a character's bytes in UTF-8, all but the first are 10xxxxxx

Bits = NDArray[np.uint16]


def characters(entries: pa.LargeBinaryArray) -> Bits:
    """The bits of each entry: uint16, shape (n,); 0 for one that is empty."""
    data, bounds = contents(entries)
    bits = np.zeros(len(entries), np.uint16)
    for at in range(0, len(entries), CHUNK_ENTRIES):
        part = bounds[at : at + CHUNK_ENTRIES + 1]
        bits[at : at + CHUNK_ENTRIES] = _chunk_bits(data[part[0] : part[-1]], part - part[0])
    return bits


def _chunk_bits(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> Bits:
    entry_bits = np.zeros(len(bounds) - 1, np.uint16)
    filled = np.flatnonzero(bounds[1:] > bounds[:-1])
    if not len(filled):
        return entry_bits
    wide = bool((data >= CONTINUATION).any())
    broken = _not_utf8(data, bounds) if wide else []
    if broken:
        data = data.copy()
        for i in broken:
            data[bounds[i] : bounds[i + 1]] = 0
    bits = _character_bits(data) if wide else _table()[data]
    entry_bits[filled] = np.bitwise_or.reduceat(bits, bounds[filled]) & ~np.uint16(SEEN)
    entry_bits[broken] = BROKEN
    return entry_bits


def _not_utf8(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> list[int]:
    """The entries that are not UTF-8: none where the whole is UTF-8, and no entry begins in the
    middle of a character."""
    whole = data.tobytes()
    firsts = data[bounds[:-1][bounds[:-1] < bounds[-1]]]
    if not bool((firsts & 0xC0 == CONTINUATION).any()) and is_utf8(whole):
        return []
    places = bounds.tolist()
    return [i for i in range(len(places) - 1) if not is_utf8(whole[places[i] : places[i + 1]])]


def _character_bits(data: NDArray[np.uint8]) -> Bits:
    """Of each byte: the bits of the character that begins there, 0 inside a character."""
    points = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), "<u4")
    table = _table()
    for point in np.unique(points[table[points] & SEEN == 0]).tolist():
        table[point] = _look_up(chr(point))
    bits = np.zeros(len(data), np.uint16)
    bits[data & 0xC0 != CONTINUATION] = table[points]
    return bits


@cache
def _table() -> Bits:
    """The bits of characters by code point: ASCII, and those that were met."""
    table = np.zeros(0x110000, np.uint16)
    table[:128] = [_look_up(chr(point)) for point in range(128)]
    return table


def _look_up(character: str) -> int:
    category = unicodedata.category(character)
    bits = SEEN if character.isascii() else SEEN | WIDE
    match category[0]:
        case "L":
            plain = unicodedata.normalize("NFKC", character)[:1]
            bits |= LETTER if unicodedata.name(plain, "").startswith("LATIN") else FOREIGN
            bits |= UPPER * (category in ("Lu", "Lt"))
        case "N":
            bits |= NUMBER
        case "P" | "S":
            bits |= SIGN | JOINER * (character in JOINERS)
    case_folded = character.casefold()
    bits |= CASED * (case_folded != character)
    composes = category[0] == "M" or ord(character) in JAMO
    if composes or not all(unicodedata.is_normalized("NFKC", c) for c in (character, case_folded)):
        bits |= COMPOSED
    return bits
