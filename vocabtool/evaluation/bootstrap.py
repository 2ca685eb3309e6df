"""How far the mean of a difference may be off: paired bootstrap intervals over queries.

Percentiles of the means of resampled queries, the same resamples for every difference. Source:
Efron, Tibshirani: An Introduction to the Bootstrap, 1993, chapter 13; Sakai: Evaluating Evaluation
Metrics based on the Bootstrap, SIGIR 2006.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 10_000
LEVEL: Final = 0.95
MOST_DRAWN: Final = 4_000_000  # queries drawn at a time: about 100 MB


class Interval(NamedTuple):
    """A mean and where it lies with the probability asked for."""

    mean: float
    low: float
    high: float


def intervals(
    differences: NDArray[np.float64],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> list[Interval]:
    """The interval of each column's mean. ``differences``: shape (queries, columns).

    Without a query every figure is NaN. Raises ``ValueError`` for a level that is not within 0..1.
    """
    if not 0 < level < 1:
        raise ValueError(f"wanted a level between 0 and 1, got {level}")
    if not len(differences):
        return [Interval(*[float("nan")] * 3)] * differences.shape[1]
    means = _resampled(differences, np.random.default_rng(seed), resamples)
    tail = 50 * (1 - level)
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    rows = zip(differences.mean(axis=0), low, high, strict=True)
    return [Interval(*map(float, row)) for row in rows]


def _resampled(
    differences: NDArray[np.float64], generator: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """Shape (resamples, columns): means of as many queries drawn with replacement."""
    queries = len(differences)
    at_once = max(1, min(resamples, MOST_DRAWN // queries))
    parts = []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = generator.integers(0, queries, (rows, queries))
        drawn += np.arange(rows)[:, None] * queries
        counts = np.bincount(drawn.ravel(), minlength=rows * queries).reshape(rows, queries)
        parts.append(counts @ differences / queries)
    return np.concatenate(parts)
