"""A commit, as searches read it: conditions as filters, candidates by Qdrant, scores here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
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
from vocabtool_qdrant.filters import Condition, all_of, any_of, filter_of, rows_in, with_all
from vocabtool_qdrant.terms import DocumentTerms, sparse_vector

MAX_CANDIDATES: Final = 10_000  # documents of a query, or with all words of a phrase, scored here
MAX_COMPARED: Final = 100_000  # documents on which a condition is evaluated here
MAX_KEPT: Final = 1 << 14  # terms whose frequencies are kept
SPARE: Final = 16  # hits beyond the limit, because of ties
SLACK: Final = 1.0001  # sums of 32-bit numbers differ by less
LEAST: Final = 1e-9  # weight of a term whose boost is 0, so that its documents are found


class QdrantCommit(QdrantDocuments, SteppedLegs):
    """One commit; fulfils ``CommitStore``. Threads may share it. A selection is a condition."""

    exactness = Exactness(lengths=False, frequencies=True, similarities=True)

    def __init__(
        self, collection: Collection, record: Record, model: IndexModel, cutter: Cutter
    ) -> None:
        super().__init__(collection, record)
        self.model, self.cutter = model, cutter
        self.keywords = self.vectors = self.documents = self
        self._frequency = lru_cache(MAX_KEPT)(partial(collection.frequency, record.live))

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
                words = with_all([asked])
                return words if len(asked.terms) == 1 else self._phrase(asked, words)
            case Where():
                kinds: dict[str, str] = {**self.fields, "id": "string"}
                native = filter_of(asked.tree, {**self.columns, "id": "id"}, kinds)
                return native or self._evaluate(asked)
            case Exclusion(part):
                return all_of(but=[self._condition(part)])
            case Combination("all", parts):
                return all_of(*map(self._condition, parts))
            case Combination(_, parts):
                return any_of(map(self._condition, parts))

    def _phrase(self, clause: Clause, words: Condition) -> Condition:
        rows = [each.id for each in self._scan(words, (), MAX_CANDIDATES)]
        return rows_in([row for row, each in self._terms(rows) if each.count(clause)])

    def _evaluate(self, condition: Where) -> Condition:
        """Evaluate here what Qdrant does not compare as we do."""
        documents_where([], self.fields, condition)  # raises if it is invalid
        columns = ["id", *self.columns.values(), *(["text"] if "text" in condition.text else [])]
        points = [*self._scan(self.live, columns, MAX_COMPARED)]
        documents = [self.document_of(each.payload) for each in points]
        mask = documents_where(documents, self.fields, condition)
        return rows_in([points[at].id for at in np.flatnonzero(mask)])

    def _scan(self, wanted: Condition, columns: Sequence[str], most: int) -> Iterator[Point]:
        for at, point in enumerate(self.collection.scan(all_of(self.live, wanted), columns)):
            if at == most:
                what = f"compared outside of Qdrant with at most {most:,} documents; there are more"
                why = f"a part of the query is {what}: use =, in, <, <=, >, >= or single words"
                raise VocabtoolError(f"{self.collection.where}: {why}")
            yield point

    def is_empty(self, selection: Condition) -> bool:
        return next(self.collection.scan(selection), None) is None

    def rows_in_order(self, where: str | None = None) -> Rows:
        selection = self.select([] if where is None else [Where.of(where)])
        return np.array([each.id for each in self.collection.scan(selection)], np.int64)

    # The keyword leg

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        return {each: self._frequency(each) for each in terms}

    def search(self, query: KeywordQuery, limit: int, among: Condition) -> RankedRows:
        """Rank candidates until no other document can have a higher score than the last of them.

        If texts were shorter on average when they were weighted, scores are now higher by at most
        ``most``. If they were longer, weights are too high, which only adds candidates.
        """
        clauses = (*query.should, *query.must)
        if limit < 1 or not clauses or not self.rows:
            return RankedRows.none()
        counts = self.document_frequencies(term for each in clauses for term in each.terms)
        idfs = {term: idf(self.rows, count) for term, count in counts.items()}
        if isinstance(among, models.HasIdCondition):
            rows: Any = among.has_id
            return self._rank(rows, query, idfs, limit)
        weights: dict[Term, float] = {}
        for clause in clauses:
            for term in clause.terms:
                weights[term] = weights.get(term, LEAST) + clause.boost * idfs[term]
        vector, wanted = sparse_vector(weights), all_of(among, with_all(query.must))
        most = SLACK * max(1.0, self.mean_lengths[0] / self.record.mean)
        count = 2 * limit + SPARE
        while True:
            near = self._nearest("terms", vector, wanted, count)
            ranked = self._rank([each.id for each in near], query, idfs, limit)
            is_full = len(ranked.rows) == limit and ranked.scores[-1] > most * near[-1].score
            if len(near) < count or is_full or count >= MAX_CANDIDATES:
                return ranked
            count = min(4 * count, MAX_CANDIDATES)

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Condition
    ) -> list[RankedRows]:
        return [self.search(query, limit, among) for query in queries]

    def _nearest(self, name: str, query: Any, wanted: models.Filter, limit: int) -> list[Point]:
        asked: dict[str, Any] = {"using": name, "limit": limit, "with_payload": False}
        if name == "vector" and not self.collection.is_local:
            asked["search_params"] = models.SearchParams(exact=True)
        found = self.collection.ask("query_points", query=query, query_filter=wanted, **asked)
        return [*found.points]

    def _rank(
        self, rows: Sequence[int], query: KeywordQuery, idfs: Mapping[Term, float], limit: int
    ) -> RankedRows:
        mean = self.mean_lengths[0]
        scored = ((row, each.score(query, idfs, mean)) for row, each in self._terms(rows))
        score_of = {row: score for row, score in scored if score is not None}
        scores = np.array([*score_of.values()], np.float32)
        return RankedRows.of(np.array([*score_of], np.int64), scores, limit)

    def _terms(self, rows: Sequence[int]) -> Iterator[tuple[int, DocumentTerms]]:
        """Yield rows that still exist with their terms."""
        points = self.collection.get(rows, ("runs", "surfaces", "length", "surface_count"))
        return ((row, DocumentTerms.read(each.payload)) for row, each in points.items())

    def near_spellings(self, word: str, limit: int) -> list[str]:
        asked: Any = {"facet_filter": self.live, "limit": MAX_TERMS_COMPARED, "exact": True}
        hits = self.collection.ask("facet", key="words", **asked).hits
        counts = {each.value: each.count for each in hits if each.value[:1] in word[:2]}
        return nearest(word, counts, limit)

    # The vector leg

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Condition) -> Near:
        dim, metric = self.dim, self.manifest.configuration.metric
        if np.shape(vector) != (dim,):
            raise ValueError(f"vector must have {dim:,} numbers, got shape {np.shape(vector)}")
        query = prepare(vector, metric)
        if not np.count_nonzero(query):
            return Near(RankedRows.none(), np.full(len(rows), np.nan, np.float32))
        points: list[Point] = []
        if limit > 0:
            there = all_of(among, models.HasVectorCondition(has_vector="vector"))
            points = self._nearest("vector", query.tolist(), there, limit + SPARE)
        near = np.array([each.id for each in points], np.int64)
        vectors = self.take(np.concatenate((near, rows)))
        scores = similarities(query, vectors, metric)
        scores[~vectors.any(axis=1)] = np.nan
        best = RankedRows.of(near, scores[: len(near)], limit)
        return Near(best, scores[len(near) :])
