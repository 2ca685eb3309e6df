"""The order of hits: tiers, scores and ids; ranks that equal scores share."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.search.fusion import best_places, shared_ranks
from vocabtool.system.ranking import RankedRows


@pytest.mark.parametrize(
    ("scores", "ranks"),
    [
        ((0.9, 0.5, 0.5, 0.1), [1, 2, 2, 4]),
        ((), []),
        ((0.5, 0.4999999, 0.4), [1, 1, 3]),  # below 1e-6 it is noise
        ((-1000.0, -1000.0005, -1001), [1, 1, 3]),  # or below that share of large scores
    ],
)
def test_equal_scores_share_a_rank(scores: tuple[float, ...], ranks: list[int]) -> None:
    """As in sports: 1, 2, 2, 4."""
    assert shared_ranks(np.array(scores, np.float32)).tolist() == ranks


def test_the_order_is_tier_then_score_then_id() -> None:
    """Row 3 is the only one of tier 1; rows 0 and 2 tie, and row 2 has the smaller id."""
    asked = []

    def names(rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[str]:
        asked.extend(rows.tolist())
        return [f"id{9 - row}" for row in rows.tolist()]

    scores, tiers = np.array([0.5, 0.9, 0.5 + 1e-9, 0.1]), np.array([0, 0, 0, 1], np.int8)
    places, falling = best_places(np.arange(4), scores, tiers, 4, names)
    assert places.tolist() == [3, 1, 2, 0]
    assert falling.tolist() == [0.1, 0.9, 0.5 + 1e-9, 0.5 + 1e-9]
    assert sorted(asked) == [0, 2]
    asked.clear()  # a tie behind the last hit decides nothing
    assert best_places(np.arange(4), scores, tiers, 2, names)[0].tolist() == [3, 1]
    assert asked == []


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


SCORES = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=12)


def listed(ranked: RankedRows) -> list[tuple[int, float]]:
    return list(zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True))


@given(SCORES, st.integers(0, 14), st.randoms(use_true_random=False))
def test_what_is_nearly_in_order_is_put_in_the_same_order(
    scores: list[float], limit: int, random: Random
) -> None:
    """Best first, equal scores by row: as Python sorts pairs."""
    wanted = sorted(enumerate(scores), key=lambda pair: (-pair[1], pair[0]))
    rows, numbers = np.arange(len(scores)), np.array(scores, np.float32)
    assert listed(RankedRows.of_ascending(rows, numbers, limit)) == wanted[:limit]
    mixed = list(wanted)
    random.shuffle(mixed)
    places = np.array([row for row, _ in mixed], np.int64)
    assert listed(RankedRows.of(places, numbers[places], limit)) == wanted[:limit]
    falling = np.array([row for row, _ in sorted(mixed, key=lambda pair: -pair[1])], np.int64)
    assert listed(RankedRows.of_falling(falling, numbers[falling], limit)) == wanted[:limit]
