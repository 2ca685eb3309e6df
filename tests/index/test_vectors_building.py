"""Building codes: determinism, the recall that is measured, memory, growth, and damaged files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import ROOT
from tests.index.test_vectors import clustered, raw_vectors
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.index.vectors.building import build, encode, memory_needed
from vocabtool.index.vectors.codebook import Codebook
from vocabtool.index.vectors.facts import CodeFacts
from vocabtool.index.vectors.fast_scan import CodeFiles, FastScan
from vocabtool.index.vectors.leg import VectorLeg
from vocabtool.index.vectors.metric import Metric, as_stored, prepared
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.vectors.recall import Asked, nearest_rows, recall_by_count

DIM = 24


def files(folder: Path) -> CodeFiles:
    return CodeFiles(folder / "codebook", folder / "codes")


def built(
    folder: Path, vectors: NDArray[np.float32], lists: int = 1
) -> tuple[RawVectors, CodeFacts]:
    raw = raw_vectors(folder, vectors, "cosine", "float16")
    return raw, build(raw, files(folder), metric="cosine", lists=lists)


@pytest.mark.parametrize("lists", [1, 8])
def test_the_same_vectors_and_seed_give_the_same_files(lists: int, tmp_path: Path) -> None:
    """Building twice writes the same bytes and chooses the same setting."""
    vectors = clustered(1200, DIM)
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        facts = asdict(built(tmp_path / name, vectors, lists)[1])
        seconds = facts.pop("seconds")
        assert seconds >= 0
        written = files(tmp_path / name)
        made.append((facts, written.codebook.read_bytes(), written.codes.read_bytes()))
    assert made[0] == made[1]


def test_facts_go_through_json(tmp_path: Path) -> None:
    """A manifest gives back the very facts that it was given."""
    facts = built(tmp_path, clustered(700, DIM))[1]
    assert CodeFacts(**json.loads(json.dumps(asdict(facts)))) == facts
    assert (facts.coded, facts.dim, facts.lists, facts.probes) == (700, DIM, 1, 1)


@pytest.mark.parametrize("metric", ["cosine", "inner-product", "l2"])
@pytest.mark.parametrize("lists", [1, 16])
def test_the_recall_promised_holds_for_other_queries(
    lists: int, metric: Metric, tmp_path: Path
) -> None:
    """What was measured when building is reached on queries of the same kind that were not used."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(4000, DIM)).astype(np.float32)
    queries = random.normal(size=(300, DIM)).astype(np.float32)
    raw = raw_vectors(tmp_path, vectors, metric, "float16")
    facts = build(
        raw, files(tmp_path), metric=metric, recall=0.9, queries=queries[:150], lists=lists
    )
    assert (facts.given, facts.queries, facts.recall_asked) == (True, 150, 0.9)
    assert facts.recall >= 0.9
    codes = FastScan.open(files(tmp_path), dim=DIM, lists=lists, count=4000, metric=metric)
    leg, exact = VectorLeg(raw, metric, codes, facts), VectorLeg(raw, metric)
    found = [
        len({*leg.search(query, 10).rows} & {*exact.search(query, 10).rows})
        for query in queries[150:]
    ]
    assert np.mean(found) / 10 >= 0.88
    assert facts.candidates < 4000


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [("cosine", [0.94, 0.64]), ("inner-product", [0.94, 0.64]), ("l2", [0.58, 0.58])],
)
def test_what_codes_find(metric: Metric, wanted: list[float]) -> None:
    """How many of the nearest are among 32 candidates, by 64 lists and by one.

    Lists leave little of the vectors to be coded; for L2 vectors are coded whole.
    """
    random = np.random.default_rng(1)
    centres = prepared(random.normal(size=(50, 64)).astype(np.float32), "cosine")
    noise = 0.03 * random.normal(size=(4000, 64)).astype(np.float32)
    vectors = prepared(centres[random.integers(50, size=4000)] + noise, "cosine")
    queries = prepared(random.normal(size=(100, 64)).astype(np.float32), "cosine")
    nearest = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
    recalls = []
    for lists in (64, 1):
        codebook = Codebook.trained(vectors, lists, 0, metric)
        codes = FastScan(codebook, codebook.encode(vectors), metric)
        found = codes.candidates(queries, 32, probes=lists)
        recalls.append(
            np.mean([np.isin(one, other).mean() for one, other in zip(nearest, found, strict=True)])
        )
    np.testing.assert_allclose(recalls, wanted, atol=0.04)


