"""Benchmarks of our own index in ``search.py``, each in new processes.

    zvec       hybrid p50 and the fastest peer's, alternating, so that noise affects both
    growth     p50 of many documents compared with few
    opening    seconds until the first result
    warm       CPU time of a query, and calls of our Python functions, when everything is loaded
    readers    queries a second of four processes and of one; with longer time slices; forked
    writer     p50 of a reader while another process adds and commits, compared with no writer
    given      peak memory of loading vectors of 768 numbers from .npy and Parquet (3 KB a document
               on disk)
    facets     p50 of searches that count the values of two fields, compared with none

The jobs of these processes are in ``search_jobs.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, TypeAlias

import numpy as np
from processes import Report, run
from results import Goal, Table, at_least, at_most, goals
from scheduling import turns_can_be_asked_for
from search_corpus import BLOCK, Corpus
from search_jobs import GIVEN_DIM, PEER, READERS, ROUND, ROUNDS

GROWTH: Final = 3.0  # maximum, as a multiple of the p50 of few documents
FIRST: Final = 1.0  # seconds
CPU: Final = 0.6  # maximum, milliseconds
CALLS: Final = 220  # maximum
SCALING: Final = 1.8  # minimum, as a multiple of the queries a second of one reader
BESIDE: Final = 2.0  # maximum, as a multiple of the p50 without a writer
FACETS: Final = 30.0  # maximum, milliseconds
MOST: Final = 1_300_000_000  # maximum memory of the process without mapped files, in bytes

RUNS: Final = 5
TURN: Final = 20.0  # milliseconds; the default of Linux is 3 to 4
LIMIT: Final = 3_600.0

Process: TypeAlias = "subprocess.Popen[str]"

SCRIPT: Final = Path(__file__).with_name("search.py")


# The benchmarks. Each gets the corpora, the smallest first.


def in_turn(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Run all queries on our index, then on each variant of the peer's, in rounds."""
    if find_spec(PEER) is None:
        raise SystemExit(f"{PEER} is not installed; run: pip install {PEER}")
    rows, reached = [], []
    for each in sizes:
        told = job(PEER, index(each))
        spent: dict[str, list[float]] = told["p50"]
        setting = f"{told['setting']}, recall {told['recall']:.3f}"
        rows += [
            (f"{each.documents:,}", way, setting, f"{median(p50s):.2f} ms")
            for way, p50s in spent.items()
        ]
        ours, *ways = spent.values()
        ratios = [own / min(peers) for own, *peers in zip(ours, *ways, strict=True)]
        low, ratio, high = quantiles(ratios, n=4)
        what = f"hybrid p50 against {PEER}, {each.documents:,} documents"
        shown = f"{ratio:.2f}x (quartiles {low:.2f}, {high:.2f})"
        reached.append(Goal(what=what, wanted="< 1x", measured=shown, reached=ratio < 1))
    title = f"Asked in turn: ours, then {PEER}"
    yield Table(title=title, columns=("documents", "", "setting", "p50"), rows=tuple(rows))
    yield goals(*reached)


