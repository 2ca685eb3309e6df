"""Read files of word vectors. Vectors are read one by one, or all are memory-mapped.

This file reads the text formats: GloVe (no header), word2vec and fastText ``.vec`` (a header ``n
dim``). ``binary_vectors.py`` reads the binary formats.

A line is a word and ``dim`` numbers, each after one space. The word itself may contain spaces, such
as GloVe's ``. . .``, so it ends before the ``dim``-th space from the right. Layouts:
stanfordnlp/GloVe, src/glove.c; tmikolov/word2vec, word2vec.c; facebookresearch/fastText,
src/fasttext.cc. fastText writes a space at the end of each line.

When a file is opened, the number of values in every line is checked, but most values are checked
only when their vectors are read.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, UnsupportedFormat, reading
from vocabtool.formats import binary_vectors
from vocabtool.formats.binary_vectors import HEADER, VectorFile
from vocabtool.formats.files import NUMPY_MAGIC, map_file, open_array
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.wire import Buffer
from vocabtool.formats.word_list import MAX_LINE
from vocabtool.formats.zip_archive import ZIP
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import Place, Vocabulary

BLOCK: Final = 1 << 20  # numbers converted at a time
NO_ROWS: Final = (
    "a fastText model does not store word vectors: they are means of subword vectors. "
    "Write them with `fasttext print-word-vectors MODEL < WORDS > FILE` and open that file"
)

WINDOW: Final = 1 << 19  # bytes read at a time: they and derived arrays fit in the CPU cache
MIN_DIM: Final = 2  # numbers at the end of a line: a single one may be a count or rank
SAMPLE: Final = 32  # lines from which the dimension is determined

# A part of a "word" that is an extra value, not the end of a name ("Windows 3.1").
VALUE: Final = re.compile(
    rb"(?=[+-]?\.?[0-9])[+-]?[0-9]*+(?:\.[0-9]{3,}+(?:e[+-]?[0-9]++)?|(?:\.[0-9]*+)?e[+-]?[0-9]++)",
    re.IGNORECASE,
)
FRACTION: Final = re.compile(rb" [+-]?[0-9]*(?:\.[0-9]|[0-9]e[+-])[^ ]*(?: |\r?$)")

# Eight flags as one number: a multiplication adds them up, a mask keeps those before a position.
EIGHT: Final = np.dtype("<u8")
ADD_UP: Final = np.uint64(0x0101_0101_0101_0101)
TOP_BYTE: Final = np.uint64(56)
FIRST_OF_EIGHT: Final = np.array([(1 << 8 * count) - 1 for count in range(8)], EIGHT)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors. The position of a word is the row of its vector.

    ``words``: the words in the order of the file, including duplicates. ``dim``: the number of
    dimensions.
    """

    words: Vocabulary
    dim: int
    _stored: VectorFile = field(repr=False)
    _file: Path

    @classmethod
    def open(cls, path: str | Path, words: str | Path | None = None) -> WordVectors:
        """Open a file of GloVe, word2vec (text or binary), fastText ``.vec``, or NumPy arrays.

        An ``.npz`` archive contains the arrays ``words`` (text) and ``vectors``. An ``.npy`` file
        contains only vectors. At first, only the words are read.

        ``words``: the file with the words of an ``.npy`` file, one per line; by default, the
        ``.txt`` file of the same name.

        Raises :class:`VocabtoolError` if the file cannot be read, and for a fastText model
        (``.bin``), which does not store a vector for each word.
        """
        file = Path(path)
        with reading(str(file)):
            if not file.is_file():
                raise NotFound(f"{file}: no such file; wanted a file of word vectors")
            source = Source.open(file)
            if source.head.startswith((NUMPY_MAGIC, ZIP)):
                stored = binary_vectors.open_numpy(source, Path(words) if words else None)
            elif source.head.startswith(binary_vectors.FASTTEXT_MAGIC):
                raise UnsupportedFormat(NO_ROWS)
            elif READER.recognise(source) is None:
                stored = _open_text(source)
            elif binary_vectors.WORD2VEC.recognise(source) is None:
                stored = binary_vectors.open_word2vec(source)
            else:
                readers = (READER, binary_vectors.WORD2VEC)
                tried = (f"{reader.format}: {reader.recognise(source)}" for reader in readers)
                raise UnknownFormat(f"{file}: not a file of word vectors", tuple(tried))
            return cls(stored.words, stored.dim, stored, file)

    def __len__(self) -> int:
        return len(self.words)

    def vectors(self, positions: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Return the vectors at these positions: float32, shape (k, dim).

        Raises ``IndexError`` for a position out of range, and :class:`InvalidFile` if the text of a
        value is not a number.
        """
        wanted = np.asarray(positions, np.int64).reshape(-1)
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < len(self):
            what = f"positions {wanted.min()} to {wanted.max()}, wanted 0 to {len(self) - 1:,}"
            raise IndexError(what)
        with reading(str(self._file)):
            return self._stored.take(wanted)

    def matrix(self, folder: str | Path | None = None) -> NDArray[np.float32]:
        """Return all vectors as a read-only memory map, shape (n, dim), shared by all processes.

        A file that cannot be mapped as float32 is converted to a ``.npy`` file. Later calls reuse
        this file, unless the size or modification time of the original file has changed.

        ``folder``: the folder of the ``.npy`` file; by default, the folder of the original file.
        """
        converted = self.matrix_file(folder)
        if converted is None:
            return np.asanyarray(self._stored.data)
        with reading(str(converted)):
            if not converted.exists():
                step = max(BLOCK // self.dim, 1)
                head = {"descr": "<f4", "fortran_order": False, "shape": (len(self), self.dim)}
                with whole_file(converted) as file:
                    np.lib.format.write_array_header_1_0(file, head)
                    for at in range(0, len(self), step):
                        rows = self.vectors(np.arange(at, min(at + step, len(self))))
                        file.write(rows.astype("<f4", copy=False).tobytes())
                        if isinstance(self._stored.data, mmap.mmap):  # release the pages
                            self._stored.data.madvise(mmap.MADV_DONTNEED)
            array = open_array(converted)
            is_own = array.dtype == np.float32 and array.flags.c_contiguous
            if array.shape != (len(self.words), self.dim) or not is_own:
                raise InvalidFile("not the matrix that vocabtool wrote: delete this file")
            return np.asanyarray(array)

    def matrix_file(self, folder: str | Path | None = None) -> Path | None:
        """Return the ``.npy`` file that :meth:`matrix` creates; ``None`` if none is needed."""
        data = self._stored.data
        if isinstance(data, np.ndarray) and data.dtype == np.float32 and data.flags.c_contiguous:
            return None  # the file can be memory-mapped as it is
        with reading(str(self._file)):
            facts = self._file.stat()
        state = f"{facts.st_size:x}-{facts.st_mtime_ns:x}"
        return Path(folder or self._file.parent) / f"{self._file.name}.{state}.npy"


# The dimension, the number of words in the header if there is one, and where the first line after
# the header begins.
_Layout = tuple[int, int | None, int]


def _find_layout(source: Source) -> _Layout:
    """Return the layout of a text file of vectors; raise :class:`InvalidFile` for another file.

    With a header, most of the first lines must end in as many numbers as it states. Without one,
    most must end in the same number of numbers, at least two, and some of these have a fraction.
    """
    header = HEADER.match(source.head)
    start = header.end() if header else 0
    lines = source.head[start:].split(b"\n")
    if source.size > len(source.head) or not lines[-1]:
        lines.pop()  # truncated, or empty after a final newline
    if not lines:
        what = "nothing follows its header line" if header else "no whole line in its first 64 KiB"
        raise InvalidFile(what)
    counts = []  # of numbers at the end of each line
    for line in lines[:SAMPLE]:  # the first part always belongs to the word
        values = line.removesuffix(b"\r").removesuffix(b" ").split(b" ")[:0:-1]
        words = (count for count, value in enumerate(values) if not _is_number(value))
        counts.append(next(words, len(values)))
    if header:
        dim = int(header[2])
        fitting = sum(count >= dim for count in counts)
    else:
        dim, fitting = Counter(sorted(counts)).most_common(1)[0]
        if counts[0] < MIN_DIM:
            number = "one number only" if counts[0] else "no number"
            raise InvalidFile(f"the first line ends in {number}")
    if dim < MIN_DIM or 2 * fitting < len(counts):
        numbers = f"{', '.join(map(str, counts[:3]))} ... numbers"
        wanted = f", not in {dim:,}" if header else ""
        raise InvalidFile(f"its lines end in {numbers}{wanted}")
    if b"\t" in lines[0]:
        raise InvalidFile("its first line has a tab, wanted spaces between the values")
    if not header and not any(map(FRACTION.search, lines[:SAMPLE])):
        raise InvalidFile("the numbers in its lines are whole, wanted some with a fraction")
    return dim, int(header[1]) if header else None, start


def _recognise(source: Source) -> str | None:
    try:
        _find_layout(source)
    except InvalidFile as error:
        return error.what
    return None


def _open_text(source: Source) -> VectorFile:
    layout = _find_layout(source)
    dim, promised, _ = layout
    starts: list[NDArray[np.int64]] = []
    with source.file.open("rb") as file:
        stored = ByteStrings.of(_words(file, layout, starts))
        file.seek(-1, 2)
        ended = file.read(1) == b"\n"
    if promised not in (None, len(stored)):
        what = f"the header states {promised:,} words, but {len(stored):,} lines follow it"
        raise InvalidFile(f"{what}: download the file again", offset=0)
    header = "no header line, as GloVe writes"
    if promised is not None:
        header = "a header line, as word2vec and fastText write"
    notes = [f"{dim:,} dimensions; {header}"]
    empty = int((stored.lengths == 0).sum())
    if empty:
        notes.append(f"empty words: {empty:,}")
    if not ended:
        notes.append("the last line does not end with a newline: the file may be truncated")
    places = (Place(source.name, "first column"),)
    vocabulary = Vocabulary("words", "vectors", stored, places=places, notes=tuple(notes))
    data = map_file(source.file)
    return VectorFile(vocabulary, dim, data, np.concatenate(starts), _parse)


def _parse(buffer: Buffer, start: int, dim: int) -> NDArray[np.float32]:
    """Return the numbers of a line: float32, shape (dim,). ``start``: where they begin."""
    end = buffer.find(b"\n", start)
    line = buffer[start : end if end >= 0 else len(buffer)]
    cells = line.removesuffix(b"\r").removesuffix(b" ").split(b" ")
    try:
        numbers = np.array(list(map(float, cells)))
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) != dim:
        what = f"{line[:40]!r} ...: wanted {dim:,} numbers separated by spaces"
        raise InvalidFile(what, offset=start)
    with np.errstate(over="ignore"):  # larger values become infinite
        return numbers.astype(np.float32)


def _is_number(value: bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _words(file: BinaryIO, layout: _Layout, starts: list[NDArray[np.int64]]) -> Iterator[bytes]:
    """Yield the word of each line; append to ``starts`` where the values of the lines begin."""
    dim, promised, at = layout
    number = 1 + (promised is not None)
    file.seek(at)
    rest = b""
    while piece := file.read(WINDOW):
        data = rest + piece
        whole = data.rfind(b"\n") + 1
        if whole:
            words, begins = _cut_window(data, dim, at, number)
            yield from words
            starts.append(begins)
            number += len(words)
        rest = data[whole:]
        at += whole
        if len(rest) > MAX_LINE:
            raise InvalidFile(f"a line has more than {MAX_LINE:,} bytes", offset=at)
    if rest:
        words, begins = _cut_window(rest + b"\n", dim, at, number)
        yield from words
        starts.append(begins)


def _cut_window(
    window: bytes, dim: int, at: int, number: int
) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the words, and where in the file their values begin. ``at``: byte of the window."""
    # The word ends at the first space. Lines that do not have ``dim`` spaces are examined singly.
    bounds, spaces, start = [0], [], 0  # the ends of lines, and the first space of each
    while end := window.find(b"\n", start) + 1:  # much faster than examining every byte
        spaces.append(window.find(b" ", start, end))
        bounds.append(end)
        start = end
    starts, first_spaces = np.array(bounds, np.int64), np.array(spaces, np.int64)
    words = [window[start:stop] for start, stop in zip(bounds, spaces, strict=False)]

    data = np.frombuffer(window, np.uint8)
    is_space = np.zeros(-(-len(data) // 8) * 8 + 8, np.bool_)
    np.equal(data, ord(" "), out=is_space[: len(data)])
    ends = starts[1:] - 1
    ends -= (data[ends - 1] == ord("\r")) & (ends > starts[:-1])
    trailing = is_space[ends - 1] & (ends > starts[:-1])

    # The number of spaces from each start to the next, from eight bytes at a time: the position of
    # each space would take 8 bytes, and three times as long.
    blocks = is_space.view(EIGHT)
    counts = blocks * ADD_UP
    counts >>= TOP_BYTE
    block = starts >> 3
    before = (blocks[block] & FIRST_OF_EIGHT[starts & 7]) * ADD_UP >> TOP_BYTE  # in its block
    between = np.where(block[1:] > block[:-1], np.add.reduceat(counts, block)[:-1], 0)
    odd = (between + before[1:] - before[:-1]).astype(np.int64) - trailing != dim
    head = data.take([first_spaces + 1, first_spaces + 2], mode="clip")  # of the first value
    odd |= (head - ord("0") >= 10).all(axis=0)  # bytes less than "0" wrap around
    empty = np.flatnonzero(is_space[1:] & is_space[:-1])  # values between two spaces
    odd[np.searchsorted(starts, empty[empty < starts[-1]], "right") - 1] = True
    odd[-1] = True  # the values of the last line are always examined, as a sample
    for row in np.flatnonzero(odd).tolist():
        start, end = bounds[row], int(ends[row] - trailing[row])
        words[row] = _examine_line(window[start:end], dim, at + start, number + row)
        first_spaces[row] = start + len(words[row])
    return words, first_spaces + (at + 1)


def _examine_line(line: bytes, dim: int, at: int, number: int) -> bytes:
    """Return the word of a line, after a check that exactly ``dim`` numbers follow it."""
    word, *values = line.rsplit(b" ", dim)
    more = any(map(VALUE.fullmatch, word.split(b" ")[1:]))
    if len(values) < dim or more:
        count = f"more than {dim:,}" if more else f"{len(values):,}"
        what = f"line {number:,} has {count} values, wanted {dim:,}: is it truncated?"
        raise InvalidFile(what, offset=at)
    for value in values:
        if not _is_number(value):
            what = f"line {number:,} has {value[:40]!r}, wanted a number"
            raise InvalidFile(what, offset=at)
    return word


READER: Final = Reader(
    "word vectors as text (GloVe, word2vec, fastText .vec)",
    _recognise,
    lambda source: Findings([_open_text(source).words]),
)
