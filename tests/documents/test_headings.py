"""Headings as the owners of the formats see them; where texts are cut; hostile texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabtool.choices import Split
from vocabtool.documents import headings, pieces
from vocabtool.documents.batch import BadRow, Count
from vocabtool.documents.headings import MarkedText
from vocabtool.documents.pieces import Sizes


def outline(marked: MarkedText) -> list[tuple[int, str]]:
    return [(each.level, each.title) for each in marked.headings]


def test_headings_of_markdown_are_outside_lists_and_quotes() -> None:
    """Nor are they in code, HTML and comments; underlines count, too."""
    text = "#\tA `a`\n\nintro\n\n## B ##\n\nTitle\n  --\n####### C\n#D\n"
    assert outline(headings.markdown(text)) == [(1, "A a"), (2, "B"), (2, "Title")]
    inside = ("    # E", "- item\n---", "- # E", "> # E", "```\n# E\n```", "``` x`y\n***")
    for code in (*inside, "<pre>\n# A\n</pre>", "<!--\n# A\n-->", "~~~\n# E\n```\n# F"):
        assert outline(headings.markdown(code)) == []


RST = """
=====
Guide
=====

.. code:: python

    Not
    ===

Install
-------

A paragraph
of lines
---
Use :func:`apt`
~~~~~~~~~~~~~~~

Text::

    Nor
    ---

----

Install
-------
Ünïcode
=======

Other
+++++
"""


def as_docutils(text: str) -> list[tuple[int, str]]:
    core = pytest.importorskip("docutils.core", reason="docutils is the oracle")
    nodes = pytest.importorskip("docutils.nodes", reason="docutils is the oracle")
    tree = core.publish_doctree(
        text, settings_overrides={"report_level": 5, "halt_level": 5, "doctitle_xform": False}
    )
    found = []
    for section in tree.findall(nodes.section):
        level, above = 1, section.parent
        while isinstance(above, nodes.section):
            level, above = level + 1, above.parent
        found.append((level, section[0].astext()))
    return found


def test_headings_of_rst_are_those_of_docutils() -> None:
    """Overlines, directives, transitions, paragraphs, and levels in order of appearance."""
    text = RST.replace("Use :func:`apt`\n~~~~~~~~~~~~~~~\n", "\nUse apt\n~~~~~~~\n")
    text = text.replace("Ünïcode\n=======\n\nOther\n+++++\n", "")
    assert outline(headings.rst(text)) == as_docutils(text)


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Use :func:`apt`", "Use apt"),
        ("``QuerySet``\\s and `text`_", "QuerySets and text"),
        (":class:`lazy <foo>` or `here <http://x/>`__", "lazy or here"),
        (":class:`~django.db.QuerySet`\\ s, :meth:`!a.b`", "QuerySets, a.b"),
        ("``C:\\temp`` is \\*new\\*", "C:\\temp is *new*"),
        ("a < b `", "a < b"),
    ],
)
def test_titles_of_rst_are_without_markup(written: str, title: str) -> None:
    assert outline(headings.rst(f"{written}\n{'=' * 50}\n")) == [(1, title)]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Use :meth:`~Model.save`, :py:class:`~a.B`\\ s.", "Use save, Bs."),
        (":ref:`the text\n<label>` (:func:`!open`)", "the text (open)"),
        ("see `the site <http://x/>`__ and `Notes`_", "see the site and Notes"),
        (":pep:`8`, :file:`~/.a/b.c`, :samp:`x<y>`", "PEP 8, ~/.a/b.c, x<y>"),
        (":samp:`cp <a> <b>`, :math:`~x.y`, :code:`if a <b>`", "cp <a> <b>, ~x.y, if a <b>"),
        (".. toctree::\n   :maxdepth: 2\n   :hidden:\n\n   a", ".. toctree::\n\n   a"),
        ("``:ref:`a``` and ``:meth:`~A.b` ``", "``:ref:`a``` and ``:meth:`~A.b` ``"),
        ("   :returns: a list\n12:`x` :a:`b\n\nc`", "   :returns: a list\n12:`x` :a:`b\n\nc`"),
        (".. note::\n   :class:`A` is new", ".. note::\n   A is new"),
    ],
)
def test_text_of_rst_is_what_a_reader_sees(written: str, shown: str) -> None:
    """Without roles, targets and options of directives; literals and other text stay."""
    assert headings.rst(written).text == shown


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)


TAGS = ("<p>", "</p>", "<b>", "</b>", "a", " b ", "&amp;", "<br/>", "<!-- x -->", "1 < 2", "<td>")


@given(st.lists(st.sampled_from(TAGS), max_size=10))
def test_text_of_html_is_that_of_pythons_parser(tags: list[str]) -> None:
    """The same characters, apart from blanks."""
    parser = Texts()
    parser.feed("".join(tags))
    parser.close()
    wanted = "".join("".join(parser.found).split())
    assert "".join(headings.html("".join(tags)).text.split()) == wanted


# Laws.


def count_letters(texts: Sequence[str]) -> list[int]:
    """Not additive: every letter counts, and a line end inside counts twice."""
    return [len("".join(text.split())) + 2 * text.strip().count("\n") for text in texts]


PARTS = (
    *("# A\n", "## B\n\n", "word ", "two words. ", "\n", "\n\n", "x" * 70, "é中 ", "  ", "```\n"),
    *("Title\n-----\n", "<p>", "</p>", "<h2>C</h2>", "def f():\n", "    pass\n", "'", '"""'),
)
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)
MARKS: dict[str, Callable[[str], MarkedText]] = {
    "plain": MarkedText,
    "markdown": headings.markdown,
    "rst": headings.rst,
    "html": headings.html,
    "python": headings.python,
}


