"""Conditions written for the filters of frameworks: each value comes back from the parser."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.small_indexes import add, made
from vocabtool.errors import InvalidCondition
from vocabtool.integrations.metadata import comparison, join, quote_value
from vocabtool.search import conditions
from vocabtool.search.conditions import Moment, parse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBERS = st.integers(1 - (1 << 63), (1 << 63) - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)
VALUES = TEXTS | NUMBERS | st.booleans()


@given(TEXTS.filter(bool), VALUES, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains"]))
def test_a_value_stays_a_value(field: str, value: Any, operator: Any) -> None:
    """Whatever a field is called and its value contains: no part of it is read as a condition."""
    found = parse(comparison(field, operator, value))
    assert isinstance(found, conditions.Test)
    assert (found.field, found.operator, found.values) == (field, operator, (value,))
    assert type(found.values[0]) is type(value)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_lists(values: list[Any]) -> None:
    both = comparison("tags", "in", values), comparison("tags", "has any", values)
    for found in map(parse, both):
        assert isinstance(found, conditions.Test)
        assert found.values == tuple(values)
    assert isinstance(parse(comparison("tags", "not in", values)), conditions.Not)


def test_dates() -> None:
    assert quote_value(date(2024, 3, 31)) == "2024-03-31"
    late = datetime(2024, 3, 31, 18, 0, 0, 120_000, UTC)
    found = parse(comparison("day", "<=", late))
    assert isinstance(found, conditions.Test)
    assert found.values == (Moment.of("2024-03-31T18:00:00.120000Z"),)
    assert quote_value(np.float32(0.5)) == "0.5"


def test_what_they_find(tmp_path: Path) -> None:
    """The same documents as Python finds."""
    index = made(tmp_path / "index")
    add(index, [{"id": "none", "text": "amber"}], [[1, 0, 0, 0]])
    numbers = {f"d{number}": number for number in range(10)} | {"none": None}
    for condition, wanted in (
        (comparison("n", "between", [3, 5]), ["d3", "d4", "d5"]),
        (comparison("n", "in", [3, None]), ["d3", "none"]),
        (comparison("n", "in", [None]), ["none"]),
        (comparison("n", "not in", [*range(8), None]), ["d8", "d9"]),
        (comparison("n", "in", []), []),
        (comparison("n", "not in", []), [*numbers]),
        (comparison("n", "=", None), ["none"]),
        (comparison("n", "!=", None), [*numbers][:-1]),
        (comparison("n", "is not null"), [*numbers][:-1]),
        (f"not {comparison('n', 'between', [1, 9])}", ["d0"]),
        (join("and", [comparison("n", "<", 4), f"not {join('or', ['n = 1', 'even'])}"]), ["d3"]),
    ):
        assert sorted(index.ids(condition)) == sorted(wanted), condition
    assert isinstance(parse(join("or", ["even", '"n" = 1'])), conditions.Junction)


@pytest.mark.parametrize(
    ("field", "operator", "value", "named"),
    [
        ("n", "=", [1], "[1]"),
        ("n", "=", float("nan"), "nan"),
        ("n", "=", 1 << 70, "64 bits"),
        ("n", "<", None, "None"),
        ("n", "between", [1], "two values"),
        ("n", "in", "text", "list"),
        ("n", "has any", [None], "None"),
        ("n", "near", 1, "near"),
        ("", "=", 1, "name of a field"),
    ],
)
def test_refused(field: str, operator: Any, value: object, named: str) -> None:
    with pytest.raises(InvalidCondition) as caught:
        comparison(field, operator, value)
    assert named in str(caught.value)


def test_nothing_to_join() -> None:
    with pytest.raises(InvalidCondition, match="'or'"):
        join("or", [])