def test_progress_counts_rows(tmp_path: Path) -> None:
    """Progress ends with all rows done."""
    raw = raw_vectors(tmp_path, clustered(700, DIM), "l2", "float32")
    told: list[tuple[int, int]] = []
    build(raw, files(tmp_path), metric="l2", progress=lambda *now: told.append(now))
    assert told == [(700, 700)]


def test_codes_grow_with_the_rows(tmp_path: Path) -> None:
    """Rows that are coded later have the codes they would have had, whatever a crash left there."""
    vectors = clustered(2000, DIM)
    raw, facts = built(tmp_path, vectors, lists=4)
    codebook = Codebook.load(files(tmp_path).codebook, dim=DIM, lists=4, metric="cosine")
    more = np.concatenate([vectors, clustered(500, DIM, seed=9)])
    grown = raw_vectors(tmp_path, more, "cosine", "float16")
    with files(tmp_path).codes.open("ab") as out:
        out.write(b"left by a crash" * 9999)
    encode(grown, files(tmp_path), codebook, start=raw.count)
    whole = CodeFiles(files(tmp_path).codebook, tmp_path / "whole")
    encode(grown, whole, codebook)
    assert whole.codes.read_bytes() == files(tmp_path).codes.read_bytes()
    codes = FastScan.open(files(tmp_path), dim=DIM, lists=4, count=2500, metric="cosine")
    found = VectorLeg(grown, "cosine", codes, facts).search(more[2401], 1)
    assert found.rows.tolist() == [2401]


FORKED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from vocabtool.index.vectors.codebook import Codebook
vectors = np.random.default_rng(0).standard_normal((20_000, 24), np.float32)
codebook = Codebook.trained(vectors, 1, 0, "l2")
records = codebook.encode(vectors)
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if (codebook.encode(vectors) == records).all() else 1)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_makes_codes_too() -> None:
    """Its parent's threads are not in it, and are not waited for."""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    asked = [sys.executable, "-W", "ignore", "-c", FORKED]
    assert subprocess.run(asked, cwd=ROOT, env=environment, check=False).returncode == 0


def test_more_codes_than_are_counted(tmp_path: Path) -> None:
    """What lies past the count, written and never committed, is not there."""
    raw, facts = built(tmp_path, clustered(900, DIM))
    part = RawVectors.open(raw.file, dim=DIM, dtype="float16", count=800)
    codes = FastScan.open(files(tmp_path), dim=DIM, lists=1, count=800, metric="cosine")
    found = VectorLeg(part, "cosine", codes, facts).search(clustered(900, DIM)[851], 800)
    assert found.rows.max() < 800


def test_codes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """The message says how much is needed and how much there is."""
    raw = raw_vectors(tmp_path, clustered(900, DIM), "cosine", "float16")
    with pytest.raises(VocabtoolError, match=r"900 vectors .* need about .* MiB .* got 1 MiB"):
        build(raw, files(tmp_path), metric="cosine", memory=1 << 20)
    assert not files(tmp_path).codes.exists()


def test_a_million_vectors_fit_into_a_gigabyte() -> None:
    """By the estimate, of 256 numbers each."""
    assert memory_needed(1_000_000, 256, 1 << 16) < 1 << 29


def test_truth_is_brute_force(tmp_path: Path) -> None:
    """The ten nearest by blocks are those of one matrix product, the query's own row left out."""
    vectors = clustered(3000, DIM)
    raw = raw_vectors(tmp_path, vectors, "cosine", "float32")
    held = prepared(vectors, "cosine")
    own = np.array([5, 1000, 2999, -1])
    asked = Asked(np.concatenate([held[own[:3]], held[7:8]]), own)
    truth = nearest_rows(raw, asked, "cosine")
    scores = asked.queries.astype(np.float64) @ held.T.astype(np.float64)
    scores[:, ~held.any(axis=1)] = -2
    scores[np.arange(3), own[:3]] = -2
    wanted = np.sort(scores, axis=1)[:, :-11:-1]
    found = np.take_along_axis(scores, truth.rows, 1)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_recall_by_hand(tmp_path: Path) -> None:
    """Six vectors on a line: 5 others are wanted of each; two candidates hold one or two."""
    vectors = np.array([[1.0], [2], [4], [8], [16], [32]], np.float32)
    raw = raw_vectors(tmp_path, vectors, "l2", "float32")
    truth = nearest_rows(raw, Asked(vectors[:2], np.array([0, 1])), "l2")
    assert truth.rows[:, :5].tolist() == [[1, 2, 3, 4, 5], [0, 2, 3, 4, 5]]
    assert truth.wanted.sum(axis=1).tolist() == [5, 5]
    candidates = np.array([[1, 0, 2, 3], [4, 5, 2, -1]])
    recalls = recall_by_count(truth, candidates, [2, 4])
    np.testing.assert_allclose([mean for mean, _ in recalls], [0.3, 0.6])


