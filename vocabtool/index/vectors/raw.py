"""The vectors themselves: an append-only file of rows, float16 or float32, little-endian.

Nothing but numbers lies in it; how many rows count, of which length, says the manifest. Searches
map the file, building reads it block by block: mapped pages would count as its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, reading
from vocabtool.index.vectors.metric import StoredType
from vocabtool.system.ranked import Rows

Stored: TypeAlias = NDArray[np.float16] | NDArray[np.float32]

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
        with reading(str(file)):
            self._refuse_short()
            self._rows = self._mapped()

    @classmethod
    def open(cls, file: Path, *, dim: int, dtype: StoredType, count: int) -> RawVectors:
        """The first ``count`` rows of a file, which may be longer."""
        return cls(file, dim=dim, dtype=dtype, count=count)

    @property
    def row_bytes(self) -> int:
        """The size of one vector in the file."""
        return self.dim * self._type.itemsize

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

    def _refuse_short(self) -> None:
        size, wanted = self.file.stat().st_size, self.count * self.row_bytes
        if size < wanted:
            raise InvalidFile(
                f"wanted {self.count:,} vectors of {self.row_bytes:,} bytes, {wanted:,} bytes in "
                f"all, got {size:,}",
                offset=size,
            )

    def _mapped(self) -> Stored:
        shape = (self.count, self.dim)
        if not self.count:
            return np.empty(shape, self._type)
        return np.asarray(np.memmap(self.file, self._type, "r", shape=shape))


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
