"""Read lookup tables, and make vocabularies from them. Read files in ``assets/``.

A table is filled from constants, ranges, asset files or the checkpoint.
``meta_graph.Linker`` finds the keys and values that each op writes to a table. The words are either
the keys or the values. Mutable tables are saved in the checkpoint, in hash order. The saved tensors
of a DenseHashTable include its empty buckets. The key of a saved tensor identifies its table.

A table does not state which id an unknown word gets. The ops around the lookup show this: a default
value, a hash beside the lookup (``num_oov_buckets`` of TensorFlow, ``num_oov_indices`` of Keras), a
comparison with Keras's mask token, or a WordPiece op. Keras 2 also describes its lookup layers in
``keras_metadata.pb``, with their names and tokens.

Files in ``assets/`` are opened by a name without a folder, and never through a link. Each file that
no table reads is classified as a SentencePiece model, a list of words, or neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import sentencepiece, word_list
from vocabtool.formats.files import MAX_FILES, named_file, read_linkless, refuse_link
from vocabtool.formats.reader import HEAD, MAX_SPECIALS, MIN_ENTRIES, Findings, PassedOver
from vocabtool.formats.saved_model.graph import (
    DT_STRING,
    INTEGERS,
    PIECE_OP,
    TABLE_OP,
    Body,
    Node,
    Reference,
)
from vocabtool.formats.saved_model.meta_graph import COPIES, Linker, Origin, Table
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import (
    EntryType,
    Place,
    Special,
    Unknown,
    Vocabulary,
    decode,
    in_id_order,
    is_utf8,
    printable,
)

if TYPE_CHECKING:
    from vocabtool.formats.saved_model.checkpoint import Checkpoint


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

    def read_others(self, findings: Findings) -> None:
        """Add what is in the files that :meth:`read` has not read, sorted by name."""
        with findings.warning(), reading("assets"):
            refuse_link(self.folder)
            paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
            if len(paths) > MAX_FILES:
                raise UnsupportedFormat(f"more than {MAX_FILES:,} files")
            for path in paths:
                if path.name in self.read_names or not (path.is_symlink() or path.is_file()):
                    continue
                name = printable(os.fsencode(path.name))
                place, data = Place(f"assets/{name}", "whole file"), b""
                with findings.warning(), reading(place.file):
                    refuse_link(path)
                    with path.open("rb") as opened:
                        head = opened.read(HEAD)
                    if sentencepiece.looks_like_model(head) or _is_text(head):
                        data = read_linkless(path, place.file, word_list.MAX_FILE)
                    findings.lists.append(classify_asset(name, place, data))


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
    if place.place == "whole file":
        place = Place(place.file, "whole lines")
    return Vocabulary(name, "asset", entries, places=(place,), notes=("no table reads this file",))


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
                    what = "the model takes the words from a dataset when it loads: words not read"
                    raise InvalidFile(what)
                origins = [linker.origin(body, node.data_input(position)) for position in (1, 2)]
                if origins[0] is None or (origins[0].node and origins[0].node.op == RESTORE):
                    continue
                if node.op in FROM_FILE:
                    yield _pair(table, *_file_columns(linker, assets, body, node, table))
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
        start, delta = (linker.scalar(origin.body, node.data_input(i)) for i in (0, 2))
        if isinstance(start, int) and isinstance(delta, int) and delta:
            return Column(name, place, range(start, start + MAX_RANGE * delta, delta))
        return Column(name, place, caveat=COMPUTED)
    if node.op != b"Const":
        return Column(f"{printable(node.op)} {name}", place, caveat=COMPUTED)
    tensor = node.constant()
    if tensor is not None and tensor.dtype == DT_STRING:
        constant = (origin.body.name, node.name)
        return Column(name, place, tensor.strings(), constant=constant)
    if tensor is not None and tensor.dtype in INTEGERS:
        return Column(name, place, tensor.integers())
    return Column(f"{name} (neither strings nor integers)", place)


def _file_columns(
    linker: Linker, assets: AssetFolder, body: Body, node: Node, table: Table
) -> tuple[Column, Column]:
    """Return the keys and values that ``node`` reads from the file that its second input names."""
    origin = linker.origin(body, node.data_input(1))
    filename = linker.graph.asset_of(origin) if origin else None
    if filename is None:
        # Only the base name: the folder was on the machine that trained the model.
        path = linker.scalar(body, node.data_input(1))
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
        marker = linker.scalar(table.body, table.node.data_input(position))
        if isinstance(keys, ByteStrings) and isinstance(marker, bytes):
            used &= ~keys.equal_to(marker)
        elif isinstance(keys, np.ndarray) and isinstance(marker, int):
            used &= keys != marker
        else:
            raise InvalidFile("empty_key or deleted_key is not a constant: words not read")
    return np.flatnonzero(used)


# What the graph says of a table.

FINDS: Final = frozenset((b"LookupTableFind", b"LookupTableFindV2"))
WORDPIECES: Final = frozenset((b"WordpieceTokenizeWithOffsets",))
HASHES: Final = frozenset(
    (b"StringToHashBucketFast", b"StringToHashBucketStrong", b"StringToHashBucket")
)
REMAINDERS: Final = (b"FloorMod", b"Mod")
ADDITIONS: Final = (b"Add", b"AddV2")
SELECTIONS: Final = (b"Select", b"SelectV2")
MAX_CHOICES: Final = 8

# Names that TensorFlow generates; they do not describe a vocabulary.
GENERATED_NAME: Final = re.compile(r"(Const|keys|values|hash_table|MutableHashTable|table)(_\d+)?")
KERAS_UNKNOWN: Final = {"text": "[UNK]", "integer": "-1"}


# The ids of unknown words: the lowest id (``None``: the one after the ids of the table), and the
# number of ids. A hash of the word selects its id.
Buckets = tuple[int | None, int]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A lookup op.

    ``default``: its result for a missing key. ``buckets``: the ids of unknown words, if a hash
    selects among them. ``mask``: Keras's mask token, which is not looked up. ``scope``: the op's
    name.
    """

    default: int | bytes | None
    buckets: Buckets | None
    mask: Special | None
    scope: bytes


