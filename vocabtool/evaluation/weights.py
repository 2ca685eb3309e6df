"""One query's legs, asked once, and fused as often as there are weights to try.

The functions are those of a search with the fusion ``coverage``, so what is found for a weight is
what a search with that weight finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.index.options import Metric
from vocabtool.index.vectors.raw import similarities
from vocabtool.keywords.bm25 import idf, term_score
from vocabtool.keywords.cutter import Terms
from vocabtool.keywords.queries import Clause, Field
from vocabtool.search.fusion import Candidates, best_places, convex_combination, coverage_weight
from vocabtool.search.query import parse_query, unknown_share
from vocabtool.search.search import ask_keywords, find_nearest, find_tiers, weight_of_found
from vocabtool.search.settings import Settings
from vocabtool.search.store import Store
from vocabtool.system.ranking import RankedRows, Rows

STEPS: Final = 20
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

    def similarity(self, vector: Vectors) -> float:
        """NaN for a copy without a vector."""
        if not self.vector.any():
            return np.nan
        return float(similarities(vector, self.vector[np.newaxis], self.metric)[0])

    def bm25(self, store: Store, clauses: Iterable[Clause]) -> float:
        """The sum over the clauses; 0 of a phrase."""
        counts: dict[Field, Counter[str]] = {
            "words": Counter(self.terms.words.split()),
            "surfaces": Counter(self.terms.surfaces.split()),
        }
        score = 0.0
        for clause in clauses:
            term, *others = clause.terms
            if not (count := counts[term.field][term.text]) or others:
                continue
            weight = clause.boost * idf(store.rows, store.keywords.document_frequency(term))
            if term.field == "words":  # a surface is there or not
                weight = term_score(weight, count, self.terms.count, self.mean_length)
            score += weight
        return score


@dataclass(frozen=True, kw_only=True, slots=True)
class LegScores:
    """The candidates of a query, each with all that fusing them with any weight takes.

    ``nearest``: the rows of the vector leg, ``keyword_rows``: those of the keyword leg, best first.
    """

    store: Store
    candidates: Candidates
    tiers: NDArray[np.int8]
    m: float

    def ranking(self, a: float, k: int | None = None) -> Rows:
        """The best ``k`` rows, all without it, in the order of a search with that weight."""
        candidates = self.candidates
        weight = weight_of_found(candidates, coverage_weight(a, self.m))
        places, _ = best_places(
            candidates.rows,
            convex_combination(candidates.similarities, candidates.bm25, weight),
            self.tiers,
            len(candidates.rows) if k is None else k,
            self.store.documents.ids,
            keywords_alone=weight == 1,
        )
        return candidates.rows[places]

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
    """Ask both legs; with a ``copy``, as if it stood in the place of its document."""
    query = parse_query(store, text, settings)
    used_vector = vector if vector is not None and vector.any() else None
    limit = settings.limit(store.rows)
    allowed = store.live if copy is None else store.live & (np.arange(store.rows) != copy.row)
    leg = ask_keywords(store, query, limit, allowed)
    if copy is not None and (score := copy.bm25(store, query.should)):
        found = _with_row(leg.found, copy.row, score, limit)
        leg = replace(leg, found=found, listed=min(limit, leg.listed + 1))
    near = find_nearest(store, used_vector, leg.found.rows, limit, allowed)
    if copy is not None and used_vector is not None:
        similarity = copy.similarity(used_vector)
        near.similarities[leg.found.rows == copy.row] = similarity
        if not np.isnan(similarity):
            near = near._replace(nearest=_with_row(near.nearest, copy.row, similarity, limit))
    candidates = Candidates.union(near, leg.found, leg.listed)
    tiers = find_tiers(store, query, leg, candidates)
    if copy is not None:
        holds_code = any(copy.bm25(store, [code]) for code in query.codes)
        tiers[candidates.rows == copy.row] = holds_code
    m = unknown_share(query.words, store)
    return LegScores(store=store, candidates=candidates, tiers=tiers, m=m)


def _with_row(found: RankedRows, row: int, score: float, limit: int) -> RankedRows:
    rows, scores = np.append(found.rows, row), np.append(found.scores, np.float32(score))
    return RankedRows.of(rows, scores, limit)
