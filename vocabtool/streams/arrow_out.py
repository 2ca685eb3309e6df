"""Documents as Arrow record batches: ids, texts and the fields of their rows in columns.

Also a stream that is kept in an Arrow file, or in memory: ``Stream.cache``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

import pyarrow as pa

from vocabtool.documents.batch import Document
from vocabtool.documents.files import arrow_errors
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.streams.operators import Start, rest
from vocabtool.system.parallel import closed_after, in_batches
from vocabtool.system.whole_file import whole_file
from vocabtool.tokenization.text_arrays import string_array, text_bytes
from vocabtool.vocabulary import decode

T = TypeVar("T")

Fields: TypeAlias = Mapping[str, pa.DataType] | Sequence[str] | None

ALL_FIELDS: Final = "fields"
TAKEN: Final = frozenset({"id", "text"})
NO_JSON: Final = "JSON cannot hold it: change it with .map() first, or say its Arrow type"
CACHE_FILE: Final = "documents.arrow"
CACHE_ROWS: Final = 1024
CACHE_KEY: Final = b"vocabtool.key"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns ``id``, ``text`` and those of fields; ``column``: how one of these is filled."""

    schema: pa.Schema
    column: Callable[[Sequence[Document], pa.Field], pa.Array]

    @classmethod
    def of(cls, fields: Fields = None) -> Layout:
        """Names with Arrow types; names alone; or ``None``: all in one column ``fields``."""
        if isinstance(fields, str):
            raise ValueError(f"fields: wanted several names, got {fields!r}: put it in a list")
        if fields is None:
            return cls(_schema({ALL_FIELDS: pa.string()}), _all_column)
        if isinstance(fields, Mapping):
            return cls(_schema(fields), _typed_column)
        return cls(_schema(dict.fromkeys(fields, pa.string())), _json_column)

    def batch(self, documents: Sequence[Document]) -> pa.RecordBatch:
        """Documents as rows. Raises :class:`VocabtoolError` naming the one that is none."""
        need_documents(documents, "Arrow")
        ids = string_array(document.id for document in documents)
        texts = string_array(document.text for document in documents)
        others = [self.column(documents, field) for field in list(self.schema)[2:]]
        return pa.record_batch([ids, texts, *others], self.schema)


