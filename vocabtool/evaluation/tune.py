"""How much the keyword leg should weigh, by queries that somebody judged.

The weight that finds most on all of them is taken; what that is worth on queries that it was not
chosen by is told by cross-validation. Without judgements: ``calibrate.py``. Either way a query's
legs are asked once, and fused as often as there are weights to try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.judgements import NDCG_DEPTH, JudgedQuery, Qrels, ndcg, with_judgements
from vocabtool.index.raw_vectors import prepare, similarities
from vocabtool.keywords.bm25 import Clause, idf, term_score
from vocabtool.keywords.cutter import Terms
from vocabtool.search.fusion import Candidates, best_places, fuse
from vocabtool.search.query import parse_query
from vocabtool.search.search import (
    ask_keywords,
    find_nearest,
    find_tiers,
    is_subword,
)
from vocabtool.search.settings import Calibration, Settings
from vocabtool.search.store import Store
from vocabtool.system.ranking import RankedRows, Rows

if TYPE_CHECKING:
    from vocabtool.index.index import Index

STEPS: Final = 20
FOLDS: Final = 5
MIN_QUERIES: Final = 10
DEFAULTS: Final = Settings()
WEIGHTS: Final = tuple(step / STEPS for step in range(STEPS + 1))  # 0, 0.05, .. 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentCopy:
    """What stands in for the document of ``row``, with other text.

    ``vector``: prepared, shape (dim,). ``mean_length``: of the rows' field ``words``. The copy's
    term frequencies and length are its own, its BM25 score the textbook's; how often words stand in
    the collection and how long documents are on average stays as it is. Phrases are not looked for
    in it: queries made of a corpus have none.
    """

    row: int
    terms: Terms
    vector: Vectors
    metric: Metric
    mean_length: float

    def bm25(self, store: Store, clauses: Sequence[Clause]) -> float:
        """The sum over the clauses; 0 of a phrase."""
        terms = [clause.terms[0] for clause in clauses]
        frequencies = store.keywords.document_frequencies(terms)
        words, surfaces = Counter(self.terms.words.split()), Counter(self.terms.surfaces.split())
        score = 0.0
        for term, clause in zip(terms, clauses, strict=True):
            count = (words if term.field == "words" else surfaces)[term.text]
            if count and len(clause.terms) == 1:
                weight = clause.boost * idf(store.rows, frequencies[term])
                if term.field == "words":  # a surface is there or not
                    weight = term_score(weight, count, self.terms.count, self.mean_length)
                score += weight
        return score


@dataclass(frozen=True, kw_only=True, slots=True)
class LegScores:
    """The candidates of a query, each with all that fusing them with any weight takes."""

    store: Store
    candidates: Candidates
    tiers: NDArray[np.int8]
    m: float

    def ranking(self, a: float, k: int | None = None) -> Rows:
        """The best ``k`` rows, all without it, in the order of a search with that weight."""
        rows = self.candidates.rows
        scores, _, weight = fuse(self.candidates, replace(DEFAULTS, a=a), self.m, False)
        most, ids, alone = len(rows) if k is None else k, self.store.documents.ids, weight == 1
        places, _ = best_places(rows, scores, self.tiers, most, ids, keywords_alone=alone)
        return rows[places]

    @property
    def nearest(self) -> Rows:
        """The rows that the vector leg gave, best first."""
        return self.candidates.rows[: self.candidates.dense]

    @property
    def keyword_rows(self) -> Rows:
        """The rows that the keyword leg gave, best first."""
        return self.candidates.rows[self.candidates.keyword]


def ask_legs(
    store: Store,
    text: str,
    vector: Vectors | None,
    settings: Settings,
    copy: DocumentCopy | None = None,
) -> LegScores:
    """Ask both legs; with a ``copy``, as if it stood in the place of its document.

    The functions are those of a search with the fusion ``coverage``, so what is found for a weight
    is what a search with that weight finds.
    """
    query = parse_query(store, text, settings)
    if vector is not None and not vector.any():
        vector = None
    limit = settings.limit(store.rows)
    allowed = store.live if copy is None else store.live & (np.arange(store.rows) != copy.row)
    leg = ask_keywords(store, query, limit, allowed)
    if copy is not None and (score := copy.bm25(store, query.should)):
        found = _with_row(leg.found, copy.row, score, limit)
        leg = replace(leg, found=found, listed=min(limit, leg.listed + 1))
    near = find_nearest(store, vector, leg.found.rows, limit, allowed)
    if copy is not None and vector is not None:
        similarity = np.nan  # of a copy without a vector
        if copy.vector.any():
            (similarity,) = similarities(vector, copy.vector[np.newaxis], copy.metric).tolist()
            near = near._replace(nearest=_with_row(near.nearest, copy.row, similarity, limit))
        near.similarities[leg.found.rows == copy.row] = similarity
    candidates = Candidates.union(near, leg.found, leg.listed)
    tiers = find_tiers(store, query, leg, candidates)
    if copy is not None:
        holds_code = any(copy.bm25(store, [code]) for code in query.codes)
        tiers[candidates.rows == copy.row] = holds_code
    return LegScores(store=store, candidates=candidates, tiers=tiers, m=query.m)


def _with_row(found: RankedRows, row: int, score: float, limit: int) -> RankedRows:
    rows, scores = np.append(found.rows, row), np.append(found.scores, np.float32(score))
    return RankedRows.of(rows, scores, limit)


@dataclass(frozen=True, slots=True)
class Gain:
    """``ndcg``: mean nDCG@10 of the judged queries with the weight ``a``."""

    a: float
    ndcg: float


@dataclass(frozen=True, slots=True)
class TunedWeight:
    """``a``: the weight with the highest mean nDCG@10 of ``curve``, the middle one of equals.

    ``held_out``: mean nDCG@10 of queries with weights that were chosen by the others (five folds);
    ``fixed``: with the weight that is taken without any tuning. ``queries``: judged ones.
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
        """As an index keeps it."""
        return Calibration(self.a, self.queries, 0, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        facts = asdict(self)
        return {**facts, "curve": list(facts["curve"]), "notes": list(self.notes)}


def tune(
    index: Index,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
) -> TunedWeight:
    """Choose the weight ``a`` by judged queries; nothing is stored.

    ``vectors``: shape (queries, dim), where the index has no encoder. ``seed``: of the folds.
    Raises :class:`VocabtoolError` for fewer than ten judged queries with a relevant document, and
    where there is neither an encoder nor a vector.
    """
    chosen = with_judgements(queries, qrels)
    if len(chosen.queries) < MIN_QUERIES:
        raise VocabtoolError(
            f"tuning wants {MIN_QUERIES} queries with a relevant document, got "
            f"{len(chosen.queries)}: calibrating without judgements is worth about fifty"
        )
    made = chosen.vectors(index, vectors)
    if made is None:
        raise VocabtoolError(f"{index.path}: there is no encoder: give the vectors of the queries")
    snapshot = index.snapshot()
    gains = np.empty((len(chosen.queries), len(WEIGHTS)))
    asked = zip(chosen.queries, prepare(made, index.configuration.metric), strict=True)
    for place, (query, vector) in enumerate(asked):
        legs = ask_legs(snapshot, query.text, vector, DEFAULTS)
        for column, a in enumerate(WEIGHTS):
            ids = snapshot.documents.ids(legs.ranking(a, NDCG_DEPTH))
            gains[place, column] = ndcg(ids, chosen.judged[place])
    means = gains.mean(axis=0)
    fixed = DEFAULTS.weight(is_subword(snapshot))
    return TunedWeight(
        WEIGHTS[_best(gains)],
        tuple(map(Gain, WEIGHTS, means.tolist())),
        _held_out(gains, seed),
        float(means[WEIGHTS.index(fixed)]),
        len(gains),
        seed,
        tuple(chosen.notes),
    )


def _best(gains: NDArray[np.float64]) -> int:
    """The place of the weight whose mean is highest, the middle one of several."""
    means = gains.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - 1e-9)
    return int(best[len(best) // 2])


def _held_out(gains: NDArray[np.float64], seed: int) -> float:
    """The mean over queries, each with the weight that is best for the other folds."""
    fold = np.random.default_rng(seed).permutation(len(gains)) % FOLDS
    parts = [gains[fold == each][:, _best(gains[fold != each])] for each in range(FOLDS)]
    return float(np.concatenate(parts).mean())
