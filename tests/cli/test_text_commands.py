"""``words`` and ``oov`` as a user meets them: outputs counted by hand, exit codes, streams."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders import saved_model_bytes as b
from tests.cli.running import COMMAND, environment, errors, on_terminal, output, run, told

# What a shell starts in the background has SIGINT ignored, and so has all that it starts.
HANDLED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
INTERRUPTIBLE = [*COMMAND[:2], f"{HANDLED}; {COMMAND[2]}"]
PIPE = subprocess.PIPE
WORDS = (b"the", b"cat", b"sat", "naïve".encode(), b"mat")
# 11 tokens: the cat sat. | a dog sat | | the cat, naïve | the cat; of 8 words 4 are unknown.
CORPUS = "The cat sat.\nA dog sat\n\nthe  Cat, naïve\nthe cat\n"
FINGERPRINT = "61098eaec6e8c31bca3960b70f6fea61f7a3811e432e2b9cc652d99c60b8586a"
COUNTED_TOGETHER = 2 << 20  # bytes of text
FIELDS = ("word", "count", "documents", "kind", "like", "example")
ROWS = [
    ("a", 1, 1, "name", None, "A dog sat"),
    ("cat,", 1, 1, "misspelling", "cat", "the  Cat, naïve"),
    ("dog", 1, 1, "other", None, "A dog sat"),
    ("sat.", 1, 1, "misspelling", "sat", "The cat sat."),
]
NOTHING = "\t".join(FIELDS) + "\n"
TABBED = NOTHING + "".join(
    "\t".join("" if cell is None else str(cell) for cell in row) + "\n" for row in ROWS
)


def chain(*between: bytes, words: bytes = b"split:1") -> tuple[bytes, ...]:
    """A table, and a lookup of what ``between`` makes of the placeholder ``text``."""
    find = (b"LookupTableFindV2", b"hash_table", words, b"default")
    return (
        *b.table_nodes(WORDS)[:7],
        b.node(b"text", b"Placeholder"),
        *between,
        b.const(b"default", b.scalar_tensor(-1)),
        b.node(b"find", *find, Tin=b.number(6, b.STRING)),
    )


LOWER_AND_SPLIT = (
    b.node(b"lower", b"StringLower", b"text"),
    b.const(b"sep", b.scalar_tensor(b"")),
    b.node(b"split", b"StringSplitV2", b"lower", b"sep"),
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model`` (lower-case, split), ``ids`` and ``strange`` (no rule), a corpus, bad files."""
    folder = tmp_path_factory.mktemp("here")
    odd = chain(b.node(b"odd", b"StringFormat", b"text"), words=b"odd")
    models = {"model": chain(*LOWER_AND_SPLIT), "ids": b.table_nodes(WORDS)[:7], "strange": odd}
    for name, nodes in models.items():
        (folder / name).mkdir()
        (folder / name / "saved_model.pb").write_bytes(b.saved_model(b.graph(*nodes)))
    (folder / "corpus.txt").write_text(CORPUS, "utf-8")
    for name, begins in {"bad.txt.gz": b"", "bad.parquet": b"PAR1vocabtool", "bad.pb": b""}.items():
        (folder / name).write_bytes(begins + b"\0\xffbad")
    (folder / "cut").mkdir()
    (folder / "cut" / "tokenizer.json").write_bytes(b'{"model')
    return folder


def oov(here: Path, *arguments: str | Path, given: str = "") -> str:
    """What ``oov model`` prints, when all is well."""
    return output("oov", "model", *arguments, cwd=here, given=given)


# What is printed


def test_words_for_programs(here: Path) -> None:
    """The rule, then each text with its words: word, id, verdict."""
    title, how, *lines = output("words", "model", "The Café  sat", "", " ", cwd=here).splitlines()
    assert title == "words: 5 entries; unknown words get id -1"
    assert "its files" in how
    assert "\n".join(lines) == (
        "  1. lower-case A to Z\n"
        "  2. split at whitespace\n"
        f"rule {FINGERPRINT[:16]}\n"
        "\nThe Café  sat\nthe\t0\tknown\ncafé\t\tunknown\nsat\t2\tknown\n"
        "\n''\n(no words)\n"
        "\n' '\n(no words)"
    )


