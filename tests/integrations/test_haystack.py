"""The document store passes the suites of Haystack; filters agree with Haystack's own filters."""

# own process: Haystack

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.core.errors import DeserializationError
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.testing import document_store as suites
from haystack.testing import document_store_async as async_suites
from haystack.utils.filters import document_matches_filter
from hypothesis import given
from hypothesis import strategies as some

from tests.builders.small_indexes import temporary_folder
from vocabtool import FolderInUse, Index, NotFound, VocabtoolError
from vocabtool.integrations.haystack import VocabtoolDocumentStore, VocabtoolHybridRetriever

DIM = 768  # of the suites
NONE, SKIP = DuplicatePolicy.NONE, DuplicatePolicy.SKIP
FAIL, OVERWRITE = DuplicatePolicy.FAIL, DuplicatePolicy.OVERWRITE


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def document_store(tmp_path: Path) -> VocabtoolDocumentStore:
    return over(tmp_path / "index")


def over(path: Path | str, dim: int = DIM, **options: Any) -> VocabtoolDocumentStore:
    Index.create(path, dim=dim, **{"metric": "inner-product", "dtype": "float32", **options})
    return VocabtoolDocumentStore(str(path))


class Equal:
    """Documents in the same order and exactly, but embeddings in float32."""

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert received == [
            replace(
                each, embedding=each.embedding and np.asarray(each.embedding, np.float32).tolist()
            )
            for each in expected
        ]


class TestStore(
    Equal, suites.DocumentStoreBaseTests, suites.DeleteAllTest, suites.DeleteByFilterTest
):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> VocabtoolDocumentStore:
        return over(tmp_path / "index")

    def test_write_documents(self, document_store: Any) -> None:
        assert document_store.write_documents([Document(id="1", content="x")]) == 1
        with pytest.raises(DuplicateDocumentError, match="'1'"):
            document_store.write_documents([Document(id="1", content="y")])


@pytest.mark.anyio
class TestAsyncStore(
    Equal,
    async_suites.CountDocumentsAsyncTest,
    async_suites.DeleteAllAsyncTest,
    async_suites.DeleteByFilterAsyncTest,
    async_suites.DeleteDocumentsAsyncTest,
    async_suites.FilterDocumentsAsyncTest,
    async_suites.WriteDocumentsAsyncTest,
):
    async def test_write_documents_async(self, document_store: Any) -> None:
        assert await document_store.write_documents_async([Document(id="1", content="x")]) == 1
        with pytest.raises(DuplicateDocumentError, match="'1'"):
            await document_store.write_documents_async([Document(id="1", content="y")])


ROWS: list[dict[str, Any]] = [
    {"n": 1, "s": "x", "flag": True, "day": "2024-03-31T00:00:00", "person": {"name": "x"}},
    {"n": -2.5, "s": "it's", "day": "2024-03-31", "person": {"name": "it's"}},
    {"n": 0, "flag": False, "day": "2024-03-31T00:00:01+00:00", "s": None},
    {"n": None, "s": "", "person": {}},
    {},
]
DOCUMENTS = [Document(id=f"d{at}", content=f"text {at}", meta=meta) for at, meta in enumerate(ROWS)]
KINDS: dict[str, list[Any]] = {
    **{"n": [None, 0, 1, -2.5, 3], "s": [None, "x", "2024-03-31", ""], "flag": [None, True, False]},
    "day": [None, "2024-03-31", "2024-03-31T00:00:00.000001", datetime(2024, 3, 31, 0, 0, 1)],
    **{"person.name": [None, "x", "' or id is not null --"], "gone": [None, 1, "x", True]},
}


