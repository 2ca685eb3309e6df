"""More than two vocabularies: each compared with each of those behind it, in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vocabtool.comparison.diff import Comparable, label, taken
from vocabtool.comparison.entries import arrow
from vocabtool.comparison.folding import Fold, checked, folded
from vocabtool.comparison.gains import jaccard
from vocabtool.comparison.ranks import Ranks
from vocabtool.comparison.union import Union

if TYPE_CHECKING:
    import pyarrow as pa

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
        import pyarrow as pa

        columns: list[Any] = list(zip(*self.pairs, strict=True)) or [()] * len(COLUMNS)
        return pa.table(dict(zip(COLUMNS, map(pa.array, columns), strict=True)))


def pairwise(sources: Sequence[Comparable], *, fold: str | Iterable[str] = ()) -> Pairs:
    """Compare several vocabularies two by two; arguments as those of ``diff``."""
    folds = checked(fold)
    every = [taken(source) for source in sources]
    found = [each.vocabulary for each in every]
    notes = tuple(note for each in every for note in each.notes)
    entries = [folded(arrow(each.stored), folds, each.marker) for each in found]
    labels = tuple(map(label, sources))
    pairs = tuple(
        _pair((labels[i], labels[j]), Union.of(entries[i], entries[j]))
        for i, j in combinations(range(len(found)), 2)
    )
    return Pairs(labels, folds, pairs, notes)


def _pair(labels: tuple[str, str], union: Union) -> Pair:
    size_a, size_b = len(union.a.numbers), len(union.b.numbers)
    ranks = Ranks(union)
    common = len(ranks)
    return Pair(
        *labels,
        size_a,
        size_b,
        common,
        size_a - common,
        size_b - common,
        jaccard(common, size_a, size_b),
        ranks.rho,
    )
