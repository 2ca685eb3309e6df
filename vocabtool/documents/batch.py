"""What every document reader receives and returns: requests, batches of texts, invalid rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.documents.options import BETWEEN, ReadOptions
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import decode, encode

BATCH_BYTES: Final = 4 << 20  # default number of bytes of text in a batch
MAX_ROWS: Final = 1 << 18  # texts in a batch; empty texts also need memory
MAX_EXAMPLES: Final = 10  # invalid rows whose location and reason are kept
SKIP_IT: Final = "use --on-error skip to skip invalid rows"
SOURCE: Final = "source"  # the field of a piece that contains the name of its file
MAX_NAMES: Final = 20  # field names in a message
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
        if self.parts is not None and (held := columns.get(SOURCE)) is not None:
            old, new = (strings([encode(name)])[0] for name in (self.source, source))
            columns[SOURCE] = pc.if_else(pc.equal(held, old), new, held)
        return replace(self, source=source, columns=columns)

    def part(self, start: int, end: int) -> Batch:
        """Return the rows from ``start`` to ``end`` (exclusive) without copying the texts."""
        return self._with(
            lambda column: column.slice(start, end - start), np.arange(start, min(end, len(self)))
        )

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """Return the rows for which ``chosen`` is true. ``chosen``: bool, shape (n,)."""
        mask = pa.array(chosen)
        return self._with(lambda column: column.filter(mask), np.flatnonzero(chosen))

    def _with(
        self, choose: Callable[[pa.StringArray], pa.StringArray], rows: NDArray[np.int64]
    ) -> Batch:
        return Batch(
            self.source,
            choose(self.texts),
            self.numbers[rows],
            None if self.ids is None else choose(self.ids),
            {name: choose(column) for name, column in self.columns.items()},
            self.fields and [self.fields[row] for row in rows.tolist()],
            self.kinds,
            None if self.parts is None else choose(self.parts),
            None if self.vectors is None else self.vectors[rows],
            self.path_first,
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
        """Count one skipped row."""
        self.count += 1
        if len(self.first) < MAX_EXAMPLES:
            self.first.append(Skip(place, reason))


class Repeat(NamedTuple):
    """A document whose id occurred before.

    ``place``: its location, such as ``corpus.jsonl:17``. ``earlier``: the location of the first
    document with the same id.
    """

    id: str
    place: str
    earlier: str


@dataclass(slots=True)
class DuplicateCounter:
    """Counts documents with a repeated id. ``first``: the first few of these."""

    count: int = 0
    first: list[Repeat] = field(default_factory=list)


@dataclass(slots=True)
class ReadLog:
    """Counts what is read and skipped.

    ``skipped``: the invalid rows that were skipped.
    ``repeated``: the documents that were skipped because of a repeated id.
    ``bytes``: number of bytes read from files so far; of a compressed file, the compressed bytes.
    """

    skipped: SkipCounter = field(default_factory=SkipCounter)
    repeated: DuplicateCounter = field(default_factory=DuplicateCounter)
    bytes: int = 0


class BadRow(ValueError):
    """Raised for an invalid row; the message is the reason. The caller adds the row number."""


@dataclass(slots=True)
class Ahead:
    """How many documents at the start are still to be skipped.

    ``left``: number of these documents. ``unread``: whether they can be skipped without reading
    them.
    """

    left: int
    unread: bool

    def skip_unread(self, rows: int) -> bool:
        """Return whether rows can be skipped without reading them. If so, count them as skipped."""
        if not self.unread or rows > self.left:
            return False
        self.left -= rows
        return True


class Measure(Protocol):
    """A function that returns the number of words or tokens of each text.

    ``most``: maximum number of words or tokens that a model reads of a text. ``None``: no limit.
    """

    @property
    def most(self) -> int | None: ...

    def __call__(self, texts: Sequence[str], /) -> Sequence[int]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Arguments of a reader for one source.

    ``size``: approximate bytes of text in a batch. ``rows``: maximum number of documents in a
    batch, if the source is an iterable. ``whole``: whether all fields of a row are read.
    ``measure``: counts the tokens of a text. ``None``: words are counted.
    """

    source: str = ""
    options: ReadOptions
    log: ReadLog
    size: int
    rows: int
    whole: bool
    ahead: Ahead
    measure: Measure | None = None

    def refuse(self, number: int, reason: str) -> None:
        """Raise ``InvalidFile`` for an invalid row. If ``on_error="skip"``, count it instead."""
        place = f"{self.source}:{number}"
        if self.options.on_error == "raise":
            raise InvalidFile(f"{reason}; {SKIP_IT}", file=place)
        self.log.skipped.add(place, reason)


