"""The files of a tantivy index: their checksums at a commit, compared when it is opened.

``meta.json`` names the segments of the last commit. A segment is some files named by its id, which
never change. ``.managed.json`` lists what tantivy may remove; a writer that was killed leaves such
files, and the next one removes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final

from vocabtool.errors import InvalidFile, NotFound
from vocabtool.system.checksums import checksum, compare, compare_bytes

META: Final = "meta.json"
MANAGED: Final = ".managed.json"
MANAGED_NAME: Final = re.compile(r"meta\.json|[0-9a-f]{32}\.[a-z0-9.]{1,32}")
LOCKS: Final = (".tantivy-meta.lock", ".tantivy-writer.lock")  # empty


def description(folder: Path) -> bytes:
    """``meta.json`` as it is now. Raises :class:`NotFound` where there is none."""
    try:
        return (folder / META).read_bytes()
    except OSError as error:
        raise NotFound(f"{folder / META}: {error.strerror}: no keyword index there") from error


def file_names(folder: Path) -> frozenset[str]:
    """The files of the last commit's segments. Raises :class:`InvalidFile`, :class:`NotFound`."""
    ids = _segment_ids(folder, description(folder))
    return frozenset(file.name for file in folder.iterdir() if _id_of(file.name) in ids)


def checksums(folder: Path, before: Mapping[str, int]) -> dict[str, int]:
    """The CRC-32C of ``meta.json`` and of each file of the last commit's segments, by name.

    ``before``: those of an earlier commit; the segments' files that it has are not read again.
    """
    found = {META: checksum(folder / META)}
    for name in sorted(file_names(folder)):
        found[name] = before[name] if name in before else checksum(folder / name)
    return found


def check_files(
    folder: Path, noted: Mapping[str, int], whole: Set[str] = frozenset()
) -> frozenset[str]:
    """Compare a commit's files with their checksums; the names of those that are whole.

    ``noted``: what :func:`checksums` gave. Where tantivy is ahead of it, by a writer that was
    killed or is at work, the segments that are left of it are compared: new ones hold no row of the
    commit. ``whole``: files that need no other look. Raises :class:`InvalidFile`, which names the
    file that is not what was written, and :class:`NotFound`.
    """
    content = description(folder)  # read once: a writer may put another in its place
    ids = _segment_ids(folder, content)
    if ids == {_id_of(name) for name in noted} - {_id_of(META)}:  # each commit adds a segment
        compare_bytes(content, noted[META], folder / META)
    left = {name for name in noted if _id_of(name) in ids}
    for name in sorted(left - whole):
        if not (folder / name).exists():
            raise InvalidFile(f"missing, though {META} names it", file=str(folder / name))
        compare(folder / name, noted[name])
    _check_managed(folder / MANAGED, left)
    return frozenset(left)


def _check_managed(file: Path, left: Set[str]) -> None:
    """It has no checksum: any writer writes it anew, in any order. Nothing but names is in it."""
    if not file.exists():  # to tantivy an empty list
        return
    content = file.read_bytes()
    try:
        names = json.loads(content)
        is_whole = json.dumps(names, separators=(",", ":")).encode() + b"\n" == content
        if is_whole and all(map(MANAGED_NAME.fullmatch, names)) and left <= {*names}:
            return
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidFile("damaged: no list of the files of this keyword index", file=str(file))


def _id_of(name: str) -> str:
    return name.partition(".")[0]


def _segment_ids(folder: Path, content: bytes) -> set[str]:
    """The ids of the segments, by the content of ``meta.json``."""
    try:
        return {each["segment_id"].replace("-", "") for each in json.loads(content)["segments"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = "no description of a keyword index by tantivy"
        raise InvalidFile(what, file=str(folder / META)) from error
