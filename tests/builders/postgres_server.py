"""Real PostgreSQL servers with pgvector, from a package: one for a session, or one for a test."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

NUMBERS: Final = count()


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server that listens on a Unix socket in its own folder."""

    handle: Any

    def address(self, database: str = "postgres") -> str:
        """Of a database, for ``psycopg.connect``."""
        return str(self.handle.get_uri(database=database))

    def new_database(self, locale: str = "C") -> str:
        """The address of a new database with pgvector; with ``&index=NAME``, that of an index."""
        import psycopg
        from psycopg.sql import SQL, Identifier, Literal

        name = f"test_{next(NUMBERS)}"
        made = SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE {}")
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(made.format(Identifier(name), Literal(locale)))
        with psycopg.connect(self.address(name)) as connection:
            connection.execute("CREATE EXTENSION vector")
        return self.address(name)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server of its own, stopped and removed at the end. Skips the test without the package."""
    pytest.importorskip("psycopg", reason="no client: psycopg is not installed")
    with warnings.catch_warnings(action="ignore"):  # it misses a folder for its lock, and makes one
        pgserver = pytest.importorskip("pgserver", reason="no server: pgserver is not installed")
    with TemporaryDirectory(prefix="pg") as folder:
        handle = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield PostgresServer(handle)
        finally:
            handle.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of this process; each test makes a database of its own."""
    with running_server() as server:
        yield server
