"""Turn table contents into vocabularies: id order, ids of unknown words, Keras's tokens.

A table does not state which id an unknown word gets. The ops around the lookup show this: a default
value, a hash beside the lookup (``num_oov_buckets`` of TensorFlow, ``num_oov_indices`` of Keras), a
comparison with Keras's mask token, or a WordPiece op.

Keras 2 also describes its lookup layers in ``keras_metadata.pb``, with their names and tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from vocabtool.formats.reader import MAX_SPECIALS, Findings
from vocabtool.formats.saved_model.contents import TableContents, scalar
from vocabtool.formats.saved_model.graph import PIECE_OP, TABLE_OP, Body, Node, Reference
from vocabtool.formats.saved_model.meta_graph import COPIES, Linker, Table
from vocabtool.vocabulary import (
    Place,
    Special,
    Unknown,
    Vocabulary,
    decode,
    in_id_order,
    printable,
)

if TYPE_CHECKING:
    from vocabtool.formats.keras import LookupLayer

FINDS: Final = frozenset((b"LookupTableFind", b"LookupTableFindV2"))
WORDPIECES: Final = frozenset((b"WordpieceTokenizeWithOffsets",))
HASHES: Final = frozenset(
    (b"StringToHashBucketFast", b"StringToHashBucketStrong", b"StringToHashBucket")
)
REMAINDERS: Final = frozenset((b"FloorMod", b"Mod"))
ADDITIONS: Final = frozenset((b"Add", b"AddV2"))
SELECTIONS: Final = frozenset((b"Select", b"SelectV2"))
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


class TableDescriber:
    """Knows how a graph uses its tables; makes vocabularies from their contents."""

    def __init__(self, linker: Linker, layers: tuple[LookupLayer, ...], findings: Findings) -> None:
        self._objects = objects = linker.graph.objects
        self._layers: dict[int | None, LookupLayer] = {}
        for layer in layers:
            path = [name.encode() for name in layer.path.split(".")[1:]]
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
            return layer.name
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
        token = KERAS_UNKNOWN[vocabulary.entry_type] if layer is None else str(layer.oov_token)
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
    default = scalar(linker.origin(body, find.data_input(2)))
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
            first = scalar(linker.origin(body, maker.data_input(1 - position)))
            return first if isinstance(first, int) else None, count
    return None


def _hash_size(linker: Linker, body: Body, node: Node | None) -> int | None:
    """Return how many values a hash op or a remainder has; ``None`` for another op."""
    count: int | bytes | None = None
    if node is not None and node.op in HASHES:
        count = node.integer_of(b"num_buckets")
    elif node is not None and node.op in REMAINDERS:
        count = scalar(linker.origin(body, node.data_input(1)))
    return count if isinstance(count, int) and count > 0 else None


def _mask(
    linker: Linker, body: Body, condition: Reference, alternative: Reference
) -> Special | None:
    """Return the mask if ``condition`` compares with a constant; ``alternative`` is the result."""
    comparison = _maker(body, condition)
    result = scalar(linker.origin(body, alternative))
    if comparison is None or comparison.op != b"Equal" or result is None:
        return None
    for position in (1, 0):
        operand = scalar(linker.origin(body, comparison.data_input(position)))
        if isinstance(result, int) and operand is not None:
            entry = decode(operand) if isinstance(operand, bytes) else str(operand)
            return Special(result, entry, "mask")
        if isinstance(result, bytes) and isinstance(operand, int):  # an inverse table
            return Special(operand, decode(result), "mask")
    return None
