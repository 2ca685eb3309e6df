"""Lazy iterators over items of any type: a parallel map, prefetching in a thread, and batches.

Each iterator limits how many items it reads ahead. When it ends or is closed, its threads and
processes end.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from math import inf
from queue import SimpleQueue
from threading import Event, Semaphore, Thread, current_thread
from typing import Any, Literal, TypeVar

from vocabtool.errors import VocabtoolError

T = TypeVar("T")
R = TypeVar("R")

Workers = Literal["threads", "processes"]

KILLED = (
    "a worker process ended before it finished its work: it was killed (out of memory?), crashed, "
    "or could not start (a script that uses processes needs `if __name__ == '__main__':`)"
)


def parallel_map(
    fn: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int,
    ordered: bool = True,
    kind: Workers = "threads",
) -> Iterator[R]:
    """Yield ``fn(item)`` for each item; several calls run at the same time.

    ``workers``: maximum number of calls at the same time. Twice as many items may be read ahead.

    Items are read in the caller's thread. Processes are spawned, so ``fn``, items and results are
    pickled.

    - If ``ordered``: results are in the order of ``items``. An error is raised after the results of
      all earlier items.
    - Otherwise: as soon as a call finishes, its result is yielded, or its error is raised. An error
      of ``items`` is raised last.

    Closing the iterator waits for running calls, cancels waiting calls, and closes ``items`` if it
    is a generator. Raises :class:`VocabtoolError` if a process is killed.
    """
    waiting: deque[Future[R]] = deque()
    finished: SimpleQueue[Future[R]] = SimpleQueue()
    failures: list[Exception] = []
    at_work, work = 0, fn
    with closed_after(items) as remaining:
        pool: Executor
        if kind == "threads":
            pool = ThreadPoolExecutor(workers)
        else:
            pool, work = _processes(fn, workers), _in_process
        try:
            for item in _until_failure(remaining, failures):
                try:
                    future = pool.submit(work, item)
                except BrokenProcessPool as error:  # yield the finished results first
                    future = Future()
                    future.set_exception(error)
                if ordered:
                    waiting.append(future)
                else:
                    future.add_done_callback(finished.put)
                at_work += 1
                if at_work == 2 * workers:
                    yield (waiting.popleft() if ordered else finished.get()).result()
                    at_work -= 1
            for _ in range(at_work):
                yield (waiting.popleft() if ordered else finished.get()).result()
        except BrokenProcessPool as error:
            raise VocabtoolError(KILLED) from error
        finally:
            pool.shutdown(cancel_futures=True)
    if failures:
        raise failures.pop()


def prefetch(items: Iterable[T], count: int) -> Iterator[T]:
    """Yield the items. A thread reads ahead: at most ``count`` items.

    An error of ``items`` is raised after the items before it. Closing the iterator waits for the
    item that is being read, and closes ``items`` if it is a generator.
    """
    read: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    room, stop = Semaphore(count), Event()
    thread = Thread(target=_read, args=(items, read, room, stop), daemon=True)
    thread.start()
    try:
        item, error = read.get()
        while error is None:
            room.release()
            yield item
            item, error = read.get()
    finally:
        stop.set()
        room.release()
        if thread is not current_thread():  # garbage collection may run this in that thread
            thread.join()
    if not isinstance(error, StopIteration):
        raise error


def in_batches(
    items: Iterable[T], size: int, *, weight: Callable[[T], int] | None = None, most: float = inf
) -> Iterator[list[T]]:
    """Yield lists of ``size`` items. The last list, or the list before an error, can be shorter.

    ``weight``: a list also ends when the weights of its items reach ``most``.
    """
    if size < 1:
        raise ValueError(f"the batch size must be at least 1, got {size}")
    failures: list[Exception] = []
    batch, total = [], 0
    with closed_after(items) as remaining:
        for item in _until_failure(remaining, failures):
            batch.append(item)
            total += weight(item) if weight else 0
            if len(batch) == size or total >= most:
                yield batch
                batch, total = [], 0
        if batch:
            yield batch
    if failures:
        raise failures.pop()


@contextlib.contextmanager
def closed_after(items: Iterable[T]) -> Iterator[Iterator[T]]:
    """Pass an iterator to a ``with`` block, whose end closes it if it is a generator."""
    iterator = iter(items)
    try:
        yield iterator
    finally:
        if isinstance(iterator, Generator):
            iterator.close()


def _until_failure(items: Iterator[T], failures: list[Exception]) -> Iterator[T]:
    """Yield the items before the first error, which becomes the only one of ``failures``."""
    try:
        for item in items:  # noqa: UP028 - `yield from` would close a file
            yield item
    except Exception as error:  # noqa: BLE001 - the caller raises it later
        failures.append(error)


def _processes(fn: Callable[..., Any], workers: int) -> Executor:
    try:
        sent = pickle.dumps(fn)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{fn!r} cannot be pickled for another process ({error}); use a function at the top "
            "level of a module, or kind='threads'"
        ) from error
    context = multiprocessing.get_context("spawn")  # fork would copy locks that threads hold
    return ProcessPoolExecutor(workers, context, _start_process, (sent,))


# In a worker process: its function, pickled, and unpickled by the first call.
_sent: list[bytes] = []
_functions: list[Callable[[Any], Any]] = []


def _start_process(fn: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _sent[:] = [fn]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker process when its parent ends: a killed parent cannot stop its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_process(item: Any) -> Any:
    if not _functions:
        _functions.append(pickle.loads(_sent[0]))  # noqa: S301 - our own parent wrote it
    return _functions[0](item)


def _read(items: Iterable[T], read: SimpleQueue[Any], room: Semaphore, stop: Event) -> None:
    """Put the items into the queue ``read`` until ``stop`` is set."""
    # Not a closure, which would keep the consuming iterator alive.
    try:
        with closed_after(items) as remaining:
            while room.acquire() and not stop.is_set():
                read.put((next(remaining), None))
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that consumes
        read.put((None, error))
