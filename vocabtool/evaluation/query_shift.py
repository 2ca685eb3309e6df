"""How far unjudged queries of people move the weight that queries made of the corpus gave.

What people ask may be easier or harder for either leg than what a document says of itself. For the
keyword leg that shows in how much of a query its best document holds (../shared/retrieval.md, point
10), for the vectors in how near the nearest document is. Both are means over queries, compared with
those of the queries made of the corpus; no answer is judged.

The weight of the second was measured with ten encoders on three collections, see
``benchmarks/retrieval.py``; it lies where leaving out any collection puts it, or near that.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.plain_bm25 import idf
from vocabtool.keywords.queries import KeywordQuery, Term
from vocabtool.search.corpus import Corpus
from vocabtool.search.query import understood
from vocabtool.search.settings import Settings

FEWEST_QUERIES: Final = 10  # queries, below which nothing is concluded
BY_KEYWORDS: Final = 0.5
BY_VECTORS: Final = 1.5
KEYWORDS: Final = Settings(fusion="keyword")


class Shift(NamedTuple):
    """What is added to the weight: ``keyword``, as far as keywords tell, and ``vector``.

    ``queries``: how many it is from, 0: there is none.
    """

    keyword: float
    vector: float
    queries: int

    @property
    def total(self) -> float:
        """Within -1 and 1."""
        return min(max(self.keyword + self.vector, -1.0), 1.0)


NO_SHIFT: Final = Shift(0.0, 0.0, 0)


def by_keywords(people: list[float], hard: list[float]) -> float:
    """Up where more of people's queries is held by one document than of the ``hard`` ones."""
    return BY_KEYWORDS * (fmean(people) - fmean(hard))


def by_vectors(people: list[float], made: list[float]) -> float:
    """Down where documents are nearer to people's queries than to those made of the corpus.

    0 where fewer than ten queries of either have a vector.
    """
    if min(len(people), len(made)) < FEWEST_QUERIES:
        return 0.0
    return BY_VECTORS * (fmean(made) - fmean(people))


def nearest(asked: Iterable[tuple[Vectors, Corpus]]) -> list[float]:
    """Of each query that has a vector: how near the nearest document of its corpus is."""
    found = (corpus.vector_search(vector, 1).scores for vector, corpus in asked if vector.any())
    return [float(scores[0]) for scores in found if len(scores)]


def covered(asked: Iterable[tuple[str, Corpus]]) -> list[float]:
    """Of each query with a content word: how much of its idf mass its best document holds."""
    shares = []
    for text, corpus in asked:
        masses = _masses(corpus, text)
        total = sum(masses.values())
        if total > 0:
            held = _held_by_best(corpus, text)
            shares.append(sum(mass for word, mass in masses.items() if word in held) / total)
    return shares


def best_by_keywords(corpus: Corpus, text: str, limit: int) -> list[int]:
    """The rows that BM25 alone puts first."""
    query = understood(corpus, text, KEYWORDS)
    if not query.should:
        return []
    rows: list[int] = corpus.keyword_search(KeywordQuery(query.should), limit).rows.tolist()
    return rows


def _masses(corpus: Corpus, text: str) -> dict[str, float]:
    """The inverse document frequency of each stem of a query."""
    words = understood(corpus, text, KEYWORDS).words
    stems = {stem for word in words if word.counts for stem in word.word.words}
    frequencies = {stem: corpus.document_frequency(Term("words", stem)) for stem in stems}
    return {stem: idf(corpus.documents, frequency) for stem, frequency in frequencies.items()}


def _held_by_best(corpus: Corpus, text: str) -> set[str]:
    """The stems of the best document by BM25."""
    best = best_by_keywords(corpus, text, 1)
    if not best:
        return set()
    (document,) = corpus.stored(np.array(best))
    return set(corpus.cutter.terms([document.text])[0].words.split())
