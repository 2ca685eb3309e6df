"""An index written anew without its deleted documents, and a whole look at one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.index import folder
from vocabtool.index.database import JOURNALS, Database
from vocabtool.index.folder import KEYWORDS, VECTORS, Commit
from vocabtool.index.generation import GenerationWriter, Progress, check_codes, raw_vectors
from vocabtool.index.snapshot import Snapshot, check_rule
from vocabtool.index.writer import after_other_change
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import LOCKS, MANAGED, META
from vocabtool.system.own_files import LOCK, compare, lock_folder

SHARES: Final = {"vectors": 0.0, "documents": 0.3, "keywords": 0.5, "recall": 0.8}


class CompactReport(NamedTuple):
    """``removed``: deleted rows that are gone; ``left``: documents."""

    removed: int
    left: int


def compact(path: Path, progress: Progress | None = None) -> CompactReport:
    """Write the documents of the last commit into a new generation, and make it the index.

    Answers are the same as before, but for frequencies of words, which deleted documents no longer
    count in. Rows keep their order. Neither codes nor keywords are read: they are made anew.
    Raises :class:`FolderInUse` where another process writes, :class:`InvalidFile` where documents
    or vectors are damaged, which are not there twice.
    """
    folder.read_manifest(path)  # else a lock would be made where there is no index
    with lock_folder(path):
        before = folder.read_commit(path)
        held = before.manifest
        cutter = Cutter(held.configuration.language)
        check_rule(path, before, cutter)
        folder.recover(path, before)
        compare(before.folder / VECTORS, held.vectors.crc32c, held.vectors.size)
        part, final = folder.new_generation(path)
        files = GenerationWriter.create(part, held, cutter)
        try:
            _copy(before, files, progress)
            done = replace(
                files.manifest, commit=held.commit + 1, load=after_other_change(held.load)
            )
            files.commit(done, np.zeros(files.rows, np.bool_), progress=progress)
        finally:
            files.close()
        before.database.close()
        folder.make_current(part, final)
        folder.recover(path, folder.read_commit(path))
        return CompactReport(held.deleted, held.live)


def _copy(before: Commit, files: GenerationWriter, progress: Progress | None) -> None:
    """Copy the rows that are left, every byte of them compared with its other copy or its hash."""
    held, live = before.manifest, ~before.is_deleted
    columns = [f"field_{at}" for at in range(len(held.fields))]
    vectors = raw_vectors(before.folder, held)
    for part in before.database.checked_rows(held.rows):
        first, end = part[0][0], part[-1][0] + 1
        left = [row for row in part if live[row[0]]]
        if left:
            ids, texts = ([row[at] for row in left] for at in (1, 2))
            facts = [[*map(_to_bytes, row[3:])] for row in left]
            found = next(block for _, block in vectors.blocks(first, end, end - first))
            files.append_values(ids, texts, facts, columns, found[live[first:end]])
        if progress is not None:
            progress("documents copied", end / held.rows)
    files.index_fields()


def _to_bytes(value: object) -> object:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class VerifyReport:
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


def verify(path: Path, snapshot: Snapshot, progress: Progress | None = None) -> VerifyReport:
    """Read every byte: each is what was written, and both legs hold the same documents.

    Opening an index reads its keywords, its codes and the model's files so, of vectors and
    documents only the sizes. Raises :class:`InvalidFile` or :class:`NotFound` with the file that is
    not as written.
    """
    manifest, files = snapshot.manifest, snapshot.commit.folder
    tell = progress or (lambda what, share: None)
    tell("vectors", SHARES["vectors"])
    compare(files / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    check_codes(files, manifest)
    for name, crc32c in manifest.model_files.items():
        compare(path / name, crc32c)
    tell("documents", SHARES["documents"])
    ids = _documents(snapshot)
    tell("keywords", SHARES["keywords"])
    keywords = files / KEYWORDS
    tantivy_index.check_files(keywords, manifest.keywords)
    _compare_legs(keywords, snapshot, ids)
    in_keywords = {META, MANAGED, *tantivy_index.file_names(keywords)}
    wanted = {*folder.files(path, snapshot.commit), *(keywords / name for name in in_keywords)}
    found = {each for each in path.rglob("*") if not each.is_dir()}
    if missing := sorted(wanted - found):
        raise InvalidFile("missing", file=str(missing[0]))
    passing = (LOCK, *LOCKS, *JOURNALS)
    others = sorted(each for each in found - wanted if each.name not in passing)
    tell("recall", SHARES["recall"])
    return VerifyReport(
        documents=manifest.live,
        deleted=manifest.deleted,
        commit=manifest.commit,
        recall=1.0 if manifest.codes is None else snapshot.measured_recall(),
        approximate=manifest.codes is not None,
        loading=manifest.load is not None and not manifest.load.finished,
        others=tuple(str(each.relative_to(path)) for each in others),
    )


def _documents(snapshot: Snapshot) -> list[str]:
    """The id of each row of a database that is whole."""
    database = Database(snapshot.commit.folder)  # others may search meanwhile
    try:
        parts = database.checked_rows(snapshot.manifest.rows)
        return [id_ for part in parts for _, id_, *_ in part]
    finally:
        database.close()


def _compare_legs(keywords: Path, snapshot: Snapshot, ids: list[str]) -> None:
    """Each row has the same id in both legs, and is there once."""
    met = np.zeros(len(ids), np.bool_)
    for row, id_ in snapshot.keywords.rows_and_ids():
        if row >= len(ids):
            continue  # of no commit: a writer was killed, or is at work
        if met[row]:
            raise InvalidFile(f"holds row {row:,} twice", file=str(keywords))
        met[row] = True
        if ids[row] != id_:
            raise InvalidFile(
                f"row {row:,} is document {id_!r}, and {ids[row]!r} elsewhere", file=str(keywords)
            )
    if not met.all():
        raise InvalidFile(f"row {int(np.argmin(met)):,} is missing", file=str(keywords))
