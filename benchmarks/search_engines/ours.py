"""vocabtool's index, with given vectors and the vocabulary of their model.

It stores vectors as float16 and tunes itself to a recall of 0.95 when it is built.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from coded_corpus import DIM, vocabulary
from search_corpus import Corpus

from search_engines import TOP, Found, Hybrid, Vector, size

if TYPE_CHECKING:
    from vocabtool import Index
    from vocabtool.choices import Fusion
    from vocabtool.search.hits import Hits

FUSED: tuple[Fusion, ...] = ("coverage", "convex", "rrf")


class Driver:
    """An index of vocabtool."""

    efforts = (0,)

    def __init__(self, folder: Path) -> None:
        from vocabtool import Index

        self.folder = folder
        self.version = version("vocabtool")
        self.index = "exact, float16"
        self.found: Index = Index.create(folder, dim=DIM, vocabulary=vocabulary())

    def build(self, corpus: Corpus) -> None:
        with self.found.writer() as writer:
            for block in corpus.blocks():
                writer.add(block.documents, block.vectors)
        codes = self.found.manifest.codes
        if codes is not None:
            coarse = f"IVF{codes.lists}, " if codes.lists else ""
            self.index = f"{coarse}PQ4 FastScan, refined, float16"

    def tune(self, effort: int) -> str:
        """Return the effort that the index chose when it was built."""
        codes = self.found.manifest.codes
        if codes is None:
            return "exact"
        probes = f"{codes.probes} probes, " if codes.lists else ""
        return f"{probes}{codes.candidates} refined"

    def nearest(self, vector: Vector) -> Found:
        return ids(self.found.search("", vector=vector, k=TOP, fusion="dense"))

    def hybrids(self) -> dict[str, Hybrid]:
        return {
            f"{name}{' (default)' if name == 'coverage' else ''}": self._fused(name)
            for name in FUSED
        }

    def _fused(self, fusion: Fusion) -> Hybrid:
        def search(text: str, vector: Vector) -> Found:
            return ids(self.found.search(text, vector=vector, k=TOP, fusion=fusion))

        return search

    def disk(self) -> int:
        return size(self.folder)

    def memory(self) -> int:
        return 0

    def close(self) -> None:
        del self.found


def ids(hits: Hits) -> Found:
    """Return the ids of the found documents; their texts are already read."""
    return [hit.id for hit in hits]
