"""The tables of the indexes in a PostgreSQL database, and how they are created and migrated.

    version          number                       the version of this layout
    indexes          number, name, record         record: the manifest, except the parts that
                                                  commits change

The index with the number N has these tables:

    documents_N      doc                          the row number, from a sequence; never reused
                     key                          BLAKE2b-128 of the id (ids can be 32 KB long)
                     id, text, source, text_hash  as in index/database.py
                     words, surfaces              number of terms
                     sequence                     numbers of the terms of the field "words", in the
                                                  order of the text: " 12 15 9 "; no phrase
                                                  continues across a " | "
                     identifiers                  distinct terms of the field "surfaces"
                     vector                       halfvec or vector; null if it is zero
                     field_0, field_1, ...        values, with companions: see condition_sql.py.
                                                  A field with only nulls has no column
    terms_N          term, field, text            field: w or s. Terms are never removed
    postings_N       term, doc,                   length: the number of words of the document, as
                     frequency, length            keywords/bm25.py rounds it
    counts_N         term, slot, documents        the document frequency of each term
    totals_N         slot, documents, words,      the statistics of the index. Each commit adds 1
                     surfaces, commits            to "commits" of one slot
    commits_N        token, time                  the tokens of recent commits: see writer.py
    loads_N          plan, documents, finished, synced, time
    shards_N         plan, shard, documents       shards of `embed` that are loaded
    answers_N        number, key, digest, answer  answers to requests with a key
    facts_N          name, value                  value: a part of the model, or measurements

``counts_N`` has a row for each term and slot, and ``totals_N`` has a row for each slot. A statistic
is the sum over all slots. A writer locks one slot and changes only its rows, so writers do not wait
for each other.

If an index is made from a table of the user (``user_table.py``), its table of documents is
``rows_N``, and ``documents_N`` is a view that takes texts and vectors from the user's table.

No text of a user becomes SQL: names of indexes and fields are values in these tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar
from uuid import UUID

from vocabtool.documents.batch import Kind
from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, VocabtoolError, reading
from vocabtool.index.folder import Load, Manifest
from vocabtool.index.generation import Progress
from vocabtool.stores.postgres.condition_sql import OWN_COLUMNS, columns_of, indexes_of

if TYPE_CHECKING:
    from typing import LiteralString

    from psycopg import Connection
    from psycopg.sql import Composable, Composed

VERSION: Final = 1
SCHEMA: Final = "vocabtool"
MAX_NAME: Final = 200  # characters of the name of an index
MAX_TERM_BYTES: Final = 1000  # a B-tree takes 2,704
SHOWN_TERM: Final = 200  # characters of a longer term that are stored
MIN_SERVER: Final = 140000
HALF: Final = (0, 7)  # the version of pgvector that brings half precision
MAX_DIMENSIONS: Final = 16_000  # of pgvector

FIRST_PAUSE: Final = 0.05  # seconds before another try; each pause is twice the one before
LAST_PAUSE: Final = 2.0
TABLE_WAIT: Final = "200ms"
TABLE_TRIES: Final = 60  # about two minutes
SLOTS: Final = 16
LOCK: Final = 0x766F6361  # the first of two numbers of our advisory locks; the other says which
SCHEMA_LOCK: Final = 0
# Of index N, from N * LOCKS: its slots; the lock that all writers share, alone to change columns;
# the lock to index its vectors.
LOCKS: Final = SLOTS + 2
VECTORS: Final = SLOTS + 1

TABLES: Final = (
    *("documents", "terms", "postings", "counts", "totals"),
    *("commits", "loads", "shards", "answers", "facts"),
)
FIELD_CODES: Final = {"words": "w", "surfaces": "s"}

CREATE_SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {version} (number int NOT NULL);
INSERT INTO {version} VALUES (1);
CREATE TABLE {indexes} (number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE, record bytea NOT NULL);
"""
CREATE_INDEX: Final = """
CREATE TABLE {documents} (doc bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    key uuid NOT NULL UNIQUE, id text COLLATE "C" NOT NULL, text text COLLATE "C" NOT NULL,
    source int NOT NULL, text_hash bigint NOT NULL, words int NOT NULL, surfaces int NOT NULL,
    sequence text COLLATE "C" NOT NULL, identifiers int[] NOT NULL, vector {vector}, {companions});
CREATE INDEX ON {documents} (source);
CREATE INDEX ON {documents} (text_hash);
CREATE TABLE {terms} (term int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, field "char" NOT NULL,
    text text COLLATE "C" NOT NULL, UNIQUE (field, text));
CREATE TABLE {postings} (term int, doc bigint, frequency int NOT NULL, length int NOT NULL,
    PRIMARY KEY (term, doc) INCLUDE (frequency, length));
CREATE TABLE {counts} (term int, slot smallint, documents int NOT NULL, PRIMARY KEY (term, slot));
CREATE TABLE {totals} (slot smallint PRIMARY KEY, documents bigint NOT NULL, words bigint NOT NULL,
    surfaces bigint NOT NULL, commits bigint NOT NULL);
CREATE TABLE {commits} (token uuid PRIMARY KEY, time timestamptz NOT NULL DEFAULT now());
CREATE TABLE {loads} (plan text PRIMARY KEY, documents bigint NOT NULL, finished boolean NOT NULL,
    synced boolean NOT NULL, time timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE {shards} (plan text, shard int, documents bigint NOT NULL, PRIMARY KEY (plan, shard));
CREATE TABLE {answers} (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE, digest bytea NOT NULL, answer bytea NOT NULL);
CREATE TABLE {facts} (name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
"""
MANIFEST: Final = """
SELECT record, sums.*, load.plan, load.documents, load.finished, load.synced FROM {indexes},
    (SELECT coalesce(sum(commits), 0)::bigint, coalesce(sum(documents), 0)::bigint,
        coalesce(sum(words), 0)::bigint, coalesce(sum(surfaces), 0)::bigint FROM {totals}) sums
    LEFT JOIN LATERAL (SELECT plan, documents, finished, bool_or(synced) OVER () AS synced
        FROM {loads} ORDER BY finished, time DESC LIMIT 1) load ON true
    WHERE number = %s
"""
OF_USER: Final = (  # whether the index ``number`` is of a table of the user's
    "EXISTS (SELECT FROM pg_tables WHERE schemaname = %s "
    " AND tablename IN ('rows_' || number, 'changes_' || number))"
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# The function stored_length in keywords/bm25.py as SQL; {0}: the number of words.
BITS: Final = "(29 - position(B'1' IN ({0} - 24)::bit(32)))"  # that are dropped, from 40 words on
STORED_LENGTH: Final = (
    f"CASE WHEN {{0}} < 40 THEN {{0}} ELSE 24 + ({{0}} - 24 >> {BITS} << {BITS}) END"
)

# MIGRATIONS[n] turns version n + 1 into the next one.
MIGRATIONS: Final[tuple[LiteralString, ...]] = ()


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of the tables of an index.

    - ``number``: the number of the index. 0 is enough for the tables ``version`` and ``indexes``,
      which all indexes share.
    - ``of_user``: whether the index is made from a table of the user.
    """

    schema: str
    number: int = 0
    of_user: bool = False

    def sql(self, statement: LiteralString, **others: Composable) -> Composed:
        """Replace ``{documents}``, ``{terms}``, ... in a statement by the names of tables.

        ``{documents}`` is the table to write. ``{searched}`` is the table or view to read, which
        has all columns. ``{source}``, ``{changes}``, ``{note}``: see ``user_table.py``. ``others``:
        values for other names in braces.
        """
        from psycopg.sql import SQL, Identifier

        names = {name: f"{name}_{self.number}" for name in (*TABLES, "source", "changes", "note")}
        names |= {"version": "version", "indexes": "indexes", "searched": names["documents"]}
        if self.of_user:
            names["documents"] = f"rows_{self.number}"
        places = {name: Identifier(self.schema, held) for name, held in names.items()}
        return SQL(statement).format(schema=Identifier(self.schema), **places, **others)


def key_of(id_: str) -> UUID:
    """Return the hash of a document's id for the column ``key``."""
    return UUID(bytes=blake2b(stored_text(id_).encode(), digest_size=16).digest())


def stored_text(text: str) -> str:
    """Replace U+0000, which PostgreSQL cannot store, by U+FFFD."""
    return text.replace("\0", "\ufffd")


def stored_term(term: str) -> str:
    """Return the stored form of a term. A long term is cut, and the term's hash is appended."""
    if len(term) * 4 <= MAX_TERM_BYTES or len(encoded := term.encode()) <= MAX_TERM_BYTES:
        return term
    return f"{term[:SHOWN_TERM]} {blake2b(encoded, digest_size=16).hexdigest()}"


def check_database(connection: Connection, where: str) -> tuple[int, ...]:
    """Return the version of pgvector. Raises :class:`VocabtoolError` for an unusable database."""
    if connection.info.server_version < MIN_SERVER:
        found = connection.info.parameter_status("server_version")
        raise VocabtoolError(f"{where}: vocabtool needs PostgreSQL 14 or later, got {found}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise VocabtoolError(
            f"{where}: the database has the encoding {encoding}, wanted UTF8: create another one "
            "with CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'"
        )
    statement = (
        "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
        " EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')"
    )
    found, available = connection.execute(statement).fetchone() or (None, False)
    if found is None:
        first = "" if available else "the server does not have it: install pgvector on it. Then "
        raise VocabtoolError(
            f"{where}: the database has no extension vector (pgvector): {first}run CREATE EXTENSION"
            " vector in this database (in most installations, as a superuser)"
        )
    return tuple(int(part) for part in found.split(".") if part.isdigit())


def version_of(connection: Connection, schema: str, where: str) -> int:
    """Return the version of vocabtool's tables, or 0 if a schema has none of them.

    Raises :class:`VocabtoolError` if a newer vocabtool made the tables.
    """
    tables = Tables(schema)
    # A function such as to_regclass may remember that a table was not there.
    statement = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version'"
    if connection.execute(statement, [schema]).fetchone() is None:
        return 0
    found = connection.execute(tables.sql("SELECT number FROM {version}")).fetchall()
    if len(found) != 1:
        raise InvalidFile(f"damaged: {schema}.version has {len(found)} rows, wanted 1", file=where)
    (number,) = found[0]
    if number > VERSION:
        raise VocabtoolError(
            f"{where}: a newer vocabtool made the tables in the schema {schema!r}: version "
            f"{number}, expected at most {VERSION}. Update vocabtool, or use another schema"
        )
    return int(number)


def prepare_schema(connection: Connection, schema: str, where: str) -> None:
    """Create or migrate vocabtool's tables. Several processes may do this at the same time."""
    check_database(connection, where)
    if version_of(connection, schema, where) == VERSION:
        return
    tables = Tables(schema)
    with connection.transaction():
        lock(connection, SCHEMA_LOCK)
        if not (number := version_of(connection, schema, where)):
            connection.execute(tables.sql(CREATE_SCHEMA))
            number = 1
        for migration in MIGRATIONS[number - 1 :]:
            connection.execute(tables.sql(migration))
        connection.execute(tables.sql("UPDATE {version} SET number = %s"), [VERSION])


def lock(connection: Connection, number: int, *, shared: bool = False) -> None:
    """Wait for an advisory lock, and hold it until the end of the transaction."""
    statement: LiteralString = "SELECT pg_advisory_xact_lock(%s, %s)"
    if shared:
        statement = "SELECT pg_advisory_xact_lock_shared(%s, %s)"
    connection.execute(statement, [LOCK, number])


def limit_waits(connection: Connection) -> None:
    """Limit how long the next statements of the transaction may wait for a lock.

    :func:`until_free` repeats a transaction that failed for this reason.
    """
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [TABLE_WAIT])


