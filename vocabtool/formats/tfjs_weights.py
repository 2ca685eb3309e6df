"""The weights of a TensorFlow.js model: where each lies in the files beside ``model.json``.

Layout: tensorflow/tfjs, tfjs-converter/python/tensorflowjs/write_weights.py, and
``decodeWeights`` in tfjs-core/src/io/io_utils.ts. The files of a group are one run of bytes, cut
anywhere; its weights follow one another. A string is its length in four bytes, then its bytes.
Of numbers only int32 is read. A file is opened by a bare name and never through a link.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, reading, refuse_pointer
from vocabtool.formats.json_values import kind, shown
from vocabtool.formats.mapped import mapped
from vocabtool.formats.named_files import named_file, refuse_link
from vocabtool.formats.wire import Buffer
from vocabtool.system.byte_strings import ByteStrings

STRING: Final = "string"
INT32: Final = "int32"
SIZES: Final[dict[str, int]] = {  # bytes of one number
    "float32": 4,
    "float16": 2,
    INT32: 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "complex64": 8,
}
LENGTH: Final = struct.Struct("<I")
MAX_FILES: Final = 10_000  # of 4 MB each: 40 GB
MAX_RANK: Final = 254  # TensorFlow's own limit
MAX_ELEMENTS: Final = (1 << 63) - 1
WINDOW: Final = 1 << 18  # bytes of strings read at a time


class Weight(NamedTuple):
    """A weight as the manifest declares it. ``group``: which of the groups it lies in."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    group: int

    @property
    def elements(self) -> int:
        """How many numbers or strings the weight has."""
        return math.prod(self.shape)


class Manifest(NamedTuple):
    """``weightsManifest``: the weights of each group, and its files."""

    weights: tuple[Weight, ...]
    files: tuple[tuple[str, ...], ...]


def manifest(value: object) -> Manifest:
    """Check a ``weightsManifest``. Raises :class:`InvalidFile` where it is not laid out as one."""
    groups = [] if value is None else _list(value, "weightsManifest")
    weights: list[Weight] = []
    files: list[tuple[str, ...]] = []
    for number, group in enumerate(groups):
        where = f"weightsManifest: group {number:,}"
        if not isinstance(group, dict):
            raise InvalidFile(f"{where} is {kind(group)}, wanted an object")
        paths = _list(group.get("paths"), f"{where}: paths")
        if not all(isinstance(path, str) for path in paths):
            raise InvalidFile(f"{where}: a path that is no text")
        files.append(tuple(paths))
        declared = _list(group.get("weights"), f"{where}: weights")
        weights += [_weight(weight, number, where) for weight in declared]
    named = [path for paths in files for path in paths]
    if len(named) > MAX_FILES:
        raise InvalidFile(f"weightsManifest: {len(named):,} files, wanted at most {MAX_FILES:,}")
    if len(set(named)) != len(named):
        raise InvalidFile("weightsManifest: a file is named twice")
    return Manifest(tuple(weights), tuple(files))


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidFile(f"{what} is {kind(value)}, wanted a list")
    return value


def _weight(value: object, group: int, where: str) -> Weight:
    if not isinstance(value, dict):
        raise InvalidFile(f"{where}: a weight is {kind(value)}, wanted an object")
    name, dtype, quantization = (value.get(key) for key in ("name", "dtype", "quantization"))
    if not isinstance(name, str):
        raise InvalidFile(f"{where}: the name of a weight is {kind(name)}, wanted a text")
    where = f"{where}: weight {shown(name)!r}"
    shape = _list(value.get("shape"), f"{where}: shape")
    lengths = len(shape) <= MAX_RANK and all(type(n) is int and n >= 0 for n in shape)
    if not lengths or math.prod(shape) > MAX_ELEMENTS:
        raise InvalidFile(f"{where}: a shape that no tensor has")
    stored = quantization.get("dtype") if isinstance(quantization, dict) else dtype
    if not isinstance(stored, str) or not isinstance(dtype, str):
        raise InvalidFile(f"{where}: no dtype")
    return Weight(name, stored, tuple(shape), group)


