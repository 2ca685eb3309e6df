"""Comparisons as files. The oracles are Python's json, csv and html.parser, and pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from tests.html_page import HTML_TAGS, SVG_TAGS, Page
from vocabtool.comparison.diff import Diff, compare
from vocabtool.comparison.options import FOLDS, Fold
from vocabtool.comparison.pairwise import Pairs, pairwise
from vocabtool.comparison.ranks import Order
from vocabtool.comparison.use import UseCounter
from vocabtool.errors import NotFound
from vocabtool.reports.comparison import ENDINGS, PAGE, DiffFormat, pairs, save_diff, write
from vocabtool.reports.comparison.json_file import facts
from vocabtool.reports.comparison.plain_words import FOLDS as FOLD_NAMES
from vocabtool.reports.comparison.plain_words import ORDERS
from vocabtool.reports.comparison.text import to_rows, to_text
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.vocabulary import Marker, Vocabulary

SCRIPT = b"<script>alert(1)</script>"
NASTY = (
    *(SCRIPT, b"</style>", b"&amp;", b'"><img/src=x>', b"'", b"$x^2$", b"]]>", b"<!--"),
    *(b"\x1b[31m", b"a,b", b'"', b"a\tb", b"a\r\nb", b"caf\xe9", b"\xff", b"\x00", b"\\", b""),
    *("\u202eabc".encode(), "漢字".encode(), "😀".encode(), "\u2028".encode(), "né".encode()),
)
A = (b"the", b"of", b"Paris", b"287.9", b"cat", *NASTY)
B = (b"of", b"the", b"paris", b"dog", *NASTY[6:9])
SHARED = 2 + 3


def made(entries: Sequence[bytes], name: str, marker: Marker | None = None) -> Vocabulary:
    return Vocabulary(name, "list", ByteStrings.of(entries), first_id=1, marker=marker)


def sample(*, corpus: bool = True, fold: tuple[Fold, ...] = ()) -> Diff:
    a, b = made(A, "<b>one</b>"), made(B, "two & more")
    found = compare(a, b, fold, ("models/<i>", "two & more"))
    if not corpus:
        return found
    counter = UseCounter(a, b, rule="whitespace", folds=fold)
    counter.count([string_array(["the cat of Paris paris paris", "dog bird <script>"])])
    return replace(found, use=counter.report(("<u>.txt", "b.txt")))


def written(found: Diff, form: DiffFormat, most: int | None = None) -> bytes:
    file = io.BytesIO()
    write(found, file, form, width=PAGE, most=most)
    return file.getvalue()


@pytest.mark.parametrize("form", get_args(DiffFormat))
def test_the_same_comparison_gives_the_same_bytes(form: DiffFormat, tmp_path: Path) -> None:
    """Twice compared and written, and saved to a file: equal, and nothing is left beside."""
    data = written(sample(), form)
    assert written(sample(), form) == data
    save_diff(sample(), tmp_path / "diff", form)
    assert (tmp_path / "diff").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["diff"]


@pytest.mark.parametrize("ending", [*ENDINGS, ".txt", "", ".JSON"])
def test_the_ending_tells_the_format(ending: str, tmp_path: Path) -> None:
    """Without a format the file's ending decides; an unknown one means text."""
    path = tmp_path / f"diff{ending}"
    save_diff(sample(), path)
    assert path.read_bytes() == written(sample(), ENDINGS.get(ending.lower(), "text"))


def test_no_folder_to_write_in(tmp_path: Path) -> None:
    """The message names the folder."""
    with pytest.raises(NotFound, match="no/such: no such folder"):
        save_diff(sample(), tmp_path / "no" / "such" / "diff", "json")


@pytest.mark.parametrize("form", get_args(DiffFormat))
def test_nothing_can_be_compared_and_written(form: DiffFormat) -> None:
    """Two vocabularies of nothing, and a corpus of nothing: still a report."""
    nothing = made([], "nothing")
    found = compare(nothing, nothing, (), ("", ""))
    found = replace(found, use=UseCounter(nothing, nothing).report())
    assert written(found, form)


