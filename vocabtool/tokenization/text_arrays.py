"""Texts and tokens as Arrow arrays, and the base classes of steps.

Arrays have the type ``string``, although strings may be invalid UTF-8. In ``binary`` arrays,
Arrow's regular expressions would match bytes.

Do not rename the step classes or their fields. A rule's fingerprint is made from the ``repr`` of
its steps, and indexes store fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError
from vocabtool.vocabulary import is_utf8, printable, text_bytes

SPACE, TAB, RETURN = (np.uint8(ord(blank)) for blank in " \t\r")
Integers = NDArray[np.int64]
WHITESPACE = b" \t\n\v\f\r"  # as isspace() of C


class Tokens(NamedTuple):
    """The m strings of ``n`` texts. Text ``i`` has ``values[offsets[i]:offsets[i + 1]]``.

    ``values``: without nulls, possibly invalid UTF-8. ``offsets``: shape (n + 1,).
    """

    values: pa.StringArray
    offsets: Integers

    @classmethod
    def whole(cls, texts: pa.StringArray) -> Tokens:
        return cls(texts, np.arange(len(texts) + 1, dtype=np.int64))

    def filter(self, mask: NDArray[np.bool_]) -> Tokens:
        """Return the strings for which ``mask`` is true: shape (m,)."""
        return Tokens(self.values.filter(bool_array(mask)), starts_of(mask)[self.offsets])

    def to_lists(self) -> list[list[bytes]]:
        """Return the strings of each text as a list. This is slow for many strings."""
        values = as_bytes(self.values)
        return [values[start:end] for start, end in pairwise(self.offsets.tolist())]


class TokenCodes(NamedTuple):
    """:class:`Tokens`, each distinct string once. ``codes``: shape (m,), places in ``distinct``."""

    codes: NDArray[np.int32]
    offsets: Integers
    distinct: pa.StringArray

    @classmethod
    def encode(cls, tokens: Tokens) -> TokenCodes:
        encoded = tokens.values.view(pa.binary()).dictionary_encode()
        codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
        return cls(codes, tokens.offsets, encoded.dictionary.view(pa.string()))

    def of_texts(self, chunks: NDArray[np.int32], offsets: Integers) -> TokenCodes:
        """Combine ``chunks``, positions in ``self``, into texts that begin at ``offsets``."""
        counts = np.diff(self.offsets)
        if bool((counts == 1).all()):
            return TokenCodes(self.codes[chunks], offsets, self.distinct)
        lengths = counts[chunks]
        starts = starts_of(lengths)  # where the tokens of each chunk begin in the result
        positions = np.repeat(self.offsets[:-1][chunks] - starts[:-1], lengths)
        positions += np.arange(len(positions))
        return TokenCodes(self.codes[positions], starts[offsets], self.distinct)


def string_array(texts: Iterable[str | bytes]) -> pa.StringArray:
    """Return a ``string`` array, perhaps invalid UTF-8. Raises ``ValueError`` above 2 GB."""
    items = list(map(text_bytes, texts))
    starts = starts_of(list(map(len, items)))
    if starts[-1] >= 1 << 31:
        raise ValueError(f"texts have {starts[-1]:,} bytes; pass at most {(1 << 31) - 1:,} at once")
    # `pa.array` and `to_numpy` load pandas, which takes half of the time of a first search.
    buffers = pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(b"".join(items))
    return pa.StringArray.from_buffers(len(items), *buffers)


def bool_array(values: NDArray[np.bool_]) -> pa.BooleanArray:
    """Return an Arrow array; `pa.array` would load pandas."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(values), [None, bits])


def texts_array(texts: pa.Array | Iterable[str | bytes]) -> pa.StringArray:
    """Return texts as a ``string`` array. Raises ``TypeError`` for items that are not texts."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if not isinstance(texts, pa.Array):
        if isinstance(texts, str | bytes):
            raise TypeError("expected several texts, got one; put it in a list")
        return string_array(texts)
    if texts.null_count:
        raise VocabtoolError("a text is null; fill or drop null values first")
    if pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type):
        texts = texts.cast(pa.binary())
    texts = texts.view(pa.string())
    if len(texts) and not texts.offset and text_bounds(texts)[0]:
        texts = pa.concat_arrays([texts])  # Arrow 26 lower-cases other bytes of a sliced array
    return texts


def as_bytes(array: pa.StringArray) -> list[bytes]:
    values: list[bytes] = array.view(pa.binary()).to_pylist()
    return values


def not_utf8(texts: pa.StringArray) -> int:
    """Return how many texts are not UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return sum(not is_utf8(text) for text in as_bytes(texts))
    return 0


