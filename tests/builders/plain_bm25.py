"""BM25 as the textbook has it, on lists of terms: what the engine is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf, term_score
from vocabtool.keywords.cutter import Terms
from vocabtool.system.ranking import RankedRows


class PlainBM25:
    """Documents by their rows: row ``i`` is ``documents[i]``."""

    def __init__(self, documents: Sequence[Terms]) -> None:
        self._words = [document.words.split() for document in documents]
        self._surfaces = [set(document.surfaces.split()) for document in documents]
        lengths = [len(words) for words in self._words]
        self.mean_length = sum(lengths) / max(len(lengths), 1)
        self._idfs: dict[Term, float] = {}

    def document_frequency(self, term: Term) -> int:
        """How many documents hold a term."""
        return sum(self._count(row, Clause((term,))) > 0 for row in range(len(self._words)))

    def search(self, query: KeywordQuery, limit: int) -> RankedRows:
        """The best documents."""
        found = [row for row in range(len(self._words)) if self._matches(row, query)]
        scores = [self.score(row, query) for row in found]
        return RankedRows.of(np.array(found, np.int64), np.array(scores, np.float32), limit)

    def score(self, row: int, query: KeywordQuery) -> float:
        """The sum over the clauses, whether the document matches or not."""
        score = 0.0
        for clause in (*query.must, *query.should):
            of_parts = sum(
                self._clause_score(row, part)
                for part in query.should
                if clause.parts and set(part.terms) <= set(clause.parts)
            )
            score += max(self._clause_score(row, clause) - of_parts, 0.0)
        return score

    def _matches(self, row: int, query: KeywordQuery) -> bool:
        if query.must:
            return all(self._count(row, clause) for clause in query.must)
        return any(self._count(row, clause) for clause in query.should)

    def _clause_score(self, row: int, clause: Clause) -> float:
        count = self._count(row, clause)
        if not count:
            return 0.0
        weight = clause.boost * sum(map(self._idf, clause.terms))
        if clause.terms[0].field == "surfaces":
            return weight
        return term_score(weight, count, len(self._words[row]), self.mean_length)

    def _idf(self, term: Term) -> float:
        if term not in self._idfs:
            self._idfs[term] = idf(len(self._words), self.document_frequency(term))
        return self._idfs[term]

    def _count(self, row: int, clause: Clause) -> int:
        if clause.terms[0].field == "surfaces":
            return int(clause.terms[0].text in self._surfaces[row])
        words, phrase = self._words[row], [term.text for term in clause.terms]
        return sum(words[at : at + len(phrase)] == phrase for at in range(len(words)))
