"""Each fusion equals its formula computed by hand, on arrays."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.search.fusion import (
    Candidates,
    best_places,
    is_tied,
    reciprocal_ranks,
    shared_ranks,
    shares_of_best,
    shares_of_range,
)
from vocabtool.system.ranking import Near, RankedRows, are_among

FINITE = st.floats(-1e6, 1e6, width=32)


def floats(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def ranked(**scores: float) -> RankedRows:
    """Rows by name (``r7``), in the order given."""
    rows = np.array([int(name[1:]) for name in scores], np.int64)
    return RankedRows(rows, floats(*scores.values()))


def leg_of(scores: dict[int, float]) -> RankedRows:
    rows = np.array(list(scores), np.int64)
    return RankedRows.of(rows, floats(*scores.values()), len(rows))


@pytest.mark.parametrize(
    ("similarities", "shares"),
    [((), []), ((0.3,), [1]), ((-2, -2), [1, 1]), ((nan, nan), [0, 0]), ((nan, 0.2), [0, 1])],
)
def test_equal_similarities_divide_nothing_by_zero(
    similarities: tuple[float, ...], shares: list[float]
) -> None:
    """Where there is no range, every document that has a vector is as good as the best."""
    assert shares_of_range(floats(*similarities)).tolist() == shares


@pytest.mark.parametrize(
    ("bm25", "shares"), [((), []), ((3,), [1]), ((0, 0), [0, 0]), ((8, 0, 2), [1, 0, 0.25])]
)
def test_the_minimum_of_bm25_is_0(bm25: tuple[float, ...], shares: list[float]) -> None:
    """So a single keyword hit gets 1, not 0."""
    assert shares_of_best(floats(*bm25)).tolist() == shares


def test_reciprocal_ranks_add_up_over_the_legs() -> None:
    """A document that a leg does not have gets nothing from it."""
    fused = reciprocal_ranks(np.array([1, 2, 0]), np.array([0, 1, 2]), 60)
    assert fused.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 61, 1 / 62])


def test_equal_scores_share_a_rank() -> None:
    """As in sports: 1, 2, 2, 4."""
    assert shared_ranks(floats(0.9, 0.5, 0.5, 0.1)).tolist() == [1, 2, 2, 4]
    assert shared_ranks(floats()).tolist() == []


def test_float_noise_is_a_tie() -> None:
    """Below 1e-6, or below that share of large scores."""
    assert is_tied(np.array([0.5, 0.4999999, 0.4])).tolist() == [True, False]
    assert is_tied(np.array([-1000.0, -1000.0005, -1001])).tolist() == [True, False]


def test_candidates_are_the_union_of_both_lists() -> None:
    """Dense ones first in their order; those without a keyword score count 0."""
    near = Near(ranked(r7=0.9, r2=0.8, r5=0.1), floats(0.1, -0.5, 0.9))
    found = Candidates.union(near, ranked(r5=4, r9=3, r7=1), 3)
    assert found.rows.tolist() == [7, 2, 5, 9]
    assert found.bm25.tolist() == [1, 0, 4, 3]
    assert found.dense_ranks().tolist() == [1, 2, 3, 0]
    assert found.keyword_ranks().tolist() == [3, 0, 1, 2]
    assert found.similarities.tolist() == floats(0.9, 0.8, 0.1, -0.5).tolist()


@given(st.dictionaries(st.integers(0, 30), FINITE), st.dictionaries(st.integers(0, 30), FINITE))
def test_the_union_holds_each_row_once(dense: dict[int, float], keyword: dict[int, float]) -> None:
    """With the keyword score of exactly those rows that have one, and each one's similarity."""
    keywords = leg_of(keyword)
    similar = floats(*(dense.get(row, row) for row in keywords.rows.tolist()))
    found = Candidates.union(Near(leg_of(dense), similar), keywords, len(keyword))
    assert sorted(found.rows.tolist()) == sorted({*dense, *keyword})
    similar = floats(*(dense.get(row, row) for row in found.rows.tolist()))
    assert found.similarities.tolist() == similar.tolist()
    told = dict(zip(found.rows.tolist(), found.bm25.tolist(), strict=True))
    assert told == {row: float(np.float32(keyword.get(row, 0))) for row in told}


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_rows_are_looked_for_among_others(rows: list[int], others: list[int]) -> None:
    """As Python's own ``in`` does."""
    found = are_among(np.array(rows, np.int64), np.array(others, np.int64))
    assert found.tolist() == [row in others for row in rows]


def names(rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[str]:
    return [f"id{9 - row}" for row in rows.tolist()]


def test_the_order_is_tier_then_score_then_id() -> None:
    """Row 3 is the only one of tier 1; rows 0 and 2 tie, and row 2 has the smaller id."""
    scores = np.array([0.5, 0.9, 0.5 + 1e-9, 0.1])
    tiers = np.array([0, 0, 0, 1], np.int8)
    found = best_places(np.arange(4), scores, tiers, 4, names)
    assert found[0].tolist() == [3, 1, 2, 0]
    assert found[1].tolist() == [0.1, 0.9, 0.5 + 1e-9, 0.5 + 1e-9]


def test_ids_are_asked_for_only_where_they_decide() -> None:
    """A tie behind the last hit does not matter, so nobody is asked."""

    def refused(rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[str]:
        raise AssertionError(rows)

    scores = np.array([0.9, 0.8, 0.1, 0.1])
    assert best_places(np.arange(4), scores, np.zeros(4, np.int8), 2, refused)[0].tolist() == [0, 1]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 2))),
    st.integers(1, 9),
)
def test_the_order_is_that_of_sorting_all_by_all(
    documents: list[tuple[float, int]], k: int
) -> None:
    """What Python's own sorting of (tier, score, id) gives."""
    scores = np.array([score for score, _ in documents])
    tiers = np.array([tier for _, tier in documents], np.int8)
    ids = [f"{7 * place % 101:03}" for place in range(len(documents))]
    found = best_places(
        np.arange(len(ids)), scores, tiers, k, lambda rows: [ids[row] for row in rows]
    )
    places = sorted(range(len(ids)), key=lambda at: (-tiers[at], -scores[at], ids[at]))
    assert [ids[at] for at in found[0]] == [ids[at] for at in places[:k]]
