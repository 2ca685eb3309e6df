"""The commands that list, get, count, export, copy and delete what an index contains."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.running import told
from tests.conftest import ROOT
from vocabtool import Index

MODEL = str(ROOT / "data" / "small_glove.txt")
ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "I love to use Xapian", "year": 2019, "lang": "en", "open": True},
    {"id": "b", "text": "I love to use the index\nand <b>more</b>", "year": 2020, "lang": "en"},
    {"id": "c", "text": "the error ERR-48007-X came back", "year": 2021, "lang": "de"},
    {"id": "d", "text": "an error came back", "year": 2021, "lang": "en", "mark": 1.5},
    {"id": "é\t1", "text": "naïve café", "year": 2021, "lang": "fr", "tags": ["x", "y"]},
    {"id": "f", "text": "the last text", "year": None, "lang": "en", "mark": 2, "open": False},
    {"id": "g", "text": "", "lang": "0x\u0007y"},
]
KEEP = ("year", "lang", "open", "mark", "tags")
MAKE = ("--model", MODEL, "--id-field", "id", "--field", "text", "--quiet")
KEPT = [part for name in KEEP for part in ("--keep", name)]


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """A row as an index has it: without nulls, lists as JSON text."""
    plain = {name: row[name] for name in ("id", "text", *KEEP) if row.get(name) is not None}
    return {name: json.dumps(v) if isinstance(v, list) else v for name, v in plain.items()}


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def json_lines(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told(*arguments, "--format", "jsonl")[0].splitlines()]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return file


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of them, which no test changes."""
    folder = tmp_path_factory.mktemp("made") / "index"
    told("index", corpus, "-o", folder, *MAKE, *KEPT)
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Path:
    """An index of its own for a test."""
    return Path(shutil.copytree(made, tmp_path / "index"))


def test_list(made: Path) -> None:
    """Ids in the order of adding; values of fields behind tabs; control characters escaped."""
    ids = ["a", "b", "c", "d", "é\\t1", "f", "g"]
    assert told("list", made)[0].splitlines() == ids
    assert told("list", made, "-k", "2", "--where", "year >= 2020")[0] == "b\nc\n"
    fields = ("--field", "year", "--field", "open", "--where", "lang = 'en'")
    assert told("list", made, *fields)[0] == "a\t2019\ttrue\nb\t2020\t\nd\t2021\t\nf\t\tfalse\n"
    assert told("list", made, "--field", "lang")[0].splitlines()[-1] == "g\t0x\\x07y"
    assert json_lines("list", made, "--field", "text", "--field", "tags")[3:5] == [
        {"id": "d", "text": "an error came back", "tags": None},
        {"id": "é\t1", "text": "naïve café", "tags": '["x", "y"]'},
    ]
    errors = told("list", made, "--field", "page", code=3)[1]
    assert "no field 'page'; the fields are 'id', 'text', 'year'" in errors
    assert "no field 'page'" in told("list", made, "--where", "page = 1", code=3)[1]


def test_get(made: Path) -> None:
    """All fields, the lines of the text indented; of a missing id its name, and exit code 1."""
    out, errors = told("get", made, "b", "nine", "f", code=1)
    assert out == (
        "b\n  year: 2020\n  lang: en\n    I love to use the index\n    and <b>more</b>\n"
        "f\n  lang: en\n  open: false\n  mark: 2\n    the last text\n"
    )
    assert errors == "vocabtool: not in the index: nine\n"
    rows = [stored(row) for row in ROWS]
    assert json_lines("get", made, *(row["id"] for row in ROWS)) == rows
    errors = told("get", made, "1", "2", "3", "4", "5", code=1)[1]
    assert errors.splitlines()[-1] == "vocabtool: ... and 2 more"


