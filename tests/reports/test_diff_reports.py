"""Comparisons as files. The oracles are Python's json, csv, html.parser and xml, and pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.html_page import Page
from tests.some_reports import A, B, compared, nasty_diff, saved, text_of, vocabulary
from vocabtool.reports.comparison import save_diff

SHARED = 2 + 3


@pytest.mark.parametrize("form", ["json", "html"])
def test_what_holds_the_whole_comparison(form: str, tmp_path: Path) -> None:
    """JSON and the page."""
    with pytest.raises(
        ValueError, match=f"`only` does not work with {form}, which contains the whole comparison"
    ):
        save_diff(nasty_diff(), tmp_path / f"diff.{form}", only="a")


def test_json_by_hand(tmp_path: Path) -> None:
    """The documented keys, with full precision."""
    document = json.loads(saved(nasty_diff(), tmp_path, "json"))
    assert list(document) == [
        *("a", "b", "fold", "common", "only_a", "only_b", "jaccard", "kinds"),
        *("use", "cuts", "notes", "entries"),
    ]
    size = len(A) + len(B) - SHARED
    assert document["a"] == {
        **{"label": "models/<i>", "name": "<b>one</b>", "kind": "list", "marker": None},
        **{"size": len(A), "distinct": len(A), "duplicates": 0, "merged": 0},
    }
    assert (document["common"], document["only_a"]) == (SHARED, len(A) - SHARED)
    assert (document["only_b"], document["jaccard"]) == (2, SHARED / size)
    use = document["use"]
    tokens = {"all": 9, "a": 4, "b": 5, "both": 2, "only_a": 2, "only_b": 3, "neither": 2}
    assert use["tokens"] == tokens
    assert use["shares"]["neither"] == 2 / 9
    assert use["sources"] == ["<u>.txt", "b.txt"]
    assert use["only_b"] == {
        "words": 2,
        "commonest": [{"word": "paris", "count": 2}, {"word": "dog", "count": 1}],
    }
    lists = document["entries"]
    assert lists["common"][0] == {
        **{"token": "the", "id_a": 1, "id_b": 2, "kind_a": "word", "kind_b": "word"},
    }
    assert lists["only_b"] == [
        {"token": "paris", "id_b": 3, "kind_b": "word"},
        {"token": "dog", "id_b": 4, "kind_b": "word"},
    ]
    assert json.loads(saved(nasty_diff(corpus=False), tmp_path, "json"))["use"] is None


def bytes_of(row: dict[str, Any]) -> bytes:
    if row.get("base64"):
        return base64.b64decode(row["base64"])
    text: str = row["token"]
    return text.encode()


def expected(most: int | None = None) -> list[tuple[bytes, int, int]]:
    """Every entry, and the ids in A and B, 0 for none: those of both, of A, of B."""
    ids_a, ids_b = ({e: i for i, e in enumerate(some, 1)} for some in (A, B))
    both = [e for e in A if e in ids_b]
    only_a = [e for e in A if e not in ids_b]
    only_b = [e for e in B if e not in ids_a]
    parts = [part[:most] for part in (both, only_a, only_b)]
    return [(e, ids_a.get(e, 0), ids_b.get(e, 0)) for part in parts for e in part]


@pytest.mark.parametrize("most", [None, 0, 1, 3])
def test_complete_lists_come_back(most: int | None, tmp_path: Path) -> None:
    """JSON, CSV and Parquet give back each entry's bytes and ids; a limit holds for each part."""
    found = nasty_diff()
    document = json.loads(saved(found, tmp_path, "json", most=most))["entries"]
    rows = [row for part in ("common", "only_a", "only_b") for row in document[part]]
    shown = [(bytes_of(row), row.get("id_a", 0), row.get("id_b", 0)) for row in rows]
    assert shown == expected(most)
    text = io.StringIO(saved(found, tmp_path, "csv", most=most).decode(), newline="")
    cells = list(csv.DictReader(text))
    shown = [(bytes_of(row), int(row["id_a"] or 0), int(row["id_b"] or 0)) for row in cells]
    assert shown == expected(most)
    table = pq.read_table(io.BytesIO(saved(found, tmp_path, "parquet", most=most))).to_pylist()
    shown = [
        (row["bytes"] or (row["token"] or "").encode(), row["id_a"] or 0, row["id_b"] or 0)
        for row in table
    ]
    assert shown == expected(most)


