"""How much the keyword leg should weigh, by queries that somebody judged.

The weight that finds most on all of them is taken; what that is worth on queries that it was not
chosen by is told by cross-validation. Without judgements: ``calibrate.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.judgements import JudgedQuery, Qrels, with_judgements
from vocabtool.evaluation.metrics import NDCG_DEPTH, ndcg
from vocabtool.evaluation.weights import WEIGHTS, ask_legs
from vocabtool.index.vectors.raw import prepare
from vocabtool.search.search import is_subword
from vocabtool.search.settings import Calibration, Settings

if TYPE_CHECKING:
    from vocabtool.index.index import Index

FOLDS: Final = 5
MIN_QUERIES: Final = 10
DEFAULTS: Final = Settings()


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
