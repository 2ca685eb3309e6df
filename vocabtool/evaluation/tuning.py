"""How much the keyword leg should weigh, by queries that somebody judged.

The weight that finds most on all of them is taken; what that is worth on queries that it was not
chosen by is told by cross-validation. Without judgements: ``calibrating.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.judged_queries import judgeable
from vocabtool.evaluation.metrics import NDCG_DEPTH, Judged, ndcg
from vocabtool.evaluation.qrels import Qrels
from vocabtool.evaluation.queries import Query
from vocabtool.evaluation.reweighing import WEIGHTS, Legs, legs_of
from vocabtool.index.vectors.metric import prepared
from vocabtool.search.calibration import Calibration
from vocabtool.search.corpus import Corpus
from vocabtool.search.settings import Settings

if TYPE_CHECKING:
    from vocabtool.index.index import Index

FOLDS: Final = 5
FEWEST: Final = 10
SHIPPED: Final = Settings()


class Gain(NamedTuple):
    """``ndcg``: mean nDCG@10 of the judged queries with the weight ``a``."""

    a: float
    ndcg: float


@dataclass(frozen=True, slots=True)
class Tuned:
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
        return Calibration(self.a, self.a, 0.0, self.queries, 0, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        told = asdict(self) | {"curve": [point._asdict() for point in self.curve]}
        return told | {"notes": list(self.notes)}


def tune(
    index: Index,
    queries: Sequence[Query],
    qrels: Qrels,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
) -> Tuned:
    """Choose the weight ``a`` by judged queries; nothing is stored.

    ``vectors``: shape (queries, dim), where the index has no encoder. ``seed``: of the folds.
    Raises :class:`VocabtoolError` for fewer than ten judged queries with a relevant document, and
    where there is neither an encoder nor a vector.
    """
    chosen = judgeable(queries, qrels)
    if len(chosen.queries) < FEWEST:
        raise VocabtoolError(
            f"tuning wants {FEWEST} queries with a relevant document, got {len(chosen.queries)}: "
            "calibrating without judgements is worth about fifty"
        )
    made = chosen.vectors(index, vectors)
    if made is None:
        raise VocabtoolError(f"{index.path}: there is no encoder: give the vectors of the queries")
    corpus = index.snapshot()
    asked = zip(chosen.queries, prepared(made, index.configuration.metric), strict=True)
    legs = [legs_of(corpus, query.text, vector, SHIPPED) for query, vector in asked]
    gains = np.array([_gains(corpus, *each) for each in zip(legs, chosen.judged, strict=True)])
    means = gains.mean(axis=0)
    curve = tuple(map(Gain, WEIGHTS, means.tolist()))
    knowledge = corpus.knowledge
    fixed = SHIPPED.weight(knowledge is not None and knowledge.subword)
    return Tuned(
        _best(gains),
        curve,
        _held_out(gains, seed),
        float(means[WEIGHTS.index(fixed)]),
        len(gains),
        seed,
        tuple(chosen.notes),
    )


def _gains(corpus: Corpus, legs: Legs, judged: Judged) -> list[float]:
    """nDCG@10 with each weight."""
    return [ndcg(corpus.ids(legs.ranking(a, NDCG_DEPTH)), judged) for a in WEIGHTS]


def _best(gains: NDArray[np.float64]) -> float:
    """The weight whose mean is highest, the middle one of several."""
    means = gains.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - 1e-9)
    return WEIGHTS[int(best[len(best) // 2])]


def _held_out(gains: NDArray[np.float64], seed: int) -> float:
    """The mean over queries, each with the weight that is best for the other folds."""
    fold = np.random.default_rng(seed).permutation(len(gains)) % FOLDS
    parts = [
        gains[fold == each][:, WEIGHTS.index(_best(gains[fold != each]))] for each in range(FOLDS)
    ]
    return float(np.concatenate(parts).mean())
