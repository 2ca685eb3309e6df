"""Compare hybrid search of vocabtool, LanceDB, zvec, Milvus Lite and PostgreSQL with pgvector.

    python benchmarks/search.py                          everything; takes hours
    python benchmarks/search.py --documents 10000        smaller; several sizes by commas
    python benchmarks/search.py --only zvec              run one engine, show stored results too
    python benchmarks/search.py --question opening       one benchmark of our own index

Needs vocabtool, lancedb, zvec, pymilvus, milvus-lite, pgserver and psycopg[binary] in this Python.
Documents and vectors are those of ``coded_corpus.py``. Query vectors do not encode the codes in the
queries; they are not similar to any document, which makes nearest neighbours hard to find.

Each engine runs in its own process. Build time is from documents on disk to an index at full speed;
memory is the peak of the process without files, and what mapped files add to its peak. Recall is
recall@10 of vector search alone; each peer is tuned to reach 0.95, or as close to it as it can.
Hybrid search is the engine's own, in every variant it offers, in one thread, ten documents with
their texts. A failed engine is listed with the reason.

This is one run on one machine: ratios are meaningful, absolute times are not. Results are stored
next to the corpus, so an engine that was measured is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from processes import Reporter, run
from results import Goal, Table, at_least, at_most, goals, report
from search_corpus import Corpus, corpus, make
from search_engines import ENGINES, pgvector
from search_jobs import JOBS
from search_measuring import RECALL, measure
from search_questions import QUESTIONS, done

SIZES: Final = "100000,1000000"
QUERIES: Final = 200
LIMIT: Final = 3_600.0  # seconds for one engine
TAIL: Final = 5.0  # maximum p99 as a multiple of p50
FIRST: Final = 0.99  # minimum share of queries whose right document is first
OURS: Final = "ours"
# Goals for ten million documents or more: p50 in milliseconds, seconds to build, bytes of memory
# without files.
MANY: Final = 10_000_000
MOST_OF_MANY: Final = (15.0, 1_800.0, 6_000_000_000)
DEFAULT: Final = "hybrid: coverage (default)"

Result = dict[str, Any]


def prepare(wanted: Corpus, queries: int) -> None:
    """Write a corpus unless it exists with that number of queries.

    This runs in another process: on Linux, a child's peak memory includes that of its parent.
    """
    asked = wanted.folder / "queries.json"
    if asked.exists() and len(json.loads(asked.read_text("utf-8"))) == queries:
        return
    say(f"making {wanted.documents:,} documents")
    shutil.rmtree(wanted.folder, ignore_errors=True)
    wanted.folder.mkdir(parents=True)
    done("make", wanted.folder, str(queries))


def make_job(reporter: Reporter, folder: Path, queries: str) -> None:
    """Write the corpus of a folder; this job is run by :func:`prepare`."""
    make(corpus(folder.parent, count_of(folder)), int(queries))


def measured(name: str, of: Corpus, limit: float) -> Result:
    """Measure an engine in its own process; delete its files afterwards, except our index."""
    say(f"{name}: {of.documents:,} documents")
    folder = of.folder / name
    complete = folder.with_suffix(".complete")
    complete.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    script = str(Path(__file__).resolve())
    done_by = run([script, "--job", "measure", str(folder)], limit, folder.with_suffix(".log"))
    if name == "pgvector":
        pgvector.end(folder)
    if name != OURS:
        shutil.rmtree(folder, ignore_errors=True)
    elif done_by.failure is None:
        complete.touch()
    result = {**done_by.told, "failure": done_by.failure}
    result |= {"memory": done_by.memory, "without_files": done_by.own}
    folder.with_suffix(".json").write_text(json.dumps(result, indent=1), "utf-8")
    return result


def measure_job(reporter: Reporter, folder: Path) -> None:
    """Measure an engine; this job is run by :func:`measured`."""
    measure(folder.name, corpus(folder.parent.parent, count_of(folder.parent)), folder, reporter)


def count_of(folder: Path) -> int:
    """Return the number of documents of a corpus from its folder's name."""
    return int(folder.name.removeprefix("search_"))


def known(of: Corpus) -> dict[str, Result]:
    """Return the results of each engine, from this run or an earlier one."""
    files = {name: of.folder / f"{name}.json" for name in ENGINES}
    return {
        name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.exists()
    }


# Report.


