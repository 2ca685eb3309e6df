"""Vectors that another system made, from files, arrays and fields: each document gets its own."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import feather, parquet

from tests import counted_letters
from tests.builders.small_indexes import counts, ids, scored, snapshot_of, write_rows
from tests.cli.running import run
from vocabtool import (
    Document,
    Index,
    InvalidFile,
    NotFound,
    OperatorFailed,
    OtherModel,
    UnsupportedFormat,
    VocabtoolError,
    open_encoder,
)
from vocabtool.documents import ReadOptions

Vectors = NDArray[np.float32]
COUNT: Final = 3000
DIM: Final = 8
IDS: Final = [f"d{number}" for number in range(COUNT)]
MIXED: Final = np.random.default_rng(5).permutation(COUNT)  # another order than the documents'
BY_ID: Final = ReadOptions(id_field="id")
EXACT: Final[dict[str, Any]] = {"metric": "l2", "dtype": "float32"}
LETTERS: Final = "python:tests.counted_letters:encode"


def some_vectors(count: int = COUNT, dim: int = DIM) -> Vectors:
    """Random numbers that float16 can express, too."""
    made = np.random.default_rng(4).integers(-999, 1000, (count, dim))
    return (made / 64).astype(np.float32)


def write_documents(path: Path, count: int = COUNT, start: int = 0, end: str = "") -> Path:
    """JSON lines with ids and texts, which have this end."""
    numbers = range(start, start + count)
    rows = ({"id": f"d{at}", "text": f"only{at:05} text{end}"} for at in numbers)
    return write_rows(path, rows)


def lists(vectors: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """A column of lists."""
    return pa.array([row.tolist() for row in vectors], kind)


def table(path: Path, columns: dict[str, Any], rows: int = 700) -> Path:
    """A Parquet file with several row groups."""
    parquet.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def as_npy(folder: Path, array: NDArray[Any]) -> Path:
    np.save(folder / "v.npy", array)
    return folder / "v.npy"


def with_ids(folder: Path, vectors: Any, given: list[str]) -> Path:
    columns = {"v": lists(np.asarray(vectors), pa.list_(pa.float32())), "id": given}
    return table(folder / "v.parquet", columns)


GIVEN: Final[dict[str, Callable[[Path, Vectors], Any]]] = {
    "npy": as_npy,
    "npy of big-endian float64": lambda folder, made: as_npy(folder, made.astype(">f8")),
    "npy in the order of Fortran": lambda folder, made: as_npy(folder, np.asfortranarray(made)),
    "parquet": lambda folder, made: table(
        folder / "v.parquet", {"v": lists(made, pa.list_(pa.float32(), DIM))}
    ),
    "parquet of float16 lists": lambda folder, made: table(
        folder / "v.parquet", {"v": lists(made, pa.list_(pa.float16())), "n": range(COUNT)}
    ),
    "parquet with ids": lambda folder, made: table(
        folder / "v.parquet", {"id": IDS, "v": lists(made, pa.list_(pa.float64()))}
    ),
    "parquet with ids in another order": lambda folder, made: table(
        folder / "v.parquet",
        {
            "other": lists(made * 0, pa.list_(pa.float32())),
            "vector": lists(made[MIXED], pa.list_(pa.float32(), DIM)),
            "id": pa.array([IDS[row] for row in MIXED]).dictionary_encode(),
        },
    ),
    "an array": lambda folder, made: made,
}


def stop(*_: object) -> None:
    raise InterruptedError


@pytest.mark.parametrize("how", GIVEN)
def test_each_document_gets_its_vector(tmp_path: Path, how: str) -> None:
    """The numbers are NumPy's, also after an interruption; search finds the nearest of NumPy."""
    made, file = some_vectors(), write_documents(tmp_path / "x.jsonl", end=" x" * 500)
    given = GIVEN[how](tmp_path, made)
    index = Index.create_for(tmp_path / "i", file, read=BY_ID, vectors=given, **EXACT)
    with pytest.raises(InterruptedError):
        index.load(file, BY_ID, vectors=given, commit_rows=1, progress=stop)
    index = Index.open(tmp_path / "i")
    left = COUNT - len(index)
    assert 0 < left < COUNT
    report = index.load(file, BY_ID, vectors=given)
    assert (report.read, report.added, report.zero, report.notes) == (COUNT, left, 0, ())
    assert np.array_equal(index.snapshot().take(np.arange(COUNT)), made)
    assert index.snapshot().ids(np.arange(COUNT)) == IDS
    query = np.full(DIM, 3.5, np.float32)
    distances = ((made - query) ** 2).sum(axis=1)
    nearest = np.argsort(distances, kind="stable")[:5]
    found = index.search(vector=query, k=5, fusion="dense")
    assert ids(found) == [IDS[row] for row in nearest]
    assert [hit.score for hit in found] == pytest.approx((-distances[nearest]).tolist())
    assert index.load(file, BY_ID, vectors=given).added == 0  # finished: nothing is done again
    assert [each.name for each in (tmp_path / "i").glob(".vocabtool*")] == []
    assert index.verify().documents == COUNT


