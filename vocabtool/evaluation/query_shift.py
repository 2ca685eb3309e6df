"""How far unjudged queries of people move the weight that queries made of the corpus gave.

What people ask may be easier or harder for either leg than what a document says of itself. For the
keyword leg that shows in how much of a query its best document holds, compared with the ``hard``
queries, of which words were dropped (../shared/retrieval.md, point 10). For the vectors it shows in
how near the nearest document is, compared with all made queries. No answer is judged.

What the second weighs was chosen by ten encoders on the same three collections that it is judged
on: ``python benchmarks/query_shift.py`` tells what each collection would have been given by the
other two. It is likely, not proven.
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

FEWEST_QUERIES: Final = 10  # below which nothing is concluded
# By how much the weight changes for a difference of 1 in the mean share, and in the mean cosine.
BY_KEYWORDS: Final = 0.5
BY_VECTORS: Final = 1.5
KEYWORDS: Final = Settings(fusion="keyword")


class Shift(NamedTuple):
    """What is added to the weight: ``keyword``, as far as keywords tell, and ``vector``.

    ``vector``: ``None`` where vectors do not tell. ``queries``: how many it is from, 0: there is
    none.
    """

    keyword: float
    vector: float | None
    queries: int

    @property
    def total(self) -> float:
        """Within -1 and 1, since a weight cannot move further."""
        return min(max(self.keyword + (self.vector or 0.0), -1.0), 1.0)


NO_SHIFT: Final = Shift(0.0, None, 0)


def with_words(queries: Iterable[str], corpus: Corpus) -> list[str]:
    """Those that hold a word to search for."""
    return [text for text in queries if understood(corpus, text, KEYWORDS).should]


def by_keywords(people: list[float], hard: list[float]) -> float:
    """Up where more of people's queries is held by one document than of the ``hard`` ones."""
    return BY_KEYWORDS * (fmean(people) - fmean(hard))


def by_vectors(people: list[float], made: list[float]) -> float | None:
    """Down where documents are nearer to people's queries than to those made of the corpus.

    ``None`` where fewer than ten queries of either have a vector.
    """
    if min(len(people), len(made)) < FEWEST_QUERIES:
        return None
    return BY_VECTORS * (fmean(made) - fmean(people))


def nearest(asked: Iterable[tuple[Vectors, Corpus]]) -> list[float]:
    """Of each query that has a vector: how near the nearest document of its corpus is."""
    found = (corpus.vector_search(vector, 1).scores for vector, corpus in asked if vector.any())
    return [float(scores[0]) for scores in found if len(scores)]


def covered(asked: Iterable[tuple[str, Corpus]]) -> list[float]:
    """Of each query that holds a word: how much of its idf mass its best document holds."""
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