def record_batches(start: Start[Document], rows: int, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Documents in record batches of ``rows``, read as the batches are asked for."""
    with closed_after(in_batches(start(0), rows)) as batches:
        for documents in batches:
            yield layout.batch(documents)


def need_documents(items: Sequence[object], what: str) -> None:
    """Raise :class:`VocabtoolError` where one of the elements is no document."""
    for item in items:
        if not isinstance(item, Document):
            kind = type(item).__name__
            raise VocabtoolError(f"{what} wants documents, got {kind}: .map() it to a Document")


def _schema(kinds: Mapping[str, pa.DataType]) -> pa.Schema:
    if TAKEN & kinds.keys():
        raise ValueError(f"fields: the names {sorted(TAKEN)} are taken, got {list(kinds)}")
    return pa.schema({"id": pa.string(), "text": pa.string(), **kinds})


def _typed_column(documents: Sequence[Document], field: pa.Field) -> pa.Array:
    values = [document.fields.get(field.name) for document in documents]
    wrong = (pa.ArrowException, TypeError, ValueError, OverflowError)
    try:
        return pa.array(values, field.type)
    except wrong:
        for document, value in zip(documents, values, strict=True):
            try:
                pa.array([value], field.type)
            except wrong as error:
                what = f"field {field.name!r}: wanted {field.type}, got {value!r:.80}"
                raise VocabtoolError(f"{document.id}: {what}") from error
        raise


def _json_column(documents: Sequence[Document], field: pa.Field) -> pa.Array:
    def as_text(document: Document) -> str | None:
        value = document.fields.get(field.name)
        if value is None or isinstance(value, str):
            return value
        return _json(document, value, f"field {field.name!r}")

    return _texts(map(as_text, documents))


def _all_column(documents: Sequence[Document], _: pa.Field) -> pa.Array:
    return _texts(_json(document, dict(document.fields), "fields") for document in documents)


def _texts(texts: Iterable[str | None]) -> pa.StringArray:
    encoded = [None if text is None else text_bytes(text) for text in texts]
    return pa.array(encoded, pa.binary()).view(pa.string())


def _json(document: Document, value: object, what: str) -> str:
    """JSON in letters as they are, or in ASCII where a lone surrogate, which has no UTF-8, is."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise VocabtoolError(f"{document.id}: {what}: {error}; {NO_JSON}") from error
    return text


# ---- kept streams: only a pass that came to its end is kept


@dataclass(slots=True)
class InMemory(Generic[T]):
    """The elements of the first whole pass, given again by every later one."""

    source: Start[T]
    held: list[T] | None = None

    def __call__(self, first: int) -> Iterator[T]:
        if self.held is None:
            yield from rest(self._fill(), first)
        else:
            held = self.held
            yield from (held[index] for index in range(first, len(held)))

    def _fill(self) -> Iterator[T]:
        held = []
        with closed_after(self.source(0)) as remaining:
            for item in remaining:
                held.append(item)
                yield item
        self.held = held


@dataclass(frozen=True, slots=True)
class InFolder:
    """Documents in an Arrow IPC file that appears in ``folder`` when a pass came to its end.

    Its schema holds ``key``. Fields are kept as JSON.
    """

    source: Start[Document]
    folder: Path
    key: str

    def __call__(self, first: int) -> Iterator[Document]:
        if (self.folder / CACHE_FILE).exists():
            yield from self._read_file(first)
        else:
            yield from rest(self._fill(), first)

    def _fill(self) -> Iterator[Document]:
        layout = Layout.of()
        schema = layout.schema.with_metadata({CACHE_KEY: self.key.encode()})
        self.folder.mkdir(parents=True, exist_ok=True)
        with (
            whole_file(self.folder / CACHE_FILE) as file,
            pa.ipc.new_file(file, schema) as writer,
            closed_after(self.source(0)) as documents,
        ):
            held: list[Document] = []
            for document in documents:
                held.append(document)
                yield document
                if len(held) == CACHE_ROWS:
                    writer.write_batch(layout.batch(held))
                    held = []
            writer.write_batch(layout.batch(held))

    def _read_file(self, first: int) -> Iterator[Document]:
        path = str(self.folder / CACHE_FILE)
        with (
            reading(path),
            arrow_errors("not Arrow IPC, or damaged"),
            pa.memory_map(path) as file,
            pa.ipc.open_file(file) as reader,
        ):
            self._check(reader.schema)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                if first < batch.num_rows:
                    yield from _documents_of(batch.slice(first))
                first = max(first - batch.num_rows, 0)

    def _check(self, schema: pa.Schema) -> None:
        if schema.names != ["id", "text", ALL_FIELDS]:
            raise InvalidFile(f"wanted the columns id, text, fields, got {schema.names}")
        found = (schema.metadata or {}).get(CACHE_KEY, b"").decode("utf-8", "replace")
        if found != self.key:
            raise VocabtoolError(
                f"{self.folder}: cached under the key {found!r}, wanted {self.key!r}: it may hold "
                "other documents. Take another folder, or delete this one"
            )


def _documents_of(batch: pa.RecordBatch) -> Iterator[Document]:
    columns = [column.view(pa.binary()) for column in batch.columns]
    for column in columns:
        column.validate(full=True)
        if column.null_count:
            raise InvalidFile("a document without an id, a text or fields")
    for name, text, written in zip(*(column.to_pylist() for column in columns), strict=True):
        try:
            fields = json.loads(decode(written))
        except (ValueError, RecursionError) as error:
            raise InvalidFile(f"fields that are not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise InvalidFile(f"wanted fields as a JSON object, got {type(fields).__name__}")
        yield Document(decode(name), decode(text), fields)
