"""Connect to a PostgreSQL database, and create, find and drop the tables of its indexes.

    version          number                       the version of this layout
    indexes          number, name                 the indexes of the schema
                     record                       the manifest of the last commit
                     last                         the highest row number ever used
                     documents, words             the statistics of the index

The index with the number N has these tables:

    documents_N      doc                          the row number; never reused
                     key                          BLAKE2b-128 of the id (ids can be 32 KB long)
                     id, text, source, text_hash  as in index/database.py
                     words                        number of terms of the field "words"
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
                     frequency, length            keywords/cutter.py rounds it
    facts_N          name, value                  the files of the model

The numbers of a schema begin at a random number. So an index that is dropped with its schema and
made again has other tables, and a process that has the old index open notices that it is gone.

A writer holds an advisory lock of its session from the beginning to the end, so an index has one
writer at a time. Readers need no lock.

A password may be in the address, in PGPASSWORD or in the file PGPASSFILE. No message contains it.
No text of a user becomes SQL: names of indexes and fields are values in these tables. Only the name
of the schema is quoted; each connection looks for tables in this schema first.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from psycopg import Connection, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg_pool import ConnectionPool, PoolTimeout

from vocabtool.errors import FolderInUse, FolderNotEmpty, NotFound, VocabtoolError, reading
from vocabtool.index.folder import Manifest
from vocabtool.index.postgres.conditions import OWN_COLUMNS, storable

WAIT_SECONDS: Final = 60.0  # for a server that restarts, and for another writer
POOL_SIZE: Final = 16
READ_TRIES: Final = 3  # of a search whose connection is lost
TABLE_WAIT: Final = "200ms"  # for a table that is to be changed: searches queue behind this
LAST_PAUSE: Final = 2.0  # seconds before another try; the first ones are shorter
TABLE_TRIES: Final = 60  # about two minutes
# What an address does not say. A server that is gone without a word is noticed within a minute.
DEFAULTS: Final[Mapping[str, str | int]] = {
    "application_name": "vocabtool",
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
GONE: Final = "the index was removed or replaced: open it again"
# What libpq or the server says, and what to do. Libpq gives no code for errors while connecting.
REFUSALS: Final = (
    ("password", "check the user's password: in the address, PGPASSWORD or PGPASSFILE"),
    ("pg_hba.conf", "the server's pg_hba.conf must allow this role, database and host"),
    ("certificate", "check sslmode, sslrootcert, sslcert and sslkey"),  # a file may not exist
    ("does not exist", "check the names of the database and the role, or create them"),
    ("", "check that the server runs, and the host and port of the address"),
)
ADVICE: Final = {  # by SQLSTATE
    "": REFUSALS[-1][1],
    "42501": "grant the role the right that is missing",
    "57014": "raise statement_timeout, or ask for less",
    "25006": "use the primary server, and a role that may write",
    "42P01": "the index was removed meanwhile: open it again. If it says so again, its table or a"
    " view of it was dropped: index again with --force, or run `vocabtool delete ADDRESS"
    " --whole-index`",
    "55P03": "another transaction holds a lock: run it again later, or end the transaction, which"
    " the view pg_stat_activity shows",
}
# No SQLSTATE: a lost connection. A server that stops or starts; a deadlock with a new column.
PASSING: Final = (None, "57P01", "57P02", "57P03", "40P01")

VERSION: Final = 4
SCHEMA: Final = "vocabtool"
MAX_TERM_BYTES: Final = 1000  # a B-tree takes 2,704
SHOWN_TERM: Final = 200  # characters of a longer term that are stored
HALF: Final = (0, 7)  # the version of pgvector that brings half precision
LOCK: Final = 0x766F6361  # the first of two numbers of our advisory locks; the other says which
TABLES: Final = ("documents", "terms", "postings", "facts")
NAME_OF_BUILD: Final = "build"  # the fact that says of what arguments a replacement is made
FIELD_CODES: Final = {"words": "w", "surfaces": "s"}
PGVECTOR: Final = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"

CREATE_SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {schema}.version (number int NOT NULL);
INSERT INTO {schema}.version VALUES ({version});
CREATE TABLE {schema}.indexes (
    number int GENERATED ALWAYS AS IDENTITY (START WITH {first}) PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE, record bytea NOT NULL, last bigint NOT NULL DEFAULT 0,
    documents bigint NOT NULL DEFAULT 0, words bigint NOT NULL DEFAULT 0);
"""
CREATE_INDEX: Final = """
CREATE TABLE {schema}.documents_{n} (doc bigint PRIMARY KEY,
    key uuid NOT NULL UNIQUE, id text COLLATE "C" NOT NULL, text text COLLATE "C" NOT NULL,
    source int NOT NULL, text_hash bigint NOT NULL, words int NOT NULL,
    sequence text COLLATE "C" NOT NULL, identifiers int[] NOT NULL, vector {vector}, {companions});
CREATE INDEX ON {schema}.documents_{n} (source);
CREATE INDEX ON {schema}.documents_{n} (text_hash);
CREATE TABLE {schema}.terms_{n} (
    term int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, field "char" NOT NULL,
    text text COLLATE "C" NOT NULL, documents int NOT NULL DEFAULT 0, UNIQUE (field, text))
    WITH (fillfactor = 80);
CREATE TABLE {schema}.postings_{n} (
    term int, doc bigint, frequency int NOT NULL, length int NOT NULL,
    PRIMARY KEY (term, doc) INCLUDE (frequency, length));
CREATE TABLE {schema}.facts_{n} (name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
"""

