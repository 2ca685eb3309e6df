"""Tiny SavedModels written byte by byte: what the graph says is what is found."""

# own process: TensorFlow

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

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
    assert model.warnings == ("table hash_table: 12 words, but 2 ids",)


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
        (b"Assert", "messages"),
        (b"ParseExampleV2", "feature names of an example parser"),
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


# Files beside a saved_model.pb: what is read of them, and what is refused and said.

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"
ASSET = b"".join(b"word%d\n" % number for number in range(12))
# The first piece <unk> with a score: how a SentencePiece model begins.
PIECE = b.field(1, b.field(1, b"<unk>") + b"\x15\0\0\0\0")
NOTHING = b.saved_model(b.graph(b.node(b"x", b"Placeholder")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model without words, and its empty folder of assets."""
    (tmp_path / "saved_model.pb").write_bytes(NOTHING)
    (tmp_path / "assets").mkdir()
    return tmp_path


def only_warning(folder: Path) -> str:
    (warning,) = vocabtool.inspect(folder).warnings
    return warning


def test_an_asset_that_was_not_fetched(folder: Path) -> None:
    """A pointer of Git LFS is no vocabulary, whether a table names it or not."""
    (folder / "assets" / "words.txt").write_bytes(POINTER)
    expected = "assets/words.txt: a pointer of Git LFS, not the file itself"
    assert only_warning(folder).startswith(expected)
    assert only_warning(folder).endswith("Fetch the file with `git lfs pull`.")
    (folder / "saved_model.pb").write_bytes(b.saved_model(b.graph(*b.file_table(b"words.txt"))))
    assert f": {expected}" in only_warning(folder)
    assert vocabtool.vocabularies(folder) == ()


def test_assets_that_are_a_link(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """assets/ is not listed through a symbolic link, and that is said; so is each link in it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / "assets" / "words.txt").symlink_to(elsewhere / "words.txt")
    assert only_warning(folder).startswith("assets/words.txt: a symbolic link: it is not opened")
    (folder / "assets" / "words.txt").unlink()
    (folder / "assets").rmdir()
    (folder / "assets").symlink_to(elsewhere)
    assert only_warning(folder).startswith("assets: a symbolic link: it is not opened")


def test_what_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that may not be read is a warning, and does not hide the others."""
    (folder / "keras_metadata.pb").write_bytes(b"")
    (folder / "assets" / "a.txt").write_bytes(ASSET)
    (folder / "assets" / "b.txt").write_bytes(ASSET)
    open_path = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name in ("keras_metadata.pb", "a.txt"):
            raise PermissionError(13, "Permission denied")
        return open_path(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    found = vocabtool.inspect(folder)
    assert found.warnings == (
        "keras_metadata.pb: Permission denied",
        "assets/a.txt: Permission denied",
    )
    assert [vocabulary.name for vocabulary in found.vocabularies] == ["b.txt"]


@pytest.mark.parametrize("content", [ASSET, PIECE * 3])
@pytest.mark.parametrize("table", [False, True])
def test_a_file_larger_than_the_cap(
    content: bytes, table: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large is refused before it is read, whatever it looks like."""
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("it was read"))
    if table:
        (folder / "saved_model.pb").write_bytes(b.saved_model(b.graph(*b.file_table(b"a"))))
    with (folder / "assets" / "a").open("wb") as file:
        file.write(content * 10_000)
        file.truncate((1 << 30) + 1)  # a hole, which takes no disk
    assert "assets/a: larger than 1,073,741,824 bytes" in only_warning(folder)


def test_a_frozen_graph_reads_assets_beside_it(tmp_path: Path) -> None:
    """Passed as a file or by its folder, a frozen graph finds its assets beside the file."""
    folder = tmp_path / "model"
    for assets_, content in ((tmp_path, b"wrong\n"), (folder, b"right\n")):
        (assets_ / "assets").mkdir(parents=True)
        (assets_ / "assets" / "words.txt").write_bytes(content)
    (folder / "saved_model.pb").write_bytes(b.graph(*b.file_table(b"words.txt")))
    for path in (folder, folder / "saved_model.pb"):
        (vocabulary,) = vocabtool.vocabularies(path)
        assert vocabulary.tokens == ["right"]


