"""Compare time and memory of two checkouts of the project, as ratios, to measure a change.

    git worktree add ../old 0.1.0
    python benchmarks/trees.py ../old             # another tree and this one, every benchmark
    python benchmarks/trees.py ../old --only search --runs 10
    python benchmarks/trees.py ../old --json FILE # store every measurement

Each benchmark is a command line or a short program that both trees run in their own processes,
alternating (old, new, new, old, ...), with the same Python and the same input. The output is the
median of each tree and the median of the ratios new / old of all pairs; ratios of pairs have less
noise. Times are CPU seconds of the process and its children, and wall-clock seconds; memory is the
peak of the process in MB. Searches are timed one by one inside the process.

The corpus comes from the installed packages: their Python source as lines (up to 100 MB), and
paragraphs of their docstrings as documents. Word vectors come from ``shared/`` next to the project
(or ``$VOCABTOOL_SHARED``); without it, benchmarks that need them are skipped with a message.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
SHARED: Final = Path(os.environ.get("VOCABTOOL_SHARED", ROOT.parent / "shared"))
RUNS: Final = 6
SOURCE_BYTES: Final = 100 << 20
DOCUMENTS: Final = 25_000
COMMAND: Final = "from vocabtool.__main__ import main; main()"
# Queries of two to four words of the documents, each once to warm up, then three times.
SEARCH: Final = """
import json, random, sys, time
import vocabtool
index = vocabtool.open(sys.argv[1])
generator = random.Random(7)
texts = [json.loads(line)["text"].split() for line in open(sys.argv[2])][:5000]
queries = [" ".join(generator.choices(words, k=3)) for words in texts if len(words) > 5][:300]
for query in queries:
    index.search(query)
seconds = []
for query in queries * 3:
    start = time.perf_counter()
    index.search(query)
    seconds.append(time.perf_counter() - start)
