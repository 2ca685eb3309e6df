"""Which rows of a commit fulfil a condition: SQL's rules, over whole columns of Arrow.

A comparison with a null is neither true nor false, ``not`` leaves it so, and only rows for which a
condition is true fulfil it (ISO/IEC 9075-2, 8.1 and 6.39). Strings are compared by their bytes in
UTF-8, ``like`` and ``contains`` letter by letter; but a list ``contains`` what equals one of its
elements. How a condition is written is in
``conditions.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final, NoReturn, assert_never

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import names_of
from vocabtool.errors import InvalidCondition
from vocabtool.index.conditions import (
    AllOf,
    Among,
    AnyOf,
    Compared,
    Condition,
    Contains,
    Holds,
    Like,
    Literals,
    Missing,
    Name,
    Not,
    Operator,
    Value,
    parse,
)
from vocabtool.index.document_columns import ID, TEXT, decoded
from vocabtool.index.document_fields import NUMBER, PLAIN, Kind, elements
from vocabtool.index.document_store import DocumentStore

if TYPE_CHECKING:
    import pyarrow as pa

Mask = NDArray[np.bool_]  # shape (rows,)

REMEMBERED: Final = 32  # conditions of a commit, fewer where it has many rows
REMEMBERED_BYTES: Final = 64 << 20

COMPARISONS: Final[dict[Operator, str]] = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
HINTS: Final[dict[Kind, str]] = {
    "integer": ": write the value without quotes",
    "number": ": write the value without quotes",
    "string": ": write the value in single quotes",
}
LIST: Final = r"^\s*\["  # how the JSON text of a list begins
NO_NUMBERS: Final = (
    "text, as some document's value is no number: numbers cannot be compared with it, only values "
    "in single quotes, as text"
)


class Filters:
    """The conditions asked of one commit. Several threads may ask."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        most = min(REMEMBERED, 1 + REMEMBERED_BYTES // max(documents.rows, 1))
        self._masks = lru_cache(most)(self._mask)

    def mask(self, condition: str) -> Mask:
        """Which rows fulfil a condition: shape (rows,), not to be written to.

        The masks of the last few conditions are kept. Raises :class:`InvalidCondition` for one that
        is not understood, names no field, or compares with a value of another kind.
        """
        return self._masks(condition)

    def forget(self) -> None:
        """Let go of the masks that are kept."""
        self._masks.cache_clear()

    def _mask(self, condition: str) -> Mask:
        found = _Evaluation(self._documents, condition).of(parse(condition))
        mask = np.array(found.fill_null(False), np.bool_)
        mask.flags.writeable = False
        return mask


