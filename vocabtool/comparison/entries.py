"""Entries as Arrow arrays of type ``large_binary``: from byte strings and back to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vocabtool.system.byte_strings import CHUNK, ByteStrings

if TYPE_CHECKING:
    import pyarrow as pa


def arrow(*parts: ByteStrings) -> pa.LargeBinaryArray:
    """Byte strings as an array; several one behind the other."""
    import pyarrow as pa

    lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
    offsets = np.cumsum(lengths, out=lengths)
    data = b"".join(piece for part in parts for piece in _closed_up(part))
    held = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, held)


def _closed_up(entries: ByteStrings) -> Iterator[bytes]:
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


def take(entries: pa.Array, places: NDArray[np.integer[Any]]) -> pa.Array:
    """The entries at ``places``; unlike ``pa.array``, it does not load pandas, where that is."""
    import pyarrow as pa

    buffer = pa.py_buffer(places.astype(np.int64, copy=False))
    return entries.take(pa.Int64Array.from_buffers(pa.int64(), len(places), [None, buffer]))


def integers(numbers: pa.Int32Array) -> NDArray[np.integer[Any]]:
    """An array of ``int32`` without nulls; unlike ``to_numpy``, it does not load pandas."""
    found = np.frombuffer(numbers.buffers()[1] or b"", np.int32)
    return found[numbers.offset : numbers.offset + len(numbers)]


def bools(truths: pa.BooleanArray) -> NDArray[np.bool_]:
    """An array of booleans without nulls, the same way."""
    import pyarrow as pa

    found = np.frombuffer(truths.cast(pa.uint8()).buffers()[1] or b"", np.bool_)
    return found[: len(truths)]


def byte_strings(entries: pa.LargeBinaryArray) -> ByteStrings:
    """An array as byte strings."""
    data, bounds = buffers(entries)
    return ByteStrings(data.tobytes(), bounds[:-1], bounds[1:])


def buffers(entries: pa.LargeBinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all the entries, and where each begins and the last ends, shape (n + 1,)."""
    _, offsets, data = entries.buffers()
    bounds = np.zeros(1, np.int64)
    if offsets is not None and len(entries):
        bounds = np.frombuffer(offsets, np.int64)[entries.offset :][: len(entries) + 1]
    return np.frombuffer(data if data is not None else b"", np.uint8), bounds
