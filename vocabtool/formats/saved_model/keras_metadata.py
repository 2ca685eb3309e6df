"""``keras_metadata.pb``: the lookup layers that Keras 2 describes beside a SavedModel.

Layout: ``SavedMetadata`` in tf_keras/protobuf/saved_metadata.proto, one JSON configuration per
object (``python_properties`` in tf_keras/src/saving/legacy/saved_model/layer_serialization.py).
A vocabulary stands there only if it was given to the constructor, and then in the configuration of
the parent model; ``adapt`` leaves none. The tables of the graph itself are not read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.formats.keras_layers import (
    MASK_AND_OOV,
    LookupLayer,
    is_object,
    lookup_layer,
    parse,
)
from vocabtool.vocabulary import printable

NODES: Final = 1  # of SavedMetadata; the next two of its SavedObject
NODE_PATH: Final = 3
METADATA: Final = 5

OWN: Final = -1
INNER: Final = "._lookup_layer"  # the StringLookup inside each TextVectorization

MAX_PATH: Final = 4096


Mention = tuple[str, int, LookupLayer]  # in the configuration of which node, and how deep in it


def read(data: bytes) -> tuple[LookupLayer, ...]:
    """The lookup layers of a ``keras_metadata.pb``, each once, in the order of the file.

    Raises :class:`InvalidFile` for broken framing, a file without any object, and a
    configuration of a lookup layer that is not JSON or not as Keras writes it.
    """
    own: dict[str, LookupLayer] = {}
    mentions: list[Mention] = []
    for path, metadata in _nodes(data):
        for depth, description in _descriptions(path, metadata):
            layer = lookup_layer(path, description)
            if depth == OWN:
                own[path] = layer
            else:
                mentions.append((path, depth, layer))
    _add_mentioned(own, mentions)
    return tuple(own.values())


def _nodes(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Path and configuration of each object that may be, or hold, a lookup layer."""
    span = None
    for span in wire.messages(data, (0, len(data)), NODES):
        path = wire.last_bytes(data, span, NODE_PATH)
        metadata = wire.last_bytes(data, span, METADATA)
        if len(path) > MAX_PATH:
            what = f"a path of {len(path):,} bytes, wanted {MAX_PATH:,} at most"
            raise InvalidFile(what, offset=span[0])
        if any(name.encode() in metadata for name in MASK_AND_OOV):
            yield printable(path), metadata
    if span is None:
        raise InvalidFile("no object in it: not a keras_metadata.pb, or cut off at its beginning")


def _descriptions(path: str, metadata: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each lookup layer described in a node, and its depth: ``OWN`` is the node itself."""
    top = parse(path, metadata)
    once_more = top.get("model_config")  # describes the same model
    waiting: list[tuple[int, Any]] = [(0, top)]
    while waiting:
        depth, value = waiting.pop()
        if isinstance(value, dict) and is_object(value):
            if value["class_name"] in MASK_AND_OOV:
                yield OWN if value is top else depth, value
                continue
            depth = 0 if value is top or value is once_more else depth + 1
        children = value.values() if isinstance(value, dict) else value
        waiting += [
            (depth, child) for child in reversed(children) if isinstance(child, dict | list)
        ]


def _add_mentioned(own: dict[str, LookupLayer], mentions: list[Mention]) -> None:
    """Give the layers what only their parents say about them; add those without a node.

    A layer is a direct child of the model that mentions it. What models inside a model hold is
    mentioned once more by these, so that equal names in two of them do not mix.
    """
    children = {(path.rpartition(".")[0], *own[path].identity): path for path in own}
    known = {layer.identity for layer in own.values()}
    for parent, depth, layer in mentions:
        path = children.get((parent, *layer.identity))
        if path is not None and depth == 0:
            own[path] = _with_words_of(own[path], layer)
        elif layer.identity not in known:
            key = repr(layer.identity)
            own[key] = _with_words_of(own.get(key, layer), layer)
    for path in [path for path in own if path.endswith(INNER)]:
        outer = own.get(path.removesuffix(INNER))
        if outer is not None and outer.class_name == "TextVectorization":
            own[outer.path] = _with_words_of(outer, own.pop(path))


def _with_words_of(layer: LookupLayer, other: LookupLayer) -> LookupLayer:
    """``layer``, with the vocabulary of ``other`` where it has none itself."""
    return layer if layer.vocabulary is not None else replace(layer, vocabulary=other.vocabulary)
