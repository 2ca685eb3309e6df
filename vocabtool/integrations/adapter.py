"""What the stores of all frameworks share: changes, metadata as fields, filters as conditions.

Metadata come back exactly, and every framework can read what another framework has written. The
module of a framework reads the framework's filters, and writes them as conditions (see
``search/conditions.py``) with :func:`compare` and :func:`join`. In a filter, a missing field equals
``None`` and no other value. A missing field satisfies ``!=`` and ``not in``, but no other operator.
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
from datetime import date, datetime
from functools import wraps
from itertools import groupby
from threading import Lock
from typing import Any, Final, Literal, TypeVar

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Document, Kind
from vocabtool.documents.options import ID, TEXT
from vocabtool.errors import InvalidCondition, VocabtoolError
from vocabtool.index.documents import MAX_NAME_BYTES
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


def add(
    index: Index,
    documents: Sequence[Document],
    vectors: Sequence[Any],
    on_existing: OnExisting = "update",
) -> int:
    """Add documents of :func:`document_of` in one commit; return how many were added.

    ``vectors``: the vector of each document. If it is ``None``, the model of the index makes it.
    Raises the errors of :meth:`vocabtool.Writer.add`.
    """
    added = 0
    rows = zip(documents, vectors, strict=True)
    with WRITING[index.name], index.writer() as writer:
        # The writer encodes texts itself, because it checks that the model is still the same.
        for without_vector, batch in groupby(rows, lambda row: row[1] is None):
            batch_documents, batch_vectors = zip(*batch, strict=True)
            own = None if without_vector else batch_vectors
            # A value of another kind than its field is left out: the exact metadata have it.
            added += writer.add(batch_documents, own, on_existing=on_existing, on_error="skip")
    return added


def delete(index: Index, ids: Iterable[str] | None = None, where: str | None = None) -> int:
    """Delete the documents with these ids, or that satisfy ``where``, in one commit.

    Returns how many were deleted. Raises the errors of :meth:`vocabtool.Index.delete`.
    """
    with WRITING[index.name]:
        return index.delete(ids, where=where, force=True)


def in_thread(method: Callable[..., Result]) -> Callable[..., Coroutine[Any, Any, Result]]:
    """Return an asynchronous method that calls ``method`` in another thread."""

    @wraps(method)
    async def run(*args: Any, **kwargs: Any) -> Result:
        return await asyncio.to_thread(method, *args, **kwargs)

    return run


def field_of(name: str) -> str:
    """Return the name of the field that has the metadata of this name."""
    return PREFIX + name if TAKEN.fullmatch(name) else name


def document_of(
    id_: str, text: str, metadata: Mapping[str, Any], others: Mapping[str, Any] | None = None
) -> Document:
    """Return a document with its metadata in fields: all of them as JSON, and values for filters.

    Strings, numbers, booleans and lists of such values become fields if their keys are allowed.
    The keys of nested dictionaries become fields such as ``author.name``. Filters do not find a
    value if earlier values of its key have another type.

    ``others``: other fields. Raises :class:`VocabtoolError` if JSON would change the metadata.
    """
    metadata = {name: value for name, value in metadata.items() if name != EXPLAINED}
    try:
        exact = json.dumps(metadata, ensure_ascii=False)
        exact.encode()
        if json.loads(exact) != metadata:
            raise ValueError(f"got {reprlib.repr(metadata)}")
    except (TypeError, ValueError, RecursionError) as error:
        raise VocabtoolError(
            f"document {id_!r}: its metadata cannot be stored exactly as JSON: wanted strings as "
            "keys, and strings, numbers, booleans, None, lists and dictionaries; write dates as "
            f"texts, with isoformat(): {error}"
        ) from error
    return Document(id_, text, {**dict(_filter_fields(metadata)), EXACT: exact, **(others or {})})


def metadata_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata in fields of :func:`document_of`, and all fields of other documents."""
    with suppress(ValueError, TypeError, RecursionError):  # else the field is not ours
        exact = json.loads(fields.get(EXACT, ""))
        if isinstance(exact, dict):
            return exact
    return {name: value for name, value in fields.items() if name not in (NODE, REF)}