def test_json_by_hand() -> None:
    """The documented keys, with full precision."""
    document = json.loads(written(sample(), "json"))
    assert list(document) == [
        *("a", "b", "fold", "common", "only_a", "only_b", "jaccard", "kinds", "gains", "ranks"),
        *("use", "notes", "entries"),
    ]
    size = len(A) + len(B) - SHARED
    assert document["a"] == {
        "label": "models/<i>",
        "name": "<b>one</b>",
        "kind": "list",
        "marker": None,
        "size": len(A),
        "distinct": len(A),
        "duplicates": 0,
        "merged": 0,
        "order": "unclear",
    }
    assert (document["common"], document["only_a"]) == (SHARED, len(A) - SHARED)
    assert (document["only_b"], document["jaccard"]) == (2, SHARED / size)
    assert document["gains"][0] == {
        "fold": "case",
        "entries_a": 1,
        "entries_b": 1,
        "size_a": len(A),
        "size_b": len(B),
        "common": SHARED + 1,
        "examples": [{"a": "Paris", "b": "paris"}],
        "jaccard": (SHARED + 1) / (size - 1),
    }
    assert document["ranks"]["words"] == SHARED
    assert document["ranks"]["rho"] == 1 - 6 * 2 / (SHARED * (SHARED**2 - 1))
    first, second = document["ranks"]["largest"]
    assert first == {"token": "the", "rank_a": 1, "rank_b": 2, "shift": 1.0}
    assert second == {"token": "of", "rank_a": 2, "rank_b": 1, "shift": -1.0}
    use = document["use"]
    assert use["tokens"] == {
        "all": 9,
        **{"a": 4, "b": 5, "both": 2, "only_a": 2, "only_b": 3, "neither": 2},
    }
    assert use["shares"]["neither"] == 2 / 9
    assert use["sources"] == ["<u>.txt", "b.txt"]
    assert use["only_b"] == {
        "words": 2,
        "carriers": {"words": 2, "tokens": 3, "share": 1.0},
        "commonest": [{"word": "paris", "count": 2}, {"word": "dog", "count": 1}],
    }
    lists = document["entries"]
    assert lists["common"][0] == {
        "token": "the",
        "id_a": 1,
        "id_b": 2,
        "kind_a": "word",
        "kind_b": "word",
        "rank_a": 1,
        "rank_b": 2,
        "shift": 1.0,
    }
    assert lists["only_b"] == [
        {"token": "paris", "id_b": 3, "kind_b": "word"},
        {"token": "dog", "id_b": 4, "kind_b": "word"},
    ]
    assert json.loads(written(sample(corpus=False), "json"))["use"] is None


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
def test_complete_lists_come_back(most: int | None) -> None:
    """JSON, CSV and Parquet give back each entry's bytes and ids; a limit holds for each part."""
    found = sample()
    document = json.loads(written(found, "json", most))["entries"]
    rows = [row for part in ("common", "only_a", "only_b") for row in document[part]]
    shown = [(bytes_of(row), row.get("id_a", 0), row.get("id_b", 0)) for row in rows]
    assert shown == expected(most)
    text = io.StringIO(written(found, "csv", most).decode(), newline="")
    cells = list(csv.DictReader(text))
    shown = [(bytes_of(row), int(row["id_a"] or 0), int(row["id_b"] or 0)) for row in cells]
    assert shown == expected(most)
    table = pq.read_table(io.BytesIO(written(found, "parquet", most))).to_pylist()
    assert [
        (
            row["token"].encode() if row["bytes"] is None else row["bytes"],
            row["id_a"] or 0,
            row["id_b"] or 0,
        )
        for row in table
    ] == expected(most)


def test_the_csv_by_hand() -> None:
    """Its columns, and one row of each part."""
    lines = list(csv.reader(io.StringIO(written(sample(), "csv").decode(), newline="")))
    assert lines[0] == [
        *("token", "base64", "in_a", "in_b", "id_a", "id_b", "kind_a", "kind_b"),
        *("rank_a", "rank_b", "shift"),
    ]
    assert lines[1] == ["the", "", "1", "1", "1", "2", "word", "word", "1", "2", "1.0"]
    assert ["Paris", "", "1", "0", "3", "", "capitalised", "", "", "", ""] in lines
    assert lines[-1] == ["dog", "", "0", "1", "", "4", "", "word", "", "", ""]


def test_parquet_holds_the_other_figures() -> None:
    """Its metadata is what JSON says, without the entries."""
    schema = pq.read_schema(io.BytesIO(written(sample(), "parquet")))
    assert json.loads(schema.metadata[b"vocabtool"]) == json.loads(json.dumps(facts(sample())))


