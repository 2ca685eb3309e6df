"""How many tokens a model reads, by its files, and what a limit cuts off, as the libraries cut."""

# own process: transformers

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders.word_piece import tokenizer_of
from tests.tokenization.test_hf_words import MAKERS
from vocabtool import OovCounter, TokenLimit, Words
from vocabtool.errors import InvalidFile, VocabtoolError

tokenizers = pytest.importorskip("tokenizers", reason="the oracle")

ENTRIES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "lin", "##al", "##g", "num", "##py", "日")
TEXTS = [
    *("a b linalg numpy a", "", " ", "a", "linalg linalg linalg", "a" * 200, "b 日本 a\t\nnumpy!"),
    *("numpy " * 40, "a linalg b c numpy d linalg", "é " * 9 + "linalg", "a\0b 😀 numpy"),
]
NONE = {"model_max_length": 1e30}
SENTENCE, TOKENIZER = "sentence_bert_config.json", "tokenizer_config.json"
PLACES = "config.json: max_position_embeddings"
XLM = {"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 3}


def made(special: bool = True) -> Any:
    """A tokenizer that puts [CLS] before a text and [SEP] behind it."""
    found = tokenizer_of(ENTRIES)
    if special:
        ends = [("[CLS]", 2), ("[SEP]", 3)]
        found.post_processor = tokenizers.processors.TemplateProcessing(
            "[CLS] $A [SEP]", special_tokens=ends
        )
    return found


def limit_in(folder: Path, places: int | None = None) -> TokenLimit | None:
    return TokenLimit.of(folder, Words.of(folder / "tokenizer.json"), places)


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        folder.joinpath(name).write_text(json.dumps(content))


# Where the limit is stated


@pytest.mark.parametrize(
    ("files", "places", "source"),
    [
        ({}, None, ""),
        (
            {SENTENCE: {"max_seq_length": 20}, TOKENIZER: {"model_max_length": 12}},
            *(20, f"{SENTENCE}: max_seq_length"),
        ),
        (
            {SENTENCE: {"max_seq_length": None}, TOKENIZER: {"model_max_length": 12}},
            *(12, f"{TOKENIZER}: model_max_length"),
        ),
        ({TOKENIZER: NONE}, None, ""),
        ({TOKENIZER: NONE, "config.json": {"max_position_embeddings": 40}}, 40, PLACES),
        (
            {TOKENIZER: {"model_max_length": 39}, "config.json": {"max_position_embeddings": 40}},
            *(39, f"{TOKENIZER}: model_max_length"),
        ),
        ({"config.json": {"max_position_embeddings": -1}}, None, ""),
        ({"config.json": {"n_positions": 40}}, 40, "config.json: n_positions"),
        ({"config.json": {"n_positions": 40, "relative_attention_num_buckets": 32}}, None, ""),
        (
            {"config.json": {"model_type": "roberta", "max_position_embeddings": 514}},
            *(512, PLACES),
        ),
        ({"config.json": XLM}, *(510, PLACES)),
    ],
)
def test_files(files: dict[str, Any], places: int | None, source: str, tmp_path: Path) -> None:
    """The first file that states a limit; absurd numbers are none; another one may be given."""
    made().save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, files)
    wanted = None if places is None else TokenLimit(places, 2, source=source)
    assert limit_in(tmp_path) == wanted
    assert limit_in(tmp_path, 7) == TokenLimit(7, 2, source="--limit")
    for model in (tmp_path / "tokenizer.json", str(tmp_path)):
        assert TokenLimit.of(model, Words.of(model)) == wanted
    truncated = made()
    truncated.enable_truncation(9)
    truncated.save(str(tmp_path / "tokenizer.json"))
    otherwise = TokenLimit(9, 2, source="tokenizer.json: truncation")
    assert limit_in(tmp_path) == (wanted or otherwise)


def test_subfolder(tmp_path: Path) -> None:
    """Beside a graph in the folder ``onnx``, and one folder higher."""
    (tmp_path / "onnx").mkdir()
    made().save(str(tmp_path / "onnx" / "tokenizer.json"))
    write(tmp_path, {SENTENCE: {"max_seq_length": 20}})
    write(tmp_path / "onnx", {TOKENIZER: {"model_max_length": 12}})
    assert limit_in(tmp_path / "onnx") == TokenLimit(20, 2, source=f"{SENTENCE}: max_seq_length")


