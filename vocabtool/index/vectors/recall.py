"""Recall of the ten nearest rows, measured against exact search on vectors that are like queries.

A stored vector plus a little noise proves nothing: its neighbours stand out. Queries of few words
are unlike any document. Where no queries are given there are three kinds, and the lowest recall
counts:

- stored vectors that are farthest from their own neighbours (themselves left out);
- strangers: random mixtures of all of a sample, which spread as the stored vectors do (they have
  the sample's covariance) and are near none of them;
- random mixtures of what sets stored vectors apart from their neighbours, which belong to no
  topic, and have their nearest rows in many lists.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.vectors.metric import Metric, prepared
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.system.ranked import Rows, Scores

NEAREST: Final = 10
ASKED: Final = 128  # queries of a kind
MIXED: Final = 4096  # vectors in a mixture, at most
TRIED: Final = 4  # times as many stored vectors are looked at, to find the farthest
LOWEST: Final = np.float32(-1e38)  # below every score
ALIKE: Final = 1e-6  # scores that differ by less, relatively, are tied


class Asked(NamedTuple):
    """``queries``: prepared, shape (n, dim); ``rows``: where they are stored, -1: nowhere."""

    queries: Vectors
    rows: Rows


class Truth(NamedTuple):
    """``rows``: the ten nearest to each query, shape (n, 10), by exact search.

    ``wanted``: which of them are there, and nearer than the eleventh: rows tied with it are as
    good as each other.
    """

    rows: Rows
    wanted: NDArray[np.bool_]


def given(queries: Vectors, metric: Metric) -> Asked:
    """Queries of the caller's, zero vectors left out."""
    ready = prepared(queries, metric)
    ready = ready[ready.any(axis=1)]
    return Asked(ready, np.full(len(ready), -1))


def unlike(
    vectors: Vectors, rows: Rows, metric: Metric, random: np.random.Generator
) -> list[Asked]:
    """Three kinds of queries that are unlike stored vectors, of a sample of those."""
    tried = np.sort(random.permutation(len(rows))[: ASKED * TRIED])
    scores = products(vectors[tried], vectors, metric)
    scores[np.arange(len(tried)), tried] = -np.inf
    place = max(0, len(rows) - NEAREST)
    near = np.argpartition(scores, place, axis=1)[:, place:]
    far = _farthest(vectors[tried], np.take_along_axis(scores, near, 1).min(axis=1), metric)
    apart = vectors[tried] - vectors[near].mean(axis=1)
    some = vectors[np.sort(random.permutation(len(rows))[:MIXED])]
    return [
        Asked(vectors[tried[far]], rows[tried[far]]),
        mixtures(some, vectors, metric, random),
        mixtures(apart, vectors, metric, random),
    ]


def _farthest(tried: Vectors, tenth: Scores, metric: Metric) -> NDArray[np.int64]:
    """Which are farthest from their tenth neighbour, by its score."""
    squares = np.einsum("ij,ij->i", tried, tried)
    if metric == "l2":
        tenth = tenth - squares
    elif metric == "inner-product":
        tenth = tenth / np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    return np.sort(np.argsort(tenth, kind="stable")[:ASKED])


def mixtures(
    parts: Vectors, vectors: Vectors, metric: Metric, random: np.random.Generator
) -> Asked:
    """Random mixtures with the parts' covariance: under l2 about the vectors' mean, else zero."""
    weights = random.standard_normal((ASKED, len(parts)), np.float32)
    weights -= weights.mean(axis=1, keepdims=True)  # which takes the parts' mean out
    mixed = weights @ parts / np.float32(np.sqrt(len(parts)))
    return given(mixed + vectors.mean(axis=0) if metric == "l2" else mixed, metric)


def nearest_rows(raw: RawVectors, asked: Asked, metric: Metric) -> Truth:
    """The ten nearest to each query: all vectors are read block by block and compared."""
    count = len(asked.queries)
    best: Scores = np.full((count, NEAREST + 1), -np.inf, np.float32)
    rows = np.full((count, NEAREST + 1), -1)
    for first, vectors in raw.blocks():
        scores = products(asked.queries, vectors, metric)
        scores[:, ~vectors.any(axis=1)] = -np.inf
        own = np.flatnonzero((asked.rows >= first) & (asked.rows < first + len(vectors)))
        scores[own, asked.rows[own] - first] = -np.inf
        best, rows = _best(best, rows, scores, first)
    near, there = best[:, :NEAREST], np.isfinite(best[:, :NEAREST])
    last = np.where(np.isfinite(best[:, NEAREST:]), best[:, NEAREST:], LOWEST)
    nearer = near > last + ALIKE * np.maximum(1, np.abs(last))
    return Truth(rows[:, :NEAREST], there & nearer)


def recall_by_count(truth: Truth, candidates: Rows, counts: list[int]) -> list[tuple[float, float]]:
    """How many of the nearest are among so many first candidates, and that mean's standard error.

    ``candidates``: shape (queries, most), nearest first.
    """
    places = np.full(truth.rows.shape, candidates.shape[1])
    for query, (near, found) in enumerate(zip(truth.rows, candidates, strict=True)):
        of_near, place = np.nonzero(near[:, np.newaxis] == found[np.newaxis])
        places[query, of_near] = place
    return [_mean(truth, places < count) for count in counts]


def _mean(truth: Truth, found: NDArray[np.bool_]) -> tuple[float, float]:
    wanted = truth.wanted.sum(axis=1)
    asked = np.flatnonzero(wanted)
    if not len(asked):
        return 1.0, 0.0
    shares = (truth.wanted & found).sum(axis=1)[asked] / wanted[asked]
    return float(shares.mean()), float(shares.std() / np.sqrt(len(asked)))


def _best(best: Scores, rows: Rows, scores: Scores, first: int) -> tuple[Scores, Rows]:
    """The best eleven, best first, of those so far and a block's."""
    better = np.flatnonzero((scores > best[:, NEAREST:]).any(axis=0))
    both = np.concatenate([best, scores[:, better]], axis=1)
    numbers = np.concatenate([rows, np.broadcast_to(better + first, (len(rows), len(better)))], 1)
    if both.shape[1] > 8 * NEAREST:  # sorting all would be slow
        near = np.sort(np.argpartition(-both, NEAREST, axis=1)[:, : NEAREST + 1], axis=1)
        both, numbers = np.take_along_axis(both, near, 1), np.take_along_axis(numbers, near, 1)
    order = np.argsort(-both, axis=1, kind="stable")[:, : NEAREST + 1]
    return np.take_along_axis(both, order, 1), np.take_along_axis(numbers, order, 1)


def products(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Scores by matrix product; under l2 without the query's own length."""
    scores: Scores = queries @ vectors.T
    if metric == "l2":
        scores *= 2
        scores -= np.einsum("ij,ij->i", vectors, vectors)
    return scores
