"""Settings files: an index has a name, and a command takes it for the folder and the options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.embedding_server import serve
from tests.cli.running import run, told
from tests.conftest import ROOT
from vocabtool import Index
from vocabtool.cli.main import cli
from vocabtool.errors import InvalidFile

MODEL = ROOT / "data" / "small_glove.txt"
SETTINGS = """
[index.notes]
folder = "build/notes-index"
files = ["texts", "more.jsonl"]
model = "glove.txt"
id-field = "id"
field = ["text"]
keep = ["lang"]
memory = "64M"
calibrate = false
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a settings file, a model and documents; commands are run in ``deep/er``."""
    root = tmp_path / "project"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "texts").mkdir()
    (root / "glove.txt").symlink_to(MODEL)
    (root / "vocabtool.toml").write_text(SETTINGS)
    (root / "texts" / "one.jsonl").write_text(
        '{"id": "a", "text": "I love Xapian", "lang": "en"}\n'
        '{"id": "b", "text": "the error came back", "lang": "en"}\n'
    )
    (root / "more.jsonl").write_text('{"id": "c", "text": "the last text", "lang": "en"}\n')
    return root


def test_the_nightly_command(project: Path) -> None:
    """``index NAME`` once, then ``update NAME``, from any folder below; options come first."""
    here, folder = project / "deep" / "er", project / "build" / "notes-index"
    told("list", "notes", cwd=here, code=3)
    told("index", "notes", "--quiet", cwd=here)
    index = Index.open(folder)
    assert [*index.ids()] == ["a", "b", "c"]
    assert index.manifest.fields == {"lang": "string"}
    assert index.configuration.memory == 64 << 20
    assert [each.name for each in index.manifest.sources] == ["texts", "more.jsonl"]
    (project / "more.jsonl").write_text('{"id": "d", "text": "new", "lang": "en"}\n')
    assert "1 added, 2 unchanged, 1 removed" in told("update", "notes", "--sync", cwd=here)[0]
    assert told("list", "notes", cwd=here)[0] == "a\nb\nd\n"
    told("search", "notes", "error", cwd=here)
    assert "encoded again" not in told("verify", "notes", cwd=here)[0]  # --model asks for it
    told("copy", "notes", "copied", cwd=here)
    assert [*Index.open(here / "copied").ids()] == ["a", "b", "d"]
    told("index", "notes", "--keep", "year", "-o", "elsewhere", "--quiet", cwd=here)
    assert Index.open(project / "elsewhere").manifest.fields == {"year": "null"}


def test_where_the_file_is_found(project: Path, tmp_path: Path) -> None:
    """The nearest one, or that of ``--config``; a path comes before a name."""
    told("index", "notes", "--quiet", cwd=project)
    settings = ("--config", str(project / "vocabtool.toml"))
    assert told(*settings, "list", "notes", cwd=tmp_path)[0] == "a\nb\nc\n"
    assert "none.toml" in told("--config", "none.toml", "list", "notes", cwd=tmp_path, code=3)[1]
    assert "no [index.other] in" in told("list", "other", cwd=project, code=3)[1]
    told("index", "more.jsonl", "-o", "notes", "--model", "glove.txt", "--quiet", cwd=project)
    assert told("list", "notes", cwd=project)[0] == "more.jsonl:1\n"
    assert told("list", "notes", cwd=project / "deep")[0] == "a\nb\nc\n"


def test_nothing_of_the_file_is_run(project: Path) -> None:
    """A model that is Python needs ``--trust`` on the command line, each time it is opened."""
    settings = SETTINGS.replace("glove.txt", "python:letters:encode")
    (project / "vocabtool.toml").write_text(settings)
    (project / "letters.py").write_text(
        "import pathlib, numpy\npathlib.Path('was-run').touch()\n"
        "def encode(texts):\n"
        "    return numpy.array([[len(t), t.count('e'), 1] for t in texts], float)\n"
    )
    environ = {"PYTHONPATH": str(project)}
    done = run("index", "notes", cwd=project, environ=environ)
    assert done.returncode == 3
    assert b"[index.notes] model: python:letters:encode runs Python" in done.stderr
    assert not (project / "was-run").exists()
    done = run("index", "notes", "--trust", "--quiet", cwd=project, environ=environ)
    assert done.returncode == 0, done.stderr
    (project / "was-run").unlink()
    for command in (("search", "notes", "error"), ("update", "notes"), ("stats", "notes")):
        done = run(*command, cwd=project, environ=environ)
        assert b"--trust" in done.stderr
        assert not (project / "was-run").exists()
    done = run("search", "notes", "error", "--trust", cwd=project, environ=environ)
    assert done.stdout.startswith(b" 1. b"), done.stderr
    assert (project / "was-run").exists()
    assert run("list", "notes", cwd=project, environ=environ).stdout == b"a\nb\nc\n"


def test_nothing_is_sent_to_a_server_of_the_file(project: Path) -> None:
    """Without ``--trust``: the key in the environment would go there, too."""
    with serve() as server:
        settings = SETTINGS.replace("glove.txt", f"openai:m@{server.url}")
        (project / "vocabtool.toml").write_text(settings)
        environ = {"OPENAI_API_KEY": "secret"}
        done = run("index", "notes", "--quiet", cwd=project, environ=environ)
        assert done.returncode == 3
        assert b"[index.notes] model: openai:" in done.stderr
        assert not server.requests
        done = run("index", "notes", "--trust", "--quiet", cwd=project, environ=environ)
        assert done.returncode == 0, done.stderr
        assert server.requests


START = '[index.x]\nfolder = "f"\nfiles = ["a"]\n'
CASES = [
    ("[index.x", "wanted TOML"),
    ("x = '\xff'", "wanted TOML"),
    (f"{START}keep = " + "[" * 5000, "wanted TOML"),
    ("x = '" + "a" * (1 << 20) + "'", "wanted settings of at most 1,048,576 bytes"),
    ('[index.x]\nfolder = 5\nfiles = ["a"]', "wanted a text `folder`"),
    ('[index.x]\nfolder = "f"\nfiles = "a.txt"', "a list of texts `files`"),
    ("index = 3", "wanted TOML with tables [index.NAME]"),
    ("[index]\nx = 3", "[index.x] wanted a table with `folder` and `files`"),
    ("[index.x]\nmodel = 'm'", "[index.x] wanted a table with `folder` and `files`"),
    (f"{START}modle = 'm'", "[index.x] modle: unknown"),
    (f"{START}trust = true", "[index.x] trust: unknown, not allowed"),
    (f"{START}force = true", "[index.x] force: unknown, not allowed"),
    (f"{START}api-key-env = 'SECRET'", "[index.x] api-key-env: unknown, not allowed"),
    (f"{START}keep = 'a'", "[index.x] keep: unknown, not allowed, or no list"),
    (f"{START}split-size = 0", "[index.x] split-size: 0 is not in the range x>=1"),
    (f"{START}timeout = 'high'", "[index.x] timeout: 'high' is not a valid float"),
    (f"{START}metric = 'l3'", "[index.x] metric: 'l3' is not one of"),
    (f"{START}memory = '1K'", "[index.x] memory: the minimum is 16M"),
]


@pytest.mark.parametrize(("content", "said"), CASES, ids=[said[:40] for _, said in CASES])
def test_what_a_settings_file_may_not_contain(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file, the table and the key; a command on a path needs no file."""
    file = tmp_path / "vocabtool.toml"
    file.write_bytes(content.encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFile) as caught:
        cli.main(["index", "x"], standalone_mode=False)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)
    Index.create(tmp_path / "f", dim=2)
    cli.main(["list", "f"], standalone_mode=False)
