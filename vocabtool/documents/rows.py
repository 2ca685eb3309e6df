"""What every reader of documents is asked and gives: requests, batches of texts, bad rows.

How a format is read lives in the file of that format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.vocabulary import decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

SIZE: Final = 4 << 20  # bytes of text in a batch, unless another number is asked for
MOST_ROWS: Final = 1 << 18  # texts in a batch: an empty one takes no byte, and yet memory
REMEMBERED: Final = 10  # bad rows of which the place and the reason are kept
SHOWN: Final = 20  # field names in a message


@dataclass(frozen=True, slots=True)
class Document:
    """A text, what it is called, and what else is known of it.

    ``text``: bytes that are not UTF-8 stand in it as Python's ``surrogateescape`` puts them.
    """

    id: str
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts that follow each other in one source; row ``i`` of everything is the same document.

    ``source``: as the caller named it; ``-`` for standard input, ``texts`` for an iterable.
    ``texts``: Arrow ``string`` array of length n without nulls, perhaps not UTF-8, perhaps a slice.
    ``numbers``: int64, shape (n,), ascending: the line or row of each text, counted from 1.
    ``ids``: likewise an array, where the documents have ids other than their places.
    ``columns``: the fields that were to be kept, as such arrays with nulls where a row has none.
    ``fields``: what else their rows hold, where that was asked for.
    """

    source: str
    texts: pa.StringArray
    numbers: NDArray[np.int64]
    ids: pa.StringArray | None = None
    columns: Mapping[str, pa.StringArray] = field(default_factory=dict)
    fields: Sequence[dict[str, object]] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Where a document stands, as in ``corpus.jsonl:17``."""
        return f"{self.source}:{self.numbers[row]}"

    def id_of(self, row: int) -> str:
        """The id of a document: its own, else its place."""
        return self.place(row) if self.ids is None else decode(bytes(self.ids[row].as_buffer()))

    def id_array(self) -> pa.StringArray:
        """The ids, or the places where there are none: Arrow ``string`` array of length n."""
        return places(self.source, self.numbers) if self.ids is None else self.ids

    def part(self, start: int, end: int) -> Batch:
        """The rows from ``start`` to ``end``; the bytes of the texts are shared."""
        size = end - start
        return Batch(
            self.source,
            self.texts.slice(start, size),
            self.numbers[start:end],
            None if self.ids is None else self.ids.slice(start, size),
            {name: column.slice(start, size) for name, column in self.columns.items()},
            self.fields and self.fields[start:end],
        )

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """The rows that are chosen; ``chosen``: shape (n,)."""
        import pyarrow as pa

        mask = pa.array(chosen)
        return Batch(
            self.source,
            self.texts.filter(mask),
            self.numbers[chosen],
            None if self.ids is None else self.ids.filter(mask),
            {name: column.filter(mask) for name, column in self.columns.items()},
            self.fields and [self.fields[row] for row in np.flatnonzero(chosen).tolist()],
        )


class Skip(NamedTuple):
    """A row that was passed over: its place, as in ``corpus.jsonl:17``, and why."""

    place: str
    reason: str


@dataclass(slots=True)
class Skipped:
    """What was passed over, counted while documents are read; ``first`` are the first few."""

    count: int = 0
    first: list[Skip] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        """Count one row more."""
        self.count += 1
        if len(self.first) < REMEMBERED:
            self.first.append(Skip(place, reason))


class Repeat(NamedTuple):
    """An id that was there before; the places are as in ``corpus.jsonl:17``."""

    id: str
    place: str
    earlier: str


@dataclass(slots=True)
class Repeated:
    """How many documents were left out because their ids repeat; ``first`` are the first few."""

    count: int = 0
    first: list[Repeat] = field(default_factory=list)


@dataclass(slots=True)
class ReadLog:
    """What happened while documents were read.

    ``skipped``: rows that were passed over. ``repeated``: documents that were left out because of
    their ids. ``bytes``: how much of the files, as they lie on the disk, is read so far.
    """

    skipped: Skipped = field(default_factory=Skipped)
    repeated: Repeated = field(default_factory=Repeated)
    bytes: int = 0


class BadRow(ValueError):
    """Why one row holds no document; whoever knows its number refuses it."""


@dataclass(slots=True)
class Ahead:
    """How many documents are still to be left out before the first one that is wanted.

    ``unread``: whether a reader may leave out rows at the start of its file without a look at
    them: where bad rows raise there are none, and so each row is a document.
    ``compared``: whether ids that documents come with are looked at also where they are left out.
    """

    left: int
    unread: bool
    compared: bool

    def pass_over(self, rows: int) -> bool:
        """Whether the next so many rows are left out unread; if so, they are counted."""
        if not self.unread or rows > self.left:
            return False
        self.left -= rows
        return True


class Request(NamedTuple):
    """What is asked of a source.

    ``field``: which one holds the text; ``None``: the one that the format takes by itself.
    ``id_field``: which one holds the id, if one does. ``keep``: which ones become columns.
    ``size``: about how many bytes of text a batch is to hold.
    ``whole``: whether the other fields are wanted too.
    ``refuse``: called with the number of each bad row and the reason; may raise.
    ``ahead``: what need not be read; rows that are given out nevertheless are left out later.
    ``rows``: how many documents that come one by one are gathered at most.
    """

    source: str
    field: str | None
    id_field: str | None
    keep: tuple[str, ...]
    size: int
    whole: bool
    refuse: Callable[[int, str], None]
    ahead: Ahead
    rows: int = MOST_ROWS


def strings(texts: Sequence[bytes | None]) -> pa.StringArray:
    """Texts as an Arrow ``string`` array, without a look at their bytes."""
    import pyarrow as pa

    return pa.array(texts, pa.binary()).view(pa.string())


def places(source: str, numbers: NDArray[np.int64]) -> pa.StringArray:
    """``source:number`` for each number, as an Arrow ``string`` array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    start = strings([encode(f"{source}:")])[0]
    return pc.binary_join_element_wise(start, pa.array(numbers).cast(pa.string()), "")


