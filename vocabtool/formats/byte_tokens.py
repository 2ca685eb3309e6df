"""tiktoken's ranks, as lines of text or in JSON, and Mistral's ``tekken.json``: tokens in base64.

Lines hold a token, a blank and its rank: openai/tiktoken, tiktoken/load.py, which takes ``=`` for
the empty token and skips blank lines (here only at the end). Special tokens stand in code then.
Llama 3 calls such a file ``tokenizer.model``, as SentencePiece does: content tells them apart.

The JSON of dqbd/tiktoken, of its ports, and of Anthropic's tokenizer holds ``special_tokens`` with
their ids, and in the text ``bpe_ranks`` lines of ``!``, the rank of the first token, and tokens
whose ranks count on from it, all with a blank between (js/src/core.ts there).

``tekken.json``: ``Tekkenizer`` in mistralai/mistral-common, tokens/tokenizers/tekken.py. ``vocab``
lists tokens, each with its rank, which counts from 0; of these the model has the first
``default_vocab_size - default_num_special_tokens``, and their ids are their ranks behind the
special tokens. ``special_tokens`` lists these; files of versions up to 7 may leave it out, and
mean those of :data:`IMPLIED`. The rest, up to ``default_num_special_tokens``, are named by number.

A rank is the order in which pairs of tokens are merged, and in tiktoken the id.

RWKV's vocabulary: on each line an id, a token as Python writes it, and its length in bytes.

Layout: ``TRIE_TOKENIZER`` in BlinkDL/ChatRWKV, rwkv_pip_package/src/rwkv/rwkv_tokenizer.py. A token
is ``'text'`` or ``b'bytes'``. There the literal is evaluated; here it must be nothing but one
literal, whose escapes are then undone. Ids begin at 1: 0 ends a text, and is not in the file. A
text is cut into the longest tokens from left to right.
"""

from __future__ import annotations

import ast
import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import json_file, word_list
from vocabtool.formats.reader import HEAD, JsonReader, Reader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, is_utf8, printable

MAX_FILE: Final = 1 << 28  # bytes; 200,000 tokens take 4 MB
MAX_RANK: Final = 1 << 32
MAX_SHOWN: Final = 5  # special tokens named in a note

LINE: Final = re.compile(
    rb"(?:(?! )(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?|=+) [0-9]{1,10}\r?"
)
PADDED: Final = re.compile(rb"^[A-Za-z0-9+/]+==? ", re.MULTILINE)
RUN: Final = re.compile(r"! ([0-9]{1,10}) ")

MAX_SPECIAL: Final = 1 << 20  # of tekken; a thousand in all files that we know of
IMPLIED: Final = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)
IMPLIED_UP_TO: Final = 7  # the version


def _recognise(source: Source) -> str | None:
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


def _read(source: Source) -> ReadResult:
    if source.size > MAX_FILE:
        raise UnsupportedFormat(f"ranks of {source.size:,} bytes, wanted at most {MAX_FILE:,}")
    data = source.file.read_bytes().rstrip(b"\r\n")
    columns = word_list.read_columns(data, 0, 1, b" ")
    encoded, written = (column for column in columns if isinstance(column, ByteStrings))
    blanks = data.count(b" ")
    if blanks != len(encoded):
        raise InvalidFile(f"{len(encoded):,} lines hold {blanks:,} blanks, wanted one in each")
    ranks = word_list.integers(written)
    if len(ranks) and not 0 <= int(ranks.min()) <= int(ranks.max()) < MAX_RANK:
        raise InvalidFile(f"ranks from {ranks.min():,} to {ranks.max():,}, wanted 0 to 2^32")
    tokens = ByteStrings.of(_from_lines(encoded))
    notes = ("byte-level BPE of tiktoken; special tokens are not in this file",)
    return ReadResult((_byte_level(source, tokens, ranks, "whole file", notes),))


def _from_lines(encoded: ByteStrings) -> Iterator[bytes]:
    for line, text in enumerate(encoded, start=1):
        if not text:
            raise InvalidFile(f"line {line:,} holds no token")
        try:
            # nothing but ``=`` is the empty token, as tiktoken reads it
            yield a2b_base64(text, strict_mode=True) if text.strip(b"=") else b""
        except NotBase64 as error:
            got = printable(text[:40])
            raise InvalidFile(f"line {line:,} holds {got!r}, wanted base64: {error}") from error