def starts_of(lengths: Sequence[int] | NDArray[np.generic]) -> Integers:
    """Return the offsets of consecutive items with these lengths: int64, shape (n + 1,)."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.asarray(lengths).cumsum(dtype=np.int64, out=starts[1:])
    return starts


def is_filled(values: pa.StringArray) -> NDArray[np.bool_]:
    """Return whether each string is not empty: shape (len(values),)."""
    return np.diff(text_bounds(values)) > 0 if len(values) else np.zeros(0, np.bool_)


def map_unless_ascii(
    values: pa.StringArray,
    change_ascii: Callable[[pa.StringArray], pa.StringArray],
    change: Callable[[bytes], bytes],
) -> pa.StringArray:
    """Apply ``change_ascii`` to ASCII strings without NUL, and ``change`` to others."""
    has_nul = pc.match_substring(values, pattern="\0")  # some steps end a text there
    is_other = pc.or_(pc.invert(pc.string_is_ascii(values)), has_nul)
    other_count = pc.sum(is_other).as_py() or 0
    if not other_count:
        return change_ascii(values)
    encoded = values.filter(is_other).view(pa.binary()).dictionary_encode()
    distinct = string_array(map(change, encoded.dictionary.to_pylist()))
    changed = distinct.take(encoded.indices)
    if other_count == len(values):
        return changed
    results = change_ascii(values).view(pa.binary())
    return pc.replace_with_mask(results, is_other, changed.view(pa.binary())).view(pa.string())


def list_offsets(lists: pa.ListArray) -> Integers:
    """Return the offsets of a list array without nulls, shifted to begin at 0: shape (n + 1,)."""
    if not len(lists):
        return np.zeros(1, np.int64)
    bounds = np.frombuffer(lists.buffers()[1], np.int32)[lists.offset :][: len(lists) + 1]
    shifted: Integers = bounds.astype(np.int64) - bounds[0]
    return shifted


def text_bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Return the offsets of texts in their buffer: int32, shape (n + 1,)."""
    buffer = texts.buffers()[1]
    return np.frombuffer(buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]


def text_data(texts: pa.StringArray) -> NDArray[np.uint8]:
    """Return the bytes of all texts, one text after the other, without a copy."""
    bounds = text_bounds(texts)
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]


def chunks(texts: pa.StringArray) -> tuple[pa.StringArray, Integers]:
    """Split texts after ASCII whitespace, without a copy; return chunks and offsets: (n + 1,)."""
    data = text_data(texts)
    is_last = data == SPACE  # for each byte: whether a chunk ends there
    is_last |= data - TAB <= RETURN - TAB  # from TAB to RETURN; below TAB, uint8 wraps around
    bounds = text_bounds(texts)
    ends = bounds[1:] - 1 - bounds[0]
    is_last[ends[ends >= 0]] = True
    return cut_before(texts, np.append(0, np.flatnonzero(is_last) + 1))


def cut_before(texts: pa.StringArray, cuts: Integers) -> tuple[pa.StringArray, Integers]:
    """Split texts at ``cuts``: bytes from the first text's start, all texts' bounds included."""
    bounds = text_bounds(texts)
    offsets = np.searchsorted(cuts, bounds - bounds[0])
    places = pa.py_buffer((cuts + bounds[0]).astype(np.int32))
    return pa.StringArray.from_buffers(len(cuts) - 1, places, texts.buffers()[2]), offsets


def slices(texts: pa.StringArray, size: int) -> Iterator[pa.StringArray]:
    """Yield consecutive slices of about ``size`` bytes, at least one. No text is cut."""
    bounds = text_bounds(texts)
    slice_numbers = (bounds[:-1] - bounds[:1]) // size  # of the slice in which each text begins
    starts = np.flatnonzero(np.diff(slice_numbers)) + 1
    for start, end in pairwise((0, *starts.tolist(), len(texts))):
        yield texts.slice(start, end - start)


class Step:
    """One change of texts, or one way to split them. A rule consists of steps.

    Without an override, ``describe`` returns ``description``, and ``local`` is ``is_local``.
    """

    __slots__ = ()
    description: ClassVar[str] = ""
    is_local: ClassVar[bool] = False

    @property
    def local(self) -> bool:
        """Whether texts may be split at ASCII whitespace before the step is applied.

        This is true if the step treats each part alone, and neither adds nor removes ASCII
        whitespace.
        """
        return self.is_local

    def apply(self, tokens: Tokens) -> Tokens:
        raise NotImplementedError

    def describe(self) -> str:
        """Return a description for users, such as ``lower-case A to Z``."""
        return self.description


class ChangeStep(Step):
    """Changes all strings by ``change_all``, or each that is not ASCII by ``change``."""

    __slots__ = ()

    def apply(self, tokens: Tokens) -> Tokens:
        return tokens._replace(values=self.change_all(tokens.values))

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return map_unless_ascii(values, lambda values: values, self.change)

    def change(self, text: bytes) -> bytes:
        raise NotImplementedError


class SplitStep(Step):
    """A step that splits each string. A subclass defines :meth:`split` or :meth:`split_all`."""

    __slots__ = ()

    def apply(self, tokens: Tokens) -> Tokens:
        values, offsets = self.split_all(tokens.values)
        return Tokens(values, offsets[tokens.offsets])

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        """Return the parts of all strings, and offsets of shape (len(values) + 1,)."""
        encoded = values.view(pa.binary()).dictionary_encode()
        splits = [self.split(entry) for entry in as_bytes(encoded.dictionary)]
        flat = pa.array(list(chain.from_iterable(splits)), pa.binary())
        offsets = pa.array(starts_of(list(map(len, splits))), pa.int32())
        lists = pa.ListArray.from_arrays(offsets, flat).take(encoded.indices)
        return lists.flatten().view(pa.string()), list_offsets(lists)

    def split(self, text: bytes) -> list[bytes]:
        raise NotImplementedError


def quote(text: bytes | str) -> str:
    """Return a text in quotation marks for a description, with control characters escaped."""
    return f"'{printable(text.encode() if isinstance(text, str) else text)}'"
