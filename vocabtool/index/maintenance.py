"""Compact, copy or verify an index in a folder."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from vocabtool.encoders.encoder import Encoder
from vocabtool.errors import FolderNotEmpty, InvalidFile, VocabtoolError, reading
from vocabtool.index.database import JOURNALS, NAME, Database, column
from vocabtool.index.folder import (
    KEYWORDS,
    VECTORS,
    make_current,
    new_generation,
    read_commit,
    read_manifest,
    recover,
    refuse_others,
)
from vocabtool.index.generation import (
    FolderWriter,
    Progress,
    Snapshot,
    cutter_of,
    open_snapshot,
    raw_vectors,
)
from vocabtool.index.model import Agreement, compare_canaries
from vocabtool.index.raw_vectors import measure_recall
from vocabtool.index.writer import after_other_change
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.tantivy_index import LOCKS, MANAGED, META
from vocabtool.system.own_files import (
    LOCK,
    SERVER_LOCK,
    compare,
    lock_folder,
    sync_folder,
    telling_full_disk,
)

COPIED_BYTES: Final = 4 << 20
SHARES: Final = {"vectors": 0.0, "documents": 0.3, "keywords": 0.5, "recall": 0.8, "model": 0.95}


def compact(path: Path, progress: Progress | None = None) -> int:
    """Copy the documents of the last commit to a new generation, which replaces the old one.

    Returns the number of deleted rows that were removed. Raises :class:`FolderInUse` and
    :class:`InvalidFile`.
    """
    read_manifest(path)  # raises before a lock file is created in a folder without an index
    with telling_full_disk(path), lock_folder(path):
        before = read_commit(path)
        held, live = before.manifest, ~before.is_deleted
        cutter = cutter_of(str(path), before.manifest.configuration)
        recover(path, before)
        compare(before.folder / VECTORS, held.vectors.crc32c, held.vectors.size)
        vectors = raw_vectors(before.folder, held)
        columns = [f"field_{at}" for at in range(len(held.fields))]
        part, final = new_generation(path)
        files = FolderWriter.create(part, held, cutter)
        try:
            for rows in before.database.checked_rows(held.rows):
                first, end = rows[0][0], rows[-1][0] + 1
                left = [row for row in rows if live[row[0]]]
                if left:
                    ids, texts = ([row[at] for row in left] for at in (1, 2))
                    facts = [
                        [
                            each.encode("utf-8", "surrogateescape") if type(each) is str else each
                            for each in row[3:]
                        ]
                        for row in left
                    ]
                    _, block = next(vectors.blocks(first, end, end - first))
                    files.append_values(ids, texts, facts, columns, block[live[first:end]])
                if progress is not None:
                    progress("documents copied", end / held.rows)
            for name, kind in held.fields.items():
                if kind != "null":
                    files.database.set_kind(column(held.fields, name), "string", files.rows)
            done = replace(
                files.manifest, commit=held.commit + 1, load=after_other_change(held.load)
            )
            files.commit_changes(done, progress=progress)
            files.close()
        except BaseException:
            with suppress(VocabtoolError, OSError):
                files.close()
            shutil.rmtree(part, ignore_errors=True)
            raise
        before.database.close()
        make_current(part, final)
        recover(path, read_commit(path))
        return held.deleted


def copy(path: Path, new: Path, progress: Progress | None = None) -> None:
    """Copy the last commit to a new folder: see :meth:`Index.copy`."""
    new = Path(os.path.abspath(new))  # noqa: PTH100 - links stay
    read_manifest(path)  # raises if there is no index, before a folder is made
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise FolderNotEmpty(f"{new}: already exists and is not an empty folder; name a new folder")
    part = new.with_name(f".{new.name}.part")
    if new.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{new}: is inside the index; name a folder outside")
    with telling_full_disk(new), reading(str(part)):
        part.mkdir(exist_ok=True)
    with telling_full_disk(new), lock_folder(path, to_read=True), lock_folder(part):
        refuse_others(part, allow_index=True)
        for each in part.iterdir():  # what an interrupted copy left
            if each.is_dir():
                shutil.rmtree(each)
            elif each.name != LOCK:
                each.unlink()
        try:
            _copy_files(path, part, progress)
            open_snapshot(part).commit.database.close()  # compares what opening an index compares
            with reading(str(new)):
                part.rename(new)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(new.parent)


def _copy_files(path: Path, part: Path, progress: Progress | None) -> None:
    commit = read_commit(path)
    manifest, folder = commit.manifest, part / commit.folder.name
    (folder / KEYWORDS).mkdir(parents=True)
    with (
        commit.database.statements() as connection,
        closing(sqlite3.connect(folder / NAME)) as copied,
    ):
        connection.backup(copied)  # a reader may move its journal meanwhile
    commit.database.close()
    keywords = (each for each in (commit.folder / KEYWORDS).iterdir() if each.name not in LOCKS)
    in_generation = (commit.folder / name for name in (VECTORS, *manifest.code_files))
    files = [*in_generation, *(path / name for name in manifest.model_files), *keywords]
    for done, file in enumerate(files, 1):
        with (
            reading(str(file)),
            file.open("rb") as opened,
            (part / file.relative_to(path)).open("xb") as out,
        ):
            shutil.copyfileobj(opened, out, COPIED_BYTES)
            out.flush()
            os.fsync(out.fileno())
        if progress is not None:
            progress("files copied", done / len(files))
    compare(commit.folder / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    for each in (folder / KEYWORDS, folder, part):
        sync_folder(each)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What :meth:`Index.verify` reports on an undamaged index.

    - ``recall``: recall@10 as measured now; 1 for exact search.
    - ``loading``: whether a load is unfinished.
    - ``others``: files in the folder that do not belong to the commit.
    - ``encoded``: the comparison of new vectors with stored ones; ``None`` if nothing was encoded.
    """

    documents: int
    deleted: int
    commit: int
    recall: float
    approximate: bool
    loading: bool
    others: tuple[str, ...]
    encoded: Agreement | None = None


