"""vocabtool's hybrid search beside LanceDB, zvec, Milvus Lite, and PostgreSQL with pgvector.

    python benchmarks/search.py                          everything, which takes long
    python benchmarks/search.py --documents 10000        smaller; several sizes by commas
    python benchmarks/search.py --only zvec              one engine, beside what is known of others
    python benchmarks/search.py --question opening       one question alone

Needs vocabtool beside this Python, and lancedb, zvec, pymilvus, milvus-lite, pgserver and
psycopg[binary]. The documents are those of ``coded_corpus.py`` and their vectors; query vectors are
given, and cannot see the codes that the queries hold. They resemble no document, which makes them
hard to answer.

Each engine runs in a process of its own. Build is from documents on disk to an index that answers
at full speed; memory is the peak resident set of that process, files that it maps included.
Recall is that of vector search alone, ten of ten; each peer tries as hard as it must to reach 0.95,
or as it comes nearest to that. Hybrid search is the engine's own, in each way that it offers, asked
in one thread, ten documents with their texts. An engine that fails is told, with the reason.

One run, on one machine: ratios hold, milliseconds do not. What is measured is kept beside the
corpus, so an engine measured before is shown without running again.
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
from search_corpus import Corpus, corpus, make
from search_engines import ENGINES, pgvector
from search_jobs import JOBS
from search_measuring import RECALL, measure
from search_questions import QUESTIONS, done, goal

SIZES: Final = "100000,1000000"
QUERIES: Final = 200
LIMIT: Final = 3_600.0  # seconds for one engine
TAIL: Final = 5.0  # times the p50 that p99 stays under
FIRST: Final = 0.99  # of the queries whose one right document comes first
OURS: Final = "ours"
DEFAULT: Final = "hybrid: coverage (default)"

Result = dict[str, Any]


def prepare(wanted: Corpus, queries: int) -> None:
    """Write a corpus if it is not there with so many queries.

    In another process: Linux counts the peak of the one that starts a process as the peak of both.
    """
    asked = wanted.folder / "queries.json"
    if asked.exists() and len(json.loads(asked.read_text("utf-8"))) == queries:
        return
    say(f"making {wanted.documents:,} documents")
    shutil.rmtree(wanted.folder, ignore_errors=True)
    wanted.folder.mkdir(parents=True)
    done("make", wanted.folder, str(queries))


def make_job(reporter: Reporter, folder: Path, queries: str) -> None:
    """What that process does."""
    make(corpus(folder.parent, count_of(folder)), int(queries))


def measured(name: str, of: Corpus, limit: float) -> Result:
    """One engine in a process of its own; what it left is removed, but not our index."""
    say(f"{name}: {of.documents:,} documents")
    folder = of.folder / name
    complete = folder.with_suffix(".complete")
    complete.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    script = str(Path(__file__).resolve())
    report = run([script, "--job", "measure", str(folder)], limit, folder.with_suffix(".log"))
    if name == "pgvector":
        pgvector.end(folder)
    if name != OURS:
        shutil.rmtree(folder, ignore_errors=True)
    elif report.failure is None:
        complete.touch()
    result = {**report.told, "failure": report.failure, "memory": report.memory}
    folder.with_suffix(".json").write_text(json.dumps(result, indent=1), "utf-8")
    return result


def measure_job(reporter: Reporter, folder: Path) -> None:
    """What that process does."""
    measure(folder.name, corpus(folder.parent.parent, count_of(folder.parent)), folder, reporter)


def count_of(folder: Path) -> int:
    """How many documents the folder of a corpus is for."""
    return int(folder.name.removeprefix("search_"))


def known(of: Corpus) -> dict[str, Result]:
    """What was measured of each engine, in this run or an earlier one."""
    files = {name: of.folder / f"{name}.json" for name in ENGINES}
    return {
        name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.exists()
    }


# Telling.


def tables(of: Corpus, results: dict[str, Result]) -> Iterator[str]:
    """Both tables, what failed, and the goals."""
    yield f"\n{of.documents:,} documents"
    yield row("engine", "version", "build s", "disk MB", "memory MB", "recall", "p50 ms", "vectors")
    for name, found in results.items():
        if "recall" in found:
            yield row(name, *indexed(found))
    yield ""
    yield hybrid_row("engine", "hybrid search", "p50 ms", "p99 ms", "hit@1", "hit@10", "asked")
    for name, found in results.items():
        for way, told in hybrids(found).items():
            yield hybrid_row(name, way, *answered(told))
    yield ""
    for name, found in results.items():
        if found["failure"] is not None:
            yield f"{name} FAILED: {found['failure']}{'; ' + built(found) if built(found) else ''}"
    yield from goals(of, results)


def row(name: str, version: str, *columns: str) -> str:
    """A line of the table of indexes."""
    *numbers, vectors = columns
    return f"{name:12}{version:16}{''.join(f'{one:>11}' for one in numbers)}  {vectors}"


def hybrid_row(name: str, way: str, *numbers: str) -> str:
    """A line of the table of hybrid searches."""
    return f"{name:12}{way:22}" + "".join(f"{one:>10}" for one in numbers)


def indexed(found: Result) -> Sequence[str]:
    """Numbers of an index, as they are shown."""
    beside = found.get("memory_beside", 0)
    return (
        found["version"],
        f"{found['build_seconds']:.1f}",
        f"{found['disk'] / 1e6:.0f}",
        f"{found['memory'] / 1e6:.0f}" + (f"+{beside / 1e6:.0f}" if beside else ""),
        f"{found['recall']:.3f}",
        f"{found['vector']['p50']:.2f}",
        f"{found['index']}; {found['setting']}",
    )


def answered(told: Result) -> Sequence[str]:
    """Numbers of a hybrid search, as they are shown."""
    speeds = (f"{told[name]:.2f}" for name in ("p50", "p99"))
    return (*speeds, f"{told['hit1']:.3f}", f"{told['hit10']:.3f}", str(told["asked"]))


def hybrids(found: Result) -> dict[str, Result]:
    """The hybrid searches of an engine, by name."""
    start = "hybrid: "
    return {name.removeprefix(start): told for name, told in found.items() if start in name}


def built(found: Result) -> str:
    """As far as an engine came that failed later."""
    if "build_seconds" not in found:
        return ""
    return f"built in {found['build_seconds']:.0f} s, {found['disk'] / 1e6:.0f} MB"


def goals(of: Corpus, results: dict[str, Result]) -> Iterator[str]:
    """Those of the issue that one size shows."""
    ours = results.get(OURS, {})
    if DEFAULT not in ours:
        yield "no goals are judged: ours was not measured to the end"
        return
    yield goal(
        f"our recall@10 at least {RECALL}", ours["recall"] >= RECALL, f"{ours['recall']:.3f}"
    )
    own = ours[DEFAULT]
    ratio = own["p99"] / own["p50"]
    yield goal(f"p99 under {TAIL:g} times p50", ratio < TAIL, f"{ratio:.2f}")
    said = f"the right document first in at least {FIRST:.0%} of queries"
    yield goal(said, own["hit1"] >= FIRST, f"{own['hit1']:.1%}")
    peers = {name: found for name, found in results.items() if name != OURS}
    yield from faster(own["p50"], peers)
    yield from among_best_two("build time", "build_seconds", ours, peers)
    yield from among_best_two("disk", "disk", ours, peers)
    for name in (name for name in ENGINES if name not in results):
        yield f"{name} is not among these: never measured on this corpus"


def faster(p50: float, peers: dict[str, Result]) -> Iterator[str]:
    """Our hybrid p50 against the fastest way of each peer that reaches the recall."""
    fastest = {
        f"{name}, {way}": told["p50"]
        for name, found in peers.items()
        if found.get("recall", 0) >= RECALL
        for way, told in hybrids(found).items()
    }
    if fastest:
        best = min(fastest, key=lambda name: fastest[name])
        found = f"{p50:.2f} ms; {best}: {fastest[best]:.2f} ms"
        said = f"hybrid p50 lower than every peer's of recall {RECALL} or more"
        yield goal(said, p50 < fastest[best], found)


def among_best_two(what: str, key: str, ours: Result, peers: dict[str, Result]) -> Iterator[str]:
    """No more than the second least of the peers, whatever recall they reach."""
    least = sorted((found[key], name) for name, found in peers.items() if key in found)[:2]
    if least:
        scale = 1e6 if key == "disk" else 1.0
        told = ", ".join(f"{name} {value / scale:.1f}" for value, name in least)
        found = f"{ours[key] / scale:.1f}; {told}"
        yield goal(f"{what} no more than the best two", ours[key] <= least[-1][0], found)


def say(what: str) -> None:
    """Tell on standard error what goes on."""
    print(what, file=sys.stderr, flush=True)


def job(name: str, folder: str, *arguments: str) -> None:
    """What a process of this script does, by name."""
    jobs: dict[str, Callable[..., None]] = {"make": make_job, "measure": measure_job, **JOBS}
    jobs[name](Reporter(), Path(folder), *arguments)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="where everything is made")
    parser.add_argument("--documents", default=SIZES, help="how many; several by commas")
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one engine")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--only", choices=ENGINES, help="measure this engine alone")
    one.add_argument("--question", choices=QUESTIONS, help="answer this alone")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job(*options.job)
        return
    work = options.work.resolve()
    sizes = [corpus(work, count) for count in sorted(map(int, options.documents.split(",")))]
    for size in sizes:
        prepare(size, options.queries)
        if options.question is None:
            for name in [options.only] if options.only else ENGINES:
                measured(name, size, options.limit)
            print("\n".join(tables(size, known(size))), flush=True)
    for name in [options.question] if options.question else [] if options.only else QUESTIONS:
        for line in QUESTIONS[name](sizes):
            print(line, flush=True)


if __name__ == "__main__":
    main()
