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

A fold removes systematic differences. ``markers`` spells the pieces of all tokenizers in the same
way, see :func:`spell`. ``nfkc`` is Unicode's compatibility composition. ``case`` is Unicode's full
case folding. Folds are applied in the order ``markers``, ``nfkc``, ``case``. If both
``nfkc`` and ``case`` are chosen, ``nfkc`` is applied again at the end. Bytes that are not UTF-8 are
kept.
"""

# Conversions avoid ``pa.array`` and ``to_numpy``, which load pandas (a third of a second).

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import FOLDS, Fold
from vocabtool.oov.lookalikes import main_script
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Marker, bear_marker, is_utf8, plain_strings

FoldOrAll = Literal["case", "nfkc", "markers", "all"]
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
EXAMPLES: Final = 5  # examples of a fold
WORD: Final = "▁".encode()
# Markers on entries that continue: such an entry is not a whole word.
GOING_ON: Final[frozenset[Marker]] = frozenset(("##", "@@"))

Bits = NDArray[np.uint16]
Numbers = NDArray[np.int64]


# ---- Arrow and NumPy


def arrow(entries: ByteStrings) -> pa.LargeBinaryArray:
    offsets = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(entries.lengths, out=offsets[1:])
    data = b"".join(entries.pieces(b""))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(entries), buffers)


def byte_strings(entries: pa.LargeBinaryArray) -> ByteStrings:
    data, bounds = contents(entries)
    return ByteStrings(data.tobytes(), bounds[:-1], bounds[1:])


def contents(entries: pa.LargeBinaryArray) -> tuple[NDArray[np.uint8], Numbers]:
    """Return the bytes of all n entries, and the n + 1 offsets of the entries in these bytes."""
    _, offsets, data = entries.buffers()
    bounds = np.zeros(1, np.int64)
    if offsets is not None and len(entries):
        bounds = np.frombuffer(offsets, np.int64)[entries.offset :][: len(entries) + 1]
    return np.frombuffer(data if data is not None else b"", np.uint8), bounds


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


def booleans(truths: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return a boolean array without nulls as a NumPy array."""
    values = np.frombuffer(truths.cast(pa.uint8()).buffers()[1] or b"", np.bool_)
    return values[: len(truths)]


def by_count(words: pa.Table) -> pa.Table:
    """Sort a table of words by descending ``count``; sort equal counts by ``word``."""
    return words.sort_by([("count", "descending"), ("word", "ascending")]).combine_chunks()


# ---- the entries of two vocabularies


class Members(NamedTuple):
    """The entries of a :class:`Union` that one vocabulary contains, in id order.

    ``numbers``: int64, shape (d,), position of each distinct entry in :attr:`Union.tokens`.
    ``positions``: int64, shape (d,), first position of each distinct entry in the vocabulary.
    """

    numbers: Numbers
    positions: Numbers


@dataclass(frozen=True, eq=False)
class Union:
    """The distinct entries of A and B.

    ``tokens``: large_binary, length u: A's entries in id order, followed by the entries that only B
    contains. ``a``, ``b``: which tokens A and B contain.
    """

    tokens: pa.LargeBinaryArray
    a: Members
    b: Members

    @classmethod
    def of(cls, a: pa.LargeBinaryArray, b: pa.LargeBinaryArray) -> Union:
        encoded = pa.concat_arrays([a, b]).dictionary_encode()
        numbers = integers(encoded.indices).astype(np.int64)
        sides = []
        for side in (numbers[: len(a)], numbers[len(a) :]):
            places = np.arange(len(side))
            first = np.empty(len(encoded.dictionary), np.int64)
            first[side[::-1]] = places[::-1]  # the first of equal entries wins
            positions = np.flatnonzero(first[side] == places)
            sides.append(Members(side[positions], positions))
        return cls(encoded.dictionary, *sides)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def in_a(self) -> NDArray[np.bool_]:
        """For each token, whether A contains it: shape (u,)."""
        return _membership(self.a.numbers, len(self))

    @cached_property
    def in_b(self) -> NDArray[np.bool_]:
        """For each token, whether B contains it: shape (u,)."""
        return _membership(self.b.numbers, len(self))

    @cached_property
    def bits(self) -> Bits:
        return characters(self.tokens)


def _membership(numbers: Numbers, count: int) -> NDArray[np.bool_]:
    marks = np.zeros(count, np.bool_)
    marks[numbers] = True
    return marks


# ---- character classes of entries as bits; a million entries in 0.1 s

