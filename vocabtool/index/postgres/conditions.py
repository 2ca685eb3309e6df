"""Fields of documents as columns of PostgreSQL, and conditions on these columns.

A field has a column whose type depends on the kind of the field:

    integer   numeric: if the kind changes to number, the column stays the same
    number    numeric: integers beyond 2^53 stay exact; fractions are stored as shortest decimals
    boolean   boolean
    string    text COLLATE "C", with four companion columns

The companion columns have values that PostgreSQL cannot compute in the same way in every locale:

    _folded   case-folded text; null if case-folding only replaces A-Z by a-z
    _words    plain text with marks at the edges of words; null if all words are ASCII
    _instant  bigint: the start of the date or time in the text; null if the text is no date or time
    _items    text[]: the elements of a JSON list; null if the text is no JSON list

Ids and texts have the same companions, except ``_items``. A field of the kind ``null`` has no
column. For an ASCII text, ``_folded`` and ``_words`` are null. A null takes no space.

PostgreSQL stores neither U+0000 nor invalid UTF-8: both become U+FFFD (:func:`storable`).
A condition that contains U+0000 is refused.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from threading import local
from typing import Any, Final

from vocabtool.documents.batch import Kind
from vocabtool.documents.options import ID, TEXT
from vocabtool.errors import InvalidCondition
from vocabtool.index.condition_sql import Compiler, instant, may_touch, plain_form
from vocabtool.index.database import Fields, value_of
from vocabtool.search.conditions import LEAST, MOST, Comparison, Moment, Value, Where

Fetch = Callable[[str], Sequence[Sequence[Any]]]

STRING: Final = 'text COLLATE "C"'
TYPES: Final[dict[Kind, str]] = {
    "integer": "numeric",
    "number": "numeric",
    "boolean": "boolean",
    "string": STRING,
}
COMPANIONS: Final[tuple[tuple[str, str], ...]] = (
    ("_folded", STRING),
    ("_words", STRING),
    ("_instant", "bigint"),
)
ITEMS: Final = ("_items", "text[]")
OWN_COLUMNS: Final = tuple(
    (f"{name}{ending}", type_) for name in (ID, TEXT) for ending, type_ in COMPANIONS
)
INDEXED: Final = 128  # characters of a string in its index, whose rows have at most 2,704 bytes
EXACT: Final = 2.0**63  # whole floating-point numbers up to here are compared with integers
NUL = "\0"
# Edges of words: before one, after one, between two other characters.
BEFORE, AFTER, BETWEEN = "\x01", "\x02", "\x03"
NO_WORD: Final = re.compile(r"\W+")
NON_ASCII_WORD: Final = re.compile(r"[^\W\x00-\x7f]")
# Characters of a text that look like edges; a lower-case text has no such pairs otherwise.
ESCAPES: Final = str.maketrans({"\x01": "\x04A", "\x02": "\x04B", "\x03": "\x04C", "\x04": "\x04D"})
NO_LETTER_BEFORE, NO_LETTER_AFTER = "(?<![0-9a-z_])", "(?![0-9a-z_])"
UNKNOWN: Final = "({0} IS NULL AND NULL)"  # false, or null for null
_SQLITE: Final = local()  # ``reader``: the connection of a thread


def columns_of(name: str, kind: Kind) -> list[tuple[str, str]]:
    """Return the names and types of the columns of a field. ``name``: such as ``field_0``."""
    if kind == "null":
        return []
    endings = (*COMPANIONS, ITEMS) if kind == "string" else ()
    return [(name, TYPES[kind]), *((f"{name}{ending}", type_) for ending, type_ in endings)]


def indexes_of(name: str, kind: Kind) -> list[str]:
    """Return the indexes for conditions on a field, as the SQL after ``CREATE INDEX ON ...``."""
    if kind in ("integer", "number"):
        return [f"({name})"]
    if kind != "string":
        return []
    return [
        f"(left({name}, {INDEXED}))",  # a B-tree cannot contain long texts
        f"({name}_instant) WHERE {name}_instant IS NOT NULL",
        f"USING gin ({name}_items) WHERE {name}_items IS NOT NULL",
    ]


def columns_of_text(text: str) -> tuple[str | None, str | None, int | None]:
    """Return the values of the companion columns for a text that :func:`storable` returned."""
    encoded = text.encode()
    if text.isascii():
        return None, None, instant(encoded)
    lower, folded, plain = encoded.lower().decode(), text.casefold(), plain_form(text)
    is_simple = plain == lower and not NON_ASCII_WORD.search(plain)
    return (
        None if folded == lower else folded,
        None if is_simple else with_edges(plain),
        instant(encoded),
    )


def columns_of_value(text: str | None, kind: Kind) -> tuple[object, ...]:
    """Convert the text of a field's value to the values of all columns of the field."""
    if kind == "null":
        return ()
    if text is None:
        return (None,) * (5 if kind == "string" else 1)
    if kind == "string":
        return text, *columns_of_text(text), items_of(text)
    return (text == "true" if kind == "boolean" else as_decimal(value_of(text, kind)),)


