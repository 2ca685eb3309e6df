"""Documents whose ids repeat: an error, or only the first or the last of them passes.

The ids are in a table of SQLite in a temporary file, so that memory does not grow with them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.documents.batch import MAX_EXAMPLES, Batch, DuplicateCounter, Repeat
from vocabtool.errors import InvalidFile, VocabtoolError

WHAT_NEXT: Final = "mend it, or keep one of them with --on-duplicate first or last"
CACHE_KIB: Final = 16 << 10
TABLE: Final = f"""
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE ids (id BLOB PRIMARY KEY, row, last, source, number) WITHOUT ROWID;
BEGIN
"""
INSERT: Final = "INSERT INTO ids VALUES (?, ?, ?, ?, ?) ON CONFLICT DO "


class SeenIds:
    """The ids of a stream: of each where it came first, and the row where it came last."""

    def __init__(self, *, last: bool = False) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        with _errors():
            self._database.executescript(TABLE)
        self._insert = INSERT + ("UPDATE SET last = excluded.last" if last else "NOTHING")
        self._sources: dict[str, int] = {}
        self._rows = 0

    def close(self) -> None:
        """Remove the table."""
        self._database.close()

    def add(self, ids: pa.StringArray, source: str, numbers: NDArray[np.int64]) -> list[int]:
        """Take the next ids; which of them, ascending, were there before: not those of places."""
        keys = ids.view(pa.binary()).to_pylist()
        first = self._rows
        self._rows += len(keys)
        place = self._sources.setdefault(source, len(self._sources))
        count = self._count()
        rows = range(first, self._rows)
        values = zip(keys, rows, rows, repeat(place), numbers.tolist())
        with _errors():
            self._database.executemany(self._insert, values)
        if self._count() - count == len(keys) and "NOTHING" in self._insert:
            return []
        return [row for row, key in enumerate(keys) if self._look_up("row", key) < first + row]

    def rows_that_come_last(self, ids: pa.StringArray, first: int) -> NDArray[np.bool_]:
        """Whether no later row has the id; ``first``: the row of the first id. Shape (n,)."""
        keys = ids.view(pa.binary()).to_pylist()
        found = [self._look_up("last", key) == first + row for row, key in enumerate(keys)]
        return np.array(found, np.bool_)

    def first_place(self, id_: bytes) -> str:
        """Where an id came first, as in ``corpus.jsonl:17``."""
        source = [*self._sources][self._look_up("source", id_)]
        return f"{source}:{self._look_up('number', id_)}"

    def _look_up(self, column: str, id_: bytes) -> int:
        query = f"SELECT {column} FROM ids WHERE id = ?"  # noqa: S608 - a name of ours
        with _errors():
            return int(self._database.execute(query, (id_,)).fetchone()[0])

    def _count(self) -> int:
        return self._database.total_changes


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        what = f"the ids of the documents do not fit the folder of temporary files: {error}"
        raise VocabtoolError(
            f"{what}. Make room there, or name another folder in TMPDIR"
        ) from error


def refuse_repeated(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches as they are. Raises :class:`InvalidFile` where an id was there before."""
    with closing(SeenIds()) as seen:
        for batch in batches:
            if rows := _repeated_rows(seen, batch):
                repeat_ = _repeat(seen, batch, rows[0])
                what = f"the id {repeat_.id!r} is also that of {repeat_.earlier} ({WHAT_NEXT})"
                raise InvalidFile(what, file=repeat_.place)
            yield batch


def first_of_repeated(batches: Iterable[Batch], repeated: DuplicateCounter) -> Iterator[Batch]:
    """The documents without those whose ids were there before."""
    with closing(SeenIds()) as seen:
        for batch in batches:
            rows = _count_repeated(seen, batch, repeated)
            chosen = np.ones(len(batch), np.bool_)
            chosen[rows] = False
            if chosen.any():
                yield batch.only(chosen) if rows else batch


def last_of_repeated(
    batches: Iterable[Batch], again: Iterable[Batch], repeated: DuplicateCounter
) -> Iterator[Batch]:
    """The documents without those whose ids come again; ``again``: the same as ``batches``."""
    with closing(SeenIds(last=True)) as seen:
        for batch in batches:
            _count_repeated(seen, batch, repeated)
        row = 0
        for batch in again:
            if batch.ids is None:
                yield batch
                continue
            chosen = seen.rows_that_come_last(batch.ids, row)
            row += len(batch)
            if chosen.any():
                yield batch if chosen.all() else batch.only(chosen)


def _repeated_rows(seen: SeenIds, batch: Batch) -> list[int]:
    """Places that stand for ids are never there twice."""
    return [] if batch.ids is None else seen.add(batch.ids, batch.source, batch.numbers)


def _count_repeated(seen: SeenIds, batch: Batch, repeated: DuplicateCounter) -> list[int]:
    """The rows whose ids were there before, counted; the first few of all are remembered."""
    rows = _repeated_rows(seen, batch)
    repeated.count += len(rows)
    room = MAX_EXAMPLES - len(repeated.first)
    repeated.first += [_repeat(seen, batch, row) for row in rows[:room]]
    return rows


def _repeat(seen: SeenIds, batch: Batch, row: int) -> Repeat:
    assert batch.ids is not None  # noqa: S101 - else it cannot be there twice
    earlier = seen.first_place(bytes(batch.ids[row].as_buffer()))
    return Repeat(batch.id_of(row), batch.place(row), earlier)
