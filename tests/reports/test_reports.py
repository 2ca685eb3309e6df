"""Reports on words and comparisons as files: what they hold, and what they promise alike.

The oracles are Python's json, csv, html and xml, and pyarrow.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.html_page import HTML_TAGS, Page, check_inert
from tests.some_reports import (
    FORMATS,
    KNOWN,
    NASTY,
    A,
    B,
    compared,
    nasty_diff,
    nasty_words,
    save,
    saved,
    text_of,
    unknown_words,
    vocabulary,
)
from vocabtool import ByteStrings, Document, Hits, Index, Vocabulary

MAKERS: dict[str, Any] = {
    "words": lambda: replace(nasty_words(pieces=True), others=(nasty_words(),), notes=("<u>",)),
    "diff": nasty_diff,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Any:
    """Makes a report full of what strangers may put into it, each time anew."""
    return MAKERS[request.param]


@pytest.mark.parametrize("form", [*FORMATS, "text"])
def test_the_same_report_gives_the_same_bytes(form: str, make: Any, tmp_path: Path) -> None:
    """Twice counted and written: equal, and nothing is left beside; of nothing, too."""
    data = saved(make(), tmp_path, form)
    assert saved(make(), tmp_path, form) == data
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    nothing = vocabulary([], "nothing")
    assert saved(compared(nothing, nothing, []), tmp_path, form)
    assert saved(unknown_words([], []), tmp_path, form)


@pytest.mark.parametrize(
    ("ending", "form"),
    [
        *((f".{form}", form) for form in FORMATS),
        *((".htm", "html"), (".txt", "text"), ("", "text"), (".JSON", "json")),
    ],
)
def test_the_ending_tells_the_format(ending: str, form: str, make: Any, tmp_path: Path) -> None:
    """Without a format the file's ending decides; an unknown one means text."""
    path = tmp_path / f"entries{ending}"
    save(make(), path)
    assert path.read_bytes() == saved(make(), tmp_path, form)


def test_parquet_holds_the_other_figures(make: Any, tmp_path: Path) -> None:
    """Its metadata is what JSON says, without the lists."""
    whole = json.loads(saved(make(), tmp_path, "json"))
    some = [
        f"{kind}_words{of}" for kind in ("unknown", "split") for of in ("", "_listed", "_in_all")
    ]
    listed = ("entries", *some, "random_words")
    rest = {key: value for key, value in whole.items() if key not in listed}
    schema = pq.read_schema(io.BytesIO(saved(make(), tmp_path, "parquet")))
    assert json.loads(schema.metadata[b"vocabtool"]) == rest


