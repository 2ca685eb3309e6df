"""How a run reads its documents: the sources and what is asked of them, down to slabs.

It can be pickled where the sources can (names of files, above all): a worker elsewhere may read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from vocabtool.documents.reading import (
    OnDuplicate,
    OnError,
    Reached,
    Repeated,
    Skip,
    Skipped,
    Sources,
    batches,
)
from vocabtool.embedding.inputs import can_be_read_again, files_of
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.slabs import SLAB_ROWS, Cutter, Slab

BLOCK: Final = 1 << 20  # bytes of text read at a time: encoding begins early


@dataclass(slots=True)
class LeftOut:
    """What was not passed on: bad rows, and documents of an id that was there before.

    ``reached``: how far the files are read.
    """

    skipped: Skipped = field(default_factory=Skipped)
    repeated: Repeated = field(default_factory=Repeated)
    reached: Reached = field(default_factory=Reached)

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    def take(self, told: dict[str, Any]) -> None:
        """What another process told."""
        self.skipped.count = told["skipped"]["count"]
        self.skipped.first = [Skip(*skip) for skip in told["skipped"]["first"]]
        self.repeated.count = told["repeated"]["count"]


@dataclass(frozen=True)
class Reading:
    """The documents of a plan; ``on_error``, ``on_duplicate``: what is left out of them."""

    sources: Sources
    plan: Plan
    on_error: OnError
    on_duplicate: OnDuplicate

    def slabs(self, left_out: LeftOut) -> Iterator[Slab]:
        """The documents from the first on, as slabs; counts what it leaves out."""
        plan = self.plan
        told = can_be_read_again(files_of(self.sources))  # a pipe does not say how far it is read
        found = batches(
            self.sources,
            field=plan.field,
            format=plan.format,
            id_field=plan.id_field,
            keep=plan.keep,
            on_error=self.on_error,
            skipped=left_out.skipped,
            on_duplicate=self.on_duplicate,
            repeated=left_out.repeated,
            reached=left_out.reached if told else None,
            size=BLOCK,
            rows=min(plan.shard_rows, SLAB_ROWS),
        )
        return Cutter(plan.shard_rows, plan.batch_size).cut(found, plan.keep)
