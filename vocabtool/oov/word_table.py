"""Distinct words and their figures, in memory that has a limit.

All are counted exactly as long as they fit the budget. When they do not, the rarest are dropped,
and nothing is known of a word that is not held but that it did not stand more often than ``bound``
says: so much too low may the count of a word be that came (again) after that. How many words there
are in all is estimated from then on, by the hashes of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import compress, count, repeat
from typing import Final
from zlib import crc32

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from vocabtool.oov.batch_counts import BatchCounts

WORD_COST: Final = 176  # bytes that a word takes besides its own: in the dict and the columns
MAX_SAMPLED: Final = 1 << 17  # hashes: 3 sigma is 1.2 % of the words at most
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
SIGMAS: Final = 3


@dataclass(slots=True)
class Figures:
    """Figures of u words, all of shape (u,).

    ``known``: bool; ``pieces``: int32; ``counts``: int64. ``documents``: int64, of unknown words
    only, else 0. ``missed``: int64, how many tokens were at most not counted before a word came.
    """

    known: NDArray[np.bool_]
    pieces: NDArray[np.int32]
    counts: NDArray[np.int64]
    documents: NDArray[np.int64]
    missed: NDArray[np.int64]

    @classmethod
    def empty(cls, rows: int) -> Figures:
        """For words that were not met yet."""
        counts, documents, missed = np.zeros((3, rows), np.int64)
        return cls(np.zeros(rows, np.bool_), np.zeros(rows, np.int32), counts, documents, missed)

    def take(self, rows: NDArray[np.int64] | slice) -> Figures:
        """Those of some words."""
        return Figures(*(getattr(self, field.name)[rows] for field in fields(self)))


class WordTable:
    """Words and their figures. ``budget``: bytes of memory that the words held may take, about.

    ``slots``: a number for each word held, from 0 on. ``examples``: texts, by word.
    ``bound``: how often a word that is not held may stand at most; 0: all are held.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.slots: dict[bytes, int] = {}
        self.examples: dict[bytes, bytes] = {}
        self.bound = 0
        self._figures = Figures.empty(0)
        self._length = 0  # of the words held, in bytes
        self._sampled = (Sample(), Sample())  # of all words, and of the unknown ones

    @property
    def figures(self) -> Figures:
        """Of the words held, a row for each slot; not to be kept."""
        return self._figures.take(slice(0, len(self.slots)))

    def add(self, batch: BatchCounts) -> NDArray[np.bool_]:
        """Count the words of a batch; which were not held before, shape (u,)."""
        held = len(self.slots)
        found = map(self.slots.get, batch.words, repeat(-1))
        slots = np.fromiter(found, np.int64, len(batch.words))
        new = slots < 0
        added = list(compress(batch.words, new.tolist()))
        slots[new] = np.arange(held, held + len(added))
        self.slots.update(zip(added, count(held), strict=False))
        self._grow()
        figures = self._figures
        figures.known[slots] = batch.known
        figures.pieces[slots] = batch.pieces
        figures.counts[slots] += batch.counts
        figures.documents[slots[batch.unknown]] += batch.documents
        figures.missed[slots[new]] = self.bound
        self._length += sum(map(len, added))
        if self.bound:
            self._sample(added, batch.known[new])
        return new

    def _grow(self) -> None:
        have, wanted = len(self._figures.counts), len(self.slots)
        if wanted > have:
            larger = Figures.empty(max(wanted, have + have // 2))
            for field in fields(larger):
                getattr(larger, field.name)[:have] = getattr(self._figures, field.name)
            self._figures = larger

    def prune(self) -> None:
        """Where the words take more than the budget, drop the rarest until half of it is free."""
        if self._length + WORD_COST * len(self.slots) <= self.budget:
            return
        words, figures = list(self.slots), self.figures
        if not self.bound:
            self._sample(words, figures.known)
        highest = figures.counts + figures.missed
        order = np.argsort(-highest, kind="stable")
        costs = np.cumsum(np.fromiter(map(len, words), np.int64, len(words))[order] + WORD_COST)
        number = int(np.searchsorted(costs, self.budget // 2, "right"))
        self.bound = max(self.bound, int(highest[order[number]]))
        kept = np.sort(order[:number])
        self._figures = figures.take(kept)
        self.slots = {words[row]: slot for slot, row in enumerate(kept.tolist())}
        self._length = sum(map(len, self.slots))
        self.examples = {w: text for w, text in self.examples.items() if w in self.slots}

    def _sample(self, words: list[bytes], known: NDArray[np.bool_]) -> None:
        hashes = _hashes(words)
        self._sampled[0].add(hashes)
        self._sampled[1].add(hashes[~known])

    def distinct(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """How many words there are, and unknown ones; of each how far off that may be."""
        known = self.figures.known
        held, unknown = len(known), int(np.count_nonzero(~known))
        if not self.bound:
            return (held, 0), (unknown, 0)
        every, some = (sample.estimate() for sample in self._sampled)
        return (max(held, every[0]), every[1]), (max(unknown, some[0]), some[1])


class Sample:
    """The hashes that begin with so many zeros: one in ``2 ** zeros`` of all."""

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)  # the same one perhaps several times
        self._zeros = 0

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Take hashes, also such as were there before."""
        self._hashes = np.append(self._hashes, self._select(hashes))
        if len(self._hashes) > 2 * MAX_SAMPLED:
            self._hashes = self._distinct()
            while len(self._hashes) > MAX_SAMPLED:
                self._zeros += 1
                self._hashes = self._select(self._hashes)

    def estimate(self) -> tuple[int, int]:
        """How many there were, about, and how far off that may be (3 sigma)."""
        number, scale = len(self._distinct()), 1 << self._zeros
        off_by = SIGMAS * np.sqrt(number * scale * (scale - 1))
        return number * scale, int(off_by) + (scale > 1)

    def _select(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return hashes[hashes <= np.uint64((1 << 64 - self._zeros) - 1)]

    def _distinct(self) -> NDArray[np.uint64]:
        ordered = np.sort(self._hashes)
        return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _hashes(words: list[bytes]) -> NDArray[np.uint64]:
    """The same in every process: two checksums, mixed."""
    low = np.fromiter(map(crc32, words), np.uint64, len(words))
    high = np.fromiter(map(google_crc32c.value, words), np.uint64, len(words))
    mixed: NDArray[np.uint64] = (high << np.uint64(32) | low) * MIX
    mixed ^= mixed >> np.uint64(29)
    return mixed * MIX
