"""The writer: documents first, then marks of what is deleted, last the record, which commits."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import isfinite
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
from vocabtool_qdrant.collection import BATCH, FIRST_MEAN, STAMPS, Collection, batches
from vocabtool_qdrant.filters import all_of, between, has, rows_in
from vocabtool_qdrant.terms import DocumentTerms

SCHEMAS: Final = {"string": "keyword", "boolean": "bool", "integer": "float", "number": "float"}
ROWS: Final = 1 << 32  # documents of one writer
ENOUGH: Final = 1_000  # documents whose mean length is near that of all
MAX_BYTES: Final = 8 << 20  # of a request with several points; a server refuses more than 32 MiB
NOTHING: Final = "Nothing of this commit counts: run it again"
UNKNOWN: Final = (
    "Whether this commit counts is unknown: look for its documents before you repeat it"
)


class QdrantWriter:
    """Changes an index; fulfils ``StoreWriter``. The last one to begin a change is the only one."""

    is_shared = False

    def __init__(self, collection: Collection, cutter: Cutter) -> None:
        self._collection, self._cutter = collection, cutter
        self._record = self._opened = record = collection.read_record()
        self.manifest: Manifest = record.manifest
        self.rows = record.manifest.rows
        self.searched_fields = record.manifest.searched_fields
        self._kinds: dict[str, Kind] = dict(record.manifest.fields)
        self._mean = record.mean
        self._stamp = self._next = 0  # of the next commit, of the next document; 0: not open
        self._forget()

    def _open(self) -> None:
        """Become the only writer, at the first change: who only asks stops nobody."""
        if not self._stamp:
            self._record = record = self._collection.open_session(self._record)
            self._collection.remove_killed(record)
            self._stamp, self._next = record.session * STAMPS + 1, record.session * ROWS

    def _forget(self) -> None:
        """Forget the changes of the last commit."""
        last = self._record.manifest
        self._totals = np.array([last.rows, last.words, last.surfaces])
        self._new: dict[str, int] = {}
        self._gone: set[int] = set()
        self._points: list[models.PointStruct] = []
        self._size = 0
        self._answers: list[tuple[str, bytes, bytes]] = []
        self._is_written = False  # whether anything was written that does not count yet

    # Questions

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        rows = self._collection.rows_of(self._record.live, ids)
        existing = {id_: row for id_, row in rows.items() if row not in self._gone}
        return existing | {id_: self._new[id_] for id_ in ids if id_ in self._new}

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        wanted = has("source", *numbers), between("added", lte=self._opened.stamp)
        rows = (each.id for each in self._collection.scan(all_of(self._record.live, *wanted)))
        return np.array([row for row in rows if row not in self._gone], np.int64)

    def answer_for(self, key: str) -> tuple[bytes, bytes] | None:
        wanted = all_of(self._record.changed("answered"), has("key", key))
        answers = [*self._collection.answers(wanted), *self._answers]
        return next(((digest, answer) for name, digest, answer in answers if name == key), None)

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
        self._open()
        ids, texts = batch.id_array().to_pylist(), batch.texts.to_pylist()
        fields = self._values_of(batch)
        cut = weighted_terms(self._cutter, texts, fields, self.searched_fields)
        terms = [*map(DocumentTerms.of, cut)]
        stored = as_stored(vectors, self.manifest.configuration.dtype).astype(np.float32)
        for each in terms:
            self._totals += (1, each.length, each.surface_count)
        rows, words, _ = self._totals.tolist()
        if self._mean == FIRST_MEAN and rows >= ENOUGH:
            self._mean = min(FIRST_MEAN, max(1.0, words / rows))
        for at, each in enumerate(terms):
            payload = {"id": ids[at], "text": texts[at], "source": sources[at], **each.payload}
            payload["text_hash"] = text_hash(texts[at].encode())
            payload |= {column(self._kinds, name): value for name, value in fields[at].items()}
            vector: dict[str, Any] = {"terms": each.vector(self._mean)}
            if stored[at].any():
                vector["vector"] = stored[at].tolist()
            self._put(payload, vector)
        self.rows += len(batch)

    def _values_of(self, batch: Batch) -> list[dict[str, object]]:
        """Return the fields of each document, typed and without nulls."""
        fields: list[dict[str, object]] = [{} for _ in range(len(batch))]
        for name, texts in batch.columns.items():
            old, where = self._kinds.get(name, "null"), f"{self._collection.where}: the field"
            kind = self._kinds[name] = union(old, batch.kinds[name])
            if kind == "string" and old not in ("null", "string"):
                what = f"contained {PLAIN[old]} so far, and now strings: write all as strings"
                raise VocabtoolError(f"{where} {name!r} {what}")
            if len(self._kinds) > MAX_FIELDS:
                raise VocabtoolError(f"{where} {name!r}: an index has at most {MAX_FIELDS} fields")
            for each, value in zip(fields, values_of(texts, kind), strict=True):
                if isinstance(value, bytes):
                    each[name] = value.decode("utf-8", "replace")
                elif value is not None:
                    if not isfinite(value):
                        raise VocabtoolError(f"{where} {name!r} contains {value}, no JSON number")
                    each[name] = bool(value) if kind == "boolean" else value
        return fields

    def _put(self, payload: dict[str, Any], vector: dict[str, Any]) -> None:
        """Add a document that counts from this commit on."""
        payload["added"] = self._stamp
        self._new[payload["id"]] = self._next
        self._write(models.PointStruct(id=self._next, payload=payload, vector=vector))
        self._next += 1

    def _write(self, point: models.PointStruct) -> None:
        """Write a point with others that fill a request."""
        size = len(point.model_dump_json())
        if len(self._points) == BATCH or self._size + size > MAX_BYTES:
            self._flush()
        self._points.append(point)
        self._size += size

    def _flush(self) -> None:
        points, self._points, self._size = self._points, [], 0
        if points:
            self._is_written = True
            self._collection.ask("upsert", points=points)

    def delete(self, rows: Rows) -> None:
        self._open()
        self._flush()
        wanted = [row for row in rows.tolist() if row not in self._gone]
        points = self._collection.get(wanted, ["id", "length", "surface_count", "gone"])
        for row, each in points.items():
            payload = each.payload
            if not self._record.includes(payload.get("gone", float("inf"))):  # or deleted already
                self._gone.add(row)
                self._totals -= (1, payload["length"], payload["surface_count"])
                if self._new.get(payload["id"]) == row:
                    del self._new[payload["id"]]

    def set_source(self, rows: Rows, source: int) -> bool:
        """Replace documents by copies, which count from the commit on, as all changes do."""
        self._open()
        self._flush()
        ids = [each.payload["id"] for each in self._collection.get(rows.tolist(), ["id"]).values()]
        newest = [*self.find_existing(ids).values()]
        points = self._collection.get(newest, None, ("vector", "terms")).values()
        others = [each for each in points if each.payload["source"] != source]
        for each in others:
            kept = {name: value for name, value in each.payload.items() if name != "gone"}
            self._put({**kept, "source": source}, each.vector)
        self._gone.update(each.id for each in others)
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
        self._open()
        before, outcome = self._record, NOTHING
        rows, words, surfaces = self._totals.tolist()
        more: dict[str, Any] = {"fields": {**self._kinds}, "searched_fields": self.searched_fields}
        manifest = replace(manifest, rows=rows, words=words, surfaces=surfaces, **more)
        record = replace(before, manifest=manifest, stamp=self._stamp, mean=self._mean)
        if self._stamp % STAMPS == 0:
            raise VocabtoolError(f"{self._collection.where}: {STAMPS:,} commits: open a new writer")
        try:
            self._write_marks()
            self._index_fields()
            outcome = UNKNOWN
            self._collection.write_record(record, before)
            newest = self._collection.read_record()
        except VocabtoolError as error:
            raise VocabtoolError(f"{error}. {outcome}") from error
        if newest.manifest.index != manifest.index or not newest.includes(self._stamp):
            what = "another writer was opened meanwhile, and only one may write"
            raise VocabtoolError(f"{self._collection.where}: {what}. {NOTHING}")
        self._record, self.manifest = record, manifest
        self._stamp += 1
        self._forget()

    def _write_marks(self) -> None:
        """Write answers; mark deleted documents, unless a later writer has done so."""
        for n, (key, *parts) in enumerate(self._answers, self._stamp * STAMPS):
            digest, answer = (b64encode(part).decode() for part in parts)
            payload = {"key": key, "digest": digest, "answer": answer, "n": n}
            payload["answered"] = self._stamp
            self._write(models.PointStruct(id=str(uuid4()), payload=payload, vector={}))
        self._flush()
        self._is_written = True
        mark, later = {"gone": self._stamp}, between("gone", gt=self._stamp)
        for part in batches(sorted(self._gone)):
            points = all_of(rows_in(part), but=[later])
            self._collection.ask("set_payload", payload=mark, points=points)

    def _index_fields(self) -> None:
        """Index the columns of new fields, so that a server finds their values sooner."""
        for name, kind in self._kinds.items():
            is_known = self._record.manifest.fields.get(name, "null") != "null"
            if kind != "null" and not is_known and not self._collection.is_local:
                given = {"field_name": column(self._kinds, name), "field_schema": SCHEMAS[kind]}
                self._collection.ask("create_payload_index", **given)

    def close(self) -> None:
        """End the session. If changes are left that do not count, the next writer sees to it."""
        if self._stamp and not self._is_written:
            with suppress(VocabtoolError):  # another writer was opened
                self._collection.write_record(replace(self._record, writer=""), self._record)
