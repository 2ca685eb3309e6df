"""Small real models, one per place where a vocabulary can hide, each with TensorFlow's account.

A builder saves a model and then asks TensorFlow, or the library that owns the format, what the
saved files hold: a truth is never the list that went in. How vocabtool reads the files is not
known here. Not built: ``saved_model.cpb`` (TensorFlow's Python refuses to write it), and hub's
TF1 exporter (it does not run today), whose result is written by hand instead.
"""

from __future__ import annotations

import functools
import importlib
import io
import logging
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.ops import lookup_ops
from tensorflow.python.saved_model import loader_impl

tf1 = tf.compat.v1

Tensor: TypeAlias = Any  # TensorFlow and Keras carry no types
Library: TypeAlias = Any  # tf_keras or keras: what is used here has the same names in both
Proto: TypeAlias = Any

LONG = "long" * 40  # its length takes two bytes as a varint
WORDS = (
    *("the", "quick", "naïve", "日本", "O'Neil", "a b", "line\nbreak", "", LONG),
    *("tab\there", " padded ", "cr\r", "\u2028", "👩\u200d🚀", "[UNK]"),
)
LINE_WORDS = ("the", "naïve", "日本", "O'Neil", "a b", "a\rb", "\x85", "\u2028", " padded ", LONG)
KERAS_WORDS = [word for word in WORDS if word not in ("", "[UNK]")]  # the layers add those
NUMBERS = (12, 1138, 42, -7, 0, 2**40)
PIECES = (
    *("[PAD]", "[UNK]", "the", "great", "##est", "##ly", "they", "##'", "##re", "'"),
    *("re", "naïve", "日", "##", "quick", "!", LONG[:90]),
)
UNSEEN = tuple(f"unseen{number}" for number in range(64))  # enough to meet every bucket
UNSEEN_NUMBERS = tuple(range(10**6, 10**6 + 64))
SERVE = ("serve",)
TABLE_OPS = ("HashTableV2", "MutableHashTableV2", "MutableDenseHashTableV2")


@dataclass(frozen=True, slots=True)
class Truth:
    """One vocabulary that must be found in a model.

    ``entries``: as stored, in id order; where ids are equal, in the order of the constant.
    ``ids``: ``None`` where TensorFlow gives none (a bare constant, a variable, an asset).
    ``unknown``: first id and number of ids of words that the vocabulary does not hold, observed
    by looking such words up; ``None`` where nothing can be looked up by word.
    ``specials``: what Keras adds to the stored entries, with their ids.
    ``get_vocabulary``: what that method of the Keras layer answers, specials and entries together.
    ``name``: what its maker called it, an attribute's path, a layer or a file; ``None``: not told.
    ``places``: how many times the model's files hold it, ``None`` where the builder cannot say.
    """

    entries: tuple[bytes, ...]
    ids: tuple[int, ...] | None
    kind: str
    unknown: tuple[int, int] | None
    specials: tuple[tuple[int, str], ...] = ()
    get_vocabulary: tuple[str | int, ...] | None = None
    name: str | None = None
    places: int | None = None


Builder: TypeAlias = Callable[[Path], tuple[Truth, ...]]


# Each saves a model at a path: a folder, or a file where the name has a suffix.
CASES: dict[str, Builder] = {}


def case(build: Builder) -> Builder:
    """Add a builder to ``CASES`` under its own name."""
    CASES[build.__name__] = build
    return build


def called(name: str | None, places: int | None = 1) -> Callable[[Callable[..., Any]], Any]:
    """Say what the one vocabulary of a model is called, and how many times it is in the files."""

    def decorate(build: Callable[..., tuple[Truth, ...]]) -> Callable[..., tuple[Truth, ...]]:
        @functools.wraps(build)
        def named(path: Path, **options: Any) -> tuple[Truth, ...]:
            truths = build(path, **options)
            return tuple(replace(truth, name=name, places=places) for truth in truths)

        return named

    return decorate