LETTER: Final = 1 << 0  # a letter of the Latin script
FOREIGN: Final = 1 << 1  # a letter of another script
UPPER: Final = 1 << 2  # in addition: upper case or title case
NUMBER: Final = 1 << 3  # a digit or any other number: 7, ½, Ⅷ
SIGN: Final = 1 << 4  # punctuation or a symbol
JOINER: Final = 1 << 5  # in addition to SIGN: may join the parts of an identifier
CASED: Final = 1 << 6  # changes with case folding
COMPOSED: Final = 1 << 7  # may change with NFKC, alone or with its neighbours or another case
WIDE: Final = 1 << 8  # not ASCII
BROKEN: Final = 1 << 9  # the entry is not UTF-8; no other bit is set
SEEN: Final = 1 << 15  # in the table below: the character is in the table
WORDED: Final = LETTER | FOREIGN  # letters of any script

JOINERS: Final = frozenset("_/\\@:.+#")
JAMO: Final = range(0x1100, 0x1200)  # letters that NFKC composes to syllables
CONTINUATION: Final = 0x80  # bytes 10xxxxxx continue a UTF-8 character


def characters(entries: pa.LargeBinaryArray) -> Bits:
    """Return which character classes each entry contains, as bits: uint16, shape (n,)."""
    every, bounds = contents(entries)
    table, found = _table(), np.zeros(len(entries), np.uint16)
    for at in range(0, len(entries), CHUNK):
        ends = bounds[at : at + CHUNK + 1]
        data, ends = every[ends[0] : ends[-1]], ends - ends[0]
        broken: list[int] = []
        if not bool((data >= CONTINUATION).any()):
            bits = table[data]
        else:
            if broken := _not_utf8(data, ends):
                data = data.copy()
                for i in broken:
                    data[ends[i] : ends[i + 1]] = 0
            points = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), "<u4")
            for point in np.unique(points[table[points] & SEEN == 0]).tolist():
                table[point] = _look_up(chr(point))
            bits = np.zeros(len(data), np.uint16)  # 0 inside a character
            bits[data & 0xC0 != CONTINUATION] = table[points]
        filled = np.flatnonzero(ends[1:] > ends[:-1])
        if len(filled):
            found[at + filled] = np.bitwise_or.reduceat(bits, ends[filled]) & ~np.uint16(SEEN)
        found[[at + i for i in broken]] = BROKEN
    return found


def _not_utf8(data: NDArray[np.uint8], bounds: Numbers) -> list[int]:
    whole = data.tobytes()
    firsts = data[bounds[:-1][bounds[:-1] < bounds[-1]]]
    if not bool((firsts & 0xC0 == CONTINUATION).any()) and is_utf8(whole):
        return []
    places = bounds.tolist()
    return [i for i in range(len(places) - 1) if not is_utf8(whole[places[i] : places[i + 1]])]


@cache
def _table() -> Bits:
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


# ---- kinds of entries

# RE2 patterns. White space is Python's, with the vertical tab.
_SPECIAL: Final = "|".join(
    (
        r"\A<[^<>\s\v]*[A-Za-z/][^<>\s\v]*>\z",
        r"\A\[[^\[\]\s\v]*[A-Za-z]{2}[^\[\]\s\v]*\]\z",
    )
)
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


def kinds(union: Union, marker: Marker | None) -> NDArray[np.uint8]:
    """Return the kind of each token as its position in :data:`KINDS`, shape (u,)."""
    plain = plain_texts(union.tokens, marker)
    bits = union.bits if marker is None else characters(plain)
    data, bounds = contents(plain)
    texts = plain.view(pa.large_string())  # all tokens here are UTF-8
    codes = np.full(len(bits), CODES["other"], np.uint8)
    letters, numbers = bits & WORDED != 0, bits & NUMBER != 0
    upper, joined = np.flatnonzero(bits & UPPER), np.flatnonzero(letters & (bits & JOINER != 0))
    foreign = np.flatnonzero(bits & FOREIGN)
    mixed = foreign[bits[foreign] & LETTER != 0]
    latin = [i for i in mixed.tolist() if main_script(plain[i].as_py().decode()) == "LATIN"]
    first = data[bounds[upper]]  # is the first letter a capital? Usually the first byte decides
    capital = (first >= ord("A")) & (first <= ord("Z"))
    unclear = ~capital & ~((first >= ord("a")) & (first <= ord("z")))
    capital[unclear] = _matches(texts, upper[unclear], _CAPITAL)

    # In reverse order of the table above, so that the first definition that fits wins.
    codes[letters] = CODES["word"]
    codes[upper[capital]] = CODES["capitalised"]
    codes[np.setdiff1d(foreign, latin, assume_unique=True)] = CODES["other script"]
    codes[letters & numbers] = CODES["identifier"]
    codes[joined[_matches(texts, joined, _JOINED)]] = CODES["identifier"]
    codes[upper[_matches(texts, upper, _CAMEL)]] = CODES["identifier"]
    codes[~letters & (bits & SIGN != 0)] = CODES["punctuation"]
    codes[~letters & numbers] = CODES["number"]
    if marker is not None:
        pieces = ~can_be_words(union.tokens, marker) & (bits & (WORDED | NUMBER | BROKEN) != 0)
        codes[pieces] = CODES["subword piece"]
    codes[special_places(union.tokens)] = CODES["special"]
    return codes


