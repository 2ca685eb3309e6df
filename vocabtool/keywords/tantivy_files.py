"""The files of a tantivy index: which belong to the last commit, and whether they are whole.

``meta.json`` names the segments of the last commit. A segment is some files named by its id, which
never change, and each ends with a footer (tantivy, ``src/directory/footer.rs``): JSON with the
CRC-32 of all before it, the length of that JSON, and 1337, both 4 bytes little-endian.
``.managed.json`` lists what tantivy may remove: these files and others that a writer left which was
killed; the next one removes them.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Final, NamedTuple

from vocabtool.errors import InvalidFile, NotFound
from vocabtool.system.checksums import checksum, compare, compare_bytes

META: Final = "meta.json"
MANAGED: Final = ".managed.json"
LOCKS: Final = (".tantivy-meta.lock", ".tantivy-writer.lock")  # empty
LARGEST_META: Final = 16 << 20  # bytes: some 100,000 segments
LARGEST_FOOTER: Final = 10_000  # bytes; tantivy writes about 90
READ_AT_ONCE: Final = 1 << 20
_MAGIC: Final = 1337
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_MANAGED_NAME: Final = re.compile(r"meta\.json|[0-9a-f]{32}\.[a-z0-9.]{1,32}")
_PARTS: Final = ("fast", "fieldnorm", "idx", "pos", "store", "term")


class Segment(NamedTuple):
    """``documents``: deleted ones too; ``deletes``: the number in the name of their list."""

    name: str
    documents: int
    deletes: int | None

    def names(self) -> list[str]:
        """Its files."""
        names = [f"{self.name}.{part}" for part in _PARTS]
        return names if self.deletes is None else [*names, f"{self.name}.{self.deletes}.del"]


class Footer(NamedTuple):
    """``before``: how many bytes stand before it; ``crc``: their CRC-32 according to it."""

    before: int
    crc: int


def segments(folder: Path) -> list[Segment]:
    """The segments of the last commit; :class:`InvalidFile` where ``meta.json`` is damaged."""
    return _described(description(folder), folder / META)


def file_names(folder: Path) -> frozenset[str]:
    """The files of the last commit's segments."""
    return frozenset(_names(segments(folder)))


def checksums(folder: Path, before: Mapping[str, int]) -> dict[str, int]:
    """The CRC-32C of ``meta.json`` and of each file of the last commit's segments, by name.

    ``before``: those of an earlier commit; the segments' files that it has are not read again.
    """
    found = {META: checksum(folder / META)}
    for name in sorted(file_names(folder)):
        found[name] = before[name] if name in before else checksum(folder / name)
    return found


def check_structure(folder: Path) -> None:
    """Raise :class:`InvalidFile` where a file is missing, short, or without a footer. Quick."""
    for segment in segments(folder):
        before = {name: _footer(folder / name).before for name in segment.names()}
        name = f"{segment.name}.fieldnorm"  # at least a byte for each document
        if segment.documents > before[name]:
            what = f"too short for the {segment.documents:,} documents that {META} counts"
            raise InvalidFile(what, file=str(folder / name))


def check_files(
    folder: Path, noted: Mapping[str, int] | None = None, whole: Set[str] = frozenset()
) -> frozenset[str]:
    """Read every byte of the last commit's files; the names of its segments' files, all whole.

    ``noted``: what :func:`checksums` gave. A file that is not in it, as a writer wrote it that was
    killed or is at work, is compared with the CRC-32 in its own footer.
    ``whole``: files of segments that need no other look.
    Raises :class:`InvalidFile`, which names the file that is not what was written.
    """
    noted = noted or {}
    content = description(folder)  # read once: a writer may put another in its place
    found = frozenset(_names(_described(content, folder / META)))
    # A commit of tantivy's adds a segment (``index/appending.py``): the same files, the same one.
    if META in noted and found == noted.keys() - {META}:
        compare_bytes(content, noted[META], folder / META)
    for name in sorted(found - whole):
        if name in noted:
            compare(folder / name, noted[name])
        else:
            _compare_with_footer(folder / name)
    _check_managed(folder / MANAGED, found)
    return found


def _names(held: Iterable[Segment]) -> Iterator[str]:
    return (name for segment in held for name in segment.names())


def _compare_with_footer(file: Path) -> None:
    left, wanted = _footer(file)
    found = 0
    with file.open("rb") as stream:
        while left and (block := stream.read(min(left, READ_AT_ONCE))):
            found = zlib.crc32(block, found)
            left -= len(block)
    if found != wanted:
        raise InvalidFile("content differs from the checksum at its end", file=str(file))


def _check_managed(file: Path, segments: Set[str]) -> None:
    """It has no checksum: any writer writes it anew, in any order. Nothing but names is in it."""
    if not file.exists():  # to tantivy an empty list
        return
    content = _content(file)
    try:
        names = json.loads(content)
        whole = json.dumps(names, separators=(",", ":")).encode() + b"\n" == content
        if whole and all(map(_MANAGED_NAME.fullmatch, names)) and segments <= {*names}:
            return
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidFile("damaged: no list of the files of this keyword index", file=str(file))


def _described(content: bytes, file: Path) -> list[Segment]:
    try:
        return [_segment(each) for each in json.loads(content)["segments"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFile("no description of a keyword index by tantivy", file=str(file)) from error


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
    return _content(folder / META)


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_META + 1)
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}: no keyword index there") from error
    if len(content) > LARGEST_META:
        raise InvalidFile(f"longer than {LARGEST_META:,} bytes", file=str(file))
    return content


def _footer(file: Path) -> Footer:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            stream.seek(max(size - LARGEST_FOOTER, 0))
            end = stream.read(LARGEST_FOOTER)
    except OSError as error:
        what = f"missing from the keyword index, though {META} names it: {error.strerror}"
        raise InvalidFile(what, file=str(file)) from error
    length = int.from_bytes(end[-8:-4], "little")
    if len(end) < 8 or int.from_bytes(end[-4:], "little") != _MAGIC or length > len(end) - 8:
        raise InvalidFile("cut off or overwritten: no footer at its end", file=str(file))
    return Footer(size - 8 - length, _crc_of_footer(end[-8 - length : -8], file))


def _crc_of_footer(footer: bytes, file: Path) -> int:
    try:
        crc = json.loads(footer)["crc"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidFile("damaged footer at its end", file=str(file)) from error
    if not _is_count(crc):
        raise InvalidFile("damaged footer at its end", file=str(file))
    return int(crc)
