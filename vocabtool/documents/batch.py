"""What every document reader receives and returns: requests, rows, batches, invalid rows.

Also reads Python objects: iterables and sequences, whose items are a string, ``bytes``, a mapping
of fields, or a :class:`Document`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.documents.options import BETWEEN, ID, TEXT, ReadOptions
from vocabtool.errors import InvalidFile
from vocabtool.system.parallel import in_batches
from vocabtool.vocabulary import decode, encode, is_utf8, text_bytes

BATCH_BYTES: Final = 4 << 20  # default number of bytes of text in a batch
MAX_ROWS: Final = 1 << 18  # texts in a batch; empty texts also need memory
MAX_PARTS: Final = 7_000_000  # of JSON that is parsed at once; 64 MiB of float32 have fewer
EXAMPLES: Final = 10  # invalid rows whose location and reason are kept
SKIP_IT: Final = "use --on-error skip to skip invalid rows"
SOURCE: Final = "source"  # the field of a piece that contains the name of its file
HEAD_BITS, CONTINUES = np.uint8(0xC0), np.uint8(0x80)  # marks a continuation byte of UTF-8
NAMES_SHOWN: Final = 20  # field names in a message
NOT_FINITE: Final = "contains NaN, infinity or a number too large for float32"

Kind = Literal["null", "integer", "number", "boolean", "string"]


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id and other fields.

    ``text``: bytes that are not UTF-8 are decoded with Python's ``surrogateescape``.
    """

    id: str
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Consecutive texts of one source; row ``i`` of every array belongs to document ``i``.

    - ``source``: the name the caller used; ``-`` for standard input, ``texts`` for an iterable.
    - ``texts``: Arrow ``string`` array of length n without nulls. It may be a slice, and may
      contain invalid UTF-8.
    - ``numbers``: int64, shape (n,), ascending: the line or row number of each text, from 1.
    - ``ids``: Arrow ``string`` array. ``None``: ids are made from ``source`` and ``parts``.
    - ``columns``: the kept fields, Arrow ``string`` arrays with null for a missing value.
    - ``fields``: for each row, all fields except the text; ``None`` unless requested.
    - ``kinds``: the JSON type of each kept field, if known.
    - ``types``: the Arrow type of each kept field in the source. A field that is not in it contains
      texts.
    - ``parts``: Arrow ``string`` array: the end of each id, such as ``#Install``. ``None``: ids
      end with the row number, such as ``:17``.
    - ``vectors``: float32, shape (n, dim), finite: the documents' vectors, if the source has them.
    - ``path_first``: whether ``ReadOptions.path_first`` put a path of headings before each text.
    """

    source: str
    texts: pa.StringArray
    numbers: NDArray[np.int64]
    ids: pa.StringArray | None = None
    columns: Mapping[str, pa.StringArray] = field(default_factory=dict)
    fields: Sequence[dict[str, object]] | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    parts: pa.StringArray | None = None
    vectors: NDArray[np.float32] | None = None
    path_first: bool = False
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Return the location of a document, such as ``corpus.jsonl:17``."""
        return f"{self.source}:{self.numbers[row]}"

    def id_of(self, row: int) -> str:
        """Return the id of a document; by default, its location."""
        return decode(bytes(self.id_array()[row].as_buffer()))

    def id_array(self) -> pa.StringArray:
        """Return the ids as an Arrow ``string`` array; by default, the locations (FILE:LINE)."""
        if self.ids is not None:
            return self.ids
        if self.parts is not None:
            return pc.binary_join_element_wise(
                strings([encode(self.source)])[0], self.parts, strings([b""])[0]
            )
        source = strings([encode(f"{self.source}:")])[0]
        return pc.binary_join_element_wise(source, pa.array(self.numbers).cast(pa.string()), "")

    def with_source(self, source: str) -> Batch:
        """Return a copy with another source name. A kept field ``source`` is changed too."""
        columns = dict(self.columns)
        if self.parts is not None and (sources := columns.get(SOURCE)) is not None:
            old, new = (strings([encode(name)])[0] for name in (self.source, source))
            columns[SOURCE] = pc.if_else(pc.equal(sources, old), new, sources)
        return replace(self, source=source, columns=columns)

    def part(self, start: int, end: int) -> Batch:
        """Return the rows from ``start`` to ``end`` (exclusive) without copying the texts."""
        is_whole = start == 0 and end >= len(self)
        return self if is_whole else self.only(slice(start, end))

    def only(self, chosen: slice | NDArray[np.bool_]) -> Batch:
        """Return a span of rows, or the rows for which a mask of shape (n,) is true."""

        def choose(column: pa.StringArray) -> pa.StringArray:
            is_span = isinstance(chosen, slice)
            return column[chosen] if is_span else column.filter(pa.array(chosen))

        rows = np.arange(len(self))[chosen]
        return replace(
            self,
            texts=choose(self.texts),
            numbers=self.numbers[rows],
            ids=None if self.ids is None else choose(self.ids),
            columns={name: choose(column) for name, column in self.columns.items()},
            fields=None if self.fields is None else [self.fields[row] for row in rows.tolist()],
            parts=None if self.parts is None else choose(self.parts),
            vectors=None if self.vectors is None else self.vectors[rows],
        )


