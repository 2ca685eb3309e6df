"""Documents as Arrow record batches: ids, texts and the fields of their rows in columns.

Also the way back, for what was written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from vocabtool.documents.reading import Document
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.system.parallel import closed_after, in_batches
from vocabtool.tokenization.text_arrays import string_array, text_bytes
from vocabtool.vocabulary import decode

if TYPE_CHECKING:
    import pyarrow as pa

Fields: TypeAlias = "Mapping[str, pa.DataType] | Sequence[str] | None"

ALL_FIELDS: Final = "fields"
TAKEN: Final = frozenset({"id", "text"})
NO_JSON: Final = "JSON cannot hold it: change it with .map() first, or say its Arrow type"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns ``id``, ``text`` and those of fields; ``column``: how one of these is filled."""

    schema: pa.Schema
    column: Callable[[Sequence[Document], pa.Field], pa.Array]

    @classmethod
    def of(cls, fields: Fields = None) -> Layout:
        """Names with Arrow types; names alone; or ``None``: all in one column ``fields``."""
        import pyarrow as pa

        if isinstance(fields, str):
            raise ValueError(f"fields: wanted several names, got {fields!r}: put it in a list")
        if fields is None:
            return cls(_schema({ALL_FIELDS: pa.string()}), _all_column)
        if isinstance(fields, Mapping):
            return cls(_schema(fields), _typed_column)
        return cls(_schema(dict.fromkeys(fields, pa.string())), _json_column)

    def batch(self, documents: Sequence[Document]) -> pa.RecordBatch:
        """Documents as rows. Raises :class:`VocabtoolError` naming the one that is none."""
        import pyarrow as pa

        need_documents(documents, "Arrow")
        ids = string_array(document.id for document in documents)
        texts = string_array(document.text for document in documents)
        others = [self.column(documents, field) for field in list(self.schema)[2:]]
        return pa.record_batch([ids, texts, *others], self.schema)


def record_batches(
    start: Callable[[int], Iterator[Document]], rows: int, layout: Layout
) -> Iterator[pa.RecordBatch]:
    """Documents in record batches of ``rows``, read as the batches are asked for."""
    with closed_after(in_batches(start(0), rows)) as batches:
        for documents in batches:
            yield layout.batch(documents)


def documents_of(batch: pa.RecordBatch) -> Iterator[Document]:
    """The documents of a record batch with the one column ``fields``."""
    import pyarrow as pa

    columns = [batch.column(name).view(pa.binary()) for name in ("id", "text", ALL_FIELDS)]
    for column in columns:
        column.validate(full=True)
        if column.null_count:
            raise InvalidFile("a document without an id, a text or fields")
    for name, text, fields in zip(*(column.to_pylist() for column in columns), strict=True):
        yield Document(decode(name), decode(text), _fields(fields))


def _fields(text: bytes) -> dict[str, object]:
    try:
        fields = json.loads(decode(text))
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"fields that are not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidFile(f"wanted fields as a JSON object, got {type(fields).__name__}")
    return fields


def need_documents(items: Sequence[object], what: str) -> None:
    """Raise :class:`VocabtoolError` where one of the elements is no document."""
    for item in items:
        if not isinstance(item, Document):
            kind = type(item).__name__
            raise VocabtoolError(f"{what} wants documents, got {kind}: .map() it to a Document")


def _schema(kinds: Mapping[str, pa.DataType]) -> pa.Schema:
    import pyarrow as pa

    if TAKEN & kinds.keys():
        raise ValueError(f"fields: the names {sorted(TAKEN)} are taken, got {list(kinds)}")
    return pa.schema({"id": pa.string(), "text": pa.string(), **kinds})


def _typed_column(documents: Sequence[Document], field: pa.Field) -> pa.Array:
    import pyarrow as pa

    values = [document.fields.get(field.name) for document in documents]
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for document, value in zip(documents, values, strict=True):
            _check(document, field, value)
        raise


def _check(document: Document, field: pa.Field, value: object) -> None:
    import pyarrow as pa

    try:
        pa.array([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        what = f"field {field.name!r}: wanted {field.type}, got {value!r:.80}"
        raise VocabtoolError(f"{document.id}: {what}") from error


def _json_column(documents: Sequence[Document], field: pa.Field) -> pa.Array:
    return _texts(_as_text(document, field.name) for document in documents)


def _all_column(documents: Sequence[Document], _: pa.Field) -> pa.Array:
    return _texts(_json(document, dict(document.fields), "fields") for document in documents)


def _texts(texts: Iterable[str | None]) -> pa.StringArray:
    import pyarrow as pa

    encoded = [None if text is None else text_bytes(text) for text in texts]
    return pa.array(encoded, pa.binary()).view(pa.string())


def _as_text(document: Document, name: str) -> str | None:
    value = document.fields.get(name)
    if value is None or isinstance(value, str):
        return value
    return _json(document, value, f"field {name!r}")


def _json(document: Document, value: object, what: str) -> str:
    try:
        return _escaped_if_need_be(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise VocabtoolError(f"{document.id}: {what}: {error}; {NO_JSON}") from error


def _escaped_if_need_be(value: object) -> str:
    """JSON in letters as they are, or in ASCII where a lone surrogate, which has no UTF-8, is."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
