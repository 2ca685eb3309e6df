"""Tokenizers inside a graph: SentencePiece models and the flatbuffers of tensorflow-text.

A buffer is recognised by the op that takes it, not by trying to decode it: a normaliser's buffer
looks the same. How each buffer is read is in ``sentencepiece.py`` and ``text_tokenizers.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import PHRASE_OP, PIECE_OP, Body, Node
from vocabtool.formats.saved_model.linking import Linker
from vocabtool.formats.saved_model.tensors import DT_INT8, DT_UINT8
from vocabtool.vocabulary import Kind, Place, Vocabulary, printable

if TYPE_CHECKING:
    from vocabtool.formats.sentencepiece import Pieces

SENTENCEPIECE: Final = b"SentencepieceOp"
KINDS: Final[dict[bytes, Kind]] = {
    SENTENCEPIECE: "sentencepiece",
    b"TFText>FastSentencepieceTokenize": "sentencepiece",
    b"FastWordpieceTokenizeWithOffsets": "wordpiece",
    b"TFText>FastWordpieceTokenizeWithOffsets": "wordpiece",
    b"PhraseTokenize": "phrase",
    b"TFText>PhraseTokenize": "phrase",
}


def read_tokenizers(linker: Linker, warnings: list[str]) -> Iterator[Vocabulary]:
    """Yield the vocabulary of every tokenizer; what could not be read is said in ``warnings``."""
    known: dict[bytes, Pieces] = {}
    for body in linker.graph.bodies:
        for mark in (PIECE_OP, PHRASE_OP):
            for node in body.marked(mark):
                if node.op not in KINDS:
                    continue
                try:
                    yield read_tokenizer(linker, body, node, known)
                except VocabtoolError as error:
                    warnings.append(
                        f"tokenizer {linker.graph.place(body, node.name).place}: {error}"
                    )


def read_tokenizer(
    linker: Linker, body: Body, node: Node, known: dict[bytes, Pieces]
) -> Vocabulary:
    """The vocabulary of one op; what several ops share is read once."""
    if node.op == SENTENCEPIECE:
        data = node.bytes_of(b"model")
        if not data:
            raise InvalidFile("its model is not in the graph: words not read")
    else:
        data = buffer_of(linker, body, node)
    if data not in known:
        known[data] = _pieces(node.op, data)
    place = linker.graph.place(body, node.name)
    return known[data].vocabulary(_name(node), KINDS[node.op], place)


def vocabulary_of(op: bytes, data: bytes, name: str, place: Place) -> Vocabulary:
    """The vocabulary of an op of :data:`KINDS` whose model is ``data``."""
    return _pieces(op, data).vocabulary(name, KINDS[op], place)


def _pieces(op: bytes, data: bytes) -> Pieces:
    from vocabtool.formats import sentencepiece
    from vocabtool.formats.saved_model import text_tokenizers

    if op == SENTENCEPIECE:
        return sentencepiece.read_pieces(data)
    if KINDS[op] == "sentencepiece":
        return text_tokenizers.read_fast_sentencepiece(data)
    if KINDS[op] == "wordpiece":
        return text_tokenizers.read_wordpiece(data)
    return text_tokenizers.read_phrase(data)


def buffer_of(linker: Linker, body: Body, node: Node) -> bytes:
    """The bytes of the constant that a tokenizer op takes as its model."""
    for reference in node.data_inputs:
        origin = linker.origin(body, reference)
        tensor = origin.node.tensor_of(b"value") if origin and origin.node else None
        if tensor is not None and tensor.dtype in (DT_UINT8, DT_INT8):
            return tensors.raw_bytes(tensor)
    raise InvalidFile("no constant holds its model: words not read")


def _name(node: Node) -> str:
    """The scope of the op, which is the tokenizer's own name, or the op's name."""
    return printable(node.name).rpartition("/")[0] or printable(node.name)
