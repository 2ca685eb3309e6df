"""The commands that make, search, judge and keep an index, as a person types them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.small_indexes import set_manifest
from tests.cli.running import errors, output, told
from tests.conftest import ROOT
from vocabtool import Index

MODEL = str(ROOT / "data" / "small_glove.txt")
ROWS = [
    {"key": "a", "text": "I love to use Xapian", "year": 2019, "lang": "en"},
    {"key": "b", "text": "I love to use the index", "year": 2020, "lang": "en"},
    {"key": "c", "text": "the error ERR-48007-X came back", "year": 2021, "lang": "de"},
    {"key": "d", "text": "an error came back", "year": 2021, "lang": "en"},
]
MAKE = ("--model", MODEL, "--id-field", "key", "--keep", "year", "--keep", "lang", "--quiet")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents as JSON lines."""
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return file


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of them, which no test changes."""
    folder = tmp_path_factory.mktemp("made") / "index"
    output("index", corpus, "-o", folder, *MAKE)
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> str:
    """An index of its own for each test."""
    return str(shutil.copytree(made, tmp_path / "index"))


def answer(*arguments: str | Path) -> Any:
    """What a command prints as JSON."""
    return json.loads(output(*arguments, "--format", "json"))


def test_the_reason_why_every_row_was_skipped(corpus: Path, tmp_path: Path) -> None:
    """The first of them is named."""
    skip = (corpus, "--field", "body", "--on-error", "skip")
    reason = f"no document in it; first skipped row: {corpus}:1: no field 'body'"
    for command in (
        ("oov", MODEL, *skip),
        ("oov", MODEL, *skip, "--mask", "known"),
        ("embed", *skip, "--model", MODEL, "--weights", "none", "-o", tmp_path / "out"),
    ):
        assert reason in errors(*command)


@pytest.mark.parametrize("name", ["empty.txt", "head.csv", "-"])
def test_nothing_to_read_is_one_exit_code(name: str, index: str, tmp_path: Path) -> None:
    """Whatever command it is: bad input, and nothing is left where something was to be made."""
    file, made = str(tmp_path / name), tmp_path / "made"
    Path(file).write_text("id,text\n" if name == "head.csv" else "")
    file = "-" if name == "-" else file
    for command in (
        ("oov", MODEL, file, "--rule", "lower", "--fail-over", "50%"),
        ("oov", MODEL, file, "--rule", "lower", "--mask", "known"),
        ("diff", MODEL, MODEL, "--corpus", file),
        ("embed", file, "--model", MODEL, "-o", made),
        ("index", file, "--model", MODEL, "--weights", "none", "-o", made),
        ("index", file, "-o", index),
        ("search", index, "-")
        if name == "-"
        else ("eval", index, "--queries", file, "--qrels", file),
    ):
        errors(*command)
        assert not made.exists(), command
    assert len(Index.open(index)) == 4


@pytest.mark.parametrize(
    ("language", "shown", "note"),
    [("polish", "polish", "no list of stop words for polish: "), ("none", "not stemmed", "")],
)
def test_the_language_is_told(
    language: str, shown: str, note: str, corpus: Path, tmp_path: Path
) -> None:
    """What it lacks, once, when the index is made."""
    command = ("index", corpus, "-o", tmp_path / "index", *MAKE[:-1], "--language", language)
    first, again = told(*command), told(*command)
    assert f"  keywords    {shown}, 22 running words\n" in first[0]
    assert note in first[1]
    assert ("stop words" in first[1], "stop words" in again[1]) == (bool(note), False)


def test_index_again_does_nothing(corpus: Path, index: str) -> None:
    """The same command after its end leaves everything as it is, and says so."""
    before = Index.open(index).manifest
    again = ("index", corpus, "-o", index, *MAKE[:-1])
    report = answer(*again)
    assert (report["documents"], report["added"], report["resumed"]) == (4, 0, 4)
    assert Index.open(index).manifest == before
    done = "  done now    nothing: the files did not change since they were indexed\n"
    assert done in output(*again)
    errors(*again, "--model", "static:data/sentence_encoder")
    assert "not fitted with the rule 'lower'" in errors(*again, "--rule", "lower")
    output("delete", index, "a")
    assert done in output(*again)  # it does not come back
    assert len(Index.open(index)) == 3


def test_rows_that_do_not_fit_are_told(index: str, tmp_path: Path) -> None:
    """An id that is there already, and a word among numbers, which can be left out."""
    more = tmp_path / "more.jsonl"
    rows = '{"key": "a", "text": "new"}', '{"key": "e", "text": "new", "year": "big"}'
    more.write_text("\n".join(rows))
    command, reason = ("index", more, "-o", index, *MAKE[:-1]), f"{more}:2: the field 'year'"
    assert "document 'a' is in the index already" in errors(*command)
    skipping = (*command, "--existing", "skip")
    assert reason in errors(*skipping)
    assert len(Index.open(index)) == 4
    report, messages = told(*skipping, "--on-error", "skip")
    assert "1 value that did not fit their field; the documents were added" in report
    assert f"skipped: {reason}" in messages
    assert [*Index.open(index).ids("text = 'new'")] == ["e"]


def test_an_interrupted_command_tells_how_to_go_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves no empty index."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Index, "load", stop)
    message = told("index", corpus, "-o", tmp_path / "index", *MAKE, code=130)[1]
    assert "interrupted; run the same command again to resume after the last commit" in message
    assert not (tmp_path / "index").exists()


def test_an_update_loses_no_field(index: str, tmp_path: Path) -> None:
    """A document is put in its place whole: what would be gone is named, and how to keep it."""
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps(ROWS[0]) + "\n")
    given = ("--model", MODEL, "--id-field", "key", "--keep", "year", "--existing", "update")
    assert "--keep lang" in errors("index", more, "-o", index, *given, code=2)
    more.write_text('{"key": "a", "text": "I hate Lucene", "year": 2019, "lang": "en"}\n')
    output("index", more, "-o", index, *given, "--keep", "lang", "--quiet")
    assert "I hate Lucene" in output("search", index, "--where", "lang = 'en'", "Lucene")
    more.write_text('{"key": "e", "text": "new", "year": 2019, "lang": "en"}\n')
    _, note = told("index", more, "-o", index, "--keep", "year")
    assert "--keep lang --id-field key" in note
    options = ("--keep", "year", "--keep", "lang", "--id-field", "key")
    assert "--keep" not in told("index", more, "-o", index, *options)[1]


def test_an_unknown_number_counts_like_a_known_word(index: str) -> None:
    """Which is said, since it is not what a person expects of an unknown word."""
    said = "counted like a known word, because it is a number or one character"
    shown = output("search", index, "error 48007", "--explain")
    assert f"  48007  unknown to the model, in 1 document, {said}\n" in shown
    assert "weight of keywords 0.50 = 0.50 + 0.50 x 0.00" in shown
    assert said not in output("search", index, "error 48007", "--explain", "--fusion", "convex")
    shown = output("search", index, "48007 ERR-48007-X", "--explain")
    assert "  48007        unknown to the model, in 1 document, counted 1.5 times\n" in shown


def test_a_load_that_is_half_done_is_told(index: str) -> None:
    """The index is whole, but it is not all that was meant to be in it."""
    whole = f"{index}: no damage: 4 documents in both legs, vectors: all compared\n"
    assert output("verify", index) == whole
    again = "4 documents encoded again: lowest agreement with the stored vectors 1.000000\n"
    assert output("verify", index, "--model", MODEL) == whole + again
    manifest = Index.open(index).manifest
    assert manifest.load is not None
    set_manifest(Path(index), replace(manifest, load=replace(manifest.load, finished=False)))
    note = "a load is unfinished; if it was interrupted, run the same command again\n"
    assert output("verify", index) == whole + note


def test_what_helps_against_damage(index: str) -> None:
    """Keywords can be made anew; of a file that is not the index's nothing is said."""
    bad = Path(index) / "queries.tsv"
    bad.write_text("q1\n")
    message = errors("eval", index, "--queries", bad, "--qrels", bad)
    assert ("repaired" in message, "rebuilds" in message) == (False, False)
    (vectors,) = Path(index).glob("generation-*/vectors.bin")
    content = vectors.read_bytes()
    vectors.write_bytes(content[:-1])
    helps = "it cannot be repaired: index the same FILEs again, with the same options and --force"
    for command in (("verify", index), ("search", index, "love")):
        assert errors(*command).splitlines()[-1] == f"vocabtool: {helps}"
    vectors.write_bytes(content)
    (positions,) = Path(index).glob("generation-*/keywords/*.pos")
    positions.write_bytes(b"\xff" + positions.read_bytes()[1:])
    assert f"`vocabtool compact {index}` rebuilds it" in errors("verify", index)
    output("compact", index)
    assert "no damage: 4 documents" in output("verify", index)


