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

from tests.cli.running import errors, output, told
from tests.cli.test_index_commands import MODEL, answer
from vocabtool import Index

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "I love to use Xapian", "year": 2019, "lang": "en", "open": True},
    {"id": "b", "text": "I love to use the index\nand <b>more</b>", "year": 2020, "lang": "en"},
    {"id": "c", "text": "the error ERR-48007-X came back", "year": 2021, "lang": "de"},
    {"id": "d", "text": "an error came back", "year": 2021, "lang": "en", "mark": 1.5},
    {"id": "é\t1", "text": "naïve café", "year": 2021, "lang": "fr", "tags": ["x", "y"]},
    {"id": "f", "text": "the last text", "year": None, "lang": "en", "mark": 2, "open": False},
    {"id": "g", "text": "", "lang": "0x\u0007y"},
]
IDS = [row["id"] for row in ROWS]
KEEP = ("year", "lang", "open", "mark", "tags")
MAKE = ("--model", MODEL, "--id-field", "id", "--field", "text", "--quiet")
KEPT = [option for name in KEEP for option in ("--keep", name)]
FIELDS = [option for name in ("text", *KEEP) for option in ("--field", name)]


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """A row as an index has it: without nulls, lists as JSON text."""
    plain = {name: row[name] for name in ("id", "text", *KEEP) if row.get(name) is not None}
    return {name: json.dumps(v) if isinstance(v, list) else v for name, v in plain.items()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def json_lines(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output(*arguments, "--format", "jsonl").splitlines()]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return file


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of them, which no test changes."""
    folder = tmp_path_factory.mktemp("made") / "index"
    output("index", corpus, "-o", folder, *MAKE, *KEPT)
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Path:
    """An index of its own for a test."""
    return Path(shutil.copytree(made, tmp_path / "index"))


def test_list(made: Path) -> None:
    """Ids in the order of adding; values of fields behind tabs; control characters escaped."""
    assert output("list", made).splitlines() == ["a", "b", "c", "d", "é\\t1", "f", "g"]
    assert output("list", made, "-k", "2", "--where", "year >= 2020") == "b\nc\n"
    fields = ("--field", "year", "--field", "open", "--where", "lang = 'en'")
    assert output("list", made, *fields) == "a\t2019\ttrue\nb\t2020\t\nd\t2021\t\nf\t\tfalse\n"
    assert output("list", made, "--field", "lang").splitlines()[-1] == "g\t0x\\x07y"
    assert json_lines("list", made, "--field", "text", "--field", "tags")[3:5] == [
        {"id": "d", "text": "an error came back", "tags": None},
        {"id": "é\t1", "text": "naïve café", "tags": '["x", "y"]'},
    ]
    message = "no field 'page'; the fields are 'id', 'text', 'year'"
    assert message in errors("list", made, "--field", "page")
    assert "no field 'page'" in errors("list", made, "--where", "page = 1")


def test_get(made: Path) -> None:
    """All fields, the lines of the text indented; of a missing id its name, and exit code 1."""
    assert told("get", made, "b", "nine", "f", code=1) == (
        "b\n  year: 2020\n  lang: en\n    I love to use the index\n    and <b>more</b>\n"
        "f\n  lang: en\n  open: false\n  mark: 2\n    the last text\n",
        "vocabtool: not in the index: nine\n",
    )
    assert json_lines("get", made, *IDS) == [stored(row) for row in ROWS]
    message = errors("get", made, "1", "2", "3", "4", "5", code=1)
    assert message.splitlines()[-1] == "vocabtool: ... and 2 more"


def test_stats(index: Path) -> None:
    """Counts as by hand, also without a deleted document; the sizes are those on the disk."""
    output("delete", index, "c")
    stats = answer("stats", index)
    left = [stored(row) for row in ROWS if row["id"] != "c"]
    assert (stats["documents"], stats["deleted"], stats["commit"]) == (6, 1, 2)
    assert (stats["model"], stats["recall"], stats["tokens"]) == (MODEL, None, None)
    kinds = dict(zip(KEEP, ("integer", "string", "boolean", "number", "string"), strict=True))
    assert {field["name"]: field["kind"] for field in stats["fields"]} == kinds
    for field in stats["fields"]:
        counts = Counter(row[field["name"]] for row in left if field["name"] in row)
        assert (field["documents"], field["distinct"]) == (counts.total(), len(counts))
        several = {value: count for value, count in counts.items() if count > 1}
        assert {pair["value"]: pair["count"] for pair in field["frequent"]} == several
    files = [file for file in index.rglob("*") if file.is_file()]
    assert sum(stats["files"].values()) == sum(file.stat().st_size for file in files)
    vectors = index / "generation-000000" / "vectors.bin"
    assert stats["files"]["vectors"] == vectors.stat().st_size == 7 * 4 * 2


def test_stats_for_people(made: Path) -> None:
    """The whole report."""
    lines = output("stats", made).splitlines()
    assert lines[:5] == [
        f"{made}: 7 documents; commit 1 in generation 0",
        f"  model       {MODEL} (static)",
        "  vectors     4 numbers, float16, cosine; exact search",
        "  keywords    english, 33 running words",
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
    output("calibrate", index, "--queries", queries, "--qrels", qrels)
    after = datetime.now(UTC)
    output("delete", index, "a")
    found = answer("stats", index)["calibration"]
    assert before <= datetime.fromisoformat(found["time"]) <= after
    assert (found["judged"], found["documents"]) == (12, 7)
    assert (
        f"  weight      a = {found['a']:.2f}, tuned on 12 judged queries\n"
        f"{'':14}found {found['time']}, when the index had 7 documents\n"
    ) in output("stats", index)


def test_unknown_words_are_those_of_oov(made: Path, corpus: Path) -> None:
    """The command ``oov`` with the same model and documents tells the same counts."""
    stats, oov = answer("stats", made, "--unknown"), answer("oov", MODEL, corpus)
    assert stats["tokens"] == oov["tokens"]["all"] > 20
    assert stats["tokens_unknown"] == oov["tokens"]["unknown"] > 0
    counts = {word["word"]: word["count"] for word in oov["unknown_words"]}
    assert stats["unknown_words"]
    for word in stats["unknown_words"]:
        assert counts[word["value"]] == word["count"]
    assert "  unknown     " in output("stats", made, "--unknown")


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_an_export_is_read_back(made: Path, tmp_path: Path, ending: str) -> None:
    """An index of the export lists, gets and finds the same; its vectors are those exported."""
    file, again, own = tmp_path / f"out.{ending}", tmp_path / "again", tmp_path / "own"
    assert told("export", made, "-o", file)[1] == (
        f"vocabtool: 7 documents written to {file}\nvocabtool: to read them again: vocabtool "
        f"index {file} --id-field id --field text {' '.join(KEPT)}\n"
    )
    output("index", file, "-o", again, *MAKE, *KEPT)
    assert json_lines("list", again, *FIELDS) == json_lines("list", made, *FIELDS)
    assert json_lines("get", again, *IDS) == json_lines("get", made, *IDS)
    for query in ("Xapian error", "ERR-48007-X"):
        search = (query, "--where", "year > 2018")
        hits = [answer("search", folder, *search)["hits"] for folder in (made, again)]
        assert hits[0] == hits[1] != []
    # The command that is told makes an index without a model, with the same vectors.
    file = tmp_path / f"it's {ending}.{ending}"
    message = told("export", made, "-o", file, "--vectors")[1]
    _, *command = shlex.split(message.partition("to read them again: ")[2])
    told(*command, "-o", own, "--quiet")
    vectors = []
    for folder in (made, own):
        out = tmp_path / f"{folder.name}-out.jsonl"
        told("export", folder, "-o", out, "--vectors")
        vectors.append(np.load(out.with_suffix(".vectors.npy")))
    assert vectors[0].shape == (7, 4)
    assert np.array_equal(*vectors)
    assert json_lines("list", own, *FIELDS) == json_lines("list", made, *FIELDS)


def test_what_an_export_contains(made: Path, tmp_path: Path) -> None:
    """As the libraries that own the formats read it; a condition chooses documents."""
    wanted = [stored(row) for row in ROWS if row.get("lang") == "en"]
    where = ("--where", "lang = 'en'", "--vectors")
    for ending in ("jsonl", "parquet", "arrow"):
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
        types = "string string int64 string bool double string"
        assert [str(kind) for kind in table.schema.types[:-1]] == types.split()
        rows = table.drop_columns("vector").to_pylist()
        assert [{k: v for k, v in row.items() if v is not None} for row in rows] == wanted
        assert np.array_equal(np.array(table["vector"].to_pylist(), np.float32), matrix)
    assert names(tmp_path) == ["x.arrow", "x.jsonl", "x.parquet", "x.vectors.npy"]


def test_an_export_that_fails_changes_no_file(made: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("before")
    assert "no field 'z'" in errors("export", made, "-o", file, "--where", "z = 1")
    assert ".jsonl, .parquet, .arrow" in errors("export", made, "-o", "x.csv", code=2)
    assert "does not exist" in errors("export", made, "-o", tmp_path / "no/x.arrow")
    assert (file.read_text(), names(tmp_path)) == ("before", ["x.jsonl"])


def test_delete_where(index: Path) -> None:
    """One commit, without a question; a dry run changes nothing."""
    condition = ("--where", "year <= 2020")
    dry = told("delete", index, *condition, "--dry-run")[1]
    assert dry == "vocabtool: 2 documents would be deleted, 5 left\n"
    assert errors("delete", index, "a", "z", "--dry-run", code=1).splitlines() == [
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
    command = ("delete", index, "--where", "lang = 'en'")
    message = errors(*command)
    assert "4 of 7 documents satisfy the condition. This is more than a third" in message
    assert "--force" in message
    assert len(Index.open(index)) == 7
    assert told(*command, "--force")[1] == "vocabtool: 4 documents deleted, 3 left\n"
    assert told("delete", index, "c", "g")[1] == "vocabtool: 2 of 2 documents deleted, 1 left\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "--where", "year = 1"), "pass IDs, --where CONDITION, or --whole-index"),
        (("a", "--force"), "--force needs --where"),
        (("a", "--whole-index"), "--whole-index takes no IDs, --where or --force"),
        (("--whole-index",), "--whole-index needs the address of an index, got the folder"),
    ],
)
def test_delete_of_nothing_or_both(made: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in errors("delete", made, *arguments, code=2)


def test_copy(made: Path, tmp_path: Path) -> None:
    """The copy lists, gets and finds the same, is verified, and can be changed by itself."""
    new = tmp_path / "new"
    (made / ".lock").unlink()  # as in an index that was copied with `cp DIR/*`
    assert told("copy", made, new)[1] == f"vocabtool: 7 documents copied to {new} (commit 1)\n"
    for command, *arguments in (("list",), ("get", "a"), ("search", "Xapian error", "--explain")):
        assert told(command, new, *arguments) == told(command, made, *arguments)
    assert "no damage: 7 documents" in output("verify", new)
    with Index.open(new).writer() as writer:
        writer.add([{"id": "h", "text": "the error"}])
        writer.delete(["a"])
    output("compact", new)
    assert "no damage: 7 documents" in output("verify", new)
    assert len(Index.open(made)) == 7


def test_a_copy_replaces_nothing(made: Path, index: Path, tmp_path: Path) -> None:
    """Not a folder with files, nothing inside the index, nothing of a damaged index."""
    new = tmp_path / "new"
    assert "already exists" in errors("copy", made, index)
    assert "inside the index" in errors("copy", index, index / "new", code=2)
    assert "no such folder" in errors("copy", tmp_path / "none", new)
    message = errors("copy", made, tmp_path / "no" / "new")
    assert "no/new" in message.replace(".new.part", "new")
    (tmp_path / ".new.part").mkdir()
    (tmp_path / ".new.part" / "mine.txt").write_text("of somebody else")
    assert "mine.txt" in errors("copy", made, new)
    shutil.rmtree(tmp_path / ".new.part")
    for name in ("vectors.bin", "index.db", "keywords/meta.json"):
        file = index / "generation-000000" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:5] + bytes([whole[5] ^ 1]) + whole[6:])
        assert str(file) in errors("copy", index, new)
        file.write_bytes(whole)
    assert names(tmp_path) == ["index"]
    new.mkdir()  # an empty folder may be there
    output("copy", index, new)
    assert len(Index.open(new)) == 7
