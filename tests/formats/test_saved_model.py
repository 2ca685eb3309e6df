"""Tiny SavedModels written byte by byte: what the graph says is what is found."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.builders import saved_model_bytes as b
from vocabtool import Unknown, Vocabulary

WORDS = tuple(b"word%d" % number for number in range(12))
STRING_TYPES = {"key_dtype": b.number(6, b.STRING), "value_dtype": b.number(6, b.INT64)}


def found(data: bytes, name: str = "saved_model.pb", *, small: bool = False) -> vocabtool.Model:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        return vocabtool.inspect(folder, small=small)


def only(data: bytes) -> Vocabulary:
    (vocabulary,) = found(data).vocabularies
    return vocabulary


def table(keys: bytes, values: bytes, *more: bytes) -> bytes:
    """A SavedModel with one table filled from two constants."""
    return b.saved_model(
        b.graph(
            b.const(b"words", keys),
            b.const(b"ids", values),
            b.node(b"hash_table", b"HashTableV2", shared_name=b.field(2, b"shared")),
            b.node(b"fill", b"LookupTableImportV2", b"hash_table", b"words", b"ids"),
            *more,
        )
    )


@given(st.lists(st.binary(max_size=140), min_size=1), st.randoms(use_true_random=False))
def test_any_words_any_ids(words: list[bytes], rng: object) -> None:
    """Entries come back in id order, byte for byte, whatever they are."""
    ids = list(range(5, 5 + len(words)))
    rng.shuffle(ids)  # type: ignore[attr-defined]  # hypothesis types its Random as object
    vocabulary = only(table(b.string_tensor(words), b.int64_tensor(ids)))
    in_order = [word for _, word in sorted(zip(ids, words, strict=True))]
    assert list(vocabulary.stored) == in_order
    assert (vocabulary.first_id, vocabulary.ids) == (5, None)


@given(st.lists(st.binary(max_size=140), min_size=1))
def test_words_as_tensor_content(words: list[bytes]) -> None:
    """Strings packed as lengths and bytes are the same words."""
    content = b"".join(b.varint(len(w)) for w in words) + b"".join(words)
    tensor = b.number(1, b.STRING) + b.field(2, b.shape(len(words))) + b.field(4, content)
    vocabulary = only(table(tensor, b.int64_tensor(range(len(words)))))
    assert list(vocabulary.stored) == words


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30, unique=True))
def test_any_ids(ids: list[int]) -> None:
    """Any 64-bit id is kept, in ascending order, with the word that has it."""
    words = [b"%d" % number for number in ids]
    vocabulary = only(table(b.string_tensor(words), b.int64_tensor(ids)))
    assert vocabulary.id_array().tolist() == sorted(ids)
    assert all(vocabulary.entry_of(number) == str(number) for number in ids)
    assert all(vocabulary.id_of(str(number)) == number for number in ids)


def test_words_as_values() -> None:
    """In an inverse table the words are the values, and the keys their ids."""
    vocabulary = only(table(b.int64_tensor([3, 1, 2]), b.string_tensor([b"c", b"a", b"b"])))
    assert (vocabulary.tokens, vocabulary.first_id) == (["a", "b", "c"], 1)


def test_integer_keys() -> None:
    """A table from integers to integers has its keys as entries, written in decimal."""
    vocabulary = only(table(b.int64_tensor([-7, 1138]), b.int64_tensor([1, 2])))
    assert (vocabulary.tokens, vocabulary.entry_type) == (["-7", "1138"], "integer")


def test_more_ids_than_words() -> None:
    """A table whose ids do not match its words is not read, and said."""
    model = found(table(b.string_tensor(WORDS), b.int64_tensor([1, 2])))
    assert model.vocabularies == ()
    assert model.warnings == ("table hash_table: 12 entries but 2 ids",)


def test_filled_by_an_op_that_is_not_followed() -> None:
    """A table that the model fills by computing is not read, and said."""
    graph = b.graph(
        b.node(b"hash_table", b"HashTableV2"),
        b.node(b"x", b"StringSplit"),
        b.node(b"fill", b"LookupTableImportV2", b"hash_table", b"x", b"x"),
    )
    model = found(b.saved_model(graph))
    assert model.warnings == (
        "table filled by fill: StringSplit x fills it: its words are not read",
    )


def test_filled_from_a_dataset() -> None:
    """A table that a dataset fills while the model loads is not read, and said."""
    graph = b.graph(
        b.node(b"hash_table", b"HashTableV2"),
        b.node(b"fill", b"InitializeTableFromDataset", b"hash_table", b"dataset"),
    )
    (warning,) = found(b.saved_model(graph)).warnings
    assert warning.startswith("table filled by fill: a dataset fills it while the model loads")


def test_hash_buckets_behind_the_table() -> None:
    """Buckets whose offset is the table's size begin at the number of different words."""
    vocabulary = only(
        table(
            b.string_tensor(WORDS),
            b.int64_tensor(range(12)),
            b.node(b"x", b"Placeholder"),
            b.const(b"default", b.scalar_tensor(-1)),
            b.node(b"find", b"LookupTableFindV2", b"hash_table", b"x", b"default"),
            b.node(b"hash", b"StringToHashBucketFast", b"x", num_buckets=b.number(3, 3)),
            b.node(b"size", b"LookupTableSizeV2", b"hash_table"),
            b.node(b"add", b"AddV2", b"hash", b"size"),
            b.node(b"known", b"NotEqual", b"find", b"default"),
            b.node(b"ids", b"SelectV2", b"known", b"find", b"add"),
        )
    )
    assert vocabulary.unknown == Unknown(12, 3)


