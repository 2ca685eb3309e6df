"""Read GraphDef and FunctionDef: nodes, parsed only when needed, and the tensors of constants.

Layouts: tensorflow/core/framework/{graph,function,node_def,attr_value,op_def}.proto. At first, only
the positions of nodes are read. To find a node, the bytes of the graph are searched for the name of
the node or of its op.

The value of a constant is a TensorProto (tensor.proto): strings, integers or raw bytes, in a typed
field (``string_val``, ``int_val``, ``int64_val``) or packed in ``tensor_content``. If there are
fewer values than elements, the last value repeats. Floats are never read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import wire
from vocabtool.formats.wire import LEN, MAX_ELEMENTS, MAX_RANK, Buffer, Message, Span
from vocabtool.system.byte_strings import ByteStrings

# Tensors.

DT_INT32, DT_UINT8, DT_INT8, DT_STRING, DT_INT64, DT_BOOL = 3, 4, 6, 7, 9, 10
INTEGERS: Final = {DT_INT32: "<i4", DT_INT64: "<i8"}

# Limits for a repeated last value: no vocabulary needs more, but a tensor of 60 bytes can declare
# 2^26 elements, for which TensorFlow needs 1.6 GB.
MAX_REPEATED: Final = 1 << 16
MAX_REPEATED_BYTES: Final = 64 << 20

# The fields of a TensorProto that contain values.
CONTENT, INT_VAL, STRING_VAL, INT64_VAL, BOOL_VAL = 4, 7, 8, 10, 11


class Tensor(NamedTuple):
    """The dtype and shape of the TensorProto at ``span``; the values are read on request."""

    buffer: Buffer
    span: Span
    dtype: int
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        elements = prod(self.shape)
        if any(size < 0 for size in self.shape) or elements > MAX_ELEMENTS:
            shape = ", ".join(map(str, self.shape[:8])) + (", ..." if len(self.shape) > 8 else "")
            raise InvalidFile(f"invalid shape of a tensor: [{shape}]", offset=self.span[0])
        return elements

    @classmethod
    def parse(cls, buffer: Buffer, span: Span) -> Self:
        dtype = 0
        shape: list[int] | None = None
        for number, wire_type, start, end in wire.fields(buffer, *span):
            if number == 1 and wire_type == wire.VARINT:
                dtype, _ = wire.varint(buffer, start, end)
            elif number == 2 and wire_type == LEN:
                shape = []
                for dim in wire.messages(buffer, (start, end), 2):
                    shape.append(Message(buffer, dim).integer(1))
                    if len(shape) > MAX_RANK:
                        what = f"a tensor has more than {MAX_RANK} dimensions"
                        raise InvalidFile(what, offset=dim[0])
            elif dtype and shape is not None:
                break
        return cls(buffer, span, dtype, tuple(shape or ()))

    def strings(self) -> ByteStrings:
        """Return the elements of a string tensor in row-major order."""
        message = Message(self.buffer, self.span, strings_field=STRING_VAL)
        entries, content = message.strings, message.value(CONTENT)
        if content:
            return wire.length_list(content, self.elements)
        missing = self._count_missing(len(entries))
        if not missing:
            return entries
        if not len(entries):
            return ByteStrings.of([b""] * missing)
        if len(entries[-1]) * missing > MAX_REPEATED_BYTES:
            what = "the last string is too long to be repeated in the rest of the tensor"
            raise InvalidFile(what, offset=self.span[0])
        return entries.take(np.minimum(np.arange(self.elements), len(entries) - 1))

    def integers(self) -> NDArray[np.int64]:
        """Return the elements of an int32 or int64 tensor, row-major: int64, shape (elements,)."""
        message, dtype = Message(self.buffer, self.span), np.dtype(INTEGERS[self.dtype])
        content = message.value(CONTENT)
        if content:
            if len(content) != self.elements * dtype.itemsize:
                what = f"wanted {self.elements:,} integers of {dtype.itemsize} bytes, got"
                raise InvalidFile(f"{what} {len(content):,} bytes", offset=self.span[0])
            return np.frombuffer(content, dtype).astype(np.int64)
        field = INT_VAL if self.dtype == DT_INT32 else INT64_VAL
        packed = [self.buffer[start:end] for start, end in message.spans(field)]
        unpacked = message.integer(field, 1 << 63) < 1 << 63
        if len(packed) > 1 or (packed and unpacked):
            raise InvalidFile("the integers of a tensor are not together", offset=self.span[0])
        numbers = np.fromiter(() if packed else message.integers(field), np.int64)
        for values in packed:
            count = int((np.frombuffer(values, np.uint8) < 128).sum())
            self._count_missing(count)
            numbers, _ = wire.varint_run(values, count)
        missing = self._count_missing(len(numbers))
        last = numbers[-1] if len(numbers) else 0
        return np.append(numbers, np.full(missing, last, np.int64)) if missing else numbers

    def scalar(self) -> int | bytes | None:
        """Return the value of a tensor of one string or integer, else ``None``."""
        if self.elements == 1 and self.dtype == DT_STRING:
            return self.strings()[0]
        return int(self.integers()[0]) if self.elements == 1 and self.dtype in INTEGERS else None

    def boolean(self) -> bool:
        """Return the value of a bool tensor of one element; ``False`` if it is not stored."""
        message = Message(self.buffer, self.span)
        return any(message.text(CONTENT, 1)) or any(message.integers(BOOL_VAL))

    def raw_bytes(self) -> bytes:
        return Message(self.buffer, self.span).value(CONTENT)

    def _count_missing(self, stored: int) -> int:
        """Return how often the last of ``stored`` values is repeated to fill the shape."""
        missing = self.elements - stored
        if not 0 <= missing <= MAX_REPEATED:
            what = f"the tensor's shape has {self.elements:,} elements, but the file stores"
            only = "only " if missing > 0 else ""
            raise InvalidFile(f"{what} {only}{stored:,}", offset=self.span[0])
        return missing


# Nodes and bodies.

SMALL_NODE: Final = 1 << 12  # bytes; a search always yields the larger nodes, which are few
MAX_SEARCHES: Final = 64  # after this many searches, a body is indexed by name
MAX_NODES: Final = 400_000  # of a graph; also inputs of a node, saved objects and captures
MAX_FUNCTIONS: Final = 100_000

# Marks: bytes that occur in the nodes that readers search for.
TABLE_OP: Final = b"Table"  # HashTableV2, LookupTableFindV2, InitializeTableV2, ...
PIECE_OP: Final = b"piece"  # SentencepieceOp, WordpieceTokenizeWithOffsets, ...
PHRASE_OP: Final = b"PhraseTokenize"
STRING_TYPE: Final = b"\x12\x02\x30\x07"  # an attribute with the value DT_STRING

ABSENT: Final[Span] = (0, 0)  # of a missing attribute
GRAPH_NODE, FUNCTION_NODE = 1, 3  # fields of the NodeDefs of a GraphDef and of a FunctionDef


class Reference(NamedTuple):
    """An input of a node: an output of another node, or an argument of the function.

    ``name``: of that node or argument. ``output_name``: in a function, such as ``values`` in
    ``node:values:0``; otherwise empty. ``output``: the number of the output, from 0.
    """

    name: bytes
    output_name: bytes
    output: int

    @classmethod
    def parse(cls, text: bytes) -> Reference:
        """Parse ``node``, ``node:output`` or, in a function, ``node:output_name:output``."""
        name, *rest = text.split(b":")
        index = rest[-1] if rest and rest[-1].isdigit() else b"0"
        return cls(name, rest[0] if len(rest) == 2 else b"", int(index[:9]))


NOWHERE: Final = Reference(b"", b"", 0)  # an input that a node does not have


class Node(NamedTuple):
    """One NodeDef. ``data_inputs``: the inputs that carry tensors, without control inputs."""

    buffer: Buffer
    name: bytes
    op: bytes
    data_inputs: tuple[Reference, ...]
    attributes: dict[bytes, Span]

    @classmethod
    def parse(cls, buffer: Buffer, span: Span) -> Node:
        node = Message(buffer, span, MAX_NODES + 1_000)  # inputs, and attributes
        inputs = (buffer[start:end] for start, end in node.spans(3))
        entries = node.messages(5)
        attributes = {entry.value(1): value for entry in entries for value in entry.spans(2)}
        # A control input carries no tensor.
        data_inputs = tuple(Reference.parse(text) for text in inputs if not text.startswith(b"^"))
        return cls(buffer, node.value(1), node.value(2), data_inputs, attributes)

    def data_input(self, position: int) -> Reference:
        return self.data_inputs[position] if position < len(self.data_inputs) else NOWHERE

    def bytes_of(self, key: bytes) -> bytes:
        return self._value(key).value(2)

    def integer_of(self, key: bytes, default: int = 0) -> int:
        value = self._value(key)
        return value.integer(3, value.integer(5, value.integer(6, default)))

    def integers_of(self, key: bytes) -> tuple[int, ...]:
        lists = self._value(key).messages(1)
        return tuple(number for values in lists for number in values.integers(3))

    def constant(self) -> Tensor | None:
        """Return the value of a ``Const``; ``None`` for other ops."""
        spans = self._value(b"value").spans(8) if self.op == b"Const" else ()
        return Tensor.parse(self.buffer, spans[0]) if spans else None

    def function(self) -> bytes:
        """Return the function that the attribute ``f`` names; ``b""`` if there is none."""
        return next(iter(self.functions_of(b"f")), b"")

    def functions_of(self, key: bytes) -> list[bytes]:
        """Return the names of the functions in an attribute, such as all branches of a ``Case``."""
        return [function.value(1) for function in self._value(key).messages(10)]

    def called_functions(self) -> set[bytes]:
        """Return the functions that the attributes name, and the op: it may be a function."""
        attributes = map(self._value, self.attributes)
        functions = (function for value in attributes for function in value.messages(10))
        return {self.op, *(function.value(1) for function in functions)}

    def _value(self, key: bytes) -> Message:
        return Message(self.buffer, self.attributes.get(key, ABSENT))


class Body:
    """The nodes of one graph or function; each is parsed when it is first needed.

    ``name``: ``b""`` for the main graph. ``returns``: references in the order of the outputs. The
    number of a node is its position among all nodes.
    """

    def __init__(self, buffer: Buffer, node_field: int) -> None:
        self.buffer = buffer
        self.name = b""
        self.arguments: tuple[bytes, ...] = ()
        self.returns: tuple[Reference, ...] = ()
        self._tag = node_field << 3 | LEN
        self._starts = array("Q")  # by number
        self._ends = array("Q")
        # Copies of the bytes of consecutive small nodes, for searching, and where each run begins.
        self._runs: list[tuple[int, bytes]] = []
        self._large: list[int] = []  # the numbers of the other nodes
        self._parsed: dict[int, Node] = {}  # by number
        self._marked: dict[bytes, tuple[Node, ...]] = {}
        self._searches = 0

    def read(self, span: Span) -> Iterator[tuple[int, Span]]:
        """Store the positions of all nodes; yield field number and span of other submessages."""
        # A hot loop: it reads about three bytes of each node and parses nothing.
        buffer, tag, others = self.buffer, self._tag, 0
        pos, end = span
        while pos < end:
            run = pos  # where a run of small nodes begins
            while pos < end and buffer[pos] == tag:
                if pos + 3 < end and buffer[pos + 2] < 128:  # nearly always: a length of 1-2 bytes
                    length, start = buffer[pos + 1], pos + 2
                    if length > 127:
                        length = (length & 127) | (buffer[start] << 7)
                        start = pos + 3
                else:
                    length, start = wire.varint(buffer, pos + 1, end)
                node_end = start + length
                if node_end > end:
                    what = f"a node extends {node_end - end:,} bytes past the end of its graph"
                    raise InvalidFile(what, offset=pos)
                if length > SMALL_NODE:
                    if pos > run:
                        self._runs.append((run, buffer[run:pos]))
                    self._large.append(len(self._starts))
                    run = node_end
                self._starts.append(start)
                self._ends.append(node_end)
                pos = node_end
            if len(self._starts) > MAX_NODES or others > MAX_NODES:
                raise UnsupportedFormat(f"a graph has more than {MAX_NODES:,} nodes or other parts")
            if pos > run:
                self._runs.append((run, buffer[run:pos]))
            if pos < end:
                number, wire_type, start, pos = next(wire.fields(buffer, pos, end))
                others += 1
                if wire_type == LEN:
                    yield number, (start, pos)

    def __iter__(self) -> Iterator[Node]:
        for span in zip(self._starts, self._ends, strict=True):
            yield Node.parse(self.buffer, span)

    def has_ops(self) -> bool:
        """Return whether the first node has an op. If not, the file is not a graph."""
        return len(self._starts) > 0 and self._node(0).op != b""

    def search(self, needle: bytes) -> Iterator[Node]:
        """Yield all nodes that may contain ``needle``; the caller must check each."""
        for offset, run in self._runs:
            at = run.find(needle)
            while at >= 0:
                number = bisect_right(self._starts, offset + at) - 1
                if number >= 0:
                    yield self._node(number)
                    at = max(at + 1, self._ends[number] - offset)
                else:  # in the tag or the length of the first node
                    at += 1
                at = run.find(needle, at)
        yield from map(self._node, self._large)

    def nodes_with(self, mark: bytes) -> tuple[Node, ...]:
        if mark not in self._marked:
            self._marked[mark] = tuple(self.search(mark))
        return self._marked[mark]

    def _node(self, number: int) -> Node:
        node = self._parsed.get(number)
        if node is None:
            span = (self._starts[number], self._ends[number])
            node = self._parsed[number] = Node.parse(self.buffer, span)
        return node

    def node(self, name: bytes) -> Node | None:
        if self._searches < MAX_SEARCHES:
            self._searches += 1
            # A short name follows its tag and its length.
            needle = b"\n%c%b" % (len(name), name) if len(name) < 128 else name
            return next((node for node in self.search(needle) if node.name == name), None)
        number = self._numbers.get(name)
        return None if number is None else self._node(number)

    def consumers(self, name: bytes) -> list[tuple[Node, int]]:
        """Return each node with an input from the node ``name``, and the position of that input."""
        if self._searches < MAX_SEARCHES:
            self._searches += 1
            return [
                (node, position)
                for node in self.search(name)
                for position, reference in enumerate(node.data_inputs)
                if reference.name == name
            ]
        return [(self._node(number), position) for number, position in self._uses.get(name, ())]

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The number of the first node with each name."""
        numbers: dict[bytes, int] = {}
        for number, span in enumerate(zip(self._starts, self._ends, strict=True)):
            numbers.setdefault(Message(self.buffer, span).value(1), number)
        return numbers

    @cached_property
    def _uses(self) -> dict[bytes, list[tuple[int, int]]]:
        """For each node, the nodes that use it, as (number, position of the input)."""
        uses: dict[bytes, list[tuple[int, int]]] = {}
        for number, node in enumerate(self):
            for position, reference in enumerate(node.data_inputs):
                uses.setdefault(reference.name, []).append((number, position))
        return uses


def read_graph(buffer: Buffer, span: Span) -> tuple[Body, dict[bytes, Body]]:
    """Read a GraphDef: return its main graph, and its functions by name."""
    main = Body(buffer, GRAPH_NODE)
    functions: dict[bytes, Body] = {}
    count = 0
    for number, library in main.read(span):
        for function in wire.messages(buffer, library, 1) if number == 2 else ():
            body = Body(buffer, FUNCTION_NODE)
            outputs: tuple[bytes, ...] = ()
            returned: dict[bytes, Reference] = {}
            for field, submessage_span in body.read(function):
                submessage = Message(buffer, submessage_span)
                if field == 1:  # the signature
                    body.name = submessage.value(1)
                    body.arguments = tuple(argument.value(1) for argument in submessage.messages(2))
                    outputs = tuple(output.value(1) for output in submessage.messages(3))
                elif field == 4:
                    returned[submessage.value(1)] = Reference.parse(submessage.value(2))
            body.returns = tuple(returned.get(name, NOWHERE) for name in outputs)
            functions[body.name] = body
            count += 1  # several may have one name
            if count > MAX_FUNCTIONS:
                raise UnsupportedFormat(f"a graph has more than {MAX_FUNCTIONS:,} functions")
    return main, functions
