"""``vocabtool demo``: its claims on a real run."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

import vocabtool
from tests.cli.running import errors, output


class Demo:
    """A run of the command, and what it printed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, folder / "vectors.npz"
        self.output = output("demo", folder)

    def found(self, kind: str) -> list[int]:
        """For how many questions of a kind vectors, keywords and both find the right document."""
        (line,) = (line for line in self.output.splitlines() if line.startswith(f"  {kind}  "))
        return [int(count) for count in line.split()[-3:]]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return Demo(tmp_path_factory.mktemp("demo") / "it's built here")


def test_each_search_alone_misses_one_kind(demo: Demo) -> None:
    """The claim of the whole project, on questions that a rule draws."""
    others, unknown = demo.found("half of the words are others"), demo.found("one word is unknown")
    assert others[0] > others[1] + 20
    assert unknown[1] > unknown[0] + 50
    sums = [one + other for one, other in zip(others, unknown, strict=True)]
    assert demo.found("both kinds") == sums
    assert sums[2] > max(sums[:2]) + 20


def test_what_it_tells_is_what_is_there(demo: Demo) -> None:
    """Documents and index are in the folder, and each command that it prints works as it stands."""
    lines = (demo.folder / "documents.jsonl").read_text("utf-8").splitlines()
    documents = {row["id"]: row["text"].lower() for row in map(json.loads, lines)}
    assert len(documents) == len(lines) > 3_000
    assert f"{len(lines):,} texts of Python's documentation" in demo.output
    with vocabtool.open(demo.folder / "index") as index:
        assert len(index) == len(lines)
    known = vocabtool.extract(demo.model)
    (_, first), (question, second) = re.findall(r"such as: (.*?)  \(from (\S+)\)", demo.output)
    assert first in documents
    words = question.split()
    assert [word in known for word in words].count(False) == 1
    assert all(word in documents[second] for word in words)
    commands = [line[4:] for line in demo.output.splitlines() if line.startswith("  $ vocabtool ")]
    extract, oov, search = (shlex.split(command)[1:] for command in commands)
    file = demo.folder / "words.parquet"
    output(*extract, "-o", file)
    assert [*vocabtool.read(file)] == [*known]
    file.unlink()
    tokens = json.loads(output(*oov, "--format", "json"))["tokens"]
    assert f"{tokens['unknown']:,} of {tokens['all']:,} words" in demo.output
    assert second in output(*search)


def test_folders(demo: Demo, tmp_path: Path) -> None:
    """A demo is built anew, and what is not of it stays; a folder of other things is refused."""
    (demo.folder / "notes.txt").write_text("mine")
    again = Demo(demo.folder)
    assert again.found("both kinds") == demo.found("both kinds")
    assert (demo.folder / "notes.txt").read_text() == "mine"
    (tmp_path / "thesis.txt").write_text("precious")
    assert "has files that the demo did not make" in errors("demo", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    errors("demo", tmp_path / "thesis.txt", code=2)


def test_docstrings_are_those_that_python_shows(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `inspect` says of the running object; a Python without its sources is told plainly."""
    lines = (demo.folder / "documents.jsonl").read_text("utf-8").splitlines()
    texts = {row["id"]: row["text"] for row in map(json.loads, lines)}
    for name, shown in (
        ("json.decoder.JSONDecoder.raw_decode", json.JSONDecoder.raw_decode),
        ("collections.Counter.most_common", Counter.most_common),
    ):
        assert texts[name] == f"{name}\n\n{inspect.getdoc(shown)}"
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    message = errors("demo", tmp_path / "demo")
    assert "Python's own documentation is not in its .py files" in message
