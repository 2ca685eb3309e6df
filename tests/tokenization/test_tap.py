"""The tap says what a model looks up, and changes nothing: against TensorFlow run directly."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tensorflow", reason="what is tested runs TensorFlow")
pytest.importorskip("tensorflow_text", reason="some models hold tensorflow-text's tokenizers")
pytest.importorskip("tf_keras", reason="some models are built by Keras 2")

import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

from tests.builders import saved_model_bytes as b
from tests.builders.tensorflow_models import Tensor, filled, quiet, save, save_v1, static
from tests.builders.text_models import (
    AWKWARD,
    TEXT_CASES,
    VOCABULARY,
    TextTruth,
    spaced_words,
)
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat
from vocabtool.tokenization.exact_words import trace_by_word
from vocabtool.tokenization.instrumented_graph import OWN, instrument
from vocabtool.tokenization.instrumented_model import (
    BATCH_BYTES,
    BATCH_TEXTS,
    InstrumentedModel,
    _batches,
)
from vocabtool.tokenization.op_traces import OpTrace
from vocabtool.tokenization.text_arrays import Tokens, as_bytes

tf1 = tf.compat.v1

NAMES = [case.name for case in TEXT_CASES]
# One of each way in which keys arrive: flat, padded, in loops and branches, whole, as pieces.
KINDS = (
    *("nested", "padded", "mapped", "conditional", "branches_by_text", "branches_by_batch"),
    *("bigrams", "characters", "whole", "tf1", "tf1_resaved", "k2_embedded", "k3_embedded"),
    *("bert_lower", "fast_bert_lower", "sentencepiece", "fast_sentencepiece", "joined_with_itself"),
)
PIECES = ("bert_lower", "wordpiece", "fast_bert_lower", "fast_bert_cased", "fast_wordpiece")
CALM = tuple(text for text in AWKWARD if len(text) < 1000)

Built = Callable[[str], tuple[Path, TextTruth]]
Tapping = Callable[[str], InstrumentedModel]


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """TensorFlow and Keras warn about what they do themselves."""
    with quiet():
        yield


@pytest.fixture(scope="session")
def tapped(text_model: Built) -> Tapping:
    """Loads a model when it is first asked for."""
    loaded: dict[str, InstrumentedModel] = {}

    def load(name: str) -> InstrumentedModel:
        if name not in loaded:
            loaded[name] = InstrumentedModel.load(text_model(name)[0])
        return loaded[name]

    return load


def by_word(found: OpTrace) -> OpTrace:
    return found if found.pieces is None else trace_by_word(found, found.pieces)[0]


def words(found: OpTrace) -> list[list[bytes]]:
    return by_word(found).tokens.to_lists()


def rows(values: Any, cut: Tokens) -> list[list[Any]]:
    """Values that stand beside strings, text by text."""
    bounds = cut.offsets.tolist()
    return [values[i:j].tolist() for i, j in pairwise(bounds)]


def plainly(found: Sequence[OpTrace]) -> list[list[Any]]:
    """An answer as lists, text by text."""
    return [
        [words(each), rows(each.ids, each.tokens) if each.pieces is None else flat_ids(each)]
        for each in found
    ]


def flat_ids(found: OpTrace) -> list[list[int]]:
    """The ids of the pieces of each text."""
    assert found.pieces is not None
    assert found.ids is not None
    return rows(found.ids, Tokens(found.tokens.values, found.pieces.offsets[found.tokens.offsets]))


def finds(found: Sequence[OpTrace]) -> list[list[list[bytes]]]:
    return [words(each) for each in found]


def settled(found: OpTrace, ids: list[list[int]]) -> list[list[int]]:
    """The ids of a truth, where the lookup itself settles them.

    It says -1 for what a hash puts in a bucket later, and Keras masks the empty string by itself.
    """
    own = rows(found.ids, found.tokens)
    triples = [zip(*row, strict=True) for row in zip(own, ids, words(found), strict=True)]
    return [[id_ if id_ == -1 or not w else right for id_, right, w in row] for row in triples]


# What TensorFlow's own functions make of the texts.


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_words_are_those_that_tensorflow_makes(
    name: str, text_model: Built, tapped: Tapping
) -> None:
    """On awkward texts, all at once: the words and the ids of every lookup."""
    truth = text_model(name)[1]
    texts = truth.accepted()
    found = tapped(name).run(texts)
    for wanted in (truth, *truth.others):
        assert wanted.words(texts) in finds(found)
    assert truth.ids is not None
    (main,) = [each for each in found if words(each) == truth.words(texts)][:1]
    if main.pieces is not None:
        assert flat_ids(main) == truth.ids(texts)
    else:
        assert rows(main.ids, main.tokens) == settled(main, truth.ids(texts))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_untouched_model(
    name: str, text_model: Built, tapped: Tapping
) -> None:
    """Bit for bit, all texts at once."""
    path, truth = text_model(name)
    texts = truth.accepted()
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]
    ((key, spec),) = signature.structured_input_signature[1].items()
    given_ = tf.reshape(tf.constant(texts), [len(texts), *[1] * (spec.shape.rank - 1)])
    wanted = {name: part.numpy() for name, part in signature(**{key: given_}).items()}
    got = tapped(name).outputs(texts)
    assert got.keys() == wanted.keys()
    for output, array in wanted.items():
        assert got[output].dtype == array.dtype
        assert np.array_equal(got[output], array, equal_nan=array.dtype.kind == "f")


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_those_that_tensorflow_makes(
    name: str, text_model: Built, tapped: Tapping
) -> None:
    """Of each word, in order."""
    truth = text_model(name)[1]
    texts = truth.accepted()
    found = by_word(tapped(name).run(texts)[0])
    assert found.pieces is not None
    assert found.pieces.values is not None
    assert truth.pieces is not None
    made = Tokens(found.pieces.values, found.pieces.offsets).to_lists()
    assert made == [pieces for text in truth.pieces(texts) for pieces in text]


@pytest.mark.parametrize("name", [name for name in PIECES if name.startswith("fast")])
def test_pieces_cover_their_words(name: str, text_model: Built, tapped: Tapping) -> None:
    """They stand one after the other, from the beginning of the word to its end."""
    found = by_word(tapped(name).run(text_model(name)[1].accepted())[0])
    assert found.pieces is not None
    assert found.pieces.starts is not None
    assert found.pieces.ends is not None
    first, last = found.pieces.offsets[:-1], found.pieces.offsets[1:] - 1
    assert found.pieces.starts[first].tolist() == [0] * len(first)
    assert found.pieces.ends[last].tolist() == list(map(len, as_bytes(found.tokens.values)))
    inside = np.setdiff1d(np.arange(len(found.pieces.starts)), first)
    assert found.pieces.starts[inside].tolist() == found.pieces.ends[inside - 1].tolist()


# A batch is what its texts are one by one.

TEXT = st.one_of(
    st.sampled_from(CALM),
    st.text(max_size=12).map(str.encode),
    st.binary(max_size=8),
    st.lists(st.sampled_from([*VOCABULARY[:8], ",", "qzproba"]), max_size=6).map(
        lambda parts: " ".join(parts).encode()
    ),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=settings().max_examples // 4)
@given(texts=st.lists(TEXT, max_size=7))
def test_a_batch_is_its_texts_one_by_one(
    name: str, texts: list[bytes], text_model: Built, tapped: Tapping
) -> None:
    """Whatever stands beside a text."""
    tap = tapped(name)
    together = plainly(tap.run(texts))
    alone = [plainly(tap.run([text])) for text in texts]
    for number, (found, ids) in enumerate(together):
        assert found == [row for one in alone for row in one[number][0]]
        assert ids == [row for one in alone for row in one[number][1]]


@pytest.mark.parametrize("name", ["nested", "padded", "mapped", "bert_lower", "sentencepiece"])
def test_many_batches_are_one_answer(name: str, text_model: Built, tapped: Tapping) -> None:
    """More texts than are run at once, with the longest among them."""
    texts = (AWKWARD * (3 * BATCH_TEXTS // len(AWKWARD) + 1))[: 2 * BATCH_TEXTS + 17]
    assert words(tapped(name).run(texts)[0]) == text_model(name)[1].words(texts)


def test_a_long_text_is_run_with_few_others() -> None:
    """A model may fill all rows up to the longest."""
    texts = [b"a"] * 600 + [b"b" * (BATCH_BYTES // 2)] + [b"c"] * 3 + [b"d" * (BATCH_BYTES + 1)]
    batches = list(_batches(texts))
    assert [text for batch in batches for text in batch] == texts
    assert list(map(len, batches)) == [BATCH_TEXTS, 600 - BATCH_TEXTS, 2, 2, 1]


def test_no_text_at_all(tapped: Tapping) -> None:
    """Nothing in, nothing out."""
    (found,) = tapped("nested").run([])
    assert words(found) == []
    assert len(found.tokens.values) == 0


@pytest.mark.parametrize(
    ("name", "together"),
    [
        *(("nested", False), ("padded", True), ("mapped", True), ("whole", True)),
        *(("bert_lower", False), ("sentencepiece", True), ("tf1", False)),
        *(("branches_by_batch", False), ("joined_with_itself", False)),
    ],
)
def test_texts_that_cannot_be_told_apart_run_one_by_one(
    name: str, together: bool, tapped: Tapping
) -> None:
    """Those of which a row or a run is each text's run at once."""
    assert tapped(name).runs_together == together


