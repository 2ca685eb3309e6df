"""The files that tflite-support packs behind a TFLite model: vocabularies and lists of labels.

Layout: a zip archive appended to the model, which ``zip_archive.py`` opens within bounds. What a
member holds is told by content: a SentencePiece model, a list with an id behind each word, or a
list of words. What each file is for, which the model's metadata says, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats import sentencepiece, sentencepiece_file, text_file, word_list
from vocabtool.formats.model import PassedOver
from vocabtool.formats.reader import HEAD, Source
from vocabtool.formats.zip_archive import ZipArchive
from vocabtool.vocabulary import Place, Vocabulary, in_id_order, printable

END: Final = b"PK\x05\x06"  # of the archive's directory
LOOKED_AT: Final = (1 << 16) + 22  # bytes at the end of a file where a directory may end

MAX_FILES: Final = 100
MAX_LINES: Final = 1 << 22  # of all files together


def packed_files(source: Source, warnings: list[str]) -> Iterator[Vocabulary | PassedOver]:
    """What the packed files hold; what could not be read is said in ``warnings``."""
    with source.file.open("rb") as opened:
        opened.seek(max(0, source.size - LOOKED_AT))
        if END not in opened.read(LOOKED_AT):
            return
    try:
        with ZipArchive(source.file) as archive:
            yield from _members(archive, source.name, warnings)
    except InvalidFile as error:
        warnings.append(f"the files packed behind the model are not read: {error}")


def _members(
    archive: ZipArchive, file: str, warnings: list[str]
) -> Iterator[Vocabulary | PassedOver]:
    if len(archive.names) > MAX_FILES:
        warnings.append(f"{len(archive.names):,} packed files: only the first {MAX_FILES} are read")
    lines = 0
    for member in archive.names[:MAX_FILES]:
        name = printable(member.encode("utf-8", "surrogateescape"))
        try:
            data = archive.read(member)
            lines += data.count(b"\n")
            if lines > MAX_LINES:
                raise InvalidFile(f"more than {MAX_LINES:,} lines in the packed files")
            yield _words(data, name, Place(file, f"packed file {name}"))
        except VocabtoolError as error:
            warnings.append(f"packed file {name} is not read: {error}")


def _words(data: bytes, name: str, place: Place) -> Vocabulary | PassedOver:
    if sentencepiece.recognise(data[:HEAD]):
        return sentencepiece_file.model(data, name, place)
    why_not = word_list.why_not_words(data[:HEAD], len(data))
    if why_not is not None:
        return PassedOver(name, 0, place, f"a packed file that is no list of words: {why_not}")
    numbered = _numbered(data, name, place)
    return numbered or word_list.words(data, name, place, kind="asset")


def _numbered(data: bytes, name: str, place: Place) -> Vocabulary | None:
    """Lines of a word, a blank and an id, as tflite-support's regex tokenizer has them."""
    columns = word_list.word_and_number(data)
    if columns is None:
        return None
    words, numbers = columns
    try:
        ids = text_file.integers(numbers)
    except InvalidFile:  # a number with a fraction
        return None
    if len(set(ids.tolist())) != len(ids):
        return None
    stored, first_id, in_order = in_id_order(words, ids)
    notes = (word_list.WORD_AND_ID,)
    return Vocabulary(name, "table", stored, first_id, in_order, places=(place,), notes=notes)
