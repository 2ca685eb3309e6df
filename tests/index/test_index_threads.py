"""One ``Index`` object in several threads, as its docstring allows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.builders.small_indexes import (
    FUSIONS,
    QUERIES,
    Scored,
    documents,
    made,
    scored,
    temporary_folder,
    vector,
    vectors,
)
from vocabtool import Document, Index

COMMITS: Final = 8
NUMBERS: Final = range(30)
VECTORS: Final = np.stack([vector(-at - 1 & 0xFF) for at in range(len(QUERIES))])
Asked = tuple[str, str]  # what is asked, and by which fusion


def ask(index: Index, kind: str, fusion: Any) -> Sequence[Scored | Document]:
    """What a call answers; everything in it must be of one commit."""
    if kind == "documents":
        return [*index.documents()]
    if kind == "many":
        return [*map(scored, index.search_many(QUERIES, vectors=VECTORS, fusion=fusion))]
    at = QUERIES.index(kind)
    return [scored(index.search(kind, vector=VECTORS[at], fusion=fusion, explain=True))]


ASKED: Final[list[Asked]] = [
    ("documents", ""),
    *((kind, fusion) for kind in ("many", *QUERIES) for fusion in FUSIONS),
]


def test_searches_refreshes_and_changes_at_once() -> None:
    """Every answer is that of one commit, as an object used by one thread gives it, in order."""
    done = threading.Event()

    def read(index: Index, seed: int) -> list[tuple[Asked, object]]:
        draw = np.random.default_rng(seed)
        found: list[tuple[Asked, object]] = []
        while not done.is_set() or len(found) < len(ASKED):
            asked = ASKED[draw.integers(len(ASKED))]
            found.append((asked, ask(index, *asked)))
        return found

    def refresh(index: Index) -> int:
        newer = 0
        while not done.is_set():
            newer += index.refresh()
        return newer

    with temporary_folder() as there:
        folder = Path(there) / "index"
        index, other = made(folder, NUMBERS), Index.open(folder)
        expected = [{asked: ask(Index.open(folder), *asked) for asked in ASKED}]
        with ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read, index, seed) for seed in range(4)]
            refreshing = pool.submit(refresh, index)
            for version in range(1, COMMITS):
                changed = NUMBERS[version::3]
                with (index, other)[version % 2].writer() as writer:
                    writer.update(documents(changed, version), vectors(changed, version))
                alone = Index.open(folder)
                expected.append({asked: ask(alone, *asked) for asked in ASKED})
            done.set()
            seen = [each.result() for each in readers]
            refreshing.result()
    for answers in seen:
        commit = 0
        for asked, answer in answers:
            while expected[commit][asked] != answer:
                commit += 1
                assert commit < COMMITS, (
                    f"{asked}: the answer is of no commit, or of an earlier one"
                )
    assert len({answer for each in expected for answer in map(str, each.values())}) > COMMITS
