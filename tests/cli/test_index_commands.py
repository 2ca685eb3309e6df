"""The commands that make, search, judge and keep an index, as a person types them."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.set_manifest import set_manifest
from tests.cli.running import run
from tests.conftest import ROOT
from vocabtool import Index

MODEL = str(ROOT / "data" / "small_glove.txt")
ROWS = [
    {"key": "a", "text": "I love to use Xapian", "year": 2019, "lang": "en"},
    {"key": "b", "text": "I love to use the index", "year": 2020, "lang": "en"},
    {"key": "c", "text": "the error ERR-48007-X came back", "year": 2021, "lang": "de"},
    {"key": "d", "text": "an error came back", "year": 2021, "lang": "en"},
]


def vocabtool(*arguments: str, given: str = "", path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command, standard error apart. ``path``: a folder of modules that come first."""
    done = run(*arguments, given=given.encode(), environ={"PYTHONPATH": path})
    out, errors = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, errors)


def fine(*arguments: str, given: str = "") -> str:
    """What a command prints that ends well."""
    done = vocabtool(*arguments, given=given)
    assert (done.returncode, done.stderr) == (0, done.stderr), done.stderr
    return done.stdout


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
    fine("index", str(corpus), "-o", str(folder), *MAKE)
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> str:
    """An index of its own for each test."""
    return str(shutil.copytree(made, tmp_path / "index"))


MAKE = ("--model", MODEL, "--id-field", "key", "--keep", "year", "--keep", "lang", "--quiet")


def test_the_reason_why_every_row_was_skipped(corpus: Path, tmp_path: Path) -> None:
    """The first of them is named."""
    skip = (str(corpus), "--field", "body", "--on-error", "skip")
    for command in (
        ("oov", MODEL, *skip),
        ("oov", MODEL, *skip, "--mask", "known"),
        ("embed", *skip, "--model", MODEL, "--weights", "none", "-o", str(tmp_path / "out")),
    ):
        done = vocabtool(*command)
        assert done.returncode == 3
        told = f"no document in it; first skipped row: {corpus}:1: no field 'body'"
        assert told in done.stderr


def ids(told: str) -> list[str]:
    """The ids of the hits in an answer of JSON."""
    return [hit["id"] for hit in json.loads(told)["hits"]]


@pytest.mark.parametrize("text", ["", "G", "1X", "-1", "0", "nan", "1e999", "1", "512", "15M"])
def test_no_sizes(text: str, corpus: Path, tmp_path: Path) -> None:
    """What is no size is refused as wrong usage, and so is one that cannot be meant."""
    done = vocabtool("index", str(corpus), "-o", str(tmp_path / "i"), *MAKE, "--memory", text)
    told = "--memory" in done.stderr and ("512M" in done.stderr or "16M" in done.stderr)
    assert (done.returncode, told) == (2, True), done.stderr


@pytest.mark.parametrize("content", ["empty.txt", "empty.jsonl", "empty.csv", "head.csv", "-"])
def test_nothing_to_read_is_one_exit_code(content: str, index: str, tmp_path: Path) -> None:
    """Whatever command it is: bad input, and nothing is left where something was to be made."""
    file = tmp_path / content
    file.write_text("id,text\n" if content == "head.csv" else "")
    made, before = tmp_path / "made", len(Index.open(index))
    name = "-" if content == "-" else str(file)
    commands = [
        ("oov", MODEL, name, "--rule", "lower"),
        ("oov", MODEL, name, "--rule", "lower", "--fail-over", "50%"),
        ("oov", MODEL, name, "--rule", "lower", "--mask", "known"),
        ("diff", MODEL, MODEL, "--corpus", name),
        ("embed", name, "--model", MODEL, "--weights", "none", "-o", str(made)),
        ("embed", name, "--model", MODEL, "-o", str(made)),
        ("index", name, "--model", MODEL, "--weights", "none", "-o", str(made)),
        ("index", name, "--model", MODEL, "-o", str(made)),
        ("index", name, "-o", index),
        *([("search", index, "-")] if content == "-" else []),
        *([] if content == "-" else [("eval", index, "--queries", name, "--qrels", name)]),
    ]
    for command in commands:
        done = vocabtool(*command)
        assert (done.returncode, done.stdout) == (3, ""), (command, done.stderr)
        assert not made.exists(), command
    assert len(Index.open(index)) == before


