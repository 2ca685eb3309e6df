"""The jobs, by name, that ``search_questions.py`` runs in processes of their own.

Each gets the folder of an index, inside the folder of its corpus, and reports its results. The
durations and the number of rounds are defined here for both modules.
"""

from __future__ import annotations

import gc
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.abc import MetaPathFinder
from itertools import count, cycle
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final

import numpy as np
from coded_corpus import DIM, vocabulary
from processes import Reporter
from scheduling import take_turns_of
from search_corpus import Asked, Block, Corpus, corpus
from search_engines import opened
from search_measuring import WARM, Ask, both, rounds, speed, tuned, within

PEER: Final = "zvec"
READERS: Final = 4
ROUNDS: Final = 25  # alternating: one reader, then four; or our index, then the peer's
ROUND: Final = 1.0  # seconds of searches in a round
SECONDS: Final = 10.0  # seconds that the writer and the reader run
REFRESH: Final = 0.5  # seconds between two checks for a newer commit
COMMIT: Final = 1_000  # documents per commit
GIVEN_DIM: Final = 768  # numbers in a vector of the question ``given``


def corpus_of(folder: Path) -> Corpus:
    """Return the corpus from which an index was built."""
    return corpus(folder.parent.parent, int(folder.parent.name.removeprefix("search_")))


def build_job(reporter: Reporter, folder: Path) -> None:
    from search_engines.ours import Driver

    Driver(folder).build(corpus_of(folder))


def given_job(reporter: Reporter, folder: Path, file: str) -> None:
    """Load the documents of the corpus with the vectors in a file."""
    from vocabtool import Index

    held = Index.create(folder, dim=GIVEN_DIM)
    held.load(folder.parent / "documents.arrow", id_field="id", vectors=file)


def ask_job(reporter: Reporter, folder: Path) -> None:
    from vocabtool import Index

    held = Index.open(folder)
    answers = rounds(lambda one: found(held, one), corpus_of(folder).queries())
    reporter.tell(**speed(answers))


def warm_job(reporter: Reporter, folder: Path) -> None:
    """Measure the CPU time of a warm query, and count the calls of our Python functions."""
    import vocabtool

    held, queries = vocabtool.Index.open(folder), corpus_of(folder).queries()
    spent = []
    for _ in range(1 + ROUNDS):
        begin = time.process_time()
        for one in queries:
            found(held, one)
        spent.append((time.process_time() - begin) * 1e3 / len(queries))
    ours, calls = str(Path(vocabtool.__file__).parent), 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(ours)

    sys.setprofile(count_call)
    for one in queries:
        found(held, one)
    sys.setprofile(None)
    reporter.tell(cpu=median(spent[1:]), calls=calls / len(queries))


def in_turn_job(reporter: Reporter, folder: Path) -> None:
    """Build and tune the peer's index, and search both in this process, after a warm-up round."""
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
    """An import finder that makes pandas appear as not installed."""

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
    """Search for some seconds, and regularly check for newer commits."""
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
    """For each line on standard input, search for that many seconds."""
    if turn:
        take_turns_of(float(turn))
    reader = Reader(folder)
    reporter.tell(ready=True)
    for line in sys.stdin:
        reporter.tell(**reader.ask(float(line)))


def fork_job(reporter: Reporter, folder: Path) -> None:
    """Open the index, fork readers, and alternate between searches of one and of all."""
    reader, fork = Reader(folder), multiprocessing.get_context("fork")
    gc.freeze()  # objects that are not collected stay in shared pages
    pipes = []
    for _ in range(READERS):
        ours, theirs = fork.Pipe()
        pipes.append(ours)
        fork.Process(target=read_for, args=(reader, theirs, pipes), daemon=True).start()
        theirs.close()  # so that the end of a reader is noticed
    reporter.tell(rounds=[[asked_of(pipes[:1]), asked_of(pipes)] for _ in range(ROUNDS)])


