"""Read TFLite models: tables, tokenizers, other strings, and word files appended to the model.

Layout: tensorflow/compiler/mlir/lite/schema/schema.fbs (Model, SubGraph, Tensor, Operator, Buffer,
HashtableOptions) and tensorflow/lite/string_util.h (strings in a buffer). Weights are not read.

- The words of a table have ids. Other strings are constants of unknown purpose.
- A TensorFlow operator (``Flex...``) contains its NodeDef in a FlexBuffer vector
  (tensorflow/lite/delegates/flex/kernel.cc). The NodeDef of SentencepieceOp contains the tokenizer.
- An operator of tensorflow-text or tflite-support (custom_ops/kernel/sentencepiece) reads its
  tokenizer from a constant of bytes.
- tflite-support appends a zip archive of vocabularies and labels to the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import sentencepiece, wire, word_list
from vocabtool.formats.files import ZipArchive, map_file
from vocabtool.formats.reader import HEAD, Findings, PassedOver, Reader, Source, constant
from vocabtool.formats.saved_model.graph import Node
from vocabtool.formats.saved_model.tokenizers import KINDS, SENTENCEPIECE, pieces_of
from vocabtool.formats.wire import MAX_NAME, Table
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, printable

# The fields of Model, SubGraph, Tensor, Buffer, Operator, OperatorCode and HashtableOptions.
MODEL_CODES, MODEL_GRAPHS, MODEL_BUFFERS = 1, 2, 4
GRAPH_TENSORS, GRAPH_OPERATORS = 0, 3
TENSOR_TYPE, TENSOR_BUFFER, TENSOR_NAME = 1, 2, 3
BUFFER_DATA, BUFFER_OFFSET = 0, 1  # offset: data after the flatbuffer, in models over 2 GB
OPERATOR_CODE, OPERATOR_INPUTS, OPERATOR_OUTPUTS = 0, 1, 2
OPERATOR_OPTIONS, OPERATOR_CUSTOM_OPTIONS = 4, 5
CODE_CUSTOM, CODE_BUILTIN = 1, 3
TABLE_ID: Final = 0  # graphs that share a table use the same id

STRING: Final = 5  # a TensorType
BYTES: Final = (3, 9)  # UINT8 and INT8
INTEGERS: Final = {2: "<i4", 4: "<i8"}  # INT32 and INT64

HASHTABLE: Final = 136  # BuiltinOperators
FIND: Final = 137  # inputs: a table, a key and the default value
IMPORT: Final = 138  # inputs: a table, keys and values

LARGE: Final = 1 << 10  # bytes of options; in an unknown operator, these may contain words
SAME_AS: Final = {b"TFSentencepieceTokenizeOp": b"TFText>FastSentencepieceTokenize"}

SEARCHED: Final = (1 << 16) + 22  # bytes at the end of a file in which a zip directory may end

MAX_PARTS: Final = 1_000_000  # tensors, operators and their codes of all graphs
MAX_READ: Final = 4  # times the file's size, as buffers may overlap
MAX_INPUTS: Final = 8  # inputs of an operator that are looked at
NOT_READ: Final = "its words are not read"


class _Model:
    """The walk over a model. A tensor is given as its table, or its number in its graph."""

    def __init__(self, source: Source) -> None:
        buffer = map_file(source.file)
        root = wire.flatbuffer_root(buffer)
        self._buffers = root.tables(MODEL_BUFFERS)
        self._left = MAX_READ * len(buffer)
        self._file = source.name
        self._used: set[int] = set()  # buffers whose strings were read
        # by table: the id of unknown words; tables and the tensors that fill them
        self._defaults: dict[int | None, int] = {}
        self._filled: list[tuple[int | None, str, Table, Table]] = []
        self.findings = Findings()
        codes, graphs = root.tables(MODEL_CODES), root.tables(MODEL_GRAPHS)
        parts = 0
        for graph in graphs:
            sizes = (len(graph.tables(part)) for part in (GRAPH_TENSORS, GRAPH_OPERATORS))
            parts += 1 + len(codes) + sum(sizes)
            if parts > MAX_PARTS:
                what = f"the model has more than {MAX_PARTS:,} tensors and operators"
                raise UnsupportedFormat(what)
        wanted = {
            number: (code.integer(CODE_BUILTIN), _start(code, CODE_CUSTOM))
            for number, code in enumerate(codes)
            if code.has(CODE_CUSTOM) or code.integer(CODE_BUILTIN) in (HASHTABLE, FIND, IMPORT)
        }
        for number, graph in enumerate(graphs):
            self._read_operators(graph, wanted, f"graph {number}, operator ")
        for table, name, keys, values in self._filled:
            place = Place(self._file, f"table filled from tensor {name}")
            with self.findings.warning(place.place, NOT_READ, kind=InvalidFile):
                self._read_table(name, keys, values, self._defaults.get(table), place)
        for number, graph in enumerate(graphs):
            self._read_constants(graph, f"graph {number}, tensor ")

    def _read_operators(
        self, graph: Table, wanted: dict[int, tuple[int, bytes]], scope: str
    ) -> None:
        # One graph imports keys and values into a table; another one looks words up in it.
        table_of: dict[int, int] = {}
        tensors = graph.tables(GRAPH_TENSORS)
        for operator in graph.tables(GRAPH_OPERATORS):
            code, custom = wanted.get(operator.uint(OPERATOR_CODE), (0, b""))
            if not code and not custom:
                continue
            inputs = operator.vector(OPERATOR_INPUTS, "<i4")[:MAX_INPUTS].tolist()
            outputs = operator.vector(OPERATOR_OUTPUTS, "<i4")[:1].tolist()
            if custom:
                place = Place(self._file, scope + printable(custom))
                with self.findings.warning(place.place, NOT_READ):
                    name = printable(custom)
                    if outputs:
                        name = _name(tensors[outputs[0]], f"tensor {outputs[0]}")
                    given = [tensors[number] for number in inputs if number >= 0]
                    self._read_tokenizer(operator, custom, given, name, place)
            elif code == HASHTABLE:
                table_id = operator.table(OPERATOR_OPTIONS).integer(TABLE_ID)
                table_of |= dict.fromkeys(outputs, table_id)
            elif len(inputs) == 3 and code == IMPORT:
                keys, values = tensors[inputs[1]], tensors[inputs[2]]
                name = _name(keys, f"tensor {inputs[1]}")
                self._filled.append((table_of.get(inputs[0]), name, keys, values))
            elif len(inputs) == 3 and inputs[0] in table_of:
                numbers = self._integers(tensors[inputs[2]])
                if numbers is not None and len(numbers) == 1:
                    self._defaults[table_of[inputs[0]]] = int(numbers[0])

    def _read_table(
        self, name: str, keys: Table, values: Table, default: int | None, place: Place
    ) -> None:
        ids = self._integers(values)
        if keys.byte(TENSOR_TYPE) != STRING or ids is None:
            return  # an inverse table; its words are listed as a constant
        entries = self._strings(keys)
        if len(entries) != len(ids):
            raise InvalidFile(f"{len(entries):,} words, but {len(ids):,} ids")
        self._used.add(keys.uint(TENSOR_BUFFER))
        unknown = None if default is None else Unknown(default)
        self.findings.found.append(
            Vocabulary.from_ids(name, "table", entries, ids, unknown=unknown, places=(place,))
        )

    def _read_tokenizer(
        self, operator: Table, custom: bytes, tensors: list[Table], name: str, place: Place
    ) -> None:
        op = custom.removeprefix(b"Flex")
        op = SAME_AS.get(op, op)
        options = self._bytes(operator, OPERATOR_CUSTOM_OPTIONS)
        if op == SENTENCEPIECE:
            strings = wire.flexbuffer_strings(options)  # the operator's name, its NodeDef
            if len(strings) < 2:
                raise InvalidFile("the operator's options contain no NodeDef")
            data = Node.parse(strings[1], (0, len(strings[1]))).bytes_of(b"model")
        elif op in KINDS:
            models = [tensor for tensor in tensors if tensor.byte(TENSOR_TYPE) in BYTES]
            models = [tensor for tensor in models if tensor.uint(TENSOR_BUFFER)]
            data = self._value(models[0]) if models else b""
        elif len(options) >= LARGE:
            what = f"an unknown operator, whose options ({len(options):,} bytes) may contain words"
            raise InvalidFile(what)
        else:
            return
        if not data:
            raise InvalidFile("the operator does not contain its tokenizer model")
        self.findings.found.append(replace(pieces_of(op, data), name=name, places=(place,)))

    def _read_constants(self, graph: Table, scope: str) -> None:
        for number, tensor in enumerate(graph.tables(GRAPH_TENSORS)):
            buffer = tensor.uint(TENSOR_BUFFER)  # buffer 0 is empty by convention
            if tensor.byte(TENSOR_TYPE) != STRING or not buffer or buffer in self._used:
                continue
            self._used.add(buffer)
            name = _name(tensor, f"tensor {number}")
            place = Place(self._file, scope + name)
            with self.findings.warning(place.place, kind=InvalidFile):
                if entries := self._strings(tensor):
                    note = "the purpose of these strings is unknown"
                    self.findings.found.append(constant(name, entries, place, (note,)))

    def _value(self, tensor: Table) -> bytes:
        holder = self._buffers[tensor.uint(TENSOR_BUFFER)]
        if holder.has(BUFFER_OFFSET):
            what = "the tensor's value was not read, because it is stored after the flatbuffer"
            raise InvalidFile(what)
        return self._bytes(holder, BUFFER_DATA)

    def _bytes(self, table: Table, field: int) -> bytes:
        value = table.vector(field, "u1")
        self._left -= len(value)
        if self._left < 0:
            raise UnsupportedFormat("the buffers of the model overlap")
        return value.tobytes()

    def _integers(self, tensor: Table) -> NDArray[np.int64] | None:
        layout = INTEGERS.get(tensor.byte(TENSOR_TYPE))
        if layout is None or not tensor.uint(TENSOR_BUFFER):
            return None
        value, item = self._value(tensor), np.dtype(layout)
        return np.frombuffer(value, item, len(value) // item.itemsize).astype(np.int64)

    def _strings(self, tensor: Table) -> ByteStrings:
        """Return the strings of a tensor.

        Layout: a count, the start of each string, the end of the last string (int32), and the text.
        """
        data = self._value(tensor)
        if not data:
            return ByteStrings.of(())
        count = int.from_bytes(data[:4], "little", signed=True)
        head = 4 * (count + 2)
        if count < 0 or head > len(data):
            raise InvalidFile(f"{count:,} strings do not fit in a buffer of {len(data):,} bytes")
        bounds = np.frombuffer(data, "<i4", count + 1, 4).astype(np.int32)
        if bounds[0] < head or bounds[-1] > len(data) or (bounds[1:] < bounds[:-1]).any():
            what = f"the offsets of the strings go from {bounds[0]:,} to {bounds[-1]:,}; wanted"
            raise InvalidFile(f"{what} ascending offsets between {head:,} and {len(data):,}")
        return ByteStrings(data, bounds[:-1], bounds[1:])


def _start(table: Table, field: int) -> bytes:
    return table.vector(field, "u1")[:MAX_NAME].tobytes()


def _name(tensor: Table, otherwise: str) -> str:
    return printable(_start(tensor, TENSOR_NAME)) or otherwise


def _read(source: Source) -> Findings:
    findings = _Model(source).findings
    with source.file.open("rb") as opened:
        opened.seek(max(0, source.size - SEARCHED))
        is_followed = b"PK\x05\x06" in opened.read(SEARCHED)
    if not is_followed:
        return findings
    with (
        findings.warning("the files appended to the model are not read"),
        ZipArchive(source.file) as archive,
    ):
        for member in archive.names:
            name = printable(member.encode("utf-8", "surrogateescape"))
            place = Place(source.name, f"appended file {name}")
            with findings.warning(f"{place.place} is not read"):
                data = archive.read(member)
                if sentencepiece.looks_like_model(data[:HEAD]):
                    findings.found.append(sentencepiece.vocabulary(data, name, place))
                elif why := word_list.why_not_words(data[:HEAD], len(data)):
                    why = f"an appended file that is not a word list: {why}"
                    findings.found.append(PassedOver(name, 0, place, why))
                else:
                    findings.found.append(word_list.words(data, name, place, kind="asset"))
    return findings


READER: Final = Reader(
    "TFLite", lambda source: None if source.head[4:8] == b"TFL3" else "no 'TFL3' at byte 4", _read
)
