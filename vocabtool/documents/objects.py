"""A document in an object of named values: its text, its id, and the fields to be kept.

For formats whose rows become Python values (a line of JSON, a ``tf.Example``) and for mappings that
Python gives. How the values come out of a file is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Final, NamedTuple

import numpy as np

from vocabtool.documents.rows import BadRow, Batch, Request, names_of, strings
from vocabtool.vocabulary import decode, encode

TEXT: Final = "text"  # the field of the text, unless another is asked for


Spelling = Callable[[str | bytes], bytes]  # how strings are written that may hold surrogates


class Row(NamedTuple):
    """One document on its way: ``number`` counts rows from 1, ``kept`` goes by ``Request.keep``."""

    number: int
    text: bytes
    id: bytes | None
    kept: tuple[bytes | None, ...]
    fields: dict[str, object]


def as_bytes(text: str | bytes) -> bytes:
    """A text as bytes: surrogates that stand for bytes become those, others three bytes each."""
    if isinstance(text, bytes):
        return text
    try:
        return encode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def row_of(value: object, number: int, request: Request, spell: Spelling = as_bytes) -> Row:
    """The document in an object, or in a string that is the text. Raises :class:`BadRow`."""
    field = request.field or TEXT
    if isinstance(value, str | bytes):
        if request.id_field is None and not request.keep:
            return Row(number, spell(value), None, (), {})
        value = {field: value}
    elif not isinstance(value, Mapping):
        raise BadRow(f"wanted an object or a string, got {_what(value)}")
    text = spell(_text(value, field))
    id_ = None if request.id_field is None else spell(_id(value, request.id_field))
    kept = kept_of(value, request.keep, spell)
    fields = {name: value[name] for name in value if name != field} if request.whole else {}
    return Row(number, text, id_, kept, fields)


def _text(values: Mapping[str, object], field: str) -> str | bytes:
    if field not in values:
        raise BadRow(
            f"no field {field!r}; the fields are {names_of(values)}: --field (field=) names one"
        )
    text = values[field]
    if not isinstance(text, str | bytes):
        raise BadRow(f"field {field!r}: wanted a string, got {_what(text)}")
    return text


def _id(values: Mapping[str, object], field: str) -> str | bytes:
    if field not in values:
        there = f"the fields are {names_of(values)}: --id-field (id_field=) names one"
        raise BadRow(f"no field {field!r} for the id; {there}")
    value = values[field]
    if isinstance(value, bool) or not isinstance(value, str | bytes | Integral):
        wanted = "wanted a string or a whole number for the id"
        raise BadRow(f"field {field!r}: {wanted}, got {type(value).__name__}")
    return value if isinstance(value, str | bytes) else str(value)


def kept_of(
    values: Mapping[str, object], names: Sequence[str], spell: Spelling = as_bytes
) -> tuple[bytes | None, ...]:
    """The values of some fields as strings; ``None`` where there is none."""
    return tuple(as_string(values.get(name), name, spell) for name in names)


def as_string(value: object, name: str, spell: Spelling = as_bytes) -> bytes | None:
    """A string as it is, ``None`` for ``None``, another value as its JSON text.

    What JSON does not know, as a date, is as ``str`` shows it. Raises :class:`BadRow`, which calls
    the field by its ``name``, for values that are too deep.
    """
    if value is None:
        return None
    if not isinstance(value, str | bytes | bool | int | float | list | tuple | Mapping):
        value = _plain(value)
    if isinstance(value, str | bytes):
        return spell(value)
    try:
        return spell(json.dumps(value, ensure_ascii=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRow(f"field {name!r}: no JSON can be made of it: {error}") from error


def _plain(value: object) -> object:
    """A value of a kind that JSON does not know; NumPy's numbers and arrays know what they are."""
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, Mapping):
        return dict(value)
    listed = getattr(value, "tolist", None)
    return str(value) if listed is None else listed()


def batch_of(rows: Sequence[Row], request: Request) -> Batch:
    """Rows of one source as a batch."""
    columns = zip(*(row.kept for row in rows), strict=True) if rows else [()] * len(request.keep)
    return Batch(
        request.source,
        strings([row.text for row in rows]),
        np.array([row.number for row in rows], np.int64),
        strings([row.id for row in rows]) if request.id_field is not None else None,
        dict(zip(request.keep, map(strings, columns), strict=True)),
        [row.fields for row in rows] if request.whole else None,
    )


def _what(value: object) -> str:
    names = {
        type(None): "null",
        dict: "an object",
        list: "an array",
        bytes: "bytes",
        bool: "true or false",
    }
    return names.get(type(value), "a number")
