"""What ``search.py`` asks of our own index, each in fresh processes.

    zvec       hybrid p50 beside the fastest peer's, asked in turn: both are slowed alike
    growth     p50 of many documents against few
    opening    seconds until the first answer
    readers    queries a second of four processes against one, also with longer turns
    writer     p50 of a reader while another process adds and commits, against the quiet one
    memory     the peak while an index is built that may take 1 GiB

The lower half is what those processes do; ``search.py`` starts them by name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from itertools import count, cycle
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, TypeAlias

from processes import Report, Reporter, run
from scheduling import take_turns_of, turns_can_be_asked_for
from search_corpus import Asked, Block, Corpus, corpus
from search_engines import opened
from search_measuring import WARM, Ask, both, rounds, speed, tuned, within

GROWTH: Final = 3.0  # times the p50 of few documents, at most
FIRST: Final = 1.0  # seconds
SCALING: Final = 1.8  # times the queries of one reader, at least
PEER: Final = "zvec"
BESIDE: Final = 2.0  # times the quiet p50, at most
ALLOWED: Final = 1 << 30  # bytes that building may take ...
MOST: Final = 1_300_000_000  # ... and that it takes at most, all told

READERS: Final = 4
RUNS: Final = 5
ROUNDS: Final = 25  # of one reader, then four; of ours, then the peer
ROUND: Final = 1.0  # seconds that they ask in each
TURN: Final = 20.0  # milliseconds, longer than what Linux gives (3 to 4)
SECONDS: Final = 10.0  # that the writer and the reader beside it work
REFRESH: Final = 0.5  # seconds between two looks for a newer commit
COMMIT: Final = 1_000  # documents
LIMIT: Final = 3_600.0

Process: TypeAlias = "subprocess.Popen[str]"

SCRIPT: Final = Path(__file__).with_name("search.py")


# The questions. Each gets the corpora, the smallest first.


def in_turn(sizes: Sequence[Corpus]) -> Iterator[str]:
    """All queries of ours, then of each way of the peer's, in rounds."""
    if find_spec(PEER) is None:
        yield f"{PEER}: not asked, it is not installed"
        return
    for each in sizes:
        told = job(PEER, index(each))
        spent: dict[str, list[float]] = told["p50"]
        shown = ", ".join(f"{way} {median(p50s):.2f} ms" for way, p50s in spent.items())
        setting = f"{told['setting']}, recall {told['recall']:.3f}"
        yield f"{each.documents:,} documents, {PEER} of {setting}: {shown}"
        ours, *ways = spent.values()
        ratios = [own / min(peers) for own, *peers in zip(ours, *ways, strict=True)]
        low, ratio, high = quantiles(ratios, n=4)
        told_of = f"median ratio {ratio:.2f}, quartiles {low:.2f} and {high:.2f}"
        yield goal(f"hybrid p50 lower than {PEER}'s in turn", ratio < 1, told_of)


def growth(sizes: Sequence[Corpus]) -> Iterator[str]:
    """p50 of the largest against the smallest."""
    if len(sizes) < 2:
        yield "growth: not asked, it needs two sizes, as --documents 100000,1000000"
        return
    few, many = (asked(each)["p50"] for each in (sizes[0], sizes[-1]))
    fewest, most = sizes[0].documents, sizes[-1].documents
    yield f"hybrid p50 {few:.2f} ms at {fewest:,}, {many:.2f} ms at {most:,}"
    ratio = many / few
    yield goal(f"p50 of many at most {GROWTH:g} times that of few", ratio <= GROWTH, f"{ratio:.2f}")


def opening(sizes: Sequence[Corpus]) -> Iterator[str]:
    """A fresh process each time; the files are in the page cache.

    As a plain install has it, without pandas, which Arrow loads where it is: that is told, too.
    """
    built = index(sizes[-1])
    told = [job("open", built, str(time.time()), "plain") for _ in range(RUNS)]
    first, whole = (median(one[name] for one in told) for name in ("first", "whole"))
    yield (
        f"{sizes[-1].documents:,} documents: import, open and answer {first:.2f} s, "
        f"with the start of Python and NumPy {whole:.2f} s"
    )
    if find_spec("pandas") is not None:
        beside = [job("open", built, str(time.time()), "pandas")["first"] for _ in range(RUNS)]
        yield f"where pandas is installed: {median(beside):.2f} s"
    yield goal(f"opening and the first answer under {FIRST:g} s", first < FIRST, f"{first:.2f} s")


def readers(sizes: Sequence[Corpus]) -> Iterator[str]:
    """As the system lets them take turns, and with turns that are longer."""
    built, documents = index(sizes[0]), sizes[0].documents
    kinds = {"": ""}
    if turns_can_be_asked_for():
        kinds[f" in turns of {TURN:g} ms"] = str(TURN)
    for how, turn in kinds.items():
        measured = scaling(built, turn)
        one, four = (median(rates) for rates in zip(*measured, strict=True))
        yield f"{documents:,} documents{how}: {one:,.0f} queries/s, {READERS} readers {four:,.0f}"
        low, ratio, high = quantiles((four / one for one, four in measured), n=4)
        found = f"median ratio {ratio:.2f}, quartiles {low:.2f} and {high:.2f}"
        yield goal(
            f"{READERS} readers{how} at least {SCALING:g} times one", ratio >= SCALING, found
        )


