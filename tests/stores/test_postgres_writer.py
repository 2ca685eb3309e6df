"""The writer of PostgreSQL: commits, one writer at a time, hostile names, errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.builders.postgres_server import PostgresServer
from tests.builders.postgres_store import (
    commit,
    delete,
    new_index,
    open_writer,
    put,
    texts_in,
)
from vocabtool import Document, VocabtoolError
from vocabtool.errors import FolderInUse
from vocabtool.index.postgres import database as schema
from vocabtool.index.postgres.database import Connections
from vocabtool.index.postgres.store import recount
from vocabtool.index.postgres.transaction import PostgresTransaction

HOSTILE = (
    *("'; DROP SCHEMA vocabtool CASCADE; --", '"', "\\", "%s", "{documents}", "$1"),
    *("Ärger", "名前", "x" * 200, " ", "\n", "NULL", "\\N", "\\."),
)


@pytest.fixture
def address(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


@pytest.fixture
def connections(address: str) -> Iterator[Connections]:
    made = new_index(address)
    yield made
    made.close()


def fetch(connections: Connections, statement: str) -> list[tuple[Any, ...]]:
    return connections.fetch(statement.replace("{n}", str(connections.find_index("test"))))


def test_a_commit_is_seen_as_a_whole(connections: Connections) -> None:
    """Before it nothing; then terms, numbers and vectors as a person counts them."""
    changes = open_writer(connections)
    put(changes, [Document("a", "amber birch amber", {"n": 1}), Document("b", "SKU-7 birch")])
    assert texts_in(connections) == {}
    assert changes.find_existing(["a", "x"]).keys() == {"a"}
    commit(changes)
    assert texts_in(connections) == {"a": "amber birch amber", "b": "SKU-7 birch"}
    held = "SELECT t.text, d.id, p.frequency, p.length FROM postings_{n} p"
    held += " JOIN terms_{n} t USING (term) JOIN documents_{n} d USING (doc) ORDER BY 2, 1"
    assert fetch(connections, held) == [
        *(("amber", "a", 2, 3), ("birch", "a", 1, 3)),
        *(("7", "b", 1, 3), ("birch", "b", 1, 3), ("sku", "b", 1, 3), ("sku-7", "b", 1, 3)),
    ]
    assert (
        fetch(connections, "SELECT vector::text, field_0 FROM documents_{n} ORDER BY id")[1][1]
        is None
    )
    put(changes, [Document("a", "cedar", {"n": 2.5})])
    delete(changes, ["b", "x"])
    assert changes.find_existing(["a", "b"]).keys() == {"a"}
    commit(changes)
    manifest = changes.manifest
    assert (manifest.rows, manifest.words, manifest.commit) == (1, 1, 2)
    assert manifest.fields == {"n": "number"}
    assert texts_in(connections) == {"a": "cedar"}
    put(changes, [Document("c", "lost")])
    changes.close()
    assert texts_in(connections) == {"a": "cedar"}


def test_hostile_names(address: str) -> None:
    """Names of indexes are values and nothing else."""
    for name in HOSTILE:
        changes = open_writer(new_index(address, name), name)
        put(changes, [Document(name, "amber")])
        commit(changes)
        changes.close()
        assert texts_in(Connections(address), name) == {name: "amber"}
    assert {name for (name,) in Connections(address).fetch("SELECT name FROM indexes")} == {
        *HOSTILE
    }


def test_one_writer_at_a_time(
    connections: Connections, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one waits until the first is closed, for a limited time; each schema has its own."""
    one, second = open_writer(connections), Connections(address, schema="second")
    with second.connect() as connection:
        second.lock(connection, connections.find_index("test"))
    with monkeypatch.context() as impatient:
        impatient.setattr(schema, "WAIT_SECONDS", 0.1)
        with pytest.raises(FolderInUse, match=r"another process writes .* within 0.1 seconds"):
            open_writer(connections)
    put(one, [Document("a", "from one", {"x": 1})])
    others: list[PostgresTransaction] = []
    waiting = threading.Thread(target=lambda: others.append(open_writer(connections)))
    waiting.start()
    commit(one)
    assert others == []
    one.close()
    waiting.join()
    (other,) = others
    assert (other.manifest.rows, other.manifest.commit) == (1, 1)
    put(other, [Document("a", "from other", {"y": "word"})])
    commit(other)
    other.close()
    assert texts_in(connections) == {"a": "from other"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_commit(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The connection is lost before COMMIT arrives, or its answer is: the error says so."""
    import psycopg

    real = psycopg.Connection.execute

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == b"COMMIT":
            if moment == "after":
                real(self, query)
            self.close()
        return real(self, query, *arguments, **options)

    changes = open_writer(connections)
    put(changes, [Document("a", "amber")])
    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    with pytest.raises(VocabtoolError, match="Whether the last commit was written is unknown"):
        commit(changes)
    changes.close()
    assert texts_in(connections) == ({"a": "amber"} if moment == "after" else {})


def test_more_than_the_buffer(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushed changes are committed with the others, or not at all."""
    monkeypatch.setattr("vocabtool.index.postgres.transaction.BUFFER_BYTES", 10_000)
    changes = open_writer(connections)
    for turn in range(5):
        put(changes, [Document(f"d{at}", f"turn{turn}") for at in range(20)])
    assert texts_in(connections) == {}
    commit(changes)
    assert texts_in(connections) == {f"d{at}": "turn4" for at in range(20)}
    put(changes, [Document(f"e{at}", "word") for at in range(20)])
    put(changes, [Document("f", "birch", {"year": 1})])
    told = r"a field is new, but 20 .*Nothing of this commit was written"
    with pytest.raises(VocabtoolError, match=told):
        commit(changes)
    changes.close()
    assert len(texts_in(connections)) == 20


def test_recount_finds_what_differs(connections: Connections) -> None:
    changes = open_writer(connections)
    put(changes, [Document("a", "amber birch"), Document("b", "SKU-7")])
    commit(changes)
    changes.close()
    spoilt: tuple[tuple[Any, str], ...] = (
        ("DELETE FROM terms_{n} WHERE text = 'birch'", "postings of no term"),
        ("UPDATE terms_{n} SET documents = documents + 1", "5 terms with another number"),
        ("UPDATE indexes SET documents = 9, words = words + 1", "2 totals"),
        ("DELETE FROM postings_{n} WHERE frequency = 1", "postings that are missing"),
        ("UPDATE documents_{n} SET words = 7", "2 totals"),
    )
    with connections.connect() as connection:
        n = connections.find_index("test")
        for statement, told in spoilt:
            connection.execute(statement.replace("{n}", str(n)))
            assert told in "\n".join(recount(connection, n))


def test_tables_of_another_version(connections: Connections) -> None:
    with connections.connect() as connection:
        connection.execute("UPDATE version SET number = 9")
    with pytest.raises(VocabtoolError, match=r"layout 9, wanted 4\): index again"):
        connections.find_index("test")


def test_schema_by_many_at_once(address: str) -> None:
    with Connections(address).connect() as connection:
        connection.execute("CREATE EXTENSION vector SCHEMA public")
    with ThreadPoolExecutor(6) as pool:
        made = [*pool.map(new_index, [address] * 6, "abcdef")]
    assert len({each.find_index(name) for each, name in zip(made, "abcdef", strict=True)}) == 6


def test_passwords_are_never_shown() -> None:
    for place in ("127.0.0.1:9/db", "h:no/db", "127.0.0.1/db?nothing=1"):
        with pytest.raises(VocabtoolError) as caught:
            Connections(f"postgresql://me:Geheim99@{place}").connect()
        error: BaseException | None = caught.value
        while error is not None:
            assert "Geheim99" not in f"{error} {error!r} {error.args}"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_advice_for_a_missing_certificate_is_not_about_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    psycopg = pytest.importorskip("psycopg")

    def fails(**_: Any) -> None:
        raise psycopg.OperationalError('root certificate file "root.crt" does not exist')

    monkeypatch.setattr(psycopg.Connection, "connect", fails)
    with pytest.raises(VocabtoolError, match=r"sslrootcert, sslcert and sslkey$"):
        Connections("postgresql://host/docs?sslmode=verify-full").connect()
