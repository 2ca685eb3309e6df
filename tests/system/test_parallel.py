"""What ``parallel.py`` promises: laziness, bounds, order, errors at their place, no thread left."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from select import select
from typing import IO, get_args

import pytest

from vocabtool.errors import VocabtoolError
from vocabtool.system.parallel import Workers, in_batches, parallel_map, prefetch

WAIT = 30  # seconds until a test that would hang fails instead

Runner = Callable[[Iterable[int]], Iterator[int]]


# Every way to run ahead, how many items it may take beyond those given out, all giving the items.
RUNNERS: dict[str, tuple[Runner, int]] = {
    "map": (partial(parallel_map, abs, workers=3), 6),
    "map unordered": (partial(parallel_map, abs, workers=1, ordered=False), 2),
    "processes": (partial(parallel_map, abs, workers=2, kind="processes"), 4),
    "prefetch": (partial(prefetch, count=5), 5),
}
runners = pytest.mark.parametrize("name", RUNNERS)


class Counted:
    """Numbers from 0 on; knows how many were taken, and the most beyond those given out."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.taken = 0
        self.given = 0
        self.most_ahead = 0
        self.closed = False
        self._numbers = numbers

    def __iter__(self) -> Iterator[int]:
        try:
            for number in self._numbers:
                self.taken += 1
                self.most_ahead = max(self.most_ahead, self.taken - self.given)
                yield number
        finally:
            self.closed = True


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test no thread and no process is there that was not there before."""
    before, children = set(threading.enumerate()), multiprocessing.active_children()
    gc.freeze()  # what other tests left, up to gigabytes, is not looked through each time
    yield
    gc.collect()
    gc.unfreeze()
    assert set(threading.enumerate()) <= before
    assert multiprocessing.active_children() == children


def failing_at(place: int, error: BaseException) -> Iterator[int]:
    for number in count():
        if number == place:
            raise error
        yield number


@runners
def test_every_item_in_order(name: str) -> None:
    """Each once, no more ahead than the bound, then the source is closed; or what it raises."""
    run, bound = RUNNERS[name]
    source, found = Counted(range(60)), []
    for number in run(source):
        source.given += 1
        found.append(number)
    assert (found, source.closed) == (list(range(60)), True)
    assert source.most_ahead <= bound
    results, given = run(failing_at(7, OSError("broken"))), []
    with pytest.raises(OSError, match="broken"):
        for number in results:
            given.append(number)
    assert given == list(range(7))


@runners
def test_an_endless_source(name: str) -> None:
    """Nothing is taken before it is wanted; closing in the middle closes the source."""
    source = Counted(count())
    results = RUNNERS[name][0](source)
    assert source.taken == 0
    for expected in range(20):
        assert next(results) == expected
        source.given += 1
    close(results)
    assert source.closed
    assert next(results, None) is None


def reciprocal(number: int) -> float:
    return 1 / (number - 5)


@pytest.mark.parametrize("kind", get_args(Workers))
def test_what_the_function_raises(kind: Workers) -> None:
    """What the function raises comes in its place, and the source is closed."""
    source = Counted(count())
    run = parallel_map(reciprocal, source, workers=2, kind=kind)
    assert [next(run) for _ in range(5)] == [1 / (number - 5) for number in range(5)]
    with pytest.raises(ZeroDivisionError):
        next(run)
    assert source.closed
    assert next(run, None) is None


def test_work_is_parallel() -> None:
    """Workers meet, also processes; a slow call holds up no others without order."""
    barrier = threading.Barrier(2, timeout=WAIT)

    def meet(number: int) -> int:
        barrier.wait()
        return number

    assert list(parallel_map(meet, range(6), workers=2)) == list(range(6))
    with multiprocessing.get_context("spawn").Manager() as manager:
        apart = partial(meet_at, manager.Barrier(2))
        found = set(parallel_map(apart, range(4), workers=2, kind="processes"))
    assert len(found) == 2
    assert os.getpid() not in found
    others = threading.Event()

    def slow_first(number: int) -> int:
        if number == 0:
            assert others.wait(WAIT)
        return number

    results = parallel_map(slow_first, range(4), workers=2, ordered=False)
    first = [next(results) for _ in range(3)]
    others.set()
    assert sorted(first) == [1, 2, 3]
    assert list(results) == [0]


def meet_at(barrier: threading.Barrier, number: int) -> int:
    barrier.wait(WAIT)
    return os.getpid()


@runners
def test_forgotten(name: str) -> None:
    """What nobody holds, or whose consumer is interrupted, is closed; no thread is left."""
    sources = Counted(count()), Counted(count())
    results = RUNNERS[name][0](sources[0])
    next(results)
    del results
    gc.collect()

    def consume() -> None:
        for _ in RUNNERS[name][0](sources[1]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert all(source.closed for source in sources)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is heard, also where a shell started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupted_while_it_waits(interruptible: None) -> None:
    """Ctrl-C while the consumer waits for a worker is raised there, and the worker ends."""
    submitted = threading.Event()

    def one() -> Iterator[int]:
        yield 0
        submitted.set()

    def interrupt(number: int) -> int:
        assert submitted.wait(WAIT)
        signal.raise_signal(signal.SIGINT)
        return number

    with pytest.raises(KeyboardInterrupt):
        list(parallel_map(interrupt, one(), workers=1))


def test_closing_waits_for_the_calls_at_work() -> None:
    """When closing returns, each call that was begun is done, and no other begins."""
    started, release = threading.Event(), threading.Event()
    begun: list[int] = []
    done: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number:
            started.set()
            assert release.wait(WAIT)
        done.append(number)
        return number

    results = parallel_map(work, count(), workers=1)
    assert next(results) == 0
    assert started.wait(WAIT)
    threading.Timer(0.01, release.set).start()  # whenever it comes, before or while it is closed
    close(results)
    assert begun == done
    assert len(done) <= 1 + 2


def end_process(number: int) -> int:
    if number == 4:  # read only after the result of 2
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_what_is_told() -> None:
    """A killed process, wrong numbers and functions without a module are told."""
    results = parallel_map(end_process, range(20), workers=1, kind="processes")
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(
        VocabtoolError, match="a worker process ended before it finished its work: it was killed"
    ):
        list(results)
    with pytest.raises(ValueError, match="batch size must be at least 1, got 0"):
        next(in_batches([1], 0))
    with pytest.raises(ValueError, match="a function at the top level of a module, or kind="):
        list(parallel_map(lambda number: number, [1], workers=1, kind="processes"))


def test_workers_end_with_a_killed_caller(tmp_path: Path) -> None:
    """Worker processes do not outlive a caller that was killed."""
    pipe = tmp_path / "held by the workers"
    os.mkfifo(pipe)
    caller = multiprocessing.get_context("spawn").Process(target=map_for_ever, args=(pipe,))
    caller.start()
    with pipe.open("rb") as held:
        assert held.read(1) == b"1"
        os.kill(caller.pid or 0, signal.SIGKILL)
        caller.join()
        assert select([held], [], [], WAIT)[0]  # its end: the last process that held it is gone
        assert held.read() in (b"", b"1")


def map_for_ever(pipe: Path) -> None:
    results = parallel_map(partial(hold, pipe), count(), workers=2, kind="processes")
    next(results)
    threading.Event().wait()


held_open: list[IO[bytes]] = []


def hold(pipe: Path, number: int) -> int:
    if not held_open:
        held_open.append(pipe.open("wb", buffering=0))
        held_open[0].write(b"1")
    return number


def close(results: Iterator[int]) -> None:
    assert isinstance(results, Generator)
    results.close()
