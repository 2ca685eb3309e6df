"""What a model of strangers gave, made sure to be vectors: shape, type and finite numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError


def checked_vectors(found: Any, count: int, dim: int | None, of: str) -> Vectors:
    """``found`` as float32, shape (count, dim); ``dim`` may be any if it is ``None``.

    Numbers are integers or floats of any size. ``of``: names the model and the batch in messages.
    Raises :class:`VocabtoolError`.
    """
    array = _array(found, of)
    wanted = f"({count:,}, {'dim' if dim is None else format(dim, ',')})"
    if array.ndim != 2 or len(array) != count or dim not in (None, array.shape[1]):
        raise VocabtoolError(f"{of}: wanted an array of shape {wanted}, got {array.shape}")
    if array.dtype.kind not in "fiu" or not array.shape[1]:
        raise VocabtoolError(f"{of}: wanted numbers, got {array.dtype} of shape {array.shape}")
    with np.errstate(over="ignore"):  # beyond float32 lies infinity
        vectors: Vectors = np.ascontiguousarray(array, np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise VocabtoolError(
            f"{of}: row {bad[0]:,} holds NaN, infinity or a number too large for float32"
        )
    return vectors


def _array(found: Any, of: str) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        return np.asarray(found)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of unequal length; a GPU's tensor
        raise VocabtoolError(
            f"{of}: {type(found).__name__} is no array of numbers: {error}"
        ) from error
