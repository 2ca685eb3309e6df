"""An index for Haystack 3: a document store and a hybrid retriever.

In filters, dates in strings are compared as points in time. A time without an offset is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from typing import Any, Final

import numpy as np
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
from haystack.errors import FilterError

from vocabtool.choices import Language, Metric, OnExisting
from vocabtool.documents.batch import Kind
from vocabtool.errors import DuplicateId, InvalidCondition, NotFound
from vocabtool.index.index import Index
from vocabtool.integrations import adapter
from vocabtool.integrations.adapter import in_thread, invalid

POLICIES: Final[dict[DuplicatePolicy, OnExisting]] = {
    DuplicatePolicy.SKIP: "skip",
    DuplicatePolicy.OVERWRITE: "update",
}
META: Final = "meta."
OWN: Final = {"id": "id", "content": "text"}  # fields of a document, as an index calls them
NOT_KEPT: Final = ("blob", "score", "embedding", "sparse_embedding", "meta")
ORDERED: Final = (">", ">=", "<", "<=")
EQUAL: Final[dict[str, adapter.Operator]] = {"==": "in", "!=": "not in"}
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ].*)?")

Filters = dict[str, Any]


@dataclass(eq=False)
class VocabtoolDocumentStore:
    """Documents in an index, for pipelines of Haystack. Every method also has an ``_async`` form.

    - ``path``: the address of an index, as for :meth:`Index.open`. If there is none, it is created
      with ``model``, or for embeddings of ``embedding_dim`` numbers; ``metric`` says how they are
      compared, and ``language`` is that of stems and stop words.
    - ``model``, ``options``: the other arguments of :meth:`Index.open`. An existing index needs
      them only if it cannot find the model that it was created with.

    Raises the errors of :meth:`Index.open` and :meth:`Index.create`, and ``ValueError`` if the
    vectors of the index do not have ``embedding_dim`` numbers.

    The model of the index makes the vectors of queries, and of documents that have no embedding. In
    an index without a model, documents without an embedding are found only by their words.

    ``meta`` is stored and found as :func:`~vocabtool.integrations.adapter.document_of` says.
    Embeddings are returned as the index stores them: in its number type, and with length 1 if it
    compares them by cosines.
    """

    path: str
    _: KW_ONLY
    model: str | None = None
    embedding_dim: int | None = None
    metric: Metric = "cosine"
    language: Language = "english"
    options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Open the index, or create it: see the class."""
        options, dim = self.options or {}, self.embedding_dim
        try:
            self._index = Index.open(self.path, self.model, **options)
        except NotFound:
            if self.model is None and dim is None:
                raise
            options = {"metric": self.metric, "language": self.language, **options}
            self._index = Index.create(self.path, self.model, dim=dim, dtype="float32", **options)
        size = self._index.configuration.dim
        if dim is not None and dim != size:
            raise ValueError(f"{self.path}: vectors of {size} numbers, but embedding_dim is {dim}")

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of this store, in the form that Haystack saves in a pipeline."""
        arguments = {field.name: getattr(self, field.name) for field in fields(self)}
        return default_to_dict(self, **arguments)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VocabtoolDocumentStore:
        """Return a store with the arguments that :meth:`to_dict` returned."""
        return default_from_dict(cls, data)

    @property
    def index(self) -> Index:
        """The index at its newest commit."""
        self._index.refresh()
        return self._index

    def count_documents(self) -> int:
        return len(self.index)

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that match the filters, in the order of their latest writes.

        Raises ``FilterError`` for a filter that is invalid or that compares a field with a value
        of another type.
        """
        index = self.index
        with condition(filters, index) as where:
            rows = [*index.documents(where)]
        vectors = index.vectors(row.id for row in rows)
        documents = []
        for row in rows:
            vector, meta = vectors.get(row.id), adapter.metadata_of(row.fields)
            embedding = vector.tolist() if vector is not None and vector.any() else None
            document = Document(id=row.id, content=row.text, meta=meta, embedding=embedding)
            documents.append(document)
        return documents

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents in one commit, without their ``score``; return the number written.

        ``policy``: what to do if a document exists. ``NONE`` means the same as ``FAIL``.

        Raises the errors of :meth:`Writer.add`, ``ValueError`` for a document that an index cannot
        store, :class:`VocabtoolError` if JSON would change a ``meta``, and, if the policy is
        ``FAIL``, ``DuplicateDocumentError`` for a document that exists or is given twice.
        """
        for document in documents:
            if not isinstance(document, Document):
                raise ValueError(f"documents: wanted a list of documents, got {document!r} in it")
            others = (document.blob, document.sparse_embedding)
            if document.content is None or others != (None, None):
                what = "an index stores documents with a content, without blob or sparse_embedding"
                raise ValueError(f"document {document.id!r}: {what}")
        index, on_existing = self.index, POLICIES.get(policy, "error")
        rows = [adapter.document_of(row.id, row.content or "", row.meta) for row in documents]
        # Without a model, a document without an embedding has a vector of zeros.
        default = None if index.can_encode else np.zeros(index.configuration.dim)
        vectors = [default if row.embedding is None else row.embedding for row in documents]
        try:
            added = adapter.add(index, rows, vectors, on_existing)
        except DuplicateId as error:
            what = f"{self.path}: the document {error.id!r} is {error.where}: use another policy"
            raise DuplicateDocumentError(what) from error
        return len(documents) if on_existing == "update" else added

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents in one commit. Unknown ids are ignored."""
        adapter.delete(self.index, document_ids or [])

    def delete_all_documents(self) -> None:
        """Delete all documents in one commit. The index keeps the types of the fields."""
        adapter.delete(self.index, where=adapter.ALWAYS)

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match the filters, in one commit; return their number."""
        index = self.index
        with condition(filters, index) as where:
            return adapter.delete(index, where=where or adapter.ALWAYS)

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)


@contextmanager
def condition(filters: Filters | None, index: Index) -> Iterator[str | None]:
    """Give filters as a condition to the ``with`` block, or ``None`` if there are no filters.

    An :class:`InvalidCondition`, also one that the block raises, becomes a ``FilterError``.
    """
    try:
        yield _condition_of(filters, index.manifest.fields) if filters else None
    except InvalidCondition as error:
        raise FilterError(str(error)) from error


def _condition_of(filter_: Any, kinds: Mapping[str, Kind], depth: int = 0) -> str:
    """Translate a filter, or raise :class:`InvalidCondition`. ``depth``: filters around it."""
    adapter.check_depth(depth, filter_)
    if not isinstance(filter_, Mapping):
        raise invalid("wanted a dictionary", filter_)
    operator: Any = filter_.get("operator")
    if "field" not in filter_:
        adapter.check_operator(operator, ("AND", "OR", "NOT"), filter_)
        filters = filter_.get("conditions")
        if not isinstance(filters, list):
            raise invalid("'conditions' needs a list of filters", filter_)
        tests = [_condition_of(item, kinds, depth + 1) for item in filters]
        return adapter.join(operator.lower(), tests)
    adapter.check_operator(operator, (*EQUAL, *ORDERED, "in", "not in"), filter_)
    if "value" not in filter_:
        raise invalid("no 'value'", filter_)
    field, value = filter_["field"], filter_["value"]
    if not isinstance(field, str) or field in NOT_KEPT:
        raise invalid(
            f"no filter tests the field {field!r}: use 'id', 'content', 'meta.…'", filter_
        )
    name = OWN.get(field) or adapter.field_of(field.removeprefix(META))
    if operator in ORDERED:
        if value is None:
            return adapter.NEVER
        moment = _moment(value)
        if moment is None and isinstance(value, str):
            raise invalid(f"{operator!r} compares numbers and dates in ISO 8601", filter_)
        return adapter.compare(name, operator, moment or value, kinds)
    if operator in EQUAL:
        operator, value = EQUAL[operator], [value]
    if not isinstance(value, list):
        raise invalid(f"{operator!r} of the field {field!r} needs a list of values", filter_)
    # A string that is a date equals the same string, and every string for the same time.
    moments = [moment for moment in map(_moment, value) if moment is not None]
    others = [item for item in value if not isinstance(item, datetime)]
    return adapter.compare(name, operator, [*others, *moments], kinds)


def _moment(value: object) -> datetime | None:
    """Return the time that ``value`` is or, as a string in ISO 8601, stands for; or ``None``."""
    with suppress(ValueError):
        if isinstance(value, str) and DATE.fullmatch(value):
            return datetime.fromisoformat(value)
    return value if isinstance(value, datetime) else None


@component
@dataclass(eq=False)
class VocabtoolHybridRetriever:
    """Finds documents by the words and the vector of a query, as :meth:`Index.search` does.

    - ``document_store``: the store to search.
    - ``filters``: the filters of every run.
    - ``filter_policy``: whether the filters of a run replace ``filters`` (``replace``) or are added
      to them (``merge``).
    - ``top_k``: the number of documents.
    - ``settings``: other arguments of every :meth:`Index.search`, such as ``{"fusion": "rrf"}`` or
      ``{"explain": True}``.

    The ``meta`` of each document have the key ``_vocabtool``, see
    :func:`~vocabtool.integrations.adapter.why_found`.
    """

    document_store: VocabtoolDocumentStore
    _: KW_ONLY
    filters: Filters | None = None
    top_k: int = 10
    filter_policy: str | FilterPolicy = FilterPolicy.REPLACE.value
    settings: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        component.set_output_types(self, documents=list[Document])
        if not isinstance(self.document_store, VocabtoolDocumentStore):
            wanted = f"wanted a VocabtoolDocumentStore, got {type(self.document_store).__name__}"
            raise TypeError(f"document_store: {wanted}")
        policy = FilterPolicy.from_str(str(self.filter_policy))  # raises ``ValueError``
        self.filter_policy = policy.value  # a pipeline is stored as YAML

    def run(
        self,
        query: str | None = None,
        query_embedding: list[float] | None = None,
        filters: Filters | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return documents under the key ``documents``, best first, each with its ``score``.

        - ``query``: the text of the query. Without it, only vectors are compared.
        - ``query_embedding``: the vector of the query. Default: the model of the index makes the
          vector from ``query``.
        - ``filters``, ``top_k``: as in the class, for this run only.

        Raises ``FilterError`` for an invalid filter, and the errors of :meth:`Index.search`.
        """
        index = self.document_store.index
        run_filters = apply_filter_policy(FilterPolicy(self.filter_policy), self.filters, filters)
        arguments = {**(self.settings or {}), "k": self.top_k if top_k is None else top_k}
        with condition(run_filters, index) as where:
            hits = index.search(query, vector=query_embedding, where=where, **arguments)
        documents = []
        for hit in hits:
            meta = adapter.why_found(hits, hit)
            documents.append(Document(id=hit.id, content=hit.text, meta=meta, score=hit.score))
        return {"documents": documents}

    run_async = in_thread(run)
