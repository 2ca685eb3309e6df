"""tiktoken's ranks: tokens in base64 and their ranks, as lines of text or in JSON.

Lines hold a token, a blank and its rank: openai/tiktoken, tiktoken/load.py, which takes ``=`` for
the empty token and skips blank lines (here only at the end). Special tokens stand in code then.
Llama 3 calls such a file ``tokenizer.model``, as SentencePiece does: content tells them apart.

The JSON of dqbd/tiktoken, of its ports, and of Anthropic's tokenizer holds ``special_tokens`` with
their ids, and in the text ``bpe_ranks`` lines of ``!``, the rank of the first token, and tokens
whose ranks count on from it, all with a blank between (js/src/core.ts there).

The rank is the id, and the order in which pairs of tokens are merged.
"""

from __future__ import annotations

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import json_values, text_file
from vocabtool.formats.reader import HEAD, JsonReader, Reader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, in_id_order, printable

MAX_FILE: Final = 1 << 28  # bytes; 200,000 tokens take 4 MB
MAX_RANK: Final = 1 << 32
SHOWN: Final = 5  # special tokens named in a note

LINE: Final = re.compile(
    rb"(?:(?! )(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?|=+) [0-9]{1,10}\r?"
)
PADDED: Final = re.compile(rb"^[A-Za-z0-9+/]+==? ", re.MULTILINE)
RUN: Final = re.compile(r"! ([0-9]{1,10}) ")


def recognise(source: Source) -> str | None:
    """``None`` where most lines are base64 and a rank, and the base64 of some token is padded.

    Merging begins with single bytes, so every file has some such, while words of four letters
    and their counts, which look like the rest, do not end in ``=``. Another line is damage.
    """
    whole = source.size <= len(source.head)
    lines = (source.head.rstrip(b"\r\n") if whole else source.head).split(b"\n")
    if not whole:
        del lines[-1]  # cut off with the head
    if 2 * sum(LINE.fullmatch(line) is not None for line in lines) <= len(lines):
        return "most of its lines are not base64, a blank and a number"
    if not PADDED.search(source.head):
        return f"no token whose base64 is padded in its first {HEAD:,} bytes"
    return None


def read(source: Source) -> ReadResult:
    """The tokens by rank."""
    if source.size > MAX_FILE:
        raise UnsupportedFormat(f"ranks of {source.size:,} bytes, wanted at most {MAX_FILE:,}")
    data = source.file.read_bytes().rstrip(b"\r\n")
    columns = text_file.read_columns(data, 0, 1, b" ")
    encoded, written = (column for column in columns if isinstance(column, ByteStrings))
    blanks = data.count(b" ")
    if blanks != len(encoded):
        raise InvalidFile(f"{len(encoded):,} lines hold {blanks:,} blanks, wanted one in each")
    ranks = text_file.integers(written)
    if len(ranks) and not 0 <= int(ranks.min()) <= int(ranks.max()) < MAX_RANK:
        raise InvalidFile(f"ranks from {ranks.min():,} to {ranks.max():,}, wanted 0 to 2^32")
    tokens = ByteStrings.of(_from_lines(encoded))
    notes = ("byte-level BPE of tiktoken; special tokens are not in this file",)
    return ReadResult((byte_level(source, tokens, ranks, "whole file", notes),))


READER: Final = Reader("tiktoken ranks", recognise, read)


def recognise_json(document: object) -> str | None:
    """Whether there is a text ``bpe_ranks``."""
    if not isinstance(document, dict):
        return f"{json_values.kind(document)}, wanted an object"
    return None if isinstance(document.get("bpe_ranks"), str) else "no text bpe_ranks in it"


