"""Outputs of a stream: Arrow record batches, a cache, TensorFlow and Ray datasets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import Document, strings
from vocabtool.documents.files import arrow_errors
from vocabtool.documents.options import VECTOR
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.streams.operators import Start, items
from vocabtool.system.native_import import import_library
from vocabtool.system.own_files import whole_file
from vocabtool.system.parallel import closed_after, in_batches
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.vocabulary import decode, text_bytes

if TYPE_CHECKING:
    import ray.data
    import tensorflow as tf

T = TypeVar("T")

Fields: TypeAlias = Mapping[str, pa.DataType] | Sequence[str] | None

ALL_FIELDS: Final = "fields"
RESERVED: Final = frozenset({"id", "text"})
ROWS: Final = 1024  # in a batch for TensorFlow or a cache; more would need more memory
NO_JSON: Final = "JSON cannot represent it: convert it with .map() first, or give its Arrow type"
CACHE_FILE: Final = "documents.arrow"
CACHE_KEY: Final = b"vocabtool.key"
NOT_SENT: Final = (
    "the stream cannot be sent to Ray ({}): wanted a stream of files or a list, with functions "
    "that can be pickled. For an iterator, append .cache(FOLDER), read it once, and send "
    "vocabtool.stream(FOLDER, id_field='id')"
)


def schema_of(fields: Fields) -> pa.Schema:
    """Return the columns of :meth:`Stream.to_arrow`. Raises ``ValueError`` for wrong names."""
    if isinstance(fields, str):
        raise ValueError(f"fields: wanted a list of names, got {fields!r}: put it in a list")
    if isinstance(fields, Mapping):
        kinds = dict(fields)
    else:
        kinds = dict.fromkeys([ALL_FIELDS] if fields is None else fields, pa.string())
    if RESERVED & kinds.keys():
        raise ValueError(f"fields: the names {sorted(RESERVED)} are reserved, got {list(kinds)}")
    return pa.schema({"id": pa.string(), "text": pa.string(), **kinds})


def record_batch(
    schema: pa.Schema, fields: Fields, documents: Sequence[Document]
) -> pa.RecordBatch:
    """Return documents as rows. Raises :class:`VocabtoolError` for wrong elements and values."""
    need_documents(documents, "Arrow")
    columns = [string_array(document.id for document in documents)]
    columns.append(string_array(document.text for document in documents))
    for field in list(schema)[2:]:
        if fields is None:
            rows = (_json(document, dict(document.fields), "fields") for document in documents)
            columns.append(string_array(rows))
            continue
        values: list[Any] = [document.fields.get(field.name) for document in documents]
        what = f"field {field.name!r}"
        if isinstance(fields, Mapping):
            columns.append(_typed_column(documents, values, field.type, what))
            continue
        texts = [
            value if value is None or isinstance(value, str) else _json(document, value, what)
            for document, value in zip(documents, values, strict=True)
        ]
        columns.append(strings([None if text is None else text_bytes(text) for text in texts]))
    return pa.record_batch(columns, schema)


def _typed_column(
    documents: Sequence[Document], values: list[Any], kind: pa.DataType, what: str
) -> pa.Array:
    """Convert a value of each document. A :class:`VocabtoolError` names it and ``what``."""
    errors = (pa.ArrowException, TypeError, ValueError, OverflowError)
    try:
        return pa.array(values, kind)
    except errors:
        for document, value in zip(documents, values, strict=True):
            try:
                pa.array([value], kind)
            except errors as error:
                problem = f"{what}: wanted {kind}, got {value!r:.80}"
                raise VocabtoolError(f"{document.id}: {problem}") from error
        raise


def _json(document: Document, value: object, what: str) -> str:
    """Return a value of a document as JSON, in UTF-8. Raises :class:`VocabtoolError`."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which needs an escape
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise VocabtoolError(f"{document.id}: {what}: {error}; {NO_JSON}") from error
    return text


def record_batches(start: Start[Document], rows: int, fields: Fields) -> Iterator[pa.RecordBatch]:
    """See :meth:`Stream.to_arrow`. ``rows``: number of documents in a record batch."""
    schema = schema_of(fields)
    with closed_after(in_batches(start(0), rows)) as batches:
        for documents in batches:
            yield record_batch(schema, fields, documents)


