"""Measure one engine of ``search.py``; this runs in its own process.

Recall is recall@10 of vector search against brute force. Queries run one after another in one
thread, in rounds; a slow engine gets fewer queries (at least 20), and the results say so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from processes import Reporter
from search_corpus import Asked, Corpus
from search_engines import TOP, Engine, Found, Hybrid, opened

RECALL: Final = 0.95
ROUNDS: Final = 5
WARM: Final = 20  # warm-up queries
FEWEST: Final = 20
SECONDS: Final = 60.0  # seconds for one measurement

Ask = Callable[[Asked], Found]


class Answer(NamedTuple):
    """The result of one query."""

    asked: Asked
    found: Found
    seconds: float


def measure(engine_name: str, corpus: Corpus, folder: Path, reporter: Reporter) -> None:
    """Build, tune and search; report each result immediately."""
    asked = corpus.queries()
    engine = opened(engine_name, folder)
    try:
        reporter.tell(version=engine.version, doing="building")
        reporter.tell(**built(engine, corpus))
        os.sync()  # finish writing to disk before searches are timed
        reporter.tell(doing="tuning", queries=len(asked))
        reporter.tell(**tuned(engine, asked))
        for name, search in engine.hybrids().items():
            reporter.tell(doing=f"asking ({name})")
            answers = rounds(both(search), asked)
            reporter.tell(**{f"hybrid: {name}": {**speed(answers), **hits(answers)}})
        reporter.tell(memory_beside=engine.memory(), doing="closing")
    finally:
        engine.close()


def both(search: Hybrid) -> Ask:
    """Return a function that runs a hybrid search with the text and the vector of a query."""
    return lambda one: search(one.text, one.vector)


def built(engine: Engine, corpus: Corpus) -> dict[str, Any]:
    """Build the index; return the seconds until it can be searched, and its bytes."""
    start = time.perf_counter()
    engine.build(corpus)
    seconds = time.perf_counter() - start
    return {"build_seconds": seconds, "disk": engine.disk(), "index": engine.index}


def tuned(engine: Engine, asked: Sequence[Asked]) -> dict[str, Any]:
    """Set the smallest effort that reaches the required recall, or comes closest to it."""
    tried: dict[int, float] = {}
    for effort in engine.efforts:
        engine.tune(effort)
        tried[effort] = recall(once(engine, asked))
        if tried[effort] >= RECALL:
            break
    best = max(tried, key=lambda effort: tried[effort])
    setting = engine.tune(best)
    timed = speed(rounds(lambda one: engine.nearest(one.vector), asked))
    return {"setting": setting, "recall": tried[best], "vector": timed}


def once(engine: Engine, asked: Sequence[Asked]) -> list[Answer]:
    """Run each query once by vector alone, until the time is up."""
    return list(within(lambda one: engine.nearest(one.vector), iter(asked)))


def rounds(ask: Ask, asked: Sequence[Asked]) -> list[Answer]:
    """Run every query several times after a warm-up, until the time is up."""
    warm = list(within(ask, iter(asked[:WARM])))
    several = islice(cycle(asked), ROUNDS * len(asked))
    return list(within(ask, several)) if warm else []


def within(ask: Ask, asked: Iterator[Asked]) -> Iterator[Answer]:
    """Return answers until the time is up, but at least the minimum number."""
    end = time.perf_counter() + SECONDS
    for number, one in enumerate(asked):
        start = time.perf_counter()
        if start > end and number >= FEWEST:
            return
        found = ask(one)
        yield Answer(one, found, time.perf_counter() - start)


def recall(answers: Sequence[Answer]) -> float:
    """Return the share of the ten nearest documents that were found."""
    found = sum(len(one.asked.nearest.intersection(one.found)) for one in answers)
    return found / (TOP * len(answers))


def speed(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return p50 and p99 in milliseconds."""
    found = sorted(one.seconds * 1e3 for one in answers)
    return {
        "p50": found[len(found) // 2],
        "p99": found[min(len(found) - 1, len(found) * 99 // 100)],
        "asked": len(found),
    }


def hits(answers: Sequence[Answer]) -> dict[str, float]:
    """Return how often the only document with the code is first, and among the first ten."""
    return {
        "hit1": sum(one.found[:1] == [one.asked.right] for one in answers) / len(answers),
        "hit10": sum(one.asked.right in one.found[:TOP] for one in answers) / len(answers),
    }