def test_the_tab_separated_rows() -> None:
    """A line an entry, each with as many fields as the first; nothing unprintable."""
    rows = [line.split("\t") for line in text_of(nasty_diff()).splitlines()]
    assert rows[0] == ["token", "id_a", "id_b", "kind_a", "kind_b"]
    assert rows[1] == ["the", "1", "2", "word", "word"]
    assert len(rows) == 1 + len(A) + len(B) - SHARED
    assert {len(row) for row in rows} == {5}
    assert all(field.isprintable() for row in rows for field in row)


SHOWN = """\
A                   a: 4 entries
B                   b: 3 entries
entries compared    as they are stored
corpus              c.txt
rule for both       whitespace
                    split at whitespace
rule's fingerprint  {fingerprint}

             entries     of A     of B
 ─────────────────────────────────────
 common            2   50.00%   66.67%
 only in A         2   50.00%
 only in B         1            33.33%
Jaccard index 0.4000

 kind          A   B   only in A   only in B
 ───────────────────────────────────────────
 word          2   3           0           1
 capitalised   1   0           1           0
 number        1   0           1           0

 only in A     entries   lowest ids first
 ────────────────────────────────────────
 capitalised         1   Paris
 number              1   287.9

 only in B   entries   lowest ids first
 ──────────────────────────────────────
 word              1   paris

 known to   tokens    share
 ──────────────────────────
 A               2   50.00%
 B               1   25.00%
 both            1   25.00%
 neither         2   50.00%
 only A          1   25.00%
 only B          0    0.00%
known to A: the word that the rule makes is an entry of A; the same for B

 only A knows   count
 ────────────────────
 Paris              1
These are 1 of 1 such words.

A knows all words of this corpus that B knows
"""


def test_the_tables_for_a_terminal() -> None:
    """Whole, as a person sees them."""
    a, b = (
        vocabulary([b"the", b"of", b"Paris", b"287.9"], "a"),
        vocabulary([b"of", b"the", b"paris"], "b"),
    )
    found = compared(a, b, ["the dog Paris .\n"], sources=("c.txt",), rule="whitespace")
    assert found.use is not None
    assert text_of(found, 80) == SHOWN.format(fingerprint=found.use.fingerprint)


def test_what_a_reader_must_know_is_said(tmp_path: Path) -> None:
    """Repeated and merged entries, folds, markers; in text, JSON and on the page."""
    a = vocabulary([b"The", b"the", b"the", "▁x".encode()], "a", "▁")
    alphabet = vocabulary([f"w{i:03}".encode() for i in range(200)], "b")
    found = compared(a, alphabet, [], fold=("case",))
    page = "".join(Page(saved(found, tmp_path, "html").decode()).text)
    notes = " ".join(json.loads(saved(found, tmp_path, "json"))["notes"])
    text = text_of(found, 200)
    for sentence in (
        "repeated entries of A, which count once: 1",
        "entries of A that folding made equal to an earlier one: 1",
        "only pieces that can be whole words were looked up in the corpus, without their marker",
        "the corpus",
    ):
        assert sentence in text
        assert sentence in page
        assert sentence in notes
    for shown in (text, page):
        assert "without case" in shown
        assert "pieces marked with '▁'" in shown
    assert "holds no words" not in text_of(nasty_diff(), 200)


@pytest.mark.parametrize(
    ("a", "b", "short_a", "short_b"),
    [
        ("/home/x/bert", "glove.txt", "bert", "glove.txt"),
        ("m/1/vocab.txt", "m/2/vocab.txt", "1/vocab.txt", "2/vocab.txt"),
        ("https://tfhub.dev/google/nnlm/2", "x", "nnlm/2", "x"),
    ],
)
def test_titles_show_the_last_parts_of_paths(
    a: str, b: str, short_a: str, short_b: str, tmp_path: Path
) -> None:
    """Show as many parts as it takes to distinguish the models; the paths follow."""
    found = compared(vocabulary([b"x"], "a"), vocabulary([b"y"], "b"), labels=(a, b))
    page = saved(found, tmp_path, "html").decode()
    assert f"<h1>{short_a} and {short_b}</h1>" in page
    assert page.count(f">{a}: ") == 1
    assert f"<h2>Only in A: {short_a}</h2>" in page
    assert f"<h2>Only in B: {short_b}</h2>" in page
