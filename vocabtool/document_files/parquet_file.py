"""Parquet: one column of strings is the text; only the columns that are wanted are read.

A few rows at a time, and where a column's dictionary holds long texts, by that dictionary: a file
of 50 KB can hold a text of 1 MB twenty thousand times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.document_files.opening import arrow_errors
from vocabtool.document_files.rows import (
    SIZE,
    BadRow,
    Batch,
    Request,
    bounds,
    in_size,
    spans,
    text_column,
)
from vocabtool.errors import InvalidFile

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 1024  # read at a time
BUFFER: Final = 1 << 20  # bytes read ahead in a column
MOST: Final = 64 << 20  # bytes of text that so many rows may be, before a look at each


def read(file: IO[bytes], request: Request) -> Iterator[Batch]:
    """Each row as a document; a bad row's text is null.

    Raises :class:`InvalidFile`: damaged, no such field, a field that does not hold strings.
    """
    from pyarrow import parquet

    with arrow_errors("not Parquet, or damaged"):
        table = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
        name = _text_field(table.schema_arrow, request.field)
        held: list[Batch] = []
        for part in _numbered(file, table, name, request):
            held.append(part)
            if sum(_bytes(batch) for batch in held) >= request.size:
                yield from in_size(_joined(held), request.size)
                held = []
        if held:
            yield from in_size(_joined(held), request.size)


def _text_field(schema: pa.Schema, wanted: str | None) -> str:
    import pyarrow.types as of

    try:
        name: str = schema.names[text_column(schema.names, wanted)]
    except BadRow as bad:
        raise InvalidFile(str(bad)) from bad
    kind = schema.field(name).type
    inner = kind.value_type if of.is_dictionary(kind) else kind
    if not any(is_text(inner) for is_text in (of.is_string, of.is_large_string, of.is_string_view)):
        raise InvalidFile(f"field {name!r}: wanted strings, got {kind}")
    return name


def _numbered(file: IO[bytes], table: Any, name: str, request: Request) -> Iterator[Batch]:
    from pyarrow import parquet

    coded = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, read_dictionary=[name])
    columns = None if request.whole else [name]
    first = 1
    for group in range(table.num_row_groups):
        reader = coded if _repeats_long_texts(coded, group, name) else table
        for rows in reader.iter_batches(_rows_at_once(table, group, name), [group], columns):
            for part in _in_size(rows, name):
                yield _batch(part, first, name, request)
                first += part.num_rows


def _repeats_long_texts(coded: Any, group: int, name: str) -> bool:
    """Whether few rows may be much text: asks the dictionary, which comes with the first row."""
    first = next(coded.iter_batches(1, [group], [name]), None)
    if first is None:
        return False
    return bool(_lengths(first.column(name)).max(initial=0) > MOST // ROWS)


def _lengths(column: pa.DictionaryArray) -> NDArray[np.int32]:
    """How many bytes each text in a dictionary has."""
    import pyarrow as pa

    return np.diff(bounds(column.dictionary.cast(pa.string())))


def _in_size(rows: pa.RecordBatch, name: str) -> Iterator[pa.RecordBatch]:
    """Rows that are still codes of a dictionary, in parts of not too much text."""
    import pyarrow.types as of

    column = rows.column(name)
    if not of.is_dictionary(column.type) or not len(column.dictionary):
        yield rows
        return
    codes = np.asarray(column.indices.fill_null(0))
    ends = np.append(0, np.cumsum(_lengths(column)[codes], dtype=np.int64))
    for start, end in spans(ends, SIZE):
        yield rows.slice(start, end - start)


def _rows_at_once(table: Any, group: int, name: str) -> int:
    """How many rows hold about ``BUFFER`` bytes on the average, as far as the file says."""
    metadata = table.metadata.row_group(group)
    columns = map(metadata.column, range(metadata.num_columns))
    size: int = sum(c.total_uncompressed_size for c in columns if c.path_in_schema == name)
    rows: int = metadata.num_rows
    return max(1, min(ROWS, BUFFER * rows // max(size, 1)))


def _batch(part: pa.RecordBatch, first: int, name: str, request: Request) -> Batch:
    """The rows with a text; those without are refused."""
    import pyarrow as pa

    texts = part.column(name).cast(pa.string())
    there = np.asarray(texts.is_valid())
    for row in np.flatnonzero(~there).tolist():
        request.refuse(first + row, f"field {name!r}: wanted a string, got null")
    numbers = np.arange(first, first + part.num_rows, dtype=np.int64)[there]
    fields = None
    if request.whole:
        fields = part.filter(pa.array(there)).drop_columns([name]).to_pylist()
    return Batch(request.source, texts.drop_null(), numbers, None, fields)


def _bytes(batch: Batch) -> int:
    ends = bounds(batch.texts)
    return int(ends[-1] - ends[0])


def _joined(batches: Sequence[Batch]) -> Batch:
    import pyarrow as pa

    fields = None
    if batches[0].fields is not None:
        fields = [row for batch in batches for row in batch.fields or ()]
    texts = pa.concat_arrays([batch.texts for batch in batches])
    numbers = np.concatenate([batch.numbers for batch in batches])
    return Batch(batches[0].source, texts, numbers, None, fields)