def test_stats(index: Path) -> None:
    """Counts as by hand, also without a deleted document; the sizes are those on the disk."""
    told("delete", index, "c")
    found = json.loads(told("stats", index, "--format", "json")[0])
    left = [stored(row) for row in ROWS if row["id"] != "c"]
    assert (found["documents"], found["deleted"], found["commit"]) == (6, 1, 2)
    assert (found["model"], found["recall"], found["tokens"]) == (MODEL, None, None)
    kinds = dict(zip(KEEP, ("integer", "string", "boolean", "number", "string"), strict=True))
    assert {each["name"]: each["kind"] for each in found["fields"]} == kinds
    for each in found["fields"]:
        counts = Counter(row[each["name"]] for row in left if each["name"] in row)
        assert each["documents"] == counts.total()
        assert each["distinct"] == len(counts)
        several = {value: count for value, count in counts.items() if count > 1}
        assert {pair["value"]: pair["count"] for pair in each["frequent"]} == several
    files = [file for file in index.rglob("*") if file.is_file()]
    assert sum(found["files"].values()) == sum(file.stat().st_size for file in files)
    vectors = index / "generation-000000" / "vectors.bin"
    assert found["files"]["vectors"] == vectors.stat().st_size == 7 * 4 * 2


def test_stats_for_people(made: Path) -> None:
    """The whole report."""
    lines = told("stats", made)[0].splitlines()
    assert lines[0] == f"{made}: 7 documents; commit 1 in generation 0"
    assert lines[1:5] == [
        f"  model       {MODEL} (static)",
        "  vectors     4 numbers, float16, cosine; exact search",
        "  keywords    english, 31 running words",
        "  weight      a = 0.5, not calibrated",
    ]
    assert lines[7:] == [
        "",
        "fields",
        "  year: whole numbers, in 5 documents, 3 different values",
        "      2021 3",
        "  lang: strings, in 7 documents, 4 different values",
        "      en 4",
        "  open: true and false, in 2 documents, 2 different values",
        "  mark: numbers, in 2 documents, 2 different values",
        "  tags: strings, in 1 document, 1 different value",
    ]


def test_when_the_weight_was_found(index: Path, tmp_path: Path) -> None:
    """The time in UTC, and how many documents there were; later changes leave both."""
    queries, qrels = tmp_path / "queries.tsv", tmp_path / "qrels.tsv"
    queries.write_text("".join(f"q{n}\tuse Xapian {n}\n" for n in range(12)))
    qrels.write_text("".join(f"q{n} 0 a 1\n" for n in range(12)))
    before = datetime.now(UTC).replace(microsecond=0)
    told("calibrate", index, "--queries", queries, "--qrels", qrels)
    after = datetime.now(UTC)
    told("delete", index, "a")
    found = json.loads(told("stats", index, "--format", "json")[0])["calibration"]
    assert before <= datetime.fromisoformat(found["time"]) <= after
    assert (found["judged"], found["documents"]) == (12, 7)
    weight = f"  weight      a = {found['a']:.2f}, tuned on 12 judged queries"
    lines = told("stats", index)[0].splitlines()
    at = lines.index(weight)
    when = f"found {found['time']}, when the index had 7 documents"
    assert lines[at + 1] == f"{'':14}{when}"


def test_unknown_words_are_those_of_oov(made: Path, corpus: Path) -> None:
    """The command ``oov`` with the same model and documents tells the same counts."""
    found = json.loads(told("stats", made, "--unknown", "--format", "json")[0])
    oov = json.loads(told("oov", MODEL, corpus, "--format", "json")[0])
    assert found["tokens"] == oov["tokens"]["all"] > 20
    assert found["tokens_unknown"] == oov["tokens"]["unknown"] > 0
    listed = {each["word"]: each["count"] for each in oov["unknown_words"]}
    assert found["unknown_words"]
    for each in found["unknown_words"]:
        assert listed[each["value"]] == each["count"]
    assert "  unknown     " in told("stats", made, "--unknown")[0]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_an_export_is_read_back(made: Path, tmp_path: Path, ending: str) -> None:
    """An index of the export lists, gets and finds the same."""
    file, again = tmp_path / f"out.{ending}", tmp_path / "again"
    errors = told("export", made, "-o", file)[1]
    keep = " ".join(KEPT)
    assert errors == (
        f"vocabtool: 7 documents written to {file}\nvocabtool: to read them again: vocabtool "
        f"index {file} --id-field id --field text {keep}\n"
    )
    told("index", file, "-o", again, *MAKE, *KEPT)
    fields = [part for name in ("text", *KEEP) for part in ("--field", name)]
    assert json_lines("list", again, *fields) == json_lines("list", made, *fields)
    ids = [row["id"] for row in ROWS]
    assert json_lines("get", again, *ids) == json_lines("get", made, *ids)
    for query in ("Xapian error", "naïve", "ERR-48007-X"):
        search = ("search", query, "--where", "year > 2018", "--format", "json")
        found = [told(search[0], folder, *search[1:])[0] for folder in (made, again)]
        assert json.loads(found[0])["hits"] == json.loads(found[1])["hits"] != []


