"""Reports as files and tables. The oracles are Python's json, csv and html.parser, and pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from tests.html_page import HTML_TAGS, SVG_TAGS, Page
from tests.judged_words import judged, lines
from vocabtool.errors import NotFound
from vocabtool.oov.counts import OovCounts
from vocabtool.oov.report import Estimate, Header, OovReport
from vocabtool.reports.oov import ENDINGS, PAGE, ReportFormat, save_report, write
from vocabtool.reports.oov.json_file import facts
from vocabtool.reports.oov.plain_words import FIGURES, KINDS, percent
from vocabtool.reports.oov.table import to_text
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Vocabulary

SCRIPT = b"<script>alert(1)</script>"
NASTY = (
    *(
        SCRIPT,
        b"</style>",
        b"&amp;",
        b'"><img/src=x>',
        b"'",
        b"$x^2$",
        b"]]>",
        b"<!--",
        b"\x1b[31m",
    ),
    *(b"a,b", b'"', b"a\tb", b"a\r\nb", b"caf\xe9", b"\xff", b"\x00", b"\\", "\u202eabc".encode()),
    *("漢字".encode(), "😀".encode(), "\u2028".encode(), "né".encode(), b""),
)
ENTRIES = (b"the", b"cat", b"receive", SCRIPT[:-1])
HEADER = Header(
    "models/<b>",
    "words & more",
    len(ENTRIES),
    ("lower-case A to Z", "split at whitespace"),
    "sha256:0123",
    ("a.txt", "<i>.txt"),
)


def sample(*, pieces: bool = False, **options: Any) -> OovReport:
    """Nasty words once each, ``dog`` three times in two documents, and known words."""
    texts = [[b"the", b"dog", b"dog"], [b"recieve", b"cat", b"dog"], *([word] for word in NASTY)]
    vocabulary = Vocabulary("v", "table", ByteStrings.of(ENTRIES))
    counter = OovCounts(len(ENTRIES))
    places = {entry: i for i, entry in enumerate(ENTRIES)}
    cut = {word: len(word) for word in NASTY} if pieces else None
    counter.add(judged(texts, places, cut), lines(texts))
    return counter.report(HEADER, vocabulary, **options)


def written(report: OovReport, form: ReportFormat) -> bytes:
    file = io.BytesIO()
    write(report, file, form, width=PAGE)
    return file.getvalue()


@pytest.mark.parametrize("form", get_args(ReportFormat))
def test_the_same_report_gives_the_same_bytes(form: ReportFormat, tmp_path: Path) -> None:
    """Twice written, and saved to a file: equal, and nothing is left beside."""
    report = sample(pieces=True, others=(sample(),))
    data = written(report, form)
    assert written(report, form) == data
    save_report(report, tmp_path / "report", form)
    assert (tmp_path / "report").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("ending", [*ENDINGS, ".txt", "", ".JSON"])
def test_the_ending_tells_the_format(ending: str, tmp_path: Path) -> None:
    """Without a format the file's ending decides; an unknown one means the table."""
    path = tmp_path / f"report{ending}"
    save_report(sample(), path)
    assert path.read_bytes() == written(sample(), ENDINGS.get(ending.lower(), "table"))


def test_no_folder_to_write_in(tmp_path: Path) -> None:
    """The message names the folder."""
    with pytest.raises(NotFound, match="no/such: no such folder"):
        save_report(sample(), tmp_path / "no" / "such" / "report", "json")


@pytest.mark.parametrize("form", get_args(ReportFormat))
def test_a_report_on_nothing_can_be_written(form: ReportFormat) -> None:
    """No documents, no words: still a report."""
    nothing = OovCounts(0).report(Header("", "", 0))
    assert written(nothing, form)
    assert to_text(nothing, 80)


