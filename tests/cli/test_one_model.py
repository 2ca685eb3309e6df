"""One notion of MODEL: what ``embed`` takes, all commands take, by the same name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders import onnx_models
from tests.builders.word_piece import tokenizer_of
from tests.encoder_cases import MATRIX, PIECES, WORDS, write_vectors
from vocabtool.cli.main import cli
from vocabtool.errors import VocabtoolError

TYPE = "sentence_transformers.models.StaticEmbedding"


def archive(folder: Path) -> str:
    return str(write_vectors(folder / "v.npz", WORDS, MATRIX))


def static(folder: Path, part: str = "", name: str = "embedding.weight") -> str:
    """A folder of sentence-transformers, whose files may be in a part of it."""
    from safetensors.numpy import save_file

    (folder / "model" / part).mkdir(parents=True)
    rows = np.ones((len(PIECES), 3), np.float32)
    save_file({name: rows}, folder / "model" / part / "model.safetensors")
    tokenizer_of(PIECES).save(str(folder / "model" / part / "tokenizer.json"))
    (folder / "model" / "modules.json").write_text(json.dumps([{"type": TYPE, "path": part}]))
    return str(folder / "model")


def model2vec(folder: Path) -> str:
    """A folder of model2vec."""
    model = static(folder, name="embeddings")
    Path(model, "config.json").write_text("{}")
    return model


def onnx(folder: Path, file: str = "onnx/model.onnx") -> str:
    """A folder with a graph."""
    pytest.importorskip("onnx", reason="onnx, which writes the file, is missing")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    graph = onnx_models.graph(len(PIECES))
    return str(onnx_models.save(folder / "model", graph, tokenizer_of(PIECES), file))


MODELS: dict[str, tuple[Callable[[Path], str], str, int]] = {
    "word vectors": (archive, "", 7),
    "static:": (lambda folder: f"static:{archive(folder)}", "", 7),
    "static:#": (lambda folder: f"static:{archive(folder)}", "#words", 7),
    "StaticEmbedding": (static, "", 16),
    "in a part": (lambda folder: static(folder, "0_StaticEmbedding"), "", 16),
    "model2vec": (model2vec, "", 16),
    "model2vec:": (lambda folder: f"model2vec:{model2vec(folder)}", "", 16),
    "ONNX": (onnx, "", 16),
    "ONNX graph": (lambda folder: f"{onnx(folder)}/onnx/model.onnx", "", 16),
    "onnx:": (lambda folder: f"onnx:{onnx(folder, 'onnx/model_int8.onnx')}", "", 16),
    "tensors": (lambda folder: f"{model2vec(folder)}/model.safetensors", "", 16),
}


def run(*arguments: object) -> None:
    cli.main([str(argument) for argument in arguments], standalone_mode=False)


@pytest.mark.parametrize("name", MODELS)
def test_every_command(name: str, tmp_path: Path, capfdbinary: Any) -> None:
    """Vectors, entries, words and unknown words of the same MODEL."""
    make, mark, size = MODELS[name]
    model = make(tmp_path)
    (tmp_path / "corpus.txt").write_text("I love to use lucene\n")
    run("embed", tmp_path / "corpus.txt", "--model", model, "-o", tmp_path / "shards", "--quiet")
    (shard,) = (tmp_path / "shards").glob("*.parquet")
    assert pq.read_table(shard)["unknown"].to_pylist() == [["lucene"]]

    model += mark
    run("inspect", model, "--format", "json")
    (found,) = json.loads(capfdbinary.readouterr().out)["vocabularies"]
    assert found["size"] == size
    run("extract", model, "-o", tmp_path / "words.json")
    run("diff", model, tmp_path / "words.json", "-o", tmp_path / "diff.json")
    told = json.loads((tmp_path / "diff.json").read_bytes())
    assert (told["common"], told["only_a"], told["only_b"]) == (size, 0, 0)
    run("oov", model, tmp_path / "corpus.txt", "-o", tmp_path / "oov.json")
    report = json.loads((tmp_path / "oov.json").read_bytes())
    assert [word["word"] for word in report["unknown_words"]] == ["lucene"]
    capfdbinary.readouterr()
    run("words", model, "love lucene", "--format", "json")
    shown = capfdbinary.readouterr().out
    assert b'"lucene"' in shown
    assert (b"guessed" in shown) is (size == 7)


def test_a_callable() -> None:
    """It has vectors and no words; why not is said."""
    with pytest.raises(VocabtoolError, match="a callable has no vocabulary"):
        run("inspect", "python:package.module:encode")
