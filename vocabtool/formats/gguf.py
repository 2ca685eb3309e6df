"""GGUF: the tokens in the header of a llama.cpp model; the weights behind it are never read.

Layout: ggml-org/ggml, docs/gguf.md. A header is the magic, a version, two counts and then keys
with typed values; version 1 counts in 32 bits, later ones in 64, and version 3 may be big-endian.
The keys read are ``tokenizer.ggml.*``; other lists of strings are passed over, scores and merge
rules are not kept.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.mapped import mapped
from vocabtool.formats.model import PassedOver
from vocabtool.formats.reader import Reader, ReadResult, Source
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary, printable

MAGIC: Final = b"GGUF"
VERSIONS: Final = (1, 2, 3)

STRING: Final = 8
ARRAY: Final = 9
NUMBERS: Final = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
INTEGERS: Final = "BbHhIiQq"

MAX_KEYS: Final = 1 << 16  # llama.cpp writes fewer than 100
MAX_KEY: Final = (1 << 16) - 1  # bytes, says the specification
MAX_VALUE: Final = 256  # bytes of a string that we keep: chat templates are long
MAX_TEXT: Final = 1 << 28  # bytes of all tokens; 250,000 take 4 MB
MAX_DEPTH: Final = 4  # of arrays of arrays, which nobody writes

PREFIX: Final = b"tokenizer.ggml."
TOKENS: Final = PREFIX + b"tokens"
TYPES: Final = PREFIX + b"token_type"
MERGES: Final = PREFIX + b"merges"
MODEL: Final = PREFIX + b"model"
PRETOKENIZER: Final = PREFIX + b"pre"
UNKNOWN_ID: Final = PREFIX + b"unknown_token_id"
ROLES: Final = {
    PREFIX + b"bos_token_id": "begins a text",
    PREFIX + b"eos_token_id": "ends a text",
    PREFIX + b"seperator_token_id": "separates",  # spelled so by the specification
    PREFIX + b"padding_token_id": "pads",
    PREFIX + b"mask_token_id": "masks",
}

# What llama.cpp calls a tokenizer: what it is.
MODELS: Final[dict[bytes, tuple[Kind, Marker | None, str]]] = {
    b"llama": ("bpe", "▁", "SentencePiece pieces, which llama.cpp merges by their scores"),
    b"gpt2": ("bpe", "Ġ", "byte-level BPE"),
    b"bert": ("wordpiece", "▁", "WordPiece; llama.cpp marks the start of a word, not its rest"),
    b"t5": ("unigram", "▁", "SentencePiece unigram pieces"),
    b"rwkv": ("list", None, "RWKV tokens, with the bytes escaped as in Python"),
}
TYPE_NAMES: Final = {2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}
UNKNOWN: Final = 2
BYTE: Final = 6


class _Array(NamedTuple):
    """An array that is not read yet: its items' type, their number, where the first lies."""

    item_type: int
    items: int
    start: int
    end: int


_Value = int | float | bytes | _Array


