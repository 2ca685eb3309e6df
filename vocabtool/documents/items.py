"""Documents that Python holds: in an iterable, behind an index, or in a queue.

Each may be a text, ``bytes``, a mapping of named values, or a :class:`Document`. Files are read by
the other files here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from vocabtool.documents.objects import Row, as_bytes, batch_of, kept_of, row_of
from vocabtool.documents.rows import (
    Ahead,
    BadRow,
    Batch,
    Document,
    Request,
    strings,
)
from vocabtool.vocabulary import decode

Item = str | bytes | Document | Mapping[str, object]


class _Mark(Enum):
    """An enumeration, so that it is the same object in every process."""

    END = "end"


END: Final = _Mark.END  # put into a queue: there are no more documents


class Indexable(Protocol):
    """What gives documents by their places, from 0 on."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


class Waiting(Protocol):
    """A queue: ``get`` waits for the next document, for :data:`END`, or for an exception."""

    def get(self) -> Any: ...


class Numbered(NamedTuple):
    """An item and its place, from 1 on."""

    number: int
    item: Item


def is_queue(source: object) -> TypeGuard[Waiting]:
    """Whether documents are taken out of it by waiting; what can be iterated is no queue."""
    return callable(getattr(source, "get", None)) and not hasattr(source, "__iter__")


def is_indexable(source: object) -> TypeGuard[Indexable]:
    """Whether it has places; the keys of a mapping are none."""
    has = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    return has and not isinstance(source, Mapping | str | bytes)


def batches(source: object, request: Request) -> Iterator[Batch]:
    """The documents gathered until they hold ``request.size`` bytes of text, or are enough.

    Takes no item more than it gives out. Raises what a queue holds as an exception.
    """
    held: list[Row] = []
    size = 0
    named = False
    for numbered in _numbered(source, request):
        row = _tried(numbered, request)
        if row is None:
            continue
        named |= isinstance(numbered.item, Document)
        held.append(row)
        size += len(row.text)
        if size >= request.size or len(held) == request.rows:
            yield _batch(held, named, request)
            held, size, named = [], 0, False
    if held:
        yield _batch(held, named, request)


def documents(source: object, request: Request) -> Iterator[Document]:
    """The documents one by one; one that comes as such is passed on as it is."""
    for numbered in _numbered(source, request):
        row = _tried(numbered, request)
        if row is not None:
            yield _document(row, numbered.item, request)


def _numbered(source: object, request: Request) -> Iterator[Numbered]:
    """What a source holds; documents behind an index are left out where that is asked for."""
    if is_queue(source):
        return _count(_taken(source), 1)
    if is_indexable(source):
        return _by_index(source, request)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _count(source, 1)
    wanted = "wanted a name, an iterable, an indexable or a queue of documents"
    raise ValueError(f"{request.source}: {wanted}, got {type(source).__name__}")


def _count(items: Iterable[Item], first: int) -> Iterator[Numbered]:
    return (Numbered(number, item) for number, item in enumerate(items, first))


def _by_index(source: Indexable, request: Request) -> Iterator[Numbered]:
    rows: Indexable = getattr(source, "iloc", source)  # pandas has labels behind its index
    count = len(source)
    places = range(_left_out(rows, count, request.ahead), count)
    return _count((rows[place] for place in places), places.start + 1)


def _left_out(rows: Indexable, count: int, ahead: Ahead) -> int:
    """How many rows are left out unread: none where their ids are to be compared with others."""
    out = min(ahead.left, count)
    if out and ahead.compared and isinstance(rows[min(out, count - 1)], Document):
        return 0
    return out if ahead.pass_over(out) else 0


def _taken(queue: Waiting) -> Iterator[Item]:
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


def _tried(numbered: Numbered, request: Request) -> Row | None:
    """The row; ``None`` where it is bad and was passed over."""
    try:
        return _row(numbered, request)
    except BadRow as bad:
        request.refuse(numbered.number, str(bad))
        return None


def _row(numbered: Numbered, request: Request) -> Row:
    number, item = numbered
    match item:
        case str() | bytes() if request.id_field is None:
            return Row(number, as_bytes(item), None, (None,) * len(request.keep), {})
        case str() | bytes() | Mapping():
            return row_of(item, number, request)
        case Document():
            kept = kept_of(item.fields, request.keep)
            return Row(number, as_bytes(item.text), as_bytes(item.id), kept, {})
    what = type(item).__name__
    raise BadRow(f"wanted a string, bytes, a Document or a mapping, got {what}")


def _batch(rows: list[Row], named: bool, request: Request) -> Batch:
    """``named``: whether documents are among them that came with their ids."""
    batch = batch_of(rows, request)
    if not named:
        return batch
    ids = [_id(row, request) for row in rows]
    return replace(batch, ids=strings(ids))


def _id(row: Row, request: Request) -> bytes:
    return as_bytes(f"{request.source}:{row.number}") if row.id is None else row.id


def _document(row: Row, item: Item, request: Request) -> Document:
    if isinstance(item, Document):
        return item
    return Document(decode(_id(row, request)), decode(row.text), row.fields)
