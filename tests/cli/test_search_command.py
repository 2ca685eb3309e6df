"""What the command ``search`` reads, and how it tells of it."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click
import numpy as np
import pytest

from vocabtool import Index
from vocabtool.cli.main import cli


def test_a_query_of_several_arguments_wants_quotes(tmp_path: Path) -> None:
    """They are shown as one."""
    with pytest.raises(click.UsageError) as caught:
        cli.main(["search", str(tmp_path), "red", "-k", "3", "kettle"], standalone_mode=False)
    assert caught.value.message == "QUERY is one argument; put it in quotes: 'red kettle'"


@pytest.mark.parametrize(
    ("query", "character"),
    [
        ('say "hello world', 5),
        ('"one" "two', 7),
        ("„eins zwei", 1),
        ('a 5" disk', None),
        ('5" and 7" disks', None),
        ("don't 'quote", None),
        ('"a phrase" and more', None),
        ('print("hello")', None),
        ('lone " quote', None),
    ],
)
def test_a_quote_that_is_never_closed_is_told(
    query: str,
    character: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Where it stands, in the argument and in a line; inch marks and apostrophes are none."""
    index = Index.create(tmp_path / "index", dim=2)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(f"fine\n{query}\n".encode())))
    for asked in (query, "-"):
        cli.main(["search", str(index.path), asked, "--fusion", "keyword"], standalone_mode=False)
        told = [line for line in capfd.readouterr().out.splitlines() if "never closed" in line]
        place = f"note: the quote at character {character} is never closed: it makes no phrase"
        assert told == ([] if character is None else [place])


def test_a_line_that_is_not_utf8_leaves_the_other_queries_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """An answer a line, whatever the locale takes the bytes for."""
    index = Index.create(tmp_path / "index", dim=2, vocabulary=["love"])
    with index.writer() as writer:
        writer.add(["xapian", "zébra"], vectors=np.ones((2, 2), np.float32))
    asked = BytesIO(b"xapian\n" + b"\xff\xfe\n" + "zébra".encode())
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(asked, encoding="ascii"))
    cli.main(["search", str(index.path), "-", "--format", "json"], standalone_mode=False)
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [[hit["text"] for hit in each["hits"]] for each in answers] == [
        ["xapian"], [], ["zébra"],
    ]  # fmt: skip  # one query, one list


def test_several_answers_tell_which_query_each_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once above each list, also where nothing is found and where it is explained."""
    index = Index.create(tmp_path / "index", dim=2, vocabulary=["love"])
    with index.writer() as writer:
        writer.add(["xapian", "zebra"], vectors=np.ones((2, 2), np.float32))
    for options in ((), ("--explain",)):
        queries = BytesIO(b"\xef\xbb\xbfxapian\nmissing\nzebra\n")  # a mark is none of a query
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(queries))
        cli.main(["search", str(index.path), "-", *options], standalone_mode=False)
        told = capfd.readouterr().out.splitlines()
        shown = [line[:9] for line in told if line.startswith(("query:", " 1.", "nothing"))]
        assert shown == [
            "query: xa",
            " 1. 0  (1",
            "query: mi",
            "nothing f",
            "query: ze",
            " 1. 1  (1",
        ]


def test_raw_scores_stand_beside_the_scaled_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A score of 1.000 is the best of this answer, not of all: what each leg says is not scaled."""
    index = Index.create(tmp_path / "index", dim=2, metric="l2")
    with index.writer() as writer:
        writer.add(["a zebra", "the yak"], vectors=[[3, 0], [0, 4]])
    near, far = index.search("zebra", vector=[0, 5], a=0)
    assert (near.id, near.score, near.similarity, near.bm25) == ("1", 1.0, -1.0, None)
    assert (far.score, far.similarity) == (0.0, -34.0)
    (told,) = index.search("zebra")
    assert told.similarity is None
    assert told.bm25 == far.bm25
    assert told.to_dict()["bm25"] == told.bm25
    cli.main(["search", str(index.path), "zebra"], standalone_mode=False)
    assert f"1. 0  (1.000, BM25 {told.bm25:.3f})\n" in capfd.readouterr().out


def test_an_abbreviation_is_one_word_like_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its letters are in many documents, and would make the whole weigh more than all else."""
    index = Index.create(tmp_path / "index", dim=2, vocabulary=["love"])
    with index.writer() as writer:
        writer.add(["things, e.g. others", "sorting an array", "e, g"], vectors=np.ones((3, 2)))
    query, options = "e.g. sorting an array", ["--explain", "--fusion", "keyword"]
    cli.main(["search", str(index.path), query, *options], standalone_mode=False)
    told = capfd.readouterr().out
    assert "  e.g      unknown to the model, in 1 document\n" in told
    assert [line[:5] for line in told.splitlines() if line[1:3] in ("1.", "2.", "3.")] == [
        " 1. 1",
        " 2. 0",
    ]


@pytest.fixture
def of_years(tmp_path: Path) -> str:
    """An index of five documents with kept fields."""
    index = Index.create(tmp_path / "index", dim=2, vocabulary=["zebra"])
    rows = [{"id": f"z{n}", "text": "zebra", "year": 2020 + n % 2, "new": n > 3} for n in range(5)]
    with index.writer() as writer:
        writer.add(rows, vectors=np.ones((5, 2), np.float32))
    return str(index.path)


def told_by(command: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a command prints."""
    capfd.readouterr()
    cli.main(command, standalone_mode=False)
    return capfd.readouterr().out


def test_pages_of_a_listing(of_years: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a query; JSON says how many hits there are on all pages."""
    asked = ["search", of_years, "--sort", "year:desc", "--facets", "year,new", "-k", "3"]
    first = told_by(asked, capfd).splitlines()
    assert [line for line in first if line.startswith(" ")][::4] == [" 1. z1", " 2. z3", " 3. z0"]
    assert first[-2:] == ["facet year: 2020 (3), 2021 (2)", "facet new: false (4), true (1)"]
    assert json.loads(told_by([*asked, "--format", "json"], capfd))["total"] == 5
    second = told_by([*asked, "--offset", "3"], capfd)
    assert [line[:6] for line in second.splitlines() if ". z" in line] == [" 1. z2", " 2. z4"]
    assert "last page" in second
    nothing = told_by(["search", of_years, "--where", "year > 2021", "--facets", "new"], capfd)
    assert nothing.splitlines()[:2] == ["nothing found", "facet new: no document with a value"]


def test_groups_are_told(of_years: str, capfd: pytest.CaptureFixture[str]) -> None:
    """How many more there are in each, in text and in JSON."""
    asked = ["search", of_years, "zebra", "--group-by", "year", "--fusion", "keyword"]
    shown = told_by(asked, capfd)
    assert [line.rpartition(", ")[2] for line in shown.splitlines() if ". z" in line] == [
        "2 more in its group)",
        "1 more in its group)",
    ]
    hits = json.loads(told_by([*asked, "--format", "json"], capfd))["hits"]
    assert [(hit["id"], hit["further"]) for hit in hits] == [("z0", 2), ("z1", 1)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "QUERY"),
        (["--group-by", "year"], "QUERY"),
        (["zebra", "--sort", "month"], "sort: no field 'month'"),
        (["--facets", "year,month"], "facets: no field 'month'"),
        (["-", "--offset", "3"], "standard input"),
    ],
)
def test_wrong_arrangements(options: list[str], told: str, of_years: str) -> None:
    """A missing query, unknown fields, and pages of several queries."""
    with pytest.raises(click.UsageError) as caught:
        cli.main(["search", of_years, *options], standalone_mode=False)
    assert told in caught.value.message
