"""Copies between folders and PostgreSQL: the same values, also after kills on the way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.builders.postgres_server import PostgresServer
from tests.builders.small_indexes import DIM, add, answers, documents, vectors
from tests.conftest import ROOT
from vocabtool import Document, Index, VocabtoolError
from vocabtool.errors import FolderNotEmpty, InvalidFile
from vocabtool.index.engines import engine_class
from vocabtool.index.transfer import transfer
from vocabtool.search.settings import Calibration

ROWS = 16  # in each block and commit
PROGRAM = f"""
import sys
from vocabtool import Index
from vocabtool.index import database, transfer
from vocabtool.stores.postgres import engine
database.READ_ROWS = engine.COPIED_ROWS = ({ROWS}, {ROWS})
source = Index.open(sys.argv[1])
print("begins", flush=True)
transfer.transfer(source, sys.argv[2], commit_rows={ROWS})
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOCABTOOL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def places(postgres_server: PostgresServer, tmp_path: Path) -> Callable[[str, str], str]:
    """The place of an index by its kind, folder or address, and its name."""
    import psycopg

    address = postgres_server.new_database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return lambda kind, name: (
        str(tmp_path / name) if kind == "folder" else f"{address}&index={name}"
    )


def filled(place: str, count: int = 40, **options: Any) -> Index:
    """An index with every kind of value, a zero vector, FILEs, an answer and a calibration."""
    index = Index.create(place, dim=DIM, vocabulary=["amber"], rule="lower", **options)
    made = documents(range(count))
    made[3] = Document(
        "d3", "a\0b", {"n": 3, "x": 2.0, "s": "17", "list": ["a", "b"], "null": None}
    )
    made[4] = Document("d4", "café \u2028", {"n": -4, "x": 2, "big": 10**25, "tiny": 1e-300})
    given = vectors(range(count))
    given[7] = 0
    add(index, made, given)
    index.delete(["d5", "d6"])
    with index.writer() as writer:
        writer.remember("key", b"digest", b"answer")
        writer.store_calibration(Calibration(a=0.25, judged=0, sample=9, seed=1))
    index.compact()
    return index


def values(index: Index) -> list[Any]:
    """All that a copy keeps, in row order."""
    with index.snapshot().contents() as held:
        rows = [*held.rows]
        manifest = held.manifest
        answered = [tuple(each) for each in held.answers]
    stored = [each for part in rows for each in part.documents]
    texts = [(each.id, each.text.replace("\0", "\ufffd"), dict(each.fields)) for each in stored]
    sources = [each for part in rows for each in part.sources]
    found = np.concatenate([part.vectors for part in rows]) + 0
    kept = (manifest.calibration, manifest.model_files, manifest.searched_fields)
    facts = (manifest.configuration, {**manifest.fields}, *kept)
    return [texts, sources, found.tolist(), facts, answered]


WAYS = (("folder", "engine"), ("engine", "folder"), ("engine", "engine"))


@pytest.mark.parametrize(("one", "other"), WAYS)
@pytest.mark.parametrize("options", [{"dtype": "float16"}, {"dtype": "float32", "metric": "l2"}])
def test_the_same_values(
    places: Callable[[str, str], str], one: str, other: str, options: dict[str, Any]
) -> None:
    source = filled(places(one, "one"), **options)
    copied = source.copy(places(other, "other"))
    assert values(copied) == values(source)
    assert len(copied) == copied.verify().documents == 38
    for key, hits in answers(copied).items():
        wanted = dict(answers(source)[key])
        assert [id_ for id_, _ in hits] == [*wanted], key
        assert [score for _, score in hits] == pytest.approx([*wanted.values()], rel=1e-3), key
    assert copied.manifest.index != source.manifest.index


def test_files_are_known_to_the_copy(places: Callable[[str, str], str], tmp_path: Path) -> None:
    """So that an update reads them, and changes nothing."""
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"amber birch{n}\n" for n in range(9)))
    source = Index.create(places("folder", "one"), dim=DIM)
    np.save(tmp_path / "vectors.npy", vectors(range(9)))
    source.load([str(file)], vectors=str(tmp_path / "vectors.npy"))
    there = source.copy(places("engine", "two"))
    back = there.copy(places("folder", "three"))
    for index in (there, back):
        assert values(index)[1] == [1] * 9
        report = index.update()
        assert (report.added, report.updated, report.unchanged) == (0, 0, 9)


