"""Read the ``vocab`` folder of a spaCy pipeline: its words with vectors, or all its strings.

Layout: explosion/spaCy, spacy/vocab.pyx and spacy/vectors.pyx, ``to_disk``.

- ``strings.json`` lists every string of the pipeline, including labels and shapes of words.
- ``vectors`` is an ``.npy`` array. In floret vectors, rows do not belong to words.
- ``key2row`` is a MessagePack map from the key of a word to a row of ``vectors``. The key is the
  hash of the word. Several words may share a row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import json_file
from vocabtool.formats.binary_vectors import MAX_WORD, read_array_head
from vocabtool.formats.files import MAX_FILE, read_file, refuse_link
from vocabtool.formats.reader import Findings, PassedOver
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary

FOLDER: Final = "vocab"
STRINGS: Final = "strings.json"
KEYS: Final = "key2row"
VECTORS: Final = "vectors"
SETTINGS: Final = "vectors.cfg"
FORMAT: Final = "spaCy vocab"

MULTIPLIER: Final = np.uint64(0xC6A4_A793_5BD1_E995)
SHIFT: Final = np.uint64(47)
BLOCK: Final = 8  # bytes hashed at a time
NUMBERS: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}  # MessagePack: bytes of an unsigned integer
MAPS: Final = {0xDE: 2, 0xDF: 4}  # ... and of the length of a map


# Features and labels of spaCy, which have numbers instead of hashes and are not in
# ``strings.json`` (spacy/symbols.pyx). Many are words, too.
FEATURES: Final = """ID ORTH LOWER NORM SHAPE PREFIX SUFFIX LENGTH CLUSTER LEMMA POS TAG DEP
ENT_IOB ENT_TYPE HEAD SENT_START SPACY PROB LANG ADJ ADP ADV AUX CONJ CCONJ DET INTJ NOUN NUM PART
PRON PROPN PUNCT SCONJ SYM VERB X EOL SPACE"""
LABELS: Final = """PERSON NORP FACILITY ORG GPE LOC PRODUCT EVENT WORK_OF_ART LANGUAGE LAW DATE
TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL acomp advcl advmod agent amod appos attr aux auxpass
cc ccomp complm conj cop csubj csubjpass dep det dobj expl hmod hyph infmod intj iobj mark meta
neg nmod nn npadvmod nsubj nsubjpass num number oprd obj obl parataxis partmod pcomp pobj poss
possessive preconj prep prt punct quantmod relcl rcmod root xcomp acl ENT_KB_ID MORPH ENT_ID IDX
_"""
SYMBOLS: Final = {
    0: "",
    **dict(enumerate(FEATURES.split(), 64)),
    **dict(enumerate(LABELS.split(), 380)),
}


def read(folder: Path) -> Findings | None:
    """Read the words of a pipeline, or of its ``vocab`` folder; ``None`` for any other folder.

    If the vectors cannot be read, the result has a warning.
    """
    vocab = folder / FOLDER
    if not (vocab / STRINGS).is_file():
        vocab = folder
        if not ((vocab / STRINGS).is_file() and (vocab / KEYS).is_file()):
            return None
    within = "" if vocab == folder else f"{FOLDER}/"
    with reading(within + STRINGS):
        document = json_file.parse(_content(vocab / STRINGS))
        if document != [] and (reason := json_file.why_no_texts(document)):
            raise InvalidFile(reason)
        strings = json_file.strings(document, "text")
    place = Place(within + STRINGS, "whole list")
    pipes = [path.name for path in sorted(folder.glob("*transformer")) if path.is_dir()]
    findings = Findings(format=FORMAT)
    findings.warnings += (f"{pipe}/: the pieces of its tokenizer are not read" for pipe in pipes)
    if (vocab / KEYS).is_file():
        with findings.warning(effect="the words with vectors are not read"), reading(within + KEYS):
            if (words := _words_with_vectors(strings, vocab, within)) is not None:
                why = "all strings of the pipeline, including labels and shapes of words"
                findings.found += [words, PassedOver(STRINGS, len(strings), place, why)]
    if not findings.found:
        notes = (json_file.POSITIONS,)
        findings.found.append(Vocabulary(STRINGS, "list", strings, places=(place,), notes=notes))
    return findings


def _content(file: Path) -> bytes:
    refuse_link(file)
    return read_file(file, MAX_FILE)


def _words_with_vectors(strings: ByteStrings, vocab: Path, within: str) -> Vocabulary | None:
    if (vocab / SETTINGS).is_file():
        with reading(within + SETTINGS):
            settings = json_file.expect(json_file.parse(_content(vocab / SETTINGS)), dict, SETTINGS)
        if settings.get("mode") == "floret":
            raise UnsupportedFormat("floret vectors, whose rows belong to parts of words")
    rows = _integer_map(_content(vocab / KEYS))
    if not rows:
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
    known = np.flatnonzero(keys[order[at]] == wanted) if len(keys) else np.zeros(0, np.int64)
    notes = [f"{shape[1]:,} dimensions; the id of a word is the row of its vector"]
    entries, ids = strings.take(order[at[known]]), ids[known]
    if labels := [(SYMBOLS[key].encode(), row) for key, row in rows.items() if key in SYMBOLS]:
        entries = ByteStrings.of((*entries, *(name for name, _ in labels)))
        ids = np.concatenate([ids, [row for _, row in labels]])
    if missing := len(rows) - len(entries):
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
    first = data[0] if data else 0
    width = MAPS.get(first, 0)
    if not width and first & 0xF0 != 0x80:
        raise InvalidFile(f"it begins with {data[:1].hex()}, wanted a MessagePack map", offset=0)
    pos = 1 + width
    count = 2 * (int.from_bytes(data[1:pos]) if width else first & 0x0F)
    if count > len(data) - pos:
        raise InvalidFile(f"{count:,} numbers do not fit in {len(data):,} bytes", offset=0)
    values = []
    for _ in range(count):
        kind = data[pos] if pos < len(data) else -1
        end = pos + 1 + NUMBERS.get(kind, 0)
        if (kind not in NUMBERS and not 0 <= kind < 0x80) or end > len(data):
            raise InvalidFile("wanted a non-negative integer as a key or row", offset=pos)
        values.append(int.from_bytes(data[pos + 1 : end]) if kind in NUMBERS else kind)
        pos = end
    if pos != len(data):
        raise InvalidFile(f"{len(data) - pos:,} bytes follow the map", offset=pos)
    return dict(zip(values[::2], values[1::2], strict=True))