def comparisons() -> list[dict[str, Any]]:
    """Every operator with values of the type of each field."""
    made: list[dict[str, Any]] = []
    for name, values in KINDS.items():
        field, lists = f"meta.{name}", [*([value] for value in values), values]
        for value in values:
            ordered = name in ("n", "day", "gone") and not isinstance(value, bool) and value != "x"
            operators = ["==", "!=", *(("<", "<=", ">", ">=") if ordered else ())]
            made += [{"field": field, "operator": each, "value": value} for each in operators]
        for operator in ("in", "not in"):
            made += [{"field": field, "operator": operator, "value": each} for each in lists]
            made.append({"field": name.partition(".")[0], "operator": operator, "value": []})
    return made


@pytest.fixture(scope="module")
def rows() -> Iterator[VocabtoolDocumentStore]:
    with temporary_folder() as folder:
        store = over(f"{folder}/index", 2)
        store.write_documents(DOCUMENTS)
        yield store


def agree(store: VocabtoolDocumentStore, filters: dict[str, Any]) -> None:
    wanted = [document for document in DOCUMENTS if document_matches_filter(filters, document)]
    assert store.filter_documents(filters) == wanted, filters


def test_comparisons_agree_with_haystack(rows: VocabtoolDocumentStore) -> None:
    for filters in comparisons():
        agree(rows, filters)


@given(
    filters=some.recursive(
        some.sampled_from(comparisons()),
        lambda parts: some.fixed_dictionaries(
            {
                "operator": some.sampled_from(["AND", "OR", "NOT"]),
                "conditions": some.lists(parts, max_size=3),
            }
        ),
        max_leaves=6,
    )
)
def test_junctions_agree_with_haystack(
    rows: VocabtoolDocumentStore, filters: dict[str, Any]
) -> None:
    agree(rows, filters)


DEEP: dict[str, Any] = {"field": "id", "operator": "==", "value": "d1"}
for _ in range(2000):
    DEEP = {"operator": "NOT", "conditions": [DEEP]}


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"field": "meta.n", "operator": "like", "value": "x"}, "like"),
        ({"field": "embedding", "operator": "==", "value": None}, "embedding"),
        ({"field": "meta.n", "operator": "==", "value": "x"}, "'n' contains numbers"),
        ({"field": "meta.s", "operator": ">", "value": "x"}, "ISO 8601"),
        ({"field": 3, "operator": "==", "value": 1}, "field 3"),
        ({"field": "meta.n", "operator": ["=="], "value": 1}, "operator"),
        ({"operator": ["AND"], "conditions": []}, "operator"),
        ({"operator": "AND", "conditions": {}}, "list"),
        ({"operator": "AND", "conditions": [3]}, "dictionary"),
        ({"field": "id", "operator": "in", "value": ["x" * 100] * 200}, "10,000"),
        (DEEP, "nested"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_filters_refused_by_name(
    rows: VocabtoolDocumentStore, filters: dict[str, Any], told: str
) -> None:
    with pytest.raises(FilterError, match=told):
        rows.filter_documents(filters)
    with pytest.raises(FilterError, match=told):
        VocabtoolHybridRetriever(rows).run("text", filters=filters)


def test_embeddings_come_back(tmp_path: Path) -> None:
    store = over(tmp_path / "index", 2, metric="cosine")
    embeddings = [[3.0, 4.0], [0.6, 0.8], [0.0, 0.0], None]
    store.write_documents(
        [Document(id=str(at), content="", embedding=each) for at, each in enumerate(embeddings)]
    )
    found = [each.embedding for each in store.filter_documents()]
    assert found[2:] == [None, None]  # without a direction, found by words only
    np.testing.assert_allclose(np.asarray(found[:2]), [[0.6, 0.8]] * 2, rtol=3e-7)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (Document(content="x", blob=ByteStream(b"x")), "blob"),
        (Document(content="x", sparse_embedding=SparseEmbedding([1], [1.0])), "sparse_embedding"),
        (Document(meta={"a": 1}), "with a content"),
        (Document(id="new", content="x", meta={"day": datetime(2024, 1, 1)}), r"'new'.*isoformat"),
    ],
)
def test_refused_documents(
    document_store: VocabtoolDocumentStore, document: Document, told: str
) -> None:
    with pytest.raises((ValueError, VocabtoolError), match=told):
        document_store.write_documents([Document(content="before"), document])
    assert document_store.count_documents() == 0