def test_what_an_export_contains(made: Path, tmp_path: Path) -> None:
    """As the libraries that own the formats read it; a condition chooses documents."""
    wanted = [stored(row) for row in ROWS if row.get("lang") == "en"]
    for ending in ("jsonl", "parquet", "arrow"):
        where = ("--where", "lang = 'en'", "--vectors")
        told("export", made, "-o", tmp_path / f"x.{ending}", *where)
    lines = (tmp_path / "x.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == wanted
    matrix = np.load(tmp_path / "x.vectors.npy")
    assert (matrix.dtype, matrix.shape) == (np.float32, (4, 4))
    with pa.memory_map(str(tmp_path / "x.arrow")) as mapped:
        arrow = pa.ipc.open_file(mapped).read_all()
    for table in (parquet.read_table(tmp_path / "x.parquet"), arrow):
        vector = table.schema.field("vector").type
        assert (vector.list_size, vector.value_type) == (4, pa.float32())
        assert [str(each) for each in table.schema.types[:-1]] == [
            *("string", "string", "int64", "string", "bool", "double", "string")
        ]
        rows = table.drop_columns("vector").to_pylist()
        assert [{k: v for k, v in row.items() if v is not None} for row in rows] == wanted
        assert np.array_equal(np.array(table["vector"].to_pylist(), np.float32), matrix)
    assert names(tmp_path) == ["x.arrow", "x.jsonl", "x.parquet", "x.vectors.npy"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_exported_vectors_are_read_back_as_told(made: Path, tmp_path: Path, ending: str) -> None:
    """The command that is told makes an index without a model, with the same vectors."""
    file, again = tmp_path / f"it's {ending}.{ending}", tmp_path / "again"
    errors = told("export", made, "-o", file, "--vectors")[1]
    _, *command = shlex.split(errors.partition("to read them again: ")[2])
    told(*command, "-o", again, "--quiet")
    vectors = []
    for folder in (made, again):
        out = tmp_path / f"{folder.name}-out.jsonl"
        told("export", folder, "-o", out, "--vectors")
        vectors.append(np.load(out.with_suffix(".vectors.npy")))
    assert vectors[0].shape == (7, 4)
    assert np.array_equal(*vectors)
    assert json_lines("list", again, "--field", "year") == json_lines(
        "list", made, "--field", "year"
    )


def test_an_export_that_fails_changes_no_file(made: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("before")
    assert "no field 'z'" in told("export", made, "-o", file, "--where", "z = 1", code=3)[1]
    assert ".jsonl, .parquet, .arrow" in told("export", made, "-o", "x.csv", code=2)[1]
    assert "does not exist" in told("export", made, "-o", tmp_path / "no/x.arrow", code=3)[1]
    assert (file.read_text(), names(tmp_path)) == ("before", ["x.jsonl"])


def test_delete_where(index: Path) -> None:
    """One commit, without a question; a dry run changes nothing."""
    condition = ("--where", "year <= 2020")
    assert told("delete", index, *condition, "--dry-run")[1] == (
        "vocabtool: 2 documents would be deleted, 5 left\n"
    )
    assert told("delete", index, "a", "z", "--dry-run", code=1)[1].splitlines() == [
        "vocabtool: 1 of 2 documents would be deleted, 6 left",
        "vocabtool: not in the index: z",
    ]
    assert Index.open(index).manifest.commit == 1
    assert told("delete", index, *condition)[1] == "vocabtool: 2 documents deleted, 5 left\n"
    opened = Index.open(index)
    assert (opened.manifest.commit, [*opened.ids()]) == (2, ["c", "d", "é\t1", "f", "g"])
    assert told("delete", index, *condition)[1] == "vocabtool: 0 documents deleted, 5 left\n"


def test_more_than_a_third_is_not_deleted(index: Path) -> None:
    """By a condition, unless forced; ids are named one by one."""
    errors = told("delete", index, "--where", "lang = 'en'", code=3)[1]
    assert "4 of 7 documents satisfy the condition. This is more than a third" in errors
    assert "--force" in errors
    assert len(Index.open(index)) == 7
    errors = told("delete", index, "--where", "lang = 'en'", "--force")[1]
    assert errors == "vocabtool: 4 documents deleted, 3 left\n"
    assert told("delete", index, "c", "g")[1] == "vocabtool: 2 of 2 documents deleted, 1 left\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "pass IDs, --where CONDITION, or --whole-index"),
        (("a", "--where", "year = 1"), "pass IDs, --where CONDITION, or --whole-index"),
        (("a", "--force"), "--force needs --where"),
        (("a", "--whole-index"), "--whole-index takes no IDs, --where or --force"),
        (("--where", "year = 1", "--whole-index"), "--whole-index takes no IDs"),
        (("--whole-index",), "--whole-index needs the address of an index, got the folder"),
        (("--whole-index", "--dry-run"), "--whole-index needs the address of an index"),
    ],
)
def test_delete_of_nothing_or_both(made: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in told("delete", made, *arguments, code=2)[1]


def test_copy(made: Path, tmp_path: Path) -> None:
    """The copy lists, gets and finds the same, is verified, and can be changed by itself."""
    new = tmp_path / "new"
    assert told("copy", made, new)[1] == f"vocabtool: 7 documents copied to {new} (commit 1)\n"
    for command in (("list",), ("get", "a", "g"), ("search", "Xapian error", "--explain")):
        arguments = command[1:]
        assert told(command[0], new, *arguments) == told(command[0], made, *arguments)
    assert "no damage: 7 documents" in told("verify", new)[0]
    with Index.open(new).writer() as writer:
        writer.add([{"id": "h", "text": "the error"}])
        writer.delete(["a"])
    told("compact", new)
    assert "no damage: 7 documents" in told("verify", new)[0]
    assert len(Index.open(made)) == 7


def test_a_copy_replaces_nothing(made: Path, index: Path, tmp_path: Path) -> None:
    """Not a folder with files, nothing inside the index, nothing of a damaged index."""
    assert "already exists" in told("copy", made, index, code=3)[1]
    assert "inside the index" in told("copy", index, index / "new", code=2)[1]
    assert "no such folder" in told("copy", tmp_path / "none", tmp_path / "new", code=3)[1]
    assert "no/new" in told("copy", made, tmp_path / "no" / "new", code=3)[1].replace(
        ".new.part", "new"
    )
    (tmp_path / ".new.part").mkdir()
    (tmp_path / ".new.part" / "mine.txt").write_text("of somebody else")
    assert "mine.txt" in told("copy", made, tmp_path / "new", code=3)[1]
    shutil.rmtree(tmp_path / ".new.part")
    for name in ("vectors.bin", "index.db", "keywords/meta.json"):
        file = index / "generation-000000" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:5] + bytes([whole[5] ^ 1]) + whole[6:])
        assert Path(name).name in told("copy", index, tmp_path / "new", code=3)[1]
        file.write_bytes(whole)
    assert names(tmp_path) == ["index"]
    (tmp_path / "new").mkdir()  # an empty folder may be there
    told("copy", index, tmp_path / "new")
    assert len(Index.open(tmp_path / "new")) == 7


def test_when_it_was_verified(index: Path) -> None:
    """``stats`` shows the commit and what was found, for people and as JSON."""
    assert "  verified  " not in told("stats", index)[0]
    told("verify", index)
    found = json.loads(told("stats", index, "--format", "json")[0])["verified"]
    assert (found["commit"], found["documents"], found["problem"]) == (1, 7, None)
    line = f"  verified    {found['time']}, commit 1: no damage"
    assert line in told("stats", index)[0].splitlines()
