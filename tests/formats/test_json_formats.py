"""JSON files: what is JSON at all, which format it is, and every such format but tokenizer.json.

tensorflowjs is not installed here (it pins other versions of TensorFlow): its files are built by
hand after its own layout. spaCy and tokenizers write theirs themselves.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import vocabtool
from tests.reader_checks import Found, found_in, recognised, source_of, survives
from vocabtool.errors import InvalidFile, UnknownFormat, UnsupportedFormat
from vocabtool.formats import hf_vocab_json, json_text, json_values, spacy_strings, tfjs
from vocabtool.vocabulary import Unknown, Vocabulary, encode

WORDS = tuple(f"word{number}" for number in range(12))


def found(data: bytes, folder: Path, name: str = "file.json") -> Found:
    file = folder / name
    file.write_bytes(data)
    return found_in(json_text.READER, file)


def only(data: bytes, folder: Path, name: str = "file.json") -> Vocabulary:
    """The one vocabulary of a file of which everything is understood."""
    (vocabulary,), passed_over, warnings = found(data, folder, name)[:3]
    assert (passed_over, warnings) == ((), ())
    assert vocabulary.name == name
    return vocabulary


# What is JSON.


def test_other_formats(tmp_path: Path) -> None:
    """Only JSON is taken for JSON: a list of words may begin with a bracket."""
    assert recognised(json_text.READER, tmp_path) == {"json", "json_list"}


@pytest.mark.parametrize(
    "head", ["[PAD]\n[UNK]\n", "[\n]\n{\n", "{\n}", "[ 0.5 0.25\n", "{a}", '"a"']
)
def test_words_that_look_like_json(head: str, tmp_path: Path) -> None:
    """A bracket alone is no JSON: it may be the first entry of a text file."""
    file = tmp_path / "vocab.txt"
    file.write_text(head)
    taken = json_text.READER.recognise(source_of(file)) is None
    assert taken == (head == "{\n}")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r\n\t", b"\n"])
def test_byte_order_mark(mark: bytes, tmp_path: Path) -> None:
    """A byte order mark and blanks before the value are no part of it."""
    assert only(mark + b'{"the": 0}', tmp_path).tokens == ["the"]


DAMAGED: dict[str, tuple[bytes, str]] = {
    "cut off": (b'{"the": 0, "of', "not JSON: Unterminated string starting at \\(at byte 11\\)"),
    "behind other characters": (
        b'\xef\xbb\xbf{"\xe6\x97\xa5": 0 x}',
        "not JSON: Expecting ',' delimiter \\(at byte 13\\)",
    ),
    "lines of JSON": (
        b'{"a": 1}\n{"b": 1}\n',
        "Extra data, more than one value: JSON lines are documents, no model \\(at byte 9\\)",
    ),
    "latin-1": (b'{"na\xefve": 0}', "JSON that is not UTF-8: write it as UTF-8 \\(at byte 4\\)"),
    "nested": (b"[" * 99_999 + b"1" + b"]" * 99_999, "takes some|nested too deeply"),
    "nested, with a long text": (
        b"[" * 50_000 + b'"' + b"x" * 1_000_000 + b'"' + b"]" * 50_000,
        "nested too deeply",
    ),
    "nested objects": (b'{"a":' * 50_000 + b'"' + b"x" * 99_999 + b'"', "nested too deeply"),
    "number": (b'{"a": ' + b"1" * 5000 + b"}", "JSON that is not read: Exceeds the limit"),
    "lists": (b"[" + b"[]," * 400_000 + b"[]]", "takes some 114 MB of memory, 100 times its size"),
    "objects": (b"[" + b"{}," * 400_000 + b"[]]", "no vocabulary looks like that"),
    "small numbers": (b"[[" + b"0," * 800_000 + b"0]]", r"50 times its size, wanted at most 40"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_json(case: str, tmp_path: Path) -> None:
    """What is not JSON, or would take too much memory, is refused; it says where and why."""
    data, message = DAMAGED[case]
    with pytest.raises(InvalidFile, match=message):
        found(data, tmp_path)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is larger than the cap is not parsed."""
    monkeypatch.setattr(json_text, "MAX_FILE", 10)
    assert only(b'{"the":0} ', tmp_path).tokens == ["the"]
    with pytest.raises(UnsupportedFormat, match="JSON of more than 10 bytes"):
        found(b'{"the":0}  ', tmp_path)


