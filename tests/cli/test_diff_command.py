"""``diff`` as a user meets it: outputs counted by hand, exit codes, streams."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.running import on_terminal, run

ONE = "the\nof\nParis\n287.9\ncat\nlove\n"
TWO = "of\nthe\nparis\ndog\n"
CORPUS = "The cat.\nA dog, the dog\n"
ROWS = """\
token\tid_a\tid_b\tkind_a\tkind_b
the\t0\t1\tword\tword
of\t1\t0\tword\tword
Paris\t2\t\tcapitalised\t
287.9\t3\t\tnumber\t
cat\t4\t\tword\t
love\t5\t\tword\t
paris\t\t2\t\tword
dog\t\t3\t\tword
"""
SUMMARY = "vocabtool: 2 entries common, 4 only in one.txt, 2 only in two.txt\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two lists of words and a corpus."""
    folder = tmp_path_factory.mktemp("here")
    for name, text in (("one", ONE), ("two", TWO), ("corpus", CORPUS)):
        (folder / f"{name}.txt").write_text(text, "utf-8")
    return folder


def diff(here: Path, *arguments: str | Path) -> str:
    """What ``diff one.txt two.txt`` prints, when all is well."""
    done = run("diff", "one.txt", "two.txt", *arguments, cwd=here)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_rows_for_programs(here: Path) -> None:
    """Where no terminal is, complete lists; the summary is said beside."""
    done = run("diff", "one.txt", "two.txt", cwd=here)
    assert (done.returncode, done.stdout.decode()) == (0, ROWS)
    assert done.stderr.decode() == SUMMARY


def test_a_terminal_gets_tables(here: Path) -> None:
    """Overlap, kinds, samples, use: what is asked in one command."""
    shown = on_terminal(here, "diff", "one.txt", "two.txt", "--corpus", "corpus.txt")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert {"A one.txt: 6 entries", "common 2 33.33% 50.00%", "B 4 66.67%"} <= set(lines)
    assert {"only B 2 33.33%", "dog 2"} <= set(lines)
    assert "vocabtool:" not in shown


def test_limits(here: Path) -> None:
    """``--limit`` holds for each list, in any format and on a terminal."""
    assert diff(here, "--limit", "1").splitlines()[1:] == [ROWS.splitlines()[i] for i in (1, 3, 7)]
    lists = json.loads(diff(here, "--limit", "0", "--format", "json"))["entries"]
    assert lists == {"common": [], "only_a": [], "only_b": []}
    shown = on_terminal(here, "diff", "one.txt", "two.txt", "--limit", "1")
    assert "cat" in shown
    assert "love" not in shown


@pytest.mark.parametrize(("only", "lines"), [("both", (1, 3)), ("a", (3, 7)), ("b", (7, 9))])
def test_one_list_alone(only: str, lines: tuple[int, int], here: Path, tmp_path: Path) -> None:
    """``--only`` gives the list of one part, in every format that is a list, on a terminal too."""
    heading, *rows = ROWS.splitlines()
    rows = rows[lines[0] - 1 : lines[1] - 1]
    tokens = [row.split("\t")[0] for row in rows]
    assert diff(here, "--only", only).splitlines() == [heading, *rows]
    assert diff(here, "--only", only, "--limit", "1").splitlines() == [heading, rows[0]]
    shown = diff(here, "--only", only, "--format", "csv")
    assert [row["token"] for row in csv.DictReader(io.StringIO(shown, newline=""))] == tokens
    diff(here, "--only", only, "-o", tmp_path / "one.parquet")
    assert pq.read_table(tmp_path / "one.parquet")["token"].to_pylist() == tokens
    diff(here, "--only", only, "-o", tmp_path / "one.txt")
    assert (tmp_path / "one.txt").read_text("utf-8").splitlines() == [heading, *rows]
    terminal = on_terminal(here, "diff", "one.txt", "two.txt", "--only", only)
    assert "Jaccard" not in terminal
    assert [token for token in tokens if token not in terminal] == []