def test_words_json(here: Path) -> None:
    """The same as JSON; a word that is not UTF-8 stands in base64 beside."""
    found = json.loads(output("words", "model", "The ü\udcff", "--format", "json", cwd=here))
    words = found["texts"][0].pop("words")
    assert found == {
        "vocabulary": "words",
        "size": 5,
        "how": "recovered",
        "rule": ["lower-case A to Z", "split at whitespace"],
        "fingerprint": FINGERPRINT,
        "notes": [],
        "others": [],
        "texts": [{"text": "The ü\udcff"}],
    }
    assert [(word["id"], word["known"]) for word in words] == [(0, True), (None, False)]
    assert words[0]["word"] == "the"
    assert "base64" not in words[0]
    assert words[1]["base64"] == base64.b64encode(b"\xc3\xbc\xff").decode()


def test_json(here: Path) -> None:
    """The JSON of oov, whole: what a person counts."""
    found = json.loads(oov(here, "corpus.txt", "--format", "json"))
    assert found.pop("verdict")["next_step"] == "another model"  # 4 of 11 words
    assert found == {
        "model": "model",
        "vocabulary": {"name": "words", "size": 5, "used": 4, "never_used": ["mat"]},
        "rule": {"steps": ["lower-case A to Z", "split at whitespace"], "fingerprint": FINGERPRINT},
        "sources": ["corpus.txt"],
        "documents": {"all": 4, "unknown": 3, "unknown_rate": 3 / 4},
        "tokens": {"all": 11, "unknown": 4, "unknown_rate": 4 / 11},
        "distinct_words": {"all": 8, "unknown": 4, "unknown_rate": 4 / 8},
        "unknown_words": [dict(zip(FIELDS, row, strict=True)) for row in ROWS],
        "unknown_words_listed": 4,
        "unknown_words_in_all": 4,
        "kinds": [
            {"kind": "misspelling", "words": 2, "tokens": 2},
            {"kind": "name", "words": 1, "tokens": 1},
            {"kind": "other", "words": 1, "tokens": 1},
        ],
        "coverage": [
            {"words": 1, "covered": 3 / 11, "known": 3 / 11},  # the
            {"words": 2, "covered": 5 / 11, "known": 5 / 11},  # cat
            {"words": 5, "covered": 8 / 11, "known": 5 / 11},  # a cat, dog: by their bytes
            {"words": 8, "covered": 1.0, "known": 7 / 11},
        ],
        "pieces": None,
        "full": False,
        "notes": [],
        "others": [],
    }


def test_what_is_written_where(here: Path, tmp_path: Path) -> None:
    """The ending of FILE tells the format, if --format does not; a page stands beside the report.

    A file without a format's ending holds the tables that a terminal shows.
    """
    shown = oov(here, "corpus.txt", "--format", "csv")
    rows = [*csv.reader(io.StringIO(shown, newline=""))]
    cells = [[w, "", str(c), str(d), k, like or "", x] for w, c, d, k, like, x in ROWS]
    assert rows == [["word", "base64", *FIELDS[1:]], *cells]
    assert oov(here, "corpus.txt", "-o", tmp_path / "a.json", "--format", "csv") == ""
    assert (tmp_path / "a.json").read_bytes().decode() == shown
    assert oov(here, "corpus.txt", "-o", tmp_path / "a.parquet") == ""
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["word", "bytes", *FIELDS[1:]]
    assert [tuple(row.values()) for row in table.drop(["bytes"]).to_pylist()] == ROWS
    assert table["bytes"].null_count == len(ROWS)
    assert oov(here, "corpus.txt", "--html", tmp_path / "page") == TABBED
    page = (tmp_path / "page").read_text("utf-8")
    for wanted in ("<!DOCTYPE html>", "36.36%", "50.00%", "75.00%", "sat.", FINGERPRINT):
        assert wanted in page
    for file in ("a.html", "a"):
        assert oov(here, "corpus.txt", "-o", tmp_path / file) == ""
    assert (tmp_path / "a.html").read_text("utf-8") == page
    lines = [" ".join(line.split()) for line in (tmp_path / "a").read_text("utf-8").splitlines()]
    assert {"tokens 4 11 36.36%", "distinct words 4 8 50.00%"} <= set(lines)


