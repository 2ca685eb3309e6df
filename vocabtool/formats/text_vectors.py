"""Word vectors as text: GloVe (no header), word2vec and fastText ``.vec`` (a header ``n dim``).

A line is a word, then ``dim`` numbers, each behind one blank. The word may hold blanks itself
(GloVe's ``. . .``): it is what stands before the ``dim``-th blank from the right. Layouts:
stanfordnlp/GloVe, src/glove.c; tmikolov/word2vec, word2vec.c; facebookresearch/fastText,
src/fasttext.cc, whose lines end in a blank.

Checked in every line: how many values there are, that none is empty, that the first has a digit.
That all are numbers is checked in the lines with more blanks than values and in one line per
window of 512 KB; in the others when their vectors are read.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

HEADER: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,9}) ?\r?\n")  # how many words, dimensions
WINDOW: Final = 1 << 19  # bytes read at a time: they and what is made of them stay in the cache
MAX_LINE: Final = 1 << 22  # bytes of one line; 4,096 numbers of 20 digits take 90,000
MIN_DIM: Final = 2  # numbers at the end of a line: one is as likely a count or a rank
SAMPLE: Final = 32  # lines that tell the dimension
MAX_SHOWN: Final = 40

BLANK: Final = ord(" ")
RETURN: Final = ord("\r")

# A part of a "word" that is one value too many, not the end of a name ("Windows 3.1").
VALUE: Final = re.compile(
    rb"(?=[+-]?\.?[0-9])[+-]?[0-9]*+(?:\.[0-9]{3,}+(?:e[+-]?[0-9]++)?|(?:\.[0-9]*+)?e[+-]?[0-9]++)",
    re.IGNORECASE,
)

FRACTION: Final = re.compile(rb" [+-]?[0-9]*(?:\.[0-9]|[0-9]e[+-])[^ ]*(?: |\r?$)")

# Eight flags read as one number: added up by a multiplication, cut off before a position.
EIGHT: Final = np.dtype("<u8")
ADD_UP: Final = np.uint64(0x0101_0101_0101_0101)
TOP_BYTE: Final = np.uint64(56)
FIRST_OF_EIGHT: Final = np.array([(1 << 8 * count) - 1 for count in range(8)], EIGHT)


class Rows(Protocol):
    """The vectors of a file, of which only the rows that are asked for are read."""

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows at valid positions, shape (k, dim)."""

    def forget(self) -> None:
        """Let go of the pages that were read: until then they count as our memory."""