def test_json_by_hand() -> None:
    """The documented keys, with full precision."""
    document = json.loads(written(sample(notes=("a note",)), "json"))
    assert list(document) == [
        *("model", "vocabulary", "rule", "sources", "documents", "tokens", "distinct_words"),
        *("unknown_words", "unknown_words_listed", "unknown_words_in_all", "kinds", "coverage"),
        *("pieces", "estimated", "notes", "others"),
    ]
    tokens = 6 + len(NASTY)
    assert document["tokens"] == {
        "all": tokens,
        "unknown": tokens - 2,
        "unknown_rate": (tokens - 2) / tokens,
    }
    assert document["vocabulary"] == {
        "name": "words & more",
        "size": 4,
        "used": 2,
        "never_used": ["receive", SCRIPT[:-1].decode()],
    }
    assert document["rule"] == {"steps": list(HEADER.rule), "fingerprint": "sha256:0123"}
    assert document["unknown_words"][0] == {
        "word": "dog",
        "count": 3,
        "documents": 2,
        "error": 0,
        "kind": "other",
        "like": None,
        "example": "the dog dog",
    }
    recieve = next(word for word in document["unknown_words"] if word["word"] == "recieve")
    assert (recieve["kind"], recieve["like"]) == ("misspelling", "receive")
    assert document["notes"] == ["a note"]
    assert document["coverage"][-1] == {
        "words": 4 + len(NASTY),
        "covered": 1.0,
        "known": 2 / tokens,
    }
    assert sum(kind["tokens"] for kind in document["kinds"]) == tokens - 2


def words_of(document: dict[str, Any]) -> list[bytes]:
    return [
        base64.b64decode(word["base64"]) if "base64" in word else word["word"].encode()
        for word in document["unknown_words"]
    ]


def test_words_come_back() -> None:
    """JSON, CSV and Parquet give back each word's bytes and figures, in the report's order."""
    report = sample()
    expected = [(word.word, word.count, word.documents) for word in report.commonest()]
    assert {word for word, _, _ in expected} == {*NASTY, b"dog", b"recieve"}
    document = json.loads(written(report, "json"))
    assert words_of(document) == [word for word, _, _ in expected]
    rows = list(csv.DictReader(io.StringIO(written(report, "csv").decode(), newline="")))
    found = [
        (base64.b64decode(row["base64"]) or row["word"].encode(), row["count"], row["documents"])
        for row in rows
    ]
    assert [(w, int(c), int(d)) for w, c, d in found] == expected
    kinds = {row["word"]: (row["kind"], row["like"], row["example"]) for row in rows}
    assert kinds["recieve"] == ("misspelling", "receive", "recieve cat dog")
    table = pq.read_table(io.BytesIO(written(report, "parquet"))).to_pylist()
    assert [
        (r["bytes"] or r["word"].encode(), r["count"], r["documents"]) for r in table
    ] == expected
    assert all((row["bytes"] is None) != (row["word"] is None) for row in table)
    assert next(row["like"] for row in table if row["word"] == "recieve") == "receive"


def test_parquet_holds_the_other_figures() -> None:
    """Its metadata is what JSON says, without the words."""
    report = sample(pieces=True)
    schema = pq.read_schema(io.BytesIO(written(report, "parquet")))
    whole = json.loads(json.dumps(facts(report)))
    rest = {key: value for key, value in whole.items() if not key.startswith("unknown_words")}
    assert json.loads(schema.metadata[b"vocabtool"]) == rest


def test_what_strangers_wrote_is_inert() -> None:
    """Words, names and sources make no tag, no handler, and nothing that is loaded."""
    text = written(sample(pieces=True, others=(sample(),), notes=("<u>",)), "html").decode()
    page = Page(text)
    assert page.tags - SVG_TAGS <= HTML_TAGS
    assert page.tags >= {"svg", "table", "data"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    links = [value for name, value in page.attributes if name in ("href", "xlink:href")]
    assert all(value and value.startswith("#") for value in links)
    assert "@import" not in text
    assert all(found.startswith("url(#") for found in re.findall(r"url\(.{5}", text))
    shown = "".join(page.text)
    for word in (
        SCRIPT.decode(),
        "</style>",
        "models/<b>",
        "<i>.txt",
        "$x^2$",
        "<u>",
        "\\u202eabc",
    ):
        assert word in shown
    assert "\u202e" not in text


def test_the_page_is_well_formed_and_whole() -> None:
    """XML parses it, no id stands twice, and each reference has its target."""
    text = written(sample(pieces=True), "html").decode()
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids)) > 10
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert set(targets) <= set(ids)
    assert text.count("<svg") == 3


