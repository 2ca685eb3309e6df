"""Open files and arrays safely, and find models in local caches. Nothing is downloaded.

A model may name a file outside its folder, such as ``../../etc/passwd``, or contain a link to such
a file. These files are not opened.

Cache of tensorflow_hub (0.16.1): ``tfhub_cache_dir`` in tensorflow_hub/resolver.py and
``_module_dir`` in tensorflow_hub/compressed_module_resolver.py. The name of a module's folder is
the SHA-1 hash of the module's handle. Handles that are spelled differently have different folders.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, get_args

import numpy as np

from vocabtool.choices import KINDS, TiktokenName
from vocabtool.errors import (
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.formats.wire import Buffer
from vocabtool.vocabulary import printable

MAX_FILE: Final = 1 << 28  # bytes of a vocabulary; ten times the largest known tokenizer
MAX_FILES: Final = 10_000  # of a folder, an archive or a manifest
MAX_NAMED: Final = 5  # handles, files or values that a message names
MARK: Final = "#"  # separates the name of a vocabulary


def first_few(names: Collection[str]) -> list[str]:
    few = [*islice(names, MAX_NAMED)]
    return few if len(names) <= MAX_NAMED else [*few, "..."]


def map_file(file: Path) -> Buffer:
    """Memory-map a file for reading; return ``b""`` for an empty file."""
    with file.open("rb") as opened:
        if not opened.seek(0, 2):
            return b""
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def read_file(file: Path, limit: int, what: str = "larger than {:,} bytes") -> bytes:
    """Return the content of a file of at most ``limit`` bytes. Refuses Git LFS pointers.

    ``what``: the message of :class:`UnsupportedFormat`; ``{0:,}`` is the limit, ``{1:,}`` the size.
    """
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        data = opened.read(limit + 1) if size <= limit else b""
    size = max(size, len(data))  # a device or a file in /proc has the size 0
    if size > limit:
        raise UnsupportedFormat(what.format(limit, size))
    refuse_pointer(data[:64])
    return data


def named_file(folder: Path, name: bytes) -> Path:
    """Return the path of the file ``name`` in ``folder``. The file need not exist.

    Raises :class:`InvalidFile` if the name is not UTF-8, or is a path such as ``../a`` or ``C:a``.
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if text in ("", ".", "..") or any(c in text for c in "/\\:\0"):
        raise InvalidFile(
            f"the model names a file by the path {printable(name)!r}; vocabtool opens only files "
            "in the folder of the model"
        )
    return folder / text


CACHED: Final = re.compile(r"(\.\./){2,3}blobs/[0-9A-Za-z]+")  # a link in a Hugging Face cache


def leads_away(path: Path) -> bool:
    """Return whether a file is a link, other than to a blob of its own Hugging Face cache."""
    if not path.is_symlink():
        return False
    target = os.fspath(path.readlink())
    blob = path.parent / target
    if not CACHED.fullmatch(target) or not blob.is_file() or blob.is_symlink():
        return True
    cache = blob.resolve().parent.parent  # the folder ``blobs`` may be a link, too
    return not path.parent.resolve().is_relative_to(cache / "snapshots")


def refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise InvalidFile("a symbolic link: it is not opened; replace it with its target")


def read_linkless(path: Path, name: str, limit: int = MAX_FILE) -> bytes:
    """Return the content of a model's file, which must not be a link. ``name``: in messages."""
    with reading(name):
        refuse_link(path)
        if not path.is_file():
            raise NotFound(f"{name}: the model refers to this file, but it does not exist")
        return read_file(path, limit)


# Local caches.

CACHE_DIR: Final = "TFHUB_CACHE_DIR"
HANDLE: Final = re.compile(r"https?://[^/\s]")  # the address of a module, on any host


def find(handle: str) -> Path:
    """Return tensorflow_hub's folder of a module; :class:`NotFound` says how to download one."""
    import shlex  # slow to import

    stated = os.environ.get(CACHE_DIR)
    folder = _in_cache(stated, "tfhub_modules", handle)
    if folder.is_dir() and any(folder.iterdir()):
        return folder
    resolve = f"import tensorflow_hub; tensorflow_hub.resolve({json.dumps(handle)})"
    archive = handle + ("&" if "?" in handle else "?") + "tf-hub-format=compressed"
    raise NotFound(
        f"{handle} is not in the local cache of TensorFlow Hub.\n"
        f"Looked for the folder {folder.name} in {folder.parent} "
        f"({CACHE_DIR if stated else f'{CACHE_DIR} is not set'}).\n"
        "To download it into the cache:\n"
        f"  python -c {shlex.quote(resolve)}\n"
        "Or, without TensorFlow, download it into a folder, and pass the folder as the model:\n"
        f"  mkdir model && curl -L {shlex.quote(archive)} | tar xz -C model"
    )