def valid(batch: Batch) -> NDArray[np.bool_]:
    """Which rows have a text, and an id if they are to have one: shape (n,)."""
    there = np.asarray(batch.texts.is_valid())
    return there if batch.ids is None else there & np.asarray(batch.ids.is_valid())


def no_columns(request: Request, count: int) -> dict[str, pa.StringArray]:
    """The fields that were to be kept, of so many rows that have none."""
    import pyarrow as pa

    return {name: pa.nulls(count, pa.string()) for name in request.keep}


def bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Where the texts start and end in their buffer: shape (n + 1,)."""
    if not len(texts):
        return np.zeros(1, np.int32)
    found = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1 + texts.offset)
    return found[texts.offset :]


def in_size(batch: Batch, size: int) -> Iterator[Batch]:
    """The batch in parts of at most ``size`` bytes of text (or one text) and ``MOST_ROWS`` rows."""
    for start, end in spans(bounds(batch.texts), size):
        yield batch if end - start == len(batch) else batch.part(start, end)


def spans(ends: NDArray[np.integer[Any]], size: int) -> Iterator[tuple[int, int]]:
    """Spans of n rows that follow each other, cut as :func:`in_size` says; ``ends``: (n + 1,)."""
    start, rows = 0, len(ends) - 1
    while start < rows:
        full = int(np.searchsorted(ends, int(ends[start]) + size, "right")) - 1
        end = min(max(full, start + 1), start + MOST_ROWS, rows)
        yield start, end
        start = end


def names_of(fields: Sequence[str] | Mapping[str, object]) -> str:
    """Field names for a message: the first few of them."""
    shown = ", ".join(map(repr, [*fields][:SHOWN]))
    return f"{shown}, ..." if len(fields) > SHOWN else shown or "none"


def text_column(names: Sequence[str], wanted: str | None) -> int:
    """Which column holds the text: the one asked for, else ``text``, else the only one.

    Raises :class:`BadRow` where there is no such column, or more than one of that name.
    """
    if wanted is None and len(names) == 1:
        return 0
    name = "text" if wanted is None else wanted
    if names.count(name) != 1:
        found = "no field" if name not in names else "more than one field"
        hint = " Say which one holds the text: --field (field=)." if wanted is None else ""
        raise BadRow(f"{found} {name!r}; the fields are {names_of(names)}.{hint}")
    return names.index(name)
