"""Read vocabularies whose tokens are bytes: tiktoken (text or JSON), ``tekken.json``, and RWKV.

tiktoken (openai/tiktoken, tiktoken/load.py): each line has a token in base64, a space and its rank.
``=`` is the empty token. Ranks are ids, and lower ranks are merged first. Special tokens are not in
the file. Blank lines are allowed only at the end. Llama 3 names such a file ``tokenizer.model``,
which is also the usual name of SentencePiece models. The content shows which format it is.

tiktoken in JSON (dqbd/tiktoken, js/src/core.ts): ``special_tokens`` maps tokens to their ids.
``bpe_ranks`` is a text of several lines. Each line has ``!``, a rank and tokens in base64,
separated by spaces. The rank belongs to the first token of the line; each further token has the
next higher rank.

``tekken.json`` (``Tekkenizer`` in mistralai/mistral-common, tokens/tokenizers/tekken.py): ``vocab``
lists tokens and their ranks, from 0. The model uses only the first ``default_vocab_size -
default_num_special_tokens`` of these tokens. Special tokens get the lowest ids. The id of any other
token is its rank plus ``default_num_special_tokens``. Up to version 7, ``special_tokens`` may be
missing. In this case, :data:`IMPLIED` lists them. A special token without a name is named by its
number, such as ``<SPECIAL_20>``.

RWKV (``TRIE_TOKENIZER`` in BlinkDL/ChatRWKV, rwkv_pip_package/src/rwkv/rwkv_tokenizer.py): a line
has an id, a token as a Python literal (``'text'`` or ``b'bytes'``), and the token's length in
bytes. Only literals are accepted; nothing is evaluated. Ids begin at 1, because id 0 means the end
of a text and is not listed.
"""

from __future__ import annotations

import ast
import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import word_list
from vocabtool.formats.json_file import (
    MAX_FILE,
    MAX_ID,
    expect,
    is_id,
    kind,
    parse_ids,
    show,
    show_some,
    strings,
)
from vocabtool.formats.reader import HEAD, Findings, JsonReader, Reader, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Place, Vocabulary, is_utf8, printable


def _vocabulary(
    source: Source, kind: Kind, tokens: ByteStrings, ids: NDArray[np.int64], place: str, *notes: str
) -> Findings:
    name, where = source.name.rpartition("/")[2], Place(source.name, place)
    if len({tokens[int(at)] for at in np.flatnonzero(tokens.lengths == 1)}) == 256:
        notes = (*notes, "every single byte is a token, so no text is unknown")
    if empty := int((tokens.lengths == 0).sum()):
        notes = (*notes, f"empty tokens: {empty:,}")
    found = Vocabulary.from_ids(name, kind, tokens, ids, places=(where,), notes=notes, marker=" ")
    if (repeated := found.repeated_id) is not None:
        raise InvalidFile(f"two tokens have rank {repeated:,}")
    return Findings([found])


def _decode(encoded: Iterable[object], what: str) -> Iterator[bytes]:
    for number, text in enumerate(encoded):
        try:
            token = a2b_base64(text, strict_mode=True)  # type: ignore[arg-type] # refused below
        except (ValueError, TypeError) as error:
            got = repr(show(text)) if isinstance(text, str) else "not a text"
            raise InvalidFile(f"{what} {number:,} is {got}, wanted base64: {error}") from error
        if not token:
            raise InvalidFile(f"{what} {number:,} is empty, wanted base64")
        yield token


def _whole_lines(source: Source) -> list[bytes]:
    if source.size > len(source.head):
        return source.head.split(b"\n")[:-1]
    return source.head.rstrip(b"\r\n").split(b"\n")


# tiktoken.

RANK: Final = re.compile(
    rb"(?:(?! )(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?|=+) [0-9]{1,10}\r?"
)
PADDED: Final = re.compile(rb"^[A-Za-z0-9+/]+==? ", re.MULTILINE)
RUN: Final = re.compile(r"! ([0-9]{1,10}) ")


def _recognise_ranks(source: Source) -> str | None:
    lines = _whole_lines(source)
    if 2 * sum(RANK.fullmatch(line) is not None for line in lines) <= len(lines):
        return "most of its lines are not base64, a space and a number"
    # The first tokens are single bytes, which need padding. Words, with counts, do not end in =.
    if not PADDED.search(source.head):
        return f"no base64 with padding (=) in its first {HEAD:,} bytes"
    return None