@pytest.mark.parametrize("count", [pieces.count_words, count_letters])
@pytest.mark.parametrize("kind", MARKS)
@given(
    text=TEXTS,
    split=st.sampled_from(["line", "paragraph", "heading", "tokens"]),
    size=st.integers(4, 40),
    overlap=st.integers(0, 3),
)
def test_pieces_cover_the_text(
    kind: str, count: Count, text: str, split: Split, size: int, overlap: int
) -> None:
    """In order, none above the size, all but blanks; the overlap is what is asked, or less."""
    marked = MARKS[kind](text)
    found = [*pieces.cut(marked, split, Sizes(size, overlap, count))]
    cut = marked.text
    assert all(length <= size for length in count([cut[p.start : p.end] for p in found]))
    assert all(cut[p.start : p.end].strip() for p in found)
    end = 0
    for piece in found:
        assert not cut[end : piece.start].strip()
        shared = cut[piece.start : end]
        assert piece.end > end
        assert count([shared])[0] <= overlap + 2 * shared.count("\n")
        end = piece.end
    assert not cut[end:].strip()


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (
            "markdown",
            "# A\n\none\n\n(b)=\n(other-b)=\n\n## B\n\ntwo\n\n(c)= d\n## C\n\nthree",
            ["# A\n\none", "(b)=\n(other-b)=\n\n## B\n\ntwo\n\n(c)= d", "## C\n\nthree"],
        ),
        ("markdown", "one\n\n(b)=\nBB\n--\ntwo", ["one", "(b)=\nBB\n--\ntwo"]),
        (
            "rst",
            "AAA\n===\none\n\n.. _b:\n\n---\nBBB\n---\ntwo\n\n.. _c: d\n\nCCC\n---\nthree",
            ["AAA\n===\none", ".. _b:\n\n---\nBBB\n---\ntwo\n\n.. _c: d", "CCC\n---\nthree"],
        ),
    ],
)
def test_labels_belong_to_the_heading_below(kind: str, text: str, wanted: list[str]) -> None:
    """Not to the section before. In CommonMark, a label right above a heading is part of it."""
    found = pieces.cut(MARKS[kind](text), "heading", Sizes(99, 0, pieces.count_words))
    assert [text[piece.start : piece.end] for piece in found] == wanted


@given(st.integers(0, 9), st.text("ab \n", max_size=30))
def test_an_edit_leaves_the_other_sections(section: int, edit: str) -> None:
    """And of the section itself, the pieces before the edit."""
    bodies = [" ".join(f"w{n}{m}" for m in range(50)) for n in range(10)]

    def found() -> list[tuple[str, str]]:
        text = "\n\n".join(f"## S{n}\n\n{body}" for n, body in enumerate(bodies))
        cut = pieces.cut(headings.markdown(text), "heading", Sizes(20, 0, pieces.count_words))
        return [(piece.path, text[piece.start : piece.end]) for piece in cut]

    before = found()
    bodies[section] += edit
    after = found()
    assert {pair for pair in before if pair[0] != f"S{section}"} <= {*after}
    assert next(pair for pair in before if pair[0] == f"S{section}") in after


# Hostile files.