def test_masks(here: Path, tmp_path: Path) -> None:
    """Of each line its unknown words stay, in their own spelling, or all but these; lines stay."""
    assert oov(here, "corpus.txt", "--mask", "known") == "sat.\nA dog\n\nCat,\n\n"
    masked = "The cat [UNK]\n[UNK] [UNK] sat\n\nthe  [UNK] naïve\nthe cat\n"
    assert oov(here, "corpus.txt", "--mask", "unknown") == masked
    assert oov(here, "corpus.txt", "--mask", "unknown", "-o", tmp_path / "masked") == ""
    assert (tmp_path / "masked").read_text("utf-8") == masked
    # What is known goes through as the bytes that it was, UTF-8 or not; a NUL is no end.
    given = b"the \xff\xfe cat\na\0b mat\n"
    done = run("oov", "model", "-", "--mask", "known", cwd=here, given=given)
    assert done.stdout == b"\xff\xfe\na\0b\n"
    done = run("oov", "model", "-", "--mask", "unknown", cwd=here, given=given)
    assert done.stdout == b"the [UNK] cat\n[UNK] mat\n"


# Where documents come from


def test_standard_input_globs_and_several_files(here: Path, tmp_path: Path) -> None:
    """`-` is standard input, a glob its files in order, and several FILEs are one corpus."""
    assert oov(here, "-", given=CORPUS) == TABBED
    for name in ("b", "a"):
        (tmp_path / f"{name}.txt").write_text(f"the {name}\n")
    assert oov(here, tmp_path / "*.txt", "--mask", "known") == "a\nb\n"
    masked = oov(here, tmp_path / "b.txt", "-", tmp_path / "a.txt", "--mask", "known", given="x")
    assert masked == "b\nx\na\n"
    report = json.loads(oov(here, "corpus.txt", "-", "--format", "json", given="the cat\n"))
    assert report["documents"]["all"] == 5
    assert report["sources"] == ["corpus.txt", "-"]


