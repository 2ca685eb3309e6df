"""Reports on unknown words as files. The oracles are Python's json, csv, html and pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.html_page import Page, check_inert, check_well_formed
from tests.some_reports import (
    FORMATS,
    HEADER,
    KNOWN,
    NASTY,
    SCRIPT,
    nasty_words,
    oov_text,
    unknown_words,
)
from vocabtool import NotFound, OovReport, save_report


def saved(report: OovReport, folder: Path, form: Any) -> bytes:
    save_report(report, folder / "report", form)
    return (folder / "report").read_bytes()


@pytest.mark.parametrize("form", [*FORMATS, "table"])
def test_the_same_report_gives_the_same_bytes(form: str, tmp_path: Path) -> None:
    """Twice counted and written: equal, and nothing is left beside; of nothing, too."""
    first = saved(nasty_words(pieces=True, others=(nasty_words(),)), tmp_path, form)
    assert saved(nasty_words(pieces=True, others=(nasty_words(),)), tmp_path, form) == first
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert saved(unknown_words([], []), tmp_path, form)


@pytest.mark.parametrize(
    ("ending", "form"),
    [
        *((f".{form}", form) for form in FORMATS),
        *((".htm", "html"), (".txt", "table"), ("", "table"), (".JSON", "json")),
    ],
)
def test_the_ending_tells_the_format(ending: str, form: str, tmp_path: Path) -> None:
    """Without a format the file's ending decides; an unknown one means the table."""
    path = tmp_path / f"words{ending}"
    save_report(nasty_words(), path)
    assert path.read_bytes() == saved(nasty_words(), tmp_path, form)


def test_no_folder_to_write_in(tmp_path: Path) -> None:
    """The message names the folder."""
    with pytest.raises(NotFound, match="no/such: no such folder"):
        save_report(nasty_words(), tmp_path / "no" / "such" / "report", "json")


def test_json_by_hand(tmp_path: Path) -> None:
    """The documented keys, with full precision."""
    document = json.loads(saved(nasty_words(notes=("a note",)), tmp_path, "json"))
    assert list(document) == [
        *("model", "vocabulary", "rule", "sources", "documents", "tokens", "distinct_words"),
        *("unknown_words", "unknown_words_listed", "unknown_words_in_all", "kinds", "coverage"),
        *("pieces", "estimated", "notes", "others"),
    ]
    tokens = 6 + len(NASTY)
    rate = (tokens - 2) / tokens
    assert document["tokens"] == {"all": tokens, "unknown": tokens - 2, "unknown_rate": rate}
    assert document["vocabulary"] == {
        "name": "words & more",
        "size": 4,
        "used": 2,
        "never_used": ["receive", SCRIPT[:-1].decode()],
    }
    assert document["rule"] == {"steps": list(HEADER.rule), "fingerprint": "sha256:0123"}
    assert document["unknown_words"][0] == {
        **{"word": "dog", "count": 3, "documents": 2, "error": 0, "kind": "other", "like": None},
        "example": "the dog dog",
    }
    recieve = next(word for word in document["unknown_words"] if word["word"] == "recieve")
    assert (recieve["kind"], recieve["like"]) == ("misspelling", "receive")
    assert document["notes"] == ["a note"]
    last = {"words": 4 + len(NASTY), "covered": 1.0, "known": 2 / tokens}
    assert document["coverage"][-1] == last
    assert sum(kind["tokens"] for kind in document["kinds"]) == tokens - 2


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


def test_parquet_holds_the_other_figures(tmp_path: Path) -> None:
    """Its metadata is what JSON says, without the words."""
    report = nasty_words(pieces=True)
    whole = json.loads(saved(report, tmp_path, "json"))
    rest = {key: value for key, value in whole.items() if not key.startswith("unknown_words")}
    schema = pq.read_schema(io.BytesIO(saved(report, tmp_path, "parquet")))
    assert json.loads(schema.metadata[b"vocabtool"]) == rest


def test_the_page_is_inert_and_well_formed(tmp_path: Path) -> None:
    """Words, names and sources make no tag, no handler, and nothing that is loaded."""
    report = nasty_words(pieces=True, others=(nasty_words(),), notes=("<u>",))
    text = saved(report, tmp_path, "html").decode()
    shown = check_inert(text)
    for word in (SCRIPT.decode(), "</style>", "models/<b>", "<i>.txt", "$x^2$", "<u>"):
        assert word in shown
    assert "\\u202eabc" in shown
    assert "\u202e" not in text
    check_well_formed(text, plots=3)
    for label in ("% of tokens", "known to the model", "pieces of a word", "punctuation or symbol"):
        assert label in text


