"""An index kept up to date by commands: ``update`` and ``index --force``, killed on the way too."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests import counted_letters
from tests.builders.small_indexes import contents
from tests.cli.test_index_commands import MODEL, fine, vocabtool
from tests.conftest import ROOT
from vocabtool import Index

READ: Final = ("--id-field", "key", "--keep", "year")
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


def held(index: str | Path) -> dict[str, str]:
    """The texts by id."""
    return {id_: each.text for id_, each in contents(Index.open(index)).items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of twelve documents."""
    return write(tmp_path / "corpus.jsonl", texts(12))


@pytest.fixture
def index(file: Path, tmp_path: Path) -> str:
    """An index of it."""
    folder = str(tmp_path / "index")
    fine("index", str(file), "-o", folder, "--model", MODEL, *READ, "--quiet")
    return folder


def test_update_needs_no_option_again(file: Path, index: str) -> None:
    """What was added, updated, left and removed is told, as text and as JSON."""
    write(file, {**texts(11), "d3": "I hate it", "new": "a new one"})
    told = fine("update", index).splitlines()
    assert told[0] == f"{index}: 13 documents"
    assert told[1].startswith("  done now    1 added, 1 updated, 10 unchanged in ")
    assert "nothing: the files did not change since they were indexed" in fine("update", index)
    rows = file.read_text().replace('"year": 2020', '"year": 2021', 3)
    file.write_text(rows.replace("a new one", "a newer one"))
    assert "; 1 text encoded, 3 vectors kept or given\n" in fine("update", index)
    told = json.loads(fine("update", index, "--sync", "--format", "json"))
    names = ("documents", "added", "updated", "unchanged", "removed")
    assert {name: told[name] for name in names} == dict(zip(names, (12, 0, 0, 12, 1), strict=True))
    assert told["seconds"] >= told["seconds_loading"] > 0 == told["seconds_calibrating"]
    assert contents(Index.open(index))["new"].fields == {"year": 2020}
    done = vocabtool("update", index, "--force")
    assert (done.returncode, "--force needs --sync" in done.stderr) == (2, True)


def test_a_sync_brings_deleted_documents_back(index: str) -> None:
    """It makes the index equal to its files, also where these did not change since a sync."""
    fine("update", index, "--sync")
    assert "nothing: the files did not change" in fine("update", index, "--sync")
    fine("delete", index, "d3", "d7")
    assert "nothing: the files did not change" in fine("update", index)
    assert held(index).keys() == texts(12).keys() - {"d3", "d7"}
    fine("update", index, "--sync")
    assert held(index) == texts(12)


@pytest.mark.parametrize("command", ["oov", "embed", "index", "update", "diff"])
def test_files_of_a_folder_that_are_not_read_are_told(tmp_path: Path, command: str) -> None:
    """On standard error, and in the report."""
    docs, out = tmp_path / "docs", str(tmp_path / "out")
    write(docs / "a.jsonl", texts(3))
    for name in ("b.org", "c.org", "d.tex"):
        (docs / name).write_text("text\n")
    json_ = ("--format", "json")
    run = {
        "oov": ("oov", MODEL, str(docs), "--rule", "lower", *json_),
        "embed": ("embed", str(docs), "--model", MODEL, "-o", out, *json_),
        "index": ("index", str(docs), "--model", MODEL, "-o", out, *json_),
        "update": ("update", out, *json_),
        "diff": ("diff", MODEL, MODEL, "--corpus", str(docs), *json_),
    }
    if command == "update":
        fine(*run["index"])
        write(docs / "a.jsonl", texts(4))
    done = vocabtool(*run[command])
    (note,) = (each for each in json.loads(done.stdout)["notes"] if each.startswith(f"{docs}: "))
    assert f"vocabtool: {note}\n" in done.stderr
    for fact in ("3 files", "2 .org, 1 .tex", "--include '*.ENDING'"):
        assert fact in note


# ``--force``


def test_force_keeps_the_old_index_until_the_new_one_is_whole(
    tmp_path: Path, file: Path, index: str
) -> None:
    """A later row that fails leaves it; a reader that has it open goes on after the swap, too."""
    old = Index.open(index)
    other = write(tmp_path / "other.jsonl", texts(5, " anew"))
    with other.open("a") as opened:
        opened.write("no json\n")
    force = ("index", str(other), "-o", index, "--model", MODEL, *READ, "--quiet", "--force")
    done = vocabtool(*force, "--commit-rows", "1")
    assert (done.returncode, "other.jsonl:6" in done.stderr) == (3, True)
    assert held(index) == texts(12)
    write(file, texts(13))
    assert "1 added, 12 unchanged" in fine("update", index)  # a writer may come between
    write(other, texts(5, " anew"))
    fine(*force)
    assert held(index) == texts(5, " anew")
    assert old.search("only11").hits[0].id == "d11"
    write(other, texts(4, " anew"))
    fine("update", index, "--sync")
    assert Index.open(index).verify().documents == 4
    parts = [each.name.split("-")[0] for each in Path(index).iterdir()]
    assert sorted(parts) == [".lock", "generation", "verified.json", "vocabulary", "weights"]


