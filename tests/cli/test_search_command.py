"""What the command ``search`` reads, and how it tells of it."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import click
import numpy as np
import pytest

from tests.cli.running import errors, output
from vocabtool import Index, Settings
from vocabtool.cli.main import cli


def search(index: Index, *arguments: str, **options: Any) -> str:
    """What the command prints."""
    return output("search", index.path, *arguments, **options)


def made(folder: Path, texts: list[Any]) -> Index:
    """An index of two dimensions whose model knows one word."""
    index = Index.create(folder / "index", dim=2, vocabulary=["love"])
    with index.writer() as writer:
        writer.add(texts, vectors=np.ones((len(texts), 2), np.float32))
    return index


@pytest.mark.parametrize(
    ("query", "character"),
    [('"one" "two', 7), ("„eins zwei", 1), ('5" and 7" disks', None), ("don't 'quote", None)],
)
def test_a_quote_that_is_never_closed_is_told(
    query: str, character: int | None, tmp_path: Path
) -> None:
    """Where it stands, in the argument and in a line; inch marks and apostrophes are none."""
    index = Index.create(tmp_path / "index", dim=2)
    note = f"note: the quote at character {character} is never closed: it makes no phrase"
    for argument in (query, "-"):
        shown = search(index, argument, "--fusion", "keyword", given=f"fine\n{query}\n".encode())
        notes = [line for line in shown.splitlines() if "never closed" in line]
        assert notes == ([] if character is None else [note])


def test_several_queries(tmp_path: Path) -> None:
    """Each answer tells its query; UTF-8 whatever the locale, and a bad line harms no other."""
    index = made(tmp_path, ["xapian", "zébra"])
    lines = b"\xef\xbb\xbfxapian\n\xff\xfe\n" + "zébra".encode()
    answers = map(json.loads, search(index, "-", "--format", "json", given=lines).splitlines())
    texts = [[hit["text"] for hit in answer["hits"]] for answer in answers]
    assert texts == [["xapian"], [], ["zébra"]]
    for options in ((), ("--explain",)):
        told = search(index, "-", *options, given=lines).splitlines()
        shown = [line[:9] for line in told if line.startswith(("query:", " 1.", "nothing"))]
        assert shown[:2] + shown[3:4] == ["query: xa", " 1. 0  (1", "nothing f"]
        assert shown[4:] == ["query: zé", " 1. 1  (1"]


@pytest.fixture
def of_years(tmp_path: Path) -> Index:
    """An index of five documents with kept fields."""
    rows = [{"id": f"z{n}", "text": "zebra", "year": 2020 + n % 2, "new": n > 3} for n in range(5)]
    return made(tmp_path, rows)


def test_pages_of_a_listing(of_years: Index) -> None:
    """Without a query; JSON says how many hits there are on all pages."""
    listing = ("--sort", "year:desc", "--facets", "year,new", "-k", "3")
    first = search(of_years, *listing).splitlines()
    assert [line for line in first if line.startswith(" ")][::4] == [" 1. z1", " 2. z3", " 3. z0"]
    assert first[-2:] == ["facet year: 2020 (3), 2021 (2)", "facet new: false (4), true (1)"]
    assert json.loads(search(of_years, *listing, "--format", "json"))["total"] == 5
    second = search(of_years, *listing, "--offset", "3")
    assert [line[:6] for line in second.splitlines() if ". z" in line] == [" 1. z2", " 2. z4"]
    beyond = search(of_years, "--sort", "year", "--offset", "9")
    assert beyond.splitlines() == ["nothing on this page of 5 hits"]
    nothing = search(of_years, "--where", "year > 2021", "--facets", "new")
    assert nothing.splitlines()[:2] == ["nothing found", "facet new: no document with a value"]


def test_groups_are_told(of_years: Index) -> None:
    """How many more there are in each, in text and in JSON."""
    command = ("zebra", "--group-by", "year", "--fusion", "keyword")
    hits = [line for line in search(of_years, *command).splitlines() if ". z" in line]
    more = [line.rpartition(", ")[2] for line in hits]
    assert more == ["2 more in its group)", "1 more in its group)"]
    found = json.loads(search(of_years, *command, "--format", "json"))["hits"]
    assert [(hit["id"], hit["further"]) for hit in found] == [("z0", 2), ("z1", 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group-by", "year"], "QUERY"),
        (["red", "-k", "3", "kettle"], "QUERY is one argument; put it in quotes: 'red kettle'"),
        (["zebra", "--sort", "month"], "sort: no field 'month'"),
        (["--facets", "year,month"], "facets: no field 'month'"),
    ],
)
def test_wrong_arguments(options: list[str], message: str, of_years: Index) -> None:
    """A missing query, several arguments, unknown fields, and what is for one query."""
    told = errors("search", of_years.path, *options, code=2)
    assert message in " ".join(told.split())


def test_each_option_of_a_search_is_described_once() -> None:
    """The keywords of Python and the options of the command are the fields of ``Settings``."""
    hints = get_type_hints(Settings)
    for method in (Index.search, Index.search_many):
        assert set(hints) < set(signature(method).parameters)
    command: Any = cli.get_command(click.Context(cli), "search")
    of_command = {option.name: option.opts for option in command.params}
    assert set(hints) - set(of_command) == {"identifier", "rerank_depth"}
    assert of_command["group_by"] == ["--group-by"]
    assert of_command["a"] == ["-a", "--weight"]


def test_each_option_of_an_index_is_described_once() -> None:
    """The keywords of Python are options of the command, of the index and of its model."""
    keywords = {*signature(Index.create).parameters} - {"path", "sample", "in_place", "build"}
    command = cli.get_command(click.Context(cli), "index")
    assert command is not None
    only_python = {
        "fingerprint",
        "recall",
        "exact_below",
        "kind",
        "fitted",
        "max_batch",
        "requests",
        "retries",
    }
    assert keywords - {option.name for option in command.params} == only_python
    assert {"metric", "language", "dim", "prompt_query"} < keywords
    assert keywords < {*signature(Index.create_for).parameters}
    of_model = {*signature(Index.open).parameters} - {"path"}
    assert keywords - of_model == {"metric", "dtype", "language", "recall", "exact_below", "force"}
