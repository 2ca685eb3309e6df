"""Operators of onnxruntime-extensions, in models that onnx writes.

The ids of the cases are those that onnxruntime-extensions 0.15.2 gives; where a library owns the
text that an attribute holds, it is asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vocabtool
from tests.reader_checks import field
from vocabtool import Unknown, Vocabulary

onnx = pytest.importorskip("onnx", reason="the oracle: onnx writes the files")

DOMAIN = "ai.onnx.contrib"
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "##lo", "world")
PIECES = [b"<unk>", *(b"piece%d" % number for number in range(9))]


def read(tmp_path: Path, op: str, **attributes: Any) -> vocabtool.Model:
    """What is found in a model of one node."""
    node = onnx.helper.make_node(op, ["x"], ["y"], name="n", domain=DOMAIN, **attributes)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("x", onnx.TensorProto.STRING, [None])]
    outputs = [value("y", onnx.TensorProto.INT64, [None])]
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", inputs, outputs)), path)
    return vocabtool.inspect(path)


def only(tmp_path: Path, op: str, **attributes: Any) -> Vocabulary:
    """The only vocabulary of a model in which nothing else was found."""
    found = read(tmp_path, op, **attributes)
    assert (found.passed_over, found.warnings) == ((), ())
    (vocabulary,) = found.vocabularies
    return vocabulary


def ids(vocabulary: Vocabulary) -> list[tuple[int, str]]:
    return list(zip(vocabulary.id_array().tolist(), vocabulary, strict=True))


@pytest.mark.parametrize("op", ["BertTokenizer", "HfBertTokenizer", "BertTokenizerDecoder"])
@pytest.mark.parametrize("between", ["\n", "\n\n", "\r\n"])
def test_bert(tmp_path: Path, op: str, between: str) -> None:
    """Lines of ``vocab.txt``; empty ones have no id, as the package itself writes some."""
    vocabulary = only(tmp_path, op, vocab_file=between.join(BERT))
    assert ids(vocabulary) == list(enumerate(BERT))
    assert (vocabulary.kind, vocabulary.marker) == ("wordpiece", "##")
    assert vocabulary.unknown == Unknown(1)
    assert vocabulary.places[0].place == f"node n ({op})"


@pytest.mark.parametrize("op", ["GPT2Tokenizer", "RobertaTokenizer", "CLIPTokenizer"])
def test_byte_level_bpe(tmp_path: Path, op: str) -> None:
    """``vocab.json`` with added tokens, as the tokenizers library joins them."""
    tokenizers = pytest.importorskip("tokenizers", reason="the oracle for vocab.json")
    entries = {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "é": 4}
    oracle = tokenizers.Tokenizer(tokenizers.models.BPE(entries, [("a", "b")]))
    oracle.add_tokens(["<X=1>", "<Y>"])
    vocabulary = only(
        tmp_path,
        op,
        vocab=json.dumps(entries),
        merges="#version: 0.2\na b\n",
        added_token="<X=1>=5\n<Y>=6",
    )
    assert dict(ids(vocabulary)) == {i: token for token, i in oracle.get_vocab().items()}
    assert vocabulary.kind == "bpe"
    assert vocabulary.marker == ("</w>" if op == "CLIPTokenizer" else "Ġ")
    assert "BPE with 1 merges" in vocabulary.notes[0]


def test_other_tokenizers(tmp_path: Path) -> None:
    """WordpieceTokenizer's ids and its -1; a whole tokenizer.json; pieces with a blank's mark."""
    entries = {"want": 10, "##ed": 12, "un": 14, "##want": 11}
    wordpiece = only(tmp_path, "WordpieceTokenizer", vocab=json.dumps(entries), unk_token="[UNK]")
    assert ids(wordpiece) == sorted((number, piece) for piece, number in entries.items())
    assert (wordpiece.unknown, wordpiece.marker) == (Unknown(-1), "##")
    whole = {"model": {"type": "WordLevel", "vocab": {"a": 1, "b": 0}, "unk_token": "b"}}
    level = only(
        tmp_path, "HfJsonTokenizer", tokenizer_vocab=json.dumps(whole), tokenizer_config="{}"
    )
    assert (ids(level), level.unknown) == ([(0, "b"), (1, "a")], Unknown(0))
    spm = only(tmp_path, "SpmTokenizer", vocab='{"▁a": 0, "b": 1}', merges="▁ a")
    assert (ids(spm), spm.marker) == ([(0, "▁a"), (1, "b")], "▁")


def test_bpe_decoder(tmp_path: Path) -> None:
    """Empty lines count, and an added token replaces the line of its id."""
    decoder = only(tmp_path, "BpeDecoder", id_vocab="a\n\nb\nĠc", added_tokens="3\tQQ\n9\tR")
    assert ids(decoder) == [(0, "a"), (1, ""), (2, "b"), (3, "QQ"), (9, "R")]


@pytest.mark.parametrize("op", ["TrieTokenizer", "TrieDetokenizer"])
def test_rwkv(tmp_path: Path, op: str) -> None:
    """RWKV's lines of an id, a literal and a length."""
    vocabulary = only(tmp_path, op, vocab="1 '\\x00' 1\n3 ' the' 4\n7 b'\\xe4\\xb8' 2\n")
    assert vocabulary.id_array().tolist() == [1, 3, 7]
    assert list(vocabulary.stored) == [b"\0", b" the", b"\xe4\xb8"]
    assert (vocabulary.kind, vocabulary.marker) == ("table", " ")


