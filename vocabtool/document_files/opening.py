"""From names to open files: globs, formats told by a file's suffix, compression undone.

What is in the files is read elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, Protocol, cast

from vocabtool.errors import GIT_LFS, InvalidFile, NotFound, UnsupportedFormat, refuse_pointer

Format = Literal["lines", "jsonl", "csv", "tsv", "parquet"]

STDIN: Final = "-"
SUFFIXES: Final[dict[str, Format]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
CODECS: Final = {".gz": "gzip", ".zst": "zstd"}
NOT_READ: Final = frozenset({".7z", ".br", ".bz2", ".lz4", ".rar", ".xz", ".z", ".zip"})


class Readable(Protocol):
    """What readers of streams need."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes, none only at the end."""

    def readinto(self, room: memoryview, /) -> int:
        """Fill ``room`` from its start; how many bytes came, 0 only at the end."""


class Kind(NamedTuple):
    """How a file is to be read; ``codec``: what undoes its compression, if it is compressed."""

    format: Format
    codec: str | None


def find(name: str) -> list[str]:
    """The files that a path or glob names, sorted. Raises :class:`NotFound`: none matches."""
    if name == STDIN or not has_magic(name) or Path(name).exists():
        return [name]
    found = sorted(file for file in glob(name, recursive=True) if not Path(file).is_dir())  # noqa: PTH207 - keeps ./ as it was given
    if not found:
        raise NotFound(f"{name}: no file matches")
    return found


def kind_of(name: str, wanted: Format | None) -> Kind:
    """The format by the suffix, unless one is ``wanted``, and the compression by the last suffix.

    Raises :class:`UnsupportedFormat` for archives and compression that is not read.
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    last = suffixes.pop() if suffixes else ""
    if last in NOT_READ:
        raise UnsupportedFormat(f"{last} is not read; {', '.join(CODECS)} and plain files are")
    if last in CODECS:
        codec, last = CODECS[last], suffixes.pop() if suffixes else ""
    else:
        codec = None
    kind = Kind(wanted or SUFFIXES.get(last, "lines"), codec)
    if kind.format == "parquet" and (codec or name == STDIN):
        raise UnsupportedFormat("Parquet is read from a plain file, not from a stream. Unpack it.")
    return kind


@contextmanager
def opened(name: str, codec: str | None) -> Iterator[Readable]:
    """A file open for reading, its compression undone; standard input for ``-``.

    Raises :class:`NotFound`, and :class:`InvalidFile` for a pointer of Git LFS.
    """
    if name == STDIN:
        yield cast(Readable, sys.stdin.buffer)
        return
    if Path(name).is_dir():
        raise NotFound(f"{name}: a folder. Name its files, as in {Path(name) / '**' / '*.txt'}")
    if not Path(name).exists():
        raise NotFound(f"{name}: no such file")
    with Path(name).open("rb") as file:
        refuse_pointer(file.peek(len(GIT_LFS[0])))
        if codec is None:
            yield file
        else:
            yield _Unpacked(file, codec)


class _Unpacked:
    """A compressed file as what was compressed."""

    def __init__(self, file: BinaryIO, codec: str) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(file, codec)
        self._codec = codec

    def read(self, size: int, /) -> bytes:
        with arrow_errors(f"not {self._codec}, or damaged"):
            piece: bytes = self._stream.read(size)
            return piece

    def readinto(self, room: memoryview, /) -> int:
        with arrow_errors(f"not {self._codec}, or damaged"):
            got: int = self._stream.readinto(room)
            return got


@contextmanager
def arrow_errors(what: str) -> Iterator[None]:
    """What Arrow says of a file's content, as :class:`InvalidFile`; what the system says, as is."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise InvalidFile(f"{what}: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise InvalidFile(f"{what}: {error}") from error
