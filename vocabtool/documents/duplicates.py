"""Documents whose ids repeat: an error, or only the first or the last of them passes.

How repeated ids are found is in ``vocabtool/documents/repeated_ids.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.repeated_ids import Places, RepeatedIds, Repeats
from vocabtool.documents.rows import REMEMBERED, Batch, Repeat, Repeated
from vocabtool.errors import InvalidFile

WHAT_NEXT: Final = "mend it, or keep one of them with --on-duplicate first or last"


def refuse_repeated(found: Iterable[Batch]) -> Iterator[Batch]:
    """The batches as they are. Raises :class:`InvalidFile` where an id was there before."""
    seen = _Seen()
    for batch in found:
        repeats = seen.add(batch)
        if len(repeats.rows):
            repeat = seen.repeat(batch, repeats, 0)
            what = f"the id {repeat.id!r} is also that of {repeat.earlier} ({WHAT_NEXT})"
            raise InvalidFile(what, file=repeat.place)
        yield batch


def first_of_repeated(found: Iterable[Batch], repeated: Repeated) -> Iterator[Batch]:
    """The documents without those whose ids were there before."""
    seen = _Seen()
    for batch in found:
        repeats = seen.add(batch)
        seen.tell(batch, repeats, repeated)
        yield from _without(batch, repeats.rows)


def last_of_repeated(
    found: Iterable[Batch], again: Iterable[Batch], repeated: Repeated
) -> Iterator[Batch]:
    """The documents without those whose ids come again; ``again``: the same as ``found``."""
    outdated = _outdated(found, repeated)
    places = Places()
    for batch in again:
        positions = places.add(batch.source, batch.numbers)
        first, end = np.searchsorted(outdated, [positions[0], positions[-1] + 1])
        yield from _without(batch, np.flatnonzero(np.isin(positions, outdated[first:end])))


def _outdated(found: Iterable[Batch], repeated: Repeated) -> NDArray[np.int64]:
    """The positions of documents whose ids come again, ascending: shape (r,)."""
    seen = _Seen()
    first, later = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in found:
        repeats = seen.add(batch)
        seen.tell(batch, repeats, repeated)
        first.append(repeats.earlier)
        later.append(seen.positions[repeats.rows])
    firsts, laters = np.concatenate(first), np.concatenate(later)
    order = np.lexsort((laters, firsts))
    come_again = np.append(firsts[order][1:] == firsts[order][:-1], False)[: len(order)]
    return np.sort(np.append(np.unique(firsts), laters[order][come_again]))


def _without(batch: Batch, rows: NDArray[np.int64]) -> Iterator[Batch]:
    if not len(rows):
        yield batch
        return
    chosen = np.ones(len(batch), np.bool_)
    chosen[rows] = False
    if chosen.any():
        yield batch.only(chosen)


class _Seen:
    """The ids of the batches so far, and the positions of the rows of the last one."""

    def __init__(self) -> None:
        self._ids = RepeatedIds()
        self._places = Places()
        self.positions = np.empty(0, np.int64)

    def add(self, batch: Batch) -> Repeats:
        """Which rows have an id that was there before; places that stand for ids never were."""
        self.positions = self._places.add(batch.source, batch.numbers)
        if batch.ids is None:
            return Repeats(np.empty(0, np.int64), np.empty(0, np.int64))
        return self._ids.add(batch.ids, self.positions)

    def repeat(self, batch: Batch, repeats: Repeats, at: int) -> Repeat:
        """One of a batch's repeats, for a message."""
        row = int(repeats.rows[at])
        return Repeat(batch.id_of(row), batch.place(row), self._places.of(int(repeats.earlier[at])))

    def tell(self, batch: Batch, repeats: Repeats, repeated: Repeated) -> None:
        """Count a batch's repeats, and remember the first few of all."""
        repeated.count += len(repeats.rows)
        room = REMEMBERED - len(repeated.first)
        some = range(min(room, len(repeats.rows)))
        repeated.first += [self.repeat(batch, repeats, at) for at in some]
