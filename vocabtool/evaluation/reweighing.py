"""One query's legs, asked once, and fused as often as there are weights to try.

The functions are those of a search with the fusion ``coverage``, so what is found for a weight is
what a search with that weight finds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.search import fusion, legs, ordering, weighing
from vocabtool.search.corpus import Corpus
from vocabtool.search.query import understood
from vocabtool.search.settings import Settings
from vocabtool.system.ranked import Rows, Scores

STEPS: Final = 20
WEIGHTS: Final = tuple(step / STEPS for step in range(STEPS + 1))  # 0, 0.05, .. 1


class Legs(NamedTuple):
    """The candidates of a query, each with all that fusing them with any weight takes.

    ``by_vector``, ``by_words``: whether that leg gave any.
    """

    corpus: Corpus
    rows: Rows
    similarities: Scores
    bm25: Scores
    tiers: NDArray[np.int8]
    m: float
    by_vector: bool
    by_words: bool

    def ranking(self, a: float, k: int | None = None) -> Rows:
        """The best ``k`` rows, all without it, in the order of a search with that weight."""
        weight = self._weight(a)
        scores = fusion.weighted(self.similarities, self.bm25, weight)
        best = ordering.best(
            self.rows,
            scores,
            self.tiers,
            len(self.rows) if k is None else k,
            self.corpus.ids,
            keywords_alone=weight == 1,
        )
        return self.rows[best.places]

    def _weight(self, a: float) -> float:
        """A leg that gave nothing leaves it to the other."""
        if not self.by_vector:
            return 1.0
        return fusion.coverage_weight(a, self.m) if self.by_words else 0.0


def legs_of(corpus: Corpus, text: str, vector: Vectors | None, settings: Settings) -> Legs:
    """Ask both legs of a corpus."""
    query = understood(corpus, text, settings)
    seeing = vector if vector is not None and vector.any() else None
    limit = settings.limit(corpus.documents)
    leg = legs.ask_keywords(corpus, query, limit, None)
    found = legs.candidates(corpus, seeing, leg, limit, None)
    return Legs(
        corpus,
        found.rows,
        found.similarities,
        found.bm25(),
        legs.tiers(corpus, query, leg, found),
        weighing.unknown_share(query.words, corpus),
        bool(len(found.dense.rows)),
        bool(len(found.keyword.rows)),
    )