def _recognise_json(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    return None if isinstance(document.get("bpe_ranks"), str) else "no text bpe_ranks in it"


def _read_json(document: Any, source: Source) -> ReadResult:
    special = document.get("special_tokens", {})
    if not isinstance(special, dict):
        raise InvalidFile(f"special_tokens is {json_file.kind(special)}, wanted an object")
    special_ids = json_file.parse_ids(special, "special_tokens: the id")
    ranks: list[NDArray[np.int64]] = []
    tokens: list[bytes] = []
    for number, line in enumerate(document["bpe_ranks"].split("\n"), start=1):
        if not line:
            continue
        run = RUN.match(line)
        if run is None:
            got = json_file.show(line)
            raise InvalidFile(f"bpe_ranks: line {number:,} begins {got!r}, wanted '! 0 IQ== ...'")
        where = f"bpe_ranks: line {number:,}: token"
        run_of_tokens = list(_decode(line[run.end() :].split(" "), where))
        ranks.append(int(run[1]) + np.arange(len(run_of_tokens), dtype=np.int64))
        tokens += run_of_tokens
    stored = ByteStrings.of(chain(tokens, json_file.strings(special, "special token")))
    notes = ["byte-level BPE of tiktoken", *_special_note(list(special))]
    ids = np.concatenate([*ranks, special_ids])
    stated = document.get("explicit_n_vocab", len(ids))
    if stated != len(ids):
        notes.append(f"explicit_n_vocab is {stated!r:.20}, and there are {len(ids):,} tokens")
    return ReadResult((_byte_level(source, stored, ids, "bpe_ranks and special_tokens", notes),))


def _recognise_tekken(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{json_file.kind(document)}, wanted an object"
    config = document.get("config")
    if not isinstance(document.get("vocab"), list) or not isinstance(config, dict):
        return "no list vocab and object config in it"
    return None if "default_vocab_size" in config else "no default_vocab_size in its config"


def _read_tekken(document: Any, source: Source) -> ReadResult:
    config, listed = document["config"], document["vocab"]
    room = _count(config, "default_num_special_tokens", MAX_SPECIAL)
    size = _count(config, "default_vocab_size", room + len(listed))
    if size < room:
        raise InvalidFile(f"default_vocab_size is {size:,}, for {room:,} special tokens alone")
    version = json_file.show(str(config.get("version")))
    special = _special(document, version)
    if len(special) > room:
        raise InvalidFile(f"{len(special):,} special tokens, and room for {room:,}")
    fillers = (f"<SPECIAL_{number}>" for number in range(len(special), room))
    names = json_file.strings([*special, *fillers], "special token")
    if names.distinct < room:
        raise InvalidFile("two special tokens are the same")
    kept = _in_order(listed[: size - room], "vocab", "token_bytes")
    tokens = ByteStrings.of(chain(names, _decode(kept, "vocab: token_bytes of item")))
    notes = [f"byte-level BPE of Mistral, version {version}", *_special_note(special)]
    if len(special) < room:
        notes.append(f"special tokens from id {len(special):,} to {room - 1:,} have no name")
    if len(listed) > len(kept):
        notes.append(f"of its {len(listed):,} tokens the model has the first {len(kept):,}")
    ids = np.arange(size, dtype=np.int64)
    return ReadResult((_byte_level(source, tokens, ids, "special_tokens and vocab", notes),))


def _count(config: dict[str, Any], key: str, most: int) -> int:
    count = config.get(key)
    if json_file.is_id(count) and count <= most:
        return count
    got = f"{count:,}" if json_file.is_id(count) else json_file.kind(count)
    raise InvalidFile(f"config: {key} is {got}, wanted a whole number from 0 to {most:,}")


def _special(document: dict[str, Any], version: str) -> list[str]:
    listed = document.get("special_tokens")
    if listed is None:
        digits = version.removeprefix("v")
        if digits.isdecimal() and (len(digits) > 4 or int(digits) > IMPLIED_UP_TO):
            raise InvalidFile(f"no special_tokens, which version {version} must list")
        return list(IMPLIED)
    if not isinstance(listed, list):
        raise InvalidFile(f"special_tokens is {json_file.kind(listed)}, wanted a list")
    return _in_order(listed, "special_tokens", "token_str")


def _in_order(listed: list[Any], what: str, key: str) -> list[Any]:
    """What each item has under ``key``. Raises :class:`InvalidFile` where a rank is no position."""
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get(key), str):
            raise InvalidFile(f"{what}: item {number:,} has no text {key}")
        if item.get("rank") != number:
            raise InvalidFile(f"{what}: item {number:,} does not have the rank {number:,}")
    return [item[key] for item in listed]


READER: Final = Reader("tiktoken ranks", _recognise, _read)
JSON: Final = JsonReader("JSON of tiktoken ranks", _recognise_json, _read_json)
TEKKEN: Final = JsonReader("Mistral tekken.json", _recognise_tekken, _read_tekken)


def _decode(encoded: Iterable[object], what: str) -> Iterator[bytes]:
    """Tokens written in base64; ``what`` names one in messages, before its number.

    Raises :class:`InvalidFile` for what is not base64, or stands for nothing.
    """
    for number, text in enumerate(encoded):
        try:
            token = a2b_base64(text, strict_mode=True)  # type: ignore[arg-type]
        except (NotBase64, ValueError, TypeError) as error:
            got = repr(json_file.show(text)) if isinstance(text, str) else "no text"
            raise InvalidFile(f"{what} {number:,} is {got}, wanted base64: {error}") from error
        if not token:
            raise InvalidFile(f"{what} {number:,} is empty, wanted base64")
        yield token


def _byte_level(
    source: Source,
    tokens: ByteStrings,
    ids: NDArray[np.int64],
    place: str,
    notes: Sequence[str],
) -> Vocabulary:
    """A vocabulary of tokens that are bytes. Raises :class:`InvalidFile` where an id repeats."""
    if len({tokens[int(at)] for at in np.flatnonzero(tokens.lengths == 1)}) == 256:
        notes = (*notes, "every single byte is a token: nothing is unknown")
    if empty := int((tokens.lengths == 0).sum()):
        notes = (*notes, f"empty tokens: {empty:,}")
    name, places = source.name.rpartition("/")[2], (Place(source.name, place),)
    vocabulary = Vocabulary.from_ids(
        name, "bpe", tokens, ids, places=places, notes=tuple(notes), marker=" "
    )
    if (repeated := vocabulary.repeated_id) is not None:
        raise InvalidFile(f"two tokens have rank {repeated:,}")
    return vocabulary


def _special_note(tokens: Sequence[str]) -> Iterator[str]:
    if tokens:
        named = ", ".join(map(json_file.show, tokens[:MAX_SHOWN]))
        more = ", ..." if len(tokens) > MAX_SHOWN else ""
        yield f"special tokens, {len(tokens):,}: {named}{more}"


RWKV_MAX_FILE: Final = 1 << 28  # bytes; 65,529 tokens take 1.2 MB
MAX_ID: Final = (1 << 32) - 1

# Escapes that Python knows; behind others it warns. Only ASCII stands in literals of bytes.
_ESCAPE: Final = rb"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|[0-3]?[0-7]{1,2}"
_TEXT: Final = _ESCAPE + rb"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_BYTES: Final = _ESCAPE + rb")"
# Possessive: an octal escape may end in three places, and who backs off tries them all.
RWKV_LINE: Final = re.compile(
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
    if 2 * sum(RWKV_LINE.fullmatch(line) is not None for line in lines) > len(lines):
        return None
    return "most of its lines are not an id, a literal of Python and its length"


def read(source: Source) -> ReadResult:
    """The tokens by id. Raises :class:`InvalidFile` for a line that contradicts itself."""
    if source.size > RWKV_MAX_FILE:
        raise UnsupportedFormat(
            f"a list of {source.size:,} bytes, wanted at most {RWKV_MAX_FILE:,}"
        )
    name, place = source.name.rpartition("/")[2], Place(source.name, "whole lines")
    return ReadResult((vocabulary(source.file.read_bytes(), name, place),))


def vocabulary(data: bytes, name: str, place: Place) -> Vocabulary:
    """The tokens by id. Raises :class:`InvalidFile` for a line that contradicts itself."""
    lines = word_list.read_lines(data)
    ids = np.zeros(len(lines), np.int64)
    tokens = ByteStrings.of(_tokens(lines, ids))
    note = "tokens of RWKV" + "; id 0, which no line has, ends a text" * (0 not in ids)
    vocabulary = Vocabulary.from_ids(
        name, "table", tokens, ids, places=(place,), notes=(note,), marker=" "
    )
    if (repeated := vocabulary.repeated_id) is not None:
        raise InvalidFile(f"two tokens have id {repeated:,}")
    return vocabulary


RWKV: Final = Reader("RWKV vocabulary", recognise, read)


def _tokens(lines: ByteStrings, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[bytes]:
    """The token of each line; ``ids`` (zeros) are filled."""
    for at, line in enumerate(lines):
        found = RWKV_LINE.fullmatch(line)
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
