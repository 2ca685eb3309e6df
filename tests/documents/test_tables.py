"""Parquet and Arrow IPC, compared with what pyarrow writes; damage is built by hand."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from tests.documents.reading import batches, documents, skipping, texts_of
from vocabtool.documents import Batch, SkipCounter
from vocabtool.errors import InvalidFile, UnsupportedFormat

CODES = [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())]
KINDS = [pa.string(), pa.large_string(), pa.string_view(), *CODES]
NAMES = ["corpus.parquet", "corpus.arrow", "corpus.arrows"]


# A stream whose record batch says that it has petabytes.
BATCH = pa.record_batch({"text": pa.array(["a" * 1003])})
BODY, PETABYTES = ((size).to_bytes(8, "little") for size in (8 + 1008, 1 << 52))
HUGE = (BATCH.schema.serialize().to_pybytes() + BATCH.serialize().to_pybytes()).replace(
    BODY, PETABYTES
)


def write(path: Path, table: pa.Table, rows: int = 3) -> str:
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=rows)
        return str(path)
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as writer:
        for at in range(0, table.num_rows, rows):
            writer.write_table(table.slice(at, rows).unify_dictionaries(), max_chunksize=rows)
    return str(path)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_types_of_strings(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    """Every type of string column is text; only nulls are bad rows, also across batches."""
    texts = ["a", None, "", "naïve", "naïve", None, "z"]
    column = pa.array(texts)
    column = column.dictionary_encode().cast(kind) if "dict" in str(kind) else column.cast(kind)
    try:
        file = write(tmp_path / name, pa.table({"n": range(7), "body": column}))
    except pa.ArrowNotImplementedError:
        pytest.skip("this release of pyarrow cannot write it")
    skipped = SkipCounter()
    found = documents(file, field="body", id_field="n", on_error="skip", skipped=skipped)
    assert [(d.id, d.text, d.fields) for d in found] == [
        (str(row), text, {"n": row}) for row, text in enumerate(texts) if text is not None
    ]
    assert (skipped.count, len(skipped.first)) == (2, 2)
    for skip, row in zip(skipped.first, (2, 6), strict=True):
        assert skip.place == f"{file}:{row}"
        assert re.search("'body'.* got null", skip.reason)
    with pytest.raises(InvalidFile, match=f"{name}:2: .*'body'.* got null"):
        texts_of(batches(file, field="body"))


@pytest.mark.parametrize("kind", [*KINDS, pa.large_binary(), pa.binary_view()], ids=str)
def test_only_some_row_groups_have_long_texts(tmp_path: Path, kind: pa.DataType) -> None:
    values = ["a" * 100_000, "b", "c"]
    column = pa.array(values).cast(pa.binary() if "binary" in str(kind) else pa.string())
    column = column.dictionary_encode().cast(kind) if "dict" in str(kind) else column.cast(kind)
    table = pa.table({"text": values, "value": column})
    try:
        parquet.write_table(table, tmp_path / "x.parquet", row_group_size=1)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow {pa.__version__} writes no {kind} to Parquet")
    stored = [d.fields["value"] for d in documents(tmp_path / "x.parquet")]
    assert stored == column.to_pylist()


@pytest.mark.parametrize("name", [*NAMES, "table"])
def test_of_fields_of_one_name_the_last_counts(name: str, tmp_path: Path) -> None:
    table = pa.table([["x", "y"], [1, 2], [3, 4]], ["text", "n", "n"])
    source = table if name == "table" else write(tmp_path / name, table)
    assert [d.fields for d in documents(source)] == [{"n": 3}, {"n": 4}]


def test_strings_that_are_not_utf8(tmp_path: Path) -> None:
    """Bytes stay bytes; but a column whose name is no text is an error of the file."""
    column = pa.array([b"\xff\xfe", b"a"]).view(pa.string())
    for name in NAMES[1:]:
        file = write(tmp_path / name, pa.table({"text": column}))
        assert texts_of(batches(file)) == [b"\xff\xfe", b"a"]
        path = Path(file)
        path.write_bytes(path.read_bytes().replace(b"text", b"te\xff\xff"))
        with pytest.raises(InvalidFile, match=r"column.* UTF-8"):
            texts_of(batches(file))


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


OTHERS = [b"ARROW1\0\0", b"ARROW1\0\0" + b"x" * 99, b'{"text": "a"}\n', b"\xff" * 7 + b"\x7f", b"x"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((other, "not Arrow IPC") for other in OTHERS),
        (b"", r"the file is empty \(expected Arrow IPC\)"),
        (HUGE, ".*4,503,599,627,370,496 bytes .*2,147,483,648"),
        (b"FEA1" + bytes(99), "Feather version 1 .* version 2"),
    ],
)
def test_what_is_no_arrow(tmp_path: Path, data: bytes, message: str) -> None:
    """A file that holds something else is an error that names it."""
    path = tmp_path / "corpus.arrow"
    path.write_bytes(data)
    with pytest.raises((InvalidFile, UnsupportedFormat)) as caught:
        texts_of(batches(str(path)))
    assert re.match(f"{re.escape(str(path))}: {message}", str(caught.value))


@pytest.mark.parametrize("name", NAMES)
def test_fields_that_are_none(name: str, tmp_path: Path) -> None:
    """A damaged file, a missing field, and one that holds no strings, are told apart."""
    file = write(tmp_path / name, pa.table({"n": [1], "m": [[1]]}))
    with pytest.raises(InvalidFile, match=f"{name}: .*'text'.*'n', 'm'"):
        texts_of(batches(file))
    with pytest.raises(InvalidFile, match=f"{name}: .*'n'.* got int64"):
        texts_of(batches(file, field="n"))
    write(tmp_path / name, pa.table({"text": ["a"]}))
    Path(file).write_bytes(Path(file).read_bytes()[:-20])
    with pytest.raises(InvalidFile, match=rf"{name}: not (Parquet|Arrow IPC), or damaged"):
        skipping(file)


@pytest.mark.parametrize("column", ["text", "v"])
@pytest.mark.parametrize("name", ["bomb.parquet", "bomb.arrow"])
def test_a_long_text_many_times_over(name: str, column: str, tmp_path: Path) -> None:
    """A file of some kilobytes comes in batches of few rows; one that stands for gigabytes, never.

    It is refused before its texts are unpacked.
    """
    path = tmp_path / name

    def found(rows: int, size: int = 4 << 20) -> Iterator[Batch]:
        codes = pa.array([0] * rows, pa.int32())
        long = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * (1 << 20)]))
        table = pa.table({"text": ["a"] * rows, "v": ["b"] * rows} | {column: long})
        if name == "bomb.parquet":
            parquet.write_table(table, path, store_schema=False)
            assert path.stat().st_size < 200_000
        else:
            feather.write_feather(table, path)
        return batches(str(path), keep=["v"], size=size)

    first = list(found(60, size=1 if column == "v" else 4 << 20))
    columns = [batch.texts if column == "text" else batch.columns["v"] for batch in first]
    assert max(held.nbytes for held in columns) < 10 << 20
    assert {len(value) for held in columns for value in held.to_pylist()} == {1 << 20}
    numbers = np.concatenate([batch.numbers for batch in first]).tolist()
    assert numbers == list(range(1, 61))
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(InvalidFile, match=r"up to here, [\d,]+ bytes unpack to 3,1[\d,]+ or more"):
        next(found(3000))
    assert pa.default_memory_pool().max_memory() - before < 10 << 20


@pytest.mark.parametrize("name", NAMES[1:])
def test_offsets_out_of_their_column(name: str, tmp_path: Path) -> None:
    """Offsets or codes that point outside are an error, never memory of someone else."""
    path = tmp_path / name
    data = bytearray(Path(write(path, pa.table({"text": ["aaaaaaaa"] * 8}), 8)).read_bytes())
    at = data.index(np.arange(0, 72, 8, dtype=np.int32).tobytes())
    data[at + 8 : at + 12] = b"\xff\xff\xff\x70"
    path.write_bytes(data)
    with pytest.raises(InvalidFile, match="not Arrow IPC, or damaged"):
        texts_of(batches(str(path)))
    codes = pa.array([0, 1, 77, 1], pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, ["a", "b"], safe=False)
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with make(str(path), pa.schema([("text", column.type)])) as writer:
        writer.write_batch(pa.record_batch({"text": column}))
    with pytest.raises(InvalidFile, match="not Arrow IPC, or damaged"):
        texts_of(batches(str(path)))


@pytest.mark.parametrize("name", NAMES[1:])
def test_damage_anywhere(name: str, tmp_path: Path) -> None:
    """Cut off or with a byte changed, a file gives documents or our own error, nothing else."""
    table = pa.table({"id": range(40), "text": [f"text {n}" for n in range(40)]})
    rolled = np.random.default_rng(11)
    path = tmp_path / name
    whole = Path(write(path, table, 20)).read_bytes()
    failed = 0
    for _ in range(300):
        data = bytearray(whole)
        data[int(rolled.integers(len(data)))] = int(rolled.integers(256))
        path.write_bytes(data[: int(rolled.integers(len(data) // 2, 2 * len(data)))])
        try:
            assert len(texts_of(batches(str(path), keep=["id"]))) <= 40
        except (InvalidFile, UnsupportedFormat):
            failed += 1
    assert failed > 100


def test_repeated_texts_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary gives the same text for any number of rows of a small file."""
    file = write(tmp_path / "a.parquet", pa.table({"text": ["a" * 100] * 20_000}), 5_000)
    assert len(list(documents(file))) == 20_000
    monkeypatch.setattr("vocabtool.documents.tables.MAX_GROWTH", 1)
    monkeypatch.setattr("vocabtool.documents.tables.MAX_TEXT_BYTES", 1_000_000)
    with pytest.raises(InvalidFile, match=r"up to here, [\d,]+ bytes unpack to 1,040,000 or more"):
        list(documents(file))


