"""The collection of one index, and the record of its commits.

An index is a collection ``vocabtool_ID``, and the alias NAME is its name. Its points:

    0         the record of the newest commit
    1, ...    documents: the number of the writer times 2^32, and their number in it
    UUIDs     files of the model, in pieces; remembered answers

Qdrant has no transactions, so every change bears the *stamp* of its commit: ``added`` of a
document, ``gone`` of a deleted one. A change counts if the record includes its stamp, so the one
write of the record is the commit. Stamps of a writer that was killed are excluded forever, even if
one of its requests arrives later. The record is only written if nobody else has written it since.
"""

from __future__ import annotations

import secrets
import sqlite3
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.index.canaries import CANDIDATES, Canaries
from vocabtool.index.folder import Manifest
from vocabtool.keywords.bm25 import Term
from vocabtool_qdrant.filters import Condition, all_of, any_of, between, has

BATCH: Final = 500  # points in a request
RECORD: Final = 0  # the id of its point
STAMPS: Final = 1 << 20  # commits of one writer
FIRST_MEAN: Final = 1e3  # more than the mean length of most texts, in words
ONE_AT_A_TIME: Final = RLock()  # in local mode, which is not made for threads
OF_CLIENT: Final = (ApiException, QdrantException, ValueError, RuntimeError)
FAILURES: Final = (*OF_CLIENT, OSError, sqlite3.Error)  # also of the local mode's files

