"""Our own stores fulfil the contract that we ship for those of others."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.builders.postgres_server import PostgresServer
from vocabtool import Index, UnsupportedFormat
from vocabtool.testing import StoreContract

NUMBERS: Final = count()


class TestEmbedded(StoreContract):
    """A folder."""

    def new_address(self, tmp_path: Path) -> str:
        return str(tmp_path / "index")


class TestPostgres(StoreContract):
    """An index in a database of a real server."""

    keeps_null = False
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

    def test_by_an_entry_point(
        self, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another package names an engine; here it is this one, under a scheme of its own."""
        theirs = address.replace("postgresql://", "elsewhere://")
        with pytest.raises(UnsupportedFormat, match=r"'elsewhere'.*postgresql"):
            Index.open(theirs)
        facts = tmp_path / "elsewhere-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
        engine = "vocabtool.stores.postgres.engine:PostgresEngine"
        (facts / "entry_points.txt").write_text(f"[vocabtool.stores]\nelsewhere = {engine}\n")
        monkeypatch.syspath_prepend(tmp_path)
        with Index.create(theirs, dim=2).writer() as writer:
            writer.add(["found there"], [[1, 2]])
        assert Index.open(theirs).search("found")[0].text == "found there"
        assert len(Index.open(address)) == 1
