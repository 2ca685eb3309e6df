"""ONNX: models that the owning library writes, read entry for entry; damaged ones.

The ids of onnxruntime-extensions' operators are those that its 0.15.2 gives; where a library owns
the text that an attribute holds, it is asked.
"""

# own process: ONNX

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vocabtool
from tests.builders.saved_model_bytes import field, varint
from tests.reader_checks import ids_and_entries, written
from vocabtool import Place, Unknown, Vocabulary
from vocabtool.errors import UnsupportedFormat

onnx = pytest.importorskip("onnx", reason="the oracle: onnx writes the files")

CONTRIB = "ai.onnx.contrib"
WORDS = ("the", "of", "naïve", "", " ", "a\nb", "\u2028", "日本", "the", "x" * 300, "10", "11")
STORED = [word.encode() for word in WORDS]
IDS = (7, -3, 5, 1 << 40, 0, 2, 9, 8, 6, 4, 3, 1)


def node(op: str, name: str = "", domain: str = "ai.onnx.ml", **attributes: Any) -> Any:
    return onnx.helper.make_node(op, ["x"], ["y"], name=name, domain=domain, **attributes)


def graph(*nodes: Any, initializers: Any = ()) -> Any:
    value = onnx.helper.make_tensor_value_info
    inputs = [value("x", onnx.TensorProto.STRING, [None])]
    outputs = [value("y", onnx.TensorProto.INT64, [None])]
    return onnx.helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))


def strings(name: str, words: Any = WORDS) -> Any:
    encoded = [word.encode() for word in words]
    return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, [len(words)], encoded)


def read(tmp_path: Path, *nodes: Any, initializers: Any = (), **model: Any) -> vocabtool.Model:
    """Read a model of these nodes, saved by the owning library."""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph(*nodes, initializers=initializers), **model), path)
    return vocabtool.inspect(path)


def only(model: vocabtool.Model) -> Vocabulary:
    """The only vocabulary of a model that has nothing else."""
    assert (model.passed_over, model.warnings) == ((), ())
    (vocabulary,) = model.vocabularies
    return vocabulary


def by_id(words: Any, ids: Any) -> list[tuple[int, bytes]]:
    """Ids and entries in the order of a vocabulary."""
    return sorted(zip(ids, words, strict=True), key=lambda pair: pair[0])


def test_constants(tmp_path: Path) -> None:
    """Tensors and lists of constants, and initializers: nothing says what they are for."""
    model = read(
        tmp_path,
        node("Constant", "tensor", "", value=strings("inside")),
        node("Constant", "list", "", value_strings=WORDS[::-1]),
        initializers=[strings("init", WORDS[1:]), onnx.numpy_helper.from_array(np.ones(9), "w")],
    )
    assert [(v.name, list(v.stored), v.places[0].place) for v in model.vocabularies] == [
        ("tensor", STORED, "node tensor: value"),
        ("list.value_strings", STORED[::-1], "node list: value_strings"),
        ("init", STORED[1:], "initializer init"),
    ]
    assert {v.kind for v in model.vocabularies} == {"constant"}
    assert (model.passed_over, model.warnings) == ((), ())


def test_passed_over(tmp_path: Path) -> None:
    """Few strings, and those of a decision tree, are no vocabulary."""
    model = read(
        tmp_path,
        node("Constant", "few", "", value_strings=["a", "b"]),
        node("TreeEnsembleRegressor", "tree", nodes_modes=["BRANCH_LEQ"] * 40),
    )
    assert (model.vocabularies, model.warnings) == ((), ())
    few = "fewer than 10 strings that no table uses"
    tree = "settings of the node or stop words"
    assert model.passed_over == (
        ("few.value_strings", 2, Place("m.onnx", "node few: value_strings"), few),
        ("tree.nodes_modes", 40, Place("m.onnx", "node tree: nodes_modes"), tree),
    )