def value_of_column(value: object) -> object:
    """Convert the value of a column to the value of its field: numeric to ``int`` or ``float``."""
    if not isinstance(value, Decimal):
        return value
    is_whole = value.is_finite() and value.as_tuple().exponent == 0
    return int(value) if is_whole and LEAST <= value <= MOST else float(value)


def storable(text: str) -> str:
    """Replace U+0000, which PostgreSQL cannot store, by U+FFFD."""
    return text.replace(NUL, "\ufffd")


def as_decimal(number: int | float) -> Decimal:
    """Return a number as its shortest decimal, but a whole ``float`` with its point (``2.0``)."""
    # Without the point, PostgreSQL would return 1e+16 as an integer.
    if isinstance(number, float) and number.is_integer() and abs(number) <= EXACT:
        return Decimal(f"{int(number)}.0")
    return Decimal(repr(number))


def items_of(text: str) -> list[str] | None:
    """Return :func:`element_key` of each element, or ``None`` if the text is no JSON list."""
    if "[" not in text:
        return None
    if not hasattr(_SQLITE, "reader"):
        _SQLITE.reader = sqlite3.connect(":memory:")  # parses as for an index in a folder
        _SQLITE.reader.text_factory = bytes
    statement = "SELECT CASE WHEN json_valid(?1) THEN json_type(?1) END"
    if _SQLITE.reader.execute(statement, (text,)).fetchone() != (b"array",):
        return None
    keys = set()
    for type_, atom in _SQLITE.reader.execute("SELECT type, atom FROM json_each(?)", (text,)):
        if type_ in (b"true", b"false"):
            keys.add(element_key(type_ == b"true"))
        elif type_ in (b"integer", b"real"):
            keys.add(element_key(atom))
        elif type_ == b"text" and NUL.encode() not in atom:
            with suppress(UnicodeDecodeError):  # half a surrogate pair, which no condition has
                keys.add(element_key(atom.decode()))
    return sorted(keys)


