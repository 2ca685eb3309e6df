"""What is made of all vectors at the end of a commit: when the codes of the approximate search are
built, when new rows are added to them, and when it is measured how near chance brings vectors.

    codes-000007.faiss    written by commit 7, never changed: more rows are another file

How they are made is the business of ``vectors/``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from vocabtool.index.configuration import Configuration
from vocabtool.index.manifest import Chance, Manifest
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.vector_file import Written
from vocabtool.index.vectors.codes import VectorCodes, build_codes
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.vectors.recall import similarity_by_chance
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
    found = similarity_by_chance(_raw(folder, manifest), manifest.configuration.metric)
    if found is None:
        return manifest
    return replace(manifest, chance=Chance(found, manifest.rows))


def opened(folder: Path, manifest: Manifest) -> VectorCodes | None:
    """The codes of a commit, every byte compared with its checksum; ``None``: it has none.

    Raises :class:`InvalidFile`, which names the file.
    """
    if manifest.codes is None:
        return None
    check(folder, manifest)
    return VectorCodes.read(folder / manifest.code_name, manifest.coded)


def check(folder: Path, manifest: Manifest) -> None:
    """Compare every byte of the codes. Raises :class:`InvalidFile`, which names the file."""
    for name, written in manifest.code_files.items():
        compare(folder / name, written.crc32c, written.size)


def _raw(folder: Path, manifest: Manifest) -> RawVectors:
    held: Configuration = manifest.configuration
    return RawVectors(folder / VECTORS, dim=held.dim, dtype=held.dtype, count=manifest.rows)


def _built(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    held = manifest.configuration
    codes, facts = build_codes(
        _raw(folder, manifest),
        metric=held.metric,
        recall=held.recall,
        memory=held.memory,
        progress=_shown(progress, "building codes"),
    )
    return _written(folder, replace(manifest, codes=facts), codes)


def _appended(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    codes = opened(folder, manifest)
    assert codes is not None  # noqa: S101 - there is something to append to
    codes.add_rows(_raw(folder, manifest), _shown(progress, "adding codes"))
    return _written(folder, manifest, codes)


def _written(folder: Path, manifest: Manifest, codes: VectorCodes) -> Manifest:
    """The codes of all rows written as those of the next commit."""
    manifest = replace(manifest, code_commit=manifest.commit + 1, coded=manifest.rows)
    file = folder / manifest.code_name
    codes.write(file)
    written = Written(file.stat().st_size, checksum(file))
    return replace(manifest, code_files={file.name: written})


def _shown(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, of: progress(what, done / max(of, 1))
