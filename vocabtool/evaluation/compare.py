"""Compare all fusion methods with judged queries, or with queries made from documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import FUSIONS, SELF_CHECK_SAMPLE, Fusion
from vocabtool.errors import VocabtoolError
from vocabtool.evaluation.calibrate import MAX_CHARACTERS
from vocabtool.evaluation.judgements import (
    RELEVANT,
    HitRate,
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
from vocabtool.search.query import is_word, weigh_words
from vocabtool.search.settings import Settings

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.index.store import IndexSnapshot, Progress

Kind = Literal["ordinary", "unknown"]
Measure = Literal["ndcg@10", "recall@100", "mrr@10"]
Split = Literal["all", "unknown", "known"]

MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
SPLITS: Final[tuple[Split, ...]] = get_args(Split)
REFERENCE: Final[Fusion] = Settings().fusion
DEPTH: Final = 100
MRR_DEPTH: Final = 10
KEYWORDS: Final[tuple[Fusion, ...]] = ("keyword",)
KEYWORDS_ONLY: Final = (
    "without vectors of the queries only keyword search can be evaluated: pass vectors"
)
ORDINARY: Final = 4
BESIDE_UNKNOWN: Final = 2
RAREST: Final = 12  # known words of a document that queries are drawn from
NEAREST: Final = 10
NO_ENCODER: Final = (
    "the index has no encoder, so queries have no vectors: only keyword search is checked"
)
NO_VOCABULARY: Final = "it is unknown which words the model knows: all count as known"


@dataclass(frozen=True, slots=True)
class FusionScore:
    """The mean of each measure for one fusion method on one set of queries.

    - ``split``: the set of queries: all, or those with or without unknown words.
    - ``differences``: the mean difference from the fusion ``coverage`` in each measure, with a 95 %
      confidence interval.
    """

    fusion: Fusion
    split: Split
    queries: int
    measures: Mapping[Measure, float]
    differences: Mapping[Measure, Interval]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of :func:`evaluate`.

    - ``rows``: the scores of each fusion method on each set of queries.
    - ``unknown``: the number of queries with a word that the model does not know, although the
      corpus contains it.
    - ``notes``: what was skipped.
    """

    rows: tuple[FusionScore, ...]
    queries: int
    unknown: int
    seed: int
    notes: tuple[str, ...]