SHOWN = {
    "words": ("<script>alert(1)</script>", "</style>", "models/<b>", "<i>.txt", "$x^2$", "<u>"),
    "diff": ("models/<i>", "<b>one</b>", "<u>.txt", "</style>", "$x^2$"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_page_is_inert_and_well_formed(kind: str, tmp_path: Path) -> None:
    """Entries, names and sources make no tag, no handler, and nothing that is loaded."""
    text = saved(MAKERS[kind](), tmp_path, "html").decode()
    shown = check_inert(text)
    assert [word for word in (*SHOWN[kind], "\\u202eabc") if word not in shown] == []
    assert "\u202e" not in text
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def hits_of(count: int) -> Hits:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        index = Index.create(Path(folder) / "index", dim=2)
        with index.writer() as writer:
            texts = [Document(f"<b>{at}", "</td> $x^2$ " * 100) for at in range(count)]
            writer.add(texts, np.array([[1, at / 10] for at in range(count)]).reshape(-1, 2))
        hits = index.search("<script>alert(1)</script>", vector=[1, 0], fusion="dense", k=99)
        return replace(hits, notes=("<u>",))


NOTEBOOK: dict[str, tuple[Any, set[str]]] = {
    "vocabulary": (vocabulary(NASTY, "<b>one</b>"), {"id", "entry", "0", "</style>", "\\u202eabc"}),
    "uneven": (
        Vocabulary("v", "list", ByteStrings.of([b"a", b"<i>"]), ids=np.array([3, 9])),
        {"9"},
    ),
    "large": (vocabulary([b"<script>"] * 2_000), {"<script>", "…", "1999"}),
    "words": (MAKERS["words"](), {"What <b> does not know", "split word", "tokens"}),
    "diff": (nasty_diff(), {"A: <i>, B: two & more", "of A", "only in B", "punctuation"}),
    "hits": (hits_of(12), {"<b>0", "1.000", "note: <u>\n… and 2 more"}),
    "nothing": (hits_of(0), {"0 hits for <script>alert(1)</script>"}),
    "empty": (vocabulary([]), {"Vocabulary v: 0 entries, list"}),
}


@pytest.mark.parametrize("kind", NOTEBOOK)
def test_notebooks_show_short_tables(kind: str) -> None:
    """The HTML is well-formed, short and inert; MathJax must skip it."""
    found, facts = NOTEBOOK[kind]
    assert len(repr(found)) < 120  # notebooks store it beside the HTML
    text = found._repr_html_()
    (root,) = ElementTree.fromstring(f"<body>{text}</body>")
    assert "mathjax_ignore" in root.attrib["class"]
    page = Page(text)
    assert page.tags <= {*HTML_TAGS}
    assert {name for name, _ in page.attributes} <= {"class", "style", "value", "title"}
    texts = {"".join(each.itertext()) for each in root.iter()}
    assert facts <= texts
    assert sum(each.tag == "tr" for each in root.iter()) <= 2 * 11 + 1
    assert len(text) < 20_000


# Words.


def words_of(document: dict[str, Any]) -> list[bytes]:
    return [
        base64.b64decode(word["base64"]) if "base64" in word else word["word"].encode()
        for word in document["unknown_words"]
    ]


def test_words_come_back(tmp_path: Path) -> None:
    """JSON, CSV and Parquet give back each word's bytes and figures, in the report's order."""
    report = nasty_words()
    expected = [(word.word_bytes, word.count, word.documents) for word in report.commonest()]
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


@pytest.mark.parametrize("pieces", [False, True])
def test_the_table_for_data_frames(pieces: bool, tmp_path: Path) -> None:
    """The columns and rows of the Parquet file, for Arrow, pandas and Polars."""
    report = nasty_words(pieces=pieces)
    saved_table = pq.read_table(io.BytesIO(saved(report, tmp_path, "parquet")))
    table = report.to_arrow()
    assert table.column_names == saved_table.column_names
    assert table.to_pylist() == saved_table.to_pylist()
    for library in ("polars", "pandas"):
        pytest.importorskip(library)
    assert report.to_polars().rows(named=True) == saved_table.to_pylist()
    assert report.to_pandas()["count"].tolist() == saved_table["count"].to_pylist()


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
    counts = [word["count"] for word in document["unknown_words"] if word["kind"] != "symbol"]
    assert numbers["count"] == counts[: len(numbers["count"])]
    assert len(numbers["count"]) == min(len(counts), 25)


WORDS_TABLES = """\
The model does not know 3 of 5 words (60.00%); they are in 2 of 3 documents.
Most of the unknown words are ordinary words (2, such as dog) and known words in another case or
Unicode form (1, such as Cat).
Next step: take another model (`vocabtool diff A B --corpus FILE` compares two on these texts),
because 60.00% of the words are unknown.

 unknown word   count   documents   looks like    example
 ────────────────────────────────────────────────────────────
 dog                2           2   other         the dog
 Cat                1           1   form of cat   dog cat Cat

 what unknown words look like            words   tokens
 ──────────────────────────────────────────────────────
 other                                       1        2
 known in another case or Unicode form       1        1

                  unknown   of     rate
 ──────────────────────────────────────
 tokens                 3    5   60.00%
 distinct words         2    4   50.00%
 documents              2    3   66.67%

 commonest   covered    known
 ────────────────────────────
 1            40.00%    0.00%
 4           100.00%   40.00%

model               a model
vocabulary          words: 2 entries
rule                split at whitespace
rule's fingerprint  sha256:0123
documents           a.txt
0 of 2 entries were never used
"""


def test_the_table_for_a_terminal(tmp_path: Path) -> None:
    """Whole, as a person sees it, on a terminal and in a file."""
    header = {"model": "a model", "vocabulary": "words", "rule": ("split at whitespace",)}
    texts = [[b"the", b"dog"], [], [b"dog", b"cat", b"Cat"]]
    report = unknown_words(texts, [b"the", b"cat"], header={**header, "sources": ("a.txt",)})
    assert text_of(report, 100) == WORDS_TABLES
    assert saved(report, tmp_path, "table").decode() == WORDS_TABLES


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
        *((0, 1, "0.00%"), (1, 30_000, "<0.01%"), (1, 1, "50.00%")),
        *((30_000, 1, ">99.99%"), (1, 0, "100.00%")),
    ],
)
def test_percent(unknown: int, known: int, shown: str) -> None:
    """Nothing rounds to all or nothing."""
    report = unknown_words([[b"dog"] * unknown + [b"the"] * known])
    (tokens,) = (row for row in text_of(report, 80).splitlines() if row.startswith(" tokens "))
    assert tokens.split()[-1] == shown


# Comparisons.

SHARED = 2 + 3


@pytest.mark.parametrize("form", ["json", "html"])
def test_what_holds_the_whole_comparison(form: str, tmp_path: Path) -> None:
    """JSON and the page."""
    with pytest.raises(
        ValueError, match=f"`only` does not work with {form}, which contains the whole comparison"
    ):
        save(nasty_diff(), tmp_path / f"diff.{form}", only="a")


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
        **{"token": "the", "id_a": 1, "id_b": 2, "kind_a": "word", "kind_b": "word"}
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


DIFF_TABLES = """\
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
    assert text_of(found, 80) == DIFF_TABLES.format(fingerprint=found.use.fingerprint)


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
    assert f"<h1>A: {short_a}, B: {short_b}</h1>" in page
    assert page.count(f">{a}: ") == 1
    assert f"<h2>Only in A: {short_a}</h2>" in page
    assert f"<h2>Only in B: {short_b}</h2>" in page
