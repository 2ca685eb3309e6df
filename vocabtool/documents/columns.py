"""Documents in tables whose columns have types: which columns are asked for, and as strings.

Shared by Parquet and Arrow IPC; how their files are read is in ``parquet_file.py`` and
``arrow_ipc.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from vocabtool.documents.batch import (
    BATCH_BYTES,
    BadRow,
    Batch,
    Request,
    null_columns,
    spans,
    strings,
    text_column,
)
from vocabtool.documents.objects import as_string
from vocabtool.errors import InvalidFile


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by name: of the texts, of the ids if they are asked for, to be kept and there."""

    text: str
    id: str | None
    kept: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, request: Request) -> Columns:
        """Those that are asked for. Raises :class:`InvalidFile`: none such, of another type."""
        ids = request.options.id_field
        try:
            names = schema.names
            text = names[text_column(names, request.options.field)]
            kept = tuple(name for name in request.options.keep if name in names)
            for name in kept if ids is None else (ids, *kept):
                text_column(names, name)
        except UnicodeDecodeError as error:
            raise InvalidFile("the names of its columns are not UTF-8") from error
        except BadRow as bad:
            raise InvalidFile(str(bad)) from bad
        if not is_strings(kind := schema.field(text).type):
            raise InvalidFile(f"field {text!r}: wanted strings, got {kind}")
        kind = schema.field(text if ids is None else ids).type
        if not is_strings(kind) and not pt.is_integer(_without_dictionary(kind)):
            wanted = "wanted strings or whole numbers for ids"
            raise InvalidFile(f"field {ids!r}: {wanted}, got {kind}")
        return cls(text, ids, kept)

    def all(self) -> list[str]:
        """Each of them once."""
        ids = () if self.id is None else (self.id,)
        return list(dict.fromkeys((self.text, *ids, *self.kept)))

    def batch(self, part: pa.RecordBatch, first: int, request: Request) -> Batch:
        """The rows that are documents; those without a text or id are refused.

        ``first``: the number of the first row.
        """
        kept = {name: as_strings(part.column(name), name) for name in self.kept}
        nulls = null_columns(request, part.num_rows)
        batch = Batch(
            request.source,
            as_strings(part.column(self.text), self.text),
            np.arange(first, first + part.num_rows, dtype=np.int64),
            None if self.id is None else as_strings(part.column(self.id), self.id),
            {name: kept.get(name, null) for name, null in nulls.items()},
            _rows(part.drop_columns([self.text])) if request.whole else None,
        )
        has_text = np.asarray(batch.texts.is_valid())
        has_id = has_text if batch.ids is None else np.asarray(batch.ids.is_valid())
        valid = has_text & has_id
        for row in np.flatnonzero(~valid).tolist():
            name, wanted = self.id, "a string or a whole number for the id"
            if not has_text[row]:
                name, wanted = self.text, "a string"
            request.refuse(first + row, f"field {name!r}: wanted {wanted}, got null")
        return batch if valid.all() else batch.only(valid)


def is_strings(kind: pa.DataType) -> bool:
    """Whether a type is one of strings, or of codes of strings."""
    inner = _without_dictionary(kind)
    return bool(pt.is_string(inner) or pt.is_large_string(inner) or pt.is_string_view(inner))


def is_long(kind: pa.DataType) -> bool:
    """Whether values of a type may be of any length and are not nested."""
    inner = _without_dictionary(kind)
    is_bytes = pt.is_binary(inner) or pt.is_large_binary(inner) or pt.is_binary_view(inner)
    return is_strings(kind) or bool(is_bytes)


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _rows(part: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as Python has them; times to the microsecond, as Python's are."""
    columns = [_python_times(column) for column in part.columns]
    rows: list[dict[str, Any]] = pa.record_batch(columns, part.schema.names).to_pylist()
    return rows


def _python_times(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pt.is_time64(kind) and kind.unit == "ns":
        return column.cast(pa.time64("us"), safe=False)
    if pt.is_duration(kind) and kind.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column


def as_strings(column: pa.Array, name: str) -> pa.StringArray:
    """Strings as they are, whole numbers in decimal, times in ISO 8601, other values as JSON text.

    Nulls stay. Of not more than 2 GB of text.
    """
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    plain = (pt.is_integer, pt.is_boolean, is_strings, pt.is_timestamp, pt.is_date, pt.is_time)
    if any(check(kind) for check in plain):
        return column.cast(pa.string())
    if is_long(kind) or pt.is_fixed_size_binary(kind):
        return column.cast(pa.binary()).view(pa.string())
    try:
        return strings([as_string(value, name) for value in _python_times(column).to_pylist()])
    except BadRow as bad:  # too deep: so is the column's type, in every row
        raise InvalidFile(str(bad)) from bad


def in_parts(rows: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows in parts of not too much text: one that is stored once may stand in many rows."""
    ends = np.zeros(rows.num_rows + 1, np.int64)
    for name in names:
        ends[1:] += np.cumsum(_row_lengths(rows.column(name)))
    for start, end in spans(ends, BATCH_BYTES):
        yield rows if end - start == rows.num_rows else rows.slice(start, end - start)


def _row_lengths(column: pa.Array) -> NDArray[np.int64]:
    """How many bytes each value has: shape (n,)."""
    if not pt.is_dictionary(column.type):
        return byte_lengths(column)
    lengths = byte_lengths(column.dictionary)
    codes = np.asarray(column.indices.fill_null(0))
    return lengths[codes] if len(lengths) else np.zeros(len(codes), np.int64)


def byte_lengths(values: pa.Array) -> NDArray[np.int64]:
    """How many bytes each of some strings has, none where it is null: int64, shape (n,)."""
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)