def tables(of: Corpus, results: dict[str, Result]) -> Iterator[Table]:
    """Yield the tables of indexes, hybrid searches, failures, and goals."""
    indexes = ((name, *indexed(found)) for name, found in results.items() if "recall" in found)
    memory = "memory + files in it"
    columns = ("", "version", "build", "disk", memory, "recall@10", "vectors p50", "index")
    yield Table(
        title=f"Indexes of {of.documents:,} documents", columns=columns, rows=tuple(indexes)
    )
    searches = (
        (name, way, *answered(told))
        for name, found in results.items()
        for way, told in hybrids(found).items()
    )
    shown = ("", "hybrid search", "p50", "p99", "right first", "right in ten")
    title = f"Hybrid search of {of.documents:,} documents"
    yield Table(title=title, columns=shown, rows=tuple(searches))
    failed = tuple(
        (name, found["failure"]) for name, found in results.items() if found["failure"] is not None
    )
    if failed:
        yield Table(title="Failed", columns=("", "reason"), rows=failed)
    if DEFAULT in results.get(OURS, {}):
        yield goals(*goals_of(of, results[OURS], {n: f for n, f in results.items() if n != OURS}))


def indexed(found: Result) -> Sequence[str]:
    """Return the row of an index."""
    own, server = found["without_files"], found.get("memory_beside", 0)
    memory = f"{own / 1e6:,.0f} + {(found['memory'] - own) / 1e6:,.0f}"
    return (
        found["version"],
        f"{found['build_seconds']:.1f} s",
        f"{found['disk'] / 1e6:,.0f} MB",
        f"{memory} MB{f', server {server / 1e6:,.0f} MB' if server else ''}",
        f"{found['recall']:.3f}",
        f"{found['vector']['p50']:.2f} ms",
        f"{found['index']}; {found['setting']}",
    )


def answered(told: Result) -> Sequence[str]:
    """Return the row of a hybrid search."""
    speeds = (f"{told[name]:.2f} ms" for name in ("p50", "p99"))
    return (*speeds, f"{told['hit1']:.1%}", f"{told['hit10']:.1%}")


def hybrids(found: Result) -> dict[str, Result]:
    """Return the results of an engine's hybrid searches, by name."""
    start = "hybrid: "
    return {name.removeprefix(start): told for name, told in found.items() if start in name}


def goals_of(of: Corpus, ours: Result, peers: dict[str, Result]) -> Iterator[Goal]:
    """Return the goals for one corpus size."""
    own = ours[DEFAULT]
    yield at_least("recall@10", ours["recall"], RECALL, "{:.3f}")
    if of.documents >= MANY:
        p50, seconds, memory = MOST_OF_MANY
        yield at_most("hybrid p50", own["p50"], p50, "{:.1f} ms")
        yield at_most("time to build", ours["build_seconds"], seconds, "{:,.0f} s")
        what = "memory without files, MB"
        yield at_most(what, ours["without_files"] / 1e6, memory / 1e6, "{:,.0f}")
    yield at_most("p99 against p50", own["p99"] / own["p50"], TAIL, "{:.2f}x")
    yield at_least("the right document first", own["hit1"], FIRST, "{:.1%}")
    ways = {
        f"{name}, {way}": told["p50"]
        for name, found in peers.items()
        if found.get("recall", 0) >= RECALL
        for way, told in hybrids(found).items()
    }
    if ways:
        best = min(ways, key=lambda way: ways[way])
        what = f"hybrid p50 against the fastest peer of that recall ({best})"
        yield at_most(what, own["p50"], ways[best], "{:.2f} ms")
    for what, key, scale, unit in (
        ("time to build", "build_seconds", 1.0, "{:.1f} s"),
        ("disk", "disk", 1e6, "{:,.0f} MB"),
    ):
        least = sorted((found[key], name) for name, found in peers.items() if key in found)[:2]
        if least:
            value, name = least[-1]
            against = f"{what} against the second best peer ({name})"
            yield at_most(against, ours[key] / scale, value / scale, unit)


def say(what: str) -> None:
    """Print progress on standard error."""
    print(what, file=sys.stderr, flush=True)


def job(name: str, folder: str, *arguments: str) -> None:
    """Run a job of this script, by name, in its own process."""
    jobs: dict[str, Callable[..., None]] = {"make": make_job, "measure": measure_job, **JOBS}
    jobs[name](Reporter(), Path(folder), *arguments)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for generated files")
    parser.add_argument("--documents", default=SIZES, help="corpus sizes, separated by commas")
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="time limit for one engine in seconds"
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--only", choices=ENGINES, help="measure only this engine")
    one.add_argument("--question", choices=QUESTIONS, help="run only this benchmark")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job(*options.job)
        return
    work = options.work.resolve()
    sizes = [corpus(work, count) for count in sorted(map(int, options.documents.split(",")))]
    report(measure_all(sizes, options), options.json)


def measure_all(sizes: Sequence[Corpus], options: argparse.Namespace) -> Iterator[Table]:
    """Measure every engine on every size, then our own index."""
    for size in sizes:
        prepare(size, options.queries)
        if options.question is None:
            for name in [options.only] if options.only else ENGINES:
                measured(name, size, options.limit)
            yield from tables(size, known(size))
    for name in [options.question] if options.question else [] if options.only else QUESTIONS:
        yield from QUESTIONS[name](sizes)


if __name__ == "__main__":
    main()
