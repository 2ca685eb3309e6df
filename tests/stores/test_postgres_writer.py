"""The writer of PostgreSQL: commits, several writers at once, hostile names, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
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
from vocabtool.documents.options import PATH_FIRST
from vocabtool.errors import FolderNotEmpty, NotFound
from vocabtool.index.folder import Load
from vocabtool.stores.postgres import schema
from vocabtool.stores.postgres.changes import write_changes
from vocabtool.stores.postgres.connection import Connections
from vocabtool.stores.postgres.recount import recount

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
    for name in HOSTILE:
        if "\0" in name:
            with pytest.raises(VocabtoolError, match="1 to 200 characters"):
                new_index(address, name)
            continue
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


def test_four_writers_at_once(connections: Connections) -> None:
    """They update and delete the same ids: each commit succeeds, each id is there once."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            changes = open_writer(connections)
            for turn in range(12):
                ids = [f"d{(turn * 7 + at * (number + 1)) % 20}" for at in range(10)]
                put(changes, [Document(id_, f"writer{number} turn{turn} birch") for id_ in {*ids}])
                if turn % 3 == 0:
                    delete(changes, ids[:2])
                commit(changes)
            put(changes, [Document(f"own{number}", "amber")])
            commit(changes)
            changes.close()
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = texts_in(connections)
    assert {f"own{number}" for number in range(4)} <= found.keys()
    changes = open_writer(connections)
    assert changes.manifest.commit == 4 * 13
    assert changes.manifest.rows == len(found)
    changes.close()


def test_the_last_writer_wins(connections: Connections) -> None:
    """Two writers add the same new id, with other fields: one document, both fields."""
    one, other = open_writer(connections), open_writer(connections)
    put(one, [Document("a", "from one", {"x": 1})])
    put(other, [Document("a", "from other", {"y": "word"})])
    commit(one)
    commit(other)
    assert texts_in(connections) == {"a": "from other"}
    assert other.manifest.fields == {"x": "integer", "y": "string"}
    put(one, [Document("b", "text", {"y": 5, "z": 1})])
    put(other, [Document("c", "text", {"z": "no number"})])
    commit(one)  # its 5 is text, as the field is now
    with pytest.raises(VocabtoolError, match=r"'z' are strings here, .*whole numbers") as caught:
        commit(other)
    assert "Nothing of this commit was written" in str(caught.value)
    assert fetch(connections, "SELECT id, field_1 FROM {documents} ORDER BY id")[-1] == ("b", "5")
    one.close()
    other.close()


ONE, TWO = (), ("title", "text")


@pytest.mark.parametrize("first", [ONE, TWO])
@pytest.mark.parametrize("waits", [False, True])
def test_other_fields_are_searched(connections: Connections, first: Any, waits: bool) -> None:
    """Of two first loads that search different fields, the later commit is refused.

    ``waits``: the other one commits while this one has begun to write.
    """
    one = open_writer(connections, buffer_bytes=1 if waits else 10**6)
    other = open_writer(connections)
    one.searched_fields, other.searched_fields = first, TWO if first == ONE else ONE
    put(one, [Document("a", "amber")])
    put(other, [Document("b", "birch")])
    if waits:
        errors: list[VocabtoolError] = []

        def late() -> None:
            try:
                commit(other)
            except VocabtoolError as error:
                errors.append(error)

        thread = threading.Thread(target=late)
        thread.start()
        commit(one)
        thread.join()
    else:
        commit(one)
        with pytest.raises(VocabtoolError) as caught:
            commit(other)
        errors = [caught.value]
    (error,) = errors
    assert "fields: title and text" in str(error) or "chose title and text" in str(error)
    assert "Nothing of this commit was written (1 documents to add" in str(error)
    assert texts_in(connections) == {"a": "amber"}
    for each in (one, other):
        each.close()
    again = open_writer(connections)
    assert again.manifest.searched_fields == first
    again.close()


def test_pieces_with_and_without_paths_are_merged(connections: Connections) -> None:
    one, other = open_writer(connections), open_writer(connections)
    one.searched_fields = PATH_FIRST
    put(one, [Document("a", "amber")])
    put(other, [Document("b", "birch")])
    commit(one)
    commit(other)
    assert other.manifest.searched_fields == PATH_FIRST
    assert texts_in(connections) == {"a": "amber", "b": "birch"}
    one.close()
    other.close()


