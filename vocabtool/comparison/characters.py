"""What characters entries are made of: a set of bits for each, a million entries in 0.1 s.

What kind of entry that makes is in ``kinds.py``, what folding makes of it in ``folds.py``. A
character is looked up in Unicode's tables once, whatever the number of entries that hold it.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.comparison.entries import contents
from vocabtool.vocabulary import is_utf8

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
CHUNK: Final = 1 << 14  # entries worked on at a time
CONTINUATION: Final = 0x80  # of a character's bytes in UTF-8, all but the first are 10xxxxxx

Bits = NDArray[np.uint16]


def characters(entries: pa.LargeBinaryArray) -> Bits:
    """The bits of each entry: uint16, shape (n,); 0 for one that is empty."""
    data, bounds = contents(entries)
    bits = np.zeros(len(entries), np.uint16)
    for at in range(0, len(entries), CHUNK):
        part = bounds[at : at + CHUNK + 1]
        bits[at : at + CHUNK] = _chunk_bits(data[part[0] : part[-1]], part - part[0])
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