def build_all(folder: Path, names: Iterable[str]) -> dict[str, tuple[Path, tuple[Truth, ...]]]:
    """Build the cases of these names below ``folder``: path and truths per name."""
    with quiet():
        return {name: (folder / name, CASES[name](folder / name)) for name in names}


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, and no log below errors, from TensorFlow and Keras."""
    loggers = [logging.getLogger(name) for name in ("tensorflow", "absl")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# What TensorFlow says.


@dataclass(frozen=True, slots=True)
class Running:
    """A saved model, loaded into a session of its own, and its serving signature."""

    session: Any
    signature: Any

    def __call__(self, inputs: Sequence[object] | None = None) -> NDArray[Any]:
        """What the model answers, one item per input; without inputs, to things it never saw."""
        (answers,) = self.outputs(inputs).values()
        return answers

    def outputs(self, inputs: Sequence[object] | None = None) -> dict[str, NDArray[Any]]:
        """The same for a model of several outputs, by their names."""
        (fed,) = self.signature.inputs.values()
        text = fed.dtype == tf.string.as_datatype_enum
        if inputs is None:
            inputs = UNSEEN if text else UNSEEN_NUMBERS
        array = np.array(inputs, object if text else np.int64)
        array = array.reshape([-1] + [1] * (len(fed.tensor_shape.dim) - 1))
        fetched = {name: output.name for name, output in self.signature.outputs.items()}
        answers = self.session.run(fetched, {fed.name: array})
        return {name: np.asarray(answer) for name, answer in answers.items()}

    def unknown(self) -> tuple[int, int] | None:
        """First id and number of ids that stand for what the model never saw."""
        answers = self()
        if answers.dtype == object:  # words come out: an inverse table
            return None
        several = answers.ndim == 2 and answers.shape[1] > 1  # multi-hot
        return span(answers.argmax(-1) if several else answers)

    def answering(self, keys: NDArray[Any], values: NDArray[Any]) -> str:
        """The output that looks words up in the table of those keys and values."""
        answers = self.outputs(keys.tolist()).items()
        (name,) = [name for name, found in answers if np.array_equal(found.ravel(), values)]
        return name

    def tables(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Keys and values of every lookup table that is not empty, as the table exports them."""
        exports = [export(operation) for operation in self.session.graph.get_operations()]
        filled = [self.session.run(pair) for pair in exports if pair is not None]
        return [(keys, values) for keys, values in filled if len(keys)]


def export(operation: Tensor) -> tuple[Tensor, Tensor] | None:
    """The tensors that export a table made by ``operation``, in its own graph."""
    if operation.type not in TABLE_OPS:
        return None
    types = (operation.get_attr("key_dtype"), operation.get_attr("value_dtype"))
    exported = tf.raw_ops.LookupTableExportV2(
        table_handle=operation.outputs[0], Tkeys=types[0], Tvalues=types[1]
    )
    return exported.keys, exported.values


@contextmanager
def running(model: Path, tags: Sequence[str] = SERVE) -> Iterator[Running]:
    """Load a SavedModel, of TF1 or TF2, with its tables filled."""
    with tf.Graph().as_default(), tf1.Session() as session:
        meta_graph = tf1.saved_model.load(session, list(tags), str(model))
        yield Running(session, meta_graph.signature_def["serving_default"])


def span(answers: NDArray[Any]) -> tuple[int, int]:
    """The smallest id and how many there are; they must follow each other."""
    ids = np.unique(answers)
    assert ids[-1] - ids[0] == len(ids) - 1
    return int(ids[0]), len(ids)


def raw(value: object) -> bytes:
    """A key of a table as bytes; integers in decimal."""
    return value if isinstance(value, bytes) else str(value).encode()


def listed(keys: NDArray[Any], values: NDArray[Any], unknown: tuple[int, int] | None) -> Truth:
    """An exported table in id order; a table from integers to words is read backwards."""
    if values.dtype == object:
        keys, values = values, keys
    order = np.argsort(values, kind="stable")
    entries = tuple(map(raw, keys[order].tolist()))
    return Truth(entries, tuple(values[order].tolist()), "table", unknown)


def tables(model: Path, tags: Sequence[str] = SERVE) -> tuple[Truth, ...]:
    """Every different table of a SavedModel; the unknown is the serving signature's."""
    with running(model, tags) as loaded:
        unknown, exported = loaded.unknown(), loaded.tables()
    assert exported, "the graph itself makes no table"
    return tuple(dict.fromkeys(listed(*pair, unknown) for pair in exported))


def tables_by_output(model: Path) -> dict[str, Truth]:
    """Every table of a model with an output for each; the unknown is what that output says."""
    with running(model) as loaded:
        unseen = loaded.outputs()
        exported = {loaded.answering(*pair): pair for pair in loaded.tables()}
    assert set(exported) == set(unseen)
    return {name: listed(*pair, span(unseen[name])) for name, pair in exported.items()}


def as_stored(truth: Truth, stored: Iterable[bytes]) -> Truth:
    """A table in the order of its constant, with the repetitions that a table does not keep."""
    assert truth.ids is not None
    id_of = dict(zip(truth.entries, truth.ids, strict=True))
    entries = tuple(sorted(stored, key=id_of.__getitem__))
    return replace(truth, entries=entries, ids=tuple(map(id_of.__getitem__, entries)))


def nodes(model: Path) -> Iterator[Proto]:
    """Every node of a SavedModel's graphs and of their functions."""
    for meta_graph in loader_impl.parse_saved_model(str(model)).meta_graphs:
        yield from meta_graph.graph_def.node
        for function in meta_graph.graph_def.library.function:
            yield from function.node_def


