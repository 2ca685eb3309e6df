"""Find headings in Markdown, reStructuredText, HTML and Python files, and find Python docstrings.

Sources: the CommonMark specification 0.31; docutils, parsers/rst/states.py; the HTML standard,
section 13.2.5; the lexical analysis of the Python reference.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from inspect import cleandoc
from typing import Final, NamedTuple

from vocabtool.documents.batch import BadRow

MAX_TITLE: Final = 200  # characters of a heading that are kept
MAX_PARAGRAPH: Final = 20  # lines of a setext heading
MAX_HEADINGS: Final = 1 << 18  # of a file; each needs much more memory than its bytes
MAX_PLACES: Final = 1 << 20  # parts of text between tags
MAX_PARSED: Final = 2 << 20  # characters of Python; its syntax tree needs up to 1 KB for each

MAX_FRONT: Final = 1 << 20  # characters of front matter
FRONT: Final = re.compile(r"\A\n?---[ \t]*\r?\n(.*?)\n(?:---|\.\.\.)[ \t]*\r?(?=\n|\Z)", re.DOTALL)
FRONT_KEY: Final = re.compile(r"(?:#.*\n)*[^\s#\-\]}].*?:(?!\S)")  # comments, then a key
FRONT_LINE: Final = re.compile(r"[ \t\r#\-\]}]|$|.*?:(?!\S)")
FRONT_TITLE: Final = re.compile(r"^title:(.*)", re.MULTILINE)
# Expressions begin with a line end, because ``re`` finds it quickly. So a line end is put before
# the text: a match at ``n`` of the padded text is a line that starts at ``n`` of the text.
MARKDOWN: Final = re.compile(
    r"\n {0,3}(?:(?P<fence>`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})"
    r"|(?P<hashes>#{1,6})(?=[ \t\r\n]|\Z)(?P<title>[^\n]*)"
    r"|(?P<under>=+|-+)[ \t]*\r?(?=\n|\Z)"
    r"|<(?P<html>!--|(?i:script|pre|style|textarea)(?=[\s>])))"
)
FENCE_ENDS: Final = {
    sign: re.compile(rf"\n {{0,3}}({sign}{{3,}})[ \t]*\r?(?=\n|\Z)") for sign in "`~"
}
COMMENT_END: Final = re.compile("-->")
RAW_END: Final = re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE)
NO_PARAGRAPH: Final = re.compile(r" {0,3}(?:[-*+][ \t]|\d{1,9}[.)][ \t]|>|#{1,6}[ \t])|    |\t")
CLOSING: Final = re.compile(r"(?:^|[ \t])#+[ \t\r]*$")
RULE: Final = re.compile(r" {0,3}([*_])[ \t]*(?:\1[ \t]*){2,}\r?$")
LINK: Final = re.compile(r"!?\[([^\[\]\n]*+)\]\([^()\n]*+\)")
ATTRIBUTES: Final = re.compile(r"\{[#.:][^{}\n]*+\}$")

LABEL: Final = re.compile(r"\([^()\s]+\)=|\.\. _[^\n]+:")  # of MyST and of reStructuredText
MAX_LABEL: Final = 200  # characters, with the blank lines after it

RST: Final = re.compile(r"\n([!-/:-@\[-`{-~])\1++[ \t]*\r?(?=\n|\Z)")
ROLE: Final = re.compile(r":[\w.+-]++:(?=`)")
SHORT: Final = 4  # a shorter underline must be as long as its title

# Atomic groups: Python before 3.11.5 matches possessive groups wrongly.
TAG: Final = re.compile(
    r"<(?:!--.*?(?:-->|\Z)|[!?][^>]*+>?"
    r"|(?P<end>/?)(?P<name>[a-z][^\s/>]*+)"
    r"(?P<inside>(?>(?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?)*))(?:>|\Z))",
    re.DOTALL | re.IGNORECASE,
)
RAW: Final = {
    name: re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "template", "iframe", "noframes", "xmp")
}
LINE_BREAKS: Final = dict.fromkeys(("br", "li", "tr", "dt", "dd", "option"), "\n")
BREAKS: Final = LINE_BREAKS | dict.fromkeys(
    (
        *("address", "article", "aside", "blockquote", "body", "div", "dl", "fieldset", "figure"),
        *("figcaption", "footer", "form", "header", "hr", "main", "nav", "ol", "p", "pre"),
        *("section", "table", "ul", "h1", "h2", "h3", "h4", "h5", "h6"),
    ),
    "\n\n",
)
BLANKS: Final = {"td": " ", "th": " "}

PYTHON: Final = re.compile(
    r"\"\"\"(?>(?:[^\"\\]++|\\.?|\"(?!\"\"))*)(?:\"\"\"|\Z)"
    r"|'''(?>(?:[^'\\]++|\\.?|'(?!''))*)(?:'''|\Z)"
    r"|\"(?>(?:[^\"\\\n]++|\\.)*)|'(?>(?:[^'\\\n]++|\\.)*)|\#[^\n]*+"
    r"|\n(?:(?:async[ \t]+)?(?:def|class)[ \t]+(?P<name>\w+)|(?P<at>@)|(?P<other>[^\W\d]))",
    re.DOTALL,
)
CONTINUES: Final = re.compile(r"\n(?:elif|else|except|finally)\b")
LINE_END: Final = re.compile(r"\r\n?|\n")  # of Python
NOT_PARSED: Final = "--split heading reads it without Python's parser"
NOT_UTF8: Final = re.compile("[\ud800-\udfff]")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Heading(NamedTuple):
    """A heading, which begins a section.

    - ``at``: offset of the heading, in characters.
    - ``body``: offset of the text after the title. Equal to ``at`` if the title is not in the text.
    - ``level``: 1 for the highest.
    - ``title``: ``""`` for text that belongs to no section.
    """

    at: int
    body: int
    level: int
    title: str


class Headings(list[Heading]):
    """A list of headings. After ``MAX_HEADINGS``, ``append`` raises ``BadRow``."""

    def append(self, heading: Heading, /) -> None:
        if len(self) >= MAX_HEADINGS:
            raise BadRow(f"the file has more than {MAX_HEADINGS:,} headings")
        super().append(heading)


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text with its ``headings`` in order.

    - ``title``: the title of the whole document, or ``""``.
    - ``source``: the content of an HTML or Python file from which ``text`` was taken; ``None`` if
      ``text`` is the whole file, or if the file is an archive, a notebook or a PDF.
    - ``places``: for each part of ``text``: its offset, and its start and end in ``source``.
    - ``is_paged``: whether the headings are only page numbers.
    - ``begin``: offset of the text after front matter.
    """

    text: str
    headings: Sequence[Heading] = ()
    title: str = ""
    places: Sequence[tuple[int, int, int]] = field(default=(), repr=False)
    source: str | None = field(default=None, repr=False)
    is_paged: bool = False
    begin: int = 0


