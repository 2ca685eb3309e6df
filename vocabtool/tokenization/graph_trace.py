"""Trace a tensor of a graph back through calls, loops and branches, and find constants.

A value is a constant only if no other value is possible. A loop is followed only if it runs over
all texts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import Body, Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.tensors import DT_STRING, INTEGERS, Tensor
from vocabtool.vocabulary import printable

MAX_OPS: Final = 500  # most ops to follow on one path

# Ops that change only the shape.
SAME: Final = frozenset(
    (
        *(b"Identity", b"IdentityN", b"Reshape", b"ExpandDims", b"Squeeze", b"StopGradient"),
        *(b"Snapshot", b"PreventGradient", b"EnsureShape", b"PlaceholderWithDefault"),
    )
)
BRANCHES: Final = frozenset((b"If", b"StatelessIf"))
LOOPS: Final = frozenset((b"While", b"StatelessWhile"))
ADDITIONS: Final = frozenset((b"Add", b"AddV2"))
COUNTING: Final = frozenset((b"Less", b"LogicalAnd", b"Identity"))

Calls = tuple[tuple[Body, Node], ...]


class Unclear(NamedTuple):
    op: str
    why: str


class NotUnderstood(Exception):
    """A tensor cannot be traced back, because an op is not supported."""

    def __init__(self, op: bytes, why: str) -> None:
        self.unclear = Unclear(printable(op), why)


class TracePoint(NamedTuple):
    """A tensor of a graph, and the function calls that lead to it.

    - ``body``: The graph or function that contains the tensor.
    - ``calls``: The calls that lead into ``body``, the outermost first.
    """

    linker: Linker
    body: Body
    reference: Reference
    calls: Calls = ()

    @property
    def node(self) -> Node | None:
        """The node that makes the tensor; ``None`` for an argument of the function."""
        return self.body.node(self.reference.name)

    def input(self, node: Node, position: int) -> TracePoint:
        return self._replace(reference=node.data_input(position))

    def inside(self, node: Node) -> TracePoint | None:
        """Follow this tensor back into the function that computes it.

        ``node``: The node that makes the tensor. If ``node`` calls a function, the tensor is one of
        the function's results, and this result is returned. Otherwise returns ``None``.
        """
        called = self.linker.graph.functions.get(function_of(node))
        if called is None:
            return None
        if self.reference.output >= len(called.returns):
            raise NotUnderstood(node.op, "it has no such output")
        returned = called.returns[self.reference.output]
        return TracePoint(self.linker, called, returned, (*self.calls, (self.body, node)))

    def callers(self) -> list[tuple[Body, Node]]:
        """Return the calls that may supply the value of this function argument.

        If the attribute ``calls`` is not empty, its last call is the only result.
        """
        if self.reference.name not in self.body.arguments:
            raise NotUnderstood(b"", "no op produces this tensor")
        return [self.calls[-1]] if self.calls else self.linker.callers(self.body.name)

    def outside(self, caller: Body, node: Node) -> TracePoint:
        """Follow this tensor, an argument of a function, to a call of the function.

        ``node``: The call, an op in ``caller``. Returns the input of ``node`` that becomes the
        argument.
        """
        body = self.body
        from_end = len(body.arguments) - body.arguments.index(self.reference.name)
        if from_end > len(node.data_inputs):
            raise NotUnderstood(node.op, "it passes too few arguments to its function")
        if node.op in LOOPS:
            at = len(body.returns) - from_end
            if at < 0 or _behind_copies(body, body.returns[at]) != body.arguments[-from_end]:
                raise NotUnderstood(node.op, "the loop changes the text in each iteration")
        elif node.op not in BRANCHES and function_of(node) != body.name:
            raise NotUnderstood(
                node.op, "vocabtool does not know how this op passes arguments to a function"
            )
        return TracePoint(self.linker, caller, node.data_inputs[-from_end], self.calls[:-1])

    def constant(self) -> Tensor | None:
        """Return the tensor's value if it is the same constant for all callers, else ``None``."""
        found: dict[bytes, Tensor] = {}  # by the bytes of the value
        waiting, seen = [self], 0
        while waiting:
            here = waiting.pop()
            seen += 1
            node = here.node
            if seen > MAX_OPS:
                return None
            if node is None:
                waiting += [here.outside(*call) for call in here.callers()]
                if not waiting and not found:  # no callers: may be a captured constant
                    origin = here.linker.origin(here.body, here.reference)
                    node = origin.node if origin is not None else None
                    return node.tensor_of(b"value") if node and node.op == b"Const" else None
                continue
            inside = here.inside(node)
            if inside is not None:
                waiting.append(inside)
            elif node.op in SAME:
                waiting.append(here.input(node, 0))
            elif node.op == b"Const" and (tensor := node.tensor_of(b"value")) is not None:
                found.setdefault(bytes(tensor.buffer[slice(*tensor.span)]), tensor)
            else:
                return None
        return next(iter(found.values())) if len(found) == 1 else None

    def scalar(self) -> bytes | int | None:
        """Return the value if the tensor is one constant string or integer, else ``None``."""
        tensor = self.constant()
        if tensor is None or tensor.elements != 1:
            return None
        if tensor.dtype == DT_STRING:
            return tensors.strings(tensor)[0]
        return int(tensors.integers(tensor)[0]) if tensor.dtype in INTEGERS else None

    def is_size_of(self, tensor: TracePoint) -> bool:
        number = self
        for _ in range(MAX_OPS):
            node = number.node
            if node is None:
                return False
            if node.op in (b"Size", b"Shape"):
                sized, rows = number.input(node, 0).behind_reshapes(), tensor.behind_reshapes()
                return (sized.body.name, sized.reference) == (rows.body.name, rows.reference)
            if node.op == b"StridedSlice" and number.input(node, 1).scalar() != 0:
                return False
            if node.op not in (b"StridedSlice", b"Cast", b"Identity"):
                return False
            number = number.input(node, 0)
        return False

    def behind_reshapes(self) -> TracePoint:
        point = self
        for _ in range(MAX_OPS):
            node = point.node
            if node is None or node.op not in SAME:
                break
            point = point.input(node, 0)
        return point


