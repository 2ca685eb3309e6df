"""Damaged and foreign files: an error that names the file, or the same answers as before.

Each file of an index is cut, emptied, removed, overwritten bit by bit, and swapped with another's.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.builders.small_indexes import (
    WORDS,
    add,
    answers,
    contents,
    delete,
    documents,
    refused,
    vectors,
)
from tests.conftest import ROOT
from vocabtool import Document, Index, InvalidFile, VocabtoolError

ROWS: Final = 200
FLIPS, ALL_FLIPS = 4, 200  # of each file
DATABASE: Final = "index.db"
SOURCES: Final = (DATABASE, "vectors.bin")
KINDS: Final = (
    *SOURCES,
    *("vocabulary-", "weights-", "matrix-", "codes-", "meta.json"),
    *(".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term"),
)


def build(path: Path, docs: list[Document], words: Sequence[str]) -> None:
    """An index with a file of every kind: several segments, codes, deleted rows."""
    model = path.with_suffix(".txt")
    rows = zip(words, vectors(range(len(words))), strict=True)
    model.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows))
    texts = [each.text for each in docs]
    index = Index.create(path, model, weights="idf", sample=texts, rule="lower", exact_below=100)
    for start, stop in ((0, 150), (150, len(docs))):
        add(index, docs[start:stop], vectors(range(start, stop), len(words)))
    delete(index, [docs[len(words)].id, docs[77].id])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two indexes of the same shape, of different documents."""
    path = tmp_path_factory.mktemp("two")
    others = [
        Document(f"e{each.id}", each.text + " zebra" * (number % 3 + 1), each.fields)
        for number, each in enumerate(documents(range(ROWS), 1))
    ]
    build(path / "one", documents(range(ROWS)), WORDS)
    build(path / "other", others[7:] + others[:7], [*WORDS, "zebra"])
    return path / "one", path / "other"


