"""Indexes and encoders for Haystack 3: a document store, a hybrid retriever and two embedders.

Each key of a document's ``meta`` becomes a field, and so does each key of a nested dictionary. The
``meta`` is returned exactly as it was written.

In filters, a missing field equals ``None`` and no other value. Comparisons such as ``<`` are false
if the field is missing. Dates in strings are compared as points in time. A time without an offset
is in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import groupby
from threading import Lock
from typing import Any, Final

import numpy as np
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
from haystack.errors import FilterError

from vocabtool.choices import Language, Metric, OnExisting
from vocabtool.documents.batch import Document as Stored
from vocabtool.documents.batch import Kind
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.encoders.open_encoder import open_encoder
from vocabtool.errors import InvalidCondition, NotFound
from vocabtool.index.index import Index
from vocabtool.index.writer import Writer
from vocabtool.integrations import adapter
from vocabtool.integrations.adapter import (
    ALWAYS,
    NEVER,
    comparison,
    in_thread,
    join,
    refuse,
    with_async_methods,
)

POLICIES: Final[dict[DuplicatePolicy, OnExisting]] = {
    DuplicatePolicy.SKIP: "skip",
    DuplicatePolicy.OVERWRITE: "update",
}
NAMES: Final[dict[Kind, str]] = {  # as Haystack's own store calls them
    **{"string": "keyword", "boolean": "boolean", "integer": "int", "number": "float"},
}
LENGTH_ONE: Final = 1e-6  # vectors whose length differs less from 1 are as long as they were
META: Final = "meta."
OWN: Final = {"id": "id", "content": "text"}  # fields of a document, as an index calls them
NOT_KEPT: Final = ("blob", "score", "embedding", "sparse_embedding", "meta")
EQUAL: Final = ("==", "!=")
ORDERED: Final[dict[str, adapter.Operator]] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
LISTS: Final = ("in", "not in")
OPERATORS: Final = (*EQUAL, *ORDERED, *LISTS)
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ].*)?")

Filters = dict[str, Any]
Meta = dict[str, Any]


@with_async_methods
@dataclass(eq=False, repr=False)
class VocabtoolDocumentStore:
    """Documents in an index, for pipelines of Haystack. Every method also has an ``_async`` form.

    - ``path``: the address of an index, as for :meth:`Index.open`. The index is opened on first
      use. If it does not exist, it is created with the following options.
    - ``model``: a path or a name with a prefix, as for ``open_encoder``. The model makes the
      vectors of queries, and of documents that have no embedding. An existing index needs
      ``model`` only if it cannot find the model that it was created with.
    - ``embedding_dim``: the number of values in an embedding, for an index without a model. In such
      an index, documents without an embedding are found only by their words.
    - ``metric``: how embeddings are compared.
    - ``language``: the language of stems and stop words.
    - ``options``: the fields of :class:`EncoderOptions`, for the model.

    ``meta`` must be JSON. It is returned as it was written, except that tuples become lists.
    Embeddings are float32. A document that was written without an embedding is returned with the
    embedding that the model made. If an index was made without Haystack, the fields of its
    documents become their ``meta``.
    """

    path: str
    _: KW_ONLY
    model: str | None = None
    embedding_dim: int | None = None
    metric: Metric = "cosine"
    language: Language = "english"
    options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self._index: Index | None = None
        self._opening = Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.path!r}>"

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary from which :meth:`from_dict` makes a store over the same index."""
        names = ("path", "model", "embedding_dim", "metric", "language", "options")
        return default_to_dict(self, **{name: getattr(self, name) for name in names})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VocabtoolDocumentStore:
        """Make a store from a dictionary that :meth:`to_dict` returned."""
        return default_from_dict(cls, data)

    @property
    def index(self) -> Index:
        """The index at its newest commit. The first use opens or creates it.

        Raises the errors of :meth:`Index.open` and :meth:`Index.create`, and ``ValueError`` if the
        vectors of the index do not have ``embedding_dim`` values.
        """
        with self._opening:
            if self._index is not None:
                self._index.refresh()
                return self._index
            options, wanted = self.options or {}, self.embedding_dim
            try:
                index = Index.open(self.path, self.model, **options)
            except NotFound:
                if self.model is None and wanted is None:
                    raise
                options = options if wanted is None else {**options, "dim": wanted}
                own: dict[str, Any] = {"metric": self.metric, "language": self.language}
                index = Index.create(self.path, self.model, dtype="float32", **own, **options)
            dim = index.configuration.dim
            if wanted not in (None, dim):
                what = f"vectors have {dim} numbers, but embedding_dim is {wanted}"
                raise ValueError(f"{self.path}: {what}")
            self._index = index
            return index

    def count_documents(self) -> int:
        """Return the number of documents."""
        return len(self.index)

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that match the filters, in the order of their latest writes.

        Raises ``FilterError`` for a filter that is invalid or that compares a field with a value
        of another type.
        """
        documents = self._matches(filters)
        vectors = self.index.vectors(document.id for document in documents)
        return [as_document(document, vectors.get(document.id)) for document in documents]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents in one commit, without their ``score``; return the number written.

        ``policy``: what to do if a document exists. ``NONE`` means the same as ``FAIL``.

        Raises the errors of :meth:`Writer.add`, ``ValueError`` for a document that an index cannot
        store, :class:`VocabtoolError` if a ``meta`` is not JSON, and ``DuplicateDocumentError`` if
        the policy is ``FAIL``, and a document exists or is given twice.
        """
        if not isinstance(documents, list):
            raise ValueError(f"documents: wanted a list, got {type(documents).__name__}")
        on_existing = POLICIES.get(policy, "error")
        with adapter.writer_of(self.index) as writer:
            added = self._write(writer, documents, on_existing)
        return len(documents) if on_existing == "update" else added

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents in one commit. Unknown ids are ignored."""
        if document_ids:
            adapter.delete(self.index, document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents in one commit. The index keeps the types of the fields."""
        adapter.delete(self.index)

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match the filters, in one commit; return their number."""
        index = self.index
        with filter_errors():
            return adapter.delete(index, where=condition(filters, index.manifest.fields))

    def update_by_filter(self, filters: Filters, meta: Meta) -> int:
        """Set the keys of ``meta`` in matching documents, in one commit; return their number."""
        with adapter.writer_of(self.index) as writer:
            documents = [
                replace(document, meta={**document.meta, **meta})
                for document in self.filter_documents(filters)
            ]
            self._write(writer, documents, "update")
        return len(documents)

    def count_documents_by_filter(self, filters: Filters) -> int:
        """Return the number of documents that match the filters."""
        index = self.index
        with filter_errors():
            return sum(1 for _ in index.ids(condition(filters, index.manifest.fields)))

    def count_unique_metadata_by_filter(
        self, filters: Filters, metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return how many different values each field has in documents that match the filters."""
        return {name: len(self._values(name, filters)) for name in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the fields of ``meta``, each with its ``type``.

        A type is ``keyword``, ``int``, ``float`` or ``boolean``.
        """
        return {
            adapter.name_of(name): {"type": NAMES[kind]}
            for name, kind in self.index.manifest.fields.items()
            if name not in (adapter.EXACT, *adapter.RECORDS) and kind in NAMES
        }

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the greatest value of a field, under the keys ``min`` and ``max``.

        Lists and objects are ignored. ``min`` and ``max`` are ``None`` if there are no values, or
        if the values have types that cannot be compared.
        """
        values = [
            value for value in self._values(metadata_field) if not isinstance(value, list | dict)
        ]
        try:
            return {"min": min(values, default=None), "max": max(values, default=None)}
        except TypeError:
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: Filters | None = None,
    ) -> tuple[list[Any], int]:
        """Return different values of a field, at most ``size``, and how many there are in all.

        The values are sorted as strings.

        - ``search_term``: return only values whose text contains this term. Case is ignored.
        - ``from_``: the number of values to skip at the beginning.
        - ``filters``: return only values of documents that match these filters.
        """
        term, values = (search_term or "").lower(), self._values(metadata_field, filters)
        values = [value for value in values if term in str(value).lower()]
        values.sort(key=lambda value: (str(value), type(value).__name__))
        return values[from_ : from_ + size], len(values)

    def _matches(self, filters: Filters | None) -> list[Stored]:
        """Return the documents of the newest commit that match the filters."""
        index = self.index
        with filter_errors():
            return [*index.documents(condition(filters, index.manifest.fields))]

    def _values(self, name: str, filters: Filters | None = None) -> list[Any]:
        """Return the different values of a key of ``meta``. ``1`` and ``1.0`` are different."""
        path = name.removeprefix(META)
        different = {}
        for document in self._matches(filters):
            value: Any = adapter.metadata_of(document.fields)
            for key in [path] if path in value else path.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                different[type(value), json.dumps(value, sort_keys=True)] = value
        return [*different.values()]

    def _write(self, writer: Writer, documents: list[Document], on_existing: OnExisting) -> int:
        """Add documents, see :meth:`write_documents`; return the number added."""
        dim, metric = writer.manifest.configuration.dim, writer.manifest.configuration.metric
        for place, document in enumerate(documents):
            check_kind(document, f"documents[{place}]", ValueError)
            for name in ("blob", "sparse_embedding"):
                if getattr(document, name) is not None:
                    what = f"an index cannot store {name}: write it to a file, and put the path"
                    raise ValueError(f"document {document.id!r}: {what} in meta")
            adapter.as_json(document.meta, document.id)
        if on_existing == "error":
            existing = {*writer.find_existing([document.id for document in documents])}
            for document in documents:
                if document.id in existing:
                    what = f"{self.path}: the document {document.id!r} already exists"
                    raise DuplicateDocumentError(f"{what}, or occurs twice: use another policy")
                existing.add(document.id)
        metas = [document.meta for document in documents]
        columns = adapter.fields_of(metas, writer.manifest.fields, nested=True)
        rows, matrix = [], np.zeros((len(documents), dim))
        for place, (document, fields) in enumerate(zip(documents, columns, strict=True)):
            # The record keeps what an index does not: that a content is missing, and the length of
            # a vector that the index scales to 1.
            record: dict[str, float | None] = (
                {} if document.content is not None else {"content": None}
            )
            if document.embedding is not None:
                vector = np.array(document.embedding)
                if vector.shape != (dim,):
                    what = f"wanted an embedding of {dim} numbers, got shape {vector.shape}"
                    raise ValueError(f"document {document.id!r}: {what}")
                matrix[place] = vector
                length = float(np.linalg.norm(vector)) if metric == "cosine" else 1.0
                if abs(length - 1) > LENGTH_ONE and length:
                    record["length"] = length
            kept = {adapter.HAYSTACK: json.dumps(record)} if record else {}
            rows.append(Stored(document.id, document.content or "", {**fields, **kept}))
        # The writer encodes texts itself, because it checks that the model is still the same.
        encodes, added = self.index.can_encode, 0
        for without, places in groupby(
            range(len(rows)), lambda place: encodes and documents[place].embedding is None
        ):
            batch = [*places]
            vectors = None if without else matrix[batch]
            added += writer.add([rows[place] for place in batch], vectors, on_existing=on_existing)
        return added


