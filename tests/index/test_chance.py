"""What chance finds of a nonsense query: measured when an index is built, told when it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vocabtool import Index

CHANCE = "no document that may be found holds a word of the query, and the nearest is no nearer"


def drawn(rows: int, seed: int) -> NDArray[np.float32]:
    """Vectors of 32 numbers that are about nothing."""
    return np.random.default_rng(seed).standard_normal((rows, 32)).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "inner-product", "l2"])
def test_nonsense_is_no_nearer_than_by_chance(tmp_path: Path, metric: Any) -> None:
    """Of 100 vectors of no document nearly all are told so; of real queries none."""
    index = Index.create(tmp_path / "index", dim=32, metric=metric)
    held = drawn(500, 1)
    with index.writer() as writer:
        writer.add([f"document {row}" for row in range(500)], held)
    nonsense = [
        index.search("xyzzyplughh", vector=3 * each if metric == "inner-product" else each)
        for each in drawn(100, 2)
    ]
    told = [hits for hits in nonsense if any(CHANCE in note for note in hits.notes)]
    assert len(told) >= 90
    assert told[0][0].score == 1.0
    assert f"similarity {told[0][0].similarity:.3f}; a nonsense query reaches" in told[0].notes[-1]
    real = [index.search("xyzzyplughh", vector=each) for each in held[:100] + drawn(100, 3) / 4]
    assert [hits.notes for hits in real] == [()] * 100
    for text, fusion in (("document", "coverage"), ("xyzzyplughh", "dense"), (None, "coverage")):
        assert index.search(text, vector=drawn(1, 2), fusion=fusion).notes == ()


def test_what_chance_finds_is_measured_when_an_index_has_doubled(tmp_path: Path) -> None:
    """Not at each commit; of fewer than ten vectors nothing is told."""
    index = Index.create(tmp_path / "index", dim=32)
    seen = []
    for start, end in ((0, 9), (9, 10), (10, 19), (19, 20)):
        with index.writer() as writer:
            writer.add([f"document {row}" for row in range(start, end)], drawn(20, 1)[start:end])
        seen.append(index.manifest.chance and index.manifest.chance.rows)
    assert seen == [None, 10, 10, 20]
