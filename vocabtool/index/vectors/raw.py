"""The vectors of an index: how they are compared, and the file that they lie in.

There are three metrics, with one meaning of score: higher is better. The file is append-only, rows
of float16 or float32, little-endian; nothing but numbers lies in it, how many rows count, of which
length, says the index. Searches map it, building reads it block by block: mapped pages would count
as its memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, reading
from vocabtool.index.options import Metric, StoredType
from vocabtool.system.ranking import Rows, Scores

Stored: TypeAlias = NDArray[np.float16] | NDArray[np.float32]

MAX_LENGTH: Final = 1e18  # so that a product of two vectors stays far below float32's largest
READ_BYTES: Final = 16 << 20  # a block of plain reads, in float32
IN_CACHE: Final = 1 << 16  # numbers that are converted at a time
REBIASED: Final = np.float32(2.0 ** (127 - 15))
SIGN_AND_REST: Final = np.int32(-0x70002000)  # 0x8fffe000: one bit, three of nothing, 15 bits


class RawVectors:
    """``count`` rows of ``dim`` numbers at the start of a file. Several threads may read.

    Raises :class:`InvalidFile` where the file is shorter, :class:`NotFound` where it is not there.
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
                what = f"{count:,} vectors of {self.row_bytes:,} bytes, {wanted:,} bytes in all"
                raise InvalidFile(f"wanted {what}, got {size:,}", offset=size)
            self._rows: Stored = np.empty((0, dim), self._type)
            if count:
                self._rows = np.asarray(np.memmap(file, self._type, "r", shape=(count, dim)))

    def take(self, rows: Rows) -> Vectors:
        """These rows, float32, shape (len(rows), dim)."""
        return _single(self._rows.take(rows, axis=0))  # sooner than by an index

    def slice(self, start: int, stop: int) -> Vectors:
        """Rows ``start`` to ``stop``, float32, all at once."""
        return _single(self._rows[start:stop])

    def blocks(
        self, start: int = 0, stop: int | None = None, rows: int | None = None
    ) -> Iterator[tuple[int, Vectors]]:
        """Rows ``start`` to ``stop`` in order by plain reads: where each block begins, and it."""
        end = self.count if stop is None else min(stop, self.count)
        step = rows or max(1, READ_BYTES // (4 * self.dim))
        with reading(str(self.file)), self.file.open("rb", buffering=0) as opened:
            opened.seek(start * self.row_bytes)
            for first in range(start, end, step):
                yield first, _single(self._read(opened, min(step, end - first)))

    def read_rows(self, rows: Rows) -> Vectors:
        """These ascending rows by plain reads, for samples: float32, shape (len(rows), dim)."""
        found = np.empty((len(rows), self.dim), self._type)
        with reading(str(self.file)), self.file.open("rb", buffering=0) as opened:
            for place, row in enumerate(rows.tolist()):
                opened.seek(row * self.row_bytes)
                found[place] = self._read(opened, 1)
        return _single(found)

    def _read(self, opened: FileIO, rows: int) -> Stored:
        data = opened.read(rows * self.row_bytes) or b""
        if len(data) != rows * self.row_bytes:
            raise InvalidFile("was cut while it was read", offset=opened.tell())
        return np.frombuffer(data, self._type).reshape(rows, self.dim)


def _single(stored: Stored) -> Vectors:
    """Float16 as float32 by its bits, in half of NumPy's time; infinity and NaN are not stored.

    Sign, exponent and mantissa (IEEE 754) move to where float32 has them; the exponents' biases
    are 15 and 127, which a product makes good, also for numbers that float16 keeps unnormalised.
    """
    if stored.dtype.itemsize == 4:
        return np.ascontiguousarray(stored, np.float32)
    halves = np.ascontiguousarray(stored).view("<i2").reshape(-1)
    single: Vectors = np.empty(stored.shape, np.float32)
    bits, numbers = single.reshape(-1).view(np.int32), single.reshape(-1)
    for start in range(0, len(halves), IN_CACHE):
        part = bits[start : start + IN_CACHE]
        part[:] = halves[start : start + IN_CACHE]  # the sign fills the upper half
        part <<= 13
        part &= SIGN_AND_REST
        numbers[start : start + IN_CACHE] *= REBIASED
    return single


def prepare(vectors: NDArray[Any], metric: Metric) -> Vectors:
    """Vectors as an index keeps them: float32, contiguous, of the shape they came in.

    Under ``cosine`` they get unit length; a zero vector stays zero. Raises :class:`ValueError` for
    NaN, infinity, and vectors longer than 1e18.
    """
    exact = np.asarray(vectors, np.float64)
    lengths = np.sqrt(np.einsum("...i,...i->...", exact, exact))
    _refuse(~np.isfinite(lengths), "holds NaN or infinity")
    if metric == "cosine":
        exact = exact / np.where(lengths, lengths, 1)[..., np.newaxis]
    else:
        _refuse(lengths > MAX_LENGTH, f"is longer than {MAX_LENGTH:g}")
    return np.ascontiguousarray(exact, np.float32)


def prepared_query(vector: NDArray[Any], metric: Metric) -> Vectors:
    """One vector of shape (dim,) as :func:`prepare` makes it, in a third of the time."""
    exact = np.asarray(vector, np.float64)
    length = math.sqrt(exact @ exact)
    if not math.isfinite(length) or (metric != "cosine" and length > MAX_LENGTH):
        prepare(exact[np.newaxis], metric)  # which says what is wrong
    if metric == "cosine" and length:
        exact = exact / length
    single: Vectors = exact.astype(np.float32)
    return single


def as_stored(vectors: Vectors, dtype: StoredType) -> NDArray[np.float16] | Vectors:
    """Prepared vectors as they lie in the file, little-endian.

    Raises :class:`ValueError` where a number is too large for float16.
    """
    with np.errstate(over="ignore"):  # refused below
        stored = vectors.astype(np.dtype(dtype).newbyteorder("<"))
    if dtype == "float16":
        _refuse(
            np.isinf(stored).any(axis=-1),
            'holds a number too large for float16: use dtype="float32"',
        )
    return stored


def similarities(query: Vectors, vectors: Vectors, metric: Metric) -> Scores:
    """Of each vector how near it is to a query, both prepared.

    ``query``: shape (dim,); ``vectors``: shape (n, dim), C-contiguous. The result, float32, is
    summed row by row, so that it depends on nothing but the two vectors. Cosine (within -1 and 1,
    although float16 rounds lengths), inner product, or minus the squared distance: these two in
    double precision, since what is summed may be much larger than the sum.
    """
    if metric == "cosine":
        cosines: Scores = np.einsum("ij,j->i", vectors, query)
        np.minimum(cosines, 1, out=cosines)  # and the next: sooner than np.clip
        return np.maximum(cosines, -1, out=cosines)
    exact, asked = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        exact -= asked
        scores: NDArray[np.float64] = -np.einsum("ij,ij->i", exact, exact)
    else:
        scores = np.einsum("ij,j->i", exact, asked)
    return scores.astype(np.float32)


def _refuse(bad: NDArray[np.bool_] | np.bool_, what: str) -> None:
    if np.any(bad):
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(f"vector {first:,} {what}")
