"""Translate a condition on fields, such as ``year >= 2020``, to SQL.

``Compiler`` writes the SQL of SQLite, for an index in a folder. A subclass for another database
replaces the methods that test one column.

As in SQL, a comparison with null is null, and so is its negation (ISO/IEC 9075-2, 8.1 and 6.39).
Strings are compared by their UTF-8 bytes. No user input becomes SQL: values are parameters, and
columns are named by number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NoReturn, assert_never, cast

import numpy as np

from vocabtool.documents.batch import Kind, list_names
from vocabtool.documents.options import ID, TEXT
from vocabtool.errors import InvalidCondition
from vocabtool.index.database import PLAIN, Database, Fields, column
from vocabtool.keywords.tokens import SHAPES, case_folded, without_marks
from vocabtool.search.conditions import Comparison, Condition, Junction, Moment, Test, Value, Where
from vocabtool.system.ranking import Mask

MAX_PATTERN: Final = 50_000  # bytes of a pattern for SQLite's LIKE
MAX_DATE: Final = 40  # bytes of a date in a field; a longer text is none
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
INSIDE: Final = {"=": "({0} >= {1} AND {0} < {2})", "!=": "({0} < {1} OR {0} >= {2})"}
BESIDE: Final = {"<": ("<", 0), "<=": ("<", 1), ">": (">=", 1), ">=": (">=", 0)}


class Compiler:
    """Translates conditions on the fields of an index.

    ``values``: the parameters, in the order of their placeholders. The methods that test one column
    have an argument ``name``, the name of the column: ``id``, ``text``, or ``field_`` and a number.
    If the value of the column is null, the test is null. The SQL may call ``FUNCTIONS``.
    """

    mark = "?"
    instant = f"instant({BYTES})"  # microseconds since year 1; null for a string that is no date
    patterns: Mapping[str, str] = {  # compare a column with a parameter
        "like": "{0} LIKE {1}",
        "ilike": f"CAST(fold({BYTES}) AS TEXT) LIKE {{1}}",  # both are case-folded
        "startswith": "instr({0}, {1}) = 1",
        "contains": "instr({0}, {1}) > 0",
    }

    def __init__(self, database: Database, rows: int, fields: Fields, text: str) -> None:
        self._database, self._rows = database, rows
        self._fields, self._text = fields, text
        self.values: list[object] = []

    def of(self, tree: Condition) -> str:
        """Return the SQL of a condition; its parameters are added to ``values``."""
        match tree:
            case Junction("not", (condition,)):
                return self.negation(self.of(condition))
            case Junction(word, conditions):
                return _join_balanced([self.of(member) for member in conditions], word)
            case Test():
                if tree.field in (ID, TEXT):
                    # An id or a text is never null, but a text that is no date is null as a date.
                    has_null = any(isinstance(value, Moment) for value in tree.values)
                    return self.of_document(self._test(tree), has_null)
                return self._test(tree)
            case _:
                assert_never(tree)

    def _test(self, test: Test) -> str:
        """Return the SQL of a test of one field. Raises :class:`InvalidCondition`."""
        name, kinds = test.field, {**self._fields, ID: "string", TEXT: "string"}
        if name not in kinds:
            self._refuse(f"no field {name!r}; the fields are {list_names([*kinds])}", test.position)
        kind = kinds[name]
        if name not in (ID, TEXT):
            name = column(self._fields, name)
        if kind == "null":
            return "TRUE" if test.operator == "is null" else "NULL"
        if test.operator == "is null":
            return f"{name} IS NULL"
        if test.operator == "is true":
            if kind != "boolean":
                what = f"the field {test.field!r} is not a boolean: compare it with a value"
                self._refuse(what, test.position)
            return name
        if test.operator in ("contains", "has"):
            return self._elements(test, kind, name)
        self._check(test, kind)
        moments = [value for value in test.values if isinstance(value, Moment)]
        others = [value for value in test.values if not isinstance(value, Moment)]
        match test.operator:
            case "in":
                tests = [self.any_of(name, others)] if others else []
                tests += [self._moment(name, "=", moment) for moment in moments]
                return _join_balanced(tests, "or")
            case "has word":
                return self.has_word(name, str(others[0]))
            case "ilike":
                pattern = str(others[0]).casefold()
                if len(pattern.encode()) > MAX_PATTERN:
                    self._refuse(f"the pattern has more than {MAX_PATTERN:,} bytes", test.position)
                return self.compare("ilike", name, pattern)
            case "like" | "startswith" as operator:
                return self.compare(operator, name, others[0])
            case comparison:
                sign = cast(Comparison, comparison)
                if moments:
                    return self._moment(name, sign, moments[0])
                return self.comparison(name, sign, others[0])

    def _moment(self, name: str, comparison: Comparison, moment: Moment) -> str:
        """Compare a column with a date, which lasts from its start to its end."""
        at, put = self.instant.format(name), self.put
        if comparison in ("=", "!="):
            return INSIDE[comparison].format(at, put(moment.start), put(moment.end))
        sign, bound = BESIDE[comparison]
        return f"{at} {sign} {put(moment[bound])}"

    def _elements(self, test: Test, kind: Kind, name: str) -> str:
        """In a string that is not a list, ``contains`` finds a substring, and ``has`` nothing."""
        is_own, operator = test.field in (ID, TEXT), test.operator
        if kind != "string" or (is_own and operator == "has"):
            wanted = "lists" if operator == "has" else "strings and lists"
            what = (
                f"the field {test.field!r} contains {PLAIN[kind]}: {operator!r} works only on "
                f"{wanted}"
            )
            self._refuse(what, test.position)
        for value, position in zip(test.values, test.positions, strict=True):
            if isinstance(value, Moment):
                self._refuse(
                    f"{operator!r} compares texts: write the date in single quotes", position
                )
        if operator == "has":
            return self.has_element(name, test.values)
        if is_own or not self.has_lists(name, test.values[0]):
            self._check(test, kind)
            return self.compare("contains", name, test.values[0])
        return self.contains(name, test.values[0])

    def _check(self, test: Test, kind: Kind) -> None:
        """Refuse values of another kind than the field."""
        numbers = kind in ("integer", "number")
        for value, position in zip(test.values, test.positions, strict=True):
            is_text = isinstance(value, str | Moment)
            if isinstance(value, bool):
                fits = kind == "boolean"
            else:
                fits = kind == "string" if is_text else numbers
            if fits:
                continue
            content = PLAIN[kind] + HINTS.get(kind, "")
            if kind == "string" and not isinstance(value, bool):
                content = NO_NUMBERS
            self._refuse(f"the field {test.field!r} contains {content}", position)

    def _refuse(self, what: str, position: int) -> NoReturn:
        raise InvalidCondition(f"where: {what}", self._text, position)

    def put(self, *values: object) -> str:
        """Add parameters; return their placeholders, separated by commas."""
        self.values += values
        return ", ".join([self.mark] * len(values))

    def negation(self, test: str) -> str:
        return f"({test}) = 0"  # "NOT" takes more of SQLite's parser stack

    def of_document(self, test: str, has_null: bool) -> str:
        """Make a test of the id or text fit tests of fields; it may be null if ``has_null``."""
        if has_null:
            return f"(SELECT {test} FROM documents WHERE documents.row = fields.row)"
        return f"row IN (SELECT row FROM documents WHERE {test})"

    def comparison(self, name: str, sign: Comparison, value: Value) -> str:
        return f"{name} {sign} {self.put(value)}"

    def any_of(self, name: str, values: Sequence[Value]) -> str:
        return f"{name} IN ({self.put(*values)})"

    def compare(self, operator: str, name: str, value: object) -> str:
        return self.patterns[operator].format(name, self.put(value))

    def has_word(self, name: str, word: str) -> str:
        return f"has_word({BYTES.format(name)}, {self.put(word)})"

    def has_lists(self, name: str, value: Value) -> bool:
        """Return whether a value of the column may be a list."""
        return bool(self._database.fetch(f"{LISTS.format(name, self._rows)} LIMIT 1"))

    def has_element(self, name: str, values: Sequence[Value]) -> str:
        """Return SQL that tests whether the column has a list with at least one of the values."""
        having = self._lists_having(name, values)
        return f"CASE WHEN {name} IS NULL THEN NULL ELSE {name} IN ({having}) END"

    def contains(self, name: str, value: Value) -> str:
        """Return SQL that searches a list for an element, and a plain string for a substring."""
        having = self._lists_having(name, [value])
        otherwise = self.compare("contains", name, value) if isinstance(value, str) else "0"
        return (
            f"CASE WHEN {name} IS NULL THEN NULL WHEN {name} IN ({having}) THEN 1"
            f" WHEN {name} IN ({LISTS.format(name, self._rows)}) THEN 0 ELSE {otherwise} END"
        )

    def _lists_having(self, name: str, values: Sequence[Value]) -> str:
        """Return SQL that selects the lists with at least one of the values as an element."""
        by_types: dict[str, list[Value]] = {}  # types of json_each (sqlite.org/json1.html)
        for value in values:
            types = "'text'" if isinstance(value, str) else "'integer', 'real'"
            if isinstance(value, bool):
                types = f"'{str(value).lower()}'"
            by_types.setdefault(types, []).append(value)
        tests = [
            f"type IN ({types}) AND atom IN ({self.put(*group)})"
            for types, group in by_types.items()
        ]
        element = ELEMENT.format("list", " OR ".join(tests))
        lists = LISTS.format(name, self._rows)
        return f"SELECT list FROM (SELECT {name} AS list FROM ({lists})) WHERE {element}"


def _join_balanced(parts: list[str], word: str) -> str:
    """Join SQL conditions as a balanced tree, because databases limit their depth."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_join_balanced(parts[:half], word)} {word} {_join_balanced(parts[half:], word)})"


