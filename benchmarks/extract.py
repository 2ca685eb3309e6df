"""Compare time and memory of ``vocabtool extract`` and of a script that uses TensorFlow.

    python benchmarks/extract.py                              10 MB, 200 MB and 1.5 GB
    python benchmarks/extract.py --sizes 10,200 --runs 9      smaller models, more runs
    python benchmarks/extract.py --json FILE                  also store the tables as JSON

TensorFlow and vocabtool must be installed in this Python. The models are generated on first use:
400,004 words in the structure of the Universal Sentence Encoder, then random weights up to the
size.

Processes are measured from start to exit, alternating, after a warm-up round that fills the file
cache and writes bytecode, as an installer does. Memory is the peak resident set; 1 MB is 1,000,000
bytes. Results are medians. Both outputs are compared with the words of the model in every round.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final

from results import Table, at_least, at_most, goals, report

# The measured functions import their libraries themselves. This process must stay small, because
# the peak memory of a child process starts from the memory of its parent.

WORDS: Final = 400_004
FILLERS: Final = 750  # nodes in the main graph and in each of three functions
CHUNK: Final = 64_000_000  # bytes of weights in one constant
LARGE: Final = 1_000  # MB; from this size on, three runs are enough
SMALLEST: Final = 10  # MB; the words and nodes alone take 6
LARGEST: Final = 2_000  # MB; protobuf refuses messages of 2 GiB

# The usual script for the Universal Sentence Encoder, with the fastest way to write.
RECIPE: Final = """
import sys
import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

saved_model = loader_impl.parse_saved_model(sys.argv[1])
words = []
for function in saved_model.meta_graphs[0].graph_def.library.function:
    if "ptb" in function.signature.name.lower():
        for node in function.node_def:
            if node.name == "Embeddings_words":
                words = list(node.attr["value"].tensor.string_val)
with open(sys.argv[2], "wb") as file:
    file.writelines(word + b"\\n" for word in words)
"""
READ: Final = "import sys; open(sys.argv[1] + '/saved_model.pb', 'rb').read()"

LEN: Final = 2  # the wire type of bytes

Command = list[str]
Part = bytes | int  # bytes, or the number of bytes of random weights


# Build models. Protobuf is written by hand, so that only one chunk is in memory.


@cache
def words() -> list[bytes]:
    """Return 400,004 distinct pronounceable random words, always the same."""
    generator = random.Random(20_180_329)
    found = dict.fromkeys([b"<UNK>", b"B", b"the", b",", b"."])
    while len(found) < WORDS:
        word = _pronounceable(generator)
        found[(_odd(generator, word) if generator.random() < 0.02 else word).encode()] = None
    return list(found)


def _pronounceable(generator: random.Random) -> str:
    syllables = generator.choices((1, 2, 3, 4, 5), (1, 8, 40, 38, 13))[0]
    word = "".join(
        generator.choice("bcdfghjklmnpqrstvwz") + generator.choice("aeiou")
        for _ in range(syllables)
    )
    return word + generator.choice(("", "", "n", "s", "r", "th", "ng", "st"))


def _odd(generator: random.Random, word: str) -> str:
    """Return an unusual word, such as real vocabularies contain."""
    number = generator.randrange(10_000)
    return generator.choice(
        (
            word.capitalize(),
            word.upper(),
            f"{word}{number}",
            f"{number}.{number % 7}",
            f"{word}'s",
            f"{word}é",
            f"日{word}",
        )
    )


def varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes((*written, value))


def field(number: int, *content: Part | list[Part]) -> list[Part]:
    """Return a length-delimited field with this content."""
    parts = [part for item in content for part in (item if isinstance(item, list) else [item])]
    length = sum(part if isinstance(part, int) else len(part) for part in parts)
    framed = [varint(number << 3 | LEN), varint(length), *parts]
    known = [part for part in framed if isinstance(part, bytes)]
    return [b"".join(known)] if len(known) == len(framed) else framed


def integer(number: int, value: int) -> bytes:
    """Return a varint field."""
    return varint(number << 3) + varint(value)


# Field numbers: tensorflow/core/framework/node_def.proto, attr_value.proto, tensor.proto,
# function.proto, graph.proto; tensorflow/core/protobuf/meta_graph.proto, saved_model.proto.
FLOAT: Final = 1
STRING: Final = 7
INT64: Final = 9


def node(name: str, op: str, inputs: Sequence[str] = (), **attributes: list[Part]) -> list[Part]:
    """Return the content of a NodeDef."""
    parts = [*field(1, name.encode()), *field(2, op.encode())]
    for source in inputs:
        parts += field(3, source.encode())
    for key, value in attributes.items():
        parts += field(5, field(1, key.encode()), field(2, value))
    return parts


def constant(name: str, dtype: int, shape: Sequence[int], content: list[Part]) -> list[Part]:
    """Return the content of a Const node; ``content``: the TensorProto's field with the values."""
    sizes = [field(2, integer(1, size)) for size in shape]
    tensor = [integer(1, dtype), *field(2, *sizes), *content]
    return node(name, "Const", dtype=[integer(6, dtype)], value=field(8, tensor))


