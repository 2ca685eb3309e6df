"""Weighted means of word vectors, one direction taken out of them where asked, at unit length.

    mean   = 1/|s| sum over the known words w of s of weight(w) v(w)
    vector = (mean - c (c . mean)) made one long

|s| counts known words, repeated ones again. Which words a text has is in ``static_lookup.py``,
where weights and the component c come from in ``static_fitting.py``.
Source: Arora, Liang, Ma: A Simple but Tough-to-Beat Baseline for Sentence Embeddings, ICLR 2017.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.encoders.static_lookup import Rows
from vocabtool.errors import VocabtoolError

SEGMENT: Final = 64  # words summed in float32: longer texts are sums of such sums in float64
NOTHING_LEFT: Final = 1e-5  # of a mean without its component: what remains is rounding


class Means(NamedTuple):
    """Makes vectors of the rows of texts.

    ``matrix``: float32, shape (words, dim), only rows that are asked for are touched;
    ``weights``: float32, shape (words,), ``None``: all weigh the same;
    ``component``: float32, shape (dim,), unit length, or ``None``.
    """

    matrix: Vectors
    weights: NDArray[np.float32] | None = None
    component: NDArray[np.float32] | None = None

    def unit(self, rows: Rows) -> Vectors:
        """Vectors of unit length, shape (n, dim); zero where nothing is known, or nothing left."""
        sums = self.sums(rows)
        least: NDArray[np.float64] | float = 0.0
        if self.component is not None:
            least = NOTHING_LEFT * _norms(sums)
            component = self.component.astype(np.float64)
            along = (sums * component).sum(axis=1)
            sums = sums - along[:, None] * component
        norms = _norms(sums)
        if not np.isfinite(norms).all():
            raise VocabtoolError(
                "the mean of a text's word vectors is not finite: a vector in the file holds "
                "infinity or NaN, or numbers too large to add up in float32"
            )
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > least)
        return (sums * scale[:, None]).astype(np.float32, copy=False)

    def means(self, rows: Rows) -> NDArray[np.float64]:
        """Weighted means as they are, shape (n, dim); zero where nothing is known."""
        counts = np.maximum(np.diff(rows.offsets), 1)
        means: NDArray[np.float64] = self.sums(rows) / counts[:, None].astype(np.float64)
        return means

    def sums(self, rows: Rows) -> NDArray[np.floating]:
        """Weighted sums, shape (n, dim); of float64 where a text is longer than a segment."""
        parts = -(-np.diff(rows.offsets) // SEGMENT)
        if parts.max(initial=0) <= 1:
            return self._product(rows.numbers, rows.offsets)
        parts = np.maximum(parts, 1)
        first = np.cumsum(parts) - parts
        within = np.arange(int(parts.sum())) - np.repeat(first, parts)
        starts = np.repeat(rows.offsets[:-1], parts) + SEGMENT * within
        sums = self._product(rows.numbers, np.append(starts, rows.offsets[-1]))
        total: NDArray[np.float64] = np.add.reduceat(sums, first, axis=0, dtype=np.float64)
        return total

    def _product(self, numbers: NDArray[np.int32], offsets: NDArray[np.int64]) -> Vectors:
        """One row of a sparse matrix for each text, times the matrix."""
        from scipy.sparse import csr_array

        if self.weights is None:
            weights = np.ones(len(numbers), np.float32)
        else:
            weights = self.weights[numbers]
        shape = (len(offsets) - 1, len(self.matrix))
        held = csr_array((weights, numbers, offsets.astype(np.int32)), shape=shape)
        product: Vectors = held @ self.matrix
        return product


def _norms(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.sqrt(
        np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64, casting="same_kind")
    )
    return norms
