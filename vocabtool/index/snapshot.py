"""One commit of an index, open for reading: what a search asks (``search/store.py``).

It stays as it is whatever a writer does meanwhile. Which commit that is, and taking a newer one, is
``index.py``'s business.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, OtherModel
from vocabtool.index import coding, deletions, folder, row_hashes
from vocabtool.index.belonging import Belonging
from vocabtool.index.document_columns import id_in_utf8
from vocabtool.index.document_store import DocumentStore
from vocabtool.index.filters import Filters
from vocabtool.index.manifest import Manifest
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.vectors.fast_scan import FastScan
from vocabtool.index.vectors.leg import VectorLeg
from vocabtool.index.vectors.raw import RawVectors
from vocabtool.index.vectors.remeasuring import remeasured
from vocabtool.keywords import tantivy_files
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TantivyReader
from vocabtool.search.known_words import KnownWords
from vocabtool.system.checksums import compare
from vocabtool.system.ranked import Mask, Rows


class Snapshot:
    """One commit. Several threads may ask at a time. Made by :func:`open_snapshot`."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        belonging: Belonging,
        cutter: Cutter,
        earlier: Snapshot | None = None,
    ) -> None:
        self.manifest = manifest
        self._belonging = belonging
        self.cutter = cutter
        held = manifest.configuration
        files = folder.generation(path, manifest.generation)
        self._codes: FastScan | None
        self._files = files
        self.documents: DocumentStore
        self.whole_keywords: frozenset[str]
        same = earlier if earlier is not None and _same_files(earlier.manifest, manifest) else None
        for name, crc32c in manifest.model_files.items() if same is None else ():
            compare(path / name, crc32c)
        self.documents = DocumentStore.open(
            files, manifest.documents, same.documents if same is not None else None
        )
        raw = RawVectors.open(files / VECTORS, dim=held.dim, dtype=held.dtype, count=manifest.rows)
        # Not before: it takes memory by the number of rows, which the files have to bear out.
        self.live = ~deletions.read(files, manifest.deleted, manifest.rows)
        if same is not None and same.manifest.code_files == manifest.code_files:
            self._codes = same._codes
        else:
            self._codes = coding.opened(files, manifest)
        self.vectors = VectorLeg(raw, held.metric, self._codes, manifest.codes)
        keywords = files / folder.KEYWORDS
        self.whole_keywords = tantivy_files.check_files(
            keywords, manifest.keywords, same.whole_keywords if same is not None else frozenset()
        )
        self.keywords = TantivyReader(keywords)
        if self.keywords.documents < manifest.rows:
            what = f"holds {self.keywords.documents:,} of {manifest.rows:,} rows"
            raise InvalidFile(what, file=str(keywords))
        self._filters = Filters(self.documents)

    @property
    def rows(self) -> int:
        """How many rows there are: deleted ones count in frequencies until the next compaction."""
        return self.manifest.rows

    @cached_property
    def known_words(self) -> KnownWords | None:
        """Which words the model knows; ``None`` where nothing tells."""
        return self._belonging.known_words

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """The mean number of terms of a row in the fields ``words`` and ``surfaces``."""
        rows = max(self.manifest.rows, 1)
        return self.manifest.words / rows, self.manifest.surfaces / rows

    def chance(self, vector: Vectors | None) -> float | None:
        """How near chance brings the nearest document to a vector; ``None``: not measured."""
        held = self.manifest
        if vector is None or held.chance is None:
            return None
        scale = held.configuration.metric == "inner-product"
        return held.chance.similarity * (float(np.linalg.norm(vector)) if scale else 1.0)

    @cached_property
    def hashes(self) -> row_hashes.Hashes:
        """What tells that a document is unchanged, by rows; to be asked where nobody writes."""
        return row_hashes.opened(self._files, self.manifest.rows)

    def measured_recall(self) -> float:
        """Recall@10 of the vector leg, measured now."""
        return remeasured(self.vectors.raw, self.vectors, self.manifest.configuration.metric)

    def where(self, condition: str) -> Mask:
        """Which rows fulfil a condition on fields; deleted ones never."""
        return self._filters.mask(condition) & self.live

    def row_of(self, id_: str) -> int | None:
        """The row of a document; ``None``: there is none of that id."""
        held = id_in_utf8(id_)
        found = self.keywords.rows_of([held]).get(held, [])
        rows = [row for row in found if row < self.manifest.rows and self.live[row]]
        return rows[0] if rows else None

    def live_rows(self) -> Rows:
        """The rows of all documents, ascending."""
        return np.flatnonzero(self.live)


def _same_files(one: Manifest, other: Manifest) -> bool:
    """Whether files of the same names have the same content in two commits."""
    return (one.index, one.generation) == (other.index, other.generation)


def open_snapshot(
    path: Path, belonging: Belonging, cutter: Cutter, earlier: Snapshot | None = None
) -> Snapshot:
    """Open the last commit; what it has in common with an ``earlier`` one is shared.

    A writer may make another one meanwhile and remove the files of this: then that one is opened.
    The keyword leg's files change a little earlier than the manifest does.
    Raises :class:`InvalidFile`, which names the file, and :class:`NotFound`.
    """
    manifest = folder.read_manifest(path)
    while True:
        check_rule(path, manifest, cutter)
        before = seen(path, manifest)
        try:
            return Snapshot(path, manifest, belonging, cutter, earlier)
        except (InvalidFile, OSError):
            manifest = folder.read_manifest(path)
            if seen(path, manifest) == before:
                raise


def seen(path: Path, manifest: Manifest) -> tuple[int, int, int]:
    """What is another when a writer was here: the commit, and the keyword leg's own file."""
    file = folder.generation(path, manifest.generation) / folder.KEYWORDS / tantivy_files.META
    try:
        found = file.stat()
    except OSError:  # gone, with its generation
        return (manifest.commit, 0, 0)
    return (manifest.commit, found.st_ino, found.st_mtime_ns)


def check_rule(path: Path, manifest: Manifest, cutter: Cutter) -> None:
    """Raise :class:`OtherModel` where the index was cut by another rule than ours is now."""
    held = manifest.configuration.cutter
    if held != cutter.fingerprint:
        raise OtherModel(str(path), "keyword rule", held, cutter.fingerprint)
