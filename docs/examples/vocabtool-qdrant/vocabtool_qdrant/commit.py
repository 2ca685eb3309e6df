"""A commit, as searches read it: conditions as filters, candidates by Qdrant, scores here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from qdrant_client import models

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.condition_sql import documents_where
from vocabtool.index.model import IndexModel
from vocabtool.index.raw_vectors import prepare, similarities
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import MAX_TERMS_COMPARED, nearest
from vocabtool.search.conditions import Where
from vocabtool.search.legs import SteppedLegs
from vocabtool.search.store import Asked, Combination, Exactness, Exclusion, KnownWords
from vocabtool.system.ranking import Near, RankedRows, Rows
from vocabtool_qdrant.collection import Collection, Point, Record
from vocabtool_qdrant.documents import QdrantDocuments
from vocabtool_qdrant.filters import Condition, all_of, any_of, filter_of, has, rows_in, with_all
from vocabtool_qdrant.terms import DocumentTerms, sparse_vector

MAX_CANDIDATES: Final = 10_000  # documents of a query, or with all words of a phrase, scored here
MAX_COMPARED: Final = 100_000  # documents on which a condition is evaluated here
MAX_KEPT: Final = 1 << 14  # terms with their frequencies; documents with their terms
MAX_CONDITIONS: Final = 16  # whose documents are kept
SPARE: Final = 16  # hits beyond the limit, because of ties
SLACK: Final = 1.0001  # sums of 32-bit numbers differ by less
LEAST: Final = 1e-9  # weight of a term whose boost is 0, so that its documents are found


class QdrantCommit(QdrantDocuments, SteppedLegs):
    """One commit; fulfils ``CommitStore``. Threads may share it. A selection is a condition."""

    exactness = Exactness(lengths=True, frequencies=True, similarities=True)

    def __init__(
        self, collection: Collection, record: Record, model: IndexModel, cutter: Cutter
    ) -> None:
        super().__init__(collection, record)
        self.model, self.cutter = model, cutter
        self.keywords = self.vectors = self.documents = self
        self._frequencies: dict[Term, int] = {}
        self._kept: dict[int, DocumentTerms] = {}
        self._evaluated: dict[Where, Condition] = {}

    @property
    def known_words(self) -> KnownWords | None:
        return self.model.known_words

    # What may be found

    def select(self, asked: Sequence[Asked], without: int | None = None) -> Condition:
        but = [] if without is None else [rows_in([without])]
        return all_of(self.live, *map(self._condition, dict.fromkeys(asked)), but=but)

    def only(self, rows: Rows) -> Condition:
        return rows_in(rows.tolist())

    def _condition(self, asked: Asked) -> Condition:
        match asked:
            case Clause():
                held = with_all([asked])
                return held if len(asked.terms) == 1 else self._phrase(asked, held)
            case Where():
                native = filter_of(asked.tree, self.columns, self.fields)
                return native or self._evaluate(asked)
            case Exclusion(part):
                return all_of(but=[self._condition(part)])
            case Combination("all", parts):
                return all_of(*map(self._condition, parts))
            case Combination(_, parts):
                return any_of(map(self._condition, parts))

    def _phrase(self, clause: Clause, held: Condition) -> Condition:
        rows = [each.row for each in self._scan(held, (), MAX_CANDIDATES)]
        return rows_in([row for row, each in self._terms(rows) if each.count(clause)])

    def _evaluate(self, condition: Where) -> Condition:
        """Evaluate here what Qdrant does not compare as we do."""
        if (kept := self._evaluated.get(condition)) is not None:
            return kept
        columns = ["id", "text", *self.columns.values()]
        points = [*self._scan(self.live, columns, MAX_COMPARED)]
        documents = [self.document_of(each.payload) for each in points]
        mask = documents_where(documents, self.fields, condition)
        rows = rows_in([points[at].row for at in np.flatnonzero(mask)])
        earlier = self._evaluated if len(self._evaluated) < MAX_CONDITIONS else {}
        self._evaluated = {**earlier, condition: rows}
        return rows

    def _scan(self, wanted: Condition, columns: Sequence[str], most: int) -> Iterator[Point]:
        for at, point in enumerate(self.collection.scan(all_of(self.live, wanted), columns)):
            if at == most:
                raise VocabtoolError(
                    f"{self.collection.where}: this part of the query is compared outside of "
                    f"Qdrant, with at most {most:,} documents, and there are more: use =, in, <, "
                    "<=, >, >= or single words"
                )
            yield point

    def is_empty(self, selection: Condition) -> bool:
        return next(self.collection.scan(selection), None) is None

    def rows_in_order(self, where: str | None = None) -> Rows:
        found = self.collection.scan(self.select([] if where is None else [Where.of(where)]))
        return np.array([each.row for each in found], np.int64)

    # The keyword leg

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        asked, held = [*dict.fromkeys(terms)], self._frequencies
        found = {
            each: held[each]
            if each in held
            else self.collection.count(all_of(self.live, has(each.field, each.text)))
            for each in asked
        }
        # Another thread may still read the old dictionary, so it is replaced, never changed.
        self._frequencies = {**(held if len(held) < MAX_KEPT else {}), **found}
        return found

    def search(self, query: KeywordQuery, limit: int, among: Condition) -> RankedRows:
        """Rank candidates until no other document can have a higher score than the last of them.

        The stored weights are of a mean length of texts that was smaller then by at most ``most``.
        """
        clauses = (*query.should, *query.must)
        if limit < 1 or not clauses or not self.rows:
            return RankedRows.none()
        idfs = self._idfs(clauses)
        if isinstance(among, models.HasIdCondition):
            return self._rank([int(str(row)) for row in among.has_id], query, idfs, limit)
        weights: dict[Term, float] = {}
        for clause in clauses:
            for term in clause.terms:
                weights[term] = weights.get(term, LEAST) + clause.boost * idfs[term]
        vector, wanted = sparse_vector(weights), all_of(among, with_all(query.must))
        most = SLACK * max(1.0, self.mean_lengths[0] / self.record.mean)
        count = 2 * limit + SPARE
        while True:
            found = self._nearest("terms", vector, wanted, count)
            ranked = self._rank([row for row, _ in found], query, idfs, limit)
            is_full = len(ranked.rows) == limit and ranked.scores[-1] > most * found[-1][1]
            if len(found) < count or is_full or count >= MAX_CANDIDATES:
                return ranked
            count = min(4 * count, MAX_CANDIDATES)

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Condition
    ) -> list[RankedRows]:
        return [self.search(query, limit, among) for query in queries]

    def _nearest(
        self, name: str, query: Any, wanted: models.Filter, limit: int
    ) -> list[tuple[int, float]]:
        asked: dict[str, Any] = {"using": name, "limit": limit, "with_payload": False}
        if name == "vector" and not self.collection.is_local:
            asked["search_params"] = models.SearchParams(exact=True)
        found = self.collection.ask("query_points", query=query, query_filter=wanted, **asked)
        return [(int(each.id), each.score) for each in found.points]

    def _idfs(self, clauses: Iterable[Clause]) -> dict[Term, float]:
        counts = self.document_frequencies(term for each in clauses for term in each.terms)
        return {term: idf(self.rows, count) for term, count in counts.items()}

    def _rank(
        self, rows: Sequence[int], query: KeywordQuery, idfs: Mapping[Term, float], limit: int
    ) -> RankedRows:
        mean = self.mean_lengths[0]
        scored = ((row, each.score(query, idfs, mean)) for row, each in self._terms(rows))
        found = {row: score for row, score in scored if score is not None}
        scores = np.array([*found.values()], np.float32)
        return RankedRows.of(np.array([*found], np.int64), scores, limit)

    def _terms(self, rows: Sequence[int]) -> Iterator[tuple[int, DocumentTerms]]:
        """Yield rows that still exist with their terms."""
        held, columns = self._kept, ("runs", "surfaces", "length", "surface_count")
        found = self.collection.get([row for row in rows if row not in held], columns)
        new = {row: DocumentTerms.read(each.payload) for row, each in found.items()}
        known = {**held, **new}
        self._kept = known if len(known) < MAX_KEPT else new
        return ((row, known[row]) for row in rows if row in known)

    def near_spellings(self, word: str, limit: int) -> list[str]:
        asked: Any = {"facet_filter": self.live, "limit": MAX_TERMS_COMPARED, "exact": True}
        found = self.collection.ask("facet", key="words", **asked).hits
        counts = {each.value: each.count for each in found if each.value[:1] in word[:2]}
        return nearest(word, counts, limit)

    # The vector leg

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Condition) -> Near:
        held = self.manifest.configuration
        if np.shape(vector) != (held.dim,):
            raise ValueError(f"vector must have {held.dim:,} numbers, got shape {np.shape(vector)}")
        query = prepare(vector, held.metric)
        if not np.count_nonzero(query):
            return Near(RankedRows.none(), np.full(len(rows), np.nan, np.float32))
        found: list[tuple[int, float]] = []
        if limit > 0:
            there = all_of(among, models.HasVectorCondition(has_vector="vector"))
            found = self._nearest("vector", query.tolist(), there, limit + SPARE)
        near = np.array([row for row, _ in found], np.int64)
        vectors = self.take(np.concatenate((near, rows)))
        scores = similarities(query, vectors, held.metric)
        scores[~vectors.any(axis=1)] = np.nan
        best = RankedRows.of(near, scores[: len(near)], limit)
        return Near(best, scores[len(near) :])
