"""The files of a tantivy index: which belong to the last commit, and whether they are whole.

``meta.json`` names the segments of the last commit. A segment is some files named by its id, and
each ends with a footer (tantivy, ``src/directory/footer.rs``): JSON with the CRC-32 of all before
it, the length of that JSON, and 1337, both 4 bytes little-endian. What else lies in the folder is
left by a writer that was killed; the next one removes it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from vocabtool.errors import InvalidFile, NotFound

META: Final = "meta.json"
LARGEST_META: Final = 16 << 20  # bytes: some 100,000 segments
LARGEST_FOOTER: Final = 10_000  # bytes; tantivy writes about 90
READ_AT_ONCE: Final = 1 << 20
_MAGIC: Final = 1337
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_PARTS: Final = ("fast", "fieldnorm", "idx", "pos", "store", "term")


class SegmentFile(NamedTuple):
    """``crc``: CRC-32 of what stands before the footer, as the footer has it."""

    name: str
    size: int
    crc: int


class Segment(NamedTuple):
    """``documents``: deleted ones too; ``deletes``: the number in the name of their list."""

    name: str
    documents: int
    deletes: int | None

    def names(self) -> list[str]:
        """Its files."""
        names = [f"{self.name}.{part}" for part in _PARTS]
        return names if self.deletes is None else [*names, f"{self.name}.{self.deletes}.del"]


def segments(folder: Path) -> list[Segment]:
    """The segments of the last commit; :class:`InvalidFile` where ``meta.json`` is damaged."""
    file = folder / META
    try:
        told = json.loads(description(folder))["segments"]
        return [_segment(each) for each in told]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidFile):
            raise
        raise InvalidFile("no description of a keyword index by tantivy", file=str(file)) from error


def segment_files(folder: Path) -> tuple[SegmentFile, ...]:
    """Every file of the last commit's segments, by name; each has a whole footer."""
    return tuple(sorted(_files_of(folder, segments(folder))))


def check_structure(folder: Path) -> None:
    """Raise :class:`InvalidFile` where a file is missing, short, or without a footer. Quick."""
    held = segments(folder)  # read once: a writer may put others in their place
    sizes = {file.name: file.size for file in _files_of(folder, held)}
    for segment in held:
        name = f"{segment.name}.fieldnorm"  # at least a byte for each document
        if segment.documents > sizes[name]:
            what = f"too short for the {segment.documents:,} documents that {META} counts"
            raise InvalidFile(what, file=str(folder / name))


def check_files(folder: Path) -> None:
    """Raise :class:`InvalidFile` where a file's content differs from its CRC-32. Reads it all."""
    check_structure(folder)
    for file in segment_files(folder):
        if _crc(folder / file.name) != file.crc:
            what = "content differs from the checksum at its end"
            raise InvalidFile(what, file=str(folder / file.name))


def _files_of(folder: Path, held: Iterable[Segment]) -> Iterator[SegmentFile]:
    for segment in held:
        for name in segment.names():
            _, crc = _footer(folder / name)
            yield SegmentFile(name, (folder / name).stat().st_size, crc)


def _segment(described: dict[str, Any]) -> Segment:
    name, documents = described["segment_id"].replace("-", ""), described["max_doc"]
    deletes = described["deletes"]
    if not _NAME.fullmatch(name) or not _is_count(documents):
        raise ValueError("no segment")
    if deletes is None:
        return Segment(name, documents, None)
    if not _is_count(deletes["opstamp"]) or deletes["num_deleted_docs"] > documents:
        raise ValueError("no list of deletes")
    return Segment(name, documents, deletes["opstamp"])


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def description(folder: Path) -> bytes:
    """``meta.json`` as it is now. Raises :class:`NotFound` where there is none."""
    file = folder / META
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_META + 1)
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}: no keyword index there") from error
    if len(content) > LARGEST_META:
        raise InvalidFile(f"longer than {LARGEST_META:,} bytes", file=str(file))
    return content


def _footer(file: Path) -> tuple[int, int]:
    """How many bytes stand before the footer, and their CRC-32 according to it."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            stream.seek(max(size - LARGEST_FOOTER, 0))
            end = stream.read(LARGEST_FOOTER)
    except OSError as error:
        what = f"missing from the keyword index: {error.strerror}"
        raise InvalidFile(what, file=str(file)) from error
    length = int.from_bytes(end[-8:-4], "little")
    if len(end) < 8 or int.from_bytes(end[-4:], "little") != _MAGIC or length > len(end) - 8:
        raise InvalidFile("cut off or overwritten: no footer at its end", file=str(file))
    return size - 8 - length, _crc_of_footer(end[-8 - length : -8], file)


def _crc_of_footer(footer: bytes, file: Path) -> int:
    try:
        crc = json.loads(footer)["crc"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidFile("damaged footer at its end", file=str(file)) from error
    if not _is_count(crc):
        raise InvalidFile("damaged footer at its end", file=str(file))
    return int(crc)


def _crc(file: Path) -> int:
    left, _ = _footer(file)
    crc = 0
    with file.open("rb") as stream:
        while left and (block := stream.read(min(left, READ_AT_ONCE))):
            crc = zlib.crc32(block, crc)
            left -= len(block)
    return crc
