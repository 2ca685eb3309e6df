"""Exact words of a running model, compared with TensorFlow run directly."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
from tests.builders.text_models import AWKWARD, TEXT_CASES, VOCABULARY, TextTruth, spaced_words
from vocabtool import Words
from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.tokenization.instrumented_graph import instrument
from vocabtool.tokenization.instrumented_model import (
    BATCH_BYTES,
    BATCH_TEXTS,
    InstrumentedModel,
    _batches,
    trace_by_word,
)
from vocabtool.tokenization.op_traces import OpTrace, join_traces

tf1 = tf.compat.v1

NAMES = [case.name for case in TEXT_CASES]
# Models with keys of every form: flat, padded, in loops and branches, whole, as pieces.
KINDS = (
    *("nested", "padded", "mapped", "conditional", "branches_by_text", "branches_by_batch"),
    *("bigrams", "characters", "whole", "tf1", "tf1_resaved", "k2_embedded", "k3_embedded"),
    *("bert_lower", "fast_bert_lower", "sentencepiece", "fast_sentencepiece", "joined_with_itself"),
)
CALM = tuple(text for text in AWKWARD if len(text) < 1000)

Built = Callable[[str], tuple[Path, TextTruth]]
Tapping = Callable[[str], InstrumentedModel]


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Ignore warnings of TensorFlow and Keras."""
    with quiet():
        yield


@pytest.fixture(scope="session")
def tapped(text_model: Built) -> Tapping:
    """A folder of models that are loaded on first use."""
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


def finds(found: Sequence[OpTrace]) -> list[list[list[bytes]]]:
    return [words(each) for each in found]


# The results of TensorFlow's own functions.


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_untouched_model(
    name: str, text_model: Built, tapped: Tapping
) -> None:
    """Results are equal bit for bit, all texts at once."""
    path, truth = text_model(name)
    texts = truth.accepted()
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]
    ((key, spec),) = signature.structured_input_signature[1].items()
    given_ = tf.reshape(tf.constant(texts), [len(texts), *[1] * (spec.shape.rank - 1)])
    wanted = {name: part.numpy() for name, part in signature(**{key: given_}).items()}
    model = tapped(name)
    got = model.call_untraced(lambda: model.entry.feed(texts))
    assert got.keys() == wanted.keys()
    for output, array in wanted.items():
        assert np.array_equal(got[output].numpy(), array, equal_nan=array.dtype.kind == "f")


# A batch gives the same as its texts one by one.

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
    """A text gives the same next to any other text."""
    model = tapped(name)
    together = model.run(texts)
    if not texts:
        assert not any(map(words, together))
        return
    joined = join_traces([model.run([text]) for text in texts])
    assert all(one.equals(other) for one, other in zip(together, joined, strict=True))


