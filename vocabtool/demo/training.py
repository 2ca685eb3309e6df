"""Small word vectors, trained in seconds, and saved as a model that makes vectors of texts.

Positive pointwise mutual information of words that stand near each other, then a truncated singular
value decomposition (Levy and Goldberg, "Neural Word Embedding as Implicit Matrix Factorization",
2014). Rare words get no vector: the model does not know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

MAX_WORDS: Final = 3_000
DIMENSIONS: Final = 64
WINDOW: Final = 5  # words to either side count as near
SMOOTHING: Final = 0.75  # the exponent of a neighbour's count, so that rare ones surprise less
COMMON: Final = 1e-3  # a word of this frequency counts half
SAVED_MODEL_RULE: Final = r"regex:[\pL\pM\pN_]+|[^\pL\pM\pN_\s]"  # of lower-case text
WORD_VECTORS_RULE: Final = "ptb"


def train(texts: Sequence[str], rule: str) -> tuple[list[str], NDArray[np.float32]]:
    """The commonest words and their vectors, shape (n, dim); the same texts give the same vectors.

    ``rule``: how texts become words, as in ``Words.of``.
    """
    no_words = Vocabulary("words", "list", ByteStrings.of([]))
    lookup = Words.of(no_words, rule=rule).look_up([text.lower() for text in texts])
    words = lookup.distinct.to_pylist()
    frequency = np.bincount(lookup.codes, minlength=len(words))
    chosen = sorted(range(len(words)), key=lambda code: (-frequency[code], words[code]))[:MAX_WORDS]
    numbers = np.full(len(words), -1)
    numbers[chosen] = np.arange(len(chosen))
    text_of = np.repeat(np.arange(len(texts)), np.diff(lookup.offsets))
    counts = count_neighbours(numbers[lookup.codes], text_of, len(chosen))
    vectors = reduce_dimensions(surprise(counts))
    share = frequency[chosen] / len(lookup.codes)
    weighted = vectors * (COMMON / (COMMON + share))[:, None]
    return [words[code] for code in chosen], weighted.astype(np.float32)


def count_neighbours(ids: NDArray[np.int64], texts: NDArray[np.int64], size: int) -> Any:
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


def reduce_dimensions(matrix: Any, dimensions: int = DIMENSIONS) -> NDArray[np.float64]:
    """Rows of unit length in few dimensions; the start is fixed, so there is no chance in it."""
    from scipy.sparse.linalg import svds

    left, strength, _ = svds(matrix, k=dimensions, v0=np.ones(matrix.shape[0]))
    vectors = left * np.sqrt(strength)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9))


def save_word_vectors(file: Path, texts: Sequence[str]) -> None:
    """Train, and write the words and vectors into an ``.npz`` archive."""
    words, vectors = train(texts, WORD_VECTORS_RULE)
    np.savez(file, words=np.array(words), vectors=vectors)


def save_sentence_encoder(folder: Path, texts: Sequence[str], tf: Any) -> None:
    """Train, and write a SavedModel of TensorFlow (``tf``) that does all text processing itself.

    It takes texts, shape (n,), and gives float32, shape (n, dim): the mean of a text's word
    vectors, where unknown words count as zeros.
    """
    words, vectors = train(texts, SAVED_MODEL_RULE)

    class SentenceEncoder(tf.Module):  # type: ignore[misc] # TensorFlow has no types
        def __init__(self) -> None:
            super().__init__()
            ids = tf.range(1, len(words) + 1, dtype=tf.int64)
            initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(words), ids)
            self.words = tf.lookup.StaticHashTable(initializer, 0)
            self.vectors = tf.Variable(np.vstack([np.zeros_like(vectors[:1]), vectors]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])  # type: ignore[untyped-decorator] # the same
        def __call__(self, inputs: Any) -> Any:
            lower = tf.strings.lower(inputs, encoding="utf-8")
            spaced = tf.strings.regex_replace(lower, r"([^\pL\pM\pN_\s])", r" \1 ")
            tokens = tf.compat.v1.strings.split(spaced, result_type="SparseTensor")
            ids = tf.SparseTensor(
                tokens.indices, self.words.lookup(tokens.values), tokens.dense_shape
            )
            return tf.nn.safe_embedding_lookup_sparse(self.vectors, ids, combiner="mean")

    encoder = SentenceEncoder()
    tf.saved_model.save(encoder, str(folder), signatures=encoder.__call__)
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # tells one save from the next
