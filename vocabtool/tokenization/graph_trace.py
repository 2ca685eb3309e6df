"""What stands around an op on the way from words back to a text: calls, loops, branches, constants.

A value is taken for a constant, a loop for one over all texts, a branch for the one that is taken
only where nothing else is possible. What ops do to words is in ``op_steps.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import Body, Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.tensors import DT_STRING, INTEGERS, Tensor
from vocabtool.vocabulary import printable

MAX_OPS: Final = 500  # on one way

# Ops that give what they get, whatever they do to its shape.
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
    """Why a way is not understood. ``op``: the op that is in the way."""

    op: str
    why: str


class Stop(Exception):
    """A way that is not understood ends here."""

    def __init__(self, op: bytes, why: str) -> None:
        self.unclear = Unclear(printable(op), why)


class Place(NamedTuple):
    """A tensor. ``calls``: how its body was entered from outside, the innermost call last."""

    body: Body
    reference: Reference
    calls: Calls = ()

    @property
    def node(self) -> Node | None:
        """The node that makes it; ``None`` for an argument of the body."""
        return self.body.node(self.reference.name)

    def input(self, node: Node, position: int) -> Place:
        """What a node of the same body gets."""
        return self._replace(reference=node.data_input(position))


def function_of(node: Node) -> bytes:
    """The function that a node calls, or its op."""
    return node.function() if node.op.endswith(b"PartitionedCall") else node.op


def entered(linker: Linker, place: Place, node: Node) -> Place | None:
    """The tensor inside a function that a call gives back; ``None``: no function is called."""
    called = linker.graph.functions.get(function_of(node))
    if called is None:
        return None
    if place.reference.output >= len(called.returns):
        raise Stop(node.op, "its output is not to be found")
    returned = called.returns[place.reference.output]
    return Place(called, returned, (*place.calls, (place.body, node)))


def callers(linker: Linker, place: Place) -> list[tuple[Body, Node]]:
    """Who passes the argument: the call that led here, or else everyone who calls the function."""
    if place.reference.name not in place.body.arguments:
        raise Stop(b"", "a tensor that nothing makes")
    return [place.calls[-1]] if place.calls else linker.callers(place.body.name)


def passed(place: Place, caller: Body, node: Node) -> Place:
    """The input of a call that becomes the argument; inputs and arguments match at the end."""
    body = place.body
    from_end = len(body.arguments) - body.arguments.index(place.reference.name)
    if from_end > len(node.data_inputs):
        raise Stop(node.op, "it passes too few arguments")
    if node.op in LOOPS:
        if not _stays(body, from_end):
            raise Stop(node.op, "a loop changes it from turn to turn")
    elif node.op not in BRANCHES and function_of(node) != body.name:
        raise Stop(node.op, "what it passes to its function is not known")
    return Place(caller, node.data_inputs[-from_end], place.calls[:-1])


def _stays(body: Body, from_end: int) -> bool:
    """Whether a loop hands its argument on unchanged to the next turn."""
    at = len(body.returns) - from_end
    argument = body.arguments[-from_end]
    return at >= 0 and _is_argument(body, body.returns[at], argument)


def _is_argument(body: Body, reference: Reference, argument: bytes) -> bool:
    for _ in range(MAX_OPS):
        if reference.name == argument:
            return True
        node = body.node(reference.name)
        if node is None or node.op != b"Identity":
            return False
        reference = node.data_input(0)
    return False


def constant(linker: Linker, place: Place) -> Tensor | None:
    """The constant that a tensor is, whoever calls; ``None`` where it is none, or several."""
    found: dict[tuple[bytes, bytes], Tensor] = {}
    waiting, seen = [place], 0
    while waiting:
        here = waiting.pop()
        seen += 1
        node = here.node
        if seen > MAX_OPS:
            return None
        if node is None:
            waiting += _outside(linker, here)
            if not waiting and not found:
                return _captured(linker, here)
            continue
        inside = entered(linker, here, node)
        if inside is not None:
            waiting.append(inside)
        elif node.op in SAME:
            waiting.append(here.input(node, 0))
        elif node.op == b"Const" and (tensor := node.tensor_of(b"value")) is not None:
            found[here.body.name, node.name] = tensor
        else:
            return None
    values = {_bytes(tensor) for tensor in found.values()}
    return next(iter(found.values())) if len(values) == 1 else None


def _bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.buffer[slice(*tensor.span)])


def _outside(linker: Linker, place: Place) -> list[Place]:
    return [passed(place, caller, node) for caller, node in callers(linker, place)]


def _captured(linker: Linker, place: Place) -> Tensor | None:
    """A constant that a function captured, where nobody calls it."""
    origin = linker.origin(place.body, place.reference)
    if origin is None or origin.node is None or origin.op != b"Const":
        return None
    return origin.node.tensor_of(b"value")


def value(linker: Linker, place: Place) -> bytes | int | None:
    """A constant of one string or integer; ``None`` where it is none."""
    tensor = constant(linker, place)
    if tensor is None or tensor.elements != 1:
        return None
    if tensor.dtype == DT_STRING:
        return tensors.strings(tensor)[0]
    return int(tensors.integers(tensor)[0]) if tensor.dtype in INTEGERS else None


def is_size_of(linker: Linker, number: Place, tensor: Place) -> bool:
    """Whether a number is how many rows a tensor has: an element of its shape, or its size."""
    for _ in range(MAX_OPS):
        node = number.node
        if node is None:
            return False
        if node.op in (b"Size", b"Shape"):
            return _plain(number.input(node, 0)) == _plain(tensor)
        if node.op == b"StridedSlice" and value(linker, number.input(node, 1)) != 0:
            return False
        if node.op not in (b"StridedSlice", b"Cast", b"Identity"):
            return False
        number = number.input(node, 0)
    return False


def _plain(place: Place) -> tuple[bytes, Reference]:
    """A tensor apart from changes of its shape."""
    for _ in range(MAX_OPS):
        node = place.node
        if node is None or node.op not in SAME:
            break
        place = place.input(node, 0)
    return place.body.name, place.reference


def takes_every_item(linker: Linker, body: Body, item: Node) -> bool:
    """Whether ``TensorListGetItem`` in a loop takes each row of a tensor once: ``tf.map_fn``.

    The index counts from 0 by 1, and the loop runs while it is below the tensor's size.
    """
    loops = linker.callers(body.name)
    return bool(loops) and all(
        loop.op in LOOPS and _runs_over(linker, body, item, caller, loop) for caller, loop in loops
    )


def _runs_over(linker: Linker, body: Body, item: Node, caller: Body, loop: Node) -> bool:
    listed, index = (_argument_at(body, item.data_input(i)) for i in (0, 1))
    if listed is None or index is None or not _counts(linker, body, index, caller, loop):
        return False
    made = caller.node(loop.data_input(listed).name)
    if made is None or made.op != b"TensorListFromTensor":
        return False
    rows = Place(caller, made.data_input(0))
    tests = list(_tests(linker, loop))
    return bool(tests) and all(
        counter is not None
        and bound is not None
        and _counts(linker, body, counter, caller, loop)
        and is_size_of(linker, Place(caller, loop.data_input(bound)), rows)
        for counter, bound in tests
    )


def _argument_at(body: Body, reference: Reference) -> int | None:
    """Which argument a tensor is, apart from copies."""
    return next(
        (i for i, name in enumerate(body.arguments) if _is_argument(body, reference, name)), None
    )


def _counts(linker: Linker, body: Body, at: int, caller: Body, loop: Node) -> bool:
    """Whether a loop's variable goes 0, 1, 2, ..."""
    if at >= len(body.returns) or value(linker, Place(caller, loop.data_input(at))) != 0:
        return False
    node = body.node(body.returns[at].name)
    for _ in range(MAX_OPS):
        if node is None or node.op != b"Identity":
            break
        node = body.node(node.data_input(0).name)
    if node is None or node.op not in ADDITIONS:
        return False
    step = value(linker, Place(body, node.data_input(1)))
    return step == 1 and _argument_at(body, node.data_input(0)) == at


def _tests(linker: Linker, loop: Node) -> Iterator[tuple[int | None, int | None]]:
    """What a loop goes on for, each ``counter < bound``, as places among its variables.

    A condition of anything else yields what no check lets pass.
    """
    names = list(loop.functions_of(b"cond"))
    test = linker.graph.functions.get(names[0]) if names else None
    if test is None or any(node.op not in COUNTING for node in test):
        yield None, None
        return
    for node in test:
        if node.op == b"Less":
            yield _argument_at(test, node.data_input(0)), _argument_at(test, node.data_input(1))