# The layers that look words up: name and unknown token, by the path of the object.
Layers = Mapping[str, tuple[str, str]]


class TableDescriber:
    """Knows how a graph uses its tables; makes vocabularies from their contents."""

    def __init__(self, linker: Linker, layers: Layers, findings: Findings) -> None:
        self._objects = objects = linker.graph.objects
        self._layers: dict[int | None, tuple[str, str]] = {}  # as ``layers``, by object
        for dotted, layer in layers.items():
            path = [name.encode() for name in dotted.split(".")[1:]]
            for inner in ([b"lookup_table"], [b"_lookup_layer", b"lookup_table"]):
                self._layers[objects.walk(path + inner)] = layer
        self._layers.pop(None, None)  # a path that leads nowhere
        # By table key: the first lookup with a known default value, the WordPiece op that uses
        # the table, and the id of the object as which it is saved.
        self._lookups: dict[bytes, Lookup] = {}
        self._wordpieces: dict[bytes, Node] = {}
        self._object_ids: dict[bytes, int] = {}
        for body in linker.graph.bodies:
            for node in body.nodes_with(TABLE_OP):
                table = linker.table(body, node.data_input(0)) if node.op in FINDS else None
                earlier = self._lookups.get(table.key) if table is not None else None
                if table is not None and (earlier is None or earlier.default is None):
                    with findings.warning(f"the unknown id of table {printable(table.node.name)}"):
                        self._lookups[table.key] = _read_lookup(linker, body, node)
            for node in body.nodes_with(PIECE_OP):
                table = linker.table(body, node.data_input(1)) if node.op in WORDPIECES else None
                if table is not None:
                    self._wordpieces[table.key] = node
        for object_id, saved in enumerate(objects.objects):
            table = linker.table_of_object(object_id) if saved.kind == "resource" else None
            if table is not None:
                self._object_ids.setdefault(table.key, object_id)

    def vocabularies(
        self, contents: Iterable[TableContents], findings: Findings
    ) -> Iterator[tuple[Table, Vocabulary]]:
        """Yield each table and its vocabulary; add warnings of bad contents to ``findings``."""
        for content in contents:
            table = content.table
            path = self._objects.paths.get(self._object_ids.get(table.key))
            label = printable(path or table.node.name)
            with findings.warning(f"table {label}"):
                words = Vocabulary(
                    self._name(table, content.name),
                    "table",
                    *in_id_order(content.entries, content.ids),
                    places=(Place(content.place.file, f"{content.place.place}, fills {label}"),),
                    entry_type=content.entry_type,
                )
                lookup, unknown = self._lookups.get(table.key), None
                if lookup is not None and lookup.buckets is not None:
                    first, size = lookup.buckets
                    if first is None:  # a table accepts a duplicate only with the same id
                        first = len(words) if words.ids is None else words.stored.distinct
                    unknown = Unknown(first, size)
                elif lookup is not None and isinstance(lookup.default, int):
                    unknown = Unknown(lookup.default)
                notes = content.notes
                wordpiece = self._wordpieces.get(table.key)
                if wordpiece is not None:
                    indicator = printable(wordpiece.bytes_of(b"suffix_indicator"))
                    notes += (f"WordPiece: {indicator} marks a continuation",)
                    token = wordpiece.bytes_of(b"unknown_token")
                    rows = np.flatnonzero(words.stored.equal_to(token))
                    if wordpiece.integer_of(b"use_unknown_token") and len(rows):
                        unknown = Unknown(int(words.id_array()[rows[0]]))
                specials = self._specials(table, words, unknown)
                yield table, replace(words, unknown=unknown, specials=specials, notes=notes)

    def _name(self, table: Table, words: str) -> str:
        """Name a table's vocabulary. ``words``: the name of the constant or file with the words."""
        object_id = self._object_ids.get(table.key)
        layer = self._layers.get(object_id)
        if layer is not None:
            return layer[0]
        lookup = self._lookups.get(table.key)
        if lookup is not None and object_id in self._objects.keras_tables:
            # The layer's name in ``model/layer/.../hash_table_Lookup/LookupTableFindV2``.
            scope = printable(lookup.scope)
            scopes = scope.split("/")[:-2] or [scope]
            return scopes[1] if len(scopes) > 1 else scopes[0]
        path = self._objects.paths.get(object_id)
        if path:
            return printable(path)
        if not GENERATED_NAME.fullmatch(words.rpartition("/")[2]):
            return words
        # The table's innermost scope whose name is not generated.
        name = printable(table.node.name)
        scope, _, last = name.rpartition("/")
        while scope and GENERATED_NAME.fullmatch(last):
            name = scope
            scope, _, last = name.rpartition("/")
        return name

    def _specials(
        self, table: Table, vocabulary: Vocabulary, unknown: Unknown | None
    ) -> tuple[Special, ...]:
        """Return the entries that a Keras layer adds to the table itself, in id order."""
        lookup, object_id = self._lookups.get(table.key), self._object_ids.get(table.key)
        if lookup is None or object_id not in self._objects.keras_tables:
            return ()
        # ids of special tokens are lower than all ids in the table
        mask, first_id = lookup.mask, vocabulary.first_id
        specials = []
        if mask is not None and mask.id < first_id:  # the id of an unused mask is 2**63 - 1
            specials.append(mask)
        layer = self._layers.get(object_id)
        token = KERAS_UNKNOWN[vocabulary.entry_type] if layer is None else layer[1]
        if isinstance(lookup.default, bytes):  # an inverse table: it returns the token
            token = decode(lookup.default)
            first = 0 if mask is None else mask.id + 1
            unknown = Unknown(first, first_id - first)
        if unknown is not None and unknown.id >= 0:
            end = min(unknown.id + min(unknown.count, MAX_SPECIALS), first_id)
            specials += [Special(id_, token, "unknown") for id_ in range(unknown.id, end)]
        return tuple(sorted(specials, key=lambda special: special.id))