# What stays as it was.


def fingerprints(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_models_files_stay_as_they_are(
    text_model: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no temporary folder is left, whether loading went well or not."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = text_model("tf1")[0]
    before = fingerprints(path)
    InstrumentedModel.load(path).run([b"the quick fox"])
    assert fingerprints(path) == before
    (tmp_path / "broken").mkdir()
    unknown_op = b.node(b"strange", b"NobodysOp")
    model = b.saved_model(b.graph(unknown_op))
    (tmp_path / "broken" / "saved_model.pb").write_bytes(model)
    with pytest.raises(UnsupportedFormat, match="NobodysOp"):
        InstrumentedModel.load(tmp_path / "broken")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_two_taps_of_one_model_do_not_hear_each_other(text_model: Built) -> None:
    """Each reports what it was given, in a TF1 graph and in functions."""
    for name in ("tf1", "nested"):
        path = text_model(name)[0]
        one, other = InstrumentedModel.load(path), InstrumentedModel.load(path)
        one.outputs([b"brown"])
        assert finds(other.run([b"quick"])) == [[[b"quick"]]]
        assert finds(one.run([b"fox"])) == [[[b"fox"]]]


# Ops, reached or not.


def test_ops_say_where_they_stand_and_whether_they_are_reached(tmp_path: Path) -> None:
    """A signature reaches its own lookup; that of another function is silent."""
    table, spare = static(filled(VOCABULARY), 0), static(filled(["spare"]), -1)
    module = tf.Module()
    module.table, module.spare = table, spare
    spec = tf.TensorSpec([None], tf.string)
    module.serve = tf.function(table.lookup, input_signature=[spec], autograph=False)
    module.other = tf.function(spare.lookup, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    tap = InstrumentedModel.load(tmp_path)
    live = [op for op in tap.ops if op.live]
    assert len(tap.ops) > len(live) == 1
    assert live[0].function.startswith(b"__inference_")
    assert {op.op for op in tap.ops} == {"LookupTableFindV2"}
    assert tap.entry.name == "signature serving_default"
    (found,) = tap.run([b"the", b"spare"])
    assert found.op == live[0]
    assert found.default == 0
    assert rows(found.ids, found.tokens) == [[VOCABULARY.index("the")], [0]]


def test_an_op_of_the_main_graph_has_no_function(tapped: Tapping) -> None:
    """As in TF1, where its name is all."""
    (op,) = tapped("tf1").ops
    assert op.function == b""
    assert op.node
    assert op.live


def test_only_strings_are_reported(tmp_path: Path) -> None:
    """What looks integers up has no words; what finds strings has no ids."""
    back = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([0, 1], ["zero", "one"], tf.int64), "?"
    )
    names = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], ["b"]), "?")
    table = static(filled(VOCABULARY), 0)

    def serve(texts: Tensor) -> Tensor:
        return back.lookup(table.lookup(names.lookup(texts)))

    save(tmp_path, serve, table=table, back=back, names=names)
    tap = InstrumentedModel.load(tmp_path)
    assert len(tap.ops) == 2
    found = {words(each)[0][0]: each for each in tap.run([b"a"])}
    assert found[b"a"].ids is not None
    assert found[b"a"].ids.tolist() == [-1]
    assert found[b"a"].default is None
    assert found[b"b"].default == 0


