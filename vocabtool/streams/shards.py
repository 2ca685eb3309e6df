"""The documents of files larger than memory in one random order over all of them.

Files are cut where a reader can start: Parquet at its row groups, Arrow IPC at its record batches,
an indexable anywhere; other files stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final, NamedTuple

from vocabtool.documents.extents import row_counts
from vocabtool.documents.items import is_indexable
from vocabtool.documents.opening import find
from vocabtool.documents.reading import Document
from vocabtool.documents.sources import Named, Source, told
from vocabtool.errors import reading
from vocabtool.streams.interleaving import Interleave
from vocabtool.streams.reading import Reading
from vocabtool.streams.shuffling import Shuffle, random_of
from vocabtool.streams.starting import Items, Start, rest
from vocabtool.system.parallel import closed_after

ROWS: Final = 10_000  # documents of an indexable that stay together
IN_MEMORY: Final = (
    "shuffle_shards wants files, or what has a length and can be indexed; of what can only be read "
    "through, .shuffle(buffer, seed) shuffles what its buffer holds"
)
SEVERAL: Final = "shuffle_shards wants files, or one source in memory, not several in memory"


class Shard(NamedTuple):
    """Documents that follow each other in one source; ``documents``: ``None`` all to its end."""

    source: Source
    start: int = 0
    documents: int | None = None


@dataclass(frozen=True, slots=True)
class ShuffleShards:
    """Shards in random order, ``at_once`` of them in turn, through a shuffle buffer."""

    read: Reading
    seed: int
    buffer: int
    at_once: int

    def __call__(self, first: int) -> Iterator[Document]:
        return rest(self._shuffled(), first)

    def _shuffled(self) -> Iterator[Document]:
        shards = shards_of(self.read)
        random_of(self.seed, 0).shuffle(shards)
        streams = [_Opened(self.read, shard) for shard in shards]
        mixed: Start[Document] = Interleave(Items(streams), self.at_once, 1)
        yield from Shuffle(mixed, self.buffer, self.seed, reshuffle=False)(0)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A shard's documents, read when it is its turn."""

    read: Reading
    shard: Shard

    def __iter__(self) -> Iterator[Document]:
        with closed_after(self.read.read(self.shard.source, self.shard.start)) as remaining:
            yield from islice(remaining, self.shard.documents)


def shards_of(read: Reading) -> list[Shard]:
    """Where the sources can be cut; reads no document."""
    shards: list[Shard] = []
    sources = list(told(read.sources))
    if len(sources) > 1 and not all(isinstance(source, Named) for source in sources):
        raise ValueError(SEVERAL)  # alone each would be called the same in ids
    for source in sources:
        if isinstance(source, Named):
            files = find(source.name)
            shards += (shard for file in files for shard in _of_file(file, read))
        else:
            shards += _of_indexable(source.source, read)
    return shards


def _of_indexable(items: object, read: Reading) -> list[Shard]:
    if not is_indexable(items):
        raise ValueError(IN_MEMORY)
    if read.options.on_error == "skip":
        return [Shard(items)]
    starts = range(0, len(items), ROWS)
    return [Shard(items, start, min(ROWS, len(items) - start)) for start in starts]


def _of_file(file: str, read: Reading) -> list[Shard]:
    if (
        read.options.on_error == "skip"
    ):  # which rows are no documents is known only when they are read
        return [Shard(file)]
    with reading(file):
        counts = row_counts(file, read.options.format)
    if counts is None:
        return [Shard(file)]
    starts = accumulate(counts, initial=0)
    return [Shard(file, start, count) for start, count in zip(starts, counts) if count]  # noqa: B905 - the last start is the end
