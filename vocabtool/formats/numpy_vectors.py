"""Word vectors as NumPy arrays: an ``.npz`` archive with their words, or an ``.npy`` beside them.

Layout: numpy.org/doc/stable/reference/generated/numpy.lib.format.html; the archive is a zip of such
arrays, ``words`` (text) and ``vectors``. The words of an ``.npy`` are the lines of the file beside
it that ends in ``.txt``. The head of an array is a Python dictionary as text; it is matched here,
never evaluated, and an array of objects (a pickle) is refused. Vectors are only mapped.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.formats import files, vocabulary_files, word_list
from vocabtool.formats.files import ZipArchive
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.text_vectors import ListedVectors
from vocabtool.formats.word_list import MAX_FILE
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

MAGIC: Final = b"\x93NUMPY"
MAGICS: Final = (MAGIC, files.MAGIC)
WORDS: Final = "words.npy"  # as ``numpy.savez(FILE, words=..., vectors=...)`` names them
VECTORS: Final = "vectors.npy"
MAX_CHARACTER: Final = 0x10FFFF
MAX_HEAD: Final = 1 << 14  # bytes of the dictionary; NumPy pads it to 118
DICTIONARY: Final = re.compile(
    rb"\{'descr': *'([<>|=]?[a-zA-Z][0-9]{0,9})', *'fortran_order': *(True|False), *"
    rb"'shape': *\(((?:[0-9]{1,18},? ?){0,8})\),? *\} *\n?"
)
LOCAL_HEADER: Final = 30  # bytes, then a name and an extra field (PKWARE's APPNOTE.TXT, 4.3.7)


@dataclass(frozen=True, slots=True)
class ArrayHead:
    """``start``: bytes before the first number. ``by_column``: stored column after column."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    by_column: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return self.dtype.itemsize * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """An array in a memory map: floats of any size, shape (n, dim)."""

    array: NDArray[np.floating[Any]]

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Copy these rows."""
        with np.errstate(over="ignore"):
            return self.array[positions].astype(np.float32)

    def forget(self) -> None:
        """Nothing: the map is shared."""


def read_head(file: BinaryIO) -> ArrayHead:
    """Read the head of an array from where ``file`` stands, up to its first number.

    Raises :class:`InvalidFile` where it is not one, :class:`UnsupportedFormat` for an array of
    objects or of records.
    """
    fixed = file.read(8)
    if not fixed.startswith(MAGIC) or len(fixed) < 8 or fixed[6] not in (1, 2, 3):
        raise InvalidFile(f"not a NumPy array: it begins {fixed.hex(' ')}", offset=0)
    width = 2 if fixed[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEAD:
        raise InvalidFile(f"an array's head of {length:,} bytes, wanted at most {MAX_HEAD:,}")
    text = file.read(length)
    match = DICTIONARY.fullmatch(text)
    if match is None:
        raise UnsupportedFormat(f"a NumPy array that is neither numbers nor text: {text[:80]!r}")
    descr, by_column, shape = match.groups()
    try:
        dtype = np.dtype(descr.decode())
        sizes = tuple(int(size) for size in shape.replace(b" ", b"").split(b",") if size)
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"a NumPy array of type {descr!r}, shape {shape[:40]!r}") from error
    if dtype.hasobject:
        raise UnsupportedFormat(
            "an array of Python objects, which is a pickle and never loaded: save it again with "
            "`array.astype(str)`"
        )
    return ArrayHead(dtype, sizes, by_column == b"True", 8 + width + length)


def recognise(source: Source) -> str | None:
    """``None`` for an archive that has both arrays, and for an array beside its words."""
    if source.head.startswith(MAGIC):
        beside = source.file.with_suffix(".txt")
        return None if beside.is_file() else "an array without its words, a .txt of its name"
    if not source.head.startswith(files.MAGIC):
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


READER: Final = Reader(
    "word vectors as NumPy arrays (.npz, or .npy beside a .txt)", recognise, read
)


