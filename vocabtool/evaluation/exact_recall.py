"""How many of the nearest vectors an index finds, against comparing every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.vectors.exact import Block, merged
from vocabtool.index.vectors.metric import Metric
from vocabtool.system.ranked import Ranked

if TYPE_CHECKING:
    from vocabtool.index.snapshot import Snapshot

NEAREST: Final = 10
ALIKE: Final = 1e-6  # scores that differ by less, relatively, are tied
MOST_QUERIES: Final = 100  # each is compared with every vector


class Recall(NamedTuple):
    """``mean``: share of the ten nearest that are found, 0 to 1. ``queries``: vectors asked for."""

    mean: float
    queries: int


def recall_of(corpus: Snapshot, asked: Vectors, metric: Metric) -> Recall | None:
    """Of the first hundred vectors that are not zero; ``None`` where there is none.

    ``asked``: prepared, shape (n, dim). Documents as near as the tenth are as good as it.
    """
    seeing = asked[asked.any(axis=1)][:MOST_QUERIES]
    shares = [
        _share(corpus.vector_search(vector, NEAREST), exact)
        for vector, exact in zip(seeing, _exact(corpus, seeing, metric), strict=True)
        if len(exact.rows)
    ]
    return Recall(float(np.mean(shares)), len(shares)) if shares else None


def _share(found: Ranked, exact: Ranked) -> float:
    tenth = float(exact.scores[-1])
    as_good = found.scores >= tenth - ALIKE * max(1.0, abs(tenth))
    return int(as_good.sum()) / len(exact.rows)


def _exact(corpus: Snapshot, asked: Vectors, metric: Metric) -> list[Ranked]:
    """The nearest to each of several vectors, the file read once."""
    best = [Ranked.none()] * len(asked)
    for first, vectors in corpus.vectors.blocks():
        rows = np.arange(first, first + len(vectors))
        block = Block.of(rows, vectors, metric).among(corpus.live)
        best = [
            merged((held, block.best(vector, NEAREST, metric)), NEAREST)
            for held, vector in zip(best, asked, strict=True)
        ]
    return best
