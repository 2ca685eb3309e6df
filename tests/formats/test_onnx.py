"""ONNX: models that the owning library writes, read entry for entry; damaged ones.

The ids of onnxruntime-extensions' operators are those that its 0.15.2 gives; where a library owns
the text that an attribute holds, it is asked.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vocabtool
from tests.reader_checks import field, ids_and_entries, varint, written
from vocabtool import PassedOver, Place, Unknown, Vocabulary
from vocabtool.errors import NoVocabulary, UnsupportedFormat

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
    """What is found in a model of these nodes, saved by the owning library."""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph(*nodes, initializers=initializers), **model), path)
    return vocabtool.inspect(path)


def only(found: vocabtool.Model) -> Vocabulary:
    """The only vocabulary of a model in which nothing else was found."""
    assert (found.passed_over, found.warnings) == ((), ())
    (vocabulary,) = found.vocabularies
    return vocabulary


def by_id(words: Any, ids: Any) -> list[tuple[int, bytes]]:
    """Ids and entries in the order of a vocabulary."""
    return sorted(zip(ids, words, strict=True), key=lambda pair: pair[0])


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("number_type", ["INT32", "INT64"])
def test_integers_of_tensors(tmp_path: Path, number_type: str, raw: bool) -> None:
    """Numbers of 32 and 64 bits, in a field of their own or as raw bytes."""
    ids = np.arange(len(WORDS)) - 4
    data_type = getattr(onnx.TensorProto, number_type)
    values = ids.astype("<i4" if number_type == "INT32" else "<i8")
    held = values.tobytes() if raw else values.tolist()
    tensor = onnx.helper.make_tensor("v", data_type, [len(ids)], held, raw=raw)
    default = onnx.helper.make_tensor("d", onnx.TensorProto.INT64, [1], [99])
    encoder = node(
        "LabelEncoder", keys_tensor=strings("k"), values_tensor=tensor, default_tensor=default
    )
    vocabulary = only(read(tmp_path, encoder))
    assert (ids_and_entries(vocabulary), vocabulary.first_id) == (by_id(STORED, ids.tolist()), -4)
    assert vocabulary.unknown == Unknown(99)


def test_tfidf_vectorizer(tmp_path: Path) -> None:
    """The words of a pool by length of n-gram, with the ids of the columns that they count in."""
    pool = {
        "ngram_counts": [0, 3],
        "ngram_indexes": [4, 1, 0, 3, 2],
        "pool_strings": ["the", "of", "naïve", "of", "the", "the", "naïve"],
    }
    found = read(tmp_path, node("TfIdfVectorizer", "v", domain="", mode="TF", **pool))
    one, two = found.vocabularies
    assert ids_and_entries(one) == [(0, "naïve".encode()), (1, b"of"), (4, b"the")]
    assert ids_and_entries(two) == [(2, "the naïve".encode()), (3, b"of the")]
    assert (one.name, two.name, one.kind, two.kind) == ("v", "v.2-grams", "table", "table")
    assert two.notes == ("each entry is an n-gram: its 2 strings are joined by spaces",)
    assert found.warnings == ()


MISFIT = "of pool_strings (3 strings) cannot form"


@pytest.mark.parametrize(
    ("counts", "indexes", "message"),
    [
        ([0, 4], [0, 1, 2], f"ngram_counts: strings 0 to 4 {MISFIT} 1-grams"),
        ([0, 0], [0], f"ngram_counts: strings 0 to 3 {MISFIT} 2-grams"),
        ([0], [0, 1, 2, 3], "3 n-grams, but 4 ids"),
        ([0], [0, 1], "3 words, but 2 ids"),
        ([], [0, 1, 2], "pool_strings contains n-grams, but ngram_counts is missing"),
    ],
)
def test_a_pool_that_contradicts_itself(
    tmp_path: Path, counts: list[int], indexes: list[int], message: str
) -> None:
    """What does not fit together is said, with the node's name; nothing else is lost."""
    pool = {"pool_strings": ["a", "b", "c"], "ngram_indexes": indexes, "ngram_counts": counts}
    pool = {name: values for name, values in pool.items() if values}
    broken = node("TfIdfVectorizer", "v", domain="", mode="TF", **pool)
    found = read(tmp_path, broken, node("LabelEncoder", classes_strings=WORDS))
    assert found.warnings == (f"node v: {message}: its words are not read",)
    assert STORED in [list(vocabulary.stored) for vocabulary in found.vocabularies]


