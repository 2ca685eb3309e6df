"""Read lists of strings outside lookup tables: constants and variables.

A constant is followed through copies, calls and captures to the ops that use it. The constant is
skipped if these ops only save, restore, assert, parse examples or initialise a variable (see
``NOT_VOCABULARY``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from vocabtool.formats import wire
from vocabtool.formats.reader import TOO_FEW, Findings, PassedOver
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import STRING_TYPE, Body
from vocabtool.formats.saved_model.linker import COPIES, Linker
from vocabtool.formats.saved_model.table_contents import CHECKPOINT_INDEX, KEYS, VALUES
from vocabtool.formats.saved_model.tensors import DT_STRING
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, printable

if TYPE_CHECKING:
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

MAX_USES: Final = 500  # tensors followed from one constant
MIN_STRINGS: Final = 2  # a single string is not a list

ASSIGNMENTS: Final = frozenset((b"Assign", b"AssignVariableOp", b"InitializeVariable"))
# Ops whose string inputs are not a vocabulary, and what these strings are.
NOT_VOCABULARY: Final[dict[bytes, str]] = {
    op: strings
    for strings, ops in {
        "tensor names for saving and restoring": (
            b"Save SaveV2 SaveSlices Restore RestoreV2 RestoreSlice".split()
        ),
        "names of checkpoints": b"MergeV2Checkpoints ShardedFilename ShardedFilespec".split(),
        "messages": b"Assert Print PrintV2 StringFormat".split(),
        "feature names of an example parser": (
            b"ParseExample ParseExampleV2 ParseExampleDataset ParseExampleDatasetV2 "
            b"ParseSingleExample ParseSequenceExample ParseSequenceExampleV2 "
            b"ParseSingleSequenceExample DecodeCSV DecodeProtoV2".split()
        ),
        "words to look up": b"LookupTableFind LookupTableFindV2".split(),
        "regular expressions": b"RegexReplace RegexFullMatch RegexSplitWithOffsets".split(),
        "initial value of a variable, whose saved value is in the checkpoint": ASSIGNMENTS,
    }.items()
    for op in ops
}
IN_ROWS: Final = "strings in several dimensions; a vocabulary has only one"
VARIABLE_ATTRIBUTE: Final = b"/.ATTRIBUTES/VARIABLE_VALUE"
# Metadata that TensorFlow and Keras save as string variables.
BOOKKEEPING: Final = (b"_CHECKPOINTABLE_OBJECT_GRAPH", b"/.ATTRIBUTES/OBJECT_CONFIG_JSON")


def read_constants(
    linker: Linker,
    filling: set[tuple[bytes, bytes]],
    findings: Findings,
    *,
    variables_read: bool,
) -> None:
    """Add each constant that is a list of strings to ``findings``.

    - ``filling``: the constants that fill lookup tables, as (body name, node name). They are left
      out.
    - ``variables_read``: whether string variables were read. If so, constants that are initial
      values of variables are added as skipped lists.
    """
    for body in linker.graph.bodies:
        for node in body.nodes_with(STRING_TYPE):
            tensor = node.tensor_of(b"value") if node.op == b"Const" else None
            if tensor is None or tensor.dtype != DT_STRING or not tensor.shape:
                continue  # a scalar is not a list
            if (body.name, node.name) in filling:
                continue
            name, place = printable(node.name), linker.graph.place(body, node.name)
            with findings.warning(f"constant {place.place}"):
                size = tensor.elements
                use, why_not = _use(linker, body, node.name, variables_read)
                if why_not is None and _in_rows(tensor.shape):
                    why_not = IN_ROWS
                if why_not is None and size < MIN_STRINGS:
                    why_not = TOO_FEW
                if why_not is not None:
                    findings.found.append(PassedOver(name, size, place, why_not))
                    continue
                entries = tensors.strings(tensor)
                stored = unwrap(entries)
                notes = [f"used by {printable(use)}" if use else "nothing in the graph uses it"]
                if stored is not entries:
                    notes.append("each entry was unwrapped from a protobuf message")
                found = Vocabulary(name, "constant", stored, places=(place,), notes=tuple(notes))
                findings.found.append(found)


def read_variables(checkpoint: Checkpoint, findings: Findings) -> None:
    """Add each string variable to ``findings``: as a vocabulary or as a skipped list."""
    for key, entry in checkpoint.entries.items():
        if entry.dtype != DT_STRING or key.endswith((KEYS, VALUES)) or key.startswith(b"\0"):
            continue
        name = printable(key.removesuffix(VARIABLE_ATTRIBUTE))
        place = Place(CHECKPOINT_INDEX, printable(key))
        if key.endswith(BOOKKEEPING) or not entry.shape:
            why_not = "a single string, or metadata of TensorFlow"
            findings.found.append(PassedOver(name, entry.elements, place, why_not))
        elif _in_rows(entry.shape):
            findings.found.append(PassedOver(name, entry.elements, place, IN_ROWS))
        else:
            with findings.warning(f"variable {name}"):
                stored = unwrap(checkpoint.strings(key))
                findings.found.append(Vocabulary(name, "variable", stored, places=(place,)))


def _in_rows(shape: tuple[int, ...]) -> bool:
    return sum(length > 1 for length in shape) > 1


def _use(
    linker: Linker, body: Body, name: bytes, variables_read: bool
) -> tuple[bytes | None, str | None]:
    why_not = None
    waiting = deque([(body, name)])
    if body is linker.graph.main:
        waiting.extend(linker.captors.get(name, ()))
    seen: set[tuple[bytes, bytes]] = set()
    while waiting and len(seen) < MAX_USES:
        here, output = waiting.popleft()
        if (here.name, output) in seen:
            continue
        seen.add((here.name, output))
        if any(returned.name == output for returned in here.returns):
            waiting.extend((caller, node.name) for caller, node in linker.callers(here.name))
        for node, position in here.consumers(output):
            if node.op in COPIES:
                waiting.append((here, node.name))
                continue
            # Arguments match the last inputs: the first one of a branch is its condition.
            from_end = len(node.data_inputs) - position
            names = sorted(node.called_functions() & linker.graph.functions.keys())
            called = [linker.graph.functions[each] for each in names]
            called = [function for function in called if from_end <= len(function.arguments)]
            if called:
                waiting.extend((function, function.arguments[-from_end]) for function in called)
            elif node.op not in NOT_VOCABULARY or (node.op in ASSIGNMENTS and not variables_read):
                return node.op, None  # it may use the constant as a vocabulary
            else:
                why_not = NOT_VOCABULARY[node.op]
    return None, why_not


def unwrap(entries: ByteStrings) -> ByteStrings:
    """Return the string in each entry, if every entry is a protobuf message {1: string}.

    A score (field 2, five bytes with its tag) and a type (field 3, two bytes) may follow the
    string. Universal Sentence Encoder Lite stores its SentencePiece pieces as such messages. If any
    entry is not such a message, all entries are returned unchanged.
    """
    if len(entries) < 2 or int(entries.lengths.min()) < 2:
        return entries
    array = np.frombuffer(entries.data, np.uint8)
    heads = entries.starts.astype(np.int64)
    if bool((np.diff(heads) <= 0).any()) or bool((array[heads] != 0x0A).any()):
        return entries
    lengths, starts = wire.lengths_at(array, heads + 1)
    ends = starts + lengths
    rest = entries.ends - ends
    rest -= 5 * ((rest >= 5) & (array.take(ends, mode="clip") == 0x15))
    rest -= 2 * ((rest == 2) & (array.take(entries.ends - 2, mode="clip") == 0x18))
    return entries if bool(rest.any()) else ByteStrings(entries.data, starts, ends)
