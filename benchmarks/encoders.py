"""Measure the speed of encoders.

    python benchmarks/encoders.py                 all questions, a minute
    python benchmarks/encoders.py --only http     one of them
    python benchmarks/encoders.py --json FILE     store the results

``http``: a server in a process of its own waits 50 ms and answers with vectors of 384 numbers.
2,560 texts, 32 in a request, are encoded with 1, 2, 4, 8 and 16 requests at once, and with 8 by
``embed``, which also writes them. Medians of ``--runs``, run in turn.

``suggest``: 500 words are added to WordLlama and to 20,000 word vectors, chosen on every second
document of a collection of the folder ``shared``, and every document is searched with the model
before and after: nDCG@10, as in ``word_weights.py``.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, get_args

import numpy as np
from results import Table, at_least, goals, report
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
