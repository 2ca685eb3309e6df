"""The engines that ``search.py`` compares, one file each; ``ENGINES`` names them all.

An engine's library is imported when it is opened: one that is missing fails alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import log2
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from search_corpus import Corpus

Vector = NDArray[np.float32]
Found = Sequence[str]  # ids, best first
Hybrid = Callable[[str, Vector], Found]

ENGINES: Final = ("lancedb", "zvec", "milvus_lite", "pgvector", "ours")
PROBES: Final = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
TOP: Final = 10


class Engine(Protocol):
    """What the benchmark asks of each. Found documents come with their texts, which are read."""

    version: str
    index: str  # what holds the vectors, in words
    efforts: Sequence[int]  # of vector search, the cheapest first; one alone: it tunes itself

    def build(self, corpus: Corpus) -> None:
        """Load and index everything, until it can be searched at full speed."""
        ...

    def tune(self, effort: int) -> str:
        """Set how hard vector search tries, and tell it in words."""
        ...

    def nearest(self, vector: Vector) -> Found:
        """The ten nearest by vector alone."""
        ...

    def hybrids(self) -> dict[str, Hybrid]:
        """Vector and keywords together, ten of them: each way that the engine has, by name."""
        ...

    def disk(self) -> int:
        """Bytes on disk."""
        ...

    def memory(self) -> int:
        """Bytes at the peak in the largest process beside this one; 0 where there is none."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def opened(name: str, folder: Path) -> Engine:
    """An empty engine in that folder; ``ImportError`` where its library is not installed."""
    engine: Engine = import_module(f"search_engines.{name}").Driver(folder)
    return engine


def library(name: str) -> Any:
    """A library that brings no types, or is not always there."""
    return import_module(name)


def lists(documents: int) -> int:
    """How many lists of vectors to make: about the root of their number, a power of two."""
    return 1 << round(log2(documents) / 2)


def size(folder: Path) -> int:
    """Bytes that the files of a folder take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
