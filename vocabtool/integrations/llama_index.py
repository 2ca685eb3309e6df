"""An index as a vector store of LlamaIndex, and an encoder as LlamaIndex's embedding.

All attributes of a node except its text and metadata are stored as JSON in one field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from llama_index.core import schema
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores import types
from llama_index.core.vector_stores.types import FilterOperator as Op
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode

from vocabtool.documents.batch import Document, Kind
from vocabtool.documents.options import ID
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import Model, open_encoder
from vocabtool.index.index import Index
from vocabtool.integrations import adapter
from vocabtool.integrations.adapter import EXPLAINED, NODE, REF, compare, invalid, join
from vocabtool.search.hits import Hit

# The arguments of a search, and the member of the query that has the number of nodes.
MODES: Final[dict[Mode, tuple[dict[str, Any], str]]] = {
    Mode.DEFAULT: ({"fusion": "dense", "guarantee": False, "literal": True}, "similarity_top_k"),
    Mode.HYBRID: ({}, "hybrid_top_k"),
    **dict.fromkeys((Mode.SPARSE, Mode.TEXT_SEARCH), ({"fusion": "keyword"}, "sparse_top_k")),
}
COMPARISONS: Final[dict[Op, adapter.Operator]] = {
    **{Op.EQ: "=", Op.GT: ">", Op.GTE: ">=", Op.LT: "<", Op.LTE: "<=", Op.IN: "in"},
    **{Op.NE: "!=", Op.NIN: "not in", Op.CONTAINS: "contains", Op.TEXT_MATCH: "contains"},
}
# What the JSON of a node becomes. ImageDocument is left out: it opens the address in its JSON.
CLASSES: Final[dict[str, type[BaseNode]]] = {
    kind.get_type(): kind
    for kind in (TextNode, schema.Document, schema.IndexNode, schema.ImageNode, schema.Node)
}


class VocabtoolEmbedding(BaseEmbedding):
    """The vectors of an encoder, as an embedding of LlamaIndex.

    - ``model_name``: a model as in :func:`vocabtool.open_encoder`, for example ``index.encoder``.
    - ``options``: other arguments of :func:`vocabtool.open_encoder`, whose errors are raised.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    _encoder: Encoder = PrivateAttr()

    def __init__(
        self, model_name: Model, options: dict[str, Any] | None = None, **fields: Any
    ) -> None:
        encoder = open_encoder(model_name, **(options or {}))
        name = str(model_name) if isinstance(model_name, str | Path) else repr(encoder)
        super().__init__(**{"model_name": name, "options": options or {}, **fields})
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        return "VocabtoolEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return cast(list[float], self._encoder.encode_queries([query])[0].tolist())

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return cast(list[list[float]], self._encoder.encode(texts).tolist())

    _aget_query_embedding = adapter.in_thread(_get_query_embedding)
    _aget_text_embeddings = adapter.in_thread(_get_text_embeddings)


