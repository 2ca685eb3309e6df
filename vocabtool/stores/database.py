"""Connect to a PostgreSQL database, and create, find and drop the tables of its indexes.

    version          number                       the version of this layout
    indexes          number, name                 the indexes of the schema
                     record                       the manifest of the last commit
                     token                        a random number that the last commit wrote
                     commits, last                number of commits; highest row number ever used
                     documents, words             the statistics of the index

The index with the number N has these tables:

    documents_N      doc                          the row number; never reused
                     key                          BLAKE2b-128 of the id (ids can be 32 KB long)
                     id, text, source, text_hash  as in index/database.py
                     words, surfaces              number of terms
                     sequence                     numbers of the terms of the field "words", in the
                                                  order of the text: " 12 15 9 "; no phrase
                                                  continues across a " | "
                     identifiers                  distinct terms of the field "surfaces"
                     vector                       halfvec or vector; null if it is zero
                     field_0, field_1, ...        values, with companions: see conditions.py.
                                                  A field with only nulls has no column
    terms_N          term, field, text,           field: w or s. Terms are never removed
                     documents                    the document frequency
    postings_N       term, doc,                   length: the number of words of the document, as
                     frequency, length            keywords/bm25.py rounds it
    facts_N          name, value                  value: a part of the model, or measurements

A writer holds an advisory lock of its session from the beginning to the end, so an index has one
writer at a time. Readers need no lock.

A password may be in the address, in PGPASSWORD or in the file PGPASSFILE. No message contains it.
No text of a user becomes SQL: names of indexes and fields are values in these tables.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from vocabtool.documents.batch import Kind
from vocabtool.errors import (
    FolderInUse,
    FolderNotEmpty,
    InvalidFile,
    NotFound,
    UnsupportedFormat,
    VocabtoolError,
    reading,
)
from vocabtool.index.folder import Manifest
from vocabtool.stores.conditions import OWN_COLUMNS, columns_of, indexes_of

if TYPE_CHECKING:
    from typing import LiteralString

    import psycopg
    from psycopg import Connection
    from psycopg.sql import Composable, Composed
    from psycopg_pool import ConnectionPool

INSTALL: Final = "PostgreSQL needs psycopg: pip install '.[postgres]'"
WAIT_SECONDS: Final = 60.0  # for a server that restarts, and for another writer
POOL_SIZE: Final = 16
FIRST_PAUSE: Final = 0.05  # seconds before another try; each pause is twice the one before
LAST_PAUSE: Final = 2.0
TABLE_WAIT: Final = "200ms"  # for a table that is to be changed: searches queue behind this
TABLE_TRIES: Final = 60  # about two minutes
# What an address does not say. A server that is gone without a word is noticed within a minute.
DEFAULTS: Final[Mapping[str, str | int]] = {
    "application_name": "vocabtool",
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
# What libpq or the server says, and what to do. Libpq gives no code for errors while connecting.
REFUSALS: Final = (
    ("password", "check the user's password: in the address, PGPASSWORD or PGPASSFILE"),
    ("pg_hba.conf", "the server's pg_hba.conf must allow this role, database and host"),
    ("certificate", "check sslmode, sslrootcert, sslcert and sslkey"),  # a file may not exist
    ("does not support SSL", "check sslmode, sslrootcert, sslcert and sslkey"),
    ("does not exist", "check the names of the database and the role, or create them"),
    ("permission denied", "grant the role the right CONNECT on the database"),
)
UNREACHABLE: Final = "check that the server runs, and the host and port of the address"
ADVICE: Final = {  # by SQLSTATE
    "42501": "grant the role the right that is missing",
    "57014": "raise statement_timeout, or ask for less",
    "25006": "use the primary server, and a role that may write",
    "42P01": "the index was removed meanwhile: open it again. If it says so again, its table or a"
    " view of it was dropped: index again with --force, or run `vocabtool delete ADDRESS"
    " --whole-index`",
    "53100": "free space on the server's disk",
    "53200": "give the server more memory",
    "53300": "raise max_connections, or use fewer clients",
    "55P03": "another transaction holds a lock: run it again later, or end the transaction, which"
    " the view pg_stat_activity shows",
}
GOING_DOWN: Final = ("57P01", "57P02", "57P03")

VERSION: Final = 2
SCHEMA: Final = "vocabtool"
MAX_TERM_BYTES: Final = 1000  # a B-tree takes 2,704
SHOWN_TERM: Final = 200  # characters of a longer term that are stored
MIN_SERVER: Final = 140000
HALF: Final = (0, 7)  # the version of pgvector that brings half precision
MAX_DIMENSIONS: Final = 16_000  # of pgvector
LOCK: Final = 0x766F6361  # the first of two numbers of our advisory locks; the other says which
TABLES: Final = ("documents", "terms", "postings", "facts")
FIELD_CODES: Final = {"words": "w", "surfaces": "s"}

CREATE_SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {version} (number int NOT NULL);
CREATE TABLE {indexes} (number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE, record bytea NOT NULL, token uuid,
    commits bigint NOT NULL DEFAULT 0, last bigint NOT NULL DEFAULT 0,
    documents bigint NOT NULL DEFAULT 0, words bigint NOT NULL DEFAULT 0);
"""
CREATE_INDEX: Final = """
CREATE TABLE {documents} (doc bigint PRIMARY KEY,
    key uuid NOT NULL UNIQUE, id text COLLATE "C" NOT NULL, text text COLLATE "C" NOT NULL,
    source int NOT NULL, text_hash bigint NOT NULL, words int NOT NULL, surfaces int NOT NULL,
    sequence text COLLATE "C" NOT NULL, identifiers int[] NOT NULL, vector {vector}, {companions});
CREATE INDEX ON {documents} (source);
CREATE INDEX ON {documents} (text_hash);
CREATE TABLE {terms} (term int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, field "char" NOT NULL,
    text text COLLATE "C" NOT NULL, documents int NOT NULL DEFAULT 0, UNIQUE (field, text))
    WITH (fillfactor = 80);
CREATE TABLE {postings} (term int, doc bigint, frequency int NOT NULL, length int NOT NULL,
    PRIMARY KEY (term, doc) INCLUDE (frequency, length));
CREATE TABLE {facts} (name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
"""

