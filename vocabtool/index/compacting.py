"""An index written anew without the documents that are deleted, as another generation.

Answers are the same as before, but for frequencies of words, which deleted documents no longer
count in. Rows keep their order. Neither codes nor keywords are read: damaged ones are made anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.index import coding, deletions, folder, row_hashes, sources
from vocabtool.index.appending import Appending
from vocabtool.index.deletions import Deleted
from vocabtool.index.document_store import DocumentStore
from vocabtool.index.manifest import Manifest
from vocabtool.index.snapshot import check_rule
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.writer import Progress, disturbed
from vocabtool.keywords.cutter import Cutter
from vocabtool.system.checksums import compare
from vocabtool.system.folder_lock import locked


class Compacted(NamedTuple):
    """``removed``: deleted rows that are gone; ``left``: documents."""

    removed: int
    left: int


def compact(path: Path, progress: Progress | None = None) -> Compacted:
    """Write the documents of the last commit into a new generation, and make it the one.

    Raises :class:`FolderInUse` where another process writes, :class:`InvalidFile` where documents
    or vectors are damaged, which are not there twice.
    """
    folder.read_manifest(path)  # else a lock would be made where there is no index
    with locked(path):
        held = folder.read_manifest(path)
        cutter = Cutter(held.configuration.language)
        check_rule(path, held, cutter)
        folder.recover(path, held)
        before = _opened(path, held)
        empty = Manifest(
            held.index,
            held.configuration,
            held.commit,
            held.generation + 1,
            model_files=held.model_files,
            calibration=held.calibration,
            load=disturbed(held.load),
            sources=held.sources,
        )
        files = Appending(path, empty, cutter)
        try:
            _copy(before, files, progress)
            flushed = files.flush()
        finally:
            files.close()
        coded = coding.coded(files.folder, flushed, progress)
        number = held.commit + 1
        rows = sources.write(files.folder, number, before.sources[before.live])
        done = replace(coded, commit=number, row_sources=rows)
        folder.commit(path, done)
        folder.recover(path, done)
        return Compacted(held.rows - held.live, held.live)


class _Opened(NamedTuple):
    documents: DocumentStore
    vectors: RawVectors
    hashes: row_hashes.Hashes
    sources: sources.RowSources
    live: Deleted


def _opened(path: Path, manifest: Manifest) -> _Opened:
    """What is copied, every byte of it compared: nothing damaged gets a new checksum."""
    files, held = folder.generation(path, manifest.generation), manifest.configuration
    documents = DocumentStore.open(files, manifest.documents)
    documents.verify()
    file = files / VECTORS
    compare(file, manifest.vectors.crc32c, manifest.vectors.size)
    vectors = RawVectors.open(file, dim=held.dim, dtype=held.dtype, count=manifest.rows)
    compare(files / row_hashes.NAME, manifest.hashes.crc32c, manifest.hashes.size)
    return _Opened(
        documents,
        vectors,
        row_hashes.opened(files, manifest.rows),
        sources.read(files, manifest.row_sources, manifest.rows, len(manifest.sources)),
        ~deletions.read(files, manifest.deleted, manifest.rows),
    )


def _copy(before: _Opened, files: Appending, progress: Progress | None) -> None:
    start = 0
    for rows in before.documents.blocks():
        end = start + rows.rows
        live = before.live[start:end]
        files.append(rows.only(live), _vectors(before, start, end), before.hashes[start:end][live])
        start = end
        if progress is not None:
            progress("documents copied", end / len(before.live))


def _vectors(before: _Opened, start: int, end: int) -> Vectors:
    """Those of the documents among these rows, by plain reads: mapped pages would count as ours."""
    blocks = before.vectors.blocks(start, end)
    return np.concatenate([block[before.live[at : at + len(block)]] for at, block in blocks])
