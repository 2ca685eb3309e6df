"""Documents that Python holds: in an iterable, behind an index, in a queue, or in a file's rows.

Each may be a text, ``bytes``, a mapping of named values, or a :class:`Document`. Files are read by
the other files here; those whose rows become Python values (a line of JSON, a ``tf.Example``) end
in :func:`row_of`, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from numbers import Integral
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

import numpy as np

from vocabtool.documents.batch import BadRow, Batch, Document, Request, names_of, strings
from vocabtool.vocabulary import decode, encode

TEXT: Final = "text"  # the field of the text, unless another is asked for

Item = str | bytes | Document | Mapping[str, object]
Spelling = Callable[[str | bytes], bytes]  # how strings are written that may hold surrogates


class _Mark(Enum):
    """An enumeration, so that it is the same object in every process."""

    END = "end"


END: Final = _Mark.END  # put into a queue: there are no more documents


class Indexable(Protocol):
    """What gives documents by their places, from 0 on."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


class Queue(Protocol):
    """``get`` waits for the next document, for :data:`END`, or for an exception."""

    def get(self) -> Any: ...


class Row(NamedTuple):
    """One document on its way: ``number`` counts rows from 1, ``kept`` goes by the kept fields.

    ``id``: ``None`` where its place stands for it.
    """

    number: int
    text: bytes
    id: bytes | None
    kept: tuple[bytes | None, ...]
    fields: dict[str, object]


def is_queue(source: object) -> TypeGuard[Queue]:
    """Whether documents are taken out of it by waiting; what can be iterated is no queue."""
    return callable(getattr(source, "get", None)) and not hasattr(source, "__iter__")


def is_indexable(source: object) -> TypeGuard[Indexable]:
    """Whether it has places; the keys of a mapping are none."""
    has_places = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    return has_places and not isinstance(source, Mapping | str | bytes)


def batches(source: object, request: Request) -> Iterator[Batch]:
    """The documents gathered until they hold ``request.size`` bytes of text, or are enough.

    Takes no item more than it gives out. Raises what a queue holds as an exception.
    """
    return gather((row for row, _ in _rows(source, request)), request, request.rows)


def documents(source: object, request: Request) -> Iterator[Document]:
    """The documents one by one; one that comes as such is passed on as it is."""
    for row, item in _rows(source, request):
        if isinstance(item, Document):
            yield item
        else:
            yield Document(decode(_id(row, request)), decode(row.text), row.fields)


def gather(rows: Iterable[Row], request: Request, most: int) -> Iterator[Batch]:
    """Rows in batches of about ``request.size`` bytes of text, and of ``most`` rows at most."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.text)
        if size >= request.size or len(held) == most:
            yield batch_of(held, request)
            held, size = [], 0
    if held:
        yield batch_of(held, request)


def batch_of(rows: Sequence[Row], request: Request) -> Batch:
    """Rows of one source as a batch."""
    keep = request.options.keep
    columns = zip(*(row.kept for row in rows), strict=True) if rows else [()] * len(keep)
    has_ids = request.options.id_field is not None or any(row.id is not None for row in rows)
    return Batch(
        request.source,
        strings([row.text for row in rows]),
        np.array([row.number for row in rows], np.int64),
        strings([_id(row, request) for row in rows]) if has_ids else None,
        dict(zip(keep, map(strings, columns), strict=True)),
        [row.fields for row in rows] if request.whole else None,
    )


def _id(row: Row, request: Request) -> bytes:
    return as_bytes(f"{request.source}:{row.number}") if row.id is None else row.id


def _rows(source: object, request: Request) -> Iterator[tuple[Row, Item]]:
    """What a source holds, without bad rows, and what each row was made of."""
    for number, item in _number_items(source, request):
        try:
            if isinstance(item, Document):
                kept = kept_of(item.fields, request.options.keep)
                row = Row(number, as_bytes(item.text), as_bytes(item.id), kept, {})
            elif isinstance(item, str | bytes | Mapping):
                row = row_of(item, number, request)
            else:
                wanted = "expected a string, bytes, a Document or a mapping"
                raise BadRow(f"{wanted}, got {type(item).__name__}")
        except BadRow as bad:
            request.refuse(number, str(bad))
        else:
            yield row, item


def _number_items(source: object, request: Request) -> Iterator[tuple[int, Item]]:
    """The items and their places, from 1 on; those behind an index may be left out unread."""
    if is_queue(source):
        return enumerate(_take(source), 1)
    if is_indexable(source):
        rows: Indexable = getattr(source, "iloc", source)  # pandas has labels behind its index
        out = min(request.ahead.left, len(source))
        at_end = min(out, len(source) - 1)
        if out and request.options.on_duplicate and isinstance(rows[at_end], Document):
            out = 0  # the ids that documents bring are to be compared with others
        if not request.ahead.pass_over(out):
            out = 0
        return ((place + 1, rows[place]) for place in range(out, len(source)))
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return enumerate(source, 1)
    wanted = "expected a file name, an iterable, a sequence or a queue of documents"
    raise ValueError(f"{request.source}: {wanted}, got {type(source).__name__}")


def _take(queue: Queue) -> Iterator[Item]:
    """What comes out of a queue; each item counts as done when it is taken, for who joins it."""
    done = getattr(queue, "task_done", None)
    while True:
        item = queue.get()
        if done is not None:
            done()
        if item is END:
            return
        if isinstance(item, BaseException):
            raise item
        yield item


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
    options = request.options
    field, id_field = options.field or TEXT, options.id_field
    if isinstance(value, str | bytes):
        if id_field is None and not options.keep:
            return Row(number, spell(value), None, (), {})
        value = {field: value}
    elif not isinstance(value, Mapping):
        raise BadRow(f"expected a JSON object or a string, got {_kind_name(value)}")
    if field not in value:
        there = f"the fields are {names_of(value)}: choose one with --field (field=)"
        raise BadRow(f"no field {field!r}; {there}")
    text = value[field]
    if not isinstance(text, str | bytes):
        raise BadRow(f"field {field!r}: expected a string, got {_kind_name(text)}")
    id_ = None
    if id_field is not None:
        if id_field not in value:
            there = f"the fields are {names_of(value)}: choose one with --id-field (id_field=)"
            raise BadRow(f"no field {id_field!r} for the id; {there}")
        given = value[id_field]
        if isinstance(given, bool) or not isinstance(given, str | bytes | Integral):
            wanted = "expected a string or an integer as id"
            raise BadRow(f"field {id_field!r}: {wanted}, got {_kind_name(given)}")
        id_ = spell(given if isinstance(given, str | bytes) else str(given))
    kept = kept_of(value, options.keep, spell)
    fields = {name: value[name] for name in value if name != field} if request.whole else {}
    return Row(number, spell(text), id_, kept, fields)


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
    to_list = getattr(value, "tolist", None)
    return str(value) if to_list is None else to_list()


def _kind_name(value: object) -> str:
    names = {
        type(None): "null",
        dict: "an object",
        list: "an array",
        bytes: "bytes",
        bool: "true or false",
    }
    return names.get(type(value), "a number")
