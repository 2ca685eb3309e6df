"""word2vec's binary format: ``n dim``, then a word, a blank and ``dim`` floats, ``n`` times.

Layout: tmikolov/word2vec, word2vec.c, which writes a newline behind each vector; gensim writes
none. Floats are 32 bits, little-endian. ``word_vectors.py`` reads the vectors.

fastText models (``.bin``, quantised ``.ftz``): the words and the labels of their dictionary.

Layout: facebookresearch/fastText, src/fasttext.cc (signModel, saveModel), src/args.cc,
src/dictionary.cc. All little-endian: magic, version; 12 int32 and a double of settings; how many
entries, words, labels (int32), tokens, pruned n-grams (int64, -1 for none); then each entry: its
text, a NUL, its count (int64), its type (int8). The matrices behind are left out. A word's
vector is no row of one: it is a mean over the rows of the word and of its character n-grams.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.text_vectors import HEADER, ListedVectors, forget
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

WINDOW: Final = 1 << 18  # bytes read at a time
MAX_WORD: Final = 1 << 13  # bytes of a word; word2vec cuts them off at 100
MAX_DIM: Final = 1 << 16
FLOAT: Final = 4  # bytes

NUMBER_TEXT: Final = re.compile(rb"[0-9+\-.eEnaifNAIF \r\n]*")  # what numbers as text are made of

NOT_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # one byte in ten of floats


@dataclass(frozen=True, slots=True)
class FloatRows:
    """``dim`` little-endian floats from each of ``starts`` on, which need not be aligned.

    ``starts``: int64, shape (n,).
    """

    buffer: Buffer
    starts: NDArray[np.int64]
    dim: int

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Copy these rows."""
        rows = np.empty((len(positions), self.dim), np.float32)
        for row, start in zip(rows, self.starts[positions].tolist(), strict=True):
            row[:] = np.frombuffer(self.buffer, "<f4", self.dim, start)
        return rows

    def forget(self) -> None:
        """Let go of the pages that were read."""
        forget(self.buffer)


def recognise(source: Source) -> str | None:
    """Why a file is not word2vec's binary format; ``None`` where it is.

    Its first vector must hold a byte that no number written as text has, and what is looked at
    one that no text has: a list of phrases may begin with two numbers.
    """
    header = HEADER.match(source.head)
    if header is None:
        return "its first line is not two whole numbers (how many words, dimensions)"
    blank = source.head.find(b" ", header.end(), header.end() + MAX_WORD)
    if blank < 0:
        return "no blank ends a first word behind its header line"
    first = source.head[blank + 1 : blank + 1 + FLOAT * int(header[2])]
    if NUMBER_TEXT.fullmatch(first):
        return "numbers as text follow its first word" if first else "it ends behind its first word"
    return None if NOT_TEXT.search(source.head) else "text follows its header line"


def read(source: Source) -> ReadResult:
    """The words, in the order of the file."""
    return ReadResult((list_words(source).words,))


def list_words(source: Source) -> ListedVectors:
    """The words and where their numbers lie.

    Raises :class:`InvalidFile` where the file ends before or behind what its header promises.
    """
    header = HEADER.match(source.head)
    if header is None:
        raise InvalidFile("not word2vec's binary format: no header line", offset=0)
    promised, dim, start = int(header[1]), int(header[2]), header.end()
    if not 0 < dim <= MAX_DIM or not promised:
        raise InvalidFile(
            f"{promised:,} vectors of {dim:,} dimensions, wanted some of 1 to {MAX_DIM:,}",
            offset=0,
        )
    least = start + promised * (1 + FLOAT * dim)
    if least > source.size:
        raise InvalidFile(
            f"the header promises {promised:,} vectors of {dim:,} dimensions, at "
            f"least {least:,} bytes; the file has {source.size:,}: fetch it again",
            offset=0,
        )
    starts = array("q")
    with source.file.open("rb") as file:
        file.seek(start)
        words = ByteStrings.of(_words(file, promised, dim, starts))
    notes = (f"{dim:,} dimensions",)
    places = (Place(source.name, "before each vector"),)
    vocabulary = Vocabulary("words", "vectors", _drop_newlines(words), places=places, notes=notes)
    rows = FloatRows(map_file(source.file), np.frombuffer(starts, np.int64), dim)
    return ListedVectors(vocabulary, dim, rows)


