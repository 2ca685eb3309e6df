"""An index in a folder: ``FolderStore`` creates, opens, changes and verifies it.

``folder.py`` describes the files.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from vocabtool.choices import EXACT_BELOW
from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import FolderNotEmpty, InvalidFile, VocabtoolError, reading
from vocabtool.index import folder
from vocabtool.index.database import JOURNALS, NAME, Database, column
from vocabtool.index.folder import (
    CODE_FILE,
    KEYWORDS,
    MODEL_FILE,
    VECTORS,
    Commit,
    Configuration,
    Load,
    Manifest,
    make_current,
    new_generation,
    raw_vectors,
    read_again,
    read_commit,
    read_manifest,
    recover,
    refuse_others,
)
from vocabtool.index.generation import FolderSnapshot, FolderTransaction, cutter_of, open_snapshot
from vocabtool.index.measures import measure_recall
from vocabtool.index.model import OpenedModel, VectorCopy
from vocabtool.index.snapshot import VerifyReport
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.tantivy_index import LOCKS, MANAGED, META
from vocabtool.system.messages import Progress
from vocabtool.system.own_files import (
    LOCK,
    SERVER_LOCK,
    compare,
    lock_folder,
    sync_folder,
    telling_full_disk,
)
from vocabtool.vocabulary import encode

AS_COMMITTED: Final = "nothing was changed since the last commit"
OF_FILES: Final = {VECTORS: "vectors", **dict.fromkeys((NAME, *JOURNALS), "documents")}
COPIED_BYTES: Final = 4 << 20
SHARES: Final = {"vectors": 0.0, "documents": 0.3, "keywords": 0.5, "recall": 0.8}


class FolderStore:
    """The store of an index in a folder; ``PostgresStore`` has the same methods.

    - ``name``: the name of the index in messages. ``notes``: messages to show at each opening.
    - ``snapshot``: the last commit when it was opened or refreshed.
    - ``is_build``: whether :meth:`put_in_place` will replace another index by this one.

    Methods raise :class:`VocabtoolError` if the index was replaced by another one.
    """

    exact_below = EXACT_BELOW
    notes: tuple[str, ...] = ()

    def __init__(
        self, path: Path, model: Model | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Open the last commit. Raises :class:`NotFound` and :class:`InvalidFile`."""
        self.path, self.name = path, str(path)
        self.is_build = folder.home(path) != path
        self.snapshot = open_snapshot(path, None, model, options)

    @classmethod
    def open(
        cls, address: str | Path, model: Model | None, options: Mapping[str, Any]
    ) -> FolderStore:
        return cls(Path(address), model, options)

    @classmethod
    def create(
        cls,
        address: str | Path,
        configuration: Configuration,
        opened: OpenedModel,
        *,
        replaces: bool,
        build: str | None,
    ) -> FolderStore:
        """Create an empty index. Raises the errors of :meth:`Index.create`.

        ``replaces``: whether :meth:`put_in_place` will replace an index that is already there.
        ``build``: the name by which :meth:`open_build` will find it until then.
        """
        path = Path(address)
        if replaces and (folder.is_index(path) or build is not None):
            refuse_others(path, allow_index=True)
            with reading(str(path)):
                path.mkdir(parents=True, exist_ok=True)
            path = folder.build_folder(path, build or uuid.uuid4().hex)
        refuse_others(path)
        is_new = not path.exists()
        with telling_full_disk(path):
            with reading(str(path)):
                path.mkdir(parents=True, exist_ok=True)
            try:
                with lock_folder(path):
                    refuse_others(path)
                    folder.remove_builds(path)
                    manifest = Manifest(
                        index=uuid.uuid4().hex,
                        configuration=configuration,
                        model_files=opened.save(path),
                    )
                    unfinished, final = new_generation(path)
                    cutter = cutter_of(str(path), configuration)
                    transaction = FolderTransaction.create(unfinished, manifest, cutter)
                    with closing(transaction):
                        transaction.commit(manifest)
                    make_current(unfinished, final)
            except BaseException:
                if is_new:
                    _remove_folder(path)
                raise
        # So that neither the model nor the vocabulary is opened twice.
        return cls(path, opened.encoder, {"vocabulary": opened.vocabulary})

    def refresh(self) -> None:
        """Open the last commit, if it is newer than the snapshot."""
        self.snapshot = open_snapshot(self.path, self.snapshot)

    @contextmanager
    def begin(self) -> Iterator[FolderTransaction]:
        """Open a transaction; the end of the block rolls back what was not committed."""
        with telling_full_disk(self.path, AS_COMMITTED), lock_folder(self.path):
            commit = read_commit(self.path, self.snapshot.commit)
            folder.refuse_another(commit, self.snapshot.commit)
            recover(self.path, commit)
            cutter = self.snapshot.cutter
            transaction = FolderTransaction(
                commit.folder, commit.manifest, commit.is_deleted, cutter
            )
            with closing(transaction):
                yield transaction

    def compact(self, progress: Progress | None = None) -> int:
        self.refresh()
        return compact(self.path, progress)

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        def check(_: Commit) -> VerifyReport:
            self.refresh()
            return verify(self.path, self.snapshot, progress)

        return read_again(self.path, check, self.snapshot.commit)

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk by purpose, such as ``vectors``."""
        generation = self.snapshot.commit.folder
        sizes: Counter[str] = Counter(dict.fromkeys(("documents", "vectors", "keywords"), 0))
        for file in self.path.rglob("*"):
            purpose = "other"
            if file.parent == generation / KEYWORDS:
                purpose = "keywords"
            elif file.parent == self.path and MODEL_FILE.fullmatch(file.name):
                purpose = "model"
            elif file.parent == generation and CODE_FILE.fullmatch(file.name):
                purpose = "codes"
            elif file.parent == generation:
                purpose = OF_FILES.get(file.name, "other")
            with suppress(OSError):
                if not file.is_dir() and file.name != JOURNALS[1]:
                    sizes[purpose] += file.stat().st_size
        return {purpose: size for purpose, size in sizes.items() if size or purpose != "other"}

    @classmethod
    def open_build(
        cls, address: str | Path, build: str, model: Model | None, options: Mapping[str, Any]
    ) -> FolderStore | None:
        """Open an unfinished index with this name of a build; remove all other builds.

        ``None`` if there is none, or if it is damaged or made with other options.
        """
        path = Path(address)
        if not path.is_dir():
            return None
        refuse_others(path, allow_index=True)
        unfinished = folder.build_folder(path, build)
        with suppress(VocabtoolError):
            store = cls(unfinished, model, options)
            store.snapshot.model.check()
            return store
        folder.remove_builds(path)
        return None

    def replacement(self) -> Load | None:
        """Return the last load of an unfinished index that will replace this one."""
        for build in self.path.iterdir():
            if folder.BUILD.fullmatch(build.name):
                with suppress(VocabtoolError, OSError):  # perhaps it is being removed
                    return read_manifest(build).load
        return None

    def put_in_place(self) -> FolderStore:
        """Replace the index that this one was built for; return the store of the new index."""
        model = self.snapshot.model
        encoder = model.encoder
        if isinstance(getattr(encoder, "vectors", None), VectorCopy):
            encoder = None  # it would name files of the build
        self.close()
        path = folder.put_in_place(self.path)
        return FolderStore(path, encoder, {"vocabulary": model.vocabulary})

    def remove(self, *, if_empty: bool = False) -> None:
        """Remove the index. ``if_empty``: only if nobody has added documents."""
        with lock_folder(self.path):
            self.refresh()
            if not (if_empty and self.snapshot.rows):
                self.close()
                _remove_folder(self.path)

    def close(self) -> None:
        self.snapshot.commit.database.close()


def _remove_folder(path: Path) -> None:
    """Remove an index, and the folder that it was built in if nothing else is there."""
    shutil.rmtree(path, ignore_errors=True)
    if folder.home(path) != path:
        with suppress(OSError):
            path.parent.rmdir()


def compact(path: Path, progress: Progress | None = None) -> int:
    """Copy the documents of the last commit to a new generation, which replaces the old one.

    Returns how many rows were removed. Raises :class:`FolderInUse` and :class:`InvalidFile`.
    """
    read_manifest(path)  # raises before a lock file is created in a folder without an index
    with telling_full_disk(path), lock_folder(path):
        before = read_commit(path)
        manifest, live = before.manifest, ~before.is_deleted
        cutter = cutter_of(str(path), before.manifest.configuration)
        recover(path, before)
        compare(before.folder / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
        vectors = raw_vectors(before.folder, manifest)
        columns = [f"field_{at}" for at in range(len(manifest.fields))]
        build, final = new_generation(path)
        files = FolderTransaction.create(build, manifest, cutter)
        try:
            for rows in before.database.checked_rows(manifest.rows):
                first, end = rows[0][0], rows[-1][0] + 1
                ids, texts, facts = [], [], []
                for row, id_, text, *values in rows:
                    if live[row]:
                        ids.append(id_)
                        texts.append(text)
                        # Strings become bytes again, as they were before they were stored.
                        facts.append([encode(v) if isinstance(v, str) else v for v in values])
                if ids:
                    _, block = next(vectors.blocks(first, end, end - first))
                    files.append_values(ids, texts, facts, columns, block[live[first:end]])
                if progress is not None:
                    progress("documents copied", end / manifest.rows)
            for name, kind in manifest.fields.items():
                if kind != "null":
                    files.database.set_kind(column(manifest.fields, name), "string", files.rows)
            load = None if manifest.load is None else manifest.load.after_other_change()
            done = replace(files.manifest, commit=manifest.commit + 1, load=load)
            files.commit(done, progress=progress)
            files.close()
        except BaseException:
            with suppress(VocabtoolError, OSError):
                files.close()
            shutil.rmtree(build, ignore_errors=True)
            raise
        before.database.close()
        make_current(build, final)
        recover(path, read_commit(path))
        return manifest.deleted


def copy(path: Path, new: Path, progress: Progress | None = None) -> None:
    """Copy the last commit to a new folder: see :meth:`Index.copy`."""
    new = Path(os.path.abspath(new))  # noqa: PTH100 - links stay
    read_manifest(path)  # raises if there is no index, before a folder is made
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise FolderNotEmpty(f"{new}: already exists and is not an empty folder; name a new folder")
    unfinished = new.with_name(f".{new.name}.part")
    if new.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{new}: is inside the index; name a folder outside")
    with telling_full_disk(new), reading(str(unfinished)):
        unfinished.mkdir(exist_ok=True)
    with telling_full_disk(new), lock_folder(path, to_read=True), lock_folder(unfinished):
        refuse_others(unfinished, allow_index=True)
        for file in unfinished.iterdir():  # what an interrupted copy left
            if file.is_dir():
                shutil.rmtree(file)
            elif file.name != LOCK:
                file.unlink()
        try:
            _copy_files(path, unfinished, progress)
            open_snapshot(unfinished).commit.database.close()  # checks the copy
            with reading(str(new)):
                unfinished.rename(new)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        sync_folder(new.parent)


def _copy_files(path: Path, new: Path, progress: Progress | None) -> None:
    """Copy the files of the last commit to an empty folder, and compare their checksums."""
    commit = read_commit(path)
    manifest, folder = commit.manifest, new / commit.folder.name
    (folder / KEYWORDS).mkdir(parents=True)
    with (
        commit.database.statements() as connection,
        closing(sqlite3.connect(folder / NAME)) as copy,
    ):
        connection.backup(copy)  # not as a file: a reader may move its journal meanwhile
    commit.database.close()
    keywords = (file for file in (commit.folder / KEYWORDS).iterdir() if file.name not in LOCKS)
    in_generation = (commit.folder / name for name in (VECTORS, *manifest.code_files))
    files = [*in_generation, *(path / name for name in manifest.model_files), *keywords]
    for done, file in enumerate(files, 1):
        with (
            reading(str(file)),
            file.open("rb") as opened,
            (new / file.relative_to(path)).open("xb") as out,
        ):
            shutil.copyfileobj(opened, out, COPIED_BYTES)
            out.flush()
            os.fsync(out.fileno())
        if progress is not None:
            progress("files copied", done / len(files))
    compare(commit.folder / VECTORS, manifest.vectors.crc32c, manifest.vectors.size)
    for written in (folder / KEYWORDS, folder, new):
        sync_folder(written)


def verify(
    path: Path,
    snapshot: FolderSnapshot,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check all files of an index, and that keywords and database contain the same documents.

    Raises :class:`InvalidFile` and :class:`NotFound`.
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
        ids = [id_ for batch in database.checked_rows(manifest.rows) for _, id_, *_ in batch]
    finally:
        database.close()
    report("keywords", SHARES["keywords"])
    keywords = folder / KEYWORDS
    tantivy_index.check_files(keywords, manifest.keywords)
    _compare_legs(keywords, snapshot, ids)
    in_keywords = {META, MANAGED, *tantivy_index.file_names(keywords)}
    wanted = {folder / NAME, folder / VECTORS, *codes, *model}
    wanted |= {keywords / name for name in in_keywords}
    present = {file for file in path.rglob("*") if not file.is_dir()}
    if missing := sorted(wanted - present):
        raise InvalidFile("missing", file=str(missing[0]))
    passing = (LOCK, SERVER_LOCK, *LOCKS, *JOURNALS)
    others = sorted(file for file in present - wanted if file.name not in passing)
    report("recall", SHARES["recall"])
    recall = 1.0
    if manifest.codes is not None:
        leg, metric = snapshot.vectors, manifest.configuration.metric
        recall = measure_recall(leg.raw, lambda vector, k: leg.search(vector, k).rows, metric)
    names = tuple(str(file.relative_to(path)) for file in others)
    return VerifyReport.of(manifest, recall, names)


def _compare_legs(keywords: Path, snapshot: FolderSnapshot, ids: list[str]) -> None:
    """Check that the keywords contain each row of the database once, with the same id."""
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
