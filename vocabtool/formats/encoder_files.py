"""Find and read the files of models of vectors: static embeddings, and ONNX graphs.

A static embedding is a matrix with a vector for each token of a tokenizer. Layouts, recognised by
content:

- MinishLab/model2vec, model2vec/persistence/persistence.py: ``config.json``, ``tokenizer.json`` and
  ``model.safetensors`` with the tensor ``embeddings``, sometimes also ``weights`` and ``mapping``.
- huggingface/sentence-transformers, modules/static_embedding.py: ``modules.json`` names the folder
  of a ``StaticEmbedding``, which has ``tokenizer.json`` and ``model.safetensors`` with the tensor
  ``embedding.weight`` (or the tensors of model2vec). A module ``Normalize`` may follow.

A file of safetensors (huggingface/safetensors, README.md, Format) has three parts: the length of
the header (8 bytes, little-endian), the header, and the values. The header is a JSON object that
maps the name of each tensor to ``dtype``, ``shape`` and ``data_offsets``.

An ONNX graph that turns token ids into vectors has the input ``input_ids``. It is ``model.onnx`` or
``onnx/model*.onnx``. ``tokenizer.json`` is in the same folder or one folder higher, as written by
huggingface/optimum and sentence-transformers. Settings, all optional, as in sentence-transformers:

- ``modules.json`` and ``1_Pooling/config.json``: how token vectors become one vector, and whether
  this vector is scaled to length 1 (sentence_transformers/.../pooling.py, normalize.py).
- ``sentence_bert_config.json``: whether texts are lower-cased.

Large tensors may be in files beside the graph (onnx/onnx, docs/ExternalData.md). The graph must
name such a file without a folder, because onnxruntime reads some paths as addresses in memory. The
file must be as large as the graph states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Pooling
from vocabtool.errors import (
    InvalidFile,
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
    reading,
)
from vocabtool.formats import files, json_file, wire
from vocabtool.formats.files import named_file, read_file
from vocabtool.formats.reader import Source
from vocabtool.formats.wire import Buffer, Span
from vocabtool.vocabulary import printable

Style = Literal["model2vec", "sentence-transformers"]

WEIGHTS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
CONFIG: Final = "config.json"
MODULES: Final = "modules.json"
PROMPTS: Final = "config_sentence_transformers.json"
SENTENCES: Final = "sentence_bert_config.json"  # of the module Transformer
SUBFOLDER: Final = "onnx"  # of graphs whose settings may lie one folder higher
EMBEDDINGS: Final = ("embeddings", "embedding.weight")  # the matrix: model2vec's name, the other's
MAPPING, TOKEN_WEIGHTS = "mapping", "weights"
OWN_TENSORS: Final = (*EMBEDDINGS, MAPPING, TOKEN_WEIGHTS)
LIBRARY: Final = "sentence_transformers."
MODEL_FILES: Final = (MODULES, PROMPTS)  # a model of this library has one of these
SAFE_WEIGHTS: Final = (WEIGHTS, "model.safetensors.index.json")  # preferred to pickles
ALL_WEIGHTS: Final = (*SAFE_WEIGHTS, "pytorch_model.bin", "pytorch_model.bin.index.json")

LENGTH: Final = 8  # bytes of the length of the header
MAX_HEADER: Final = 1 << 24  # bytes of JSON; a thousand tensors take 100,000
MAX_RANK: Final = 8
DEFAULT_LENGTH: Final = 512  # tokens, of a model of model2vec that does not state it
DTYPES: Final = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2"},
    **{"I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"},
}


@dataclass(frozen=True, slots=True)
class EmbeddingFiles:
    """The files of a static embedding.

    ``style``: the library that defines how vectors are computed. ``config``: the settings of
    model2vec. ``normalize``: whether a module of sentence-transformers scales vectors to length 1.
    """

    style: Style
    tensors: Path
    tokenizer: Path
    config: Path | None = None
    normalize: bool = False


def is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:LENGTH], "little")
    return head[LENGTH : LENGTH + 1] == b"{" and 2 <= length <= MAX_HEADER


def find_static(path: Path) -> EmbeddingFiles:
    """Find a static embedding by its folder or tensors; :class:`UnknownFormat` if it is none."""
    folder = path if path.is_dir() else path.parent
    if folder != path:
        with reading(str(path)), path.open("rb") as opened:
            if not is_safetensors(opened.read(LENGTH + 1)):
                raise UnknownFormat(f"{path}: not a file of safetensors")
    home, names = folder, tuple[str, ...]()
    if (folder / MODULES).is_file():
        names, modules = read_modules(folder)
        if names not in (("StaticEmbedding",), ("StaticEmbedding", "Normalize")):
            raise UnknownFormat(f"{folder / MODULES}: its modules are {', '.join(names) or 'none'}")
        home = _module_folder(folder, modules[0])
    tensors, tokenizer, config = home / WEIGHTS, home / TOKENIZER, folder / CONFIG
    wanted = (tensors, tokenizer) if names else (tensors, tokenizer, config)
    missing = [file.name for file in wanted if not file.is_file()]
    if missing:
        raise UnknownFormat(f"{home}: not a static embedding: no {' and no '.join(missing)}")
    if path not in (folder, tensors):
        raise UnknownFormat(f"{path}: the model's tensors are in another file: {tensors}")
    if home == folder and config.is_file() and EMBEDDINGS[0] in read_header(tensors):
        return EmbeddingFiles("model2vec", tensors, tokenizer, config)
    if not names:
        raise UnknownFormat(f"{tensors}: not a static embedding: no tensor {EMBEDDINGS[0]!r}")
    normalize = names[-1] == "Normalize"
    return EmbeddingFiles("sentence-transformers", tensors, tokenizer, normalize=normalize)


def path_of(model: str | Path) -> Path:
    """Return the path of a model (see :func:`files.find_model`), from which its words are read.

    A static embedding or an ONNX model is read through its tokenizer. If the tokenizer is at the
    top of the folder ``model``, the result is this folder, otherwise the path of the tokenizer.
    """
    path = files.find_model(model)
    if files.graphs_file_in(path) is not None:
        return path
    for find in (find_static, find_onnx):
        with suppress(VocabtoolError):  # any other model
            tokenizer = find(path).tokenizer
            return path if tokenizer.parent == path or files.leads_away(tokenizer) else tokenizer
    return path


def read_modules(folder: Path) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return names and descriptions of modules; of other libraries, the whole type is the name."""
    modules = read_settings(folder / MODULES, list)
    with reading(str(folder / MODULES)):
        described = [json_file.expect(module, dict, "a module").get("type") for module in modules]
        types = [type_ if isinstance(type_, str) else json_file.kind(type_) for type_ in described]
    names = [type_.rpartition(".")[2] if type_.startswith(LIBRARY) else type_ for type_ in types]
    return tuple(map(json_file.show, names)), modules