def _words(file: BinaryIO, promised: int, dim: int, starts: array[int]) -> Iterator[bytes]:
    """Every word of ``file`` from where it stands, with the newline before it.

    ``starts`` gets where its vector begins.
    """
    row = FLOAT * dim
    window, at, pos = b"", file.tell(), 0  # ``at``: where in the file the window begins
    for number in range(promised):
        blank = window.find(b" ", pos, pos + MAX_WORD)
        if blank < 0 or blank + 1 + row > len(window):
            window = window[pos:] + file.read(WINDOW + MAX_WORD + row)
            at, pos = at + pos, 0
            blank = window.find(b" ", 0, MAX_WORD)
        if blank < 0:
            raise InvalidFile(
                f"no blank within {MAX_WORD:,} bytes ends word {number + 1:,} of {promised:,}",
                offset=at + pos,
            )
        if blank + 1 + row > len(window):
            raise InvalidFile(
                f"vector {number + 1:,} of {promised:,} is cut off: fetch the file again",
                offset=at + pos,
            )
        yield window[pos:blank]
        starts.append(at + blank + 1)
        pos = blank + 1 + row
    rest = window[pos:] + file.read(1)
    if rest not in (b"", b"\n"):
        behind = file.seek(0, 2) - at - pos
        raise InvalidFile(
            f"{behind:,} bytes lie behind the {promised:,} vectors that the header promises",
            offset=at + pos,
        )


def _drop_newlines(words: ByteStrings) -> ByteStrings:
    """Without the newline that ends each vector, where one stands behind all of them."""
    if len(words) < 2 or not words.data:
        return words
    starts, ends = words.starts.copy(), words.ends
    newline = np.frombuffer(words.data, np.uint8).take(starts[1:], mode="clip") == ord("\n")
    if bool((newline & (ends[1:] > starts[1:])).all()):
        starts[1:] += 1
    return ByteStrings(words.data, starts, ends)


READER: Final = Reader("word2vec binary", recognise, read)


MAGIC: Final = struct.pack("<i", 793712314)
VERSIONS: Final = (11, 12)
HEAD: Final = struct.Struct("<2i 12i d 3i 2q")
BEHIND: Final = struct.Struct("<qb")  # an entry's count and type
MATRIX: Final = struct.Struct("<?2q")  # whether it is quantised, rows, columns
MAX_ENTRY: Final = 1 << 16  # bytes of an entry
WORD: Final = 0
LABEL: Final = 1
SUPERVISED: Final = 3


@dataclass(frozen=True, slots=True)
class _Head:
    dim: int
    minn: int
    maxn: int
    words: int
    labels: int
    pruned: int  # n-grams kept by pruning; -1 where nothing was pruned


def recognise_fasttext(source: Source) -> str | None:
    """Why a file is not a fastText model; ``None`` where it is."""
    is_model = source.head.startswith(MAGIC)
    return None if is_model else "it does not begin with fastText's magic number"


