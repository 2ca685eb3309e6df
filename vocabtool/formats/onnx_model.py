"""Find the files of an ONNX model that turns token ids into vectors, and read its settings.

Layout: ``model.onnx``, or ``onnx/model*.onnx``. ``tokenizer.json`` is in the same folder or one
folder higher, as written by huggingface/optimum and sentence-transformers. The graph has the input
``input_ids``. Settings, all optional, as in sentence-transformers:

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from vocabtool.choices import Pooling
from vocabtool.errors import InvalidFile, NotFound, UnknownFormat, UnsupportedFormat, reading
from vocabtool.formats import onnx, wire
from vocabtool.formats.files import MAX_NAMED, map_file, named_file
from vocabtool.formats.json_file import expect, show
from vocabtool.formats.reader import Source
from vocabtool.formats.static_embedding import (
    CONFIG,
    LIBRARY,
    MODULES,
    SENTENCES,
    SUBFOLDER,
    TOKENIZER,
    find_settings,
    folders_of,
    read_settings,
)
from vocabtool.formats.wire import LEN, Buffer, Span
from vocabtool.vocabulary import printable

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
GRAPH, INPUTS, NAME, OP, EXTERNAL = 7, 11, 1, 4, 13
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
    model = _graph_in(path) if path.is_dir() else path
    folders = folders_of(model.parent)
    tokenizers = (folder / TOKENIZER for folder in folders)
    tokenizer = next((file for file in tokenizers if file.is_file()), None)
    if tokenizer is None:
        raise UnknownFormat(f"{model}: no {TOKENIZER} beside it")
    with reading(str(model)):
        reason = onnx.READER.recognise(Source.open(model))
        if reason is not None:
            raise UnknownFormat(f"{model}: not an ONNX model: {reason}")
        if INPUT_IDS not in (names := _inputs(map_file(model))):
            listed = ", ".join(names[:MAX_NAMED]) or "none"
            raise UnknownFormat(f"{model}: it has no input {INPUT_IDS!r}; its inputs: {listed}")
    others = (file for folder in folders for file in _graphs(folder) if file != model)
    return OnnxFiles(model, tokenizer, folders, tuple(others))


def _graphs(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(PATTERN) if file.is_file())


def _graph_in(folder: Path) -> Path:
    found = [*_graphs(folder), *_graphs(folder / SUBFOLDER)]
    named = [file for file in found if file.name == MODEL]
    if not found:
        raise UnknownFormat(f"{folder}: contains neither {MODEL} nor {SUBFOLDER}/{PATTERN}")
    if not named and len(found) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in found[:MAX_NAMED])
        raise UnknownFormat(f"{folder}: several graphs, but no {MODEL}; pass one of {names}")
    return (named or found)[0]


def _inputs(buffer: Buffer) -> list[str]:
    return [
        printable(wire.last_bytes(buffer, value, NAME))
        for graph in wire.messages(buffer, (0, len(buffer)), GRAPH)
        for value in wire.messages(buffer, graph, INPUTS)
    ]


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
        raise InvalidFile(
            f"{name}, which has tensors of the model, is a symbolic link: it is not opened"
        )
    if not file.is_file():
        raise NotFound(f"{model}: its tensors are in {name}, which is missing; download it, too")
    numbers = [*found.get(b"offset", [b"0"]), *found.get(b"length", [b"0"])]
    if not all(number.isdigit() and len(number) < 20 for number in numbers):
        raise InvalidFile(f"a tensor in {name}: its offset and length are not whole numbers")
    needed, size = sum(map(int, numbers)), file.stat().st_size
    if needed > size:
        raise InvalidFile(
            f"a tensor ends at byte {needed:,} of {name}, which has {size:,} bytes: the file is "
            "damaged or truncated, download it again"
        )
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
    modules = read_settings(folder / MODULES, list)
    with reading(str(folder / MODULES)):
        types = [str(expect(each, dict, "a module").get("type")) for each in modules]
        names = tuple(show(name.rpartition(".")[2]) for name in types)
        known = all(name.startswith(LIBRARY) for name in types)
        if not known or names not in SUPPORTED:
            return names, ()
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
        raise InvalidFile(
            f"pooling_mode is {modes!r:.80}, wanted one or more of {wanted}",
            file=f"{POOLING}/{CONFIG}",
        )
    return modes or DEFAULT
