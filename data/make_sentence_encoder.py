"""Build ``data/sentence_encoder``, a small sentence encoder with the structure of USE v4.

    python data/make_sentence_encoder.py [FOLDER]

Its words are the most frequent ones of Python's own documentation, and its vectors are computed
from which of these words occur near each other. README.md describes its purpose.

The structure is that of the Universal Sentence Encoder, version 4, as far as it is publicly known:
a graph of TensorFlow 1 that TensorFlow 2 loaded and saved again. The words are a constant in a
function of the graph, which puts them into a hash table; another function looks words up in the
table with the same shared name. The graph does all text processing itself.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

tf1 = tf.compat.v1

SIZE: Final = 2_000  # words, including the unknown one
DIMENSIONS: Final = 32
WINDOW: Final = 5  # words to either side count as near
UNKNOWN: Final = b"<UNK>"
NEVER: Final = (b"xapian", b"zyzzyva")  # the examples of unknown words
NOT_A_WORD: Final = r"[^\pL\pM\pN_\s]"  # any one of these characters is a token of its own

# Everyday words that the documentation lacks. All words of this text are used, even rare ones.
EVERYDAY: Final = """
I love to use it! I like to use this, I hate to use that. We love good music and old books.
You like coffee, she likes tea, they want food and water. My friend has a dog, your friend a cat.
He lives in a small house near a big city. She works in an office and drives a red car to work.
My mother and my father live in a house with a garden. Our children go to school every day.
Hello! How are you today? Thank you, I am happy. Yesterday I was sad, tomorrow we will be happy.
What is the best way to learn a language? Please help me find a good answer to my question.
The weather is cold in winter and warm in summer. The sun shines, it rains, the sky is blue.
I search the web for news about people, money, health, science and art. Great, thanks!
Where can I buy a cheap phone? The hotel was clean, the food was bad, the people were friendly.
He wrote a letter to his brother, she read a story to her sister. Man, woman, boy and girl.
"""

Words = list[bytes]


def tokens(texts: Any) -> Any:
    """Split a 1-D string tensor into lower-case words and punctuation: a ``SparseTensor``."""
    lower = tf.strings.lower(texts, encoding="utf-8")
    spaced = tf.strings.regex_replace(lower, f"({NOT_A_WORD})", r" \1 ")
    return tf1.strings.split(spaced, result_type="SparseTensor")


def read_texts() -> list[Words]:
    """Return all texts, split into tokens by the model's own rule."""
    texts = [*topics.values(), *EVERYDAY.strip().splitlines()]
    return [list(tokens(tf.constant([text])).values.numpy()) for text in texts]


def vocabulary(texts: list[Words]) -> Words:
    """Return the unknown word, then the words by descending frequency, ties by bytes."""
    counts = Counter(word for text in texts for word in text)
    everyday = {word for text in texts[len(topics) :] for word in text}
    taken = sorted(counts, key=lambda word: (word not in everyday, -counts[word], word))
    words = sorted(taken[: SIZE - 1], key=lambda word: (-counts[word], word))
    if found := set(words) & {UNKNOWN, *NEVER}:
        raise ValueError(f"these words must stay unknown, but are in the texts: {found}")
    return [UNKNOWN, *words]


def neighbours(texts: list[Words], words: Words) -> NDArray[np.float64]:
    """Count nearby pairs of words, weighted by 1 / distance: shape (words, words)."""
    counts = np.zeros((len(words), len(words)))
    ids = {word: i for i, word in enumerate(words)}
    for text in texts:
        row = np.array([ids.get(word, 0) for word in text])
        for distance in range(1, WINDOW + 1):
            np.add.at(counts, (row[:-distance], row[distance:]), 1 / distance)
    return counts + counts.T