@pytest.mark.parametrize("direction", ["left", "right"])
def test_side(direction: str, tmp_path: Path) -> None:
    """The side that is cut off is that of the settings, else of the tokenizer."""
    tokenizer = made(special=False)
    tokenizer.enable_truncation(9, direction=direction)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    wanted = TokenLimit(9, 0, direction == "left", "tokenizer.json: truncation")
    assert limit_in(tmp_path) == wanted
    write(tmp_path, {TOKENIZER: {"truncation_side": "left"}})
    found = limit_in(tmp_path)
    assert found is not None
    assert found.cuts_start
    assert limit_in(tmp_path, 5) == TokenLimit(5, 0, True, "--limit")
    (tmp_path / TOKENIZER).write_text("{")  # damaged: a given limit does not need it
    assert limit_in(tmp_path, 5) == TokenLimit(5, 0, direction == "left", "--limit")


def test_whole_words(tmp_path: Path) -> None:
    """Words of a list have no limit, whatever lies beside it; a limit of one's own counts words."""
    (tmp_path / "words.txt").write_text("a\nb\n")
    write(tmp_path, {"config.json": {"max_position_embeddings": 3}})
    words = Words.of(tmp_path / "words.txt", rule="lower")
    assert TokenLimit.of(tmp_path / "words.txt", words) is None
    assert TokenLimit.of(tmp_path / "words.txt", words, 2) == TokenLimit(2, source="--limit")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (SENTENCE, '{"max_seq_length": "256"}', "max_seq_length is '256', wanted a number"),
        ("config.json", '{"max_position_embeddings": true}', "max_position_embeddings is 'True'"),
        ("config.json", "{", "not JSON"),
        (TOKENIZER, '{"truncation_side": "up"}', "truncation_side is 'up', wanted left or right"),
    ],
)
def test_damage(name: str, content: str, told: str, tmp_path: Path) -> None:
    """A damaged file is named, unless a limit is given."""
    made().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / name).write_text(content, errors="surrogateescape")
    with pytest.raises(InvalidFile, match=told) as raised:
        limit_in(tmp_path)
    assert name in str(raised.value)
    assert limit_in(tmp_path, 5) == TokenLimit(5, 2, source="--limit")


def test_too_large(tmp_path: Path) -> None:
    """Settings are read up to a size."""
    made().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_bytes(b"{" + b" " * (1 << 24) + b"}")
    with pytest.raises(VocabtoolError, match=r"config\.json: settings of more than"):
        limit_in(tmp_path)


def test_roberta_runs_that_far(tmp_path: Path) -> None:
    """The limit is the most tokens that transformers' own model takes; one more is an error."""
    torch = pytest.importorskip("torch")
    library: Any = pytest.importorskip("transformers")
    size = {"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1, "vocab_size": 9}
    config = library.RobertaConfig(max_position_embeddings=14, num_attention_heads=1, **size)
    config.save_pretrained(tmp_path)
    made().save(str(tmp_path / "tokenizer.json"))
    limit = limit_in(tmp_path)
    assert limit == TokenLimit(12, 2, source=PLACES)
    model = library.RobertaModel(config).eval()
    model(torch.full((1, limit.places), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, limit.places + 1), 5))


