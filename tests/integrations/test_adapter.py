"""Metadata that one framework has written are what the others read; values in conditions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.postgres_server import PostgresServer
from vocabtool import Index, InvalidCondition
from vocabtool.integrations.adapter import quote_field, quote_value
from vocabtool.search import conditions
from vocabtool.search.conditions import parse

pytest.importorskip("langchain_core")
pytest.importorskip("haystack")
pytest.importorskip("llama_index")

from haystack import Document as HaystackDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from vocabtool.integrations import haystack, langchain, llama_index

METADATAS: list[dict[str, Any]] = [
    {"year": 2019, "id": "own", "text": "t", "_metadata": 1, "_node": "n", "metadata.id": 2},
    {"year": 2024, "by": {"name": "Kim", "of": [None, {}]}, "tags": ["a", "b"], "big": 1 << 70},
    {"year": 2021.5, "_haystack": "mine", "_ref_doc_id": None, "": 0, "\n": "x"},
    {"year": 1},
    {
        "mixed": "soon",
        "a": {"b": [{"c": None}], "d": {}},
        "a.b": 1,
        "Ünï": "\u2028'\"",
        "empty": [],
    },
    {"mixed": 1, "float": -0.0, "inf": float("inf"), "list": [1, "x", 2.0, True]},
]
IDS = [f"d{number}" for number in range(len(METADATAS))]


def by_langchain(path: str) -> None:
    store = langchain.VocabtoolVectorStore(path, DeterministicFakeEmbedding(size=2))
    store.add_texts(["amber"] * len(IDS), METADATAS, ids=IDS)


def by_haystack(path: str) -> None:
    documents = [
        HaystackDocument(id=id_, content="amber", meta=metadata, embedding=[1.0, 0.0])
        for id_, metadata in zip(IDS, METADATAS, strict=True)
    ]
    haystack.VocabtoolDocumentStore(path).write_documents(documents)


def by_llama_index(path: str) -> None:
    nodes = [
        TextNode(id_=id_, text="amber", metadata=metadata, embedding=[1.0, 0.0])
        for id_, metadata in zip(IDS, METADATAS, strict=True)
    ]
    llama_index.VocabtoolVectorStore(path).add(nodes)


@pytest.mark.parametrize("write", [by_langchain, by_haystack, by_llama_index])
def test_all_read_what_one_wrote(tmp_path: Path, write: Callable[[str], None]) -> None:
    agree(str(tmp_path / "index"), write)


def test_in_postgres(postgres_server: PostgresServer) -> None:
    psycopg = pytest.importorskip("psycopg")
    address = postgres_server.new_database()
    with psycopg.connect(address) as connection:
        connection.execute("CREATE EXTENSION vector")
    agree(f"{address}{'&' if '?' in address else '?'}index=notes", by_haystack)


def agree(path: str, write: Callable[[str], None]) -> None:
    Index.create(path, dim=2)
    write(path)
    chain = langchain.VocabtoolVectorStore(path)
    stack = haystack.VocabtoolDocumentStore(path)
    llama = llama_index.VocabtoolVectorStore(path)
    assert [each.metadata for each in chain.get_by_ids(IDS)] == METADATAS
    assert [each.meta for each in stack.filter_documents()] == METADATAS
    assert [each.metadata for each in llama.get_nodes(IDS)] == METADATAS
    assert [*chain.index.get_many([*IDS[::-1], "none"])] == IDS[::-1]
    assert {*chain.index.vectors([*IDS, "none"])} == {*IDS}
    assert chain.index.get_many([]) == {}
    for name in ("year", "id", "text", "_metadata", "_node", "metadata.id", "_haystack"):
        value = next(each[name] for each in METADATAS if name in each)
        wanted = [id_ for id_, each in zip(IDS, METADATAS, strict=True) if each.get(name) == value]
        assert [*chain.index.ids(langchain.condition({name: value}))] == wanted
        same = {"field": f"meta.{name}", "operator": "==", "value": value}
        assert [each.id for each in stack.filter_documents(same)] == wanted
        asked = MetadataFilters(filters=[MetadataFilter(key=name, value=value)])
        assert [each.node_id for each in llama.get_nodes(filters=asked)] == wanted


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBERS = st.integers(1 - (1 << 63), (1 << 63) - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)
VALUES = TEXTS | NUMBERS | st.booleans()


@given(TEXTS.filter(bool), VALUES, st.sampled_from(["=", "<", "like", "contains"]))
def test_a_value_stays_a_value(field: str, value: Any, operator: Any) -> None:
    """Whatever a field is called and its value contains: no part of it is read as a condition."""
    value = str(value) if operator == "like" else value
    test = parse(f"{quote_field(field)} {operator} {quote_value(value)}")
    assert isinstance(test, conditions.Test)
    assert (test.field, test.operator, test.values) == (field, operator, (value,))
    assert type(test.values[0]) is type(value)


def test_values_of_other_types() -> None:
    assert quote_value(date(2024, 3, 31)) == "2024-03-31"
    assert (
        quote_value(datetime(2024, 3, 31, 18, 0, 0, 0, UTC)) == "2024-03-31T18:00:00.000000+00:00"
    )
    with pytest.raises(InvalidCondition, match="a value must be"):
        quote_value(b"a")
