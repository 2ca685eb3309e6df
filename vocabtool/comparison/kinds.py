"""What kind of entry each is: one of :data:`KINDS`, the first whose definition fits.

===============  ==============================================================================
special          in brackets: ``[CLS]``, ``<s>``, ``<|endoftext|>``, ``<0x0A>``; two letters or
                 more inside ``[]``, one letter or ``/`` at the least inside ``<>``, and no blank
subword piece    goes on with a word, by the vocabulary's marker: it has ``##`` before or ``@@``
                 behind it; or it has letters or digits, and lacks the ``▁``, ``Ġ`` or blank that
                 begins a word or the ``</w>`` that ends one
number           digits or other numbers, and no letters: ``287.9``, ``1,000``, ``½``
punctuation      no letters and no numbers, but punctuation or symbols: ``...``, ``€``, ``😀``
identifier       letters with numbers; camelCase; ``C++``, ``C#``; words joined by any of
                 ``_ / \\ @ ::`` or a dot: ``New_York``, ``os.path``
other script     most of its letters are not Latin, the first's script among equals
capitalised      its first letter is upper case: ``Paris``, ``NASA``
word             any other with letters
other            nothing of these: empty, blanks or control characters, bytes that are not UTF-8
===============  ==============================================================================

All but the first two are told of an entry without its mark. Letters, numbers and symbols are
Unicode's categories L, N, P and S. ``oov/lookalikes.py`` asks something else: what an unknown
word is to one vocabulary.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.comparison.characters import (
    BROKEN,
    FOREIGN,
    JOINER,
    LETTER,
    NUMBER,
    SIGN,
    UPPER,
    Bits,
    characters,
)
from vocabtool.comparison.entries import booleans, byte_strings, contents, take
from vocabtool.comparison.folds import without_marks
from vocabtool.formats.markers import bear_marker
from vocabtool.oov.lookalikes import main_script
from vocabtool.vocabulary import Marker

Kind = Literal[
    "word",
    "capitalised",
    "number",
    "punctuation",
    "identifier",
    "other script",
    "subword piece",
    "special",
    "other",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
CODES: Final = {kind: code for code, kind in enumerate(KINDS)}

WORDED: Final = LETTER | FOREIGN  # letters of any script

_SPECIAL: Final = re.compile(rb"<[^<>\s]*[A-Za-z/][^<>\s]*>|\[[^\[\]\s]*[A-Za-z]{2}[^\[\]\s]*\]")
_CAMEL: Final = "[a-z][A-Z]"
_JOINED: Final = "|".join(
    (
        r"[\pL\pN_][_/\\@][\pL\pN_]",
        r"[\pL\pN_]::[\pL\pN_]",
        r"[\pL\pN_]{2}\.[\pL\pN_]{2}",
        r"[\pL\pN_](\+\+?|#)$",
    )
)
_CAPITAL: Final = r"^\PL*[\p{Lu}\p{Lt}]"

# Marks that say of the entry which bears them that a word goes on.
GOING_ON: Final[frozenset[Marker]] = frozenset(("##", "@@"))


def kinds(
    entries: pa.LargeBinaryArray, marker: Marker | None = None, bits: Bits | None = None
) -> NDArray[np.uint8]:
    """The place in :data:`KINDS` of each entry's kind: shape (n,).

    ``bits``: of the entries, where they were looked at before and there is no ``marker``.
    """
    plain = without_marks(entries, marker)
    if bits is None or marker is not None:
        bits = characters(plain)
    codes = _plain_kinds(plain, bits)
    if marker is not None:
        codes[_pieces(entries, marker, bits)] = CODES["subword piece"]
    codes[_special(entries)] = CODES["special"]
    return codes


def _plain_kinds(plain: pa.LargeBinaryArray, bits: Bits) -> NDArray[np.uint8]:
    """All kinds but the first two; what comes first in the table is put in last."""
    codes = np.full(len(bits), CODES["other"], np.uint8)
    letters, numbers = bits & WORDED != 0, bits & NUMBER != 0
    upper, joined = np.flatnonzero(bits & UPPER), np.flatnonzero(letters & (bits & JOINER != 0))
    foreign = np.flatnonzero(bits & FOREIGN)
    mixed = foreign[bits[foreign] & LETTER != 0]
    latin = [i for i in mixed.tolist() if main_script(plain[i].as_py().decode()) == "LATIN"]
    codes[letters] = CODES["word"]
    codes[upper[_starts_upper(plain, upper)]] = CODES["capitalised"]
    codes[np.setdiff1d(foreign, latin, assume_unique=True)] = CODES["other script"]
    codes[letters & numbers] = CODES["identifier"]
    codes[joined[_matches(plain, joined, _JOINED)]] = CODES["identifier"]
    codes[upper[_matches(plain, upper, _CAMEL)]] = CODES["identifier"]
    codes[~letters & (bits & SIGN != 0)] = CODES["punctuation"]
    codes[~letters & numbers] = CODES["number"]
    return codes


def _starts_upper(plain: pa.LargeBinaryArray, upper: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Of entries with a capital letter: whether it is the first letter."""
    data, bounds = contents(plain)
    first = data[bounds[upper]]
    capital = (first >= ord("A")) & (first <= ord("Z"))  # the first byte of most tells
    unclear = ~capital & ~((first >= ord("a")) & (first <= ord("z")))
    capital[unclear] = _matches(plain, upper[unclear], _CAPITAL)
    return capital


def _matches(plain: pa.LargeBinaryArray, at: NDArray[np.intp], pattern: str) -> NDArray[np.bool_]:
    """Whether an RE2 pattern is found in each entry at these places; all of them are UTF-8."""
    some = take(plain, at).view(pa.large_string())
    return booleans(pc.match_substring_regex(some, pattern=pattern))


def _pieces(entries: pa.LargeBinaryArray, marker: Marker, bits: Bits) -> NDArray[np.bool_]:
    bearing = bear_marker(byte_strings(entries), marker)
    pieces: NDArray[np.bool_] = ~bearing & (bits & (WORDED | NUMBER | BROKEN) != 0)
    if marker in GOING_ON:
        pieces = bearing & (bits != 0)
    return pieces


def _special(entries: pa.LargeBinaryArray) -> list[int]:
    data, bounds = contents(entries)
    long = np.flatnonzero(np.diff(bounds) > 2)
    first, last = data[bounds[long]], data[bounds[long + 1] - 1]
    angle = (first == ord("<")) & (last == ord(">"))
    square = (first == ord("[")) & (last == ord("]"))
    bracketed = long[angle | square].tolist()
    return [i for i in bracketed if _SPECIAL.fullmatch(entries[i].as_py())]
