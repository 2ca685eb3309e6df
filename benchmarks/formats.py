"""Compare time and memory of reading other formats with the minimum that reading can cost.

    python benchmarks/formats.py                    everything
    python benchmarks/formats.py --only vectors     one benchmark (``--runs 1``: faster)

vocabtool must be installed in this Python. The input files are generated on first use.

``vectors``: a text file like GloVe of 1 GB, 400,000 words with 300 numbers each; some words contain
spaces. vocabtool lists the words, ``wc -l`` counts the lines.

``diff``: two lists of a million words, half of them common. ``vocabtool diff`` compares them and
writes all its figures; a Python script compares them as sets.

``json``: two ``tokenizer.json`` of 250,000 entries, one BPE with as many merges, one with scored
pieces. ``vocabtool.vocabularies`` and ``json.loads`` read each, alternating, in one process that
has imported everything. Reading the file is included.

``vectors`` and ``diff`` measure whole processes, alternating, from start to exit, with a warm file
cache. Memory is the peak resident set. 1 MB is 1,000,000 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Final

from results import Table, at_most, goals, report

WORDS: Final = 400_000
DIM: Final = 300
TAILS: Final = 4_001  # distinct vectors; the words repeat them in turn
SLOWER: Final = 8  # goal: at most this multiple of the time of wc -l
MOST_MEMORY: Final = 150_000_000
ENTRIES: Final = 1_000_000  # entries of each list
COMMON: Final = 500_000
MOST_SECONDS: Final = 2.0
MOST_DIFF_MEMORY: Final = 600_000_000
PIECES: Final = 250_000  # entries of each tokenizer.json
SLOWER_THAN_LOADS: Final = 1.5
TOKENIZERS: Final = ("bpe.json", "unigram.json")
SETS: Final = """
import json, sys
a, b = (open(path, encoding="utf-8").read().split("\\n")[:-1] for path in sys.argv[1:3])
in_a, in_b = set(a), set(b)
common = in_a & in_b
only_a = [word for word in a if word not in in_b]
only_b = [word for word in b if word not in in_a]
print(json.dumps({"common": len(common), "only_a": len(only_a), "only_b": len(only_b)}))
"""


# Input files.


def glove_word(number: int) -> bytes:
    """Return a word of the text file; one in a hundred contains spaces."""
    return b". . . %d" % number if number % 100 == 7 else b"word%d" % number


def glove(path: str) -> None:
    """Write the text file of word vectors."""
    import numpy as np

    numbers = np.random.default_rng(7).standard_normal((TAILS, DIM)) * 0.4
    tails = [" ".join(f"{number:.5g}" for number in row).encode() for row in numbers]
    with Path(path).open("wb") as file:
        for number in range(WORDS):
            file.write(glove_word(number) + b" " + tails[number % TAILS] + b"\n")


def entry(generator: random.Random) -> str:
    """Return a word, a name, a number, an identifier, or a word in another script."""
    vowels, consonants = "aeiou", "bcdfghjklmnpqrstvwz"
    length = generator.choices((1, 2, 3, 4, 5), (8, 35, 35, 15, 7))[0]
    word = "".join(generator.choice(consonants) + generator.choice(vowels) for _ in range(length))
    kind = generator.random()
    if kind < 0.60:
        return word + generator.choice(("", "n", "s", "r", "th"))
    if kind < 0.80:
        return word.upper() if kind < 0.64 else word.capitalize()
    if kind < 0.86:
        return f"{generator.randrange(10**6) / generator.choice((1, 10)):g}"
    if kind < 0.91:
        return f"{word}_{generator.randrange(1000)}"
    if kind < 0.96:
        return word[:2] + generator.choice("àéèüöñçß\ufb01") + word[2:]
    letters = "абвгдежзиклмнопрст" if kind < 0.98 else "一丁七万三上下不与世中主久义之乐也习"
    return "".join(generator.choice(letters) for _ in range(generator.randrange(3, 9)))


def two_lists() -> tuple[list[str], list[str]]:
    """Return two lists of distinct words that share some, each in its own order."""
    generator = random.Random(5)
    found = {"the": None}
    while len(found) < 2 * ENTRIES - COMMON:
        found[entry(generator)] = None
    words = list(found)
    other = ["of", *words[ENTRIES - COMMON + 1 :]]
    generator.shuffle(other)
    return words[:ENTRIES], ["the", *other[:-1]]


def list_a(path: str) -> None:
    """Write the first of the two lists."""
    Path(path).write_text("\n".join(two_lists()[0]) + "\n", "utf-8")


def list_b(path: str) -> None:
    """Write the second of the two lists."""
    Path(path).write_text("\n".join(two_lists()[1]) + "\n", "utf-8")


def made(work: Path, name: str) -> Path:
    """Return the file that the job ``name`` writes; run the job if the file does not exist.

    The job runs in its own process, because a child's peak memory includes that of its parent.
    """
    path = work / name
    if not path.exists():
        say(f"writing {name}")
        beside = work / f"{name}.part"
        subprocess.run([*job(name), str(beside)], check=True)
        beside.rename(path)
    return path


# Measure.


@dataclass(frozen=True, slots=True)
class Run:
    """A process: seconds, peak resident memory in bytes, and its output."""

    seconds: float
    memory: int
    said: bytes


def run(command: list[str]) -> Run:
    """Run a command; exit if it fails."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as out:
        actions = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1)]
        start = time.perf_counter()
        process = os.posix_spawn(command[0], command, environment, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        said = out.read()
    if status:
        raise SystemExit(f"failed: {command[:4]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(seconds, usage.ru_maxrss * unit, said)


def in_turn(commands: dict[str, list[str]], runs: int) -> dict[str, list[Run]]:
    """Run every command once to warm up, then ``runs`` times, alternating."""
    results: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(runs + 1):
        say(f"round {number} of {runs}")
        for name, command in commands.items():
            found = run(command)
            if number:
                results[name].append(found)
    return results


def seconds_of(runs: list[Run]) -> float:
    """Return the median time."""
    return median(found.seconds for found in runs)


def job(name: str) -> list[str]:
    """Return the command that runs one of JOBS in a new process."""
    return [sys.executable, str(Path(__file__).resolve()), "--job", name]


# The benchmarks.


def vectors(work: Path, runs: int) -> Iterator[Table]:
    """Compare our list of the words with ``wc -l``."""
    text = made(work, "glove")
    megabytes = text.stat().st_size / 1e6
    wc = shutil.which("wc")
    if wc is None:
        raise SystemExit("wc is not installed")
    commands = {"wc -l": [wc, "-l", str(text)], "vocabtool": [*job("list_vectors"), str(text)]}
    results = in_turn(commands, runs)
    lines = int(results["wc -l"][0].said.split()[0])
    found = json.loads(results["vocabtool"][0].said)
    if found != {"words": lines, "blanks": 3 * WORDS // 100}:
        raise SystemExit(f"wc counts {lines:,} lines, vocabtool {found}")
    counting = seconds_of(results["wc -l"])
    rows = []
    for name, each in results.items():
        seconds, memory = seconds_of(each), max(r.memory for r in each)
        ratio = f"{seconds / counting:.1f}x"
        shown = (f"{seconds:.2f} s", f"{megabytes / seconds:.0f} MB/s", f"{memory / 1e6:.0f} MB")
        rows.append((name, *shown, ratio))
    title = f"The words of {megabytes / 1e3:.1f} GB of word vectors"
    columns = ("", "time", "speed", "memory", "time against wc -l")
    yield Table(title=title, columns=columns, rows=tuple(rows))
    slower = seconds_of(results["vocabtool"]) / counting
    most = max(r.memory for r in results["vocabtool"])
    yield goals(
        at_most("time against wc -l", slower, SLOWER, "{:.1f}x"),
        at_most("memory", most / 1e6, MOST_MEMORY / 1e6, "{:.0f} MB"),
    )


def list_vectors(path: str) -> None:
    """List the words of a file of vectors."""
    import vocabtool

    (vocabulary,) = vocabtool.vocabularies(path)
    blanks = vocabulary.stored.data.count(b" ")
    print(json.dumps({"words": len(vocabulary), "blanks": blanks}))


def diff(work: Path, runs: int) -> Iterator[Table]:
    """Compare our comparison, with all its figures, with Python's sets."""
    files = [str(made(work, name)) for name in ("list_a", "list_b")]
    commands = {
        "Python's sets": [sys.executable, "-c", SETS, *files],
        "vocabtool": [*job("compare"), *files],
    }
    results = in_turn(commands, runs)
    expected = json.loads(results["Python's sets"][0].said)
    found = json.loads(results["vocabtool"][0].said)
    if {name: found[name] for name in expected} != expected:
        raise SystemExit(f"sets find {expected}, vocabtool something else")
    rows = [
        (name, f"{seconds_of(each):.2f} s", f"{max(r.memory for r in each) / 1e6:.0f} MB")
        for name, each in results.items()
    ]
    yield Table(
        title=f"Two vocabularies of {ENTRIES:,} entries compared",
        columns=("", "time", "memory"),
        rows=tuple(rows),
    )
    seconds, sets = seconds_of(results["vocabtool"]), seconds_of(results["Python's sets"])
    memory = max(r.memory for r in results["vocabtool"])
    yield goals(
        at_most("time", seconds, MOST_SECONDS, "{:.2f} s"),
        at_most("time against Python's sets", seconds / sets, 1, "{:.2f}x"),
        at_most("memory", memory / 1e6, MOST_DIFF_MEMORY / 1e6, "{:.0f} MB"),
    )


def compare(*files: str) -> None:
    """Run ``vocabtool diff`` with all figures and the first 20 entries of each list."""
    from vocabtool.cli.models import diff_command

    options = ["--format", "json", "--limit", "20"]
    diff_command.main([*files, *options], standalone_mode=False)


def tokenizer(path: str, model: dict[str, object]) -> None:
    """Write a ``tokenizer.json`` with this model."""
    document: dict[str, object] = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": None,
        "model": model,
    }
    Path(path).write_text(json.dumps(document, ensure_ascii=False), "utf-8")


def bpe(path: str) -> None:
    """Write a tokenizer with a BPE model: words, and the two parts that each was merged from."""
    words = [f"{number:x}q{number % 977:x}" for number in range(PIECES)]
    vocabulary = {word: number for number, word in enumerate(words)}
    merges = [f"{word[:1]} {word[1:]}" for word in words]
    tokenizer(path, {"type": "BPE", "vocab": vocabulary, "merges": merges})


def unigram(path: str) -> None:
    """Write a tokenizer with a Unigram model: pieces with scores."""
    pieces = [[f"▁{number:x}", -number / 1000] for number in range(PIECES)]
    tokenizer(path, {"type": "Unigram", "unk_id": 0, "vocab": pieces})


def parsing(work: Path, runs: int) -> Iterator[Table]:
    """Compare our reader with ``json.loads``."""
    rows, ratios = [], []
    for name in TOKENIZERS:
        done = run([*job("read_both"), str(made(work, name)), str(runs)])
        ours, theirs, words = json.loads(done.said)
        if words != PIECES:
            raise SystemExit(f"{name}: expected {PIECES:,} entries, got {words:,}")
        ratios.append(ours / theirs)
        rows.append((name, f"{theirs:.3f} s", f"{ours:.3f} s", f"{ours / theirs:.2f}x"))
    yield Table(
        title=f"A tokenizer.json of {PIECES:,} entries",
        columns=("", "json.loads", "vocabtool", "ratio"),
        rows=tuple(rows),
    )
    yield goals(at_most("time against json.loads", max(ratios), SLOWER_THAN_LOADS, "{:.2f}x"))


def read_both(path: str, runs: str) -> None:
    """Run both, alternating, after a warm-up round; return medians and the number of entries."""
    import vocabtool

    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(2 * int(runs) + 1):
        start = time.perf_counter()
        (vocabulary,) = vocabtool.vocabularies(path)
        middle = time.perf_counter()
        json.loads(Path(path).read_text("utf-8"))
        seconds["ours"].append(middle - start)
        seconds["theirs"].append(time.perf_counter() - middle)
    print(json.dumps([*(median(each[1:]) for each in seconds.values()), len(vocabulary)]))


QUESTIONS: Final[dict[str, Callable[[Path, int], Iterator[Table]]]] = {
    "vectors": vectors,
    "diff": diff,
    "json": parsing,
}
JOBS: Final[dict[str, Callable[..., None]]] = {
    "glove": glove,
    "list_vectors": list_vectors,
    "list_a": list_a,
    "list_b": list_b,
    "compare": compare,
    "bpe.json": bpe,
    "unigram.json": unigram,
    "read_both": read_both,
}


def say(what: str) -> None:
    """Print progress on standard error."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for generated files")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=tuple(QUESTIONS))
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        name, *arguments = options.job
        JOBS[name](*arguments)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    asked = (ask for name, ask in QUESTIONS.items() if options.only in (None, name))
    tables = (ask(options.work, options.runs) for ask in asked)
    report(chain.from_iterable(tables), options.json)


if __name__ == "__main__":
    main()
