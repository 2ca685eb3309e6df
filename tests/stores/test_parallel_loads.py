"""Several processes load into one index at once: each document is there once, whoever dies.

The oracle is what was written into the files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.builders.postgres_server import PostgresServer
from tests.builders.postgres_store import new_index, open_writer, put, texts_in
from tests.conftest import ROOT
from vocabtool import Document, Index, VocabtoolError
from vocabtool.choices import OnExisting
from vocabtool.stores.postgres.connection import Connections

SHARDS: Final = 8
ROWS: Final = 250  # of a shard
MODEL: Final = ("--model", str(ROOT / "data/small_glove.txt"), "--weights", "none")
WAIT: Final = 120.0  # seconds for what takes a few
TEXTS: Final = {f"d{at}": f"amber birch number{at} SKU-{at}" for at in range(SHARDS * ROWS)}


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    """The address of an empty database with pgvector, for ``psycopg.connect``."""
    import psycopg

    address = postgres_server.new_database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector SCHEMA public")
    return address


@pytest.fixture
def address(database: str) -> str:
    """The address of the index ``test``, which is not there yet."""
    return f"{database}{'&' if '?' in database else '?'}index=test"


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ``vocabtool embed`` with eight shards."""
    folder = tmp_path_factory.mktemp("shards")
    write(folder / "docs.jsonl", TEXTS)
    options = [
        *MODEL,
        "--quiet",
        "--id-field",
        "id",
        "--shard-rows",
        str(ROWS),
        "-o",
        str(folder / "vectors"),
    ]
    embedding = started(["embed", str(folder / "docs.jsonl"), *options])
    assert embedding.communicate(timeout=WAIT)[1] == ""
    assert len([*(folder / "vectors").glob("*.parquet")]) == SHARDS
    return folder / "vectors"


def write(file: Path, texts: dict[str, str]) -> None:
    rows = (json.dumps({"id": id_, "text": text}) for id_, text in texts.items())
    file.write_text("\n".join(rows))