@pytest.mark.parametrize("format", ["json", "html"])
def test_whole_comparisons_are_no_list(format: DiffFormat) -> None:  # noqa: A002 - as the option is called
    """``only`` is for lists of entries: JSON and the page refuse it."""
    with pytest.raises(ValueError, match=f"only: {format} holds the whole comparison"):
        write(sample(), io.BytesIO(), format, only="a")


def test_the_tab_separated_rows() -> None:
    """A line an entry, each with as many fields as the first; nothing unprintable."""
    rows = [line.rstrip("\n").split("\t") for line in to_rows(sample())]
    assert rows[0] == ["token", "id_a", "id_b", "kind_a", "kind_b", "rank_a", "rank_b", "shift"]
    assert rows[1] == ["the", "1", "2", "word", "word", "1", "2", "1.0"]
    assert len(rows) == 1 + len(A) + len(B) - SHARED
    assert {len(row) for row in rows} == {8}
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

 common if without      more of A   more of B   Jaccard   for example
 ──────────────────────────────────────────────────────────────────────
 case                           1           1    0.7500   Paris = paris
 Unicode forms (NFKC)           0           0    0.4000
 marks of pieces                0           0    0.4000
 all of these                   1           1    0.7500   Paris = paris

Spearman's rho -1.000 over the ranks of 2 common entries
 ranks apart most   rank in A   rank in B   doublings
 ────────────────────────────────────────────────────
 the                        1           2        +1.0
 of                         2           1        -1.0

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
 only A          1   25.00%
 both            1   25.00%
 only B          0    0.00%
 neither         2   50.00%

one word is all of what B misses and A knows, 1 of 4 tokens
 only A knows   count
 ────────────────────
 Paris              1

A misses nothing of this corpus that B knows

the ids of A do not tell whether they follow frequency
the ids of B do not tell whether they follow frequency
"""


def test_the_tables_for_a_terminal() -> None:
    """Whole, as a person sees them."""
    a = Vocabulary("a", "list", ByteStrings.of([b"the", b"of", b"Paris", b"287.9"]))
    b = Vocabulary("b", "list", ByteStrings.of([b"of", b"the", b"paris"]))
    counter = UseCounter(a, b, rule="whitespace")
    counter.count([string_array(["the dog Paris .\n"])])
    use = counter.report(("c.txt",))
    shown = to_text(replace(compare(a, b, (), ("a", "b")), use=use), 80)
    assert shown == SHOWN.format(fingerprint=use.fingerprint)


def test_what_a_reader_must_know_is_said() -> None:
    """Repeated and merged entries, folds, markers, orders; in text, JSON and on the page."""
    a = made([b"The", b"the", b"the", "▁x".encode()], "a", "▁")
    alphabet = made([f"w{i:03}".encode() for i in range(200)], "b")
    found = compare(a, alphabet, ("case",), ("a", "b"))
    counter = UseCounter(a, alphabet, folds=("case",))
    found = replace(found, use=counter.report())
    sentences = (
        "repeated entries of A, which count once: 1",
        "entries of A that folding made equal to an earlier one: 1",
        "the ids of B follow the alphabet: its ranks say nothing of frequency",
        "of pieces, only those that can be a whole word were looked up",
    )
    page = "".join(Page(written(found, "html").decode()).text)
    for shown in (to_text(found, 200), page, " ".join(json.loads(written(found, "json"))["notes"])):
        for sentence in sentences:
            assert sentence in shown
    for shown in (to_text(found, 200), page):
        assert "without case" in shown
        assert "pieces marked with '▁'" in shown


def test_a_corpus_of_nothing_is_said() -> None:
    """Shares of no words say nothing, and the report does not pretend that they do."""
    a, b = made([b"the"], "a"), made([b"of"], "b")
    found = replace(compare(a, b, (), ("a", "b")), use=UseCounter(a, b).report())
    assert "the corpus holds no words: its shares say nothing" in facts(found)["notes"]
    assert "holds no words" not in str(facts(sample())["notes"])


def test_the_page_tells_look_alikes_apart() -> None:
    """A ligature and a decomposed letter look like what NFKC makes of them: so their numbers."""
    a, b = made([b"find", "né".encode()], "a"), made(["\ufb01nd".encode(), b"ne\xcc\x81"], "b")
    page = written(compare(a, b, (), ("a", "b")), "html").decode()
    assert '= <bdi>\ufb01nd</bdi> <span class="small">\\ufb01nd</span>' in page
    assert '<bdi>né</bdi> = <bdi>ne\u0301</bdi> <span class="small">ne\\u0301</span>' in page


def test_every_fold_and_order_has_words() -> None:
    """What plain words are there for is what there is."""
    assert set(FOLD_NAMES) == {*FOLDS, "all"}
    assert set(ORDERS) == set(get_args(Order))


def test_what_strangers_wrote_is_inert() -> None:
    """Entries, names and sources make no tag, no handler, and nothing that is loaded."""
    text = written(sample(), "html").decode()
    page = Page(text)
    assert page.tags - SVG_TAGS <= HTML_TAGS
    assert page.tags >= {"svg", "table", "data"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    links = [value for name, value in page.attributes if name in ("href", "xlink:href")]
    assert all(value and value.startswith("#") for value in links)
    assert "@import" not in text
    assert all(found.startswith("url(#") for found in re.findall(r"url\(.{5}", text))
    outside = re.findall(r"https?://[^\"' <]*", text)
    assert {found for found in outside if not found.startswith("http://www.w3.org/")} == set()
    shown = "".join(page.text)
    for word in ("models/<i>", "<b>one</b>", "<u>.txt", "</style>", "$x^2$", "\\u202eabc"):
        assert word in shown
    assert "\u202e" not in text


def test_the_page_is_well_formed_and_whole() -> None:
    """XML parses it, no id stands twice, and each reference has its target."""
    text = written(sample(), "html").decode()
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids)) > 10
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert set(targets) <= set(ids)
    assert text.count("<svg") == 4
    assert written(sample(corpus=False), "html").count(b"<svg") == 3


def test_the_page_says_what_json_says() -> None:
    """Figures of the page are JSON's, to the last digit."""
    found = sample()
    document, numbers = facts(found), Page(written(found, "html").decode()).numbers
    assert numbers["common"] == [document["common"]]
    assert numbers["only in A"] == [document["only_a"]]
    assert numbers["jaccard"] == [document["jaccard"]]
    shares = document["use"]["shares"]
    assert numbers["A"] == [shares["a"]]
    assert numbers["B"] == [shares["b"]]
    assert numbers["both"] == [shares["both"]]
    assert numbers["neither"] == [shares["neither"]]
    for kind in document["kinds"]:
        assert numbers[kind["kind"]] == [kind[name] for name in ("a", "b", "only_a", "only_b")]


