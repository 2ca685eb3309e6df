"""An index as a document store of Haystack 3.

Each key of a document's ``meta`` becomes a field, and so does each key of a nested dictionary. The
``meta`` is returned exactly as it was written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import wraps
from itertools import groupby
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from numpy.typing import NDArray

from vocabtool.choices import Language, Metric, OnExisting
from vocabtool.documents.batch import Document as Stored
from vocabtool.documents.batch import Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.index.index import Index
from vocabtool.index.writer import Writer
from vocabtool.integrations.filters import ALWAYS
from vocabtool.integrations.haystack_filters import META, condition, filter_errors
from vocabtool.integrations.metadata import (
    EXACT,
    HAYSTACK,
    RECORDS,
    as_json,
    fields_of,
    metadata_of,
    name_of,
)

POLICIES: Final[dict[DuplicatePolicy, OnExisting]] = {
    DuplicatePolicy.SKIP: "skip",
    DuplicatePolicy.OVERWRITE: "update",
}
NAMES: Final[dict[Kind, str]] = {  # as Haystack's own store calls them
    **{"string": "keyword", "boolean": "boolean", "integer": "int", "number": "float"},
}
LENGTH_ONE: Final = 1e-6  # vectors whose length differs less from 1 are as long as they were

Filters = dict[str, Any]
Meta = dict[str, Any]
P = ParamSpec("P")
Self = TypeVar("Self")
Result = TypeVar("Result")


def _in_thread(
    method: Callable[Concatenate[Self, P], Result],
) -> Callable[Concatenate[Self, P], Coroutine[Any, Any, Result]]:
    @wraps(method)
    async def run(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    return run


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

    def __init__(
        self,
        path: str,
        *,
        model: str | None = None,
        embedding_dim: int | None = None,
        metric: Metric = "cosine",
        language: Language = "english",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.model = model
        self.embedding_dim = embedding_dim
        self.metric = metric
        self.language = language
        self.options = options
        self._index: Index | None = None
        self._opening = Lock()
        self._writing = Lock()  # threads of this process wait for each other

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
            if self._index is None:
                self._index = self._open()
            else:
                self._index.refresh()
            return self._index

    def _open(self) -> Index:
        options, dim = self.options or {}, self.embedding_dim
        try:
            index = Index.open(self.path, self.model, **options)
        except NotFound:
            if self.model is None and dim is None:
                raise
            if dim is not None:
                options = {**options, "dim": dim}
            return Index.create(
                self.path,
                self.model,
                metric=self.metric,
                language=self.language,
                dtype="float32",
                **options,
            )
        if dim not in (None, index.configuration.dim):
            what = f"vectors have {index.configuration.dim} numbers, but embedding_dim is {dim}"
            raise ValueError(f"{self.path}: {what}")
        return index

    def count_documents(self) -> int:
        """Return the number of documents."""
        return len(self.index)

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that match the filters, in the order of their latest writes.

        Raises ``FilterError`` for a filter that is invalid or that compares a field with a value
        of another type.
        """
        index = self.index
        with filter_errors():
            found = [*index.documents(condition(filters, index.manifest.fields))]
        vectors = index.vectors(each.id for each in found)
        return [as_document(each, vectors.get(each.id)) for each in found]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents in one commit; return the number of documents that were written.

        The ``score`` of a document is not stored.

        ``policy``: what to do if a document exists. ``NONE`` means the same as ``FAIL``.

        Raises the errors of :meth:`Writer.add` and:

        - ``ValueError`` if an item is not a document, has a blob or a sparse embedding, or has an
          embedding of a wrong length.
        - :class:`VocabtoolError` if a ``meta`` is not JSON.
        - ``DuplicateDocumentError`` if the policy is ``FAIL``, and a document exists or is given
          twice.
        """
        if not isinstance(documents, list):
            raise ValueError(f"documents: wanted a list, got {type(documents).__name__}")
        for place, each in enumerate(documents):
            _check(each, place)
        existing = POLICIES.get(policy, "error")
        try:
            with self._writing, self.index.writer() as writer:
                added = self._add(writer, documents, existing)
        except VocabtoolError as error:
            if existing == "error" and (id_ := self._find_duplicate(documents)) is not None:
                what = f"{self.path}: the document {id_!r} already exists, or occurs twice"
                raise DuplicateDocumentError(f"{what}: use another policy") from error
            raise
        return len(documents) if existing == "update" else added

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents in one commit. Unknown ids are ignored."""
        if document_ids:
            with self._writing:
                self.index.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents in one commit. The index keeps the types of the fields."""
        self.delete_by_filter({})

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match the filters, in one commit; return their number."""
        with self._writing, filter_errors():
            index = self.index
            where = condition(filters, index.manifest.fields) or ALWAYS
            return index.delete(where=where, force=True)

    def update_by_filter(self, filters: Filters, meta: Meta) -> int:
        """Set the keys of ``meta`` in matching documents, in one commit; return their number."""
        with self._writing, self.index.writer() as writer:
            found = self.filter_documents(filters)
            changed = [replace(each, meta={**each.meta, **meta}) for each in found]
            for place, each in enumerate(changed):
                _check(each, place)
            self._add(writer, changed, "update")
        return len(found)

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
            name_of(name): {"type": NAMES[kind]}
            for name, kind in self.index.manifest.fields.items()
            if name != EXACT and name not in RECORDS and kind in NAMES
        }

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the greatest value of a field, under the keys ``min`` and ``max``.

        Lists and objects are ignored. ``min`` and ``max`` are ``None`` if there are no values, or
        if the values have types that cannot be compared.
        """
        values = [
            each for each in self._values(metadata_field) if not isinstance(each, list | dict)
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
        term = (search_term or "").lower()
        found = [
            each for each in self._values(metadata_field, filters) if term in str(each).lower()
        ]
        found.sort(key=lambda each: (str(each), type(each).__name__))
        return found[from_ : from_ + size], len(found)

    count_documents_async = _in_thread(count_documents)
    filter_documents_async = _in_thread(filter_documents)
    write_documents_async = _in_thread(write_documents)
    delete_documents_async = _in_thread(delete_documents)
    delete_all_documents_async = _in_thread(delete_all_documents)
    delete_by_filter_async = _in_thread(delete_by_filter)
    update_by_filter_async = _in_thread(update_by_filter)
    count_documents_by_filter_async = _in_thread(count_documents_by_filter)
    count_unique_metadata_by_filter_async = _in_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = _in_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = _in_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = _in_thread(get_metadata_field_unique_values)

    def _values(self, name: str, filters: Filters | None = None) -> list[Any]:
        """Return the different values of a key of ``meta``. ``1`` and ``1.0`` are different."""
        index, path = self.index, name.removeprefix(META)
        different = {}
        with filter_errors():
            found = index.documents(condition(filters, index.manifest.fields))
        for each in found:
            value: Any = as_document(each).meta
            for key in [path] if path in value else path.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                different[type(value), json.dumps(value, sort_keys=True)] = value
        return [*different.values()]

    def _add(self, writer: Writer, documents: list[Document], existing: OnExisting) -> int:
        """Add documents; return the number added. The caller must hold the lock ``_writing``."""
        index = self.index
        metas = [each.meta for each in documents]
        columns = fields_of(metas, index.manifest.fields, nested=True)
        dim, encodes, added = index.configuration.dim, index.can_encode, 0
        shortens = index.configuration.metric == "cosine"
        pairs = zip(documents, columns, strict=True)
        for alone, group in groupby(pairs, lambda pair: encodes and pair[0].embedding is None):
            items, matrix = [], []
            for each, held in group:
                vector = np.zeros(dim) if each.embedding is None else np.array(each.embedding)
                if vector.shape != (dim,):
                    what = f"wanted an embedding of {dim} numbers, got shape {vector.shape}"
                    raise ValueError(f"document {each.id!r}: {what}")
                kept = _record(each, vector if shortens else None)
                items.append({"id": each.id, "text": each.content or "", **held, **kept})
                matrix.append(vector)
            added += writer.add(items, None if alone else np.stack(matrix), on_existing=existing)
        return added

    def _find_duplicate(self, documents: Sequence[Document]) -> str | None:
        seen = {*self.index.get_many(each.id for each in documents)}
        for each in documents:
            if each.id in seen:
                return each.id
            seen.add(each.id)
        return None


def _check(document: object, place: int) -> None:
    """Raise an error if an index cannot store the document.

    ``place``: the position of the document in the list.
    """
    if not isinstance(document, Document):
        raise ValueError(f"documents[{place}]: wanted a Document, got {type(document).__name__}")
    for name in ("blob", "sparse_embedding"):
        if getattr(document, name) is not None:
            what = f"an index cannot store {name}: write it to a file, and put the path in meta"
            raise ValueError(f"document {document.id!r}: {what}")
    as_json(document.meta, document.id)


def _record(document: Document, vector: NDArray[Any] | None) -> dict[str, str]:
    """Return the field ``_haystack``: whether the content is missing, and the norm of a vector.

    ``vector``: the embedding if the index will scale it to length 1, otherwise ``None``.
    """
    record: dict[str, float | None] = {} if document.content is not None else {"content": None}
    length = 1.0 if vector is None else float(np.linalg.norm(vector))
    if abs(length - 1) > LENGTH_ONE and length:
        record["length"] = length
    return {HAYSTACK: json.dumps(record)} if record else {}


def as_document(stored: Stored, vector: Vectors | None = None, **more: Any) -> Document:
    """Convert a document of an index to Haystack. A ``vector`` of zeros means no embedding."""
    record = json.loads(str(stored.fields.get(HAYSTACK, "{}")))
    embedding = None
    if vector is not None and vector.any():
        embedding = (vector * np.float32(record.get("length", 1))).tolist()
    return Document(
        id=stored.id,
        content=None if "content" in record else stored.text,
        meta=metadata_of(stored.fields),
        embedding=embedding,
        **more,
    )
