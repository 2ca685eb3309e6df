"""Indexes and encoders for Haystack 3: a document store, a hybrid retriever and two embedders.

The store is in ``haystack_store.py``, and filters are in ``haystack_filters.py``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from threading import Lock
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from vocabtool.documents.batch import Document as Stored
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import open_encoder
from vocabtool.index.index import Index
from vocabtool.integrations.filters import refuse_where
from vocabtool.integrations.haystack_filters import condition, filter_errors
from vocabtool.integrations.haystack_store import Filters, VocabtoolDocumentStore, as_document
from vocabtool.integrations.metadata import EXPLAINED, explanation
from vocabtool.search.hits import Hits

__all__ = [
    "VocabtoolDocumentEmbedder",
    "VocabtoolDocumentStore",
    "VocabtoolHybridRetriever",
    "VocabtoolTextEmbedder",
]


@component
class VocabtoolHybridRetriever:
    """Finds documents by the words and the vector of a query, as :meth:`Index.search` does.

    - ``document_store``: the store to search.
    - ``filters``: the filters of every run.
    - ``filter_policy``: whether the filters of a run replace ``filters`` or are added to them.
    - ``top_k``: the number of documents.
    - ``explain``: whether to add the key ``_vocabtool`` to the ``meta`` of each document. Its value
      is described at :func:`~vocabtool.integrations.metadata.explanation`.
    - ``return_embedding``: whether to return the documents with their embeddings.
    - ``settings``: fields of :class:`~vocabtool.search.settings.Settings`, such as
      ``{"fusion": "rrf"}``.
    """

    def __init__(
        self,
        document_store: VocabtoolDocumentStore,
        *,
        filters: Filters | None = None,
        top_k: int = 10,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        explain: bool = False,
        return_embedding: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(document_store, VocabtoolDocumentStore):
            wanted = f"wanted a VocabtoolDocumentStore, got {type(document_store).__name__}"
            raise TypeError(f"document_store: {wanted}")
        if isinstance(filter_policy, str):
            filter_policy = FilterPolicy.from_str(filter_policy)
        refuse_where(settings or (), "filters")
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = filter_policy
        self.explain = explain
        self.return_embedding = return_embedding
        self.settings = settings

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary from which :meth:`from_dict` makes the same retriever."""
        names = ("document_store", "filters", "top_k", "explain", "return_embedding", "settings")
        given = {name: getattr(self, name) for name in names}
        return default_to_dict(self, **given, filter_policy=self.filter_policy.value)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VocabtoolHybridRetriever:
        """Make a retriever from a dictionary that :meth:`to_dict` returned."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str | None = None,
        query_embedding: list[float] | None = None,
        filters: Filters | None = None,
        top_k: int | None = None,
        explain: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Find documents, best first.

        - ``query``: the text of the query. Without it, only vectors are compared.
        - ``query_embedding``: the vector of the query. Default: the model of the index makes the
          vector from ``query``.
        - ``filters``, ``top_k``, ``explain``: as in the class, for this run only.

        Returns the documents under the key ``documents``, each with its ``score``.

        Raises ``FilterError`` for an invalid filter, ``ValueError`` if both ``query`` and
        ``query_embedding`` are ``None``, and the errors of :meth:`Index.search`.
        """
        if query is None and query_embedding is None:
            raise ValueError("the retriever needs query or query_embedding, got neither")
        k = self.top_k if top_k is None else top_k
        if k == 0:
            return {"documents": []}
        index = self.document_store.index
        chosen = apply_filter_policy(self.filter_policy, self.filters, filters)
        explains = self.explain if explain is None else explain
        with filter_errors():
            hits = index.search(
                query,
                vector=query_embedding,
                k=k,
                where=condition(chosen, index.manifest.fields),
                explain=explains,
                **(self.settings or {}),
            )
        return {"documents": self._documents(index, hits, explains)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str | None = None,
        query_embedding: list[float] | None = None,
        filters: Filters | None = None,
        top_k: int | None = None,
        explain: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Call :meth:`run` in another thread."""
        return await asyncio.to_thread(self.run, query, query_embedding, filters, top_k, explain)

    def _documents(self, index: Index, hits: Hits, explains: bool) -> list[Document]:
        vectors = index.vectors(hit.id for hit in hits) if self.return_embedding else {}
        found = []
        for hit in hits:
            stored = Stored(hit.id, hit.text, hit.fields)
            document = as_document(stored, vectors.get(hit.id), score=hit.score)
            if explains:
                document = replace(
                    document, meta={**document.meta, EXPLAINED: explanation(hits, hit)}
                )
            found.append(document)
        return found


class _Embedder:
    """The base class of both embedders. The model is opened on first use."""

    def __init__(self, model: str, options: dict[str, Any] | None = None) -> None:
        self.model = model
        self.options = options
        self._encoder: Encoder | None = None
        self._opening = Lock()

    def warm_up(self) -> None:
        """Open the model now, instead of in the first call of :meth:`run`."""
        self._open()

    def _open(self) -> Encoder:
        with self._opening:
            if self._encoder is None:
                self._encoder = open_encoder(self.model, **(self.options or {}))
            return self._encoder


@component
class VocabtoolTextEmbedder(_Embedder):
    """Makes the embedding of a query. An index with a model does not need this component.

    - ``model``: a path or a name with a prefix, as for ``open_encoder``.
    - ``options``: the fields of :class:`EncoderOptions`.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary from which :meth:`from_dict` makes the same embedder."""
        return default_to_dict(self, model=self.model, options=self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VocabtoolTextEmbedder:
        """Make an embedder from a dictionary that :meth:`to_dict` returned."""
        return default_from_dict(cls, data)

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Return the embedding of the query ``text``, under the key ``embedding``."""
        if not isinstance(text, str):
            raise TypeError(f"text: wanted a string, got {type(text).__name__}")
        return {"embedding": self._open().encode_queries([text])[0].tolist()}


@component
class VocabtoolDocumentEmbedder(_Embedder):
    """Makes the embeddings of documents.

    - ``model``: a path or a name with a prefix, as for ``open_encoder``.
    - ``options``: the fields of :class:`EncoderOptions`.
    - ``meta_fields_to_embed``: keys of ``meta`` whose values are put before the content.
    - ``embedding_separator``: the text between the values, and between values and content.
    """

    def __init__(
        self,
        model: str,
        options: dict[str, Any] | None = None,
        *,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
    ) -> None:
        _Embedder.__init__(self, model, options)  # Haystack makes another class of this one
        self.meta_fields_to_embed = meta_fields_to_embed
        self.embedding_separator = embedding_separator

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary from which :meth:`from_dict` makes the same embedder."""
        names = ("model", "options", "meta_fields_to_embed", "embedding_separator")
        return default_to_dict(self, **{name: getattr(self, name) for name in names})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VocabtoolDocumentEmbedder:
        """Make an embedder from a dictionary that :meth:`to_dict` returned."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Return copies of the documents with embeddings, under the key ``documents``."""
        for place, each in enumerate(documents):
            if not isinstance(each, Document):
                raise TypeError(f"documents[{place}]: wanted a Document, got {type(each).__name__}")
        if not documents:
            return {"documents": []}
        texts = []
        for each in documents:
            values = map(each.meta.get, self.meta_fields_to_embed or ())
            parts = [*(str(value) for value in values if value is not None), each.content or ""]
            texts.append(self.embedding_separator.join(parts))
        made = self._open().encode(texts).tolist()
        pairs = zip(documents, made, strict=True)
        return {"documents": [replace(each, embedding=vector) for each, vector in pairs]}
