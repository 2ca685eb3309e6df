"""Read ONNX models: lists of strings in nodes and initializers, and whole tokenizers in attributes.

Layout: onnx/onnx, onnx/onnx.proto and docs/Operators-ml.md. Graphs and functions have nodes, nodes
have attributes, and an attribute may contain another graph. Weights are never read, and no file
beside the model is opened.

The tokenizers of onnxruntime-extensions (microsoft/onnxruntime-extensions, docs/custom_ops.md) have
a whole file in an attribute: ``vocab.txt``, ``vocab.json`` with merges and added tokens,
``tokenizer.json``, or a SentencePiece model.

A model that turns token ids into vectors is found with its files and settings. Its graph, with the
input ``input_ids``, is ``model.onnx`` or ``onnx/model*.onnx``. ``tokenizer.json`` is in the same
folder or one folder higher, as written by huggingface/optimum and sentence-transformers.
Settings, all optional, as in sentence-transformers:

- ``modules.json`` and ``1_Pooling/config.json``: how token vectors become one vector, and whether
  this vector is scaled to length 1 (sentence_transformers/.../pooling.py, normalize.py).
- ``sentence_bert_config.json``: whether texts are lower-cased.

Large tensors may be in files beside the graph (onnx/onnx, docs/ExternalData.md). The graph must
name such a file without a folder, because onnxruntime reads some paths as addresses in memory. The
file must be as large as the graph states.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from vocabtool.choices import Pooling
from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, UnsupportedFormat, reading
from vocabtool.formats import hf_tokenizer, json_file, sentencepiece, wire, word_list
from vocabtool.formats.files import MAX_FILE, MAX_NAMED, map_file, named_file
from vocabtool.formats.json_file import expect, show
from vocabtool.formats.reader import HEAD, Findings, PassedOver, Reader, Source, constant
from vocabtool.formats.static_embedding import (
    CONFIG,
    MODULES,
    SENTENCES,
    SUBFOLDER,
    TOKENIZER,
    find_settings,
    folders_of,
    read_modules,
    read_settings,
)
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
DATA_TYPE, STRING_DATA, TENSOR_NAME, EXTERNAL, DATA_LOCATION = 2, 6, 8, 13, 14
STRING_TYPE, ELSEWHERE = 8, 1  # a data type, and a location of data

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
                fields = None
                with self.findings.warning(where):
                    fields = _Fields(self._buffer, attribute, STRINGS)
                    if TENSOR in fields.spans:
                        tensor = _Fields(self._buffer, fields.spans[TENSOR], STRING_DATA)
                        fields.strings = self._strings(tensor, where)
                    attributes[fields.text(NAME)] = fields
                for graphs in (GRAPH, GRAPHS) if fields is not None else ():
                    if graphs in fields.spans:
                        for graph in self._messages(attribute, graphs):
                            self._walk_graph(graph, f"{where}, ", depth + 1)
            with self.findings.warning(where, "its words are not read"):
                place = Place(self._file, f"{where} ({printable(op)})")
                if op in TOKENIZERS:
                    self.findings.found.append(_tokenizer(name, op, attributes, place))
                else:
                    self._read_lists(name, op, attributes, where, place)
            if op not in TOKENIZERS and node.text(DOMAIN) in EXTENSION_DOMAINS:
                for key, fields in attributes.items():
                    start, end = fields.spans.get(STRING, (0, 0))
                    if end - start >= LARGE:
                        what = f"{end - start:,} bytes of text, possibly a tokenizer: not read"
                        self.findings.warnings.append(f"{where}: {printable(key)}: {what}")

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
                    *(name, "table", words, None if ids is None else np.array(ids, np.int64)),
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
    text = attributes[key].text(STRING, MAX_FILE)
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


# Models that turn token ids into vectors.

MODEL: Final = "model.onnx"
PATTERN: Final = "model*.onnx"
INPUT_IDS: Final = "input_ids"
BLOB: Final = re.compile(r"(\.\./){2,3}blobs/[0-9A-Za-z]+")  # a link in a Hugging Face cache

POOLING: Final = "1_Pooling"
# Older versions of sentence-transformers have a switch for each; their order is that of the values.
SWITCHES: Final[Mapping[str, Pooling]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
DEFAULT: Final[tuple[Pooling, ...]] = ("mean",)
SUPPORTED: Final = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
NO_MODULES: Final = (
    f"no {MODULES}: the pooling is {{}}, and vectors are not scaled to length 1; if the model "
    f"wants something else, copy {MODULES} and {POOLING}/{CONFIG} of the original beside it"
)

# The messages that may contain tensors: for each, its fields and the messages in them.
PARTS: Final[Mapping[str, Mapping[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
INPUTS: Final = 11
MAX_FIELDS: Final = 5_000_000  # of all these messages; a graph of 1,000 nodes has 20,000
DYNAMIC: Final = b"DynamicQuantize"  # operators that begin so quantize by all values of a batch


@dataclass(frozen=True, slots=True)
class OnnxFiles:
    """The files of a model.

    ``folders``: the folders that may contain settings; the folder of the graph is the first.
    ``others``: other graphs in these folders, for example quantized graphs.
    """

    model: Path
    tokenizer: Path
    folders: tuple[Path, ...]
    others: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """How token vectors become the vector of a text.

    ``pooling``: the pooling methods whose results are concatenated; empty if ``modules`` contains
    unsupported modules. ``lower``: whether texts are lower-cased.
    """

    pooling: tuple[Pooling, ...]
    normalize: bool
    modules: tuple[str, ...]
    lower: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Facts about a graph.

    ``external``: the files that contain tensors of the graph. ``dynamic``: whether the graph
    quantizes activations with a scale that depends on all texts of a batch.
    """

    external: tuple[Path, ...]
    dynamic: bool