@pytest.mark.parametrize(
    "settings",
    [
        {SENTENCE: {"max_seq_length": 20}},
        {TOKENIZER: {"model_max_length": 30}},
        {SENTENCE: {"max_seq_length": 600}, TOKENIZER: {"model_max_length": 30}},
        {},
    ],
)
def test_sentence_transformers(settings: dict[str, Any], tmp_path: Path) -> None:
    """As the library states it, and as it cuts; the encoder and ``oov`` agree."""
    library: Any = pytest.importorskip("sentence_transformers")
    from tests.builders.tiny_sentence_transformer import build
    from vocabtool import open_encoder

    folder = build(tmp_path / "model")
    for name, values in settings.items():
        file = folder / name
        held = json.loads(file.read_text()) if file.is_file() else {}
        file.write_text(json.dumps(held | values))
    wanted = library.SentenceTransformer(str(folder), device="cpu")
    encoder = open_encoder(folder)
    assert encoder.words is not None
    limit = TokenLimit.of(folder, encoder.words)
    assert limit is not None
    assert (limit.places, limit.special) == (wanted.max_seq_length, 2)
    assert encoder.max_tokens == limit.tokens
    read = wanted.tokenize(["love " * 999])["input_ids"].shape[1]
    assert read == limit.places


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("style", ["model2vec", "sentence-transformers"])
def test_static_embeddings(style: str, side: str, tmp_path: Path) -> None:
    """No special tokens, and the limit of the encoder; model2vec always cuts the end."""
    from vocabtool import open_encoder

    numbers = np.eye(len(ENTRIES), dtype=np.float32)
    truncated = made()
    truncated.enable_truncation(8, direction=side)
    if style == "model2vec":
        library: Any = pytest.importorskip("model2vec")
        library.StaticModel(numbers, truncated, max_length=8).save_pretrained(tmp_path)
        source = "config.json: max_length"
    else:
        library = pytest.importorskip("sentence_transformers")
        modules: Any = pytest.importorskip("sentence_transformers.models")
        static = modules.StaticEmbedding(truncated, embedding_weights=numbers)
        library.SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path))
        source = "tokenizer.json: truncation"
    encoder = open_encoder(tmp_path)
    assert encoder.words is not None
    assert encoder.kind == "model2vec"
    limit = TokenLimit.of(tmp_path, encoder.words)
    cuts_start = side == "left" and style != "model2vec"
    assert limit == TokenLimit(8, 0, cuts_start, source)
    assert encoder.max_tokens == 8
    texts = ["b " * 9 + "a " * 8, ("a " if cuts_start else "b ") * 8]
    assert np.array_equal(*encoder.encode(texts))


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json"])
def test_special_tokens_of_folders(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Folders without a tokenizer.json: BERT and RoBERTa put two tokens around a text."""
    if name == "vocab.txt":
        (tmp_path / name).write_text("\n".join(ENTRIES) + "\n")
        write(tmp_path, {TOKENIZER: {"tokenizer_class": "BertTokenizer", "model_max_length": 9}})
    else:
        source = request.getfixturevalue("shared") / "files" / "roberta"
        for file in ("vocab.json", "merges.txt"):
            (tmp_path / file).write_bytes((source / file).read_bytes())
        write(tmp_path, {TOKENIZER: {"tokenizer_class": "RobertaTokenizer", "model_max_length": 9}})
    limit = TokenLimit.of(tmp_path, Words.of(tmp_path))
    assert limit == TokenLimit(9, 2, source=f"{TOKENIZER}: model_max_length")


# What is cut off

SEVERAL = "Unigram without pre-tokenizer"  # words in a pre-token


def counted(words: Words, limit: TokenLimit, texts: list[str]) -> tuple[Any, set[str]]:
    """Return what is cut off, and the unknown and split words that are never read."""
    counter = OovCounter(words, limit=limit)
    counter.count([texts])
    report = counter.report()
    assert report.cut is not None
    return report.cut, {word.word for word in report.cut_words()}


def test_whole_words_are_cut(tmp_path: Path) -> None:
    """Texts, tokens cut off and all tokens are counted in words."""
    (tmp_path / "words.txt").write_text("a\nb\n")
    words = Words.of(tmp_path / "words.txt", rule="lower")
    cut, never_read = counted(words, TokenLimit(2), ["a b c", "a b"])
    assert cut[1:] == (1, 1, 5)
    assert never_read == {"c"}


@pytest.mark.parametrize("cuts_start", [False, True])
@pytest.mark.parametrize("places", [1, 2, 3, 4, 6, 9, 30, 1_000])
@pytest.mark.parametrize("kind", ["special", "plain", "byte-level BPE", SEVERAL])
def test_as_the_library_cuts(kind: str, places: int, cuts_start: bool, tmp_path: Path) -> None:
    """Texts that are too long, tokens cut off, and the words of which every token is left."""
    library = MAKERS[kind]() if kind in MAKERS else made(kind == "special")
    library.save(str(tmp_path / "tokenizer.json"))
    special = library.num_special_tokens_to_add(False)
    limit = TokenLimit(places, special, cuts_start)
    words = Words.of(tmp_path / "tokenizer.json")
    most = max(places - special, 0)
    assert limit.tokens == most
    cut, never_read = counted(words, limit, TEXTS)
    encoded = [library.encode(text, add_special_tokens=False) for text in TEXTS]
    lengths = [len(text.ids) for text in encoded]
    too_long = [length - most for length in lengths if length > most]
    assert cut[1:] == (len(too_long), sum(too_long), sum(lengths))
    if kind == SEVERAL:  # the library numbers pre-tokens, not words
        return
    read: dict[str, bool] = {}  # of the words that are unknown or split
    for row, text in zip(words.split(TEXTS).to_pylist(), encoded, strict=True):
        numbers = text.word_ids
        start = max(len(numbers) - most, 0) if cuts_start else 0
        kept = numbers[start : start + most]
        for number, word in enumerate(row):
            if not word["known"] or word["pieces"] > 1:
                name, whole = word["word"].decode(), kept.count(number) == numbers.count(number)
                read[name] = read.get(name, False) or whole
    assert never_read == {word for word in read if word.strip() and not read[word]}