def filler(tag: str) -> Iterator[list[Part]]:
    """Yield small nodes without words, like most nodes of a model."""
    for i in range(FILLERS):
        layer = f"{tag}/layer_{i % 12}"
        yield node(
            f"{layer}/op_{i}",
            "MatMul",
            (f"{layer}/op_{i - 1}:output:0", f"{tag}/weights_{i}:output:0"),
            T=[integer(6, FLOAT)],
            transpose_a=[integer(5, 0)],
            _output_shapes=field(1, field(7, field(2, integer(1, 2**64 - 1)))),
        )


def table() -> list[Part]:
    """Return the table's handle; functions share a table if they use the same shared name."""
    return node(
        "table",
        "HashTableV2",
        shared_name=field(2, b"words_load_1_2"),
        key_dtype=[integer(6, STRING)],
        value_dtype=[integer(6, INT64)],
    )


def scalar(name: str, value: int) -> list[Part]:
    """Return a constant with one int64."""
    return constant(name, INT64, (), [integer(10, value)])


def fill_table() -> Iterator[list[Part]]:
    """Return the function that fills the table with the words and their ids 0, 1, 2, ..."""
    known = words()
    values = [part for word in known for part in field(8, word)]
    yield constant("Embeddings_words", STRING, (len(known),), values)
    yield table()
    yield scalar("range/start", 0)
    yield scalar("range/limit", len(known))
    yield scalar("range/delta", 1)
    ends = ("range/start:output:0", "range/limit:output:0", "range/delta:output:0")
    yield node("range", "Range", ends, Tidx=[integer(6, INT64)])
    yield node(
        "LookupTableImportV2",
        "LookupTableImportV2",
        ("table:table_handle:0", "Embeddings_words:output:0", "range:output:0"),
        Tin=[integer(6, STRING)],
        Tout=[integer(6, INT64)],
    )


def find_words() -> Iterator[list[Part]]:
    """Return the function that looks words up; unknown words get id 0."""
    yield table()
    yield scalar("default", 0)
    yield node(
        "LookupTableFindV2",
        "LookupTableFindV2",
        ("table:table_handle:0", "text", "default:output:0"),
        Tin=[integer(6, STRING)],
        Tout=[integer(6, INT64)],
    )


def weights(size: int) -> Iterator[list[Part]]:
    """Return float constants of about ``size`` bytes in total."""
    for i, start in enumerate(range(0, size, CHUNK)):
        numbers = min(CHUNK, size - start) // 4
        yield constant(f"kernel_{i}", FLOAT, (numbers,), field(4, 4 * numbers))


