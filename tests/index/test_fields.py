"""Several searched fields with weights: read, joined, scored by BM25F, recorded and refused."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests import counted_letters
from tests.builders.small_indexes import contents, ids, write_rows
from tests.cli.running import run
from tests.documents.reading import batches, ids_of
from vocabtool import Index, VocabtoolError, embed, stream
from vocabtool.documents import ReadLog, ReadOptions
from vocabtool.errors import InvalidFile

ROWS = [
    {"id": "a", "title": "fox", "body": "red cat dog"},
    {"id": "b", "title": "dog cat", "body": "fox red fox owl"},
    {"id": "c", "body": "owl"},
    {"id": "d", "title": "red"},
    {"id": "e", "title": "2020", "body": ""},
]
FIELDS = ("title^3", "body")


def write(path: Path, rows: Sequence[dict[str, Any]] = ROWS) -> str:
    return str(write_rows(path, rows))


def made(path: Path, rows: Sequence[dict[str, Any]] = ROWS, **read: Any) -> Index:
    """An index of these rows in a file beside it."""
    index = Index.create(path, counted_letters.encode, language="none")
    asked = {"field": FIELDS, "id_field": "id", **read}
    index.load(write(path.with_suffix(".jsonl"), rows), **asked)
    return index


def by_hand(word: str, weights: dict[str, int], rows: Sequence[dict[str, Any]] = ROWS) -> Any:
    """BM25F: weighted frequencies and lengths, then idf tf (k1 + 1) / (tf + k1 (1 - b + b l))."""
    tfs, lengths, held = dict[str, int](), dict[str, int](), 0
    for row in rows:
        words = {name: row.get(name, "").split() for name in weights}
        tfs[row["id"]] = sum(w * words[name].count(word) for name, w in weights.items())
        lengths[row["id"]] = sum(w * len(words[name]) for name, w in weights.items())
        held += tfs[row["id"]] > 0
    mean = sum(lengths.values()) / len(rows)
    idf = log(1 + (len(rows) - held + 0.5) / (held + 0.5))
    return pytest.approx(
        {
            id_: idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * lengths[id_] / mean))
            for id_, tf in tfs.items()
            if tf
        },
        rel=2e-5,
    )


def bm25(index: Index, word: str) -> dict[str, float | None]:
    return {hit.id: hit.bm25 for hit in index.search(word, fusion="keyword")}


def assert_weighted(index: Index) -> None:
    for word in ("fox", "cat", "red", "owl", "dog", "2020"):
        assert bm25(index, word) == by_hand(word, {"title": 3, "body": 1})
    assert index.manifest.searched_fields == FIELDS
    assert index.manifest.fields == {"title": "string", "body": "string"}


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    """Also after a change by `sync`, a compaction, a copy, and what export wrote."""
    path = tmp_path / "index"
    index = made(path)
    assert_weighted(index)
    assert index.manifest.words == 3 * 5 + 8
    assert index.stats().searched_fields == FIELDS
    old = [*ROWS[1:], {"id": "a", "title": "fox", "body": "gone"}, {"id": "g", "body": "gone"}]
    index.update(write(path.with_suffix(".jsonl"), old), sync=True)
    index.update(write(path.with_suffix(".jsonl"), ROWS), sync=True)
    assert {*contents(index)} == {*"abcde"}
    index.compact()
    assert_weighted(index)
    copied = index.copy(tmp_path / "copy")
    assert_weighted(copied)
    copied.verify()
    for ending in ("jsonl", "parquet"):
        index.export(tmp_path / f"out.{ending}")
        again = Index.create(tmp_path / ending, counted_letters.encode, language="none")
        again.load(str(tmp_path / f"out.{ending}"), field=FIELDS, id_field="id")
        assert_weighted(again)
        assert contents(again) == contents(index)


def test_the_text_may_come_first(tmp_path: Path) -> None:
    """Where a row lacks it, its title has its weight, and `export` writes no text."""
    fields, rows = ("text", "title^2"), [{"id": "a", "title": "fox"}, {"id": "b", "text": "fox"}]
    index = made(tmp_path / "index", rows, field=fields)
    assert bm25(index, "fox") == by_hand("fox", {"title": 2, "text": 1}, rows)
    index.export(tmp_path / "out.jsonl")
    again = Index.create(tmp_path / "again", counted_letters.encode)
    again.load(str(tmp_path / "out.jsonl"), field=fields, id_field="id")
    assert [each.text for each in again.documents()] == ["fox", "fox"]


def test_the_vector_is_of_the_joined_text(tmp_path: Path) -> None:
    """Empty fields leave no blank lines; numbers that are spelled in a field stay strings."""
    index = made(tmp_path / "index")
    texts = [each.text for each in index.documents()]
    assert texts == ["fox\n\nred cat dog", "dog cat\n\nfox red fox owl", "owl", "red", "2020"]
    vectors = counted_letters.encode(texts)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    raw = index.snapshot().take(np.arange(5))
    assert np.allclose(raw, unit, atol=1e-3)
    assert ids(index.search(where="title = '2020'")) == ["e"]


def test_no_phrase_crosses_a_repetition(tmp_path: Path) -> None:
    """`fox fox` would be one if the title stood twice in a row; so would `dog` and `red`."""
    rows = [{"id": "a", "title": "fox", "body": "red dog"}, {"id": "b", "title": "x", "body": "y"}]
    index = made(tmp_path / "index", rows)
    for phrase, found in (("fox fox", []), ("dog fox", []), ("red dog", ["a"]), ("fox", ["a"])):
        assert ids(index.search(f'"{phrase}"', fusion="keyword")) == found


WORD = st.sampled_from(["fox", "Fox-2", "parseHttp", "the", "é", "京都"])
TEXTS = st.lists(st.lists(WORD, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=5)


@settings(max_examples=10, deadline=None)
@given(texts=TEXTS)
def test_weights_of_1_change_no_score(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One field alone, and two of which one is empty, are the index of today."""
    folder = tmp_path_factory.mktemp("indexes")
    rows = [{"id": f"{at}", "body": text} for at, text in enumerate(texts)]
    one = made(folder / "one", rows, field="body")
    same = made(folder / "same", rows, field=["body"])
    two = made(folder / "two", rows, field=["title", "body"])
    assert (one.manifest.searched_fields, same.manifest.searched_fields) == ((), ())
    assert one.manifest.fields == same.manifest.fields == {}
    assert two.manifest.words == one.manifest.words
    for word in ("fox", "2", "http", "é", "京都"):
        assert bm25(one, word) == bm25(same, word) == bm25(two, word)


