"""How much the keyword leg should weigh in one index, found without a single judgement.

Documents are drawn, queries made of each (``pseudo_queries.py``) and searched in a corpus whose
document is a copy without what was asked (``altered.py``). The weight with which the documents are
found best is the estimate a0 (measured: benchmarks/retrieval.py). Unjudged queries of
people shift it, by how much easier or harder they are for either leg (``query_shift.py``).

Tuning by judged queries instead is in ``tuning.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.altered import Altered, Copy, Sampled
from vocabtool.evaluation.pseudo_queries import Kind, PseudoQuery, pseudo_queries
from vocabtool.evaluation.query_shift import (
    FEWEST_QUERIES,
    NO_SHIFT,
    Shift,
    best_by_keywords,
    by_keywords,
    by_vectors,
    covered,
    nearest,
    with_words,
)
from vocabtool.evaluation.reweighing import WEIGHTS, Legs, legs_of
from vocabtool.index.vectors.metric import Metric, prepared
from vocabtool.search.calibration import Calibration, shifted
from vocabtool.search.corpus import Corpus
from vocabtool.search.settings import Settings

if TYPE_CHECKING:
    from vocabtool.index.index import Index

SAMPLE: Final = 250
FEWEST: Final = 10  # sampled documents, below which nothing is concluded
LOOKED_AT: Final = 20  # times the sample: how many documents are looked at for long enough ones
ABSENT: Final = 1_000  # the rank of a document that is not found
NEARLY_BEST: Final = 0.02  # losses that are no more than this above the lowest are as good
SHIPPED: Final = Settings()
ESTIMATE: Final = (
    "an estimate: nobody judged what it finds. It may be worse than the weight as shipped: "
    "judged queries tell"
)
TOO_FEW: Final = f"fewer than {FEWEST_QUERIES} queries hold a word: they do not shift it"
WORDS_ALONE: Final = (
    "the shift is by words alone: how near vectors are is told by cosines only, "
    f"and by {FEWEST_QUERIES} queries or more that have one"
)


class Point(NamedTuple):
    """``loss``: mean ln rank of the documents that queries were made of, with the weight ``a``."""

    a: float
    loss: float


class Found(NamedTuple):
    """How often one leg alone finds the document a pseudo-query of this kind was made of."""

    kind: Kind
    leg: str
    first: float
    first_ten: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """``a``: the weight of the keyword leg, 0 to 1: ``a0`` + ``shift`` within these bounds.

    ``a0``: mean of the weights whose loss is nearly the lowest of ``curve``. ``shift``: the sum of
    ``keyword_shift`` and ``vector_shift`` within -1 and 1, see ``query_shift.py``; ``None``:
    vectors do not tell. ``found``: what each leg finds by itself. ``sample``: documents that
    queries were made of; ``queries``: unjudged ones that the shift is from, 0: there is none.
    ``seed``: with it the same index gives the same.
    """

    a: float
    a0: float
    shift: float
    keyword_shift: float
    vector_shift: float | None
    curve: tuple[Point, ...]
    found: tuple[Found, ...]
    sample: int
    queries: int
    seed: int
    notes: tuple[str, ...]

    @property
    def calibration(self) -> Calibration:
        """As an index keeps it."""
        return Calibration(self.a, self.a0, self.shift, 0, self.sample, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        told = asdict(self)
        told["curve"] = [point._asdict() for point in self.curve]
        told["found"] = [found._asdict() for found in self.found]
        return told | {"notes": list(self.notes)}


class Asked(NamedTuple):
    """A pseudo-query, its vector, and the corpus that it is asked of."""

    query: PseudoQuery
    vector: Vectors
    corpus: Altered


def calibrate(
    index: Index, queries: Sequence[str] = (), *, sample: int = SAMPLE, seed: int = 0
) -> Calibrated | None:
    """Estimate the weight ``a`` of an index from its documents; nothing is stored.

    ``queries``: as people ask them, unjudged; fewer than ten that hold a word are not taken into
    account. Needs the encoder: 2 ``sample`` documents and as many short texts are encoded, and
    searched; under cosine so are the queries.
    ``None`` where fewer than ten documents have three sentences and 15 words: they tell nothing.
    Raises :class:`VocabtoolError` for an index without an encoder, ``ValueError`` for a smaller
    ``sample``.
    """
    if sample < FEWEST:
        raise ValueError(f"sample: wanted {FEWEST} documents or more, got {sample}")
    encoder = index.encoder
    if encoder is None:
        raise VocabtoolError(
            f"{index.path}: calibrating encodes altered documents, and this index holds vectors of "
            "one's own: there is nothing to encode with. Tune with judged queries instead"
        )
    corpus = index.snapshot()
    made = sampled(corpus, sample, seed)
    if len(made) < 2 * FEWEST:
        return None
    metric = index.configuration.metric
    asked = _asked(corpus, made, encoder, metric)
    return _calibrated(asked, _shift(corpus, asked, queries, encoder, metric), queries, seed)


def sampled(corpus: Sampled, count: int, seed: int) -> list[PseudoQuery]:
    """Two queries for each of so many documents, drawn by chance among those long enough."""
    generator = np.random.default_rng(seed)
    rows = corpus.live_rows()
    looked_at = generator.permutation(rows)[: LOOKED_AT * count]
    made: list[PseudoQuery] = []
    for start in range(0, len(looked_at), count):
        part = looked_at[start : start + count]
        for row, document in zip(part.tolist(), corpus.stored(part), strict=True):
            made += pseudo_queries(row, document, corpus.cutter, generator)
            if len(made) == 2 * count:
                return made
    return made


def _asked(
    corpus: Sampled, made: Sequence[PseudoQuery], encoder: Encoder, metric: Metric
) -> list[Asked]:
    """Queries and copies encoded, each kind of text in one go."""
    copies = [query.copy for query in made]
    vectors = prepared(encoder.encode([query.text for query in made]), metric)
    copied = prepared(encoder.encode(copies), metric)
    terms = corpus.cutter.terms(copies)
    return [
        Asked(query, vector, Altered(corpus, Copy(query.row, query.copy, *copy), metric))
        for query, vector, *copy in zip(made, vectors, copied, terms, strict=True)
    ]


def _shift(
    corpus: Corpus, asked: Sequence[Asked], queries: Sequence[str], encoder: Encoder, metric: Metric
) -> Shift:
    """By the queries of people, where there are enough. Only cosines tell how near is near."""
    people = with_words(queries, corpus)
    if len(people) < FEWEST_QUERIES:
        return NO_SHIFT
    hard = covered((each.query.text, each.corpus) for each in asked if each.query.kind == "hard")
    keyword = by_keywords(covered((text, corpus) for text in people), hard)
    if metric != "cosine":
        return Shift(keyword, None, len(people))
    near = nearest((one, corpus) for one in prepared(encoder.encode(people), metric))
    made = nearest((each.vector, each.corpus) for each in asked)
    return Shift(keyword, by_vectors(near, made), len(people))


def _calibrated(
    asked: Sequence[Asked], shift: Shift, queries: Sequence[str], seed: int
) -> Calibrated:
    settings = _deep(asked[0].corpus)
    legs = [legs_of(each.corpus, each.query.text, each.vector, settings) for each in asked]
    curve = tuple(Point(a, _loss(asked, legs, a)) for a in WEIGHTS)
    a0 = nearly_best(curve)
    return Calibrated(
        a=shifted(a0, shift.total),
        a0=a0,
        shift=shift.total,
        keyword_shift=shift.keyword,
        vector_shift=shift.vector,
        curve=curve,
        found=_found(asked),
        sample=len(asked) // 2,
        queries=shift.queries,
        seed=seed,
        notes=(ESTIMATE, *_notes(shift, queries)),
    )


def _deep(corpus: Corpus) -> Settings:
    """As searches are, but that lists go down as far as ranks count."""
    return replace(SHIPPED, depth=max(ABSENT, SHIPPED.limit(corpus.documents)))


def _notes(shift: Shift, queries: Sequence[str]) -> list[str]:
    """What was asked for and did not come."""
    if queries and not shift.queries:
        return [TOO_FEW]
    return [WORDS_ALONE] if queries and shift.vector is None else []


def nearly_best(curve: Sequence[Point]) -> float:
    """The mean of all weights whose loss is at most 0.02 above the lowest."""
    lowest = min(point.loss for point in curve)
    return fmean(point.a for point in curve if point.loss <= lowest + NEARLY_BEST)


def _loss(asked: Sequence[Asked], legs: Sequence[Legs], a: float) -> float:
    """Mean ln rank, each kind of query counted alike: there are as many of both."""
    return fmean(
        log(rank_of(each.query.row, found.ranking(a).tolist()))
        for each, found in zip(asked, legs, strict=True)
    )


def rank_of(row: int, ranking: Sequence[int]) -> int:
    """From 1; 1,000 where it is not found or stands behind that."""
    return min(ranking.index(row) + 1, ABSENT) if row in ranking else ABSENT


def _found(asked: Sequence[Asked]) -> tuple[Found, ...]:
    """What either leg finds by itself."""
    found = []
    for kind in ("title", "hard"):
        of_kind = [each for each in asked if each.query.kind == kind]
        dense = [each.corpus.vector_search(each.vector, 10).rows.tolist() for each in of_kind]
        keyword = [best_by_keywords(each.corpus, each.query.text, 10) for each in of_kind]
        for leg, rankings in (("dense", dense), ("keyword", keyword)):
            ranks = [
                rank_of(each.query.row, ranking)
                for each, ranking in zip(of_kind, rankings, strict=True)
            ]
            found.append(_share_found(kind, leg, ranks))
    return tuple(found)


def _share_found(kind: Kind, leg: str, ranks: Sequence[int]) -> Found:
    return Found(kind, leg, fmean(rank == 1 for rank in ranks), fmean(rank <= 10 for rank in ranks))
