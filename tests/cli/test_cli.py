"""The command line as a user meets it: whole outputs, both streams, exit codes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b
from tests.cli.running import COMMAND, on_terminal, run
from tests.conftest import ROOT

WORDS = (b"the", b"na\xc3\xafve", b"a\nb", b"\xff\xfe", b"")
SHA256 = hashlib.sha256(b"\n".join(WORDS)).hexdigest()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A table of five awkward words, and a constant of two strings."""
    folder = tmp_path / "model"
    folder.mkdir()
    small = b.const(b"labels", b.string_tensor([b"yes", b"no"]))
    data = b.saved_model(b.graph(*b.table_nodes(WORDS), small))
    (folder / "saved_model.pb").write_bytes(data)
    return folder


def test_inspect_table_for_programs(model: Path) -> None:
    """Where no terminal is, inspect writes tab-separated columns."""
    done = run("inspect", model)
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.decode() == (
        "name\tkind\tsize\tids\tunknown\tentries\tspecials\tduplicates\tnot_utf8\tsha256\twhere\tnotes\n"
        f"words\ttable\t5\t0..4\t-1\tthe naïve a\\nb … ''\t\t0\t1\t{SHA256}\t"
        "saved_model.pb: graph/words, fills hash_table\t\n"
    )


def test_inspect_all(model: Path) -> None:
    """--all takes small constants too, and lists what was passed over."""
    for arguments, names in (([], ["name", "words"]), (["--all"], ["name", "words", "labels"])):
        lines = run("inspect", model, *arguments).stdout.decode().splitlines()
        assert [line.split("\t")[0] for line in lines] == names


def test_inspect_says_what_was_passed_over(tmp_path: Path) -> None:
    """A model without a vocabulary is answered with what was looked at."""
    names = b.const(b"names", b.string_tensor([b"v%d" % i for i in range(12)]))
    save = b.node(b"save", b"SaveV2", b"prefix", b"names", b"slices")
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(b.graph(names, save)))
    done = run("inspect", tmp_path, "--all")
    assert done.returncode == 0
    assert done.stdout.decode().endswith(
        "\n\n"
        "passed over\tsize\twhy\twhere\n"
        "names\t12\ttensor names for saving and restoring\tsaved_model.pb: graph/names\n"
    )
    assert done.stderr.decode() == (
        f"vocabtool: {tmp_path}: no vocabulary found (SavedModel; 1 lists skipped)\n"
    )


def test_inspect_json(model: Path) -> None:
    """The JSON of inspect, whole."""
    done = run("inspect", model, "--format", "json")
    assert json.loads(done.stdout) == {
        "model": str(model),
        "format": "SavedModel",
        "complete": True,
        "warnings": [],
        "vocabularies": [
            {
                "name": "words",
                "kind": "table",
                "linked": True,
                "entry_type": "text",
                "marker": None,
                "size": 5,
                "sha256": SHA256,
                "places": [{"file": "saved_model.pb", "place": "graph/words, fills hash_table"}],
                "first_id": 0,
                "last_id": 4,
                "contiguous": True,
                "unknown": {"id": -1, "count": 1},
                "specials": [],
                "duplicates": 0,
                "not_utf8": 1,
                "first": ["the", "naïve", "a\\nb", "\\xff\\xfe", ""],
                "last": ["the", "naïve", "a\\nb", "\\xff\\xfe", ""],
                "notes": [],
            }
        ],
    }


def test_extract_text(model: Path) -> None:
    """One entry a line; those that a line cannot hold are escaped, and counted."""
    done = run("extract", model)
    assert done.returncode == 0
    assert done.stdout == "the\nnaïve\na\\nb\n\\xff\\xfe\n\n".encode()
    assert done.stderr.decode().splitlines() == [
        "vocabtool: words: 5 entries (table)",
        "vocabtool: 2 entries written with backslash escapes, because of line breaks or "
        "invalid UTF-8",
    ]


def test_extract_json(model: Path) -> None:
    """JSON loses nothing: what is not UTF-8 stands beside, in base64."""
    done = run("extract", model, "--format", "json")
    document = json.loads(done.stdout)
    assert document["name"] == "words"
    assert document["size"] == 5
    assert document["sha256"] == SHA256
    assert document["tokens"] == ["the", "naïve", "a\nb", "\\xff\\xfe", ""]
    assert document["base64"] == {"3": base64.b64encode(b"\xff\xfe").decode()}
    assert document["specials"] == []
    assert "ids" not in document


@pytest.mark.parametrize("output", ["json", "parquet"])
def test_extract_reads_back(output: str, model: Path, tmp_path: Path) -> None:
    """What json and parquet hold is the vocabulary; the ending of FILE tells the format."""
    for name, options in (("words", ["--format", output]), ("again", [])):
        file = f"{name}.{output}"
        assert run("extract", model, *options, "-o", tmp_path / file).returncode == 0
        assert vocabtool.read(tmp_path / file) == vocabtool.extract(model)