Result = TypeVar("Result")


class Connections:
    """The connections of this process to one database.

    Threads may share an object. A forked process opens its own connections.

    - ``where``: the host and the database, for messages.
    - ``schema``: the name of the schema with vocabtool's tables.
    """

    def __init__(self, conninfo: str, *, schema: str = SCHEMA) -> None:
        """``conninfo``: a connection string of libpq: a URI, or names and values.

        Raises :class:`UnsupportedFormat` if psycopg is not installed, and :class:`VocabtoolError`
        if ``conninfo`` is not a connection string.
        """
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise UnsupportedFormat(INSTALL) from error
        try:
            given = conninfo_to_dict(conninfo)
        except ProgrammingError:
            given = None  # libpq's message may quote the password
        if given is None:
            wanted = "postgresql://USER@HOST:PORT/DATABASE, with %-escapes"
            raise VocabtoolError(f"not a PostgreSQL address: wanted {wanted}")
        self.schema = schema
        self._secret = str(given.get("password") or "")
        self._parameters: dict[str, Any] = {**DEFAULTS, **given}
        host = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST", "localhost")
        port = given.get("port") or os.environ.get("PGPORT", "5432")
        name = given.get("dbname") or os.environ.get("PGDATABASE", "")
        if "@" in f"{host}{name}" or not str(port).replace(",", "").isdigit():
            what = "escape / as %2F and @ as %40 in a user or password"
            raise VocabtoolError(f"not a PostgreSQL address: {what}")
        self.where = f"postgresql://{host}:{port}/{name}"
        if str(host).startswith("/"):  # the folder of a socket
            self.where = f"postgresql:///{name}?host={host}&port={port}"
        self._pool: ConnectionPool[Any] | None = None
        self._process = os.getpid()
        self._lock, self._is_closed = Lock(), False

    def __repr__(self) -> str:
        return f"Connections({self.where!r})"

    def __reduce__(self) -> str:
        raise TypeError("connections cannot be pickled: they may contain a password")

    def connect(self, wait: float = 0.0) -> Connection:
        """Open a connection in autocommit mode. The caller must close it.

        ``wait``: for how many seconds to keep trying if the server cannot be reached.
        """
        from psycopg import Connection, IsolationLevel, OperationalError

        if self._is_closed:
            raise VocabtoolError(f"{self.where}: the index is closed: open it again")
        until = time.monotonic() + wait
        for pause in pauses():
            try:
                connection = Connection.connect(**self._parameters, autocommit=True)
                # In a transaction, see what others committed while it waited for locks.
                connection.isolation_level = IsolationLevel.READ_COMMITTED
                try:
                    _configure(self.schema, connection)
                except BaseException:
                    connection.close()
                    raise
            except OperationalError as error:
                is_final = any(said in str(error) for said, _ in REFUSALS)
                if is_final or time.monotonic() + pause > until:
                    raise self._not_connected(error) from None
                time.sleep(pause)
                continue
            return connection
        raise AssertionError  # the pauses never end

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Call ``work`` with a connection of the pool, and return its result.

        ``work`` must only read, because it is called again if the connection was lost. Raises
        :class:`VocabtoolError` for errors of the database.
        """
        import psycopg
        from psycopg_pool import PoolTimeout

        until = time.monotonic() + WAIT_SECONDS
        for pause in pauses():
            pool = self._open_pool()
            try:
                with pool.connection() as connection:
                    try:
                        return work(connection)
                    except psycopg.Error as error:
                        # A deadlock, if the index was removed or got a column meanwhile.
                        again = isinstance(error, psycopg.errors.DeadlockDetected)
                        if not again and not is_lost(error, connection):
                            raise
                        if time.monotonic() + pause > until:
                            raise
            except PoolTimeout:
                self.connect().close()  # raises an error that says why
                continue
            except psycopg.Error as error:
                raise self.explain(error) from error
            time.sleep(pause)
            with suppress(psycopg.Error):
                pool.check()  # removes the other connections that were lost
        raise AssertionError  # the pauses never end

    def fetch(self, statement: Composed, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self.read(lambda connection: connection.execute(statement, values).fetchall())

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of psycopg in the ``with`` block as :class:`VocabtoolError`."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self.explain(error) from error

    @contextmanager
    def connected(self, wait: float = 0.0) -> Iterator[Connection]:
        """Open a connection for the ``with`` block, and translate errors of psycopg in it."""
        with self.translate_errors(), self.connect(wait) as connection:
            yield connection

    def explain(self, error: psycopg.Error) -> VocabtoolError:
        """Make an error whose message explains ``error`` and says what to do next."""
        state = error.sqlstate or ""
        what = error.diag.message_primary or " ".join(str(error).split())
        what = f"{self.where}: {self._without_secret(what)}"
        what += f" (SQLSTATE {state})" if state else ""
        kind = NotFound if state == "42P01" else VocabtoolError
        advice = ADVICE.get(state) or ("" if state else UNREACHABLE)
        return kind(f"{what}. {advice[:1].upper()}{advice[1:]}" if advice else what)

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._is_closed = self._pool, None, True
            if pool is not None:
                _close(pool, self._process)

    def _open_pool(self) -> ConnectionPool[Any]:
        from psycopg_pool import ConnectionPool

        with self._lock:
            if self._pool is None or self._process != os.getpid():
                self.connect().close()  # the pool would tell no reason
                self._process = os.getpid()
                # It logs what we handle; without a handler that would go to standard error.
                logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
                self._pool = ConnectionPool(
                    kwargs={**self._parameters, "autocommit": True},
                    configure=partial(_configure, self.schema),  # else it would keep this object
                    min_size=0,
                    max_size=POOL_SIZE,
                    timeout=WAIT_SECONDS,
                    name="vocabtool",
                    open=True,
                )
                weakref.finalize(self, _close, self._pool, self._process)
            return self._pool

    def _not_connected(self, error: psycopg.Error) -> VocabtoolError:
        said = self._without_secret(" ".join(str(error).split()))
        advice = next((advice for part, advice in REFUSALS if part in said), UNREACHABLE)
        return VocabtoolError(f"{self.where}: cannot connect: {said}. Next: {advice}")

    def _without_secret(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text


def _configure(schema: str, connection: Connection) -> None:
    """Look for tables in ``schema`` first, then in the schema of pgvector. Switch JIT off."""
    connection.execute(
        "SELECT set_config('search_path', concat_ws(', ', quote_ident(%s), coalesce("
        "(SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n"
        " ON n.oid = extnamespace WHERE extname = 'vector'), 'public'), 'pg_temp'), false),"
        # To compile a statement takes longer than to run it.
        " set_config('jit', 'off', false)",
        [schema],
    )


def _close(pool: ConnectionPool[Any], process: int) -> None:
    if os.getpid() == process:
        pool.close()


@contextmanager
def one_commit(connection: Connection) -> Iterator[None]:
    """Run the ``with`` block in a transaction whose statements all see the same commit."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def is_lost(error: psycopg.Error, connection: Connection) -> bool:
    """Return whether an error means that the connection and its transaction were lost."""
    import psycopg

    is_ours = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return is_ours and (connection.closed or error.sqlstate in GOING_DOWN)


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each new try. The iterator never ends."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LAST_PAUSE)


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of the tables of an index.

    ``number``: the number of the index. 0 is enough for the tables ``version`` and ``indexes``,
    which all indexes share.
    """

    schema: str
    number: int = 0

    def sql(self, statement: LiteralString, **others: Composable) -> Composed:
        """Replace ``{documents}``, ``{terms}``, ... in a statement by the names of tables.

        ``others``: values for other names in braces.
        """
        from psycopg.sql import SQL, Identifier

        names = {name: f"{name}_{self.number}" for name in TABLES}
        names |= {"version": "version", "indexes": "indexes"}
        places = {name: Identifier(self.schema, held) for name, held in names.items()}
        return SQL(statement).format(schema=Identifier(self.schema), **places, **others)

    def lock(self, connection: Connection, where: str, *, of_session: bool = False) -> None:
        """Wait for the lock of the index, and hold it until the end of the transaction.

        - ``number`` 0: the lock of the whole schema, to create, rename and drop indexes.
        - ``of_session``: hold the lock until the connection is closed.

        Raises :class:`FolderInUse` after ``WAIT_SECONDS``.
        """
        from psycopg.errors import LockNotAvailable

        digest = blake2b(f"{self.schema}\0{self.number}".encode(), digest_size=4).digest()
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [f"{WAIT_SECONDS}s"])
        statement: LiteralString = "SELECT pg_advisory_xact_lock(%s, %s)"
        if of_session:
            statement = "SELECT pg_advisory_lock(%s, %s)"
        try:
            connection.execute(statement, [LOCK, int.from_bytes(digest, "little", signed=True)])
        except LockNotAvailable as error:
            raise FolderInUse(
                f"{where}: another process writes to this index, and did not end within "
                f"{WAIT_SECONDS:g} seconds. An index has one writer at a time: run this again when "
                "the other one has ended. The view pg_locks (locktype 'advisory') shows it"
            ) from error
        connection.execute("SELECT set_config('lock_timeout', '0', false)")


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
    return version_numbers(found)


def version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def has_tables(connection: Connection, schema: str, where: str) -> bool:
    """Return whether a schema has vocabtool's tables. Raises an error if another version has them.

    The function to_regclass would not do: it may remember that a table was not there.
    """
    statement = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version'"
    if connection.execute(statement, [schema]).fetchone() is None:
        return False
    found = connection.execute(Tables(schema).sql("SELECT number FROM {version}")).fetchall()
    if len(found) != 1:
        raise InvalidFile(f"damaged: {schema}.version has {len(found)} rows, wanted 1", file=where)
    if found[0][0] != VERSION:
        raise VocabtoolError(
            f"{where}: another version of vocabtool made the tables in the schema {schema!r} "
            f"(layout {found[0][0]}, wanted {VERSION}): index again, in another schema "
            "(&schema=NAME), or after DROP SCHEMA"
        )
    return True


def find_index(connection: Connection, schema: str, name: str, where: str) -> Tables:
    """Return the tables of an index. Raises :class:`NotFound` if there is no such index."""
    found = None
    if has_tables(connection, schema, where):
        statement = Tables(schema).sql("SELECT number FROM {indexes} WHERE name = %s")
        found = connection.execute(statement, [name]).fetchone()
    if found is None:
        raise NotFound(f"{where}: no index {name!r}; create one with `vocabtool index`")
    return Tables(schema, *found)


def read_manifest(connection: Connection, tables: Tables, where: str) -> Manifest:
    """Return the manifest of the newest commit. Raises :class:`NotFound` if the index was removed.

    ``rows`` is the number of documents. ``commit`` grows with each commit.
    """
    statement = tables.sql("SELECT record FROM {indexes} WHERE number = %s")
    found = connection.execute(statement, [tables.number]).fetchone()
    if found is None:
        raise NotFound(f"{where}: the index was removed or replaced: open it again")
    with reading(where):
        return Manifest.decode(bytes(found[0]))


def create_index(
    connection: Connection,
    schema: str,
    name: str,
    manifest: Manifest,
    where: str,
    files: Mapping[str, bytes],
) -> Tables:
    """Create an empty index, and vocabtool's own tables if they are missing, in one transaction.

    ``files``: the files of the model by their names, to be stored in the database. Raises
    :class:`FolderNotEmpty` if there is an index with this name.
    """
    from psycopg.sql import SQL, Literal

    version, shared = check_database(connection, where), Tables(schema)
    held = manifest.configuration
    if held.dim > MAX_DIMENSIONS:
        raise VocabtoolError(
            f"{where}: pgvector stores at most {MAX_DIMENSIONS:,} dimensions, got {held.dim:,}"
        )
    is_half = held.dtype == "float16" and version >= HALF
    with connection.transaction():
        shared.lock(connection, where)
        if not has_tables(connection, schema, where):
            connection.execute(shared.sql(CREATE_SCHEMA))
            connection.execute(shared.sql("INSERT INTO {version} VALUES (%s)"), [VERSION])
        found = connection.execute(
            shared.sql(
                "INSERT INTO {indexes} (name, record) VALUES (%s, %s)"
                " ON CONFLICT (name) DO NOTHING RETURNING number"
            ),
            [name, manifest.encode()],
        ).fetchone()
        if found is None:
            raise FolderNotEmpty(
                f"{where}: already contains an index {name!r}. Add to it (in Python: Index.open), "
                "start over with --force (force=True), or choose another name"
            )
        tables = Tables(schema, found[0])
        vector = SQL("halfvec({})" if is_half else "vector({})").format(Literal(held.dim))
        companions = SQL(", ".join(f"{own} {type_}" for own, type_ in OWN_COLUMNS)).format()
        connection.execute(tables.sql(CREATE_INDEX, vector=vector, companions=companions))
        with connection.cursor() as cursor:
            cursor.executemany(tables.sql("INSERT INTO {facts} VALUES (%s, %s)"), [*files.items()])
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


def change_tables(connection: Connection, change: Callable[[], Result]) -> Result:
    """Call ``change`` in a transaction, and repeat it while searches use the tables.

    Each try waits only a moment for a lock on a table, because new searches wait behind it.
    """
    from psycopg.errors import DeadlockDetected, LockNotAvailable

    for tried, pause in enumerate(pauses(), 1):
        try:
            with connection.transaction():
                connection.execute("SELECT set_config('lock_timeout', %s, true)", [TABLE_WAIT])
                return change()
        except (DeadlockDetected, LockNotAvailable):
            if tried >= TABLE_TRIES:
                raise
        time.sleep(pause)
    raise AssertionError  # the pauses never end


def drop_index(
    connection: Connection, tables: Tables, where: str, name: str, *, if_empty: bool = False
) -> bool:
    """Wait for the writer of an index, and remove the index with all its documents.

    - ``name``: the name that the index must still have.
    - ``if_empty``: remove the index only if it has no documents.

    Returns whether the index was removed.
    """

    def drop() -> bool:
        statement = "DELETE FROM {indexes} WHERE number = %s AND name = %s"
        if if_empty:
            statement += " AND documents = 0"
        if not connection.execute(tables.sql(statement), [tables.number, name]).rowcount:
            return False
        _drop_tables(connection, tables)
        return True

    tables.lock(connection, where, of_session=True)
    return change_tables(connection, drop)


def replace_index(connection: Connection, new: Tables, name: str, where: str) -> None:
    """In one transaction, remove the index called ``name``, and give this name to ``new``."""
    Tables(new.schema).lock(connection, where, of_session=True)
    statement = new.sql("SELECT number FROM {indexes} WHERE name = %s AND number <> %s")
    others = connection.execute(statement, [name, new.number]).fetchall()
    replaced = [Tables(new.schema, number) for (number,) in others]

    def put_in_place() -> None:
        for old in replaced:
            connection.execute(new.sql("DELETE FROM {indexes} WHERE number = %s"), [old.number])
            _drop_tables(connection, old)
        renamed = connection.execute(
            new.sql("UPDATE {indexes} SET name = %s WHERE number = %s"), [name, new.number]
        )
        if not renamed.rowcount:  # nothing of this transaction remains
            what = "the replacement was removed by another process; the earlier index stays"
            raise NotFound(f"{name}: {what}")

    for old in replaced:
        old.lock(connection, where, of_session=True)
    change_tables(connection, put_in_place)


def _drop_tables(connection: Connection, tables: Tables) -> None:
    names: Sequence[str] = [f"{{{name}}}" for name in TABLES]
    connection.execute(tables.sql(f"DROP TABLE IF EXISTS {', '.join(names)}"))