@pytest.fixture
def path(two: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the first."""
    return Path(shutil.copytree(two[0], tmp_path / "index"))


def files_of(path: Path) -> list[Path]:
    """Its files, by name: but for locks and journals."""
    passing = (".lock", "-wal", "-shm")
    return sorted(
        each for each in path.rglob("*") if each.is_file() and not each.name.endswith(passing)
    )


def of_kind(path: Path, kind: str) -> Path:
    """The first file of a kind."""
    return next(each for each in files_of(path) if kind in each.name)


@contextmanager
def written(file: Path, data: bytes | None) -> Iterator[None]:
    """Other content during the block; ``None``: no file."""
    before = file.read_bytes()
    file.unlink()  # another file, as tests that run before may have this one mapped
    if data is not None:
        file.write_bytes(data)
    try:
        yield
    finally:
        if file.exists() or data is None:
            file.unlink(missing_ok=True)
            file.write_bytes(before)


def whole(path: Path) -> Index:
    """The index, opened and looked at."""
    index = Index.open(path)
    index.verify()
    return index


def test_every_file_of_the_folder_is_read(two: tuple[Path, Path], full: bool) -> None:
    """Whatever lies there: a flipped bit anywhere, its first and last byte too, a byte more or
    less, no content, other content, or no file. ``verify`` says which file it is.

    Bytes behind those of the commit are no damage: a writer that was killed leaves them. Neither
    are bytes of the database that nothing depends on: then all is as it was.
    """
    index = whole(two[0])
    held, answered = contents(index), answers(index)
    files = files_of(two[0])
    assert all(any(kind in file.name for file in files) for kind in KINDS)
    found = 0
    for file in files:
        data, draw = file.read_bytes(), random.Random(file.suffix)
        times = ALL_FLIPS if full else FLIPS * (5 if file.name == DATABASE else 1)
        places = {0, len(data) - 1, *draw.choices(range(len(data)), k=times)}
        flipped = [
            data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :] for at in places
        ]
        half = data[: len(data) // 2]
        for other in (*flipped, b"", half, data[:-1], b"\0" + data[:-1], data + b"\0", None):
            with written(file, other):
                if other == data + b"\0" and file.name.startswith("vectors.bin"):
                    assert whole(two[0])
                elif file.name == DATABASE and other is not None and len(other) >= len(data):
                    with suppress(VocabtoolError):
                        again = whole(two[0])
                        assert (contents(again), answers(again)) == (held, answered)
                        found += 1
                else:
                    name = file.parent.name if file.name == DATABASE else file.name
                    refused(lambda: whole(two[0]), name)
    assert found < (ALL_FLIPS if full else 5 * FLIPS) / 2  # most bytes are read


def test_other_files_in_the_folder_are_told(path: Path) -> None:
    """They are nobody's damage, and nobody reads them."""
    (path / "notes.txt").write_text("mine")
    (path / "generation-000000" / "keywords" / ("0" * 32 + ".term")).write_bytes(b"left")
    (path / ".lock").write_text("nothing is read of it")
    assert Index.open(path).verify().others == (
        f"generation-000000/keywords/{'0' * 32}.term",
        "notes.txt",
    )


def test_damage_is_an_error_of_ours_before_anybody_verifies(
    two: tuple[Path, Path], full: bool
) -> None:
    """Opened and searched in a process that is not to die: no traceback, whatever file it is.

    Only vectors and documents, too long to be read whenever an index is opened, may answer wrongly.
    """
    flips = ALL_FLIPS if full else 2 * FLIPS
    command = [sys.executable, "-m", "tests.index_flips", str(two[0]), str(flips)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["escaped"] == []
    assert {*told["other_answers"]} <= {*SOURCES}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_index_is_named(two: tuple[Path, Path], kind: str) -> None:
    """Although it is whole, and of the same shape."""
    file = of_kind(two[0], kind)
    theirs = (each.read_bytes() for each in files_of(two[1]) if kind in each.name)
    foreign = next(data for data in theirs if data != file.read_bytes())
    with written(file, foreign), pytest.raises(VocabtoolError) as caught:
        whole(two[0])
    told = str(caught.value)  # what these two name is not there
    assert (str(two[0]) if kind in (DATABASE, "meta.json") else file.name) in told


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_never_written_on(path: Path, kind: str) -> None:
    """Compacting makes codes and keywords anew, and refuses where documents or vectors are damaged.

    Either way no document changes, and no checksum is made of what is damaged.
    """
    held, file = contents(Index.open(path)), of_kind(path, kind)
    data = file.read_bytes()
    middle = data.rindex(b"only000") if kind == DATABASE else len(data) // 2
    with written(file, data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1 :]):
        if kind in SOURCES:
            refused(lambda: Index.open(path).compact(), file.name)
            refused(lambda: whole(path), file.name)
        else:
            with suppress(VocabtoolError):  # where the keyword leg cannot be opened
                Index.open(path).compact()
    assert contents(whole(path)) == held
    with Index.open(path).writer() as writer:  # nothing is locked
        assert writer.delete(["d10"]) == 1
    assert {*contents(whole(path))} == {*held} - {"d10"}


def test_a_killed_compaction_is_done_again(path: Path) -> None:
    """Over what it left, whatever that is; nobody takes it for the index."""
    half = path / "generation-000001.part"
    shutil.copytree(path / "generation-000000", half)
    (half / "vectors.bin").write_bytes(b"half")
    index = Index.open(path)
    held = contents(index)
    assert index.compact() == 2
    assert contents(index) == held
    assert sorted(each.name for each in path.iterdir() if each.is_dir()) == ["generation-000001"]
    assert whole(path).manifest.rows == ROWS - 2


def test_what_a_killed_writer_leaves_is_removed(path: Path, tmp_path: Path) -> None:
    """Rows in every file behind those of the commit, whose database it did not reach."""
    ahead = Path(shutil.copytree(path, tmp_path / "ahead"))
    add(Index.open(ahead), documents(range(500, 560)), vectors(range(500, 560)))
    before, held = answers(Index.open(path)), {*contents(Index.open(path))}
    for file in files_of(ahead):
        if file.name != DATABASE:
            shutil.copyfile(file, path / file.relative_to(ahead))
    (path / "generation-000000" / "codes-000099.faiss").write_bytes(b"left")
    index = Index.open(path)
    assert {*contents(index)} == held
    assert [*before] == [*answers(index)]
    add(index, documents([600]), vectors([600]))
    assert of_kind(path, "vectors.bin").stat().st_size == 2 * 4 * (ROWS + 1)
    assert whole(path).manifest.rows == ROWS + 1
    assert not [file for file in files_of(path) if file.name == "codes-000099.faiss"]


def test_an_index_of_an_older_version(path: Path) -> None:
    """It had no database: nobody reads it, and it is told what to do."""
    (path / "generation-000000" / DATABASE).unlink()
    with pytest.raises(InvalidFile, match="not an index of this version; index the documents aga"):
        Index.open(path)
    assert len(Index.create(path, dim=2, force=True)) == 0


@pytest.mark.parametrize("column", ["id", "text"])
def test_a_value_of_another_type(path: Path, column: str) -> None:
    """SQLite itself does not mind it."""
    (file,) = path.rglob(DATABASE)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE documents SET {column} = x'00ff' WHERE row = 3")
    refused(lambda: whole(path), DATABASE)
