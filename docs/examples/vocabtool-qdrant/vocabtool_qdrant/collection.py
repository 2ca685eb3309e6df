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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Final, NamedTuple

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.index.canaries import CANDIDATES, Canaries
from vocabtool.index.folder import Manifest
from vocabtool_qdrant.filters import Condition, all_of, any_of, between, has

BATCH: Final = 500  # points in a request
RECORD: Final = 0  # the id of its point
STAMPS: Final = 1 << 20  # commits of one writer
ONE_AT_A_TIME: Final = RLock()  # in local mode, which is not made for threads


class Point(NamedTuple):
    """``vectors``: ``vector``, a list of numbers, unless there is none; ``terms``, sparse."""

    row: Any
    payload: dict[str, Any]
    vectors: dict[str, Any]

    @classmethod
    def of(cls, found: Any) -> Point:
        return cls(found.id, found.payload or {}, found.vector or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A commit.

    - ``session``: how many writers were opened so far. ``stamp``: of the commit.
    - ``writer``: who may commit next; empty after its end. Otherwise it is open, or was killed.
    - ``killed``: stamps that never count, above the first and below the second of each pair.
    - ``mean``: the smallest mean length of texts by which terms were weighted.
    """

    manifest: Manifest
    session: int = 0
    stamp: int = 0
    writer: str = ""
    killed: tuple[tuple[int, int], ...] = ()
    mean: float = 1e18

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
        gone = self.changed("gone") if self.killed else between("gone", lte=self.stamp)
        return all_of(self.changed("added"), but=[gone])

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
            if not self.is_local:
                return getattr(self.client, method)(*given, **named)
            with ONE_AT_A_TIME:
                return getattr(self.client, method)(*given, **named)
        except (ApiException, ResponseHandlingException, ValueError, RuntimeError) as error:
            what = " ".join(str(error).split())[:300]
            raise VocabtoolError(f"{self.where}: Qdrant failed: {what}") from error

    def scan(
        self, wanted: Condition, columns: Sequence[str] = (), *, vectors: bool = False
    ) -> Iterator[Point]:
        """Yield points with ``columns`` of their payload, in the order of their ids."""
        asked: dict[str, Any] = {"with_payload": [*columns] or False, "with_vectors": vectors}
        more: Any = None
        while True:
            page = {"scroll_filter": all_of(wanted), "limit": BATCH, "offset": more}
            found, more = self.ask("scroll", **page, **asked)
            yield from map(Point.of, found)
            if more is None:
                return

    def get(
        self, rows: Sequence[int], columns: Sequence[str] | None, vectors: Sequence[str] = ()
    ) -> dict[int, Point]:
        """Return the points that exist. ``columns``: of the payload; ``None`` for all."""
        payload = True if columns is None else [*columns] or False
        asked: dict[str, Any] = {"with_payload": payload, "with_vectors": [*vectors] or False}
        found: dict[int, Point] = {}
        for start in range(0, len(rows), BATCH):
            part = self.ask("retrieve", ids=[*rows[start : start + BATCH]], **asked)
            found |= {each.id: Point.of(each) for each in part}
        return found

    def count(self, wanted: Condition) -> int:
        return int(self.ask("count", count_filter=all_of(wanted), exact=True).count)

    def rows_of(self, live: Condition, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists."""
        found: dict[str, int] = {}
        for start in range(0, len(ids), BATCH):
            wanted = all_of(live, has("id", *ids[start : start + BATCH]))
            found |= {each.payload["id"]: each.row for each in self.scan(wanted, ["id"])}
        return found

    def canaries(self, record: Record) -> Canaries:
        held = record.manifest.configuration
        given = [] if held.encoder is None else [has("source", 0)]
        random = models.SampleQuery(sample=models.Sample.RANDOM)
        wanted = {"query": random, "query_filter": all_of(record.live, but=given)}
        asked = {"limit": CANDIDATES, "with_payload": ["id", "text"], "with_vectors": True}
        found = [*map(Point.of, self.ask("query_points", **wanted, **asked).points)]
        ids, texts = ([each.payload[name] for each in found] for name in ("id", "text"))
        return Canaries(ids, texts, vectors_of(found, held.dim))

    # The record

    def read_record(self) -> Record:
        """Read the record of the index that the alias names now."""
        found = self.call("retrieve", self.alias, ids=[RECORD])
        try:
            held = dict(found[0].payload)
            killed = tuple((int(first), int(end)) for first, end in held.pop("killed"))
            manifest = Manifest.decode(held.pop("manifest").encode())
            return Record(manifest=manifest, killed=killed, **held)
        except (IndexError, KeyError, TypeError, AttributeError) as error:
            raise InvalidFile("damaged: no record of a commit", file=self.where) from error

    def write_record(self, record: Record, before: Record) -> Record:
        """Write the record, unless another one than ``before`` is there; return the one there."""
        only = all_of(has("session", before.session), has("stamp", before.stamp))
        ordering = models.WriteOrdering.STRONG
        self.ask("upsert", points=[record.point], update_filter=only, ordering=ordering)
        return self.read_record()

    def open_session(self) -> Record:
        """Become the only writer: an earlier one can no longer commit."""
        held = self.read_record()
        killed, first = held.killed, held.session * STAMPS
        if held.writer:
            killed += ((max(held.stamp, first), first + STAMPS),)
        session, writer = held.session + 1, secrets.token_hex(8)
        record = replace(held, session=session, writer=writer, killed=killed)
        if self.write_record(record, held).writer != writer:
            raise VocabtoolError(f"{self.where}: another writer was opened: try it again")
        return record

    def remove_killed(self, record: Record) -> None:
        """Remove what killed writers left. It does not count, so it may also stay."""
        if record.killed:
            left = [*record.left("added"), *record.left("answered")]
            self.ask("delete", points_selector=all_of(any_of(left)))
            marks = all_of(any_of(record.left("gone")))
            self.ask("delete_payload", keys=["gone"], points=marks)


def vectors_of(points: Sequence[Point], dim: int) -> Vectors:
    """Return the vectors of points, shape (n, dim); zeros where there is none."""
    found = np.zeros((len(points), dim), np.float32)
    for at, each in enumerate(points):
        if (vector := each.vectors.get("vector")) is not None:
            found[at] = vector
    return found