@pytest.mark.parametrize("op", ["SentencepieceTokenizer", "SentencepieceDecoder"])
def test_sentencepiece(tmp_path: Path, op: str) -> None:
    """A model of any size, small ones too."""
    scored = b"\x15" + bytes(4)
    model = b"".join(
        field(1, field(1, piece) + scored + b"\x18\x02" * (piece == b"<unk>")) for piece in PIECES
    )
    vocabulary = only(tmp_path, op, model=model)
    assert (list(vocabulary.stored), vocabulary.unknown) == (PIECES, Unknown(0))
    assert (vocabulary.kind, vocabulary.marker) == ("sentencepiece", "▁")


def test_string_mapping(tmp_path: Path) -> None:
    """The words that are mapped; empty lines and columns are skipped, the last of equals counts."""
    found = read(tmp_path, "StringMapping", map="black\tOK\n\nwhite\t\tNot OK\nblack\tNo\n")
    (keys,) = found.vocabularies
    assert (list(keys), keys.kind, found.warnings) == (["black", "white"], "table", ())
    assert [(item.name, item.size) for item in found.passed_over] == [("n.values", 2)]


def test_string_to_vector(tmp_path: Path) -> None:
    """A single number for each word is its id; more are a vector."""
    table = only(tmp_path, "StringToVector", map="a\t3\nb\t1 \na\t2", unk="-1")
    assert (ids(table), table.unknown) == ([(1, "b"), (2, "a")], Unknown(-1))
    vectors = only(tmp_path, "StringToVector", map="a\t0 0 1 2\nd\t0 1 3 4", unk="0 0 0 0")
    assert (ids(vectors), vectors.unknown) == ([(0, "a"), (1, "d")], None)
    assert vectors.notes == ("gives 4 numbers for each; the ids are their positions",)


def test_vector_to_string(tmp_path: Path) -> None:
    """Words of ids, among which one may stand twice; the last of equal vectors counts."""
    table = only(tmp_path, "VectorToString", map="a\t2\nb\t1\na\t5\nc\t1", unk="?")
    assert ids(table) == [(1, "c"), (2, "a"), (5, "a")]
    vectors = only(tmp_path, "VectorToString", map="a\t0 1\nd\t0 2", unk="?")
    assert list(vectors) == ["a", "d"]
    assert vectors.notes == ("2 numbers give each; the ids are their positions",)


@pytest.mark.parametrize(
    ("op", "attributes", "why"),
    [
        ("BertTokenizer", {}, "no attribute vocab_file, wanted the words in it"),
        ("GPT2Tokenizer", {"vocab": "v"}, "not JSON: Expecting value (at byte 0)"),
        ("GPT2Tokenizer", {"vocab": '["a"]'}, "model.vocab is a list, wanted an object"),
        ("CLIPTokenizer", {"vocab": '{"a": 0}', "added_token": "x"}, "line 1 holds b'x', wanted"),
        ("CLIPTokenizer", {"vocab": '{"a": 0}', "added_token": "x=-1"}, "added_tokens: item 0,"),
        ("WordpieceTokenizer", {"vocab": '{"a": -4}'}, "model.vocab: the id of 'a' is -4, wanted"),
        ("HfJsonTokenizer", {"tokenizer_vocab": "[]"}, "tokenizer_vocab is not a tokenizer.json:"),
        ("SentencepieceTokenizer", {"model": "xx"}, "a SentencePiece model begins with its"),
        ("TrieTokenizer", {"vocab": "1 'a' 1\n\n2 'b' 1"}, "line 2 is '', wanted an id, a"),
        ("StringMapping", {"map": "a\tb\nc"}, "line 2 has 1 columns: b'c', wanted a key, a tab"),
        ("StringToVector", {"map": "a\t1.5", "unk": "0"}, "line 1 holds b'1.5', wanted a whole"),
        ("BpeDecoder", {"id_vocab": "a", "added_tokens": "x\ty"}, "line 1 holds b'x', wanted a"),
    ],
)
def test_damaged(tmp_path: Path, op: str, attributes: dict[str, str], why: str) -> None:
    """What a tokenizer's text is, where it is not what its operator wants: the model is
    incomplete."""
    found = read(tmp_path, op, **attributes)
    assert (found.vocabularies, found.passed_over) == ((), ())
    (warning,) = found.warnings
    assert warning.startswith(f"node n ({op}): {why}")


def test_real_files(shared: Path) -> None:
    """Models of onnxruntime-extensions' own tests: BERT's cased vocabulary and a mapping."""
    folder = shared / "files/onnx"
    (node,) = onnx.load(folder / "test_bert_tokenizer.onnx").graph.node
    text = next(part.s for part in node.attribute if part.name == "vocab_file")
    bert = vocabtool.extract(folder / "test_bert_tokenizer.onnx")
    assert list(bert.stored) == [line for line in text.split(b"\n") if line]
    assert (len(bert), bert.unknown, bert.id_of("the")) == (28_996, Unknown(100), 1103)
    model = vocabtool.inspect(folder / "test_string_mapping.onnx")
    assert model.complete
    assert list(model.vocabularies[0]) == ["black", "white", "Orange and Yellow", "不知道啥颜色"]
