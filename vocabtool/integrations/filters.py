"""Convert the filters of frameworks to conditions on fields (see ``search/conditions.py``).

Conditions are strings, in which field names and strings are quoted. A comparison with a missing
field is unknown, as in SQL: neither the comparison nor its negation is true.
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
    """Return a condition that compares a field with a value.

    The operator determines what ``value`` must be:

    - ``in``, ``not in``, ``has any``: a list of values.
    - ``between``: a list with the least and the greatest value.
    - ``is null``, ``is not null``: ignored.
    - all other operators: a string, number, boolean or date.

    With ``=``, ``!=``, ``in`` and ``not in``, the value ``None`` stands for a missing field.

    Raises :class:`InvalidCondition` if a condition cannot have this operator or value.
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
    """Return a value in the syntax of conditions, or raise :class:`InvalidCondition`."""
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
    """Return the name of a field in the syntax of conditions."""
    if not isinstance(name, str) or not name:
        refuse("the name of a field must be a string that is not empty", name)
    return '"' + name.replace('"', '""') + '"'


def join(word: Literal["and", "or"], parts: Sequence[str]) -> str:
    """Join conditions. Raises :class:`InvalidCondition` if there are no conditions."""
    if not parts:
        refuse(f"{word!r} needs at least one condition", list(parts))
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"


def negate(condition: str) -> str:
    return f"not {condition}"


def check_operator(operator: object, there: Iterable[str], given: object) -> None:
    """Raise :class:`InvalidCondition` if the operator of a filter is not allowed.

    - ``there``: the allowed operators.
    - ``given``: the filter, for the message.
    """
    if operator not in (names := [*there]):
        refuse(f"the operator must be one of {', '.join(names)}, got {operator!r}", given)


def check_depth(depth: int, given: object, most: int = MAX_DEPTH) -> None:
    """Raise :class:`InvalidCondition` if a filter is nested too deeply.

    - ``given``: the filter, for the message.
    - ``most``: the maximum depth.
    """
    if depth > most:
        refuse(f"more than {most} nested filters", given)


def refuse_where(given: Iterable[str], instead: str) -> None:
    """Raise ``TypeError`` if the argument ``where`` was passed.

    - ``given``: the names of the passed arguments.
    - ``instead``: the argument to use, for the message.
    """
    if "where" in given:
        raise TypeError(f"where: pass the condition as {instead}")


def refuse(what: str, given: object) -> NoReturn:
    """Raise :class:`InvalidCondition` with a message. ``given``: the wrong part of a filter."""
    raise InvalidCondition(f"filter: {what}", reprlib.repr(given), 0)
