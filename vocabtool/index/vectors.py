"""The vectors of a commit: rows in a file, their similarities, and searches.

The file has no header: rows of float16 or float32, little-endian. Searches map the file into
memory. Building reads it block by block, because mapped pages would count as memory of the process.

A search finds candidates by their codes, then computes exact scores of these.

All rows without codes are compared exactly. If a mask allows only a few rows, all of them are
compared exactly. Codes are made by FAISS: IVF lists of 4-bit PQ codes (FastScan).

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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Metric, StoredType
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.system.ranking import Mask, RankedRows, Rows, Scores

CENTROIDS: Final = 16  # of each sub-quantiser, for codes of 4 bits
WIDTH: Final = 2  # dimensions per code
SAMPLE_PER_CODE: Final = 512
COARSE_ROUNDS: Final = 10  # of k-means
SEED: Final = 0
TINY: Final = 1e-6  # relative to the largest centroid: too small for codes to represent

# Rough costs in nanoseconds on one core of a server of 2023 (measured on a million vectors of 256
# numbers). Constants, so that the same settings are chosen on every machine.
COMPARED: Final = 0.04  # per dimension of a row whose code is compared
REFINED: Final = 1.8  # per dimension of a row whose vector is read and compared

KEPT_BYTES: Final = 256 << 20  # of vectors that are cached in memory as float32
BATCH_BYTES: Final = 16 << 20  # of vectors that are read at a time by row number
BATCH_ROWS: Final = 4096  # rows scored exactly at a time
SINGLE: Final = 2.0**-23  # the spacing of single precision numbers at 1

MAX_LENGTH: Final = 1e18  # keeps the product of two vectors far below float32's maximum
READ_BYTES: Final = 16 << 20  # block size, as float32
IN_CACHE: Final = 1 << 16  # numbers converted at a time
BIAS_FACTOR: Final = np.float32(2.0 ** (127 - 15))  # the biases of float32 and float16
SIGN_AND_REST: Final = np.int32(-0x70002000)  # 0x8fffe000: 1 bit, 3 zero bits, 15 bits

Progress = Callable[[int, int], None]
Stored: TypeAlias = NDArray[np.float16] | NDArray[np.float32]


class RawVectors:
    """Several threads may read the vectors. Raises :class:`InvalidFile` and :class:`NotFound`."""

    def __init__(self, file: Path, *, dim: int, dtype: StoredType, count: int) -> None:
        self.file = file
        self.dim = dim
        self.dtype: StoredType = dtype
        self.count = count
        self._type = np.dtype(dtype).newbyteorder("<")
        self.row_bytes: int = dim * self._type.itemsize  # the size of one vector in the file
        with reading(str(file)):
            size, wanted = file.stat().st_size, count * self.row_bytes
            if size < wanted:
                what = f"expected {wanted:,} bytes ({count:,} vectors of {self.row_bytes:,} bytes)"
                raise InvalidFile(f"{what}, got {size:,}", offset=size)
            self._rows: Stored = np.empty((0, dim), self._type)
            if count:
                self._rows = np.asarray(np.memmap(file, self._type, "r", shape=(count, dim)))

    def take(self, rows: Rows) -> Vectors:
        """Return the vectors of ``rows``: float32, shape (len(rows), dim)."""
        return _as_float32(self._rows.take(rows, axis=0))  # faster than indexing

    def slice(self, start: int, stop: int) -> Vectors:
        return _as_float32(self._rows[start:stop])

    def blocks(
        self, start: int = 0, stop: int | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Vectors]]:
        """Yield blocks of vectors as (first row, vectors), read without the memory map.

        ``rows``: number of rows in each block; by default, as many as fit in 16 MiB.
        """
        end = self.count if stop is None else min(stop, self.count)
        step = rows or max(1, READ_BYTES // (4 * self.dim))
        with reading(str(self.file)), self.file.open("rb", buffering=0) as opened:
            opened.seek(start * self.row_bytes)
            for first in range(start, end, step):
                yield first, _as_float32(self._read(opened, min(step, end - first)))

    def read_rows(self, rows: Rows) -> Vectors:
        vectors = np.empty((len(rows), self.dim), self._type)
        with reading(str(self.file)), self.file.open("rb", buffering=0) as opened:
            for place, row in enumerate(rows.tolist()):
                opened.seek(row * self.row_bytes)
                vectors[place] = self._read(opened, 1)
        return _as_float32(vectors)

    def _read(self, opened: FileIO, rows: int) -> Stored:
        data = opened.read(rows * self.row_bytes) or b""
        if len(data) != rows * self.row_bytes:
            raise InvalidFile("the file was truncated while it was read", offset=opened.tell())
        return np.frombuffer(data, self._type).reshape(rows, self.dim)


def _as_float32(stored: Stored) -> Vectors:
    """Convert finite vectors to float32, in half the time of NumPy."""
    if stored.dtype.itemsize == 4:
        return np.ascontiguousarray(stored, np.float32)
    halves = np.ascontiguousarray(stored).view("<i2").reshape(-1)
    single: Vectors = np.empty(stored.shape, np.float32)
    bits, numbers = single.reshape(-1).view(np.int32), single.reshape(-1)
    # Sign, exponent and mantissa (IEEE 754) are shifted; then the exponent's bias is corrected.
    for start in range(0, len(halves), IN_CACHE):
        block = bits[start : start + IN_CACHE]
        block[:] = halves[start : start + IN_CACHE]  # with the sign in all upper bits
        block <<= 13
        block &= SIGN_AND_REST
        numbers[start : start + IN_CACHE] *= BIAS_FACTOR
    return single


def prepare(vectors: NDArray[Any], metric: Metric) -> Vectors:
    """Return vectors as an index stores them: float32, contiguous, of the same shape.

    For ``cosine`` they have length 1, or are zero. Raises :class:`ValueError` for NaN and infinity,
    and in other metrics for lengths above 1e18.
    """
    exact = np.asarray(vectors, np.float64)
    lengths = np.sqrt(np.einsum("...i,...i->...", exact, exact))
    _refuse(~np.isfinite(lengths), "contains NaN or infinity")
    if metric == "cosine":
        exact = exact / np.where(lengths, lengths, 1)[..., np.newaxis]
    else:
        _refuse(lengths > MAX_LENGTH, f"is longer than {MAX_LENGTH:g}")
    return np.ascontiguousarray(exact, np.float32)


def as_stored(vectors: Vectors, dtype: StoredType) -> NDArray[np.float16] | Vectors:
    """Convert to the type of the file. Raises :class:`ValueError` if float16 overflows."""
    with np.errstate(over="ignore"):  # refused below
        stored = vectors.astype(np.dtype(dtype).newbyteorder("<"))
    if dtype == "float16":
        _refuse(
            np.isinf(stored).any(axis=-1),
            'contains a number too large for float16: use dtype="float32"',
        )
    return stored


def similarities(query: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Return the similarity of each vector to a query, float32, shape (n,); higher is better.

    ``query``, ``vectors``: from :func:`prepare`, shape (dim,) and (n, dim), C-contiguous. The
    result for one vector does not depend on the other vectors.
    """
    if metric == "cosine":
        cosines: Scores = np.vecdot(vectors, query)
        np.minimum(cosines, 1, out=cosines)  # with the next line faster than np.clip
        return np.maximum(cosines, -1, out=cosines)
    exact, exact_query = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        exact -= exact_query
        scores: NDArray[np.float64] = -np.vecdot(exact, exact)
    else:
        scores = np.vecdot(exact, exact_query)
    return scores.astype(np.float32)