def test_a_stopped_force_is_gone_on_with(
    tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same command; what another one began is removed."""
    lines = tmp_path / "lines.jsonl"
    new = texts(3000, " again" * 100)  # more than a block, so that there is a commit
    write(lines, new)
    model = ("--model", "python:tests.cli.test_update_command:failing", "--fingerprint", "1")
    force = ("index", str(lines), "-o", index, *model, *READ, "--force", "--commit-rows", "1")
    flag = tmp_path / "fails"
    flag.touch()
    monkeypatch.setenv("FAILS_WHILE_THERE_IS", str(flag))
    done = vocabtool(*force)
    assert "failed at only2900" in done.stderr
    (build,) = Path(index).glob(".new-*")
    assert 0 < len(Index.open(build)) < 3000
    assert held(index) == texts(12)
    flag.unlink()
    told = fine(*force)
    assert "  resumed     " in told
    assert held(index) == new
    assert not [*Path(index).glob(".new-*")]


def failing(given: Sequence[str]) -> Any:
    """Counts letters, and fails at a document while there is a file."""
    if (
        any("only2900" in text for text in given)
        and Path(os.environ["FAILS_WHILE_THERE_IS"]).exists()
    ):
        raise RuntimeError("failed at only2900")
    return counted_letters.encode(given)


# Killed


def killed(seconds: float, *command: str) -> bool:
    """Run a command and kill it after so many seconds; whether it was still at work then."""
    run = [sys.executable, "-m", "tests.plain_command", *command]
    with subprocess.Popen(run, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as done:
        try:
            done.wait(seconds)
        except subprocess.TimeoutExpired:
            done.send_signal(signal.SIGKILL)
            return True
    assert done.returncode == 0
    return False


def seconds_of(*command: str) -> float:
    """How long a command takes that is not killed."""
    began = time.monotonic()
    fine(*command)
    return time.monotonic() - began


@pytest.mark.parametrize("what", ["update", "force"])
def test_killed_at_any_moment(tmp_path: Path, full: bool, what: str) -> None:
    """``update --sync`` removes nothing before its last commit; ``--force`` leaves one of the two.

    Every commit between is one of the old documents and some new ones; run again, all is there.
    """
    folder = str(tmp_path / "index")
    old, new = texts(600), {**texts(900, " anew"), **texts(450)}
    for gone in range(450, 600):
        del new[f"d{gone}"]
    first, second = write(tmp_path / "a.jsonl", old), write(tmp_path / "b.jsonl", new)
    model = ("--model", MODEL, "--no-calibrate", "--commit-rows", "100", "--quiet")
    make = ("index", str(tmp_path / "x.jsonl"), "-o", folder, *model, *READ)
    change = {
        "update": ("update", folder, "--sync", "--commit-rows", "100", "--quiet"),
        "force": (*make, "--force"),
    }[what]

    (tmp_path / "x.jsonl").write_bytes(first.read_bytes())
    fine(*make)
    shutil.copytree(folder, tmp_path / "before")
    (tmp_path / "x.jsonl").write_bytes(second.read_bytes())
    lasts = seconds_of(*change)
    draw = random.Random(SEED)
    at_work = 0
    while at_work < (KILLS if full else KILLS // 10):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "before", folder)
        if killed(draw.uniform(0.3, 1.05) * lasts, *change):
            at_work += 1
        else:
            lasts *= 0.9  # other programs took their time when it was measured
        found = held(folder)
        if what == "update":
            done = found == new
            assert done or found.items() >= {key: old[key] for key in old if key not in new}.items()
            assert all(text in (old.get(key), new.get(key)) for key, text in found.items())
        else:
            done = found == new
            assert done or found == old
        fine(*change)
        assert held(folder) == new
        index = Index.open(folder)
        assert index.verify().documents == len(new)


def exported(folder: str) -> tuple[str, bytes]:
    """What ``list`` says of an index, and the file that ``export`` writes."""
    listed = fine("list", folder, "--format", "jsonl", "--field", "text")
    out = Path(folder).with_suffix(".jsonl")
    fine("export", folder, "-o", str(out))
    return listed, out.read_bytes()


def test_a_folder_killed_while_it_is_synced(tmp_path: Path, full: bool) -> None:
    """The next run ends as a run that nobody killed: in every document, field and vector."""
    files, kills = (5_000, 20) if full else (500, 2)
    docs, folder = tmp_path / "docs", str(tmp_path / "index")
    docs.mkdir()
    for number in range(files):
        page = f"# Page {number}\n\nI love it only{number}\n\n## More\n\nto use it {number % 7}\n"
        (docs / f"{number:05}.md").write_text(page)
    model = ("--model", MODEL, "--no-calibrate", "--quiet", "--keep", "title", "--keep", "path")
    fine("index", str(docs), "-o", folder, *model, "--commit-rows", "500")
    for number in range(0, files, 10):
        (docs / f"{number:05}.md").write_text(f"# Page {number}\n\nI use it anew{number}\n")
        (docs / f"{number + 1:05}.md").unlink()
        (docs / f"new{number:05}.md").write_text(f"# New {number}\n\nlove only{number}x\n")
    shutil.copytree(folder, tmp_path / "before")
    change = ("update", folder, "--sync", "--commit-rows", "50", "--quiet")
    lasts = seconds_of(*change)
    quiet = exported(folder)
    draw, at_work = random.Random(SEED), 0
    while at_work < kills:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "before", folder)
        if killed(draw.uniform(0.3, 1.05) * lasts, *change):
            at_work += 1
        else:
            lasts *= 0.9
        fine(*change)
        assert exported(folder) == quiet
