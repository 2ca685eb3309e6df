"""Word vectors as text: GloVe (no header), word2vec and fastText ``.vec`` (a header ``n dim``).

A line is a word, then ``dim`` numbers, each behind one blank. The word may hold blanks itself
(GloVe's ``. . .``): it is what stands before the ``dim``-th blank from the right. Layouts:
stanfordnlp/GloVe, src/glove.c; tmikolov/word2vec, word2vec.c; facebookresearch/fastText,
src/fasttext.cc, whose lines end in a blank. The numbers are left to ``word_vectors.py``.

Checked in every line: how many values there are, that none is empty, that the first has a digit.
That all are numbers is checked in the lines with more blanks than values and in one line per
window of 512 KB; in the others when their vectors are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

HEADER: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,9}) ?\r?\n")  # how many words, dimensions
WINDOW: Final = 1 << 19  # bytes read at a time: they and what is made of them stay in the cache
LONGEST: Final = 1 << 22  # bytes of one line; 4,096 numbers of 20 digits take 90,000
LEAST: Final = 2  # numbers at the end of a line: one is as likely a count or a rank
LOOKED_AT: Final = 32  # lines that tell the dimension

BLANK: Final = ord(" ")
RETURN: Final = ord("\r")

# A part of a "word" that is one value too many, not the end of a name ("Windows 3.1").
VALUE: Final = re.compile(
    rb"(?=[+-]?\.?[0-9])[+-]?[0-9]*+(?:\.[0-9]{3,}+(?:e[+-]?[0-9]++)?|(?:\.[0-9]*+)?e[+-]?[0-9]++)",
    re.IGNORECASE,
)

# Eight flags read as one number: added up by a multiplication, cut off before a position.
EIGHT: Final = np.dtype("<u8")
ADD_UP: Final = np.uint64(0x0101_0101_0101_0101)
TOP_BYTE: Final = np.uint64(56)
FIRST_OF_EIGHT: Final = np.array([(1 << 8 * count) - 1 for count in range(8)], EIGHT)


class Listed(NamedTuple):
    """The words of a file of vectors. ``starts``: where the numbers of each begin, int64 (n,)."""

    words: Vocabulary
    dim: int
    starts: NDArray[np.int64]


class _Layout(NamedTuple):
    """``promised``: how many words a header promises; ``start``: where the first line lies."""

    dim: int
    promised: int | None
    start: int


class _Lines(NamedTuple):
    """The lines of one window: their words, where their numbers begin in the file."""

    words: list[bytes]
    starts: NDArray[np.int64]


def recognise(source: Source) -> str | None:
    """Why a file is not text of word vectors; ``None`` where it is.

    Most of the first lines must end in the same number of numbers, or in as many as the header
    says: at least two, and some with a fraction where there is no header.
    """
    layout = _layout(source)
    return layout if isinstance(layout, str) else None


def read(source: Source) -> ReadResult:
    """The words, in the order of the file."""
    return ReadResult((list_words(source).words,))


def list_words(source: Source) -> Listed:
    """The words and where their numbers lie.

    Raises :class:`InvalidFile` for a line with more or fewer values than the others, a value that
    is no number (as far as looked at), and more or fewer lines than the header promises.
    """
    layout = _layout(source)
    if isinstance(layout, str):
        raise InvalidFile(f"not word vectors as text: {layout}", offset=0)
    starts: list[NDArray[np.int64]] = []

    def words(file: BinaryIO) -> Iterator[bytes]:
        number = 1 + (layout.promised is not None)
        for at, window in _windows(file, layout.start):
            lines = _lines(window, layout.dim, at, number)
            number += len(lines.words)
            starts.append(lines.starts)
            yield from lines.words

    with source.file.open("rb") as file:
        stored = ByteStrings.of(words(file))
        file.seek(-1, 2)
        ended = file.read(1) == b"\n"
    if layout.promised not in (None, len(stored)):
        raise InvalidFile(
            f"the header promises {layout.promised:,} words, {len(stored):,} lines follow it: "
            "fetch the file again, or correct its first line",
            offset=0,
        )
    places = (Place(source.name, "first column"),)
    notes = _notes(layout, stored, ended)
    vocabulary = Vocabulary("words", "vectors", stored, places=places, notes=notes)
    return Listed(vocabulary, layout.dim, np.concatenate(starts))


def _layout(source: Source) -> _Layout | str:
    """How a file is laid out, told by its head; or why it holds no word vectors."""
    header = HEADER.match(source.head)
    start = header.end() if header else 0
    lines = source.head[start:].split(b"\n")
    if source.size > len(source.head) or not lines[-1]:
        lines.pop()  # cut off, or nothing behind the last newline
    if not lines:
        return "nothing follows its header line" if header else "no whole line in its first 64 KiB"
    counts = [_numbers(line) for line in lines[:LOOKED_AT]]
    if header:
        dim = int(header[2])
        fit = sum(count >= dim for count in counts)
    else:
        dim, fit = min(Counter(counts).items(), key=lambda item: (-item[1], item[0]))
    if not header and counts[0] < LEAST:
        return f"the first line ends in {'one number only' if counts[0] else 'no number'}"
    if dim < LEAST or 2 * fit < len(counts):
        found = ", ".join(map(str, counts[:3]))
        return f"its lines end in {found} ... numbers" + f", not in {dim:,}" * bool(header)
    if b"\t" in lines[0]:
        return "a tab stands in its first line, wanted blanks between the values"
    if not header and not any(map(_has_fraction, lines[:LOOKED_AT])):
        return "the numbers in its lines are whole"
    return _Layout(dim, int(header[1]) if header else None, start)


def _numbers(line: bytes) -> int:
    """How many numbers end a line; its first part is always the word's."""
    parts = line.removesuffix(b"\r").removesuffix(b" ").split(b" ")[1:]
    count = 0
    while count < len(parts) and _are_numbers([parts[-1 - count]]):
        count += 1
    return count


