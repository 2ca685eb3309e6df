"""Vectors that come with a file of queries: ``.npy`` (a matrix) or ``.npz`` (its ``queries``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, reading

ARRAY: Final = "queries"  # in an npz file; the only array will do, too


def read_query_vectors(path: str | Path) -> NDArray[Any]:
    """A matrix of floating point numbers, a row for each query in the order of their file.

    Nothing is unpickled. Raises :class:`InvalidFile` for what is no such file, :class:`NotFound`.
    """
    with reading(str(path)), Path(path).open("rb") as file:
        try:
            matrix = _matrix(file)
        except (ValueError, EOFError, BadZipFile) as error:  # what numpy raises for damaged files
            raise InvalidFile(f"not a .npy or .npz file of vectors: {error}") from error
        if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
            got = f"{matrix.dtype}, shape {matrix.shape}"
            raise InvalidFile(f"wanted a matrix of floating point numbers, got {got}")
        return matrix


def _matrix(file: BinaryIO) -> NDArray[Any]:
    loaded = np.load(file, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        name = ARRAY if ARRAY in loaded.files else "".join(loaded.files[:2])
        if name not in loaded.files:
            raise ValueError(f"wanted an array {ARRAY!r}, got {', '.join(loaded.files) or 'none'}")
        found: NDArray[Any] = loaded[name]
        return found
