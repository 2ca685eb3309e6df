"""Build the codes of approximate search by the recall they reach, and compare models by vectors.

Recall@10 of a search is measured by comparison with exact search. There are three kinds of
synthetic queries, and the lowest recall counts:

- stored vectors that are far from their nearest neighbours;
- random weighted sums of many stored vectors; these sums are near no stored vector;
- random weighted sums of the differences between stored vectors and their neighbours.

The fingerprint of an encoder stays the same if a server runs another model under the same name. So
some documents (canaries) are encoded again before a model writes. The agreement of a stored vector
a and a new vector b is ``2 a·b / (a·a + b·b)``: the cosine if both have the same length, otherwise
nearer to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.errors import OtherModel
from vocabtool.index.vectors import SEED, CodeFacts, Progress, RawVectors, VectorCodes, prepare
from vocabtool.system.ranking import Rows, Scores

LISTS_FROM: Final = 50_000  # rows; smaller indexes have a single list
LISTS: Final = 1.6  # times the square root of the rows: 512 for 100,000 rows, 2,048 for a million
SAMPLE: Final = 1 << 16  # maximum of training vectors, unless many lists need more
SAMPLE_PER_LIST: Final = 40
MAX_CANDIDATES: Final = 1 << 14
EASIER: Final = 2  # real queries miss twice as many of the nearest rows as synthetic ones

NEAREST: Final = 10
QUERIES: Final = 256  # of each kind; with 128, chance once gave .907 of real queries for .95
MIXED: Final = 4096  # vectors in a mixture
TRIED: Final = 4  # times QUERIES: stored vectors among which the farthest are chosen
LOWEST: Final = np.float32(-1e38)  # below every score
ALIKE: Final = 1e-6  # scores that differ by less, relatively, are tied
REMEASURED_SAMPLE: Final = 8192  # stored vectors that queries are made from
CHANCE_SAMPLE: Final = 2048  # documents; each of one half is compared with each of the other
CHANCE_MIXTURES: Final = 64
CHANCE_SHARE: Final = 0.95
MIN_CHANCE_SAMPLE: Final = 10  # documents with a vector; an estimate from fewer is useless
DIGITS: Final = 4  # further digits depend on the machine

CANARIES: Final = 8
CANDIDATES: Final = 64  # rows from which canaries are chosen
MAX_CHARACTERS: Final = 4_000  # of a canary, if shorter ones exist: a server is paid by length
REPLACED: Final = "\ufffd"  # the model may have seen the bytes that this character replaces
# Measured with all-MiniLM-L6-v2, 1 minus the lowest cosine: 3e-13 for other batches (1 text instead
# of 32), 0 for other threads, 3e-8 for float16 in the index, 1e-6 for a model in float16, 6e-5 in
# bfloat16. The limit is well above these.
MIN_AGREEMENT: Final = 0.999
# In int8 with dynamic ranges, other batches alone make 5e-2: such noise is measured when needed.
NOISES: Final = 4  # a stored vector is from a larger batch than the canaries are
NAME_IT: Final = (
    "Use the model that made the vectors, in the same version and precision and with its prompts "
    "(--prompt-document, --prompt-query), or index the documents with this model (in a new folder, "
    "or with --force)"
)

# Synthetic queries, shape (n, dim), and the row that each query copies, or -1.
QuerySample: TypeAlias = tuple[Vectors, Rows]


def build_codes(
    raw: RawVectors,
    *,
    metric: Metric,
    recall: float = 0.95,
    lists: int | None = None,
    progress: Progress | None = None,
) -> tuple[VectorCodes, CodeFacts]:
    """Build the codes of all rows, and choose how to search them.

    - ``recall``: recall@10 that searches must reach. It is measured with synthetic queries, which
      are easier than real queries. So the recall of synthetic queries must be higher: for
      example, 0.975 if ``recall`` is 0.95.
    - ``lists``: number of IVF lists; by default, it depends on the number of rows.
    """
    if lists is None:
        power = round(math.log2(LISTS * math.sqrt(raw.count))) if raw.count >= LISTS_FROM else 0
        lists = 1 << power
    size = min(raw.count, max(SAMPLE, SAMPLE_PER_LIST * lists))
    random = np.random.default_rng(SEED)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    is_nonzero = sample.any(axis=1)
    if is_nonzero.any() and not is_nonzero.all():
        rows, sample = rows[is_nonzero], sample[is_nonzero]
    codes = VectorCodes.train(sample, lists, metric)
    kinds = queries_unlike_documents(sample, rows, metric, random)
    wanted = 1 - (1 - recall) / EASIER
    codes.add_rows(raw, progress)
    probes, candidates, reached = _choose_setting(raw, codes, kinds, metric, wanted)
    return codes, CodeFacts(
        lists=lists,
        probes=probes,
        candidates=candidates,
        recall_asked=recall,
        recall=reached,
        queries=sum(len(queries) for queries, _ in kinds),
        coded=raw.count,
    )


def _choose_setting(
    raw: RawVectors, codes: VectorCodes, kinds: list[QuerySample], metric: Metric, recall: float
) -> tuple[int, int, float]:
    """Return how many lists to visit, how many rows to score exactly, and the recall.

    This is the cheapest setting that reaches ``recall``, allowing for the error of measurement. If
    none does, it is the setting with the highest recall.
    """
    truths = [nearest_rows(raw, kind, metric) for kind in kinds]
    counts = _steps(32, min(codes.rows, MAX_CANDIDATES))
    best, cheapest, lowest_cost = (1, 0, -1.0), None, math.inf
    for probes in _steps(1, codes.lists):
        share = probes / codes.lists
        if codes.cost(share, 0, raw.dim) >= lowest_cost:
            break
        measured = [
            recall_by_count(truth, codes.candidates(queries, counts[-1], probes), counts)
            for (queries, _), truth in zip(kinds, truths, strict=True)
        ]
        for count, recalls in zip(counts, zip(*measured, strict=True), strict=True):
            setting = (probes, count, round(min(mean for mean, _ in recalls), 4))
            best = max(best, setting, key=lambda setting: setting[2])
            if min(mean - error for mean, error in recalls) >= recall:
                cost = codes.cost(share, count, raw.dim)
                if cost < lowest_cost:
                    cheapest, lowest_cost = setting, cost
                break
    return cheapest or best


def _steps(first: int, last: int) -> list[int]:
    """Return numbers from ``first`` to ``last``, such as 4, 6, 8, 12, 16."""
    powers = range(first.bit_length() - 1, last.bit_length())
    steps = sorted({1 << power for power in powers} | {3 << power >> 1 for power in powers})
    return [step for step in steps if first <= step < last] + [last]


def queries_unlike_documents(
    vectors: Vectors, rows: Rows, metric: Metric, random: np.random.Generator
) -> list[QuerySample]:
    """Return three samples of synthetic queries: see the list at the top of this file.

    ``vectors``: a sample of the stored vectors, shape (n, dim). ``rows``: their rows.
    """
    # Places in the sample: of vectors that may be far from others, and of their neighbours.
    tried = np.sort(random.permutation(len(rows))[: QUERIES * TRIED])
    scores = products(vectors[tried], vectors, metric)
    scores[np.arange(len(tried)), tried] = -np.inf  # a vector is not its own neighbour
    first = max(0, len(rows) - NEAREST)
    neighbours = np.argpartition(scores, first, axis=1)[:, first:]
    # A vector is far from others if even its tenth neighbour has a low similarity.
    lowest = np.take_along_axis(scores, neighbours, 1).min(axis=1)
    squares = np.einsum("ij,ij->i", vectors[tried], vectors[tried])
    if metric == "l2":
        lowest = lowest - squares
    elif metric == "inner-product":
        lowest = lowest / np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    far = tried[np.sort(np.argsort(lowest, kind="stable")[:QUERIES])]
    differences = vectors[tried] - vectors[neighbours].mean(axis=1)
    to_mix = vectors[np.sort(random.permutation(len(rows))[:MIXED])]
    return [
        (vectors[far], rows[far]),
        mixtures(to_mix, vectors, metric, random),
        mixtures(differences, vectors, metric, random),
    ]


def mixtures(
    parts: Vectors, vectors: Vectors, metric: Metric, random: np.random.Generator
) -> QuerySample:
    """Return random weighted sums of ``parts``.

    They have the covariance of ``parts``, and the mean of ``vectors`` for ``l2``, otherwise zero.
    """
    weights = random.standard_normal((QUERIES, len(parts)), np.float32)
    weights -= weights.mean(axis=1, keepdims=True)  # removes the parts' mean
    mixed = weights @ parts / np.float32(np.sqrt(len(parts)))
    ready = prepare(mixed + vectors.mean(axis=0) if metric == "l2" else mixed, metric)
    ready = ready[ready.any(axis=1)]
    return ready, np.full(len(ready), -1)


def nearest_rows(
    raw: RawVectors, sample: QuerySample, metric: Metric
) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the ten nearest rows to each query, and a mask of those that a search must find.

    Shape (n, 10); missing rows are -1. The mask lacks them, and ties with the eleventh row.
    """
    queries, own_rows = sample
    count = len(queries)
    best: Scores = np.full((count, NEAREST + 1), -np.inf, np.float32)
    rows = np.full((count, NEAREST + 1), -1)
    for first, vectors in raw.blocks():
        scores = products(queries, vectors, metric)
        scores[:, ~vectors.any(axis=1)] = -np.inf
        own = np.flatnonzero((own_rows >= first) & (own_rows < first + len(vectors)))
        scores[own, own_rows[own] - first] = -np.inf
        better = np.flatnonzero((scores > best[:, NEAREST:]).any(axis=0))
        scores = np.concatenate([best, scores[:, better]], axis=1)
        numbers = np.broadcast_to(better + first, (count, len(better)))
        numbers = np.concatenate([rows, numbers], axis=1)
        if scores.shape[1] > 8 * NEAREST:  # sorting them all would be slow
            few = np.sort(np.argpartition(-scores, NEAREST, axis=1)[:, : NEAREST + 1], axis=1)
            scores = np.take_along_axis(scores, few, 1)
            numbers = np.take_along_axis(numbers, few, 1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : NEAREST + 1]
        best, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)
    ten, eleventh = best[:, :NEAREST], best[:, NEAREST:]
    eleventh = np.where(np.isfinite(eleventh), eleventh, LOWEST)
    is_nearer = ten > eleventh + ALIKE * np.maximum(1, np.abs(eleventh))
    return rows[:, :NEAREST], np.isfinite(ten) & is_nearer