def _module_folder(folder: Path, module: dict[str, Any]) -> Path:
    with reading(str(folder / MODULES)):
        path = json_file.expect(module.get("path"), str, "the path of a module")
        if path in ("", "."):
            return folder
        home = named_file(folder, path.encode("utf-8", "surrogatepass"))
    with reading(str(home)):
        files.refuse_link(home)
    return home


def find_word_embeddings(folder: Path) -> Path | None:
    """Return the file with the words of a model that averages word vectors; ``None`` for others."""
    if not (folder / MODULES).is_file():
        return None
    names, modules = read_modules(folder)
    if names[:1] != ("WordEmbeddings",):
        return None
    file = _module_folder(folder, modules[0]) / json_file.WHITESPACE_TOKENIZER
    return file if file.is_file() and not files.leads_away(file) else None


def folders_of(folder: Path) -> tuple[Path, ...]:
    """Return the folders that may have the settings of a model; ``folder`` is the first."""
    return (folder, folder.parent) if folder.name == SUBFOLDER else (folder,)


def read_settings(file: Path, wanted: type) -> Any:
    with reading(str(file)):
        data = read_file(file, MAX_HEADER, "settings of more than {:,} bytes")
        return json_file.expect(json_file.parse(data), wanted, "the whole file")


def find_settings(folders: Sequence[Path], name: str) -> tuple[Path, dict[str, Any]]:
    """Return path and object of the first file ``name``; an empty object if no folder has it."""
    paths = [folder / name for folder in folders]
    file = next((file for file in paths if file.is_file()), None)
    return (paths[0], {}) if file is None else (file, read_settings(file, dict))


