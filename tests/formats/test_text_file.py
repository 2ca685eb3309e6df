"""Tables filled from files with one entry a line, compared with those that TensorFlow fills."""

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

TYPES = {"string": b.STRING, "int64": b.INT64}
LINES = {"key_index": -2, "value_index": -1}
NASTY = {
    "no newline at the end": b"a\nb",
    "CRLF": b"a\r\nb\r\n",
    "a lone CR inside": b"a\rb\nc\n",
    "two CR before the newline": b"x\r\r\nz\n",
    "a CR at the end of the file": b"a\nb\r",
    "two CR at the end of the file": b"a\nb\r\r",
    "nothing but a CR behind the last newline": b"a\n\r",
    "line breaks of Unicode": "\x85\n\u2028x\nx\u2029\n".encode(),
    "vertical tab and form feed": b"a\x0bb\n\x0cc\n",
    "NUL and bytes that are not UTF-8": b"a\0b\n\xff\xfe\n\xe9t\xe9\n",
    "blanks around": b" a \n\tb\t\n ",
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
    (b"a\t\n\tb\n", {"key_index": 0, "value_index": 1}),
    (b"a\r1\r\nb\r\r\r\n", {"key_index": 0, "value_index": 1, "delimiter": "\r"}),
    (b"a b\nc d", {"key_index": -2, "value_index": 1, "delimiter": " "}),
    (b"a\t1\nb\t2\nbad\n\n", {"key_index": 0, "value_index": 1, "vocab_size": 2}),
    (b"a\t1\nb\t2\n", {"key_index": 0, "value_index": 1, "vocab_size": -1}),
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
