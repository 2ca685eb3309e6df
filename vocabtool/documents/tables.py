"""Read documents from tables with typed columns: Parquet, Arrow IPC, and tables in memory.

A dictionary-encoded column is decoded in small parts, because many rows may share one long text.

An Arrow file (``.arrow``, ``.feather`` version 2) contains a stream and a footer between two magic
numbers. From a pipe, only the stream is read. Format: arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import groupby, islice
from operator import itemgetter
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray
from pyarrow import parquet

from vocabtool.documents.batch import (
    BATCH_BYTES,
    MAX_ROWS,
    NOT_FINITE,
    BadRow,
    Batch,
    Request,
    as_string,
    in_size,
    join_texts,
    null_columns,
    spans,
    strings,
    text_column,
    text_columns,
)
from vocabtool.documents.files import ArrowStream, Readable, arrow_errors, kind_of, read_up_to
from vocabtool.documents.options import ReadOptions
from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.system.parallel import in_batches


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns to read. ``kept``: only the fields that the table has."""

    texts: tuple[str, ...]
    id: str | None
    kept: tuple[str, ...]
    vector: str | None = None

    @classmethod
    def of(cls, schema: pa.Schema, request: Request) -> Columns:
        ids, vector = request.options.id_field, request.options.vector_field
        try:
            names = schema.names
            texts = tuple(names[place] for place in text_columns(names, request.options))
            kept = tuple(name for name in request.options.kept_fields if name in names)
            for name in (*kept, *filter(None, (ids, vector))):
                text_column(names, name)
        except UnicodeDecodeError as error:
            raise InvalidFile("the column names are not UTF-8") from error
        except BadRow as bad:
            raise InvalidFile(str(bad)) from bad
        for text in texts:
            if not is_strings(kind := schema.field(text).type):
                raise InvalidFile(f"field {text!r}: expected strings, got {kind}")
        kind = schema.field(texts[0] if ids is None else ids).type
        if not is_strings(kind) and not pt.is_integer(_without_dictionary(kind)):
            wanted = "expected strings or integers as ids"
            raise InvalidFile(f"field {ids!r}: {wanted}, got {kind}")
        if vector is not None and not is_numbers(kind := schema.field(vector).type):
            raise InvalidFile(f"field {vector!r}: expected lists of numbers, got {kind}")
        return cls(texts, ids, kept, vector)

    def all(self) -> list[str]:
        others = filter(None, (self.id, self.vector))
        return list(dict.fromkeys((*self.texts, *others, *self.kept)))

    def batch(self, part: pa.RecordBatch, first: int, request: Request) -> Batch:
        """Return the valid rows as a batch. ``first``: the number of the first row, from 1."""
        kept = {name: as_strings(part.column(name), name) for name in self.kept}
        fields: list[dict[str, Any]] | None = None
        if request.whole:
            hidden = request.options.hidden_fields(self.texts[0])
            others = part.drop_columns([name for name in self.texts if name in hidden])
            values = [_python_times(column) for column in others.columns]
            fields = pa.record_batch(values, others.schema.names).to_pylist()
        batch = Batch(
            request.source,
            join_texts([as_strings(part.column(name), name) for name in self.texts]),
            np.arange(first, first + part.num_rows, dtype=np.int64),
            None if self.id is None else as_strings(part.column(self.id), self.id),
            null_columns(request, part.num_rows) | kept,
            fields,
        )
        wrong: dict[int, str] = {}
        if self.vector is not None:
            vectors, wrong = vectors_in(part.column(self.vector), self.vector)
            batch = replace(batch, vectors=vectors)
        lengths = byte_lengths(batch.texts)
        for row in np.flatnonzero(lengths > MAX_TEXT_BYTES).tolist():
            wrong[row] = f"a text of more than {MAX_TEXT_BYTES:,} bytes"
        has_text = np.asarray(batch.texts.is_valid())
        has_id = has_text if batch.ids is None else np.asarray(batch.ids.is_valid())
        valid = has_text & has_id
        for row in np.flatnonzero(~valid).tolist():
            name, wanted = self.id, "a string or an integer as id"
            if not has_text[row]:
                name, wanted = " and ".join(self.texts), "a string"
            request.refuse(first + row, f"field {name!r}: expected {wanted}, got null")
        for row, what in wrong.items():
            if valid[row]:
                request.refuse(first + row, what)
        valid[[*wrong]] = False
        return batch if valid.all() else batch.only(valid)


def is_strings(kind: pa.DataType) -> bool:
    inner = _without_dictionary(kind)
    return bool(pt.is_string(inner) or pt.is_large_string(inner) or pt.is_string_view(inner))


