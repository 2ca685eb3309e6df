"""Arrow IPC files and streams, compared with what pyarrow writes; damage is built by hand."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from tests.documents.reading import batches, documents
from vocabtool.documents import Skip, SkipCounter
from vocabtool.errors import InvalidFile, UnsupportedFormat

KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]


def huge() -> bytes:
    """A stream whose record batch says that it has petabytes."""
    file = io.BytesIO()
    batch = pa.record_batch({"text": pa.array(["a" * 1003])})
    with pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
    body = (8 + 1008).to_bytes(8, "little")
    assert file.getvalue().count(body) == 1
    return file.getvalue().replace(body, (1 << 52).to_bytes(8, "little"))


HUGE = huge()


def write(path: Path, table: pa.Table, rows: int = 3, *, stream: bool = False) -> str:
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as writer:
        for at in range(0, table.num_rows, rows):
            writer.write_table(table.slice(at, rows).unify_dictionaries(), max_chunksize=rows)
    return str(path)


def texts_of(name: str, **asked: Any) -> list[bytes]:
    found = batches(name, **asked)
    return [text for batch in found for text in batch.texts.view(pa.binary()).to_pylist()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_types_of_strings(tmp_path: Path, kind: pa.DataType, stream: bool) -> None:
    """Every type of string column is text; only nulls are bad rows, also across batches."""
    texts = ["a", None, "", "naïve", "naïve", None, "z"]
    column = pa.array(texts)
    column = column.dictionary_encode().cast(kind) if "dict" in str(kind) else column.cast(kind)
    table = pa.table({"n": range(7), "body": column})
    name = write(tmp_path / "corpus.arrow", table, stream=stream)
    skipped = SkipCounter()
    found = documents(name, field="body", id_field="n", on_error="skip", skipped=skipped)
    assert [(d.id, d.text, d.fields) for d in found] == [
        (str(row), text, {"n": row}) for row, text in enumerate(texts) if text is not None
    ]
    reason = "field 'body': wanted a string, got null"
    assert skipped == SkipCounter(2, [Skip(f"{name}:2", reason), Skip(f"{name}:6", reason)])
    with pytest.raises(InvalidFile, match=r"corpus\.arrow:2: field 'body': wanted a string"):
        texts_of(name, field="body")


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8))


@given(
    texts=TEXTS,
    rows=st.integers(1, 4),
    size=st.sampled_from([1, 5, 1 << 20]),
    stream=st.booleans(),
    start=st.integers(0, 5),
)
def test_round_trip(
    texts: list[str],
    rows: int,
    size: int,
    stream: bool,
    start: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What pyarrow writes is read back with its row numbers, whatever the batches and sizes."""
    path = tmp_path_factory.mktemp("arrow") / "corpus.ipc"
    name = write(path, pa.table({"only": pa.array(texts, pa.string())}), rows, stream=stream)
    found = [(d.id, d.text) for d in documents(name, size=size, start=start)]
    assert found == [(f"{name}:{row}", text) for row, text in enumerate(texts, 1)][start:]


def test_strings_that_are_not_utf8(tmp_path: Path) -> None:
    """Bytes stay bytes: a column that is not UTF-8 is read as it lies there."""
    column = pa.array([b"\xff\xfe", b"a"]).view(pa.string())
    for stream in (False, True):
        name = write(tmp_path / "corpus.arrow", pa.table({"text": column}), stream=stream)
        assert texts_of(name) == [b"\xff\xfe", b"a"]


