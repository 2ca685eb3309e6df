"""String constants that fill no table: a vocabulary without a link, or a list of something else.

A constant is followed forward, through copies, calls and captures, to the ops that use it. One
that only saves, restores, asserts, parses examples or starts a variable is not a vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats.model import TOO_FEW, PassedOver
from vocabtool.formats.saved_model import tensors, wire_arrays
from vocabtool.formats.saved_model.graph import STRING_TYPE, Body, Node
from vocabtool.formats.saved_model.linking import COPIES, Linker
from vocabtool.formats.saved_model.tensors import DT_STRING, Tensor
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, printable

MAX_USES: Final = 500
MIN_STRINGS: Final = 2  # one alone is no list

NOT_VOCABULARY: Final[dict[bytes, str]] = {
    **dict.fromkeys(
        (b"Save", b"SaveV2", b"SaveSlices", b"Restore", b"RestoreV2", b"RestoreSlice"),
        "names for saving and restoring",
    ),
    **dict.fromkeys(
        (b"MergeV2Checkpoints", b"ShardedFilename", b"ShardedFilespec"), "names of checkpoints"
    ),
    **dict.fromkeys((b"Assert", b"Print", b"PrintV2", b"StringFormat"), "messages"),
    **dict.fromkeys(
        (
            b"ParseExample",
            b"ParseExampleV2",
            b"ParseExampleDataset",
            b"ParseExampleDatasetV2",
            b"ParseSingleExample",
            b"ParseSequenceExample",
            b"ParseSequenceExampleV2",
            b"ParseSingleSequenceExample",
            b"DecodeCSV",
            b"DecodeProtoV2",
        ),
        "feature names of an example parser",
    ),
    **dict.fromkeys((b"LookupTableFind", b"LookupTableFindV2"), "words that are looked up"),
    **dict.fromkeys(
        (b"RegexReplace", b"RegexFullMatch", b"RegexSplitWithOffsets"), "regular expressions"
    ),
    **dict.fromkeys(
        (b"Assign", b"AssignVariableOp", b"InitializeVariable"),
        "initial value of a variable, whose value is in the checkpoint",
    ),
}
IN_ROWS: Final = "strings in rows and columns: a vocabulary is one list"
ASSIGNMENTS: Final = frozenset((b"Assign", b"AssignVariableOp", b"InitializeVariable"))


def string_constants(linker: Linker) -> Iterator[tuple[Body, Node, Tensor]]:
    """Every constant of the graph that is a list of strings; scalars are no lists."""
    for body in linker.graph.bodies:
        for node in body.marked(STRING_TYPE):
            tensor = node.tensor_of(b"value") if node.op == b"Const" else None
            if tensor is not None and tensor.dtype == DT_STRING and tensor.shape:
                yield body, node, tensor


def read_constants(
    linker: Linker,
    filled: set[tuple[bytes, bytes]],
    *,
    variables_read: bool,
    warnings: list[str],
) -> Iterator[Vocabulary | PassedOver]:
    """Yield each list of strings that is not in ``filled``: as a vocabulary, or passed over.

    ``variables_read``: whether the values
    of string variables are known, so that initial values need not stand in for them.
    """
    for body, node, tensor in string_constants(linker):
        if (body.name, node.name) in filled:
            continue
        place = linker.graph.place(body, node.name)
        try:
            size = tensor.elements
            why, use = _uses(linker, body, node.name, variables_read)
            if why is None and in_rows(tensor.shape):
                why = IN_ROWS
            if why is None and size < MIN_STRINGS:
                why = TOO_FEW
            if why is not None:
                yield PassedOver(printable(node.name), size, place, why)
                continue
            yield _vocabulary(node, tensors.strings(tensor), place, use)
        except InvalidFile as error:
            warnings.append(f"constant {place.place}: {error}")


def in_rows(shape: tuple[int, ...]) -> bool:
    """Whether strings lie in two dimensions and more."""
    return sum(length > 1 for length in shape) > 1


def _vocabulary(node: Node, entries: ByteStrings, place: Place, use: bytes) -> Vocabulary:
    notes = [f"used by {printable(use)}" if use else "nothing in the graph uses it"]
    wrapped = unwrap(entries)
    if wrapped is not None:
        notes.append("each entry was wrapped in a small message")
    return Vocabulary(
        name=printable(node.name),
        kind="constant",
        stored=entries if wrapped is None else wrapped,
        places=(place,),
        notes=tuple(notes),
    )


def _uses(
    linker: Linker, body: Body, name: bytes, variables_read: bool
) -> tuple[str | None, bytes]:
    """Why a constant is no vocabulary (``None``: it may be one), and an op that uses it."""
    why: str | None = None
    steps = deque([(body, name)])
    if body is linker.graph.main:
        steps.extend(linker.captors.get(name, ()))
    seen: set[tuple[bytes, bytes]] = set()
    while steps and len(seen) < MAX_USES:
        here, output = steps.popleft()
        if (here.name, output) in seen:
            continue
        seen.add((here.name, output))
        if any(returned.name == output for returned in here.returns):
            steps.extend((caller, node.name) for caller, node in linker.callers(here.name))
        for node, position in here.consumers(output):
            called = list(_passed_to(linker, node, position))
            if node.op in COPIES:
                steps.append((here, node.name))
            elif called:
                steps.extend(called)
            elif node.op in NOT_VOCABULARY and (variables_read or node.op not in ASSIGNMENTS):
                why = NOT_VOCABULARY[node.op]
            else:
                return None, node.op
    return why, b""


def _passed_to(linker: Linker, node: Node, position: int) -> Iterator[tuple[Body, bytes]]:
    """The arguments that an input of a call becomes; inputs and arguments match from the end."""
    from_end = len(node.data_inputs) - position
    for name in sorted(node.called()):
        function = linker.graph.functions.get(name)
        if function is not None and from_end <= len(function.arguments):
            yield function, function.arguments[-from_end]


def unwrap(entries: ByteStrings) -> ByteStrings | None:
    """The strings inside entries that are each a message {1: string}; ``None`` if one is not.

    As in USE-lite, whose constant holds serialised SentencePiece pieces; a score (field 2, five
    bytes with its tag) and a type (field 3, two bytes) may follow.
    """
    array = np.frombuffer(entries.data, np.uint8)
    heads = entries.starts.astype(np.int64)
    if len(entries) < 2 or int(entries.lengths.min()) < 2 or bool((np.diff(heads) <= 0).any()):
        return None
    if bool((array[heads] != 0x0A).any()):
        return None
    lengths, starts = wire_arrays.lengths_at(array, heads + 1)
    ends = starts + lengths
    rest = entries.ends - ends
    rest -= 5 * ((rest >= 5) & (array.take(ends, mode="clip") == 0x15))
    rest -= 2 * ((rest == 2) & (array.take(entries.ends - 2, mode="clip") == 0x18))
    return None if bool(rest.any()) else ByteStrings(entries.data, starts, ends)
