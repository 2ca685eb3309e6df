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
    found: dict[str, float] = evaluated["q"]
    return found


@given(rankings, judgements)
def test_every_measure_is_what_trec_eval_computes(
    ranked: list[str], judged: dict[str, int]
) -> None:
    """Whatever is ranked and judged, negatively too, each figure equals trec_eval's."""
    expected = trec_eval(ranked, judged)
    found = {
        "ndcg_cut_10": ndcg(ranked, judged),
        "ndcg_cut_3": ndcg(ranked, judged, 3),
        "recall_100": recall(ranked, judged),
        "recall_5": recall(ranked, judged, 5),
        "recip_rank": reciprocal_rank(ranked, judged),
    }
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_gain_is_the_judgement_itself() -> None:
    """Linear gains: a document judged 2 behind one judged 1 costs what the formula says."""
    got = ndcg(["one", "two"], {"one": 1, "two": 2})
    assert got == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))


@pytest.mark.parametrize("judged", [{}, {"a": 0}, {"a": -1}, {"a": -2}])
def test_without_a_relevant_document_every_measure_is_zero(judged: dict[str, int]) -> None:
    """Judged as not relevant only, or not judged at all: 0, no division by nothing."""
    for measure in (ndcg, recall, reciprocal_rank):
        assert measure(["a"], judged) == measure([], {"a": 1}) == 0


def test_reciprocal_rank_stops_at_its_depth() -> None:
    """A relevant document behind the depth does not count."""
    assert reciprocal_rank(["a", "b", "c"], {"c": 1}) == pytest.approx(1 / 3)
    assert reciprocal_rank(["a", "b", "c"], {"c": 1}, 2) == 0


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


def test_intervals_repeat_with_their_seed_and_share_resamples() -> None:
    """The same seed gives the same bits; equal columns have equal bounds."""
    column = np.random.default_rng(0).normal(size=50)
    first = intervals(np.stack([column, column], axis=1), seed=7)
    assert first == intervals(np.stack([column, column], axis=1), seed=7)
    assert first[0] == first[1]
    assert first != intervals(np.stack([column, column], axis=1), seed=8)


def test_intervals_of_many_queries_are_drawn_in_parts() -> None:
    """More queries than are drawn at a time: still one interval, narrow as it must be."""
    (found,) = intervals(np.arange(5_000_000, dtype=np.float64)[:, None] % 2, resamples=3)
    assert found.mean == 0.5
    assert (found.low, found.high) == pytest.approx((0.5, 0.5), abs=0.002)


def test_intervals_at_the_edges() -> None:
    """NaN without a query; no width where every resample has the same mean."""
    (only,) = intervals(np.empty((0, 1)))
    assert all(map(math.isnan, (only.mean, only.low, only.high)))
    (found,) = intervals(np.full((20, 1), 0.25))
    assert (found.mean, found.low, found.high) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0])
def test_a_level_is_a_probability(level: float) -> None:
    """Nothing at or past the ends of 0..1."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        intervals(np.zeros((1, 1)), level=level)