def test_a_place_that_is_taken(places: Callable[[str, str], str]) -> None:
    source = filled(places("folder", "one"))
    other = filled(places("engine", "two"))
    for place in (places("engine", "two"), places("folder", "one")):
        with pytest.raises(FolderNotEmpty):
            (other if "one" in place[-4:] else source).copy(place)
    assert values(other)


@pytest.mark.parametrize("kind", ["folder", "engine"])
def test_an_interrupted_copy(places: Callable[[str, str], str], kind: str) -> None:
    """It is resumed; of a later commit it begins again; what others changed is an error."""
    source = filled(places("engine", "one"), 100)

    def stop(what: str, share: float) -> None:
        if what == "documents copied":
            raise KeyboardInterrupt

    target = places(kind, "two")
    part = target if kind == "engine" else str(Path(target).with_name(".two.part"))
    with pytest.raises(KeyboardInterrupt):
        transfer(source, target, stop, commit_rows=ROWS)
    begun = Index.open(part)
    assert len(begun) == 16
    number = begun.manifest.index
    with pytest.raises(KeyboardInterrupt):
        transfer(source, target, stop, commit_rows=ROWS)
    assert Index.open(part).manifest.index == number
    source.delete(["d9"])
    copied = transfer(source, target, commit_rows=ROWS)
    assert copied.manifest.index != number
    assert values(copied) == values(source)
    if kind == "engine":
        copied.delete(["d10"])
        with pytest.raises(VocabtoolError, match="somebody changed the copy"):
            transfer(source, target)


def test_a_copy_that_differs(
    places: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that keeps another text is found out."""
    from vocabtool.stores.postgres.writer import PostgresWriter

    append = PostgresWriter.append

    def damaged(self: Any, batch: Any, *more: Any) -> None:
        append(self, replace(batch, texts=batch.texts.take([1, 0, *range(2, len(batch))])), *more)

    monkeypatch.setattr(PostgresWriter, "append", damaged)
    with pytest.raises(InvalidFile, match="the copy differs"):
        filled(places("folder", "one")).copy(places("engine", "two"))


def test_a_server_finishes_what_a_killed_copy_began(
    places: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = filled(places("folder", "one")), places("engine", "two")
    engine = engine_class(target)
    create = engine.create

    def late(*given: Any, **named: Any) -> Any:
        create(*given, **named).close()
        return create(*given, **named)

    monkeypatch.setattr(engine, "create", late)
    assert values(transfer(source, target)) == values(source)


def test_a_refresh_asks_once(
    places: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server does it twice a second. After a commit of another process it reads the new one."""
    from vocabtool.stores.postgres.connection import Connections

    index = filled(places("engine", "one"))
    read, asked = Connections.read, []

    def counted(self: Connections, work: Any) -> Any:
        asked.append(work)
        return read(self, work)

    monkeypatch.setattr(Connections, "read", counted)
    assert not index.refresh()
    assert len(asked) == 1
    other = Index.open(places("engine", "one"))
    other.delete(["d9"])
    assert index.refresh()
    assert "d9" not in index
    other.store_calibration(None)
    index.refresh()
    assert index.calibration is None


@pytest.mark.parametrize(("one", "other"), WAYS)
def test_killed_copies(
    places: Callable[[str, str], str], one: str, other: str, full: bool, tmp_path: Path
) -> None:
    source, target = filled(places(one, "one"), 600), places(other, "two")
    draw = Random(one + other)
    for _ in range(14 if full else 2):
        with subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                places(one, "one"),
                target,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begins\n"
            time.sleep(draw.uniform(0, 0.6))  # the moment of the kill is what is drawn
            process.kill()
            process.wait()
        if other == "folder" and Path(target).exists():
            break
    if other == "engine" or not Path(target).exists():
        transfer(source, target, commit_rows=ROWS)
    copied = Index.open(target)
    assert values(copied) == values(source)
    assert copied.verify().loading is False