class Skip(NamedTuple):
    """A skipped row: its location, such as ``corpus.jsonl:17``, and the reason."""

    place: str
    reason: str


@dataclass(slots=True)
class SkipCounter:
    """Counts skipped rows. ``first``: the first few of these rows."""

    count: int = 0
    first: list[Skip] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        self.count += 1
        if len(self.first) < EXAMPLES:
            self.first.append(Skip(place, reason))


@dataclass(slots=True)
class ReadLog:
    """Counts what is read and skipped.

    ``skipped``: the invalid rows that were skipped.
    ``repeated``: number of documents that were skipped because of a repeated id.
    ``bytes``: number of bytes read from files so far; of a compressed file, the compressed bytes.
    ``documents``: number of documents in these bytes, as the caller counts them, and ``done``: how
    many of them are encoded or counted.
    ``notes``: notes on what was read.
    """

    skipped: SkipCounter = field(default_factory=SkipCounter)
    repeated: int = 0
    bytes: int = 0
    documents: int = 0
    done: int = 0
    notes: list[str] = field(default_factory=list)

    def share(self, size: int) -> float:
        """Return the share of ``size`` bytes that is done; 0 if ``size`` is 0."""
        done = self.bytes * self.done / max(self.documents, 1)
        return min(done / size, 1.0) if size else 0.0


class BadRow(ValueError):
    """Raised for an invalid row; the message is the reason. The caller adds the row number."""


def check_parts(content: bytes) -> None:
    """Raise :class:`BadRow` if JSON has too many values: each may need 25 times its bytes."""
    if len(content) > MAX_PARTS and sum(map(content.count, (b",", b"[", b"{"))) > MAX_PARTS:
        raise BadRow(f"JSON of more than {MAX_PARTS:,} commas and brackets")


Count: TypeAlias = Callable[[Sequence[str]], Sequence[int]]  # of the words or tokens of each text


@dataclass(frozen=True, slots=True)
class Measure:
    """How the length of texts is measured. ``most``: what a model reads; ``None``: no limit."""

    count: Count
    most: int | None = None


@dataclass(kw_only=True, slots=True)
class Request:
    """What the readers of all formats get.

    - ``size``: approximate bytes of text in a batch.
    - ``rows``: maximum number of rows in a batch that :func:`gather` makes.
    - ``all_fields``: whether all fields of a row are read.
    - ``to_skip``: how many documents are still to be skipped.
    - ``can_skip``: whether these documents can be skipped without reading them.
    - ``measure``: counts tokens. ``None``: words are counted.
    """

    source: str = ""
    read: ReadOptions
    log: ReadLog
    size: int
    rows: int = MAX_ROWS
    all_fields: bool = False
    to_skip: int
    can_skip: bool
    measure: Measure | None = None

    def skip_unread(self, rows: int) -> bool:
        """Return whether rows can be skipped without reading them. If so, count them as skipped."""
        if not self.can_skip or rows > self.to_skip:
            return False
        self.to_skip -= rows
        return True

    def refuse(self, number: int, reason: str) -> None:
        """Raise ``InvalidFile`` for an invalid row. If ``on_error="skip"``, count it instead."""
        place = f"{self.source}:{number}"
        if self.read.on_error == "raise":
            raise InvalidFile(f"{reason}; {SKIP_IT}", file=place)
        self.log.skipped.add(place, reason)


