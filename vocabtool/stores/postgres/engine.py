"""An index in PostgreSQL with pgvector. Its address has this form:

    postgresql://USER:PASSWORD@HOST:PORT/DATABASE?index=NAME&schema=SCHEMA&sslmode=verify-full

``index`` is the name of the index. ``schema`` is the name of the schema with vocabtool's tables
(default: vocabtool). All other parameters are passed to libpq, which also reads PGPASSWORD,
PGPASSFILE and other environment variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, LiteralString
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import numpy as np
import orjson

from vocabtool.choices import StoredType
from vocabtool.encoders.encoder import Encoder
from vocabtool.errors import InvalidFile, NotFound, OtherModel, VocabtoolError
from vocabtool.index.commit_store import Contents, StoredRows
from vocabtool.index.engines import UserTable
from vocabtool.index.folder import Chance, Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.model import Canaries, IndexModel, compare_canaries
from vocabtool.index.raw_vectors import as_stored
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.conditions import Where
from vocabtool.stores.postgres.connection import (
    WAIT_SECONDS,
    Connections,
    one_commit,
)
from vocabtool.stores.postgres.documents import DocumentColumns
from vocabtool.stores.postgres.keywords import TRUE
from vocabtool.stores.postgres.reader import PostgresStore
from vocabtool.stores.postgres.record import change_record
from vocabtool.stores.postgres.recount import recount
from vocabtool.stores.postgres.schema import (
    LOCK,
    MAX_NAME,
    SCHEMA,
    TABLES,
    VECTORS,
    Tables,
    create_index,
    drop_index,
    find_index,
    lock_of,
    read_manifest,
    replace_index,
    until_free,
    vacuum,
)
from vocabtool.stores.postgres.user_table import (
    NOTING,
    TABLE,
    TRIGGERS,
    UpdateCounts,
    attach,
    find_table,
    sample_of,
)
from vocabtool.stores.postgres.vectors import (
    FACTS,
    VectorFacts,
    VectorSql,
    build_vectors,
    chance_similarity,
)
from vocabtool.stores.postgres.writer import PostgresWriter, canaries_of
from vocabtool.system.ranking import Rows

if TYPE_CHECKING:
    from psycopg import Connection

BUILD: Final = ".new"  # ends the name of an index that will replace another one
OF_KEYWORDS: Final = ("postings", "terms", "counts")
BUFFER_SHARE: Final = 4  # of the memory for building, for documents that wait for the commit
COPIED_ROWS: Final = (16, 4096)  # fetched at a time, for a copy
COPIED_BYTES: Final = 4 << 20  # of their texts
NO_ADDRESS: Final = (
    "not a PostgreSQL address: wanted postgresql://USER:PASSWORD@HOST:PORT/DATABASE?index=NAME,"
    " with %-escapes"
)
OUTGROWN: Final = 4  # measured again when there are this many times the documents


class PostgresEngine:
    """One index in a database. Threads may share an object."""

    exact_below = 5_000  # to compare a vector of 256 numbers takes about a microsecond

    def __init__(self, connections: Connections, index: str, tables: Tables) -> None:
        self.connections, self.tables = connections, tables
        self._index, self.is_build = index.removesuffix(BUILD), index.endswith(BUILD)
        sign = "&" if "?" in connections.where else "?"
        self.name = f"{connections.where}{sign}index={quote(self._index)}"

    @classmethod
    def create(
        cls, address: str, manifest: Manifest, files: Mapping[str, bytes], *, replaces: bool
    ) -> PostgresEngine:
        return cls._create(address, manifest, files, replaces=replaces)

    @classmethod
    def shape_of(cls, address: str, table: UserTable) -> tuple[int, StoredType]:
        connections, _ = _parse(address)
        with connections.translate_errors(), connections.connect() as connection:
            found = find_table(connection, table, connections.where)
        return found.dim, found.dtype

    @classmethod
    def create_for_table(
        cls,
        address: str,
        manifest: Manifest,
        files: Mapping[str, bytes],
        table: UserTable,
        encoder: Encoder | None,
        *,
        replaces: bool,
    ) -> PostgresEngine:
        connections, _ = _parse(address)
        where, metric = connections.where, manifest.configuration.metric
        with connections.translate_errors(), connections.connect() as connection:
            found = find_table(connection, table, where)
            if encoder is not None:
                sample = sample_of(connection, table, found, metric)
                if encoder.dim != found.dim:
                    what = f"it makes vectors of {encoder.dim:,} numbers, not of {found.dim:,}"
                    raise OtherModel(where, "model", "", encoder.fingerprint, advice=what)
                compare_canaries(where, sample, encoder, metric)
        made = replace(manifest, fields=found.fields)
        own = partial(attach, table=table, found=found)
        return cls._create(address, made, files, own, replaces=replaces)

    @classmethod
    def _create(
        cls,
        address: str,
        manifest: Manifest,
        files: Mapping[str, bytes],
        attached: Callable[[Connection, Tables], None] | None = None,
        *,
        replaces: bool,
    ) -> PostgresEngine:
        """Create an index. ``attached``: called in the same transaction, to attach a table."""
        from psycopg import IsolationLevel

        connections, index = _parse(address)
        schema, where, of_user = connections.schema, connections.where, attached is not None

        @until_free
        def create(connection: Connection) -> Tables:
            with connection.transaction():
                tables = create_index(
                    connection, schema, index, manifest, where, files=files, of_user=of_user
                )
                if attached is not None:
                    attached(connection, tables)
            return tables

        with connections.translate_errors(), connections.connect() as connection:
            if replaces:
                index += BUILD
                with suppress(NotFound):
                    old = find_index(connection, schema, index, where)
                    drop_index(connection, old, index)
            # So that what was committed while this waited for locks is seen.
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            return cls(connections, index, create(connection))

    @classmethod
    def open(cls, address: str, ending: str = "") -> PostgresEngine:
        connections, index = _parse(address)
        index, schema, where = index + ending, connections.schema, connections.where
        tables = connections.read(lambda held: find_index(held, schema, index, where))
        return cls(connections, index, tables)

    @classmethod
    def open_to_remove(cls, address: str) -> list[PostgresEngine]:
        found = []
        for ending in (BUILD, ""):
            with suppress(NotFound):
                found.append(cls.open(address, ending))
        return found or [cls.open(address)]

    def manifest(self) -> Manifest:
        where = self.connections.where
        return self.connections.read(lambda held: read_manifest(held, self.tables, where))

    def model_file(self, name: str) -> bytes:
        found = self._ask("SELECT value FROM {facts} WHERE name = %s", name)
        if not found:
            raise InvalidFile(f"damaged: the model's file {name} is missing", file=self.name)
        return bytes(found[0][0])

    def snapshot(self, model: IndexModel, cutter: Cutter) -> PostgresCommit:
        return PostgresCommit(self.connections, self.tables, model, cutter)

    def writer(self, cutter: Cutter, memory: int | None) -> PostgresWriter:
        buffer: dict[str, int] = {} if memory is None else {"buffer_bytes": memory // BUFFER_SHARE}
        return PostgresWriter(
            self.connections, self.tables, cutter, index_vectors=self.index_vectors, **buffer
        )

    def count_waiting(self) -> int | None:
        asked = "SELECT count(*) FROM {changes} HAVING (" + TRIGGERS + ") = %s"
        noted_by = f"note_{self.tables.number}"
        found = self._ask(asked, self.tables.schema, noted_by, len(NOTING))
        return int(found[0][0]) if found else None

    def update_table(
        self, cutter: Cutter, commit_rows: int, progress: Progress | None
    ) -> tuple[int, int, int, tuple[str, ...]]:
        done, total = UpdateCounts(0, 0, 0, 0), self.count_waiting()
        with closing(self.writer(cutter, None)) as writer:
            while (part := writer.update_part(commit_rows)) is not None:
                done = UpdateCounts(*(sum(each) for each in zip(done, part, strict=True)))
                if progress is not None:
                    progress(f"{done.noted:,} changes", min(done.noted / max(total or 0, 1), 1.0))
            notes: tuple[str, ...] = ()
            try:
                writer.tidy(progress)
            except VocabtoolError as error:
                notes = (str(error),)
        return done.added, done.updated, done.removed, notes

    @cached_property
    def table(self) -> UserTable | None:
        if not self.tables.of_user:
            return None
        found = self._ask("SELECT value FROM {facts} WHERE name = %s", TABLE)
        try:
            return UserTable(**orjson.loads(bytes(found[0][0])))
        except (IndexError, TypeError, ValueError) as error:
            raise InvalidFile(
                "damaged: the description of your table cannot be read", file=self.name
            ) from error

    def close(self) -> None:
        self.connections.close()

    def put_in_place(self) -> None:
        with self.connections.translate_errors(), self.connections.connect() as connection:
            replace_index(connection, self.tables, self._index)
        self.is_build = False

    def compact(self, progress: Progress | None) -> int:
        """Vacuum the tables and index the vectors again.

        Returns 0, because the tables contain no deleted documents.
        """
        with self.connections.translate_errors(), self.connections.connect() as connection:
            vacuum(connection, self.tables, progress)
        self.index_vectors(progress, again=True)
        return 0

    def verify(self, progress: Progress | None) -> VerifyReport:
        if progress is not None:
            progress("statistics recounted", 0.0)
        with self.connections.translate_errors(), self.connections.connect() as connection:
            differences = recount(connection, self.tables)
        if differences:
            raise InvalidFile(f"damaged: {'; '.join(differences)}", file=self.name)
        manifest, facts = self.manifest(), self.vector_facts()
        load = manifest.load
        return VerifyReport(
            documents=manifest.live,
            deleted=0,
            commit=manifest.commit,
            recall=1.0 if facts is None else facts.recall,
            approximate=facts is not None and facts.method != "exact",
            loading=load is not None and not load.finished,
            others=(),
        )

    def sizes(self) -> Mapping[str, int]:
        from psycopg.sql import SQL

        statement = (
            "SELECT c.relname::text, pg_total_relation_size(c.oid),"
            " coalesce((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE"
            " i.indrelid = c.oid"
            " AND i.indexrelid = to_regclass(format('%%I.%%I', %s::text, %s::text))), 0)"
            " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = ANY(%s)"
        )
        n, schema = self.tables.number, self.connections.schema
        names = [f"{table}_{n}" for table in (*TABLES, "rows", "changes")]
        asked = [schema, f"vectors_{n}", schema, names]
        found = dict.fromkeys(("documents", "keywords", "codes", "other"), 0)
        for name, size, of_vectors in self.connections.fetch(SQL(statement).format(), asked):
            table = name.rpartition("_")[0].replace("rows", "documents")
            purpose = "keywords" if table in OF_KEYWORDS else table if table in found else "other"
            found[purpose] += int(size) - int(of_vectors)
            found["codes"] += int(of_vectors)
        return found

    def remove(self, *, if_empty: bool = False) -> bool:
        schema, where = self.connections.schema, self.connections.where
        with self.connections.translate_errors(), self.connections.connect() as connection:
            if not if_empty:
                with suppress(NotFound):  # perhaps what a killed process left, with its triggers
                    unfinished = find_index(connection, schema, self._index + BUILD, where)
                    drop_index(connection, unfinished, self._index + BUILD)
                if self.is_build:  # dropped, or in its place already: the answer was lost
                    return True
            name = self._index + BUILD * self.is_build
            return drop_index(connection, self.tables, name, if_empty=if_empty)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for the user if the index of vectors does not reach the wanted recall."""
        facts = self.vector_facts()
        return (facts.note,) if facts is not None and facts.note is not None else ()

    def vector_facts(self) -> VectorFacts | None:
        found = self._ask("SELECT value FROM {facts} WHERE name = %s", FACTS)
        return VectorFacts.decode(bytes(found[0][0])) if found else None

    def index_vectors(self, progress: Progress | None, *, again: bool = False) -> None:
        """Index the vectors and measure the recall, if there are many documents, and many are new.

        ``again``: do not require that many documents are new.

        Only one process at a time does this. Other processes wait, and do not repeat the work.
        """
        if not any(self._due(again)):
            return
        with self.connections.translate_errors(), self.connections.connect() as connection:
            mine = [LOCK, lock_of(self.tables.number, VECTORS)]  # until the connection is closed
            connection.execute("SELECT pg_advisory_lock(%s, %s)", mine)
            of_chance, of_index = self._due(again)
            held = self.manifest().configuration
            cutter = Cutter(held.language)
            sql = PostgresStore(self.connections, self.tables, None, cutter).vector_sql
            if of_chance:
                self._measure_chance(connection, sql)
            if of_index:
                if progress is not None:
                    progress("building the index of vectors", 0.0)
                self._build(connection, sql, held.recall)

    def _due(self, again: bool) -> tuple[bool, bool]:
        """Return whether to measure the similarity of unrelated vectors, and whether to index."""
        manifest, facts = self.manifest(), self.vector_facts()
        rows, chance = manifest.rows, manifest.chance
        of_index = rows > manifest.configuration.exact_below and (
            facts is None or rows >= OUTGROWN * facts.documents or again
        )
        return rows > 0 and (chance is None or rows >= 2 * chance.rows), of_index

    def _measure_chance(self, connection: Connection, sql: VectorSql) -> None:
        found = chance_similarity(connection, sql)
        if found is not None:

            def change(held: Manifest) -> Manifest:
                return replace(held, chance=Chance(similarity=found, rows=held.rows))

            until_free(change_record)(connection, self.tables, self.connections.where, change)

    def _build(self, connection: Connection, sql: VectorSql, recall: float) -> None:
        # On hard queries HNSW misses documents whatever its setting; then IVFFlat may reach them.
        found = build_vectors(connection, sql, recall=recall)
        if found.note is not None:
            other = build_vectors(connection, sql, recall=recall, method="ivfflat")
            if other.recall < found.recall:
                build_vectors(connection, sql, recall=recall)

    def _ask(self, statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        return self.connections.fetch(self.tables.sql(statement), values)


class PostgresCommit(PostgresStore):
    """The newest commit of an index, with methods to search it and to read its contents."""

    model: IndexModel
    number = 0

    def rows_in_order(self, where: str | None = None) -> Rows:
        selection = TRUE if where is None else self.select([Where.of(where)])
        (found,) = self._ask(self._docs(selection).then(" ORDER BY d.doc"))
        return np.array([doc for (doc,) in found], np.int64)

    def canaries(self) -> Canaries:
        return self.connections.read(
            lambda connection: canaries_of(connection, self.tables, self.manifest)
        )

    @contextmanager
    def at_one_commit(self) -> Iterator[PostgresCommit]:
        connections = self.connections
        with (
            connections.translate_errors(),
            connections.connect(WAIT_SECONDS) as connection,
            one_commit(connection),
        ):
            own = (connections, self.tables, self.model, self.cutter)
            yield PostgresCommit(*own, connection=connection)

    @contextmanager
    def contents(self) -> Iterator[Contents]:
        with (
            self.connections.translate_errors(),
            self.connections.connect() as connection,
            one_commit(connection),
        ):
            manifest = read_manifest(connection, self.tables, self.connections.where)
            statement = "SELECT key, digest, answer FROM {answers} ORDER BY number"
            answers = connection.execute(self.tables.sql(statement)).fetchall()
            yield Contents(manifest, answers, self._stored_rows(connection, manifest))

    def _stored_rows(self, connection: Connection, manifest: Manifest) -> Iterator[StoredRows]:
        columns = DocumentColumns.of(manifest.fields)
        statement = (
            f"SELECT d.source, vector_send(d.vector::vector), d.id, {', '.join(columns.names)}"
            f" FROM documents_{self.tables.number:d} d ORDER BY d.doc"
        )
        step, dtype = COPIED_ROWS[0], manifest.configuration.dtype
        with connection.cursor("contents") as cursor:
            cursor.execute(statement.encode())
            while found := cursor.fetchmany(step):
                sources, sent = ([row[at] for row in found] for at in (0, 1))
                documents = [columns.document(*row[2:]) for row in found]
                vectors = as_stored(self.vector_sql.vectors(sent), dtype).astype(np.float32)
                yield StoredRows(documents, sources, vectors)
                size = sum(len(each.text) for each in documents)
                step = sorted((*COPIED_ROWS, len(found) * COPIED_BYTES // max(size, 1)))[1]


def _parse(address: str) -> tuple[Connections, str]:
    """Return the connections and the index name for an address, or raise an error."""
    try:
        parts = urlsplit(address)
    except ValueError:  # its message may quote the password
        raise VocabtoolError(NO_ADDRESS) from None
    given = [each.partition("=") for each in parts.query.split("&") if each]
    own = {name: unquote(text) for name, _, text in given if name in ("index", "schema")}
    others = "&".join("".join(each) for each in given if each[0] not in own)
    index = own.get("index", "")
    if (
        not 0 < len(index) <= MAX_NAME - len(BUILD)
        or not index.isprintable()
        or index.endswith(BUILD)
    ):
        wanted = f"1 to {MAX_NAME - len(BUILD)} printable characters that do not end in {BUILD!r}"
        raise VocabtoolError(
            f"the address needs index=NAME; NAME must be {wanted}, got {index[:50]!r}. For "
            "example: postgresql://user@host/database?index=articles"
        )
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, others, ""))
    return Connections(conninfo, schema=own.get("schema", SCHEMA)), index
