"""What the stores of all frameworks share: changes, metadata as fields, filters as conditions.

All metadata are stored as JSON in the field ``_metadata``, so they come back exactly, and every
framework can read what another framework has written. For filters, values are stored in fields too.

A module of a framework has one function that reads a filter of the framework, one level at a time.
Here, :func:`condition` translates filters of all frameworks to conditions (see
``search/conditions.py``). In a filter, a missing field equals ``None`` and no other value. A
missing field satisfies ``!=`` and ``not in``, but no other operator.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import reprlib
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import wraps
from itertools import groupby
from threading import Lock
from typing import Any, Final, Literal, NoReturn, TypeVar

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Document, Kind
from vocabtool.errors import InvalidCondition, VocabtoolError
from vocabtool.index.documents import ID, MAX_NAME_BYTES, TEXT
from vocabtool.index.index import Index
from vocabtool.search.conditions import LEAST, MAX_DEPTH, MOST
from vocabtool.search.hits import Hit, Hits

EXPLAINED: Final = "_vocabtool"  # in metadata: what a search knows of a document; never stored
EXACT: Final = "_metadata"  # the field with metadata as JSON
# The fields with what else LlamaIndex keeps; they are no metadata.
NODE: Final = "_node"
REF: Final = "_ref_doc_id"
# An index has an id and a text of its own, so metadata of these names have other fields.
PREFIX: Final = "metadata."
TAKEN: Final = re.compile(rf"(?:metadata\.)*(?:{'|'.join((ID, TEXT, EXACT, NODE, REF))})")
# By the name of the index: threads of this process wait for each other.
WRITING: Final[defaultdict[str, Lock]] = defaultdict(Lock)

Result = TypeVar("Result")


# Changes.


def add(
    index: Index,
    documents: Sequence[Document],
    vectors: Sequence[Any],
    on_existing: OnExisting = "update",
) -> int:
    """Add documents in one commit; return how many were added.

    - ``documents``: documents with fields that :func:`fields_of` returned, and other fields.
    - ``vectors``: the vector of each document. If it is ``None``, the model of the index makes it.
    - ``on_existing``: what to do with a document whose id is in the index.

    Raises the errors of :meth:`vocabtool.Writer.add`.
    """
    added = 0
    with WRITING[index.name], index.writer() as writer:
        # The writer encodes texts itself, because it checks that the model is still the same.
        for _, places in groupby(range(len(documents)), lambda place: vectors[place] is None):
            first, *others = places
            batch = slice(first, first + 1 + len(others))
            given = None if vectors[first] is None else vectors[batch]
            # A value of another kind than its field is in the exact metadata.
            added += writer.add(documents[batch], given, on_existing=on_existing, on_error="skip")
    return added


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


# Metadata.


def field_of(name: str) -> str:
    """Return the name of the field for the metadata key ``name``."""
    return PREFIX + name if TAKEN.fullmatch(name) else name


def fields_of(metadata: Mapping[str, Any], id_: str) -> dict[str, Any]:
    """Return the metadata of a document as fields: all of them as JSON, and values for filters.

    Strings, numbers, booleans and lists of such values become fields if their keys are allowed.
    The keys of nested dictionaries become fields such as ``author.name``.

    Raises :class:`VocabtoolError` if JSON would change the metadata. ``id_``: for the message.
    """
    metadata = {name: value for name, value in metadata.items() if name != EXPLAINED}
    if not metadata:
        return {}
    try:
        text = json.dumps(metadata, ensure_ascii=False)
        text.encode()
        if json.loads(text) != metadata:
            raise ValueError(f"got {reprlib.repr(metadata)}")
    except (TypeError, ValueError, RecursionError) as error:
        raise VocabtoolError(
            f"document {id_!r}: its metadata cannot be stored exactly as JSON: wanted strings as "
            "keys, and strings, numbers, booleans, None, lists and dictionaries; write dates as "
            f"texts, with isoformat(): {error}"
        ) from error
    return {**dict(_columns(metadata)), EXACT: text}


def metadata_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata from which :func:`fields_of` made these fields.

    If the fields were not made by :func:`fields_of`, return them unchanged.
    """
    with suppress(ValueError, TypeError, RecursionError):  # else the field is not ours
        if isinstance(exact := json.loads(fields.get(EXACT, "")), dict):
            return exact
    return {name: value for name, value in fields.items() if name not in (NODE, REF)}


def why_found(hits: Hits, hit: Hit) -> dict[str, Any]:
    """Return the metadata of a hit, with a dictionary that says why the document was found.

    The dictionary is under the key ``_vocabtool``. Its keys:

    - ``score``, ``tier``, ``similarity``, ``bm25`` and other attributes of :class:`Hit`.
    - ``unknown_words``: the words of the query that the model does not know.
    - ``notes`` of :class:`Hits`.
    - ``explanation``, if the search had ``explain=True``.
    """
    facts = hit.to_dict()
    for name in ("id", "text", "fields"):
        del facts[name]
    unknown = [word.surface for word in hits.query.words if word.known is False]
    facts |= {"unknown_words": unknown, "notes": [*hits.notes]}
    return {**metadata_of(hit.fields), EXPLAINED: facts}