def _read_ranks(source: Source) -> Findings:
    if source.size > MAX_FILE:
        what = f"the file of ranks has {source.size:,} bytes, wanted at most {MAX_FILE:,}"
        raise UnsupportedFormat(what)
    data = source.file.read_bytes().rstrip(b"\r\n")
    columns = word_list.read_columns(data, 0, 1, b" ")
    encoded, written = (column for column in columns if isinstance(column, ByteStrings))
    blanks = data.count(b" ")
    if blanks != len(encoded):
        raise InvalidFile(
            f"{blanks:,} spaces in {len(encoded):,} lines: wanted one in each line, between the "
            "token and its rank"
        )
    ranks = word_list.integers(written)
    if len(ranks) and not 0 <= int(ranks.min()) <= int(ranks.max()) <= MAX_ID:
        raise InvalidFile(f"ranks from {ranks.min():,} to {ranks.max():,}, wanted 0 to {MAX_ID:,}")
    tokens = ByteStrings.of(_from_lines(encoded))
    note = "byte-level BPE of tiktoken; special tokens are not in this file"
    return _vocabulary(source, "bpe", tokens, ranks, "whole file", note)


def _from_lines(encoded: ByteStrings) -> Iterator[bytes]:
    for line, text in enumerate(encoded, start=1):
        if not text:
            raise InvalidFile(f"line {line:,} has no token")
        try:
            # tiktoken reads a lone ``=`` as the empty token
            yield a2b_base64(text, strict_mode=True) if text.strip(b"=") else b""
        except ValueError as error:
            got = printable(text[:40])
            raise InvalidFile(f"line {line:,}: wanted base64, got {got!r}: {error}") from error


RANKS: Final = Reader("tiktoken ranks", _recognise_ranks, _read_ranks)


def _recognise_json(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{kind(document)}, wanted an object"
    return None if isinstance(document.get("bpe_ranks"), str) else "it has no text bpe_ranks"


def _read_json(document: Any, source: Source) -> Findings:
    special = expect(document.get("special_tokens", {}), dict, "special_tokens")
    special_ids = parse_ids(special, "special_tokens: the id")
    ranks: list[NDArray[np.int64]] = []
    tokens: list[bytes] = []
    for number, line in enumerate(document["bpe_ranks"].split("\n"), start=1):
        if not line:
            continue
        run = RUN.match(line)
        if run is None:
            got = show(line)
            raise InvalidFile(f"bpe_ranks: line {number:,}: wanted '! 0 IQ== ...', got {got!r}")
        where = f"bpe_ranks: line {number:,}: token"
        found = list(_decode(line[run.end() :].split(" "), where))
        ranks.append(int(run[1]) + np.arange(len(found), dtype=np.int64))
        tokens += found
    stored = ByteStrings.of(chain(tokens, strings(special, "special token")))
    notes = ["byte-level BPE of tiktoken"]
    if special:
        notes.append(f"special tokens, {len(special):,}: {show_some(special)}")
    ids = np.concatenate([*ranks, special_ids])
    stated = document.get("explicit_n_vocab", len(ids))
    if stated != len(ids):
        notes.append(f"explicit_n_vocab is {stated!r:.20}, but there are {len(ids):,} tokens")
    return _vocabulary(source, "bpe", stored, ids, "bpe_ranks and special_tokens", *notes)


JSON: Final = JsonReader("JSON of tiktoken ranks", _recognise_json, _read_json)


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
        return f"{kind(document)}, wanted an object"
    config = document.get("config")
    if not isinstance(document.get("vocab"), list) or not isinstance(config, dict):
        return "it has no list vocab or no object config"
    return None if "default_vocab_size" in config else "its config has no default_vocab_size"


def _read_tekken(document: Any, source: Source) -> Findings:
    config, listed = document["config"], document["vocab"]
    room = _count(config, "default_num_special_tokens", MAX_SPECIAL)
    size = _count(config, "default_vocab_size", room + len(listed))
    if size < room:
        raise InvalidFile(
            f"default_vocab_size is {size:,}, wanted at least default_num_special_tokens, which is "
            f"{room:,}"
        )
    version = show(str(config.get("version")))
    if document.get("special_tokens") is not None:
        stated = expect(document["special_tokens"], list, "special_tokens")
        special = _in_order(stated, "special_tokens", "token_str")
    else:
        digits = version.removeprefix("v")
        if digits.isdecimal() and (len(digits) > 4 or int(digits) > IMPLIED_UP_TO):
            raise InvalidFile(f"special_tokens is missing, but version {version} requires it")
        special = list(IMPLIED)
    if len(special) > room:
        raise InvalidFile(
            f"{len(special):,} special tokens, wanted at most default_num_special_tokens, which is "
            f"{room:,}"
        )
    fillers = (f"<SPECIAL_{number}>" for number in range(len(special), room))
    names = strings([*special, *fillers], "special token")
    if names.distinct < room:
        raise InvalidFile("two special tokens are the same")
    kept = _in_order(listed[: size - room], "vocab", "token_bytes")
    tokens = ByteStrings.of(chain(names, _decode(kept, "vocab: token_bytes of item")))
    notes = [f"byte-level BPE of Mistral, version {version}"]
    if special:
        notes.append(f"special tokens, {len(special):,}: {show_some(special)}")
    if len(special) < room:
        notes.append(f"special tokens from id {len(special):,} to {room - 1:,} have no name")
    if len(listed) > len(kept):
        notes.append(f"the model uses the first {len(kept):,} of its {len(listed):,} tokens")
    ids = np.arange(size, dtype=np.int64)
    return _vocabulary(source, "bpe", tokens, ids, "special_tokens and vocab", *notes)


def _count(config: dict[str, Any], key: str, most: int) -> int:
    count = config.get(key)
    if is_id(count) and count <= most:
        return count
    got = f"{count:,}" if is_id(count) else kind(count)
    raise InvalidFile(f"config: {key} is {got}, wanted a whole number from 0 to {most:,}")


def _in_order(listed: list[Any], what: str, key: str) -> list[Any]:
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get(key), str):
            raise InvalidFile(f"{what}: item {number:,}: {key} is missing or not a text")
        if item.get("rank") != number:
            rank = str(item.get("rank"))[:20]
            raise InvalidFile(f"{what}: item {number:,} has rank {rank!r}, wanted {number}")
    return [item[key] for item in listed]


