"""Documents in tables whose columns have types: which columns are asked for, and as strings.

Shared by Parquet and Arrow IPC; how their files are read is in ``parquet_file.py`` and
``arrow_ipc.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.nanoseconds import python_times
from vocabtool.documents.objects import as_string
from vocabtool.documents.rows import (
    SIZE,
    BadRow,
    Batch,
    Request,
    no_columns,
    spans,
    strings,
    text_column,
    valid,
)
from vocabtool.errors import InvalidFile

if TYPE_CHECKING:
    import pyarrow as pa


class Asked(NamedTuple):
    """Columns by name: of the texts, of the ids if they are asked for, to be kept and there."""

    text: str
    id: str | None
    kept: tuple[str, ...]

    def all(self) -> list[str]:
        """Each of them once."""
        ids = () if self.id is None else (self.id,)
        return list(dict.fromkeys((self.text, *ids, *self.kept)))


def asked(schema: pa.Schema, request: Request) -> Asked:
    """The columns that are asked for. Raises :class:`InvalidFile`: none such, of another type."""
    ids = request.id_field
    try:
        names = schema.names
        text = names[text_column(names, request.field)]
        kept = tuple(name for name in request.keep if name in names)
        for name in kept if ids is None else (ids, *kept):
            text_column(names, name)
    except UnicodeDecodeError as error:
        raise InvalidFile("the names of its columns are not UTF-8") from error
    except BadRow as bad:
        raise InvalidFile(str(bad)) from bad
    _check_text(schema, text)
    if ids is not None:
        _check_id(schema, ids)
    return Asked(text, ids, kept)


def _check_text(schema: pa.Schema, name: str) -> None:
    kind = schema.field(name).type
    if not is_strings(kind):
        raise InvalidFile(f"field {name!r}: wanted strings, got {kind}")


def _check_id(schema: pa.Schema, name: str) -> None:
    import pyarrow.types as of

    kind = schema.field(name).type
    if not is_strings(kind) and not of.is_integer(_inner(kind)):
        raise InvalidFile(f"field {name!r}: wanted strings or whole numbers for ids, got {kind}")


def is_strings(kind: pa.DataType) -> bool:
    """Whether a type is one of strings, or of codes of strings."""
    import pyarrow.types as of

    inner = _inner(kind)
    return any(check(inner) for check in (of.is_string, of.is_large_string, of.is_string_view))


def is_long(kind: pa.DataType) -> bool:
    """Whether values of a type may be of any length and are not nested."""
    import pyarrow.types as of

    inner = _inner(kind)
    checks = (of.is_binary, of.is_large_binary, of.is_binary_view)
    return is_strings(kind) or any(check(inner) for check in checks)


def _inner(kind: pa.DataType) -> pa.DataType:
    import pyarrow.types as of

    return kind.value_type if of.is_dictionary(kind) else kind


def batch_of(part: pa.RecordBatch, first: int, columns: Asked, request: Request) -> Batch:
    """The rows that are documents; those without a text or id are refused.

    ``first``: the number of the first row.
    """
    kept = {name: as_strings(part.column(name), name) for name in columns.kept}
    batch = Batch(
        request.source,
        as_strings(part.column(columns.text), columns.text),
        np.arange(first, first + part.num_rows, dtype=np.int64),
        None if columns.id is None else as_strings(part.column(columns.id), columns.id),
        {name: kept.get(name, null) for name, null in no_columns(request, part.num_rows).items()},
        _rows(part.drop_columns([columns.text])) if request.whole else None,
    )
    there = valid(batch)
    for row in np.flatnonzero(~there).tolist():
        request.refuse(first + row, _missing(batch, row, columns))
    return batch if there.all() else batch.only(there)


def _rows(part: pa.RecordBatch) -> list[dict[str, Any]]:
    for place, column in enumerate(part.columns):
        part = part.set_column(place, part.schema.names[place], python_times(column))
    rows: list[dict[str, Any]] = part.to_pylist()
    return rows


def _missing(batch: Batch, row: int, columns: Asked) -> str:
    if not batch.texts[row].is_valid:
        return f"field {columns.text!r}: wanted a string, got null"
    return f"field {columns.id!r}: wanted a string or a whole number for the id, got null"


def as_strings(column: pa.Array, name: str) -> pa.StringArray:
    """Strings as they are, whole numbers in decimal, times in ISO 8601, other values as JSON text.

    Nulls stay. Of not more than 2 GB of text.
    """
    import pyarrow as pa
    import pyarrow.types as of

    if of.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    plain = (of.is_integer, of.is_boolean, is_strings, of.is_timestamp, of.is_date, of.is_time)
    if any(check(kind) for check in plain):
        return column.cast(pa.string())
    if is_long(kind) or of.is_fixed_size_binary(kind):
        return column.cast(pa.binary()).view(pa.string())
    try:
        return strings([as_string(value, name) for value in python_times(column).to_pylist()])
    except BadRow as bad:  # too deep: so is the column's type, in every row
        raise InvalidFile(str(bad)) from bad


def in_parts(rows: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows in parts of not too much text: one that is stored once may stand in many rows."""
    ends = np.zeros(rows.num_rows + 1, np.int64)
    for name in names:
        ends[1:] += np.cumsum(_lengths(rows.column(name)))
    for start, end in spans(ends, SIZE):
        yield rows if end - start == rows.num_rows else rows.slice(start, end - start)


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """How many bytes each value has: shape (n,); 0 where they are none of :func:`is_long`."""
    import pyarrow.types as of

    if not is_long(column.type):
        return np.zeros(len(column), np.int64)
    if not of.is_dictionary(column.type):
        return byte_lengths(column)
    lengths = byte_lengths(column.dictionary)
    codes = np.asarray(column.indices.fill_null(0))
    return lengths[codes] if len(lengths) else np.zeros(len(codes), np.int64)


def byte_lengths(values: pa.Array) -> NDArray[np.int64]:
    """How many bytes each of some strings has, none where it is null: int64, shape (n,)."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as of

    if of.is_string_view(values.type) or of.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)
