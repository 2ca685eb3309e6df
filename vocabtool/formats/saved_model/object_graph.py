"""The object graph of a TF2 SavedModel: what each object is called and what each function captured.

Layout: tensorflow/core/protobuf/saved_object_graph.proto. A model saved by TensorFlow 1 has none.
Only what leads to a vocabulary is read: names, constants, assets, tables and captures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple

from vocabtool.errors import UnsupportedFormat
from vocabtool.formats import wire
from vocabtool.formats.wire import LEN, Buffer, Span

MAX_OBJECTS: Final = 500_000
MAX_PATH: Final = 400  # bytes; what lies deeper stays nameless

ObjectKind = Literal["user", "constant", "asset", "resource", "variable", "function", "other"]
KINDS: Final[dict[int, ObjectKind]] = {
    4: "user",
    5: "asset",
    6: "function",
    7: "variable",
    8: "function",
    9: "constant",
    10: "resource",
}
MAX_CAPTURES: Final = 500_000
LOOKUP_TABLE: Final = b"lookup_table"  # what Keras' lookup layers call their table
EXPORTED: Final = b"_misc_assets"  # where Keras 3 puts the tables of a model that it exports
# What stands beside a table in a layer of Keras: not every ``lookup_table`` is one of Keras'.
KERAS_SIBLINGS: Final = frozenset(
    (b"keras_api", b"input_vocabulary", b"_lookup_layer", b"token_counts")
)

# Children that repeat what a better name leads to.
DULL: Final = frozenset((b"signatures", b"keras_api", b"_misc_assets", b"serving_default"))


class SavedObject(NamedTuple):
    """``children``: (object id, local name). ``payload``: the message of its kind."""

    kind: ObjectKind
    children: tuple[tuple[int, bytes], ...]
    payload: Span | None


NO_OBJECT: Final = SavedObject("other", (), None)


@dataclass(frozen=True)
class ObjectGraph:
    """Objects by id (0 is the root), and per concrete function the ids that it captured."""

    buffer: Buffer
    objects: tuple[SavedObject, ...] = ()
    captures: dict[bytes, tuple[int, ...]] = field(default_factory=dict)

    def _object(self, object_id: int) -> SavedObject:
        """An object, or one without content for an id that is not in use."""
        return self.objects[object_id] if 0 <= object_id < len(self.objects) else NO_OBJECT

    def kind(self, object_id: int) -> ObjectKind:
        """The kind of an object; an id that is not in use is "other"."""
        return self._object(object_id).kind

    def constant(self, object_id: int) -> bytes:
        """The name of the node in the main graph that holds a constant."""
        payload = self._object(object_id).payload
        return bytes(wire.last_bytes(self.buffer, payload, 1)) if payload else b""

    def asset(self, object_id: int) -> int:
        """The position of an asset in ``asset_file_def``."""
        payload = self._object(object_id).payload
        for number, wire_type, start, end in wire.fields(self.buffer, *payload) if payload else ():
            if number == 1 and wire_type == wire.VARINT:
                return wire.varint(self.buffer, start, end)[0]
        return 0

    def creator(self, object_id: int) -> bytes:
        """The function that creates a resource, ``b""`` where none is named."""
        for child, name in self._object(object_id).children:
            if name == b"_create_resource" and self.kind(child) == "function":
                return self._concrete_function(child)
        return b""

    def _concrete_function(self, object_id: int) -> bytes:
        payload = self._object(object_id).payload
        return bytes(wire.last_bytes(self.buffer, payload, 1)) if payload else b""

    @cached_property
    def keras_tables(self) -> frozenset[int]:
        """The tables of Keras' lookup layers, whose ids below the first entry are specials."""
        exported = self.walk([EXPORTED])
        found = {child for child, _ in self._object(exported).children} if exported else set()
        for saved in self.objects:
            names = {name for _, name in saved.children}
            if LOOKUP_TABLE in names and (names & KERAS_SIBLINGS or self._is_layer(saved)):
                found |= {child for child, name in saved.children if name == LOOKUP_TABLE}
        return frozenset(found)

    def _is_layer(self, saved: SavedObject) -> bool:
        if saved.kind != "user" or saved.payload is None:
            return False
        identifier = bytes(wire.last_bytes(self.buffer, saved.payload, 1))
        return identifier.startswith(b"_tf_keras")

    def walk(self, path: Iterable[bytes]) -> int | None:
        """The id of the object that a path of attribute names leads to from the root."""
        here = 0
        for name in path:
            children = self._object(here).children
            found = next((child for child, local in children if local == name), None)
            if found is None:
                return None
            here = found
        return here

    @cached_property
    def paths(self) -> dict[int, bytes]:
        """The shortest path of attribute names to each object, ``layer.table``; dull ones last."""
        paths: dict[int, bytes] = {0: b""} if self.objects else {}
        later: deque[int] = deque()
        queue = deque(paths)
        while queue or later:
            parent = queue.popleft() if queue else later.popleft()
            for child, name in self.objects[parent].children:
                if child not in paths and child < len(self.objects):
                    path = paths[parent] + b"." * bool(paths[parent]) + name
                    if len(path) > MAX_PATH:
                        continue
                    paths[child] = path
                    (later if name in DULL else queue).append(child)
        return paths


def read_object_graph(buffer: Buffer, span: Span) -> ObjectGraph:
    """Read a SavedObjectGraph. Raises :class:`InvalidFile` where it is damaged."""
    objects: list[SavedObject] = []
    captured = 0
    captures: dict[bytes, tuple[int, ...]] = {}
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == LEN:
            objects.append(_read_object(buffer, (start, end)))
        elif number == 2 and wire_type == LEN:
            name = bytes(wire.last_bytes(buffer, (start, end), 1))
            for function in wire.messages(buffer, (start, end), 2):
                captures[name] = _read_captures(buffer, function)
                captured += len(captures[name])
        if len(objects) > MAX_OBJECTS:
            raise UnsupportedFormat(f"an object graph of more than {MAX_OBJECTS:,} objects")
        if captured > MAX_CAPTURES:
            raise UnsupportedFormat(f"functions of more than {MAX_CAPTURES:,} captures")
    return ObjectGraph(buffer, tuple(objects), captures)


def _read_object(buffer: Buffer, span: Span) -> SavedObject:
    kind: ObjectKind = "other"
    payload: Span | None = None
    children = []
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == LEN:
            children.append(_read_child(buffer, (start, end)))
        elif number in KINDS and wire_type == LEN:
            kind, payload = KINDS[number], (start, end)
    return SavedObject(kind, tuple(children), payload)


def _read_child(buffer: Buffer, span: Span) -> tuple[int, bytes]:
    object_id, name = 0, b""
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == wire.VARINT:
            object_id, _ = wire.varint(buffer, start, end)
        elif number == 2 and wire_type == LEN:
            name = bytes(buffer[start:end])
    return object_id, name


def _read_captures(buffer: Buffer, span: Span) -> tuple[int, ...]:
    captured: list[int] = []
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 2:
            captured += islice(wire.integers(buffer, (start, end), wire_type), MAX_CAPTURES + 1)
            if len(captured) > MAX_CAPTURES:
                break
    return tuple(captured)
