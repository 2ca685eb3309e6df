"""Read ONNX models: lists of strings in nodes and initializers, and their ids.

Layout: onnx/onnx, onnx/onnx.proto. Fields of a ModelProto: 7 graph, 20 training_info, 25 functions.
Graphs and functions have nodes, nodes have attributes, and an attribute may contain another graph.
Weights are never read, and no file beside the model is opened. ``onnx_operators.py`` interprets the
strings of each operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import onnx_operators, sentencepiece, wire
from vocabtool.formats.files import map_file
from vocabtool.formats.onnx_operators import (
    NO_INTEGERS,
    NO_STRINGS,
    Integers,
    Values,
    list_of_strings,
)
from vocabtool.formats.reader import HEAD, Finding, Findings, Reader, Source
from vocabtool.formats.wire import FIXED32, LEN, VARINT, Buffer, Span
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, is_utf8, printable

# The fields of ModelProto, GraphProto (all length-delimited) and FunctionProto.
IR_VERSION, MODEL_GRAPH, OPSETS, TRAINING, FUNCTIONS = 1, 7, 8, 20, 25
MODEL_FIELDS: Final = {
    **dict.fromkeys((IR_VERSION, 5), VARINT),
    **dict.fromkeys((2, 3, 4, 6, MODEL_GRAPH, OPSETS, 14, TRAINING, FUNCTIONS, 26), LEN),
}
GRAPH_FIELDS: Final = frozenset((1, 2, 5, 10, 11, 12, 13, 14, 15, 16))
GRAPH_NODES, INITIALIZERS, FUNCTION_NODES = 1, 5, 7
# The fields of NodeProto, AttributeProto and TensorProto.
OUTPUT, NODE_NAME, OP, ATTRIBUTES, DOMAIN = 2, 3, 4, 5, 7
NAME, INTEGER, STRING, TENSOR, GRAPH, FLOATS, INTEGERS, STRINGS, GRAPHS = 1, 3, 4, 5, 6, 7, 8, 9, 11
DATA_TYPE, INT32_DATA, STRING_DATA, INT64_DATA, TENSOR_NAME, RAW_DATA = 2, 5, 6, 7, 8, 9
EXTERNAL_DATA, DATA_LOCATION = 13, 14
TYPE_STRING: Final = 8
NUMBERS: Final = {6: (INT32_DATA, "<i4"), 7: (INT64_DATA, "<i8")}  # by data type: int32, int64

NO_FIELD: Final = -1
MAX_FIELD: Final = 32  # highest field number that is kept, plus one
MAX_NAME: Final = 256  # bytes of a name that are kept
FLOATS_TAG: Final = FLOATS << 3 | FIXED32
MAX_RUNS: Final = 1000  # all known writers write one run; each further run takes time
WINDOW: Final = 1 << 16  # bytes examined at a time

MAX_PARTS: Final = 1_000_000  # nodes, attributes, graphs and initializers
MAX_DEPTH: Final = 16  # of nested graphs
MAX_LISTS: Final = 10_000
LARGE: Final = 1 << 10  # bytes of a string that may be a whole tokenizer
NOT_READ: Final = "its words are not read"

# The domains of onnxruntime-extensions: their unknown operators may contain words.
EXTENSION_DOMAINS: Final = (b"ai.onnx.contrib", b"com.microsoft.extensions")
NO_WORDS: Final = {
    b"nodes_modes": "comparison modes of tree nodes, not words",
    b"separators": "separators that texts are split at, not words",
}


def _recognise(source: Source) -> str | None:
    """Return ``None`` if a file is an ONNX model, otherwise the reason why not."""
    # A SavedModel may begin with the same bytes, but has no field 7 (the graph).
    seen: set[int] = set()
    buffer = map_file(source.file)
    try:
        for number, wire_type, start, end in wire.fields(buffer, 0, len(buffer)):
            if MODEL_FIELDS.get(number) != wire_type:
                return f"ONNX's ModelProto has no field {number} of wire type {wire_type}"
            if number == MODEL_GRAPH and start < end:
                tag = buffer[start]
                if tag & 7 != LEN or tag >> 3 not in GRAPH_FIELDS:
                    return "its field 7 does not begin like an ONNX graph"
            seen.add(number)
            if end >= HEAD:
                break
    except InvalidFile as error:
        return f"not a protobuf: {error.what}"
    if not seen & {IR_VERSION, OPSETS}:
        return "its first fields have no ONNX version"
    return None if MODEL_GRAPH in seen else f"no graph in its first {HEAD:,} bytes"


def _read(source: Source) -> Findings:
    model = _Model(map_file(source.file), source.name)
    findings = model.findings
    findings.found += islice(model.walk(), MAX_LISTS)
    if len(findings.found) == MAX_LISTS:
        findings.warnings.append(f"more than {MAX_LISTS:,} lists of strings: the rest is not read")
    return findings


READER: Final = Reader("ONNX", _recognise, _read)


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    op: bytes
    domain: bytes
    place: str  # in the model, for display


class _Model:
    def __init__(self, buffer: Buffer, file: str) -> None:
        self._buffer = buffer
        self._file = file
        self._parts = 0
        self.findings = Findings()

    def walk(self) -> Iterator[Finding]:
        for number, wire_type, start, end in wire.fields(self._buffer, 0, len(self._buffer)):
            if wire_type != LEN:
                continue
            if number == MODEL_GRAPH:
                yield from self._graph((start, end), "", 0)
            elif number == TRAINING:
                for field in (1, 2):  # initialization, algorithm
                    for graph in wire.messages(self._buffer, (start, end), field):
                        yield from self._graph(graph, "training, ", 0)
            elif number == FUNCTIONS:
                name = printable(wire.last_bytes(self._buffer, (start, end), 1)[:99])
                yield from self._nodes((start, end), FUNCTION_NODES, f"function {name}, ", 0)

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise UnsupportedFormat(f"the model has more than {MAX_PARTS:,} nodes and attributes")

    def _graph(self, span: Span, scope: str, depth: int) -> Iterator[Finding]:
        if depth > MAX_DEPTH:
            self.findings.warnings.append(f"graphs nested more than {MAX_DEPTH} deep are not read")
            return
        self._count()
        for part in wire.messages(self._buffer, span, INITIALIZERS):
            self._count()
            with self.findings.warning(f"{scope}an initializer"):
                yield from self._tensor(part, f"{scope}initializer ", None)
        yield from self._nodes(span, GRAPH_NODES, scope, depth)

    def _nodes(self, span: Span, field: int, scope: str, depth: int) -> Iterator[Finding]:
        for part in wire.messages(self._buffer, span, field):
            self._count()
            words: dict[int, bytes] = {}
            for number, wire_type, start, end in wire.fields(self._buffer, *part):
                if number in (OUTPUT, NODE_NAME, OP, DOMAIN) and wire_type == LEN and start < end:
                    words[number] = self._buffer[start : min(end, start + MAX_NAME)]
            op = words.get(OP, b"")
            name = printable(words.get(NODE_NAME) or words.get(OUTPUT) or op)
            node = _Node(name, op, words.get(DOMAIN, b""), f"{scope}node {name}")
            if op in onnx_operators.EXTENSIONS:
                yield from self._extension(part, node)
            else:
                yield from self._node(part, node, depth)

    def _node(self, span: Span, node: _Node, depth: int) -> Iterator[Finding]:
        known: dict[bytes, Values] = {}
        operator, wanted = onnx_operators.OPERATORS.get(node.op, (None, ()))
        for part in wire.messages(self._buffer, span, ATTRIBUTES):
            self._count()
            has_graph = False
            with self.findings.warning(node.place):
                fields = _Fields(self._buffer, part, STRINGS, INTEGERS)
                name = fields.text(NAME)
                has_graph = GRAPH in fields.spans or GRAPHS in fields.spans
                if name in wanted:
                    known[name] = self._values(fields, node)
                elif not has_graph:
                    yield from self._attribute(name, fields, node)
            if has_graph:
                for field in (GRAPH, GRAPHS):
                    for graph in wire.messages(self._buffer, part, field):
                        yield from self._graph(graph, f"{node.place}, ", depth + 1)
        if operator is not None and known:
            place = Place(self._file, f"{node.place} ({node.op.decode()})")
            with self.findings.warning(node.place, NOT_READ):
                yield from operator(known, node.name, place)

    def _extension(self, span: Span, node: _Node) -> Iterator[Finding]:
        place = f"{node.place} ({node.op.decode()})"
        with self.findings.warning(place, NOT_READ):
            texts: dict[bytes, bytes] = {}
            for part in wire.messages(self._buffer, span, ATTRIBUTES):
                self._count()
                fields = _Fields(self._buffer, part, STRINGS, INTEGERS)
                if STRING in fields.spans:
                    texts[fields.text(NAME)] = self._buffer[slice(*fields.spans[STRING])]
            operator = onnx_operators.EXTENSIONS[node.op]
            found = operator(texts, node.name, Place(self._file, place))
            yield from (found,) if isinstance(found, Vocabulary) else found

    def _values(self, fields: _Fields, node: _Node) -> Values:
        integer = fields.numbers.get(INTEGER)
        if TENSOR not in fields.spans:
            return Values(integer, fields.strings, fields.integers)
        span = fields.spans[TENSOR]  # newer versions of operators store their values in a tensor
        tensor = _Fields(self._buffer, span, STRING_DATA, NO_FIELD)
        data_type = tensor.numbers.get(DATA_TYPE)
        if data_type == TYPE_STRING:
            if tensor.is_external:
                self._warn_external(node.place)
            return Values(integer, tensor.strings)
        if data_type not in NUMBERS:
            return Values(integer)
        field, item = NUMBERS[data_type]
        start, end = tensor.spans.get(RAW_DATA, (0, 0))
        if start == end:
            return Values(integer, integers=_Fields(self._buffer, span, NO_FIELD, field).integers)
        width = np.dtype(item).itemsize
        if (end - start) % width:
            what = f"the numbers take {end - start:,} bytes, wanted a multiple of {width}"
            raise InvalidFile(what, offset=start)
        numbers = np.frombuffer(self._buffer[start:end], item).astype(np.int64)
        return Values(integer, integers=numbers)

    def _attribute(self, name: bytes, fields: _Fields, node: _Node) -> Iterator[Finding]:
        shown = printable(name)
        where = Place(self._file, f"{node.place}: {shown}")
        if TENSOR in fields.spans:
            yield from self._tensor(fields.spans[TENSOR], where.place, node.name)
        if len(fields.strings):
            why = NO_WORDS.get(name)
            yield list_of_strings(fields.strings, f"{node.name}.{shown}", where, why)
        start, end = fields.spans.get(STRING, (0, 0))
        if end - start < LARGE:
            return
        head = self._buffer[start : min(end, start + HEAD)]
        if sentencepiece.looks_like_model(head):
            yield sentencepiece.vocabulary(self._buffer[start:end], node.name, where)
        elif node.domain in EXTENSION_DOMAINS or is_utf8(head, cut=True):
            what = f"{end - start:,} bytes of text, possibly a tokenizer"
            self.findings.warnings.append(f"{where.place}: {what}: not read")

    def _tensor(self, span: Span, place: str, name: str | None) -> Iterator[Finding]:
        """Yield the strings of a tensor.

        ``name``: the name of the node that contains the tensor; ``None`` for an initializer.
        """
        tensor = _Fields(self._buffer, span, STRING_DATA, NO_FIELD)
        if tensor.numbers.get(DATA_TYPE) != TYPE_STRING:
            return
        own = printable(tensor.text(TENSOR_NAME))
        where = f"{place}{own if name is None else ''}".strip()
        if tensor.is_external:
            self._warn_external(where)
        elif len(tensor.strings):
            name = name or own or "initializer"
            yield list_of_strings(tensor.strings, name, Place(self._file, where))

    def _warn_external(self, place: str) -> None:
        why = "its strings are in another file, which is not opened"
        self.findings.warnings.append(f"{place}: {why}")


class _Fields:
    def __init__(self, buffer: Buffer, span: Span, strings_field: int, integers_field: int) -> None:
        self.numbers: dict[int, int] = {}  # by field number: the last value
        self.spans: dict[int, Span] = {}  # by field number: where the last payload is
        self._buffer = buffer
        self._strings: list[ByteStrings] = []
        self._integers: list[Integers] = []
        data: bytes | None = None  # set at the first run
        base, end = span
        pos = base
        string_tag, integer_tag = strings_field << 3 | LEN, integers_field << 3 | VARINT
        runs = 0
        while pos < end:
            tag = buffer[pos]
            if tag not in (string_tag, integer_tag, FLOATS_TAG):
                number, wire_type, start, pos = next(wire.fields(buffer, pos, end))
                if number == integers_field and wire_type == LEN:
                    packed = buffer[start:pos]
                    count = int(np.count_nonzero(np.frombuffer(packed, np.uint8) < 128))
                    self._integers.append(wire.varint_run(packed, count)[0])
                elif number < MAX_FIELD and wire_type == LEN:
                    self.spans[number] = (start, pos)
                elif number < MAX_FIELD and wire_type == VARINT:
                    self.numbers[number] = wire.to_signed(wire.varint(buffer, start, pos)[0])
                continue
            if data is None:
                data, base = buffer[pos:end], pos
            if tag == string_tag:
                run, pos = wire.string_fields(data, pos - base, len(data), string_tag)
                self._strings.append(run)
            elif tag == integer_tag:
                integers, pos = _read_run(data, pos - base, integer_tag)
                self._integers.append(integers)
            else:
                pos = _past_floats(data, pos - base)
            pos += base
            runs += 1
            if runs > MAX_RUNS:
                what = f"the values of a list are in more than {MAX_RUNS} separate groups"
                raise InvalidFile(what, offset=pos)
        if pos > end:
            raise InvalidFile("values run past the end of their message", offset=end)

    @cached_property
    def strings(self) -> ByteStrings:
        if len(self._strings) > 1:
            return ByteStrings.of(value for run in self._strings for value in run)
        return self._strings[0] if self._strings else NO_STRINGS

    @property
    def integers(self) -> Integers:
        return np.concatenate(self._integers) if self._integers else NO_INTEGERS

    def text(self, field: int) -> bytes:
        start, end = self.spans.get(field, (0, 0))
        return self._buffer[start : min(end, start + MAX_NAME)]

    @property
    def is_external(self) -> bool:
        return self.numbers.get(DATA_LOCATION) == 1 or EXTERNAL_DATA in self.spans


def _read_run(data: bytes, pos: int, tag: int) -> tuple[Integers, int]:
    """Read consecutive varint fields with the tag ``tag``; return their values and end position."""
    # Tags and values are both varints: the run lasts as long as every second varint is the tag.
    found: list[Integers] = []
    while pos < len(data) and data[pos] == tag:
        window = np.frombuffer(data, np.uint8)[pos : pos + WINDOW]
        ends = np.flatnonzero(window < 128) + 1
        starts = np.concatenate(([0], ends[:-1]))[::2][: len(ends) // 2]
        others = np.flatnonzero(window[starts] != tag)
        count = int(others[0]) if len(others) else len(starts)
        if not count:
            raise InvalidFile("a number is truncated or longer than 10 bytes", offset=pos)
        numbers, taken = wire.varint_run(data[pos : pos + WINDOW], 2 * count)
        found.append(numbers[1::2])
        pos += taken
    return np.concatenate(found), pos


def _past_floats(data: bytes, pos: int) -> int:
    array = np.frombuffer(data, np.uint8)
    while pos < len(data):
        others = np.flatnonzero(array[pos : pos + 5 * WINDOW : 5] != FLOATS_TAG)
        if len(others):
            return pos + 5 * int(others[0])
        pos += 5 * WINDOW
    return len(data)