@pytest.mark.parametrize("kind", MARKS)
def test_hostile_texts_need_linear_time(kind: str) -> None:
    """Much of what opens and does not close; the parser of Markdown is slow, but linear."""
    length = 30_000 if kind == "markdown" else 200_000
    opened = (
        *("<", "<!--", "<a ", "<a b='", "<h1>", "<pre>", "```\n", "`" * 9 + "\n", "~~~~\n", "# \n"),
        *("===\n", "a\n=\n", "-\n", "[", "![](", '"""', "'", '"\\', "#" * 7, "&", "@\n", " \t"),
        *(":a:`", ":a:", "`a <b>`_ ", "``a`", ".. a::", ".. a::\n :b:\n", ".. "),
        *("a " * 9, "<script>", "</p", "<a =", "---\n", "{#", "\\", "def f\n", "\n", "\r\n"),
    )
    rolled = random.Random(3)
    mixed = ["".join(rolled.choices(opened, k=2000)) for _ in range(20)]
    for text in [*(each * (length // len(each)) for each in opened), *mixed]:
        with suppress(BadRow):  # one tag of many attributes
            list(pieces.cut(MARKS[kind](text), "heading", Sizes(64, 8, pieces.count_words)))


def test_titles_and_strings_need_linear_time() -> None:
    """200,000 characters; with a quadratic expression, each would run for minutes."""
    blanks = " " * 200_000
    assert headings.markdown(f"---\ntitle: x{blanks}y\n---\n").title == "x y"
    assert headings.markdown(f"---\ntitle: 'x' {blanks}\n---\n").title == "x"
    assert headings.markdown(f"# x{blanks}}}").title == "x }"
    assert headings.markdown(f"# x{blanks}{{#id}}").title == "x"
    assert len(headings.rst("--\n" * 260_000).headings) == 130_000
    assert headings.rst(":a:" + "`" * (8 << 20)).headings == []
    with pytest.raises(BadRow, match="front matter in TOML has more than 32,768"):
        headings.markdown("+++\n" + "a." * 500_000 + "a = 1\n+++\n")
    assert headings.python("'''" + "a\n\\'''" * 40_000 + "\\").headings == []


@pytest.mark.parametrize(
    ("kind", "text", "limit"),
    [
        *(("markdown", "#\n", "MAX_HEADINGS"), ("markdown", "\na", "MAX_LINES")),
        *(("rst", "aa\n--\n\n", "MAX_HEADINGS"), ("html", "<h1>a</h1>", "MAX_HEADINGS")),
        *(("html", "<b>", "MAX_TAGS"), ("markdown", "a", "MAX_MARKDOWN")),
        ("python", "def f\n", "MAX_HEADINGS"),
    ],
)
def test_headings_and_places_have_limits(
    kind: str, text: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file at the limit is read; a longer one is not."""
    monkeypatch.setattr(headings, limit, 5 if limit == "MAX_LINES" else 3)
    assert len(MARKS[kind](text * 3).headings) == (3 if limit == "MAX_HEADINGS" else 0)
    with pytest.raises(BadRow, match=r"more than [35]"):
        MARKS[kind](text * 4)


def test_many_tags_and_attributes() -> None:
    """A tag of 1,000 attributes is a tag; a file with a longer one, or many tags, is refused."""
    assert headings.html("<a " + "b='c' " * 999 + ">text<b>").text == "text"
    query = "&".join(f"a{number}={number}" for number in range(1_100))
    assert headings.html(f"<a href=http://x/?{query}>text</a>").text == "text"
    with pytest.raises(BadRow, match="more than 524,288 tags"):
        headings.html("<p>a" * 1_000_000)
    with pytest.raises(BadRow, match=r"a tag of more than 1,000 attributes"):
        headings.html("<a " + "b='c' " * 1_002 + ">text<b>")


def test_a_very_long_section(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut at a blank line, a line end or a blank first; all its pieces have its path."""
    monkeypatch.setattr(pieces, "MAX_SECTION", 12)
    text = "# A\n\nb c d\n\ne f g h\ni j k l m n o p q rstuvwxyzabcdefgh"
    found = [*pieces.cut(headings.markdown(text), "heading", Sizes(99, 0, pieces.count_words))]
    assert {piece.path for piece in found} == {"A"}
    wanted = ["# A\n\nb c d", "e f g h", "i j k l m", "n o p q", "rstuvwxyzab", "cdefgh"]
    assert [text[piece.start : piece.end] for piece in found] == wanted
