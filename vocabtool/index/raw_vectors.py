"""Read stored vectors, compute similarities, and measure the recall of approximate search.

The file has no header: rows of float16 or float32, little-endian. Searches map the file into
memory. Building reads it block by block, because mapped pages would count as memory of the process.

Recall@10 of a search is measured by comparison with exact search. There are three kinds of
synthetic queries, and the lowest recall counts:

- stored vectors that are far from their nearest neighbours;
- random weighted sums of many stored vectors; these sums are near no stored vector;
- random weighted sums of the differences between stored vectors and their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Metric, StoredType
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, reading
from vocabtool.system.ranking import Rows, Scores

Stored: TypeAlias = NDArray[np.float16] | NDArray[np.float32]

MAX_LENGTH: Final = 1e18  # keeps the product of two vectors far below float32's maximum
READ_BYTES: Final = 16 << 20  # block size, as float32
IN_CACHE: Final = 1 << 16  # numbers converted at a time
REBIASED: Final = np.float32(2.0 ** (127 - 15))
SIGN_AND_REST: Final = np.int32(-0x70002000)  # 0x8fffe000: 1 bit, 3 zero bits, 15 bits

NEAREST: Final = 10
QUERIES: Final = 128  # of each kind
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


class RawVectors:
    """The first ``count`` vectors in a file, each of ``dim`` numbers. Several threads may read.

    Raises :class:`InvalidFile` and :class:`NotFound`.
    """

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
        return _single(self._rows.take(rows, axis=0))  # faster than indexing

    def slice(self, start: int, stop: int) -> Vectors:
        return _single(self._rows[start:stop])

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
                yield first, _single(self._read(opened, min(step, end - first)))

    def read_rows(self, rows: Rows) -> Vectors:
        """Read the vectors of ascending rows one by one."""
        vectors = np.empty((len(rows), self.dim), self._type)
        with reading(str(self.file)), self.file.open("rb", buffering=0) as opened:
            for place, row in enumerate(rows.tolist()):
                opened.seek(row * self.row_bytes)
                vectors[place] = self._read(opened, 1)
        return _single(vectors)

    def _read(self, opened: FileIO, rows: int) -> Stored:
        data = opened.read(rows * self.row_bytes) or b""
        if len(data) != rows * self.row_bytes:
            raise InvalidFile("the file was truncated while it was read", offset=opened.tell())
        return np.frombuffer(data, self._type).reshape(rows, self.dim)


def _single(stored: Stored) -> Vectors:
    """Convert finite vectors to float32, in half the time of NumPy."""
    # Sign, exponent and mantissa (IEEE 754) are shifted; then the exponent's bias is corrected.
    if stored.dtype.itemsize == 4:
        return np.ascontiguousarray(stored, np.float32)
    halves = np.ascontiguousarray(stored).view("<i2").reshape(-1)
    single: Vectors = np.empty(stored.shape, np.float32)
    bits, numbers = single.reshape(-1).view(np.int32), single.reshape(-1)
    for start in range(0, len(halves), IN_CACHE):
        block = bits[start : start + IN_CACHE]
        block[:] = halves[start : start + IN_CACHE]  # with the sign in all upper bits
        block <<= 13
        block &= SIGN_AND_REST
        numbers[start : start + IN_CACHE] *= REBIASED
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


# Synthetic queries, shape (n, dim), and the row that each query copies, or -1.
QuerySample: TypeAlias = tuple[Vectors, Rows]


def queries_unlike_documents(
    vectors: Vectors, rows: Rows, metric: Metric, random: np.random.Generator
) -> list[QuerySample]:
    """Return three samples of synthetic queries: see the list at the top of this file.

    ``vectors``: a sample of the stored vectors, shape (n, dim). ``rows``: their rows.
    """
    tried = np.sort(random.permutation(len(rows))[: QUERIES * TRIED])
    scores = products(vectors[tried], vectors, metric)
    scores[np.arange(len(tried)), tried] = -np.inf
    place = max(0, len(rows) - NEAREST)
    near = np.argpartition(scores, place, axis=1)[:, place:]
    tenth = np.take_along_axis(scores, near, 1).min(axis=1)
    squares = np.einsum("ij,ij->i", vectors[tried], vectors[tried])
    if metric == "l2":
        tenth = tenth - squares
    elif metric == "inner-product":
        tenth = tenth / np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    far = tried[np.sort(np.argsort(tenth, kind="stable")[:QUERIES])]
    apart = vectors[tried] - vectors[near].mean(axis=1)
    some = vectors[np.sort(random.permutation(len(rows))[:MIXED])]
    return [
        (vectors[far], rows[far]),
        mixtures(some, vectors, metric, random),
        mixtures(apart, vectors, metric, random),
    ]


def mixtures(
    parts: Vectors, vectors: Vectors, metric: Metric, random: np.random.Generator
) -> QuerySample:
    """Return random weighted sums of ``parts``.

    The sums have the covariance of ``parts``. Their mean is the mean of ``vectors`` for ``l2``, and
    zero for other metrics.
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

    Both arrays have shape (n, 10); missing rows are -1. The mask is ``False`` for missing rows, and
    for rows that tie with the eleventh nearest row.
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
        both = np.concatenate([best, scores[:, better]], axis=1)
        numbers = np.broadcast_to(better + first, (count, len(better)))
        numbers = np.concatenate([rows, numbers], axis=1)
        if both.shape[1] > 8 * NEAREST:  # sorting them all would be slow
            few = np.sort(np.argpartition(-both, NEAREST, axis=1)[:, : NEAREST + 1], axis=1)
            both = np.take_along_axis(both, few, 1)
            numbers = np.take_along_axis(numbers, few, 1)
        order = np.argsort(-both, axis=1, kind="stable")[:, : NEAREST + 1]
        best, rows = np.take_along_axis(both, order, 1), np.take_along_axis(numbers, order, 1)
    near, there = best[:, :NEAREST], np.isfinite(best[:, :NEAREST])
    last = np.where(np.isfinite(best[:, NEAREST:]), best[:, NEAREST:], LOWEST)
    nearer = near > last + ALIKE * np.maximum(1, np.abs(last))
    return rows[:, :NEAREST], there & nearer