def function_of(node: Node) -> bytes:
    """Return the function that a ``PartitionedCall`` calls. For other nodes, return the op."""
    return node.function() if node.op.endswith(b"PartitionedCall") else node.op


def takes_every_item(linker: Linker, body: Body, item: Node) -> bool:
    """Return whether a loop such as ``tf.map_fn`` reads each row of a tensor once, in order.

    ``item``: The ``TensorListGetItem`` that reads a row.
    """
    loops = linker.callers(body.name)
    return bool(loops) and all(
        loop.op in LOOPS and _Loop(linker, body, caller, loop).runs_over(item)
        for caller, loop in loops
    )


class _Loop(NamedTuple):
    linker: Linker
    body: Body
    caller: Body
    node: Node

    def runs_over(self, item: Node) -> bool:
        listed, index = (_argument_at(self.body, item.data_input(i)) for i in (0, 1))
        if listed is None or index is None or not self._counts(index):
            return False
        made = self.caller.node(self.node.data_input(listed).name)
        if made is None or made.op != b"TensorListFromTensor":
            return False
        rows = TracePoint(self.linker, self.caller, made.data_input(0))
        names = list(self.node.functions_of(b"cond"))
        test = self.linker.graph.functions.get(names[0]) if names else None
        if test is None or any(node.op not in COUNTING for node in test):
            return False
        comparisons = [node for node in test if node.op == b"Less"]
        for node in comparisons:
            counter, bound = (_argument_at(test, node.data_input(i)) for i in (0, 1))
            if counter is None or bound is None or not self._counts(counter):
                return False
            if not self._input(bound).is_size_of(rows):
                return False
        return bool(comparisons)

    def _input(self, position: int) -> TracePoint:
        return TracePoint(self.linker, self.caller, self.node.data_input(position))

    def _counts(self, at: int) -> bool:
        """Return whether the loop variable at position ``at`` takes the values 0, 1, 2, ..."""
        body = self.body
        if at >= len(body.returns) or self._input(at).scalar() != 0:
            return False
        node = body.node(_behind_copies(body, body.returns[at]))
        if node is None or node.op not in ADDITIONS:
            return False
        step = TracePoint(self.linker, body, node.data_input(1)).scalar()
        return step == 1 and _argument_at(body, node.data_input(0)) == at


def _argument_at(body: Body, reference: Reference) -> int | None:
    name = _behind_copies(body, reference)
    return body.arguments.index(name) if name in body.arguments else None


def _behind_copies(body: Body, reference: Reference) -> bytes:
    for _ in range(MAX_OPS):
        node = body.node(reference.name)
        if node is None or node.op != b"Identity":
            break
        reference = node.data_input(0)
    return reference.name
