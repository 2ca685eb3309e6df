"""One contract for every source: the same documents, whatever holds them and who wrote it."""

# own process: TensorFlow

from __future__ import annotations

import csv
import gzip
import json
import os
import queue
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from tests.conftest import ROOT
from tests.documents.reading import (
    Indexed,
    batches,
    binary,
    documents,
    ids_of,
    skipping,
    texts_of,
)
from vocabtool import Document
from vocabtool.documents import Batch, Extent, ReadLog, SkipCounter, extent, left_out
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat

COUNT = 1000
LETTERS = "ab ,;\"'\t\n\r\\{}[]:éß\u00a0\u2028\x85\ufeff中😀\U0010ffff"
STARTS = (0, 1, 17, 500, 999, 1000, 1500)


# Whole Unicode, each text of 1 to 40 characters: lines, quotes and blanks anywhere.
ROLLED = random.Random(7)
TEXTS = ["".join(ROLLED.choices(LETTERS, k=ROLLED.randint(1, 40))) for _ in range(COUNT)]
OBJECTS: list[dict[str, Any]] = [
    {"id": f"doc-{n}", "text": text, "title": f"title {n}\n é", "year": n - 500}
    for n, text in enumerate(TEXTS)
]
TRUTH = [tuple(map(str, row.values())) for row in OBJECTS]  # as a batch tells
TABLE = pa.Table.from_pylist(OBJECTS)


def write_json(path: Path) -> None:
    lines = [json.dumps(row, ensure_ascii=bool(n % 2)) for n, row in enumerate(OBJECTS)]
    path.write_text("\n".join(lines), "utf-8")


def write_array(path: Path) -> None:
    path.write_text(json.dumps(OBJECTS), "utf-8")