def test_another_lookup_of_the_same_words_is_not_its_bucket() -> None:
    """A hash that does not replace what this lookup finds says nothing of the table."""
    vocabulary = only(
        table(
            b.string_tensor(WORDS),
            b.int64_tensor(range(12)),
            b.node(b"x", b"Placeholder"),
            b.const(b"default", b.scalar_tensor(7)),
            b.node(b"find", b"LookupTableFindV2", b"hash_table", b"x", b"default"),
            b.node(b"hash", b"StringToHashBucketFast", b"x", num_buckets=b.number(3, 3)),
        )
    )
    assert vocabulary.unknown == Unknown(7)


def test_captured_constants() -> None:
    """A function's captures are its last arguments; the object graph says what they are."""
    objects = b"".join(
        [
            b.field(1, b.field(1, b.number(1, 1) + b.field(2, b"lookup"))),  # 0: the root
            b.field(
                1, b.field(10, b"") + b.field(1, b.number(1, 4) + b.field(2, b"_create_resource"))
            ),
            b.field(1, b.field(9, b.field(1, b"Const_1"))),  # 2: keys
            b.field(1, b.field(9, b.field(1, b"Const"))),  # 3: values
            b.field(1, b.field(6, b.field(1, b"create"))),  # 4: the creator
            b.field(
                2,
                b.field(1, b"initialize") + b.field(2, b.field(2, bytes([1, 2, 3]))),
            ),
        ]
    )
    create = b.field(1, b.field(1, b"create") + b.field(3, b.field(1, b"handle")))
    create += b.field(3, b.node(b"t", b"HashTableV2", shared_name=b.field(2, b"7")))
    create += b.field(4, b.field(1, b"handle") + b.field(2, b"t:table_handle:0"))
    initialize = b.function(
        b"initialize",
        [b"table", b"keys", b"values"],
        b.node(b"fill", b"LookupTableImportV2", b"table", b"keys", b"values"),
    )
    graph = b.graph(
        b.const(b"Const", b.int64_tensor(range(12))),
        b.const(b"Const_1", b.string_tensor(WORDS)),
        functions=[create, initialize],
    )
    vocabulary = only(b.saved_model(graph, tail=b.field(7, objects)))
    assert tuple(vocabulary.stored) == WORDS
    assert vocabulary.name == "lookup"
    assert vocabulary.places[0].place == "graph/Const_1, fills lookup"


def test_ten_strings_make_an_orphan() -> None:
    """A constant without a consumer is reported from ten strings on, smaller ones on request."""
    ten, nine = b.string_tensor(WORDS[:10]), b.string_tensor(WORDS[:9])
    data = b.saved_model(b.graph(b.const(b"ten", ten), b.const(b"nine", nine)))
    model = found(data)
    assert [v.name for v in model.vocabularies] == ["ten"]
    assert model.vocabularies[0].kind == "constant"
    assert model.vocabularies[0].notes == ("nothing in the graph uses it",)
    assert [(p.name, p.why) for p in model.passed_over] == [
        ("nine", "fewer than 10 strings that no table uses")
    ]
    assert [v.name for v in found(data, small=True).vocabularies] == ["ten", "nine"]


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (b"SaveV2", "names for saving and restoring"),
        (b"RestoreV2", "names for saving and restoring"),
        (b"Assert", "messages"),
        (b"ParseExampleV2", "feature names of an example parser"),
        (b"RegexReplace", "regular expressions"),
    ],
)
def test_decoys(op: bytes, why: str) -> None:
    """A list that only saves, asserts, parses or matches is passed over, with the reason."""
    use = b.node(b"use", op, b"copy")
    copy = b.node(b"copy", b"Identity", b"list")
    model = found(b.saved_model(b.graph(b.const(b"list", b.string_tensor(WORDS)), copy, use)))
    assert model.vocabularies == ()
    assert [(p.name, p.size, p.why) for p in model.passed_over] == [("list", 12, why)]


def test_a_list_in_rows_is_no_vocabulary() -> None:
    """Strings in two dimensions are test data or a table of text, not a vocabulary."""
    model = found(b.saved_model(b.graph(b.const(b"grid", b.string_tensor(WORDS, 2, 6)))))
    assert model.vocabularies == ()
    assert model.passed_over[0].why == "strings in rows and columns: a vocabulary is one list"


def test_wrapped_entries() -> None:
    """Entries that are each a small message are unwrapped, a score and a type dropped."""
    for rest in (b"", b"\x15\0\0\x80?", b"\x18\x03", b"\x15\0\0\x80?\x18\x03"):
        wrapped = [b.field(1, word) + rest for word in WORDS]
        vocabulary = only(b.saved_model(b.graph(b.const(b"words", b.string_tensor(wrapped)))))
        assert tuple(vocabulary.stored) == WORDS
        assert "each entry was wrapped in a small message" in vocabulary.notes


