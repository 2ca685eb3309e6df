"""An index in PostgreSQL, by the public ``Index``, while other processes use the same database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_indexes import ids
from vocabtool import Document, Index
from vocabtool.stores.postgres.reader import PostgresStore

DIM: Final = 4
COUNT: Final = 40  # more than an export fetches at first
TEXTS: Final = {f"d{at:02}": f"amber word{at} SKU-{at}" for at in range(COUNT)}
VECTORS: Final = np.eye(DIM, dtype=np.float32)[np.arange(COUNT) % DIM]


@pytest.fixture
def database(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A connection to a new database with pgvector, without an index."""
    import psycopg

    monkeypatch.setenv("VOCABTOOL_CACHE", str(tmp_path / "cache"))
    with psycopg.connect(postgres_server.new_database(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        yield connection


@pytest.fixture
def address(database: Any) -> str:
    """The address of the index ``test``, which is not there yet."""
    info = database.info
    return f"postgresql://{info.user}@/{info.dbname}?host={info.host}&port={info.port}&index=test"


@pytest.fixture
def index(address: str) -> Index:
    """With all of ``TEXTS``."""
    made = Index.create(address, dim=DIM)
    with made.writer() as writer:
        writer.add([Document(*each) for each in TEXTS.items()], VECTORS)
    return made


def test_reads_while_others_delete(
    index: Index, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for a document is told what is there now, not that it changed meanwhile."""
    other, real = Index.open(address), (PostgresStore.fetch_documents, PostgresStore.take)
    left = ["d01", "d03", "d05", "d07"]

    def deletes_first(self: Any, which: int, rows: Any) -> Any:
        if left:
            other.delete([left.pop(0)])
        return real[which](self, rows)

    for which, name in enumerate(("fetch_documents", "take")):
        monkeypatch.setattr(PostgresStore, name, partialmethod(deletes_first, which))
    assert index.get("d01") is None
    assert index.get_many(["d02", "d03"]) == {"d02": Document("d02", TEXTS["d02"])}
    assert {*index.vectors(["d04", "d05"])} == {"d04"}
    assert "d07" not in ids(index.similar("d06", k=COUNT))
    assert left == []


def test_an_export_is_of_one_commit(index: Index, address: str, tmp_path: Path) -> None:
    """What is deleted or added after its beginning makes no difference."""
    other, file = Index.open(address), tmp_path / "all.jsonl"
    listed, found = index.ids(), index.documents("id >= 'd01'")
    assert (next(listed), next(found).id) == ("d00", "d01")

    def change(_: str, share: float) -> None:
        if share < 1:
            other.delete(where="id >= 'd20' and id < 'd30'")

    assert index.export(file, vectors=True, progress=change) == COUNT
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["id"]: row["text"] for row in rows} == TEXTS
    assert np.array_equal(np.load(tmp_path / "all.vectors.npy"), VECTORS)
    assert [*listed] == [*TEXTS][1:]
    assert [each.id for each in found] == [*TEXTS][2:]
    assert len([*index.ids()]) == COUNT - 10
