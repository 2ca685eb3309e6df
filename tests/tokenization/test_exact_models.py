"""Models that are run for their words: which function of them, and which are refused."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="what is tested runs TensorFlow")
pytest.importorskip("tensorflow_text", reason="some models hold tensorflow-text's tokenizers")
pytest.importorskip("tf_keras", reason="some models are built by Keras 2")

import tensorflow as tf

from tests.builders import saved_model_bytes as b
from tests.builders.tensorflow_models import Tensor, filled, quiet, save, static
from tests.builders.text_models import VOCABULARY, TextTruth, spaced_words
from vocabtool import Words
from vocabtool.errors import InvalidFile, UnsupportedFormat

Built = Callable[[str], tuple[Path, TextTruth]]


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """TensorFlow and Keras warn about what they do themselves."""
    with quiet():
        yield


def finds(words: Words, texts: list[bytes]) -> list[list[bytes]]:
    """The words of each text."""
    return [[word["word"] for word in row] for row in words.split(texts).to_pylist()]


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
    words = Words.of(tmp_path, exact=True)
    assert finds(words, texts) == [[b"the", b"quick"], [], [b"fox"]]


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
    words = Words.of(tmp_path, exact=True)
    assert "(signature one)" in words.describe()[0]
    assert finds(words, [b"the"]) == [[b"the"]]


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
    words = Words.of(tmp_path, exact=True)
    assert "(__call__)" in words.describe()[0]
    assert finds(words, [b"The fox!", b"a"]) == [[b"the", b"fox", b"!"], [b"a"]]


def test_what_a_model_wants_is_said_where_it_wants_no_text(tmp_path: Path) -> None:
    """Every input of every function, with its type and shape."""
    module = tf.Module()
    module.serve = tf.function(
        lambda number, text: {"out": tf.strings.length(text) + number},
        input_signature=[tf.TensorSpec([], tf.int32, "n"), tf.TensorSpec([None], tf.string, "t")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    with pytest.raises(UnsupportedFormat) as caught:
        Words.of(tmp_path, exact=True)
    assert "signature serving_default wants n: int32 (), t: string (None,)" in str(caught.value)


def test_a_text_that_the_model_fails_at_is_said(tmp_path: Path) -> None:
    """With TensorFlow's reason; afterwards other texts run as before."""
    table = static(filled(VOCABULARY), 0)

    def serve(texts: Tensor) -> Tensor:
        ids = table.lookup(texts)
        return ids + tf.strings.to_number(texts, tf.int64)

    save(tmp_path, serve, table=table)
    words = Words.of(tmp_path, exact=True)
    for _ in range(2):
        with pytest.raises(UnsupportedFormat, match=r"at the text b'x': .*string: x"):
            words.split([b"1", b"x", b"2"])
    assert finds(words, [b"1", b"2"]) == [[b"1"], [b"2"]]


def test_a_text_without_words_that_fails_alone_runs_beside_another(tmp_path: Path) -> None:
    """Corpora have empty lines; that it fails is said where the others do not help."""
    table = static(filled(VOCABULARY), 0)

    def serve(texts: Tensor) -> Tensor:
        ids = table.lookup(tf.strings.bytes_split(texts).flat_values)
        return ids + ids[0]

    save(tmp_path, serve, table=table)
    words = Words.of(tmp_path, exact=True)
    assert finds(words, [b"a", b"", b"", b"bc"]) == [[b"a"], [], [], [b"b", b"c"]]
    assert finds(words, [b""]) == [[]]


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
        Words.of(tmp_path / "model", exact=True)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    words = Words.of(tmp_path / "model", exact=True, trust=True)
    assert finds(words, [b"the"]) == [[b"the"]]


def test_no_folder_is_left_by_a_model_that_needed_it(tmp_path: Path) -> None:
    """It goes with the process at the latest."""
    (tmp_path / "note.txt").write_bytes(b"read me")
    save_reading(tmp_path / "model", tmp_path / "note.txt")
    (tmp_path / "temporary").mkdir()
    code = (
        "import sys, tempfile, pathlib\n"
        "from vocabtool import Words\n"
        "words = Words.of(sys.argv[1], exact=True, trust=True)\n"
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
        Words.of(tmp_path, exact=True)


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
    words = Words.of(tmp_path / "model", exact=True)
    assert finds(words, [b"the"]) == [[b"the"]]
    assert list(tmp_path.glob("written*")) == []


def test_a_second_graph_cannot_hide_an_op(tmp_path: Path) -> None:
    """Protobuf joins what a message holds twice: what is loaded is looked at, joined."""
    hidden = b.field(2, b.graph(b.node(b"read", b"ReadFile", b"path")))
    shown = b.field(2, b.graph(b.const(b"path", b.scalar_tensor(b"/etc/passwd"))))
    (tmp_path / "saved_model.pb").write_bytes(b.number(1, 1) + b.field(2, hidden + shown))
    with pytest.raises(UnsupportedFormat, match="ReadFile at graph/read"):
        Words.of(tmp_path, exact=True)


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    """One could be looked at and the other be run."""
    functions = [b.function(b"f", [b"x"], b.node(b"n", op, b"x")) for op in (b"ReadFile", b"NoOp")]
    graph = b.graph(b.const(b"path", b.scalar_tensor(b"x")), functions=functions)
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(graph))
    with pytest.raises(InvalidFile, match="2 functions are called 'f'"):
        Words.of(tmp_path, exact=True)


def test_a_frozen_graph_is_refused(tmp_path: Path) -> None:
    """It does not say where texts go in."""
    file = tmp_path / "frozen.pb"
    file.write_bytes(b.graph(*b.table_nodes([b"the"])))
    with pytest.raises(UnsupportedFormat, match="frozen graph"):
        Words.of(file, exact=True)


def test_a_model_that_tensorflow_does_not_load_is_said(tmp_path: Path) -> None:
    """Its variables are missing; the message does not name the temporary copy."""
    table = static(filled(VOCABULARY), 0)
    variable = tf.Variable([1, 2])
    save(tmp_path, table.lookup, table=table, variable=variable)
    for file in (tmp_path / "variables").iterdir():
        file.unlink()
    with pytest.raises(UnsupportedFormat, match="TensorFlow does not load it") as caught:
        Words.of(tmp_path, exact=True)
    assert "vocabtool_" not in str(caught.value)


@pytest.mark.parametrize("library", ["tensorflow", "tensorflow_text"])
def test_a_missing_library_is_named_with_the_extra(library: str, text_model: Built) -> None:
    """Without it there are no exact words."""
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
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert "pip install '.[tensorflow]'" in done.stdout
    assert f"{library}," in done.stdout
