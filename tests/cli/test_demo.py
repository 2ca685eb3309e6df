"""``vocabtool demo``, with TensorFlow and without: its claims on a real run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import vocabtool
from tests.conftest import ROOT

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


def told(code: str, *arguments: str) -> str:
    """What a command prints that must succeed."""
    done = run(code, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["tensorflow", "word vectors"])
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A whole run, with TensorFlow or as where it is not installed."""
    folder = tmp_path_factory.mktemp("demo") / "it's built here"
    if request.param == "tensorflow":
        pytest.importorskip("tensorflow", reason="the extra tensorflow is not installed")
        return Demo(MAIN, folder, folder / "model")
    return Demo(WITHOUT_TENSORFLOW, folder, folder / "vectors.npz")


class Demo:
    """A run of the command, and what it printed."""

    def __init__(self, code: str, folder: Path, model: Path) -> None:
        self.code, self.folder, self.model = code, folder, model
        self.output = told(code, "demo", str(folder))

    def lines(self, name: str) -> list[str]:
        """Of a file in the folder."""
        return (self.folder / name).read_text("utf-8").splitlines()

    def found(self, fusion: str) -> int:
        """For how many queries the right document is among the first ten."""
        (line,) = (line for line in self.output.splitlines() if line.startswith(f"  {fusion}  "))
        return int(line.split()[-1])


def test_hybrid_finds_what_vectors_miss(demo: Demo) -> None:
    """The claim of the whole project, on queries that a rule draws."""
    match = re.search(r"alone miss (\d+) queries; hybrid search finds (\d+)", demo.output)
    assert match is not None
    missed, found = map(int, match.groups())
    assert demo.found("vectors alone") == 100 - missed
    assert demo.found("hybrid by coverage (the default)") >= demo.found("keywords alone") - 3
    assert missed > 50
    assert found > 0.9 * missed
    assert demo.output.count("any other unknown word would give the same vector") >= 4


def test_what_it_tells_is_what_is_there(demo: Demo) -> None:
    """Vocabulary, documents and index are in the folder; the words are those of the model."""
    documents = [json.loads(line) for line in demo.lines("documents.jsonl")]
    assert len({document["id"] for document in documents}) == len(documents) > 3_000
    assert f"{len(documents):,} texts of Python's documentation" in demo.output
    words = vocabtool.read(demo.folder / "vocabulary.txt")
    assert list(vocabtool.extract(demo.model)) == list(words)
    with vocabtool.open(demo.folder / "index") as index:
        assert len(index) == len(documents)


def test_queries_are_drawn_by_the_rule(demo: Demo) -> None:
    """One word that the model does not know and two that it does, of one document's text."""
    texts = {row["id"]: row["text"] for row in map(json.loads, demo.lines("documents.jsonl"))}
    queries = {row["_id"]: row["text"] for row in map(json.loads, demo.lines("queries.jsonl"))}
    judged = [line.split("\t") for line in demo.lines("qrels.tsv")[1:]]
    known = vocabtool.read(demo.folder / "vocabulary.txt")
    assert len(queries) == len({document for _, document, _ in judged}) == 100
    for number, document, grade in judged:
        words = queries[number].split()
        assert [word in known for word in words].count(False) == 1
        assert all(word in texts[document].lower() for word in words)
        assert grade == "1"


def test_its_commands_do_what_it_says(demo: Demo) -> None:
    """Each command that it prints works as it stands."""
    commands = [line[4:] for line in demo.output.splitlines() if line.startswith("  $ vocabtool ")]
    assert [shlex.split(command)[1] for command in commands[:4]] == [
        *("extract", "oov", "index", "eval"),
    ]
    oov = json.loads(told(demo.code, *shlex.split(commands[1])[1:], "--format", "json"))
    tokens = oov["tokens"]
    counted = f"{tokens['unknown']:,} of {tokens['all']:,} words in the texts"
    assert counted in demo.output
    search = told(demo.code, *shlex.split(commands[4])[1:])
    document = re.search(r"made from (\S+)", demo.output)
    assert document is not None
    assert document[1] in search


def test_run_again_it_is_built_anew(demo: Demo) -> None:
    """The same seed gives the same queries, another seed others; what is not of it stays."""
    before = demo.lines("queries.jsonl")
    (demo.folder / "notes.txt").write_text("mine")
    seed = "1" if demo.code == MAIN else "0"
    told(demo.code, "demo", str(demo.folder), "--seed", seed)
    assert (demo.lines("queries.jsonl") == before) is (seed == "0")
    assert (demo.folder / "notes.txt").read_text() == "mine"


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    """Whatever is in it, and a file is no folder."""
    (tmp_path / "thesis.txt").write_text("precious")
    done = run(WITHOUT_TENSORFLOW, "demo", str(tmp_path))
    assert done.returncode == 3
    assert "contains files that the demo has not made" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert run(WITHOUT_TENSORFLOW, "demo", str(tmp_path / "thesis.txt")).returncode == 2
