"""A sentence encoder out of word vectors, saved as a SavedModel in the shape of USE version 4.

That shape, as far as it is publicly known: a graph of TensorFlow 1 that TensorFlow 2 loaded and
saved again. The words are a constant, ``Embeddings_words``, in a function of the library, where
they fill a hash table; another function looks words up in the table of that name. The graph does
all text processing itself. Where the vectors come from is in ``training.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from vocabtool.demo.training import TextWords, Trained
from vocabtool.tokenization.checked_model import import_tensorflow

NOT_A_WORD: Final = r"[^\pL\pM\pN_\s]"  # any one of these characters is a word of its own
AT_ONCE: Final = 1_000  # texts cut together
SIGNATURE: Final = "serving_default"


def cut(texts: Sequence[str]) -> TextWords:
    """The words of texts by the model's own rule.

    Raises :class:`UnsupportedFormat` where TensorFlow is not installed.
    """
    tf = import_tensorflow()
    words: list[bytes] = []
    numbers = []
    for start in range(0, len(texts), AT_ONCE):
        found = _words(tf, tf.constant(texts[start : start + AT_ONCE]))
        words += found.values.numpy().tolist()
        numbers.append(found.indices.numpy()[:, 0] + start)
    return TextWords(words, np.concatenate(numbers) if numbers else np.empty(0, np.int64))


def save(folder: Path, trained: Trained) -> None:
    """Write by TensorFlow 1's ways, load, and save again by TensorFlow 2's.

    What is saved takes texts, shape (n,), and gives float32, shape (n, dim): the mean of a text's
    word vectors, zeros for a text without a known word.
    """
    tf = import_tensorflow()
    with tempfile.TemporaryDirectory() as temporary:
        first = str(Path(temporary, "graph"))
        _save_as_tensorflow_1(tf, first, trained)
        encoder = _encoder(tf, first)
        signatures = {SIGNATURE: encoder.graph.signatures[SIGNATURE]}
        tf.saved_model.save(encoder, str(folder), signatures=signatures)
    # It tells one save from the next, so it would differ each time.
    (folder / "fingerprint.pb").unlink(missing_ok=True)


def _words(tf: Any, texts: Any) -> Any:
    """Cut a 1-D string tensor into lower-case words and punctuation: a ``SparseTensor``."""
    lower = tf.strings.lower(texts, encoding="utf-8")
    spaced = tf.strings.regex_replace(lower, f"({NOT_A_WORD})", r" \1 ")
    return tf.compat.v1.strings.split(spaced, result_type="SparseTensor")


def _save_as_tensorflow_1(tf: Any, folder: str, trained: Trained) -> None:
    """A graph with a session: a table's handle, its fill, a signature."""
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        texts = tf1.placeholder(tf.string, [None], "text")
        with tf1.variable_scope("Embeddings"):
            weights = tf1.get_variable("weights", initializer=trained.vectors, use_resource=True)
        table = tf.raw_ops.HashTableV2(
            key_dtype=tf.string, value_dtype=tf.int64, shared_name="words", name="table"
        )
        fill = tf.raw_ops.LookupTableImportV2(
            table_handle=table,
            keys=tf.constant(trained.words, name="Embeddings_words"),
            values=tf.range(len(trained.words), dtype=tf.int64),
        )
        vectors = _mean_vectors(tf, texts, table, weights)
        session.run(tf1.global_variables_initializer())
        signature = _signature(texts, vectors)
        builder = tf1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {SIGNATURE: signature}, main_op=fill
        )
        builder.save()


def _signature(texts: Any, vectors: Any) -> Any:
    """How to call the graph; as a message, since TensorFlow warns of its own ways to write one."""
    from tensorflow.core.protobuf import meta_graph_pb2

    def told(tensor: Any) -> Any:
        return meta_graph_pb2.TensorInfo(
            name=tensor.name,
            dtype=tensor.dtype.as_datatype_enum,
            tensor_shape=tensor.shape.as_proto(),
        )

    return meta_graph_pb2.SignatureDef(
        inputs={"inputs": told(texts)},
        outputs={"outputs": told(vectors)},
        method_name="tensorflow/serving/predict",
    )


def _mean_vectors(tf: Any, texts: Any, table: Any, weights: Any) -> Any:
    """The mean of the vectors of each text's words; unknown words are number 0, which is zeros."""
    words = _words(tf, texts)
    ids = tf.raw_ops.LookupTableFindV2(
        table_handle=table, keys=words.values, default_value=tf.constant(0, tf.int64)
    )
    sparse = tf.SparseTensor(words.indices, ids, words.dense_shape)
    means = tf.nn.safe_embedding_lookup_sparse(weights, sparse, combiner="mean")
    return tf.identity(means, name="outputs")


def _encoder(tf: Any, folder: str) -> Any:
    """What TensorFlow 2 makes of that graph: a module that is called with texts."""

    class SentenceEncoder(tf.Module):  # type: ignore[misc] # TensorFlow has no types
        def __init__(self) -> None:
            super().__init__()
            self.graph = tf.saved_model.load(folder)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])  # type: ignore[untyped-decorator] # TensorFlow has no types
        def __call__(self, texts: Any) -> Any:
            return self.graph.signatures[SIGNATURE](texts)["outputs"]

    return SentenceEncoder()
