"""Pages of searches: an HTML parser finds in them what the hits say."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import click
import numpy as np
import pytest

from tests.builders.small_indexes import temporary_folder
from tests.html_page import Page, check_inert
from tests.some_reports import NASTY
from vocabtool import Document, Hits, Index, NotFound, save_hits
from vocabtool.cli.main import cli

KINDS = {
    "love": "known",
    "xapian": "unknown",
    "nowhere": "absent",
    "SKU-48007-H": "code",
    "the": "stop",
}
QUERY = "the love of xapian, nowhere SKU-48007-H"
DOCUMENTS = [
    Document("a", "I like the xapian library", {"title": "All of <i>", "lang": "en"}),
    Document("b", "The SKU-48007-H is here, with love", {"lang": "en"}),
    Document("c", "xapian and xapian", {"lang": "de"}),
    Document("d", "nothing of this", {"lang": "de"}),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Four documents, at other places by their vectors than by their words."""
    folder = tmp_path_factory.mktemp("pages") / "index"
    made = Index.create(folder, dim=2, vocabulary=["love", "here", "with", "nothing"])
    with made.writer() as writer:
        writer.add(DOCUMENTS, vectors=[[1, 3], [1, 2], [1, 1], [1, 0]])
    return made


def found(index: Index, **more: Any) -> Hits:
    return index.search(QUERY, vector=[1, 0], explain=True, **more)


def page_of(hits: Hits, **options: Any) -> str:
    with temporary_folder() as folder:
        save_hits(hits, Path(folder, "page.html"), **options)
        return Path(folder, "page.html").read_text("utf-8")


def root_of(text: str) -> Element:
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def shown(element: Element) -> str:
    return "".join(element.itertext())


def numbers(element: Element) -> list[float]:
    return [float(each.attrib["value"]) for each in element.iter("data")]


def marks(element: Element) -> list[tuple[str, str]]:
    return [(shown(each), each.attrib["class"]) for each in element.iter("mark")]


def test_the_words_are_marked_by_kind_and_weighed(index: Index) -> None:
    """As the hits say; a word in no document weighs nothing; each mark is told in words."""
    hits = found(index)
    text = page_of(hits)
    first, legend = [each for each in root_of(text).iter("p") if marks(each)][:2]
    assert shown(first) == QUERY
    assert dict(marks(first)) == KINDS | {"of": "stop"}
    assert {mark for _, mark in marks(legend)} == {*KINDS.values()}
    assert ("in no document", "absent") in marks(legend)
    page = Page(text)
    for word in hits.query.words:
        if word.counts:
            assert word.idf is not None and word.weight is not None
            weighs = 0 if word.surface == "nowhere" else word.idf * word.weight
            assert page.numbers[word.surface] == [word.idf, word.weight, weighs]
        else:
            assert word.surface not in page.numbers


@pytest.mark.parametrize("fusion", ["coverage", "rrf", "dense", "keyword"])
def test_each_hit_is_there_with_both_legs(index: Index, fusion: str) -> None:
    """Its place, text, fields, scores and reasons; bars are no longer than the table."""
    hits = found(index, fusion=fusion, k=3)
    text = page_of(hits)
    articles = [*root_of(text).iter("article")]
    assert [each.attrib["id"] for each in articles] == [f"hit-{n}" for n in range(1, len(hits) + 1)]
    for rank, (article, hit) in enumerate(zip(articles, hits, strict=True), 1):
        why = hit.explanation
        assert why is not None
        head = hit.fields.get("title") or hit.id
        assert [shown(each) for each in article.iter("h3")] == [f"{rank}. {head}"]
        spans = [(hit.text[start:end], "match") for start, end in why.highlights]
        assert marks(article) == spans
        assert hit.text in shown(article)
        assert hit.fields["lang"] in [shown(each) for each in article.iter("dd")]
        dense = [why.dense.part or 0, why.dense.score, why.rank_without_keywords]
        keyword = [why.keyword.part or 0, why.keyword.score, why.keyword.rank]
        every = [*dense, *keyword, hit.score]
        assert "rank by it alone" in map(shown, article.iter("th"))
        assert numbers(article) == [each for each in every if each is not None]
        assert f"vectors rank {why.dense.rank}" in shown(article) or why.dense.rank is None
    bars = [each.attrib["style"] for each in root_of(text).iter("span") if "style" in each.attrib]
    widths = [float(each.removeprefix("width:").removesuffix("%")) for each in bars]
    assert max(widths) == 100
    assert min(widths) >= 0


