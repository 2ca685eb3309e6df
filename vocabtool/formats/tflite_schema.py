"""The parts of a TFLite model: its graphs, their tensors and operators, the values of tensors.

Layout: tensorflow/compiler/mlir/lite/schema/schema.fbs (Model, SubGraph, Tensor, Operator, Buffer)
and tensorflow/lite/string_util.h (strings in a buffer). Weights are not read. What the tensors are
for is in ``tflite_tables.py``, ``tflite_tokenizers.py`` and ``tflite.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import flatbuffer
from vocabtool.formats.flatbuffer import Table
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import printable

# The fields of Model, SubGraph, Tensor, Buffer, Operator and OperatorCode.
MODEL_CODES: Final = 1
MODEL_GRAPHS: Final = 2
MODEL_BUFFERS: Final = 4
GRAPH_TENSORS: Final = 0
GRAPH_OPERATORS: Final = 3
TENSOR_TYPE: Final = 1
TENSOR_BUFFER: Final = 2
TENSOR_NAME: Final = 3
BUFFER_DATA: Final = 0
BUFFER_OFFSET: Final = 1  # of data that lies behind the flatbuffer, in models over 2 GB
OPERATOR_CODE: Final = 0
OPERATOR_INPUTS: Final = 1
OPERATOR_OUTPUTS: Final = 2
OPERATOR_OPTIONS: Final = 4
OPERATOR_CUSTOM_OPTIONS: Final = 5
CODE_CUSTOM: Final = 1
CODE_BUILTIN: Final = 3

STRING: Final = 5  # a TensorType
BYTES: Final = (3, 9)  # UINT8 and INT8
INTEGERS: Final = {2: "<i4", 4: "<i8"}  # INT32 and INT64

MAX_PARTS: Final = 1_000_000  # tensors, operators and their codes of all graphs
MAX_READ: Final = 4  # times the file's size: two buffers may lie at one place
MAX_NAME: Final = 256  # bytes of a name that we keep
MAX_LISTED: Final = 8  # inputs or outputs of an operator that we keep


class Tensor(NamedTuple):
    """``type``: a TensorType; ``buffer``: the number of its value's buffer, 0 for none."""

    name: str
    type: int
    buffer: int


class Operator(NamedTuple):
    """``code``: a BuiltinOperator; ``inputs``, ``outputs``: numbers of tensors of its graph.

    ``custom``: the name of an operator that TensorFlow Lite does not have itself, else ``b""``.
    """

    code: int
    custom: bytes
    inputs: list[int]
    outputs: list[int]
    table: Table

    def option(self, field: int) -> int:
        """An integer of the operator's options."""
        return self.table.table(OPERATOR_OPTIONS).integer(field)


class Graph:
    """One graph of a model. ``parts``: how much there is to look through."""

    def __init__(self, model: Table, graph: Table) -> None:
        self._codes = model.tables(MODEL_CODES)
        self._tensors = graph.tables(GRAPH_TENSORS)
        self._operators = graph.tables(GRAPH_OPERATORS)
        self.parts = len(self._codes) + len(self._tensors) + len(self._operators) + 1

    def tensor(self, number: int) -> Tensor:
        """The tensor of a number. Raises :class:`InvalidFile` where there is none."""
        table = self._tensors[number]
        name = printable(table.vector(TENSOR_NAME, "u1")[:MAX_NAME].tobytes())
        return Tensor(
            name or f"tensor {number}", table.byte(TENSOR_TYPE), table.unsigned(TENSOR_BUFFER)
        )

    def string_tensors(self) -> Iterator[Tensor]:
        """Those of strings that have a value: buffer 0 is empty by convention."""
        for number, table in enumerate(self._tensors):
            if table.byte(TENSOR_TYPE) == STRING and table.unsigned(TENSOR_BUFFER):
                yield self.tensor(number)

    def operators(self, codes: frozenset[int]) -> Iterator[Operator]:
        """The operators of these codes, in order."""
        return self._operators_of(lambda code: code.integer(CODE_BUILTIN) in codes)

    def custom_operators(self) -> Iterator[Operator]:
        """Those that have a name of their own, in order."""
        return self._operators_of(lambda code: code.has(CODE_CUSTOM))

    def _operators_of(self, is_wanted: Callable[[Table], bool]) -> Iterator[Operator]:
        numbers = {at for at, code in enumerate(self._codes) if is_wanted(code)}
        for table in self._operators:
            number = table.unsigned(OPERATOR_CODE)
            if number in numbers:
                code = self._codes[number]
                yield Operator(
                    code.integer(CODE_BUILTIN),
                    code.vector(CODE_CUSTOM, "u1")[:MAX_NAME].tobytes(),
                    table.vector(OPERATOR_INPUTS, "<i4")[:MAX_LISTED].tolist(),
                    table.vector(OPERATOR_OUTPUTS, "<i4")[:MAX_LISTED].tolist(),
                    table,
                )


