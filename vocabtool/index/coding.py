"""What is made of all vectors at the end of a commit: when the codes of the approximate search are
built, when new rows are added to them, and when it is measured how near chance brings vectors.

    codebook-000007.bin, codes-000007.bin    built by commit 7; codes are appended, never changed

How they are made is the business of ``vectors/``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from vocabtool.index.configuration import Configuration
from vocabtool.index.manifest import Chance, Manifest
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.vector_file import Written
from vocabtool.index.vectors.building import build, encode
from vocabtool.index.vectors.chance import by_chance
from vocabtool.index.vectors.codebook import Codebook
from vocabtool.index.vectors.fast_scan import CodeFiles, FastScan
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.system.checksums import checksum, compare

# Rows without a code are compared one by one. As many of them are worth what codes cost:
TAIL: Final = 0.01  # of all rows
LEAST_TAIL: Final = 4096
OUTGROWN: Final = 4  # codes trained on so many times fewer rows are built anew

Progress = Callable[[str, float], None]


def coded(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    """The manifest with codes of its rows, as far as they are worth it; the next commit's."""
    manifest = _measured(folder, manifest)
    if manifest.rows <= manifest.configuration.exact_below:
        return manifest
    facts = manifest.codes
    if facts is None or manifest.rows >= OUTGROWN * facts.coded:
        return _built(folder, manifest, progress)
    if manifest.rows - manifest.coded >= max(LEAST_TAIL, int(TAIL * manifest.rows)):
        return _appended(folder, manifest, progress)
    return manifest


def _measured(folder: Path, manifest: Manifest) -> Manifest:
    """With what chance reaches, measured anew where the rows have doubled."""
    if not manifest.rows or (manifest.chance and manifest.rows < 2 * manifest.chance.rows):
        return manifest
    found = by_chance(_raw(folder, manifest), manifest.configuration.metric)
    if found is None:
        return manifest
    return replace(manifest, chance=Chance(found, manifest.rows))


def opened(folder: Path, manifest: Manifest) -> FastScan | None:
    """The codes of a commit, every byte compared with its checksum; ``None``: it has none.

    Raises :class:`InvalidFile`, which names the file.
    """
    facts = manifest.codes
    if facts is None:
        return None
    check(folder, manifest)
    return FastScan.open(
        _files(folder, manifest),
        dim=facts.dim,
        lists=facts.lists,
        count=manifest.coded,
        metric=manifest.configuration.metric,
    )


def check(folder: Path, manifest: Manifest) -> None:
    """Compare every byte of the codes. Raises :class:`InvalidFile`, which names the file."""
    for name, written in manifest.code_files.items():
        compare(folder / name, written.crc32c, written.size)


def _files(folder: Path, manifest: Manifest) -> CodeFiles:
    names = manifest.code_names
    return CodeFiles(*(folder / name for name in names))


def _raw(folder: Path, manifest: Manifest) -> RawVectors:
    held: Configuration = manifest.configuration
    return RawVectors.open(folder / VECTORS, dim=held.dim, dtype=held.dtype, count=manifest.rows)


def _built(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    held = manifest.configuration
    begun = replace(manifest, code_commit=manifest.commit + 1)
    facts = build(
        _raw(folder, manifest),
        _files(folder, begun),
        metric=held.metric,
        recall=held.recall,
        memory=held.memory,
        progress=_shown(progress, "building codes"),
    )
    return _finished(folder, replace(begun, codes=facts, coded=manifest.rows))


def _appended(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    files, facts = _files(folder, manifest), manifest.codes
    assert facts is not None  # noqa: S101 - there is something to append to
    check(folder, manifest)  # nothing damaged under a new checksum
    codebook = Codebook.load(
        files.codebook,
        dim=facts.dim,
        lists=facts.lists,
        metric=manifest.configuration.metric,
    )
    encode(
        _raw(folder, manifest),
        files,
        codebook,
        start=manifest.coded,
        progress=_shown(progress, "adding codes"),
    )
    return _finished(folder, replace(manifest, coded=manifest.rows))


def _finished(folder: Path, manifest: Manifest) -> Manifest:
    """Put the files onto the disk; the manifest with their checksums."""
    written = {}
    for file in _files(folder, manifest):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        written[file.name] = Written(file.stat().st_size, checksum(file))
    return replace(manifest, code_files=written)


def _shown(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, of: progress(what, done / max(of, 1))