@pytest.mark.parametrize("lists", [1, 4])
def test_damaged_files_are_named(lists: int, tmp_path: Path) -> None:
    """A file that is cut, longer than it can be, missing or not a number: never a wrong answer."""
    built(tmp_path, clustered(900, DIM), lists)
    codebook, codes = files(tmp_path)

    def opened() -> FastScan:
        return FastScan.open(files(tmp_path), dim=DIM, lists=lists, count=900, metric="cosine")

    good = codebook.read_bytes()
    for bad in (good[:-1], good + b"\0\0\0\0"):
        codebook.write_bytes(bad)
        with pytest.raises(InvalidFile, match=r"codebook: wanted a codebook of .* bytes, got"):
            opened()
    codebook.write_bytes(np.float32(np.nan).tobytes() + good[4:])
    with pytest.raises(InvalidFile, match="holds a centroid that is no finite number"):
        opened()
    codebook.write_bytes(good)
    codes.write_bytes(codes.read_bytes()[:-1])
    with pytest.raises(InvalidFile, match=r"codes: wanted 900 codes of .* bytes"):
        opened()
    codes.unlink()
    with pytest.raises(NotFound, match="codes"):
        opened()


def test_impossible_list_numbers_are_refused(tmp_path: Path) -> None:
    """FAISS never sees a list that is not there."""
    built(tmp_path, clustered(900, DIM), lists=4)
    codes = files(tmp_path).codes
    codes.write_bytes(codes.read_bytes()[:-2] + b"\x04\x00")
    with pytest.raises(InvalidFile, match="codes: wanted list numbers below 4, got 4"):
        FastScan.open(files(tmp_path), dim=DIM, lists=4, count=900, metric="cosine")


def test_raw_vectors_that_are_cut_are_refused(tmp_path: Path) -> None:
    """The error says how many bytes were wanted and where the file ends."""
    raw = raw_vectors(tmp_path, np.ones((10, 4), np.float32), "l2", "float16")
    raw.file.write_bytes(raw.file.read_bytes()[:-1])
    with pytest.raises(InvalidFile, match=r"10 vectors of 8 bytes, 80 bytes .* got 79 .*byte 79"):
        RawVectors.open(raw.file, dim=4, dtype="float16", count=10)
    with pytest.raises(NotFound, match="no such"):
        RawVectors.open(tmp_path / "no such", dim=4, dtype="float16", count=10)


def test_every_float16_is_read_as_it_is(tmp_path: Path) -> None:
    """All finite numbers of float16, unnormalised ones too, are the float32 that NumPy says."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    (tmp_path / "raw").write_bytes(finite.astype("<f2").tobytes())
    raw = RawVectors.open(tmp_path / "raw", dim=1, dtype="float16", count=len(finite))
    wanted = finite.astype(np.float32)[:, np.newaxis]
    rows = np.arange(len(finite))
    for found in (raw.take(rows), raw.slice(0, len(finite)), raw.read_rows(rows)):
        np.testing.assert_array_equal(found, wanted)


def test_what_cannot_be_stored_is_refused() -> None:
    """NaN, infinity, vectors that would overflow, and numbers beyond float16, by their place."""
    fine = np.ones((3, 2), np.float32)
    for bad, what in ((np.nan, "NaN or infinity"), (np.inf, "NaN or infinity"), (1e19, "longer")):
        vectors = fine.copy()
        vectors[2, 1] = bad
        with pytest.raises(ValueError, match=f"vector 2 .*{what}"):
            prepared(vectors, "l2")
    with pytest.raises(ValueError, match=r'vector 1 .*float16: use dtype="float32"'):
        as_stored(np.array([[1.0], [70000]], np.float32), "float16")


def test_cosine_gives_unit_length() -> None:
    """Vectors of any length, a zero vector stays zero."""
    found = prepared(np.array([[3, 4], [0, 0], [-3e30, 4e30]]), "cosine")
    wanted = np.array([[0.6, 0.8], [0, 0], [-0.6, 0.8]], np.float32)
    np.testing.assert_array_equal(found, wanted)