def check_kind(document: object, place: str, error: type[Exception]) -> None:
    """Raise ``error`` if an argument is not a document."""
    if not isinstance(document, Document):
        raise error(f"{place}: wanted a Document, got {type(document).__name__}")


def as_document(stored: Stored, vector: Vectors | None = None, **more: Any) -> Document:
    """Convert a document of an index to Haystack. A ``vector`` of zeros means no embedding."""
    record = json.loads(str(stored.fields.get(adapter.HAYSTACK, "{}")))
    embedding = None
    if vector is not None and vector.any():
        embedding = (vector * np.float32(record.get("length", 1))).tolist()
    return Document(
        id=stored.id,
        content=None if "content" in record else stored.text,
        meta=adapter.metadata_of(stored.fields),
        embedding=embedding,
        **more,
    )


# Filters.


@contextmanager
def filter_errors() -> Iterator[None]:
    """Turn an :class:`InvalidCondition` of the ``with`` block into a ``FilterError``."""
    try:
        yield
    except InvalidCondition as error:
        raise FilterError(str(error)) from error


def condition(
    filters: Mapping[str, Any] | None, fields: Mapping[str, Kind], depth: int = 0
) -> str | None:
    """Return filters as a condition, or ``None`` if there are no filters.

    - ``fields``: the fields of the index.
    - ``depth``: how deep the filters are nested.

    Raises :class:`InvalidCondition` for an invalid filter.
    """
    if not filters and depth == 0:
        return None
    if not isinstance(filters, Mapping):
        refuse("wanted a dictionary", filters)
    adapter.check_depth(depth, filters)
    for name in ("operator", "value") if "field" in filters else ("operator", "conditions"):
        if name not in filters:
            refuse(f"no {name!r}", filters)
    if "field" in filters:
        return _comparison(filters, fields)
    word, conditions = filters["operator"], filters["conditions"]
    adapter.check_operator(word, ("AND", "OR", "NOT"), filters)
    if not isinstance(conditions, list):
        refuse("'conditions' needs a list of filters", filters)
    tests = [str(condition(part, fields, depth + 1)) for part in conditions]
    if word == "OR":
        return join("or", tests or [NEVER])
    every = join("and", tests or [ALWAYS])
    return f"not {every}" if word == "NOT" else every