def is_long(kind: pa.DataType) -> bool:
    inner = _without_dictionary(kind)
    is_bytes = pt.is_binary(inner) or pt.is_large_binary(inner) or pt.is_binary_view(inner)
    return is_strings(kind) or bool(is_bytes)


def is_numbers(kind: pa.DataType) -> bool:
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return bool(is_list and (pt.is_integer(kind.value_type) or pt.is_floating(kind.value_type)))


def vectors_in(column: pa.Array, name: str) -> tuple[NDArray[np.float32], dict[int, str]]:
    """Convert a column of lists of numbers to float32, shape (n, dim).

    ``dim`` is the most frequent length. The vectors of invalid rows are zero. Also return a
    dictionary from the index of each invalid row to the reason why it is invalid.
    """
    lengths = np.asarray(pc.list_value_length(column).fill_null(-1)).astype(np.int64)
    distinct, counts = np.unique(lengths[lengths > 0], return_counts=True)
    dim = int(distinct[counts.argmax()]) if len(distinct) else 0
    good = (lengths == dim) & (lengths > 0)
    numbers = (column if good.all() else column.filter(pa.array(good))).flatten()
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is refused below
        made = numbers.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    vectors = made.reshape(int(good.sum()), dim)
    finite = np.isfinite(vectors).all(axis=1)
    if not (good.all() and finite.all()):
        rows = np.flatnonzero(good)
        kept, vectors = vectors[finite], np.zeros((len(column), dim), np.float32)
        vectors[rows[finite]] = kept
        good[rows[~finite]] = False
    wrong = {}
    for row in np.flatnonzero(~good).tolist():
        got = f"{lengths[row]:,}" if lengths[row] >= 0 else "null"
        wanted = f"{dim:,} numbers" if dim else "a list of numbers"
        what = f"expected {wanted}, got {got}"
        if lengths[row] == dim > 0:
            what = NOT_FINITE
        wrong[row] = f"field {name!r}: {what}"
    return vectors, wrong


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _python_times(column: pa.Array) -> pa.Array:
    """Reduce nanoseconds to microseconds, the precision of Python's types."""
    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    if pt.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    return column.cast(pa.time64("us") if pt.is_time(kind) else pa.duration("us"), safe=False)


def decode(column: pa.Array) -> pa.Array:
    """Return a column with a value for each row, not a code of a dictionary."""
    return column.dictionary_decode() if pt.is_dictionary(column.type) else column


def as_strings(column: pa.Array, name: str) -> pa.StringArray:
    """Convert a column to strings: integers in decimal, times in ISO 8601, others as JSON text."""
    column = decode(column)
    kind = column.type
    plain = (pt.is_integer, pt.is_boolean, is_strings, pt.is_timestamp, pt.is_date, pt.is_time)
    if any(check(kind) for check in plain):
        return column.cast(pa.string())
    if is_long(kind) or pt.is_fixed_size_binary(kind):
        return column.cast(pa.binary()).view(pa.string())
    try:
        return strings([as_string(value, name) for value in _python_times(column).to_pylist()])
    except BadRow as bad:  # too deeply nested; this is a fault of the type, so of every row
        raise InvalidFile(str(bad)) from bad


def in_parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows into parts of at most ``BATCH_BYTES`` bytes of text."""
    for start, end in spans(_text_ends(rows), BATCH_BYTES):
        yield rows if end - start == rows.num_rows else rows.slice(start, end - start)


def _text_ends(rows: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the sum of the bytes of text before each row, and in all rows, once decoded."""
    ends = np.zeros(rows.num_rows + 1, np.int64)
    for column in filter(lambda column: is_long(column.type), rows.columns):
        if not pt.is_dictionary(column.type):
            ends[1:] += np.cumsum(byte_lengths(column))
        elif len(lengths := byte_lengths(column.dictionary)):
            ends[1:] += np.cumsum(lengths[np.asarray(column.indices.fill_null(0))])
    return ends


def byte_lengths(values: pa.Array) -> NDArray[np.int64]:
    """Return the length of each string in bytes, 0 for null: int64, shape (n,)."""
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)


ROWS_AT_ONCE: Final = 1024
BUFFER: Final = 1 << 20  # bytes read ahead in a column
LONG_TEXT: Final = (64 << 20) // ROWS_AT_ONCE  # bytes; dictionaries with longer texts stay coded
MAX_TEXT_BYTES: Final = 64 << 20  # as of a line; a longer text is an invalid row
MAX_GROWTH: Final = 1_000  # of a longer file; repeated texts stand in its dictionary, once
ROW_BYTES: Final = 4  # of the offset of each text
MAX_COLUMNS: Final = 50_000  # or row groups of Parquet; each column needs 4,000 bytes
PARQUET_ERROR: Final = (
    f"not Parquet, or damaged, or with more than {MAX_COLUMNS:,} columns or row groups"
)


