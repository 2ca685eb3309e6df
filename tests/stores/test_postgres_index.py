"""An index in PostgreSQL, by the public ``Index``, while other processes use the same database."""

from __future__ import annotations

import gc
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_indexes import add, ids
from tests.cli.running import run
from vocabtool import (
    Document,
    FolderInUse,
    Index,
    InvalidCondition,
    NotFound,
    VocabtoolError,
    Writer,
)
from vocabtool.cli.main import cli
from vocabtool.errors import InvalidFile
from vocabtool.index.postgres import database as tables
from vocabtool.index.postgres import transaction
from vocabtool.index.postgres.snapshot import PostgresSnapshot
from vocabtool.keywords.cutter import Term

DIM: Final = 4
COUNT: Final = 40  # more than an export fetches at first
TEXTS: Final = {f"d{at:02}": f"amber word{at} SKU-{at}" for at in range(COUNT)}
VECTORS: Final = np.eye(DIM, dtype=np.float32)[np.arange(COUNT) % DIM]


@pytest.fixture
def database(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A connection to a new database with pgvector, whose first index gets the number 1."""
    import psycopg

    monkeypatch.setenv("VOCABTOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(secrets, "randbelow", lambda most: 0)
    with psycopg.connect(postgres_server.new_database(), autocommit=True) as connection:
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
    put(made, [Document(*each) for each in TEXTS.items()])
    return made


def encode(texts: Sequence[str]) -> Any:
    """The model of ``VECTORS``."""
    return [VECTORS[int(text.rpartition("-")[2])] for text in texts]


def test_reads_while_others_delete(
    index: Index, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for a document is told what is there now, not that it changed meanwhile."""
    other, real = Index.open(address), (PostgresSnapshot.fetch_documents, PostgresSnapshot.take)
    left = ["d01", "d03", "d05", "d07"]

    def deletes_first(self: Any, which: int, rows: Any) -> Any:
        if left:
            other.delete([left.pop(0)])
        return real[which](self, rows)

    for which, name in enumerate(("fetch_documents", "take")):
        monkeypatch.setattr(PostgresSnapshot, name, partialmethod(deletes_first, which))
    assert index.get("d01") is None
    assert index.get_many(["d02", "d03"]) == {"d02": Document("d02", TEXTS["d02"])}
    assert {*index.vectors(["d04", "d05"])} == {"d04"}
    assert "d07" not in ids(index.similar("d06", k=COUNT))
    assert left == []


def test_a_search_takes_three_round_trips(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the statistics of its words, for both legs, and for the documents."""
    reads, connections = list[object](), index.snapshot().connections  # type: ignore[attr-defined] # only in PostgreSQL
    read = connections.read

    def record(work: Any) -> Any:
        reads.append(work)
        return read(work)

    monkeypatch.setattr(connections, "read", record)
    for text in ("amber word3", "SKU-7 amber", '"amber word3"', "amber-word3", "amber -word3"):
        reads.clear()
        assert index.search(text, vector=VECTORS[0]).hits
        assert len(reads) <= 3


def test_a_search_sees_the_newest_commit(index: Index, address: str) -> None:
    """Without a refresh, in its hits and in the frequencies of words."""
    other = Index.open(address)
    other.delete(["d07", "d08"])
    assert ids(index.search("SKU-7 SKU-9"))[0] == "d09"
    assert index.snapshot().statistics([Term("words", "amber")])[0] == {
        Term("words", "amber"): COUNT - 2
    }
    other.remove()
    with pytest.raises(NotFound, match="removed"):
        index.search("amber")


def test_an_approximate_index_measures_its_recall(address: str) -> None:
    """Searches find nearly all of the nearest documents, also those that satisfy a condition."""
    draw, years = np.random.default_rng(1).standard_normal((601, 8)), np.arange(600) % 20
    index = Index.create(address, dim=8, exact_below=10, recall=0.999, dtype="float32")
    vectors = np.concatenate([draw[:599], np.zeros((1, 8))])
    with index.writer() as writer:
        writer.add([Document(str(at), "", {"year": int(y)}) for at, y in enumerate(years)], vectors)
    codes = index.manifest.codes
    assert codes is not None
    assert codes.recall >= 0.95
    assert (codes.coded, index.stats().recall) == (599, codes.recall)
    cosines = vectors @ draw[600] / np.linalg.norm(draw[600])
    cosines[:599] /= np.linalg.norm(vectors[:599], axis=1)
    for where, allowed in ((None, years >= 0), ("year = 3", years == 3), ("year > 5", years > 5)):
        hits = index.search(vector=draw[600], where=where, k=10)
        right = np.flatnonzero(allowed)[(-cosines[allowed]).argsort()][:10].tolist()
        assert len({*map(int, ids(hits))} & {*right}) >= 8
        assert [hit.similarity for hit in hits] == pytest.approx(
            [cosines[int(hit.id)] for hit in hits], abs=1e-5
        )


def test_more_hits_than_the_visited_lists_have(database: Any, address: str) -> None:
    """A search visits more lists, also with a pgvector that does not go on by itself."""
    name = database.info.dbname  # the planner would read so small a table from end to end
    database.execute(f"ALTER DATABASE {name} SET enable_seqscan = off")
    index = Index.create(address, dim=8, exact_below=10, recall=0.1)
    vectors = np.random.default_rng(2).standard_normal((600, 8))
    with index.writer() as writer:
        writer.add([Document(str(at), "", {}) for at in range(600)], vectors)
    codes = index.manifest.codes
    assert codes is not None
    assert codes.probes < codes.lists == 24
    assert len(index.search(vector=vectors[0], k=300)) == 300


def open_connections(database: Any) -> int:
    """Those of the index to its database, which the server closes a moment after us."""
    told = "application_name = 'vocabtool' AND datname = current_database()"
    found = database.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {told}").fetchone()
    return int(found[0])


def no_connections(database: Any) -> bool:
    until = time.monotonic() + 30
    while open_connections(database):
        assert time.monotonic() < until, "connections are open"
    return True


@pytest.mark.parametrize("how", ["with", "close", "forgotten"])
def test_connections_are_closed(database: Any, address: str, index: Index, how: str) -> None:
    """By ``close``, at the end of a ``with`` block, or when nobody has the index any more."""
    index.close()
    assert no_connections(database)
    gc.collect()
    gc.disable()
    try:
        opened: Index | None = Index.open(address, encode if how == "forgotten" else None)
        assert opened is not None
        with opened if how == "with" else nullcontext():
            assert ids(opened.search("SKU-7", vector=VECTORS[3]))[0] == "d07"
            assert open_connections(database) > 0
        if how == "close":
            opened.close()
            for work in (opened.refresh, opened.stats, lambda: index.delete(["d01"])):
                with pytest.raises(VocabtoolError, match="the index is closed: open it again"):
                    work()
        elif how == "forgotten":
            opened = None
        assert no_connections(database)
    finally:
        gc.enable()


def replace_by_two(folder: Path, address: str) -> Result:
    """Put an index of two documents in the place of another, by the command."""
    if not (folder / "two.txt").exists():  # else another load
        (folder / "two.txt").write_text("amber\nbirch\n")
        np.save(folder / "two.npy", VECTORS[:2])
    given = [str(folder / "two.txt"), "--vectors", str(folder / "two.npy"), "-o", address]
    return CliRunner().invoke(cli, ["index", *given, "--force"])


def test_a_replacement_whose_vectors_cannot_be_indexed(
    index: Index, address: str, database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its documents are committed, so it takes its place, and `compact` finishes it."""

    def fails(*_: Any, **__: Any) -> None:
        raise VocabtoolError("no space")

    monkeypatch.setattr(transaction.PostgresTransaction, "_index_vectors", fails)
    done = replace_by_two(tmp_path, address)
    assert "All documents are committed" in str(done.exception)
    monkeypatch.undo()
    monkeypatch.setenv("VOCABTOOL_CACHE", str(tmp_path / "cache"))
    left = Index.open(address)
    assert len(left) == 2
    assert left.compact() == 0
    facts = "SELECT name FROM vocabtool.facts_2"  # what it was made of is needed no longer
    assert database.execute(facts).fetchall() == []


def test_two_replacements(index: Index, address: str) -> None:
    """The one that the other has removed does not remove the index that is in place."""
    first = Index.create(address, dim=DIM, force=True, in_place=False)
    Index.create(address, dim=DIM, force=True, in_place=False)
    with pytest.raises(NotFound, match="the replacement was removed by another process"):
        first.put_in_place()
    assert len(Index.open(address)) == COUNT


def test_the_index_of_another_is_not_removed(index: Index, address: str) -> None:
    """Who has an index that was replaced is told so."""
    put(Index.create(address, dim=DIM, force=True), [Document("new", "amber")])
    with pytest.raises(VocabtoolError, match="removed or replaced: open it again"):
        index.remove()
    assert [*Index.open(address).ids()] == ["new"]


def test_a_new_index_is_removed_only_while_it_is_empty(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who fails leaves no empty index, and does not remove what another wrote meanwhile."""
    (tmp_path / "file").touch()
    with monkeypatch.context() as patched, pytest.raises(VocabtoolError):
        patched.setenv("VOCABTOOL_CACHE", str(tmp_path / "file"))
        Index.create(address, dim=DIM)
    index = Index.create(address, dim=DIM)
    with ThreadPoolExecutor(1) as pool:
        with Index.open(address).writer() as writer:
            removed = pool.submit(index.remove, if_empty=True)  # waits for this writer
            writer.add([Document("new", "amber")], np.ones((1, DIM)))
        removed.result()
    assert [*Index.open(address).ids()] == ["new"]
    empty = Index.open(address)
    empty.delete(["new"])
    empty.remove(if_empty=True)
    with pytest.raises(NotFound):
        Index.open(address)


def test_an_index_that_was_dropped_with_its_schema_and_made_again(
    index: Index, address: str, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the old one open is told so by every method."""
    database.execute("DROP SCHEMA vocabtool CASCADE")
    monkeypatch.setattr(secrets, "randbelow", lambda most: most - 1)
    put(Index.create(address, dim=DIM), [Document("d01", "amber")])
    work: tuple[Callable[[], object], ...] = (
        *(lambda: index.get("d01"), lambda: index.search("amber"), index.refresh),
        *(lambda: index.delete(["d01"]), index.verify),
    )
    for each in work:
        with pytest.raises(NotFound, match="open it again"):
            each()
    assert len(Index.open(address)) == 1


def test_ids_that_are_not_utf8(index: Index) -> None:
    assert index.get("\ud800") is None
    assert "\ud800" not in index
    with pytest.raises(NotFound):
        index.similar("\ud800")


@pytest.mark.parametrize("schema", ['50% "x" {n}', "$other"])
def test_any_name_of_a_schema(address: str, schema: str) -> None:
    made = Index.create(f"{address}&schema={quote(schema)}", dim=DIM, exact_below=1)
    put(made, [Document("a", "amber", {"n": 1}), Document("b", "birch")])
    made.compact()
    again = Index.open(f"{address}&schema={quote(schema)}")
    assert ids(again.search("amber", where="n = 1")) == ["a"]
    assert again.verify().approximate
    assert again.stats().files["codes"] > 0
    again.remove()


@pytest.mark.parametrize("schema", ["$user", "", "x" * 64, "a\nb"])
def test_names_that_no_schema_can_have(address: str, schema: str) -> None:
    with pytest.raises(VocabtoolError, match="the name of a schema must be"):
        Index.create(f"{address}&schema={quote(schema)}", dim=DIM)


def test_no_path_comes_from_a_database(
    index: Index, address: str, database: Any, tmp_path: Path
) -> None:
    """An id that is a path is refused, and nothing is removed there; the index can be."""
    (tmp_path / "kept").mkdir()
    record = replace(index.manifest, index="../../kept").encode()
    database.execute("UPDATE vocabtool.indexes SET record = %s", [record])
    with pytest.raises(InvalidFile, match=r"32 digits 0-9a-f, got '../../kept'"):
        Index.open(address)
    done = run("delete", address, "--whole-index")
    assert b"removed, with 40 documents" in done.stderr
    assert (tmp_path / "kept").is_dir()
    assert database.execute("SELECT count(*) FROM vocabtool.indexes").fetchone() == (0,)


def test_a_damaged_index_is_removed(index: Index, address: str, database: Any) -> None:
    """Whatever is missing of it; the copies of its model's files go too."""
    database.execute("DROP TABLE vocabtool.documents_1, vocabtool.facts_1")
    for more in (["--dry-run"], []):
        done = run("delete", address, "--whole-index", *more)
        assert done.returncode == 0
        assert b"removed" in done.stderr
    assert b"no index 'test'" in run("stats", address).stderr
    left = "SELECT count(*) FROM pg_tables WHERE schemaname = 'vocabtool' AND tablename ~ '_1$'"
    assert database.execute(left).fetchone() == (0,)
    assert not index.path.exists()


def test_a_long_transaction_stops_nobody(
    index: Index, address: str, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new column, and the end of an index, wait for it briefly, again and again, or give up."""
    monkeypatch.setattr(tables, "TABLE_WAIT", "50ms")
    monkeypatch.setattr(tables, "TABLE_TRIES", 2)
    more = [Document("new", "birch", {"year": 1})]
    with database.transaction():
        database.execute("SELECT count(*) FROM vocabtool.documents_1")
        with pytest.raises(VocabtoolError, match=r"55P03.*pg_stat_activity"):
            index.remove()
        with pytest.raises(VocabtoolError, match="Nothing of this commit was written"):
            put(index, more)
        monkeypatch.setattr(tables, "TABLE_TRIES", 1_000)
        writing = threading.Thread(target=put, args=(Index.open(address), more))
        writing.start()
        for number in range(10):
            assert ids(index.search(f"SKU-{number}"))[0] == f"d0{number}"
        assert index.get("new") is None
    writing.join()
    index.refresh()
    assert index.get("new") == more[0]


@pytest.mark.parametrize("fails", ["CREATE INDEX", "ALTER INDEX"])
def test_an_index_of_vectors_that_cannot_be_replaced(
    database: Any, address: str, fails: str
) -> None:
    """The old one remains. With two, searches are exact; the next build removes a new one."""
    index = Index.create(address, dim=DIM, exact_below=10)
    put(index, [Document(*each) for each in TEXTS.items()])
    before = index.verify()
    assert before.approximate
    names = "SELECT indexname FROM pg_indexes WHERE indexname ~ '^vectors'"
    database.execute(
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'no space'; END $$"
    )
    started = f"ON ddl_command_start WHEN TAG IN ('{fails}') EXECUTE FUNCTION refuse()"
    database.execute(f"CREATE EVENT TRIGGER refused {started}")
    with pytest.raises(VocabtoolError, match="no space"):
        index.compact()
    index = Index.open(address)
    assert index.verify().approximate == (fails == "CREATE INDEX")
    assert ("vectors_1",) in database.execute(names).fetchall()
    database.execute("DROP EVENT TRIGGER refused")
    index.compact()
    assert index.verify().approximate
    assert database.execute(names).fetchall() == [("vectors_1",)]


def put(index: Index, documents: Sequence[Document]) -> None:
    with index.writer() as writer:
        writer.add(documents, VECTORS[: len(documents)])


def test_an_export_is_of_one_commit(index: Index, address: str, tmp_path: Path) -> None:
    """What is deleted or added after its beginning makes no difference."""
    other, file = Index.open(address), tmp_path / "all.jsonl"

    def change(_: str, share: float) -> None:
        if share < 1:
            other.delete(where="id >= 'd20' and id < 'd30'")

    where = "id != 'd05'"
    assert index.export(file, where=where, vectors=True, progress=change) == COUNT - 1
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["id"]: row["text"] for row in rows} | {"d05": TEXTS["d05"]} == TEXTS
    assert np.array_equal(np.load(tmp_path / "all.vectors.npy"), np.delete(VECTORS, 5, axis=0))
    assert len([*index.ids()]) == COUNT - 10


def test_whoever_lists_documents_stops_nobody(index: Index, database: Any) -> None:
    """No connection is kept meanwhile; what is deleted after the beginning is left out."""
    with pytest.raises(InvalidCondition):
        index.documents("id >")
    listed, found = index.ids(), index.documents("id >= 'd01'")
    assert (next(listed), next(found).id) == ("d00", "d01")
    database.execute("SET lock_timeout = '10s'")
    with database.transaction():
        database.execute("LOCK TABLE vocabtool.documents_1 IN ACCESS EXCLUSIVE MODE")
    index.delete(where="id >= 'd20' and id < 'd30'")
    assert [*listed] == [*TEXTS][1:]
    assert [each.id for each in found] == [*TEXTS][2:20] + [*TEXTS][30:]
    found = index.documents()
    assert next(found).id == "d00"
    for each in index.ids():
        index.delete([each])
    assert len(index) == 0
    index.close()
    assert no_connections(database)


def test_large_word_vectors_are_not_in_the_database(
    database: Any, address: str, tmp_path: Path
) -> None:
    """Only their vocabulary is. They are in the cache of the machine, or come from the model."""
    file = tmp_path / "vectors.npz"
    words = [f"w{number}" for number in range(40_000)]
    matrix = np.random.default_rng(2).standard_normal((len(words), 256)).astype(np.float32)
    np.savez(file, words=np.array(words), vectors=matrix)
    index = Index.create(address, file, rule="whitespace", weights="none")
    index.load([Document("x", "w1 w2")])
    facts = database.execute(
        "SELECT name, length(value) FROM vocabtool.facts_1 WHERE name LIKE '%-%'"
    )
    assert [(name.partition("-")[0], size < 4 << 20) for name, size in facts] == [
        ("vocabulary", True)
    ]
    file.unlink()
    assert Index.open(address).search("w1", fusion="dense")[0].similarity == pytest.approx(
        matrix[1]
        @ (matrix[1] + matrix[2])
        / (np.linalg.norm(matrix[1]) * np.linalg.norm(matrix[1] + matrix[2])),
        abs=1e-3,
    )
    (copy,) = (tmp_path / "cache" / "vectors").iterdir()
    copy.unlink()
    with pytest.raises(NotFound, match=r"vectors\.npz"):
        Index.open(address).search("w1", fusion="dense")


# The writer.


def update(writer: Writer, documents: Sequence[Document]) -> None:
    writer.update(documents, VECTORS[: len(documents)])


def texts_of(index: Index) -> dict[str, str]:
    """The documents of the last commit; fails if a statistic differs from a recount."""
    index.refresh()
    assert index.verify().documents == len(index)
    return {document.id: document.text for document in index.documents()}


@pytest.mark.parametrize(
    "name",
    [
        *("'; DROP SCHEMA vocabtool CASCADE; --", '"', "\\", "%s", "{documents}", "$1"),
        *("Ärger", "名前", "x" * 200, " ", "NULL", "\\N", "\\.", "é" * 200),
    ],
)
def test_names_of_indexes_are_values(address: str, database: Any, name: str) -> None:
    """They have up to 200 characters, also while the index is replaced."""
    named = address.replace("index=test", f"index={quote(name)}")
    Index.create(named, dim=DIM)
    put(Index.create(named, dim=DIM, force=True), [Document(name, "amber")])
    assert texts_of(Index.open(named)) == {name: "amber"}
    assert database.execute("SELECT name FROM vocabtool.indexes").fetchall() == [(name,)]
    with pytest.raises(VocabtoolError, match="1 to 200 printable characters"):
        Index.create(f"{named}{'y' * 200}", dim=DIM)


def test_one_writer_at_a_time(index: Index, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one waits until the first is closed, for a limited time; each schema has its own."""
    other, changed = Index.open(address), [Document("d00", "from other", {"y": "word"})]
    with ThreadPoolExecutor(1) as pool:
        with index.writer() as writer:
            put(Index.create(f"{address}&schema=second", dim=DIM), changed)
            with monkeypatch.context() as impatient:
                impatient.setattr(tables, "WAIT_SECONDS", 0.1)
                told = r"another process writes .* within 0.1 seconds"
                with pytest.raises(FolderInUse, match=told), other.writer():
                    pass
            waiting = pool.submit(add, other, changed, VECTORS[:1], on_existing="update")
            update(writer, [Document("d00", "from one", {"x": 1})])
            writer.commit()
            assert texts_of(Index.open(address))["d00"] == "from one"
            assert not waiting.done()
        waiting.result()
    assert texts_of(index) == {**TEXTS, "d00": "from other"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_commit(
    index: Index, address: str, monkeypatch: pytest.MonkeyPatch, moment: str
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

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", execute)
        with pytest.raises(VocabtoolError, match="Whether the last commit was written is unknown"):
            put(index, [Document("new", "birch")])
    assert ("new" in texts_of(Index.open(address))) == (moment == "after")


def test_more_than_the_buffer(index: Index, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushed changes are committed with the others, or not at all."""
    monkeypatch.setattr(transaction, "BUFFER_BYTES", 10_000)
    with index.writer() as writer:
        for turn in range(5):
            update(writer, [Document(f"d{at:02}", f"turn{turn}") for at in range(20)])
        assert texts_of(Index.open(address)) == TEXTS
    expected = {**TEXTS, **{f"d{at:02}": "turn4" for at in range(20)}}
    assert texts_of(index) == expected
    told = r"a field is new, but 20 .*Nothing of this commit was written"
    with pytest.raises(VocabtoolError, match=told), index.writer() as writer:
        update(writer, [Document(f"e{at}", "word") for at in range(20)])
        update(writer, [Document("f", "birch", {"year": 1})])
    assert texts_of(index) == expected


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM terms_1 WHERE text = 'amber'", "1 terms .*or postings of no term"),
        ("UPDATE terms_1 SET documents = documents + 1", "terms with another number"),
        ("UPDATE indexes SET documents = 9, words = words + 1", "2 totals"),
        ("DELETE FROM postings_1 WHERE frequency = 1", "postings that are missing"),
        ("UPDATE documents_1 SET words = 7", "1 totals"),
    ],
)
def test_verify_recounts(index: Index, database: Any, statement: str, told: str) -> None:
    database.execute("SET search_path = vocabtool")
    database.execute(statement)
    with pytest.raises(InvalidFile, match=told):
        index.verify()


def test_tables_of_another_version(index: Index, address: str, database: Any) -> None:
    database.execute("UPDATE vocabtool.version SET number = 9")
    with pytest.raises(VocabtoolError, match=r"layout 9, wanted 4\): index again"):
        Index.open(address)


def test_a_schema_is_made_once_by_many(address: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        addresses = [address.replace("index=test", f"index={name}") for name in "abcdef"]
        made = [*pool.map(lambda named: Index.create(named, dim=DIM), addresses)]
    assert len({index.manifest.index for index in made}) == 6
    assert [len(Index.open(named)) for named in addresses] == [0] * 6


def test_passwords_are_never_shown() -> None:
    for place in ("127.0.0.1:9/db?", "h:no/db?", "127.0.0.1/db?nothing=1&"):
        with pytest.raises(VocabtoolError) as caught:
            Index.open(f"postgresql://me:Geheim99@{place}index=test")
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
        Index.open("postgresql://host/docs?sslmode=verify-full&index=test")


def test_without_psycopg(tmp_path: Path) -> None:
    """The message says what to install, where it is needed: a folder is none of PostgreSQL."""
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('no psycopg')")
    environ = {"PYTHONPATH": str(tmp_path)}
    done = run("stats", "postgresql://host/db?index=x", environ=environ)
    assert (done.returncode, b"pip install '.[postgres]'" in done.stderr) == (3, True)
    done = run("delete", tmp_path, "--whole-index", environ=environ)
    assert (done.returncode, b"remove the folder instead" in done.stderr) == (2, True)
