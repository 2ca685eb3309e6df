"""Search the vectors of an index: find candidates by their codes, then compute exact scores.

All rows without codes are compared exactly. If a mask allows only a few rows, all of them are
compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Vectors
from vocabtool.index.raw_vectors import MAX_LENGTH, RawVectors, prepare, similarities
from vocabtool.index.vector_codes import REFINED, CodeFacts, VectorCodes
from vocabtool.system.ranking import Mask, Near, RankedRows, Rows, Scores

KEPT_BYTES: Final = 256 << 20  # of vectors that are cached in memory as float32
BATCH_BYTES: Final = 16 << 20  # of vectors that are read at a time by row number
BATCH_ROWS: Final = 4096  # rows scored exactly at a time
SINGLE: Final = 2.0**-23  # the spacing of single precision numbers at 1


class VectorLeg:
    """The vectors of a commit. Several threads may search at the same time.

    ``codes``: compressed vectors of the first rows. ``kept_bytes``: maximum size of the cache for
    vectors without codes.
    """

    def __init__(
        self,
        raw: RawVectors,
        metric: Metric,
        codes: VectorCodes | None = None,
        facts: CodeFacts | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.raw, self._metric = raw, metric
        self.codes, self._facts = codes, facts
        self._coded = codes.rows if codes else 0
        self._kept_bytes = kept_bytes
        self._kept: Block | None = None  # of the rows without codes, read when first needed
        self._lock = Lock()
        self.take = raw.take

    def search(self, vector: Vectors, limit: int, among: Mask | None = None) -> RankedRows:
        """Return the nearest rows to a vector of shape (dim,), with exact scores.

        ``among``: a mask of rows. Zero vectors find nothing and are not found. Raises
        :class:`ValueError` for an invalid vector.
        """
        return self.near(vector, RankedRows.none().rows, limit, among).nearest

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Mask | None = None) -> Near:
        """Return the result of :meth:`search`, and the scores of all ``rows``.

        ``among`` limits only the search. A score is NaN if ``vector`` or the row's vector is zero.
        """
        raw, metric = self.raw, self._metric
        if np.shape(vector) != (raw.dim,):
            raise ValueError(f"vector must have {raw.dim:,} numbers, got shape {np.shape(vector)}")
        exact = np.asarray(vector, np.float64)  # as `prepare` does, in a third of the time
        length = math.sqrt(exact @ exact)
        if not math.isfinite(length) or (metric != "cosine" and length > MAX_LENGTH):
            prepare(exact[np.newaxis], metric)  # raises the error
        if metric == "cosine" and length:
            exact = exact / length
        query: Vectors = exact.astype(np.float32)
        if not np.count_nonzero(query):
            return Near(RankedRows.none(), np.full(len(rows), np.nan, np.float32))
        if limit < 1:
            return Near(RankedRows.none(), self._scores(query, rows))
        if among is not None and len(among) < raw.count:
            among = np.concatenate([among, np.zeros(raw.count - len(among), np.bool_)])
        allowed = None if among is None or among[: raw.count].all() else among[: raw.count]
        if self.codes is None or self._facts is None:
            found = self._search_rest(query, limit, allowed)
            if not len(rows):
                return Near(found, np.empty(0, np.float32))
            known = np.full(raw.count, np.nan, np.float32)  # found rows are not read again
            known[found.rows] = found.scores
            scores: Scores = known[rows]
            others = np.flatnonzero(np.isnan(scores))
            if len(others):
                scores[others] = self._scores(query, rows[others])
            return Near(found, scores)
        codes, facts = self.codes, self._facts
        coded = None if allowed is None else allowed[: codes.rows]
        count = max(limit, facts.candidates)
        if allowed is not None:
            left = np.flatnonzero(allowed)
            share = min(1.0, self._probes(facts, len(left)) / codes.lists)
            cost = codes.cost(share, min(len(left), count), raw.dim)
            if raw.dim * len(left) * REFINED <= cost:
                blocks = (Block.of(part, raw.take(part), metric) for part in self._parts(left))
                found = merge_best((block.best(query, limit, metric) for block in blocks), limit)
                return Near(found, self._scores(query, rows))
        # Lists are visited until enough rows are found.
        there = codes.rows if coded is None else int(np.count_nonzero(coded))
        probes = self._probes(facts, there)
        while True:
            seem = codes.candidates(query[np.newaxis], count, probes, coded)[0]
            candidates: Rows = np.sort(seem[seem >= 0])
            if len(candidates) >= min(limit, there) or probes >= codes.lists:
                break
            probes *= 4
        # Candidates and ``rows`` are read together; rows without codes are all compared.
        scores = self._scores(query, np.concatenate((candidates, rows)))
        found = best_of_scores(candidates, scores[: len(candidates)], limit)
        if codes.rows < raw.count:
            found = merge_best([found, self._search_rest(query, limit, allowed)], limit)
        return Near(found, scores[len(candidates) :])

    def _search_rest(self, query: Vectors, limit: int, allowed: Mask | None) -> RankedRows:
        raw, start, stop = self.raw, self._coded, self.raw.count
        blocks: Iterable[Block]
        if (stop - start) * raw.dim * 4 > self._kept_bytes:
            read = raw.blocks(start, stop)
            blocks = (
                Block.of(np.arange(first, first + len(vectors)), vectors, self._metric)
                for first, vectors in read
            )
        else:
            with self._lock:
                if self._kept is None:
                    vectors = raw.slice(start, stop)
                    self._kept = Block.of(np.arange(start, stop), vectors, self._metric)
            blocks = [self._kept]
        if allowed is not None:
            blocks = (block.among(allowed) for block in blocks)
        return merge_best((block.best(query, limit, self._metric) for block in blocks), limit)

    def _parts(self, rows: Rows) -> list[Rows]:
        step = max(1, BATCH_BYTES // (4 * self.raw.dim))
        return [rows[start : start + step] for start in range(0, max(len(rows), 1), step)]

    def _scores(self, query: Vectors, rows: Rows) -> Scores:
        parts = []
        for part in self._parts(rows):
            vectors = self.raw.take(part)
            scores = similarities(query, vectors, self._metric)
            if self._metric == "l2":
                scores[~vectors.any(axis=1)] = np.nan
            elif np.count_nonzero(scores) < len(scores):  # only these may be zero vectors
                nothing = np.flatnonzero(scores == 0)
                scores[nothing[~vectors[nothing].any(axis=1)]] = np.nan
            parts.append(scores)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _probes(self, facts: CodeFacts, left: int) -> int:
        return facts.probes * self._coded // max(1, left)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of vectors, without zero vectors.

    ``rows``: their row numbers, ascending. ``squares``: their squared lengths; empty for cosine.
    """

    rows: Rows
    vectors: Vectors
    squares: Scores

    @classmethod
    def of(cls, rows: Rows, vectors: Vectors, metric: Metric) -> Block:
        squares = np.einsum("ij,ij->i", vectors, vectors)
        if not squares.all():
            there = squares > 0
            there[~there] = vectors[~there].any(axis=1)  # too short: the square underflows to zero
            rows, vectors, squares = rows[there], vectors[there], squares[there]
        return cls(rows, vectors, squares if metric != "cosine" else np.empty(0, np.float32))

    def among(self, allowed: Mask) -> Block:
        kept = allowed[self.rows]
        squares = self.squares[kept] if len(self.squares) else self.squares
        return Block(self.rows[kept], self.vectors[kept], squares)

    def best(self, query: Vectors, limit: int, metric: Metric) -> RankedRows:
        if metric == "cosine" or len(self.rows) <= limit:
            return best_of_scores(self.rows, similarities(query, self.vectors, metric), limit)
        # Choose the rows that may be among the best, given the rounding errors.
        rough = np.einsum("ij,j->i", self.vectors, query)
        length, longest = float(np.sqrt(query @ query)), float(np.sqrt(self.squares.max()))
        error = (len(query) + 8) * SINGLE * longest * length
        if metric == "l2":
            rough = 2 * rough - self.squares
            error = 2 * error + (len(query) + 8) * SINGLE * longest**2
        near = np.flatnonzero(rough >= _nth(rough, limit) - 2 * error)
        parts = (near[start : start + BATCH_ROWS] for start in range(0, len(near), BATCH_ROWS))
        exact = [similarities(query, self.vectors[part], metric) for part in parts]
        return best_of_scores(self.rows[near], np.concatenate(exact), limit)


def merge_best(lists: Iterable[RankedRows], limit: int) -> RankedRows:
    """Return the best rows of several lists. No row may be in two of the lists."""
    best = RankedRows.none()
    for found in lists:
        if not len(best.rows):
            best = found
        elif len(found.rows):
            rows = np.concatenate([best.rows, found.rows])
            best = RankedRows.of(rows, np.concatenate([best.scores, found.scores]), limit)
    return best


def best_of_scores(rows: Rows, scores: Scores, limit: int) -> RankedRows:
    """Return the best rows. ``rows`` must be ascending, and no score may be NaN."""
    if len(rows) > 2 * limit:  # for fewer, sorting is as fast as partitioning
        near = np.flatnonzero(scores >= _nth(scores, limit))
        rows, scores = rows[near], scores[near]
    return RankedRows.of_ascending(rows, scores, limit)


def _nth(scores: Scores, nth: int) -> float:
    return float(np.partition(scores, len(scores) - nth)[len(scores) - nth])
