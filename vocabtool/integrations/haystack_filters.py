"""Convert filters of Haystack to conditions with the same meaning.

A missing field equals ``None`` and no other value. Comparisons such as ``<`` are false if the field
is missing. Dates in strings are compared as points in time. A time without an offset is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any, Final

from haystack.errors import FilterError

from vocabtool.documents.batch import Kind
from vocabtool.errors import InvalidCondition
from vocabtool.integrations.filters import (
    ALWAYS,
    NEVER,
    Operator,
    check_depth,
    check_operator,
    comparison,
    join,
    negate,
    quote_field,
    refuse,
)
from vocabtool.integrations.metadata import field_of

META: Final = "meta."
OWN: Final = {"id": "id", "content": "text"}  # fields of a document, as an index calls them
NOT_KEPT: Final = ("blob", "score", "embedding", "sparse_embedding", "meta")
EQUAL: Final[dict[str, Operator]] = {"==": "=", "!=": "="}
ORDERED: Final[dict[str, Operator]] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
LISTS: Final = ("in", "not in")
OPERATORS: Final = (*EQUAL, *ORDERED, *LISTS)
JUNCTIONS: Final = ("AND", "OR", "NOT")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ].*)?")
MAX_DEPTH: Final = 10  # nested filters; a condition has about twice as many parentheses


@contextmanager
def filter_errors() -> Iterator[None]:
    """Turn an :class:`InvalidCondition` of the ``with`` block into a ``FilterError``."""
    try:
        yield
    except InvalidCondition as error:
        raise FilterError(str(error)) from error


def condition(filters: Mapping[str, Any] | None, fields: Mapping[str, Kind]) -> str | None:
    """Return filters as a condition, or ``None`` if there are no filters.

    ``fields``: the fields of the index. Raises :class:`InvalidCondition` for an invalid filter.
    """
    return _condition(filters, fields, 0) if filters else None


def _condition(asked: Any, fields: Mapping[str, Kind], depth: int) -> str:
    if not isinstance(asked, Mapping):
        refuse("wanted a dictionary", asked)
    check_depth(depth, asked, MAX_DEPTH)
    for name in ("operator", "value") if "field" in asked else ("operator", "conditions"):
        if name not in asked:
            refuse(f"no {name!r}", asked)
    if "field" in asked:
        return _comparison(asked, fields)
    word, conditions = asked["operator"], asked["conditions"]
    check_operator(word, JUNCTIONS, asked)
    if not isinstance(conditions, list):
        refuse("'conditions' needs a list of filters", asked)
    parts = [_condition(each, fields, depth + 1) for each in conditions]
    if word == "OR":
        return join("or", parts or [NEVER])
    every = join("and", parts or [ALWAYS])
    return negate(every) if word == "NOT" else every


def _comparison(asked: Mapping[str, Any], fields: Mapping[str, Kind]) -> str:
    field, operator, value = asked["field"], asked["operator"], asked["value"]
    check_operator(operator, OPERATORS, asked)
    if not isinstance(field, str) or field in NOT_KEPT:
        refuse(f"no filter can ask for the field {field!r}: use 'id', 'content', 'meta.…'", asked)
    if operator in LISTS and not isinstance(value, list):
        refuse(f"{operator!r} of the field {field!r} needs a list of values", asked)
    moment = _moment(value)
    if operator in ORDERED and moment is None and isinstance(value, str | list | dict):
        refuse(f"{operator!r} compares numbers and dates in ISO 8601", asked)
    name = OWN.get(field) or field_of(field.removeprefix(META))
    if name not in fields and field not in OWN:
        is_none = value is None if operator in EQUAL else operator in LISTS and None in value
        found = ALWAYS if is_none else NEVER
    elif operator in ORDERED:
        tested = f"{quote_field(name)} {operator} {moment}"
        if moment is None:
            tested = NEVER if value is None else comparison(name, ORDERED[operator], value)
        found = join("and", [comparison(name, "is not null"), tested])
    else:
        values = value if operator in LISTS else [value]
        found = join("or", [_equals(field, name, each) for each in values] or [NEVER])
    return negate(found) if operator in ("!=", "not in") else found


def _equals(field: str, name: str, value: object) -> str:
    """Return the condition that a field equals a value.

    - ``field``: the name of the field in Haystack.
    - ``name``: the name of the field in the index.
    """
    if value is None:
        return comparison(name, "=", "" if field == "content" else None)
    tests = [comparison(name, "=", value)] if not isinstance(value, date) else []
    if (moment := _moment(value)) is not None:
        tests.append(f"{quote_field(name)} = {moment}")
    return join("and", [comparison(name, "is not null"), join("or", tests)])


def _moment(value: object) -> str | None:
    """Return a date or time in the syntax of conditions, or ``None`` if ``value`` is neither."""
    if type(value) is date:
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, str) and DATE.fullmatch(value):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    try:
        value = value if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        return None
    return value.isoformat(timespec="microseconds")
