"""TFLite: models of TensorFlow's own converter and of its schema, word files packed behind them."""

# own process: TensorFlow

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vocabtool
from tests.builders.saved_model_bytes import field
from tests.reader_checks import survives
from tests.reader_checks import written as write_file
from vocabtool import Place, Unknown, UnsupportedFormat

pytest.importorskip("tensorflow", reason="the oracle: its schema writes the files")
schema = pytest.importorskip(
    "tensorflow.lite.python.schema_py_generated", reason="it writes the files"
)
flatbuffers = pytest.importorskip("flatbuffers", reason="comes with TensorFlow")
flexbuffers = pytest.importorskip("flatbuffers.flexbuffers", reason="comes with TensorFlow")

write = partial(write_file, name="m.tflite")
WORDS = [b"the", b"of", "naïve".encode(), b"", b"a b", b"a\nb", "日本".encode(), b"\xff\xfe"]
WORDS += [b"w%d" % number for number in range(20)]


def strings(words: list[bytes]) -> bytes:
    """A buffer of strings, as string_util.h has it."""
    ends = np.cumsum([4 * (len(words) + 2), *map(len, words)], dtype="<i4")
    return np.int32(len(words)).tobytes() + ends.tobytes() + b"".join(words)


def tensor(name: str, buffer: int, tensor_type: int = schema.TensorType.STRING) -> Any:
    made = schema.TensorT()
    made.name, made.buffer, made.type = name, buffer, tensor_type
    return made


def model(tensors: list[Any], buffers: list[bytes]) -> bytes:
    """A model of one graph, written by TensorFlow's own schema; buffer 0 is the empty one."""
    graph = schema.SubGraphT()
    graph.tensors = tensors
    return finished(graph, buffers)


def finished(graph: Any, buffers: Sequence[bytes] = (), **parts: Any) -> bytes:
    made = schema.ModelT()
    made.version, made.subgraphs, made.buffers = 3, [graph], []
    for name, value in parts.items():
        setattr(made, name, value)
    for content in [b"", *buffers]:
        buffer = schema.BufferT()
        buffer.data = list(content) if content else None
        made.buffers.append(buffer)
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.fixture(scope="module")
def converted() -> bytes:
    """A table of words, one of ids, and a list of strings, converted by TensorFlow."""
    import tensorflow as tf

    names = tf.constant([f"label {number}" for number in range(30)])
    ids = np.arange(len(WORDS), dtype=np.int64)[::-1] * 3 + 5
    lookup = tf.lookup.KeyValueTensorInitializer(tf.constant(WORDS), ids)
    inverse = tf.lookup.KeyValueTensorInitializer(ids, tf.constant(WORDS[::-1]))

    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(lookup, -7)
    module.inverse = tf.lookup.StaticHashTable(inverse, "[UNK]")

    def call(words: Any) -> Any:
        numbers = module.table.lookup(words)
        label = tf.gather(names, tf.clip_by_value(numbers, 0, 29))
        return numbers, module.inverse.lookup(numbers), label

    signature = [tf.TensorSpec([None], tf.string, "words")]
    function = tf.function(call, input_signature=signature).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    return bytes(converter.convert())


@pytest.mark.filterwarnings("ignore")  # what TensorFlow says of its own age
def test_converted(tmp_path: Path, converted: bytes) -> None:
    """Words in the order of their ids, the entries of ids, a constant; ids as they are run."""
    import tensorflow as tf

    contents = vocabtool.inspect(write(tmp_path, converted))
    assert contents.warnings == ()
    forward, *constants = contents.vocabularies
    assert (forward.kind, {v.kind for v in constants}) == ("table", {"constant"})
    ids = list(range(5, 5 + 3 * len(WORDS), 3))
    assert (list(forward.stored), forward.id_array().tolist()) == (WORDS[::-1], ids)
    assert [f"label {number}" for number in range(30)] in map(list, constants)
    run = tf.lite.Interpreter(model_content=converted).get_signature_runner()
    outputs = run(words=np.array([*WORDS, b"nonsense"], object))
    looked_up = next(v for v in outputs.values() if v.dtype == np.int64)
    assert [forward.id_of(word) for word in WORDS] == looked_up[:-1].tolist()
    assert forward.unknown == Unknown(int(looked_up[-1])) == Unknown(-7)


