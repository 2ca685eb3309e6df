"""The public ``diff`` compares two vocabularies, ``pairwise`` several.

If one of the vocabularies has pieces with markers, entries are compared by the text that they
stand for (:func:`~vocabtool.comparison.entries.spell`), else byte for byte. ``use.py`` weights a
comparison by a corpus, with one rule for both; ``cuts.py`` does it with the rule of each.
``reports/comparison.py`` renders comparisons. Only stored entries are compared. Entries that a
layer adds (Keras' mask and ``[UNK]``) are ignored.
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
from vocabtool.comparison.cuts import Cuts, count_cuts
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
    spell,
    take,
)
from vocabtool.comparison.use import RULE, Use, UseCounter
from vocabtool.errors import VocabtoolError
from vocabtool.formats.registry import PickedVocabulary, pick, split_name
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Kind as VocabularyKind
from vocabtool.vocabulary import Marker, Vocabulary, decode

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from vocabtool.documents.files import Sources

Part = Literal["common", "only_a", "only_b"]
# The apparent order of ids: by frequency (frequent words are short: Zipf's law of abbreviation), by
# the alphabet, or unclear. No file format guarantees an order.
Order = Literal["frequency", "alphabet", "unclear"]
Comparable = Vocabulary | str | Path
NONE: Final = 255  # the kind of an entry that a side does not contain
FEWEST: Final = 100  # minimum number of entries to determine an order
ASCENDING: Final = 0.95  # alphabetical: minimum share of neighbouring pairs in ascending order
NEIGHBOURS: Final = 1 << 14  # neighbouring pairs that are compared, evenly spread
SHORTER: Final = 0.9  # by frequency: maximum mean length of the first tenth / of all entries


class Side(NamedTuple):
    """One of the two compared vocabularies.

    - ``label``: The path or name that the caller passed.
    - ``size``: Number of stored entries, which is ``duplicates + merged + distinct``: entries that
      repeat an earlier entry or stand for the same text, others that equal an earlier entry only
      after folding, and the rest, which is compared.
    - ``order``: How the entries seem to be ordered when they are listed by id.
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
    """How many entries of a kind are in A, in B, only in A, and only in B."""

    kind: Kind
    a: int
    b: int
    only_a: int
    only_b: int


class Shift(NamedTuple):
    """An entry in both A and B, and its rank in each. ``shift``: ``log2(rank_b / rank_a)``."""

    token: bytes
    rank_a: int
    rank_b: int
    shift: float


