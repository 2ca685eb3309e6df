"""``Words.pipe``: the words of texts that pass by, batch by batch, in order and in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.conftest import ROOT
from vocabtool import Words

MODEL = ROOT / "data" / "sentence_encoder"
TEXTS: list[str | bytes] = ["I love to use Xapian!", "", "love", b"\xff love", "I love Xapian"] * 20


@pytest.fixture(scope="module")
def words() -> Words:
    return Words.of(MODEL)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_it_gives_what_split_gives(words: Words, batch_size: int, workers: int) -> None:
    """Whatever the batches, each text's words are those of ``split``, in order."""
    expected = [[tuple(word.values()) for word in row] for row in words.split(TEXTS).to_pylist()]
    piped = words.pipe(TEXTS, batch_size=batch_size, workers=workers)
    assert [[tuple(word) for word in row] for row in piped] == expected


def test_an_unknown_word(words: Words) -> None:
    """A word says how it is looked up, and what came of it."""
    (found,) = words.pipe(["love Xapian"])
    assert [(word.word, word.known, word.pieces) for word in found] == [
        (b"love", True, None),
        (b"xapian", False, None),
    ]
    ids = words.split(["love Xapian"]).to_pylist()[0]
    assert [word.id for word in found] == [word["id"] for word in ids]


def test_it_is_lazy(words: Words) -> None:
    """Of an endless supply it takes no more than two batches for each worker beyond its own."""
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        for taken in count(1):  # noqa: B007 - how many were taken
            yield "love"

    found = words.pipe(endless(), batch_size=5, workers=2)
    assert taken == 0
    next(found)
    assert taken <= 5 + 2 * 2 * 5
    found.close()  # type: ignore[attr-defined] # a generator has it


def test_batches_are_judged_in_parallel(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches are judged at the same time: they meet."""
    barrier = threading.Barrier(2, timeout=30)
    judge = Words.look_up

    def meeting(self: Words, texts: Any) -> Any:
        barrier.wait()
        return judge(self, texts)

    monkeypatch.setattr(Words, "look_up", meeting)
    assert len(list(words.pipe(["love"] * 8, batch_size=2, workers=2))) == 8