@pytest.mark.parametrize("name", ["nested", "padded", "mapped", "bert_lower", "sentencepiece"])
def test_many_batches_are_one_answer(name: str, text_model: Built, tapped: Tapping) -> None:
    """More texts than one batch, including the longest."""
    texts = (AWKWARD * (3 * BATCH_TEXTS // len(AWKWARD) + 1))[: 2 * BATCH_TEXTS + 17]
    assert words(tapped(name).run(texts)[0]) == text_model(name)[1].words(texts)


def test_a_long_text_is_run_with_few_others() -> None:
    """A model may pad all rows to the longest text."""
    texts = [b"a"] * 600 + [b"b" * (BATCH_BYTES // 2)] + [b"c"] * 3 + [b"d" * (BATCH_BYTES + 1)]
    batches = list(_batches(texts))
    assert [text for batch in batches for text in batch] == texts
    assert list(map(len, batches)) == [BATCH_TEXTS, 600 - BATCH_TEXTS, 2, 2, 1]


@pytest.mark.parametrize(
    ("name", "together"),
    [
        *(("nested", False), ("padded", True), ("mapped", True), ("whole", True)),
        *(("bert_lower", False), ("sentencepiece", True), ("tf1", True), ("split", True)),
        *(("branches_by_batch", False), ("joined_with_itself", False)),
    ],
)
def test_texts_that_cannot_be_told_apart_run_one_by_one(
    name: str, together: bool, tapped: Tapping
) -> None:
    """Models run together if a row or a run belongs to a text, or if one op splits the texts."""
    assert tapped(name).runs_together == together


# Unchanged files and results.


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
    """No temporary folder is left after success or failure."""
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
    """Each op reports its input, in a TF1 graph and in functions."""
    for name in ("tf1", "nested"):
        path = text_model(name)[0]
        one, other = InstrumentedModel.load(path), InstrumentedModel.load(path)
        one.call_untraced(partial(one.entry.feed, [b"brown"]))
        assert finds(other.run([b"quick"])) == [[[b"quick"]]]
        assert finds(one.run([b"fox"])) == [[[b"fox"]]]


# Reached and unreached ops.


def test_ops_say_where_they_stand_and_whether_they_are_reached(tmp_path: Path) -> None:
    """A signature reaches its own lookup, not that of another function."""
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
    assert words(found) == [[b"the"], [b"spare"]]


def test_only_strings_are_reported(tmp_path: Path) -> None:
    """Lookups of integers have no words."""
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
    assert sorted(finds(tap.run([b"a"]))) == [[[b"a"]], [[b"b"]]]


def test_calls_that_lead_to_a_report_are_stateful(text_model: Built) -> None:
    """Calls must be stateful, else TensorFlow may merge or remove them."""
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
    answer = tap.call_untraced(partial(tap.entry.feed, [b"the", b"nothing"]))
    assert answer["ids"].numpy().tolist() == [1, 7]


def test_a_loop_of_tf1_reports_in_order(tmp_path: Path) -> None:
    """Loop iterations must not run in parallel."""
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
    """A SavedModel may contain several graphs."""

    def serve(texts: Tensor) -> Tensor:
        return static(filled(VOCABULARY), 0).lookup(tf1.string_split(texts).values)

    save_v1(tmp_path, serve, tag_sets=(["train"], ["serve"]))
    assert finds(InstrumentedModel.load(tmp_path).run([b"the fox", b"a"])) == [
        [[b"the", b"fox"], [b"a"]]
    ]


# The function that is run, and rejected models.


@pytest.fixture
def table() -> Tensor:
    """Number the words of a vocabulary."""
    return static(filled(VOCABULARY), 0)


def texts_found(words: Words, texts: list[bytes]) -> list[list[bytes]]:
    """Return the words of each text."""
    return [[word["word"] for word in row] for row in words.split(texts).to_pylist()]


# Selection of the function and its input.


@pytest.mark.parametrize("shape", [[None], [None, 1], [None, None], [], [1], [1, 1], [None, 1, 1]])
def test_every_shape_that_holds_one_text_is_fed(
    shape: list[int | None], table: Tensor, tmp_path: Path
) -> None:
    """Run texts one by one if no more fit."""
    module = tf.Module()
    module.table = table
    module.serve = tf.function(
        lambda texts: {"ids": table.lookup(tf.strings.split(tf.reshape(texts, [-1])).flat_values)},
        input_signature=[tf.TensorSpec(shape, tf.string, "texts")],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    words = Words.of(tmp_path, exact=True)
    assert texts_found(words, [b"the quick", b"", b"fox"]) == [[b"the", b"quick"], [], [b"fox"]]


def test_another_signature_is_taken_where_the_default_wants_more(
    table: Tensor, tmp_path: Path
) -> None:
    """The first function with exactly one text input."""
    module = tf.Module()
    module.table = table
    spec = tf.TensorSpec([None], tf.string)
    pair = tf.function(lambda a, b: {"ids": table.lookup(a) + table.lookup(b)})
    one = tf.function(lambda texts: {"ids": table.lookup(texts)}, input_signature=[spec])
    signatures = {
        "serving_default": pair.get_concrete_function(a=spec, b=spec),
        "one": one.get_concrete_function(spec),
    }
    tf.saved_model.save(module, str(tmp_path), signatures=signatures)
    words = Words.of(tmp_path, exact=True)
    assert "(signature one)" in words.describe()[0]
    assert texts_found(words, [b"the"]) == [[b"the"]]


def test_a_model_without_signatures_is_called(tmp_path: Path) -> None:
    """Call as TensorFlow Hub does; arguments that are not tensors keep their traced value."""

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
    words = Words.of(tmp_path, exact=True)
    assert "(__call__)" in words.describe()[0]
    assert texts_found(words, [b"The fox!", b"a"]) == [[b"the", b"fox", b"!"], [b"a"]]


def test_what_a_model_wants_is_said_where_it_wants_no_text(tmp_path: Path) -> None:
    """The error lists every input of every function with its type and shape."""
    module = tf.Module()
    module.serve = tf.function(
        lambda number, text: {"out": tf.strings.length(text) + number},
        input_signature=[tf.TensorSpec([], tf.int32, "n"), tf.TensorSpec([None], tf.string, "t")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    with pytest.raises(UnsupportedFormat) as caught:
        Words.of(tmp_path, exact=True)
    assert "signature serving_default takes n: int32 (), t: string (None,)" in str(caught.value)


def test_a_text_that_the_model_fails_at_is_said(table: Tensor, tmp_path: Path) -> None:
    """The error contains TensorFlow's reason; other texts still run afterwards."""

    def serve(texts: Tensor) -> Tensor:
        ids = table.lookup(texts)
        return ids + tf.strings.to_number(texts, tf.int64)

    save(tmp_path, serve, table=table)
    words = Words.of(tmp_path, exact=True)
    for _ in range(2):
        with pytest.raises(UnsupportedFormat, match=r"on the text b'x': .*string: x"):
            words.split([b"1", b"x", b"2"])
    assert texts_found(words, [b"1", b"2"]) == [[b"1"], [b"2"]]


def test_a_text_without_words_that_fails_alone_runs_beside_another(
    table: Tensor, tmp_path: Path
) -> None:
    """Empty lines are allowed; the model's failure is reported if other texts do not help."""

    def serve(texts: Tensor) -> Tensor:
        ids = table.lookup(tf.strings.bytes_split(texts).flat_values)
        return ids + ids[0]

    save(tmp_path, serve, table=table)
    words = Words.of(tmp_path, exact=True)
    assert texts_found(words, [b"a", b"", b"", b"bc"]) == [[b"a"], [], [], [b"b", b"c"]]
    assert texts_found(words, [b""]) == [[]]


# Models that are not run.


def test_a_model_that_reads_files_is_refused_unless_trusted(table: Tensor, tmp_path: Path) -> None:
    """The op is named. With trust, assets are found, and no folder is left."""
    model, temporary = tmp_path / "model", tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "note.txt").write_bytes(b"read me")
    file = tf.saved_model.Asset(str(tmp_path / "note.txt"))

    def serve(texts: Tensor) -> Tensor:
        return {"ids": table.lookup(texts), "read": tf.io.read_file(file.asset_path)}

    save(model, serve, table=table, file=file)
    with pytest.raises(UnsupportedFormat, match=r"(?s)ReadFile at function __inf.*--trust"):
        Words.of(model, exact=True)
    code = (
        "import sys, tempfile, pathlib\n"
        "from vocabtool import Words\n"
        "words = Words.of(sys.argv[1], exact=True, trust=True)\n"
        "assert words.split(['the']).to_pylist()[0][0]['word'] == b'the'\n"
        "print(len(list(pathlib.Path(tempfile.gettempdir()).iterdir())))\n"
    )
    environment = {"TMPDIR": str(temporary), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", code, str(model)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert list(temporary.iterdir()) == []


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
    change: Callable[[Tensor], Tensor], op: str, table: Tensor, tmp_path: Path
) -> None:
    """Python, files, datasets over files and prints into a file."""
    save(tmp_path, lambda texts: table.lookup(tf.ensure_shape(change(texts), [None])), table=table)
    with pytest.raises(UnsupportedFormat, match=f"- {op}.* at function "):
        Words.of(tmp_path, exact=True)


def test_a_signature_cannot_write_a_checkpoint(table: Tensor, tmp_path: Path) -> None:
    """The checkpoint writers of every model do nothing in the copy."""
    target = tmp_path / "written"

    def serve(texts: Tensor) -> Tensor:
        saving = tf.raw_ops.SaveV2(
            prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[texts]
        )
        with tf.control_dependencies([saving]):
            return table.lookup(texts)

    save(tmp_path / "model", serve, table=table)
    words = Words.of(tmp_path / "model", exact=True)
    assert texts_found(words, [b"the"]) == [[b"the"]]
    assert list(tmp_path.glob("written*")) == []


def test_what_is_loaded_is_looked_at(tmp_path: Path) -> None:
    """Reject functions of the same name (also after a Protobuf merge), and frozen graphs."""
    file = tmp_path / "saved_model.pb"
    path = b.const(b"path", b.scalar_tensor(b"/etc/passwd"))
    hidden = b.field(2, b.graph(b.node(b"read", b"ReadFile", b"path")))
    file.write_bytes(b.number(1, 1) + b.field(2, hidden + b.field(2, b.graph(path))))
    with pytest.raises(UnsupportedFormat, match="ReadFile at graph/read"):
        Words.of(tmp_path, exact=True)
    functions = [b.function(b"f", [b"x"], b.node(b"n", op, b"x")) for op in (b"ReadFile", b"NoOp")]
    file.write_bytes(b.saved_model(b.graph(path, functions=functions)))
    with pytest.raises(InvalidFile, match=r"2 functions .* 'f'"):
        Words.of(tmp_path, exact=True)
    frozen = tmp_path / "frozen.pb"
    frozen.write_bytes(b.graph(*b.table_nodes([b"the"])))
    with pytest.raises(UnsupportedFormat, match="frozen graph"):
        Words.of(frozen, exact=True)


def test_a_model_that_tensorflow_does_not_load_is_said(table: Tensor, tmp_path: Path) -> None:
    """Variables are missing; the message does not name the temporary copy."""
    variable = tf.Variable([1, 2])
    save(tmp_path, table.lookup, table=table, variable=variable)
    for file in (tmp_path / "variables").iterdir():
        file.unlink()
    with pytest.raises(UnsupportedFormat, match="TensorFlow cannot load the model") as caught:
        Words.of(tmp_path, exact=True)
    assert "vocabtool_" not in str(caught.value)


@pytest.mark.parametrize("library", ["tensorflow", "tensorflow_text"])
def test_a_missing_library_is_named_with_the_extra(library: str, text_model: Built) -> None:
    """Without TensorFlow there are no exact words."""
    code = (
        "import sys\n"
        f"sys.modules[{library!r}] = None\n"
        "from vocabtool.errors import VocabtoolError\n"
        "from vocabtool import Words\n"
        "try:\n"
        "    Words.of(sys.argv[1], exact=True)\n"
        "except VocabtoolError as error:\n"
        "    print(error)\n"
    )
    path = text_model("fast_bert_lower")[0]
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install '.[tensorflow]'" in done.stdout
    assert f"{library}," in done.stdout
