"""The terms of a document: how they are stored, as a sparse vector, and its score by BM25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from qdrant_client import models

from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, stored_length, term_score
from vocabtool.keywords.cutter import Terms

DIMENSIONS: Final = (1 << 32) - 1


class DocumentTerms(NamedTuple):
    """``runs``: words in the order of the text. ``length``, ``surface_count``: how many terms."""

    runs: Sequence[Sequence[str]]
    surfaces: frozenset[str]
    length: int
    surface_count: int

    @classmethod
    def of(cls, terms: Terms) -> DocumentTerms:
        runs = [run.split(" ") for run in (terms.words, *terms.repeated) if run]
        surfaces = frozenset(terms.surfaces.split(" ")) - {""}
        return cls(runs, surfaces, terms.count, terms.surface_count)

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> DocumentTerms:
        runs = [run.split(" ") for run in payload["runs"]]
        counts = payload["length"], payload["surface_count"]
        return cls(runs, frozenset(payload["surfaces"]), *counts)

    @property
    def payload(self) -> dict[str, Any]:
        """``words`` and ``surfaces`` are for filters, the fields of :class:`Term`."""
        words = sorted({word for run in self.runs for word in run})
        runs = [" ".join(run) for run in self.runs]
        counts = {"length": self.length, "surface_count": self.surface_count}
        return {"runs": runs, "words": words, "surfaces": sorted(self.surfaces), **counts}

    def vector(self, mean: float) -> models.SparseVector:
        """Return the document's part of BM25; that of a query has idf and boost."""
        counts = Counter(Term("words", word) for run in self.runs for word in run)
        counts.update(Term("surfaces", each) for each in self.surfaces)
        return sparse_vector({term: self._weight(term, n, mean) for term, n in counts.items()})

    def score(self, query: KeywordQuery, idfs: Mapping[Term, float], mean: float) -> float | None:
        """Return the exact score; ``None`` if the document does not satisfy the query."""
        scores: dict[tuple[Term, ...], float] = {}
        for clause in (*query.should, *query.must):
            if count := self.count(clause):
                score = clause.boost * sum(idfs[term] for term in clause.terms)
                score *= self._weight(clause.terms[0], count, mean)
                scores[clause.terms] = scores.get(clause.terms, 0.0) + score
        if not scores or any(each.terms not in scores for each in query.must):
            return None
        total = sum(scores.values())
        for clause in query.should:
            if clause.parts:  # the larger one of the identifier's score and its parts' sum counts
                parts = sum(scores.get((term,), 0.0) for term in clause.parts)
                total -= min(scores.get(clause.terms, 0.0), parts)
        return total

    def count(self, clause: Clause) -> int:
        """How often a term occurs, or a phrase; an identifier at most once."""
        texts = [term.text for term in clause.terms]
        if clause.terms[0].field == "surfaces":
            return int(texts[0] in self.surfaces)
        n = len(texts)
        if n == 1:
            return sum(run.count(texts[0]) for run in self.runs)
        places = ((run, at) for run in self.runs for at in range(len(run) - n + 1))
        return sum(run[at : at + n] == texts for run, at in places)

    def _weight(self, term: Term, count: int, mean: float) -> float:
        if term.field == "surfaces":
            return 1.0
        return term_score(1.0, count, stored_length(self.length), mean)


def sparse_vector(weights: Mapping[Term, float]) -> models.SparseVector:
    """Terms are hashed to dimensions. Where several have the same, candidates are added."""
    values: dict[int, float] = {}
    for term, weight in weights.items():
        digest = blake2b("\0".join(term).encode("utf-8", "replace"), digest_size=8).digest()
        dimension = int.from_bytes(digest, "little") % DIMENSIONS
        values[dimension] = values.get(dimension, 0.0) + weight
    return models.SparseVector(indices=[*values], values=[*values.values()])
