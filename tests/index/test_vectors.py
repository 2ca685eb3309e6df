"""The vector leg: exact search and search by codes against NumPy's brute force in float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from vocabtool.choices import Metric, StoredType
from vocabtool.index.measures import build_codes
from vocabtool.index.vectors import RawVectors, VectorCodes, VectorLeg, as_stored, prepare
from vocabtool.system.ranking import RankedRows

Floats = NDArray[np.float32]
METRICS: tuple[Metric, ...] = get_args(Metric)
TYPES: tuple[StoredType, ...] = get_args(StoredType)


def raw_vectors(folder: Path, vectors: Floats, metric: Metric, dtype: StoredType) -> RawVectors:
    """Vectors in a file, as a writer of an index puts them there."""
    file = folder / "raw"
    file.write_bytes(as_stored(prepare(vectors, metric), dtype).tobytes())
    return RawVectors(file, dim=vectors.shape[1], dtype=dtype, count=len(vectors))


def exact_leg(folder: Path, vectors: Floats, metric: Metric, dtype: StoredType) -> VectorLeg:
    return VectorLeg(raw_vectors(folder, vectors, metric, dtype), metric)


def streamed_leg(folder: Path, vectors: Floats, metric: Metric, dtype: StoredType) -> VectorLeg:
    """Exact search that keeps nothing in memory."""
    return VectorLeg(raw_vectors(folder, vectors, metric, dtype), metric, kept_bytes=0)


def coded_leg(
    folder: Path, vectors: Floats, metric: Metric, dtype: StoredType, lists: int = 1, tail: int = 0
) -> VectorLeg:
    """Search by codes of all rows but the last ``tail``."""
    raw = raw_vectors(folder, vectors, metric, dtype)
    coded = RawVectors(raw.file, dim=raw.dim, dtype=dtype, count=raw.count - tail)
    codes, facts = build_codes(coded, metric=metric, recall=0.99, lists=lists)
    codes.write(folder / "codes")
    return VectorLeg(raw, metric, VectorCodes.read(folder / "codes", coded.count), facts)


def listed_leg(folder: Path, vectors: Floats, metric: Metric, dtype: StoredType) -> VectorLeg:
    return coded_leg(folder, vectors, metric, dtype, lists=4)


def tailed_leg(folder: Path, vectors: Floats, metric: Metric, dtype: StoredType) -> VectorLeg:
    return coded_leg(folder, vectors, metric, dtype, tail=len(vectors) // 3)


Make = Callable[[Path, Floats, Metric, StoredType], VectorLeg]
EXACT: tuple[Make, ...] = (exact_leg, streamed_leg)
ENGINES: tuple[Make, ...] = (*EXACT, coded_leg, listed_leg, tailed_leg)


def stored(vectors: Floats, metric: Metric, dtype: StoredType) -> NDArray[np.float64]:
    """What the file holds, by NumPy in float64."""
    exact = vectors.astype(np.float64)
    if metric == "cosine":
        lengths = np.linalg.norm(exact, axis=1, keepdims=True)
        exact = exact / np.where(lengths, lengths, 1)
    return exact.astype(np.float32).astype(dtype).astype(np.float64)


def brute(
    vectors: NDArray[np.float64], query: Floats, metric: Metric, among: NDArray[np.bool_]
) -> RankedRows:
    """Every allowed row that is not zero, best first, equal scores by row."""
    asked = stored(query[np.newaxis], metric, "float32")[0]
    scores = -((vectors - asked) ** 2).sum(axis=1) if metric == "l2" else vectors @ asked
    if metric == "cosine":
        scores = np.clip(scores, -1, 1)
    rows = np.flatnonzero(vectors.any(axis=1) & among)
    rounded = scores.astype(np.float32)
    order = np.lexsort((rows, -rounded[rows]))
    return RankedRows(rows[order], rounded[rows[order]])


def clustered(count: int, dim: int, seed: int = 0) -> Floats:
    """Vectors about a few means, of any sign and length, some zero and some twice."""
    random = np.random.default_rng(seed)
    vectors = (
        random.normal(size=(count, dim))
        + 2 * random.normal(size=(5, dim)).repeat(-(-count // 5), axis=0)[:count]
    )
    vectors[::17] = 0
    vectors[count // 2 : count // 2 + 3] = vectors[1]
    return vectors.astype(np.float32)


def masks(count: int) -> list[NDArray[np.bool_]]:
    """Of nothing, one row, few, half, all but one, and all."""
    random = np.random.default_rng(3)
    one, most = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    one[count // 3] = True
    most[1] = False
    return [
        np.zeros(count, np.bool_),
        one,
        random.random(count) < 0.02,
        random.random(count) < 0.5,
        most,
        np.ones(count, np.bool_),
    ]


def scores_agree(found: RankedRows, wanted: RankedRows) -> None:
    """Each row has its exact score, and they stand in order."""
    of_row = dict(zip(wanted.rows.tolist(), wanted.scores.tolist(), strict=True))
    scores = [of_row[row] for row in found.rows.tolist()]
    np.testing.assert_allclose(found.scores, scores, rtol=1e-6, atol=1e-6)
    again = np.lexsort((found.rows, -found.scores))
    assert again.tolist() == list(range(len(found.rows)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("make", ENGINES)
def test_contract(make: Make, metric: Metric, dtype: StoredType, tmp_path: Path) -> None:
    """Under every mask: exact scores, as many rows as wanted or left, the best among them; beside
    them the similarities of any rows, whatever the mask and limit say."""
    count, dim = 1500, 19
    vectors = clustered(count, dim)
    leg = make(tmp_path, vectors, metric, dtype)
    held = stored(vectors, metric, dtype)
    asked = np.array([1400, 17, 3, 3, 0, count - 1, 700])
    near, wanted_near = 0, 0
    for seed, among in enumerate(masks(count)):
        query = np.random.default_rng(seed).normal(size=dim).astype(np.float32)
        wanted = brute(held, query, metric, among)
        everything = brute(held, query, metric, np.ones(count, np.bool_))
        of_row = dict(zip(everything.rows.tolist(), everything.scores.tolist(), strict=True))
        similar = [of_row.get(row, np.nan) for row in asked.tolist()]
        assert np.isnan(similar).tolist() == [False, True, False, False, True, False, False]
        for limit in (0, 1, 10, 200, 2 * count):
            found = leg.search(query, limit, among)
            assert len(found.rows) == min(limit, len(wanted.rows))
            assert found.rows.dtype == np.int64
            assert found.scores.dtype == np.float32
            scores_agree(found, wanted)
            near += len(set(found.rows[:10].tolist()) & set(wanted.rows[:10].tolist()))
            wanted_near += len(found.rows[:10])
            nearest, similarities = leg.near(query, asked, limit, among)
            np.testing.assert_allclose(similarities, similar, rtol=1e-6, atol=1e-6)
            assert nearest.rows.tolist() == found.rows.tolist()
            assert nearest.scores.tolist() == found.scores.tolist()
    assert near >= (0.95 if make not in EXACT else 1.0) * wanted_near


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("dim", [1, 2, 3, 8, 13])
def test_all_vectors_equal(make: Make, dim: int, tmp_path: Path) -> None:
    """A corpus of one vector many times gives as many rows as asked for, all with one score.

    Along an axis nothing is left to be coded, and queries of every direction find as many.
    """
    axis = np.eye(dim, dtype=np.float32)[:1].repeat(300, axis=0)
    for vectors in (np.ones((300, dim), np.float32), axis):
        leg = make(tmp_path, vectors, "cosine", "float32")
        for query in (*vectors[:1], *-vectors[:1], *np.eye(dim, dtype=np.float32)[1:]):
            found = leg.search(query, 20)
            assert len(set(found.rows.tolist())) == 20
            score = query @ vectors[0] / np.linalg.norm(query) / np.linalg.norm(vectors[0])
            np.testing.assert_allclose(found.scores, score, rtol=1e-6)


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("count", [1, 2, 15])
def test_few_vectors(make: Make, count: int, tmp_path: Path) -> None:
    """Fewer vectors than there are centroids are all found."""
    vectors = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    found = make(tmp_path, vectors, "l2", "float32").search(vectors[-1], 100)
    everything = np.ones(count, np.bool_)
    wanted = brute(stored(vectors, "l2", "float32"), vectors[-1], "l2", everything)
    assert found.rows.tolist() == wanted.rows.tolist()
    scores_agree(found, wanted)


def test_scores_depend_on_the_two_vectors_only(tmp_path: Path) -> None:
    """A row's score is the same alone, among others, at another place and by codes."""
    vectors = clustered(1500, 37, seed=5)
    query = np.random.default_rng(1).normal(size=37).astype(np.float32)
    order = np.random.default_rng(2).permutation(1500)
    for metric in METRICS:
        plain = exact_leg(tmp_path, vectors, metric, "float16").search(query, 1500)
        score = dict(zip(plain.rows.tolist(), plain.scores.tolist(), strict=True))
        moved = exact_leg(tmp_path, vectors[order], metric, "float16").search(query, 300)
        assert moved.scores.tolist() == [score[int(order[row])] for row in moved.rows]
        leg = coded_leg(tmp_path, vectors, metric, "float16")
        coded = leg.search(query, 300)
        assert coded.scores.tolist() == [score[row] for row in coded.rows.tolist()]
        nearest, similarities = leg.near(query, coded.rows[::-1], 300)
        assert nearest.rows.tolist() == coded.rows.tolist()
        assert nearest.scores.tolist() == coded.scores.tolist()
        assert similarities.tolist() == coded.scores.tolist()[::-1]


