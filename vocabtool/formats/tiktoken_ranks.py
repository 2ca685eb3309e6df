"""tiktoken's files of ranks: on each line the bytes of a token in base64, a blank and its rank.

Layout: openai/tiktoken, tiktoken/load.py. The rank is the id, and the order in which pairs of
tokens are merged; special tokens stand in code, not in this file. Llama 3 calls such a file
``tokenizer.model``, as SentencePiece does: they are told apart by content.
"""

from __future__ import annotations

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterator
from typing import Final

import numpy as np

from vocabtool.byte_strings import ByteStrings
from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import text_file
from vocabtool.formats.reader import HEAD, Found, Reader, Source
from vocabtool.vocabulary import Place, Vocabulary, in_id_order, printable

MAX_FILE: Final = 1 << 28  # bytes; 200,000 tokens take 4 MB
MAX_RANK: Final = 1 << 32

LINE: Final = re.compile(
    rb"(?! )(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)? [0-9]{1,10}\r?"
)
ONE_BYTE: Final = re.compile(rb"^..== ", re.MULTILINE)


def recognise(source: Source) -> str | None:
    """``None`` where every line is base64 and a rank, and some token is a single byte.

    Merging begins with single bytes, so every file has some, while a list of words and their
    counts has no line that begins as those do.
    """
    lines = source.head.split(b"\n")
    if not lines[-1] or source.size > len(source.head):
        del lines[-1]  # nothing behind the last newline, or cut off with the head
    if not lines or not all(map(LINE.fullmatch, lines)):
        return "not every line is base64, a blank and a number"
    if not ONE_BYTE.search(source.head):
        return f"no token of a single byte in its first {HEAD:,} bytes"
    return None


def read(source: Source) -> Found:
    """The tokens by rank."""
    if source.size > MAX_FILE:
        raise UnsupportedFormat(f"ranks of {source.size:,} bytes, wanted at most {MAX_FILE:,}")
    data = source.file.read_bytes()
    columns = text_file.read_columns(data, 0, 1, b" ")
    encoded, written = (column for column in columns if isinstance(column, ByteStrings))
    blanks = data.count(b" ")
    if blanks != len(encoded):
        raise InvalidFile(f"{len(encoded):,} lines hold {blanks:,} blanks, wanted one in each")
    ranks = text_file.integers(written)
    if len(ranks) and not 0 <= int(ranks.min()) <= int(ranks.max()) < MAX_RANK:
        raise InvalidFile(f"ranks from {ranks.min():,} to {ranks.max():,}, wanted 0 to 2^32")
    entries, first_id, ids = in_id_order(ByteStrings.of(_decoded(encoded)), ranks)
    _refuse_repeated(np.sort(ranks))
    vocabulary = Vocabulary(
        name=source.name.rpartition("/")[2],
        kind="bpe",
        stored=entries,
        first_id=first_id,
        ids=ids,
        places=(Place(source.name, "whole file"),),
        notes=tuple(_notes(entries)),
        marker=" ",
    )
    return Found((vocabulary,))


def _decoded(encoded: ByteStrings) -> Iterator[bytes]:
    for line, text in enumerate(encoded, start=1):
        try:
            yield a2b_base64(text, strict_mode=True)
        except NotBase64 as error:
            shown = printable(text[:40])
            raise InvalidFile(f"line {line:,} holds {shown!r}, wanted base64: {error}") from error


def _refuse_repeated(ranks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    same = np.flatnonzero(ranks[1:] == ranks[:-1])
    if len(same):
        raise InvalidFile(f"two tokens have rank {ranks[same[0]]:,}")


def _notes(entries: ByteStrings) -> Iterator[str]:
    yield "byte-level BPE of tiktoken; special tokens are not in this file"
    single = len({entries[int(at)] for at in np.flatnonzero(entries.lengths == 1)})
    if single == 256:
        yield "every single byte is a token: nothing is unknown"


READER: Final = Reader("tiktoken ranks", recognise, read)