class Run:
    """The files of one group as one run of bytes, read where they are asked for."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self._buffers = [_opened(folder, name) for name in names]
        self.size = sum(map(len, self._buffers))

    def read(self, at: int, size: int) -> bytes:
        """``size`` bytes from ``at`` on, fewer at the end."""
        found = []
        for buffer in self._buffers:
            if at < len(buffer) and size > 0:
                found.append(bytes(buffer[at : at + size]))
                size -= len(found[-1])
            at = max(at - len(buffer), 0)
        return b"".join(found)


def _opened(folder: Path, name: str) -> Buffer:
    with reading(shown(name)):
        file = named_file(folder, name.encode("utf-8", "surrogatepass"))
        refuse_link(file)
        if not file.is_file():
            raise NotFound(f"{shown(name)}: model.json names this file, and it is not beside it")
        buffer = mapped(file)
        refuse_pointer(bytes(buffer[:64]))
        return buffer


class Values(NamedTuple):
    """The values of one weight that holds strings or whole numbers."""

    weight: Weight
    strings: ByteStrings | None
    numbers: NDArray[np.int64] | None


def read_weights(
    found: Manifest, folder: Path, wanted: set[str], warnings: list[str]
) -> Iterator[Values]:
    """The values of every weight of strings, and of int32 where its name is ``wanted``.

    What cannot be read is said in ``warnings``; files are opened only where something is read.
    """
    by_group = groupby(found.weights, key=attrgetter("group"))  # one after the other, as listed
    for group, listed in by_group:
        names, weights = found.files[group], list(listed)
        read = [w for w in weights if w.dtype == STRING or (w.dtype == INT32 and w.name in wanted)]
        if not read:
            continue
        try:
            yield from _read_group(Run(folder, names), weights, {w.name for w in read})
        except (InvalidFile, NotFound, UnsupportedFormat, OSError) as error:
            named = ", ".join(repr(shown(weight.name)) for weight in read[:5])
            warnings.append(f"weights {named}{', ...' * (len(read) > 5)}: {error}")


def _read_group(run: Run, weights: list[Weight], wanted: set[str]) -> Iterator[Values]:
    at = 0
    for weight in weights:
        if weight.dtype == STRING:
            strings, at = _strings(run, at, weight)
            yield Values(weight, strings, None)
            continue
        if weight.dtype not in SIZES:
            raise InvalidFile(
                f"weight {shown(weight.name)!r} has dtype {shown(weight.dtype)!r}, whose size is "
                "not known, and with it where the next one begins"
            )
        size = weight.elements * SIZES[weight.dtype]
        if at + size > run.size:
            raise InvalidFile(
                f"weight {shown(weight.name)!r} ends at byte {at + size:,} of its files, which "
                f"have {run.size:,}"
            )
        if weight.name in wanted:
            numbers = np.frombuffer(run.read(at, size), "<i4").astype(np.int64)
            yield Values(weight, None, numbers)
        at += size


def _strings(run: Run, at: int, weight: Weight) -> tuple[ByteStrings, int]:
    """The strings of a weight, and where the next one begins."""
    missing = weight.elements
    entries: list[bytes] = []
    window = WINDOW
    if missing * LENGTH.size > run.size - at:
        raise InvalidFile(f"{missing:,} strings do not fit into {run.size - at:,} bytes", offset=at)
    while missing > len(entries):
        data = run.read(at, window)
        used = _take(data, missing, entries)
        if not used and len(data) < window:
            raise InvalidFile("a string runs past the end of the files", offset=at)
        window = window if used else window * 2  # a string longer than that
        at += used
    return ByteStrings.of(entries), at


def _take(data: bytes, count: int, entries: list[bytes]) -> int:
    """Add the whole strings in ``data`` to ``entries``, up to ``count``; return their bytes."""
    pos = 0
    while len(entries) < count and pos + LENGTH.size <= len(data):
        start = pos + LENGTH.size
        end = start + LENGTH.unpack_from(data, pos)[0]
        if end > len(data):
            break
        entries.append(data[start:end])
        pos = end
    return pos