def test_what_stands_below_the_hits(index: Index, tmp_path: Path) -> None:
    """Facets, groups and notes, as the text report has them."""
    hits = found(index, k=1, facets="lang", group_by="lang")
    text = page_of(hits)
    assert "facet lang: en (2), de (1)" in text
    assert f"{hits[0].further} more in its group" in text
    near = index.search("lve", explain=True)
    text = page_of(near)
    assert "lve: did you mean love?" in text
    assert "nothing found" in text
    assert [note for note in near.notes if f"note: {note}" not in text] == []
    assert dict(marks(root_of(text)))["lve"] == "absent"


def test_moved_hits_are_marked_on_both_sides(index: Index) -> None:
    """Where each is on the other side, with a link to it, or that it is not there."""
    one, other = found(index, k=3, fusion="dense"), found(index, k=3, fusion="keyword")
    assert [hit.id for hit in one] == ["d", "c", "b"]
    assert [hit.id for hit in other] == ["b", "c", "a"]
    text = page_of(one, beside=other, names=("dense <1>", "words"))
    articles = {each.attrib["id"]: each for each in root_of(text).iter("article")}
    moves = {
        "left-1": (None, "not among the 3 hits of “words”"),
        "left-2": ("#right-2", "at the same rank in “words”"),
        "left-3": ("#right-1", "moved: rank 1 in “words”, 2 higher"),
        "right-1": ("#left-3", "moved: rank 3 in “dense <1>”, 2 lower"),
        "right-2": ("#left-2", "at the same rank in “dense <1>”"),
        "right-3": (None, "not among the 3 hits of “dense <1>”"),
    }
    assert [*articles] == [*moves]
    for name, (to, told) in moves.items():
        (said,) = [each for each in articles[name].iter("p") if shown(each) == told]
        assert [each.attrib["href"] for each in said.iter("a")] == ([to] if to else [])
        assert (articles[name].attrib.get("class") == "apart") is not told.startswith("at the")
    check_inert(text, plots=False)


def test_nothing_of_strangers_runs(tmp_path: Path) -> None:
    """Ids, texts, fields, notes and the query are text; control characters are escaped."""
    strange = [each.decode("utf-8", "replace") for each in NASTY if each.strip(b"\0")]
    strange.append("javascript:alert(1)")
    made = Index.create(tmp_path / "index", dim=2)
    with made.writer() as writer:
        writer.add(
            [Document(e, f"{e} xapian", {"title": e, "tag": e}) for e in dict.fromkeys(strange)],
            vectors=[[1, at] for at in range(len({*strange}))],
        )
    asked: Any = {
        "literal": True,
        "explain": True,
        "k": 40,
        "phrases": "preferred",
        "facets": "tag",
    }
    hits = made.search(" ".join(("xapian", *strange)), vector=[1, 0], **asked)
    assert {hit.id for hit in hits} == {*strange}
    text = page_of(hits, beside=hits, names=(strange[0], strange[3]))
    root_of(text)
    told = check_inert(text, plots=False)
    assert [
        each for each in (strange[0], "javascript:alert(1)", "\\x1b[31m") if each not in told
    ] == []
    assert [each for each in "\x1b\x00\u202e\u2028" if each in text] == []
    assert "it is unknown whether the model knows the word" in text


