"""Vector search as SQL: candidates from pgvector's index, ranked by their exact similarity.

A search in an index of pgvector misses some documents. So :func:`build_vectors` measures the recall
with synthetic queries, and chooses the fastest setting that reaches the wanted recall.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from vocabtool.choices import Metric
from vocabtool.encoders.encoder import Vectors
from vocabtool.index.folder import Configuration
from vocabtool.index.raw_vectors import (
    NEAREST,
    REMEASURED_SAMPLE,
    QuerySample,
    nearest_rows,
    queries_unlike_documents,
    recall_by_count,
)
from vocabtool.index.vector_codes import EASIER
from vocabtool.stores.database import HALF, Tables, change_tables, one_commit, version_numbers
from vocabtool.stores.keywords import TRUE, Part
from vocabtool.system.own_files import decode_record, encode_record
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    from psycopg import Connection

Method = Literal["exact", "hnsw", "ivfflat"]

FACTS: Final = "vector index"  # its name in the table of facts
KIND: Final = "a vector index in PostgreSQL"
VERSION: Final = 1
ADVICE: Final = "build the vector index again"
MAX_DIMENSIONS: Final = 2000  # of an index of single precision; of half precision twice as many
ITERATIVE: Final = (0, 8)  # the version of pgvector that goes on where a filter leaves too few
SETTINGS: Final[dict[Method, tuple[int, ...]]] = {
    "exact": (),
    "hnsw": (40, 64, 100, 200, 400, 700, 1000),
    "ivfflat": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
}
NAMES: Final[dict[Method, str]] = {"hnsw": "hnsw.ef_search", "ivfflat": "ivfflat.probes"}
BLOCK: Final = 10_000  # vectors fetched at a time
# Costs of a document in about the same unit: visited by a filtered index, or compared exactly.
VISITED: Final = 5


@dataclass(frozen=True, slots=True)
class VectorFacts:
    """How the vectors of an index were indexed, with the measurements made at that time.

    - ``setting``: the value of ``hnsw.ef_search`` or ``ivfflat.probes``.
    - ``recall``: the lowest recall@10 among the kinds of synthetic queries.
    - ``queries``: the number of synthetic queries.
    - ``documents``: the number of documents with a vector at that time.
    """

    method: Method
    setting: int
    recall_asked: float
    recall: float
    queries: int
    documents: int
    seconds: float

    @property
    def note(self) -> str | None:
        """A note for the user, or ``None`` if the recall is at least ``recall_asked``."""
        if self.recall >= self.recall_asked:
            return None
        return (
            f"vectors: recall@10 is {self.recall:.3f} with {NAMES[self.method]} = {self.setting},"
            f" {self.recall_asked:.3f} was asked for: build the other kind of index, or search"
            " exactly"
        )

    @classmethod
    def read(cls, connection: Connection, tables: Tables) -> VectorFacts | None:
        statement = tables.sql("SELECT value FROM {facts} WHERE name = %s")
        found = connection.execute(statement, [FACTS]).fetchone()
        return None if found is None else cls.decode(bytes(found[0]))

    def encode(self) -> bytes:
        return encode_record(self, kind=KIND, version=VERSION)

    @classmethod
    def decode(cls, data: bytes) -> VectorFacts:
        return decode_record(data, cls, kind=KIND, version=VERSION, advice=ADVICE)


@dataclass(frozen=True, slots=True)
class VectorSql:
    """Makes SQL for the vectors of an index. ``version``: the version of pgvector."""

    tables: Tables
    metric: Metric
    dim: int
    is_half: bool
    version: tuple[int, ...]

    @classmethod
    def of(cls, connection: Connection, tables: Tables, held: Configuration) -> VectorSql:
        statement = (
            "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
            " (SELECT atttypid::regtype::text LIKE '%%halfvec' FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attname = 'vector')"
        )
        found = connection.execute(statement, [f"documents_{tables.number:d}"]).fetchone()
        version, is_half = found or ("", False)
        return cls(tables, held.metric, held.dim, bool(is_half), version_numbers(version))

    @property
    def documents(self) -> str:
        return f"documents_{self.tables.number}"

    @property
    def _index_column(self) -> tuple[str, str] | None:
        """The indexed expression and its type, or ``None`` if pgvector cannot index the vectors."""
        if self.is_half and self.dim <= 2 * MAX_DIMENSIONS:
            return "vector", "halfvec"
        if not self.is_half and self.dim <= MAX_DIMENSIONS:
            return "vector", "vector"
        if not self.is_half and self.version >= HALF and self.dim <= 2 * MAX_DIMENSIONS:
            return f"(vector::halfvec({self.dim:d}))", "halfvec"
        return None

    def create(self, method: Method, lists: int) -> str | None:
        """Return a statement that builds an index, or ``None`` if the vectors cannot be indexed."""
        if (indexed := self._index_column) is None or method == "exact":
            return None
        what, type_ = indexed
        kind = "l2" if self.metric == "l2" else "ip"
        given = f" WITH (lists = {lists:d})" if method == "ivfflat" else ""
        return (
            f"CREATE INDEX vectors_{self.tables.number:d}_new ON {self.documents} USING {method}"
            f" ({what} {type_}_{kind}_ops){given}"
        )

    def similarity(self, vector: str) -> Part:
        """Return SQL for the exact similarity of ``d.vector`` to a float32 vector."""
        if self.metric == "l2":
            return Part("(-vector_l2_squared_distance(d.vector::vector, %s::vector))", (vector,))
        return Part("inner_product(d.vector::vector, %s::vector)", (vector,))

    def near(
        self, vector: str, limit: int, among: Part, facts: VectorFacts | None, rows: int
    ) -> Part:
        """Return a statement that selects ``doc`` and ``similarity`` of the nearest documents.

        - ``among``: a condition on the documents.
        - ``facts``: the facts about the index of vectors, or ``None`` to compare all documents.
        - ``rows``: the number of documents.
        """
        source = f" AS similarity FROM {self.documents} d WHERE d.vector IS NOT NULL AND "
        best = Part(" ORDER BY similarity DESC, doc LIMIT %s", (limit,))
        start = Part("SELECT d.doc, ").then(self.similarity(vector), "::float4")
        indexed = self._index_column
        if facts is None or facts.method == "exact" or indexed is None:
            return start.then(source, among, best)
        count = max(limit, facts.setting) if facts.method == "hnsw" else 2 * limit
        what, type_ = indexed
        distance = "<->" if self.metric == "l2" else "<#>"
        nearest = f" ORDER BY {what} {distance} %s::{type_}({self.dim:d}) LIMIT %s"
        one = Part(f"SELECT doc, vector FROM {self.documents} d WHERE d.vector IS NOT NULL AND ")
        if among == TRUE:
            # Rounding moves few: rows that are not fetched cost nothing.
            order = Part(nearest, (vector, 2 * limit))
            return start.then(" AS similarity FROM (", one, among, order, ") d", best)
        order = Part(nearest, (vector, count))
        few = math.isqrt(VISITED * count * max(rows, 1))
        allowed = Part(
            f"WITH allowed AS MATERIALIZED (SELECT d.doc FROM {self.documents} d WHERE "
        ).then(among, Part(" LIMIT %s)", (few + 1,)))
        allowed = allowed.then(
            Part(", few AS MATERIALIZED (SELECT count(*) <= %s AS it FROM allowed) ", (few,))
        )
        exactly = start.then(source, "(SELECT it FROM few) AND d.doc IN (SELECT doc FROM allowed)")
        by_index = start.then(
            " AS similarity FROM (", one, "NOT (SELECT it FROM few) AND ", among, order, ") d"
        )
        return allowed.then("SELECT * FROM ((", exactly, ") UNION ALL (", by_index, ")) n", best)

    def settings(self, facts: VectorFacts | None, limit: int) -> list[str]:
        """Return settings for a search of the index, as ``name = value`` for SET or SET LOCAL."""
        if facts is None or facts.method == "exact":
            return []
        setting = facts.setting
        if facts.method == "hnsw":
            setting = min(max(setting, limit), SETTINGS["hnsw"][-1])
        made = [f"{NAMES[facts.method]} = {setting:d}"]
        if self.version >= ITERATIVE:
            made.append(f"{facts.method}.iterative_scan = relaxed_order")
        return made


def as_text(vector: NDArray[Any]) -> str:
    """Return a float32 vector in the syntax of pgvector, without rounding."""
    single = np.ascontiguousarray(vector, np.float32)
    return orjson.dumps(single, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def from_bytes(sent: Sequence[bytes | None], dim: int) -> Vectors:
    """Make vectors, shape (n, dim), from the results of ``vector_send``. ``None`` becomes zeros."""
    found = np.zeros((len(sent), dim), np.float32)
    for place, data in enumerate(sent):
        if data is not None:
            found[place] = np.frombuffer(data, ">f4", dim, offset=4)
    return found


@dataclass(frozen=True, slots=True)
class AllVectors:
    """The vectors of all documents, in the order of the document numbers ``docs``."""

    connection: Connection
    sql: VectorSql
    docs: Rows

    @classmethod
    def of(cls, connection: Connection, sql: VectorSql) -> AllVectors:
        statement = f"SELECT doc FROM {sql.documents} d WHERE d.vector IS NOT NULL ORDER BY 1"
        docs = np.array([doc for (doc,) in _rows(connection, statement)], np.int64)
        return cls(connection, sql, docs)

    @property
    def count(self) -> int:
        return len(self.docs)

    def read_rows(self, places: Rows) -> Vectors:
        statement = (
            f"SELECT vector_send(vector::vector) FROM {self.sql.documents}"
            " WHERE doc = ANY(%s) ORDER BY doc"
        )
        sent = _rows(self.connection, statement, self.docs[places].tolist())
        return from_bytes([each for (each,) in sent], self.sql.dim)

    def blocks(self) -> Iterator[tuple[int, Vectors]]:
        statement = (
            f"SELECT doc, vector_send(vector::vector) FROM {self.sql.documents} d"
            f" WHERE d.vector IS NOT NULL AND doc > %s ORDER BY doc LIMIT %s"
        )
        last, first = -1, 0
        while found := _rows(self.connection, statement, last, BLOCK):
            yield first, from_bytes([sent for _, sent in found], self.sql.dim)
            last, first = found[-1][0], first + len(found)


def build_vectors(
    connection: Connection,
    sql: VectorSql,
    *,
    recall: float = 0.95,
    method: Method = "hnsw",
    seed: int = 0,
) -> VectorFacts:
    """Index the vectors, measure recall@10, and record the fastest setting that is good enough.

    Synthetic queries are easier than real queries, so a setting is good enough if its recall@10 is
    at least ``(1 + recall) / 2``. If no setting is, the setting with the best recall is recorded;
    see :attr:`VectorFacts.note`.
    """
    from psycopg.sql import Identifier

    began = perf_counter()
    where = f"FROM {sql.documents} d WHERE d.vector IS NOT NULL"
    ((count,),) = _rows(connection, f"SELECT count(*) {where}")
    lists = max(1, math.isqrt(count))
    statement = sql.create(method, lists)
    if statement is None or not count:
        facts = VectorFacts("exact", 0, recall, 1.0, 0, count, 0.0)
    else:
        n = sql.tables.number
        own = f"{Identifier(sql.tables.schema).as_string(connection)}.vectors_{n:d}"
        old = f"DELETE FROM facts_{n:d} WHERE name = '{FACTS}'"  # searches are exact meanwhile
        _alter(connection, f"DROP INDEX IF EXISTS {own}_new")  # of a killed process
        _alter(connection, statement, old)
        swap = f"ALTER INDEX {own}_new RENAME TO vectors_{n:d}"
        _alter(connection, f"DROP INDEX IF EXISTS {own}", swap)
        with one_commit(connection):
            fetched: Any = AllVectors.of(connection, sql)
            docs = fetched.docs
            random = np.random.default_rng(seed)
            size = min(REMEASURED_SAMPLE, fetched.count)
            places = np.sort(random.choice(fetched.count, size, replace=False, shuffle=False))
            kinds = queries_unlike_documents(fetched.read_rows(places), places, sql.metric, random)
            wanted = 1 - (1 - recall) / EASIER
            truths = [nearest_rows(fetched, kind, sql.metric) for kind in kinds]
            best = (0, -1.0)
            steps = [step for step in SETTINGS[method] if method == "hnsw" or step < lists]
            for setting in [*steps, *([lists] if method == "ivfflat" else [])]:
                trial = VectorFacts(method, setting, recall, 1.0, 0, count, 0.0)
                measured = [
                    recall_by_count(truth, _find(connection, sql, trial, kind, docs), [NEAREST])[0]
                    for kind, truth in zip(kinds, truths, strict=True)
                ]
                found = (setting, round(min(mean for mean, _ in measured), 4))
                best = max(best, found, key=itemgetter(1))
                if min(mean - error for mean, error in measured) >= wanted:
                    best = found
                    break
        asked = sum(len(queries) for queries, _ in kinds)
        seconds = round(perf_counter() - began, 3)
        facts = VectorFacts(method, best[0], recall, best[1], asked, count, seconds)
    add = f"INSERT INTO facts_{sql.tables.number:d} VALUES (%s, %s) ON CONFLICT (name) DO UPDATE"
    _do(connection, f"{add} SET value = excluded.value", FACTS, facts.encode())
    return facts


def _find(
    connection: Connection, sql: VectorSql, facts: VectorFacts, kind: QuerySample, docs: Rows
) -> Rows:
    queries, own_rows = kind
    found = np.full((len(queries), NEAREST), -1)
    with connection.transaction():
        for setting in sql.settings(facts, NEAREST + 1):
            _do(connection, f"SET LOCAL {setting}")
        for place, (query, own) in enumerate(zip(queries, own_rows.tolist(), strict=True)):
            part = sql.near(as_text(query), NEAREST + 1, TRUE, facts, len(docs))
            near = [doc for doc, _ in _rows(connection, part.text, *part.values)]
            rows = np.searchsorted(docs, near)
            rows = rows[rows != own][:NEAREST]  # as in the truth
            found[place, : len(rows)] = rows
    return found


def _rows(connection: Connection, statement: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(statement.encode(), values or None, binary=True).fetchall()


def _alter(connection: Connection, *statements: str) -> None:
    def alter() -> None:
        for statement in statements:
            _do(connection, statement)

    change_tables(connection, alter)


def _do(connection: Connection, statement: str, *values: object) -> None:
    connection.execute(statement.encode(), values or None)