def constant(model: Path, name: str) -> tuple[bytes, ...]:
    """The string constant of that name."""
    (tensor,) = [node.attr["value"].tensor for node in nodes(model) if node.name == name]
    return tuple(tf.make_ndarray(tensor).tolist())


def captured(model: Path) -> list[tuple[bytes, ...]]:
    """The string constants, of more than one entry, that functions of a TF2 model capture."""
    (meta_graph,) = loader_impl.parse_saved_model(str(model)).meta_graphs
    constants = [node for node in meta_graph.graph_def.node if node.op == "Const"]
    arrays = [tf.make_ndarray(node.attr["value"].tensor) for node in constants]
    return [tuple(a.tolist()) for a in arrays if a.dtype == object and a.size > 1]


def variable(model: Path) -> tuple[bytes, ...]:
    """The one string variable in a SavedModel's checkpoint."""
    checkpoint = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    types = checkpoint.get_variable_to_dtype_map()
    strings = [checkpoint.get_tensor(key) for key, dtype in types.items() if dtype == tf.string]
    (words,) = [array for array in strings if np.ndim(array)]  # the saved object graph is a scalar
    return tuple(words.tolist())


def bare(entries: tuple[bytes, ...], kind: str) -> tuple[Truth, ...]:
    """The only truth of a model that nothing can be looked up in."""
    return (Truth(entries, None, kind, None),)


# Saving.


def save(
    folder: Path, serve: Callable[[Tensor], Tensor], dtype: Tensor = tf.string, **tracked: object
) -> None:
    """Save a TF2 module that serves one function of a vector and tracks some objects.

    ``serve`` answers with a tensor, or with a dictionary of them.
    """
    module = tf.Module()
    for name, value in tracked.items():
        setattr(module, name, value)
    module.serve = function(serve, dtype)
    tf.saved_model.save(module, str(folder), signatures=module.serve)


def function(serve: Callable[[Tensor], Tensor], dtype: Tensor = tf.string) -> Tensor:
    """A TensorFlow function of one vector."""
    return tf.function(serve, input_signature=[tf.TensorSpec([None], dtype)], autograph=False)


def save_v1(
    folder: Path, serve: Callable[[Tensor], Tensor], *, tag_sets: Sequence[Sequence[str]] = (SERVE,)
) -> None:
    """Save a TF1 graph of one function of strings, once per set of tags."""
    with tf.Graph().as_default(), tf1.Session() as session:
        words = tf1.placeholder(tf.string, [None], "text")
        signature = tf1.saved_model.predict_signature_def({"text": words}, {"ids": serve(words)})
        fill = tf1.tables_initializer()
        session.run([tf1.global_variables_initializer(), fill])
        signatures = {"serving_default": signature}
        assets = tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS)
        builder = tf1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session, tag_sets[0], signatures, assets_collection=assets, main_op=fill
        )
        for tags in tag_sets[1:]:
            builder.add_meta_graph(tags, signatures)  # the collections are the graph's by now
        builder.save()


def rewrite(model: Path, change: Callable[[Proto], None]) -> None:
    """Change every vector of strings in the main graph of a SavedModel that is on disk."""
    file = model / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for node in saved.meta_graphs[0].graph_def.node:
        if node.op == "Const" and len(node.attr["value"].tensor.string_val) > 1:
            change(node.attr["value"].tensor)
    file.write_bytes(saved.SerializeToString())


