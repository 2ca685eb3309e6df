"""Tune the weight of keyword search with judged queries.

The weight with the highest mean nDCG@10 is chosen. Cross-validation estimates its nDCG@10 on new
queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.judgements import NDCG_DEPTH, JudgedQuery, Qrels, ndcg, with_judgements
from vocabtool.index.raw_vectors import prepare, similarities
from vocabtool.keywords.bm25 import Clause, Field, KeywordQuery, idf, stored_length, term_score
from vocabtool.keywords.cutter import Terms
from vocabtool.search.fusion import Candidates, best_places, fuse
from vocabtool.search.legs import MaskStore
from vocabtool.search.query import parse_query
from vocabtool.search.settings import Calibration, Settings
from vocabtool.search.store import Selection, Store
from vocabtool.system.ranking import Near, RankedRows, Rows

if TYPE_CHECKING:
    from vocabtool.index.generation import Progress
    from vocabtool.index.index import Index

STEPS: Final = 20
FOLDS: Final = 5
MIN_QUERIES: Final = 10
DEFAULTS: Final = Settings(literal=True)  # judged queries are texts, without operators
WEIGHTS: Final = tuple(step / STEPS for step in range(STEPS + 1))  # 0, 0.05, .. 1


class CopyStore(MaskStore):
    """A store for searches in which one document is replaced by a shortened copy.

    - ``row``: the row of the document.
    - ``terms``, ``vector``: the terms and the vector of the copy.
    - ``mean_length``: the mean length of the field ``words``.

    Document frequencies stay those of ``store``. The copy matches no phrase.
    """

    def __init__(
        self,
        store: Store,
        row: int,
        terms: Terms,
        vector: Vectors,
        metric: Metric,
        mean_length: float,
    ) -> None:
        self.rows, self.live, self.exactness = store.rows, None, store.exactness
        self.cutter, self.documents, self.fields = store.cutter, store.documents, store.fields
        self.known_words = store.known_words
        self.searched_fields = store.searched_fields
        self.keywords = self.vectors = self
        self._store, self._row, self._metric = store, row, metric
        self._vector, self._mean_length = vector, mean_length
        self._length = terms.count if self.exactness.lengths else stored_length(terms.count)
        self._counts: dict[Field, Counter[str]] = {
            "words": Counter(" ".join((terms.words, *terms.repeated)).split()),
            "surfaces": Counter(terms.surfaces.split()),
        }
        self.document_frequencies = store.keywords.document_frequencies
        self.near_spellings = store.keywords.near_spellings
        self.take = store.vectors.take

    def search(self, query: KeywordQuery, limit: int, among: Rows | None) -> RankedRows:
        others, is_allowed = self._without(among)
        found = self._store.keywords.search(query, limit, others)
        scores = {clause.terms: self._bm25(clause) for clause in query.must + query.should}
        if not is_allowed or not all(scores[clause.terms] for clause in query.must):
            return found
        total = 0.0
        for clause in query.must + query.should:
            of_parts = sum(scores.get((term,), 0.0) for term in clause.parts)
            total += max(scores[clause.terms] - of_parts, 0.0)
        return self._with_copy(found, total, limit) if total else found

    def search_each(
        self, queries: Sequence[KeywordQuery], limit: int, among: Rows | None
    ) -> list[RankedRows]:
        return [self.search(query, limit, among) for query in queries]

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Rows | None) -> Near:
        others, is_allowed = self._without(among)
        near = self._store.vectors.near(vector, rows, limit, others)
        similarity = np.nan
        if self._vector.any():
            (similarity,) = similarities(vector, self._vector[np.newaxis], self._metric).tolist()
            if is_allowed:
                near = near._replace(nearest=self._with_copy(near.nearest, similarity, limit))
        near.similarities[rows == self._row] = similarity
        return near

    def _bm25(self, clause: Clause) -> float:
        term, *others = clause.terms
        count = self._counts[term.field][term.text]
        if not count or others:
            return 0.0
        weight = clause.boost * idf(self.rows, self.document_frequencies([term])[term])
        if term.field == "surfaces":  # term frequency does not count
            return weight
        return term_score(weight, count, self._length, self._mean_length)

    def only(self, rows: Rows) -> Rows:
        return rows

    def _without(self, among: Rows | None) -> tuple[Selection, bool]:
        """Return ``among`` without the copied document, and whether ``among`` contained it.

        ``among``: rows; ``None`` for all documents.
        """
        if among is None:  # all documents
            return self._store.select([], self._row), True
        others = among[among != self._row]
        return self._store.only(others), len(others) < len(among)

    def _with_copy(self, found: RankedRows, score: float, limit: int) -> RankedRows:
        rows, scores = np.append(found.rows, self._row), np.append(found.scores, np.float32(score))
        return RankedRows.of(rows, scores, limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class LegScores:
    """The documents that vector search and keyword search found for a query, with their scores."""

    store: Store
    candidates: Candidates
    tiers: NDArray[np.int8]
    m: float

    def ranking(self, a: float, k: int | None = None) -> Rows:
        """Return the best rows when keyword search has the weight ``a``.

        ``k``: number of rows; ``None`` for all.
        """
        rows = self.candidates.rows
        scores, _, weight = fuse(self.candidates, replace(DEFAULTS, a=a), self.m, False)
        most, ids, alone = len(rows) if k is None else k, self.store.documents.ids, weight == 1
        places, _ = best_places(rows, scores, self.tiers, most, ids, keywords_alone=alone)
        return rows[places]

    @property
    def nearest(self) -> Rows:
        return self.candidates.rows[: self.candidates.dense]

    @property
    def keyword_rows(self) -> Rows:
        return self.candidates.rows[self.candidates.keyword]


def score_legs(
    store: Store, text: str, vector: Vectors | None, settings: Settings = DEFAULTS
) -> LegScores:
    """Search by vector and by keywords. Return the scores of both, not fused."""
    query = parse_query(store, text, settings)
    used = vector if vector is not None and vector.any() else None
    candidates, tiers = store.legs(query, used, settings.limit(store.rows), store.live)
    return LegScores(store=store, candidates=candidates, tiers=tiers, m=query.m)


@dataclass(frozen=True, slots=True)
class Gain:
    """The mean nDCG@10 of the judged queries with the weight ``a`` for keyword search."""

    a: float
    ndcg: float


@dataclass(frozen=True, slots=True)
class TunedWeight:
    """The weight of keyword search with the highest mean nDCG@10.

    - ``a``: the weight, 0 to 1. If several are best, the middle one.
    - ``curve``: the mean nDCG@10 with each weight.
    - ``held_out``: the mean nDCG@10 in five-fold cross-validation.
    - ``fixed``: the mean nDCG@10 with the default weight.
    """

    a: float
    curve: tuple[Gain, ...]
    held_out: float
    fixed: float
    queries: int
    seed: int
    notes: tuple[str, ...]

    @property
    def calibration(self) -> Calibration:
        return Calibration(self.a, self.queries, 0, self.seed)

    def to_dict(self) -> dict[str, Any]:
        facts = asdict(self)
        return {**facts, "curve": list(facts["curve"]), "notes": list(self.notes)}


def tune(
    index: Index,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TunedWeight:
    """Choose the weight ``a`` of keyword search with judged queries. It is not stored.

    ``vectors``: vectors of the queries, shape (queries, dim), if the index has no encoder.
    ``seed``: seed of the random folds. Raises :class:`VocabtoolError` if fewer than ten queries
    have a relevant document, or if there is neither an encoder nor ``vectors``.
    """
    chosen = with_judgements(queries, qrels)
    if len(chosen.queries) < MIN_QUERIES:
        raise VocabtoolError(
            f"tuning needs {MIN_QUERIES} queries with a relevant document, got "
            f"{len(chosen.queries)}; calibrate without judgements instead: `vocabtool calibrate "
            f"{quote(index.name)}`"
        )
    made = chosen.vectors(index, vectors)
    if made is None:
        raise VocabtoolError(
            f"{index.name}: the index has no encoder; pass the vectors of the queries"
        )
    snapshot = index.snapshot()
    gains = np.empty((len(chosen.queries), len(WEIGHTS)))
    asked = zip(chosen.queries, prepare(made, index.configuration.metric), strict=True)
    for place, (query, vector) in enumerate(asked):
        legs = score_legs(snapshot, query.text, vector)
        for column, a in enumerate(WEIGHTS):
            ids = snapshot.documents.ids(legs.ranking(a, NDCG_DEPTH))
            gains[place, column] = ndcg(ids, chosen.judged[place])
        if progress is not None:
            progress("queries searched", (place + 1) / len(gains))
    # Score each query with the weight that is best for the queries of the other folds.
    fold = np.random.default_rng(seed).permutation(len(gains)) % FOLDS
    held_out = [gains[fold == each][:, _best(gains[fold != each])] for each in range(FOLDS)]
    means = gains.mean(axis=0)
    known_words = snapshot.known_words
    fixed = DEFAULTS.weight(known_words is not None and known_words.subword)
    return TunedWeight(
        WEIGHTS[_best(gains)],
        tuple(map(Gain, WEIGHTS, means.tolist())),
        float(np.concatenate(held_out).mean()),
        float(means[WEIGHTS.index(fixed)]),
        len(gains),
        seed,
        tuple(chosen.notes),
    )


def _best(gains: NDArray[np.float64]) -> int:
    """Return the column with the highest mean. If several are best, return the middle one."""
    means = gains.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - 1e-9)
    return int(best[len(best) // 2])
