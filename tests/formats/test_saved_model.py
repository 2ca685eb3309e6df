"""Tiny SavedModels written byte by byte: what the graph says is what is found."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vocabtool
from tests.builders import saved_model_bytes as b
from vocabtool import Unknown, Vocabulary

WORDS = tuple(b"word%d" % number for number in range(12))


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


@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=140), min_size=1))
def test_any_words_any_ids(words: dict[int, bytes]) -> None:
    """Entries come back in id order, byte for byte, whatever they and their ids are."""
    vocabulary = only(table(b.string_tensor([*words.values()]), b.int64_tensor([*words])))
    assert vocabulary.id_array().tolist() == sorted(words)
    assert list(vocabulary.stored) == [words[number] for number in sorted(words)]
    assert vocabulary.id_of(vocabulary.entry_of(min(words))) in words


def test_more_ids_than_words() -> None:
    """A table whose ids do not match its words is not read, and said."""
    model = found(table(b.string_tensor(WORDS), b.int64_tensor([1, 2])))
    assert model.vocabularies == ()
    assert model.warnings == ("table hash_table: 12 entries but 2 ids",)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        ((b"LookupTableImportV2", b"hash_table", b"x", b"x"), "the keys come from StringSplit x"),
        (
            (b"InitializeTableFromDataset", b"hash_table", b"x"),
            "the model takes the words from a dataset when it loads: words",
        ),
    ],
)
def test_filled_by_what_is_not_followed(fill: tuple[bytes, ...], message: str) -> None:
    """A table that the model fills by computing, or from a dataset, is not read, and said."""
    made = (b.node(b"hash_table", b"HashTableV2"), b.node(b"x", b"StringSplit"))
    (warning,) = found(b.saved_model(b.graph(*made, b.node(b"fill", *fill)))).warnings
    assert warning.startswith(f"table filled by fill: {message}")


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
        (b"SaveV2", "tensor names for saving and restoring"),
        (b"RestoreV2", "tensor names for saving and restoring"),
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


def test_not_all_wrapped() -> None:
    """One entry that is no message leaves all entries as they are."""
    mixed = [*(b.field(1, word) for word in WORDS), b"\n\x09plain"]
    vocabulary = only(b.saved_model(b.graph(b.const(b"words", b.string_tensor(mixed)))))
    assert list(vocabulary.stored) == mixed


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
