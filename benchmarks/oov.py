"""Compare speed and memory of ``vocabtool oov`` with a Python loop.

    python benchmarks/oov.py                            200 MB and 2 GB of text
    python benchmarks/oov.py --sizes 50,500 --runs 1    less

TensorFlow and vocabtool must be installed in this Python. The corpus is generated on first use:
lines of 20 to 60 words with Zipf-distributed frequencies, some capitalised, with punctuation, codes
and numbers. The model knows 20,000 words, and its rule is lower-case, delete punctuation, split (a
Keras TextVectorization).

Whole processes are measured, from start to exit, alternating. The loop and vocabtool must count the
same tokens and unknown tokens. Memory is the peak resident set. 1 MB is 1,000,000 bytes.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from results import Table, at_least, at_most, goals, report

KNOWN: Final = 20_000
WORDS: Final = 200_000
BLOCK_LINES: Final = 20_000
FASTER: Final = 4  # goal: speed as a multiple of the loop's, on two cores
MOST_MEMORY: Final = 400_000_000

# The fastest simple loop: one compiled pattern, one set, one Counter.
LOOP: Final = """
import json, re, sys
from collections import Counter
known = set(open(sys.argv[1], encoding="utf-8").read().split("\\n"))
punctuation = re.compile(r"[!\\"#$%&()*+,-./:;<=>?@\\[\\\\\\]^_`{|}~']")
tokens = unknown = documents = documents_unknown = 0
missing = Counter()
with open(sys.argv[2], encoding="utf-8", newline="\\n") as lines:
    for line in lines:
        words = punctuation.sub("", line.lower()).split()
        new = [word for word in words if word not in known]
        documents += 1
        documents_unknown += bool(new)
        tokens += len(words)
        unknown += len(new)
        missing.update(new)
print(json.dumps({"tokens": tokens, "unknown": unknown, "documents": documents_unknown}))
"""


# The corpus and the models.


def word(generator: random.Random) -> str:
    """Return a pronounceable word."""
    syllables = generator.choices((1, 2, 3, 4), (10, 40, 35, 15))[0]
    letters = "".join(
        generator.choice("bcdfghjklmnpqrstvwz") + generator.choice("aeiou")
        for _ in range(syllables)
    )
    return letters + generator.choice(("", "n", "s", "r", "th"))


def words() -> list[str]:
    """Return the distinct words of the corpus, most frequent first."""
    generator = random.Random(7)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found[word(generator)] = None
    return list(found)


def blocks(vocabulary: Sequence[str], seed: int) -> Iterator[bytes]:
    """Yield blocks of lines without end."""
    import numpy as np

    generator = np.random.default_rng(seed)
    shown = np.array(
        [
            *vocabulary,
            *(w.capitalize() for w in vocabulary),
            *(f"{w}," for w in vocabulary),
            *(f"{w}." for w in vocabulary),
        ],
        dtype=object,
    )
    share = 1 / np.arange(1, WORDS + 1)
    cumulated = np.cumsum(share / share.sum())
    while True:
        lengths = generator.integers(20, 61, BLOCK_LINES)
        count = int(lengths.sum())
        ranks = np.minimum(np.searchsorted(cumulated, generator.random(count)), WORDS - 1)
        forms = generator.choice(4, count, p=(0.8, 0.06, 0.08, 0.06))
        text = shown[ranks + WORDS * forms].tolist()
        for at in generator.integers(0, count, count // 500).tolist():  # a long tail of codes
            text[at] = f"SKU-{generator.integers(10**7)}"
        bounds = np.cumsum(lengths).tolist()
        lines = (" ".join(text[a:b]) for a, b in zip([0, *bounds[:-1]], bounds, strict=True))
        yield ("\n".join(lines) + "\n").encode()


def corpus(work: Path, megabytes: int) -> Path:
    """Return a corpus file of this size; write it if it does not exist."""
    path = work / f"corpus_{megabytes}MB.txt"
    if path.exists():
        return path
    say(f"writing {megabytes} MB of text")
    beside = path.with_suffix(".part")
    size = 0
    with beside.open("wb") as file:
        for block in blocks(words(), megabytes):
            size += file.write(block)
            if size >= megabytes * 1_000_000:
                break
    beside.rename(path)
    return path


def keras_model(folder: str) -> None:
    """Save a TextVectorization that knows every second of the 40,000 most frequent words."""
    import tensorflow as tf
    import tf_keras as keras

    known = words()[: 2 * KNOWN : 2]
    Path(f"{folder}.txt").write_text("\n".join(known), "utf-8")
    layer = keras.layers.TextVectorization(vocabulary=known)
    model = keras.Sequential([keras.Input((1,), dtype=tf.string), layer])
    model(tf.constant([["a"]]))
    tf.saved_model.save(model, folder)


def model(work: Path) -> Path:
    """Return the folder of the model; build it if it does not exist."""
    folder = work / "keras_model"
    if not folder.exists():
        say("building the model")
        beside = folder.with_suffix(".part")
        shutil.rmtree(beside, ignore_errors=True)
        command = [sys.executable, str(Path(__file__).resolve()), "--keras-model", str(beside)]
        subprocess.run(command, check=True, capture_output=True)
        Path(f"{beside}.txt").rename(work / "keras_model.txt")
        beside.rename(folder)
    return folder


# Measure.


@dataclass(frozen=True, slots=True)
class Run:
    """A process: seconds, peak resident memory in bytes, and its counts."""

    seconds: float
    memory: int
    counted: dict[str, Any]


def run(command: list[str]) -> Run:
    """Run a command that prints JSON; exit if it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
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
    return Run(seconds, usage.ru_maxrss * unit, json.loads(said))


def vocabtool() -> str:
    """Return the path of the installed command."""
    found = shutil.which("vocabtool", path=str(Path(sys.executable).parent))
    if found is None:
        raise SystemExit("vocabtool is not installed in this Python; run: pip install -e .")
    return found


def oov(folder: Path, text: Path) -> list[str]:
    """Return our command, as a user runs it; it counts in two threads."""
    return [vocabtool(), "oov", str(folder), str(text), "--format", "json"]


def rules(work: Path, sizes: Sequence[int], runs: int) -> Iterator[Table]:
    """Compare the loop with our command on the first size; measure our memory on all sizes."""
    folder = model(work)
    text = corpus(work, sizes[0])
    commands = {
        "plain Python loop": [sys.executable, "-c", LOOP, str(work / "keras_model.txt"), str(text)],
        "vocabtool oov, two threads": oov(folder, text),
    }
    loop, threads = commands
    results: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(runs):
        say(f"{sizes[0]} MB, round {number + 1} of {runs}")
        for name, command in commands.items():
            results[name].append(run(command))
        check(results[loop][-1], results[threads][-1])
    found = [(name, sizes[0], each) for name, each in results.items()]
    for size in sizes[1:]:
        say(f"{size} MB")
        found.append((threads, size, [run(oov(folder, corpus(work, size)))]))
    base = median(each.seconds for each in results[loop])
    rows = []
    for name, size, each in found:
        seconds, memory = median(r.seconds for r in each), max(r.memory for r in each)
        ratio = f"{base / seconds:.1f}x" if size == sizes[0] else ""
        shown = (f"{seconds:.1f} s", f"{size / seconds:.0f} MB/s", f"{memory / 1e6:.0f} MB")
        rows.append((f"{size} MB: {name}", *shown, ratio))
    columns = ("", "time", "speed", "memory", "speed against the loop")
    yield Table(title="Unknown words of a text", columns=columns, rows=tuple(rows))
    faster = base / median(each.seconds for each in results[threads])
    memory = max(r.memory for name, _, each in found if name != loop for r in each)
    yield goals(
        at_least("two threads, speed against the loop", faster, FASTER, "{:.1f}x"),
        at_most("memory at every size", memory / 1e6, MOST_MEMORY / 1e6, "{:.0f} MB"),
    )


def check(loop: Run, ours: Run) -> None:
    """Exit if the loop and vocabtool have different counts."""
    found = {
        "tokens": ours.counted["tokens"]["all"],
        "unknown": ours.counted["tokens"]["unknown"],
        "documents": ours.counted["documents"]["unknown"],
    }
    if found != loop.counted:
        raise SystemExit(f"the loop counts {loop.counted}, vocabtool {found}")


def say(what: str) -> None:
    """Print progress on standard error."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for generated files")
    parser.add_argument("--sizes", default="200,2000", help="sizes of the corpora in MB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--keras-model", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.keras_model:
        keras_model(options.keras_model)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    sizes = [int(size) for size in options.sizes.split(",")]
    report(rules(options.work, sizes, options.runs), options.json)


if __name__ == "__main__":
    main()
