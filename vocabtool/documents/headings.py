"""Find text and headings in Markdown, reStructuredText, HTML, Python, notebooks, PDF and DOCX.

Sources: the HTML standard, section 13.2.5; the lexical analysis of the Python reference;
nbformat.readthedocs.io, versions 3 and 4; ECMA-376 part 1, section 17 (w:p, w:t, w:tr).
"""

from __future__ import annotations

import io
import logging
import re
import tomllib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from html import unescape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from vocabtool.documents.batch import BadRow, check_parts
from vocabtool.errors import UnsupportedFormat
from vocabtool.formats.zip_archive import ZipArchive
from vocabtool.vocabulary import decode

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_TITLE: Final = 200  # characters of a heading that are kept
MAX_HEADINGS: Final = 1 << 17  # of a file; each needs up to 10 µs and much memory
# Of HTML, each needs up to 3 µs. A notebook may have
# twice as many strings, a DOCX tags and attributes.
MAX_TAGS: Final = 1 << 19
MAX_LINES: Final = 1 << 15  # of Markdown; its parser needs up to 60 µs for each
MAX_MARKDOWN: Final = 8 << 20  # characters; its parser needs 0.1 µs for each
MAX_PAGES: Final = 20_000  # of a PDF
MAX_CHARACTERS: Final = 64 << 20  # of the text of a PDF or DOCX
MAX_UNPACKED: Final = 128 << 20  # bytes of a DOCX, which is a zip archive

LINE_END: Final = re.compile(r"\r\n?|\n")
MAX_FRONT: Final = 1 << 20  # characters of front matter
MAX_TOML: Final = 1 << 15  # characters of front matter in TOML, whose parser is quadratic
FRONT: Final = re.compile(r"\A\n?---[ \t]*\r?\n(.*?)\n(?:---|\.\.\.)[ \t]*\r?(?=\n|\Z)", re.DOTALL)
FRONT_KEY: Final = re.compile(r"(?:#.*\n)*[^\s#\-\]}].*?:(?!\S)")  # comments, then a key
FRONT_LINE: Final = re.compile(r"[ \t\r#\-\]}]|$|.*?:(?!\S)")
TOML: Final = re.compile(r"\A\n?\+{3}[ \t]*\r?\n(.*?\n|)\+{3}[ \t]*\r?(?=\n|\Z)", re.DOTALL)
FRONT_TITLE: Final = re.compile(r"^title:(.*)", re.MULTILINE)
LINK: Final = re.compile(r"!?\[([^\[\]\n]*+)\]\([^()\n]*+\)")
ATTRIBUTES: Final = re.compile(r"\{[#.:][^{}\n]*+\}$")
LABELS: Final = re.compile(  # of MyST and of reStructuredText, with the blank lines after them
    r"^(?:(?:\([^()\s]+\)=|\.\. _[^\n]+:)[ \t\r]*\n\s*)+\Z", re.MULTILINE
)
MAX_LABELS: Final = 400  # characters

UNDERLINE: Final = re.compile(r"\n([!-/:-@\[-`{-~])\1++[ \t]*\r?(?=\n|\Z)")
# Of reStructuredText (docutils.sourceforge.io/docs/ref/rst): literals, which stay, roles, links,
# and directives with options. All begin with a literal character, which makes the search fast.
LINES: Final = r"[^`\n]++|\n(?!\r?\n)"  # of a paragraph
MARKUP: Final = re.compile(
    rf"``(?>(?:{LINES}|`(?!`)){{0,99}})``"
    r"|:(?<![\w`]:)(?P<role>[\w.+-]{1,40}+(?::[\w.+-]{1,40}+)?):"
    rf"`(?P<content>(?>(?:{LINES}){{1,99}}))`(?:\\\s?)?"
    rf"|`(?<![\w`]`)(?P<link>(?>(?:{LINES}){{1,99}}))`__?(?!\w)(?:\\\s?)?"
    r"|\.\. \S{1,80}?::[^\n]{0,200}+(?P<options>(?:\n[ \t]++:[\w-]{1,40}+:(?!\S)[^\n]*+){1,30})"
)
# Roles whose text has no target: it is shown as it is.
PLAIN: Final = ("code", "command", "file", "kbd", "math", "program", "samp")
NUMBERED: Final = ("cve", "cwe", "pep", "rfc")  # roles that Sphinx shows before their number
# Of a title, after its roles and links: literals, text in single backquotes, escaped characters.
INLINE: Final = re.compile(
    r"``(?P<literal>[^`]++)``|`(?P<text>[^`]++)`(?:__?(?!\w))?|\\(?P<escaped>.)"
)
SHORT: Final = 4  # a shorter underline must be as long as its title