def test_the_page_says_what_json_says() -> None:
    """Rates and counts of the page are JSON's, to the last digit."""
    report = sample()
    document = facts(report)
    numbers = Page(written(report, "html").decode()).numbers
    names = {"tokens": "tokens", "distinct_words": "distinct words", "documents": "documents"}
    for key, name in names.items():
        assert numbers[f"{name} rate"] == [document[key]["unknown_rate"]]
        assert numbers[f"{name} unknown"] == [document[key]["unknown"]]
        assert numbers[f"{name} all"] == [document[key]["all"]]
    assert numbers["count"] == [word["count"] for word in document["unknown_words"]]


def test_plots_hold_the_figures() -> None:
    """The kinds' bars carry their tokens; the pieces' plot and the curve have their axes."""
    report = sample(pieces=True)
    text = written(report, "html").decode()
    for kind in report.kinds:
        assert KINDS[kind.kind] in text
        assert f">{kind.tokens:,}<" in text
    for label in ("% of tokens", "known to the model", "pieces of a word"):
        assert label in text
    assert "#010203" not in text


def test_the_tab_separated_table() -> None:
    """A line a word, each with as many fields as the first; nothing unprintable."""
    rows = [line.split("\t") for line in to_text(sample()).splitlines()]
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


def test_the_table_for_a_terminal() -> None:
    """Whole, as a person sees it."""
    texts = [[b"the", b"dog"], [], [b"dog", b"cat", b"Cat"]]
    counter = OovCounts(2)
    places = {b"the": 0, b"cat": 1}
    counter.add(judged(texts, places), lines(texts))
    header = Header("a model", "words", 2, ("split at whitespace",), "sha256:0123", ("a.txt",))
    vocabulary = Vocabulary("v", "table", ByteStrings.of(places))
    shown = to_text(counter.report(header, vocabulary), 80)
    assert shown == SHOWN
    file = io.BytesIO()
    write(counter.report(header, vocabulary), file, "table", width=80)
    assert file.getvalue().decode() == SHOWN


@pytest.mark.parametrize("size", [199, 200, 201, 1_000_000])
def test_people_see_the_beginning_of_a_giant_word(size: int) -> None:
    """A page and a table stay small and say that they cut; the other formats hold all of it."""
    word = b"\xc3\xa9" + b"x" * (size - 2)
    pieces = {word: 40}
    counter = OovCounts(1)
    counter.add(judged([[word], [b"the"]], {b"the": 0}, pieces), lines([[word], [b"the"]]))
    vocabulary = Vocabulary("v", "table", ByteStrings.of([b"the"]))
    report = replace(counter.report(HEADER, vocabulary), never_used=(word,))
    shown = word.decode() if size <= 200 else word[:200].decode() + "…"
    page = written(report, "html").decode()
    assert shown in page
    assert "x" * 200 not in page
    assert len(page) < 100_000
    assert word.decode() in to_text(report)
    assert "é" + "x" * 22 + "…" in to_text(report, 100)
    assert "x" * 50 not in to_text(report, 100)
    assert words_of(json.loads(written(report, "json"))) == [word]
    for form in ("csv", "parquet"):
        path = io.BytesIO(written(report, form))
        rows = pq.read_table(path)["word"].to_pylist() if form == "parquet" else None
        assert rows == [word.decode()] if rows else word in path.getvalue()


def test_one_is_no_plural() -> None:
    """A vocabulary of one entry that was not used, and one unknown word."""
    counter = OovCounts(1)
    counter.add(judged([[b"dog"]], {}), lines([[b"dog"]]))
    vocabulary = Vocabulary("v", "table", ByteStrings.of([b"the"]))
    report = counter.report(Header("m", "words", 1), vocabulary)
    shown = to_text(report, 80)
    assert "words: 1 entry\n" in shown
    assert "\n1 of 1 entries was never used: the\n" in shown
    assert "Tokens, of the unknown word (1 token)." in written(report, "html").decode()