def need_documents(elements: Sequence[object], what: str) -> None:
    """Raise :class:`VocabtoolError` if an element is not a document."""
    for element in elements:
        if not isinstance(element, Document):
            got = type(element).__name__
            raise VocabtoolError(f"{what} needs documents, got {got}: convert elements with .map()")


@dataclass(slots=True)
class InMemory(Generic[T]):
    """A cache in memory: later passes repeat the elements of the first complete pass."""

    source: Start[T]
    elements: list[T] | None = None

    def __call__(self, first: int) -> Iterator[T]:
        if self.elements is not None:
            yield from items(self.elements, first)
            return
        elements = []
        with closed_after(self.source(0)) as remaining:
            for item in remaining:
                elements.append(item)
                if len(elements) > first:
                    yield item
        self.elements = elements


def cached_in_folder(
    source: Start[Document], folder: Path, key: str, first: int
) -> Iterator[Document]:
    """Begin a pass with a cache in an Arrow IPC file, which a complete pass makes."""
    if (folder / CACHE_FILE).exists():
        yield from _read_cache(folder, key, first)
        return
    schema = schema_of(None).with_metadata({CACHE_KEY: key.encode()})
    folder.mkdir(parents=True, exist_ok=True)
    with (
        whole_file(folder / CACHE_FILE) as file,
        pa.ipc.new_file(file, schema) as writer,
        closed_after(source(0)) as documents,
    ):
        batch: list[Document] = []  # a document is yielded before its batch is whole
        for number, document in enumerate(documents):
            batch.append(document)
            if number >= first:
                yield document
            if len(batch) == ROWS:
                writer.write_batch(record_batch(schema, None, batch))
                batch = []
        writer.write_batch(record_batch(schema, None, batch))


def _read_cache(folder: Path, key: str, first: int) -> Iterator[Document]:
    """Yield the documents in the file. Raises :class:`VocabtoolError` if ``key`` differs."""
    path = str(folder / CACHE_FILE)
    with (
        reading(path),
        arrow_errors("not Arrow IPC, or damaged"),
        pa.memory_map(path) as file,
        pa.ipc.open_file(file) as reader,
    ):
        names, metadata = reader.schema.names, reader.schema.metadata or {}
        if names != ["id", "text", ALL_FIELDS]:
            raise InvalidFile(f"wanted the columns id, text, fields, got {names}")
        stored = metadata.get(CACHE_KEY, b"").decode("utf-8", "replace")
        if stored != key:
            raise VocabtoolError(
                f"{folder}: the key of the cache is {stored!r}, not {key!r}, so it "
                "may contain other documents. Use another folder, or delete this one"
            )
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            if first < batch.num_rows:
                yield from _documents_of(batch.slice(first))
            first = max(first - batch.num_rows, 0)


