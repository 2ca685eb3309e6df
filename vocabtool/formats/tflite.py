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

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import sentencepiece, wire, word_list
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import (
    HEAD,
    Finding,
    Findings,
    PassedOver,
    Reader,
    Source,
    constant,
)
from vocabtool.formats.saved_model.graph import Node
from vocabtool.formats.saved_model.tokenizers import KINDS, SENTENCEPIECE, vocabulary_of
from vocabtool.formats.wire import Table
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

HASHTABLE: Final = 136  # BuiltinOperators
FIND: Final = 137  # inputs: a table, a key and the default value
IMPORT: Final = 138  # inputs: a table, keys and values

LARGE: Final = 1 << 10  # bytes of options; in an unknown operator, these may contain words
# Field 2 of their model lists the output for each id, with spaces instead of piece markers.
DETOKENIZERS: Final = (b"TFText>FastSentencepieceDetokenize", b"TFSentencepieceDetokenizeOp")
WRITTEN: Final = 2
SAME_AS: Final = {b"TFSentencepieceTokenizeOp": b"TFText>FastSentencepieceTokenize"}

SEARCHED: Final = (1 << 16) + 22  # bytes at the end of a file in which a zip directory may end

MAX_PARTS: Final = 1_000_000  # tensors, operators and their codes of all graphs
MAX_READ: Final = 4  # times the file's size, as buffers may overlap
MAX_NAME: Final = 256  # bytes of a name that are kept
MAX_LISTED: Final = 8  # inputs or outputs of an operator that are kept
MAX_PACKED: Final = 100  # files appended to a model
MAX_LINES: Final = 1 << 22  # of all appended files together
NOT_READ: Final = "its words are not read"


class _Tensor(NamedTuple):
    name: str
    type: int  # a TensorType
    buffer: int  # index of the buffer with the value; 0: none


class _Operator(NamedTuple):
    code: int  # a BuiltinOperator
    custom: bytes  # name of a custom operator, or empty
    inputs: list[int]  # indexes of tensors of the graph
    outputs: list[int]
    table: Table


