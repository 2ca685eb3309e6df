"""A whole look at an index: every byte is what was written, and both legs hold the same documents.

Opening an index compares sizes and small files only; this reads everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vocabtool.checksums import compare
from vocabtool.encoders.static_weights import FittedWeights
from vocabtool.errors import InvalidFile
from vocabtool.index import folder, row_hashes, sources
from vocabtool.index.configuration import VOCABULARY, WEIGHTS
from vocabtool.index.manifest import Manifest
from vocabtool.index.snapshot import Snapshot
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.keywords import tantivy_files
from vocabtool.vocabulary_files import read

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Verified:
    """An index that is whole.

    ``recall``: of ten, measured now; 1 where vectors are compared. ``loading``: whether a load was
    begun and is not at its end.
    """

    documents: int
    deleted: int
    commit: int
    recall: float
    approximate: bool
    loading: bool


def verified(
    path: Path, snapshot: Snapshot, progress: Callable[[str, float], None] | None = None
) -> Verified:
    """Raises :class:`InvalidFile`, which names the file that is not what was written."""
    manifest = snapshot.manifest
    files = folder.generation(path, manifest.generation)
    tell = progress or (lambda what, share: None)
    tell("vectors", 0.0)
    compare(files / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    compare(files / row_hashes.NAME, manifest.hashes.crc32c, manifest.hashes.size)
    sources.read(files, manifest.row_sources, manifest.rows, len(manifest.sources))
    for name, written in manifest.code_files.items():
        compare(files / name, written.crc32c, written.size)
    tell("documents", 0.3)
    snapshot.documents_store.verify()
    tell("keywords", 0.5)
    _check_keywords(files / folder.KEYWORDS, manifest)
    _compare_legs(files / folder.KEYWORDS, snapshot)
    _check_model_files(path, manifest)
    tell("recall", 0.8)
    recall = 1.0 if manifest.codes is None else snapshot.measured_recall()
    deleted = manifest.rows - manifest.live
    loading = manifest.load is not None and not manifest.load.finished
    coded = manifest.codes is not None
    return Verified(manifest.live, deleted, manifest.commit, recall, coded, loading)


def check_keywords(path: Path) -> None:
    """Read every file of the keyword leg. Raises :class:`InvalidFile`, which names the file."""
    manifest = folder.read_manifest(path)
    files = folder.generation(path, manifest.generation) / folder.KEYWORDS
    _check_keywords(files, manifest)


def _check_keywords(keywords: Path, manifest: Manifest) -> None:
    """The segments are those of the commit, and each file's own checksum fits.

    A writer that was killed may have left newer segments: these hold the rows of the commit too.
    """
    tantivy_files.check_files(keywords)
    found = {each.name: each for each in tantivy_files.segment_files(keywords)}
    for each in manifest.keywords:
        if found.get(each.name, each) != each:
            raise InvalidFile("another file than was written", file=str(keywords / each.name))


def _compare_legs(keywords: Path, snapshot: Snapshot) -> None:
    """Each row has the same id in both legs, and is there once."""
    rows = snapshot.manifest.rows
    met = np.zeros(rows, np.bool_)
    held = _Ids(snapshot)
    for row, id_ in snapshot.keywords.rows_and_ids():
        if row >= rows:
            continue  # of no commit: a writer was killed, or is at work
        if met[row]:
            raise InvalidFile(f"holds row {row:,} twice", file=str(keywords))
        met[row] = True
        if held.at(row) != id_:
            raise InvalidFile(
                f"row {row:,} is document {id_!r}, and {held.at(row)!r} elsewhere",
                file=str(keywords),
            )
    if not met.all():
        raise InvalidFile(f"row {int(np.argmin(met)):,} is missing", file=str(keywords))


class _Ids:
    """The ids of all rows, as one Arrow array."""

    def __init__(self, snapshot: Snapshot) -> None:
        import pyarrow as pa

        self._ids: pa.ChunkedArray = pa.chunked_array(
            list(snapshot.documents_store.all_ids()), pa.string()
        )

    def at(self, row: int) -> str:
        return str(self._ids[row].as_py())


def _check_model_files(path: Path, manifest: Manifest) -> None:
    """The vocabulary and the fitted weights, where the index has them."""
    held = manifest.configuration
    if held.vocabulary is not None:
        file = path / VOCABULARY.format(held.vocabulary)
        if read(file).fingerprint != held.vocabulary:
            raise InvalidFile("another vocabulary than was written", file=str(file))
    if held.weights is not None:
        file = path / WEIGHTS.format(held.weights)
        if FittedWeights.read(file).fingerprint != held.weights:
            raise InvalidFile("other weights than were written", file=str(file))
