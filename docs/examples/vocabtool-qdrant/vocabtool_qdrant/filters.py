"""Conditions of Qdrant: what may be found, and which of our conditions it compares as we do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from qdrant_client import models

from vocabtool.keywords.bm25 import Clause
from vocabtool.search.conditions import Condition as Tree
from vocabtool.search.conditions import Junction, Test

EXACT: Final = 1 << 52  # smaller whole numbers are exact in floating point, as Qdrant compares them
BOUNDS: Final = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}

Condition = models.Condition  # a filter, or a part of one


def has(name: str, *values: str | int) -> models.FieldCondition:
    """The value is one of these, or it is a list with one of them."""
    return models.FieldCondition(key=name, match=models.MatchAny(any=[*values]))  # type: ignore[arg-type]


def between(name: str, **bounds: float) -> models.FieldCondition:
    return models.FieldCondition(key=name, range=models.Range(**bounds))


def rows_in(rows: Sequence[int]) -> models.HasIdCondition:
    return models.HasIdCondition(has_id=[*rows])


def all_of(*parts: Condition, but: Sequence[Condition] = ()) -> models.Filter:
    """All parts, and none of ``but``. Filters within are joined: nested ones are slow."""
    must: list[Any] = []
    must_not: list[Any] = [*but]
    for each in parts:
        if isinstance(each, models.Filter) and each.should is None:
            must += each.must  # type: ignore[arg-type]
            must_not += each.must_not  # type: ignore[arg-type]
        else:
            must.append(each)
    return models.Filter(must=must, must_not=must_not)


def any_of(parts: Iterable[Condition]) -> Condition:
    conditions = [*parts]
    return models.Filter(should=conditions) if conditions else rows_in([])


def with_all(clauses: Iterable[Clause]) -> models.Filter:
    """The document has all terms of the clauses, in any order."""
    terms = dict.fromkeys(term for each in clauses for term in each.terms)
    return all_of(*(has(term.field, term.text) for term in terms))


def filter_of(
    asked: Tree, columns: Mapping[str, str], kinds: Mapping[str, str]
) -> Condition | None:
    """Return a condition on fields as a filter if Qdrant compares exactly, else ``None``."""
    if isinstance(asked, Junction):
        parts = [filter_of(each, columns, kinds) for each in asked.conditions]
        native = [each for each in parts if each is not None]
        joined = all_of(*native) if asked.word == "and" else any_of(native)
        return joined if len(native) == len(parts) else None
    if not isinstance(asked, Test) or asked.field not in columns:
        return None
    at, kind, sign = columns[asked.field], kinds[asked.field], asked.operator
    values: Sequence[Any] = (True,) if sign == "is true" else asked.values
    types = {type(each) for each in values}
    if sign in ("=", "in", "is true") and (kind, types) in (("string", {str}), ("boolean", {bool})):
        matches = (models.MatchValue(value=each) for each in values)
        return any_of(models.FieldCondition(key=at, match=each) for each in matches)
    is_exact = types <= {int, float} and all(abs(each) < EXACT for each in values)
    if kind not in ("integer", "number") or not is_exact:
        return None
    if sign in ("=", "in"):
        return any_of(between(at, gte=each, lte=each) for each in values)
    return between(at, **{BOUNDS[sign]: values[0]}) if sign in BOUNDS else None