def _read_lookup(linker: Linker, body: Body, find: Node) -> Lookup:
    """Return what the graph says of unknown words at the lookup op ``find`` in ``body``.

    TensorFlow writes hash buckets as ``Select(NotEqual(id, default), id, hash + size)``, where
    ``id`` is the result of the lookup. Keras writes ``Select(Equal(id, default), hash + first,
    id)``, and a mask as ``Select(Equal(key, token), mask id, id)``.
    """
    buckets: Buckets | None = None
    mask: Special | None = None
    output = find.name
    for _ in range(MAX_CHOICES):
        following = (
            (node, position)
            for node, position in body.consumers(output)
            if node.op in COPIES or (node.op in SELECTIONS and position in (1, 2))
        )
        node, position = next(following, (None, 0))
        if node is None:
            break
        if node.op in SELECTIONS:
            alternative = node.data_input(3 - position)
            buckets = buckets or _buckets(linker, body, alternative)
            mask = mask or _mask(linker, body, node.data_input(0), alternative)
        output = node.name
    default = linker.scalar(body, find.data_input(2))
    return Lookup(default, buckets, mask, find.name)


def _maker(body: Body, reference: Reference) -> Node | None:
    """Return the node in ``body`` that makes a tensor; copies of the tensor are passed over."""
    node = body.node(reference.name)
    for _ in range(MAX_CHOICES):
        if node is None or node.op not in COPIES:
            return node
        node = body.node(node.data_input(0).name)
    return node


def _buckets(linker: Linker, body: Body, alternative: Reference) -> Buckets | None:
    """Return the ids of unknown words if ``alternative`` is computed from a hash of the word."""
    maker = _maker(body, alternative)
    count = _hash_size(linker, body, maker)
    if maker is None or count is not None:
        return None if count is None else (0, count)
    for position in (0, 1) if maker.op in ADDITIONS else ():
        count = _hash_size(linker, body, _maker(body, maker.data_input(position)))
        if count is not None:  # Keras adds a constant, TensorFlow the table's size
            first = linker.scalar(body, maker.data_input(1 - position))
            return first if isinstance(first, int) else None, count
    return None


def _hash_size(linker: Linker, body: Body, node: Node | None) -> int | None:
    """Return how many values a hash op or a remainder has; ``None`` for another op."""
    count: int | bytes | None = None
    if node is not None and node.op in HASHES:
        count = node.integer_of(b"num_buckets")
    elif node is not None and node.op in REMAINDERS:
        count = linker.scalar(body, node.data_input(1))
    return count if isinstance(count, int) and count > 0 else None


def _mask(
    linker: Linker, body: Body, condition: Reference, alternative: Reference
) -> Special | None:
    """Return the mask if ``condition`` compares with a constant; ``alternative`` is the result."""
    comparison = _maker(body, condition)
    result = linker.scalar(body, alternative)
    if comparison is None or comparison.op != b"Equal" or result is None:
        return None
    for position in (1, 0):
        operand = linker.scalar(body, comparison.data_input(position))
        if isinstance(result, int) and operand is not None:
            entry = decode(operand) if isinstance(operand, bytes) else str(operand)
            return Special(result, entry, "mask")
        if isinstance(result, bytes) and isinstance(operand, int):  # an inverse table
            return Special(operand, decode(result), "mask")
    return None
