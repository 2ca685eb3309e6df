"""Read the pieces of SentencePiece models; the id of a piece is its position.

Layout: google/sentencepiece, src/sentencepiece_model.proto. Field numbers of a ModelProto:
pieces 1, trainer_spec 2, normalizer_spec 3, self_test_data 4. Field numbers of each of the pieces:
piece 1, score 2, type 3. The ``sentencepiece`` library does not check the offsets in a normalizer's
table of replaced characters, so they are checked here before it gets a model.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError
from vocabtool.formats import wire
from vocabtool.formats.files import MAX_FILE, read_file
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.wire import FIXED32, LEN, VARINT, Message
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary

# The fields of ModelProto, of a piece, and of TrainerSpec.
PIECES, TRAINER_SPEC, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
CHARSMAP: Final = 2  # of NormalizerSpec
SPACE_BEHIND: Final = 24  # treat_whitespace_as_suffix of TrainerSpec
VALUE: Final = 1 << 31  # of a unit of a trie: it is a value
FAR: Final = 1 << 9  # its offset is counted in 256 units
TEXT, SCORE, TYPE = 1, 2, 3
MODEL_TYPE, BYTE_FALLBACK, UNKNOWN_ID = 3, 35, 40

NORMAL, UNKNOWN, BYTE = 1, 2, 6  # types of a piece
TYPE_NAMES: Final = {3: "control", 4: "user-defined", 5: "unused", BYTE: "byte"}
UNIGRAM: Final = 1
MODEL_TYPES: Final = {UNIGRAM: "unigram", 2: "bpe", 3: "word", 4: "char"}
MARKERS: Final[dict[Kind, Marker]] = {"sentencepiece": "▁", "wordpiece": "##"}

MAX_PIECE: Final = 1 << 13  # bytes of one piece; SentencePiece refuses texts of 8,000
SAMPLE: Final = 8  # pieces that are checked to recognise a model
FIRST_EXTENSION: Final = 200  # field numbers from here on are for extensions
CHUNK: Final = 1 << 16  # pieces read at a time, so that temporary arrays stay small


def vocabulary_of(
    kind: Kind,
    entries: ByteStrings,
    ids: NDArray[np.int64] | None,
    unknown_id: int | None,
    notes: tuple[str, ...],
) -> Vocabulary:
    """Make a vocabulary, still without name and place, from the pieces of any library.

    ``unknown_id``: the id for text that no piece covers. Raises :class:`InvalidFile` if two pieces
    have the same id.
    """
    unknown, marker = None if unknown_id is None else Unknown(unknown_id), MARKERS[kind]
    vocabulary = Vocabulary.from_ids(
        "", kind, entries, ids, unknown=unknown, notes=notes, marker=marker
    )
    ascending = vocabulary.id_array()
    for at in np.flatnonzero(ascending[1:] == ascending[:-1])[:1].tolist():
        first, second = vocabulary.stored[at], vocabulary.stored[at + 1]
        raise InvalidFile(f"two pieces have id {ascending[at]}: {first!r} and {second!r}")
    return vocabulary


def looks_like_model(data: bytes) -> bool:
    """Return whether a file, or its first few kilobytes, begins like a SentencePiece model."""
    # A GraphDef begins with the same byte, but the field of the score is a string there (the op).
    known = {(TEXT, LEN), (SCORE, FIXED32), (TYPE, VARINT)}
    graded = 0
    try:
        for number, wire_type, start, end in islice(wire.fields(data, 0, len(data)), SAMPLE):
            if number != PIECES:
                break
            if wire_type != LEN or end - start > MAX_PIECE:
                return False
            try:
                fields = list(wire.fields(data, start, end))
                texts = [
                    data[first:last].decode() for field, _, first, last in fields if field == TEXT
                ]
            except (InvalidFile, UnicodeDecodeError):
                return False
            kinds = {(field, kind) for field, kind, _, _ in fields if field < FIRST_EXTENSION}
            if not texts or kinds - known:
                return False
            graded += len(kinds) > 1
    except InvalidFile:
        pass  # probably truncated after a whole piece, at the end of the head
    return graded > 0


def read_pieces(data: bytes) -> Vocabulary:
    """Read a serialised ``ModelProto``; entries refer to ``data`` without a copy.

    The vocabulary has no name and no place.

    The unknown piece is the piece of type "unknown". If there is none, it is the piece whose id is
    the ``unk_id`` of the trainer.
    """
    model = _parse(data)
    trainer = model.message(TRAINER_SPEC)
    entries, types = _texts_and_types(data, model.strings)
    unknown = np.flatnonzero(types == UNKNOWN).tolist()
    if len(unknown) > 1:
        raise InvalidFile(f"two pieces are of type unknown: ids {unknown[0]} and {unknown[1]}")
    declared = trainer.integer(UNKNOWN_ID, -1)
    unknown += [declared] if 0 <= declared < len(entries) else []
    model_type = trainer.integer(MODEL_TYPE, UNIGRAM)
    notes = [f"model type {MODEL_TYPES.get(model_type, model_type)}", "▁ stands for a space"]
    counts = np.bincount(types, minlength=BYTE + 1).tolist()
    named = [f"{counts[kind]:,} {name}" for kind, name in TYPE_NAMES.items() if counts[kind]]
    if named:
        notes.append(f"besides normal pieces: {', '.join(named)}")
    if trainer.integer(BYTE_FALLBACK):
        notes.append("byte fallback: text that no piece covers becomes bytes, never unknown")
    unknown_id = unknown[0] if unknown else None
    return vocabulary_of("sentencepiece", entries, None, unknown_id, tuple(notes))


def _parse(model: bytes) -> Message:
    """Parse a ModelProto; its pieces are the ``strings`` of the message."""
    if model[:1] != bytes((PIECES << 3 | LEN,)):
        raise InvalidFile("not a SentencePiece model: it does not begin with pieces", offset=0)
    return Message(model, (0, len(model)), strings_field=PIECES)


def _texts_and_types(data: bytes, records: ByteStrings) -> tuple[ByteStrings, NDArray[np.uint8]]:
    starts = np.zeros_like(records.starts)
    ends = np.zeros_like(records.ends)
    types = np.zeros(len(records), np.uint8)
    for at in range(0, len(records), CHUNK):
        chunk = slice(at, at + CHUNK)
        batch = ByteStrings(data, records.starts[chunk], records.ends[chunk])
        starts[chunk], ends[chunk], types[chunk] = _usual_pieces(batch)
        for index in (at + np.flatnonzero(types[chunk] == 0)).tolist():
            span = int(records.starts[index]), int(records.ends[index])
            piece = Message(data, span)
            texts, kind = piece.spans(TEXT), piece.integer(TYPE, NORMAL)
            if not piece.value(TEXT):
                raise InvalidFile("a piece has no text", offset=span[0])
            starts[index], ends[index] = texts[-1]
            # protobuf reads an unknown enum value as the default
            types[index] = kind if NORMAL <= kind <= BYTE else NORMAL
    return ByteStrings(data, starts, ends), types


def _usual_pieces(
    records: ByteStrings,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    # The usual layout: text, score, and type unless it is "normal". Other pieces get type 0.
    array = np.frombuffer(records.data, np.uint8)
    lengths, starts = wire.lengths_at(array, records.starts.astype(np.int64) + 1)
    texts = array.take(records.starts, mode="clip") == (TEXT << 3 | LEN)
    texts &= (lengths > 0) & (starts + lengths <= records.ends)
    ends = starts + np.where(texts, lengths, 0)
    scored = (array.take(ends, mode="clip") == (SCORE << 3 | FIXED32)) & (ends + 5 <= records.ends)
    pos = ends + 5 * scored
    typed = (array.take(pos, mode="clip") == (TYPE << 3 | VARINT)) & (pos + 2 <= records.ends)
    types = np.where(typed, array.take(pos + 1, mode="clip"), NORMAL)
    usual = texts & (pos + 2 * typed == records.ends) & (types <= BYTE)
    return starts, ends, np.where(usual, types, 0).astype(np.uint8)


def vocabulary(data: bytes, name: str, place: Place) -> Vocabulary:
    return replace(read_pieces(data), name=name, places=(place,))


def _read(source: Source) -> Findings:
    what = "a SentencePiece model of {1:,} bytes, wanted at most {0:,}"
    data = read_file(source.file, MAX_FILE, what)
    return Findings([vocabulary(data, source.name, Place(source.name, "whole file"))])


READER: Final = Reader(
    "SentencePiece",
    lambda source: (
        None if looks_like_model(source.head) else "does not begin with SentencePiece pieces"
    ),
    _read,
)


# The library.


@lru_cache(maxsize=4)
def open_model(model: bytes) -> tuple[Any, bool]:
    """Return the library's processor, and whether a blank marks a word's end.

    Raises :class:`InvalidFile` for a damaged model.
    """
    read_pieces(model)
    parsed = _parse(model)
    for number in (NORMALIZER, DENORMALIZER):
        charsmap = parsed.message(number).value(CHARSMAP)
        if charsmap:
            check_charsmap(charsmap)
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise VocabtoolError(
            "reading the model needs the sentencepiece library: pip install sentencepiece"
        ) from error
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError, ValueError) as error:
        raise InvalidFile(f"the sentencepiece library rejects the model: {error}") from error
    return processor, parsed.message(TRAINER_SPEC).integer(SPACE_BEHIND) != 0


def check_charsmap(charsmap: bytes) -> None:
    """Raise :class:`InvalidFile` if a lookup in a normalizer's table could read outside the table.

    The table consists of the length of the trie in bytes (uint32), the trie (for its format, see
    ``saved_model/tokenizers.py``), and NUL-terminated strings to which the trie's values point.
    """
    size = struct.unpack_from("<I", charsmap)[0] if len(charsmap) > 4 else 0
    strings = charsmap[4 + size :]
    if not size or size % 4 or not strings.endswith(b"\0"):
        raise InvalidFile(f"the table of SentencePiece's normalizer is truncated ({size:,} bytes)")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    values = units[units >= VALUE] & np.uint32(VALUE - 1)
    nodes = np.flatnonzero(units < VALUE)
    far = (units[nodes] & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
    reached = (nodes ^ ((units[nodes] >> np.uint32(10)) << far).astype(np.int64)) | 0xFF
    if (values >= len(strings)).any() or (reached >= len(units)).any():
        raise InvalidFile("the table of SentencePiece's normalizer has an offset outside the table")


def scored_pieces(model: bytes) -> tuple[list[tuple[str, float]], bytes]:
    """Return the pieces of a unigram model with their scores, and the normalizer's table."""
    processor, _ = open_model(model)
    parsed = _parse(model)
    model_type = parsed.message(TRAINER_SPEC).integer(MODEL_TYPE, UNIGRAM)
    if model_type != UNIGRAM:
        what = f"model type {MODEL_TYPES.get(model_type, model_type)}, wanted unigram"
        raise UnsupportedFormat(what)
    numbers = range(processor.get_piece_size())
    pieces = [(processor.id_to_piece(number), processor.get_score(number)) for number in numbers]
    return pieces, parsed.message(NORMALIZER).value(CHARSMAP)
