"""Parquet: one column of strings is the text; only the columns that are wanted are read.

A few rows at a time, and where a column's dictionary holds long texts, by that dictionary: a file
of 50 KB can hold a text of 1 MB twenty thousand times. Row groups that are left out are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import IO, Any, Final

import numpy as np

from vocabtool.documents.columns import (
    Asked,
    asked,
    batch_of,
    byte_lengths,
    in_parts,
    is_long,
)
from vocabtool.documents.opening import arrow_errors
from vocabtool.documents.rows import Batch, Request, bounds, in_size

ROWS: Final = 1024  # read at a time
BUFFER: Final = 1 << 20  # bytes read ahead in a column
MOST: Final = 64 << 20  # bytes of text that so many rows may be, before a look at each


def read(file: IO[bytes], request: Request) -> Iterator[Batch]:
    """Each row as a document; in a bad row the text or the id is null.

    Raises :class:`InvalidFile`: damaged, no such field, a field that does not hold strings.
    """
    from pyarrow import parquet

    with arrow_errors("not Parquet, or damaged"):
        table = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
        columns = asked(table.schema_arrow, request)
        held: list[Batch] = []
        for part in _numbered(file, table, columns, request):
            held.append(part)
            if sum(_bytes(batch) for batch in held) >= request.size:
                yield from in_size(_joined(held), request.size)
                held = []
        if held:
            yield from in_size(_joined(held), request.size)


def row_counts(file: str) -> list[int]:
    """How many rows each row group of a file has. Raises :class:`InvalidFile`."""
    from pyarrow import parquet

    with arrow_errors("not Parquet, or damaged"):
        return _row_counts(parquet.read_metadata(file))


def _row_counts(metadata: Any) -> list[int]:
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def _numbered(file: IO[bytes], table: Any, columns: Asked, request: Request) -> Iterator[Batch]:
    from pyarrow import parquet

    schema = table.schema_arrow
    wanted = schema.names if request.whole else columns.all()
    long = [name for name in wanted if is_long(schema.field(name).type)]
    coded = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, read_dictionary=long)
    counts = _row_counts(table.metadata)
    starts = np.append(1, 1 + np.cumsum(counts, dtype=np.int64)).tolist()
    groups = dropwhile(lambda group: request.ahead.pass_over(counts[group]), range(len(counts)))
    for group in groups:
        first = starts[group]
        reader = coded if _repeats_long_texts(coded, group, long) else table
        for rows in reader.iter_batches(_rows_at_once(table, group, wanted), [group], wanted):
            for part in in_parts(rows, long) if reader is coded else (rows,):
                yield batch_of(part, first, columns, request)
                first += part.num_rows


def _repeats_long_texts(coded: Any, group: int, names: Sequence[str]) -> bool:
    """Whether few rows may be much text: asks dictionaries, which come with the first row."""
    first = next(coded.iter_batches(1, [group], names), None)
    return first is not None and any(
        byte_lengths(first.column(name).dictionary).max(initial=0) > MOST // ROWS for name in names
    )


def _rows_at_once(table: Any, group: int, names: Sequence[str]) -> int:
    """How many rows hold about ``BUFFER`` bytes on the average, as far as the file says."""
    metadata = table.metadata.row_group(group)
    columns = map(metadata.column, range(metadata.num_columns))
    size: int = sum(c.total_uncompressed_size for c in columns if c.path_in_schema in names)
    rows: int = metadata.num_rows
    return max(1, min(ROWS, BUFFER * rows // max(size, 1)))


def _bytes(batch: Batch) -> int:
    ends = bounds(batch.texts)
    return int(ends[-1] - ends[0])


def _joined(batches: Sequence[Batch]) -> Batch:
    import pyarrow as pa

    one, *others = batches
    if not others:
        return one
    return Batch(
        one.source,
        pa.concat_arrays([batch.texts for batch in batches]),
        np.concatenate([batch.numbers for batch in batches]),
        None if one.ids is None else pa.concat_arrays([batch.ids for batch in batches]),
        {name: pa.concat_arrays([each.columns[name] for each in batches]) for name in one.columns},
        None if one.fields is None else [row for each in batches for row in each.fields or ()],
    )
