"""How much the keyword leg should weigh in one index, found without a single judgement.

Documents are drawn, queries made of each (``pseudo_queries.py``) and searched where the document is
a copy without what was asked (``weights.py``). The weight with which the documents are found best
is the estimate. Tuning by judged queries instead is in ``tune.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.options import CALIBRATION_SAMPLE
from vocabtool.evaluation.pseudo_queries import Kind, PseudoQuery, pseudo_queries
from vocabtool.evaluation.weights import WEIGHTS, DocumentCopy, LegScores, ask_legs
from vocabtool.index.vectors.raw import prepare
from vocabtool.search.settings import Calibration, Settings

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.index.snapshot import Snapshot

MIN_SAMPLE: Final = 10  # sampled documents, below which nothing is concluded
READ_PER_SAMPLE: Final = 20  # documents that are read for one that is long enough, at most
ABSENT: Final = 1_000  # the rank of a document that is not found
NEARLY_BEST: Final = 0.02  # losses that are no more than this above the lowest are as good
DEFAULTS: Final = Settings()
ESTIMATE: Final = (
    "an estimate: nobody judged what it finds. It may be worse than the weight as shipped: "
    "judged queries tell"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """``loss``: mean ln rank of the documents that queries were made of, with the weight ``a``."""

    a: float
    loss: float


@dataclass(frozen=True, slots=True)
class LegRate:
    """How often one leg alone finds the document a pseudo-query of this kind was made of."""

    kind: Kind
    leg: str
    first: float
    first_ten: float


@dataclass(frozen=True, slots=True)
class WeightEstimate:
    """``a``: the weight of the keyword leg, 0 to 1.

    It is the mean of the weights whose loss is nearly the lowest of ``curve``. ``rates``: what each
    leg finds by itself. ``sample``: documents that queries were made of. ``seed``: with it the same
    index gives the same.
    """

    a: float
    curve: tuple[Loss, ...]
    rates: tuple[LegRate, ...]
    sample: int
    seed: int
    notes: tuple[str, ...]

    @property
    def calibration(self) -> Calibration:
        """As an index keeps it."""
        return Calibration(self.a, 0, self.sample, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        facts = asdict(self)
        facts["found"] = list(facts.pop("rates"))
        return {**facts, "curve": list(facts["curve"]), "notes": list(self.notes)}


def calibrate(
    index: Index, *, sample: int = CALIBRATION_SAMPLE, seed: int = 0
) -> WeightEstimate | None:
    """Estimate the weight ``a`` of an index from its documents; nothing is stored.

    Needs the encoder: 2 ``sample`` documents and as many short texts are encoded, and searched.
    ``None`` where fewer than ten documents have three sentences and 15 words: they tell nothing.
    Raises :class:`VocabtoolError` for an index without an encoder, ``ValueError`` for a smaller
    ``sample``.
    """
    if sample < MIN_SAMPLE:
        raise ValueError(f"sample: wanted {MIN_SAMPLE} documents or more, got {sample}")
    encoder = index.encoder
    if encoder is None:
        raise VocabtoolError(
            f"{index.path}: calibrating encodes altered documents, and this index holds vectors of "
            "one's own: there is nothing to encode with. Tune with judged queries instead"
        )
    snapshot, metric = index.snapshot(), index.configuration.metric
    queries = sample_queries(snapshot, sample, seed)
    if len(queries) < 2 * MIN_SAMPLE:
        return None
    texts = [query.copy for query in queries]
    vectors = prepare(encoder.encode([query.text for query in queries]), metric)
    copied = prepare(encoder.encode(texts), metric)
    copies = [
        DocumentCopy(
            row=query.row,
            terms=terms,
            vector=vector,
            metric=metric,
            mean_length=snapshot.mean_lengths[0],
        )
        for query, terms, vector in zip(queries, snapshot.cutter.terms(texts), copied, strict=True)
    ]
    # As searches are, but that lists go down as far as ranks count.
    deep = replace(DEFAULTS, depth=max(ABSENT, DEFAULTS.limit(snapshot.rows)))
    ten = Settings(fusion="keyword", depth=10)
    asked = list(zip(queries, vectors, copies, strict=True))
    legs = [ask_legs(snapshot, query.text, each, deep, copy) for query, each, copy in asked]
    words = [ask_legs(snapshot, query.text, None, ten, copy) for query, _, copy in asked]
    curve = tuple(Loss(a, _loss(queries, legs, a)) for a in WEIGHTS)
    rates: list[LegRate] = []
    for kind in ("title", "hard"):
        of_kind = [place for place, query in enumerate(queries) if query.kind == kind]
        found = {
            "dense": [legs[place].nearest[:10].tolist() for place in of_kind],
            "keyword": [words[place].keyword_rows.tolist() for place in of_kind],
        }
        for leg, lists in found.items():
            rows = [queries[place].row for place in of_kind]
            ranks = [rank_of(row, ranking) for row, ranking in zip(rows, lists, strict=True)]
            first, first_ten = (fmean(rank <= most for rank in ranks) for most in (1, 10))
            rates.append(LegRate(kind, leg, first, first_ten))
    return WeightEstimate(
        nearly_best(curve), curve, tuple(rates), len(queries) // 2, seed, (ESTIMATE,)
    )


def sample_queries(snapshot: Snapshot, count: int, seed: int) -> list[PseudoQuery]:
    """Two queries for each of so many documents, drawn by chance among those long enough."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(np.flatnonzero(snapshot.live))[: READ_PER_SAMPLE * count]
    queries: list[PseudoQuery] = []
    for start in range(0, len(rows), count):
        part = rows[start : start + count]
        for row, document in zip(
            part.tolist(), snapshot.documents.fetch_documents(part), strict=True
        ):
            queries += pseudo_queries(row, document, snapshot.cutter, generator)
            if len(queries) == 2 * count:
                return queries
    return queries


def nearly_best(curve: Sequence[Loss]) -> float:
    """The mean of all weights whose loss is at most 0.02 above the lowest."""
    lowest = min(point.loss for point in curve)
    return fmean(point.a for point in curve if point.loss <= lowest + NEARLY_BEST)


def _loss(queries: Sequence[PseudoQuery], legs: Sequence[LegScores], a: float) -> float:
    """Mean ln rank, each kind of query counted alike: there are as many of both."""
    return fmean(
        log(rank_of(query.row, scores.ranking(a).tolist()))
        for query, scores in zip(queries, legs, strict=True)
    )


def rank_of(row: int, ranking: Sequence[int]) -> int:
    """From 1; 1,000 where it is not found or stands behind that."""
    return min(ranking.index(row) + 1, ABSENT) if row in ranking else ABSENT
