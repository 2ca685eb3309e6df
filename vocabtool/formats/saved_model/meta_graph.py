"""Read MetaGraphDef: one saved graph with its tags, asset file names and object graph.

A SavedModel contains one or more MetaGraphDefs. The object graph (TensorFlow 2) has the names of
objects and the captured inputs of functions. Layouts: tensorflow/core/protobuf/meta_graph.proto and
saved_object_graph.proto.

:class:`Linker` traces a tensor back to its origin: from an op's input through calls, captures and
copies. This shows which lookup table a constant fills, and which table a lookup op in another
function uses. Names and sizes are not compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple

from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.formats import wire
from vocabtool.formats.saved_model.graph import (
    GRAPH_NODE,
    MAX_NODES,
    MAX_SEARCHES,
    Body,
    Node,
    Reference,
    read_graph,
)
from vocabtool.formats.wire import LEN, Buffer, Span
from vocabtool.vocabulary import Place, printable

SERVE: Final = "serve"  # the tag of the graph for inference
ASSET_COLLECTION: Final = b"saved_model_assets"

MAX_META_GRAPHS: Final = 1_000  # TensorFlow writes one, its estimators three
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
                if child not in paths and 0 <= child < len(self.objects):
                    path = paths[parent] + b"." * bool(paths[parent]) + name
                    if len(path) > MAX_PATH:
                        continue
                    paths[child] = path
                    (later if name in GENERIC_NAMES else queue).append(child)
        return paths


# A file in ``assets/``: the graph node with the path of the file, and its untrusted name.
Asset = tuple[bytes, bytes]


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

    def asset_of(self, origin: Origin) -> bytes | None:
        """Return the file name of the asset from which a tensor comes; ``None`` if from none."""
        if origin.object_id is None:
            node = origin.node.name if origin.node is not None else None
            return next((filename for owner, filename in self.assets if owner == node), None)
        if self.objects.kind(origin.object_id) != "asset":
            return None
        payload = self.objects.objects[origin.object_id].payload
        position = wire.last_integer(self.objects.buffer, payload, 1)
        return self.assets[position][1] if 0 <= position < len(self.assets) else None


def pick_serving(tags: Sequence[Sequence[str]]) -> int:
    """Choose the graph for inference; return its position.

    ``tags``: the tags of each graph. The choice is the first graph whose only tag is ``serve``. If
    there is none, it is the first graph with the tag ``serve``, or else the first graph.
    """
    return min(range(len(tags)), key=lambda i: (list(tags[i]) != [SERVE], SERVE not in tags[i]))


def read_saved_model(buffer: Buffer, file: str) -> tuple[MetaGraph, ...]:
    graphs = []
    found = [*islice(wire.messages(buffer, (0, len(buffer)), 2), MAX_META_GRAPHS + 1)]
    if len(found) > MAX_META_GRAPHS:
        raise InvalidFile(f"a SavedModel of more than {MAX_META_GRAPHS:,} meta graphs")
    for meta_graph in found:
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
    return node, bytes(wire.last_bytes(buffer, span, 2))


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
                captures[name] = tuple(islice(ids, MAX_NODES + 1))
                captured += len(captures[name])
        if len(objects) > MAX_NODES:
            raise UnsupportedFormat(f"the object graph has more than {MAX_NODES:,} objects")
        if captured > MAX_NODES:
            raise UnsupportedFormat(f"the functions have more than {MAX_NODES:,} captures")
    return ObjectGraph(buffer, tuple(objects), captures)


def _read_object(buffer: Buffer, span: Span) -> SavedObject:
    kind: ObjectKind = "other"
    payload: Span = (0, 0)
    children = []
    for number, wire_type, start, end in wire.fields(buffer, *span):
        if number == 1 and wire_type == LEN:
            child = wire.last_integer(buffer, (start, end), 1)
            children.append((child, wire.last_bytes(buffer, (start, end), 2)))
        elif number in OBJECT_FIELDS and wire_type == LEN:
            kind, payload = OBJECT_FIELDS[number], (start, end)
    return SavedObject(kind, tuple(children), payload)


# Tracing tensors.

MAX_STEPS: Final = 2_000  # of one trace
MAX_ALL_STEPS: Final = 1_000_000  # of all traces in a graph together

# Ops that return the elements of their first input in the same order.
COPIES: Final = frozenset(
    b"Identity Cast StopGradient Reshape ExpandDims Squeeze Snapshot "
    b"Switch Merge Enter Exit".split()
)
TABLES: Final = frozenset(
    b"HashTable HashTableV2 AnonymousHashTable "
    b"MutableHashTable MutableHashTableV2 AnonymousMutableHashTable "
    b"MutableHashTableOfTensors MutableHashTableOfTensorsV2 AnonymousMutableHashTableOfTensors "
    b"MutableDenseHashTable MutableDenseHashTableV2 AnonymousMutableDenseHashTable".split()
)


class Origin(NamedTuple):
    """Where a tensor comes from: an output of a node, or a saved object."""

    body: Body
    node: Node | None = None
    reference: Reference | None = None
    object_id: int | None = None


class Table(NamedTuple):
    """A lookup table. All handles to the same table have the same ``key``."""

    key: bytes
    body: Body
    node: Node
    object_id: int | None = None


Call = tuple[Body, Node]
Step = tuple[Body, Reference, tuple[Call, ...]]


@dataclass(eq=False)
class Linker:
    graph: MetaGraph
    _callers: dict[bytes, list[Call]] = field(default_factory=dict)
    _origins: dict[tuple[bytes, Reference], Origin | None] = field(default_factory=dict)
    _steps: int = 0
    _tables: dict[tuple[bytes, bytes, int], Table | None] = field(default_factory=dict)

    def origin(self, body: Body, reference: Reference) -> Origin | None:
        """Return the origin of a reference in ``body``; ``None`` if it cannot be determined.

        Raises :class:`InvalidFile` if all searches in a graph together take more than
        ``MAX_ALL_STEPS`` steps.
        """
        key = (body.name, reference)
        if key in self._origins:
            return self._origins[key]
        found: Origin | None = None
        # A step: a body, a reference in it, and the calls entered on the way, outermost first.
        waiting: deque[Step] = deque([(body, reference, ())])
        seen: set[tuple[bytes, Reference]] = set()
        while found is None and waiting and len(seen) < MAX_STEPS:  # breadth first
            here, at, calls = waiting.popleft()
            if (here.name, at) in seen:
                continue
            seen.add((here.name, at))
            self._steps += 1
            if self._steps > MAX_ALL_STEPS:
                raise InvalidFile(f"tracing tensors takes more than {MAX_ALL_STEPS:,} steps")
            node = here.node(at.name)
            if node is None:
                if not at.name:
                    continue
                # An argument has its value from the call that led here, else from the object that
                # the function captured, else from all calls of the function.
                captured = None if calls else self.capture(here, at.name)
                if captured is None:
                    waiting.extend(self._passed_in(here, at.name, calls))
                elif self.graph.objects.kind(captured) == "constant":
                    constant = Reference(self.graph.objects.text(captured), b"", 0)
                    waiting.append((self.graph.main, constant, ()))
                else:
                    found = Origin(here, object_id=captured)
                continue
            if node.op in COPIES and node.data_inputs:
                waiting.append((here, node.data_inputs[0], calls))
                continue
            # Only a call certainly returns its function's output; branches and loops end a trace.
            is_call = node.op.endswith(b"PartitionedCall")
            called = self.graph.functions.get(node.function() if is_call else node.op)
            if called is not None and at.output < len(called.returns):
                waiting.append((called, called.returns[at.output], (*calls, (here, node))))
            else:
                found = Origin(here, node, at)
        self._origins[key] = found
        return found

    def _passed_in(self, body: Body, argument: bytes, calls: tuple[Call, ...]) -> Iterator[Step]:
        # the last call passes them; without calls, all callers do
        if argument in body.arguments:
            # A call may have other inputs before the arguments, such as the condition of a branch.
            from_end = len(body.arguments) - body.arguments.index(argument)
            for caller, node in calls[-1:] or self.callers(body.name):
                if from_end <= len(node.data_inputs):
                    yield caller, node.data_inputs[-from_end], calls[:-1]

    def capture(self, body: Body, argument: bytes) -> int | None:
        """Return the object that an argument captures; ``None`` if callers pass the argument."""
        # captured objects are the last arguments of a function
        captures = self.graph.objects.captures.get(body.name, ())
        if argument not in body.arguments:
            return None
        position = body.arguments.index(argument) - (len(body.arguments) - len(captures))
        return captures[position] if position >= 0 else None

    def callers(self, function: bytes) -> list[Call]:
        """Return every node that names ``function`` in an attribute or as its op."""
        if function not in self._callers and len(self._callers) < MAX_SEARCHES:
            self._callers[function] = [
                (body, node)
                for body in self.graph.bodies
                for node in body.search(function)
                if function in node.called_functions()
            ]
        found = self._callers.get(function)
        return self._all_callers.get(function, []) if found is None else found

    @cached_property
    def _all_callers(self) -> dict[bytes, list[Call]]:
        index: dict[bytes, list[Call]] = {}
        for body in self.graph.bodies:
            for node in body:
                for name in node.called_functions() & self.graph.functions.keys():
                    index.setdefault(name, []).append((body, node))
        return index

    @cached_property
    def captors(self) -> dict[bytes, list[tuple[Body, bytes]]]:
        """For each constant of the main graph, the (function, argument) pairs that capture it."""
        objects = self.graph.objects
        found: dict[bytes, list[tuple[Body, bytes]]] = {}
        for name, captures in objects.captures.items():
            body = self.graph.functions.get(name)
            arguments = body.arguments if body else ()
            for object_id, argument in zip(reversed(captures), reversed(arguments), strict=False):
                if body is not None and objects.kind(object_id) == "constant":
                    found.setdefault(objects.text(object_id), []).append((body, argument))
        return found

    def table(self, body: Body, handle: Reference) -> Table | None:
        """Return the table that a handle refers to, or ``None`` if it cannot be determined."""
        key = (body.name, handle.name, handle.output)
        if key not in self._tables:
            self._tables[key] = None  # ends a recursion: a creator may refer to itself
            origin = self.origin(body, handle)
            if origin is not None and origin.object_id is not None:
                self._tables[key] = self.table_of_object(origin.object_id)
            elif origin is not None:
                self._tables[key] = table_of(origin.body, origin.node)
        return self._tables[key]

    def table_of_object(self, object_id: int) -> Table | None:
        made = self.made_by(object_id)
        table = self.table(*made) if made is not None else None
        return table._replace(object_id=object_id) if table else None

    def made_by(self, object_id: int) -> tuple[Body, Reference] | None:
        """Return the function that creates a saved resource, and the function's first output.

        Returns ``None`` if there is no such function.
        """
        objects = self.graph.objects
        in_use = 0 <= object_id < len(objects.objects)
        for child, name in objects.objects[object_id].children if in_use else ():
            if name == b"_create_resource" and objects.kind(child) == "function":
                creator = self.graph.functions.get(objects.text(child))
                return (creator, creator.returns[0]) if creator and creator.returns else None
        return None


def table_of(body: Body, node: Node | None) -> Table | None:
    """Return the table that a node makes; ``None`` if it makes none."""
    if node is None or node.op not in TABLES:
        return None
    # nodes that share a table get one key
    shared = node.bytes_of(b"shared_name")
    if shared:
        return Table(b"shared " + shared, body, node)
    if node.integer_of(b"use_node_name_sharing"):
        return Table(b"node " + node.name, body, node)
    return Table(b"node " + body.name + b"/" + node.name, body, node)