FIELDS: Final[dict[str, Callable[[Path, Vectors], Any]]] = {
    "x.jsonl": lambda path, made: path.write_text(
        "".join(
            json.dumps({"id": id_, "text": "text", "v": row.tolist()}) + "\n"
            for id_, row in zip(IDS, made, strict=True)
        )
    ),
    "x.parquet": lambda path, made: table(
        path, {"id": IDS, "text": ["text"] * COUNT, "v": lists(made, pa.list_(pa.float16(), DIM))}
    ),
    "x.arrow": lambda path, made: feather.write_feather(
        pa.table({"id": IDS, "v": lists(made, pa.list_(pa.float64())), "text": ["text"] * COUNT}),
        path,
        compression="uncompressed",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_contains_the_vector(tmp_path: Path, name: str) -> None:
    """Of each document; an update of the file sees which vectors changed."""
    made, file = some_vectors(), tmp_path / name
    FIELDS[name](file, made)
    read = ReadOptions(id_field="id", vector_field="v", keep=["v"] if "jsonl" in name else [])
    index = Index.create_for(tmp_path / "i", file, read=read, **EXACT)
    assert index.load(file, read).added == COUNT
    assert np.array_equal(index.snapshot().take(np.arange(COUNT)), made)
    made[7] = 1
    FIELDS[name](file, made)
    report = index.update()
    assert (report.updated, report.unchanged) == (1, COUNT - 1)
    assert index.search(vector=np.ones(DIM), k=1, fusion="dense")[0].id == "d7"


def test_documents_in_python_have_a_field(tmp_path: Path) -> None:
    """Mappings and documents, from an iterator; their vectors are nobody's but the caller's."""
    rows: list[Any] = [
        {"id": "a", "text": "one", "v": [1, 0]},
        Document("b", "two", {"v": np.array([0, 2.0])}),
    ]
    index = Index.create(tmp_path / "i", dim=2, **EXACT)
    index.load(iter(rows), id_field="id", vector_field="v")
    assert index.snapshot().take(np.arange(2)).tolist() == [[1, 0], [0, 2]]
    index.load(iter([{"id": "c", "text": "three"}]), id_field="id", vectors=[[5, 5]])
    assert index.search(vector=[5, 5], k=1, fusion="dense")[0].id == "c"
    sources = snapshot_of(index).commit.database.select(
        "SELECT source FROM fields WHERE row IN (?...)", [0, 1, 2]
    )
    assert [*sources] == [(0,)] * 3


BAD_FIELDS: Final = [
    ({"text": "t"}, "no field 'v'"),
    ({"text": "t", "v": [1, 2, 3]}, "expected 2 numbers, got 3"),
    ({"text": "t", "v": [1, 1e300]}, "contains NaN, infinity or a number too large"),
]


@pytest.mark.parametrize(("row", "told"), BAD_FIELDS)
def test_a_bad_vector_in_a_line(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    """It is an invalid row: an error with its place, or skipped and counted."""
    good = {"text": "good", "v": [1.5, 2]}
    file = write_rows(tmp_path / "x.jsonl", (good, row, good))
    index = Index.create(tmp_path / "i", dim=2, **EXACT)
    with pytest.raises(InvalidFile, match=rf"x\.jsonl:2: .*{told}"):
        index.load(file, vector_field="v")
    report = index.load(file, vector_field="v", on_error="skip")
    assert (report.added, report.skipped) == (2, 1)
    assert told in report.first_skipped[0].reason


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_bad_vectors_in_a_column(tmp_path: Path, name: str) -> None:
    """Null, too short, with a null or NaN: invalid rows; a column of strings is an error."""
    column = [[1, 2], None, [1], [1, None], [float("nan"), 1], [3, 4]]
    made = pa.table({"text": list("abcdef"), "v": pa.array(column, pa.list_(pa.float64()))})
    write = parquet.write_table if "parquet" in name else feather.write_feather
    write(made, tmp_path / name)
    index = Index.create(tmp_path / "i", dim=2, **EXACT)
    with pytest.raises(InvalidFile, match=r"'v': expected 2 numbers, got null"):
        index.load(tmp_path / name, field="text", vector_field="v")
    report = index.load(tmp_path / name, field="text", vector_field="v", on_error="skip")
    assert (report.added, report.skipped) == (2, 4)
    assert [skip.reason for skip in report.first_skipped] == [
        "field 'v': expected 2 numbers, got null",
        "field 'v': expected 2 numbers, got 1",
        *["field 'v': contains NaN, infinity or a number too large for float32"] * 2,
    ]
    assert index.snapshot().take(np.arange(2)).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InvalidFile, match=r"'text': expected lists of numbers, got string"):
        index.load(tmp_path / name, field="text", vector_field="text")
    other = Index.create(tmp_path / "other", dim=3, **EXACT)
    with pytest.raises(InvalidFile, match="vector has 2 numbers, but the index needs 3"):
        other.load(tmp_path / name, field="text", vector_field="v", on_error="skip")


def npy_header(text: str) -> bytes:
    """A .npy with this header and 64 bytes of numbers."""
    header = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)


def with_nan() -> NDArray[np.float64]:
    made = np.ones((4, 2))
    made[2, 1] = np.nan
    return made


def raw(name: str, content: bytes) -> Callable[[Path], Path]:
    """Writes a file with these bytes."""

    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def not_utf8_names(folder: Path) -> Path:
    """A Parquet file whose column has a name of other bytes."""
    file = table(folder / "v.parquet", {"naame": lists(np.ones((4, 2)), pa.list_(pa.float32()))})
    parquet.write_table(parquet.read_table(file), file, store_schema=False)
    file.write_bytes(file.read_bytes().replace(b"naame", b"na\xe9me"))
    return file


def npy(array: NDArray[Any]) -> Callable[[Path], Path]:
    return lambda folder: as_npy(folder, array)


def rows_of(rows: int = 700, **columns: Any) -> Callable[[Path], Path]:
    return lambda folder: table(folder / "v.parquet", columns, rows)


ONES: Final = np.ones((4, 2))
HEADER: Final = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
FLOATS: Final = pa.list_(pa.float32())
Make = Callable[[Path], Any]
MALFORMED: Final[list[tuple[Make, type[Exception], str]]] = [
    (lambda folder: folder / "none.npy", NotFound, "none.npy"),
    (raw("v.txt", b"1 2"), UnsupportedFormat, r"ends in \.npy or \.parquet, got \.txt"),
    (raw("v.npy", npy_header("{'descr': '<f4', 'shape'")), UnsupportedFormat, "its header is"),
    (raw("v.npy", b"\x93NUMP"), InvalidFile, "not a NumPy array"),
    (raw("v.npy", npy_header(HEADER % "4, 2")[:-40]), InvalidFile, "truncated: expected 32 bytes"),
    (raw("v.npy", npy_header(HEADER % "999999999999, 999")), InvalidFile, "truncated: expected"),
    (raw("v.npy", npy_header(HEADER % "-4, -2")), UnsupportedFormat, "its header is"),
    (raw("v.npy", b"version https://git-lfs.github.com/spec/v1"), InvalidFile, "Git LFS"),
    (npy(ONES[0]), InvalidFile, r"float64 of shape \(2,\)"),
    (npy(np.array([[None]])), UnsupportedFormat, "an array of Python objects"),
    (npy(ONES[:0]), InvalidFile, "at least one vector"),
    (npy(np.ones((1, 70_000), "b")), InvalidFile, "1 to 65,536 numbers"),
    (npy(with_nan()), InvalidFile, "v.npy: row 2: contains NaN"),
    (npy(np.ones((4, 3))), InvalidFile, "vector has 3 numbers, but the index needs 2"),
    (npy(np.ones((3, 2))), VocabtoolError, "3 vectors for 4 documents"),
    (lambda folder: np.ones(2), InvalidFile, r"expected numbers of shape \(n, dim\)"),
    (
        lambda folder: with_ids(folder, ONES, ["d0", "d1", "d0", "d2"]),
        InvalidFile,
        "row 2: the id 'd0' is also the id of row 0",
    ),
    (
        lambda folder: with_ids(folder, with_nan(), IDS[:4][::-1]),
        InvalidFile,
        r"row 2 \(id 'd1'\): field 'v': contains NaN",
    ),
    (
        lambda folder: with_ids(folder, ONES, ["d0", "d1", "d2", "other"]),
        InvalidFile,
        r"x\.jsonl:4: the document 'd3' has no vector: no row of .*v\.parquet has this id",
    ),
    (raw("v.parquet", b"nothing"), InvalidFile, "not Parquet, or damaged"),
    (not_utf8_names, InvalidFile, "the column names are not UTF-8"),
    (
        rows_of(a=lists(ONES, FLOATS), b=lists(ONES, FLOATS)),
        InvalidFile,
        "or 'vector', got 'a', 'b'",
    ),
    (
        rows_of(v=lists(ONES, FLOATS), id=["d0", None, "d1", "d2"]),
        InvalidFile,
        "row 1: field 'id': expected an id, got null",
    ),
    (
        rows_of(v=lists(ONES, FLOATS), id=[1.5] * 4),
        InvalidFile,
        "expected strings or integers as ids, got double",
    ),
    (
        rows_of(v=pa.array([[1, 2], [1, 2], [1], [1, 2]], FLOATS), id=IDS[:4]),
        InvalidFile,
        r"row 2 \(id 'd2'\): field 'v': expected 2 numbers, got 1",
    ),
    (
        rows_of(2, v=pa.array([[1, 2], [1, 2], [1, 2, 3], [1, 2, 3]], FLOATS)),
        InvalidFile,
        "row 2: expected 2 numbers, got 3",
    ),
    (
        rows_of(v=pa.array([[1, 2], None, [1, 2], [1, 2]], FLOATS)),
        InvalidFile,
        "row 1: field 'v': expected 2 numbers, got null",
    ),
    (
        rows_of(v=lists(np.ones((100, 2)), FLOATS), id=["x" * (1 << 20)] * 100),
        InvalidFile,
        r"[\d,]+ bytes unpack to 104,858,000 or more",
    ),
]


@pytest.mark.parametrize(("make", "error", "told"), MALFORMED)
def test_malformed_vectors(tmp_path: Path, make: Make, error: type[Exception], told: str) -> None:
    """The message names the file, and the row and id; nothing is added."""
    file = write_documents(tmp_path / "x.jsonl", 4)
    index = Index.create(tmp_path / "i", dim=2, **EXACT)
    given = make(tmp_path)
    with pytest.raises(error, match=told) as caught:
        index.load(file, BY_ID, vectors=given)
    if isinstance(given, Path):
        assert given.name in str(caught.value) or "x.jsonl" in str(caught.value)
    assert (len(index), index.manifest.load) == (0, None)


def test_positions_allow_nothing_to_be_left_out(tmp_path: Path) -> None:
    """A skipped row or a dropped document would give all later ones the vector of another."""
    file = tmp_path / "x.jsonl"
    file.write_text('{"id": "a", "text": "a"}\n{"id": "b"}\n{"id": "a", "text": "c"}\n')
    index = Index.create(tmp_path / "i", dim=2, **EXACT)
    with pytest.raises(InvalidFile, match=r"x\.jsonl:2: skipped row .*for each row"):
        index.load(file, vectors=np.ones((2, 2)), on_error="skip", field="text")
    with pytest.raises(VocabtoolError, match="on_duplicate='first' leaves documents out"):
        index.load(file, BY_ID, vectors=np.ones((3, 2)), on_duplicate="first")
    with pytest.raises(InvalidFile, match=r"texts:2: the document 'texts:2' has no vector"):
        index.load(iter(["a", "b"]), vectors=[[1, 1]])
    with pytest.raises(VocabtoolError, match="2 vectors for 1 documents"):
        index.load(iter(["a"]), vectors=[[1, 1], [2, 2]])
    assert len(index) == 0
    by_id = with_ids(tmp_path, [[1, 1], [2, 2], [3, 3]], ["a", "c", "e"])
    read = ReadOptions(id_field="id", on_error="skip", on_duplicate="first")
    report = index.load(file, read, vectors=by_id)
    assert report.notes == (f"{by_id}: 2 of 3 vectors belong to no document that was read",)
    assert index.snapshot().take(np.array([0])).tolist() == [[1, 1]]


def test_pieces_of_rows_are_counted(tmp_path: Path) -> None:
    """Each piece has a vector; too few are refused before a document is added."""
    text = "\n\n".join(f"# {letter}\n\n{letter}" for letter in "abc")
    file = table(tmp_path / "x.parquet", {"text": [text, text + "\n\n# d\n\nd"]})
    read, made = ReadOptions(split="heading"), some_vectors(7)
    index = Index.create_for(tmp_path / "i", file, read=read, vectors=made, **EXACT)
    with pytest.raises(VocabtoolError, match="2 vectors for 7 documents"):
        index.load(file, read, vectors=made[:2], commit_rows=1)
    assert index.load(file, read, vectors=made).added == 7
    assert np.array_equal(index.snapshot().take(np.arange(7)), made)


def test_one_source_of_vectors(tmp_path: Path) -> None:
    """Not two; formats without lists have none, and without vectors there must be a model."""
    file = write_documents(tmp_path / "x.jsonl", 2)
    index = Index.create(tmp_path / "i", dim=2)
    with pytest.raises(ValueError, match="cannot be combined with --vector-field"):
        index.load(file, vectors=np.ones((2, 2)), vector_field="v")
    with pytest.raises(ValueError, match="vector_field has one vector for each row"):
        index.load(file, vector_field="v", split="paragraph")
    (tmp_path / "x.csv").write_text("text,v\na,1\n")
    with pytest.raises(
        InvalidFile, match="needs Parquet, Arrow or JSON lines, got the format 'csv'"
    ):
        index.load(tmp_path / "x.csv", vector_field="v")
    with pytest.raises(VocabtoolError, match="--vectors FILE, --vector-field FIELD"):
        index.load(file)
    with pytest.raises(ValueError, match="--vectors or --vector-field"):
        Index.create_for(tmp_path / "j", file, read=BY_ID)
    with pytest.raises(NotFound, match="no document has a vector"):
        (tmp_path / "empty.jsonl").touch()
        read = ReadOptions(vector_field="v")
        Index.create_for(tmp_path / "j", tmp_path / "empty.jsonl", read=read)


def test_an_update_reads_vectors_that_are_named(tmp_path: Path) -> None:
    """By position, of all FILEs together, or by ids; none are remembered."""
    made = some_vectors(6, 2)
    files = [write_documents(tmp_path / "a.jsonl", 3), write_documents(tmp_path / "b.jsonl", 3, 3)]
    v = as_npy(tmp_path, made)
    index = Index.create_for(tmp_path / "i", files, read=BY_ID, vectors=v, **EXACT)
    index.load(files, BY_ID, vectors=v)
    for sources in (None, files[1]):
        with pytest.raises(VocabtoolError, match="--vectors FILE"):
            index.update(sources)
    with pytest.raises(VocabtoolError, match="6 vectors for 3 documents"):
        index.update(files[1], vectors=v)
    made[4] += 1
    np.save(v, made)
    assert counts(index.update(vectors=v, sync=True)) == (0, 1, 5, 0)
    write_documents(tmp_path / "b.jsonl", 2, 3)  # the last one is gone, and not its vector
    with pytest.raises(VocabtoolError, match="6 vectors for 5 documents"):
        index.update(files, vectors=v, sync=True)
    v = with_ids(tmp_path, made[[4, 3, 2, 1, 0]], ["d4", "d3", "d2", "d1", "d0"])
    assert index.update(files, vectors=v, sync=True).removed == 1
    assert index.update(files[1], vectors=v).unchanged == 2  # with ids, FILEs need not be together
    held = index.vectors([f"d{number}" for number in range(5)])
    assert np.array_equal([held[f"d{number}"] for number in range(5)], made[:5])


@pytest.mark.parametrize("how", ["npy", "parquet", "parquet with ids"])
def test_vectors_are_not_held_in_memory(tmp_path: Path, how: str) -> None:
    """Of 98 MB of vectors, a few batches: NumPy's arrays and Arrow's buffers together."""
    count, dim = 12_000, 2048
    made = np.random.default_rng(1).standard_normal((count, dim)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(made.ravel()), dim)
    given = tmp_path / "v.parquet"
    if how == "npy":
        given = as_npy(tmp_path, made)
    elif how == "parquet":
        table(given, {"v": column}, rows=count)
    else:
        table(given, {"v": column, "id": [f"d{number}" for number in range(count)]}, rows=count)
    file = write_documents(tmp_path / "x.jsonl", count)
    index = Index.create(tmp_path / "i", dim=dim, exact_below=count)
    del made, column
    before = pa.total_allocated_bytes()
    peaks = [(0, 0)]

    def progress(what: str, share: float) -> None:  # before the commit, which measures chance
        peaks.append((tracemalloc.get_traced_memory()[1], pa.total_allocated_bytes() - before))

    tracemalloc.start()
    index.load(file, BY_ID, vectors=given, progress=progress)
    tracemalloc.stop()
    assert len(index) == count
    assert sum(np.max(peaks, axis=0)) < 55_000_000


def given_letters(tmp_path: Path, prompt: str = "", **options: Any) -> tuple[Index, Path]:
    """An index of 20 documents whose vectors count the letters of the texts after a prompt."""
    texts = counted_letters.write_corpus(tmp_path / "x.jsonl", 20)
    made = counted_letters.encode([prompt + text for text in texts])
    v = as_npy(tmp_path, made)
    index = Index.create_for(
        tmp_path / "i", tmp_path / "x.jsonl", read=BY_ID, vectors=v, **{"metric": "l2", **options}
    )
    index.load(tmp_path / "x.jsonl", BY_ID, vectors=v)
    return index, v


def test_a_model_is_named_later(tmp_path: Path) -> None:
    """Its vectors agree with those of the documents; then it encodes queries and new documents."""
    index, _ = given_letters(tmp_path)
    assert not index.can_encode and index.encoder is None
    named = Index.open(index.path, LETTERS)
    assert named.can_encode
    hits = named.search("document 5 bbbbb", k=1, fusion="dense")
    assert scored(hits) == [("d5", 0.0)]
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write('{"id": "new", "text": "zab"}\n')
    assert named.update().added == 1
    assert scored(named.search("zab", k=1, fusion="dense")) == [("new", 0.0)]
    assert index.configuration.encoder is None  # named each time
    assert named.verify(model=True).encoded is not None


def test_another_model_is_refused(tmp_path: Path) -> None:
    """With the cosine, or with the dimensions; prompts belong to the model."""
    index, v = given_letters(tmp_path, "see: bbbb ", metric="cosine")
    with pytest.raises(OtherModel, match=r"with the stored one is 0\.9\d\d\d .*0\.999 or more"):
        Index.open(index.path, LETTERS).search("text")
    named = Index.open(index.path, LETTERS, prompt_document="see: bbbb ", prompt_query="q ")
    assert named.encoder is not None
    query = counted_letters.encode(["q text"])[0]
    stored = named.snapshot().take(np.arange(20))
    cosines = stored @ query / np.linalg.norm(query) / np.linalg.norm(stored, axis=1)
    hits = named.search("text", k=1, fusion="dense")
    assert ids(hits) == [f"d{cosines.argmax()}"]
    assert hits[0].score == pytest.approx(cosines.max(), abs=1e-3)
    with pytest.raises(OtherModel, match="vectors of 3 numbers, but the index needs 4"):
        Index.open(index.path, LETTERS, dim=3).search("text")
    told = run("search", index.path, "text", "--model", LETTERS)
    assert (told.returncode, b"with the stored one is" in told.stderr) == (3, True)

    # A model that is named at once is recorded; it must agree with the vectors, too.
    file = tmp_path / "x.jsonl"
    with pytest.raises(OtherModel, match="with the stored one is"):
        Index.create(tmp_path / "j", LETTERS).load(file, BY_ID, vectors=v)
    encoder = open_encoder(LETTERS, prompt_document="see: bbbb ")
    both = Index.create(tmp_path / "k", encoder)
    assert both.load(file, BY_ID, vectors=v).added == 20
    assert both.configuration.encoder == encoder.fingerprint


def test_a_model_that_fails_where_vectors_are_compared(tmp_path: Path) -> None:
    failures: list[str] = []

    def encode(texts: list[str]) -> Any:
        if failures:
            raise RuntimeError(failures[0])
        return counted_letters.encode(texts)

    made = counted_letters.encode(counted_letters.write_corpus(tmp_path / "x.jsonl", 3))
    index = Index.create(tmp_path / "i", encode, fingerprint="it fails")
    failures.append("no memory")
    with pytest.raises(OperatorFailed, match="d0 to d2: the model raised RuntimeError: no memory"):
        index.load(tmp_path / "x.jsonl", BY_ID, vectors=made)


def test_an_equal_text_gets_the_given_vector(tmp_path: Path) -> None:
    """The vector that agrees with the model's, not one that the model makes again."""
    made = counted_letters.encode(["ab"]) + np.float32(2**-6)
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "ab"}\n')
    index = Index.create(tmp_path / "i", LETTERS, **EXACT)
    index.load(tmp_path / "a.jsonl", vectors=made)
    index = Index.open(tmp_path / "i", LETTERS)
    assert index.update(tmp_path / "b.jsonl").added == 1
    assert np.array_equal(index.snapshot().take(np.arange(2)), made[[0, 0]])