ENCODING: Final = "tiktoken:"
ENCODINGS: Final = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
OF_SAME_RANKS: Final = {"p50k_edit": "p50k_base", "o200k_harmony": "o200k_base"}


def find_encoding(name: str) -> Path:
    """Return the file of the encoding ``name`` in tiktoken's cache.

    Raises :class:`NotFound` for an unknown encoding or a missing file. Sources:
    ``read_file_cached`` in tiktoken/load.py, and tiktoken_ext/openai_public.py.
    """
    encodings = tuple(set(get_args(TiktokenName)) - {"gpt2"})  # its ranks have another format
    if name not in encodings:
        listed = ", ".join(sorted(encodings))
        raise NotFound(f"{ENCODING}{name}: no such encoding, wanted one of {listed}")
    stated = os.getenv("TIKTOKEN_CACHE_DIR") or os.getenv("DATA_GYM_CACHE_DIR")
    url = ENCODINGS.format(OF_SAME_RANKS.get(name, name))
    file = _in_cache(stated, "data-gym-cache", url)
    if file.is_file():
        return file
    command = f"python -c 'import tiktoken; tiktoken.get_encoding(\"{name}\")'"
    raise NotFound(
        f"{ENCODING}{name}: not in tiktoken's cache, {file.parent} (TIKTOKEN_CACHE_DIR). "
        f"To download it into the cache:\n  {command}"
    )


def _in_cache(folder: str | None, default: str, address: str) -> Path:
    """Return where a cache keeps what has an address; ``default``: its name in temporary files."""
    import hashlib
    import tempfile  # slow to import

    name = hashlib.sha1(address.encode("utf-8", "surrogateescape"), usedforsecurity=False)
    return Path(folder or Path(tempfile.gettempdir(), default)) / name.hexdigest()


DEFAULT_OWNER: Final = "sentence-transformers"  # of names of models without an owner
FOLDERS: Final = ("sentence-transformers", "model2vec", "onnx")  # kinds with names in that cache


def split_kind(model: str) -> tuple[str, str]:
    """Split ``KIND:PATH``, such as ``static:words.vec``, into ``KIND:`` and ``PATH``.

    ``KIND:`` is empty if there is none, for ``python:``, and if a file named ``model`` exists.
    """
    prefix, colon, rest = model.partition(":")
    if prefix in KINDS and prefix != "python" and not os.path.exists(model):  # noqa: PTH110 - accepts any text
        return prefix + colon, rest
    return "", model


def split_name(model: str) -> tuple[str, str | None]:
    """Split ``FILE#NAME`` into a path and a vocabulary name, which is ``None`` if missing.

    A path may contain ``#``: it is the longest that exists and is followed by ``#`` or nothing.
    """
    if os.path.lexists(split_kind(model)[1]):
        return model, None
    for at in range(len(model) - 1, 0, -1):
        kind, path = split_kind(model[:at])
        if model[at] == MARK and (kind or os.path.lexists(path) or "://" in path):
            return kind + path, model[at + 1 :]
    return model, None


def find_folder(model: str | Path) -> Path:
    """Return the folder of a model: its path, or its name in the local Hugging Face cache."""
    folder = Path(model)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise NotFound(f"{folder}: wanted a folder with modules.json, got a file")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        what = "huggingface-hub is not installed: pip install huggingface-hub"
        raise UnsupportedFormat(what) from error
    name = str(model)
    tried = [name] if "/" in name else [f"{DEFAULT_OWNER}/{name}", name]
    for candidate in tried:
        try:
            return Path(snapshot_download(candidate, local_files_only=True))
        except (LocalEntryNotFoundError, HFValidationError):
            continue
    raise NotFound(
        f"{name}: no such folder, and no model {' or '.join(tried)} in the local cache. "
        f"To download it: hf download {tried[0]}"
    )


SAVED_MODELS: Final = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")


