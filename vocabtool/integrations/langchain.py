"""An index as a vector store or retriever of LangChain, and an encoder as its embeddings."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import ConfigDict

from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import Model, open_encoder
from vocabtool.errors import NotFound
from vocabtool.index.index import Index
from vocabtool.integrations import adapter
from vocabtool.integrations.adapter import compare, invalid, join

K: Final = 4  # documents, as in other vector stores of LangChain
OPERATORS: Final[dict[str, adapter.Operator]] = {
    **{"$eq": "=", "$ne": "!=", "$lt": "<", "$lte": "<=", "$gt": ">", "$gte": ">="},
    **{"$in": "in", "$nin": "not in"},
    **{"$like": "like", "$ilike": "ilike", "$contains": "contains"},
}
JUNCTIONS: Final = ("$and", "$or", "$not")

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
    the key ``_vocabtool``, see :func:`~vocabtool.integrations.adapter.why_found`.

    Each call sees the newest commit of the index. Several threads may use one store.
    """

    def __init__(
        self, index: Index | str | Path, embedding: Embeddings | Model | None = None
    ) -> None:
        embeddings = _embeddings(embedding)
        if isinstance(index, str | Path) and isinstance(embeddings, VocabtoolEmbeddings):
            # The index has the model, so the store needs no embeddings.
            index, embeddings = Index.open(index, embeddings.model, **embeddings.options), None
        self.index = Index.open(index) if isinstance(index, str | Path) else index
        self._embedding = embeddings

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
        embeddings = _embeddings(embedding)
        if path is None or embeddings is None:
            raise ValueError("from_texts needs path=FOLDER and embedding=MODEL, got None")
        try:
            store = cls(path, embeddings)
        except NotFound:
            if isinstance(embeddings, VocabtoolEmbeddings):
                options = {"sample": texts, **embeddings.options, **options}
                store = cls(Index.create(path, embeddings.model, **options))
            else:
                dim = len(embeddings.embed_query("dimension"))
                store = cls(Index.create(path, dim=dim, **options), embeddings)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(  # type: ignore[override] # refuses other arguments
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Add texts in one commit; return their ids.

        - ``metadatas``: see :func:`~vocabtool.integrations.adapter.document_of`.
        - ``ids``: a document that has one of these ids is replaced. Default: random ids.
        - ``batch_size``: is ignored.

        Raises :class:`VocabtoolError` if JSON would change metadata, ``ValueError`` if the lists
        differ in length, and the errors of :meth:`vocabtool.Writer.add`.
        """
        texts = [*texts]
        metadatas = [{}] * len(texts) if metadatas is None else metadatas
        names: Sequence[str | None] = [None] * len(texts) if ids is None else ids
        for what, values in (("metadatas", metadatas), ("ids", names)):
            if len(values) != len(texts):
                raise ValueError(f"{len(values):,} {what} for {len(texts):,} texts")
        documents = [
            adapter.document_of(name or str(uuid.uuid4()), text, metadata)
            for name, text, metadata in zip(names, texts, metadatas, strict=True)
        ]
        vectors: Sequence[Any] = [None] * len(texts)
        if self._embedding is not None:
            vectors = self._embedding.embed_documents(texts)
        adapter.add(self.index, documents, vectors)
        return [document.id for document in documents]

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in the order of ``ids``. Unknown ids are ignored."""
        self.index.refresh()
        return [
            Document(id=row.id, page_content=row.text, metadata=adapter.metadata_of(row.fields))
            for row in self.index.get_many(ids).values()
        ]

    def delete(self, ids: list[str] | None = None, *, filter: Filter = None) -> bool:  # type: ignore[override] # noqa: A002 - as in LangChain
        """Delete documents in one commit. Unknown ids are ignored.

        ``filter``: delete the documents that match this filter; ``{}`` matches all. If both ``ids``
        and ``filter`` are ``None``, no document is deleted, as in ``InMemoryVectorStore``.

        Raises ``ValueError`` if both are given, and :class:`InvalidCondition` for a wrong filter.
        """
        where = condition(filter)
        if where is None and ids is None:
            ids = []
        adapter.delete(self.index, ids, where)
        return True

    def similarity_search(self, query: str, k: int = K, **kwargs: Any) -> list[Document]:
        """Return the best ``k`` documents for a query."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = K, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents whose vectors are nearest to ``embedding``, shape (dim,)."""
        pairs = self.similarity_search_with_score(None, k, vector=embedding, **kwargs)
        return [document for document, _ in pairs]

    def similarity_search_with_score(
        self,
        query: str | None,
        k: int = K,
        filter: Filter = None,  # noqa: A002 - as in LangChain
        vector: list[float] | None = None,
        **arguments: Any,
    ) -> list[tuple[Document, float]]:
        """Return documents with their :attr:`Hit.score`. Compare scores only within one result."""
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
            if arguments.get("explain"):
                metadata = adapter.why_found(hits, hit)
            document = Document(id=hit.id, page_content=hit.text, metadata=metadata)
            pairs.append((document, hit.score))
        return pairs


class VocabtoolRetriever(VectorStoreRetriever):
    """The hybrid search of an index as a retriever.

    - ``index``, ``embedding``: as in :class:`VocabtoolVectorStore`.
    - ``k``, ``filter``, ``search_kwargs``: the arguments of every search, which has
      ``explain=True``. Arguments of ``invoke`` replace them.
    - ``others``: the other arguments of ``VectorStoreRetriever``.
    """

    # A misspelt filter must not be ignored: it may say what a user is allowed to see.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def __init__(
        self,
        index: Index | str | Path,
        embedding: Embeddings | Model | None = None,
        k: int = K,
        filter: Filter = None,  # noqa: A002 - as in LangChain
        search_kwargs: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        store = VocabtoolVectorStore(index, embedding)
        arguments = {"k": k, "filter": filter, "explain": True, **(search_kwargs or {})}
        super().__init__(vectorstore=store, search_kwargs=arguments, **others)


def condition(filter_: Filter) -> str | None:
    """Return a filter of LangChain as a condition, or ``None`` if there is no filter.

    A string is returned as it is. In a dictionary, a key is one of:

    - a field, with a value (``{"year": 2024}``) or operators (``{"year": {"$gte": 2020}}``)
    - ``$and`` or ``$or``, with a list of filters
    - ``$not``, with a filter or a list of filters

    Raises :class:`InvalidCondition` for wrong filters.
    """
    if filter_ is None or isinstance(filter_, str):
        return filter_ or None
    return _condition_of(filter_)


def _condition_of(filter_: Any, depth: int = 0) -> str:
    """``depth``: number of filters around this one. Raises :class:`InvalidCondition`."""
    adapter.check_depth(depth, filter_)
    if not isinstance(filter_, Mapping):
        raise invalid("a filter must be a condition or a dictionary", filter_)
    tests = []
    for name, value in filter_.items():
        if name in JUNCTIONS:
            filters = value
            if name == "$not" and isinstance(value, Mapping):  # one filter without a list
                filters = [value]
            if not isinstance(filters, list | tuple) or not filters:
                raise invalid(f"{name!r} needs a list of filters", value)
            inner = [_condition_of(item, depth + 1) for item in filters]
            tests.append(join(name.removeprefix("$"), inner))
            continue
        if not isinstance(name, str) or name.startswith("$"):  # no field: this raises
            adapter.check_operator(name, JUNCTIONS, value)
        operands = value if isinstance(value, Mapping) else {"$eq": value}
        if not operands:
            raise invalid(f"field {name!r} needs a value or an operator", value)
        field = adapter.field_of(name)
        for operator, operand in operands.items():
            adapter.check_operator(operator, (*OPERATORS, "$exists", "$not"), value)
            if operator == "$not":
                tests.append(f"not {_condition_of({name: operand}, depth + 1)}")
            elif operator == "$exists":
                tests.append(compare(field, "!=" if operand else "=", None))
            else:
                tests.append(compare(field, OPERATORS[operator], operand))
    return join("and", tests)


def _embeddings(model: Embeddings | Model | None) -> Embeddings | None:
    """Return embeddings unchanged, and a model as embeddings."""
    return model if model is None or isinstance(model, Embeddings) else VocabtoolEmbeddings(model)
