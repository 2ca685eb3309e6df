"""Files of text as pieces: texts, places, sizes, ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.conftest import ROOT
from tests.documents.reading import batches, documents, ids_of, parts, write
from vocabtool import Document
from vocabtool.documents import ReadArguments, ReadLog, ReadOptions, SkipCounter
from vocabtool.documents import documents as read_documents
from vocabtool.errors import InvalidFile

Split = Literal["file", "line", "paragraph", "heading", "tokens"]
GUIDE = """---
title: "The guide"
---

Before.

# Guide

## Install

Run this:

```sh
# not a heading
pip install it
```

### Linux

Use apt.

## Install

Again.

Setext `code`
=============

Last [link](x.md) text. {#id}
"""


def test_markdown(tmp_path: Path) -> None:
    """Pieces, ids, fields and places of a file with all kinds of headings."""
    path = write(tmp_path / "guide.md", GUIDE)
    found: list[Any] = list(documents(path))
    assert [d.id.removeprefix(path) for d in found] == [
        *("", "#Guide > Install", "#Guide > Install > Linux", "#Guide > Install#2"),
        "#Setext code",
    ]
    assert found[1].text.startswith("# Guide\n\n## Install\n\nRun this:")  # a heading alone
    assert found[2] == Document(
        f"{path}#Guide > Install > Linux",
        "### Linux\n\nUse apt.",
        {
            "title": "The guide",
            "path": "Guide > Install > Linux",
            "source": path,
            "line": 18,
            "start": GUIDE.index("### Linux"),
            "end": GUIDE.index("apt.") + 4,
        },
    )
    for document in found:
        assert GUIDE[document.fields["start"] : document.fields["end"]] == document.text
    (batch,) = batches(path, keep=["title", "path", "line", "nothing"])
    assert batch.columns["line"].to_pylist() == ["5", "7", "18", "22", "26"]
    assert batch.columns["title"].to_pylist() == ["The guide"] * 5
    assert batch.columns["nothing"].null_count == 5
    assert [batch.place(row) for row in (0, 2)] == [f"{path}:5", f"{path}:18"]
    assert ids_of([batch]) == [d.id for d in found]
    assert ids_of([batch.with_source("other").only(batch.numbers.__eq__(18))]) == [
        "other#Guide > Install > Linux"
    ]
    crlf = write(tmp_path / "crlf.md", "\ufeff" + GUIDE.replace("\n", "\r\n"))
    assert [id_ for id_, _ in parts(crlf)] == [id_ for id_, _ in parts(path)]


YAML = """---
# of a site
title: 'A: b'
og:image: x.png
tags:
  - one

- two
more: [
  a,
]
---
"""


# A heading, and a rule before a note: no key comes first.
SECTIONS = ("# Intro\n\nNote: read this.\n\n    code", "---\nNote: x\nlast")


@pytest.mark.parametrize("split", ["file", "paragraph", "heading", "tokens"])
def test_front_matter_is_no_text(tmp_path: Path, split: Split) -> None:
    """It gives the title alone; places are those in the file. A paragraph between rules stays."""
    path = write(tmp_path / "a.md", f"{YAML}\nBody.\n")
    (found,) = documents(path, split=split)
    assert (found.text, found.fields["title"]) == ("Body.", "A: b")
    assert found.fields["line"] == 14
    assert (found.fields["start"], found.fields["end"]) == (len(YAML) + 1, len(YAML) + 6)
    windows = write(tmp_path / "b.md", f"\ufeff{YAML}\nBody.\n".replace("\n", "\r\n"))
    assert [text for _, text in parts(windows, split=split)] == ["Body."]
    assert parts(write(tmp_path / "c.md", YAML), split=split) == []
    for kept in ("Warning: this\nis no YAML", "# Heading\n\n- item", "text", *SECTIONS):
        rules = write(tmp_path / "d.md", f"---\n{kept}\n\n---\n")
        assert "".join(text for _, text in parts(rules, split=split)).count(kept[-4:]) == 1


def test_each_split(tmp_path: Path) -> None:
    """What each choice makes of a small file; a whole file is not cut by its size."""
    path = write(tmp_path / "a.md", "# A\n\none two.\nthree\n\nfour\n")
    wanted: dict[Split, list[str]] = {
        "file": ["# A\n\none two.\nthree\n\nfour"],
        "line": ["# A", "one two.", "three", "four"],
        "paragraph": ["# A", "one two.\nthree", "four"],
        "heading": ["# A", "one two.\nthree\n\nfour"],
        "tokens": ["# A", "one two.\nthree\n\nfour"],
    }
    for split, texts in wanted.items():
        assert [text for _, text in parts(path, split=split, split_size=4)] == texts
    lines = write(tmp_path / "a.txt", "one two\n\nthree")
    assert [text for _, text in parts(lines)] == ["one two", "three"]
    assert parts(lines, split="paragraph") == [("", "one two"), ("#2", "three")]


def test_txt_is_text_in_a_folder_and_lines_by_its_name(tmp_path: Path) -> None:
    """Underlines make its titles; options that say how it is read count in both."""
    text = "My page\n=======\n\nFirst\nparagraph.\n\nNext\n~~~~\n\nSecond.\n"
    page, folder = write(tmp_path / "tx" / "page.txt", text), str(tmp_path / "tx")
    pieces = [(f"{page}#My page", 1), (f"{page}#My page > Next", 7)]
    found = [*read_documents(folder)]
    assert [(each.id, each.fields["line"]) for each in found] == pieces
    assert found[1].text == "Next\n~~~~\n\nSecond."
    lines = [f"{page}:{number}" for number in (1, 2, 4, 5, 7, 8, 10)]
    choices: tuple[ReadArguments, ...] = ({"split": "line"}, {"format": "lines"})
    for chosen in choices:
        assert [each.id for each in documents(folder, **chosen)] == lines
    for name in (page, f"{folder}/*.txt"):
        assert [each.id for each in documents(name)] == lines
    assert [each.id for each in documents(page, split="heading")] == [id_ for id_, _ in pieces]
    write(tmp_path / "tx" / "rows.jsonl", '{"key": "a", "text": "b"}')
    assert [each.id for each in documents(folder, id_field="key")] == ["a"]


PAGE = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>h1 { }</style></head><body>
<!-- <h1>no</h1> --><h1 class='x > y'>One <b>big</b></h1><p>Some  text
here &lt;3.</p><script>if (a < b) "<h2>no</h2>"</script>
<h2>Two</h2><ul><li>first<li>second</ul><pre>a
  b</pre><h2>Two</h2>last"""


def test_html(tmp_path: Path) -> None:
    """Text without markup, in blocks; places are those of the file."""
    path = write(tmp_path / "page.html", PAGE)
    assert parts(path) == [
        ("#One big", "One big\n\nSome text here <3."),
        ("#One big > Two", "Two\n\nfirst\nsecond\n\na\n  b"),
        ("#One big > Two#2", "Two\n\nlast"),
    ]
    found: list[Any] = [document.fields for document in documents(path)]
    assert {each["title"] for each in found} == {"A & B"}
    assert PAGE[found[1]["start"] : found[1]["end"]].startswith("Two</h2><ul>")
    assert PAGE[found[2]["start"] :] == "Two</h2>last"
    assert [each["line"] for each in found] == [2, 4, 5]


def test_html_main(tmp_path: Path) -> None:
    """Menus stand around <main>, so they are not read, unless it has no heading."""
    menu, keys = "<title>Book</title><h1>Menu</h1><ul><li>auto</ul>", "<h2>Keys</h2>esc"
    page = f"{menu}<main><p>Before</p><h1>One</h1>text &amp; <b>more</b></main>{keys}"
    path = write(tmp_path / "page.html", page)
    assert parts(path) == [("", "Before"), ("#One", "One\n\ntext & more")]
    places: list[Any] = [document.fields for document in documents(path)]
    assert {fields["title"] for fields in places} == {"Book"}
    assert page[places[1]["start"] : places[1]["end"]] == "One</h1>text &amp; <b>more"
    assert parts(write(tmp_path / "open.html", "<p>menu<main><h1>One</h1>text")) == [
        ("#One", "One\n\ntext")
    ]
    others = [("#Menu", "Menu\n\ntext"), ("#Menu > Keys", "Keys\n\nesc")]
    assert parts(write(tmp_path / "no.html", f"<h1>Menu</h1><main>text</main>{keys}")) == others


def test_places_of_rst(tmp_path: Path) -> None:
    """They are those in the file, also of a piece that begins in the middle of copied text."""
    text = "A\n=\n\nSee :meth:`~Model.save` \u00e9.\n\nmore words here\n\n:ref:`b <c>`\n"
    path = write(tmp_path / "a.rst", text)
    found: list[Any] = [*read_documents(path, ReadOptions(split="paragraph"))]
    assert [document.text for document in found] == [
        "A\n=",
        "See save \u00e9.",
        "more words here",
        "b",
    ]
    spans = [text[document.fields["start"] : document.fields["end"]] for document in found]
    assert spans == [one.strip() for one in text.split("\n\n")]
    assert [document.fields["line"] for document in found] == [1, 4, 6, 8]


CODE = '''"""Module.

def not_this(): inside a text
"""
import re

@decorator(
    1)
def first():
    """Text."""
    return "\\"def x"

LIMIT = 1
class Second:
    def method(self): ...
    # comment ' with a quote
async def third(): pass
'''


def test_python(tmp_path: Path) -> None:
    """Definitions at the top level with their decorators, and the code between them."""
    path = write(tmp_path / "code.py", CODE)
    found = parts(path)
    assert [id_ for id_, _ in found] == ["", "#first", "#2", "#Second", "#third"]
    assert found[1][1].startswith("@decorator(\n    1)\ndef first")
    assert found[2][1] == "LIMIT = 1"
    own = parts(ROOT / "vocabtool" / "documents" / "pieces.py")
    assert [id_ for id_, _ in own if "#cut" in id_] == ["#cut"]


def test_other_code(tmp_path: Path) -> None:
    """Cut at blank lines, and filled up to the size; the indentation of the first line stays."""
    path = write(tmp_path / "code.c", "int a;\n\n  int b;\n\nint c;\n\nint d;\n")
    wanted = [("", "int a;\n\n  int b;"), ("#2", "int c;\n\nint d;")]
    assert parts(path, split_size=4) == wanted
    assert parts(path, split_size=2)[1] == ("#2", "  int b;")


def test_rows_are_split_if_asked(tmp_path: Path) -> None:
    """The pieces of a row have numbers and its fields; a short row is one piece."""
    rows = [{"id": "a", "text": "one two three", "year": 1}, {"id": "b", "text": "four", "year": 2}]
    path = write(tmp_path / "rows.jsonl", "\n".join([*map(json.dumps, rows), ""]))
    asked: ReadArguments = {"split": "tokens", "split_size": 2}
    fields: ReadArguments = {**asked, "id_field": "id", "keep": ["year", "start"]}
    (batch,) = batches(path, **fields)
    assert ids_of([batch]) == ["a#1", "a#2", "b#1"]
    assert batch.columns["year"].to_pylist() == ["1", "1", "2"]
    assert batch.columns["start"].to_pylist() == ["0", "8", "0"]
    assert parts(path, **asked)[0] == (":1#1", "one two")
    for start in range(4):
        found = documents(path, start=start, **asked)
        assert [d.text for d in found] == ["one two", "three", "four"][start:]
    assert ids_of(batches(iter(["one two three"]), **asked)) == ["texts:1#1", "texts:1#2"]
    with pytest.raises(ValueError, match="texts: split='tokens'"):
        list(documents(iter(["a"]), split="tokens"))


def test_repeated_ids_are_those_of_rows() -> None:
    """Not of pieces, of which the rows with an id may have different numbers."""
    rows = [{"id": "a", "text": "x y z"}, {"id": "a", "text": "new"}, {"id": "a#1", "text": "b"}]
    asked: Any = {"id_field": "id", "split": "tokens", "split_size": 2}
    with pytest.raises(InvalidFile, match="the id 'a' is also the id of texts:1"):
        list(batches(rows, **asked))
    found = [*batches(rows, **asked, on_duplicate="first", log=ReadLog())]
    assert [text for batch in found for text in batch.texts.to_pylist()] == ["x y", "z", "b"]
    assert ids_of(found) == ["a#1", "a#2", "a#1#1"]


def test_kept_fields_of_pieces_count_for_the_size_of_a_batch(tmp_path: Path) -> None:
    """Each piece has them again; fields of places are the row's own, if it has them."""
    rows = [{"text": "word " * 40, "note": "n" * 1000}, {"text": "a b", "start": "own"}]
    path = write(tmp_path / "rows.jsonl", "\n".join([*map(json.dumps, rows), ""]))
    read: ReadArguments = {"keep": ["note", "start"], "split": "tokens", "split_size": 1}
    found = list(batches(path, size=10_000, **read))
    assert [len(batch) for batch in found] == [10, 10, 10, 10, 2]
    assert ids_of(found) == [
        f"{path}:{row}#{n}" for row, most in ((1, 40), (2, 2)) for n in range(1, most + 1)
    ]
    assert {len(note) for each in found[:4] for note in each.columns["note"].to_pylist()} == {1000}
    assert found[1].columns["start"].to_pylist() == [str(5 * n) for n in range(10, 20)]
    assert found[4].columns["start"].to_pylist() == ["own", "own"]
    assert [each.text for each in documents(path, start=39, **read)] == ["word", "a", "b"]


def test_invalid_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is named, and skipped if asked; bytes that are not UTF-8 are kept."""
    monkeypatch.setattr("vocabtool.documents.pieces.MAX_FILE_BYTES", 100)
    for name, content, reason in (
        ("long.md", b"x" * 101, "more than 100 bytes"),
        ("wide.md", "text\n".encode("utf-16"), "UTF-16"),
    ):
        path = write(tmp_path / name, content)
        with pytest.raises(InvalidFile, match=rf"{name}:1: .*{reason}.*--on-error skip"):
            list(batches(path))
        skipped = SkipCounter()
        assert list(batches(path, on_error="skip", skipped=skipped)) == []
        assert skipped.count == 1
    monkeypatch.undo()
    with pytest.raises(InvalidFile, match=r"number.html:1: .*4300 digits.*--on-error skip"):
        list(batches(write(tmp_path / "number.html", f"&#{'1' * 5000};")))
    path = write(tmp_path / "raw.md", b"# \xff\n\nte\xfext")
    (batch,) = batches(path)
    assert batch.id_of(0) == f"{path}#\udcff"
    with pytest.raises(InvalidFile, match=r"raw\.md: has no field 'id'"):
        list(batches(path, id_field="id"))
    assert list(batches(write(tmp_path / "empty.md", " \n"))) == []


@pytest.mark.parametrize("overlap", [0, 7])
def test_a_piece_with_its_fields_is_not_too_long(tmp_path: Path, overlap: int) -> None:
    """As long as they have at most half of the words; else the piece has its half."""
    long = " ".join(f"w{at}" for at in range(400))
    for words, most in ((3, 40), (30, 30 + 20)):
        title = " ".join("t" * words)
        (tmp_path / "a.md").write_text(f"---\ntitle: {title}\n---\n\n{long}\n")
        asked: Any = {"field": ("title", "text"), "split_size": 40, "overlap": overlap}
        found = [text for batch in batches(str(tmp_path / "a.md"), **asked) for text in batch.texts]
        counts = [len(text.as_py().split()) for text in found]
        assert 40 - 8 <= max(counts) <= most
        assert "w399" in found[-1].as_py()


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.html", "<h1>One</h1>a<h2>Two</h2>b", ["One\n\na", "One > Two\n\nb"]),
        ("a.md", "(x)=\n\n# One\n\na\n\nTwo\n---\n\nb", ["One\n\na", "One > Two\n\nb"]),
        ("a.md", "a\n# One\nb b b b\n\nc c", ["a", "One\n\nb b", "One\n\nc c"]),
        ("a.md", "#\n\n## One\n\na\n\n# Two\n\nb", ["One\n\na", "Two\n\nb"]),
        ("a.md", "# One\n\n## Two", ["One > Two"]),
        ("a.py", "@d\ndef f(a,\n  b):\n  one()\n\n  2 + 2", ["@d\ndef f(a", "f\n\n  2"]),
        ("a.c", "# One\n\na", ["# One\n\na"]),
    ],
)
def test_a_path_comes_first(tmp_path: Path, name: str, text: str, wanted: list[str]) -> None:
    """A heading stands once: in the path, or in the code that has it."""
    options = ReadOptions(path_first=True, split_size=7)
    found = [*read_documents(write(tmp_path / name, text), options)]
    assert [each.text[: len(start)] for each, start in zip(found, wanted, strict=True)] == wanted


def test_a_heading_that_a_path_shortens_stays_in_the_text(tmp_path: Path) -> None:
    name = write(tmp_path / "a.md", text := f"# {'x' * 300} end\n\na")
    assert [each.text for each in read_documents(name, ReadOptions(path_first=True))] == [text]
