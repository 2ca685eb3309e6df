"""Files with one entry a line, compared with the tables that TensorFlow fills from them."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.errors import InvalidFile
from vocabtool.formats.text_file import LINE_NUMBER, WHOLE_LINE, integers, read_columns, read_lines

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


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"\r", []),
        (b"\r\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"a\n\n", [b"a", b""]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\nx\r\r\nz", [b"a\rb", b"x\r", b"z"]),
        (b"\x85\n\xe2\x80\xa8\n \n", [b"\x85", b"\xe2\x80\xa8", b" "]),
    ],
)
def test_lines(data: bytes, lines: list[bytes]) -> None:
    """A line ends at LF only, loses one CR at its end, and stays although it is empty."""
    assert list(read_lines(data)) == lines


def slow_lines(data: bytes) -> list[bytes]:
    """The same rule, written plainly."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    return lines if lines[-1] else lines[:-1]


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\t", b"\0", b"\xff"])).map(b"".join))
def test_lines_follow_the_rule_for_any_bytes(data: bytes) -> None:
    """Every mixture of CR, LF and other bytes is cut as the plain rule cuts it."""
    assert list(read_lines(data)) == slow_lines(data)


def test_lines_share_the_file() -> None:
    """The entries of a file of 100,000 lines are places in it, not copies."""
    data = b"".join(b"word%06d\r\n" % number for number in range(100_000))
    lines = read_lines(data)
    assert lines.data is data
    assert (len(lines), lines[0], lines[65_535], lines[-1]) == (
        100_000,
        b"word000000",
        b"word065535",
        b"word099999",
    )


def test_whole_line_and_line_number() -> None:
    """Without columns the keys are the lines and the values their numbers, a range."""
    keys, values = read_columns(b"a\tb\nc\n", WHOLE_LINE, LINE_NUMBER)
    assert (list(keys), values) == ([b"a\tb", b"c"], range(2))


def test_offset_is_added_to_line_numbers() -> None:
    """``offset`` moves the line numbers and skips no line."""
    keys, values = read_columns(b"a\nb\nc\n", WHOLE_LINE, LINE_NUMBER, offset=5)
    assert (list(keys), values) == ([b"a", b"b", b"c"], range(5, 8))


def test_columns() -> None:
    """Columns are cut at every delimiter, may be empty, and further ones do not disturb."""
    keys, values = read_columns(b"a,1,x,y\n,2,\r\nb,,z", 0, 1, b",")
    assert (list(keys), list(values)) == ([b"a", b"", b"b"], [b"1", b"2", b""])


def test_columns_in_any_order() -> None:
    """Keys may stand behind the values, and the whole line may be asked for beside a column."""
    keys, values = read_columns(b"1 a\n2 b\n", 1, 0, b" ")
    assert (list(keys), list(values)) == ([b"a", b"b"], [b"1", b"2"])
    keys, values = read_columns(b"1 a\n2 b\n", WHOLE_LINE, 1, b" ")
    assert (list(keys), list(values)) == ([b"1 a", b"2 b"], [b"a", b"b"])


@given(
    st.lists(st.lists(st.binary(max_size=4), min_size=3, max_size=5), max_size=20),
    st.integers(0, 2),
)
def test_columns_follow_the_rule_for_any_bytes(rows: list[list[bytes]], index: int) -> None:
    """A column is what splitting each line at the delimiter gives."""
    dirty = [[cell.translate(None, b"\n\r;") for cell in row] for row in rows]
    data = b"".join(b";".join(row) + b"\n" for row in dirty)
    column, _ = read_columns(data, index, LINE_NUMBER, b";")
    assert list(column) == [row[index] for row in dirty]


def test_columns_across_chunks() -> None:
    """Lines far behind the first thousands keep their own columns."""
    data = b"".join(b"w%d\t%d\n" % (number, number * 7) for number in range(70_000))
    keys, values = read_columns(data, 0, 1)
    assert [keys[i] for i in (32_767, 32_768, 69_999)] == [b"w32767", b"w32768", b"w69999"]
    assert values[69_999] == b"489993"


@pytest.mark.parametrize("vocab_size", [None, -1])
def test_all_lines(vocab_size: int | None) -> None:
    """A table without ``vocab_size`` takes every line."""
    keys, _ = read_columns(b"a\nb\nc", WHOLE_LINE, LINE_NUMBER, vocab_size=vocab_size)
    assert len(keys) == 3


