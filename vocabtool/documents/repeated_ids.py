"""Ids that repeat, found in a stream with 16 bytes a document; where both stand is told.

An id is held as 64 bits of Python's own hash of its bytes (SipHash, keyed), 24 bits of its CRC-32
and 40 bits of a position, in sorted arrays that are merged as they grow. Memory has the 64 bits;
the rest, which is looked at only where they agree, is mapped from files in the temporary folder.
Positions count through all sources, so that a table of one entry per source turns them into places.
The chance that two of a thousand million ids that nobody made for it share a hash is below one in
three hundred million.
What becomes of a repeated one is decided in ``documents.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError

if TYPE_CHECKING:
    import pyarrow as pa

POSITION: Final = 40  # bits; the upper 24 of the same number belong to the hash
MOST_POSITIONS: Final = 1 << POSITION
LEAST_MERGED: Final = 1 << 18  # ids in runs that are always merged: 4 MB
LEAST_MAPPED: Final = 1 << 16  # ids in runs of which half goes to a file: 512 kB of it
SHARE: Final = 8  # larger runs are merged while they are this part of all at most

Numbers = NDArray[np.uint64]


class Repeats(NamedTuple):
    """``rows``: int64, shape (r,), ascending, rows of a batch whose ids were there before.

    ``earlier``: int64, shape (r,), the positions where those were.
    """

    rows: NDArray[np.int64]
    earlier: NDArray[np.int64]


class Places:
    """Positions in a stream of sources: ascending numbers, for which one table entry a source does.

    A position is the number in its source and the last positions of the sources before it.
    """

    def __init__(self) -> None:
        self._sources: list[str] = []
        self._bases: list[int] = []
        self._last = 0

    def add(self, source: str, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of a batch's rows: int64, shape (n,); ``numbers``: ascending, from 1."""
        if not len(numbers):
            return numbers
        goes_on = bool(self._sources) and self._sources[-1] == source
        if not goes_on or int(numbers[0]) <= self._last - self._bases[-1]:
            self._sources.append(source)
            self._bases.append(self._last)
        self._last = self._bases[-1] + int(numbers[-1])
        if self._last >= MOST_POSITIONS:
            raise VocabtoolError(f"{source}: more than {MOST_POSITIONS:,} rows in all")
        return numbers + self._bases[-1]

    def of(self, position: int) -> str:
        """Where that is, as in ``corpus.jsonl:17``."""
        at = bisect_right(self._bases, position - 1) - 1
        return f"{self._sources[at]}:{position - self._bases[at]}"


class _Run(NamedTuple):
    """Ids in the order of their hashes.

    ``heads``: the upper 64 bits of each. ``tails``: 24 further ones, and the position.
    """

    heads: Numbers
    tails: Numbers


class RepeatedIds:
    """The ids of a stream, of each the hash and one position."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(len(run.heads) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """How many bytes are held, in memory and in files."""
        return sum(run.heads.nbytes + run.tails.nbytes for run in self._runs)

    def add(self, ids: pa.StringArray, positions: NDArray[np.int64]) -> Repeats:
        """Take the next ids, and tell which were there before: where each was first.

        ``ids``: Arrow array of length n without nulls; ``positions``: shape (n,), ascending beyond
        those that were given earlier.
        """
        heads, tails = _hashes(ids)
        tails |= positions.astype(np.uint64)
        order = np.lexsort((tails, heads))
        run = _Run(heads[order], tails[order])
        earlier = self._earlier(run)
        new = earlier < 0
        if new.any():
            self._keep(run if new.all() else _Run(run.heads[new], run.tails[new]))
        repeated = np.sort(order[~new])
        found = np.empty(len(order), np.int64)
        found[order] = earlier
        return Repeats(repeated, found[repeated])

    def _earlier(self, new: _Run) -> NDArray[np.int64]:
        """Where each id was first, and -1 for those that are new: int64, shape (n,)."""
        earlier = np.full(len(new.heads), -1, np.int64)
        for run in self._runs:
            _look_up(new, run, earlier)
        starts = _first_of_equals(new)
        first = np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))
        again = ~starts & (earlier < 0)
        earlier[again] = _positions(new.tails)[first[again]]
        return earlier

    def _keep(self, run: _Run) -> None:
        """Hold a run; the last two become one while the last is not the smaller one.

        Runs thus double, and there are few; large ones stay as they are, so that a merge, which
        needs memory for both and for their sum, needs little beside what all hold.
        """
        self._runs.append(run)
        most = max(LEAST_MERGED, len(self) // SHARE)
        while len(self._runs) > 1:
            size, last = (len(each.heads) for each in self._runs[-2:])
            if last < size or size + last > most:
                break
            self._runs[-2:] = [_merged(*self._runs[-2:])]
        heads, tails = self._runs[-1]
        if len(heads) >= LEAST_MAPPED:
            self._runs[-1] = _Run(heads, _mapped(tails))


def _hashes(ids: pa.StringArray) -> _Run:
    import pyarrow as pa

    given = ids.view(pa.binary()).to_pylist()
    heads = np.fromiter(map(hash, given), np.int64, len(given)).view(np.uint64)
    tails = np.fromiter(map(crc32, given), np.uint64, len(given))
    return _Run(heads, tails << np.uint64(POSITION))


def _look_up(new: _Run, run: _Run, earlier: NDArray[np.int64]) -> None:
    """Write into ``earlier`` the positions of the new ids that a run holds."""
    starts = np.searchsorted(run.heads, new.heads)
    candidates = np.flatnonzero(run.heads[np.minimum(starts, len(run.heads) - 1)] == new.heads)
    at = starts[candidates]
    same = _codes(run.tails[at]) == _codes(new.tails[candidates])
    earlier[candidates[same]] = _positions(run.tails[at[same]])
    for row in candidates[~same].tolist():  # 64 bits agree and 24 do not: once in a long life
        equal = slice(int(starts[row]), int(np.searchsorted(run.heads, new.heads[row], "right")))
        found = run.tails[equal][_codes(run.tails[equal]) == _codes(new.tails[row])]
        earlier[row] = _positions(found)[0] if len(found) else earlier[row]


def _first_of_equals(run: _Run) -> NDArray[np.bool_]:
    """Whether an id differs from the one before it: shape (n,)."""
    differ = run.heads[1:] != run.heads[:-1]
    differ |= _codes(run.tails[1:]) != _codes(run.tails[:-1])
    return np.append(np.ones(min(len(run.heads), 1), np.bool_), differ)


def _codes(tails: Numbers) -> Numbers:
    """The bits of the hash."""
    return tails >> np.uint64(POSITION)


def _positions(tails: Numbers) -> NDArray[np.int64]:
    return (tails & np.uint64(MOST_POSITIONS - 1)).astype(np.int64)


def _mapped(tails: Numbers) -> Numbers:
    """The same from a file, so that no memory holds them; as they are where none can be written."""
    try:
        with TemporaryFile() as file:
            file.write(tails.data)
            file.flush()
            return np.asarray(np.memmap(file, np.uint64, "r", shape=tails.shape))
    except OSError:
        return tails


def _merged(one: _Run, other: _Run) -> _Run:
    heads = np.concatenate([one.heads, other.heads])
    order = np.argsort(heads, kind="stable")  # finds the two runs, and merges them
    tails = np.concatenate([one.tails, other.tails])[order]
    return _Run(heads[order], tails)
