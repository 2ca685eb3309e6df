"""The command line as a user meets it: whole outputs, both streams, exit codes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

import vocabtool
from tests.builders import saved_model_bytes as b
from tests.conftest import ROOT

if TYPE_CHECKING:
    pass

WORDS = (b"the", b"na\xc3\xafve", b"a\nb", b"\xff\xfe", b"")
SHA256 = hashlib.sha256(b"\n".join(WORDS)).hexdigest()


def run(
    *arguments: str | Path, cwd: Path = ROOT, environ: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tests.plain_command", *map(str, arguments)]
    environ = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"} | dict(environ)
    return subprocess.run(command, capture_output=True, cwd=cwd, env=environ)


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
    done = run("inspect", model, "--all")
    lines = done.stdout.decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["name", "words", "labels"]
    assert run("inspect", model).stdout.decode().count("labels") == 0


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
        "names\t12\tnames for saving and restoring\tsaved_model.pb: graph/names\n"
    )
    assert done.stderr.decode() == (
        f"vocabtool: {tmp_path}: no vocabulary found (SavedModel; 1 lists passed over)\n"
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
        "vocabtool: 2 entries do not fit on a line and are backslash-escaped",
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
    """What json and parquet hold is the vocabulary."""
    file = tmp_path / f"words.{output}"
    assert run("extract", model, "--format", output, "-o", file).returncode == 0
    assert vocabtool.read(file) == vocabtool.extract(model)


def test_the_ending_of_the_file_tells_the_format(model: Path, tmp_path: Path) -> None:
    """Without --format, -o words.json writes JSON."""
    file = tmp_path / "words.json"
    assert run("extract", model, "-o", file).returncode == 0
    assert json.loads(file.read_bytes())["name"] == "words"


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
        "vocabtool: ids are 2..5, uneven: text does not hold them, json does"
    )


def test_extract_by_name(model: Path) -> None:
    """--name takes any vocabulary that inspect --all lists."""
    done = run("extract", model, "--name", "labels")
    assert (done.stdout, done.stderr) == (b"yes\nno\n", b"")


def test_extract_nearly_the_right_name(model: Path) -> None:
    """A part of a name, or a misspelling of it, is answered with the whole name."""
    for name in ("ord", "WORDS", "wrods"):
        done = run("extract", model, "--name", name)
        assert done.returncode == 3
        assert "did you mean words?" in done.stderr.decode()


def test_extract_wrong_name(model: Path) -> None:
    """A wrong name exits with 3 and names the right ones."""
    done = run("extract", model, "--name", "nothing")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.decode() == (
        f"vocabtool: error: {model}: no vocabulary named 'nothing'. It holds:\n  words\n  labels\n"
    )


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
        (["inspect", "nowhere"], 3, "vocabtool: error: nowhere: no such file or folder"),
        (["extract", "README.md"], 3, "vocabtool: error: README.md: "),
        (["extract", "data/sentence_encoder", "-o", "no/such/f"], 3, "such: no such folder to"),
        (["extract", "data/sentence_encoder", "-o", ""], 2, "-o wants the name of a file"),
        (
            ["extract", "data/sentence_encoder", "-o", "words.foo"],
            2,
            "-o wants a file that ends in .json, .csv, .parquet or .txt, or --format",
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


def test_no_vocabulary_exits_with_3(tmp_path: Path) -> None:
    """Nothing to extract is bad input, and says what was looked at."""
    graph = b.graph(b.node(b"x", b"Placeholder"))
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(graph))
    done = run("extract", tmp_path)
    assert done.returncode == 3
    assert b"no vocabulary found (SavedModel; 0 lists passed over)" in done.stderr


def test_a_reader_that_stops(model: Path) -> None:
    """`extract | head -1` ends quietly."""
    command = [sys.executable, "-c", "from vocabtool.cli.main import main; main()"]
    process = subprocess.Popen(
        [*command, "extract", "data/sentence_encoder"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate()
    assert errors == b""


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
    command = [sys.executable, "-c", "from vocabtool.cli.main import main; main()"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*command, "inspect", "nowhere"], stderr=full, cwd=ROOT)
        assert done.returncode == 3
    shell = ['exec "$@" >&-', "sh", *command, "inspect", str(model)]
    closed = subprocess.run(["sh", "-c", *shell], stderr=subprocess.PIPE, cwd=ROOT)
    assert closed.returncode == 3
    assert closed.stderr == b"vocabtool: error: there is no standard output\n"


def test_a_full_disk(model: Path) -> None:
    """Output that cannot be written is an error, and nothing is said of success."""
    for arguments in (["extract", str(model)], ["inspect", str(model)]):
        code = "from vocabtool.cli.main import main; main()"
        with Path("/dev/full").open("wb") as full:
            command = [sys.executable, "-c", code, *arguments]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=ROOT)
        assert done.returncode == 3
        assert done.stderr.decode() == ("vocabtool: error: [Errno 28] No space left on device\n")


def test_a_terminal_gets_a_table(model: Path) -> None:
    """On a terminal inspect draws a table, and no control character of the model gets there."""
    outer, inner = pty.openpty()
    code = "from vocabtool.cli.main import main; main()"
    command = [sys.executable, "-c", code, "inspect", str(model)]
    environ = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=inner, env=environ):
        os.close(inner)
        shown = b""
        while piece := _read(outer):
            shown += piece
    os.close(outer)
    text = shown.decode().replace("\r\n", "\n")
    assert "words   table      5   0..4   -1        the naïve a\\nb … ''" in text
    assert text.endswith(
        "words\n"
        "  saved_model.pb: graph/words, fills hash_table\n"
        f"  sha256 {SHA256}\n"
        "  1 entries are not UTF-8\n"
    )


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_parquet_is_not_for_terminals(model: Path) -> None:
    """Parquet on a terminal is refused as usage."""
    outer, inner = pty.openpty()
    code = "from vocabtool.cli.main import main; main()"
    command = [sys.executable, "-c", code, "extract", str(model), "--format", "parquet"]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stdout=inner, stderr=subprocess.PIPE, env=environ)
    os.close(inner)
    os.close(outer)
    assert done.returncode == 2
    assert b"parquet is not for a terminal" in done.stderr


def test_module() -> None:
    """`python -m vocabtool` is the same command."""
    command = [sys.executable, "-m", "vocabtool", "--version"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == run("--version").stdout


def test_version() -> None:
    """--version prints the version of the package."""
    assert run("--version").stdout.decode() == f"vocabtool, version {vocabtool.__version__}\n"


def test_help_names_every_command() -> None:
    """--help lists the commands, and each explains its options."""
    shown = run("--help").stdout.decode()
    assert "inspect" in shown
    assert "extract" in shown
    told = " ".join(shown.split())
    assert "oov Report which words of FILE... MODEL does not know. search" in told
    assert "Find how much the keyword leg of the index in DIR weighs, and keep it there." in told
    assert "--name" in run("extract", "--help").stdout.decode()
    assert "--all" in run("inspect", "--help").stdout.decode()


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
    assert "--name is the name of a vocabulary, and so is what follows #" in done.stderr.decode()
