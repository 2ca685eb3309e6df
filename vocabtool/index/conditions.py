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
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, cast, get_args

from vocabtool.errors import InvalidCondition
from vocabtool.index.fields import LEAST, MOST

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