def test_short_pieces_are_no_bomb(tmp_path: Path) -> None:
    """A large model of the shortest pieces there are is not taken for a bomb."""
    pieces = [[chr(a) + chr(b), -9.5] for a in range(97, 123) for b in range(97, 123)] * 200
    document = {"model": {"type": "Unigram", "vocab": pieces}}
    data = json.dumps(document, separators=(",", ":")).encode()
    assert len(only(data, tmp_path)) == 135_200


def test_a_pointer_of_git_lfs(tmp_path: Path) -> None:
    """A pointer is no JSON to begin with."""
    file = tmp_path / "tokenizer.json"
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert json_text.READER.recognise(source_of(file)) is not None
    with pytest.raises(InvalidFile, match="pointer of Git LFS"):
        json_text.READER.read(source_of(file))


def test_no_format_fits(tmp_path: Path) -> None:
    """JSON of no known format: each format says why it is not its own."""
    with pytest.raises(UnknownFormat) as caught:
        found(b'{"layers": 12}{'[:-1].replace(b"12", b'"12"'), tmp_path)
    assert caught.value.tried == (
        "Hugging Face tokenizer.json: no object model in it",
        "TensorFlow.js model.json: neither modelTopology nor weightsManifest in it",
        "Keras Tokenizer (to_json): no word_index in it",
        "Mistral tekken.json: no list vocab and object config in it",
        "JSON of tiktoken ranks: no text bpe_ranks in it",
        "JSON object of ids (Hugging Face vocab.json): the id of 'layers' is a text, "
        "wanted a whole number from 0 to 4,294,967,295",
        "JSON list of pieces and scores (TensorFlow.js): an object, wanted a list of pieces "
        "and scores",
        "JSON list of texts (spaCy strings.json): an object, wanted a list of texts",
    )
    with pytest.raises(UnknownFormat) as caught:
        found(b"[[1, 2]]", tmp_path)
    assert caught.value.tried[5:] == (
        "JSON object of ids (Hugging Face vocab.json): a list, wanted an object of entries "
        "and their ids",
        "JSON list of pieces and scores (TensorFlow.js): item 0 holds a whole number and a whole "
        "number, wanted a text and a number",
        "JSON list of texts (spaCy strings.json): item 0 is a list, wanted a text",
    )


@given(st.lists(st.text()), st.sampled_from(["", "\udc80", "\udcff", "\n"]))
def test_strings_are_encoded(texts: list[str], more: str) -> None:
    """All at once as one by one, whatever is in them."""
    texts.append(more)
    assert list(json_values.strings(texts, "text")) == [encode(text) for text in texts]


def test_collection_of_cycles_goes_on(tmp_path: Path) -> None:
    """Python's search for cycles is on again after a file was read, good or bad."""
    import gc

    found(b'{"the": 0}', tmp_path)
    assert gc.isenabled()
    with pytest.raises(InvalidFile, match="not JSON"):
        found(b'{"the"}', tmp_path)
    assert gc.isenabled()


# vocab.json and merges.txt.


def trained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["the quick brown fox, the naïve 日本 fox"] * 9, trainer)
    return tokenizer


def test_vocab_and_merges(tmp_path: Path) -> None:
    """The two files of a GPT-2 as the library writes them: its entries, its number of merges."""
    tokenizer = trained()
    tokenizer.model.save(str(tmp_path))
    merges = len(json.loads(tokenizer.to_str())["model"]["merges"])
    (vocabulary,) = found_in(json_text.READER, tmp_path / "vocab.json").vocabularies
    ids = dict(zip(vocabulary, vocabulary.id_array().tolist(), strict=True))
    assert ids == tokenizer.get_vocab()
    assert vocabulary.kind == "bpe"
    assert vocabulary.notes == (f"BPE with {merges} merges in merges.txt",)
    assert vocabulary.places == (("vocab.json", "whole object"),)


