"""The grammar of conditions on fields, and the tree that a condition is parsed into.

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | FIELD [ test ]
    test       = ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) value
               | "is" [ "not" ] "null"
               | [ "not" ] ( "in" "(" value { "," value } ")" | "between" value "and" value
                           | ( "like" | "ilike" | "startswith" | "has" "word" ) STRING
                           | ( "contains" | "has" ) value
                           | "has" "any" "(" value { "," value } ")" )
    value      = STRING | NUMBER | DATE | "true" | "false"

- A FIELD without a test is satisfied if its value is true.
- Strings are in single quotes. Field names that are not plain words are in double quotes.
- A quote inside quotes is doubled.
- Keywords are case-insensitive.
- A DATE stands for a whole month, day, minute or second. For example, ``2024-01`` is a month and
  ``2024-01-31T10:30Z`` is a minute.
- Dates have the extended form of ISO 8601. A time without offset is in UTC.
- In a field of a document, a year alone is also a date, and a blank may replace the ``T``.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, time
from functools import lru_cache
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, cast, get_args

from vocabtool.errors import InvalidCondition

LEAST: Final = -(1 << 63)  # whole numbers of 64 bits; others become floating point
MOST: Final = (1 << 63) - 1
MAX_CHARACTERS: Final = 10_000  # characters of a condition
KEPT: Final = 128  # parsed conditions, of at most MAX_CHARACTERS each
MAX_DIGITS: Final = 310  # of the largest number in floating point, with its sign
MAX_DEPTH: Final = 20  # nested parentheses and "not": SQLite's parser has a limit
DAY: Final = 86_400_000_000  # microseconds
MOMENT: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(?:[Zz]|([-+])([0-9]{2})(?::?([0-9]{2}))?)?)?)?)?"
)

Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
OfStrings = Literal["like", "ilike", "startswith", "has word"]
Operator = Comparison | OfStrings | Literal["in", "contains", "has", "is null", "is true"]

SPELLINGS: Final = {"==": "=", "<>": "!="}
KEYWORDS: Final = frozenset(
    ("and", "or", "not", "in", "between", "is", "null", "like", "contains", "true", "false")
)
TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<date>[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[Tt][0-9:.]+(?:[Zz]|[-+][0-9:]+)?)?)?(?![\w.:+-]))
      | (?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w.]))
      | (?P<string>'(?:[^']|'')*'(?!'))
      | (?P<quoted>"(?:[^"]|"")+"(?!"))
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)


class Moment(NamedTuple):
    """A date's ``start`` and exclusive ``end``: microseconds since 1 January of year 1, in UTC."""

    start: int
    end: int

    @classmethod
    def of(cls, text: str) -> Moment:
        """Parse a date or time. Raises ``ValueError`` if the text is not a valid date or time."""
        match = MOMENT.fullmatch(text)
        if match is None:
            raise ValueError("not a date or time of ISO 8601")
        year, month, day, hour, minute, second, fraction, sign, *offset = match.groups()
        first = date(int(year), int(month or 1), int(day or 1))
        start = (first.toordinal() - 1) * DAY
        if hour is None:
            of_month, of_year = monthrange(first.year, first.month)[1], 365 + isleap(first.year)
            return cls(start, start + (1 if day else of_month if month else of_year) * DAY)
        clock = time(int(hour), int(minute), int(second or 0))
        ahead = time(int(offset[0] or 0), int(offset[1] or 0))
        east = -1 if sign == "-" else 1
        minutes = clock.hour * 60 + clock.minute - east * (ahead.hour * 60 + ahead.minute)
        start += (minutes * 60 + clock.second) * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
        width = 60_000_000 if second is None else 10 ** (6 - min(len(fraction or ""), 6))
        return cls(start, start + width)


Value: TypeAlias = str | int | float | bool | Moment


def is_exact(text: str) -> bool:
    """Return whether 64 bits hold the whole number ``text`` exactly, as int or floating point."""
    if len(text) > MAX_DIGITS:
        return False
    number = int(text)
    try:
        return LEAST <= number <= MOST or int(float(number)) == number
    except OverflowError:
        return False


