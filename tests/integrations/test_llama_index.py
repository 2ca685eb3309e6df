"""An index as a vector store of LlamaIndex: values, beside LlamaIndex's own store and filters."""

# own process: LlamaIndex

from __future__ import annotations

import asyncio
import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex, schema
from llama_index.core.schema import BaseNode, RelatedNodeInfo, TextNode
from llama_index.core.schema import NodeRelationship as Relation
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import FilterOperator as Op
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from tests.builders.small_indexes import DIM, made, temporary_folder, vector
from vocabtool import Document, Index, InvalidCondition, VocabtoolError
from vocabtool.integrations.llama_index import VocabtoolEmbedding, VocabtoolVectorStore

WORDS: Final = ("amber", "birch", "cedar", "delta")


def letters(texts: list[str]) -> list[list[float]]:
    """A model that counts four letters."""
    return [[float(text.lower().count(letter)) for letter in "abce"] for text in texts]


def node(number: int, **metadata: Any) -> TextNode:
    """Node ``n3`` of document ``doc1``, with the vector of small_indexes."""
    return TextNode(
        id_=f"n{number}",
        text=f"{WORDS[number % 4]} SKU-{100 + number}",
        metadata=metadata,
        embedding=vector(number).tolist(),
        relationships={Relation.SOURCE: RelatedNodeInfo(node_id=f"doc{number % 3}")},
    )


def without_embedding(one: BaseNode) -> dict[str, Any]:
    return one.model_dump() | {"embedding": None}


@pytest.fixture
def store() -> Iterator[VocabtoolVectorStore]:
    with temporary_folder() as folder:
        yield VocabtoolVectorStore(Index.create(Path(folder, "index"), dim=DIM))


def query_of(mode: Mode = Mode.DEFAULT, **query: Any) -> VectorStoreQuery:
    return VectorStoreQuery(mode=mode, **query)


def equals(key: str, value: Any, operator: Op = Op.EQ) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


NODES: Final[list[BaseNode]] = [
    TextNode(
        id_="text",
        text="naïve amber",
        metadata={"nested": {"a": [1, {"b": None}], "c": 0.5}, "n": 1, "tags": ["x", "y"]},
        excluded_llm_metadata_keys=["n"],
        start_char_idx=7,
        text_template="{content} of {metadata_str}",
        relationships={
            Relation.SOURCE: RelatedNodeInfo(node_id="d", metadata={"from": {"x": 1}}),
            Relation.CHILD: [RelatedNodeInfo(node_id="c")],
        },
    ),
    schema.Document(id_="document", text="birch", metadata={"n": 2}),
    schema.IndexNode(id_="index", text="cedar", index_id="other"),
    schema.ImageNode(id_="image", text="delta", image_url="http://example.com/a.png"),
    schema.Node(
        id_="node",
        text_resource=schema.MediaResource(text="ember", mimetype="text/plain", path=Path("/a/b")),
    ),
    schema.Node(id_="no text", image_resource=schema.MediaResource(mimetype="image/png")),
]


def test_nodes_come_back_as_they_went_in(store: VocabtoolVectorStore) -> None:
    for at, item in enumerate(NODES):
        item.embedding = vector(at).tolist()
    assert store.add(NODES) == [item.node_id for item in NODES]
    results = store.get_nodes()
    assert [type(item) for item in results] == [type(item) for item in NODES]
    assert [*map(without_embedding, results)] == [*map(without_embedding, NODES)]

    # also those that a search explained, when they are added again
    (hit,) = store.query(query_of(query_embedding=vector(0).tolist())).nodes or ()
    hit.embedding = vector(0).tolist()
    store.add([hit])
    assert store.get_nodes(["text"])[0].metadata == NODES[0].metadata
    assert len(store.client) == len(NODES)


