"""The vector leg of a search: candidates by their codes, then exact scores from the raw vectors.

Rows without codes (of small indexes all, of large ones the newest) are searched exactly, and so
are the few rows that a strict mask leaves. Where lists hold too few allowed rows, more of them
are visited.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.vectors.cost import by_codes, exactly
from vocabtool.index.vectors.exact import KEPT_BYTES, ExactSearch, among_rows, first, merged, scored
from vocabtool.index.vectors.facts import CodeFacts
from vocabtool.index.vectors.fast_scan import FastScan
from vocabtool.index.vectors.metric import Metric, prepared_query
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.system.ranked import Near, Ranked, Rows, Scores


class VectorLeg:
    """``raw``: all rows; ``codes``: of the first of them, with the ``facts`` they were built by.

    ``kept_bytes``: how much memory the vectors of the other rows may take. Several threads may
    ask at a time.
    """

    def __init__(
        self,
        raw: RawVectors,
        metric: Metric,
        codes: FastScan | None = None,
        facts: CodeFacts | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        if (codes is None) != (facts is None):
            raise ValueError("codes and their facts come together")
        self.raw, self._metric = raw, metric
        self._codes, self._facts = codes, facts
        self._coded = codes.rows if codes else 0
        self._tail = ExactSearch(raw, self._coded, raw.count, metric, kept_bytes)

    def search(self, vector: Vectors, limit: int, among: NDArray[np.bool_] | None = None) -> Ranked:
        """The nearest rows to a vector of shape (dim,), scored exactly.

        ``among``: a mask over the rows, which may be shorter than the rows are many; what lies
        past its end is never found. Neither are zero vectors, and nothing is near a zero vector.
        Raises :class:`ValueError` for a vector of another shape, NaN and infinity.
        """
        return self.near(vector, Ranked.none().rows, limit, among).nearest

    def near(
        self, vector: Vectors, rows: Rows, limit: int, among: NDArray[np.bool_] | None = None
    ) -> Near:
        """What :meth:`search` finds, and how near some ``rows`` are, whatever ``among`` says.

        NaN for zero vectors, and of all rows where ``vector`` is one.
        """
        query = self._query(vector)
        if not np.count_nonzero(query):
            return Near(Ranked.none(), np.full(len(rows), np.nan, np.float32))
        if limit < 1:
            return Near(Ranked.none(), self._scored(query, rows))
        allowed = self._allowed(among)
        if self._codes is None:
            found = self._tail.search(query, limit, allowed)
            return Near(found, self._scored_but(found, query, rows))
        if allowed is not None and self._few(self._codes, limit, int(np.count_nonzero(allowed))):
            left = np.flatnonzero(allowed)
            found = among_rows(self.raw, left, query, limit, self._metric)
            return Near(found, self._scored(query, rows))
        return self._by_codes(self._codes, query, rows, limit, allowed)

    def _query(self, vector: Vectors) -> Vectors:
        if np.shape(vector) != (self.raw.dim,):
            raise ValueError(f"wanted a vector of {self.raw.dim:,} numbers, got {np.shape(vector)}")
        return prepared_query(vector, self._metric)

    def _allowed(self, among: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """A mask as long as the rows, ``None`` where it allows all of them."""
        count = self.raw.count
        if among is None or (len(among) >= count and among[:count].all()):
            return None
        if len(among) >= count:
            return among[:count]
        return np.concatenate([among, np.zeros(count - len(among), np.bool_)])

    def _candidates(self, limit: int) -> int:
        return max(limit, self._facts.candidates if self._facts else 0)

    def _few(self, codes: FastScan, limit: int, left: int) -> bool:
        """Whether so few rows are left that it is cheaper to compare all of them."""
        share = min(1.0, self._probes(left) / codes.lists)
        return exactly(left, self.raw.dim) <= by_codes(
            codes.rows * share, min(left, self._candidates(limit)), self.raw.dim
        )

    def _scored(self, query: Vectors, rows: Rows) -> Scores:
        return scored(self.raw, rows, query, self._metric)

    def _scored_but(self, found: Ranked, query: Vectors, rows: Rows) -> Scores:
        """The same; what was found is not read again."""
        if not len(rows):
            return np.empty(0, np.float32)
        known = np.full(self.raw.count, np.nan, np.float32)
        known[found.rows] = found.scores
        scores: Scores = known[rows]
        others = np.flatnonzero(np.isnan(scores))
        scores[others] = self._scored(query, rows[others])
        return scores

    def _by_codes(
        self,
        codes: FastScan,
        query: Vectors,
        rows: Rows,
        limit: int,
        allowed: NDArray[np.bool_] | None,
    ) -> Near:
        """Candidates and ``rows`` are read together; rows without codes are all compared."""
        candidates = self._candidate_rows(codes, query, limit, allowed)
        scores = self._scored(query, np.concatenate((candidates, rows)))
        others = scores[len(candidates) :]
        there = np.flatnonzero(~np.isnan(scores[: len(candidates)]))  # all, but in damaged files
        found = first(candidates[there], scores[there], limit)
        if self._coded < self.raw.count:
            found = merged([found, self._tail.search(query, limit, allowed)], limit)
        return Near(found, others)

    def _candidate_rows(
        self, codes: FastScan, query: Vectors, limit: int, allowed: NDArray[np.bool_] | None
    ) -> Rows:
        """What seems nearest, ascending; lists are visited until enough rows are found."""
        coded = None if allowed is None else allowed[: self._coded]
        left = self._coded if coded is None else int(np.count_nonzero(coded))
        probes = self._probes(left)
        while True:
            found = codes.candidates(query[np.newaxis], self._candidates(limit), probes, coded)[0]
            rows: Rows = np.sort(found[found >= 0])
            if len(rows) >= min(limit, left) or probes >= codes.lists:
                return rows
            probes *= 4

    def _probes(self, left: int) -> int:
        """More where a mask leaves few rows in each list, so that as many are looked at."""
        return self._facts.probes * self._coded // max(1, left) if self._facts else 1