@dataclass(frozen=True, slots=True)
class Test:
    """A test of one field.

    - ``position``: where the field begins in the condition, in characters.
    - ``positions``: where each value begins.

    What some operators test:

    - ``contains``: whether a list has the value as an element, or a text contains the value.
    - ``has``: whether a list has at least one of the values as an element.
    - ``has word``: whether a text contains the value as a whole word.
    - ``ilike``: the same as ``like``, but upper and lower case are equal.
    """

    field: str
    position: int
    operator: Operator
    values: tuple[Value, ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions joined by a word; ``not`` has a single condition."""

    word: Literal["and", "or", "not"]
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Test | Junction


@dataclass(frozen=True, slots=True)
class Where:
    """A parsed condition. Conditions with the same ``text`` are equal."""

    text: str
    tree: Condition = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> Where:
        """Parse a condition. Raises :class:`InvalidCondition`."""
        return cls(text, parse(text))


class Token(NamedTuple):
    """``kind``: a keyword in lower case (``and``), a sign (``<=``), or a type (``string``)."""

    kind: str
    text: str
    position: int


@lru_cache(KEPT)
def parse(condition: str) -> Condition:
    if len(condition) > MAX_CHARACTERS:
        what = f"where: the condition has {len(condition):,} characters, but the limit is "
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
    def __init__(self, condition: str) -> None:
        self._condition = condition
        self._tokens = _tokens(condition)
        self._at = 0

    def whole(self) -> Condition:
        condition = self._condition_at(0)
        if self._next.kind != "end":
            self._refuse("expected 'and', 'or' or the end")
        return condition

    def _condition_at(self, depth: int) -> Condition:
        return self._junction("or", lambda: self._junction("and", lambda: self._one(depth)))

    def _junction(self, word: Literal["and", "or"], part: Callable[[], Condition]) -> Condition:
        conditions = [part()]
        while self._accept(word):
            conditions.append(part())
        return conditions[0] if len(conditions) == 1 else Junction(word, tuple(conditions))

    def _one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} nested conditions")
        if self._accept("not"):
            return Junction("not", (self._one(depth + 1),))
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
            return self._test_of_values(name, position, operator, 1)
        if self._accept("is"):
            no = self._accept("not")
            self._expect("null")
            is_null = Test(name, position, "is null")
            return Junction("not", (is_null,)) if no else is_null
        no = self._accept("not")
        # "like" is a keyword; the others may be names of fields, too.
        operators = (
            operator
            for operator in get_args(OfStrings)
            if self._accept(operator) or self._accept_word(*operator.split())
        )
        of_strings: OfStrings | None = next(operators, None)
        if self._accept("in"):
            self._expect("(")
            test: Condition = self._test_of_values(name, position, "in")
            self._expect(")")
        elif self._accept("between"):
            least = self._test_of_values(name, position, ">=", 1)
            self._expect("and")
            most = self._test_of_values(name, position, "<=", 1)
            test = Junction("and", (least, most))
        elif of_strings is not None:
            if self._next.kind != "string":
                self._refuse("expected a string in single quotes")
            test = self._test_of_values(name, position, of_strings, 1)
        elif self._accept("contains"):
            test = self._test_of_values(name, position, "contains", 1)
        elif self._accept_word("has"):
            is_any = self._accept_word("any")
            if is_any:
                self._expect("(")
            most_values = MAX_CHARACTERS if is_any else 1
            test = self._test_of_values(name, position, "has", most_values)
            if is_any:
                self._expect(")")
        elif no:
            there = "'in', 'between', 'like', 'ilike', 'startswith', 'contains' or 'has'"
            self._refuse(f"expected {there}")
        else:
            test = Test(name, position, "is true")
        return Junction("not", (test,)) if no else test

    def _test_of_values(
        self, name: str, position: int, operator: Operator, most: int = MAX_CHARACTERS
    ) -> Test:
        values, positions = [], []
        while True:
            positions.append(self._next.position)
            values.append(self._value())
            if len(values) == most or not self._accept(","):
                return Test(name, position, operator, tuple(values), tuple(positions))

    def _value(self) -> Value:
        kind, text, _ = self._next
        match kind:
            case "string":
                value: Value = text[1:-1].replace("''", "'")
            case "number":
                is_whole = text.lstrip("+-").isdigit() and len(text) <= MAX_DIGITS
                is_whole = is_whole and LEAST <= int(text) <= MOST
                value = int(text) if is_whole else float(text)
            case "date":
                try:
                    value = Moment.of(text)
                except ValueError as error:
                    self._refuse(f"expected a date or time of ISO 8601 ({error})")
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

    def _accept_word(self, *words: str) -> bool:
        """Skip ``words`` if they come next; return whether they do."""
        following = self._tokens[self._at : self._at + len(words)]
        if tuple(token.text.lower() for token in following if token.kind == "word") != words:
            return False
        self._at += len(words)
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
