"""What fills each lookup table of a graph: constants, ranges and asset files, either way round.

Each op that fills a table is joined to what it fills it with through ``linking.py``; words may be
the keys or the values. Tables whose words are in the checkpoint are in ``saved_tables.py``; names,
unknown words and Keras' additions are in ``tables.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats import text_file
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import TABLE_OP, Body, Node
from vocabtool.formats.saved_model.linking import Linker, Origin, Table
from vocabtool.formats.saved_model.lookups import scalar
from vocabtool.formats.saved_model.tensors import DT_STRING, INTEGERS
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import EntryType, Place, printable

IMPORTS: Final = frozenset(
    (b"LookupTableImport", b"LookupTableImportV2", b"InitializeTable", b"InitializeTableV2")
)
FROM_FILE: Final = frozenset((b"InitializeTableFromTextFile", b"InitializeTableFromTextFileV2"))
FROM_DATASET: Final = b"InitializeTableFromDataset"
RESTORE: Final = b"RestoreV2"

MAX_INTEGERS: Final = 4_000_000  # written in decimal they take 20 times their place in a file
INT64: Final = range(-(1 << 63), 1 << 63)

AssetReader = Callable[[bytes], bytes]
Numbers = NDArray[np.int64] | range


class Content(NamedTuple):
    """The entries of a table. ``ids``: one per entry, in any order; ``None``: positions."""

    entries: ByteStrings
    ids: Numbers | None
    name: str
    place: Place
    entry_type: EntryType = "text"
    notes: tuple[str, ...] = ()


class Fill(NamedTuple):
    """``constants``: the nodes of ``contents``, as (body, node) names."""

    table: Table
    contents: tuple[Content, ...]
    constants: tuple[tuple[bytes, bytes], ...] = ()


class Side(NamedTuple):
    """The keys or the values of a table: strings, numbers, or neither.

    ``computed``: neither, because the model computes them.
    """

    name: str
    place: Place
    strings: ByteStrings | None = None
    numbers: Numbers | None = None
    computed: bool = True


def read_fills(linker: Linker, asset: AssetReader, warnings: list[str]) -> Iterator[Fill]:
    """Yield what each op that fills a table fills it with.

    ``asset`` opens a file of the model by its name.
    Ops in functions that nothing calls are passed over where their table is not to be found; what
    could not be read is said in ``warnings``.
    """
    reader = _FillReader(linker, asset)
    for body in linker.graph.bodies:
        for node in body.marked(TABLE_OP):
            if node.op in IMPORTS or node.op in FROM_FILE or node.op == FROM_DATASET:
                try:
                    fill = reader.fill(body, node)
                except VocabtoolError as error:
                    warnings.append(f"table filled by {printable(node.name)}: {error}")
                else:
                    if fill is not None:
                        yield fill


class _FillReader(NamedTuple):
    linker: Linker
    asset: AssetReader

    def fill(self, body: Body, node: Node) -> Fill | None:
        table = self.linker.table(body, node.data_input(0))
        if table is None:
            if not body.name or self.linker.callers(body.name):
                raise InvalidFile("which table it fills is not to be found: words not read")
            return None
        if b"Mutable" in table.node.op:
            return None
        return self._read(body, node, table)

    def _read(self, body: Body, node: Node, table: Table) -> Fill:
        if node.op == FROM_DATASET:
            raise InvalidFile("a dataset fills it while the model loads: its words are not read")
        origins = [self.linker.origin(body, node.data_input(i)) for i in (1, 2)]
        if origins[0] is None or origins[0].op == RESTORE:
            return Fill(table, ())
        if node.op in FROM_FILE:
            return Fill(table, tuple(_contents(*self._columns(node, table, origins[0]))))
        keys, values = (self._side(origin) for origin in origins)
        constants = tuple(
            (origin.body.name, origin.node.name)
            for origin in origins
            if origin is not None and origin.node is not None
        )
        return Fill(table, tuple(_contents(keys, values)), constants)

    def _side(self, origin: Origin | None) -> Side:
        node = origin.node if origin else None
        if origin is None or node is None:
            return Side("", Place("", ""))
        where = self.linker.graph.place(origin.body, node.name)
        name = printable(node.name)
        if node.op == b"Range":
            return Side(name, where, numbers=self._range(origin.body, node))
        if node.op == b"Const":
            return self._constant(node, name, where)
        return Side(f"{printable(node.op)} {name}", where)

    def _constant(self, node: Node, name: str, where: Place) -> Side:
        tensor = node.tensor_of(b"value")
        if tensor is not None and tensor.dtype == DT_STRING:
            return Side(name, where, strings=tensors.strings(tensor))
        if tensor is not None and tensor.dtype in INTEGERS:
            return Side(name, where, numbers=tensors.integers(tensor))
        return Side(f"{name}, neither strings nor integers,", where, computed=False)

    def _range(self, body: Body, node: Node) -> Numbers | None:
        start, delta = (scalar(self.linker.origin(body, node.data_input(i))) for i in (0, 2))
        if isinstance(start, int) and isinstance(delta, int) and delta:
            return range(start, start + (1 << 40) * delta, delta)
        return None

    def _columns(self, node: Node, table: Table, origin: Origin) -> tuple[Side, Side]:
        filename = self._asset_name(origin)
        data = self.asset(filename)
        indices = node.integer_of(b"key_index"), node.integer_of(b"value_index")
        columns = text_file.read_columns(
            data,
            *indices,
            node.bytes_of(b"delimiter") or b"\t",
            vocab_size=node.integer_of(b"vocab_size", -1),
            offset=node.integer_of(b"offset"),
        )
        sides = []
        for column, index, role in zip(columns, indices, (b"key", b"value"), strict=True):
            place = Place(f"assets/{printable(filename)}", _column_name(index))
            side = Side(printable(filename), place)
            if isinstance(column, range):
                side = Side(printable(filename), place, numbers=column)
            elif table.node.integer_of(role + b"_dtype") in INTEGERS:
                side = Side(printable(filename), place, numbers=text_file.integers(column))
            else:
                side = Side(printable(filename), place, strings=column)
            sides.append(side)
        return sides[0], sides[1]

    def _asset_name(self, origin: Origin) -> bytes:
        graph = self.linker.graph
        if origin.object_id is not None and graph.objects.kind(origin.object_id) == "asset":
            position = graph.objects.asset(origin.object_id)
            if position < len(graph.assets):
                return graph.assets[position].filename
        named = graph.asset_of(origin.node.name) if origin.node else None
        if named is None:
            # Only the base name: the rest is a path of the machine that trained the model.
            value = scalar(origin)
            named = value if isinstance(value, bytes) else b""
            named = named.replace(b"\\", b"/").rpartition(b"/")[2]
        if not named:
            raise InvalidFile("a file fills it, and the model does not say which")
        return named


def _contents(keys: Side, values: Side) -> Iterator[Content]:
    """The entries of a table: its strings, whichever side they are on, else its integer keys."""
    words, other = (keys, values) if keys.strings is not None else (values, keys)
    if words.strings is not None:
        ids = _first_numbers(other.numbers, len(words.strings))
        yield Content(words.strings, ids, words.name, words.place, notes=_doubts(other))
    else:
        if keys.numbers is None or isinstance(keys.numbers, range):
            raise InvalidFile(f"{keys.name or 'nothing known'} fills it: its words are not read")
        if len(keys.numbers) > MAX_INTEGERS:
            raise InvalidFile(f"more than {MAX_INTEGERS:,} integers as keys: they are not read")
        entries = ByteStrings.of(_in_decimal(keys.numbers))
        ids = _first_numbers(values.numbers, len(entries))
        yield Content(entries, ids, keys.name, keys.place, "integer")


def _in_decimal(numbers: NDArray[np.int64]) -> Iterator[bytes]:
    for at in range(0, len(numbers), CHUNK):
        yield from (b"%d" % number for number in numbers[at : at + CHUNK].tolist())


def _first_numbers(numbers: Numbers | None, count: int) -> Numbers | None:
    if not isinstance(numbers, range):
        return numbers
    some = numbers[:count]
    if some and not all(number in INT64 for number in (some[0], some[-1])):
        raise InvalidFile(f"ids from {some[0]} to {some[-1]} are no 64-bit integers")
    return some


def _doubts(other: Side) -> tuple[str, ...]:
    if other.strings is not None:
        return ("the table maps these to other strings; ids are positions",)
    if other.numbers is None:
        what = "the model computes the ids" if other.computed else "the table's values are no ids"
        return (f"{what}; positions stand in for them",)
    return ()


def _column_name(index: int) -> str:
    return "whole lines" if index == text_file.WHOLE_LINE else f"column {index}"
