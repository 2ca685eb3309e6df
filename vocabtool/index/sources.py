"""Where the documents of an index come from: the FILEs, how each is read, and the FILE of each row.

    sources-000007.bin    of one commit: 4 bytes a row; 0: of no FILE, k: of the k-th that is known

A FILE is remembered as it was named, for ids that are places (``docs/a.txt:1``), and with the
folder that it was named in, so that it is found from anywhere.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from glob import escape, has_magic
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.files import find
from vocabtool.documents.options import Format, OnDuplicate, OnError, ReadOptions
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.system.checksums import checksum, compare
from vocabtool.system.whole_file import whole_file

NAME: Final = "sources-{:06}.bin"  # by the number of the commit
NUMBER: Final = np.dtype("<u4")

RowSources = NDArray[np.uint32]  # shape (rows,)


class Reading(NamedTuple):
    """How FILEs are read, as it is kept: :class:`ReadOptions` as a list of values."""

    field: str | None
    format: Format | None
    id_field: str | None
    keep: tuple[str, ...]
    on_error: OnError
    on_duplicate: OnDuplicate | None

    @classmethod
    def of(cls, options: ReadOptions) -> Reading:
        """The options to be kept."""
        return cls(**asdict(options))

    def options(self) -> ReadOptions:
        """The options that were kept."""
        return ReadOptions(**self._asdict())


class Source(NamedTuple):
    """A FILE: a file, a folder or a glob, by the ``name`` it was given.

    ``at``: the absolute path of the folder it was named in; ``beside``: the way there from the
    index, for where both were moved.
    """

    name: str
    at: str
    beside: str
    reading: Reading

    @property
    def path(self) -> str:
        """The absolute path, by which two names of one FILE are known to be."""
        return os.path.normpath(self.from_anywhere)

    @property
    def from_anywhere(self) -> str:
        """The name with the folder in front; of a glob a glob, whatever the folder is called."""
        path = os.path.join(self.at, self.name)  # noqa: PTH118 - globs too
        if has_magic(self.name) and not os.path.exists(path):  # noqa: PTH110 - bears any text
            return os.path.join(escape(self.at), self.name)  # noqa: PTH118
        return path

    @classmethod
    def named(cls, name: str, index: Path, reading: Reading) -> Source:
        """One that a caller names now."""
        at = os.getcwd()  # noqa: PTH109 - a string, which bears any name
        return cls(name, at, os.path.relpath(at, index), reading)

    @classmethod
    def of(cls, told: Any) -> Source:
        """Out of a file. Raises :class:`InvalidFile` for what is none."""
        name, at, beside, (field, format_, id_field, keep, on_error, on_duplicate) = told
        texts = (name, at, beside, *keep, *(each for each in (field, id_field) if each is not None))
        choices = (
            (format_, (None, *get_args(Format))),
            (on_error, get_args(OnError)),
            (on_duplicate, get_args(OnDuplicate)),
        )
        if not all(type(text) is str for text in texts) or not all(
            value in among for value, among in choices
        ):
            raise InvalidFile("the entry 'sources' does not describe a FILE")
        how = Reading(field, format_, id_field, tuple(keep), on_error, on_duplicate)
        return cls(name, at, beside, how)

    def is_there(self) -> bool:
        """Whether it names a file, or a folder with one."""
        try:
            return any(map(os.path.exists, find(self.path)[:1]))
        except NotFound:
            return False

    def found(self, index: Path) -> Source:
        """The same where it is now: where it was, or beside an index that was moved with it."""
        moved = os.path.normpath(os.path.join(index.absolute(), self.beside))  # noqa: PTH118
        other = self._replace(at=moved)
        return other if not self.is_there() and other.is_there() else self


class SourcesFile(NamedTuple):
    """The numbers of a commit's rows as the manifest tells of them: which commit wrote them."""

    commit: int
    crc32c: int


def write(folder: Path, commit: int, numbers: RowSources) -> SourcesFile | None:
    """Keep the numbers of all rows; ``None`` where no row is of a FILE."""
    if not numbers.any():
        return None
    path = folder / NAME.format(commit)
    with whole_file(path) as file:
        file.write(numbers.astype(NUMBER).tobytes())
    return SourcesFile(commit, checksum(path))


def read(folder: Path, file: SourcesFile | None, rows: int, known: int) -> RowSources:
    """The numbers of a commit, of so many FILEs. Raises :class:`InvalidFile`."""
    if file is None:
        return np.zeros(rows, np.uint32)
    path = folder / NAME.format(file.commit)
    with reading(str(path)):
        if (size := path.stat().st_size) != rows * NUMBER.itemsize:
            raise InvalidFile(f"{size:,} bytes, wanted {rows * NUMBER.itemsize:,}")
        compare(path, file.crc32c)
        numbers = np.fromfile(path, NUMBER).astype(np.uint32)
        if rows and int(numbers.max()) > known:
            raise InvalidFile(f"a row of FILE number {numbers.max():,}, of {known:,}")
    return numbers
