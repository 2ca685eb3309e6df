"""What the stores of all frameworks share: metadata as fields, filters as conditions, changes.

All values of a field must have one type. Metadata that do not fit are also stored as JSON in the
field ``_metadata``. Every framework can read the metadata that another framework has written.

Conditions are strings (see ``search/conditions.py``), in which field names and strings are quoted.
A comparison with a missing field is unknown, as in SQL: neither the comparison nor its negation is
true.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import reprlib
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from functools import wraps
from itertools import repeat
from threading import Lock
from typing import Any, Final, Literal, NoReturn, TypeVar

from vocabtool.documents.batch import Document, Kind
from vocabtool.errors import InvalidCondition, VocabtoolError
from vocabtool.index.documents import ID, MAX_NAME_BYTES, TEXT
from vocabtool.index.index import Index
from vocabtool.index.writer import Writer
from vocabtool.search.conditions import LEAST, MAX_DEPTH, MOST
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
# By the name of the index: threads of this process wait for each other.
WRITING: Final[defaultdict[str, Lock]] = defaultdict(Lock)

Result = TypeVar("Result")
Store = TypeVar("Store")


# Changes.


@contextmanager
def writer_of(index: Index) -> Iterator[Writer]:
    """Open the writer of an index when no other thread of this process changes the index."""
    with WRITING[index.name], index.writer() as writer:
        yield writer


def add(
    index: Index,
    documents: Sequence[Document],
    vectors: Sequence[Any] | None,
    records: Iterable[Mapping[str, Any]] | None = None,
) -> None:
    """Add documents in one commit, each in place of the document with the same id.

    - ``documents``: documents whose fields are metadata.
    - ``vectors``: the vectors of the documents; if empty, the model of the index makes them.
    - ``records``: further fields of each document, which are no metadata.
    """
    with writer_of(index) as writer:
        fields = fields_of([document.fields for document in documents], writer.manifest.fields)
        rows = [
            replace(document, fields={**own, **record})
            for document, own, record in zip(documents, fields, records or repeat({}), strict=False)
        ]
        # A value of another kind than its field is in the exact metadata.
        writer.add(rows, vectors or None, on_existing="update", on_error="skip")


def delete(index: Index, ids: Iterable[str] | None = None, where: str | None = None) -> int:
    """Delete documents in one commit; return how many were deleted.

    Without ``ids``, delete those that satisfy ``where``; without both, all documents.
    """
    with WRITING[index.name]:
        if ids is not None:
            return index.delete(ids)
        return index.delete(where=where or ALWAYS, force=True)


# What an asynchronous form of a method shares with it. Not ``__type_params__``: when the site is
# built, Sphinx stands in for frameworks that are not installed, without a tuple there.
NAMED: Final = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


def in_thread(method: Callable[..., Result]) -> Callable[..., Coroutine[Any, Any, Result]]:
    """Return an asynchronous method that calls ``method`` in another thread."""

    @wraps(method, NAMED)
    async def run(*args: Any, **kwargs: Any) -> Result:
        return await asyncio.to_thread(method, *args, **kwargs)

    return run


def with_async_methods(kind: type[Store]) -> type[Store]:
    """Give a class an asynchronous form of each public method ``NAME``, called ``NAME_async``."""
    for name, method in [*vars(kind).items()]:
        if callable(method) and not name.startswith("_"):
            setattr(kind, f"{name}_async", in_thread(method))
    return kind


# Metadata.


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
    columns = [dict(_columns(metadata, nested)) for metadata in metadatas]
    kinds: dict[str, set[Kind | None]] = {
        name: {"number" if kind == "integer" else kind}
        for name, kind in known.items()
        if kind != "null"
    }
    for column in columns:
        for name, value in column.items():
            kinds.setdefault(name, set()).add(_kind(value))
    whole = {name for name, seen in kinds.items() if len(seen) == 1 and None not in seen}

    def fits(value: object) -> bool:
        if nested:
            return not isinstance(value, float) or math.isfinite(value)
        return all(map(_kind, value if isinstance(value, list) else [value]))

    documents = []
    for metadata, column in zip(metadatas, columns, strict=True):
        fields = {name: value for name, value in column.items() if fits(value)}
        if any(
            _kind(value) is None or field_of(str(name)) not in whole
            for name, value in metadata.items()
        ):
            fields[EXACT] = json.dumps(metadata, ensure_ascii=False)
        documents.append(fields)
    return documents


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
    facts = hit.to_dict()
    for name in ("id", "text", "fields"):
        del facts[name]
    unknown = [word.surface for word in hits.query.words if word.known is False]
    return {**facts, "unknown_words": unknown, "notes": [*hits.notes]}


def _columns(
    metadata: Mapping[str, Any], nested: bool, before: str = ""
) -> Iterator[tuple[str, Any]]:
    for key, value in metadata.items():
        name = f"{before}{key}"
        if nested and isinstance(value, Mapping):
            yield from _columns(value, nested, f"{name}.")
        elif name and len((PREFIX + name).encode()) <= MAX_NAME_BYTES and name.isprintable():
            yield field_of(name), value


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
            return "number" if math.isfinite(value) else None
    return None


# Filters.

NEVER: Final = "id is null"  # every document has an id
ALWAYS: Final = "id is not null"
OfOne = Literal["=", "!=", "<", "<=", ">", ">=", "like", "ilike", "contains"]
Operator = OfOne | Literal["in", "not in", "between", "is null", "is not null"]


def comparison(field: str, operator: Operator, value: object = None) -> str:
    """Return a condition that compares a field with a value.

    The operator determines what ``value`` must be:

    - ``in``, ``not in``: a list of values.
    - ``between``: a list with the least and the greatest value.
    - ``is null``, ``is not null``: ignored.
    - all other operators: a string, number, boolean or date.

    With ``=``, ``!=``, ``in`` and ``not in``, the value ``None`` stands for a missing field.

    Raises :class:`InvalidCondition` if a condition cannot have this value.
    """
    name = quote_field(field)
    if operator in ("is null", "is not null"):
        return f"{name} {operator}"
    if value is None and operator in ("=", "!="):
        return f"{name} is null" if operator == "=" else f"{name} is not null"
    if operator not in ("in", "not in", "between"):
        return f"{name} {operator} {quote_value(value)}"
    if not isinstance(value, list | tuple | set | frozenset):
        refuse(f"{operator!r} of the field {field!r} needs a list of values", value)
    if operator == "between":
        if len(value) != 2:
            refuse(f"'between' of the field {field!r} needs two values", value)
        return f"{name} between {' and '.join(map(quote_value, value))}"
    if not value:
        return ALWAYS if operator == "not in" else NEVER
    listed = [quote_value(item) for item in value if item is not None]
    parts = [f"{name} {operator} ({', '.join(listed)})"] if listed else []
    if len(listed) < len(value):
        parts.append(f"{name} is null" if operator == "in" else f"{name} is not null")
    return join("or" if operator == "in" else "and", parts)


def quote_value(value: object) -> str:
    """Return a value in the syntax of conditions, or raise :class:`InvalidCondition`."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", None) == 0:  # a number of NumPy
        value = item()
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = "'" + value.replace("'", "''") + "'"
        case int() if value.bit_length() < 64:
            text = str(int(value))
        case float() if math.isfinite(value):
            text = repr(float(value))
        case date():  # or a datetime
            text = value.isoformat()
        case _:
            wanted = "a string, a boolean, a date, a finite number or an integer of 64 bits"
            refuse(f"a value must be {wanted}", value)
    return text


