"""Settings files: an index has a name, and a command takes it for the folder and the options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.embedding_server import serve
from tests.cli.running import run
from tests.conftest import ROOT
from vocabtool import Index
from vocabtool.cli.main import cli
from vocabtool.errors import InvalidFile, NotFound

MODEL = ROOT / "data" / "small_glove.txt"
SETTINGS = """
[index.notes]
folder = "build/notes-index"
files = ["texts", "more.jsonl"]
model = "glove.txt"
id-field = "id"
field = "text"
keep = ["lang"]
memory = "64M"
calibrate = false

[index.notes.search]
k = 1
weight = 1

[index.notes.update]
sync = true
"""


def told(*arguments: str | Path, cwd: Path, code: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command that ends with a code."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stdout.decode(), done.stderr.decode()


def write(file: Path, **texts: str) -> None:
    file.parent.mkdir(exist_ok=True)
    rows = ({"id": id_, "text": text, "lang": "en"} for id_, text in texts.items())
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a settings file, a model and documents; commands are run in ``deep/er``."""
    root = tmp_path / "project"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "glove.txt").symlink_to(MODEL)
    (root / "vocabtool.toml").write_text(SETTINGS)
    write(root / "texts" / "one.jsonl", a="I love Xapian", b="the error came back")
    write(root / "more.jsonl", c="the last text")
    return root


def test_the_nightly_command(project: Path) -> None:
    """``index NAME`` once, then ``update NAME``, from any folder below."""
    here, folder = project / "deep" / "er", project / "build" / "notes-index"
    for command in (("update", "notes"), ("search", "notes", "x"), ("list", "notes")):
        errors = told(*command, cwd=here, code=3)[1]
        assert f"{folder}: no index yet; create it with `vocabtool index notes`" in errors
    told("index", "notes", "--quiet", cwd=here)
    index = Index.open(folder)
    assert [*index.ids()] == ["a", "b", "c"]
    assert index.manifest.fields == {"lang": "string"}
    assert index.configuration.memory == 64 << 20
    assert [each.name for each in index.manifest.sources] == ["texts", "more.jsonl"]
    assert told("list", "notes", cwd=here)[0] == "a\nb\nc\n"
    assert told("get", "notes", "c", cwd=here)[0] == "c\n  lang: en\n    the last text\n"
    write(project / "texts" / "one.jsonl", a="I love Xapian", d="new")
    assert "1 added, 2 unchanged, 1 removed" in told("update", "notes", cwd=here)[0]
    assert told("list", "notes", cwd=here)[0] == "a\nc\nd\n"
    for command in (("verify", "notes"), ("compact", "notes"), ("stats", "notes")):
        told(*command, cwd=here)
    told("delete", "notes", "d", cwd=here)
    told("copy", "notes", "copied", cwd=here)
    assert [*Index.open(here / "copied").ids()] == ["a", "c"]


def test_update_reads_files_that_were_added_to_the_settings(project: Path) -> None:
    """Besides all that the index has read; their names are those in the settings file."""
    here = project / "deep"
    told("index", "notes", "--quiet", cwd=here)
    write(project / "other.jsonl", o="of another command")
    told("update", project / "build" / "notes-index", "other.jsonl", "--quiet", cwd=project)
    (project / "plain.jsonl").write_text('{"id": "p", "text": "added"}\n')
    changed = SETTINGS.replace('"more.jsonl"]', '"more.jsonl", "plain.jsonl"]')
    (project / "vocabtool.toml").write_text(changed)
    told("update", "notes", "--quiet", cwd=here)
    index = Index.open(project / "build" / "notes-index")
    assert sorted(index.ids()) == ["a", "b", "c", "o", "p"]
    names = ["texts", "more.jsonl", "other.jsonl", "plain.jsonl"]
    assert [each.name for each in index.manifest.sources] == names


def test_ids_do_not_depend_on_the_place(project: Path) -> None:
    """Without a field for them, they begin at the folder of the settings file."""
    (project / "vocabtool.toml").write_text(
        '[index.lines]\nfolder = "lines"\nfiles = "texts/*.txt"\nmodel = "glove.txt"\n'
    )
    (project / "texts" / "a.txt").write_text("I love\nXapian\n")
    told("index", "lines", "--quiet", cwd=project / "deep")
    assert told("list", "lines", cwd=project / "deep")[0] == "texts/a.txt:1\ntexts/a.txt:2\n"


