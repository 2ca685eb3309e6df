"""What every reader of documents is asked and gives: requests, batches of texts, bad rows.

How a format is read lives in the file of that format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

SIZE: Final = 4 << 20  # bytes of text in a batch, unless another number is asked for
MOST_ROWS: Final = 1 << 18  # texts in a batch: an empty one takes no byte, and yet memory
REMEMBERED: Final = 10  # bad rows of which the place and the reason are kept
SHOWN: Final = 20  # field names in a message


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Texts that follow each other in one source; row ``i`` of everything is the same document.

    ``source``: as the caller named it; ``-`` for standard input, ``texts`` for an iterable.
    ``texts``: Arrow ``string`` array of length n without nulls, perhaps not UTF-8, perhaps a slice.
    ``numbers``: int64, shape (n,), ascending: the line or row of each text, counted from 1.
    ``ids``: what the documents are called, where they came with ids of their own.
    ``fields``: what else their rows hold, where that was asked for.
    """

    source: str
    texts: pa.StringArray
    numbers: NDArray[np.int64]
    ids: tuple[str, ...] | None = None
    fields: Sequence[dict[str, object]] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def id_of(self, row: int) -> str:
        """The id of a document: its own, else its place, as in ``corpus.jsonl:17``."""
        return self.ids[row] if self.ids else f"{self.source}:{self.numbers[row]}"

    def part(self, start: int, end: int) -> Batch:
        """The rows from ``start`` to ``end``; the bytes of the texts are shared."""
        return Batch(
            self.source,
            self.texts.slice(start, end - start),
            self.numbers[start:end],
            self.ids and self.ids[start:end],
            self.fields and self.fields[start:end],
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


class BadRow(ValueError):
    """Why one row holds no document; whoever knows its number refuses it."""


class Request(NamedTuple):
    """What is asked of a source.

    ``field``: which one holds the text; ``None``: the one that the format takes by itself.
    ``size``: about how many bytes of text a batch is to hold.
    ``whole``: whether the other fields are wanted too.
    ``refuse``: called with the number of each bad row and the reason; may raise.
    """

    source: str
    field: str | None
    size: int
    whole: bool
    refuse: Callable[[int, str], None]


def strings(texts: Sequence[bytes]) -> pa.StringArray:
    """Texts as an Arrow ``string`` array, without a look at their bytes."""
    import pyarrow as pa

    return pa.array(texts, pa.binary()).view(pa.string())


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
        hint = " Say which one holds the text." if wanted is None else ""
        raise BadRow(f"{found} {name!r}; the fields are {names_of(names)}.{hint}")
    return names.index(name)
