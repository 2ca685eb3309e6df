"""The files of vectors in a generation: raw ones, and the codes of the approximate search.

    vectors.bin    a fixed number of bytes a row: rows are added at the end, and never changed
    codes-000007.faiss    written by commit 7, never changed: codes of more rows are another file

When codes are built, when new rows are added to them, and when it is measured how near chance
brings vectors, is decided here at the end of a commit; how, in ``vectors/``. Bytes behind the
committed length are left by a writer that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from vocabtool.errors import InvalidFile, reading
from vocabtool.index.folder import VECTORS
from vocabtool.index.manifest import Chance, FileFacts, Manifest
from vocabtool.index.vectors.codes import VectorCodes, build_codes
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.vectors.recall import similarity_by_chance
from vocabtool.system.checksums import checksum, compare

# Rows without a code are compared one by one. As many of them are worth what codes cost:
TAIL: Final = 0.01  # of all rows
MIN_TAIL: Final = 4096
OUTGROWN: Final = 4  # codes trained on so many times fewer rows are built anew

Progress = Callable[[str, float], None]


def with_codes(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    """The manifest with codes of its rows, as far as they are worth it; the next commit's."""
    manifest = _measure_chance(folder, manifest)
    if manifest.rows <= manifest.configuration.exact_below:
        return manifest
    facts = manifest.codes
    if facts is None or manifest.rows >= OUTGROWN * facts.coded:
        return _build(folder, manifest, progress)
    if manifest.rows - manifest.coded >= max(MIN_TAIL, int(TAIL * manifest.rows)):
        return _append(folder, manifest, progress)
    return manifest


def _measure_chance(folder: Path, manifest: Manifest) -> Manifest:
    """With what chance reaches, measured anew where the rows have doubled."""
    if not manifest.rows or (manifest.chance and manifest.rows < 2 * manifest.chance.rows):
        return manifest
    found = similarity_by_chance(raw_vectors(folder, manifest), manifest.configuration.metric)
    if found is None:
        return manifest
    return replace(manifest, chance=Chance(similarity=found, rows=manifest.rows))


def open_codes(folder: Path, manifest: Manifest) -> VectorCodes | None:
    """The codes of a commit, every byte compared with its checksum; ``None``: it has none.

    Raises :class:`InvalidFile`, which names the file.
    """
    if manifest.codes is None:
        return None
    check_codes(folder, manifest)
    file = folder / manifest.code_name
    try:
        return VectorCodes.read(file, manifest.coded)
    except RuntimeError as error:  # of FAISS: a compaction may have removed it meanwhile
        raise InvalidFile(f"no codes that FAISS can read: {error}", file=str(file)) from error


def check_codes(folder: Path, manifest: Manifest) -> None:
    """Compare every byte of the codes. Raises :class:`InvalidFile`, which names the file."""
    for name, written in manifest.code_files.items():
        compare(folder / name, written.crc32c)


def raw_vectors(folder: Path, manifest: Manifest) -> RawVectors:
    """The vectors of a commit. Raises :class:`InvalidFile` where the file is shorter."""
    held = manifest.configuration
    return RawVectors(folder / VECTORS, dim=held.dim, dtype=held.dtype, count=manifest.rows)


def _build(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    held = manifest.configuration
    codes, facts = build_codes(
        raw_vectors(folder, manifest),
        metric=held.metric,
        recall=held.recall,
        memory=held.memory,
        progress=_step_progress(progress, "building codes"),
    )
    return _write_codes(folder, replace(manifest, codes=facts), codes)


def _append(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    codes = open_codes(folder, manifest)
    assert codes is not None  # noqa: S101 - there is something to append to
    codes.add_rows(raw_vectors(folder, manifest), _step_progress(progress, "adding codes"))
    return _write_codes(folder, manifest, codes)


def _write_codes(folder: Path, manifest: Manifest, codes: VectorCodes) -> Manifest:
    """The codes of all rows written as those of this commit."""
    manifest = replace(manifest, code_commit=manifest.commit, coded=manifest.rows)
    file = folder / manifest.code_name
    codes.write(file)
    written = FileFacts(size=file.stat().st_size, crc32c=checksum(file))
    return replace(manifest, code_files={file.name: written})


def _step_progress(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, of: progress(what, done / max(of, 1))


class AppendedFile:
    """A file, to be appended to. ``written``: how much of it is there."""

    def __init__(self, path: Path, written: FileFacts) -> None:
        """Open it where it was committed: what lies behind is cut off.

        Raises :class:`InvalidFile` where it is shorter.
        """
        with reading(str(path)):
            if written.size and (found := path.stat().st_size) < written.size:
                raise InvalidFile(f"cut off: {found:,} bytes, wanted {written.size:,}")
            self._file = path.open("r+b" if path.exists() else "x+b")
            self._file.truncate(written.size)
            self._file.seek(written.size)
        self.written = written

    def append(self, data: bytes) -> None:
        """Add rows."""
        import google_crc32c

        self._file.write(data)
        crc = google_crc32c.extend(self.written.crc32c, data)
        self.written = FileFacts(size=self.written.size + len(data), crc32c=crc)

    def flush(self) -> None:
        """Put everything onto the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
