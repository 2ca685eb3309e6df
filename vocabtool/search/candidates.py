"""The documents that are ranked: what either leg gave, each with all that a fusion asks of it."""

from __future__ import annotations

from math import isnan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.search.fusion import shared_ranks
from vocabtool.system.ranked import Near, Ranked, Rows, Scores

Places = NDArray[np.int64]
FEW: Final = 4


class Candidates(NamedTuple):
    """``n`` documents: first the dense leg's in its order, then what only the keyword leg gave.

    ``rows``: int64, shape (n,). ``dense``, ``keyword``: the legs' lists.
    ``places``: int64, one for each of ``keyword``: where among the candidates it stands.
    ``listed``: how many of ``keyword`` have a rank; the others were only found by identifiers.
    ``similarities``: float32, shape (n,): how near each is to the vector, exactly; NaN where
    either has none.
    """

    rows: Rows
    dense: Ranked
    keyword: Ranked
    places: Places
    listed: int
    similarities: Scores

    def bm25(self) -> Scores:
        """Float32, shape (n,): 0 for what only the dense leg gave."""
        scores = np.zeros(len(self.rows), np.float32)
        scores[self.places] = self.keyword.scores
        return scores

    def raw_scores(self, places: Places) -> list[tuple[float | None, float | None]]:
        """Similarity and BM25 of the candidates at ``places``; ``None`` where there is none."""
        near, bm25 = self.similarities[places].tolist(), self.bm25()[places].tolist()
        return [
            (None if isnan(similarity) else similarity, score or None)
            for similarity, score in zip(near, bm25, strict=True)
        ]

    def dense_ranks(self) -> NDArray[np.int64]:
        """Shape (n,): from 1, equal scores share one; 0 for what is not in the list."""
        ranks = np.zeros(len(self.rows), np.int64)
        ranks[: len(self.dense.rows)] = shared_ranks(self.dense.scores)
        return ranks

    def keyword_ranks(self) -> NDArray[np.int64]:
        """The same of the keyword leg."""
        ranks = np.zeros(len(self.rows), np.int64)
        ranks[self.places[: self.listed]] = shared_ranks(self.keyword.scores[: self.listed])
        return ranks


def joined(near: Near, keyword: Ranked, listed: int) -> Candidates:
    """The union of both lists; ``near.similarities``: of the keyword leg's."""
    dense, others = near
    count = len(dense.rows)
    if not count:
        everything = np.arange(len(keyword.rows))
        return Candidates(keyword.rows, dense, keyword, everything, listed, others)
    order = dense.rows.argsort()
    ascending = dense.rows[order]
    at = ascending.searchsorted(keyword.rows)
    at[at == count] = 0
    new = ascending[at] != keyword.rows
    places = np.where(new, count - 1 + new.cumsum(), order[at])
    rows = np.concatenate((dense.rows, keyword.rows[new]))
    similarities = np.concatenate((dense.scores, others[new]))
    return Candidates(rows, dense, keyword, places, listed, similarities)


def are_among(rows: Rows, others: Rows) -> NDArray[np.bool_]:
    """Which of ``rows`` are among ``others``: what ``np.isin`` tells, for short lists sooner."""
    if len(others) <= FEW:
        found = np.zeros(len(rows), np.bool_)
        for other in others.tolist():
            found |= rows == other
        return found
    ascending = np.sort(others)
    at = ascending.searchsorted(rows)
    at[at == len(others)] = 0
    return np.equal(ascending[at], rows)


def mask_of(rows: Rows) -> NDArray[np.bool_]:
    """Marks these rows; as long as the highest wants, further ones are not marked either."""
    mask = np.zeros(int(rows.max(initial=-1)) + 1, np.bool_)
    mask[rows] = True
    return mask
