"""``model.json`` of TensorFlow.js: the string constants of its graphs, and the tables they fill.

Layout: tensorflow/tfjs, tfjs-converter/src/data/compiled_api.ts: a GraphDef as protobuf writes it
in JSON, where bytes are base64 and 64-bit numbers are texts. Most converted constants have their
values in the weights (``tfjs_weights.py``). A layers model has no graph: only its weights count.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import json_values, tfjs_weights
from vocabtool.formats.model import MIN_ENTRIES, TOO_FEW, PassedOver
from vocabtool.formats.reader import JsonReader, ReadResult, Source
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, in_id_order, printable

GRAPHS: Final = ("modelTopology", "modelInitializer")
FILLS: Final = frozenset(("LookupTableImport", "LookupTableImportV2", "InitializeTableV2"))
FINDS: Final = frozenset(("LookupTableFind", "LookupTableFindV2"))
COPIES: Final = frozenset(("Identity", "Cast", "Reshape"))
MAX_COPIES: Final = 20
MAX_NAME: Final = 256  # characters of a function's name that we keep
# By the name of a type, and by its number, as converters of 2019 write it.
NUMBER_FIELDS: Final = {
    **dict.fromkeys(("DT_INT32", "3"), ("intVal", "<i4")),
    **dict.fromkeys(("DT_INT64", "9"), ("int64Val", "<i8")),
}
INT64: Final = range(-(2**63), 2**63)
WEIGHTS: Final = ""

Json = dict[str, Any]
Graph = dict[str, Json]  # nodes by name
Key = tuple[str, str]  # a graph, or WEIGHTS, and the name of a constant


class Constant(NamedTuple):
    """A list of strings: its shape, and where it lies."""

    strings: ByteStrings
    shape: tuple[int, ...]
    place: Place


class Values(NamedTuple):
    """What the constants of one model hold."""

    strings: dict[Key, Constant]
    numbers: dict[Key, NDArray[np.int64]]


def recognise(document: object) -> str | None:
    """Whether there is an object ``modelTopology`` or a list ``weightsManifest``."""
    if not isinstance(document, dict):
        return f"{json_values.kind(document)}, wanted an object"
    if isinstance(document.get("modelTopology"), dict):
        return None
    if isinstance(document.get("weightsManifest"), list):
        return None
    return "neither modelTopology nor weightsManifest in it"


def read(document: Any, source: Source) -> ReadResult:
    """Read a model. Raises :class:`InvalidFile` where its manifest is not laid out as one."""
    warnings: list[str] = []
    graphs = dict(_graphs(document))
    values = Values({}, {})
    for name, graph in graphs.items():
        _add_constants(name, graph, values, source, warnings)
    manifest = tfjs_weights.manifest(document.get("weightsManifest"))
    _add_weights(manifest, graphs, values, source, warnings)
    filled: dict[Key, Key] = {}
    found = list(_tables(graphs, values, filled, warnings))
    passed_over = []
    for key, constant in values.strings.items():
        if key not in filled and constant.shape:
            vocabulary = _constant(key[1], constant)
            if isinstance(vocabulary, Vocabulary):
                found.append(vocabulary)
            else:
                passed_over.append(vocabulary)
    return ReadResult((*found, *passed_over), tuple(warnings))


READER: Final = JsonReader("TensorFlow.js model.json", recognise, read)


def _graphs(document: Json) -> Iterator[tuple[str, Graph]]:
    """Every graph by its name: the two of the model, and their functions."""
    for key in GRAPHS:
        topology = document.get(key)
        if not isinstance(topology, dict):
            continue
        yield key, _by_name(topology.get("node"))
        library = topology.get("library")
        functions = library.get("function") if isinstance(library, dict) else None
        for function in _objects(functions):
            signature = function.get("signature")
            name = signature.get("name") if isinstance(signature, dict) else None
            shown = printable(str(name)[:MAX_NAME].encode("utf-8", "backslashreplace"))
            yield f"{key} function {shown}", _by_name(function.get("nodeDef"))


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _by_name(nodes: object) -> Graph:
    return {node["name"]: node for node in _objects(nodes) if isinstance(node.get("name"), str)}


def _op(node: Json) -> str:
    op = node.get("op")
    return op if isinstance(op, str) else ""


def _tensor(node: Json) -> Json | None:
    """The tensor of a constant."""
    attributes = node.get("attr")
    value = attributes.get("value") if isinstance(attributes, dict) else None
    tensor = value.get("tensor") if isinstance(value, dict) else None
    return tensor if isinstance(tensor, dict) and _op(node) == "Const" else None


def _add_constants(
    name: str, graph: Graph, values: Values, source: Source, warnings: list[str]
) -> None:
    """The constants whose values stand in the graph itself."""
    for node in graph.values():
        tensor = _tensor(node)
        if tensor is None:
            continue
        where = f"{name} node {json_values.shown(node['name'])}"
        try:
            if tensor.get("stringVal"):
                strings, shape = _strings(tensor)
                constant = Constant(strings, shape, Place(source.name, where))
                values.strings[name, node["name"]] = constant
            elif (numbers := _numbers(tensor)) is not None:
                values.numbers[name, node["name"]] = numbers
        except InvalidFile as error:
            warnings.append(f"{where}: {error}")


def _shape(tensor: Json) -> tuple[int, ...]:
    declared = tensor.get("tensorShape")
    lengths = declared.get("dim", []) if isinstance(declared, dict) else []
    sizes = [_whole(length.get("size", 0)) for length in _objects(lengths)]
    return tuple(sizes[: tfjs_weights.MAX_RANK])


def _whole(value: object) -> int:
    """A 64-bit number, which protobuf writes as text."""
    if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal():
        value = int(value)
    if type(value) is not int or value not in INT64:
        raise InvalidFile(f"{json_values.kind(value)}, wanted a whole number of 64 bits")
    return value


def _base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise InvalidFile(f"{json_values.kind(value)}, wanted base64")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:
        raise InvalidFile(f"{json_values.shown(value)!r} is not base64: {error}") from error


def _strings(tensor: Json) -> tuple[ByteStrings, tuple[int, ...]]:
    encoded, shape = tensor["stringVal"], _shape(tensor)
    if not isinstance(encoded, list):
        raise InvalidFile(f"stringVal is {json_values.kind(encoded)}, wanted a list")
    strings = ByteStrings.of(map(_base64, encoded))
    _check_size(len(strings), shape)
    return strings, shape


def _check_size(present: int, shape: tuple[int, ...]) -> None:
    wanted = 1
    for length in shape:
        wanted *= length
    if present != wanted:
        raise InvalidFile(f"{present:,} values for a shape of {list(shape)}")


def _numbers(tensor: Json) -> NDArray[np.int64] | None:
    """The values of an int32 or int64 tensor; ``None`` for others, or where none stand here."""
    field, dtype = NUMBER_FIELDS.get(str(tensor.get("dtype")), ("", ""))
    if tensor.get("tensorContent") and dtype:
        content = _base64(tensor["tensorContent"])
        if len(content) % np.dtype(dtype).itemsize:
            raise InvalidFile(f"{len(content):,} bytes are no whole number of values")
        return np.frombuffer(content, dtype).astype(np.int64)
    listed = tensor.get(field)
    if not isinstance(listed, list):
        return None
    return np.array([_whole(value) for value in listed], np.int64)


def _add_weights(
    manifest: tfjs_weights.Manifest,
    graphs: dict[str, Graph],
    values: Values,
    source: Source,
    warnings: list[str],
) -> None:
    """The constants whose values stand in the files beside ``model.json``."""
    used = {
        _bare(name)
        for graph in graphs.values()
        for node in graph.values()
        if _op(node) in FILLS | FINDS | COPIES
        for name in _inputs(node)
    }
    folder = source.file.parent
    for weight, strings, numbers in tfjs_weights.read_weights(manifest, folder, used, warnings):
        key = WEIGHTS, weight.name
        files = manifest.files[weight.group]
        if strings is not None:
            first = json_values.shown(files[0]) if files else source.name
            file = str(PurePosixPath(source.name).with_name(first))
            place = Place(file, f"weight {json_values.shown(weight.name)}")
            values.strings[key] = Constant(strings, weight.shape, place)
        if numbers is not None:
            values.numbers[key] = numbers


def _inputs(node: Json) -> list[str]:
    inputs = node.get("input")
    return [name for name in inputs if isinstance(name, str)] if isinstance(inputs, list) else []


def _bare(name: str) -> str:
    """The node that an input names: ``node:0`` in a graph, ``node:output:0`` in a function."""
    return name.partition(":")[0]


def _tables(
    graphs: dict[str, Graph], values: Values, filled: dict[Key, Key], warnings: list[str]
) -> Iterator[Vocabulary]:
    """Each table that a graph fills with constants; ``filled``: words and ids that were used."""
    defaults = _defaults(graphs, values)
    for name, graph in graphs.items():
        for node in graph.values():
            table, sides = _sides(name, graph, node, values)
            if sides is None or filled.get(sides[0]) == sides[1]:
                continue
            strings, ids = sides
            constant, numbers = values.strings[strings], values.numbers[ids]
            if strings in filled:
                warnings.append(f"table {table}: has the words of another with other ids")
            elif len(constant.strings) != len(numbers):
                sizes = f"{len(constant.strings):,} words and {len(numbers):,} ids"
                warnings.append(f"table {table}: {sizes}")
            else:
                filled[strings] = ids
                yield _table(table, constant, numbers, defaults.get(table))


def _sides(
    name: str, graph: Graph, node: Json, values: Values
) -> tuple[str, tuple[Key, Key] | None]:
    """The table that a node fills, and the constants of its words and its ids, either way round."""
    inputs = _inputs(node)
    if _op(node) not in FILLS or len(inputs) < 3:
        return "", None
    table = json_values.shown(_bare(inputs[0]))
    for words, numbers in ((inputs[1], inputs[2]), (inputs[2], inputs[1])):
        strings = _constant_key(name, graph, words, values.strings)
        ids = _constant_key(name, graph, numbers, values.numbers)
        if strings is not None and ids is not None:
            return table, (strings, ids)
    return table, None


def _table(
    name: str, constant: Constant, numbers: NDArray[np.int64], unknown: Unknown | None
) -> Vocabulary:
    stored, first_id, ids = in_id_order(constant.strings, numbers)
    return Vocabulary(name, "table", stored, first_id, ids, unknown, places=(constant.place,))


def _defaults(graphs: dict[str, Graph], values: Values) -> dict[str, Unknown]:
    """The id of words that are not in a table: the default of an op that looks words up in it."""
    defaults: dict[str, Unknown] = {}
    for name, graph in graphs.items():
        for node in graph.values():
            inputs = _inputs(node)
            if _op(node) not in FINDS or len(inputs) < 3:
                continue
            key = _constant_key(name, graph, inputs[2], values.numbers)
            if key is not None and len(values.numbers[key]) == 1:
                unknown = Unknown(int(values.numbers[key][0]))
                defaults.setdefault(json_values.shown(_bare(inputs[0])), unknown)
    return defaults


def _constant_key(name: str, graph: Graph, used: str, values: Mapping[Key, object]) -> Key | None:
    """The constant behind an input, in the graph or the weights, followed through copies."""
    for _ in range(MAX_COPIES):
        used = _bare(used)
        for key in ((name, used), (WEIGHTS, used)):
            if key in values:
                return key
        node = graph.get(used, {})
        inputs = _inputs(node)
        if _op(node) not in COPIES or not inputs:
            return None
        used = inputs[0]
    return None


def _constant(name: str, constant: Constant) -> Vocabulary | PassedOver:
    shown, size = json_values.shown(name), len(constant.strings)
    if sum(length > 1 for length in constant.shape) > 1:
        why = "strings in rows and columns: a vocabulary is one list"
        return PassedOver(shown, size, constant.place, why)
    if size < MIN_ENTRIES:
        return PassedOver(shown, size, constant.place, TOO_FEW)
    return Vocabulary(shown, "constant", constant.strings, places=(constant.place,))