def test_plots_hold_the_figures() -> None:
    """Each has its axes or its legend, and the colour of ink is put in place."""
    text = written(sample(), "html").decode()
    for label in ("% of entries", "rank in A", "rank in B", "common to both", "neither"):
        assert label in text
    assert "#010203" not in text


def some_pairs() -> Pairs:
    return pairwise([made(A, "<b>"), made(B, "b"), made([b"of"], "c")])


def test_pairs_in_every_format(tmp_path: Path) -> None:
    """Text for people and for programs, JSON, CSV, Parquet and a page say the same."""
    found = some_pairs()

    def shown(form: DiffFormat, width: int | None = None) -> bytes:
        file = io.BytesIO()
        pairs.write(found, file, form, width=width)
        return file.getvalue()

    rows = [line.split("\t") for line in shown("text").decode().splitlines()]
    assert rows[0][:3] == ["a", "b", "size_a"]
    assert rows[3] == ["b", "c", str(len(B)), "1", "1", str(len(B) - 1), "0", str(1 / 7), ""]
    assert "Jaccard" in shown("text", 100).decode().splitlines()[0]
    document = json.loads(shown("json"))
    assert document["labels"] == ["<b>", "b", "c"]
    assert document["pairs"] == [pair._asdict() for pair in found.pairs]
    cells = list(csv.DictReader(io.StringIO(shown("csv").decode(), newline="")))
    assert [row["common"] for row in cells] == [str(pair.common) for pair in found.pairs]
    table = pq.read_table(io.BytesIO(shown("parquet"))).to_pylist()
    assert table == document["pairs"]
    page = Page(shown("html").decode())
    assert {"1", "2", "3", "<b>", "as they are stored"} <= set(page.text)
    pairs.save_pairs(found, tmp_path / "pairs.json")
    assert (tmp_path / "pairs.json").read_bytes() == shown("json")