def strings(texts: Sequence[bytes | None]) -> pa.StringArray:
    """Return ``texts`` as an Arrow ``string`` array. The texts may be invalid UTF-8."""
    return pa.array(texts, pa.binary()).view(pa.string())


def null_columns(request: Request, count: int) -> dict[str, pa.StringArray]:
    return {name: pa.nulls(count, pa.string()) for name in request.options.kept_fields}


def bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Return the offsets of the texts in their Arrow buffer: int32, shape (n + 1,)."""
    if not len(texts):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1 + texts.offset)
    return offsets[texts.offset :]


def in_size(batch: Batch, size: int) -> Iterator[Batch]:
    """Split a batch into parts of at most ``size`` bytes. A longer text is a part by itself."""
    for start, end in spans(bounds(batch.texts), size):
        yield batch if end - start == len(batch) else batch.part(start, end)


def spans(ends: NDArray[np.integer[Any]], size: int) -> Iterator[tuple[int, int]]:
    start, rows = 0, len(ends) - 1
    while start < rows:
        full = int(np.searchsorted(ends, int(ends[start]) + size, "right")) - 1
        end = min(max(full, start + 1), start + MAX_ROWS, rows)
        yield start, end
        start = end


def names_of(fields: Sequence[str] | Mapping[str, object]) -> str:
    shown = ", ".join(map(repr, [*fields][:MAX_NAMES]))
    return f"{shown}, ..." if len(fields) > MAX_NAMES else shown or "none"


def text_column(names: Sequence[str], wanted: str | None) -> int:
    """Return the index of the text column.

    ``wanted``: its name. By default, it is the only column or, among several, the one named
    ``text``. Raises :class:`BadRow` if no column, or more than one, has this name.
    """
    if wanted is None and len(names) == 1:
        return 0
    name = "text" if wanted is None else wanted
    if names.count(name) != 1:
        found = "no field" if name not in names else "more than one field"
        hint = "; use --field (field=) to choose the text field" if wanted is None else ""
        raise BadRow(f"{found} {name!r}; the fields are {names_of(names)}{hint}")
    return names.index(name)


def text_columns(names: Sequence[str], options: ReadOptions) -> list[int]:
    """Return the indexes of the columns that contain text.

    If the options name several text fields, the columns with these names contain text. Otherwise,
    the column that :func:`text_column` finds contains text. Raises :class:`BadRow` if no column is
    found.
    """
    if not options.fields:
        return [text_column(names, options.single_field)]
    found = [text_column(names, name) for name in options.fields if name in names]
    if not found:
        raise BadRow(none_of(options.fields, names))
    return found


def none_of(fields: Sequence[str], names: Sequence[str] | Mapping[str, object]) -> str:
    """Return the message for a row that lacks all ``fields``. ``names``: the fields it has."""
    return f"none of the fields {names_of(fields)}; the fields are {names_of(names)}"


def join_texts(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """Join the non-empty texts of each row by blank lines. A row of nulls gives null."""
    if len(columns) == 1:
        return columns[0]
    texts = [column.view(pa.binary()) for column in columns]
    null, empty = pa.scalar(None, pa.binary()), pa.scalar(b"", pa.binary())
    filled = [pc.if_else(pc.equal(text, empty), null, text) for text in texts]
    # Arrow drops a row of nulls alone, so it must not have one.
    filled[0] = pc.if_else(pc.is_null(pc.coalesce(*filled)), empty, filled[0])
    between = pa.scalar(BETWEEN.encode(), pa.binary())
    joined = pc.binary_join_element_wise(*filled, between, null_handling="skip")
    return pc.if_else(pc.is_valid(pc.coalesce(*texts)), joined, null).view(pa.string())