def test_text_says_that_it_holds_no_ids(tmp_path: Path) -> None:
    """Where line numbers are not the ids, extract says so."""
    nodes = (
        b.const(b"words", b.string_tensor([b"the", b"fox"])),
        b.const(b"ids", b.int64_tensor([2, 5])),
        b.node(b"hash_table", b"HashTableV2"),
        b.node(b"fill", b"LookupTableImportV2", b"hash_table", b"words", b"ids"),
    )
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(b.graph(*nodes)))
    assert run("extract", tmp_path).stderr.decode().splitlines()[-1] == (
        "vocabtool: --format text omits the ids (2..5, uneven); use --format json to write them"
    )


def test_extract_wrong_name(model: Path) -> None:
    """A wrong name exits with 3 and names the right ones."""
    done = run("extract", model, "--name", "nothing")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.decode() == (
        f"vocabtool: error: {model}: no vocabulary named 'nothing'. "
        "Available vocabularies:\n  words\n  labels\n"
    )
    done = run("extract", model, "--name", "wrods")
    assert (done.returncode, b"did you mean words?" in done.stderr) == (3, True)


def test_incomplete_is_said(tmp_path: Path) -> None:
    """What could not be read is said on standard error, and in the JSON."""
    bomb = b.number(1, b.STRING) + b.field(2, b.shape(1 << 40)) + b.field(8, b"boom")
    graph = b.graph(*b.table_nodes(WORDS), b.const(b"bomb", bomb))
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(graph))
    done = run("inspect", tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith(b"vocabtool: incomplete: constant graph/bomb: ")
    document = json.loads(run("inspect", tmp_path, "--format", "json").stdout)
    assert document["complete"] is False
    assert document["warnings"][0].startswith("constant graph/bomb: ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspect"], 2, "Missing argument 'MODEL'"),
        (["inspect", "x", "--format", "xml"], 2, "'xml' is not one of"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["extrct"], 2, "Did you mean 'extract' or 'export'?"),
        (["extract", "--nmae", "x"], 2, "Did you mean '--name'?"),
        (["inspect", "nowhere"], 3, "vocabtool: error: nowhere: no such file or folder"),
        (["extract", "README.md"], 3, "vocabtool: error: README.md: "),
        (
            ["extract", "data/sentence_encoder", "-o", "no/such/f"],
            3,
            "such: the folder does not exist",
        ),
        (["extract", "data/sentence_encoder", "-o", ""], 2, "-o needs the name of a file"),
        (
            ["extract", "data/sentence_encoder", "-o", "words.foo"],
            2,
            "-o words.foo: expected a file that ends in .json, .csv, .parquet or .txt; "
            "or pass --format",
        ),
    ],
)
def test_errors(arguments: list[str], code: int, message: str) -> None:
    """Usage exits with 2, bad input with 3, both without a traceback."""
    done = run(*arguments)
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
def test_other_encodings(encoding: str, tmp_path: Path) -> None:
    """JSON is UTF-8 everywhere; tables and messages escape what the stream's encoding lacks."""
    name = "wörter→\N{SNOWMAN}"
    words = ["\N{SNOWMAN}", *map(str, range(12))]
    constant = b.const(name.encode(), b.string_tensor([word.encode() for word in words]))
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(b.graph(constant)))
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / os.fsdecode(b"w\xff.txt")).write_bytes(b"a\n" * 12)
    environ = {"PYTHONIOENCODING": encoding}
    table = run("inspect", tmp_path, environ=environ)
    assert (table.returncode, table.stderr) == (0, b"")
    rows = [line.split("\t") for line in table.stdout.decode(encoding).splitlines()[1:]]
    escaped = name.encode(encoding, "backslashreplace").decode(encoding)
    assert [row[0] for row in rows] == [escaped, r"w\xff.txt"]
    assert rows[1][10] == r"assets/w\xff.txt: whole lines"
    document = json.loads(run("inspect", tmp_path, "--format", "json", environ=environ).stdout)
    assert [found["name"] for found in document["vocabularies"]] == [name, r"w\xff.txt"]
    extracted = run("extract", tmp_path, "--name", name, environ=environ)
    assert (extracted.returncode, extracted.stderr) == (0, b"")
    assert extracted.stdout.decode().split("\n")[:-1] == words
    wrong = run("extract", tmp_path, "--name", "\N{SNOWMAN}?", environ=environ)
    assert (wrong.returncode, wrong.stdout) == (3, b"")
    assert b"Traceback" not in wrong.stderr


