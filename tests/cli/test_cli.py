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
from tests.cli.running import COMMAND, errors, on_terminal, output, run, told
from tests.conftest import ROOT

WORDS = (b"the", b"na\xc3\xafve", b"a\nb", b"\xff\xfe", b"")
SHA256 = hashlib.sha256(b"\n".join(WORDS)).hexdigest()
HEADINGS = "name kind size ids unknown entries specials duplicates not_utf8 sha256 where notes"


def save(folder: Path, *nodes: bytes) -> Path:
    """A SavedModel of these nodes."""
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(b.saved_model(b.graph(*nodes)))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A table of five awkward words, and a constant of two strings."""
    small = b.const(b"labels", b.string_tensor([b"yes", b"no"]))
    return save(tmp_path / "model", *b.table_nodes(WORDS), small)


def test_inspect_table_for_programs(model: Path) -> None:
    """Where no terminal is, tab-separated columns; --all takes small constants too."""
    table = (
        "\t".join(HEADINGS.split()) + "\n"
        f"words\ttable\t5\t0..4\t-1\tthe naïve a\\nb … ''\t\t0\t1\t{SHA256}\t"
        "saved_model.pb: graph/words, fills hash_table\t\n"
    )
    assert told("inspect", model) == (table, "")
    lines = output("inspect", model, "--all").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["name", "words", "labels"]


def test_inspect_says_what_was_passed_over(tmp_path: Path) -> None:
    """A model without a vocabulary is answered with what was looked at."""
    names = b.const(b"names", b.string_tensor([b"v%d" % i for i in range(12)]))
    save(tmp_path, names, b.node(b"save", b"SaveV2", b"prefix", b"names", b"slices"))
    assert "--all" in told("inspect", tmp_path)[1]
    table, message = told("inspect", tmp_path, "--all")
    assert table.endswith(
        "\n\npassed over\tsize\twhy\twhere\n"
        "names\t12\ttensor names for saving and restoring\tsaved_model.pb: graph/names\n"
    )
    assert message == f"vocabtool: {tmp_path}: no vocabulary found (SavedModel; 1 lists skipped)\n"


def test_inspect_json(model: Path) -> None:
    """The JSON of inspect, whole."""
    assert json.loads(output("inspect", model, "--format", "json")) == {
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


def test_extract(model: Path, tmp_path: Path) -> None:
    """One entry a line; those that a line cannot hold are escaped, and counted."""
    text, messages = told("extract", model)
    assert text == "the\nnaïve\na\\nb\n\\xff\\xfe\n\n"
    assert messages.splitlines() == [
        "vocabtool: words: 5 entries (table)",
        "vocabtool: 2 entries written with backslash escapes, because of line breaks or "
        "invalid UTF-8",
    ]
    document = json.loads(output("extract", model, "--format", "json"))  # loses nothing
    assert document["tokens"] == ["the", "naïve", "a\nb", "\\xff\\xfe", ""]
    assert document["base64"] == {"3": base64.b64encode(b"\xff\xfe").decode()}
    output("extract", model, "-o", tmp_path / "words.parquet")
    assert vocabtool.read(tmp_path / "words.parquet") == vocabtool.extract(model)


def test_text_says_that_it_holds_no_ids(tmp_path: Path) -> None:
    """Where line numbers are not the ids, extract says so."""
    save(
        tmp_path,
        b.const(b"words", b.string_tensor([b"the", b"fox"])),
        b.const(b"ids", b.int64_tensor([2, 5])),
        b.node(b"hash_table", b"HashTableV2"),
        b.node(b"fill", b"LookupTableImportV2", b"hash_table", b"words", b"ids"),
    )
    assert told("extract", tmp_path)[1].splitlines()[-1] == (
        "vocabtool: --format text omits the ids (2..5, uneven); use --format json to write them"
    )


def test_a_name_selects_a_vocabulary(model: Path) -> None:
    """``MODEL#NAME`` in each command; a wrong name is told."""
    named = f"{model}#labels"
    assert output("extract", named) == "yes\nno\n"
    rows = output("inspect", named).splitlines()
    assert [row.split("\t")[0] for row in rows] == ["name", "labels"]
    assert errors("extract", f"{model}#nothing") == (
        f"vocabtool: error: {model}: no vocabulary named 'nothing'. "
        "Available vocabularies:\n  words\n  labels\n"
    )
    assert "did you mean words?" in errors("extract", f"{model}#wrods")
    assert "no vocabulary named 'nothing'" in errors("inspect", f"{model}#nothing")


