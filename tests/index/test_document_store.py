"""The documents of an index on disk, compared with lists of what was added."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.documents.reading import batches
from vocabtool.documents import Document
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.index import document_writer
from vocabtool.index.document_columns import MOST_ROWS
from vocabtool.index.document_fields import Kind, of_texts
from vocabtool.index.document_files import BESIDE, DocumentFile
from vocabtool.index.document_rows import Items, decoded, document_rows, of_batch
from vocabtool.index.document_store import DocumentStore
from vocabtool.index.document_writer import DocumentWriter, remove_unlisted
from vocabtool.search.store import StoredDocument

Files = tuple[DocumentFile, ...]


def commit(folder: Path, documents: Items, files: Files = ()) -> Files:
    """The files after some documents were added to those that were there."""
    writer = DocumentWriter(folder, files)
    for rows in document_rows(documents, writer.next_row):
        writer.add(rows)
    return writer.finish()


def every(store: DocumentStore) -> list[StoredDocument]:
    """All documents."""
    return store.stored(np.arange(store.rows))


def store_of(folder: Path, *commits: Items) -> DocumentStore:
    """The store after some commits."""
    files: Files = ()
    for documents in commits:
        files = commit(folder, documents, files)
    return DocumentStore.open(folder, files)


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.lists(st.integers(0, 9), max_size=2)
)
DOCUMENTS = st.lists(
    st.builds(
        Document,
        st.text(max_size=5),
        st.text(max_size=20),
        st.dictionaries(st.sampled_from(["year", "a field", "ключ"]), VALUES),
    ),
    max_size=8,
)


def as_kept(value: Any, others: Sequence[Any]) -> Any:
    """What becomes of a value of a field among all values of that field."""
    kinds = {type(other) for other in others}
    alone = kinds <= {int, float} or len(kinds) == 1
    if isinstance(value, str):
        return value
    return value if alone and type(value) is not list else json.dumps(value, ensure_ascii=False)


def expected(documents: Sequence[Document]) -> list[StoredDocument]:
    """The documents as they come back: their fields by what all of one name have in common."""
    values: dict[str, list[Any]] = {}
    for document in documents:
        for name, value in document.fields.items():
            values.setdefault(name, []).extend([] if value is None else [value])
    found = []
    for document in documents:
        fields = {
            name: as_kept(value, values[name])
            for name, value in document.fields.items()
            if value is not None
        }
        found.append(StoredDocument(document.id, document.text, fields))
    return found


@given(commits=st.lists(DOCUMENTS, max_size=4), data=st.data())
@settings(max_examples=60)
def test_what_is_added_comes_back(commits: list[list[Document]], data: st.DataObject) -> None:
    """Rows come back by their numbers, whatever the commits; a field has one kind in all."""
    with TemporaryDirectory() as folder:
        store = store_of(Path(folder), *commits)
        wanted = expected([document for documents in commits for document in documents])
        assert store.rows == len(wanted)
        assert every(store) == wanted
        some = data.draw(st.lists(st.integers(0, len(wanted) - 1))) if wanted else []
        assert store.stored(np.array(some, np.int64)) == [wanted[row] for row in some]
        assert store.ids(np.array(some, np.int64)) == [wanted[row].id for row in some]
        start, stop = data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20)))
        texts = [text for block in store.texts(start, stop) for text in block.to_pylist()]
        assert texts == [each.text for each in wanted[start:stop]]
        ids = [id_ for block in store.all_ids() for id_ in block.to_pylist()]
        assert ids == [each.id for each in wanted]
        for name in store.fields:
            values = [each.fields.get(name) for each in wanted]
            if store.fields[name] == "number":
                values = [None if value is None else float(value) for value in values]
            assert store.column(name).to_pylist() == values
        store.verify()


def test_values_of_other_kinds_change_nothing_but_how_text_is_read(tmp_path: Path) -> None:
    """Numbers spelled as words of a later document need are still spelled as they came."""
    texts = ["1.10", "2.0", "7", None]
    of_file = batches([str(_jsonl(tmp_path, texts))], id_field="id", keep=["version"])
    writer = DocumentWriter(tmp_path)
    for batch in of_file:
        writer.add(of_batch(batch))
    files = writer.finish()
    store = DocumentStore.open(tmp_path, files)
    assert store.fields == {"version": "number"}
    assert [each.fields for each in every(store)] == [
        {"version": 1.1},
        {"version": 2.0},
        {"version": 7},
        {},
    ]
    assert store.column("version").to_pylist() == [1.1, 2.0, 7.0, None]
    later = commit(tmp_path, [Document("last", "", {"version": "1.2.3"})], files)
    store = DocumentStore.open(tmp_path, later)
    assert store.fields == {"version": "string"}
    assert store.column("version").to_pylist() == [*texts, "1.2.3"]


def _jsonl(folder: Path, versions: Sequence[str | None]) -> Path:
    file = folder / "corpus.jsonl"
    lines = [{"id": row, "text": "", "version": version} for row, version in enumerate(versions)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([], "null"),
        ([None, None], "null"),
        (["0", "-12", None, "9223372036854775807"], "integer"),
        (["9223372036854775808"], "number"),
        (["-9223372036854775808"], "integer"),
        (["1", "2.5"], "number"),
        (["2.50", "1e5", "-0.0"], "number"),
        (["true", None, "false"], "boolean"),
        (["true", "1"], "string"),
        (["007"], "string"),
        (["1", "007"], "string"),
        (["0x1F"], "string"),
        (["1."], "string"),
        (["+1"], "string"),
        (["1\n"], "string"),
        (["NaN"], "string"),
        (["1", "Infinity"], "string"),
        (["True"], "string"),
        ([""], "string"),
        (["en", "de"], "string"),
        (["[1]"], "string"),
    ],
)
def test_kinds_of_strings(texts: list[str | None], kind: Kind) -> None:
    """Strings are numbers where all of them are numbers of JSON, and true or false likewise."""
    assert of_texts(pa.array(texts, pa.string())).kind == kind


def test_tables(tmp_path: Path) -> None:
    """Tables of Arrow, pandas and Polars are documents; columns keep what they hold."""
    table = pa.table(
        {
            "text": pa.array(["a", "b"], pa.large_string()),
            "id": pa.array([7, 8]),
            "year": pa.array([2020, None], pa.int16()),
            "big": pa.array([1, (1 << 64) - 1], pa.uint64()),
            "score": pa.array([0.1, math.nan], pa.float32()),
            "open": pa.array([True, None]),
            "half": pa.array(np.array([0.5, math.nan], np.float16)),
            "exact": pa.array([Decimal("2.50"), None]),
            "code": pa.array([3, None]).dictionary_encode(),
            "lang": pa.array(["en", "de"]).dictionary_encode(),
            "day": pa.array([date(2020, 1, 2), None]),
            "tags": pa.array([["x"], []]),
            "nothing": pa.nulls(2),
        }
    )
    first: dict[str, Any] = {
        "year": 2020,
        "big": 1,
        "score": 0.1,
        "open": True,
        "half": 0.5,
        "exact": 2.5,
    }
    first |= {"code": 3, "lang": "en"}
    wanted = [
        StoredDocument("7", "a", {**first, "day": "2020-01-02", "tags": '["x"]'}),
        StoredDocument("8", "b", {"big": float((1 << 64) - 1), "lang": "de", "tags": "[]"}),
    ]
    assert every(store_of(tmp_path, table)) == wanted
    assert every(store_of(tmp_path, table.to_batches()[0])) == wanted
    assert every(store_of(tmp_path, table.to_reader())) == wanted
    plain = {"id": ["a"], "text": ["b"], "year": [1]}
    for frame in (pd.DataFrame(plain), pl.DataFrame(plain)):
        assert every(store_of(tmp_path, frame)) == [StoredDocument("a", "b", {"year": 1})]


def test_python_values(tmp_path: Path) -> None:
    """NumPy's numbers are numbers, what is not a number is null, times are text, texts have ids."""
    fields = {
        "whole": np.int32(3),
        "half": np.float32(0.5),
        "yes": np.bool_(True),
        "nan": math.nan,
        "when": datetime(2020, 1, 2, tzinfo=UTC),
        "map": {"a": [1]},
        "bytes": b"\xff",
        "none": None,
    }
    found = every(store_of(tmp_path, [{"id": 5, "text": "t", **fields}], ["u", "v"]))
    wanted = {"whole": 3, "half": 0.5, "yes": True, "when": "2020-01-02 00:00:00+00:00"}
    assert found == [
        StoredDocument("5", "t", {**wanted, "map": '{"a": [1]}', "bytes": "\udcff"}),
        StoredDocument("1", "u", {}),
        StoredDocument("2", "v", {}),
    ]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 come back as they stand in a string."""
    document = Document("\udcff", "a\udc80b", {"title": "\udcfe"})
    (rows,) = document_rows([document])
    assert decoded(rows.ids) + decoded(rows.texts) == ["\udcff", "a\udc80b"]
    assert every(store_of(tmp_path, [document])) == [StoredDocument(*_parts(document))]


def _parts(document: Document) -> tuple[str, str, Mapping[str, Any]]:
    return document.id, document.text, document.fields


def test_rows_that_are_chosen(tmp_path: Path) -> None:
    """Of a batch some rows are added, with their fields."""
    (rows,) = document_rows([{"id": n, "text": "t", "square": n * n} for n in range(4)])
    writer = DocumentWriter(tmp_path)
    writer.add(rows.only(np.array([False, True, False, True])))
    found = every(DocumentStore.open(tmp_path, writer.finish()))
    assert found == [
        StoredDocument("1", "t", {"square": 1}),
        StoredDocument("3", "t", {"square": 9}),
    ]


def test_documents_are_taken_lazily() -> None:
    """Of an endless iterable no item is taken beyond the batch that is given out."""
    taken = []

    def endless() -> Iterator[str]:
        for number in count():
            taken.append(number)
            yield "x" * 10

    found = document_rows(endless())
    assert [next(found).rows, next(found).rows] == [MOST_ROWS] * 2
    assert len(taken) == 2 * MOST_ROWS


def test_batches_are_bounded_in_bytes() -> None:
    """Batches end at 4 MB: of texts from Python, of texts and ids from tables never more."""
    texts = ["x" * (1 << 20)] * 10
    assert [rows.rows for rows in document_rows(iter(texts))] == [4, 4, 2]
    table = pa.table({"id": [*map(str, range(10))], "text": texts})
    assert [rows.rows for rows in document_rows(table)] == [3, 3, 3, 1]


NESTED: list[Any] = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ("text", "documents: wanted an iterable of documents, mappings or texts, or a table"),
        ({"id": "a"}, "documents: wanted an iterable"),
        (7, "got int"),
        (["a", 7], "documents: element 1: wanted a Document, a mapping with id and text"),
        ([{"id": "a", "body": "b"}], "element 0: no field 'text'; the fields are 'id', 'body'"),
        ([{"text": "b"}], "element 0: no field 'id'"),
        ([{"id": 1.5, "text": "b"}], "a string or a whole number for the id, got float"),
        ([{"id": True, "text": "b"}], "got bool"),
        ([{"id": "a", "text": None}], "field 'text': wanted a string, got NoneType"),
        ([{"id": "a", "text": "b", 3: 1}], "wanted a name for each field, got 3"),
        ([{"id": "a", "text": "b", "": 1}], "wanted a name for each field"),
        ([{"id": "a", "text": "b", "x" * 257: 1}], "a field's name is of at most 256"),
        ([Document("a", "b", {"id": "c"})], "a field 'id' beside the document's own id 'a'"),
        ([Document("a" * 40_000, "b")], "an id of 40,000 bytes"),
        ([{"id": "a", "text": "b", **{f"f{n}": 1 for n in range(257)}}], "more than 256 fields"),
        (["a", {"id": "a", "text": "b", "f": NESTED}], "elements 0 to 1: field 'f': no JSON"),
        (pa.table({"id": ["a"]}), "wanted one column 'text', got 'id'"),
        (pa.table({"id": ["a"], "text": [1]}), "column 'text': wanted strings, got int64"),
        (pa.table({"id": [0.5], "text": ["a"]}), "column 'id': wanted strings, got double"),
        (pa.table({"id": ["a", None], "text": ["b", "c"]}), "element 1: wanted a string for 'id'"),
        (pa.table({"id": ["a" * 40_000], "text": ["b"]}), "'id' of 40,000 bytes"),
    ],
)
def test_what_is_no_document(items: Any, what: str) -> None:
    """What is no document is refused, with its place."""
    with pytest.raises(ValueError, match=what.replace("(", r"\(")):
        list(document_rows(items))


def test_fields_of_the_pipeline_may_not_be_called_as_the_documents_own(tmp_path: Path) -> None:
    """A kept field ``id`` is refused: a condition could not tell it from the document's id."""
    (batch,) = batches([str(_jsonl(tmp_path, ["1"]))], keep=["id"])
    with pytest.raises(ValueError, match="the name 'id' is taken by the document's own id"):
        of_batch(batch)


