"""Documents and their fields, as an index lists, sorts, counts and copies them."""

from __future__ import annotations

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
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.fields import weighted_terms
from vocabtool.search.store import FieldColumn, ValueCount, ValueCounts
from vocabtool.system.ranking import Rows
from vocabtool_qdrant.collection import BATCH, Collection, Point, Record, batches, vectors_of
from vocabtool_qdrant.filters import Condition, all_of, any_of, has
from vocabtool_qdrant.terms import DocumentTerms


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
        rows = max(self.rows, 1)
        self.mean_lengths = self.manifest.words / rows, self.manifest.surfaces / rows

    def payloads(self, rows: Rows, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return the payloads of documents. Raises :class:`DocumentsChanged`."""
        points = self.collection.get([*dict.fromkeys(rows.tolist())], columns)
        try:
            return [points[row].payload for row in rows.tolist()]
        except KeyError as error:
            what = f"document {error.args[0]:,} was deleted, and the index compacted: search again"
            raise DocumentsChanged(f"{self.collection.where}: {what}") from None

    def ids(self, rows: Rows) -> list[str]:
        return [each["id"] for each in self.payloads(rows, ["id"])]

    def fetch_documents(self, rows: Rows) -> list[Document]:
        return [*map(self.document_of, self.payloads(rows, ["id", "text", *self.columns.values()]))]

    def document_of(self, payload: Mapping[str, Any]) -> Document:
        values = {name: payload.get(at) for name, at in self.columns.items()}
        fields = {name: value for name, value in values.items() if value is not None}
        return Document(payload["id"], payload.get("text", ""), fields)

    def take(self, rows: Rows) -> Vectors:
        points = self.collection.get(rows.tolist(), (), ["vector"])
        return vectors_of([points.get(row) for row in rows.tolist()], self.dim)

    # By id, text or condition

    def row_of(self, id_: str) -> int | None:
        valid = id_in_utf8(id_)
        return self.rows_of([valid]).get(valid)

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
        texts = [text.decode("utf-8", "replace").encode() for text in texts]
        row_of: dict[bytes, int] = {}
        for hashes in batches([*dict.fromkeys(map(text_hash, texts))]):
            wanted = all_of(self.live, has("text_hash", *hashes), but=[has("source", 0, -1)])
            points = self.collection.scan(wanted, ["text"])
            row_of |= {each.payload["text"].encode(): each.id for each in points}
        return np.array([row_of.get(text, -1) for text in texts], np.int64)

    def in_order(self, selection: Condition) -> Rows:
        points = self.collection.scan(selection, ["id"])
        rows = sorted((each.payload["id"], each.id) for each in points)
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
        payloads = [each.payload for each in self.collection.scan(among, columns)]
        counted = {}
        for name, at in zip(names, columns, strict=True):
            values = [each[at] for each in payloads if each.get(at) is not None]
            places = {value: place for place, value in enumerate(sorted(set(values)))}
            codes = np.array([places[value] for value in values], np.int32)
            whole = FieldColumn.of(codes, [*places], self.fields[name])
            counted[name] = whole.count(np.arange(len(codes)), limit)
        return counted

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        at = self.columns[name]
        stored = (each.payload.get(at) for each in self.collection.scan(self.live, [at]))
        counts = Counter(value for value in stored if value is not None)
        frequent = sorted((-n, value) for value, n in counts.items() if n > 1)[:limit]
        values = tuple(ValueCount(value, -n) for n, value in frequent)
        return counts.total(), ValueCounts(values, len(counts))

    # All of it

    def canaries(self) -> Canaries:
        return self.collection.canaries(self.record)

    @contextmanager
    def contents(self) -> Iterator[Contents]:
        record = self.collection.read_record()
        answers = self.collection.answers(record.changed("answered"))
        newest = QdrantDocuments(self.collection, record)
        yield Contents(record.manifest, answers, newest.stored_rows())

    def stored_rows(self) -> Iterator[StoredRows]:
        columns = ["id", "text", "text_hash", "source", *self.columns.values()]
        for part, documents in self._parts(columns, ["vector"]):
            sources = [each.payload["source"] for each in part]
            yield StoredRows(documents, sources, vectors_of(part, self.dim))

    def verify(self, cutter: Cutter) -> None:
        """Cut all texts again, and compare. Raises :class:`InvalidFile`."""
        totals = np.zeros(3, np.int64)
        for part, documents in self._parts(None):
            texts, fields = zip(*((each.text, each.fields) for each in documents), strict=True)
            cut = weighted_terms(cutter, texts, fields, self.searched_fields)
            for point, terms in zip(part, map(DocumentTerms.of, cut), strict=True):
                if not terms.payload.items() <= point.payload.items():
                    raise self._damaged(f"terms of row {point.id:,}")
                totals += (1, terms.length, terms.surface_count)
        wanted = [self.manifest.rows, self.manifest.words, self.manifest.surfaces]
        if (counted := totals.tolist()) != wanted:
            what = f"documents, words and identifiers are {counted}, the record says {wanted}"
            raise self._damaged(what)

    def _parts(
        self, columns: Sequence[str] | None, vectors: Sequence[str] = ()
    ) -> Iterator[tuple[list[Point], list[Document]]]:
        """Yield all documents, whose texts have their hashes."""
        points, count = self.collection.scan(self.live, columns, vectors), 0
        while part := [*islice(points, BATCH)]:
            documents = [self.document_of(each.payload) for each in part]
            for each, document in zip(part, documents, strict=True):
                if text_hash(document.text.encode()) != each.payload.get("text_hash"):
                    raise self._damaged(f"text of row {each.id:,}")
            count += len(part)
            yield part, documents
        if count != self.rows:
            raise self._damaged(f"or compacted meanwhile: {count:,} of {self.rows:,} documents")

    def _damaged(self, what: str) -> InvalidFile:
        return InvalidFile(f"damaged: {what}", file=self.collection.where)