def rows_where(database: Database, rows: int, fields: Fields, condition: Where) -> Mask:
    """Return a mask of the rows that satisfy a condition. Raises :class:`InvalidCondition`."""
    compiler = Compiler(database, rows, fields, condition.text)
    where = compiler.of(condition.tree)
    with database.statements() as connection:
        for name, count, function in FUNCTIONS:
            connection.create_function(name, count, function, deterministic=True)
    matches = database.fetch_rows(f"SELECT row FROM fields WHERE {where}", compiler.values)
    mask = np.zeros(rows, np.bool_)
    mask[matches[matches < rows]] = True
    mask.flags.writeable = False
    return mask


@lru_cache(1 << 16)
def instant(value: bytes | None) -> int | None:
    """Return the start of a date, in microseconds since year 1; ``None`` if it is no date."""
    if value is None or len(value) > MAX_DATE:
        return None
    try:
        return Moment.of(value.decode("utf-8", "replace")).start
    except ValueError:
        return None


def fold(value: bytes | None) -> bytes | None:
    """Return a text without differences of case; bytes that are not UTF-8 stay."""
    if value is None:
        return None
    text = value.decode("utf-8", "surrogateescape").casefold()
    return text.encode("utf-8", "surrogateescape")


def has_word(value: bytes | None, word: str) -> bool | None:
    """Return whether a text contains a word or phrase; case, width and accents are ignored.

    A part of a longer word does not count, except in scripts without spaces, such as Chinese.
    """
    if value is None:
        return None
    text = plain_form(value.decode("utf-8", "replace"))
    plain, pattern = _pattern_of(word)
    return plain in text and pattern.search(text) is not None  # the first test is faster


@lru_cache(1)
def _pattern_of(word: str) -> tuple[str, re.Pattern[str]]:
    """Return the plain form of a word or phrase, and a pattern that finds it in a plain text."""
    plain = plain_form(word)
    before, after = may_touch(plain)
    left, right = "" if before else r"(?<!\w)", "" if after else r"(?!\w)"
    return plain, re.compile(f"{left}{re.escape(plain)}{right}")


def plain_form(text: str) -> str:
    """Return a text without differences of case, width and accents."""
    return without_marks(case_folded(text))


def may_touch(plain: str) -> tuple[bool, bool]:
    """Return whether letters may directly precede a word, and whether they may follow it.

    They may, where the word has a character of a script without spaces, such as Chinese.
    """
    before, after = plain[:1].translate(SHAPES), plain[-1:].translate(SHAPES)
    return before in ("c", "t"), after in ("c", "t")


FUNCTIONS: Final = (("instant", 1, instant), ("fold", 1, fold), ("has_word", 2, has_word))
