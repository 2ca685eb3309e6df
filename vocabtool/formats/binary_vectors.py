"""word2vec's binary format: ``n dim``, then a word, a blank and ``dim`` floats, ``n`` times.

Layout: tmikolov/word2vec, word2vec.c, which writes a newline behind each vector; gensim writes
none. Floats are 32 bits, little-endian. ``word_vectors.py`` reads the vectors.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
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