@dataclass(frozen=True, slots=True)
class ListedVectors:
    """The words of a file of vectors; a word's position is its row."""

    words: Vocabulary
    dim: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class TextRows:
    """Decimal numbers divided by blanks, from each of ``starts`` to the end of the line.

    ``starts``: int64, shape (n,).
    """

    buffer: Buffer
    starts: NDArray[np.int64]
    dim: int

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Parse these lines. Raises :class:`InvalidFile` for what is no number."""
        rows = np.empty((len(positions), self.dim), np.float32)
        for row, start in zip(rows, self.starts[positions].tolist(), strict=True):
            end = self.buffer.find(b"\n", start)
            line = self.buffer[start : end if end >= 0 else len(self.buffer)]
            row[:] = self._numbers(line, start)
        return rows

    def _numbers(self, line: bytes, start: int) -> NDArray[np.float32]:
        parts = line.removesuffix(b"\r").removesuffix(b" ").split(b" ")
        try:
            numbers = np.array(list(map(float, parts)))
        except ValueError:
            numbers = np.zeros(0)
        if len(numbers) != self.dim:
            raise InvalidFile(
                f"{line[:MAX_SHOWN]!r} ... is not {self.dim:,} numbers divided by blanks",
                offset=start,
            )
        with np.errstate(over="ignore"):  # beyond float32 lies infinity
            return numbers.astype(np.float32)

    def forget(self) -> None:
        """Let go of the pages that were read."""
        forget(self.buffer)


def forget(buffer: Buffer) -> None:
    """Let go of the pages of a file that were read."""
    if isinstance(buffer, mmap.mmap):
        buffer.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class _Layout:
    """``promised``: how many words a header promises; ``start``: where the first line lies."""

    dim: int
    promised: int | None
    start: int


def recognise(source: Source) -> str | None:
    """Why a file is not text of word vectors; ``None`` where it is.

    Most of the first lines must end in the same number of numbers, or in as many as the header
    says: at least two, and some with a fraction where there is no header.
    """
    try:
        _layout(source)
    except InvalidFile as error:
        return error.what
    return None


def read(source: Source) -> ReadResult:
    """The words, in the order of the file."""
    return ReadResult((list_words(source).words,))


def list_words(source: Source) -> ListedVectors:
    """The words, and where their numbers lie.

    Raises :class:`InvalidFile` for a line with more or fewer values than the others, a value that
    is no number (as far as looked at), and more or fewer lines than the header promises.
    """
    layout = _layout(source)
    starts: list[NDArray[np.int64]] = []

    def words(file: BinaryIO) -> Iterator[bytes]:
        number = 1 + (layout.promised is not None)
        for at, window in _windows(file, layout.start):
            found, begins = _lines(window, layout.dim, at, number)
            number += len(found)
            starts.append(begins)
            yield from found

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
    rows = TextRows(map_file(source.file), np.concatenate(starts), layout.dim)
    return ListedVectors(vocabulary, layout.dim, rows)


def _layout(source: Source) -> _Layout:
    """How a file is laid out, by its head. Raises :class:`InvalidFile` where it is no vectors."""
    header = HEADER.match(source.head)
    start = header.end() if header else 0
    lines = source.head[start:].split(b"\n")
    if source.size > len(source.head) or not lines[-1]:
        lines.pop()  # cut off, or nothing behind the last newline
    if not lines:
        nothing = "nothing follows its header line" if header else "no whole line"
        raise InvalidFile(nothing if header else f"{nothing} in its first 64 KiB")
    counts = [_numbers(line) for line in lines[:SAMPLE]]
    if header:
        dim = int(header[2])
        fit = sum(count >= dim for count in counts)
    else:
        dim, fit = min(Counter(counts).items(), key=lambda item: (-item[1], item[0]))
    if not header and counts[0] < MIN_DIM:
        only = "one number only" if counts[0] else "no number"
        raise InvalidFile(f"the first line ends in {only}")
    if dim < MIN_DIM or 2 * fit < len(counts):
        found = ", ".join(map(str, counts[:3]))
        wanted = f", not in {dim:,}" * bool(header)
        raise InvalidFile(f"its lines end in {found} ... numbers{wanted}")
    if b"\t" in lines[0]:
        raise InvalidFile("a tab stands in its first line, wanted blanks between the values")
    if not header and not any(map(FRACTION.search, lines[:SAMPLE])):
        raise InvalidFile("the numbers in its lines are whole")
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
        if len(rest) > MAX_LINE:
            raise InvalidFile(f"a line of more than {MAX_LINE:,} bytes", offset=at)
    if rest:
        yield at, rest + b"\n"


def _lines(window: bytes, dim: int, at: int, number: int) -> tuple[list[bytes], NDArray[np.int64]]:
    """The words of a window that begins at ``at`` with line ``number``, where their numbers begin.

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
    pairs = blank[1:] & blank[:-1]
    if pairs.any():  # a value between two blanks is empty
        found = np.flatnonzero(pairs)
        odd[np.searchsorted(starts, found[found < starts[-1]], "right") - 1] = True
    odd[-1] = True  # the sample
    for line in np.flatnonzero(odd).tolist():
        start, end = bounds[line], int(ends[line] - trailing[line])
        words[line] = _word(window[start:end], dim, at + start, number + line)
        firsts[line] = start + len(words[line])
    return words, firsts + (at + 1)


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