def test_string_tensors(tmp_path: Path) -> None:
    """Only buffers that a string tensor refers to are read, each once, with every byte."""
    weights = tensor("weights", 2, schema.TensorType.FLOAT32)
    named = (("input", 0), ("words", 1), ("again", 1), ("few", 3), ("none", 4))
    data = model(
        [weights, *(tensor(*arguments) for arguments in named)],
        [strings(WORDS), strings(WORDS[::-1]), strings(WORDS[:2]), b""],
    )
    contents = vocabtool.inspect(write(tmp_path, data))
    (vocabulary,) = contents.vocabularies
    assert list(vocabulary.stored) == WORDS
    assert (vocabulary.name, vocabulary.kind) == ("words", "constant")
    assert vocabulary.places == (Place("m.tflite", "graph 0, tensor words"),)
    few = Place("m.tflite", "graph 0, tensor few")
    why = "fewer than 10 strings that no table uses"
    assert (contents.passed_over, contents.warnings) == ((("few", 2, few, why),), ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            np.array([-1, 4, 4], "<i4").tobytes(),
            "the list of strings is truncated: wanted 17,179,869,184 bytes",
        ),
        (np.array([1, 12, 13], "<i4").tobytes(), "from 12 to 13; wanted .* between 12 and 12"),
        (np.array([2, 16, 12, 16], "<i4").tobytes(), "ascending offsets between 16 and 16"),
    ],
)
def test_damaged_strings(tmp_path: Path, content: bytes, message: str) -> None:
    """A buffer that contradicts itself is a warning with its tensor's name; others are read."""
    data = model([tensor("bad", 1), tensor("good", 2)], [content, strings(WORDS)])
    contents = vocabtool.inspect(write(tmp_path, data))
    assert [v.name for v in contents.vocabularies] == ["good"]
    (warning,) = contents.warnings
    assert warning.startswith("graph 0, tensor bad: ")
    assert re.search(message, warning)


def test_strings_after_the_model(tmp_path: Path) -> None:
    """In models over 2 GB: not read, which is a warning."""
    made = schema.ModelT.InitFromPackedBuf(model([tensor("words", 1)], [b""]), 0)
    made.buffers[1].offset, made.buffers[1].size = 1_000, 200
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    (warning,) = vocabtool.inspect(write(tmp_path, bytes(builder.Output()))).warnings
    assert "words: a value that is stored after" in warning


