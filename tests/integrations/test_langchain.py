"""The suites that LangChain has for vector stores, retrievers and embeddings, and our own tests."""

# own process: LangChain

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.builders.small_indexes import temporary_folder
from vocabtool import Index, OtherModel
from vocabtool.errors import InvalidCondition, NotFound

pytest.importorskip("langchain_tests")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests import integration_tests as suites
from langchain_tests.integration_tests.vectorstores import EMBEDDING_SIZE
from langchain_tests.unit_tests import EmbeddingsUnitTests

from vocabtool.integrations.langchain import (
    VocabtoolEmbeddings,
    VocabtoolRetriever,
    VocabtoolVectorStore,
)

# Word vectors, so that the vector of a text is the mean of those of its words.
WORDS: Final = {"foo": [0.5, 0, 0], "bar": [0, 0.5, 0], "baz": [0, 0, 0.5], "new": [0.5, 0.5, 0]}
TEXTS: Final = ["foo bar", "foo", "new baz", "bar baz SKU-77", "foo foo bar baz"]
METADATAS: Final[list[dict[str, Any]]] = [
    {"year": 2019, "lang": "en", "tags": ["a", "b"], "open": True},
    {"year": 2024, "lang": "de", "tags": ["b"], "day": "2024-03-31", "id": 7},
    {"year": 2021.5, "lang": "en"},
    {"lang": "it's", "open": False},
    {"year": 2024, "source": {"page": 3, "of": None}},
]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def model(folder: Path) -> VocabtoolEmbeddings:
    path = folder / "vectors.txt"
    lines = (f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in WORDS.items())
    path.write_text("".join(lines), "utf-8")
    return VocabtoolEmbeddings(path, rule="lower", weights="none")


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as name:
        yield Path(name)


@pytest.fixture
def store(folder: Path) -> VocabtoolVectorStore:
    """The texts and metadata above, with the ids ``0`` to ``4``."""
    given: Any = {"path": folder / "index", "ids": [*"01234"]}
    return VocabtoolVectorStore.from_texts(TEXTS, model(folder), METADATAS, **given)


@pytest.mark.anyio
class TestOwnVectors(suites.VectorStoreIntegrationTests):
    """The vectors are made by an ``Embeddings`` of somebody else."""

    @pytest.fixture
    def vectorstore(self, folder: Path) -> VectorStore:
        empty = Index.create(folder / "index", dim=EMBEDDING_SIZE)
        return VocabtoolVectorStore(empty, self.get_embeddings())


@pytest.mark.anyio
class TestModelOfIndex(suites.VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, folder: Path) -> VectorStore:
        return VocabtoolVectorStore.from_texts([], model(folder), path=folder / "index")


@pytest.mark.anyio
class TestRetriever(suites.RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _store(self, store: VocabtoolVectorStore) -> None:
        self.path = store.index.path

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return VocabtoolRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.path}

    @property
    def retriever_query_example(self) -> str:
        return "foo bar"


class EmbeddingsCase:
    @pytest.fixture(autouse=True)
    def _model(self, folder: Path) -> None:
        self.model_file = model(folder).model

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return VocabtoolEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": self.model_file, "rule": "lower", "weights": "none"}


class TestEmbeddingsUnit(EmbeddingsCase, EmbeddingsUnitTests):
    pass


@pytest.mark.anyio
class TestEmbeddings(EmbeddingsCase, suites.EmbeddingsIntegrationTests):
    pass


def test_vectors_of_a_model(folder: Path) -> None:
    """Means of the words, of length 1; queries with the prompt of queries."""
    embeddings = model(folder)
    root = 0.5**0.5
    assert np.allclose(embeddings.embed_documents(["foo", "foo bar"]), [[1, 0, 0], [root, root, 0]])
    assert embeddings.embed_query("baz") == [0, 0, 1]
    assert embeddings.embed_documents([]) == []


