"""Word vectors: the words of a file and, row by row or as one memory map, their vectors.

Opening reads the words and no vector. fastText models (``.bin``) are told and refused: a word's
vector is no row there. Which words a text has, and what is done with vectors, is not asked here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import (
    InvalidFile,
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    reading,
)
from vocabtool.formats import binary_vectors, numpy_vectors, text_vectors
from vocabtool.formats.numpy_vectors import ArrayRows
from vocabtool.formats.reader import Source
from vocabtool.formats.text_vectors import ListedVectors, Rows
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import Vocabulary

BLOCK: Final = 1 << 20  # numbers converted at a time
FASTTEXT: Final = (
    "a fastText model: a word's vector is the mean over its subwords' rows, none is stored. "
    "Write them with `fasttext print-word-vectors MODEL < WORDS > FILE` and open that file"
)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; a word's position is its row.

    ``words``: duplicates are kept as stored. ``dim``: numbers in a vector.
    """

    words: Vocabulary
    dim: int
    _rows: Rows
    _file: Path

    @classmethod
    def open(cls, path: str | Path, words: str | Path | None = None) -> WordVectors:
        """Open GloVe's, word2vec's and fastText's text, word2vec's binary format, NumPy's arrays.

        An ``.npz`` archive holds ``words`` (text) and ``vectors``. A ``.npy`` file holds vectors,
        its words are the lines of ``words``: by default, of the file beside it that ends in
        ``.txt``. Raises :class:`VocabtoolError`.
        """
        file = Path(path)
        with reading(str(file)):
            if not file.is_file():
                raise NotFound(f"{file}: wanted a file of word vectors, there is none")
            source = Source.open(file)
            if source.head.startswith(numpy_vectors.MAGICS):
                listed = numpy_vectors.list_words(source, Path(words) if words else None)
            else:
                listed = _list_words(source)
            return cls(listed.words, listed.dim, listed.rows, file)

    def __len__(self) -> int:
        return len(self.words)

    def vectors(self, positions: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The vectors at these positions, shape (k, dim); nothing else of the file is read.

        Raises ``IndexError`` for a position that no word has, and :class:`InvalidFile` where text
        is no number.
        """
        wanted = np.asarray(positions, np.int64).reshape(-1)
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < len(self):
            raise IndexError(f"positions {wanted.min()} to {wanted.max()} of {len(self):,} words")
        with reading(str(self._file)):
            return self._rows.take(wanted)

    def matrix(self, folder: str | Path | None = None) -> NDArray[np.float32]:
        """All vectors as one read-only memory map, shape (n, dim), whose pages all users share.

        Where the file holds no such matrix it is converted once: a ``.npy`` file appears in
        ``folder``, by default beside it, that later calls and other processes open. Its name
        tells the size and the time of the file, so that a changed file is converted anew.
        """
        if self._plain is not None:
            return self._plain
        converted = self._converted_in(folder)
        with reading(str(converted)):
            if not converted.exists():
                self._convert(converted)
            array = numpy_vectors.array_rows(converted).array
            if array.shape != (len(self), self.dim) or not _is_plain(array):
                raise InvalidFile("not the matrix that was converted here: delete this file")
            return array

    def matrix_file(self, folder: str | Path | None = None) -> Path | None:
        """The file that :meth:`matrix` opens, or makes; ``None`` where it is this one itself."""
        return None if self._plain is not None else self._converted_in(folder)

    @property
    def _plain(self) -> NDArray[np.float32] | None:
        """The matrix, where the file holds it as it is used."""
        rows = self._rows
        return rows.array if isinstance(rows, ArrayRows) and _is_plain(rows.array) else None

    def _converted_in(self, folder: str | Path | None) -> Path:
        with reading(str(self._file)):
            facts = self._file.stat()
        key = hashlib.sha256(f"{facts.st_size} {facts.st_mtime_ns}".encode()).hexdigest()
        return Path(folder or self._file.parent) / f"{self._file.name}.{key[:12]}.npy"

    def _convert(self, target: Path) -> None:
        with whole_file(target) as file:
            head = {"descr": "<f4", "fortran_order": False, "shape": (len(self), self.dim)}
            np.lib.format.write_array_header_1_0(file, head)
            step = max(BLOCK // self.dim, 1)
            for at in range(0, len(self), step):
                positions = np.arange(at, min(at + step, len(self)))
                file.write(self.vectors(positions).astype("<f4", copy=False).tobytes())
                self._rows.forget()


def _list_words(source: Source) -> ListedVectors:
    if binary_vectors.recognise_fasttext(source) is None:
        raise UnsupportedFormat(FASTTEXT)
    tried = []
    for reader, list_words in (
        (text_vectors.READER, text_vectors.list_words),
        (binary_vectors.READER, binary_vectors.list_words),
    ):
        if (reason := reader.recognise(source)) is None:
            return list_words(source)
        tried.append(f"{reader.format}: {reason}")
    raise UnknownFormat(f"{source.file}: not a file of word vectors", tried)


def _is_plain(array: NDArray[Any]) -> bool:
    return array.dtype == np.float32 and array.flags.c_contiguous
