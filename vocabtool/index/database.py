"""The database of an index: ids, texts and fields of its documents, and the commit itself.

    index.db       SQLite in WAL mode, with its journal beside it while it is open (-wal, -shm)
      record       one row: the manifest of the last commit, and the bitmap of its deleted rows
      documents    row, id, text
      fields       row, source, hash of its text, and a column for each kept field:
                   numbers as numbers, booleans as 1 and 0, others as text; each column is indexed.
                   The source is a number:
                   above 0   the number of the file that the document is from
                   0         no file, and the user passed the vector
                   -1        no file, and the model of the index made the vector

The values of a field have one kind:

    null      only nulls so far
    integer   64-bit integers
    number    integers and 64-bit floating-point numbers (IEEE 754)
    boolean   true and false
    string    all other values; lists and objects as JSON text

The COMMIT of a writer's SQL transaction commits the whole index. Before the COMMIT, the writer
flushes the other files. If the writer is killed, these files may have more rows than the record
states, but never fewer.

A reader ignores rows that its manifest does not count, and rows that its bitmap marks. An update
adds a row and marks the old row as deleted, so a reader continues to see its commit. Readers do not
keep transactions open, because these would delay the checkpoint, which empties the journal.
"""

from __future__ import annotations

import os
import re
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import quote_from_bytes

import numpy as np
import pyarrow as pa

from vocabtool.documents.batch import Kind
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError
from vocabtool.search.conditions import LEAST, MOST
from vocabtool.system.own_files import is_disk_full, no_space
from vocabtool.system.ranking import Rows
from vocabtool.vocabulary import text_bytes

NAME: Final = "index.db"
ENCODED: Final = -1  # the source of a row without a file whose vector the index's model made
JOURNALS: Final = (f"{NAME}-wal", f"{NAME}-shm")
CACHE_KIB: Final = 64 << 10
SETTINGS: Final = f"PRAGMA case_sensitive_like = ON; PRAGMA cache_size = -{CACHE_KIB};"
TRANSACTION: Final = "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = FULL; BEGIN IMMEDIATE;"
WAIT_SECONDS: Final = 60.0
CHECKPOINT_WAIT: Final = 500  # milliseconds; then the next commit empties the journal
PARAMETERS: Final = 10_000  # in one statement
READ_ROWS: Final = (128, 4096)  # read at once, minimum and maximum: their texts are in memory
READ_BYTES: Final = 1 << 20  # target size of the texts that are read at once
SCHEMA: Final = """
PRAGMA journal_mode = WAL;
CREATE TABLE record (data BLOB NOT NULL, deleted BLOB NOT NULL);
CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX documents_by_id ON documents (id);
CREATE TABLE fields (row INTEGER PRIMARY KEY, source INTEGER NOT NULL, text_hash INTEGER NOT NULL);
CREATE INDEX fields_by_text ON fields (text_hash);
CREATE INDEX fields_by_source ON fields (source);
"""
PLAIN: Final[dict[Kind, str]] = {
    "null": "nothing",
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "true and false",
    "string": "strings",
}
# RFC 8259, section 6; integers have at most the 19 digits of 64 bits
BOOLEAN: Final = "true|false"
INTEGER: Final = "-?(0|[1-9][0-9]{0,18})"
NUMBER: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
MAX_FIELDS: Final = 256
DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

NOT_WRITABLE: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)

Value = bytes | int | float | None
Fields = Mapping[str, Kind]
Result = TypeVar("Result")

_OPEN: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
_LOCKED: Final[list[Database]] = []  # during a fork
_INHERITED: Final[list[sqlite3.Connection]] = []  # from the parent process; must not be closed here