def test_marker_of_a_vocab_json(tmp_path: Path) -> None:
    """The file does not say how pieces are marked: that is told by the pieces."""
    assert only('{"Ġthe": 0, "s": 1}'.encode(), tmp_path).marker == "Ġ"
    assert only(b'{"the": 0, "s": 1}', tmp_path).marker is None


def test_vocab_without_merges(tmp_path: Path) -> None:
    """Alone it is a table; ids may have gaps and come in any order, and nothing is unknown."""
    vocabulary = only(b'{"c": 7, "a": 2, "b": 3}', tmp_path)
    assert list(vocabulary.stored) == [b"a", b"b", b"c"]
    assert vocabulary.id_array().tolist() == [2, 3, 7]
    assert (vocabulary.kind, vocabulary.unknown) == ("table", None)
    assert vocabulary.notes == ("3 ids up to 7: these may be counts of words",)


def test_added_tokens(tmp_path: Path) -> None:
    """A file of its own, which has no merges and no counts; the vocabulary names it."""
    tokenizer = trained()
    tokenizer.model.save(str(tmp_path))
    (tmp_path / "added_tokens.json").write_bytes(b'{"<pad>": 50257, "<sep>": 50258}')
    (entries,) = found_in(json_text.READER, tmp_path / "vocab.json").vocabularies
    assert (entries.kind, entries.notes[1:]) == ("bpe", ("more tokens stand in added_tokens.json",))
    (added,) = found_in(json_text.READER, tmp_path / "added_tokens.json").vocabularies
    assert (added.tokens, added.id_array().tolist()) == (["<pad>", "<sep>"], [50257, 50258])
    assert added.kind == "table"
    assert added.notes == (
        "tokens that were added to another vocabulary: that of the files beside it",
    )


@pytest.mark.parametrize(
    ("data", "format_"),
    [
        (b'{"the": 0}', "JSON object of ids (Hugging Face vocab.json)"),
        (b'["the"]', "JSON list of texts (spaCy strings.json)"),
        (b'[["the", -1.5]]', "JSON list of pieces and scores (TensorFlow.js)"),
        (b'{"modelTopology": {}}', "TensorFlow.js model.json"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}}}', "Hugging Face tokenizer.json"),
    ],
)
def test_the_format_is_named(data: bytes, format_: str, tmp_path: Path) -> None:
    """``inspect`` says which of the formats that are JSON a file has."""
    assert found(data, tmp_path).format == format_
    assert vocabtool.inspect(tmp_path / "file.json").format == format_


def test_a_key_twice(tmp_path: Path) -> None:
    """Of a key that repeats the last id counts, as in the library."""
    vocabulary = only(b'{"a": 0, "b": 1, "a": 2}', tmp_path)
    assert dict(zip(vocabulary, vocabulary.id_array().tolist(), strict=True)) == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "a list, wanted an object of entries and their ids"),
        ({}, "an object without any key"),
        ({"a": 3, "b": 3}, "two keys have the value 3: these are no ids"),
        ({"a": True}, "the id of 'a' is true or false, wanted a whole number from 0 to"),
        ({"a": 0, "b": -5}, "the id of 'b' is -5, wanted"),
        ({"a": 2**70}, "the id of 'a' is 1,180,591,620,717,411,303,424, wanted"),
        ({"a": {"b": 0}}, "the id of 'a' is an object, wanted"),
    ],
)
def test_no_vocab_json(document: object, reason: str) -> None:
    """What is not an object of distinct ids is not taken for one."""
    assert (hf_vocab_json.recognise(document) or "").startswith(reason)


@pytest.mark.parametrize(
    "document",
    [
        {"model_max_length": 512},
        {"version": 3},
        {"maxLength": 128, "hiddenSize": 384},
        {"hidden_size": 768, "num_layers": 12, "heads": 4},
        {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ],
)
def test_settings_are_no_vocabulary(document: dict[str, int], tmp_path: Path) -> None:
    """Numbers with the names of settings are no ids: not alone, and not in a folder."""
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(document))
    reason = "its keys are names of settings, and their values no ids"
    assert hf_vocab_json.recognise(document) == reason
    with pytest.raises(UnknownFormat, match=reason):
        vocabtool.inspect(file)
    (tmp_path / "merges.txt").write_bytes(b"#version: 0.2\na b\n")
    with pytest.raises(UnknownFormat):
        vocabtool.inspect(tmp_path)
    (tmp_path / "vocab.json").write_bytes(b'{"a": 0, "b": 1, "ab": 2}')
    found = vocabtool.inspect(tmp_path)
    assert [vocabulary.tokens for vocabulary in found.vocabularies] == [["a", "b", "ab"]]
    assert [passed.name for passed in found.passed_over] == ["tokenizer_config.json"]