@pytest.mark.parametrize("extra", [[], ["--mask", "unknown"]])
def test_bad_rows_raise_or_are_skipped(extra: list[str], here: Path, tmp_path: Path) -> None:
    """A row that is no document is named by file and line: it ends the run, or is counted."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"text": "the cat"}\n{"tex": "x"}\nnope\n{"text": "dog"}\n')
    done = run("oov", "model", file, *extra, cwd=here)
    assert done.returncode == 3
    assert f"vocabtool: error: {file}:2: no field 'text'" in done.stderr.decode()
    rows, messages = told("oov", "model", file, *extra, "--on-error", "skip", cwd=here)
    assert "vocabtool: 2 rows skipped" in messages
    assert f"{file}:2: no field 'text'" in messages
    assert f"{file}:3: not JSON" in messages
    assert rows.splitlines()[-1].split("\t")[0] == ("[UNK]" if extra else "dog")


def test_what_is_not_utf8_is_told(here: Path, tmp_path: Path) -> None:
    """How many documents, in the report, on the page, and on standard error."""
    files = [tmp_path / name for name in ("report.json", "page.html")]
    command = ("oov", "model", "-", "-o", files[0], "--html", files[1])
    messages = run(*command, cwd=here, given=b"the cat\nna\xefve\n").stderr.decode()
    (note,) = [text for text in json.loads(files[0].read_bytes())["notes"] if "UTF-8" in text]
    assert note.startswith("1 of 2 documents is not UTF-8")
    assert f"vocabtool: {note}\n" in messages
    assert note in files[1].read_text()
    assert "UTF-8" not in told("oov", "model", "corpus.txt", cwd=here)[1]


def test_one_or_nothing_to_count(here: Path) -> None:
    """One row is no rows. Where there is no word nothing can be said: no threshold passes."""
    options = ("--input-format", "jsonl", "--field", "t", "--on-error", "skip")
    given = '{"t": "the dog"}\n{"a": 1}\n'
    messages = told("oov", "model", "-", *options, cwd=here, given=given)[1]
    assert "vocabtool: 1 row skipped\n" in messages
    assert "vocabtool: 1 of 2 tokens is unknown (50.00%)\n" in messages
    jsonl = ("--input-format", "jsonl")
    assert oov(here, "-", *jsonl, given='"  "') == NOTHING
    empty = ("oov", "model", "-", *jsonl, "--fail-over", "0.5")
    assert told(*empty, code=1, cwd=here, given='"  "')[0] == NOTHING
    assert "no document" in told("oov", "model", "-", code=3, cwd=here, given=" \n\n")[1]


def test_how_each_kind_of_file_is_read_is_told_first(here: Path, tmp_path: Path) -> None:
    """By endings, the most frequent first; also of standard input, and as options say."""
    for name in ("a.txt", "b.txt", "c.md", "d.jsonl", "e.txt.gz"):
        data = b'{"text": "the"}\n'
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        (
            (tmp_path,),
            "2 .txt files as text, 1 .md file by headings, 1 .jsonl file by rows, 1 .txt.gz file "
            "as text",
        ),
        ((tmp_path / "a.txt", "-"), "1 .txt file by lines, standard input by lines"),
        ((tmp_path / "c.md", "--input-format", "lines"), "1 .md file by lines"),
    ]
    for arguments, how in cases:
        messages = told("oov", "model", *arguments, cwd=here, given="the")[1]
        first = messages.splitlines()[0].removeprefix("vocabtool: reading ")
        assert sorted(first.split(", ")) == sorted(how.split(", "))


# Exit codes


@pytest.mark.parametrize(
    ("share", "code"),
    [
        *(("2%", 1), ("0", 1), ("36.3%", 1), ("36.4%", 0), ("0.364", 0), ("100%", 0)),
        *((share, 2) for share in ("1", "200%", "-1", "nan", "", "two", "1e999999999")),
    ],
)
def test_fail_over(share: str, code: int, here: Path) -> None:
    """Exit 1 where a greater share of the tokens is unknown, with the report all the same."""
    command = ("oov", "model", "corpus.txt", f"--fail-over={share}")
    shown, messages = told(*command, code=code, cwd=here)
    assert shown == ("" if code == 2 else TABBED)
    wanted = {0: "", 1: "(36.36%)", 2: f"a share such as 2% or 0.02, got {share!r}"}
    assert wanted[code] in messages


@pytest.mark.parametrize(("share", "unknown", "of"), [("0.7%", 7, 1000), ("2%", 1, 50)])
def test_the_very_share_is_no_failure(share: str, unknown: int, of: int, here: Path) -> None:
    """Exactly the share that is allowed is allowed, whatever binary fractions make of it."""
    text = "dog " * unknown + "the " * (of - unknown)
    command = ("oov", "model", "-", "--fail-over", share)
    told(*command, cwd=here, given=text)
    told(*command, code=1, cwd=here, given=text + "dog")


@pytest.mark.parametrize(
    ("command", "code", "messages"),
    [
        ("oov model - --mask known --html x.html", 2, ["--mask cannot be combined"]),
        ("oov model - --html=", 2, ["--html needs the name of a file"]),
        ("oov model - -o report.xml", 2, ["-o report.xml: expected a file that ends in"]),
        ("words model --rule nope", 2, ["unknown rule 'nope'"]),
        ("words model --rule regex:\udcff", 2, ["is not a valid RE2 pattern"]),
        ("oov model missing.txt", 3, ["missing.txt: no such file"]),
        ("oov model model", 3, ["model: the folder"]),
        ("oov model zz*", 3, ["zz*: no file matches"]),
        ("oov model bad.txt.gz", 3, ["bad.txt.gz: not gzip"]),
        ("oov model bad.parquet", 3, ["bad.parquet: "]),
        ("oov model corpus.txt -o no/f", 3, ["no: the folder does not exist"]),
        ("words corpus.txt", 3, ["corpus.txt: a list of words"]),
        ("oov model#x corpus.txt", 3, ["no words in a vocabulary named 'x'"]),
        ("words bad.pb", 3, ["bad.pb: "]),
        ("words strange", 3, ["the op StringFormat", "name a rule", "--rule"]),
        ("oov ids corpus.txt", 3, ["states no inputs", "ids#", "--rule"]),
        ("oov ids corpus.txt --rule tokenizer:cut", 3, ["tokenizer.json: not JSON"]),
    ],
)
def test_errors(command: str, code: int, messages: list[str], here: Path) -> None:
    """Wrong usage exits with 2, bad input with 3; both say what was wrong, and print nothing."""
    error = re.split("[Ee]rror: ", errors(*command.split(), code=code, cwd=here), maxsplit=1)[1]
    assert [message for message in messages if message not in error] == []


def test_a_folder_that_is_not_there_is_told_before_reading(here: Path) -> None:
    """Nor is a missing FILE. Where no report can be written, standard input is not waited for."""
    assert "reading" not in errors("oov", "model", "missing.txt", code=3, cwd=here)
    command = [*COMMAND, "oov", "model", "-", "-o", "no/f"]
    with subprocess.Popen(command, stdin=PIPE, stderr=PIPE, cwd=here, env=environment()) as process:
        assert process.wait() == 3


# Rules


def test_a_rule_by_name(here: Path) -> None:
    """The report shows it with its fingerprint; a model's own way, known or not, is not used."""
    for model in ("ids", "strange", "model"):
        command = ("oov", model, "-", "--rule", "whitespace", "--format", "json")
        report = json.loads(output(*command, cwd=here, given="the The"))
        assert [word["word"] for word in report["unknown_words"]] == ["The"]
        assert report["rule"]["steps"] == ["split at whitespace"]
    shown = output("words", "ids", "--rule", "whitespace", cwd=here)
    assert "rule that you named)" in shown
    assert f"rule {report['rule']['fingerprint'][:16]}" in shown
    assert "  ... 19 more steps (JSON: all)" in output("words", "ids", "--rule", "ptb", cwd=here)