def text_hash(text: bytes) -> int:
    """Return 64 bits of BLAKE2b as a signed integer."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def column(fields: Fields, name: str) -> str:
    return f"field_{[*fields].index(name)}"


def union(one: Kind, other: Kind) -> Kind:
    """Return the narrowest kind that fits values of both kinds."""
    if other in (one, "null"):
        return one
    if one == "null":
        return other
    return "number" if {one, other} == {"integer", "number"} else "string"


def values_of(texts: pa.StringArray, kind: Kind) -> list[Value]:
    """Convert texts to values for the database. Values of the kind ``string`` are ``bytes``."""
    if kind == "integer":
        whole: list[Value] = texts.cast(pa.int64()).to_pylist()
        return whole
    values: list[bytes | None] = texts.view(pa.binary()).to_pylist()
    if kind in ("string", "null"):
        return [*values]
    return [None if text is None else value_of(text.decode(), kind) for text in values]


def value_of(text: str, kind: Kind) -> int | float:
    """Convert a boolean to 0 or 1, a 64-bit integer to ``int``, another number to ``float``."""
    if kind == "boolean":
        return int(text == "true")
    if re.fullmatch(INTEGER, text) and LEAST <= int(text) <= MOST:
        return int(text)
    return float(text)


def id_in_utf8(id_: str) -> str:
    """Replace invalid UTF-8 in an id by U+FFFD. Raises ``ValueError`` if it is no string."""
    if not isinstance(id_, str):
        raise ValueError(f"an id must be a string, got {type(id_).__name__}")
    return text_bytes(id_).decode("utf-8", "replace")


def file_state(file: Path) -> tuple[int, int, int]:
    """Return what each commit changes: size and time of the file, and the journal's size."""
    stat, journal = file.stat(), file.with_name(JOURNALS[0])
    try:
        return stat.st_size, stat.st_mtime_ns, journal.stat().st_size
    except FileNotFoundError:
        return stat.st_size, stat.st_mtime_ns, 0


