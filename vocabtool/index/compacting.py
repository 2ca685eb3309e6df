"""An index written anew without the documents that are deleted, as another generation.

Answers are the same as before, but for frequencies of words, which deleted documents no longer
count in. Rows keep their order.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from vocabtool.checksums import compare
from vocabtool.encoders.encoder import Vectors
from vocabtool.index import coding, folder, row_hashes, sources
from vocabtool.index.appending import Appending
from vocabtool.index.manifest import Manifest
from vocabtool.index.snapshot import Snapshot
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.writer import Progress, disturbed
from vocabtool.keywords.cutting import Cutter


def compacted(path: Path, before: Snapshot, cutter: Cutter, progress: Progress | None) -> Manifest:
    """Write the documents of a commit into a new generation, and make it the one."""
    held = before.manifest
    empty = Manifest(
        held.index,
        held.configuration,
        held.commit,
        held.generation + 1,
        calibration=held.calibration,
        load=disturbed(held.load),
        sources=held.sources,
    )
    _check(path, before)
    files = Appending(path, empty, cutter)
    try:
        _copy(before, files, progress)
        flushed = files.flush()
    finally:
        files.close()
    coded = coding.coded(files.folder, flushed, progress)
    number = held.commit + 1
    old = folder.generation(path, held.generation)
    numbers = sources.read(old, held.row_sources, held.rows, len(held.sources))[before.live]
    done = replace(coded, commit=number, row_sources=sources.write(files.folder, number, numbers))
    folder.commit(path, done)
    folder.recover(path, done)
    return done


def _check(path: Path, before: Snapshot) -> None:
    """Nothing damaged is written anew under a new checksum. Raises :class:`InvalidFile`."""
    held = before.manifest
    before.documents_store.verify()
    files = folder.generation(path, held.generation)
    compare(files / VECTORS, held.vectors.crc32c, held.vectors.size)
    compare(files / row_hashes.NAME, held.hashes.crc32c, held.hashes.size)


def _copy(before: Snapshot, files: Appending, progress: Progress | None) -> None:
    start = 0
    for rows in before.documents_store.blocks():
        end = start + rows.rows
        live = before.live[start:end]
        files.append(rows.only(live), _vectors(before, start, end), before.hashes[start:end][live])
        start = end
        if progress is not None:
            progress("documents copied", end / len(before.live))


def _vectors(before: Snapshot, start: int, end: int) -> Vectors:
    """Those of the documents among these rows, by plain reads: mapped pages would count as ours."""
    blocks = before.vectors.blocks(start, end)
    return np.concatenate([block[before.live[at : at + len(block)]] for at, block in blocks])
