"""TFRecord files, compared with what TensorFlow writes; damage is built by hand."""

# own process: TensorFlow

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents.reading import batches, documents, numbered, skipping
from vocabtool.documents import SkipCounter
from vocabtool.errors import InvalidFile

tf = pytest.importorskip("tensorflow", reason="TensorFlow's writer is the oracle")


def example(**features: Sequence[Any]) -> Any:
    """A ``tf.train.Example``; the kind of each feature is told by its first value."""
    made = tf.train.Example()
    for name, values in features.items():
        kind = {int: "int64_list", float: "float_list"}.get(type(values[0]) if values else bytes)
        values_of_kind = getattr(made.features.feature[name], kind or "bytes_list")
        values_of_kind.SetInParent()
        values_of_kind.value.extend(values)
    return made


def write(path: Path, records: Sequence[bytes]) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def texts(*found: bytes) -> list[bytes]:
    return [example(text=[text]).SerializeToString() for text in found]


FLOATS = st.floats(width=32, allow_nan=False)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
LISTS = st.lists(st.binary(max_size=9)) | st.lists(FLOATS) | st.lists(INTEGERS)


def shown(values: Sequence[Any]) -> object:
    plain = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v for v in values]
    return plain[0] if len(plain) == 1 else plain


NAMES = st.text(max_size=4).filter(lambda name: name != "text")
ROWS = st.lists(st.tuples(st.binary(max_size=20), st.dictionaries(NAMES, LISTS)), max_size=4)


