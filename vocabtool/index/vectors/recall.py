"""Recall of the ten nearest rows, measured against exact search on vectors that are like queries.

A stored vector plus a little noise proves nothing: its neighbours stand out. Queries of few words
are unlike any document. Where no queries are given there are three kinds, and the lowest recall
counts:

- stored vectors that are farthest from their own neighbours (themselves left out);
- strangers: random mixtures of all of a sample, which spread as the stored vectors do (they have
  the sample's covariance) and are near none of them;
- random mixtures of what sets stored vectors apart from their neighbours, which belong to no
  topic, and have their nearest rows in many lists.

By such mixtures it is also told how near chance brings vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.options import Metric
from vocabtool.index.vectors.raw import RawVectors, prepare
from vocabtool.system.ranking import Rows, Scores

NEAREST: Final = 10
QUERIES: Final = 128  # of a kind
MAX_MIXED: Final = 4096  # vectors in a mixture
TRIED: Final = 4  # times as many stored vectors are looked at, to find the farthest
LOWEST: Final = np.float32(-1e38)  # below every score
ALIKE: Final = 1e-6  # scores that differ by less, relatively, are tied
REMEASURED_SAMPLE: Final = 8192  # vectors that queries are made of
CHANCE_SAMPLE: Final = 2048  # documents, half of them paired with the other half
CHANCE_MIXTURES: Final = 64
CHANCE_SHARE: Final = 0.95
MIN_CHANCE_SAMPLE: Final = 10  # documents with a vector, of which something can be told
DIGITS: Final = 4  # the last ones depend on the machine


@dataclass(frozen=True, slots=True)
class QuerySample:
    """``queries``: prepared, shape (n, dim); ``rows``: where they are stored, -1: nowhere."""

    queries: Vectors
    rows: Rows


@dataclass(frozen=True, slots=True)
class NearestRows:
    """``rows``: the ten nearest to each query, shape (n, 10), by exact search.

    ``wanted``: which of them are there, and nearer than the eleventh: rows tied with it are as
    good as each other.
    """

    rows: Rows
    wanted: NDArray[np.bool_]


def prepare_queries(queries: Vectors, metric: Metric) -> QuerySample:
    """Queries of the caller's, zero vectors left out."""
    ready = prepare(queries, metric)
    ready = ready[ready.any(axis=1)]
    return QuerySample(ready, np.full(len(ready), -1))


def queries_unlike_documents(
    vectors: Vectors, rows: Rows, metric: Metric, random: np.random.Generator
) -> list[QuerySample]:
    """Three kinds of queries that are unlike stored vectors, of a sample of those."""
    tried = np.sort(random.permutation(len(rows))[: QUERIES * TRIED])
    scores = products(vectors[tried], vectors, metric)
    scores[np.arange(len(tried)), tried] = -np.inf
    place = max(0, len(rows) - NEAREST)
    near = np.argpartition(scores, place, axis=1)[:, place:]
    tenth = np.take_along_axis(scores, near, 1).min(axis=1)
    squares = np.einsum("ij,ij->i", vectors[tried], vectors[tried])
    if metric == "l2":
        tenth = tenth - squares
    elif metric == "inner-product":
        tenth = tenth / np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    far = tried[np.sort(np.argsort(tenth, kind="stable")[:QUERIES])]
    apart = vectors[tried] - vectors[near].mean(axis=1)
    some = vectors[np.sort(random.permutation(len(rows))[:MAX_MIXED])]
    return [
        QuerySample(vectors[far], rows[far]),
        mixtures(some, vectors, metric, random),
        mixtures(apart, vectors, metric, random),
    ]


def mixtures(
    parts: Vectors, vectors: Vectors, metric: Metric, random: np.random.Generator
) -> QuerySample:
    """Random mixtures with the parts' covariance: under l2 about the vectors' mean, else zero."""
    weights = random.standard_normal((QUERIES, len(parts)), np.float32)
    weights -= weights.mean(axis=1, keepdims=True)  # which takes the parts' mean out
    mixed = weights @ parts / np.float32(np.sqrt(len(parts)))
    return prepare_queries(mixed + vectors.mean(axis=0) if metric == "l2" else mixed, metric)


