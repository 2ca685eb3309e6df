"""zvec with IVF, here faster than its HNSW at a recall of 0.95, and its full-text search."""

from __future__ import annotations

from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Final

from coded_corpus import DIM
from search_corpus import Corpus

from search_engines import PROBES, TOP, Found, Hybrid, Vector, library, lists, size

AT_ONCE: Final = 1_000  # documents per call; the limit is 1,024


class Driver:
    """A zvec collection."""

    efforts = PROBES

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "collection"
        self.zvec = library("zvec")
        self.version = version("zvec")
        self.index = "IVF"
        self.parameters: Any = None
        self.collection: Any = None

    def build(self, corpus: Corpus) -> None:
        number = lists(corpus.documents)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.collection = self.zvec.create_and_open(
            path=str(self.folder), schema=self._schema(number)
        )
        for block in corpus.blocks():
            rows = block.rows()
            while made := [self._document(*row) for row in islice(rows, AT_ONCE)]:
                statuses = self.collection.insert(made)
                if not all(status.ok() for status in statuses):
                    raise RuntimeError(f"zvec rejected a document: {statuses[0]}")
        self.collection.flush()
        self.collection.optimize()
        self.index = f"IVF, {number} lists, float32"

    def _schema(self, number: int) -> Any:
        z = self.zvec
        flat = z.IVFIndexParam(metric_type=z.MetricType.COSINE, n_list=number, n_iters=10)
        return z.CollectionSchema(
            name="documents",
            fields=[z.FieldSchema("text", z.DataType.STRING, index_param=z.FtsIndexParam())],
            vectors=[z.VectorSchema("vector", z.DataType.VECTOR_FP32, DIM, index_param=flat)],
        )

    def _document(self, id: str, text: str, vector: Vector) -> Any:  # noqa: A002 - zvec's name
        return self.zvec.Doc(id=id, fields={"text": text}, vectors={"vector": vector})

    def tune(self, effort: int) -> str:
        self.parameters = self.zvec.IVFQueryParam(nprobe=effort)
        return f"{effort} probes"

    def nearest(self, vector: Vector) -> Found:
        return [found.id for found in self.collection.query(queries=self._near(vector), topk=TOP)]

    def hybrids(self) -> dict[str, Hybrid]:
        z = self.zvec
        return {
            "RRF (default)": self._fused(z.RrfReRanker()),
            "weights 0.5, 0.5": self._fused(z.WeightedReRanker([0.5, 0.5])),
        }

    def _near(self, vector: Vector) -> Any:
        return self.zvec.Query(field_name="vector", vector=vector, param=self.parameters)

    def _fused(self, reranker: Any) -> Hybrid:
        z = self.zvec

        def search(text: str, vector: Vector) -> Found:
            words = z.Query(field_name="text", fts=z.Fts(match_string=text))
            both = [self._near(vector), words]
            found = self.collection.query(queries=both, topk=TOP, reranker=reranker)
            return [one.id for one in found]

        return search

    def disk(self) -> int:
        return size(self.folder)

    def memory(self) -> int:
        return 0

    def close(self) -> None:
        self.collection = None