def test_what_the_command_line_says_comes_first(project: Path) -> None:
    """Before the table of the command, which comes before that of the index."""
    here = project / "deep"
    told("index", "notes", "--keep", "year", "-o", "elsewhere", "--quiet", cwd=here)
    assert Index.open(project / "elsewhere").manifest.fields == {"year": "null"}
    told("index", "notes", "--quiet", cwd=here)
    search = ("search", "notes", "text error", "--format", "json")
    found = json.loads(told(*search, cwd=here)[0])
    assert (len(found["hits"]), found["query"]["a"]) == (1, 1.0)
    found = json.loads(told(*search, "-k", "3", "-a", "0.25", cwd=here)[0])
    assert (len(found["hits"]), found["query"]["a"]) == (3, 0.25)


def test_an_existing_folder_comes_first(project: Path) -> None:
    """If it is an index; if it is another folder, the message names both."""
    told("index", "notes", "--quiet", cwd=project)
    told("index", "more.jsonl", "-o", "notes", "--model", "glove.txt", "--quiet", cwd=project)
    assert told("list", "notes", cwd=project)[0] == "more.jsonl:1\n"
    assert told("list", "notes", cwd=project / "deep")[0] == "a\nb\nc\n"
    (project / "deep" / "notes").mkdir()
    errors = told("list", "notes", cwd=project / "deep", code=3)[1]
    assert f"is named like [index.notes] in {project / 'vocabtool.toml'}" in errors
    assert str(project / "build" / "notes-index") in errors
    errors = told("index", "notes", cwd=project / "deep", code=2)[1]
    assert f"and also [index.notes] in {project / 'vocabtool.toml'}" in errors