def test_incomplete_is_said(tmp_path: Path) -> None:
    """What could not be read is said on standard error, and in the JSON."""
    bomb = b.number(1, b.STRING) + b.field(2, b.shape(1 << 40)) + b.field(8, b"boom")
    save(tmp_path, *b.table_nodes(WORDS), b.const(b"bomb", bomb))
    text, messages = told("inspect", tmp_path, "--format", "json")
    assert messages.startswith("vocabtool: incomplete: constant graph/bomb: ")
    document = json.loads(text)
    assert document["complete"] is False
    assert document["warnings"][0].startswith("constant graph/bomb: ")


ENCODER = "data/sentence_encoder"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspect"], 2, "Missing argument 'MODEL'"),
        (["extrct"], 2, "No such command 'extrct'. Did you mean 'extract' or 'export'?"),
        (["extract", "--fromat", "x"], 2, "Did you mean '--format'?"),
        (["inspect", "nowhere"], 3, "vocabtool: error: nowhere: no such file or folder"),
        (["extract", ENCODER, "-o", "no/such/f"], 3, "such: the folder does not exist"),
        (["extract", ENCODER, "-o", ""], 2, "-o needs the name of a file"),
        (["extract", ENCODER, "-o", "words.foo"], 2, "expected a file that ends in .json, .csv"),
    ],
)
def test_errors(arguments: list[str], code: int, message: str) -> None:
    """Usage exits with 2, bad input with 3, both without a traceback."""
    assert message in errors(*arguments, code=code)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_other_encodings(encoding: str, tmp_path: Path) -> None:
    """Reports are UTF-8 everywhere; messages escape what the stream's encoding lacks."""
    name = "wörter→\N{SNOWMAN}"
    words = ["\N{SNOWMAN}", *map(str, range(12))]
    save(tmp_path, b.const(name.encode(), b.string_tensor([word.encode() for word in words])))
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / os.fsdecode(b"w\xff.txt")).write_bytes(b"a\n" * 12)
    environ = {"PYTHONIOENCODING": encoding}
    table = run("inspect", tmp_path, environ=environ)
    assert (table.returncode, table.stderr) == (0, b"")
    rows = [line.split("\t") for line in table.stdout.decode().splitlines()[1:]]
    assert [row[0] for row in rows] == [name, r"w\xff.txt"]
    assert rows[1][10] == r"assets/w\xff.txt: whole lines"
    document = json.loads(output("inspect", tmp_path, "--format", "json", environ=environ))
    assert [entry["name"] for entry in document["vocabularies"]] == [name, r"w\xff.txt"]
    extracted = output("extract", f"{tmp_path}#{name}", environ=environ)
    assert extracted.split("\n")[:-1] == words
    wrong = run("extract", f"{tmp_path}#\N{SNOWMAN}?", environ=environ)
    assert (wrong.returncode, wrong.stdout) == (3, b"")
    assert b"Traceback" not in wrong.stderr


def test_a_model_whose_path_is_not_utf8(model: Path) -> None:
    """A path of any bytes is shown escaped."""
    strange = model.rename(model.parent / os.fsdecode(b"m\xff"))
    document = json.loads(output("inspect", strange, "--format", "json"))
    assert document["model"].endswith("/m\udcff")
    output("inspect", strange)


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
    line = [*COMMAND, command[0], ENCODER, *command[1:]]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            line, input=b"a word\n", stdout=full, stderr=subprocess.PIPE, cwd=ROOT
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
    """`python -m vocabtool` is the same command; --help lists the commands, without NumPy."""
    command = [sys.executable, "-m", "vocabtool", "--version"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.decode() == f"vocabtool, version {vocabtool.__version__}\n"
    shown = " ".join(output("--help").split())
    assert "oov Report which words in FILE... are unknown to MODEL. search" in shown
    assert "Find the best weight of keyword search for the index in DIR, and store it." in shown
    code = "import sys, vocabtool.cli.main; print({'numpy', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == b"set()\n"


def test_completion() -> None:
    """The script that a shell reads; docs/how-to/shell-completion.md says where to put it."""
    assert "_VOCABTOOL_COMPLETE" in output(environ={"_VOCABTOOL_COMPLETE": "zsh_source"})
