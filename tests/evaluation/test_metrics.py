"""Measures of rankings against trec_eval's own code, bootstrap intervals against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.evaluation.judgements import intervals, ndcg, recall, reciprocal_rank

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
    """Linear gains, depths, and 0 without a relevant document: no division by nothing."""
    got = ndcg(["one", "two"], {"one": 1, "two": 2})
    assert got == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert reciprocal_rank(["a", "b", "c"], {"c": 1}) == pytest.approx(1 / 3)
    assert reciprocal_rank(["a", "b", "c"], {"c": 1}, 2) == 0
    nothing: list[dict[str, int]] = [{}, {"a": 0}, {"a": -1}, {"a": -2}]
    for judged in nothing:
        for measure in (ndcg, recall, reciprocal_rank):
            assert measure(["a"], judged) == measure([], {"a": 1}) == 0


def test_intervals_are_those_of_scipys_percentile_bootstrap() -> None:
    """Another library's percentile bootstrap of the same differences gives the same bounds."""
    from scipy.stats import bootstrap

    differences = np.random.default_rng(3).normal(0.1, 0.3, 200)
    (ours,) = intervals(differences[:, None])
    theirs = bootstrap(
        (differences,), np.mean, n_resamples=10_000, method="percentile", random_state=1
    ).confidence_interval
    assert ours.mean == pytest.approx(differences.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.002)
    assert ours.high == pytest.approx(theirs.high, abs=0.002)


def test_intervals() -> None:
    """By their seed, for equal columns the same; drawn in parts; NaN without a query."""
    column = np.random.default_rng(0).normal(size=50)
    first = intervals(np.stack([column, column], axis=1), seed=7)
    assert first == intervals(np.stack([column, column], axis=1), seed=7)
    assert first[0] == first[1]
    assert first != intervals(np.stack([column, column], axis=1), seed=8)
    (found,) = intervals(np.arange(5_000_000, dtype=np.float64)[:, None] % 2, resamples=3)
    assert found.mean == 0.5
    assert (found.low, found.high) == pytest.approx((0.5, 0.5), abs=0.002)
    (only,) = intervals(np.empty((0, 1)))
    assert all(map(math.isnan, (only.mean, only.low, only.high)))
    for level in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            intervals(np.zeros((1, 1)), level=level)
    (flat,) = intervals(np.full((20, 1), 0.25))
    assert (flat.mean, flat.low, flat.high) == (0.25, 0.25, 0.25)
