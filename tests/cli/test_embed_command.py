"""``vocabtool embed`` as a user meets it: reports, exit codes, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, environment, errors, output, run_on_terminal, told
from tests.cli.test_index_commands import MODEL as GLOVE
from tests.counted_letters import write_corpus

MODEL = ("--model", "python:tests.counted_letters:encode")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """100 documents."""
    path = tmp_path / "corpus.jsonl"
    write_corpus(path, 100)
    return path


def test_the_report(corpus: Path, tmp_path: Path) -> None:
    """What was done, then that nothing is left to do."""
    out = tmp_path / "out"
    command = ("embed", corpus, *MODEL, "-o", out, "--shard-rows", "30")
    whole, done = output(*command).splitlines()
    assert whole == f"{out}: 100 documents in 4 shards"
    assert "--field FIELD  " in output("embed", "--help")
    assert done.startswith("  done now    100 documents in ")
    assert output(*command).splitlines() == [
        whole,
        "  done now    nothing: all shards exist already",
        "  resumed     4 shards existed already",
    ]
    assert json.loads(output(*command, "--format", "json"))["documents"] == 100


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((*MODEL, "-o", "out", "--keep", "vector"), 2, "keep: the name 'vector' is reserved"),
        (("--model", "nowhere", "-o", "out"), 3, "nowhere"),
        ((*MODEL, "-o", "out", "--field", "body"), 3, "corpus.jsonl:1: no field 'body'"),
        ((*MODEL, "-o", "out", "--field", "a", "--field", "a"), 2, "field"),
        ((*MODEL, "-o", "out", "--field", "a^2", "--field", "b"), 2, "use 'a' instead of 'a^2'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told(
    options: tuple[str, ...], code: int, message: str, corpus: Path, tmp_path: Path
) -> None:
    """On standard error, without a traceback."""
    places = [str(tmp_path / "out") if option == "out" else option for option in options]
    assert message in errors("embed", corpus, *places, code=code)


TIME = r"\d:\d\d:\d\d"  # elapsed, or remaining
TAIL = "The models that people use read words, and some of the words are not known to them at all"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of 30 documents of three sentences."""
    folder = tmp_path_factory.mktemp("judged")
    rows = [{"id": f"d{n}", "text": f"I love word{n}. It is number {n}. {TAIL}"} for n in range(30)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output("index", "docs.jsonl", "--model", GLOVE, "--id-field", "id", "-o", "made", cwd=folder)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        f"embed docs.jsonl --model {GLOVE} -o {{new}}",
        f"index docs.jsonl --model {GLOVE} -o {{new}}",
        f"oov {GLOVE} docs.jsonl --rule keras -o {{new}}.txt",
    ],
)
def test_a_file_gets_lines_of_progress(
    judged: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One every ten seconds, which are none here."""
    monkeypatch.setattr("vocabtool.cli.output.LINE_SECONDS", 0.0)
    arguments = command.format(new=tmp_path / "new").split()
    _, messages = told(*arguments, cwd=judged)
    lines = [line for line in messages.splitlines() if "30 documents, " in line]
    assert re.match(r"vocabtool: 30 documents, [\d.,]+/s(, .*)?$", lines[0]), messages


@pytest.mark.parametrize(
    ("command", "step"),
    [
        (
            f"embed docs.jsonl --model {GLOVE} -o {{new}}",
            "30 documents, .*/s, .*% of words unknown",
        ),
        (f"oov {GLOVE} docs.jsonl --rule keras", "30 documents"),
        (f"index docs.jsonl --model {GLOVE} -o {{new}} --calibrate", "queries searched"),
        ("eval made --self-check", "fusions compared"),
    ],
)
def test_a_terminal_shows_progress_and_the_remaining_time(
    judged: Path, tmp_path: Path, command: str, step: str
) -> None:
    """Wherever the size is known. The line disappears at the end."""
    line = [*COMMAND, *command.format(new=tmp_path / "new").split()]
    code, shown, _ = run_on_terminal(line, judged, environment(), "stderr")
    assert code == 0, shown
    assert re.search(f"━{{30,40}} {step}[^\n]* {TIME} {TIME}", shown), shown
