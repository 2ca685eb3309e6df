"""Read the tokens in the header of a GGUF file (llama.cpp); the weights are never read.

Layout: ggml-org/ggml, docs/gguf.md. A header has a magic number, a version, the number of tensors,
the number of keys, and the keys with typed values. Only keys ``tokenizer.ggml.*`` are used. Files
of version 1, big-endian files and arrays of arrays are refused: current programs write none.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats.files import MAX_FILE, map_file
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.wire import MAX_NAME, Buffer
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary, printable

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)

STRING: Final = 8
ARRAY: Final = 9
NUMBERS: Final = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
INTEGERS: Final = "BbHhIiQq"
T = TypeVar("T")

MAX_KEYS: Final = 1 << 16  # keys, and bytes of a key; llama.cpp writes fewer than 100
LENGTH: Final = 8  # bytes of a count or length

PREFIX: Final = b"tokenizer.ggml."
TOKENS: Final = b"tokenizer.ggml.tokens"
# llama.cpp's names of tokenizers.
MODELS: Final[dict[bytes, tuple[Kind, Marker | None, str]]] = {
    b"llama": ("bpe", "▁", "SentencePiece pieces, which llama.cpp merges by their scores"),
    b"gpt2": ("bpe", "Ġ", "byte-level BPE"),
    b"bert": (
        "wordpiece",
        "▁",
        "WordPiece; llama.cpp marks starts of words, not continuations",
    ),
    b"t5": ("unigram", "▁", "SentencePiece unigram pieces"),
}
TYPE_NAMES: Final = {2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}
UNKNOWN: Final = 2
BYTE: Final = 6


@dataclass(frozen=True, slots=True)
class _Array:
    item_type: int
    items: int
    start: int
    end: int


class _Header:
    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.values: dict[bytes, int | float | bytes | _Array] = {}
        version, pos = self._number("I", len(MAGIC))
        if version not in VERSIONS:
            raise UnsupportedFormat(
                f"GGUF version {version:,}, wanted 2 or 3 (little-endian): convert the model again "
                "with llama.cpp"
            )
        _, pos = self._number("Q", pos)  # number of tensors
        count, pos = self._count(pos, 4 + LENGTH)
        if count > MAX_KEYS:
            raise UnsupportedFormat(f"a GGUF header of {count:,} keys, wanted at most {MAX_KEYS:,}")
        for _ in range(count):
            start = pos
            length, pos = self._count(start, 1)
            if length > MAX_KEYS:
                what = f"a key of {length:,} bytes, wanted at most {MAX_KEYS:,}"
                raise InvalidFile(what, offset=start)
            key = buffer[pos : pos + length]
            if key in self.values:
                raise InvalidFile(f"the key {printable(key[:60])!r} occurs twice", offset=start)
            value_type, pos = self._number("I", pos + length)
            if value_type == STRING:
                length, pos = self._count(pos, 1)
                # only the beginning: chat templates are long
                self.values[key] = buffer[pos : pos + min(length, MAX_NAME)]
                pos += length
            elif value_type == ARRAY:
                self.values[key] = held = self._array(pos)
                pos = held.end
            else:
                self.values[key], pos = self._number(_letter(value_type, pos), pos)

    def _number(self, letter: str, pos: int) -> tuple[int, int]:
        """Return a number and its end position. ``letter``: the number's ``struct`` format."""
        end = pos + struct.calcsize("<" + letter)
        if end > len(self._buffer):
            raise InvalidFile("the GGUF header is truncated", offset=pos)
        return struct.unpack_from("<" + letter, self._buffer, pos)[0], end

    def _count(self, pos: int, item_bytes: int) -> tuple[int, int]:
        count, behind = self._number("Q", pos)
        left = len(self._buffer) - behind
        if count * item_bytes > left:
            raise InvalidFile(
                f"{count:,} items need {count * item_bytes:,} bytes, but only {left:,} are left",
                offset=pos,
            )
        return count, behind

    def _array(self, pos: int) -> _Array:
        item_type, pos = self._number("I", pos)
        if item_type == STRING:
            count, start = self._count(pos, LENGTH)
            return _Array(item_type, count, start, self._strings_at(count, start)[1])
        width = struct.calcsize("<" + _letter(item_type, pos))
        count, start = self._count(pos, width)
        return _Array(item_type, count, start, start + count * width)

    def _strings_at(self, count: int, pos: int) -> tuple[array[int], int]:
        buffer, length_at, heads = self._buffer, struct.Struct("<Q").unpack_from, array("q")
        try:
            for _ in range(count):
                heads.append(pos)
                pos += LENGTH + length_at(buffer, pos)[0]
        except (struct.error, OverflowError):
            pos = len(buffer) + 1
        if pos > len(buffer):
            raise InvalidFile("a string runs past the end of the file", offset=heads[-1])
        return heads, pos

    def strings(self, found: _Array) -> ByteStrings:
        taken = found.end - found.start
        if taken > MAX_FILE:
            raise UnsupportedFormat(f"the tokens take {taken:,} bytes, wanted at most {MAX_FILE:,}")
        heads, _ = self._strings_at(found.items, found.start)
        bounds = np.append(np.frombuffer(heads, np.int64) - found.start, taken).astype(np.int32)
        text = self._buffer[found.start : found.end]
        return ByteStrings(text, bounds[:-1] + np.int32(LENGTH), bounds[1:])

    def value(self, name: bytes, wanted: type[T]) -> T | None:
        value = self.values.get(PREFIX + name)
        return value if isinstance(value, wanted) else None

    def numbers(self, name: bytes, letters: str) -> NDArray[np.generic]:
        """Return an array of numbers, if it is of one of these ``struct`` types."""
        found = self.value(name, _Array)
        letter = "" if found is None else NUMBERS.get(found.item_type, "")
        if found is None or not letter or letter not in letters:
            return np.zeros(0, np.int32)
        return np.frombuffer(self._buffer[found.start : found.end], "<" + letter)