def verify(
    path: Path,
    snapshot: Snapshot,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> VerifyReport:
    """Check all files of an index, and that keywords and database contain the same documents.

    ``encoder``: encodes some documents again, to compare the vectors; ``None`` to omit this check.
    Raises :class:`InvalidFile`, :class:`NotFound` and :class:`OtherModel`.
    """
    manifest, folder = snapshot.manifest, snapshot.commit.folder
    report = progress or (lambda what, share: None)
    report("vectors", SHARES["vectors"])
    compare(folder / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    codes = {folder / name: written.crc32c for name, written in manifest.code_files.items()}
    model = {path / name: crc32c for name, crc32c in manifest.model_files.items()}
    for file, crc32c in {**codes, **model}.items():
        compare(file, crc32c)
    snapshot.model.verify()
    report("documents", SHARES["documents"])
    database = Database(folder)  # its own connection: other threads may search meanwhile
    try:
        ids = [id_ for part in database.checked_rows(manifest.rows) for _, id_, *_ in part]
    finally:
        database.close()
    report("keywords", SHARES["keywords"])
    keywords = folder / KEYWORDS
    tantivy_index.check_files(keywords, manifest.keywords)
    _compare_legs(keywords, snapshot, ids)
    in_keywords = {META, MANAGED, *tantivy_index.file_names(keywords)}
    wanted = {folder / NAME, folder / VECTORS, *codes, *model}
    wanted |= {keywords / name for name in in_keywords}
    found = {each for each in path.rglob("*") if not each.is_dir()}
    if missing := sorted(wanted - found):
        raise InvalidFile("missing", file=str(missing[0]))
    passing = (LOCK, SERVER_LOCK, *LOCKS, *JOURNALS)
    others = sorted(each for each in found - wanted if each.name not in passing)
    report("recall", SHARES["recall"])
    recall = 1.0
    if manifest.codes is not None:
        leg, metric = snapshot.vectors, manifest.configuration.metric
        recall = measure_recall(leg.raw, lambda vector, k: leg.search(vector, k).rows, metric)
    encoded = None
    if encoder is not None:
        report("model", SHARES["model"])
        encoded = compare_canaries(
            str(path), snapshot.canaries(), encoder, manifest.configuration.metric
        )
    return VerifyReport(
        documents=manifest.live,
        deleted=manifest.deleted,
        commit=manifest.commit,
        recall=recall,
        approximate=manifest.codes is not None,
        loading=manifest.load is not None and not manifest.load.finished,
        others=tuple(str(each.relative_to(path)) for each in others),
        encoded=encoded,
    )


def _compare_legs(keywords: Path, snapshot: Snapshot, ids: list[str]) -> None:
    met = np.zeros(len(ids), np.bool_)
    for row, id_ in snapshot.keywords.rows_and_ids(len(ids)):
        if met[row]:
            raise InvalidFile(f"contains row {row:,} twice", file=str(keywords))
        met[row] = True
        if ids[row] != id_:
            raise InvalidFile(
                f"row {row:,} is document {id_!r} here, but {ids[row]!r} in the database",
                file=str(keywords),
            )
    if not met.all():
        raise InvalidFile(f"row {int(np.argmin(met)):,} is missing", file=str(keywords))
