"""Notebooks, PDF, DOCX and EPUB: values, and files of others that are damaged or hostile."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.documents.reading import batches, documents
from vocabtool.documents import ReadOptions, SkipCounter, archives, headings
from vocabtool.documents import documents as read_documents
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError


def parts(path: Path, **read: Any) -> list[tuple[str, str]]:
    """The id of each piece without the file's name, and the text."""
    return [(d.id.removeprefix(str(path)), d.text) for d in documents(str(path), **read)]


def refused(path: Path) -> str:
    """The message for a file; if asked, it is skipped instead."""
    with pytest.raises(InvalidFile) as caught:
        list(batches(str(path)))
    skipped = SkipCounter()
    assert list(batches(str(path), on_error="skip", skipped=skipped)) == []
    assert skipped.count == 1
    return str(caught.value)


def notebook(*cells: Any) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def test_notebook(tmp_path: Path) -> None:
    """Cells in order; headings are those of Markdown cells; outputs are left out."""
    path = tmp_path / "a.ipynb"
    path.write_bytes(
        notebook(
            {"cell_type": "markdown", "source": ["# One\n", "text"]},
            {"cell_type": "code", "source": "# no heading\nx = 1", "outputs": [{"text": "no"}]},
            {"cell_type": "markdown", "source": "## Two"},
            {"cell_type": "raw", "source": []},
        )
    )
    wanted = [("#One", "# One\ntext\n\n# no heading\nx = 1"), ("#One > Two", "## Two")]
    assert parts(path) == wanted
    cells = [{"cell_type": "code", "input": "old"}]
    path.write_text(json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}))
    assert parts(path) == [("", "old")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "list of cells"),
        (b'{"worksheets": []}', "list of cells"),
        (b'{"cells": {}}', "list of cells"),
        (notebook({"source": "a"}, 7), "cell 2: expected an object"),
        (notebook({"source": ["a", 7]}), "cell 1: expected an object with text in its key"),
    ],
)
def test_damaged_notebooks(tmp_path: Path, content: bytes, reason: str) -> None:
    """Each is named."""
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    assert reason in refused(path)


# PDF: pypdf wrote no text, so the pages are written by hand (ISO 32000-1, 7.3 and 9.4).


def pdf(*pages: str, title: str = "A title") -> bytes:
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>"
        % (len(pages), b" ".join(b"%d 0 R" % (5 + 2 * n) for n in range(len(pages)))),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (%s) >>" % title.encode(),
    ]
    for number, text in enumerate(pages):
        drawn = b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % text.encode("latin-1")
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (6 + 2 * number),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        ]
    data, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return data + head + table + end % (len(objects) + 1, len(data))


def test_pdf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section for each page, the title of the file, limits, and a password."""
    pypdf = pytest.importorskip("pypdf", reason="the extra documents is not installed")
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("Hello there", "", "The end"))
    assert parts(path) == [("#page 1", "Hello there"), ("#page 3", "The end")]
    assert {d.fields["title"] for d in documents(str(path))} == {"A title"}
    numbered = read_documents(str(path), ReadOptions(path_first=True))
    assert [d.text for d in numbered] == ["Hello there", "The end"]  # no page number
    locked = tmp_path / "locked.pdf"
    writer = pypdf.PdfWriter(clone_from=path)
    writer.encrypt("secret", algorithm="RC4-40")
    writer.write(locked)
    assert "password" in refused(locked)
    monkeypatch.setattr(archives, "MAX_PAGES", 2)
    assert "3 pages (expected at most 2)" in refused(path)
    monkeypatch.setattr(archives, "MAX_PAGES", 3)
    monkeypatch.setattr(archives, "MAX_CHARACTERS", 12)
    assert "more than 12 characters" in refused(path)


def test_damaged_pdfs(tmp_path: Path) -> None:
    """Whatever is changed, there is a text or an error that names the file."""
    pytest.importorskip("pypdf", reason="the extra documents is not installed")
    whole, rolled = pdf("Hello", "there"), random.Random(5)
    path = tmp_path / "a.pdf"
    for number in range(60):
        data = bytearray(whole)
        for _ in range(1 + number % 7):
            data[rolled.randrange(len(data))] = rolled.randrange(256)
        path.write_bytes(data[: rolled.randrange(len(data))] if number % 3 == 0 else data)
        try:
            list(batches(str(path)))
        except VocabtoolError as error:
            assert str(error).startswith(str(path))
    path.write_bytes(b"%PDF-1.4\n" + b"<<" * 50_000)
    assert "not a PDF, or damaged" in refused(path)


def test_pypdf_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, a PDF in a folder is left out, and one that is named says what to do."""
    monkeypatch.setitem(__import__("sys").modules, "pypdf", None)
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("a"))
    with pytest.raises(InvalidFile, match=r"a\.pdf.*\.\[documents\]"):
        list(batches(str(path)))


# DOCX: python-docx writes, and is the oracle.


