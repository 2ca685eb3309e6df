"""Building the codes of an index: train, encode, measure, choose how to search.

The centroids are trained on a bounded sample; all vectors are then read block by block, so that
memory does not grow with them but by their codes. The setting of a search is the cheapest that
reaches the recall asked for (``recall.py``), less its standard error; on made queries, which are
easier than real ones (measured on queries of three words), half as many misses are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.vectors.codebook import BITS, NO_LIST, WIDTH, Codebook
from vocabtool.index.vectors.cost import by_codes
from vocabtool.index.vectors.facts import CodeFacts
from vocabtool.index.vectors.fast_scan import CodeFiles, FastScan
from vocabtool.index.vectors.metric import Metric
from vocabtool.index.vectors.raw import READ_BYTES, RawVectors
from vocabtool.index.vectors.recall import (
    Asked,
    Truth,
    given,
    nearest_rows,
    recall_by_count,
    unlike,
)

LISTS_FROM: Final = 50_000  # rows from which on only some lists of them are looked at
LISTS: Final = 1.6  # times the square root of the rows: 512 lists of 100,000, 2,048 of a million
SAMPLE: Final = 1 << 16  # vectors to train on, at most, but where many lists need more
PER_LIST: Final = 40
MOST_CANDIDATES: Final = 1 << 14

EASIER: Final = 2  # times as many of the nearest are missed by real queries as by made ones

Progress = Callable[[int, int], None]


class Setting(NamedTuple):
    """``probes``: lists visited; ``candidates``: rows refined exactly."""

    probes: int
    candidates: int
    recall: float


def build(
    raw: RawVectors,
    files: CodeFiles,
    *,
    metric: Metric,
    recall: float = 0.95,
    memory: int | None = None,
    seed: int = 0,
    queries: Vectors | None = None,
    lists: int | None = None,
    progress: Progress | None = None,
) -> CodeFacts:
    """Write the codes of all rows and say how to search them.

    ``memory``: bytes that this may take beyond what the process holds already. ``queries``: vectors
    like those that will be asked, shape (n, dim), n of some hundreds. ``lists``: how many, by the
    number of rows unless said. ``progress``: called with rows done and rows to do. The same
    vectors and seed give the same files. Where no setting reaches the recall, the best one is in
    the facts with what it reaches. Raises :class:`VocabtoolError` where the codes do not fit into
    ``memory``.
    """
    began = perf_counter()
    lists = _lists(raw.count) if lists is None else lists
    size = _sample_size(raw, lists, memory)
    codebook, asked = _trained(raw, size, lists, metric, seed, queries)
    codebook.save(files.codebook)
    encode(raw, files, codebook, progress=progress)
    codes = FastScan.open(files, dim=raw.dim, lists=lists, count=raw.count, metric=metric)
    wanted = recall if queries is not None else 1 - (1 - recall) / EASIER
    chosen = _choose(raw, codes, asked, metric, wanted)
    return CodeFacts(
        dim=raw.dim,
        lists=lists,
        probes=chosen.probes,
        candidates=chosen.candidates,
        recall_asked=recall,
        recall=chosen.recall,
        queries=sum(len(kind.queries) for kind in asked),
        given=queries is not None,
        sample=size,
        coded=raw.count,
        seed=seed,
        seconds=round(perf_counter() - began, 3),
    )


def encode(
    raw: RawVectors,
    files: CodeFiles,
    codebook: Codebook,
    *,
    start: int = 0,
    progress: Progress | None = None,
) -> None:
    """Write the codes of rows ``start`` to the last at their place in the file of codes.

    What the file holds past ``start`` rows is overwritten and cut off.
    """
    mode = "r+b" if start else "wb"
    with files.codes.open(mode) as out:
        out.seek(start * codebook.record_bytes)
        for first, vectors in raw.blocks(start):
            out.write(codebook.encode(vectors).tobytes())
            if progress is not None:
                progress(first + len(vectors), raw.count)
        out.truncate()


def memory_needed(rows: int, dim: int, sample: int) -> int:
    """Bytes that building and opening codes take at their peak."""
    code = -(-dim // WIDTH) * BITS / 8
    training = 3 * sample * dim * 4  # copies: differences and FAISS's, or the queries' mixtures
    opened = int(rows * (2 * code + 42))  # plain and packed, with row numbers
    return max(training, opened) + 6 * READ_BYTES


def _lists(rows: int) -> int:
    if rows < LISTS_FROM:
        return 1
    return min(NO_LIST, 1 << round(math.log2(LISTS * math.sqrt(rows))))


def _sample_size(raw: RawVectors, lists: int, memory: int | None) -> int:
    wanted = min(raw.count, max(SAMPLE, PER_LIST * lists))
    if memory is None:
        return wanted
    needed = memory_needed(raw.count, raw.dim, 0)
    fits = (memory - 6 * READ_BYTES) // (3 * raw.dim * 4)
    least = min(wanted, max(4096, lists))
    if needed > memory or fits < least:
        needed = memory_needed(raw.count, raw.dim, least)
        raise VocabtoolError(
            f"the codes of {raw.count:,} vectors of {raw.dim:,} numbers need about "
            f"{needed / 2**20:,.0f} MiB of memory to be built and searched, got "
            f"{memory / 2**20:,.0f} MiB: allow more, or index fewer documents"
        )
    return min(wanted, fits)


def _trained(
    raw: RawVectors, size: int, lists: int, metric: Metric, seed: int, queries: Vectors | None
) -> tuple[Codebook, list[Asked]]:
    random = np.random.default_rng(seed)
    rows = np.sort(random.choice(raw.count, size, replace=False, shuffle=False))
    sample = raw.read_rows(rows)
    there = sample.any(axis=1)
    if there.any() and not there.all():
        rows, sample = rows[there], sample[there]
    codebook = Codebook.trained(sample, lists, seed, metric)
    if queries is not None:
        return codebook, [given(queries, metric)]
    return codebook, unlike(sample, rows, metric, random)


def _choose(
    raw: RawVectors, codes: FastScan, asked: list[Asked], metric: Metric, recall: float
) -> Setting:
    """The cheapest setting whose recall is enough even if it was overrated; else the best."""
    kinds = [(kind.queries, nearest_rows(raw, kind, metric)) for kind in asked]
    best, enough, cost = Setting(1, 0, -1.0), None, math.inf
    for probes in _steps(1, codes.lists):
        if _cost(codes, raw.dim, Setting(probes, 0, 0.0)) >= cost:
            break
        for setting, surely in _measured(codes, kinds, probes):
            best = max(best, setting, key=lambda one: one.recall)
            if surely >= recall:
                if (now := _cost(codes, raw.dim, setting)) < cost:
                    enough, cost = setting, now
                break
    return enough or best


def _measured(
    codes: FastScan, kinds: Sequence[tuple[Vectors, Truth]], probes: int
) -> list[tuple[Setting, float]]:
    """Of each number of candidates the lowest recall of any kind, and it less its error."""
    counts = _steps(32, min(codes.rows, MOST_CANDIDATES))
    found = [codes.candidates(queries, counts[-1], probes) for queries, _ in kinds]
    recalls = [
        recall_by_count(truth, rows, counts) for (_, truth), rows in zip(kinds, found, strict=True)
    ]
    settings = []
    for place, count in enumerate(counts):
        values = [kind[place] for kind in recalls]
        lowest = min(mean for mean, _ in values)
        surely = min(mean - error for mean, error in values)
        settings.append((Setting(probes, count, round(lowest, 4)), surely))
    return settings


def _steps(first: int, last: int) -> list[int]:
    """Powers of two and half way between them, from ``first`` to ``last``."""
    powers = range(first.bit_length() - 1, last.bit_length())
    every = sorted({1 << power for power in powers} | {3 << power >> 1 for power in powers})
    return [step for step in every if first <= step < last] + [last]


def _cost(codes: FastScan, dim: int, setting: Setting) -> float:
    return by_codes(codes.rows * setting.probes / codes.lists, setting.candidates, dim)
