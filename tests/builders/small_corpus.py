"""A store in memory that searches by brute force, and textbook BM25. Stores are compared with them.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), with the
inverse document frequency of Lucene:

    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
    score(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))
"""

from __future__ import annotations

import difflib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool import Index
from vocabtool.choices import FUSIONS, ONE_LEG, Language
from vocabtool.documents.batch import Document, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.index.generation import FolderSnapshot
from vocabtool.keywords.cutter import Clause, Cutter, KeywordQuery, Term, Terms
from vocabtool.search.conditions import Where
from vocabtool.search.store import ValueCount, ValueCounts
from vocabtool.system.ranking import Mask, RankedRows, Rows, Scores
from vocabtool.tokenization.words import WordStatus

K1: Final = 1.2
B: Final = 0.75
FUSED: Final = [fusion for fusion in FUSIONS if fusion not in ONE_LEG]


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


class Doc(NamedTuple):
    """A document. ``vector``: empty if the document has no vector."""

    id: str
    text: str
    vector: tuple[float, ...] = ()
    fields: Mapping[str, Any] = {}


class Whole(NamedTuple):
    """A word model that knows ``words``, all of them in lower case."""

    words: Collection[str]
    subword: bool = False
    notes: tuple[str, ...] = ()

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        return [WordStatus(surface.lower() in self.words) for surface in surfaces]


