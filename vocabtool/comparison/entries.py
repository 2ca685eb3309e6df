r"""Entries of two vocabularies as Arrow arrays: shared entries, kinds and folds.

The kind of an entry is the first kind in this table whose definition fits:

===============  ==============================================================================
special          in brackets, without blanks: ``[CLS]``, ``<s>``, ``<|endoftext|>``, ``<0x0A>``.
                 ``[]`` must contain two ASCII letters side by side; ``<>`` must contain an ASCII
                 letter or ``/``
subword piece    has letters or digits, but cannot be a whole word: it has the marker ``##`` or
                 ``@@``, or it lacks the mark of whole words in this vocabulary (``▁``, ``Ġ`` or a
                 blank at the start, or ``</w>`` at the end)
number           digits or other numbers, and no letters: ``287.9``, ``1,000``, ``½``
punctuation      no letters and no numbers, but punctuation or symbols: ``...``, ``€``, ``😀``
identifier       letters with numbers; camelCase; ``C++``, ``C#``; words joined by any of
                 ``_ / \ @ ::`` or a dot: ``New_York``, ``os.path``
other script     most of its letters are not Latin; on ties the first letter decides
capitalised      its first letter is upper case: ``Paris``, ``NASA``
word             any other entry with letters
other            any other entry: empty, blanks or control characters, not UTF-8
===============  ==============================================================================

All definitions but the first two apply to the entry without its piece marker. Letters are Unicode's
category L, numbers N, punctuation P, and symbols S.

A fold removes systematic differences. ``nfkc`` is Unicode's compatibility composition. ``case`` is
Unicode's full case folding. If both are chosen, ``nfkc`` is applied first, and again at the end.
Bytes that are not UTF-8 are kept.
"""

# Conversions avoid ``pa.array`` and ``to_numpy``, which load pandas (a third of a second).

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import FOLDS, Fold
from vocabtool.oov.kinds import main_script
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Marker, bear_marker, is_utf8, plain_strings

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
WORD: Final = "▁".encode()
# Markers on entries that continue: such an entry is not a whole word.
GOING_ON: Final[frozenset[Marker]] = frozenset(("##", "@@"))

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]


# ---- Arrow and NumPy


def byte_strings(entries: pa.LargeBinaryArray) -> ByteStrings:
    _, offsets, data = entries.buffers()
    bounds = np.zeros(1, np.int64)
    if offsets is not None and len(entries):
        bounds = np.frombuffer(offsets, np.int64)[entries.offset :][: len(entries) + 1]
    return ByteStrings(data.to_pybytes() if data is not None else b"", bounds[:-1], bounds[1:])


def take(entries: pa.Array, places: NDArray[np.integer[Any]]) -> pa.Array:
    buffer = pa.py_buffer(places.astype(np.int64, copy=False))
    return entries.take(pa.Int64Array.from_buffers(pa.int64(), len(places), [None, buffer]))


def _replace(
    entries: pa.LargeBinaryArray, places: Numbers, others: pa.LargeBinaryArray
) -> pa.LargeBinaryArray:
    order = np.arange(len(entries))
    order[places] = np.arange(len(entries), len(entries) + len(places))
    return take(pa.concat_arrays([entries, others]), order) if len(places) else entries


def integers(numbers: pa.Int32Array) -> NDArray[np.integer[Any]]:
    """Return an ``int32`` array without nulls as a NumPy array."""
    values = np.frombuffer(numbers.buffers()[1] or b"", np.int32)
    return values[numbers.offset : numbers.offset + len(numbers)]


def booleans(truths: pa.BooleanArray) -> Truths:
    """Return a boolean array without nulls as a NumPy array."""
    values = np.frombuffer(truths.cast(pa.uint8()).buffers()[1] or b"", np.bool_)
    return values[: len(truths)]


def by_count(words: pa.Table) -> pa.Table:
    """Sort a table of words by descending ``count``; sort equal counts by ``word``."""
    return words.sort_by([("count", "descending"), ("word", "ascending")]).combine_chunks()


# ---- the entries of two vocabularies


