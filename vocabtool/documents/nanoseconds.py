"""Times of nanoseconds as values of Python, whose own times end at microseconds.

Arrow would hand out pandas' times where pandas is installed, and fail where it is not. Here a
column becomes one of microseconds, or text with all its digits where that would lose some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def python_times(column: pa.Array) -> pa.Array:
    """A column whose values Python can hold, in lists and structs too.

    A duration that Python cannot hold is its number of nanoseconds.
    """
    import pyarrow as pa

    coarse = _changed(column.type, to_text=False)
    if coarse == column.type:
        return column
    try:
        return column.cast(coarse)
    except pa.ArrowInvalid:
        return column.cast(_changed(column.type, to_text=True))


def _changed(kind: pa.DataType, *, to_text: bool) -> pa.DataType:
    """A type with other ones in place of those of nanoseconds."""
    import pyarrow as pa
    import pyarrow.types as of

    if of.is_struct(kind):
        return pa.struct([f.with_type(_changed(f.type, to_text=to_text)) for f in kind])
    if of.is_list(kind) or of.is_large_list(kind):
        make = pa.list_ if of.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_changed(kind.value_type, to_text=to_text)))
    if not (of.is_timestamp(kind) or of.is_time64(kind) or of.is_duration(kind)):
        return kind
    if kind.unit != "ns":
        return kind
    if to_text:
        return pa.string()
    if of.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if of.is_time64(kind) else pa.duration("us")
