"""Compare ``vocabtool index`` with the sum of its parts, each measured alone.

    python benchmarks/index_parts.py                      100,000 texts with word vectors
    python benchmarks/index_parts.py --documents 20000 --runs 1
    python benchmarks/index_parts.py --json FILE          store the results

The corpus and the model are those of ``pipeline.py``: JSON lines of 20 to 60 words, 20,000 words
with vectors of 256 numbers. Each part runs in its own process, and gets what it needs from memory.
Its time is measured from the first document to the end. The parts run one after another, while the
command reads, encodes and writes at the same time. The time of the command is that of the whole
process; "starting" is a command that indexes a single document, and "calibrating" is ``vocabtool
calibrate`` of the finished index, without the time of starting. Medians of ``--runs``.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from pipeline import BATCH, DIM, corpus, model, texts_of
from processes import Reporter, run
from results import Table, at_most, goals, report

DOCUMENTS: Final = 100_000
RUNS: Final = 5
MOST: Final = 1.3  # maximum time as a multiple of the sum
LIMIT: Final = 600.0  # seconds
WHOLE: Final = "vocabtool index"
STARTING: Final = "starting"
CALIBRATING: Final = "calibrating"
# Standard output is for reports of measurements.
COMMAND: Final = "import os; os.dup2(2, 1); from vocabtool.__main__ import main; main()"

Timed = Callable[[], object]


def reading(documents: Path, vectors: Path, folder: Path) -> Timed:
    """Read the documents in batches, as a load does."""
    from vocabtool.documents.reading import batches

    return lambda: sum(len(batch) for batch in batches(str(documents)))


def encoding(documents: Path, vectors: Path, folder: Path) -> Timed:
    """Encode the texts, in batches."""
    encode, texts = encoder(vectors), texts_of(str(documents))
    encode(texts[:BATCH])

    def work() -> None:
        for start in range(0, len(texts), BATCH):
            encode(texts[start : start + BATCH])

    return work


def keywords(documents: Path, vectors: Path, folder: Path) -> Timed:
    """Cut the texts into terms and write them to tantivy."""
    from vocabtool.index.generation import KEYWORD_MEMORY
    from vocabtool.keywords.cutter import Cutter
    from vocabtool.keywords.tantivy_index import TantivyWriter

    texts = [text.decode() for text in texts_of(str(documents))]
    writer, cutter = TantivyWriter(folder, memory=KEYWORD_MEMORY), Cutter()

    def work() -> None:
        for start in range(0, len(texts), BATCH):
            rows = range(start, min(start + BATCH, len(texts)))
            terms = cutter.terms(texts[rows.start : rows.stop])
            writer.add(rows, [f"d{row}" for row in rows], terms)
        writer.commit()

    return work


def database(documents: Path, vectors: Path, folder: Path) -> Timed:
    """Write ids, texts and their hashes to SQLite."""
    from vocabtool.index.database import DatabaseWriter, text_hash

    texts = texts_of(str(documents))
    folder.mkdir()
    DatabaseWriter.create(folder)
    writer = DatabaseWriter(folder)

    def work() -> None:
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            ids = [f"d{row}" for row in range(start, start + len(batch))]
            facts = [(0, text_hash(text)) for text in batch]
            writer.append(start, ids, [text.decode() for text in batch], facts)
        writer.commit(b"", b"")

    return work


def codes(documents: Path, vectors: Path, folder: Path) -> Timed:
    """Write the vectors as float16, and build and write FAISS's codes of them."""
    import numpy as np

    from vocabtool.index.measures import build_codes
    from vocabtool.index.vectors import RawVectors, as_stored, prepare

    encode, texts = encoder(vectors), texts_of(str(documents))
    rows = np.concatenate(
        [encode(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
    )
    folder.mkdir()

    def work() -> None:
        file = folder / "vectors"
        file.write_bytes(as_stored(prepare(rows, "cosine"), "float16").tobytes())
        raw = RawVectors(file, dim=DIM, dtype="float16", count=len(rows))
        build_codes(raw, metric="cosine")[0].write(folder / "codes")

    return work


PARTS: Final[dict[str, Callable[[Path, Path, Path], Timed]]] = {
    "reading": reading,
    "encoding": encoding,
    "keywords (tantivy)": keywords,
    "documents (SQLite)": database,
    "vectors (FAISS)": codes,
}


def encoder(vectors: Path) -> Callable[[list[bytes]], Any]:
    """Return the encode function of the command's model, without weights that must be fitted."""
    from vocabtool import open_encoder

    return open_encoder(vectors, rule="lower", weights="none").encode


def measure_part(name: str, documents: str, vectors: str, folder: str) -> None:
    """Run a part and report its seconds; this job runs in its own process."""
    reporter = Reporter()
    work = PARTS[name](Path(documents), Path(vectors), Path(folder))
    begin, cpu = time.perf_counter(), time.process_time()
    work()
    reporter.tell(seconds=time.perf_counter() - begin, cpu=time.process_time() - cpu)


def measure(work: Path, documents: int, runs: int) -> Iterator[Table]:
    """Yield the table of the parts, and the goal."""
    work.mkdir(parents=True, exist_ok=True)
    texts, vectors = corpus(work, documents), model(work, "word_vectors") / "vectors.npz"
    one = work / "one_document.jsonl"
    with texts.open("rb") as file:
        one.write_bytes(file.readline())
    options = ["--model", str(vectors), "--rule", "lower", "--weights", "none", "--quiet"]
    seconds: dict[str, list[float]] = {}
    folder = work / "index_parts"
    for _ in range(runs):
        for name in (*PARTS, STARTING, WHOLE, CALIBRATING):
            if name == CALIBRATING:
                arguments = ["-c", COMMAND, "calibrate", str(folder)]
            else:
                shutil.rmtree(folder, ignore_errors=True)
                source = str(one if name == STARTING else texts)
                arguments = ["-c", COMMAND, "index", source, "-o", str(folder), *options]
            if name in PARTS:
                arguments = [__file__, "--part", name, str(texts), str(vectors), str(folder)]
            done = run(arguments, LIMIT, work / "index_parts.log")
            if done.failure is not None:
                raise SystemExit(f"{name}: {done.failure}")
            seconds.setdefault(name, []).append(done.told.get("seconds", done.seconds))
    shutil.rmtree(folder, ignore_errors=True)
    times = {name: median(values) for name, values in seconds.items()}
    whole = times.pop(WHOLE)
    times[CALIBRATING] -= times[STARTING]
    total = sum(times.values())
    lines = {**times, "the sum": total, WHOLE: whole}
    rows = [
        (name, f"{time:.2f} s", f"{time / total:.2f}x", f"{documents / time:,.0f}")
        for name, time in lines.items()
    ]
    columns = ("", "time", "against the sum", "documents a second")
    yield Table(title=f"Index {documents:,} texts", columns=columns, rows=tuple(rows))
    yield goals(at_most("the command against the sum of its parts", whole / total, MOST, "{:.2f}x"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = Path(__file__).parent / ".work"
    parser.add_argument("--work", type=Path, default=default, help="folder for generated files")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--part", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        measure_part(*options.part)
        return
    report(measure(options.work.resolve(), options.documents, options.runs), options.json)


if __name__ == "__main__":
    main()
