"""What holds in every framework: metadata, filters and explanations; values in conditions."""

# own process: LangChain, Haystack, LlamaIndex

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_indexes import made, temporary_folder
from tests.conftest import ROOT
from vocabtool import Document, Index, InvalidCondition, VocabtoolError
from vocabtool.integrations import adapter
from vocabtool.search import conditions

pytest.importorskip("langchain_core")
pytest.importorskip("haystack")
pytest.importorskip("llama_index")

from haystack import Document as HaystackDocument
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import types

from vocabtool.integrations import haystack, langchain, llama_index

METADATAS: list[dict[str, Any]] = [
    {"year": 2019, "id": "own", "text": "t", "_metadata": 1, "_node": "n", "metadata.id": 2},
    {"year": 2024, "by": {"name": "Kim", "of": [None, {}]}, "tags": ["a", "b"], "big": 1 << 70},
    {"year": 2021.5, "mixed": "soon", "_ref_doc_id": None, "": 0, "\n": "x", "Ünï": "\u2028'\""},
    {"year": 1, "mixed": 1, "float": -0.0, "inf": float("inf"), "list": [1, "x", 2.0, True]},
]
IDS = ["d0", "d1", "d2", "d3"]
WORDS = ["learn Korean", "order SKU-48007-H", "two days in june", "sort a list"]
ROWS = [*zip(IDS, WORDS, METADATAS, strict=True)]

# What each framework calls the same things. A search finds three ids, scores and metadata.


class LangChain:
    def __init__(self, path: str) -> None:
        self.store = langchain.VocabtoolVectorStore(path)

    def add(self) -> object:
        return self.store.add_texts(WORDS, METADATAS, ids=IDS)

    def metadatas(self) -> list[dict[str, Any]]:
        return [item.metadata for item in self.store.get_by_ids(IDS)]

    def equal(self, name: str, value: object) -> list[Any]:
        return [*self.store.index.ids(langchain.condition({name: value}))]

    def search(self, query: str, vector: list[float] | None, **settings: Any) -> Any:
        options = {"k": 3, "vector": vector, "explain": True, **settings}
        results = self.store.similarity_search_with_score(query, **options)
        return [(item.id, score, item.metadata) for item, score in results]


class Haystack:
    def __init__(self, path: str) -> None:
        self.store = haystack.VocabtoolDocumentStore(path)

    def add(self) -> object:
        rows = [HaystackDocument(id=id_, content=text, meta=meta) for id_, text, meta in ROWS]
        return self.store.write_documents(rows)

    def metadatas(self) -> list[dict[str, Any]]:
        return [item.meta for item in self.store.filter_documents()]

    def equal(self, name: str, value: object) -> list[Any]:
        filters = {"field": f"meta.{name}", "operator": "==", "value": value}
        return [item.id for item in self.store.filter_documents(filters)]

    def search(self, query: str, vector: list[float] | None, **settings: Any) -> Any:
        options: Any = {"top_k": 3, "settings": {"explain": True, **settings}}
        results = haystack.VocabtoolHybridRetriever(self.store, **options).run(query, vector)
        return [(item.id, item.score, item.meta) for item in results["documents"]]


class LlamaIndex:
    def __init__(self, path: str) -> None:
        self.store = llama_index.VocabtoolVectorStore(path, settings={"explain": True})

    def add(self) -> object:
        rows = [TextNode(id_=id_, text=text, metadata=metadata) for id_, text, metadata in ROWS]
        return self.store.add(rows)

    def metadatas(self) -> list[dict[str, Any]]:
        return [item.metadata for item in self.store.get_nodes(IDS)]

    def equal(self, name: str, value: Any) -> list[Any]:
        one: Any = types.MetadataFilter(key=name, value=value)
        filters = types.MetadataFilters(filters=[one])
        return [item.node_id for item in self.store.get_nodes(filters=filters)]

    def search(self, query: str, vector: list[float] | None, **settings: Any) -> Any:
        request = types.VectorStoreQuery(
            mode=types.VectorStoreQueryMode.HYBRID,
            query_str=query,
            query_embedding=vector,
            similarity_top_k=3,
        )
        results = self.store.query(request, **settings)
        metadatas = [item.metadata for item in results.nodes or ()]
        return [*zip(results.ids or (), results.similarities or (), metadatas, strict=True)]


FRAMEWORKS: tuple[Any, ...] = (LangChain, Haystack, LlamaIndex)
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def create(path: str) -> Index:
    """An index with a model."""
    model = str(ROOT / "data" / "small_glove.txt")
    return Index.create(path, model, weights="none", dtype="float32")


@pytest.fixture
def path() -> Iterator[str]:
    with temporary_folder() as folder:
        yield f"{folder}/index"


@each_framework
def test_all_read_what_one_wrote(path: str, framework: Any) -> None:
    agree(path, framework)


def test_in_postgres(postgres_server: PostgresServer) -> None:
    agree(f"{postgres_server.new_database()}&index=notes", Haystack)


