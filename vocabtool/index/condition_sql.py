"""Find the rows that satisfy a condition: translate its tree to SQL.

As in SQL, a comparison with null is neither true nor false, and ``not`` does not change that
(ISO/IEC 9075-2, 8.1 and 6.39). Strings are compared by their UTF-8 bytes. No user input becomes
SQL: values are parameters, and columns have numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NoReturn, assert_never, cast

import numpy as np

from vocabtool.documents.batch import Kind, names_of
from vocabtool.errors import InvalidCondition
from vocabtool.index.database import Database, Documents, Fields, column
from vocabtool.index.documents import ID, NUMBER, PLAIN, TEXT
from vocabtool.keywords.tokens import SHAPES, case_folded, without_marks
from vocabtool.search.conditions import (
    Comparison,
    Condition,
    Junction,
    Moment,
    Not,
    Test,
    Value,
    Where,
)
from vocabtool.system.ranking import Mask

MAX_PATTERN: Final = 50_000  # bytes of a pattern for SQLite's LIKE
MAX_DATE: Final = 40  # bytes of a date in a field; a longer text is none
MAX_REMEMBERED: Final = 1 << 16  # dates
HINTS: Final[dict[Kind, str]] = {
    "integer": ": write the value without quotes",
    "number": ": write the value without quotes",
    "string": ": write the value in single quotes",
}
NO_NUMBERS: Final = "text and not only numbers: write the value in single quotes"
LISTS: Final = (
    "SELECT DISTINCT {0} FROM fields WHERE row < {1} AND {0} GLOB '*[[]*' AND json_valid({0})"
    " AND json_type({0}) = 'array'"
)
ELEMENT: Final = "EXISTS (SELECT 1 FROM json_each({0}) WHERE {1})"
BYTES: Final = "CAST({0} AS BLOB)"
# Comparisons with the start and the end of a DATE, or with one of them.
INSIDE: Final = {"=": "({0} >= ? AND {0} < ?)", "!=": "({0} < ? OR {0} >= ?)"}
BESIDE: Final = {"<": ("<", 0), "<=": ("<", 1), ">": (">=", 1), ">=": (">=", 0)}


def rows_where(database: Database, rows: int, fields: Fields, condition: Where) -> Mask:
    """Return which rows satisfy a condition. Raises :class:`InvalidCondition`."""
    statement = _Statement(database, rows, fields, condition.text)
    where = statement.of(condition.tree)
    with database.statements() as connection:
        for name, count, function in FUNCTIONS:
            connection.create_function(name, count, function, deterministic=True)
    found = database.fetch_rows(f"SELECT row FROM fields WHERE {where}", statement.values)
    mask = np.zeros(rows, np.bool_)
    mask[found[found < rows]] = True
    mask.flags.writeable = False
    return mask


class _Statement:
    def __init__(self, database: Database, rows: int, fields: Fields, condition: str) -> None:
        self.values: list[Value] = []
        self._database = database
        self._rows = rows
        self._fields = fields
        self._condition = condition

    def of(self, asked: Condition) -> str:
        match asked:
            case Not(condition):
                return f"({self.of(condition)}) = 0"  # "NOT" takes more of SQLite's parser stack
            case Junction(word, conditions):
                return _join_balanced([self.of(each) for each in conditions], word)
            case Test():
                if asked.field in (ID, TEXT):
                    return f"row IN (SELECT row FROM documents WHERE {self._test(asked)})"
                return self._test(asked)
            case _:
                assert_never(asked)

    def _test(self, asked: Test) -> str:
        name, kinds = asked.field, {**self._fields, ID: "string", TEXT: "string"}
        if name not in kinds:
            self._refuse(f"no field {name!r}; the fields are {names_of([*kinds])}", asked.position)
        kind = kinds[name]
        if name not in (ID, TEXT):
            name = column(self._fields, name)
        if asked.operator == "is null":
            return f"{name} IS NULL"
        if kind == "null":
            return "NULL"
        if asked.operator == "is true":
            if kind != "boolean":
                what = f"the field {asked.field!r} is not a boolean: compare it with a value"
                self._refuse(what, asked.position)
            return name
        if asked.operator in ("contains", "has"):
            return self._elements(asked, kind, name)
        self._check(asked, kind, name)
        moments = [each for each in asked.values if isinstance(each, Moment)]
        others = [each for each in asked.values if not isinstance(each, Moment)]
        self.values += others
        match asked.operator:
            case "in":
                tests = [f"{name} IN ({', '.join('?' * len(others))})"] if others else []
                tests += [self._moment(name, "=", each) for each in moments]
                return _join_balanced(tests, "or")
            case "startswith":
                return f"instr({name}, ?) = 1"
            case "has word":
                return f"has_word({BYTES.format(name)}, ?)"
            case "ilike":
                pattern = str(self.values.pop()).casefold()
                if len(pattern.encode()) > MAX_PATTERN:
                    self._refuse(f"the pattern has more than {MAX_PATTERN:,} bytes", asked.position)
                self.values.append(pattern)
                return f"CAST(fold({BYTES.format(name)}) AS TEXT) LIKE ?"
            case "like":
                return f"{name} LIKE ?"
            case comparison:
                if moments:
                    return self._moment(name, cast(Comparison, comparison), moments[0])
                return f"{name} {comparison} ?"

    def _moment(self, name: str, comparison: Comparison, moment: Moment) -> str:
        at = f"instant({BYTES.format(name)})"
        if comparison in ("=", "!="):
            self.values += moment
            return INSIDE[comparison].format(at)
        sign, bound = BESIDE[comparison]
        self.values.append(moment[bound])
        return f"{at} {sign} ?"

    def _elements(self, asked: Test, kind: Kind, name: str) -> str:
        """Translate ``has`` and ``contains``, which test the elements of a JSON list.

        In a text that is no list, ``contains`` looks for a substring, and ``has`` finds nothing.
        """
        is_own, operator = asked.field in (ID, TEXT), asked.operator
        if kind != "string" or (is_own and operator == "has"):
            wanted = "lists" if operator == "has" else "strings and lists"
            what = f"contains {PLAIN[kind]}: {operator!r} works only on {wanted}"
            self._refuse(f"the field {asked.field!r} {what}", asked.position)
        for value, position in zip(asked.values, asked.positions, strict=True):
            if isinstance(value, Moment):
                self._refuse(
                    f"{operator!r} compares texts: write the date in single quotes", position
                )
        lists = LISTS.format(name, self._rows)
        if operator == "has":
            having = self._lists_having(lists, name, asked.values)
            return f"CASE WHEN {name} IS NULL THEN NULL ELSE {name} IN ({having}) END"
        if is_own or not self._database.fetch(f"{lists} LIMIT 1"):
            self._check(asked, kind, name)
            self.values += asked.values
            return f"instr({name}, ?) > 0"
        having, otherwise = self._lists_having(lists, name, asked.values), "0"
        if isinstance(asked.values[0], str):
            otherwise = f"instr({name}, ?) > 0"
            self.values += asked.values
        return (
            f"CASE WHEN {name} IS NULL THEN NULL WHEN {name} IN ({having}) THEN 1"
            f" WHEN {name} IN ({lists}) THEN 0 ELSE {otherwise} END"
        )

    def _lists_having(self, lists: str, name: str, values: Sequence[Value]) -> str:
        of_types: dict[str, list[Value]] = {}
        for value in values:
            types = "'text'" if isinstance(value, str) else "'integer', 'real'"
            types = f"'{str(value).lower()}'" if isinstance(value, bool) else types
            of_types.setdefault(types, []).append(value)
        tests = []
        for types, group in of_types.items():
            tests.append(f"type IN ({types}) AND atom IN ({', '.join('?' * len(group))})")
            self.values += group
        element = ELEMENT.format("list", " OR ".join(tests))
        return f"SELECT list FROM (SELECT {name} AS list FROM ({lists})) WHERE {element}"

    def _check(self, asked: Test, kind: Kind, name: str) -> None:
        numbers = kind in ("integer", "number")
        for value, position in zip(asked.values, asked.positions, strict=True):
            is_text = isinstance(value, str | Moment)
            if isinstance(value, bool):
                fits = kind == "boolean"
            else:
                fits = kind == "string" if is_text else numbers
            if fits:
                continue
            content = PLAIN[kind] + HINTS.get(kind, "")
            if kind == "string" and not isinstance(value, bool):
                content = NO_NUMBERS + self._first_non_number(asked, name)
            self._refuse(f"the field {asked.field!r} contains {content}", position)

    def _first_non_number(self, asked: Test, name: str) -> str:
        table = "documents" if asked.field in (ID, TEXT) else "fields"
        statement = f"SELECT row, {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY row"
        with self._database.statements() as connection:
            found = connection.execute(statement)
            first = next((each for each in found if not re.fullmatch(NUMBER, each[1])), None)
        if first is None:
            return ""
        (id_,) = Documents(self._database, {}).ids(np.array(first[:1]))
        return f". Document {id_!r} has {first[1][:50]!r}"

    def _refuse(self, what: str, position: int) -> NoReturn:
        raise InvalidCondition(f"where: {what}", self._condition, position)


def _join_balanced(parts: list[str], word: str) -> str:
    """Join SQL conditions as a balanced tree, because SQLite limits their depth."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_join_balanced(parts[:half], word)} {word} {_join_balanced(parts[half:], word)})"