def strings(texts: Sequence[bytes | None]) -> pa.StringArray:
    """Return ``texts`` as an Arrow ``string`` array. The texts may be invalid UTF-8."""
    return pa.array(texts, pa.binary()).view(pa.string())


def bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Return the offsets of the texts in their Arrow buffer: int32, shape (n + 1,)."""
    if not len(texts):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1 + texts.offset)
    return offsets[texts.offset :]


def byte_lengths(values: pa.Array) -> NDArray[np.int64]:
    """Return the length of each string in bytes, 0 for null: int64, shape (n,)."""
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)


def as_utf8(strings: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.bool_]]:
    """Replace bytes that are not UTF-8 by U+FFFD; keep nulls. Also return which strings changed."""
    none_changed = np.zeros(len(strings), np.bool_)
    if not len(strings):
        return strings, none_changed
    # Nothing to do if all bytes together are UTF-8 and no string begins inside a character.
    ends = bounds(strings)
    data = memoryview(strings.buffers()[2] or b"")[int(ends[0]) : int(ends[-1])]
    starts = ends[:-1][ends[:-1] < ends[-1]] - ends[0]
    inside = (np.frombuffer(data, np.uint8)[starts] & HEAD_BITS) == CONTINUES
    if not inside.any() and is_utf8(bytes(data)):
        return strings, none_changed
    binary = strings.view(pa.binary()).to_pylist()
    replaced = np.array([text is not None and not is_utf8(text) for text in binary], np.bool_)
    texts = [None if text is None else text.decode("utf-8", "replace") for text in binary]
    return pa.array(texts, pa.string()), replaced


def in_size(batch: Batch, size: int) -> Iterator[Batch]:
    """Split a batch into parts of at most ``size`` bytes. A longer text is a part by itself."""
    for start, end in spans(bounds(batch.texts), size):
        yield batch.part(start, end)


def spans(ends: NDArray[np.integer[Any]], size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the exclusive end of spans of rows, each of at most ``size`` bytes.

    ``ends``: the bytes before each row, and in all rows: shape (rows + 1,). A row with more than
    ``size`` bytes is a span by itself. A span has at most ``MAX_ROWS`` rows.
    """
    start, rows = 0, len(ends) - 1
    while start < rows:
        full = int(np.searchsorted(ends, int(ends[start]) + size, "right")) - 1
        end = min(max(full, start + 1), start + MAX_ROWS, rows)
        yield start, end
        start = end


def list_names(fields: Sequence[str] | Mapping[str, object]) -> str:
    """Return names of fields for a message; of many fields, only the first ones."""
    shown = ", ".join(map(repr, [*fields][:NAMES_SHOWN]))
    return f"{shown}, ..." if len(fields) > NAMES_SHOWN else shown or "none"


def text_column(names: Sequence[str], name: str | None) -> int:
    """Return the index of ``name``; by default of the only name or ``text``. Raises ``BadRow``."""
    if name is None and len(names) == 1:
        return 0
    column = TEXT if name is None else name
    if names.count(column) != 1:
        problem = "no field" if column not in names else "more than one field"
        hint = "; use --field (field=) to choose the text field" if name is None else ""
        raise BadRow(f"{problem} {column!r}; the fields are {list_names(names)}{hint}")
    return names.index(column)


def text_columns(names: Sequence[str], read: ReadOptions) -> list[int]:
    """Return the columns that the options name, or the only one. Raises :class:`BadRow`."""
    if not read.fields:
        return [text_column(names, read.single_field)]
    columns = [text_column(names, name) for name in read.fields if name in names]
    if not columns:
        raise BadRow(none_of(read.fields, names))
    return columns


def none_of(fields: Sequence[str], names: Sequence[str] | Mapping[str, object]) -> str:
    """Return the message for a row that lacks all ``fields``. ``names``: the fields it has."""
    return f"none of the fields {list_names(fields)}; the fields are {list_names(names)}"


