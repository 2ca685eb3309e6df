"""Compressed vectors for approximate search by FAISS: IVF lists of 4-bit PQ codes (FastScan).

A code quantises the difference between the vector and its centroid, in 2 bits per dimension; for L2
it quantises the vector itself. Zero vectors are in no list and never found.

Sources: H. Jégou, M. Douze, C. Schmid: Product Quantization for Nearest Neighbor Search, 2011; for
4 bits, with lookup tables in registers: F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality
is not enough, 2015.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.index.raw_vectors import (
    READ_BYTES,
    QuerySample,
    RawVectors,
    nearest_rows,
    queries_unlike_documents,
    recall_by_count,
)
from vocabtool.system.ranking import Mask, Rows

CENTROIDS: Final = 16  # of each sub-quantiser, for codes of 4 bits
WIDTH: Final = 2  # dimensions per code
MAX_LISTS: Final = (1 << 16) - 1
LISTS_FROM: Final = 50_000  # rows; smaller indexes have a single list
LISTS: Final = 1.6  # times the square root of the rows: 512 for 100,000 rows, 2,048 for a million
SAMPLE: Final = 1 << 16  # maximum of training vectors, unless many lists need more
MIN_SAMPLE: Final = 4096
SAMPLE_PER_LIST: Final = 40
SAMPLE_PER_CODE: Final = 512
COARSE_ROUNDS: Final = 10  # of k-means
TINY: Final = 1e-6  # relative to the largest centroid: too small for codes to represent
MAX_CANDIDATES: Final = 1 << 14
EASIER: Final = 2  # real queries miss twice as many of the nearest rows as synthetic ones

# Rough costs in nanoseconds on one core of a server of 2023 (measured on a million vectors of 256
# numbers). Constants, so that the same settings are chosen on every machine.
COMPARED: Final = 0.04  # per dimension of a row whose code is compared
REFINED: Final = 1.8  # per dimension of a row whose vector is read and compared

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """How the codes were built and how they are searched; stored in the index.

    - ``probes``: how many of the ``lists`` a search visits.
    - ``candidates``: minimum number of rows that a search scores exactly.
    - ``recall``: recall@10, measured with ``queries`` synthetic queries.
    - ``sample``: number of training vectors.
    - ``coded``: number of rows at build time.
    - ``given``: unused, always false.
    """

    dim: int
    lists: int
    probes: int
    candidates: int
    recall_asked: float
    recall: float
    queries: int
    sample: int
    coded: int
    seed: int
    seconds: float
    given: bool = False


class VectorCodes:
    """Codes of the first ``rows`` vectors. Several threads may search at the same time."""

    def __init__(self, index: Any, rows: int) -> None:
        self._index = index
        self.rows = rows
        self.lists: int = index.nlist
        self._parameters: dict[int, Any] = {}  # of searches without a mask, by lists visited

    @classmethod
    def train(cls, sample: Vectors, lists: int, metric: Metric, seed: int) -> VectorCodes:
        """Train the centroids on a sample of shape (n, dim); the result has no rows yet."""
        if not 0 < lists <= MAX_LISTS:
            raise ValueError(f"the number of lists must be from 1 to {MAX_LISTS:,}, got {lists:,}")
        faiss = faiss_library()
        padded = _pad(sample)
        # FAISS needs as many vectors as centroids, and warns if there are fewer than 39 for each.
        missing = -(-39 * max(lists, CENTROIDS) // max(1, len(padded)))
        enough = np.ascontiguousarray(np.tile(padded, (missing, 1)) if missing > 1 else padded)
        dim = padded.shape[1]
        kind = f"IVF{lists},PQ{dim // WIDTH}x4fs{'' if metric == 'l2' else 'r'}"
        measure = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
        index = faiss.index_factory(dim, kind, measure)
        if lists == 1:
            centroids = padded.mean(axis=0, keepdims=True)
        else:
            means = faiss.Kmeans(dim, lists, niter=COARSE_ROUNDS, seed=seed)
            means.train(enough)
            centroids = means.centroids
        index.quantizer.add(np.asarray(centroids, np.float32))
        index.pq.cp.seed = seed
        index.pq.cp.max_points_per_centroid = SAMPLE_PER_CODE
        with one_thread():  # sub-quantisers are too small to gain from threads
            index.train(enough)
        _separate_equal_centroids(index.pq)
        return cls(index, 0)

    @classmethod
    def read(cls, file: Path, rows: int) -> VectorCodes:
        return cls(faiss_library().read_index(str(file)), rows)

    def write(self, file: Path) -> None:
        faiss_library().write_index(self._index, str(file))
        with file.open("rb") as written:
            os.fsync(written.fileno())

    def add_rows(self, raw: RawVectors, progress: Progress | None = None) -> None:
        """Add codes for the rows of ``raw`` that have none."""
        for first, vectors in raw.blocks(self.rows):
            there = vectors.any(axis=1)
            if there.any():
                self._index.add_with_ids(_pad(vectors[there]), first + np.flatnonzero(there))
            self.rows = first + len(vectors)
            if progress is not None:
                progress(first + len(vectors), raw.count)

    def candidates(
        self, queries: Vectors, count: int, probes: int = 1, allowed: Mask | None = None
    ) -> Rows:
        """Return the rows nearest to each query, approximately, best first.

        - ``queries``: from :func:`prepare`, shape (n, dim).
        - ``count``: number of rows for each query. Missing rows are -1.
        - ``probes``: number of lists to visit.
        - ``allowed``: a mask, shape (rows,).
        """
        faiss, probes = faiss_library(), max(1, min(probes, self.lists))
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            how = faiss.IVFSearchParameters(nprobe=probes, sel=selector)
        else:
            how = self._parameters.get(probes) or faiss.IVFSearchParameters(nprobe=probes)
            self._parameters[probes] = how
        # A single query is too little work for several threads.
        with one_thread() if len(queries) == 1 else nullcontext():
            found: Rows = self._index.search(_pad(queries), min(count, self.rows), params=how)[1]
        return found

    def cost(self, share: float, candidates: int, dim: int) -> float:
        """Estimate the time of a search in ns. ``share``: the share of codes that are compared."""
        return dim * (self.rows * share * COMPARED + candidates * REFINED)


def build_codes(
    raw: RawVectors,
    *,
    metric: Metric,
    recall: float = 0.95,
    memory: int | None = None,
    seed: int = 0,
    lists: int | None = None,
    progress: Progress | None = None,
) -> tuple[VectorCodes, CodeFacts]:
    """Build the codes of all rows, and choose how to search them.

    - ``recall``: recall@10 that searches must reach. It is measured with synthetic queries, which
      are easier than real queries. So the recall of synthetic queries must be higher: for
      example, 0.975 if ``recall`` is 0.95.
    - ``memory``: limit in bytes, in addition to the present memory of the process.
    - ``lists``: number of IVF lists; by default, it depends on the number of rows.

    Raises :class:`VocabtoolError` if ``memory`` is too small.
    """
    began = perf_counter()
    if lists is None:
        lists = min(MAX_LISTS, 1 << round(math.log2(LISTS * math.sqrt(raw.count))))
        lists = lists if raw.count >= LISTS_FROM else 1
    size = _sample_size(raw, lists, memory)
    random = np.random.default_rng(seed)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    there = sample.any(axis=1)
    if there.any() and not there.all():
        rows, sample = rows[there], sample[there]
    codes = VectorCodes.train(sample, lists, metric, seed)
    kinds = queries_unlike_documents(sample, rows, metric, random)
    wanted = 1 - (1 - recall) / EASIER
    codes.add_rows(raw, progress)
    probes, candidates, reached = _choose_setting(raw, codes, kinds, metric, wanted)
    return codes, CodeFacts(
        dim=raw.dim,
        lists=lists,
        probes=probes,
        candidates=candidates,
        recall_asked=recall,
        recall=reached,
        queries=sum(len(kind.queries) for kind in kinds),
        sample=size,
        coded=raw.count,
        seed=seed,
        seconds=round(perf_counter() - began, 3),
    )


def _sample_size(raw: RawVectors, lists: int, memory: int | None) -> int:
    wanted = min(raw.count, max(SAMPLE, SAMPLE_PER_LIST * lists))
    if memory is None:
        return wanted
    row_bytes = 3 * raw.dim * 4  # copies: differences and FAISS's, or mixtures
    blocks = 6 * READ_BYTES
    codes = int(raw.count * (-(-raw.dim // WIDTH) + 42))  # with row numbers, while lists grow
    fits = (memory - blocks) // row_bytes
    least = min(wanted, max(MIN_SAMPLE, lists))
    if codes + blocks > memory or fits < least:
        needed = max(codes, least * row_bytes) + blocks
        raise VocabtoolError(
            f"the codes of {raw.count:,} vectors of {raw.dim:,} numbers need about "
            f"{needed / 2**20:,.0f} MiB of memory, but the limit is "
            f"{memory / 2**20:,.0f} MiB; raise --memory, or index fewer documents"
        )
    return min(wanted, fits)


def _choose_setting(
    raw: RawVectors, codes: VectorCodes, kinds: list[QuerySample], metric: Metric, recall: float
) -> tuple[int, int, float]:
    """Return how many lists to visit, how many rows to score exactly, and the recall."""
    truths = [nearest_rows(raw, kind, metric) for kind in kinds]
    counts = _steps(32, min(codes.rows, MAX_CANDIDATES))
    best, enough, cost = (1, 0, -1.0), None, math.inf
    for probes in _steps(1, codes.lists):
        share = probes / codes.lists
        if codes.cost(share, 0, raw.dim) >= cost:
            break
        measured = [
            recall_by_count(truth, codes.candidates(kind.queries, counts[-1], probes), counts)
            for kind, truth in zip(kinds, truths, strict=True)
        ]
        for count, values in zip(counts, zip(*measured, strict=True), strict=True):
            setting = (probes, count, round(min(mean for mean, _ in values), 4))
            best = max(best, setting, key=lambda one: one[2])
            if min(mean - error for mean, error in values) >= recall:
                if (now := codes.cost(share, count, raw.dim)) < cost:
                    enough, cost = setting, now
                break
    return enough or best


def _steps(first: int, last: int) -> list[int]:
    """Return numbers from ``first`` to ``last``, such as 4, 6, 8, 12, 16."""
    powers = range(first.bit_length() - 1, last.bit_length())
    every = sorted({1 << power for power in powers} | {3 << power >> 1 for power in powers})
    return [step for step in every if first <= step < last] + [last]


def _pad(vectors: Vectors) -> Vectors:
    missing = vectors.shape[1] % WIDTH
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors)


def _separate_equal_centroids(quantiser: Any) -> None:
    """Move equal centroids apart. Otherwise, FastScan would never find some vectors."""
    # It misses a vector if every place of its code has the lowest value of the lookup table.
    faiss = faiss_library()
    centroids = faiss.vector_to_array(quantiser.centroids).reshape(-1, CENTROIDS, WIDTH)
    same = centroids.min(axis=1, keepdims=True) == centroids.max(axis=1, keepdims=True)
    steps = np.arange(CENTROIDS)[:, np.newaxis] - (CENTROIDS - 1) / 2
    shifts = TINY * (np.abs(centroids).max() or 1.0) * steps ** [1, 3]  # equally near to no query
    spread = np.asarray(np.where(same, centroids + shifts, centroids), np.float32)
    faiss.copy_array_to_vector(spread.ravel(), quantiser.centroids)


def faiss_library() -> Any:
    """Import FAISS. Raises :class:`UnsupportedFormat` if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        what = "approximate search needs faiss, which is not installed; run: pip install faiss-cpu"
        raise UnsupportedFormat(what) from error
    return faiss


@contextmanager
def one_thread() -> Iterator[None]:
    """Let FAISS use only the calling thread; other threads keep their OpenMP setting."""
    faiss = faiss_library()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _use_one_thread() -> None:
    """Set FAISS to one thread: a forked child has none of the threads of its parent."""
    if "faiss" in sys.modules:
        faiss_library().omp_set_num_threads(1)


os.register_at_fork(after_in_child=_use_one_thread)
