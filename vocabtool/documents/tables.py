"""Read documents from tables: Parquet, Arrow IPC, CSV, TSV, and tables in memory.

A dictionary-encoded column is decoded in small parts, because many rows may share one long text.

An Arrow file (``.arrow``, ``.feather`` version 2) contains a stream and a footer between two magic
numbers. From a pipe, only the stream is read. Format: arrow.apache.org/docs/format/Columnar.html.

CSV and TSV: the first row contains the field names. Quotes follow RFC 4180. Row numbers count
records, from 1 for the header; empty lines are not counted.
"""

from __future__ import annotations

import csv
import io
import os
from codecs import BOM_UTF8 as BOM
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from vocabtool.documents.batch import (
    BATCH_BYTES,
    MAX_ROWS,
    BadRow,
    Batch,
    Request,
    as_string,
    byte_lengths,
    in_size,
    join_texts,
    spans,
    strings,
    text_column,
    text_columns,
    vectors_in,
)
from vocabtool.documents.files import (
    ArrowStream,
    Readable,
    arrow_errors,
    kind_of,
    read_up_to,
    refuse_utf16,
)
from vocabtool.documents.options import ReadOptions
from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.system.parallel import in_batches
from vocabtool.vocabulary import decode as as_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns to read, each by its key: its name or, in CSV, its number.

    - ``texts``: the columns that contain text. ``id``, ``vector``: ``None`` if they are not read.
    - ``kept``: by name the kept fields that the table has.
    - ``names``: by key the name of each column of the table.
    """

    texts: Sequence[str]
    id: str | None
    kept: Mapping[str, str]
    vector: str | None
    names: Mapping[str, str]

    @classmethod
    def of(
        cls, names: Sequence[str], read: ReadOptions, keys: Sequence[str] | None = None
    ) -> Columns:
        """Raises :class:`InvalidFile` if a column is missing. ``keys`` are by default ``names``."""
        keys = names if keys is None else keys

        def key(name: str | None) -> str | None:
            return None if name is None else keys[text_column(names, name)]

        kept_fields = [name for name in read.kept_fields if name in names]
        try:
            return cls(
                texts=[keys[place] for place in text_columns(names, read)],
                id=key(read.id_field),
                kept={name: keys[text_column(names, name)] for name in kept_fields},
                vector=key(read.vector_field),
                names=dict(zip(keys, names, strict=True)),
            )
        except BadRow as bad:
            raise InvalidFile(str(bad)) from bad

    @classmethod
    def of_table(cls, schema: pa.Schema, read: ReadOptions) -> Columns:
        """Find the columns and check their types. Raises :class:`InvalidFile`."""
        try:
            columns = cls.of(schema.names, read)
        except UnicodeDecodeError as error:
            raise InvalidFile("the column names are not UTF-8") from error
        for text in columns.texts:
            if not is_strings(kind := schema.field(text).type):
                raise InvalidFile(f"field {text!r}: expected strings, got {kind}")
        if columns.id is not None:
            kind = schema.field(columns.id).type
            if not is_strings(kind) and not pt.is_integer(without_dictionary(kind)):
                what = f"expected strings or integers as ids, got {kind}"
                raise InvalidFile(f"field {columns.id!r}: {what}")
        vector = columns.vector
        if vector is not None and not is_numbers(kind := schema.field(vector).type):
            raise InvalidFile(f"field {vector!r}: expected lists of numbers, got {kind}")
        return columns

    def to_read(self, request: Request) -> list[str]:
        if request.all_fields:
            return list(self.names)
        others = (key for key in (self.id, self.vector) if key is not None)
        return list(dict.fromkeys((*self.texts, *others, *self.kept.values())))

    def batch(self, rows: pa.RecordBatch, numbers: NDArray[np.int64], request: Request) -> Batch:
        """Return the valid rows; refuse the others. ``numbers``: of the rows, int64, shape (n,)."""
        columns = {name: as_strings(rows.column(key), name) for name, key in self.kept.items()}
        types = dict.fromkeys(request.read.kept_fields, pa.null())
        nulls = pa.nulls(rows.num_rows, pa.string())
        for name, key in self.kept.items():
            types[name] = without_dictionary(rows.column(key).type)
        batch = Batch(
            request.source,
            join_texts([as_strings(rows.column(key), key) for key in self.texts]),
            numbers,
            None if self.id is None else as_strings(rows.column(self.id), self.id),
            dict.fromkeys(request.read.kept_fields, nulls) | columns,
            self._fields(rows, request) if request.all_fields else None,
            types=types,
        )
        reasons: dict[int, str] = {}  # by the index of an invalid row
        if self.vector is not None:
            vectors, reasons = vectors_in(rows.column(self.vector), self.vector)
            batch = replace(batch, vectors=vectors)
        if batch.ids is not None:
            for row in np.flatnonzero(~np.asarray(batch.ids.is_valid())).tolist():
                reasons[row] = f"field {self.id!r}: expected a string or an integer as id, got null"
        for row in np.flatnonzero(~np.asarray(batch.texts.is_valid())).tolist():
            reasons[row] = f"field {' and '.join(self.texts)!r}: expected a string, got null"
        for row, reason in sorted(reasons.items()):
            request.refuse(int(numbers[row]), reason)
        is_valid = np.ones(len(batch), bool)
        is_valid[[*reasons]] = False
        return batch.only(is_valid) if reasons else batch

    def _fields(self, rows: pa.RecordBatch, request: Request) -> list[dict[str, object]]:
        """Return ``Batch.fields``: for each row, all its values except the text."""
        fields: list[dict[str, object]] = [{} for _ in range(rows.num_rows)]
        hidden = request.read.hidden_fields(self.names[self.texts[0]])
        # Names of a table may be repeated; then the last column counts.
        for key, column in zip(rows.schema.names, rows.columns, strict=True):
            name = self.names[key]
            if name not in hidden:
                for of_row, value in zip(fields, _values(column), strict=True):
                    of_row[name] = value
        return fields


def _values(column: pa.Array) -> Iterable[object]:
    if pt.is_string(column.type):
        texts = column.view(pa.binary()).to_pylist()
        return [None if text is None else as_text(text) for text in texts]
    kind = column.type
    if getattr(kind, "unit", None) == "ns":  # Python's types have microseconds
        if pt.is_timestamp(kind):
            in_microseconds = pa.timestamp("us", kind.tz)
        else:
            in_microseconds = pa.time64("us") if pt.is_time(kind) else pa.duration("us")
        column = column.cast(in_microseconds, safe=False)
    values: list[object] = column.to_pylist()
    return values


def is_strings(kind: pa.DataType) -> bool:
    """Return whether a column of this type has strings, in any layout of Arrow."""
    inner = without_dictionary(kind)
    return bool(pt.is_string(inner) or pt.is_large_string(inner) or pt.is_string_view(inner))


def is_long(kind: pa.DataType) -> bool:
    """Return whether the values of this type can be long: strings or bytes."""
    inner = without_dictionary(kind)
    is_bytes = pt.is_binary(inner) or pt.is_large_binary(inner) or pt.is_binary_view(inner)
    return is_strings(kind) or bool(is_bytes)


def is_numbers(kind: pa.DataType) -> bool:
    """Return whether a column of this type has lists of numbers."""
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return bool(is_list and (pt.is_integer(kind.value_type) or pt.is_floating(kind.value_type)))


def without_dictionary(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, whether or not a dictionary encodes them."""
    return kind.value_type if pt.is_dictionary(kind) else kind