def why_found(hits: Hits, hit: Hit) -> dict[str, Any]:
    """Return the metadata of a hit, and under the key ``_vocabtool`` why the document was found.

    That is a dictionary with ``score``, ``explanation`` and the other attributes of :class:`Hit`,
    ``notes`` of :class:`Hits`, and ``unknown_words``: those that the model does not know.
    """
    facts = hit.to_json()
    for name in ("id", "text", "fields"):
        del facts[name]
    facts["unknown_words"] = [word.surface for word in hits.query.words if word.known is False]
    facts["notes"] = [*hits.notes]
    return {**metadata_of(hit.fields), EXPLAINED: facts}


def _filter_fields(metadata: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields for filters. ``prefix``: the start of names in a nested dictionary."""
    for key, value in metadata.items():
        name = f"{prefix}{key}"
        if not name or len((PREFIX + name).encode()) > MAX_NAME_BYTES or not name.isprintable():
            continue
        if isinstance(value, Mapping):
            yield from _filter_fields(value, f"{name}.")
            continue
        items = value if isinstance(value, list) else [value]
        if all(
            isinstance(item, str)
            or (isinstance(item, float) and math.isfinite(item))
            or (isinstance(item, int) and LEAST <= item <= MOST)
            for item in items
        ):
            yield field_of(name), value


NEVER: Final = "id is null"  # every document has an id
ALWAYS: Final = "id is not null"
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "not in", "like", "ilike", "contains"]


def join(word: Literal["and", "or", "not"], tests: Sequence[str]) -> str:
    """Join conditions. ``not`` means that not all of them hold.

    Without any condition, ``and`` holds for every document, and ``or`` for none.
    """
    if word == "not":
        return f"not {join('and', tests)}"
    if not tests:
        return ALWAYS if word == "and" else NEVER
    return tests[0] if len(tests) == 1 else f"({f' {word} '.join(tests)})"


def compare(
    field: str, operator: Operator, value: Any, fields: Mapping[str, Kind] | None = None
) -> str:
    """Return a condition that compares a field; it is true or false for every document.

    - ``value``: for ``in`` and ``not in`` a list, else a string, number, boolean or date. With
      ``=``, ``!=`` and in lists, ``None`` stands for a missing field.
    - ``fields``: the fields of the index; any other field is missing in every document. By default,
      the search refuses other fields.

    Raises :class:`InvalidCondition` for a comparison that no condition can express.
    """
    if operator in ("!=", "not in"):
        return f"not {compare(field, '=' if operator == '!=' else 'in', value, fields)}"
    if not field:
        raise invalid("the name of a field must not be empty", field)
    name = '"' + field.replace('"', '""') + '"'
    holds_of_missing = False
    if operator in ("=", "in"):
        values = [value] if operator == "=" else value
        if not isinstance(values, list | tuple | set | frozenset):
            raise invalid(f"{operator!r} of the field {field!r} needs a list of values", value)
        holds_of_missing = None in values
        dates = [quote_value(item) for item in values if isinstance(item, date)]
        others = [quote_value(item) for item in values if not isinstance(item, date | None)]
        tests = [f"{name} in ({', '.join(others)})"] if others else []
        if dates:  # the test of a text that is no date is unknown; after the pattern it is false
            tests.append(f"({name} like '____-__-__%' and {name} in ({', '.join(dates)}))")
        test = join("or", tests)
    else:
        test = f"{name} {operator} {quote_value(value)}"
    if field in (ID, TEXT):  # no document is without them
        return test
    if fields is not None and fields.get(field, "null") == "null":
        return ALWAYS if holds_of_missing else NEVER
    return f"({name} is null or {test})" if holds_of_missing else f"({name} is not null and {test})"


def quote_value(value: object) -> str:
    """Return a value in the syntax of conditions, or raise :class:`InvalidCondition`."""
    match value:
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bool() | int() | float():  # the parser of conditions refuses NaN and infinity
            return str(value).lower()
        case datetime():
            return value.isoformat(timespec="microseconds")  # otherwise, it is a whole second
        case date():
            return value.isoformat()
    raise invalid("a value must be a string, a boolean, a date or a number", value)


def check_depth(depth: int, filter_: object) -> None:
    if depth > MAX_DEPTH:
        raise invalid(f"more than {MAX_DEPTH} nested filters", filter_)


def check_operator(operator: object, allowed: Collection[str], filter_: object) -> None:
    if operator not in allowed:
        what = f"the operator must be one of {', '.join(allowed)}, got {operator!r}"
        raise invalid(what, filter_)


def invalid(what: str, filter_: object) -> InvalidCondition:
    """Return the error of a filter. ``filter_``: the part of the filter that is wrong."""
    return InvalidCondition(f"filter: {what}", reprlib.repr(filter_), 0)