def packed(files: dict[str, bytes]) -> bytes:
    """Files as tflite-support packs them: a zip archive, appended to the model."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


MODEL = model([tensor("words", 1)], [strings(WORDS)])


def test_packed_files(tmp_path: Path) -> None:
    """Labels, a vocabulary with ids, one of BERT and a SentencePiece model, told by content."""
    score = b"\x15" + bytes(4)
    piece = field(1, field(1, "▁the".encode()) + score) + field(1, field(1, b"s") + score)
    files = {
        "labels.txt": b"cat\r\ndog\r\n\r\nbird\r\n",
        "vocab": b"<PAD> 0\nthe 1\nof 2\n",
        "bert.txt": b"[PAD]\n[UNK]\nthe\n##s\n",
        "sp.model": piece,
        "photo.png": b"\x89PNG\r\n\x1a\n\0\0",
    }
    contents = vocabtool.inspect(write(tmp_path, MODEL + packed(files)))
    by_name = {vocabulary.name: vocabulary for vocabulary in contents.vocabularies}
    labels, vocab, bert, pieces = (by_name[name] for name in [*files][:4])
    assert list(labels) == ["cat", "dog", "", "bird"]
    assert (labels.name, labels.kind) == ("labels.txt", "asset")
    assert labels.places == (Place("m.tflite", "appended file labels.txt"),)
    assert (list(vocab), vocab.id_array().tolist()) == (["<PAD>", "the", "of"], [0, 1, 2])
    assert (vocab.kind, vocab.notes) == ("table", ("each line has a word and its id",))
    assert (bert.kind, bert.marker, bert.unknown) == ("wordpiece", "##", Unknown(1))
    assert (list(pieces), pieces.kind, pieces.marker) == (["▁the", "s"], "sentencepiece", "▁")
    (passed,) = contents.passed_over
    assert (passed.name, passed.size) == ("photo.png", 0)
    assert passed.why == "not a word list: not text: byte 0x1a at 6"
    assert contents.warnings == ()


def test_hostile_packed_files(tmp_path: Path) -> None:
    """A name that leads out of the archive, or a bomb, is a warning; the model itself is read."""
    for files in ({"../evil": b"cat\n"}, {"zeros": bytes(100 << 20)}):
        contents = vocabtool.inspect(write(tmp_path, MODEL + packed(files)))
        assert ([v.name for v in contents.vocabularies], len(contents.warnings)) == (["words"], 1)


# Tokenizers.


def convert(tokenizer: Any, path: Path) -> Path:
    """A model that makes ids of texts, by TensorFlow's own converter."""
    import tensorflow as tf

    module = tf.Module()
    module.tokenizer = tokenizer
    call = tf.function(
        lambda texts: tokenizer.tokenize(texts).flat_values,
        input_signature=[tf.TensorSpec([None], tf.string)],
    ).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([call], module)
    built_in, select = tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS
    converter.target_spec.supported_ops = [built_in, select]
    converter.allow_custom_ops = True
    path.write_bytes(converter.convert())
    return path


@pytest.fixture
def pieces_of() -> Any:
    """A library of tokenizers, a SentencePiece model, and that model as its owner reads it."""
    text = pytest.importorskip("tensorflow_text", reason="it makes the tokenizer")
    library = pytest.importorskip("sentencepiece", reason="the oracle of the pieces")
    from tests.builders.tensorflow_models import sentencepiece_model

    data = sentencepiece_model()
    return text, data, library.SentencePieceProcessor(model_proto=data)


@pytest.mark.filterwarnings("ignore")
def test_sentencepiece(tmp_path: Path, pieces_of: Any) -> None:
    """The model lies in the NodeDef of an operator of TensorFlow, and cuts texts too."""
    text, data, oracle = pieces_of
    path = convert(text.SentencepieceTokenizer(data), tmp_path / "m.tflite")
    contents = vocabtool.inspect(path)
    assert (contents.passed_over, contents.warnings) == ((), ())
    (pieces,) = contents.vocabularies
    assert list(pieces) == [oracle.id_to_piece(i) for i in range(oracle.get_piece_size())]
    assert (pieces.kind, pieces.unknown) == ("sentencepiece", Unknown(oracle.unk_id()))
    assert pieces.name == "SentenceTokenizerInitializer/SentencepieceOp"
    assert pieces.places == (Place("m.tflite", "graph 0, operator FlexSentencepieceOp"),)
    cut = vocabtool.Words.of(path).pieces("alphagamma")
    assert [pieces.id_of(piece) for piece in cut] == oracle.encode("alphagamma")
    assert survives(path.read_bytes(), tmp_path, every=9_973, flips=300) > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("renamed", [b"", b"TFSentencepieceTokenizeOp"])
def test_fast_sentencepiece(tmp_path: Path, renamed: bytes, pieces_of: Any) -> None:
    """A constant of bytes; tflite-support calls the operator by another name."""
    text, data, oracle = pieces_of
    path = convert(text.FastSentencepieceTokenizer(data), tmp_path / "m.tflite")
    name = b"TFText>FastSentencepieceTokenize"
    if renamed:
        padded = renamed + bytes(len(name) - len(renamed))
        head, tail = (np.int32(len(op)).tobytes() for op in (name, renamed))
        path.write_bytes(path.read_bytes().replace(head + name, tail + padded))
    (pieces,) = vocabtool.inspect(path).vocabularies
    ids = list(range(3, oracle.get_piece_size()))
    assert pieces.id_array().tolist() == ids
    assert list(pieces) == [oracle.id_to_piece(i) for i in ids]


