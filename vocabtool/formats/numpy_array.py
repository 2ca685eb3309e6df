"""The head of a ``.npy`` array: its type, its shape, and where its numbers begin.

Layout: numpy.org/doc/stable/reference/generated/numpy.lib.format.html. The head is a Python
dictionary as text; it is matched here, never evaluated, and an array of objects (a pickle) is
refused. The numbers themselves are left to the caller.
"""

from __future__ import annotations

import math
import re
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat

MAGIC: Final = b"\x93NUMPY"
LONGEST: Final = 1 << 14  # bytes of the dictionary; NumPy pads it to 118
DICTIONARY: Final = re.compile(
    rb"\{'descr': *'([<>|=]?[a-zA-Z][0-9]{0,9})', *'fortran_order': *(True|False), *"
    rb"'shape': *\(((?:[0-9]{1,18},? ?){0,8})\),? *\} *\n?"
)


class ArrayHead(NamedTuple):
    """``start``: bytes before the first number. ``by_column``: stored column after column."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    by_column: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return self.dtype.itemsize * math.prod(self.shape)


def read_head(file: BinaryIO) -> ArrayHead:
    """Read the head of an array from where ``file`` stands, up to its first number.

    Raises :class:`InvalidFile` where it is not one, :class:`UnsupportedFormat` for an array of
    objects or of records.
    """
    fixed = file.read(8)
    if not fixed.startswith(MAGIC) or len(fixed) < 8 or fixed[6] not in (1, 2, 3):
        raise InvalidFile(f"not a NumPy array: it begins {fixed.hex(' ')}", offset=0)
    width = 2 if fixed[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > LONGEST:
        raise InvalidFile(f"an array's head of {length:,} bytes, wanted at most {LONGEST:,}")
    text = file.read(length)
    match = DICTIONARY.fullmatch(text)
    if match is None:
        raise UnsupportedFormat(f"a NumPy array that is neither numbers nor text: {text[:80]!r}")
    descr, by_column, shape = match.groups()
    try:
        dtype = np.dtype(descr.decode())
        sizes = tuple(int(size) for size in shape.replace(b" ", b"").split(b",") if size)
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"a NumPy array of type {descr!r}, shape {shape[:40]!r}") from error
    if dtype.hasobject:
        raise UnsupportedFormat(
            "an array of Python objects, which is a pickle and never loaded: save it again with "
            "`array.astype(str)`"
        )
    return ArrayHead(dtype, sizes, by_column == b"True", 8 + width + length)