@pytest.mark.parametrize(
    "document",
    [
        {"<mask>": 30522},
        {"the": 0},
        {"card_lost": 0, "card_stolen": 1},
        {"card_lost": 1, "card_stolen": 2},
        {"<pad>": 50257, "<sep>": 50300},
        {f"my_name_{number}": 3 * number for number in range(100)},
    ],
)
def test_these_are_ids(document: dict[str, int], tmp_path: Path) -> None:
    """Added tokens, labels that count on, and names by the hundred."""
    assert only(json.dumps(document).encode(), tmp_path).tokens == [*document]


@pytest.mark.parametrize(
    ("merges", "warning"),
    [
        (b"#version: 0.2\na b\nc\n", "merges.txt: line 3 is no merge, wanted two pieces, a blank"),
        (b"a b c\n", "merges.txt: line 1 is no merge"),
        (b"version https://git-lfs.github.com/spec/v1\n", "merges.txt: a pointer of Git LFS"),
    ],
)
def test_odd_merges(merges: bytes, warning: str, tmp_path: Path) -> None:
    """Merges that cannot be counted are told; the entries are there all the same."""
    (tmp_path / "merges.txt").write_bytes(merges)
    (vocabulary,), _, warnings = found(b'{"a": 0}', tmp_path)[:3]
    assert (vocabulary.kind, vocabulary.notes) == ("bpe", ())
    assert len(warnings) == 1
    assert warnings[0].startswith(warning)


def test_merges_with_returns(tmp_path: Path) -> None:
    """Merges may end in CR LF, and need no version."""
    (tmp_path / "merges.txt").write_bytes("Ġ t\r\na b\r\n".encode())
    assert only(b'{"a": 0}', tmp_path).notes == ("BPE with 2 merges in merges.txt",)


