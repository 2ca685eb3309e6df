"""Settings files: an index has a name, and a command takes it for the folder and the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.embedding_server import serve
from tests.cli.running import errors, output
from tests.cli.test_index_commands import MODEL
from vocabtool import Index
from vocabtool.cli.main import cli
from vocabtool.errors import InvalidFile

SETTINGS = """
[index.notes]
folder = "build/notes-index"
files = ["texts", "more.jsonl"]
model = "glove.txt"
id-field = "id"
field = ["text"]
keep = ["lang"]
commit-rows = 2
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
    errors("list", "notes", cwd=here)
    output("index", "notes", "--quiet", cwd=here)
    index = Index.open(folder)
    assert [*index.ids()] == ["a", "b", "c"]
    assert index.manifest.fields == {"lang": "string"}
    assert index.manifest.commit == 2
    assert [source.name for source in index.manifest.sources] == ["texts", "more.jsonl"]
    (project / "more.jsonl").write_text('{"id": "d", "text": "new", "lang": "en"}\n')
    assert "1 added, 2 unchanged, 1 removed" in output("update", "notes", "--sync", cwd=here)
    assert output("list", "notes", cwd=here) == "a\nb\nd\n"
    output("search", "notes", "error", cwd=here)
    assert "encoded again" not in output("verify", "notes", cwd=here)  # --model asks for it
    output("copy", "notes", "copied", cwd=here)
    assert [*Index.open(here / "copied").ids()] == ["a", "b", "d"]
    output("index", "notes", "--keep", "year", "-o", "elsewhere", "--quiet", cwd=here)
    assert Index.open(project / "elsewhere").manifest.fields == {"year": "null"}


def test_where_the_file_is_found(project: Path, tmp_path: Path) -> None:
    """The nearest one, or that of ``--config``; a path comes before a name."""
    output("index", "notes", "--quiet", cwd=project)
    settings = ("--config", str(project / "vocabtool.toml"))
    assert output(*settings, "list", "notes", cwd=tmp_path) == "a\nb\nc\n"
    assert "none.toml" in errors("--config", "none.toml", "list", "notes", cwd=tmp_path)
    assert "no [index.other] in" in errors("list", "other", cwd=project)
    output("index", "more.jsonl", "-o", "notes", "--model", "glove.txt", "--quiet", cwd=project)
    assert output("list", "notes", cwd=project) == "more.jsonl:1\n"
    assert output("list", "notes", cwd=project / "deep") == "a\nb\nc\n"


def test_nothing_of_the_file_is_run(project: Path) -> None:
    """A model that is Python needs ``--trust`` on the command line, each time it is opened."""
    settings = SETTINGS.replace("glove.txt", "python:letters:encode")
    (project / "vocabtool.toml").write_text(settings)
    (project / "letters.py").write_text(
        "import pathlib, numpy\npathlib.Path('was-run').touch()\n"
        "def encode(texts):\n"
        "    return numpy.array([[len(t), t.count('e'), 1] for t in texts], float)\n"
    )
    here: dict[str, Any] = {"cwd": project, "environ": {"PYTHONPATH": str(project)}}
    trace = project / "was-run"
    needs = "[index.notes] model: python:letters:encode needs --trust"
    assert needs in errors("index", "notes", **here)
    assert not trace.exists()
    output("index", "notes", "--trust", "--quiet", **here)
    trace.unlink()
    for command in (("search", "notes", "error"), ("update", "notes"), ("stats", "notes")):
        assert "--trust" in errors(*command, **here)
        assert not trace.exists()
    assert output("search", "notes", "error", "--trust", **here).startswith(" 1. b")
    assert trace.exists()
    assert output("list", "notes", **here) == "a\nb\nc\n"


def test_nothing_is_sent_to_a_server_of_the_file(project: Path) -> None:
    """Without ``--trust``: the key in the environment would go there, too."""
    with serve() as server:
        settings = SETTINGS.replace("glove.txt", f"openai:m@{server.url}")
        (project / "vocabtool.toml").write_text(settings)
        command, environ = ("index", "notes", "--quiet"), {"OPENAI_API_KEY": "secret"}
        message = errors(*command, cwd=project, environ=environ)
        assert "[index.notes] model: openai:" in message
        assert not server.requests
        output(*command, "--trust", cwd=project, environ=environ)
        assert server.requests


START = '[index.x]\nfolder = "f"\nfiles = ["a"]\n'
REQUIRED = "[index.x] wanted a text `folder`, and a list of texts `files`"
CASES = [
    ("[index.x", "wanted TOML"),
    (f"{START}keep = " + "[" * 5000, "wanted TOML"),
    ("x = '" + "a" * (1 << 20) + "'", "more than 1,048,576 bytes"),
    ('[index.x]\nfolder = 5\nfiles = ["a"]', REQUIRED),
    ('[index.x]\nfolder = "f"\nfiles = "a.txt"', REQUIRED),
    ("index = 3", "wanted TOML with tables [index.NAME]"),
    (f"{START}modle = 'm'", "[index.x] modle: unknown"),
    (f"{START}trust = true", "[index.x] trust: unknown, not allowed"),
    (f"{START}api-key-env = 'SECRET'", "[index.x] api-key-env: unknown, not allowed"),
    (f"{START}keep = 'a'", "[index.x] keep: unknown, not allowed, or no list"),
    (f"{START}split-size = 0", "[index.x] split-size: 0 is not in the range x>=1"),
]


@pytest.mark.parametrize(("content", "message"), CASES, ids=range(len(CASES)))
def test_what_a_settings_file_may_not_contain(
    content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file, the table and the key; a command on a path needs no file."""
    file = tmp_path / "vocabtool.toml"
    file.write_bytes(content.encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFile) as caught:
        cli.main(["index", "x"], standalone_mode=False)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)
    Index.create(tmp_path / "f", dim=2)
    cli.main(["list", "f"], standalone_mode=False)