def read_model2vec(config: Path) -> tuple[bool, int | None]:
    """Return whether vectors are normalised, and how many tokens of a text count; ``None``: all."""
    settings = read_settings(config, dict)
    normalize, most = settings.get("normalize", False), settings.get("max_length", DEFAULT_LENGTH)
    with reading(str(config)):
        json_file.expect(normalize, bool, "normalize")
        if most is not None and not (json_file.is_id(most) and most):
            what = f"wanted null or 1 to {json_file.MAX_ID:,}"
            raise InvalidFile(f"max_length is {json_file.show_value(most)}, {what}")
    return normalize, most


def read_header(file: Path) -> dict[str, Any]:
    with reading(str(file)), file.open("rb") as opened:
        start = opened.read(LENGTH + 1)
        length = int.from_bytes(start[:LENGTH], "little")
        if not is_safetensors(start):
            what = f"wanted a header of 2 to {MAX_HEADER:,} bytes that begins with '{{', got one of"
            what += f" {length:,} bytes that begins with {start[LENGTH:]!r}"
            raise InvalidFile(f"not safetensors: {what}", offset=0)
        data = start[LENGTH:] + opened.read(length - 1)
        if len(data) < length:
            what = f"the header needs {length:,} bytes, but only {len(data):,} are left"
            raise InvalidFile(f"truncated: {what}")
        return json_file.expect(json_file.parse(data), dict, "the header")


def open_tensors(file: Path) -> dict[str, NDArray[Any]]:
    """Memory-map those of ``OWN_TENSORS`` that a file contains, read-only."""
    header = read_header(file)
    with reading(str(file)):
        with file.open("rb") as opened:
            begin = LENGTH + int.from_bytes(opened.read(LENGTH), "little")
            size = opened.seek(0, 2) - begin
        return {
            name: _tensor(file, name, header[name], begin, size)
            for name in OWN_TENSORS
            if name in header
        }


def _tensor(file: Path, name: str, stated: object, begin: int, size: int) -> NDArray[Any]:
    """Memory-map a tensor. ``stated``: its header entry. ``begin``, ``size``: of all values."""
    facts = json_file.expect(stated, dict, f"tensor {name!r}")
    shape = json_file.expect(facts.get("shape"), list, f"tensor {name!r}: its shape")
    offsets = json_file.expect(facts.get("data_offsets"), list, f"tensor {name!r}: data_offsets")
    are_sizes = all(type(number) is int and 0 <= number < 1 << 62 for number in (*shape, *offsets))
    if not are_sizes or len(offsets) != 2 or len(shape) > MAX_RANK:
        what = f"tensor {name!r}: invalid shape or data_offsets; download the file again"
        raise InvalidFile(what)
    kind = facts.get("dtype")
    if not isinstance(kind, str) or kind not in DTYPES:
        what = f"the type {json_file.show_value(kind)!r}, wanted one of {', '.join(DTYPES)}"
        raise UnsupportedFormat(f"tensor {name!r} has {what}; save the model with another type")
    dtype = np.dtype(DTYPES[kind])
    start, end = offsets
    if end - start != math.prod(shape) * dtype.itemsize or not start <= end <= size:
        what = (
            f"the header places tensor {name!r} (shape {shape}, type {kind}) in bytes {start:,} to"
        )
        what += f" {end:,} of {size:,}: the file is damaged or truncated, download it again"
        raise InvalidFile(what, offset=begin + start)
    if start == end:
        return np.zeros(0, dtype)  # its shape may be too large for NumPy
    mapped = np.memmap(file, dtype, "r", begin + start, tuple(shape))
    return np.require(np.asarray(mapped), requirements="A")  # unaligned values are copied


