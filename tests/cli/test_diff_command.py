"""``diff`` as a user meets it: outputs counted by hand, exit codes, streams."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.running import errors, on_terminal, output, told

FILES = {
    "one": "the\nof\nParis\n287.9\ncat\nlove\n",
    "two": "of\nthe\nparis\ndog\n",
    "corpus": "The cat.\nA dog, the dog\n",
}
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
DIFF = ("diff", "one.txt", "two.txt")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two lists of words and a corpus."""
    folder = tmp_path_factory.mktemp("here")
    for name, text in FILES.items():
        (folder / f"{name}.txt").write_text(text, "utf-8")
    return folder


def diff(here: Path, *arguments: str | Path) -> str:
    """What ``diff one.txt two.txt`` prints, when all is well."""
    return output(*DIFF, *arguments, cwd=here)


def test_rows_for_programs(here: Path) -> None:
    """Where no terminal is, complete lists; the summary is said beside."""
    summary = "vocabtool: 2 entries common, 4 only in one.txt, 2 only in two.txt\n"
    assert told(*DIFF, cwd=here) == (ROWS, summary)


def test_limits(here: Path) -> None:
    """``--limit`` holds for each list, in any format and on a terminal."""
    assert diff(here, "--limit", "1").splitlines()[1:] == [ROWS.splitlines()[i] for i in (1, 3, 7)]
    lists = json.loads(diff(here, "--limit", "0", "--format", "json"))["entries"]
    assert lists == {"common": [], "only_a": [], "only_b": []}
    shown = on_terminal(here, *DIFF, "--limit", "1")
    assert "cat" in shown
    assert "love" not in shown


def test_one_list_alone(here: Path, tmp_path: Path) -> None:
    """``--only`` gives the list of one part, in every format that is a list, on a terminal too."""
    heading, *every = ROWS.splitlines()
    parts = {"both": every[:2], "a": every[2:6], "b": every[6:]}
    for only, rows in parts.items():
        assert diff(here, "--only", only).splitlines() == [heading, *rows]
    only, rows = "a", parts["a"]
    tokens = [row.split("\t")[0] for row in rows]
    assert diff(here, "--only", only, "--limit", "1").splitlines() == [heading, rows[0]]
    shown = diff(here, "--only", only, "--format", "csv")
    assert [row["token"] for row in csv.DictReader(io.StringIO(shown, newline=""))] == tokens
    diff(here, "--only", only, "-o", tmp_path / "one.parquet")
    assert pq.read_table(tmp_path / "one.parquet")["token"].to_pylist() == tokens
    terminal = on_terminal(here, *DIFF, "--only", only)
    assert "Jaccard" not in terminal
    assert [token for token in tokens if token not in terminal] == []


def test_folds_and_use(here: Path) -> None:
    """Folds in any order. CSV holds entries only: what the corpus says of them is told beside."""
    document = json.loads(diff(here, "--fold", "nfkc, case", "--format", "json"))
    assert (document["fold"], document["common"]) == (["case", "nfkc"], 3)
    corpus = ("--corpus", "corpus.txt", "--corpus", "corpus.txt")
    assert (
        "vocabtool: 12 tokens; known tokens: A 50.00%, B 66.67%, both 33.33%, neither 16.67% "
        "(rule for both: keras)\n"
    ) in told(*DIFF, *corpus, "--rule", "keras", "--format", "csv", cwd=here)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("diff one.txt two.txt --rule lower", 2, "need --corpus"),
        ("diff one.txt two.txt --corpus x --rule kera", 2, "Did you mean keras?"),
        ("diff one.txt two.txt --fold case,stem", 2, "case, nfkc, got 'stem'"),
        ("diff one.txt two.txt --only a --format json", 2, "not with json and --html"),
        ("diff missing two.txt", 3, "missing"),
        ("diff one.txt two.txt --corpus missing", 3, "missing"),
        ("diff one.txt two.txt --corpus x --rule tokenizer:x", 3, "must make words"),
    ],
)
def test_errors(arguments: str, code: int, message: str, here: Path) -> None:
    """Wrong usage exits with 2, bad input with 3; each says what was wanted."""
    assert message in " ".join(errors(*arguments.split(), code=code, cwd=here).split())


def test_what_the_files_say_of_themselves_is_told(here: Path, tmp_path: Path) -> None:
    """What could not be read, and which of several was taken: beside the output and inside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.txt").write_text("[UNK]\nthe\n##s\n", "utf-8")
    (folder / "words.vec").write_bytes(b"to 0.25 0.5\nof 0.5 0.25\n")
    (folder / "broken.onnx.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\xff" * 64)
    shown, messages = told("diff", "one.txt", folder, "--format", "json", cwd=here)
    incomplete, taken, _ = messages.removeprefix("vocabtool: ").split("\nvocabtool: ")
    assert incomplete.startswith(f"{folder}: incomplete: broken.onnx.tflite")
    assert taken.startswith(f"{folder}: using vocab.txt, one of 2 vocabularies")
    assert json.loads(shown)["notes"][:2] == [incomplete, taken]
    message = told("diff", f"{folder}#words", "one.txt", cwd=here)[1]
    assert message.startswith(f"vocabtool: {incomplete}\n")
