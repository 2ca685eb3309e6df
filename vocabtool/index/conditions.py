"""Conditions on fields as people write them, into a tree.

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | FIELD [ test ]
    test       = ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) value
               | "is" [ "not" ] "null"
               | [ "not" ] ( "in" "(" value { "," value } ")" | "between" value "and" value
                           | "like" STRING | "contains" value )
    value      = STRING | NUMBER | "true" | "false"

A field alone is asked whether it is true. Strings stand in ``'...'``, names that are no plain words
in ``"..."``; in both the quote itself is doubled. Key words may be written in capitals. What a
condition means for the rows of an index is in ``where.py``.

Which rows of a commit fulfil a condition: its tree as a statement of SQL.

SQL's rules hold: a comparison with a null is neither true nor false, ``not`` leaves it so, and only
rows for which a condition is true fulfil it (ISO/IEC 9075-2, 8.1 and 6.39). Strings are compared by
their bytes in UTF-8. How a condition is written is in ``conditions.py``. Values travel as
parameters, and columns are found by number: nothing that a user writes becomes part of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, assert_never, cast, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import names_of
from vocabtool.errors import InvalidCondition
from vocabtool.index.database import Database, Documents, Fields, column
from vocabtool.index.documents import ID, LEAST, MOST, NUMBER, PLAIN, TEXT, Kind

MAX_CHARACTERS: Final = 10_000  # characters of a condition
MAX_DIGITS: Final = 20  # of a whole number of 64 bits, with its sign
MAX_DEPTH: Final = 20  # parentheses and "not" inside each other: SQLite's parser has a limit

Value: TypeAlias = str | int | float | bool
Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
Operator = Comparison | Literal["in", "like", "contains", "is null", "is true"]

SPELLINGS: Final = {"==": "=", "<>": "!="}
KEYWORDS: Final = frozenset(
    ("and", "or", "not", "in", "between", "is", "null", "like", "contains", "true", "false")
)
TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w.]))
      | (?P<string>'(?:[^']|'')*'(?!'))
      | (?P<quoted>"(?:[^"]|"")+"(?!"))
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Test:
    """A test of one field: ``operator`` with ``values``, and where in the condition these stand.

    ``contains``: of a list an element, of a text any characters in it. ``like``: ``%`` stands for
    any characters, ``_`` for one. ``is true``: the field alone.
    """

    field: str
    position: int
    operator: Operator
    values: tuple[Value, ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """``not condition``"""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions with ``and`` or ``or`` between them."""

    word: Literal["and", "or"]
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Test | Not | Junction


class Token(NamedTuple):
    """``kind``: a key word or sign is of its own kind, the end is of the kind ``end``."""

    kind: str
    text: str
    position: int


def parse(condition: str) -> Condition:
    """The tree of a condition. Raises :class:`InvalidCondition`, which shows the place."""
    if len(condition) > MAX_CHARACTERS:
        what = f"where: a condition of {len(condition):,} characters, wanted at most "
        what += f"{MAX_CHARACTERS:,}"
        raise InvalidCondition(what, condition, MAX_CHARACTERS)
    try:
        condition.encode()
    except UnicodeEncodeError as error:
        raise InvalidCondition("where: no text in UTF-8", condition, error.start) from error
    parser = _Parser(condition)
    found = parser.condition(0)
    parser.end()
    return found


def _tokens(condition: str) -> Iterator[Token]:
    position = 0
    end = len(condition.rstrip())
    while position < end:
        match = TOKEN.match(condition, position)
        if match is None:
            at = position + len(condition[position:]) - len(condition[position:].lstrip())
            raise InvalidCondition(_unread(condition[at]), condition, at)
        kind = cast(str, match.lastgroup)
        text = match[kind]
        word = text.lower() if kind == "word" else SPELLINGS.get(text, text)
        own = kind == "sign" or (kind == "word" and word in KEYWORDS)
        yield Token(word if own else kind, text, match.start(kind))
        position = match.end()
    yield Token("end", "", end)


def _unread(character: str) -> str:
    if character in "'\"":
        return f"where: no closing {character}"
    return f"where: no condition begins or goes on with {character!r}"


class _Parser:
    def __init__(self, condition: str) -> None:
        self._condition = condition
        self._tokens = list(_tokens(condition))
        self._at = 0

    def condition(self, depth: int) -> Condition:
        return self._junction("or", lambda: self._junction("and", lambda: self._one(depth)))

    def end(self) -> None:
        if self._next.kind != "end":
            self._refuse("wanted 'and', 'or' or the end")

    def _junction(self, word: Literal["and", "or"], part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} conditions inside each other")
        if self._took("not"):
            return Not(self._one(depth + 1))
        if self._took("("):
            inner = self.condition(depth + 1)
            self._take(")")
            return inner
        return self._test()

    def _test(self) -> Condition:
        kind, text, position = self._next
        if kind not in ("word", "quoted"):
            self._refuse("wanted the name of a field")
        self._at += 1
        name = text if kind == "word" else text[1:-1].replace('""', '"')
        if self._next.kind in get_args(Comparison):
            operator = cast(Comparison, self._take(self._next.kind).kind)
            return Test(name, position, operator, *self._values(1))
        if self._took("is"):
            no = self._took("not")
            self._take("null")
            found = Test(name, position, "is null")
            return Not(found) if no else found
        no = self._took("not")
        test = self._membership(name, position)
        if test is None and no:
            self._refuse("wanted 'in', 'between', 'like' or 'contains'")
        if test is None:
            return Test(name, position, "is true")
        return Not(test) if no else test

    def _membership(self, name: str, position: int) -> Condition | None:
        if self._took("in"):
            self._take("(")
            values = self._values()
            self._take(")")
            return Test(name, position, "in", *values)
        if self._took("between"):
            least = Test(name, position, ">=", *self._values(1))
            self._take("and")
            return Junction("and", (least, Test(name, position, "<=", *self._values(1))))
        if self._took("like"):
            if self._next.kind != "string":
                self._refuse("wanted a string in single quotes")
            return Test(name, position, "like", *self._values(1))
        if self._took("contains"):
            return Test(name, position, "contains", *self._values(1))
        return None

    def _values(self, most: int = MAX_CHARACTERS) -> tuple[tuple[Value, ...], tuple[int, ...]]:
        """Values with commas between them, and where each stands."""
        values, positions = [], []
        while True:
            positions.append(self._next.position)
            values.append(self._value())
            if len(values) == most or not self._took(","):
                return tuple(values), tuple(positions)

    def _value(self) -> Value:
        kind, text, _ = self._next
        match kind:
            case "string":
                value: Value = text[1:-1].replace("''", "'")
            case "number":
                value = _number(text)
            case "true" | "false":
                value = kind == "true"
            case "null":
                self._refuse("nothing equals null: write 'is null' or 'is not null'")
            case "word" | "quoted":
                self._refuse("wanted a value; a string stands in single quotes")
            case _:
                self._refuse("wanted a value")
        self._at += 1
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _took(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def _take(self, kind: str) -> Token:
        token = self._next
        if not self._took(kind):
            self._refuse(f"wanted {kind!r}")
        return token

    def _refuse(self, wanted: str) -> NoReturn:
        token = self._next
        got = "the end" if token.kind == "end" else repr(token.text)
        raise InvalidCondition(f"where: {wanted}, got {got}", self._condition, token.position)


def _number(text: str) -> int | float:
    """A whole number of 64 bits as one, any other as floating point."""
    if text.lstrip("+-").isdigit() and len(text) <= MAX_DIGITS and LEAST <= int(text) <= MOST:
        return int(text)
    return float(text)


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
