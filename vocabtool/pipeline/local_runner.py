"""Shards made on this machine: by threads of this process, or by several processes.

In one process reading, encoding and writing overlap. A shard is begun when the one before it is on
the disk: what a kill costs is one shard a worker, whatever runs ahead is only read.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import closing
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

from vocabtool.parallel import closed_after, parallel_map, prefetch
from vocabtool.pipeline.making import Made, Passed, ShardMaker, Work
from vocabtool.pipeline.slabs import Slab

AHEAD: Final = 16  # slabs that are read before they are asked for


def run_threads(
    slabs: Iterator[Slab], done: Container[int], work: Work, passed: Passed
) -> Iterator[Made]:
    """Make the shards that are not ``done``, in order, in this process."""
    with closing(ShardMaker(work)) as maker:
        wanted = (maker.prepare(slab) for slab in slabs if slab.shard not in done)
        with closed_after(prefetch(wanted, AHEAD)) as ready:
            for number, group in groupby(ready, key=lambda prepared: prepared.slab.shard):
                yield maker.make(number, group, passed)


class Task(NamedTuple):
    """A shard to be made, whole."""

    number: int
    slabs: list[Slab]


def tasks(slabs: Iterator[Slab], done: Container[int]) -> Iterator[Task]:
    """The shards that are not ``done``."""
    for number, group in groupby(slabs, key=lambda slab: slab.shard):
        if number not in done:
            yield Task(number, list(group))
        else:
            for _ in group:
                pass


class TaskMaker:
    """Makes whole shards in another process, where it opens the encoder once."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, task: Task) -> Made:
        ready = prefetch(map(self._maker.prepare, task.slabs), AHEAD)
        return self._maker.make(task.number, ready)

    @cached_property
    def _maker(self) -> ShardMaker:
        return ShardMaker(self._work)

    def __reduce__(self) -> tuple[type[TaskMaker], tuple[Work]]:
        return TaskMaker, (self._work,)


def run_processes(
    slabs: Iterator[Slab], done: Container[int], work: Work, workers: int, passed: Passed
) -> Iterator[Made]:
    """Make the shards that are not ``done`` in several processes; they come as they are made.

    Each holds one shard of texts in memory, and one more is ready for each.
    """
    made = parallel_map(
        TaskMaker(work), tasks(slabs, done), workers=workers, ordered=False, kind="processes"
    )
    for each in made:
        passed(each.shard.counts, each.hits)
        yield each
