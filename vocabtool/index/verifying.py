"""A whole look at an index: every byte is what was written, and both legs hold the same documents.

Opening an index reads its keywords, its codes and the model's files so, of vectors and documents
only the sizes; this reads everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.index import coding, deletions, folder, row_hashes, sources
from vocabtool.index.manifest import Manifest
from vocabtool.index.snapshot import Snapshot
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.keywords import tantivy_files
from vocabtool.keywords.tantivy_files import LOCKS, MANAGED, META
from vocabtool.system.checksums import compare
from vocabtool.system.folder_lock import LOCK

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Verified:
    """An index that is whole.

    ``recall``: of ten, measured now; 1 where vectors are compared. ``loading``: whether a load was
    begun and is not at its end. ``others``: what lies in the folder and is not of the commit.
    """

    documents: int
    deleted: int
    commit: int
    recall: float
    approximate: bool
    loading: bool
    others: tuple[str, ...]


def verified(
    path: Path, snapshot: Snapshot, progress: Callable[[str, float], None] | None = None
) -> Verified:
    """Raises :class:`InvalidFile` or :class:`NotFound` with the file that is not as written."""
    manifest = snapshot.manifest
    files = folder.generation(path, manifest.generation)
    keywords = files / folder.KEYWORDS
    tell = progress or (lambda what, share: None)
    tell("vectors", 0.0)
    compare(files / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    compare(files / row_hashes.NAME, manifest.hashes.crc32c, manifest.hashes.size)
    sources.read(files, manifest.row_sources, manifest.rows, len(manifest.sources))
    coding.check(files, manifest)
    deletions.read(files, manifest.deleted, manifest.rows)
    for name, crc32c in manifest.model_files.items():
        compare(path / name, crc32c)
    tell("documents", 0.3)
    snapshot.documents.verify()
    tell("keywords", 0.5)
    tantivy_files.check_files(keywords, manifest.keywords)
    _compare_legs(keywords, snapshot)
    wanted = _files(path, manifest)
    found = {each for each in path.rglob("*") if not each.is_dir()}
    if missing := sorted(wanted - found):
        raise InvalidFile("missing", file=str(missing[0]))
    others = sorted(each for each in found - wanted if each.name not in (LOCK, *LOCKS))
    tell("recall", 0.8)
    return Verified(
        documents=manifest.live,
        deleted=manifest.rows - manifest.live,
        commit=manifest.commit,
        recall=1.0 if manifest.codes is None else snapshot.measured_recall(),
        approximate=manifest.codes is not None,
        loading=manifest.load is not None and not manifest.load.finished,
        others=tuple(str(each.relative_to(path)) for each in others),
    )


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
            list(snapshot.documents.all_ids()), pa.string()
        )

    def at(self, row: int) -> str:
        return str(self._ids[row].as_py())


def _files(path: Path, manifest: Manifest) -> set[Path]:
    """Every file of a commit; locks, which hold nothing, may be missing."""
    files = folder.generation(path, manifest.generation)
    keywords = files / folder.KEYWORDS
    in_keywords = {META, MANAGED, *tantivy_files.file_names(keywords)}
    return {
        *(path / name for name in (folder.MANIFEST, *manifest.model_files)),
        *(files / name for name in manifest.files()),
        *(keywords / name for name in in_keywords),
    }