def recall_by_count(
    truth: tuple[Rows, NDArray[np.bool_]], candidates: Rows, counts: list[int]
) -> list[tuple[float, float]]:
    """Return (mean recall, its standard error) of the first k candidates, for k in ``counts``.

    ``truth``: of :func:`nearest_rows`. ``candidates``: shape (queries, largest k), nearest first.
    """
    nearest, is_wanted = truth
    places = np.full(nearest.shape, candidates.shape[1])
    for query, (near, returned) in enumerate(zip(nearest, candidates, strict=True)):
        of_near, place = np.nonzero(near[:, np.newaxis] == returned[np.newaxis])
        places[query, of_near] = place
    wanted = is_wanted.sum(axis=1)
    queries = np.flatnonzero(wanted)
    if not len(queries):
        return [(1.0, 0.0)] * len(counts)
    recalls = []
    for count in counts:
        shares = (is_wanted & (places < count)).sum(axis=1)[queries] / wanted[queries]
        recalls.append((float(shares.mean()), float(shares.std() / np.sqrt(len(queries)))))
    return recalls


def measure_recall(
    raw: RawVectors, search: Callable[[Vectors, int], Rows], metric: Metric
) -> float:
    """Measure recall@10 of a search for three kinds of synthetic queries; return the lowest."""
    random = np.random.default_rng(1)
    size = min(REMEASURED_SAMPLE, raw.count)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    is_nonzero = sample.any(axis=1)
    if not is_nonzero.any():
        return 1.0
    rows, sample = rows[is_nonzero], sample[is_nonzero]
    recalls = []
    for kind in queries_unlike_documents(sample, rows, metric, random):
        queries, own_rows = kind
        returned = np.full((len(queries), NEAREST), -1)
        for place, (query, own) in enumerate(zip(queries, own_rows.tolist(), strict=True)):
            near = search(query, NEAREST + 1)
            near = near[near != own][:NEAREST]  # as in the truth
            returned[place, : len(near)] = near
        ((mean, _),) = recall_by_count(nearest_rows(raw, kind, metric), returned, [NEAREST])
        recalls.append(round(mean, 4))
    return min(recalls)


