"""Runners that make the shards: threads of this process, several processes, or Ray actors.

A worker writes a shard to disk before it starts the next one, so a killed run loses at most one
shard per worker. With Ray, every node must see inputs and output under the same paths.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from vocabtool.documents.batch import Measure
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import ReadLog, Skip, Sources, batches
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import Counts, Shard
from vocabtool.embedding.shard_maker import (
    SLAB_ROWS,
    OnSlab,
    ShardMaker,
    ShardResult,
    Slab,
    Work,
    cut_slabs,
)
from vocabtool.errors import UnsupportedFormat, VocabtoolError
from vocabtool.system.parallel import closed_after, parallel_map, prefetch

AHEAD: Final = 16  # slabs read ahead
READ_BYTES: Final = 1 << 20  # of text read at a time; small, so that encoding starts early
RAY_READING_CPUS: Final = 0.5  # if it were an actor's 1, Ray would fuse reading into the actor
LAST: Final = -1  # number of the row with the read log, which is not a shard

Columns = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """The documents of a run.

    ``done``: how many documents each finished shard has; the keys are the numbers of the shards.
    """

    sources: Sources
    options: ReadOptions
    plan: Plan
    done: Mapping[int, int]
    measure: Measure | None = None

    def slabs(self, log: ReadLog) -> Iterator[Slab]:
        """Yield the slabs of unfinished shards.

        Raises :class:`VocabtoolError` if a finished shard would now have more or fewer documents.
        """
        plan, found = self.plan, Counter[int]()
        rows = min(plan.shard_rows, SLAB_ROWS)
        read = batches(
            self.sources, self.options, log=log, size=READ_BYTES, rows=rows, measure=self.measure
        )
        for slab in cut_slabs(read, plan.keep, plan.shard_rows, plan.batch_size):
            if slab.shard in self.done:
                found[slab.shard] += slab.table.num_rows
            else:
                yield slab
        for number, documents in self.done.items():
            if found[number] != documents:
                raise VocabtoolError(
                    f"the sources changed: shard {number} contains {documents:,} documents, but "
                    f"would now contain {found[number]:,}; start over with --force"
                )


def run_threads(
    reading: Reading, work: Work, log: ReadLog, on_slab: OnSlab
) -> Iterator[ShardResult]:
    with closing(ShardMaker(work)) as maker:
        prepared = prefetch(map(maker.prepare, reading.slabs(log)), AHEAD)
        with closed_after(prepared) as slabs:
            for first in slabs:
                yield maker.make(first.shard, _of_one_shard(first, slabs), on_slab)


def _of_one_shard(first: Slab, others: Iterator[Slab]) -> Iterator[Slab]:
    yield first
    if not first.full:
        for slab in others:
            yield slab
            if slab.full:
                return


@dataclass(frozen=True, slots=True)
class Task:
    """The documents of one shard, for the worker that makes the shard.

    ``slabs``: the documents as an Arrow IPC stream.
    """

    number: int
    slabs: bytes


def tasks(reading: Reading, log: ReadLog) -> Iterator[Task]:
    slabs = reading.slabs(log)
    for first in slabs:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, first.table.schema) as writer:
            for slab in _of_one_shard(first, slabs):
                (rows,) = slab.table.to_batches()
                writer.write_batch(rows)
        yield Task(first.shard, sink.getvalue().to_pybytes())


class TaskMaker:
    """Makes shards in a worker process. Each process opens the encoder only once."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, task: Task) -> ShardResult:
        def slabs() -> Iterator[Slab]:
            with pa.ipc.open_stream(task.slabs) as reader:
                for rows in reader:
                    table = pa.Table.from_batches([rows])
                    yield self._maker.prepare(Slab(task.number, table, False))

        with closed_after(prefetch(slabs(), AHEAD)) as prepared:
            return self._maker.make(task.number, prepared)

    @cached_property
    def _maker(self) -> ShardMaker:
        return ShardMaker(self._work)

    def __reduce__(self) -> tuple[type[TaskMaker], tuple[Work]]:
        return TaskMaker, (self._work,)


