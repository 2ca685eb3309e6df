"""RWKV's vocabulary: on each line an id, a token as Python writes it, and its length in bytes.

Layout: ``TRIE_TOKENIZER`` in BlinkDL/ChatRWKV, rwkv_pip_package/src/rwkv/rwkv_tokenizer.py. A token
is ``'text'`` or ``b'bytes'``. There the literal is evaluated; here it must be nothing but one
literal, whose escapes are then undone. Ids begin at 1: 0 ends a text, and is not in the file. A
text is cut into the longest tokens from left to right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import text_file
from vocabtool.formats.reader import HEAD, Reader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, is_utf8, printable

MAX_FILE: Final = 1 << 28  # bytes; 65,529 tokens take 1.2 MB
MAX_ID: Final = (1 << 32) - 1

# Escapes that Python knows; behind others it warns. Only ASCII stands in literals of bytes.
_ESCAPE: Final = rb"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|[0-3]?[0-7]{1,2}"
_TEXT: Final = _ESCAPE + rb"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_BYTES: Final = _ESCAPE + rb")"
# Possessive: an octal escape may end in three places, and who backs off tries them all.
LINE: Final = re.compile(
    rb"([0-9]{1,10}) ("
    rb"'(?:[^'\\]|" + _TEXT + rb")*+'|" + rb'"(?:[^"\\]|' + _TEXT + rb')*+"|'
    rb"b'(?:[^'\\\x80-\xff]|" + _BYTES + rb")*+'|"
    rb'b"(?:[^"\\\x80-\xff]|' + _BYTES + rb')*+"'
    rb") ([0-9]{1,9})\r?"
)


def recognise(source: Source) -> str | None:
    """``None`` where most of the first lines are an id, a literal of Python and a length."""
    lines = source.head.split(b"\n")
    if source.size > len(source.head) or not lines[-1]:
        del lines[-1]  # cut off with the head, or nothing behind the last newline
    if not lines:
        return f"no line ends in its first {HEAD:,} bytes"
    if 2 * sum(LINE.fullmatch(line) is not None for line in lines) > len(lines):
        return None
    return "most of its lines are not an id, a literal of Python and its length"


def read(source: Source) -> ReadResult:
    """The tokens by id. Raises :class:`InvalidFile` for a line that contradicts itself."""
    if source.size > MAX_FILE:
        raise UnsupportedFormat(f"a list of {source.size:,} bytes, wanted at most {MAX_FILE:,}")
    name, place = source.name.rpartition("/")[2], Place(source.name, "whole lines")
    return ReadResult((vocabulary(source.file.read_bytes(), name, place),))


def vocabulary(data: bytes, name: str, place: Place) -> Vocabulary:
    """The tokens by id. Raises :class:`InvalidFile` for a line that contradicts itself."""
    lines = text_file.read_lines(data)
    ids = np.zeros(len(lines), np.int64)
    tokens = ByteStrings.of(_tokens(lines, ids))
    note = "tokens of RWKV" + "; id 0, which no line has, ends a text" * (0 not in ids)
    vocabulary = Vocabulary.from_ids(
        name, "table", tokens, ids, places=(place,), notes=(note,), marker=" "
    )
    if (repeated := vocabulary.repeated_id) is not None:
        raise InvalidFile(f"two tokens have id {repeated:,}")
    return vocabulary


READER: Final = Reader("RWKV vocabulary", recognise, read)


def _tokens(lines: ByteStrings, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[bytes]:
    """The token of each line; ``ids`` (zeros) are filled."""
    for at, line in enumerate(lines):
        found = LINE.fullmatch(line)
        if found is None or int(found[1]) > MAX_ID:
            shown = printable(line[:40])
            wanted = "an id, a literal of Python and its length"
            raise InvalidFile(f"line {at + 1:,} is {shown!r}, wanted {wanted}")
        token = _token(found[2])
        if token is None:
            raise InvalidFile(f"line {at + 1:,} holds {printable(found[2][:40])}, which is no text")
        if len(token) != int(found[3]):
            raise InvalidFile(
                f"line {at + 1:,} says {int(found[3]):,} bytes, and has {len(token):,}"
            )
        ids[at] = int(found[1])
        yield token


def _token(literal: bytes) -> bytes | None:
    """The bytes of a literal that ``LINE`` matches; ``None`` where it is no character or UTF-8."""
    if b"\\" not in literal:
        plain = literal.removeprefix(b"b")[1:-1]
        return plain if is_utf8(plain) else None
    try:
        value = ast.literal_eval(literal.decode())
        return value.encode() if isinstance(value, str) else bytes(value)
    except (SyntaxError, UnicodeError, ValueError):
        return None
