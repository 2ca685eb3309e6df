"""Tokenizers inside a TFLite model: their pieces, told by the operator that cuts texts.

An operator of TensorFlow (``Flex...``) brings its NodeDef along, in a vector of a FlexBuffer
(tensorflow/lite/delegates/flex/kernel.cc), and SentencepieceOp has its model in it; the operators
of tensorflow-text and of tflite-support (custom_ops/kernel/sentencepiece) take theirs as a constant
of bytes. How the models are read is in ``sentencepiece.py`` and
``saved_model/tokenizers.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats import flatbuffer, flexbuffer
from vocabtool.formats.model import PassedOver
from vocabtool.formats.saved_model.graph import Node
from vocabtool.formats.saved_model.tokenizers import KINDS, SENTENCEPIECE, vocabulary_of
from vocabtool.formats.tflite_schema import BYTES, Graph, Model, Operator
from vocabtool.vocabulary import Place, Vocabulary, printable

FLEX: Final = b"Flex"
TFLITE_SUPPORT: Final = b"TFSentencepieceTokenizeOp"
LARGE: Final = 1 << 10  # bytes of options in which an operator that we do not know may hold words
# What these write for each id lies in field 2 of their model, with blanks for marks.
DETOKENIZERS: Final = (b"TFText>FastSentencepieceDetokenize", b"TFSentencepieceDetokenizeOp")
WRITTEN: Final = 2
SAME_AS: Final = {TFLITE_SUPPORT: b"TFText>FastSentencepieceTokenize"}


def tokenizers(model: Model, file: str, warnings: list[str]) -> Iterator[Vocabulary | PassedOver]:
    """The vocabulary of every tokenizer; what could not be read is said in ``warnings``."""
    for number, graph in enumerate(model.graphs()):
        for operator in graph.custom_operators():
            name = printable(operator.custom)
            place = Place(file, f"graph {number}, operator {name}")
            try:
                yield from _tokenizer(model, graph, operator, place)
            except VocabtoolError as error:
                warnings.append(f"{place.place}: {error}: its words are not read")


def _tokenizer(
    model: Model, graph: Graph, operator: Operator, place: Place
) -> Iterator[Vocabulary | PassedOver]:
    op = operator.custom.removeprefix(FLEX)
    op = SAME_AS.get(op, op)
    if op == SENTENCEPIECE:
        data = _node(model.custom_options(operator)).bytes_of(b"model")
    elif op in KINDS or op in DETOKENIZERS:
        data = _constant(model, graph, operator)
    else:
        if (size := len(model.custom_options(operator))) >= LARGE:
            raise InvalidFile(f"{size:,} bytes of options")
        return
    if not data:
        raise InvalidFile("its model is not in it")
    outputs = operator.outputs
    name = graph.tensor(outputs[0]).name if outputs else printable(operator.custom)
    if op in DETOKENIZERS:
        count = len(flatbuffer.root(data).strings(WRITTEN))
        yield PassedOver(name, count, place, "what a detokenizer writes for each id")
    else:
        yield vocabulary_of(op, data, name, place)


def _node(options: bytes) -> Node:
    """The NodeDef of an operator of TensorFlow, behind the operator's name."""
    strings = flexbuffer.strings(options)
    if len(strings) < 2:
        raise InvalidFile(f"{len(strings)} strings in its options, wanted a name and a NodeDef")
    return Node.parse(strings[1], (0, len(strings[1])))


def _constant(model: Model, graph: Graph, operator: Operator) -> bytes:
    """The bytes that an operator takes as its model, empty where none are in the file."""
    for number in operator.inputs:
        tensor = graph.tensor(number) if number >= 0 else None
        if tensor is not None and tensor.type in BYTES and tensor.buffer:
            return model.value(tensor)
    return b""