def test_policies(document_store: VocabtoolDocumentStore) -> None:
    one, two = Document(id="1", content="one"), Document(id="1", content="two")
    for policy in (NONE, FAIL):
        with pytest.raises(DuplicateDocumentError, match="'1'"):
            document_store.write_documents([one, two], policy)
    assert document_store.write_documents([one, two], SKIP) == 1
    assert document_store.filter_documents() == [one]
    assert document_store.write_documents([one, two], OVERWRITE) == 2
    assert document_store.filter_documents() == [two]
    nothing: Any = None
    document_store.delete_documents(nothing)
    assert document_store.filter_documents() == [two]


def test_pipelines_are_dumped_and_loaded(tmp_path: Path) -> None:
    store = over(tmp_path / "i", 2)
    filters = {"field": "meta.type", "operator": "==", "value": "a"}
    pipeline = Pipeline()
    pipeline.add_component("writer", DocumentWriter(store))
    options: dict[str, Any] = {"filters": filters, "settings": {"a": 0.3}}
    retriever = VocabtoolHybridRetriever(store, filter_policy=FilterPolicy.MERGE, **options)
    pipeline.add_component("retriever", retriever)
    text = pipeline.dumps()
    with pytest.raises(DeserializationError):
        Pipeline.loads(text)
    loaded = Pipeline.loads(text, allowed_modules=["vocabtool.*"])
    assert loaded.to_dict() == pipeline.to_dict()
    documents = [
        Document(id="0", content="good love", meta={"type": "a"}, embedding=[1.0, 0.0]),
        Document(id="1", content="x y", embedding=[0.0, 1.0]),
    ]
    loaded.get_component("writer").run(documents)
    run = loaded.run(
        {
            "retriever": {"query": "love", "query_embedding": [0.0, 1.0]},
            "writer": {"documents": []},
        }
    )
    assert [each.id for each in run["retriever"]["documents"]] == ["0"]
    with pytest.raises(ValueError, match="mix"):
        VocabtoolHybridRetriever(store, filter_policy="mix")
    with pytest.raises(ValueError, match="a text, a vector"):
        VocabtoolHybridRetriever(store).run()
    plain = VocabtoolHybridRetriever(store)
    (found,) = plain.run("love", top_k=1)["documents"]
    assert found.meta["type"] == "a"
    assert asyncio.run(plain.run_async("love", top_k=1)) == {"documents": [found]}


def test_a_store_creates_its_index(tmp_path: Path) -> None:
    """For own embeddings or with a model; it must fit afterwards."""
    store = VocabtoolDocumentStore(str(tmp_path / "own"), embedding_dim=2, metric="l2")
    store.write_documents([Document(id="a", content="x", embedding=[3.0, 4.0])])
    again = VocabtoolDocumentStore.from_dict(store.to_dict())
    assert [each.embedding for each in again.filter_documents()] == [[3.0, 4.0]]
    with pytest.raises(ValueError, match="2 numbers, but embedding_dim is 3"):
        VocabtoolDocumentStore(str(tmp_path / "own"), embedding_dim=3)


def test_stores_that_cannot_be_opened_or_written(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    with pytest.raises(NotFound, match="index"):
        VocabtoolDocumentStore(path)
    with pytest.raises(TypeError, match="VocabtoolDocumentStore"):
        VocabtoolHybridRetriever(path)  # type: ignore[arg-type] # refused
    over(path, 4)
    store = VocabtoolDocumentStore(path)
    with Index.open(path).writer() as writer:
        with pytest.raises(FolderInUse):
            store.write_documents([Document(content="x")])
        writer.add([{"id": "other", "text": "of another process"}], [[1, 0, 0, 0]])
    assert store.count_documents() == 1  # the last commit, whoever made it
