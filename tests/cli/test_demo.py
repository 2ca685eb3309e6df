"""``vocabtool demo``, with TensorFlow and without: its claims on a real run."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import vocabtool
from tests.conftest import ROOT
from vocabtool.cli.demo import documentation
from vocabtool.errors import NotFound

MAIN = "from vocabtool.cli.main import main; main()"
WITHOUT_TENSORFLOW = f"""if True:
    import sys

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "tensorflow":
                raise ModuleNotFoundError("no TensorFlow here", name=name)

    sys.meta_path.insert(0, Refuse())
    {MAIN}
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a Python of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


class Demo:
    """A run of the command, and what it printed."""

    def __init__(self, code: str, folder: Path, model: str) -> None:
        self.code, self.folder, self.model = code, folder, folder / model
        self.output = self.printed("demo", str(folder))

    def printed(self, *arguments: str) -> str:
        """What a command prints that must succeed."""
        done = run(self.code, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def found(self, kind: str) -> list[int]:
        """For how many questions of a kind vectors, keywords and both find the right document."""
        (line,) = (line for line in self.output.splitlines() if line.startswith(f"  {kind}  "))
        return [int(count) for count in line.split()[-3:]]


@pytest.fixture(scope="module", params=["tensorflow", "word vectors"])
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A whole run, with TensorFlow or as where it is not installed."""
    folder = tmp_path_factory.mktemp("demo") / "it's built here"
    if request.param == "word vectors":
        return Demo(WITHOUT_TENSORFLOW, folder, "vectors.npz")
    pytest.importorskip("tensorflow", reason="the extra tensorflow is not installed")
    return Demo(MAIN, folder, "model")


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
    demo.printed(*extract, "-o", str(file))
    assert [*vocabtool.read(file)] == [*known]
    file.unlink()
    tokens = json.loads(demo.printed(*oov, "--format", "json"))["tokens"]
    assert f"{tokens['unknown']:,} of {tokens['all']:,} words" in demo.output
    assert second in demo.printed(*search)


def test_folders(demo: Demo, tmp_path: Path) -> None:
    """A demo is built anew, and what is not of it stays; a folder of other things is refused."""
    (demo.folder / "notes.txt").write_text("mine")
    again = Demo(demo.code, demo.folder, demo.model.name)
    assert again.found("both kinds") == demo.found("both kinds")
    assert (demo.folder / "notes.txt").read_text() == "mine"
    (tmp_path / "thesis.txt").write_text("precious")
    done = run(WITHOUT_TENSORFLOW, "demo", str(tmp_path))
    assert done.returncode == 3
    assert "has files that the demo did not make" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert run(WITHOUT_TENSORFLOW, "demo", str(tmp_path / "thesis.txt")).returncode == 2


def test_docstrings_are_those_that_python_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `inspect` says of the running object; a Python without its sources is told plainly."""
    texts = {document.id: document.text for document in documentation()}
    for name, shown in (
        ("json.decoder.JSONDecoder.raw_decode", json.JSONDecoder.raw_decode),
        ("collections.Counter.most_common", Counter.most_common),
    ):
        assert texts[name] == f"{name}\n\n{inspect.getdoc(shown)}"
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(NotFound, match=r"Python's own documentation.*\.py files"):
        documentation()