def test_a_deadlock_is_answered(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL ends one transaction of two; it is written again."""
    from psycopg.errors import DeadlockDetected

    real, calls = write_changes, list[int]()

    def fails_once(*arguments: Any) -> None:
        calls.append(1)
        real(*arguments)
        if len(calls) == 1:
            raise DeadlockDetected("deadlock detected")

    monkeypatch.setattr("vocabtool.stores.postgres.writer.write_changes", fails_once)
    changes = open_writer(connections)
    put(changes, [Document("a", "amber")])
    commit(changes)
    changes.close()
    assert len(calls) == 2
    assert texts_in(connections) == {"a": "amber"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_commit(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The connection is lost before COMMIT arrives, or its answer is: written exactly once."""
    import psycopg

    changes = open_writer(connections)
    put(changes, [Document("a", "amber")])
    real, lost = psycopg.Connection.execute, list[int]()

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT" and not lost:
            lost.append(1)
            if moment == "after":
                real(self, query)
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return real(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    commit(changes)
    assert lost == [1]
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
    import psycopg

    real, calls = psycopg.Connection.execute, list[str]()

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT":
            calls.append(query)
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return real(self, query, *arguments, **options)

    def fails_later(*arguments: Any) -> None:
        if calls:
            raise VocabtoolError("no more")
        write_changes(*arguments)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    monkeypatch.setattr("vocabtool.stores.postgres.writer.write_changes", fails_later)
    changes = open_writer(connections)
    put(changes, [Document("a", "amber")])
    with pytest.raises(VocabtoolError, match=r"no more.*Nothing of this commit was written"):
        commit(changes)
    changes.close()
    assert texts_in(connections) == {}


def test_a_new_field_after_a_flush(connections: Connections) -> None:
    """It is refused, and the message says what was written."""
    changes = open_writer(connections, buffer_bytes=10_000)
    put(changes, [Document(f"d{at}", "amber") for at in range(20)])
    put(changes, [Document("e", "birch", {"year": 1})])
    told = r"a field is new, but 20 .*Nothing of this commit was written \(21 documents to add"
    with pytest.raises(VocabtoolError, match=told):
        commit(changes)
    changes.close()
    assert texts_in(connections) == {}


def test_flushes_stop_no_other_writer(connections: Connections) -> None:
    """Also if the later one has pieces with paths: then others write before it commits."""
    one, other = open_writer(connections, buffer_bytes=1), open_writer(connections)
    put(one, [Document("a", "amber")])
    one.searched_fields = PATH_FIRST
    put(one, [Document("b", "birch")])
    other._connection.execute("SET lock_timeout = '10s'")
    put(other, [Document("c", "cedar")])
    commit(other)
    assert texts_in(connections) == {"c": "cedar"}
    commit(one)
    assert one.manifest.searched_fields == PATH_FIRST
    assert texts_in(connections) == {"a": "amber", "b": "birch", "c": "cedar"}
    one.close()
    other.close()


def test_many_deletions(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several statements, one commit: nothing before it, and right statistics after it."""
    monkeypatch.setattr("vocabtool.stores.postgres.changes.DELETED_ROWS", 3)
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


def test_a_commit_without_documents_is_counted(connections: Connections) -> None:
    """Also the first one of its slot, so that readers notice it."""
    changes = open_writer(connections)
    for number in range(1, 6):
        load = Load(plan=f"p{number}", documents=0, finished=True, alone=False, synced=False)
        changes.commit_changes(replace(changes.manifest, load=load), codes=False)
        assert changes.manifest.commit == number
    changes.close()


def test_loads_answers_sources_and_shards(connections: Connections) -> None:
    """They are committed with the documents; a shard is loaded by one process only."""
    one, other = open_writer(connections), open_writer(connections)
    assert (one.take_shard("p", 2), other.take_shard("p", 2)) == (0, 1)
    put(one, [Document("a", "amber")])
    one.add_shard("p", 0, 1)
    one.remember("key", b"digest", b"answer")
    assert other.answer_for("key") is None
    load = Load(plan="p", documents=1, finished=False, alone=False, synced=False)
    one.commit_changes(replace(one.manifest, load=load), codes=True)
    assert other.answer_for("key") == (b"digest", b"answer")
    assert other.load_of("p") == one.manifest.load == load
    assert other.load_of(None) is None
    other.remember("key", b"d", b"a")
    with pytest.raises(VocabtoolError, match="'key' was used meanwhile"):
        commit(other)
    other.close()  # its shard is free again
    assert one.take_shard("p", 2) == 1
    third = open_writer(connections)
    there = np.array([*third.find_existing(["a"]).values()])
    assert third.set_source(there, 2)
    assert third.rows_of_sources([2]).tolist() == there.tolist()
    commit(third)
    assert not third.set_source(there, 2)
    assert fetch(connections, "SELECT source FROM {documents}") == [(2,)]
    one.close()
    third.close()


def test_recount_finds_what_differs(connections: Connections) -> None:
    changes = open_writer(connections)
    put(changes, [Document("a", "amber birch"), Document("b", "SKU-7")])
    commit(changes)
    changes.close()
    spoilt: tuple[tuple[Any, str], ...] = (
        ("DELETE FROM {terms}", "that no term has"),
        ("UPDATE {counts} SET documents = documents + 1", "terms with another number"),
        ("UPDATE {totals} SET words = words + 1", "1 totals"),
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
    with connections.connect() as connection:
        tables = schema.find_index(connection, "vocabtool", "other", connections.where)
        schema.replace_index(connection, tables, "test")
        held = connection.execute("SELECT name FROM vocabtool.indexes").fetchall()
        assert held == [("test",)]
        assert texts_in(connections) == {"a": "amber"}
        schema.drop_index(connection, tables)
        with pytest.raises(NotFound, match="no index 'test'"):
            schema.find_index(connection, "vocabtool", "test", connections.where)
        with pytest.raises(NotFound, match="The index was removed meanwhile"):
            put(changes, [Document("b", "amber")])
        changes.close()
        connection.execute("UPDATE vocabtool.version SET number = 9")
        with pytest.raises(VocabtoolError, match="version 9, expected at most 1"):
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


def test_a_database_without_the_extension(address: str) -> None:
    with Connections(address).connect() as connection:
        with pytest.raises(VocabtoolError, match="run CREATE EXTENSION vector in this database"):
            schema.prepare_schema(connection, "vocabtool", "here")
        assert schema.version_of(connection, "vocabtool", "here") == 0


def test_a_role_that_only_reads(connections: Connections, address: str) -> None:
    """It opens an index and reads; a change is refused with what to do, and nothing is written."""
    with connections.connect() as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA vocabtool TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA vocabtool TO reader")
    reader = Connections(address.replace("//postgres:@", "//reader@"))
    assert fetch(reader, "SELECT count(*) FROM {documents}") == [(0,)]
    with pytest.raises(VocabtoolError, match=r"permission denied for .*42501.*Grant the role"):
        open_writer(reader)
    reader.close()
    with connections.connect() as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


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
