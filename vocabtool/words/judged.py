"""Which words of some texts a model knows: the answer that reports and masks are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


class Judged(NamedTuple):
    """The words of ``n`` texts, m altogether, of which d are told apart.

    ``codes``: int32, shape (m,), for each word its place in ``distinct``.
    ``offsets``: int64, shape (n + 1,); the words of text ``i`` are
    ``codes[offsets[i]:offsets[i + 1]]``.
    ``distinct``: Arrow ``string`` array of length d, what the model looks up, perhaps not UTF-8.
    ``known``: bool, shape (d,), whether the model knows the word.
    ``ids``: int64, shape (d,), the id that it gets, -1 where nothing tells (a hash bucket).
    ``positions``: int64, shape (d,), where in the vocabulary's ``stored`` it stands, -1: nowhere.
    ``pieces``: int32, shape (d,), how many pieces a subword model makes of it; ``None`` for a
    model of whole words.
    ``unique``: whether it is certain that no two of ``distinct`` are equal.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    distinct: pa.StringArray
    known: NDArray[np.bool_]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    pieces: NDArray[np.int32] | None = None
    unique: bool = False
