"""The fusions of two legs, as pure functions on arrays: higher is better, one element a candidate.

``similarities``: how near each candidate is to the query's vector, NaN for documents without one.
``bm25``: each candidate's BM25 score, 0 where the keyword leg did not give it.
A new fusion gets a name in ``choices.py``, and here a function and its line in :func:`fuse`.

Sources: Cormack, Clarke, Büttcher: Reciprocal Rank Fusion, SIGIR 2009; Bruch, Gai, Ingber: An
Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023 (the convex combination).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.search.settings import Settings
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

    def ranks(self) -> tuple[Places, Places]:
        """In the dense list and in the keyword leg's, shape (n,) each.

        From 1, equal scores share one; 0 for what is not in the list.
        """
        dense, keyword = np.zeros((2, len(self.rows)), np.int64)
        dense[: self.dense] = shared_ranks(self.similarities[: self.dense])
        places = self.keyword[: self.listed]
        keyword[places] = shared_ranks(self.bm25[places])
        return dense, keyword


def fuse(
    candidates: Candidates, settings: Settings, m: float, subword: bool
) -> tuple[Fused, float | None, float | None]:
    """Scores by the fusion of the settings; ``a``, and what the keyword leg counts in the end.

    With ``coverage`` that is ``a``, and of what is left to 1 the share ``m`` of the query's idf
    mass that lies in words which the vectors do not show; a leg that gave nothing leaves it to the
    other. Both are ``None`` where a fusion has no such number. ``subword``: of what kind the model
    is known to be.
    """
    match settings.fusion:
        case "dense":
            return candidates.similarities.astype(np.float64), None, None
        case "keyword":
            return candidates.bm25.astype(np.float64), None, None
        case "rrf":
            return reciprocal_ranks(*candidates.ranks(), settings.k_rrf), None, None
    a = weight = settings.weight(subword)
    if settings.fusion == "coverage":
        weight = a + (1 - a) * m
    if not candidates.dense:
        weight = 1.0
    elif not len(candidates.keyword):
        weight = 0.0
    return convex_combination(candidates.similarities, candidates.bm25, weight), a, weight


def convex_combination(similarities: Scores, bm25: Scores, weight: float) -> Fused:
    """Convex combination: ``weight`` is that of the keyword leg.

    Similarities count from 0, the lowest, to 1, the best: 0 without a vector, 1 where all are
    equal. BM25 scores from 0, no word found, to 1, the best: a single document found gets 1.
    """
    near = similarities.astype(np.float64)
    if len(near):
        low, high = np.fmin.reduce(near), np.fmax.reduce(near)
        if high > low:
            near -= low
            near /= high - low
            np.fmax(near, 0, out=near)  # of NaN and 0 the number
        else:  # all equal, or not a single vector
            near = np.equal(near, high).astype(np.float64)
    found = bm25.astype(np.float64)
    best = float(bm25.max(initial=0))
    if best > 0:
        found /= best
    return (1 - weight) * near + weight * found


def reciprocal_ranks(dense_ranks: Places, keyword_ranks: Places, k: int) -> Fused:
    """The sum of 1 / (k + rank) over the legs; ranks from 1, 0 where a leg has no such document."""
    fused = np.zeros(len(dense_ranks))
    for ranks in (dense_ranks, keyword_ranks):
        fused += np.divide(1.0, k + ranks, out=np.zeros(len(ranks)), where=ranks > 0)
    return fused


def shared_ranks(scores: Scores) -> Places:
    """Ranks from 1 of scores that are sorted, best first; equal ones share the best of theirs."""
    return first_of_ties(scores) + 1


def first_of_ties(scores: NDArray[np.floating], tiers: NDArray[np.int8] | None = None) -> Places:
    """For each place of scores sorted best first, the first that it ties with.

    Documents of two ``tiers`` never tie.
    """
    places = np.arange(len(scores))
    if len(scores) < 2:
        return places
    scale = max(1.0, abs(float(scores[0])), abs(float(scores[-1])))
    tied = scores[:-1] - scores[1:] <= NOISE * scale
    if tiers is not None:
        tied &= tiers[1:] == tiers[:-1]
    places[1:][tied] = 0
    return np.maximum.accumulate(places)


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
    falling = scores[order]
    runs = first_of_ties(falling, tiers[order])
    is_tied = runs != np.arange(len(runs))
    if np.count_nonzero(is_tied[: k + 1]):
        end = int(np.searchsorted(runs, runs[min(k, len(runs)) - 1], "right"))
        is_shared = is_tied | np.append(is_tied[1:], False)
        at = np.flatnonzero(is_shared[:end])
        keys = list(zip(runs[at].tolist(), ids(rows[order[at]]), strict=True))
        order[at] = order[at][sorted(range(len(at)), key=keys.__getitem__)]
        falling = falling[runs]
    return order[:k], falling[:k]