@lru_cache(MAX_REMEMBERED)
def instant(value: bytes | None) -> int | None:
    """Return the start of a date or time in a field; ``None`` for any other text."""
    if value is None or len(value) > MAX_DATE:
        return None
    try:
        return Moment.of(value.decode("utf-8", "replace")).start
    except ValueError:
        return None


def fold(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    text = value.decode("utf-8", "surrogateescape").casefold()
    return text.encode("utf-8", "surrogateescape")


def has_word(value: bytes | None, word: str) -> bool | None:
    """Return whether a text contains a word or phrase; case, width and accents are ignored.

    No letter or digit may stand next to the word, except in scripts without spaces.
    """
    if value is None:
        return None
    text = _plain(value.decode("utf-8", "replace"))
    plain, pattern = _pattern_of(word)
    return plain in text and pattern.search(text) is not None  # the first test is faster


@lru_cache(1)
def _pattern_of(word: str) -> tuple[str, re.Pattern[str]]:
    plain = _plain(word)
    first, last = plain[:1].translate(SHAPES), plain[-1:].translate(SHAPES)
    before, after = "" if first == "c" else r"(?<!\w)", "" if last == "c" else r"(?!\w)"
    return plain, re.compile(f"{before}{re.escape(plain)}{after}")


def _plain(text: str) -> str:
    return without_marks(case_folded(text))


FUNCTIONS: Final = (("instant", 1, instant), ("fold", 1, fold), ("has_word", 2, has_word))
