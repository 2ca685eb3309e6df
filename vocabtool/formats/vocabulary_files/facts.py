"""All of a vocabulary but its entries and ids, as JSON has it, and back with every type checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import (
    EntryType,
    Kind,
    Marker,
    Place,
    Special,
    Unknown,
    Vocabulary,
    numbering,
)

INT64 = range(-(1 << 63), 1 << 63)


def facts_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """The facts, in the order in which they are written."""
    ids_given = vocabulary.ids is not None and len(vocabulary) > 0
    facts = {
        "name": vocabulary.name,
        "kind": vocabulary.kind,
        "entry_type": vocabulary.entry_type,
        "size": len(vocabulary),
        "sha256": vocabulary.sha256,
        "first_id": vocabulary.first_id if not ids_given else int(vocabulary.id_array()[0]),
        "unknown": None if vocabulary.unknown is None else asdict(vocabulary.unknown),
        "specials": [special._asdict() for special in vocabulary.specials],
        "places": [place._asdict() for place in vocabulary.places],
        "notes": list(vocabulary.notes),
    }
    return facts if vocabulary.marker is None else {**facts, "marker": vocabulary.marker}


def vocabulary_of(
    facts: Mapping[str, Any], stored: ByteStrings, ids: NDArray[np.int64] | None
) -> Vocabulary:
    """Put facts, entries and ids together again.

    Raises :class:`InvalidFile` where a fact is missing, of another type, or contradicts the rest.
    """
    if _take(facts, "size", int) != len(stored) or _take(facts, "sha256", str) != stored.sha256:
        raise InvalidFile("size and sha256 are not those of the entries: the file was changed")
    first_id, uneven = _integer(_take(facts, "first_id", int)), ids
    if ids is not None:
        if len(ids) != len(stored) or bool((ids[1:] < ids[:-1]).any()):
            raise InvalidFile(f"wanted {len(stored):,} ascending ids, got {len(ids):,}")
        first_id, uneven = numbering(ids)
    _integer(first_id + max(len(stored) - 1, 0) if uneven is None else 0)
    unknown = facts.get("unknown")
    return Vocabulary(
        name=_take(facts, "name", str),
        kind=cast(Kind, _choice(facts, "kind", get_args(Kind))),
        stored=stored,
        first_id=first_id,
        ids=uneven,
        unknown=None if unknown is None else _unknown(_object(unknown)),
        specials=tuple(_special(_object(item)) for item in _take(facts, "specials", list)),
        places=tuple(_place(_object(item)) for item in _take(facts, "places", list)),
        entry_type=cast(EntryType, _choice(facts, "entry_type", get_args(EntryType))),
        notes=tuple(_string(note) for note in _take(facts, "notes", list)),
        marker=_marker(facts),
    )


def _marker(facts: Mapping[str, Any]) -> Marker | None:
    if facts.get("marker") is None:
        return None
    return cast(Marker, _choice(facts, "marker", get_args(Marker)))


def _unknown(item: Mapping[str, Any]) -> Unknown:
    count = _integer(_take(item, "count", int))
    if count < 1:
        raise InvalidFile(f"count: wanted at least 1, got {count}")
    return Unknown(_integer(_take(item, "id", int)), count)


def _special(item: Mapping[str, Any]) -> Special:
    role = _choice(item, "role", ("mask", "unknown"))
    entry = _take(item, "entry", str)
    return Special(_integer(_take(item, "id", int)), entry, "mask" if role == "mask" else "unknown")


def _place(item: Mapping[str, Any]) -> Place:
    return Place(_take(item, "file", str), _take(item, "place", str))


def _take(facts: Mapping[str, Any], key: str, kind: type) -> Any:
    value = facts.get(key)
    if type(value) is not kind:
        raise InvalidFile(f"{key}: wanted {kind.__name__}, got {type(value).__name__}")
    return value


def _choice(facts: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
    value = facts.get(key)
    if value not in choices:
        raise InvalidFile(f"{key}: wanted one of {', '.join(choices)}, got {str(value)[:40]!r}")
    return str(value)


def _object(item: object) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise InvalidFile(f"wanted an object, got {type(item).__name__}")
    return item


def _string(item: object) -> str:
    if not isinstance(item, str):
        raise InvalidFile(f"wanted a string, got {type(item).__name__}")
    return item


def _integer(value: int) -> int:
    if value not in INT64:
        raise InvalidFile(f"wanted a 64-bit integer, got {value}")
    return value