class Members(NamedTuple):
    """The entries of a :class:`Union` that one vocabulary contains, in id order.

    ``numbers``: int64, shape (d,), in :attr:`Union.tokens`. ``positions``: int64, shape (d,), the
    first in the vocabulary. ``is_member``: shape (u,), for each token of the union.
    """

    numbers: Numbers
    positions: Numbers
    is_member: Truths


@dataclass(frozen=True, eq=False)
class Union:
    """Distinct entries of A and B. ``tokens``: length u, A's in id order, then those only in B."""

    tokens: pa.LargeBinaryArray
    a: Members
    b: Members

    @classmethod
    def of(cls, a: pa.LargeBinaryArray, b: pa.LargeBinaryArray) -> Union:
        encoded = pa.concat_arrays([a, b]).dictionary_encode()
        numbers = integers(encoded.indices).astype(np.int64)
        sides = []
        for of_side in (numbers[: len(a)], numbers[len(a) :]):
            places = np.arange(len(of_side))
            first = np.empty(len(encoded.dictionary), np.int64)
            first[of_side[::-1]] = places[::-1]  # the first of equal entries wins
            positions = np.flatnonzero(first[of_side] == places)
            is_member = np.zeros(len(encoded.dictionary), np.bool_)
            is_member[of_side] = True
            sides.append(Members(of_side[positions], positions, is_member))
        return cls(encoded.dictionary, *sides)

    def __len__(self) -> int:
        return len(self.tokens)


# ---- kinds of entries

# RE2 patterns. White space is Python's, with the vertical tab.
SPECIAL: Final = r"\A<[^<>\s\v]*[A-Za-z/][^<>\s\v]*>\z|\A\[[^\[\]\s\v]*[A-Za-z]{2}[^\[\]\s\v]*\]\z"
IDENTIFIER: Final = (
    r"[a-z][A-Z]|[\pL\pN_][_/\\@][\pL\pN_]|[\pL\pN_]::[\pL\pN_]|[\pL\pN_]{2}\.[\pL\pN_]{2}"
    r"|[\pL\pN_](?:\+\+?|#)$"
)
CAPITAL: Final = r"^\PL*[\p{Lu}\p{Lt}]"
FOREIGN: Final = r"[^\P{L}\p{Latin}]"  # a letter that is not Latin
LATIN: Final = r"\p{Latin}|[^\P{L}\P{Common}]"  # a Latin letter, or one that NFKC may make Latin


def kinds(tokens: pa.LargeBinaryArray, marker: Marker | None) -> NDArray[np.uint8]:
    """Return the kind of each token as its position in :data:`KINDS`, shape (u,)."""
    plain = plain_texts(tokens, marker)
    broken = np.zeros(len(plain), np.bool_)
    broken[byte_strings(plain).not_utf8] = True
    letters, numbers, signs = (
        matches(plain, pattern) & ~broken for pattern in (r"\pL", r"\pN", r"[\pP\pS]")
    )
    # The entries with letters. If some are Latin and some are not, Python counts them.
    rows = np.flatnonzero(letters)
    lettered = take(plain, rows)
    foreign = np.flatnonzero(matches(lettered, FOREIGN))
    mixed = foreign[matches(take(lettered, foreign), LATIN)]
    latin = [at for at in mixed.tolist() if main_script(lettered[at].as_py().decode()) == "Latin"]

    # In reverse order of the table above, so that the first definition that fits wins.
    codes = np.full(len(tokens), CODES["other"], np.uint8)
    codes[letters] = CODES["word"]
    codes[rows[matches(lettered, CAPITAL)]] = CODES["capitalised"]
    codes[rows[np.setdiff1d(foreign, latin, assume_unique=True)]] = CODES["other script"]
    codes[letters & numbers] = CODES["identifier"]
    codes[rows[matches(lettered, IDENTIFIER)]] = CODES["identifier"]
    codes[~letters & signs] = CODES["punctuation"]
    codes[~letters & numbers] = CODES["number"]
    if marker is not None:
        pieces = ~can_be_words(tokens, marker) & (letters | numbers | broken)
        codes[pieces] = CODES["subword piece"]
    codes[special_places(tokens)] = CODES["special"]
    return codes