def find(path: Path) -> OnnxFiles:
    """Find the files of a model.

    ``path``: the folder of the model, or the file of its graph. Raises :class:`UnknownFormat` if
    ``path`` is not such a model.
    """
    model = path
    if path.is_dir():
        graphs = [*_graphs(path), *_graphs(path / SUBFOLDER)]
        if not graphs:
            raise UnknownFormat(f"{path}: contains neither {MODEL} nor {SUBFOLDER}/{PATTERN}")
        model = next((file for file in graphs if file.name == MODEL), graphs[0])
        if model.name != MODEL and len(graphs) > 1:
            listed = ", ".join(str(file.relative_to(path)) for file in graphs[:MAX_NAMED])
            raise UnknownFormat(f"{path}: several graphs, but no {MODEL}; pass one of {listed}")
    folders = folders_of(model.parent)
    tokenizers = (folder / TOKENIZER for folder in folders)
    tokenizer = next((file for file in tokenizers if file.is_file()), None)
    if tokenizer is None:
        raise UnknownFormat(f"{model}: no {TOKENIZER} beside it")
    with reading(str(model)):
        reason = READER.recognise(Source.open(model))
        if reason is not None:
            raise UnknownFormat(f"{model}: not an ONNX model: {reason}")
        buffer = map_file(model)
        names = [
            printable(wire.last_bytes(buffer, value, NAME))
            for graph in wire.messages(buffer, (0, len(buffer)), MODEL_GRAPH)
            for value in wire.messages(buffer, graph, INPUTS)
        ]
        if INPUT_IDS not in names:
            listed = ", ".join(names[:MAX_NAMED]) or "none"
            raise UnknownFormat(f"{model}: it has no input {INPUT_IDS!r}; its inputs: {listed}")
    others = (file for folder in folders for file in _graphs(folder) if file != model)
    return OnnxFiles(model, tokenizer, folders, tuple(others))


def _graphs(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(PATTERN) if file.is_file())


