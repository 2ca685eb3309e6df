"""GGUF: files of the library that owns the format, and damaged ones."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import vocabtool
from tests.reader_checks import written
from vocabtool import Place, Unknown
from vocabtool.errors import InvalidFile, UnsupportedFormat

gguf = pytest.importorskip("gguf", reason="the oracle: gguf writes the files")

TOKENS = ("<unk>", "<s>", "</s>", "<0x0A>", "▁the", "▁naïve", "s", " ", "", "\u2028", "日本")
TYPES = (2, 3, 3, 6, 1, 1, 1, 4, 1, 5, 1)


def write(path: Path, model: str = "llama", **extra: Any) -> Path:
    """A file with ``TOKENS``, some weights behind them, and any other keys."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(list(TOKENS))
    for key, value in extra.items():
        getattr(writer, key)(value)
    import numpy as np

    writer.add_tensor("weights", np.ones((64, 64), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def library_tokens(path: Path) -> list[bytes]:
    """The tokens as the owning library reads them."""
    tokens = gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"]
    return [bytes(tokens.parts[index]) for index in tokens.data]


def test_tokens(tmp_path: Path) -> None:
    """Every token as stored; what each type and key says."""
    path = write(
        tmp_path / "model.gguf",
        add_token_types=TYPES,
        add_token_scores=[0.5] * len(TOKENS),
        add_unk_token_id=0,
        add_bos_token_id=1,
        add_eos_token_id=2,
        add_add_bos_token=True,
    )
    found = vocabtool.inspect(path)
    (vocabulary,) = found.vocabularies
    assert list(vocabulary.stored) == library_tokens(path) == [t.encode() for t in TOKENS]
    assert (vocabulary.kind, vocabulary.marker, vocabulary.id_range) == ("bpe", "▁", "0..10")
    assert vocabulary.unknown == Unknown(0)
    assert vocabulary.places == (Place("model.gguf", "tokenizer.ggml.tokens"),)
    assert vocabulary.notes == (
        "SentencePiece pieces, which llama.cpp merges by their scores",
        "besides normal tokens: 1 unknown, 2 control, 1 user-defined, 1 unused, 1 byte",
    )
    assert (found.passed_over, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("model", "kind", "marker", "note"),
    [
        ("llama", "bpe", "▁", "SentencePiece pieces, which llama.cpp merges by their scores"),
        ("gpt2", "bpe", "Ġ", "byte-level BPE"),
        ("bert", "wordpiece", "▁", "WordPiece; llama.cpp marks starts of words, not continuations"),
        ("t5", "unigram", "▁", "SentencePiece unigram pieces"),
        ("new", "list", None, "tokenizer 'new', which is unknown to vocabtool"),
    ],
)
def test_kinds(tmp_path: Path, model: str, kind: str, marker: str | None, note: str) -> None:
    """What llama.cpp calls the tokenizer says what its tokens are."""
    found = vocabtool.inspect(write(tmp_path / "m", model))
    (vocabulary,) = found.vocabularies
    assert (vocabulary.kind, vocabulary.marker, vocabulary.notes[0]) == (kind, marker, note)
    assert vocabulary.unknown is None


def test_other_keys(tmp_path: Path) -> None:
    """Merges are counted, other lists are not read."""
    lists: dict[str, Any] = {
        "add_token_merges": ["t h", "th e"],
        "add_tags": ["chat", "small", "new"],
    }
    path = write(tmp_path / "m", "gpt2", add_tokenizer_pre="llama-bpe", **lists)
    found = vocabtool.inspect(path)
    told = ("byte-level BPE", "2 merges", "pre-tokenizer: 'llama-bpe'")
    assert found.vocabularies[0].notes == told


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("add_token_types", [2, 1], "11 tokens, but 2 types, wanted one per token"),
        ("add_token_scores", [1.0], "11 tokens, but 1 scores, wanted one per token"),
        ("add_token_scores", [float("nan")] * 11, "a score of a token is not a number"),
    ],
)
def test_contradictions(tmp_path: Path, key: str, value: Any, message: str) -> None:
    """Lists that do not match the tokens make the file a damaged one."""
    with pytest.raises(InvalidFile, match=message):
        vocabtool.inspect(write(tmp_path / "m", **{key: value}))


@pytest.mark.parametrize(("number", "unknown"), [(3, 3), (11, 0), (2**32 - 1, 0)])
def test_an_unknown_id_of_no_token(tmp_path: Path, number: int, unknown: int) -> None:
    """llama.cpp opens such a file. Then the token of type "unknown" counts."""
    path = write(tmp_path / "m", add_token_types=TYPES, add_unk_token_id=number)
    (vocabulary,) = vocabtool.inspect(path).vocabularies
    assert vocabulary.unknown == Unknown(unknown)