def function(name: str, *nodes: Iterator[list[Part]]) -> list[Part]:
    """Return a FunctionDef as a field of the library."""
    signature = field(1, field(1, name.encode()), field(2, field(1, b"text"), integer(3, STRING)))
    return field(1, signature, *(field(3, node) for group in nodes for node in group))


def saved_model(size_of_weights: int) -> list[Part]:
    """Return the file: a meta graph with a main graph and a library of three functions."""
    library = (
        function("__inference_ptb_pruned_1234", filler("ptb"), fill_table()),
        function("__inference_encoder_pruned_77", filler("encoder"), find_words()),
        function("__inference_dense_5678", filler("dense"), weights(size_of_weights)),
    )
    graph = field(2, *(field(1, node) for node in filler("main")), field(2, *library))
    return [integer(1, 1), *field(2, field(1, field(4, b"serve")), graph)]


def write_model(folder: Path, megabytes: int) -> None:
    """Write ``saved_model.pb`` of about this size, and ``words.txt``, the expected output."""
    import numpy as np

    generator = np.random.default_rng(0)
    bare = sum(len(part) for part in saved_model(0) if isinstance(part, bytes))
    folder.mkdir(parents=True)
    folder.joinpath("words.txt").write_bytes(b"".join(word + b"\n" for word in words()))
    with folder.joinpath("saved_model.pb").open("wb") as file:
        for part in saved_model(megabytes * 1_000_000 - bare):
            if isinstance(part, bytes):
                file.write(part)
            else:
                file.write(generator.random(part // 4, np.float32).data)


def model(work: Path, megabytes: int) -> Path:
    """Return the folder of the model of this size; build it if it does not exist."""
    folder = work / f"words_{megabytes}MB"
    if not folder.exists():
        say(f"building a model of {megabytes} MB")
        beside = folder.with_suffix(".part")
        shutil.rmtree(beside, ignore_errors=True)
        subprocess.run([*job("build"), str(beside), str(megabytes)], check=True)
        beside.rename(folder)
    return folder


# Measure.


@dataclass(frozen=True, slots=True)
class Run:
    """A process: seconds from start to exit, and peak resident memory in bytes."""

    seconds: float
    memory: int


def run(command: Command) -> Run:
    """Run a command; exit if it fails."""
    unit = 1 if sys.platform == "darwin" else 1024
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # otherwise our sources would be compiled each time
    with tempfile.TemporaryFile() as said:
        actions = [(os.POSIX_SPAWN_DUP2, said.fileno(), stream) for stream in (1, 2)]
        start = time.perf_counter()
        process = os.posix_spawn(command[0], command, environment, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
        seconds = time.perf_counter() - start
        if status:
            said.seek(0)
            raise SystemExit(f"failed: {command[:3]}\n{said.read().decode(errors='replace')}")
    return Run(seconds, usage.ru_maxrss * unit)


def race(
    commands: dict[str, Command], runs: int, check: Callable[[], None] = lambda: None
) -> dict[str, list[Run]]:
    """Run all alternating, once to warm up and ``runs`` times; ``check`` the results each time."""
    results: dict[str, list[Run]] = {name: [] for name in commands}
    for i in range(runs + 1):
        for name, command in commands.items():
            result = run(command)
            if i:
                results[name].append(result)
        check()
    return results


def job(name: str) -> Command:
    """Return the command that runs one of JOBS in a new process."""
    return [sys.executable, str(Path(__file__).resolve()), "--job", name]


def python(code: str, *arguments: str) -> Command:
    """Return the command that runs ``code`` in a new process."""
    return [sys.executable, "-c", code, *arguments]


def vocabtool() -> str:
    """Return the path of the installed command."""
    found = shutil.which("vocabtool", path=str(Path(sys.executable).parent))
    if found is None:
        raise SystemExit("vocabtool is not installed in this Python; run: pip install -e .")
    return found


def extraction(folder: Path, runs: int) -> dict[str, list[Run]]:
    """Measure whole processes: the TensorFlow script, our command, reading the file."""
    recipe, ours, expected = (folder / f"{name}.txt" for name in ("recipe", "ours", "words"))

    def check() -> None:
        for output in (recipe, ours):
            if not filecmp.cmp(output, expected, shallow=False):
                raise SystemExit(f"{output.name} differs from the words of the model")
            output.unlink()

    return race(
        {
            "recipe": python(RECIPE, str(folder), str(recipe)),
            "vocabtool": [vocabtool(), "extract", str(folder), "-o", str(ours)],
            "read": python(READ, str(folder)),
        },
        runs,
        check,
    )


def starts(runs: int) -> dict[str, list[Run]]:
    """Measure how long our command and its libraries take to start."""
    imports = ("import click", "import vocabtool.formats.registry", "pass")
    commands = {code: python(code) for code in imports}
    commands["vocabtool --help"] = [vocabtool(), "--help"]
    slow = {"import tensorflow": python("import tensorflow")}
    return race(commands, runs) | race(slow, min(runs, 3))


def warm(folder: Path, runs: int) -> dict[str, list[float]]:
    """Measure calls in a process with everything imported: ours, and TensorFlow's parser."""
    results: dict[str, list[float]] = {}
    for name in ("warm-vocabtool", "warm-tensorflow"):
        command = [*job(name), str(folder), str(runs)]
        results |= json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return results


def timed(call: Callable[[], Any], runs: int) -> list[float]:
    """Return the seconds of each of ``runs`` calls, after one to warm up."""
    seconds = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
        del result  # freed outside of the measured time
    return seconds[1:]


def warm_vocabtool(folder: str, runs: str) -> None:
    """Time vocabtool, which finds and parses the words but leaves them as packed bytes."""
    from vocabtool import vocabularies

    found = vocabularies(folder)
    if [len(vocabulary) for vocabulary in found] != [WORDS]:
        raise SystemExit(f"expected one vocabulary of {WORDS:,} words, got {found}")
    print(json.dumps({"vocabularies": timed(lambda: vocabularies(folder), int(runs))}))


def warm_tensorflow(folder: str, runs: str) -> None:
    """Time protobuf, which parses the whole file with TensorFlow's schema."""
    from tensorflow.core.protobuf import saved_model_pb2

    parse = saved_model_pb2.SavedModel.FromString
    path = Path(folder, "saved_model.pb")
    both = timed(lambda: parse(path.read_bytes()), int(runs))
    content = path.read_bytes()
    parsing = timed(lambda: parse(content), int(runs))
    print(json.dumps({"parse": parsing, "read and parse": both}))


JOBS: Final[dict[str, Callable[[str, str], None]]] = {
    "build": lambda folder, megabytes: write_model(Path(folder), int(megabytes)),
    "warm-vocabtool": warm_vocabtool,
    "warm-tensorflow": warm_tensorflow,
}


# Report.

# Goals by MB of the model: how many times faster, and how many times less memory.
FASTER: Final = {10: 15, 200: 18, 1_500: 25}
LESS_MEMORY: Final = {10: 5, 200: 10, 1_500: 40}
MOST_MEMORY: Final = 120_000_000
MOST_WARM: Final = 0.4  # of the time that protobuf takes
MOST_HELP: Final = 5  # times `import click`


COLUMNS: Final = ("", "vocabtool", "other", "ratio")
FASTER_TO: Final = "{:.1f}x"


def extract_tables(size: int, processes: dict[str, list[Run]]) -> Iterator[Table]:
    """Return time and memory of processes; a ratio above 1 means that vocabtool needs less."""
    names = {"recipe": "TensorFlow recipe", "read": "one read() of the file"}
    seconds = {name: median(run.seconds for run in runs) for name, runs in processes.items()}
    memory = {name: median(run.memory for run in runs) / 1e6 for name, runs in processes.items()}
    rows = []
    for name, told in names.items():
        for what, figures, unit in (("time", seconds, "{:.3f} s"), ("memory", memory, "{:.0f} MB")):
            ours, other = figures["vocabtool"], figures[name]
            shown = (unit.format(ours), unit.format(other), FASTER_TO.format(other / ours))
            rows.append((f"{what}, {told}", *shown))
    title = f"Extract 400,004 words from a model of {size:,} MB"
    yield Table(title=title, columns=COLUMNS, rows=tuple(rows))
    found = [at_most("memory", memory["vocabtool"], MOST_MEMORY / 1e6, "{:.0f} MB")]
    for what, figures, wanted in (("time", seconds, FASTER), ("memory", memory, LESS_MEMORY)):
        if size in wanted:
            ratio = figures["recipe"] / figures["vocabtool"]
            found.append(at_least(f"{what}, recipe", ratio, wanted[size], FASTER_TO))
    yield goals(*found)


def warm_tables(size: int, results: dict[str, list[float]]) -> Iterator[Table]:
    """Return the time of calls in a process that has imported everything."""
    ours, *others = (median(results[n]) for n in ("vocabularies", "parse", "read and parse"))
    rows = []
    for name, other in zip(("parse", "read and parse"), others, strict=True):
        shown = (f"{1e3 * ours:.2f} ms", f"{1e3 * other:.2f} ms", f"{ours / other:.2f}")
        rows.append((f"vocabularies(), protobuf {name}", *shown))
    title = f"Time per call, imports excluded, model of {size:,} MB"
    yield Table(title=title, columns=COLUMNS, rows=tuple(rows))
    yield goals(at_most("vocabularies(), protobuf parse", ours / others[0], MOST_WARM, "{:.2f}"))


def start_tables(results: dict[str, list[Run]]) -> Iterator[Table]:
    """Return the time to start."""
    times = {name: median(run.seconds for run in runs) for name, runs in results.items()}
    rows = tuple((name, f"{1e3 * seconds:.0f} ms") for name, seconds in times.items())
    yield Table(title="Time to start", columns=("", "time"), rows=rows)
    ratio = times["vocabtool --help"] / times["import click"]
    yield goals(at_most("vocabtool --help, import click", ratio, MOST_HELP, "{:.2f}x"))


def say(message: str) -> None:
    """Print progress on standard error."""
    print(message, file=sys.stderr, flush=True)


def benchmark(work: Path, sizes: Sequence[int], runs: int, warm_runs: int) -> Iterator[Table]:
    """Measure everything."""
    for size in sizes:
        folder = model(work, size)
        count = runs if size < LARGE else min(runs, 3)
        say(f"{size} MB: {count} runs of each, {warm_runs} warm")
        yield from extract_tables(size, extraction(folder, count))
        yield from warm_tables(size, warm(folder, warm_runs))
    say(f"starting: {warm_runs} runs of each")
    yield from start_tables(starts(warm_runs))


def sizes(text: str) -> list[int]:
    """Parse ``10,200``."""
    found = [int(size) for size in text.split(",")]
    if not all(SMALLEST <= size < LARGEST for size in found):
        raise argparse.ArgumentTypeError(f"sizes are from {SMALLEST} to below {LARGEST:,} MB")
    return found


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for the models")
    parser.add_argument(
        "--sizes", type=sizes, default="10,200,1500", help="sizes of the models in MB"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each process; from 1 GB on, 3")
    parser.add_argument(
        "--warm-runs", type=int, default=15, help="runs of each call and of each start"
    )
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    return parser.parse_args()


def main() -> None:
    """Measure and print the table."""
    options = arguments()
    vocabtool()
    report(benchmark(options.work, options.sizes, options.runs, options.warm_runs), options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        JOBS[sys.argv[2]](*sys.argv[3:])
    else:
        main()
