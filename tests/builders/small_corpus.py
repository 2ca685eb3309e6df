"""A corpus in memory that answers by brute force, so that a person can compute what it answers."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool import Document
from vocabtool.choices import Language
from vocabtool.documents.batch import Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import Clause, Field, KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.legs import MaskStore
from vocabtool.search.store import Exactness, FieldColumn, ValueCounts, WordStatus
from vocabtool.system.ranking import Mask, Near, RankedRows, Rows

K1, B = 1.2, 0.75


class Doc(NamedTuple):
    """``vector``: ``()`` for none."""

    id: str
    text: str
    vector: tuple[float, ...] = ()
    fields: Mapping[str, Any] = {}


class Whole(NamedTuple):
    """A model of whole words that knows these, lower-cased."""

    words: Collection[str]
    subword: bool = False

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        return [WordStatus(surface.lower() in self.words) for surface in surfaces]


class Pieces(NamedTuple):
    """A model of pieces of ``size`` characters that knows all of them."""

    size: int
    subword: bool = True

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        return [WordStatus(True, -(-len(surface) // self.size)) for surface in surfaces]


class SmallCorpus(MaskStore):
    """Rows are places in ``docs``. Similarity is the inner product."""

    exactness = Exactness(lengths=True, frequencies=True, similarities=True)

    def __init__(
        self,
        docs: Sequence[Doc],
        known_words: Any = None,
        *,
        dim: int = 2,
        language: Language = "none",
    ) -> None:
        self.docs = docs
        self.known_words = known_words
        self.searched_fields: tuple[str, ...] = ()
        self.cutter = Cutter(language)
        self.rows = len(docs)
        self.fields: Mapping[str, Kind] = {}
        self.live = np.ones(len(docs), np.bool_)
        self.keywords = self.vectors = self.documents = self
        terms = self.cutter.terms([doc.text for doc in docs])
        self._terms: dict[Field, list[list[str]]] = {
            "words": [each.words.split() for each in terms],
            "surfaces": [each.surfaces.split() for each in terms],
        }
        filled = [doc.vector or (0.0,) * dim for doc in docs]
        self._vectors = np.array(filled, np.float32).reshape(len(docs), dim)
        self._without = np.array([not any(vector) for vector in filled], np.bool_)

    def document_frequency(self, term: Term) -> int:
        return sum(term.text in terms for terms in self._terms[term.field])

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        return {term: self.document_frequency(term) for term in terms}

    def bm25(self, term: Term, row: int) -> float:
        """The textbook's; of the field "surfaces" the idf alone."""
        lists = self._terms[term.field]
        mean = sum(map(len, lists)) / len(lists)
        count, frequency = lists[row].count(term.text), self.document_frequency(term)
        idf = log(1 + (len(lists) - frequency + 0.5) / (frequency + 0.5))
        if term.field == "surfaces":
            return idf * (count > 0)
        norm = K1 * (1 - B + B * len(lists[row]) / mean) if mean else 1
        return idf * count * (K1 + 1) / (count + norm)

    def search(self, query: KeywordQuery, limit: int, among: Mask) -> RankedRows:
        clauses = query.must + query.should
        scores = {}
        for row in self._allowed(among):
            held = [clause for clause in clauses if self._holds(clause, row)]
            if held and all(clause in held for clause in query.must):
                scores[row] = sum(self._score(clause, held, row) for clause in held)
        rows = np.array(list(scores), np.int64)
        return RankedRows.of(rows, np.array(list(scores.values()), np.float32), limit)

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Mask
    ) -> list[RankedRows]:
        return [self.search(query, limit, among) for query in queries]

    def rows_with_all(self, clauses: Iterable[Clause]) -> Rows:
        return self.search(KeywordQuery((), tuple(clauses)), self.rows, self.live).rows

    def _score(self, clause: Clause, held: Sequence[Clause], row: int) -> float:
        score = clause.boost * sum(self.bm25(term, row) for term in clause.terms)
        parts = [each for each in held if each.terms[0] in clause.parts]
        return max(score - sum(self._score(part, held, row) for part in parts), 0.0)

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Mask) -> Near:
        there = np.array([row for row in self._allowed(among) if not self._without[row]], np.int64)
        similarities = np.einsum("ij,j->i", self._vectors, vector)
        nearest = RankedRows.of(there, similarities[there], limit)
        similarities[self._without] = np.nan
        return Near(nearest, similarities[rows])

    def take(self, rows: Rows) -> Vectors:
        return self._vectors[rows]

    def ids(self, rows: Rows) -> list[str]:
        return [self.docs[row].id for row in rows]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        return [
            Document(self.docs[row].id, self.docs[row].text, self.docs[row].fields) for row in rows
        ]

    def near_spellings(self, word: str, limit: int) -> list[str]:
        words = sorted({word for words in self._terms["words"] for word in words})
        return difflib.get_close_matches(word.lower(), words, limit)

    version = ("small", 1)
    fields: Mapping[str, Any] = {}

    def in_order(self, selection: Mask) -> Rows:
        rows = sorted(self._allowed(selection), key=lambda row: self.docs[row].id)
        return np.array(rows, np.int64)

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        return self._column(name).codes[rows].astype(np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Mask, limit: int
    ) -> dict[str, ValueCounts]:
        rows = self._allowed(among)
        if terms:
            rows = [row for row in rows if any(t.text in self._terms[t.field][row] for t in terms)]
        return {name: self._column(name).count(np.array(rows, np.int64), limit) for name in names}

    def _column(self, name: str) -> FieldColumn:
        held = [doc.fields.get(name) for doc in self.docs]
        values = sorted({value for value in held if value is not None})
        codes = [-1 if value is None else values.index(value) for value in held]
        return FieldColumn.of(np.array(codes, np.int32), values, "string")

    def _allowed(self, among: NDArray[np.bool_] | None) -> list[int]:
        rows = range(self.rows)
        return [row for row in rows if among is None or (row < len(among) and among[row])]

    def _holds(self, clause: Clause, row: int) -> bool:
        held = self._terms[clause.terms[0].field][row]
        wanted = [term.text for term in clause.terms]
        starts = range(len(held) - len(wanted) + 1)
        return any(held[start : start + len(wanted)] == wanted for start in starts)