@dataclass(frozen=True, slots=True)
class GGUFTokenizer:
    """The tokenizer fields of a file, named as in llama.cpp (``llama_vocab::impl::load``).

    - ``tokens``: the tokens in id order.
    - ``types``, ``scores``: one value for each token; empty if the file has none.
    - ``merges``: pairs of pieces with a space between them, in the order in which the merges are
      applied.
    - ``unknown``: the id for unknown text, or ``None``.
    """

    model: str
    pre: str
    tokens: ByteStrings
    types: list[int]
    scores: NDArray[np.float32]
    merges: ByteStrings
    charsmap: bytes
    unknown: int | None
    flags: dict[str, bool]


def read_tokenizer(file: Path) -> GGUFTokenizer | None:
    """Return the tokenizer of a file; ``None`` if it is not a GGUF file or has no tokens."""
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            return None
    header = _Header(map_file(file))
    found = header.value(b"tokens", _Array)
    if found is None or found.item_type != STRING:
        return None
    merges = header.value(b"merges", _Array)
    types: list[int] = header.numbers(b"token_type", INTEGERS).tolist()
    scores = header.numbers(b"scores", "f").astype(np.float32)
    for what, count in (("types", len(types)), ("scores", len(scores))):
        if count not in (0, found.items):
            raise InvalidFile(f"{found.items:,} tokens, but {count:,} {what}, wanted one per token")
    if not np.isfinite(scores).all():
        raise InvalidFile("a score of a token is not a number")
    return GGUFTokenizer(
        model=printable(header.value(b"model", bytes) or b""),
        pre=printable(header.value(b"pre", bytes) or b""),
        tokens=header.strings(found),
        types=types,
        scores=scores,
        merges=header.strings(merges)
        if merges is not None and merges.item_type == STRING
        else ByteStrings.of(()),
        charsmap=header.numbers(b"precompiled_charsmap", "Bb").tobytes(),
        unknown=header.value(b"unknown_token_id", int),
        flags={
            printable(key.removeprefix(PREFIX)): value
            for key, value in header.values.items()
            if isinstance(value, bool) and key.startswith(PREFIX)
        },
    )


def _letter(value_type: int, pos: int) -> str:
    letter = NUMBERS.get(value_type)
    if letter is None:
        raise InvalidFile(f"a value of type {value_type} is not supported", offset=pos - 4)
    return letter


def _recognise(source: Source) -> str | None:
    return None if source.head.startswith(MAGIC) else "does not begin with 'GGUF'"


def _read(source: Source) -> Findings:
    header = _Header(map_file(source.file))
    tokens = header.values.get(TOKENS)
    if tokens is None:
        return Findings()
    if not isinstance(tokens, _Array) or tokens.item_type != STRING:
        raise InvalidFile(f"{TOKENS.decode()} is not a list of strings")
    findings = Findings()
    entries = header.strings(tokens)
    findings.found.append(_vocabulary(header, entries, source.name, findings.warnings))
    return findings


READER: Final = Reader("GGUF", _recognise, _read)


def _vocabulary(
    header: _Header, entries: ByteStrings, file: str, warnings: list[str]
) -> Vocabulary:
    model = header.value(b"model", bytes) or b""
    what = f"tokenizer {printable(model)!r}, which is unknown to vocabtool"
    kind, marker, what = MODELS.get(model, ("list", None, what))
    types: list[int] = header.numbers(b"token_type", INTEGERS).tolist()
    if len(types) not in (0, len(entries)):
        warnings.append(f"{len(types):,} types for {len(entries):,} tokens: the types are ignored")
        types = []
    unknown = header.value(b"unknown_token_id", int)
    if unknown is None and types.count(UNKNOWN) == 1:
        unknown = types.index(UNKNOWN)
    elif unknown is not None and not 0 <= unknown < len(entries):
        warnings.append(
            f"the unknown token has id {unknown:,}, but there are {len(entries):,} tokens"
        )
        unknown = None
    notes = [what]
    if merges := header.value(b"merges", _Array):
        notes.append(f"{merges.items:,} merges")
    if pretokenizer := header.value(b"pre", bytes):
        notes.append(f"pre-tokenizer: {printable(pretokenizer)!r}")
    counts = Counter(types)
    named = [f"{counts[number]:,} {name}" for number, name in TYPE_NAMES.items() if counts[number]]
    if named:
        notes.append(f"besides normal tokens: {', '.join(named)}")
    if counts[BYTE] == 256:
        notes.append("byte fallback: text that no token covers becomes bytes, never unknown")
    name = TOKENS.decode()
    return Vocabulary(
        name=name,
        kind=kind,
        stored=entries,
        unknown=None if unknown is None else Unknown(unknown),
        places=(Place(file, name),),
        notes=tuple(notes),
        marker=marker,
    )