def asked_of(pipes: Sequence[Connection]) -> list[dict[str, float]]:
    """Return the results of readers that wait at a pipe, for one round."""
    for pipe in pipes:
        pipe.send(ROUND)
    return [pipe.recv() for pipe in pipes]


def read_for(reader: Reader, pipe: Connection, others: Sequence[Connection]) -> None:
    """Search for as many seconds as each message of the pipe says, until it is closed."""
    for other in others:
        other.close()
    with suppress(EOFError):
        while True:
            pipe.send(reader.ask(pipe.recv()))


class Reader:
    """An open and warm index, and its queries."""

    def __init__(self, folder: Path) -> None:
        from vocabtool import Index

        self.held, queries = Index.open(folder), corpus_of(folder).queries()
        for one in queries[:WARM]:
            found(self.held, one)
        self.following = cycle(queries)

    def ask(self, long: float) -> dict[str, float]:
        """Search for that many seconds."""
        start, asked = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < long:
            found(self.held, next(self.following))
            asked += 1
        return {"queries": asked, "seconds": seconds}


def write_job(reporter: Reporter, folder: Path) -> None:
    """Add documents and commit, for some seconds."""
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


def facets_job(reporter: Reporter, folder: Path) -> None:
    """Build an index with two kept fields; time searches with and without their facets."""
    import pyarrow as pa

    from vocabtool import Index

    of = corpus_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    held, numbers = Index.create(folder, dim=DIM), np.arange(of.documents)
    columns = {"lang": numbers % 7, "year": 1990 + numbers % 35}
    with held.writer() as writing:
        start = 0
        for block in of.blocks():
            end = start + len(block.documents)
            fields = [pa.array(each[start:end]) for each in columns.values()]
            names = ["id", "text", *columns]
            batch = pa.record_batch([*block.documents.columns, *fields], names=names)
            writing.add(batch, block.vectors)
            start = end
    held = Index.open(folder)
    begin = time.perf_counter()
    held.search(facets=[*columns])
    first, kinds = (time.perf_counter() - begin) * 1e3, {}
    queries: list[tuple[str | None, Any]] = [(one.text, one.vector) for one in of.queries()]
    words: list[tuple[str | None, Any]] = [(word, None) for word in vocabulary()[:100]]
    for kind, asked in (
        ("queries", queries),
        ("each of the 100 most frequent words", words),
        ("no query", [(None, None)] * len(queries)),
    ):
        plain, counted, rows = list[float](), list[float](), list[int]()
        for text, vector in asked:
            for spent, names in ((plain, []), (counted, [*columns])):
                begin = time.perf_counter()
                hits = held.search(text, vector=vector, where="year > 0", facets=names)
                spent.append((time.perf_counter() - begin) * 1e3)
            rows.append(sum(each.count for each in hits.facets["lang"]))
        kinds[kind] = {"rows": median(rows), "without": median(plain), "with": median(counted)}
    reporter.tell(first=first, kinds=kinds)


def small_blocks(of: Corpus) -> Iterator[Block]:
    """Yield the documents again and again, with new ids."""
    import pyarrow as pa

    for number in count():
        for block in of.blocks():
            ids, texts = block.documents.columns
            new = pa.array([f"{number}-{name}" for name in ids.to_pylist()])
            batch = pa.record_batch([new, texts], names=["id", "text"])
            for start in range(0, len(new), COMMIT):
                yield Block(batch.slice(start, COMMIT), block.vectors[start : start + COMMIT])


def found(held: Any, one: Asked) -> list[str]:
    """Return the results of our hybrid search with its defaults."""
    return [hit.id for hit in held.search(one.text, vector=one.vector)]


JOBS: Final[dict[str, Callable[..., None]]] = {
    "build": build_job,
    "given": given_job,
    "ask": ask_job,
    "warm": warm_job,
    PEER: in_turn_job,
    "open": open_job,
    "read": read_job,
    "turns": turns_job,
    "fork": fork_job,
    "write": write_job,
    "facets": facets_job,
}