def plain(text: str) -> MarkedText:
    return MarkedText(text)


def _clean(title: str) -> str:
    title = title.strip()
    if "[" in title:
        title = LINK.sub(r"\1", title)
    if title.endswith("}"):
        title = ATTRIBUTES.sub("", title)
    return " ".join(title.replace("`", "").replace("**", "").split())[:MAX_TITLE]


def markdown(text: str) -> MarkedText:
    """Find ATX and setext headings outside fenced code, HTML blocks, lists and quotes."""
    padded, headings, title = f"\n{text}", Headings(), ""
    at = least = front_end = 0  # where to search, and where the last block ended
    if (front := FRONT.match(text, 0, MAX_FRONT)) and _is_yaml(front[1]):
        at = least = front.end() + 1
        front_end = min(at, len(text))
        if stated := FRONT_TITLE.search(front[1]):
            title = _clean(stated[1].strip().strip("'\""))
    while found := MARKDOWN.search(padded, at):
        what, at = found.lastgroup, found.end()
        if what == "fence":
            at = _end_of_fence(padded, at, found["fence"])
        elif what == "html":
            end = (COMMENT_END if found["html"] == "!--" else RAW_END).search(padded, at)
            at = len(padded) if end is None else end.end()
        elif what == "title":
            named = found["title"]
            if "#" in named:
                named = CLOSING.sub("", named)
            begin = _from_labels(text, found.start())
            headings.append(Heading(begin, at - 1, len(found["hashes"]), _clean(named)))
        else:
            start, under = _paragraph(padded, least, found.start()), found["under"]
            if start is None and (under[0] == "=" or under == "--"):
                continue  # a line of text
            if start is not None:
                level = 1 if under[0] == "=" else 2
                named = _clean(padded[start + 1 : found.start()])
                begin = _from_labels(text, start)
                headings.append(Heading(begin, at - 1, level, named))
        least = at
    return MarkedText(text, headings, title or first_title(headings), begin=front_end)