def test_folds(here: Path) -> None:
    """Applied when they are named, in any order; another name is wrong usage."""
    document = json.loads(diff(here, "--fold", "markers, case", "--format", "json"))
    assert (document["fold"], document["common"]) == (["case", "markers"], 3)
    done = run("diff", "one.txt", "two.txt", "--fold", "case,stem", cwd=here)
    assert done.returncode == 2
    assert b"case, nfkc, markers, got 'stem'" in done.stderr


def test_use_is_told_beside_rows(here: Path) -> None:
    """CSV holds entries only: what the corpus says of them stands on standard error."""
    done = run(
        *("diff", "one.txt", "two.txt", "--corpus", "corpus.txt", "--corpus", "corpus.txt"),
        *("--rule", "keras", "--format", "csv"),
        cwd=here,
    )
    assert (
        "vocabtool: 12 tokens; known tokens: A 50.00%, B 66.67%, both 33.33%, neither 16.67% "
        "(rule for both: keras)\n"
    ) in done.stderr.decode()


def test_files_are_written(here: Path, tmp_path: Path) -> None:
    """By the ending or the format, and a page beside."""
    page = tmp_path / "diff.html"
    assert diff(here, "-o", tmp_path / "diff.parquet", "--html", page) == ""
    assert pq.read_table(tmp_path / "diff.parquet").num_rows == 8
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    diff(here, "-o", tmp_path / "diff.txt")
    assert "Jaccard index 0.2500" in (tmp_path / "diff.txt").read_text("utf-8")
    diff(here, "-o", tmp_path / "other", "--format", "json")
    assert json.loads((tmp_path / "other").read_text("utf-8"))["common"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one.txt"], "Missing argument 'B'"),
        (["one.txt", "two.txt", "one.txt"], "unexpected extra argument (one.txt)"),
        (["one.txt", "two.txt", "--rule", "lower"], "need --corpus"),
        (["one.txt", "two.txt", "--corpus", "x", "--rule", "kera"], "Did you mean keras?"),
        (["one.txt", "two.txt", "-o", "diff.xml"], "-o diff.xml: expected a file that ends in"),
        (["one.txt", "two.txt", "--only", "a", "--format", "json"], "not with json and --html"),
        (["one.txt", "two.txt", "--only", "a", "-o", "diff.json"], "not with json and --html"),
        (["one.txt", "two.txt", "--only", "a", "--html", "diff.html"], "not with json and --html"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, here: Path) -> None:
    """Wrong usage exits with 2 and says what was wanted."""
    done = run("diff", *arguments, cwd=here)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in " ".join(done.stderr.decode().split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing", "two.txt"], "missing"),
        (["one.txt", "two.txt#nothing"], "nothing"),
        (["one.txt", "two.txt", "--corpus", "missing"], "missing"),
        (["one.txt", "two.txt", "--corpus", "x", "--rule", "tokenizer:x"], "must make words"),
        (["one.txt", "two.txt", "--html", "no/such/page.html"], "the folder does not exist"),
    ],
)
def test_bad_input(arguments: list[str], message: str, here: Path) -> None:
    """Bad input exits with 3 and names what it is; nothing is printed."""
    done = run("diff", *arguments, cwd=here)
    assert (done.returncode, done.stdout) == (3, b"")
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_what_the_files_say_of_themselves_is_told(here: Path, tmp_path: Path) -> None:
    """What could not be read, and which of several was taken: beside the output and inside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.txt").write_text("[UNK]\nthe\n##s\n", "utf-8")
    (folder / "words.vec").write_bytes(b"to 0.25 0.5\nof 0.5 0.25\n")
    (folder / "broken.onnx.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\xff" * 64)
    done = run("diff", "one.txt", str(folder), "--format", "json", cwd=here)
    told = [line.removeprefix("vocabtool: ") for line in done.stderr.decode().splitlines()]
    incomplete, taken, _ = told
    assert incomplete.startswith(f"{folder}: incomplete: broken.onnx.tflite")
    assert taken.startswith(f"{folder}: using vocab.txt, one of 2 vocabularies")
    assert json.loads(done.stdout)["notes"][:2] == [incomplete, taken]
    done = run("diff", f"{folder}#words", "one.txt", cwd=here)
    assert done.stderr.decode().startswith(f"vocabtool: {incomplete}\n")
