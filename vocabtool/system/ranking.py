"""Rows of an index in the order of their scores: what each leg of a search gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Mask = NDArray[np.bool_]  # shape (rows,): which rows of an index are meant


class RankedRows(NamedTuple):
    """``rows``: int64, shape (n,), each once; ``scores``: float32, shape (n,), higher is better.

    Best first, equal scores by row.
    """

    rows: Rows
    scores: Scores

    @classmethod
    def none(cls) -> RankedRows:
        """No row at all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))

    @classmethod
    def of(cls, rows: Rows, scores: Scores, limit: int) -> RankedRows:
        """The best ``limit`` of rows in any order."""
        order = np.lexsort((rows, -scores))[:limit]
        return cls(rows[order], scores[order])

    @classmethod
    def of_ascending(cls, rows: Rows, scores: Scores, limit: int) -> RankedRows:
        """The same of rows that ascend, in less time."""
        order = (-scores).argsort(kind="stable")[:limit]
        return cls(rows[order], scores[order])

    @classmethod
    def of_falling(cls, rows: Rows, scores: Scores, limit: int) -> RankedRows:
        """The same of rows that come best first, equal scores in any order."""
        out_of_order = (scores[1:] == scores[:-1]) & (rows[1:] < rows[:-1])
        if np.count_nonzero(out_of_order):
            return cls.of(rows, scores, limit)
        return cls(rows[:limit], scores[:limit])


def are_among(rows: Rows, others: Rows) -> Mask:
    """Which of ``rows`` are among ``others``: ``np.isin``, sooner for short lists."""
    if not len(others):
        return np.zeros(len(rows), np.bool_)
    ascending = np.sort(others)
    at = ascending.searchsorted(rows)
    at[at == len(others)] = 0
    return np.equal(ascending[at], rows)


def mask_of(rows: Rows) -> Mask:
    """Marks these rows; as long as the highest wants, further ones are not marked either."""
    mask = np.zeros(int(rows.max(initial=-1)) + 1, np.bool_)
    mask[rows] = True
    return mask


class Near(NamedTuple):
    """What the vector leg gives: the ``nearest`` rows, and ``similarities`` of rows asked about.

    ``similarities``: float32, one for each of these rows, found or not: how near it is, exactly;
    NaN where it or the query has no vector.
    """

    nearest: RankedRows
    similarities: Scores
