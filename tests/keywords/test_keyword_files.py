"""The files of the keyword leg: compared with the checksums of their commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from vocabtool.errors import InvalidFile, NotFound
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import (
    META,
    TantivyReader,
    TantivyWriter,
    check_files,
    checksums,
)

MEMORY = 15_000_000


def add(folder: Path, rows: range) -> None:
    writer = TantivyWriter(folder, memory=MEMORY)
    writer.add(rows, [f"d{row}" for row in rows], Cutter("none").terms(["fox a-b"] * len(rows)))
    writer.commit()
    writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    add(tmp_path, range(300))
    return tmp_path


def test_every_file_of_a_commit_is_compared(folder: Path) -> None:
    """A byte of any file, also of the description; what was looked at is not read again."""
    noted = checksums(folder, {})
    assert check_files(folder, noted) == noted.keys() - {META}
    for name in noted:
        file = folder / name
        content = file.read_bytes()
        at = len(content) // 2
        changed = b"0" if content[at : at + 1] != b"0" else b"1"
        file.write_bytes(content[:at] + changed + content[at + 1 :])
        with pytest.raises(InvalidFile, match=name.partition(".")[0]):
            check_files(folder, noted)
        assert name == META or check_files(folder, noted, {name})
        file.write_bytes(content)


def test_a_writer_that_is_ahead_is_no_damage(folder: Path) -> None:
    """It added a segment; the files of the commit are compared all the same."""
    noted = checksums(folder, {})
    add(folder, range(300, 320))
    kept = check_files(folder, noted)
    assert kept <= noted.keys() - {META}
    again = checksums(folder, noted)
    assert check_files(folder, again) == again.keys() - {META}
    assert TantivyReader(folder).documents == 320


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"segments": [{}]}', b"[" * 100_000])
def test_what_is_no_description_is_refused(content: bytes, folder: Path) -> None:
    """By readers, by writers, and when files are looked at."""
    noted = checksums(folder, {})
    (folder / META).write_bytes(content)
    with pytest.raises(InvalidFile, match=r"meta\.json"):
        check_files(folder, noted)
    with pytest.raises(InvalidFile):
        TantivyReader(folder)
    with pytest.raises(InvalidFile):
        TantivyWriter(folder, memory=MEMORY)


def test_files_that_are_not_there_are_named(folder: Path) -> None:
    """A segment's, and the description."""
    noted = checksums(folder, {})
    (gone,) = folder.glob("*.store")
    gone.unlink()
    with pytest.raises(InvalidFile, match="store"):
        check_files(folder, noted)
    (folder / META).unlink()
    with pytest.raises(NotFound, match="no keyword index there"):
        TantivyReader(folder)
