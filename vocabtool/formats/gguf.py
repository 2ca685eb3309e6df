"""Read the tokens in the header of a GGUF file (llama.cpp); the weights are never read.

Layout: ggml-org/ggml, docs/gguf.md. A header has a magic number, a version, the number of tensors,
the number of keys, and the keys with typed values. Only keys ``tokenizer.ggml.*`` are used and,
where these have no tokens, ``tokenizer.huggingface.json``, a whole ``tokenizer.json``. Files
of version 1, big-endian files and arrays of arrays are refused: current programs write none.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import hf_tokenizer, json_file
from vocabtool.formats.files import MAX_FILE as MAX_JSON
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.wire import MAX_NAME, NO_STRINGS, Buffer, Cursor
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary, printable

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)

STRING: Final = 8
ARRAY: Final = 9
NUMBERS: Final = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))

MAX_STRINGS: Final = 1 << 21  # of a list; four times as many as the largest known model has
MAX_KEYS: Final = 1 << 16  # keys, and bytes of a key; llama.cpp writes fewer than 100
LENGTH: Final = 8  # bytes of the length of a string

PREFIX: Final = b"tokenizer.ggml."
TOKENS: Final = "tokenizer.ggml.tokens"
WHOLE: Final = "tokenizer.huggingface.json"
# llama.cpp's names of tokenizers.
MODELS: Final[dict[str, tuple[Kind, Marker | None, str]]] = {
    "llama": ("bpe", "▁", "SentencePiece pieces, which llama.cpp merges by their scores"),
    "gpt2": ("bpe", "Ġ", "byte-level BPE"),
    "bert": ("wordpiece", "▁", "WordPiece; llama.cpp marks starts of words, not continuations"),
    "t5": ("unigram", "▁", "SentencePiece unigram pieces"),
}
TYPE_NAMES: Final = {2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}
UNKNOWN: Final = 2
BYTE: Final = 6


@dataclass(frozen=True, slots=True)
class GGUFTokenizer:
    """The tokenizer fields of a file, named as in llama.cpp (``llama_vocab::impl::load``).

    ``types``, ``scores``: one value for each token, or empty. ``merges``: pairs of pieces with a
    space between them, in the order in which they are applied.
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


def read_tokenizer(file: Path) -> GGUFTokenizer | dict[str, Any] | None:
    """Return the tokenizer of a file, or the ``tokenizer.json`` in it; ``None`` for other files.

    Other fields of a wrong type are ignored. So is an unknown id that belongs to no token, such as
    the 4294967295 of some converters: llama.cpp takes its default then.
    """
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            return None
    fields = _read_fields(map_file(file))
    if "tokens" not in fields:
        if not isinstance(fields.get(WHOLE), bytes):
            return None
        with reading(WHOLE):
            document = json_file.parse(fields[WHOLE])
            reason = hf_tokenizer.recognise(document)
            if reason:
                raise InvalidFile(f"not a tokenizer.json: {reason}")
        return dict(document)
    if not isinstance(fields["tokens"], ByteStrings):
        raise InvalidFile(f"{TOKENS} is not a list of strings")

    def value(name: str, wanted: type, default: Any) -> Any:
        return fields[name] if type(fields.get(name)) is wanted else default

    def numbers(name: str, kinds: str) -> NDArray[Any]:
        stored: NDArray[Any] = value(name, np.ndarray, np.zeros(0, np.int32))
        return stored if stored.dtype.kind in kinds else stored[:0]

    unknown = value("unknown_token_id", int, None)
    tokenizer = GGUFTokenizer(
        model=printable(value("model", bytes, b"")),
        pre=printable(value("pre", bytes, b"")),
        tokens=fields["tokens"],
        types=numbers("token_type", "iu").tolist(),
        scores=numbers("scores", "f").astype(np.float32),
        merges=value("merges", ByteStrings, NO_STRINGS),
        charsmap=numbers("precompiled_charsmap", "iu").astype(np.uint8).tobytes(),
        unknown=unknown if unknown in range(len(fields["tokens"])) else None,
        flags={name: flag for name, flag in fields.items() if isinstance(flag, bool)},
    )
    tokens = len(tokenizer.tokens)
    for what, count in (("types", len(tokenizer.types)), ("scores", len(tokenizer.scores))):
        if count not in (0, tokens):
            raise InvalidFile(f"{tokens:,} tokens, but {count:,} {what}, wanted one per token")
    if not np.isfinite(tokenizer.scores).all():
        raise InvalidFile("a score of a token is not a number")
    return tokenizer


