"""Prompts of queries and documents, and cut vectors: what the library of the models does."""

# own process: TensorFlow, PyTorch

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders import onnx_models
from tests.builders.minilm import minilm
from tests.builders.tiny_sentence_transformer import build
from tests.builders.word_piece import tokenizer_of
from tests.encoder_cases import PIECES, lengths, with_ends
from vocabtool import Index, embed, open_encoder
from vocabtool.documents import ReadOptions
from vocabtool.errors import InvalidFile, OtherModel, UnsupportedFormat, VocabtoolError

TEXTS = ["I love to use Xapian", "", "use " * 100, "love"]
SETTINGS = "config_sentence_transformers.json"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of sentence-transformers without settings."""
    pytest.importorskip("sentence_transformers", reason="the oracle is missing")
    return build(tmp_path_factory.mktemp("tiny") / "model")


def state(folder: Path, prompts: Any = None, default: Any = None) -> Path:
    stated = {"prompts": prompts, "default_prompt_name": default}
    (folder / SETTINGS).write_text(json.dumps(stated))
    return folder


def static(folder: Path) -> Path:
    """A static embedding, whose library also writes the files of sentence-transformers."""
    library: Any = pytest.importorskip("model2vec", reason="model2vec is missing")
    rows = np.random.default_rng(6).standard_normal((len(PIECES), 6)).astype(np.float32)
    library.StaticModel(rows, tokenizer_of(PIECES), normalize=True).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("prompts", "default", "asked"),
    [
        ({"query": "love ", "document": "use to "}, None, {}),
        ({"query": "love ", "passage": "use ", "corpus": "to "}, None, {}),
        ({"query": None, "document": "use to "}, None, {}),
        ({"task": "love ", "query": "use "}, "task", {}),
        (
            {"query": "love ", "document": "use "},
            None,
            {"prompt_query": "", "prompt_document": "i "},
        ),
        ({}, None, {"prompt_query": "to use ", "prompt_document": "i "}),
    ],
)
def test_the_prompts_of_the_library(
    tiny: Path, prompts: dict[str, str | None], default: str | None, asked: dict[str, Any]
) -> None:
    """Its own encode_query and encode_document; an option counts more than the file."""
    library: Any = pytest.importorskip("sentence_transformers", reason="the oracle is missing")
    state(tiny, prompts, default)
    # Before version 6.3, the library takes "document" for stated, so "passage" is never used.
    known = {name: text or "" for name, text in prompts.items()}
    known["document"] = known.get("document", known.get("passage", known.get(default or "", "")))
    given = {name.removeprefix("prompt_"): text for name, text in asked.items()}
    oracle = library.SentenceTransformer(str(tiny), prompts=known | given, device="cpu")
    encoder = open_encoder(tiny, **asked)
    for found, wanted in (
        (encoder.encode(TEXTS), oracle.encode_document(TEXTS, show_progress_bar=False)),
        (encoder.encode_queries(TEXTS), oracle.encode_query(TEXTS, show_progress_bar=False)),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert open_encoder(tiny, encoder.options).fingerprint == encoder.fingerprint


def test_cut_vectors_are_those_of_the_library() -> None:
    """MiniLM's, cut and normalised."""
    library: Any = pytest.importorskip("sentence_transformers", reason="the oracle is missing")
    model = minilm()
    oracle = library.SentenceTransformer(str(model), truncate_dim=64, device="cpu")
    encoder = open_encoder(model, dim=64)
    wanted = oracle.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(TEXTS), wanted, rtol=0, atol=1e-6)
    assert "of 384 numbers of a vector the first 64 are kept. Unless" in encoder.notes[-1]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('{"prompts": ["query: "]}', "prompts is a list, wanted an object"),
        ('{"prompts": {}, "default_prompt_name": "a"}', "default_prompt_name is 'a', which is "),
        ("{", "not JSON"),
    ],
)
def test_malformed_settings(tmp_path: Path, settings: str, told: str) -> None:
    """The file is named."""
    model = static(tmp_path)
    (model / SETTINGS).write_text(settings)
    with pytest.raises(InvalidFile, match=told) as caught:
        open_encoder(f"model2vec:{model}")
    assert caught.value.file == str(model / SETTINGS)