def decode(column: pa.Array) -> pa.Array:
    """Return values instead of dictionary codes, texts as ``string`` and bytes as ``binary``."""
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_strings(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if is_long(column.type) else column


def as_strings(column: pa.Array, name: str) -> pa.StringArray:
    """Convert a column to strings: texts and bytes unchanged, times in ISO 8601, others as JSON."""
    column = decode(column)
    kind = column.type
    plain = (pt.is_integer, pt.is_boolean, is_strings, pt.is_timestamp, pt.is_date, pt.is_time)
    if any(check(kind) for check in plain):
        return column.cast(pa.string())
    if is_long(kind) or pt.is_fixed_size_binary(kind):
        return column.cast(pa.binary()).view(pa.string())
    try:
        return strings([as_string(value, name) for value in _values(column)])
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


ROWS_AT_ONCE: Final = 1024
BUFFER: Final = 1 << 20  # bytes read ahead in a column
LONG_TEXT: Final = (64 << 20) // ROWS_AT_ONCE  # bytes; dictionaries with longer texts stay coded
MAX_TEXT_BYTES: Final = 64 << 20  # as of a line
MAX_GROWTH: Final = 1_000  # of a longer file; repeated texts stand in its dictionary, once
ROW_BYTES: Final = 4  # of the offset of each text
MAX_COLUMNS: Final = 50_000  # or row groups of Parquet; each column needs 4,000 bytes
PARQUET_ERROR: Final = (
    f"not Parquet, or damaged, or with more than {MAX_COLUMNS:,} columns or row groups"
)


@dataclass(slots=True)
class _Growth:
    """Refuses a file whose few bytes unpack to too many for the memory."""

    packed: int = 0  # bytes so far, in the file
    unpacked: int = 0  # bytes so far, in memory

    def is_too_much(self, more: int) -> bool:
        return self.unpacked + more > max(MAX_TEXT_BYTES, MAX_GROWTH * self.packed)

    def add(self, more: int) -> None:
        """Count ``more`` unpacked bytes. Raises :class:`InvalidFile` if they are too many."""
        if self.is_too_much(more):
            raise InvalidFile(
                f"up to here, {self.packed:,} bytes unpack to {self.unpacked + more:,} or more, "
                f"over {MAX_GROWTH:,} times as many"
            )
        self.unpacked += more


def open_parquet(file: IO[bytes]) -> parquet.ParquetFile:
    """Open a Parquet file. Raises :class:`InvalidFile` if it is damaged or has too many columns."""
    with arrow_errors(PARQUET_ERROR):
        return parquet.ParquetFile(
            file,
            buffer_size=BUFFER,
            pre_buffer=False,
            thrift_container_size_limit=MAX_COLUMNS + 1,  # the list of columns has a root
        )


def read_parquet(file: IO[bytes], request: Request) -> Iterator[Batch]:
    """Read each row as a document; a row whose text or id is null is invalid."""
    table = open_parquet(file)
    with arrow_errors(PARQUET_ERROR):
        columns = Columns.of_table(table.schema_arrow, request.read)
        skipped, first = _skip(_counts_of_groups(table.metadata), request)
        record_batches = row_groups(table, file, columns.to_read(request), skipped)
        for consecutive_batches in in_batches(
            record_batches, MAX_ROWS, weight=lambda rows: int(rows.nbytes), most=request.size
        ):
            rows = pa.concat_batches(consecutive_batches)
            numbers = np.arange(first, first + rows.num_rows)
            yield from in_size(columns.batch(rows, numbers, request), request.size)
            first += rows.num_rows


def row_groups(
    table: parquet.ParquetFile, file: IO[bytes], names: Sequence[str], skipped: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield columns, a few rows at a time; ``skipped``: row groups that are left out at the start.

    Raises :class:`InvalidFile` if few bytes unpack to many.
    """
    schema = table.schema_arrow  # made at each access
    distinct_names = frozenset(names)
    long = [field.name for field in schema if field.name in distinct_names and is_long(field.type)]
    coded = parquet.ParquetFile(
        file, metadata=table.metadata, buffer_size=BUFFER, pre_buffer=False, read_dictionary=long
    )
    growth = _Growth()
    for group in range(skipped, table.num_row_groups):
        count = table.metadata.row_group(group).num_rows
        packed, size = _sizes_of_group(table.metadata, group, distinct_names)
        growth.packed += packed
        longest = [  # the first row comes with the dictionaries
            int(byte_lengths(column.dictionary).max(initial=0))
            for row in islice(coded.iter_batches(1, [group], long), 1)
            for column in row.columns
        ]
        if growth.is_too_much(size + count * (sum(longest) + ROW_BYTES)):
            ahead = replace(growth)  # the codes tell what the texts would need
            for rows in coded.iter_batches(MAX_ROWS, [group], long):
                ahead.add(int(_text_ends(rows)[-1]) + ROW_BYTES * rows.num_rows)
        # Even a few rows may contain much text: about BUFFER bytes on average, by the metadata.
        at_once = max(1, min(ROWS_AT_ONCE, BUFFER * count // max(size, 1)))
        source = coded if max(longest, default=0) > LONG_TEXT else table
        for rows in source.iter_batches(at_once, [group], [*names]):
            for few_rows in in_parts(rows):
                columns = [decode(column) for column in few_rows.columns]
                decoded = pa.record_batch(columns, few_rows.schema.names)
                growth.add(decoded.nbytes)
                yield decoded


def _sizes_of_group(
    metadata: parquet.FileMetaData, group: int, names: frozenset[str]
) -> tuple[int, int]:
    """Return how many bytes a row group has in the file, and how many they unpack to.

    Only the columns ``names`` count. Raises :class:`InvalidFile` if they unpack to too many bytes.
    """
    of_group = metadata.row_group(group)
    count = of_group.num_rows
    chunks = [  # a list has the path COLUMN.list.element, and a name may contain dots
        chunk
        for chunk in map(of_group.column, range(of_group.num_columns))
        if not names.isdisjoint(accumulate(chunk.path_in_schema.split("."), "{}.{}".format))
    ]
    packed = sum(chunk.total_compressed_size for chunk in chunks)
    size = sum(chunk.total_uncompressed_size for chunk in chunks)
    numbers = sum(chunk.num_values - count for chunk in chunks)  # in lists; equal ones are packed
    unpacked = size + 2 * numbers  # a number has two bytes or more
    if size > MAX_TEXT_BYTES * count or _Growth(packed).is_too_much(unpacked):
        raise InvalidFile(
            f"row group {group}: {packed:,} bytes unpack to {unpacked:,} in {count:,} rows; a "
            f"text can have {MAX_TEXT_BYTES:,} bytes"
        )
    return packed, size


def _counts_of_groups(metadata: parquet.FileMetaData) -> Iterator[int]:
    return (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))


def _skip(counts: Iterable[int], request: Request) -> tuple[int, int]:
    """Return how many groups are skipped, and the number of the first row after them, from 1.

    ``counts``: the rows of each group, looked up only if documents are skipped.
    """
    skipped, first = 0, 1
    if request.to_skip:
        for count in counts:
            if not request.skip_unread(count):
                break
            skipped, first = skipped + 1, first + count
    return skipped, first


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
        if head != FILE or not isinstance(file, BufferedReader) or not file.seekable():
            with closing(ArrowStream(head.removeprefix(FILE), file)) as stream:
                table = pa.ipc.open_stream(pa.PythonFile(stream, "r"))
                yield from _batches(table, table.schema, request, bytes_read=lambda: stream.count)
            return
        file.seek(0)
        schema = pa.ipc.open_file(file).schema
        names = {*Columns.of_table(schema, request.read).to_read(request)}
        indexes = [index for index, name in enumerate(schema.names) if name in names]
        of_columns = pa.ipc.IpcReadOptions(included_fields=indexes)
        table = pa.ipc.open_file(file, options=of_columns)
        skipped, first = _skip(_counts_of_batches(file.name), request)
        record_batches = map(table.get_batch, range(skipped, table.num_record_batches))
        size = os.fstat(file.fileno()).st_size
        yield from _batches(record_batches, schema, request, first, lambda: size)


def _counts_of_batches(name: str) -> Iterator[int]:
    """Yield the rows of each record batch; a memory map loads only headers, if not compressed."""
    with pa.memory_map(name) as mapped:
        table = pa.ipc.open_file(mapped, options=pa.ipc.IpcReadOptions(included_fields=[0]))
        for index in range(table.num_record_batches):
            yield table.get_batch(index).num_rows


def read_table(source: Any, request: Request) -> Iterator[Batch]:
    """Rows are read in batches: a DuckDB relation or a lazy frame need not fit into memory."""
    first = 1
    tables = [source] if hasattr(source, "__arrow_c_stream__") else source.collect_batches()
    with reading(request.source), arrow_errors("the table cannot be read"):
        for table in tables:
            reader = pa.RecordBatchReader.from_stream(table)
            for rows in reader:
                yield from _batches([rows], reader.schema, request, first)
                first += rows.num_rows


def row_counts(name: str, read: ReadOptions) -> list[int] | None:
    """Return the number of rows of each row group or record batch; ``None`` if it is unknown."""
    format_, codec = kind_of(name, read)
    if read.splits_rows or codec is not None or format_ not in ("parquet", "arrow"):
        return None
    if format_ == "parquet":
        with arrow_errors(PARQUET_ERROR):
            return list(_counts_of_groups(parquet.read_metadata(name)))
    with arrow_errors(ARROW_ERROR):
        with Path(name).open("rb") as file:
            if file.read(len(FILE)) != FILE:
                return None  # a stream
        return list(_counts_of_batches(name))


def _batches(
    record_batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    request: Request,
    first: int = 1,
    bytes_read: Callable[[], int] | None = None,
) -> Iterator[Batch]:
    """Check rows of Arrow and yield them as batches. ``first``: the number of the first row.

    If the ``bytes_read`` so far unpack to too many, :class:`InvalidFile` is raised.
    """
    columns, growth = Columns.of_table(schema, request.read), _Growth()
    for rows in record_batches:
        chosen = rows if request.all_fields else rows.select(columns.to_read(request))
        for column in chosen.columns:
            kind = column.type  # strings as binary: check their offsets, but not for UTF-8
            kind = pa.binary() if pt.is_string(kind) else kind
            kind = pa.large_binary() if pt.is_large_string(kind) else kind
            column.view(kind).validate(full=True)
        if bytes_read is not None:
            growth.packed = bytes_read()
            growth.add(int(_text_ends(chosen)[-1]))
        at_once = MAX_ROWS if columns.vector is None else ROWS_AT_ONCE
        for start in range(0, chosen.num_rows, at_once):
            for part in in_parts(chosen.slice(start, at_once)):
                numbers = np.arange(first, first + part.num_rows)
                yield from in_size(columns.batch(part, numbers, request), request.size)
                first += part.num_rows


# ---- CSV and TSV

MAX_HEADER_BYTES: Final = 1 << 19  # half a million columns need 320 MB of memory
MAX_ROW_BYTES: Final = 8 << 20  # block size of Arrow; a row must fit in a block
ROWS: Final = 1 << 16  # rows of a block in a batch
PART_OF_TEXT: Final = "if its quotes are part of the text, use --no-quotes (quotes=False)"
OPEN: Final = f"a quote is never closed: the rest of the file would be one row; {PART_OF_TEXT}"


def read_csv(file: Readable, request: Request, delimiter: str) -> Iterator[Batch]:
    """Read each row as a document. A row that is too long always raises :class:`InvalidFile`.

    TSV has no quotes: https://www.iana.org/assignments/media-types/text/tab-separated-values
    """
    has_quotes = delimiter != "\t" and request.read.quotes
    names, block_after_header = _read_header(file, delimiter, has_quotes)
    # Names may be repeated or not UTF-8, so Arrow gets numbers.
    columns = Columns.of(names, request.read, [*map(str, range(len(names)))])
    rows_start = block_after_header or file.read(request.size)
    if not rows_start.strip(b"\r\n"):  # only empty lines so far
        rows_start = file.read(request.size)
        if not rows_start:
            return
    # After the end of the file, Arrow gets one more row. A quote that is never closed contains it.
    end = os.urandom(16).hex().encode()
    last_row = b"\n" + delimiter.encode().join([end] * len(names)) + b"\n"
    # Start with an empty line; otherwise Arrow would drop a BOM at the start of a value.
    with closing(ArrowStream(b"\n" + rows_start, file, last_row)) as stream:
        following = 2  # the number of the next row; the header is row 1
        left_out = list[int]()  # the numbers of uneven rows from there on
        uneven = list[tuple[int, str]]()  # the numbers of uneven rows that Arrow found; why
        try:
            for block in _csv_rows(stream, columns, request, delimiter, has_quotes, uneven):
                left_out += _refuse_uneven(uneven, request)
                count = block.num_rows + len(left_out)
                numbers = np.arange(following, following + count, dtype=np.int64)
                numbers = numbers[~np.isin(numbers, left_out)][: block.num_rows]
                following = int(numbers[-1]) + 1
                left_out = [number for number in left_out if number >= following]
                last = block.column(str(len(names) - 1))[-1].as_py()
                if end in last:
                    numbers = numbers[:-1]
                    if last != end:
                        request.refuse(following - 1, OPEN)
                texts = [column.view(pa.string()) for column in block.columns]
                rows = pa.record_batch(texts, block.schema.names).slice(0, len(numbers))
                batch = columns.batch(rows, numbers, request)
                if has_quotes and not request.log.notes:  # one note is enough
                    request.log.notes += _note_on_lines(batch, len(columns.texts))
                yield from in_size(batch, request.size)
        except InvalidFile as error:  # Arrow raised it, in a row after those it returned
            error.file = error.file or f"{request.source}:{max(following - 1, *left_out, 1) + 1}"
            raise
        _refuse_uneven(uneven, request)


def _note_on_lines(batch: Batch, text_fields: int) -> list[str]:
    """Return a note on the first text of several lines, if any: its quotes may be part of it.

    ``text_fields``: number of fields that were joined to each text, by two line ends.
    """
    line_ends = pc.count_substring(batch.texts.view(pa.binary()), "\n").to_numpy()
    rows = np.flatnonzero(line_ends > 2 * (text_fields - 1))
    if not len(rows):
        return []
    return [f"{batch.place(int(rows[0]))}: a row with a text of several lines; {PART_OF_TEXT}"]


def _read_header(file: Readable, delimiter: str, has_quotes: bool) -> tuple[list[str], bytes]:
    """Return the names of the columns, and the bytes that were read after the header row."""
    head = read_up_to(file, MAX_HEADER_BYTES)
    is_full = len(head) == MAX_HEADER_BYTES
    refuse_utf16(head)
    head = head.removeprefix(BOM).lstrip(b"\r\n")
    lines = io.StringIO(head.decode("latin-1"), newline="")  # one character per byte
    quoting: Any = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    try:
        reader = csv.reader(iter(lines.readline, ""), delimiter=delimiter, quoting=quoting)
        row = next(reader, None)
    except csv.Error as error:
        raise InvalidFile(f"invalid header row: {error}") from error
    if row is None:
        raise InvalidFile("the file is empty (expected a header row)")
    if is_full and lines.tell() == len(head):
        raise InvalidFile(f"a header row of {MAX_HEADER_BYTES:,} bytes or more, or an open quote")
    return [as_text(name.encode("latin-1")) for name in row], head[lines.tell() :]


def _csv_rows(
    stream: ArrowStream,
    columns: Columns,
    request: Request,
    delimiter: str,
    has_quotes: bool,
    uneven: list[tuple[int, str]],
) -> Iterator[pa.RecordBatch]:
    """Parse rows. Those with too many or too few values are added to ``uneven`` with the reason.

    Arrow reads ahead, so these rows may come after the yielded ones.
    """

    def skip(row: Any) -> str:
        reason = f"expected {row.expected_columns} values, got {row.actual_columns}"
        uneven.append((row.number + 1, reason))  # + 1 for the header
        return "skip"

    keys = [*columns.names]
    # The last column is always read: it shows the row after the end of the file.
    used_keys = list(dict.fromkeys((*columns.to_read(request), keys[-1])))
    what = f"not CSV, or a row of more than {MAX_ROW_BYTES:,} bytes (an unclosed quote?)"
    with arrow_errors(what):
        blocks = arrow_csv.open_csv(
            pa.PythonFile(stream, "r"),
            arrow_csv.ReadOptions(use_threads=False, block_size=MAX_ROW_BYTES, column_names=keys),
            arrow_csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if has_quotes else False,
                newlines_in_values=has_quotes,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(
                include_columns=used_keys, column_types=dict.fromkeys(used_keys, pa.binary())
            ),
        )
        for block in blocks:
            yield from (block.slice(at, ROWS) for at in range(0, block.num_rows, ROWS))


def _refuse_uneven(uneven: list[tuple[int, str]], request: Request) -> list[int]:
    """Refuse the rows with too many or too few values, and return their numbers."""
    numbers = [number for number, _ in uneven]
    for number, reason in uneven:
        request.refuse(number, reason)
    uneven.clear()
    return numbers