def find_model(model: str | Path) -> Path:
    """Find a model by path, Hub handle or name in a cache; a prefix like ``static:`` is ignored."""
    kind, name = split_kind(model) if isinstance(model, str) else ("", "")
    if kind:
        model = name
    if isinstance(model, str) and HANDLE.match(model):
        return find(model)
    path = Path(model)
    if str(model).startswith(ENCODING) and not path.exists():
        return find_encoding(str(model).removeprefix(ENCODING))
    if kind.removesuffix(":") in FOLDERS and not path.exists():
        path = find_folder(model)
    if not path.exists():
        if kind == "openai:" or str(model).startswith("python:"):
            what = "a server" if kind else "a callable"
            raise VocabtoolError(
                f"{kind}{model}: {what} has no vocabulary; pass a file that lists the words"
            )
        raise NotFound(f"{path}: no such file or folder (a hub handle begins with https://)")
    if not path.is_file() and not path.is_dir():
        raise NotFound(f"{path}: neither a file nor a folder; wanted a model's folder or file")
    return path


def graphs_file_in(folder: Path) -> Path | None:
    paths = (folder / name for name in SAVED_MODELS)
    return next((path for path in paths if path.exists()), None)


# Arrays of NumPy (numpy.org/doc/stable/reference/generated/numpy.lib.format.html). A header is a
# Python dictionary as text. It is matched by a regular expression, never evaluated.

NUMPY_MAGIC: Final = b"\x93NUMPY"
MAX_HEAD: Final = 1 << 14  # bytes of the dictionary; NumPy pads it to 118
DICTIONARY: Final = re.compile(
    rb"\{'descr': *'([<>|=]?[a-zA-Z][0-9]{0,9})', *'fortran_order': *(True|False), *"
    rb"'shape': *\(((?:[0-9]{1,18},? ?){0,8})\),? *\} *\n?"
)
FloatMap = np.memmap[Any, np.dtype[np.floating[Any]]]


@dataclass(frozen=True, slots=True)
class ArrayHead:
    """The header of a ``.npy`` array. ``start``, ``size``: its and the values' length in bytes."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    start: int
    size: int


def read_array_head(file: BinaryIO) -> ArrayHead:
    """Read an array's header, and leave ``file`` at the first value.

    Raises :class:`InvalidFile`, and :class:`UnsupportedFormat` for values that are neither numbers
    nor text.
    """
    fixed = file.read(8)
    if not fixed.startswith(NUMPY_MAGIC) or len(fixed) < 8 or fixed[6] not in (1, 2, 3):
        raise InvalidFile(f"not a NumPy array: it begins with {fixed.hex(' ')}", offset=0)
    width = 2 if fixed[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEAD:
        raise InvalidFile(f"an array header of {length:,} bytes, wanted at most {MAX_HEAD:,}")
    text = file.read(length)
    match = DICTIONARY.fullmatch(text)
    if match is None:
        raise UnsupportedFormat(f"not an array of numbers or text: its header is {text[:80]!r}")
    descr, by_column, shape = match.groups()
    try:
        dtype = np.dtype(descr.decode())
        sizes = tuple(int(size) for size in shape.replace(b" ", b"").split(b",") if size)
    except (TypeError, ValueError) as error:
        what = f"an array header with an invalid type {descr!r} or shape {shape[:40]!r}"
        raise InvalidFile(what) from error
    if dtype.hasobject:
        raise UnsupportedFormat(
            "an array of Python objects is a pickle, which is never loaded: save array.astype(str)"
        )
    order: Literal["C", "F"] = "F" if by_column == b"True" else "C"
    return ArrayHead(dtype, sizes, order, 8 + width + length, dtype.itemsize * math.prod(sizes))


def open_array(file: Path, start: int = 0, end: int | None = None) -> FloatMap:
    """Memory-map a two-dimensional ``.npy`` array of floats, stored in bytes ``start:end``."""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(start)
        head = read_array_head(opened)
    if len(head.shape) != 2 or head.dtype.kind != "f" or not head.size:
        what = f"an array of type {head.dtype} and shape {head.shape}"
        raise UnsupportedFormat(f"{what}, wanted two-dimensional floats")
    start += head.start
    there = min(size if end is None else end, size) - start
    if head.size != there:
        what = f"an array of shape {head.shape} needs {head.size:,} bytes, got {there:,}"
        raise InvalidFile(what, offset=start)
    return np.memmap(file, head.dtype, "r", start, head.shape, head.order)
