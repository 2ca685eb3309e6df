"""Read ONNX models: lists of strings in nodes and initializers, and whole tokenizers in attributes.

Layout: onnx/onnx, onnx/onnx.proto and docs/Operators-ml.md. Graphs and functions have nodes, nodes
have attributes, and an attribute may contain another graph. Weights are never read, and no file
beside the model is opened.

The tokenizers of onnxruntime-extensions (microsoft/onnxruntime-extensions, docs/custom_ops.md) have
a whole file in an attribute: ``vocab.txt``, ``vocab.json`` with merges and added tokens,
``tokenizer.json``, or a SentencePiece model. With the input ``fairseq``, the ids of SentencePiece
are changed as in operators/tokenizer/sentencepiece_tokenizer.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import hf_tokenizer, json_file, sentencepiece, wire, word_list
from vocabtool.formats.files import MAX_FILE, map_file
from vocabtool.formats.reader import HEAD, Findings, PassedOver, Reader, Source, constant
from vocabtool.formats.wire import LEN, MAX_NAME, VARINT, Buffer, Span
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, decode, printable

# The fields of ModelProto, GraphProto (all length-delimited) and FunctionProto.
IR_VERSION, MODEL_VERSION, MODEL_GRAPH, OPSETS, FUNCTIONS, LAST = 1, 5, 7, 8, 25, 26
GRAPH_TAGS: Final = tuple(field << 3 | LEN for field in (1, 2, 5, 10, 11, 12, 13, 14, 15))
GRAPH_NODES, INITIALIZERS, FUNCTION_NODES = 1, 5, 7
# The fields of NodeProto, AttributeProto and TensorProto.
INPUT, OUTPUT, NODE_NAME, OP, ATTRIBUTES, DOMAIN = 1, 2, 3, 4, 5, 7
NAME, INTEGER, STRING, TENSOR, GRAPH, FLOATS, INTEGERS, STRINGS, GRAPHS = 1, 3, 4, 5, 6, 7, 8, 9, 11
DATA_TYPE, STRING_DATA, TENSOR_NAME, EXTERNAL, DATA_LOCATION = 2, 6, 8, 13, 14
INTEGER_DATA, RAW_DATA = 5, 9
STRING_TYPE, BOOL_TYPE, ELSEWHERE = 8, 9, 1  # data types, and a location of data

MAX_PARTS: Final = 300_000  # nodes, attributes, graphs and initializers
MAX_DEPTH: Final = 16  # of nested graphs
LARGE: Final = 1 << 10  # bytes of a string that may be a whole tokenizer

KEYS: Final = b"keys_strings"  # of a LabelEncoder, which may also give them numbers or strings
# Lists in which a node looks up strings, and the list with their ids (without it: positions).
IDS: Final = {
    KEYS: b"values_int64s",
    b"cats_strings": b"cats_int64s",
    b"classes_strings": b"",
    b"string_vocabulary": b"",
}
NOT_FOUND: Final = -1  # the default of LabelEncoder, CategoryMapper and WordpieceTokenizer
NO_STRINGS: Final = ByteStrings.of(())
# The position of the input ``fairseq``, and the ids that it gives the first pieces; others get one
# more.
FAIRSEQ: Final = {b"SentencepieceTokenizer": 6, b"SentencepieceDecoder": 1}
FAIRSEQ_IDS: Final = (3, 0, 2)
NO_WORDS: Final = (b"nodes_modes", b"separators", b"stopwords")

# The tokenizers of onnxruntime-extensions: the attribute with the file, and what completes a JSON.
BPE: Final[dict[str, Any]] = {"type": "BPE"}
WORDPIECE: Final[dict[str, Any]] = {"type": "WordPiece", "continuing_subword_prefix": "##"}
BYTE_LEVEL: Final[dict[str, Any]] = {"model": BPE, "pre_tokenizer": {"type": "ByteLevel"}}
TOKENIZERS: Final[dict[bytes, tuple[bytes, dict[str, Any]]]] = {
    **dict.fromkeys((b"BertTokenizer", b"HfBertTokenizer"), (b"vocab_file", {})),
    b"BertTokenizerDecoder": (b"vocab_file", {}),
    **dict.fromkeys((b"GPT2Tokenizer", b"RobertaTokenizer"), (b"vocab", BYTE_LEVEL)),
    b"CLIPTokenizer": (b"vocab", {"model": {**BPE, "end_of_word_suffix": "</w>"}}),
    b"SpmTokenizer": (b"vocab", {"model": BPE, "pre_tokenizer": {"type": "Metaspace"}}),
    b"WordpieceTokenizer": (b"vocab", {"model": WORDPIECE}),
    b"HfJsonTokenizer": (b"tokenizer_vocab", {}),
    **dict.fromkeys((b"SentencepieceTokenizer", b"SentencepieceDecoder"), (b"model", {})),
}
# Their other operators may contain words, too.
EXTENSION_DOMAINS: Final = (b"ai.onnx.contrib", b"com.microsoft.extensions")


def _recognise(source: Source) -> str | None:
    """Return ``None`` if a file is an ONNX model, otherwise the reason why not."""
    # A SavedModel may begin with the same bytes, but has no field 7 (the graph).
    seen: set[int] = set()
    buffer = map_file(source.file)
    try:
        for number, wire_type, start, end in wire.fields(buffer, 0, len(buffer)):
            is_graph = number != MODEL_GRAPH or start == end or buffer[start] in GRAPH_TAGS
            wanted = VARINT if number in (IR_VERSION, MODEL_VERSION) else LEN
            if wire_type != wanted or number > LAST or not is_graph:
                return f"its field {number} is not one of an ONNX model"
            seen.add(number)
            if end >= HEAD:
                break
    except InvalidFile as error:
        return f"not a protobuf: {error.what}"
    if MODEL_GRAPH not in seen:
        return f"no graph in its first {HEAD:,} bytes"
    return None if seen & {IR_VERSION, OPSETS} else "its first fields have no ONNX version"


READER: Final = Reader(
    "ONNX", _recognise, lambda source: _Model(map_file(source.file), source.name).walk()
)


class _Fields:
    """The fields of one message.

    - ``numbers``: by field number, the last varint.
    - ``spans``: by field number, the place of the last payload.
    - ``strings``: the values of the field ``strings_field``.
    - ``integers``: the values of an attribute that is in ``IDS``. Reading ends at any other list of
      numbers, because an attribute contains only one list.
    """

    def __init__(self, buffer: Buffer, span: Span, strings_field: int = 0) -> None:
        self.numbers: dict[int, int] = {}
        self.spans: dict[int, Span] = {}
        self.strings = NO_STRINGS
        self.integers: list[int] = []
        self._buffer = buffer
        pos, end = span
        while pos < end:
            if buffer[pos] == strings_field << 3 | LEN:
                if len(self.strings):
                    raise InvalidFile("the strings of a list are not together", offset=pos)
                data = buffer[pos:end]
                self.strings, length = wire.string_fields(data, 0, len(data), data[0])
                pos += length
                continue
            number, wire_type, start, pos = next(wire.fields(buffer, pos, end))
            if strings_field == STRINGS and number in (FLOATS, INTEGERS):
                if number == FLOATS or self.text(NAME) not in IDS.values():
                    break
                self.integers += wire.integers(buffer, (start, pos), wire_type)
            elif wire_type == LEN:
                self.spans[number] = (start, pos)
            elif wire_type == VARINT:
                self.numbers[number] = wire.to_signed(wire.varint(buffer, start, pos)[0])

    def text(self, number: int, most: int = MAX_NAME) -> bytes:
        start, end = self.spans.get(number, (0, 0))
        return self._buffer[start : min(end, start + most)]


Attributes = dict[bytes, _Fields]


class _Model:
    """The walk over a model. ``findings``: what it has found so far."""

    def __init__(self, buffer: Buffer, file: str) -> None:
        self._buffer = buffer
        self._file = file
        self._parts = 0
        self._true = set[bytes]()  # names of constants that are true
        self.findings = Findings()

    def walk(self) -> Findings:
        whole = (0, len(self._buffer))
        for graph in self._messages(whole, MODEL_GRAPH):
            self._walk_graph(graph, "", 0)
        for function in self._messages(whole, FUNCTIONS):
            name = printable(wire.last_bytes(self._buffer, function, 1)[:MAX_NAME])
            self._walk_nodes(function, FUNCTION_NODES, f"function {name}, ", 0)
        return self.findings

    def _messages(self, span: Span, number: int) -> Iterator[Span]:
        for message in wire.messages(self._buffer, span, number):
            self._parts += 1
            if self._parts > MAX_PARTS:
                raise UnsupportedFormat(f"a model of more than {MAX_PARTS:,} nodes and attributes")
            yield message

    def _walk_graph(self, span: Span, scope: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.findings.warnings.append(f"graphs nested more than {MAX_DEPTH} deep are not read")
            return
        for part in self._messages(span, INITIALIZERS):
            with self.findings.warning(f"{scope}an initializer"):
                tensor = _Fields(self._buffer, part, STRING_DATA)
                self._keep_true(tensor.text(TENSOR_NAME), tensor)
                name = printable(tensor.text(TENSOR_NAME)) or "initializer"
                place = Place(self._file, f"{scope}initializer {name}")
                if strings := self._strings(tensor, place.place):
                    self.findings.found.append(constant(name, strings, place))
        self._walk_nodes(span, GRAPH_NODES, scope, depth)

    def _walk_nodes(self, span: Span, number: int, scope: str, depth: int) -> None:
        for part in self._messages(span, number):
            node = _Fields(self._buffer, part)
            op = node.text(OP)
            name = printable(node.text(NODE_NAME) or node.text(OUTPUT) or op)
            where = f"{scope}node {name}"
            attributes: Attributes = {}
            for attribute in self._messages(part, ATTRIBUTES):
                fields: _Fields | None = None
                with self.findings.warning(where):
                    fields = _Fields(self._buffer, attribute, STRINGS)
                    if TENSOR in fields.spans:
                        tensor = _Fields(self._buffer, fields.spans[TENSOR], STRING_DATA)
                        fields.strings = self._strings(tensor, where)
                        if op == b"Constant":
                            self._keep_true(node.text(OUTPUT), tensor)
                    attributes[fields.text(NAME)] = fields
                spans = fields.spans if fields is not None else {}
                for graphs in {GRAPH, GRAPHS} & spans.keys():
                    for graph in self._messages(attribute, graphs):
                        self._walk_graph(graph, f"{where}, ", depth + 1)
            with self.findings.warning(where, "its words are not read"):
                place = Place(self._file, f"{where} ({printable(op)})")
                if op in TOKENIZERS:
                    found = _tokenizer(name, op, attributes, place)
                    inputs = list(self._messages(part, INPUT))[FAIRSEQ.get(op, MAX_PARTS) :][:1]
                    if any(self._buffer[start:end] in self._true for start, end in inputs):
                        found = _fairseq(found)
                    self.findings.found.append(found)
                else:
                    self._read_lists(name, op, attributes, where, place)
            if op not in TOKENIZERS and node.text(DOMAIN) in EXTENSION_DOMAINS:
                for key, fields in attributes.items():
                    start, end = fields.spans.get(STRING, (0, 0))
                    if end - start >= LARGE:
                        what = f"{end - start:,} bytes of text, possibly a tokenizer: not read"
                        self.findings.warnings.append(f"{where}: {printable(key)}: {what}")

    def _keep_true(self, name: bytes, tensor: _Fields) -> None:
        if tensor.numbers.get(DATA_TYPE) == BOOL_TYPE:
            spans = (tensor.spans.get(field, (0, 0)) for field in (INTEGER_DATA, RAW_DATA))
            stored = any(any(self._buffer[start:end]) for start, end in spans)
            if stored or tensor.numbers.get(INTEGER_DATA):
                self._true.add(name)

    def _strings(self, tensor: _Fields, place: str) -> ByteStrings:
        external = EXTERNAL in tensor.spans or tensor.numbers.get(DATA_LOCATION) == ELSEWHERE
        if external and tensor.numbers.get(DATA_TYPE) == STRING_TYPE:
            what = "its strings are in another file, which is not opened"
            self.findings.warnings.append(f"{place}: {what}")
        return tensor.strings

    def _read_lists(
        self, name: str, op: bytes, attributes: Attributes, where: str, place: Place
    ) -> None:
        integers = {key: fields.integers for key, fields in attributes.items() if fields.integers}
        for key, fields in attributes.items():
            words = fields.strings
            if not words:
                continue
            if key in IDS and (key != KEYS or IDS[KEYS] in integers):
                ids = integers.get(IDS[key])
                if ids is not None and len(ids) != len(words):
                    raise InvalidFile(f"{len(words):,} words, but {len(ids):,} ids")
                default = Unknown(NOT_FOUND)
                if b"default_int64" in attributes:
                    default = Unknown(attributes[b"default_int64"].numbers.get(INTEGER, NOT_FOUND))
                table = Vocabulary.from_ids(
                    name,
                    "table",
                    words,
                    None if ids is None else np.array(ids, np.int64),
                    unknown=default if op in (b"LabelEncoder", b"CategoryMapper") else None,
                    places=(place,),
                )
                self.findings.found.append(table)
                continue
            listed = name if key == b"value" else f"{name}.{printable(key)}"
            whole = Place(self._file, f"{where}: {printable(key)}")
            if key in NO_WORDS:
                why = "settings of the node or stop words"
                self.findings.found.append(PassedOver(listed, len(words), whole, why))
            else:
                self.findings.found.append(constant(listed, words, whole))


def _tokenizer(name: str, op: bytes, attributes: Attributes, place: Place) -> Vocabulary:
    key, document = TOKENIZERS[op]
    if key not in attributes or STRING not in attributes[key].spans:
        raise InvalidFile(f"the attribute {key.decode()} with the words is missing")
    text = attributes[key].text(STRING, MAX_FILE + 1)
    if len(text) > MAX_FILE:
        raise UnsupportedFormat(f"words of more than {MAX_FILE:,} bytes: save them as a file")
    if key == b"model":
        return sentencepiece.vocabulary(text, name, place)
    if key == b"vocab_file":  # empty lines have no id
        words = word_list.words(re.sub(rb"[\r\n]+", b"\n", text), name, place)
        return replace(words, kind="wordpiece", marker="##")
    parsed = json_file.parse(text)
    if key == b"vocab":
        merges, added = (
            [line for line in attributes[more].text(STRING, MAX_FILE).splitlines() if line]
            if more in attributes
            else []
            for more in (b"merges", b"added_token")
        )
        pairs = [line.rpartition(b"=") for line in added]
        ids = word_list.integers(ByteStrings.of(number for _, _, number in pairs)).tolist()
        merges = [line for line in merges if b" " in line and not line.startswith(b"#version")]
        parsed = document | {
            "model": document["model"] | {"vocab": parsed, "merges": merges},
            "added_tokens": [
                {"content": decode(token), "id": number}
                for (token, _, _), number in zip(pairs, ids, strict=True)
            ],
        }
    elif reason := hf_tokenizer.recognise(parsed):
        raise InvalidFile(f"tokenizer_vocab is not a tokenizer.json: {reason}")
    vocabulary = replace(hf_tokenizer.vocabulary(parsed, name), places=(place,))
    if op == b"WordpieceTokenizer":
        return replace(vocabulary, unknown=Unknown(NOT_FOUND))
    return vocabulary


def _fairseq(pieces: Vocabulary) -> Vocabulary:
    ids = np.arange(1, len(pieces) + 1, dtype=np.int64)
    ids[: len(FAIRSEQ_IDS)] = FAIRSEQ_IDS[: len(pieces)]
    unknown = None if pieces.unknown is None else Unknown(int(ids[pieces.unknown.id]))
    numbered = Vocabulary.from_ids(
        pieces.name, pieces.kind, pieces.stored, ids, unknown=unknown, marker=pieces.marker
    )
    notes = (*pieces.notes, "fairseq is true: ids are those of fairseq")
    return replace(numbered, places=pieces.places, notes=notes)