def list_words(source: Source, words: Path | None = None) -> ListedVectors:
    """The words, and the vectors as a memory map. ``words``: of an array, not those beside it.

    Raises :class:`InvalidFile`, :class:`NotFound` where an array has no words, and
    :class:`UnsupportedFormat` for an archive of other arrays.
    """
    file, notes = source.file, []
    if source.head.startswith(MAGIC):
        rows = array_rows(file)
        words = words or file.with_suffix(".txt")
        if not words.is_file():
            raise NotFound(f"{words}: no such file; wanted the words of {file.name}, one a line")
        if (size := words.stat().st_size) > MAX_FILE:
            raise UnsupportedFormat(
                f"{words}: {size:,} bytes of words, wanted at most {MAX_FILE:,}"
            )
        stored, place = word_list.read_lines(words.read_bytes()), Place(words.name, "whole lines")
        if escaped := vocabulary_files.count_escaped(stored):
            notes.append(f"{escaped:,} {vocabulary_files.LOOK_ESCAPED}")
    else:
        with ZipArchive(file) as archive:
            if not {WORDS, VECTORS} <= set(archive.names):
                raise UnsupportedFormat(
                    "a zip archive without the arrays `words` and `vectors`: save them with "
                    "`numpy.savez(FILE, words=words, vectors=vectors)`"
                )
            stored = ByteStrings.of(_words(archive.read(WORDS)))
        rows, place = _archived_rows(file), Place(file.name, WORDS)
    count, dim = rows.array.shape
    if len(stored) != count:
        raise InvalidFile(f"{count:,} vectors, but {len(stored):,} words in {place.file}")
    all_notes = (f"{dim:,} dimensions", *notes)
    listed = Vocabulary("words", "vectors", stored, places=(place,), notes=all_notes)
    return ListedVectors(listed, dim, rows)


def array_rows(file: Path) -> ArrayRows:
    """Rows of a ``.npy`` file."""
    with file.open("rb") as opened:
        return _rows(file, opened, 0, file.stat().st_size)


def _archived_rows(file: Path) -> ArrayRows:
    """Rows of the vectors in an ``.npz`` archive whose directory is sound.

    Raises :class:`UnsupportedFormat` where they are compressed: nothing of them could be mapped.
    """
    with zipfile.ZipFile(file) as archive:
        member = archive.getinfo(VECTORS)
    if member.compress_type != zipfile.ZIP_STORED:
        raise UnsupportedFormat(
            f"{VECTORS} is compressed, so that a row is not to be found in it: save the archive "
            "with `numpy.savez`, without compression"
        )
    with file.open("rb") as opened:
        opened.seek(member.header_offset)
        local = opened.read(LOCAL_HEADER)
        if len(local) < LOCAL_HEADER or not local.startswith(files.MAGIC):
            raise InvalidFile(f"{VECTORS} is not where the archive's directory says it is")
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        start = member.header_offset + LOCAL_HEADER + names
        end = min(start + member.file_size, file.stat().st_size)
        return _rows(file, opened, start, end)


def _rows(file: Path, opened: BinaryIO, start: int, end: int) -> ArrayRows:
    """The array whose head lies at ``start`` and whose numbers must end at ``end``."""
    opened.seek(start)
    head = read_head(opened)
    if len(head.shape) != 2 or head.dtype.kind != "f" or not head.size:
        raise UnsupportedFormat(
            f"an array of type {head.dtype} and shape {head.shape}, wanted floats in rows and "
            "columns"
        )
    start += head.start
    if start + head.size != end:
        raise InvalidFile(
            f"an array of shape {head.shape} needs {head.size:,} bytes, {end - start:,} are there",
            offset=start,
        )
    order: Literal["F", "C"] = "F" if head.by_column else "C"
    return ArrayRows(np.memmap(file, head.dtype, "r", start, head.shape, order))


def _words(data: bytes) -> Iterator[bytes]:
    """The entries of a ``.npy`` array of text, in UTF-8, or of bytes."""
    head = read_head(io.BytesIO(data))
    if len(head.shape) != 1 or head.dtype.kind not in "US" or not head.dtype.itemsize:
        raise UnsupportedFormat(
            f"words of type {head.dtype} and shape {head.shape}, wanted one row of text"
        )
    if len(data) - head.start != head.size:
        raise InvalidFile(f"an array of {head.size:,} bytes, {len(data) - head.start:,} are there")
    array = np.frombuffer(data, head.dtype, offset=head.start)
    codes = array.view(f"{head.dtype.byteorder}u4") if head.dtype.kind == "U" else array[:0]
    if head.dtype.kind == "U" and codes.max(initial=0) > MAX_CHARACTER:
        raise InvalidFile(f"a word is not Unicode: a character beyond {MAX_CHARACTER:#x}")
    try:
        for at in range(0, len(array), CHUNK):
            for word in array[at : at + CHUNK].tolist():
                yield word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")
    except ValueError as error:
        raise InvalidFile(f"a word is not Unicode: {error}") from error
