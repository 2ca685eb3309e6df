"""Read SentencePiece models, and the flatbuffers of tensorflow-text's tokenizers.

The id of a piece of a model is its position. Layout: google/sentencepiece,
src/sentencepiece_model.proto. Field numbers of a ModelProto: pieces 1, trainer_spec 2,
normalizer_spec 3, self_test_data 4. Field numbers of each of the pieces: piece 1, score 2, type 3.
The ``sentencepiece`` library does not check the offsets in a normalizer's table of replaced
characters, so they are checked here before it gets a model.

A flatbuffer is recognised by the op that uses it, because the buffers of normalizers look like
those of tokenizers. Most of them have no list of words: the words are the keys of a trie.

Layouts (in tensorflow_text/core/kernels), with the fields that are read here:

    fast_wordpiece_tokenizer_model.fbs
        0 trie, 3 suffix root, 4 longest word, 5 suffix indicator, 6 unknown token, 7 its id,
        8 pieces of the indicator, 10 whether the tokenizer splits texts, 12 words, 13 suffix flags
    sentencepiece/encoder_config.fbs
        0 version, 3 unknown id, 5 offset of ids, 6 table of the trie, 7 scores

A value in the trie of WordPiece encodes id, length, suffix flag (fast_wordpiece_tokenizer_utils.h).

A trie is a darts-clone double array (github.com/s-yata/darts-clone, include/darts.h). Each unit of
32 bits is

    a node   bits 0-7: its label, the last byte of the key so far; bit 8: a key ends here;
             bits 10-30: the offset, to be multiplied by 256 if bit 9 is set
    a value  bit 31 is set; bits 0-30: the value

For the node in unit ``n``, let ``base = n ^ offset``. If a key ends at the node, the value of the
key is in unit ``base``. The child of the node for byte ``c`` is in unit ``base ^ c``. If that unit
does not have the label ``c``, there is no such child.
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
from vocabtool.formats.files import MAX_FILE, MAX_NAMED, read_file
from vocabtool.formats.reader import Findings, Reader, Source
from vocabtool.formats.wire import FIXED32, LEN, MAX_NAME, VARINT, Message, Table
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary, printable

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
CHUNK: Final = 1 << 16  # pieces or nodes read at a time, so that temporary arrays stay small


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
    usual_fields = {(TEXT, LEN), (SCORE, FIXED32), (TYPE, VARINT)}
    has_score_or_type = False  # at least one of the pieces
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
            if not texts or kinds - usual_fields:
                return False
            has_score_or_type = has_score_or_type or len(kinds) > 1
    except InvalidFile:
        pass  # probably truncated after a whole piece, at the end of the head
    return has_score_or_type


def read_pieces(data: bytes) -> Vocabulary:
    """Read a serialised ``ModelProto``. Returns entries in ``data``, still without name and place.

    The unknown piece is that of type "unknown", or else the ``unk_id`` of the trainer.
    """
    model = _parse(data)
    trainer = model.message(TRAINER_SPEC)
    entries, types = _texts_and_types(data, model.strings)
    unknown = np.flatnonzero(types == UNKNOWN).tolist()
    if len(unknown) > 1:
        raise InvalidFile(f"two pieces are of type unknown: ids {unknown[0]} and {unknown[1]}")
    declared = trainer.integer(UNKNOWN_ID, -1)
    unknown_id: int | None = unknown[0] if unknown else declared
    if unknown_id not in range(len(entries)):
        unknown_id = None
    model_type = trainer.integer(MODEL_TYPE, UNIGRAM)
    notes = [f"model type {MODEL_TYPES.get(model_type, model_type)}", "▁ stands for a space"]
    counts = np.bincount(types, minlength=BYTE + 1).tolist()
    named = [f"{counts[kind]:,} {name}" for kind, name in TYPE_NAMES.items() if counts[kind]]
    if named:
        notes.append(f"besides normal pieces: {', '.join(named)}")
    if trainer.integer(BYTE_FALLBACK):
        notes.append("byte fallback: text that no piece covers becomes bytes, never unknown")
    return vocabulary_of("sentencepiece", entries, None, unknown_id, tuple(notes))


def _parse(model: bytes) -> Message:
    """Parse a ModelProto; its pieces are the ``strings`` of the message."""
    if model[:1] != bytes((PIECES << 3 | LEN,)):
        raise InvalidFile("not a SentencePiece model: it does not begin with pieces", offset=0)
    return Message(model, (0, len(model)), strings_field=PIECES)


def _texts_and_types(data: bytes, records: ByteStrings) -> tuple[ByteStrings, NDArray[np.uint8]]:
    """Return the texts and types of pieces. ``records``: the message of each piece, in ``data``."""
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
    """Return starts and ends of the texts, and the types, of pieces in the usual layout.

    The layout is: text, score, and type unless it is "normal". Other pieces get type 0.
    """
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
    """Return the library's processor, and whether a blank marks a word's end."""
    read_pieces(model)
    parsed = _parse(model)
    for number in (NORMALIZER, DENORMALIZER):
        charsmap = parsed.message(number).value(CHARSMAP)
        if charsmap:
            check_charsmap(charsmap)
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        what = "reading the model needs the sentencepiece library: pip install sentencepiece"
        raise VocabtoolError(what) from error
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError, ValueError) as error:
        raise InvalidFile(f"the sentencepiece library rejects the model: {error}") from error
    return processor, parsed.message(TRAINER_SPEC).integer(SPACE_BEHIND) != 0


def check_charsmap(charsmap: bytes) -> None:
    """Raise :class:`InvalidFile` if a lookup in a normalizer's table could read outside the table.

    The table consists of the length of the trie in bytes (uint32), the trie (see above), and
    NUL-terminated strings to which the trie's values point.
    """
    size = struct.unpack_from("<I", charsmap)[0] if len(charsmap) > 4 else 0
    strings = charsmap[4 + size :]
    if not size or size % 4 or not strings.endswith(b"\0"):
        raise InvalidFile(f"the table of SentencePiece's normalizer is truncated ({size:,} bytes)")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    values = units[units >= VALUE] & np.uint32(VALUE - 1)
    nodes = np.flatnonzero(units < VALUE)
    shift = (units[nodes] & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
    reached = (nodes ^ ((units[nodes] >> np.uint32(10)) << shift).astype(np.int64)) | 0xFF
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


# The flatbuffers of tensorflow-text.

HAS_VALUE: Final = 1 << 8
LABEL: Final = VALUE | 0xFF  # with bit 31, so that a value unit never equals a label

MAX_UNITS: Final = 1 << 26  # 16 for each of 2^22 wordpieces, TensorFlow Text's limit
# darts-clone shares equal suffixes, so there may be more keys than units: the trie of a tokenizer
# of nine words has some 85,000 punctuation marks and Chinese characters as keys.
SHARED_NODES: Final = 1 << 18
KEY_BYTES_PER_UNIT: Final = 16
SHARED_KEY_BYTES: Final = 1 << 22


class DoubleArray:
    """A trie in the layout of darts-clone. ``units``: uint32, shape (n,)."""

    def __init__(self, units: NDArray[np.uint32]) -> None:
        if not 0 < len(units) <= MAX_UNITS:
            raise InvalidFile(f"a trie has {len(units):,} units; wanted 1 to {MAX_UNITS:,}")
        self.units = units
        labels = units & np.uint32(LABEL)
        children = np.flatnonzero((labels > 0) & (labels < 256)).astype(np.uint32)
        labels = labels[children]
        # In darts-clone, the base of the parent is the child's number XOR the child's label.
        edges = (children ^ labels).astype(np.uint64) << np.uint64(8) | labels
        edges.sort()
        self._bases = (edges >> np.uint64(8)).astype(np.uint32)  # of the parent, ascending
        self._labels = (edges & np.uint64(0xFF)).astype(np.uint8)

    def walk(self, root: int = 0) -> tuple[ByteStrings, NDArray[np.int32]]:
        """Return every key below unit ``root``, shortest first, and its value. Refuses cycles."""
        size = len(self.units)
        if not 0 <= root < size:
            raise InvalidFile(f"a trie of {size:,} units has no unit {root:,}")
        room = size + SHARED_NODES  # how many more nodes are allowed
        max_bytes = KEY_BYTES_PER_UNIT * size + SHARED_KEY_BYTES
        keys: list[bytes] = []
        values: list[NDArray[np.int32]] = []
        nodes, prefixes = np.array([root], np.uint32), [b""]  # of one level, at this depth
        depth, key_bytes = 0, 0
        while len(nodes):
            units = self.units[nodes]
            shift = (units & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
            bases: NDArray[np.uint32] = nodes ^ ((units >> np.uint32(10)) << shift)
            ending = np.flatnonzero(units & np.uint32(HAS_VALUE))  # nodes at which a key ends
            positions = bases[ending]
            outside = positions >= size
            stored = self.units[np.where(outside, 0, positions)]
            wrong = np.flatnonzero(outside | (stored < VALUE))
            if len(wrong):
                what = f"unit {nodes[ending[wrong[0]]]:,} of a trie refers to unit"
                raise InvalidFile(f"{what} {positions[wrong[0]]:,}, which has no value")
            keys += map(prefixes.__getitem__, ending.tolist())
            values.append((stored & np.uint32(VALUE - 1)).astype(np.int32))
            key_bytes += depth * len(ending)
            parents, labels = self._children(bases, room)
            nodes, depth = bases[parents] ^ labels, depth + 1
            room -= len(nodes)
            if depth > MAX_PIECE and len(nodes):
                what = f"a key of a trie is longer than {MAX_PIECE:,} bytes"
                raise InvalidFile(f"{what}: the trie may have a cycle")
            needed = key_bytes + depth * len(nodes)
            if needed > max_bytes:
                what = f"the keys of a trie take {needed:,} bytes, wanted at most {max_bytes:,}"
                raise InvalidFile(what)
            pairs = zip(parents.tolist(), labels.tolist(), strict=True)
            prefixes = [prefixes[parent] + bytes((label,)) for parent, label in pairs]
        return ByteStrings.of(keys), np.concatenate(values)

    def _children(
        self, bases: NDArray[np.uint32], room: int
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the children of nodes with these bases: the index of their parent, their label.

        ``room``: how many children are allowed.
        """
        all_parents, all_labels = [], []
        for at in range(0, len(bases), CHUNK):
            chunk = bases[at : at + CHUNK]
            first = np.searchsorted(self._bases, chunk, "left")
            counts = np.searchsorted(self._bases, chunk, "right") - first
            total = int(counts.sum())
            room -= total
            if room < 0:
                what = f"more than {len(self.units) + SHARED_NODES:,} nodes: it may have a cycle"
                raise InvalidFile(f"a trie of {len(self.units):,} units has {what}")
            parents = np.repeat(np.arange(len(chunk), dtype=np.int32), counts)
            before = np.cumsum(counts) - counts
            all_parents.append(parents + np.int32(at))
            all_labels.append(self._labels[(first - before)[parents] + np.arange(total)])
        return np.concatenate(all_parents), np.concatenate(all_labels)