def test_no_address_of_somebody_elses_index_is_opened(
    store: VocabtoolVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ImageDocument opens its address when it is made; the JSON of a node may ask for one."""
    opened: list[str] = []
    monkeypatch.setattr(schema, "is_image_url_pil", opened.append)
    for kind in (schema.ObjectType.DOCUMENT, schema.ObjectType.IMAGE):
        content = {"class_name": "ImageDocument", "image_url": "http://example.com/a.png"}
        fields = {"_node": json.dumps({"__type__": kind, "__data__": content})}
        with store.client.writer() as writer:
            writer.add([Document(kind.name, "amber", fields)], [vector(1)])
    assert [one.get_content() for one in store.get_nodes()] == ["amber", "amber"]
    assert opened == []


def test_default_agrees_with_the_simple_store(store: VocabtoolVectorStore) -> None:
    nodes = [node(number) for number in range(30)]
    simple = SimpleVectorStore()
    for item in (store, simple):
        item.add(nodes)
    for number in range(100, 110):
        query = query_of(
            query_embedding=vector(number).tolist(),
            query_str="SKU-103",  # vectors alone: no code comes first
            similarity_top_k=7,
        )
        ours, theirs = store.query(query), simple.query(query)
        assert ours.ids == theirs.ids
        assert ours.similarities == pytest.approx(theirs.similarities, abs=2e-3)


def test_hybrid_and_words(store: VocabtoolVectorStore) -> None:
    store.add([node(number) for number in range(30)])
    query = query_of(query_str="birch SKU-107", query_embedding=vector(3).tolist())
    query.similarity_top_k = 4
    for mode, arguments in (
        (Mode.HYBRID, {"vector": vector(3)}),
        (Mode.TEXT_SEARCH, {"fusion": "keyword"}),
        (Mode.SPARSE, {"fusion": "keyword"}),
    ):
        query.mode = mode
        results, hits = store.query(query), store.client.search(query.query_str, k=4, **arguments)
        assert results.ids == [hit.id for hit in hits]
        assert results.similarities == [hit.score for hit in hits]
        assert results.ids[0] == "n7"
        assert results.nodes is not None
        assert "_vocabtool" in results.nodes[0].metadata
        for kind in (schema.MetadataMode.LLM, schema.MetadataMode.EMBED):  # not in prompts
            assert results.nodes[0].get_content(kind) == "delta SKU-107"
    query.mode, query.alpha, query.hybrid_top_k = Mode.HYBRID, 1.0, 2
    hits = store.client.search("birch SKU-107", k=2, vector=vector(3), a=0.0)
    assert store.query(query).similarities == [hit.score for hit in hits]
    query.alpha = None
    by_settings = VocabtoolVectorStore(store.client, settings={"a": 0.0})
    assert by_settings.query(query).similarities == [hit.score for hit in hits]
    query.sparse_top_k, query.mode = 3, Mode.SPARSE
    assert len(store.query(query).ids or ()) == 3


# Filters: LlamaIndex's own function is the oracle.

METADATA: Final[list[dict[str, Any]]] = [
    {"year": 2019, "lang": "en", "tags": ["a", "b"], "x": 0.5, "good": True},
    {"year": 2020, "lang": "de", "tags": ["b"], "x": -1.0},
    {"year": 2021, "lang": "en", "tags": [], "good": False},
    {"year": 2019, "lang": "", "x": 2.0, "good": True},
    {"lang": 'it\'s 50% "off"', "tags": ["a", "a b", "ü"]},
    {"year": -3, "tags": ["c"]},
    {},
]
VALUES: Final[dict[str, list[Any]]] = {
    "year": [2019, 2020, -3, 0],
    "lang": ["en", "de", "", "e", 'it\'s 50% "off"', "x' or 1=1 --"],
    "tags": ["a", "b", "ü", "a b"],
    "x": [0.5, -1.0, 1.5],
    "good": [1, 0],
    "never": ["a"],
}
ORDERED: Final = (Op.EQ, Op.NE, Op.GT, Op.GTE, Op.LT, Op.LTE, Op.IN, Op.NIN)
OPERATORS: Final[dict[str, tuple[Op, ...]]] = {
    "year": ORDERED,
    "x": ORDERED,
    "lang": (*ORDERED, Op.CONTAINS, Op.TEXT_MATCH, Op.TEXT_MATCH_INSENSITIVE, Op.ANY, Op.ALL),
    "tags": (Op.CONTAINS, Op.ANY, Op.ALL),
    "good": (Op.EQ, Op.NE),
    "never": (Op.EQ, Op.NE, Op.IN, Op.NIN, Op.CONTAINS, Op.ANY, Op.ALL),
}
MANY: Final = (Op.IN, Op.NIN, Op.ANY, Op.ALL)


@pytest.fixture(scope="module")
def filtered() -> Iterator[VocabtoolVectorStore]:
    with temporary_folder() as folder:
        store = VocabtoolVectorStore(Index.create(Path(folder, "index"), dim=DIM))
        store.add([node(at, **metadata) for at, metadata in enumerate(METADATA)])
        yield store


def every_filter() -> Iterator[MetadataFilter]:
    for key, operators in OPERATORS.items():
        yield MetadataFilter(key=key, value=None, operator=Op.IS_EMPTY)
        for operator in operators:
            values: list[Any] = VALUES[key]
            if operator in MANY:
                values = [values[:1], values[:2], values[2:], []]
            for value in values:
                if operator is not Op.TEXT_MATCH_INSENSITIVE or "%" not in value:
                    yield MetadataFilter(key=key, value=value, operator=operator)


def selected(filters: MetadataFilters) -> list[str]:
    """By LlamaIndex, also nested: one level at a time."""
    by_id = {f"n{at}": metadata for at, metadata in enumerate(METADATA)}
    results: dict[str, list[bool]] = {id_: [] for id_ in by_id}
    for item in filters.filters:
        if isinstance(item, MetadataFilters):
            inner = selected(item)
            holds = [id_ in inner for id_ in by_id]
        else:
            one = MetadataFilters(filters=[item])
            holds = [*map(build_metadata_filter_fn(by_id.__getitem__, one), by_id)]
        for id_, hold in zip(by_id, holds, strict=True):
            results[id_].append(hold)
    if filters.condition == FilterCondition.NOT:
        return [id_ for id_, holds in results.items() if not any(holds)]
    join = any if filters.condition == FilterCondition.OR else all
    return [id_ for id_, holds in results.items() if join(holds)]


def test_every_operator_selects_what_llama_index_selects(filtered: VocabtoolVectorStore) -> None:
    count = 0
    for item in every_filter():
        for condition in (None, *FilterCondition):  # None is "and"
            nested_filters = MetadataFilters(filters=[item], condition=condition)
            ours = [one.node_id for one in filtered.get_nodes(filters=nested_filters)]
            assert ours == selected(nested_filters), nested_filters
            count += 1
    assert count > 300


def test_nested_filters_and_what_they_restrict(filtered: VocabtoolVectorStore) -> None:
    draw, filters = random.Random(30), [*every_filter()]

    def tree(depth: int) -> MetadataFilters:
        parts: list[Any] = draw.choices(filters, k=draw.randint(1, 3))
        if depth:
            parts.append(tree(depth - 1))
        return MetadataFilters(filters=parts, condition=draw.choice([*FilterCondition]))

    for _ in range(200):
        nested_filters = tree(draw.randint(0, 3))
        wanted = selected(nested_filters)
        query = query_of(
            query_embedding=vector(2).tolist(), filters=nested_filters, similarity_top_k=9
        )
        assert sorted(filtered.query(query).ids or ()) == sorted(wanted), nested_filters
        query.node_ids, query.doc_ids = ["n0", "n1", "n2", "n3"], ["doc0", "doc1"]
        assert {*(filtered.query(query).ids or ())} == {"n0", "n1", "n3"} & {*wanted}


REFUSED: Final[dict[str, tuple[MetadataFilters, str]]] = {
    "kind": (equals("year", "x"), "whole numbers"),
    "no value": (equals("year", None), "'==' of 'year' needs a value"),
    "any": (equals("tags", "a", Op.ANY), "'any' of 'tags' needs a list"),
    "insensitive": (equals("lang", "5%", Op.TEXT_MATCH_INSENSITIVE), "without % and _"),
    "name": (equals("", 1), "name of a field"),
}


@pytest.mark.parametrize(("filters", "message"), REFUSED.values(), ids=REFUSED)
def test_other_filters_are_refused_by_name(
    filtered: VocabtoolVectorStore, filters: MetadataFilters, message: str
) -> None:
    for act in (filtered.get_nodes, filtered.delete_nodes):
        with pytest.raises(InvalidCondition, match=message):
            act(filters=filters)
    deep = filters
    for _ in range(30):
        deep = MetadataFilters(filters=[deep], condition=FilterCondition.NOT)
    with pytest.raises(InvalidCondition, match="nested filters"):
        filtered.query(query_of(query_embedding=[0.0] * DIM, filters=deep))
    assert len(filtered.client) == len(METADATA)


def test_other_queries_are_refused(filtered: VocabtoolVectorStore) -> None:
    with pytest.raises(ValueError, match="got 'svm'"):
        filtered.query(query_of(Mode.SVM, query_embedding=[1.0] * DIM))
    with pytest.raises(ValueError, match="needs the query's vector"):
        filtered.query(query_of(query_str="amber"))


# Changes.


def ids(store: VocabtoolVectorStore) -> list[str]:
    return [item.node_id for item in store.get_nodes()]


def test_changes_of_an_empty_and_a_full_index(store: VocabtoolVectorStore) -> None:
    assert store.query(query_of(query_embedding=[1.0] * DIM, filters=equals("a", 1))).ids == []
    store.delete("doc0")
    store.clear()
    store.add([])
    store.add([node(number, n=number) for number in range(9)])
    store.delete_nodes(filters=equals("n", 5, Op.LTE))
    store.delete_nodes(["n7", "n8", "n99"])
    assert ids(store) == ["n6"]
    changed = node(6, n=7)
    changed.text = "ember"
    store.add([changed])
    assert [(item.get_content(), item.metadata) for item in store.get_nodes()] == [
        ("ember", {"n": 7})
    ]
    assert [item.node_id for item in store.get_nodes(["x", "n6", "n6"])] == ["n6"]
    with pytest.raises(ValueError, match=r"to delete all nodes, call clear\(\)"):
        store.delete_nodes()
    assert store.get_nodes(["n6"], equals("n", 5)) == []
    assert [item.node_id for item in store.get_nodes(["n6", "n5"], equals("n", 7))] == ["n6"]
    with pytest.raises(VocabtoolError, match="no encoder"):
        store.add([node(1), TextNode(id_="n2", text="x")])
    store.clear()
    assert ids(store) == []


CHANGES: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "no source": ("delete", (None,)),
    "a source": ("delete", ("doc1",)),
    "an empty source": ("delete", ("",)),
    "no ids": ("delete_nodes", ([],)),
    "ids": ("delete_nodes", (["n1", "x"],)),
    "ids and filters": ("delete_nodes", (["n1", "n2"], equals("n", 2))),
    "no ids, and filters": ("delete_nodes", ([], equals("n", 2))),
}


@pytest.mark.parametrize(("name", "given"), CHANGES.values(), ids=CHANGES)
def test_deletions_are_those_of_the_simple_store(
    store: VocabtoolVectorStore, name: str, given: tuple[Any, ...]
) -> None:
    simple, nodes = SimpleVectorStore(), [node(number, n=number) for number in range(4)]
    nodes.append(TextNode(id_="alone", text="amber", embedding=vector(4).tolist()))
    for item in (store, simple):
        item.add(nodes)
        getattr(item, name)(*given)
    assert sorted(ids(store)) == sorted(simple.data.embedding_dict)


@pytest.mark.parametrize("wanted", [None, [], ["n1", "n3", "x"]])
def test_ids_in_a_query_are_those_of_the_simple_store(
    store: VocabtoolVectorStore, wanted: list[str] | None
) -> None:
    simple, query = (
        SimpleVectorStore(),
        query_of(query_embedding=vector(2).tolist(), node_ids=wanted),
    )
    for item in (store, simple):
        item.add([node(number) for number in range(6)])
    assert store.query(query).ids == simple.query(query).ids
    query.doc_ids = []  # allows none; the simple store ignores it
    assert store.query(query).ids == []


def test_async_is_the_same(store: VocabtoolVectorStore) -> None:
    async def act() -> list[str]:
        await store.async_add([node(number) for number in range(9)])
        query = query_of(query_embedding=vector(4).tolist(), similarity_top_k=3)
        assert (await store.aquery(query)).ids == store.query(query).ids
        await store.adelete("doc0")
        await store.adelete_nodes(["n1"])
        results = [item.node_id for item in await store.aget_nodes()]
        await store.aclear()
        return results

    assert asyncio.run(act()) == ["n2", "n4", "n5", "n7", "n8"]
    assert store.get_nodes() == []


def test_stores_and_embeddings_are_opened_again_from_what_they_tell(tmp_path: Path) -> None:
    store = VocabtoolVectorStore(made(tmp_path / "index"), settings={"depth": 7})
    words = tmp_path / "words.txt"
    words.write_text("amber 1.5 2.0\nbirch 3.0 4.0\n")
    embedding = VocabtoolEmbedding(f"static:{words}", {"weights": "none"}, embed_batch_size=5)
    for one in (store, embedding):
        copies = [type(one).from_json(one.to_json()), pickle.loads(pickle.dumps(one))]
        assert [item.to_dict() for item in copies] == [one.to_dict()] * 2
    again = VocabtoolVectorStore.from_json(store.to_json())
    assert len(again.get_nodes()) == 10
    opened = VocabtoolEmbedding.from_json(embedding.to_json())
    assert opened.get_text_embedding("birch") == embedding.get_query_embedding("birch")
    many = asyncio.run(opened.aget_text_embedding_batch(["amber", "birch"] * 4))
    assert many == embedding.get_text_embedding_batch(["amber", "birch"] * 4)
    assert np.allclose(many[1], np.array([3, 4]) / 5)
    assert asyncio.run(opened.aget_query_embedding("amber")) == many[0]


def test_inside_a_vector_store_index(tmp_path: Path) -> None:
    """As programs use it, from documents to a retriever, with the model of the index."""
    index = Index.create(tmp_path / "index", letters)
    assert index.encoder is not None
    embedding = VocabtoolEmbedding(index.encoder)
    store = VocabtoolVectorStore(index)
    texts = ["amber abacus", "cedar SKU-48", "birch bark", "eel"]
    documents = [schema.Document(id_=f"d{at}", text=text) for at, text in enumerate(texts)]
    whole = VectorStoreIndex(
        [
            TextNode(text=item.text, relationships={Relation.SOURCE: item.as_related_node_info()})
            for item in documents
        ],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=embedding,
    )
    retriever = whole.as_retriever(similarity_top_k=2, vector_store_query_mode="hybrid")
    assert retriever.retrieve("where is SKU-48?")[0].node.get_content() == "cedar SKU-48"
    whole.delete_ref_doc("d1")
    again = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    results = asyncio.run(again.as_retriever(similarity_top_k=9).aretrieve("birch bark"))
    assert results[0].node.get_content() == "birch bark"
    assert {item.node.get_content() for item in results} == {texts[0], texts[2], texts[3]}
