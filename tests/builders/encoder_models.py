"""Small SavedModels that make vectors of texts, in every shape that a user may have one in.

``build(name, folder)`` saves one; how it is called by TensorFlow itself is for the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tests.builders.tensorflow_models import filled, quiet, static

tf1 = tf.compat.v1

Tensor: TypeAlias = Any  # TensorFlow and Keras carry no types

WORDS = ("<UNK>", "the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog")
DIM = 6
TEXT = tf.TensorSpec([None], tf.string, "texts")


def weights(rows: int = len(WORDS), columns: int = DIM, seed: int = 0) -> Tensor:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


class Mean(tf.Module):  # type: ignore[misc] # TensorFlow carries no types
    """Means of the vectors of a text's words, then two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = static(filled(WORDS), 0)
        self.vectors = tf.Variable(weights())
        self.first = tf.Variable(weights(DIM, 32, 1))
        self.second = tf.Variable(weights(32, DIM, 2))

    def embed(self, texts: Tensor) -> Tensor:
        """Vectors of shape (n, DIM) for texts of shape (n,)."""
        words = tf.strings.split(tf.strings.lower(texts))
        ids = tf.RaggedTensor.from_row_splits(self.table.lookup(words.values), words.row_splits)
        return self.dense(
            tf.math.divide_no_nan(
                tf.reduce_sum(tf.gather(self.vectors, ids), 1),
                tf.cast(words.row_lengths(), tf.float32)[:, None],
            )
        )

    def dense(self, means: Tensor) -> Tensor:
        return tf.nn.relu(means @ self.first) @ self.second


def function(call: Callable[..., Tensor], *specs: Tensor) -> Tensor:
    """A TensorFlow function of inputs that are given."""
    return tf.function(call, input_signature=list(specs), autograph=False)


def save(folder: Path, module: Tensor, **signatures: Tensor) -> None:
    """Save a module, which keeps its functions."""
    for name, each in signatures.items():
        setattr(module, f"kept_{name}", each)
    tf.saved_model.save(module, str(folder), signatures=signatures or None)


def serve(folder: Path, module: Tensor, call: Callable[..., Tensor], *specs: Tensor) -> None:
    """Save a module that serves one function, of texts if nothing else is said."""
    save(folder, module, serving_default=function(call, *(specs or (TEXT,))))


def called(folder: Path) -> None:
    """``__call__`` only, with an argument that is no tensor; traced for training first."""

    class Called(Mean):
        @tf.function(autograph=False)  # type: ignore[untyped-decorator] # the same
        def __call__(self, texts: Tensor, training: bool = False) -> Tensor:
            found = self.embed(texts)
            return found + 1000.0 if training else found

    module = Called()
    for training in (True, False):
        module.__call__.get_concrete_function(TEXT, training=training)
    save(folder, module)


def serving(folder: Path, *, given: Tensor = TEXT, **more: Callable[[Tensor], Tensor]) -> None:
    """A signature ``serving_default`` with the output ``vectors``, and others made of it."""
    module = Mean()

    def vectors(texts: Tensor) -> Tensor:
        found = module.embed(tf.reshape(texts, [-1]))
        return {"vectors": found, **{name: make(found) for name, make in more.items()}}

    serve(folder, module, vectors, given)


def output(change: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    """A model whose only output is something else than a float32 matrix."""

    def build(folder: Path) -> None:
        module = Mean()
        serve(folder, module, lambda texts: {"vectors": change(module.embed(texts))})

    return build


def shaped(*shape: int | None) -> Callable[[Path], None]:
    """A model whose texts come in another shape."""
    return lambda folder: serving(folder, given=tf.TensorSpec(shape, tf.string, "texts"))


def signatures(*names: str) -> Callable[[Path], None]:
    """Several signatures, each of other vectors: multiples of the first's."""

    def build(folder: Path) -> None:
        module = Mean()

        def scaled(factor: float) -> Tensor:
            return function(lambda texts: {"vectors": module.embed(texts) * factor}, TEXT)

        save(folder, module, **{name: scaled(i + 1.0) for i, name in enumerate(names)})

    return build


def tf1_graph(
    folder: Path, *, name: str = "serving_default", tags: tuple[str, ...] = ("serve",)
) -> None:
    """A graph of TensorFlow 1 with a session; a hub module has the signature ``default``."""
    with tf.Graph().as_default(), tf1.Session() as session:
        texts = tf1.placeholder(tf.string, [None], "texts")
        table = static(filled(WORDS), 0)
        words = tf1.strings.split(texts, result_type="SparseTensor")
        ids = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
        vectors = tf1.get_variable("vectors", initializer=weights())
        found = tf.nn.safe_embedding_lookup_sparse(vectors, ids, combiner="mean")
        fill = tf1.tables_initializer()
        session.run([tf1.global_variables_initializer(), fill])
        signature = tf1.saved_model.predict_signature_def({"text": texts}, {"default": found})
        builder = tf1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, list(tags), {name: signature}, main_op=fill)
        builder.save()


