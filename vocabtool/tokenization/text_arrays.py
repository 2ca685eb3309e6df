"""Texts cut into strings, as Arrow arrays: what every step from text to words takes and gives.

Strings are bytes here, as they are in TensorFlow: an Arrow ``string`` array whose content need not
be UTF-8. On ``binary`` arrays Arrow's regular expressions would match bytes instead of characters.
The steps are in ``strings.py``, ``normalizing.py``, ``tokenizing.py``, ``bert.py``, ``ngrams.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError
from vocabtool.vocabulary import encode, is_utf8

if TYPE_CHECKING:
    import pyarrow as pa


class Cut(NamedTuple):
    """The strings that ``n`` texts were cut into.

    ``values``: Arrow ``string`` array of length m, without nulls, perhaps not UTF-8.
    ``offsets``: int64, shape (n + 1,), ascending from 0 to m; those of text ``i`` are
    ``values[offsets[i]:offsets[i + 1]]``.
    """

    values: pa.StringArray
    offsets: NDArray[np.int64]


class Step(Protocol):
    """One step from text to words; steps are frozen dataclasses, equal when they do the same."""

    @property
    def local(self) -> bool:
        """Whether it may be applied to what stands between ASCII whitespace, piece by piece.

        True only where the step treats each piece alone, whatever stands around it, and makes
        ASCII whitespace of ASCII whitespace: then texts may be cut there first.
        """

    def apply(self, cut: Cut) -> Cut:
        """Change the strings, or cut each further."""

    def describe(self) -> str:
        """What it does, in plain words: ``lower-case A to Z``."""


def string_array(texts: Iterable[str | bytes]) -> pa.StringArray:
    """Texts as an Arrow ``string`` array; ``bytes`` need not be UTF-8."""
    import pyarrow as pa

    return as_strings(pa.array(list(map(text_bytes, texts)), pa.binary()))


def texts_array(texts: pa.Array | Iterable[str | bytes]) -> pa.StringArray:
    """Texts, which may lie in an Arrow array of another type of strings.

    Raises :class:`VocabtoolError` where one is null, ``TypeError`` for what holds no texts.
    """
    import pyarrow as pa

    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if not isinstance(texts, pa.Array):
        if isinstance(texts, str | bytes):
            raise TypeError("wanted several texts, got one: put it in a list")
        return string_array(texts)
    if texts.null_count:
        raise VocabtoolError("a text that is null is not a text: fill or drop it first")
    if pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type):
        texts = texts.cast(pa.binary())
    return as_strings(texts)


def text_bytes(text: str | bytes) -> bytes:
    """A text as bytes. Raises ``TypeError`` for what is no text."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        try:
            return encode(text)
        except UnicodeEncodeError:  # half a character of UTF-16, as JSON may hold
            return text.encode("utf-8", "surrogatepass")
    raise TypeError(f"wanted a text (str or bytes), got {type(text).__name__}")


def as_strings(array: pa.Array) -> pa.StringArray:
    """A ``binary`` or ``string`` array as ``string``, without a look at its bytes."""
    import pyarrow as pa

    return array.view(pa.string())


def not_utf8(texts: pa.StringArray) -> int:
    """How many texts are not UTF-8; where all are, Arrow says so at 2 GB/s and more."""
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return sum(not is_utf8(text) for text in as_bytes(texts))
    return 0


def as_bytes(array: pa.StringArray) -> list[bytes]:
    """The strings as Python ``bytes``, UTF-8 or not."""
    import pyarrow as pa

    found: list[bytes] = array.view(pa.binary()).to_pylist()
    return found


def whole(texts: pa.StringArray) -> Cut:
    """Each text as its own and only string."""
    return Cut(texts, np.arange(len(texts) + 1, dtype=np.int64))


def cut_further(cut: Cut, values: pa.StringArray, offsets: NDArray[np.int64]) -> Cut:
    """Each string of ``cut`` cut into ``values[offsets[j]:offsets[j + 1]]``."""
    return Cut(values, offsets[cut.offsets])


def per_text(cut: Cut) -> list[list[bytes]]:
    """The strings of each text as ``bytes``: for tests and for small answers."""
    values = as_bytes(cut.values)
    bounds = cut.offsets.tolist()
    return [values[start:end] for start, end in pairwise(bounds)]
