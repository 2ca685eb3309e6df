"""Read documents from Python objects: iterables, sequences and queues.

Each item is a string, ``bytes``, a mapping of fields, or a :class:`Document`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from numbers import Integral
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import (
    NOT_FINITE,
    BadRow,
    Batch,
    Document,
    Request,
    names_of,
    none_of,
    strings,
)
from vocabtool.documents.options import BETWEEN, TEXT
from vocabtool.vocabulary import decode

Item = str | bytes | Document | Mapping[str, object]
Spelling = Callable[[str | bytes], bytes]  # encodes a string that may contain surrogates


class _Mark(Enum):
    """The type of :data:`END`. After pickling, ``is END`` is still true."""

    END = "end"


END: Final = _Mark.END  # the last item of a queue: no more documents follow


class Indexable(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


class Queue(Protocol):
    """A queue of documents. ``get`` returns a document, :data:`END`, or an exception to raise."""

    def get(self) -> Any: ...


class Table(Protocol):
    """A table that exports its rows by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


class LazyTable(Protocol):
    """A Polars ``LazyFrame``."""

    def collect_batches(self) -> Iterator[Any]: ...


class Row(NamedTuple):
    """One document before it is put in a batch.

    ``number``: the row number, from 1. ``id``: ``None`` if the location is the id. ``kept``: the
    values of ``ReadOptions.kept_fields``, in this order. ``vector``: float32, shape (dim,).
    """

    number: int
    text: bytes
    id: bytes | None
    kept: tuple[bytes | None, ...]
    fields: dict[str, object]
    vector: NDArray[np.float32] | None = None


def is_queue(source: object) -> TypeGuard[Queue]:
    return callable(getattr(source, "get", None)) and not hasattr(source, "__iter__")


def is_indexable(source: object) -> TypeGuard[Indexable]:
    has_index = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    return has_index and not isinstance(source, Mapping | str | bytes)


def is_table(source: object) -> TypeGuard[Table | LazyTable]:
    """Return whether ``source`` is a table. A single column (a series) is not."""
    kind = type(source)  # an attribute of the object may be a column
    is_one_column = hasattr(kind, "__getitem__") and not hasattr(kind, "columns")
    return hasattr(kind, "collect_batches") or (
        hasattr(kind, "__arrow_c_stream__") and not is_one_column
    )


def batches(source: object, request: Request) -> Iterator[Batch]:
    return gather((row for row, _ in _rows(source, request)), request, request.rows)


def documents(source: object, request: Request) -> Iterator[Document]:
    for row, item in _rows(source, request):
        if isinstance(item, Document):
            yield item
        else:
            yield Document(decode(_id(row, request)), decode(row.text), row.fields)


def gather(
    rows: Iterable[Row], request: Request, most: int, *, are_pieces: bool = False
) -> Iterator[Batch]:
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.text)
        if size >= request.size or len(held) == most:
            yield batch_of(held, request, are_pieces=are_pieces)
            held, size = [], 0
    if held:
        yield batch_of(held, request, are_pieces=are_pieces)


def batch_of(rows: Sequence[Row], request: Request, *, are_pieces: bool = False) -> Batch:
    """Make a batch. A row is invalid if its vector does not have the most frequent length."""
    keep, vectors = request.options.kept_fields, None
    if request.options.vector_field is not None:
        rows, vectors = _with_vectors(rows, request)
    columns = zip(*(row.kept for row in rows), strict=True) if rows else [()] * len(keep)
    has_ids = request.options.id_field is not None or any(row.id is not None for row in rows)
    ids = strings([_id(row, request) for row in rows]) if has_ids else None
    return Batch(
        request.source,
        strings([row.text for row in rows]),
        np.array([row.number for row in rows], np.int64),
        None if are_pieces else ids,
        dict(zip(keep, map(strings, columns), strict=True)),
        [row.fields for row in rows] if request.whole else None,
        parts=ids if are_pieces else None,
        vectors=vectors,
    )


def _with_vectors(
    rows: Sequence[Row], request: Request
) -> tuple[Sequence[Row], NDArray[np.float32]]:
    lengths = Counter(len(row.vector) for row in rows if row.vector is not None)
    ((dim, _),) = lengths.most_common(1) or ((0, 0),)
    chosen, vectors = [], []
    for row in rows:
        if row.vector is not None and len(row.vector) == dim:
            chosen.append(row)
            vectors.append(row.vector)
            continue
        found = 0 if row.vector is None else len(row.vector)
        what = f"field {request.options.vector_field!r}: expected {dim:,} numbers as in other rows"
        request.refuse(row.number, f"{what}, got {found:,}")
    return chosen, np.array(vectors, np.float32).reshape(len(vectors), dim)


def _id(row: Row, request: Request) -> bytes:
    return as_bytes(f"{request.source}:{row.number}") if row.id is None else row.id


