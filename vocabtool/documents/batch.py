"""What every reader of documents is given and gives: a source, batches of texts, bad rows.

How a format is read is in the file of that format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.documents.options import ReadOptions
from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import decode, encode

BATCH_BYTES: Final = 4 << 20  # bytes of text in a batch, unless another number is asked for
MAX_ROWS: Final = 1 << 18  # texts in a batch: an empty one takes no byte, and yet memory
MAX_EXAMPLES: Final = 10  # bad rows of which the place and the reason are kept
SKIP_IT: Final = "mend or cut it, or leave it out with --on-error skip"
MAX_NAMES: Final = 20  # field names in a message

Kind = Literal["null", "integer", "number", "boolean", "string"]


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
    ``kinds``: what the values of the kept fields are, where that was found out.
    """

    source: str
    texts: pa.StringArray
    numbers: NDArray[np.int64]
    ids: pa.StringArray | None = None
    columns: Mapping[str, pa.StringArray] = field(default_factory=dict)
    fields: Sequence[dict[str, object]] | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)

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
        if self.ids is not None:
            return self.ids
        source = strings([encode(f"{self.source}:")])[0]
        return pc.binary_join_element_wise(source, pa.array(self.numbers).cast(pa.string()), "")

    def part(self, start: int, end: int) -> Batch:
        """The rows from ``start`` to ``end``; the bytes of the texts are shared."""
        return self._with(
            lambda column: column.slice(start, end - start), np.arange(start, min(end, len(self)))
        )

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """The rows that are chosen; ``chosen``: shape (n,)."""
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
        )


class Skip(NamedTuple):
    """A row that was passed over: its place, as in ``corpus.jsonl:17``, and why."""

    place: str
    reason: str


@dataclass(slots=True)
class SkipCounter:
    """What was passed over, counted while documents are read; ``first`` are the first few."""

    count: int = 0
    first: list[Skip] = field(default_factory=list)

    def add(self, place: str, reason: str) -> None:
        """Count one row more."""
        self.count += 1
        if len(self.first) < MAX_EXAMPLES:
            self.first.append(Skip(place, reason))


class Repeat(NamedTuple):
    """An id that was there before; the places are as in ``corpus.jsonl:17``."""

    id: str
    place: str
    earlier: str


@dataclass(slots=True)
class DuplicateCounter:
    """How many documents were left out because their ids repeat; ``first`` are the first few."""

    count: int = 0
    first: list[Repeat] = field(default_factory=list)


@dataclass(slots=True)
class ReadLog:
    """What happened while documents were read.

    ``skipped``: rows that were passed over. ``repeated``: documents that were left out because of
    their ids. ``bytes``: how much of the files, as they lie on the disk, is read so far.
    """

    skipped: SkipCounter = field(default_factory=SkipCounter)
    repeated: DuplicateCounter = field(default_factory=DuplicateCounter)
    bytes: int = 0


class BadRow(ValueError):
    """Why one row holds no document; whoever knows its number refuses it."""


@dataclass(slots=True)
class Ahead:
    """How many documents are still to be left out before the first one that is wanted.

    ``unread``: whether a reader may leave out rows at the start of its file without a look at
    them: where bad rows raise there are none, and so each row is a document.
    """

    left: int
    unread: bool

    def pass_over(self, rows: int) -> bool:
        """Whether the next so many rows are left out unread; if so, they are counted."""
        if not self.unread or rows > self.left:
            return False
        self.left -= rows
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked of one source.

    ``options``: which fields, above all. ``log``: counts bad rows. ``size``: about how many bytes
    of text a batch is to hold. ``rows``: how many documents that come one by one are gathered at
    most. ``whole``: whether all other fields are wanted too.
    ``ahead``: what need not be read; rows that are given out nevertheless are left out later.
    """

    source: str = ""
    options: ReadOptions
    log: ReadLog
    size: int
    rows: int
    whole: bool
    ahead: Ahead

    def refuse(self, number: int, reason: str) -> None:
        """Pass a bad row over, or raise :class:`InvalidFile`, as it was asked for."""
        place = f"{self.source}:{number}"
        if self.options.on_error == "raise":
            raise InvalidFile(f"{reason} ({SKIP_IT})", file=place)
        self.log.skipped.add(place, reason)


def strings(texts: Sequence[bytes | None]) -> pa.StringArray:
    """Texts as an Arrow ``string`` array, without a look at their bytes."""
    return pa.array(texts, pa.binary()).view(pa.string())


def null_columns(request: Request, count: int) -> dict[str, pa.StringArray]:
    """The fields that were to be kept, of so many rows that have none."""
    return {name: pa.nulls(count, pa.string()) for name in request.options.keep}


def bounds(texts: pa.StringArray) -> NDArray[np.int32]:
    """Where the texts start and end in their buffer: shape (n + 1,)."""
    if not len(texts):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1 + texts.offset)
    return offsets[texts.offset :]


def in_size(batch: Batch, size: int) -> Iterator[Batch]:
    """The batch in parts of at most ``size`` bytes of text (or one text) and ``MAX_ROWS`` rows."""
    for start, end in spans(bounds(batch.texts), size):
        yield batch if end - start == len(batch) else batch.part(start, end)


def spans(ends: NDArray[np.integer[Any]], size: int) -> Iterator[tuple[int, int]]:
    """Spans of n rows that follow each other, cut as :func:`in_size` says; ``ends``: (n + 1,)."""
    start, rows = 0, len(ends) - 1
    while start < rows:
        full = int(np.searchsorted(ends, int(ends[start]) + size, "right")) - 1
        end = min(max(full, start + 1), start + MAX_ROWS, rows)
        yield start, end
        start = end


def names_of(fields: Sequence[str] | Mapping[str, object]) -> str:
    """Field names for a message: the first few of them."""
    shown = ", ".join(map(repr, [*fields][:MAX_NAMES]))
    return f"{shown}, ..." if len(fields) > MAX_NAMES else shown or "none"


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
