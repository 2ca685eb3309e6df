"""Notebooks, PDF and DOCX: values, and files of others that are damaged or hostile."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.documents.reading import batches, documents, parts
from vocabtool.documents import ReadOptions, SkipCounter, headings, pieces
from vocabtool.documents import documents as read_documents
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError


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
        (b'{"cells": {}}', "list of cells"),
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
    monkeypatch.setattr(headings, "MAX_PAGES", 2)
    assert "3 pages (expected at most 2)" in refused(path)
    monkeypatch.setattr(headings, "MAX_PAGES", 3)
    monkeypatch.setattr(headings, "MAX_CHARACTERS", 12)
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


# DOCX, written by python-docx.


def test_docx(tmp_path: Path) -> None:
    """Paragraphs, headings by their styles, and rows of tables."""
    docx = pytest.importorskip("docx", reason="the extra documents is not installed")
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
    found = headings.docx(b"", path).text.split("\n\n")
    assert found[:4] == [each.text for each in docx.Document(str(path)).paragraphs]


def zipped(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
)


def with_body(path: Path, body: str) -> Path:
    docx = pytest.importorskip("docx", reason="the extra documents is not installed")
    docx.Document().save(str(path))
    with zipfile.ZipFile(path) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    xml = f"{ENTITIES}<w:document {space}><w:body>{body}</w:body></w:document>"
    return zipped(path, **members | {"word/document.xml": xml})


def test_hostile_docx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entity is expanded, what is unpacked has limits, and what is no document is named."""
    path = with_body(tmp_path / "a.docx", "<w:p><w:r><w:t>&b;&f;a</w:t></w:r></w:p>")
    assert parts(path) == []  # an entity ends the text
    with_body(path, "<w:p/>" * 2_000_000)
    assert "more than 1,048,576 tags" in refused(path)
    with_body(path, "<w:p>" * 100_000)
    assert "not a Word document, or damaged" in refused(path)
    for content in (b"PK\x03\x04junk", b""):
        path.write_bytes(content)
        assert "zip" in refused(path)
    assert "not a Word document" in refused(zipped(path, other="x"))
    whole = with_body(path, f"<w:p><w:r><w:t>{'x' * 100}</w:t></w:r></w:p>").read_bytes()
    monkeypatch.setattr(headings, "MAX_CHARACTERS", 50)
    assert "more than 50 characters" in refused(path)
    monkeypatch.setattr(headings, "MAX_UNPACKED", 20)
    assert "unpacks to more than 20 bytes" in refused(path)
    monkeypatch.setattr(pieces, "MAX_FILE_BYTES", 10)
    assert "more than 10 bytes" in refused(path)
    monkeypatch.undo()
    for at in range(0, len(whole), len(whole) // 50):
        path.write_bytes(whole[:at] + os.urandom(1) + whole[at + 1 :])
        try:
            list(batches(str(path)))
        except VocabtoolError as error:
            assert str(error).startswith(str(path))
    packed = tmp_path / "a.docx.gz"
    packed.write_bytes(b"")
    with pytest.raises(UnsupportedFormat, match="DOCX cannot be read from a stream"):
        list(batches(str(packed)))


def test_a_notebook_of_many_lines(tmp_path: Path) -> None:
    """The lines of all its Markdown cells count together, and the strings of the file."""
    cell = {"cell_type": "markdown", "source": "# a\n" * 99}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [cell] * 328}))
    assert "more than 32,768 lines" in refused(path)
    path.write_text(json.dumps({"cells": [{"source": ["\n"] * 1_048_577}]}))
    assert "more than 1,048,576 strings" in refused(path)
