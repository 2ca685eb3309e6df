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

import zipfile
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import sentencepiece, wire, word_list
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import HEAD, Findings, PassedOver, Reader, Source, constant
from vocabtool.formats.saved_model.graph import Node
from vocabtool.formats.sentencepiece import KINDS, SENTENCEPIECE, pieces_of
from vocabtool.formats.wire import Cursor, Table, Tables
from vocabtool.formats.zip_archive import ZipArchive
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

HASHTABLE, FIND, IMPORT = 136, 137, 138  # BuiltinOperators

LARGE: Final = 1 << 10  # bytes of options; in an unknown operator, these may contain words
SAME_AS: Final = {b"TFSentencepieceTokenizeOp": b"TFText>FastSentencepieceTokenize"}

MAX_TABLES: Final = 1_000_000  # graphs, their tensors and operators, and codes of operators
MAX_READ: Final = 4  # times the file's size, as buffers may overlap
MAX_INPUTS: Final = 8  # inputs of an operator that are looked at


class _Model:
    """The walk over a model. ``findings``: what it has read so far."""

    def __init__(self, source: Source) -> None:
        root = wire.flatbuffer_root(map_file(source.file))
        self._file = source.name
        self._buffers = root.tables(MODEL_BUFFERS)
        self._bytes_left = MAX_READ * source.size
        self._tables_left = MAX_TABLES
        self._used = {0}  # buffers whose strings were read; buffer 0 is empty by convention
        self._unknown: dict[int | None, Unknown] = {}  # by table
        self._filled: list[tuple[int | None, Table, Table]] = []  # tables, their keys and values
        self.findings = Findings()
        self._codes = {
            number: (code.integer(CODE_BUILTIN), code.text(CODE_CUSTOM))
            for number, code in enumerate(self._tables(root, MODEL_CODES))
        }
        graphs = [
            (self._tables(graph, GRAPH_TENSORS), self._tables(graph, GRAPH_OPERATORS))
            for graph in self._tables(root, MODEL_GRAPHS)
        ]
        for number, (tensors, operators) in enumerate(graphs):
            self._read_operators(tensors, operators, f"graph {number}, operator ")
        for table, keys, values in self._filled:
            name = printable(keys.text(TENSOR_NAME)) or "table"
            place = Place(self._file, f"table filled from tensor {name}")
            with self.findings.warning(place.place, kind=InvalidFile):
                entries, ids = self._strings(keys), self._integers(values)
                self._used.add(keys.uint(TENSOR_BUFFER))
                words = Vocabulary.from_ids(name, "table", entries, ids, places=(place,))
                self.findings.lists.append(replace(words, unknown=self._unknown.get(table)))
        for number, (tensors, _) in enumerate(graphs):
            self._read_constants(tensors, f"graph {number}, tensor ")

    def _tables(self, table: Table, field: int) -> Tables:
        tables = table.tables(field)
        self._tables_left -= len(tables)
        if self._tables_left < 0:
            raise UnsupportedFormat(f"more than {MAX_TABLES:,} tensors and operators")
        return tables

    def _read_operators(self, tensors: Tables, operators: Tables, scope: str) -> None:
        # One graph imports keys and values into a table; another one looks words up in it.
        table_of: dict[int, int] = {}
        for operator in operators:
            builtin, custom = self._codes.get(operator.uint(OPERATOR_CODE), (0, b""))
            if not custom and builtin not in (HASHTABLE, FIND, IMPORT):
                continue
            inputs = operator.vector(OPERATOR_INPUTS, "<i4")[:MAX_INPUTS].tolist()
            outputs = operator.vector(OPERATOR_OUTPUTS, "<i4")[:1].tolist()
            if custom:
                place = Place(self._file, scope + printable(custom))
                with self.findings.warning(place.place, "its words are not read"):
                    name = _name(tensors, outputs[0]) if outputs else printable(custom)
                    operands = [tensors[number] for number in inputs if number >= 0]
                    self._read_tokenizer(operator, custom, operands, name, place)
            elif builtin == HASHTABLE:
                table_id = operator.table(OPERATOR_OPTIONS).integer(TABLE_ID)
                table_of |= dict.fromkeys(outputs, table_id)
            elif len(inputs) == 3 and builtin == IMPORT:  # a table, keys and values
                keys, values = tensors[inputs[1]], tensors[inputs[2]]
                # The words of an inverse table are listed as a constant.
                if keys.byte(TENSOR_TYPE) == STRING and values.byte(TENSOR_TYPE) in INTEGERS:
                    self._filled.append((table_of.get(inputs[0]), keys, values))
            elif len(inputs) == 3 and inputs[0] in table_of:  # a table, a key and the default
                for default in self._integers(tensors[inputs[2]])[:1].tolist():
                    self._unknown[table_of[inputs[0]]] = Unknown(default)

    def _read_tokenizer(
        self, operator: Table, custom: bytes, operands: list[Table], name: str, place: Place
    ) -> None:
        op = SAME_AS.get(custom, custom.removeprefix(b"Flex"))
        options, data = self._bytes(operator, OPERATOR_CUSTOM_OPTIONS), b""
        if op == SENTENCEPIECE:
            for node in wire.flexbuffer_strings(options)[1:2]:  # the operator's name, its NodeDef
                data = Node.parse(node, (0, len(node))).bytes_of(b"model")
        elif op in KINDS:
            for tensor in operands:
                if tensor.byte(TENSOR_TYPE) in BYTES:
                    data = data or self._value(tensor)
        elif len(options) >= LARGE:
            raise InvalidFile(f"an unknown operator: its {len(options):,} bytes may contain words")
        else:
            return
        if not data:
            raise InvalidFile("the operator does not contain its tokenizer model")
        self.findings.lists.append(replace(pieces_of(op, data), name=name, places=(place,)))

    def _read_constants(self, tensors: Tables, scope: str) -> None:
        for number, tensor in enumerate(tensors):
            buffer = tensor.uint(TENSOR_BUFFER)
            if tensor.byte(TENSOR_TYPE) != STRING or buffer in self._used:
                continue
            self._used.add(buffer)
            name = _name(tensors, number)
            place = Place(self._file, scope + name)
            with self.findings.warning(place.place, kind=InvalidFile):
                entries = self._strings(tensor)
                if len(entries):
                    self.findings.lists.append(constant(name, entries, place))

    def _value(self, tensor: Table) -> bytes:
        buffer = self._buffers[tensor.uint(TENSOR_BUFFER)]
        if buffer.has(BUFFER_OFFSET):
            raise InvalidFile("a value that is stored after the flatbuffer is not read")
        return self._bytes(buffer, BUFFER_DATA)

    def _bytes(self, table: Table, field: int) -> bytes:
        value = table.vector(field, "u1")
        self._bytes_left -= len(value)
        if self._bytes_left < 0:
            raise UnsupportedFormat("the buffers of the model overlap")
        return value.tobytes()

    def _integers(self, tensor: Table) -> NDArray[np.int64]:
        """Return the integers of a tensor: int64, shape (n,); none for other types."""
        if tensor.byte(TENSOR_TYPE) not in INTEGERS:
            return np.zeros(0, np.int64)
        value, item = self._value(tensor), np.dtype(INTEGERS[tensor.byte(TENSOR_TYPE)])
        return np.frombuffer(value, item, len(value) // item.itemsize).astype(np.int64)

    def _strings(self, tensor: Table) -> ByteStrings:
        # Layout: a count, the start of each string, the end of the last one (all int32), the text.
        data = self._value(tensor)
        if not data:
            return ByteStrings.of(())
        cursor = Cursor(data, 0, "the list of strings")
        count = cursor.number("<I")
        bounds = np.frombuffer(data, "<i4", count + 1, cursor.skip(4 * (count + 1)))
        least, most = cursor.position, len(data)
        if bounds[0] < least or bounds[-1] > most or (bounds[1:] < bounds[:-1]).any():
            what = f"the offsets of the strings go from {bounds[0]:,} to {bounds[-1]:,}; wanted"
            raise InvalidFile(f"{what} ascending offsets between {least:,} and {most:,}")
        return ByteStrings(data, bounds[:-1], bounds[1:])


def _name(tensors: Tables, number: int) -> str:
    return printable(tensors[number].text(TENSOR_NAME)) or f"tensor {number}"


def _read(source: Source) -> Findings:
    findings = _Model(source).findings
    if zipfile.is_zipfile(source.file):
        with findings.warning("appended files are not read"), ZipArchive(source.file) as archive:
            for member in archive.names:
                name = printable(member.encode("utf-8", "surrogateescape"))
                place = Place(source.name, f"appended file {name}")
                with findings.warning(f"{place.place} is not read"):
                    data = archive.read(member)
                    why_not = word_list.why_not_words(data[:HEAD], len(data))
                    if sentencepiece.looks_like_model(data[:HEAD]):
                        findings.lists.append(sentencepiece.vocabulary(data, name, place))
                    elif why_not:
                        why = f"not a word list: {why_not}"
                        findings.lists.append(PassedOver(name, 0, place, why))
                    else:
                        findings.lists.append(word_list.words(data, name, place, kind="asset"))
    return findings


READER: Final = Reader(
    "TFLite", lambda source: None if source.head[4:8] == b"TFL3" else "no 'TFL3' at byte 4", _read
)
