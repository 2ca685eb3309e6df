"""Compare ``vocabtool embed`` with simple loops, ``tf.data``, ``datasets`` and Ray Data.

    python benchmarks/pipeline.py                        everything
    python benchmarks/pipeline.py --only fast            one of fast, wide, static, memory
    python benchmarks/pipeline.py --runs 1 --documents 20000

Needs vocabtool with the extras tensorflow and ray, and `datasets`, in this Python. The corpus is
JSON lines with an id and a text of 20 to 60 words with Zipf-distributed frequencies.

Each contender runs in its own process, alternating with the others. It opens its model and encodes
a few batches; then time is measured from the first line read to the last byte written. ``bare``
only encodes the same texts from a list in memory, in the same batches. The output must have a row
for each document. Memory is the peak resident set of a whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain, islice, pairwise
from pathlib import Path
from queue import Queue
from statistics import median
from threading import Thread
from typing import Any, Final

from results import Goal, Table, at_least, at_most, goals, report

KNOWN: Final = 20_000
STRANGE: Final = 5_000  # words of the corpus that the models do not know
DIM: Final = 256
BATCH: Final = 256
BLOCK: Final = 20_000
WARM: Final = 8  # warm-up batches
FEW, MANY = 100_000, 2_000_000

# Documents a second of the fast model alone on the machine for which its goals were set.
SLOWEST, FASTEST = 32_000, 39_000
WIDTHS: Final = (4096, 3072, 2048, 1536, 1024, 768, 512, 256)

SHOWN: Final = {
    "bare": "the encoder alone, texts in memory",
    "loop": "a plain loop",
    "two threads": "a loop with a reading and a writing thread",
    "from_generator": "tf.data.Dataset.from_generator().batch().prefetch()",
    "not tuned": "the same without TensorFlow's tuner",
    "datasets": "datasets.map(batched=True)",
    "ray data": "Ray Data, two actors",
    "vocabtool": "vocabtool embed",
}

# Goals.
WIDE: Final = 1.05  # maximum time as a multiple of bare's
FAST: Final = 0.85  # minimum documents a second as a share of bare's
LOOP, GENERATOR = 1.5, 9.0  # minimum speed as a multiple of theirs
STATIC_LOOP, DATASETS, RAY = 1.5, 1.3, 3.0
GROWTH: Final = 1.10
MOST_MEMORY: Final = 600_000_000  # bytes in addition to the encoder's
RESUME: Final = 2.0  # seconds


# The corpus and the models.


def words() -> list[str]:
    """Return the corpus words, most frequent first; a fifth of the rarer half is unknown."""
    return [f"w{number:x}" for number in range(KNOWN + STRANGE)]


def known() -> list[str]:
    """Return the words that the models know."""
    strange = set(range(KNOWN + STRANGE)[-2 * STRANGE :: 2])
    return [word for number, word in enumerate(words()) if number not in strange]


def corpus(work: Path, documents: int) -> Path:
    """Return a file of that many documents; write it if it does not exist."""
    import numpy as np

    path = work / f"documents_{documents}.jsonl"
    if path.exists():
        return path
    say(f"writing {documents:,} documents")
    generator = np.random.default_rng(7)
    shown = np.array(words(), dtype=object)
    share = 1 / np.arange(1, len(shown) + 1)
    cumulated = np.cumsum(share / share.sum())
    beside = path.with_suffix(".part")
    with beside.open("w", encoding="utf-8") as file:
        for first in range(0, documents, BLOCK):
            lengths = generator.integers(20, 61, min(BLOCK, documents - first))
            ranks = np.searchsorted(cumulated, generator.random(int(lengths.sum())))
            text = shown[np.minimum(ranks, len(shown) - 1)].tolist()
            ends = np.cumsum(lengths).tolist()
            for number, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True), first):
                file.write(f'{{"id": "d{number}", "text": "{" ".join(text[a:b])}"}}\n')
    beside.rename(path)
    return path


def saved_model(folder: str, layers: str) -> None:
    """Save a model: lookup, mean of word vectors, dense layers of these widths, 256 outputs."""
    import numpy as np
    import tensorflow as tf

    entries = known()

    class Encoder(tf.Module):  # type: ignore[misc] # TensorFlow carries no types
        def __init__(self) -> None:
            super().__init__()
            generator = np.random.default_rng(0)
            fill = tf.lookup.KeyValueTensorInitializer(
                tf.constant(entries), tf.range(1, len(entries) + 1, dtype=tf.int64)
            )
            self.table = tf.lookup.StaticHashTable(fill, 0)
            rows = generator.standard_normal((len(entries) + 1, DIM)).astype("f4")
            self.rows = tf.Variable(rows)
            widths = [DIM, *map(int, layers.split(",")), DIM]
            self.layers = [
                tf.Variable((generator.standard_normal((a, b)) / a**0.5).astype("f4"))
                for a, b in pairwise(widths)
            ]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])  # type: ignore[untyped-decorator] # the same
        def __call__(self, text: Any) -> Any:
            cut = tf.strings.split(tf.strings.lower(text))
            rows = tf.gather(self.rows, self.table.lookup(cut.flat_values))
            found = tf.math.segment_mean(rows, cut.value_rowids())
            for layer in self.layers:
                found = tf.nn.relu(found @ layer)
            return found

    tf.saved_model.save(Encoder(), folder)


def word_vectors(folder: str) -> None:
    """Save the same words with vectors of 256 numbers as a NumPy archive."""
    import numpy as np

    Path(folder).mkdir()
    vectors = np.random.default_rng(0).standard_normal((len(known()), DIM)).astype("f4")
    np.savez(Path(folder) / "vectors.npz", words=np.array(known()), vectors=vectors)


def model(work: Path, name: str, *arguments: str) -> Path:
    """Return the folder of a model; build it if it does not exist."""
    folder = work / "_".join(["pipeline", name, *arguments])
    if not folder.exists():
        say(f"building {folder.name}")
        beside = folder.with_suffix(".part")
        shutil.rmtree(beside, ignore_errors=True)
        subprocess.run([*job(name), str(beside), *arguments], check=True, capture_output=True)
        beside.rename(folder)
    return folder


# Contenders. Each gets the model, the corpus and an output folder, and returns seconds.


def texts_of(path: str) -> list[bytes]:
    """Return all texts of the corpus."""
    with Path(path).open("rb") as file:
        return [json.loads(line)["text"].encode() for line in file]


def tensorflow(model: str) -> Callable[[Sequence[str | bytes]], Any]:
    """Return the model's own function, to be called directly."""
    import tensorflow as tf

    loaded = tf.saved_model.load(model)
    signature = loaded.signatures["serving_default"]

    def encode(texts: Sequence[str | bytes]) -> Any:
        return signature(text=tf.constant(texts))["output_0"].numpy()

    encode.loaded = loaded  # type: ignore[attr-defined] # keeps the model alive as long as the function
    return encode


