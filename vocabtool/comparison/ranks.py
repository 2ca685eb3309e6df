"""Ranks of common words: whether both vocabularies put the same words first.

That says something of use where ids follow frequency, which no file promises: :func:`order_of`
guesses, and a report says what was guessed beside each figure.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.comparison.entries import Members, Union, contents, take

# In what order the ids are: by frequency, as far as one can see (frequent words are short: Zipf's
# law of abbreviation), by the alphabet, or nothing tells.
Order = Literal["frequency", "alphabet", "unclear"]
FEWEST: Final = 100  # entries that tell an order
ASCENDING: Final = 0.95  # of neighbours, in a vocabulary by the alphabet
NEIGHBOURS: Final = 1 << 14  # pairs of them that are looked at, evenly spread: these tell enough
SHORTER: Final = 0.9  # times as long as all entries are those of the first tenth, at most


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


class Ranks:
    """The c common words by rank: their places in id order among the common words only, from 1.

    So what stands between them, special entries for example, moves no rank.
    """

    def __init__(self, union: Union) -> None:
        self.numbers = _common(union.a, union.in_b)  # of the union's tokens, in A's order
        rank = np.zeros(len(union), np.int64)
        rank[_common(union.b, union.in_a)] = np.arange(1, len(self.numbers) + 1)
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
        some = np.flatnonzero(far)
        if most < len(some):
            least = np.partition(far[some], len(some) - most - 1)[len(some) - most :]
            some = some[far[some] >= least.min(initial=np.inf)]
        return some[np.argsort(-far[some], kind="stable")][:most]


def _common(members: Members, in_other: NDArray[np.bool_]) -> NDArray[np.int64]:
    return members.numbers[in_other[members.numbers]]
