"""Distinct words and their figures, in memory that has a limit.

All are counted exactly as long as they fit the budget. When they do not, the rarest are dropped,
and nothing is known of a word that is not held but that it did not stand more often than ``bound``
says: so much too low may the count of a word be that came (again) after that. How many words there
are in all is estimated from then on, by the hashes of a sample.

How often each word stands in a batch of texts, and in how many of them, as arrays.

Where a word stands in its text, for a person: the text, or a short part of a long one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import compress, count, repeat
from typing import Final
from zlib import crc32

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, as_strings

CODE_BITS: Final = np.int64(32)
CODE: Final = np.int64((1 << 32) - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchCounts:
    """The u words that stand in a batch of n texts, in the order in which they come first.

    ``words``: no two are equal, none stands nowhere. ``positions``: int64, in the vocabulary, or
    -1. ``known``: bool; ``pieces``: int32, 1 each for a model of whole words; ``counts``: int64.
    All of shape (u,). ``subwords``: whether words are made of pieces.
    ``unknown``: int64, ascending, which of the u words the v unknown ones are. ``documents``:
    int64, how many texts hold each of these; ``first``: int64, the first of them; ``shares``:
    float64, how far into it the word stands first, from 0 to 1. All of shape (v,).
    ``texts_unknown``: how many texts hold an unknown word. ``blanks``: how many pieces of nothing
    but blanks were left out.
    """

    words: list[bytes]
    positions: NDArray[np.int64]
    known: NDArray[np.bool_]
    pieces: NDArray[np.int32]
    counts: NDArray[np.int64]
    subwords: bool
    unknown: NDArray[np.int64]
    documents: NDArray[np.int64]
    first: NDArray[np.int64]
    shares: NDArray[np.float64]
    texts_unknown: int
    blanks: int = 0


def batch_counts(found: WordLookup, blanks: int = 0) -> BatchCounts:
    """Count words; equal ones that ``found`` tells apart are one."""
    codes, distinct = _unify(found)
    counts = np.bincount(codes, minlength=len(found.distinct))
    kept = np.flatnonzero(counts)
    first_token = np.zeros(len(counts), np.int64)
    first_token[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal indices the last one stays
    kept = kept[np.argsort(first_token[kept])]
    known = found.known[kept]
    unknown = np.flatnonzero(~known)

    missing = ~found.known.take(codes)
    per_text = np.diff(np.append(0, np.cumsum(missing))[found.offsets])
    among = np.zeros(len(counts), np.int64)
    among[kept[unknown]] = np.arange(len(unknown))
    texts = np.repeat(np.arange(len(per_text)), per_text)
    pairs = np.sort(texts << CODE_BITS | among.take(codes[missing]))
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]

    tokens = first_token[kept[unknown]]
    first, shares = places_of(tokens, found.offsets)
    words = distinct.take(pa.array(kept))
    pieces = found.pieces
    return BatchCounts(
        words=as_bytes(words),
        positions=found.positions[kept],
        known=known,
        pieces=np.ones(len(kept), np.int32) if pieces is None else pieces[kept],
        counts=counts[kept],
        subwords=pieces is not None,
        unknown=unknown,
        documents=np.bincount(pairs & CODE, minlength=len(unknown)),
        first=first,
        shares=shares,
        texts_unknown=int(np.count_nonzero(per_text)),
        blanks=blanks,
    )


def places_of(
    tokens: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """In which text each token stands, and how far into it; ``offsets``: as in a WordLookup."""
    texts = np.searchsorted(offsets, tokens, "right") - 1
    starts, ends = offsets[texts], offsets[texts + 1]
    return texts, (tokens - starts) / (ends - starts)


def _unify(found: WordLookup) -> tuple[NDArray[np.intp], pa.StringArray]:
    """A code for each token, equal words under one; and the words by code."""
    codes = found.codes.astype(np.intp, copy=False)  # what indexing wants: once, not each time
    if found.unique:
        return codes, found.distinct
    encoded = found.distinct.view(pa.binary()).dictionary_encode()
    same = encoded.indices.to_numpy(zero_copy_only=False)
    one = np.zeros(len(encoded.dictionary), np.intp)
    one[same] = np.arange(len(same))
    return one[same][codes], as_strings(found.distinct)


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


WIDTH: Final = 120  # bytes of an example, without the signs that it was cut
SEARCHED: Final = 1_024  # bytes on either side of where a word should be
CUT: Final = "…".encode()
LETTERS: Final = frozenset(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())
GOES_ON: Final = b"\xff"  # a letter here, and in no UTF-8: stands for what is not looked at


def examples(
    texts: pa.StringArray,
    words: list[bytes],
    rows: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> list[bytes]:
    """For each of k words its text, or a part of it where it is longer than ``WIDTH``.

    ``rows``: shape (k,), the text; ``shares``: shape (k,), how far into it the word stands, from
    0 to 1. It is looked for around there as :func:`find_word` does; where the model's rule has
    changed it too much to be found, the part is taken from there.
    """
    if not words:
        return []
    data, offsets = _buffers(texts)
    starts, ends = offsets[rows], offsets[rows + 1]
    guesses = (starts + shares * (ends - starts)).astype(np.int64)
    short = ends - starts <= WIDTH
    found = [b""] * len(words)
    for i, line in zip(np.flatnonzero(short).tolist(), _lines(texts, rows[short]), strict=True):
        found[i] = line
    for i in np.flatnonzero(~short).tolist():
        found[i] = _around(data, words[i], int(starts[i]), int(ends[i]), int(guesses[i]))
    return found


def _buffers(texts: pa.StringArray) -> tuple[memoryview, NDArray[np.int64]]:
    """The bytes of all the texts, and int64 offsets of shape (n + 1,) into them."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data if data is not None else b""), bounds.astype(np.int64)


