"""Read ONNX models: lists of strings in nodes and initializers, and whole tokenizers in attributes.

Layout: onnx/onnx, onnx/onnx.proto and docs/Operators-ml.md. Graphs and functions have nodes, nodes
have attributes, and an attribute may contain another graph. Weights are never read, and no file
beside the model is opened.

The tokenizers of onnxruntime-extensions (microsoft/onnxruntime-extensions, docs/custom_ops.md) have
a whole file in an attribute: ``vocab.txt``, ``vocab.json`` with merges and added tokens,
``tokenizer.json``, or a SentencePiece model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import hf_tokenizer, json_file, sentencepiece, wire, word_list
from vocabtool.formats.files import map_file
from vocabtool.formats.reader import HEAD, Finding, Findings, PassedOver, Reader, Source, constant
from vocabtool.formats.wire import LEN, MAX_NAME, VARINT, Buffer, Span
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, decode, printable

# The fields of ModelProto, GraphProto (all length-delimited) and FunctionProto.
IR_VERSION, MODEL_VERSION, MODEL_GRAPH, OPSETS, FUNCTIONS, LAST = 1, 5, 7, 8, 25, 26
GRAPH_TAGS: Final = tuple(field << 3 | LEN for field in (1, 2, 5, 10, 11, 12, 13, 14, 15))
GRAPH_NODES, INITIALIZERS, FUNCTION_NODES = 1, 5, 7
# The fields of NodeProto, AttributeProto and TensorProto.
OUTPUT, NODE_NAME, OP, ATTRIBUTES, DOMAIN = 2, 3, 4, 5, 7
NAME, INTEGER, STRING, TENSOR, GRAPH, FLOATS, INTEGERS, STRINGS, GRAPHS = 1, 3, 4, 5, 6, 7, 8, 9, 11
STRING_DATA, TENSOR_NAME = 6, 8

MAX_PARTS: Final = 300_000  # nodes, attributes, graphs and initializers
MAX_DEPTH: Final = 16  # of nested graphs
LARGE: Final = 1 << 10  # bytes of a string that may be a whole tokenizer

# Lists in which a node looks up strings, and the list with their ids (without it: positions).
IDS: Final = {
    b"keys_strings": b"values_int64s",
    b"cats_strings": b"cats_int64s",
    b"classes_strings": b"",
    b"string_vocabulary": b"",
}
NOT_FOUND: Final = -1  # the default of LabelEncoder, CategoryMapper and WordpieceTokenizer
NO_STRINGS: Final = ByteStrings.of(())
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


def _read(source: Source) -> Findings:
    model = _Model(map_file(source.file), source.name)
    model.findings.found += model.walk()
    return model.findings


READER: Final = Reader("ONNX", _recognise, _read)


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

    def text(self, number: int) -> bytes:
        start, end = self.spans.get(number, (0, 0))
        return self._buffer[start : min(end, start + MAX_NAME)]


@dataclass(slots=True)
class _Node:
    """The attributes of a node, by name."""

    name: str
    op: bytes
    domain: bytes
    place: str
    strings: dict[bytes, ByteStrings] = field(default_factory=dict)
    integers: dict[bytes, list[int]] = field(default_factory=dict)
    texts: dict[bytes, Span] = field(default_factory=dict)


class _Model:
    def __init__(self, buffer: Buffer, file: str) -> None:
        self._buffer = buffer
        self._file = file
        self._parts = 0
        self.findings = Findings()

    def walk(self) -> Iterator[Finding]:
        whole = (0, len(self._buffer))
        for graph in self._messages(whole, MODEL_GRAPH):
            yield from self._graph(graph, "", 0)
        for function in self._messages(whole, FUNCTIONS):
            name = printable(wire.last_bytes(self._buffer, function, 1)[:MAX_NAME])
            yield from self._nodes(function, FUNCTION_NODES, f"function {name}, ", 0)

    def _messages(self, span: Span, number: int) -> Iterator[Span]:
        for message in wire.messages(self._buffer, span, number):
            self._parts += 1
            if self._parts > MAX_PARTS:
                raise UnsupportedFormat(f"a model of more than {MAX_PARTS:,} nodes and attributes")
            yield message

    def _graph(self, span: Span, scope: str, depth: int) -> Iterator[Finding]:
        if depth > MAX_DEPTH:
            self.findings.warnings.append(f"graphs nested more than {MAX_DEPTH} deep are not read")
            return
        for part in self._messages(span, INITIALIZERS):
            with self.findings.warning(f"{scope}an initializer"):
                tensor = _Fields(self._buffer, part, STRING_DATA)
                name = printable(tensor.text(TENSOR_NAME)) or "initializer"
                if tensor.strings:
                    place = Place(self._file, f"{scope}initializer {name}")
                    yield constant(name, tensor.strings, place)
        yield from self._nodes(span, GRAPH_NODES, scope, depth)

    def _nodes(self, span: Span, number: int, scope: str, depth: int) -> Iterator[Finding]:
        for part in self._messages(span, number):
            fields = _Fields(self._buffer, part)
            op = fields.text(OP)
            name = printable(fields.text(NODE_NAME) or fields.text(OUTPUT) or op)
            node = _Node(name, op, fields.text(DOMAIN), f"{scope}node {name}")
            for attribute in self._messages(part, ATTRIBUTES):
                has_graph = False
                with self.findings.warning(node.place):
                    has_graph = self._add_attribute(node, attribute)
                for graphs in (GRAPH, GRAPHS) if has_graph else ():
                    for graph in self._messages(attribute, graphs):
                        yield from self._graph(graph, f"{node.place}, ", depth + 1)
            with self.findings.warning(node.place, "its words are not read"):
                yield from self._of_node(node)

    def _add_attribute(self, node: _Node, span: Span) -> bool:
        """Add the values of an attribute to a node; return whether it contains graphs."""
        fields = _Fields(self._buffer, span, STRINGS)
        name = fields.text(NAME)
        strings = fields.strings
        if TENSOR in fields.spans:
            strings = _Fields(self._buffer, fields.spans[TENSOR], STRING_DATA).strings
        if strings:
            node.strings[name] = strings
        if fields.integers or INTEGER in fields.numbers:
            node.integers[name] = fields.integers or [fields.numbers[INTEGER]]
        if STRING in fields.spans:
            node.texts[name] = fields.spans[STRING]
        return GRAPH in fields.spans or GRAPHS in fields.spans

    def _of_node(self, node: _Node) -> Iterator[Finding]:
        """Yield what the attributes of a node contain."""
        place = Place(self._file, f"{node.place} ({printable(node.op)})")
        if node.op in TOKENIZERS:
            texts = {name: self._buffer[slice(*span)] for name, span in node.texts.items()}
            yield _tokenizer(node, texts, place)
            return
        for name, strings in node.strings.items():
            listed = node.name if name == b"value" else f"{node.name}.{printable(name)}"
            where = Place(self._file, f"{node.place}: {printable(name)}")
            if name in IDS:
                yield _table(node, strings, node.integers.get(IDS[name]), place)
            elif name in NO_WORDS:
                yield PassedOver(listed, len(strings), where, "settings of the node or stop words")
            else:
                yield constant(listed, strings, where)
        for name, (start, end) in node.texts.items():
            if end - start >= LARGE and node.domain in EXTENSION_DOMAINS:
                what = f"{end - start:,} bytes of text, possibly a tokenizer: not read"
                self.findings.warnings.append(f"{node.place}: {printable(name)}: {what}")


def _table(node: _Node, words: ByteStrings, ids: list[int] | None, place: Place) -> Vocabulary:
    if ids is not None and len(ids) != len(words):
        raise InvalidFile(f"{len(words):,} words, but {len(ids):,} ids")
    default = node.integers.get(b"default_int64", [NOT_FOUND])[0]
    return Vocabulary.from_ids(
        node.name,
        "table",
        words,
        None if ids is None else np.array(ids, np.int64),
        unknown=Unknown(default) if node.op in (b"LabelEncoder", b"CategoryMapper") else None,
        places=(place,),
    )


def _tokenizer(node: _Node, texts: dict[bytes, bytes], place: Place) -> Vocabulary:
    attribute, document = TOKENIZERS[node.op]
    if attribute not in texts:
        raise InvalidFile(f"the attribute {attribute.decode()} with the words is missing")
    text = texts[attribute]
    if attribute == b"model":
        return sentencepiece.vocabulary(text, node.name, place)
    if attribute == b"vocab_file":  # empty lines have no id
        words = word_list.words(re.sub(rb"[\r\n]+", b"\n", text), node.name, place)
        return replace(words, kind="wordpiece", marker="##")
    parsed = json_file.parse(text)
    if attribute == b"vocab":
        lines = texts.get(b"added_token", b"").splitlines()
        added = [line.rpartition(b"=") for line in lines if line]
        ids = word_list.integers(ByteStrings.of(number for _, _, number in added)).tolist()
        merges = [
            line
            for line in texts.get(b"merges", b"").splitlines()
            if b" " in line and not line.startswith(b"#version")
        ]
        parsed = document | {
            "model": document["model"] | {"vocab": parsed, "merges": merges},
            "added_tokens": [
                {"content": decode(token), "id": number}
                for (token, _, _), number in zip(added, ids, strict=True)
            ],
        }
    elif reason := hf_tokenizer.recognise(parsed):
        raise InvalidFile(f"tokenizer_vocab is not a tokenizer.json: {reason}")
    vocabulary = replace(hf_tokenizer.vocabulary(parsed, node.name), places=(place,))
    if node.op == b"WordpieceTokenizer":
        return replace(vocabulary, unknown=Unknown(NOT_FOUND))
    return vocabulary