def quote_field(name: object) -> str:
    """Return the name of a field in the syntax of conditions."""
    if not isinstance(name, str) or not name:
        refuse("the name of a field must be a string that is not empty", name)
    return '"' + name.replace('"', '""') + '"'


def join(word: Literal["and", "or"], parts: Sequence[str]) -> str:
    """Join conditions. Raises :class:`InvalidCondition` if there are no conditions."""
    if not parts:
        refuse(f"{word!r} needs at least one condition", list(parts))
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"


def check_operator(operator: object, allowed: Collection[str], given: object) -> None:
    """Raise :class:`InvalidCondition` if the operator of the filter ``given`` is not allowed."""
    if operator not in allowed:
        refuse(f"the operator must be one of {', '.join(allowed)}, got {operator!r}", given)


def check_depth(depth: int, given: object) -> None:
    """Raise :class:`InvalidCondition` if the filter ``given`` is nested too deeply."""
    if depth > MAX_DEPTH:
        refuse(f"more than {MAX_DEPTH} nested filters", given)


def refuse_where(given: Iterable[str], instead: str) -> None:
    """Raise ``TypeError`` if ``where`` is among the arguments. ``instead``: what to pass."""
    if "where" in given:
        raise TypeError(f"where: pass the condition as {instead}")


def refuse(what: str, given: object) -> NoReturn:
    """Raise :class:`InvalidCondition` with a message. ``given``: the wrong part of a filter."""
    raise InvalidCondition(f"filter: {what}", reprlib.repr(given), 0)