def custom(name: str, options: bytes) -> bytes:
    """A model of one operator that has a name of its own."""
    code, operator, graph = schema.OperatorCodeT(), schema.OperatorT(), schema.SubGraphT()
    code.customCode, code.builtinCode = name, schema.BuiltinOperator.CUSTOM
    operator.opcodeIndex, operator.customOptions = 0, list(options)
    operator.inputs, operator.outputs = [], []
    graph.tensors, graph.operators = [], [operator]
    return finished(graph, operatorCodes=[code])


def flex(*values: Any) -> bytes:
    """A vector as the delegate of TensorFlow's operators writes one."""
    builder = flexbuffers.Builder()
    builder.VectorFromElements(list(values))
    return bytes(builder.Finish())


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("FlexSentencepieceOp", b"\1\2\3\4", "a FlexBuffer that ends 02 03 04, wanted a vector"),
        (
            "FlexSentencepieceOp",
            flex("SentencepieceOp"),
            "the operator does not contain its tokenizer model",
        ),
        (
            "FlexSentencepieceOp",
            flex("SentencepieceOp", ""),
            "the operator does not contain its tokenizer model",
        ),
        (
            "FlexSentencepieceOp",
            flex(1, "SentencepieceOp", b"\x0a\x7f".decode()),
            "field 1 runs 127 bytes past the end of its message (at byte 2)",
        ),
        (
            "TFText>FastSentencepieceTokenize",
            b"",
            "the operator does not contain its tokenizer model",
        ),
        (
            "FlexNobodyKnows",
            bytes(2_000),
            "an unknown operator: its 2,000 bytes may contain words",
        ),
    ],
)
def test_damaged_tokenizers(tmp_path: Path, name: str, options: bytes, why: str) -> None:
    """What is not read of an operator is said, and in which."""
    contents = vocabtool.inspect(write(tmp_path, custom(name, options)))
    assert (contents.vocabularies, contents.passed_over) == ((), ())
    (warning,) = contents.warnings
    assert warning.startswith(f"graph 0, operator {name}: {why}")


def test_real_tokenizers(shared: Path) -> None:
    """Two models of tflite-support's tests; the owners of each layer dig out the oracle's model."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="the oracle of the pieces")
    import tensorflow as tf

    for name, size in (("sentencepiece_tokenizer_flex_op", 1_000), ("wiki40b-lm-en", 32_000)):
        path = shared / f"files/tflite/{name}.tflite"
        operator = schema.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0).Operators(0)
        options = flexbuffers.GetRoot(operator.CustomOptionsAsNumpy().tobytes()).AsVector
        node = tf.compat.v1.NodeDef.FromString(bytes(options[1].AsStringBytes))
        oracle = sentencepiece.SentencePieceProcessor(model_proto=node.attr["model"].s)
        model = vocabtool.inspect(path)
        (pieces,) = model.vocabularies
        assert (model.complete, len(pieces)) == (True, size)
        assert list(pieces) == [oracle.id_to_piece(i) for i in range(oracle.get_piece_size())]


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that is not there is said; too many parts, or buffers on each other, are refused."""
    (warning,) = vocabtool.inspect(write(tmp_path, model([tensor("a", 9)], []))).warnings
    assert "table 9 does not exist: there are only 1" in warning
    path = write(tmp_path, MODEL)
    for bound, message in (
        ("MAX_READ", "buffers of the model overlap"),
        ("MAX_TABLES", "more than 0 tensors and operators"),
    ):
        monkeypatch.setattr(f"vocabtool.formats.tflite.{bound}", 0)
        with pytest.raises(UnsupportedFormat, match=message):
            vocabtool.inspect(path)
