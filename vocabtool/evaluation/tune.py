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
from vocabtool.keywords.bm25 import Clause, Field, Term, idf, stored_length, term_score
from vocabtool.keywords.cutter import Terms
from vocabtool.search.fusion import Candidates, best_places, fuse
from vocabtool.search.query import Query, parse_query
from vocabtool.search.settings import Calibration, Settings
from vocabtool.search.store import Store
from vocabtool.system.ranking import Near, RankedRows, Rows

if TYPE_CHECKING:
    from vocabtool.index.generation import Progress
    from vocabtool.index.index import Index

STEPS: Final = 20
FOLDS: Final = 5
MIN_QUERIES: Final = 10
DEFAULTS: Final = Settings(literal=True)  # judged queries are texts, without operators
WEIGHTS: Final = tuple(step / STEPS for step in range(STEPS + 1))  # 0, 0.05, .. 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortenedCopy:
    """A document without the text of a query. In a search it takes the place of the document.

    - ``row``: the row of the document.
    - ``terms``, ``vector``: those of the copy; the vector is zero if the copy has none.
    - ``mean_length``: the mean length of the field ``words``.

    Document frequencies stay those of the index. The copy matches no phrase.
    """

    row: int
    terms: Terms
    vector: Vectors
    metric: Metric
    mean_length: float

    def legs(
        self, store: Store, query: Query, vector: Vectors | None, limit: int
    ) -> tuple[Candidates, NDArray[np.int8]]:
        """Return the result of ``store.legs`` with the copy in the place of its document."""
        candidates, tiers = store.legs(query, vector, limit, store.select([], self.row))
        similarity = np.float32(np.nan)
        nearest = RankedRows(
            candidates.rows[: candidates.dense], candidates.similarities[: candidates.dense]
        )
        if vector is not None and self.vector.any():
            (similarity,) = similarities(vector, self.vector[np.newaxis], self.metric)
            nearest = self._insert(nearest, similarity, limit)
        tier_of = dict(zip(candidates.rows.tolist(), tiers.tolist(), strict=True))
        of_words = (
            self._scores(store, query, query.codes),
            self._scores(store, query, query.unstemmed),
        )
        tier_of[self.row] = sum(any(scores) for scores in of_words)
        rows = candidates.rows[candidates.keyword]
        keyword = RankedRows(rows, candidates.bm25[candidates.keyword])
        others = candidates.similarities[candidates.keyword]
        listed = candidates.listed
        if score := sum(self._scores(store, query, query.should)):
            ranked = self._insert(
                RankedRows(rows[:listed], keyword.scores[:listed]), np.float32(score), listed + 1
            )
            similarity_of = dict(zip(rows.tolist(), others.tolist(), strict=True))
            similarity_of[self.row] = float(similarity)
            # A document without an identifier is no candidate if it has no rank.
            has_place = [
                place < limit or bool(tier_of[row])
                for place, row in enumerate(ranked.rows.tolist())
            ]
            keyword = RankedRows(
                np.append(ranked.rows[has_place], rows[listed:]),
                np.append(ranked.scores[has_place], keyword.scores[listed:]),
            )
            others = np.array([similarity_of[row] for row in keyword.rows.tolist()], np.float32)
            listed = min(len(ranked.rows), limit)
        candidates = Candidates.union(Near(nearest, others), keyword, listed)
        tiers = np.array([tier_of[row] for row in candidates.rows.tolist()], np.int8)
        return candidates, tiers

    def _insert(self, ranked: RankedRows, score: np.float32, limit: int) -> RankedRows:
        rows, scores = np.append(ranked.rows, self.row), np.append(ranked.scores, score)
        return RankedRows.of(rows, scores, limit)

    def _scores(self, store: Store, query: Query, clauses: Sequence[Clause]) -> list[float]:
        """Return the BM25 score of the copy for each clause."""
        counts: dict[Field, Counter[str]] = {
            "words": Counter(" ".join((self.terms.words, *self.terms.repeated)).split()),
            "surfaces": Counter(self.terms.surfaces.split()),
        }
        exact, length = store.exactness.lengths, self.terms.count
        of_terms = dict[tuple[Term, ...], float]()
        for clause in clauses:
            term, *more = clause.terms
            count = 0 if more else counts[term.field][term.text]
            score = clause.boost * idf(store.rows, query.frequencies[term]) if count else 0.0
            if score and term.field == "words":  # of an identifier, only the idf counts
                stored = length if exact else stored_length(length)
                score = term_score(score, count, stored, self.mean_length)
            of_terms[clause.terms] = score
        return [
            max(
                of_terms[clause.terms] - sum(of_terms.get((part,), 0.0) for part in clause.parts),
                0.0,
            )
            for clause in clauses
        ]


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
    store: Store,
    text: str,
    vector: Vectors | None,
    settings: Settings = DEFAULTS,
    copy: ShortenedCopy | None = None,
) -> LegScores:
    """Search by vector and by keywords. Return the scores of both, not fused.

    ``copy``: takes the place of its document.
    """
    query = parse_query(store, text, settings)
    used = vector if vector is not None and vector.any() else None
    limit = settings.limit(store.rows)
    if copy is None:
        candidates, tiers = store.legs(query, used, limit, store.live)
    else:
        candidates, tiers = copy.legs(store, query, used, limit)
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