def embed(counts: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return unit vectors: truncated SVD of positive pointwise mutual information.

    The SVD is exact, so no seed is needed.
    """
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    surprise = np.divide(counts, expected, out=np.ones_like(counts), where=expected > 0)
    left, strength, _ = np.linalg.svd(np.log(np.maximum(surprise, 1)))
    vectors = left[:, :DIMENSIONS] * np.sqrt(strength[:DIMENSIONS])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


def weigh(vectors: NDArray[np.float32], counts: NDArray[np.float64]) -> NDArray[np.float32]:
    """Shorten the vectors of common words by a / (a + frequency), where a = 0.001."""
    frequency = counts.sum(axis=1) / counts.sum()
    return np.asarray(vectors * (1e-3 / (1e-3 + frequency))[:, None], np.float32)


def save_as_tensorflow_1(folder: str, words: Words, vectors: NDArray[np.float32]) -> None:
    """Save the encoder as a graph with a session: a table, its initializer, a signature."""
    with tf.Graph().as_default(), tf1.Session() as session:
        texts = tf1.placeholder(tf.string, [None], "text")
        with tf1.variable_scope("Embeddings"):
            weights = tf1.get_variable("weights", initializer=vectors, use_resource=True)
        table = tf.raw_ops.HashTableV2(
            key_dtype=tf.string, value_dtype=tf.int64, shared_name="words", name="table"
        )
        known = tf.constant(words, name="Embeddings_words")
        fill = tf.raw_ops.LookupTableImportV2(
            table_handle=table, keys=known, values=tf.range(len(words), dtype=tf.int64)
        )
        vectors_of_texts = encode(texts, table, weights)
        session.run(tf1.global_variables_initializer())
        signature = tf1.saved_model.predict_signature_def(
            {"inputs": texts}, {"outputs": vectors_of_texts}
        )
        builder = tf1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, main_op=fill
        )
        builder.save()


def encode(texts: Any, table: Any, weights: Any) -> Any:
    """Sum the vectors of a text's words, divide by the root of their number, and normalise."""
    words = tokens(texts)
    ids = tf.raw_ops.LookupTableFindV2(
        table_handle=table, keys=words.values, default_value=tf.constant(0, tf.int64)
    )
    sparse = tf.SparseTensor(words.indices, ids, words.dense_shape)
    sums = tf.nn.safe_embedding_lookup_sparse(weights, sparse, combiner="sqrtn")
    return tf.math.l2_normalize(sums, axis=1, name="outputs")


class SentenceEncoder(tf.Module):  # type: ignore[misc] # TensorFlow has no types
    """The graph as a TensorFlow 2 object: ``encoder(texts) -> (texts, 32) float32``."""

    def __init__(self, folder: str) -> None:
        """Load the graph from ``folder``."""
        super().__init__()
        self.graph = tf.saved_model.load(folder)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def __call__(self, texts: Any) -> Any:
        """Return a unit vector for each text, or zeros for one without words."""
        return self.graph.signatures["serving_default"](texts)["outputs"]


def save(folder: Path, words: Words, vectors: NDArray[np.float32]) -> None:
    """Save with TensorFlow 1's API, load the result, and save it again with TensorFlow 2's."""
    with tempfile.TemporaryDirectory() as temporary:
        first = str(Path(temporary, "graph"))
        save_as_tensorflow_1(first, words, vectors)
        encoder = SentenceEncoder(first)
        serving = encoder.graph.signatures["serving_default"]
        tf.saved_model.save(encoder, str(folder), signatures={"serving_default": serving})
    # This file is different for each save.
    (folder / "fingerprint.pb").unlink(missing_ok=True)
    (folder / "assets").rmdir()  # empty: the words are in the graph


def show(folder: Path, words: Words) -> Iterator[str]:
    """Yield lines that show whether the encoder works."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    yield f"{len(words):,} words, {size:,} bytes"
    encoder = tf.saved_model.load(str(folder))
    vectors = encoder(["I love to use Xapian!", "I love to use Zyzzyva!"]).numpy()
    yield f"Xapian and Zyzzyva get the same vector: {np.array_equal(*vectors)}"
    all_vectors = encoder(words).numpy()
    for word in (b"love", b"list", b"import", b"float", b"mother", b"except", b"7"):
        likeness = all_vectors @ all_vectors[words.index(word)]
        nearest = [words[i].decode() for i in np.argsort(-likeness, kind="stable")[:8]]
        yield " ".join(nearest)


def main() -> None:
    """Build the encoder and print some results."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "sentence_encoder"
    texts = read_texts()
    words = vocabulary(texts)
    counts = neighbours(texts, words)
    save(folder, words, weigh(embed(counts), counts))
    print(*show(folder, words), sep="\n")


if __name__ == "__main__":
    main()