@pytest.mark.parametrize(
    "node",
    [
        b.node(b"t", b"MutableHashTableV2"),
        b.node(b"v", b"VarHandleOp", dtype=b.number(6, b.STRING)),
    ],
)
def test_a_frozen_graph_has_no_checkpoint(node: bytes, tmp_path: Path) -> None:
    """Words that only a checkpoint can hold make a frozen graph incomplete."""
    (tmp_path / "frozen.pb").write_bytes(b.graph(node))
    assert only_warning(tmp_path / "frozen.pb") == (
        "words in variables or mutable tables are not read: a frozen graph has no checkpoint"
    )


# Tables filled from files with one entry a line, compared with those that TensorFlow fills.

TYPES = {"string": b.STRING, "int64": b.INT64}
LINES = {"key_index": -2, "value_index": -1}
NASTY = {
    "no newline at the end": b"a\nb",
    "CRLF": b"a\r\nb\r\n",
    "a CR at the end of the file": b"a\nb\r",
    "nothing but a CR behind the last newline": b"a\n\r",
    "line breaks of Unicode": "\x85\n\u2028x\nx\u2029\n".encode(),
    "NUL and bytes that are not UTF-8": b"a\0b\n\xff\xfe\n\xe9t\xe9\n",
    "a line longer than TensorFlow's buffer": b"a" * (1 << 20) + b"\r\nb\n",
    "a line break across TensorFlow's buffers": b"a" * ((1 << 20) - 1) + b"\r\nb\n",
}


def inspected(data: bytes, types: tuple[str, str], **attrs: Any) -> vocabtool.Model:
    """A model with a table that is filled from a file with this content."""
    key, value = (b.number(6, TYPES[name]) for name in types)
    written = {
        name: b.field(2, value.encode()) if isinstance(value, str) else b.number(3, value)
        for name, value in attrs.items()
    }
    graph = b.graph(
        b.const(b"path", b.scalar_tensor(b"words.txt")),
        b.node(b"table", b"HashTableV2", key_dtype=key, value_dtype=value),
        b.node(b"fill", b"InitializeTableFromTextFileV2", b"table", b"path", **written),
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "assets").mkdir()
        (Path(folder) / "assets" / "words.txt").write_bytes(data)
        (Path(folder) / "saved_model.pb").write_bytes(b.saved_model(graph))
        return vocabtool.inspect(folder)


def pairs(data: bytes, **attrs: Any) -> list[tuple[bytes, int]]:
    """The entries of a table from strings to numbers, with their ids."""
    model = inspected(data, ("string", "int64"), **attrs)
    assert model.warnings == ()
    (found,) = model.vocabularies
    return list(zip(found.stored, found.id_array().tolist(), strict=True))


def strings(data: bytes, **attrs: Any) -> list[bytes]:
    """The keys of a table from strings to strings."""
    (found,) = inspected(data, ("string", "string"), **attrs).vocabularies
    return list(found.stored)


def warning(data: bytes, types: tuple[str, str] = ("string", "string"), **attrs: Any) -> str:
    model = inspected(data, types, **attrs)
    assert model.vocabularies == ()
    (found,) = model.warnings
    return found.removeprefix("table filled by fill: ").removeprefix("assets/words.txt: ")


def tensorflows(folder: Path, data: bytes, types: tuple[str, str], **attrs: Any) -> set[Any]:
    """The (key, value) pairs of a table that TensorFlow fills."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    file = folder / "words.txt"
    file.write_bytes(data)
    key, value = types
    table = tf.raw_ops.HashTableV2(key_dtype=key, value_dtype=value, shared_name=uuid.uuid4().hex)
    tf.raw_ops.InitializeTableFromTextFileV2(table_handle=table, filename=str(file), **attrs)
    pair = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=key, Tvalues=value)
    return set(zip(*(column.numpy().tolist() for column in pair), strict=True))


@pytest.mark.parametrize("data", NASTY.values(), ids=list(NASTY))
def test_lines_as_tensorflow_reads_them(data: bytes, tmp_path: Path) -> None:
    """A line ends at LF only, loses one CR at its end, and keeps every other byte."""
    table = tensorflows(tmp_path, data, ("string", "int64"), **LINES)
    assert set(pairs(data, **LINES)) == table


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\t", b"\0", b"\xff"])).map(b"".join))
def test_lines_follow_the_rule_for_any_bytes(data: bytes) -> None:
    """Every mixture of CR, LF and other bytes is cut as the plain rule cuts it."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    lines = lines if lines[-1] else lines[:-1]
    assert pairs(data, **LINES) == [(line, number) for number, line in enumerate(lines)]