class _Header:
    """The keys and values of a header, each length checked against what is left of the file."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.order, version = _order_and_version(buffer)
        self.size = "I" if version == 1 else "Q"  # how a count or a length is written
        self.values = dict(self._pairs())

    def _pairs(self) -> Iterator[tuple[bytes, _Value]]:
        _, pos = self._number(self.size, 8)  # the tensors
        count, pos = self._count(pos, 4 + self.size_bytes)
        if count > MAX_KEYS:
            raise UnsupportedFormat(f"a GGUF header of {count:,} keys, wanted at most {MAX_KEYS:,}")
        seen: set[bytes] = set()
        for _ in range(count):
            start = pos
            key, pos = self._key(pos)
            if key in seen:
                raise InvalidFile(f"the key {printable(key[:60])!r} is there twice", offset=start)
            seen.add(key)
            value_type, pos = self._number("I", pos)
            value, pos = self._value(value_type, pos)
            yield key, value

    @property
    def size_bytes(self) -> int:
        """Bytes of one count or length."""
        return struct.calcsize("<" + self.size)

    def _number(self, letter: str, pos: int) -> tuple[int, int]:
        """The number at ``pos``, of the type that ``struct`` calls ``letter``, and the end."""
        layout = self.order + letter
        end = pos + struct.calcsize(layout)
        if end > len(self.buffer):
            raise InvalidFile("the GGUF header is cut off", offset=pos)
        return struct.unpack_from(layout, self.buffer, pos)[0], end

    def _count(self, pos: int, item_bytes: int) -> tuple[int, int]:
        """A count of items that take at least ``item_bytes`` each, and the position behind it."""
        count, behind = self._number(self.size, pos)
        left = len(self.buffer) - behind
        if count * item_bytes > left:
            raise InvalidFile(
                f"{count:,} items want {count * item_bytes:,} bytes, {left:,} are left", offset=pos
            )
        return count, behind

    def _key(self, pos: int) -> tuple[bytes, int]:
        length, start = self._count(pos, 1)
        if length > MAX_KEY:
            raise InvalidFile(f"a key of {length:,} bytes, wanted at most {MAX_KEY:,}", offset=pos)
        return self.buffer[start : start + length], start + length

    def _value(self, value_type: int, pos: int) -> tuple[_Value, int]:
        if value_type == STRING:
            length, start = self._count(pos, 1)
            return self.buffer[start : start + min(length, MAX_VALUE)], start + length
        if value_type == ARRAY:
            found = self._array(pos, 0)
            return found, found.end
        return self._number(_letter(value_type, pos), pos)

    def _array(self, pos: int, depth: int) -> _Array:
        item_type, pos = self._number("I", pos)
        if item_type == ARRAY:
            if depth == MAX_DEPTH:
                raise InvalidFile(f"arrays of arrays, {MAX_DEPTH} deep", offset=pos)
            count, start = self._count(pos, 4 + self.size_bytes)
            end = start
            for _ in range(count):
                end = self._array(end, depth + 1).end
        elif item_type == STRING:
            count, start = self._count(pos, self.size_bytes)
            _, end = self._strings_at(count, start)
        else:
            width = struct.calcsize("<" + _letter(item_type, pos))
            count, start = self._count(pos, width)
            end = start + count * width
        return _Array(item_type, count, start, end)

    def _strings_at(self, count: int, pos: int) -> tuple[array[int], int]:
        """Where each of ``count`` strings' lengths stands, and the position behind the last."""
        buffer, width = self.buffer, self.size_bytes
        length_at = struct.Struct(self.order + self.size).unpack_from
        heads = array("q")
        try:
            for _ in range(count):
                heads.append(pos)
                pos += width + length_at(buffer, pos)[0]
        except (struct.error, OverflowError):
            pos = len(buffer) + 1
        if pos > len(buffer):
            raise InvalidFile("a string runs past the end of the file", offset=heads[-1])
        return heads, pos

    def strings(self, found: _Array) -> ByteStrings:
        """The strings of an array, over a copy of the bytes that it takes."""
        taken = found.end - found.start
        if taken > MAX_TEXT:
            raise UnsupportedFormat(f"tokens of {taken:,} bytes, wanted at most {MAX_TEXT:,}")
        heads, _ = self._strings_at(found.items, found.start)
        bounds = np.append(np.frombuffer(heads, np.int64) - found.start, taken).astype(np.int32)
        text = self.buffer[found.start : found.end]
        return ByteStrings(text, bounds[:-1] + np.int32(self.size_bytes), bounds[1:])

    def text(self, key: bytes) -> bytes:
        """A string, ``b""`` where it is not there; other types count as not there."""
        value = self.values.get(key)
        return value if isinstance(value, bytes) else b""

    def integer(self, key: bytes) -> int | None:
        """A whole number, ``None`` where it is not there or something else is."""
        value = self.values.get(key)
        return value if isinstance(value, int) else None

    def integers(self, key: bytes) -> list[int]:
        """An array of whole numbers; none where it is not there or something else is."""
        found = self.values.get(key)
        if not isinstance(found, _Array):
            return []
        letter = NUMBERS.get(found.item_type, "")
        if not letter or letter not in INTEGERS:
            return []
        return list(
            struct.unpack_from(f"{self.order}{found.items}{letter}", self.buffer, found.start)
        )

    def arrays_of_strings(self) -> Iterator[tuple[bytes, _Array]]:
        """Every key whose value is a list of strings."""
        for key, value in self.values.items():
            if isinstance(value, _Array) and value.item_type == STRING:
                yield key, value


