"""Compact, copy or verify an index in a folder."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import google_crc32c
import numpy as np

from vocabtool.encoders.encoder import Encoder
from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, reading
from vocabtool.index.database import JOURNALS, NAME, Database, column
from vocabtool.index.folder import (
    KEYWORDS,
    VECTORS,
    VERIFIED,
    Commit,
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
    read_again,
)
from vocabtool.index.model import Agreement, compare_canaries
from vocabtool.index.raw_vectors import measure_recall
from vocabtool.index.writer import after_other_change
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.tantivy_index import LOCKS, MANAGED, META
from vocabtool.system.own_files import (
    LOCK,
    compare,
    decode_record,
    encode_record,
    lock_folder,
    sync_folder,
    whole_file,
)

VERIFY: Final = "verify"
VERIFY_FORMAT: Final = 1
COPIED_BYTES: Final = 4 << 20
SHARES: Final = {"vectors": 0.0, "documents": 0.3, "keywords": 0.5, "recall": 0.8, "model": 0.95}


def compact(path: Path, progress: Progress | None = None) -> int:
    """Copy the documents of the last commit to a new generation, which replaces the old one.

    Returns the number of deleted rows that were removed. Raises :class:`FolderInUse` and
    :class:`InvalidFile`.
    """
    read_manifest(path)  # raises before a lock file is created in a folder without an index
    with lock_folder(path):
        before = read_commit(path)
        held, live = before.manifest, ~before.is_deleted
        cutter = cutter_of(path, before)
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
        finally:
            files.close()
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
    with reading(str(part)):
        part.mkdir(exist_ok=True)
    with lock_folder(part):
        refuse_others(part, allow_index=True)
        for each in part.iterdir():  # what an interrupted copy left
            if each.is_dir():
                shutil.rmtree(each)
            elif each.name != LOCK:
                each.unlink()
        try:
            with ExitStack() as opened:
                commit, files = read_again(path, partial(_open_files, path, opened))
                _copy_files(path, part, commit, files, progress)
            open_snapshot(part).commit.database.close()  # compares what opening an index compares
            with reading(str(new)):
                part.rename(new)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_folder(new.parent)


# An open file with the number of its committed bytes (``None``: all) and its checksum, if known.
OpenedFile = tuple[BinaryIO, int | None, int | None]


def _open_files(
    path: Path, opened: ExitStack, first: Commit
) -> tuple[Commit, dict[Path, OpenedFile]]:
    """Open all files of a commit, and register them with ``opened``.

    Raises :class:`NotFound` if a writer removes a file meanwhile. The connection stays in a
    transaction, which never sees a later commit.
    """
    with ExitStack() as tried:
        tried.callback(first.database.close)
        first.database.fetch("BEGIN")
        commit = read_commit(path, first)
        if commit.database is not first.database:
            commit.database.close()
            raise NotFound(f"{first.folder}: was replaced by {commit.folder.name}")
        manifest, keywords = commit.manifest, commit.folder / KEYWORDS
        meta = tried.enter_context((keywords / META).open("rb"))
        facts: dict[Path, tuple[int | None, int | None]] = {
            commit.folder / name: (written.size, written.crc32c)
            for name, written in {VECTORS: manifest.vectors, **manifest.code_files}.items()
        }
        facts |= {path / name: (None, crc) for name, crc in manifest.model_files.items()}
        for name in tantivy_index.file_names(keywords):
            facts[keywords / name] = (None, manifest.keywords.get(name))
        files = {
            file: (tried.enter_context(file.open("rb")), *fact) for file, fact in facts.items()
        }
        # tantivy replaces its list of segments. If it is the same, all of them are open.
        if os.fstat(meta.fileno()).st_ino != (keywords / META).stat().st_ino:
            raise NotFound(f"{keywords / META}: was replaced")
        opened.enter_context(tried.pop_all())
        return commit, {**files, keywords / META: (meta, None, None)}


def _copy_files(
    path: Path,
    part: Path,
    commit: Commit,
    files: Mapping[Path, OpenedFile],
    progress: Progress | None,
) -> None:
    folder = part / commit.folder.name
    (folder / KEYWORDS).mkdir(parents=True)
    with (
        commit.database.statements() as connection,
        closing(sqlite3.connect(folder / NAME)) as copied,
    ):
        connection.backup(copied)
    commit.database.fetch("ROLLBACK")  # writers can empty their journal again
    for done, (file, (opened, size, crc32c)) in enumerate(files.items(), 1):
        found, left = 0, size
        with (part / file.relative_to(path)).open("xb") as out:
            while block := opened.read(COPIED_BYTES if left is None else min(COPIED_BYTES, left)):
                out.write(block)
                found = google_crc32c.extend(found, block)
                left = None if left is None else left - len(block)
            out.flush()
            os.fsync(out.fileno())
        if left:
            raise InvalidFile(f"truncated: {left:,} bytes are missing", file=str(file))
        if crc32c not in (None, found):
            what = f"damaged: CRC-32C {found:08x}, expected {crc32c:08x}"
            raise InvalidFile(what, file=str(file))
        if progress is not None:
            progress("files copied", done / len(files))
    names = sorted(file.name for file in files if file.parent.name == KEYWORDS)
    with whole_file(folder / KEYWORDS / MANAGED) as out:  # as tantivy writes it
        out.write(json.dumps(names, separators=(",", ":")).encode() + b"\n")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of the last verification of an index, as stored in the file ``verified.json``.

    - ``index``: the id of the index. ``index --force`` gives the index a new id.
    - ``time``: when the verification ended, in UTC (ISO 8601).
    - ``recall``: as in :class:`VerifyReport`; ``None`` if there is a ``problem``.
    - ``problem``: the message of the error; ``None`` if there was no error.
    """

    index: str
    time: str
    commit: int
    generation: int
    documents: int
    recall: float | None = None
    problem: str | None = None


def keep_verification(
    path: Path, snapshot: Snapshot, *, recall: float | None = None, problem: str | None = None
) -> None:
    """Write the result of a verification to the file ``verified.json`` in ``path``."""
    manifest = snapshot.manifest
    kept = Verification(
        index=manifest.index,
        time=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        commit=manifest.commit,
        generation=snapshot.number,
        documents=manifest.live,
        recall=recall,
        problem=problem,
    )
    # An index on a disk that cannot be written is verified all the same.
    with suppress(OSError, NotFound), whole_file(path / VERIFIED) as file:
        file.write(encode_record(kept, kind=VERIFY, version=VERIFY_FORMAT))


def read_verification(path: Path, index: str) -> Verification | None:
    """Return the last verification of the index with this id; ``None`` if none is stored."""
    with suppress(OSError, InvalidFile):
        data = (path / VERIFIED).read_bytes()
        kept = decode_record(data, Verification, kind=VERIFY, version=VERIFY_FORMAT)
        return kept if kept.index == index else None
    return None


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
    passing = (LOCK, VERIFIED, *LOCKS, *JOURNALS)
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