def _columns(metadata: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in metadata.items():
        name = f"{before}{key}"
        if not name or len((PREFIX + name).encode()) > MAX_NAME_BYTES or not name.isprintable():
            continue
        if isinstance(value, Mapping):
            yield from _columns(value, f"{name}.")
        elif all(map(_fits, value if isinstance(value, list) else [value])):
            yield field_of(name), value


def _fits(value: object) -> bool:
    """Return whether a field can store a value, alone or in a list, exactly."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str) or (isinstance(value, int) and LEAST <= value <= MOST)


# Filters.

NEVER: Final = "id is null"  # every document has an id
ALWAYS: Final = "id is not null"
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "not in", "like", "ilike", "contains"]
NEGATED: Final[dict[Operator, Operator]] = {"!=": "=", "not in": "in"}


@dataclass(frozen=True)
class Comparison:
    """A filter that compares a field with a value.

    ``value``: for ``in`` and ``not in`` a list, else a string, number, boolean or date. With
    ``=``, ``!=`` and in lists, ``None`` stands for a missing field.
    """

    field: str
    operator: Operator
    value: Any


@dataclass(frozen=True)
class Junction:
    """Filters that are joined by a word; ``not`` means that not all of them are true."""

    word: Literal["and", "or", "not"]
    filters: Sequence[Any]


def condition(
    given: Any,
    read: Callable[[Any], Comparison | Junction],
    fields: Mapping[str, Kind] | None = None,
    depth: int = 0,
) -> str:
    """Return a filter as a condition, which is true or false for every document.

    - ``given``: a filter of a framework, or a comparison or junction that was made from one.
    - ``read``: reads a filter of the framework; those in a junction are read later.
    - ``fields``: the fields of the index; any other field is missing in every document. By default,
      the search refuses other fields.
    - ``depth``: how deep the filter is nested.

    Raises :class:`InvalidCondition` for a filter that no condition can express.
    """
    if depth > MAX_DEPTH:
        refuse(f"more than {MAX_DEPTH} nested filters", given)
    found = given if isinstance(given, Comparison | Junction) else read(given)
    if isinstance(found, Comparison):
        return _compare(found, fields)
    tests = [condition(part, read, fields, depth + 1) for part in found.filters]
    word, empty = ("or", NEVER) if found.word == "or" else ("and", ALWAYS)
    joined = f"({f' {word} '.join(tests)})" if len(tests) > 1 else "".join(tests) or empty
    return f"not {joined}" if found.word == "not" else joined


def _compare(given: Comparison, fields: Mapping[str, Kind] | None) -> str:
    if given.operator in NEGATED:
        return f"not {_compare(replace(given, operator=NEGATED[given.operator]), fields)}"
    if not given.field:
        refuse("the name of a field must not be empty", given.field)
    name = '"' + given.field.replace('"', '""') + '"'
    operator, value = given.operator, given.value
    if operator == "=":
        operator, value = "in", [value]
    if operator == "in":
        if not isinstance(value, list | tuple | set | frozenset):
            refuse(f"{operator!r} of the field {given.field!r} needs a list of values", value)
        dates = [quote_value(each) for each in value if isinstance(each, date)]
        others = [quote_value(each) for each in value if not isinstance(each, date | None)]
        tests = [f"{name} in ({', '.join(others)})"] if others else []
        if dates:  # the test of a text that is no date is unknown; after the pattern it is false
            tests.append(f"({name} like '____-__-__%' and {name} in ({', '.join(dates)}))")
        test = f"({' or '.join(tests)})" if len(tests) > 1 else "".join(tests) or NEVER
        holds_of_missing = len(dates) + len(others) < len(value)
    else:
        test, holds_of_missing = f"{name} {operator} {quote_value(value)}", False
    if given.field in (ID, TEXT):  # no document is without them
        return test
    if fields is not None and fields.get(given.field, "null") == "null":
        return ALWAYS if holds_of_missing else NEVER
    return f"({name} is null or {test})" if holds_of_missing else f"({name} is not null and {test})"


def quote_value(value: object) -> str:
    """Return a value in the syntax of conditions, or raise :class:`InvalidCondition`."""
    match value:
        case str():
            text = "'" + value.replace("'", "''") + "'"
        case bool() | int() | float():  # the parser of conditions refuses NaN and infinity
            text = str(value).lower()
        case datetime():
            text = value.isoformat(timespec="microseconds")  # otherwise, it is a whole second
        case date():
            text = value.isoformat()
        case _:
            refuse("a value must be a string, a boolean, a date or a number", value)
    return text


def check_operator(operator: object, allowed: Collection[str], given: object) -> None:
    """Raise :class:`InvalidCondition` if the operator of the filter ``given`` is not allowed."""
    if not isinstance(operator, str) or operator not in allowed:
        refuse(f"the operator must be one of {', '.join(allowed)}, got {operator!r}", given)


def refuse(what: str, given: object) -> NoReturn:
    """Raise :class:`InvalidCondition` with a message. ``given``: the wrong part of a filter."""
    raise InvalidCondition(f"filter: {what}", reprlib.repr(given), 0)