def _read_fields(buffer: Buffer) -> dict[str, Any]:
    """Return the values of the keys ``tokenizer.ggml.*``, without this prefix, and ``WHOLE``."""
    header = Cursor(buffer, len(MAGIC), "the GGUF header")
    version = header.number("<I")
    if version not in VERSIONS:
        what = f"GGUF version {version:,}, wanted 2 or 3 (little-endian): convert the model again"
        raise UnsupportedFormat(f"{what} with llama.cpp")
    header.number("<Q")  # number of tensors
    count = header.count("<Q", 4 + LENGTH)
    if count > MAX_KEYS:
        raise UnsupportedFormat(f"a GGUF header of {count:,} keys, wanted at most {MAX_KEYS:,}")
    fields: dict[bytes, Any] = {}
    for _ in range(count):
        start = header.position
        length = header.count("<Q")
        if length > MAX_KEYS:
            what = f"a key of {length:,} bytes, wanted at most {MAX_KEYS:,}"
            raise InvalidFile(what, offset=start)
        key = header.take(length)
        if key in fields:
            raise InvalidFile(f"the key {printable(key[:60])!r} occurs twice", offset=start)
        most = MAX_JSON if key == WHOLE.encode() else MAX_NAME
        fields[key] = _read_value(header, header.number("<I"), key.startswith(PREFIX), most)
    return {
        printable(key.removeprefix(PREFIX)): value
        for key, value in fields.items()
        if key.startswith(PREFIX) or key == WHOLE.encode()
    }


def _read_value(header: Cursor, value_type: int, wanted: bool, most: int) -> Any:
    """Read a value, or only pass over it; of a text, at most ``most`` bytes."""
    if value_type == STRING:
        start = header.skip(header.count("<Q"))
        return header.buffer[start : min(header.position, start + most)]
    item_type = header.number("<I") if value_type == ARRAY else value_type
    if value_type == ARRAY and item_type == STRING:
        count = header.count("<Q", LENGTH)
        if count > MAX_STRINGS:
            what = f"a list of {count:,} strings, wanted at most {MAX_STRINGS:,}"
            raise UnsupportedFormat(what)
        return header.strings(count, "<Q")
    if item_type not in NUMBERS:
        what = f"a value of type {item_type} is not supported"
        raise InvalidFile(what, offset=header.position - 4)
    layout = "<" + NUMBERS[item_type]
    if value_type != ARRAY:
        return header.number(layout)
    count = header.count("<Q", struct.calcsize(layout))
    start = header.skip(count * struct.calcsize(layout))
    return np.frombuffer(header.buffer, layout, count, start) if wanted else None


def _read(source: Source) -> Findings:
    tokenizer = read_tokenizer(source.file)
    if tokenizer is None:
        return Findings()
    if isinstance(tokenizer, dict):
        whole = hf_tokenizer.vocabulary(tokenizer, WHOLE)
        return Findings([replace(whole, places=(Place(source.name, WHOLE),))])
    unknown, types = tokenizer.unknown, tokenizer.types
    if unknown is None and types.count(UNKNOWN) == 1:
        unknown = types.index(UNKNOWN)
    what = f"tokenizer {tokenizer.model!r}, which is unknown to vocabtool"
    kind, marker, what = MODELS.get(tokenizer.model, ("list", None, what))
    notes = [what]
    if len(tokenizer.merges):
        notes.append(f"{len(tokenizer.merges):,} merges")
    if tokenizer.pre:
        notes.append(f"pre-tokenizer: {tokenizer.pre!r}")
    counts = Counter(types)
    named = [f"{counts[number]:,} {name}" for number, name in TYPE_NAMES.items() if counts[number]]
    if named:
        notes.append(f"besides normal tokens: {', '.join(named)}")
    if counts[BYTE] == 256:
        notes.append("byte fallback: text that no token covers becomes bytes, never unknown")
    vocabulary = Vocabulary(
        name=TOKENS,
        kind=kind,
        stored=tokenizer.tokens,
        unknown=None if unknown is None else Unknown(unknown),
        places=(Place(source.name, TOKENS),),
        notes=tuple(notes),
        marker=marker,
    )
    return Findings([vocabulary])


READER: Final = Reader(
    "GGUF",
    lambda source: None if source.head.startswith(MAGIC) else "does not begin with 'GGUF'",
    _read,
)