def evaluate(
    index: Index,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    vectors: NDArray[Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Evaluation:
    """Search for every judged query with every fusion method; return the scores.

    - ``vectors``: vectors of the queries, shape (queries, dim), if the index has no encoder.
    - ``seed``: seed of the bootstrap for confidence intervals.
    - ``settings``: options of :meth:`Index.search_many` for every search.

    Raises :class:`VocabtoolError` if no query has a relevant document.
    """
    chosen = with_judgements(queries, qrels)
    given = chosen.vectors(index, vectors)
    fusions = FUSIONS if given is not None else KEYWORDS
    texts = [query.text for query in chosen.queries]
    hits: dict[Fusion, list[Hits]] = {}
    settings = {"literal": True, **settings}  # judged queries have no operators
    for fusion in fusions:
        more = {**settings, "fusion": fusion}
        hits[fusion] = index.search_many(texts, vectors=given, k=DEPTH, **more)
        if progress is not None:
            progress("fusions compared", len(hits) / len(fusions))
    if given is None:
        chosen.notes.append(KEYWORDS_ONLY)
    relevant = {id_ for row in chosen.judged for id_, gain in row.items() if gain >= RELEVANT}
    missing = [id_ for id_ in sorted(relevant) if id_ not in index]
    if missing:  # perhaps ids of another kind
        what = f"{len(missing):,} of {len(relevant):,} relevant documents are not in the index"
        chosen.notes.append(f"{what}, for example {missing[0]!r}")
    # Of each fusion the measures of each query: shape (queries, measures).
    measured = {fusion: _measure(answers, chosen.judged) for fusion, answers in hits.items()}
    # Queries with m > 0: an unknown word changed the weight of the keyword leg.
    unknown = np.array([bool(answer.query.m) for answer in hits.get(REFERENCE, hits["keyword"])])
    masks = {"all": np.ones(len(unknown), np.bool_), "unknown": unknown, "known": ~unknown}
    rows: list[FusionScore] = []
    for split in SPLITS:
        if not masks[split].any():
            continue
        values = {fusion: measures[masks[split]] for fusion, measures in measured.items()}
        differences: dict[Fusion, Mapping[Measure, Interval]] = {}
        others = [fusion for fusion in values if fusion != REFERENCE and REFERENCE in values]
        if others:  # all differences are resampled together
            columns = np.concatenate([values[name] - values[REFERENCE] for name in others], axis=1)
            bounds = iter(intervals(columns, seed=seed))
            differences = {name: {measure: next(bounds) for measure in MEASURES} for name in others}
        for fusion, measures in values.items():
            means = dict(zip(MEASURES, measures.mean(axis=0).tolist(), strict=True))
            apart = differences.get(fusion, {})
            rows.append(FusionScore(fusion, split, len(measures), means, apart))
    return Evaluation(tuple(rows), len(texts), int(unknown.sum()), seed, tuple(chosen.notes))


def _measure(answers: Sequence[Hits], judgements: Sequence[Judged]) -> NDArray[np.float64]:
    """Return the measures of each query, in the order of :data:`MEASURES`."""
    rows = []
    for hits, judged in zip(answers, judgements, strict=True):
        ids = [hit.id for hit in hits]
        row = (ndcg(ids, judged), recall(ids, judged), reciprocal_rank(ids, judged, MRR_DEPTH))
        rows.append(row)
    return np.array(rows)


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The result of :func:`self_check`: the hit rate of each fusion method and kind of query."""

    rates: tuple[HitRate, ...]
    sample: int
    seed: int
    notes: tuple[str, ...]


def self_check(
    index: Index,
    sample: int = SELF_CHECK_SAMPLE,
    seed: int = 0,
    *,
    progress: Progress | None = None,
) -> SelfCheck:
    """Search an index for a sample of its own documents, to show whether the index works.

    An ``ordinary`` query has four rare words of a document. An ``unknown`` query has two rare words
    and a word that the model does not know. Raises :class:`VocabtoolError` if no document contains
    a word.
    """
    snapshot, generator = index.snapshot(), np.random.default_rng(seed)
    rows = generator.permutation(snapshot.rows_in_order())[:sample]
    items: list[tuple[Kind, str, str]] = []
    for document in snapshot.fetch_documents(rows):
        known, unknown = _words(document.text[:MAX_CHARACTERS], snapshot)
        drawn = generator.permutation(known[:RAREST]).tolist()
        if drawn:
            items.append(("ordinary", document.id, " ".join(drawn[:ORDINARY])))
        if unknown:
            word = unknown[int(generator.integers(len(unknown)))]
            items.append(("unknown", document.id, " ".join((word, *drawn[:BESIDE_UNKNOWN]))))
    if not items:
        raise VocabtoolError(f"{index.name}: its documents have no words, so no query can be made")
    kinds, wanted, texts = zip(*items, strict=True)
    vectors = None if index.encoder is None else index.encoder.encode_queries(texts)
    rates: list[HitRate] = []
    fusions = KEYWORDS if vectors is None else FUSIONS
    for done, fusion in enumerate(fusions, 1):
        hits = index.search_many(texts, vectors=vectors, k=NEAREST, fusion=fusion, literal=True)
        for kind in get_args(Kind):
            ranks = [
                next((rank for rank, hit in enumerate(answer, 1) if hit.id == id_), NEAREST + 1)
                for answer, id_, kind_of_query in zip(hits, wanted, kinds, strict=True)
                if kind_of_query == kind
            ]
            if ranks:
                rates.append(HitRate.of(kind, fusion, ranks))
        if progress is not None:
            progress("fusions compared", done / len(fusions))
    notes = []
    if vectors is None:
        notes.append(NO_ENCODER)
    if snapshot.known_words is None:
        notes.append(NO_VOCABULARY)
    return SelfCheck(tuple(rates), min(sample, len(index)), seed, tuple(notes))


def _words(text: str, snapshot: IndexSnapshot) -> tuple[list[str], list[str]]:
    identifier = Settings().is_identifier()
    words = weigh_words(snapshot.cutter.spans(text), snapshot.known_words, identifier)
    distinct = {word.word.words: word for word in words if word.counts}
    known, unknown = [], []
    for word in distinct.values():
        surface = word.word.surface
        if word.unknown and snapshot.known_words is not None:
            unknown.append(surface)
        elif is_word(surface):
            frequencies = snapshot.document_frequencies(word.telling)
            known.append((min(frequencies.values()), surface))
    return [surface for _, surface in sorted(known, key=itemgetter(0))], unknown