FILTERS: Final[list[tuple[Any, str]]] = [
    ({"lang": "en"}, "02"),
    ({"lang": "it's"}, "3"),
    ("lang = 'en' and year < 2020", "0"),
    ({"year": {"$gte": 2020, "$lt": 2022}}, "2"),
    ({"lang": {"$ne": "en"}}, "134"),
    ({"lang": None}, "4"),
    ({"lang": {"$ne": None}}, "0123"),
    ({"year": {"$in": []}}, ""),
    ({"year": {"$nin": []}}, "01234"),
    ({"day": {"$exists": False}}, "0234"),
    ({"open": True}, "0"),
    ({"tags": {"$contains": "b"}}, "01"),
    ({"lang": {"$like": "%e%"}}, "012"),
    ({"lang": {"$ilike": "IT%"}}, "3"),
    ({"$or": [{"lang": "de"}, {"$and": [{"lang": "en"}, {"year": {"$gt": 2020}}]}]}, "12"),
    ({"$not": {"lang": "en", "open": True}}, "1234"),
    ({"$not": [{"lang": "en"}, {"open": True}]}, "1234"),
    ({"year": {"$not": {"$lt": 2020}}}, "1234"),
    ({"source.page": 3}, "4"),
    ({}, "01234"),
]


@pytest.mark.parametrize(("filters", "wanted"), FILTERS, ids=[str(item) for item, _ in FILTERS])
def test_filters(store: VocabtoolVectorStore, filters: Any, wanted: str) -> None:
    """A missing value equals ``None`` and no other value."""
    results = store.similarity_search("foo", k=5, filter=filters)
    assert sorted(str(item.id) for item in results) == [*wanted]
    retriever = VocabtoolRetriever(index=store.index, filter=filters, k=5)
    assert sorted(str(item.id) for item in retriever.invoke("foo bar baz")) == [*wanted]


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"year": {"$near": 1}}, "$near"),
        ({"$nor": [{"year": 1}]}, "$nor"),
        ({"$and": {"year": 1}}, "$and"),
        ({"$or": []}, "$or"),
        ({"year": {"$in": "text"}}, "list"),
        ({"year": float("nan")}, "nan"),
        ({"": 1}, "name of a field"),
        ({"year": {"$gt": "2019' or 'a' = 'a"}}, "year"),
        ({"yaer": 2019}, "yaer"),
        (print, "print"),
    ],
)
def test_refused_filters(store: VocabtoolVectorStore, filters: Any, named: str) -> None:
    with pytest.raises(InvalidCondition) as caught:
        store.similarity_search("foo", filter=filters)
    assert named in str(caught.value)


def test_filters_nested_too_deep(store: VocabtoolVectorStore) -> None:
    deep: dict[str, Any] = {"year": 2019}
    of_field: Any = 2019
    for _ in range(5_000):
        deep = {"$and": [deep]}
        of_field = {"$not": of_field}
    for filters in (deep, {"year": of_field}):
        with pytest.raises(InvalidCondition, match="nested"):
            store.similarity_search("foo", filter=filters)


def test_a_filter_of_an_empty_index(folder: Path) -> None:
    """Nothing is found; but what no filter has is refused."""
    store = VocabtoolVectorStore.from_texts([], model(folder), path=folder / "index")
    assert store.similarity_search("foo", filter={"year": 2019}) == []
    with pytest.raises(InvalidCondition):
        store.similarity_search("foo", filter={"year": {"$near": 2019}})


def test_lengths(store: VocabtoolVectorStore) -> None:
    wrong: list[dict[str, Any]] = [{"metadatas": [{}]}, {"ids": ["a"]}, {"ids": []}]
    for arguments in wrong:
        with pytest.raises(ValueError, match="for 2 texts"):
            store.add_texts(["a", "b"], **arguments)
    with pytest.raises(TypeError, match="'colour'"):
        store.add_texts(["a"], colour=1)  # type: ignore[call-arg] # refused
    with pytest.raises(TypeError, match="'colour'"):
        store.delete(["a"], colour=1)  # type: ignore[call-arg] # refused
    with pytest.raises(ValueError, match="either ids or where"):
        store.delete(["a"], filter={"year": 1})


