"""Each format goes through every command: one contract, held for all readers.

What each reader makes of its format in detail is in its own test file. Files are written by the
library that owns the format where it is small; TF.js is spelled out, its converter is not there.
"""

# own process: TensorFlow

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vocabtool
from tests.formats.test_json_formats import string_tensor
from tests.formats.test_word_vectors import fast_text
from tests.reader_checks import survives, written
from vocabtool.cli.main import cli
from vocabtool.errors import VocabtoolError

WORDS: Final = "the of and cat dog sat mat on house tree river stone".split()  # noqa: SIM905
ENCODED: Final = [word.encode() for word in WORDS]
WHY: Final = "it writes the file"
Writer = Callable[[Path], Path]


def lines(words: Iterable[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


def holding(name: str, data: object) -> Writer:
    """A file of bytes, or of JSON."""
    return lambda folder: written(folder, data, name)


def gguf_file(folder: Path) -> Path:
    library = pytest.importorskip("gguf", reason=WHY)
    writer = library.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return folder / "model.gguf"


def onnx_of(op: str, domain: str, **attributes: Any) -> Writer:
    def write(folder: Path) -> Path:
        pytest.importorskip("onnx", reason=WHY)
        from tests.formats import test_onnx

        graph = test_onnx.graph(test_onnx.node(op, "", domain, **attributes))
        test_onnx.onnx.save(test_onnx.onnx.helper.make_model(graph), folder / "m.onnx")
        return folder / "m.onnx"

    return write


def tflite_file(folder: Path) -> Path:
    pytest.importorskip("tensorflow", reason="its schema writes the file")
    from tests.formats.test_tflite import model, strings, tensor

    return written(folder, model([tensor("words", 1)], [strings(ENCODED)]), "m.tflite")


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


def vocab_json(folder: Path) -> Path:
    written(folder, b"#version: 0.2\nt he\n", "merges.txt")
    return written(folder, FROM_0, "vocab.json")


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


def word2vec(*, binary: bool) -> Writer:
    def write(folder: Path) -> Path:
        models = pytest.importorskip("gensim.models", reason=WHY)
        vectors = models.KeyedVectors(4)
        vectors.add_vectors(WORDS, np.full((len(WORDS), 4), 0.25, np.float32))
        vectors.save_word2vec_format(str(folder / "vectors"), binary=binary)
        return folder / "vectors"

    return write


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
    written(folder, lines(WORDS), "v.txt")
    return folder / "v.npy"


def exported(ending: str) -> Writer:
    """A file of our own."""

    def write(folder: Path) -> Path:
        words = vocabtool.extract(written(folder, lines(WORDS), "words"))
        vocabtool.save(words, folder / f"own.{ending}")
        return folder / f"own.{ending}"

    return write


def several(folder: Path) -> Path:
    """A folder with a tokenizer, the same words as a list, and what is no vocabulary."""
    tokenizer_file(folder)
    written(folder, lines(PIECES), "vocab.txt")
    written(folder, b'{"model_type": "bert"}', "config.json")
    return folder


PIECES: Final = ["[PAD]", "[UNK]", *WORDS, "##s", "##ly"]
FROM_0: Final = {word: number for number, word in enumerate(WORDS)}
FROM_1: Final = {word: number for number, word in enumerate(WORDS, 1)}
TOKENS: Final = [*(bytes([byte]) for byte in range(256)), *ENCODED]
RANKS: Final = [f"{b64encode(token).decode()} {rank}" for rank, token in enumerate(TOKENS)]
TENSOR: Final = {"value": {"tensor": string_tensor(WORDS)}}
CONSTANT: Final = {"name": "words", "op": "Const", "attr": TENSOR}
FORMATS: Final[dict[str, Writer]] = {
    "GGUF": gguf_file,
    "ONNX": onnx_of(
        "LabelEncoder", "ai.onnx.ml", keys_strings=WORDS, values_int64s=list(FROM_0.values())
    ),
    "ONNX extension": onnx_of("BertTokenizer", "ai.onnx.contrib", vocab_file="\n".join(WORDS)),
    "TFLite": tflite_file,
    "Keras archive": keras_file,
    "tokenizer.json": tokenizer_file,
    "Keras tokenizer": holding(
        "keras.json", {"class_name": "Tokenizer", "config": {"word_index": json.dumps(FROM_1)}}
    ),
    "word_index": holding("word_index.json", {"word_index": FROM_1}),
    "words with ids": holding("vocab.txt", lines(f"{w} {FROM_0[w]}" for w in reversed(WORDS))),
    "vocab.json": vocab_json,
    "vocab.txt": holding("vocab.txt", lines(PIECES)),
    "word list": holding("words", lines(WORDS)),
    "SentencePiece": sentencepiece_file,
    "tiktoken": holding("m.tiktoken", lines(RANKS)),
    "GloVe": holding("glove.txt", lines(f"{word} 0.25 -0.5 1.5" for word in WORDS)),
    "word2vec text": word2vec(binary=False),
    "word2vec binary": word2vec(binary=True),
    "fastText": holding("m.bin", fast_text(tuple((word, 0) for word in ENCODED))),
    "spaCy": spacy_file,
    "spaCy pipeline": spacy_pipeline,
    "npz": npz_file,
    "npy": npy_file,
    "TF.js": holding(
        "model.json", {"format": "graph-model", "modelTopology": {"node": [CONSTANT]}}
    ),
    "own JSON": exported("json"),
    "own CSV": exported("csv"),
    "own Parquet": exported("parquet"),
    "folder": several,
}

CUT_UP: Final = ("GGUF", "ONNX extension", "vocab.json", "vocab.txt", "tiktoken")


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

    run("diff", model, out / "words.json", "-o", out / "diff.json")
    told = json.loads((out / "diff.json").read_bytes())
    assert (told["common"] > 1, told["only_a"], told["only_b"]) == (True, 0, 0)

    (out / "corpus.txt").write_text("the cat xapian\nthe dog\n", "utf-8")
    if name in CUT_UP:  # a rule of whole words would find few of them
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
    "Keras tokenizer, encoded twice": json.dumps({"config": {"word_index": '{"a": 1, "b": 2}'}}),
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