def _documents_of(batch: pa.RecordBatch) -> Iterator[Document]:
    """Yield the rows of a cache as documents. Raises :class:`InvalidFile` if it is damaged."""
    columns = [column.view(pa.binary()) for column in batch.columns]
    for column in columns:
        column.validate(full=True)
        if column.null_count:
            raise InvalidFile("a document lacks its id, its text or its fields")
    for name, text, written in zip(*(column.to_pylist() for column in columns), strict=True):
        try:
            fields = json.loads(decode(written))
        except (ValueError, RecursionError) as error:
            raise InvalidFile(f"fields that are not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise InvalidFile(f"wanted fields as a JSON object, got {type(fields).__name__}")
        yield Document(decode(name), decode(text), fields)


class Encodes(Protocol):
    """What :meth:`Stream.to_tf_dataset` needs of an encoder."""

    @property
    def dim(self) -> int: ...

    def encode(self, texts: Sequence[str | bytes]) -> NDArray[np.float32]: ...


def tf_dataset(
    start: Start[Document],
    batch_size: int | None,
    fields: Mapping[str, str],
    encoder: Encodes | None,
    drop_remainder: bool,
    count: int | None,
) -> tf.data.Dataset:
    """See :meth:`Stream.to_tf_dataset`. ``count``: the number of documents, if it is known."""
    try:
        tf = import_library("tensorflow")
    except ImportError as error:
        hint = "tensorflow is not installed: pip install '.[tensorflow]'"
        raise UnsupportedFormat(hint) from error
    reserved = {*RESERVED, VECTOR} & fields.keys()
    if reserved:
        raise ValueError(f"fields: the names {sorted(reserved)} are reserved")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size: wanted at least one document in a batch, got {batch_size}")
    columns = {name: tf.as_dtype(dtype) for name, dtype in fields.items()}
    kinds = {"id": tf.string, "text": tf.string, **columns}
    signature = {name: tf.TensorSpec((None,), kind) for name, kind in kinds.items()}
    if encoder is not None:
        signature[VECTOR] = tf.TensorSpec((None, encoder.dim), tf.float32)
    # TensorFlow's autotuner has nothing to tune here, and the end of every other pass waits for
    # it: it sleeps for 10 ms, then twice as long each time (TensorFlow 2.21).
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    dataset = tf.data.Dataset.from_generator(
        lambda: _tf_batches(start, columns, encoder), output_signature=signature
    )
    if batch_size is None:
        dataset = dataset.unbatch()
    else:
        dataset = dataset.rebatch(batch_size, drop_remainder)
    dataset = dataset.with_options(untuned)
    if count is None:
        return dataset
    size = batch_size or 1
    elements = count // size if drop_remainder else -(-count // size)  # for Keras epochs
    return dataset.apply(tf.data.experimental.assert_cardinality(elements))


def _tf_batches(
    start: Start[Document], columns: Mapping[str, Any], encoder: Encodes | None
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield batches of documents as columns. ``columns``: the TensorFlow type of each field."""
    with closed_after(in_batches(start(0), ROWS)) as batches:
        for documents in batches:
            need_documents(documents, "TensorFlow")
            texts = [text_bytes(document.text) for document in documents]
            batch = {
                "id": np.array([text_bytes(document.id) for document in documents], object),
                "text": np.array(texts, object),
            }
            for name, dtype in columns.items():
                batch[name] = _column(documents, name, dtype.as_numpy_dtype)
            if encoder is not None:
                batch[VECTOR] = encoder.encode(texts)
            yield batch


def _column(documents: Sequence[Document], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a field of each document, shape (n,). Raises :class:`VocabtoolError` if one lacks it.

    ``dtype``: ``object`` for strings, which become bytes in UTF-8.
    """
    column = np.empty(len(documents), dtype)
    for row, document in enumerate(documents):
        try:
            value: Any = document.fields[name]
            column[row] = text_bytes(value) if dtype is np.object_ else value
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            got = f"got {document.fields[name]!r:.80}" if name in document.fields else "got none"
            kind = "string" if dtype is np.object_ else np.dtype(dtype).name
            raise VocabtoolError(f"{document.id}: field {name!r}: wanted {kind}, {got}") from error
    return column


def ray_dataset(start: Start[Document], rows: int, fields: Fields) -> ray.data.Dataset:
    """See :meth:`Stream.to_ray`. ``rows``: number of documents in a table that Ray gets."""
    schema_of(fields)  # raises an error for wrong fields before Ray starts
    try:
        import ray.data
    except ImportError as error:
        raise UnsupportedFormat("ray is not installed: pip install '.[ray]'") from error
    library: Any = ray  # only partly typed
    tasks = library.data.datasource

    def read() -> Iterator[pa.Table]:
        return (pa.Table.from_batches([batch]) for batch in record_batches(start, rows, fields))

    try:
        library.cloudpickle.dumps(read)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(NOT_SENT.format(error)) from error
    nothing_known = library.data.block.BlockMetadata(
        num_rows=None, size_bytes=None, input_files=None, exec_stats=None
    )
    # One task reads the stream. The class is created here because Ray is imported on use; it is
    # pickled by value.
    methods: dict[str, Callable[..., Any]] = {
        "estimate_inmemory_data_size": lambda _: None,
        "get_read_tasks": lambda *_, **__: [tasks.ReadTask(read, nothing_known)],
    }
    source = type("StreamDatasource", (tasks.Datasource,), methods)()
    dataset: ray.data.Dataset = library.data.read_datasource(source, override_num_blocks=1)
    return dataset