def recall_by_count(
    truth: tuple[Rows, NDArray[np.bool_]], candidates: Rows, counts: list[int]
) -> list[tuple[float, float]]:
    """Return (mean recall, its standard error) of the first k candidates, for k in ``counts``.

    ``truth``: the result of :func:`nearest_rows`. ``candidates``: the rows that a search found,
    shape (queries, largest k), nearest first.
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
    raw: RawVectors, search: Callable[[Vectors, int], Rows], metric: Metric, seed: int = 1
) -> float:
    """Measure recall@10 of a search for three kinds of synthetic queries; return the lowest.

    ``search``: a function that returns the k nearest rows, given a vector and k.
    """
    random = np.random.default_rng(seed)
    size = min(REMEASURED_SAMPLE, raw.count)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    there = sample.any(axis=1)
    if not there.any():
        return 1.0
    recalls = []
    for kind in queries_unlike_documents(sample[there], rows[there], metric, random):
        queries, own_rows = kind
        returned = np.full((len(queries), NEAREST), -1)
        for place, (query, own) in enumerate(zip(queries, own_rows.tolist(), strict=True)):
            near = search(query, NEAREST + 1)
            near = near[near != own][:NEAREST]  # as in the truth
            returned[place, : len(near)] = near
        ((mean, _),) = recall_by_count(nearest_rows(raw, kind, metric), returned, [NEAREST])
        recalls.append(round(mean, 4))
    return min(recalls)


def similarity_by_chance(raw: RawVectors, metric: Metric, seed: int = 0) -> float | None:
    """Return the similarity that unrelated vectors reach by chance, or ``None``.

    It is the greater of two 95th percentiles:

    - of the similarities in random pairs of documents;
    - of the similarities between random weighted sums of vectors and their nearest documents.

    Returns ``None`` for fewer than ten vectors, or if products overflow float32.
    """
    random = np.random.default_rng(seed)
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
            there = vectors[vectors.any(axis=1)]
            best = _similarities(queries, there, metric).max(axis=1, initial=-np.inf)
            np.maximum(nearest, best, out=nearest)
        reached = max(
            float(np.quantile(similarities, CHANCE_SHARE)) for similarities in (pairs, nearest)
        )
    return round(reached, DIGITS) if math.isfinite(reached) else None


def _similarities(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    scores = products(queries, vectors, metric)
    squares = np.einsum("ij,ij->i", queries, queries)[:, np.newaxis]
    if metric == "l2":
        scores -= squares
    elif metric == "inner-product":
        scores /= np.sqrt(squares)
    return scores


def products(queries: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Return similarities, computed by a matrix product, with shape (queries, vectors).

    For ``l2``, the squared length of the query is not subtracted.
    """
    scores: Scores = queries @ vectors.T
    if metric == "l2":
        scores *= 2
        scores -= np.einsum("ij,ij->i", vectors, vectors)
    return scores
