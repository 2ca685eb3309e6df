"""Read MetaGraphDef: one saved graph with its tags, asset file names and object graph.

A SavedModel contains one or more MetaGraphDefs. The object graph (TensorFlow 2) has the names of
objects and the captured inputs of functions. Layouts: tensorflow/core/protobuf/meta_graph.proto and
saved_object_graph.proto.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import wire
from vocabtool.formats.saved_model.graph import GRAPH_NODE, Body, read_graph
from vocabtool.formats.wire import LEN, Buffer, Span
from vocabtool.vocabulary import Place, printable

SERVE: Final = "serve"  # the tag of the graph for inference
ASSET_COLLECTION: Final = b"saved_model_assets"

MAX_OBJECTS: Final = 500_000
MAX_CAPTURES: Final = 500_000
MAX_PATH: Final = 400  # bytes; objects with longer paths get no name

ObjectKind = Literal["user", "constant", "asset", "resource", "variable", "function", "other"]
OBJECT_FIELDS: Final[dict[int, ObjectKind]] = dict(
    enumerate(("user", "asset", "function", "variable", "function", "constant", "resource"), 4)
)
LOOKUP_TABLE: Final = b"lookup_table"  # name of the table in Keras lookup layers
EXPORTED: Final = b"_misc_assets"  # parent of the tables in models exported by Keras 3
KERAS: Final = b"_tf_keras"  # prefix of the identifiers of Keras layers
# Other children of a Keras lookup layer: a ``lookup_table`` alone may not be from Keras.
KERAS_SIBLINGS: Final = frozenset(
    (b"keras_api", b"input_vocabulary", b"_lookup_layer", b"token_counts")
)

# Names of children whose objects usually have a better path.
GENERIC_NAMES: Final = frozenset((b"signatures", b"keras_api", b"_misc_assets", b"serving_default"))


class SavedObject(NamedTuple):
    """A saved object.

    ``children``: the objects in its attributes, as (object id, attribute name). ``payload``: the
    span of the message that describes the object.
    """

    kind: ObjectKind = "other"
    children: tuple[tuple[int, bytes], ...] = ()
    payload: Span = (0, 0)


@dataclass(frozen=True)
class ObjectGraph:
    """The saved objects. The id of an object is its position; object 0 is the root.

    ``captures``: the ids of the objects that a function captures, by the name of the function.
    """

    buffer: Buffer
    objects: tuple[SavedObject, ...] = ()
    captures: dict[bytes, tuple[int, ...]] = field(default_factory=dict)

    def kind(self, object_id: int) -> ObjectKind:
        return self.objects[object_id].kind if 0 <= object_id < len(self.objects) else "other"

    def text(self, object_id: int) -> bytes:
        """Return the name that an object contains. The object must exist.

        The name is that of a node, of a function or of a type, such as ``_tf_keras_layer``.
        """
        return bytes(wire.last_bytes(self.buffer, self.objects[object_id].payload, 1))

    @cached_property
    def keras_tables(self) -> frozenset[int]:
        """Object ids of the tables in Keras lookup layers."""
        exported = self.walk([EXPORTED])
        tables = {child for child, _ in self.objects[exported].children} if exported else set()
        for object_id, saved in enumerate(self.objects):
            names = {name for _, name in saved.children}
            if LOOKUP_TABLE not in names:
                continue
            is_layer = saved.kind == "user" and self.text(object_id).startswith(KERAS)
            if is_layer or names & KERAS_SIBLINGS:
                tables |= {child for child, name in saved.children if name == LOOKUP_TABLE}
        return frozenset(tables)

    def walk(self, path: Iterable[bytes]) -> int | None:
        """Return the id of the object at a path of attribute names from the root."""
        here = 0
        for name in path:
            children = self.objects[here].children if 0 <= here < len(self.objects) else ()
            here = next((child for child, local in children if local == name), -1)
        return here if 0 <= here < len(self.objects) else None

    @cached_property
    def paths(self) -> dict[int | None, bytes]:
        """The shortest path to each object, such as ``layer.table``; generic names are avoided."""
        paths: dict[int | None, bytes] = {0: b""} if self.objects else {}
        later: deque[int] = deque()
        queue = deque(0 for _ in paths)
        while queue or later:
            parent = queue.popleft() if queue else later.popleft()
            for child, name in self.objects[parent].children:
                if child not in paths and child < len(self.objects):
                    path = paths[parent] + b"." * bool(paths[parent]) + name
                    if len(path) > MAX_PATH:
                        continue
                    paths[child] = path
                    (later if name in GENERIC_NAMES else queue).append(child)
        return paths


class Asset(NamedTuple):
    """A file in ``assets/``: its untrusted name, and the graph node with the path of the file."""

    node: bytes
    filename: bytes


@dataclass(frozen=True)
class MetaGraph:
    """One graph of a model.

    - ``bodies``: the main graph, then every function.
    - ``assets``: first the assets in ``asset_file_def``, in its order, then the assets in the
      collection ``saved_model_assets``.
    - ``file``: the name of the graph file.
    - ``label``: the number and tags of the graph, for display; empty if there is only one graph.
    """

    file: str
    main: Body
    bodies: tuple[Body, ...]
    functions: dict[bytes, Body]
    objects: ObjectGraph
    assets: tuple[Asset, ...] = ()
    tags: tuple[str, ...] = ()
    label: str = ""

    def place(self, body: Body, node: bytes) -> Place:
        scope = f"function {printable(body.name)}" if body.name else "graph"
        return Place(self.file, f"{self.label}{scope}/{printable(node)}")

    def asset_of(self, node: bytes) -> bytes | None:
        """Return the file name of the asset with this graph node; ``None`` if there is none."""
        return next((asset.filename for asset in self.assets if asset.node == node), None)

    def asset_of_object(self, object_id: int) -> bytes | None:
        if self.objects.kind(object_id) != "asset":
            return None
        payload = self.objects.objects[object_id].payload
        position = wire.last_integer(self.objects.buffer, payload, 1)
        return self.assets[position].filename if 0 <= position < len(self.assets) else None


def pick_serving(tags: Sequence[Sequence[str]]) -> int:
    """Choose the graph for inference; return its position.

    ``tags``: the tags of each graph. The choice is the first graph whose only tag is ``serve``. If
    there is none, it is the first graph with the tag ``serve``, or else the first graph.
    """
    return min(range(len(tags)), key=lambda i: (list(tags[i]) != [SERVE], SERVE not in tags[i]))


def read_saved_model(buffer: Buffer, file: str) -> tuple[MetaGraph, ...]:
    graphs = []
    for meta_graph in wire.messages(buffer, (0, len(buffer)), 2):
        main, functions = Body(buffer, GRAPH_NODE), dict[bytes, Body]()
        objects = ObjectGraph(buffer)
        tags: tuple[str, ...] = ()
        assets: list[Asset] = []
        collected: list[Span] = []
        for number, wire_type, start, end in wire.fields(buffer, *meta_graph):
            span = (start, end)
            if wire_type != LEN:
                continue
            if number == 1:
                named = wire.messages(buffer, span, 4)
                tags = tuple(printable(bytes(buffer[slice(*each)])) for each in named)
            elif number == 2:
                main, functions = read_graph(buffer, span)
            elif number == 4 and wire.last_bytes(buffer, span, 1) == ASSET_COLLECTION:
                # TensorFlow 1 lists assets only here:
                # {1: name, 2: CollectionDef {5: AnyList {1: Any {2: AssetFileDef}}}}.
                spans = [span]
                for wanted in (2, 5, 1, 2):
                    spans = [part for each in spans for part in wire.messages(buffer, each, wanted)]
                collected += spans
            elif number == 6:
                assets.append(_read_asset(buffer, span))
            elif number == 7:
                objects = _read_object_graph(buffer, span)
        assets += [_read_asset(buffer, span) for span in collected]
        bodies = (main, *functions.values())
        graphs.append(MetaGraph(file, main, bodies, functions, objects, tuple(assets), tags))
    if not any(graph.main.has_ops() for graph in graphs):
        raise InvalidFile("contains no graph: not a SavedModel, or truncated near its beginning")
    if len(graphs) > 1:
        for number, graph in enumerate(graphs):
            label = f"meta graph {number} [{', '.join(graph.tags)}] "
            graphs[number] = replace(graph, label=label)
    return tuple(graphs)


def read_frozen_graph(buffer: Buffer, file: str) -> tuple[MetaGraph, ...]:
    """Read a frozen ``.pb``, a bare GraphDef."""
    main, functions = read_graph(buffer, (0, len(buffer)))
    if not main.has_ops():
        raise InvalidFile("contains no node: not a GraphDef, or truncated near its beginning")
    bodies = (main, *functions.values())
    return (MetaGraph(file, main, bodies, functions, ObjectGraph(buffer)),)


def _read_asset(buffer: Buffer, span: Span) -> Asset:
    """Read an AssetFileDef {1: TensorInfo {1: name}, 2: filename}."""
    node = b""
    for tensor_info in wire.messages(buffer, span, 1):
        node = bytes(wire.last_bytes(buffer, tensor_info, 1)).partition(b":")[0]
    return Asset(node, bytes(wire.last_bytes(buffer, span, 2)))


def _read_object_graph(buffer: Buffer, span: Span) -> ObjectGraph:
    objects: list[SavedObject] = []
    captured = 0
    captures: dict[bytes, tuple[int, ...]] = {}
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == LEN:
            objects.append(_read_object(buffer, (start, end)))
        elif number == 2 and wire_type == LEN:
            name = bytes(wire.last_bytes(buffer, (start, end), 1))
            for function in wire.messages(buffer, (start, end), 2):
                ids = (
                    object_id
                    for part, inner, first, behind in wire.fields(buffer, *function)
                    if part == 2
                    for object_id in wire.integers(buffer, (first, behind), inner)
                )
                captures[name] = tuple(islice(ids, MAX_CAPTURES + 1))
                captured += len(captures[name])
        if len(objects) > MAX_OBJECTS:
            raise UnsupportedFormat(f"the object graph has more than {MAX_OBJECTS:,} objects")
        if captured > MAX_CAPTURES:
            raise UnsupportedFormat(f"the functions have more than {MAX_CAPTURES:,} captures")
    return ObjectGraph(buffer, tuple(objects), captures)


def _read_object(buffer: Buffer, span: Span) -> SavedObject:
    kind: ObjectKind = "other"
    payload: Span = (0, 0)
    children = []
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == LEN:
            child, name = 0, b""
            for part, inner, first, behind in wire.fields(buffer, start, end):
                if part == 1 and inner == wire.VARINT:
                    child, _ = wire.varint(buffer, first, behind)
                elif part == 2 and inner == LEN:
                    name = bytes(buffer[first:behind])
            children.append((child, name))
        elif number in OBJECT_FIELDS and wire_type == LEN:
            kind, payload = OBJECT_FIELDS[number], (start, end)
    return SavedObject(kind, tuple(children), payload)