def test_a_model_without_lookups_reports_nothing(tmp_path: Path) -> None:
    """Hashing needs no table; the outputs are there all the same."""
    save(tmp_path, lambda texts: tf.strings.to_hash_bucket_fast(texts, 100))
    tap = InstrumentedModel.load(tmp_path)
    assert tap.ops == ()
    assert tap.run([b"a", b"b"]) == ()
    wanted = tf.strings.to_hash_bucket_fast([b"a", b"b"], 100).numpy()
    (got,) = tap.outputs([b"a", b"b"]).values()
    assert np.array_equal(got, wanted)


def test_calls_that_lead_to_a_report_are_stateful(text_model: Built) -> None:
    """Else TensorFlow may merge two of them, or leave one out."""
    saved = loader_impl.parse_saved_model(str(text_model("fast_bert_lower")[0]))
    (meta_graph,) = saved.meta_graphs
    library = meta_graph.graph_def.library.function
    before = {node.op for f in library for node in f.node_def}
    assert "PartitionedCall" in before
    reports = instrument(meta_graph, "name")
    assert len(reports) > 0
    assert {f.signature.is_stateful for f in library if reports_in(f)} == {True}
    reporting = {f.signature.name for f in library if reports_in(f)}
    calls = [n for f in library for n in f.node_def if n.attr["f"].func.name in reporting]
    assert {node.op for node in calls} == {"StatefulPartitionedCall"}


