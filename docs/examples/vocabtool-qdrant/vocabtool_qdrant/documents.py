"""Documents and their fields, as an index lists, sorts, counts and copies them."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import Document
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile
from vocabtool.index.canaries import Canaries
from vocabtool.index.commit_store import Contents, DocumentsChanged, StoredRows
from vocabtool.index.database import column, text_hash
from vocabtool.index.documents import id_in_utf8
from vocabtool.keywords.bm25 import Term
from vocabtool.search.store import FieldColumn, ValueCount, ValueCounts
from vocabtool.system.ranking import Rows
from vocabtool_qdrant.collection import BATCH, Collection, Point, Record, vectors_of
from vocabtool_qdrant.filters import Condition, all_of, any_of, has


class QdrantDocuments:
    """The documents of one commit; a part of ``CommitStore``. Threads may share it."""

    number = 0

    def __init__(self, collection: Collection, record: Record) -> None:
        self.collection, self.record, self.live = collection, record, record.live
        self.manifest = record.manifest
        self.rows, self.fields = self.manifest.rows, self.manifest.fields
        self.dim = self.manifest.configuration.dim
        self.version = self.manifest.index, self.manifest.commit
        self.searched_fields = self.manifest.searched_fields
        self.columns = {name: column(self.fields, name) for name in self.fields}

    @property
    def mean_lengths(self) -> tuple[float, float]:
        rows = max(self.rows, 1)
        return self.manifest.words / rows, self.manifest.surfaces / rows

    def payloads(self, rows: Rows, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return the payloads of documents. Raises :class:`DocumentsChanged`."""
        found = self.collection.get([*dict.fromkeys(rows.tolist())], columns)
        try:
            return [found[row].payload for row in rows.tolist()]
        except KeyError as error:
            what = f"document {error.args[0]:,} was deleted, and the index compacted: search again"
            raise DocumentsChanged(f"{self.collection.where}: {what}") from None

    def ids(self, rows: Rows) -> list[str]:
        return [each["id"] for each in self.payloads(rows, ["id"])]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        return [*map(self.document_of, self.payloads(rows, ["id", "text", *self.columns.values()]))]

    def document_of(self, payload: Mapping[str, Any]) -> Document:
        held = {name: payload.get(at) for name, at in self.columns.items()}
        fields = {name: value for name, value in held.items() if value is not None}
        return Document(payload["id"], payload["text"], fields)

    def take(self, rows: Rows) -> Vectors:
        found = self.collection.get(rows.tolist(), (), ["vector"])
        none = Point(0, {}, {})
        return vectors_of([found.get(row, none) for row in rows.tolist()], self.dim)

    # By id, text or condition

    def row_of(self, id_: str) -> int | None:
        held = id_in_utf8(id_)
        return self.rows_of([held]).get(held)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        return self.collection.rows_of(self.live, ids)

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        rows = self.rows_of(ids)
        documents = self.fetch_documents(np.array([*rows.values()], np.int64))
        return {
            id_: (row, [each.text, *map(each.fields.get, self.fields)])
            for (id_, row), each in zip(rows.items(), documents, strict=True)
        }

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        held: dict[bytes, int] = {}
        texts = [text.decode("utf-8", "replace").encode() for text in texts]
        for start in range(0, len(texts), BATCH):
            hashes = dict.fromkeys(map(text_hash, texts[start : start + BATCH]))
            wanted = all_of(self.live, has("text_hash", *hashes), but=[has("source", 0, -1)])
            found = self.collection.scan(wanted, ["text"])
            held |= {each.payload["text"].encode(): each.row for each in found}
        return np.array([held.get(text, -1) for text in texts], np.int64)

    def in_order(self, selection: Condition) -> Rows:
        found = self.collection.scan(selection, ["id"])
        rows = sorted((each.payload["id"], each.row) for each in found)
        return np.array([row for _, row in rows], np.int64)

    # Values of fields

    def value_ranks(self, name: str, rows: Rows) -> NDArray[np.int64]:
        at = self.columns[name]
        values = [each.get(at) for each in self.payloads(rows, [at])]
        ranks = {value: n for n, value in enumerate(sorted({v for v in values if v is not None}))}
        return np.array([-1 if each is None else ranks[each] for each in values], np.int64)

    def count_values(
        self, names: Sequence[str], terms: Sequence[Term], among: Condition, limit: int
    ) -> dict[str, ValueCounts]:
        if terms:
            among = all_of(among, any_of(has(term.field, term.text) for term in terms))
        columns = [self.columns[name] for name in names]
        found = [each.payload for each in self.collection.scan(among, columns)]
        counted = {}
        for name, at in zip(names, columns, strict=True):
            values = [each[at] for each in found if each.get(at) is not None]
            places = {value: place for place, value in enumerate(sorted(set(values)))}
            codes = np.array([places[value] for value in values], np.int32)
            whole = FieldColumn.of(codes, [*places], self.fields[name])
            counted[name] = whole.count(np.arange(len(codes)), limit)
        return counted

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        at = self.columns[name]
        found = (each.payload.get(at) for each in self.collection.scan(self.live, [at]))
        counts = Counter(value for value in found if value is not None)
        frequent = sorted((-n, value) for value, n in counts.items() if n > 1)[:limit]
        values = tuple(ValueCount(value, -n) for n, value in frequent)
        return counts.total(), ValueCounts(values, len(counts))

    # All of it

    def canaries(self) -> Canaries:
        return self.collection.canaries(self.collection.read_record())

    @contextmanager
    def contents(self) -> Iterator[Contents]:
        record = self.collection.read_record()
        answers = read_answers(self.collection, record.changed("answered"))
        newest = QdrantDocuments(self.collection, record)
        yield Contents(record.manifest, answers, newest.stored_rows())

    def stored_rows(self) -> Iterator[StoredRows]:
        columns = ["id", "text", "text_hash", "source", *self.columns.values()]
        found, count = self.collection.scan(self.live, columns, vectors=True), 0
        while part := [*islice(found, BATCH)]:
            for each in part:
                if text_hash(each.payload["text"].encode()) != each.payload["text_hash"]:
                    what = f"damaged: text of row {each.row:,}"
                    raise InvalidFile(what, file=self.collection.where)
            documents = [self.document_of(each.payload) for each in part]
            sources = [each.payload["source"] for each in part]
            count += len(part)
            yield StoredRows(documents, sources, vectors_of(part, self.dim))
        if count != self.rows:
            what = f"damaged, or compacted meanwhile: {count:,} of {self.rows:,} documents"
            raise InvalidFile(what, file=self.collection.where)


def read_answers(collection: Collection, wanted: Condition) -> list[tuple[str, bytes, bytes]]:
    """Return key, digest and answer of remembered answers, oldest first."""
    found = (each.payload for each in collection.scan(wanted, ["key", "digest", "answer", "n"]))
    return [
        (each["key"], b64decode(each["digest"]), b64decode(each["answer"]))
        for each in sorted(found, key=lambda each: int(each["n"]))
    ]