def _comparison(given: Mapping[str, Any], fields: Mapping[str, Kind]) -> str:
    field, operator, value = given["field"], given["operator"], given["value"]
    adapter.check_operator(operator, OPERATORS, given)
    if not isinstance(field, str) or field in NOT_KEPT:
        refuse(f"no filter can ask for the field {field!r}: use 'id', 'content', 'meta.…'", given)
    if operator in LISTS and not isinstance(value, list):
        refuse(f"{operator!r} of the field {field!r} needs a list of values", given)
    moment = _moment(value)
    if operator in ORDERED and moment is None and isinstance(value, str | list | dict):
        refuse(f"{operator!r} compares numbers and dates in ISO 8601", given)
    name = OWN.get(field) or adapter.field_of(field.removeprefix(META))
    values = value if operator in LISTS else [value]
    if name not in fields and field not in OWN:
        test = ALWAYS if operator not in ORDERED and None in values else NEVER
    elif operator in ORDERED:
        test = f"{adapter.quote_field(name)} {operator} {moment}"
        if moment is None:
            test = NEVER if value is None else comparison(name, ORDERED[operator], value)
        test = join("and", [comparison(name, "is not null"), test])
    else:
        tests = []
        for wanted in values:
            if wanted is None:
                tests.append(comparison(name, "=", "" if field == "content" else None))
                continue
            equal = [comparison(name, "=", wanted)] if not isinstance(wanted, date) else []
            if (moment := _moment(wanted)) is not None:
                equal.append(f"{adapter.quote_field(name)} = {moment}")
            tests.append(join("and", [comparison(name, "is not null"), join("or", equal)]))
        test = join("or", tests or [NEVER])
    return f"not {test}" if operator in ("!=", "not in") else test