class _Evaluation:
    """Of one condition: chunked arrays of true, false and null, one value a row."""

    def __init__(self, documents: DocumentStore, condition: str) -> None:
        self._documents = documents
        self._condition = condition

    def of(self, asked: Condition) -> pa.ChunkedArray:
        """The truth of a condition for each row."""
        import pyarrow.compute as pc

        match asked:
            case AllOf(conditions):
                return reduce(pc.and_kleene, map(self.of, conditions))
            case AnyOf(conditions):
                return reduce(pc.or_kleene, map(self.of, conditions))
            case Not(condition):
                return pc.invert(self.of(condition))
            case Missing(field):
                self._kind(field)
                return pc.is_null(self._documents.column(field.name))
            case Holds() | Compared() | Among() | Like() | Contains():
                return self._test(asked)
            case _:
                assert_never(asked)

    def _test(self, asked: Holds | Compared | Among | Like | Contains) -> pa.ChunkedArray:
        """A test of the values of one field; null where there is none."""
        kind = self._kind(asked.field)
        if kind == "null":
            return _nulls(self._documents.rows)
        column = self._documents.column(asked.field.name)
        match asked:
            case Holds(field):
                return self._truth(field, kind, column)
            case Compared(field, operator, value):
                return self._compared(field, kind, column, operator, value)
            case Among(field, values):
                return self._among(field, kind, column, values)
            case Like(field, pattern):
                return self._like(field, kind, column, pattern)
            case Contains(field, part):
                return self._contains(field, kind, column, part)
            case _:
                assert_never(asked)

    def _truth(self, field: Name, kind: Kind, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if kind != "boolean":
            what = f"the field {field.name!r} is not true or false: compare it with a value"
            self._refuse(what, field.position)
        return column

    def _compared(
        self,
        field: Name,
        kind: Kind,
        column: pa.ChunkedArray,
        operator: Operator,
        value: Literals,
    ) -> pa.ChunkedArray:
        import pyarrow.compute as pc

        self._check(field, kind, value)
        column, values = _alike(column, kind, value.values)
        return pc.call_function(COMPARISONS[operator], [column, values[0]])

    def _among(
        self, field: Name, kind: Kind, column: pa.ChunkedArray, among: Literals
    ) -> pa.ChunkedArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._check(field, kind, among)
        column, values = _alike(column, kind, among.values)
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)  # minus zero is zero
        found = pc.is_in(column, value_set=values)
        return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))

    def _like(
        self, field: Name, kind: Kind, column: pa.ChunkedArray, pattern: Literals
    ) -> pa.ChunkedArray:
        import pyarrow.compute as pc

        self._check(field, kind, pattern)
        asked = str(pattern.values[0]).replace("\\", "\\\\")  # nothing is escaped in SQL
        return pc.match_like(column, asked)

    def _contains(
        self, field: Name, kind: Kind, column: pa.ChunkedArray, part: Literals
    ) -> pa.ChunkedArray:
        """Of a list, which is kept as its JSON text, an element; of another text a part of it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if kind != "string":
            what = f"holds {PLAIN[kind]}: 'contains' is for texts and lists"
            self._refuse(f"the field {field.name!r} {what}", field.position)
        (value,) = part.values
        if field.name in (ID, TEXT):
            self._check(field, kind, part)
            return pc.match_substring(column, str(value))
        written = column.filter(pc.match_substring_regex(column, LIST)).unique()
        lists = [elements(text) for text in decoded(written)]
        if not any(each is not None for each in lists):
            self._check(field, kind, part)
            return pc.match_substring(column, str(value))
        holding = pa.array([_has(each, value) for each in lists], pa.bool_())
        found = pc.is_in(column, value_set=written.filter(pc.fill_null(holding, False)))
        if isinstance(value, str):
            texts = pc.invert(pc.is_in(column, value_set=written.filter(pc.is_valid(holding))))
            found = pc.or_(found, pc.and_(texts, pc.match_substring(column, value)))
        return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))

    def _kind(self, field: Name) -> Kind:
        kind = self._documents.kind(field.name)
        if kind is None:
            there = names_of([*self._documents.fields, ID, TEXT])
            self._refuse(f"no field {field.name!r}; there are {there}", field.position)
        return kind

    def _check(self, field: Name, kind: Kind, literals: Literals) -> None:
        for value, position in zip(literals.values, literals.positions, strict=True):
            if not _is_of(value, kind):
                told = PLAIN[kind] + HINTS.get(kind, "")
                if kind == "string" and type(value) is not bool:
                    told = NO_NUMBERS + self._culprit(field)
                self._refuse(f"the field {field.name!r} holds {told}", position)

    def _culprit(self, field: Name) -> str:
        """The first document whose value is no number."""
        import pyarrow.compute as pc

        column = self._documents.column(field.name)
        is_number = pc.match_substring_regex(column, f"^(?:{NUMBER})$")
        row = pc.index(is_number, False).as_py()
        if row < 0:
            return ""
        (id_,) = self._documents.ids(np.array([row]))
        (value,) = decoded(column.slice(row, 1).combine_chunks())
        return f": document {id_!r} has {value[:50]!r}"

    def _refuse(self, what: str, position: int) -> NoReturn:
        raise InvalidCondition(f"where: {what}", self._condition, position)


def _is_of(value: Value, kind: Kind) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case str():
            return kind == "string"
        case int() | float():
            return kind in ("integer", "number")


def _has(elements: list[object] | None, value: Value) -> bool | None:
    """Whether a list holds a value, 1 being another than ``true``; ``None``: there is no list."""
    if elements is None:
        return None
    return any(each == value and (type(each) is bool) == (type(value) is bool) for each in elements)


def _alike(
    column: pa.ChunkedArray, kind: Kind, values: Sequence[Value]
) -> tuple[pa.ChunkedArray, pa.Array]:
    """A column and values of one type: of numbers that are not all whole floating point."""
    import pyarrow as pa

    if kind == "integer" and not all(isinstance(value, int) for value in values):
        column = column.cast(pa.float64(), safe=False)
    return column, pa.array(values).cast(column.type, safe=False)


def _nulls(rows: int) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([pa.nulls(rows, pa.bool_())])