def test_what_is_refused() -> None:
    """More numbers than there are, none, and a prompt as long as a book."""
    with pytest.raises(VocabtoolError, match=r"--dim 4: .* only 3 numbers"):
        open_encoder(lengths, dim=4)
    with pytest.raises(ValueError, match="dim must be at least 1, got 0"):
        open_encoder(lengths, dim=0)
    with pytest.raises(VocabtoolError, match="16,385 characters, wanted at most 16,384"):
        open_encoder(lengths, prompt_document="x" * 16_385)
    assert open_encoder(lengths, dim=3, prompt_query="").fingerprint == (
        open_encoder(lengths).fingerprint
    )


def test_each_option_is_part_of_the_fingerprint() -> None:
    """Either prompt and the length; the options open the same encoder again."""
    asked: list[dict[str, Any]] = [
        *({}, {"dim": 2}, {"prompt_query": "a"}, {"prompt_document": "a"}),
        {"prompt_query": "a", "prompt_document": "a"},
    ]
    opened = [open_encoder(lengths, **options) for options in asked]
    assert len({each.fingerprint for each in opened}) == len(asked)
    for encoder in opened:
        again = open_encoder(lengths, encoder.options)
        assert again.fingerprint == encoder.fingerprint
    assert opened[-1].encode(["bc"]).tolist() == [[3, 0, 1]]
    assert opened[2].encode_queries(["bc"]).tolist() == [[3, 0, 1]]
    assert opened[2].encode(["bc"]).tolist() == [[2, 0, 1]]


@pytest.fixture
def onnx(tmp_path: Path) -> Path:
    """A transformer of 9 places, two of them special; its settings lie one folder higher."""
    pytest.importorskip("onnx", reason="onnx, which writes the files, is missing")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    tokenizer = with_ends(PIECES)
    graph = onnx_models.graph(tokenizer.get_vocab_size())
    model = onnx_models.save(tmp_path / "onnx", graph, tokenizer, "onnx/model.onnx")
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    return onnx_models.modules(model, pooling_mode="mean")


def test_prompts_of_an_onnx_model(onnx: Path) -> None:
    """From its folder, as of every local model; also what its settings say of both options."""
    plain = open_encoder(onnx)
    encoder = open_encoder(state(onnx, {"query": "love ", "document": "use to "}))
    again = pickle.loads(pickle.dumps(encoder))
    assert np.array_equal(again.encode(["xapian"]), plain.encode(["use to xapian"]))
    assert np.array_equal(again.encode_queries(["xapian"]), plain.encode(["love xapian"]))
    assert again.fingerprint == encoder.fingerprint != plain.fingerprint
    shown = f"onnx, {plain.dim} numbers"
    assert repr(encoder) == f"<PromptEncoder: {shown}, prompts 'love ' and 'use to '>"
    (onnx / SETTINGS).unlink()
    onnx_models.modules(onnx, pooling_mode="mean", include_prompt=False)
    with pytest.raises(UnsupportedFormat, match="include_prompt is false"):
        open_encoder(onnx, prompt_query="ask: ")


def test_what_is_not_read_after_a_prompt(onnx: Path) -> None:
    """Seven tokens are read, two of them of the prompt; queries have another one."""
    encoder = open_encoder(onnx, prompt_query="i love to use ", prompt_document="use to ")
    assert encoder.max_tokens == 5
    texts = ["love " * 8, "love " * 5, ""]
    vectors, *cut = encoder.encode_counting(texts)
    assert cut == [1, 3, 0]
    assert np.array_equal(vectors, encoder.encode(texts))
    words = "love " * 5
    assert np.array_equal(encoder.encode([words]), encoder.encode([words + "xapian"]))


