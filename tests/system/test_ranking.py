"""Rows in the order of their scores: every way to put them in order gives the same."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.system.ranking import RankedRows

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