class Database:
    """The database of one generation of an index, open for reading.

    Every method may raise :class:`NotFound`, or :class:`InvalidFile` with the file name. Threads
    share one connection, one statement at a time.
    """

    opening = SETTINGS

    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False
        self._inode = 0
        self._as_opened: tuple[int, int, int] | None = None  # only of a file opened as immutable
        self._lock = Lock()
        _OPEN.add(self)
        with self.statements():
            pass

    @contextmanager
    def statements(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, locked against other threads."""
        try:
            with self._lock:
                if self._is_closed:
                    index = self.file.parent.parent
                    raise VocabtoolError(f"{index}: the index is closed; open it again")
                if self._connection is not None and self._is_outdated():
                    self._connection.close()
                    self._connection = None
                if self._connection is None:
                    if not self.file.is_file():
                        raise NotFound(f"{self.file}: no such file")
                    self._connection = self._connect()
                    weakref.finalize(self, _close, self._connection, os.getpid())
                yield self._connection
        except FileNotFoundError as error:
            raise NotFound(f"{self.file}: no such file") from error
        except sqlite3.Error as error:
            if not self.file.is_file():
                raise NotFound(f"{self.file}: no such file") from error
            code = getattr(error, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in DAMAGED:
                what = f"damaged, or not a database of vocabtool: {error}"
                raise InvalidFile(what, file=str(self.file)) from error
            is_io_error = code is not None and code & 0xFF == sqlite3.SQLITE_IOERR
            if is_io_error and is_disk_full(self.file.parent):
                raise no_space(self.file) from error
            raise VocabtoolError(f"{self.file}: SQLite failed: {error}") from error
        except UnicodeDecodeError as error:  # SQLite quotes the damaged schema in its message
            raise InvalidFile("damaged: its schema is not UTF-8", file=str(self.file)) from error

    def _connect(self) -> sqlite3.Connection:
        """Open the file, also if this process may not write it.

        SQLite reads such a file beside the journal of a writer. Without a journal, it reads the
        file only as immutable: then a connection is good until a writer changes the file.
        """
        self._inode, now, self._as_opened = self.file.stat().st_ino, file_state(self.file), None
        try:
            return self._connection_in("mode=rw")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in NOT_WRITABLE or now[-1]:
                raise
        self._as_opened = now
        return self._connection_in("mode=ro&immutable=1")

    def _connection_in(self, mode: str) -> sqlite3.Connection:
        """Open the file; ``mode``: the parameters of its URI (sqlite.org/uri.html)."""
        connection = sqlite3.connect(
            f"file:{quote_from_bytes(os.fsencode(self.file))}?{mode}",
            timeout=WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        try:
            connection.executescript(self.opening)
        except (sqlite3.Error, UnicodeDecodeError):
            connection.close()
            raise
        return connection

    def _is_outdated(self) -> bool:
        """Whether a writer has changed the file since it was opened as immutable."""
        # A writer does not change a file that is no longer there.
        return (
            self._as_opened is not None
            and self.is_there
            and self._as_opened != file_state(self.file)
        )

    @property
    def is_there(self) -> bool:
        """Whether the opened file still exists and was not replaced."""
        try:
            return self.file.stat().st_ino == self._inode
        except OSError:
            return False

    def fetch(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._read(sqlite3.Cursor.fetchall, statement, parameters)

    def fetch_rows(self, statement: str, parameters: Sequence[object] = ()) -> Rows:
        """Return the row numbers that a statement selects: int64, shape (n,)."""

        def read(cursor: sqlite3.Cursor) -> Rows:
            return np.fromiter((row for (row,) in cursor), np.int64)

        rows = self._read(read, statement, parameters)
        if rows.min(initial=0) < 0:
            raise InvalidFile(f"damaged: row number {rows.min()} is negative", file=str(self.file))
        return rows

    def _read(self, read: Callable[[sqlite3.Cursor], Result], *statement: Any) -> Result:
        """Return what ``read`` returns. Call it again if the immutable file changed meanwhile."""
        while True:
            try:
                with self.statements() as connection:
                    answer = read(connection.execute(*statement))
            except InvalidFile:
                if not self._is_outdated():
                    raise
            else:
                if not self._is_outdated():
                    return answer

    def select(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a statement for each batch of ``values``; return the rows of all its results.

        ``(?...)`` in the statement stands for the values of a batch, at most 10,000.
        """
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(values), PARAMETERS):
            batch = values[start : start + PARAMETERS]
            marks = ",".join("?" * len(batch))
            rows += self.fetch(statement.replace("(?...)", f"({marks})"), batch)
        return rows

    def rows_of(self, ids: Sequence[str]) -> dict[str, list[int]]:
        """Return the rows of each known id, ascending, including deleted and uncommitted rows."""
        rows: dict[str, list[int]] = {}
        # With ORDER BY row, SQLite would read the whole table for many ids.
        statement = "SELECT id, row FROM documents WHERE id IN (?...)"
        for id_, row in sorted(self.select(statement, ids)):
            rows.setdefault(id_, []).append(row)
        return rows

    def fetch_each(self, columns: str, tables: str, rows: Rows) -> list[tuple[Any, ...]]:
        """Return the values of ``columns`` for each of ``rows``, in the same order.

        The first columns must be ``row`` and ``id``, perhaps followed by ``text``.
        """
        statement = f"SELECT {columns} FROM {tables} WHERE row IN (?...)"
        numbers = rows.tolist()
        by_row = {values[0]: values for values in self.select(statement, numbers)}
        try:
            fetched = [by_row[row] for row in numbers]
        except KeyError as error:
            missing = f"row {error.args[0]:,} is missing"
            raise InvalidFile(missing, file=str(self.file)) from None
        for values in fetched:
            if {*map(type, values[1:3])} != {str}:  # id and text
                raise InvalidFile(f"damaged: row {values[0]:,}", file=str(self.file))
        return fetched

    def checked_rows(self, rows: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield lists of (row, id, text, source, hash, *values). Raises :class:`InvalidFile`."""
        (result,) = self.fetch("PRAGMA integrity_check(1)")[0]
        if result != "ok":
            raise InvalidFile(f"damaged: {result}", file=str(self.file))
        names = [name for _, name, *_ in self.fetch("PRAGMA table_info(fields)")]
        columns = "".join(f", {name}" for name in names if name.startswith("field_"))
        statement = (
            f"SELECT documents.row, id, text, source, text_hash{columns} FROM documents JOIN fields"
            " ON fields.row = documents.row WHERE documents.row >= ? AND documents.row < ?"
            " ORDER BY documents.row"
        )
        first, step = 0, READ_ROWS[0]
        while first < rows:
            end, size = min(first + step, rows), 0
            batch = self.fetch(statement, (first, end))
            if [row for row, *_ in batch] != [*range(first, end)]:
                raise InvalidFile(
                    f"damaged: rows {first:,} to {end - 1:,} are incomplete", file=str(self.file)
                )
            for row, id_, text, _, recorded, *_ in batch:
                if not isinstance(id_, str) or not isinstance(text, str):
                    raise InvalidFile(f"damaged: row {row:,}", file=str(self.file))
                encoded = text.encode(errors="surrogateescape")
                size += len(encoded)
                if text_hash(encoded) != recorded:
                    raise InvalidFile(f"damaged: text of row {row:,}", file=str(self.file))
            yield batch
            step = sorted((*READ_ROWS, len(batch) * READ_BYTES // max(1, size)))[1]
            first = end

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class DatabaseWriter(Database):
    """A write transaction on the database. An index has at most one at a time."""

    opening = SETTINGS + TRANSACTION

    @classmethod
    def create(cls, folder: Path) -> None:
        (folder / NAME).write_bytes(b"")
        database = Database(folder)
        with database.statements() as connection:
            connection.executescript(SCHEMA)
        database.close()

    def append(
        self,
        first: int,
        ids: Sequence[str],
        texts: Sequence[str],
        facts: Iterable[Sequence[object]],
        columns: Sequence[str] = (),
    ) -> None:
        """``facts``: for each row its source's number, its text's hash and the ``columns``."""
        numbers = range(first, first + len(ids))
        names = "".join(f", {name}" for name in columns)
        places = "".join(f", ? AS {name}" for name in columns)
        values = "".join(
            f", CASE typeof({name}) WHEN 'blob' THEN CAST({name} AS TEXT) ELSE {name} END"
            for name in columns
        )
        with self.statements() as connection:
            connection.executemany(
                "INSERT INTO documents VALUES (?, ?, ?)", zip(numbers, ids, texts, strict=True)
            )
            connection.executemany(
                f"INSERT INTO fields (row, source, text_hash{names}) SELECT a, b, c{values}"
                f" FROM (SELECT ? AS a, ? AS b, ? AS c{places})",
                ((row, *values) for row, values in zip(numbers, facts, strict=True)),
            )

    def add_columns(self, count: int) -> None:
        names = {name for _, name, *_ in self.fetch("PRAGMA table_info(fields)")}
        with self.statements() as connection:
            for at in range(count):
                if f"field_{at}" not in names:
                    connection.execute(f"ALTER TABLE fields ADD COLUMN field_{at}")

    def set_kind(self, name: str, kind: Kind, first: int) -> None:
        """Convert a column to ``kind`` from row ``first`` on, and create its SQL index."""
        with self.statements() as connection:
            if kind != "string":
                connection.create_function(
                    "as_value", 1, lambda text: value_of(text, kind), deterministic=True
                )
                connection.execute(
                    f"UPDATE fields SET {name} = as_value({name})"
                    f" WHERE row >= ? AND {name} IS NOT NULL",
                    (first,),
                )
            connection.execute(f"CREATE INDEX by_{name} ON fields ({name})")

    def commit(self, data: bytes, deleted: bytes) -> None:
        """Commit a manifest and a bitmap of deleted rows durably; begin a new transaction."""
        with self.statements() as connection:
            if not connection.in_transaction:  # SQLite rolls back by itself after some errors
                raise VocabtoolError(
                    f"{self.file}: the change was rolled back after an error; run it again"
                )
            connection.execute("DELETE FROM record")
            connection.execute("INSERT INTO record VALUES (?, ?)", (data, deleted))
            connection.execute("COMMIT")
            connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT}")
            with suppress(sqlite3.OperationalError):  # a full disk; the commit is made
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {int(WAIT_SECONDS * 1000)}")
            connection.execute("BEGIN IMMEDIATE")


def _close(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection that is no longer used, in the process that opened it."""
    if os.getpid() == process:
        connection.close()


def _before_fork() -> None:
    """Close connections that have no transaction; a child process must not use them."""
    for database in [*_OPEN]:
        database._lock.acquire()
        _LOCKED.append(database)
        if database._connection is not None and not database._connection.in_transaction:
            database._connection.close()
            database._connection = None


def _after_fork_in_parent() -> None:
    """Let the threads of the parent use their connections again."""
    while _LOCKED:
        _LOCKED.pop()._lock.release()


def _after_fork_in_child() -> None:
    """Set the parent's connections aside; a child process must neither use nor close them."""
    while _LOCKED:
        database = _LOCKED.pop()
        if database._connection is not None:
            _INHERITED.append(database._connection)
        database._connection, database._lock = None, Lock()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
