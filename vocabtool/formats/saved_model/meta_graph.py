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
from vocabtool.formats.wire import Buffer, Message, Span
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

    ``children``: (object id, attribute name). ``name``: of a node, a function or a type, such as
    ``_tf_keras_layer``. ``asset``: the position among the assets of the graph.
    """

    kind: ObjectKind = "other"
    children: tuple[tuple[int, bytes], ...] = ()
    name: bytes = b""
    asset: int = -1


MISSING: Final = SavedObject()


@dataclass(frozen=True)
class ObjectGraph:
    """The saved objects by id; 0 is the root. ``captures``: the ids that each function captures."""

    objects: tuple[SavedObject, ...] = ()
    captures: dict[bytes, tuple[int, ...]] = field(default_factory=dict)

    def get(self, object_id: int | None) -> SavedObject:
        if object_id is None or not 0 <= object_id < len(self.objects):
            return MISSING
        return self.objects[object_id]

    @cached_property
    def keras_tables(self) -> frozenset[int]:
        """Object ids of the tables in Keras lookup layers."""
        tables = {child for child, _ in self.get(self.walk([EXPORTED])).children}
        for saved in self.objects:
            names = {name for _, name in saved.children}
            if LOOKUP_TABLE not in names:
                continue
            is_layer = saved.kind == "user" and saved.name.startswith(KERAS)
            if is_layer or names & KERAS_SIBLINGS:
                tables |= {child for child, name in saved.children if name == LOOKUP_TABLE}
        return frozenset(tables)

    def walk(self, path: Iterable[bytes]) -> int | None:
        """Return the id of the object at a path of attribute names from the root."""
        here = 0
        for name in path:
            children = self.get(here).children
            here = next((child for child, local in children if local == name), -1)
        return here if 0 <= here < len(self.objects) else None

    @cached_property
    def paths(self) -> dict[int | None, bytes]:
        """The shortest path to each object, such as ``layer.table``; generic names are avoided."""
        queue = deque([0] if self.objects else [])
        later = deque[int]()  # objects with generic names, whose children come last
        paths: dict[int | None, bytes] = dict.fromkeys(queue, b"")
        while queue or later:
            parent = queue.popleft() if queue else later.popleft()
            for child, name in self.objects[parent].children:
                if child in paths or not 0 <= child < len(self.objects):
                    continue
                path = b".".join((paths[parent], name)) if paths[parent] else name
                if len(path) <= MAX_PATH:
                    paths[child] = path
                    waiting = later if name in GENERIC_NAMES else queue
                    waiting.append(child)
        return paths


@dataclass(frozen=True)
class MetaGraph:
    """One graph of a model.

    ``bodies``: the main graph, then every function. ``assets``: for each file in ``assets/``, the
    node with its path, and its untrusted name; first those in ``asset_file_def``, in its order,
    then those in the collection ``saved_model_assets``. ``label``: number and tags,
    for display; empty if there is only one graph. ``inputs``: name and dtype, of the signature
    ``serving_default``, or else of the first with inputs.
    """

    file: str
    main: Body
    bodies: tuple[Body, ...]
    functions: dict[bytes, Body]
    objects: ObjectGraph
    assets: tuple[tuple[bytes, bytes], ...] = ()
    tags: tuple[str, ...] = ()
    label: str = ""
    inputs: tuple[tuple[bytes, int], ...] = ()

    def place(self, body: Body, node: bytes) -> Place:
        scope = f"function {printable(body.name)}" if body.name else "graph"
        return Place(self.file, f"{self.label}{scope}/{printable(node)}")

    def asset_of(self, origin: Origin) -> bytes | None:
        """Return the file name of the asset from which a tensor comes; ``None`` if from none."""
        if origin.object_id is None:
            node = origin.node.name if origin.node is not None else None
            return next((filename for owner, filename in self.assets if owner == node), None)
        saved = self.objects.get(origin.object_id)
        in_assets = saved.kind == "asset" and 0 <= saved.asset < len(self.assets)
        return self.assets[saved.asset][1] if in_assets else None


def pick_serving(tags: Sequence[Sequence[str]]) -> int:
    """Return the position of the first graph with only the tag ``serve``, else with it, else 0."""
    return min(range(len(tags)), key=lambda i: (list(tags[i]) != [SERVE], SERVE not in tags[i]))


def read_saved_model(buffer: Buffer, file: str) -> tuple[MetaGraph, ...]:
    """Read the graphs in a ``saved_model.pb``. ``file``: its name, for places."""
    graphs = []
    spans = [*islice(wire.messages(buffer, (0, len(buffer)), 2), MAX_META_GRAPHS + 1)]
    if len(spans) > MAX_META_GRAPHS:
        raise InvalidFile(f"a SavedModel of more than {MAX_META_GRAPHS:,} meta graphs")
    for meta_graph_span in spans:
        meta_graph = Message(buffer, meta_graph_span)
        main, functions = Body(buffer, GRAPH_NODE), dict[bytes, Body]()
        for span in meta_graph.spans(2):
            main, functions = read_graph(buffer, span)
        tags = [tag for info in meta_graph.spans(1) for tag in wire.messages(buffer, info, 4)]
        assets = [*meta_graph.messages(6)]
        for collection in meta_graph.messages(4):
            if collection.value(1) == ASSET_COLLECTION:
                # TensorFlow 1 lists assets only here:
                # {1: name, 2: CollectionDef {5: AnyList {1: Any {2: AssetFileDef}}}}.
                messages = [collection]
                for number in (2, 5, 1, 2):
                    messages = [inner for outer in messages for inner in outer.messages(number)]
                assets += messages
        # {5: {1: name, 2: SignatureDef {1: {1: input, 2: TensorInfo {2: dtype}}}}}
        inputs: tuple[tuple[bytes, int], ...] = ()
        for signature in meta_graph.messages(5):
            if not inputs or signature.value(1) == b"serving_default":
                tensors = signature.message(2).messages(1)
                inputs = tuple((tensor.text(1), tensor.message(2).integer(2)) for tensor in tensors)
        graphs.append(
            MetaGraph(
                file=file,
                main=main,
                bodies=(main, *functions.values()),
                functions=functions,
                objects=_read_object_graph(buffer, meta_graph.spans(7)),
                # AssetFileDef {1: TensorInfo {1: name}, 2: filename}
                assets=tuple(
                    (asset.message(1).value(1).partition(b":")[0], asset.value(2))
                    for asset in assets
                ),
                tags=tuple(printable(buffer[slice(*tag)]) for tag in tags),
                inputs=inputs,
            )
        )
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
    return (MetaGraph(file, main, (main, *functions.values()), functions, ObjectGraph()),)


def _read_object_graph(buffer: Buffer, spans: list[Span]) -> ObjectGraph:
    """Read the last of ``spans``, as protobuf does; TensorFlow 1 writes no object graph."""
    objects: list[SavedObject] = []
    captures: dict[bytes, tuple[int, ...]] = {}
    captured = 0
    for span in spans[-1:]:
        graph = Message(buffer, span, MAX_NODES)
        for saved in graph.messages(1):
            children = tuple((child.integer(1), child.value(2)) for child in saved.messages(1))
            parsed = SavedObject(children=children)
            for number, kind in OBJECT_FIELDS.items():
                for payload in saved.messages(number):
                    parsed = SavedObject(kind, children, payload.value(1), payload.integer(1))
            objects.append(parsed)
        for entry in graph.messages(2):
            for function in entry.messages(2):
                captures[entry.value(1)] = tuple(islice(function.integers(2), MAX_NODES + 1))
                captured += len(captures[entry.value(1)])
            if captured > MAX_NODES:
                raise UnsupportedFormat(f"the functions have more than {MAX_NODES:,} captures")
    return ObjectGraph(tuple(objects), captures)


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
    """Where a tensor comes from: an output of a node, or a saved object that no node creates."""

    body: Body
    node: Node | None = None
    reference: Reference | None = None
    object_id: int | None = None


class Table(NamedTuple):
    """A lookup table. All handles to the same table have the same ``key``."""

    key: bytes
    body: Body
    node: Node


Call = tuple[Body, Node]
Step = tuple[Body, Reference, tuple[Call, ...]]


@dataclass(eq=False)
class Linker:
    """Traces tensors of a graph back to their origins; it remembers what it has traced."""

    graph: MetaGraph
    _callers: dict[bytes, list[Call]] = field(default_factory=dict)
    _origins: dict[tuple[bytes, Reference], Origin | None] = field(default_factory=dict)
    _steps: int = 0

    def origin(self, body: Body, reference: Reference) -> Origin | None:
        """Return an origin; ``None`` if unclear. All searches share ``MAX_ALL_STEPS`` steps."""
        key = (body.name, reference)
        if key in self._origins:
            return self._origins[key]
        origin: Origin | None = None
        # A step: a body, a reference in it, and the calls entered on the way, outermost first.
        waiting: deque[Step] = deque([(body, reference, ())])
        seen: set[tuple[bytes, Reference]] = set()
        while origin is None and waiting and len(seen) < MAX_STEPS:  # breadth first
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
                saved, creator = self.graph.objects.get(captured), self._creator(captured)
                if captured is None:
                    waiting.extend(self._passed_in(here, at.name, calls))
                elif saved.kind == "constant":
                    waiting.append((self.graph.main, Reference(saved.name, b"", 0), ()))
                elif creator is not None:
                    waiting.append((creator, creator.returns[0], ()))
                else:
                    origin = Origin(here, object_id=captured)
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
                origin = Origin(here, node, at)
        self._origins[key] = origin
        return origin

    def scalar(self, body: Body, reference: Reference) -> int | bytes | None:
        """Return a tensor's value if it is a constant string or integer, else ``None``."""
        origin = self.origin(body, reference)
        tensor = origin.node.constant() if origin and origin.node else None
        return None if tensor is None else tensor.scalar()

    def _passed_in(self, body: Body, argument: bytes, calls: tuple[Call, ...]) -> Iterator[Step]:
        """Yield what the last of ``calls`` passes as an argument; without calls, all callers."""
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
        # The first few functions are searched for; an index of all calls takes longer.
        if function not in self._callers and len(self._callers) < MAX_SEARCHES:
            self._callers[function] = [
                (body, node)
                for body in self.graph.bodies
                for node in body.search(function)
                if function in node.called_functions()
            ]
        if function in self._callers:
            return self._callers[function]
        return self._all_callers.get(function, [])

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
        captors: dict[bytes, list[tuple[Body, bytes]]] = {}
        for name, captures in self.graph.objects.captures.items():
            body = self.graph.functions.get(name)
            arguments = body.arguments if body else ()
            for object_id, argument in zip(reversed(captures), reversed(arguments), strict=False):
                saved = self.graph.objects.get(object_id)
                if body is not None and saved.kind == "constant":
                    captors.setdefault(saved.name, []).append((body, argument))
        return captors

    def table(self, body: Body, handle: Reference) -> Table | None:
        origin = self.origin(body, handle)
        node = None if origin is None else origin.node
        if origin is None or node is None or node.op not in TABLES:
            return None
        # nodes that share a table get one key
        shared, key = node.bytes_of(b"shared_name"), b"node " + node.name
        if not shared and not node.integer_of(b"use_node_name_sharing"):
            key = b"node " + origin.body.name + b"/" + node.name
        return Table(b"shared " + shared if shared else key, origin.body, node)

    def table_of_object(self, object_id: int | None) -> Table | None:
        creator = self._creator(object_id)
        return None if creator is None else self.table(creator, creator.returns[0])

    def _creator(self, object_id: int | None) -> Body | None:
        """Return the function that creates a saved resource, its first output."""
        for child, name in self.graph.objects.get(object_id).children:
            function = self.graph.objects.get(child)
            creator = self.graph.functions.get(function.name)
            if name == b"_create_resource" and function.kind == "function":
                return creator if creator is not None and creator.returns else None
        return None