def reports_in(function: Any) -> bool:
    return any(node.op == "QueueEnqueueV2" for node in function.node_def)


def test_a_lookup_that_is_an_output_itself_is_reported(tmp_path: Path) -> None:
    """In a TF1 graph the signature names the op's own output."""
    with tf.Graph().as_default(), tf1.Session() as session:
        texts = tf1.placeholder(tf.string, [None], "text")
        table = static(filled(VOCABULARY), 0)
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=table.resource_handle, keys=texts, default_value=tf.constant(7, tf.int64)
        )
        signature = tf1.saved_model.predict_signature_def({"text": texts}, {"ids": found})
        session.run(fill := tf1.tables_initializer())
        builder = tf1.saved_model.Builder(str(tmp_path))
        signatures = {"serving_default": signature}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=fill)
        builder.save()
    tap = InstrumentedModel.load(tmp_path)
    (seen,) = tap.run([b"the", b"nothing"])
    assert words(seen) == [[b"the"], [b"nothing"]]
    assert seen.ids is not None
    assert seen.ids.tolist() == [1, 7]
    assert tap.outputs([b"the", b"nothing"])["ids"].tolist() == [1, 7]


def test_a_loop_of_tf1_reports_in_order(tmp_path: Path) -> None:
    """Its iterations may run at the same time unless they are told not to."""
    tf1.disable_control_flow_v2()
    try:

        def serve(texts: Tensor) -> Tensor:
            table = static(filled(VOCABULARY), 0)
            return tf.map_fn(
                lambda text: tf.reduce_sum(table.lookup(tf1.string_split([text]).values)),
                texts,
                fn_output_signature=tf.int64,
            )

        save_v1(tmp_path, serve)
    finally:
        tf1.enable_control_flow_v2()
    texts = [b"the quick fox", b"", b"brown", b"a b c", b"fox fox"]
    assert finds(InstrumentedModel.load(tmp_path).run(texts)) == [[text.split() for text in texts]]