COLUMNS: list[tuple[bytes, dict[str, Any]]] = [
    (b"a\t1\nb\t2\n", {"key_index": 0, "value_index": 1}),
    (b"1,a\r\n2,b\r\n", {"key_index": 1, "value_index": 0, "delimiter": ","}),
    (b"a\t1\t9\nb\t\t7\n", {"key_index": 2, "value_index": 1}),
    (b"a\r1\r\nb\r\r\r\n", {"key_index": 0, "value_index": 1, "delimiter": "\r"}),
    (b"a\t1\nb\t2\nbad\n\n", {"key_index": 0, "value_index": 1, "vocab_size": 2}),
]


@pytest.mark.parametrize(("data", "attrs"), COLUMNS)
def test_columns_as_tensorflow_reads_them(
    data: bytes, attrs: dict[str, Any], tmp_path: Path
) -> None:
    """Columns are cut at every delimiter, may be empty, and stand in any order."""
    table = tensorflows(tmp_path, data, ("string", "string"), **attrs)
    assert set(strings(data, **attrs)) == {key for key, _ in table}
    swapped = {"key_index": attrs["value_index"], "value_index": attrs["key_index"]}
    assert set(strings(data, **attrs | swapped)) == {value for _, value in table}


def test_offset_as_tensorflow_reads_it(tmp_path: Path) -> None:
    """``offset`` is added to line numbers, skips no line, and is added to no number in the file."""
    for data, value_index in ((b"a\nb\n", -1), (b"a\t1\n", 1)):
        attrs = {"key_index": 0, "value_index": value_index, "offset": 5}
        table = tensorflows(tmp_path, data, ("string", "int64"), **attrs)
        assert set(pairs(data, **attrs)) == table
    assert pairs(b"a\n", **LINES, offset=2**63 - 1) == [(b"a", 2**63 - 1)]


INTEGERS = (
    *(b"0", b"7", b"007", b"-7", b"+7", b" 7 ", b"\x0b7\x0c", b"7\0x", b"0" * 30 + b"5"),
    *(b"999999999999999999", b"9223372036854775807", b"-9223372036854775808"),
)
NO_INTEGERS = (
    *(b"", b" ", b"-", b"- 5", b"+-5", b"0x5", b"5.0", b"5_0", b"1e3", b"\xc2\xa05", b"\0"),
    *(b"9223372036854775808", b"-9223372036854775809", b"1" * 5000, b"12a", b"a12"),
)


@pytest.mark.parametrize("text", INTEGERS)
def test_integers_as_tensorflow_reads_them(text: bytes, tmp_path: Path) -> None:
    """Numbers may have a sign, blanks around them and leading zeros, and end at a NUL."""
    attrs = {"key_index": 0, "value_index": 1}
    data = b"a\t" + text + b"\n"
    assert set(pairs(data, **attrs)) == tensorflows(tmp_path, data, ("string", "int64"), **attrs)


@pytest.mark.parametrize("text", [text for text in NO_INTEGERS if text != b"\0"])
def test_tensorflow_refuses_the_same_numbers(text: bytes, tmp_path: Path) -> None:
    """What is no number here is none in TensorFlow."""
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    attrs = {"key_index": 0, "value_index": 1}
    data = b"a\t1\nb\t" + text + b"\n"
    assert warning(data, ("string", "int64"), **attrs).startswith("line 2 is b'")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not a valid int64"):
        tensorflows(tmp_path, data, ("string", "int64"), **attrs)


@pytest.mark.parametrize(
    ("data", "attrs", "message"),
    [
        (b"a\n", {**LINES, "vocab_size": 3}, "1 lines, but the table's vocab_size is 3"),
        (b"a\tb\tc\nd\te\n", {"key_index": 0, "value_index": 2}, "line 2 has 2 columns, wanted"),
        (b"a\tb\n" * 40_000 + b"c\n", {"key_index": 1, "value_index": 0}, "line 40,001 has 1"),
        (
            b"a,,b\n",
            {"key_index": 0, "value_index": 1, "delimiter": ",,"},
            "the table's delimiter is b',,', wanted one byte",
        ),
        (
            b"a\n",
            {"key_index": -2, "value_index": -3},
            "the table reads column -3, wanted -2 or higher",
        ),
    ],
)
def test_tensorflow_refuses_the_same_files(
    data: bytes, attrs: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """Missing columns, missing lines, long delimiters and odd columns are errors in both."""
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    assert message in warning(data, **attrs)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tensorflows(tmp_path, data, ("string", "string"), **attrs)
