"""Change an index in a folder: append rows, and mark deleted rows in a bitmap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vocabtool.index.canaries import Canaries
from vocabtool.index.folder import Commit, Load, Manifest, recover
from vocabtool.index.generation import GenerationWriter, Progress, canaries_of
from vocabtool.index.sources import Source
from vocabtool.keywords.cutter import Cutter
from vocabtool.system.ranking import Mask, Rows


class FolderWriter(GenerationWriter):
    """The :class:`~vocabtool.index.writer.StoreWriter` of a folder.

    It first removes what interrupted writers left. A folder has one writer at a time.
    """

    is_shared = False

    def __init__(self, path: Path, commit: Commit, cutter: Cutter) -> None:
        recover(path, commit)
        super().__init__(commit.folder, commit.manifest, cutter)
        self._path, self._before = path, commit
        self._is_deleted = commit.is_deleted  # may be shorter than the rows; never changed in place

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        known = len(self._is_deleted)
        return {
            id_: row
            for id_, rows in self.database.rows_of(ids).items()
            for row in rows
            if row >= known or not self._is_deleted[row]
        }

    def delete(self, rows: Rows) -> None:
        self._is_deleted = self._all_deleted()
        self._is_deleted[rows] = True

    def set_source(self, rows: Rows, source: int) -> bool:
        return self.database.set_source(rows, source)

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        statement = "SELECT row FROM fields WHERE source = ?"
        found = [self.database.fetch_rows(statement, (number,)) for number in numbers]
        rows: Rows = np.sort(np.concatenate([np.zeros(0, np.int64), *found]))
        rows = rows[rows < self._before.manifest.rows]
        was_there: Rows = rows[~self._before.is_deleted[rows]]
        return was_there

    def remember(self, key: str, digest: bytes, answer: bytes) -> None:
        self.database.remember([(key, digest, answer)])

    def answer_for(self, key: str) -> tuple[bytes, bytes] | None:
        found = self.database.answers(key)
        return found[0][1:] if found else None

    def load_of(self, plan: str | None) -> Load | None:
        return self.manifest.load

    def register_sources(
        self, known: Sequence[Source], sources: Sequence[Source]
    ) -> tuple[Source, ...]:
        self.manifest = replace(self.manifest, sources=(*sources,))
        return self.manifest.sources

    def take_shard(self, plan: str, count: int) -> int | None:
        raise NotImplementedError("a folder has one writer")

    def add_shard(self, plan: str, shard: int, documents: int) -> None:
        raise NotImplementedError("a folder has one writer")

    def canaries(self) -> Canaries:
        return canaries_of(self._before)

    def commit_changes(
        self, manifest: Manifest, *, codes: bool, progress: Progress | None = None
    ) -> None:
        self._is_deleted = self._all_deleted()
        self.commit(manifest, self._is_deleted, codes=codes, progress=progress)
        recover(self._path, Commit(self.folder, self.database, self.manifest, self._is_deleted))

    def _all_deleted(self) -> Mask:
        new = np.zeros(self.rows - len(self._is_deleted), np.bool_)
        return np.concatenate([self._is_deleted, new])