def read_fasttext(source: Source) -> ReadResult:
    """The words as one vocabulary, the labels, if there are any, as another.

    Raises :class:`InvalidFile` where the dictionary breaks off or breaks its own rules,
    :class:`UnsupportedFormat` for another version of the format.
    """
    buffer = map_file(source.file)
    head = _head(buffer)
    words, behind = _entries(buffer, HEAD.size, WORD, head.words)
    labels, behind = _entries(buffer, behind, LABEL, head.labels)
    warnings = _warnings(buffer, behind + 8 * max(head.pruned, 0), head.dim)
    places = (Place(source.name, "dictionary"),)
    notes = [f"{head.dim:,} dimensions", "without subwords: a word outside gets no vector"]
    if head.maxn > 0:
        notes[1] = (
            f"a word outside gets a vector all the same, from its n-grams of {head.minn} to "
            f"{head.maxn} characters: it is unknown only as a whole"
        )
    if head.pruned >= 0:
        left = f"{head.pruned:,} n-grams are left"
        notes.append(f"pruned by quantisation: {left}, other words are gone")
    found = [Vocabulary("words", "vectors", words, places=places, notes=tuple(notes))]
    if len(labels):
        note = ("what a text may be classified as, not words of a text",)
        found.append(Vocabulary("labels", "list", labels, places=places, notes=note))
    return ReadResult(tuple(found), warnings)


FASTTEXT: Final = Reader("fastText model", recognise_fasttext, read_fasttext)


def _head(buffer: Buffer) -> _Head:
    if len(buffer) < HEAD.size:
        raise InvalidFile(
            f"a fastText model of {len(buffer):,} bytes, its head alone has {HEAD.size}", offset=0
        )
    _, version, *settings, _, size, words, labels, _, pruned = HEAD.unpack_from(buffer)
    if version not in VERSIONS:
        raise UnsupportedFormat(
            f"a fastText model of version {version}, wanted 11 or 12: load it with the fastText "
            "that wrote it and save its vectors as text"
        )
    dim, model, minn, maxn = settings[0], settings[7], settings[9], settings[10]
    if min(words, labels) < 0 or words + labels != size or size == 0:
        raise InvalidFile(
            f"{size:,} entries of a dictionary, {words:,} words and {labels:,} labels", offset=64
        )
    if max(dim, minn, maxn) > 1 << 20 or dim <= 0 or pruned < -1:
        raise InvalidFile(
            f"vectors of {dim:,} dimensions, n-grams of {minn:,} to {maxn:,} characters, "
            f"{pruned:,} of them kept",
            offset=8,
        )
    if version == 11 and model == SUPERVISED:
        maxn = 0  # as fastText reads them
    least = (1 + BEHIND.size) * size + 8 * max(pruned, 0)
    if HEAD.size + least > len(buffer):
        raise InvalidFile(
            f"{size:,} entries and {pruned:,} n-grams need at least {least:,} bytes, the file has "
            f"{len(buffer):,}: it was cut short, fetch it again",
            offset=64,
        )
    return _Head(dim, minn, maxn, words, labels, pruned)


def _entries(buffer: Buffer, start: int, wanted: int, count: int) -> tuple[ByteStrings, int]:
    """Entries from ``start`` on, which must be of one type, and the position behind them."""
    data, ends = bytearray(), array("q")
    for _ in range(count):
        end = buffer.find(b"\0", start, start + MAX_ENTRY)
        behind = end + 1 + BEHIND.size
        if end < 0 or behind > len(buffer):
            raise InvalidFile(
                f"an entry of the dictionary is cut off or longer than {MAX_ENTRY:,} bytes",
                offset=start,
            )
        _, found = BEHIND.unpack_from(buffer, end + 1)
        if found != wanted:
            raise InvalidFile(
                f"an entry of type {found}, wanted {wanted} (words are 0, labels behind them are "
                "1)",
                offset=behind - 1,
            )
        data += buffer[start:end]
        ends.append(len(data))
        start = behind
    return ByteStrings.contiguous(bytes(data), np.frombuffer(ends, np.int64)), start


def _warnings(buffer: Buffer, position: int, dim: int) -> tuple[str, ...]:
    """A warning where the file ends before the vectors do; the words are whole."""
    if position + MATRIX.size <= len(buffer) and buffer[position] in (0, 1):
        quantised, rows, columns = MATRIX.unpack_from(buffer, position)
        left = len(buffer) - position - MATRIX.size
        if quantised or (columns == dim and 0 <= 4 * rows * columns <= left):
            return ()
    return ("the vectors behind the dictionary are damaged or cut short; its words are whole",)