Item = TypeVar("Item")
Names: TypeAlias = Sequence[str]
Point: TypeAlias = Any  # of the client: ``id``, ``payload``, and ``vector`` by names


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A commit.

    - ``session``: how many writers were opened so far. ``stamp``: of the commit.
    - ``writer``: who may commit next; empty after its end. Otherwise it is open, or was killed.
    - ``killed``: stamps that never count, above the first and below the second of each pair.
    - ``mean``: the mean length of texts by which new terms are weighted; never more than before.
    """

    manifest: Manifest
    session: int = 0
    stamp: int = 0
    writer: str = ""
    killed: tuple[tuple[int, int], ...] = ()
    mean: float = FIRST_MEAN

    def includes(self, stamp: float) -> bool:
        return stamp <= self.stamp and not any(a < stamp < z for a, z in self.killed)

    def left(self, name: str) -> list[Condition]:
        """The changes ``name`` that killed writers left."""
        return [between(name, gt=first, lt=end) for first, end in self.killed]

    def changed(self, name: str) -> models.Filter:
        """The changes ``name`` that this commit includes."""
        return all_of(between(name, lte=self.stamp), but=self.left(name))

    @property
    def live(self) -> models.Filter:
        return all_of(self.changed("added"), but=[self.changed("gone")])

    @property
    def point(self) -> models.PointStruct:
        names = ("session", "stamp", "writer", "killed", "mean")
        payload = {name: getattr(self, name) for name in names}
        payload["manifest"] = self.manifest.encode().decode()
        return models.PointStruct(id=RECORD, payload=payload, vector={})


class Collection:
    """The calls of Qdrant for one index. Every method may raise :class:`VocabtoolError`.

    ``alias``: the name of the index in Qdrant. ``where``: its address, for messages.
    """

    def __init__(self, client: QdrantClient, alias: str, where: str, *, is_local: bool) -> None:
        self.client, self.alias, self.where, self.is_local = client, alias, where, is_local
        self.name = ""

    def ask(self, method: str, **given: Any) -> Any:
        """Call a method of the client on the collection."""
        return self.call(method, self.name, **given)

    def call(self, method: str, *given: Any, **named: Any) -> Any:
        try:
            with ONE_AT_A_TIME if self.is_local else nullcontext():
                return getattr(self.client, method)(*given, **named)
        except FAILURES as error:
            what = " ".join(str(error).split())[:300]
            raise VocabtoolError(f"{self.where}: Qdrant failed: {what}") from error

    def close(self) -> None:
        if not self.is_local:  # others may have opened the same folder
            self.call("close")

    def scan(
        self, wanted: Condition, columns: Names | None = (), vectors: Names = (), limit: int = BATCH
    ) -> Iterator[Point]:
        """Yield points in the order of their ids, ``limit`` in a request."""
        offset: Any = None
        while True:
            page = {"scroll_filter": all_of(wanted), "limit": limit, "offset": offset}
            points, offset = self.ask("scroll", **page, **parts_of_points(columns, vectors))
            yield from points
            if offset is None:
                return

    def get(
        self, rows: Sequence[int], columns: Names | None, vectors: Names = ()
    ) -> dict[int, Point]:
        """Return the points that exist."""
        asked = parts_of_points(columns, vectors)
        points = (self.ask("retrieve", ids=[*part], **asked) for part in batches(rows))
        return {each.id: each for part in points for each in part}

    def count(self, wanted: Condition) -> int:
        return int(self.ask("count", count_filter=all_of(wanted), exact=True).count)

    def frequency(self, live: Condition, term: Term) -> int:
        return self.count(all_of(live, has(term.field, term.text)))

    def rows_of(self, live: Condition, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists."""
        scans = (self.scan(all_of(live, has("id", *part)), ["id"]) for part in batches(ids))
        return {each.payload["id"]: each.id for points in scans for each in points}

    def canaries(self, record: Record) -> Canaries:
        configuration = record.manifest.configuration
        given = [] if configuration.encoder is None else [has("source", 0)]
        random = models.SampleQuery(sample=models.Sample.RANDOM)
        wanted = {"query": random, "query_filter": all_of(record.live, but=given)}
        asked = parts_of_points(["id", "text"], ["vector"])
        points = self.ask("query_points", limit=CANDIDATES, **wanted, **asked).points
        ids, texts = ([each.payload[name] for each in points] for name in ("id", "text"))
        return Canaries(ids, texts, vectors_of(points, configuration.dim))

    def answers(self, wanted: Condition) -> list[tuple[str, bytes, bytes]]:
        """Return key, digest and answer of remembered answers, oldest first."""
        payloads = (each.payload for each in self.scan(wanted, ["key", "digest", "answer", "n"]))
        return [
            (each["key"], b64decode(each["digest"]), b64decode(each["answer"]))
            for each in sorted(payloads, key=lambda each: int(each["n"]))
        ]

    # The record

    def read_record(self) -> Record:
        """Read the record of the index that the alias names now."""
        points = self.call("retrieve", self.alias, ids=[RECORD])
        try:
            payload = dict(points[0].payload)
            killed = tuple((int(first), int(end)) for first, end in payload.pop("killed"))
            manifest = Manifest.decode(payload.pop("manifest").encode())
            return Record(manifest=manifest, killed=killed, **payload)
        except (IndexError, KeyError, TypeError, AttributeError) as error:
            raise InvalidFile("damaged: no record of a commit", file=self.where) from error

    def write_record(self, record: Record, before: Record) -> None:
        """Write the record, unless another one than ``before`` is there: read it to know."""
        only = all_of(has("session", before.session), has("stamp", before.stamp))
        ordering = models.WriteOrdering.STRONG
        self.ask("upsert", points=[record.point], update_filter=only, ordering=ordering)

    def open_session(self, before: Record) -> Record:
        """Become the only writer: an earlier one can no longer commit.

        Raises :class:`VocabtoolError` if ``before`` is not the newest record any more.
        """
        killed, session, writer = before.killed, before.session + 1, secrets.token_hex(8)
        if before.writer:  # one pair for all writers that were killed since the newest commit
            killed = (*{**dict(killed), before.stamp: session * STAMPS}.items(),)
        record = replace(before, session=session, writer=writer, killed=killed)
        self.write_record(record, before)
        if self.read_record().writer != writer:
            raise VocabtoolError(f"{self.where}: another writer was opened: try it again")
        return record

    def remove_killed(self, record: Record) -> None:
        """Remove what killed writers left. It does not count, so it may also stay."""
        if record.killed:
            left = [*record.left("added"), *record.left("answered")]
            self.ask("delete", points_selector=all_of(any_of(left)))
            marks = all_of(any_of(record.left("gone")))
            self.ask("delete_payload", keys=["gone"], points=marks)


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield parts for one request each."""
    return (items[at : at + BATCH] for at in range(0, len(items), BATCH))


def parts_of_points(columns: Names | None, vectors: Names) -> dict[str, Any]:
    """Say what is read of points. ``columns``: of the payload; ``None`` for all."""
    payload = True if columns is None else [*columns] or False
    return {"with_payload": payload, "with_vectors": [*vectors] or False}


def vectors_of(points: Sequence[Point | None], dim: int) -> Vectors:
    """Return the vectors of points, shape (n, dim); zeros where there is none."""
    vectors = np.zeros((len(points), dim), np.float32)
    for at, each in enumerate(points):
        if each is not None and "vector" in (each.vector or {}):
            vectors[at] = each.vector["vector"]
    return vectors
