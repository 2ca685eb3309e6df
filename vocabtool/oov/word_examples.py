"""Where a word stands in its text, for a person: the text, or a short part of a long one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.text_arrays import as_bytes

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH: Final = 120  # bytes of an example, without the signs that it was cut
SEARCHED: Final = 1_024  # bytes on either side of where a word should be
CUT: Final = "…".encode()
LETTERS: Final = frozenset(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())
GOES_ON: Final = b"\xff"  # a letter here, and in no UTF-8: stands for what is not looked at


def examples(
    texts: pa.StringArray,
    words: list[bytes],
    rows: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> list[bytes]:
    """For each of k words its text, or a part of it where it is longer than ``WIDTH``.

    ``rows``: shape (k,), the text; ``shares``: shape (k,), how far into it the word stands, from
    0 to 1. It is looked for around there as :func:`find_word` does; where the model's rule has
    changed it too much to be found, the part is taken from there.
    """
    if not words:
        return []
    data, offsets = _buffers(texts)
    starts, ends = offsets[rows], offsets[rows + 1]
    guesses = (starts + shares * (ends - starts)).astype(np.int64)
    short = ends - starts <= WIDTH
    found = [b""] * len(words)
    for i, line in zip(np.flatnonzero(short).tolist(), _lines(texts, rows[short]), strict=True):
        found[i] = line
    for i in np.flatnonzero(~short).tolist():
        found[i] = _around(data, words[i], int(starts[i]), int(ends[i]), int(guesses[i]))
    return found


def _buffers(texts: pa.StringArray) -> tuple[memoryview, NDArray[np.int64]]:
    """The bytes of all the texts, and int64 offsets of shape (n + 1,) into them."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data if data is not None else b""), bounds.astype(np.int64)


def _lines(texts: pa.StringArray, rows: NDArray[np.int64]) -> list[bytes]:
    """Whole texts; those asked for twice are one object."""
    which, places = np.unique(rows, return_inverse=True)
    lines = as_bytes(texts.take(which))
    return [lines[place] for place in places.tolist()]


def _around(data: memoryview, word: bytes, start: int, end: int, guess: int) -> bytes:
    """A part of ``data[start:end]`` with the word that should be at ``guess``."""
    low, high = max(start, guess - SEARCHED), min(end, guess + SEARCHED)
    before = GOES_ON * (low > start)
    at = find_word(before + bytes(data[low:high]) + GOES_ON * (high < end), word)
    middle = low - len(before) + at + len(word) // 2 if at >= 0 else guess
    return clip(data, start, end, middle)


def find_word(text: bytes, word: bytes) -> int:
    """Where a word stands in a text; -1: nowhere.

    Where it stands by itself comes before where it is a part of another word; then its own case
    before any other of ASCII's.
    """
    at = _by_itself(text, word)
    if at >= 0:
        return at
    lower, folded = text.lower(), word.lower()
    at = _by_itself(lower, folded)
    if at < 0:
        at = text.find(word)
    return at if at >= 0 else lower.find(folded)


def _by_itself(text: bytes, word: bytes) -> int:
    """The first place of a word with no letter or digit on either side; any byte from 0x80 is one.

    A text ends like a word does.
    """
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not LETTERS.intersection(text[max(at - 1, 0) : at] + text[end : end + 1]):
            return at
        at = text.find(word, at + 1)
    return at


def clip(data: bytes | memoryview, start: int, end: int, middle: int, width: int = WIDTH) -> bytes:
    """``width`` bytes of ``data[start:end]`` around ``middle``; signs where the text goes on.

    No UTF-8 character is cut in two: up to three bytes more or fewer are taken for that.
    """
    low = max(min(middle - width // 2, end - width), start)
    high = min(low + width, end)
    while start < low < high and data[low] & 0xC0 == 0x80:
        low += 1
    while high < end and data[high] & 0xC0 == 0x80 and high - low < width + 3:
        high += 1
    return CUT * (low > start) + bytes(data[low:high]) + CUT * (high < end)