# ONNX graphs that turn token ids into vectors.

GRAPH_FILE: Final = "model.onnx"
PATTERN: Final = "model*.onnx"
INPUT_IDS: Final = "input_ids"

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
INPUTS, OP_TYPE, EXTERNAL_DATA = 11, 4, 13  # fields of a graph, a node and a tensor
MAX_FIELDS: Final = 5_000_000  # of all these messages; a graph of 1,000 nodes has 20,000
DYNAMIC: Final = b"DynamicQuantize"  # operators that begin so quantize by all values of a batch


@dataclass(frozen=True, slots=True)
class OnnxFiles:
    """Files of a model. ``folders``: of settings, the graph's first. ``others``: graphs in them."""

    model: Path
    tokenizer: Path
    folders: tuple[Path, ...]
    others: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """How token vectors become the vector of a text.

    ``pooling``: methods whose results are concatenated; empty if ``modules`` has unsupported ones.
    """

    pooling: tuple[Pooling, ...]
    normalize: bool
    modules: tuple[str, ...]
    lower: bool
    notes: tuple[str, ...]


def find_onnx(path: Path) -> OnnxFiles:
    """Find a model by its folder or its graph. Raises :class:`UnknownFormat` for other paths."""
    from vocabtool.formats import onnx  # with tokenizers and word lists

    model = path
    if path.is_dir():
        graphs = [*_graphs(path), *_graphs(path / SUBFOLDER)]
        if not graphs:
            raise UnknownFormat(f"{path}: contains neither {GRAPH_FILE} nor {SUBFOLDER}/{PATTERN}")
        model = next((file for file in graphs if file.name == GRAPH_FILE), graphs[0])
        if model.name != GRAPH_FILE and len(graphs) > 1:
            listed = ", ".join(str(file.relative_to(path)) for file in graphs[: files.MAX_NAMED])
            what = f"{path}: several graphs, but no {GRAPH_FILE}; pass one of {listed}"
            raise UnknownFormat(what)
    folders = folders_of(model.parent)
    tokenizers = (folder / TOKENIZER for folder in folders)
    tokenizer = next((file for file in tokenizers if file.is_file()), None)
    if tokenizer is None:
        raise UnknownFormat(f"{model}: no {TOKENIZER} beside it")
    with reading(str(model)):
        reason = onnx.READER.recognise(Source.open(model))
        if reason is not None:
            raise UnknownFormat(f"{model}: not an ONNX model: {reason}")
        buffer = files.map_file(model)
        names = [
            printable(wire.Message(buffer, value).text(onnx.NAME))
            for graph in wire.messages(buffer, (0, len(buffer)), onnx.MODEL_GRAPH)
            for value in wire.messages(buffer, graph, INPUTS)
        ]
        if INPUT_IDS not in names:
            listed = ", ".join(names[: files.MAX_NAMED]) or "none"
            raise UnknownFormat(f"{model}: it has no input {INPUT_IDS!r}; its inputs: {listed}")
    others = (file for folder in folders for file in _graphs(folder) if file != model)
    return OnnxFiles(model, tokenizer, folders, tuple(others))


def _graphs(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(PATTERN) if file.is_file())