MAX_PRESCAN: Final = 1024  # bytes in which HTML states its encoding
CHARSET: Final = re.compile(
    rb"<(?:meta\s[^>]*?\bcharset|\?xml\s[^>]*?\bencoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE
)
CHARSETS: Final = re.compile(  # encodings of Python
    r"cp(?:125[0-8]|874|866|932|949)|windows-125[0-8]|iso-?8859-(?:[2-8]|1[03-6])|koi8-[ru]"
    r"|macintosh|euc-jp|iso-2022-jp|gb18030|big5(?:-hkscs)?"
)
ENCODINGS: Final = {  # by the label that a page states
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "us-ascii", "ascii"), "cp1252"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("iso-8859-11", "tis-620", "windows-874"), "cp874"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **{"latin2": "iso-8859-2", "ibm866": "cp866", "big5": "big5-hkscs"},
}

# Atomic groups: Python before 3.11.5 matches possessive groups wrongly.
TAG: Final = re.compile(
    r"<(?:!--.*?(?:-->|\Z)|[!?][^>]*+>?"
    r"|(?P<end>/?)(?P<name>[a-z][^\s/>]*+)"
    # A match ends after 1,000 attributes, which need much memory.
    r"(?>(?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\s>\"'][^\s>]*+)?){0,2000})>?)",
    re.DOTALL | re.IGNORECASE,
)
RAW: Final = {
    name: re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "template", "iframe", "noframes", "xmp")
}
BREAKS: Final = {
    **dict.fromkeys(("td", "th"), " "),
    **dict.fromkeys(("br", "li", "tr", "dt", "dd", "option"), "\n"),
    **dict.fromkeys(
        (
            *("address", "article", "aside", "blockquote", "body", "div", "dl", "fieldset"),
            *("figure", "figcaption", "footer", "form", "header", "hr", "main", "nav", "ol", "p"),
            *("pre", "section", "table", "ul", "h1", "h2", "h3", "h4", "h5", "h6"),
        ),
        "\n\n",
    ),
}

PYTHON: Final = re.compile(
    r"\"\"\"(?>(?:[^\"\\]++|\\.?|\"(?!\"\"))*)(?:\"\"\"|\Z)"
    r"|'''(?>(?:[^'\\]++|\\.?|'(?!''))*)(?:'''|\Z)"
    r"|\"(?>(?:[^\"\\\n]++|\\.)*)|'(?>(?:[^'\\\n]++|\\.)*)|\#[^\n]*+"
    r"|\n(?:(?:async[ \t]+)?(?:def|class)[ \t]+(?P<name>\w+)|(?P<at>@)|(?P<other>[^\W\d]))",
    re.DOTALL,
)
CONTINUES: Final = re.compile(r"\n(?:elif|else|except|finally)\b")  # begins no statement

FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
HEADING_STYLE: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)


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
    - ``source``: the content of the file with its markup; ``None`` if ``text`` is the whole file,
      or if its markup is no text (notebooks, PDF, DOCX).
    - ``places``: for each part of ``text``: its start and end, and its start and end in ``source``.
      int64, shape (parts, 4); ``None`` if ``text`` and ``source`` have equal offsets.
    - ``is_paged``: whether the headings are page numbers, which no text begins with.
    - ``begin``: offset of the text after front matter.
    """

    text: str
    headings: Sequence[Heading] = ()
    title: str = ""
    places: NDArray[np.int64] | None = field(default=None, repr=False)
    source: str | None = field(default=None, repr=False)
    is_paged: bool = False
    begin: int = 0


def first_title(headings: Sequence[Heading]) -> str:
    """Return the first title of level 1, which is that of the document; ``""`` if there is none."""
    return next((heading.title for heading in headings if heading.level == 1), "")


def _clean(title: str) -> str:
    """Return a title without the marks of links, attributes, code and bold text."""
    title = title.strip()
    if "[" in title:
        title = LINK.sub(r"\1", title)
    if title.endswith("}"):
        title = ATTRIBUTES.sub("", title)
    return " ".join(title.replace("`", "").replace("**", "").split())[:MAX_TITLE]


# ---- Markdown and reStructuredText


def _from_labels(text: str, at: int) -> int:
    """Return the offset of the labels right above a heading, or of a heading without labels."""
    first = max(at - MAX_LABELS, 0)
    labels = LABELS.search(text[first:at])
    return at if labels is None else first + labels.start()


class _HeadingTokens(list["Token"]):
    """Keeps only headings outside lists and quotes, each before its title, to save memory."""

    def append(self, token: Token, /) -> None:
        is_title = len(self) % 2 == 1  # the token after that of a heading
        if is_title or (token.type == "heading_open" and token.level == 0):
            super().append(token)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    # Several threads use the parser, so it compiles its rules before that.
    parser.block.ruler.getRules("")
    return parser


def _check_markdown(lines: int, characters: int) -> None:
    """Raise :class:`BadRow` for more Markdown than its parser reads in a few seconds."""
    if lines > MAX_LINES or characters > MAX_MARKDOWN:
        raise BadRow(
            f"the file has more than {MAX_LINES:,} lines or {MAX_MARKDOWN:,} characters of "
            "Markdown, too many to look for headings; --input-format text (format=) reads it "
            "as plain text"
        )


def _front_matter(text: str) -> tuple[int, str]:
    """Return where the text behind its front matter begins, and the title in it, or 0 and ""."""
    yaml = FRONT.match(text, 0, MAX_FRONT)
    # The text between two lines `---` is left out only if it looks like YAML.
    if yaml and FRONT_KEY.match(yaml[1]) and all(map(FRONT_LINE.match, yaml[1].split("\n"))):
        title = FRONT_TITLE.search(yaml[1])
        stated = "" if title is None else title[1].strip().strip("'\"")
        return min(yaml.end() + 1, len(text)), _clean(stated)
    toml = TOML.match(text, 0, MAX_FRONT)
    if toml is not None:
        if len(toml[1]) > MAX_TOML:
            raise BadRow(f"the front matter in TOML has more than {MAX_TOML:,} characters")
        with suppress(tomllib.TOMLDecodeError, RecursionError):  # then it is text like any other
            values = tomllib.loads(toml[1].replace("\r\n", "\n"))
            return min(toml.end() + 1, len(text)), _clean(str(values.get("title", "")))
    return 0, ""


def markdown(text: str) -> MarkedText:
    """Find the headings of CommonMark that are not in a list or a quote."""
    begin, title = _front_matter(text)
    ends = (end.end() for end in LINE_END.finditer(text, begin))
    starts = [begin, *islice(ends, MAX_LINES), len(text)]
    _check_markdown(len(starts), len(text))
    parser, tokens = _parser(), _HeadingTokens()
    # Only blocks are parsed; the parser itself would replace the line ends, too.
    parser.block.parse(LINE_END.sub("\n", text[begin:]), parser, {}, tokens)
    headings = Headings()
    for opening, inline in zip(tokens[::2], tokens[1::2], strict=True):
        first, end = opening.map or (0, 0)
        at = _from_labels(text, starts[first])
        headings.append(Heading(at, starts[end], int(opening.tag[1]), _clean(inline.content)))
    return MarkedText(text, headings, title or first_title(headings), begin=begin)


def _as_shown(markup: re.Match[str]) -> str:
    """Return markup as Sphinx shows it: ``lazy`` for ``:class:`lazy <foo>```."""
    role, content, link, options = markup.group("role", "content", "link", "options")
    text = str(content or link or "")
    if not text:  # a literal, or a directive
        return markup[0].removesuffix(options or "")
    if role in PLAIN:
        return text
    before_target = text.rpartition("<")[0]  # as in `title <target>`
    if text.endswith(">") and before_target[-1:].isspace():
        return before_target.strip()
    if text[0] == "~" and "/" not in text:  # ~module.name is shown as name; ~/file is a path
        return text.rpartition(".")[2].lstrip("~")
    return f"{role.upper()} {text}" if role in NUMBERED else text.removeprefix("!")


def _without_markup(source: str) -> MarkedText:
    """Remove roles, targets and options; after ``MAX_TAGS`` places, the source stays as it is."""
    texts, places, length, end = list[str](), array("q"), 0, 0  # ``end``: of the source so far

    def add(text: str, source_start: int, source_end: int) -> None:
        nonlocal length, end
        if text:
            places.extend((length, length + len(text), source_start, source_end))
            texts.append(text)
        length, end = length + len(text), source_end

    for markup in islice(MARKUP.finditer(source), MAX_TAGS):
        shown = _as_shown(markup)
        if shown != markup[0]:
            add(source[end : markup.start()], end, markup.start())
            add(shown, *markup.span())
    if not texts:
        return MarkedText(source)
    add(source[end:], end, len(source))
    of_parts = np.array(places, np.int64).reshape(-1, 4)
    return MarkedText("".join(texts), places=of_parts, source=source)


def rst(source: str) -> MarkedText:
    """Return reStructuredText as a reader sees it, with its titles."""
    return _with_titles(_without_markup(source))


def plain_text(source: str) -> MarkedText:
    return _with_titles(MarkedText(source))


def _with_titles(marked: MarkedText) -> MarkedText:
    """Find titles with an underline; an overline belongs to its title.

    The first kind of underline in the file has level 1, the next new kind level 2, and so on.
    """
    text = marked.text
    padded, headings = f"\n{text}", Headings()  # an offset of ``text`` is one more in ``padded``
    levels = dict[tuple[str, bool], int]()  # by the sign, and whether there is an overline
    end = 0  # of the last title, with its underline
    for underline in UNDERLINE.finditer(padded, 1):
        start = padded.rfind("\n", end, underline.start())
        if start < end:
            continue  # the line above is the underline of the last title
        title = padded[start + 1 : underline.start()].rstrip()
        line = underline[0].strip()
        width = len(title.strip())
        if not width or len(line) < min(width, SHORT):
            continue  # no title, or the line is too short for an underline
        above = padded.rfind("\n", end, start)
        line_above = padded[above + 1 : start].strip() if above >= end else ""
        has_overline = line_above == line
        is_after_text = line_above != "" and not line_above.startswith(".. ")
        if not has_overline and (title[0].isspace() or is_after_text):
            continue  # an indented block, or the last line of a paragraph
        level = levels.setdefault((line[0], has_overline), len(levels) + 1)
        at = _from_labels(text, above if has_overline else start)
        end = underline.end()
        # An escaped blank only separates.
        shown = INLINE.sub(lambda inline: (inline[1] or inline[2] or inline[3]).strip(), title)
        headings.append(Heading(at, end - 1, level, _clean(shown)))
    return replace(marked, headings=headings, title=first_title(headings))


# ---- HTML and Python


def decode_html(content: bytes) -> str:
    """Decode UTF-8, or else the encoding that HTML states, as encoding.spec.whatwg.org reads it.

    If this fails, each byte that is not UTF-8 becomes a lone surrogate.
    """
    with suppress(UnicodeDecodeError):
        return content.decode()
    stated = CHARSET.search(content, 0, MAX_PRESCAN)
    label = "" if stated is None else stated[1].decode().lower()
    name = ENCODINGS.get(label, label)
    if CHARSETS.fullmatch(name):  # Python has codecs that are not for pages, such as utf-7
        with suppress(LookupError, UnicodeDecodeError):
            return content.decode(name, "surrogateescape")
    return decode(content)


def html(source: str) -> MarkedText:
    """Return the visible text of HTML, with blank lines between blocks, and its headings.

    If there are headings in ``<main>``, only its text is returned: menus and dialogs stand outside.
    """
    if source.count("<") > MAX_TAGS:
        raise BadRow(f"the file has more than {MAX_TAGS:,} tags")
    texts, places, headings, main = list[str](), list[int](), Headings(), list[int]()
    # ``gap``: the blanks before the next text. ``pre``: number of open <pre>.
    length, gap, title, pre = 0, "", "", 0
    level, heading_at, first_text = 0, 0, 0  # of the open heading, if ``level`` is not 0
    tags, at, size = TAG.finditer(source), 0, len(source)
    while at < size:
        tag = next(tags, None)
        start, after = (size, size) if tag is None else tag.span()
        if start > at:
            data = content = unescape(source[at:start])
            if not pre:  # runs of blanks become one
                content = " ".join(data.split())
                if not gap and data[:1].isspace():
                    gap = " "
            if content:
                if length:
                    texts.append(gap)
                    length += len(gap)
                places += (length, length + len(content), at, start)
                texts.append(content)
                length += len(content)
                gap = " " if not pre and data[-1:].isspace() else ""
        if tag is None:
            break
        at = after
        if source[at - 1] != ">" and at < size:
            raise BadRow("the file has a tag of more than 1,000 attributes")
        is_end, name = tag.groups("")
        name = name.lower()
        if name in RAW and not is_end:
            closing = RAW[name].search(source, at)
            end = size if closing is None else closing.start()
            if name == "title" and not title:
                title = _one_line(unescape(source[at : min(end, at + 50 * MAX_TITLE)]))
            at, tags = end, TAG.finditer(source, end)
            continue
        gap = max(gap, BREAKS.get(name, ""), key=len)
        if name == "pre":
            pre = max(pre + (-1 if is_end else 1), 0)
        elif name == "main":
            main.append(length)
        elif len(name) == 2 and name in "h1h2h3h4h5h6":
            if level:
                heading = _one_line("".join(texts[first_text:]))
                headings.append(Heading(heading_at, length, level, heading))
            level = 0 if is_end else int(name[1])
            heading_at, first_text = length + len(gap if length else ""), len(texts)
    title, spans = title or first_title(headings), np.array(places, np.int64).reshape(-1, 4)
    return _only_main(MarkedText("".join(texts), headings, title, spans, source), spans, main)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_TITLE]


def _only_main(marked: MarkedText, spans: NDArray[np.int64], tags: list[int]) -> MarkedText:
    """Return what stands in ``<main>``, or everything if there is no heading in it.

    ``tags``: the offsets of the tags of ``<main>``. Without an end tag, it ends with the text.
    """
    if not tags:
        return marked
    start, end = tags[0], tags[-1] if len(tags) > 1 else len(marked.text)
    headings = [heading for heading in marked.headings if start <= heading.at < end]
    spans = spans[(spans[:, 0] >= start) & (spans[:, 1] <= end)]
    if not headings or not len(spans):
        return marked
    begin = int(spans[0, 0])
    moved = Headings(
        Heading(max(at - begin, 0), max(body - begin, 0), level, title)
        for at, body, level, title in headings
    )
    spans = spans - np.array([begin, begin, 0, 0])
    return replace(marked, text=marked.text[begin:end], headings=moved, places=spans)


def python(text: str) -> MarkedText:
    """Find functions and classes at the top level. A heading begins at the first decorator."""
    padded, headings = f"\n{text}", Headings()  # the "\n" before a line has its offset in ``text``
    decorator_at: int | None = None  # offset of the first decorator of the next definition
    for token in PYTHON.finditer(padded):
        if token["at"]:
            decorator_at = token.start() if decorator_at is None else decorator_at
        elif name := token["name"]:
            at = token.start() if decorator_at is None else decorator_at
            headings.append(Heading(at, token.end() - 1, 1, name[:MAX_TITLE]))
            decorator_at = None
        elif token["other"]:  # other code at the top level ends the definition before it
            at, decorator_at = token.start(), None
            if headings and headings[-1].title and not CONTINUES.match(padded, at):
                headings.append(Heading(at, at, 1, ""))
    return MarkedText(text, headings)


# ---- notebooks, PDF and DOCX


class _Paragraphs:
    """The paragraphs of a text, joined by blank lines, with their headings."""

    def __init__(self) -> None:
        self.headings = Headings()
        self.length = 0  # also the offset of the next paragraph
        self._paragraphs: list[str] = []

    def add(self, paragraph: str) -> None:
        """Add a paragraph. Raises :class:`BadRow` if the text gets too long."""
        self._paragraphs.append(paragraph)
        self.length += len(paragraph) + 2
        if self.length > MAX_CHARACTERS:
            raise BadRow(f"the text has more than {MAX_CHARACTERS:,} characters")

    def with_title(self, title: str, *, is_paged: bool = False) -> MarkedText:
        return MarkedText("\n\n".join(self._paragraphs), self.headings, title, is_paged=is_paged)


def notebook(data: bytes, _: Path) -> MarkedText:
    """Return the text of all cells of a notebook, and the headings of its Markdown cells."""
    check_parts(data)
    if data.count(b'"') - data.count(b'\\"') > 4 * MAX_TAGS:
        raise BadRow(f"the notebook has more than {2 * MAX_TAGS:,} strings")
    try:
        root: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRow(f"not a notebook: not JSON: {error}") from error
    if isinstance(root, dict) and isinstance(root.get("worksheets"), list):  # of version 3
        root = next(iter(root["worksheets"]), None)
    cells = root.get("cells") if isinstance(root, dict) else None
    if not isinstance(cells, list):
        raise BadRow("not a notebook: expected an object with a list of cells")
    text, line_count, size = _Paragraphs(), 0, 0
    for number, cell in enumerate(cells, 1):
        source: Any = cell.get("source", cell.get("input", "")) if isinstance(cell, dict) else None
        lines: list[Any] = source if isinstance(source, list) else [source]
        if not all(isinstance(line, str) for line in lines):
            raise BadRow(f"cell {number:,}: expected an object with text in its key 'source'")
        content = "".join(lines)
        if cell.get("cell_type") == "markdown":
            line_count, size = line_count + content.count("\n") + 1, size + len(content)
            _check_markdown(line_count, size)
            for at, body, level, title in markdown(content).headings:
                text.headings.append(Heading(at + text.length, body + text.length, level, title))
        text.add(content)
    return text.with_title(first_title(text.headings))


@contextmanager
def _bad_if_damaged(what: str) -> Iterator[None]:
    """Convert any error of the ``with`` block to :class:`BadRow`, which begins with ``what``."""
    try:
        yield
    except BadRow:
        raise
    except Exception as error:  # for a damaged file, pypdf and lxml raise almost anything
        raise BadRow(f"{what}: {type(error).__name__}: {error}") from error


def pdf(data: bytes, _: Path) -> MarkedText:
    """Return the text of a PDF, with a heading for each page. Needs pypdf."""
    try:
        import pypdf
    except ImportError as error:
        raise UnsupportedFormat("PDF needs pypdf: pip install '.[documents]'") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of each small fault
    text = _Paragraphs()
    with _bad_if_damaged("not a PDF, or damaged"):
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise BadRow("the PDF needs a password")
        if len(reader.pages) > MAX_PAGES:
            raise BadRow(
                f"the PDF has {len(reader.pages):,} pages (expected at most {MAX_PAGES:,})"
            )
        for number, page in enumerate(reader.pages, 1):
            text.headings.append(Heading(text.length, text.length, 1, f"page {number}"))
            # A lone surrogate, from a damaged font, cannot be stored.
            text.add(page.extract_text().encode("utf-8", "replace").decode())
        title = str((reader.metadata and reader.metadata.title) or "")[:MAX_TITLE]
    return text.with_title(title, is_paged=True)


class _Markup(io.BytesIO):
    """Counts the tags and attributes of what is written, and keeps none of it."""

    count = 0

    def write(self, data: Any, /) -> int:
        self.count += data.count(b"<") + data.count(b"=")
        return len(data)


def docx(_: bytes, path: Path) -> MarkedText:
    """Return the paragraphs of a Word document and its headings. Needs python-docx.

    A row of a table is one paragraph. Text boxes, notes, headers and deleted text are left out.
    """
    try:
        import docx as library
        from docx.oxml.ns import qn
        from lxml.etree import strip_elements
    except ImportError as error:
        raise UnsupportedFormat("DOCX needs python-docx: pip install '.[documents]'") from error
    with ZipArchive(path, MAX_UNPACKED) as archive:
        markup = _Markup()
        for name in archive.names:  # python-docx unpacks all, and has no limits
            archive.copy(name, markup)
            if markup.count > 2 * MAX_TAGS:
                raise BadRow(f"the document has more than {2 * MAX_TAGS:,} tags and attributes")
    text = _Paragraphs()
    with _bad_if_damaged("not a Word document, or damaged"):
        document = library.Document(str(path))
        styles = {style.style_id: style.name or "" for style in document.styles}
        row, paragraph, run = qn("w:tr"), qn("w:p"), qn("w:r")
        # As Run.text in python-docx reads a run, which takes three times as long.
        texts = [qn(f"w:{name}") for name in ("br", "cr", "noBreakHyphen", "ptab", "t", "tab")]
        strip_elements(document.element, FALLBACK, qn("w:txbxContent"), with_tail=False)
        for block in document.element.body.iter(row, paragraph):
            if next(block.iterancestors(row), None) is not None:
                continue  # its row of a table is a block of its own
            lines = (
                "".join(str(text) for one in line.iter(run) for text in one.iterchildren(*texts))
                for line in block.iter(paragraph)
            )
            content = "  ".join(filter(None, lines)).strip()
            style = "" if block.tag == row else styles.get(block.style, "")
            if content and (heading := HEADING_STYLE.match(style)):
                start, end = text.length, text.length + len(content)
                text.headings.append(Heading(start, end, int(heading[1]), _one_line(content)))
            if content:
                text.add(content)
    return text.with_title(first_title(text.headings))
