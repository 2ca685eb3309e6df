"""How near chance brings vectors: what the nearest document of a nonsense query reaches as well.

The greater of two similarities: the one that 95 of 100 random pairs of documents stay below, and
the one that the nearest document of 95 of 100 random mixtures stays below (``recall.py``; they
spread as documents do and are about nothing). The first holds where all vectors lie in a narrow
cone, the second grows with the number of documents, as the best of many does.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.vectors.metric import Metric
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.vectors.recall import mixtures, products
from vocabtool.system.ranked import Scores

SAMPLE: Final = 2048  # documents, half of them paired with the other half
MIXTURES: Final = 64
SHARE: Final = 0.95
FEWEST: Final = 10  # documents with a vector, of which something can be told
DIGITS: Final = 4  # the last ones depend on the machine


def by_chance(raw: RawVectors, metric: Metric, seed: int = 0) -> float | None:
    """The similarity that chance reaches; under ``inner-product`` for a query of length 1.

    ``None`` where fewer than ten rows have a vector, or where these are too long for float32. Reads
    all rows once.
    """
    random = np.random.default_rng(seed)
    rows = np.sort(random.choice(raw.count, min(SAMPLE, raw.count), replace=False, shuffle=False))
    sample = random.permutation(raw.read_rows(rows))
    sample = sample[sample.any(axis=1)]
    if len(sample) < FEWEST:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        reached = max(_of_pairs(sample, metric), _of_mixtures(sample, raw, metric, random))
    return round(reached, DIGITS) if isfinite(reached) else None


def _of_pairs(sample: Vectors, metric: Metric) -> float:
    half = len(sample) // 2
    return float(np.quantile(_similarities(sample[:half], sample[half:], metric), SHARE))


def _of_mixtures(
    sample: Vectors, raw: RawVectors, metric: Metric, random: np.random.Generator
) -> float:
    queries = mixtures(sample, sample, metric, random).queries[:MIXTURES]
    nearest = np.full(len(queries), -np.inf, np.float32)
    for _, vectors in raw.blocks():
        there = vectors[vectors.any(axis=1)]
        found = _similarities(queries, there, metric)
        np.maximum(nearest, found.max(axis=1, initial=-np.inf), out=nearest)
    return float(np.quantile(nearest, SHARE))


def _similarities(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Shape (queries, vectors), as the metric scores them; float32 is enough for a quantile."""
    scores = products(queries, vectors, metric)
    squares = np.einsum("ij,ij->i", queries, queries)[:, np.newaxis]
    if metric == "l2":
        scores -= squares
    elif metric == "inner-product":
        scores /= np.sqrt(squares)
    return scores