def keras(folder: Path) -> None:
    """TextVectorization, Embedding and the mean, as Keras exports them."""
    import keras as library

    layer = library.layers.TextVectorization(vocabulary=list(WORDS[1:]), output_sequence_length=12)
    given = library.Input(shape=(1,), dtype="string")
    found = library.layers.Embedding(len(WORDS) + 1, DIM)(layer(given))
    model = library.Model(given, library.layers.GlobalAveragePooling1D()(found))
    model.export(str(folder), verbose=False)


def two_inputs(folder: Path) -> None:
    module = Mean()
    specs = [tf.TensorSpec([None], tf.string, name) for name in ("question", "answer")]
    serve(folder, module, lambda a, b: {"vectors": module.embed(a) + module.embed(b)}, *specs)


def reading_files(folder: Path) -> None:
    """Reads a file whenever it is called: texts are names."""
    module = Mean()
    serve(folder, module, lambda t: {"vectors": module.embed(tf.map_fn(tf.io.read_file, t))})


def running_python(folder: Path) -> None:
    """Calls Python, which is not saved with it."""
    module = Mean()

    def vectors(texts: Tensor) -> Tensor:
        same = tf.ensure_shape(tf.numpy_function(lambda array: array, [texts], tf.string), [None])
        return {"vectors": module.embed(same)}

    serve(folder, module, vectors)


def numbers_looked_up(folder: Path) -> None:
    """Fails at every text that is no number; what is divided by 0 is no number."""
    module = tf.Module()
    module.table = table = static(filled(WORDS), 0)

    def vectors(texts: Tensor) -> Tensor:
        number = tf.strings.to_number(texts)[:, None]
        known = tf.cast(table.lookup(texts), tf.float32)[:, None]
        return {"vectors": tf.concat([number, known + 0.0 * number / number], 1)}

    serve(folder, module, vectors)


def padded(folder: Path) -> None:
    """Words in a matrix with empty strings at the ends of rows: shapes tell whose they are."""
    module = Mean()

    def vectors(texts: Tensor) -> Tensor:
        words = tf.strings.split(tf.strings.lower(texts)).to_tensor("")
        held = tf.cast(words != "", tf.float32)[..., None]
        summed = tf.reduce_sum(tf.gather(module.vectors, module.table.lookup(words)) * held, 1)
        return {"vectors": module.dense(tf.math.divide_no_nan(summed, tf.reduce_sum(held, 1)))}

    serve(folder, module, vectors)


def by_hash(folder: Path) -> None:
    """No table: words are hashed, so nothing is known or unknown."""
    module = Mean()
    module.table = None

    def vectors(texts: Tensor) -> Tensor:
        buckets = tf.strings.to_hash_bucket_fast(tf.strings.split(texts), len(WORDS))
        return {"vectors": tf.reduce_sum(tf.gather(module.vectors, buckets), 1)}

    serve(folder, module, vectors)


BUILDERS: dict[str, Callable[[Path], None]] = {
    "called": called,
    "serving": serving,
    "two_signatures": signatures("first", "second"),
    "one_signature": signatures("embed"),
    "two_outputs": lambda folder: serving(folder, twice=lambda found: found * 2),
    "default_output": lambda folder: serving(folder, default=lambda found: found * 2),
    "with_scores": lambda folder: serving(folder, scores=lambda found: found[:, 0]),
    "columns": shaped(None, 1),
    "cubes": shaped(None, None, None),
    "scalar": shaped(),
    "single": shaped(1),
    "batch_of_4": shaped(4),
    "tf1_graph": tf1_graph,
    "hub_module": lambda folder: tf1_graph(folder, name="default", tags=()),
    "keras": keras,
    "float64": output(lambda found: tf.cast(found, tf.float64)),
    "bfloat16": output(lambda found: tf.cast(found, tf.bfloat16)),
    "rank_3": output(lambda found: found[:, None]),
    "ragged": output(tf.RaggedTensor.from_tensor),
    "one_row": output(lambda found: tf.reduce_mean(found, 0, keepdims=True)),
    "two_inputs": two_inputs,
    "reading_files": reading_files,
    "running_python": running_python,
    "numbers_looked_up": numbers_looked_up,
    "padded": padded,
    "by_hash": by_hash,
}


def build(name: str, folder: Path) -> Path:
    """Save one of :data:`BUILDERS` in a folder."""
    with quiet():
        BUILDERS[name](folder)
    return folder


def direct(folder: Path, texts: Tensor, signature: str = "serving_default") -> Any:
    """What TensorFlow gives when it is called: the outputs by name, as arrays."""
    with loaded(folder) as model:
        call = model.signatures[signature]
        (key,) = call.structured_input_signature[1]
        return {name: part.numpy() for name, part in call(**{key: texts}).items()}


@contextmanager
def loaded(folder: Path) -> Iterator[Any]:
    """A model in TensorFlow, alive as long as the block."""
    with quiet():
        yield tf.saved_model.load(str(folder))