def check_graph(file: Path) -> Graph:
    """Check that a graph refers only to files in its own folder. The graph is not executed.

    Raises :class:`InvalidFile` if the graph refers to a file in another folder, to a link outside a
    Hugging Face cache, or to a file that is too small. Raises :class:`NotFound` if a file is
    missing.
    """
    buffer = map_file(file)
    stack: list[tuple[str, Span]] = [("model", (0, len(buffer)))]
    external: dict[Path, None] = {}
    dynamic, seen = False, 0
    with reading(str(file)):
        while stack:
            kind, span = stack.pop()
            parts = PARTS.get(kind, {})
            facts: list[Span] = []
            for number, wire_type, start, end in wire.fields(buffer, *span):
                seen += 1
                if seen > MAX_FIELDS:
                    raise UnsupportedFormat(f"a graph of more than {MAX_FIELDS:,} fields")
                if wire_type != LEN:
                    continue
                if number in parts:
                    stack.append((parts[number], (start, end)))
                elif kind == "node" and number == OP:
                    dynamic |= buffer[start:end].startswith(DYNAMIC)
                elif kind == "tensor" and number == EXTERNAL:
                    facts.append((start, end))
            if facts:
                external[_external_file(file, buffer, facts)] = None
    return Graph(tuple(external), dynamic)


def _external_file(model: Path, buffer: Buffer, facts: list[Span]) -> Path:
    found: dict[bytes, list[bytes]] = {}
    for fact in facts:
        key, value = (wire.last_bytes(buffer, fact, field) for field in (1, 2))
        found.setdefault(key, []).append(value)
    files = {named_file(model.parent, name) for name in found.get(b"location", [b""])}
    if len(files) > 1:
        raise InvalidFile("a tensor is in several files")
    (file,) = files
    name = show(file.name)
    target = os.fspath(file.readlink()) if file.is_symlink() else None
    if target is not None and (not BLOB.fullmatch(target) or (file.parent / target).is_symlink()):
        what = "which has tensors of the model, is a symbolic link: it is not opened"
        raise InvalidFile(f"{name}, {what}")
    if not file.is_file():
        raise NotFound(f"{model}: its tensors are in {name}, which is missing; download it, too")
    numbers = [*found.get(b"offset", [b"0"]), *found.get(b"length", [b"0"])]
    if not all(number.isdigit() and len(number) < 20 for number in numbers):
        raise InvalidFile(f"a tensor in {name}: its offset and length are not whole numbers")
    needed, size = sum(map(int, numbers)), file.stat().st_size
    if needed > size:
        what = f"a tensor ends at byte {needed:,} of {name}, which has {size:,} bytes"
        raise InvalidFile(f"{what}: the file is damaged or truncated, download it again")
    return file


def read_all_settings(files: OnnxFiles) -> Settings:
    lower = find_settings(files.folders, SENTENCES)[1].get("do_lower_case") is True
    folder = next((each for each in files.folders if (each / MODULES).is_file()), None)
    if folder is not None:
        modules, pooling = _read_modules(folder)
        return Settings(pooling, modules[-1:] == ("Normalize",), modules, lower, ())
    pooling = _pooling(find_settings(files.folders, f"{POOLING}/{CONFIG}")[1])
    note = NO_MODULES.format(", ".join(pooling))
    return Settings(pooling, normalize=False, modules=(), lower=lower, notes=(note,))


def _read_modules(folder: Path) -> tuple[tuple[str, ...], tuple[Pooling, ...]]:
    names, modules = read_modules(folder)
    if names not in SUPPORTED:
        return names, ()
    with reading(str(folder / MODULES)):
        path = expect(modules[1].get("path"), str, "the path of a module")
        part = named_file(folder, path.encode("utf-8", "surrogatepass"))
    return names, _pooling(read_settings(part / CONFIG, dict))


def _pooling(settings: dict[str, Any]) -> tuple[Pooling, ...]:
    modes = settings.get("pooling_mode")
    if modes is None:
        modes = [mode for switch, mode in SWITCHES.items() if settings.get(switch) is True]
    modes = tuple(modes) if isinstance(modes, list) else (modes,)
    if not all(mode in get_args(Pooling) for mode in modes):
        wanted = ", ".join(get_args(Pooling))
        shown = ", ".join(map(json_file.show_value, modes))
        raise InvalidFile(
            f"pooling_mode is {shown}, wanted one or more of {wanted}",
            file=f"{POOLING}/{CONFIG}",
        )
    return modes or DEFAULT