SENTENCEPIECE: Final = b"SentencepieceOp"
KINDS: Final[dict[bytes, Kind]] = {
    SENTENCEPIECE: "sentencepiece",
    b"TFText>FastSentencepieceTokenize": "sentencepiece",
    b"FastWordpieceTokenizeWithOffsets": "wordpiece",
    b"TFText>FastWordpieceTokenizeWithOffsets": "wordpiece",
}

END_TO_END: Final = 10

ID_SHIFT: Final = 8  # a wordpiece's value: length - 1 in bits 0-7, id in 8-29, suffix in 30
ID_MASK: Final = (1 << 22) - 1
LENGTH_MASK: Final = 0xFF
IS_SUFFIX: Final = 1 << 30

GROWTH: Final = 4  # limit: bytes of words with their indicators, per byte of buffer


def pieces_of(op: bytes, data: bytes) -> Vocabulary:
    """Return the pieces, without name and place, of an op in :data:`KINDS` with model ``data``."""
    if op == SENTENCEPIECE:
        return read_pieces(data)
    if KINDS[op] == "sentencepiece":
        return _read_fast_sentencepiece(data)
    return read_wordpiece(data)


def read_wordpiece(buffer: bytes) -> Vocabulary:
    """Read the model of ``FastWordpieceTokenizeWithOffsets``, which FastBertTokenizer uses, too.

    Pieces that continue a word begin with the suffix indicator (``##``).
    """
    model = wire.flatbuffer_root(buffer)
    indicator = model.string(5)
    if len(indicator) > MAX_NAME:
        what = f"the suffix indicator has {len(indicator):,} bytes, wanted at most {MAX_NAME}"
        raise InvalidFile(what)
    unknown_id = model.integer(7)
    notes: tuple[str, ...] = (f"words of more than {model.integer(4):,} bytes are unknown",)
    if indicator:
        notes = (f"{printable(indicator)} marks a continuation", *notes)
    if model.byte(END_TO_END):
        notes += ("splits text at white space, punctuation and Chinese characters by itself",)
    words = model.strings(12)
    if len(words):  # stored only for detokenization
        if not 0 <= unknown_id < len(words):
            what = f"the unknown piece has id {unknown_id}, wanted 0 to {len(words) - 1}"
            raise InvalidFile(what)
        marks = model.vector(13, "u1")
        if len(marks) != len(words):
            raise InvalidFile(f"{len(words):,} words, but {len(marks):,} suffix flags")
        size = int(words.lengths.sum(dtype=np.int64)) + len(indicator) * np.count_nonzero(marks)
        if size > GROWTH * len(words.data):
            what = f"the words take {size:,} bytes, wanted at most {GROWTH * len(words.data):,}"
            raise InvalidFile(what)
        # The stored words do not include the indicator.
        pairs = zip(marks.tolist(), words, strict=True)
        entries = ByteStrings.of(indicator + word if mark else word for mark, word in pairs)
        return vocabulary_of("wordpiece", entries, None, unknown_id, notes)
    pieces = _wordpieces_of_trie(model, indicator, unknown_id)
    ids = np.concatenate([[-1], pieces.id_array()])
    gaps = np.diff(ids) - 1  # unused ids before each id
    total = int(gaps.sum())
    if total:
        unused: list[str] = []
        for at in np.flatnonzero(gaps)[:MAX_NAMED].tolist():
            unused += map(str, range(int(ids[at]) + 1, int(ids[at + 1]))[:MAX_NAMED])
        named = ", ".join(unused[:MAX_NAMED] + ["..."] * (total > MAX_NAMED))
        inside = " with punctuation or Chinese characters inside" if model.byte(END_TO_END) else ""
        why = f"pieces{inside} that can never be produced"
        notes += (f"ids not in the buffer: {total:,} ({named}), {why}",)
    return replace(pieces, notes=notes)