def _are_numbers(parts: list[bytes]) -> bool:
    try:
        list(map(float, parts))
    except ValueError:
        return False
    return True


def _has_fraction(line: bytes) -> bool:
    return re.search(rb" [+-]?[0-9]*(?:\.[0-9]|[0-9]e[+-])[^ ]*(?: |\r?$)", line) is not None


def _windows(file: BinaryIO, at: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines, about a window of them at a time, and where in the file they begin.

    Behind the last whole line of a window a part of the next may follow.
    """
    file.seek(at)
    rest = b""
    while piece := file.read(WINDOW):
        data = rest + piece
        whole = data.rfind(b"\n") + 1
        if whole:
            yield at, data
        rest = data[whole:]
        at += whole
        if len(rest) > LONGEST:
            raise InvalidFile(f"a line of more than {LONGEST:,} bytes", offset=at)
    if rest:
        yield at, rest + b"\n"


def _lines(window: bytes, dim: int, at: int, number: int) -> _Lines:
    """The lines of a window that begins at ``at`` with line ``number``.

    Most hold as many blanks as values: there the word ends at the first. The others are looked
    at one by one.
    """
    bounds, blanks = _bounds(window)
    starts, firsts = np.array(bounds, np.int64), np.array(blanks, np.int64)
    words = [window[start:stop] for start, stop in zip(bounds, blanks, strict=False)]

    data = np.frombuffer(window, np.uint8)
    blank = np.zeros(-(-len(data) // 8) * 8 + 8, np.bool_)
    np.equal(data, BLANK, out=blank[: len(data)])
    ends = starts[1:] - 1
    ends -= (data[ends - 1] == RETURN) & (ends > starts[:-1])
    trailing = blank[ends - 1] & (ends > starts[:-1])

    odd = _counts(blank, starts) - trailing != dim
    odd |= ~(_is_digit(data, firsts + 1) | _is_digit(data, firsts + 2))
    odd[_lines_with_two_blanks(blank, starts)] = True
    odd[-1] = True  # the sample
    for line in np.flatnonzero(odd).tolist():
        start, end = bounds[line], int(ends[line] - trailing[line])
        words[line] = _word(window[start:end], dim, at + start, number + line)
        firsts[line] = start + len(words[line])
    return _Lines(words, firsts + (at + 1))


def _bounds(window: bytes) -> tuple[list[int], list[int]]:
    """Where the lines of a window begin and the last one ends; the first blank behind each start.

    A search each: far faster than looking at every byte, as lines are long.
    """
    find = window.find
    starts, blanks = [0], []
    start = 0
    while end := find(b"\n", start) + 1:
        blanks.append(find(b" ", start, end))
        starts.append(end)
        start = end
    return starts, blanks


def _counts(blank: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many blanks lie from each start to the next: int64, one fewer than starts.

    Eight bytes at a time: the position of each blank would take 8 bytes, and three times as long.
    """
    eights = blank.view(EIGHT)
    sums = eights * ADD_UP
    sums >>= TOP_BYTE
    at = starts >> 3
    before = (eights[at] & FIRST_OF_EIGHT[starts & 7]) * ADD_UP >> TOP_BYTE
    between = np.where(at[1:] > at[:-1], np.add.reduceat(sums, at)[:-1], 0)
    counts: NDArray[np.int64] = (between + before[1:] - before[:-1]).astype(np.int64)
    return counts


def _is_digit(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    digits = data.take(at, mode="clip") - ord("0") < 10  # what is less than "0" wraps round
    return np.asarray(digits, np.bool_)


def _lines_with_two_blanks(
    blank: NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The lines in which two blanks stand side by side: a value between them is empty."""
    pairs = blank[1:] & blank[:-1]
    if not pairs.any():
        return np.zeros(0, np.int64)
    found = np.flatnonzero(pairs)
    lines: NDArray[np.int64] = np.searchsorted(starts, found[found < starts[-1]], "right") - 1
    return lines


def _word(line: bytes, dim: int, at: int, number: int) -> bytes:
    """The word of a line, every value of which is looked at."""
    word, *values = line.rsplit(b" ", dim)
    if len(values) < dim:
        found = f"{len(values):,}"
    elif any(map(VALUE.fullmatch, word.split(b" ")[1:])):
        found = f"more than {dim:,}"
    elif not _are_numbers(values):
        wrong = next(value for value in values if not _are_numbers([value]))
        raise InvalidFile(f"line {number:,} holds {wrong[:40]!r} where a number belongs", offset=at)
    else:
        return word
    raise InvalidFile(
        f"line {number:,} holds {found} values, wanted {dim:,}; where it is the last one, "
        "the file was cut short: fetch it again",
        offset=at,
    )


def _notes(layout: _Layout, stored: ByteStrings, ended: bool) -> tuple[str, ...]:
    if layout.promised is None:
        notes = [f"{layout.dim:,} dimensions; no header line, as GloVe writes"]
    else:
        notes = [f"{layout.dim:,} dimensions; a header line, as word2vec and fastText write"]
    if empty := int((stored.lengths == 0).sum()):
        notes.append(f"empty words: {empty:,}")
    if not ended:
        notes.append("no newline ends the last line: the file may have been cut short there")
    return tuple(notes)


READER: Final = Reader("word vectors as text (GloVe, word2vec, fastText .vec)", recognise, read)