def write_csv(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(OBJECTS[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(OBJECTS)


def write_ipc(path: Path, codec: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, make(file, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE, max_chunksize=70)


def write_records(path: Path, packed: str = "") -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow's writer is the oracle")

    def feature(value: str | int) -> Any:
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

    with tf.io.TFRecordWriter(str(path), options=packed) as writer:
        for row in OBJECTS:
            named = {name: feature(value) for name, value in row.items()}
            example = tf.train.Example(features=tf.train.Features(feature=named))
            writer.write(example.SerializeToString())


def as_documents() -> list[Document]:
    return [
        Document(row["id"], row["text"], {"title": row["title"], "year": row["year"]})
        for row in OBJECTS
    ]


WRITTEN: dict[str, Callable[[Path], None]] = {
    "corpus.jsonl": write_json,
    "corpus.csv": write_csv,
    "corpus.parquet": lambda path: parquet.write_table(TABLE, path, row_group_size=70),
    "corpus.arrow": write_ipc,
    "packed.arrow": lambda path: write_ipc(path, "zstd"),
    "corpus.feather": lambda path: feather.write_feather(TABLE, path, chunksize=70),
    "corpus.arrows": write_ipc,
    "corpus.tfrecord": write_records,
    "corpus.tfrecord-00000-of-00001": write_records,
    "corpus.json": write_array,
    "written.tfrecord.gz": lambda path: write_records(path, "GZIP"),
}
PACKED = {".gz": gzip.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}
HELD: dict[str, Callable[[], Any]] = {
    "mappings": lambda: iter(OBJECTS),
    "documents": lambda: iter(as_documents()),
    "list": lambda: OBJECTS,
    "index": lambda: Indexed(OBJECTS),
    "index of documents": lambda: Indexed(as_documents()),
    "several": lambda: [iter(OBJECTS[:300]), Indexed(OBJECTS[300:700]), iter(OBJECTS[700:])],
}
KINDS = ("jsonl", "csv", "arrow", "arrows")
FILES = [*WRITTEN, *(f"corpus.{kind}{suffix}" for kind in KINDS for suffix in PACKED)]
FILES.append("corpus.tfrecord.zst")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Makes a source of 1,000 documents anew; a file is written once."""
    folder = tmp_path_factory.mktemp("sources")

    def made(name: str) -> Any:
        if name in HELD:
            return HELD[name]()
        path = folder / name
        if not path.exists():
            if name in WRITTEN:
                WRITTEN[name](path)
            else:
                path.write_bytes(PACKED[path.suffix](Path(made(path.stem)).read_bytes()))
        return str(path)

    return made


def rows_of(found: Iterator[Batch]) -> list[tuple[str, ...]]:
    """What some batches hold, all of it checked to be of one length."""
    rows = []
    for batch in found:
        columns = (batch.id_array(), batch.texts, batch.columns["title"], batch.columns["year"])
        assert {pa.string()} == {column.type for column in columns}
        rows += list(zip(*(column.to_pylist() for column in columns), strict=True))
        assert len(batch) == len(batch.texts)
    return rows


@pytest.mark.parametrize("name", [*FILES, *HELD])
class TestEverySource:
    """1,000 documents, written by the library that owns the format."""

    def test_what_was_written_is_read(self, name: str, sources: Callable[[str], Any]) -> None:
        """Texts, fields with their kinds, places as ids, a field of no row; any size of batches."""
        for size in (1 << 20, 1000):
            asked: Any = {"id_field": "id", "keep": ["title", "year"], "size": size}
            assert rows_of(batches(sources(name), **asked)) == TRUTH
        found = list(documents(sources(name), id_field="id"))
        told = [(d.id, d.text, d.fields["title"], str(d.fields["year"])) for d in found]
        assert told == TRUTH
        called = ids_of(batches(sources(name)))
        assert called == [document.id for document in documents(sources(name))]
        assert len(set(called)) == COUNT
        empty = list(batches(sources(name), keep=["nothing"]))
        assert sum(len(batch) for batch in empty) == COUNT
        assert all(batch.columns["nothing"].null_count == len(batch) for batch in empty)

    def test_several_fields_are_joined(self, name: str, sources: Callable[[str], Any]) -> None:
        """In the order given; a field of no row is left out; `title` is kept, too."""
        if "documents" in name:
            pytest.skip("a Document has its text already")
        asked: Any = {"id_field": "id", "keep": ["year"], "field": ["title^2", "no", "text"]}
        joined = [(id_, f"{title}\n\n{text}", title, year) for id_, text, title, year in TRUTH]
        assert rows_of(batches(sources(name), **asked)) == joined
        assert rows_of(batches(sources(name), start=700, **asked)) == joined[700:]
        found = [*documents(sources(name), id_field="id", field=["title", "text"])]
        assert [(d.id, d.text) for d in found] == [row[:2] for row in joined]
        assert {*map(len, (d.fields for d in found))} <= {2, 3}
        assert all("text" not in d.fields and d.fields["title"] for d in found)
        with pytest.raises(InvalidFile, match="none of the fields 'a', 'b'; the fields are '"):
            [*batches(sources(name), field=["a", "b"])]

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("start", STARTS)
    def test_start_is_a_slice(self, name: str, sources: Callable[[str], Any], start: int) -> None:
        """To leave out the first documents gives what a slice gives, compared ids or not."""
        asked: dict[str, Any] = {"id_field": "id", "keep": ["title", "year"], "start": start}
        assert rows_of(batches(sources(name), **asked)) == TRUTH[start:]
        assert rows_of(batches(sources(name), on_duplicate=None, **asked)) == TRUTH[start:]
        found = documents(sources(name), start=start, id_field="id")
        assert [d.id for d in found] == [row["id"] for row in OBJECTS[start:]]
        counted = batches(sources(name), on_error="skip", skipped=SkipCounter(), **asked)
        assert rows_of(counted) == TRUTH[start:]


class TestUnread:
    """Documents that are left out are not read where the source allows it."""

    def test_behind_an_index(self) -> None:
        """The first row asked for is the first wanted, over several sources too."""
        source = Indexed([f"text {n}" for n in range(10)])
        found = [d.text for d in documents([source], start=7)]
        assert (found, source.read) == (["text 7", "text 8", "text 9"], [7, 8, 9])
        first, second = Indexed(["a", "b", "c"]), Indexed(["d", "e", "f"])
        several = batches([first, second], start=4, on_duplicate=None)
        assert [batch.texts.to_pylist() for batch in several] == [["e", "f"]]
        assert (first.read, second.read) == ([], [1, 2])

    @pytest.mark.parametrize("kind", ["parquet", "arrow"])
    def test_groups(self, kind: str, tmp_path: Path) -> None:
        """A row group or record batch that is left out may be damaged, and is not missed."""
        path = tmp_path / f"corpus.{kind}"
        table = pa.table({"text": [f"{n:0100}" for n in range(100)]})
        if kind == "parquet":
            parquet.write_table(table, path, row_group_size=50, compression="zstd")
            data = bytearray(path.read_bytes())
            data[4:60] = os.urandom(56)
        else:
            feather.write_feather(table, path, compression="uncompressed", chunksize=50)
            data = bytearray(path.read_bytes())
            at = data.index(b"0" * 98)
            data[at - 204 : at - 196] = b"\xff" * 8  # offsets of the first batch's texts
        path.write_bytes(data)
        with pytest.raises(InvalidFile, match="or damaged"):
            list(batches(str(path)))
        assert texts_of(batches(str(path), start=60)) == binary(table["text"].combine_chunks())[60:]

    def test_lines(self, tmp_path: Path) -> None:
        """Lines left out are counted, blank ones not, nor looked at; but ids are compared."""
        path = tmp_path / "corpus.jsonl"
        path.write_bytes(b"\xef\xbb\xbf" + b"\nno JSON\n \t\n\n" * 10 + b'"a"\n\n"b"')
        found = list(documents(str(path), start=11, size=8))
        assert [(d.id, d.text) for d in found] == [(f"{path}:43", "b")]
        counted = SkipCounter()
        found = list(documents(str(path), start=1, on_error="skip", skipped=counted))
        assert ([d.text for d in found], counted.count) == (["b"], 10)
        rows = [{"id": n % 8, "text": "x"} for n in range(10)]
        told = "texts:9: .*'0'.* texts:1 "
        with pytest.raises(InvalidFile, match=told):
            list(batches(Indexed(rows), id_field="id", start=5))
        with pytest.raises(InvalidFile, match=told):
            list(batches(Indexed([Document(str(n % 8), "x") for n in range(10)]), start=5))


@given(
    lines=st.lists(st.sampled_from(["a", "é ", "", " \t", "\r"]), max_size=12),
    start=st.integers(0, 13),
    size=st.sampled_from([1, 3, 64]),
    as_json=st.booleans(),
)
def test_start_is_a_slice_of_lines(
    lines: list[str], start: int, size: int, as_json: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lines are counted as documents are, wherever blocks end and however blank lines lie."""
    path = tmp_path_factory.mktemp("lines") / ("corpus.jsonl" if as_json else "corpus.txt")
    written = [json.dumps(line) if as_json and line.strip() else line for line in lines]
    path.write_bytes("\n".join(written).encode())
    every = list(documents(str(path), size=size))
    assert list(documents(str(path), size=size, start=start)) == every[start:]


def test_several_sources(tmp_path: Path) -> None:
    """Names, iterables, and indexables in a row; places stay distinct, names bytes."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    mixed = [iter(["x"]), str(tmp_path / "*.txt"), Indexed(["y", "z"]), [iter([{"text": "q"}])]]
    found = [(d.id, d.text) for d in documents(cast(Any, mixed))]
    place = f"{tmp_path / 'a.txt'}"
    assert found == [
        *(("texts:1", "x"), (f"{place}:1", "one"), (f"{place}:2", "two")),
        *(("texts2:1", "y"), ("texts2:2", "z"), ("texts3:1", "q")),
    ]
    assert names(mixed[1:3]) == [place, "texts"]
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(name).write_text("a\n")
    (batch,) = batches(name)
    assert batch.id_array().view(pa.binary()).to_pylist() == [os.fsencode(name) + b":1"]
    assert [d.id for d in documents(name)] == [f"{name}:1"] == [batch.place(0)]


def names(given_: Any) -> list[str]:
    return [batch.source for batch in batches(given_)]


def test_what_a_list_is() -> None:
    """A list of strings is one of names, a list with other documents one of documents."""
    given_: list[Any] = ["a", b"b", {"text": "c"}]
    assert [d.text for d in documents(given_)] == ["a", "b", "c"]
    assert [d.text for d in documents(given_[1:])] == ["b", "c"]
    assert [d.text for d in documents(iter(["a", "b"]))] == ["a", "b"]
    pandas = pytest.importorskip("pandas", reason="a series has labels")
    series = pandas.Series(["a", "b"], index=[2, 0])  # read in its order, not by its labels
    for source in ([iter(["a", "b"])], series):
        assert [d.text for d in documents(source)] == ["a", "b"]
    assert list(documents([])) == []
    with pytest.raises(NotFound, match="a: no such file"):
        list(documents(["a", "b"]))
    no_source: list[Any] = [17, None, b"bytes", queue.Queue()]
    for wrong in no_source:
        with pytest.raises(ValueError, match=f"name, .* got {type(wrong).__name__}"):
            list(documents(wrong))
    mixed: list[Any] = [b"text", {"text": "a"}, Document("1", "a")]
    for document in mixed:
        with pytest.raises(
            ValueError, match=f"sources or documents.* got {type(document).__name__}"
        ):
            list(documents([iter("a"), document]))


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of documents at any depth, sorted, none hidden; others are told by endings."""
    monkeypatch.chdir(tmp_path)
    read = ["c/Z.TXT", "c/a.jsonl", "c/b.txt", "c/deep/er/d.txt.gz", "c/z.jsonl-00000-of-00002"]
    left = [
        "c/.hidden.txt",
        "c/.git/x.txt",
        "c/README.adoc",
        "c/bare",
        "c/x.adoc.gz",
        "c/own/h.org",
    ]
    for place in [*read, *left]:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(place).encode()
        Path(place).write_bytes(gzip.compress(text) if place.endswith(".gz") else text)
    Path("c/link").symlink_to(tmp_path / "c")
    assert names("c") == names([Path("c")]) == read
    (note,) = left_out(["c", Path("c"), "c/b.txt"], output=Path("c/own"))
    assert note.startswith("c: 3 files ")
    assert "--include" in note
    counts = sorted(re.findall(r"\d+ (?:\.[a-z.]+|without)", note))
    assert counts == ["1 .adoc", "1 .adoc.gz", "1 without"]
    assert left_out("c/own/h.org") == left_out(iter(["text"])) == ()
    with pytest.raises(NotFound, match=r"own: 1 file .*1 \.org\b"):
        list(batches("c/own"))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix in (".parquet", ".arrow"):
        write = parquet.write_table if path.suffix == ".parquet" else feather.write_feather
        write(pa.Table.from_pylist(rows), path)
    else:
        csv_lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        lines = map(json.dumps, rows) if path.suffix == ".jsonl" else csv_lines
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow", "held"])
def test_rows_without_an_id(kind: str, tmp_path: Path) -> None:
    """A row without an id is bad in every source, and passed over with file and row."""
    rows: list[dict[str, Any]] = [{"id": "a", "text": "x"}, {"id": None, "text": "y"}]
    rows += [{"id": "c", "text": None}, {"id": "d", "text": "z"}]
    held = kind == "held"
    path = "texts" if held else str(write_rows(tmp_path / f"corpus.{kind}", rows))
    source: Any = iter(rows) if held else path
    found, skipped = skipping(source, id_field="id")
    assert found == [(1, b"x"), (4, b"z")]
    assert [skip.place for skip in skipped.first] == [f"{path}:2", f"{path}:3"]
    for skip, field in zip(skipped.first, ("id", "text"), strict=True):
        assert re.search(f"'{field}'.* got null", skip.reason)
    if not held:
        with pytest.raises(InvalidFile, match=f"{kind}:2: .*'id'.* got null"):
            list(batches(source, id_field="id"))


def test_ids_that_cannot_be(tmp_path: Path) -> None:
    """An id is a string or a whole number; a file without the field says so at once."""
    none = r"'id'.*'text'.*--id-field \(id_field=\)"
    for id_, reason in (({}, none), ({"id": True}, "'id'.* got true"), ({"id": 1.5}, "a number")):
        rows = [{"text": "c", **id_}] * 2
        for source in (str(write_rows(tmp_path / "corpus.jsonl", rows)), iter(rows)):
            found, skipped = skipping(cast(Any, source), id_field="id")
            assert found == []
            assert [bool(re.search(reason, skip.reason)) for skip in skipped.first] == [True, True]
    held = [{"text": "a", "id": 0}, {"text": "b", "id": ""}]
    assert [document.id for document in documents(held, id_field="id")] == ["0", ""]
    for kind in ("txt", "csv", "parquet"):
        path = write_rows(tmp_path / f"corpus.{kind}", [{"name": "a", "text": "b"}])
        with pytest.raises(InvalidFile, match=f"corpus.{kind}: .*no field 'id'"):
            skipping(str(path), id_field="id")
    path = write_rows(tmp_path / "corpus.arrow", [{"id": 0.5, "text": "b"}])
    with pytest.raises(InvalidFile, match=r"'id'.* got double"):
        list(batches(str(path), id_field="id"))
    (tmp_path / "corpus.csv").write_text("id,text,id\n1,b,2\n")
    with pytest.raises(InvalidFile, match=r"more than one field 'id'"):
        list(batches(str(tmp_path / "corpus.csv"), keep=["id"]))


VALUES: list[tuple[Any, str | None]] = [
    *(("", ""), (None, None), (-(1 << 62), str(-(1 << 62))), (True, "true"), (1e300, "1e+300")),
    *((["é", "b"], '["é", "b"]'), ({"a": None}, '{"a": null}'), ("2020-01-01", "2020-01-01")),
]


@pytest.mark.parametrize(("value", "kept"), VALUES, ids=repr)
@pytest.mark.parametrize("among", ["alone", "first", "last"])
def test_kept_values(value: Any, kept: str | None, among: str, tmp_path: Path) -> None:
    """A kept value is the same on every way: by itself, and among rows that hold strings."""
    row = {"text": "x", "v": value}
    plain = {"text": "y", "v": "plain"}
    rows = {"alone": [row], "first": [row, plain], "last": [plain, row]}[among]
    expected = ["plain" if each is plain else kept for each in rows]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    for source in (str(path), iter(rows), iter([Document("1", "x", each) for each in rows])):
        found = batches(cast(Any, source), keep=["v"], on_duplicate=None)
        assert [v for batch in found for v in batch.columns["v"].to_pylist()] == expected
    if among == "alone":
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "corpus.parquet")
        (batch,) = batches(str(tmp_path / "corpus.parquet"), keep=["v"])
        assert batch.columns["v"].to_pylist() == expected


def test_kept_columns_of_other_types(tmp_path: Path) -> None:
    """Bytes stay bytes, times and NumPy's values are written out; a circle is a bad row."""
    path = tmp_path / "corpus.parquet"
    columns = {
        "bytes": (pa.array([b"\xff"]), b"\xff"),
        "day": (pa.array([date(2020, 1, 2)]), b"2020-01-02"),
        "price": (pa.array([Decimal("1.10")]), b"1.10"),
        "code": (pa.array(["a"]).dictionary_encode(), b"a"),
        "long": (pa.array(["b"], pa.large_string()), b"b"),
        "small": (pa.array([200], pa.uint8()), b"200"),
    }
    parquet.write_table(pa.table({"text": ["x"]} | {n: c for n, (c, _) in columns.items()}), path)
    (batch,) = batches(str(path), keep=list(columns))
    assert {n: binary(column) for n, column in batch.columns.items()} == {
        name: [shown] for name, (_, shown) in columns.items()
    }
    circle: list[Any] = []
    circle.append(circle)
    values = [np.int64(3), np.array([1, 2]), {1}, [b"\xff"], circle]
    skipped = SkipCounter()
    rows = [{"text": "x", "v": value} for value in values]
    (held,) = batches(iter(rows), keep=["v"], on_error="skip", skipped=skipped)
    assert binary(held.columns["v"]) == [b"3", b"[1, 2]", b"{1}", b'["\xff"]']
    assert re.match("field 'v': .*JSON.*: Circular", skipped.first[0].reason)


def test_extent(tmp_path: Path, sources: Callable[[str], Any]) -> None:
    """Rows are told where a footer or a length tells them, bytes of what is a file."""
    packed, plain = sources("corpus.parquet"), sources("corpus.jsonl")
    size, other = Path(packed).stat().st_size, Path(plain).stat().st_size
    assert extent([packed, plain]) == Extent(None, size + other)
    assert extent([packed, packed]) == Extent(2 * COUNT, 2 * size)
    for name in ("corpus.parquet", "corpus.arrow", "corpus.feather", "packed.arrow"):
        assert extent(sources(name)) == Extent(COUNT, Path(sources(name)).stat().st_size)
    assert extent(sources("corpus.arrows")).rows is None
    assert extent(OBJECTS) == extent(Indexed(OBJECTS)) == Extent(COUNT, None)
    assert extent(cast(Any, [OBJECTS, packed])) == Extent(2 * COUNT, None)
    (tmp_path / "bad.parquet").write_bytes(b"no")
    (tmp_path / "bad.arrow").write_bytes(b"ARROW1\0\0no")
    names = [str(tmp_path / name) for name in ("none.txt", "", "bad.parquet", "bad.arrow")]
    unknowns: list[Any] = [iter(OBJECTS), "-", *names]
    for unknown in unknowns:
        assert extent(unknown) == Extent(None, None)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "arrow", "arrows", "tfrecord"])
def test_standard_input(ending: str, sources: Callable[[str], Any]) -> None:
    """All but Parquet comes through a pipe too; of an Arrow file the stream that it holds."""
    name, kind = f"corpus.{ending}", ending.removesuffix("s") if "arrow" in ending else ending
    code = (
        "from tests.documents.reading import batches\n"
        f"found = list(batches('-', format={kind!r}, id_field='id'))\n"
        "ids = [i for b in found for i in b.id_array().to_pylist()]\n"
        "print(len(ids), ids[0], ids[-1], {b.source for b in found})"
    )
    data = Path(sources(name)).read_bytes()
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == (b"1000 doc-0 doc-999 {'-'}\n", b"")
    with pytest.raises(UnsupportedFormat, match=r"-: Parquet .*stream"):
        list(batches("-", format="parquet"))


@pytest.mark.parametrize("others", [0, 1, 5_000])
def test_a_row_group_that_unpacks_to_much(tmp_path: Path, others: int) -> None:
    """It is refused by what its metadata says, and not unpacked."""
    path = tmp_path / "corpus.parquet"
    texts = ["a " * (40 << 20), *map(str, range(others))]
    parquet.write_table(pa.table({"text": texts}), path, compression="zstd")
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(InvalidFile, match=r"row group 0: .* a text can have 67,108,864 bytes"):
        list(batches(str(path)))
    assert pa.default_memory_pool().max_memory() == before


def test_a_text_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is invalid, in every format with columns."""
    monkeypatch.setattr("vocabtool.documents.reading.MAX_DOCUMENT_BYTES", 1_000)
    monkeypatch.setattr("vocabtool.documents.pieces.MAX_FILE_BYTES", 1_000)
    table = pa.table({"text": ["a" * 1_000, "b" * 1_001, *"cdef"]})
    parquet.write_table(table, tmp_path / "corpus.parquet")
    feather.write_feather(table, tmp_path / "corpus.arrow")
    for source in (str(tmp_path / "corpus.parquet"), str(tmp_path / "corpus.arrow"), table):
        log = ReadLog()
        found = [text for each in batches(source, on_error="skip", log=log) for text in each.texts]
        assert [str(text)[:1] for text in found] == [*"acdef"]
        assert log.skipped.first[0].reason.startswith("a text of 1,001 bytes (allowed: 1,000; ")
        with pytest.raises(InvalidFile, match=r":2: a text of 1,001 bytes \(allowed: 1,000"):
            list(batches(source, split="tokens"))


@pytest.mark.parametrize(
    ("name", "begin", "part", "end"),
    [
        ("corpus.json", b"[", b"{},", b"{}]"),
        ("corpus.jsonl", b'{"text": "a", "x": [', b"[],", b"[]]}"),
        ("corpus.ipynb", b'{"nbformat": 4, "metadata": {}, "cells": [', b"{},", b"{}]}"),
    ],
)
def test_json_of_many_parts(
    tmp_path: Path, name: str, begin: bytes, part: bytes, end: bytes
) -> None:
    """It is refused before it is parsed, which would take 25 times its size."""
    (tmp_path / name).write_bytes(begin + part * 4_000_000 + end)
    with pytest.raises(InvalidFile, match="JSON of more than 7,000,000 commas and brackets"):
        list(batches(str(tmp_path / name)))