def special_places(entries: pa.LargeBinaryArray) -> Numbers:
    data, bounds = contents(entries)
    long = np.flatnonzero(np.diff(bounds) > 2)
    bracketed = long[np.isin(data[bounds[long]], list(b"<["))]
    return bracketed[_matches(entries, bracketed, _SPECIAL)]


def _matches(entries: pa.Array, at: Numbers, pattern: str) -> NDArray[np.bool_]:
    return booleans(pc.match_substring_regex(take(entries, at), pattern=pattern))


# ---- folding


def parse_folds(folds: str | Iterable[str]) -> tuple[Fold, ...]:
    """Return the named folds in the order of :data:`FOLDS`, without duplicates.

    ``folds``: names, or a text such as ``"case,nfkc"``. Raises ``ValueError`` for an unknown name.
    """
    names = folds.split(",") if isinstance(folds, str) else folds
    wanted = {name.strip() for name in names} - {""}
    if unknown := sorted(wanted.difference(FOLDS)):
        raise ValueError(f"fold: expected names from {', '.join(FOLDS)}, got {unknown[0]!r}")
    return tuple(fold for fold in FOLDS if fold in wanted)


def can_be_words(entries: pa.LargeBinaryArray, marker: Marker | None) -> NDArray[np.bool_]:
    """Return whether each entry, by its marker, can be a whole word: bool, shape (n,)."""
    if marker is None:
        return np.ones(len(entries), np.bool_)
    bearing = bear_marker(byte_strings(entries), marker)
    return ~bearing if marker in GOING_ON else bearing


def plain_texts(entries: pa.LargeBinaryArray, marker: Marker | None) -> pa.LargeBinaryArray:
    """Return the text that each entry stands for, without its marker."""
    if marker is None:
        return entries
    texts = arrow(plain_strings(byte_strings(entries), marker))
    return pc.replace_substring(texts, pattern=WORD, replacement=b" ") if marker == "▁" else texts


def spell(entries: pa.LargeBinaryArray, marker: Marker | None) -> pa.LargeBinaryArray:
    """Return the text of each entry, with ``▁`` before it if the entry can be a whole word.

    So ``the`` of WordPiece, ``▁the`` and ``Ġthe`` all become ``▁the``. ``##ing`` of WordPiece and
    ``ing`` of SentencePiece become ``ing``. Special entries are not changed. A text that begins
    with ``▁`` but cannot be a whole word gets ``##``, so that it differs from a whole word.
    """
    texts = plain_texts(entries, marker)
    begins = booleans(pc.starts_with(texts, pattern=WORD))
    which = np.where(can_be_words(entries, marker), 2, begins)
    before = take(arrow(ByteStrings.of([b"", b"##", WORD])), which)
    texts = pc.binary_join_element_wise(before, texts, arrow(ByteStrings.of([b""]))[0])
    special = special_places(entries)
    return _replace(texts, special, take(entries, special))


def fold_entries(entries: pa.LargeBinaryArray, folds: Collection[Fold]) -> pa.LargeBinaryArray:
    """Apply the folds ``nfkc`` and ``case`` to each entry, if they are in ``folds``."""
    return _replace(entries, *_changes(entries, characters(entries), folds))


def _changes(
    entries: pa.LargeBinaryArray, bits: Bits, folds: Collection[Fold]
) -> tuple[Numbers, pa.LargeBinaryArray]:
    places = np.flatnonzero(bits & (CASED * ("case" in folds) | COMPOSED * ("nfkc" in folds)))
    forms = take(entries, places)
    wide = np.flatnonzero(bits[places] & WIDE)
    others = [_fold_entry(entry, folds) for entry in take(forms, wide).to_pylist()]
    if "case" in folds:
        forms = pc.ascii_lower(forms.view(pa.large_string())).view(pa.large_binary())
    return places, _replace(forms, wide, arrow(ByteStrings.of(others)))


def _fold_entry(entry: bytes, folds: Collection[Fold]) -> bytes:
    text = entry.decode()
    if "nfkc" in folds:
        text = unicodedata.normalize("NFKC", text)
    if "case" in folds:
        text = text.casefold()
        if "nfkc" in folds:
            text = unicodedata.normalize("NFKC", text)
    return text.encode()


