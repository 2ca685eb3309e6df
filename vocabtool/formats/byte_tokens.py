"""Read vocabularies whose tokens are bytes: ranks of tiktoken, and ``tekken.json``.

tiktoken (openai/tiktoken, tiktoken/load.py): each line has a token in base64, a space and its rank.
``=`` is the empty token. Ranks are ids, and lower ranks are merged first. Special tokens are not in
the file. Blank lines are allowed only at the end. Llama 3 names such a file ``tokenizer.model``,
which is also the usual name of SentencePiece models. The content shows which format it is.

``tekken.json`` (``Tekkenizer`` in mistralai/mistral-common, tokens/tokenizers/tekken.py): ``vocab``
lists tokens and their ranks, from 0. The model uses only the first ``default_vocab_size -
default_num_special_tokens`` of these tokens. Special tokens get the lowest ids. The id of any other
token is its rank plus ``default_num_special_tokens``. Up to version 7, ``special_tokens`` may be
missing. In this case, :data:`IMPLIED` lists them. A special token without a name is named by its
number, such as ``<SPECIAL_20>``.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_file, word_list
from vocabtool.formats.files import MAX_FILE, read_file
from vocabtool.formats.reader import HEAD, Findings, JsonReader, Reader, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, printable


def _vocabulary(
    source: Source, tokens: ByteStrings, ids: NDArray[np.int64], place: str, *notes: str
) -> Findings:
    name, where = source.name.rpartition("/")[2], Place(source.name, place)
    if len({tokens[int(at)] for at in np.flatnonzero(tokens.lengths == 1)}) == 256:
        notes = (*notes, "every single byte is a token, so no text is unknown")
    if empty := int((tokens.lengths == 0).sum()):
        notes = (*notes, f"empty tokens: {empty:,}")
    found = Vocabulary.from_ids(name, "bpe", tokens, ids, places=(where,), notes=notes, marker=" ")
    if found.ids is not None and (same := found.ids[1:][found.ids[1:] == found.ids[:-1]]).size:
        raise InvalidFile(f"two tokens have rank {same[0]:,}")
    return Findings([found])


def _decode(encoded: Iterable[object], what: str) -> Iterator[bytes]:
    for number, text in enumerate(encoded):
        try:
            token = a2b_base64(text, strict_mode=True)  # type: ignore[arg-type] # refused below
        except (ValueError, TypeError) as error:
            got = repr(json_file.show(text)) if isinstance(text, str) else "not a text"
            raise InvalidFile(f"{what} {number:,} is {got}, wanted base64: {error}") from error
        if not token:
            raise InvalidFile(f"{what} {number:,} is empty, wanted base64")
        yield token


# tiktoken.

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
    columns = word_list.read_columns(data, 0, 1, b" ")
    encoded, written = (column for column in columns if isinstance(column, ByteStrings))
    blanks = data.count(b" ")
    if blanks != len(encoded):
        what = f"{blanks:,} spaces in {len(encoded):,} lines: wanted one in each line"
        raise InvalidFile(what)
    ranks = word_list.integers(written)
    if len(ranks) and not 0 <= int(ranks.min()) <= int(ranks.max()) <= json_file.MAX_ID:
        raise InvalidFile(
            f"ranks from {ranks.min():,} to {ranks.max():,}, wanted 0 to {json_file.MAX_ID:,}"
        )
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
    return _vocabulary(source, ByteStrings.of(tokens), ranks, "whole file", note)


RANKS: Final = Reader("tiktoken ranks", _recognise_ranks, _read_ranks)


# Mistral.

MAX_SPECIAL: Final = 1 << 20  # all known files have 1,000
IMPLIED: Final = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)
IMPLIED_UP_TO: Final = 7  # version of tekken.json


def _recognise_tekken(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    config = document.get("config")
    if not isinstance(document.get("vocab"), list) or not isinstance(config, dict):
        return "it has no list vocab or no object config"
    return None if "default_vocab_size" in config else "its config has no default_vocab_size"


def _read_tekken(document: Any, source: Source) -> Findings:
    config, listed = document["config"], document["vocab"]
    room = _count(config, "default_num_special_tokens", MAX_SPECIAL)
    size = _count(config, "default_vocab_size", room + len(listed))
    if size < room:
        what = f"default_vocab_size is {size:,}, wanted at least default_num_special_tokens"
        raise InvalidFile(f"{what}, which is {room:,}")
    version = json_file.show_value(config.get("version"))
    if document.get("special_tokens") is not None:
        stated = json_file.expect(document["special_tokens"], list, "special_tokens")
        special = _in_order(stated, "special_tokens", "token_str")
    else:
        digits = version.removeprefix("v")
        if digits.isdecimal() and (len(digits) > 4 or int(digits) > IMPLIED_UP_TO):
            raise InvalidFile(f"special_tokens is missing, but version {version} requires it")
        special = list(IMPLIED)
    if len(special) > room:
        what = f"{len(special):,} special tokens, wanted at most default_num_special_tokens"
        raise InvalidFile(f"{what}, which is {room:,}")
    fillers = (f"<SPECIAL_{number}>" for number in range(len(special), room))
    names = json_file.strings([*special, *fillers], "special token")
    if names.distinct < room:
        raise InvalidFile("two special tokens are the same")
    kept = _in_order(listed[: size - room], "vocab", "token_bytes")
    tokens = ByteStrings.of(chain(names, _decode(kept, "vocab: token_bytes of item")))
    notes = [f"byte-level BPE of Mistral, version {version}"]
    if special:
        notes.append(f"special tokens, {len(special):,}: {json_file.show_some(special)}")
    if len(special) < room:
        notes.append(f"special tokens from id {len(special):,} to {room - 1:,} have no name")
    if len(listed) > len(kept):
        notes.append(f"the model uses the first {len(kept):,} of its {len(listed):,} tokens")
    ids = np.arange(size, dtype=np.int64)
    return _vocabulary(source, tokens, ids, "special_tokens and vocab", *notes)


def _count(config: dict[str, Any], key: str, most: int) -> int:
    count = config.get(key)
    if json_file.is_id(count) and count <= most:
        return count
    got = f"{count:,}" if json_file.is_id(count) else json_file.kind(count)
    raise InvalidFile(f"config: {key} is {got}, wanted a whole number from 0 to {most:,}")


def _in_order(listed: list[Any], what: str, key: str) -> list[Any]:
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get(key), str):
            raise InvalidFile(f"{what}: item {number:,}: {key} is missing or not a text")
        if item.get("rank") != number:
            rank = json_file.show_value(item.get("rank"))
            raise InvalidFile(f"{what}: item {number:,} has rank {rank!r}, wanted {number}")
    return [item[key] for item in listed]


TEKKEN: Final = JsonReader("Mistral tekken.json", _recognise_tekken, _read_tekken)