@contextmanager
def text_file(content: str, name: str = "words.txt") -> Iterator[str]:
    """A file on "the training machine": it is gone once the model is built."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(content.encode())
        yield str(file)


def lines(words: Iterable[str], end: str = "\n") -> str:
    """One word per line."""
    return "".join(word + end for word in words)


def filled(
    keys: Sequence[object],
    values: Sequence[object] | None = None,
    key_dtype: Tensor = tf.string,
    value_dtype: Tensor = tf.int64,
) -> Tensor:
    """An initializer from constants; without values, keys get their positions."""
    values = range(len(keys)) if values is None else values
    return tf.lookup.KeyValueTensorInitializer(
        tf.constant(keys, key_dtype), tf.constant(list(values), value_dtype)
    )


def static(initializer: Tensor, default: object = -1) -> Tensor:
    """A static table."""
    return tf.lookup.StaticHashTable(initializer, default)


# TF1 graphs.


def serve_table_v1(words: Tensor, name: str = "words", **options: Any) -> Tensor:
    """Look words up in a TF1 table that is filled from a constant."""
    known = tf.constant(WORDS, name=name)
    return lookup_ops.index_table_from_tensor(known, **options).lookup(words)


def serve_equal_v1(words: Tensor) -> Tensor:
    """A constant that words are compared with; no table."""
    known = tf.constant(WORDS, name="words")
    return tf.argmax(tf.cast(tf.equal(words[:, None], known[None]), tf.int32), -1)


def serve_looked_up_v1(words: Tensor) -> Tensor:
    """Test words that the graph itself looks up are a constant of strings, and no vocabulary."""
    table = lookup_ops.index_table_from_tensor(tf.constant(WORDS, name="words"))
    tests = table.lookup(tf.constant([f"test {number}" for number in range(12)]))
    return table.lookup(words) + tf.reduce_min(tests) + 1  # a test word gets -1


def serve_variable_v1(words: Tensor) -> Tensor:
    """Compare words with a TF1 string variable, whose first value lies in the graph as well."""
    known = tf1.get_variable("known", initializer=tf.constant(WORDS), use_resource=True)
    return tf.cast(tf.equal(words[:, None], known[None]), tf.int32)


# What is served, what holds the words, and what it is called.
SERVED_V1: dict[str, tuple[Callable[[Tensor], Tensor], str, str]] = {
    # Keys are a constant, ids a ``Range``.
    "table": (serve_table_v1, "table", "words"),
    # The same with hash buckets for the unknown, or with an entry in their place; no name tells.
    "table_buckets": (
        functools.partial(serve_table_v1, name="Const", num_oov_buckets=3),
        *("table", "string_to_index"),
    ),
    "table_default": (
        functools.partial(serve_table_v1, name="Const", default_value=14),
        *("table", "string_to_index"),
    ),
    "looked_up": (serve_looked_up_v1, "table", "words"),
    "equal": (serve_equal_v1, "constant", "words"),
    "string_variable": (serve_variable_v1, "variable", "known"),
}


def save_served_v1(folder: Path, name: str) -> tuple[Truth, ...]:
    """A model of one of ``SERVED_V1``."""
    serve, kind, called_ = SERVED_V1[name]
    save_v1(folder, serve)
    if kind == "table":
        truths = tables(folder)
    else:
        truths = bare(variable(folder) if kind == "variable" else constant(folder, "words"), kind)
    return tuple(replace(truth, name=called_, places=1) for truth in truths)


for name in SERVED_V1:
    CASES[f"tf1_{name}"] = functools.partial(save_served_v1, name=name)


@case
@called("words.txt")
def tf1_table_file(folder: Path) -> tuple[Truth, ...]:
    """Only the collection ``saved_model_assets`` names the file in the model."""
    with text_file(lines(LINE_WORDS)) as file:
        table = functools.partial(lookup_ops.index_table_from_file, file, num_oov_buckets=2)
        save_v1(folder, lambda words: table().lookup(words))
    return tables(folder)


@case
@called("words", 2)
def tf1_tags(folder: Path) -> tuple[Truth, ...]:
    """Several MetaGraphDefs, each with a copy of the vocabulary."""
    save_v1(folder, serve_table_v1, tag_sets=(SERVE, ("serve", "gpu")))
    return tables(folder)


@called("words")
def tf1_frozen(file: Path) -> tuple[Truth, ...]:
    """A GraphDef on its own."""
    with tf.Graph().as_default() as graph:
        ids = serve_table_v1(tf1.placeholder(tf.string, [None], "text"))
        fill = tf1.tables_initializer()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(graph.as_graph_def().SerializeToString())
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf.import_graph_def(tf1.GraphDef.FromString(file.read_bytes()), name="")
        session.run(graph.get_operation_by_name(fill.name))
        unknown = span(session.run(ids.name, {"text:0": UNSEEN}))
        return tuple(listed(*pair, unknown) for pair in Running(session, None).tables())


CASES["tf1_frozen.pb"] = tf1_frozen


@case
@called("Embeddings_words")
def tf1_resaved(folder: Path) -> tuple[Truth, ...]:
    """A TF1 graph loaded and saved by TF2, as USE v4 was: everything is in a pruned function."""

    def serve(words: Tensor) -> Tensor:
        known = tf.constant(WORDS, name="Embeddings_words")
        ids = tf.range(len(WORDS), dtype=tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(known, ids)
        return tf.lookup.StaticVocabularyTable(initializer, 2).lookup(words)

    with tempfile.TemporaryDirectory() as first:
        save_v1(Path(first, "v1"), serve)
        inner = tf.saved_model.load(str(Path(first, "v1")))
        ask = inner.signatures["serving_default"]
        save(folder, lambda words: ask(words)["ids"], inner=inner)
    # Only functions can reach the table: its constant, and the ids that the model answers.
    stored = constant(folder, "Embeddings_words")
    with running(folder) as loaded:
        return (listed(np.array(stored, object), loaded(stored), loaded.unknown()),)


# TF2 modules.

# One table that is asked as it is: what makes it, and the type of what is looked up, if no text.
STATIC: dict[str, Callable[[], Tensor]] = {
    # Keys and ids are captured constants of the main graph.
    "static": lambda: static(filled(WORDS)),
    # Ids that begin at 7, stored backwards; the unknown is 3.
    "static_offset": lambda: static(filled(WORDS, range(6 + len(WORDS), 6, -1)), 3),
    # Ids of 32 bits.
    "static_int32": lambda: static(
        filled(WORDS, range(1, 1 + len(WORDS)), value_dtype=tf.int32), 0
    ),
    "static_buckets": lambda: tf.lookup.StaticVocabularyTable(filled(WORDS), 3),
    # Buckets begin at the number of entries, which is among the ids that entries have.
    "static_offset_buckets": lambda: tf.lookup.StaticVocabularyTable(
        filled(WORDS, range(5, 5 + len(WORDS))), 2
    ),
    "mutable": lambda: mutable(WORDS),  # keys and values are in the checkpoint, in hash order
    # The keys are integers, or the words are the values of a table from integers.
    "integers": lambda: static(filled(NUMBERS, key_dtype=tf.int64)),
    "inverse": lambda: static(
        filled(range(2, 2 + len(WORDS)), WORDS, tf.int64, tf.string), "[UNK]"
    ),
}


WHOLE_LINE, LINE_NUMBER = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
# Tables filled from a file: its content, and where in a line keys and values are, if not the whole
# line and its number.
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "file": (lines(LINE_WORDS), {}),
    # TensorFlow drops one carriage return before a line break, and no other.
    "file_crlf": (lines([*LINE_WORDS, "two\r"], "\r\n"), {}),
    "file_offset": (lines(LINE_WORDS), {"value_index_offset": 5}),
    # Entry in the third column, id in the first.
    "file_columns": (
        lines(f"{3 * n}|x|{word}|y" for n, word in reversed([*enumerate(LINE_WORDS)])),
        {"key": 2, "value": 0, "delimiter": "|"},
    ),
}


def mutable(words: Sequence[str], default: int = -1) -> Tensor:
    """A table that grows, with these words."""
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default)
    table.insert(tf.constant(words), tf.range(len(words), dtype=tf.int64))
    return table


@called("table")
def save_table(folder: Path, name: str) -> tuple[Truth, ...]:
    """A model of one of ``STATIC``."""
    table = STATIC[name]()
    save(folder, table.lookup, table.key_dtype, table=table)
    return tables(folder)


def save_file(folder: Path, content: str, key_type: Tensor, **options: Any) -> tuple[Truth, ...]:
    """A model with one table that is filled from a file."""
    value_type = tf.int64 if key_type == tf.string else tf.string
    with text_file(content) as file:
        initializer = tf.lookup.TextFileInitializer(
            *(file, key_type, options.pop("key", WHOLE_LINE)),
            *(value_type, options.pop("value", LINE_NUMBER)),
            **options,
        )
        table = static(initializer, -1 if key_type == tf.string else "[UNK]")
        save(folder, table.lookup, key_type, table=table)
    return tables(folder)


@called("table")
def save_file_table(folder: Path, name: str) -> tuple[Truth, ...]:
    """A model of one of ``FILES``."""
    content, options = FILES[name]
    return save_file(folder, content, tf.string, **options)


@case
@called("table")
def tf2_file_inverse(folder: Path) -> tuple[Truth, ...]:
    """From line number to word."""
    return save_file(folder, lines(LINE_WORDS), tf.int64, key=LINE_NUMBER, value=WHOLE_LINE)


for name in STATIC:
    CASES[f"tf2_{name}"] = functools.partial(save_table, name=name)
for name in FILES:
    CASES[f"tf2_{name}"] = functools.partial(save_file_table, name=name)


@case
@called("table")
def tf2_dense(folder: Path) -> tuple[Truth, ...]:
    """The checkpoint holds the empty buckets too, 131,072 in all."""
    free = ("<empty>", "<deleted>")
    table = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, *free)
    table.insert(tf.constant([*WORDS, "gone"]), tf.range(len(WORDS) + 1, dtype=tf.int64))
    table.remove(tf.constant(["gone"]))
    save(folder, table.lookup, table=table)
    size = int(table.size())
    with running(folder) as loaded:
        ((keys, values),) = loaded.tables()
        used = ~np.isin(keys.ravel(), [word.encode() for word in free])
        assert used.sum() == size
        return (listed(keys.ravel()[used], values.ravel()[used], loaded.unknown()),)


@case
@called(None, 2)
def tf2_forward_and_inverse(folder: Path) -> tuple[Truth, ...]:
    """The same words as keys of one table and values of another: one vocabulary, two places."""
    table = static(filled(WORDS))
    inverse = static(filled(range(len(WORDS)), WORDS, tf.int64, tf.string), "?")
    back = function(inverse.lookup, tf.int64)
    save(folder, table.lookup, table=table, inverse=inverse, back=back)
    return tables(folder)


@case
@called("known")
def tf2_string_variable(folder: Path) -> tuple[Truth, ...]:
    """A string variable."""
    known = tf.Variable(WORDS, trainable=False)
    save(folder, lambda words: tf.equal(words[:, None], known[None]), known=known)
    return bare(variable(folder), "variable")


@case
@called("lookup_table")
def tf2_lookup_table_attribute(folder: Path) -> tuple[Truth, ...]:
    """A table in an attribute that is called as in Keras' layers, and no Keras."""
    table = static(filled(WORDS, range(3, 3 + len(WORDS))), 1)
    save(folder, table.lookup, lookup_table=table)
    return tables(folder)