Result = TypeVar("Result")


def run(
    connection: Connection, statement: str, *values: object, binary: bool = False
) -> psycopg.Cursor[Any]:
    """Run a statement, which has no text of a user. ``binary``: the format of its results."""
    return connection.execute(statement.encode(), values or None, binary=binary)


class Connections:
    """The connections of this process to one database, and the indexes of one schema in it.

    Threads may share an object. A forked process opens its own connections.

    - ``conninfo``: a connection string of libpq: a URI, or names and values.
    - ``where``: the host and the database, for messages.
    - ``schema``: the name of the schema with vocabtool's tables; ``quoted`` in SQL.

    Raises :class:`VocabtoolError` if ``conninfo`` is not a connection string, or ``schema`` is no
    name.
    """

    def __init__(self, conninfo: str, *, schema: str = SCHEMA) -> None:
        # In a search path, $user stands for the name of the role, quoted or not.
        if not schema.isprintable() or schema == "$user" or not 0 < len(schema.encode()) < 64:
            wanted = "1 to 63 bytes of printable characters, other than $user"
            raise VocabtoolError(f"the name of a schema must be {wanted}; got {schema[:70]!r}")
        try:
            values = conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:  # its message may quote the password
            wanted = "postgresql://USER@HOST:PORT/DATABASE, with %-escapes"
            raise VocabtoolError(f"not a PostgreSQL address: wanted {wanted}") from None
        self.schema, self.quoted = schema, '"' + schema.replace('"', '""') + '"'
        self._secret = str(values.get("password") or "")
        self._parameters: dict[str, Any] = {**DEFAULTS, **values}
        host = values.get("host") or values.get("hostaddr") or os.environ.get("PGHOST", "localhost")
        port = values.get("port") or os.environ.get("PGPORT", "5432")
        name = values.get("dbname") or os.environ.get("PGDATABASE", "")
        if "@" in f"{host}{name}" or not str(port).replace(",", "").isdigit():
            what = "escape / as %2F and @ as %40 in a user or password"
            raise VocabtoolError(f"not a PostgreSQL address: {what}")
        self.where = f"postgresql://{host}:{port}/{name}"
        if str(host).startswith("/"):  # the folder of a socket
            self.where = f"postgresql:///{name}?host={host}&port={port}"
        self._pool: ConnectionPool[Any] | None = None
        self._process = os.getpid()
        self._lock, self._is_closed = Lock(), False

    def connect(self) -> Connection:
        """Open a connection in autocommit mode. The caller must close it."""
        if self._is_closed:
            raise VocabtoolError(f"{self.where}: the index is closed: open it again")
        try:
            connection = Connection.connect(**self._parameters, autocommit=True)
            try:
                _configure(self.schema, connection)
            except BaseException:
                connection.close()
                raise
        except OperationalError as error:
            reason = self._without_secret(" ".join(str(error).split()))
            advice = next(advice for word, advice in REFUSALS if word in reason)
            what = f"cannot connect: {reason}. Next: {advice}"
            raise VocabtoolError(f"{self.where}: {what}") from None
        return connection

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Open a connection for the ``with`` block, and translate errors of psycopg in it."""
        with self.translate_errors(), self.connect() as connection:
            yield connection

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Call ``work`` with a connection of the pool, and return its result.

        ``work`` must only read, because it is called again if the connection was lost; the pool
        waits for a server that restarts. Raises :class:`VocabtoolError` for errors of the database.
        """
        for left in reversed(range(READ_TRIES)):
            pool = self._open_pool()
            try:
                with pool.connection() as connection:
                    return work(connection)
            except PoolTimeout as error:
                self.connect().close()  # raises an error that says why
                raise VocabtoolError(f"{self.where}: {error}: use fewer threads") from error
            except psycopg.Error as error:
                is_lost = isinstance(error, OperationalError | psycopg.InterfaceError)
                if not left or not is_lost or error.sqlstate not in PASSING:
                    raise self.explain(error) from error
            pool.check()  # removes the other connections that were lost
        raise AssertionError  # the last try returns or raises

    def fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self.read(lambda connection: run(connection, statement, *values).fetchall())

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of psycopg in the ``with`` block as :class:`VocabtoolError`."""
        try:
            yield
        except psycopg.Error as error:
            raise self.explain(error) from error

    def explain(self, error: psycopg.Error) -> VocabtoolError:
        """Make an error whose message explains ``error`` and says what to do next."""
        state = error.sqlstate or ""
        what = error.diag.message_primary or " ".join(str(error).split())
        what = f"{self.where}: {self._without_secret(what)}"
        what += f" (SQLSTATE {state})" if state else ""
        kind = NotFound if state == "42P01" else VocabtoolError
        advice = ADVICE.get(state)
        return kind(f"{what}. {advice[:1].upper()}{advice[1:]}" if advice else what)

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._is_closed = self._pool, None, True
            if pool is not None:
                _close(pool, self._process)

    def _open_pool(self) -> ConnectionPool[Any]:
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

    def _without_secret(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text

    # The indexes of the schema

    def lock(self, connection: Connection, number: int = 0) -> None:
        """Wait for the lock of an index, and hold it until the connection is closed.

        ``number``: of the index; 0 for the lock of the whole schema, to create and rename. Raises
        :class:`FolderInUse` after ``WAIT_SECONDS``.
        """
        digest = blake2b(f"{self.schema}\0{number}".encode(), digest_size=4).digest()
        which = int.from_bytes(digest, "little", signed=True)
        run(connection, "SELECT set_config('lock_timeout', %s, false)", f"{WAIT_SECONDS}s")
        try:
            run(connection, "SELECT pg_advisory_lock(%s, %s)", LOCK, which)
        except LockNotAvailable as error:
            raise FolderInUse(
                f"{self.where}: another process writes to this index, and did not end within "
                f"{WAIT_SECONDS:g} seconds. An index has one writer at a time: run this again when "
                "the other one has ended. The view pg_locks (locktype 'advisory') shows it"
            ) from error
        run(connection, "RESET lock_timeout")  # to what the address or the role says

    def has_tables(self, connection: Connection) -> bool:
        """Return whether the schema has vocabtool's tables. Raises an error for another version's.

        The function to_regclass would not do: it may remember that a table was not there.
        """
        statement = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version'"
        if run(connection, statement, self.schema).fetchone() is None:
            return False
        numbers = [number for (number,) in run(connection, "SELECT number FROM version")]
        if numbers != [VERSION]:
            raise VocabtoolError(
                f"{self.where}: another version of vocabtool made the tables in the schema "
                f"{self.schema!r} (layout {', '.join(map(str, numbers))}, wanted {VERSION}): index "
                "again, in another schema (&schema=NAME), or after DROP SCHEMA"
            )
        return True

    def find_index(self, name: str) -> int:
        """Return the number of an index. Raises :class:`NotFound` if there is no such index."""

        def find(connection: Connection) -> Any:
            statement = "SELECT number FROM indexes WHERE name = %s"
            return self.has_tables(connection) and run(connection, statement, name).fetchone()

        if row := self.read(find):
            return int(row[0])
        raise NotFound(f"{self.where}: no index {name!r}; create one with `vocabtool index`")

    def read_manifest(self, connection: Connection, number: int) -> Manifest:
        """``rows`` is the number of documents. Raises :class:`NotFound` for a removed index."""
        statement = "SELECT record FROM indexes WHERE number = %s"
        row = run(connection, statement, number).fetchone()
        if row is None:
            raise NotFound(f"{self.where}: {GONE}")
        with reading(self.where):
            return Manifest.decode(row[0])

    def create_index(self, name: str, manifest: Manifest, files: Mapping[str, bytes]) -> int:
        """Create an empty index, and the schema if it is missing, in one transaction.

        ``files``: the files of the model by their names, to be stored in the database. Returns the
        number of the index. Raises :class:`FolderNotEmpty` if there is an index with this name.
        """
        configuration = manifest.configuration
        with self.connected() as connection:
            version = self._check_database(connection)
            is_half = configuration.dtype == "float16" and version >= HALF
            with connection.transaction():
                self.lock(connection)
                if not self.has_tables(connection):
                    first = secrets.randbelow(1 << 30) + 1
                    create = CREATE_SCHEMA.format(schema=self.quoted, version=VERSION, first=first)
                    run(connection, create)
                row = run(
                    connection,
                    "INSERT INTO indexes (name, record) VALUES (%s, %s)"
                    " ON CONFLICT (name) DO NOTHING RETURNING number",
                    *(name, manifest.encode()),
                ).fetchone()
                if row is None:
                    raise FolderNotEmpty(
                        f"{self.where}: already contains an index {name!r}. Add to it (in Python: "
                        "Index.open), start over with --force (force=True), or choose another name"
                    )
                vector = f"{'halfvec' if is_half else 'vector'}({configuration.dim:d})"
                companions = ", ".join(f"{own} {type_}" for own, type_ in OWN_COLUMNS)
                names = {"schema": self.quoted, "vector": vector, "companions": companions}
                run(connection, CREATE_INDEX.format(n=row[0], **names))
                for file, content in files.items():
                    run(connection, f"INSERT INTO facts_{row[0]} VALUES (%s, %s)", file, content)
        return int(row[0])

    def _check_database(self, connection: Connection) -> tuple[int, ...]:
        """Return the version of pgvector. Raises :class:`VocabtoolError` for another database."""
        server = connection.info.parameter_status("server_version")
        encoding = connection.info.parameter_status("server_encoding")
        row = run(connection, PGVECTOR).fetchone()
        is_old = connection.info.server_version < 140_000
        if is_old or encoding != "UTF8" or row is None:
            version = "none: install pgvector on the server" if row is None else row[0]
            raise VocabtoolError(
                f"{self.where}: wanted PostgreSQL 14 or later, got {server}; the encoding UTF8, got"
                f" {encoding} (CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'); and the"
                f" extension vector, got {version} (CREATE EXTENSION vector, in most installations"
                " as a superuser)"
            )
        return version_numbers(row[0])

    def drop_index(self, number: int, name: str, *, if_empty: bool = False) -> bool:
        """Wait for the writer of an index, and remove the index with all its documents.

        - ``name``: the name that the index must still have.
        - ``if_empty``: remove it only if it has no documents, also of the writer that it waits for.

        Returns whether the index was removed.
        """

        def drop() -> bool:
            statement = "DELETE FROM indexes WHERE number = %s AND name = %s"
            statement += " AND documents = 0" if if_empty else ""
            is_removed = run(connection, statement, number, name).rowcount > 0
            if is_removed:
                self._drop_tables(connection, number)
            return is_removed

        with self.connected() as connection:
            self.lock(connection, number)
            return change_tables(connection, drop)

    def replace_index(self, new: int, name: str) -> None:
        """In one transaction, remove the index called ``name``, and give this name to ``new``."""

        def put_in_place() -> None:
            for (old,) in replaced:
                run(connection, "DELETE FROM indexes WHERE number = %s", old)
                self._drop_tables(connection, old)
            renamed = "UPDATE indexes SET name = %s WHERE number = %s"
            if not run(connection, renamed, name, new).rowcount:  # the error rolls all back
                what = "the replacement was removed by another process; the earlier index stays"
                raise NotFound(f"{name}: {what}")
            run(connection, f"DELETE FROM facts_{new:d} WHERE name = %s", NAME_OF_BUILD)

        with self.connected() as connection:
            self.lock(connection)
            statement = "SELECT number FROM indexes WHERE name = %s AND number <> %s"
            replaced = run(connection, statement, name, new).fetchall()
            for (old,) in replaced:
                self.lock(connection, old)
            change_tables(connection, put_in_place)

    def _drop_tables(self, connection: Connection, number: int) -> None:
        names = ", ".join(f"{self.quoted}.{name}_{number:d}" for name in TABLES)
        run(connection, f"DROP TABLE IF EXISTS {names}")


def _configure(schema: str, connection: Connection) -> None:
    """Look for tables in ``schema`` first, then in the schema of pgvector. Switch JIT off."""
    run(
        connection,
        "SELECT set_config('search_path', concat_ws(', ', quote_ident(%s), coalesce("
        "(SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n"
        " ON n.oid = extnamespace WHERE extname = 'vector'), 'public'), 'pg_temp'), false),"
        # To compile a statement takes longer than to run it.
        " set_config('jit', 'off', false)",
        schema,
    )


def _close(pool: ConnectionPool[Any], process: int) -> None:
    if os.getpid() == process:
        pool.close()


@contextmanager
def one_commit(connection: Connection) -> Iterator[None]:
    """Run the ``with`` block in a transaction whose statements all see the same commit."""
    with connection.transaction():
        run(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        run(connection, "SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


def change_tables(connection: Connection, change: Callable[[], Result]) -> Result:
    """Call ``change`` in a transaction, and repeat it while searches use the tables.

    Each try waits only a moment for a lock on a table, because new searches wait behind it.
    """
    for tried in range(TABLE_TRIES):
        try:
            with connection.transaction():
                run(connection, "SELECT set_config('lock_timeout', %s, true)", TABLE_WAIT)
                return change()
        except (DeadlockDetected, LockNotAvailable):
            if tried + 1 == TABLE_TRIES:
                raise
        time.sleep(min(0.05 * 2**tried, LAST_PAUSE))
    raise AssertionError  # the last try returns or raises


def key_of(id_: str) -> UUID:
    """Return the hash of a document's id for the column ``key``."""
    return UUID(bytes=blake2b(storable(id_).encode(), digest_size=16).digest())


def stored_text(term: str) -> str:
    """Return the stored form of a term. A long term is cut, and the term's hash is appended."""
    term = storable(term)
    encoded = term.encode()
    if len(encoded) <= MAX_TERM_BYTES:
        return term
    return f"{term[:SHOWN_TERM]} {blake2b(encoded, digest_size=16).hexdigest()}"


def version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(".") if number.isdigit())