def test_equal_numbers_of_a_list_have_a_limit(tmp_path: Path) -> None:
    """They are counted before they are unpacked: 800 bytes hold one list of 34 million numbers."""
    count = 34_000_000
    vector = pa.ListArray.from_arrays([0, count], pa.array(np.zeros(count, np.float32)))
    file = write(tmp_path / "a.parquet", pa.table({"text": ["a"], "v": vector}), 1)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(
        InvalidFile, match=r"row group 0: [\d,]+ bytes unpack to 68,[\d,]+ in 1 row"
    ):
        next(batches(file, vector_field="v"))
    assert pa.default_memory_pool().max_memory() == before


def test_vectors_count_as_bytes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be a thousand times as long as their texts, also in a column with dots."""
    monkeypatch.setattr("vocabtool.documents.tables.MAX_TEXT_BYTES", 10_000)
    vectors = [*np.random.default_rng(3).random((500, 2000), np.float32)]
    file = write(tmp_path / "a.parquet", pa.table({"text": ["a"] * 500, "a.v": vectors}), 500)
    (batch, *_) = batches(file, vector_field="a.v")
    assert batch.vectors is not None
    np.testing.assert_array_equal(batch.vectors, np.array(vectors[: len(batch)]))


def test_many_columns_of_parquet(tmp_path: Path) -> None:
    """A file of 50,000 columns is read; one of 50,001 is refused before they are parsed."""
    columns = {"text": ["a"]} | {str(number): pa.nulls(1) for number in range(49_999)}
    assert len(list(documents(write(tmp_path / "a.parquet", pa.table(columns))))) == 1
    file = write(tmp_path / "a.parquet", pa.table(columns | {"more": pa.nulls(1)}))
    with pytest.raises(InvalidFile, match="more than 50,000 columns"):
        list(documents(file))
