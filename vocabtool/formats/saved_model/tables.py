"""From the content of a lookup table to a vocabulary: id order, name, unknown words, Keras' extras.

Content comes from ``fills.py`` or ``saved_tables.py``; what lookups say comes from ``lookups.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model.fills import Content
from vocabtool.formats.saved_model.linking import Linker, Table
from vocabtool.formats.saved_model.lookups import Wordpiece, read_lookups, read_wordpieces
from vocabtool.formats.saved_model.object_graph import ObjectGraph
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
    from vocabtool.formats.keras_layers import LookupLayer

# Names that TensorFlow makes up; they say nothing to a person.
DULL: Final = re.compile(r"(Const|keys|values|hash_table|MutableHashTable|table)(_\d+)?")
MAX_SPECIALS: Final = 1_000
KERAS_UNKNOWN: Final = {"text": "[UNK]", "integer": "-1"}


class TableDescriber:
    """Makes vocabularies of the tables of one MetaGraphDef."""

    def __init__(
        self, linker: Linker, layers: tuple[LookupLayer, ...], warnings: list[str]
    ) -> None:
        self._objects = linker.graph.objects
        self._layers = dict(_layers_by_table(linker.graph.objects, layers))
        self._lookups = read_lookups(linker, warnings)
        self._wordpieces = read_wordpieces(linker)
        self._object_ids = _object_ids(linker)

    def vocabulary(self, table: Table, content: Content) -> Vocabulary:
        """The entries in id order with all that the model says of them.

        Raises :class:`InvalidFile` when there are more or fewer ids than entries.
        """
        if content.ids is not None and len(content.ids) != len(content.entries):
            raise InvalidFile(f"{len(content.entries):,} entries but {len(content.ids):,} ids")
        entries, first_id, ids = in_id_order(content.entries, content.ids)
        place = f"{content.place.place}, fills {self.label(table)}"
        wordpiece = self._wordpieces.get(table.key)
        plain = Vocabulary(
            name=self._name(table, content),
            kind="table",
            stored=entries,
            first_id=first_id,
            ids=ids,
            places=(Place(content.place.file, place),),
            entry_type=content.entry_type,
            notes=content.notes + _piece_notes(wordpiece),
        )
        unknown = self._unknown(table, plain)
        return replace(plain, unknown=unknown, specials=self._specials(table, plain, unknown))

    def label(self, table: Table) -> str:
        """What to call a table: its path in the object graph, else its node."""
        return self._path(table) or printable(table.node.name)

    def _object_id(self, table: Table) -> int | None:
        return self._object_ids.get(table.key) if table.object_id is None else table.object_id

    def _path(self, table: Table) -> str:
        object_id = self._object_id(table)
        return printable(self._objects.paths.get(object_id, b"")) if object_id is not None else ""

    def _is_keras(self, table: Table) -> bool:
        return self._object_id(table) in self._objects.keras_tables

    def _layer(self, table: Table) -> LookupLayer | None:
        object_id = self._object_id(table)
        return self._layers.get(object_id) if object_id is not None else None

    def _name(self, table: Table, content: Content) -> str:
        path = self._path(table)
        layer = self._layer(table)
        if layer is not None:
            return layer.name
        lookup = self._lookups.get(table.key)
        if lookup is not None and self._is_keras(table):
            return _layer_name(printable(lookup.scope))
        if path:
            return path
        if DULL.fullmatch(content.name.rpartition("/")[2]):
            return _scope_name(printable(table.node.name))
        return content.name

    def _unknown(self, table: Table, vocabulary: Vocabulary) -> Unknown | None:
        wordpiece = self._wordpieces.get(table.key)
        if wordpiece is not None and wordpiece.unknown is not None:
            at = np.flatnonzero(vocabulary.stored.equal_to(wordpiece.unknown))
            if len(at):
                return Unknown(int(vocabulary.id_array()[at[0]]))
        lookup = self._lookups.get(table.key)
        if lookup is None:
            return None
        if lookup.buckets is not None:
            first = lookup.buckets.first
            return Unknown(_size(vocabulary) if first is None else first, lookup.buckets.size)
        return Unknown(lookup.default) if isinstance(lookup.default, int) else None

    def _specials(
        self, table: Table, vocabulary: Vocabulary, unknown: Unknown | None
    ) -> tuple[Special, ...]:
        """What Keras adds: the ids below the first stored one that its layer gives out."""
        lookup = self._lookups.get(table.key)
        if lookup is None or not self._is_keras(table):
            return ()
        mask = lookup.mask
        specials = []
        if mask is not None and mask.id < vocabulary.first_id:  # of no use, its id is 2**63 - 1
            specials.append(Special(mask.id, decode(mask.entry), "mask"))
        layer = self._layer(table)
        token = KERAS_UNKNOWN[vocabulary.entry_type] if layer is None else str(layer.oov_token)
        if isinstance(lookup.default, bytes):  # an inverse table: it answers with the token
            token = decode(lookup.default)
            first = 0 if mask is None else mask.id + 1
            unknown = Unknown(first, vocabulary.first_id - first)
        specials += _unknown_specials(unknown, token, vocabulary.first_id)
        return tuple(sorted(specials, key=lambda special: special.id))


def _size(vocabulary: Vocabulary) -> int:
    """What ``LookupTableSize`` answers: a table takes an entry twice only with the same id."""
    return len(vocabulary) if vocabulary.ids is None else vocabulary.stored.distinct


def _layers_by_table(
    objects: ObjectGraph, layers: tuple[LookupLayer, ...]
) -> Iterator[tuple[int, LookupLayer]]:
    """The layer of each table's object: the layer's own, or that of the lookup inside it."""
    for layer in layers:
        path = [name.encode() for name in layer.path.split(".")[1:]]
        for way in ([b"lookup_table"], [b"_lookup_layer", b"lookup_table"]):
            object_id = objects.walk(path + way)
            if object_id is not None:
                yield object_id, layer


def _unknown_specials(unknown: Unknown | None, token: str, first_id: int) -> Iterator[Special]:
    if unknown is not None and unknown.id >= 0:
        end = min(unknown.id + min(unknown.count, MAX_SPECIALS), first_id)
        for special in range(unknown.id, end):
            yield Special(special, token, "unknown")


def _object_ids(linker: Linker) -> dict[bytes, int]:
    """The saved object of each table, by table key."""
    found: dict[bytes, int] = {}
    objects = linker.graph.objects
    for object_id in range(len(objects.objects)):
        if objects.kind(object_id) == "resource":
            table = linker.table_of_object(object_id)
            if table is not None:
                found.setdefault(table.key, object_id)
    return found


def _piece_notes(wordpiece: Wordpiece | None) -> tuple[str, ...]:
    if wordpiece is None:
        return ()
    return (f"WordPiece: {printable(wordpiece.suffix_indicator)} marks a continuation",)


def _scope_name(node: str) -> str:
    """The innermost scope of a node with a name of its own."""
    scope, _, last = node.rpartition("/")
    while scope and DULL.fullmatch(last):
        node = scope
        scope, _, last = node.rpartition("/")
    return node


def _layer_name(scope: str) -> str:
    """The layer among ``model/layer/.../hash_table_Lookup/LookupTableFindV2``."""
    parts = scope.split("/")[:-2] or [scope]
    return parts[1] if len(parts) > 1 else parts[0]
