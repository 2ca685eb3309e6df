"""The engines that ``search.py`` compares, one module each; ``ENGINES`` contains their names.

A library is imported when its engine is opened, so that a missing library affects only its engine.
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
    """The interface of an engine. Searches also read the texts of the found documents."""

    version: str
    index: str  # description of the vector index
    efforts: Sequence[int]  # of vector search, ascending; only one if the engine tunes itself

    def build(self, corpus: Corpus) -> None:
        """Load and index all documents; return when the index is at full speed."""
        ...

    def tune(self, effort: int) -> str:
        """Set the effort of vector search; return its description."""
        ...

    def nearest(self, vector: Vector) -> Found:
        """Return the ten nearest documents by vector alone."""
        ...

    def hybrids(self) -> dict[str, Hybrid]:
        """Return the hybrid searches for ten documents that the engine offers, by name."""
        ...

    def disk(self) -> int:
        """Return the bytes on disk."""
        ...

    def memory(self) -> int:
        """Return the peak memory in bytes of the engine's largest other process, or 0."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


def opened(name: str, folder: Path) -> Engine:
    """Open an empty engine in a folder. Raises ``ImportError`` if its library is missing."""
    engine: Engine = import_module(f"search_engines.{name}").Driver(folder)
    return engine


def library(name: str) -> Any:
    """Import a library that has no types or may be missing."""
    return import_module(name)


def lists(documents: int) -> int:
    """Return the number of IVF lists: a power of two near the square root of the vectors."""
    return 1 << round(log2(documents) / 2)


def size(folder: Path) -> int:
    """Return the disk space of the files in a folder, in bytes."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