TEKKEN: Final = JsonReader("Mistral tekken.json", _recognise_tekken, _read_tekken)


# RWKV.

# Python's escapes; it warns about others. Literals of bytes contain only ASCII.
_ESCAPE: Final = rb"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|[0-3]?[0-7]{1,2}"
_TEXT: Final = _ESCAPE + rb"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_BYTES: Final = _ESCAPE + rb")"
# Atomic, because backtracking would try all three possible ends of each octal escape. Python before
# 3.11.5 matches possessive groups wrongly.
LITERAL: Final = re.compile(
    rb"([0-9]{1,10}) ("
    rb"'(?>(?:[^'\\]|" + _TEXT + rb")*)'|" + rb'"(?>(?:[^"\\]|' + _TEXT + rb')*)"|'
    rb"b'(?>(?:[^'\\\x80-\xff]|" + _BYTES + rb")*)'|"
    rb'b"(?>(?:[^"\\\x80-\xff]|' + _BYTES + rb')*)"'
    rb") ([0-9]{1,9})\r?"
)


def _recognise_rwkv(source: Source) -> str | None:
    lines = _whole_lines(source)
    if not lines:
        return f"no line ends in its first {HEAD:,} bytes"
    if 2 * sum(LITERAL.fullmatch(line) is not None for line in lines) > len(lines):
        return None
    return "most of its lines are not an id, a Python literal and its length"


def _read_rwkv(source: Source) -> Findings:
    if source.size > MAX_FILE:
        raise UnsupportedFormat(f"the file has {source.size:,} bytes, wanted at most {MAX_FILE:,}")
    name, place = source.name.rpartition("/")[2], Place(source.name, "whole lines")
    return Findings([rwkv_vocabulary(source.file.read_bytes(), name, place)])


RWKV: Final = Reader("RWKV vocabulary", _recognise_rwkv, _read_rwkv)


def rwkv_vocabulary(data: bytes, name: str, place: Place) -> Vocabulary:
    lines = word_list.read_lines(data)
    ids = np.zeros(len(lines), np.int64)
    tokens = ByteStrings.of(_literals(lines, ids))
    note = "tokens of RWKV" + "; id 0 (end of text) is not listed in the file" * (0 not in ids)
    vocabulary = Vocabulary.from_ids(
        name, "table", tokens, ids, places=(place,), notes=(note,), marker=" "
    )
    if (repeated := vocabulary.repeated_id) is not None:
        raise InvalidFile(f"two tokens have id {repeated:,}")
    return vocabulary


def _literals(lines: ByteStrings, ids: NDArray[np.int64]) -> Iterator[bytes]:
    for at, line in enumerate(lines):
        found = LITERAL.fullmatch(line)
        if found is None or int(found[1]) > MAX_ID:
            wanted = "an id, a Python literal and its length"
            raise InvalidFile(f"line {at + 1:,}: wanted {wanted}, got {printable(line[:40])!r}")
        token = found[2].removeprefix(b"b")[1:-1]
        try:
            if b"\\" in token:
                value = ast.literal_eval(found[2].decode())
                token = value.encode() if isinstance(value, str) else bytes(value)
            elif not is_utf8(token):
                raise ValueError
        except (SyntaxError, ValueError):  # an invalid character or invalid UTF-8
            what = f"{printable(found[2][:40])} is not valid text"
            raise InvalidFile(f"line {at + 1:,}: {what}") from None
        if len(token) != int(found[3]):
            stated = f"the stated length is {int(found[3]):,} bytes, got {len(token):,}"
            raise InvalidFile(f"line {at + 1:,}: {stated}")
        ids[at] = int(found[1])
        yield token
