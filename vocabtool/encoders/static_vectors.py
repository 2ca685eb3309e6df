"""A file of word vectors as encoders hold it: words, one memory map, a fingerprint of both.

Reading the formats is in ``word_vectors.py``. A file that holds no plain matrix is converted once,
into the user's cache: the folder of a model is not ours to write to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import NotFound, reading
from vocabtool.formats.word_vectors import WordVectors

CACHE: Final = "VOCABTOOL_CACHE"
CACHE_HOME: Final = "XDG_CACHE_HOME"  # XDG Base Directory Specification
CONVERTED: Final = "the vectors were converted once, to"
NEEDED: Final = "the vectors have to be converted once"
NAME_ONE: Final = f"name a folder for that in ${CACHE}"
BLOCK: Final = 1 << 24  # bytes of the matrix hashed at a time


class Stamp(NamedTuple):
    """By what a changed file is told: its size in bytes, and when it was modified, in ns."""

    size: int
    modified: int

    @classmethod
    def of(cls, file: Path) -> Stamp:
        """Look at a file. Raises :class:`NotFound`."""
        with reading(str(file)):
            facts = file.stat()
        return cls(facts.st_size, facts.st_mtime_ns)


class MappedVectors:
    """Words and their vectors, memory-mapped. Pickled it is a path: the file is opened again.

    ``words``: a word's position is its row. ``matrix``: float32, shape (words, dim), read-only.
    ``notes``: where the matrix is, if it was converted just now.
    """

    def __init__(self, file: str | Path) -> None:
        """Raises what :meth:`WordVectors.open` and :meth:`WordVectors.matrix` raise."""
        self.file = Path(file)
        self._stamp = Stamp.of(self.file)
        vectors = WordVectors.open(self.file)
        self.words = vectors.words
        folder = _folder_for(vectors, self.file)
        converted = vectors.matrix_file(folder)
        new = converted is not None and not converted.exists()
        self.matrix: Vectors = np.asarray(vectors.matrix(folder))
        self.notes = (f"{CONVERTED} {converted}, which can be deleted",) if new else ()

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of words and vectors, whatever file they lie in; reads all."""
        digest = hashlib.sha256(f"vocabtool vectors 1 {self.matrix.shape}\n".encode())
        digest.update(self.words.fingerprint.encode())
        step = max(BLOCK // (4 * self.matrix.shape[1]), 1)
        for start in range(0, len(self.matrix), step):
            digest.update(self.matrix[start : start + step].astype("<f4", copy=False).data)
        return digest.hexdigest()

    def __reduce__(
        self,
    ) -> tuple[Callable[[Path, _Known | None], MappedVectors], tuple[Path, _Known | None]]:
        """The path, and the fingerprint, where it is known: it holds while the file is the same."""
        known = self.__dict__.get("fingerprint")
        if known is None:
            return _opened_again, (self.file, None)
        return _opened_again, (self.file, _Known(self._stamp, self.words.fingerprint, known))

    def know(self, known: _Known) -> None:
        """Take a fingerprint that was found before, if it is of the file as it is now."""
        if (self._stamp, self.words.fingerprint) == known[:2]:
            self.__dict__["fingerprint"] = known.fingerprint


class _Known(NamedTuple):
    """The fingerprint of a file with this stamp and words with this fingerprint."""

    stamp: Stamp
    words: str
    fingerprint: str


def _opened_again(file: Path, known: _Known | None) -> MappedVectors:
    vectors = MappedVectors(file)
    if known is not None:
        vectors.know(known)
    return vectors


def _folder_for(vectors: WordVectors, file: Path) -> Path | None:
    """Where a converted matrix lies, or will; ``None``: beside the file, where one is already."""
    beside = vectors.matrix_file()
    if beside is None or beside.exists():
        return None
    # Files of other folders may have the same name, size and time; so may a file put in its place.
    facts = file.stat()
    key = f"{os.fspath(file.resolve())} {facts.st_ino} {facts.st_ctime_ns}"
    folder = _cache() / "vectors" / hashlib.sha256(os.fsencode(key)).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = error.strerror or error
        raise NotFound(f"{folder}: cannot be made ({what}), and {NEEDED}: {NAME_ONE}") from error
    return folder


def _cache() -> Path:
    if told := os.environ.get(CACHE):
        return Path(told).absolute()
    home = os.environ.get(CACHE_HOME, "")
    if Path(home).is_absolute():  # others are to be ignored
        return Path(home) / "vocabtool"
    try:
        return Path.home() / ".cache" / "vocabtool"
    except RuntimeError as error:
        raise NotFound(f"there is no home folder, and {NEEDED}: {NAME_ONE}") from error
