"""An index kept up to date by commands: ``update`` and ``index --force``, killed on the way too."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests import counted_letters
from tests.builders.small_indexes import contents
from tests.cli.running import errors, output, run, told
from tests.cli.test_index_commands import MODEL, answer
from tests.conftest import ROOT
from vocabtool import Index

READ: Final = ("--id-field", "key", "--keep", "year")
UNCHANGED: Final = "nothing: the files did not change since they were indexed"
KILLS: Final = 40
SEED: Final = 5


def write(path: Path, texts: dict[str, str], year: int = 2020) -> Path:
    """JSON lines with a key, a text and a year."""
    rows = ({"key": key, "text": text, "year": year} for key, text in texts.items())
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def texts(count: int, version: str = "") -> dict[str, str]:
    """Documents of words that the model knows, and of their own."""
    return {f"d{number}": f"I love to use it{version} only{number}" for number in range(count)}


def texts_of(index: str | Path) -> dict[str, str]:
    """The texts by id."""
    return {id_: document.text for id_, document in contents(Index.open(index)).items()}


def test_progress_tells_how_fast_texts_are_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that did not change do not count. Eight new ones take 0.2 s."""
    monkeypatch.setattr("vocabtool.cli.output.LINE_SECONDS", 0)
    monkeypatch.setenv(counted_letters.LOG, str(tmp_path / "log"))
    file, folder = write(tmp_path / "corpus.jsonl", texts(12)), str(tmp_path / "index")
    model = "python:tests.counted_letters:logged"
    output("index", file, "-o", folder, "--model", model, *READ, "--quiet")
    write(file, texts(20))
    monkeypatch.setenv(counted_letters.SECONDS, "0.2")
    _, messages = told("update", folder, "--model", model)
    line = re.search(r"20 documents, 8 encoded, ([\d.]+)/s", messages)
    assert line, messages
    assert float(line[1]) < 8 / 0.2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of twelve documents."""
    return write(tmp_path / "corpus.jsonl", texts(12))


@pytest.fixture
def index(file: Path, tmp_path: Path) -> str:
    """An index of it."""
    folder = str(tmp_path / "index")
    output("index", file, "-o", folder, "--model", MODEL, *READ, "--quiet")
    return folder


def test_update_needs_no_option_again(file: Path, index: str) -> None:
    """What was added, updated, left and removed is told, as text and as JSON."""
    write(file, {**texts(11), "d3": "I hate it", "new": "a new one"})
    first, done, *_ = output("update", index).splitlines()
    assert first == f"{index}: 13 documents"
    assert done.startswith("  done now    1 added, 1 updated, 10 unchanged in ")
    assert UNCHANGED in output("update", index)
    rows = file.read_text().replace('"year": 2020', '"year": 2021', 3)
    file.write_text(rows.replace("a new one", "a newer one"))
    assert "; 1 text encoded, 3 vectors kept or given\n" in output("update", index)
    report = answer("update", index, "--sync")
    figures = ("documents", "added", "updated", "unchanged", "removed")
    assert [report[name] for name in figures] == [12, 0, 0, 12, 1]
    assert report["seconds"] >= report["seconds_loading"] > 0 == report["seconds_calibrating"]
    assert contents(Index.open(index))["new"].fields == {"year": 2020}
    assert "--force needs --sync" in errors("update", index, "--force", code=2)


def test_a_sync_brings_deleted_documents_back(index: str) -> None:
    """It makes the index equal to its files, also where these did not change since a sync."""
    output("update", index, "--sync")
    assert UNCHANGED in output("update", index, "--sync")
    output("delete", index, "d3", "d7")
    assert UNCHANGED in output("update", index)
    assert texts_of(index).keys() == texts(12).keys() - {"d3", "d7"}
    output("update", index, "--sync")
    assert texts_of(index) == texts(12)


@pytest.mark.parametrize("command", ["oov", "embed", "update", "diff"])
def test_files_of_a_folder_that_are_not_read_are_told(tmp_path: Path, command: str) -> None:
    """On standard error, and in the report."""
    docs, out = str(tmp_path / "docs"), str(tmp_path / "out")
    write(tmp_path / "docs" / "a.jsonl", texts(3))
    for name in ("b.org", "c.org", "d.tex"):
        (tmp_path / "docs" / name).write_text("text\n")
    arguments = {
        "oov": (MODEL, docs, "--rule", "lower"),
        "embed": (docs, "--model", MODEL, "-o", out),
        "index": (docs, "--model", MODEL, "-o", out),
        "update": (out,),
        "diff": (MODEL, MODEL, "--corpus", docs),
    }
    if command == "update":
        output("index", *arguments["index"])
        write(tmp_path / "docs" / "a.jsonl", texts(4))
    report, messages = told(command, *arguments[command], "--format", "json")
    (note,) = (note for note in json.loads(report)["notes"] if note.startswith(f"{docs}: "))
    assert f"vocabtool: {note}\n" in messages
    for fact in ("3 files", "2 .org, 1 .tex", "--include '*.ENDING'"):
        assert fact in note


def test_stats_name_a_folder_that_was_the_current_one(tmp_path: Path) -> None:
    docs, out = tmp_path / "docs", tmp_path / "out"
    write(docs / "a.jsonl", texts(3))
    output("index", ".", "-o", out, "--model", ROOT / MODEL, cwd=docs)
    assert f"  sources     {docs}\n" in output("stats", out)


# ``--force``


def test_force_keeps_the_old_index_until_the_new_one_is_whole(
    tmp_path: Path, file: Path, index: str
) -> None:
    """A later row that fails leaves it; a reader that has it open goes on after the swap, too."""
    old = Index.open(index)
    other = write(tmp_path / "other.jsonl", texts(5, " anew"))
    with other.open("a") as opened:
        opened.write("no json\n")
    force = ("index", other, "-o", index, "--model", MODEL, *READ, "--quiet", "--force")
    assert "other.jsonl:6" in errors(*force, "--commit-rows", "1")
    assert texts_of(index) == texts(12)
    write(file, texts(13))
    assert "1 added, 12 unchanged" in output("update", index)  # a writer may come between
    write(other, texts(5, " anew"))
    output(*force)
    assert texts_of(index) == texts(5, " anew")
    assert old.search("only11").hits[0].id == "d11"
    write(other, texts(4, " anew"))
    output("update", index, "--sync")
    assert Index.open(index).verify().documents == 4
    names = sorted(path.name.split("-")[0] for path in Path(index).iterdir())
    assert names == [".lock", "generation", "matrix", "vocabulary", "weights"]


def test_a_stopped_force_is_gone_on_with(tmp_path: Path, index: str) -> None:
    """By the same command; what another one began is removed."""
    new = texts(3000, " again" * 100)  # more than a block, so that there is a commit
    lines, flag = write(tmp_path / "lines.jsonl", new), tmp_path / "fails"
    model = ("--model", "python:tests.cli.test_update_command:failing")
    load = (*READ, "--force", "--commit-rows", "1", "--no-calibrate")
    force = ("index", lines, "-o", index, *model, *load)
    environ = {"FAILS_WHILE_THERE_IS": str(flag)}
    flag.touch()
    assert b"failed at only2900" in run(*force, environ=environ).stderr
    (build,) = Path(index).glob(".new-*")
    assert 0 < len(Index.open(build)) < 3000
    assert texts_of(index) == texts(12)
    row = next(row for row in output("stats", index).splitlines() if row[2:11] == "new index")
    assert row.startswith(f"  new index   {len(Index.open(build)):,} documents, since 20")
    assert "`vocabtool index FILE... -o DIR --force` with the same FILEs" in row
    flag.unlink()
    assert "  resumed     " in output(*force, environ=environ)
    assert texts_of(index) == new
    assert not [*Path(index).glob(".new-*")]


def failing(given: Sequence[str]) -> Any:
    """Counts letters, and fails at a document while there is a file."""
    flag = Path(os.environ["FAILS_WHILE_THERE_IS"])
    if any("only2900" in text for text in given) and flag.exists():
        raise RuntimeError("failed at only2900")
    return counted_letters.encode(given)


# Killed


def killed(folder: Path, kills: int, change: Sequence[str]) -> Iterator[None]:
    """Run a command on a copy of ``folder`` and kill it, so many times while it was at work.

    Ends with a run that nobody kills.
    """
    before = shutil.copytree(folder, folder.with_name("before"))
    began = time.monotonic()
    output(*change)
    lasts, draw = time.monotonic() - began, random.Random(SEED)
    command = [sys.executable, "-m", "tests.plain_command", *change]
    while kills:
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            try:
                assert process.wait(draw.uniform(0.3, 1.05) * lasts) == 0
                lasts *= 0.9  # other programs took their time when it was measured
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills -= 1
        yield


@pytest.mark.parametrize("what", ["update", "force"])
def test_killed_at_any_moment(tmp_path: Path, full: bool, what: str) -> None:
    """``update --sync`` removes nothing before its last commit; ``--force`` leaves one of the two.

    Every commit between is one of the old documents and some new ones; run again, all is there.
    """
    folder, file = tmp_path / "index", tmp_path / "x.jsonl"
    old, new = texts(600), {**texts(900, " anew"), **texts(450)}
    for gone in range(450, 600):
        del new[f"d{gone}"]
    options = ("--commit-rows", "100", "--quiet")
    make = ("index", str(file), "-o", str(folder), "--model", MODEL, "--no-calibrate", *READ)
    update = ("update", str(folder), "--sync", *options)
    change = update if what == "update" else (*make, *options, "--force")
    write(file, old)
    output(*make, *options)
    write(file, new)
    for _ in killed(folder, KILLS if full else KILLS // 10, change):
        found = texts_of(folder)
        if what == "update" and found != new:
            assert found.items() >= {key: old[key] for key in old if key not in new}.items()
            assert all(text in (old.get(key), new.get(key)) for key, text in found.items())
        else:
            assert found in (new, old)
        output(*change)
        assert texts_of(folder) == new
        assert Index.open(folder).verify().documents == len(new)