def by_hand(version: int, tokens: Sequence[bytes]) -> bytes:
    """A header with nothing but tokens, as a version of the format lays it out."""

    def string(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text

    header = b"GGUF" + struct.pack("<IQQ", version, 0, 2)
    header += string(b"tokenizer.ggml.model") + struct.pack("<I", 8) + string(b"gpt2")
    header += string(b"tokenizer.ggml.tokens") + struct.pack("<2I", 9, 8)
    return header + struct.pack("<Q", len(tokens)) + b"".join(map(string, tokens))


def test_a_whole_tokenizer(tmp_path: Path) -> None:
    """``tokenizer.huggingface.json`` counts where there are no tokens of ggml; rule and ids too."""
    tokenizers = pytest.importorskip("tokenizers", reason="the oracle for tokenizer.json")
    level = tokenizers.models.WordLevel({"[UNK]": 0, "the": 1, "café": 2}, "[UNK]")
    library = tokenizers.Tokenizer(level)
    library.normalizer = tokenizers.normalizers.Lowercase()
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    key = "tokenizer.huggingface.json"
    long = library.to_str(pretty=True) + " " * 5_000

    def write_json(file: str, text: str, tokens: Sequence[str] = ()) -> Path:
        writer = gguf.GGUFWriter(tmp_path / file, "bert")
        writer.add_string(key, text)
        if tokens:
            writer.add_token_list(list(tokens))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return tmp_path / file

    words = vocabtool.Words.of(write_json("whole.gguf", long))
    assert words.how == "recovered"
    assert words.vocabulary.places == (Place("whole.gguf", key),)
    assert [*words.vocabulary] == ["[UNK]", "the", "café"]
    text = "The CAFÉ, the cafe"
    found = [word["id"] for word in words.split([text]).to_pylist()[0]]
    assert found == library.encode(text).ids
    assert [*vocabtool.extract(write_json("both.gguf", long, ("a", "b")))] == ["a", "b"]
    for text, why in (("[]", "not a tokenizer.json"), ("{", "not JSON")):
        with pytest.raises(InvalidFile, match=f"tokenizer.huggingface.json: {why}"):
            vocabtool.inspect(write_json("damaged.gguf", text))


@pytest.mark.parametrize("version", [2, 3])
def test_versions(tmp_path: Path, version: int) -> None:
    """Tokens need not be UTF-8."""
    tokens = [b"the", b"\xff\xfe", b"", b"a\nb"]
    path = written(tmp_path, by_hand(version, tokens))
    (vocabulary,) = vocabtool.inspect(path).vocabularies
    assert list(vocabulary.stored) == tokens


def test_the_weights_are_not_read(tmp_path: Path) -> None:
    """A file of ten gigabytes costs what its header does."""
    path = written(tmp_path, by_hand(3, [b"the", b"of"]))
    with path.open("r+b") as opened:
        opened.truncate(10 << 30)  # a hole: no disk is used
    tracemalloc.start()
    (vocabulary,) = vocabtool.inspect(path).vocabularies
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(vocabulary.stored) == [b"the", b"of"]
    assert peak < 1 << 20


def key(value_type: int, value: bytes, name: bytes = b"a") -> bytes:
    """One key of a header of version 3."""
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", value_type) + value


def header(*keys: bytes, count: int | None = None) -> bytes:
    """A header of version 3."""
    size = len(keys) if count is None else count
    return b"GGUF" + struct.pack("<IQQ", 3, 0, size) + b"".join(keys)


NESTED = struct.pack("<IQ", 9, 1)
STRINGS = struct.pack("<I", 8)
NUMBER = bytes(4)
MANY = struct.pack("<IQ", 8, (1 << 21) + 1) + bytes(8 * ((1 << 21) + 1))  # empty strings


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "GGUF version 4, wanted 2 or 3 .*: convert"),
        (header(*[key(0, b"1", b"%d" % i) for i in range(65_537)]), "65,537 keys, wanted at most"),
        (b"GGUF\3\0\0\0", r"truncated: .* \(at byte 8\)"),
        (header(count=5), "5 items need 60 bytes, but only 0 are left"),
        (header(key(4, NUMBER, b"a" * 70_000)), "a key of 70,000 bytes, wanted at most 65,536"),
        (header(key(4, NUMBER), key(4, NUMBER)), "the key 'a' occurs twice"),
        (header(key(8, struct.pack("<Q", 1 << 62))), "items need .* bytes, but only 0 are left"),
        (
            header(key(9, STRINGS + struct.pack("<QQ", 1, 9))),
            "runs past the end of the GGUF header",
        ),
        (header(key(9, NESTED * 5 + bytes(99))), "a value of type 9 is not supported"),
        (header(key(4, NUMBER, b"tokenizer.ggml.tokens")), "tokens is not a list of strings"),
        pytest.param(
            header(key(9, MANY, b"tokenizer.ggml.tokens")),
            "a list of 2,097,153 strings, wanted at most 2,097,152",
            id="many strings",
        ),
    ],
)
def test_damaged(tmp_path: Path, data: bytes, message: str) -> None:
    """Every count and length is checked before it is used; other versions are refused."""
    with pytest.raises((InvalidFile, UnsupportedFormat), match=message):
        vocabtool.inspect(written(tmp_path, data))