def run_processes(
    reading: Reading, work: Work, log: ReadLog, on_slab: OnSlab, workers: int
) -> Iterator[ShardResult]:
    """Make the missing shards in several processes; yield results as shards are finished.

    Each process has the texts of one shard in memory. The calling process has about as many texts
    in memory as all these processes together.
    """
    results = parallel_map(
        TaskMaker(work), tasks(reading, log), workers=workers, ordered=False, kind="processes"
    )
    with closed_after(results):
        for result in results:
            on_slab(result.shard.counts, result.hits)
            yield result


def run_ray(
    reading: Reading,
    work: Work,
    log: ReadLog,
    on_slab: OnSlab,
    workers: int,
    address: str | None = None,
) -> Iterator[ShardResult]:
    """Make the missing shards in ``workers`` Ray actors; yield results as shards are finished.

    ``address``: the address of a Ray cluster. If it is ``None``, Ray is started on this machine,
    and stopped at the end.
    """
    with _ray(address, workers) as ray:
        shards = (
            ray.data.from_items([0])
            .map_batches(partial(_read, reading), batch_size=None, num_cpus=RAY_READING_CPUS)
            .map_batches(
                Actor, fn_constructor_args=(work,), batch_size=1, concurrency=workers, num_cpus=1
            )
        )
        for row in shards.iter_rows():
            record = json.loads(row["record"])
            if row["number"] == LAST:
                log.skipped.count = record["skipped"]["count"]
                log.skipped.first = [Skip(*skip) for skip in record["skipped"]["first"]]
                log.repeated.count = record["repeated"]["count"]
                continue
            counts = Counts(**record["shard"].pop("counts"))
            result = ShardResult(Shard(**record["shard"], counts=counts), record["hits"])
            on_slab(counts, result.hits)
            yield result


def _read(reading: Reading, _: Columns) -> Iterator[Columns]:
    """Yield the documents of each missing shard as one row, and the read log as the last row."""
    log = ReadLog()
    for task in tasks(reading, log):
        yield _row(task.number, task.slabs, b"")
    yield _row(LAST, b"", json.dumps(asdict(log)).encode())


class Actor:
    """A Ray actor that opens the encoder once, and makes a shard from each row."""

    def __init__(self, work: Work) -> None:
        self._make = TaskMaker(work)

    def __call__(self, row: Columns) -> Columns:
        number, record = int(row["number"][0]), bytes(row["record"][0])
        if number != LAST:
            result = self._make(Task(number, bytes(row["slabs"][0])))
            record = json.dumps(asdict(result)).encode()
        return _row(number, b"", record)


def _row(number: int, slabs: bytes, record: bytes) -> Columns:
    columns = {"slabs": np.array([slabs], object), "record": np.array([record], object)}
    return {"number": np.array([number], np.int64), **columns}


@contextmanager
def _ray(address: str | None, workers: int) -> Iterator[Any]:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UnsupportedFormat(
            f"the runner ray needs Ray, which cannot be imported ({error}): pip install '.[ray]'"
        ) from error
    was_there = ray.is_initialized()
    if not was_there:
        arguments: dict[str, Any] = {"address": address} if address else {"num_cpus": workers + 1}
        ray.init(**arguments, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    before = context.target_max_block_size, context.enable_progress_bars
    # Each shard is its own block, so that it goes to any free actor as soon as it is read.
    context.target_max_block_size, context.enable_progress_bars = 1, False
    try:
        yield ray
    except ray.exceptions.RayTaskError as error:  # without the traceback in Ray's message
        if isinstance(error.cause, VocabtoolError | OSError | MemoryError):
            raise error.cause from None
        raise VocabtoolError(f"a worker of Ray failed: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        raise VocabtoolError(f"Ray failed: {error}") from error
    finally:
        context.target_max_block_size, context.enable_progress_bars = before
        if not was_there:
            ray.shutdown()