def growth(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Compare the p50 of the largest corpus with that of the smallest."""
    if len(sizes) < 2:
        return
    few, many = (asked(each)["p50"] for each in (sizes[0], sizes[-1]))
    rows = tuple(
        (f"{each.documents:,}", f"{p50:.2f} ms")
        for each, p50 in zip((sizes[0], sizes[-1]), (few, many), strict=True)
    )
    yield Table(title="Growth of hybrid p50", columns=("documents", "p50"), rows=rows)
    yield goals(at_most("p50 of many against few", many / few, GROWTH, "{:.2f}x"))


def opening(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Measure the first result in a new process each time; the files are in the page cache.

    One measurement is without pandas, as in a plain install; Arrow loads pandas if it exists.
    """
    built = index(sizes[-1])
    told = [job("open", built, str(time.time()), "plain") for _ in range(RUNS)]
    first, whole = (median(one[name] for one in told) for name in ("first", "whole"))
    rows = [
        ("import, open and answer", f"{first:.2f} s"),
        ("with the start of Python and NumPy", f"{whole:.2f} s"),
    ]
    if find_spec("pandas") is not None:
        slower = [job("open", built, str(time.time()), "pandas")["first"] for _ in range(RUNS)]
        rows.append(("where pandas is installed", f"{median(slower):.2f} s"))
    title = f"Open an index of {sizes[-1].documents:,} documents, and the first answer"
    yield Table(title=title, columns=("", "time"), rows=tuple(rows))
    yield goals(at_most("import, open and answer", first, FIRST, "{:.2f} s"))


def warm(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Measure the CPU time of a warm query, and count the calls of our functions."""
    told = job("warm", index(sizes[0]))
    rows = (
        ("CPU time", f"{told['cpu']:.2f} ms"),
        ("calls of our functions", f"{told['calls']:.0f}"),
    )
    title = f"A warm query of {sizes[0].documents:,} documents"
    yield Table(title=title, columns=("", "a query"), rows=rows)
    yield goals(
        at_most("CPU time", told["cpu"], CPU, "{:.2f} ms"),
        at_most("calls", told["calls"], CALLS, "{:.0f}"),
    )


def readers(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Measure readers started one by one, also with longer time slices, and forked readers."""
    built = index(sizes[0])
    kinds = {"started one by one": partial(scaling, built, "")}
    if turns_can_be_asked_for():
        kinds[f"in turns of {TURN:g} ms"] = partial(scaling, built, str(TURN))
    if hasattr(os, "fork"):
        kinds["forked from one that opened the index"] = partial(scaling_of_forked, built)
    rows, reached = [], []
    for how, measure in kinds.items():
        measured = measure()
        one, four = (median(rates) for rates in zip(*measured, strict=True))
        low, ratio, high = quantiles((four / one for one, four in measured), n=4)
        shown = f"{ratio:.2f}x (quartiles {low:.2f}, {high:.2f})"
        rows.append((how, f"{one:,.0f}", f"{four:,.0f}", shown))
        reached.append(at_least(f"{READERS} readers, {how}", ratio, SCALING, "{:.2f}x"))
    columns = ("queries a second", "one reader", f"{READERS} readers", "ratio")
    title = f"Readers in processes, {sizes[0].documents:,} documents"
    yield Table(title=title, columns=columns, rows=tuple(rows))
    yield goals(*reached)


def scaling(built: Path, turn: str) -> list[tuple[float, float]]:
    """Return queries a second of one reader and of all, in short rounds: core speed varies."""
    with started([["turns", str(built), turn]] * READERS) as processes:
        return [(rate(processes[:1]), rate(processes)) for _ in range(ROUNDS)]


def scaling_of_forked(built: Path) -> list[tuple[float, float]]:
    """Return the same for forked processes, which share the memory of their parent."""
    return [(a_second(one), a_second(four)) for one, four in job("fork", built)["rounds"]]


def rate(processes: Sequence[Process]) -> float:
    """Return queries a second in one round of readers that wait for a line."""
    begin(processes, f"{ROUND}")
    return a_second([json.loads(told_by(process)) for process in processes])


def a_second(told: Sequence[dict[str, float]]) -> float:
    """Return the queries a second of all readers together."""
    return sum(each["queries"] / each["seconds"] for each in told)


def writer(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Measure a reader alone, then with a writer, on a copy of the index."""
    built = index(sizes[0])
    copy = built.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(built, copy)
    try:
        (quiet,) = together([["read", str(copy)]])
        busy, wrote = together([["read", str(copy)], ["write", str(copy)]])
    finally:
        shutil.rmtree(copy)
    meanwhile = f"with a writer ({wrote['documents']:,} documents, {wrote['commits']} commits)"
    yield Table(
        title=f"A reader while another process writes, {sizes[0].documents:,} documents",
        columns=("", "p50", "p99"),
        rows=tuple(
            (name, f"{told['p50']:.2f} ms", f"{told['p99']:.2f} ms")
            for name, told in (("alone", quiet), (meanwhile, busy))
        ),
    )
    yield goals(at_most("p50 with a writer", busy["p50"] / quiet["p50"], BESIDE, "{:.2f}x"))


def facets(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Measure searches with and without the facets of two fields, alternating."""
    told = job("facets", sizes[0].folder / "facets")
    rows = tuple(
        (kind, f"{each['rows']:,.0f}", f"{each['without']:.2f} ms", f"{each['with']:.2f} ms")
        for kind, each in told["kinds"].items()
    )
    yield Table(
        title=f"Facets of two fields, {sizes[0].documents:,} documents",
        columns=("", "documents counted", "p50 without", "p50 with"),
        rows=(*rows, ("the first search", "", "", f"{told['first']:.0f} ms")),
    )
    slowest = max(each["with"] for each in told["kinds"].values())
    yield goals(at_most("p50 of the slowest", slowest, FACETS, "{:.2f} ms"))


def given(sizes: Sequence[Corpus]) -> Iterator[Table]:
    """Measure processes that load vectors from a file."""
    count, work = sizes[-1].documents, sizes[-1].folder
    rows, reached = [], []
    for ending in (".npy", ".parquet"):
        file, folder = work / f"given{ending}", work / "given"
        write_given(file, count)
        shutil.rmtree(folder, ignore_errors=True)
        found = done("given", folder, str(file))
        shutil.rmtree(folder)
        file.unlink()
        own, peak = found.own / 1e6, found.memory / 1e6
        rows.append((ending, f"{found.seconds:.0f} s", f"{peak:,.0f} MB", f"{own:,.0f} MB"))
        what = f"memory without mapped files, {ending}"
        reached.append(at_most(what, own, MOST / 1e6, "{:,.0f} MB"))
    title = f"Load {count:,} given vectors of {GIVEN_DIM} numbers"
    columns = ("vectors", "time", "peak memory", "of it not mapped files")
    yield Table(title=title, columns=columns, rows=tuple(rows))
    yield goals(*reached)


def write_given(file: Path, count: int) -> None:
    """Write random vectors, a few thousand at a time, as .npy or Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    draw = np.random.default_rng(1)
    starts = range(0, count, BLOCK)
    sizes = (min(BLOCK, count - start) for start in starts)
    blocks = (draw.standard_normal((size, GIVEN_DIM), np.float32) for size in sizes)
    if file.suffix == ".npy":
        array = np.lib.format.open_memmap(file, "w+", np.float32, (count, GIVEN_DIM))
        for start, block in zip(starts, blocks, strict=True):
            array[start : start + len(block)] = block
        return
    schema = pa.schema([("vector", pa.list_(pa.float32(), GIVEN_DIM))])
    with parquet.ParquetWriter(file, schema) as writer:
        for block in blocks:
            column = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), GIVEN_DIM)
            writer.write_table(pa.table([column], schema))


QUESTIONS: Final[dict[str, Callable[[Sequence[Corpus]], Iterator[Table]]]] = {
    PEER: in_turn,
    "growth": growth,
    "opening": opening,
    "warm": warm,
    "readers": readers,
    "writer": writer,
    "facets": facets,
    "given": given,
}


# Start processes.


def index(built_from: Corpus) -> Path:
    """Return our index of a corpus; build it if it does not exist."""
    folder = built_from.folder / "ours"
    if not folder.with_suffix(".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        done("build", folder)
        folder.with_suffix(".complete").touch()
    return folder


def asked(of: Corpus) -> dict[str, Any]:
    """Return the search times of our index of a corpus."""
    return job("ask", index(of))


def job(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a job in its own process and return its results; exit if it fails."""
    return done(name, folder, *arguments).told


def done(name: str, folder: Path, *arguments: str) -> Report:
    """Run a job in its own process; return its report, with memory."""
    log = folder.with_suffix(".log")
    report = run([str(SCRIPT), "--job", name, str(folder), *arguments], LIMIT, log)
    if report.failure is not None:
        raise SystemExit(f"{name}: {report.failure}")
    return report


def together(jobs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Run several jobs at the same time; they begin when all are ready."""
    with started(jobs) as processes:
        begin(processes, "go")
        return [json.loads(told_by(process)) for process in processes]


@contextmanager
def started(jobs: Sequence[Sequence[str]]) -> Iterator[list[Process]]:
    """Start processes that wait for a line; end all of them at the end of the block."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "--job", *each],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in jobs
    ]
    try:
        for process in processes:
            told_by(process)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def begin(processes: Sequence[Process], line: str) -> None:
    """Send a line to all processes."""
    for process in processes:
        assert process.stdin is not None  # it is a pipe
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


def told_by(process: Process) -> str:
    """Return the next line of a process."""
    assert process.stdout is not None  # it is a pipe
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args!r}: failed")
    return line
