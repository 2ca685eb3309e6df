"""The final order: tier, score, id. Scores that differ by float noise are ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.search.fusion import Fused, first_of_ties, is_tied
from vocabtool.system.ranked import Rows

Ids = Callable[[Rows], list[str]]


class Ordered(NamedTuple):
    """The best candidates. ``places``: which they are; ``scores``: ties have the same one."""

    places: NDArray[np.int64]
    scores: Fused


def best(
    rows: Rows,
    scores: Fused,
    tiers: NDArray[np.int8],
    k: int,
    ids: Ids,
    *,
    keywords_alone: bool = False,
) -> Ordered:
    """The first ``k`` by tier (highest first), score (highest first) and id.

    ``keywords_alone``: vectors have no say, so that what scores 0 matches nothing and is left out.
    ``ids`` is asked only for documents whose scores tie, and only where that decides. Of a run of
    ties every score becomes that of its best, so that within a tier scores never rise.
    """
    order = scores.argsort()[::-1]  # in any order where they tie
    if keywords_alone:
        order = order[: int(np.count_nonzero(scores > 0))]
    if np.count_nonzero(tiers):
        order = order[np.argsort(-tiers[order], kind="stable")]
    falling = scores[order]
    tied = _tied(falling, tiers[order])
    if not np.count_nonzero(tied[:k]):
        return Ordered(order[:k], falling[:k])
    _by_id(order, tied, rows, k, ids)
    return Ordered(order[:k], falling[first_of_ties(tied)[:k]])


def _tied(scores: Fused, tiers: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Whether each but the first ties with the one before it; documents of two tiers never do."""
    same: NDArray[np.bool_] = tiers[1:] == tiers[:-1]
    return is_tied(scores) & same


def _by_id(order: NDArray[np.int64], tied: NDArray[np.bool_], rows: Rows, k: int, ids: Ids) -> None:
    """Sort the runs of ties that begin among the first ``k`` by id, in place."""
    starts = np.flatnonzero(np.append(True, ~tied))
    ends = np.append(starts[1:], len(order))
    within = starts < k
    for start, end in zip(starts[within].tolist(), ends[within].tolist(), strict=True):
        if end - start > 1:
            run = order[start:end].copy()
            names = ids(rows[run])
            order[start:end] = run[sorted(range(len(run)), key=names.__getitem__)]
