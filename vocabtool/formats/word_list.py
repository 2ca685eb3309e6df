r"""Plain lists of words: an entry on each line, whose number is its id; BERT's ``vocab.txt`` too.

Lines end as ``text_file.py`` reads them; a blank line is an entry, as it is in the files of Hugging
Face. Where each line is a word, one blank or tab, and a number, the numbers are ids if they are 0
to n-1, each once, as in the ``vocab.txt`` of tflite-support; else counts, or scores as in the
``.vocab`` of SentencePiece, and left out. Any text might be such a list, so this comes last of all
formats and refuses what is plainly something else: sentences, merge rules, JSON, markup. What words
of a text are known is not asked.

Asset files with one entry a line, read as TensorFlow's ``TextFileInitializer`` reads them.

Rules: ``ReadLine`` in tensorflow/core/lib/io/inputbuffer.cc and ``TextFileLineIterator`` in
tensorflow/core/kernels/lookup_util.cc. A line ends at ``\n`` only, and exactly one ``\r`` at its
end is dropped; every other byte stays. TensorFlow refuses an empty line: here it is an empty
entry, and what to say about it is the caller's. Which file a table reads is not known here.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import vocabulary_files
from vocabtool.formats.reader import HEAD, Reader, ReadResult, Source
from vocabtool.system.byte_strings import CHUNK, ByteStrings, Offsets
from vocabtool.vocabulary import (
    Kind,
    Marker,
    Place,
    Unknown,
    Vocabulary,
    decode,
    guess_marker,
    is_utf8,
    printable,
)

Column = ByteStrings | range

WHOLE_LINE: Final = -2
LINE_NUMBER: Final = -1

NEWLINE: Final = b"\n"
RETURN: Final = b"\r"
INT64: Final = range(-(2**63), 2**63)

_PIECE: Final = 1 << 20  # bytes searched at a time: NumPy needs 8 bytes for each one found
_MAX_DIGITS: Final = 18  # any number of this many digits fits into int64
_INTEGER: Final = re.compile(rb"([+-]?)0*([0-9]{1,19})")


def read_lines(data: bytes) -> ByteStrings:
    """The lines of a file, over its own buffer; a file of no bytes has none."""
    ends = _positions(data, NEWLINE)
    starts = np.zeros_like(ends)
    np.add(ends[:-1], 1, out=starts[1:])
    if RETURN in data:
        _drop_returns(data, starts, ends)
    count = len(ends) - int(starts[-1] == ends[-1])  # nothing stands behind the last newline
    return ByteStrings(data, starts[:count], ends[:count])


def read_columns(
    data: bytes,
    key_index: int,
    value_index: int,
    delimiter: bytes = b"\t",
    *,
    vocab_size: int | None = None,
    offset: int = 0,
) -> tuple[Column, Column]:
    """The keys and the values of a table: the attributes of ``InitializeTableFromTextFileV2``.

    An index is a column, counted from 0, or ``WHOLE_LINE``, or ``LINE_NUMBER``; line numbers are
    a ``range`` from ``offset`` on (which nothing else is added to, and no line is skipped by).
    ``vocab_size``: how many lines are read; ``None`` or -1 for all.
    Columns stay text: :func:`integers` reads those of a table with int64 keys or values.

    Raises :class:`InvalidFile` for a line with too few columns, a file of fewer lines than
    ``vocab_size``, and attributes that TensorFlow does not allow.
    """
    lines = read_lines(data)
    if vocab_size is not None and vocab_size != -1:
        if not 0 <= vocab_size <= len(lines):
            raise InvalidFile(f"{len(lines):,} lines, but the table's vocab_size is {vocab_size:,}")
        lines = ByteStrings(lines.data, lines.starts[:vocab_size], lines.ends[:vocab_size])
    cuts = None
    if max(key_index, value_index) >= 0:
        if len(delimiter) != 1:
            raise InvalidFile(f"the table's delimiter is {delimiter[:20]!r}, wanted one byte")
        cuts = _positions(data, delimiter)
    keys, values = (_column(lines, index, cuts, offset) for index in (key_index, value_index))
    return keys, values


def integers(strings: ByteStrings) -> NDArray[np.int64]:
    """The decimal numbers that the lines hold: int64, shape (n,).

    As ``safe_strto64`` reads them: blanks around and a sign are allowed, a NUL ends the number.
    Raises :class:`InvalidFile` where there is none, or one that needs more than 64 bits.
    """
    numbers = (
        int(text) if len(text) <= _MAX_DIGITS and text.isdigit() else _integer(strings, line)
        for line, text in enumerate(strings)
    )
    return np.fromiter(numbers, np.int64, len(strings))


def _positions(data: bytes, byte: bytes) -> Offsets:
    """Where ``byte`` (one) stands in ``data``, then the length of ``data``."""
    dtype = np.dtype(np.int32 if len(data) < 2**31 else np.int64)
    found: Offsets = np.empty(data.count(byte) + 1, dtype)
    filled = 0
    for start in range(0, len(data), _PIECE):
        size = min(_PIECE, len(data) - start)
        piece = np.frombuffer(data, np.uint8, size, start)
        here = np.flatnonzero(piece == byte[0])
        found[filled : filled + len(here)] = here + start
        filled += len(here)
    found[filled] = len(data)
    return found


def _drop_returns(data: bytes, starts: Offsets, ends: Offsets) -> None:
    """Move each end (in place) before the one ``\\r`` that belongs to the line break."""
    buffer = np.frombuffer(data, np.uint8)
    for at in range(0, len(ends), CHUNK):
        stops = ends[at : at + CHUNK]
        returns = (buffer[stops - 1] == RETURN[0]) & (stops > starts[at : at + CHUNK])
        np.subtract(stops, returns, out=stops)


def _column(lines: ByteStrings, index: int, cuts: Offsets | None, offset: int) -> Column:
    if index == WHOLE_LINE:
        return lines
    if index == LINE_NUMBER:
        numbers = range(offset, offset + len(lines))
        if numbers and not (numbers[0] in INT64 and numbers[-1] in INT64):
            raise InvalidFile(f"the table's line numbers from {offset} on do not fit in 64 bits")
        return numbers
    if cuts is None or index < WHOLE_LINE:
        raise InvalidFile(f"the table reads column {index}, wanted -2 or more")
    return _cut(lines, index, cuts)


def _cut(lines: ByteStrings, index: int, cuts: Offsets) -> ByteStrings:
    """Column ``index`` (>= 0) of each line; ``cuts``: where the delimiters stand."""
    starts, ends = np.empty_like(lines.starts), np.empty_like(lines.ends)
    for at in range(0, len(lines), CHUNK):
        chunk = slice(at, at + CHUNK)
        first = np.searchsorted(cuts, lines.starts[chunk])
        columns = np.searchsorted(cuts, lines.ends[chunk]) - first + 1
        if columns.min() <= index:
            line = int((columns <= index).argmax())
            raise InvalidFile(
                f"line {at + line + 1:,} has {columns[line]:,} columns, wanted at least "
                f"{index + 1:,}",
                offset=int(lines.starts[at + line]),
            )
        begins = lines.starts[chunk] if index == 0 else cuts[first + (index - 1)] + 1
        starts[chunk] = begins
        ends[chunk] = np.minimum(cuts[first + index], lines.ends[chunk])
    return ByteStrings(lines.data, starts, ends)


def _integer(strings: ByteStrings, line: int) -> int:
    text = strings[line]
    match = _INTEGER.fullmatch(text.partition(b"\0")[0].strip())
    number = int(b"".join(match.groups())) if match else INT64.stop
    if number not in INT64:
        raise InvalidFile(
            f"line {line + 1:,} holds {text[:40]!r}, wanted a whole number of 64 bits",
            offset=int(strings.starts[line]),
        )
    return number


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
    entries = read_lines(data)
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
            held, numbers = read_columns(data, 0, 1, delimiter)
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
        ids = integers(numbers)
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