def similarity_by_chance(raw: RawVectors, metric: Metric) -> float | None:
    """Return the similarity that unrelated vectors reach by chance, or ``None``.

    It is the greater of two 95th percentiles:

    - of the similarities in random pairs of documents;
    - of the similarities between random weighted sums of vectors and their nearest documents.

    Returns ``None`` for fewer than ten vectors, or if products overflow float32.
    """
    random = np.random.default_rng(0)
    size = min(CHANCE_SAMPLE, raw.count)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = random.permutation(raw.read_rows(rows))
    sample = sample[sample.any(axis=1)]
    if len(sample) < MIN_CHANCE_SAMPLE:
        return None
    half = len(sample) // 2
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = _similarities(sample[:half], sample[half:], metric)
        queries = mixtures(sample, sample, metric, random)[0][:CHANCE_MIXTURES]
        nearest = np.full(len(queries), -np.inf, np.float32)
        for _, vectors in raw.blocks():
            nonzero = vectors[vectors.any(axis=1)]
            best = _similarities(queries, nonzero, metric).max(axis=1, initial=-np.inf)
            np.maximum(nearest, best, out=nearest)
        reached = max(
            float(np.quantile(similarities, CHANCE_SHARE)) for similarities in (pairs, nearest)
        )
    return round(reached, DIGITS) if math.isfinite(reached) else None