def test_vocab_size_cuts() -> None:
    """``vocab_size`` cuts the file short, so that bad lines behind it are not met."""
    keys, values = read_columns(b"a\t1\nb\t2\nbad\n", 0, 1, vocab_size=2)
    assert (list(keys), list(values)) == ([b"a", b"b"], [b"1", b"2"])


def test_too_few_lines() -> None:
    """A file shorter than its table's ``vocab_size`` is refused, as TensorFlow does."""
    with pytest.raises(InvalidFile, match=r"^2 lines, but the table's vocab_size is 3$"):
        read_columns(b"a\nb\n", WHOLE_LINE, LINE_NUMBER, vocab_size=3)


def test_too_few_columns() -> None:
    """A line without the column names itself, counted from 1, and its place in the file."""
    wanted = r"^line 2 has 2 columns, wanted at least 3 \(at byte 6\)$"
    with pytest.raises(InvalidFile, match=wanted):
        read_columns(b"a b c\nd e\n", 0, 2, b" ")


def test_too_few_columns_far_behind() -> None:
    """The line number is right beyond the first chunk of lines, too."""
    data = b"a\tb\n" * 40_000 + b"c\n"
    with pytest.raises(InvalidFile, match=r"^line 40,001 has 1 columns, wanted at least 2 "):
        read_columns(data, 1, LINE_NUMBER)


@pytest.mark.parametrize("delimiter", [b"", b", "])
def test_bad_delimiter(delimiter: bytes) -> None:
    """A delimiter is one byte: TensorFlow allows nothing else."""
    with pytest.raises(InvalidFile, match=r"^the table's delimiter is b'.*', wanted one byte$"):
        read_columns(b"a\n", 0, LINE_NUMBER, delimiter)


def test_bad_index() -> None:
    """Indices below -2 mean nothing."""
    with pytest.raises(InvalidFile, match=r"^the table reads column -3, wanted -2 or more$"):
        read_columns(b"a\n", WHOLE_LINE, -3)
    with pytest.raises(InvalidFile, match=r"^the table reads column -3, wanted -2 or more$"):
        read_columns(b"a\n", 0, -3)


def test_bad_offset() -> None:
    """Line numbers that leave 64 bits are refused; the last that fits is not."""
    assert read_columns(b"a\n", WHOLE_LINE, LINE_NUMBER, offset=2**63 - 1)[1] == range(
        2**63 - 1, 2**63
    )
    with pytest.raises(InvalidFile, match=r"line numbers from 9223372036854775807 on do not fit"):
        read_columns(b"a\nb\n", WHOLE_LINE, LINE_NUMBER, offset=2**63 - 1)


INTEGERS = {
    b"0": 0,
    b"7": 7,
    b"007": 7,
    b"-7": -7,
    b"+7": 7,
    b" 7\t": 7,
    b"\x0b7\x0c": 7,
    b"7\0x": 7,
    b"0" * 30 + b"5": 5,
    b"999999999999999999": 10**18 - 1,
    b"9223372036854775807": 2**63 - 1,
    b"-9223372036854775808": -(2**63),
}
NO_INTEGERS = (
    *(b"", b" ", b"-", b"- 5", b"+-5", b"0x5", b"5.0", b"5_0", b"1e3", b"\xc2\xa05", b"\0"),
    *(b"9223372036854775808", b"-9223372036854775809", b"1" * 5000, b"12a", b"a12"),
)


def test_integers() -> None:
    """Numbers may have a sign, blanks around them and leading zeros, and end at a NUL."""
    numbers = integers(read_lines(b"".join(text + b"\n" for text in INTEGERS)))
    assert numbers.dtype == np.int64
    assert numbers.tolist() == list(INTEGERS.values())


def test_no_integers() -> None:
    """No entries give no numbers."""
    assert integers(read_lines(b"")).tolist() == []


