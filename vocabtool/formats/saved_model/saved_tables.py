"""What the checkpoint holds of words: hash tables that grow, and string variables.

A MutableHashTable is saved in hash order; a DenseHashTable with every empty bucket. Which object
of the model a tensor belongs to is told by its key. The checkpoint's own layout is in
``checkpoint.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats.model import PassedOver
from vocabtool.formats.saved_model.constants import IN_ROWS, in_rows, unwrap
from vocabtool.formats.saved_model.fills import Content, Fill
from vocabtool.formats.saved_model.graph import STRING_TYPE, TABLE_OP
from vocabtool.formats.saved_model.linking import TABLES, Linker, Table
from vocabtool.formats.saved_model.lookups import scalar
from vocabtool.formats.saved_model.tensors import DT_STRING, INTEGERS
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Vocabulary, printable

if TYPE_CHECKING:
    from vocabtool.formats.saved_model.checkpoint import Checkpoint

FILE: Final = "variables/variables.index"
KEYS: Final = b"-keys"
VALUES: Final = b"-values"
TABLE_ATTRIBUTE: Final = b"/.ATTRIBUTES/table"
VARIABLE_ATTRIBUTE: Final = b"/.ATTRIBUTES/VARIABLE_VALUE"
DENSE: Final = b"DenseHashTable"
# Strings that TensorFlow and Keras save for themselves.
BOOKKEEPING: Final = (b"_CHECKPOINTABLE_OBJECT_GRAPH", b"/.ATTRIBUTES/OBJECT_CONFIG_JSON")
VARIABLES: Final = frozenset((b"VarHandleOp", b"VariableV2", b"Variable"))


def needs_checkpoint(linker: Linker) -> bool:
    """Whether the graph has a table or a variable whose words only the checkpoint holds."""
    return any(
        node.op in TABLES and b"Mutable" in node.op
        for body in linker.graph.bodies
        for node in body.marked(TABLE_OP)
    ) or any(
        node.op in VARIABLES
        for body in linker.graph.bodies
        for node in body.marked(STRING_TYPE)
        if node.integer_of(b"dtype") == DT_STRING
    )


def read_saved_tables(
    checkpoint: Checkpoint, linker: Linker, warnings: list[str]
) -> Iterator[Fill | PassedOver]:
    """Yield each table in the checkpoint; an empty one is passed over."""
    for key in checkpoint.entries:
        if key.endswith(KEYS) and key.removesuffix(KEYS) + VALUES in checkpoint.entries:
            name = key.removesuffix(KEYS)
            try:
                yield _read_table(checkpoint, linker, name)
            except VocabtoolError as error:
                warnings.append(f"table {_shown(name)}: {error}")


def read_variables(
    checkpoint: Checkpoint, warnings: list[str]
) -> Iterator[Vocabulary | PassedOver]:
    """Yield each string variable of one dimension or more."""
    for key, entry in checkpoint.entries.items():
        if entry.dtype != DT_STRING or key.endswith((KEYS, VALUES)) or key.startswith(b"\0"):
            continue
        name = printable(key.removesuffix(VARIABLE_ATTRIBUTE))
        place = Place(FILE, printable(key))
        if key.endswith(BOOKKEEPING) or not entry.shape:
            yield PassedOver(name, entry.elements, place, "a single string, kept by TensorFlow")
            continue
        if in_rows(entry.shape):
            yield PassedOver(name, entry.elements, place, IN_ROWS)
            continue
        try:
            entries = checkpoint.strings(key)
        except VocabtoolError as error:
            warnings.append(f"variable {name}: {error}")
            continue
        unwrapped = unwrap(entries)
        stored = entries if unwrapped is None else unwrapped
        yield Vocabulary(name=name, kind="variable", stored=stored, places=(place,))


def _read_table(checkpoint: Checkpoint, linker: Linker, name: bytes) -> Fill | PassedOver:
    place = Place(FILE, printable(name + KEYS))
    table = _table(linker, name)
    if table is None:
        raise InvalidFile("no table of the graph belongs to these keys: words not read")
    if checkpoint.entries[name + KEYS].elements == 0:
        return PassedOver(_shown(name), 0, place, "an empty table")
    keys, values = (_column(checkpoint, name + side) for side in (KEYS, VALUES))
    if DENSE in table.node.op:
        keys, values = _used_buckets(linker, table, keys, values)
    return Fill(table, (_content(keys, values, _shown(name), place),))


Column = ByteStrings | NDArray[np.int64] | None


def _column(checkpoint: Checkpoint, key: bytes) -> Column:
    dtype = checkpoint.entries[key].dtype
    if dtype == DT_STRING:
        return checkpoint.strings(key)
    return checkpoint.integers(key) if dtype in INTEGERS else None


def _content(keys: Column, values: Column, name: str, place: Place) -> Content:
    if isinstance(keys, ByteStrings):
        if isinstance(values, np.ndarray):
            return Content(keys, values, name, place)
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        note = "the table's values are no ids; entries are in byte order"
        return Content(keys.take(order), None, name, place, notes=(note,))
    if isinstance(values, ByteStrings):
        return Content(values, keys, name, place)
    if keys is None:
        raise InvalidFile("its keys are neither strings nor integers: words not read")
    entries = ByteStrings.of(b"%d" % key for key in keys.tolist())
    return Content(entries, values, name, place, "integer")


def _used_buckets(
    linker: Linker, table: Table, keys: Column, values: Column
) -> tuple[Column, Column]:
    """Drop the rows of a DenseHashTable that hold its empty or its deleted key."""
    used = np.ones(0 if keys is None else len(keys), np.bool_)
    for position in (0, 1):
        marker = scalar(linker.origin(table.body, table.node.data_input(position)))
        if isinstance(keys, ByteStrings) and isinstance(marker, bytes):
            used &= ~keys.equal_to(marker)
        elif isinstance(keys, np.ndarray) and isinstance(marker, int):
            used &= keys != marker
        else:
            raise InvalidFile("the key of its empty buckets is not a constant: words not read")
    rows = np.flatnonzero(used)
    return _taken(keys, rows), _taken(values, rows)


def _taken(column: Column, rows: NDArray[np.int64]) -> Column:
    if isinstance(column, ByteStrings):
        return column.take(rows)
    return column[rows] if column is not None else None


def _table(linker: Linker, name: bytes) -> Table | None:
    """The table that a key belongs to: by its path of objects (TF2) or its node's name (TF1)."""
    if name.endswith(TABLE_ATTRIBUTE):
        path = name.removesuffix(TABLE_ATTRIBUTE).split(b"/")
        object_id = linker.graph.objects.walk(map(_unescaped, path))
        return linker.table_of_object(object_id) if object_id is not None else None
    return linker.table_of_node(name)


def _unescaped(part: bytes) -> bytes:
    """TensorFlow writes ``/`` in the name of an object as ``.S``, and ``.`` as ``..``."""
    return re.sub(rb"\.(.)", lambda found: b"/" if found[1] == b"S" else found[1], part)


def _shown(name: bytes) -> str:
    return printable(name.removesuffix(TABLE_ATTRIBUTE)).replace("/", ".")