@pytest.mark.parametrize(
    ("text", "at"), [(b"was applied; of p", "of p"), (b"x" * 90 + b" p up", " p up")]
)
def test_the_table_shows_the_word_by_itself(text: bytes, at: str) -> None:
    """Where an example is cut again for a column, it is cut around the word, not around a part."""
    counter = OovCounts(0)
    counter.add(judged([[b"p"]], {}), lines([[text]]))
    assert at in to_text(counter.report(Header("", "", 0)), 120)


def test_estimates_are_marked() -> None:
    """On a terminal and on the page, with their bounds; in JSON as numbers."""
    bounds = tuple(Estimate(figure, 0.5, certain=False) for figure in FIGURES)
    report = replace(sample(), estimated=bounds)
    for text in (to_text(report, 100), written(report, "html").decode()):
        assert "~" in text
        for name in FIGURES.values():
            assert f"estimated: {name}, off by " in text
    document = json.loads(written(report, "json"))
    assert document["estimated"][0] == {"figure": "distinct", "off_by": 0.5, "certain": False}


def test_further_tables_are_shown_apart() -> None:
    """Their figures follow, and are in no sum."""
    other = replace(sample(), header=HEADER._replace(vocabulary="bigrams"))
    report = sample(others=(other,))
    assert report.tokens == sample().tokens
    assert "bigrams: 4 entries" in to_text(report, 100)
    assert "By itself: bigrams" in written(report, "html").decode()
    assert json.loads(written(report, "json"))["others"] == [facts(other)]


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "0.00%"), (1e-9, "<0.01%"), (0.5, "50.00%"), (1 - 1e-9, ">99.99%"), (1.0, "100.00%")],
)
def test_percent(share: float, shown: str) -> None:
    """Nothing rounds to all or nothing."""
    assert percent(share) == shown


@pytest.mark.parametrize("word", [b"dog", b"the"])
def test_a_page_of_one_word(word: bytes) -> None:
    """One word, known or not, makes a page: plots have an axis of one point, or no bars."""
    counter = OovCounts(1)
    counter.add(judged([[word]], {b"the": 0}, {}), lines([[word]]))
    vocabulary = Vocabulary("v", "table", ByteStrings.of([b"the"]))
    page = Page(written(counter.report(HEADER, vocabulary), "html").decode())
    assert page.numbers["tokens all"] == [1]
    assert page.numbers["tokens unknown"] == [float(word == b"dog")]


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("/home/x/models/bert/tokenizer.json", "tokenizer.json"),
        ("models/mine/", "mine"),
        ("https://tfhub.dev/google/nnlm/2", "nnlm/2"),
        ("m", "m"),
    ],
)
def test_the_title_of_a_page_is_short(model: str, short: str) -> None:
    """The path stands below it, small."""
    report = replace(sample(), header=HEADER._replace(model=model))
    page = written(report, "html").decode()
    assert f'<h1>What {short} does not know</h1>\n<p class="small">{model}</p>' in page


@pytest.mark.parametrize("unknown", [1, 50])
def test_lines_that_lie_on_each_other_are_one(unknown: int) -> None:
    """Of a thousand tokens one is unknown, which nobody could see, or fifty."""
    texts = [[b"the"] * (1_000 - unknown) + [b"dog"] * unknown]
    counter = OovCounts(1)
    counter.add(judged(texts, {b"the": 0}), lines(texts))
    vocabulary = Vocabulary("v", "table", ByteStrings.of([b"the"]))
    page = written(counter.report(HEADER, vocabulary), "html").decode()
    one = unknown == 1
    assert (">all words, and those known to the model<" in page) is one
    assert ("One line for both: the model does not know 0.10% of the tokens." in page) is one
    assert ("Between the lines" in page) is not one
