"""A folder without a SavedModel: what the vocabulary files at its top level hold, together.

Every file that a reader recognises by its content is read; of files that are nothing but text,
only those that are called like vocabularies (``vocab*.txt``, ``words*.txt``, ``tokens*.txt``,
``dict*.txt``, ``*.vocab`` but not beside a ``.model`` that says the same), so that a README,
``merges.txt`` or a licence is none. Pickles, which are never read, and weights are passed over.
Folders inside are not looked into, and no links are followed but those of a Hugging Face cache
(``../../blobs/<name>``). A spaCy pipeline is left to ``spacy_vocab.py``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from vocabtool.errors import (
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.formats import readers, spacy_vocab
from vocabtool.formats.model import Model, PassedOver, distinct
from vocabtool.formats.reader import Reader, Source
from vocabtool.formats.saved_model.graph_files import no_model_in
from vocabtool.vocabulary import Place, Vocabulary, printable

MAX_FILES: Final = 10_000
WORD_LISTS: Final = re.compile(r"(vocab|words|tokens|dict).*\.txt|.*\.vocab", re.IGNORECASE)
WEIGHTS: Final = re.compile(
    r".*\.(safetensors|h5|hdf5|msgpack|pt|pth|ckpt|npz|npy)|(pytorch|tf|flax)_model.*",
    re.IGNORECASE,
)
# SentencePiece writes its pieces twice: as a model, and with their scores for people to read.
PIECES: Final = ".model"
SCORED: Final = ".vocab"
BLOB: Final = re.compile(r"\.\./\.\./blobs/[0-9A-Za-z]+")  # a link in a Hugging Face cache


def read_folder(folder: Path) -> Model:
    """The vocabularies of all files of a folder, equal ones joined.

    Of a spaCy pipeline, those in its folder ``vocab`` only.
    Raises :class:`UnknownFormat` where no file holds any.
    """
    spacy = spacy_vocab.folder_in(folder)
    if spacy is not None:
        return spacy_vocab.read(folder, spacy)
    found = _Folder(folder)
    for path in found.paths():
        found.add(path)
    if not found.formats:
        raise no_model_in(folder, (*found.warnings, *map(_told, found.passed_over)))
    kinds = ", ".join(dict.fromkeys(found.formats))
    return Model(
        str(folder),
        f"folder: {kinds}",
        distinct(_named_by_file(found.vocabularies)),
        tuple(found.passed_over),
        tuple(found.warnings),
    )


class _Folder:
    """What the files seen so far gave."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.formats: list[str] = []
        self.vocabularies: list[Vocabulary] = []
        self.passed_over: list[PassedOver] = []
        self.warnings: list[str] = []

    def paths(self) -> Iterator[Path]:
        """The files to look at, by name. Raises :class:`UnsupportedFormat` for too many."""
        paths = sorted(self._folder.iterdir())
        if len(paths) > MAX_FILES:
            raise UnsupportedFormat(f"a folder of more than {MAX_FILES:,} files: pass one of them")
        for path in paths:
            if path.name.startswith(".") or WEIGHTS.fullmatch(path.name) or not path.is_file():
                continue
            if path.is_symlink() and not _is_cached(path):
                self._pass_over(path, "a symbolic link: it is not followed")
            else:
                yield path

    def add(self, path: Path) -> None:
        """Read a file, where a reader for it is found; what goes wrong becomes a warning."""
        name = printable(os.fsencode(path.name))
        try:
            with reading(name):
                source = readers.source_of(path)
                refuse_pointer(source.head)
                reader = readers.find(source)
                if reader is not None and _is_wanted(reader, path):
                    self._read(reader, source)
        except UnknownFormat as error:  # JSON of some other kind: settings, an index of weights
            self._pass_over(path, error.what)
        except VocabtoolError as error:
            self.warnings.append(str(error))

    def _read(self, reader: Reader, source: Source) -> None:
        try:
            found = reader.read(source)
        except UnsupportedFormat as error:
            if reader is not readers.NEVER_READ:
                raise
            self._pass_over(source.file, error.what)
            return
        self.formats.append(found.format or reader.format)
        self.vocabularies += found.vocabularies
        self.passed_over += found.passed_over
        self.warnings += (f"{source.name}: {warning}" for warning in found.warnings)

    def _pass_over(self, path: Path, why: str) -> None:
        name = printable(os.fsencode(path.name))
        self.passed_over.append(PassedOver(name, 0, Place(name, "whole file"), why))


def _is_wanted(reader: Reader, path: Path) -> bool:
    """Whether a file may be what its reader takes it for; any text may be a list of words."""
    if reader is not readers.WORD_LIST:
        return True
    scored = path.suffix == SCORED and path.with_suffix(PIECES).is_file()
    return not scored and WORD_LISTS.fullmatch(path.name) is not None


def _is_cached(link: Path) -> bool:
    """Whether a link is one of a Hugging Face cache, and leads to a regular file there."""
    target = os.fspath(link.readlink())
    if BLOB.fullmatch(target) is None:
        return False
    blob = link.parent / target
    return blob.is_file() and not blob.is_symlink()


def _told(item: PassedOver) -> str:
    return f"{item.name}: {item.why}"


def _named_by_file(vocabularies: list[Vocabulary]) -> Iterator[Vocabulary]:
    """Put its file before a name that vocabularies of several files have."""
    files = {(vocabulary.name, vocabulary.places[0].file) for vocabulary in vocabularies}
    counts = Counter(name for name, _ in files)
    for vocabulary in vocabularies:
        name, file = vocabulary.name, vocabulary.places[0].file
        yield replace(vocabulary, name=f"{file}/{name}") if counts[name] > 1 else vocabulary
