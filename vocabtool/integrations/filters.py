"""Write the filters of frameworks as conditions on fields (see ``search/conditions.py``).

Every function returns a text that may be a part of another condition. Fields and values are always
quoted, so that no value of a filter is read as part of the condition.

A comparison with a missing field is neither true nor false, and ``not`` does not change that.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final, Literal, NoReturn, get_args

from vocabtool.errors import InvalidCondition
from vocabtool.search.conditions import MAX_DEPTH

OfOne = Literal[
    "=", "!=", "<", "<=", ">", ">=", "like", "ilike", "startswith", "has word", "contains", "has"
]
OfMany = Literal["in", "not in", "has any", "between"]
Operator = OfOne | OfMany | Literal["is null", "is not null"]
MANY: Final = get_args(OfMany)
OPERATORS: Final = (*get_args(OfOne), *MANY, "is null", "is not null")
NEVER: Final = "id is null"  # every document has an id
ALWAYS: Final = "id is not null"


def comparison(field: str, operator: Operator, value: object = None) -> str:
    """Compare a field with a value.

    - ``value``: a string, number, boolean or date; for ``in``, ``not in`` and ``has any`` a list of
      them, for ``between`` the least and the greatest; for ``is null`` and ``is not null`` nothing.
      ``None`` is a missing field, for ``=``, ``!=``, ``in`` and ``not in``.

    Raises :class:`InvalidCondition` for a value or operator that no condition has.
    """
    name = quote_field(field)
    check_operator(operator, OPERATORS, field)
    if operator in ("is null", "is not null"):
        return f"{name} {operator}"
    if value is None and operator in ("=", "!="):
        return f"{name} is null" if operator == "=" else f"{name} is not null"
    if operator not in MANY:
        return f"{name} {operator} {quote_value(value)}"
    if not isinstance(value, list | tuple | set | frozenset):
        refuse(f"{operator!r} of the field {field!r} needs a list of values", value)
    if operator == "between":
        if len(value) != 2:
            refuse(f"'between' of the field {field!r} needs two values", value)
        return f"{name} between {' and '.join(map(quote_value, value))}"
    if not value:
        return ALWAYS if operator == "not in" else NEVER
    is_null = {"in": f"{name} is null", "not in": f"{name} is not null"}
    missing = operator in is_null and any(each is None for each in value)
    listed = [quote_value(each) for each in value if not (missing and each is None)]
    parts = [f"{name} {operator} ({', '.join(listed)})"] if listed else []
    if missing:
        parts.append(is_null[operator])
    return join("or" if operator == "in" else "and", parts)


def quote_value(value: object) -> str:
    """Return a value as a condition writes it. Raises :class:`InvalidCondition` for others."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", None) == 0:  # a number of NumPy
        value = item()
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = "'" + value.replace("'", "''") + "'"
        case int() if value.bit_length() < 64:
            text = str(int(value))
        case float() if math.isfinite(value):
            text = repr(float(value))
        case date():  # or a datetime
            text = value.isoformat()
        case _:
            wanted = "a string, a boolean, a date, a finite number or an integer of 64 bits"
            refuse(f"a value must be {wanted}", value)
    return text


def quote_field(name: object) -> str:
    """Return the name of a field as a condition writes it."""
    if not isinstance(name, str) or not name:
        refuse("the name of a field must be a string that is not empty", name)
    return '"' + name.replace('"', '""') + '"'


def join(word: Literal["and", "or"], parts: Sequence[str]) -> str:
    """Join conditions. Raises :class:`InvalidCondition` if there are none."""
    if not parts:
        refuse(f"{word!r} needs at least one condition", list(parts))
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"


def negate(condition: str) -> str:
    return f"not {condition}"


def check_operator(operator: object, there: Iterable[str], given: object) -> None:
    """Raise :class:`InvalidCondition` unless the operator is there."""
    if operator not in (names := [*there]):
        refuse(f"the operator must be one of {', '.join(names)}, got {operator!r}", given)


def check_depth(depth: int, given: object, most: int = MAX_DEPTH) -> None:
    """Raise :class:`InvalidCondition` if filters are nested too deep."""
    if depth > most:
        refuse(f"more than {most} nested filters", given)


def refuse_where(given: Iterable[str], instead: str) -> None:
    """Refuse the argument ``where`` of :meth:`vocabtool.Index.search`: filters are made of it."""
    if "where" in given:
        raise TypeError(f"where: write the condition as {instead}")


def refuse(what: str, given: object) -> NoReturn:
    """Raise the error for a part of a filter."""
    raise InvalidCondition(f"filter: {what}", reprlib.repr(given), 0)
