"""The columns of a shard: their names, types, and how they are filled."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import bounds
from vocabtool.embedding.options import Dtype
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import is_utf8

Vectors = NDArray[np.float32]

ID: Final = "id"
TEXT: Final = "text"
VECTOR: Final = "vector"
UNKNOWN: Final = "unknown"
RESERVED: Final = (ID, VECTOR, UNKNOWN, TEXT)  # no kept field may be called so
REPLACE: Final = "replace"  # bytes that are no UTF-8 by U+FFFD
HEAD_BITS, CONTINUES = np.uint8(0xC0), np.uint8(0x80)  # of a byte inside a character


def shard_schema(
    dim: int, dtype: Dtype, keep: tuple[str, ...], *, words: bool, text: bool
) -> pa.Schema:
    """The columns of a shard; ``words``, ``text``: whether unknown words and texts are stored."""
    number = pa.float16() if dtype == "float16" else pa.float32()
    vector = pa.list_(pa.field("element", number, nullable=False), dim)
    columns = [pa.field(ID, pa.string(), nullable=False), pa.field(VECTOR, vector, nullable=False)]
    if words:
        word = pa.field("element", pa.string(), nullable=False)
        columns.append(pa.field(UNKNOWN, pa.list_(word), nullable=False))
    if text:
        columns.append(pa.field(TEXT, pa.string(), nullable=False))
    return pa.schema([*columns, *(pa.field(name, pa.string()) for name in keep)])


def vector_array(vectors: Vectors, dtype: Dtype) -> pa.FixedSizeListArray:
    """Vectors as a column. Raises :class:`InvalidFile` where float16 does not hold a number."""
    if dtype == "float16":
        largest = np.finfo(np.float16).max
        if np.abs(vectors).max(initial=0) > largest:
            raise InvalidFile(f"a vector holds a number beyond {largest}: --dtype float32 holds it")
        vectors = vectors.astype(np.float16)
    numbers = pa.array(vectors.reshape(-1))
    element = pa.field("element", numbers.type, nullable=False)
    return pa.FixedSizeListArray.from_arrays(numbers, type=pa.list_(element, vectors.shape[1]))


def vectors_of(batch: pa.RecordBatch) -> Vectors:
    """The vectors of a batch of rows: float32, shape (n, dim)."""
    column = batch.column(VECTOR)
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
    return vectors.astype(np.float32, copy=False)


def as_utf8(strings: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.bool_]]:
    """The same strings with U+FFFD in place of bytes that are not UTF-8, and where that was done.

    Nulls stay. Returns an array of length n and bool, shape (n,).
    """
    if _all_utf8(strings):
        return strings, np.zeros(len(strings), np.bool_)
    binary = strings.view(pa.binary()).to_pylist()
    replaced = np.array([text is not None and not is_utf8(text) for text in binary], np.bool_)
    texts = [None if text is None else text.decode("utf-8", REPLACE) for text in binary]
    return pa.array(texts, pa.string()), replaced


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