def test_files_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Title and path count with each piece; headings stand only there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\nAbout.\n\n## Install\n\napt guide\n")
    (tmp_path / "docs" / "notes.txt").write_text("one line\n")
    index = Index.create("index", counted_letters.encode)
    index.load("docs", field=("title^2", "path", "text"))
    texts = {id_: each.text for id_, each in contents(index).items()}
    assert texts == {
        "docs/guide.md#Guide": "Guide\n\nGuide\n\nAbout.",
        "docs/guide.md#Guide > Install": "Guide\n\nGuide > Install\n\napt guide",
        "docs/notes.txt": "notes\n\none line",
    }
    index.export("out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert rows[1]["text"] == "apt guide"
    again = Index.create("again", counted_letters.encode)
    again.load("out.jsonl", field=("title^2", "path", "text"), id_field="id")
    assert contents(again) == contents(index)
    assert index.update(sync=True).unchanged == 3
    for name in ("source", "line", "start", "end"):
        with pytest.raises(InvalidFile, match=f"'{name}' tells where a piece is from"):
            ids_of(batches("docs/guide.md", field=(name, "text")))
    with pytest.raises(InvalidFile, match="has no field 'title'"):
        ids_of(batches("docs/guide.md", field=("title", "body")))
    with pytest.raises(InvalidFile, match="text lines have no field 'title'"):
        ids_of(batches("docs/notes.txt", field=("title", "body")))


def test_other_fields_are_refused(tmp_path: Path) -> None:
    """The message has both; after it the index is as it was."""
    index = made(tmp_path / "index")
    more = write(tmp_path / "more.jsonl", [{"id": "m", "title": "new", "body": "new", "text": ""}])
    for field, told in (
        (("title^2", "body"), "title^2 and body"),
        (("body", "title^3"), "body and title^3"),
        ("body", "one field"),
        (None, "one field"),
    ):
        with pytest.raises(
            VocabtoolError,
            match=rf"searches title\^3 and body, not {told.replace('^', '.')}\. Use --field tit",
        ):
            index.load(more, field=field, id_field="id")
    assert_weighted(Index.open(tmp_path / "index", counted_letters.encode))
    assert index.load(more, field=FIELDS, id_field="id").added == 1
    plain = made(tmp_path / "plain", ROWS[:2], field="body")
    with pytest.raises(VocabtoolError, match=r"searches one field, not title\^3 and body"):
        plain.load(more, field=FIELDS, id_field="id", on_existing="update")
    assert plain.load(more, field="title", id_field="id").added == 1


@pytest.mark.parametrize(
    ("field", "told"),
    [
        (("title^0", "body"), "whole number from 1 to 9, got 'title^0'"),
        (("", "body"), "got ''"),
        ((1, "body"), "a list of strings or None, got 1"),
        (5, "a string or a list of strings or None, got 5"),
        (("a", "a^2"), "only once, got 'a' again"),
    ],
)
def test_no_weights(field: Any, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        ReadOptions(field=field)
    assert told in str(caught.value)
    assert ReadOptions(field=["cost^2"]).field == "cost^2"  # of a single field it is the name


def test_a_weight_only_in_an_index(tmp_path: Path) -> None:
    """`embed` and `stream` join fields, and say why a weight is refused."""
    rows = write(tmp_path / "rows.jsonl")
    assert next(each.text for each in stream(rows, field=["title", "body"])) == "fox\n\nred cat dog"
    for act in (
        lambda: stream(rows, field=FIELDS),
        lambda: embed(rows, counted_letters.encode, tmp_path / "out", field=FIELDS),
    ):
        with pytest.raises(ValueError, match=r"use 'title' instead of 'title\^3'"):
            act()
    asked: Any = {"field": ["title", "body"], "id_field": "id"}
    embed(rows, counted_letters.encode, tmp_path / "out", **asked)
    index = Index.create(tmp_path / "index", counted_letters.encode, language="none")
    with pytest.raises(
        VocabtoolError, match="embedded from the field title and body, not from body "
    ):
        index.load(str(tmp_path / "out"), field=("body", "title"))
    index.load(str(tmp_path / "out"), field=FIELDS)
    assert_weighted(index)


def test_rows_of_several_fields_are_not_split(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl")
    told = "split='paragraph' cuts only rows with one text field, got title and body"
    with pytest.raises(InvalidFile, match=told):
        ids_of(batches(rows, field=("title", "body"), split="paragraph"))


def test_rows_without_any_field(tmp_path: Path) -> None:
    """Nulls are no fields; another type is refused as in the only field."""
    bad: list[dict[str, Any]] = [
        *({"title": None, "body": None}, {"x": "a"}, {"title": 5}, {"title": "", "body": None})
    ]
    read: Any = {"field": ("title", "body"), "on_error": "skip"}
    counts = ReadLog()
    found = [*batches(write(tmp_path / "bad.jsonl", bad), log=counts, **read)]
    assert [text.as_py() for batch in found for text in batch.texts] == [""]
    assert [each.reason for each in counts.skipped.first] == [
        "none of the fields 'title', 'body'; the fields are 'title', 'body'",
        "none of the fields 'title', 'body'; the fields are 'x'",
        "field 'title': expected a string, got a number",
    ]
    table = pa.table({"title": ["a", None, None, ""], "body": ["b", "c", None, ""]})
    parquet.write_table(table, tmp_path / "t.parquet")
    counts = ReadLog()
    found = [*batches(str(tmp_path / "t.parquet"), log=counts, **read)]
    assert [text.as_py() for batch in found for text in batch.texts] == ["a\n\nb", "c", ""]
    assert [each.reason for each in counts.skipped.first] == [
        "field 'title and body': expected a string, got null"
    ]


def test_commands(tmp_path: Path) -> None:
    """`index`, `search`, `export`, `stats` and a settings file; what is wrong is told at once."""
    write(tmp_path / "rows.jsonl")
    np.save(tmp_path / "v.npy", np.ones((5, 2), np.float32))

    def told(*arguments: str, code: int = 0) -> str:
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done.stdout.decode() + done.stderr.decode()

    fields = ("--field", "title^3", "--field", "body")
    index = ("index", "rows.jsonl", "-o", "index", "--id-field", "id", "--vectors", "v.npy")
    assert "title^3 and body are searched together" in told(*index, "--language", "none", *fields)
    assert_weighted(Index.open(tmp_path / "index"))
    assert "    [fox] red cat dog" in told("search", "index", "fox", "--explain")
    assert "title^3 and body" in told("stats", "index")
    assert "--id-field id --field 'title^3' --field body\n" in told(
        "export", "index", "-o", "e.jsonl"
    )
    assert "from 1 to 9, got 'title^x'" in told(*index, *fields[2:], "--field", "title^x", code=2)
    assert "use 'title' instead of 'title^3'" in told("oov", "v.npy", "rows.jsonl", *fields, code=2)
    shutil.rmtree(tmp_path / "index")
    written = (
        '[index.x]\nfolder = "index"\nfiles = ["rows.jsonl"]\nid-field = "id"\nlanguage = "none"\n'
    )
    written += 'vectors = "v.npy"\nfield = ["title^3", "{}"]\n'
    (tmp_path / "vocabtool.toml").write_text(written.format("body^12"))
    assert "field: wanted NAME or NAME^W" in told("index", "x", code=2)
    (tmp_path / "vocabtool.toml").write_text(written.format("body"))
    told("index", "x", "--quiet")
    assert_weighted(Index.open(tmp_path / "index"))


BIG = (2**64 - 1, 2**64 - 2, -(2**63) - 1, 10**20, 10**400)


@pytest.mark.parametrize("way", ["python", "arrow", "jsonl", "json", "csv"])
def test_whole_numbers_of_more_than_64_bits_are_exact(tmp_path: Path, way: str) -> None:
    """They are texts, so two hashes stay two; a number that is exact as it is stays a number."""
    numbers = BIG[:2] if way == "arrow" else BIG
    rows: list[dict[str, Any]] = [
        {"id": str(at), "text": "x", "big": number, "exact": 2**64, "small": 2**63 - 1}
        for at, number in enumerate(numbers)
    ]
    index = Index.create(tmp_path / "index", dim=1)
    source: Any = rows
    if way == "arrow":
        kinds = {"id": pa.string(), "text": pa.string(), "big": pa.uint64(), "exact": pa.float64()}
        rows = [row | {"exact": float(2**64)} for row in rows]
        source = pa.Table.from_pylist(rows, pa.schema({**kinds, "small": pa.int64()}))
    elif way != "python":
        source = tmp_path / f"rows.{way}"
        with source.open("w") as file:
            if way == "csv":
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
            elif way == "json":
                json.dump(rows, file)
            else:
                file.writelines(f"{json.dumps(row)}\n" for row in rows)
    if way in ("python", "arrow"):
        with index.writer() as opened:
            opened.add(source, np.ones((len(numbers), 1)))
    else:
        np.save(tmp_path / "vectors.npy", np.ones((len(numbers), 1)))
        keep = ["big", "exact", "small"]
        index.load(source, id_field="id", keep=keep, vectors=tmp_path / "vectors.npy")
    found = [each.fields for each in index.documents()]
    assert [each["big"] for each in found] == [*map(str, numbers)]
    assert {each["exact"] for each in found} == {2**64}
    assert {each["small"] for each in found} == {2**63 - 1}
    hits = index.search(where=f"big = '{2**64 - 2}'")
    assert [hit.id for hit in hits] == ["1"]


def test_a_whole_number_that_does_not_fit_its_field_is_refused_with_the_row(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", dim=1)
    for number in (1, 2.5):
        with index.writer() as writer:
            writer.add([{"id": str(number), "text": "x", "n": number}], [[1.0]])
        refused = pytest.raises(VocabtoolError, match=r"document 'b': .*'n'.*18446744073709551615")
        with refused, index.writer() as writer:
            rows = [{"id": "a", "text": "x", "n": 3}, {"id": "b", "text": "x", "n": 2**64 - 1}]
            writer.add(rows, [[1.0], [1.0]])
