"""Reports of searches, as text and as pages: a parser finds in them what the hits say."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from tests.html_page import check_inert
from tests.some_reports import NASTY
from vocabtool import Document, Hits, Index
from vocabtool.cli.main import cli
from vocabtool.reports import report as render
from vocabtool.reports.hits import hits_for_page, hits_report

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


def written(hits: Hits, form: render.Format = "html") -> str:
    file = io.BytesIO()
    render.write(hits_report(hits, one_of_many=True), file, form, 100)
    return file.getvalue().decode()


def shown(text: str) -> str:
    """The text of a page, which is well-formed XML."""
    return "".join(ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n")).itertext())


@pytest.mark.parametrize("fusion", ["coverage", "rrf", "dense", "keyword"])
def test_the_page_has_what_the_text_has(index: Index, fusion: str) -> None:
    """Each word of the query, and each hit with its text, fields, scores and reasons."""
    hits = found(index, fusion=fusion, facets="lang", group_by="lang")
    text, page = written(hits, "text"), shown(written(hits))
    for line in text.splitlines():
        assert [cell for cell in re.split(" {2,}", line.strip()) if cell not in page] == []
    for hit in hits:
        assert f"{hit.id}  ({hit.score:.3f}" in text
        assert f"lang: {hit.fields['lang']}" in text
    assert "facet lang: en (2), de (1)" in text
    assert f"{hits[0].further} more in its group" in text


def test_words_of_the_query_are_marked_by_kind_and_weighed(index: Index) -> None:
    """For the page of the server: a word in no document weighs nothing."""
    hits = found(index)
    told = hits_for_page(hits)
    assert {each["surface"]: each["mark"] for each in told["query"]["words"]} == {
        **{"love": "known", "xapian": "unknown", "nowhere": "absent"},
        **{"SKU-48007-H": "code", "the": "stop", "of": "stop"},
    }
    for word, each in zip(hits.query.words, told["query"]["words"], strict=True):
        is_there = word.counts and word.surface != "nowhere"
        assert each["weighs"] == ((word.idf or 0) * (word.weight or 0) if is_there else 0)
    text = written(hits, "text")
    (line,) = [each for each in text.splitlines() if each.startswith("  nowhere")]
    assert line.split(maxsplit=1)[1].startswith("unknown to the model, in no document, counted")
    near = written(index.search("lve", explain=True), "text")
    assert near.index("lve: did you mean love?") < near.index("nothing found")
    near = written(index.search("lve", vector=[1, 0], explain=True), "text")
    assert near.index("lve: did you mean love?") < near.index(" 1. d  (similarity 1.000)")


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
    more: Any = {"literal": True, "explain": True, "k": 40, "phrases": "preferred", "facets": "tag"}
    hits = made.search(" ".join(("xapian", *strange)), vector=[1, 0], **more)
    assert {hit.id for hit in hits} == {*strange}
    text = written(hits)
    shown(text)
    told = check_inert(text)
    for each in (strange[0], "javascript:alert(1)", "\\x1b[31m"):
        assert each in told
    assert [each for each in "\x1b\x00\u202e\u2028" if each in text] == []


def test_fields_in_the_extract_are_shown_once(tmp_path: Path) -> None:
    """Those that are a part of the text; a title that is not in the extract is shown below it."""
    rows = [("A zebra", "the yak and en"), ("Far above", "a yak " * 200 + "and a zebra")]
    made = Index.create(tmp_path / "index", dim=2)
    with made.writer() as writer:
        for id_, (title, body) in zip("ab", rows, strict=True):
            fields = {"title": title, "body": body, "lang": "en"}
            writer.add([Document(id_, f"{title}\n\n{body}", fields)], vectors=[[1, 0]])
    text = written(made.search("zebra", explain=True, fusion="keyword"), "text")
    lines = map(str.strip, text.splitlines())
    told = [line for line in lines if line.startswith(("title", "body", "lang"))]
    assert told == ["lang: en", "title: Far above", "lang: en"]


def command(*arguments: object) -> None:
    cli.main([*map(str, arguments)], standalone_mode=False)


def test_the_command_writes_a_file(
    index: Index, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its ending says how: a page with explanations, JSON, text. Nothing is printed."""
    page, data, text = (tmp_path / f"hits{ending}" for ending in (".html", ".json", ".txt"))
    command("search", index.path, QUERY, "--fusion", "keyword", "-o", page)
    assert f"Search: {QUERY}" in shown(page.read_text())
    assert "keywords rank 1" in shown(page.read_text())
    command("search", index.path, "--where", "lang = 'en'", "-o", page)
    assert "<h1>Documents</h1>" in page.read_text()
    for file, form in ((data, "json"), (text, "text")):
        command("search", index.path, QUERY, "-o", file)
        assert capfd.readouterr().out == ""
        command("search", index.path, QUERY, "--format", form)
        assert capfd.readouterr().out == file.read_text()
    with pytest.raises(click.UsageError, match=r"FILE\.html is for one QUERY"):
        command("search", index.path, "-", "-o", page)
    with pytest.raises(click.UsageError, match=r"expected a file that ends in \.json, \.html or"):
        command("search", index.path, QUERY, "-o", tmp_path / "hits.csv")


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Options", "path": "Options > Required"}, "Options > Required"),
        ({"title": "core", "path": "Option"}, "core: Option"),
        ({"title": "notes", "path": ""}, "notes"),
        ({"title": "", "path": ""}, "id"),
    ],
)
def test_a_hit_is_named_by_what_is_above_it(
    tmp_path: Path, fields: dict[str, str], title: str
) -> None:
    """By its headings, a definition by its file too."""
    made = Index.create(tmp_path / "index", dim=2)
    with made.writer() as writer:
        writer.add([Document("id", "def lamp():\n    return 1", fields)], vectors=[[1, 1]])
    hits = made.search("lamp", explain=True, fusion="dense", vector=[1, 1])
    assert hits_for_page(hits)["hits"][0]["explanation"]["title"] == title
