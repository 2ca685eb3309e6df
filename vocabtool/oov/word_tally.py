"""Distinct words and their figures, in memory that has a limit.

Words are held and counted exactly as long as they fit the budget; words that come later are
given to sketches, and those already held stay exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, count, repeat
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.oov.batch_counts import NO_SLOTS
from vocabtool.oov.word_sketches import LateWord, WordSketches

WORD_COST: Final = 176  # bytes that a word takes besides its own: in the dict and the columns
CHUNK: Final = 1 << 14  # words between two looks at the budget
NEVER: Final = np.iinfo(np.int64).max


class Tallied(NamedTuple):
    """Figures of u words. ``known``: bool; ``pieces``: int32; ``counts``, ``documents``: int64.

    ``first``: int64, the number of the first document that holds the word. The last two are told
    of unknown words only, else 0 and ``NEVER``. All of shape (u,).
    """

    known: NDArray[np.bool_]
    pieces: NDArray[np.int32]
    counts: NDArray[np.int64]
    documents: NDArray[np.int64]
    first: NDArray[np.int64]

    @classmethod
    def none(cls, rows: int) -> Tallied:
        """Rows for words that were not met yet."""
        return cls(
            np.zeros(rows, np.bool_),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64),
            np.full(rows, NEVER),
        )


class WordTally:
    """Words and their figures. ``budget``: bytes of memory that the words held may take, about.

    ``sketches``: what came when no more could be held, ``None`` before that.
    ``blurred``: whether they may hold a word that is held here, too: after some merges.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.slots: dict[bytes, int] = {}  # a number for each word, from 0 on
        self.sketches: WordSketches | None = None
        self.blurred = False
        self._columns = Tallied.none(0)
        self._length = 0  # of the words held, in bytes

    @property
    def cost(self) -> int:
        """Bytes that the words held take, about."""
        return self._length + WORD_COST * len(self.slots)

    @property
    def held(self) -> Tallied:
        """The figures of the words held, a row for each slot; not to be kept."""
        return Tallied._make(column[: len(self.slots)] for column in self._columns)

    def slots_of(self, words: Iterable[bytes]) -> NDArray[np.int64]:
        """The slot of each word, -1 where it is not held; may be asked by another thread."""
        return np.fromiter(map(self.slots.get, words, repeat(-1)), np.int64)

    def add(
        self, words: list[bytes], figures: Tallied, held: NDArray[np.int64] = NO_SLOTS
    ) -> NDArray[np.int64]:
        """Count words, no two of them equal; returns the slot of each, -1 where it is not held.

        ``held``: slots of words that stand before ``words`` in ``figures`` and the answer.
        """
        slots = np.concatenate((held, self._slots_of(words)))
        self._grow()
        late = slots < 0
        if not late.any():
            self._add_held(slots, figures)
            return slots
        kept = ~late
        self._add_held(slots[kept], Tallied._make(column[kept] for column in figures))
        late_words = compress(words, late[len(held) :].tolist())
        self._add_late(list(late_words), figures, late)
        return slots

    def _slots_of(self, words: list[bytes]) -> NDArray[np.int64]:
        slots = self.slots_of(words)
        new = np.flatnonzero(slots < 0)
        for at in range(0, len(new), CHUNK):
            if self.sketches is None and self.cost <= self.budget:
                chunk = new[at : at + CHUNK]
                slots[chunk] = self._hold([words[i] for i in chunk.tolist()])
        return slots

    def _hold(self, words: list[bytes]) -> NDArray[np.int64]:
        """Slots for words that are held from now on."""
        first = len(self.slots)
        self.slots.update(zip(words, count(first), strict=False))
        self._length += sum(map(len, words))
        return np.arange(first, len(self.slots))

    def _grow(self) -> None:
        """A row for each slot, and room for more."""
        have = len(self._columns.counts)
        if len(self.slots) > have:
            more = Tallied.none(max(len(self.slots), have + have // 2) - have)
            self._columns = Tallied(*map(_joined, self._columns, more))

    def _add_held(self, slots: NDArray[np.int64], figures: Tallied) -> None:
        columns = self._columns
        columns.known[slots] = figures.known
        columns.pieces[slots] = figures.pieces
        columns.counts[slots] += figures.counts
        columns.documents[slots] += figures.documents
        columns.first[slots] = np.minimum(columns.first[slots], figures.first)

    def _add_late(self, words: list[bytes], figures: Tallied, late: NDArray[np.bool_]) -> None:
        numbers = (column[late].tolist() for column in figures[:4])
        self._sketching().add(map(LateWord, words, *numbers))

    def _sketching(self) -> WordSketches:
        """The sketches; where there are none yet, new ones that have seen all the words held."""
        if self.sketches is None:
            self.sketches = WordSketches()
            self.sketches.see(self.slots, self.held.known.tolist())
        return self.sketches

    def merge(self, other: WordTally) -> NDArray[np.int64]:
        """Add what another holds and has estimated; returns the slot here of each slot there."""
        slots = self.add(list(other.slots), other.held)
        if other.sketches is not None:
            self._sketching().merge(other.sketches)
        self.blurred |= other.blurred or other.sketches is not None
        return slots


def _joined(column: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((column, more))
