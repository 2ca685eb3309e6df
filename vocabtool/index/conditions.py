"""Conditions on fields: parse them, translate them to SQL, and find the rows that satisfy them.

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | FIELD [ test ]
    test       = ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) value
               | "is" [ "not" ] "null"
               | [ "not" ] ( "in" "(" value { "," value } ")" | "between" value "and" value
                           | "like" STRING | "contains" value )
    value      = STRING | NUMBER | "true" | "false"

A field without a test must be true. Strings are in single quotes, field names that are not plain
words in double quotes; a quote inside them is doubled. Keywords are case-insensitive.

As in SQL, a comparison with null is neither true nor false, ``not`` does not change that, and only
rows for which the whole condition is true satisfy it (ISO/IEC 9075-2, 8.1 and 6.39). Strings are
compared by their UTF-8 bytes. Values are passed as SQL parameters, and columns are named by number,
so no user input becomes part of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, assert_never, cast, get_args

import numpy as np

from vocabtool.documents.batch import Kind, names_of
from vocabtool.errors import InvalidCondition
from vocabtool.index.database import Database, Documents, Fields, column
from vocabtool.index.documents import ID, LEAST, MOST, NUMBER, PLAIN, TEXT
from vocabtool.system.ranking import Mask

MAX_CHARACTERS: Final = 10_000  # characters of a condition
MAX_DIGITS: Final = 20  # of a 64-bit integer, with its sign
MAX_DEPTH: Final = 20  # nested parentheses and "not": SQLite's parser has a limit
HINTS: Final[dict[Kind, str]] = {
    "integer": ": write the value without quotes",
    "number": ": write the value without quotes",
    "string": ": write the value in single quotes",
}
NO_NUMBERS: Final = (
    "text, because some document has a value that is not a number: compare it with a value in "
    "single quotes"
)
LISTS: Final = (
    "SELECT DISTINCT {0} FROM fields WHERE row < {1} AND {0} GLOB '*[[]*' AND json_valid({0})"
    " AND json_type({0}) = 'array'"
)
ELEMENT: Final = "SELECT 1 FROM json_each({0}) WHERE atom = ? AND type IN ({1})"

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
    """A test of one field by an operator and values, with their positions in the condition.

    ``contains``: a list contains the value as an element, or a text contains it as a substring.
    ``like``: ``%`` stands for any number of characters, ``_`` for one. ``is true``: the condition
    consists of the field alone, which must be true.
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
    """Several conditions joined by ``and`` or by ``or``."""

    word: Literal["and", "or"]
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Test | Not | Junction


class Token(NamedTuple):
    """A token of a condition. The ``kind`` of a keyword or sign is its own text in lower case."""

    kind: str
    text: str
    position: int


def rows_where(database: Database, rows: int, fields: Fields, condition: str) -> Mask:
    """Return the rows of a commit that satisfy a condition, as a read-only mask of shape (rows,).

    Raises :class:`InvalidCondition`, with the position, for invalid syntax, an unknown field, or a
    value of the wrong type.
    """
    statement = _Statement(database, rows, fields, condition)
    where = statement.of(parse(condition))
    found = database.fetch_rows(f"SELECT row FROM fields WHERE {where}", statement.values)
    mask = np.zeros(rows, np.bool_)
    mask[found[found < rows]] = True
    mask.flags.writeable = False
    return mask


def parse(condition: str) -> Condition:
    """Parse a condition. Raise :class:`InvalidCondition`, with the position, if it is invalid."""
    if len(condition) > MAX_CHARACTERS:
        what = f"where: the condition has {len(condition):,} characters, the limit is "
        what += f"{MAX_CHARACTERS:,}"
        raise InvalidCondition(what, condition, MAX_CHARACTERS)
    try:
        condition.encode()
    except UnicodeEncodeError as error:
        raise InvalidCondition("where: not valid UTF-8", condition, error.start) from error
    return _Parser(condition).whole()


def _tokens(condition: str) -> list[Token]:
    tokens, position, end = [], 0, len(condition.rstrip())
    while position < end:
        match = TOKEN.match(condition, position)
        if match is None:
            at = end - len(condition[position:end].lstrip())
            what = f"unexpected character {condition[at]!r}"
            if condition[at] in "'\"":
                what = f"missing closing {condition[at]}"
            raise InvalidCondition(f"where: {what}", condition, at)
        kind = cast(str, match.lastgroup)
        text = match[kind]
        word = text.lower() if kind == "word" else SPELLINGS.get(text, text)
        own = kind == "sign" or (kind == "word" and word in KEYWORDS)
        tokens.append(Token(word if own else kind, text, match.start(kind)))
        position = match.end()
    return [*tokens, Token("end", "", end)]