@case
def tf2_mutable_in_dict(folder: Path) -> tuple[Truth, ...]:
    """Tables in a dictionary, whose keys hold what separates the parts of a checkpoint's keys."""
    asked = {
        key: mutable([f"{key} {number}" for number in range(12)], default)
        for key, default in (("en.txt", -1), ("a/b", -2))
    }

    def serve(words: Tensor) -> Tensor:
        return {"english": asked["en.txt"].lookup(words), "other": asked["a/b"].lookup(words)}

    save(folder, serve, tables=asked)
    truths = tables_by_output(folder)
    english = replace(truths["english"], name="tables.en.txt", places=1)
    return english, replace(truths["other"], name="tables.a/b", places=1)


@case
@called("vocab.txt")
def tf2_asset(folder: Path) -> tuple[Truth, ...]:
    """A file of words that no table reads; without a CR, which a TextLineDataset drops anywhere."""
    words = [word for word in LINE_WORDS if "\r" not in word]
    with text_file(lines([*words, "more"]), "vocab.txt") as file:
        asset = tf.saved_model.Asset(file)
        save(folder, tf.strings.length, asset=asset)
    lines_read = tf.data.TextLineDataset(str(folder / "assets" / "vocab.txt"))
    return bare(tuple(line.numpy() for line in lines_read), "asset")


