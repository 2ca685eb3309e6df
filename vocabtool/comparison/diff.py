"""The result of a comparison of two vocabularies: counts, entries, kinds and ranks.

``compare.py`` makes the result. ``reports/comparison.py`` renders the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.choices import Fold
from vocabtool.comparison.cuts import Cuts
from vocabtool.comparison.entries import (
    CODES,
    KINDS,
    Gain,
    Kind,
    Union,
    jaccard,
    take,
)
from vocabtool.comparison.use import Use
from vocabtool.system.native_import import import_data_frames
from vocabtool.vocabulary import Kind as VocabularyKind
from vocabtool.vocabulary import Marker, decode

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


Part = Literal["common", "only_a", "only_b"]
# The apparent order of ids: by frequency (frequent words are short: Zipf's law of abbreviation), by
# the alphabet, or unclear. No file format guarantees an order.
Order = Literal["frequency", "alphabet", "unclear"]
NONE: Final = 255  # the kind of an entry that a side does not contain


class Side(NamedTuple):
    """One of the two compared vocabularies.

    - ``label``: The path or name that the caller passed.
    - ``size``: Number of stored entries: ``distinct + duplicates + merged``.
    - ``distinct``: Number of entries that are compared.
    - ``duplicates``: Number of entries with the same bytes or text as an earlier entry.
    - ``merged``: Number of entries that equal an earlier entry only after folding.
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
    """Ranks of the c words that A and B share.

    In each vocabulary, the shared word with the lowest id has rank 1; entries of only one side are
    not counted. Ranks are meaningful only if ids are ordered by frequency: see ``Side.order``.
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
        """Return the positions of the shared words with the largest shifts, largest first.

        ``most``: the maximum number of positions. ``among``: bool, shape (c,), the words to
        consider; by default all. Words with equal ranks are left out. Equal shifts are in A's
        order.
        """
        far = np.abs(self.shifts)
        if among is not None:
            far[~among] = 0
        order = np.argsort(-far, kind="stable")[:most]
        return order[far[order] > 0]


@dataclass(frozen=True, eq=False)
class Diff:
    """The result of comparing two vocabularies, A and B.

    - ``fold``: Folds that were applied before comparing. ``markers`` means that pieces were
      compared by their text, without markers such as ``##``.
    - ``gains``: How many more entries match after each fold, and after all folds. ``markers`` is
      left out if pieces were compared by their text.
    - ``tokens``: large_binary, length u: all distinct entries: the entries of A in id order, then
      the entries that only B contains. If pieces were compared by their text, each token is this
      text, with ``▁`` before it if the piece can be a whole word.
    - ``in_a``, ``in_b``: bool, shape (u,), whether A and B contain each token.
    - ``ids_a``, ``ids_b``: int64, shape (u,), the first id of each token; 0 if the side does not
      contain the token.
    - ``kinds_a``, ``kinds_b``: uint8, shape (u,), the kind that each token had before the folds
      ``case`` and ``nfkc``, as a position in ``KINDS``; ``NONE`` if the side does not contain the
      token. If these folds make several entries equal, the kind of the first entry counts.
    - ``use``: Counts of a corpus, split by one rule for both sides, or ``None``.
    - ``cuts``: Counts of a corpus, split by the rule of each side, or ``None``.
    - ``notes``: Which parts of the files could not be read, and which vocabulary was chosen from a
      file with several.
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
        from vocabtool.reports.comparison import diff_html

        return diff_html(self)

    @property
    def by_text(self) -> bool:
        """Whether pieces were compared by their text, without markers such as ``##``."""
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
        """Return the positions in ``tokens`` of some entries, by ascending id.

        ``part``: ``common``, ``only_a`` or ``only_b``. ``common`` uses the ids and kinds of A.
        ``most``: the maximum number of positions. ``kind``: return only entries of this kind.
        """
        mine, in_other, codes = self.union.a, self.in_b, self.kinds_a
        if part == "only_b":
            mine, in_other, codes = self.union.b, self.in_a, self.kinds_b
        places: NDArray[np.int64] = mine.numbers[in_other[mine.numbers] == (part == "common")]
        if kind is not None:
            places = places[codes[places] == CODES[kind]]
        return places[:most]

    def sample(self, part: Part, most: int, *, kind: Kind | None = None) -> list[bytes]:
        """Return the first entries of a part, as bytes. For arguments see :meth:`places`.

        Special entries are skipped, except for ``kind="special"``.
        """
        places = self.places(part, kind=kind)
        if kind is None:
            codes = self.kinds_b if part == "only_b" else self.kinds_a
            places = places[codes[places] != CODES["special"]]
        entries: list[bytes] = take(self.tokens, places[:most]).to_pylist()
        return entries

    def shifts(self, most: int) -> list[Shift]:
        """Return shared entries, largest shift first, without special entries.

        ``most``: the maximum number of entries.
        """
        ranks = self.ranks
        places = ranks.largest(most, self.kinds_a[ranks.numbers] != CODES["special"])
        tokens = take(self.tokens, ranks.numbers[places]).to_pylist()
        columns = (ranks.a[places], ranks.b[places], ranks.shifts[places])
        return list(map(Shift, tokens, *(column.tolist() for column in columns)))

    def to_arrow(self, places: NDArray[np.int64] | None = None) -> pa.Table:
        """Return a table with a row for each distinct entry.

        ``places``: positions in ``tokens`` of the entries to return, by default all.
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

        For a token that only A or only B contains, they are 0.
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
        pandas = import_data_frames("pandas")
        nullable = {pa.int64(): pandas.Int64Dtype()}
        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=nullable.get)
        # object dtype: pandas' own strings must be UTF-8
        frame["token"] = pandas.Series(list(map(decode, frame["token"])), dtype=object)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the table of :meth:`to_arrow` as a Polars data frame.

        ``token`` has type ``Binary``, because tokens may be invalid UTF-8.
        """
        return cast("pl.DataFrame", import_data_frames("polars").from_arrow(self.to_arrow()))


def _kind_column(codes: NDArray[np.uint8]) -> pa.DictionaryArray:
    missing = codes == NONE
    places = pa.array(np.where(missing, 0, codes).astype(np.int8), mask=missing)
    return pa.DictionaryArray.from_arrays(places, pa.array(KINDS))
