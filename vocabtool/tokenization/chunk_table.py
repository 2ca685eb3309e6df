"""Chunks of text and a number for each: a hash table of NumPy arrays, asked by whole batches.

A chunk of up to 15 bytes is two integers of 64 bits, its length among them, so equal keys are equal
chunks. Each has four places where it may stand, in one cache line; where all are taken it is not
held: the table may forget, never confuse. Longer chunks are not held either.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST: Final = 15  # bytes of a chunk: with its length they fill a key
KEY_BYTES: Final = 16
FIRST_BITS: Final = 14
BLOCK: Final = 1 << 14  # chunks asked for at a time: what is made of them stays in the cache
WAYS: Final = 4  # places of a key
NONE: Final = -1

Keys = NDArray[np.uint64]
_LENGTHS: Final = range(LONGEST + 2)  # the last stands for all that are too long
_LOW: Final = np.array([(1 << 8 * min(n, 8)) - 1 for n in _LENGTHS], np.uint64)
_HIGH: Final = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in _LENGTHS], np.uint64)
_HIGH[-1] = _LOW[-1] = 0
_TO_TOP: Final = np.uint64(56)
# Odd factors with about half their bits set, as multiplicative hashing wants them.
_ONE, _TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_FOLD: Final = np.uint64(29)


class _Places(NamedTuple):
    """``keys``: uint64, shape (2 ** bits, 2), zero where nothing stands; ``numbers``: int32."""

    bits: int
    keys: Keys
    numbers: NDArray[np.int32]

    @classmethod
    def empty(cls, bits: int) -> _Places:
        return cls(bits, np.zeros((1 << bits, 2), np.uint64), np.full(1 << bits, NONE, np.int32))

    def hold(self, at: NDArray[np.int64], low: Keys, high: Keys) -> NDArray[np.bool_]:
        """Whether these keys stand there."""
        pairs = self.keys.view(np.complex128)[:, 0]  # 16 bytes that NumPy takes in one go
        keys = pairs.take(at, mode="clip").view(np.uint64).reshape(-1, 2)
        found: NDArray[np.bool_] = keys[:, 0] == low
        found &= keys[:, 1] == high
        return found


class ChunkTable:
    """Holds a number for each of at most ``2 ** most_bits`` chunks, in 20 bytes a place.

    One thread may add while others find: a number is written behind its key, and never changed.
    Chunks hold no NUL.
    """

    def __init__(self, most_bits: int) -> None:
        self._most_bits = most_bits
        self._places = _Places.empty(FIRST_BITS)
        self._held = 0

    def find(self, data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> NDArray[np.int32]:
        """The number of each chunk ``data[bounds[i]:bounds[i + 1]]``, -1 where it is not held.

        ``bounds``: shape (m + 1,), ascending. The last few chunks, where fewer than 16 bytes are
        left to read, are not found. Returns shape (m,).
        """
        found = np.full(len(bounds) - 1, NONE, np.int32)
        readable = int(np.searchsorted(bounds[:-1], len(data) - KEY_BYTES, "right"))
        places = self._places
        for start in range(0, readable, BLOCK):
            end = min(start + BLOCK, readable)
            low, high = _keys(data, bounds[start:end], np.diff(bounds[start : end + 1]))
            found[start:end] = _find(places, low, high)
        return found

    def add(
        self, data: NDArray[np.uint8], bounds: NDArray[np.int64], numbers: NDArray[np.int32]
    ) -> None:
        """Hold chunks, no two of them equal, as many as find a place; arguments as in :meth:`find`.

        Those held already keep their number; those whose number is -1 are left out.
        """
        padded = np.concatenate((data, np.zeros(KEY_BYTES, np.uint8)))
        lengths = np.diff(bounds)
        fits = np.flatnonzero((lengths > 0) & (lengths <= LONGEST) & (numbers != NONE))
        low, high = _keys(padded, bounds[fits], lengths[fits])
        new = _find(self._places, low, high) == NONE
        if 2 * (self._held + np.count_nonzero(new)) > 1 << self._places.bits:
            self._grow(self._held + int(np.count_nonzero(new)))
        self._held += _fill(self._places, low[new], high[new], numbers[fits[new]])

    def _grow(self, wanted: int) -> None:
        """At least four times as many places as are wanted, or as many as there may be."""
        bits = min(wanted.bit_length() + 2, self._most_bits)
        if bits <= self._places.bits:
            return
        old, places = self._places, _Places.empty(bits)
        full = np.flatnonzero(old.numbers != NONE)
        low, high = old.keys[full].T
        self._held = _fill(places, low, high, old.numbers[full])
        self._places = places


def _keys(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[Keys, Keys]:
    """The first eight bytes of each chunk, and the others under its length; 16 are read."""
    words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, 0, (1,))  # begins at every byte
    lengths = np.minimum(lengths, LONGEST + 1)
    low = words[starts]
    low &= _LOW.take(lengths, mode="clip")
    high = words[starts + 8]
    high &= _HIGH.take(lengths, mode="clip")
    high |= lengths.view(np.uint64) << _TO_TOP
    return low, high


def _place(low: Keys, high: Keys, bits: int) -> NDArray[np.int64]:
    """The first place of each key; the others differ in the last two bits."""
    mixed = low * _ONE
    mixed += high
    mixed *= _TWO
    mixed ^= mixed >> _FOLD
    mixed *= _ONE
    mixed >>= np.uint64(64 - bits)
    return mixed.view(np.int64)


def _find(places: _Places, low: Keys, high: Keys) -> NDArray[np.int32]:
    first = _place(low, high, places.bits)
    found = places.numbers.take(first, mode="clip")
    left = np.flatnonzero(~places.hold(first, low, high))
    found[left] = NONE
    for other in range(1, WAYS):
        at = first[left] ^ other
        there = places.hold(at, low[left], high[left])
        found[left[there]] = places.numbers[at[there]]
        left = left[~there]
    return found


def _fill(places: _Places, low: Keys, high: Keys, numbers: NDArray[np.int32]) -> int:
    """Put keys that are not held where there is room; returns how many found it."""
    first = _place(low, high, places.bits)
    left = np.arange(len(low))
    for other in range(WAYS):
        at = first[left] ^ other
        free = places.numbers[at] == NONE
        free_at, tried = at[free], left[free]
        places.keys[free_at, 0], places.keys[free_at, 1] = low[tried], high[tried]
        stays = places.hold(free_at, low[tried], high[tried])  # of several for one place the last
        places.numbers[free_at[stays]] = numbers[tried[stays]]
        free[free] = stays
        left = left[~free]
    return len(low) - len(left)