def scaling(built: Path, turn: str) -> list[tuple[float, float]]:
    """Queries a second of one reader and of all, in short rounds: cores are not always as fast."""
    with started([["turns", str(built), turn]] * READERS) as processes:
        return [(rate(processes[:1]), rate(processes)) for _ in range(ROUNDS)]


def rate(processes: Sequence[Process]) -> float:
    """Queries a second of readers that wait for a line, in one round."""
    begin(processes, f"{ROUND}")
    told = [json.loads(told_by(process)) for process in processes]
    return float(sum(each["queries"] / each["seconds"] for each in told))


def writer(sizes: Sequence[Corpus]) -> Iterator[str]:
    """On a copy: a reader alone, then with a writer."""
    built = index(sizes[0])
    copy = built.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(built, copy)
    try:
        (quiet,) = together([["read", str(copy)]])
        beside, wrote = together([["read", str(copy)], ["write", str(copy)]])
    finally:
        shutil.rmtree(copy)
    yield (
        f"{sizes[0].documents:,} documents: p50 {quiet['p50']:.2f} ms (p99 {quiet['p99']:.2f}), "
        f"beside the writer {beside['p50']:.2f} ms (p99 {beside['p99']:.2f})"
    )
    yield (
        f"meanwhile {wrote['documents']:,} documents in {wrote['commits']} commits, of which the "
        f"reader saw {beside['refreshed']} in {beside['refreshing']:.2f} s of refreshing"
    )
    ratio = beside["p50"] / quiet["p50"]
    yield goal(f"p50 beside a writer under {BESIDE:g} times", ratio < BESIDE, f"{ratio:.2f}")


def memory(sizes: Sequence[Corpus]) -> Iterator[str]:
    """The whole process that builds. Pages of mapped files count in the peak, too."""
    found = made(sizes[-1], sizes[-1].folder / "bounded", ALLOWED)
    yield (
        f"{sizes[-1].documents:,} documents in {ALLOWED >> 20} MiB: {found.seconds:.0f} s, peak "
        f"{found.memory / 1e6:,.0f} MB, of it {found.own / 1e6:,.0f} MB that is no file"
    )
    shutil.rmtree(sizes[-1].folder / "bounded")
    said = f"memory at the peak under {MOST / 1e6:,.0f} MB"
    yield goal(said, found.memory < MOST, f"{found.memory / 1e6:,.0f} MB")


QUESTIONS: Final[dict[str, Callable[[Sequence[Corpus]], Iterator[str]]]] = {
    PEER: in_turn,
    "growth": growth,
    "opening": opening,
    "readers": readers,
    "writer": writer,
    "memory": memory,
}


def goal(what: str, met: bool, found: str) -> str:
    """A goal and whether it is met."""
    return f"{what}: {'YES' if met else 'NO'} ({found})"


# Starting processes.


def index(built_from: Corpus) -> Path:
    """Our index of a corpus, built if it is not there yet."""
    folder = built_from.folder / "ours"
    if not folder.with_suffix(".complete").exists():
        made(built_from, folder, None)
        folder.with_suffix(".complete").touch()
    return folder


def made(built_from: Corpus, folder: Path, allowed: int | None) -> Report:
    """Build our index anew in a process of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    return done("build", folder, str(allowed or ""))


def asked(of: Corpus) -> dict[str, Any]:
    """How fast our index of it answers."""
    return job("ask", index(of))


def job(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What a process reports, which must succeed."""
    return done(name, folder, *arguments).told


def done(name: str, folder: Path, *arguments: str) -> Report:
    """The same with its memory."""
    log = folder.with_suffix(".log")
    report = run([str(SCRIPT), "--job", name, str(folder), *arguments], LIMIT, log)
    if report.failure is not None:
        raise SystemExit(f"{name}: {report.failure}")
    return report