def _is_yaml(front: str) -> bool:
    """Return whether the text between two lines ``---`` looks like YAML."""
    return bool(FRONT_KEY.match(front)) and all(map(FRONT_LINE.match, front.split("\n")))


def _end_of_fence(padded: str, at: int, fence: str) -> int:
    for end in FENCE_ENDS[fence[0]].finditer(padded, at):
        if len(end[1]) >= len(fence):
            return end.end()
    return len(padded)


def _from_labels(text: str, at: int) -> int:
    """Return the offset of the labels right above a heading.

    ``at``: offset of the heading, returned if the heading has no labels.
    """
    while True:
        first = max(at - MAX_LABEL, 0)
        before = text[first:at].rstrip()
        start = before.rfind("\n") + 1
        if LABEL.fullmatch(before, start) is None:
            return at
        at = first + start


def _paragraph(padded: str, least: int, end: int) -> int | None:
    start = end
    for _ in range(MAX_PARAGRAPH):
        before = padded.rfind("\n", 0, start)
        line = padded[before + 1 : start]
        if before < least or not line.strip() or RULE.match(line):
            break
        start = before
    if start == end or NO_PARAGRAPH.match(padded, start + 1):
        return None
    return start


def first_title(headings: Sequence[Heading]) -> str:
    return next((each.title for each in headings if each.level == 1), "")


def rst(text: str) -> MarkedText:
    """Find titles with an underline, with or without an overline.

    The first style of underline in the file has level 1, the next new style level 2, and so on.
    """
    padded, headings, styles = f"\n{text}", Headings(), dict[tuple[str, bool], int]()
    least = at = 0
    while found := RST.search(padded, at):
        at, line = found.end(), found[0].strip()
        start = padded.rfind("\n", 0, found.start()) if found.start() else -1
        if start < least:
            continue
        named = padded[start + 1 : found.start()]
        above = padded.rfind("\n", 0, start) if start else -1
        is_over = above >= least and padded[above + 1 : start].strip() == line
        width = len(named.strip())
        if not width or (len(line) < width and len(line) < SHORT):
            continue
        if not is_over:
            if named[0].isspace():
                continue
            before = padded[above + 1 : start].strip() if above >= least else ""
            if before and not before.startswith(".. "):
                continue  # a line of a paragraph
        level = styles.setdefault((line[0], is_over), len(styles) + 1)
        title = ROLE.sub("", named)
        begin = _from_labels(text, above if is_over else start)
        headings.append(Heading(begin, at - 1, level, _clean(title)))
        least = at
    return MarkedText(text, headings, first_title(headings))


def html(source: str) -> MarkedText:
    """Return the visible text of HTML, with blank lines between blocks, and its headings."""
    parts, places, headings = list[str](), list[tuple[int, int, int]](), Headings()
    length, gap, title, pre, at = 0, "", "", 0, 0
    opened: tuple[int, int, int] | None = None  # level of an open heading, offset, first part

    def put(start: int, end: int) -> None:
        """Add ``source[start:end]`` to the text. Runs of blanks become one, except in ``pre``."""
        nonlocal length, gap
        data = unescape(source[start:end])
        if not pre:
            words = data.split()
            if not words:
                gap = gap or (" " if data else "")
                return
            ends_blank = data[-1].isspace()
            if data[0].isspace():
                gap = gap or " "
            data = " ".join(words)
        else:
            ends_blank = False
        if len(places) >= MAX_PLACES:
            raise BadRow(f"the file has more than {MAX_PLACES:,} parts of text between tags")
        data = (gap if length else "") + data
        places.append((length, start, end))
        parts.append(data)
        length += len(data)
        gap = " " if ends_blank else ""

    while found := TAG.search(source, at):
        if found.start() > at:
            put(at, found.start())
        at = found.end()
        name = (found["name"] or "").lower()
        if name in RAW and not found["end"]:
            end = RAW[name].search(source, at)
            stop = len(source) if end is None else end.start()
            if name == "title" and not title:
                title = " ".join(unescape(source[at:stop]).split())[:MAX_TITLE]
            at = stop
            continue
        gap = max(gap, BREAKS.get(name) or BLANKS.get(name, ""), key=len) if name else gap
        if name == "pre":
            pre = max(pre + (-1 if found["end"] else 1), 0)
        elif len(name) == 2 and name[0] == "h" and name[1] in "123456":
            begun = length + len(gap if length else "")
            if opened is not None:
                named = " ".join("".join(parts[opened[2] :]).split())[:MAX_TITLE]
                headings.append(Heading(opened[1], length, opened[0], named))
            opened = None if found["end"] else (int(name[1]), begun, len(parts))
    if at < len(source):
        put(at, len(source))
    return MarkedText("".join(parts), headings, title or first_title(headings), places, source)


