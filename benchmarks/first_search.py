"""Measure the first search of a process, where the index was built with large word vectors.

    python benchmarks/first_search.py                     400,000 x 100 and 2,000,000 x 300
    python benchmarks/first_search.py --shapes 400000x100
    python benchmarks/first_search.py --json FILE         store the results

The index keeps the words and the matrix of its model, and maps them into memory; so a search does
not read the text of the vectors again. Each run is a whole process, ``vocabtool search``; the index
has a thousand documents. CPU time is that of the process; memory is its peak, mapped files counted
too. Medians of ``--runs``. The larger vectors need 8 GB of disk in ``--work``, and ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from results import Table, at_most, goals, report

SHAPES: Final = "400000x100,2000000x300"
RUNS: Final = 7
DOCUMENTS: Final = 1_000
MOST_CPU: Final = 0.35  # seconds
MOST_MEMORY: Final = 120e6  # bytes
BLOCK: Final = 1_000  # words; all blocks have the same vectors
UNIT: Final = 1 if sys.platform == "darwin" else 1024  # bytes per unit of ru_maxrss


def write_vectors(file: Path, words: int, dim: int) -> None:
    """Write a text file like GloVe."""
    rows = np.random.default_rng(7).standard_normal((BLOCK, dim)).tolist()
    numbers = [" ".join(f"{number:.5f}" for number in row) for row in rows]
    with file.open("w") as out:
        out.writelines(f"word{at} {numbers[at % BLOCK]}\n" for at in range(words))


def write_documents(file: Path) -> None:
    """Write documents of twenty words as JSON lines."""
    drawn = np.random.default_rng(8).integers(0, 100_000, (DOCUMENTS, 20)).tolist()
    with file.open("w") as out:
        for number, row in enumerate(drawn):
            text = " ".join(f"word{at}" for at in row)
            out.write(json.dumps({"id": str(number), "text": text}) + "\n")


def run(*arguments: str) -> tuple[float, float]:
    """Run ``vocabtool``; return its CPU time in seconds and its peak memory in bytes."""
    command = [sys.executable, "-m", "vocabtool", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * UNIT


def measure(work: Path, shapes: list[tuple[int, int]], runs: int) -> Iterator[Table]:
    """Yield a table and goals for each shape (words, dim) of vectors."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    documents, vectors, index = work / "documents.jsonl", work / "vectors.txt", work / "index"
    write_documents(documents)
    for words, dim in shapes:
        write_vectors(vectors, words, dim)
        run("index", str(documents), "--model", str(vectors), "--quiet", "-o", str(index))
        vectors.unlink()
        figures = [run("search", str(index), "word7 word8 unheard") for _ in range(1 + runs)]
        cpu, memory = (median(values) for values in zip(*figures[1:], strict=True))
        shutil.rmtree(index)
        yield Table(
            title=f"The first search of a process, word vectors of {words:,} x {dim}",
            columns=("", "CPU time", "peak memory"),
            rows=(("vocabtool search", f"{cpu:.2f} s", f"{memory / 1e6:.0f} MB"),),
        )
        yield goals(
            at_most("CPU time", cpu, MOST_CPU, "{:.2f} s"),
            at_most("peak memory", memory / 1e6, MOST_MEMORY / 1e6, "{:.0f} MB"),
        )
    shutil.rmtree(work)


def pairs(text: str) -> list[tuple[int, int]]:
    """Read shapes such as ``400000x100,2000000x300``."""
    return [(int(words), int(dim)) for words, dim in (one.split("x") for one in text.split(","))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for generated files")
    parser.add_argument("--shapes", type=pairs, default=SHAPES, help="words x numbers, by commas")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    report(measure(options.work / "first_search", options.shapes, options.runs), options.json)


if __name__ == "__main__":
    main()