class _Model:
    def __init__(self, source: Source) -> None:
        buffer = map_file(source.file)
        self._table = wire.flatbuffer_root(buffer)
        self._codes = self._table.tables(MODEL_CODES)
        self._buffers = self._table.tables(MODEL_BUFFERS)
        self._left = MAX_READ * len(buffer)
        self._file = source.name
        self._used: set[int] = set()  # buffers whose strings were read
        self.findings = Findings()

    def graphs(self) -> Iterator[Table]:
        parts = 0
        for graph in self._table.tables(MODEL_GRAPHS):
            parts += len(self._codes) + len(graph.tables(GRAPH_TENSORS)) + 1
            parts += len(graph.tables(GRAPH_OPERATORS))
            if parts > MAX_PARTS:
                raise UnsupportedFormat(
                    f"the model has more than {MAX_PARTS:,} tensors and operators"
                )
            yield graph

    def operators(self, graph: Table, is_wanted: Callable[[Table], bool]) -> Iterator[_Operator]:
        numbers = {at for at, code in enumerate(self._codes) if is_wanted(code)}
        for table in graph.tables(GRAPH_OPERATORS):
            number = table.uint(OPERATOR_CODE)
            if number in numbers:
                code = self._codes[number]
                yield _Operator(
                    code.integer(CODE_BUILTIN),
                    code.vector(CODE_CUSTOM, "u1")[:MAX_NAME].tobytes(),
                    table.vector(OPERATOR_INPUTS, "<i4")[:MAX_LISTED].tolist(),
                    table.vector(OPERATOR_OUTPUTS, "<i4")[:MAX_LISTED].tolist(),
                    table,
                )

    def tables(self) -> Iterator[Finding]:
        # One graph imports keys and values into a table; another one looks words up in it.
        defaults: dict[int, int] = {}
        imported: list[tuple[int | None, _Tensor, _Tensor]] = []
        for graph in self.graphs():
            table_of: dict[int, int] = {}
            for operator in self.operators(
                graph, lambda code: code.integer(CODE_BUILTIN) in (HASHTABLE, FIND, IMPORT)
            ):
                if operator.code == HASHTABLE:
                    table_id = operator.table.table(OPERATOR_OPTIONS).integer(TABLE_ID)
                    table_of |= dict.fromkeys(operator.outputs, table_id)
                elif len(operator.inputs) == 3:
                    table = table_of.get(operator.inputs[0])
                    if operator.code == IMPORT:
                        keys, values = (_tensor(graph, at) for at in operator.inputs[1:])
                        imported.append((table, keys, values))
                    elif table is not None:
                        tensor = _tensor(graph, operator.inputs[2])
                        numbers = self._integers(tensor) if tensor.buffer else None
                        if numbers is not None and len(numbers) == 1:
                            defaults[table] = int(numbers[0])
        for table, keys, values in imported:
            place = Place(self._file, f"table filled from tensor {keys.name}")
            default = None if table is None else defaults.get(table)
            with self.findings.warning(place.place, NOT_READ, kind=InvalidFile):
                yield from self._vocabulary(keys, values, default, place)

    def _vocabulary(
        self, words: _Tensor, numbers: _Tensor, default: int | None, place: Place
    ) -> Iterator[Vocabulary]:
        inverse = words.type != STRING
        if inverse:
            words, numbers, default = numbers, words, None
        ids = self._integers(numbers)
        if words.type != STRING or ids is None:
            return
        entries = self._strings(words)
        if len(entries) != len(ids):
            raise InvalidFile(f"{len(entries):,} words, but {len(ids):,} ids")
        self._used.add(words.buffer)
        yield Vocabulary.from_ids(
            words.name,
            "table",
            entries,
            ids,
            unknown=None if default is None else Unknown(default),
            places=(place,),
            notes=("an inverse table: it maps ids to entries",) if inverse else (),
        )

    def tokenizers(self) -> Iterator[Finding]:
        for number, graph in enumerate(self.graphs()):
            for operator in self.operators(graph, lambda code: code.has(CODE_CUSTOM)):
                name = printable(operator.custom)
                place = Place(self._file, f"graph {number}, operator {name}")
                with self.findings.warning(place.place, NOT_READ):
                    yield from self._tokenizer(graph, operator, place)

    def _tokenizer(self, graph: Table, operator: _Operator, place: Place) -> Iterator[Finding]:
        op = operator.custom.removeprefix(b"Flex")
        op = SAME_AS.get(op, op)
        options = self._bytes(operator.table, OPERATOR_CUSTOM_OPTIONS)
        if op == SENTENCEPIECE:
            strings = wire.flexbuffer_strings(options)  # the operator's name, its NodeDef
            if len(strings) < 2:
                raise InvalidFile(
                    f"the operator's options contain {len(strings)} strings, wanted 2: a name and "
                    "a NodeDef"
                )
            data = Node.parse(strings[1], (0, len(strings[1]))).bytes_of(b"model")
        elif op in KINDS or op in DETOKENIZERS:
            tensors = [_tensor(graph, number) for number in operator.inputs if number >= 0]
            models = [each for each in tensors if each.type in BYTES and each.buffer]
            data = self._value(models[0]) if models else b""
        elif len(options) >= LARGE:
            raise InvalidFile(
                f"an unknown operator, whose options ({len(options):,} bytes) may contain words"
            )
        else:
            return
        if not data:
            raise InvalidFile("the operator does not contain its tokenizer model")
        outputs = operator.outputs
        name = _tensor(graph, outputs[0]).name if outputs else printable(operator.custom)
        if op in DETOKENIZERS:
            count = len(wire.flatbuffer_root(data).strings(WRITTEN))
            yield PassedOver(name, count, place, "the output of a detokenizer for each id")
        else:
            yield vocabulary_of(op, data, name, place)

    def constants(self) -> Iterator[Finding]:
        for number, graph in enumerate(self.graphs()):
            for at, table in enumerate(graph.tables(GRAPH_TENSORS)):
                buffer = table.uint(TENSOR_BUFFER)  # buffer 0 is empty by convention
                if table.byte(TENSOR_TYPE) != STRING or not buffer or buffer in self._used:
                    continue
                self._used.add(buffer)
                tensor = _tensor(graph, at)
                place = Place(self._file, f"graph {number}, tensor {tensor.name}")
                with self.findings.warning(place.place, kind=InvalidFile):
                    entries = self._strings(tensor)
                    if len(entries):
                        note = "the purpose of these strings is unknown"
                        yield constant(tensor.name, entries, place, (note,))

    def _value(self, tensor: _Tensor) -> bytes:
        holder = self._buffers[tensor.buffer]
        if holder.has(BUFFER_OFFSET):
            raise InvalidFile(
                "the tensor's value was not read, because it is stored after the flatbuffer"
            )
        return self._bytes(holder, BUFFER_DATA)

    def _bytes(self, table: Table, field: int) -> bytes:
        value = table.vector(field, "u1")
        self._left -= len(value)
        if self._left < 0:
            raise UnsupportedFormat("the buffers of the model overlap")
        return value.tobytes()

    def _integers(self, tensor: _Tensor) -> NDArray[np.int64] | None:
        if tensor.type not in INTEGERS:
            return None
        value, item = self._value(tensor), np.dtype(INTEGERS[tensor.type])
        if len(value) % item.itemsize:
            size = item.itemsize
            what = f"the numbers take {len(value):,} bytes, wanted a multiple of {size}"
            raise InvalidFile(what)
        return np.frombuffer(value, item).astype(np.int64)

    def _strings(self, tensor: _Tensor) -> ByteStrings:
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
            raise InvalidFile(
                f"the offsets of the strings go from {bounds[0]:,} to {bounds[-1]:,}; wanted "
                f"ascending offsets between {head:,} and {len(data):,}"
            )
        return ByteStrings(data, bounds[:-1], bounds[1:])


