"""An index as a vector store of LlamaIndex, and an encoder as LlamaIndex's embedding.

Metadata become fields, which filters can test. Metadata are returned exactly as written. All
other attributes of a node, except its text, are stored as JSON in one field.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    Node,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from vocabtool.documents.batch import Document as StoredDocument
from vocabtool.documents.batch import Kind
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import Model, open_encoder
from vocabtool.index.documents import ID
from vocabtool.index.index import Index
from vocabtool.integrations.metadata import (
    ALWAYS,
    EXPLAINED,
    NEVER,
    NODE,
    REF,
    Operator,
    check_depth,
    comparison,
    explanation,
    field_of,
    fields_of,
    join,
    metadata_of,
    quote_field,
    refuse,
    refuse_where,
)

CLASSES: Final[dict[str, type[BaseNode]]] = {
    each.class_name(): each for each in (Node, IndexNode, ImageNode, Document, ImageDocument)
}
Mode = VectorStoreQueryMode
BY_VECTOR: Final = {"fusion": "dense", "guarantee": False, "literal": True}
MODES: Final[dict[VectorStoreQueryMode, dict[str, Any]]] = {
    **{Mode.DEFAULT: BY_VECTOR, Mode.HYBRID: {}},
    **{Mode.SPARSE: {"fusion": "keyword"}, Mode.TEXT_SEARCH: {"fusion": "keyword"}},
}
Op = FilterOperator
COMPARISONS: Final[dict[FilterOperator, Operator]] = {
    **{Op.EQ: "=", Op.GT: ">", Op.GTE: ">=", Op.LT: "<", Op.LTE: "<=", Op.IN: "in"},
    **{Op.NE: "!=", Op.NIN: "not in", Op.CONTAINS: "contains", Op.TEXT_MATCH: "contains"},
}
OF_MISSING: Final = (Op.NE, Op.NIN, Op.IS_EMPTY)  # true of a node without the metadata


class VocabtoolEmbedding(BaseEmbedding):
    """The vectors of an encoder, as an embedding of LlamaIndex.

    - ``model_name``: a model as in :func:`vocabtool.open_encoder`, for example ``index.encoder``.
    - ``options``: other arguments of :func:`vocabtool.open_encoder`.

    Raises the errors of :func:`vocabtool.open_encoder`.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    _encoder: Encoder = PrivateAttr()

    def __init__(
        self, model_name: Model, options: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        given = {**(options or {})}
        encoder = open_encoder(model_name, **given)
        name = str(model_name) if isinstance(model_name, str | Path) else repr(encoder)
        super().__init__(**{"model_name": name, "options": given, **fields})
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        return "VocabtoolEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return cast(list[float], self._encoder.encode_queries([query])[0].tolist())

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return cast(list[list[float]], self._encoder.encode(texts).tolist())

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class VocabtoolVectorStore(BasePydanticVectorStore):
    """An index as a vector store, with the modes default, hybrid, sparse and text_search.

    - ``path``: the path of an index, as in :meth:`vocabtool.Index.open`, or an open index.
    - ``explain``: whether to explain why each node was found.
    - ``settings``: arguments of every :meth:`vocabtool.Index.search`, such as
      ``{"fusion": "rrf"}``.
    - ``is_embedding_query``: whether LlamaIndex makes the vectors of queries. If false, the model
      of the index makes them.

    If an index was made without LlamaIndex, the fields of its documents become the metadata of
    nodes. Each call sees the newest commit. Several threads may use one store.
    """

    stores_text: bool = True
    path: str
    explain: bool = False
    settings: dict[str, Any] = Field(default_factory=dict)
    _index: Index = PrivateAttr()
    _writing: Lock = PrivateAttr(default_factory=Lock)

    def __init__(self, path: Index | str | Path, **fields: Any) -> None:
        index = Index.open(path) if isinstance(path, str | Path) else path
        super().__init__(**{"path": index.name, **fields})
        self._index = index

    @classmethod
    def class_name(cls) -> str:
        return "VocabtoolVectorStore"

    @property
    def client(self) -> Index:
        """The index."""
        return self._index

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes in one commit; return their ids. A node replaces the node with the same id.

        If no node has an embedding, the model of the index makes the vectors.

        All metadata are stored, but filters find only strings, numbers, booleans and lists of such
        values. Filters do not find a value if earlier values of its key have another type.

        Raises ``ValueError`` if only some nodes have embeddings, and the errors of
        :meth:`vocabtool.Writer.add`.
        """
        if kwargs:
            raise TypeError(f"add has no argument {min(kwargs)!r}")
        vectors = [node.embedding for node in nodes if node.embedding is not None]
        if vectors and len(vectors) < len(nodes):
            without = next(node.node_id for node in nodes if node.embedding is None)
            raise ValueError(f"node {without!r} has no embedding, but other nodes have one")
        with self._writing, self._index.writer() as writer:
            documents = _documents_of(nodes, writer.manifest.fields)
            writer.add(documents, vectors or None, on_existing="update", on_error="skip")
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes whose source is the document ``ref_doc_id``."""
        self._delete(_restrict(REF, [ref_doc_id], self._fields()))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        await asyncio.to_thread(self.delete, ref_doc_id)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete the nodes that have one of these ids and match the filters.

        If one argument is ``None``, only the other is used. Raises ``ValueError`` if both are
        ``None``, and :class:`vocabtool.InvalidCondition` for an invalid filter.
        """
        if node_ids is None and filters is None:
            raise ValueError("pass node_ids or filters; to delete all nodes, call clear()")
        where = condition(filters, self._fields())
        if node_ids is None:
            self._delete(where or ALWAYS)
            return
        if where is not None:
            found = {*self._index.ids(where)}
            node_ids = [each for each in node_ids if each in found]
        with self._writing:
            self._index.delete(node_ids)

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    def clear(self) -> None:
        """Delete all nodes."""
        self._delete(ALWAYS)

    async def aclear(self) -> None:
        await asyncio.to_thread(self.clear)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes that have one of these ids and match the filters.

        An argument that is ``None`` is ignored. The nodes are in the order of ``node_ids``. Without
        ``node_ids``, they are in the order in which they were added.
        """
        where = condition(filters, self._fields())
        if node_ids is None:
            return [*map(_node_of, self._index.documents(where))]
        chosen = None if where is None else {*self._index.ids(where)}
        wanted = (each for each in node_ids if chosen is None or each in chosen)
        return [*map(_node_of, self._index.get_many(wanted).values())]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Search the index; ``kwargs`` replace ``explain`` and ``settings`` of the store.

        The mode ``default`` searches by vectors alone, and its scores are similarities. In all
        other modes, the scores are those of :meth:`vocabtool.Index.search`.
        In the mode ``hybrid``, ``alpha`` of the query is the weight of the vectors, and documents
        that contain an identifier from the text of the query, such as ``os.path``, come first.

        The metadata of each node have the key ``_vocabtool`` with the facts that
        :func:`~vocabtool.integrations.metadata.explanation` lists. The key is excluded from prompts
        and embeddings.

        Raises ``ValueError`` for an unknown mode, :class:`vocabtool.InvalidCondition` for an
        invalid filter, and the errors of :meth:`vocabtool.Index.search`.
        """
        by_vector = query.mode is Mode.DEFAULT
        arguments = self._arguments(query, kwargs)
        if by_vector and query.query_embedding is None and not self._index.can_encode:
            raise ValueError(
                f"the mode {query.mode.value!r} needs query_embedding: {self.path} has no model"
            )
        hits = self._index.search(query.query_str or None, **arguments)
        nodes = []
        for hit in hits:
            node = _node_of(StoredDocument(hit.id, hit.text, hit.fields))
            node.metadata[EXPLAINED] = explanation(hits, hit)
            node.excluded_llm_metadata_keys.append(EXPLAINED)
            node.excluded_embed_metadata_keys.append(EXPLAINED)
            nodes.append(node)
        return VectorStoreQueryResult(
            nodes=nodes,
            similarities=[
                hit.similarity if by_vector and hit.similarity is not None else hit.score
                for hit in hits
            ],
            ids=[hit.id for hit in hits],
        )

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return await asyncio.to_thread(self.query, query, **kwargs)

    def _arguments(self, query: VectorStoreQuery, given: Mapping[str, Any]) -> dict[str, Any]:
        mode, k = Mode(query.mode), query.similarity_top_k
        if mode not in MODES:
            there = ", ".join(each.value for each in MODES)
            raise ValueError(f"the mode must be one of {there}, got {mode.value!r}")
        for name in ("output_fields", "embedding_field"):
            if getattr(query, name) is not None:
                raise ValueError(f"{name} is not supported: leave it out")
        fields = self._fields()
        parts = [condition(query.filters, fields)]
        for field, ids in ((ID, query.node_ids), (REF, query.doc_ids)):
            parts.append(_restrict(field, ids, fields) if ids else None)
        there_are = [part for part in parts if part is not None]
        arguments = {
            "explain": self.explain,
            "where": join("and", there_are) if there_are else None,
            **MODES[mode],
        }
        if mode in (Mode.DEFAULT, Mode.HYBRID):
            arguments["vector"] = query.query_embedding
        if mode is Mode.HYBRID:
            k = query.hybrid_top_k or k
            arguments["a"] = None if query.alpha is None else 1 - query.alpha
        elif mode in (Mode.SPARSE, Mode.TEXT_SEARCH):
            k = query.sparse_top_k or k
        refuse_where({*self.settings, *given}, "filters of the query")
        return {"k": k, **self.settings, **arguments, **given}

    def _fields(self) -> Mapping[str, Kind]:
        """Return the fields of the newest commit."""
        self._index.refresh()
        return self._index.manifest.fields

    def _delete(self, where: str) -> None:
        with self._writing:
            self._index.delete(where=where, force=True)


def condition(filters: MetadataFilters | None, fields: Mapping[str, Kind]) -> str | None:
    """Return filters as a condition, or ``None`` if ``filters`` is ``None``.

    ``fields``: the fields of the index.

    If a node does not have the metadata key of a filter, the operators ``!=``, ``nin`` and
    ``is_empty`` are true. All other operators are false, so a ``not`` of one of them is true.

    Raises :class:`vocabtool.InvalidCondition` for a filter that no condition can express.
    """
    return None if filters is None else _condition(filters, fields, 0)


def _condition(filters: MetadataFilters, fields: Mapping[str, Kind], depth: int) -> str:
    check_depth(depth, filters)
    parts = [
        _condition(each, fields, depth + 1)
        if isinstance(each, MetadataFilters)
        else _test(each, fields)
        for each in filters.filters
    ]
    if not parts:
        return ALWAYS
    if filters.condition == FilterCondition.NOT:  # none of them
        return f"not {join('or', parts)}"
    return join("or" if filters.condition == FilterCondition.OR else "and", parts)


def _test(asked: MetadataFilter, fields: Mapping[str, Kind]) -> str:
    """Return one filter as a condition that is true or false even if the field is missing."""
    name, operator, value = field_of(asked.key), asked.operator, asked.value
    what = f"{operator.value!r} of {asked.key!r}"
    quote_field(asked.key)  # raises if it is no name
    if (kind := fields.get(name, "null")) == "null":
        return ALWAYS if operator in OF_MISSING else NEVER
    if operator == Op.IS_EMPTY:
        return comparison(name, "in", [None, "", "[]"] if kind == "string" else [None])
    if value is None:
        refuse(f"{what} needs a value", value)
    if kind == "boolean" and value in (0, 1):  # a filter cannot have a boolean
        value = bool(value)
    if operator in COMPARISONS:
        test = comparison(name, COMPARISONS[operator], value)
    elif operator in (Op.ANY, Op.ALL):
        if not isinstance(value, list):
            refuse(f"{what} needs a list of values", value)
        tests = [comparison(name, "contains", each) for each in value]
        empty = ALWAYS if operator == Op.ALL else NEVER
        test = join("and" if operator == Op.ALL else "or", tests or [empty])
    elif operator == Op.TEXT_MATCH_INSENSITIVE:
        if not isinstance(value, str) or {*"%_"} & {*value}:
            refuse(f"{what} needs a text without % and _", value)
        test = comparison(name, "ilike", f"%{value}%")
    else:
        refuse(f"{what} is not known", value)
    if operator in OF_MISSING:
        return join("or", [comparison(name, "is null"), test])
    return join("and", [comparison(name, "is not null"), test])


def _restrict(field: str, values: list[str], fields: Mapping[str, Kind]) -> str:
    return comparison(field, "in", values) if field == ID or field in fields else NEVER


def _documents_of(nodes: Sequence[BaseNode], known: Mapping[str, Kind]) -> list[StoredDocument]:
    """Return nodes as documents. What a node has beside its text is JSON in the field ``_node``."""
    contents, metadatas, documents = [], [], []
    for node in nodes:
        content = node.model_dump(mode="json", exclude={"embedding"}, exclude_defaults=True)
        metadata = content.pop("metadata", {})
        if metadata.pop(EXPLAINED, None) is not None:  # of the search that found the node
            for name in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
                content[name] = [key for key in content.get(name, ()) if key != EXPLAINED]
        content.pop("text", None)  # it is the text of the document
        if content.get("text_resource"):
            content["text_resource"].pop("text", None)
        contents.append(content)
        metadatas.append(metadata)
    for node, content, fields in zip(nodes, contents, fields_of(metadatas, known), strict=True):
        fields[NODE] = json.dumps(content)
        if node.ref_doc_id is not None:
            fields[REF] = node.ref_doc_id
        text = node.get_content(MetadataMode.NONE)
        documents.append(StoredDocument(node.node_id, text, fields))
    return documents


def _node_of(document: StoredDocument) -> BaseNode:
    metadata = metadata_of(document.fields)
    with suppress(ValueError, TypeError, RecursionError):  # else the field is not ours
        content = json.loads(str(document.fields.get(NODE)))
        if isinstance(content, dict):
            made = CLASSES.get(content.get("class_name", ""), TextNode)
            if content.get("text_resource") is not None:
                content["text_resource"]["text"] = document.text
            elif issubclass(made, TextNode):
                content["text"] = document.text
            return made.from_dict({**content, "metadata": metadata})
    return TextNode(id_=document.id, text=document.text, metadata=metadata)