def check_graph(file: Path) -> tuple[list[Path], bool]:
    """Check that a graph refers only to files in its own folder. The graph is not executed.

    Returns the files of its tensors, and whether it quantizes by a scale of the whole batch.

    Raises :class:`InvalidFile` for another folder, a link outside a Hugging Face cache, or a file
    that is too small, and :class:`NotFound` if a file is missing.
    """
    buffer = files.map_file(file)
    stack: list[tuple[str, Span]] = [("model", (0, len(buffer)))]
    external: dict[Path, None] = {}
    dynamic, seen = False, 0
    with reading(str(file)):
        while stack:
            kind, span = stack.pop()
            submessages = PARTS.get(kind, {})
            facts: list[Span] = []
            for number, wire_type, start, end in wire.fields(buffer, *span):
                seen += 1
                if seen > MAX_FIELDS:
                    raise UnsupportedFormat(f"a graph of more than {MAX_FIELDS:,} fields")
                if wire_type != wire.LEN:
                    continue
                if number in submessages:
                    stack.append((submessages[number], (start, end)))
                elif kind == "node" and number == OP_TYPE:
                    dynamic |= buffer[start:end].startswith(DYNAMIC)
                elif kind == "tensor" and number == EXTERNAL_DATA:
                    facts.append((start, end))
            if facts:
                external[_external_file(file, buffer, facts)] = None
    return [*external], dynamic


def _external_file(model: Path, buffer: Buffer, facts: list[Span]) -> Path:
    """Return the file that contains a tensor. ``facts``: the pairs of a name and a value about it.

    If a name repeats, each value must be valid, because programs differ in which one they take.
    """
    stated: dict[bytes, list[bytes]] = {}
    for fact in facts:
        pair = wire.Message(buffer, fact)
        stated.setdefault(pair.value(1), []).append(pair.value(2))
    places = {named_file(model.parent, name) for name in stated.get(b"location", [b""])}
    if len(places) > 1:
        raise InvalidFile("a tensor is in several files")
    (file,) = places
    name = json_file.show(file.name)
    if not file.is_file():
        raise NotFound(f"{model}: its tensors are in {name}, which is missing; download it, too")
    if files.leads_away(file):
        what = "which has tensors of the model, is a symbolic link: it is not opened"
        raise InvalidFile(f"{name}, {what}")
    numbers = [*stated.get(b"offset", [b"0"]), *stated.get(b"length", [b"0"])]
    if not all(number.isdigit() and len(number) < 20 for number in numbers):
        raise InvalidFile(f"a tensor in {name}: its offset and length are not whole numbers")
    needed, size = sum(map(int, numbers)), file.stat().st_size
    if needed > size:
        what = f"a tensor ends at byte {needed:,} of {name}, which has {size:,} bytes"
        raise InvalidFile(f"{what}: the file is damaged or truncated, download it again")
    return file


def read_all_settings(model: OnnxFiles) -> Settings:
    """Read how token vectors become the vector of a text; without settings, by their mean."""
    lower = find_settings(model.folders, SENTENCES)[1].get("do_lower_case") is True
    folder = next((home for home in model.folders if (home / MODULES).is_file()), None)
    if folder is not None:
        modules, described = read_modules(folder)
        pooling: tuple[Pooling, ...] = ()
        if modules in SUPPORTED:
            pooling = _pooling(read_settings(_module_folder(folder, described[1]) / CONFIG, dict))
        return Settings(pooling, modules[-1:] == ("Normalize",), modules, lower, ())
    pooling = _pooling(find_settings(model.folders, f"{POOLING}/{CONFIG}")[1])
    note = NO_MODULES.format(", ".join(pooling))
    return Settings(pooling, normalize=False, modules=(), lower=lower, notes=(note,))


def _pooling(settings: dict[str, Any]) -> tuple[Pooling, ...]:
    modes = settings.get("pooling_mode")
    if modes is None:
        modes = [mode for switch, mode in SWITCHES.items() if settings.get(switch) is True]
    modes = tuple(modes) if isinstance(modes, list) else (modes,)
    if not all(mode in get_args(Pooling) for mode in modes):
        wanted = ", ".join(get_args(Pooling))
        shown = ", ".join(map(json_file.show_value, modes))
        what = f"pooling_mode is {shown}, wanted one or more of {wanted}"
        raise InvalidFile(what, file=f"{POOLING}/{CONFIG}")
    return modes or DEFAULT
