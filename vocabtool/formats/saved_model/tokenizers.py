"""Tokenizers inside a graph: SentencePiece models and the flatbuffers of tensorflow-text.

A buffer is recognised by the op that takes it, not by trying to decode it: a normaliser's buffer
looks the same. The compiled tokenizers of tensorflow-text need no list of words, so most buffers
hold none: the words are the keys of a trie. Cutting a text into pieces is left out.

Layouts, below tensorflow_text/core/kernels, with the fields read here:

    fast_wordpiece_tokenizer_model.fbs
        0 trie, 3 suffix root, 4 longest word, 5 suffix indicator, 6 unknown token, 7 its id,
        8 pieces of the indicator, 10 end to end, 12 words, 13 marks of suffixes
    phrase_tokenizer_model.fbs
        2 id of the unknown token, 4 phrases, 5 table of the trie
    sentencepiece/encoder_config.fbs
        0 version, 3 unknown id, 5 offset of ids, 6 table of the trie, 7 scores

A value in the first trie holds an id, a length and a mark: fast_wordpiece_tokenizer_utils.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import flatbuffer, sentencepiece
from vocabtool.formats.flatbuffer import Table
from vocabtool.formats.reader import Findings
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.double_array import DoubleArray, Leaves
from vocabtool.formats.saved_model.graph import PHRASE_OP, PIECE_OP, Body, Node
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.tensors import DT_INT8, DT_UINT8
from vocabtool.formats.sentencepiece import Pieces
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Place, Vocabulary, printable

SENTENCEPIECE: Final = b"SentencepieceOp"
KINDS: Final[dict[bytes, Kind]] = {
    SENTENCEPIECE: "sentencepiece",
    b"TFText>FastSentencepieceTokenize": "sentencepiece",
    b"FastWordpieceTokenizeWithOffsets": "wordpiece",
    b"TFText>FastWordpieceTokenizeWithOffsets": "wordpiece",
    b"PhraseTokenize": "phrase",
    b"TFText>PhraseTokenize": "phrase",
}

END_TO_END: Final = 10

ID_SHIFT: Final = 8  # a wordpiece's value: length - 1 in bits 0-7, id in 8-29, suffix in 30
ID_MASK: Final = (1 << 22) - 1
LENGTH_MASK: Final = 0xFF
IS_SUFFIX: Final = 1 << 30

MAX_INDICATOR: Final = 256  # bytes; "##" everywhere we looked, a wordpiece has at most 256
GROWTH: Final = 4  # bytes of words with their indicators, for one byte of buffer
MAX_NAMED: Final = 5  # missing ids in a note


def read_tokenizers(linker: Linker, findings: Findings) -> None:
    """Find the vocabulary of every tokenizer; what several ops share is read once."""
    known: dict[bytes, Pieces] = {}
    for body in linker.graph.bodies:
        for mark in (PIECE_OP, PHRASE_OP):
            for node in body.nodes_with(mark):
                if node.op in KINDS:
                    where = linker.graph.place(body, node.name).place
                    with findings.warning(f"tokenizer {where}"):
                        findings.add(read_tokenizer(linker, body, node, known))


def read_tokenizer(
    linker: Linker, body: Body, node: Node, known: dict[bytes, Pieces]
) -> Vocabulary:
    """The vocabulary of one op. ``known``: the models that were read already."""
    if node.op == SENTENCEPIECE:
        data = node.bytes_of(b"model")
        if not data:
            raise InvalidFile("its model is not in the graph: words not read")
    else:
        data = buffer_of(linker, body, node)
    if data not in known:
        known[data] = _pieces(node.op, data)
    # The scope of the op is the tokenizer's own name.
    name = printable(node.name).rpartition("/")[0] or printable(node.name)
    return known[data].vocabulary(name, KINDS[node.op], linker.graph.place(body, node.name))


def buffer_of(linker: Linker, body: Body, node: Node) -> bytes:
    """The bytes of the constant that a tokenizer op takes as its model."""
    for reference in node.data_inputs:
        origin = linker.origin(body, reference)
        tensor = origin.node.tensor_of(b"value") if origin and origin.node else None
        if tensor is not None and tensor.dtype in (DT_UINT8, DT_INT8):
            return tensors.raw_bytes(tensor)
    raise InvalidFile("no constant holds its model: words not read")


def vocabulary_of(op: bytes, data: bytes, name: str, place: Place) -> Vocabulary:
    """The vocabulary of an op of :data:`KINDS` whose model is ``data``."""
    return _pieces(op, data).vocabulary(name, KINDS[op], place)


def _pieces(op: bytes, data: bytes) -> Pieces:
    if op == SENTENCEPIECE:
        return sentencepiece.read_pieces(data)
    return READERS[KINDS[op]](data)


def read_wordpiece(buffer: bytes) -> Pieces:
    """Read the model of ``FastWordpieceTokenizeWithOffsets`` (also BERT's fast tokenizer).

    Pieces that continue a word are spelled with their indicator (``##``). Raises
    :class:`InvalidFile` where the buffer contradicts itself or two pieces share an id.
    """
    model = flatbuffer.root(buffer)
    indicator = model.string(5)
    if len(indicator) > MAX_INDICATOR:
        raise InvalidFile(
            f"a suffix indicator of {len(indicator):,} bytes, wanted at most {MAX_INDICATOR}"
        )
    unknown_id = model.integer(7)
    notes: tuple[str, ...] = (f"words of more than {model.integer(4):,} bytes are unknown",)
    if indicator:
        notes = (f"{printable(indicator)} marks a continuation", *notes)
    if model.byte(END_TO_END):
        notes += ("splits text at white space, punctuation and Chinese characters by itself",)
    words = model.strings(12)
    if len(words):  # kept for detokenization only
        _check_unknown(unknown_id, len(words))
        return Pieces(_add_marks(model, words, indicator), None, unknown_id, notes)
    entries, ids = _wordpieces_of_trie(model, indicator, unknown_id)
    pieces = Pieces.by_id(entries, ids, unknown_id)
    return Pieces(pieces.entries, pieces.ids, unknown_id, (*notes, *_note_gaps(model, pieces)))


def read_phrase(buffer: bytes) -> Pieces:
    """Read the model of ``PhraseTokenize``.

    Raises :class:`InvalidFile` where the buffer contradicts itself or two phrases share an id.
    """
    model = flatbuffer.root(buffer)
    unknown_id = model.integer(2)
    notes = ("a phrase is the longest run of whole words that is an entry",)
    phrases = model.strings(4)
    if len(phrases):  # kept for detokenization only
        _check_unknown(unknown_id, len(phrases))
        return Pieces(phrases, None, unknown_id, notes)
    leaves = DoubleArray(model.table(5).vector(0, "<u4")).walk()
    return Pieces.by_id(leaves.keys(), leaves.values, unknown_id, notes)


def read_fast_sentencepiece(buffer: bytes) -> Pieces:
    """Read the model of ``TFText>FastSentencepieceTokenize``.

    Ids are those the tokenizer returns: shifted by the model's offset, except for the unknown
    id. Raises :class:`InvalidFile` where the buffer contradicts itself or two pieces share an
    id, :class:`UnsupportedFormat` for another version.
    """
    model = flatbuffer.root(buffer)
    if version := model.byte(0):
        raise UnsupportedFormat(
            f"version {version} of TensorFlow Text's SentencePiece encoder, only 0 is known: "
            "read the SentencePiece model that it was made from"
        )
    unknown_id = model.integer(3, -1)
    offset = model.integer(5)
    leaves = DoubleArray(model.table(6).vector(0, "<u4")).walk()
    total = len(model.vector(7, "<f4"))
    if len(leaves) and int(leaves.values.max()) >= total:
        raise InvalidFile(f"a piece has id {leaves.values.max()}, but there are {total:,} scores")
    ids = leaves.values.astype(np.int64)
    ids[ids != unknown_id] += offset
    notes = ["▁ stands for a space"]
    if missing := total - len(leaves):
        notes.append(
            f"{missing:,} of {total:,} pieces are not stored in this buffer: unknown and control"
        )
    if offset:
        notes.append(f"ids are shifted by {offset}")
    unknown = None if unknown_id < 0 else unknown_id
    return Pieces.by_id(leaves.keys(), ids, unknown, tuple(notes))


def _check_unknown(unknown_id: int, size: int) -> None:
    if not 0 <= unknown_id < size:
        raise InvalidFile(f"the unknown piece has id {unknown_id}, wanted 0 to {size - 1}")


def _add_marks(model: Table, words: ByteStrings, indicator: bytes) -> ByteStrings:
    """Put the indicator, which the buffer leaves out, in front of each suffix."""
    marks = model.vector(13, "u1")
    if len(marks) != len(words):
        raise InvalidFile(f"{len(words):,} words, but {len(marks):,} marks for suffixes")
    size = int(words.lengths.sum(dtype=np.int64)) + len(indicator) * np.count_nonzero(marks)
    if size > GROWTH * len(words.data):
        raise InvalidFile(
            f"the words take {size:,} bytes, wanted at most {GROWTH * len(words.data):,}"
        )
    pairs = zip(marks.tolist(), words, strict=True)
    return ByteStrings.of(indicator * bool(mark) + word for mark, word in pairs)


def _wordpieces_of_trie(
    model: Table, indicator: bytes, unknown_id: int
) -> tuple[ByteStrings, NDArray[np.int64]]:
    """All pieces and their ids, in any order.

    Suffixes hang below a root of their own. The end-to-end mode adds every punctuation mark
    and Chinese character with the unknown id, so that id is taken from the model's own field.
    """
    if unknown_id < 0:
        raise InvalidFile(f"the unknown piece has id {unknown_id}, wanted 0 or more")
    trie = DoubleArray(model.vector(0, "<u4"))
    words, word_ids = _below(trie.walk(), False, b"", unknown_id)
    suffixes, suffix_ids = _below(trie.walk(model.uint(3)), True, indicator, unknown_id)
    ids = np.concatenate([word_ids, suffix_ids, [unknown_id]])
    more = {id_: text for id_, text in _spelled_indicator(model, indicator) if id_ not in ids}
    ids = np.concatenate([ids, np.fromiter(more, np.int64, len(more))])
    return ByteStrings.of([*words, *suffixes, model.string(6), *more.values()]), ids


def _below(
    leaves: Leaves, suffixes: bool, indicator: bytes, unknown_id: int
) -> tuple[ByteStrings, NDArray[np.int64]]:
    """The pieces below one root; those of the other root and the unknown ones are left out."""
    ids = leaves.values >> ID_SHIFT & ID_MASK
    chosen = ((leaves.values & IS_SUFFIX) != 0) == suffixes
    chosen &= (leaves.values & LENGTH_MASK) + 1 == leaves.lengths
    chosen &= ids != unknown_id
    return leaves.keys(chosen, indicator), ids[chosen].astype(np.int64)


def _spelled_indicator(model: Table, indicator: bytes) -> list[tuple[int, bytes]]:
    """The pieces into which the indicator itself is cut: the only place that holds some of them.

    The buffer has ids and lengths, the text is the indicator's; a single unknown piece has a
    length of its own.
    """
    values = model.vector(8, "<i4").astype(np.int64)
    lengths = (values & LENGTH_MASK) + 1
    if int(lengths.sum()) != len(indicator):
        return []
    pieces = ByteStrings.contiguous(indicator, np.cumsum(lengths))
    return [
        (value >> ID_SHIFT & ID_MASK, indicator + piece if value & IS_SUFFIX else piece)
        for value, piece in zip(values.tolist(), pieces, strict=True)
    ]


def _note_gaps(model: Table, pieces: Pieces) -> tuple[str, ...]:
    """Say which ids below the last are not in the buffer, and why."""
    if pieces.ids is None:
        return ()
    ids: NDArray[np.integer[Any]] = np.concatenate([[-1], pieces.ids])
    holes = np.diff(ids) - 1
    first = [
        hole
        for at in np.flatnonzero(holes)[:MAX_NAMED].tolist()
        for hole in range(int(ids[at]) + 1, int(ids[at + 1]))[:MAX_NAMED]
    ][:MAX_NAMED]
    total = int(holes.sum())
    named = ", ".join([*map(str, first), *["..."] * (total > MAX_NAMED)])
    inside = " with punctuation or Chinese characters inside" if model.byte(END_TO_END) else ""
    why = f"pieces{inside} that can never be produced"
    return (f"ids not in the buffer: {total:,} ({named}), {why}",)


READERS: Final[dict[Kind, Callable[[bytes], Pieces]]] = {
    "sentencepiece": read_fast_sentencepiece,
    "wordpiece": read_wordpiece,
    "phrase": read_phrase,
}
