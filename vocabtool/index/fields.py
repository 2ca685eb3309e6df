"""Fields of documents: which kind their values are of, and how they are written as text.

Values come as texts, and the kind of a field says how they are read. It is that of the first commit
which has the field, and stays, but that whole numbers may become numbers: a value of another kind
is refused, or left out.

    null      nothing but nulls so far
    integer   whole numbers of 64 bits
    number    whole numbers and others: read as 64-bit floating point (IEEE 754)
    boolean   true and false
    string    all else; lists and objects as their JSON text
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from math import isnan
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of

from vocabtool.documents.batch import strings
from vocabtool.documents.columns import as_strings
from vocabtool.documents.objects import as_string

Kind = Literal["null", "integer", "number", "boolean", "string"]

PLAIN: Final[dict[Kind, str]] = {
    "null": "nothing",
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "true and false",
    "string": "strings",
}
LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
# RFC 8259, section 6; more digits than a 64-bit integer has are no integer
BOOLEAN: Final = "true|false"
INTEGER: Final = "-?(0|[1-9][0-9]{0,18})"
NUMBER: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"


Value = bytes | int | float | None


class FieldColumn(NamedTuple):
    """One field of some documents: Arrow ``string`` array of length n with nulls, and its kind."""

    texts: pa.StringArray
    kind: Kind


def union(one: Kind, other: Kind) -> Kind:
    """The narrowest kind that holds the values of both."""
    if other in (one, "null"):
        return one
    if one == "null":
        return other
    return "number" if {one, other} == {"integer", "number"} else "string"


def fit_to_kind(column: FieldColumn, kind: Kind) -> tuple[FieldColumn, list[int]]:
    """A column of values that are of a kind, others null, and the rows of these.

    Whole numbers become numbers where others come; all is text where the kind is.
    """
    if kind == "null" or union(kind, column.kind) in (kind, "number"):
        return column, []
    pattern = BOOLEAN if kind == "boolean" else NUMBER
    fits = pc.match_substring_regex(column.texts, f"^(?:{pattern})$")
    texts = pc.if_else(fits, column.texts, pa.scalar(None, pa.string()))
    return of_texts(texts), np.flatnonzero(np.asarray(pc.invert(fits).fill_null(False))).tolist()


def narrowest(kinds: Iterable[Kind]) -> Kind:
    """The narrowest kind that holds the values of all."""
    return reduce(union, kinds, "null")


def of_values(values: Sequence[object], name: str) -> FieldColumn:
    """What Python holds, by the types of the values; ``None`` and not-a-number are null.

    Raises :class:`~vocabtool.documents.batch.BadRow` where no JSON can be made of a value.
    """
    plain = [value if type(value) in (str, int) else _plain(value) for value in values]
    kind = narrowest(set(map(_kind, plain)))
    return FieldColumn(_to_texts(plain, kind, name), kind)


def _plain(value: object) -> object:
    """A NumPy number as Python's; what is not a number as null."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", None) == 0:
        value = item()
    return None if isinstance(value, float) and isnan(value) else value


def _to_texts(values: Sequence[object], kind: Kind, name: str) -> pa.StringArray:
    """As texts; whole numbers and plain words all at once, as that is quick."""
    try:
        if kind == "integer":
            return pa.array(values, pa.int64()).cast(pa.string())
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return strings([as_string(value, name) for value in values])


def _kind(value: object) -> Kind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if LEAST <= value <= MOST else "number"
        case float():
            return "number"
        case _:
            return "string"


def of_texts(texts: pa.StringArray) -> FieldColumn:
    """A column of strings, as a file of documents gives them: their spelling tells the kind."""
    return FieldColumn(texts, _find_kind(texts))


def _find_kind(texts: pa.StringArray) -> Kind:
    there = texts.drop_null() if texts.null_count else texts
    if not len(there):
        return "null"
    first = there[0].as_buffer().to_pybytes()  # tells of most columns of words that they are some
    if first in (b"true", b"false"):
        return "boolean" if _all_like(there, BOOLEAN) else "string"
    if not re.fullmatch(NUMBER.encode(), first):
        return "string"
    if _all_like(there, INTEGER):
        return "integer" if _fit(there) else "number"
    return "number" if _all_like(there, NUMBER) else "string"


def _all_like(texts: pa.StringArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py())


def _fit(texts: pa.StringArray) -> bool:
    """Whether whole numbers are of 64 bits."""
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def of_column(column: pa.Array, name: str) -> FieldColumn:
    """A typed column of Arrow; times become ISO 8601. Raises :class:`InvalidFile`: too deep."""
    kind = column.type
    if of.is_dictionary(kind):
        return of_column(column.dictionary_decode(), name)
    if of.is_null(kind):
        return FieldColumn(pa.nulls(len(column), pa.string()), "null")
    if of.is_boolean(kind):
        return FieldColumn(column.cast(pa.string()), "boolean")
    if of.is_integer(kind):
        texts = column.cast(pa.string())
        return FieldColumn(texts, "integer" if _fit(texts) else "number")
    if of.is_floating(kind) or of.is_decimal(kind):
        return FieldColumn(_numbers(column).cast(pa.string()), "number")
    return FieldColumn(as_strings(column, name), "string")


def _numbers(column: pa.Array) -> pa.Array:
    """Null where one is not a number."""
    if of.is_decimal(column.type):
        return column
    wide = column.cast(pa.float32()) if of.is_float16(column.type) else column
    return pc.if_else(pc.is_nan(wide), None, wide)


def values_of(column: FieldColumn, kind: Kind) -> list[Value]:
    """The values of a column as a database keeps them, read as values of a kind.

    Strings are given as bytes, which may be no UTF-8.
    """
    texts: list[bytes | None] = column.texts.view(pa.binary()).to_pylist()
    if kind in ("string", "null"):
        return [*texts]
    if kind == "integer":
        whole: list[Value] = column.texts.cast(pa.int64()).to_pylist()
        return whole
    return [None if text is None else value_of(text.decode(), kind) for text in texts]


def value_of(text: str, kind: Kind) -> Value:
    """One text read as a value of a kind; a whole number stays one among other numbers."""
    if kind == "boolean":
        return int(text == "true")
    if re.fullmatch(INTEGER, text) and LEAST <= int(text) <= MOST:
        return int(text)
    return float(text)