def test_not_all_wrapped() -> None:
    """One entry that is no message leaves all entries as they are."""
    mixed = [*(b.field(1, word) for word in WORDS), b"\n\x09plain"]
    vocabulary = only(b.saved_model(b.graph(b.const(b"words", b.string_tensor(mixed)))))
    assert list(vocabulary.stored) == mixed


def test_equal_content_is_one_vocabulary() -> None:
    """A constant that a table uses and a copy of it are one vocabulary with two places."""
    copy = b.const(b"copy", b.string_tensor(WORDS))
    vocabulary = only(b.saved_model(b.graph(*b.table_nodes(WORDS), copy)))
    assert [place.place for place in vocabulary.places] == [
        "graph/words, fills hash_table",
        "graph/copy",
    ]


def test_equal_words_with_other_ids_are_two() -> None:
    """Tables of the same words that number them differently stay apart."""
    other = (
        b.const(b"others", b.string_tensor(WORDS)),
        b.const(b"ids", b.int64_tensor(range(100, 112))),
        b.node(b"table_b", b"HashTableV2", shared_name=b.field(2, b"b")),
        b.node(b"fill_b", b"LookupTableImportV2", b"table_b", b"others", b"ids"),
    )
    vocabularies = found(b.saved_model(b.graph(*b.table_nodes(WORDS), *other))).vocabularies
    assert {(v.name, v.first_id) for v in vocabularies} == {("words", 0), ("others", 100)}


def test_equal_names_are_told_apart() -> None:
    """Two vocabularies in two functions may have one name: the second is numbered."""
    functions = [
        b.function(b"f%d" % i, [], b.const(b"words", b.string_tensor(WORDS[i:]))) for i in (0, 1)
    ]
    graph = b.graph(b.node(b"n", b"NoOp"), functions=functions)
    assert [v.name for v in found(b.saved_model(graph)).vocabularies] == ["words", "words_2"]


def test_linked_before_larger() -> None:
    """extract takes what words are looked up in before a longer list that nothing uses."""
    longer = b.const(b"longer", b.string_tensor([b"x%d" % i for i in range(50)]))
    data = b.saved_model(b.graph(longer, *b.table_nodes(WORDS)))
    assert [v.name for v in found(data).vocabularies] == ["words", "longer"]


def test_frozen_graph() -> None:
    """A bare GraphDef is read as the graph that it is."""
    model = found_file(b.graph(*b.table_nodes(WORDS)), "frozen.pb")
    assert model.format == "GraphDef"
    assert model.vocabularies[0].places[0] == vocabtool.Place(
        "frozen.pb", "graph/words, fills hash_table"
    )


def found_file(data: bytes, name: str) -> vocabtool.Model:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        return vocabtool.inspect(Path(folder) / name)


def test_hub_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle stands for the folder in the hub cache that is named by its SHA-1."""
    handle = "https://tfhub.dev/google/universal-sentence-encoder/4"
    folder = tmp_path / hashlib.sha1(handle.encode()).hexdigest()
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b.saved_model(b.graph(*b.table_nodes(WORDS))))
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    assert tuple(vocabtool.extract(handle).stored) == WORDS
    with pytest.raises(vocabtool.NotFound, match=r"(?s)not in the local cache.*To download it"):
        vocabtool.extract(handle + "5")


def test_no_object_per_word() -> None:
    """Finding 100,000 words makes no object for each."""
    words = [b"%06d" % number for number in range(100_000)]
    data = b.saved_model(b.graph(*b.table_nodes(words)))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "saved_model.pb").write_bytes(data)
        vocabtool.inspect(folder)  # whatever is made only once
        before = sys.getallocatedblocks()
        model = vocabtool.inspect(folder)
        assert len(model.vocabularies[0]) == 100_000
        assert sys.getallocatedblocks() - before < 1_000


def test_large_names() -> None:
    """A node's name of more than 127 bytes is found through its two-byte length."""
    name = b"scope/" * 40 + b"words"
    vocabulary = only(b.saved_model(b.graph(*b.table_nodes(WORDS, name=name))))
    assert vocabulary.name == name.decode()


def test_a_graph_asked_often_is_indexed() -> None:
    """Many tables in one graph are linked as few are."""
    nodes = [
        node
        for i in range(100)
        for node in (
            b.const(b"words%d" % i, b.string_tensor([b"%d-%d" % (i, k) for k in range(3)])),
            b.const(b"ids%d" % i, b.int64_tensor([0, 1, 2])),
            b.node(b"table%d" % i, b"HashTableV2"),
            b.node(
                b"fill%d" % i, b"LookupTableImportV2", b"table%d" % i, b"words%d" % i, b"ids%d" % i
            ),
        )
    ]
    vocabularies = found(b.saved_model(b.graph(*nodes))).vocabularies
    assert len(vocabularies) == 100
    assert {v.tokens[0] for v in vocabularies} == {f"{i}-0" for i in range(100)}