def test_a_search_by_vector(store: VocabtoolVectorStore, folder: Path) -> None:
    """By cosines that NumPy computes."""
    vectors = np.array(model(folder).embed_documents(TEXTS))
    cosines = vectors @ np.array([0.6, 0.8, 0])
    order = [str(at) for at in np.argsort(-cosines)]
    results = store.similarity_search_by_vector([0.6, 0.8, 0], k=5)
    assert [item.id for item in results] == order


def test_the_retriever_explains(store: VocabtoolVectorStore) -> None:
    """A search of the store only if it is asked for."""
    (plain,) = store.similarity_search("foo sku-77", k=1)
    assert plain.metadata == METADATAS[3]
    retriever = VocabtoolRetriever(index=store.index, k=1)
    (document,) = retriever.invoke("foo sku-77")
    facts = document.metadata.pop("_vocabtool")
    assert (document.metadata, facts["unknown_words"]) == (METADATAS[3], ["sku-77"])
    assert [word["surface"] for word in facts["explanation"]["words"]] == ["sku-77"]
    assert retriever.invoke("zzzz") == []  # no known word, and none in a document


def test_an_index_is_created_once(store: VocabtoolVectorStore, folder: Path) -> None:
    """A new call opens it, replaces documents by id, and refuses another model."""
    path = store.index.path
    again = VocabtoolVectorStore.from_documents(
        [Document(id="1", page_content="new"), Document(page_content="baz")],
        model(folder),
        path=path,
    )
    assert len(again.index) == len(TEXTS) + 1
    (document,) = store.get_by_ids(["1"])  # the other object sees the commit
    assert (document.page_content, document.metadata) == ("new", {})
    (folder / "other.txt").write_text("foo 0.5 0.25\nbar 0.5 0.75\n")
    other = VocabtoolEmbeddings(folder / "other.txt", rule="lower", weights="none")
    with pytest.raises(OtherModel):
        VocabtoolVectorStore(path, other).similarity_search("foo")
    with pytest.raises(NotFound):
        VocabtoolVectorStore(folder / "none")
    with pytest.raises(ValueError, match="path"):
        VocabtoolVectorStore.from_texts([], model(folder))

    fake = DeterministicFakeEmbedding(size=5)
    own = VocabtoolVectorStore.from_texts(["foo"], fake, path=folder / "own", metric="l2")
    assert own.index.configuration.dim == 5
    assert own.index.configuration.metric == "l2"


def test_changes(store: VocabtoolVectorStore) -> None:
    """Several at a time; LangChain's indexing; deletions."""

    async def add() -> list[list[str]]:
        return await asyncio.gather(*(store.aadd_texts(["foo"], ids=[f"n{n}"]) for n in range(8)))

    assert asyncio.run(add()) == [[f"n{n}"] for n in range(8)]
    assert len(store.index) == 13
    store.delete([f"n{n}" for n in range(8)])
    store.delete(filter={"lang": "en"})
    assert sorted(store.index.ids()) == ["1", "3", "4"]
    store.delete()  # as in InMemoryVectorStore
    store.delete([])
    assert sorted(store.index.ids()) == ["1", "3", "4"]
    store.delete(filter={})
    assert len(store.index) == 0

    records = InMemoryRecordManager("test")
    records.create_schema()
    for texts, wanted in ((["foo", "bar"], (2, 0)), (["foo", "baz"], (1, 1))):
        given = [Document(page_content=text, metadata={"source": "s"}) for text in texts]
        options: Any = {"cleanup": "full", "key_encoder": "sha256"}
        done = index(given, records, store, **options)
        assert (done["num_added"], done["num_deleted"]) == wanted
        assert sorted(item.text for item in store.index.documents()) == sorted(texts)


def test_an_argument_that_a_retriever_does_not_have(store: VocabtoolVectorStore) -> None:
    """It is refused: a filter under another name would be lost."""
    with pytest.raises(ValueError, match="filters"):
        VocabtoolRetriever(store.index, filters={})