def test_judgements(index: str) -> None:
    """Eval wants them or checks itself; four short documents tell calibrate nothing."""
    assert "--queries and --qrels, or --self-check" in errors("eval", index, code=2)
    assert "fewer than 10 have" in errors("calibrate", index, code=1)
    assert Index.open(index).calibration is None


def test_an_index_of_shards_needs_no_model(corpus: Path, tmp_path: Path) -> None:
    """What embed wrote is indexed with its vectors; such an index answers by keywords."""
    shards, folder, other = tmp_path / "shards", str(tmp_path / "index"), tmp_path / "other"
    output("embed", corpus, "--model", MODEL, "--id-field", "key", "-o", shards, "--quiet")
    message = told("index", shards, "-o", folder)[1]
    assert message.count("\n") == 1
    assert "no --model" in message
    assert "--vector FILE" in message
    shown, message = told("search", folder, "Xapian", "--format", "json")
    by_words = f"{folder}: created without a model; queries are searched by their words only"
    next_ = "To search by vectors too, pass --vector FILE or --model"
    assert message == f"vocabtool: {by_words}. {next_}\n"
    hits, (note,) = json.loads(shown)["hits"], json.loads(shown)["notes"]
    assert [hit["id"] for hit in hits] == ["a"]
    assert "no vector" in note
    assert "Pass its vector" in note
    assert "_weights.json" in errors("search", folder, "Xapian", "--model", MODEL)
    output("index", shards, "-o", other, "--model", MODEL, "--quiet")
    words = answer("search", other, "use Xapian", "--explain")["query"]["words"]
    assert words[1]["known"] is False
    message = errors("index", corpus, "-o", tmp_path / "none", "--quiet", code=2)
    assert "--model is missing" in message
    assert "vocabtool train FILE... -o words.npz" in " ".join(message.split())
    for command in (("search", folder, "Xapian"), ("calibrate", folder)):
        message = errors(*command, "--model", MODEL)
        assert message.count("\n") == 1
        assert "fitted on the corpus" in message