# Keras layers: the same for Keras 2 (tf_keras) and Keras 3.

KERAS_LINES = [word for word in LINE_WORDS if word == word.strip() and "\r" not in word]
OF_TEXT: dict[str, Any] = {"vocabulary": KERAS_WORDS, "name": "words"}
OF_NUMBERS: dict[str, Any] = {"vocabulary": list(NUMBERS), "name": "words"}
LAYERS: dict[str, Callable[[Library, str], Tensor]] = {
    "vectorization_adapted": lambda layers, _: adapted(layers.TextVectorization(name="words")),
    "vectorization_list": lambda layers, _: layers.TextVectorization(**OF_TEXT),
    "vectorization_multi_hot": lambda layers, _: layers.TextVectorization(
        **OF_TEXT, output_mode="multi_hot"
    ),
    "lookup_buckets": lambda layers, _: layers.StringLookup(
        **OF_TEXT, num_oov_indices=2, mask_token=""
    ),
    "lookup_inverse": lambda layers, _: layers.StringLookup(**OF_TEXT, invert=True),
    "lookup_oov_token": lambda layers, _: layers.StringLookup(
        vocabulary=list(WORDS), oov_token="<oov>", name="words"
    ),
    "lookup_integers": lambda layers, _: layers.IntegerLookup(**OF_NUMBERS),
    "lookup_integers_buckets": lambda layers, _: layers.IntegerLookup(
        **OF_NUMBERS, num_oov_indices=3, mask_token=99
    ),
    "lookup_file": lambda layers, file: layers.StringLookup(vocabulary=file, name="words"),
}


def adapted(layer: Tensor) -> Tensor:
    """A layer that learned its words from texts."""
    layer.adapt(tf.constant(["The quick brown fox, naïve.", "the lazy dog", "the quick 日本"]))
    return layer


def build_keras(version: int, layer_name: str, path: Path) -> tuple[Truth, ...]:
    """Save a model of one layer."""
    keras = importlib.import_module({2: "tf_keras", 3: "keras"}[version])
    numbers = layer_name in ("lookup_integers", "lookup_integers_buckets", "lookup_inverse")
    with text_file(lines(LINE_WORDS)) as file:
        layer = LAYERS[layer_name](keras.layers, file)
        given = keras.Input((1,), dtype="int64" if numbers else "string", name="text")
        model = keras.Model(given, layer(given))
        save_keras(version, model, path)
    truths = [with_specials(truth, layer) for truth in tables(path)]
    name = "words" if version == 2 else None  # Keras 3 numbers its scopes
    return tuple(replace(truth, name=name) for truth in truths)


