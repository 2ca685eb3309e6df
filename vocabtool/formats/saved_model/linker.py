"""Trace a tensor back to its origin: from an op's input through calls, captures and copies.

This shows which lookup table a constant fills, and which table a lookup op in another function
uses. Names and sizes are not compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model.graph import MAX_SEARCHES, Body, Node, Reference
from vocabtool.formats.saved_model.meta_graph import MetaGraph

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
                captured = None if calls else self._capture(here, at.name)
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

    def _capture(self, body: Body, argument: bytes) -> int | None:
        # captured objects are the last arguments of a function
        captures = self.graph.objects.captures.get(body.name, ())
        if argument not in body.arguments:
            return None
        position = body.arguments.index(argument) - (len(body.arguments) - len(captures))
        return captures[position] if position >= 0 else None

    def is_captured(self, body: Body, argument: bytes) -> bool:
        """Return whether an argument is a captured input, which callers do not pass."""
        return self._capture(body, argument) is not None

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
                self._tables[key] = _table(origin.body, origin.node)
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

    def table_of_node(self, name: bytes) -> Table | None:
        return _table(self.graph.main, self.graph.main.node(name))


def _table(body: Body, node: Node | None) -> Table | None:
    if node is None or node.op not in TABLES:
        return None
    # nodes that share a table get one key
    shared = node.bytes_of(b"shared_name")
    if shared:
        return Table(b"shared " + shared, body, node)
    if node.integer_of(b"use_node_name_sharing"):
        return Table(b"node " + node.name, body, node)
    return Table(b"node " + body.name + b"/" + node.name, body, node)
