"""The fusions of two legs, as pure functions on arrays: higher is better, one element a candidate.

``similarities``: how near each candidate is to the query's vector, NaN for documents without one.
``bm25``: each candidate's BM25 score, 0 where the keyword leg did not give it.
A new fusion gets a function here, a name in ``settings.py`` and a case in ``search.py``.

Sources: Cormack, Clarke, Büttcher: Reciprocal Rank Fusion, SIGIR 2009; Bruch, Gai, Ingber: An
Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023 (the convex combination).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.system.ranking import Near, RankedRows, Rows, Scores

Fused = NDArray[np.float64]
Places = NDArray[np.int64]

NOISE: Final = 1e-6  # scores that differ by less, or by less than this share of the best, are ties


@dataclass(frozen=True, slots=True)
class Candidates:
    """``n`` documents: first the dense leg's in its order, then what only the keyword leg gave.

    ``rows``: int64, shape (n,). ``similarities``: float32, shape (n,): how near each is to the
    vector, exactly. ``bm25``: float32, shape (n,). ``dense``: how many the dense leg gave.
    ``keyword``: int64: where among the candidates those that the keyword leg gave stand, in its
    order; the first ``listed`` of them have a rank, the others were only found by identifiers.
    """

    rows: Rows
    similarities: Scores
    bm25: Scores
    dense: int
    keyword: Places
    listed: int

    @classmethod
    def union(cls, near: Near, keyword: RankedRows, listed: int) -> Candidates:
        """The union of both lists; ``near.similarities``: of the keyword leg's rows."""
        dense, others = near
        order = dense.rows.argsort()
        ascending = dense.rows[order]
        at = ascending.searchsorted(keyword.rows)
        at[at == len(ascending)] = 0
        new = ascending[at] != keyword.rows if len(ascending) else np.ones(len(at), np.bool_)
        rows = np.concatenate((dense.rows, keyword.rows[new]))
        places = len(ascending) - 1 + new.cumsum()
        places[~new] = order[at[~new]]
        bm25 = np.zeros(len(rows), np.float32)
        bm25[places] = keyword.scores
        similarities = np.concatenate((dense.scores, others[new]))
        return cls(rows, similarities, bm25, len(dense.rows), places, listed)

    def dense_ranks(self) -> NDArray[np.int64]:
        """Shape (n,): from 1, equal scores share one; 0 for what is not in the list."""
        ranks = np.zeros(len(self.rows), np.int64)
        ranks[: self.dense] = shared_ranks(self.similarities[: self.dense])
        return ranks

    def keyword_ranks(self) -> NDArray[np.int64]:
        """The same of the keyword leg."""
        ranks = np.zeros(len(self.rows), np.int64)
        places = self.keyword[: self.listed]
        ranks[places] = shared_ranks(self.bm25[places])
        return ranks


def coverage_weight(a: float, m: float) -> float:
    """Weight of the keyword leg: ``a``, and of what is left to 1 the share ``m``.

    ``m``: the share of the query's idf mass that lies in words which the vectors do not show.
    """
    return a + (1 - a) * m


def convex_combination(similarities: Scores, bm25: Scores, weight: float) -> Fused:
    """Convex combination: ``weight`` is that of the keyword leg.

    This is ``convex`` with ``weight`` = a, and ``coverage`` with :func:`coverage_weight`.
    """
    return (1 - weight) * shares_of_range(similarities) + weight * shares_of_best(bm25)


def reciprocal_ranks(
    dense_ranks: NDArray[np.int64], keyword_ranks: NDArray[np.int64], k: int
) -> Fused:
    """The sum of 1 / (k + rank) over the legs; ranks from 1, 0 where a leg has no such document."""
    fused = np.zeros(len(dense_ranks))
    for ranks in (dense_ranks, keyword_ranks):
        fused += np.divide(1.0, k + ranks, out=np.zeros(len(ranks)), where=ranks > 0)
    return fused


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


def best_places(
    rows: Rows,
    scores: Fused,
    tiers: NDArray[np.int8],
    k: int,
    ids: Callable[[Rows], list[str]],
    *,
    keywords_alone: bool = False,
) -> tuple[Places, Fused]:
    """The places of the first ``k`` candidates by tier, score (highest first) and id.

    With their scores: of a run of ties every score becomes that of its best, so that within a tier
    scores never rise. ``ids`` is asked only for documents whose scores tie, and only where that
    decides. ``keywords_alone``: vectors have no say, so that what scores 0 is left out.
    """
    order = scores.argsort()[::-1]  # in any order where they tie
    if keywords_alone:
        order = order[: int(np.count_nonzero(scores > 0))]
    if np.count_nonzero(tiers):
        order = order[np.argsort(-tiers[order], kind="stable")]
    falling, tier = scores[order], tiers[order]
    tied = is_tied(falling)
    tied &= tier[1:] == tier[:-1]  # documents of two tiers never tie
    if np.count_nonzero(tied[:k]):
        runs = first_of_ties(tied)
        end = int(np.searchsorted(runs, runs[min(k, len(runs)) - 1], "right"))
        is_shared = np.append(tied, False) | np.append(False, tied)
        at = np.flatnonzero(is_shared[:end])
        keys = list(zip(runs[at].tolist(), ids(rows[order[at]]), strict=True))
        order[at] = order[at][sorted(range(len(at)), key=keys.__getitem__)]
        falling = falling[runs]
    return order[:k], falling[:k]