def _order_and_version(buffer: Buffer) -> tuple[Literal["<", ">"], int]:
    """The byte order, which only the version's own bytes tell, and the version."""
    raw = buffer[4:8]
    if len(raw) < 4:
        raise InvalidFile("a GGUF header of fewer than 8 bytes", offset=0)
    little, big = int.from_bytes(raw, "little"), int.from_bytes(raw, "big")
    if little in VERSIONS:
        return "<", little
    if big in VERSIONS:
        return ">", big
    shown = min(little, big)
    raise UnsupportedFormat(
        f"GGUF version {shown:,}, wanted 1, 2 or 3: convert the model again with llama.cpp"
    )


def _letter(value_type: int, pos: int) -> str:
    letter = NUMBERS.get(value_type)
    if letter is None:
        raise InvalidFile(f"value type {value_type} is not in use in GGUF", offset=pos - 4)
    return letter


def recognise(source: Source) -> str | None:
    """``None`` for a file that begins with GGUF's magic, else why not."""
    return None if source.head.startswith(MAGIC) else "does not begin with 'GGUF'"


def read(source: Source) -> ReadResult:
    """The tokens of a GGUF file; other lists of strings in its header are passed over."""
    header = _Header(mapped(source.file))
    warnings: list[str] = []
    vocabularies: tuple[Vocabulary, ...] = ()
    tokens = header.values.get(TOKENS)
    if isinstance(tokens, _Array) and tokens.item_type == STRING:
        vocabularies = (_vocabulary(header, header.strings(tokens), source.name, warnings),)
    elif tokens is not None:
        raise InvalidFile(f"{TOKENS.decode()} is not a list of strings")
    return ReadResult((*vocabularies, *_passed_over(header, source.name)), tuple(warnings))


def _vocabulary(
    header: _Header, entries: ByteStrings, file: str, warnings: list[str]
) -> Vocabulary:
    model = header.text(MODEL)
    kind, marker, what = MODELS.get(
        model, ("list", None, f"tokenizer {printable(model)!r}, of which we know nothing")
    )
    types = header.integers(TYPES)
    if types and len(types) != len(entries):
        warnings.append(f"{len(types):,} types for {len(entries):,} tokens: types not used")
        types = []
    name = TOKENS.decode()
    return Vocabulary(
        name=name,
        kind=kind,
        stored=entries,
        unknown=_unknown(header, types, len(entries), warnings),
        places=(Place(file, name),),
        notes=(what, *_notes(header, entries, types)),
        marker=marker,
    )


def _unknown(header: _Header, types: list[int], count: int, warnings: list[str]) -> Unknown | None:
    """The unknown token: where a key says, else the only one of that type."""
    declared = header.integer(UNKNOWN_ID)
    if declared is None:
        return Unknown(types.index(UNKNOWN)) if types.count(UNKNOWN) == 1 else None
    if not 0 <= declared < count:
        warnings.append(f"the unknown token has id {declared:,}, but there are {count:,} tokens")
        return None
    return Unknown(declared)


def _notes(header: _Header, entries: ByteStrings, types: list[int]) -> Iterator[str]:
    merges = header.values.get(MERGES)
    if isinstance(merges, _Array):
        yield f"{merges.items:,} merges"
    if pretokenizer := header.text(PRETOKENIZER):
        yield f"texts are first cut as {printable(pretokenizer)!r} does"
    counts = Counter(types)
    named = [f"{counts[number]:,} {name}" for number, name in TYPE_NAMES.items() if counts[number]]
    if named:
        yield f"besides normal tokens: {', '.join(named)}"
    if counts[BYTE] == 256:
        yield "byte fallback: text that no token covers becomes bytes, never unknown"
    for key, role in ROLES.items():
        token = header.integer(key)
        if token is not None and 0 <= token < len(entries):
            yield f"{printable(entries[token])} (id {token:,}) {role}"


def _passed_over(header: _Header, file: str) -> Iterator[PassedOver]:
    for key, found in header.arrays_of_strings():
        if key != TOKENS:
            why = "the merges of the tokens, not tokens" if key == MERGES else "not the tokens"
            name = printable(key)
            yield PassedOver(name, found.items, Place(file, name), why)


READER: Final = Reader("GGUF", recognise, read)
