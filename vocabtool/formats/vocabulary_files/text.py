r"""One entry a line, each line ended by ``\n``: entries only, for grep and its like.

An entry that a line cannot hold is backslash-escaped: ``\n``, ``\r``, and ``\xNN`` for a byte that
is not UTF-8. So is one that would read as if it were escaped; in an escaped entry a backslash is
doubled. In every other entry a backslash is just that: ``C:\foo``.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import Vocabulary, is_utf8

NEWLINE: Final = 10
ESCAPE: Final = re.compile(rb"\\(\\|n|r|x[0-9a-fA-F]{2})")
LOOK_ESCAPED: Final = "lines look backslash-escaped, as extract writes them; taken as they stand"
MEANING: Final = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}


def write(vocabulary: Vocabulary, file: BinaryIO) -> int:
    """Write the stored entries; return how many had to be escaped."""
    escaped = 0
    for number, piece in enumerate(vocabulary.stored.pieces()):
        at = number * CHUNK
        count = min(CHUNK, len(vocabulary) - at)
        if not _is_plain(piece, count):
            if _has_plain_ends(piece, count):  # only some bytes are not UTF-8
                entries = piece.split(b"\n")
                lines = _in_utf8(piece).split(b"\n")
            else:
                entries = [vocabulary.stored[i] for i in range(at, at + count)]
                lines = [*map(_escape, entries), b""]
            escaped += sum(map(bytes.__ne__, entries, lines))
            piece = b"\n".join(lines)  # noqa: PLW2901 - the same lines, escaped
        file.write(piece)
    return escaped


def _is_plain(piece: bytes, count: int) -> bool:
    """Whether ``count`` entries and their line ends are lines already; looks at no entry."""
    return _has_plain_ends(piece, count) and (piece.isascii() or is_utf8(piece))


def _has_plain_ends(piece: bytes, count: int) -> bool:
    """Whether no entry holds what has to be escaped, but for bytes that are not UTF-8."""
    # NumPy counts what is frequent faster than bytes.count does
    return (
        int(np.count_nonzero(np.frombuffer(piece, np.uint8) == NEWLINE)) == count
        and b"\r" not in piece
        and b"\\" not in piece
    )


def _escape(entry: bytes) -> bytes:
    if b"\n" in entry or b"\r" in entry or ESCAPE.search(entry) or not is_utf8(entry):
        entry = entry.replace(b"\\", rb"\\").replace(b"\n", rb"\n").replace(b"\r", rb"\r")
        return _in_utf8(entry)
    return entry


def _in_utf8(data: bytes) -> bytes:
    return data.decode("utf-8", "backslashreplace").encode()


def _unescape(line: bytes) -> bytes:
    return ESCAPE.sub(lambda found: MEANING.get(found[1]) or bytes([int(found[1][1:], 16)]), line)


def count_escaped(lines: ByteStrings) -> int:
    """How many lines may be entries that :func:`write` escaped."""
    if ESCAPE.search(lines.data) is None:
        return 0
    return sum(ESCAPE.search(line) is not None for line in lines)


def read(data: bytes, name: str) -> Vocabulary:
    """Read what :func:`write` wrote. Raises :class:`InvalidFile` for anything else."""
    if data and not data.endswith(b"\n"):
        raise InvalidFile("the last line has no end: the file is cut off", offset=len(data))
    if b"\r" in data or not is_utf8(data):
        raise InvalidFile("a carriage return or bytes that are not UTF-8: these are escaped")
    lines = data.split(b"\n")[:-1]
    return Vocabulary(name, "asset", ByteStrings.of(map(_unescape, lines)))
