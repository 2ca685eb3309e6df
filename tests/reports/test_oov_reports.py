"""Reports on unknown words as files. The oracles are Python's json, csv, html and pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.html_page import Page
from tests.some_reports import KNOWN, NASTY, nasty_words, saved, text_of, unknown_words


def words_of(document: dict[str, Any]) -> list[bytes]:
    return [
        base64.b64decode(word["base64"]) if "base64" in word else word["word"].encode()
        for word in document["unknown_words"]
    ]


def test_words_come_back(tmp_path: Path) -> None:
    """JSON, CSV and Parquet give back each word's bytes and figures, in the report's order."""
    report = nasty_words()
    expected = [(word.word, word.count, word.documents) for word in report.commonest()]
    assert {word for word, _, _ in expected} == {*NASTY, b"dog", b"recieve"}
    document = json.loads(saved(report, tmp_path, "json"))
    assert words_of(document) == [word for word, _, _ in expected]
    rows = list(csv.DictReader(io.StringIO(saved(report, tmp_path, "csv").decode(), newline="")))
    assert [
        (
            base64.b64decode(row["base64"]) or row["word"].encode(),
            int(row["count"]),
            int(row["documents"]),
        )
        for row in rows
    ] == expected
    kinds = {row["word"]: (row["kind"], row["like"], row["example"]) for row in rows}
    assert kinds["recieve"] == ("misspelling", "receive", "recieve cat dog")
    table = pq.read_table(io.BytesIO(saved(report, tmp_path, "parquet"))).to_pylist()
    shown = [(r["bytes"] or r["word"].encode(), r["count"], r["documents"]) for r in table]
    assert shown == expected
    assert all((row["bytes"] is None) != (row["word"] is None) for row in table)
    assert next(row["like"] for row in table if row["word"] == "recieve") == "receive"


def test_the_page_says_what_json_says(tmp_path: Path) -> None:
    """Rates and counts of the page are JSON's, to the last digit."""
    report = nasty_words()
    document = json.loads(saved(report, tmp_path, "json"))
    numbers = Page(saved(report, tmp_path, "html").decode()).numbers
    for key in ("tokens", "distinct_words", "documents"):
        name = key.replace("_", " ")
        figures = [numbers[f"{name} {what}"] for what in ("rate", "unknown", "of")]
        wanted = [[document[key][what]] for what in ("unknown_rate", "unknown", "all")]
        assert figures == wanted
    counts = [word["count"] for word in document["unknown_words"]]
    assert numbers["count"] == counts[: len(numbers["count"])]
    assert len(numbers["count"]) == min(len(counts), 25)


SHOWN = """\
model               a model
vocabulary          words: 2 entries
rule                split at whitespace
rule's fingerprint  sha256:0123
documents           a.txt

                  unknown   of     rate
 ──────────────────────────────────────
 tokens                 3    5   60.00%
 distinct words         2    4   50.00%
 documents              2    3   66.67%

 unknown word   count   documents   looks like    example
 ────────────────────────────────────────────────────────────
 dog                2           2   other         the dog
 Cat                1           1   form of cat   dog cat Cat

 what unknown words look like            words   tokens
 ──────────────────────────────────────────────────────
 other                                       1        2
 known in another case or Unicode form       1        1

 commonest   covered    known
 ────────────────────────────
 1            40.00%    0.00%
 4           100.00%   40.00%

0 of 2 entries were never used
"""


def test_the_table_for_a_terminal(tmp_path: Path) -> None:
    """Whole, as a person sees it, on a terminal and in a file."""
    header = {"model": "a model", "vocabulary": "words", "rule": ("split at whitespace",)}
    texts = [[b"the", b"dog"], [], [b"dog", b"cat", b"Cat"]]
    report = unknown_words(texts, [b"the", b"cat"], header={**header, "sources": ("a.txt",)})
    assert text_of(report, 80) == SHOWN
    assert saved(report, tmp_path, "table").decode() == SHOWN


@pytest.mark.parametrize("size", [200, 201, 1_000_000])
def test_people_see_the_beginning_of_a_giant_word(size: int, tmp_path: Path) -> None:
    """A page and a table stay small and say that they cut; the other formats hold all of it."""
    word = b"\xc3\xa9" + b"x" * (size - 2)
    report = unknown_words([[word], [b"the"]], [b"the"], pieces={word: 40})
    page = saved(report, tmp_path, "html").decode()
    assert (word.decode() if size <= 200 else word[:200].decode() + "…") in page
    assert "x" * 200 not in page
    assert len(page) < 100_000
    assert word.decode() in text_of(report)
    assert "é" + "x" * 22 + "…" in text_of(report, 100)
    assert "x" * 50 not in text_of(report, 100)
    assert words_of(json.loads(saved(report, tmp_path, "json"))) == [word]
    assert word in saved(report, tmp_path, "csv")
    table = pq.read_table(io.BytesIO(saved(report, tmp_path, "parquet")))
    assert table["word"].to_pylist() == [word.decode()]


@pytest.mark.parametrize(
    ("text", "at"), [(b"was applied; of p", "of p"), (b"x" * 90 + b" p up", " p up")]
)
def test_the_table_shows_the_word_by_itself(text: bytes, at: str) -> None:
    """Where an example is cut again for a column, it is cut around the word, not around a part."""
    assert at in text_of(unknown_words([[b"p"]], [], line=text), 120)


def test_a_full_memory_is_told(tmp_path: Path) -> None:
    """On a terminal, on the page and in JSON; the row says which words it counts."""
    report = nasty_words(budget=1_000)
    assert report.full
    note = "the memory for distinct words is full: the 5 words that occurred first are listed"
    for text in (text_of(report, 200), saved(report, tmp_path, "html").decode()):
        assert "distinct words, of those listed" in text
        assert note in text
    document = json.loads(saved(report, tmp_path, "json"))
    assert document["full"] is True
    assert document["distinct_words"]["all"] == 5
    assert document["notes"][0].startswith(note)


def test_further_tables_are_shown_apart(tmp_path: Path) -> None:
    """Their figures follow, and are in no sum."""
    other = nasty_words(header={"vocabulary": "bigrams"})
    report = replace(nasty_words(), others=(other,))
    assert report.tokens == other.tokens
    assert f"bigrams: {len(KNOWN)} entries" in text_of(report, 100)
    assert f"bigrams: {len(KNOWN)} entries" in saved(report, tmp_path, "html").decode()
    whole = json.loads(saved(report, tmp_path, "json"))
    assert whole["others"] == [json.loads(saved(other, tmp_path, "json"))]


@pytest.mark.parametrize(
    ("unknown", "known", "shown"),
    [
        (0, 9, "0.00%"),
        (1, 99_999, "<0.01%"),
        (1, 1, "50.00%"),
        (99_999, 1, ">99.99%"),
        (9, 0, "100.00%"),
    ],
)
def test_percent(unknown: int, known: int, shown: str) -> None:
    """Nothing rounds to all or nothing."""
    report = unknown_words([[b"dog"] * unknown + [b"the"] * known])
    (line,) = (line for line in text_of(report, 80).splitlines() if line.startswith(" tokens"))
    assert line.split()[-1] == shown