def test_too_many_fields_in_all(tmp_path: Path) -> None:
    """An index has at most 256 fields; the documents with more are not taken."""
    writer = DocumentWriter(tmp_path)
    for first in (0, 200):
        fields = {f"f{number}": 1 for number in range(first, first + 200)}
        (rows,) = document_rows([Document("a", "b", fields)])
        if first:
            with pytest.raises(VocabtoolError, match="at most 256 fields in all, got 400"):
                writer.add(rows)
        else:
            writer.add(rows)
    assert [file.rows for file in writer.finish()] == [1]


def test_many_small_commits(tmp_path: Path) -> None:
    """They leave a few files; every row is there, and readers of any commit go on reading."""
    files: Files = ()
    readers = []
    for number in range(400):
        documents = [Document(f"{number}-{row}", "x" * 500, {"row": row}) for row in range(10)]
        files = commit(tmp_path, documents, files)
        if number % 100 == 0:
            readers.append(DocumentStore.open(tmp_path, files))
        remove_unlisted(tmp_path, files)
        assert len(files) <= 4
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(each.name for each in files)
    names = [f"{number}-{row}" for number in range(400) for row in range(10)]
    for store in (*readers, DocumentStore.open(tmp_path, files)):
        found = every(store)
        assert [each.id for each in found] == names[: store.rows]
        assert [each.fields["row"] for each in found] == [*range(10)] * (store.rows // 10)
    assert [store.rows for store in readers] == [10, 1010, 2010, 3010]


def test_merging_copies_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of n commits of one size the files double in size, and large ones stay as they are."""
    monkeypatch.setattr(document_writer, "ALWAYS_MERGED", 0)
    monkeypatch.setattr(document_writer, "MOST_MERGED", 40_000)
    files: Files = ()
    written = 0
    for number in range(64):
        before = files
        files = commit(tmp_path, [Document(str(number), "x" * 2000)], files)
        written += sum(file.size for file in files if file not in before)
    assert max(file.size for file in files) < 40_000
    assert written < 6 * sum(file.size for file in files)
    assert every(DocumentStore.open(tmp_path, files))[63].id == "63"


def test_files_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is large enough is followed by another; rows are numbered on."""
    monkeypatch.setattr(document_writer, "FILE_BYTES", 5 << 20)
    store = store_of(tmp_path, [Document(str(row), "x" * (1 << 20)) for row in range(30)])
    assert [file.facts.rows for file in store._files] == [8, 8, 8, 6]
    assert [each.id for each in every(store)] == [*map(str, range(30))]


def test_what_a_killed_writer_leaves(tmp_path: Path) -> None:
    """Files of no commit change nothing, and are removed; other files stay."""
    files = commit(tmp_path, ["a", "b"])
    commit(tmp_path, ["lost"], files)
    (tmp_path / BESIDE).write_bytes(b"half")
    (tmp_path / "manifest.json").write_bytes(b"{}")
    assert [each.text for each in every(DocumentStore.open(tmp_path, files))] == ["a", "b"]
    assert remove_unlisted(tmp_path, files) == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == [files[0].name, "manifest.json"]


def test_a_writer_that_is_closed_leaves_nothing(tmp_path: Path) -> None:
    """What was added and not finished is gone, whether it was written already or not."""
    writer = DocumentWriter(tmp_path)
    for rows in document_rows(["x" * (5 << 20)]):
        writer.add(rows)
    assert (tmp_path / BESIDE).exists()
    writer.close()
    assert [*tmp_path.iterdir()] == []


def test_nothing_added(tmp_path: Path) -> None:
    """A commit of nothing has the files of before, and an empty store answers."""
    assert commit(tmp_path, []) == ()
    store = DocumentStore.open(tmp_path, ())
    assert (store.rows, every(store), store.fields, [*store.texts()]) == (0, [], {}, [])
    assert store.column("id").to_pylist() == []
    files = commit(tmp_path, ["a"])
    assert commit(tmp_path, [], files) == files


def test_rows_and_fields_that_are_not_there(tmp_path: Path) -> None:
    """A row beyond the last, or before the first, is an error of the caller; so is a name."""
    store = store_of(tmp_path, ["a"])
    for row in (1, -1):
        with pytest.raises(IndexError, match=f"row {row} of 1"):
            store.ids(np.array([row]))
    with pytest.raises(KeyError, match="year"):
        store.column("year")


def test_open_files_are_shared(tmp_path: Path) -> None:
    """A store opened beside an earlier one maps only the files that are new."""
    files = commit(tmp_path, ["x" * (3 << 20)])
    earlier = DocumentStore.open(tmp_path, files)
    more = commit(tmp_path, ["b"], files)
    later = DocumentStore.open(tmp_path, more, earlier)
    assert len(more) == 2
    assert later._files[0] is earlier._files[0]
    assert [each.id for each in every(later)] == ["0", "1"]


@pytest.mark.parametrize("damage", ["cut", "longer", "other rows", "other fields", "words", "gone"])
def test_damaged_files_are_named(tmp_path: Path, damage: str) -> None:
    """A file that is not what was committed is named when it is opened."""
    (file,) = commit(tmp_path, [Document("a", "b", {"year": 1})])
    path = tmp_path / file.name
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[:-1])
        case "longer":
            path.write_bytes(data + b"x")
        case "other rows":
            path.rename(tmp_path / file._replace(rows=2).name)
            file = file._replace(rows=2)
        case "other fields":
            file = file._replace(fields={"month": "integer"})
        case "words":
            path.write_bytes(b"x" * len(data))
        case "gone":
            path.unlink()
    error = NotFound if damage == "gone" else InvalidFile
    with pytest.raises(error) as raised:
        DocumentStore.open(tmp_path, [file])
    assert str(tmp_path / file.name) in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": 1},
        {"first": "../../etc"},
        {"rows": 0},
        {"rows": -1},
        {"rows": True},
        {"size": 1 << 70},
        {"fields": []},
        {"fields": {"year": "date"}},
        {"fields": {"year": []}},
        {"fields": {"id": "string"}},
        {"fields": {7: "string"}},
    ],
)
def test_hostile_facts(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """Facts that no writer gave are refused before any file is looked for."""
    (file,) = commit(tmp_path, ["a"])
    with pytest.raises(InvalidFile):
        DocumentStore.open(tmp_path, [file._replace(**wrong)])


@given(flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=3))
@settings(max_examples=300)
def test_flipped_bytes(damaged: tuple[Path, DocumentFile, bytes], flips: list[Any]) -> None:
    """Whatever byte of a file is changed, ``verify`` says so, and reading raises nothing else."""
    folder, file, data = damaged
    changed = bytearray(data)
    for where, flip in flips:
        changed[min(int(where * len(data)), len(data) - 1)] ^= flip
    (folder / file.name).write_bytes(changed)
    if changed == data:
        return
    try:
        store = DocumentStore.open(folder, [file])
    except InvalidFile as error:
        assert file.name in str(error)
        return
    for read in (lambda: every(store), lambda: store.column("year"), lambda: store.column("text")):
        try:
            read()
        except InvalidFile as error:
            assert file.name in str(error)
    with pytest.raises(InvalidFile, match="CRC-32C"):
        store.verify()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DocumentFile, bytes]:
    """A folder, its one file, and what is in it before it is damaged."""
    folder = tmp_path_factory.mktemp("damaged")
    documents = [Document(f"é{n}", "t" * n, {"year": n} if n % 3 else {}) for n in range(20)]
    (file,) = commit(folder, documents)
    return folder, file, (folder / file.name).read_bytes()


def test_damage_is_not_merged(tmp_path: Path) -> None:
    """A damaged file is not copied into another under a new checksum."""
    files = commit(tmp_path, ["abcdefgh"])
    path = tmp_path / files[0].name
    path.write_bytes(path.read_bytes().replace(b"abcdefgh", b"abcdefgX"))
    writer = DocumentWriter(tmp_path, files)
    (rows,) = document_rows(["b"], 1)
    writer.add(rows)
    with pytest.raises(InvalidFile, match="CRC-32C"):
        writer.finish()
    writer.close()
    shutil.rmtree(tmp_path)
