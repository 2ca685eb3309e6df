"""ONNX models: the lists of strings in nodes and initializers, and the ids that go with them.

Layout: onnx/onnx, onnx/onnx.proto. ModelProto: 7 graph, 20 training_info, 25 functions; a graph or
function has nodes, a node attributes, and an attribute may hold a graph again. Weights are not
read, and no file beside the model
is opened. What each operator does with its strings is in ``onnx_operators.py`` and
``onnx_extensions.py``, how strings and integers lie in the file in ``onnx_values.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError
from vocabtool.formats import onnx_extensions, onnx_values, sentencepiece, sentencepiece_file, wire
from vocabtool.formats.mapped import mapped
from vocabtool.formats.model import PassedOver
from vocabtool.formats.onnx_operators import (
    OPERATORS,
    WANTED,
    Attributes,
    Finding,
    list_of_strings,
)
from vocabtool.formats.onnx_values import Attribute
from vocabtool.formats.reader import HEAD, Reader, ReadResult, Source
from vocabtool.formats.wire import LEN, VARINT, Buffer, Span
from vocabtool.vocabulary import Place, Vocabulary, is_utf8, printable

IR_VERSION: Final = 1
MODEL_GRAPH: Final = 7
OPSETS: Final = 8
TRAINING: Final = 20
FUNCTIONS: Final = 25
# The fields of ModelProto and their wire types.
MODEL_FIELDS: Final = {
    **dict.fromkeys((IR_VERSION, 5), VARINT),
    **dict.fromkeys((2, 3, 4, 6, MODEL_GRAPH, OPSETS, 14, TRAINING, FUNCTIONS, 26), LEN),
}
GRAPH_FIELDS: Final = frozenset((1, 2, 5, 10, 11, 12, 13, 14, 15, 16))  # all length-delimited
GRAPH_NODES: Final = 1
FUNCTION_NODES: Final = 7
INITIALIZERS: Final = 5
OUTPUT: Final = 2
NAME: Final = 3
OP: Final = 4
ATTRIBUTES: Final = 5
DOMAIN: Final = 7

MAX_PARTS: Final = 1_000_000  # nodes, attributes, graphs and initializers
MAX_DEPTH: Final = 16  # of graphs in nodes of graphs
MAX_LISTS: Final = 10_000
LARGE: Final = 1 << 10  # bytes of a string that may be a whole tokenizer

# Those of onnxruntime-extensions: what we do not know there may hold words.
EXTENSIONS: Final = (b"ai.onnx.contrib", b"com.microsoft.extensions")
NO_WORDS: Final = {
    b"nodes_modes": "how the nodes of a tree compare, not words",
    b"separators": "where texts are cut, not words",
}


def recognise(source: Source) -> str | None:
    """``None`` for a ModelProto: only its fields, among them a version and a graph.

    A SavedModel begins with the same two fields, but has no seventh; a GraphDef and a SentencePiece
    model begin with bytes where a ModelProto has a number.
    """
    seen: set[int] = set()
    head = source.head
    try:
        for number, wire_type, start in _outline(head, source.size):
            if MODEL_FIELDS.get(number) != wire_type:
                return f"field {number} of wire type {wire_type} is none of ONNX's ModelProto"
            if number == MODEL_GRAPH and start < len(head) and not _begins_graph(head[start]):
                return "its field 7 does not begin like a graph of ONNX"
            seen.add(number)
    except InvalidFile as error:
        return f"not the framing of a protobuf: {error.what}"
    if not seen & {IR_VERSION, OPSETS}:
        return "no version of ONNX in its first fields"
    return None if MODEL_GRAPH in seen else f"no graph in its first {HEAD:,} bytes"


def _begins_graph(byte: int) -> bool:
    return byte & 7 == LEN and byte >> 3 in GRAPH_FIELDS


def _outline(head: bytes, size: int) -> Iterator[tuple[int, int, int]]:
    """Number, wire type and start of each field that begins in ``head``."""
    pos = 0
    while pos < len(head):
        try:
            key, start = wire.varint(head, pos, len(head))
            length, behind = wire.varint(head, start, len(head))
        except InvalidFile:
            if len(head) < size and pos > len(head) - 20:
                return  # cut off with the head
            raise
        if key & 7 not in (LEN, VARINT):
            raise InvalidFile(f"wire type {key & 7} is none of ONNX's ModelProto", offset=pos)
        pos = behind + length if key & 7 == LEN else behind
        if pos > size:
            raise InvalidFile(f"field {key >> 3} runs past the end of the file", offset=start)
        yield key >> 3, key & 7, behind if key & 7 == LEN else start


def read(source: Source) -> ReadResult:
    """The vocabularies of every graph and function of a model."""
    model = _Model(mapped(source.file), source.name)
    vocabularies: list[Vocabulary] = []
    passed_over: list[PassedOver] = []
    for finding in model.findings():
        if isinstance(finding, Vocabulary):
            vocabularies.append(finding)
        else:
            passed_over.append(finding)
        if len(vocabularies) + len(passed_over) >= MAX_LISTS:
            model.warnings.append(f"more than {MAX_LISTS:,} lists of strings: the rest not read")
            break
    return ReadResult((*vocabularies, *passed_over), tuple(model.warnings))


class _Model:
    """One model, walked from its top; ``warnings``: what could not be read, and why."""

    def __init__(self, buffer: Buffer, file: str) -> None:
        self.buffer = buffer
        self.file = file
        self.warnings: list[str] = []
        self._parts = 0

    def findings(self) -> Iterator[Finding]:
        """Every list of strings, as a vocabulary or passed over."""
        for number, wire_type, start, end in wire.fields(self.buffer, 0, len(self.buffer)):
            if wire_type != LEN:
                continue
            if number == MODEL_GRAPH:
                yield from self._graph((start, end), "", 0)
            elif number == TRAINING:
                for field in (1, 2):  # initialization, algorithm
                    for graph in wire.messages(self.buffer, (start, end), field):
                        yield from self._graph(graph, "training, ", 0)
            elif number == FUNCTIONS:
                name = printable(wire.last_bytes(self.buffer, (start, end), 1)[:99])
                yield from self._all_nodes((start, end), FUNCTION_NODES, f"function {name}, ", 0)

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise UnsupportedFormat(f"a model of more than {MAX_PARTS:,} nodes and attributes")

    def _graph(self, span: Span, scope: str, depth: int) -> Iterator[Finding]:
        """``scope``: where the graph lies, for people."""
        self._count()
        for part in wire.messages(self.buffer, span, INITIALIZERS):
            self._count()
            try:
                yield from self._tensor(part, f"{scope}initializer ", None)
            except InvalidFile as error:
                self.warnings.append(f"{scope}an initializer: {error}")
        yield from self._all_nodes(span, GRAPH_NODES, scope, depth)

    def _all_nodes(self, span: Span, field: int, scope: str, depth: int) -> Iterator[Finding]:
        for node in wire.messages(self.buffer, span, field):
            self._count()
            yield from self._node(node, scope, depth)

    def _node(self, span: Span, scope: str, depth: int) -> Iterator[Finding]:
        words: dict[int, bytes] = {}
        for number, wire_type, start, end in wire.fields(self.buffer, *span):
            if number in (OUTPUT, NAME, OP, DOMAIN) and wire_type == LEN and start < end:
                words[number] = self.buffer[start : min(end, start + onnx_values.MAX_NAME)]
        op = words.get(OP, b"")
        name = printable(words.get(NAME) or words.get(OUTPUT) or op)
        place = f"{scope}node {name}"
        if op in onnx_extensions.OPERATORS:
            yield from self._extension(span, op, name, place)
            return
        known: Attributes = {}
        wanted = WANTED.get(op, ())
        for part in wire.messages(self.buffer, span, ATTRIBUTES):
            self._count()
            try:
                attribute = onnx_values.attribute(self.buffer, part)
                if attribute.name in wanted:
                    known[attribute.name] = self._with_tensor(attribute, place)
                elif not attribute.has_graph:
                    yield from self._attribute(attribute, name, place, words.get(DOMAIN, b""))
            except VocabtoolError as error:
                self.warnings.append(f"{place}: {error}")
                continue
            if attribute.has_graph:
                yield from self._subgraphs(part, f"{place}, ", depth + 1)
        if op in OPERATORS and known:
            try:
                yield from OPERATORS[op](known, name, Place(self.file, f"{place} ({op.decode()})"))
            except InvalidFile as error:
                self.warnings.append(f"{place}: {error}: its words are not read")

    def _extension(self, span: Span, op: bytes, name: str, place: str) -> Iterator[Finding]:
        """What an operator of onnxruntime-extensions holds as text."""
        try:
            texts: dict[bytes, bytes] = {}
            for part in wire.messages(self.buffer, span, ATTRIBUTES):
                self._count()
                attribute = onnx_values.attribute(self.buffer, part)
                if attribute.string is not None:
                    texts[attribute.name] = self.buffer[slice(*attribute.string)]
            where = Place(self.file, f"{place} ({op.decode()})")
            yield from onnx_extensions.OPERATORS[op](texts, name, where)
        except VocabtoolError as error:
            self.warnings.append(f"{place} ({op.decode()}): {error}: its words are not read")

    def _subgraphs(self, span: Span, scope: str, depth: int) -> Iterator[Finding]:
        if depth > MAX_DEPTH:
            self.warnings.append(f"graphs in nodes, more than {MAX_DEPTH} deep: not read")
            return
        for field in (onnx_values.GRAPH, onnx_values.GRAPHS):
            for graph in wire.messages(self.buffer, span, field):
                yield from self._graph(graph, scope, depth)

    def _with_tensor(self, attribute: Attribute, place: str) -> Attribute:
        """The values of a tensor in place of a list, as newer versions of an operator have it."""
        if attribute.tensor is None:
            return attribute
        tensor = onnx_values.tensor(self.buffer, attribute.tensor, integers=True)
        if tensor.is_external and tensor.is_string:
            self._warn_external(place)
        return attribute._replace(strings=tensor.strings, integers=tensor.integers)

    def _attribute(
        self, attribute: Attribute, name: str, place: str, domain: bytes
    ) -> Iterator[Finding]:
        """A list of strings of which no operator says what it is for, or a whole tokenizer."""
        shown = printable(attribute.name)
        if attribute.tensor is not None:
            yield from self._tensor(attribute.tensor, f"{place}: {shown} ", name)
        if len(attribute.strings):
            why = NO_WORDS.get(attribute.name)
            where = Place(self.file, f"{place}: {shown}")
            yield list_of_strings(attribute.strings, f"{name}.{shown}", where, why)
        if attribute.string is not None and attribute.string[1] - attribute.string[0] >= LARGE:
            yield from self._large_string(attribute.string, name, f"{place}: {shown}", domain)

    def _large_string(
        self, span: Span, name: str, place: str, domain: bytes
    ) -> Iterator[Vocabulary]:
        """A SentencePiece model; what else may be words is said to be unread."""
        start, end = span
        head = self.buffer[start : min(end, start + HEAD)]
        if sentencepiece.recognise(head):
            yield sentencepiece_file.model(self.buffer[start:end], name, Place(self.file, place))
        elif domain in EXTENSIONS or is_utf8(head, cut=True):
            self.warnings.append(f"{place}: {end - start:,} bytes of text or a tokenizer: not read")

    def _tensor(self, span: Span, place: str, name: str | None) -> Iterator[Finding]:
        """The strings of a tensor; ``name``: its node's, where it is not an initializer."""
        tensor = onnx_values.tensor(self.buffer, span)
        own = printable(tensor.name)
        where = f"{place}{own if name is None else ''}".strip()
        if tensor.is_string and tensor.is_external:
            self._warn_external(where)
        elif len(tensor.strings):
            name = name or own or "initializer"
            yield list_of_strings(tensor.strings, name, Place(self.file, where))

    def _warn_external(self, place: str) -> None:
        self.warnings.append(f"{place}: its strings are said to lie in another file: not opened")


READER: Final = Reader("ONNX", recognise, read)