def together(jobs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Several at the same time: they begin when all of them are ready."""
    with started(jobs) as processes:
        begin(processes, "go")
        return [json.loads(told_by(process)) for process in processes]


@contextmanager
def started(jobs: Sequence[Sequence[str]]) -> Iterator[list[Process]]:
    """Processes that are ready and wait for a line; none is left behind."""
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
    """Tell all of them."""
    for process in processes:
        assert process.stdin is not None  # it is a pipe
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


def told_by(process: Process) -> str:
    """Its next line."""
    assert process.stdout is not None  # it is a pipe
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args!r}: failed")
    return line


# What they do. The folder of an index stands in the folder of its corpus.


def corpus_of(folder: Path) -> Corpus:
    """Which corpus an index was built from."""
    return corpus(folder.parent.parent, int(folder.parent.name.removeprefix("search_")))


def build_job(reporter: Reporter, folder: Path, allowed: str) -> None:
    from search_engines.ours import Driver

    driver = Driver(folder, int(allowed) if allowed else None)
    driver.build(corpus_of(folder))


def ask_job(reporter: Reporter, folder: Path) -> None:
    from vocabtool import Index

    held = Index.open(folder)
    answers = rounds(lambda one: found(held, one), corpus_of(folder).queries())
    reporter.tell(**speed(answers))


def in_turn_job(reporter: Reporter, folder: Path) -> None:
    """Build the peer's, tuned as ever, and ask both in this process; the first round warms."""
    from vocabtool import Index

    of, held = corpus_of(folder), Index.open(folder)
    queries, beside = of.queries(), folder.with_name(f"{PEER}_in_turn")
    shutil.rmtree(beside, ignore_errors=True)
    peer = opened(PEER, beside)
    try:
        peer.build(of)
        found_out = tuned(peer, queries)
        ways: dict[str, Ask] = {"ours": partial(found, held)}
        ways |= {f"{PEER}, {way}": both(search) for way, search in peer.hybrids().items()}
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(1 + ROUNDS):
            for way, ask in ways.items():
                spent[way].append(speed(list(within(ask, iter(queries))))["p50"])
        p50 = {way: p50s[1:] for way, p50s in spent.items()}
        reporter.tell(setting=found_out["setting"], recall=found_out["recall"], p50=p50)
    finally:
        peer.close()
        shutil.rmtree(beside, ignore_errors=True)


class NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def open_job(reporter: Reporter, folder: Path, started: str, how: str) -> None:
    if how == "plain":
        sys.meta_path.insert(0, NoPandas())
    one = corpus_of(folder).queries()[0]
    start = time.perf_counter()
    from vocabtool import Index

    found(Index.open(folder), one)
    reporter.tell(first=time.perf_counter() - start, whole=time.time() - float(started))


def read_job(reporter: Reporter, folder: Path) -> None:
    """Ask for some seconds, and look for newer commits meanwhile."""
    from vocabtool import Index

    held, queries = Index.open(folder), corpus_of(folder).queries()
    for one in queries[:WARM]:
        found(held, one)
    reporter.tell(ready=True)
    sys.stdin.readline()
    spent: list[float] = []
    refreshed, refreshing, looked = 0, 0.0, time.perf_counter()
    start = looked
    for one in cycle(queries):
        begin = time.perf_counter()
        if begin - start > SECONDS:
            break
        if begin - looked > REFRESH:
            refreshed += held.refresh()
            looked = time.perf_counter()
            refreshing += looked - begin
        begin = time.perf_counter()
        found(held, one)
        spent.append(time.perf_counter() - begin)
    seconds = time.perf_counter() - start
    spent.sort()
    reporter.tell(
        queries=len(spent),
        seconds=seconds,
        p50=spent[len(spent) // 2] * 1e3,
        p99=spent[len(spent) * 99 // 100] * 1e3,
        refreshed=refreshed,
        refreshing=refreshing,
    )


def turns_job(reporter: Reporter, folder: Path, turn: str) -> None:
    """Ask for as many seconds as each line says."""
    from vocabtool import Index

    if turn:
        take_turns_of(float(turn))
    held, queries = Index.open(folder), corpus_of(folder).queries()
    for one in queries[:WARM]:
        found(held, one)
    reporter.tell(ready=True)
    following = cycle(queries)
    for line in sys.stdin:
        start, asked = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < float(line):
            found(held, next(following))
            asked += 1
        reporter.tell(queries=asked, seconds=seconds)


def write_job(reporter: Reporter, folder: Path) -> None:
    """Add documents and commit for some seconds."""
    from vocabtool import Index

    parts, held = small_blocks(corpus_of(folder)), Index.open(folder)
    first = next(parts)
    reporter.tell(ready=True)
    sys.stdin.readline()
    end, commits = time.perf_counter() + SECONDS, 0
    with held.writer() as writing:
        part: Block | None = first
        while part is not None and time.perf_counter() < end:
            writing.add(part.documents, part.vectors)
            writing.commit()
            commits += 1
            part = next(parts, None)
    reporter.tell(documents=commits * COMMIT, commits=commits)


def small_blocks(of: Corpus) -> Iterator[Block]:
    """The documents once more, for ever, under new ids."""
    import pyarrow as pa

    for number in count():
        for block in of.blocks():
            ids, texts = block.documents.columns
            new = pa.array([f"{number}-{name}" for name in ids.to_pylist()])
            batch = pa.record_batch([new, texts], names=["id", "text"])
            for start in range(0, len(new), COMMIT):
                yield Block(batch.slice(start, COMMIT), block.vectors[start : start + COMMIT])


def found(held: Any, one: Asked) -> list[str]:
    """Our hybrid search as it is by default."""
    return [hit.id for hit in held.search(one.text, vector=one.vector)]


JOBS: Final[dict[str, Callable[..., None]]] = {
    "build": build_job,
    "ask": ask_job,
    PEER: in_turn_job,
    "open": open_job,
    "read": read_job,
    "turns": turns_job,
    "write": write_job,
}