@pytest.mark.parametrize("command", ["index", "embed"])
def test_a_damaged_archive_leaves_nothing(command: str, tmp_path: Path) -> None:
    """Damaged at its end, behind many documents that could be read."""
    file, made = tmp_path / "corpus.txt.gz", tmp_path / "made"
    lines = b"".join(b"I love the error %d\n" % number for number in range(60_000))
    file.write_bytes(gzip.compress(lines, 1)[:-100])
    for options in ([], ["--weights", "none"]):
        done = vocabtool(command, str(file), "--model", MODEL, *options, "-o", str(made))
        assert (done.returncode, "not gzip, or damaged" in done.stderr) == (3, True), done.stderr
        assert not made.exists()


@pytest.mark.parametrize(
    ("language", "told", "note"),
    [("polish", "polish", "no list of stop words for polish: "), ("none", "not stemmed", "")],
)
def test_the_language_is_told(
    language: str, told: str, note: str, corpus: Path, tmp_path: Path
) -> None:
    """What it lacks, once, when the index is made; all are in the help."""
    made = [option for option in MAKE if option != "--quiet"]
    command = ("index", str(corpus), "-o", str(tmp_path / "index"), *made, "--language", language)
    first, again = vocabtool(*command), vocabtool(*command)
    assert f"  keywords    {told}, 22 running words\n" in first.stdout
    assert note in first.stderr
    assert ("stop words" in first.stderr, "stop words" in again.stderr) == (bool(note), False)
    assert "polish" in fine("index", "--help")


def test_index_again_does_nothing(corpus: Path, index: str) -> None:
    """The same command after its end leaves everything as it is, and says so."""
    before = Index.open(index).manifest
    told = fine("index", str(corpus), "-o", index, *MAKE[:-1], "--format", "json")
    report = json.loads(told)
    assert (report["documents"], report["added"], report["resumed"]) == (4, 0, 4)
    assert Index.open(index).manifest == before
    again = ("index", str(corpus), "-o", index, *MAKE[:-1])
    done = "done now    nothing: the files did not change since they were indexed"
    assert f"  {done}\n" in fine(*again)
    other = vocabtool(*again, "--model", "static:data/sentence_encoder")
    assert other.returncode == 3
    other = vocabtool(*again, "--rule", "lower")
    assert (other.returncode, "not fitted with the rule 'lower'" in other.stderr) == (3, True)
    vocabtool("delete", index, "a")
    assert f"  {done}\n" in fine(*again)  # it does not come back
    assert len(Index.open(index)) == 3


def test_index_adds_and_replaces(index: str, tmp_path: Path) -> None:
    """Other files are added; what becomes of an id that is there is the caller's choice."""
    more = tmp_path / "more.jsonl"
    more.write_text('{"key": "a", "text": "I hate Lucene"}\n{"key": "e", "text": "new"}\n')
    done = vocabtool("index", str(more), "-o", index, *MAKE)
    assert (done.returncode, len(Index.open(index))) == (3, 4)
    assert "document 'a' is in the index already" in done.stderr
    fine("index", str(more), "-o", index, *MAKE, "--existing", "skip")
    assert ids(fine("search", index, "Lucene", "--format", "json")) == []
    more.write_text(more.read_text() + '{"key": "f", "text": "newer"}\n')
    fine("index", str(more), "-o", index, *MAKE, "--existing", "update")
    assert ids(fine("search", index, "Lucene", "--format", "json")) == ["a"]
    assert len(Index.open(index)) == 6


