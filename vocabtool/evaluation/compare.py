"""Every fusion side by side on judged queries: what each finds, and how sure the difference is.

All queries, and apart those with and without a word that the model does not know. The measures are
those of ``judgements.py``; an interval is that of the difference to ``coverage``, query by query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.evaluation.judgements import (
    RELEVANT,
    Interval,
    Judged,
    JudgedQuery,
    Qrels,
    intervals,
    ndcg,
    recall,
    reciprocal_rank,
    with_judgements,
)
from vocabtool.search.hits import Hits
from vocabtool.search.settings import FUSIONS, Fusion, Settings

if TYPE_CHECKING:
    from vocabtool.index.index import Index

Measure = Literal["ndcg@10", "recall@100", "mrr@10"]
Split = Literal["all", "unknown", "known"]

MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
SPLITS: Final[tuple[Split, ...]] = get_args(Split)
REFERENCE: Final[Fusion] = Settings().fusion
DEPTH: Final = 100
MRR_DEPTH: Final = 10
KEYWORDS_ONLY: Final = "without vectors of the queries only keywords can be judged: give vectors"


@dataclass(frozen=True, slots=True)
class FusionScore:
    """A fusion on some of the queries.

    ``measures``: the means. ``differences``: to ``coverage``, with intervals of 95 %; of
    ``coverage`` itself, and where it could not be asked, there are none.
    """

    fusion: Fusion
    split: Split
    queries: int
    measures: Mapping[Measure, float]
    differences: Mapping[Measure, Interval]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``rows``: of each fusion in each split that has a query.

    ``queries``: judged ones with a relevant document; ``unknown``: of these how many hold a word
    that the model does not know and the corpus holds. ``notes``: what was left out.
    """

    rows: tuple[FusionScore, ...]
    queries: int
    unknown: int
    seed: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        facts = asdict(self)
        rows, notes = list(facts.pop("rows")), list(facts.pop("notes"))
        return {**facts, "rows": rows, "notes": notes}


def evaluate(
    index: Index,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
    **settings: Any,
) -> Evaluation:
    """Search for every judged query with every fusion.

    ``vectors``: shape (queries, dim), of the queries, where the index has no encoder; without them
    only ``keyword`` is judged then. ``seed``: of the bootstrap. ``settings``: those of a search.
    Raises :class:`VocabtoolError` where no query has a relevant document, ``ValueError`` for a
    number of vectors that is not that of the queries.
    """
    chosen = with_judgements(queries, qrels)
    given = chosen.vectors(index, vectors)
    fusions = FUSIONS if given is not None else ("keyword",)
    texts = [query.text for query in chosen.queries]
    hits = {
        fusion: index.search_many(texts, vectors=given, k=DEPTH, fusion=fusion, **settings)
        for fusion in fusions
    }
    if given is None:
        chosen.notes.append(KEYWORDS_ONLY)
    chosen.notes.extend(_missing_documents(index, chosen.judged))
    values = {
        fusion: np.array([_measure(*each) for each in zip(found, chosen.judged, strict=True)])
        for fusion, found in hits.items()
    }
    # Queries whose search the weight of an unknown word changed.
    unknown = np.array([bool(each.query.m) for each in hits.get(REFERENCE, hits["keyword"])])
    masks: dict[Split, NDArray[np.bool_]] = {
        "all": np.ones(len(unknown), np.bool_),
        "unknown": unknown,
        "known": ~unknown,
    }
    rows: list[FusionScore] = []
    for split in SPLITS:
        if masks[split].any():
            part = {fusion: each[masks[split]] for fusion, each in values.items()}
            rows += _score_split(part, split, seed)
    return Evaluation(tuple(rows), len(texts), int(unknown.sum()), seed, tuple(chosen.notes))


def _missing_documents(index: Index, judged: Sequence[Judged]) -> list[str]:
    """What is relevant and cannot be found: perhaps ids of another kind."""
    relevant = {name for each in judged for name, gain in each.items() if gain >= RELEVANT}
    missing = [name for name in sorted(relevant) if name not in index]
    if not missing:
        return []
    return [
        f"{len(missing):,} of {len(relevant):,} relevant documents are not in the index, as "
        f"{missing[0]!r}"
    ]


def _measure(hits: Hits, judged: Judged) -> tuple[float, float, float]:
    """In the order of :data:`MEASURES`."""
    ranked = [hit.id for hit in hits]
    found = recall(ranked, judged, DEPTH)
    return ndcg(ranked, judged), found, reciprocal_rank(ranked, judged, MRR_DEPTH)


def _score_split(
    values: Mapping[Fusion, NDArray[np.float64]], split: Split, seed: int
) -> list[FusionScore]:
    """One row for each fusion; all differences are resampled together."""
    others = [fusion for fusion in values if fusion != REFERENCE and REFERENCE in values]
    apart: dict[Fusion, list[Interval]] = {}
    if others:
        columns = np.concatenate([values[each] - values[REFERENCE] for each in others], axis=1)
        found = intervals(columns, seed=seed)
        for place, fusion in enumerate(others):
            start = place * len(MEASURES)
            apart[fusion] = found[start : start + len(MEASURES)]
    return [
        FusionScore(
            fusion,
            split,
            len(each),
            dict(zip(MEASURES, each.mean(axis=0).tolist(), strict=True)),
            dict(zip(MEASURES, apart.get(fusion, ()), strict=False)),
        )
        for fusion, each in values.items()
    ]