def test_large_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merges beyond the cap are not read."""
    monkeypatch.setattr(hf_vocab_json, "MAX_MERGES_FILE", 3)
    (tmp_path / "merges.txt").write_bytes(b"a b\n")
    assert found(b'{"a": 0}', tmp_path).warnings == ("merges.txt: larger than 3 bytes",)


# spaCy's strings.json.


def test_strings_of_spacy(tmp_path: Path) -> None:
    """spaCy writes its strings in its own order: an id is a position in it."""
    spacy_store = pytest.importorskip("spacy.strings", reason="the oracle: spaCy writes the file")
    texts = ["coffee", "naïve", "日本", "a\nb", " ", "287.9"]
    store = spacy_store.StringStore(texts)
    store.to_disk(tmp_path / "strings.json")
    (vocabulary,) = found_in(json_text.READER, tmp_path / "strings.json").vocabularies
    assert sorted(vocabulary) == sorted(store) == sorted(texts)
    assert vocabulary.tokens == json.loads((tmp_path / "strings.json").read_text("utf-8"))
    assert (vocabulary.kind, vocabulary.ids, vocabulary.first_id) == ("list", None, 0)
    assert vocabulary.notes == ("ids are positions in the list (in spaCy, hashes of the strings)",)


def test_no_list_of_texts() -> None:
    """A list of anything else is no vocabulary, nor is one of nothing."""
    assert spacy_strings.recognise({}) == "an object, wanted a list of texts"
    assert spacy_strings.recognise([]) == "an empty list"
    assert spacy_strings.recognise(["a", 1]) == "item 1 is a whole number, wanted a text"


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    """JSON can spell what is no character: refused, unless a byte is shown as it."""
    with pytest.raises(InvalidFile, match=r"text 1 is .*half of a surrogate pair is no character"):
        found(b'["a", "\\ud83d"]', tmp_path)
    assert list(only(b'["\\ud83d\\ude42", "\\udcff"]', tmp_path).stored) == ["🙂".encode(), b"\xff"]


# TensorFlow.js' model.json, built by hand.


def node(name: str, op: str, *inputs: str, **tensor: Any) -> dict[str, Any]:
    attributes = {"value": {"tensor": tensor}} if tensor else {}
    return {"name": name, "op": op, "input": list(inputs), "attr": attributes}


def string_tensor(texts: Sequence[str], *shape: int) -> dict[str, Any]:
    """A tensor of strings as protobuf writes it in JSON."""
    lengths = [{"size": str(length)} for length in shape or (len(texts),)]
    encoded = [b64encode(text.encode()).decode() for text in texts]
    return {"dtype": "DT_STRING", "tensorShape": {"dim": lengths}, "stringVal": encoded}


def strings_weight(texts: Sequence[str]) -> bytes:
    """Strings as TensorFlow.js packs them."""
    return b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)


def weight(name: str, dtype: str, *shape: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape), **more}


def tables() -> Iterator[dict[str, Any]]:
    """A table that is filled from its keys and its values, and asked."""
    yield node("table", "HashTableV2")
    yield node("import", "LookupTableImportV2", "table", "copy:0", "ids")
    yield node("copy", "Identity", "keys")
    yield node("find", "LookupTableFindV2", "table:0", "words", "default")


def tfjs_model(folder: Path, *, cut: int = 50) -> dict[str, Any]:
    """A model as the converter writes it: its weights cut in two files; 80 floats come first."""
    numbers = struct.pack("<12i", *range(2, 14))
    data = struct.pack("<80f", *range(80)) + strings_weight(WORDS) + numbers
    data += struct.pack("<i", 1) + bytes(6)
    (folder / "group1-shard1of2.bin").write_bytes(data[: 320 + cut])
    (folder / "group1-shard2of2.bin").write_bytes(data[320 + cut :])
    weights = [
        weight("floats", "float32", 8, 10),
        weight("keys", "string", 12),
        weight("ids", "int32", 12),
        weight("default", "int32"),
        weight("quantized", "float32", 6, quantization={"dtype": "uint8", "min": 0, "scale": 1}),
    ]
    paths = ["group1-shard1of2.bin", "group1-shard2of2.bin"]
    return {
        "format": "graph-model",
        "modelTopology": {"node": [node("words", "Placeholder")]},
        "modelInitializer": {"node": list(tables())},
        "weightsManifest": [{"paths": paths, "weights": weights}],
    }


def write(document: object, folder: Path) -> Path:
    file = folder / "model.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("cut", [-320, 0, 2, 50, 111])
def test_a_table_in_the_weights(cut: int, tmp_path: Path) -> None:
    """Keys, ids and the default of a table, from weights that two files share."""
    file = write(tfjs_model(tmp_path, cut=cut), tmp_path)
    (vocabulary,), passed_over, warnings = found_in(json_text.READER, file)[:3]
    assert (passed_over, warnings) == ((), ())
    assert tuple(vocabulary) == WORDS
    assert (vocabulary.name, vocabulary.kind, vocabulary.first_id) == ("table", "table", 2)
    assert vocabulary.unknown == Unknown(1)
    assert vocabulary.places == (("group1-shard1of2.bin", "weight keys"),)


@pytest.mark.parametrize("int64", ["DT_INT64", 9])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_table_in_the_graph(swapped: bool, int64: object, tmp_path: Path) -> None:
    """Constants whose values stand in the graph itself, in a function too; an inverse table.

    Old converters write the number of a type.
    """
    ids: dict[str, Any] = {"dtype": int64, "int64Val": [str(n) for n in range(12)]}
    content = struct.pack("<q", -1)
    sides = ("ids:output:0", "keys:0") if swapped else ("keys:0", "ids:output:0")
    nodes = [
        node("keys", "Const", **string_tensor(WORDS)),
        node("ids", "Const", **ids),
        node("none", "Const", dtype=int64, tensorContent=b64encode(content).decode()),
        node("import", "LookupTableImportV2", "table", *sides),
        node("find", "LookupTableFindV2", "table", "words", "none"),
    ]
    function = {"signature": {"name": "f"}, "nodeDef": nodes}
    document = {"modelTopology": {"node": [], "library": {"function": [function]}}}
    (vocabulary,) = found_in(json_text.READER, write(document, tmp_path)).vocabularies
    assert tuple(vocabulary) == WORDS
    assert (vocabulary.kind, vocabulary.unknown) == ("table", Unknown(-1))
    assert vocabulary.places == (("model.json", "modelTopology function f node keys"),)


def test_constants_of_no_table(tmp_path: Path) -> None:
    """A list of strings that no table uses may be a vocabulary; few strings, or rows, are not."""
    nodes = [
        node("many", "Const", **string_tensor(WORDS)),
        node("few", "Const", **string_tensor(WORDS[:3])),
        node("rows", "Const", **string_tensor(WORDS, 3, 4)),
        node("one", "Const", dtype="DT_STRING", tensorShape={}, stringVal=["YQ=="]),
        node("float", "Const", dtype="DT_FLOAT", floatVal=[0.5]),
    ]
    file = write({"modelTopology": {"node": nodes}}, tmp_path)
    (vocabulary,), passed_over, warnings = found_in(json_text.READER, file)[:3]
    assert (vocabulary.name, vocabulary.kind, tuple(vocabulary)) == ("many", "constant", WORDS)
    assert warnings == ()
    assert [(other.name, other.size, other.why) for other in passed_over] == [
        ("few", 3, "fewer than 10 strings that no table uses"),
        ("rows", 12, "strings in rows and columns: a vocabulary is one list"),
    ]


def test_long_strings(tmp_path: Path) -> None:
    """A string may be longer than what is read at a time."""
    texts = [*WORDS, "x" * 1_000_000, "", "last"]
    (tmp_path / "a.bin").write_bytes(strings_weight(texts))
    manifest = [{"paths": ["a.bin"], "weights": [weight("w", "string", 15)]}]
    file = write({"weightsManifest": manifest}, tmp_path)
    (vocabulary,) = found_in(json_text.READER, file).vocabularies
    assert list(vocabulary) == texts


@pytest.mark.parametrize(
    "name", ["../a.bin", "/etc/passwd", "..", "", "a\\b", "C:a", "a\0", "\ud800"]
)
def test_no_path_is_opened(name: str, tmp_path: Path) -> None:
    """A file is only opened beside the model, by a bare name."""
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "a.bin").write_bytes(strings_weight(WORDS))
    document = {"weightsManifest": [{"paths": [name], "weights": [weight("w", "string", 12)]}]}
    vocabularies, _, warnings = found_in(json_text.READER, write(document, folder))[:3]
    assert vocabularies == ()
    assert len(warnings) == 1
    assert "weights 'w': " in warnings[0]
    assert "a path: it is not opened" in warnings[0]


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A link beside the model is not opened; what it points to might be anything."""
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "a.bin").write_bytes(strings_weight(WORDS))
    (folder / "a.bin").symlink_to(tmp_path / "a.bin")
    document = {"weightsManifest": [{"paths": ["a.bin"], "weights": [weight("w", "string", 12)]}]}
    vocabularies, _, (warning,) = found_in(json_text.READER, write(document, folder))[:3]
    assert vocabularies == ()
    assert "a.bin: a symbolic link: it is not opened" in warning


