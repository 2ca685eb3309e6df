"""Read tokenizers in a graph: SentencePiece models and the flatbuffers of tensorflow-text.

A buffer is recognised by the op that uses it, because the buffers of normalizers look like those of
tokenizers. Most buffers of tensorflow-text have no list of words: the words are the keys of a trie.

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

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import sentencepiece, wire
from vocabtool.formats.files import MAX_FILE, MAX_NAMED
from vocabtool.formats.saved_model.graph import DT_INT8, DT_UINT8, Body, Node
from vocabtool.formats.saved_model.meta_graph import Linker
from vocabtool.formats.sentencepiece import FAR, MAX_PIECE, VALUE, vocabulary_of
from vocabtool.formats.wire import MAX_NAME, Table
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Vocabulary, printable

HAS_VALUE: Final = 1 << 8
LABEL: Final = VALUE | 0xFF  # with bit 31, so that a value unit never equals a label

MAX_UNITS: Final = 1 << 26  # 16 for each of 2^22 wordpieces, TensorFlow Text's limit
# darts-clone shares equal suffixes, so there may be more keys than units: the trie of a tokenizer
# of nine words has some 85,000 punctuation marks and Chinese characters as keys.
SHARED_NODES: Final = 1 << 18
KEY_BYTES_PER_UNIT: Final = 16
SHARED_KEY_BYTES: Final = 1 << 22

CHUNK: Final = 1 << 16  # nodes expanded at a time, to keep temporary arrays small


class DoubleArray:
    """A trie in the layout of darts-clone. ``units``: uint32, shape (n,)."""

    def __init__(self, units: NDArray[np.uint32]) -> None:
        if not 0 < len(units) <= MAX_UNITS:
            raise InvalidFile(f"a trie has {len(units):,} units; wanted 1 to {MAX_UNITS:,}")
        self.units = units
        labels = units & np.uint32(LABEL)
        children = np.flatnonzero((labels > 0) & (labels < 256)).astype(np.uint32)
        labels = labels[children]
        edges = (children ^ labels).astype(np.uint64) << np.uint64(8) | labels
        edges.sort()
        self._bases = (edges >> np.uint64(8)).astype(np.uint32)  # of the parent, ascending
        self._labels = (edges & np.uint64(0xFF)).astype(np.uint8)

    def walk(self, root: int = 0) -> tuple[ByteStrings, NDArray[np.int32]]:
        """Return every key below unit ``root``, shortest first, and its value: int32, shape (n,).

        Raises :class:`InvalidFile` if the trie is damaged or may have a cycle.
        """
        size = len(self.units)
        if not 0 <= root < size:
            raise InvalidFile(f"a trie of {size:,} units has no unit {root:,}")
        room = size + SHARED_NODES
        # For each depth: the index of each node's parent in the depth above, and the node's label.
        levels: list[tuple[NDArray[np.int32], NDArray[np.uint8]]] = []
        ends: list[NDArray[np.int32]] = []  # for each depth: the indices of nodes that end a key,
        values: list[NDArray[np.int32]] = []  # and the values of these keys
        nodes = np.array([root], np.uint32)
        while len(nodes):
            units = self.units[nodes]
            far = (units & np.uint32(FAR)) >> np.uint32(6)  # 8 or 0
            bases: NDArray[np.uint32] = nodes ^ ((units >> np.uint32(10)) << far)
            ending = np.flatnonzero(units & np.uint32(HAS_VALUE))
            positions = bases[ending]
            outside = positions >= size
            stored = self.units[np.where(outside, 0, positions)]
            wrong = np.flatnonzero(outside | (stored < VALUE))
            if len(wrong):
                what = f"unit {nodes[ending[wrong[0]]]:,} of a trie refers to unit"
                raise InvalidFile(f"{what} {positions[wrong[0]]:,}, which has no value")
            ends.append(ending.astype(np.int32))
            values.append((stored & np.uint32(VALUE - 1)).astype(np.int32))
            parents, labels = self._children(bases, room)
            nodes = bases[parents] ^ labels
            levels.append((parents, labels))
            room -= len(nodes)
            if len(levels) > MAX_PIECE and len(nodes):
                what = f"a key of a trie is longer than {MAX_PIECE:,} bytes"
                raise InvalidFile(f"{what}: the trie may have a cycle")
        lengths = np.repeat(np.arange(len(ends), dtype=np.int32), [*map(len, ends)])
        return self._keys(levels, lengths, np.concatenate(ends)), np.concatenate(values)

    def _children(
        self, bases: NDArray[np.uint32], room: int
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
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

    def _keys(
        self,
        levels: list[tuple[NDArray[np.int32], NDArray[np.uint8]]],
        lengths: NDArray[np.int32],
        nodes: NDArray[np.int32],
    ) -> ByteStrings:
        total = int(lengths.sum(dtype=np.int64))
        most = KEY_BYTES_PER_UNIT * len(self.units) + SHARED_KEY_BYTES
        if total > most:
            raise InvalidFile(f"the keys of a trie take {total:,} bytes, wanted at most {most:,}")
        ends = np.cumsum(lengths, dtype=np.int32)
        starts, data = ends - lengths, np.zeros(total, np.uint8)
        # Write all keys from their last bytes to their first, level by level up to the root.
        for depth in range(int(lengths[-1]) if len(lengths) else 0, 0, -1):
            parents, labels = levels[depth - 1]
            deep = slice(int(np.searchsorted(lengths, depth)), None)
            data[starts[deep] + (depth - 1)] = labels[nodes[deep]]
            nodes[deep] = parents[nodes[deep]]
        return ByteStrings.contiguous(data.tobytes(), ends)


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


def read_tokenizer(
    linker: Linker, body: Body, node: Node, known: dict[bytes, Vocabulary]
) -> Vocabulary:
    """Return the vocabulary of one tokenizer op. ``known``: maps models to their pieces."""
    if node.op == SENTENCEPIECE:
        data = node.bytes_of(b"model")
        if not data:
            raise InvalidFile("the tokenizer's model is not in the graph: words not read")
    else:
        data = buffer_of(linker, body, node)
    if data not in known:
        known[data] = pieces_of(node.op, data)
    # The op's scope is the name of the tokenizer.
    name = printable(node.name).rpartition("/")[0] or printable(node.name)
    return replace(known[data], name=name, places=(linker.graph.place(body, node.name),))


def buffer_of(linker: Linker, body: Body, node: Node) -> bytes:
    """Return the bytes of the constant that is the model of a tokenizer op."""
    for reference in node.data_inputs:
        origin = linker.origin(body, reference)
        tensor = origin.node.tensor_of(b"value") if origin and origin.node else None
        if tensor is not None and tensor.dtype in (DT_UINT8, DT_INT8):
            return tensor.raw_bytes()
    raise InvalidFile("the tokenizer's model is not a constant: words not read")


def pieces_of(op: bytes, data: bytes) -> Vocabulary:
    """Return the pieces of a tokenizer op, without name and place.

    ``op``: a key of :data:`KINDS`. ``data``: its model.
    """
    if op == SENTENCEPIECE:
        return sentencepiece.read_pieces(data)
    if KINDS[op] == "sentencepiece":
        return _read_fast_sentencepiece(data)
    return read_wordpiece(data)


def read_wordpiece(buffer: bytes) -> Vocabulary:
    """Read the model of the op ``FastWordpieceTokenizeWithOffsets``.

    FastBertTokenizer uses this op, too.

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
            raise InvalidFile(
                f"the unknown piece has id {unknown_id}, wanted 0 to {len(words) - 1}"
            )
        marks = model.vector(13, "u1")
        if len(marks) != len(words):
            raise InvalidFile(f"{len(words):,} words, but {len(marks):,} suffix flags")
        size = int(words.lengths.sum(dtype=np.int64)) + len(indicator) * np.count_nonzero(marks)
        if size > GROWTH * len(words.data):
            raise InvalidFile(
                f"the words take {size:,} bytes, wanted at most {GROWTH * len(words.data):,}"
            )
        # The stored words do not include the indicator.
        pairs = zip(marks.tolist(), words, strict=True)
        entries = ByteStrings.of(indicator + word if mark else word for mark, word in pairs)
        return vocabulary_of("wordpiece", entries, None, unknown_id, notes)
    pieces = _wordpieces_of_trie(model, indicator, unknown_id)
    ids = np.concatenate([[-1], pieces.id_array()])
    holes = np.diff(ids) - 1
    total = int(holes.sum())
    if total:
        first = [
            hole
            for at in np.flatnonzero(holes)[:MAX_NAMED].tolist()
            for hole in range(int(ids[at]) + 1, int(ids[at + 1]))[:MAX_NAMED]
        ][:MAX_NAMED]
        named = ", ".join([*map(str, first), "..."] if total > MAX_NAMED else map(str, first))
        inside = " with punctuation or Chinese characters inside" if model.byte(END_TO_END) else ""
        why = f"pieces{inside} that can never be produced"
        notes += (f"ids not in the buffer: {total:,} ({named}), {why}",)
    return replace(pieces, notes=notes)


def _read_fast_sentencepiece(buffer: bytes) -> Vocabulary:
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
    # In end-to-end mode, the trie also maps every punctuation mark and Chinese character to the
    # unknown id. So keys with this id are ignored, and a field has the unknown token.
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
