"""Vocabularies compared: the public ``diff`` of two, and ``pairwise`` of more.

Corpora are in ``use.py``; how it is shown in ``reports/comparison.py``. Only stored entries are
compared; a layer's own (Keras' mask and ``[UNK]``) are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.entries import (
    CODES,
    KINDS,
    Gain,
    Kind,
    Members,
    Union,
    arrow,
    contents,
    fold_entries,
    gains,
    jaccard,
    kinds,
    parse_folds,
    take,
)
from vocabtool.comparison.use import Use, UseCounter
from vocabtool.errors import VocabtoolError
from vocabtool.formats.registry import PickedVocabulary, pick
from vocabtool.vocabulary import Kind as VocabularyKind
from vocabtool.vocabulary import Marker, Vocabulary, decode

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from vocabtool.documents.files import Sources

Part = Literal["common", "only_a", "only_b"]
# In what order ids are: by frequency, as far as one can see (frequent words are short: Zipf's law
# of abbreviation), by the alphabet, or nothing tells. No file promises any.
Order = Literal["frequency", "alphabet", "unclear"]
Comparable = Vocabulary | str | Path
NONE: Final = 255  # in place of a kind, where a side does not hold an entry
FEWEST: Final = 100  # entries that tell an order
ASCENDING: Final = 0.95  # of neighbours, in a vocabulary by the alphabet
NEIGHBOURS: Final = 1 << 14  # pairs of them that are looked at, evenly spread: these tell enough
SHORTER: Final = 0.9  # times as long as all entries are those of the first tenth, at most


class Side(NamedTuple):
    """One of the two. ``label``: what the caller called it.

    ``size``: stored entries, of which ``duplicates`` repeat an earlier one and ``merged`` are equal
    to an earlier one when folded; the ``distinct`` others are compared.
    ``order``: what the order of its ids seems to be.
    """

    label: str
    name: str
    kind: VocabularyKind
    marker: Marker | None
    size: int
    distinct: int
    duplicates: int
    merged: int
    order: Order


class KindCount(NamedTuple):
    """How many entries of a kind there are: in A, in B, and in one of them only."""

    kind: Kind
    a: int
    b: int
    only_a: int
    only_b: int


class Shift(NamedTuple):
    """A common entry by rank. ``shift``: by how many doublings it ranks lower in B than in A."""

    token: bytes
    rank_a: int
    rank_b: int
    shift: float


class Ranks:
    """The c common words by rank: their places in id order among the common words only, from 1.

    So what stands between them, special entries for example, moves no rank. That says something of
    use where ids follow frequency; a report says what was guessed of that beside each figure.
    """

    def __init__(self, union: Union) -> None:
        a, b = union.a.numbers, union.b.numbers
        self.numbers = a[union.in_b[a]]  # of the union's tokens, in A's order
        rank = np.zeros(len(union), np.int64)
        rank[b[union.in_a[b]]] = np.arange(1, len(self.numbers) + 1)
        self.b = rank[self.numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def a(self) -> NDArray[np.int64]:
        """Each word's rank in A: shape (c,)."""
        return np.arange(1, len(self) + 1)

    @cached_property
    def shifts(self) -> NDArray[np.float64]:
        """By how many doublings a word ranks lower in B than in A; negative: higher. Shape (c,)."""
        return np.log2(self.b) - np.log2(self.a)

    @cached_property
    def rho(self) -> float | None:
        """Spearman's rank correlation, from -1 to 1; ``None`` for fewer than two words."""
        count = len(self)
        if count < 2:
            return None
        apart = (self.b - self.a).astype(np.float64)
        return 1 - 6 * float(np.square(apart).sum()) / (count * (count * count - 1))

    def largest(self, most: int, among: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
        """Places of the words that shift most, up or down; the first of A among equals.

        ``among``: which words are looked at, shape (c,); all unless given.
        """
        far = np.abs(self.shifts)
        if among is not None:
            far[~among] = 0
        order = np.argsort(-far, kind="stable")[:most]
        return order[far[order] > 0]


@dataclass(frozen=True, eq=False)
class Diff:
    """What two vocabularies have in common, and what not.

    ``fold``: the folds that were applied to the entries before they were compared, none unless
    asked for; kinds are those of the entries as stored (of the first, where several are equal).
    ``gains``: what each fold would make common of the entries as stored.
    ``tokens``: large_binary, length u: every different entry, A's in id order, then those that
    only B holds. Of these, each of shape (u,): ``in_a``, ``in_b``: bool; ``ids_a``, ``ids_b``:
    int64, the first id, 0 where a side does not hold it; ``kinds_a``, ``kinds_b``: uint8, places
    in ``KINDS``, ``NONE`` where it does not.
    ``notes``: what the files said of themselves: what could not be read, which vocabulary of
    several was taken.
    """

    a: Side
    b: Side
    fold: tuple[Fold, ...]
    gains: tuple[Gain, ...]
    union: Union
    ids_a: NDArray[np.int64]
    ids_b: NDArray[np.int64]
    kinds_a: NDArray[np.uint8]
    kinds_b: NDArray[np.uint8]
    use: Use | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Diff: {self.common:,} common, {self.only_a:,} only in {self.a.label!r}, "
            f"{self.only_b:,} only in {self.b.label!r}>"
        )

    @property
    def tokens(self) -> pa.LargeBinaryArray:
        """Every different entry."""
        return self.union.tokens

    @property
    def in_a(self) -> NDArray[np.bool_]:
        """Whether A holds it."""
        return self.union.in_a

    @property
    def in_b(self) -> NDArray[np.bool_]:
        """Whether B holds it."""
        return self.union.in_b

    @cached_property
    def common(self) -> int:
        """How many entries both hold."""
        return int(np.count_nonzero(self.in_a & self.in_b))

    @property
    def only_a(self) -> int:
        """How many only A holds."""
        return self.a.distinct - self.common

    @property
    def only_b(self) -> int:
        """How many only B holds."""
        return self.b.distinct - self.common

    @property
    def jaccard(self) -> float:
        """Common entries as a share of all, from 0 to 1."""
        return jaccard(self.common, self.a.distinct, self.b.distinct)

    @cached_property
    def ranks(self) -> Ranks:
        """The common words by rank."""
        return Ranks(self.union)

    @cached_property
    def kinds(self) -> tuple[KindCount, ...]:
        """How many entries of each kind there are, in the order of ``KINDS``."""
        in_a, in_b = self.in_a, self.in_b
        columns = (
            self.kinds_a[in_a],
            self.kinds_b[in_b],
            self.kinds_a[in_a & ~in_b],
            self.kinds_b[in_b & ~in_a],
        )
        every = [np.bincount(codes, minlength=len(KINDS)) for codes in columns]
        counts = (KindCount(kind, *map(int, row)) for kind, *row in zip(KINDS, *every, strict=True))
        return tuple(count for count in counts if count.a or count.b)

    def places(
        self, part: Part, most: int | None = None, *, kind: Kind | None = None
    ) -> NDArray[np.int64]:
        """Where in ``tokens`` the entries of a part stand: by id, the lowest first.

        For ``common`` these are ids and kinds of A. ``kind``: those of this kind only.
        """
        mine, in_other, codes = self.union.a, self.in_b, self.kinds_a
        if part == "only_b":
            mine, in_other, codes = self.union.b, self.in_a, self.kinds_b
        places: NDArray[np.int64] = mine.numbers[in_other[mine.numbers] == (part == "common")]
        if kind is not None:
            places = places[codes[places] == CODES[kind]]
        return places[:most]

    def sample(self, part: Part, most: int, *, kind: Kind | None = None) -> list[bytes]:
        """The entries of a part that rank highest.

        Special entries, which often come first and say little, are left out unless asked for.
        """
        places = self.places(part, kind=kind)
        if kind is None:
            codes = self.kinds_b if part == "only_b" else self.kinds_a
            places = places[codes[places] != CODES["special"]]
        entries: list[bytes] = take(self.tokens, places[:most]).to_pylist()
        return entries

    def shifts(self, most: int) -> list[Shift]:
        """The common entries whose ranks differ most; special ones are left out."""
        ranks = self.ranks
        places = ranks.largest(most, self.kinds_a[ranks.numbers] != CODES["special"])
        tokens = take(self.tokens, ranks.numbers[places]).to_pylist()
        columns = (ranks.a[places], ranks.b[places], ranks.shifts[places])
        return list(map(Shift, tokens, *(column.tolist() for column in columns)))

    def to_arrow(self, places: NDArray[np.int64] | None = None) -> pa.Table:
        """A row for each different entry, or for those at ``places``.

        Columns: ``token`` (large_binary); ``in_a``, ``in_b``; ``id_a``, ``id_b``; ``kind_a``,
        ``kind_b`` (dictionary of string); ``rank_a``, ``rank_b``, ``shift``, those of
        :class:`Ranks`. What a side does not have is null.
        """
        places = np.arange(len(self.tokens)) if places is None else places
        in_a, in_b = self.in_a[places], self.in_b[places]
        rank_a, rank_b, shift = (column[places] for column in self.rank_columns)
        apart = ~(in_a & in_b)
        return pa.table(
            {
                "token": take(self.tokens, places),
                "in_a": in_a,
                "in_b": in_b,
                "id_a": pa.array(self.ids_a[places], mask=~in_a),
                "id_b": pa.array(self.ids_b[places], mask=~in_b),
                "kind_a": _kind_column(self.kinds_a[places]),
                "kind_b": _kind_column(self.kinds_b[places]),
                "rank_a": pa.array(rank_a, mask=apart),
                "rank_b": pa.array(rank_b, mask=apart),
                "shift": pa.array(shift, mask=apart),
            }
        )

    @cached_property
    def rank_columns(self) -> tuple[NDArray[Any], ...]:
        """Ranks in A and B, and shifts, of every token: 0 where it is not common; shape (u,)."""
        ranks = self.ranks
        columns = []
        for values in (ranks.a, ranks.b, ranks.shifts):
            column = np.zeros(len(self.tokens), values.dtype)
            column[ranks.numbers] = values
            columns.append(column)
        return tuple(columns)

    def to_pandas(self) -> pd.DataFrame:
        """The same for pandas; tokens are ``str``, with ``surrogateescape`` where not UTF-8.

        Ids and ranks are pandas' nullable ``Int64``: missing ones do not turn them into floats.
        """
        pandas = _import_library("pandas")
        nullable = {pa.int64(): pandas.Int64Dtype()}
        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=nullable.get)
        # Of type object: pandas' own strings cannot hold what is not UTF-8.
        frame["token"] = pandas.Series(list(map(decode, frame["token"])), dtype=object)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The same for Polars; ``token`` is of its type ``Binary``, as not all need be UTF-8."""
        return cast("pl.DataFrame", _import_library("polars").from_arrow(self.to_arrow()))


def _import_library(library: Literal["pandas", "polars"]) -> Any:
    """A library that vocabtool itself does without."""
    try:
        return import_module(library)
    except ImportError as error:
        raise VocabtoolError(f"the table needs {library}: pip install {library}") from error


def _kind_column(codes: NDArray[np.uint8]) -> pa.DictionaryArray:
    missing = codes == NONE
    places = pa.array(np.where(missing, 0, codes).astype(np.int8), mask=missing)
    return pa.DictionaryArray.from_arrays(places, pa.array(KINDS))


def diff(
    a: Comparable,
    b: Comparable,
    *,
    fold: str | Iterable[str] = (),
    corpus: Sources | None = None,
    field: str | None = None,
    rule: str | None = None,
) -> Diff:
    """Compare two vocabularies, or those of two files: a path, or ``FILE#NAME`` for one of several.

    ``fold``: any of ``case``, ``nfkc`` and ``markers``, which entries are compared without, as
    names or as one text (``"case,nfkc"``); else they are compared byte for byte. ``corpus``:
    documents as ``OovCounter`` takes them, by which the difference is weighed; ``field``: which one
    of theirs holds the text; ``rule``: how they are cut into words, ``keras`` unless said.
    Raises :class:`VocabtoolError` for what cannot be read, and ``ValueError`` for another fold.
    """
    folds = parse_folds(fold)
    one, other = read(a), read(b)
    comparison = compare(
        one.vocabulary, other.vocabulary, folds, (_label(a), _label(b)), one.notes + other.notes
    )
    if corpus is None:
        return comparison
    from vocabtool.documents.reading import ReadOptions, batches, names_of

    options = ReadOptions(field=field, on_duplicate=None)
    texts = (batch.texts for batch in batches(corpus, options))
    sources = tuple(names_of(corpus) or ())
    return weigh(comparison, one.vocabulary, other.vocabulary, texts, rule, sources)


def read(source: Comparable) -> PickedVocabulary:
    """A vocabulary to compare, and what its file said of itself."""
    return PickedVocabulary(source) if isinstance(source, Vocabulary) else pick(source)


def _label(source: Comparable) -> str:
    return source.name if isinstance(source, Vocabulary) else str(source)


def weigh(
    comparison: Diff,
    a: Vocabulary,
    b: Vocabulary,
    texts: Iterable[pa.StringArray],
    rule: str | None = None,
    sources: tuple[str, ...] = (),
) -> Diff:
    """The comparison of ``a`` and ``b``, with what batches of texts make of it.

    ``sources``: what to call the texts.
    """
    counter = UseCounter(a, b, rule=rule, folds=comparison.fold)
    counter.count(texts)
    return replace(comparison, use=counter.report(sources))


def compare(
    a: Vocabulary,
    b: Vocabulary,
    folds: tuple[Fold, ...],
    labels: tuple[str, str],
    notes: tuple[str, ...] = (),
) -> Diff:
    """:func:`diff` of vocabularies that are at hand."""
    entries_a, entries_b = arrow(a.stored), arrow(b.stored)
    stored = union = Union.of(entries_a, entries_b)
    if folds:
        forms_a = fold_entries(entries_a, folds, a.marker)
        union = Union.of(forms_a, fold_entries(entries_b, folds, b.marker))
    codes_a = kinds(stored, a.marker)
    codes_b = codes_a if a.marker == b.marker else kinds(stored, b.marker)
    count = len(union)
    one = _side(labels[0], a, entries_a, stored.a, union.a, codes_a, count)
    other = _side(labels[1], b, entries_b, stored.b, union.b, codes_b, count)
    (side_a, ids_a, kinds_a), (side_b, ids_b, kinds_b) = one, other
    return Diff(
        side_a,
        side_b,
        folds,
        gains(stored, a.marker, b.marker),
        union,
        ids_a,
        ids_b,
        kinds_a,
        kinds_b,
        notes=notes,
    )


def _side(
    label: str,
    a: Vocabulary,
    entries: pa.LargeBinaryArray,
    stored: Members,
    forms: Members,
    codes: NDArray[np.uint8],
    count: int,
) -> tuple[Side, NDArray[np.int64], NDArray[np.uint8]]:
    """A side, and the ids and kinds of its entries, spread over all ``count`` different ones.

    ``codes``: kinds of what is ``stored``; a form has that of the first entry it was made of.
    """
    different, distinct = len(stored.numbers), len(forms.numbers)
    duplicates, merged, order = len(a) - different, different - distinct, order_of(entries)
    side = Side(label, a.name, a.kind, a.marker, len(a), distinct, duplicates, merged, order)
    ids, found = np.zeros(count, np.int64), np.full(count, NONE, np.uint8)
    ids[forms.numbers] = a.id_array()[forms.positions]
    first = np.searchsorted(stored.positions, forms.positions)
    found[forms.numbers] = codes[stored.numbers[first]]
    return side, ids, found


def order_of(entries: pa.LargeBinaryArray) -> Order:
    """What the order of a vocabulary's entries seems to be."""
    if len(entries) < FEWEST:
        return "unclear"
    pairs = len(entries) - 1
    first = np.arange(min(pairs, NEIGHBOURS)) * pairs // min(pairs, NEIGHBOURS)
    ascending = pc.less(take(entries, first), take(entries, first + 1))
    if ascending.true_count >= ASCENDING * len(ascending):
        return "alphabet"
    lengths = np.diff(contents(entries)[1])
    tenth = lengths[: len(lengths) // 10]
    return "frequency" if tenth.mean() <= SHORTER * lengths.mean() else "unclear"


# ---- more than two: each compared with each of those behind it


class Pair(NamedTuple):
    """Two of several. ``a``, ``b``: what they are called; ``size_a``: A's different entries.

    ``rho``: Spearman's correlation of the ranks of common words, ``None`` for fewer than two.
    """

    a: str
    b: str
    size_a: int
    size_b: int
    common: int
    only_a: int
    only_b: int
    jaccard: float
    rho: float | None


COLUMNS: Final = Pair._fields


class Pairs(NamedTuple):
    """What was compared, and each pair, in the order of what was given; ``notes`` as of a diff."""

    labels: tuple[str, ...]
    fold: tuple[Fold, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()

    def to_arrow(self) -> pa.Table:
        """A row for each pair, with the fields of :class:`Pair`."""
        columns: list[Any] = list(zip(*self.pairs, strict=True)) or [()] * len(COLUMNS)
        return pa.table(dict(zip(COLUMNS, map(pa.array, columns), strict=True)))


def pairwise(sources: Sequence[Comparable], *, fold: str | Iterable[str] = ()) -> Pairs:
    """Compare several vocabularies two by two; arguments as those of ``diff``."""
    folds = parse_folds(fold)
    sides = [read(source) for source in sources]
    notes = tuple(note for side in sides for note in side.notes)
    labels = tuple(map(_label, sources))
    vocabularies = [side.vocabulary for side in sides]
    entries = [fold_entries(arrow(each.stored), folds, each.marker) for each in vocabularies]
    pairs = []
    for (label_a, a), (label_b, b) in combinations(zip(labels, entries, strict=True), 2):
        union = Union.of(a, b)
        size_a, size_b = len(union.a.numbers), len(union.b.numbers)
        ranks = Ranks(union)
        common = len(ranks)
        only_a, only_b = size_a - common, size_b - common
        index = jaccard(common, size_a, size_b)
        sizes = (size_a, size_b, common, only_a, only_b)
        pairs.append(Pair(label_a, label_b, *sizes, index, ranks.rho))
    return Pairs(labels, folds, tuple(pairs), notes)
