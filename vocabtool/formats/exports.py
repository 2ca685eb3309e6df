"""What ``vocabtool extract -o`` writes, opened again as a model with one vocabulary.

JSON, CSV and Parquet are told by content and read by ``vocabulary_files/``; a file of plain lines
is a word list like any other (``word_list.py``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vocabtool.errors import UnknownFormat
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.vocabulary_files import FileFormat
from vocabtool.formats.vocabulary_files import read as read_written
from vocabtool.vocabulary import Place

JSON: Final = re.compile(rb'\s*\{\s*"name":[^\n]*?"?,?\s*"kind":[^\n]*\s*"entry_type":')
CSV: Final = b"id,token,base64\r\n"
PARQUET: Final = b"PAR1"
FACTS: Final = b"vocabtool"  # the key of what is said of the vocabulary, behind a Parquet's data
FOOTER: Final = 1 << 20  # bytes at the end of a Parquet file in which the key stands


def recognise(source: Source) -> str | None:
    """Whether a file begins as one of the three does."""
    return None if _format(source) else "does not begin as JSON, CSV or Parquet of extract -o"


def read(source: Source) -> ReadResult:
    """The vocabulary as it was written, this file the first of its places.

    Raises :class:`InvalidFile` where the file was changed or cut off, :class:`UnknownFormat` for a
    Parquet file of somebody else's.
    """
    written = _format(source)
    if written == "parquet" and not _is_ours(source):
        raise UnknownFormat(f"{source.name}: a Parquet file that vocabtool did not write")
    vocabulary = read_written(source.file, written)
    place = Place(source.name, "written by vocabtool extract")
    return ReadResult((replace(vocabulary, places=(place, *vocabulary.places)),))


def _format(source: Source) -> FileFormat | None:
    if source.head.startswith(PARQUET):
        return "parquet"
    if source.head.startswith(CSV):
        return "csv"
    return "json" if JSON.match(source.head) else None


def _is_ours(source: Source) -> bool:
    with source.file.open("rb") as file:
        file.seek(max(source.size - FOOTER, 0))
        return FACTS in file.read(FOOTER)


READER: Final = Reader("file of vocabtool extract", recognise, read)
