"""The corpus of ``search.py`` as files, read in blocks: no engine finds it in memory.

Made once from ``coded_corpus.py``: ids and texts (Arrow), vectors (float32), the queries, and of
each query the ten documents that brute force finds nearest. Vectors are read, not mapped, so that
the memory of a process is its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from coded_corpus import DIM, Vectors, documents, queries

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK: Final = 10_000
TRUTH_BLOCK: Final = 50_000
NEAREST: Final = 10


class Block(NamedTuple):
    """``documents``: a record batch with id and text; ``vectors``: a row for each."""

    documents: pa.RecordBatch
    vectors: Vectors

    def rows(self) -> Iterator[tuple[str, str, Vectors]]:
        """One by one, for engines that take rows."""
        ids, texts = (column.to_pylist() for column in self.documents.columns)
        return zip(ids, texts, self.vectors, strict=True)


class Asked(NamedTuple):
    """A query: its words, its vector, the one document with its code, the ten nearest ones."""

    text: str
    vector: Vectors
    right: str
    nearest: frozenset[str]


class Corpus(NamedTuple):
    """So many documents in a folder."""

    folder: Path
    documents: int

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """All of them, or those from a row on that a block starts with."""
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
        """Those that the corpus was made with."""
        told: list[dict[str, Any]] = json.loads((self.folder / "queries.json").read_text("utf-8"))
        vectors = np.load(self.folder / "queries.npy")
        return [
            Asked(one["text"], vector, one["right"], frozenset(one["nearest"]))
            for one, vector in zip(told, vectors, strict=True)
        ]


def corpus(work: Path, count: int) -> Corpus:
    """A corpus of that many documents; :func:`make` writes it where it is not there yet."""
    return Corpus(work / f"search_{count}", count)


def make(wanted: Corpus, asked: int) -> None:
    """Write the documents into the folder, and the queries with what brute force says of them."""
    made = documents(wanted.documents)
    made.vectors.tofile(wanted.folder / "vectors.f32")
    _write_documents(wanted.folder / "documents.arrow", made.ids, made.texts)
    questions = queries(asked, among=wanted.documents)
    np.save(wanted.folder / "queries.npy", questions.vectors)
    found = nearest(questions.vectors, made.vectors)
    told = [
        {"text": text, "right": right, "nearest": [made.ids[row] for row in rows]}
        for text, right, rows in zip(questions.texts, questions.right, found.tolist(), strict=True)
    ]
    (wanted.folder / "queries.json").write_text(json.dumps(told), "utf-8")  # last: all is there


def nearest(wanted: Vectors, vectors: Vectors) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The rows of the ten highest inner products, shape (queries, 10), by brute force."""
    rows = np.empty((len(wanted), 0), np.int64)
    scores = np.empty((len(wanted), 0), np.float32)
    for start in range(0, len(vectors), TRUTH_BLOCK):
        block = wanted @ vectors[start : start + TRUTH_BLOCK].T
        best = np.argsort(-block, axis=1)[:, :NEAREST]
        rows = np.concatenate((rows, best + start), axis=1)
        scores = np.concatenate((scores, np.take_along_axis(block, best, axis=1)), axis=1)
        kept = np.argsort(-scores, axis=1)[:, :NEAREST]
        rows = np.take_along_axis(rows, kept, axis=1)
        scores = np.take_along_axis(scores, kept, axis=1)
    return rows


def _write_documents(path: Path, ids: list[str], texts: list[str]) -> None:
    import pyarrow as pa

    table = pa.table({"id": ids, "text": texts})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=BLOCK)