def until_free(work: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function that tries the transaction ``work`` again while other sessions hold locks."""

    @wraps(work)
    def again(*given: Parameters.args, **named: Parameters.kwargs) -> Result:
        from psycopg.errors import DeadlockDetected, LockNotAvailable

        for pause in islice(pauses(), TABLE_TRIES - 1):
            with suppress(DeadlockDetected, LockNotAvailable):
                return work(*given, **named)
            time.sleep(pause)
        return work(*given, **named)

    return again


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each new try. The iterator never ends."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LAST_PAUSE)


def lock_of(number: int, slot: int | None = None) -> int:
    """Return the number of the advisory lock of index ``number``, or of one of its slots.

    ``slot``: the slot, or ``VECTORS`` for the lock of the index of vectors."""
    return number * LOCKS + (SLOTS if slot is None else slot)


def record_of(manifest: Manifest) -> bytes:
    """Return the record for the table ``indexes``: the manifest without what a commit changes."""
    empty = Manifest(index=manifest.index, configuration=manifest.configuration)
    kept = replace(
        empty,
        fields=manifest.fields,
        codes=manifest.codes,
        model_files=manifest.model_files,
        calibration=manifest.calibration,
        chance=manifest.chance,
        sources=manifest.sources,
        searched_fields=manifest.searched_fields,
    )
    return kept.encode()


def find_index(connection: Connection, schema: str, name: str, where: str) -> Tables:
    """Return the tables of an index. The tables of an earlier version are migrated.

    Raises :class:`NotFound` if there is no such index.
    """
    found = None
    if version := version_of(connection, schema, where):
        if version < VERSION:
            prepare_schema(connection, schema, where)
        statement = Tables(schema).sql(
            "SELECT number, " + OF_USER + " FROM {indexes} WHERE name = %s"
        )
        found = connection.execute(statement, [schema, name]).fetchone()
    if found is None:
        raise NotFound(f"{where}: no index {name!r}; create one with `vocabtool index`")
    return Tables(schema, *found)


def read_manifest(connection: Connection, tables: Tables, where: str) -> Manifest:
    """Return the manifest of the newest commit. Raises :class:`NotFound` if the index was removed.

    ``rows`` is the number of documents. ``commit`` grows with each commit.

    The ``load`` of the manifest is an unfinished load or, if all loads are finished, the newest
    load. Only ``load.synced`` is about all loads: it is true if ``synced`` of any of them is.
    """
    found = connection.execute(tables.sql(MANIFEST), [tables.number]).fetchone()
    if found is None:
        raise NotFound(f"{where}: the index was removed")
    record, commit, rows, words, surfaces, plan, documents, finished, synced = found
    with reading(where):
        held = Manifest.decode(record)
    load = None
    if plan is not None:
        load = Load(plan=plan, documents=documents, finished=finished, alone=False, synced=synced)
    numbers = {"commit": commit, "rows": rows, "words": words, "surfaces": surfaces}
    return replace(held, load=load, **numbers)


def create_index(
    connection: Connection,
    schema: str,
    name: str,
    manifest: Manifest,
    where: str,
    *,
    files: Mapping[str, bytes] | None = None,
    of_user: bool = False,
) -> Tables:
    """Create an empty index in one transaction.

    - ``files``: the files of the model by their names, to be stored in the database.
    - ``of_user``: whether the index is for a table of the user. The caller attaches this table.

    Raises :class:`FolderNotEmpty` if there is an index with this name.
    """
    from psycopg.sql import SQL

    if not 0 < len(name) <= MAX_NAME or "\0" in name:
        what = f"a name must have 1 to {MAX_NAME} characters, none of them U+0000"
        raise VocabtoolError(f"{where}: {what}, got {name[:50]!r} of {len(name):,}")
    prepare_schema(connection, schema, where)
    vector = _vector_type(manifest, check_database(connection, where), where)
    with connection.transaction():
        lock(connection, SCHEMA_LOCK)
        found = connection.execute(
            Tables(schema).sql(
                "INSERT INTO {indexes} (name, record) VALUES (%s, %s)"
                " ON CONFLICT (name) DO NOTHING RETURNING number"
            ),
            [name, record_of(manifest)],
        ).fetchone()
        if found is None:
            raise FolderNotEmpty(
                f"{where}: already contains an index {name!r}. Add to it (in Python: Index.open), "
                "start over with --force (force=True), or choose another name"
            )
        tables = Tables(schema, found[0], of_user)
        companions = SQL(", ".join(f"{own} {type_}" for own, type_ in OWN_COLUMNS)).format()
        connection.execute(tables.sql(CREATE_INDEX, vector=vector, companions=companions))
        add_fields(connection, tables, manifest.fields, {})
        with connection.cursor() as cursor:
            statement = tables.sql("INSERT INTO {facts} VALUES (%s, %s)")
            cursor.executemany(statement, [*(files or {}).items()])
    return tables


def add_fields(
    connection: Connection, tables: Tables, fields: Mapping[str, Kind], held: Mapping[str, Kind]
) -> None:
    """Add columns for those ``fields`` that have no column yet.

    ``held``: the fields of the index. Those of the kind null have no column.
    """
    from psycopg.sql import SQL

    for at, (name, kind) in enumerate(fields.items()):
        if held.get(name, "null") == "null":
            column = f"field_{at}"
            added = [f"ADD COLUMN {own} {type_}" for own, type_ in columns_of(column, kind)]
            if added:
                statement = SQL(f" {', '.join(added)}").format()
                connection.execute(tables.sql("ALTER TABLE {documents}{added}", added=statement))
            for index in indexes_of(column, kind):
                of_column = SQL(index).format()
                connection.execute(tables.sql("CREATE INDEX ON {documents} {on}", on=of_column))


@until_free
def drop_index(
    connection: Connection, tables: Tables, name: str = "", *, if_empty: bool = False
) -> bool:
    """Wait until no transaction writes to an index, and remove the index with all its documents.

    - ``name``: remove the index only if it still has this name; ``""``: any name.
    - ``if_empty``: remove the index only if it has no documents.

    Returns whether the index was removed.
    """
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.READ_COMMITTED  # see what others did meanwhile
    with connection.transaction():
        lock(connection, SCHEMA_LOCK)
        lock(connection, lock_of(tables.number))
        named = tables.sql("SELECT FROM {indexes} WHERE number = %s AND name = %s")
        if name and not connection.execute(named, [tables.number, name]).rowcount:
            return False
        if if_empty and connection.execute(tables.sql("SELECT FROM {documents} LIMIT 1")).rowcount:
            return False
        limit_waits(connection)
        _drop(connection, tables)
    return True


@until_free
def replace_index(connection: Connection, new: Tables, name: str) -> None:
    """In one transaction, remove the index called ``name``, and give this name to ``new``."""
    with connection.transaction():
        lock(connection, SCHEMA_LOCK)
        statement = new.sql(
            "SELECT number, " + OF_USER + " FROM {indexes} WHERE name = %s AND number <> %s"
        )
        for found in connection.execute(statement, [new.schema, name, new.number]).fetchall():
            lock(connection, lock_of(found[0]))
            limit_waits(connection)
            _drop(connection, Tables(new.schema, *found))
        renamed = connection.execute(
            new.sql("UPDATE {indexes} SET name = %s WHERE number = %s"), [name, new.number]
        )
        if not renamed.rowcount:  # nothing of this transaction remains
            what = "the replacement was removed by another process; the earlier index stays"
            raise NotFound(f"{name}: {what}")


def vacuum(connection: Connection, tables: Tables, progress: Progress | None) -> None:
    """Run VACUUM and ANALYZE on the tables of an index."""
    names: list[LiteralString] = ["{documents}", "{postings}", "{terms}", "{counts}"]
    names += ["{changes}"] * tables.of_user
    for place, name in enumerate(names):
        if progress is not None:
            progress("tables vacuumed", place / len(names))
        connection.execute(tables.sql("VACUUM (ANALYZE) " + name))


def _drop(connection: Connection, tables: Tables) -> None:
    connection.execute(tables.sql("DELETE FROM {indexes} WHERE number = %s"), [tables.number])
    if tables.of_user:
        # First the triggers, with the function: whoever writes to the user's table has locks on it
        # before those on ours.
        connection.execute(tables.sql("DROP FUNCTION IF EXISTS {note}() CASCADE"))
        connection.execute(tables.sql("DROP VIEW IF EXISTS {searched}, {source}"))
        connection.execute(tables.sql("DROP TABLE IF EXISTS {changes}"))
    names: Iterable[str] = (f"{{{name}}}" for name in TABLES)
    connection.execute(tables.sql(f"DROP TABLE IF EXISTS {', '.join(names)}"))


def _vector_type(manifest: Manifest, version: tuple[int, ...], where: str) -> Composed:
    from psycopg.sql import SQL, Literal

    held = manifest.configuration
    if held.dim > MAX_DIMENSIONS:
        raise VocabtoolError(
            f"{where}: pgvector stores at most {MAX_DIMENSIONS:,} dimensions, got {held.dim:,}"
        )
    is_half = held.dtype == "float16" and version >= HALF
    return SQL("halfvec({})" if is_half else "vector({})").format(Literal(held.dim))
