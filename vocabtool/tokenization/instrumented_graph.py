"""Change a graph so that it records the inputs and outputs of its lookups and tokenizers.

Each such op sends its strings and outputs to a queue of its own. The results of the model do not
change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Proto: TypeAlias = Any  # TensorFlow's protobufs have no types

# Values of the enum in tensorflow/core/framework/types.proto.
INT32: Final = 3
STRING: Final = 7
INT64: Final = 9

Role = Literal["values", "ids", "splits", "starts", "ends"]


class Output(NamedTuple):
    """An output of an op.

    - ``role``: What the output contains. ``values`` are pieces or ids. ``splits`` are row splits or
      row lengths.
    - ``type``: The dtype of the output, if the op has no attribute for it.
    - ``attribute``: The name of the op's attribute that gives the dtype.
    """

    name: str
    role: Role
    type: int
    attribute: str = ""


class OpSignature(NamedTuple):
    """The outputs of an op. ``strings``: the position of the input that contains strings."""

    strings: int
    outputs: tuple[Output, ...]


class TracedOp(NamedTuple):
    """An op that sends its strings and its outputs to a queue.

    - ``function``: The function that contains the op; ``b""`` for the main graph.
    - ``types``: The dtypes that the op sends.
    - ``split``: Whether the strings come from an op such as ``StringSplit``. If so, the indices and
      the input of that op are sent, too.
    - ``live``: Whether a call of the model's entry function can run the op.
    """

    function: bytes
    node: bytes
    op: str
    signature: OpSignature
    queue: str
    types: tuple[int, ...]
    split: bool
    live: bool = True


_LOOKUP: Final = OpSignature(1, (Output("values", "ids", INT64, "Tout"),))
_SENTENCEPIECE: Final = (
    Output("output_values", "values", INT32, "out_type"),
    Output("output_splits", "splits", INT64, "Tsplits"),
)
_PHRASE: Final = (
    Output("output_subwords", "values", STRING),
    Output("output_ids", "ids", INT64),
    Output("output_row_splits", "splits", INT64),
)
SIGNATURES: Final[dict[str, OpSignature]] = {
    "LookupTableFind": _LOOKUP,
    "LookupTableFindV2": _LOOKUP,
    "SentencepieceTokenizeOp": OpSignature(1, _SENTENCEPIECE),
    "SentencepieceTokenizeWithOffsetsOp": OpSignature(
        1,
        (
            *_SENTENCEPIECE,
            Output("output_offset_starts", "starts", INT64),
            Output("output_offset_limits", "ends", INT64),
        ),
    ),
    "TFText>FastSentencepieceTokenize": OpSignature(
        1, (_SENTENCEPIECE[0], Output("output_splits", "splits", INT32, "Tsplits"))
    ),
    "FastWordpieceTokenizeWithOffsets": OpSignature(
        0,
        (
            *_PHRASE,
            Output("start_values", "starts", INT64),
            Output("end_values", "ends", INT64),
        ),
    ),
    "WordpieceTokenizeWithOffsets": OpSignature(
        0,
        (
            Output("output_values", "values", STRING),
            Output("output_row_lengths", "splits", INT64),
            Output("start_values", "starts", INT64),
            Output("limit_values", "ends", INT64),
        ),
    ),
    "PhraseTokenize": OpSignature(0, _PHRASE),
}

# Calls of a function that reports must not be merged or removed.
STATEFUL: Final = {
    "PartitionedCall": "StatefulPartitionedCall",
    "StatelessIf": "If",
    "StatelessCase": "Case",
    "StatelessWhile": "While",
}
# Loops; their attribute may be absent if it has the default value, 10.
LOOPS: Final = frozenset(("While", "StatelessWhile", "Enter", "RefEnter"))
ITERATIONS: Final = "parallel_iterations"
OWN: Final = "vocabtool_tap_"
# Ops that output one string for each input string, in order.
ELEMENTWISE: Final = frozenset(
    ("Identity", "RegexReplace", "Reshape", "StaticRegexReplace", "StringLower", "StringStrip")
)
SPLITS: Final = frozenset(("StringSplit", "StringSplitV2"))
MAX_CHAIN: Final = 100  # most ops to follow


class _Body(NamedTuple):
    name: str
    nodes: Any

    def reference(self, node: str, number: int, output: str) -> str:
        if self.name:
            return f"{node}:{output}:0"
        return f"{node}:{number}" if number else node


def instrument(meta_graph: Proto, shared_name: str) -> tuple[TracedOp, ...]:
    """Add queues to a MetaGraphDef in place; return the ops that send to the queues.

    ``shared_name``: The beginning of the queues' shared names, unique in this process.

    Loops are set to run one iteration at a time, so that the ops send in order.
    """
    traced: list[TracedOp] = []
    main = _Body("", meta_graph.graph_def.node)
    moved = _instrument_body(main, traced, shared_name)
    for signature in meta_graph.signature_def.values():
        for output in signature.outputs.values():
            output.name = moved.get(output.name, output.name)
    for function in meta_graph.graph_def.library.function:
        body = _Body(function.signature.name, function.node_def)
        moved = _instrument_body(body, traced, shared_name)
        for name, reference in function.ret.items():
            function.ret[name] = moved.get(reference, reference)
    _keep_calls(meta_graph, {op.function.decode() for op in traced})
    return tuple(traced)


def _instrument_body(body: _Body, traced: list[TracedOp], shared_name: str) -> dict[str, str]:
    moved: dict[str, str] = {}
    old = list(body.nodes)
    by_name = {node.name: node for node in old}
    for node in old:
        if node.op in LOOPS:
            node.attr[ITERATIONS].i = 1
        is_lookup = node.op.startswith("LookupTable")
        if node.op not in SIGNATURES or (is_lookup and node.attr["Tin"].type != STRING):
            continue
        signature = SIGNATURES[node.op]
        types = [
            # The attribute may be absent if it has the default value.
            int(node.attr[output.attribute].type) if output.attribute in node.attr else output.type
            for output in signature.outputs
        ]
        split = _split_of(body, node, by_name)
        sent = (STRING, *types, *((INT64, STRING) if split else ()))
        name, own = body.name.encode(), node.name.encode()
        queue = f"{OWN}{len(traced)}"
        op = TracedOp(name, own, node.op, signature, queue, sent, bool(split))
        moved |= _add_queue(body, node, op, split, f"{shared_name}_{len(traced)}")
        traced.append(op)
    if moved:
        for node in old:
            for position, reference in enumerate(node.input):
                if reference in moved:
                    node.input[position] = moved[reference]
    return moved


def _split_of(body: _Body, node: Proto, by_name: Mapping[str, Proto]) -> list[str]:
    """Find the op that splits texts into the strings of a node.

    Returns references to two tensors: the indices that this op outputs, and the texts, which are an
    input of ``body``. Empty if there is no such op.
    """
    reference = _inputs(node)[SIGNATURES[node.op].strings]
    split = None
    for _ in range(MAX_CHAIN):
        source = by_name.get(reference.partition(":")[0])
        if source is None or source.op == "Placeholder":
            return [] if split is None else [body.reference(split, 0, "indices"), reference]
        if source.op in SPLITS and split is None:
            split = source.name
        elif source.op not in ELEMENTWISE:
            return []
        reference = next(iter(_inputs(source)), "")
    return []


def _inputs(node: Proto) -> list[str]:
    return [reference for reference in node.input if not reference.startswith("^")]


def _add_queue(
    body: _Body, node: Proto, op: TracedOp, split: Sequence[str], shared_name: str
) -> dict[str, str]:
    signature = op.signature
    outputs = [body.reference(node.name, i, o.name) for i, o in enumerate(signature.outputs)]
    sent = [_inputs(node)[signature.strings], *outputs, *split]
    # The control input keeps the queue in the frame and the branch of the op.
    queue = body.nodes.add(name=op.queue, op="FIFOQueueV2", input=[f"^{node.name}"])
    queue.attr["component_types"].list.type.extend(op.types)
    queue.attr["shapes"].list.SetInParent()
    queue.attr["capacity"].i = -1
    queue.attr["container"].s = b""
    queue.attr["shared_name"].s = shared_name.encode()
    handle = body.reference(op.queue, 0, "handle")
    send = body.nodes.add(name=f"{op.queue}_send", op="QueueEnqueueV2", input=[handle, *sent])
    send.attr["Tcomponents"].list.type.extend(op.types)
    send.attr["timeout_ms"].i = -1
    moved = {}
    for number, (reference, type_) in enumerate(zip(outputs, op.types[1:], strict=False)):
        name = f"{op.queue}_output_{number}"
        waiting = body.nodes.add(name=name, op="Identity", input=[reference, f"^{send.name}"])
        waiting.attr["T"].type = type_
        moved[reference] = body.reference(name, 0, "output")
        if not body.name and number == 0:
            moved[f"{reference}:0"] = f"{name}:0"
    return moved


def _keep_calls(meta_graph: Proto, reporting: set[str]) -> None:
    """Keep the calls that lead to functions in ``reporting``, by making these calls stateful."""
    library = meta_graph.graph_def.library.function
    calls: dict[str, list[Proto]] = defaultdict(list)
    callers: dict[str, set[str]] = defaultdict(set)
    bodies = [("", meta_graph.graph_def.node), *((f.signature.name, f.node_def) for f in library)]
    for caller, nodes in bodies:
        for node in nodes:
            for called in called_functions(node):
                calls[called].append(node)
                callers[called].add(caller)
    waiting, seen = list(reporting), set(reporting)
    while waiting:
        name = waiting.pop()
        for node in calls[name]:
            node.op = STATEFUL.get(node.op, node.op)
        new = callers[name] - seen
        seen |= new
        waiting += new
    for function in library:
        if function.signature.name in seen:
            function.signature.is_stateful = True


def called_functions(node: Proto) -> Iterator[str]:
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def shared_names(graph: Proto) -> dict[str, str]:
    """Return the shared name of each queue, by the name of the queue's node.

    TensorFlow changes shared names when it loads a model.
    """
    bodies = {function.signature.name: function.node_def for function in graph.library.function}
    found: dict[str, str] = {}
    waiting: list[Iterable[Proto]] = [graph.node]
    while waiting:
        for node in waiting.pop():
            name = node.name.rpartition("/")[2]
            if node.op == "FIFOQueueV2" and name.startswith(OWN):
                found[name] = node.attr["shared_name"].s.decode()
            for called in called_functions(node):
                if called in bodies:
                    waiting.append(bodies.pop(called))
    return found
