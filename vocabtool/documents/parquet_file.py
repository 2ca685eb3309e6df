"""Parquet: one column of strings is the text; only the columns that are wanted are read.

A few rows at a time, and where a column's dictionary holds long texts, by that dictionary: a file
of 50 KB can hold a text of 1 MB twenty thousand times. Row groups that are left out are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from vocabtool.documents.batch import Batch, Request, bounds, in_size
from vocabtool.documents.columns import Columns, byte_lengths, in_parts, is_long
from vocabtool.documents.files import arrow_errors

MAX_ROWS_AT_ONCE: Final = 1024
BUFFER: Final = 1 << 20  # bytes read ahead in a column
MAX_TEXT: Final = 64 << 20  # bytes of text that so many rows may be, before a look at each
WRONG: Final = "not Parquet, or damaged"


def read(file: IO[bytes], request: Request) -> Iterator[Batch]:
    """Each row as a document; in a bad row the text or the id is null.

    Raises :class:`InvalidFile`: damaged, no such field, a field that does not hold strings.
    """
    with arrow_errors(WRONG):
        held: list[Batch] = []
        size = 0
        for batch in _batches(file, request):
            held.append(batch)
            size += int(np.diff(bounds(batch.texts)[[0, -1]])[0])
            if size >= request.size:
                yield from in_size(_concatenate(held), request.size)
                held, size = [], 0
        if held:
            yield from in_size(_concatenate(held), request.size)


def row_counts(file: str) -> list[int]:
    """How many rows each row group of a file has. Raises :class:`InvalidFile`."""
    with arrow_errors(WRONG):
        return _row_counts(parquet.read_metadata(file))


def _row_counts(metadata: Any) -> list[int]:
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def _batches(file: IO[bytes], request: Request) -> Iterator[Batch]:
    table = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    schema = table.schema_arrow
    columns = Columns.of(schema, request)
    wanted = schema.names if request.whole else columns.all()
    long = [name for name in wanted if is_long(schema.field(name).type)]
    coded = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, read_dictionary=long)
    first = 1
    for group, count in enumerate(_row_counts(table.metadata)):
        if request.ahead.left and request.ahead.pass_over(count):
            first += count
            continue
        is_coded = _repeats_long_texts(coded, group, long)
        reader = coded if is_coded else table
        for rows in reader.iter_batches(_rows_at_once(table, group, wanted), [group], wanted):
            for part in in_parts(rows, long) if is_coded else (rows,):
                yield columns.batch(part, first, request)
                first += part.num_rows


def _repeats_long_texts(coded: Any, group: int, names: Sequence[str]) -> bool:
    """Whether few rows may be much text: asks dictionaries, which come with the first row."""
    first = next(coded.iter_batches(1, [group], names), None)
    most = MAX_TEXT // MAX_ROWS_AT_ONCE
    return first is not None and any(
        byte_lengths(first.column(name).dictionary).max(initial=0) > most for name in names
    )


def _rows_at_once(table: Any, group: int, names: Sequence[str]) -> int:
    """How many rows hold about ``BUFFER`` bytes on the average, as far as the file says."""
    metadata = table.metadata.row_group(group)
    columns = map(metadata.column, range(metadata.num_columns))
    size: int = sum(c.total_uncompressed_size for c in columns if c.path_in_schema in names)
    rows: int = metadata.num_rows
    return max(1, min(MAX_ROWS_AT_ONCE, BUFFER * rows // max(size, 1)))


def _concatenate(batches: Sequence[Batch]) -> Batch:
    one = batches[0]
    return Batch(
        one.source,
        pa.concat_arrays([batch.texts for batch in batches]),
        np.concatenate([batch.numbers for batch in batches]),
        None if one.ids is None else pa.concat_arrays([batch.ids for batch in batches]),
        {name: pa.concat_arrays([each.columns[name] for each in batches]) for name in one.columns},
        None if one.fields is None else [row for each in batches for row in each.fields or ()],
    )