def agree(path: str, writer: Any) -> None:
    create(path)
    writer(path).add()
    for store in (framework(path) for framework in FRAMEWORKS):
        assert store.metadatas() == METADATAS
        for name in ("year", "id", "text", "_metadata", "_node", "metadata.id", "by.name"):
            value = "Kim" if name == "by.name" else METADATAS[0][name]
            assert store.equal(name, value) == ["d1" if name == "by.name" else "d0"]


@each_framework
def test_a_search_explains_as_that_of_the_index(path: str, framework: Any) -> None:
    index = create(path)
    store = framework(path)
    store.add()
    index.refresh()
    for query, vector in (("learn SKU-48007-H xlist", None), ("learn", [1.0] * 4)):
        hits = index.search(query, vector=vector, k=3, explain=True)
        assert len(hits) == 3
        for (id_, score, metadata), hit in zip(store.search(query, vector), hits, strict=True):
            facts = metadata.pop("_vocabtool")
            assert (id_, score, metadata) == (hit.id, hit.score, METADATAS[IDS.index(hit.id)])
            assert facts["tier"] == hit.tier
            assert facts["explanation"] == hit.to_json()["explanation"]
            assert facts["unknown_words"] == query.split()[1:]
    with pytest.raises(TypeError, match="where"):  # else it would replace the filter
        store.search("learn", None, where="id = 'x'")


@each_framework
def test_fields_of_an_index_made_otherwise_are_metadata(path: str, framework: Any) -> None:
    made(Path(path), range(4))
    store = framework(path)
    assert store.metadatas() == [{"n": n, "even": n % 2 == 0} for n in range(4)]
    assert store.equal("n", 3) == ["d3"]


@each_framework
def test_a_query_without_a_vector_is_told(path: str, framework: Any) -> None:
    adapter.add(Index.create(path, dim=2), [Document("a", "amber")], [[1.0, 0.0]])
    for vector, notes in (([1.0, 0.0], 0), (None, 1)):
        ((_, _, metadata),) = framework(path).search("amber", vector)
        facts = metadata["_vocabtool"]["notes"]
        assert sum("only keywords were searched. Pass its" in item for item in facts) == notes


def test_the_model_makes_the_vectors_that_are_missing(path: str) -> None:
    index = create(path)
    own = [0.5] * 4
    documents = [Document(id_, text) for id_, text in zip(IDS, WORDS, strict=True)]
    assert adapter.add(index, documents, [None, own, None, None]) == 4
    index.refresh()
    assert index.encoder is not None
    wanted = [*index.encoder.encode(WORDS)]
    wanted[1] = np.array(own)
    assert [*index.ids()] == IDS
    np.testing.assert_allclose([*index.vectors(IDS).values()], wanted, atol=1e-6)


# Metadata.

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | FLOATS | TEXTS
NAMES = st.sampled_from(["a", "b", "id", "text", "_metadata", "metadata.id", "", "é\n"])
NESTED = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.dictionaries(NAMES, NESTED, max_size=4), max_size=4), max_size=3))
def test_metadata_come_back_as_they_went_in(commits: list[list[dict[str, Any]]]) -> None:
    """Whatever is nested, and whatever kinds the index has already."""
    with temporary_folder() as folder:
        index = Index.create(Path(folder) / "index", dim=1)
        for number, metadatas in enumerate(commits):
            documents = [
                adapter.document_of(f"{number}.{at}", "foo", metadata)
                for at, metadata in enumerate(metadatas)
            ]
            adapter.add(index, documents, [[1.0]] * len(documents))
        index.refresh()
        results = [adapter.metadata_of(item.fields) for item in index.documents()]
        assert repr(results) == repr([metadata for commit in commits for metadata in commit])


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, {1}, float("nan"), b"b", "\ud800", Path("a")])
def test_refused_metadata(value: Any) -> None:
    """What JSON would change."""
    with pytest.raises(VocabtoolError, match=r"'new'.*JSON"):
        adapter.document_of("new", "foo", {"key": value})


# Values in conditions.

NUMBERS = st.integers(1 - (1 << 63), (1 << 63) - 1) | FLOATS


@given(
    TEXTS.filter(bool),
    TEXTS | NUMBERS | st.booleans(),
    st.sampled_from(["=", "<", "like", "contains"]),
)
def test_a_value_stays_a_value(field: str, value: Any, operator: Any) -> None:
    """Whatever a field is called and its value contains: no part of it is read as a condition."""
    value = str(value) if operator == "like" else value
    quoted = adapter.compare(field, operator, value)
    parsed = conditions.parse(quoted)
    test = parsed.conditions[-1] if isinstance(parsed, conditions.Junction) else parsed
    assert isinstance(test, conditions.Test)
    assert (test.field, test.values) == (field, (value,))
    assert type(test.values[0]) is type(value)


def test_values_of_other_types() -> None:
    assert adapter.quote_value(date(2024, 3, 31)) == "2024-03-31"
    late = datetime(2024, 3, 31, 18, tzinfo=UTC)
    assert adapter.quote_value(late) == "2024-03-31T18:00:00.000000+00:00"
    with pytest.raises(InvalidCondition, match="a value must be"):
        adapter.quote_value(b"a")