def test_the_graph_tagged_serve_is_run(tmp_path: Path) -> None:
    """One SavedModel may hold several."""

    def serve(texts: Tensor) -> Tensor:
        return static(filled(VOCABULARY), 0).lookup(tf1.string_split(texts).values)

    save_v1(tmp_path, serve, tag_sets=(["train"], ["serve"]))
    assert finds(InstrumentedModel.load(tmp_path).run([b"the fox", b"a"])) == [
        [[b"the", b"fox"], [b"a"]]
    ]


# Which function, fed how.


def split_lookup(texts: Tensor) -> Tensor:
    return tf.strings.split(tf.reshape(texts, [-1])).flat_values


def save_module(folder: Path, signatures: bool = True, **shapes: list[int | None]) -> None:
    """A module with a function for each shape, all of the same lookup."""
    module = tf.Module()
    module.table = table = static(filled(VOCABULARY), 0)
    functions = {
        name: tf.function(
            lambda texts: {"ids": table.lookup(split_lookup(texts))},
            input_signature=[tf.TensorSpec(shape, tf.string, "texts")],
            autograph=False,
        )
        for name, shape in shapes.items()
    }
    for name, function in functions.items():
        setattr(module, name, function)
    tf.saved_model.save(module, str(folder), signatures=functions if signatures else None)


@pytest.mark.parametrize("shape", [[None], [None, 1], [None, None], [], [1], [1, 1], [None, 1, 1]])
def test_every_shape_that_holds_one_text_is_fed(shape: list[int | None], tmp_path: Path) -> None:
    """Texts one by one where no more fit."""
    save_module(tmp_path, serving_default=shape)
    texts = [b"the quick", b"", b"fox"]
    tap = InstrumentedModel.load(tmp_path)
    assert finds(tap.run(texts)) == [[[b"the", b"quick"], [], [b"fox"]]]
    ids = tap.outputs(texts)["ids"]
    flat = np.concatenate([np.ravel(part) for part in ids]) if ids.dtype == object else ids
    assert flat.tolist() == [1, 2, 4]


def test_another_signature_is_taken_where_the_default_wants_more(tmp_path: Path) -> None:
    """The first that wants one text only."""
    module = tf.Module()
    module.table = table = static(filled(VOCABULARY), 0)
    spec = tf.TensorSpec([None], tf.string)
    pair = tf.function(
        lambda a, b: {"ids": table.lookup(a) + table.lookup(b)}, input_signature=[spec] * 2
    )
    one = tf.function(lambda texts: {"ids": table.lookup(texts)}, input_signature=[spec])
    tf.saved_model.save(
        module,
        str(tmp_path),
        signatures={
            "serving_default": pair.get_concrete_function(a=spec, b=spec),
            "one": one.get_concrete_function(spec),
        },
    )
    tap = InstrumentedModel.load(tmp_path)
    assert tap.entry.name == "signature one"
    assert finds(tap.run([b"the"])) == [[[b"the"]]]


def test_a_model_without_signatures_is_called(tmp_path: Path) -> None:
    """As TensorFlow Hub does; an argument that is no tensor keeps its traced value."""

    class Encoder(tf.Module):  # type: ignore[misc] # TensorFlow carries no types
        def __init__(self) -> None:
            super().__init__()
            self.table = static(filled(VOCABULARY), 0)

        @tf.function(autograph=False)  # type: ignore[untyped-decorator] # the same
        def __call__(self, texts: Tensor, training: bool = False) -> Tensor:
            return self.table.lookup(spaced_words(texts).flat_values)

    encoder = Encoder()
    encoder.__call__.get_concrete_function(tf.TensorSpec([None], tf.string), training=False)
    tf.saved_model.save(encoder, str(tmp_path))
    tap = InstrumentedModel.load(tmp_path)
    assert tap.entry.name == "__call__"
    assert finds(tap.run([b"The fox!", b"a"])) == [[[b"the", b"fox", b"!"], [b"a"]]]
    (ids,) = tap.outputs([b"The fox!"]).values()
    assert ids.tolist() == [1, 4, 0]


