"""What the marks of pieces mean: the piece without its mark, and which mark it is.

Entries are kept as they are stored; this is for showing and comparing them. The six marks are
:data:`~vocabtool.vocabulary.Marker`. Byte-level entries show every byte as a character: those of
printable Latin-1 as themselves, the others, in order, from U+0100 on (``bytes_to_unicode`` in
openai/gpt-2, src/encoder.py). Which mark a tokenizer's file declares is for its reader.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Marker

PREFIXES: Final[tuple[Marker, ...]] = ("▁", "Ġ", " ", "##")
BYTE_LEVEL: Final[Marker] = "Ġ"
MARKERS: Final[tuple[Marker, ...]] = get_args(Marker)
# One entry in so many bears a mark, or it is taken for chance. Of the lists of words in gensim's
# test data and in ours none bears any; of tokenizers' pieces a half do, fewer where no blanks part
# words. ``##`` stands for digits in word2vec's GoogleNews, and Ġ begins words of Maltese; ▁ and
# ``</w>`` are in the words of no language.
ONE_IN: Final[dict[Marker, int]] = {"▁": 200, "Ġ": 20, " ": 20, "##": 20, "@@": 20, "</w>": 200}

_SHOWN_AS_SELF: Final = frozenset((*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 256)))


def _alphabet() -> str:
    stand_ins = map(chr, range(256, 512))
    return "".join(chr(b) if b in _SHOWN_AS_SELF else next(stand_ins) for b in range(256))


ALPHABET: Final = _alphabet()
_CHARMAP: Final = codecs.charmap_build(ALPHABET)


def plain(entry: bytes, marker: Marker | None) -> bytes:
    """An entry without its mark; a byte-level one as the bytes that it stands for.

    What bears no mark stays as it is, and so does, in a byte-level vocabulary, an entry with a
    character that stands for no byte: a token that was added to it.
    """
    if marker is None:
        return entry
    mark = marker.encode()
    if marker == BYTE_LEVEL:
        undone = _bytes_of(entry)
        return entry if undone is None else undone[entry.startswith(mark) :]
    return entry.removeprefix(mark) if marker in PREFIXES else entry.removesuffix(mark)


def plain_strings(stored: ByteStrings, marker: Marker | None) -> ByteStrings:
    """:func:`plain` of every entry; over the same buffer unless the entries are byte-level."""
    if marker is None:
        return stored
    bearing = bear_marker(stored, marker)
    if marker == BYTE_LEVEL:
        undone, mapped = _undone(stored)
        return ByteStrings(undone.data, undone.starts + (bearing & mapped), undone.ends)
    size = bearing * stored.starts.dtype.type(len(marker.encode()))
    if marker in PREFIXES:
        return ByteStrings(stored.data, stored.starts + size, stored.ends)
    return ByteStrings(stored.data, stored.starts, stored.ends - size)


def bear_marker(stored: ByteStrings, marker: Marker) -> NDArray[np.bool_]:
    """Which entries bear the mark: bool, shape (n,)."""
    mark = np.frombuffer(marker.encode(), np.uint8)
    bearing = np.asarray(stored.lengths >= len(mark), np.bool_)
    buffer = np.frombuffer(stored.data, np.uint8)
    for at in range(0, len(stored), CHUNK):
        chunk = bearing[at : at + CHUNK]
        first = stored.starts[at : at + CHUNK]
        if marker not in PREFIXES:
            first = stored.ends[at : at + CHUNK] - len(mark)
        for offset, byte in enumerate(mark):
            if chunk.any():
                chunk &= buffer.take(first + offset, mode="clip") == byte
    return bearing


def guess_marker(stored: ByteStrings) -> Marker | None:
    """The mark of entries whose file does not say: what most of them bear, if that is enough.

    An entry that is nothing but the mark does not count. See :data:`ONE_IN`.
    """
    counts = {marker: _borne(stored, marker) for marker in MARKERS}
    best = max(MARKERS, key=lambda marker: counts[marker])
    return best if counts[best] > 0 and counts[best] * ONE_IN[best] >= len(stored) else None


def _borne(stored: ByteStrings, marker: Marker) -> int:
    longer = stored.lengths > len(marker.encode())
    return int(np.count_nonzero(bear_marker(stored, marker) & longer))


def _bytes_of(entry: bytes) -> bytes | None:
    """The bytes that a byte-level entry stands for; ``None`` where a character stands for none."""
    try:
        return codecs.charmap_encode(entry.decode(), "strict", _CHARMAP)[0]
    except UnicodeError:
        return None


def _undone(stored: ByteStrings) -> tuple[ByteStrings, NDArray[np.bool_]]:
    """The bytes that byte-level entries stand for, or else the entry; and which stand for any."""
    mapped = np.ones(len(stored), np.bool_)

    def undo() -> Iterator[bytes]:
        for number, entry in enumerate(stored):
            undone = _bytes_of(entry)
            mapped[number] = undone is not None
            yield entry if undone is None else undone

    return ByteStrings.of(undo()), mapped