def _read_fast_sentencepiece(buffer: bytes) -> Vocabulary:
    """Read the model of the op ``FastSentencepieceTokenize``, whose pieces are keys of a trie."""
    model = wire.flatbuffer_root(buffer)
    version = model.byte(0)
    if version:
        what = f"TensorFlow Text's SentencePiece encoder has version {version}, wanted 0"
        raise UnsupportedFormat(f"{what}; pass the original SentencePiece model instead")
    unknown_id = model.integer(3, -1)
    offset = model.integer(5)
    keys, values = DoubleArray(model.table(6).vector(0, "<u4")).walk()
    total = len(model.vector(7, "<f4"))
    if len(values) and int(values.max()) >= total:
        raise InvalidFile(f"a piece has id {values.max()}, but there are only {total:,} scores")
    ids = values.astype(np.int64)
    ids[ids != unknown_id] += offset  # as the tokenizer returns them
    notes = ["▁ stands for a space"]
    missing = total - len(values)
    if missing:
        notes.append(
            f"{missing:,} of {total:,} pieces (unknown and control pieces) are not in this buffer"
        )
    if offset:
        notes.append(f"ids are shifted by {offset}")
    unknown = None if unknown_id < 0 else unknown_id
    return vocabulary_of("sentencepiece", keys, ids, unknown, tuple(notes))


