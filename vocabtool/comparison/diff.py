"""Two vocabularies compared: the public ``diff`` and what it finds, :class:`Diff`.

What kinds of entries there are is in ``kinds.py``, what folding would change in ``folds.py``,
ranks are in ``ranks.py`` and corpora in ``use.py``; how it is shown in ``reports/diff.py``.
Only stored entries are compared; a layer's own (Keras' mask and ``[UNK]``) are not.

More than two vocabularies: each compared with each of those behind it, in a table.
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
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.entries import Members, Union, arrow, characters, take
from vocabtool.comparison.kinds import (
    CODES,
    KINDS,
    Gain,
    Kind,
    fold_entries,
    gains,
    jaccard,
    kinds,
    parse_folds,
)
from vocabtool.comparison.use import Order, Ranks, order_of
from vocabtool.errors import VocabtoolError
from vocabtool.formats.registry import PickedVocabulary, pick
from vocabtool.vocabulary import Kind as VocabularyKind
from vocabtool.vocabulary import Marker, Vocabulary, decode

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from vocabtool.comparison.use import Use
    from vocabtool.documents.reading import Sources

Part = Literal["common", "only_a", "only_b"]
Comparable = Vocabulary | str | Path
NONE: Final = 255  # in place of a kind, where a side does not hold an entry


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
        places = self._places[part]
        if kind is not None:
            codes = self.kinds_b if part == "only_b" else self.kinds_a
            places = places[codes[places] == CODES[kind]]
        return places[:most]

    @cached_property
    def _places(self) -> dict[Part, NDArray[np.int64]]:
        a, b = self.union.a.numbers, self.union.b.numbers
        in_b = self.in_b[a]
        return {"common": a[in_b], "only_a": a[~in_b], "only_b": b[~self.in_a[b]]}

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
        one.vocabulary, other.vocabulary, folds, (label(a), label(b)), one.notes + other.notes
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


def label(source: Comparable) -> str:
    """What to call it."""
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
    from vocabtool.comparison.use import UseCounter

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
    entries = arrow(a.stored, b.stored)
    orders = [order_of(part) for part in (entries.slice(0, len(a)), entries.slice(len(a)))]
    stored = Union.of(entries, len(a))
    bits = characters(stored.tokens)
    union = _folded_union(stored, folds, a.marker, b.marker) if folds else stored
    if a.marker == b.marker:
        codes = kinds(stored.tokens, a.marker, bits)
        kinds_a, kinds_b = codes[stored.a.numbers], codes[stored.b.numbers]
    else:
        kinds_a = kinds(take(stored.tokens, stored.a.numbers), a.marker)
        kinds_b = kinds(take(stored.tokens, stored.b.numbers), b.marker)
    count = len(union)
    return Diff(
        _side(labels[0], a, stored.a, union.a, orders[0]),
        _side(labels[1], b, stored.b, union.b, orders[1]),
        folds,
        gains(stored, bits, a.marker, b.marker),
        union,
        _fill(a.id_array()[union.a.positions], union.a, count, 0),
        _fill(b.id_array()[union.b.positions], union.b, count, 0),
        _fill(kinds_a[_first_stored(stored.a, union.a)], union.a, count, NONE),
        _fill(kinds_b[_first_stored(stored.b, union.b)], union.b, count, NONE),
        notes=notes,
    )


def _folded_union(
    stored: Union, folds: tuple[Fold, ...], marker_a: Marker | None, marker_b: Marker | None
) -> Union:
    """The union of folded entries; positions are those of the first that each form was made of."""
    forms_a = fold_entries(take(stored.tokens, stored.a.numbers), folds, marker_a)
    forms_b = fold_entries(take(stored.tokens, stored.b.numbers), folds, marker_b)
    union = Union.of(pa.concat_arrays([forms_a, forms_b]), len(forms_a))
    return Union(
        union.tokens,
        Members(union.a.numbers, stored.a.positions[union.a.positions]),
        Members(union.b.numbers, stored.b.positions[union.b.positions]),
    )


def _first_stored(stored: Members, forms: Members) -> NDArray[np.intp]:
    """Which of the stored entries each form was made of first."""
    return np.searchsorted(stored.positions, forms.positions)


def _fill(values: NDArray[Any], members: Members, count: int, absent: int) -> NDArray[Any]:
    """Values of a side's entries as values of all: shape (count,)."""
    spread = np.full(count, absent, values.dtype)
    spread[members.numbers] = values
    return spread


def _side(label: str, a: Vocabulary, stored: Members, forms: Members, order: Order) -> Side:
    different, distinct = len(stored.numbers), len(forms.numbers)
    duplicates, merged = len(a) - different, different - distinct
    return Side(label, a.name, a.kind, a.marker, len(a), distinct, duplicates, merged, order)


COLUMNS: Final = ("a", "b", "size_a", "size_b", "common", "only_a", "only_b", "jaccard", "rho")


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
    vocabularies = [side.vocabulary for side in sides]
    entries = [fold_entries(arrow(each.stored), folds, each.marker) for each in vocabularies]
    labels = tuple(map(label, sources))
    pairs = tuple(
        _pair(labels[i], labels[j], entries[i], entries[j])
        for i, j in combinations(range(len(sides)), 2)
    )
    return Pairs(labels, folds, pairs, notes)


def _pair(label_a: str, label_b: str, a: pa.LargeBinaryArray, b: pa.LargeBinaryArray) -> Pair:
    union = Union.of(pa.concat_arrays([a, b]), len(a))
    size_a, size_b = len(union.a.numbers), len(union.b.numbers)
    ranks = Ranks(union)
    common = len(ranks)
    index = jaccard(common, size_a, size_b)
    only_a, only_b = size_a - common, size_b - common
    return Pair(label_a, label_b, size_a, size_b, common, only_a, only_b, index, ranks.rho)
