"""Where a tensor comes from: from an op's input back through calls, captures and copies.

This is how a constant is joined to the table that it fills: never by name, never by size. The
handles of tables are followed the same way, so that a lookup finds its table in another function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model.graph import SEARCHES, Body, Node, Reference
from vocabtool.formats.saved_model.meta_graph import MetaGraph

MAX_STEPS: Final = 2_000
MAX_ALL_STEPS: Final = 1_000_000

# Ops that hand their first input on unchanged, as far as a vocabulary is concerned.
COPIES: Final = frozenset(
    (
        b"Identity",
        b"Cast",
        b"StopGradient",
        b"Reshape",
        b"ExpandDims",
        b"Squeeze",
        b"Snapshot",
        b"Switch",
        b"Merge",
        b"Enter",
        b"Exit",
    )
)
TABLES: Final = frozenset(
    (
        b"HashTable",
        b"HashTableV2",
        b"AnonymousHashTable",
        b"MutableHashTable",
        b"MutableHashTableV2",
        b"AnonymousMutableHashTable",
        b"MutableHashTableOfTensors",
        b"MutableHashTableOfTensorsV2",
        b"AnonymousMutableHashTableOfTensors",
        b"MutableDenseHashTable",
        b"MutableDenseHashTableV2",
        b"AnonymousMutableDenseHashTable",
    )
)


class Origin(NamedTuple):
    """The end of the trail: a node (``reference`` says which output), or a saved object."""

    body: Body
    node: Node | None = None
    reference: Reference | None = None
    object_id: int | None = None

    @property
    def op(self) -> bytes:
        """The op of the node, ``b""`` for a saved object."""
        return self.node.op if self.node else b""


class Table(NamedTuple):
    """A lookup table: ``key`` is equal for every handle to the same table."""

    key: bytes
    body: Body
    node: Node
    object_id: int | None = None


_Step = tuple[Body, Reference, tuple[tuple[Body, Node], ...]]


class Linker:
    """Follows references through one MetaGraphDef."""

    def __init__(self, graph: MetaGraph) -> None:
        self.graph = graph
        self._callers: dict[bytes, list[tuple[Body, Node]]] = {}
        self._origins: dict[tuple[bytes, Reference], Origin | None] = {}
        self._steps = 0
        self._tables: dict[tuple[bytes, bytes, int], Table | None] = {}

    def origin(self, body: Body, reference: Reference) -> Origin | None:
        """Where a reference in ``body`` comes from; ``None`` where the trail is lost.

        A function's argument is followed to what the function captured, to the call that led
        here, or else to whoever calls it. Raises :class:`InvalidFile` when the trails of one
        model together have no end.
        """
        key = (body.name, reference)
        if key not in self._origins:
            self._origins[key] = self._trail(body, reference)
        return self._origins[key]

    def _trail(self, body: Body, reference: Reference) -> Origin | None:
        steps: deque[_Step] = deque([(body, reference, ())])
        seen: set[tuple[bytes, Reference]] = set()
        while steps and len(seen) < MAX_STEPS:
            body, reference, calls = steps.popleft()
            if (body.name, reference) in seen:
                continue
            seen.add((body.name, reference))
            self._steps += 1
            if self._steps > MAX_ALL_STEPS:
                raise InvalidFile(f"references lead on for more than {MAX_ALL_STEPS:,} steps")
            node = body.node(reference.name)
            if node is None:
                if not reference.name:
                    continue
                captured = self._captured(body, reference.name)
                if captured is not None and not calls:
                    if self.graph.objects.kind(captured) != "constant":
                        return Origin(body, object_id=captured)
                    name = self.graph.objects.constant(captured)
                    steps.append((self.graph.main, Reference(name, b"", 0), ()))
                else:
                    steps.extend(self._passed_in(body, reference.name, calls))
            elif node.op in COPIES and node.data_inputs:
                steps.append((body, node.data_inputs[0], calls))
            elif (called := self._called(node)) and reference.output < len(called.returns):
                steps.append((called, called.returns[reference.output], (*calls, (body, node))))
            else:
                return Origin(body, node, reference)
        return None

    def _called(self, node: Node) -> Body | None:
        """The function that a call runs; of a branch or a loop, nothing is assumed."""
        if node.op.endswith(b"PartitionedCall"):
            return self.graph.functions.get(node.function())
        return self.graph.functions.get(node.op)

    def _captured(self, body: Body, argument: bytes) -> int | None:
        """The id of the object that a function captured as its argument; captures come last."""
        captures = self.graph.objects.captures.get(body.name, ())
        if argument not in body.arguments:
            return None
        position = body.arguments.index(argument) - (len(body.arguments) - len(captures))
        return captures[position] if position >= 0 else None

    def captured(self, body: Body, argument: bytes) -> bool:
        """Whether an argument of a function is what it captured when it was made."""
        return self._captured(body, argument) is not None

    def _passed_in(
        self, body: Body, argument: bytes, calls: tuple[tuple[Body, Node], ...]
    ) -> Iterator[_Step]:
        if argument not in body.arguments:
            return
        from_end = len(body.arguments) - body.arguments.index(argument)
        callers = [calls[-1]] if calls else self.callers(body.name)
        for caller, node in callers:
            inputs = node.data_inputs
            if from_end <= len(inputs):
                yield caller, inputs[len(inputs) - from_end], calls[:-1]

    def callers(self, function: bytes) -> list[tuple[Body, Node]]:
        """Every node that names ``function`` in an attribute, or has it as its op."""
        if function not in self._callers and len(self._callers) < SEARCHES:
            self._callers[function] = [
                (body, node)
                for body in self.graph.bodies
                for node in body.holding(function)
                if function in node.called()
            ]
        found = self._callers.get(function)
        return self._all_callers.get(function, []) if found is None else found

    @cached_property
    def _all_callers(self) -> dict[bytes, list[tuple[Body, Node]]]:
        index: dict[bytes, list[tuple[Body, Node]]] = {}
        for body in self.graph.bodies:
            for node in body:
                for name in node.called() & self.graph.functions.keys():
                    index.setdefault(name, []).append((body, node))
        return index

    @cached_property
    def captors(self) -> dict[bytes, list[tuple[Body, bytes]]]:
        """By constant of the main graph: the functions that captured it, as which argument."""
        objects = self.graph.objects
        found: dict[bytes, list[tuple[Body, bytes]]] = {}
        for name, captures in objects.captures.items():
            body = self.graph.functions.get(name)
            arguments = body.arguments if body else ()
            for object_id, argument in zip(reversed(captures), reversed(arguments), strict=False):
                if body is not None and objects.kind(object_id) == "constant":
                    found.setdefault(objects.constant(object_id), []).append((body, argument))
        return found

    def table(self, body: Body, handle: Reference) -> Table | None:
        """The table behind a handle."""
        key = (body.name, handle.name, handle.output)
        if key not in self._tables:
            self._tables[key] = None  # a creator may lead back to itself
            self._tables[key] = self._find_table(body, handle)
        return self._tables[key]

    def _find_table(self, body: Body, handle: Reference) -> Table | None:
        origin = self.origin(body, handle)
        if origin is None:
            return None
        if origin.object_id is not None:
            return self.table_of_object(origin.object_id)
        if origin.node is None or origin.node.op not in TABLES:
            return None
        return Table(_table_key(origin.body, origin.node), origin.body, origin.node)

    def table_of_object(self, object_id: int) -> Table | None:
        """The table that a saved resource stands for: the one that its creator makes."""
        creator = self.graph.functions.get(self.graph.objects.creator(object_id))
        if creator is None or not creator.returns:
            return None
        made = self.table(creator, creator.returns[0])
        return made._replace(object_id=object_id) if made else None

    def table_of_node(self, name: bytes) -> Table | None:
        """The table that a node of the main graph makes."""
        node = self.graph.main.node(name)
        if node is None or node.op not in TABLES:
            return None
        return Table(_table_key(self.graph.main, node), self.graph.main, node)


def _table_key(body: Body, node: Node) -> bytes:
    """What TensorFlow shares a table by: its shared name, else its place."""
    shared = node.bytes_of(b"shared_name")
    if shared:
        return b"shared " + shared
    if node.integer_of(b"use_node_name_sharing"):
        return b"node " + node.name
    return b"node " + body.name + b"/" + node.name
