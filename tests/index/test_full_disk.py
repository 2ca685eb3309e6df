"""On a full disk, each command that writes says so, and changes nothing: tried on a small tmpfs."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import vocabtool
from tests.builders.served import serving
from vocabtool.cli.main import cli
from vocabtool.errors import NoSpace

ROWS = 600
FREE = (0, 40, 90, 250, 600, 4000)  # kB that are left on the disk


def lines(first: int) -> str:
    texts = (f"red apple {number} {number * 7919 % 1000}" for number in range(first, first + ROWS))
    rows = ({"id": f"d{at}", "text": text, "v": [at, 1]} for at, text in enumerate(texts, first))
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of 8 MB, with an index; ``more.jsonl`` and ``words.txt`` are beside it."""
    folder = tmp_path_factory.mktemp("full") / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small disk: mounting a tmpfs needs root")
    try:
        (folder.parent / "more.jsonl").write_text(lines(ROWS))
        (folder.parent / "words.txt").write_text("red\n" + "x" * 400_000)
        first = folder.parent / "first.jsonl"
        first.write_text(lines(0))
        run("index", first, "-o", folder / "ix", "--id-field", "id", "--vector-field", "v")
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def run(*arguments: object) -> None:
    CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False, standalone_mode=False)


@contextmanager
def filled(disk: Path, left: int) -> Iterator[None]:
    """Fill a disk, but for ``left`` kB."""
    gc.collect()  # indexes that are open hold files that are deleted
    size = shutil.disk_usage(disk).free - (left << 10)
    (disk / "fill").write_bytes(b"x" * size)
    try:
        yield
    finally:
        (disk / "fill").unlink(missing_ok=True)


COMMANDS: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "index": lambda disk: (
        *("index", disk.parent / "more.jsonl", "-o", disk / "ix"),
        *("--id-field", "id", "--vector-field", "v"),
    ),
    "update": lambda disk: ("update", disk / "ix", disk.parent / "more.jsonl"),
    "delete": lambda disk: ("delete", disk / "ix", "d5"),
    "compact": lambda disk: ("compact", disk / "ix"),
    "copy": lambda disk: ("copy", disk / "ix", disk / "new"),
    "a new index": lambda disk: (
        *("index", disk.parent / "more.jsonl", "-o", disk / "new"),
        *("--id-field", "id", "--vector-field", "v"),
    ),
    "index --force": lambda disk: (
        *("index", disk.parent / "more.jsonl", "-o", disk / "ix", "--force"),
        *("--id-field", "id", "--vector-field", "v"),
    ),
    "embed": lambda disk: (
        *("embed", disk.parent / "more.jsonl", "-o", disk / "new", "--id-field", "id"),
        *("--model", "python:tests.encoder_cases:lengths"),
    ),
    "extract": lambda disk: ("extract", disk.parent / "words.txt", "-o", disk / "new"),
    "export": lambda disk: ("export", disk / "ix", "-o", disk / "new.jsonl"),
    "train": lambda disk: (
        "train",
        disk.parent / "more.jsonl",
        "-o",
        disk / "new.npz",
        "--dim",
        "2",
    ),
    "api-key": lambda disk: ("api-key", disk / "ix" / "keys", "bob"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(disk: Path, name: str) -> None:
    """With any space left, a command succeeds, or names the disk and leaves all as it was."""
    command = COMMANDS[name](disk)
    told: list[str] = []
    kept = disk.parent / "kept"
    closed = shutil.ignore_patterns("*-wal", "*-shm")  # empty, of connections that are open
    shutil.copytree(disk / "ix", kept, ignore=closed)
    for left in FREE:
        failures = len(told)
        with filled(disk, left):
            try:
                run(*command)
            except NoSpace as error:
                told.append(str(error))
                assert {file.name for file in disk.iterdir()} == {"ix", "fill"}
        with vocabtool.open(disk / "ix") as index:
            index.verify()
            if len(told) > failures:
                assert (len(index), index.manifest.commit) == (ROWS, 1)
        for file in disk.iterdir():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        shutil.copytree(kept, disk / "ix")
    shutil.rmtree(kept)
    assert told or name == "delete"  # which needs no space if a journal is there
    for message in told:
        assert f"no space left on {disk}" in message
        assert "nothing was changed" in message or "finished shards stay" in message


def test_codes(disk: Path) -> None:
    """FAISS has an error of its own; the last commit is searched."""
    rng = np.random.default_rng(0)
    folder = disk / "codes"
    index = vocabtool.Index.create(folder, dim=16, vocabulary=["red"], exact_below=500)
    told = 0
    for left in range(100, 1000, 100):
        before = (len(index), index.manifest.commit)
        documents = [{"id": f"{left}-{at}", "text": "red"} for at in range(6000)]
        with filled(disk, left):
            try:
                with index.writer() as writer:
                    writer.add(documents, rng.normal(size=(6000, 16)).astype("f4"))
            except NoSpace as error:
                told += 1
                assert "damaged" not in str(error)
                assert (len(index), index.manifest.commit) == before
        index.verify()
    index.close()
    shutil.rmtree(folder)
    assert told


def test_a_server(disk: Path) -> None:
    """The client is told, searches go on, and the document is written when there is space."""
    row = json.dumps({"id": "new", "text": "blue " * 30_000, "vector": [1, 2]})
    path = "/v1/indexes/ix"
    with serving({"ix": disk / "ix"}, writable=True) as client:

        def send() -> tuple[int, str]:
            lines = {"Content-Type": "application/x-ndjson"}
            found = client.post(f"{path}/documents", content=row, headers=lines)
            return found.status_code, found.text

        assert client.post(f"{path}/search", json={"query": "red"}).status_code == 200
        with filled(disk, 50):
            status, told = send()
            assert (status, "no space left on" in told, str(disk) in told) == (503, True, False)
            assert client.post(f"{path}/search", json={"query": "red"}).status_code == 200
        assert send()[0] == 200
