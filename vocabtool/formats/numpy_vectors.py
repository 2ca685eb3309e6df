"""Word vectors as NumPy arrays: an ``.npz`` archive with their words, or an ``.npy`` beside them.

Layout: numpy.org/doc/stable/reference/generated/numpy.lib.format.html; the archive is a zip of such
arrays, ``words`` (text) and ``vectors``. The words of an ``.npy`` are the lines of the file beside
it that ends in ``.txt``. Nothing is unpickled, and no vector is read here.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.formats import numpy_array, text_file, vector_rows, zip_archive
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.vector_rows import ArrayRows
from vocabtool.formats.vocabulary_files import text
from vocabtool.formats.word_list import MAX_FILE
from vocabtool.formats.zip_archive import ZipArchive
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

WORDS: Final = "words.npy"  # as ``numpy.savez(FILE, words=..., vectors=...)`` names them
VECTORS: Final = "vectors.npy"
MAGICS: Final = (numpy_array.MAGIC, zip_archive.MAGIC)
UNICODE: Final = 0x10FFFF  # the last character


class Listed(NamedTuple):
    """Words and their vectors: a word's position is its row."""

    words: Vocabulary
    rows: ArrayRows


def recognise(source: Source) -> str | None:
    """``None`` for an archive that has both arrays, and for an array beside its words."""
    if source.head.startswith(numpy_array.MAGIC):
        beside = _beside(source.file)
        return None if beside.is_file() else "an array without its words, a .txt of its name"
    if not source.head.startswith(zip_archive.MAGIC):
        return "it begins neither as a NumPy array nor as an archive of them"
    try:
        with ZipArchive(source.file) as archive:
            missing = {WORDS, VECTORS} - set(archive.names)
    except VocabtoolError as error:
        return str(error)
    return f"an archive without {' and '.join(sorted(missing))}" if missing else None


def read(source: Source) -> ReadResult:
    """The words."""
    return ReadResult((list_words(source).words,))


def list_words(source: Source, words: Path | None = None) -> Listed:
    """The words, and the vectors as a memory map. ``words``: of an array, not those beside it.

    Raises :class:`InvalidFile`, :class:`NotFound` where an array has no words, and
    :class:`UnsupportedFormat` for an archive of other arrays.
    """
    if source.head.startswith(numpy_array.MAGIC):
        return _of_array(source.file, words or _beside(source.file))
    return _of_archive(source.file)


def _beside(file: Path) -> Path:
    return file.with_suffix(".txt")


def _of_array(file: Path, words: Path) -> Listed:
    rows = vector_rows.array_rows(file)
    if not words.is_file():
        raise NotFound(f"{words}: no such file; wanted the words of {file.name}, one a line")
    if (size := words.stat().st_size) > MAX_FILE:
        raise UnsupportedFormat(f"{words}: {size:,} bytes of words, wanted at most {MAX_FILE:,}")
    stored = text_file.read_lines(words.read_bytes())
    return _listed(stored, Place(words.name, "whole lines"), rows)


def _of_archive(file: Path) -> Listed:
    with ZipArchive(file) as archive:
        if not {WORDS, VECTORS} <= set(archive.names):
            raise UnsupportedFormat(
                "a zip archive without the arrays `words` and `vectors`: save them with "
                "`numpy.savez(FILE, words=words, vectors=vectors)`"
            )
        stored = ByteStrings.of(_words(archive.read(WORDS)))
    rows = vector_rows.archived_rows(file, VECTORS)
    return _listed(stored, Place(file.name, WORDS), rows)


def _listed(stored: ByteStrings, place: Place, rows: ArrayRows) -> Listed:
    count, dim = rows.array.shape
    if len(stored) != count:
        raise InvalidFile(f"{count:,} vectors, but {len(stored):,} words in {place.file}")
    notes = [f"{dim:,} dimensions"]
    if place.place != WORDS and (escaped := text.count_escaped(stored)):
        notes.append(f"{escaped:,} {text.LOOK_ESCAPED}")
    return Listed(Vocabulary("words", "vectors", stored, places=(place,), notes=tuple(notes)), rows)


def _words(data: bytes) -> Iterator[bytes]:
    """The entries of a ``.npy`` array of text, in UTF-8, or of bytes."""
    head = numpy_array.read_head(io.BytesIO(data))
    if len(head.shape) != 1 or head.dtype.kind not in "US" or not head.dtype.itemsize:
        raise UnsupportedFormat(
            f"words of type {head.dtype} and shape {head.shape}, wanted one row of text"
        )
    if len(data) - head.start != head.size:
        raise InvalidFile(f"an array of {head.size:,} bytes, {len(data) - head.start:,} are there")
    array = np.frombuffer(data, head.dtype, offset=head.start)
    if head.dtype.kind == "U" and array.view(f"{head.dtype.byteorder}u4").max(initial=0) > UNICODE:
        raise InvalidFile(f"a word is not Unicode: a character beyond {UNICODE:#x}")
    try:
        for at in range(0, len(array), CHUNK):
            for word in array[at : at + CHUNK].tolist():
                yield word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")
    except ValueError as error:
        raise InvalidFile(f"a word is not Unicode: {error}") from error


READER: Final = Reader(
    "word vectors as NumPy arrays (.npz, or .npy beside a .txt)", recognise, read
)
