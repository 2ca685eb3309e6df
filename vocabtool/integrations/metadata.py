"""Store the metadata of frameworks as fields of documents, and read the same metadata again.

All values of a field must have one type. Metadata that do not fit are also stored as JSON in the
field ``_metadata``. Every framework can read the metadata that another framework has written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, Final

from vocabtool.documents.batch import Kind
from vocabtool.errors import VocabtoolError
from vocabtool.index.documents import ID, MAX_NAME_BYTES, TEXT
from vocabtool.search.conditions import LEAST, MOST
from vocabtool.search.hits import Hit, Hits

EXPLAINED: Final = "_vocabtool"  # in metadata: what the search knows of a document
EXACT: Final = "_metadata"  # the field with metadata as JSON
# The fields with what else a framework keeps; they are no metadata.
HAYSTACK: Final = "_haystack"
NODE: Final = "_node"
REF: Final = "_ref_doc_id"
RECORDS: Final = frozenset({HAYSTACK, NODE, REF})
# An index has an id and a text of its own, so metadata of these names have other fields.
PREFIX: Final = "metadata."
TAKEN: Final = re.compile(rf"(?:metadata\.)*(?:{'|'.join((ID, TEXT, EXACT, *sorted(RECORDS)))})")
WANTED: Final = (
    "wanted strings as keys, and strings, numbers, booleans, None, lists and dictionaries; write "
    "dates as texts, with isoformat()"
)


def field_of(name: str) -> str:
    """Return the name of the field for the metadata key ``name``."""
    return PREFIX + name if TAKEN.fullmatch(name) else name


def name_of(field: str) -> str:
    """Return the metadata key that is stored in the field ``field``."""
    return field.removeprefix(PREFIX) if TAKEN.fullmatch(field) else field


def as_json(metadata: Mapping[str, Any], id_: str) -> str:
    """Return metadata as JSON. Raises :class:`VocabtoolError` if JSON cannot represent them."""
    try:
        text = json.dumps(metadata, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        what = f"document {id_!r}: its metadata cannot be written as JSON"
        raise VocabtoolError(f"{what}: {error}; {WANTED}") from error
    return text


def fields_of(
    metadatas: Sequence[Mapping[str, Any]], known: Mapping[str, Kind], *, nested: bool = False
) -> list[dict[str, Any]]:
    """Convert the metadata of each document to fields.

    Strings, numbers, booleans and lists of such values become fields if their keys are allowed.

    - ``known``: the fields of the index, with their kinds.
    - ``nested``: whether keys of nested dictionaries become fields such as ``author.name``. If so,
      all values except NaN and infinity become fields.
    """
    columns = [dict(_columns(each, nested)) for each in metadatas]
    kinds: dict[str, set[Kind | None]] = {
        name: {"number" if kind == "integer" else kind}
        for name, kind in known.items()
        if kind != "null"
    }
    for column in columns:
        for name, value in column.items():
            kinds.setdefault(name, set()).add(_kind(value))
    whole = {name for name, found in kinds.items() if len(found) == 1 and None not in found}
    found = []
    for metadata, column in zip(metadatas, columns, strict=True):
        fields = {name: value for name, value in column.items() if _is_kept(value, nested)}
        if any(
            _kind(value) is None or field_of(str(name)) not in whole
            for name, value in metadata.items()
        ):
            fields[EXACT] = json.dumps(metadata, ensure_ascii=False)
        found.append(fields)
    return found


def metadata_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata from which :func:`fields_of` made these fields.

    If the fields were not made by :func:`fields_of`, return them unchanged.
    """
    with suppress(ValueError, TypeError, RecursionError):  # else the field is not ours
        if isinstance(exact := json.loads(fields.get(EXACT, "")), dict):
            return exact
    return {name_of(name): value for name, value in fields.items() if name not in RECORDS}


def explanation(hits: Hits, hit: Hit) -> dict[str, Any]:
    """Return a dictionary that says why a document was found.

    Its keys:

    - ``score``, ``tier``, ``similarity``, ``bm25`` and other attributes of :class:`Hit`.
    - ``unknown_words``: the words of the query that the model does not know.
    - ``notes`` of :class:`Hits`.
    - ``explanation``, if the search had ``explain=True``.
    """
    told = hit.to_dict()
    for name in ("id", "text", "fields"):
        del told[name]
    unknown = [each.surface for each in hits.query.words if each.known is False]
    found = {"unknown_words": unknown, "notes": [*hits.notes]}
    return {**told, **found}


def _columns(
    metadata: Mapping[str, Any], nested: bool, before: str = ""
) -> Iterator[tuple[str, Any]]:
    for key, value in metadata.items():
        name = f"{before}{key}"
        if nested and isinstance(value, Mapping):
            yield from _columns(value, nested, f"{name}.")
        elif name and len((PREFIX + name).encode()) <= MAX_NAME_BYTES and name.isprintable():
            yield field_of(name), value


def _is_kept(value: object, nested: bool) -> bool:
    if nested:
        return not isinstance(value, float) or isfinite(value)
    return all(map(_kind, value)) if isinstance(value, list) else _kind(value) is not None


def _kind(value: object) -> Kind | None:
    """Return the kind of a value, or ``None`` if a field cannot store the value exactly."""
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "number" if LEAST <= value <= MOST else None
        case float():
            return "number" if isfinite(value) else None
    return None
