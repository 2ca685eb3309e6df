"""Texts and tokens as Arrow arrays: what every step from text to tokens takes and gives.

Strings are bytes here, as they are in TensorFlow: an Arrow ``string`` array whose content need not
be UTF-8. On ``binary`` arrays Arrow's regular expressions would match bytes instead of characters;
where strings are told apart, or joined, they are viewed as ``binary``, without a look at the bytes.

Steps are frozen dataclasses, equal when they do the same. A rule's fingerprint is made of their
``repr``, and indexes store it: names of the classes and of their fields must not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.errors import VocabtoolError
from vocabtool.vocabulary import encode, is_utf8, printable

SPACE, TAB, RETURN = (np.uint8(ord(blank)) for blank in " \t\r")
Integers = NDArray[np.int64]
WHITESPACE = b" \t\n\v\f\r"  # what isspace() of C says
EMPTY: Final = np.zeros(0, np.int64)


class Tokens(NamedTuple):
    """The strings that ``n`` texts were cut into.

    ``values``: Arrow ``string`` array of length m, without nulls, perhaps not UTF-8.
    ``offsets``: int64, shape (n + 1,), ascending from 0 to m; those of text ``i`` are
    ``values[offsets[i]:offsets[i + 1]]``.
    """

    values: pa.StringArray
    offsets: Integers

    @classmethod
    def whole(cls, texts: pa.StringArray) -> Tokens:
        """Each text as its own and only token."""
        return cls(texts, np.arange(len(texts) + 1, dtype=np.int64))

    def filter(self, kept: NDArray[np.bool_]) -> Tokens:
        """Only the strings that are ``kept``."""
        return Tokens(self.values.filter(pa.array(kept)), starts_of(kept)[self.offsets])

    def to_lists(self) -> list[list[bytes]]:
        """The strings of each text as ``bytes``: for small answers."""
        values = as_bytes(self.values)
        return [values[start:end] for start, end in pairwise(self.offsets.tolist())]


class TokenCodes(NamedTuple):
    """:class:`Tokens` with each distinct string once.

    ``codes``: int32, shape (m,), places in ``distinct``; ``offsets``: int64, shape (n + 1,).
    """

    codes: NDArray[np.int32]
    offsets: Integers
    distinct: pa.StringArray

    @classmethod
    def encode(cls, tokens: Tokens) -> TokenCodes:
        """Dictionary-encode tokens."""
        encoded = tokens.values.view(pa.binary()).dictionary_encode()
        return cls(encoded.indices.to_numpy(), tokens.offsets, encoded.dictionary.view(pa.string()))

    def of_texts(self, chunks: NDArray[np.int32], offsets: Integers) -> TokenCodes:
        """The tokens of texts, where these are the tokens of the distinct chunks of the texts.

        ``chunks``: which chunks the texts consist of; ``offsets``: those of each text.
        """
        counts = np.diff(self.offsets)
        if bool((counts == 1).all()):
            return TokenCodes(self.codes[chunks], offsets, self.distinct)
        lengths = counts[chunks]
        ends = np.cumsum(lengths)
        places = np.repeat(self.offsets[:-1][chunks] - (ends - lengths), lengths)
        places += np.arange(len(places))
        bounds = np.concatenate(([0], ends))[offsets]
        return TokenCodes(self.codes[places], bounds, self.distinct)


def string_array(texts: Iterable[str | bytes]) -> pa.StringArray:
    """Texts as an Arrow ``string`` array; ``bytes`` need not be UTF-8."""
    return pa.array(list(map(text_bytes, texts)), pa.binary()).view(pa.string())


def texts_array(texts: pa.Array | Iterable[str | bytes]) -> pa.StringArray:
    """Texts, which may lie in an Arrow array of another type of strings.

    Raises :class:`VocabtoolError` where one is null, ``TypeError`` for what holds no texts.
    """
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
    texts = texts.view(pa.string())
    if len(texts) and not texts.offset and text_bounds(texts)[0]:
        texts = pa.concat_arrays([texts])  # Arrow 26 lower-cases other bytes of such an array
    return texts


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


def as_bytes(array: pa.StringArray) -> list[bytes]:
    """The strings as Python ``bytes``, UTF-8 or not."""
    found: list[bytes] = array.view(pa.binary()).to_pylist()
    return found


def not_utf8(texts: pa.StringArray) -> int:
    """How many texts are not UTF-8; where all are, Arrow says so at 2 GB/s and more."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return sum(not is_utf8(text) for text in as_bytes(texts))
    return 0