class _Parser:
    """A recursive-descent parser of one condition."""

    def __init__(self, condition: str) -> None:
        self._condition = condition
        self._tokens = _tokens(condition)
        self._at = 0

    def whole(self) -> Condition:
        found = self._condition_at(0)
        if self._next.kind != "end":
            self._refuse("expected 'and', 'or' or the end")
        return found

    def _condition_at(self, depth: int) -> Condition:
        return self._junction("or", lambda: self._junction("and", lambda: self._one(depth)))

    def _junction(self, word: Literal["and", "or"], part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._accept(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} nested conditions")
        if self._accept("not"):
            return Not(self._one(depth + 1))
        if self._accept("("):
            inner = self._condition_at(depth + 1)
            self._expect(")")
            return inner
        return self._test()

    def _test(self) -> Condition:
        kind, text, position = self._next
        if kind not in ("word", "quoted"):
            self._refuse("expected the name of a field")
        self._at += 1
        name = text if kind == "word" else text[1:-1].replace('""', '"')
        if self._next.kind in get_args(Comparison):
            operator = cast(Comparison, self._expect(self._next.kind).kind)
            return Test(name, position, operator, *self._values(1))
        if self._accept("is"):
            no = self._accept("not")
            self._expect("null")
            found = Test(name, position, "is null")
            return Not(found) if no else found
        no = self._accept("not")
        if self._accept("in"):
            self._expect("(")
            test: Condition = Test(name, position, "in", *self._values())
            self._expect(")")
        elif self._accept("between"):
            least = Test(name, position, ">=", *self._values(1))
            self._expect("and")
            test = Junction("and", (least, Test(name, position, "<=", *self._values(1))))
        elif self._accept("like"):
            if self._next.kind != "string":
                self._refuse("expected a string in single quotes")
            test = Test(name, position, "like", *self._values(1))
        elif self._accept("contains"):
            test = Test(name, position, "contains", *self._values(1))
        elif no:
            self._refuse("expected 'in', 'between', 'like' or 'contains'")
        else:
            test = Test(name, position, "is true")
        return Not(test) if no else test

    def _values(self, most: int = MAX_CHARACTERS) -> tuple[tuple[Value, ...], tuple[int, ...]]:
        """Parse up to ``most`` values between commas; return them and their positions."""
        values, positions = [], []
        while True:
            positions.append(self._next.position)
            values.append(self._value())
            if len(values) == most or not self._accept(","):
                return tuple(values), tuple(positions)

    def _value(self) -> Value:
        kind, text, _ = self._next
        match kind:
            case "string":
                value: Value = text[1:-1].replace("''", "'")
            case "number":
                is_whole = text.lstrip("+-").isdigit() and len(text) <= MAX_DIGITS
                is_whole = is_whole and LEAST <= int(text) <= MOST
                value = int(text) if is_whole else float(text)
            case "true" | "false":
                value = kind == "true"
            case "null":
                self._refuse("no value equals null: write 'is null' or 'is not null'")
            case "word" | "quoted":
                self._refuse("expected a value; write strings in single quotes")
            case _:
                self._refuse("expected a value")
        self._at += 1
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _accept(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def _expect(self, kind: str) -> Token:
        token = self._next
        if not self._accept(kind):
            self._refuse(f"expected {kind!r}")
        return token

    def _refuse(self, wanted: str) -> NoReturn:
        token = self._next
        got = "the end" if token.kind == "end" else repr(token.text)
        raise InvalidCondition(f"where: {wanted}, got {got}", self._condition, token.position)


class _Statement:
    """Translates a condition to SQL for ``WHERE``. ``values``: the SQL parameters, in order."""

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
        if asked.operator == "contains":
            return self._contains(asked, kind, name)
        self._check(asked, kind, name)
        self.values += asked.values
        if asked.operator == "in":
            return f"{name} IN ({', '.join('?' * len(asked.values))})"
        return f"{name} {asked.operator} ?"

    def _contains(self, asked: Test, kind: Kind, name: str) -> str:
        """Translate ``contains``, which tests for an element of a JSON list, or for a substring."""
        if kind != "string":
            what = f"contains {PLAIN[kind]}: 'contains' works only on strings and lists"
            self._refuse(f"the field {asked.field!r} {what}", asked.position)
        lists = LISTS.format(name, self._rows)
        if asked.field in (ID, TEXT) or not self._database.fetch(f"{lists} LIMIT 1"):
            self._check(asked, kind, name)
            self.values += asked.values
            return f"instr({name}, ?) > 0"
        (value,) = asked.values
        self.values.append(value)
        types, otherwise = "'integer', 'real'", "0"
        if isinstance(value, bool):
            types = f"'{str(value).lower()}'"
        elif isinstance(value, str):
            types, otherwise = "'text'", f"instr({name}, ?) > 0"
            self.values.append(value)
        element = ELEMENT.format("list", types)
        having = f"SELECT list FROM (SELECT {name} AS list FROM ({lists})) WHERE EXISTS ({element})"
        return (
            f"CASE WHEN {name} IS NULL THEN NULL WHEN {name} IN ({having}) THEN 1"
            f" WHEN {name} IN ({lists}) THEN 0 ELSE {otherwise} END"
        )

    def _check(self, asked: Test, kind: Kind, name: str) -> None:
        """Refuse values whose type is not the type of the field."""
        numbers = kind in ("integer", "number")
        for value, position in zip(asked.values, asked.positions, strict=True):
            is_text = isinstance(value, str)
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
        """Return text for an error message: the first value that is no number; "" without one."""
        table = "documents" if asked.field in (ID, TEXT) else "fields"
        statement = f"SELECT row, {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY row"
        with self._database.statements() as connection:
            found = connection.execute(statement)
            first = next((each for each in found if not re.fullmatch(NUMBER, each[1])), None)
        if first is None:
            return ""
        (id_,) = Documents(self._database, {}).ids(np.array(first[:1]))
        return f": document {id_!r} has {first[1][:50]!r}"

    def _refuse(self, what: str, position: int) -> NoReturn:
        raise InvalidCondition(f"where: {what}", self._condition, position)


def _join_balanced(parts: list[str], word: str) -> str:
    """Join SQL conditions by ``word``, as a balanced tree: SQLite limits how deeply they nest."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({_join_balanced(parts[:half], word)} {word} {_join_balanced(parts[half:], word)})"
