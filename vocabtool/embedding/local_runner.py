"""Shards made on this machine: by threads of this process, or by several processes.

In one process reading, encoding and writing overlap. A shard is begun when the one before it is on
the disk: what a kill costs is one shard a worker, whatever runs ahead is only read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from vocabtool.embedding.making import Made, Passed, ShardMaker, Work
from vocabtool.embedding.slabs import Slab
from vocabtool.errors import VocabtoolError
from vocabtool.system.parallel import closed_after, parallel_map, prefetch

T = TypeVar("T")

AHEAD: Final = 16  # slabs that are read before they are asked for

Done = Mapping[int, int]
"""Shards that are there, by number: how many documents each holds."""


def run_threads(slabs: Iterator[Slab], done: Done, work: Work, passed: Passed) -> Iterator[Made]:
    """Make the shards that are not ``done``, in order, in this process."""
    with closing(ShardMaker(work)) as maker:
        wanted = map(maker.prepare, missing(slabs, done))
        with closed_after(prefetch(wanted, AHEAD)) as ready:
            for first in ready:
                group = until_full(first, ready, lambda prepared: prepared.slab.full)
                yield maker.make(first.slab.shard, group, passed)


def until_full(first: T, others: Iterator[T], full: Callable[[T], bool]) -> Iterator[T]:
    """What is of one shard: the first, and the others up to the one that fills it."""
    part: T | None = first
    while part is not None:
        yield part
        part = None if full(part) else next(others, None)


def missing(slabs: Iterator[Slab], done: Done) -> Iterator[Slab]:
    """The slabs of shards that are not ``done``.

    Raises :class:`VocabtoolError` at the end where a shard that is done is none of these documents:
    a stream under an old name, or a file that was changed and given its old time.
    """
    met: Counter[int] = Counter()
    for slab in slabs:
        if slab.shard in done:
            met[slab.shard] += slab.table.num_rows
        else:
            yield slab
    for number, documents in done.items():
        if met[number] != documents:
            raise VocabtoolError(
                f"shard {number} holds {documents:,} documents, and now there are {met[number]:,} "
                "for it: the documents changed; start over with --force"
            )


class Task(NamedTuple):
    """A shard to be made, whole. ``slabs``: an Arrow stream, a record batch each.

    Packed because Arrow pickles, with each slab, all that was read together with it.
    """

    number: int
    slabs: bytes


def tasks(slabs: Iterator[Slab], done: Done) -> Iterator[Task]:
    """The shards that are not ``done``."""
    wanted = missing(slabs, done)
    for first in wanted:
        yield Task(first.shard, _packed(until_full(first, wanted, lambda slab: slab.full)))


def _packed(slabs: Iterator[Slab]) -> bytes:
    import pyarrow as pa

    first = next(slabs)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, first.table.schema) as writer:
        for slab in chain([first], slabs):
            (rows,) = slab.table.to_batches()
            writer.write_batch(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(task: Task) -> Iterator[Slab]:
    import pyarrow as pa

    with pa.ipc.open_stream(task.slabs) as reader:
        for rows in reader:
            yield Slab(task.number, pa.Table.from_batches([rows]), False)


class TaskMaker:
    """Makes whole shards in another process, where it opens the encoder once."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, task: Task) -> Made:
        prepared = map(self._maker.prepare, _unpacked(task))
        with closed_after(prefetch(prepared, AHEAD)) as ready:
            return self._maker.make(task.number, ready)

    @cached_property
    def _maker(self) -> ShardMaker:
        return ShardMaker(self._work)

    def __reduce__(self) -> tuple[type[TaskMaker], tuple[Work]]:
        return TaskMaker, (self._work,)


def run_processes(
    slabs: Iterator[Slab], done: Done, work: Work, workers: int, passed: Passed
) -> Iterator[Made]:
    """Make the shards that are not ``done`` in several processes; they come as they are made.

    Each holds one shard of texts in memory, and one more is ready for each.
    """
    made = parallel_map(
        TaskMaker(work), tasks(slabs, done), workers=workers, ordered=False, kind="processes"
    )
    with closed_after(made):
        for each in made:
            passed(each.shard.counts, each.hits)
            yield each
