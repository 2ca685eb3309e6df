"""What holds for every index, whatever is added, updated and deleted, in whichever order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.small_indexes import (
    FUSIONS,
    Scored,
    Vectors,
    add,
    contents,
    delete,
    scored,
    temporary_folder,
)
from vocabtool import Document, Index

DIM = 2
WORDS = ("amber", "birch", "cedar", "delta", "abc-12", "7")
QUERIES = ("amber", "birch cedar abc-12", "delta 7 zebra", "")
# Halves and their sums are exact in float16 and float32: nothing is rounded under these metrics.
NUMBERS = (-1.0, -0.5, 0.0, 0.5, 1.0)
FEW, MANY = 8, 100  # examples

Row = tuple[str, tuple[float, ...]]  # text and vector
Content = Mapping[int, Row]

rows = st.tuples(
    st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join),
    st.tuples(*[st.sampled_from(NUMBERS)] * DIM),
)
corpora = st.dictionaries(st.integers(0, 40), rows, min_size=1, max_size=12)
metrics = st.sampled_from(["inner-product", "l2", "cosine"])
seeds = st.integers(0, 99)


def put(index: Index, content: Content, how: str = "add") -> None:
    """Add these documents in one commit."""
    documents = [Document(f"d{number:02}", text) for number, (text, _) in content.items()]
    with index.writer() as writer:
        vectors = np.array([each for _, each in content.values()], np.float32).reshape(-1, DIM)
        writer.add(documents, vectors, on_existing="update" if how == "update" else "error")


def made(folder: str, name: str, **options: Any) -> Index:
    """An empty index of exact vectors."""
    return Index.create(Path(folder) / name, dim=DIM, dtype="float32", **options)


def answers(index: Index) -> dict[tuple[str, str], Scored]:
    """Of each query by each fusion everything that is found: ids and scores."""
    return {
        (text, fusion): scored(index.search(text, vector=[1.0, 0.5], k=50, fusion=fusion))
        for text in QUERIES
        for fusion in FUSIONS
    }


def same(index: Index, other: Index) -> None:
    """Both hold the same and answer the same, scores to the last bit."""
    assert contents(index) == contents(other)
    assert answers(index) == answers(other)


def law(*strategies: Any) -> Callable[[Callable[..., None]], Callable[[bool], None]]:
    """A test of any of these: few examples, many with ``--full``."""

    def of(check: Callable[..., None]) -> Callable[[bool], None]:
        def test(full: bool) -> None:
            most = settings(deadline=None, max_examples=MANY if full else FEW)
            of_any: Any = given(*strategies)
            most(of_any(check))()

        test.__doc__ = check.__doc__
        return test

    return of


@law(corpora, corpora, metrics, seeds)
def test_deleted_added_and_compacted_is_as_if_nothing_had_happened(
    content: Content, others: Content, metric: Any, seed: int
) -> None:
    """Compared with an index that never held anything else, and whatever the way to it was."""
    draw = random.Random(seed)
    with temporary_folder() as folder:
        changed, fresh = made(folder, "a", metric=metric), made(folder, "b", metric=metric)
        put(fresh, content)
        put(changed, others)
        gone = draw.sample([*content], draw.randint(0, len(content)))
        put(changed, content, "update")
        delete(changed, [f"d{number:02}" for number in [*others, *gone]])
        again = {number: content[number] for number in {*others, *gone} & {*content}}
        if again:
            put(changed, again)
        changed.compact()
        same(changed, fresh)
        assert changed.manifest.rows == len(content)
        assert changed.manifest.words == fresh.manifest.words


@law(corpora, metrics, seeds)
def test_neither_the_order_nor_commits_matter(content: Content, metric: Any, seed: int) -> None:
    """Ties are broken by the id, and nothing else tells documents of equal score apart."""
    shuffled = random.Random(seed).sample([*content], len(content))
    with temporary_folder() as folder:
        one, other = made(folder, "a", metric=metric), made(folder, "b", metric=metric)
        put(one, content)
        for number in shuffled:
            put(other, {number: content[number]})
        same(one, other)


# What chance finds of a nonsense query.

CHANCE = "no searchable document contains a word of the query, and the nearest one is no nearer"


def drawn(rows: int, seed: int) -> Vectors:
    """Vectors of 32 numbers that are about nothing."""
    return np.random.default_rng(seed).standard_normal((rows, 32)).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "inner-product", "l2"])
def test_nonsense_is_no_nearer_than_by_chance(tmp_path: Path, metric: Any) -> None:
    """Of 100 vectors of no document nearly all are told so; of real queries none."""
    index = Index.create(tmp_path / "index", dim=32, metric=metric)
    held = drawn(500, 1)
    add(index, [f"document {row}" for row in range(500)], held)
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
    cases: tuple[tuple[str | None, Any], ...] = (
        *(("document", "coverage"), ("xyzzyplughh", "dense"), (None, "coverage")),
    )
    for text, fusion in cases:
        assert index.search(text, vector=drawn(1, 2), fusion=fusion).notes == ()


def test_what_chance_finds_is_measured_when_an_index_has_doubled(tmp_path: Path) -> None:
    """Not at each commit; of fewer than ten vectors nothing is told."""
    index = Index.create(tmp_path / "index", dim=32)
    seen = []
    for start, end in ((0, 9), (9, 10), (10, 19), (19, 20)):
        add(index, [f"document {row}" for row in range(start, end)], drawn(20, 1)[start:end])
        seen.append(index.manifest.chance and index.manifest.chance.rows)
    assert seen == [None, 10, 10, 20]