def test_a_prompt_before_the_longest_text(onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of the text, which a reader of files has checked."""
    text = "love " * 8
    monkeypatch.setattr("vocabtool.tokenization.words.MAX_DOCUMENT_BYTES", len(text))
    encoder = open_encoder(onnx, prompt_document="use to ")
    _, *cut = encoder.encode_counting([text])
    assert cut == [1, 3, 0]


def test_an_open_encoder_with_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its prompts and its length, unless others are asked; so an index finds it again."""
    (tmp_path / "opened_encoders.py").write_text(
        "from tests.encoder_cases import lengths\n"
        "from vocabtool import open_encoder\n"
        "prompted = open_encoder(lengths, prompt_query='ask: ', dim=2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "python:opened_encoders:prompted"
    for text in ("ask: ", "say: "):
        wanted = open_encoder(lengths, prompt_query=text, dim=2).fingerprint
        assert open_encoder(name, prompt_query=text).fingerprint == wanted
    Index.create(tmp_path / "index", name)
    assert Index.open(tmp_path / "index", name).encoder is not None


def noting(texts: list[str]) -> list[list[float]]:
    noted.extend(texts)
    return lengths(texts)


noted: list[str] = []


def test_an_index_keeps_both(tmp_path: Path) -> None:
    """Documents and queries get their own, also when it is opened again; another is refused."""
    asked: dict[str, Any] = {"prompt_query": "ask: ", "prompt_document": "see: ", "dim": 2}
    index = Index.create(tmp_path / "index", noting, **asked)
    file = tmp_path / "texts.txt"
    file.write_text("one\n")
    index.load(file)
    assert (index.configuration.dim, index.configuration.options) == (2, asked)
    again = Index.open(tmp_path / "index", noting)
    noted.clear()
    again.search("two")
    file.write_text("one\nthree\n")
    again.update()
    assert ("ask: two" in noted, noted[-1]) == (True, "see: three")
    others: list[dict[str, Any]] = [{"prompt_query": ""}, {"dim": 3}]
    for other in others:
        ((name, value),) = other.items()
        told = f"--{name.replace('_', '-')} is {value!r}, in the index {asked[name]!r}"
        with pytest.raises(OtherModel, match=told):
            _ = Index.open(tmp_path / "index", noting, **other).encoder
        with pytest.raises(VocabtoolError, match=f"created with other options: {told}"):
            Index.open(tmp_path / "index", **other).load(file)  # although nothing changed


def test_an_index_of_vectors_takes_their_prompts(tmp_path: Path) -> None:
    """Vectors fit a model with the same prompt of documents, whatever that of queries."""
    file = tmp_path / "texts.txt"
    file.write_text("love to use\n")
    model = state(static(tmp_path / "model"), {"query": "love "})
    embed(file, open_encoder(model, dim=1), tmp_path / "vectors")
    for at, (options, fits) in enumerate(
        (({"dim": 1, "prompt_query": "use "}, True), ({"dim": 1, "prompt_document": "i "}, False))
    ):
        asked: Any = options
        index = Index.create(tmp_path / f"index{at}", model, **asked)
        if fits:
            assert index.load(tmp_path / "vectors").added == 1
        else:
            with pytest.raises(OtherModel, match="the options of embed"):
                index.load(tmp_path / "vectors")
    with pytest.raises(ValueError, match="--dim needs --model"):
        Index.create_for(tmp_path / "none", str(tmp_path / "vectors"), read=ReadOptions(), dim=2)


def test_an_index_made_before_the_files_stated_prompts(tmp_path: Path) -> None:
    """It goes on without them; a new one records them."""
    model = static(tmp_path / "model")
    Index.create(tmp_path / "old", model)
    state(model, {"query": "love "})
    Index.create(tmp_path / "new", model)
    for name, prompt in (("old", ""), ("new", "love ")):
        index = Index.open(tmp_path / name)
        assert index.encoder is not None
        assert index.encoder.fingerprint == open_encoder(model, prompt_query=prompt).fingerprint
