"""The files in ``assets/`` of a SavedModel, opened by a bare name and never through a link.

Assets that no table reads are told apart here: a SentencePiece model, a list of words, or neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vocabtool.errors import NotFound, UnsupportedFormat, reading, refuse_pointer
from vocabtool.formats import sentencepiece, text_file
from vocabtool.formats.files import named_file, refuse_link
from vocabtool.formats.model import PassedOver
from vocabtool.vocabulary import Place, Vocabulary, is_utf8, printable

MAX_FILE: Final = 1 << 30  # bytes
MAX_ASSETS: Final = 10_000
HEAD: Final = 1 << 16  # bytes by which a file is told
MIN_LINES: Final = 10
WHOLE: Final = "whole file"


class AssetFolder:
    """``assets/`` below the folder of a model. ``read_names``: which files were asked for."""

    def __init__(self, model: Path) -> None:
        self._folder = model / "assets"
        self.read_names: set[str] = set()

    def read(self, name: bytes) -> bytes:
        """The content of an asset.

        Raises :class:`InvalidFile` where the name is a path, and as :func:`read_file` does.
        """
        path = named_file(self._folder, name)
        self.read_names.add(path.name)
        with reading("assets"):
            refuse_link(self._folder)
        return read_file(path, f"assets/{printable(name)}")

    def unread(self) -> Iterator[Path]:
        """The files, and links, that nothing asked for, by name.

        Raises :class:`InvalidFile` where the folder is a link, :class:`NotFound` where it cannot
        be listed, and :class:`UnsupportedFormat` for too many files.
        """
        with reading("assets"):
            refuse_link(self._folder)
            paths = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
            if len(paths) > MAX_ASSETS:
                raise UnsupportedFormat(f"more than {MAX_ASSETS:,} files")
            for path in paths:
                if path.name not in self.read_names and (path.is_symlink() or path.is_file()):
                    yield path


def read_file(path: Path, file: str) -> bytes:
    """The content of a file of the model; ``file``: what messages call it.

    Raises :class:`InvalidFile` for a link or a pointer of Git LFS, :class:`NotFound` for what is
    missing or cannot be read, and :class:`UnsupportedFormat` for more than ``MAX_FILE`` bytes.
    """
    with reading(file):
        refuse_link(path)
        if not path.is_file():
            raise NotFound(f"{file}: the model names this file, and it is not there")
        if path.stat().st_size > MAX_FILE:
            raise UnsupportedFormat(f"larger than {MAX_FILE:,} bytes")
        data = path.read_bytes()
        refuse_pointer(data)
        return data


def read_asset(path: Path) -> Vocabulary | PassedOver:
    """What an asset that no table reads is; raises as :func:`classify_asset`, :func:`read_file`."""
    name = printable(os.fsencode(path.name))
    place = Place(f"assets/{name}", WHOLE)
    with reading(place.file):
        refuse_link(path)
        with path.open("rb") as opened:
            head = opened.read(HEAD)
    is_worth_reading = sentencepiece.looks_like_model(head) or _is_text(head)
    data = read_file(path, place.file) if is_worth_reading else b""
    with reading(place.file):
        return classify_asset(name, place, data)


def classify_asset(name: str, place: Place, data: bytes) -> Vocabulary | PassedOver:
    """What the content of an asset is: a tokenizer, a list of words, or no vocabulary.

    ``place``: the file, as a whole. Raises what ``sentencepiece.read_pieces`` does.
    """
    head = data[:HEAD]
    if sentencepiece.looks_like_model(head):
        return sentencepiece.vocabulary(data, name, place)
    if not _is_text(head):
        return PassedOver(name, 0, place, "a file that is not text and no table reads")
    entries = text_file.read_lines(data)
    if len(entries) < MIN_LINES:
        why = f"a file of fewer than {MIN_LINES} lines that no table reads"
        return PassedOver(name, len(entries), place, why)
    lines = place if place.place != WHOLE else Place(place.file, "whole lines")
    return Vocabulary(name, "asset", entries, places=(lines,), notes=("no table reads this file",))


def _is_text(head: bytes) -> bool:
    return bool(head) and b"\0" not in head and is_utf8(head, cut=len(head) == HEAD)