def test_a_word_among_numbers_is_left_out_and_told(index: str, tmp_path: Path) -> None:
    """With its row."""
    more = tmp_path / "more.jsonl"
    more.write_text('{"key": "e", "text": "new", "year": "big", "lang": "en"}\n')
    options = ("index", str(more), "-o", index, *MAKE[:-1])
    done = vocabtool(*options)
    assert (done.returncode, len(Index.open(index))) == (3, 4)
    reason = f"{more}:1: the field 'year'"
    assert reason in done.stderr
    done = vocabtool(*options, "--on-error", "skip", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["left_out"]) == (0, 1)
    assert f"skipped: {reason}" in done.stderr
    done = vocabtool("search", index, "error came back", "--where", "year >= ")
    assert (done.returncode, "year >=" in done.stderr) == (3, True)


def test_an_update_loses_no_field(index: str, tmp_path: Path) -> None:
    """A document is put in its place whole: what would be gone is named, and how to keep it."""
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps(ROWS[0]) + "\n")
    given = ("--model", MODEL, "--id-field", "key", "--keep", "year", "--existing", "update")
    done = vocabtool("index", str(more), "-o", index, *given)
    assert done.returncode == 2
    assert "--keep lang" in done.stderr
    assert "a" in fine("search", index, "--where", "lang = 'en'", "Xapian")
    fine("index", str(more), "-o", index, *given, "--keep", "lang", "--quiet")


def test_search_explains(index: str) -> None:
    """Each word is told apart, and each hit says why it stands where it does."""
    told = fine("search", index, "use Xapian", "--explain", "-k", "1")
    assert "Xapian  unknown to the model, in 1 document, counted 1.5 times" in told
    assert "1. a  (" in told
    assert "I love to [use] [Xapian]" in told
    assert "keywords rank 1" in told
    found = json.loads(fine("search", index, "use Xapian", "--explain", "--format", "json"))
    words = {word["surface"]: word for word in found["query"]["words"]}
    assert (words["use"]["known"], words["Xapian"]["known"]) == (True, False)
    first = found["hits"][0]["explanation"]
    assert first["keyword"]["rank"] == 1
    assert {word["surface"] for word in first["words"]} == {"use", "Xapian"}


def test_an_unknown_number_counts_like_a_known_word(index: str) -> None:
    """Which is said, since it is not what a person expects of an unknown word."""
    told = fine("search", index, "error 48007", "--explain")
    said = "counted like a known word, because it is a number or one character"
    assert f"  48007  unknown to the model, in 1 document, {said}\n" in told
    beside = fine("search", index, "48007 ERR-48007-X", "--explain")
    assert "  48007        unknown to the model, in 1 document, counted 1.5 times\n" in beside
    assert said not in fine("search", index, "error 48007", "--explain", "--fusion", "convex")
    assert "weight of keywords 0.50 = 0.50 + 0.50 x 0.00" in told


def test_a_load_that_is_half_done_is_told(index: str) -> None:
    """The index is whole, but it is not all that was meant to be in it."""
    whole = f"{index}: no damage: 4 documents in both legs, vectors: all compared\n"
    assert fine("verify", index) == whole
    held = Index.open(index).manifest
    assert held.load is not None
    set_manifest(Path(index), replace(held, load=replace(held.load, finished=False)))
    told = "a load is unfinished; if it was interrupted, run the same command again\n"
    assert fine("verify", index) == whole + told


def test_what_helps_against_damage(index: str) -> None:
    """Codes and keywords can be made anew; of a file that is not the index's nothing is said."""
    bad = Path(index) / "queries.tsv"
    bad.write_text("q1\n")
    done = vocabtool("eval", index, "--queries", str(bad), "--qrels", str(bad))
    assert (done.returncode, "repaired" in done.stderr, "rebuilds" in done.stderr) == (
        3,
        False,
        False,
    )
    (vectors,) = Path(index).glob("generation-*/vectors.bin")
    held = vectors.read_bytes()
    vectors.write_bytes(held[:-1])
    helps = "it cannot be repaired: index the same FILEs again, with the same options and --force"
    for arguments in (["verify", index], ["search", index, "love"]):
        done = vocabtool(*arguments)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (3, f"vocabtool: {helps}")
    vectors.write_bytes(held)
    (positions,) = Path(index).glob("generation-*/keywords/*.pos")
    positions.write_bytes(b"\xff" + positions.read_bytes()[1:])
    done = vocabtool("verify", index)
    made_anew = f"`vocabtool compact {index}` rebuilds it"
    assert (done.returncode, made_anew in done.stderr) == (3, True)
    fine("compact", index)
    assert "no damage: 4 documents" in fine("verify", index)


