"""Damaged files of the keyword index are named, and never a traceback of tantivy's."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.keywords import tantivy_files
from vocabtool.keywords.cutting import Cutter
from vocabtool.keywords.damage import naming_damage
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.keywords.tantivy_engine import TantivyReader, TantivyWriter
from vocabtool.keywords.tantivy_files import MANAGED, META, check_files, checksums

MEMORY = 15_000_000
PARTS = ["fast", "fieldnorm", "idx", "pos", "store", "term"]
QUERY = KeywordQuery((Clause((Term("words", "fox"),)),))


def _made(folder: Path, text: str) -> Path:
    writer = TantivyWriter(folder, memory=MEMORY)
    texts = [f"{text} {row} a-b" for row in range(300)]
    writer.add(range(300), [f"{text}{row}" for row in range(300)], Cutter("none").terms(texts))
    writer.commit()
    writer.close()
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(tmp_path_factory.mktemp("whole"), "fox")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def _file(folder: Path, part: str) -> Path:
    (found,) = folder.glob(f"*.{part}")
    return found


def test_segments_are_those_of_one_commit(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer may put another description in place of the first while files are looked at."""
    other = _made(tmp_path / "other", "cat")
    descriptions = iter([(folder / META).read_bytes() for folder in (whole, other)])
    monkeypatch.setattr(tantivy_files, "description", lambda folder: next(descriptions))
    tantivy_files.check_structure(whole)


def test_files_carry_the_checksum_that_tantivy_wrote(whole: Path) -> None:
    """CRC-32 of what stands before the footer, computed here by zlib."""
    for name in check_files(whole):
        content = (whole / name).read_bytes()
        end = content.rindex(b'{"version"')
        assert json.loads(content[end:-8])["crc"] == zlib.crc32(content[:end])


def test_checksums_are_of_whole_files(whole: Path) -> None:
    """The CRC-32C of ``meta.json`` and all parts; those of an earlier commit are kept."""
    found = checksums(whole, {})
    assert sorted(name.rpartition(".")[2] for name in found) == sorted(["json", *PARTS])
    assert found == {name: google_crc32c.value((whole / name).read_bytes()) for name in found}
    term = _file(whole, "term").name
    assert checksums(whole, {term: 1, META: 2, "gone": 3}) == found | {term: 1}


@pytest.mark.parametrize("name", [META, MANAGED, *PARTS])
def test_every_byte_counts(folder: Path, name: str) -> None:
    """One flipped bit anywhere, footers too, or a byte more or less: the file is named."""
    noted = checksums(folder, {})
    file = folder / name if name in (META, MANAGED) else _file(folder, name)
    content = file.read_bytes()
    flipped = [
        content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :]
        for at in range(len(content))
    ]
    for damaged in (*flipped, content[:-1], content + b"\0", b""):
        file.write_bytes(damaged)
        with pytest.raises(InvalidFile) as error:
            check_files(folder, noted)
        assert name in str(error.value)
    file.write_bytes(content)
    assert check_files(folder, noted) == noted.keys() - {META}
    file.unlink()
    if name != MANAGED:  # without it tantivy removes nothing, and reads all the same
        with pytest.raises(VocabtoolError, match=file.name):
            check_files(folder, noted)


def test_what_a_later_commit_wrote_is_compared_with_its_footers(folder: Path) -> None:
    """As of a writer that was killed between tantivy's commit and ours."""
    noted = checksums(folder, {})
    writer = TantivyWriter(folder, memory=MEMORY)
    writer.add([300], ["later"], Cutter("none").terms(["a later one"]))
    writer.commit()
    writer.close()
    later = check_files(folder, noted) - noted.keys()
    assert len(later) == len(PARTS)
    file = folder / min(later)
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(InvalidFile, match="content differs from the checksum") as error:
        check_files(folder, noted)
    assert error.value.file == str(file)
    assert check_files(folder, noted, whole=later) >= later  # not read again


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("left", [0, 3, 8, 50, -1, -4, -200])
def test_a_file_cut_off_is_refused_on_opening(folder: Path, part: str, left: int) -> None:
    """The footer tells, and the message names the file."""
    file = _file(folder, part)
    file.write_bytes(file.read_bytes()[:left])
    for use in (TantivyReader, check_files, lambda path: TantivyWriter(path, memory=MEMORY)):
        with pytest.raises(InvalidFile, match=r"no footer at its end|damaged footer") as error:
            use(folder)
        assert error.value.file == str(file)


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_file_is_refused_on_opening(folder: Path, part: str) -> None:
    """And named."""
    file = _file(folder, part)
    file.unlink()
    with pytest.raises(InvalidFile, match="missing from the keyword index") as error:
        TantivyReader(folder)
    assert error.value.file == str(file)


