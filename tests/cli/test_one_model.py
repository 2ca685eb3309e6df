"""One notion of MODEL: what ``embed`` takes, all commands take, by the same name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import onnx_models
from tests.builders.word_piece import tokenizer_of
from tests.cli.running import errors, output
from tests.cli.test_index_commands import answer
from tests.encoder_cases import MATRIX, PIECES, WORDS, write_vectors

TYPE = "sentence_transformers.models.StaticEmbedding"


def static(folder: Path, part: str = "", name: str = "embedding.weight") -> str:
    """A folder of sentence-transformers, whose files may be in a part of it."""
    from safetensors.numpy import save_file

    (folder / "model" / part).mkdir(parents=True)
    rows = np.ones((len(PIECES), 3), np.float32)
    save_file({name: rows}, folder / "model" / part / "model.safetensors")
    tokenizer_of(PIECES).save(str(folder / "model" / part / "tokenizer.json"))
    (folder / "model" / "modules.json").write_text(json.dumps([{"type": TYPE, "path": part}]))
    return str(folder / "model")


def model_of(name: str, folder: Path) -> str:
    """A MODEL, written in one of the ways that all commands take."""
    kind, _, file = name.partition(" ")
    if kind in ("vectors", "static:"):
        path = str(write_vectors(folder / "v.npz", WORDS, MATRIX))
        return path if kind == "vectors" else f"static:{path}{file}"
    if kind == "StaticEmbedding":
        return static(folder, file)
    if kind.startswith("model2vec"):
        model = static(folder, name="embeddings")
        Path(model, "config.json").write_text("{}")
        return f"model2vec:{model}" if kind == "model2vec:" else model + file
    pytest.importorskip("onnx", reason="onnx, which writes the file, is missing")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    where = "onnx/model_int8.onnx" if kind == "onnx:" else "onnx/model.onnx"
    graph = onnx_models.graph(len(PIECES))
    made = onnx_models.save(folder / "model", graph, tokenizer_of(PIECES), where)
    return f"onnx:{made}" if kind == "onnx:" else f"{made}{file}"


@pytest.mark.parametrize(
    "name",
    [
        *("vectors", "static:", "static: #words", "StaticEmbedding", "StaticEmbedding 0_Static"),
        *("model2vec", "model2vec:", "model2vec /model.safetensors"),
        *("ONNX", "ONNX /onnx/model.onnx", "onnx:"),
    ],
)
def test_every_command(name: str, tmp_path: Path) -> None:
    """Vectors, entries, words and unknown words of the same MODEL."""
    model = model_of(name, tmp_path)
    size = len(WORDS if "v.npz" in model else PIECES)
    corpus, shards, words = (tmp_path / name for name in ("corpus.txt", "shards", "words.json"))
    corpus.write_text("I love to use lucene\n")
    output("embed", corpus, "--model", model.partition("#")[0], "-o", shards, "--quiet")
    (shard,) = shards.glob("*.parquet")
    assert pq.read_table(shard)["unknown"].to_pylist() == [["lucene"]]
    (found,) = answer("inspect", model)["vocabularies"]
    assert found["size"] == size
    output("extract", model, "-o", words)
    diff = answer("diff", model, words)
    assert (diff["common"], diff["only_a"], diff["only_b"]) == (size, 0, 0)
    assert [word["word"] for word in answer("oov", model, corpus)["unknown_words"]] == ["lucene"]
    shown = output("words", model, "love lucene", "--format", "json")
    assert '"lucene"' in shown
    assert ("guessed" in shown) is ("v.npz" in model)


def test_a_callable() -> None:
    """It has vectors and no words; why not is said."""
    message = errors("inspect", "python:package.module:encode")
    assert "a callable has no vocabulary" in message
