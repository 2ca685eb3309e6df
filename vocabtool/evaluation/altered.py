"""A corpus of which one document is another than it is: what a known item is searched in.

The copy's term frequencies and lengths are its own, its BM25 score the textbook's; how often words
stand in the collection and how long documents are on average stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.vectors.metric import Metric, similarities
from vocabtool.keywords.cutting import Cutter, Terms
from vocabtool.keywords.plain_bm25 import idf, term_score
from vocabtool.keywords.queries import Clause, Field, KeywordQuery, Term
from vocabtool.search.corpus import Among, Corpus, Stored
from vocabtool.search.knowledge import Knowledge
from vocabtool.system.ranked import Near, Ranked, Rows


class Sampled(Corpus, Protocol):
    """What making queries of a corpus needs besides searching it.

    ``mean_lengths``: the mean number of terms of a row in the fields ``words`` and ``surfaces``.
    """

    @property
    def mean_lengths(self) -> tuple[float, float]: ...

    def live_rows(self) -> Rows:
        """The rows of all documents, ascending."""


class Copy(NamedTuple):
    """What stands in for the document of ``row``. ``vector``: prepared, shape (dim,)."""

    row: int
    text: str
    vector: Vectors
    terms: Terms


class Altered:
    """A corpus with a copy in the place of one document; everything else is asked of the corpus.

    Phrases are not looked for in the copy: queries made of a corpus have none.
    """

    def __init__(self, corpus: Sampled, copy: Copy, metric: Metric) -> None:
        self._corpus = corpus
        self._copy = copy
        self._metric: Metric = metric
        self._counts: dict[Field, Counter[str]] = {
            "words": Counter(copy.terms.words.split()),
            "surfaces": Counter(copy.terms.surfaces.split()),
        }

    @property
    def documents(self) -> int:
        """As many as before."""
        return self._corpus.documents

    @property
    def cutter(self) -> Cutter:
        """The corpus's."""
        return self._corpus.cutter

    @property
    def knowledge(self) -> Knowledge | None:
        """The corpus's."""
        return self._corpus.knowledge

    def document_frequency(self, term: Term) -> int:
        """The corpus's: the copy does not change it."""
        return self._corpus.document_frequency(term)

    def keyword_search(self, query: KeywordQuery, limit: int, among: Among | None = None) -> Ranked:
        """The corpus's best, and the copy where it belongs among them."""
        found = self._corpus.keyword_search(query, limit + 1, among)
        held = all(map(self._holds, query.must)) and self._is_among(among)
        score = sum(map(self._score, (*query.should, *query.must))) if held else 0.0
        return self._replaced(found, score if score > 0 else None, limit)

    def matching(self, clauses: Sequence[Clause], among: Among | None = None) -> Rows:
        """The corpus's rows, and the copy's where it holds all of the clauses."""
        rows = self._corpus.matching(clauses, among)
        others: Rows = rows[rows != self._copy.row]
        if not (all(map(self._holds, clauses)) and self._is_among(among)):
            return others
        return np.sort(np.append(others, self._copy.row))

    def vector_search(self, vector: Vectors, limit: int, among: Among | None = None) -> Ranked:
        """The corpus's nearest, and the copy where it belongs among them."""
        return self.near(vector, Ranked.none().rows, limit, among).nearest

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Among | None = None) -> Near:
        """The same, and how near these rows are, the copy among them."""
        found, similar = self._corpus.near(vector, rows, limit + 1, among)
        own = self._similarity(vector)
        seen = self._is_among(among) and not np.isnan(own)
        nearest = self._replaced(found, own if seen else None, limit)
        return Near(nearest, np.where(rows == self._copy.row, np.float32(own), similar))

    def where(self, condition: str) -> Among:
        """The corpus's: the copy has its document's fields."""
        return self._corpus.where(condition)

    def ids(self, rows: Rows) -> list[str]:
        """The corpus's."""
        return self._corpus.ids(rows)

    def stored(self, rows: Rows) -> list[Stored]:
        """The documents, the copy with its own text."""
        return [
            replace(document, text=self._copy.text) if row == self._copy.row else document
            for row, document in zip(rows.tolist(), self._corpus.stored(rows), strict=True)
        ]

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """The corpus's."""
        return self._corpus.near_spellings(word, limit)

    def _replaced(self, found: Ranked, score: float | None, limit: int) -> Ranked:
        """Without the document itself, with the copy where it has a score, cut to ``limit``."""
        others = found.rows != self._copy.row
        rows, scores = found.rows[others], found.scores[others]
        if score is not None:
            rows = np.append(rows, self._copy.row)
            scores = np.append(scores, np.float32(score))
        return Ranked.of(rows, scores, limit)

    def _is_among(self, among: Among | None) -> bool:
        row = self._copy.row
        return among is None or (row < len(among) and bool(among[row]))

    def _holds(self, clause: Clause) -> bool:
        return len(clause.terms) == 1 and all(
            self._counts[field][text] for field, text in clause.terms
        )

    def _score(self, clause: Clause) -> float:
        """The copy's BM25 score of a clause: 0 for a phrase, and for what it does not hold."""
        if not self._holds(clause):
            return 0.0
        (term,) = clause.terms
        weight = clause.boost * idf(self.documents, self.document_frequency(term))
        if term.field == "surfaces":  # there or not, see plain_bm25.py
            return weight
        count, (mean, _) = self._counts["words"][term.text], self._corpus.mean_lengths
        return term_score(weight, count, self._copy.terms.count, mean)

    def _similarity(self, vector: Vectors) -> float:
        """NaN for a copy without a vector."""
        copied = self._copy.vector
        if not copied.any():
            return np.nan
        return float(similarities(vector, copied[np.newaxis], self._metric)[0])
