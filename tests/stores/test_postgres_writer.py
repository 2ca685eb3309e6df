"""The writer of PostgreSQL: commits, one writer at a time, hostile names, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.postgres_server import PostgresServer
from tests.builders.postgres_store import commit, delete, new_index, open_writer, put, texts_in
from vocabtool import Document, VocabtoolError
from vocabtool.errors import FolderInUse, FolderNotEmpty, NotFound
from vocabtool.stores import database as schema
from vocabtool.stores.database import Connections
from vocabtool.stores.index import recount
from vocabtool.stores.writer import PostgresWriter

HOSTILE = (
    *("'; DROP SCHEMA vocabtool CASCADE; --", '"', "\\", "%s", "{documents}", "a\0b", "$1"),
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


def fetch(connections: Connections, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
    with connections.connect() as connection:
        tables = schema.find_index(connection, "vocabtool", "test", connections.where)
    return connections.fetch(tables.sql(statement), parameters)


def test_a_commit_is_seen_as_a_whole(connections: Connections) -> None:
    """Before it nothing; then terms, numbers and vectors as a person counts them."""
    changes = open_writer(connections)
    put(changes, [Document("a", "amber birch amber", {"n": 1}), Document("b", "SKU-7 birch")])
    assert texts_in(connections) == {}
    assert changes.find_existing(["a", "x"]).keys() == {"a"}
    commit(changes)
    assert texts_in(connections) == {"a": "amber birch amber", "b": "SKU-7 birch"}
    held = (
        "SELECT t.text, d.id, p.frequency, p.length FROM {postings} p JOIN {terms} t USING (term)"
    )
    held += " JOIN {documents} d USING (doc) ORDER BY 2, 1"
    assert fetch(connections, held) == [
        *(("amber", "a", 2, 3), ("birch", "a", 1, 3)),
        *(("7", "b", 1, 3), ("birch", "b", 1, 3), ("sku", "b", 1, 3), ("sku-7", "b", 1, 3)),
    ]
    assert (
        fetch(connections, "SELECT vector::text, field_0 FROM {documents} ORDER BY id")[1][1]
        is None
    )
    put(changes, [Document("a", "cedar", {"n": 2.5})])
    delete(changes, ["b", "x"])
    assert changes.find_existing(["a", "b"]).keys() == {"a"}
    commit(changes)
    manifest = changes.manifest
    assert (manifest.rows, manifest.words, manifest.surfaces, manifest.commit) == (1, 1, 0, 2)
    assert manifest.fields == {"n": "number"}
    assert texts_in(connections) == {"a": "cedar"}
    put(changes, [Document("c", "lost")])
    changes.close()
    assert texts_in(connections) == {"a": "cedar"}


def test_hostile_names(address: str) -> None:
    """Ids, texts, fields and values, and names of indexes, are values and nothing else."""
    for name in (each for each in HOSTILE if "\0" not in each):  # no address has such a name
        connections = new_index(address, name)
        changes = open_writer(connections, name)
        fields = {field: field for field in HOSTILE if field.isprintable()}
        put(changes, [Document(id_, f"amber {id_}", fields) for id_ in HOSTILE])
        commit(changes)
        changes.close()
        stored = {id_.replace("\0", "\ufffd") for id_ in HOSTILE}
        assert texts_in(connections, name).keys() == stored
    with Connections(address).connect() as connection:
        held = connection.execute("SELECT name FROM vocabtool.indexes").fetchall()
        assert {name for (name,) in held} == {*HOSTILE} - {"a\0b"}


def test_one_writer_at_a_time(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one waits until the first is closed, for a limited time."""
    one = open_writer(connections)
    with monkeypatch.context() as impatient:
        impatient.setattr(schema, "WAIT_SECONDS", 0.1)
        with pytest.raises(FolderInUse, match=r"another process writes .* within 0.1 seconds"):
            open_writer(connections)
    put(one, [Document("a", "from one", {"x": 1})])
    others: list[PostgresWriter] = []
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


