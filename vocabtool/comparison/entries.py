"""Entries as Arrow arrays of type ``large_binary``, and which of them two vocabularies hold.

The conversions here do without ``pa.array`` and ``to_numpy``, which load pandas where that is
installed: a third of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.system.byte_strings import CHUNK, ByteStrings

LONG: Final = 255  # bytes: entries of so many or more are few, and are looked at together


def arrow(*parts: ByteStrings) -> pa.LargeBinaryArray:
    """Byte strings as one array, the parts one behind the other."""
    lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
    offsets = np.cumsum(lengths, out=lengths)
    data = b"".join(piece for part in parts for piece in _contents(part))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _contents(entries: ByteStrings) -> Iterator[bytes]:
    """The bytes of all entries; quickly for lines, each one byte behind the one before."""
    starts, ends = entries.starts, entries.ends
    if not len(entries) or not np.array_equal(starts[1:], ends[:-1] + 1):
        yield from entries.pieces(b"")
        return
    data = np.frombuffer(entries.data, np.uint8)
    for at in range(0, len(entries), CHUNK):
        stops = ends[at : at + CHUNK]
        first, last = int(starts[at]), int(stops[-1])
        kept = np.ones(last - first, np.bool_)
        kept[stops[:-1] - first] = False
        yield data[first:last].compress(kept).tobytes()


def byte_strings(entries: pa.LargeBinaryArray) -> ByteStrings:
    """An array as byte strings."""
    data, bounds = contents(entries)
    return ByteStrings(data.tobytes(), bounds[:-1], bounds[1:])


def contents(entries: pa.LargeBinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all entries, and where each begins and the last ends, shape (n + 1,)."""
    _, offsets, data = entries.buffers()
    bounds = np.zeros(1, np.int64)
    if offsets is not None and len(entries):
        bounds = np.frombuffer(offsets, np.int64)[entries.offset :][: len(entries) + 1]
    return np.frombuffer(data if data is not None else b"", np.uint8), bounds


def take(entries: pa.Array, places: NDArray[np.integer[Any]]) -> pa.Array:
    """The entries at ``places``."""
    buffer = pa.py_buffer(places.astype(np.int64, copy=False))
    return entries.take(pa.Int64Array.from_buffers(pa.int64(), len(places), [None, buffer]))


def replace(
    entries: pa.LargeBinaryArray, places: NDArray[np.intp], others: pa.LargeBinaryArray
) -> pa.LargeBinaryArray:
    """The entries, with ``others`` in place of those at ``places``."""
    if not len(places):
        return entries
    order = np.arange(len(entries))
    order[places] = np.arange(len(entries), len(entries) + len(places))
    return take(pa.concat_arrays([entries, others]), order)


def integers(numbers: pa.Int32Array) -> NDArray[np.integer[Any]]:
    """An array of ``int32`` without nulls."""
    values = np.frombuffer(numbers.buffers()[1] or b"", np.int32)
    return values[numbers.offset : numbers.offset + len(numbers)]


def booleans(truths: pa.BooleanArray) -> NDArray[np.bool_]:
    """An array of booleans without nulls."""
    values = np.frombuffer(truths.cast(pa.uint8()).buffers()[1] or b"", np.bool_)
    return values[: len(truths)]


def membership(numbers: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """True at each of ``numbers``: shape (count,)."""
    marks = np.zeros(count, np.bool_)
    marks[numbers] = True
    return marks


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The entries of a :class:`Union` that one vocabulary holds, in id order.

    ``numbers``: int64, shape (d,), where each of its d different entries stands in ``tokens``.
    ``positions``: int64, shape (d,), where it stands first in the vocabulary.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Union:
    """The different entries of A and B: what a comparison counts on.

    ``tokens``: large_binary, length u: A's in id order, then those that only B holds, in its
    order. ``a``, ``b``: which of them each holds, and where.
    """

    tokens: pa.LargeBinaryArray
    a: Members
    b: Members

    @classmethod
    def of(cls, entries: pa.LargeBinaryArray, size_a: int) -> Union:
        """A's entries and B's one behind the other; ``size_a``: how many are A's.

        Entries that repeat an earlier one of the same side are left out.
        """
        first = _first_places(entries)
        new = first == np.arange(len(entries))
        numbers = (np.cumsum(new) - 1)[first]
        tokens = take(entries, np.flatnonzero(new))
        a, b = (_members(side, len(tokens)) for side in (numbers[:size_a], numbers[size_a:]))
        return cls(tokens, a, b)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def in_a(self) -> NDArray[np.bool_]:
        """Whether A holds each token: shape (u,)."""
        return membership(self.a.numbers, len(self))

    @cached_property
    def in_b(self) -> NDArray[np.bool_]:
        """Whether B holds each token: shape (u,)."""
        return membership(self.b.numbers, len(self))


def _first_places(entries: pa.LargeBinaryArray) -> NDArray[np.int64]:
    """Where each entry stands first: shape (n,).

    Entries of one length are compared with each other only: small tables stay in the cache.
    """
    lengths = np.minimum(np.diff(contents(entries)[1]), LONG).astype(np.uint8)
    order = np.argsort(lengths, kind="stable")
    by_length = take(entries, order)
    first = np.empty(len(entries), np.int64)
    start = 0
    for count in np.bincount(lengths).tolist():
        places = order[start : start + count]
        encoded = by_length.slice(start, count).dictionary_encode()
        numbers = integers(encoded.indices)
        first[places] = places[_first_of_each(numbers, len(encoded.dictionary))[numbers]]
        start += count
    return first


def _members(numbers: NDArray[np.int64], count: int) -> Members:
    """From the number of each entry, repeated ones too."""
    positions = np.flatnonzero(_first_of_each(numbers, count)[numbers] == np.arange(len(numbers)))
    return Members(numbers[positions], positions)


def _first_of_each(numbers: NDArray[np.integer[Any]], count: int) -> NDArray[np.int64]:
    """Where each number stands first: shape (count,); undefined for one that does not occur."""
    first = np.empty(count, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of equal ones the earliest stays
    return first
