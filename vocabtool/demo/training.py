"""Small word vectors, trained in seconds: which words stand near which, in few dimensions.

Positive pointwise mutual information, then a truncated singular value decomposition (Levy and
Goldberg, "Neural Word Embedding as Implicit Matrix Factorization", 2014). Words that are rare get
no vector: the model that is made of these will not know them. How texts are cut into words, and
how a model is saved, is in ``sentence_encoder.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SIZE: Final = 3_000  # words, with the unknown one
DIMENSIONS: Final = 64
WINDOW: Final = 5  # words to either side count as near
SMOOTHING: Final = 0.75  # the exponent of a neighbour's count, so that rare ones surprise less
COMMON: Final = 1e-3  # a word of this frequency counts half
UNKNOWN: Final = b"<UNK>"


class TextWords(NamedTuple):
    """The words of texts, one after the other.

    ``words``: m of them, as the model looks them up; ``texts``: int64, shape (m,), ascending: the
    number of the text that each stands in.
    """

    words: list[bytes]
    texts: NDArray[np.int64]


class Trained(NamedTuple):
    """``words``: the unknown one, then the commonest; ``vectors``: float32, shape (words, dim).

    The unknown word's vector is zero: it adds nothing to the mean of a text.
    """

    words: list[bytes]
    vectors: NDArray[np.float32]


def train(text: TextWords, *, size: int = SIZE, dimensions: int = DIMENSIONS) -> Trained:
    """Vectors of the commonest words; the same texts give the same vectors."""
    frequency = Counter(text.words)
    words = sorted(frequency, key=lambda word: (-frequency[word], word))[: size - 1]
    numbers = {word: number for number, word in enumerate(words)}
    ids = np.array([numbers.get(word, -1) for word in text.words], np.int64)
    counts = neighbours(ids, text.texts, len(words))
    vectors = reduced(surprise(counts), dimensions)
    share = np.array([frequency[word] for word in words]) / len(text.words)
    weighted = vectors * (COMMON / (COMMON + share))[:, None]  # common words say less
    zero = np.zeros((1, dimensions))
    return Trained([UNKNOWN, *words], np.concatenate([zero, weighted]).astype(np.float32))


def neighbours(ids: NDArray[np.int64], texts: NDArray[np.int64], size: int) -> Any:
    """How often words are near each other, nearer ones counting more: sparse, (size, size)."""
    from scipy.sparse import coo_matrix

    total = coo_matrix((size, size), dtype=np.float64).tocsr()
    for distance in range(1, WINDOW + 1):
        left, right = ids[:-distance], ids[distance:]
        near = (left >= 0) & (right >= 0) & (texts[:-distance] == texts[distance:])
        ones = np.full(int(near.sum()), 1 / distance)
        total = total + coo_matrix((ones, (left[near], right[near])), (size, size)).tocsr()
    return total + total.T


def surprise(counts: Any) -> Any:
    """Positive pointwise mutual information of a sparse matrix of counts."""
    pairs = counts.tocoo()
    rows = np.asarray(counts.sum(axis=1)).ravel()
    columns = np.asarray(counts.sum(axis=0)).ravel() ** SMOOTHING
    expected = rows[pairs.row] * columns[pairs.col] / columns.sum()
    pairs.data = np.maximum(np.log(pairs.data / expected), 0)
    return pairs.tocsr()


def reduced(matrix: Any, dimensions: int) -> NDArray[np.float64]:
    """Rows of unit length in few dimensions; the start is fixed, so there is no chance in it."""
    from scipy.sparse.linalg import svds

    start = np.ones(matrix.shape[0])
    left, strength, _ = svds(matrix, k=dimensions, v0=start)
    vectors = left * np.sqrt(strength)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9))
