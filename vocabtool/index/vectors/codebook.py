"""Short codes for vectors: product quantisation with 4 bits for every two dimensions.

Each vector is put into the list of its nearest coarse centroid (an inverted file, IVF), and a
search visits only some lists; small indexes have a single one, of the mean. Coded is by what the
vector differs from that centroid: of each pair of dimensions the nearest of sixteen centroids,
which makes a quarter byte per dimension. For L2 the vector itself is coded, as differences would
take a table for each list that a query visits. A row's record is its code, then the number of its
list (uint16, little-endian). Zero vectors are in no list: they are never found.

H. Jégou, M. Douze, C. Schmid: Product Quantization for Nearest Neighbor Search, 2011; of 4 bits,
so that tables fit into registers: F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality is
not enough, 2015. Training is FAISS's, on one thread: its sub-quantisers are so small that threads
wait for each other. How codes are searched is in ``fast_scan.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.index.vectors.metric import Metric

Records = NDArray[np.uint8]

BITS: Final = 4
CENTROIDS: Final = 1 << BITS
WIDTH: Final = 2  # dimensions that share a centroid
NO_LIST: Final = (1 << 16) - 1
LIST_BYTES: Final = 2
PER_CENTROID: Final = 512  # vectors that each centroid is trained on
LITTLE: Final = 1e-6  # of the largest centroid: less than codes can tell
ROUNDS: Final = 10  # of k-means for the coarse centroids
NUMBER: Final = np.dtype("<f4")


class Codebook(NamedTuple):
    """``fine``: float32, shape (pairs of dimensions, 16, 2); an odd dimension is padded by zero.

    ``coarse``: float32, shape (lists, dim). ``dim``: the vectors'. ``differences``: whether codes
    are of these.
    """

    fine: Vectors
    coarse: Vectors
    dim: int
    differences: bool

    @classmethod
    def trained(cls, sample: Vectors, lists: int, seed: int, metric: Metric) -> Codebook:
        """Centroids of a sample of shape (n, dim); the same for the same sample and seed.

        ``lists``: how many coarse centroids.
        """
        coarse = _coarse(sample, lists, seed)
        if not _of_differences(metric):
            return cls(_fine(sample, seed), coarse, sample.shape[1], differences=False)
        differences = sample - coarse[_nearest(sample, coarse)]
        return cls(_fine(differences, seed), coarse, sample.shape[1], differences=True)

    @classmethod
    def load(cls, file: Path, *, dim: int, lists: int, metric: Metric) -> Codebook:
        """A codebook that was saved. Raises :class:`InvalidFile`, :class:`NotFound`."""
        shape = (_pairs(dim), CENTROIDS, WIDTH)
        fine, coarse = int(np.prod(shape)), lists * dim
        with reading(str(file)):
            size, wanted = file.stat().st_size, (fine + coarse) * NUMBER.itemsize
            if size != wanted:
                raise InvalidFile(f"wanted a codebook of {wanted:,} bytes, got {size:,}")
            numbers = np.fromfile(file, NUMBER).astype(np.float32)
            if not np.isfinite(numbers).all():
                raise InvalidFile("holds a centroid that is no finite number")
        centroids = numbers[:fine].reshape(shape), numbers[fine:].reshape(lists, dim)
        return cls(*centroids, dim, _of_differences(metric))

    def save(self, file: Path) -> None:
        """Write both kinds of centroids, float32, one after the other."""
        numbers = np.concatenate([self.fine.ravel(), self.coarse.ravel()])
        file.write_bytes(numbers.astype(NUMBER).tobytes())

    @property
    def code_bytes(self) -> int:
        """The size of a code."""
        return (len(self.fine) + 1) // 2

    @property
    def record_bytes(self) -> int:
        """The size of a row's record: its code and the number of its list."""
        return self.code_bytes + LIST_BYTES

    def encode(self, vectors: Vectors) -> Records:
        """The records of vectors of shape (n, dim): uint8, shape (n, ``record_bytes``)."""
        records = np.empty((len(vectors), self.record_bytes), np.uint8)
        nearest = _nearest(vectors, self.coarse)
        coded = padded(vectors - self.coarse[nearest] if self.differences else vectors)
        records[:, : self.code_bytes] = self.quantiser().compute_codes(coded)
        numbers = np.where(vectors.any(axis=1), nearest, NO_LIST)
        records[:, self.code_bytes :] = numbers.astype("<u2")[:, np.newaxis].view(np.uint8)
        return records

    def quantiser(self) -> Any:
        """FAISS's product quantiser of these centroids."""
        faiss = faiss_library()
        made = faiss.ProductQuantizer(len(self.fine) * WIDTH, len(self.fine), BITS)
        faiss.copy_array_to_vector(self.fine.ravel(), made.centroids)
        return made