def test_a_vector_of_the_query_from_a_file(tmp_path: Path) -> None:
    """A single one, or a row that is named; each kind of file; errors tell what to name."""
    made = some_vectors(3, 4)
    own = Index.create(tmp_path / "own", dim=4, **EXACT)
    own.load(write_documents(tmp_path / "y.jsonl", 3), BY_ID, vectors=made)

    def nearest(file: str | Path) -> list[tuple[str, float]]:
        return scored(own.search(vector=file, k=1, fusion="dense"))

    assert nearest(as_npy(tmp_path, made[1])) == [("d1", 0.0)]
    assert nearest(as_npy(tmp_path, made[:1])) == [("d0", 0.0)]
    file = as_npy(tmp_path, made)
    column = {"v": lists(made, FLOATS)}
    for path in (file, table(tmp_path / "v.pq", column)):
        for row in range(3):
            assert nearest(f"{path}#{row}") == [(f"d{row}", 0.0)]
        for name in (path, f"{path}#3"):
            with pytest.raises(VocabtoolError, match=r"it has 3 rows, name one: .*#0 to .*#2"):
                nearest(name)
    index, v = given_letters(tmp_path)
    done = run(
        "search", index.path, "nothing", "--vector", f"{v}#4", "-k", "1", "--fusion", "dense"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"x.jsonl" not in done.stdout and b"d4" in done.stdout
    for arguments, code, told in (
        (("text", "--vector", tmp_path / "none.npy"), 3, b"none.npy"),
        (("text", "--vector", v), 3, b"name one"),
        (("text", "--vector", f"{tmp_path / 'v.pq'}#0"), 0, b""),
        (("-", "--vector", f"{v}#0"), 2, b"for one QUERY"),
    ):
        done = run("search", index.path, *arguments)
        assert (done.returncode, told in done.stderr) == (code, True)
        assert b"Traceback" not in done.stderr