def test_no_strings_in_no_file(tmp_path: Path) -> None:
    """A group without a file may have a weight without a value."""
    document = {"weightsManifest": [{"paths": [], "weights": [weight("w", "string", 0)]}]}
    (passed_over,) = found_in(json_text.READER, write(document, tmp_path)).passed_over
    assert passed_over[:3] == ("w", 0, ("model.json", "weight w"))


def test_many_groups(tmp_path: Path) -> None:
    """Each weight is looked at once, not once for every group."""
    none: dict[str, Any] = {"paths": [], "weights": []}
    floats = {"paths": [], "weights": [weight("w", "float32", 1)] * 20_000}
    document = {"weightsManifest": [none] * 40_000 + [floats]}
    began = perf_counter()
    assert found_in(json_text.READER, write(document, tmp_path)).vocabularies == ()
    assert perf_counter() - began < 10


@pytest.mark.parametrize("op", [[], {}, 1, None])
def test_an_op_that_is_no_text(op: object, tmp_path: Path) -> None:
    """No operation that is known."""
    document = {
        "modelTopology": {"node": [{"name": "a", "op": op, "input": ["b", "c", "d"]}]},
        "weightsManifest": [],
    }
    assert found_in(json_text.READER, write(document, tmp_path)).vocabularies == ()


