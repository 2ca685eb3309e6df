"""The fusions of two legs, as pure functions on arrays: higher is better, one element a candidate.

``similarities``: how near each candidate is to the query's vector, NaN for documents without one.
``bm25``: each candidate's BM25 score, 0 where the keyword leg did not give it.
Which candidates there are is in ``candidates.py``, what words weigh in ``weighing.py``.

Sources: Cormack, Clarke, Büttcher: Reciprocal Rank Fusion, SIGIR 2009; Bruch, Gai, Ingber: An
Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023 (the convex combination).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.system.ranked import Scores

Fused = NDArray[np.float64]

NOISE: Final = 1e-6  # scores that differ by less, or by less than this share of the best, are ties


def coverage_weight(a: float, m: float) -> float:
    """Weight of the keyword leg: ``a``, and of what is left to 1 the share ``m``.

    ``m``: the share of the query's idf mass that lies in words which the vectors do not show.
    """
    return a + (1 - a) * m


def weighted(similarities: Scores, bm25: Scores, weight: float) -> Fused:
    """Convex combination: ``weight`` is that of the keyword leg.

    This is ``convex`` with ``weight`` = a, and ``coverage`` with :func:`coverage_weight`.
    """
    return (1 - weight) * shares_of_range(similarities) + weight * shares_of_best(bm25)


def reciprocal_ranks(
    dense_ranks: NDArray[np.int64], keyword_ranks: NDArray[np.int64], k: int
) -> Fused:
    """The sum of 1 / (k + rank) over the legs; ranks from 1, 0 where a leg has no such document."""
    return _reciprocal(dense_ranks, k) + _reciprocal(keyword_ranks, k)


def shares_of_range(similarities: Scores) -> Fused:
    """From 0, the lowest, to 1, the best. Documents without a vector get 0, equal ones 1."""
    if not len(similarities):
        return np.empty(0)
    wide = similarities.astype(np.float64)
    low, high = np.fmin.reduce(wide), np.fmax.reduce(wide)
    if not high > low:  # all equal, or not a single vector
        return np.equal(wide, high).astype(np.float64)
    wide -= low
    wide /= high - low
    np.fmax(wide, 0, out=wide)  # of NaN and 0 the number
    return wide


def shares_of_best(bm25: Scores) -> Fused:
    """From 0, no word found, to 1, the best. A single document that was found gets 1."""
    best = bm25.max(initial=0)
    if best <= 0:
        return np.zeros(len(bm25))
    return bm25.astype(np.float64) / float(best)


def shared_ranks(scores: Scores) -> NDArray[np.int64]:
    """Ranks from 1 of scores that are sorted, best first; equal ones share the best of theirs."""
    if not len(scores):
        return np.zeros(0, np.int64)
    return first_of_ties(is_tied(scores)) + 1


def first_of_ties(tied: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each place of a list, the first that it ties with; ``tied``: each but the first's."""
    places = np.arange(len(tied) + 1)
    places[1:][tied] = 0
    return np.maximum.accumulate(places)


def is_tied(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Of scores sorted best first: whether each but the first ties with the one before it."""
    if len(scores) < 2:
        return np.zeros(0, np.bool_)
    scale = max(1.0, abs(float(scores[0])), abs(float(scores[-1])))
    return scores[:-1] - scores[1:] <= NOISE * scale


def _reciprocal(ranks: NDArray[np.int64], k: int) -> Fused:
    return np.divide(1.0, k + ranks, out=np.zeros(len(ranks)), where=ranks > 0)