def _refuse(bad: NDArray[np.bool_] | np.bool_, what: str) -> None:
    if np.any(bad):
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(f"vector {first:,} {what}")


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """How the codes were built and how they are searched; stored in the index.

    - ``probes``: how many of the ``lists`` a search visits.
    - ``candidates``: minimum number of rows that a search scores exactly; 0 in PostgreSQL, where
      pgvector compares the vectors of the visited lists.
    - ``recall``: recall@10, measured with ``queries`` synthetic queries.
    - ``coded``: number of rows at build time.
    """

    lists: int
    probes: int
    candidates: int
    recall_asked: float
    recall: float
    queries: int
    coded: int


class VectorCodes:
    """Codes of the first ``rows`` vectors. Several threads may search at the same time."""

    def __init__(self, index: Any, rows: int) -> None:
        self._index = index
        self.rows = rows
        self.lists: int = index.nlist
        self._parameters: dict[int, Any] = {}  # of searches without a mask, by lists visited

    @classmethod
    def train(cls, sample: Vectors, lists: int, metric: Metric) -> VectorCodes:
        """Train the centroids on a sample of shape (n, dim); the result has no rows yet."""
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
            means = faiss.Kmeans(dim, lists, niter=COARSE_ROUNDS, seed=SEED)
            means.train(enough)
            centroids = means.centroids
        index.quantizer.add(np.asarray(centroids, np.float32))
        index.pq.cp.seed = SEED
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
            rows: Rows = self._index.search(_pad(queries), min(count, self.rows), params=how)[1]
        return rows

    def cost(self, share: float, candidates: int, dim: int) -> float:
        """Estimate the time of a search in ns. ``share``: the share of codes that are compared."""
        return dim * (self.rows * share * COMPARED + candidates * REFINED)