def test_files_are_opened_only_for_strings(tmp_path: Path) -> None:
    """A file that holds nothing but numbers may be missing."""
    floats = weight("w", "float32", 1)
    document = {"weightsManifest": [{"paths": ["none.bin"], "weights": [floats]}]}
    assert found_in(json_text.READER, write(document, tmp_path)).vocabularies == ()


UNREADABLE: dict[str, tuple[list[dict[str, Any]], bytes, str]] = {
    "no such file": ([weight("w", "string", 1)], b"", "names this file, and it is not beside it"),
    "too many strings": (
        [weight("w", "string", 1 << 40)],
        strings_weight(WORDS),
        "1,099,511,627,776 strings do not fit into 110 bytes (at byte 0)",
    ),
    "cut off": (
        [weight("w", "string", 12)],
        strings_weight(WORDS)[:-1],
        "a string runs past the end of the files (at byte 100)",
    ),
    "numbers cut off": (
        [weight("f", "float32", 1 << 50), weight("w", "string", 1)],
        strings_weight(WORDS),
        "weight 'f' ends at byte 4,503,599,627,370,496 of its files, which have 110",
    ),
    "an unknown dtype": (
        [weight("f", "bfloat16", 1), weight("w", "string", 1)],
        strings_weight(WORDS),
        "weight 'f' has dtype 'bfloat16', whose size is not known",
    ),
    "a pointer": (
        [weight("w", "string", 1)],
        b"version https://git-lfs.github.com/spec/v1\n",
        "a pointer of Git LFS",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_weights(case: str, tmp_path: Path) -> None:
    """Weights that cannot be read are a warning: the rest of the model is still there."""
    weights, data, message = UNREADABLE[case]
    if data:
        (tmp_path / "a.bin").write_bytes(data)
    document = {
        "modelTopology": {"node": [node("many", "Const", **string_tensor(WORDS))]},
        "weightsManifest": [{"paths": ["a.bin"], "weights": weights}],
    }
    (vocabulary,), _, (warning,) = found_in(json_text.READER, write(document, tmp_path))[:3]
    assert vocabulary.name == "many"
    assert message in warning


BROKEN_MANIFESTS: dict[str, tuple[object, str]] = {
    "no list": ({}, "weightsManifest is an object, wanted a list"),
    "group": ([1], "weightsManifest: group 0 is a whole number, wanted an object"),
    "paths": ([{"weights": []}], "weightsManifest: group 0: paths is null, wanted a list"),
    "a huge shape": (
        [{"paths": [], "weights": [weight("w", "string", *[1 << 62] * 254)]}],
        "a shape that no tensor has",
    ),
    "path": ([{"paths": [1], "weights": []}], "group 0: a path that is no text"),
    "twice": ([{"paths": ["a", "a"], "weights": []}], "a file is named twice"),
    "weights": ([{"paths": []}], "group 0: weights is null, wanted a list"),
    "weight": ([{"paths": [], "weights": [1]}], "a weight is a whole number, wanted an object"),
    "name": ([{"paths": [], "weights": [{}]}], "the name of a weight is null, wanted a text"),
    "shape": (
        [{"paths": [], "weights": [weight("w", "string", -1)]}],
        "weight 'w': a shape that no tensor has",
    ),
    "dtype": ([{"paths": [], "weights": [{"name": "w", "shape": []}]}], "weight 'w': no dtype"),
}


@pytest.mark.parametrize("case", BROKEN_MANIFESTS)
def test_broken_manifest(case: str, tmp_path: Path) -> None:
    """A manifest that is not laid out as one is refused."""
    manifest, message = BROKEN_MANIFESTS[case]
    document = {"modelTopology": {}, "weightsManifest": manifest}
    with pytest.raises(InvalidFile, match=message):
        found_in(json_text.READER, write(document, tmp_path))


def test_too_many_files(tmp_path: Path) -> None:
    """More files than any model has are not opened."""
    manifest = [{"paths": [str(number) for number in range(10_001)], "weights": []}]
    with pytest.raises(InvalidFile, match="10,001 files, wanted at most 10,000"):
        found_in(json_text.READER, write({"weightsManifest": manifest}, tmp_path))


LYING: dict[str, tuple[dict[str, Any], str]] = {
    "base64": (string_tensor(WORDS) | {"stringVal": ["a"]}, "'a' is not base64"),
    "no text": (string_tensor(WORDS) | {"stringVal": [1]}, "a whole number, wanted base64"),
    "no list": (string_tensor(WORDS) | {"stringVal": "YQ=="}, "stringVal is a text, wanted a list"),
    "shape": (string_tensor(WORDS, 1 << 62), "12 values for a shape of [4611686018427387904]"),
    "size": (
        {"stringVal": ["YQ=="], "tensorShape": {"dim": [{"size": "x"}]}},
        "a text, wanted a whole number of 64 bits",
    ),
    "content": ({"dtype": "DT_INT32", "tensorContent": "YQ=="}, "1 bytes are no whole number of v"),
    "number": ({"dtype": "DT_INT64", "int64Val": [str(2**63)]}, "a whole number, wanted a whole n"),
}


@pytest.mark.parametrize("case", LYING)
def test_lying_constants(case: str, tmp_path: Path) -> None:
    """A constant that contradicts itself is named in a warning."""
    tensor, message = LYING[case]
    file = write({"modelTopology": {"node": [node("lying", "Const", **tensor)]}}, tmp_path)
    vocabularies, _, (warning,) = found_in(json_text.READER, file)[:3]
    assert vocabularies == ()
    assert warning.startswith("modelTopology node lying: ")
    assert message in warning


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    """Words and ids of different number are told, and so is a second table with other ids."""
    ids = {"dtype": "DT_INT32", "intVal": list(range(11))}
    others = {"dtype": "DT_INT32", "intVal": list(range(5, 17))}
    nodes = [
        node("keys", "Const", **string_tensor(WORDS)),
        node("short", "Const", **ids),
        node("ids", "Const", dtype="DT_INT32", intVal=list(range(12))),
        node("others", "Const", **others),
        node("i0", "LookupTableImportV2", "a", "keys", "short"),
        node("i1", "LookupTableImportV2", "b", "keys", "ids"),
        node("i2", "LookupTableImportV2", "c", "keys", "ids"),
        node("i3", "LookupTableImportV2", "d", "keys", "others"),
        node("i4", "LookupTableImportV2", "e", "i4", "others"),
        node("i5", "LookupTableImportV2", "e"),
    ]
    file = write({"modelTopology": {"node": nodes}}, tmp_path)
    (vocabulary,), _, warnings = found_in(json_text.READER, file)[:3]
    assert (vocabulary.name, tuple(vocabulary)) == ("b", WORDS)
    assert warnings == (
        "table a: 12 words and 11 ids",
        "table d: has the words of another with other ids",
    )


def test_not_tfjs() -> None:
    """Other JSON is told apart, with a reason."""
    assert tfjs.recognise(["a"]) == "a list, wanted an object"
    nothing = "neither modelTopology nor weightsManifest in it"
    assert tfjs.recognise({"modelTopology": []}) == nothing


@pytest.mark.parametrize("kind", ["tfjs", "vocab", "strings"])
def test_damaged(kind: str, tmp_path: Path) -> None:
    """Cut short and with bits flipped: a result or our own error."""
    documents = {
        "tfjs": tfjs_model(tmp_path),
        "vocab": {word: number for number, word in enumerate(WORDS)},
        "strings": list(WORDS),
    }
    data = json.dumps(documents[kind]).encode()
    assert survives(json_text.READER, data, tmp_path, every=7, flips=500) > 0


def test_damaged_weights(tmp_path: Path) -> None:
    """Damage to the weights is a result with or without a warning, never an error."""
    file = write(tfjs_model(tmp_path), tmp_path)
    shard = tmp_path / "group1-shard1of2.bin"
    good = shard.read_bytes()
    told = 0
    for size in range(0, len(good), 5):
        shard.write_bytes(good[:size])
        told += bool(found_in(json_text.READER, file).warnings)
    assert told == len(range(0, len(good), 5))
