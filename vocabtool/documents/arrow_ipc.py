"""Arrow IPC: files (``.arrow``, ``.feather`` of version 2) and streams, as from standard input.

A file is a stream between two magic words with a footer behind it, so one that comes through a pipe
is read as the stream it holds. Format: arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from io import BufferedReader
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from vocabtool.documents.batch import Batch, Request, in_size
from vocabtool.documents.columns import Columns, in_parts, is_long
from vocabtool.documents.files import ArrowStream, Readable, arrow_errors
from vocabtool.errors import InvalidFile, UnsupportedFormat

FILE: Final = b"ARROW1\0\0"
FEATHER_1: Final = b"FEA1"
WRONG: Final = "not Arrow IPC, or damaged"


def read(file: Readable, request: Request) -> Iterator[Batch]:
    """Each row as a document; in a bad row the text or the id is null.

    Record batches that are left out are not read where the file can be mapped.
    Raises :class:`InvalidFile`: damaged, no such field, a field that does not hold strings; and
    :class:`UnsupportedFormat` for Feather of version 1.
    """
    head = b""
    while len(head) < len(FILE) and (piece := file.read(len(FILE) - len(head))):
        head += piece
    if head.startswith(FEATHER_1):
        raise UnsupportedFormat("Feather of version 1 is not read. Write it anew as version 2.")
    if not head:
        raise InvalidFile("empty: wanted Arrow IPC, which begins with a schema")
    with arrow_errors(WRONG):
        if head == FILE and isinstance(file, BufferedReader) and file.seekable():
            yield from _of_file(file, request)
        else:
            with closing(ArrowStream(head.removeprefix(FILE), file)) as stream:
                table = pa.ipc.open_stream(pa.PythonFile(stream, "r"))
                yield from _batches(table, 1, Columns.of(table.schema, request), request)


def row_counts(file: str) -> list[int] | None:
    """How many rows each record batch of a file has; ``None`` for a stream: it must be read."""
    with arrow_errors(WRONG), pa.memory_map(file) as mapped:
        if mapped.read(len(FILE)) != FILE:
            return None
        table = pa.ipc.open_file(mapped)
        return [table.get_batch(place).num_rows for place in range(table.num_record_batches)]


def _of_file(file: BufferedReader, request: Request) -> Iterator[Batch]:
    file.seek(0)
    schema = pa.ipc.open_file(file).schema
    columns = Columns.of(schema, request)
    places = [] if request.whole else [schema.names.index(name) for name in columns.all()]
    options = pa.ipc.IpcReadOptions(included_fields=sorted(places))
    table = pa.ipc.open_file(file, options=options)
    passed, first = 0, 1
    if request.ahead.left:
        # Mapped: of a batch that is not compressed nothing but its header comes into memory.
        with pa.memory_map(file.name) as mapped:
            headers = pa.ipc.open_file(mapped, options=options)
            while passed < table.num_record_batches:
                rows = headers.get_batch(passed).num_rows
                if not request.ahead.pass_over(rows):
                    break
                passed, first = passed + 1, first + rows
    parts = (table.get_batch(place) for place in range(passed, table.num_record_batches))
    yield from _batches(parts, first, columns, request)


def _batches(
    parts: Iterable[pa.RecordBatch], first: int, columns: Columns, request: Request
) -> Iterator[Batch]:
    for rows in parts:
        chosen = rows if request.whole else rows.select(columns.all())
        for column in chosen.columns:
            _check(column)
        long = [field.name for field in chosen.schema if is_long(field.type)]
        for part in in_parts(chosen, long):
            yield from in_size(columns.batch(part, first, request), request.size)
            first += part.num_rows


def _check(column: pa.Array) -> None:
    """Raise where an offset or a code points out of its column; strings need not be UTF-8."""
    if pt.is_string(column.type):
        column = column.view(pa.binary())
    elif pt.is_large_string(column.type):
        column = column.view(pa.large_binary())
    column.validate(full=True)