def read_json(document: Any, source: Source) -> ReadResult:
    """The tokens by rank, and the special ones. Raises :class:`InvalidFile`."""
    special = document.get("special_tokens", {})
    if not isinstance(special, dict):
        raise InvalidFile(f"special_tokens is {json_values.kind(special)}, wanted an object")
    special_ids = json_values.ids(special, "special_tokens: the id")
    ranks: list[NDArray[np.int64]] = []
    tokens: list[bytes] = []
    for number, line in enumerate(document["bpe_ranks"].split("\n"), start=1):
        if not line:
            continue
        run = RUN.match(line)
        if run is None:
            shown = json_values.shown(line)
            raise InvalidFile(f"bpe_ranks: line {number:,} begins {shown!r}, wanted '! 0 IQ== ...'")
        where = f"bpe_ranks: line {number:,}: token"
        run_of_tokens = list(decoded(line[run.end() :].split(" "), where))
        ranks.append(int(run[1]) + np.arange(len(run_of_tokens), dtype=np.int64))
        tokens += run_of_tokens
    stored = ByteStrings.of(chain(tokens, json_values.strings(special, "special token")))
    notes = ["byte-level BPE of tiktoken", *special_note(list(special))]
    ids = np.concatenate([*ranks, special_ids])
    stated = document.get("explicit_n_vocab", len(ids))
    if stated != len(ids):
        notes.append(f"explicit_n_vocab is {stated!r:.20}, and there are {len(ids):,} tokens")
    return ReadResult((byte_level(source, stored, ids, "bpe_ranks and special_tokens", notes),))


JSON_READER: Final = JsonReader("JSON of tiktoken ranks", recognise_json, read_json)


def decoded(encoded: Iterable[object], what: str) -> Iterator[bytes]:
    """Tokens written in base64; ``what`` names one in messages, before its number.

    Raises :class:`InvalidFile` for what is not base64, or stands for nothing.
    """
    for number, text in enumerate(encoded):
        try:
            token = a2b_base64(text, strict_mode=True)  # type: ignore[arg-type]
        except (NotBase64, ValueError, TypeError) as error:
            shown = repr(json_values.shown(text)) if isinstance(text, str) else "no text"
            raise InvalidFile(f"{what} {number:,} is {shown}, wanted base64: {error}") from error
        if not token:
            raise InvalidFile(f"{what} {number:,} is empty, wanted base64")
        yield token


def byte_level(
    source: Source,
    tokens: ByteStrings,
    ids: NDArray[np.int64],
    place: str,
    notes: Sequence[str],
) -> Vocabulary:
    """A vocabulary of tokens that are bytes. Raises :class:`InvalidFile` where an id repeats."""
    stored, first_id, uneven = in_id_order(tokens, ids)
    if uneven is not None and len(same := np.flatnonzero(uneven[1:] == uneven[:-1])):
        raise InvalidFile(f"two tokens have rank {uneven[same[0]]:,}")
    if len({stored[int(at)] for at in np.flatnonzero(stored.lengths == 1)}) == 256:
        notes = (*notes, "every single byte is a token: nothing is unknown")
    if empty := int((stored.lengths == 0).sum()):
        notes = (*notes, f"empty tokens: {empty:,}")
    return Vocabulary(
        name=source.name.rpartition("/")[2],
        kind="bpe",
        stored=stored,
        first_id=first_id,
        ids=uneven,
        places=(Place(source.name, place),),
        notes=tuple(notes),
        marker=" ",
    )


def special_note(tokens: Sequence[str]) -> Iterator[str]:
    """Which tokens are special, for people."""
    if tokens:
        named = ", ".join(map(json_values.shown, tokens[:SHOWN]))
        more = ", ..." if len(tokens) > SHOWN else ""
        yield f"special tokens, {len(tokens):,}: {named}{more}"


def _from_lines(encoded: ByteStrings) -> Iterator[bytes]:
    for line, text in enumerate(encoded, start=1):
        if not text:
            raise InvalidFile(f"line {line:,} holds no token")
        if not text.strip(b"="):
            yield b""  # as tiktoken reads it
            continue
        try:
            yield a2b_base64(text, strict_mode=True)
        except NotBase64 as error:
            shown = printable(text[:40])
            raise InvalidFile(f"line {line:,} holds {shown!r}, wanted base64: {error}") from error
