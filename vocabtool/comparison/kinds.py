r"""What kind of entry each is: one of :data:`KINDS`, the first whose definition fits.

===============  ==============================================================================
special          in brackets: ``[CLS]``, ``<s>``, ``<|endoftext|>``, ``<0x0A>``; two letters or
                 more inside ``[]``, one letter or ``/`` at the least inside ``<>``, and no blank
subword piece    goes on with a word, by the vocabulary's marker: it has ``##`` before or ``@@``
                 behind it; or it has letters or digits, and lacks the ``▁``, ``Ġ`` or blank that
                 begins a word or the ``</w>`` that ends one
number           digits or other numbers, and no letters: ``287.9``, ``1,000``, ``½``
punctuation      no letters and no numbers, but punctuation or symbols: ``...``, ``€``, ``😀``
identifier       letters with numbers; camelCase; ``C++``, ``C#``; words joined by any of
                 ``_ / \ @ ::`` or a dot: ``New_York``, ``os.path``
other script     most of its letters are not Latin, the first's script among equals
capitalised      its first letter is upper case: ``Paris``, ``NASA``
word             any other with letters
other            nothing of these: empty, blanks or control characters, bytes that are not UTF-8
===============  ==============================================================================

All but the first two are told of an entry without its mark. Letters, numbers and symbols are
Unicode's categories L, N, P and S. ``oov/lookalikes.py`` asks something else: what an unknown
word is to one vocabulary.

Entries without what vocabularies differ in by habit: marks of pieces, Unicode form, case.

``markers``: without the mark that says where a word begins or goes on, and byte-level characters
as the bytes that they stand for (``formats/markers.py``); ``nfkc``: Unicode's compatibility
composition; ``case``: Unicode's full case folding. Several are applied in this order, and after
case folding NFKC again. What is not UTF-8 keeps its bytes. :func:`gains` counts what each fold
would make common; nothing is folded unless the caller asks for it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import FOLDS, Fold
from vocabtool.comparison.entries import (
    BROKEN,
    CASED,
    COMPOSED,
    FOREIGN,
    JOINER,
    LETTER,
    NUMBER,
    SIGN,
    UPPER,
    WIDE,
    Bits,
    Members,
    Union,
    arrow,
    booleans,
    byte_strings,
    characters,
    contents,
    integers,
    membership,
    replace,
    take,
)
from vocabtool.oov.lookalikes import main_script
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Marker, bear_marker, plain_strings

FoldOrAll = Literal["case", "nfkc", "markers", "all"]
MARKED: Final[tuple[FoldOrAll, ...]] = ("markers", "all")  # what depends on a side's marker
EXAMPLES: Final = 5

Numbers = NDArray[np.int64]


def parse_folds(folds: str | Iterable[str]) -> tuple[Fold, ...]:
    """Folds in the order of :data:`FOLDS`, each once; a text is names with commas between.

    Raises ``ValueError`` for another name.
    """
    names = folds.split(",") if isinstance(folds, str) else folds
    wanted = {name.strip() for name in names} - {""}
    if unknown := sorted(wanted.difference(FOLDS)):
        raise ValueError(f"fold: wanted some of {', '.join(FOLDS)}, got {unknown[0]!r}")
    return tuple(fold for fold in FOLDS if fold in wanted)


def fold_entries(
    entries: pa.LargeBinaryArray, folds: Collection[Fold], marker: Marker | None
) -> pa.LargeBinaryArray:
    """What folds make of each entry: length n."""
    if "markers" in folds:
        entries = without_marks(entries, marker)
    bits = characters(entries)
    places = _changeable(bits, folds)
    return replace(entries, places, _fold_text(entries, places, bits, folds))


def without_marks(entries: pa.LargeBinaryArray, marker: Marker | None) -> pa.LargeBinaryArray:
    """Entries as plain text, without the mark of pieces of words."""
    if marker is None:
        return entries
    return arrow(plain_strings(byte_strings(entries), marker))


def _changeable(bits: Bits, folds: Collection[Fold]) -> NDArray[np.intp]:
    """The entries that ``case`` and ``nfkc`` may change."""
    return np.flatnonzero(bits & (CASED * ("case" in folds) | COMPOSED * ("nfkc" in folds)))


def _fold_text(
    entries: pa.LargeBinaryArray, places: NDArray[np.intp], bits: Bits, folds: Collection[Fold]
) -> pa.LargeBinaryArray:
    """What ``case`` and ``nfkc`` make of the entries at ``places``, shape (k,): length k.

    ``bits``: of all entries. Those at ``places`` are UTF-8. ASCII is lowered by Arrow.
    """
    forms = take(entries, places)
    wide = np.flatnonzero(bits[places] & WIDE)
    others = [_fold_entry(entry, folds) for entry in take(forms, wide).to_pylist()]
    if "case" in folds:
        forms = pc.ascii_lower(forms.view(pa.large_string())).view(pa.large_binary())
    return replace(forms, wide, arrow(ByteStrings.of(others)))


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
    """What folding would do.

    ``entries_a``: how many of the entries that only A holds would be equal to one of B;
    ``entries_b``: the same of B. ``size_a``, ``size_b``, ``common``: how many different entries
    there would be. ``examples``: the first few entries that only one of them holds and that would
    be common: an entry of A, and the first of B that it would be equal to.
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
        """Common entries as a share of all, from 0 to 1."""
        return jaccard(self.common, self.size_a, self.size_b)