def test_two_schemas_have_a_writer_each(connections: Connections, address: str) -> None:
    held = open_writer(connections)
    with Connections(address, schema="second").connect() as connection:
        tables = schema.Tables("second", held._tables.number)
        tables.lock(connection, "here", of_session=True)
    held.close()


def test_another_writer_after_a_lost_connection(connections: Connections) -> None:
    """Its changes are not overwritten by what the first one knew."""
    one = open_writer(connections)
    put(one, [Document("a", "amber")])
    one._connection.close()
    other = open_writer(connections)
    put(other, [Document("b", "birch")])
    commit(other)
    other.close()
    told = r"another process changed the index meanwhile.*Nothing of this commit was written"
    with pytest.raises(VocabtoolError, match=told):
        commit(one)
    one.close()
    assert texts_in(connections) == {"b": "birch"}


def lose_commit(monkeypatch: pytest.MonkeyPatch, moment: str) -> list[str]:
    """Lose the connection before the first COMMIT arrives, or its answer; return what was lost."""
    import psycopg

    real, lost = psycopg.Connection.execute, list[str]()

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT" and not lost:
            lost.append(query)
            if moment == "after":
                real(self, query)
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return real(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    return lost


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_commit(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The connection is lost before COMMIT arrives, or its answer is: written exactly once."""
    changes = open_writer(connections)
    put(changes, [Document("a", "amber")])
    lost = lose_commit(monkeypatch, moment)
    commit(changes)
    assert lost == ["COMMIT"]
    assert changes.manifest.commit == 1
    changes.close()
    assert texts_in(connections) == {"a": "amber"}


def test_more_than_the_buffer(connections: Connections) -> None:
    """Flushed changes are committed with the others, or not at all."""
    changes = open_writer(connections, buffer_bytes=10_000)
    for turn in range(5):
        put(changes, [Document(f"d{at}", f"turn{turn}") for at in range(20)])
    assert texts_in(connections) == {}
    commit(changes)
    assert texts_in(connections) == {f"d{at}": "turn4" for at in range(20)}
    put(changes, [Document(f"e{at}", "word") for at in range(20)])
    changes._connection.close()
    with pytest.raises(VocabtoolError, match="Nothing of this commit was written"):
        commit(changes)
    changes.close()
    assert len(texts_in(connections)) == 20


def test_a_retry_that_fails(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """It found that the lost COMMIT had no effect, and says so."""
    changes = open_writer(connections)
    put(changes, [Document("a", "amber")])
    lost, write = lose_commit(monkeypatch, "before"), PostgresWriter._write

    def fails_later(self: PostgresWriter) -> None:
        if lost:
            raise VocabtoolError("no more")
        write(self)

    monkeypatch.setattr(PostgresWriter, "_write", fails_later)
    with pytest.raises(VocabtoolError, match=r"no more.*Nothing of this commit was written"):
        commit(changes)
    changes.close()
    assert texts_in(connections) == {}


def test_a_new_field_after_a_flush(connections: Connections) -> None:
    """It is refused, and the message says what was written."""
    changes = open_writer(connections, buffer_bytes=10_000)
    put(changes, [Document(f"d{at}", "amber") for at in range(20)])
    put(changes, [Document("e", "birch", {"year": 1})])
    told = r"a field is new, but 20 .*Nothing of this commit was written"
    with pytest.raises(VocabtoolError, match=told):
        commit(changes)
    changes.close()
    assert texts_in(connections) == {}


def test_many_deletions(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several statements, one commit: nothing before it, and right statistics after it."""
    monkeypatch.setattr("vocabtool.stores.writer.DELETED_ROWS", 3)
    changes = open_writer(connections)
    put(changes, [Document(f"d{at}", f"amber word{at} SKU-{at}") for at in range(20)])
    commit(changes)
    delete(changes, [f"d{at}" for at in range(11)])
    put(changes, [Document(f"d{at}", "new") for at in range(15, 20)])
    assert len(texts_in(connections)) == 20
    commit(changes)
    left = {f"d{at}": f"amber word{at} SKU-{at}" for at in range(11, 15)}
    assert texts_in(connections) == left | {f"d{at}": "new" for at in range(15, 20)}
    assert (changes.manifest.rows, changes.manifest.commit) == (9, 2)
    changes.close()


def test_recount_finds_what_differs(connections: Connections) -> None:
    changes = open_writer(connections)
    put(changes, [Document("a", "amber birch"), Document("b", "SKU-7")])
    commit(changes)
    changes.close()
    spoilt: tuple[tuple[Any, str], ...] = (
        ("DELETE FROM {terms} WHERE text = 'birch'", "postings of no term"),
        ("UPDATE {terms} SET documents = documents + 1", "5 terms with another number"),
        ("UPDATE {indexes} SET words = words + 1", "1 totals"),
        ("DELETE FROM {postings} WHERE frequency = 1", "postings that are missing"),
        ("UPDATE {documents} SET words = 7", "number of words"),
    )
    with connections.connect() as connection:
        tables = schema.find_index(connection, "vocabtool", "test", connections.where)
        for statement, told in spoilt:
            connection.execute(tables.sql(statement))
            assert told in "\n".join(recount(connection, tables))


def test_indexes_of_a_database(connections: Connections, address: str) -> None:
    """A name is taken once; an index takes the place of another; a newer schema is refused."""
    with pytest.raises(FolderNotEmpty, match="already contains an index 'test'"):
        new_index(address)
    other = new_index(address, "other")
    changes = open_writer(other, "other")
    put(changes, [Document("a", "amber")])
    commit(changes)
    changes.close()
    with connections.connect() as connection:
        tables = schema.find_index(connection, "vocabtool", "other", connections.where)
        schema.replace_index(connection, tables, "test", "here")
        held = connection.execute("SELECT name FROM vocabtool.indexes").fetchall()
        assert held == [("test",)]
        assert texts_in(connections) == {"a": "amber"}
        assert schema.drop_index(connection, tables, "here", "test")
        with pytest.raises(NotFound, match="no index 'test'"):
            schema.find_index(connection, "vocabtool", "test", connections.where)
        connection.execute("UPDATE vocabtool.version SET number = 9")
        with pytest.raises(VocabtoolError, match=r"layout 9, wanted 2\): index again"):
            schema.find_index(connection, "vocabtool", "test", connections.where)


def test_schema_by_many_at_once(address: str) -> None:
    errors: list[BaseException] = []
    with Connections(address).connect() as connection:
        connection.execute("CREATE EXTENSION vector SCHEMA public")

    def create(name: str) -> None:
        try:
            new_index(address, name)
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=create, args=(f"i{at}",)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_passwords_are_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    tried: tuple[Callable[[str], object], ...] = (
        lambda secret: Connections(f"postgresql://me:{secret}@127.0.0.1:9/db").connect(),
        lambda secret: Connections(f"postgresql://me:{secret}@h:no/db").connect(),
        lambda secret: Connections(f"postgres//me:{secret}@127.0.0.1/db").connect(),
        lambda secret: Connections(f"host=127.0.0.1 port=9 password={secret} x").connect(),
    )
    for attempt in tried:
        with pytest.raises(VocabtoolError) as caught:
            attempt("Geheim99")
        error: BaseException | None = caught.value
        while error is not None:
            assert "Geheim99" not in f"{error} {error!r} {error.args}"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    made = Connections("postgresql://me:Geheim99@127.0.0.1:9/db")
    assert repr(made) == "Connections('postgresql://127.0.0.1:9/db')"
    assert "Geheim99" not in caplog.text


def test_advice_for_a_missing_certificate_is_not_about_the_database() -> None:
    psycopg = pytest.importorskip("psycopg")
    connections = Connections("postgresql://host/docs?sslmode=verify-full")
    said = psycopg.OperationalError('root certificate file "root.crt" does not exist')
    assert str(connections._not_connected(said)).endswith("sslrootcert, sslcert and sslkey")
    said = psycopg.OperationalError('database "docs" does not exist')
    assert "database" in str(connections._not_connected(said)).partition("Next: ")[2]