class Pieces(NamedTuple):
    """A subword model. It knows every word and splits it into pieces of ``size`` characters."""

    size: int
    subword: bool = True
    notes: tuple[str, ...] = ()

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        return [WordStatus(True, -(-len(surface) // self.size)) for surface in surfaces]


class SmallCorpus(FolderSnapshot):
    """A store in memory. A row is a position in ``docs``; similarity is the inner product.

    - ``known_words``: the model, for example :class:`Whole`; ``None`` without a model.
    - ``fields``: the names and kinds of the kept fields.
    - ``meanings``: for each condition, a function that tests a document. Conditions are not parsed.
    - ``length_of``: see :class:`PlainBM25`.
    """

    version = ("small", 1)
    known_words: Any = None  # in place of a property
    searched_fields: tuple[str, ...] = ()
    calibrated: float | None = None

    def __init__(
        self,
        docs: Sequence[Doc],
        known_words: Any = None,
        *,
        dim: int = 2,
        language: Language = "none",
        fields: Mapping[str, Kind] | None = None,
        meanings: Mapping[str, Callable[[Doc], bool]] | None = None,
        length_of: Callable[[int], int] = lambda words: words,
    ) -> None:
        self.docs = docs
        self.known_words = known_words
        self.cutter = Cutter(language)
        self.rows, self.fields = len(docs), fields or {}
        self.live = np.ones(len(docs), np.bool_)
        itself: Any = self
        self.keywords = self.vectors = itself
        self._meanings = meanings or {}
        terms = self.cutter.terms([doc.text for doc in docs])
        self._words = sorted({word for each in terms for word in each.words.split()})
        self._surfaces = sorted({word for each in terms for word in each.surfaces.split()})
        self._bm25 = PlainBM25(terms, length_of)
        self.mean_length = self._bm25.mean_length
        filled = [doc.vector or (0.0,) * dim for doc in docs]
        self._vectors = np.array(filled, np.float32).reshape(len(docs), dim)
        self._without = np.array([not any(vector) for vector in filled], np.bool_)

    def by_chance(self, vector: Vectors) -> float | None:
        return None

    def where(self, asked: Where) -> Mask:
        holds = self._meanings[asked.text]
        return np.array([holds(doc) for doc in self.docs], np.bool_)

    def document_frequency(self, term: Term) -> int:
        return self._bm25.document_frequency(term)

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        return {term: self.document_frequency(term) for term in terms}

    def bm25(self, term: Term, row: int) -> float:
        """Return the BM25 score of a term in a row."""
        return self._bm25.score(row, KeywordQuery((Clause((term,)),)))

    def search(self, query: KeywordQuery, limit: int, among: Mask) -> RankedRows:
        return self._bm25.search(query, limit, self._rows_among(among))

    def rows_with_all(self, clauses: Iterable[Clause]) -> Rows:
        return self.search(KeywordQuery((), tuple(clauses)), self.rows, self.live).rows

    def near(
        self, vector: Vectors, rows: Rows, limit: int, among: Mask
    ) -> tuple[RankedRows, Scores]:
        there = np.array(
            [row for row in self._rows_among(among) if not self._without[row]], np.int64
        )
        similarities = np.einsum("ij,j->i", self._vectors, vector)
        nearest = RankedRows.of(there, similarities[there], limit)
        similarities[self._without] = np.nan
        return nearest, similarities[rows]

    def take(self, rows: Rows) -> Vectors:
        return self._vectors[rows]

    def ids(self, rows: Rows) -> list[str]:
        return [self.docs[row].id for row in rows]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        return [
            Document(self.docs[row].id, self.docs[row].text, self.docs[row].fields) for row in rows
        ]

    def near_spellings(self, term: Term, limit: int) -> list[Term]:
        words = self._words if term.field == "words" else self._surfaces
        near = difflib.get_close_matches(term.text, words, limit)
        return [Term(term.field, text) for text in near]

    def in_order(self, selection: Mask) -> Rows:
        rows = sorted(self._rows_among(selection), key=lambda row: self.docs[row].id)
        return np.array(rows, np.int64)

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        held = [_text_of_list(doc.fields.get(name)) for doc in self.docs]
        values = sorted({value for value in held if value is not None})
        ranks = [-1 if held[row] is None else values.index(held[row]) for row in rows]
        return np.array(ranks, np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Mask, limit: int
    ) -> dict[str, ValueCounts]:
        rows = self._rows_among(among)
        if terms:
            asked = KeywordQuery(tuple(Clause((term,)) for term in terms))
            rows = self.search(asked, self.rows, among).rows.tolist()
        return {name: self._count(name, rows, limit) for name in names}

    def _count(self, name: str, rows: Iterable[int], limit: int) -> ValueCounts:
        counts: Counter[Any] = Counter()
        for row in rows:
            value = self.docs[row].fields.get(name)
            counts.update(set(value) if isinstance(value, list) else [value])
        del counts[None]
        frequent = sorted(counts, key=lambda value: (-counts[value], value))[:limit]
        return ValueCounts(tuple(ValueCount(each, counts[each]) for each in frequent), len(counts))

    def _rows_among(self, among: Mask | None) -> list[int]:
        rows = range(self.rows)
        return [row for row in rows if among is None or (row < len(among) and among[row])]


def _text_of_list(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


def index_of(
    folder: Path, docs: Sequence[Doc], known: Collection[str] | None, language: str = "none"
) -> Index:
    """Similarity is the inner product of two numbers; the model knows these words, lower-cased."""
    index = Index.create(
        Path(tempfile.mkdtemp(dir=folder)) / "index",
        dim=2,
        metric="inner-product",
        dtype="float32",
        language=language,  # type: ignore[arg-type] # one of the languages
        vocabulary=known and list(known),
        rule="lower" if known else None,
    )
    vectors = np.array([doc.vector or (0, 0) for doc in docs], np.float32).reshape(len(docs), 2)
    with index.writer() as writer:
        writer.add([Document(doc.id, doc.text, doc.fields) for doc in docs], vectors)
    return index


def idf(frequency: int, documents: int = 4) -> float:
    """Of the textbook."""
    return log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def bm25(docs: Sequence[Doc], word: str, row: int) -> float:
    """The textbook's score of one unstemmed word."""
    terms = Cutter("none").terms([doc.text for doc in docs])
    return PlainBM25(terms).score(row, KeywordQuery((Clause((Term("words", word),)),)))
