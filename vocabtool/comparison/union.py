"""The entries of two vocabularies told apart once: all that a comparison is counted on.

What the entries are made of and what becomes of them is asked elsewhere.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.comparison.entries import buffers, integers, take

if TYPE_CHECKING:
    import pyarrow as pa

LONG: Final = 255  # bytes: entries of so many or more are few, and looked at together


class Held(NamedTuple):
    """What one vocabulary holds of a :class:`Union`.

    ``numbers``: int64, shape (d,), the place in ``tokens`` of each of its d different entries, in
    id order. ``positions``: int64, shape (d,), where it stands first in the vocabulary.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]


class Union:
    """The different entries of A and B.

    ``tokens``: large_binary, length u: A's in id order, then those that only B holds, in its
    order. ``a``, ``b``: which of them each holds, and where.
    """

    def __init__(self, tokens: pa.LargeBinaryArray, a: Held, b: Held) -> None:
        self.tokens = tokens
        self.a = a
        self.b = b

    @classmethod
    def of(cls, a: pa.LargeBinaryArray, b: pa.LargeBinaryArray) -> Union:
        """Entries in id order; those that repeat an earlier one of the same side are left out."""
        import pyarrow as pa

        return cls.of_joined(pa.concat_arrays([a, b]), len(a))

    @classmethod
    def of_joined(cls, entries: pa.LargeBinaryArray, size_a: int) -> Union:
        """The same of A's entries and B's one behind the other; ``size_a``: how many are A's."""
        first = first_places(entries)
        new = first == np.arange(len(entries))
        numbers = (np.cumsum(new) - 1)[first]
        tokens = take(entries, np.flatnonzero(new))
        count = len(tokens)
        return cls(tokens, _held(numbers[:size_a], count), _held(numbers[size_a:], count))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def in_a(self) -> NDArray[np.bool_]:
        """Whether A holds each token: shape (u,)."""
        return membership(self.a.numbers, len(self))

    @cached_property
    def in_b(self) -> NDArray[np.bool_]:
        """Whether B does."""
        return membership(self.b.numbers, len(self))

    @cached_property
    def order_a(self) -> NDArray[np.int64]:
        """Where each token stands among A's different entries; 0 where A does not hold it."""
        return _order(self.a, len(self))

    @cached_property
    def order_b(self) -> NDArray[np.int64]:
        """The same of B."""
        return _order(self.b, len(self))


def _order(held: Held, count: int) -> NDArray[np.int64]:
    order = np.zeros(count, np.int64)
    order[held.numbers] = np.arange(len(held.numbers))
    return order


def membership(numbers: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """True at each of ``numbers``: shape (count,)."""
    marks = np.zeros(count, np.bool_)
    marks[numbers] = True
    return marks


def first_places(entries: pa.LargeBinaryArray) -> NDArray[np.int64]:
    """Where each entry stands first: shape (n,).

    Entries of one length are told apart together: small tables of them stay in the cache.
    """
    lengths = np.minimum(np.diff(buffers(entries)[1]), LONG).astype(np.uint8)
    order = np.argsort(lengths, kind="stable")
    by_length = take(entries, order)
    first = np.empty(len(entries), np.int64)
    start = 0
    for count in np.bincount(lengths).tolist():
        places = order[start : start + count]
        first[places] = places[_first_of(by_length.slice(start, count))]
        start += count
    return first


def _first_of(entries: pa.LargeBinaryArray) -> NDArray[np.int64]:
    encoded = entries.dictionary_encode()
    numbers = integers(encoded.indices)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of equal ones the earliest stays
    places: NDArray[np.int64] = first[numbers]
    return places


def _held(numbers: NDArray[np.int64], count: int) -> Held:
    """From the number of each entry, repeated ones too."""
    places = np.arange(len(numbers))
    if np.count_nonzero(membership(numbers, count)) == len(numbers):
        return Held(numbers, places)
    first = np.empty(count, np.int64)
    first[numbers[::-1]] = places[::-1]
    positions = np.flatnonzero(first[numbers] == places)
    return Held(numbers[positions], positions)
