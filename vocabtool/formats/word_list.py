r"""Read files of lines: TensorFlow's asset files, word lists, and ranks of tiktoken.

A line ends only at ``\n``. One ``\r`` before the ``\n`` is removed, and all other bytes are kept.
This is how TensorFlow reads lines: ``ReadLine`` in tensorflow/core/lib/io/inputbuffer.cc and
``TextFileLineIterator`` in tensorflow/core/kernels/lookup_util.cc. An empty line is an empty entry,
as in Hugging Face files; TensorFlow refuses empty lines.

Each line may be a word, one space or tab, and a number. The numbers are ids if they are 0 to n-1,
each once, as in the ``vocab.txt`` of tflite-support. Otherwise, the numbers are counts, or scores
as in SentencePiece's ``.vocab``, and are not read. A word may consist of such spaces or tabs alone,
as in the ``tokens.txt`` of k2-fsa/sherpa-onnx.

Marian (``vocab.yml``, marian-nmt/marian-dev, src/data/default_vocab.cpp): YAML with one line
``entry: id`` for each entry. An entry is plain, or in single or double quotes (yaml.org/spec/1.2.2,
section 7.3; escapes 5.7). Other YAML is refused.

tiktoken (openai/tiktoken, tiktoken/load.py): each line has a token in base64, a space and its rank.
``=`` is the empty token. Ranks are ids, and lower ranks are merged first. Special tokens are not in
the file. Blank lines are allowed only at the end. Llama 3 names such a file ``tokenizer.model``,
which is also the usual name of SentencePiece models. The content shows which format it is.

Any text might be a word list, so this reader is tried last, and refuses sentences, merge rules,
JSON and markup.
"""

from __future__ import annotations