def jaccard(common: int, size_a: int, size_b: int) -> float:
    """The Jaccard index of two sets; 1 for two empty ones, which are equal."""
    every = size_a + size_b - common
    return common / every if every else 1.0


def gains(
    union: Union, bits: Bits, marker_a: Marker | None, marker_b: Marker | None
) -> tuple[Gain, ...]:
    """One for each of ``FOLDS``, and one for all of them. ``bits``: of the union's tokens."""
    folds: dict[FoldOrAll, tuple[Fold, ...]] = {**{fold: (fold,) for fold in FOLDS}, "all": FOLDS}
    # Which tokens change, and what they become: of both sides, or of one with a marker of its own.
    changes: dict[tuple[FoldOrAll, str], tuple[NDArray[Any], pa.LargeBinaryArray]] = {}
    for fold in ("case", "nfkc"):
        places = _changeable(bits, folds[fold])
        changes[fold, "both"] = places, _fold_text(union.tokens, places, bits, folds[fold])
    changes["all", "both"] = places, _fold_text(union.tokens, places, bits, ("case", "nfkc"))
    for side, members, marker in (("a", union.a, marker_a), ("b", union.b, marker_b)):
        if marker is not None:
            entries = take(union.tokens, members.numbers)
            for fold in MARKED:
                forms = fold_entries(entries, folds[fold], marker)
                changes[fold, side] = members.numbers, forms
    strings = [strings for _, strings in changes.values()]
    numbers = dict(zip(changes, _number(union.tokens, strings), strict=True))

    def forms_of(fold: FoldOrAll, side: str, members: Members) -> Numbers:
        """The number of what each entry of a side becomes."""
        keys = [(fold, side)]
        if keys[0] not in changes:  # where nothing composes, all folds do what case alone does
            keys = [(each, "both") for each in (("case", "all") if fold == "all" else (fold,))]
        forms = np.arange(len(union))
        for key in keys:
            if key in changes:
                forms[changes[key][0]] = numbers[key]
        return forms[members.numbers]

    return tuple(
        _gain(union, fold, forms_of(fold, "a", union.a), forms_of(fold, "b", union.b))
        for fold in folds
    )


def _number(tokens: pa.LargeBinaryArray, strings: Sequence[pa.LargeBinaryArray]) -> list[Numbers]:
    """A number for each string: its place in ``tokens``, or one behind all of these.

    All are looked up together: that is what takes the time.
    """
    encoded = pa.concat_arrays(strings).dictionary_encode()
    number = np.arange(len(tokens), len(tokens) + len(encoded.dictionary))
    found = pc.index_in(tokens, value_set=encoded.dictionary)
    number[integers(found.drop_null())] = np.flatnonzero(booleans(found.is_valid()))
    numbers = number[integers(encoded.indices)]
    return np.split(numbers, np.cumsum([len(some) for some in strings])[:-1])


def _gain(union: Union, fold: FoldOrAll, forms_a: Numbers, forms_b: Numbers) -> Gain:
    count = 1 + max(int(forms.max(initial=0)) for forms in (forms_a, forms_b))
    holds_a, holds_b = membership(forms_a, count), membership(forms_b, count)
    new_a = ~union.in_b[union.a.numbers] & holds_b[forms_a]  # in A alone, and B would hold it
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