def test_the_page_says_what_json_says(tmp_path: Path) -> None:
    """Rates and counts of the page are JSON's, to the last digit."""
    report = nasty_words()
    document = json.loads(saved(report, tmp_path, "json"))
    numbers = Page(saved(report, tmp_path, "html").decode()).numbers
    for key in ("tokens", "distinct_words", "documents"):
        name = key.replace("_", " ")
        figures = [numbers[f"{name} {what}"] for what in ("rate", "unknown", "all")]
        wanted = [[document[key][what]] for what in ("unknown_rate", "unknown", "all")]
        assert figures == wanted
    assert numbers["count"] == [word["count"] for word in document["unknown_words"]]


def test_the_tab_separated_table() -> None:
    """A line a word, each with as many fields as the first; nothing unprintable."""
    rows = [line.split("\t") for line in oov_text(nasty_words()).splitlines()]
    assert rows[0] == ["word", "count", "documents", "error", "kind", "like", "example"]
    assert rows[1] == ["dog", "3", "2", "0", "other", "", "the dog dog"]
    assert len(rows) == 1 + 2 + len(NASTY)
    assert {len(row) for row in rows} == {7}
    assert all(field.isprintable() for row in rows for field in row)


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
    assert oov_text(report, 80) == SHOWN
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
    assert word.decode() in oov_text(report)
    assert "é" + "x" * 22 + "…" in oov_text(report, 100)
    assert "x" * 50 not in oov_text(report, 100)
    assert words_of(json.loads(saved(report, tmp_path, "json"))) == [word]
    assert word in saved(report, tmp_path, "csv")
    table = pq.read_table(io.BytesIO(saved(report, tmp_path, "parquet")))
    assert table["word"].to_pylist() == [word.decode()]


def test_one_is_no_plural(tmp_path: Path) -> None:
    """A vocabulary of one entry that was not used, and one unknown word."""
    report = unknown_words([[b"dog"]], [b"the"], header={"vocabulary": "words"})
    shown = oov_text(report, 80)
    assert "words: 1 entry\n" in shown
    assert "\n1 of 1 entries was never used: the\n" in shown
    page = saved(report, tmp_path, "html").decode()
    assert "Tokens, of the unknown word (1 token)." in page
    assert Page(page).numbers["tokens unknown"] == [1]


@pytest.mark.parametrize(
    ("text", "at"), [(b"was applied; of p", "of p"), (b"x" * 90 + b" p up", " p up")]
)
def test_the_table_shows_the_word_by_itself(text: bytes, at: str) -> None:
    """Where an example is cut again for a column, it is cut around the word, not around a part."""
    assert at in oov_text(unknown_words([[b"p"]], [], line=text), 120)


def test_estimates_are_marked(tmp_path: Path) -> None:
    """On a terminal and on the page, with their bounds; in JSON as numbers."""
    names = {
        "distinct": "distinct words",
        "distinct_unknown": "distinct unknown words",
        "count": "counts of words that came late",
        "documents": "document counts of words that came late",
        "curve": "the coverage curve",
    }
    report = nasty_words(estimated=dict.fromkeys(names, 0.5))
    for text in (oov_text(report, 100), saved(report, tmp_path, "html").decode()):
        assert "~" in text
        for name in names.values():
            assert f"estimated: {name}, off by " in text
    first = json.loads(saved(report, tmp_path, "json"))["estimated"][0]
    assert first == {"figure": "distinct", "off_by": 0.5, "certain": False}


def test_further_tables_are_shown_apart(tmp_path: Path) -> None:
    """Their figures follow, and are in no sum."""
    other = nasty_words(header={"vocabulary": "bigrams"})
    report = nasty_words(others=(other,))
    assert report.tokens == other.tokens
    assert f"bigrams: {len(KNOWN)} entries" in oov_text(report, 100)
    assert "By itself: bigrams" in saved(report, tmp_path, "html").decode()
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
    (line,) = (line for line in oov_text(report, 80).splitlines() if line.startswith(" tokens"))
    assert line.split()[-1] == shown


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("/home/x/models/bert/tokenizer.json", "tokenizer.json"),
        ("models/mine/", "mine"),
        ("https://tfhub.dev/google/nnlm/2", "nnlm/2"),
        ("m", "m"),
    ],
)
def test_the_title_of_a_page_is_short(model: str, short: str, tmp_path: Path) -> None:
    """The path stands below it, small."""
    page = saved(nasty_words(header={"model": model}), tmp_path, "html").decode()
    assert f'<h1>What {short} does not know</h1>\n<p class="small">{model}</p>' in page


@pytest.mark.parametrize("unknown", [1, 50])
def test_lines_that_lie_on_each_other_are_one(unknown: int, tmp_path: Path) -> None:
    """Of a thousand tokens one is unknown, which nobody could see, or fifty."""
    report = unknown_words([[b"the"] * (1_000 - unknown) + [b"dog"] * unknown])
    page = saved(report, tmp_path, "html").decode()
    one = unknown == 1
    assert (">all words, and those known to the model<" in page) is one
    assert ("One line for both: the model does not know 0.10% of the tokens." in page) is one
    assert ("Between the lines" in page) is not one