def test_an_index_is_no_file_of_documents(index: str, tmp_path: Path) -> None:
    """Its own files are not read as such."""
    message = errors("index", index, "-o", tmp_path / "another", "--model", MODEL)
    assert message.startswith(f"vocabtool: error: {index}: is an index, not a file")


@pytest.mark.parametrize(("option", "value"), [("--metric", "l2"), ("--language", "german")])
def test_an_index_stays_what_it_was_created_as(
    corpus: Path, index: str, option: str, value: str
) -> None:
    """An option that says otherwise is refused; one that says the same is not."""
    command = ("index", corpus, "-o", index, *MAKE)
    assert f"{option} {value}" in errors(*command, option, value, code=2)
    same = str(getattr(Index.open(index).configuration, option.removeprefix("--")))
    output(*command, option, same)


@pytest.mark.parametrize(
    ("file", "options", "code"),
    [
        ("nothing.jsonl", (), 3),
        ("bad.jsonl", (), 3),
        ("corpus.jsonl", ("--model", "nothing.txt"), 3),
        ("corpus.jsonl", ("--rule", "nothing"), 2),
    ],
)
def test_force_looks_before_it_clears(
    corpus: Path, index: str, tmp_path: Path, file: str, options: tuple[str, ...], code: int
) -> None:
    """What a mistyped FILE, MODEL or option would replace is still there."""
    shutil.copy(corpus, tmp_path / "corpus.jsonl")
    (tmp_path / "bad.jsonl").write_text("{")
    given = ("--model", MODEL, "--id-field", "key", "--quiet", "--force", *options)
    errors("index", tmp_path / file, "-o", index, *given, code=code)
    assert len(Index.open(index)) == 4


def test_a_file_that_is_no_model_is_told_without_tensorflow(index: str, tmp_path: Path) -> None:
    """Loading it takes seconds; why the file is no file of word vectors either is said."""
    stub = tmp_path / "stub" / "tensorflow.py"
    stub.parent.mkdir()
    stub.write_text("raise SystemExit('TensorFlow was loaded')")
    whole = tmp_path / "whole.txt"
    whole.write_text("love 1 0 0 0\nuse 0 1 0 0\n")
    environ = {"PYTHONPATH": str(stub.parent)}
    message = errors("search", index, "love", "--model", whole, environ=environ)
    assert "a text file, not a model" in message
    assert "the numbers in its lines are whole" in message
