"""Which words of some texts a model knows: the answer that reports and masks are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


class Spelled(NamedTuple):
    """The pieces of d words, p altogether, as a model makes them where these words stand.

    ``pieces``: length p. ``known``: bool, shape (p,), false for what the model has no piece for.
    ``offsets``: int64, shape (d + 1,); the pieces of word ``i`` are
    ``pieces[offsets[i]:offsets[i + 1]]``.
    """

    pieces: list[bytes]
    known: NDArray[np.bool_]
    offsets: NDArray[np.int64]

    def of(self, word: int) -> list[tuple[bytes, bool]]:
        """The pieces of one word, and which are known."""
        start, end = self.offsets[word : word + 2].tolist()
        return list(zip(self.pieces[start:end], self.known[start:end].tolist(), strict=True))


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
    ``spelled``: the pieces of each of ``distinct``; ``None`` where nothing tells them.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    distinct: pa.StringArray
    known: NDArray[np.bool_]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    pieces: NDArray[np.int32] | None = None
    unique: bool = False
    spelled: Spelled | None = None


def without_blanks(judged: Judged) -> Judged:
    """Without the words of a model of pieces that are nothing but blanks: no word, to a reader."""
    import pyarrow.compute as pc

    if judged.pieces is None:
        return judged
    lengths = pc.binary_length(judged.distinct).to_numpy()
    trimmed = pc.binary_length(pc.ascii_trim(judged.distinct, " ")).to_numpy()
    kept = ((lengths == 0) | (trimmed > 0))[judged.codes]
    offsets = np.append(0, np.cumsum(kept))[judged.offsets]
    return judged._replace(codes=judged.codes[kept], offsets=offsets)
