"""Measures against trec_eval, intervals against the normal law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.evaluation.evaluate import Interval, intervals, ndcg, recall, reciprocal_rank

DOCUMENTS = [f"d{number}" for number in range(30)]

rankings = st.lists(st.sampled_from(DOCUMENTS), unique=True, min_size=1, max_size=30)
# From -1: only -2, which trec_eval reserves for documents outside its pool, crashes its process.
judgements = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 4), min_size=1)


def trec_eval(ranked: list[str], judged: dict[str, int]) -> dict[str, float]:
    """What trec_eval says of one query."""
    import pytrec_eval

    measures = {"ndcg_cut.10,3", "recall.5,100", "recip_rank"}
    run = {document: float(-rank) for rank, document in enumerate(ranked)}
    evaluated = pytrec_eval.RelevanceEvaluator({"q": judged}, measures).evaluate({"q": run})
    return dict(evaluated["q"])


@given(rankings, judgements)
def test_every_measure_is_what_trec_eval_computes(
    ranked: list[str], judged: dict[str, int]
) -> None:
    """Whatever is ranked and judged, negatively too, each figure equals trec_eval's."""
    found = {
        "ndcg_cut_10": ndcg(ranked, judged),
        "ndcg_cut_3": ndcg(ranked, judged, 3),
        "recall_100": recall(ranked, judged),
        "recall_5": recall(ranked, judged, 5),
        "recip_rank": reciprocal_rank(ranked, judged),
    }
    assert found == pytest.approx(trec_eval(ranked, judged), abs=1e-6)


def test_measures_by_hand() -> None:
    """A depth, and 0 without a relevant document: no division by nothing."""
    assert reciprocal_rank(["a", "b", "c"], {"c": 1}, 2) == 0
    nothing: list[dict[str, int]] = [{}, {"a": 0}, {"a": -1}, {"a": -2}]
    for judged in nothing:
        for measure in (ndcg, recall, reciprocal_rank):
            assert measure(["a"], judged) == measure([], {"a": 1}) == 0


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
