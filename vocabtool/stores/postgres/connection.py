"""Connect to a PostgreSQL database, try again after lost connections, and explain errors.

A password may be in the address, in PGPASSWORD or in the file PGPASSFILE. No message contains the
password.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.stores.postgres.schema import SCHEMA, pauses

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection
    from psycopg.sql import Composed
    from psycopg_pool import ConnectionPool

INSTALL: Final = "PostgreSQL needs psycopg: pip install '.[postgres]'"
WAIT_SECONDS: Final = 60.0  # for a server that restarts
POOL_SIZE: Final = 16
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
OF_STATES: Final = {
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
        from psycopg import Connection, OperationalError

        if self._is_closed:
            raise VocabtoolError(f"{self.where}: the index is closed: open it again")
        until = time.monotonic() + wait
        for pause in pauses():
            try:
                connection = Connection.connect(**self._parameters, autocommit=True)
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

        ``work`` must only read, because it is called again if the connection was lost.

        Raises :class:`VocabtoolError` for errors of the database.
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
                        if not is_lost(error, connection) and not is_conflict(error):
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

    def fetch(
        self, statement: Composed, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        return self.read(lambda connection: connection.execute(statement, parameters).fetchall())

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of psycopg in the ``with`` block as :class:`VocabtoolError`."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self.explain(error) from error

    def explain(self, error: psycopg.Error, written: str = "") -> VocabtoolError:
        """Make an error whose message explains ``error`` and says what to do next.

        ``written``: a sentence that says which changes were written. It is put in the message.
        """
        state = error.sqlstate or ""
        what = error.diag.message_primary or " ".join(str(error).split())
        if self._secret:
            what = what.replace(self._secret, "***")
        what = f"{self.where}: {what}" + (f" (SQLSTATE {state})" if state else "")
        what += f". {written}" if written else ""
        kind = NotFound if state == "42P01" else VocabtoolError
        advice = OF_STATES.get(state) or ("" if state else UNREACHABLE)
        return kind(f"{what}. {advice[:1].upper()}{advice[1:]}" if advice else what)

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._is_closed = self._pool, None, True
            if pool is not None and self._process == os.getpid():
                pool.close()

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
        said = " ".join(str(error).split())
        if self._secret:
            said = said.replace(self._secret, "***")
        advice = next((advice for part, advice in REFUSALS if part in said), UNREACHABLE)
        return VocabtoolError(f"{self.where}: cannot connect: {said}. Next: {advice}")


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


def is_conflict(error: psycopg.Error) -> bool:
    """Return whether a concurrent transaction caused an error, so that a retry may succeed."""
    from psycopg.errors import DeadlockDetected, SerializationFailure

    return isinstance(error, DeadlockDetected | SerializationFailure)
