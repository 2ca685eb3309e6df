"""Read ONNX models: lists of strings in nodes and initializers, and whole tokenizers in attributes.

Layout: onnx/onnx, onnx/onnx.proto and docs/Operators-ml.md. Graphs and functions have nodes, nodes
have attributes, and an attribute may contain another graph. Weights are never read, and no file
beside the model is opened.

The tokenizers of onnxruntime-extensions (microsoft/onnxruntime-extensions, docs/custom_ops.md) have
a whole file in an attribute: ``vocab.txt``, ``vocab.json`` with added tokens, ``tokenizer.json``,
or a SentencePiece model. With the input ``fairseq``, the ids of SentencePiece are changed as in
operators/tokenizer/sentencepiece_tokenizer.cc.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import hf_tokenizer, json_file, sentencepiece, wire, word_list
from vocabtool.formats.files import MAX_FILE, map_file
from vocabtool.formats.reader import HEAD, Findings, PassedOver, Reader, Source, constant
from vocabtool.formats.wire import LEN, VARINT, Message, Span
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, decode, in_id_order, printable

# The fields of ModelProto, GraphProto (all length-delimited) and FunctionProto.
IR_VERSION, MODEL_VERSION, MODEL_GRAPH, OPSETS, FUNCTIONS, LAST = 1, 5, 7, 8, 25, 26
GRAPH_TAGS: Final = tuple(number << 3 | LEN for number in (1, 2, 5, 10, 11, 12, 13, 14, 15))
GRAPH_NODES, INITIALIZERS, FUNCTION_NAME, FUNCTION_NODES = 1, 5, 1, 7
# The fields of NodeProto, AttributeProto and TensorProto.
INPUT, OUTPUT, NODE_NAME, OP, ATTRIBUTES, DOMAIN = 1, 2, 3, 4, 5, 7
NAME, INTEGER, STRING, TENSOR, GRAPH, FLOATS, INTEGERS, STRINGS, GRAPHS = 1, 3, 4, 5, 6, 7, 8, 9, 11
DATA_TYPE, INTEGER_DATA, STRING_DATA, TENSOR_NAME, RAW_DATA = 2, 5, 6, 8, 9
EXTERNAL, DATA_LOCATION = 13, 14
STRING_TYPE, BOOL_TYPE, ELSEWHERE = 8, 9, 1  # data types, and a location of data

MAX_FIELDS: Final = 500_000  # of a message, and of all; lists are not counted
MAX_LISTS: Final = 20_000  # of strings; each takes as long as ten fields
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
# The position of the input ``fairseq``, and the ids that it gives the first pieces; others get one
# more.
FAIRSEQ: Final = {b"SentencepieceTokenizer": 6, b"SentencepieceDecoder": 1}
FAIRSEQ_IDS: Final = (3, 0, 2)
# Other operators of onnxruntime-extensions may contain words, too.
EXTENSION_DOMAINS: Final = (b"ai.onnx.contrib", b"com.microsoft.extensions")


def _recognise(source: Source) -> str | None:
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


Attributes = dict[bytes, Message]


class _Model:
    """The walk over a model. ``findings``: what it has read so far."""

    def __init__(self, source: Source) -> None:
        self._buffer = map_file(source.file)
        self._file = source.name
        self._fields = 0  # parsed so far
        # Constants of type bool by name; an input without a name is omitted.
        self._flags: dict[bytes, bool] = {b"": False}
        self.findings = Findings()
        model = self._parse((0, len(self._buffer)))
        for span in model.spans(MODEL_GRAPH):
            self._read_graph(span, "", 0)
        for span in model.spans(FUNCTIONS):
            function = self._parse(span)
            scope = f"function {printable(function.text(FUNCTION_NAME))}, "
            self._read_nodes(function.spans(FUNCTION_NODES), scope, 0)

    def _parse(self, span: Span, strings_field: int = 0, until: tuple[int, ...] = ()) -> Message:
        message = Message(self._buffer, span, MAX_FIELDS, strings_field=strings_field, until=until)
        self._fields += message.size
        if self._fields > MAX_FIELDS or len(self.findings.lists) > MAX_LISTS:
            what = f"more than {MAX_FIELDS:,} fields or {MAX_LISTS:,} lists of strings"
            raise UnsupportedFormat(f"the graphs have {what}")
        return message

    def _read_graph(self, span: Span, scope: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.findings.warnings.append(f"graphs nested more than {MAX_DEPTH} deep are not read")
            return
        graph = self._parse(span)
        for initializer in graph.spans(INITIALIZERS):
            with self.findings.warning(f"{scope}an initializer", kind=InvalidFile):
                tensor = self._parse(initializer, STRING_DATA)
                name = printable(tensor.text(TENSOR_NAME)) or "initializer"
                place = Place(self._file, f"{scope}initializer {name}")
                self._note_tensor(tensor, tensor.text(TENSOR_NAME), place.place)
                if tensor.strings:
                    self.findings.lists.append(constant(name, tensor.strings, place))
        self._read_nodes(graph.spans(GRAPH_NODES), scope, depth)

    def _note_tensor(self, tensor: Message, value: bytes, where: str) -> None:
        """Warn of strings in another file, and remember a flag by the name of its value."""
        elsewhere = tensor.spans(EXTERNAL) or tensor.integer(DATA_LOCATION) == ELSEWHERE
        if tensor.integer(DATA_TYPE) == STRING_TYPE and elsewhere:
            what = "its strings are in another file, which is not opened"
            self.findings.warnings.append(f"{where}: {what}")
        elif tensor.integer(DATA_TYPE) == BOOL_TYPE:
            flag = any(tensor.text(RAW_DATA)) or any(tensor.integers(INTEGER_DATA))
            self._flags.setdefault(value, flag)

    def _read_nodes(self, spans: list[Span], scope: str, depth: int) -> None:
        """Add the words of each node, and of the graphs in its attributes, to the findings."""
        for span in spans:
            node = self._parse(span)
            op = node.text(OP)
            if not node.spans(ATTRIBUTES) and op not in TOKENIZERS:
                continue  # most nodes of a large graph
            name = printable(node.text(NODE_NAME) or node.text(OUTPUT) or op)
            where = f"{scope}node {name}"
            attributes: Attributes = {}
            for attribute_span in node.spans(ATTRIBUTES):
                with self.findings.warning(where, kind=InvalidFile):
                    # Lists of numbers may be long, and most are not ids.
                    attribute = self._parse(attribute_span, STRINGS, until=(FLOATS, INTEGERS))
                    for tensor_span in attribute.spans(TENSOR):
                        tensor = self._parse(tensor_span, STRING_DATA)
                        self._note_tensor(tensor, node.text(OUTPUT), where)
                        attribute.strings = tensor.strings
                    attributes[attribute.text(NAME)] = attribute
                    for graph in attribute.spans(GRAPH) + attribute.spans(GRAPHS):
                        self._read_graph(graph, f"{where}, ", depth + 1)
            with self.findings.warning(where, "its words are not read"):
                place = Place(self._file, f"{where} ({printable(op)})")
                if op in TOKENIZERS:
                    self.findings.lists.append(self._tokenizer(name, node, attributes, place))
                else:
                    self._read_lists(name, node, attributes, where, place)

    def _read_lists(
        self, name: str, node: Message, attributes: Attributes, where: str, place: Place
    ) -> None:
        is_extension = node.text(DOMAIN) in EXTENSION_DOMAINS
        default = None
        if node.text(OP) in (b"LabelEncoder", b"CategoryMapper"):
            stated = attributes.get(b"default_int64")
            default = Unknown(NOT_FOUND if stated is None else stated.integer(INTEGER))
        for key, attribute in attributes.items():
            shown, whole = printable(key), Place(self._file, f"{where}: {printable(key)}")
            if is_extension and len(attribute.text(STRING, LARGE)) == LARGE:
                what = f"a text of {LARGE:,} bytes or more, possibly a tokenizer: not read"
                self.findings.warnings.append(f"{whole.place}: {what}")
            words, id_list = attribute.strings, attributes.get(IDS.get(key, b""))
            if not words:
                continue
            ids = np.fromiter(id_list.integers(INTEGERS) if id_list else (), np.int64)
            if key in IDS and (key != KEYS or len(ids)):
                vocabulary = Vocabulary.from_ids(
                    name, "table", words, ids if len(ids) else None, places=(place,)
                )
                self.findings.lists.append(replace(vocabulary, unknown=default))
            elif key in NO_WORDS:
                why = "settings of the node or stop words"
                self.findings.lists.append(PassedOver(f"{name}.{shown}", len(words), whole, why))
            else:
                title = name if key == b"value" else f"{name}.{shown}"
                self.findings.lists.append(constant(title, words, whole))

    def _tokenizer(
        self, name: str, node: Message, attributes: Attributes, place: Place
    ) -> Vocabulary:
        """Return the vocabulary of an op in ``TOKENIZERS``, whose attribute is a whole file."""
        op = node.text(OP)
        key, document = TOKENIZERS[op]
        text, added = (
            attributes[attribute].text(STRING, MAX_FILE + 1) if attribute in attributes else b""
            for attribute in (key, b"added_token")
        )
        if not text:
            raise InvalidFile(f"the attribute {key.decode()} with the words is missing or empty")
        if len(text) > MAX_FILE:
            raise UnsupportedFormat(f"words of more than {MAX_FILE:,} bytes: save them as a file")
        if key == b"model":
            return self._renumber(sentencepiece.vocabulary(text, name, place), node)
        if key == b"vocab_file":  # empty lines have no id
            words = word_list.words(re.sub(rb"[\r\n]+", b"\n", text), name, place)
            return replace(words, kind="wordpiece", marker="##")
        parsed = json_file.parse(text)
        if key == b"vocab":  # its added tokens are lines ``token=id``
            pairs = [line.rpartition(b"=") for line in added.splitlines() if line]
            ids = word_list.integers(ByteStrings.of(number for _, _, number in pairs)).tolist()
            tokens = [
                {"content": decode(token), "id": number}
                for (token, _, _), number in zip(pairs, ids, strict=True)
            ]
            parsed = document | {
                "model": document["model"] | {"vocab": parsed},
                "added_tokens": tokens,
            }
        reason = hf_tokenizer.recognise(parsed)
        if reason:
            raise InvalidFile(f"{key.decode()}: {reason}")
        vocabulary = replace(hf_tokenizer.vocabulary(parsed, name), places=(place,))
        if op == b"WordpieceTokenizer":
            return replace(vocabulary, unknown=Unknown(NOT_FOUND))
        return vocabulary

    def _renumber(self, pieces: Vocabulary, node: Message) -> Vocabulary:
        """Give pieces the ids of fairseq if the input ``fairseq`` of their node is true."""
        inputs, position = node.spans(INPUT), FAIRSEQ[node.text(OP)]
        name = self._buffer[slice(*inputs[position])] if position < len(inputs) else b""
        flag = self._flags.get(name)
        if flag is None:
            note = "fairseq is given at run time: if it is true, ids are those of fairseq"
            return replace(pieces, notes=(*pieces.notes, note))
        if not flag:
            return pieces
        new_ids = np.arange(1, len(pieces) + 1, dtype=np.int64)
        new_ids[: len(FAIRSEQ_IDS)] = FAIRSEQ_IDS[: len(pieces)]
        unknown = None if pieces.unknown is None else Unknown(int(new_ids[pieces.unknown.id]))
        stored, first_id, ids = in_id_order(pieces.stored, new_ids)
        return replace(
            pieces,
            stored=stored,
            first_id=first_id,
            ids=ids,
            unknown=unknown,
            notes=(*pieces.notes, "fairseq is true: ids are those of fairseq"),
        )


READER: Final = Reader("ONNX", _recognise, lambda source: _Model(source).findings)