class Gain(NamedTuple):
    """How many more entries of A and B match after a fold.

    - ``entries_a``: Number of entries only in A that equal an entry of B after the fold.
    - ``entries_b``: Number of entries only in B that equal an entry of A after the fold.
    - ``size_a``, ``size_b``: Number of distinct entries of A and of B after the fold.
    - ``common``: Number of distinct entries in both after the fold.
    - ``examples``: The first pairs of entries of A and B that become equal.
    """

    fold: FoldOrAll
    entries_a: int
    entries_b: int
    size_a: int
    size_b: int
    common: int
    examples: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def jaccard(self) -> float:
        return jaccard(self.common, self.size_a, self.size_b)


def jaccard(common: int, size_a: int, size_b: int) -> float:
    """Return the Jaccard index of two sets, given their sizes; 1 if both are empty."""
    every = size_a + size_b - common
    return common / every if every else 1.0


def gains(union: Union, marker_a: Marker | None, marker_b: Marker | None) -> tuple[Gain, ...]:
    """Return a :class:`Gain` for each of ``FOLDS``, and one for all folds together."""
    every: dict[FoldOrAll, tuple[Fold, ...]] = {**{fold: (fold,) for fold in FOLDS}, "all": FOLDS}
    markers = (marker_a, marker_b)
    # For each fold, and each marker if it matters: the tokens that change, and their folded forms.
    changes: dict[tuple[FoldOrAll, Marker | None], tuple[Numbers, pa.LargeBinaryArray]] = {}
    sides: dict[FoldOrAll, list[tuple[FoldOrAll, Marker | None]]] = {}
    for fold, folds in every.items():
        spelled = "markers" in folds and markers != (None, None)
        sides[fold] = [(fold, marker if spelled else None) for marker in markers]
        for key in dict.fromkeys(sides[fold]):
            if spelled:
                forms = fold_entries(spell(union.tokens, key[1]), folds)
                changes[key] = np.arange(len(union)), forms
            else:
                changes[key] = _changes(union.tokens, union.bits, folds)
    # Look all forms up together, because lookups take most of the time. A form that is a token gets
    # the token's position as its number; other forms get the numbers after the last token.
    encoded = pa.concat_arrays([forms for _, forms in changes.values()]).dictionary_encode()
    number = np.arange(len(union), len(union) + len(encoded.dictionary))
    found = pc.index_in(union.tokens, value_set=encoded.dictionary)
    number[integers(found.drop_null())] = np.flatnonzero(booleans(found.is_valid()))
    numbers, end = number[integers(encoded.indices)], 0
    becomes: dict[tuple[FoldOrAll, Marker | None], Numbers] = {}
    for key, (places, forms) in changes.items():
        becomes[key] = np.arange(len(union))
        becomes[key][places] = numbers[end : end + len(forms)]
        end += len(forms)
    return tuple(
        _gain(union, fold, becomes[a][union.a.numbers], becomes[b][union.b.numbers])
        for fold, (a, b) in sides.items()
    )


def _gain(union: Union, fold: FoldOrAll, forms_a: Numbers, forms_b: Numbers) -> Gain:
    # Equal forms have equal numbers in both arrays.
    count = 1 + max(int(forms.max(initial=0)) for forms in (forms_a, forms_b))
    holds_a, holds_b = _membership(forms_a, count), _membership(forms_b, count)
    new_a = ~union.in_b[union.a.numbers] & holds_b[forms_a]  # only in A, but in B after folding
    new_b = ~union.in_a[union.b.numbers] & holds_a[forms_b]
    pairs = []
    for place in np.flatnonzero(new_a)[:EXAMPLES]:
        pairs.append((place, int(np.argmax(forms_b == forms_a[place]))))
    for place in np.flatnonzero(new_b)[:EXAMPLES]:
        pairs.append((int(np.argmax(forms_a == forms_b[place])), place))
    places_a, places_b = np.array([*dict.fromkeys(pairs)][:EXAMPLES], np.int64).reshape(-1, 2).T
    examples_a = take(union.tokens, union.a.numbers[places_a]).to_pylist()
    examples_b = take(union.tokens, union.b.numbers[places_b]).to_pylist()
    return Gain(
        fold,
        entries_a=int(np.count_nonzero(new_a)),
        entries_b=int(np.count_nonzero(new_b)),
        size_a=int(np.count_nonzero(holds_a)),
        size_b=int(np.count_nonzero(holds_b)),
        common=int(np.count_nonzero(holds_a & holds_b)),
        examples=tuple(zip(examples_a, examples_b, strict=True)),
    )