def _lines(texts: pa.StringArray, rows: NDArray[np.int64]) -> list[bytes]:
    """Whole texts; those asked for twice are one object."""
    which, places = np.unique(rows, return_inverse=True)
    lines = as_bytes(texts.take(which))
    return [lines[place] for place in places.tolist()]


def _around(data: memoryview, word: bytes, start: int, end: int, guess: int) -> bytes:
    """A part of ``data[start:end]`` with the word that should be at ``guess``."""
    low, high = max(start, guess - SEARCHED), min(end, guess + SEARCHED)
    before = GOES_ON * (low > start)
    at = find_word(before + bytes(data[low:high]) + GOES_ON * (high < end), word)
    middle = low - len(before) + at + len(word) // 2 if at >= 0 else guess
    return clip(data, start, end, middle)


def find_word(text: bytes, word: bytes) -> int:
    """Where a word stands in a text; -1: nowhere.

    Where it stands by itself comes before where it is a part of another word; then its own case
    before any other of ASCII's.
    """
    at = _by_itself(text, word)
    if at >= 0:
        return at
    lower, folded = text.lower(), word.lower()
    at = _by_itself(lower, folded)
    if at < 0:
        at = text.find(word)
    return at if at >= 0 else lower.find(folded)


def _by_itself(text: bytes, word: bytes) -> int:
    """The first place of a word with no letter or digit on either side; any byte from 0x80 is one.

    A text ends like a word does.
    """
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not LETTERS.intersection(text[max(at - 1, 0) : at] + text[end : end + 1]):
            return at
        at = text.find(word, at + 1)
    return at


def clip(data: bytes | memoryview, start: int, end: int, middle: int, width: int = WIDTH) -> bytes:
    """``width`` bytes of ``data[start:end]`` around ``middle``; signs where the text goes on.

    No UTF-8 character is cut in two: up to three bytes more or fewer are taken for that.
    """
    low = max(min(middle - width // 2, end - width), start)
    high = min(low + width, end)
    while start < low < high and data[low] & 0xC0 == 0x80:
        low += 1
    while high < end and data[high] & 0xC0 == 0x80 and high - low < width + 3:
        high += 1
    return CUT * (low > start) + bytes(data[low:high]) + CUT * (high < end)