def test_nothing_found_suggests_a_spelling(index: str) -> None:
    """Nothing is said plainly, with a word of the corpus that is spelled nearly so."""
    told = fine("search", index, "Xapain")
    assert "nothing found\n" in told
    assert "Xapain: did you mean Xapian?" in told.replace("xapian", "Xapian")


def test_delete_compact_verify(index: str) -> None:
    """Deleted documents are gone at once, their space after compacting; verify says what is."""
    assert vocabtool("delete", index, "a", "b").returncode == 0
    missing = vocabtool("delete", index, "a", "c")
    assert missing.returncode == 1
    assert "1 of 2 documents deleted, 1" in missing.stderr
    assert json.loads(fine("verify", index, "--format", "json"))["deleted"] == 3
    told = vocabtool("compact", index).stderr
    assert told == "vocabtool: 3 deleted documents removed, 1 left\n"
    whole = f"{index}: no damage: 1 document in both legs, vectors: all compared\n"
    assert fine("verify", index) == whole


def test_eval_wants_judgements_or_checks_itself(index: str) -> None:
    done = vocabtool("eval", index)
    assert (done.returncode, "--queries and --qrels, or --self-check" in done.stderr) == (2, True)


def test_calibrate_says_when_nothing_can_be_said(index: str) -> None:
    """Four short documents tell nothing: exit code 1, and the index stays as it is."""
    done = vocabtool("calibrate", index)
    assert (done.returncode, Index.open(index).calibration) == (1, None)
    assert "fewer than 10 have" in done.stderr


