"""LanceDB with IVF_FLAT, its fastest vector index at a recall of 0.95, and its own BM25."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coded_corpus import DIM
from search_corpus import Block, Corpus

from search_engines import PROBES, TOP, Found, Hybrid, Vector, library, lists, size


class Driver:
    """A LanceDB table."""

    efforts = PROBES

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lancedb = library("lancedb")
        self.version: str = self.lancedb.__version__
        self.index = "IVF_FLAT"
        self.probes = 0
        self.table: Any = None

    def build(self, corpus: Corpus) -> None:
        index = library("lancedb.index")
        data = map(batch, corpus.blocks())
        self.table = self.lancedb.connect(str(self.folder)).create_table(
            "documents", data=data, schema=schema()
        )
        self.table.create_index("text", config=index.FTS(with_position=True))
        partitions = lists(corpus.documents)
        flat = index.IvfFlat(distance_type="cosine", num_partitions=partitions)
        self.table.create_index("vector", config=flat)
        self.table.wait_for_index(["text_idx", "vector_idx"])
        self.index = f"IVF_FLAT, {partitions} lists, float32"

    def tune(self, effort: int) -> str:
        self.probes = effort
        return f"{effort} probes"

    def nearest(self, vector: Vector) -> Found:
        search = self.table.search(vector).distance_type("cosine").nprobes(self.probes)
        return ids(search.limit(TOP))

    def hybrids(self) -> dict[str, Hybrid]:
        rerankers = library("lancedb.rerankers")
        return {
            "RRF (default)": self._fused(None),
            "linear, vectors 0.7": self._fused(rerankers.LinearCombinationReranker(weight=0.7)),
            "linear, vectors 0.3": self._fused(rerankers.LinearCombinationReranker(weight=0.3)),
        }

    def _fused(self, reranker: Any) -> Hybrid:
        def search(text: str, vector: Vector) -> Found:
            query = self.table.search(query_type="hybrid").vector(vector).text(text)
            query = query.distance_type("cosine").nprobes(self.probes)
            return ids((query.rerank(reranker=reranker) if reranker else query).limit(TOP))

        return search

    def disk(self) -> int:
        return size(self.folder)

    def memory(self) -> int:
        return 0

    def close(self) -> None:
        self.table = None


def schema() -> Any:
    """Return the columns of the table."""
    pa = library("pyarrow")
    vector = pa.list_(pa.float32(), DIM)
    return pa.schema([("id", pa.string()), ("text", pa.string()), ("vector", vector)])


def batch(block: Block) -> Any:
    """Return ids, texts and vectors as one record batch."""
    pa = library("pyarrow")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.vectors.ravel()), DIM)
    return pa.record_batch([*block.documents.columns, vectors], schema=schema())


def ids(search: Any) -> Found:
    """Return the ids of the found documents, after reading their texts."""
    found = search.select(["id", "text"]).to_arrow()
    return [row["id"] for row in found.select(["id", "text"]).to_pylist()]
