"""Our own stores fulfil the contract that we ship for those of others."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.builders.postgres_server import PostgresServer
from vocabtool.testing import StoreContract

NUMBERS: Final = count()


class TestEmbedded(StoreContract):
    """A folder."""

    def new_address(self, tmp_path: Path) -> str:
        return str(tmp_path / "index")


class TestPostgres(StoreContract):
    """An index in a database of a real server."""

    database: str

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _database(cls, postgres_server: PostgresServer) -> None:
        import psycopg

        cls.database = postgres_server.new_database()
        with psycopg.connect(cls.database, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")

    def new_address(self, tmp_path: Path) -> str:
        return f"{self.database}{'&' if '?' in self.database else '?'}index=index{next(NUMBERS)}"