import codecs
import re
from binascii import a2b_base64
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.files import read_file
from vocabtool.formats.reader import HEAD, Findings, Reader, Source
from vocabtool.system.byte_strings import CHUNK, ByteStrings, Offsets
from vocabtool.vocabulary import (
    Kind,
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
INT64: Final = range(-(2**63), 2**63)
PIECE: Final = 1 << 20  # bytes searched at a time: NumPy needs 8 bytes per match
DIGITS: Final = 18  # any number of this many digits fits into int64
INTEGER: Final = re.compile(rb"([+-]?)0*([0-9]{1,19})")


def read_lines(data: bytes) -> ByteStrings:
    """Return the lines of a file, as slices of ``data``."""
    ends = _positions(data, b"\n")
    starts = np.zeros_like(ends)
    np.add(ends[:-1], 1, out=starts[1:])
    if b"\r" in data:
        buffer = np.frombuffer(data, np.uint8)
        for at in range(0, len(ends), CHUNK):
            stops = ends[at : at + CHUNK]
            returns = (buffer[stops - 1] == ord("\r")) & (stops > starts[at : at + CHUNK])
            np.subtract(stops, returns, out=stops)
    count = len(ends) - int(starts[-1] == ends[-1])  # no line after a final newline
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
    """Return the keys and values of a table; see ``InitializeTableFromTextFileV2`` (TensorFlow).

    ``key_index``, ``value_index``: the columns, from 0. ``WHOLE_LINE`` is whole lines,
    ``LINE_NUMBER`` a ``range`` of line numbers from ``offset`` on. All others are text, even
    numbers (see :func:`integers`). ``vocab_size``: the number of lines to read; ``None`` or -1 for
    all.
    """
    lines = read_lines(data)
    if vocab_size is not None and vocab_size != -1:
        if not 0 <= vocab_size <= len(lines):
            what = f"the file has {len(lines):,} lines"
            raise InvalidFile(f"{what}, but the table's vocab_size is {vocab_size:,}")
        lines = lines.take(slice(vocab_size))
    cuts = None
    if max(key_index, value_index) >= 0:
        if len(delimiter) != 1:
            raise InvalidFile(f"the table's delimiter is {delimiter[:20]!r}, wanted one byte")
        cuts = _positions(data, delimiter)
    keys, values = (_column(lines, index, cuts, offset) for index in (key_index, value_index))
    return keys, values


def _two_columns(data: bytes, delimiter: bytes) -> tuple[ByteStrings, ByteStrings]:
    lines, cuts = read_lines(data), _positions(data, delimiter)
    return _cut_column(lines, 0, cuts), _cut_column(lines, 1, cuts)


def integers(strings: ByteStrings) -> NDArray[np.int64]:
    """Parse lines as decimal numbers: int64, shape (n,).

    As in TensorFlow's ``safe_strto64``, a sign and surrounding white space are allowed, and a NUL
    ends the number.
    """
    numbers = np.empty(len(strings), np.int64)
    for line, text in enumerate(strings):
        if len(text) <= DIGITS and text.isdigit():
            numbers[line] = int(text)
            continue
        match = INTEGER.fullmatch(text.partition(b"\0")[0].strip())
        number = int(b"".join(match.groups())) if match else INT64.stop
        if number not in INT64:
            what = f"line {line + 1:,} is {text[:40]!r}, wanted a whole number of 64 bits"
            raise InvalidFile(what, offset=int(strings.starts[line]))
        numbers[line] = number
    return numbers


def _positions(data: bytes, byte: bytes) -> Offsets:
    """Return the positions of a byte in ``data``, then the length of ``data``."""
    dtype = np.dtype(np.int32 if len(data) < 2**31 else np.int64)
    positions: Offsets = np.empty(data.count(byte) + 1, dtype)
    filled = 0
    for start in range(0, len(data), PIECE):
        piece = np.frombuffer(data, np.uint8, min(PIECE, len(data) - start), start)
        here = np.flatnonzero(piece == byte[0])
        positions[filled : filled + len(here)] = here + start
        filled += len(here)
    positions[filled] = len(data)
    return positions


def _column(lines: ByteStrings, index: int, cuts: Offsets | None, offset: int) -> Column:
    """Return a column; see :func:`read_columns`. ``cuts``: the positions of all delimiters."""
    if index == WHOLE_LINE:
        return lines
    if index == LINE_NUMBER:
        numbers = range(offset, offset + len(lines))
        if numbers and not (numbers[0] in INT64 and numbers[-1] in INT64):
            raise InvalidFile(f"the table's line numbers (first: {offset}) do not fit in 64 bits")
        return numbers
    if cuts is None or index < WHOLE_LINE:
        raise InvalidFile(f"the table reads column {index}, wanted -2 or higher")
    return _cut_column(lines, index, cuts)


def _cut_column(lines: ByteStrings, index: int, cuts: Offsets) -> ByteStrings:
    starts, ends = np.empty_like(lines.starts), np.empty_like(lines.ends)
    for at in range(0, len(lines), CHUNK):
        chunk = slice(at, at + CHUNK)
        first = np.searchsorted(cuts, lines.starts[chunk])
        columns = np.searchsorted(cuts, lines.ends[chunk]) - first + 1
        if columns.min() <= index:
            line = int((columns <= index).argmax())
            got = f"{columns[line]:,} columns, wanted at least {index + 1:,}"
            where = int(lines.starts[at + line])
            raise InvalidFile(f"line {at + line + 1:,} has {got}", offset=where)
        starts[chunk] = lines.starts[chunk] if index == 0 else cuts[first + (index - 1)] + 1
        ends[chunk] = np.minimum(cuts[first + index], lines.ends[chunk])
    return ByteStrings(lines.data, starts, ends)


# Lists of words.

MAX_FILE: Final = 1 << 30
MAX_LINE: Final = 1 << 22  # bytes; 4,096 numbers of 20 digits take 90,000

CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
WORDS: Final = 4  # per line: with so many it is a sentence

# Beginnings of texts other than word lists, and their formats.
OTHER_TEXTS: Final = (
    (b"version https://git-lfs.github.com/spec/", "a Git LFS pointer"),
    (b"#!", "a script"),
    (b"<?xml", "XML"),
    (b"<!DOCTYPE", "HTML"),
    (b"<html", "HTML"),
    (b"{", "JSON or similar"),
)
MERGES: Final = "BPE merge rules: the words are in the vocab.json beside them"
VERSION: Final = b"#version:"  # in the first line of merges; CLIP has the file name before it
JSON_LIST: Final = re.compile(rb'\[\s*["{\[]')  # BERT's word list begins with [PAD]
# An escape that ``extract`` writes to text files.
ESCAPE: Final = re.compile(rb"\\(\\|n|r|x[0-9a-fA-F]{2})")

UNKNOWNS: Final = (b"[UNK]", b"<unk>", b"<UNK>", b"<UNKNOWN>")
MAX_YAML: Final = 1 << 20  # lines of a vocab.yml
MAX_WIDTH: Final = 24  # bytes of a number and the blanks before it
NUMBER: Final = re.compile(rb"-?[0-9]{1,18}(?:\.[0-9]+)?(?:e-?[0-9]+)?")
ALL_BLANK: Final = re.compile(rb"^(?: +(?= [0-9])|\t+(?=\t[0-9]))", re.MULTILINE)

# Marian's vocab.yml.
YAML_ID: Final = re.compile(rb": +[0-9]{1,18} *\r?$", re.MULTILINE)
YAML_ENTRY: Final = re.compile(
    r"""(?s)"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)'"""
    r"""|(?P<plain>(?!(?:[-?:](?:\s|$)|.*(?:: | \#)))[^\s,\[\]{}#&*!|>'"%@`].*)"""
)
YAML_ESCAPE: Final = re.compile(r"(?s)\\(x..|u.{4}|U.{8}|.)")
YAML_NAMED: Final = {
    **dict(zip("0abt\tnvfre", "\0\a\b\t\t\n\v\f\r\x1b", strict=True)),
    **dict(zip(' "/\\N_LP', ' "/\\\x85\xa0\u2028\u2029', strict=True)),
}


def why_not_words(head: bytes, size: int) -> str | None:
    """Return ``None`` if a file may be a word list, else why not. ``size``: of the whole file."""
    if not head:
        return "an empty file"
    control = CONTROLS.search(head)
    if control is not None:
        return f"not text: byte {control[0][0]:#04x} at {control.start():,}"
    for beginning, what in OTHER_TEXTS:
        if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(beginning):
            return what
    if JSON_LIST.match(head.lstrip()):
        return "a JSON list"
    lines = head.split(b"\n")
    if size > len(head) or not lines[-1]:
        del lines[-1]  # truncated by the head, or empty after a final newline
    if not lines:
        return f"no line ends in its first {HEAD:,} bytes"
    if VERSION in lines[0] or _are_merges(lines):
        return MERGES
    if 2 * sum(map(is_utf8, lines)) < len(lines):
        return "most of its lines are not UTF-8: convert it with iconv"
    if 2 * sum(len(line.split(None, WORDS - 1)) == WORDS for line in lines) > len(lines):
        return f"most of its lines have {WORDS} or more words: a text, not a list of words"
    return None


def _are_merges(lines: list[bytes]) -> bool:
    """Return whether each line has two pieces: characters, or results of earlier lines."""
    results: set[bytes] = set()
    uses_results = False
    for line in lines:
        pieces = line.removesuffix(b"\r").split(b" ")
        longer = [piece for piece in pieces if len(decode(piece.removesuffix(b"</w>"))) > 1]
        if len(pieces) != 2 or not results.issuperset(longer):
            return False
        uses_results = uses_results or bool(longer)
        results.add(b"".join(pieces))
    return uses_results


def words(data: bytes, name: str, place: Place, kind: Kind = "list") -> Vocabulary:
    """Make a vocabulary from the lines of a file.

    The kind is ``"wordpiece"`` or ``"table"`` (words with ids) if the lines look so, else ``kind``.
    """
    entries = read_lines(data)
    longest = int(entries.lengths.max(initial=0))
    if longest > MAX_LINE:
        line = int(entries.lengths.argmax())
        what = f"line {line + 1:,} has {longest:,} bytes, wanted words of at most {MAX_LINE:,}"
        raise InvalidFile(what, offset=int(entries.starts[line]))
    notes = []
    bare = data.removeprefix(codecs.BOM_UTF8)
    head = bare[:HEAD].rstrip(b"\r\n")
    is_yaml = 2 * len(YAML_ID.findall(head)) > head.count(b"\n") + 1
    columns = None if is_yaml else word_and_number(bare)
    if is_yaml:
        entries, kind = _yaml_entries(bare), "table"
        notes.append("Marian's vocab.yml: each line has an entry and its id")
    elif columns is not None and columns[0].distinct == len(columns[0]):
        entries, ids = columns
        if ids is not None and np.array_equal(np.sort(ids), np.arange(len(ids))):
            entries, kind = entries.take(np.argsort(ids, kind="stable")), "table"
            notes.append("each line has a word and its id")
        else:
            notes.append(
                f"each line has a word and a number: these are not 0 to {len(entries) - 1:,}, each "
                "once, so they are treated as counts or scores, and the ids are line numbers"
            )
    marker = guess_marker(entries)
    places = (np.flatnonzero(entries.equal_to(entry)) for entry in UNKNOWNS)
    unknown = next((Unknown(int(at[0])) for at in places if len(at)), None)
    if unknown is not None:
        shown = printable(entries[unknown.id])
        notes.append(f"{shown} is treated as the unknown entry because of its name")
    if marker is not None:
        notes.append(f"the pieces seem to be marked with {marker!r}")
    return Vocabulary(
        name=name,
        kind="wordpiece" if marker == "##" and unknown is not None else kind,
        stored=entries,
        unknown=unknown,
        places=(place,),
        notes=(*notes, *_note_oddities(entries)),
        marker=marker,
    )


def _note_oddities(entries: ByteStrings) -> list[str]:
    """Return notes on lines that are perhaps no words: blank ones, phrases, columns, escapes."""
    notes = []
    empty = int((entries.lengths == 0).sum())
    if empty:
        notes.append(f"{empty:,} blank lines, kept as entries")
    with_spaces, with_tabs = (
        # Most lists have neither, which is found faster than entry by entry.
        sum(blank in entry for entry in entries) if blank in entries.data else 0
        for blank in (b" ", b"\t")
    )
    if 2 * with_spaces > len(entries):
        notes.append(f"{with_spaces:,} lines contain spaces: phrases rather than words")
    if with_tabs:
        notes.append(f"{with_tabs:,} lines contain tabs: columns are not split")
    notes += note_escaped(entries)
    if len(entries) and entries[0].startswith(codecs.BOM_UTF8):
        notes.append("the first entry begins with a byte order mark, kept as stored")
    return notes


def _yaml_entries(data: bytes) -> ByteStrings:
    """Return the entries of a ``vocab.yml`` in the order of their ids."""
    count = data.count(b"\n")
    if count > MAX_YAML:
        raise UnsupportedFormat(f"a vocab.yml of {count:,} lines, wanted at most {MAX_YAML:,}")
    entry_of: dict[int, bytes] = {}
    lines = [line.rstrip(b" ") for line in read_lines(data)]
    for number, line in enumerate(lines, 1):
        if line in (b"", b"---"):
            continue
        written, _, stated = line.rpartition(b": ")
        id_ = -1
        with suppress(ValueError, LookupError, OverflowError):  # another value, or no number
            entry = _yaml_text(written.rstrip(b" ").decode())
            id_ = int(stated) if len(stated) <= MAX_WIDTH else -1
        if not 0 <= id_ < len(lines) or id_ in entry_of:
            raise UnsupportedFormat(
                f"line {number:,} is {printable(line[:40])!r}, wanted an entry and its own id as "
                "in Marian's vocab.yml; other YAML is not read: write the entries in a text file, "
                "one on each line, in the order of their ids"
            )
        entry_of[id_] = entry
    for missing in (id_ for id_ in range(len(entry_of)) if id_ not in entry_of):
        raise UnsupportedFormat(f"no entry has id {missing:,}, wanted 0 to {len(entry_of) - 1:,}")
    return ByteStrings.of(entry_of[id_] for id_ in range(len(entry_of)))


def _yaml_text(written: str) -> bytes:
    """Return a scalar's text. Raises ``ValueError``, ``LookupError`` or ``OverflowError``."""
    match = YAML_ENTRY.fullmatch(written)
    if match is None:
        raise ValueError(written)
    if match["double"] is None:
        return (match["plain"] or match["single"].replace("''", "'")).encode()

    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else YAML_NAMED[code]

    return YAML_ESCAPE.sub(character, match["double"]).encode()


def unescape(escape: re.Match[bytes]) -> bytes:
    return escape[0].decode("unicode_escape").encode("latin-1")


def note_escaped(lines: ByteStrings) -> list[str]:
    """Return a list with one note if some lines look backslash-escaped, otherwise an empty list."""
    if ESCAPE.search(lines.data) is None:  # fast; a match may also be outside the lines
        return []
    count = sum(ESCAPE.search(line) is not None for line in lines)
    what = "lines look backslash-escaped, as `vocabtool extract` writes them"
    return [f"{count:,} {what}; the backslashes are kept"] if count else []


def word_and_number(data: bytes) -> tuple[ByteStrings, NDArray[np.int64] | None] | None:
    """Split lines into words and numbers, at one tab or space; ``None`` if a line has another form.

    The numbers are ``None`` if a number has a fraction. Blank lines at the end are ignored. Also
    returns ``None`` for a single line, which may be a phrase, and if most words are repeated, as in
    ``class 0``, ``class 1``.
    """
    if data.endswith((b"\n\n", b"\n\r\n")):
        data = data.rstrip(b"\r\n")
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    for delimiter in (b"\t", b" "):
        # A word may consist of delimiters alone: underscores hide it from the split.
        masked = data
        if data.count(delimiter) > lines:
            masked = ALL_BLANK.sub(lambda blanks: b"_" * len(blanks[0]), data)
        if lines < 2 or masked.count(delimiter) != lines:
            continue
        try:
            entries, numbers = _two_columns(masked, delimiter)
        except InvalidFile:  # two in one line, none in another
            continue
        entries = ByteStrings(data, entries.starts, entries.ends)
        if all(map(NUMBER.fullmatch, numbers)) and 2 * entries.distinct > len(entries):
            try:
                return entries, integers(numbers)
            except InvalidFile:
                return entries, None
    return None


def _read(source: Source) -> Findings:
    data = read_file(source.file, MAX_FILE, "a list of {1:,} bytes, wanted at most {0:,}")
    return Findings([words(data, source.name, Place(source.name, "whole lines"))])


READER: Final = Reader(
    "list of words", lambda source: why_not_words(source.head, source.size), _read
)


# Ranks of tiktoken.

LAST_RANK: Final = (1 << 32) - 1
RANK: Final = re.compile(
    rb"(?:(?! )(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?|=+) [0-9]{1,10}\r?"
)
PADDED: Final = re.compile(rb"^[A-Za-z0-9+/]+==? ", re.MULTILINE)


def _recognise_ranks(source: Source) -> str | None:
    lines = source.head.rstrip(b"\r\n").split(b"\n")
    if source.size > len(source.head):
        del lines[-1]
    if 2 * sum(RANK.fullmatch(line) is not None for line in lines) <= len(lines):
        return "most of its lines are not base64, a space and a number"
    # The first tokens are single bytes, which need padding. Words, with counts, do not end in =.
    if not PADDED.search(source.head):
        return f"no base64 with padding (=) in its first {HEAD:,} bytes"
    return None


def _read_ranks(source: Source) -> Findings:
    what = "the file of ranks has {1:,} bytes, wanted at most {0:,}"
    data = read_file(source.file, MAX_FILE, what).rstrip(b"\r\n")
    encoded, written = _two_columns(data, b" ")
    blanks = data.count(b" ")
    if blanks != len(encoded):
        raise InvalidFile(f"{blanks:,} spaces in {len(encoded):,} lines: wanted one in each line")
    ranks = integers(written)
    if len(ranks) and not 0 <= int(ranks.min()) <= int(ranks.max()) <= LAST_RANK:
        got = f"ranks from {ranks.min():,} to {ranks.max():,}"
        raise InvalidFile(f"{got}, wanted 0 to {LAST_RANK:,}")
    tokens = []
    for line, text in enumerate(encoded, start=1):
        if not text:
            raise InvalidFile(f"line {line:,} has no token")
        try:
            # tiktoken reads a lone ``=`` as the empty token
            tokens.append(a2b_base64(text, strict_mode=True) if text.strip(b"=") else b"")
        except ValueError as error:
            got = printable(text[:40])
            raise InvalidFile(f"line {line:,}: wanted base64, got {got!r}: {error}") from error
    note = "byte-level BPE of tiktoken; special tokens are not in this file"
    return byte_tokens(source, ByteStrings.of(tokens), ranks, "whole file", note)


RANKS: Final = Reader("tiktoken ranks", _recognise_ranks, _read_ranks)


def byte_tokens(
    source: Source, tokens: ByteStrings, ids: NDArray[np.int64], place: str, *notes: str
) -> Findings:
    """Make the vocabulary of a byte-level tokenizer. ``place``: where in the file it is."""
    if len({tokens[int(at)] for at in np.flatnonzero(tokens.lengths == 1)}) == 256:
        notes = (*notes, "every single byte is a token, so no text is unknown")
    empty = int((tokens.lengths == 0).sum())
    if empty:
        notes = (*notes, f"empty tokens: {empty:,}")
    places = (Place(source.name, place),)
    vocabulary = Vocabulary.from_ids(
        source.name, "bpe", tokens, ids, places=places, notes=notes, marker=" "
    )
    ascending = vocabulary.id_array()
    same = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(same):
        raise InvalidFile(f"two tokens have rank {same[0]:,}")
    return Findings([vocabulary])