@pytest.mark.parametrize("op", ["StringNormalizer", "Tokenizer"])
def test_stop_words(tmp_path: Path, op: str) -> None:
    """Words that are dropped are no vocabulary: they are taken by their name only."""
    dropped = [f"stop{number}" for number in range(20)]
    drop, path = node(op, "n", "", stopwords=dropped), tmp_path / "m.onnx"
    stop_words = only(read(tmp_path, drop))
    assert (stop_words.name, stop_words.kind) == ("n.stopwords", "stop words")
    assert stop_words.notes == ("words that are removed from a text",)
    with pytest.raises(NoVocabulary, match=r"stop words; select them with --name: n\.stopwords"):
        vocabtool.extract(path)
    assert list(vocabtool.extract(path, "n.stopwords")) == list(stop_words) == dropped
    read(tmp_path, drop, node("DictVectorizer", "d", string_vocabulary=["the"]))
    assert vocabtool.extract(path).name == "d"


def test_constants(tmp_path: Path) -> None:
    """Tensors and lists of constants, and initializers: nothing says what they are for."""
    found = read(
        tmp_path,
        node("Constant", "tensor", "", value=strings("inside")),
        node("Constant", "list", "", value_strings=WORDS[::-1]),
        initializers=[strings("init", WORDS[1:]), onnx.numpy_helper.from_array(np.ones(9), "w")],
    )
    assert [(v.name, list(v.stored), v.places[0].place) for v in found.vocabularies] == [
        ("tensor", STORED, "node tensor: value"),
        ("list.value_strings", STORED[::-1], "node list: value_strings"),
        ("init", STORED[1:], "initializer init"),
    ]
    assert {v.kind for v in found.vocabularies} == {"constant"}
    assert (found.passed_over, found.warnings) == ((), ())


def test_passed_over(tmp_path: Path) -> None:
    """Few strings, and those of a decision tree, are no vocabulary."""
    found = read(
        tmp_path,
        node("Constant", "few", "", value_strings=["a", "b"]),
        node("TreeEnsembleRegressor", "tree", nodes_modes=["BRANCH_LEQ"] * 40),
    )
    assert (found.vocabularies, found.warnings) == ((), ())
    few = "fewer than 10 strings, not used for look-ups"
    tree = "comparison modes of tree nodes, not words"
    assert found.passed_over == (
        PassedOver("few.value_strings", 2, Place("m.onnx", "node few: value_strings"), few),
        PassedOver("tree.nodes_modes", 40, Place("m.onnx", "node tree: nodes_modes"), tree),
    )


def test_subgraphs_and_functions(tmp_path: Path) -> None:
    """Graphs in attributes, one in another, and functions of the model are walked too."""
    inner = graph(node("LabelEncoder", "inner", classes_strings=WORDS))
    middle = graph(node("If", "middle", "", then_branch=inner), initializers=[strings("init")])
    encoder = node("LabelEncoder", "f", classes_strings=WORDS[1:])
    imported = [onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    function = onnx.helper.make_function("local", "Encode", ["x"], ["y"], [encoder], imported)
    found = read(tmp_path, node("If", "outer", "", then_branch=middle), functions=[function])
    assert [[place.place for place in each.places] for each in found.vocabularies] == [
        ["node outer, node middle, node inner (LabelEncoder)", "node outer, initializer init"],
        ["function Encode, node f (LabelEncoder)"],
    ]
    assert [list(v.stored) for v in found.vocabularies] == [STORED, STORED[1:]]


def test_external_strings_are_not_opened(tmp_path: Path) -> None:
    """A tensor that says that its strings lie in another file is a warning."""
    outside = strings("out", ())
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="/etc/passwd")
    encoder = node("LabelEncoder", "e", keys_tensor=outside)
    found = read(tmp_path, encoder, initializers=[outside])
    assert (found.vocabularies, found.passed_over) == ((), ())
    told = "its strings are in another file, which is not opened"
    assert found.warnings == (f"initializer out: {told}", f"node e: {told}")


def packed(values: Any) -> bytes:
    return b"".join(varint(value) for value in values)


def model_of(*nodes: bytes) -> bytes:
    return b"\x08\x08" + field(7, b"".join(field(1, part) for part in nodes))


def attribute(name: bytes, *rest: bytes) -> bytes:
    return field(5, field(1, name) + b"".join(rest))


def test_packed_integers(tmp_path: Path) -> None:
    """A writer with the schema of proto3 packs integers; floats between them are skipped."""
    ids = list(range(500, 1700))
    words = [b"w%d" % number for number in ids]
    keys = b"".join(field(9, word) for word in words)
    for values in (
        field(8, packed(ids)),
        b"\x3d0000" * 500 + b"".join(b"\x40" + varint(number) for number in ids) + b"\xa0\x01\x07",
    ):
        encoder = field(4, b"LabelEncoder") + attribute(b"keys_strings", keys)
        path = written(tmp_path, model_of(encoder + attribute(b"values_int64s", values)))
        assert ids_and_entries(only(vocabtool.inspect(path))) == by_id(words, ids)


