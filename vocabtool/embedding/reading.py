"""How a run reads its documents: the sources and what is asked of them, down to slabs.

It can be pickled where the sources can (names of files, above all): a worker elsewhere may read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vocabtool.documents.reading import ReadLog, ReadOptions, Sources, batches
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.slabs import SLAB_ROWS, Cutter, Slab

BLOCK: Final = 1 << 20  # bytes of text read at a time: encoding begins early


@dataclass(frozen=True)
class Reading:
    """The documents of a plan, and how they are read."""

    sources: Sources
    plan: Plan
    options: ReadOptions

    def slabs(self, log: ReadLog) -> Iterator[Slab]:
        """The documents from the first on, as slabs; counts what it leaves out."""
        plan = self.plan
        rows = min(plan.shard_rows, SLAB_ROWS)
        found = batches(self.sources, self.options, log=log, size=BLOCK, rows=rows)
        return Cutter(plan.shard_rows, plan.batch_size).cut(found, plan.keep)
