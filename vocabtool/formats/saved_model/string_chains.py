"""A long run of short protobuf strings, followed along 2,560 chains at once.

Field leads to field: tag, length, payload. One chain through 400,000 words is 400,000 steps of
Python; here many begin together, each at what looks like a field some 2,000 bytes behind the last,
and NumPy moves them all. That each chain arrives where the next began proves every guess; those
that were wrong begin again there. Whatever is out of the ordinary (payloads of 128 bytes and more,
other fields between) is refused here and read by ``wire_arrays.py``, twice as slowly.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

CHAINS: Final = 2_560
STRIDE: Final = 2_000  # bytes from chain to chain: what all read at one time stays in the cache
BLOCK: Final = CHAINS * STRIDE
LOOK: Final = 48  # bytes searched for a field that a chain may begin with
MOST: Final = 400  # fields of a chain: five bytes each on average, or this is not the way
ROUNDS: Final = 4  # of mending wrong guesses
CHUNK: Final = 1 << 14  # fields checked together: larger arrays cost fresh pages each
STEPS: Final = 8  # between two looks whether all chains have arrived
NEVER: Final = np.iinfo(np.int32).max
LARGEST: Final = NEVER - STEPS * 257  # where a chain may stand; it may run on for some steps

Bytes = NDArray[np.uint8]
Positions = NDArray[np.signedinteger[Any]]
Fields = NDArray[np.int32]


def block_of_fields(array: Bytes, pos: int, tag: int) -> Fields | None:
    """Where the fields ``tag`` from ``pos`` on stand, up to the end or some ``BLOCK`` bytes.

    Returns the positions of the tags, int32, and behind them where the last payload ends. ``None``:
    read it another way.
    """
    end = len(array)
    if end - pos < STRIDE or end > LARGEST or array[pos] != tag:
        return None
    bounds = np.arange(pos, min(pos + BLOCK, end), STRIDE, dtype=np.int32) + np.int32(STRIDE)
    np.minimum(bounds, end, out=bounds)
    starts = _guesses(array, bounds, tag)
    if np.count_nonzero(starts) < len(starts) * 7 // 8:
        return None
    starts = np.concatenate(([pos], starts[:-1]))
    found = _follow(array, starts, bounds)
    return None if found is None else _joined(array, found, starts, bounds, tag)


def _guesses(array: Bytes, bounds: Positions, tag: int) -> Positions:
    """For each bound the first place behind it that looks like a field followed by one, or 0."""
    guesses: Positions = bounds + (_windows(array, bounds) == tag).argmax(axis=1)
    doubtful = np.flatnonzero(~_leads_on(array, guesses, tag))
    places = bounds[doubtful, None] + np.arange(LOOK)
    fits = _leads_on(array, places, tag)
    guesses[doubtful] = np.where(fits.any(axis=1), bounds[doubtful] + fits.argmax(axis=1), 0)
    return guesses


def _windows(array: Bytes, places: Positions) -> Bytes:
    """The bytes at and behind each place, shape (n, LOOK)."""
    windows = np.lib.stride_tricks.sliding_window_view(array, LOOK)
    rows: Bytes = windows[np.minimum(places, len(windows) - 1)]
    return rows


def _leads_on(array: Bytes, places: Positions, tag: int) -> NDArray[np.bool_]:
    """Whether a field may stand at each place: the tag, and the tag again behind its payload."""
    following = places + 2 + array.take(places + 1, mode="clip")
    fits: NDArray[np.bool_] = array.take(places, mode="clip") == tag
    fits &= array.take(following, mode="clip") == tag
    return fits


def _follow(array: Bytes, starts: Positions, bounds: Positions) -> Fields | None:
    """Follow a chain from each start to the first field at its bound or past it, and some more.

    Returns the fields' positions, one row a chain.
    """
    found = np.empty((len(starts), MOST), np.int32)
    lengths = np.empty(len(starts), np.uint8)
    places, behind_tags = starts.astype(np.int64), array[1:]
    for step in range(MOST):
        found[:, step] = places
        if step % STEPS == STEPS - 1 and bool((places >= bounds).all()):
            return found[:, : step + 1]
        behind_tags.take(places, mode="clip", out=lengths)
        places += lengths
        places += 2
    return None


def _joined(
    array: Bytes, found: Fields, starts: Positions, bounds: Positions, tag: int
) -> Fields | None:
    """The chains' fields one behind the other, once each chain leads to the next."""
    rows = np.arange(len(starts))
    for _ in range(ROUNDS):
        inside = found < bounds[:, None]
        counts = inside.argmin(axis=1)
        arrivals = found[rows, counts]
        wrong = np.flatnonzero(arrivals[:-1] != starts[1:]) + 1
        if not len(wrong):
            inside[-1, counts[-1]] = True
            fields: Fields = found[inside]
            return fields if _plain(array, fields, tag) else None
        starts[wrong] = arrivals[wrong - 1]
        again = _follow(array, starts[wrong], bounds[wrong])
        if again is None or again.shape[1] > found.shape[1]:
            return None
        found[wrong, : again.shape[1]] = again
        found[wrong, again.shape[1] :] = NEVER
    return None


def _plain(array: Bytes, fields: Fields, tag: int) -> bool:
    """Whether all are the field ``tag``, of one byte of length, and none runs past the end."""
    if fields[-1] > len(array):
        return False
    for at in range(0, len(fields) - 1, CHUNK):
        some = fields[at : at + CHUNK + 1]
        if np.diff(some).max() >= 2 + 128 or (array.take(some[:-1]) != tag).any():
            return False
    return True
