"""The index in a folder of this checkout beside that of another one, for ``stores.py``.

A run has a process for each checkout. They take turns: one asks all queries, then the other. The
ratio of a run is the median of its turns. Functions are counted with ``sys.setprofile``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING, Any, Final

from coded_corpus import DIM, vocabulary
from results import Table, at_most, goals
from search import QUERIES, prepare
from search_corpus import Asked, Corpus, corpus

if TYPE_CHECKING:
    from vocabtool import Index

RUNS: Final = 10
ASKED: Final = 100  # queries in a turn
GOAL: Final = 1.05  # p50 after / before, at most


def seam(options: argparse.Namespace) -> Iterator[Table]:
    """Compare the index in a folder of another checkout with that of this one."""
    if options.baseline is None:
        raise SystemExit("--question seam needs --baseline FOLDER, another checkout")
    of = corpus(options.work, options.documents)
    prepare(of, QUERIES)
    trees = {"before": options.baseline.resolve(), "after": Path(__file__).resolve().parents[1]}
    for name, tree in trees.items():
        with taking_turns(tree, of.folder / f"seam_{name}", "build") as (_, out):
            json.loads(out.readline())
    p50s: dict[str, list[float]] = {name: [] for name in trees}
    cpus: dict[str, list[float]] = {name: [] for name in trees}
    ratios: list[float] = []
    functions: dict[str, int] = {}
    for number in range(RUNS):
        names = [*trees][:: 1 if number % 2 else -1]
        found = one_run({name: trees[name] for name in names}, of, options.rounds)
        for name in trees:
            p50s[name].append(median(each["p50"] for each in found[name]))
            cpus[name].append(median(each["cpu"] for each in found[name]))
            functions[name] = found[name][-1]["functions"]
        pairs = zip(found["after"], found["before"], strict=True)
        ratios.append(median(after["p50"] / before["p50"] for after, before in pairs))
    for name in trees:
        shutil.rmtree(of.folder / f"seam_{name}")
    of_cpu = [after / before for after, before in zip(cpus["after"], cpus["before"], strict=True)]
    rows = (
        ("p50", *(f"{median(p50s[n]):.3f} ms" for n in trees), f"{median(ratios):.3f}x"),
        ("least p50", *(f"{min(p50s[n]):.3f} ms" for n in trees), least(p50s)),
        ("CPU of a query", *(f"{median(cpus[n]):.3f} ms" for n in trees), f"{median(of_cpu):.3f}x"),
        ("Python functions of a query", *(f"{functions[n]:,}" for n in trees), ""),
    )
    what = "An index in a folder, before and after vocabtool had other stores"
    title = f"{what}, {of.documents:,} documents"
    yield Table(title=title, columns=("", *trees, "ratio"), rows=rows)
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    what = f"p50 after / before, median of {RUNS} runs ({spread})"
    yield goals(at_most(what, median(ratios), GOAL, "{:.3f}x"))


def least(found: Mapping[str, Sequence[float]]) -> str:
    return f"{min(found['after']) / min(found['before']):.3f}x"


def one_run(trees: Mapping[str, Path], of: Corpus, turns: int) -> dict[str, list[dict[str, Any]]]:
    """Return what both checkouts tell in their turns, after one to warm up."""
    first, second = trees
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    with (
        taking_turns(trees[first], of.folder / f"seam_{first}", "ask") as one,
        taking_turns(trees[second], of.folder / f"seam_{second}", "ask") as two,
    ):
        for number in range(1 + turns):
            for name, (commands, answers) in ((first, one), (second, two)):
                commands.write("go\n")
                commands.flush()
                told = json.loads(answers.readline())
                if number:
                    found[name].append(told)
    return found


@contextmanager
def taking_turns(tree: Path, folder: Path, what: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """Start a process that uses a checkout; give its standard input and output."""
    command = [sys.executable, str(Path(__file__).resolve()), what, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=tree, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdin, process.stdout
        process.stdin.close()


def job(what: str, folder: Path) -> None:
    """Build an index, or ask it all queries for each line on standard input."""
    from vocabtool import Index

    of = corpus(folder.parent.parent, int(folder.parent.name.removeprefix("search_")))
    if what == "build":
        with Index.create(folder, dim=DIM, vocabulary=vocabulary()).writer() as writer:
            for block in of.blocks():
                writer.add(block.documents, block.vectors)
        print("{}", flush=True)
        return
    index, queries = Index.open(folder), of.queries()[:ASKED]
    for _ in sys.stdin:
        spent, cpu = [], time.process_time()
        for one in queries:
            began = time.perf_counter()
            index.search(one.text, vector=one.vector)
            spent.append(time.perf_counter() - began)
        each = (time.process_time() - cpu) * 1e3 / len(queries)
        calls = functions_of(index, queries[0])
        told = {"p50": median(spent) * 1e3, "cpu": each, "functions": calls}
        print(json.dumps(told), flush=True)


def functions_of(index: Index, one: Asked) -> int:
    """Return the number of calls of Python functions in a query."""
    calls = 0

    def notice(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(notice)
    try:
        index.search(one.text, vector=one.vector)
    finally:
        sys.setprofile(None)
    return calls


if __name__ == "__main__":
    job(sys.argv[1], Path(sys.argv[2]))