def element_key(value: str | int | float | bool) -> str:
    """Return a text for an element of a list. Only equal elements have equal texts."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) else f"{as_decimal(value):f}".removesuffix(".0")


def with_edges(plain: str) -> str:
    """Mark the edges of words in a :func:`plain_form`, so that substrings find whole words."""

    def mark(gap: re.Match[str]) -> str:
        return AFTER + BETWEEN.join(c.translate(ESCAPES) for c in gap[0]) + BEFORE

    # A space at each end of the text makes a gap there. The slice removes it and its outer mark.
    return NO_WORD.sub(mark, f" {plain} ")[2:-2]


def sql_of(where: Where, fields: Fields, table: str, fetch: Fetch) -> tuple[str, list[object]]:
    """Return a condition on the rows of a table, and its parameters for psycopg (``%s``).

    ``table``: its name, which must not come from a user. Raises :class:`InvalidCondition` for a
    condition that does not fit the fields, or has U+0000.
    """
    if NUL in where.text:
        what = "where: no document has U+0000, because PostgreSQL cannot store it: leave it out"
        raise InvalidCondition(what, where.text, where.text.index(NUL))
    compiler = PostgresCompiler(table, fetch, fields, where.text)
    return compiler.of(where.tree), compiler.values


class PostgresCompiler(Compiler):
    """Translates conditions to SQL for a table with the columns of :func:`columns_of`."""

    mark = "%s"
    instant = "{0}_instant"
    patterns: Mapping[str, str] = {
        "like": "({0} LIKE {1} ESCAPE '')",
        "ilike": "(coalesce({0}_folded, lower({0})) LIKE {1} ESCAPE '')",
        "startswith": "starts_with({0}, {1})",
        "contains": "(strpos({0}, {1}) > 0)",
    }

    def __init__(self, table: str, fetch: Fetch, fields: Fields, text: str) -> None:
        self._table, self._fetch = table, fetch
        self._fields, self._text = fields, text
        self.values = []

    def put(self, *values: object) -> str:
        return super().put(*(as_decimal(v) if isinstance(v, float) else v for v in values))

    def negation(self, test: str) -> str:
        return f"(NOT {test})"

    def of_document(self, test: str, has_null: bool) -> str:
        return test

    def comparison(self, name: str, sign: Comparison, value: Value) -> str:
        test = super().comparison(name, sign, value)
        if not isinstance(value, str) or sign == "!=" or name in (ID, TEXT):
            return test
        wide = sign if "=" in sign else f"{sign}="
        return f"({test} AND left({name}, {INDEXED}) {wide} {self.put(value[:INDEXED])})"

    def any_of(self, name: str, values: Sequence[Value]) -> str:
        test = super().any_of(name, values)
        starts = dict.fromkeys(value[:INDEXED] for value in values if isinstance(value, str))
        if not starts or name in (ID, TEXT):
            return test
        return f"({test} AND left({name}, {INDEXED}) IN ({self.put(*starts)}))"

    def has_word(self, name: str, word: str) -> str:
        plain = plain_form(word)
        before, after = may_touch(plain)
        left, right = "" if before else NO_LETTER_BEFORE, "" if after else NO_LETTER_AFTER
        pattern = self.put(f"{left}{re.escape(plain)}{right}")
        marked = with_edges(plain)
        marked = marked[before : len(marked) - after]
        return (
            f"(CASE WHEN {name}_words IS NULL THEN lower({name}) ~ {pattern}"
            f" ELSE strpos({name}_words, {self.put(marked)}) > 0 END)"
        )

    def has_lists(self, name: str, value: Value) -> bool:
        if isinstance(value, str):  # then the SQL of contains() is right without lists, too
            return True
        lists = f"SELECT 1 FROM {self._table} WHERE {name}_items IS NOT NULL LIMIT 1"
        return bool(self._fetch(lists))

    def has_element(self, name: str, values: Sequence[Value]) -> str:
        # PostgreSQL sees that the index of the lists suffices, where null and false are the same.
        any_ = self._any_item(name, values)
        return f"(({name}_items IS NOT NULL AND {any_}) OR {UNKNOWN.format(name)})"

    def contains(self, name: str, value: Value) -> str:
        is_text, any_ = isinstance(value, str), self._any_item(name, [value])
        otherwise = self.compare("contains", name, value) if is_text else UNKNOWN.format(name)
        return f"(CASE WHEN {name}_items IS NOT NULL THEN {any_} ELSE {otherwise} END)"

    def _any_item(self, name: str, values: Sequence[Value]) -> str:
        keys = [element_key(value) for value in values if not isinstance(value, Moment)]
        return f"{name}_items && {self.put(keys)}::text[]"