# Building codes.

DIM = 24


@pytest.mark.parametrize("lists", [1, 8])
def test_the_same_vectors_and_seed_give_the_same_codes(lists: int, tmp_path: Path) -> None:
    """Building twice writes the same bytes and chooses the same setting; progress counts rows."""
    raw = raw_vectors(tmp_path, clustered(1200, DIM), "cosine", "float16")
    made, told = [], []
    for _ in range(2):
        codes, facts = build_codes(
            raw, metric="cosine", lists=lists, progress=lambda *now: told.append(now)
        )
        codes.write(tmp_path / "codes")
        made.append((facts, (tmp_path / "codes").read_bytes()))
    assert made[0] == made[1]
    assert told == [(1200, 1200)] * 2


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("lists", [1, 16])
def test_the_recall_promised_holds_for_other_queries(
    lists: int, metric: Metric, tmp_path: Path
) -> None:
    """What was asked for when building is reached on queries that were not used."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(4000, DIM)).astype(np.float32)
    queries = random.normal(size=(150, DIM)).astype(np.float32)
    raw = raw_vectors(tmp_path, vectors, metric, "float16")
    codes, facts = build_codes(raw, metric=metric, recall=0.9, lists=lists)
    assert facts.recall >= 0.9
    leg, exact = VectorLeg(raw, metric, codes, facts), VectorLeg(raw, metric)
    found = [
        len({*leg.search(query, 10).rows} & {*exact.search(query, 10).rows}) for query in queries
    ]
    assert np.mean(found) / 10 >= 0.88
    assert facts.candidates < 4000


def test_codes_grow_with_the_rows(tmp_path: Path) -> None:
    """Rows that are added to the codes are found as others are."""
    vectors = np.concatenate([clustered(2000, DIM), clustered(500, DIM, seed=9)])
    raw = raw_vectors(tmp_path, vectors, "cosine", "float16")
    part = RawVectors(raw.file, dim=DIM, dtype="float16", count=2000)
    codes, facts = build_codes(part, metric="cosine", lists=4)
    codes.write(tmp_path / "codes")
    grown = VectorCodes.read(tmp_path / "codes", 2000)
    grown.add_rows(raw)
    assert grown.rows == 2500
    found = VectorLeg(raw, "cosine", grown, facts).search(vectors[2401], 1)
    assert found.rows.tolist() == [2401]
    assert codes.candidates(vectors[2401:2402], 2000).max() < 2000