def test_a_stream_whose_writer_waits(tmp_path: Path) -> None:
    """A pipe gives its first batch while the writer waits to be asked for the second."""
    pipe = tmp_path / "pipe.arrows"
    os.mkfifo(pipe)
    asked = threading.Event()

    def fill() -> None:
        table = pa.table({"text": ["a", "b"]})
        with pipe.open("wb", buffering=0) as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
            asked.wait(60)
            writer.write_table(table)

    thread = threading.Thread(target=fill)
    thread.start()
    found = batches(str(pipe))
    first = next(found).texts.to_pylist()
    assert (first, asked.is_set()) == (["a", "b"], False)
    asked.set()
    assert [batch.texts.to_pylist() for batch in found] == [["a", "b"]]
    thread.join()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty: wanted Arrow IPC, which begins with a schema"),
        (b"ARROW1\0\0", "not Arrow IPC, or damaged: "),
        (b"ARROW1\0\0" + b"x" * 99, "not Arrow IPC, or damaged: "),
        (b'{"text": "a"}\n', "not Arrow IPC, or damaged: "),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "not Arrow IPC, or damaged: "),
        (b"x", "not Arrow IPC, or damaged: "),
        (HUGE, "a part of 4,503,599,627,370,496 bytes; wanted 2,147,483,648 at most"),
    ],
)
def test_what_is_no_arrow(tmp_path: Path, data: bytes, message: str) -> None:
    """A file that holds something else is an error that names it."""
    path = tmp_path / "corpus.arrow"
    path.write_bytes(data)
    with pytest.raises(InvalidFile) as caught:
        texts_of(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")


def test_fields_that_are_none(tmp_path: Path) -> None:
    """A missing field, and one that holds no strings, are told apart."""
    name = write(tmp_path / "corpus.arrow", pa.table({"n": [1], "m": [[1]]}))
    with pytest.raises(InvalidFile, match=r"no field 'text'; the fields are 'n', 'm'"):
        texts_of(name)
    with pytest.raises(InvalidFile, match=r"field 'n': wanted strings, got int64"):
        texts_of(name, field="n")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """A column whose name is no text is an error of the file, not of Python."""
    path = tmp_path / "corpus.arrow"
    data = Path(write(path, pa.table({"text": ["a"]}))).read_bytes()
    path.write_bytes(data.replace(b"text", b"te\xff\xff"))
    with pytest.raises(InvalidFile, match=r"the names of its columns are not UTF-8"):
        texts_of(str(path))


def test_feather_1(tmp_path: Path) -> None:
    """Feather of version 1 is another format, and refused by name."""
    path = tmp_path / "old.feather"
    path.write_bytes(b"FEA1" + bytes(99))
    with pytest.raises(UnsupportedFormat, match=r"old\.feather: Feather of version 1 is not read"):
        texts_of(str(path))


def test_offsets_out_of_their_column(tmp_path: Path) -> None:
    """Offsets that point outside of the texts are an error, never memory of someone else."""
    table = pa.table({"text": ["aaaaaaaa"] * 8})
    for stream in (False, True):
        path = tmp_path / "corpus.arrow"
        data = bytearray(Path(write(path, table, 8, stream=stream)).read_bytes())
        offsets = np.arange(0, 72, 8, dtype=np.int32).tobytes()
        at = data.index(offsets)
        data[at + 8 : at + 12] = b"\xff\xff\xff\x70"
        path.write_bytes(data)
        with pytest.raises(InvalidFile, match="not Arrow IPC, or damaged"):
            texts_of(str(path))


def test_codes_out_of_their_dictionary(tmp_path: Path) -> None:
    """A code that no text has is an error."""
    codes = pa.array([0, 1, 77, 1], pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, ["a", "b"], safe=False)
    path = tmp_path / "corpus.arrow"
    with pa.ipc.new_file(str(path), pa.schema([("text", column.type)])) as writer:
        writer.write_batch(pa.record_batch({"text": column}))
    with pytest.raises(InvalidFile, match="not Arrow IPC, or damaged"):
        texts_of(str(path))


def test_damage_anywhere(tmp_path: Path) -> None:
    """Cut off or with a byte changed, a file gives documents or our own error, nothing else."""
    table = pa.table({"id": range(40), "text": [f"text {n}" for n in range(40)]})
    rolled = np.random.default_rng(11)
    for stream in (False, True):
        path = tmp_path / "corpus.arrow"
        whole = Path(write(path, table, 20, stream=stream)).read_bytes()
        failed = 0
        for _ in range(300):
            data = bytearray(whole)
            data[int(rolled.integers(len(data)))] = int(rolled.integers(256))
            path.write_bytes(data[: int(rolled.integers(len(data) // 2, 2 * len(data)))])
            try:
                assert len(texts_of(str(path), keep=["id"])) <= 40
            except (InvalidFile, UnsupportedFormat):
                failed += 1
        assert failed > 100


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    """A column that nobody asked for may be damaged, and is not missed."""
    path = tmp_path / "corpus.feather"
    noise = [os.urandom(400).hex() for _ in range(50)]
    feather.write_feather(pa.table({"noise": noise, "text": ["a"] * 50}), path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[600:700] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(OSError, match="corruption"):
        feather.read_table(io.BytesIO(bytes(data)))
    assert texts_of(str(path)) == [b"a"] * 50