def matches(entries: pa.LargeBinaryArray, pattern: str) -> Truths:
    """Return whether each entry contains a match. In entries that are not UTF-8, some may fail."""
    texts = entries.view(pa.large_string())  # as binary, the pattern would match bytes
    return booleans(pc.match_substring_regex(texts, pattern=pattern))


def special_places(entries: pa.LargeBinaryArray) -> Numbers:
    return np.flatnonzero(booleans(pc.match_substring_regex(entries, pattern=SPECIAL)))


# ---- markers and folding


def parse_folds(folds: str | Iterable[str]) -> tuple[Fold, ...]:
    """Return folds in the order of :data:`FOLDS`. Raises ``ValueError`` for an unknown name."""
    names = folds.split(",") if isinstance(folds, str) else folds
    chosen = {name.strip() for name in names} - {""}
    unknown = sorted(chosen.difference(FOLDS))
    if unknown:
        raise ValueError(f"fold: expected names from {', '.join(FOLDS)}, got {unknown[0]!r}")
    return tuple(fold for fold in FOLDS if fold in chosen)


def can_be_words(entries: pa.LargeBinaryArray, marker: Marker | None) -> Truths:
    """Return whether each entry, by its marker, can be a whole word: bool, shape (n,)."""
    if marker is None:
        return np.ones(len(entries), np.bool_)
    has_marker = bear_marker(byte_strings(entries), marker)
    return ~has_marker if marker in GOING_ON else has_marker


def plain_texts(entries: pa.LargeBinaryArray, marker: Marker | None) -> pa.LargeBinaryArray:
    """Return the text that each entry stands for, without its marker."""
    if marker is None:
        return entries
    texts = plain_strings(byte_strings(entries), marker).to_arrow()
    return pc.replace_substring(texts, pattern=WORD, replacement=b" ") if marker == "▁" else texts


def spell(entries: pa.LargeBinaryArray, marker: Marker | None) -> pa.LargeBinaryArray:
    """Return the text of each entry, with ``▁`` before it if the entry can be a whole word.

    So ``the`` of WordPiece, ``▁the`` and ``Ġthe`` all become ``▁the``. ``##ing`` of WordPiece and
    ``ing`` of SentencePiece become ``ing``. Special entries are not changed. A text that begins
    with ``▁`` but cannot be a whole word gets ``##``, so that it differs from a whole word.
    """
    texts = plain_texts(entries, marker)
    # The position of each entry's prefix in the list below.
    prefix = np.where(can_be_words(entries, marker), 2, booleans(pc.starts_with(texts, WORD)))
    prefixes = take(ByteStrings.of([b"", b"##", WORD]).to_arrow(), prefix)
    texts = pc.binary_join_element_wise(prefixes, texts, ByteStrings.of([b""]).to_arrow()[0])
    special = special_places(entries)
    return _replace(texts, special, take(entries, special))


def fold_entries(entries: pa.LargeBinaryArray, folds: Collection[Fold]) -> pa.LargeBinaryArray:
    """Apply the folds ``nfkc`` and ``case`` to each entry, if they are in ``folds``."""
    if not {"case", "nfkc"}.intersection(folds):
        return entries
    texts = entries.view(pa.large_string())
    folded = pc.ascii_lower(texts).view(pa.large_binary()) if "case" in folds else entries
    not_ascii = np.flatnonzero(~booleans(pc.string_is_ascii(texts)))
    others: list[bytes] = take(entries, not_ascii).to_pylist()
    for at, entry in enumerate(others):
        if is_utf8(entry):
            text = entry.decode()
            if "nfkc" in folds:
                text = unicodedata.normalize("NFKC", text)
            if "case" in folds:
                text = text.casefold()
            if "nfkc" in folds:  # casing may decompose
                text = unicodedata.normalize("NFKC", text)
            others[at] = text.encode()
    return _replace(folded, not_ascii, ByteStrings.of(others).to_arrow())
