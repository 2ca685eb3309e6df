"""Read the contents of lookup tables, and lists of strings that no table uses.

A table is filled from constants, ranges, asset files or the checkpoint.

``meta_graph.Linker`` finds the keys and values that each op writes to a table. The words are either
the keys or the values. Mutable tables are saved in the checkpoint, in hash order. The saved tensors
of a DenseHashTable include its empty buckets. The key of a saved tensor identifies its table.

Files in ``assets/`` are opened by a name without a folder, and never through a link. Each file that
no table reads is classified as a SentencePiece model, a list of words, or neither.

A constant outside tables is followed through copies, calls and captures to the ops that use it. The
constant is skipped if these ops only save, restore, assert, parse examples or initialise a variable
(see ``NOT_VOCABULARY``).
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import sentencepiece, wire, word_list
from vocabtool.formats.files import MAX_FILES, named_file, read_linkless, refuse_link
from vocabtool.formats.reader import HEAD, MIN_ENTRIES, TOO_FEW, Findings, PassedOver
from vocabtool.formats.saved_model.graph import (
    DT_STRING,
    INTEGERS,
    STRING_TYPE,
    TABLE_OP,
    Body,
    Node,
    Reference,
)
from vocabtool.formats.saved_model.meta_graph import COPIES, Linker, Origin, Table
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import EntryType, Place, Vocabulary, is_utf8, printable

if TYPE_CHECKING:
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

WHOLE: Final = "whole file"


@dataclass(frozen=True, slots=True)
class AssetFolder:
    """The ``assets/`` folder of a model. ``read_names``: the files that :meth:`read` has read."""

    folder: Path
    read_names: set[str] = field(default_factory=set)

    def read(self, name: bytes) -> bytes:
        """Return the content of an asset. Raises :class:`InvalidFile` if the name is a path."""
        path = named_file(self.folder, name)
        self.read_names.add(path.name)
        with reading("assets"):
            refuse_link(self.folder)
        return read_linkless(path, f"assets/{printable(name)}", word_list.MAX_FILE)

    def unread(self) -> Iterator[Path]:
        """Yield the files and links that :meth:`read` has not read, sorted by name."""
        with reading("assets"):
            refuse_link(self.folder)
            paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
            if len(paths) > MAX_FILES:
                raise UnsupportedFormat(f"more than {MAX_FILES:,} files")
            for path in paths:
                if path.name not in self.read_names and (path.is_symlink() or path.is_file()):
                    yield path


def read_asset(path: Path) -> Vocabulary | PassedOver:
    """Read a file of ``assets/`` that no table reads; see :func:`classify_asset`."""
    name = printable(os.fsencode(path.name))
    place = Place(f"assets/{name}", WHOLE)
    with reading(place.file):
        refuse_link(path)
        with path.open("rb") as opened:
            head = opened.read(HEAD)
        data = b""
        if sentencepiece.looks_like_model(head) or _is_text(head):
            data = read_linkless(path, place.file, word_list.MAX_FILE)
        return classify_asset(name, place, data)


def classify_asset(name: str, place: Place, data: bytes) -> Vocabulary | PassedOver:
    """Return the vocabulary in an asset (a tokenizer or a list of words), or why it was skipped."""
    head = data[:HEAD]
    if sentencepiece.looks_like_model(head):
        return sentencepiece.vocabulary(data, name, place)
    if not _is_text(head):
        return PassedOver(name, 0, place, "not a text file, and no table reads it")
    entries = word_list.read_lines(data)
    if len(entries) < MIN_ENTRIES:
        why = f"a file of fewer than {MIN_ENTRIES} lines, and no table reads it"
        return PassedOver(name, len(entries), place, why)
    lines = place if place.place != WHOLE else Place(place.file, "whole lines")
    return Vocabulary(name, "asset", entries, places=(lines,), notes=("no table reads this file",))


def _is_text(head: bytes) -> bool:
    return bool(head) and b"\0" not in head and is_utf8(head, cut=len(head) == HEAD)


IMPORTS: Final = frozenset(
    b"LookupTableImport LookupTableImportV2 InitializeTable InitializeTableV2".split()
)
FROM_FILE: Final = frozenset((b"InitializeTableFromTextFile", b"InitializeTableFromTextFileV2"))
FROM_DATASET: Final = b"InitializeTableFromDataset"
FILLS: Final = IMPORTS | FROM_FILE | {FROM_DATASET}
RESTORE: Final = b"RestoreV2"
GROWING: Final = b"Mutable"
DENSE: Final = b"DenseHashTable"

MAX_INTEGERS: Final = 4_000_000  # decimal strings have up to 20 times their size
MAX_RANGE: Final = 1 << 40

CHECKPOINT_INDEX: Final = "variables/variables.index"
KEYS: Final = b"-keys"
VALUES: Final = b"-values"
TABLE_ATTRIBUTE: Final = b"/.ATTRIBUTES/table"

# Notes for a table whose ids are unknown.
NO_IDS: Final = "the table's values are not ids; positions are used instead"
COMPUTED: Final = "the model computes the ids; positions are used instead"
UNORDERED: Final = "the table's values are not ids; entries are sorted by their bytes"

Numbers = NDArray[np.int64] | range


@dataclass(frozen=True, slots=True)
class Column:
    """The keys or the values of a lookup table.

    ``values``: ``None`` if they are unknown, or neither strings nor integers; ``caveat`` then says
    why the table has no ids. ``constant``: the node with the strings, as (body name, node name).
    """

    name: str
    place: Place
    values: ByteStrings | Numbers | None = None
    caveat: str = NO_IDS
    constant: tuple[bytes, bytes] | None = None


class TableContents(NamedTuple):
    """The words of a table.

    ``name``, ``place``: of the constant or file with the words. ``ids``: of the entries, in order;
    ``None``: their positions. ``constants``: nodes with its strings, as (body name, node name).
    """

    table: Table
    name: str
    place: Place
    entries: ByteStrings
    ids: Numbers | None
    entry_type: EntryType
    notes: tuple[str, ...]
    constants: tuple[tuple[bytes, bytes], ...]


def scalar(origin: Origin | None) -> int | bytes | None:
    """Return the string or integer in a constant of one element; otherwise ``None``."""
    if origin is None or origin.node is None or origin.node.op != b"Const":
        return None
    tensor = origin.node.tensor_of(b"value")
    if tensor is None or tensor.elements != 1:
        return None
    if tensor.dtype == DT_STRING:
        return tensor.strings()[0]
    return int(tensor.integers()[0]) if tensor.dtype in INTEGERS else None


def read_contents(
    linker: Linker, assets: AssetFolder, findings: Findings
) -> Iterator[TableContents]:
    """Yield what each op writes to a lookup table, except ops that restore from the checkpoint."""
    for body in linker.graph.bodies:
        for node in body.nodes_with(TABLE_OP):
            if node.op not in FILLS:
                continue
            with findings.warning(f"table filled by {printable(node.name)}"):
                table = linker.table(body, node.data_input(0))
                if table is None and (not body.name or linker.callers(body.name)):
                    raise InvalidFile("it is unknown which table is filled: words not read")
                if table is None or GROWING in table.node.op:
                    continue
                if node.op == FROM_DATASET:
                    raise InvalidFile(
                        "the model takes the words from a dataset when it loads: words not read"
                    )
                origins = [linker.origin(body, node.data_input(position)) for position in (1, 2)]
                if origins[0] is None or (origins[0].node and origins[0].node.op == RESTORE):
                    continue
                if node.op in FROM_FILE:
                    yield _pair(table, *_file_columns(linker, assets, node, table, origins[0]))
                else:
                    yield _pair(table, *(_column(linker, origin) for origin in origins))


def _pair(table: Table, keys: Column, values: Column) -> TableContents:
    """Decide which column has the words: a column of text, otherwise integer keys."""
    words, other = (keys, values) if isinstance(keys.values, ByteStrings) else (values, keys)
    caveats: tuple[str, ...] = ()
    entry_type: EntryType = "text"
    if isinstance(words.values, ByteStrings):
        entries = words.values
        if isinstance(other.values, ByteStrings):
            caveats = ("the table maps entries to other strings; positions are used as ids",)
        elif other.values is None:
            caveats = (other.caveat,)
    else:
        words, other, entry_type = keys, values, "integer"
        if not isinstance(keys.values, np.ndarray):
            raise InvalidFile(f"the keys come from {keys.name or 'an unknown op'}: words not read")
        if len(keys.values) > MAX_INTEGERS:
            raise InvalidFile(f"more than {MAX_INTEGERS:,} integer keys: they are not read")
        chunks = (keys.values[at : at + CHUNK] for at in range(0, len(keys.values), CHUNK))
        entries = ByteStrings.of(b"%d" % number for chunk in chunks for number in chunk.tolist())
    ids = None if isinstance(other.values, ByteStrings) else other.values
    if isinstance(ids, range):
        ids = ids[: len(entries)]
        if ids and not (ids[0] in word_list.INT64 and ids[-1] in word_list.INT64):
            raise InvalidFile(f"ids from {ids[0]} to {ids[-1]} do not fit into 64-bit integers")
    return TableContents(
        table=table,
        name=words.name,
        place=words.place,
        entries=entries,
        ids=ids,
        entry_type=entry_type,
        notes=caveats,
        constants=tuple(column.constant for column in (keys, values) if column.constant),
    )


def _column(linker: Linker, origin: Origin | None) -> Column:
    """Return the column that comes from ``origin``: a constant, or a range of integers."""
    node = origin.node if origin else None
    if origin is None or node is None:
        return Column("", Place("", ""), caveat=COMPUTED)
    place, name = linker.graph.place(origin.body, node.name), printable(node.name)
    if node.op == b"Range":  # its limit is not read: _pair cuts the range to the number of words
        start, delta = (scalar(linker.origin(origin.body, node.data_input(i))) for i in (0, 2))
        if isinstance(start, int) and isinstance(delta, int) and delta:
            return Column(name, place, range(start, start + MAX_RANGE * delta, delta))
        return Column(name, place, caveat=COMPUTED)
    if node.op != b"Const":
        return Column(f"{printable(node.op)} {name}", place, caveat=COMPUTED)
    tensor = node.tensor_of(b"value")
    if tensor is not None and tensor.dtype == DT_STRING:
        constant = (origin.body.name, node.name)
        return Column(name, place, tensor.strings(), constant=constant)
    if tensor is not None and tensor.dtype in INTEGERS:
        return Column(name, place, tensor.integers())
    return Column(f"{name} (neither strings nor integers)", place)


def _file_columns(
    linker: Linker, assets: AssetFolder, node: Node, table: Table, origin: Origin
) -> tuple[Column, Column]:
    """Return the keys and values that ``node`` reads from the file whose path is ``origin``."""
    filename = linker.graph.asset_of(origin)
    if filename is None:
        # Only the base name: the folder was on the machine that trained the model.
        path = scalar(origin)
        path = path if isinstance(path, bytes) else b""
        filename = path.replace(b"\\", b"/").rpartition(b"/")[2]
    if not filename:
        raise InvalidFile("filled from a file, but the model does not name the file")
    data = assets.read(filename)
    indices = node.integer_of(b"key_index"), node.integer_of(b"value_index")
    key_and_value = word_list.read_columns(
        data,
        *indices,
        node.bytes_of(b"delimiter") or b"\t",
        vocab_size=node.integer_of(b"vocab_size", -1),
        offset=node.integer_of(b"offset"),
    )
    columns = []
    for values, index, role in zip(key_and_value, indices, (b"key", b"value"), strict=True):
        where = "whole lines" if index == word_list.WHOLE_LINE else f"column {index}"
        name, place = printable(filename), Place(f"assets/{printable(filename)}", where)
        if isinstance(values, ByteStrings) and table.node.integer_of(role + b"_dtype") in INTEGERS:
            columns.append(Column(name, place, word_list.integers(values)))
        else:
            columns.append(Column(name, place, values))
    return columns[0], columns[1]


def read_saved_contents(
    checkpoint: Checkpoint, linker: Linker, findings: Findings
) -> Iterator[TableContents]:
    """Yield the contents of each table in the checkpoint; skip empty tables."""
    for key in checkpoint.entries:
        name = key.removesuffix(KEYS)
        if not key.endswith(KEYS) or name + VALUES not in checkpoint.entries:
            continue
        shown = printable(name.removesuffix(TABLE_ATTRIBUTE)).replace("/", ".")
        place = Place(CHECKPOINT_INDEX, printable(key))
        with findings.warning(f"table {shown}"):
            if name.endswith(TABLE_ATTRIBUTE):  # TensorFlow 2: the path of an object
                # TensorFlow writes ``/`` in the name of an object as ``.S``, and ``.`` as ``..``.
                path = (
                    re.sub(rb"\.(.)", lambda m: b"/" if m[1] == b"S" else m[1], attribute)
                    for attribute in name.removesuffix(TABLE_ATTRIBUTE).split(b"/")
                )
                table = linker.table_of_object(linker.graph.objects.walk(path))
            else:  # TensorFlow 1: the name of a node
                table = linker.table(linker.graph.main, Reference(name, b"", 0))
            if table is None:
                raise InvalidFile("the keys belong to no table of the graph: words not read")
            if checkpoint.entries[key].elements == 0:
                findings.lists.append(PassedOver(shown, 0, place, "an empty table"))
                continue
            columns: list[ByteStrings | NDArray[np.int64] | None] = []
            for column in (key, name + VALUES):
                dtype = checkpoint.entries[column].dtype
                if dtype == DT_STRING:
                    columns.append(checkpoint.strings(column))
                else:
                    columns.append(checkpoint.integers(column) if dtype in INTEGERS else None)
            keys, values = columns
            if keys is None and not isinstance(values, ByteStrings):
                raise InvalidFile("the keys are neither strings nor integers: words not read")
            if keys is not None and values is not None and len(keys) != len(values):
                raise InvalidFile(f"{len(keys):,} keys but {len(values):,} values: words not read")
            if DENSE in table.node.op:
                rows = _used_buckets(linker, table, keys)
                keys, values = (None if c is None else c.take(rows) for c in (keys, values))
            caveat = NO_IDS
            if isinstance(keys, ByteStrings) and not isinstance(values, np.ndarray):
                order = sorted(range(len(keys)), key=keys.__getitem__)
                keys, values, caveat = keys.take(np.array(order, np.int64)), None, UNORDERED
            yield _pair(table, Column(shown, place, keys), Column(shown, place, values, caveat))


def _used_buckets(
    linker: Linker, table: Table, keys: ByteStrings | NDArray[np.int64] | None
) -> NDArray[np.intp]:
    """Return the used rows of a DenseHashTable: intp. Two keys mark empty and deleted rows."""
    used = np.ones(0 if keys is None else len(keys), np.bool_)
    for position in (0, 1):
        marker = scalar(linker.origin(table.body, table.node.data_input(position)))
        if isinstance(keys, ByteStrings) and isinstance(marker, bytes):
            used &= ~keys.equal_to(marker)
        elif isinstance(keys, np.ndarray) and isinstance(marker, int):
            used &= keys != marker
        else:
            raise InvalidFile("empty_key or deleted_key is not a constant: words not read")
    return np.flatnonzero(used)


# Constants and variables outside lookup tables.

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
    linker: Linker, in_tables: set[tuple[bytes, bytes]], findings: Findings, *, variables_read: bool
) -> None:
    """Add each constant that is a list of strings to ``findings``, except those ``in_tables``.

    ``in_tables``: (body name, node name) pairs. ``variables_read``: if string variables were read,
    their initial values are added as skipped lists.
    """
    for body in linker.graph.bodies:
        for node in body.nodes_with(STRING_TYPE):
            tensor = node.tensor_of(b"value") if node.op == b"Const" else None
            if tensor is None or tensor.dtype != DT_STRING or not tensor.shape:
                continue  # a scalar is not a list
            if (body.name, node.name) in in_tables:
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
                    findings.lists.append(PassedOver(name, size, place, why_not))
                    continue
                entries = tensor.strings()
                stored = unwrap(entries)
                notes = [f"used by {printable(use)}" if use else "nothing in the graph uses it"]
                if stored is not entries:
                    notes.append("each entry was unwrapped from a protobuf message")
                findings.lists.append(
                    Vocabulary(name, "constant", stored, places=(place,), notes=tuple(notes))
                )


def read_variables(checkpoint: Checkpoint, findings: Findings) -> None:
    for key, entry in checkpoint.entries.items():
        if entry.dtype != DT_STRING or key.endswith((KEYS, VALUES)) or key.startswith(b"\0"):
            continue
        name = printable(key.removesuffix(VARIABLE_ATTRIBUTE))
        place = Place(CHECKPOINT_INDEX, printable(key))
        if key.endswith(BOOKKEEPING) or not entry.shape:
            why_not = "a single string, or metadata of TensorFlow"
            findings.lists.append(PassedOver(name, entry.elements, place, why_not))
        elif _in_rows(entry.shape):
            findings.lists.append(PassedOver(name, entry.elements, place, IN_ROWS))
        else:
            with findings.warning(f"variable {name}"):
                stored = unwrap(checkpoint.strings(key))
                findings.lists.append(Vocabulary(name, "variable", stored, places=(place,)))


def _in_rows(shape: tuple[int, ...]) -> bool:
    """Return whether more than one dimension has a length above 1."""
    return sum(length > 1 for length in shape) > 1


def _use(
    linker: Linker, body: Body, name: bytes, variables_read: bool
) -> tuple[bytes | None, str | None]:
    """Follow a constant to the ops that use it; stop at one that may use it as a vocabulary.

    Returns this op or ``None``, and why it is no vocabulary or ``None``; both ``None`` if unused.
    """
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
            called = [linker.graph.functions[name] for name in names]
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
    data = np.frombuffer(entries.data, np.uint8)
    tags = entries.starts.astype(np.int64)  # positions of the tags of field 1
    if bool((np.diff(tags) <= 0).any()) or bool((data[tags] != 0x0A).any()):
        return entries
    lengths, starts = wire.lengths_at(data, tags + 1)
    ends = starts + lengths
    # The number of bytes behind the string, less those of a score and of a type.
    rest = entries.ends - ends
    rest -= np.where((rest >= 5) & (data.take(ends, mode="clip") == 0x15), 5, 0)
    rest -= np.where((rest == 2) & (data.take(entries.ends - 2, mode="clip") == 0x18), 2, 0)
    return entries if bool(rest.any()) else ByteStrings(entries.data, starts, ends)
