"""Tables of Arrow, pandas, Polars and DuckDB: loaded into an index, and made of hits."""

# own process: Polars, DuckDB

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pytest

from tests.builders.small_indexes import contents, made, temporary_folder, vector
from vocabtool import Document, Index, InvalidFile, stream

duckdb: Any = pytest.importorskip("duckdb", reason="its tables are loaded")
pl: Any = pytest.importorskip("polars", reason="its tables are loaded")

ROWS: Final = pa.table(
    {
        "key": [3, 1, 2],
        "body": ["amber birch", "cedar SKU-1", "naïve grove"],
        "year": pa.array([2019, None, 2021], pa.int64()),
        "good": [True, False, None],
        "tags": [["x"], [], ["y", "z"]],
        "v": pa.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]], pa.list_(pa.float32())),
    }
)
DOCUMENTS: Final = {
    "3": Document("3", "amber birch", {"year": 2019, "good": True, "tags": '["x"]'}),
    "1": Document("1", "cedar SKU-1", {"good": False, "tags": "[]"}),
    "2": Document("2", "naïve grove", {"year": 2021, "tags": '["y", "z"]'}),
}
OPTIONS: Final[Any] = {
    "field": "body",
    "id_field": "key",
    "keep": ("year", "good", "tags"),
    "vector_field": "v",
}


class OnlyAStream:
    """What a library unknown to us may hand over."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return ROWS.__arrow_c_stream__(requested_schema)


def relation() -> Any:
    held = duckdb.connect()
    held.register("held", ROWS)
    return held.sql("SELECT * FROM held")


TABLES: Final[dict[str, Callable[[], Any]]] = {
    "arrow table": lambda: ROWS,
    "arrow batch": lambda: ROWS.to_batches()[0],
    "arrow reader": ROWS.to_reader,
    "pandas": lambda: ROWS.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
    "polars": lambda: pl.from_arrow(ROWS),
    "polars, lazy": lambda: pl.DataFrame(pl.from_arrow(ROWS)).lazy(),
    "duckdb": relation,
    "stream": OnlyAStream,
    "two tables": lambda: [ROWS.slice(0, 1), pl.DataFrame(pl.from_arrow(ROWS.slice(1))).lazy()],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_gives_the_same_documents(table: Callable[[], Any]) -> None:
    """To an index, and as a stream."""
    with temporary_folder() as folder:
        index = Index.create(Path(folder, "index"), dim=2)
        assert index.load(table(), **OPTIONS).added == 3
        assert contents(index) == DOCUMENTS
        hits = index.search(vector=[4, 3], where="year is not null", fusion="dense")
        assert [(hit.id, round(hit.similarity or 0, 3)) for hit in hits] == [
            ("2", 0.96),
            ("3", 0.8),
        ]
        again = index.load(table(), on_existing="update", **OPTIONS)
        assert (again.added, again.updated, again.unchanged) == (0, 0, 3)
    streamed = stream(table(), field="body", id_field="key")
    assert [(row.id, row.text, row.fields["year"], row.fields["tags"]) for row in streamed] == [
        ("3", "amber birch", 2019, ["x"]),
        ("1", "cedar SKU-1", None, []),
        ("2", "naïve grove", 2021, ["y", "z"]),
    ]


@pytest.mark.parametrize("series", [pd.Series, pl.Series])
def test_a_column_alone_is_a_sequence_of_texts(series: Callable[[list[str]], Any]) -> None:
    found = stream(series(["a", "b"]))
    assert [(each.id, each.text) for each in found] == [("texts:1", "a"), ("texts:2", "b")]


def test_rows_without_an_id_field_are_named_by_place_and_may_bring_vectors_beside() -> None:
    with temporary_folder() as folder:
        index = Index.create(Path(folder, "index"), dim=2)
        index.load(ROWS, field="body", vectors=[[1, 0], [0, 1], [3, 4]])
        assert {id_: each.text for id_, each in contents(index).items()} == {
            "texts:1": "amber birch",
            "texts:2": "cedar SKU-1",
            "texts:3": "naïve grove",
        }
        assert [hit.id for hit in index.search(vector=[0, 2], k=1)] == ["texts:2"]


LATE: Final = "SELECT if(range < 3000, 'x', error('lost')) AS t FROM range(5000)"
WRONG: Final[dict[str, tuple[Any, str, str]]] = {
    "no such column": (ROWS, "none", "no field 'none'; the fields are 'key', 'body'"),
    "no text": (ROWS, "year", "field 'year': expected strings, got int64"),
    "null": (pa.table({"t": ["a", None]}), "t", "texts:2: field 't': expected a string, got null"),
    "mixed": (pd.DataFrame({"t": [1, "x", {}]}), "t", "texts: the table cannot be read: .*'x'"),
    "query": (duckdb.sql(LATE), "t", "texts: the table cannot be read: .*lost"),
}


@pytest.mark.parametrize(("table", "field", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused(table: Any, field: str, message: str) -> None:
    with temporary_folder() as folder:
        index = Index.create(Path(folder, "index"), dim=2)
        with pytest.raises(InvalidFile, match=message):
            index.load(table, field=field, vectors=[[0, 1]] * 5000)
        assert len(index) == 0


# Hits.


def typed(table: pa.Table) -> dict[str, str]:
    return {field.name: str(field.type) for field in table.schema}


PLAIN: Final = {
    **{"id": "string", "score": "double", "tier": "int64", "similarity": "double"},
    **{"bm25": "double", "text": "string", "n": "int64", "even": "bool"},
}


def test_hits_as_a_table() -> None:
    with temporary_folder() as folder:
        index = made(Path(folder, "index"))
        hits = index.search("SKU-10005 amber", vector=vector(3), k=4)
        table = hits.to_arrow()
        assert typed(table) == PLAIN
        assert table.to_pylist() == [
            {
                **{"id": hit.id, "score": hit.score, "tier": hit.tier, "text": hit.text},
                **{"similarity": hit.similarity, "bm25": hit.bm25, **hit.fields},
            }
            for hit in hits
        ]
        assert table["tier"].to_pylist() == [1, 0, 0, 0]
        none = index.search("zebra").to_arrow()
        assert (typed(none), none.num_rows) == (PLAIN, 0)


def test_explanations_and_other_columns_that_only_some_searches_give() -> None:
    with temporary_folder() as folder:
        index = made(Path(folder, "index"))
        hits = index.search("SKU-10005", k=1, explain=True, group_by="even")
        table = hits.to_arrow()
        assert [*typed(table)] == [*PLAIN, "further", "explanation"]
        (row,) = table.to_pylist()
        assert row["explanation"]["words"] == [
            {"surface": "SKU-10005", "score": hits[0].bm25, "whole": True}
        ]
        assert row["explanation"]["keyword"]["rank"] == 1


def test_fields_with_names_of_columns_and_values_that_tables_do_not_have() -> None:
    fields = {"score": "high", "rerank": 1, "fields.rerank": 2, "big": 2**60, "bad": "a\udcff"}
    with temporary_folder() as folder:
        index = Index.create(Path(folder, "index"), dim=1)
        with index.writer() as writer:
            writer.add([Document("x", "amber", fields)], [[1.0]])
            writer.add([Document("y", "birch", {"big": 0.5})], [[1.0]])
        (row,) = index.search("amber").to_arrow().to_pylist()
        assert row["score"] == 1.0
        assert {name: row[name] for name in [*row][6:]} == {
            **{"fields.score": "high", "fields.rerank": 1, "fields.fields.rerank": 2},
            **{"big": float(2**60), "bad": "a\ufffd"},
        }