def save_keras(version: int, model: Tensor, path: Path) -> None:
    """Save a SavedModel."""
    if version == 2:
        model.save(path, save_format="tf")
    else:
        model.export(path, verbose=False)


SHARED_INPUT: dict[str, dict[str, object]] = {
    "few": {"num_oov_indices": 3},
    "plain": {"num_oov_indices": 1},
    "masked": {"num_oov_indices": 2, "mask_token": ""},
    "spoken": {"num_oov_indices": 1, "mask_token": "<mask>"},
}


def build_shared_input(version: int, path: Path) -> tuple[Truth, ...]:
    """Several layers look up the same input; Keras 3 does not export another ``oov_token``."""
    keras = importlib.import_module({2: "tf_keras", 3: "keras"}[version])
    given = keras.Input((1,), dtype="string", name="text")
    layers = {}
    for size, (name, options) in enumerate(SHARED_INPUT.items(), 12):
        token = {"oov_token": "<oov>"} if (version, name) == (2, "spoken") else {}
        words = [f"{name} {number}" for number in range(size)]
        layers[name] = keras.layers.StringLookup(vocabulary=words, name=name, **options, **token)
    model = keras.Model(given, {name: layer(given) for name, layer in layers.items()})
    save_keras(version, model, path)
    truths = tables_by_output(path).items()
    named = [with_specials(truth, layers[name]) for name, truth in truths]
    names = [name if version == 2 else None for name, _ in truths]  # Keras 3 numbers its scopes
    return tuple(replace(truth, name=name) for truth, name in zip(named, names, strict=True))


def with_specials(truth: Truth, layer: Tensor) -> Truth:
    """A truth with what the layer adds to the table: all ids that the table does not hold."""
    # As Python's own types, not as NumPy's.
    words = layer.get_vocabulary()
    vocabulary = tuple(str(word) if isinstance(word, str) else int(word) for word in words)
    assert truth.ids is not None
    specials = tuple((i, str(word)) for i, word in enumerate(vocabulary) if i not in truth.ids)
    return replace(truth, specials=specials, get_vocabulary=vocabulary)


for version in (2, 3):
    for name in LAYERS:
        CASES[f"k{version}_{name}"] = functools.partial(build_keras, version, name)
    CASES[f"k{version}_shared_input"] = functools.partial(build_shared_input, version)


# Tokenizers of tensorflow-text.


@functools.cache
def sentencepiece_model() -> bytes:
    """A small unigram model, trained here."""
    import sentencepiece

    choose = random.Random(0)
    words = ("alpha", "beta", "gamma", "epsilon", "eta", "naïve", "日本語", "running", "walked")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(" ".join(choose.choices(words, k=8)) for _ in range(300)),
        model_writer=written,
        vocab_size=40,
        hard_vocab_limit=False,
        user_defined_symbols=["<sep>"],
        minloglevel=2,
    )
    return written.getvalue()


def save_tokenizer(folder: Path, tokenizer: Any, **tracked: object) -> tuple[int, int]:
    """Save a model that makes ids of texts; returns the id of a character that it cannot know."""
    tracked = {"tokenizer": tokenizer, **tracked}
    save(folder, lambda texts: tokenizer.tokenize(texts).flat_values, **tracked)
    with running(folder) as loaded:
        return int(loaded(["\N{SNOWMAN}"])[-1]), 1


@case
@called(None, 2)
def text_sentencepiece(folder: Path) -> tuple[Truth, ...]:
    """The model is an attribute of ``SentencepieceOp``, twice."""
    import sentencepiece

    make = tensorflow_text().SentencepieceTokenizer
    unknown = save_tokenizer(folder, make(sentencepiece_model(), out_type=tf.int32))
    owner = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model())
    ids = tuple(range(owner.get_piece_size()))
    entries = tuple(owner.id_to_piece(number).encode() for number in ids)
    return (Truth(entries, ids, "sentencepiece", unknown),)


def tensorflow_text() -> Any:
    """The library, imported on use: it registers its ops."""
    return importlib.import_module("tensorflow_text")


@case
@called("table")
def text_bert(folder: Path) -> tuple[Truth, ...]:
    """A table of pieces with one hash bucket, which the model itself never reaches."""
    table = tf.lookup.StaticVocabularyTable(filled(PIECES), 1)
    tokenizer = tensorflow_text().BertTokenizer(table, lower_case=True)
    unknown = save_tokenizer(folder, tokenizer, table=table)
    return tuple(replace(truth, unknown=unknown) for truth in tables(folder))


# Encodings of a string tensor.

BYTES = (
    *(b"\xff\xfe", b"", b"a\x00b", b"\x00", b"x\n", "é".encode(), "é".encode("latin-1"), b"\x80"),
    *(b"long\xff" * 40, b"last"),
)