def _moment(value: object) -> str | None:
    """Return a date or time in the syntax of conditions, or ``None`` if ``value`` is neither."""
    try:
        if type(value) is date:
            value = datetime(value.year, value.month, value.day)
        elif isinstance(value, str) and DATE.fullmatch(value):
            value = datetime.fromisoformat(value)
        if not isinstance(value, datetime):
            return None
        value = value if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return value.isoformat(timespec="microseconds")


# Components.


@component
class VocabtoolHybridRetriever:
    """Finds documents by the words and the vector of a query, as :meth:`Index.search` does.

    - ``document_store``: the store to search.
    - ``filters``: the filters of every run.
    - ``filter_policy``: whether the filters of a run replace ``filters`` or are added to them.
    - ``top_k``: the number of documents.
    - ``explain``: whether to add the key ``_vocabtool`` to the ``meta`` of each document. Its value
      is described at :func:`~vocabtool.integrations.adapter.explanation`.
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
        adapter.refuse_where(settings or (), "filters")
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
        explain = self.explain if explain is None else explain
        with filter_errors():
            hits = index.search(
                query,
                vector=query_embedding,
                k=k,
                where=condition(chosen, index.manifest.fields),
                explain=explain,
                **(self.settings or {}),
            )
        vectors = index.vectors(hit.id for hit in hits) if self.return_embedding else {}
        documents = []
        for hit in hits:
            stored = Stored(hit.id, hit.text, hit.fields)
            document = as_document(stored, vectors.get(hit.id), score=hit.score)
            if explain:
                document.meta[adapter.EXPLAINED] = adapter.explanation(hits, hit)
            documents.append(document)
        return {"documents": documents}

    run_async = in_thread(run)


class _Embedder:
    """The base class of both embedders. The model is opened on first use."""

    def __init__(self, model: str, options: dict[str, Any] | None = None) -> None:
        self.model = model
        self.options = options

    @cached_property
    def encoder(self) -> Encoder:
        return open_encoder(self.model, **(self.options or {}))

    def warm_up(self) -> None:
        """Open the model now, instead of in the first call of :meth:`run`."""
        _ = self.encoder


@component
class VocabtoolTextEmbedder(_Embedder):
    """Makes the embedding of a query. An index with a model does not need this component.

    - ``model``: a path or a name with a prefix, as for ``open_encoder``.
    - ``options``: the fields of :class:`EncoderOptions`.
    """

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Return the embedding of the query ``text``, under the key ``embedding``."""
        if not isinstance(text, str):
            raise TypeError(f"text: wanted a string, got {type(text).__name__}")
        return {"embedding": self.encoder.encode_queries([text])[0].tolist()}


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

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Return copies of the documents with embeddings, under the key ``documents``."""
        texts = []
        for place, document in enumerate(documents):
            check_kind(document, f"documents[{place}]", TypeError)
            values = map(document.meta.get, self.meta_fields_to_embed or ())
            parts = [str(value) for value in values if value is not None]
            texts.append(self.embedding_separator.join([*parts, document.content or ""]))
        if not documents:
            return {"documents": []}
        vectors = self.encoder.encode(texts).tolist()
        pairs = zip(documents, vectors, strict=True)
        return {"documents": [replace(document, embedding=vector) for document, vector in pairs]}
