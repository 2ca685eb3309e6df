"""Read texts with headings from notebooks, PDF, DOCX and EPUB.

DOCX and EPUB are zip archives of XML. Entities that a file defines are not expanded, and no other
file is opened. Sources: ECMA-376 part 1, section 17 (w:p, w:pStyle, w:t); EPUB 3.3, sections 4, 5.
"""

from __future__ import annotations

import io
import logging
import posixpath
import re
from collections.abc import Iterable, Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import orjson

from vocabtool.documents.batch import BadRow, Batch, Request
from vocabtool.documents.files import Readable
from vocabtool.documents.headings import (
    MAX_TITLE,
    TAG,
    Heading,
    Headings,
    MarkedText,
    first_title,
    html,
    markdown,
)
from vocabtool.documents.pieces import MAX_FILE_BYTES, read_pieces, read_whole
from vocabtool.errors import UnsupportedFormat
from vocabtool.formats.zip_archive import ZipArchive

MAX_PAGES: Final = 20_000  # of a PDF
MAX_CHARACTERS: Final = 64 << 20  # of the text of a file
MAX_UNPACKED: Final = 256 << 20  # bytes of a zip archive

ATTRIBUTE: Final = re.compile(r"""(?<![\w:.-])([\w:.-]++)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
HEADING_STYLE: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
STYLES, DOCUMENT = "word/styles.xml", "word/document.xml"
CONTAINER: Final = "META-INF/container.xml"
PAGES: Final = frozenset({"application/xhtml+xml", "text/html"})


def notebook(file: Readable) -> MarkedText:
    """Return the text of all cells of a notebook, and the headings of its Markdown cells.

    Format: nbformat.readthedocs.io, versions 3 and 4.
    """
    try:
        found: Any = orjson.loads(read_whole(file))
    except orjson.JSONDecodeError as error:
        raise BadRow(f"not a notebook: not JSON: {error}") from error
    if isinstance(found, dict) and isinstance(found.get("worksheets"), list):
        found = next(iter(found["worksheets"]), None)
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list):
        raise BadRow("not a notebook: expected an object with a list of cells")
    parts, headings, length = list[str](), Headings(), 0
    for number, cell in enumerate(cells, 1):
        source: Any = cell.get("source", cell.get("input", "")) if isinstance(cell, dict) else None
        lines: list[Any] = source if isinstance(source, list) else [source]
        if not all(isinstance(line, str) for line in lines):
            raise BadRow(f"cell {number:,}: expected an object with text in its key 'source'")
        text = "".join(lines)
        if cell.get("cell_type") == "markdown":
            for each in markdown(text).headings:
                headings.append(each._replace(at=each.at + length, body=each.body + length))
        parts.append(text)
        length += len(text) + 2
    return MarkedText("\n\n".join(parts), headings, first_title(headings))


def pdf(file: Readable) -> MarkedText:
    """Return the text of a PDF, with a heading for each page. Needs pypdf."""
    try:
        import pypdf
    except ImportError as error:
        raise UnsupportedFormat("PDF needs pypdf: pip install '.[documents]'") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of each small fault
    parts, headings, length = list[str](), Headings(), 0
    try:
        reader = pypdf.PdfReader(io.BytesIO(read_whole(file)))
        if reader.is_encrypted and not reader.decrypt(""):
            raise BadRow("the PDF needs a password")
        if len(reader.pages) > MAX_PAGES:
            raise BadRow(
                f"the PDF has {len(reader.pages):,} pages (expected at most {MAX_PAGES:,})"
            )
        for number, page in enumerate(reader.pages, 1):
            # A lone surrogate, from a damaged font, cannot be stored.
            text = page.extract_text().encode("utf-8", "replace").decode()
            headings.append(Heading(length, length, 1, f"page {number}"))
            parts.append(text)
            length += len(text) + 2
            _check_length(length)
        title = str((reader.metadata and reader.metadata.title) or "")[:MAX_TITLE]
    except BadRow:
        raise
    except Exception as error:  # a damaged PDF makes pypdf raise almost anything
        raise BadRow(f"not a PDF, or damaged: {type(error).__name__}: {error}") from error
    return MarkedText("\n\n".join(parts), headings, title, is_paged=True)


def _check_length(length: int) -> None:
    if length > MAX_CHARACTERS:
        raise BadRow(f"the text has more than {MAX_CHARACTERS:,} characters")


def read_docx(file: Readable, request: Request) -> Iterator[Batch]:
    return read_pieces(file, request, lambda _: docx(Path(request.source)))


def read_epub(file: Readable, request: Request) -> Iterator[Batch]:
    return read_pieces(file, request, lambda _: epub(Path(request.source)))


def _open(path: Path) -> ZipArchive:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise BadRow(f"the file has more than {MAX_FILE_BYTES:,} bytes")
    return ZipArchive(path, MAX_UNPACKED)


def _member(archive: ZipArchive, name: str, what: str) -> str:
    if name not in archive.names:
        raise BadRow(f"not {what}: it contains no {name}")
    return archive.read(name).decode("utf-8-sig", "replace")


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    return {
        found[1].rpartition(":")[2]: unescape(found[2] or found[3] or "")
        for found in ATTRIBUTE.finditer(tag["inside"])
    }


def _tags(xml: str) -> Iterator[tuple[str, bool, re.Match[str]]]:
    for tag in TAG.finditer(xml):
        if tag["name"]:
            yield tag["name"].rpartition(":")[2], bool(tag["end"]), tag


def docx(path: Path) -> MarkedText:
    """Return the paragraphs of a Word document, joined by blank lines, and its headings.

    The cells of a table row become one line. Text boxes, notes, headers and deleted text are left
    out.
    """
    with _open(path) as archive:
        document = _member(archive, DOCUMENT, "a Word document")
        levels = (
            _heading_styles(archive.read(STYLES).decode("utf-8", "replace"))
            if (STYLES in archive.names)
            else {}
        )
    parts, headings, length = list[str](), Headings(), 0
    line, level, at, hidden, cells = list[str](), 0, -1, 0, 0
    for name, is_end, tag in _tags(document):
        is_empty = tag["inside"].endswith("/")
        if name in ("Fallback", "txbxContent"):
            hidden += 0 if is_empty else -1 if is_end else 1
        if hidden > 0:
            continue
        if name == "t" and not is_empty:
            if is_end and at >= 0:
                line.append(unescape(document[at : tag.start()]))
            at = -1 if is_end else tag.end()
        elif name in ("tab", "br", "cr") and not is_end:
            line.append("\t" if name == "tab" else "\n")
        elif name == "pStyle":
            level = levels.get(_attributes(tag).get("val", ""), 0)
        elif name == "tr":
            cells = 0 if is_end else cells + 1
        if (name == "tc" or (name == "p" and cells)) and is_end:
            line.append(" ")
        elif name in ("p", "tr") and is_end and not cells:
            text = "".join(line).strip()
            if text:
                if level:
                    title = " ".join(text.split())[:MAX_TITLE]
                    headings.append(Heading(length, length + len(text), level, title))
                parts.append(text)
                length += len(text) + 2
                _check_length(length)
            line, level = [], 0
    return MarkedText("\n\n".join(parts), headings, first_title(headings))


def _heading_styles(xml: str) -> dict[str, int]:
    """Return the level of each heading style, by the id of the style."""
    levels, style = dict[str, int](), ""
    for name, is_end, tag in _tags(xml):
        if name == "style" and not is_end:
            style = _attributes(tag).get("styleId", "")
        elif name == "name" and (found := HEADING_STYLE.match(_attributes(tag).get("val", ""))):
            levels[style] = int(found[1])
    return levels


def epub(path: Path) -> MarkedText:
    """Return the text of an EPUB in reading order, and its headings."""
    with _open(path) as archive:
        roots = (
            _attributes(tag).get("full-path")
            for name, _, tag in _tags(_member(archive, CONTAINER, "an EPUB"))
            if name == "rootfile"
        )
        package = next(filter(None, roots), None)
        if package is None:
            raise BadRow(f"not an EPUB: {CONTAINER} names no package file")
        xml = _member(archive, package, "an EPUB")
        items, order, title = dict[str, str](), list[str](), ""
        for name, is_end, tag in _tags(xml):
            held = {} if is_end else _attributes(tag)
            if name == "item" and held.get("media-type") in PAGES:
                place = posixpath.join(posixpath.dirname(package), unquote(held.get("href", "")))
                items[held.get("id", "")] = posixpath.normpath(place)
            elif name == "itemref":
                order.append(held.get("idref", ""))
            elif name == "title" and not is_end and not title:
                title = " ".join(unescape(xml[tag.end() : xml.find("<", tag.end())]).split())
        pages = dict.fromkeys(items[each] for each in order if each in items)
        marked = (html(_member(archive, page, "an EPUB")) for page in pages)
        return _join(marked, title[:MAX_TITLE])  # page by page, so that limits hold for all


def _join(texts: Iterable[MarkedText], title: str) -> MarkedText:
    parts, headings, length = list[str](), Headings(), 0
    for each in texts:
        for found in each.headings:
            headings.append(found._replace(at=found.at + length, body=found.body + length))
        parts.append(each.text)
        length += len(each.text) + 2
        _check_length(length)
    return MarkedText("\n\n".join(parts), headings, title or first_title(headings))