def save_odd_table(
    folder: Path,
    entries: Sequence[Any],
    ids: Sequence[int],
    change: Callable[[Proto], None] = lambda tensor: None,
) -> tuple[Truth, ...]:
    """A table that holds an entry or an id several times, its constant changed on disk."""
    table = static(filled(entries, ids), 0)
    save(folder, table.lookup, table=table)
    rewrite(folder, change)
    (truth,) = tables(folder)
    return (replace(as_stored(truth, *captured(folder)), name="table", places=1),)


def save_constant(
    folder: Path, entries: Sequence[Any], change: Callable[[Proto], None] = lambda tensor: None
) -> tuple[Truth, ...]:
    """A constant that a function captures, changed on disk; no table."""
    known = tf.constant(entries)
    save(folder, lambda words: tf.equal(words[:, None], known[None]), known=known)
    rewrite(folder, change)
    (stored,) = captured(folder)
    return (replace(bare(stored, "constant")[0], places=1),)


def drop_repetitions(tensor: Proto) -> None:
    """Store the last of several equal last values once, as TensorFlow does at times."""
    while len(tensor.string_val) > 1 and tensor.string_val[-1] == tensor.string_val[-2]:
        del tensor.string_val[-1]


@case
@called("table")
def content_strings(folder: Path) -> tuple[Truth, ...]:
    """Strings in ``tensor_content``: TensorFlow reads it, its ``make_ndarray`` does not."""
    table = static(filled(WORDS))
    save(folder, table.lookup, table=table)
    rewrite(folder, move_to_content)
    return tables(folder)


def move_to_content(tensor: Proto) -> None:
    """Store strings as TensorFlow's C++ packs them: all lengths, then all bytes."""
    values = list(tensor.string_val)
    tensor.tensor_content = b"".join([*map(varint, map(len, values)), *values])
    del tensor.string_val[:]


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    high, low = divmod(number, 128)
    return bytes([low]) if not high else bytes([low | 128]) + varint(high)


SAME = [*WORDS, *["same"] * 4]  # of equal last entries one is stored
SAME_IDS = [*range(len(WORDS)), *[len(WORDS)] * 4]
ODD: dict[str, Builder] = {
    # Two entries share an id, others are left out, one is negative.
    "tf2_static_gaps": lambda path: save_odd_table(
        path, WORDS, [*range(20, 18 + len(WORDS)), 25, -1]
    ),
    # Entries in no encoding at all, and one twice with one id.
    "bytes_not_utf8": lambda path: save_odd_table(
        path, [*BYTES, b"\xff\xfe"], [*range(len(BYTES)), 0]
    ),
    "last_repeated": lambda path: save_odd_table(path, SAME, SAME_IDS, drop_repetitions),
    "tf2_constant": lambda path: save_constant(path, WORDS),
}
CASES |= ODD


# Models without a vocabulary.


FEATURES = {f"feature {number}": tf.io.VarLenFeature(tf.int64) for number in range(12)}
DENSE = {f"dense {number}": tf.io.FixedLenFeature([], tf.float32) for number in range(12)}


def assert_much(words: Tensor, *numbers: float) -> Tensor:
    """Check lengths, with a list of words and many messages to show; floats make a branch."""
    lengths = tf.strings.length(words)
    messages = [f"message {number}" for number in range(12)]
    shown = [tf.constant(messages), *messages, *numbers]
    with tf.control_dependencies([tf1.Assert(tf.reduce_all(lengths < 10**6), shown)]):
        return tf.identity(lengths)


NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    # The names of features to parse are a constant of strings.
    "features": lambda texts: tf.io.parse_example(texts, FEATURES | DENSE)["dense 0"],
    # The assertion is in a branch: the list goes through an ``If`` into another function.
    "messages_guarded": lambda words: assert_much(words, 0.5),
}


def save_nothing(folder: Path, name: str) -> tuple[Truth, ...]:
    """A model of one of ``NOTHING``."""
    save(folder, NOTHING[name])
    return ()


for name in NOTHING:
    CASES[f"none_{name}"] = functools.partial(save_nothing, name=name)


@case
def none_returned_names(folder: Path) -> tuple[Truth, ...]:
    """A function returns the list of names; only its caller saves and asserts with it."""
    names = tf.function(lambda: tf.constant([f"name {n}" for n in range(12)]), autograph=False)

    def serve(words: Tensor) -> Tensor:
        lengths = tf.strings.length(words)
        parts = {"tensor_names": names(), "shape_and_slices": [""] * 12, "tensors": [lengths] * 12}
        saved = tf.raw_ops.SaveV2(prefix="saved", **parts)
        shown = tf1.Assert(tf.reduce_all(lengths < 10**6), [names()])
        with tf.control_dependencies([saved, shown]):
            return tf.identity(lengths)

    save(folder, serve)
    return ()