def starts_of(lengths: Sequence[int] | NDArray[np.generic]) -> Integers:
    """Where items of these lengths begin when they stand side by side, and where the last ends."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def is_filled(values: pa.StringArray) -> NDArray[np.bool_]:
    """For each string, whether it is not empty."""
    filled: NDArray[np.bool_] = pc.binary_length(values).to_numpy(zero_copy_only=False) > 0
    return filled


def map_distinct(values: pa.StringArray, change: Callable[[bytes], bytes]) -> pa.StringArray:
    """``change`` applied to each string, once for equal ones."""
    encoded = values.view(pa.binary()).dictionary_encode()
    results = pa.array(map(change, encoded.dictionary.to_pylist()), pa.binary())
    return results.take(encoded.indices).view(pa.string())


def map_unless_ascii(
    values: pa.StringArray,
    change_ascii: Callable[[pa.StringArray], pa.StringArray],
    change: Callable[[bytes], bytes],
) -> pa.StringArray:
    """``change`` applied to each string; ``change_ascii``, which does the same, to ASCII.

    NUL counts as not ASCII: some of TensorFlow's ops end a text there.
    """
    easy = pc.and_(pc.string_is_ascii(values), pc.invert(pc.match_substring(values, pattern="\0")))
    hard = pc.invert(easy)
    count = pc.sum(hard).as_py() or 0
    if not count:
        return change_ascii(values)
    changed = map_distinct(values.filter(hard), change)
    if count == len(values):
        return changed
    binary = change_ascii(values).view(pa.binary())
    return pc.replace_with_mask(binary, hard, changed.view(pa.binary())).view(pa.string())


def list_offsets(lists: pa.ListArray) -> Integers:
    """The offsets of a list array without nulls, beginning at 0: shape (n + 1,)."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    found: Integers = offsets - (offsets[0] if len(offsets) else 0)
    return found


def text_bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Where texts begin in their buffer, and where the last one ends: int32, shape (n + 1,)."""
    buffer = texts.buffers()[1]
    return np.frombuffer(buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]


def text_data(texts: pa.StringArray) -> NDArray[np.uint8]:
    """The bytes of texts, one text behind the other."""
    bounds = text_bounds(texts)
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]


def chunks(texts: pa.StringArray) -> tuple[pa.StringArray, Integers]:
    """Texts cut behind each byte of ASCII whitespace, without a copy: ``"I ", "love\\n"``.

    Returns the chunks, which together are the texts, and offsets of shape (n + 1,) into them.
    """
    data = text_data(texts)
    is_last = data == SPACE
    is_last |= data - TAB <= RETURN - TAB
    bounds = text_bounds(texts)
    ends = bounds[1:] - 1 - bounds[0]
    is_last[ends[ends >= 0]] = True
    return cut_before(texts, np.append(0, np.flatnonzero(is_last) + 1))


def cut_before(texts: pa.StringArray, cuts: Integers) -> tuple[pa.StringArray, Integers]:
    """Chunks of texts, which begin at ``cuts``, counted from the first text's first byte.

    All texts begin at a cut; the last cut is where the last text ends.
    """
    bounds = text_bounds(texts)
    offsets = np.searchsorted(cuts, bounds - bounds[0])
    places = pa.py_buffer((cuts + bounds[0]).astype(np.int32))
    return pa.StringArray.from_buffers(len(cuts) - 1, places, texts.buffers()[2]), offsets


class Step:
    """One step from text to tokens: it changes the strings, or cuts each further."""

    __slots__ = ()
    description: ClassVar[str] = ""
    is_local: ClassVar[bool] = False

    @property
    def local(self) -> bool:
        """Whether it may be applied to what stands between ASCII whitespace, piece by piece.

        True only where the step treats each piece alone, whatever stands around it, and makes
        ASCII whitespace of ASCII whitespace: then texts may be cut there first.
        """
        return self.is_local

    def apply(self, tokens: Tokens) -> Tokens:
        """Change the strings, or cut each further."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it does, in plain words: ``lower-case A to Z``."""
        return self.description


class ChangeStep(Step):
    """A step that makes one string of each: equal ones once, by :meth:`change`, or all at once."""

    __slots__ = ()

    def apply(self, tokens: Tokens) -> Tokens:
        """Change each string."""
        return tokens._replace(values=self.change_all(tokens.values))

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        """Change many strings."""
        return map_distinct(values, self.change)

    def change(self, text: bytes) -> bytes:
        """Change one string."""
        raise NotImplementedError


class SplitStep(Step):
    """A step that makes several strings of each, or none: of equal ones once, or of all at once."""

    __slots__ = ()

    def apply(self, tokens: Tokens) -> Tokens:
        """Cut each string."""
        values, offsets = self.split_all(tokens.values)
        return Tokens(values, offsets[tokens.offsets])

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        """Cut many strings; returns the parts, and offsets of shape (len(values) + 1,)."""
        encoded = values.view(pa.binary()).dictionary_encode()
        parts = [self.split(entry) for entry in as_bytes(encoded.dictionary)]
        flat = pa.array(list(chain.from_iterable(parts)), pa.binary())
        offsets = pa.array(starts_of(list(map(len, parts))), pa.int32())
        lists = pa.ListArray.from_arrays(offsets, flat).take(encoded.indices)
        return lists.flatten().view(pa.string()), list_offsets(lists)

    def split(self, text: bytes) -> list[bytes]:
        """Cut one string."""
        raise NotImplementedError


def quote(text: bytes | str) -> str:
    """A pattern or a separator for people, as it is but for what cannot be printed."""
    return f"'{printable(text.encode() if isinstance(text, str) else text)}'"