def test_calibrate_keeps_what_it_found(tmp_path: Path) -> None:
    """The weight is stored, unless it is only asked for, and repeats."""
    lines = tmp_path / "lines.txt"
    things = ["coffee", "night", "book", "woman", "window", "paper", "school", "table"]
    told = [
        f"The {a} is near the {b}. We love number{n} and the old {b} there. Nobody saw word{n} in "
        f"the {a} since then."
        for n, (a, b) in enumerate((a, b) for a in things for b in things if a != b)
    ]
    lines.write_text("\n".join(told) + "\n")
    folder = str(tmp_path / "index")
    fine("index", str(lines), "--model", MODEL, "-o", folder, "--quiet")
    asked = ("calibrate", folder, "--sample", "20", "--format", "json")
    dry = json.loads(fine(*asked, "--dry-run"))
    assert Index.open(folder).calibration is None
    kept = json.loads(fine(*asked))
    assert kept == dry
    calibration = Index.open(folder).calibration
    assert calibration is not None
    assert calibration.a == kept["a"]
    found = json.loads(fine("search", folder, "number3", "--format", "json"))
    assert found["query"]["a"] == kept["a"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "nowhere", "x"), "nowhere: no such folder"),
        (("verify", "nowhere"), "nowhere: no such folder"),
        (("delete", "nowhere", "x"), "nowhere: no such folder"),
        (("calibrate", "nowhere"), "nowhere: no such folder"),
        (("index", "nowhere.txt", "-o", "made", "--model", "nothing"), "nowhere.txt: no such file"),
    ],
)
def test_what_is_not_there(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input is exit code 3, one line, no traceback, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    done = vocabtool(*arguments)
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_shards_needs_no_model(corpus: Path, tmp_path: Path) -> None:
    """What embed wrote is indexed with its vectors; such an index answers by keywords."""
    shards, folder = str(tmp_path / "shards"), str(tmp_path / "index")
    fine("embed", str(corpus), "--model", MODEL, "--id-field", "key", "-o", shards, "--quiet")
    done = vocabtool("index", shards, "-o", folder)
    assert done.stderr.count("\n") == 1
    assert "no --model" in done.stderr
    assert "--vector FILE" in done.stderr
    done = vocabtool("search", folder, "Xapian", "--format", "json")
    by_words = f"{folder}: created without a model; queries are searched by their words only"
    next_ = "To search by vectors too, pass --vector FILE or --model"
    assert done.stderr == f"vocabtool: {by_words}. {next_}\n"
    told = json.loads(done.stdout)
    assert [hit["id"] for hit in told["hits"]] == ["a"]
    assert len(told["notes"]) == 1 and "no vector" in told["notes"][0]
    assert "Pass its vector" in told["notes"][0]
    with_model = str(tmp_path / "with")
    fine("index", shards, "-o", with_model, "--model", MODEL, "--quiet")
    told = json.loads(fine("search", with_model, "use Xapian", "--explain", "--format", "json"))
    assert told["query"]["words"][1]["known"] is False
    done = vocabtool("index", str(corpus), "-o", str(tmp_path / "none"), "--quiet")
    assert (done.returncode, "--model is missing" in done.stderr) == (2, True)
    assert "vocabtool train FILE... -o words.npz" in " ".join(done.stderr.split())
    for command in (("search", folder, "Xapian"), ("calibrate", folder)):
        done = vocabtool(*command, "--model", MODEL)
        assert done.stderr.count("\n") == 1
        assert "fitted on the corpus" in done.stderr
        assert done.returncode == 3


def test_an_index_is_no_file_of_documents(index: str, tmp_path: Path) -> None:
    """Its own files are not read as such."""
    done = vocabtool("index", index, "-o", str(tmp_path / "another"), "--model", MODEL)
    assert done.returncode == 3
    assert done.stderr.startswith(f"vocabtool: error: {index}: is an index, not a file")


@pytest.mark.parametrize(
    ("option", "value"), [("--metric", "l2"), ("--dtype", "float32"), ("--language", "german")]
)
def test_an_index_stays_what_it_was_created_as(
    corpus: Path, index: str, option: str, value: str
) -> None:
    """An option that says otherwise is refused; one that says the same is not."""
    done = vocabtool("index", str(corpus), "-o", index, *MAKE, option, value)
    assert done.returncode == 2
    assert f"{option} {value}" in done.stderr
    held = str(getattr(Index.open(index).configuration, option.removeprefix("--")))
    fine("index", str(corpus), "-o", index, *MAKE, option, held, "--memory", "1G")


@pytest.mark.parametrize(
    ("file", "model", "options"),
    [
        ("nothing.jsonl", MODEL, ()),
        ("bad.jsonl", MODEL, ()),
        ("corpus.jsonl", MODEL, ("nothing.jsonl",)),
        ("corpus.jsonl", "nothing.txt", ()),
        ("corpus.jsonl", MODEL, ("--language", "latin")),
        ("corpus.jsonl", MODEL, ("--rule", "nothing")),
    ],
)
def test_force_looks_before_it_clears(
    corpus: Path, index: str, tmp_path: Path, file: str, model: str, options: tuple[str, ...]
) -> None:
    """What a mistyped FILE, MODEL or option would replace is still there."""
    shutil.copy(corpus, tmp_path / "corpus.jsonl")
    (tmp_path / "bad.jsonl").write_text("{")
    given = ("--id-field", "key", "--quiet", "--force", *options)
    done = vocabtool("index", str(tmp_path / file), "-o", index, "--model", model, *given)
    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr
    assert len(Index.open(index)) == 4


def test_a_file_that_is_no_model_is_told_without_tensorflow(index: str, tmp_path: Path) -> None:
    """Loading it takes seconds; why the file is no file of word vectors either is said."""
    stub = tmp_path / "stub" / "tensorflow.py"
    stub.parent.mkdir()
    stub.write_text("raise SystemExit('TensorFlow was loaded')")
    whole = tmp_path / "whole.txt"
    whole.write_text("love 1 0 0 0\nuse 0 1 0 0\n")
    done = vocabtool("search", index, "love", "--model", str(whole), path=str(stub.parent))
    assert done.returncode == 3
    assert "a text file, not a model" in done.stderr
    assert "the numbers in its lines are whole" in done.stderr
