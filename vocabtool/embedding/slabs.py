"""Documents cut into shards, and these into slabs that are encoded together.

Where a slab begins and ends depends on the documents alone, not on how they were read: so the same
texts are in one batch of the encoder whenever and wherever a shard is made.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import bounds
from vocabtool.documents.reading import Batch

if TYPE_CHECKING:
    import pyarrow as pa

SLAB_ROWS: Final = 1024  # or one batch of the encoder, where that is larger
SLAB_BYTES: Final = 4 << 20  # of text, or a single longer one
SHARD_BYTES: Final = 256 << 20  # of text: then a shard ends, however few rows it has
ID: Final = "id"
TEXT: Final = "text"


class Slab(NamedTuple):
    """Documents that follow each other in one shard.

    ``shard``: its number. ``table``: columns ``id``, ``text`` and the kept fields, ``string``,
    perhaps not UTF-8, each of one chunk. ``full``: whether the shard ends with it, so that nobody
    waits for the next document; the last shard may end otherwise.
    """

    shard: int
    table: pa.Table
    full: bool


class Cutter:
    """Where shards and slabs end. ``shard_rows``: rows of a shard; ``batch_size``: of a batch."""

    def __init__(self, shard_rows: int, batch_size: int) -> None:
        self._shard_rows = shard_rows
        self._slab_rows = batch_size * max(1, SLAB_ROWS // batch_size)
        self._shard = self._rows = self._bytes = 0

    def cut(self, batches: Iterable[Batch], keep: Sequence[str]) -> Iterator[Slab]:
        """The documents of ``batches`` in order, as slabs."""
        import pyarrow as pa

        rest: pa.Table | None = None
        for batch in batches:
            table = _table(batch, keep)
            if rest is not None:
                table = pa.concat_tables([rest, table]).combine_chunks()
            rest = yield from self._slabs(table, final=False)
        if rest is not None:
            yield from self._slabs(rest, final=True)

    def _slabs(self, table: pa.Table, *, final: bool) -> Generator[Slab, None, pa.Table]:
        """The slabs that a table holds; returns the rows behind them."""
        ends = bounds(table.column(TEXT).chunk(0)) if table.num_rows else np.zeros(1, np.int32)
        start = 0
        while start < table.num_rows:
            end = self._end(ends, start)
            if end is None:
                if not final:
                    break
                end = table.num_rows
            shard, full = self._shard, self._count(end - start, int(ends[end]) - int(ends[start]))
            yield Slab(shard, table.slice(start, end - start).combine_chunks(), full)
            start = end
        return table.slice(start)

    def _end(self, ends: NDArray[np.int32], start: int) -> int | None:
        """Where the slab ends that begins at a row; ``None``: behind the rows at hand."""
        rows = min(self._slab_rows, self._shard_rows - self._rows)
        full = int(np.searchsorted(ends, int(ends[start]) + SLAB_BYTES, "right")) - 1
        end = min(start + rows, max(full, start + 1))
        return end if end < len(ends) - 1 or end == start + rows else None

    def _count(self, rows: int, size: int) -> bool:
        """Whether the shard is full now."""
        self._rows += rows
        self._bytes += size
        full = self._rows == self._shard_rows or self._bytes >= SHARD_BYTES
        if full:
            self._shard += 1
            self._rows = self._bytes = 0
        return full


def _table(batch: Batch, keep: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    columns = [batch.id_array(), batch.texts, *(batch.columns[name] for name in keep)]
    return pa.table(columns, names=[ID, TEXT, *keep])