def test_long_texts_are_cut_and_say_so(tmp_path: Path) -> None:
    """The text around the words, the query, a field, an id."""
    made = Index.create(tmp_path / "index", dim=2)
    long, words = "x" * 3_000, "a b " * 1_000
    with made.writer() as writer:
        text = f"{words} xapian {words}"
        writer.add([Document(long, text, {"title": long, "tag": long})], vectors=[[1, 0]])
    text = page_of(made.search(f"xapian {long}", vector=[1, 0], explain=True))
    assert "600 of 8,008 characters are shown" in text
    assert "2,000 of 3,007 characters are shown" in text
    assert ("xapian", "match") in marks(root_of(text))
    assert ("x" * 1_993 in text, "x" * 1_994 in text) == (True, False)


def test_without_an_explanation_or_a_query(index: Index) -> None:
    """The scores; of a list, none."""
    (hit, *_) = index.search("love", vector=[1, 0])
    text = page_of(index.search("love", vector=[1, 0]))
    assert f"score {hit.score:.3f}, similarity {hit.similarity:.3f}" in text
    listed = index.search(where="lang = 'en'")
    text = page_of(listed)
    assert [shown(each) for each in root_of(text).iter("h3")] == ["1. All of <i>", "2. b"]
    assert "<h1>Documents</h1>" in text
    assert "score" not in shown(root_of(text).find("body"))  # type: ignore[arg-type] # it has one


def test_negative_scores_have_no_bars(tmp_path: Path) -> None:
    """As those of squared distances; the numbers are there."""
    made = Index.create(tmp_path / "index", dim=2, metric="l2")
    with made.writer() as writer:
        writer.add(["a zebra", "the yak"], vectors=[[3, 0], [0, 4]])
    hits = made.search("zebra", vector=[0, 5], fusion="dense", explain=True)
    text = page_of(hits)
    assert Page(text).numbers["vectors"] == [-1.0, -1.0, 1, -34.0, -34.0, 2]
    assert [e.attrib for a in root_of(text).iter("article") for e in a.iter("span")] == []


def test_fields_in_the_extract_are_shown_once(tmp_path: Path) -> None:
    """Those that are a part of the text; a title that is not in the extract is shown below it."""
    rows = [("A zebra", "the yak and en"), ("Far above", "a yak " * 200 + "and a zebra")]
    made = Index.create(tmp_path / "index", dim=2)
    with made.writer() as writer:
        for id_, (title, body) in zip("ab", rows, strict=True):
            fields = {"title": title, "body": body, "lang": "en"}
            writer.add([Document(id_, f"{title}\n\n{body}", fields)], vectors=[[1, 0]])
    hits = made.search("zebra", explain=True, fusion="keyword")
    save_hits(hits, tmp_path / "hits.txt")
    lines = map(str.strip, (tmp_path / "hits.txt").read_text().splitlines())
    told = [line for line in lines if line.startswith(("title", "body", "lang"))]
    assert told == ["lang: en", "title: Far above", "lang: en"]
    facts = [[*map(shown, a.iter("dt"))] for a in root_of(page_of(hits)).iter("article")]
    assert facts == [["id", "lang"], ["id", "lang"]]  # titles are headings


def test_a_word_in_no_document_is_said_to_be(index: Index, tmp_path: Path) -> None:
    """In the text, in the same words as on the page."""
    save_hits(found(index), tmp_path / "hits.txt")
    text = (tmp_path / "hits.txt").read_text()
    (line,) = [each for each in text.splitlines() if each.startswith("  nowhere")]
    assert line.split(maxsplit=1)[1].startswith("unknown to the model, in no document, counted")


def test_files_of_other_formats(index: Index, tmp_path: Path) -> None:
    """JSON and text as the command prints them; what does not fit is refused."""
    hits = found(index)
    save_hits(hits, tmp_path / "hits.txt")
    assert f"query: {QUERY}" in (tmp_path / "hits.txt").read_text()
    save_hits(hits, tmp_path / "hits", "html")
    assert (tmp_path / "hits").read_text() == page_of(hits)
    with pytest.raises(ValueError, match="html, json or text, got csv"):
        save_hits(hits, tmp_path / "hits.csv")
    with pytest.raises(ValueError, match="'beside' needs the format html, got json"):
        save_hits(hits, tmp_path / "hits.json", beside=hits)
    with pytest.raises(ValueError, match="'beside' must have the query 'the love of xapian"):
        save_hits(hits, tmp_path / "hits.html", beside=index.search("love"))
    with pytest.raises(NotFound, match="no: the folder does not exist"):
        save_hits(hits, tmp_path / "no" / "hits.html")


