"""More than two vocabularies: each compared with each of those behind it, in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import pyarrow as pa

from vocabtool.comparison.diff import Comparable, label, read
from vocabtool.comparison.entries import Union, arrow
from vocabtool.comparison.folds import fold_entries, jaccard, parse_folds
from vocabtool.comparison.options import Fold
from vocabtool.comparison.ranks import Ranks

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
