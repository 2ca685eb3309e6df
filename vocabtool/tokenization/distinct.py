"""Python functions applied to Arrow strings, once per distinct string, only where they matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.text_arrays import as_bytes, as_strings

if TYPE_CHECKING:
    import pyarrow as pa


def changed(
    values: pa.StringArray,
    fast: Callable[[pa.StringArray], pa.StringArray],
    slow: Callable[[bytes], bytes],
) -> pa.StringArray:
    """``slow`` applied to each string; ``fast``, which does the same, where all are ASCII.

    NUL counts as not ASCII: some of TensorFlow's ops end a text there.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    easy = pc.and_(pc.string_is_ascii(values), pc.invert(pc.match_substring(values, pattern="\0")))
    hard = pc.invert(easy)
    count = pc.sum(hard).as_py() or 0
    if not count:
        return fast(values)
    mapped = mapped_once(values.filter(hard), slow)
    if count == len(values):
        return mapped
    binary = pc.replace_with_mask(fast(values).view(pa.binary()), hard, mapped.view(pa.binary()))
    return as_strings(binary)


def mapped_once(values: pa.StringArray, change: Callable[[bytes], bytes]) -> pa.StringArray:
    """``change`` applied to each string, once for equal ones."""
    import pyarrow as pa

    encoded = values.view(pa.binary()).dictionary_encode()
    results = pa.array([change(entry) for entry in encoded.dictionary.to_pylist()], pa.binary())
    return as_strings(results.take(encoded.indices))


def split_once(
    values: pa.StringArray, split: Callable[[bytes], Sequence[bytes]]
) -> tuple[pa.StringArray, NDArray[np.int64]]:
    """Each string cut into those that ``split`` makes of it, once for equal ones.

    Returns all of them, and offsets of shape (len(values) + 1,).
    """
    import pyarrow as pa

    encoded = values.view(pa.binary()).dictionary_encode()
    parts = [split(entry) for entry in as_bytes(encoded.dictionary)]
    bounds = [0, *accumulate(map(len, parts))]
    flat = pa.array(list(chain.from_iterable(parts)), pa.binary())
    lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), flat).take(encoded.indices)
    return as_strings(lists.flatten()), list_offsets(lists)


def list_offsets(lists: pa.ListArray) -> NDArray[np.int64]:
    """The offsets of a list array without nulls, beginning at 0: int64, shape (n + 1,)."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    found: NDArray[np.int64] = offsets - (offsets[0] if len(offsets) else 0)
    return found
