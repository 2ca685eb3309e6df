"""One shard made of its slabs: what every runner has done, in a thread, a process or an actor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.embedding.encoding import Counts, Rows, SlabEncoder
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import Shard, write_shard
from vocabtool.embedding.slabs import Slab
from vocabtool.embedding.unknown_words import Unknown
from vocabtool.embedding.vector_cache import VectorCache
from vocabtool.encoders.encoder import Encoder
from vocabtool.errors import VocabtoolError
from vocabtool.system.parallel import closed_after, parallel_map

AHEAD: Final = 4  # slabs that are encoded while a row group is written

Passed = Callable[[Counts, int], None]
"""Told of each slab that is written: what it holds, and how many vectors the cache held."""


class Prepared(NamedTuple):
    """A slab, and what the model does not know in it, where that is told without running it.

    ``unknown``: looked up from when the slab is read, asked for when its vectors are there.
    """

    slab: Slab
    unknown: Future[Unknown | None]


class Made(NamedTuple):
    """A shard that was made, and how many of its vectors the cache held."""

    shard: Shard
    hits: int


@dataclass(frozen=True)
class Work:
    """What a worker must know; it can be pickled where the encoder can.

    ``threads``: slabs of one shard that are encoded at a time.
    """

    folder: Path
    plan: Plan
    encoder: Encoder
    cache: Path | None
    threads: int


class ShardMaker:
    """Makes shards of one run, one after the other."""

    def __init__(self, work: Work) -> None:
        encoder = work.encoder
        if encoder.fingerprint != work.plan.encoder:
            raise VocabtoolError("the model changed while it was being run: run again with --force")
        self._work = work
        self._cache = None
        if work.cache is not None:
            self._cache = VectorCache(work.cache, encoder.fingerprint, encoder.dim)
        self._slabs = SlabEncoder(encoder, work.plan, self._cache)
        self._words = ThreadPoolExecutor(1)  # slab after slab: what is known of words grows

    def close(self) -> None:
        """Give back what is open."""
        self._words.shutdown(cancel_futures=True)
        if self._cache is not None:
            self._cache.close()

    def prepare(self, slab: Slab) -> Prepared:
        """Begin to look at the words; any thread may call it."""
        return Prepared(slab, self._words.submit(self._slabs.unknown, slab))

    def make(self, number: int, slabs: Iterable[Prepared], passed: Passed | None = None) -> Made:
        """Encode and write the slabs of one shard: some are encoded while others are written."""
        hits = 0

        def counted() -> Iterator[Rows]:
            nonlocal hits
            threads = self._work.threads
            encoded = parallel_map(self._encode, slabs, workers=threads, ahead=threads + AHEAD)
            with closed_after(encoded):
                for rows in encoded:
                    yield rows
                    hits += rows.hits
                    if passed is not None:
                        passed(rows.counts, rows.hits)

        run, schema = self._work.plan.fingerprint, self._slabs.schema
        with closed_after(counted()) as written:
            shard = write_shard(self._work.folder, number, run, schema, written)
        return Made(shard, hits)

    def _encode(self, prepared: Prepared) -> Rows:
        return self._slabs.rows(prepared.slab, prepared.unknown.result)