def test_subgraphs_and_functions(tmp_path: Path) -> None:
    """Graphs in attributes, one in another, and functions of the model are walked too."""
    inner = graph(node("LabelEncoder", "inner", classes_strings=WORDS))
    middle = graph(node("If", "middle", "", then_branch=inner), initializers=[strings("init")])
    encoder = node("LabelEncoder", "f", classes_strings=WORDS[1:])
    imported = [onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    function = onnx.helper.make_function("local", "Encode", ["x"], ["y"], [encoder], imported)
    model = read(tmp_path, node("If", "outer", "", then_branch=middle), functions=[function])
    assert [[place.place for place in v.places] for v in model.vocabularies] == [
        ["node outer, node middle, node inner (LabelEncoder)", "node outer, initializer init"],
        ["function Encode, node f (LabelEncoder)"],
    ]
    assert [list(v.stored) for v in model.vocabularies] == [STORED, STORED[1:]]


def packed(values: Any) -> bytes:
    return b"".join(varint(value) for value in values)


def model_of(*nodes: bytes) -> bytes:
    return b"\x08\x08" + field(7, b"".join(field(1, node) for node in nodes))


def attribute(name: bytes, *rest: bytes) -> bytes:
    return field(5, field(1, name) + b"".join(rest))


def test_packed_integers(tmp_path: Path) -> None:
    """A writer with the schema of proto3 packs integers."""
    ids = list(range(500, 1700))
    words = [b"w%d" % number for number in ids]
    keys = b"".join(field(9, word) for word in words)
    for values in (
        field(8, packed(ids)),
        b"".join(b"\x40" + varint(number) for number in ids) + b"\xa0\x01\x07",
    ):
        encoder = field(4, b"LabelEncoder") + attribute(b"keys_strings", keys)
        path = written(tmp_path, model_of(encoder + attribute(b"values_int64s", values)))
        assert ids_and_entries(only(vocabtool.inspect(path))) == by_id(words, ids)


LIST = field(9, b"word") * 200


def one_attribute(name: bytes, *rest: bytes, op: bytes = b"LabelEncoder") -> bytes:
    return model_of(field(4, op) + attribute(name, *rest))


DAMAGED = {
    "the strings of a list are not together": one_attribute(
        b"a", (field(9, b"") + b"\x18\x01") * 2_000, op=b"Constant"
    ),
    "truncated or longer than 10": model_of(
        attribute(b"keys_strings", LIST)
        + attribute(b"values_int64s", b"\x40\x01" * 199 + b"\x40\xff")
    ),
    "200 words, but 199 ids": model_of(
        attribute(b"keys_strings", LIST) + attribute(b"values_int64s", b"\x40\x01" * 199)
    ),
    "the last string runs 123 bytes past the end": one_attribute(
        b"a", LIST + b"\x4a\x7fword", op=b"Constant"
    ),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_a_damaged_attribute(tmp_path: Path, message: str) -> None:
    """What is wrong with one attribute is a warning; the others are read."""
    good = field(4, b"LabelEncoder") + attribute(b"classes_strings", LIST)
    data = DAMAGED[message] + field(7, field(1, good))
    model = vocabtool.inspect(written(tmp_path, data))
    assert [len(vocabulary) for vocabulary in model.vocabularies] == [200]
    (warning,) = model.warnings
    assert message in warning


def test_nesting(tmp_path: Path) -> None:
    """2,000 graphs in each other are followed for a while, then said to be too deep."""
    nested = b""
    for _ in range(2_000):
        nested = field(1, attribute(b"a", field(6, nested)))
    model = vocabtool.inspect(written(tmp_path, b"\x08\x08" + field(7, nested)))
    assert (model.vocabularies, model.passed_over) == ((), ())
    assert model.warnings == ("graphs nested more than 16 deep are not read",)


OPERATORS: list[tuple[str, dict[str, Any], bool, Unknown | None]] = [
    ("LabelEncoder", {"classes_strings": WORDS}, False, Unknown(-1)),
    (
        "LabelEncoder",
        {"keys_strings": WORDS, "values_int64s": IDS, "default_int64": -7},
        *(True, Unknown(-7)),
    ),
    (
        "CategoryMapper",
        {"cats_strings": WORDS, "cats_int64s": IDS, "default_int64": 42},
        *(True, Unknown(42)),
    ),
    ("OneHotEncoder", {"cats_strings": WORDS}, False, None),
]


@pytest.mark.parametrize(("op", "attributes", "has_ids", "unknown"), OPERATORS)
def test_operators(
    tmp_path: Path, op: str, attributes: dict[str, Any], has_ids: bool, unknown: Unknown | None
) -> None:
    """Words with the ids of another list, or with their positions as ids."""
    vocabulary = only(read(tmp_path, node(op, "enc", **attributes)))
    ids = IDS if has_ids else range(len(WORDS))
    assert ids_and_entries(vocabulary) == by_id(STORED, ids)
    assert (vocabulary.name, vocabulary.kind, vocabulary.unknown) == ("enc", "table", unknown)
    assert vocabulary.places == (Place("m.onnx", f"node enc ({op})"),)


@pytest.mark.parametrize("values", [{"values_floats": [0.5] * 20}, {"values_strings": ["w"] * 20}])
def test_keys_without_ids(tmp_path: Path, values: dict[str, Any]) -> None:
    """A LabelEncoder that gives its keys no integers is no table."""
    keys = [f"word{number}" for number in range(20)]
    model = read(tmp_path, node("LabelEncoder", "enc", keys_strings=keys, **values))
    assert {vocabulary.kind for vocabulary in model.vocabularies} == {"constant"}
    assert model.vocabularies[0].unknown is None


def test_strings_in_another_file(tmp_path: Path) -> None:
    """They are not read, which is a warning; numbers in another file are not missed."""
    tensors = [onnx.TensorProto(name=name, data_type=kind) for name, kind in (("w", 8), ("f", 1))]
    for tensor in tensors:
        tensor.data_location = onnx.TensorProto.EXTERNAL
    model = read(tmp_path, initializers=tensors)
    why = "initializer w: its strings are in another file, which is not opened"
    assert model.warnings == (why,)


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes beyond any model's number are refused before one of them is read."""
    with pytest.raises(UnsupportedFormat, match="a message of more than 500,000 fields"):
        vocabtool.inspect(written(tmp_path, b"\x08\x08" + field(7, b"\n\0" * 15_000_000)))
    constants = [field(4, b"C%d" % n) + attribute(b"a", field(9, b"x")) for n in range(20)]
    path = written(tmp_path, model_of(*constants))
    for most, what in ((19, "a message of more than 19"), (50, "the graphs have more than 50")):
        monkeypatch.setattr("vocabtool.formats.onnx.MAX_FIELDS", most)
        with pytest.raises(UnsupportedFormat, match=f"{what} fields"):
            vocabtool.inspect(path)


def test_too_many_lists(tmp_path: Path) -> None:
    """Nodes with a short list each, which take ten times as long as their fields."""
    listed = field(4, b"LabelEncoder") + attribute(b"keys_strings", field(9, b"x"))
    path = written(tmp_path, model_of(*[listed] * 20_003))
    with pytest.raises(UnsupportedFormat, match="fields or 20,000 lists of strings"):
        vocabtool.inspect(path)


# onnxruntime-extensions.

BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "##lo", "world")
PIECES = [b"<unk>", *(b"piece%d" % number for number in range(9))]


def extension(tmp_path: Path, op: str, **attributes: Any) -> Vocabulary:
    return only(read(tmp_path, node(op, "n", CONTRIB, **attributes)))


def ids(vocabulary: Vocabulary) -> list[tuple[int, str]]:
    return list(zip(vocabulary.id_array().tolist(), vocabulary, strict=True))


@pytest.mark.parametrize("op", ["BertTokenizer", "HfBertTokenizer", "BertTokenizerDecoder"])
@pytest.mark.parametrize("between", ["\n", "\n\n", "\r\n"])
def test_bert(tmp_path: Path, op: str, between: str) -> None:
    """Lines of ``vocab.txt``; empty ones have no id, as the package itself writes some."""
    vocabulary = extension(tmp_path, op, vocab_file=between.join(BERT))
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
    more = {"merges": "#version: 0.2\na b\n", "added_token": "<X=1>=5\n<Y>=6"}
    vocabulary = extension(tmp_path, op, vocab=json.dumps(entries), **more)
    assert dict(ids(vocabulary)) == {i: token for token, i in oracle.get_vocab().items()}
    assert vocabulary.kind == "bpe"
    assert vocabulary.marker == ("</w>" if op == "CLIPTokenizer" else "Ġ")


def test_other_tokenizers(tmp_path: Path) -> None:
    """WordpieceTokenizer's ids and its -1; a whole tokenizer.json; pieces with a blank's mark."""
    entries = {"want": 10, "##ed": 12, "un": 14, "##want": 11}
    made = {"vocab": json.dumps(entries), "unk_token": "[UNK]"}
    wordpiece = extension(tmp_path, "WordpieceTokenizer", **made)
    assert ids(wordpiece) == sorted((number, piece) for piece, number in entries.items())
    assert (wordpiece.unknown, wordpiece.marker) == (Unknown(-1), "##")
    whole = {"model": {"type": "WordLevel", "vocab": {"a": 1, "b": 0}, "unk_token": "b"}}
    made = {"tokenizer_vocab": json.dumps(whole), "tokenizer_config": "{}"}
    level = extension(tmp_path, "HfJsonTokenizer", **made)
    assert (ids(level), level.unknown) == ([(0, "b"), (1, "a")], Unknown(0))
    spm = extension(tmp_path, "SpmTokenizer", vocab='{"▁a": 0, "b": 1}', merges="▁ a")
    assert (ids(spm), spm.marker) == ([(0, "▁a"), (1, "b")], "▁")


def test_unknown_operator(tmp_path: Path) -> None:
    """A long text of an operator that is not known may be a tokenizer: a warning."""
    model = read(tmp_path, node("NewTokenizer", "n", CONTRIB, short="x" * 1_023, long="x" * 1_024))
    (warning,) = model.warnings
    assert warning.startswith("node n: long: a text of 1,024 bytes or more")


@pytest.mark.parametrize("op", ["SentencepieceTokenizer", "SentencepieceDecoder"])
def test_sentencepiece(tmp_path: Path, op: str) -> None:
    """A model of any size, small ones too."""
    scored = [field(1, piece) + b"\x15" + bytes(4) for piece in PIECES]
    scored[0] += b"\x18\x02"
    vocabulary = extension(tmp_path, op, model=b"".join(field(1, piece) for piece in scored))
    assert (list(vocabulary.stored), vocabulary.unknown) == (PIECES, Unknown(0))
    assert (vocabulary.kind, vocabulary.marker) == ("sentencepiece", "▁")


@pytest.mark.parametrize("given", ["initializer", "node", "false", "missing", "input"])
@pytest.mark.parametrize("op", ["SentencepieceTokenizer", "SentencepieceDecoder"])
def test_fairseq(tmp_path: Path, op: str, given: str) -> None:
    """With the input ``fairseq``, ids are those of XLM-R on the same pieces."""
    transformers = pytest.importorskip("transformers", reason="the oracle is XLM-R's own tokenizer")
    from tests.tokenization.test_tokenizer_files import sentence_model

    model = sentence_model("unigram", ())
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    library = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    before = 1 if op == "SentencepieceDecoder" else 6
    made = node(op, "n", CONTRIB, model=model)
    del made.input[:]
    made.input.extend([*(f"x{number}" for number in range(before)), "flag"])
    if given == "missing":
        del made.input[-1]
    flag = onnx.helper.make_tensor("flag", onnx.TensorProto.BOOL, [1], [given != "false"])
    constant = onnx.helper.make_node("Constant", [], ["flag"], value=flag)
    nodes = (constant, made) if given == "node" else (made,)
    constants = () if given in ("node", "input") else (flag,)
    vocabulary = only(read(tmp_path, *nodes, initializers=constants))
    shifted = given in ("initializer", "node")
    assert ("given at run time" in " ".join(vocabulary.notes)) == (given == "input")
    if shifted:
        tokens = library.convert_tokens_to_ids([*vocabulary])
        assert [vocabulary.id_of(piece) for piece in vocabulary] == tokens
    assert vocabulary.unknown == Unknown(3 if shifted else 0)
    words = vocabtool.Words.of(tmp_path / "m.onnx")
    for text in ("the quick brown fox", "naïve 漢字 the"):
        judged = words.look_up([text])
        assert judged.spelled is not None
        unknown = 3 if shifted else 0
        pieces = [piece for code in judged.codes for piece in judged.spelled.of_word(int(code))]
        tokens = [vocabulary.id_of(piece) if known else unknown for piece, known in pieces]
        assert (tokens == library(text, add_special_tokens=False)["input_ids"]) == shifted


@pytest.mark.parametrize(
    ("op", "attributes", "why"),
    [
        ("BertTokenizer", {}, "the attribute vocab_file with the words is missing"),
        ("GPT2Tokenizer", {"vocab": '["a"]'}, "model.vocab is a list, wanted an object"),
        ("CLIPTokenizer", {"vocab": '{"a": 0}', "added_token": "x"}, "line 1 is b'x', wanted"),
        ("HfJsonTokenizer", {"tokenizer_vocab": "[]"}, "tokenizer_vocab: a list, wanted an object"),
        ("SentencepieceTokenizer", {"model": "xx"}, "not a SentencePiece model: it does not"),
    ],
)
def test_damaged_extension(tmp_path: Path, op: str, attributes: dict[str, str], why: str) -> None:
    """What a tokenizer's text is, where it is not what its operator wants: the model is
    incomplete."""
    model = read(tmp_path, node(op, "n", CONTRIB, **attributes))
    assert (model.vocabularies, model.passed_over) == ((), ())
    (warning,) = model.warnings
    assert warning.startswith(f"node n: {why}")


def test_real_files(shared: Path) -> None:
    """A model of onnxruntime-extensions' own tests: BERT's cased vocabulary."""
    folder = shared / "files/onnx"
    (node,) = onnx.load(folder / "test_bert_tokenizer.onnx").graph.node
    text = next(a.s for a in node.attribute if a.name == "vocab_file")
    bert = vocabtool.extract(folder / "test_bert_tokenizer.onnx")
    assert list(bert.stored) == [line for line in text.split(b"\n") if line]
    assert (len(bert), bert.unknown, bert.id_of("the")) == (28_996, Unknown(100), 1103)
