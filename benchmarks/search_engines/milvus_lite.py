"""Milvus Lite with IVF_FLAT (its HNSW is slower than brute force) and its BM25."""

from __future__ import annotations

from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Final

from coded_corpus import DIM
from search_corpus import Corpus

from search_engines import PROBES, TOP, Found, Hybrid, Vector, library, lists, size

AT_ONCE: Final = 2_000
NAME: Final = "documents"
DEPTH: Final = 50  # candidates of each leg
LONGEST: Final = 4_000  # maximum length of a text


class Driver:
    """A Milvus Lite file."""

    efforts = PROBES

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.pymilvus = library("pymilvus")
        self.version = version("milvus-lite")
        self.index = "IVF_FLAT"
        self.near: dict[str, Any] = {}
        self.client = self.pymilvus.MilvusClient(str(folder / "milvus.db"))

    def build(self, corpus: Corpus) -> None:
        number = lists(corpus.documents)
        parameters = self.client.prepare_index_params()
        parameters.add_index(
            "dense", index_type="IVF_FLAT", metric_type="COSINE", params={"nlist": number}
        )
        parameters.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        self.client.create_collection(NAME, schema=self._schema(), index_params=parameters)
        for block in corpus.blocks():
            rows = block.rows()
            while made := [
                {"id": name, "text": text, "dense": vector}
                for name, text, vector in islice(rows, AT_ONCE)
            ]:
                self.client.insert(NAME, made)
        self.client.flush(NAME)
        self.client.load_collection(NAME)
        self.index = f"IVF_FLAT, {number} lists, float32"

    def _schema(self) -> Any:
        milvus, kind = self.pymilvus, self.pymilvus.DataType
        schema = milvus.MilvusClient.create_schema()
        schema.add_field("id", kind.VARCHAR, max_length=20, is_primary=True)
        schema.add_field("text", kind.VARCHAR, max_length=LONGEST, enable_analyzer=True)
        schema.add_field("dense", kind.FLOAT_VECTOR, dim=DIM)
        schema.add_field("sparse", kind.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            milvus.Function(
                name="bm25",
                function_type=milvus.FunctionType.BM25,
                input_field_names=["text"],
                output_field_names=["sparse"],
            )
        )
        return schema

    def tune(self, effort: int) -> str:
        self.near = {"metric_type": "COSINE", "params": {"nprobe": effort}}
        return f"{effort} probes"

    def nearest(self, vector: Vector) -> Found:
        found = self.client.search(
            NAME,
            data=[vector],
            anns_field="dense",
            limit=TOP,
            search_params=self.near,
            output_fields=["text"],
        )
        return [one["id"] for one in found[0]]

    def hybrids(self) -> dict[str, Hybrid]:
        milvus = self.pymilvus
        return {
            "RRF (default)": self._fused(milvus.RRFRanker()),
            "weights 0.5, 0.5": self._fused(milvus.WeightedRanker(0.5, 0.5)),
        }

    def _fused(self, ranker: Any) -> Hybrid:
        request = self.pymilvus.AnnSearchRequest

        def search(text: str, vector: Vector) -> Found:
            legs = [
                request(data=[vector], anns_field="dense", param=self.near, limit=DEPTH),
                request(data=[text], anns_field="sparse", param={}, limit=DEPTH),
            ]
            found = self.client.hybrid_search(
                NAME, reqs=legs, ranker=ranker, limit=TOP, output_fields=["text"]
            )
            return [one["id"] for one in found[0]]

        return search

    def disk(self) -> int:
        return size(self.folder)

    def memory(self) -> int:
        return 0  # runs in this process

    def close(self) -> None:
        self.client.close()
