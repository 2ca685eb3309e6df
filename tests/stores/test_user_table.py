"""An index of a table of the user's: the same answers as an embedded index of the same rows.

The user changes the table by SQL only; what the index then says is compared with the table.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from click.testing import CliRunner

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_indexes import FUSIONS, ids, scored
from tests.cli.running import run as run_command
from tests.conftest import ROOT
from vocabtool import (
    Document,
    Hits,
    Index,
    InvalidCondition,
    NotFound,
    OtherModel,
    UserTable,
    VocabtoolError,
)
from vocabtool.cli.main import cli
from vocabtool.index.store_index import StoreIndex
from vocabtool.search.settings import Calibration
from vocabtool.stores.postgres.connection import Connections
from vocabtool.stores.postgres.engine import PostgresEngine
from vocabtool.stores.postgres.recount import recount
from vocabtool.stores.postgres.schema import SCHEMA, find_index

DIM: Final = 4
WORDS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "Äther", "new york")
KEPT: Final = ("year", "price", "title", "ok", "at", "tags", "more")
CREATE: Final = (
    "(id bigint PRIMARY KEY, body text, embedding vector(4), year int, price numeric, title text,"
    " ok boolean, at timestamp, tags text[], more jsonb)"
)
DOCS: Final = UserTable(name="docs", id="id", text="body", vector="embedding", keep=KEPT)
PLAIN: Final = replace(DOCS, keep=())
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Database:
    """A database with a table ``docs`` of the user's; ``address``: of an index in it."""

    uri: str
    do: Callable[..., list[Row]]

    @property
    def address(self) -> str:
        return f"{self.uri}{'&' if '?' in self.uri else '?'}index=docs"

    def index(self, table: UserTable = DOCS, **options: Any) -> StoreIndex:
        """A filled index of the table."""
        made = Index.create(self.address, table=table, **options)
        assert isinstance(made, StoreIndex)
        made.update()
        return made

    def insert(self, rows: Sequence[Row]) -> None:
        """Insert rows as :func:`row` makes them, in one transaction."""
        for each in rows:
            self.do(f"INSERT INTO docs VALUES ({', '.join(['%s'] * len(each))})", *each)