def static(model: str) -> Callable[[Sequence[str | bytes]], Any]:
    """Return our encoder of word vectors, without weights, so that nothing is fitted."""
    from vocabtool import open_encoder

    return open_encoder(Path(model) / "vectors.npz", rule="lower", weights="none").encode


ENCODERS: Final[dict[str, Callable[[str], Callable[..., Any]]]] = {
    "tensorflow": tensorflow,
    "static": static,
}


def warmed(kind: str, model: str, corpus: str) -> Callable[..., Any]:
    """Return an encoder that has encoded a few batches, and import the writing library."""
    import_module("pyarrow.parquet")
    encode = ENCODERS[kind](model)
    with Path(corpus).open("rb") as file:
        texts = [json.loads(line)["text"] for line in islice(file, WARM * BATCH)]
    for at in range(0, len(texts), BATCH):
        encode(texts[at : at + BATCH])
    return encode


def bare(kind: str, model: str, corpus: str, folder: str) -> float:
    """Time only the encoder, with the texts in memory."""
    encode, texts = warmed(kind, model, corpus), texts_of(corpus)
    start = time.perf_counter()
    for at in range(0, len(texts), BATCH):
        encode(texts[at : at + BATCH])
    return time.perf_counter() - start


class Writer:
    """A simple writer of one Parquet file."""

    def __init__(self, folder: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._pa = pa
        vector = pa.list_(pa.float32(), DIM)
        self._schema = pa.schema([("id", pa.string()), ("text", pa.string()), ("vector", vector)])
        self._file = parquet.ParquetWriter(Path(folder) / "vectors.parquet", self._schema)

    def write(self, ids: Sequence[str], texts: Sequence[str], vectors: Any) -> None:
        """Write a batch."""
        pa = self._pa
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIM)
        self._file.write_batch(
            pa.record_batch([pa.array(ids), pa.array(texts), column], schema=self._schema)
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def batches(corpus: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield batches of ids and texts, parsed with ``json.loads``."""
    with Path(corpus).open("rb") as file:
        while lines := list(islice(file, BATCH)):
            rows = [json.loads(line) for line in lines]
            yield [row["id"] for row in rows], [row["text"] for row in rows]


def loop(kind: str, model: str, corpus: str, folder: str) -> float:
    """Time the simple loop."""
    encode = warmed(kind, model, corpus)
    start = time.perf_counter()
    writer = Writer(folder)
    for ids, texts in batches(corpus):
        writer.write(ids, texts, encode(texts))
    writer.close()
    return time.perf_counter() - start


def two_threads(kind: str, model: str, corpus: str, folder: str) -> float:
    """Time a loop with a reading and a writing thread, connected by queues."""
    encode = warmed(kind, model, corpus)
    start = time.perf_counter()
    read: Queue[Any] = Queue(8)
    made: Queue[Any] = Queue(8)

    def reader() -> None:
        for batch in batches(corpus):
            read.put(batch)
        read.put(None)

    def write() -> None:
        writer = Writer(folder)
        while (batch := made.get()) is not None:
            writer.write(*batch)
        writer.close()

    threads = [Thread(target=reader), Thread(target=write)]
    for thread in threads:
        thread.start()
    while (batch := read.get()) is not None:
        made.put((*batch, encode(batch[1])))
    made.put(None)
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def from_generator(kind: str, model: str, corpus: str, folder: str, tuned: bool = True) -> float:
    """Time ``tf.data`` with a generator, as in its guide.

    In half of all runs, the end of the loop waits for TensorFlow's tuner, which sleeps until 5.1,
    10.2 or 20.5 seconds after the start; ``tuned=False`` turns it off.
    """
    import tensorflow as tf

    encode = warmed(kind, model, corpus)
    start = time.perf_counter()

    def rows() -> Iterator[dict[str, str]]:
        with Path(corpus).open("rb") as file:
            yield from map(json.loads, file)

    text = tf.TensorSpec([], tf.string)
    data = tf.data.Dataset.from_generator(rows, output_signature={"id": text, "text": text})
    data = data.batch(BATCH).prefetch(tf.data.AUTOTUNE)
    if not tuned:
        options = tf.data.Options()
        options.autotune.enabled = False
        data = data.with_options(options)
    writer = Writer(folder)
    for batch in data:
        texts = batch["text"].numpy()
        ids = [name.decode() for name in batch["id"].numpy()]
        writer.write(ids, [text.decode() for text in texts], encode(list(texts)))
    writer.close()
    return time.perf_counter() - start


def hugging_face(kind: str, model: str, corpus: str, folder: str) -> float:
    """Time ``datasets``: read JSON, map in batches, write Parquet."""
    import datasets

    datasets.disable_progress_bars()
    datasets.disable_caching()
    encode = warmed(kind, model, corpus)
    start = time.perf_counter()
    cache = str(Path(folder) / "cache")
    data = datasets.load_dataset("json", data_files=corpus, split="train", cache_dir=cache)
    data = data.map(lambda rows: {"vector": encode(rows["text"])}, batched=True, batch_size=BATCH)
    data.to_parquet(str(Path(folder) / "vectors.parquet"))
    return time.perf_counter() - start


def ray_data(kind: str, model: str, corpus: str, folder: str) -> float:
    """Time Ray Data with two local actors; its start is not measured."""
    import ray
    import ray.data

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    start = time.perf_counter()
    (
        ray.data.read_json(corpus, lines=True)
        .map_batches(
            RayEncoder, fn_constructor_args=(kind, model, corpus), batch_size=BATCH, concurrency=2
        )
        .write_parquet(str(Path(folder) / "vectors"))
    )
    seconds = time.perf_counter() - start
    ray.shutdown()
    return seconds


class RayEncoder:
    """An actor with an encoder."""

    def __init__(self, kind: str, model: str, corpus: str) -> None:
        self._encode = warmed(kind, model, corpus)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Add the vectors."""
        return {**rows, "vector": self._encode(rows["text"].tolist())}


def ours(kind: str, model: str, corpus: str, folder: str) -> float:
    """Time ``vocabtool.embed`` with its defaults, including the column of unknown words."""
    from vocabtool import embed, open_encoder

    if kind == "tensorflow":
        encoder = open_encoder(model)
    else:
        encoder = open_encoder(Path(model) / "vectors.npz", rule="lower", weights="none")
    few = Path(folder, "few.jsonl")
    with Path(corpus).open("rb") as file:
        few.write_bytes(b"".join(islice(file, WARM * BATCH)))
    embed(few, encoder, f"{folder}/few", batch_size=BATCH)
    shutil.rmtree(f"{folder}/few")
    start = time.perf_counter()
    embed(corpus, encoder, f"{folder}/shards", id_field="id", batch_size=BATCH)
    return time.perf_counter() - start


CONTENDERS: Final[dict[str, Callable[[str, str, str, str], float]]] = {
    "bare": bare,
    "loop": loop,
    "two threads": two_threads,
    "from_generator": from_generator,
    "not tuned": partial(from_generator, tuned=False),
    "datasets": hugging_face,
    "ray data": ray_data,
    "vocabtool": ours,
}


# Measure.


@dataclass(frozen=True, slots=True)
class Run:
    """A process: its output, total seconds, and peak resident memory in bytes."""

    said: str
    seconds: float
    memory: int


def run(command: Sequence[str]) -> Run:
    """Run a command; exit if it fails."""
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        actions = [
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
        ]
        start = time.perf_counter()
        process = os.posix_spawn(command[0], list(command), environment, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
        seconds = time.perf_counter() - start
        for file in (out, errors):
            file.seek(0)
        said, told = out.read().decode(), errors.read().decode()
    if status:
        raise SystemExit(f"failed: {list(command)[1:6]}\n{told[-3000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(said, seconds, usage.ru_maxrss * unit)


def job(name: str) -> list[str]:
    """Return the command that runs one of JOBS in a new process."""
    return [sys.executable, str(Path(__file__).resolve()), "--job", name]


def contend(name: str, kind: str, model: str, corpus: str) -> None:
    """Run one contender, print its seconds, and check its output."""
    with tempfile.TemporaryDirectory(dir=Path(corpus).parent) as folder:
        seconds = CONTENDERS[name](kind, model, corpus, folder)
        if name != "bare":
            import pyarrow.dataset as ds

            files = [str(path) for path in Path(folder).rglob("*.parquet")]
            rows = ds.dataset(files).count_rows()
            with Path(corpus).open("rb") as lines:
                wanted = sum(1 for _ in lines)
            if rows != wanted:
                raise SystemExit(f"{name} wrote {rows} rows, expected {wanted}")
    print(json.dumps(seconds))


def race(
    names: Sequence[str], kind: str, model: Path, corpus: Path, runs: int
) -> dict[str, list[float]]:
    """Run all contenders, alternating; return the seconds of each."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(runs):
        for name in names:
            say(f"{model.name}, round {number + 1} of {runs}: {name}")
            done = run([*job("contend"), name, kind, str(model), str(corpus)])
            found[name].append(json.loads(done.said.splitlines()[-1]))
    return found


def contest(title: str, found: dict[str, list[float]], documents: int) -> Table:
    """Return the documents a second of each contender, compared with vocabtool's."""
    ours = documents / median(found["vocabtool"])
    rows = []
    for name, seconds in found.items():
        speed = documents / median(seconds)
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        rows.append((SHOWN[name], f"{speed:,.0f}", f"{ours / speed:.2f}x", spread))
    columns = ("", "documents a second", "vocabtool's speed against it", "seconds")
    return Table(title=title, columns=columns, rows=tuple(rows))


def faster(found: dict[str, list[float]], other: str, wanted: float) -> Goal:
    """Return vocabtool's median speed as a multiple of a contender's."""
    ratio = median(found[other]) / median(found["vocabtool"])
    return at_least(f"speed against {SHOWN[other]}", ratio, wanted, "{:.2f}x")


def as_fast_as_wanted(work: Path, documents: int, runs: int) -> int:
    """Return the width with which the model alone is as fast as where the goals were set.

    The possible speedup depends on the model's share of the work, so this share is kept the same
    on every machine, not the width.
    """
    speeds: dict[int, float] = {}
    for width in WIDTHS:
        folder = model(work, "saved_model", str(width))
        found = race(("bare",), "tensorflow", folder, corpus(work, documents), runs)
        speeds[width] = documents / median(found["bare"])
        say(f"width {width:,}: the model alone does {speeds[width]:,.0f} documents/s")
        if speeds[width] >= SLOWEST:
            break
    return min(speeds, key=lambda width: abs(speeds[width] - (SLOWEST + FASTEST) / 2))


def fast(work: Path, documents: int, runs: int, width: int | None) -> Iterator[Table]:
    """Measure a fast TensorFlow model with two dense layers, of this width and of 256."""
    names = ("bare", "loop", "two threads", "from_generator", "not tuned", "vocabtool")
    width = as_fast_as_wanted(work, documents, runs) if width is None else width
    folder = model(work, "saved_model", str(width))
    found = race(names, "tensorflow", folder, corpus(work, documents), runs)
    yield contest(f"A fast TensorFlow model ({width:,} wide)", found, documents)
    speed = documents / median(found["bare"])
    comparable = Goal(
        what="the model alone, documents a second",
        wanted=f"{SLOWEST:,} to {FASTEST:,}",
        measured=f"{speed:,.0f}",
        reached=SLOWEST <= speed <= FASTEST,
    )
    others = faster(found, "loop", LOOP), faster(found, "from_generator", GENERATOR)
    yield goals(comparable, faster(found, "bare", FAST), *others)


def wide(work: Path, documents: int, runs: int) -> Iterator[Table]:
    """Measure the same with four dense layers of 2,048."""
    folder = model(work, "saved_model", "2048,2048,2048,2048")
    found = race(("bare", "vocabtool"), "tensorflow", folder, corpus(work, documents), runs)
    yield contest("A TensorFlow model with four dense layers of 2,048", found, documents)
    yield goals(faster(found, "bare", 1 / WIDE))


def word_means(work: Path, documents: int, runs: int) -> Iterator[Table]:
    """Measure word vectors; the other pipelines use the same encoder."""
    names = ("bare", "loop", "two threads", "datasets", "ray data", "vocabtool")
    found = race(names, "static", model(work, "word_vectors"), corpus(work, documents), runs)
    yield contest("Word vectors", found, documents)
    wanted = {"loop": STATIC_LOOP, "datasets": DATASETS, "ray data": RAY}
    yield goals(*(faster(found, other, ratio) for other, ratio in wanted.items()))


def memory(work: Path) -> Iterator[Table]:
    """Measure the command on two sizes, and once more on the finished output."""
    vectors = model(work, "word_vectors") / "vectors.npz"
    alone = run([*job("hold"), str(vectors)]).memory
    rows, reached = [("the encoder alone", "", f"{alone / 1e6:.0f} MB")], []
    for ids, options in (("FILE:LINE as ids", ()), ("ids of their own", ("--id-field", "id"))):
        peaks = []
        for documents in (FEW, MANY):
            folder = work / f"pipeline_shards_{documents}"
            shutil.rmtree(folder, ignore_errors=True)
            command = embed(vectors, corpus(work, documents), folder, *options)
            say(f"{documents:,} documents, {ids}")
            done = run(command)
            peaks.append(done.memory)
            shown = f"{done.seconds:.1f} s", f"{done.memory / 1e6:.0f} MB"
            rows.append((f"{documents:,} documents, {ids}", *shown))
        growth, more = peaks[1] / peaks[0], peaks[1] - alone
        reached += [
            at_most(f"growth of memory, {ids}", growth, GROWTH, "{:.2f}x"),
            at_most(f"more than the encoder, {ids}", more / 1e6, MOST_MEMORY / 1e6, "{:.0f} MB"),
        ]
    again = median(run(command).seconds for _ in range(3))
    rows.append(("the last again, when finished", f"{again:.2f} s", ""))
    title = "Memory of vocabtool embed"
    yield Table(title=title, columns=("", "time", "memory"), rows=tuple(rows))
    yield goals(*reached, at_most("a finished run again", again, RESUME, "{:.2f} s"))
    shutil.rmtree(folder)


def embed(vectors: Path, corpus: Path, folder: Path, *options: str) -> list[str]:
    """Return our command, as a user runs it."""
    found = shutil.which("vocabtool", path=str(Path(sys.executable).parent))
    if found is None:
        raise SystemExit("vocabtool is not installed in this Python; run: pip install -e .")
    given = ["--model", str(vectors), "--rule", "lower", "--weights", "none", *options]
    return [found, "embed", str(corpus), "-o", str(folder), *given]


def hold(vectors: str) -> None:
    """Open an encoder and use it once."""
    encode = static(str(Path(vectors).parent))
    encode([" ".join(known())])


def say(what: str) -> None:
    """Print progress on standard error."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for generated files")
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--width",
        type=int,
        help=f"of the fast model's first layer, instead of the one of {WIDTHS} with which it does "
        f"most nearly {SLOWEST:,} to {FASTEST:,} documents/s alone",
    )
    parser.add_argument("--only", choices=("fast", "wide", "static", "memory"))
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        name, *arguments = options.job
        jobs: dict[str, Callable[..., None]] = {
            "saved_model": saved_model,
            "word_vectors": word_vectors,
            "contend": contend,
            "hold": hold,
        }
        jobs[name](*arguments)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    work, documents, runs = options.work, options.documents, options.runs
    questions: dict[str, Callable[[], Iterator[Table]]] = {
        "fast": lambda: fast(work, documents, runs, options.width),
        "wide": lambda: wide(work, documents, runs),
        "static": lambda: word_means(work, documents, runs),
        "memory": lambda: memory(work),
    }
    asked = (ask() for name, ask in questions.items() if options.only in (None, name))
    report(chain.from_iterable(asked), options.json)


if __name__ == "__main__":
    main()