def test_docx(tmp_path: Path) -> None:
    """Paragraphs, headings by their styles, and rows of tables."""
    docx = pytest.importorskip("docx", reason="python-docx is the oracle")
    written = docx.Document()
    written.add_heading("Guide", 1)
    first = written.add_paragraph("Less < more & ")
    first.add_run("bold").bold = True
    first.add_run("\tafter\ttabs\nand a line")
    written.add_heading("Install", 2)
    written.add_paragraph("Run it.", style="List Bullet")
    table = written.add_table(2, 2)
    for row, cells in enumerate((("a", "b"), ("c", "d"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    path = tmp_path / "a.docx"
    written.save(str(path))
    assert parts(path) == [
        ("#Guide", "Guide\n\nLess < more & bold\tafter\ttabs\nand a line"),
        ("#Guide > Install", "Install\n\nRun it.\n\na  b\n\nc  d"),
    ]
    found = archives.docx(path).text.split("\n\n")
    assert found[:4] == [each.text for each in docx.Document(str(path)).paragraphs]


ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
)


def zipped(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_hostile_docx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entity is expanded, depth does not matter, and what is unpacked has limits."""
    path = tmp_path / "a.docx"
    body = f"{ENTITIES}<w:p><w:r><w:t>&b;&f;</w:t></w:r></w:p>"
    zipped(path, **{archives.DOCUMENT: body})
    assert parts(path) == [("", "&b;&f;")]
    zipped(path, **{archives.DOCUMENT: "<w:p><w:tr>" * 100_000 + "<w:t>x"})
    assert parts(path) == []
    for content, reason in ((b"PK\x03\x04junk", "zip"), (b"", "zip")):
        path.write_bytes(content)
        assert reason in refused(path)
    zipped(path, other="x")
    assert f"contains no {archives.DOCUMENT}" in refused(path)
    zipped(path, **{archives.DOCUMENT: "<w:p><w:t>" + "x" * 100 + "</w:t></w:p>"})
    monkeypatch.setattr(archives, "MAX_CHARACTERS", 50)
    assert "more than 50 characters" in refused(path)
    monkeypatch.setattr(archives, "MAX_UNPACKED", 20)
    assert "unpacks to more than 20 bytes" in refused(path)
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 10)
    assert "more than 10 bytes" in refused(path)
    packed = tmp_path / "a.docx.gz"
    packed.write_bytes(b"")
    with pytest.raises(UnsupportedFormat, match="DOCX cannot be read from a stream"):
        list(batches(str(packed)))


def test_attributes_need_linear_time(tmp_path: Path) -> None:
    """200,000 characters of a name without a value; a quadratic expression would take minutes."""
    named = f'<w:pStyle {"a" * 200_000} w:val="h"/>'
    body = f"<w:p>{named}<w:t>One</w:t></w:p><w:p><w:t>text</w:t></w:p>"
    styles = '<w:style w:styleId="h"><w:name w:val="heading 1"/></w:style>'
    path = zipped(tmp_path / "a.docx", **{archives.DOCUMENT: body, archives.STYLES: styles})
    assert parts(path) == [("#One", "One\n\ntext")]


def book(path: Path, spine: str, **pages: str) -> Path:
    items = "".join(
        f'<item id="{name}" href="text/{name}.xhtml" media-type="application/xhtml+xml"/>'
        for name in pages
    )
    package = f"<package><dc:title>A &amp; B</dc:title>{items}<spine>{spine}</spine></package>"
    rootfile = '<container><rootfile full-path="OEBPS/p.opf"/></container>'
    members = {f"OEBPS/text/{name}.xhtml": text for name, text in pages.items()}
    return zipped(path, **{archives.CONTAINER: rootfile, "OEBPS/p.opf": package, **members})


def test_epub(tmp_path: Path) -> None:
    """Pages in the order of the spine, each once, with their headings."""
    spine = "".join(f'<opf:itemref idref="{name}"/>' for name in ("two", "one", "one", "gone"))
    pages = {"one": "<h1>One</h1><p>first</p>", "two": "<!DOCTYPE html><h1>Two</h1><p>&b; second"}
    path = book(tmp_path / "a.epub", spine, **pages)
    assert parts(path) == [("#Two", "Two\n\n&b; second"), ("#One", "One\n\nfirst")]
    assert {d.fields["title"] for d in documents(str(path))} == {"A & B"}


def test_limits_hold_for_all_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings are counted over all pages, and no page is read after the limit of characters."""
    spine = '<itemref idref="a"/><itemref idref="b"/>'
    path = book(tmp_path / "a.epub", spine, a="<h1>A</h1>" * 2, b="<h1>B</h1>" * 2)
    monkeypatch.setattr(headings, "MAX_HEADINGS", 3)
    assert "more than 3 headings" in refused(path)
    monkeypatch.setattr(archives, "MAX_CHARACTERS", 3)
    monkeypatch.setattr(headings, "MAX_HEADINGS", 4)
    read = set[str]()

    def html(page: str) -> headings.MarkedText:
        read.add(page)
        return headings.html(page)

    monkeypatch.setattr(archives, "html", html)
    assert "more than 3 characters" in refused(path)
    assert read == {"<h1>A</h1>" * 2}


def test_damaged_books(tmp_path: Path) -> None:
    """A missing part is named; a path cannot lead out of the archive."""
    path = tmp_path / "a.epub"
    assert "contains no META-INF" in refused(zipped(path, other="x"))
    assert "names no package" in refused(zipped(path, **{archives.CONTAINER: "<x/>"}))
    root = '<rootfile full-path="../../etc/passwd"/>'
    assert "contains no ../../etc/passwd" in refused(zipped(path, **{archives.CONTAINER: root}))
    book(path, '<itemref idref="a"/>', a="text")
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + os.urandom(1) + data[at + 1 :])
        try:
            list(batches(str(path)))
        except VocabtoolError as error:
            assert str(error).startswith(str(path))