seconds.sort()
print(json.dumps({"p50_ms": 1e3 * seconds[len(seconds) // 2],
                  "p99_ms": 1e3 * seconds[int(len(seconds) * 0.99)]}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A benchmark that both trees run. In arguments, ``{out}`` is a new path for each run, and
    ``{index}`` is the index that the tree itself built with ``prepare``."""

    name: str
    arguments: Sequence[str]
    code: str = COMMAND
    prepare: Sequence[str] = ()
    repeat: int = 1


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="the other checkout")
    parser.add_argument("--new", type=Path, default=ROOT)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--only", action="append", help="only benchmarks whose names begin with this"
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for question in questions(work):
            if asked.only and not question.name.startswith(tuple(asked.only)):
                continue
            trees = {"old": asked.old.resolve(), "new": asked.new.resolve()}
            pairs = list(measure(question, trees, work, asked.runs))
            kept[question.name] = pairs
            for figure in pairs[0]["old"]:
                old, new = ([pair[tree][figure] for pair in pairs] for tree in ("old", "new"))
                ratio = statistics.median(n / o for n, o in zip(new, old, strict=True) if o)
                medians = f"{statistics.median(old):10.3f} {statistics.median(new):10.3f}"
                print(f"{question.name:28} {figure:8} {medians}   x {ratio:.3f}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(kept, indent=1))


def questions(work: Path) -> Iterator[Question]:
    """Yield all benchmarks, with their inputs."""
    source, documents, large = work / "source.txt", work / "documents.jsonl", work / "large.txt"
    inputs = ((source_lines, source), (document_lines, documents), (large_vectors, large))
    for write, path in inputs:
        # In another process, because the peak memory of a child includes that of its parent.
        writer = get_context("spawn").Process(target=write, args=(path,))
        writer.start()
        writer.join()
    data = ROOT / "data"
    model, glove = str(data / "sentence_encoder"), str(data / "small_glove.txt")
    yield Question(name="start --help", arguments=["--help"], repeat=5)
    yield Question(name="start search --help", arguments=["search", "--help"], repeat=5)
    yield Question(name="extract", arguments=["extract", model, "-o", "{out}.txt"], repeat=5)
    yield Question(name="inspect", arguments=["inspect", model], repeat=5)
    yield Question(name="oov model", arguments=["oov", model, str(source)])
    for rule in ("keras", "whitespace"):
        arguments = ["oov", glove, str(source), "--rule", rule]
        yield Question(name=f"oov {rule}", arguments=arguments)
    yield Question(name="diff", arguments=["diff", model, glove], repeat=3)
    query = ["search", "{index}", "how does a parser read nested tokens"]
    first = ["index", str(documents), "--model", str(large), "--quiet", "-o", "{index}"]
    yield Question(name="first search", arguments=query, prepare=first, repeat=3)
    vectors = SHARED / "vectors" / "words20k.npz"
    if not vectors.exists():
        print(f"no word vectors: {SHARED.name}/ is not there (set VOCABTOOL_SHARED)")
        return
    use = str(SHARED / "models" / "use_lite_2")
    yield Question(name="extract use_lite_2", arguments=["extract", use, "-o", "{out}.txt"])
    read = [str(documents), "--model", str(vectors), "--rule", "keras", "--quiet", "-o"]
    yield Question(name="embed", arguments=["embed", *read, "{out}"])
    yield Question(name="index", arguments=["index", *read, "{out}"])
    yield Question(
        name="search",
        code=SEARCH,
        arguments=["{index}", str(documents)],
        prepare=["index", *read, "{index}"],
    )
    yield Question(
        name="search once", arguments=query, prepare=["index", *read, "{index}"], repeat=3
    )


def measure(
    question: Question, trees: Mapping[str, Path], work: Path, runs: int
) -> Iterator[dict[str, dict[str, float]]]:
    """Measure both trees in pairs, after a warm-up pair."""
    indexes = {name: str(work / f"index {name} {question.name}") for name in trees}
    for name, tree in trees.items():
        if question.prepare:
            arguments = [each.format(index=indexes[name]) for each in question.prepare]
            run(tree, COMMAND, arguments)
    for number in range(runs + 1):
        pair: dict[str, dict[str, float]] = {}
        for name in ("old", "new") if number % 2 else ("new", "old"):
            for at in range(question.repeat):
                out = str(work / f"{question.name} {name} {number} {at}")
                arguments = [
                    each.format(out=out, index=indexes[name]) for each in question.arguments
                ]
                figures = run(trees[name], question.code, arguments)
                pair[name] = {
                    figure: min(value, pair.get(name, figures)[figure])
                    for figure, value in figures.items()
                }
        if number:
            yield pair


def run(tree: Path, code: str, arguments: Sequence[str]) -> dict[str, float]:
    """Return seconds and peak memory of one process, and the figures that it printed."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "VOCABTOOL_CACHE": str(tree / ".cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code, *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        child = subprocess.Popen(command, env=environment, cwd=tree, stdout=out, stderr=errors)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            errors.seek(0)
            sys.exit(f"{tree.name}: {' '.join(arguments)}\n{errors.read().decode()}")
        out.seek(0)
        own: dict[str, float] = json.loads(out.read()) if code == SEARCH else {}
    cpu = used.ru_utime + used.ru_stime
    return {"cpu_s": cpu, "wall_s": wall, "peak_mb": used.ru_maxrss / 1024, **own}


def source_lines(path: Path) -> None:
    """Yield lines of Python source of the installed packages, in the order of their paths."""
    left = SOURCE_BYTES
    with path.open("wb") as out:
        for file in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py")):
            left -= out.write(file.read_bytes() + b"\n")
            if left < 0:
                return


def document_lines(path: Path) -> None:
    """Yield paragraphs of the docstrings of the installed packages."""
    from identifiers import SEED, paragraphs

    with path.open("w") as out:
        for number, text in enumerate(paragraphs(random.Random(SEED))[:DOCUMENTS]):
            out.write(json.dumps({"id": str(number), "text": text, "size": len(text)}) + "\n")


def large_vectors(path: Path) -> None:
    """Write a text file of 400,000 words and 100 random numbers for each; 1,000 rows repeat."""
    import numpy as np

    rows = np.random.default_rng(7).standard_normal((1_000, 100)).tolist()
    numbers = [" ".join(f"{number:.5f}" for number in row) for row in rows]
    words = ["how", "does", "a", "parser", "read", "nested", "tokens"]
    words += [f"word{number}" for number in range(400_000 - len(words))]
    with path.open("w") as out:
        out.writelines(f"{word} {numbers[at % 1_000]}\n" for at, word in enumerate(words))


if __name__ == "__main__":
    main()
