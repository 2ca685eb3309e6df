"""``vocabtool embed`` as a user meets it: reports, exit codes, what is refused."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, environment, read_terminal
from tests.cli.test_index_commands import vocabtool
from tests.conftest import ROOT
from tests.counted_letters import write_corpus

MODEL = "python:tests.counted_letters:encode"


def run(*arguments: str | Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own. ``path``: a folder of modules that come first."""
    return vocabtool("embed", *map(str, arguments), path=path)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """100 documents."""
    path = tmp_path / "corpus.jsonl"
    write_corpus(path, 100)
    return path


def test_the_report(corpus: Path, tmp_path: Path) -> None:
    """What was done, then that nothing is left to do."""
    out = tmp_path / "out"
    first = run(corpus, "--model", MODEL, "-o", out, "--shard-rows", "30")
    lines = first.stdout.splitlines()
    assert lines[0] == f"{out}: 100 documents in 4 shards"
    assert lines[1].startswith("  done now    100 documents in ")
    assert len(lines) == 2
    again = run(corpus, "--model", MODEL, "-o", out, "--shard-rows", "30")
    assert again.stdout.splitlines() == [
        f"{out}: 100 documents in 4 shards",
        "  done now    nothing: all shards exist already",
        "  resumed     4 shards existed already",
    ]
    assert (first.returncode, again.returncode) == (0, 0)


def test_the_report_as_json(corpus: Path, tmp_path: Path) -> None:
    """For machines, on standard output alone."""
    with corpus.open("a") as file:
        file.write("[]\n")
    options = ("-o", tmp_path / "out", "--on-error", "skip", "--format", "json")
    done = run(corpus, "--model", MODEL, *options)
    told: dict[str, Any] = json.loads(done.stdout)
    assert {name: told[name] for name in ("documents", "encoded", "skipped", "shards")} == {
        "documents": 100,
        "encoded": 100,
        "skipped": 1,
        "shards": 1,
    }
    assert told["first_skipped"][0]["place"] == f"{corpus}:101"


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--model", MODEL), 2, "Missing option '-o'"),
        (
            ("--model", MODEL, "-o", "out", "--keep", "vector"),
            2,
            "keep: the name 'vector' is reserved",
        ),
        (("--model", MODEL, "-o", "out", "--ray-address", "x"), 2, "--ray"),
        (("--model", "nowhere", "-o", "out"), 3, "nowhere"),
        (("--model", "python:no.such:thing", "-o", "out"), 3, "no.such"),
        (("--model", MODEL, "-o", "out", "--field", "body"), 3, "corpus.jsonl:1: no field 'body'"),
        (("--model", MODEL, "-o", "out", "--signature", "x"), 3, "--signature"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told(
    options: tuple[str, ...], code: int, told: str, corpus: Path, tmp_path: Path
) -> None:
    """On standard error, without a traceback."""
    placed = [str(tmp_path / "out") if each == "out" else each for each in options]
    done = run(corpus, *placed)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of 30 documents of three sentences, queries and judgements."""
    folder = tmp_path_factory.mktemp("judged")
    rows = [{"id": f"d{n}", "text": f"I love word{n}. It is number {n}. {TAIL}"} for n in range(30)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.tsv").write_text("".join(f"q{n}\tword{n}\n" for n in range(30)))
    (folder / "qrels.txt").write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(30)))
    command = ["index", "docs.jsonl", "--model", GLOVE, "--id-field", "id", "-o", "made"]
    done = subprocess.run([*COMMAND, *command], cwd=folder, env=environment())
    assert done.returncode == 0
    return folder


GLOVE = str(ROOT / "data" / "small_glove.txt")
TIME = r"\d:\d\d:\d\d"  # elapsed, or remaining
TAIL = "The models that people use read words, and some of the words are not known to them at all"
JUDGEMENTS = "--queries queries.tsv --qrels qrels.txt"


@pytest.mark.parametrize(
    ("command", "step"),
    [
        (f"embed docs.jsonl --model {GLOVE} -o {{new}}", "30 documents"),
        (f"oov {GLOVE} docs.jsonl --rule keras", "30 documents"),
        (f"diff {GLOVE} {GLOVE} --corpus docs.jsonl", "30 documents"),
        (f"index docs.jsonl --model {GLOVE} -o {{new}} --no-calibrate", "30 documents"),
        (f"index docs.jsonl --model {GLOVE} -o {{new}} --calibrate", "queries searched"),
        ("calibrate made --dry-run", "queries searched"),
        (f"calibrate made --dry-run {JUDGEMENTS}", "queries searched"),
        (f"eval made {JUDGEMENTS}", "fusions compared"),
        ("eval made --self-check", "fusions compared"),
    ],
)
def test_a_terminal_shows_progress_and_the_remaining_time(
    judged: Path, tmp_path: Path, command: str, step: str
) -> None:
    """Wherever the size is known. The line disappears at the end."""
    arguments = command.format(new=tmp_path / "new").split()
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=judged,
        stderr=terminal,
        stdout=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        os.close(terminal)
        said = read_terminal(reader).decode()
    assert process.returncode == 0, said
    after = r", [\d,]+/s" if arguments[0] == "embed" else rf"[^\n]* {TIME} {TIME}"
    assert re.search(f"━{{40}} {step}{after}", said), said