class Model:
    """A TFLite model, over the file's own bytes."""

    def __init__(self, buffer: Buffer) -> None:
        table = flatbuffer.root(buffer)
        self._table = table
        self._buffers = table.tables(MODEL_BUFFERS)
        self._left = MAX_READ * len(buffer)

    def graphs(self) -> Iterator[Graph]:
        """Every graph; those behind the first are for its control flow and initialisation."""
        parts = 0
        for table in self._table.tables(MODEL_GRAPHS):
            graph = Graph(self._table, table)
            parts += graph.parts
            if parts > MAX_PARTS:
                raise UnsupportedFormat(f"a model of more than {MAX_PARTS:,} tensors and operators")
            yield graph

    def value(self, tensor: Tensor) -> bytes:
        """The bytes of a tensor's value."""
        holder = self._buffers[tensor.buffer]
        if holder.has(BUFFER_OFFSET):
            raise InvalidFile("its value lies behind the flatbuffer of the model: not read")
        return self._bytes(holder, BUFFER_DATA)

    def custom_options(self, operator: Operator) -> bytes:
        """What an operator with a name of its own was told."""
        return self._bytes(operator.table, OPERATOR_CUSTOM_OPTIONS)

    def _bytes(self, table: Table, field: int) -> bytes:
        value = table.vector(field, "u1")
        self._left -= len(value)
        if self._left < 0:
            raise UnsupportedFormat("a model whose buffers lie on top of each other")
        return value.tobytes()

    def integers(self, tensor: Tensor) -> NDArray[np.int64] | None:
        """The value of a tensor of whole numbers: shape (n,); ``None`` for another one."""
        if tensor.type not in INTEGERS:
            return None
        value, item = self.value(tensor), np.dtype(INTEGERS[tensor.type])
        if len(value) % item.itemsize:
            raise InvalidFile(f"{len(value):,} bytes of numbers that take {item.itemsize} each")
        return np.frombuffer(value, item).astype(np.int64)

    def strings(self, tensor: Tensor) -> ByteStrings:
        """The value of a string tensor: a count, where each begins, where the last ends, bytes."""
        data = self.value(tensor)
        if not data:
            return ByteStrings.of(())
        count = int.from_bytes(data[:4], "little", signed=True)
        head = 4 * (count + 2)
        if count < 0 or head > len(data):
            raise InvalidFile(f"{count:,} strings in a buffer of {len(data):,} bytes")
        bounds = np.frombuffer(data, "<i4", count + 1, 4).astype(np.int32)
        if bounds[0] < head or bounds[-1] > len(data) or (bounds[1:] < bounds[:-1]).any():
            raise InvalidFile(
                f"strings from byte {bounds[0]:,} to {bounds[-1]:,} of a buffer of "
                f"{len(data):,}, wanted them in order from {head:,} on"
            )
        return ByteStrings(data, bounds[:-1], bounds[1:])
