"""Plain lists of words: an entry on each line, whose number is its id; BERT's ``vocab.txt`` too.

Lines end as ``text_file.py`` reads them; a blank line is an entry, as it is in the files of Hugging
Face. Where each line is a word, one blank or tab, and a number, the numbers are ids if they are 0
to n-1, each once, as in the ``vocab.txt`` of tflite-support; else counts, or scores as in the
``.vocab`` of SentencePiece, and left out. Any text might be such a list, so this comes last of all
formats and refuses what is plainly something else: sentences, merge rules, JSON, markup. What words
of a text are known is not asked.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import text_file, vocabulary_files
from vocabtool.formats.markers import guess_marker
from vocabtool.formats.reader import HEAD, Reader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import (
    Kind,
    Marker,
    Place,
    Unknown,
    Vocabulary,
    decode,
    is_utf8,
    printable,
)

MAX_FILE: Final = 1 << 30
MAX_LINE: Final = 1 << 20  # bytes

CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
WORDS: Final = 4  # on a line: with as many it is a sentence

# How texts begin that are no lists of words, and what they are.
OTHER_TEXTS: Final = (
    (b"version https://git-lfs.github.com/spec/", "a pointer of Git LFS"),
    (b"#!", "a script"),
    (b"<?xml", "XML"),
    (b"<!DOCTYPE", "HTML"),
    (b"<html", "HTML"),
    (b"{", "JSON, or another text with braces"),
)
MERGES: Final = "merge rules of BPE: the words are in the vocab.json beside them"
VERSION: Final = b"#version:"  # in the first line of merges; CLIP's has the file's name before it
END_OF_WORD: Final = b"</w>"
JSON_LIST: Final = re.compile(rb'\[\s*["{\[]')  # but BERT's list begins with [PAD]

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
CONTINUATION: Final = b"##"
BERT_UNKNOWN: Final = b"[UNK]"
UNKNOWNS: Final = (BERT_UNKNOWN, b"<unk>", b"<UNK>", b"<UNKNOWN>")
WORD_AND_ID: Final = "each line holds a word and its id"
LEAST_NUMBERED: Final = 2  # one line may be a phrase that ends in a number
NUMBER: Final = re.compile(rb"-?[0-9]{1,18}(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def why_not_words(head: bytes, size: int) -> str | None:
    """Why a file of ``size`` bytes that begins so is no list of words; ``None`` if it is one."""
    if not head:
        return "an empty file"
    if found := CONTROLS.search(head):
        return f"not text: byte {found[0][0]:#04x} at {found.start():,}"
    for beginning, what in OTHER_TEXTS:
        if head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(beginning):
            return what
    if JSON_LIST.match(head.lstrip()):
        return "a list in JSON"
    lines = head.split(b"\n")
    if size > len(head) or not lines[-1]:
        del lines[-1]  # cut off with the head, or nothing behind the last newline
    if not lines:
        return f"no line ends in its first {HEAD:,} bytes"
    if VERSION in lines[0] or _are_merges(lines):
        return MERGES
    if 2 * sum(map(is_utf8, lines)) < len(lines):
        return "most of its lines are not UTF-8: convert it with iconv"
    if 2 * sum(len(line.split(None, WORDS - 1)) == WORDS for line in lines) > len(lines):
        return f"most of its lines have {WORDS} words and more: a text, not a list of words"
    return None


def _are_merges(lines: list[bytes]) -> bool:
    """Whether each line joins two pieces that are characters, or were joined on a line before."""
    joined: set[bytes] = set()
    used = 0
    for line in lines:
        pieces = line.removesuffix(b"\r").split(b" ")
        longer = [piece for piece in pieces if len(decode(piece.removesuffix(END_OF_WORD))) > 1]
        if len(pieces) != 2 or not joined.issuperset(longer):
            return False
        used += len(longer)
        joined.add(b"".join(pieces))
    return used > 0


def read(source: Source) -> ReadResult:
    """The lines, by number."""
    if source.size > MAX_FILE:
        raise UnsupportedFormat(f"a list of {source.size:,} bytes, wanted at most {MAX_FILE:,}")
    name = source.name.rpartition("/")[2]
    place = Place(source.name, "whole lines")
    return ReadResult((words(source.file.read_bytes(), name, place),))


def words(data: bytes, name: str, place: Place, kind: Kind = "list") -> Vocabulary:
    """The lines of ``data``, as ``kind`` unless they are a WordPiece vocabulary.

    Raises :class:`InvalidFile` where a line is too long for a word.
    """
    entries = text_file.read_lines(data)
    longest = int(entries.lengths.max(initial=0))
    if longest > MAX_LINE:
        line = int(entries.lengths.argmax())
        raise InvalidFile(
            f"line {line + 1:,} has {longest:,} bytes, wanted words of at most {MAX_LINE:,}",
            offset=int(entries.starts[line]),
        )
    notes = []
    columns = word_and_number(data.removeprefix(codecs.BOM_UTF8))
    if columns is not None and columns[0].distinct == len(columns[0]):
        held, numbers = columns
        order = _order(numbers)
        if order is not None:
            entries, kind = held.take(order), "table"
            notes.append(WORD_AND_ID)
        else:
            entries = held
            notes.append(
                f"each line holds a word and a number: these are not 0 to {len(held) - 1:,}, each "
                "once, so they are taken for counts or scores, and ids are the numbers of lines"
            )
    marker = guess_marker(entries)
    unknowns = (np.flatnonzero(entries.equal_to(entry)) for entry in UNKNOWNS)
    unknown = next((Unknown(int(found[0])) for found in unknowns if len(found)), None)
    is_wordpiece = marker == "##" and unknown is not None
    return Vocabulary(
        name=name,
        kind="wordpiece" if is_wordpiece else kind,
        stored=entries,
        unknown=unknown,
        places=(place,),
        notes=(*notes, *_notes(entries, unknown, marker)),
        marker=marker,
    )


def word_and_number(data: bytes) -> tuple[ByteStrings, ByteStrings] | None:
    """Both columns where each line is a word, one tab or blank, and a number; else ``None``.

    Blank lines at the end are left out. Most words differ: ``class 0``, ``class 1`` are labels.
    """
    if data.endswith((b"\n\n", b"\n\r\n")):
        data = data.rstrip(b"\r\n")
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    for delimiter in (b"\t", b" "):
        if lines < LEAST_NUMBERED or data.count(delimiter) != lines:
            continue
        try:
            held, numbers = text_file.read_columns(data, 0, 1, delimiter)
        except InvalidFile:  # two in one line, and none in another
            continue
        if not isinstance(held, ByteStrings) or not isinstance(numbers, ByteStrings):
            raise AssertionError("two columns are two columns of text")
        if all(map(NUMBER.fullmatch, numbers)) and 2 * held.distinct > len(held):
            return held, numbers
    return None


def _order(numbers: ByteStrings) -> NDArray[np.intp] | None:
    """What sorts lines by their numbers, where these are 0 to n-1, each once."""
    try:
        ids = text_file.integers(numbers)
    except InvalidFile:  # a number with a fraction
        return None
    order = np.argsort(ids, kind="stable")
    return order if np.array_equal(ids[order], np.arange(len(ids))) else None


def _notes(entries: ByteStrings, unknown: Unknown | None, marker: Marker | None) -> Iterator[str]:
    if unknown is not None:
        yield f"{printable(entries[unknown.id])} is taken for the unknown entry, by its name"
    if marker is not None:
        yield f"pieces are marked with {marker!r}, as the entries look"
    blank = int((entries.lengths == 0).sum())
    if blank:
        yield f"{blank:,} blank lines, kept as entries"
    with_blanks = b" " in entries.data and sum(b" " in entry for entry in entries)
    if 2 * with_blanks > len(entries):
        yield f"{with_blanks:,} lines hold blanks: phrases rather than words"
    with_tabs = b"\t" in entries.data and sum(b"\t" in entry for entry in entries)
    if with_tabs:
        yield f"{with_tabs:,} lines hold tabs: columns are not cut apart"
    if escaped := vocabulary_files.count_escaped(entries):
        yield f"{escaped:,} {vocabulary_files.LOOK_ESCAPED}"
    if len(entries) and entries[0].startswith(BYTE_ORDER_MARK):
        yield "the first entry begins with a byte order mark, kept as stored"


READER: Final = Reader(
    "list of words", lambda source: why_not_words(source.head, source.size), read
)
