"""Read the ``vocab`` folder of a spaCy pipeline: its words with vectors, or all its strings.

Layout: explosion/spaCy, spacy/vocab.pyx and spacy/vectors.pyx, ``to_disk``.

- ``strings.json`` lists every string of the pipeline, including labels and shapes of words.
- ``vectors`` is an ``.npy`` array. In floret vectors, rows do not belong to words.
- ``key2row`` is a MessagePack map from the key of a word to a row of ``vectors``. The key is the
  hash of the word. Several words may share a row.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.formats import json_file
from vocabtool.formats.binary_vectors import read_array_head
from vocabtool.formats.files import read_file, refuse_link
from vocabtool.formats.reader import Findings, PassedOver
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

FOLDER: Final = "vocab"
STRINGS: Final = "strings.json"
KEYS: Final = "key2row"
VECTORS: Final = "vectors"
SETTINGS: Final = "vectors.cfg"
FORMAT: Final = "spaCy vocab"

MAX_FILE: Final = 1 << 28  # bytes of a file; of the vectors, only the header is read
MAX_WORD: Final = 1 << 16  # bytes of a word
MULTIPLIER: Final = np.uint64(0xC6A4_A793_5BD1_E995)
SHIFT: Final = np.uint64(47)
BLOCK: Final = 8  # bytes hashed at a time
NUMBERS: Final = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}  # MessagePack's unsigned integers
MAPS: Final = {0xDE: ">H", 0xDF: ">I"}

# Strings with fixed numbers instead of hashes; not in ``strings.json`` (spacy/symbols.pyx).
_FLAGS: Final = """IS_ALPHA IS_ASCII IS_DIGIT IS_LOWER IS_PUNCT IS_SPACE IS_TITLE IS_UPPER
LIKE_URL LIKE_NUM LIKE_EMAIL IS_STOP IS_OOV_DEPRECATED IS_BRACKET IS_QUOTE IS_LEFT_PUNCT
IS_RIGHT_PUNCT IS_CURRENCY"""
_FEATURES: Final = """ID ORTH LOWER NORM SHAPE PREFIX SUFFIX LENGTH CLUSTER LEMMA POS TAG DEP
ENT_IOB ENT_TYPE HEAD SENT_START SPACY PROB LANG ADJ ADP ADV AUX CONJ CCONJ DET INTJ NOUN NUM PART
PRON PROPN PUNCT SCONJ SYM VERB X EOL SPACE"""
_LABELS: Final = """PERSON NORP FACILITY ORG GPE LOC PRODUCT EVENT WORK_OF_ART LANGUAGE LAW DATE
TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL acomp advcl advmod agent amod appos attr aux auxpass
cc ccomp complm conj cop csubj csubjpass dep det dobj expl hmod hyph infmod intj iobj mark meta
neg nmod nn npadvmod nsubj nsubjpass num number oprd obj obl parataxis partmod pcomp pobj poss
possessive preconj prep prt punct quantmod relcl rcmod root xcomp acl ENT_KB_ID MORPH ENT_ID IDX
_"""
SYMBOLS: Final = (
    "",
    *_FLAGS.split(),
    *(f"FLAG{number}" for number in range(19, 64)),
    *_FEATURES.split(),
    *(f"DEPRECATED{number:03}" for number in range(1, 277)),
    *_LABELS.split(),
)


def folder_in(folder: Path) -> Path | None:
    """Return the ``vocab`` folder of a pipeline: a subfolder of ``folder``, or ``folder`` itself.

    Returns ``None`` if ``folder`` is not the folder of a pipeline.
    """
    if (folder / FOLDER / STRINGS).is_file():
        return folder / FOLDER
    return folder if (folder / STRINGS).is_file() and (folder / KEYS).is_file() else None


def read(folder: Path, vocab: Path) -> Findings:
    """Read a pipeline's words. ``vocab``: the result of :func:`folder_in` for ``folder``.

    If the vectors cannot be read, the result has a warning.
    """
    within = "" if vocab == folder else f"{FOLDER}/"
    with reading(within + STRINGS):
        document = json_file.parse(_content(vocab / STRINGS))
        if document != [] and (reason := json_file.why_no_texts(document)):
            raise InvalidFile(reason)
        strings = json_file.strings(document, "text")
    place = Place(within + STRINGS, "whole list")
    pipes = [path.name for path in sorted(folder.glob("*transformer")) if path.is_dir()]
    warnings = [f"{pipe}/: the pieces of its tokenizer are not read" for pipe in pipes]
    try:
        words = _words_with_vectors(strings, vocab, within)
    except VocabtoolError as error:
        warnings.append(f"{error}: the words with vectors are not read")
        words = None
    if words is None:
        note = (json_file.POSITIONS,)
        listed = Vocabulary(STRINGS, "list", strings, places=(place,), notes=note)
        return Findings([listed], warnings, FORMAT)
    why = "all strings of the pipeline, including labels and shapes of words"
    passed_over = PassedOver(STRINGS, len(strings), place, why)
    return Findings([words, passed_over], warnings, FORMAT)


def _content(file: Path) -> bytes:
    refuse_link(file)
    return read_file(file, MAX_FILE)


def _words_with_vectors(strings: ByteStrings, vocab: Path, within: str) -> Vocabulary | None:
    if not (vocab / KEYS).is_file():
        return None
    with reading(within + KEYS):
        rows = _integer_map(_content(vocab / KEYS))
    mode = None  # older files have no mode; it is ``default``
    if (vocab / SETTINGS).is_file():
        with reading(within + SETTINGS):
            document = json_file.parse(_content(vocab / SETTINGS))
        mode = document.get("mode") if isinstance(document, dict) else None
    if not rows or mode == "floret":
        return None
    with reading(within + VECTORS):
        refuse_link(vocab / VECTORS)
        with (vocab / VECTORS).open("rb") as file:
            shape = read_array_head(file).shape
        last = max(rows.values())
        if len(shape) != 2 or last >= shape[0]:
            raise InvalidFile(f"{KEYS} needs row {last:,}, but the array has shape {shape}")
    keys = hashes(strings)
    order = np.argsort(keys)
    wanted = np.fromiter(rows, np.uint64, len(rows))
    ids = np.fromiter(rows.values(), np.int64, len(rows))
    at = np.searchsorted(keys, wanted, sorter=order).clip(max=len(keys) - 1)
    found = np.flatnonzero(keys[order[at]] == wanted) if len(keys) else np.zeros(0, np.int64)
    entries, ids = strings.take(order[at[found]]), ids[found]
    symbols = [(SYMBOLS[key], row) for key, row in rows.items() if key < len(SYMBOLS)]
    if symbols:
        entries = ByteStrings.of((*entries, *(name.encode() for name, _ in symbols)))
        ids = np.concatenate([ids, [row for _, row in symbols]])
    notes = [f"{shape[1]:,} dimensions; the id of a word is the row of its vector"]
    if (missing := len(rows) - len(entries)) > 0:
        notes.append(f"{missing:,} vectors belong to words that are not in {STRINGS}")
    return Vocabulary.from_ids(
        "words",
        "vectors",
        entries,
        ids,
        places=(Place(within + KEYS, "words with a vector"),),
        notes=tuple(notes),
    )


def hashes(strings: ByteStrings) -> NDArray[np.uint64]:
    """Return the key that spaCy gives each string: uint64, shape (n,).

    The key is MurmurHash64A (Austin Appleby). The keys of strings longer than ``MAX_WORD`` bytes
    are wrong, because only their beginning is hashed.
    """
    windows = np.lib.stride_tricks.sliding_window_view(
        np.frombuffer(strings.data + bytes(BLOCK), np.uint8), BLOCK
    )

    def numbers(positions: NDArray[np.int64]) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = windows[positions].view("<u8").ravel()
        return found

    starts, lengths = strings.starts.astype(np.int64), strings.lengths.astype(np.int64)
    keys = np.uint64(1) ^ (lengths.astype(np.uint64) * MULTIPLIER)
    left = np.arange(len(strings))
    for block in range(min(int(lengths.max(initial=0)), MAX_WORD) // BLOCK):
        left = left[lengths[left] >= (block + 1) * BLOCK]
        mixed = numbers(starts[left] + block * BLOCK) * MULTIPLIER
        mixed = (mixed ^ (mixed >> SHIFT)) * MULTIPLIER
        keys[left] = (keys[left] ^ mixed) * MULTIPLIER
    over = np.flatnonzero(lengths % BLOCK)
    unused = ((BLOCK - lengths[over] % BLOCK) * 8).astype(np.uint64)
    tail = numbers(starts[over] + lengths[over] // BLOCK * BLOCK) << unused >> unused
    keys[over] = (keys[over] ^ tail) * MULTIPLIER
    keys = (keys ^ (keys >> SHIFT)) * MULTIPLIER
    return np.asarray(keys ^ (keys >> SHIFT), np.uint64)


def _integer_map(data: bytes) -> dict[int, int]:
    """Parse a MessagePack map of non-negative integers (msgpack/msgpack, spec.md)."""
    if not data:
        raise InvalidFile("an empty file, wanted a MessagePack map")
    pos, count = 1, data[0] & 0x0F
    if data[0] in MAPS:
        count, pos = _number(data, 1, MAPS[data[0]])
    elif data[0] & 0xF0 != 0x80:
        raise InvalidFile(f"it begins with {data[:1].hex()}, wanted a MessagePack map", offset=0)
    if 2 * count > len(data) - pos:
        raise InvalidFile(f"{count:,} pairs do not fit in {len(data):,} bytes", offset=0)
    values = []
    for _ in range(2 * count):
        kind = data[pos] if pos < len(data) else -1
        if 0 <= kind < 0x80:
            value, pos = kind, pos + 1
        elif kind in NUMBERS:
            value, pos = _number(data, pos + 1, NUMBERS[kind])
        else:
            raise InvalidFile("wanted a non-negative integer as a key or row", offset=pos)
        values.append(value)
    if pos != len(data):
        raise InvalidFile(f"{len(data) - pos:,} bytes follow the map", offset=pos)
    return dict(zip(values[::2], values[1::2], strict=True))


def _number(data: bytes, pos: int, layout: str) -> tuple[int, int]:
    behind = pos + struct.calcsize(layout)
    if behind > len(data):
        raise InvalidFile("truncated within a number", offset=pos)
    number: Any = struct.unpack_from(layout, data, pos)[0]
    return int(number), behind