def _tensor(graph: Table, number: int) -> _Tensor:
    table = graph.tables(GRAPH_TENSORS)[number]
    name = printable(table.vector(TENSOR_NAME, "u1")[:MAX_NAME].tobytes())
    return _Tensor(name or f"tensor {number}", table.byte(TENSOR_TYPE), table.uint(TENSOR_BUFFER))


def _recognise(source: Source) -> str | None:
    return None if source.head[4:8] == b"TFL3" else "no 'TFL3' at byte 4"


def _read(source: Source) -> Findings:
    model = _Model(source)
    findings = model.findings
    findings.found += [*model.tables(), *model.tokenizers(), *model.constants()]
    with source.file.open("rb") as opened:
        opened.seek(max(0, source.size - SEARCHED))
        is_followed = b"PK\x05\x06" in opened.read(SEARCHED)
    if is_followed:
        with findings.warning("the files appended to the model are not read"):
            _read_packed(source, findings)
    return findings


READER: Final = Reader("TFLite", _recognise, _read)


def _read_packed(source: Source, findings: Findings) -> None:
    with ZipArchive(source.file) as archive:
        if len(archive.names) > MAX_PACKED:
            count = len(archive.names)
            findings.warnings.append(
                f"{count:,} appended files: only the first {MAX_PACKED} are read"
            )
        lines = 0
        for member in archive.names[:MAX_PACKED]:
            name = printable(member.encode("utf-8", "surrogateescape"))
            with findings.warning(f"appended file {name} is not read"):
                data = archive.read(member)
                lines += data.count(b"\n")
                if lines > MAX_LINES:
                    raise InvalidFile(f"more than {MAX_LINES:,} lines in the appended files")
                findings.found.append(
                    _packed_words(data, name, Place(source.name, f"appended file {name}"))
                )


def _packed_words(data: bytes, name: str, place: Place) -> Finding:
    if sentencepiece.looks_like_model(data[:HEAD]):
        return sentencepiece.vocabulary(data, name, place)
    why_not = word_list.why_not_words(data[:HEAD], len(data))
    if why_not is not None:
        return PassedOver(name, 0, place, f"an appended file that is not a word list: {why_not}")
    words, ids = word_list.word_and_number(data) or (None, None)
    if words is not None and ids is not None and len(np.unique(ids)) == len(ids):
        notes = (word_list.WORD_AND_ID,)
        return Vocabulary.from_ids(name, "table", words, ids, places=(place,), notes=notes)
    return word_list.words(data, name, place, kind="asset")