def test_what_a_model_wants_is_said_where_it_wants_no_text(tmp_path: Path) -> None:
    """Every input of every function, with its type and shape."""
    module = tf.Module()
    module.serve = tf.function(
        lambda number, text: {"out": tf.strings.length(text) + number},
        input_signature=[tf.TensorSpec([], tf.int32, "n"), tf.TensorSpec([None], tf.string, "t")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    with pytest.raises(UnsupportedFormat) as caught:
        InstrumentedModel.load(tmp_path)
    assert "signature serving_default wants n: int32 (), t: string (None,)" in str(caught.value)


def test_a_text_that_the_model_fails_at_is_said(tmp_path: Path) -> None:
    """With TensorFlow's reason; afterwards other texts run as before."""
    table = static(filled(VOCABULARY), 0)

    def serve(texts: Tensor) -> Tensor:
        ids = table.lookup(texts)
        return ids + tf.strings.to_number(texts, tf.int64)

    save(tmp_path, serve, table=table)
    tap = InstrumentedModel.load(tmp_path)
    for _ in range(2):
        with pytest.raises(UnsupportedFormat, match=r"at the text b'x': .*string: x"):
            tap.run([b"1", b"x", b"2"])
    with pytest.raises(UnsupportedFormat, match="fails at 2 texts"):
        tap.outputs([b"1", b"x"])
    assert finds(tap.run([b"1", b"2"])) == [[[b"1"], [b"2"]]]


# What is not run.


def save_reading(folder: Path, asset: Path) -> None:
    """A model that reads an asset of its own whenever it is called."""
    table = static(filled(VOCABULARY), 0)
    file = tf.saved_model.Asset(str(asset))

    def serve(texts: Tensor) -> Tensor:
        return {"ids": table.lookup(texts), "read": tf.io.read_file(file.asset_path)}

    save(folder, serve, table=table, file=file)


def test_a_model_that_reads_files_is_refused_and_the_op_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trusted, it is run, and finds its assets for as long as it lives."""
    (tmp_path / "note.txt").write_bytes(b"read me")
    save_reading(tmp_path / "model", tmp_path / "note.txt")
    with pytest.raises(UnsupportedFormat, match=r"(?s)ReadFile at function __inf.*--trust"):
        InstrumentedModel.load(tmp_path / "model")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    tap = InstrumentedModel.load(tmp_path / "model", trust=True)
    assert finds(tap.run([b"the"])) == [[[b"the"]]]
    assert tap.outputs([b"the"])["read"] == b"read me"


def test_no_folder_is_left_by_a_model_that_needed_it(tmp_path: Path) -> None:
    """It goes with the process at the latest."""
    (tmp_path / "note.txt").write_bytes(b"read me")
    save_reading(tmp_path / "model", tmp_path / "note.txt")
    (tmp_path / "temporary").mkdir()
    code = (
        "import sys, tempfile, pathlib\n"
        "from vocabtool.tokenization.instrumented_model import InstrumentedModel\n"
        "tap = InstrumentedModel.load(sys.argv[1], trust=True)\n"
        "print(len(list(pathlib.Path(tempfile.gettempdir()).iterdir())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")],
        env={"TMPDIR": str(tmp_path / "temporary"), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    assert list((tmp_path / "temporary").iterdir()) == []


def python_op(texts: Tensor) -> Tensor:
    return tf.numpy_function(lambda array: array, [texts], tf.string)


def written(texts: Tensor) -> Tensor:
    with tf.control_dependencies([tf.io.write_file("/nonexistent/x", "x")]):
        return tf.identity(texts)


def of_dataset(texts: Tensor) -> Tensor:
    return tf.data.TextLineDataset(texts).reduce(tf.constant(""), lambda _, line: line)[None]


def printed(texts: Tensor) -> Tensor:
    with tf.control_dependencies([tf.print(texts, output_stream="file:///nonexistent/x")]):
        return tf.identity(texts)


@pytest.mark.parametrize(
    ("change", "op"),
    [
        (python_op, "PyFunc"),
        (written, "WriteFile"),
        (of_dataset, "TextLineDataset"),
        (printed, "PrintV2"),
    ],
)
def test_models_that_reach_out_are_refused(
    change: Callable[[Tensor], Tensor], op: str, tmp_path: Path
) -> None:
    """Python, files, datasets over files and what prints into a file."""
    table = static(filled(VOCABULARY), 0)
    save(tmp_path, lambda texts: table.lookup(tf.ensure_shape(change(texts), [None])), table=table)
    with pytest.raises(UnsupportedFormat, match=f"- {op}.* at function "):
        InstrumentedModel.load(tmp_path)


def test_a_signature_cannot_write_a_checkpoint(tmp_path: Path) -> None:
    """The writers that every model holds do nothing in the copy that is run."""
    target = tmp_path / "written"
    table = static(filled(VOCABULARY), 0)

    def serve(texts: Tensor) -> Tensor:
        saving = tf.raw_ops.SaveV2(
            prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[texts]
        )
        with tf.control_dependencies([saving]):
            return table.lookup(texts)

    save(tmp_path / "model", serve, table=table)
    tap = InstrumentedModel.load(tmp_path / "model")
    assert finds(tap.run([b"the"])) == [[[b"the"]]]
    assert list(tmp_path.glob("written*")) == []


def test_a_second_graph_cannot_hide_an_op(tmp_path: Path) -> None:
    """Protobuf joins what a message holds twice: what is loaded is looked at, joined."""
    hidden = b.field(2, b.graph(b.node(b"read", b"ReadFile", b"path")))
    shown = b.field(2, b.graph(b.const(b"path", b.scalar_tensor(b"/etc/passwd"))))
    (tmp_path / "saved_model.pb").write_bytes(b.number(1, 1) + b.field(2, hidden + shown))
    with pytest.raises(UnsupportedFormat, match="ReadFile at graph/read"):
        InstrumentedModel.load(tmp_path)


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    """One could be looked at and the other be run."""
    functions = [b.function(b"f", [b"x"], b.node(b"n", op, b"x")) for op in (b"ReadFile", b"NoOp")]
    graph = b.graph(b.const(b"path", b.scalar_tensor(b"x")), functions=functions)
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(graph))
    with pytest.raises(InvalidFile, match="2 functions are called 'f'"):
        InstrumentedModel.load(tmp_path)


def test_a_frozen_graph_is_refused(tmp_path: Path) -> None:
    """It does not say where texts go in."""
    file = tmp_path / "frozen.pb"
    file.write_bytes(b.graph(*b.table_nodes([b"the"])))
    with pytest.raises(UnsupportedFormat, match="frozen graph"):
        InstrumentedModel.load(file)


def test_nothing_there(tmp_path: Path) -> None:
    """As everywhere else."""
    with pytest.raises(NotFound):
        InstrumentedModel.load(tmp_path / "missing")


def test_a_model_that_tensorflow_does_not_load_is_said(tmp_path: Path) -> None:
    """Its variables are missing; the message does not name the temporary copy."""
    table = static(filled(VOCABULARY), 0)
    variable = tf.Variable([1, 2])
    save(tmp_path, table.lookup, table=table, variable=variable)
    for file in (tmp_path / "variables").iterdir():
        file.unlink()
    with pytest.raises(UnsupportedFormat, match="TensorFlow does not load it") as caught:
        InstrumentedModel.load(tmp_path)
    assert OWN not in str(caught.value)


@pytest.mark.parametrize("library", ["tensorflow", "tensorflow_text"])
def test_a_missing_library_is_named_with_the_extra(library: str, text_model: Built) -> None:
    """Without it there are no exact words."""
    code = (
        "import sys\n"
        f"sys.modules[{library!r}] = None\n"
        "from vocabtool.errors import VocabtoolError\n"
        "from vocabtool.tokenization.instrumented_model import InstrumentedModel\n"
        "try:\n"
        "    InstrumentedModel.load(sys.argv[1])\n"
        "except VocabtoolError as error:\n"
        "    print(error)\n"
    )
    path = text_model("fast_bert_lower")[0]
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert "pip install '.[tensorflow]'" in done.stdout
    assert f"{library}," in done.stdout
