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
condition means for the rows of an index is in ``filters.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, cast

from vocabtool.errors import InvalidCondition
from vocabtool.index.document_fields import LEAST, MOST

LONGEST: Final = 10_000  # characters of a condition
MOST_DIGITS: Final = 20  # of a whole number of 64 bits, with its sign
DEEPEST: Final = 50  # parentheses and "not" inside each other

Value: TypeAlias = str | int | float | bool
Operator = Literal["=", "!=", "<", "<=", ">", ">="]

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


class Name(NamedTuple):
    """A field as it is named, and where."""

    name: str
    position: int


class Literals(NamedTuple):
    """Values as they are written, and where each stands."""

    values: tuple[Value, ...]
    positions: tuple[int, ...]


class Compared(NamedTuple):
    """``field operator value``"""

    field: Name
    operator: Operator
    value: Literals


class Among(NamedTuple):
    """``field in (values)``"""

    field: Name
    values: Literals


class Like(NamedTuple):
    """``field like pattern``: ``%`` stands for any characters, ``_`` for one."""

    field: Name
    pattern: Literals


class Contains(NamedTuple):
    """``field contains part``: of a list an element, of a text any characters in it."""

    field: Name
    part: Literals


class Missing(NamedTuple):
    """``field is null``"""

    field: Name


class Holds(NamedTuple):
    """``field``, which is true or false"""

    field: Name


class Not(NamedTuple):
    """``not condition``"""

    condition: Condition


class AllOf(NamedTuple):
    """``condition and condition ...``"""

    conditions: tuple[Condition, ...]


class AnyOf(NamedTuple):
    """``condition or condition ...``"""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Compared | Among | Like | Contains | Missing | Holds | Not | AllOf | AnyOf


class Token(NamedTuple):
    """``kind``: a key word or sign is of its own kind, the end is of the kind ``end``."""

    kind: str
    text: str
    position: int


def parse(condition: str) -> Condition:
    """The tree of a condition. Raises :class:`InvalidCondition`, which shows the place."""
    if len(condition) > LONGEST:
        what = f"where: a condition of {len(condition):,} characters, wanted at most {LONGEST:,}"
        raise InvalidCondition(what, condition, LONGEST)
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
        parts = [self._all(depth)]
        while self._took("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def end(self) -> None:
        if self._next.kind != "end":
            self._refuse("wanted 'and', 'or' or the end")

    def _all(self, depth: int) -> Condition:
        parts = [self._one(depth)]
        while self._took("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self, depth: int) -> Condition:
        if depth > DEEPEST:
            self._refuse(f"more than {DEEPEST} conditions inside each other")
        if self._took("not"):
            return Not(self._one(depth + 1))
        if self._took("("):
            inner = self.condition(depth + 1)
            self._take(")")
            return inner
        return self._test(self._field())

    def _field(self) -> Name:
        kind, text, position = self._next
        if kind not in ("word", "quoted"):
            self._refuse("wanted the name of a field")
        self._at += 1
        name = text if kind == "word" else text[1:-1].replace('""', '"')
        return Name(name, position)

    def _test(self, field: Name) -> Condition:
        operators = ("=", "!=", "<", "<=", ">", ">=")
        if self._next.kind in operators:
            operator = cast(Operator, self._take(self._next.kind).kind)
            return Compared(field, operator, self._value())
        if self._took("is"):
            no = self._took("not")
            self._take("null")
            return Not(Missing(field)) if no else Missing(field)
        if self._took("not"):
            found = self._membership(field)
            if found is None:
                self._refuse("wanted 'in', 'between', 'like' or 'contains'")
            return Not(found)
        return self._membership(field) or Holds(field)

    def _membership(self, field: Name) -> Condition | None:
        if self._took("in"):
            return Among(field, self._values())
        if self._took("between"):
            least = self._value()
            self._take("and")
            return AllOf((Compared(field, ">=", least), Compared(field, "<=", self._value())))
        if self._took("like"):
            return Like(field, self._string())
        if self._took("contains"):
            return Contains(field, self._value())
        return None

    def _values(self) -> Literals:
        self._take("(")
        found = [self._value()]
        while self._took(","):
            found.append(self._value())
        self._take(")")
        values, positions = zip(
            *((each.values[0], each.positions[0]) for each in found), strict=True
        )
        return Literals(values, positions)

    def _string(self) -> Literals:
        if self._next.kind != "string":
            self._refuse("wanted a string in single quotes")
        return self._value()

    def _value(self) -> Literals:
        kind, text, position = self._next
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
        return Literals((value,), (position,))

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
    if text.lstrip("+-").isdigit() and len(text) <= MOST_DIGITS and LEAST <= int(text) <= MOST:
        return int(text)
    return float(text)
