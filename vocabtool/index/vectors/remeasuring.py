"""The recall of a vector leg as it is now, measured as it was when its codes were built.

On vectors that are like queries (``recall.py``), drawn anew from all rows, those added since too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vocabtool.index.vectors.leg import VectorLeg
from vocabtool.index.vectors.metric import Metric
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.vectors.recall import NEAREST, Asked, nearest_rows, recall_by_count, unlike

SAMPLE: Final = 8192  # vectors that the queries are made of


def remeasured(raw: RawVectors, leg: VectorLeg, metric: Metric, seed: int = 1) -> float:
    """Recall@10 of the kind of queries that it is lowest for; 1 where there is nothing to find."""
    random = np.random.default_rng(seed)
    size = min(SAMPLE, raw.count)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    there = sample.any(axis=1)
    if not there.any():
        return 1.0
    kinds = unlike(sample[there], rows[there], metric, random)
    return min(_of(raw, leg, kind, metric) for kind in kinds)


def _of(raw: RawVectors, leg: VectorLeg, asked: Asked, metric: Metric) -> float:
    """A query that is stored finds itself first: it is left out, as the truth leaves it out."""
    truth = nearest_rows(raw, asked, metric)
    found = np.full((len(asked.queries), NEAREST), -1)
    for place, (query, own) in enumerate(zip(asked.queries, asked.rows.tolist(), strict=True)):
        near = leg.search(query, NEAREST + 1).rows
        near = near[near != own][:NEAREST]
        found[place, : len(near)] = near
    ((mean, _),) = recall_by_count(truth, found, [NEAREST])
    return round(mean, 4)