class VocabtoolVectorStore(types.BasePydanticVectorStore):
    """An index as a vector store, with the modes default, hybrid, sparse and text_search.

    - ``path``: the path of an index, as in :meth:`vocabtool.Index.open`, or an open index.
    - ``settings``: arguments of every :meth:`vocabtool.Index.search`, such as
      ``{"fusion": "rrf", "explain": True}``.
    - ``is_embedding_query``: whether LlamaIndex makes the vectors of queries. If false, the model
      of the index makes them.

    Each call sees the newest commit. Several threads may use one store.
    """

    stores_text: bool = True
    path: str
    settings: dict[str, Any] = Field(default_factory=dict)
    _index: Index = PrivateAttr()

    def __init__(self, path: Index | str | Path, **fields: Any) -> None:
        index = Index.open(path) if isinstance(path, str | Path) else path
        super().__init__(**{"path": index.name, **fields})
        self._index = index

    @classmethod
    def class_name(cls) -> str:
        return "VocabtoolVectorStore"

    @property
    def client(self) -> Index:
        return self._index

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes in one commit; return their ids. A node replaces the node with the same id.

        The model of the index makes the vectors of nodes without an embedding. Metadata are stored
        as :func:`~vocabtool.integrations.adapter.document_of` says. Raises its errors and those of
        :meth:`vocabtool.Writer.add`.
        """
        documents = [*map(_document_of, nodes)]
        adapter.add(self._index, documents, [node.embedding for node in nodes])
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str | None, **delete_kwargs: Any) -> None:
        """Delete all nodes whose source is the document ``ref_doc_id``; with ``None``, no node."""
        sources = [] if ref_doc_id is None else [ref_doc_id]
        adapter.delete(self._index, where=self._where(None, {REF: sources}))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: types.MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete the nodes that have one of these ids and match the filters.

        Raises ``ValueError`` without both, and :class:`vocabtool.InvalidCondition` for an invalid
        filter.
        """
        if node_ids is None and filters is None:
            raise ValueError("pass node_ids or filters; to delete all nodes, call clear()")
        if filters is None:
            adapter.delete(self._index, node_ids)
        else:
            adapter.delete(self._index, where=self._where(filters, {ID: node_ids}))

    def clear(self) -> None:
        adapter.delete(self._index, where=adapter.ALWAYS)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: types.MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes that have one of these ids and match the filters.

        They are in the order of the ids; with filters, in the order in which they were added.
        """
        where = self._where(filters, {} if filters is None else {ID: node_ids})
        if where is None and node_ids is not None:
            return [*map(_node_of, self._index.get_many(node_ids).values())]
        return [*map(_node_of, self._index.documents(where))]

    def query(self, query: types.VectorStoreQuery, **kwargs: Any) -> types.VectorStoreQueryResult:
        """Search the index; ``kwargs`` replace ``settings`` of the store.

        The mode ``default`` searches by vectors alone, and its scores are similarities. In the mode
        ``hybrid``, ``alpha`` of the query is the weight of the vectors.

        An empty list in ``node_ids`` or ``doc_ids`` allows no node. But with the text of a query,
        empty ``node_ids`` allow all nodes: ``VectorStoreIndex.as_retriever`` always passes them.

        The metadata of each node have the key ``_vocabtool``, see
        :func:`~vocabtool.integrations.adapter.why_found`. Prompts and embeddings leave it out.

        Raises ``ValueError`` for an unknown mode, :class:`vocabtool.InvalidCondition` for an
        invalid filter, and the errors of :meth:`vocabtool.Index.search`.
        """
        mode = Mode(query.mode)
        if mode not in MODES:
            modes = ", ".join(known.value for known in MODES)
            raise ValueError(f"the mode must be one of {modes}, got {mode.value!r}")
        arguments, top_k = MODES[mode]
        k = getattr(query, top_k) or query.similarity_top_k
        settings = {"k": k, "vector": query.query_embedding, **self.settings, **arguments}
        if query.alpha is not None:
            settings["a"] = 1 - query.alpha
        ids = query.node_ids
        if query.query_str is not None and not ids:
            ids = None
        where = self._where(query.filters, {ID: ids, REF: query.doc_ids})
        hits = self._index.search(query.query_str or None, where=where, **{**settings, **kwargs})
        nodes = [*map(_node_of, hits)]
        for node, hit in zip(nodes, hits, strict=True):
            node.metadata = adapter.why_found(hits, hit)
            node.excluded_llm_metadata_keys.append(EXPLAINED)
            node.excluded_embed_metadata_keys.append(EXPLAINED)
        ids, scores = [hit.id for hit in hits], [hit.score for hit in hits]
        return types.VectorStoreQueryResult(nodes=nodes, similarities=scores, ids=ids)

    async_add = adapter.in_thread(add)
    adelete = adapter.in_thread(delete)
    adelete_nodes = adapter.in_thread(delete_nodes)
    aclear = adapter.in_thread(clear)
    aget_nodes = adapter.in_thread(get_nodes)
    aquery = adapter.in_thread(query)

    def _where(
        self, filters: types.MetadataFilters | None, one_of: Mapping[str, list[str] | None]
    ) -> str | None:
        """Also refresh the index. ``one_of``: the values that fields may have; ``None``: any."""
        self._index.refresh()
        fields = self._index.manifest.fields
        lists = ((field, values) for field, values in one_of.items() if values is not None)
        tests = [compare(field, "in", values, fields) for field, values in lists]
        if filters is not None:
            tests.append(_condition_of(filters, fields))
        return join("and", tests) if tests else None


def _condition_of(
    filter_: types.MetadataFilters | types.MetadataFilter,
    fields: Mapping[str, Kind],
    depth: int = 0,
) -> str:
    """``depth``: number of filters around this one. Raises :class:`InvalidCondition`."""
    adapter.check_depth(depth, filter_)
    if isinstance(filter_, types.MetadataFilters):
        tests = [_condition_of(item, fields, depth + 1) for item in filter_.filters]
        if not tests or filter_.condition in (None, types.FilterCondition.AND):
            return join("and", tests)
        any_test = join("or", tests)
        return any_test if filter_.condition == types.FilterCondition.OR else f"not {any_test}"
    name, operator, value = adapter.field_of(filter_.key), filter_.operator, filter_.value
    what, kind = f"{operator.value!r} of {filter_.key!r}", fields.get(name, "null")
    if operator == Op.IS_EMPTY:
        return compare(name, "in", [None, "", "[]"] if kind == "string" else [None], fields)
    if value is None:
        raise invalid(f"{what} needs a value", value)
    if kind == "boolean" and value in (0, 1):  # a filter cannot have a boolean
        value = bool(value)
    if operator in COMPARISONS:
        return compare(name, COMPARISONS[operator], value, fields)
    if operator in (Op.ANY, Op.ALL):
        if not isinstance(value, list):
            raise invalid(f"{what} needs a list of values", value)
        tests = [compare(name, "contains", item, fields) for item in value]
        if operator == Op.ANY:
            return join("or", tests)
        return join("and", [compare(name, "!=", None, fields), *tests])
    if operator != Op.TEXT_MATCH_INSENSITIVE:
        raise invalid(f"{what} is not known", value)
    if not isinstance(value, str) or {*"%_"} & {*value}:
        raise invalid(f"{what} needs a text without % and _", value)
    return compare(name, "ilike", f"%{value}%", fields)


def _document_of(node: BaseNode) -> Document:
    """Return a node as a document. What else the node has becomes a field with JSON."""
    # The text of a node is the text of the document.
    left_out: Any = {"embedding": True, "metadata": True, "text": True, "text_resource": {"text"}}
    content = node.model_dump(mode="json", exclude=left_out, exclude_defaults=True)
    stored = json.dumps({TYPE_KEY: node.get_type(), DATA_KEY: content})
    others = {NODE: stored, REF: node.ref_doc_id}
    text = node.get_content(schema.MetadataMode.NONE)
    return adapter.document_of(node.node_id, text, node.metadata, others)


def _node_of(document: Document | Hit) -> BaseNode:
    """Return the node that :func:`_document_of` made this document from; else a ``TextNode``."""
    metadata = adapter.metadata_of(document.fields)
    with suppress(ValueError, TypeError, LookupError, RecursionError):  # else the field is not ours
        node = json.loads(str(document.fields.get(NODE)))
        content = {**node[DATA_KEY], "metadata": metadata}
        if document.text:  # a TextNode has it too
            content["text_resource"] = {**content.get("text_resource", {}), "text": document.text}
        return CLASSES[node[TYPE_KEY]].from_dict(content)
    return TextNode(id_=document.id, text=document.text, metadata=metadata)