def _wordpieces_of_trie(model: Table, indicator: bytes, unknown_id: int) -> Vocabulary:
    """Return the pieces of a WordPiece model whose list of words is empty.

    In end-to-end mode, the trie also maps every punctuation mark and Chinese character to the
    unknown id. So keys with this id are ignored, and a field has the unknown token.
    """
    if unknown_id < 0:
        raise InvalidFile(f"the unknown piece has id {unknown_id}, wanted 0 or more")
    trie = DoubleArray(model.vector(0, "<u4"))
    entries: list[bytes] = []
    id_lists: list[NDArray[np.int64]] = []
    for root, prefix in ((0, b""), (model.uint(3), indicator)):  # words, then suffixes
        keys, stored = trie.walk(root)
        numbers = stored >> ID_SHIFT & ID_MASK
        chosen = ((stored & IS_SUFFIX) != 0) == bool(id_lists)
        chosen &= (stored & LENGTH_MASK) + 1 == keys.lengths
        chosen &= numbers != unknown_id
        chosen_keys = keys.take(np.flatnonzero(chosen))
        needed = len(prefix) * len(chosen_keys) + int(chosen_keys.lengths.sum())
        if needed > MAX_FILE:
            raise InvalidFile(f"the words take {needed:,} bytes, wanted at most {MAX_FILE:,}")
        entries += (prefix + key for key in chosen_keys)
        id_lists.append(numbers[chosen].astype(np.int64))
    ids = np.concatenate([*id_lists, [unknown_id]])
    # The pieces of the indicator itself: some occur nowhere else. The buffer has only their ids and
    # lengths. For a single unknown piece, the length is not that of the indicator.
    values = model.vector(8, "<i4").astype(np.int64)
    lengths = (values & LENGTH_MASK) + 1
    more: dict[int, bytes] = {}
    if int(lengths.sum()) == len(indicator):
        pieces = ByteStrings.contiguous(indicator, np.cumsum(lengths))
        for value, piece in zip(values.tolist(), pieces, strict=True):
            id_ = value >> ID_SHIFT & ID_MASK
            if id_ not in ids:
                more[id_] = indicator + piece if value & IS_SUFFIX else piece
    ids = np.concatenate([ids, np.fromiter(more, np.int64, len(more))])
    entries += (model.string(6), *more.values())
    return vocabulary_of("wordpiece", ByteStrings.of(entries), ids, unknown_id, ())
