"""Rows of an index ranked by score: the result of a keyword search or a vector search."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Mask = NDArray[np.bool_]  # shape (rows,): True for the selected rows of an index


class RankedRows(NamedTuple):
    """Row numbers and their scores, best first; rows with equal scores are in ascending order.

    ``rows``: int64, shape (n,), distinct; ``scores``: float32, shape (n,), higher is better.
    """

    rows: Rows
    scores: Scores

    @classmethod
    @cache
    def none(cls) -> RankedRows:
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))

    @classmethod
    def of(cls, rows: Rows, scores: Scores, limit: int) -> RankedRows:
        order = np.lexsort((rows, -scores))[:limit]
        return cls(rows[order], scores[order])


def are_among(rows: Rows, others: Rows) -> Mask:
    """Do the same as ``np.isin(rows, others)``, but faster for short arrays."""
    if not len(others):
        return np.zeros(len(rows), np.bool_)
    ascending = np.sort(others)
    at = ascending.searchsorted(rows)
    at[at == len(others)] = 0
    return np.equal(ascending[at], rows)