@pytest.mark.parametrize("text", NO_INTEGERS)
def test_not_an_integer(text: bytes) -> None:
    """What is no decimal number of 64 bits is refused with its line."""
    with pytest.raises(InvalidFile, match=r"^line 2 holds b'.*', wanted a whole number of 64 bits"):
        integers(read_lines(b"1\n" + text + b"\n"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_round_trip(numbers: list[int]) -> None:
    """Every int64 is read back as it was written."""
    assert integers(read_lines(b"".join(b"%d\n" % n for n in numbers))).tolist() == numbers


class Table:
    """A new table that TensorFlow fills from ``data``; ``entries`` are its (key, value) pairs."""

    def __init__(self, folder: Path, data: bytes, dtypes: tuple[str, str], **attrs: Any) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
        file = folder / "words.txt"
        file.write_bytes(data)
        key, value = dtypes
        table = tf.raw_ops.HashTableV2(
            key_dtype=key, value_dtype=value, shared_name=uuid.uuid4().hex
        )
        tf.raw_ops.InitializeTableFromTextFileV2(table_handle=table, filename=str(file), **attrs)
        pair = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=key, Tvalues=value)
        self.entries = set(zip(*(column.numpy().tolist() for column in pair), strict=True))


@pytest.mark.parametrize("data", NASTY.values(), ids=list(NASTY))
def test_lines_as_tensorflow_reads_them(data: bytes, tmp_path: Path) -> None:
    """A table over whole lines holds in TensorFlow what ``read_columns`` returns."""
    table = Table(tmp_path, data, ("string", "int64"), key_index=-2, value_index=-1)
    keys, values = read_columns(data, WHOLE_LINE, LINE_NUMBER)
    assert set(zip(keys, values, strict=True)) == table.entries


COLUMNS: list[tuple[bytes, dict[str, Any]]] = [
    (b"a\t1\nb\t2\n", {"key_index": 0, "value_index": 1}),
    (b"1,a\r\n2,b\r\n", {"key_index": 1, "value_index": 0, "delimiter": ","}),
    (b"a\t1\t9\nb\t\t7\n", {"key_index": 2, "value_index": 1}),
    (b"a\t\n\tb\n", {"key_index": 0, "value_index": 1}),
    (b"a\r1\r\nb\r\r\r\n", {"key_index": 0, "value_index": 1, "delimiter": "\r"}),
    (b"a b\nc d", {"key_index": -2, "value_index": 1, "delimiter": " "}),
    (b"a\t1\nb\t2\nbad\n\n", {"key_index": 0, "value_index": 1, "vocab_size": 2}),
]


@pytest.mark.parametrize(("data", "attrs"), COLUMNS)
def test_columns_as_tensorflow_reads_them(
    data: bytes, attrs: dict[str, Any], tmp_path: Path
) -> None:
    """A table over two columns holds in TensorFlow what ``read_columns`` returns."""
    table = Table(tmp_path, data, ("string", "string"), **attrs)
    delimiter = attrs.get("delimiter", "\t").encode()
    keys, values = read_columns(
        data,
        attrs["key_index"],
        attrs["value_index"],
        delimiter,
        vocab_size=attrs.get("vocab_size"),
    )
    assert set(zip(keys, values, strict=True)) == table.entries


def test_offset_as_tensorflow_reads_it(tmp_path: Path) -> None:
    """TensorFlow adds ``offset`` to the line number, and to no number that it reads."""
    numbered = {"key_index": 0, "value_index": -1, "offset": 5}
    assert Table(tmp_path, b"a\nb\n", ("string", "int64"), **numbered).entries == {
        (b"a", 5),
        (b"b", 6),
    }
    read = {"key_index": 0, "value_index": 1, "offset": 5}
    assert Table(tmp_path, b"a\t1\n", ("string", "int64"), **read).entries == {(b"a", 1)}


@pytest.mark.parametrize("text", [text for text in INTEGERS if b"\t" not in text])
def test_integers_as_tensorflow_reads_them(text: bytes, tmp_path: Path) -> None:
    """Each spelling of a number that is read here has the same value in TensorFlow."""
    attrs = {"key_index": 0, "value_index": 1}
    table = Table(tmp_path, b"a\t" + text + b"\n", ("string", "int64"), **attrs)
    assert table.entries == {(b"a", INTEGERS[text])}


@pytest.mark.parametrize("text", [text for text in NO_INTEGERS if text != b"\0"])
def test_tensorflow_refuses_the_same(text: bytes, tmp_path: Path) -> None:
    """What is no number here is none in TensorFlow."""
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not a valid int64"):
        Table(tmp_path, b"a\t" + text + b"\n", ("string", "int64"), key_index=0, value_index=1)


@pytest.mark.parametrize(
    ("data", "attrs"),
    [
        (b"a\n", {"key_index": 0, "value_index": 1}),
        (b"a\n", {"key_index": -2, "value_index": -2, "vocab_size": 2}),
        (b"a,,b\n", {"key_index": 0, "value_index": 1, "delimiter": ",,"}),
    ],
)
def test_tensorflow_refuses_such_files(data: bytes, attrs: dict[str, Any], tmp_path: Path) -> None:
    """Missing columns, missing lines and long delimiters are errors in TensorFlow, too."""
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    with pytest.raises(tf.errors.InvalidArgumentError):
        Table(tmp_path, data, ("string", "string"), **attrs)