def nearest_rows(raw: RawVectors, sample: QuerySample, metric: Metric) -> NearestRows:
    """The ten nearest to each query: all vectors are read block by block and compared."""
    count = len(sample.queries)
    best: Scores = np.full((count, NEAREST + 1), -np.inf, np.float32)
    rows = np.full((count, NEAREST + 1), -1)
    for first, vectors in raw.blocks():
        scores = products(sample.queries, vectors, metric)
        scores[:, ~vectors.any(axis=1)] = -np.inf
        own = np.flatnonzero((sample.rows >= first) & (sample.rows < first + len(vectors)))
        scores[own, sample.rows[own] - first] = -np.inf
        better = np.flatnonzero((scores > best[:, NEAREST:]).any(axis=0))
        both = np.concatenate([best, scores[:, better]], axis=1)
        numbers = np.broadcast_to(better + first, (count, len(better)))
        numbers = np.concatenate([rows, numbers], axis=1)
        if both.shape[1] > 8 * NEAREST:  # sorting all would be slow
            few = np.sort(np.argpartition(-both, NEAREST, axis=1)[:, : NEAREST + 1], axis=1)
            both = np.take_along_axis(both, few, 1)
            numbers = np.take_along_axis(numbers, few, 1)
        order = np.argsort(-both, axis=1, kind="stable")[:, : NEAREST + 1]
        best, rows = np.take_along_axis(both, order, 1), np.take_along_axis(numbers, order, 1)
    near, there = best[:, :NEAREST], np.isfinite(best[:, :NEAREST])
    last = np.where(np.isfinite(best[:, NEAREST:]), best[:, NEAREST:], LOWEST)
    nearer = near > last + ALIKE * np.maximum(1, np.abs(last))
    return NearestRows(rows[:, :NEAREST], there & nearer)


def recall_by_count(
    truth: NearestRows, candidates: Rows, counts: list[int]
) -> list[tuple[float, float]]:
    """How many of the nearest are among so many first candidates, and that mean's standard error.

    ``candidates``: shape (queries, most), nearest first.
    """
    places = np.full(truth.rows.shape, candidates.shape[1])
    for query, (near, found) in enumerate(zip(truth.rows, candidates, strict=True)):
        of_near, place = np.nonzero(near[:, np.newaxis] == found[np.newaxis])
        places[query, of_near] = place
    wanted = truth.wanted.sum(axis=1)
    asked = np.flatnonzero(wanted)
    if not len(asked):
        return [(1.0, 0.0)] * len(counts)
    recalls = []
    for count in counts:
        shares = (truth.wanted & (places < count)).sum(axis=1)[asked] / wanted[asked]
        recalls.append((float(shares.mean()), float(shares.std() / np.sqrt(len(asked)))))
    return recalls


def measure_recall(
    raw: RawVectors, search: Callable[[Vectors, int], Rows], metric: Metric, seed: int = 1
) -> float:
    """Recall@10 of a search as it is now, of the kind of queries that it is lowest for.

    ``search``: the nearest rows to a vector, so many. Queries are drawn anew from all rows, those
    added since codes were built too. 1 where there is nothing to find.
    """
    random = np.random.default_rng(seed)
    size = min(REMEASURED_SAMPLE, raw.count)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    there = sample.any(axis=1)
    if not there.any():
        return 1.0
    recalls = []
    for kind in queries_unlike_documents(sample[there], rows[there], metric, random):
        found = np.full((len(kind.queries), NEAREST), -1)
        for place, (query, own) in enumerate(zip(kind.queries, kind.rows.tolist(), strict=True)):
            near = search(query, NEAREST + 1)
            near = near[near != own][:NEAREST]  # the truth leaves it out, too
            found[place, : len(near)] = near
        ((mean, _),) = recall_by_count(nearest_rows(raw, kind, metric), found, [NEAREST])
        recalls.append(round(mean, 4))
    return min(recalls)


def similarity_by_chance(raw: RawVectors, metric: Metric, seed: int = 0) -> float | None:
    """The similarity that chance reaches; under ``inner-product`` for a query of length 1.

    The greater of two: the one that 95 of 100 random pairs of documents stay below, and the one
    that the nearest document of 95 of 100 random mixtures, which are about nothing, stays below.
    The first holds where all vectors lie in a narrow cone, the second grows with the number of
    documents. ``None`` where fewer than ten rows have a vector, or where these are too long for
    float32. Reads all rows once.
    """
    random = np.random.default_rng(seed)
    size = min(CHANCE_SAMPLE, raw.count)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = random.permutation(raw.read_rows(rows))
    sample = sample[sample.any(axis=1)]
    if len(sample) < MIN_CHANCE_SAMPLE:
        return None
    half = len(sample) // 2
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = _similarities(sample[:half], sample[half:], metric)
        queries = mixtures(sample, sample, metric, random).queries[:CHANCE_MIXTURES]
        nearest = np.full(len(queries), -np.inf, np.float32)
        for _, vectors in raw.blocks():
            there = vectors[vectors.any(axis=1)]
            best = _similarities(queries, there, metric).max(axis=1, initial=-np.inf)
            np.maximum(nearest, best, out=nearest)
        reached = max(float(np.quantile(each, CHANCE_SHARE)) for each in (pairs, nearest))
    return round(reached, DIGITS) if isfinite(reached) else None


def _similarities(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Shape (queries, vectors), as the metric scores them; float32 is enough for a quantile."""
    scores = products(queries, vectors, metric)
    squares = np.einsum("ij,ij->i", queries, queries)[:, np.newaxis]
    if metric == "l2":
        scores -= squares
    elif metric == "inner-product":
        scores /= np.sqrt(squares)
    return scores


def products(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Scores by matrix product; under l2 without the query's own length."""
    scores: Scores = queries @ vectors.T
    if metric == "l2":
        scores *= 2
        scores -= np.einsum("ij,ij->i", vectors, vectors)
    return scores