def faiss_library() -> Any:
    """FAISS. Raises :class:`UnsupportedFormat` where it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise UnsupportedFormat(
            "short codes need faiss, which is not installed: pip install faiss-cpu"
        ) from error
    return faiss


def _alone() -> None:
    """FAISS's threads are not in a forked process: it would wait for them without end."""
    if "faiss" in sys.modules:
        faiss_library().omp_set_num_threads(1)


os.register_at_fork(after_in_child=_alone)


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS computes on the calling thread alone; other threads keep their number (OpenMP's)."""
    faiss = faiss_library()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def padded(vectors: Vectors) -> Vectors:
    """Vectors of shape (n, dim) with a zero at the end where ``dim`` is odd."""
    missing = vectors.shape[1] % WIDTH
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors)


def _of_differences(metric: Metric) -> bool:
    return metric != "l2"


def _pairs(dim: int) -> int:
    return (dim + WIDTH - 1) // WIDTH


def _fine(sample: Vectors, seed: int) -> Vectors:
    faiss = faiss_library()
    enough = padded(_repeated(sample, 39 * CENTROIDS))  # with fewer FAISS prints a warning
    quantiser = faiss.ProductQuantizer(enough.shape[1], enough.shape[1] // WIDTH, BITS)
    quantiser.cp.seed = seed
    quantiser.cp.max_points_per_centroid = PER_CENTROID
    with one_thread():
        quantiser.train(enough)
    fine: Vectors = faiss.vector_to_array(quantiser.centroids)
    return _apart(fine.reshape(-1, CENTROIDS, WIDTH))


def _apart(fine: Vectors) -> Vectors:
    """The same with a little between the centroids of dimensions in which no vectors differ.

    FastScan finds no vector that has the lowest value of a query's table in every place. These
    centroids lie on both sides of zero, and where vectors do not differ theirs is a middle one.
    """
    same = fine.min(axis=1, keepdims=True) == fine.max(axis=1, keepdims=True)
    steps = np.arange(CENTROIDS)[:, np.newaxis] - (CENTROIDS - 1) / 2
    little = LITTLE * (np.abs(fine).max() or 1.0) * steps ** [1, 3]  # no query levels both
    return np.asarray(np.where(same, fine + little, fine), np.float32)


def _coarse(sample: Vectors, lists: int, seed: int) -> Vectors:
    if not 0 < lists <= NO_LIST:
        raise ValueError(f"wanted 1 to {NO_LIST:,} lists, got {lists:,}")
    if lists == 1:
        return np.asarray(sample.mean(axis=0, keepdims=True), np.float32)
    enough = _repeated(sample, 39 * lists)
    means = faiss_library().Kmeans(enough.shape[1], lists, niter=ROUNDS, seed=seed)
    means.train(enough)
    found: Vectors = means.centroids
    return found


def _repeated(sample: Vectors, least: int) -> Vectors:
    missing = -(-least // max(1, len(sample)))
    return np.ascontiguousarray(np.tile(sample, (missing, 1)) if missing > 1 else sample)


def _nearest(vectors: Vectors, centroids: Vectors) -> NDArray[np.int64]:
    if len(centroids) == 1:
        return np.zeros(len(vectors), np.int64)
    faiss = faiss_library()
    flat = faiss.IndexFlatL2(centroids.shape[1])
    flat.add(np.ascontiguousarray(centroids))
    found: NDArray[np.int64] = flat.search(np.ascontiguousarray(vectors), 1)[1][:, 0]
    return found
