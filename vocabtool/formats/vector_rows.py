"""The rows of a file of word vectors, from where they lie: as text, as floats, as a NumPy array.

Only the rows that are asked for are read, from a memory map. Where each row begins is told by the
format's reader; the words are no matter here.
"""

from __future__ import annotations

import mmap
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import numpy_array
from vocabtool.formats.mapped import mapped
from vocabtool.formats.wire import Buffer

LOCAL_HEADER: Final = 30  # bytes, then a name and an extra field (PKWARE's APPNOTE.TXT, 4.3.7)
SHOWN: Final = 40


class Rows(Protocol):
    """The vectors of a file."""

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows at valid positions, shape (k, dim)."""


class TextRows(NamedTuple):
    """Decimal numbers divided by blanks, from each of ``starts`` to the end of the line."""

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
                f"{line[:SHOWN]!r} ... is not {self.dim:,} numbers divided by blanks", offset=start
            )
        with np.errstate(over="ignore"):  # beyond float32 lies infinity
            return numbers.astype(np.float32)


class FloatRows(NamedTuple):
    """``dim`` little-endian floats from each of ``starts`` on, which need not be aligned."""

    buffer: Buffer
    starts: NDArray[np.int64]
    dim: int

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Copy these rows."""
        rows = np.empty((len(positions), self.dim), np.float32)
        for row, start in zip(rows, self.starts[positions].tolist(), strict=True):
            row[:] = np.frombuffer(self.buffer, "<f4", self.dim, start)
        return rows


class ArrayRows(NamedTuple):
    """An array in memory or, better, in a memory map: floats of any size, shape (n, dim)."""

    array: NDArray[np.floating[Any]]

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Copy these rows."""
        with np.errstate(over="ignore"):
            return self.array[positions].astype(np.float32)


def forget(rows: Rows) -> None:
    """Let go of the pages of the file that were read: until then they count as our memory."""
    if isinstance(rows, TextRows | FloatRows) and isinstance(rows.buffer, mmap.mmap):
        rows.buffer.madvise(mmap.MADV_DONTNEED)


def text_rows(file: Path, starts: NDArray[np.int64], dim: int) -> TextRows:
    """Rows of a text file that was listed."""
    return TextRows(mapped(file), starts, dim)


def float_rows(file: Path, starts: NDArray[np.int64], dim: int) -> FloatRows:
    """Rows of a binary file that was listed."""
    return FloatRows(mapped(file), starts, dim)


def array_rows(file: Path) -> ArrayRows:
    """Rows of a ``.npy`` file."""
    with file.open("rb") as opened:
        return _array_rows(file, opened, 0, file.stat().st_size)


def archived_rows(file: Path, name: str) -> ArrayRows:
    """Rows of an array in an ``.npz`` archive whose directory is sound.

    Raises :class:`UnsupportedFormat` where it is compressed: nothing of it could be mapped.
    """
    with zipfile.ZipFile(file) as archive:
        member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        raise UnsupportedFormat(
            f"{name} is compressed, so that a row is not to be found in it: save the archive with "
            "`numpy.savez`, without compression"
        )
    with file.open("rb") as opened:
        opened.seek(member.header_offset)
        local = opened.read(LOCAL_HEADER)
        if len(local) < LOCAL_HEADER or not local.startswith(b"PK\x03\x04"):
            raise InvalidFile(f"{name} is not where the archive's directory says it is")
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        start = member.header_offset + LOCAL_HEADER + names
        end = min(start + member.file_size, file.stat().st_size)
        return _array_rows(file, opened, start, end)


def _array_rows(file: Path, opened: BinaryIO, start: int, end: int) -> ArrayRows:
    """The array whose head lies at ``start`` and whose numbers must end at ``end``."""
    opened.seek(start)
    head = numpy_array.read_head(opened)
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