@dataclass(slots=True)
class _Growth:
    """Counts the bytes that are ``read`` from a file, and the ``size`` of what they unpack to."""

    read: int = 0
    size: int = 0

    def is_too_much(self, more: int) -> bool:
        return self.size + more > max(MAX_TEXT_BYTES, MAX_GROWTH * self.read)

    def add(self, more: int) -> None:
        if self.is_too_much(more):
            raise InvalidFile(
                f"up to here, {self.read:,} bytes unpack to {self.size + more:,} or more, over "
                f"{MAX_GROWTH:,} times as many"
            )
        self.size += more


def read_parquet(file: IO[bytes], request: Request) -> Iterator[Batch]:
    """Read each row as a document; a row whose text or id is null is invalid."""
    with arrow_errors(PARQUET_ERROR):
        table = parquet.ParquetFile(
            file,
            buffer_size=BUFFER,
            pre_buffer=False,
            thrift_container_size_limit=MAX_COLUMNS + 1,  # the list of columns has a root
        )
        schema = table.schema_arrow
        columns = Columns.of(schema, request)
        wanted = dict.fromkeys(schema.names if request.whole else columns.all())  # fast to look up
        skipped, first = 0, 1
        while request.left and skipped < table.num_row_groups:
            count = table.metadata.row_group(skipped).num_rows
            if not request.skip_unread(count):
                break
            skipped, first = skipped + 1, first + count
        long = [name for name in wanted if is_long(schema.field(name).type)]
        coded = parquet.ParquetFile(
            file,
            metadata=table.metadata,
            buffer_size=BUFFER,
            pre_buffer=False,
            read_dictionary=long,
        )

        def parts() -> Iterator[tuple[bool, pa.RecordBatch]]:
            """Yield a few rows at a time, and whether they are dictionary-encoded."""
            growth = _Growth()
            for group in range(skipped, table.num_row_groups):
                # Even a few rows may contain much text. The first row comes with the dictionaries.
                metadata = table.metadata.row_group(group)
                chunks = [metadata.column(at) for at in range(metadata.num_columns)]
                chunks = [chunk for chunk in chunks if chunk.path_in_schema in wanted]
                size = sum(chunk.total_uncompressed_size for chunk in chunks)
                packed = sum(chunk.total_compressed_size for chunk in chunks)
                if size > MAX_TEXT_BYTES * metadata.num_rows or _Growth(packed).is_too_much(size):
                    raise InvalidFile(
                        f"row group {group}: {packed:,} bytes unpack to {size:,} in "
                        f"{metadata.num_rows:,} rows; a text can have {MAX_TEXT_BYTES:,} bytes"
                    )
                growth.read += packed
                longest = [
                    int(byte_lengths(column.dictionary).max(initial=0))
                    for row in islice(coded.iter_batches(1, [group], long), 1)
                    for column in row.columns
                ]
                is_coded = max(longest, default=0) > LONG_TEXT
                if growth.is_too_much(size + metadata.num_rows * (sum(longest) + ROW_BYTES)):
                    ahead = replace(growth)  # the codes tell what the texts would need
                    for rows in coded.iter_batches(MAX_ROWS, [group], long):
                        ahead.add(int(_text_ends(rows)[-1]) + ROW_BYTES * rows.num_rows)
                # About BUFFER bytes on average, by the sizes in the metadata.
                at_once = max(1, min(ROWS_AT_ONCE, BUFFER * metadata.num_rows // max(size, 1)))
                for rows in (coded if is_coded else table).iter_batches(
                    at_once, [group], [*wanted]
                ):
                    for part in in_parts(rows) if is_coded else (rows,):
                        growth.add(sum(decode(column).nbytes for column in part.columns))
                        yield is_coded, part

        def weight(part: tuple[bool, pa.RecordBatch]) -> int:
            return request.size if part[0] else int(part[1].nbytes)

        for some in in_batches(parts(), MAX_ROWS, weight=weight, most=request.size):
            for is_coded, same in groupby(some, itemgetter(0)):
                batches = [part for _, part in same]  # several only if they are not coded
                rows = batches[0] if is_coded else pa.concat_batches(batches)
                yield from in_size(columns.batch(rows, first, request), request.size)
                first += rows.num_rows


FILE: Final = b"ARROW1\0\0"
FEATHER_1: Final = b"FEA1"
ARROW_ERROR: Final = "not Arrow IPC, or damaged"


def read_arrow(file: Readable, request: Request) -> Iterator[Batch]:
    """Read each row as a document; a row whose text or id is null is invalid."""
    head = read_up_to(file, len(FILE))
    if head.startswith(FEATHER_1):
        raise UnsupportedFormat("Feather version 1 is not supported; convert the file to version 2")
    if not head:
        raise InvalidFile("the file is empty (expected Arrow IPC)")
    with arrow_errors(ARROW_ERROR):
        if head == FILE and isinstance(file, BufferedReader) and file.seekable():
            yield from _of_file(file, request)
        else:
            with closing(ArrowStream(head.removeprefix(FILE), file)) as stream:
                table = pa.ipc.open_stream(pa.PythonFile(stream, "r"))
                columns = Columns.of(table.schema, request)
                yield from _arrow_batches(table, 1, columns, request, lambda: stream.count)


def read_table(source: Any, request: Request) -> Iterator[Batch]:
    """Read each row of an Arrow table or data frame as a document.

    Rows are read in batches, so a reader, a DuckDB relation or a lazy frame need not fit into
    memory.
    """
    first = 1
    parts = [source] if hasattr(source, "__arrow_c_stream__") else source.collect_batches()
    with reading(request.source), arrow_errors("the table cannot be read"):
        for part in parts:
            reader = pa.RecordBatchReader.from_stream(part)
            columns = Columns.of(reader.schema, request)
            for rows in reader:
                yield from _arrow_batches([rows], first, columns, request)
                first += rows.num_rows


def row_counts(name: str, options: ReadOptions) -> list[int] | None:
    """Return the number of rows of each row group or record batch; ``None`` if it is unknown."""
    format_, codec = kind_of(name, options)
    if options.splits_rows or codec is not None or format_ not in ("parquet", "arrow"):
        return None
    if format_ == "parquet":
        with arrow_errors(PARQUET_ERROR):
            metadata = parquet.read_metadata(name)
            return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    with arrow_errors(ARROW_ERROR), pa.memory_map(name) as mapped:
        if mapped.read(len(FILE)) != FILE:
            return None  # a stream
        table = pa.ipc.open_file(mapped)
        return [table.get_batch(place).num_rows for place in range(table.num_record_batches)]


def _of_file(file: BufferedReader, request: Request) -> Iterator[Batch]:
    file.seek(0)
    schema = pa.ipc.open_file(file).schema
    columns = Columns.of(schema, request)
    places = [] if request.whole else [schema.names.index(name) for name in columns.all()]
    options = pa.ipc.IpcReadOptions(included_fields=sorted(places))
    table = pa.ipc.open_file(file, options=options)
    skipped, first = 0, 1
    if request.left:
        # With a memory map, only the header of an uncompressed batch is loaded.
        with pa.memory_map(file.name) as mapped:
            headers = pa.ipc.open_file(mapped, options=options)
            while skipped < table.num_record_batches:
                rows = headers.get_batch(skipped).num_rows
                if not request.skip_unread(rows):
                    break
                skipped, first = skipped + 1, first + rows
    parts = (table.get_batch(index) for index in range(skipped, table.num_record_batches))
    size = os.fstat(file.fileno()).st_size
    yield from _arrow_batches(parts, first, columns, request, lambda: size)


def _arrow_batches(
    parts: Iterable[pa.RecordBatch],
    first: int,
    columns: Columns,
    request: Request,
    read: Callable[[], int] | None = None,
) -> Iterator[Batch]:
    """Read rows. ``read`` returns the number of bytes read from a file, which they can outgrow."""
    growth = _Growth()
    if columns.vector is not None:
        parts = (
            rows.slice(start, ROWS_AT_ONCE)
            for rows in parts
            for start in range(0, rows.num_rows, ROWS_AT_ONCE)
        )
    for rows in parts:
        chosen = rows if request.whole else rows.select(columns.all())
        for column in chosen.columns:
            kind = column.type  # strings as binary: check their offsets, but not for UTF-8
            kind = pa.binary() if pt.is_string(kind) else kind
            kind = pa.large_binary() if pt.is_large_string(kind) else kind
            column.view(kind).validate(full=True)
        if read is not None:
            growth.read = read()
            growth.add(int(_text_ends(chosen)[-1]))
        for batch in in_parts(chosen):
            yield from in_size(columns.batch(batch, first, request), request.size)
            first += batch.num_rows
