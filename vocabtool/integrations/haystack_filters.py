"""Filters of Haystack as conditions on fields, with Haystack's meaning.

A field that is missing is ``None``: it differs from every value, and is neither less nor greater
than any. Texts that are dates are compared as points in time; a time without offset is in UTC.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final, NoReturn

from haystack.errors import FilterError

from vocabtool.documents.batch import Kind
from vocabtool.integrations.filters import (
    ALWAYS,
    NEVER,
    Operator,
    comparison,
    joined,
    negated,
    quoted_field,
)

META: Final = "meta."
EXACT: Final = "_metadata"  # the field with ``meta`` as JSON, as for LangChain
RECORD: Final = "_haystack"  # the field with the rest of what other fields do not keep
RENAMED: Final = "metadata."  # before keys of ``meta`` that are fields of every index
OWN: Final = {"id": "id", "content": "text"}  # fields of a document, as an index calls them
NOT_KEPT: Final = ("blob", "score", "embedding", "sparse_embedding", "meta")
RESERVED: Final = ("id", "text", EXACT, RECORD)
EQUAL: Final[dict[str, Operator]] = {"==": "=", "!=": "="}
ORDERED: Final[dict[str, Operator]] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
LISTS: Final = ("in", "not in")
OPERATORS: Final = (*EQUAL, *ORDERED, *LISTS)
JUNCTIONS: Final = ("AND", "OR", "NOT")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ].*)?")
MAX_DEPTH: Final = 10  # nested filters; a condition has about twice as many parentheses


def column_of(name: str) -> str:
    """Return the field for a key of ``meta``. An index has an id and a text of its own."""
    return RENAMED + name if name in RESERVED else name


def condition(filters: Mapping[str, Any] | None, fields: Mapping[str, Kind]) -> str | None:
    """Return filters as a condition; ``None`` for no filters.

    ``fields``: the fields of the index. Raises ``FilterError``, and :class:`InvalidCondition` for
    values that no condition has.
    """
    return _condition(filters, fields, 0) if filters else None


def _condition(asked: Any, fields: Mapping[str, Kind], depth: int) -> str:
    if not isinstance(asked, Mapping):
        _refuse("wanted a dictionary", asked)
    if depth > MAX_DEPTH:
        _refuse(f"more than {MAX_DEPTH} nested filters", asked)
    for name in ("operator", "value") if "field" in asked else ("operator", "conditions"):
        if name not in asked:
            _refuse(f"no {name!r}", asked)
    if "field" in asked:
        return _comparison(asked, fields)
    word, conditions = asked["operator"], asked["conditions"]
    if word not in JUNCTIONS:
        _refuse(f"the operator must be one of {', '.join(JUNCTIONS)}, got {word!r}", asked)
    if not isinstance(conditions, list):
        _refuse("'conditions' must be a list", asked)
    parts = [_condition(each, fields, depth + 1) for each in conditions]
    if word == "OR":
        return joined("or", parts or [NEVER])
    every = joined("and", parts or [ALWAYS])
    return negated(every) if word == "NOT" else every


def _comparison(asked: Mapping[str, Any], fields: Mapping[str, Kind]) -> str:
    field, operator, value = asked["field"], asked["operator"], asked["value"]
    if operator not in OPERATORS:
        _refuse(f"the operator must be one of {', '.join(OPERATORS)}, got {operator!r}", asked)
    if not isinstance(field, str) or field in NOT_KEPT:
        _refuse(f"no filter can ask for the field {field!r}: use 'id', 'content', 'meta.…'", asked)
    if operator in LISTS and not isinstance(value, list):
        _refuse(f"{operator!r} needs a list", asked)
    moment = _moment(value)
    if operator in ORDERED and moment is None and isinstance(value, str | list | dict):
        _refuse(f"{operator!r} compares numbers and dates in ISO 8601", asked)
    name = OWN.get(field) or column_of(field.removeprefix(META))
    if name not in fields and field not in OWN:
        is_none = value is None if operator in EQUAL else operator in LISTS and None in value
        found = ALWAYS if is_none else NEVER
    elif operator in ORDERED:
        tested = f"{quoted_field(name)} {operator} {moment}"
        if moment is None:
            tested = NEVER if value is None else comparison(name, ORDERED[operator], value)
        found = joined("and", [comparison(name, "is not null"), tested])
    else:
        values = value if operator in LISTS else [value]
        found = joined("or", [_equals(field, name, each) for each in values] or [NEVER])
    return negated(found) if operator in ("!=", "not in") else found


def _equals(field: str, name: str, value: object) -> str:
    """Test for a value so that the result is never null, because ``not`` would keep that."""
    if value is None:
        return comparison(name, "=", "" if field == "content" else None)
    tests = [comparison(name, "=", value)] if not isinstance(value, date) else []
    if (moment := _moment(value)) is not None:
        tests.append(f"{quoted_field(name)} = {moment}")
    return joined("and", [comparison(name, "is not null"), joined("or", tests)])


def _moment(value: object) -> str | None:
    """Return a date or time as a condition writes it, to the microsecond; ``None`` for others."""
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


def _refuse(what: str, asked: object) -> NoReturn:
    raise FilterError(f"filters: {what}: {reprlib.repr(asked)}")
