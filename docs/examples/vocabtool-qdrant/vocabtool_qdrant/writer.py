"""The writer: documents first, then marks of what is deleted, last the record, which commits."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

import numpy as np
from qdrant_client import models

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Batch, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.canaries import Canaries
from vocabtool.index.database import column, text_hash
from vocabtool.index.documents import MAX_FIELDS, PLAIN, union, values_of
from vocabtool.index.folder import Load, Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.raw_vectors import as_stored
from vocabtool.index.sources import Source
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.fields import weighted_terms
from vocabtool.system.ranking import Rows
from vocabtool_qdrant.collection import BATCH, STAMPS, Collection
from vocabtool_qdrant.documents import read_answers
from vocabtool_qdrant.filters import all_of, between, has, rows_in
from vocabtool_qdrant.terms import DocumentTerms

SCHEMAS: Final = {"string": "keyword", "boolean": "bool", "integer": "float", "number": "float"}
ROWS: Final = 1 << 32  # documents of one writer
NOTHING: Final = "Nothing of this commit counts; earlier commits are complete. Run it again"
UNKNOWN: Final = (
    "Whether this commit counts is unknown, because its answer was lost; earlier commits are "
    "complete. Look whether its documents are there before you run it again"
)


class QdrantWriter:
    """Changes an index; fulfils ``StoreWriter``. The one that was opened last is the only one."""

    is_shared = False

    def __init__(self, collection: Collection, cutter: Cutter) -> None:
        self._collection, self._cutter = collection, cutter
        self._record = self._opened = record = collection.open_session()
        collection.remove_killed(record)
        self.manifest: Manifest = record.manifest
        self.rows = record.manifest.rows
        self.searched_fields = record.manifest.searched_fields
        self._kinds: dict[str, Kind] = dict(record.manifest.fields)
        self._stamp = record.session * STAMPS + 1
        self._next = record.session * ROWS
        self._mean = record.mean
        self._begin()

    def _begin(self) -> None:
        """Forget the changes of the last commit."""
        held = self._record.manifest
        self._totals = np.array([held.rows, held.words, held.surfaces])
        self._new: dict[str, int] = {}
        self._gone: set[int] = set()
        self._points: list[models.PointStruct] = []
        self._answers: list[tuple[str, bytes, bytes]] = []
        self._is_written = False  # whether anything was written that does not count yet

    # Questions

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        held = self._collection.rows_of(self._record.live, ids)
        found = {id_: row for id_, row in held.items() if row not in self._gone}
        return found | {id_: self._new[id_] for id_ in ids if id_ in self._new}

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        wanted = has("source", *numbers), between("added", lte=self._opened.stamp)
        found = (each.row for each in self._collection.scan(all_of(self._record.live, *wanted)))
        return np.array([row for row in found if row not in self._gone], np.int64)

    def answer_for(self, key: str) -> tuple[bytes, bytes] | None:
        wanted = all_of(self._record.changed("answered"), has("key", key))
        found = [*read_answers(self._collection, wanted), *self._answers]
        return next(((digest, answer) for name, digest, answer in found if name == key), None)

    def load_of(self, plan: str | None) -> Load | None:
        return self.manifest.load

    def canaries(self) -> Canaries:
        return self._collection.canaries(self._record)

    # Changes

    def append(
        self,
        batch: Batch,
        vectors: Vectors,
        sources: Sequence[int],
        on_existing: OnExisting = "update",
    ) -> None:
        """``on_existing``: of no use here, because no other writer may commit."""
        ids, texts = batch.id_array().to_pylist(), batch.texts.to_pylist()
        fields = self._values_of(batch)
        cut = weighted_terms(self._cutter, texts, fields, self.searched_fields)
        terms = [*map(DocumentTerms.of, cut)]
        held = as_stored(vectors, self.manifest.configuration.dtype).astype(np.float32)
        for each in terms:
            self._totals += (1, each.length, each.surface_count)
        mean = max(float(self._totals[1] / self._totals[0]), 1.0)
        self._mean = min(self._mean, mean)
        for at, each in enumerate(terms):
            payload = {"id": ids[at], "text": texts[at], "source": sources[at], **each.payload}
            payload["text_hash"] = text_hash(texts[at].encode())
            payload |= {column(self._kinds, name): value for name, value in fields[at].items()}
            vector: dict[str, Any] = {"terms": each.vector(mean)}
            if held[at].any():
                vector["vector"] = held[at].tolist()
            self._put(payload, vector)
        self.rows += len(batch)

    def _values_of(self, batch: Batch) -> list[dict[str, object]]:
        """Return the fields of each document, typed and without nulls."""
        fields: list[dict[str, object]] = [{} for _ in range(len(batch))]
        for name, texts in batch.columns.items():
            held = self._kinds.get(name, "null")
            kind = self._kinds[name] = union(held, batch.kinds[name])
            if kind == "string" and held not in ("null", "string"):
                what = f"the field {name!r} contained {PLAIN[held]} so far, and now strings"
                raise VocabtoolError(f"{self._collection.where}: {what}: write all as strings")
            if len(self._kinds) > MAX_FIELDS:
                found = f"{len(self._kinds):,}"
                raise VocabtoolError(f"{found} fields in the index, the limit is {MAX_FIELDS}")
            for each, value in zip(fields, values_of(texts, kind), strict=True):
                if isinstance(value, bytes):
                    each[name] = value.decode("utf-8", "replace")
                elif value is not None:
                    each[name] = bool(value) if kind == "boolean" else value
        return fields

    def _put(self, payload: dict[str, Any], vector: dict[str, Any]) -> None:
        """Add a document that counts from this commit on."""
        payload["added"] = self._stamp
        self._new[payload["id"]] = self._next
        self._points.append(models.PointStruct(id=self._next, payload=payload, vector=vector))
        self._next += 1
        if len(self._points) == BATCH:
            self._flush()

    def _flush(self) -> None:
        points, self._points = self._points, []
        if points:
            self._is_written = True
            self._collection.ask("upsert", points=points)

    def delete(self, rows: Rows) -> None:
        self._flush()
        wanted = [row for row in rows.tolist() if row not in self._gone]
        found = self._collection.get(wanted, ["id", "length", "surface_count", "gone"])
        for row, (_, payload, _) in found.items():
            if self._record.includes(payload.get("gone", float("inf"))):
                continue  # it is deleted already
            self._gone.add(row)
            self._totals -= (1, payload["length"], payload["surface_count"])
            if self._new.get(payload["id"]) == row:
                del self._new[payload["id"]]

    def set_source(self, rows: Rows, source: int) -> bool:
        """Replace documents by copies, which count from the commit on, as all changes do."""
        self._flush()
        ids = [each.payload["id"] for each in self._collection.get(rows.tolist(), ["id"]).values()]
        newest = [*self.find_existing(ids).values()]
        held = self._collection.get(newest, None, ("vector", "terms"))
        others = [each for each in held.values() if each.payload["source"] != source]
        for _, payload, vectors in others:
            kept = {name: value for name, value in payload.items() if name != "gone"}
            self._put({**kept, "source": source}, vectors)
        self._gone.update(each.row for each in others)
        return bool(others)

    def remember(self, key: str, digest: bytes, answer: bytes) -> None:
        self._answers.append((key, digest, answer))

    def register_sources(
        self, known: Sequence[Source], sources: Sequence[Source]
    ) -> tuple[Source, ...]:
        self.manifest = replace(self.manifest, sources=(*sources,))
        return self.manifest.sources

    def take_shard(self, plan: str, count: int) -> int | None:
        raise NotImplementedError("an index in Qdrant has one writer")

    def add_shard(self, plan: str, shard: int, documents: int) -> None:
        raise NotImplementedError("an index in Qdrant has one writer")

    # The commit

    def commit_changes(
        self, manifest: Manifest, *, codes: bool, progress: Progress | None = None
    ) -> None:
        before, told = self._record, NOTHING
        rows, words, surfaces = self._totals.tolist()
        more: dict[str, Any] = {"fields": {**self._kinds}, "searched_fields": self.searched_fields}
        manifest = replace(manifest, rows=rows, words=words, surfaces=surfaces, **more)
        record = replace(before, manifest=manifest, stamp=self._stamp, mean=self._mean)
        if self._stamp % STAMPS == 0:
            raise VocabtoolError(f"{self._collection.where}: {STAMPS:,} commits: open a new writer")
        try:
            self._flush()
            self._is_written = True
            self._write_marks()
            self._index_fields()
            told = UNKNOWN
            found = self._collection.write_record(record, before)
        except VocabtoolError as error:
            raise VocabtoolError(f"{error}. {told}") from error
        if found.manifest.index != manifest.index or not found.includes(self._stamp):
            what = "another writer was opened meanwhile, and only one may write"
            raise VocabtoolError(f"{self._collection.where}: {what}. {NOTHING}")
        self._record, self.manifest = record, manifest
        self._stamp += 1
        self._begin()

    def _write_marks(self) -> None:
        """Mark deleted documents, unless a later writer has done so; write answers."""
        gone, points = sorted(self._gone), []
        for start in range(0, len(gone), BATCH):
            part, later = rows_in(gone[start : start + BATCH]), between("gone", gt=self._stamp)
            payload = {"gone": self._stamp}
            self._collection.ask("set_payload", payload=payload, points=all_of(part, but=[later]))
        for n, (key, *parts) in enumerate(self._answers, self._stamp * STAMPS):
            digest, answer = (b64encode(part).decode() for part in parts)
            told = {"key": key, "digest": digest, "answer": answer, "n": n}
            told["answered"] = self._stamp
            points.append(models.PointStruct(id=str(uuid4()), payload=told, vector={}))
        for start in range(0, len(points), BATCH):
            self._collection.ask("upsert", points=points[start : start + BATCH])

    def _index_fields(self) -> None:
        """Index the columns of new fields, so that a server finds their values sooner."""
        for name, kind in self._kinds.items():
            is_known = self._record.manifest.fields.get(name, "null") != "null"
            if kind != "null" and not is_known and not self._collection.is_local:
                at, schema = column(self._kinds, name), SCHEMAS[kind]
                given = {"field_name": at, "field_schema": schema}
                self._collection.ask("create_payload_index", **given)

    def close(self) -> None:
        """End the session. If changes are left that do not count, the next writer sees to it."""
        if not self._is_written:
            with suppress(VocabtoolError):  # another writer was opened
                self._collection.write_record(replace(self._record, writer=""), self._record)