class Ranks:
    """Ranks of the c words that A and B share: in each, 1 is the word with the lowest id.

    Entries of only one side do not change a rank. Ranks are meaningful only if ids are ordered by
    frequency, so reports state next to each figure how the entries seem to be ordered.
    """

    def __init__(self, union: Union) -> None:
        a, b = union.a.numbers, union.b.numbers
        self.numbers = a[union.in_b[a]]  # positions in the union's tokens, in A's order
        rank = np.zeros(len(union), np.int64)
        rank[b[union.in_a[b]]] = np.arange(1, len(self.numbers) + 1)
        self.b = rank[self.numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def a(self) -> NDArray[np.int64]:
        """Rank in A of each shared word, shape (c,)."""
        return np.arange(1, len(self) + 1)

    @cached_property
    def shifts(self) -> NDArray[np.float64]:
        """``log2(rank_b / rank_a)`` of each shared word, shape (c,)."""
        return np.log2(self.b) - np.log2(self.a)

    @cached_property
    def rho(self) -> float | None:
        """Spearman's rank correlation, from -1 to 1; ``None`` if there are fewer than two words."""
        count = len(self)
        if count < 2:
            return None
        apart = (self.b - self.a).astype(np.float64)
        return 1 - 6 * float(np.square(apart).sum()) / (count * (count * count - 1))

    def largest(self, most: int, among: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
        """Return the indexes of the words whose ranks differ most; ties in A's order.

        ``among``: mask of the shared words to consider, shape (c,); by default all.
        """
        far = np.abs(self.shifts)
        if among is not None:
            far[~among] = 0
        order = np.argsort(-far, kind="stable")[:most]
        return order[far[order] > 0]


@dataclass(frozen=True, eq=False)
class Diff:
    """The result of comparing two vocabularies, A and B.

    - ``fold``: Folds that were applied before comparing; ``markers`` is among them if pieces were
      compared by the text that they stand for. Kinds are determined before ``case`` and ``nfkc``;
      if several entries become equal, the first one's kind counts.
    - ``gains``: For each other fold, how many more entries would match.
    - ``tokens``: large_binary, length u: all distinct entries, first A's in id order, then the
      entries that only B contains. If pieces were compared by their text, they are spelled so:
      with ``▁`` before those that can be a whole word.
    - ``in_a``, ``in_b``: bool, shape (u,), whether A and B contain each token.
    - ``ids_a``, ``ids_b``: int64, shape (u,), the first id of each token; 0 if the side does not
      contain the token.
    - ``kinds_a``, ``kinds_b``: uint8, shape (u,), the kind's position in ``KINDS``; ``NONE`` if the
      side does not contain the token.
    - ``use``: How often a corpus uses the entries, if one rule cuts it for both; else ``None``.
    - ``cuts``: How each side cuts a corpus by its own rule; ``None`` if there is no corpus or one
      rule for both.
    - ``notes``: Warnings from reading the files: unreadable parts, and which of several
      vocabularies was chosen.
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
    cuts: Cuts | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Diff: {self.common:,} common, {self.only_a:,} only in {self.a.label!r}, "
            f"{self.only_b:,} only in {self.b.label!r}>"
        )

    def _repr_html_(self) -> str:
        """Return a short table for notebooks."""
        from vocabtool.reports.comparison import diff_html

        return diff_html(self)

    @property
    def by_text(self) -> bool:
        """Whether pieces were compared by the text that they stand for."""
        return "markers" in self.fold and (self.a.marker, self.b.marker) != (None, None)

    @property
    def tokens(self) -> pa.LargeBinaryArray:
        """All distinct entries."""
        return self.union.tokens

    @property
    def in_a(self) -> NDArray[np.bool_]:
        """Whether A contains each token."""
        return self.union.in_a

    @property
    def in_b(self) -> NDArray[np.bool_]:
        """Whether B contains each token."""
        return self.union.in_b

    @cached_property
    def common(self) -> int:
        """Number of entries in both vocabularies."""
        return int(np.count_nonzero(self.in_a & self.in_b))

    @property
    def only_a(self) -> int:
        """Number of entries only in A."""
        return self.a.distinct - self.common

    @property
    def only_b(self) -> int:
        """Number of entries only in B."""
        return self.b.distinct - self.common

    @property
    def jaccard(self) -> float:
        """Jaccard index, from 0 to 1: the share of all distinct entries that are in both."""
        return jaccard(self.common, self.a.distinct, self.b.distinct)

    @cached_property
    def ranks(self) -> Ranks:
        """Ranks of the words that both vocabularies contain."""
        return Ranks(self.union)

    @cached_property
    def kinds(self) -> tuple[KindCount, ...]:
        """Number of entries of each kind, in the order of ``KINDS``."""
        a, b, in_a, in_b = self.kinds_a, self.kinds_b, self.in_a, self.in_b
        columns = (a[in_a], b[in_b], a[in_a & ~in_b], b[in_b & ~in_a])
        every = [np.bincount(codes, minlength=len(KINDS)) for codes in columns]
        counts = (KindCount(kind, *map(int, row)) for kind, *row in zip(KINDS, *every, strict=True))
        return tuple(count for count in counts if count.a or count.b)

    def places(
        self, part: Part, most: int | None = None, *, kind: Kind | None = None
    ) -> NDArray[np.int64]:
        """Return the positions in ``tokens`` of the entries of ``part``, by ascending id.

        ``part``: ``common``, ``only_a`` or ``only_b``. The ids and kinds of ``common`` entries are
        those in A. ``kind``: return only entries of this kind. ``most``: the maximum number of
        positions.
        """
        mine, in_other, codes = self.union.a, self.in_b, self.kinds_a
        if part == "only_b":
            mine, in_other, codes = self.union.b, self.in_a, self.kinds_b
        places: NDArray[np.int64] = mine.numbers[in_other[mine.numbers] == (part == "common")]
        if kind is not None:
            places = places[codes[places] == CODES[kind]]
        return places[:most]

    def sample(self, part: Part, most: int, *, kind: Kind | None = None) -> list[bytes]:
        """Return the ``most`` entries of a part (see :meth:`places`) that have the lowest ids.

        Special entries are skipped unless ``kind`` requests them.
        """
        places = self.places(part, kind=kind)
        if kind is None:
            codes = self.kinds_b if part == "only_b" else self.kinds_a
            places = places[codes[places] != CODES["special"]]
        entries: list[bytes] = take(self.tokens, places[:most]).to_pylist()
        return entries

    def shifts(self, most: int) -> list[Shift]:
        """Return up to ``most`` shared entries, largest shift first, without special entries."""
        ranks = self.ranks
        places = ranks.largest(most, self.kinds_a[ranks.numbers] != CODES["special"])
        tokens = take(self.tokens, ranks.numbers[places]).to_pylist()
        columns = (ranks.a[places], ranks.b[places], ranks.shifts[places])
        return list(map(Shift, tokens, *(column.tolist() for column in columns)))

    def to_arrow(self, places: NDArray[np.int64] | None = None) -> pa.Table:
        """Return a table with a row for each distinct entry, or only for entries at ``places``.

        Columns: ``token`` (large_binary); ``in_a``, ``in_b``; ``id_a``, ``id_b``; ``kind_a``,
        ``kind_b`` (dictionary of string); ``rank_a``, ``rank_b``, ``shift`` as in :class:`Ranks`.
        Values that a side does not have are null.
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
        """Ranks in A, ranks in B and shifts of all tokens: three arrays of shape (u,).

        All three are 0 for a token that only one side contains.
        """
        ranks = self.ranks
        columns = []
        for values in (ranks.a, ranks.b, ranks.shifts):
            column = np.zeros(len(self.tokens), values.dtype)
            column[ranks.numbers] = values
            columns.append(column)
        return tuple(columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of :meth:`to_arrow` as a pandas data frame.

        Tokens are ``str``; bytes that are not UTF-8 are decoded with ``surrogateescape``. Ids and
        ranks have pandas' nullable type ``Int64``.
        """
        pandas = _import_library("pandas")
        nullable = {pa.int64(): pandas.Int64Dtype()}
        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=nullable.get)
        # object dtype: pandas' own strings must be UTF-8
        frame["token"] = pandas.Series(list(map(decode, frame["token"])), dtype=object)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the table of :meth:`to_arrow` as a Polars data frame.

        ``token`` has type ``Binary``, because tokens may be invalid UTF-8.
        """
        return cast("pl.DataFrame", _import_library("polars").from_arrow(self.to_arrow()))


def _import_library(library: Literal["pandas", "polars"]) -> Any:
    """Import an optional library. Raise :class:`VocabtoolError` if it is not installed."""
    try:
        return import_module(library)
    except ImportError as error:
        raise VocabtoolError(f"{library} is not installed: pip install {library}") from error


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
    as_stored: bool = False,
) -> Diff:
    """Compare two vocabularies.

    - ``a``, ``b``: A :class:`Vocabulary`, a path, or ``FILE#NAME`` for one of several vocabularies
      in a file.
    - ``fold``: Differences to ignore: any of ``case``, ``nfkc`` and ``markers``, as names or as one
      text (``"case,nfkc"``). ``markers`` is always among them if A or B has pieces with markers,
      unless ``as_stored``.
    - ``corpus``: Documents in which to count words and pieces. If A or B has pieces with markers,
      each side cuts the documents by its own rule, unless ``as_stored``. Otherwise, or if a side
      has no rule of its own, one rule cuts them for both, and the tokens that A knows and those
      that B knows are counted.
    - ``field``: The field of the documents that contains the text.
    - ``rule``: A rule that splits the documents into words for both. The default is ``keras``.
    - ``as_stored``: Compare entries byte for byte, and use one rule for both.

    Raises :class:`VocabtoolError` for an unreadable input, and ``ValueError`` for an unknown fold.
    """
    sources, sides = (a, b), (read(a), read(b))
    comparison = compare(sources, sides, fold, as_stored)
    if corpus is None:
        return comparison
    from vocabtool.documents.reading import ReadOptions, batches, names_of

    options = ReadOptions(field=field, on_duplicate=None)
    texts = (batch.texts for batch in batches(corpus, options))
    files = tuple(names_of(corpus) or ())
    return weigh(comparison, sources, sides, texts, files, rule=rule, as_stored=as_stored)


def read(source: Comparable) -> PickedVocabulary:
    """Return the vocabulary to compare, and warnings from reading its file."""
    return PickedVocabulary(source) if isinstance(source, Vocabulary) else pick(source)


def _label(source: Comparable) -> str:
    return source.name if isinstance(source, Vocabulary) else str(source)


def _folds_for(
    fold: str | Iterable[str], sides: Iterable[PickedVocabulary], as_stored: bool
) -> tuple[Fold, ...]:
    """Return the folds to apply: those of ``fold``, and ``markers`` if a side has a marker.

    Raises ``ValueError`` for an unknown fold.
    """
    folds = parse_folds(fold)
    marked = any(side.vocabulary.marker is not None for side in sides)
    return parse_folds((*folds, "markers")) if marked and not as_stored else folds


def weigh(
    comparison: Diff,
    sources: Sequence[Comparable],
    sides: Sequence[PickedVocabulary],
    texts: Iterable[pa.StringArray],
    files: tuple[str, ...] = (),
    *,
    rule: str | None = None,
    as_stored: bool = False,
) -> Diff:
    """Return ``comparison`` with counts of the words and pieces of texts.

    - ``sources``, ``sides``: as for :func:`compare`. ``rule``, ``as_stored``: as for :func:`diff`.
    - ``texts``: batches of texts. ``files``: the names of the files that contain them.
    """
    a, b = (side.vocabulary for side in sides)
    notes, folds = comparison.notes, comparison.fold
    if rule is None and not as_stored and (a.marker, b.marker) != (None, None):
        try:
            words = _own_words(sources[0], a), _own_words(sources[1], b)
        except VocabtoolError as error:
            notes += (f"the rule {RULE} cuts the corpus for both; no rule of its own: {error}",)
        else:
            return replace(comparison, cuts=count_cuts(*words, texts, folds=folds, sources=files))
    counter = UseCounter(a, b, rule=rule, folds=folds)
    counter.count(texts)
    return replace(comparison, use=counter.report(files), notes=notes)


def _own_words(source: Comparable, vocabulary: Vocabulary) -> Words:
    """Open a model with its own rule. Raise :class:`VocabtoolError` if it has none."""
    if isinstance(source, Vocabulary):
        raise VocabtoolError(f"{source.name}: a vocabulary without its model has no rule")
    path = source if isinstance(source, Path) else split_name(source)[0]
    return Words.of(path, name=vocabulary.name)


def compare(
    sources: Sequence[Comparable],
    sides: Sequence[PickedVocabulary],
    fold: str | Iterable[str] = (),
    as_stored: bool = False,
) -> Diff:
    """Return the comparison of two vocabularies that have been read.

    ``sides``: what :func:`read` returned for ``sources``; the rest as for :func:`diff`.
    """
    folds = _folds_for(fold, sides, as_stored)
    a, b = (side.vocabulary for side in sides)
    stored, markers = [arrow(each.stored) for each in (a, b)], (a.marker, b.marker)
    spelled = "markers" in folds and markers != (None, None)
    entries = stored
    if spelled:
        entries, markers = list(map(spell, stored, markers)), ("▁", "▁")
    union = before = Union.of(*entries)
    if folds and folds != ("markers",):
        union = Union.of(*(fold_entries(each, folds) for each in entries))
    codes = {marker: kinds(before, marker) for marker in dict.fromkeys(markers)}
    every = gains(before, *((None, None) if spelled else markers))
    one = _side(sources[0], a, stored[0], before.a, union.a, codes[markers[0]], len(union))
    other = _side(sources[1], b, stored[1], before.b, union.b, codes[markers[1]], len(union))
    (side_a, ids_a, kinds_a), (side_b, ids_b, kinds_b) = one, other
    return Diff(
        side_a,
        side_b,
        folds,
        tuple(gain for gain in every if not spelled or gain.fold != "markers"),
        union,
        ids_a,
        ids_b,
        kinds_a,
        kinds_b,
        notes=tuple(note for side in sides for note in side.notes),
    )


def _side(
    source: Comparable,
    a: Vocabulary,
    stored: pa.LargeBinaryArray,
    before: Members,
    forms: Members,
    codes: NDArray[np.uint8],
    count: int,
) -> tuple[Side, NDArray[np.int64], NDArray[np.uint8]]:
    """Return a :class:`Side`, and the id and the kind of each token: arrays of shape (``count``,).

    ``before``, ``forms``: the side's entries before and after the folds ``case`` and ``nfkc``.
    ``codes``: the kind of each token before. If folding makes several entries equal, the kind of
    the first one counts.
    """
    different, distinct = len(before.numbers), len(forms.numbers)
    label, order = _label(source), order_of(stored)
    counts = (len(a), distinct, len(a) - different, different - distinct)
    side = Side(label, a.name, a.kind, a.marker, *counts, order)
    ids, found = np.zeros(count, np.int64), np.full(count, NONE, np.uint8)
    ids[forms.numbers] = a.id_array()[forms.positions]
    first = np.searchsorted(before.positions, forms.positions)
    found[forms.numbers] = codes[before.numbers[first]]
    return side, ids, found


def order_of(entries: pa.LargeBinaryArray) -> Order:
    """Guess how the entries of a vocabulary are ordered."""
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


# ---- more than two vocabularies


class Pair(NamedTuple):
    """The comparison of two of several vocabularies.

    ``a`` and ``b`` are their labels. ``size_a`` and ``size_b`` are numbers of distinct entries.
    ``rho`` is Spearman's correlation of the ranks of the words that both contain; ``None`` if there
    are fewer than two such words.
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
    """The comparisons of all pairs of vocabularies, in input order; for ``notes`` see ``Diff``."""

    labels: tuple[str, ...]
    fold: tuple[Fold, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each pair; its columns are the fields of :class:`Pair`."""
        columns: list[Any] = list(zip(*self.pairs, strict=True)) or [()] * len(COLUMNS)
        return pa.table(dict(zip(COLUMNS, map(pa.array, columns), strict=True)))


def pairwise(
    sources: Sequence[Comparable], *, fold: str | Iterable[str] = (), as_stored: bool = False
) -> Pairs:
    """Compare every pair of several vocabularies. The arguments are those of :func:`diff`."""
    sides = [read(source) for source in sources]
    folds = _folds_for(fold, sides, as_stored)
    entries = []
    for vocabulary, _ in sides:
        stored = arrow(vocabulary.stored)
        if "markers" in folds:
            stored = spell(stored, vocabulary.marker)
        entries.append(fold_entries(stored, folds))
    labels = tuple(map(_label, sources))
    pairs = []
    for (label_a, a), (label_b, b) in combinations(zip(labels, entries, strict=True), 2):
        union = Union.of(a, b)
        size_a, size_b, ranks = len(union.a.numbers), len(union.b.numbers), Ranks(union)
        common = len(ranks)
        sizes = (size_a, size_b, common, size_a - common, size_b - common)
        pairs.append(Pair(label_a, label_b, *sizes, jaccard(common, size_a, size_b), ranks.rho))
    notes = tuple(note for side in sides for note in side.notes)
    return Pairs(labels, folds, tuple(pairs), notes)
