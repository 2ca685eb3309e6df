"""The corpus of ``search.py`` as files, which are read in blocks to keep it out of memory.

It is written once from ``coded_corpus.py``: ids and texts (Arrow), vectors (float32), queries, and
the exact ten nearest documents of each query. Vectors are read, not memory-mapped, because mapped
files would count as memory of the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from coded_corpus import DIM, LONGEST, SHORTEST, Vectors, blocks, queries

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK: Final = 10_000
MILLION: Final = 1_000_000
NEAREST: Final = 10


class Block(NamedTuple):
    """``documents``: record batch with id and text; ``vectors``: one row per document."""

    documents: pa.RecordBatch
    vectors: Vectors

    def rows(self) -> Iterator[tuple[str, str, Vectors]]:
        """Yield single documents, for engines that accept rows."""
        ids, texts = (column.to_pylist() for column in self.documents.columns)
        return zip(ids, texts, self.vectors, strict=True)


class Asked(NamedTuple):
    """A query: text, vector, the only document with its code, and the ten nearest documents."""

    text: str
    vector: Vectors
    right: str
    nearest: frozenset[str]


class Corpus(NamedTuple):
    """A corpus in a folder; ``documents``: the number of its documents."""

    folder: Path
    documents: int

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Yield all blocks, or those from a row on, which must be the start of a block."""
        import pyarrow as pa

        with (
            pa.OSFile(str(self.folder / "documents.arrow")) as file,
            (self.folder / "vectors.f32").open("rb") as vectors,
        ):
            reader = pa.ipc.open_file(file)
            vectors.seek(start * DIM * 4)
            for number in range(start // BLOCK, reader.num_record_batches):
                batch = reader.get_batch(number)
                flat = np.fromfile(vectors, np.float32, batch.num_rows * DIM)
                yield Block(batch, flat.reshape(-1, DIM))

    def queries(self) -> list[Asked]:
        """Return the queries of the corpus."""
        told: list[dict[str, Any]] = json.loads((self.folder / "queries.json").read_text("utf-8"))
        vectors = np.load(self.folder / "queries.npy")
        return [
            Asked(one["text"], vector, one["right"], frozenset(one["nearest"]))
            for one, vector in zip(told, vectors, strict=True)
        ]


def corpus(work: Path, count: int) -> Corpus:
    """Return the corpus of that many documents; :func:`make` writes it if it does not exist."""
    return Corpus(work / f"search_{count}", count)


def make(wanted: Corpus, asked: int) -> None:
    """Write the documents, and the queries with their exact nearest documents.

    Texts have 20 to 59 words, those of a corpus of more than a million documents 20.
    """
    import pyarrow as pa

    questions = queries(asked, among=wanted.documents)
    rows = np.empty((asked, 0), np.int64)
    scores = np.empty((asked, 0), np.float32)
    schema = pa.schema({"id": pa.string(), "text": pa.string()})
    with (
        (wanted.folder / "vectors.f32").open("wb") as vectors,
        pa.OSFile(str(wanted.folder / "documents.arrow"), "wb") as file,
        pa.ipc.new_file(file, schema) as writer,
    ):
        longest = LONGEST if wanted.documents <= MILLION else SHORTEST
        for block in blocks(wanted.documents, longest=longest):
            block.vectors.tofile(vectors)
            table = pa.table({"id": block.ids, "text": block.texts}, schema)
            writer.write_table(table, max_chunksize=BLOCK)
            products = questions.vectors @ block.vectors.T
            best = np.argpartition(-products, NEAREST, axis=1)[:, :NEAREST]
            rows = np.concatenate((rows, best + int(block.ids[0])), axis=1)
            scores = np.concatenate((scores, np.take_along_axis(products, best, axis=1)), axis=1)
            best = np.argsort(-scores, axis=1)[:, :NEAREST]
            rows = np.take_along_axis(rows, best, axis=1)
            scores = np.take_along_axis(scores, best, axis=1)
    np.save(wanted.folder / "queries.npy", questions.vectors)
    described = [
        {"text": text, "right": right, "nearest": [str(row) for row in nearest]}
        for text, right, nearest in zip(
            questions.texts, questions.right, rows.tolist(), strict=True
        )
    ]
    (wanted.folder / "queries.json").write_text(
        json.dumps(described), "utf-8"
    )  # written last: marks a complete corpus
