"""Textbook BM25 on lists of terms. Tests compare the keyword search of a store with it.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), with the
inverse document frequency of Lucene:

    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
    score(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import Final

import numpy as np

from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.cutter import Terms
from vocabtool.system.ranking import RankedRows

K1: Final = 1.2
B: Final = 0.75


class PlainBM25:
    """Searches a list of documents. Row ``i`` is ``documents[i]``.

    ``length_of``: returns the length that BM25 uses for a text with this number of words.
    """

    def __init__(
        self, documents: Sequence[Terms], length_of: Callable[[int], int] = lambda words: words
    ) -> None:
        self._words = [document.words.split() for document in documents]
        self._surfaces = [document.surfaces.split() for document in documents]
        lengths = [len(words) for words in self._words]
        self.mean_length = sum(lengths) / max(len(lengths), 1)
        self._lengths = [*map(length_of, lengths)]
        self._frequencies: dict[Term, int] = {}

    def document_frequency(self, term: Term) -> int:
        """Return the number of documents that contain a term."""
        if term not in self._frequencies:
            self._frequencies[term] = sum(
                self.count(row, Clause((term,))) > 0 for row in range(len(self._words))
            )
        return self._frequencies[term]

    def search(
        self, query: KeywordQuery, limit: int, among: Iterable[int] | None = None
    ) -> RankedRows:
        """Return the best rows.

        - ``limit``: the maximum number of rows.
        - ``among``: the rows to search; ``None``: all rows.
        """
        rows = range(len(self._words)) if among is None else among
        found = [row for row in rows if self._matches(row, query)]
        scores = [self.score(row, query) for row in found]
        return RankedRows.of(np.array(found, np.int64), np.array(scores, np.float32), limit)

    def score(self, row: int, query: KeywordQuery) -> float:
        """Return the sum of the scores of all clauses for a document."""
        score = 0.0
        for clause in (*query.must, *query.should):
            of_parts = sum(
                self._clause_score(row, part)
                for part in (query.should if clause.parts else ())
                if set(part.terms) <= set(clause.parts)
            )
            score += max(self._clause_score(row, clause) - of_parts, 0.0)
        return score

    def count(self, row: int, clause: Clause) -> int:
        """Return how often a document contains the term, or the phrase, of a clause."""
        first, *others = clause.terms
        if first.field == "surfaces":
            return self._surfaces[row].count(first.text)
        words, phrase = self._words[row], [term.text for term in clause.terms]
        if not others:
            return words.count(first.text)
        return sum(words[at : at + len(phrase)] == phrase for at in range(len(words)))

    def _matches(self, row: int, query: KeywordQuery) -> bool:
        if query.must:
            return all(self.count(row, clause) for clause in query.must)
        return any(self.count(row, clause) for clause in query.should)

    def _clause_score(self, row: int, clause: Clause) -> float:
        count = self.count(row, clause)
        if not count:
            return 0.0
        weight = clause.boost * sum(map(self._idf, clause.terms))
        if clause.terms[0].field == "surfaces":
            return weight  # texts have too few identifiers for a meaningful length
        norm = K1 * (1 - B + B * self._lengths[row] / self.mean_length)
        return weight * count * (K1 + 1) / (count + norm)

    def _idf(self, term: Term) -> float:
        frequency = self.document_frequency(term)
        return log(1 + (len(self._words) - frequency + 0.5) / (frequency + 0.5))