LIST = field(9, b"word") * 200


def one_attribute(name: bytes, *rest: bytes, op: bytes = b"LabelEncoder") -> bytes:
    return model_of(field(4, op) + attribute(name, *rest))


DAMAGED = {
    "the values of a list are in more than 1000 separate groups": one_attribute(
        b"a", (field(9, b"") + b"\x40\x01") * 2_000, op=b"Constant"
    ),
    "truncated or longer than 10": one_attribute(b"values_int64s", b"\x40\x01" * 600 + b"\x40\xff"),
    "is longer than 10 bytes": one_attribute(b"values_int64s", b"\x40" + b"\xff" * 800 + b"\x01"),
    "the numbers take 9 bytes, wanted a multiple of 8": one_attribute(
        b"values_tensor", field(5, field(9, bytes(9)) + b"\x10\x07")
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
    found = vocabtool.inspect(written(tmp_path, data))
    assert [len(vocabulary) for vocabulary in found.vocabularies] == [200]
    (warning,) = found.warnings
    assert message in warning


def test_nesting(tmp_path: Path) -> None:
    """2,000 graphs in each other are followed for a while, then said to be too deep."""
    part = b""
    for _ in range(2_000):
        part = field(1, attribute(b"a", field(6, part)))
    found = vocabtool.inspect(written(tmp_path, b"\x08\x08" + field(7, part)))
    assert (found.vocabularies, found.passed_over) == ((), ())
    assert found.warnings == ("graphs nested more than 16 deep are not read",)


def test_hostile_in_little_time(tmp_path: Path) -> None:
    """Half a megabyte of small nodes, attributes or graphs take seconds, not minutes."""
    small = field(4, b"LabelEncoder") + attribute(b"classes_strings", field(9, b"x"))
    for part in (small, attribute(b"a", field(11, b"") * 9), attribute(b"t")):
        one = field(1, part)
        path = written(tmp_path, b"\x08\x08" + field(7, one * (500_000 // len(one))))
        began = time.process_time()
        with suppress(UnsupportedFormat):
            vocabtool.inspect(path)
        assert time.process_time() - began < 10


OPERATORS: list[tuple[str, dict[str, Any], bool, Unknown | None]] = [
    ("LabelEncoder", {"classes_strings": WORDS}, False, Unknown(-1)),
    (
        "LabelEncoder",
        {"keys_strings": WORDS, "values_int64s": IDS, "default_int64": -7},
        *(True, Unknown(-7)),
    ),
    ("LabelEncoder", {"keys_int64s": IDS, "values_strings": WORDS}, True, None),
    (
        "CategoryMapper",
        {"cats_strings": WORDS, "cats_int64s": IDS, "default_int64": 42},
        *(True, Unknown(42)),
    ),
    ("DictVectorizer", {"string_vocabulary": WORDS}, False, None),
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


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and lists beyond any model's number end the walk."""
    constants = [field(4, b"C%d" % n) + attribute(b"a", field(9, b"x")) for n in range(20)]
    path = written(tmp_path, model_of(*constants))
    monkeypatch.setattr("vocabtool.formats.onnx.MAX_LISTS", 10)
    found = vocabtool.inspect(path)
    assert len(found.passed_over) == 10
    assert found.warnings == ("more than 10 lists of strings: the rest is not read",)
    monkeypatch.setattr("vocabtool.formats.onnx.MAX_PARTS", 5)
    with pytest.raises(UnsupportedFormat, match="model has more than 5 nodes and attributes"):
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
    assert "BPE with 1 merges" in vocabulary.notes[0]


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


def test_bpe_decoder(tmp_path: Path) -> None:
    """Empty lines count, and an added token replaces the line of its id."""
    decoder = extension(tmp_path, "BpeDecoder", id_vocab="a\n\nb\nĠc", added_tokens="3\tQQ\n9\tR")
    assert ids(decoder) == [(0, "a"), (1, ""), (2, "b"), (3, "QQ"), (9, "R")]


@pytest.mark.parametrize("op", ["TrieTokenizer", "TrieDetokenizer"])
def test_rwkv(tmp_path: Path, op: str) -> None:
    """RWKV's lines of an id, a literal and a length."""
    vocabulary = extension(tmp_path, op, vocab="1 '\\x00' 1\n3 ' the' 4\n7 b'\\xe4\\xb8' 2\n")
    assert vocabulary.id_array().tolist() == [1, 3, 7]
    assert list(vocabulary.stored) == [b"\0", b" the", b"\xe4\xb8"]
    assert (vocabulary.kind, vocabulary.marker) == ("table", " ")


@pytest.mark.parametrize("op", ["SentencepieceTokenizer", "SentencepieceDecoder"])
def test_sentencepiece(tmp_path: Path, op: str) -> None:
    """A model of any size, small ones too."""
    scored = [field(1, piece) + b"\x15" + bytes(4) for piece in PIECES]
    scored[0] += b"\x18\x02"
    vocabulary = extension(tmp_path, op, model=b"".join(field(1, piece) for piece in scored))
    assert (list(vocabulary.stored), vocabulary.unknown) == (PIECES, Unknown(0))
    assert (vocabulary.kind, vocabulary.marker) == ("sentencepiece", "▁")


def test_string_mapping(tmp_path: Path) -> None:
    """The words that are mapped; empty lines and columns are skipped, the last of equals counts."""
    lines = "black\tOK\n\nwhite\t\tNot OK\nblack\tNo\n"
    found = read(tmp_path, node("StringMapping", "n", CONTRIB, map=lines))
    (keys,) = found.vocabularies
    assert (list(keys), keys.kind, found.warnings) == (["black", "white"], "table", ())
    assert [(item.name, item.size) for item in found.passed_over] == [("n.values", 2)]


def test_string_to_vector(tmp_path: Path) -> None:
    """A single number for each word is its id; more are a vector."""
    table = extension(tmp_path, "StringToVector", map="a\t3\nb\t1 \na\t2", unk="-1")
    assert (ids(table), table.unknown) == ([(1, "b"), (2, "a")], Unknown(-1))
    vectors = extension(tmp_path, "StringToVector", map="a\t0 0 1 2\nd\t0 1 3 4", unk="0 0 0 0")
    assert (ids(vectors), vectors.unknown) == ([(0, "a"), (1, "d")], None)
    assert vectors.notes == (
        "a table that maps these to vectors of 4 numbers; the ids are their positions",
    )


def test_vector_to_string(tmp_path: Path) -> None:
    """Words of ids, among which one may stand twice; the last of equal vectors counts."""
    table = extension(tmp_path, "VectorToString", map="a\t2\nb\t1\na\t5\nc\t1", unk="?")
    assert ids(table) == [(1, "c"), (2, "a"), (5, "a")]
    vectors = extension(tmp_path, "VectorToString", map="a\t0 1\nd\t0 2", unk="?")
    assert list(vectors) == ["a", "d"]
    assert vectors.notes == (
        "a table that maps vectors of 2 numbers to these; the ids are their positions",
    )


@pytest.mark.parametrize(
    ("op", "attributes", "why"),
    [
        ("BertTokenizer", {}, "the attribute vocab_file with the words is missing"),
        ("GPT2Tokenizer", {"vocab": "v"}, "not JSON: Expecting value (at byte 0)"),
        ("GPT2Tokenizer", {"vocab": '["a"]'}, "model.vocab is a list, wanted an object"),
        ("CLIPTokenizer", {"vocab": '{"a": 0}', "added_token": "x"}, "line 1 is b'x', wanted"),
        ("CLIPTokenizer", {"vocab": '{"a": 0}', "added_token": "x=-1"}, "added_tokens: item 0,"),
        ("WordpieceTokenizer", {"vocab": '{"a": -4}'}, "model.vocab: the id of 'a' is -4, wanted"),
        ("HfJsonTokenizer", {"tokenizer_vocab": "[]"}, "tokenizer_vocab is not a tokenizer.json:"),
        ("SentencepieceTokenizer", {"model": "xx"}, "not a SentencePiece model: it does not"),
        ("TrieTokenizer", {"vocab": "1 'a' 1\n\n2 'b' 1"}, "line 2: wanted an id, a"),
        ("StringMapping", {"map": "a\tb\nc"}, "line 2 has 1 columns: b'c', wanted a key, a tab"),
        ("StringToVector", {"map": "a\t1.5", "unk": "0"}, "line 1 is b'1.5', wanted a whole"),
        ("BpeDecoder", {"id_vocab": "a", "added_tokens": "x\ty"}, "line 1 is b'x', wanted a"),
    ],
)
def test_damaged_extension(tmp_path: Path, op: str, attributes: dict[str, str], why: str) -> None:
    """What a tokenizer's text is, where it is not what its operator wants: the model is
    incomplete."""
    found = read(tmp_path, node(op, "n", CONTRIB, **attributes))
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
