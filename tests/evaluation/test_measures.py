"""Measures without a relevant document, intervals against the normal law.

``test_eval.py`` compares all measures with those of ir-measures.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vocabtool.evaluation.evaluate import Interval, intervals, ndcg, recall, reciprocal_rank


@pytest.mark.parametrize("judged", [{}, {"a": 0}, {"a": -1}])
def test_without_a_relevant_document(judged: dict[str, int]) -> None:
    """Nothing is divided by nothing, nor by less."""
    assert [measure(["a"], judged) for measure in (ndcg, recall, reciprocal_rank)] == [0, 0, 0]


def test_intervals() -> None:
    """By their seed, for equal columns the same, as the normal law says; of one query its value."""
    column = np.random.default_rng(3).normal(0.1, 0.3, 200)
    first, second = intervals(np.stack([column, column], axis=1), seed=7)
    assert first == second
    assert [first, second] == intervals(np.stack([column, column], axis=1), seed=7)
    assert first != intervals(column[:, None], seed=8)[0]
    mean, half = column.mean(), 1.96 * column.std() / math.sqrt(200)
    expected = (mean, mean - half, mean + half)
    assert (first.mean, first.low, first.high) == pytest.approx(expected, abs=0.004)
    assert intervals(np.array([[0.5]])) == [Interval(0.5, 0.5, 0.5)]