# Streams


@contextmanager
def endless(here: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A run of ``oov model -`` whose standard input does not end, and the bytes it has taken."""
    command = [*INTERRUPTIBLE, "oov", "model", "-", *arguments]
    fed: list[int] = []
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=here, env=environment()
    ) as process:
        feeder = Thread(target=_feed, args=(process.stdin, fed))
        feeder.start()
        try:
            yield process, fed
        finally:
            process.kill()
            feeder.join()


def _feed(pipe: Any, fed: list[int]) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        while True:
            fed.append(pipe.write(b"the cat xapian\n" * 4096))


@pytest.mark.parametrize(
    ("options", "end"),
    [
        (["-o", "report.json", "--html", "page.html"], signal.SIGKILL),
        (["-o", "masked.txt", "--mask", "unknown"], signal.SIGKILL),
        (["-o", "masked.txt", "--mask", "unknown"], signal.SIGINT),
    ],
)
def test_a_killed_run_leaves_no_file(
    options: list[str], end: signal.Signals, here: Path, tmp_path: Path
) -> None:
    """Neither a report nor a page nor what was masked; an interrupt leaves nothing at all."""
    given = [str(tmp_path / option) if "." in option else option for option in options]
    with endless(here, *given) as (process, fed):
        while sum(fed) < 3 * COUNTED_TOGETHER:  # it has counted some when it has taken so much
            assert process.poll() is None
        process.send_signal(end)
        code = process.wait(timeout=60)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert code == (130 if end == signal.SIGINT else -end)
    left = [] if end == signal.SIGINT else [file.name for file in tmp_path.iterdir()]
    assert not {"report.json", "page.html", "masked.txt"} & {*left}


def test_masks_are_printed_as_lines_come(here: Path) -> None:
    """Of an endless input the first masked lines come out; closing the pipe ends it with 0."""
    with endless(here, "--mask", "unknown") as (process, _):
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"the cat [UNK]\n"] * 3
        process.stdout.close()
        assert process.stderr is not None
        assert process.wait() == 0
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("oov model {}", 0),
        ("oov model {} --fail-over 99%", 1),
        ("oov model {} --mask unknown", 0),
        ("oov model {} --format csv", 0),
        ("extract {}", 0),
    ],
)
def test_a_reader_that_stops(command: str, code: int, here: Path, tmp_path: Path) -> None:
    """`oov ... | head -1` ends quietly, with the exit code and notes that it would have had."""
    (tmp_path / "many.txt").write_text("".join(f"w{number}\n" for number in range(50_000)))
    arguments = command.format(tmp_path / "many.txt").split()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=PIPE, stderr=PIPE, cwd=here, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.stderr is not None
        messages = process.stderr.read()
    assert process.returncode == code
    assert b"error" not in messages
    assert b"Traceback" not in messages
    assert (b"50,000 entries" in messages) == command.startswith("extract")


def test_wide_characters_keep_their_columns(tmp_path: Path) -> None:
    """Columns begin under each other where a character takes two columns, or none."""
    (tmp_path / "words.txt").write_text("日本\nab\ne\u0301\n", "utf-8")
    arguments = ("words", "words.txt", "日本 ab e\u0301 🎉", "--rule", "whitespace")
    lines = [line.rstrip() for line in on_terminal(tmp_path, *arguments).splitlines()]
    assert lines[-4:] == [
        "  日本  0  known",
        "  ab    1  known",
        "  e\u0301     2  known",
        "  🎉       unknown",
    ]
