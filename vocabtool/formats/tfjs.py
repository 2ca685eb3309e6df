"""``model.json`` of TensorFlow.js: the strings among its constants and its weights.

Layout: tensorflow/tfjs, tfjs-converter/src/data/compiled_api.ts: a GraphDef as protobuf writes it
in JSON, where bytes are base64. Most converted constants have their values in the files beside it
(``weightsManifest``, tfjs-core/src/io/io_utils.ts): the files of a group are one run of bytes, cut
anywhere, in which its weights follow one another; a string is its length in four bytes, then its
bytes. A file is opened by a bare name and never through a link. Which table a list of strings fills
is not looked for: every list is a constant, whose ids are positions.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.formats.files import named_file, read_file, refuse_link
from vocabtool.formats.json_file import kind, show
from vocabtool.formats.reader import Finding, Findings, JsonReader, ReadResult, Source, constant
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place

SIZES: Final[dict[str, int]] = {  # bytes of one number
    **dict.fromkeys(("uint8", "bool"), 1),
    **dict.fromkeys(("float16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32"), 4),
    "complex64": 8,
}
LENGTH: Final = struct.Struct("<I")
MAX_FILES: Final = 10_000  # of 4 MB each: 40 GB
MAX_SHARD: Final = 1 << 28  # bytes of one file
MAX_RANK: Final = 254  # TensorFlow's own limit
MAX_ELEMENTS: Final = (1 << 63) - 1
MAX_NAMED: Final = 5  # weights named in a warning

Json = dict[str, Any]


def recognise(document: object) -> str | None:
    """Whether there is an object ``modelTopology`` or a list ``weightsManifest``."""
    if not isinstance(document, dict):
        return f"{kind(document)}, wanted an object"
    topology, manifest = document.get("modelTopology"), document.get("weightsManifest")
    if isinstance(topology, dict) or isinstance(manifest, list):
        return None
    return "neither modelTopology nor weightsManifest in it"


def read(document: Any, source: Source) -> ReadResult:
    """Read a model. Raises :class:`InvalidFile` where its manifest is not laid out as one."""
    unread = Findings()
    findings = list(_constants(document.get("modelTopology"), source.name, unread))
    manifest = document.get("weightsManifest")
    groups = [] if manifest is None else _list(manifest, "weightsManifest")
    if sum(len(_list(_object(group).get("paths"), "paths")) for group in groups) > MAX_FILES:
        raise InvalidFile(f"weightsManifest: more than {MAX_FILES:,} files")
    for group in groups:
        findings += _weights(group, source, unread)
    return ReadResult(tuple(findings), tuple(unread.warnings))


READER: Final = JsonReader("TensorFlow.js model.json", recognise, read)


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidFile(f"{what}: {kind(value)}, wanted a list")
    return value


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise InvalidFile(f"weightsManifest: {kind(value)}, wanted an object")
    return value


def _constants(topology: object, file: str, unread: Findings) -> Iterator[Finding]:
    nodes = topology.get("node") if isinstance(topology, dict) else None
    for node in nodes if isinstance(nodes, list) else ():
        try:
            name, encoded = node["name"], node["attr"]["value"]["tensor"]["stringVal"]
            where = f"modelTopology node {show(name)}"
        except (KeyError, TypeError):
            continue
        if not encoded:
            continue  # a constant of numbers
        try:
            strings = [binascii.a2b_base64(text, strict_mode=True) for text in encoded]
        except (TypeError, ValueError) as error:
            unread.warnings.append(f"{where}: not a list of base64: {error}")
        else:
            yield constant(show(name), ByteStrings.of(strings), Place(file, where))


def _weights(group: Json, source: Source, unread: Findings) -> Iterator[Finding]:
    """The weights of strings in the files of one group, which are opened only for such."""
    paths = _list(group.get("paths"), "weightsManifest: paths")
    weights = [
        _weight(weight) for weight in _list(group.get("weights"), "weightsManifest: weights")
    ]
    texts = [name for name, dtype, _ in weights if dtype == "string"]
    if not texts:
        return
    named = ", ".join(repr(show(name)) for name in texts[:MAX_NAMED])
    with unread.warning(f"weights {named}{', ...' * (len(texts) > MAX_NAMED)}"):
        if not paths:
            raise InvalidFile("no files, but strings in them")
        data = b"".join(_content(source.file.parent, path) for path in paths)
        first = PurePosixPath(source.name).with_name(show(paths[0]))
        at = 0
        for name, dtype, count in weights:
            if dtype == "string":
                strings, at = _strings(data, at, count)
                place = Place(str(first), f"weight {show(name)}")
                yield constant(show(name), strings, place)
            elif dtype in SIZES:
                at += count * SIZES[dtype]
            else:
                raise InvalidFile(f"weight {show(name)!r} has dtype {show(dtype)!r}")
            if at > len(data):
                raise InvalidFile(f"weight {show(name)!r} runs past the end of the files")


def _weight(value: object) -> tuple[str, str, int]:
    """The name of a weight, the type of its stored values, and their number."""
    weight = _object(value)
    name, dtype = weight.get("name"), weight.get("dtype")
    quantization = weight.get("quantization")
    stored = quantization.get("dtype") if isinstance(quantization, dict) else dtype
    shape = _list(weight.get("shape"), "weightsManifest: shape")
    if not isinstance(name, str) or not isinstance(stored, str):
        raise InvalidFile("weightsManifest: a weight without a name or a dtype")
    lengths = len(shape) <= MAX_RANK and all(type(n) is int and n >= 0 for n in shape)
    count = math.prod(shape) if lengths else 0
    if not lengths or count > MAX_ELEMENTS:
        raise InvalidFile(f"weightsManifest: weight {show(name)!r}: a shape that no tensor has")
    return name, stored, count


def _content(folder: Path, name: object) -> bytes:
    if not isinstance(name, str):
        raise InvalidFile(f"weightsManifest: {kind(name)}, wanted the name of a file")
    with reading(show(name)):
        file = named_file(folder, name.encode("utf-8", "surrogatepass"))
        refuse_link(file)
        if not file.is_file():
            raise NotFound(f"{show(name)}: model.json names this file, and it is not beside it")
        return read_file(file, MAX_SHARD)


def _strings(data: bytes, at: int, count: int) -> tuple[ByteStrings, int]:
    """The strings of a weight, and where the next one begins."""
    if count * LENGTH.size > len(data) - at:
        raise InvalidFile(f"{count:,} strings do not fit into {len(data) - at:,} bytes", offset=at)
    entries: list[bytes] = []
    for _ in range(count):
        start = at + LENGTH.size
        if start > len(data) or start + LENGTH.unpack_from(data, at)[0] > len(data):
            raise InvalidFile("a string runs past the end of the files", offset=at)
        at = start + LENGTH.unpack_from(data, at)[0]
        entries.append(data[start:at])
    return ByteStrings.of(entries), at