def _pad(vectors: Vectors) -> Vectors:
    """Append zeros until the number of dimensions is a multiple of ``WIDTH``."""
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


class VectorLeg:
    """The vectors of a commit. Several threads may search at the same time.

    ``codes``: of the first rows. ``kept_bytes``: size of the cache for vectors without codes.
    """

    def __init__(
        self,
        raw: RawVectors,
        metric: Metric,
        codes: VectorCodes | None = None,
        facts: CodeFacts | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.raw, self._metric = raw, metric
        self.codes, self._facts = codes, facts
        self._coded = codes.rows if codes else 0
        self._kept_bytes = kept_bytes
        self._kept: Block | None = None  # of the rows without codes, read when first needed
        self._lock = Lock()

    def search(self, vector: Vectors, limit: int, among: Mask | None = None) -> RankedRows:
        """Return the nearest rows to a vector of shape (dim,), with exact scores.

        Zero vectors find nothing and are not found. Raises :class:`ValueError` for an invalid one.
        """
        return self.near(vector, RankedRows.none().rows, limit, among)[0]

    def near(
        self, vector: Vectors, rows: Rows, limit: int, among: Mask | None = None
    ) -> tuple[RankedRows, Scores]:
        """Return the nearest rows, of those ``among``, and the similarities of ``rows``.

        A similarity is NaN if one of its two vectors is zero.
        """
        raw, metric = self.raw, self._metric
        exact = np.asarray(vector, np.float64)  # as `prepare` does, in a third of the time
        length = math.sqrt(exact @ exact)
        if not math.isfinite(length) or (metric != "cosine" and length > MAX_LENGTH):
            prepare(exact[np.newaxis], metric)  # raises the error
        if metric == "cosine" and length:
            exact = exact / length
        query: Vectors = exact.astype(np.float32)
        if not length:
            return RankedRows.none(), np.full(len(rows), np.nan, np.float32)
        if limit < 1:
            return RankedRows.none(), self._scores(query, rows)
        if among is not None and len(among) < raw.count:
            among = np.concatenate([among, np.zeros(raw.count - len(among), np.bool_)])
        allowed = None if among is None or among[: raw.count].all() else among[: raw.count]
        if self.codes is None or self._facts is None:
            scores_of_all = np.empty(raw.count, np.float32)
            scores_of_all.fill(np.nan)
            block = self._rest_in_memory() if metric == "cosine" and allowed is None else None
            if block is not None:  # all vectors are compared: no row needs to be read again
                scores = similarities(query, block.vectors, metric)
                scores_of_all[block.rows] = scores
                return best_of_scores(block.rows, scores, limit), scores_of_all[rows]
            nearest = self._search_rest(query, limit, allowed)
            scores_of_all[nearest.rows] = nearest.scores
            scores = scores_of_all[rows]
            others = np.isnan(scores).nonzero()[0]
            if len(others):
                scores[others] = self._scores(query, rows[others])
            return nearest, scores
        codes, facts = self.codes, self._facts
        coded = None if allowed is None else allowed[: codes.rows]
        count = max(limit, facts.candidates)
        if allowed is not None:
            left = np.flatnonzero(allowed)
            share = min(1.0, self._probes(facts, len(left)) / codes.lists)
            cost = codes.cost(share, min(len(left), count), raw.dim)
            if raw.dim * len(left) * REFINED <= cost:
                blocks = (Block.of(part, raw.take(part), metric) for part in self._parts(left))
                nearest = merge_best((block.best(query, limit, metric) for block in blocks), limit)
                return nearest, self._scores(query, rows)
        # Lists are visited until enough rows are found.
        there = codes.rows if coded is None else int(np.count_nonzero(coded))
        probes = self._probes(facts, there)
        while True:
            seem = codes.candidates(query[np.newaxis], count, probes, coded)[0]
            candidates: Rows = np.sort(seem[seem >= 0])
            if len(candidates) >= min(limit, there) or probes >= codes.lists:
                break
            probes *= 4
        # Candidates and ``rows`` are read together; rows without codes are all compared.
        scores = self._scores(query, np.concatenate((candidates, rows)))
        nearest = best_of_scores(candidates, scores[: len(candidates)], limit)
        if codes.rows < raw.count:
            nearest = merge_best([nearest, self._search_rest(query, limit, allowed)], limit)
        return nearest, scores[len(candidates) :]

    def _search_rest(self, query: Vectors, limit: int, allowed: Mask | None) -> RankedRows:
        """Return the best of the rows without codes."""
        block, metric = self._rest_in_memory(), self._metric
        blocks: Iterable[Block] = (  # read from the file
            Block.of(np.arange(first, first + len(vectors)), vectors, metric)
            for first, vectors in self.raw.blocks(self._coded, self.raw.count)
        )
        if block is not None:
            blocks = [block]
        if allowed is not None:
            blocks = (block.among(allowed) for block in blocks)
        return merge_best((block.best(query, limit, metric) for block in blocks), limit)

    def _rest_in_memory(self) -> Block | None:
        """Return the rows without codes, read once; ``None`` if they are too large to be kept."""
        raw, start = self.raw, self._coded
        if (raw.count - start) * raw.dim * 4 > self._kept_bytes:
            return None
        with self._lock:
            if self._kept is None:
                rows, vectors = np.arange(start, raw.count), raw.slice(start, raw.count)
                self._kept = Block.of(rows, vectors, self._metric)
            return self._kept

    def _parts(self, rows: Rows) -> list[Rows]:
        """Cut rows into parts whose vectors need at most 16 MiB of memory; at least one part."""
        step = max(1, BATCH_BYTES // (4 * self.raw.dim))
        return [rows[start : start + step] for start in range(0, max(len(rows), 1), step)]

    def _scores(self, query: Vectors, rows: Rows) -> Scores:
        """Return the exact score of each row; NaN if the row's vector is zero."""
        parts = []
        for part in self._parts(rows):
            vectors = self.raw.take(part)
            scores = similarities(query, vectors, self._metric)
            if self._metric == "l2":
                scores[~vectors.any(axis=1)] = np.nan
            elif 0 in scores:  # only these may be zero vectors
                nothing = np.flatnonzero(scores == 0)
                scores[nothing[~vectors[nothing].any(axis=1)]] = np.nan
            parts.append(scores)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _probes(self, facts: CodeFacts, left: int) -> int:
        return facts.probes * self._coded // max(1, left)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of vectors, without zero vectors.

    ``rows``: their row numbers, ascending. ``squares``: their squared lengths; empty for cosine.
    """

    rows: Rows
    vectors: Vectors
    squares: Scores

    @classmethod
    def of(cls, rows: Rows, vectors: Vectors, metric: Metric) -> Block:
        squares = np.einsum("ij,ij->i", vectors, vectors)
        if not squares.all():
            there = squares > 0
            there[~there] = vectors[~there].any(axis=1)  # too short: the square underflows to zero
            rows, vectors, squares = rows[there], vectors[there], squares[there]
        return cls(rows, vectors, squares if metric != "cosine" else np.empty(0, np.float32))

    def among(self, allowed: Mask) -> Block:
        kept = allowed[self.rows]
        squares = self.squares[kept] if len(self.squares) else self.squares
        return Block(self.rows[kept], self.vectors[kept], squares)

    def best(self, query: Vectors, limit: int, metric: Metric) -> RankedRows:
        if metric == "cosine" or len(self.rows) <= limit:
            return best_of_scores(self.rows, similarities(query, self.vectors, metric), limit)
        # Choose the rows that may be among the best, given the rounding errors.
        rough = np.vecdot(self.vectors, query)
        length, longest = float(np.sqrt(query @ query)), float(np.sqrt(self.squares.max()))
        error = (len(query) + 8) * SINGLE * longest * length
        if metric == "l2":
            rough = 2 * rough - self.squares
            error = 2 * error + (len(query) + 8) * SINGLE * longest**2
        near = np.flatnonzero(rough >= _nth(rough, limit) - 2 * error)
        parts = (near[start : start + BATCH_ROWS] for start in range(0, len(near), BATCH_ROWS))
        exact = [similarities(query, self.vectors[part], metric) for part in parts]
        return best_of_scores(self.rows[near], np.concatenate(exact), limit)


def merge_best(lists: Iterable[RankedRows], limit: int) -> RankedRows:
    """Return the best rows of several lists. No row may be in two of the lists."""
    best = RankedRows.none()
    for other in lists:
        if not len(best.rows):
            best = other
        elif len(other.rows):
            rows = np.concatenate([best.rows, other.rows])
            best = RankedRows.of(rows, np.concatenate([best.scores, other.scores]), limit)
    return best


def best_of_scores(rows: Rows, scores: Scores, limit: int) -> RankedRows:
    """Return the best rows. ``rows`` must be ascending, and no score may be NaN."""
    if len(rows) > 2 * limit:  # for fewer, sorting is as fast as partitioning
        near = (scores >= _nth(scores, limit)).nonzero()[0]
        rows, scores = rows[near], scores[near]
    order = (-scores).argsort(kind="stable")[:limit]
    return RankedRows(rows[order], scores[order])


def _nth(scores: Scores, nth: int) -> float:
    """Return the ``nth`` largest score, counted from 1."""
    parted = scores.copy()
    parted.partition(len(scores) - nth)
    return float(parted[-nth])


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
