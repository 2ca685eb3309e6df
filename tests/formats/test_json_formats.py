"""JSON files: what is JSON at all, which format it is, and every such format but tokenizer.json.

tensorflowjs is not installed here (it pins other versions of TensorFlow): its files are built by
hand after its own layout. spaCy and tokenizers write theirs themselves.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.reader_checks import only, reason, written
from vocabtool import Unknown
from vocabtool.errors import InvalidFile, UnknownFormat, UnsupportedFormat, VocabtoolError

WORDS = tuple(f"word{number}" for number in range(12))


IDS = "JSON object of ids (Hugging Face vocab.json)"
PIECES = "JSON list of pieces and scores (TensorFlow.js)"


# What is JSON.


DAMAGED: dict[str, tuple[bytes, str]] = {
    "cut off": (b'{"the": 0, "of', "not JSON: Unterminated string starting at \\(at byte 11\\)"),
    "behind other characters": (b'\xef\xbb\xbf{"\xe6\x97\xa5": 0 x}', "not JSON: Expecting ','"),
    "lines of JSON": (b'{"a": 1}\n{"b": 1}\n', "Extra data, more than one value: JSON Lines files"),
    "latin-1": (b'{"na\xefve": 0}', "JSON that is not UTF-8: save it as UTF-8 \\(at byte 4\\)"),
    "nested": (b"[" * 99_999 + b"1" + b"]" * 99_999, "needs about|nested too deeply"),
    "lists": (b"[" + b"[]," * 400_000 + b"[]]", "needs about 114 MB of memory, which is 100 times"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_json(case: str, tmp_path: Path) -> None:
    """What is not JSON, or would take too much memory, is refused; it says where and why."""
    data, message = DAMAGED[case]
    with pytest.raises(InvalidFile, match=message):
        only(tmp_path, data)


# A value that is looked at or shown may be a list, or lists in lists, which later Pythons parse.
DEEP = {
    "alone": "DEEP",
    "id": '{"a": DEEP}',
    "score": '[["a", DEEP]]',
    "tekken": '{"config": {"default_vocab_size": 1, "default_num_special_tokens": 0,'
    ' "version": DEEP}, "vocab": [{"rank": DEEP, "token_bytes": "IQ=="}], "special_tokens": []}',
    "tokenizer": '{"model": {"vocab": {"a": 0}}, "decoder": {"decoders": DEEP, "type": DEEP}}',
    "tokenizer mark": '{"model": {"vocab": {}}, "decoder": {"type": "Replace", "content": DEEP}}',
    "tokenizer type": '{"model": {"type": DEEP, "vocab": {"a": 0}}}',
    "Keras tokenizer": '{"config": {"word_index": {"a": 1}, "num_words": DEEP}}',
    "TF.js": '{"modelTopology": {"node": DEEP}, "weightsManifest": [{"paths": DEEP}]}',
    "own": '{"fingerprint": DEEP, "name": DEEP, "first_id": 0, "tokens": []}',
}


@pytest.mark.parametrize("case", DEEP)
@pytest.mark.parametrize(
    "inside", ["[]", "[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "0" + "}" * 5_000]
)
def test_nested_deeply(case: str, inside: str, tmp_path: Path) -> None:
    """No reader walks into itself: a result, or our own error."""
    with suppress(VocabtoolError):
        vocabtool.inspect(written(tmp_path, DEEP[case].replace("DEEP", inside)))


@given(st.lists(st.text(), min_size=1), st.sampled_from(["", "\udc80", "\udcff", "\n"]))
def test_strings_are_encoded(texts: list[str], more: str) -> None:
    """Whatever is in them."""
    with TemporaryDirectory() as folder:
        try:
            tokens = only(Path(folder), [*texts, more]).tokens
        except InvalidFile:
            assert any("\ud800" <= c <= "\udfff" for text in texts for c in text)
        else:
            assert tokens == [*texts, more]


# vocab.json and merges.txt.


def test_vocab_without_merges(tmp_path: Path) -> None:
    """Alone it is a table; ids may have gaps and come in any order, and nothing is unknown."""
    vocabulary = only(tmp_path, b'{"c": 7, "a": 2, "b": 3}')
    assert list(vocabulary.stored) == [b"a", b"b", b"c"]
    assert vocabulary.id_array().tolist() == [2, 3, 7]
    assert (vocabulary.kind, vocabulary.unknown) == ("table", None)
    assert vocabulary.notes == ("3 ids up to 7: these may be word counts",)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "a list, wanted an object of entries and their ids"),
        ({}, "an empty object"),
        ({"a": 3, "b": 3}, "two keys have the value 3: these are not ids"),
        ({"a": 0, "b": -5}, "the id of 'b' is -5, wanted"),
    ],
)
def test_no_vocab_json(document: object, why: str, tmp_path: Path) -> None:
    """What is not an object of distinct ids is not taken for one."""
    assert reason(written(tmp_path, document), IDS).startswith(why)


@pytest.mark.parametrize(
    "document",
    [
        {"model_max_length": 512},
        {"hidden_size": 768, "num_layers": 12, "heads": 4},
    ],
)
def test_settings_are_no_vocabulary(document: dict[str, int], tmp_path: Path) -> None:
    """Numbers with the names of settings are no ids: not alone, and not in a folder."""
    file = written(tmp_path, document, "tokenizer_config.json")
    assert reason(file, IDS) == "its keys look like names of settings, so its values are not ids"
    written(tmp_path, b"#version: 0.2\na b\n", "merges.txt")
    with pytest.raises(UnknownFormat):
        vocabtool.inspect(tmp_path)
    written(tmp_path, b'{"a": 0, "b": 1, "ab": 2}', "vocab.json")
    model = vocabtool.inspect(tmp_path)
    assert [vocabulary.tokens for vocabulary in model.vocabularies] == [["a", "b", "ab"]]
    assert [passed.name for passed in model.passed_over] == ["tokenizer_config.json"]


# Scored pieces.


def test_scored_pieces(tmp_path: Path) -> None:
    """Position is id, null scores count, the replacement character stands for the unknown."""
    pieces = [["\ufffd", 0], ["<s>", None], ["▁the", -2.5], ["of", -3]]
    vocabulary = only(tmp_path, pieces)
    assert (vocabulary.tokens, vocabulary.kind) == (["\ufffd", "<s>", "▁the", "of"], "unigram")
    assert (vocabulary.unknown, vocabulary.marker) == (Unknown(0), "▁")
    assert vocabulary.notes == ("3 pieces have a score",)
    assert only(tmp_path, b'[["the", -1], ["of", -2]]').unknown is None


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            "[[1, 2]]",
            "item 0 is a list of a whole number and a whole number, wanted a text and a number",
        ),
        ('[["a", 1], ["b"]]', "item 1 is a list, wanted a piece and its score"),
        ('[["a", true]]', "item 0 is a list of a text and true or false"),
        ("[]", "an empty list"),
    ],
)
def test_no_scored_pieces(document: str, why: str, tmp_path: Path) -> None:
    """A list of anything else is not taken for one."""
    told = reason(written(tmp_path, document), PIECES)
    assert told.startswith(why)


# TensorFlow.js' model.json, built by hand.


def string_tensor(texts: Sequence[str]) -> dict[str, Any]:
    """A tensor of strings as protobuf writes it in JSON."""
    return {"dtype": "DT_STRING", "stringVal": [b64encode(t.encode()).decode() for t in texts]}


def tfjs(folder: Path, *weights: dict[str, Any], data: bytes = b"", cut: int = 0) -> Path:
    """A model with a constant and weights, which lie in two files."""
    (folder / "shard1of2.bin").write_bytes(data[:cut])
    (folder / "shard2of2.bin").write_bytes(data[cut:])
    node = {"name": "many", "op": "Const", "attr": {"value": {"tensor": string_tensor(WORDS)}}}
    manifest = [{"paths": ["shard1of2.bin", "shard2of2.bin"], "weights": weights}]
    document = {"modelTopology": {"node": [node, {}, 1]}, "weightsManifest": manifest}
    return written(folder, document, "model.json")


def weight(name: str, dtype: str, *shape: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape), **more}


TEXTS = tuple(f"text{number}" for number in range(12))
PACKED = b"".join(struct.pack("<I", len(text)) + text.encode() for text in TEXTS)
QUANTIZED = weight("q", "float32", 3, quantization={"dtype": "uint8", "min": 0, "scale": 1})


@pytest.mark.parametrize("cut", [0, 2, 50, 111])
def test_tensorflow_js(cut: int, tmp_path: Path) -> None:
    """Strings of the graph, and of weights that two files share; few strings are passed over."""
    data = struct.pack("<8f", *range(8)) + bytes(3) + PACKED + PACKED[:9]
    texts, few = weight("texts", "string", 3, 4), weight("few", "string")
    file = tfjs(tmp_path, weight("f", "float32", 8), QUANTIZED, texts, few, data=data, cut=cut)
    found = vocabtool.inspect(file)
    assert {vocabulary.name: tuple(vocabulary) for vocabulary in found.vocabularies} == {
        "many": WORDS,
        "texts": TEXTS,
    }
    assert [(other.name, other.size) for other in found.passed_over] == [("few", 1)]
    assert found.warnings == ()
    assert found.vocabularies[1].places == (("shard1of2.bin", "weight texts"),)


UNREADABLE: dict[str, tuple[list[dict[str, Any]], bytes, str]] = {
    "too many": ([weight("w", "string", 1 << 40)], PACKED, "strings do not fit into the remaining"),
    "cut off": (
        [weight("w", "string", 12)],
        PACKED[:-1],
        "a string runs past the end of the files of a group",
    ),
    "numbers cut off": (
        [weight("f", "float32", 1 << 50), weight("w", "string", 1)],
        *(PACKED, "weight 'f' in the files of its group is truncated"),
    ),
    "dtype": ([weight("f", "bfloat16", 1), weight("w", "string", 1)], PACKED, "dtype 'bfloat16'"),
    "pointer": (
        [weight("w", "string", 1)],
        *(b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_weights(case: str, tmp_path: Path) -> None:
    """Weights that cannot be read are a warning: the rest of the model is still there."""
    weights, data, message = UNREADABLE[case]
    file = tfjs(tmp_path, *weights, data=data, cut=0 if case != "pointer" else len(data))
    found = vocabtool.inspect(file)
    (vocabulary,), (warning,) = found.vocabularies, found.warnings
    assert vocabulary.name == "many"
    assert message in warning


@pytest.mark.parametrize("name", ["../a.bin", "/etc/passwd", "..", "", "a\\b", "C:a", "link", "no"])
def test_no_path_is_opened(name: str, tmp_path: Path) -> None:
    """A file is only opened beside the model, by a bare name, and never through a link."""
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "a.bin").write_bytes(PACKED)
    (folder / "link").symlink_to(tmp_path / "a.bin")
    document = {"weightsManifest": [{"paths": [name], "weights": [weight("w", "string", 12)]}]}
    found = vocabtool.inspect(written(folder, document, "model.json"))
    assert found.vocabularies == ()
    (warning,) = found.warnings
    assert "weights 'w': " in warning
    assert re.search(
        "names a file by the path|symbolic link|the model refers to this file", warning
    )


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({}, "an object, wanted a list"),
        ([1], "a whole number, wanted an object"),
        ([{"paths": [], "weights": [{"shape": []}]}], "without a name or a dtype"),
        ([{"paths": [], "weights": [weight("w", "string", -1)]}], "weight 'w': invalid shape"),
        ([{"paths": ["a"] * 10_001, "weights": []}], "more than 10,000 files"),
    ],
)
def test_broken_manifest(manifest: object, message: str, tmp_path: Path) -> None:
    """A manifest that is not laid out as one is refused."""
    document = {"modelTopology": {}, "weightsManifest": manifest}
    with pytest.raises(InvalidFile, match=message):
        only(tmp_path, document)


@pytest.mark.parametrize("strings", [["a"], [1], "YQ", 7])
def test_lying_constants(strings: object, tmp_path: Path) -> None:
    """A constant that is no list of base64 is named in a warning."""
    node = {"name": "lying", "attr": {"value": {"tensor": {"stringVal": strings}}}}
    model = vocabtool.inspect(written(tmp_path, {"modelTopology": {"node": [node]}}))
    assert model.vocabularies == ()
    assert model.warnings[0].startswith("modelTopology node lying: wanted a list of base64")


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is larger than the cap is not parsed."""
    monkeypatch.setattr("vocabtool.formats.files.MAX_FILE", 10)
    assert only(tmp_path, b'{"the":0} ').tokens == ["the"]
    with pytest.raises(UnsupportedFormat, match="JSON of more than 10 bytes"):
        only(tmp_path, b'{"the":0}  ')


def test_memory_has_a_limit(tmp_path: Path) -> None:
    """A file of 28 MB that needs less than 40 times its size, but more than half a gigabyte."""
    file = written(tmp_path, b'["' + b'ab","' * 5_500_000 + b'ab"]', "words.json")
    with pytest.raises(InvalidFile, match="needs about 524 MB of memory"):
        vocabtool.inspect(file)