FOOTERS = {
    "no JSON": b"nothing of JSON",
    "no checksum": b'{"version": 1}',
    "a checksum that is none": b'{"crc": -1}',
    "a list": b"[]",
}


@pytest.mark.parametrize("footer", FOOTERS.values(), ids=FOOTERS)
def test_a_damaged_footer_is_refused(folder: Path, footer: bytes) -> None:
    """It has the right frame and the wrong content."""
    file = _file(folder, "term")
    file.write_bytes(b"x" + footer + len(footer).to_bytes(4, "little") + b"\x39\x05\0\0")
    with pytest.raises(InvalidFile, match="damaged footer"):
        TantivyReader(folder)


def _changed(change: Callable[[dict[str, object]], None]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        meta = json.loads(content)
        change(meta["segments"][0])
        return json.dumps(meta).encode()

    return changed


METAS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:200],
    "no JSON": lambda content: b"\xff" + content,
    "a list": lambda content: b"[1]",
    "deeply nested": lambda content: b"[" * 100_000,
    "no segments": lambda content: b"{}",
    "a path as a name": _changed(lambda one: one.update(segment_id="../../../etc/passwd")),
    "a number as a name": _changed(lambda one: one.update(segment_id=7)),
    "a negative count": _changed(lambda one: one.update(max_doc=-1)),
    "a text as a count": _changed(lambda one: one.update(max_doc="7")),
    "more deleted than there are": _changed(
        lambda one: one.update(deletes={"num_deleted_docs": 301, "opstamp": 1})
    ),
    "deletes that are none": _changed(lambda one: one.update(deletes=[])),
}


@pytest.mark.parametrize("damage", METAS.values(), ids=METAS)
def test_a_damaged_description_is_refused(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    """``meta.json`` is named."""
    meta = folder / META
    meta.write_bytes(damage(meta.read_bytes()))
    with pytest.raises(InvalidFile, match="no description of a keyword index") as error:
        TantivyReader(folder)
    assert error.value.file == str(meta)


def test_a_description_of_more_documents_is_refused(folder: Path) -> None:
    """Every document has a byte in the file of lengths, so a hostile count is seen."""
    meta = folder / META
    meta.write_bytes(_changed(lambda one: one.update(max_doc=2**31))(meta.read_bytes()))
    with pytest.raises(InvalidFile, match="too short for the 2,147,483,648 documents"):
        TantivyReader(folder)


def test_a_description_of_other_fields_is_refused(folder: Path) -> None:
    """An index that tantivy wrote for someone else is none of ours."""
    meta = folder / META
    meta.write_text(meta.read_text().replace('"surfaces"', '"subtitles"'))
    with pytest.raises(InvalidFile, match="keyword index is damaged, tantivy says: ") as error:
        TantivyReader(folder)
    assert error.value.file == str(folder)


@pytest.mark.parametrize("part", PARTS)
def test_damage_behind_a_whole_footer_is_an_error_of_ours_or_none(folder: Path, part: str) -> None:
    """Without its check tantivy may panic or answer wrongly, and the check names the file."""
    file = _file(folder, part)
    content = file.read_bytes()
    footer = content.rindex(b'{"version"')
    random = np.random.default_rng(8)
    for _ in range(20):
        damaged = bytearray(content)
        for at in random.integers(0, footer, 5):
            damaged[at] ^= int(random.integers(1, 256))
        beside = file.with_name("damaged")  # renamed: a thread of tantivy's may still read the old
        beside.write_bytes(damaged)
        beside.replace(file)
        try:
            reader = TantivyReader(folder)
            reader.search(QUERY, 10, np.ones(300, np.bool_))
            reader.rows_of(["fox7"])
            list(reader.rows_and_ids())
        except InvalidFile as error:
            assert error.file == str(folder)
        with pytest.raises(InvalidFile, match="content differs"):
            check_files(folder)


def test_swapped_files_are_told_by_their_checksums(folder: Path, tmp_path: Path) -> None:
    """A whole file of another index under this one's name has another checksum than was noted."""
    noted = checksums(folder, {})
    other = _made(tmp_path / "other", "cat")
    shutil.copyfile(_file(other, "term"), _file(folder, "term"))
    with pytest.raises(InvalidFile, match="CRC-32C") as error:
        check_files(folder, noted)
    assert error.value.file == str(_file(folder, "term"))


def test_only_panics_and_errors_of_files_become_damage(tmp_path: Path) -> None:
    """An interrupt stays an interrupt, a mistake of ours stays one."""
    with pytest.raises(KeyboardInterrupt), naming_damage(tmp_path):
        raise KeyboardInterrupt
    with pytest.raises(TypeError), naming_damage(tmp_path):
        raise TypeError
    with pytest.raises(InvalidFile, match="tantivy says: broken"), naming_damage(tmp_path):
        raise OSError("broken\nand more")