@pytest.fixture
def database(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    import psycopg

    monkeypatch.setenv("VOCABTOOL_CACHE", str(tmp_path / "cache"))
    uri = postgres_server.new_database()
    with psycopg.connect(uri, autocommit=True) as connection:

        def do(statement: str, *values: object) -> list[Row]:
            found = connection.execute(statement.encode(), values or None)
            return found.fetchall() if found.description else []

        do("CREATE EXTENSION vector")
        do(f"CREATE TABLE docs {CREATE}")
        yield Database(uri, do)


def row(number: int, version: int = 0) -> Row:
    """A row: words of its own, values of every type, and nulls."""
    draw = Random(f"{number} {version}")
    text = f"{' '.join(draw.sample(WORDS, 3))} SKU-{10000 + number} version{version}"
    vector = None if number % 11 == 5 else str([float(draw.randint(-9, 9)) for _ in range(DIM)])
    values = (
        None if number % 7 == 3 else 2000 + number % 9,
        None if number % 5 == 1 else number / 4,
        f"Ärger {number % 4}" if number % 3 else None,
        number % 2 == 0,
        f"2024-0{1 + number % 9}-11 10:00:00",
        ["red", "tall"] if number % 2 else [],
        f'[{number % 3}, "x", true]',
    )
    return (number, text, vector, *values)


def documents(rows: Sequence[Row]) -> tuple[list[Document], np.ndarray[Any, Any]]:
    """The same rows for an embedded index, with their vectors."""
    made, vectors = [], []
    for id_, text, vector, year, price, title, ok, at, tags, more in rows:
        fields = {
            **{"year": year, "price": price, "title": title, "ok": ok},
            **{"at": at.replace(" ", "T"), "tags": tags, "more": more},
        }
        given = {name: value for name, value in fields.items() if value is not None}
        made.append(Document(str(id_), text, given))
        vectors.append(
            [0.0] * DIM if vector is None else [float(x) for x in vector[1:-1].split(",")]
        )
    return made, np.array(vectors, np.float32)


def close(found: Hits, wanted: Hits) -> None:
    """The same documents with the same scores; equal scores may be in another order."""
    assert sorted(ids(found)) == sorted(ids(wanted))
    one, other = dict(scored(found)), dict(scored(wanted))
    assert {id_: pytest.approx(score, rel=1e-4, abs=1e-4) for id_, score in other.items()} == one
    held = {hit.id: (hit.text, dict(hit.fields), hit.tier) for hit in found}
    assert held == {hit.id: (hit.text, dict(hit.fields), hit.tier) for hit in wanted}


def check_statistics(database: Database, name: str = "docs") -> None:
    """Statistics and postings are those of the documents."""
    with Connections(database.uri).connect() as connection:
        tables = find_index(connection, SCHEMA, name, "")
        assert recount(connection, tables) == []


def found_texts(index: Index) -> dict[str, str]:
    """Text of each document, as the index finds it by its own version and code."""
    found = [index.get(id_) for id_ in index.ids()]
    return {each.id: each.text for each in found if each is not None}


def as_the_table(database: Database, index: Index) -> None:
    """Each row is found by all of its words, and nothing else is there."""
    index.refresh()
    rows = database.do("SELECT id::text, coalesce(body, '') FROM docs")
    assert found_texts(index) == dict(rows)
    assert len(index) == len(rows)
    check_statistics(database)
    for id_, text in rows[:20]:
        assert id_ in ids(index.search(" ".join(f'+"{word}"' for word in text.split()), k=100))


@pytest.mark.parametrize("metric", ["cosine", "inner-product", "l2"])
def test_answers(database: Database, tmp_path: Path, metric: Any) -> None:
    """Both legs, all fusions, operators, conditions, facets and similar documents."""
    rows = [row(number) for number in range(60)]
    database.insert(rows)
    index = database.index(metric=metric)
    beside = Index.create(tmp_path / "folder", dim=DIM, metric=metric, dtype="float32")
    given, vectors = documents(rows)
    with beside.writer() as writer:
        writer.add(given, vectors)
    assert index.manifest.fields == beside.manifest.fields
    assert (len(index), index.configuration.dim, index.configuration.dtype) == (60, DIM, "float32")
    draw = np.random.default_rng(7)
    for query in ("amber birch", "SKU-10007", '"new york"', "cedar -delta", "äther year:2004"):
        for fusion in FUSIONS:
            asked: dict[str, Any] = {"vector": draw.normal(size=DIM), "fusion": fusion, "k": 60}
            close(index.search(query, **asked), beside.search(query, **asked))
    for where in (
        *("year >= 2004", "price between 1 and 2.5", "title ilike '%äRGER%'", "ok and year < 2003"),
        *("at >= 2024-03", "tags has 'red'", "more has 2", "title has word 'arger'", "id = '7'"),
        *("text contains 'amber'", "text like '%SKU-1000_ %'", "title is null", "not ok"),
    ):
        listed = ids(index.search(where=where, k=60))
        assert listed == ids(beside.search(where=where, k=60))
        assert 0 < len(listed) < 60
        close(index.search("amber", where=where, k=60), beside.search("amber", where=where, k=60))
    facets = "year,ok,tags,title"
    counted = index.search("amber", facets=facets).facets
    assert counted == beside.search("amber", facets=facets).facets
    close(index.similar("3", k=60), beside.similar("3", k=60))
    for where in ("text has word 'amber'", "text ilike '%A%'", "text > 2024-01"):
        with pytest.raises(InvalidCondition, match="texts of your table"):
            index.search(where=where)
    held = database.do(
        "SELECT count(*) FROM vocabtool.rows_1 WHERE text <> '' OR vector IS NOT NULL"
    )
    assert held == [(0,)]  # no text and no vector was copied


def test_changes(database: Database) -> None:
    """Until the update, old terms find the new texts, and deleted rows are not there."""
    database.insert([row(number) for number in range(30)])
    index = database.index()
    assert index.stats().waiting == 0
    database.do("DELETE FROM docs WHERE id < 5")
    database.do("UPDATE docs SET body = 'only zebra' WHERE id = 7")
    database.do("UPDATE docs SET id = 100 WHERE id = 8")
    database.do("UPDATE docs SET year = 1900, embedding = '[1,2,3,4]' WHERE id = 9")
    database.do("UPDATE docs SET embedding = '[4,3,2,1]', body = body WHERE id > 10")  # no change
    database.insert([row(200)])
    assert index.stats().waiting == 5 + 1 + 2 + 1 + 1
    for number in range(5):
        assert str(number) not in ids(index.search(f"SKU-{10000 + number}", k=100))
        assert index.search(f'+"SKU-{10000 + number}"').hits == ()
    nearest = index.search(vector=[1, 1, 1, 1], k=100)
    assert not {"0", "1", "2", "3", "4", "200"} & {*ids(nearest)}
    stale = index.search("SKU-10007").hits[0]
    assert stale.text == "only zebra"
    assert index.search("zebra").hits == ()
    assert ids(index.search(where="year = 1900")) == []
    report = index.update()
    assert (report.added, report.updated, report.removed) == (2, 2, 6)
    assert (index.stats().waiting, index.stats().table) == (0, "docs")
    assert ids(index.search("zebra")) == ["7"]
    assert ids(index.search("SKU-10008"))[0] == "100"
    assert ids(index.search(where="year = 1900")) == ["9"]
    as_the_table(database, index)
    database.do("BEGIN")
    database.do("DELETE FROM docs")
    database.do("ROLLBACK")
    assert index.stats().waiting == 0
    database.do("TRUNCATE docs")
    database.insert([row(3)])
    assert index.search("amber OR birch OR cedar").hits == ()
    report = index.update(commit_rows=2)
    assert (report.added + report.updated, report.removed) == (1, 26)
    as_the_table(database, index)
    assert index.verify().documents == 1


@pytest.mark.parametrize("emptied", ["DELETE FROM", "TRUNCATE"])
def test_deleted_rows_leave_room(database: Database, emptied: str) -> None:
    """Rows that are gone take no place of those that are there, however many wait."""
    database.insert([(number, "amber amber") for number in range(300)])
    database.insert([(300 + number, f"amber {'birch ' * 5}") for number in range(3)])
    index = database.index(PLAIN)
    kept = database.do("SELECT id, body FROM docs WHERE id >= 300")
    database.do(f"{emptied} docs")
    database.insert([*kept, (303, "amber dahlia")])
    assert sorted(ids(index.search("amber", k=3))) == ["300", "301", "302"]
    assert index.update(commit_rows=2).added == 1
    assert sorted(ids(index.search("amber"))) == ["300", "301", "302", "303"]
    as_the_table(database, index)


def test_an_update_reads_few_bytes_at_a_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long texts are in transactions of their own; each transaction is a commit."""
    monkeypatch.setattr("vocabtool.stores.postgres.user_table.NOTED_BYTES", 1_000)
    for number, letters in enumerate((10, 10, 990, 2_000, 10, 5_000)):
        database.insert([(number, f"amber{number} {'x' * letters}")])
    index = database.index(PLAIN)
    assert index.manifest.commit == 5
    as_the_table(database, index)


def test_changes_while_it_updates(database: Database) -> None:
    """Two updates at once, and four users who change the same rows: nothing is lost."""
    import psycopg

    database.insert([row(number) for number in range(40)])
    index = database.index(PLAIN)
    errors: list[BaseException] = []
    is_over = threading.Event()

    def change(owner: int) -> None:
        draw = Random(owner)
        with psycopg.connect(database.uri, autocommit=True) as connection:
            for turn in range(60):
                number = draw.randrange(40)
                with connection.transaction():
                    if draw.random() < 0.3:
                        connection.execute("DELETE FROM docs WHERE id = %s", [number])
                    else:
                        connection.execute(
                            "INSERT INTO docs (id, body) VALUES (%s, %s) ON CONFLICT (id)"
                            " DO UPDATE SET body = excluded.body",
                            [number, f"amber user{owner} turn{turn} SKU-{number}-{owner}"],
                        )

    def update() -> None:
        mine = Index.open(database.address)
        while not is_over.is_set():
            mine.update(commit_rows=5)

    def guarded(work: Callable[..., None], *values: int) -> None:
        try:
            work(*values)
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    users = [threading.Thread(target=guarded, args=(change, owner)) for owner in range(4)]
    updates = [threading.Thread(target=guarded, args=(update,)) for _ in range(2)]
    for thread in (*updates, *users):
        thread.start()
    for thread in users:
        thread.join()
    is_over.set()
    for thread in updates:
        thread.join()
    assert errors == []
    index.update()
    as_the_table(database, index)


def test_killed_updates(database: Database, full: bool, tmp_path: Path) -> None:
    """A killed update leaves whole transactions; the next one goes on."""
    draw = Random(30)
    index = database.index(PLAIN)
    database.do(
        "INSERT INTO docs (id, body) SELECT n, 'amber word' || n || ' SKU-' || n || '-X'"
        " FROM generate_series(1, 600) n"
    )
    command = [sys.executable, "-m", "vocabtool", "update", database.address, "--commit-rows", "20"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    kills = 0
    for _ in range(20 if full else 2):
        database.do("UPDATE docs SET body = body || ' x' WHERE id %% 3 = %s", draw.randrange(3))
        before = index.stats().waiting
        log = (tmp_path / "log").open("w")
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while index.stats().waiting == before and process.poll() is None:
            assert time.monotonic() < until, (tmp_path / "log").read_text()
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        log.close()
        waiting = index.stats().waiting
        assert waiting is not None
        assert before is not None
        assert (before - waiting) % 20 == 0  # whole transactions
        check_statistics(database)
    assert kills > 0
    index.update()
    as_the_table(database, index)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("uuid", ("9f2c8f1e-0000-4000-8000-000000000001", "9f2c8f1e-0000-4000-8000-000000000002")),
        ("text", ("it's", '"quoted", \\N and %s')),
        ("timestamptz", ("2024-01-02 03:04:05+00", "2024-01-02 03:04:06.5+00")),
        ("numeric", ("1.50", "-2")),
        ("varchar(20)", ("ß", "SS")),
    ],
)
def test_ids_of_any_type(database: Database, type_: str, values: tuple[str, str]) -> None:
    """The id is the text form of the value, whatever the time zone of the session is."""
    database.do("SET TIME ZONE 'Asia/Tokyo'")
    database.do(f"CREATE TABLE other (id {type_} PRIMARY KEY, body text, v halfvec(4))")
    for number, value in enumerate(values):
        database.do(f"INSERT INTO other VALUES (%s::{type_}, %s)", value, f"amber{number}")
    table = UserTable(name="other", id="id", text="body", vector="v")
    index = database.index(table)
    assert index.configuration.dtype == "float16"
    assert [ids(index.search(f"amber{number}")) for number in (0, 1)] == [[each] for each in values]
    database.do("UPDATE other SET body = 'birch' WHERE body = 'amber1'")
    database.do("DELETE FROM other WHERE body = 'amber0'")
    index.update()
    assert list(index.ids()) == [values[1]]
    assert ids(index.search("birch")) == [values[1]]


HOSTILE: Final = (
    *('a"b', "drop table; --", "select", "Größe 名前", "{searched} %s", "x'); --", "$1", "\\"),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(database: Database, name: str) -> None:
    """Schemas, tables and columns are names and nothing else."""
    from psycopg.sql import SQL, Identifier

    at = SQL("{}.{}").format(Identifier(f"s {name}"), Identifier(name)).as_string()
    own, text, vector, kept = (Identifier(f"{name}{n}").as_string() for n in range(4))
    database.do(f"CREATE SCHEMA {Identifier(f's {name}').as_string()}")
    typed = f"{own} text PRIMARY KEY, {text} text, {vector} vector(2), {kept} int"
    database.do(f"CREATE TABLE {at} ({typed})")
    values = (name, f"amber {name}", "[1,2]", 5)
    database.do(f"INSERT INTO {at.replace('%', '%%')} VALUES (%s, %s, %s, %s)", *values)
    columns = [f"{name}{number}" for number in range(4)]
    table = UserTable(name=at, id=columns[0], text=columns[1], vector=columns[2], keep=columns[3:])
    index = database.index(table)
    assert ids(index.search("amber")) == [name]
    held = index.get(name)
    assert held is not None
    assert held.fields == {f"{name}3": 5}
    database.do(f"UPDATE {at} SET {text} = 'birch'")
    assert index.update().updated == 1
    assert ids(index.search("birch", vector=[1, 2])) == [name]
    check_statistics(database)
    index.remove()
    assert database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(0,)]


def test_existing_index_of_vectors(database: Database) -> None:
    """An index with the right operators is used and measured; another one is not."""
    database.do(
        "INSERT INTO docs (id, body, embedding) SELECT n, 'amber ' || n, ARRAY[sin(n), cos(n * 7),"
        " sin(n * 13), cos(n * n)]::float4[]::vector FROM generate_series(1, 3000) n"
    )
    database.do("CREATE INDEX ON docs USING hnsw (embedding vector_l2_ops)")
    index = database.index(PLAIN, exact_below=100)
    exact = ids(index.search(vector=[1, 2, 3, 4], k=10))
    assert (index.verify().approximate, index.notes) == (False, ())
    database.do("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")
    index.compact()
    assert index.verify().approximate
    assert index.verify().recall >= 0.95
    assert len({*exact} & {*ids(index.search(vector=[1, 2, 3, 4], k=10))}) >= 9
    database.do("ANALYZE")
    with Connections(database.uri).connect() as connection:
        asked = "EXPLAIN SELECT doc FROM documents_1 d ORDER BY vector <=> '[1,2,3,4]' LIMIT 10"
        plan = "\n".join(line for (line,) in connection.execute(asked))
    assert "docs_embedding_idx1" in plan


def encode(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """A model: the length of a text, how often it has an a."""
    return np.array([[len(text), text.count("a") + 1, 1, 2] for text in texts], np.float32)


def other(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Another one."""
    return encode(texts)[:, ::-1]


def wider(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """One of five dimensions."""
    return np.ones((len(texts), 5), np.float32)


def test_a_model_is_compared(database: Database) -> None:
    """A model that made the vectors is accepted, for creation and for queries; another is not."""
    for number in range(20):
        text = "amber birch"[: 3 + number % 8]
        database.do(
            "INSERT INTO docs VALUES (%s, %s, %s)", number, text, str(encode([text])[0].tolist())
        )
    with pytest.raises(OtherModel, match="agreement"):
        database.index(PLAIN, model=other)
    assert database.do("SELECT count(*) FROM pg_namespace WHERE nspname = 'vocabtool'") == [(0,)]
    with pytest.raises(OtherModel, match="5"):
        database.index(PLAIN, model=wider)
    index = database.index(PLAIN, model=encode)
    assert index.verify(model=True).encoded is not None
    index.remove()
    database.index(PLAIN)
    assert Index.open(database.address, encode).search("amber").hits[0].similarity is not None
    with pytest.raises(OtherModel, match="agreement"):
        Index.open(database.address, other).search("amber")
    # A row whose text was changed without its vector is no other model; most rows are.
    database.do("UPDATE docs SET body = 'cedar' WHERE id % 7 = 0")
    assert Index.open(database.address, encode).search("amber").hits[0].similarity is not None
    database.do("UPDATE docs SET body = 'cedar'")
    with pytest.raises(OtherModel, match="agreement"):
        Index.open(database.address, encode).search("amber")


def run(*arguments: str, code: int = 0) -> str:
    """What a command prints."""
    done = run_command(*arguments)
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == code, told
    assert "Traceback" not in told
    return " ".join(told.split())


def nothing_is_left(database: Database) -> bool:
    found = database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal")
    found += database.do("SELECT count(*) FROM vocabtool.indexes")
    return found == [(0,), (0,)]


MADE: Final = (
    *("index", "--table", "docs", "--id-column", "id", "--text-column", "body"),
    *("--vector-column", "embedding", "-o"),
)


def test_command_line(database: Database) -> None:
    """Create, resume, update, refuse, remove: by the commands alone."""
    database.insert([row(number) for number in range(12)])
    columns = ("--id-column", "id", "--text-column", "body", "--vector-column", "embedding")
    made = ("index", "--table", "docs", *columns, "--keep", "year", "-o", database.address)
    assert "12 added" in run(*made)
    fields = (each.replace("-text-column", "-field").replace("column", "field") for each in made)
    assert "nothing: no row changed" in run(*fields)
    assert "weights in --text-column" in run(*made, "--field", "title", code=2)
    assert "another index" in run(*made, "--id-field", "year", code=2)  # the last one counts
    database.do("DELETE FROM docs WHERE id = 1")
    assert "docs; 1 change" in run("stats", database.address)
    assert "1 removed" in run("update", database.address)
    assert "nothing: no row changed" in run("update", database.address)
    assert "SKU-10003" in run("search", database.address, "SKU-10003", "--where", "id = '3'")
    assert "11 documents" in run("verify", database.address)
    assert "another index" in run(*made, "--keep", "ok", code=2)
    assert "--metric l2: " in run(*made, "--metric", "l2", code=2)
    assert "created with 0.95" in run(*made, "--recall", "0.5", code=2)
    assert "11 added" in run(*made, "--keep", "ok", "--force")
    assert "rows of docs" in run("update", database.address, "--sync", code=3)
    assert "--table cannot be combined with FILE" in run("index", "x.txt", *made[1:], code=2)
    assert "--table needs" in run("index", "--table", "docs", "-o", database.address, code=2)
    assert "name an index in the table's database" in run(*made[:-1], "folder", code=3)
    assert database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(3,)]
    whole = ("delete", database.address, "--whole-index")
    assert "takes no IDs" in run(*whole, "3", code=2)
    assert "would be removed, with 11 documents; the table docs stays" in run(*whole, "--dry-run")
    assert "docs: removed, with 11 documents" in run(*whole)
    assert "no index 'docs'" in run("stats", database.address, code=3)
    assert nothing_is_left(database)
    assert database.do("SELECT count(*) FROM docs") == [(11,)]


WRONG: Final[Mapping[str, tuple[str, UserTable, str]]] = {
    "no table": ("SELECT 1", replace(DOCS, name="nothing"), "table nothing: not found"),
    "no column": ("SELECT 1", replace(DOCS, text="words"), "no column 'words'.*id, body"),
    "id is not unique": (
        "ALTER TABLE docs DROP CONSTRAINT docs_pkey",
        DOCS,
        "must be unique and never null",
    ),
    "id may be null": (
        "ALTER TABLE docs ADD COLUMN key int UNIQUE",
        replace(DOCS, id="key"),
        "must be unique and never null",
    ),
    "unique with another column": (
        "ALTER TABLE docs ADD COLUMN key int NOT NULL, ADD UNIQUE (key, year)",
        replace(DOCS, id="key"),
        "must be unique and never null",
    ),
    "vector of any dimension": (
        "ALTER TABLE docs ADD COLUMN any_dim vector",
        replace(DOCS, vector="any_dim"),
        "vector.N. or halfvec",
    ),
    "no vector": ("SELECT 1", replace(DOCS, vector="body"), "vector.N. or halfvec.*got text"),
    "view": ("CREATE VIEW v AS SELECT * FROM docs", replace(DOCS, name="v"), "ordinary table"),
    "kept vector": ("SELECT 1", replace(DOCS, keep=("embedding",)), "has vectors"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(database: Database, case: str) -> None:
    """One error that names the table, and nothing is left behind."""
    statement, table, told = WRONG[case]
    database.do(statement)
    with pytest.raises(VocabtoolError, match=told):
        database.index(table)
    assert database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(0,)]
    assert database.do("SELECT count(*) FROM pg_namespace WHERE nspname = 'vocabtool'") == [(0,)]


def test_rights(database: Database) -> None:
    """Who may not read or watch the table is told so; who changes it needs no rights on ours."""
    role = f"reader_{database.uri.partition('test_')[2].partition('?')[0]}"
    name = database.do("SELECT current_database()")[0][0]
    database.do(f"CREATE ROLE {role} LOGIN")
    database.do(f"GRANT CREATE ON DATABASE {name} TO {role}")
    database.insert([row(number) for number in range(5)])
    theirs = f"{database.address}&user={role}"
    with pytest.raises(VocabtoolError, match="GRANT SELECT, TRIGGER ON") as refused:
        Index.create(theirs, table=DOCS)
    assert role in str(refused.value)
    database.do(f"GRANT SELECT, TRIGGER ON docs TO {role}")
    index = Index.create(theirs, table=DOCS)
    assert index.update().added == 5
    other = f"{role}_app"
    database.do(f"CREATE ROLE {other}")
    database.do(f"GRANT INSERT, DELETE, SELECT ON docs TO {other}")
    database.do(f"SET ROLE {other}")
    database.do("DELETE FROM docs WHERE id = 2")
    with pytest.raises(Exception, match="permission denied"):
        database.do("SELECT * FROM vocabtool.changes_1")
    database.do("RESET ROLE")
    assert index.update().removed == 1
    assert isinstance(index, StoreIndex)
    index.remove()
    assert database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(0,)]


@pytest.mark.parametrize("type_", ["vector(4)", "halfvec(4)"])
def test_copy(database: Database, tmp_path: Path, type_: str) -> None:
    """A copy has the texts and vectors that are in the table now, without deleted rows."""
    database.do(f"ALTER TABLE docs ALTER COLUMN embedding TYPE {type_}")
    database.insert([row(number) for number in range(20)])
    index = database.index()
    database.do("DELETE FROM docs WHERE id = 4")
    copy = index.copy(tmp_path / "copy")
    rows = database.do("SELECT id, body, embedding::vector::real[] FROM docs")
    assert {id_: text for id_, text, _ in rows} == {int(k): v for k, v in found_texts(copy).items()}
    held = copy.vectors(str(id_) for id_, *_ in rows)
    for id_, _, vector in rows:
        given = np.array(vector or [0.0] * DIM)
        wanted = given / (np.linalg.norm(given) or 1)
        assert held[str(id_)] == pytest.approx(wanted, abs=1e-3 if "half" in type_ else 1e-6)
    assert ids(copy.search("SKU-10007"))[0] == "7"
    assert copy.manifest.fields == index.manifest.fields


def test_triggers_that_are_gone(database: Database) -> None:
    """An update says that changes may be unknown; removal by SQL leaves the table as it was."""
    database.insert([row(1)])
    index = database.index()
    ours = "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'vocabtool%%updates'"
    ((name,),) = database.do(ours)
    database.do(f"ALTER TABLE docs DISABLE TRIGGER {name}")
    with pytest.raises(VocabtoolError, match=r"^postgresql://.*2 of the 3 triggers"):
        index.update()
    database.do("DROP FUNCTION vocabtool.note_1() CASCADE")
    with pytest.raises(VocabtoolError, match="0 of the 3 triggers"):
        index.update()
    assert index.stats().waiting is None
    assert "docs; its triggers are gone" in run("stats", database.address)
    database.insert([row(2)])
    index = database.index(force=True)
    assert sorted(index.ids()) == ["1", "2"]
    assert index.stats().waiting == 0


@pytest.mark.parametrize("again", ["delete", "index"])
def test_a_table_that_is_gone(database: Database, again: str) -> None:
    """Every command says so; the index can be removed, or made again."""
    database.insert([row(1)])
    index = database.index()
    database.do("DROP TABLE docs CASCADE")
    with pytest.raises(NotFound, match="its table or a view of it was dropped"):
        index.search("amber")
    whole = ("delete", database.address, "--whole-index")
    assert whole[-1] in run("search", database.address, "amber", code=3)
    database.do(f"CREATE TABLE docs {CREATE}")
    if again == "delete":
        kept = "removed, with 1 document; the table docs stays"
        assert f"would be {kept}" in run(*whole, "--dry-run")
        assert kept in run(*whole)
        assert "no index 'docs'" in run(*whole, code=3)
        assert nothing_is_left(database)
    assert "0 documents" in run(*MADE, database.address, *["--force"] * (again == "index"))
    database.insert([row(2)])
    assert "1 added" in run("update", database.address)


def test_the_documents_change_by_sql_only(database: Database, tmp_path: Path) -> None:
    """The index says so before it asks the model; its weight of keywords can be stored."""
    database.do("INSERT INTO docs VALUES (1, 'amber', %s)", str(encode(["amber"])[0].tolist()))
    database.index(PLAIN)
    asked: list[Sequence[str]] = []

    def model(texts: Sequence[str]) -> np.ndarray[Any, Any]:
        asked.append(texts)
        return encode(texts)

    (tmp_path / "more.txt").write_text("birch\n")
    index, refused = Index.open(database.address, model), "change them there by SQL"
    with pytest.raises(VocabtoolError, match=refused), index.writer() as writer:
        writer.add([Document("x", "text")])
    with pytest.raises(VocabtoolError, match=refused):
        index.load(tmp_path / "more.txt")
    with pytest.raises(VocabtoolError, match=refused):
        index.delete(["1"])
    assert asked == []
    assert refused in run("index", str(tmp_path / "more.txt"), "-o", database.address, code=3)
    index.store_calibration(Calibration(a=0.25, judged=0, sample=1, seed=0))
    opened = Index.open(database.address)
    assert opened.calibration is not None
    assert (opened.calibration.a, [*opened.ids()]) == (0.25, ["1"])


def test_other_arguments_of_an_update(database: Database) -> None:
    index = database.index(PLAIN)
    database.insert([row(1)])
    for more in ({"force": True}, {"threads": 2}, {"memory": 1 << 20}, {"vectors": np.ones(4)}):
        with pytest.raises(VocabtoolError, match="no option except --commit-rows"):
            index.update(**more)
    with pytest.raises(ValueError, match="commit_rows must be at least 1, got 0"):
        index.update(commit_rows=0)
    assert index.stats().waiting == 1


def test_schemas_with_names_alike(database: Database) -> None:
    """Indexes of one table in several schemas, whose triggers have names of their own."""
    database.insert([row(1)])
    addresses = [f"{database.address}&schema=a_long_schema_name_{at}" for at in range(2)]
    for address in addresses:
        assert Index.create(address, table=PLAIN).update().added == 1
    database.insert([row(2)])
    for address in addresses:
        assert Index.open(address).update().added == 1


def test_a_replacement_that_fails(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no triggers; the index that it would have replaced notes changes as before."""
    database.insert([row(1)])
    index = database.index(PLAIN)
    database.insert([(2, "x" * 200)])
    monkeypatch.setattr("vocabtool.stores.postgres.user_table.MAX_TEXT_BYTES", 100)
    new = Index.create(database.address, table=PLAIN, force=True, in_place=False)
    with pytest.raises(VocabtoolError, match=r"^postgresql://.*the text has"):
        new.update()
    assert database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(3,)]
    assert database.do("SELECT name FROM vocabtool.indexes") == [("docs",)]
    database.do("UPDATE docs SET body = 'birch' WHERE id = 2")
    assert index.update().added == 1
    as_the_table(database, index)
    Index.create(database.address, table=PLAIN, force=True, in_place=False)  # and is killed
    index.remove()
    assert nothing_is_left(database)


def test_a_first_replacement_that_is_killed(database: Database) -> None:
    """The whole index is removed, although nothing has its name."""
    Index.create(database.address, table=PLAIN, force=True, in_place=False)
    whole = ("delete", database.address, "--whole-index")
    told = "removed, with 0 documents; the table docs stays as it is"
    assert f"docs: its unfinished replacement would be {told}" in run(*whole, "--dry-run")
    database.index(PLAIN)
    both = run(*whole, "--dry-run")
    assert both.count("would be removed") == 2
    both = run(*whole)
    assert f"docs: its unfinished replacement {told}" in both
    assert f"docs: {told}" in both
    assert nothing_is_left(database)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), VocabtoolError("no"), None])
def test_a_replacement_that_stops_late(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: BaseException | None
) -> None:
    """It is removed, wherever it stops, unless it is in its place already."""
    database.insert([row(1)])
    database.index(PLAIN)
    database.insert([row(2)])
    real = PostgresEngine.put_in_place

    def stops(self: PostgresEngine) -> None:
        if error is not None:
            raise error
        real(self)
        self.is_build = True  # as if the answer to the COMMIT was lost
        raise VocabtoolError("lost")

    monkeypatch.setattr(PostgresEngine, "put_in_place", stops)
    done = CliRunner().invoke(cli, [*MADE, database.address, "--force"])
    assert done.exit_code != 0
    advice = "run the same command again to start over"
    assert (advice in done.output) == isinstance(error, KeyboardInterrupt)
    assert database.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(3,)]
    assert database.do("SELECT name FROM vocabtool.indexes") == [("docs",)]
    index = Index.open(database.address)
    assert sorted(index.ids()) == (["1"] if error is not None else ["1", "2"])
    index.update()
    as_the_table(database, index)


def test_all_is_committed_and_then_it_fails(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost: a note says what to do; a replacement takes its place."""
    import psycopg

    def no_space(*_: object) -> None:
        raise psycopg.OperationalError("no space")

    def not_measured(*_: object, **__: object) -> None:
        raise VocabtoolError("no connection")

    database.insert([row(1), row(2)])
    with monkeypatch.context() as failing:
        failing.setattr("vocabtool.stores.postgres.writer.VACUUM_ROWS", 0)
        failing.setattr("vocabtool.stores.postgres.writer.vacuum", no_space)
        failing.setattr(
            "vocabtool.stores.postgres.engine.PostgresEngine.index_vectors", not_measured
        )
        database.index(PLAIN)
        database.insert([row(3)])
        index = Index.create(database.address, table=PLAIN, force=True, in_place=False)
        report = index.update()
        assert report.added == 3
        (note,) = report.notes
        assert note.startswith("no connection. All documents are committed; `vocabtool compact`")
        index = index.put_in_place()
    as_the_table(database, Index.open(database.address))
    assert index.update().notes == ()
    # A VACUUM counts the rows that are left. Before the first one the number is -1.
    index.compact()
    assert database.do("SELECT reltuples FROM pg_class WHERE relname = 'changes_2'") == [(0,)]


def test_a_table_that_is_in_use(database: Database, refused: threading.Event) -> None:
    """Triggers wait until nobody writes to the table; whoever comes meanwhile waits briefly."""
    import psycopg

    database.insert([row(1)])
    with psycopg.connect(database.uri) as writing:
        writing.execute("INSERT INTO docs (id, body) VALUES (2, 'birch')")
        creating = threading.Thread(target=database.index, args=(PLAIN,))
        creating.start()
        assert refused.wait(60)
        database.insert([row(3)])
    creating.join()
    as_the_table(database, Index.open(database.address))
