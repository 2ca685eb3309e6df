"""Find and read static embeddings: a matrix with a vector for each token of a tokenizer.

Layouts, recognised by content:

- MinishLab/model2vec, model2vec/persistence/persistence.py: ``config.json``, ``tokenizer.json`` and
  ``model.safetensors`` with the tensor ``embeddings``, sometimes also ``weights`` and ``mapping``.
- huggingface/sentence-transformers, modules/static_embedding.py: ``modules.json`` names the folder
  of a ``StaticEmbedding``, which has ``tokenizer.json`` and ``model.safetensors`` with the tensor
  ``embedding.weight`` (or the tensors of model2vec). A module ``Normalize`` may follow.

A file of safetensors (huggingface/safetensors, README.md, Format) has three parts: the length of
the header (8 bytes, little-endian), the header, and the values. The header is a JSON object that
maps the name of each tensor to ``dtype``, ``shape`` and ``data_offsets``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnknownFormat, UnsupportedFormat, reading
from vocabtool.formats import json_file
from vocabtool.formats.files import named_file, read_file

Style = Literal["model2vec", "sentence-transformers"]

WEIGHTS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
CONFIG: Final = "config.json"
MODULES: Final = "modules.json"
SENTENCES: Final = "sentence_bert_config.json"  # of the module Transformer
SUBFOLDER: Final = "onnx"  # of graphs whose settings may lie one folder higher
EMBEDDINGS: Final = ("embeddings", "embedding.weight")  # the matrix: model2vec's name, the other's
MAPPING, TOKEN_WEIGHTS = "mapping", "weights"
OWN_TENSORS: Final = (*EMBEDDINGS, MAPPING, TOKEN_WEIGHTS)
LIBRARY: Final = "sentence_transformers."

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

    - ``style``: the library that defines how the vector of a text is computed.
    - ``config``: the file with the settings of model2vec, or ``None``.
    - ``normalize``: whether a module of sentence-transformers scales vectors to length 1.
    """

    style: Style
    tensors: Path
    tokenizer: Path
    config: Path | None = None
    normalize: bool = False


def is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:LENGTH], "little")
    return head[LENGTH : LENGTH + 1] == b"{" and 2 <= length <= MAX_HEADER


def find(path: Path) -> EmbeddingFiles:
    """Find the files of a static embedding.

    ``path``: the folder of the embedding, or the file of its tensors. Raises :class:`UnknownFormat`
    if ``path`` is not such an embedding.
    """
    if path.is_dir():
        return _in_folder(path)
    with reading(str(path)), path.open("rb") as opened:
        if not is_safetensors(opened.read(LENGTH + 1)):
            raise UnknownFormat(f"{path}: not a file of safetensors")
    try:
        found = _in_folder(path.parent)
    except UnknownFormat as error:
        why = f"{path}: tensors without the files of a static embedding beside them"
        raise UnknownFormat(why, (error.what,)) from error
    if found.tensors != path:
        raise UnknownFormat(f"{path}: the model's tensors are in another file: {found.tensors}")
    return found


def _in_folder(folder: Path) -> EmbeddingFiles:
    part, normalize = folder, False
    if (folder / MODULES).is_file():
        names, modules = read_modules(folder)
        if names not in (("StaticEmbedding",), ("StaticEmbedding", "Normalize")):
            raise UnknownFormat(f"{folder / MODULES}: its modules are {', '.join(names) or 'none'}")
        normalize = names[-1] == "Normalize"
        with reading(str(folder / MODULES)):
            path = json_file.expect(modules[0].get("path"), str, "the path of a module")
            if path not in ("", "."):
                part = named_file(folder, path.encode("utf-8", "surrogatepass"))
    tensors, tokenizer, config = part / WEIGHTS, part / TOKENIZER, folder / CONFIG
    has_modules, has_config = (folder / MODULES).is_file(), part == folder and config.is_file()
    wanted = (tensors, tokenizer) if has_modules else (tensors, tokenizer, config)
    if missing := [file.name for file in wanted if not file.is_file()]:
        raise UnknownFormat(f"{part}: not a static embedding: no {' and no '.join(missing)}")
    if has_config and EMBEDDINGS[0] in read_header(tensors):
        return EmbeddingFiles("model2vec", tensors, tokenizer, config)
    if not has_modules:
        raise UnknownFormat(f"{tensors}: not a static embedding: no tensor {EMBEDDINGS[0]!r}")
    return EmbeddingFiles("sentence-transformers", tensors, tokenizer, normalize=normalize)


def read_modules(folder: Path) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return the names of the modules in a folder, and their descriptions.

    A module that is not part of sentence-transformers is named by its whole type.
    """
    modules = read_settings(folder / MODULES, list)
    with reading(str(folder / MODULES)):
        types = [json_file.expect(each, dict, "a module").get("type") for each in modules]
        types = [each if isinstance(each, str) else json_file.kind(each) for each in types]
    names = [type_.rpartition(".")[2] if type_.startswith(LIBRARY) else type_ for type_ in types]
    return tuple(map(json_file.show, names)), modules


def folders_of(folder: Path) -> tuple[Path, ...]:
    """Return the folders that may have the settings of a model; ``folder`` is the first."""
    return (folder, folder.parent) if folder.name == SUBFOLDER else (folder,)


def read_settings(file: Path, wanted: type) -> Any:
    with reading(str(file)):
        data = read_file(file, MAX_HEADER, "settings of more than {:,} bytes")
        return json_file.expect(json_file.parse(data), wanted, "the whole file")


def find_settings(folders: Sequence[Path], name: str) -> tuple[Path, dict[str, Any]]:
    """Return the path and the JSON object of the file ``name`` in the first folder that has it.

    If no folder has it, the path is in the first folder, and the object is empty.
    """
    files = [folder / name for folder in folders]
    file = next((file for file in files if file.is_file()), None)
    return (files[0], {}) if file is None else (file, read_settings(file, dict))


def read_model2vec(config: Path) -> tuple[bool, int | None]:
    """Return whether vectors are normalised, and the maximum number of tokens of a text.

    The number is ``None`` if all tokens are used.
    """
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
    facts = json_file.expect(stated, dict, f"tensor {name!r}")
    shape = json_file.expect(facts.get("shape"), list, f"tensor {name!r}: its shape")
    offsets = json_file.expect(facts.get("data_offsets"), list, f"tensor {name!r}: data_offsets")
    whole = all(type(number) is int and 0 <= number < 1 << 62 for number in (*shape, *offsets))
    if not whole or len(offsets) != 2 or len(shape) > MAX_RANK:
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
        what += f" {end:,} of {size:,}, where it does not fit: download the file again"
        raise InvalidFile(what, offset=begin + start)
    if start == end:
        return np.zeros(0, dtype)  # its shape may be too large for NumPy
    mapped = np.memmap(file, dtype, "r", begin + start, tuple(shape))
    return np.require(np.asarray(mapped), requirements="A")  # unaligned values are copied
