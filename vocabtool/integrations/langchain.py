"""An index as a vector store or retriever of LangChain, and an encoder as LangChain's embeddings.

Metadata become fields, which filters can test. Metadata are returned exactly as written.
"""

from __future__ import annotations

import json
import reprlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import tanh
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr

from vocabtool.documents.batch import Document as Stored
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import Model, open_encoder
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.index.index import Index
from vocabtool.integrations import adapter
from vocabtool.integrations.adapter import check_depth, comparison, join, refuse
from vocabtool.search.hits import Hit

if TYPE_CHECKING:
    from langchain_core.callbacks.manager import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )

K: Final = 4  # documents, as in other vector stores of LangChain
OPERATORS: Final[dict[str, adapter.Operator]] = {
    **{"$eq": "=", "$ne": "!=", "$lt": "<", "$lte": "<=", "$gt": ">", "$gte": ">="},
    **{"$in": "in", "$nin": "not in", "$between": "between"},
    **{"$like": "like", "$ilike": "ilike", "$contains": "contains"},
}
JUNCTIONS: Final = ("$and", "$or", "$not")
OF_FIELDS: Final = (*OPERATORS, "$exists", "$not")

Filter = str | Mapping[str, Any] | None


class VocabtoolEmbeddings(Embeddings):
    """The vectors of an encoder, as embeddings of LangChain.

    - ``model``, ``options``: the arguments of :func:`vocabtool.open_encoder`. The model is opened,
      and errors are raised, when the first text is encoded.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self.options = options

    @cached_property
    def encoder(self) -> Encoder:
        return open_encoder(self.model, **self.options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector of :attr:`Encoder.dim` numbers for each text."""
        return cast(list[list[float]], self.encoder.encode(texts).tolist())

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query. If the model has a prompt for queries, it is used."""
        return cast(list[float], self.encoder.encode_queries([text])[0].tolist())


class VocabtoolVectorStore(VectorStore):
    """An index as a vector store. Its search is hybrid: by vectors and keywords.

    - ``index``: an open index, or the path of an index, as in :meth:`vocabtool.Index.open`.
    - ``embedding``: the embeddings or the model for documents and queries. Default: the model of
      the index. If ``index`` is a path, a model or :class:`VocabtoolEmbeddings` is passed to
      :meth:`vocabtool.Index.open`. Embeddings of another library are used by the store only.

    The search methods take ``k``, ``filter``, ``explain`` and other arguments of
    :meth:`vocabtool.Index.search`, such as ``fusion="dense"``. ``filter`` is a condition or a
    dictionary, see :func:`condition`. If ``explain`` is true, the metadata of each document have
    the key ``_vocabtool``, see :func:`~vocabtool.integrations.adapter.explanation`.

    Each call sees the newest commit of the index. Several threads may use one store.
    """

    def __init__(
        self, index: Index | str | Path, embedding: Embeddings | Model | None = None
    ) -> None:
        own = _embeddings(embedding)
        if isinstance(index, str | Path):
            if isinstance(own, VocabtoolEmbeddings):
                index, own = Index.open(index, own.model, **own.options), None
            else:
                index = Index.open(index)
        self.index = index
        self._embedding = own

    @property
    def embeddings(self) -> Embeddings | None:
        """The embeddings of documents and queries, or ``None`` if there is no model."""
        if self._embedding is None and (encoder := self.index.encoder) is not None:
            return VocabtoolEmbeddings(encoder)
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | Model,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path | None = None,
        **options: Any,
    ) -> Self:
        """Add texts to the index at ``path``, which is created if it does not exist.

        - ``embedding``: as in the class. A new index records the model, unless ``embedding`` is an
          object of another library.
        - ``options``: the arguments of :meth:`vocabtool.Index.create`, for a new index.

        Raises the errors of :meth:`vocabtool.Index.create`, :meth:`vocabtool.Index.open` and
        :meth:`add_texts`, and ``ValueError`` if ``path`` or ``embedding`` is ``None``.
        """
        own = _embeddings(embedding)
        if path is None or own is None:
            missing = "path" if path is None else "embedding"
            raise ValueError(f"{missing} is missing: pass path=FOLDER and embedding=MODEL")
        # Before the index is created: if metadata are wrong or an embedding fails, none stays.
        documents = _documents(texts, metadatas, ids)
        vectors = None if isinstance(own, VocabtoolEmbeddings) else own.embed_documents(texts)
        try:
            store = cls(path, own)
        except NotFound:
            if isinstance(own, VocabtoolEmbeddings):
                options = {"sample": texts, **own.options, **options}
                store = cls(Index.create(path, own.model, **options))
            else:
                dim = len(vectors[0] if vectors else own.embed_query("dimension"))
                store = cls(Index.create(path, dim=dim, **options), own)
        adapter.add(store.index, documents, vectors)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **others: Any,
    ) -> list[str]:
        """Add texts in one commit; return their ids.

        - ``metadatas``: the metadata of each text. JSON must be able to represent them. Filters
          find strings, numbers, booleans and lists of such values. They do not find a value if
          earlier values of its key have another type.
        - ``ids``: the id of each text. A document that has this id is replaced. Default: random
          ids.
        - ``others``: only ``batch_size``, which is ignored.

        Raises :class:`VocabtoolError` if JSON would change metadata, ``ValueError`` if the lists
        differ in length, and the errors of :meth:`vocabtool.Writer.add`.
        """
        if unknown := others.keys() - {"batch_size"}:
            raise TypeError(f"add_texts has no argument {min(unknown)!r}")
        texts = [*texts]
        documents = _documents(texts, metadatas, ids)
        vectors = None if self._embedding is None else self._embedding.embed_documents(texts)
        adapter.add(self.index, documents, vectors)
        return [document.id for document in documents]

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in the order of ``ids``. Unknown ids are ignored."""
        self.index.refresh()
        return [
            Document(id=one.id, page_content=one.text, metadata=adapter.metadata_of(one.fields))
            for one in self.index.get_many(ids).values()
        ]

    def delete(self, ids: list[str] | None = None, *, filter: Filter = None, **others: Any) -> bool:  # noqa: A002 - as in LangChain
        """Delete documents in one commit. Unknown ids are ignored.

        ``filter``: delete the documents that match this filter. If both ``ids`` and ``filter`` are
        ``None``, all documents are deleted, as LangChain requires.
        """
        if others:
            raise TypeError(f"delete has no argument {min(others)!r}")
        where = condition(filter)
        if ids is not None and where is not None:
            raise ValueError("pass ids or filter, not both")
        adapter.delete(self.index, ids, where)
        return True

    def _search(
        self,
        query: str | None,
        k: int,
        filter: Filter = None,  # noqa: A002 - as in LangChain
        vector: list[float] | None = None,
        *,
        explained: bool = False,
        **arguments: Any,
    ) -> list[tuple[Document, Hit]]:
        """Search with the arguments of LangChain, and return each hit also as a document.

        Its metadata have the key ``_vocabtool`` if ``explained`` or ``explain`` is true.
        """
        adapter.refuse_where(arguments, "filter, for example filter='year >= 2020'")
        where = condition(filter)
        self.index.refresh()
        if not len(self.index):
            where = None  # there are no fields yet
        if vector is None and self._embedding is not None and arguments.get("fusion") != "keyword":
            vector = self._embedding.embed_query(query or "")
        hits = self.index.search(query, k=k, vector=vector, where=where, **arguments)
        pairs = []
        for hit in hits:
            metadata = adapter.metadata_of(hit.fields)
            if explained or arguments.get("explain"):
                metadata[adapter.EXPLAINED] = adapter.explanation(hits, hit)
            pairs.append((Document(id=hit.id, page_content=hit.text, metadata=metadata), hit))
        return pairs

    def similarity_search(self, query: str, k: int = K, **kwargs: Any) -> list[Document]:
        """Return the best ``k`` documents for a query."""
        return [document for document, _ in self._search(query, k, **kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = K, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents whose vectors are nearest to ``embedding``, shape (dim,)."""
        return [document for document, _ in self._search(None, k, vector=embedding, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = K, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return documents with their :attr:`Hit.score`. Compare scores only within one result."""
        return [(document, hit.score) for document, hit in self._search(query, k, **kwargs)]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = K, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return documents, each with its relevance from 0 to 1, see :func:`relevance`."""
        metric, pairs = self.index.configuration.metric, self._search(query, k, **kwargs)
        return [(document, relevance(hit, metric)) for document, hit in pairs]

    _asimilarity_search_with_relevance_scores = adapter.in_thread(
        _similarity_search_with_relevance_scores
    )


class VocabtoolRetriever(BaseRetriever):
    """The hybrid search of an index as a retriever.

    - ``index``, ``embedding``: as in :class:`VocabtoolVectorStore`.
    - ``k``, ``filter``, ``explain``, ``search_kwargs``: the arguments of every search. Arguments
      of ``invoke`` replace them.

    If the model knows no word of a query, and no document contains a word of the query, the result
    is empty.

    The metadata of each document have the key ``_vocabtool``, see
    :func:`~vocabtool.integrations.adapter.explanation`.
    """

    # A misspelt filter must not be ignored: it may say what a user is allowed to see.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: Any
    embedding: Any = None
    k: int = Field(default=K, ge=1)
    filter: Any = None
    explain: bool = False
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    _store: VocabtoolVectorStore = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._store = VocabtoolVectorStore(self.index, self.embedding)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        own = {"k": self.k, "filter": self.filter, "explain": self.explain}
        arguments: dict[str, Any] = {**own, **self.search_kwargs, **kwargs}
        pairs = self._store._search(query, explained=True, **arguments)
        return [document for document, _ in pairs]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        manager = run_manager.get_sync()
        return await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=manager, **kwargs
        )


def _documents(
    texts: list[str], metadatas: list[dict[str, Any]] | None, ids: list[str] | None
) -> list[Stored]:
    """Return texts as documents, see :meth:`VocabtoolVectorStore.add_texts`."""
    metadatas = metadatas or [{}] * len(texts)
    wanted: Sequence[str | None] = [None] * len(texts) if ids is None else ids
    for name, values in (("metadatas", metadatas), ("ids", wanted)):
        if len(values) != len(texts):
            raise ValueError(f"{len(values):,} {name} for {len(texts):,} texts")
    documents = []
    for text, metadata, given in zip(texts, metadatas, wanted, strict=True):
        id_ = given or str(uuid.uuid4())
        if json.loads(adapter.as_json(metadata, id_)) != metadata:
            what = f"document {id_!r}: its metadata cannot be stored exactly as JSON"
            raise VocabtoolError(f"{what}: {adapter.WANTED}, got {reprlib.repr(metadata)}")
        documents.append(Stored(id_, text, metadata))
    return documents


def condition(given: Filter, depth: int = 0) -> str | None:
    """Return a filter of LangChain as a condition, or ``None`` if the filter is empty.

    A string is returned as it is. In a dictionary, a key is one of:

    - a field, with a value (``{"year": 2024}``) or operators (``{"year": {"$gte": 2020}}``)
    - ``$and`` or ``$or``, with a list of filters
    - ``$not``, with a filter or a list of filters

    Neither a comparison with a missing field nor its negation is true. The exceptions are
    ``$exists`` and comparisons with ``None`` or with an empty list.

    ``depth``: how deep the filter is nested. Raises :class:`InvalidCondition` for wrong filters.
    """
    if given is None or isinstance(given, str):
        return given or None
    if not isinstance(given, Mapping):
        refuse("a filter must be a condition or a dictionary", given)
    check_depth(depth, given)
    tests = [_test(name, value, depth) for name, value in given.items()]
    return join("and", tests) if tests else None


def _test(name: str, value: object, depth: int) -> str:
    """Return the condition for one key of a filter."""
    if name in JUNCTIONS:
        filters = [value] if isinstance(value, Mapping) and name == "$not" else value
        if not isinstance(filters, list | tuple):
            refuse(f"{name!r} needs a list of filters", value)
        inner = [test for one in filters if (test := condition(one, depth + 1)) is not None]
        whole = join("or" if name == "$or" else "and", inner)
        return f"not {whole}" if name == "$not" else whole
    if not isinstance(name, str) or name.startswith("$"):
        adapter.check_operator(name, JUNCTIONS, value)
    field = adapter.field_of(name)
    if not isinstance(value, Mapping):
        return comparison(field, "=", value)
    if not value:
        refuse(f"field {name!r} needs a value or an operator", value)
    tests = []
    for operator, operand in value.items():
        if operator == "$exists":
            tests.append(comparison(field, "is not null" if operand else "is null"))
        elif operator == "$not":
            check_depth(depth, name)
            tests.append(f"not {_test(name, operand, depth + 1)}")
        else:
            adapter.check_operator(operator, OF_FIELDS, {name: value})
            tests.append(comparison(field, OPERATORS[operator], operand))
    return join("and", tests)


def relevance(hit: Hit, metric: str) -> float:
    """Return the relevance of a hit, from 0 to 1, comparable between queries.

    The relevance is 1 if the document contains a whole identifier of the query. Otherwise, it
    depends on the similarity s of the hit:

    - a cosine: max(0, s)
    - a negative squared distance: 1 / (1 - s)
    - an inner product: 1 / (1 + exp(-s))

    If the hit has no similarity, its score is returned, which is not comparable between queries.
    """
    if hit.tier:
        return 1.0
    s = hit.similarity
    if s is None or metric == "cosine":
        return min(max(hit.score if s is None else s, 0.0), 1.0)
    if metric == "inner-product":
        return 0.5 + 0.5 * tanh(s / 2)  # the same without overflow
    return 1 / (1 + max(-s, 0.0))


def _embeddings(given: Embeddings | Model | None) -> Embeddings | None:
    return given if given is None or isinstance(given, Embeddings) else VocabtoolEmbeddings(given)
