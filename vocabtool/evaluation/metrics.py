"""How good rankings are, given what was judged relevant: pure functions, as trec_eval counts.

A ranking is document ids, best first, each once. Means over queries are the caller's.

trec_eval's conventions, which BEIR and MTEB share: nDCG's gain is the judgement itself (linear, not
``2**rel - 1``) and its discount log2(rank + 1); a negative judgement gains nothing; a document is
relevant from 1 on; what was not judged is not; a query without a relevant document scores 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final

import numpy as np
from numpy.typing import NDArray

Judged = Mapping[str, int]  # of one query: the judgement by document id

NDCG_DEPTH: Final = 10
RECALL_DEPTH: Final = 100
RELEVANT: Final = 1

RESAMPLES: Final = 10_000
LEVEL: Final = 0.95
MAX_DRAWN: Final = 4_000_000  # queries drawn at a time: about 100 MB


def ndcg(ranked: Sequence[str], judged: Judged, depth: int = NDCG_DEPTH) -> float:
    """The gain of the first ``depth`` documents as a share of the best possible, 0 to 1.

    Source: Järvelin, Kekäläinen: Cumulated Gain-Based Evaluation of IR Techniques, TOIS 2002, with
    trec_eval's discount (``ndcg_cut``).
    """
    best = sorted((max(gain, 0) for gain in judged.values()), reverse=True)
    ideal = _dcg(best[:depth])
    return _dcg(max(judged.get(document, 0), 0) for document in ranked[:depth]) / (ideal or 1.0)


def recall(ranked: Sequence[str], judged: Judged, depth: int = RECALL_DEPTH) -> float:
    """The share of the relevant documents that stand among the first ``depth``, 0 to 1."""
    relevant = {document for document, gain in judged.items() if gain >= RELEVANT}
    return len(relevant.intersection(ranked[:depth])) / (len(relevant) or 1)


def reciprocal_rank(ranked: Sequence[str], judged: Judged, depth: int | None = None) -> float:
    """1 / the rank of the first relevant document, 0 where none is among the first ``depth``.

    Without ``depth`` the whole ranking counts, as in trec_eval's ``recip_rank``. Its mean is MRR.
    """
    for rank, document in enumerate(ranked[:depth], 1):
        if judged.get(document, 0) >= RELEVANT:
            return 1 / rank
    return 0.0


def _dcg(gains: Iterable[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


@dataclass(frozen=True, slots=True)
class Interval:
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
    """How far the mean of each column may be off: paired bootstrap intervals over queries.

    ``differences``: shape (queries, columns). Percentiles of the means of resampled queries, the
    same resamples for every column. Source: Efron, Tibshirani: An Introduction to the Bootstrap,
    1993, chapter 13; Sakai: Evaluating Evaluation Metrics based on the Bootstrap, SIGIR 2006.
    Without a query every figure is NaN. Raises ``ValueError`` for a level that is not within 0..1.
    """
    if not 0 < level < 1:
        raise ValueError(f"wanted a level between 0 and 1, got {level}")
    queries = len(differences)
    if not queries:
        return [Interval(*[float("nan")] * 3)] * differences.shape[1]
    generator = np.random.default_rng(seed)
    at_once = max(1, min(resamples, MAX_DRAWN // queries))
    parts = []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = generator.integers(0, queries, (rows, queries))
        drawn += np.arange(rows)[:, None] * queries
        counts = np.bincount(drawn.ravel(), minlength=rows * queries).reshape(rows, queries)
        parts.append(counts @ differences / queries)
    tail = 50 * (1 - level)
    low, high = np.percentile(np.concatenate(parts), [tail, 100 - tail], axis=0)
    rows_of_three = zip(differences.mean(axis=0), low, high, strict=True)
    return [Interval(*map(float, row)) for row in rows_of_three]
