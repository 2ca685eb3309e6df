"""Arrow IPC: files (``.arrow``, ``.feather`` of version 2) and streams, as from standard input.

A file is a stream between two magic words with a footer behind it, so one that comes through a pipe
is read as the stream it holds. Format: arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Final

from vocabtool.documents.columns import Asked, asked, batch_of, in_parts, is_long
from vocabtool.documents.opening import Readable, Stream, arrow_errors
from vocabtool.documents.rows import Ahead, Batch, Request, in_size
from vocabtool.errors import InvalidFile, UnsupportedFormat

if TYPE_CHECKING:
    import pyarrow as pa

FILE: Final = b"ARROW1\0\0"
FEATHER_1: Final = b"FEA1"
WRONG: Final = "not Arrow IPC, or damaged"


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Each row as a document; in a bad row the text or the id is null.

    Record batches that are left out are not read where the file can be mapped.
    Raises :class:`InvalidFile`: damaged, no such field, a field that does not hold strings; and
    :class:`UnsupportedFormat` for Feather of version 1.
    """
    head = _head(file)
    with arrow_errors(WRONG):
        if head == FILE and isinstance(file, BufferedReader) and file.seekable():
            yield from _of_file(file, request)
        else:
            with closing(Stream(head.removeprefix(FILE), file)) as stream:
                yield from _of_stream(stream, request)


def row_counts(file: str) -> list[int] | None:
    """How many rows each record batch of a file has; ``None`` for a stream: it must be read."""
    import pyarrow as pa

    with arrow_errors(WRONG), pa.memory_map(file) as mapped:
        if mapped.read(len(FILE)) != FILE:
            return None
        table = pa.ipc.open_file(mapped)
        return [table.get_batch(place).num_rows for place in range(table.num_record_batches)]


def _head(file: Readable) -> bytes:
    head = b""
    while len(head) < len(FILE) and (piece := file.read(len(FILE) - len(head))):
        head += piece
    if head.startswith(FEATHER_1):
        raise UnsupportedFormat("Feather of version 1 is not read. Write it anew as version 2.")
    if not head:
        raise InvalidFile("empty: wanted Arrow IPC, which begins with a schema")
    return head


def _of_file(file: BufferedReader, request: Request) -> Iterator[Batch]:
    import pyarrow as pa

    file.seek(0)
    schema = pa.ipc.open_file(file).schema
    columns = asked(schema, request)
    options = _only(schema, columns, request)
    table = pa.ipc.open_file(file, options=options)
    passed, first = _left_out(file.name, options, request.ahead)
    parts = (table.get_batch(place) for place in range(passed, table.num_record_batches))
    yield from _batches(parts, first, columns, request)


def _left_out(file: str, options: Any, ahead: Ahead) -> tuple[int, int]:
    """How many record batches are left out, and the number of the first row behind them.

    Mapped: of a batch that is not compressed nothing but its header comes into memory.
    """
    import pyarrow as pa

    first = 1
    if not ahead.left:
        return 0, first
    with pa.memory_map(file) as mapped:
        table = pa.ipc.open_file(mapped, options=options)
        for place in range(table.num_record_batches):
            rows = table.get_batch(place).num_rows
            if not ahead.pass_over(rows):
                return place, first
            first += rows
        return table.num_record_batches, first


def _of_stream(stream: Stream, request: Request) -> Iterator[Batch]:
    import pyarrow as pa

    source = pa.PythonFile(stream, "r")
    table = pa.ipc.open_stream(source)
    yield from _batches(table, 1, asked(table.schema, request), request)


def _only(schema: pa.Schema, columns: Asked, request: Request) -> Any:
    """Which columns are read at all."""
    import pyarrow as pa

    places = [] if request.whole else [schema.names.index(name) for name in columns.all()]
    return pa.ipc.IpcReadOptions(included_fields=sorted(places))


def _batches(
    parts: Iterator[pa.RecordBatch], first: int, columns: Asked, request: Request
) -> Iterator[Batch]:
    chosen = parts if request.whole else (part.select(columns.all()) for part in parts)
    for rows in chosen:
        _check(rows)
        long = [field.name for field in rows.schema if is_long(field.type)]
        for part in in_parts(rows, long):
            yield from in_size(batch_of(part, first, columns, request), request.size)
            first += part.num_rows


def _check(rows: pa.RecordBatch) -> None:
    """Raise where an offset or a code points out of its column; strings need not be UTF-8."""
    import pyarrow as pa
    import pyarrow.types as of

    for column in rows.columns:
        if of.is_string(column.type):
            column.view(pa.binary()).validate(full=True)
        elif of.is_large_string(column.type):
            column.view(pa.large_binary()).validate(full=True)
        else:
            column.validate(full=True)
