"""Shards made by Ray Data: one task reads, actors hold the encoder and write.

No scheduling of our own: shards are the rows of a Ray dataset, and Ray says where and when each is
made. What is read and written lies where every node sees it under the same path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import numpy as np

from vocabtool.documents.reading import ReadLog, Skip
from vocabtool.embedding.encoding import Counts
from vocabtool.embedding.local_runner import Done, Task, TaskMaker, tasks
from vocabtool.embedding.making import Made, Passed, Work
from vocabtool.embedding.reading import Reading
from vocabtool.embedding.shard_files import Shard
from vocabtool.errors import UnsupportedFormat, VocabtoolError

Columns = dict[str, Any]

READING_CPUS: Final = 0.5  # not what an actor takes: Ray would read in the actor itself
LAST: Final = -1  # in place of a shard's number: what was left out on the way


def run_ray(
    reading: Reading,
    done: Done,
    work: Work,
    workers: int,
    log: ReadLog,
    passed: Passed,
    address: str | None = None,
) -> Iterator[Made]:
    """Make the shards that are not ``done`` by ``workers`` actors; they come as they are made.

    ``address``: of a cluster; else one is started on this machine for as long as it lasts.
    Raises :class:`UnsupportedFormat` where Ray is not installed, :class:`VocabtoolError` where it
    fails, and what failed in a worker as it was raised there.
    """
    with _cluster(address, workers) as ray, _failures(ray), _a_row_a_block(ray):
        shards = (
            ray.data.from_items([0])
            .map_batches(partial(_read, reading, done), batch_size=None, num_cpus=READING_CPUS)
            .map_batches(
                Actor, fn_constructor_args=(work,), batch_size=1, concurrency=workers, num_cpus=1
            )
        )
        for row in shards.iter_rows():
            told = json.loads(row["told"])
            if row["number"] == LAST:
                log.skipped.count = told["skipped"]["count"]
                log.skipped.first = [Skip(*skip) for skip in told["skipped"]["first"]]
                log.repeated.count = told["repeated"]["count"]
                continue
            shard = Shard(**told["shard"] | {"counts": Counts(**told["shard"]["counts"])})
            passed(shard.counts, told["hits"])
            yield Made(shard, told["hits"])


@contextmanager
def _cluster(address: str | None, workers: int) -> Iterator[Any]:
    """Ray, connected; what was started here is stopped again."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        what = "the runner ray needs Ray, which cannot be imported"
        raise UnsupportedFormat(f"{what} ({error}): pip install '.[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    started: dict[str, Any] = {"address": address} if address else {"num_cpus": workers + 1}
    ray.init(**started, include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _failures(ray: Any) -> Iterator[None]:
    """What Ray raises, without the traceback that it puts into the message."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, VocabtoolError | OSError | MemoryError):
            raise error.cause from None
        raise VocabtoolError(f"a worker of Ray failed: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        raise VocabtoolError(f"Ray failed: {error}") from error


@contextmanager
def _a_row_a_block(ray: Any) -> Iterator[None]:
    """Pass on each shard as soon as it is read, to whichever actor is free."""
    context = ray.data.DataContext.get_current()
    before = context.target_max_block_size, context.enable_progress_bars
    context.target_max_block_size, context.enable_progress_bars = 1, False
    try:
        yield
    finally:
        context.target_max_block_size, context.enable_progress_bars = before


def _read(reading: Reading, done: Done, _: Columns) -> Iterator[Columns]:
    """Rows of shards, one at a time; the last row tells what was left out."""
    log = ReadLog()
    for task in tasks(reading.slabs(log), done):
        yield _row(task.number, task.slabs, b"")
    yield _row(LAST, b"", json.dumps(asdict(log)).encode())


class Actor:
    """Makes the shards that it is given, a row each; holds the encoder."""

    def __init__(self, work: Work) -> None:
        self._make = TaskMaker(work)

    def __call__(self, row: Columns) -> Columns:
        """A row that tells of the shard; what tells of no shard is passed on."""
        number, told = int(row["number"][0]), bytes(row["told"][0])
        if number != LAST:
            made = self._make(Task(number, bytes(row["slabs"][0])))
            shard = made.shard._asdict() | {"counts": asdict(made.shard.counts)}
            told = json.dumps({"shard": shard, "hits": made.hits}).encode()
        return {"number": row["number"], "told": np.array([told], object)}


def _row(number: int, slabs: bytes, told: bytes) -> Columns:
    columns = {"slabs": np.array([slabs], object), "told": np.array([told], object)}
    return {"number": np.array([number], np.int64), **columns}
