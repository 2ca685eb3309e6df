"""How fast and how steadily an index answers over HTTP, on the loopback interface.

    python benchmarks/serve.py                       everything, about half an hour
    python benchmarks/serve.py --only clients        only clients, writer, memory, or start
    python benchmarks/serve.py --documents 10000 --seconds 5 --requests 5000     a short run

The index is that of ``search.py``: vectors of 256 numbers, queries of words and codes, each with a
vector of its own, ten hits. ``in process`` is ``Index.search`` in a loop. A client sends its next
request when it has the answer to the one before; all clients share one process, which takes a part
of the two cores. CPU is that of the server alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple
from urllib.request import urlopen

from processes import memory_of
from results import Table, at_least, at_most, goals, report
from search import prepare
from search_corpus import Asked, Corpus, corpus
from search_questions import index

CLIENTS: Final = (1, 8, 64)
OVERHEAD: Final = 1.2  # milliseconds of HTTP at one client, at most
RATE: Final = 700.0  # requests a second of 64 clients, at least
WAIT: Final = 90.0  # milliseconds, p50 of 64 clients, at most
BESIDE_WRITER: Final = 3.0  # p99 beside a writer, as a multiple of the quiet one, at most
FLAT: Final = 1.05  # memory at the end, as a multiple of that after a tenth, at most
READY: Final = 2.0  # seconds until a server is ready, at most
ADDRESS: Final = "http://127.0.0.1:"
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A server process on a port of this machine."""

    process: subprocess.Popen[bytes]
    port: int

    def processes(self) -> list[int]:
        """Return the process and its children."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text("utf-8").split())]

    def cpu(self) -> float:
        """Return the seconds of CPU time that it has used."""
        stats = (Path(f"/proc/{each}/stat").read_text("utf-8") for each in self.processes())
        fields = (stat.rpartition(")")[2].split() for stat in stats)
        return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS

    def memory(self) -> int:
        """Return bytes of memory without files."""
        return sum(memory_of(each).get("RssAnon", 0) for each in self.processes())

    def answers(self, path: str) -> bool:
        """Return whether a GET request is answered with 200."""
        try:
            with urlopen(f"{ADDRESS}{self.port}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """Serve an index in a process of its own; give the server when it listens."""
    log = folder.with_name("serve.log")
    command = [sys.executable, "-m", "vocabtool", "serve", f"docs={folder}", "--port", "0"]
    with log.open("wb") as errors:
        process = subprocess.Popen([*command, *options], stderr=errors)
    try:
        while not (told := log.read_text("utf-8").partition(ADDRESS)[2]):
            if process.poll() is not None:
                raise SystemExit(f"serve: {log.read_text('utf-8')}")
            time.sleep(0.001)
        yield Server(process, int(told.partition(";")[0]))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def until_ready(server: Server) -> Server:
    while not server.answers("/ready"):
        time.sleep(0.005)
    return server


class Load(NamedTuple):
    """Latencies in milliseconds, number of errors, duration and CPU time in seconds."""

    times: list[float]
    errors: int
    seconds: float
    cpu: float

    @property
    def p50(self) -> float:
        return median(self.times)

    @property
    def p99(self) -> float:
        return quantiles(self.times, n=100)[98]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.times) / self.seconds

    @property
    def cpu_of_one(self) -> float:
        """Milliseconds of CPU time for each request."""
        return self.cpu * 1e3 / len(self.times)


def requests(of: Corpus) -> list[bytes]:
    """Return a search for each query, as it goes over the wire."""
    found = []
    for one in of.queries():
        body = json.dumps({"query": one.text, "vector": one.vector.tolist()}).encode()
        head = (
            "POST /v1/indexes/docs/search HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        found.append(head.encode() + body)
    return found


def load(
    server: Server, asked: Sequence[bytes], clients: int, goes_on: Callable[[int], bool]
) -> Load:
    """Search with several clients; ``goes_on`` gets the number of requests so far."""
    times: list[float] = []
    errors = 0

    async def client(number: int) -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        at = number
        while goes_on(len(times)):
            start = time.perf_counter()
            writer.write(asked[at % len(asked)])
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            times.append((time.perf_counter() - start) * 1e3)
            errors += not head.startswith(b"http/1.1 200")
            at += clients
        writer.close()

    async def all_clients() -> None:
        await asyncio.gather(*map(client, range(clients)))

    start, cpu = time.perf_counter(), server.cpu()
    asyncio.run(all_clients())
    return Load(times, errors, time.perf_counter() - start, server.cpu() - cpu)


def for_seconds(seconds: float) -> Callable[[int], bool]:
    end = time.perf_counter() + seconds
    return lambda _: time.perf_counter() < end


def in_process(folder: Path, queries: Sequence[Asked], seconds: float) -> list[float]:
    """Return milliseconds of searches in this process."""
    from vocabtool import Index

    held, times = Index.open(folder), list[float]()
    goes_on = for_seconds(seconds)
    while goes_on(0):
        for one in queries:
            start = time.perf_counter()
            held.search(one.text, vector=one.vector)
            times.append((time.perf_counter() - start) * 1e3)
    return times


# The questions.


def clients(of: Corpus, options: argparse.Namespace) -> Iterator[Table]:
    folder, asked, queries = index(of), requests(of), of.queries()
    alone = in_process(folder, queries, options.seconds)
    speed = f"{1e3 * len(alone) / sum(alone):,.0f}"
    p50, p99 = (f"{each:.2f} ms" for each in (median(alone), quantiles(alone, n=100)[98]))
    rows: list[tuple[str, ...]] = [("in process", p50, p99, speed, "", "")]
    found = []
    with serving(folder) as server:
        until_ready(server)
        load(server, asked, 1, for_seconds(1))
        for count in CLIENTS:
            found.append(load(server, asked, count, for_seconds(options.seconds)))
            rows.append(row(f"{count} clients", found[-1]))
    title = f"Search {of.documents:,} documents over HTTP, {options.seconds:.0f} s each"
    columns = ("", "p50", "p99", "a second", "errors", "CPU of one")
    yield Table(title=title, columns=columns, rows=tuple(rows))
    over = found[0].p50 - median(alone)
    yield goals(
        at_most("p50 over HTTP more than in process", over, OVERHEAD, "{:.2f} ms"),
        at_least(f"a second, {CLIENTS[-1]} clients", found[-1].rate, RATE, "{:,.0f}"),
        at_most(f"p50, {CLIENTS[-1]} clients", found[-1].p50, WAIT, "{:.1f} ms"),
        at_most("errors", sum(each.errors for each in found), 0, "{:,.0f}"),
    )


def row(name: str, found: Load) -> tuple[str, ...]:
    rate, cpu = f"{found.rate:,.0f}", f"{found.cpu_of_one:.2f} ms"
    return name, f"{found.p50:.2f} ms", f"{found.p99:.2f} ms", rate, f"{found.errors:,}", cpu


def writer(of: Corpus, options: argparse.Namespace) -> Iterator[Table]:
    """Another process adds a document and commits, every second."""
    folder, asked = index(of), requests(of)
    found = []
    with serving(folder) as server:
        until_ready(server)
        load(server, asked, 8, for_seconds(1))
        found.append(load(server, asked, 8, for_seconds(options.seconds)))
        script = str(Path(__file__).resolve())
        command = [sys.executable, script, "--write-to", str(folder)]
        writing = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writing.stdout is not None
        writing.stdout.readline()  # it is ready
        found.append(load(server, asked, 8, for_seconds(options.seconds)))
        writing.terminate()
        writing.wait()
    names = "quiet", "a commit every second"
    rows = tuple(row(name, each) for name, each in zip(names, found, strict=True))
    columns = ("", "p50", "p99", "a second", "errors", "CPU of one")
    yield Table(title="Searches beside a writer, 8 clients", columns=columns, rows=rows)
    yield goals(
        at_most(
            "p99, beside a writer / quiet", found[1].p99 / found[0].p99, BESIDE_WRITER, "{:.2f}"
        )
    )


def write_to(folder: Path) -> None:
    """Replace a document and commit, every second, until terminated."""
    import numpy as np

    from vocabtool import Document, Index

    held = Index.open(folder)
    vector = np.ones((1, held.configuration.dim), np.float32)
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        begin = time.perf_counter()
        with held.writer() as writer:
            writer.update([Document("written", f"the document of commit {number}")], vector)
        time.sleep(max(0.0, 1 - (time.perf_counter() - begin)))


def memory(of: Corpus, options: argparse.Namespace) -> Iterator[Table]:
    folder, asked = index(of), requests(of)
    sizes = []
    with serving(folder) as server:
        until_ready(server)
        for count in (options.requests // 10, options.requests * 9 // 10):
            load(server, asked, 8, lambda so_far, most=count: so_far < most)  # type: ignore[misc] # mypy infers no type of its default
            sizes.append(server.memory())
    rows = tuple(
        (f"{count:,}", f"{size / 1e6:,.1f} MB")
        for count, size in zip((options.requests // 10, options.requests), sizes, strict=True)
    )
    columns = ("after requests", "memory without files")
    yield Table(title="Memory of the server", columns=columns, rows=rows)
    yield goals(at_most("memory, end / a tenth", sizes[1] / sizes[0], FLAT, "{:.3f}"))


def start(of: Corpus, options: argparse.Namespace) -> Iterator[Table]:
    folder = index(of)
    begin = time.perf_counter()
    with serving(folder) as server:
        while not server.answers("/health"):
            time.sleep(0.001)
        alive = time.perf_counter() - begin
        until_ready(server)
        ready = time.perf_counter() - begin
    rows = (("/health", f"{alive:.2f} s"), ("/ready", f"{ready:.2f} s"))
    title = f"From the command to the first answer, {of.documents:,} documents"
    yield Table(title=title, columns=("", "time"), rows=rows)
    yield goals(at_most("ready", ready, READY, "{:.2f} s"))


QUESTIONS: Final[dict[str, Callable[[Corpus, argparse.Namespace], Iterator[Table]]]] = {
    "clients": clients,
    "writer": writer,
    "memory": memory,
    "start": start,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / ".work")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--only", choices=QUESTIONS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write-to", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write_to is not None:
        write_to(options.write_to)
        return
    of = corpus(options.work, options.documents)
    prepare(of, 200)
    asked = [options.only] if options.only else [*QUESTIONS]
    report((table for name in asked for table in QUESTIONS[name](of, options)), options.json)


if __name__ == "__main__":
    main()
