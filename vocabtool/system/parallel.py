"""Work on items that pass by, several at a time: a map, a reader that runs ahead, and batches.

Everything here is lazy, looks ahead by a bound that it states, and leaves no thread and no process
behind. What the items are is not known here.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import islice
from queue import SimpleQueue
from threading import Event, Semaphore, Thread, current_thread
from typing import Any, Literal, NamedTuple, TypeVar

from vocabtool.errors import VocabtoolError

T = TypeVar("T")
R = TypeVar("R")

Workers = Literal["threads", "processes"]

KILLED = (
    "a worker process ended before its work did: killed (out of memory?), crashed, or it could not "
    "start (a script that uses processes needs `if __name__ == '__main__':`)"
)


def parallel_map(
    fn: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int,
    ordered: bool = True,
    kind: Workers = "threads",
    ahead: int | None = None,
) -> Iterator[R]:
    """What ``fn`` makes of each item, ``workers`` of them at a time.

    Never more than ``ahead`` items (default ``2 * workers``) are taken beyond those given out.
    They are taken in the caller's thread, when it asks for the next result.
    ``ordered``: results come in the order of the items, and what ``fn`` or ``items`` raises comes
    after the results of all items before; else results and what ``fn`` raises come as they are
    finished, and what ``items`` raises comes last.
    ``kind``: processes are started anew, get ``fn`` once, and every item and result is pickled.
    Closing the iterator waits for the calls at work, drops the others and, where ``items`` is a
    generator, closes it. Raises :class:`VocabtoolError` when a process is killed, ``ValueError``
    for a wrong number and for an ``fn`` that cannot be pickled.
    """
    most = 2 * workers if ahead is None else ahead
    if workers < 1 or most < 1:
        raise ValueError(f"workers and items ahead must be at least 1, got {workers}, {most}")
    return _run_in_pool(fn, items, workers, ordered, kind, most)


def prefetch(items: Iterable[T], count: int) -> Iterator[T]:
    """The items, read ahead by one thread: never more than ``count`` beyond those given out.

    What ``items`` raises comes after the items before it. Closing the iterator waits for the item
    that is being read and, where ``items`` is a generator, closes it.
    """
    if count < 1:
        raise ValueError(f"items ahead must be at least 1, got {count}")
    return _read_ahead(items, count)


def pipe_rows(
    batch_fn: Callable[[list[T]], Sequence[R]],
    items: Iterable[T],
    *,
    batch_size: int,
    workers: int,
) -> Iterator[R]:
    """What ``batch_fn`` makes of whole batches of items, row by row and in order.

    ``workers`` batches are at work at a time, in threads; at most ``2 * workers`` batches are
    taken beyond the one whose rows are given out. Raises ``ValueError`` where ``batch_fn`` does
    not give one row for each item.
    """

    def row_each(batch: list[T]) -> Sequence[R]:
        rows = batch_fn(batch)
        if len(rows) != len(batch):
            raise ValueError(f"{batch_fn!r} gave {len(rows):,} rows for {len(batch):,} items")
        return rows

    return _rows(parallel_map(row_each, in_batches(items, batch_size), workers=workers))


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items as lists of ``size``; only the last, or the one before an error, is shorter."""
    if size < 1:
        raise ValueError(f"the size of a batch must be at least 1, got {size}")
    return _batches(items, size)


@contextlib.contextmanager
def closed_after(items: Iterable[T]) -> Iterator[Iterator[T]]:
    """An iterator of the items that is closed after the block where it is a generator.

    Files and other iterators stay open: they are their owner's.
    """
    iterator = iter(items)
    try:
        yield iterator
    finally:
        close(iterator)


def close(iterator: Iterator[T]) -> None:
    """Close an iterator where it is a generator, so that it lets go of what it opened."""
    if isinstance(iterator, Generator):
        iterator.close()


class _UntilFailure(Iterator[T]):
    """Items until they end or fail; the failure waits, so that what came before goes first."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._failure: Exception | None = None

    def __next__(self) -> T:
        if self._failure is not None:  # some iterators would go on
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
            raise
        except Exception as error:  # noqa: BLE001 - raised by `fail`, in its place
            self._failure = error
            raise StopIteration from None

    def fail(self) -> None:
        """Raise what the items raised, if they did."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _run_in_pool(
    fn: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    ordered: bool,
    kind: Workers,
    ahead: int,
) -> Iterator[R]:
    waiting: deque[Future[R]] = deque()
    finished: SimpleQueue[Future[R]] = SimpleQueue()
    at_work = 0
    with closed_after(items) as remaining:
        source = _UntilFailure(remaining)
        pool, work = _pool(fn, workers, kind)
        try:
            for item in source:
                try:
                    future = pool.submit(work, item)
                except BrokenProcessPool as error:  # what was finished before is given out first
                    future = Future()
                    future.set_exception(error)
                if ordered:
                    waiting.append(future)
                else:
                    future.add_done_callback(finished.put)
                at_work += 1
                if at_work == ahead:
                    yield (waiting.popleft() if ordered else finished.get()).result()
                    at_work -= 1
            for _ in range(at_work):
                yield (waiting.popleft() if ordered else finished.get()).result()
        except BrokenProcessPool as error:
            raise VocabtoolError(KILLED) from error
        finally:
            pool.shutdown(cancel_futures=True)
        source.fail()


def _pool(fn: Callable[[T], R], workers: int, kind: Workers) -> tuple[Executor, Callable[[T], R]]:
    if kind == "threads":
        return ThreadPoolExecutor(workers), fn
    try:
        sent = pickle.dumps(fn)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{fn!r} cannot be sent to another process ({error}); use a function at the top of "
            "a module, or kind='threads'"
        ) from error
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that are held
    return ProcessPoolExecutor(workers, context, _start_process, (sent,)), _in_process


_sent: list[bytes] = []  # in a worker process: the function that it was started with


def _start_process(fn: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    _sent[:] = [fn]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A caller that was killed cannot stop its workers, and they would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _function() -> Callable[[Any], Any]:
    fn: Callable[[Any], Any] = pickle.loads(_sent[0])  # noqa: S301 - our own parent wrote it
    return fn


def _in_process(item: Any) -> Any:
    return _function()(item)


class _Failure(NamedTuple):
    error: BaseException


def _read_ahead(items: Iterable[T], count: int) -> Iterator[T]:
    read: SimpleQueue[T | _Failure] = SimpleQueue()
    room, stop = Semaphore(count), Event()
    thread = Thread(target=_read, args=(items, read, room, stop), daemon=True)
    thread.start()
    try:
        while not isinstance(item := read.get(), _Failure):
            room.release()
            yield item
    finally:
        stop.set()
        room.release()
        if thread is not current_thread():  # whose turn it is when garbage is collected
            thread.join()
    if not isinstance(item.error, StopIteration):
        raise item.error


def _read(
    items: Iterable[T], read: SimpleQueue[T | _Failure], room: Semaphore, stop: Event
) -> None:
    """Read on while there is room. Holds nothing of the reader's, so that it can be collected."""
    try:
        with closed_after(items) as remaining:
            while room.acquire() and not stop.is_set():
                read.put(next(remaining))
    except BaseException as error:  # noqa: BLE001 - raised again where it is read
        read.put(_Failure(error))


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    with closed_after(items) as remaining:
        source = _UntilFailure(remaining)
        while batch := list(islice(source, size)):
            yield batch
        source.fail()


def _rows(batches: Iterator[Sequence[R]]) -> Iterator[R]:
    with closed_after(batches) as remaining:
        for rows in remaining:
            yield from rows