@given(rows=ROWS, size=st.sampled_from([1, 8, 1 << 20]))
def test_round_trip(
    rows: list[tuple[bytes, dict[str, Any]]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What TensorFlow writes is read back: texts of any bytes, and fields of every kind."""
    path = tmp_path_factory.mktemp("records") / "corpus.tfrecord"
    written = [example(**lists, text=[text]).SerializeToString() for text, lists in rows]
    name = write(path, written)
    assert numbered(batches(name, size=size)) == list(enumerate((text for text, _ in rows), 1))
    for found, (_, lists) in zip(documents(name), rows, strict=True):
        assert found.fields == {key: shown(values) for key, values in lists.items()}


def test_unpacked_and_repeated_messages(tmp_path: Path) -> None:
    """Numbers written one by one, and messages in pieces, mean what they mean to protobuf."""
    tag = {"int": b"\x08", "float": b"\x0d"}
    integers = b"".join(tag["int"] + bytes([n]) for n in (3, 4))
    floats = b"".join(tag["float"] + struct.pack("<f", n) for n in (0.5, 2.0))

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    def entry(name: bytes, feature: bytes) -> bytes:
        return field(1, field(1, name) + field(2, feature))

    parts = [
        entry(b"n", field(3, integers)),
        entry(b"f", field(2, floats)),
        entry(b"text", field(1, field(1, b"old"))),
        entry(b"text", field(3, integers) + field(1, field(1, b"new"))),
    ]
    data = b"".join(field(1, part) for part in parts) + field(9, b"unknown")
    parsed = tf.train.Example.FromString(data).features.feature
    assert list(parsed["text"].bytes_list.value) == [b"new"]
    name = write(tmp_path / "corpus.tfrecord", [data])
    (found,) = documents(name)
    assert (found.text, found.fields) == ("new", {"n": [3, 4], "f": [0.5, 2.0]})
    assert list(parsed["n"].int64_list.value) == [3, 4]
    assert list(parsed["f"].float_list.value) == [0.5, 2.0]


FLOATLESS = b"\x0a\x0e\x0a\x0c\x0a\x04text\x12\x04\x12\x02\x08\x01"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (example(body=[b"a"]).SerializeToString(), "'text'.*'body'"),
        (example(text=[b"a", b"b"]).SerializeToString(), "'text'.* got an array"),
        (b"\x0a\x05ab", "tf.Example: field 1 .*3 bytes"),
        (b"\x00", "tf.Example: field number 0 "),
        (FLOATLESS, "tf.Example: expected floats of 4 bytes, got 1 bytes of wire type 0"),
    ],
)
def test_bad_records(tmp_path: Path, record: bytes, reason: str) -> None:
    """A record that holds no document is a bad row among good ones."""
    before, after = texts(b"a", b"z")
    name = write(tmp_path / "corpus.tfrecord", [before, record, after])
    found, skipped = skipping(name)
    assert (found, skipped.count) == ([(1, b"a"), (3, b"z")], 1)
    assert re.search(reason, skipped.first[0].reason)
    with pytest.raises(InvalidFile) as caught:
        list(batches(name))
    assert re.match(f"{re.escape(name)}:2: .*{reason}", str(caught.value))


def three(path: Path) -> tuple[str, bytearray, int]:
    """A file of three records, its bytes, and where the second begins."""
    name = write(path, texts(b"aaaa", b"bbbb", b"cccc"))
    data = bytearray(path.read_bytes())
    assert len(data) % 3 == 0
    return name, data, len(data) // 3


@pytest.mark.parametrize("at", [12, -1])
def test_a_wrong_checksum(tmp_path: Path, at: int) -> None:
    """Data that is damaged is a bad row that says where; behind it reading goes on."""
    name, data, size = three(tmp_path / "corpus.tfrecord")
    data[size * (1 if at > 0 else 2) + at] ^= 1
    Path(name).write_bytes(data)
    found, skipped = skipping(name)
    assert found == [(1, b"aaaa"), (3, b"cccc")]
    assert (skipped.count, skipped.first[0].place) == (1, f"{name}:2")
    assert re.search(rf"checksum.*\(at byte {size}\)", skipped.first[0].reason)
    with pytest.raises(InvalidFile, match=r"tfrecord:2: .*checksum"):
        numbered(batches(name))


@pytest.mark.parametrize("at", [0, 11])
def test_a_wrong_length(tmp_path: Path, at: int) -> None:
    """Where a length is damaged the file ends, in an error with the byte, also when skipping."""
    name, data, size = three(tmp_path / "corpus.tfrecord")
    data[size + at] ^= 1
    Path(name).write_bytes(data)
    skipped = SkipCounter()
    found = batches(name, size=1, on_error="skip", skipped=skipped)
    assert next(found).texts.to_pylist() == ["aaaa"]
    with pytest.raises(InvalidFile) as caught:
        next(found)
    told = rf"{re.escape(name)}: record 2: .*checksum .*length.* \(at byte {size}\)$"
    assert re.match(told, str(caught.value))
    assert (caught.value.offset, skipped.count) == (size, 0)


def test_cut_off(tmp_path: Path) -> None:
    """A file cut but between records, or of petabytes by a length, is an error with the byte."""
    name, data, size = three(tmp_path / "corpus.tfrecord")
    for end in range(2 * size + 1, 3 * size):
        Path(name).write_bytes(data[:end])
        for start in (0, 3):
            with pytest.raises(InvalidFile, match=r"record 3 .*is truncated") as caught:
                skipping(name, start=start)
            assert caught.value.offset == 2 * size
    Path(name).write_bytes(data[: 2 * size])
    assert numbered(batches(name)) == [(1, b"aaaa"), (2, b"bbbb")]
    header = struct.pack("<Q", 1 << 60)
    crc = google_crc32c.value(header)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF
    Path(name).write_bytes(header + struct.pack("<I", masked) + b"x" * 99)
    with pytest.raises(InvalidFile, match=r"record 1 of 1,152,921,504,606,846,976 bytes is trunc"):
        numbered(batches(name))


def test_long_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too long: passed over in pieces and counted. What TensorFlow packed says so."""
    monkeypatch.setattr("vocabtool.documents.row_files.MAX_LINE_BYTES", 5_000_000)
    name = write(tmp_path / "corpus.tfrecord", texts(b"a", b"x" * 6_000_000, b"z"))
    found, skipped = skipping(name)
    assert found == [(1, b"a"), (3, b"z")]
    assert (skipped.count, skipped.first[0].place) == (1, f"{name}:2")
    with pytest.raises(InvalidFile, match=r":2: .*5,000,000 bytes"):
        numbered(batches(name))
    path = tmp_path / "corpus.tfrecord"
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        writer.write(texts(b"a")[0])
    with pytest.raises(InvalidFile, match=r"gzip.* \.gz"):
        numbered(batches(str(path)))
    path.write_bytes(b"plain text, no records")
    with pytest.raises(InvalidFile, match=r"record 1: .*checksum .*length.*at byte 0"):
        numbered(batches(str(path)))