def test_where_the_file_is_found(project: Path, tmp_path: Path) -> None:
    """The nearest one; ``vocabtool.toml`` before ``pyproject.toml``; ``--config`` before both."""
    told("index", "notes", "--quiet", cwd=project)
    (project / "deep" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")  # none of ours
    assert told("list", "notes", cwd=project / "deep")[0] == "a\nb\nc\n"
    (project / "deep" / "pyproject.toml").write_text(
        '[tool.vocabtool.index.near]\nfolder = "../build/notes-index"\n'
    )
    assert told("list", "near", cwd=project / "deep" / "er")[0] == "a\nb\nc\n"
    errors = told("list", "notes", cwd=project / "deep", code=3)[1]
    file = project / "deep" / "pyproject.toml"
    assert (
        f"notes: no such folder, and no [index.notes] in {file}; the indexes in this file: near"
        in errors
    )
    config = ("--config", str(project / "vocabtool.toml"))
    assert told("list", "notes", *config, cwd=tmp_path)[0] == "a\nb\nc\n"
    assert told("list", *config, "notes", "-k", "1", cwd=tmp_path)[0] == "a\n"
    assert "none.toml" in told("list", "notes", "--config", "none.toml", cwd=tmp_path, code=3)[1]
    assert "no such folder" in told("list", "notes", cwd=tmp_path, code=3)[1]


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
    for command in (("index", "notes"), ("index", "notes", "--quiet")):
        done = run(*command, cwd=project, environ=environ)
        assert done.returncode == 3
        assert b"vocabtool.toml: [index.notes] model: runs Python code" in done.stderr
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


def test_no_reranker_of_the_file_is_run(project: Path) -> None:
    """Nor a model whose kind the table of the command states; both need ``--trust``."""
    told("index", "notes", "--quiet", cwd=project)
    (project / "ranks.py").write_text(
        "import pathlib\npathlib.Path('was-run').touch()\n"
        "def last(query, texts):\n    return range(len(texts))\n"
    )
    table = '[index.notes.index]\nmodel = "ranks:last"\nencoder = "python"\n'
    settings = SETTINGS.replace("weight = 1", 'rerank = "python:ranks:last"') + table
    (project / "vocabtool.toml").write_text(settings)
    environ, search = {"PYTHONPATH": str(project)}, ("search", "notes", "text error")
    for command, key in ((search, "rerank"), (("index", "notes"), "model")):
        done = run(*command, cwd=project, environ=environ)
        assert done.returncode == 3
        assert f"[index.notes] {key}: runs Python code".encode() in done.stderr
    assert not (project / "was-run").exists()
    done = run(*search, "--trust", cwd=project, environ=environ)
    assert done.stdout.startswith(b" 1. "), done.stderr
    assert (project / "was-run").exists()


@pytest.mark.parametrize("model", ['"openai:m@URL"', '"m@URL"\nencoder = "openai"'])
def test_nothing_is_sent_to_a_server_of_the_file(project: Path, model: str) -> None:
    """Without ``--trust``: the key in the environment would go there, too."""
    with serve() as server:
        settings = SETTINGS.replace('"glove.txt"', model.replace("URL", server.url))
        (project / "vocabtool.toml").write_text(settings)
        environ = {"OPENAI_API_KEY": "secret"}
        done = run("index", "notes", "--quiet", cwd=project, environ=environ)
        assert done.returncode == 3
        assert b"[index.notes] model: sends texts, and the key in the environment" in done.stderr
        assert not server.requests
        done = run("index", "notes", "--trust", "--quiet", cwd=project, environ=environ)
        assert done.returncode == 0, done.stderr
        assert server.requests


FOLDER = 'folder = "f"\n'
CASES = [
    ("[index.x", "not TOML"),
    ("[index.x]\nfolder = 'f'\nkeep = " + "[" * 5000, "not TOML"),
    ("x = '" + "a" * (1 << 20) + "'", "at most 1,048,576 bytes"),
    ("[indexes.x]\nfolder = 'f'", "indexes: unknown key"),
    ("index = 3", "wanted tables named [index.NAME]"),
    ("[index]\nx = 3", "[index.x] wanted a table, got 3"),
    ("[index.x]\nmodel = 'm'", "[index.x] folder: missing"),
    ("[index.x]\nfolder = 3", "[index.x] folder: wanted a string, got 3"),
    (f"[index.x]\n{FOLDER}files = [1]", "[index.x] files: wanted a list of FILEs, got [1]"),
    ('[index.x]\nfolder = "idx\\u0000"', "[index.x] folder: contains a NUL character"),
    (f'[index.x]\n{FOLDER}files = ["a\\u0000b"]', "[index.x] files: contains a NUL character"),
    (f"[index.x]\n{FOLDER}files = []", "[index.x] files: wanted a list of FILEs, got []"),
    (f"[index.x]\n{FOLDER}modle = 'm'", "[index.x] modle: unknown key; did you mean model?"),
    (f"[index.x]\n{FOLDER}zzz = 'm'", "[index.x] zzz: unknown key; see `vocabtool index --help`"),
    (f"[index.x]\n{FOLDER}trust = true", "[index.x] trust: not allowed here"),
    (f"[index.x]\n{FOLDER}force = true", "[index.x] force: not allowed here"),
    (f"[index.x]\n{FOLDER}whole-index = true", "[index.x] whole-index: not allowed here"),
    (f"[index.x]\n{FOLDER}html = 'f.html'", "[index.x] html: not allowed here"),
    (f"[index.x]\n{FOLDER}beside = ['rerank=python:a:b']", "[index.x] beside: not allowed here"),
    (f"[index.x]\n{FOLDER}api-key-env = 'SECRET'", "[index.x] api-key-env: not allowed here"),
    (f"[index.x]\n{FOLDER}keep = ['a', 1]", "[index.x] keep: wanted a list of strings"),
    (f"[index.x]\n{FOLDER}threads = true", "[index.x] threads: wanted an integer, got True"),
    (f"[index.x]\n{FOLDER}threads = 0", "[index.x] threads: 0 is not in the range 1<=x<=64"),
    (f"[index.x]\n{FOLDER}recall = 'high'", "[index.x] recall: wanted a number, got 'high'"),
    (f"[index.x]\n{FOLDER}calibrate = 1", "[index.x] calibrate: wanted true or false, got 1"),
    (f"[index.x]\n{FOLDER}metric = 'l3'", "[index.x] metric: 'l3' is not one of"),
    (f"[index.x]\n{FOLDER}memory = '1K'", "[index.x] memory: the minimum is 16M"),
    (f"[index.x]\n{FOLDER}rule = 'no-rule'", "[index.x] rule: "),
    (f"[index.x]\n{FOLDER}[index.x.find]\nk = 1", "[index.x] find: is a table, but vocabtool has"),
    (f"[index.x]\n{FOLDER}[index.x.list]\nfolder = 'g'", "[index.x.list] folder: unknown key"),
    (f"[index.x]\n{FOLDER}[index.x.list]\nk = 'all'", "[index.x.list] k: wanted an integer"),
]


@pytest.mark.parametrize(("content", "said"), CASES, ids=[said[:40] for _, said in CASES])
def test_what_a_settings_file_may_not_contain(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file, the table and the key."""
    Index.create(tmp_path / "f", dim=2)
    file = tmp_path / "vocabtool.toml"
    file.write_text(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFile) as caught:
        cli.main(["list", "x"], standalone_mode=False)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)


def test_a_file_that_is_not_utf8_or_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As well; and a broken file is no error for a command that names a folder."""
    Index.create(tmp_path / "f", dim=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vocabtool.toml").write_bytes(b"x = '\xff'")
    with pytest.raises(InvalidFile, match="not TOML"):
        cli.main(["list", "x"], standalone_mode=False)
    cli.main(["list", "f"], standalone_mode=False)
    (tmp_path / "vocabtool.toml").write_text("[index.x]\nfolder = 'f'\n")
    with pytest.raises(InvalidFile, match=r"\[index.x\] files: missing"):
        cli.main(["index", "x"], standalone_mode=False)
    with pytest.raises(NotFound, match="the indexes in this file: x"):
        cli.main(["index", "y"], standalone_mode=False)