def _rows(source: object, request: Request) -> Iterator[tuple[Row, Item]]:
    for number, item in _number_items(source, request):
        try:
            if isinstance(item, Document):
                kept = kept_of(item.fields, request.options.kept_fields)
                vector = own_vector(item.fields, request)
                row = Row(number, as_bytes(item.text), as_bytes(item.id), kept, {}, vector)
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
    if is_queue(source):
        return enumerate(_take(source), 1)
    if is_indexable(source):
        rows: Indexable = getattr(source, "iloc", source)  # the index of pandas contains labels
        out = min(request.ahead.left, len(source))
        at_end = min(out, len(source) - 1)
        if out and request.options.on_duplicate and isinstance(rows[at_end], Document):
            out = 0  # the ids of the skipped documents must be compared with later ones
        if not request.ahead.skip_unread(out):
            out = 0
        return ((index + 1, rows[index]) for index in range(out, len(source)))
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return enumerate(source, 1)
    wanted = "expected a file name, a table, an iterable, a sequence or a queue of documents"
    raise ValueError(f"{request.source}: {wanted}, got {type(source).__name__}")


def _take(queue: Queue) -> Iterator[Item]:
    """Yield the items of a queue, and call ``task_done`` for each."""
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
    """Encode a text as UTF-8 with ``surrogateescape`` or, if that fails, ``surrogatepass``."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def row_of(value: object, number: int, request: Request, spell: Spelling = as_bytes) -> Row:
    options = request.options
    field, id_field = options.single_field or TEXT, options.id_field
    if isinstance(value, str | bytes):
        if id_field is None and not options.kept_fields and options.vector_field is None:
            return Row(number, spell(value), None, (), {})
        value = {field: value}
    elif not isinstance(value, Mapping):
        raise BadRow(f"expected a JSON object or a string, got {_kind_name(value)}")
    if several := options.fields:
        text = joined_text(value, several, spell)
    elif field not in value:
        there = f"the fields are {names_of(value)}: choose one with --field (field=)"
        raise BadRow(f"no field {field!r}; {there}")
    else:
        text = spell(_text_of(value, field))
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
    kept = kept_of(value, options.kept_fields, spell)
    fields: dict[str, object] = {}
    if request.whole:
        hidden = options.hidden_fields(field)
        fields = {name: held for name, held in value.items() if name not in hidden}
    return Row(number, text, id_, kept, fields, own_vector(value, request))


def _text_of(value: Mapping[str, object], field: str) -> str | bytes:
    text = value[field]
    if not isinstance(text, str | bytes):
        raise BadRow(f"field {field!r}: expected a string, got {_kind_name(text)}")
    return text


def joined_text(
    value: Mapping[str, object], fields: Sequence[str], spell: Spelling = as_bytes
) -> bytes:
    """Return the texts of several fields, joined by blank lines, without missing fields."""
    texts = [spell(_text_of(value, name)) for name in fields if value.get(name) is not None]
    if not texts:
        raise BadRow(none_of(fields, value))
    return BETWEEN.encode().join(filter(None, texts))


def own_vector(values: Mapping[str, object], request: Request) -> NDArray[np.float32] | None:
    name = request.options.vector_field
    if name is None:
        return None
    if name not in values:
        there = f"the fields are {names_of(values)}: choose one with --vector-field (vector_field=)"
        raise BadRow(f"no field {name!r} for the vector; {there}")
    return numbers_of(values[name], name)


def numbers_of(value: object, name: str, axes: int = 1) -> NDArray[np.float32]:
    """Convert a list of numbers to float32, shape (dim,).

    If ``axes`` is 2, ``value`` is a list of such lists, and the shape is (n, dim).
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.zeros(0, object)
    if array.ndim != axes or array.dtype.kind not in "fiu" or not array.size:
        raise BadRow(f"field {name!r}: expected a list of numbers, got {str(value)[:50]}")
    with np.errstate(over="ignore"):  # infinity is refused below
        numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise BadRow(f"field {name!r}: {NOT_FINITE}")
    return numbers


def kept_of(
    values: Mapping[str, object], names: Sequence[str], spell: Spelling = as_bytes
) -> tuple[bytes | None, ...]:
    return tuple([as_string(values.get(name), name, spell) for name in names])


def as_string(value: object, name: str, spell: Spelling = as_bytes) -> bytes | None:
    """Encode a string unchanged, and any other value as JSON text. ``None`` stays ``None``.

    Types without a JSON equivalent, such as dates, are converted with ``str``.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return spell(value)
    if not isinstance(value, bytes | bool | int | float | list | tuple | Mapping):
        value = _plain(value)
    if isinstance(value, str | bytes):
        return spell(value)
    try:
        return spell(json.dumps(value, ensure_ascii=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRow(f"field {name!r}: cannot be written as JSON: {error}") from error


def _plain(value: object) -> object:
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
