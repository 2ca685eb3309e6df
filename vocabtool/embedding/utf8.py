"""Strings that need not be UTF-8 made into strings that are, for files that others read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import bounds
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

HEAD_BITS, CONTINUES = np.uint8(0xC0), np.uint8(0x80)  # of a byte inside a character
REPLACED: Final = "replace"  # by U+FFFD


def as_utf8(strings: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.bool_]]:
    """The same strings with U+FFFD in place of bytes that are not UTF-8, and where that was done.

    Nulls stay. Returns an array of length n and bool, shape (n,).
    """
    import pyarrow as pa

    if _all_utf8(strings):
        return strings, np.zeros(len(strings), np.bool_)
    held = strings.view(pa.binary()).to_pylist()
    strange = np.array([text is not None and not is_utf8(text) for text in held], np.bool_)
    told = [None if text is None else text.decode("utf-8", REPLACED) for text in held]
    return pa.array(told, pa.string()), strange


def _all_utf8(strings: pa.StringArray) -> bool:
    """Whether the bytes are UTF-8 as a whole, and no string begins inside a character."""
    if not len(strings):
        return True
    ends = bounds(strings)
    data = memoryview(strings.buffers()[2] or b"")[int(ends[0]) : int(ends[-1])]
    letters = np.frombuffer(data, np.uint8)
    starts = ends[:-1][ends[:-1] < ends[-1]] - ends[0]
    inside = (letters[starts] & HEAD_BITS) == CONTINUES
    return not inside.any() and is_utf8(bytes(data))
