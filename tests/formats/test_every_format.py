"""Each format goes through every command: one contract, held for all readers.

What each reader makes of its format in detail is in its own test file. Files are written by the
library that owns the format where it is small; TF.js is spelled out, its converter is not there.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vocabtool
from tests.formats.test_json_formats import string_tensor
from tests.reader_checks import survives
from vocabtool.cli.main import cli
from vocabtool.errors import VocabtoolError

WORDS: Final = [
    *("the", "of", "and", "cat", "dog", "sat", "mat", "on", "house", "tree", "river", "stone")
]
ENCODED: Final = [word.encode() for word in WORDS]
WHY: Final = "it writes the file"


def gguf_file(folder: Path) -> Path:
    library = pytest.importorskip("gguf", reason=WHY)
    writer = library.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return folder / "model.gguf"


def onnx_file(folder: Path) -> Path:
    encoded = {"keys_strings": WORDS, "values_int64s": list(range(len(WORDS)))}
    return onnx_of_node(folder, "LabelEncoder", "ai.onnx.ml", **encoded)


def onnx_extension(folder: Path) -> Path:
    lines = "\n".join(f"{word}\t{number}" for number, word in enumerate(WORDS))
    return onnx_of_node(folder, "StringToVector", "ai.onnx.contrib", map=lines, unk="-1")


def onnx_of_node(folder: Path, op: str, domain: str, **attributes: Any) -> Path:
    library = pytest.importorskip("onnx", reason=WHY)
    helper = library.helper
    encoder = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
    given = helper.make_tensor_value_info("x", library.TensorProto.STRING, [None])
    made = helper.make_tensor_value_info("y", library.TensorProto.INT64, [None])
    library.save(
        helper.make_model(helper.make_graph([encoder], "g", [given], [made])), folder / "m.onnx"
    )
    return folder / "m.onnx"


def tflite_file(folder: Path) -> Path:
    pytest.importorskip("tensorflow", reason="its schema writes the file")
    from tests.formats.test_tflite import model, strings, tensor

    encoded = strings([word.encode() for word in WORDS])
    (folder / "m.tflite").write_bytes(model([tensor("words", 1)], [encoded]))
    return folder / "m.tflite"


def keras_file(folder: Path) -> Path:
    pytest.importorskip("tensorflow", reason="Keras' lookup layers are TensorFlow's")
    keras = pytest.importorskip("keras", reason=WHY)
    given = keras.Input((1,), dtype="string")
    layer = keras.layers.StringLookup(vocabulary=WORDS)
    keras.Model(given, layer(given)).save(folder / "m.keras")
    return folder / "m.keras"


def tokenizer_file(folder: Path) -> Path:
    import tokenizers as library

    words = {word: number for number, word in enumerate(["[UNK]", *WORDS])}
    made = library.Tokenizer(library.models.WordLevel(words, "[UNK]"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def keras_tokenizer(folder: Path) -> Path:
    index = json.dumps({word: number for number, word in enumerate(WORDS, 1)})
    document = {"class_name": "Tokenizer", "config": {"word_index": index}}
    (folder / "keras.json").write_text(json.dumps(document), "utf-8")
    return folder / "keras.json"


def word_index(folder: Path) -> Path:
    index = {word: number for number, word in enumerate(WORDS, 1)}
    (folder / "word_index.json").write_text(json.dumps({"word_index": index}), "utf-8")
    return folder / "word_index.json"


def words_with_ids(folder: Path) -> Path:
    lines = [f"{word} {number}\n" for number, word in enumerate(WORDS)]
    (folder / "vocab.txt").write_text("".join(reversed(lines)), "utf-8")
    return folder / "vocab.txt"


def vocab_json(folder: Path) -> Path:
    words = {word: number for number, word in enumerate(WORDS)}
    (folder / "vocab.json").write_text(json.dumps(words), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nt he\n", "utf-8")
    return folder / "vocab.json"


def vocab_txt(folder: Path) -> Path:
    lines = ["[PAD]", "[UNK]", *WORDS, "##s", "##ly"]
    (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder / "vocab.txt"


def word_list(folder: Path) -> Path:
    (folder / "words").write_text("".join(f"{word}\n" for word in WORDS), "utf-8")
    return folder / "words"


def sentencepiece_file(folder: Path) -> Path:
    library = pytest.importorskip("sentencepiece", reason=WHY)
    written = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS)] * 50),
        model_writer=written,
        model_type="word",
        vocab_size=len(WORDS) + 3,
        minloglevel=2,
    )
    (folder / "m.model").write_bytes(written.getvalue())
    return folder / "m.model"


def tiktoken_file(folder: Path) -> Path:
    tokens = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)]
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
    (folder / "m.tiktoken").write_bytes(b"".join(lines))
    return folder / "m.tiktoken"


def keyed_vectors() -> Any:
    models = pytest.importorskip("gensim.models", reason=WHY)
    vectors = models.KeyedVectors(4)
    vectors.add_vectors(WORDS, np.full((len(WORDS), 4), 0.25, np.float32))
    return vectors


def glove_file(folder: Path) -> Path:
    (folder / "glove.txt").write_text("".join(f"{word} 0.25 -0.5 1.5\n" for word in WORDS))
    return folder / "glove.txt"


def word2vec_text(folder: Path) -> Path:
    keyed_vectors().save_word2vec_format(str(folder / "m.vec"), binary=False)
    return folder / "m.vec"


def word2vec_binary(folder: Path) -> Path:
    keyed_vectors().save_word2vec_format(str(folder / "m.bin"), binary=True)
    return folder / "m.bin"


def fasttext_file(folder: Path) -> Path:
    from tests.formats.test_fasttext_bin import model

    (folder / "m.bin").write_bytes(model(tuple((word.encode(), 0) for word in WORDS)))
    return folder / "m.bin"


def spacy_file(folder: Path) -> Path:
    library = pytest.importorskip("spacy.strings", reason=WHY)
    library.StringStore(WORDS).to_disk(folder / "strings.json")
    return folder / "strings.json"


def spacy_pipeline(folder: Path) -> Path:
    nlp = pytest.importorskip("spacy", reason=WHY).blank("en")
    for word in WORDS:
        nlp.vocab.set_vector(word, np.ones(3, np.float32))
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


def npz_file(folder: Path) -> Path:
    np.savez(folder / "v.npz", words=np.array(WORDS), vectors=np.eye(len(WORDS)))
    return folder / "v.npz"


def npy_file(folder: Path) -> Path:
    np.save(folder / "v.npy", np.eye(len(WORDS)))
    (folder / "v.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    return folder / "v.npy"


def tfjs_file(folder: Path) -> Path:
    tensor = {"value": {"tensor": string_tensor(WORDS)}}
    constant = {"name": "words", "op": "Const", "attr": tensor}
    document = {"format": "graph-model", "modelTopology": {"node": [constant]}}
    (folder / "model.json").write_text(json.dumps(document), "utf-8")
    return folder / "model.json"


def exported(ending: str) -> Callable[[Path], Path]:
    """A file of our own."""

    def write(folder: Path) -> Path:
        vocabtool.save(vocabtool.extract(word_list(folder)), folder / f"own.{ending}")
        return folder / f"own.{ending}"

    return write


def several(folder: Path) -> Path:
    """A folder with a tokenizer, the same words as a list, and what is no vocabulary."""
    tokenizer_file(folder)
    vocab_txt(folder)
    (folder / "config.json").write_text('{"model_type": "bert"}', "utf-8")
    return folder


FORMATS: Final[dict[str, Callable[[Path], Path]]] = {
    "GGUF": gguf_file,
    "ONNX": onnx_file,
    "ONNX extension": onnx_extension,
    "TFLite": tflite_file,
    "Keras archive": keras_file,
    "tokenizer.json": tokenizer_file,
    "Keras tokenizer": keras_tokenizer,
    "word_index": word_index,
    "words with ids": words_with_ids,
    "vocab.json": vocab_json,
    "vocab.txt": vocab_txt,
    "word list": word_list,
    "SentencePiece": sentencepiece_file,
    "tiktoken": tiktoken_file,
    "GloVe": glove_file,
    "word2vec text": word2vec_text,
    "word2vec binary": word2vec_binary,
    "fastText": fasttext_file,
    "spaCy": spacy_file,
    "spaCy pipeline": spacy_pipeline,
    "npz": npz_file,
    "npy": npy_file,
    "TF.js": tfjs_file,
    "own JSON": exported("json"),
    "own CSV": exported("csv"),
    "own Parquet": exported("parquet"),
    "folder": several,
}

PIECES: Final = ("GGUF", "vocab.json", "vocab.txt", "tiktoken", "folder")


def run(*arguments: object) -> None:
    cli.main([str(argument) for argument in arguments], standalone_mode=False)


@pytest.mark.parametrize("name", FORMATS)
def test_every_command_takes_it(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """inspect, extract, diff and oov agree on what a file holds."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    model = FORMATS[name](source)
    vocabulary = vocabtool.extract(model)
    mark = (vocabulary.marker or "").encode()
    unmarked = [entry.removeprefix(mark) for entry in vocabulary.stored]
    held = sorted(word for word in unmarked if word in ENCODED)
    assert held == sorted(ENCODED)  # each once; spaCy and SentencePiece put them in another order
    capfdbinary.readouterr()

    run("inspect", model, "--format", "json")
    shown = json.loads(capfdbinary.readouterr().out)
    facts = {found["name"]: found for found in shown["vocabularies"]}[vocabulary.name]
    assert (facts["size"], facts["sha256"]) == (len(vocabulary), vocabulary.sha256)

    run("extract", model, "-o", out / "words.json")
    assert vocabtool.read(out / "words.json") == vocabulary

    (out / "others.txt").write_text("the\nof\nxapian\n", "utf-8")
    run("diff", model, out / "others.txt", "--fold", "markers", "-o", out / "diff.json")
    told = json.loads((out / "diff.json").read_bytes())
    assert (told["common"], told["only_b"]) == (2, 1)

    (out / "corpus.txt").write_text("the cat xapian\nthe dog\n", "utf-8")
    if name in PIECES:  # a rule of whole words would find few of them
        with pytest.raises(VocabtoolError, match="--rule tokenizer:FILE"):
            run("oov", model, out / "corpus.txt", "--rule", "whitespace")
        return
    rule = () if name in ("SentencePiece", "Keras tokenizer") else ("--rule", "whitespace")
    run("oov", model, out / "corpus.txt", *rule, "-o", out / "oov.json")
    report = json.loads((out / "oov.json").read_bytes())
    assert report["tokens"] == {"all": 5, "unknown": 1, "unknown_rate": 0.2}
    assert [word["word"] for word in report["unknown_words"]] == ["xapian"]