def join_texts(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """Join the non-empty texts of each row by blank lines. A row of nulls gives null."""
    if len(columns) == 1:
        return columns[0]
    texts = [column.view(pa.binary()) for column in columns]
    null, empty = pa.scalar(None, pa.binary()), pa.scalar(b"", pa.binary())
    filled = [pc.if_else(pc.equal(text, empty), null, text) for text in texts]
    # Arrow would drop a row that has only nulls, so the first text of such a row becomes empty.
    filled[0] = pc.if_else(pc.is_null(pc.coalesce(*filled)), empty, filled[0])
    between = pa.scalar(BETWEEN.encode(), pa.binary())
    joined = pc.binary_join_element_wise(*filled, between, null_handling="skip")
    return pc.if_else(pc.is_valid(pc.coalesce(*texts)), joined, null).view(pa.string())


# ---- Python objects

Item = str | bytes | Document | Mapping[str, object]


class Indexable(Protocol):
    """A sequence, or an object that can be read like one."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


class Table(Protocol):
    """A table that exports its rows by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


class LazyTable(Protocol):
    """A Polars ``LazyFrame``."""

    def collect_batches(self) -> Iterator[Any]: ...


Value = bytes | int | float | None  # of a kept field; a bool is an int


class Row(NamedTuple):
    """One document before it is put in a batch.

    ``number``: the row number, from 1. ``id``: ``None`` if the location is the id. ``kept``: the
    values of ``ReadOptions.kept_fields``, in this order; numbers and booleans as such, others as
    :func:`as_string` encodes them. ``vector``: float32, shape (dim,).
    """

    number: int
    text: bytes
    id: bytes | None
    kept: tuple[Value, ...]
    fields: dict[str, object]
    vector: NDArray[np.float32] | None = None

    def size(self) -> int:
        return len(self.text) + sum(len(value) for value in self.kept if isinstance(value, bytes))


def is_indexable(source: object) -> TypeGuard[Indexable]:
    """Return whether ``source`` has a length and an index, but is no text and no mapping."""
    has_index = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    return has_index and not isinstance(source, Mapping | str | bytes)


def is_table(source: object) -> TypeGuard[Table | LazyTable]:
    """Return whether ``source`` is a table. A single column (a series) is not."""
    kind = type(source)  # an attribute of the object may be a column
    is_one_column = hasattr(kind, "__getitem__") and not hasattr(kind, "columns")
    return hasattr(kind, "collect_batches") or (
        hasattr(kind, "__arrow_c_stream__") and not is_one_column
    )


def gather(rows: Iterable[Row], request: Request, *, are_pieces: bool = False) -> Iterator[Batch]:
    """See :func:`batch_of`. ``request`` limits the rows and the bytes of a batch."""
    for batch in in_batches(rows, request.rows, weight=Row.size, most=request.size):
        yield batch_of(batch, request, are_pieces=are_pieces)


def batch_of(rows: Sequence[Row], request: Request, *, are_pieces: bool = False) -> Batch:
    """Make a batch. A row is invalid if its vector does not have the most frequent length.

    ``are_pieces``: whether the ids of the rows are ``Batch.parts``.
    """
    read, vectors = request.read, None
    if read.vector_field is not None:
        column = pa.array([row.vector for row in rows], pa.list_(pa.float32()))
        vectors, invalid = vectors_in(column, read.vector_field)
        for index, reason in invalid.items():
            request.refuse(rows[index].number, reason)
        vectors = np.delete(vectors, [*invalid], axis=0)
        rows = [row for index, row in enumerate(rows) if index not in invalid]
    names = read.kept_fields
    values = zip(*(row.kept for row in rows), strict=True) if rows else [()] * len(names)
    columns = dict(zip(names, values, strict=True))
    has_ids = read.id_field is not None or any(row.id is not None for row in rows)
    ids = strings([id_of_row(row, request) for row in rows]) if has_ids else None
    return Batch(
        request.source,
        strings([row.text for row in rows]),
        np.array([row.number for row in rows], np.int64),
        None if are_pieces else ids,
        {
            name: strings([as_string(value, name) for value in column])
            for name, column in columns.items()
        },
        [row.fields for row in rows] if request.all_fields else None,
        parts=ids if are_pieces else None,
        vectors=vectors,
        types=types_of(columns),
    )


def vectors_in(column: pa.Array, name: str) -> tuple[NDArray[np.float32], dict[int, str]]:
    """Convert a column of lists of numbers to float32, shape (n, dim).

    ``dim`` is the most frequent length. Invalid rows are zero; also return the reason for each.
    """
    lengths = np.asarray(pc.list_value_length(column).fill_null(-1)).astype(np.int64)
    distinct, counts = np.unique(lengths[lengths > 0], return_counts=True)
    dim = int(distinct[counts.argmax()]) if len(distinct) else 0
    is_valid = (lengths == dim) & (lengths > 0)
    numbers = (column if is_valid.all() else column.filter(pa.array(is_valid))).flatten()
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is refused below
        floats = numbers.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    vectors = floats.reshape(int(is_valid.sum()), dim)
    is_finite = np.isfinite(vectors).all(axis=1)
    if not (is_valid.all() and is_finite.all()):
        rows, finite = np.flatnonzero(is_valid), vectors[is_finite]
        is_valid[rows[~is_finite]] = False
        vectors = np.zeros((len(column), dim), np.float32)
        vectors[rows[is_finite]] = finite
    reasons = {}
    for row in np.flatnonzero(~is_valid).tolist():
        reason = NOT_FINITE
        if lengths[row] != dim or not dim:
            list_of_dim = f"{dim:,} numbers" if dim else "a list of numbers"
            length = f"{lengths[row]:,}" if lengths[row] >= 0 else "null"
            reason = f"expected {list_of_dim}, got {length}"
        reasons[row] = f"field {name!r}: {reason}"
    return vectors, reasons


def id_of_row(row: Row, request: Request) -> bytes:
    """Return the id of a row; by default, its location."""
    return text_bytes(f"{request.source}:{row.number}") if row.id is None else row.id


def object_rows(source: object, request: Request) -> Iterator[tuple[Row, Item]]:
    """Yield the items of a Python object, each after its row. Invalid items are refused."""
    for number, item in _number_items(source, request):
        try:
            if isinstance(item, Document):
                values = kept_of(item.fields, request.read.kept_fields)
                vector = own_vector(item.fields, request)
                row = Row(number, text_bytes(item.text), text_bytes(item.id), values, {}, vector)
            elif isinstance(item, str | bytes | Mapping):
                row = row_of(item, number, request)
                if request.read.id_field is None and has_own_id(item):
                    row = row._replace(id=own_id(item, ID))
            else:
                kind = type(item).__name__
                raise BadRow(f"expected a string, bytes, a Document or a mapping, got {kind}")
        except BadRow as bad:
            request.refuse(number, str(bad))
        else:
            yield row, item


def _number_items(source: object, request: Request) -> Iterator[tuple[int, Item]]:
    """Yield the items of a Python object with their numbers, from 1, without skipped items."""
    if is_indexable(source):
        rows: Indexable = getattr(source, "iloc", source)  # the index of pandas contains labels
        skipped = min(request.to_skip, len(source))
        if skipped and request.read.on_duplicate:
            item = rows[min(skipped, len(source) - 1)]
            if isinstance(item, Document) or has_own_id(item):
                skipped = 0  # the ids of the skipped documents must be compared with later ones
        if not request.skip_unread(skipped):
            skipped = 0
        for index in range(skipped, len(source)):
            yield index + 1, rows[index]
    elif isinstance(source, Iterable) and not isinstance(source, bytes):
        yield from enumerate(source, 1)
    else:
        hint = "; for a queue, use iter(queue.get, None)" if hasattr(source, "get") else ""
        sources = "a file name, a table, an iterable or a sequence of documents"
        got = f"{type(source).__name__}{hint}"
        raise ValueError(f"{request.source}: expected {sources}, got {got}")


def row_of(value: object, number: int, request: Request) -> Row:
    """Return the row of a text or of a mapping of fields. Raises :class:`BadRow` if invalid."""
    read = request.read
    field, id_field = read.single_field or TEXT, read.id_field
    if isinstance(value, str | bytes):
        if id_field is None and not read.kept_fields and read.vector_field is None:
            return Row(number, text_bytes(value), None, (), {})
        value = {field: value}
    elif not isinstance(value, Mapping):
        raise BadRow(f"expected a JSON object or a string, got {_kind_name(value)}")
    text = joined_text(value, read.fields) if read.fields else text_bytes(_text_of(value, field))
    id_ = None if id_field is None else own_id(value, id_field)
    values = kept_of(value, read.kept_fields)
    fields: dict[str, object] = {}
    if request.all_fields:
        hidden = read.hidden_fields(field)
        fields = {name: content for name, content in value.items() if name not in hidden}
    return Row(number, text, id_, values, fields, own_vector(value, request))


def has_own_id(item: object) -> TypeGuard[Mapping[str, object]]:
    """Whether an item of Python is a mapping whose ``id`` can be the id of a document."""
    id_ = item.get(ID) if isinstance(item, Mapping) else None
    return isinstance(id_, str | bytes | Integral) and not isinstance(id_, bool)


def _value_of(values: Mapping[str, object], name: str, option: str, purpose: str) -> object:
    """Return the field ``name``, or raise :class:`BadRow`, which names the ``option`` for it."""
    if name not in values:
        hint = f"choose one with --{option.replace('_', '-')} ({option}=)"
        raise BadRow(f"no field {name!r}{purpose}; the fields are {list_names(values)}: {hint}")
    return values[name]


def own_id(value: Mapping[str, object], name: str) -> bytes:
    """Return the id in the field ``name``. Raises :class:`BadRow` if there is none."""
    id_ = _value_of(value, name, "id_field", " for the id")
    if isinstance(id_, bool) or not isinstance(id_, str | bytes | Integral):
        kind = _kind_name(id_)
        raise BadRow(f"field {name!r}: expected a string or an integer as id, got {kind}")
    return text_bytes(id_ if isinstance(id_, str | bytes) else str(id_))


def _text_of(value: Mapping[str, object], field: str) -> str | bytes:
    text = _value_of(value, field, "field", "")
    if not isinstance(text, str | bytes):
        raise BadRow(f"field {field!r}: expected a string, got {_kind_name(text)}")
    return text


def joined_text(value: Mapping[str, object], fields: Sequence[str]) -> bytes:
    """Return the texts of several fields, joined by blank lines, without missing fields."""
    texts = [text_bytes(_text_of(value, name)) for name in fields if value.get(name) is not None]
    if not texts:
        raise BadRow(none_of(fields, value))
    return BETWEEN.encode().join(filter(None, texts))


def own_vector(values: Mapping[str, object], request: Request) -> NDArray[np.float32] | None:
    """Return the vector of a row: float32, shape (dim,); ``None`` without a ``vector_field``."""
    name = request.read.vector_field
    if name is None:
        return None
    return numbers_of(_value_of(values, name, "vector_field", " for the vector"), name)


def numbers_of(value: object, name: str, axes: int = 1) -> NDArray[np.float32]:
    """Return float32 of shape (dim,), or (n, dim) if ``axes`` is 2. Raises :class:`BadRow`."""
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


def kept_of(fields: Mapping[str, object], names: Sequence[str]) -> tuple[Value, ...]:
    """Return ``Row.kept``: the values of the fields ``names``, ``None`` for a missing one."""
    values: list[Value] = []
    for name in names:
        value = fields.get(name)
        if isinstance(value, np.number | np.bool_):
            value = value.item()
        values.append(value if isinstance(value, int | float) else as_string(value, name))
    return tuple(values)


def types_of(columns: Mapping[str, Iterable[Any]]) -> dict[str, pa.DataType]:
    """Return ``Batch.types`` of columns of Python values. Integers beyond 64 bits are texts."""
    types = {}
    for name, values in columns.items():
        kinds = set(map(type, values)) - {type(None)}
        if not kinds:
            types[name] = pa.null()
        elif kinds == {bool}:
            types[name] = pa.bool_()
        elif kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values if value):
            types[name] = pa.int64()
        elif kinds in ({float}, {int, float}):
            types[name] = pa.float64()
    return types


def as_string(value: object, name: str) -> bytes | None:
    """Encode a string as it is, others as JSON; what JSON lacks, such as dates, with ``str``."""
    if value is None:
        return None
    if isinstance(value, str):
        return text_bytes(value)
    if not isinstance(value, bytes | bool | int | float | list | tuple | Mapping):
        value = _plain(value)
    if isinstance(value, str | bytes):
        return text_bytes(value)
    try:
        return text_bytes(json.dumps(value, ensure_ascii=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRow(f"field {name!r}: cannot be written as JSON: {error}") from error


def _plain(value: object) -> object:
    """Convert a value, such as a date or an array, to a type that JSON has."""
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, Mapping):
        return dict(value)
    to_list = getattr(value, "tolist", None)
    return str(value) if to_list is None else to_list()


def _kind_name(value: object) -> str:
    names = {type(None): "null", dict: "an object", list: "an array", bytes: "bytes"}
    return names.get(type(value), "true or false" if isinstance(value, bool) else "a number")
