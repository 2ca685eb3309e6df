"""What near means: three metrics, with one meaning of score. Higher is better.

Also what a vector must be to be stored. How the nearest are found is in ``exact.py`` and
``fast_scan.py``.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.system.ranked import Scores

Metric = Literal["cosine", "inner-product", "l2"]
StoredType = Literal["float16", "float32"]

LONGEST: Final = 1e18  # so that the product of two vectors stays far below float32's largest number


def prepared(vectors: NDArray[Any], metric: Metric) -> Vectors:
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
        _refuse(lengths > LONGEST, f"is longer than {LONGEST:g}")
    return np.ascontiguousarray(exact, np.float32)


def prepared_query(vector: NDArray[Any], metric: Metric) -> Vectors:
    """One vector of shape (dim,) as :func:`prepared` makes it, in a third of the time."""
    exact = np.asarray(vector, np.float64)
    length = math.sqrt(exact @ exact)
    if not math.isfinite(length) or (metric != "cosine" and length > LONGEST):
        prepared(exact[np.newaxis], metric)  # which says what is wrong
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
