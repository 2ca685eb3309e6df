"""fastText models (``.bin``, quantised ``.ftz``): the words and the labels of their dictionary.

Layout: facebookresearch/fastText, src/fasttext.cc (signModel, saveModel), src/args.cc,
src/dictionary.cc. All little-endian: magic, version; 12 int32 and a double of settings; how many
entries, words, labels (int32), tokens, pruned n-grams (int64, -1 for none); then each entry: its
text, a NUL, its count (int64), its type (int8). The matrices behind are left out. A word's
vector is no row of one: it is a mean over the rows of the word and of its character n-grams.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

MAGIC: Final = struct.pack("<i", 793712314)
VERSIONS: Final = (11, 12)
HEAD: Final = struct.Struct("<2i 12i d 3i 2q")
BEHIND: Final = struct.Struct("<qb")  # an entry's count and type
MATRIX: Final = struct.Struct("<?2q")  # whether it is quantised, rows, columns
MAX_ENTRY: Final = 1 << 16  # bytes of an entry
WORD: Final = 0
LABEL: Final = 1
SUPERVISED: Final = 3


@dataclass(frozen=True, slots=True)
class _Head:
    dim: int
    minn: int
    maxn: int
    words: int
    labels: int
    pruned: int  # n-grams kept by pruning; -1 where nothing was pruned


def recognise(source: Source) -> str | None:
    """Why a file is not a fastText model; ``None`` where it is."""
    is_model = source.head.startswith(MAGIC)
    return None if is_model else "it does not begin with fastText's magic number"


def read(source: Source) -> ReadResult:
    """The words as one vocabulary, the labels, if there are any, as another.

    Raises :class:`InvalidFile` where the dictionary breaks off or breaks its own rules,
    :class:`UnsupportedFormat` for another version of the format.
    """
    buffer = map_file(source.file)
    head = _head(buffer)
    words, behind = _entries(buffer, HEAD.size, WORD, head.words)
    labels, behind = _entries(buffer, behind, LABEL, head.labels)
    warnings = _warnings(buffer, behind + 8 * max(head.pruned, 0), head.dim)
    places = (Place(source.name, "dictionary"),)
    notes = [f"{head.dim:,} dimensions", "without subwords: a word outside gets no vector"]
    if head.maxn > 0:
        notes[1] = (
            f"a word outside gets a vector all the same, from its n-grams of {head.minn} to "
            f"{head.maxn} characters: it is unknown only as a whole"
        )
    if head.pruned >= 0:
        left = f"{head.pruned:,} n-grams are left"
        notes.append(f"pruned by quantisation: {left}, other words are gone")
    found = [Vocabulary("words", "vectors", words, places=places, notes=tuple(notes))]
    if len(labels):
        note = ("what a text may be classified as, not words of a text",)
        found.append(Vocabulary("labels", "list", labels, places=places, notes=note))
    return ReadResult(tuple(found), warnings)


READER: Final = Reader("fastText model", recognise, read)


def _head(buffer: Buffer) -> _Head:
    if len(buffer) < HEAD.size:
        raise InvalidFile(
            f"a fastText model of {len(buffer):,} bytes, its head alone has {HEAD.size}", offset=0
        )
    _, version, *settings, _, size, words, labels, _, pruned = HEAD.unpack_from(buffer)
    if version not in VERSIONS:
        raise UnsupportedFormat(
            f"a fastText model of version {version}, wanted 11 or 12: load it with the fastText "
            "that wrote it and save its vectors as text"
        )
    dim, model, minn, maxn = settings[0], settings[7], settings[9], settings[10]
    if min(words, labels) < 0 or words + labels != size or size == 0:
        raise InvalidFile(
            f"{size:,} entries of a dictionary, {words:,} words and {labels:,} labels", offset=64
        )
    if max(dim, minn, maxn) > 1 << 20 or dim <= 0 or pruned < -1:
        raise InvalidFile(
            f"vectors of {dim:,} dimensions, n-grams of {minn:,} to {maxn:,} characters, "
            f"{pruned:,} of them kept",
            offset=8,
        )
    if version == 11 and model == SUPERVISED:
        maxn = 0  # as fastText reads them
    least = (1 + BEHIND.size) * size + 8 * max(pruned, 0)
    if HEAD.size + least > len(buffer):
        raise InvalidFile(
            f"{size:,} entries and {pruned:,} n-grams need at least {least:,} bytes, the file has "
            f"{len(buffer):,}: it was cut short, fetch it again",
            offset=64,
        )
    return _Head(dim, minn, maxn, words, labels, pruned)


def _entries(buffer: Buffer, start: int, wanted: int, count: int) -> tuple[ByteStrings, int]:
    """Entries from ``start`` on, which must be of one type, and the position behind them."""
    data, ends = bytearray(), array("q")
    for _ in range(count):
        end = buffer.find(b"\0", start, start + MAX_ENTRY)
        behind = end + 1 + BEHIND.size
        if end < 0 or behind > len(buffer):
            raise InvalidFile(
                f"an entry of the dictionary is cut off or longer than {MAX_ENTRY:,} bytes",
                offset=start,
            )
        _, found = BEHIND.unpack_from(buffer, end + 1)
        if found != wanted:
            raise InvalidFile(
                f"an entry of type {found}, wanted {wanted} (words are 0, labels behind them are "
                "1)",
                offset=behind - 1,
            )
        data += buffer[start:end]
        ends.append(len(data))
        start = behind
    return ByteStrings.contiguous(bytes(data), np.frombuffer(ends, np.int64)), start


def _warnings(buffer: Buffer, position: int, dim: int) -> tuple[str, ...]:
    """A warning where the file ends before the vectors do; the words are whole."""
    if position + MATRIX.size <= len(buffer) and buffer[position] in (0, 1):
        quantised, rows, columns = MATRIX.unpack_from(buffer, position)
        left = len(buffer) - position - MATRIX.size
        if quantised or (columns == dim and 0 <= 4 * rows * columns <= left):
            return ()
    return ("the vectors behind the dictionary are damaged or cut short; its words are whole",)