MORE: Final[dict[str, object]] = {
    "scored pieces": [[word, -1.5] for word in WORDS],
    "tekken.json": {
        "config": {"default_vocab_size": 4, "default_num_special_tokens": 2, "version": "v13"},
        "vocab": [{"rank": 0, "token_bytes": "IQ=="}, {"rank": 1, "token_bytes": "Ig=="}],
        "special_tokens": [{"rank": 0, "token_str": "<s>"}],
    },
    "JSON of ranks": {"special_tokens": {"<s>": 0}, "bpe_ranks": "! 1 IQ== Ig==\n! 5 Iw=="},
    "Keras tokenizer, encoded twice": json.dumps({"config": {"word_index": '{"a": 1, "b": 2}'}}),
    "RWKV": b"1 'the' 3\n2 b'\\xff' 1\n3 'x' 1\n",
}


@pytest.mark.parametrize("name", [*FORMATS, *MORE])
def test_damaged(name: str, tmp_path: Path, full: bool) -> None:
    """Cut short and with bits flipped: a result or our own error."""
    held = MORE.get(name)
    data = held if isinstance(held, bytes) else json.dumps(held).encode()
    if held is None:
        path = FORMATS[name](tmp_path)
        data = path.read_bytes() if path.is_file() else b""  # or a folder
    flips = 2000 if full else 200
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "damaged.txt").write_text("\n".join(WORDS))  # beside a .npy
    fine = survives(data, tmp_path / "damaged", every=1 + len(data) // 200, flips=flips)
    assert fine > 0 or not data
