"""Conditions written for the filters of frameworks: each value comes back from the parser."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.integrations.shared import comparison, quote_value
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
    found = parse(comparison("tags", "in", values))
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