def started(arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vocabtool", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def reports(*processes: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What they print as JSON; all must succeed."""
    try:
        told = [process.communicate(timeout=WAIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [each.returncode for each in processes] == [0] * len(processes), told
    return [json.loads(out) for out, _ in told]


def kill(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()


def loaded_shards(connections: Connections) -> int:
    """Number of shards in the store, 0 before there is an index."""
    there = "SELECT to_regclass('vocabtool.shards_1') IS NOT NULL"
    with connections.connect() as connection:
        if connection.execute(there).fetchone() == (False,):
            return 0
        row = connection.execute("SELECT count(*) FROM vocabtool.shards_1").fetchone()
    return 0 if row is None else int(row[0])


def test_four_processes_and_two_kills(database: str, address: str, shards: Path) -> None:
    """They create the index and share the shards; two are killed, the others do the rest."""
    command = ["index", str(shards), "-o", address, "--format", "json"]
    connections = Connections(database)
    processes = [started(command) for _ in range(4)]
    until = time.monotonic() + WAIT
    while loaded_shards(connections) < 2:
        assert time.monotonic() < until, "nothing is loaded"
    kill(*processes[:2])
    assert loaded_shards(connections) < SHARDS
    found = reports(*processes[2:])
    assert texts_in(connections) == TEXTS
    for each in found:
        assert each["read"] == len(TEXTS)
        assert each["added"] + each["by_others"] + each["resumed"] == len(TEXTS)
        assert each["added"] % ROWS == 0
    assert loaded_shards(connections) == SHARDS
    with connections.connect() as connection:
        loads = connection.execute("SELECT documents, finished FROM vocabtool.loads_1").fetchall()
    assert loads == [(len(TEXTS), True)]
    (again,) = reports(started(command))
    assert (again["read"], again["resumed"], again["added"]) == (len(TEXTS), len(TEXTS), 0)


def test_all_are_killed(database: str, address: str, shards: Path) -> None:
    """Then the store says that a load is unfinished, and one process does the rest."""
    command = ["index", str(shards), "-o", address, "--format", "json"]
    connections = Connections(database)
    processes = [started(command) for _ in range(2)]
    until = time.monotonic() + WAIT
    while not loaded_shards(connections):
        assert time.monotonic() < until, "nothing is loaded"
    kill(*processes)
    done = loaded_shards(connections)
    assert done < SHARDS
    assert Index.open(address).stats().loading
    (found,) = reports(started(command))
    assert (found["resumed"], found["by_others"]) == (done * ROWS, 0)
    assert found["added"] == (SHARDS - done) * ROWS
    assert texts_in(connections) == TEXTS
    assert not Index.open(address).stats().loading


def test_a_shard_of_a_process_that_dies(database: str) -> None:
    """Who finds no shard waits; when the other one dies, it takes that one's."""
    connections = new_index(database)
    one, other = open_writer(connections), open_writer(connections)
    assert [one.take_shard("p", 2), other.take_shard("p", 2)] == [0, 1]
    other.add_shard("p", 1, 0)
    other.commit_changes(other.manifest, codes=False)
    found: list[int | None] = []
    waiting = threading.Thread(target=lambda: found.append(other.take_shard("p", 2)))
    waiting.start()
    assert found == []
    one.close()
    waiting.join(WAIT)
    assert found == [0]
    third = open_writer(connections)
    third.add_shard("p", 0, 0)  # as one whose connection, and reservation, were lost
    third.commit_changes(third.manifest, codes=False)
    other.add_shard("p", 0, 0)
    with pytest.raises(VocabtoolError, match="another process loaded shard 0 meanwhile"):
        other.commit_changes(other.manifest, codes=False)
    other.close()
    assert third.take_shard("p", 2) is None
    third.close()


def test_four_files_at_once(database: str, address: str, tmp_path: Path) -> None:
    """Each process creates or finds the index; all FILEs are recorded, each load is finished."""
    commands: list[list[str]] = []
    wanted: dict[str, str] = {}
    for number in range(4):
        texts = {f"f{number}-{at}": f"birch file{number} word{at}" for at in range(300)}
        wanted |= texts
        file = tmp_path / f"f{number}.jsonl"
        write(file, texts)
        options = [*MODEL, "--id-field", "id", "--no-calibrate", "--commit-rows", "100"]
        commands.append(["index", str(file), *options, "-o", address, "--format", "json"])
    found = reports(*map(started, commands))
    assert [each["added"] for each in found] == [300] * 4
    connections = Connections(database)
    assert texts_in(connections) == wanted
    names = [source.name for source in Index.open(address).manifest.sources]
    assert sorted(names) == [str(tmp_path / f"f{number}.jsonl") for number in range(4)]
    with connections.connect() as connection:
        held = connection.execute("SELECT DISTINCT id, source FROM vocabtool.documents_1")
        for id_, source in held:
            assert Path(names[source - 1]).stem == id_.partition("-")[0]
    # A load that ended before another began is forgotten, as in a folder: then its ids are skipped.
    again = reports(*(started([*each, "--existing", "skip"]) for each in commands))
    assert [(each["read"], each["added"]) for each in again] == [(300, 0)] * 4


def test_one_file_twice_at_once(database: str, address: str, tmp_path: Path) -> None:
    texts = {f"d{at}": f"birch word{at}" for at in range(400)}
    file = tmp_path / "docs.jsonl"
    write(file, texts)
    options = [*MODEL, "--id-field", "id", "--no-calibrate"]
    options += ["--existing", "update", "--commit-rows", "50", "--format", "json"]
    processes = [started(["index", str(file), *options, "-o", address]) for _ in range(2)]
    assert [each["read"] for each in reports(*processes)] == [400] * 2
    assert texts_in(Connections(database)) == texts
    assert len(Index.open(address).manifest.sources) == 1


@pytest.fixture
def index(address: str) -> Index:
    return Index.create(address, dim=4, metric="cosine")


@pytest.mark.parametrize("on_existing", ["error", "skip", "update"])
def test_an_id_that_another_adds(database: str, index: Index, on_existing: OnExisting) -> None:
    """Both find it missing; whose commit is second raises, keeps the other's, or replaces it."""
    ones = np.ones((2, 4))
    with ExitStack() as expected:
        if on_existing == "error":
            what = "'a' is in the index already: another writer"
            expected.enter_context(pytest.raises(VocabtoolError, match=what))
        with index.writer() as second:
            mine = [Document("a", "from second"), Document("b", "from second")]
            second.add(mine, ones, on_existing=on_existing)
            with index.writer() as first:
                first.add([Document("a", "from first")], ones[:1])
    wanted = {
        "error": {"a": "from first"},
        "skip": {"a": "from first", "b": "from second"},
        "update": {"a": "from second", "b": "from second"},
    }
    assert texts_in(Connections(database)) == wanted[on_existing]


def test_a_sync_keeps_what_others_add_meanwhile(
    database: str, address: str, tmp_path: Path
) -> None:
    """Even if they took its number before the sync began."""
    file, vectors = tmp_path / "docs.jsonl", tmp_path / "v.npy"
    texts = {f"d{at}": f"birch word{at}" for at in range(30)}
    write(file, texts)
    np.save(vectors, np.ones((30, 4), np.float32))
    index = Index.create(address, dim=4, metric="cosine")
    index.load(str(file), id_field="id", vectors=str(vectors))
    connections = Connections(database)
    early, late = open_writer(connections), open_writer(connections)
    put(early, [Document("early", "amber")], source=1)
    put(late, [Document("late", "amber")], source=1)
    late.commit_changes(late.manifest, codes=False)
    del texts["d3"]
    write(file, texts)
    np.save(vectors, np.ones((29, 4), np.float32))
    told: list[str] = []

    def progress(what: str, share: float) -> None:
        if not told:
            early.commit_changes(early.manifest, codes=False)
        told.append(what)

    assert index.update(sync=True, progress=progress).removed == 2
    assert texts_in(connections) == {**texts, "early": "amber"}
    early.close()
    late.close()


def test_similarity_by_chance(index: Index, tmp_path: Path) -> None:
    """It is that of an index in a folder with the same vectors; measured again after doubling."""
    folder = Index.create(tmp_path / "folder", dim=4, metric="cosine")
    vectors = np.random.default_rng(5).normal(size=(450, 4))
    for start, end in ((0, 5), (5, 200), (200, 250), (250, 450)):
        documents = [Document(f"d{at}", f"text {at}") for at in range(start, end)]
        for each in (index, folder):
            with each.writer() as writer:
                writer.add(documents, vectors[start:end])
        assert index.manifest.chance == folder.manifest.chance
    assert index.manifest.chance is not None
    assert index.manifest.chance.rows == 450
