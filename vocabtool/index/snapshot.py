"""One commit of an index, open for reading: what a search asks.

It stays as it is whatever a writer does meanwhile. Which commit that is, and taking a newer one, is
the business of ``index.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, OtherModel
from vocabtool.index.conditions import Conditions
from vocabtool.index.database import Documents
from vocabtool.index.documents import id_in_utf8
from vocabtool.index.folder import KEYWORDS, Commit, read_commit
from vocabtool.index.generation import open_codes, raw_vectors
from vocabtool.index.model import IndexModel
from vocabtool.index.raw_vectors import measure_recall
from vocabtool.index.vector_codes import VectorCodes
from vocabtool.index.vector_leg import VectorLeg
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TantivyReader
from vocabtool.search.store import KnownWords
from vocabtool.system.own_files import compare
from vocabtool.system.ranking import Mask


class Snapshot:
    """One commit. Several threads may ask at a time. Made by :func:`open_snapshot`."""

    def __init__(
        self,
        path: Path,
        commit: Commit,
        model: IndexModel,
        cutter: Cutter,
        earlier: Snapshot | None = None,
    ) -> None:
        self.manifest = manifest = commit.manifest
        self.cutter = cutter
        self.live = ~commit.is_deleted
        self.model = model
        self.commit = commit
        same = earlier if earlier is not None and earlier.commit.folder == commit.folder else None
        for name, crc32c in manifest.model_files.items() if same is None else ():
            compare(path / name, crc32c)
        self.documents = Documents(commit.database, manifest.fields)
        raw = raw_vectors(commit.folder, manifest)
        if same is not None and same.manifest.code_files == manifest.code_files:
            self._codes: VectorCodes | None = same._codes
        else:
            self._codes = open_codes(commit.folder, manifest)
        metric = manifest.configuration.metric
        self.vectors = VectorLeg(raw, metric, self._codes, manifest.codes)
        keywords = commit.folder / KEYWORDS
        self.whole_keywords: frozenset[str] = tantivy_index.check_files(
            keywords, manifest.keywords, same.whole_keywords if same is not None else frozenset()
        )
        self.keywords = TantivyReader(keywords)
        if self.keywords.documents < manifest.rows:
            what = f"holds {self.keywords.documents:,} of {manifest.rows:,} rows"
            raise InvalidFile(what, file=str(keywords))
        self._conditions = Conditions(commit.database, manifest.rows, manifest.fields)

    @property
    def rows(self) -> int:
        """How many rows there are: deleted ones count in frequencies until the next compaction."""
        return self.manifest.rows

    @cached_property
    def known_words(self) -> KnownWords | None:
        """Which words the model knows; ``None`` where nothing tells."""
        return self.model.known_words

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

    def measured_recall(self) -> float:
        """Recall@10 of the vector leg, measured now."""
        metric = self.manifest.configuration.metric
        return measure_recall(
            self.vectors.raw, lambda vector, k: self.vectors.search(vector, k).rows, metric
        )

    def where(self, condition: str) -> Mask:
        """Which rows fulfil a condition on fields; deleted ones never."""
        return self._conditions.mask(condition) & self.live

    def row_of(self, id_: str) -> int | None:
        """The row of a document; ``None``: there is none of that id."""
        held = id_in_utf8(id_)
        return self.rows_of([held]).get(held)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The row of each of these ids, in UTF-8, that there is."""
        found = self.commit.database.rows_of(ids)
        return {
            id_: row
            for id_, rows in found.items()
            for row in rows
            if row < self.manifest.rows and self.live[row]
        }


def open_snapshot(
    path: Path,
    model: Callable[[Commit], IndexModel],
    earlier: Snapshot | None = None,
) -> Snapshot:
    """Open the last commit; what it has in common with an ``earlier`` one is shared.

    A writer may make another one meanwhile and remove the files of this: then that one is opened.
    The keyword leg's files change a little earlier than the commit does.
    Raises :class:`InvalidFile`, which names the file, and :class:`NotFound`.
    """
    shared = earlier.commit if earlier is not None else None
    commit = read_commit(path, shared)
    cutter = earlier.cutter if earlier is not None else _cutter(commit)
    while True:
        check_rule(path, commit, cutter)
        before = read_version(commit)
        try:
            return Snapshot(path, commit, model(commit), cutter, earlier)
        except (InvalidFile, OSError):
            commit = read_commit(path, shared)
            if read_version(commit) == before:
                raise


def _cutter(commit: Commit) -> Cutter:
    return Cutter(commit.manifest.configuration.language)


def read_version(commit: Commit) -> tuple[str, int, int, int]:
    """What is another when a writer was here: the commit, and the keyword leg's own file."""
    try:
        found = (commit.folder / KEYWORDS / tantivy_index.META).stat()
    except OSError:  # gone, with its generation
        return (commit.folder.name, commit.manifest.commit, 0, 0)
    return (commit.folder.name, commit.manifest.commit, found.st_ino, found.st_mtime_ns)


def check_rule(path: Path, commit: Commit, cutter: Cutter) -> None:
    """Raise :class:`OtherModel` where the index was cut by another rule than ours is now."""
    held = commit.manifest.configuration.cutter
    if held != cutter.fingerprint:
        raise OtherModel(str(path), "keyword rule", held, cutter.fingerprint)
