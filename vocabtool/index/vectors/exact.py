"""Exact search: every vector is compared. The oracle of the rest, and what small indexes use.

Scores are those of ``metric.similarities``: equal vectors get equal ones wherever they lie. Where
these are in double precision, all rows are scored in single precision first, and then those that
may be among the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.vectors.metric import Metric, similarities
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.system.ranked import Ranked, Rows, Scores

KEPT_BYTES: Final = 256 << 20  # of vectors that stay in memory as float32
AT_A_TIME: Final = 4096  # rows whose exact scores are computed at a time
SINGLE: Final = 2.0**-23  # the spacing of single precision numbers at 1


class Block(NamedTuple):
    """``rows``: ascending; ``vectors``: none of them zero; ``squares``: of their lengths.

    Under cosine ``squares`` is empty: all lengths are 1.
    """

    rows: Rows
    vectors: Vectors
    squares: Scores

    @classmethod
    def of(cls, rows: Rows, vectors: Vectors, metric: Metric) -> Block:
        """Vectors of rows, zero vectors left out."""
        squares = np.einsum("ij,ij->i", vectors, vectors)
        if not squares.all():
            there = squares > 0
            there[~there] = vectors[~there].any(axis=1)  # so short that its square is zero
            rows, vectors, squares = rows[there], vectors[there], squares[there]
        return cls(rows, vectors, squares if metric != "cosine" else np.empty(0, np.float32))

    def among(self, allowed: NDArray[np.bool_]) -> Block:
        """What is left of it under a mask over all rows."""
        kept = allowed[self.rows]
        squares = self.squares[kept] if len(self.squares) else self.squares
        return Block(self.rows[kept], self.vectors[kept], squares)

    def best(self, query: Vectors, limit: int, metric: Metric) -> Ranked:
        """The nearest ``limit`` rows to a prepared query of shape (dim,)."""
        if metric == "cosine" or len(self.rows) <= limit:
            return first(self.rows, similarities(query, self.vectors, metric), limit)
        near = self._near(query, limit, metric)
        parts = (near[start : start + AT_A_TIME] for start in range(0, len(near), AT_A_TIME))
        exact = [similarities(query, self.vectors[part], metric) for part in parts]
        return first(self.rows[near], np.concatenate(exact), limit)

    def _near(self, query: Vectors, limit: int, metric: Metric) -> NDArray[np.int64]:
        """Where the rows are that rounding may put among the best, of more than ``limit``."""
        rough = np.einsum("ij,j->i", self.vectors, query)
        length, longest = float(np.sqrt(query @ query)), float(np.sqrt(self.squares.max()))
        error = (len(query) + 8) * SINGLE * longest * length
        if metric == "l2":
            rough = 2 * rough - self.squares
            error = 2 * error + (len(query) + 8) * SINGLE * longest**2
        return np.flatnonzero(rough >= _nth(rough, limit) - 2 * error)


class ExactSearch:
    """Exact search over rows ``start`` to ``stop``. Several threads may ask at a time.

    Their vectors are read once, when they are first needed, and stay in memory where they fit into
    256 MiB; else each search reads them all.
    """

    def __init__(
        self, raw: RawVectors, start: int, stop: int, metric: Metric, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self._raw = raw
        self._kept_bytes = kept_bytes
        self._start, self._stop = start, stop
        self._metric: Metric = metric
        self._kept: Block | None = None
        self._lock = Lock()

    def search(self, query: Vectors, limit: int, allowed: NDArray[np.bool_] | None) -> Ranked:
        """The nearest rows; ``allowed``: a mask over all rows, ``None`` where all are allowed."""
        blocks = self._blocks()
        left = blocks if allowed is None else (block.among(allowed) for block in blocks)
        return merged((block.best(query, limit, self._metric) for block in left), limit)

    def _blocks(self) -> Iterable[Block]:
        if (self._stop - self._start) * self._raw.dim * 4 > self._kept_bytes:
            return self._read()
        with self._lock:
            if self._kept is None:
                rows = np.arange(self._start, self._stop)
                self._kept = Block.of(rows, self._raw.slice(self._start, self._stop), self._metric)
        return [self._kept]

    def _read(self) -> Iterator[Block]:
        for first, vectors in self._raw.blocks(self._start, self._stop):
            yield Block.of(np.arange(first, first + len(vectors)), vectors, self._metric)


def among_rows(raw: RawVectors, rows: Rows, query: Vectors, limit: int, metric: Metric) -> Ranked:
    """The nearest of these rows, which ascend, exactly."""
    blocks = (Block.of(part, raw.take(part), metric) for part in _parts(raw, rows))
    return merged((block.best(query, limit, metric) for block in blocks), limit)


def scored(raw: RawVectors, rows: Rows, query: Vectors, metric: Metric) -> Scores:
    """How near each of these rows is to a prepared query, exactly; NaN for zero vectors."""
    scores = [_scored(query, raw.take(part), metric) for part in _parts(raw, rows)]
    return scores[0] if len(scores) == 1 else np.concatenate([np.empty(0, np.float32), *scores])


def _scored(query: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    scores = similarities(query, vectors, metric)
    if metric == "l2":
        scores[~vectors.any(axis=1)] = np.nan
    elif np.count_nonzero(scores) < len(scores):  # as a zero vector's product is zero
        nothing = np.flatnonzero(scores == 0)
        scores[nothing[~vectors[nothing].any(axis=1)]] = np.nan
    return scores


def _parts(raw: RawVectors, rows: Rows) -> Iterator[Rows]:
    """As many at a time as take 16 MiB."""
    step = max(1, (16 << 20) // (4 * raw.dim))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def merged(lists: Iterable[Ranked], limit: int) -> Ranked:
    """The best of several lists that share no row."""
    best = Ranked.none()
    for found in lists:
        if not len(best.rows):
            best = found
        elif len(found.rows):
            rows = np.concatenate([best.rows, found.rows])
            best = Ranked.of(rows, np.concatenate([best.scores, found.scores]), limit)
    return best


def first(rows: Rows, scores: Scores, limit: int) -> Ranked:
    """The best of ascending rows, none of whose scores is NaN."""
    if len(rows) > 2 * limit:  # fewer are sorted as soon as they are looked through
        near = np.flatnonzero(scores >= _nth(scores, limit))
        rows, scores = rows[near], scores[near]
    return Ranked.of_ascending(rows, scores, limit)


def _nth(scores: Scores, nth: int) -> float:
    """The score of the ``nth`` best."""
    return float(np.partition(scores, len(scores) - nth)[len(scores) - nth])
