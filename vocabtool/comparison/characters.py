"""What characters entries are made of: a set of bits for each, a million entries in 0.1 s.

What kind of entry that makes is in ``kinds.py``, what folding makes of it in ``folding.py``. A
character is looked up in Unicode's tables once, whatever the number of entries that hold it.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.comparison.entries import buffers
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

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
# Blocks of letters whose bits are the same: ideographs, and syllables of Hangul.
ALIKE: Final = (range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0xAC00, 0xD7A4))
CHUNK: Final = 1 << 14  # entries worked on at a time
CONTINUATION: Final = 0x80  # of a character's bytes in UTF-8, all but the first are 10xxxxxx

Bits = NDArray[np.uint16]


def characters(entries: pa.LargeBinaryArray) -> Bits:
    """The bits of each entry: uint16, shape (n,); 0 for one that is empty."""
    data, bounds = buffers(entries)
    found = np.zeros(len(entries), np.uint16)
    for at in range(0, len(entries), CHUNK):
        part = bounds[at : at + CHUNK + 1]
        found[at : at + CHUNK] = _of_chunk(data[part[0] : part[-1]], part - part[0])
    return found


def _of_chunk(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> Bits:
    filled = np.flatnonzero(bounds[1:] > bounds[:-1])
    found = np.zeros(len(bounds) - 1, np.uint16)
    if not len(filled):
        return found
    starts = bounds[filled]
    wide = bool((data >= CONTINUATION).any())
    broken = _broken(data, bounds) if wide else []
    if broken:
        data = data.copy()
        for i in broken:
            data[bounds[i] : bounds[i + 1]] = 0
    bits = _of_text(data) if wide else _table()[data]
    found[filled] = np.bitwise_or.reduceat(bits, starts) & ~np.uint16(SEEN)
    found[broken] = BROKEN
    return found


def _broken(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> list[int]:
    """The entries that are not UTF-8. All are where the whole is, and none begins in the middle
    of a character."""
    firsts = data[bounds[:-1][bounds[:-1] < bounds[-1]]]
    if not bool((firsts & 0xC0 == CONTINUATION).any()) and is_utf8(data.tobytes()):
        return []
    whole = data.tobytes()
    places = bounds.tolist()
    return [i for i in range(len(places) - 1) if not is_utf8(whole[places[i] : places[i + 1]])]


def _of_text(data: NDArray[np.uint8]) -> Bits:
    """Of each byte: the bits of the character that begins there, 0 inside a character."""
    points = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), "<u4")
    bits = np.zeros(len(data), np.uint16)
    bits[data & 0xC0 != CONTINUATION] = _looked_up(points)
    return bits


def _looked_up(points: NDArray[np.uint32]) -> Bits:
    table = _table()
    bits = table[points]
    new = points[bits & SEEN == 0]
    if len(new):
        for point in np.unique(new).tolist():
            table[point] = _bits(chr(point))
        bits = table[points]
    return bits


@cache
def _table() -> Bits:
    """The bits of characters by code point, as far as they were met; some at once."""
    table = np.zeros(0x110000, np.uint16)
    table[:128] = [_bits(chr(point)) for point in range(128)]
    for block in ALIKE:
        table[block.start : block.stop] = _bits(chr(block.start))
    return table


def _bits(character: str) -> int:
    category = unicodedata.category(character)
    bits = SEEN if character.isascii() else SEEN | WIDE
    match category[0]:
        case "L":
            bits |= _of_letter(character, upper=category in ("Lu", "Lt"))
        case "N":
            bits |= NUMBER
        case "P" | "S":
            bits |= SIGN | JOINER * (character in JOINERS)
    folded = character.casefold()
    if folded != character:
        bits |= CASED
    composes = category[0] == "M" or ord(character) in JAMO
    if composes or not all(unicodedata.is_normalized("NFKC", c) for c in (character, folded)):
        bits |= COMPOSED
    return bits


def _of_letter(character: str, *, upper: bool) -> int:
    plain = unicodedata.normalize("NFKC", character)[:1]
    if not unicodedata.name(plain, "").startswith("LATIN"):
        return FOREIGN | UPPER * upper
    return LETTER | UPPER * upper