def command(*arguments: object) -> None:
    cli.main([*map(str, arguments)], standalone_mode=False)


def test_commands_write_pages(
    index: Index, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same as the library's; ``--beside`` takes options of ``search`` by name."""
    file = tmp_path / "page.html"
    ask = ("search", index.path, QUERY, "--fusion", "keyword", "--html", file)
    command(*ask, "--beside", "k-rrf=5", "--beside", "fusion = rrf", "--beside", "guarantee=no")
    hits = index.search(QUERY, fusion="keyword", explain=True)
    other = index.search(QUERY, fusion="rrf", k_rrf=5, guarantee=False, explain=True)
    names = "as asked", "k-rrf=5, fusion = rrf, guarantee=no"
    assert file.read_text() == page_of(hits, beside=other, names=names)
    assert "keywords rank 1" in capfd.readouterr().out
    command("similar", index.path, "a", "--html", file)
    alike = index.similar("a", explain=True)
    title = alike.query.text.join(("Search: ", "</"))
    assert file.read_text().replace("Documents like a</", title) == page_of(alike)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--beside", "fusion=dense"), "--beside needs a page: pass --html FILE"),
        (("--html", "-"), "--html needs the name of a file"),
        (("--html", "f.html", "--beside", "dense"), "wanted NAME=VALUE, such as fusion=dense"),
        (("--html", "f.html", "--beside", "k=3"), "NAME is one of fusion, a, weight, boost"),
        (("--html", "f.html", "--beside", "fusion=x"), "--beside fusion=x: 'x' is not one of"),
        (("--html", "f.html", "--beside", "a=2"), "--beside a=2: 2.0 is not in the range 0<=x<=1"),
        (("--html", "f.html", "--beside", "a=0", "--offset", "1"), "first pages"),
        (
            ("--html", "f.html", "--beside", "identifier=("),
            "--beside identifier=(: identifier: '('",
        ),
        (("--html", "f.html", "--beside", "fusion=dense"), "--beside: fusion='dense' needs"),
    ],
)
def test_wrong_options_of_pages(index: Index, options: tuple[str, ...], told: str) -> None:
    """The message names the option, and what is wanted."""
    with pytest.raises(click.UsageError) as caught:
        command("search", index.path, "love", *options)
    assert told in caught.value.message


def test_a_page_is_of_one_query(index: Index) -> None:
    """Not of those of standard input."""
    with pytest.raises(click.UsageError, match="--html is for one QUERY"):
        command("search", index.path, "-", "--html", "f.html")


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Options", "path": "Options > Required"}, "1. Options > Required"),
        ({"title": "core", "path": "Option"}, "1. core: Option"),
        ({"title": "notes", "path": ""}, "1. notes"),
        ({"title": "", "path": ""}, "1. id"),
    ],
)
def test_a_hit_is_named_by_what_is_above_it(
    tmp_path: Path, fields: dict[str, str], title: str
) -> None:
    """By its headings, a definition by its file too; its lines stay, empty fields do not."""
    made = Index.create(tmp_path / "index", dim=2)
    text = "def lamp():\n    return 1\n\n\n\nlast"
    with made.writer() as writer:
        writer.add([Document("id", text, fields)], vectors=np.ones((1, 2), np.float32))
    page = page_of(made.search("lamp", explain=True, fusion="dense", vector=[1, 1]))
    assert f"<h3>{escape(title)}</h3>" in page
    assert "():\n    return 1\n\nlast</p>" in page
    assert ("<dt>path</dt>" in page) == (fields["path"] == "Option")
    assert "keywords not searched" in page