def test_a_model_whose_path_is_not_utf8(model: Path) -> None:
    """A path of any bytes is shown escaped."""
    strange = model.rename(model.parent / os.fsdecode(b"m\xff"))
    document = json.loads(run("inspect", strange, "--format", "json").stdout)
    assert document["model"].endswith("/m\udcff")
    assert run("inspect", strange).returncode == 0


def test_a_name_too_long() -> None:
    """What the system refuses to open is bad input."""
    done = run("inspect", "a" * 5000)
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.endswith(b"aaa: File name too long\n")
    with pytest.raises(vocabtool.NotFound, match="File name too long"):
        vocabtool.vocabularies("a" * 5000)


def test_no_way_to_speak(model: Path) -> None:
    """Where even standard error is full, or standard output closed, the exit code says so."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "inspect", "nowhere"], stderr=full, cwd=ROOT)
        assert done.returncode == 3
    shell = ['exec "$@" >&-', "sh", *COMMAND, "inspect", str(model)]
    closed = subprocess.run(["sh", "-c", *shell], stderr=subprocess.PIPE, cwd=ROOT)
    assert closed.returncode == 3
    assert closed.stderr == b"vocabtool: error: standard output is closed\n"


@pytest.mark.parametrize(
    "command", [["extract"], ["inspect"], ["oov", "-"], ["oov", "-", "--mask", "known"]]
)
def test_a_full_disk(command: list[str]) -> None:
    """Output that cannot be written is an error, and nothing is said of success."""
    name, *others = command
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, name, "data/sentence_encoder", *others],
            input=b"a word\n",
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
    assert done.returncode == 3
    assert done.stderr.endswith(b"vocabtool: error: [Errno 28] No space left on device\n")
    assert b"Traceback" not in done.stderr


def test_a_terminal_gets_a_table(model: Path) -> None:
    """On a terminal inspect draws a table, and no control character of the model gets there."""
    text = on_terminal(ROOT, "inspect", str(model))
    assert "words   table      5   0..4   -1        the naïve a\\nb … ''" in text
    assert text.endswith(
        "words\n"
        "  saved_model.pb: graph/words, fills hash_table\n"
        f"  sha256 {SHA256}\n"
        "  1 entries are not UTF-8\n"
    )


@pytest.mark.parametrize("command", [["extract"], ["oov", "missing"]])
def test_parquet_is_not_for_terminals(command: list[str], model: Path) -> None:
    """Parquet on a terminal is refused as usage, before anything is read."""
    name, *others = command
    shown = on_terminal(ROOT, name, str(model), *others, "--format", "parquet", code=2)
    assert "parquet cannot be shown on a terminal; name a file with -o FILE" in shown


def test_version_and_help() -> None:
    """`python -m vocabtool` is the same command; --help lists the commands."""
    command = [sys.executable, "-m", "vocabtool", "--version"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == run("--version").stdout
    assert done.stdout.decode() == f"vocabtool, version {vocabtool.__version__}\n"
    told = " ".join(run("--help").stdout.decode().split())
    assert "oov Report which words in FILE... are unknown to MODEL. search" in told
    assert "Find the best weight of keyword search for the index in DIR, and store it." in told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """The script that a shell reads; docs/how-to/shell-completion.md says where to put it."""
    done = run(environ={"_VOCABTOOL_COMPLETE": f"{shell}_source"})
    assert done.returncode == 0
    assert b"_VOCABTOOL_COMPLETE" in done.stdout


def test_help_does_not_load_numpy() -> None:
    """What `--help` shows is there at once."""
    code = "import sys, vocabtool.cli.main; print({'numpy', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == b"set()\n"


def test_the_same_input_gives_the_same_bytes(model: Path) -> None:
    """Output is stable."""
    for arguments in (["inspect", str(model)], ["extract", str(model), "--format", "parquet"]):
        assert run(*arguments).stdout == run(*arguments).stdout


def test_a_name_behind_the_path(model: Path) -> None:
    """``MODEL#NAME`` is what ``--name`` says, for inspect too; both together are wrong usage."""
    named = f"{model}#labels"
    assert run("extract", named).stdout == b"yes\nno\n"
    rows = run("inspect", named).stdout.decode().splitlines()
    assert [row.split("\t")[0] for row in rows] == ["name", "labels"]
    shown = json.loads(run("inspect", named, "--format", "json").stdout)
    assert [found["name"] for found in shown["vocabularies"]] == ["labels"]
    for command in ("inspect", "extract"):
        done = run(command, f"{model}#nothing")
        assert (done.returncode, done.stdout) == (3, b"")
        assert "no vocabulary named 'nothing'" in done.stderr.decode()
    done = run("extract", named, "--name", "labels")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "pass either --name or MODEL#NAME, not both" in done.stderr.decode()
