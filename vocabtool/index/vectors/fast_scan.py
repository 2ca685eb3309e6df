"""Candidates by their short codes: FAISS's FastScan index with inverted lists, or a single one.

The index is put together from plain arrays when it is opened, never read from a file of FAISS's:
any bits are a code, and list numbers are checked, so that no file can harm. Candidates are
approximate; who scores them exactly is ``leg.py``. A query runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, reading
from vocabtool.index.vectors.codebook import (
    BITS,
    NO_LIST,
    WIDTH,
    Codebook,
    Records,
    faiss_library,
    one_thread,
    padded,
)
from vocabtool.index.vectors.metric import Metric
from vocabtool.system.ranked import Rows

BLOCK: Final = 32  # vectors that FastScan compares at a time


class CodeFiles(NamedTuple):
    """``codebook``: the centroids. ``codes``: a record for each row, in order, append-only."""

    codebook: Path
    codes: Path


class FastScan:
    """Finds candidates among the rows of ``records``. Several threads may ask at a time."""

    def __init__(self, codebook: Codebook, records: Records, metric: Metric) -> None:
        self.rows = len(records)
        self.lists = len(codebook.coarse)
        self._index, self._coarse = _index(codebook, records, metric)
        self._plain: dict[int, Any] = {}

    @classmethod
    def open(
        cls, files: CodeFiles, *, dim: int, lists: int, count: int, metric: Metric
    ) -> FastScan:
        """The codes of the first ``count`` rows; the file of codes may hold more.

        Raises :class:`InvalidFile` where a file is too short or holds impossible numbers,
        :class:`NotFound` where one is missing.
        """
        codebook = Codebook.load(files.codebook, dim=dim, lists=lists, metric=metric)
        with reading(str(files.codes)):
            records = _mapped(files.codes, count, codebook.record_bytes)
            return cls(codebook, records, metric)

    def candidates(
        self,
        queries: Vectors,
        count: int,
        probes: int = 1,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Rows:
        """For each query the rows that seem nearest, nearest first, -1 where there are no more.

        ``queries``: shape (n, dim), prepared. ``probes``: how many lists are visited.
        ``allowed``: a mask over the rows, shape (rows,).
        """
        how = self._how(max(1, min(probes, self.lists)), allowed)
        # For one query threads wait for each other longer than they work.
        with one_thread() if len(queries) == 1 else nullcontext():
            found: Rows = self._index.search(padded(queries), min(count, self.rows), params=how)[1]
        return found

    def _how(self, probes: int, allowed: NDArray[np.bool_] | None) -> Any:
        """FAISS's parameters of a search; without a mask they are made once."""
        faiss = faiss_library()
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            return faiss.IVFSearchParameters(nprobe=probes, sel=selector)
        if probes not in self._plain:
            self._plain[probes] = faiss.IVFSearchParameters(nprobe=probes)
        return self._plain[probes]


def _mapped(file: Path, count: int, size: int) -> Records:
    held, wanted = file.stat().st_size, count * size
    if held < wanted:
        raise InvalidFile(
            f"wanted {count:,} codes of {size:,} bytes, {wanted:,} bytes in all, got {held:,}",
            offset=held,
        )
    return np.asarray(np.memmap(file, np.uint8, "r", shape=(count, size)))


def _index(codebook: Codebook, records: Records, metric: Metric) -> tuple[Any, Any]:
    """The index, and the coarse one that it points to and does not own.

    A single list, unlike FAISS's flat index, takes masks.
    """
    faiss = faiss_library()
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    coarse = faiss.IndexFlat(len(codebook.fine) * WIDTH, kind)
    coarse.add(padded(codebook.coarse))
    plain = faiss.IndexIVFPQ(coarse, coarse.d, coarse.ntotal, len(codebook.fine), BITS, kind)
    plain.by_residual = codebook.differences
    plain.is_trained = True
    faiss.copy_array_to_vector(codebook.fine.ravel(), plain.pq.centroids)
    _fill(plain.invlists, codebook, records)
    plain.ntotal = len(records)
    return faiss.IndexIVFPQFastScan(plain, BLOCK), coarse


def _fill(inverted: Any, codebook: Codebook, records: Records) -> None:
    pointer = faiss_library().swig_ptr
    for number, rows in _rows_by_list(codebook, records):
        # Rows first: both at once takes NumPy twice as long.
        codes = np.ascontiguousarray(records.take(rows, axis=0)[:, : codebook.code_bytes])
        inverted.add_entries(number, len(rows), pointer(rows), pointer(codes))


def _rows_by_list(codebook: Codebook, records: Records) -> Iterator[tuple[int, Rows]]:
    known = len(codebook.coarse)
    lists = np.ascontiguousarray(records[:, codebook.code_bytes :]).view("<u2")[:, 0]
    strange = lists[(lists >= known) & (lists != NO_LIST)]
    if len(strange):
        raise InvalidFile(f"wanted list numbers below {known:,}, got {strange[0]:,}")
    order = np.argsort(lists, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(lists, minlength=known)[:known])
    for number, rows in enumerate(np.split(order, ends)[:known]):
        if len(rows):
            yield number, rows
