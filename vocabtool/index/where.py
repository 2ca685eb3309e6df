"""Which rows of a commit fulfil a condition: its tree as a statement of SQL.

SQL's rules hold: a comparison with a null is neither true nor false, ``not`` leaves it so, and only
rows for which a condition is true fulfil it (ISO/IEC 9075-2, 8.1 and 6.39). Strings are compared by
their bytes in UTF-8. How a condition is written is in ``conditions.py``. Values travel as
parameters, and columns are found by number: nothing that a user writes becomes part of a statement.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NoReturn, assert_never

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import names_of
from vocabtool.errors import InvalidCondition
from vocabtool.index.conditions import Condition, Junction, Not, Test, Value, parse
from vocabtool.index.database import Database, Documents, Fields, column
from vocabtool.index.documents import ID, TEXT
from vocabtool.index.fields import NUMBER, PLAIN, Kind

Mask = NDArray[np.bool_]  # shape (rows,)

KEPT_MASKS: Final = 32  # of a commit, fewer where it has many rows
KEPT_BYTES: Final = 64 << 20
HINTS: Final[dict[Kind, str]] = {
    "integer": ": write the value without quotes",
    "number": ": write the value without quotes",
    "string": ": write the value in single quotes",
}
NO_NUMBERS: Final = (
    "text, as some document's value is no number: numbers cannot be compared with it, only values "
    "in single quotes, as text"
)
LISTS: Final = (
    "SELECT DISTINCT {0} FROM fields WHERE row < {1} AND {0} GLOB '*[[]*' AND json_valid({0})"
    " AND json_type({0}) = 'array'"
)
ELEMENT: Final = "SELECT 1 FROM json_each({0}) WHERE atom = ? AND type IN ({1})"


class Conditions:
    """The conditions asked of one commit: of its rows and kept fields. Several threads may ask."""

    def __init__(self, database: Database, rows: int, fields: Fields) -> None:
        self._database = database
        self._rows = rows
        self._fields = fields
        kept = min(KEPT_MASKS, 1 + KEPT_BYTES // max(rows, 1))
        self.mask = lru_cache(kept)(self._mask)

    def _mask(self, condition: str) -> Mask:
        """Which rows fulfil a condition: shape (rows,), not to be written to.

        The masks of the last few conditions are kept. Raises :class:`InvalidCondition` for one that
        is not understood, names no field, or compares with a value of another kind.
        """
        statement = _Statement(self._database, self._rows, self._fields, condition)
        where = statement.of(parse(condition))
        found = self._database.fetch(f"SELECT row FROM fields WHERE {where}", statement.values)
        rows = np.fromiter((row for (row,) in found), np.int64, len(found))
        mask = np.zeros(self._rows, np.bool_)
        mask[rows[rows < self._rows]] = True
        mask.flags.writeable = False
        return mask


class _Statement:
    """The text after WHERE, and the values of its question marks in their order."""

    def __init__(self, database: Database, rows: int, fields: Fields, condition: str) -> None:
        self.values: list[Value] = []
        self._database = database
        self._rows = rows
        self._fields = fields
        self._condition = condition

    def of(self, asked: Condition) -> str:
        match asked:
            case Not(condition):
                return f"({self.of(condition)}) = 0"  # a "NOT" takes more of SQLite's parser
            case Junction(word, conditions):
                return _join_balanced([self.of(each) for each in conditions], word)
            case Test():
                if asked.field in (ID, TEXT):
                    return f"row IN (SELECT row FROM documents WHERE {self._test(asked)})"
                return self._test(asked)
            case _:
                assert_never(asked)

    def _test(self, asked: Test) -> str:
        kind = self._kind(asked)
        name = asked.field if asked.field in (ID, TEXT) else column(self._fields, asked.field)
        if asked.operator == "is null":
            return f"{name} IS NULL"
        if kind == "null":
            return "NULL"
        if asked.operator == "is true":
            if kind != "boolean":
                what = f"the field {asked.field!r} is not true or false: compare it with a value"
                self._refuse(what, asked.position)
            return name
        if asked.operator == "contains":
            return self._contains(asked, kind, name)
        self._check(asked, kind, name)
        self.values += asked.values
        if asked.operator == "in":
            return f"{name} IN ({', '.join('?' * len(asked.values))})"
        return f"{name} {asked.operator} ?"

    def _contains(self, asked: Test, kind: Kind, name: str) -> str:
        """Of a list, which is kept as its JSON text, an element; of another text a part of it."""
        if kind != "string":
            what = f"holds {PLAIN[kind]}: 'contains' is for texts and lists"
            self._refuse(f"the field {asked.field!r} {what}", asked.position)
        lists = LISTS.format(name, self._rows)
        is_own = asked.field in (ID, TEXT)
        if is_own or not self._database.fetch(f"{lists} LIMIT 1"):
            self._check(asked, kind, name)
            self.values += asked.values
            return f"instr({name}, ?) > 0"
        (value,) = asked.values
        match value:
            case bool():
                types, text = f"'{str(value).lower()}'", False
            case str():
                types, text = "'text'", True
            case _:
                types, text = "'integer', 'real'", False
        self.values.append(value)
        element = ELEMENT.format("list", types)
        having = f"SELECT list FROM (SELECT {name} AS list FROM ({lists})) WHERE EXISTS ({element})"
        otherwise = "0"
        if text:
            self.values.append(value)
            otherwise = f"instr({name}, ?) > 0"
        return (
            f"CASE WHEN {name} IS NULL THEN NULL WHEN {name} IN ({having}) THEN 1"
            f" WHEN {name} IN ({lists}) THEN 0 ELSE {otherwise} END"
        )

    def _kind(self, asked: Test) -> Kind:
        if asked.field in (ID, TEXT):
            return "string"
        if asked.field not in self._fields:
            there = names_of([*self._fields, ID, TEXT])
            self._refuse(f"no field {asked.field!r}; there are {there}", asked.position)
        return self._fields[asked.field]

    def _check(self, asked: Test, kind: Kind, name: str) -> None:
        for value, position in zip(asked.values, asked.positions, strict=True):
            if not _is_of(value, kind):
                told = PLAIN[kind] + HINTS.get(kind, "")
                if kind == "string" and type(value) is not bool:
                    told = NO_NUMBERS + self._culprit(asked, name)
                self._refuse(f"the field {asked.field!r} holds {told}", position)

    def _culprit(self, asked: Test, name: str) -> str:
        """The first document whose value is no number."""
        import re

        table = "documents" if asked.field in (ID, TEXT) else "fields"
        last, step = -1, 1000
        statement = f"SELECT row, {name} FROM {table} WHERE row > ? ORDER BY row LIMIT {step}"
        while found := self._database.fetch(statement, (last,)):
            for row, value in found:
                if value is not None and not re.fullmatch(NUMBER, value):
                    (id_,) = Documents(self._database, {}).ids(np.array([row]))
                    return f": document {id_!r} has {value[:50]!r}"
            last = found[-1][0]
        return ""

    def _refuse(self, what: str, position: int) -> NoReturn:
        raise InvalidCondition(f"where: {what}", self._condition, position)


def _join_balanced(parts: list[str], word: str) -> str:
    """Parts with a word between them, in pairs: SQLite's trees are not deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_join_balanced(parts[:half], word)} {word} {_join_balanced(parts[half:], word)})"


def _is_of(value: Value, kind: Kind) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case str():
            return kind == "string"
        case int() | float():
            return kind in ("integer", "number")