def python(text: str) -> MarkedText:
    """Find functions and classes at the top level. A heading begins at the first decorator."""
    padded, headings = f"\n{text}", Headings()
    decorated: int | None = None
    for found in PYTHON.finditer(padded):
        if found["at"]:
            decorated = found.start() if decorated is None else decorated
        elif name := found["name"]:
            at = found.start() if decorated is None else decorated
            headings.append(Heading(at, found.end() - 1, 1, name[:MAX_TITLE]))
            decorated = None
        elif found["other"]:
            at, decorated = found.start(), None
            if headings and headings[-1].title and not CONTINUES.match(padded, at):
                headings.append(Heading(at, at, 1, ""))
    return MarkedText(text, headings)


def docstrings(source: str) -> MarkedText:
    """Return the docstrings of a module, its classes and functions.

    The docstrings are cleaned with ``inspect.cleandoc``. The headings are the names of the classes
    and functions. Raises ``BadRow`` for a source that this version of Python cannot parse.
    """
    source = NOT_UTF8.sub("\ufffd", source)  # of the same length
    texts, places, headings, length = list[str](), list[tuple[int, int, int]](), Headings(), 0
    starts = [0, *(found.end() for found in LINE_END.finditer(source)), len(source)]
    todo: list[tuple[ast.AST, int]] = [(_parse(source), 0)]
    while todo:
        node, level = todo.pop()
        if isinstance(node, Documented):
            at = length + len("\n\n") if texts else 0
            if not isinstance(node, ast.Module):
                level += 1
                headings.append(Heading(at, at, level, node.name[:MAX_TITLE]))
            match node.body:
                case [ast.Expr(ast.Constant(str(docstring)) as literal), *_]:
                    text = cleandoc(docstring)
                    places += _places(source, starts, literal, docstring, text, at)
                    texts += [text] * (text != "")
                    length = at + len(text) if text else length
        inner = (ast.stmt, ast.excepthandler, ast.match_case)
        below = [(each, level) for each in ast.iter_child_nodes(node) if isinstance(each, inner)]
        todo += reversed(below)
    return MarkedText("\n\n".join(texts), headings, "", places, source)


def _parse(source: str) -> ast.Module:
    if len(source) > MAX_PARSED:
        raise BadRow(f"the file has more than {MAX_PARSED:,} characters; {NOT_PARSED}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes such as "\d"
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        told = f"{error.msg}, line {error.lineno}" if isinstance(error, SyntaxError) else str(error)
        raise BadRow(f"not Python: {told or 'too deeply nested'}; {NOT_PARSED}") from error


def _places(
    source: str, starts: Sequence[int], node: ast.expr, docstring: str, text: str, at: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the ``MarkedText.places`` of a docstring.

    Each line has a place. If the docstring has more or fewer lines than its source (because of
    escapes or several strings), there is a single place for all lines.
    """
    last = node.end_lineno or node.lineno

    def offset(line: int, column: int) -> int:
        before = source[starts[line - 1] : starts[line]].encode()[:column]
        return starts[line - 1] + len(before.decode())

    start = offset(node.lineno, node.col_offset)
    end = offset(last, node.end_col_offset or 0)
    bounds = [start, *starts[node.lineno : last], end]
    if docstring.count("\n") != len(bounds) - 2:  # with escapes, or of several strings
        yield at, start, end
        return
    # ``cleandoc`` removes blank lines at the start and at the end.
    blank = len(docstring) - len(docstring.lstrip())
    first = docstring.count("\n", 0, blank) - text.count("\n", 0, len(text) - len(text.lstrip()))
    for number, line in enumerate(text.split("\n"), first):
        if wanted := line.strip():
            begin, stop = bounds[number : number + 2]
            found = source.find(wanted, begin, stop)
            yield (at, begin, stop) if found < 0 else (at, found, found + len(wanted))
        at += len(line) + 1