def _similarities(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Return similarities, shape (queries, vectors); inner products are of queries of length 1."""
    scores = products(queries, vectors, metric)
    squares = np.einsum("ij,ij->i", queries, queries)[:, np.newaxis]
    if metric == "l2":
        scores -= squares
    elif metric == "inner-product":
        scores /= np.sqrt(squares)
    return scores


def products(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Return similarities, shape (queries, vectors); ``l2`` lacks the query's squared length."""
    scores: Scores = queries @ vectors.T
    if metric == "l2":
        scores *= 2
        scores -= np.einsum("ij,ij->i", vectors, vectors)
    return scores


class Canaries(NamedTuple):
    """Documents that check the model. ``vectors``: shape (n, dim); zeros where there is none."""

    ids: list[str]
    texts: list[str]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Agreement:
    """How new vectors agree with stored ones. ``lowest`` is 1 if there are no documents."""

    documents: int
    lowest: float


def compare_canaries(name: str, among: Canaries, encoder: Encoder, metric: Metric) -> Agreement:
    """Encode up to 8 documents again. Raises :class:`OtherModel` if their vectors differ."""
    usable = [
        at
        for at in np.flatnonzero(among.vectors.any(axis=1)).tolist()
        if among.texts[at].strip() and REPLACED not in among.texts[at]
    ]
    short = [at for at in usable if len(among.texts[at]) <= MAX_CHARACTERS]
    short = short or sorted(usable, key=lambda at: len(among.texts[at]))[:1]
    if not short:
        return Agreement(0, 1.0)
    chosen = [short[at] for at in spread(len(short), CANARIES)]
    texts = [among.texts[at] for at in chosen]
    new, wanted = prepare(encoder.encode(texts), metric), MIN_AGREEMENT
    agreements = _agreements(among.vectors[chosen], new)
    worst = int(agreements.argmin())
    if agreements[worst] < wanted:  # is this model so inexact that batches explain it?
        alone = prepare(np.concatenate([encoder.encode([text]) for text in texts]), metric)
        wanted = min(wanted, 1 - NOISES * (1 - float(_agreements(new, alone).min())))
    if agreements[worst] < wanted:
        what = (
            f"document {among.ids[chosen[worst]][:100]!r} was encoded again: the agreement of the "
            f"new vector with the stored one is {agreements[worst]:.4f} (the cosine; lower if the "
            f"norms of the two vectors differ), wanted {wanted:.4g} or more. {NAME_IT}"
        )
        raise OtherModel(name, "model", "", encoder.fingerprint, advice=what)
    return Agreement(len(texts), min(float(agreements[worst]), 1.0))


def _agreements(vectors: Vectors, others: Vectors) -> NDArray[np.float64]:
    """Return the agreement of each vector with the other one; 1 if both are zero."""
    a, b = vectors.astype(np.float64), others.astype(np.float64)
    squares = (a**2 + b**2).sum(axis=1)
    agreements = np.ones(len(squares))
    np.divide(2 * (a * b).sum(axis=1), squares, out=agreements, where=squares > 0)
    return agreements


def spread(count: int, most: int) -> Rows:
    """Return at most ``most`` numbers below ``count``, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
