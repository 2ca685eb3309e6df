"""An index in an engine, such as PostgreSQL, with the methods of an index in a folder."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar, cast
from weakref import ref

import google_crc32c

from vocabtool.choices import COMMIT_ROWS
from vocabtool.documents.batch import Document
from vocabtool.documents.reading import Sources
from vocabtool.encoders.encoder import Vectors
from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import InvalidFile, OtherModel, VocabtoolError
from vocabtool.index import contents
from vocabtool.index.commit_store import CommitStore, DocumentsChanged
from vocabtool.index.engines import Engine, TableEngine, UserTable, engine_class, table_engine
from vocabtool.index.folder import MODEL_FILE, Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.index import Index
from vocabtool.index.load import LoadReport
from vocabtool.index.maintenance import VerifyReport, keep_verification
from vocabtool.index.model import Canaries, IndexModel, OpenedModel, compare_canaries
from vocabtool.index.writer import Writer
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.hits import Hits
from vocabtool.search.settings import Calibration
from vocabtool.system.own_files import whole_file

MAX_TRIES: Final = 5  # to read documents that others delete meanwhile
CACHE: Final = "VOCABTOOL_CACHE"  # environment variable: the folder of copies

Result = TypeVar("Result")


class StoreIndex(Index):
    """An index in an engine; made by :meth:`Index.create` and :meth:`Index.open`.

    The index may have several writers, on several machines. ``path``: a folder in the user's cache,
    with copies of the model's files and the result of the last verification.
    """

    def __init__(
        self, engine: Engine, model: Model | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._engine, self.name, self.notes = engine, engine.name, engine.notes
        self._refreshing = Lock()
        manifest = engine.manifest()
        self.path = _copy_model_files(engine, manifest)
        cutter = Cutter(manifest.configuration.language)

        def canaries() -> Canaries:  # a strong reference would keep all until a collection
            return engine.snapshot(cast(IndexModel, of_model()), cutter).canaries()

        held = IndexModel(self.path, manifest, canaries, model, options, self.name)
        of_model = ref(held)
        self._snapshot = engine.snapshot(held, cutter)
        self._model = held

    @classmethod
    def create_in(
        cls,
        address: str,
        manifest: Manifest,
        opened: OpenedModel,
        *,
        replaces: bool,
        table: UserTable | None = None,
    ) -> StoreIndex:
        """Create an empty index. Raises the errors of :meth:`Index.create`."""
        with tempfile.TemporaryDirectory() as folder:
            crcs = opened.save(Path(folder))
            files = {name: (Path(folder) / name).read_bytes() for name in crcs}
        manifest = replace(manifest, model_files=crcs)
        engine: Engine
        if table is None:
            engine = engine_class(address).create(address, manifest, files, replaces=replaces)
        else:
            engine = table_engine(address).create_for_table(
                address, manifest, files, table, opened.encoder, replaces=replaces
            )
        try:
            return cls(engine, opened.encoder, {"vocabulary": None})
        except BaseException:
            engine.remove(if_empty=True)
            raise

    @classmethod
    def open_at(
        cls, address: str, model: Model | None, options: Mapping[str, Any] | None
    ) -> StoreIndex:
        """Open an index. Raises the errors of :meth:`Index.open`."""
        return cls(engine_class(address).open(address), model, options)

    @property
    def is_build(self) -> bool:
        return self._engine.is_build

    @property
    def is_loaded(self) -> bool:
        """Whether a load of files has finished, and no other one has begun."""
        load = self._engine.manifest().load
        return load is not None and load.finished

    def stats(
        self, *, unknown: bool = False, progress: Progress | None = None
    ) -> contents.IndexStats:
        sizes, load = self._engine.sizes(), self._engine.manifest().load
        with self._snapshot.at_one_commit() as held:
            found = contents.stats(self.path, held, sizes, unknown=unknown, progress=progress)
        found = replace(found, loading=load is not None and not load.finished)
        if self.table is None:
            return found
        waiting = cast(TableEngine, self._engine).count_waiting()
        return replace(found, table=self.table.name, waiting=waiting)

    @property
    def table(self) -> UserTable | None:
        """The table of the user whose rows are the documents of this index, or ``None``."""
        return getattr(self._engine, "table", None)

    def update(
        self,
        sources: Sources | None = None,
        *,
        commit_rows: int = COMMIT_ROWS,
        progress: Progress | None = None,
        **more: Any,
    ) -> LoadReport:
        """Do the same as :meth:`Index.update`, or apply the changes of a table of the user.

        For a table, only ``commit_rows`` (the number of changes in each transaction) and
        ``progress`` are allowed. After an interruption, the same call continues. But if
        :attr:`is_build` is true, an interruption removes the index. If the answer to a COMMIT is
        lost, the changes in this transaction are not counted. An error after the last commit
        becomes a note. Raises :class:`VocabtoolError`, and ``ValueError`` for a wrong
        ``commit_rows``.
        """
        if self.table is None:
            return super().update(sources, commit_rows=commit_rows, progress=progress, **more)
        if any(each is not None and each is not False for each in (sources, *more.values())):
            raise VocabtoolError(
                f"{self.name}: the documents of this index are the rows of {self.table.name}. Give "
                "no FILE, and no option except --commit-rows (commit_rows=)"
            )
        if commit_rows < 1:
            raise ValueError(f"commit_rows must be at least 1, got {commit_rows}")
        self._check_same()
        began, engine = time.monotonic(), cast(TableEngine, self._engine)
        try:
            counts = engine.update_table(self._snapshot.cutter, commit_rows, progress)
        except BaseException:
            if self.is_build:  # else its triggers would stay on the table
                with suppress(VocabtoolError):
                    self.remove()
            raise
        self.refresh()
        added, updated, removed, notes = counts
        return LoadReport(
            read=added + updated + removed,
            resumed=0,
            added=added,
            updated=updated,
            removed=removed,
            seconds=time.monotonic() - began,
            notes=notes,
        )

    def refresh(self) -> bool:
        with self._refreshing:
            newest, held = self._check_same(), self._snapshot.manifest
            if replace(newest, load=None) == replace(held, load=None):
                return False
            self._snapshot = self._newest()
            return newest.commit != held.commit

    @contextmanager
    def writer(
        self, progress: Progress | None = None, *, memory: int | None = None
    ) -> Iterator[Writer]:
        self._check_same()
        if self.table is not None:
            what = f"its documents are the rows of {self.table.name}: change them there by SQL"
            raise VocabtoolError(f"{self.name}: {what}, then run `vocabtool update`")
        files = self._engine.writer(self._snapshot.cutter, memory)
        writer = Writer(self.name, files, self._model, progress)
        try:
            yield writer
            writer.commit()
        finally:
            writer.close()
        self.refresh()

    def store_calibration(self, calibration: Calibration | None) -> None:
        files = self._engine.writer(self._snapshot.cutter, None)  # also of an index of a table
        with closing(Writer(self.name, files, self._model)) as writer:
            writer.store_calibration(calibration)
        self.refresh()

    def get(self, id_: str) -> Document | None:
        return _again(partial(super().get, id_))

    def get_many(self, ids: Iterable[str]) -> dict[str, Document]:
        return _again(partial(super().get_many, [*ids]))

    def vectors(self, ids: Iterable[str]) -> dict[str, Vectors]:
        return _again(partial(super().vectors, [*ids]))

    def _search(self, *asked: Any, **more: Any) -> list[Hits]:
        return _again(partial(super()._search, *asked, **more))

    def similar(self, id_: str, k: int = 10, **options: Any) -> Hits:
        return _again(partial(super().similar, id_, k, **options))

    def compact(self, progress: Progress | None = None) -> int:
        """Free the space of deleted documents; return the number of these documents."""
        self._check_same()
        removed = self._engine.compact(progress)
        self.refresh()
        return removed

    def verify(self, progress: Progress | None = None, *, model: bool = False) -> VerifyReport:
        encoder = self.encoder if model else None
        self.refresh()
        try:
            found = self._engine.verify(progress)
            if encoder is not None:
                metric = self.configuration.metric
                agreement = compare_canaries(self.name, self._snapshot.canaries(), encoder, metric)
                found = replace(found, encoded=agreement)
        except (InvalidFile, OtherModel) as error:
            keep_verification(self.path, self._snapshot, problem=str(error))
            raise
        keep_verification(self.path, self._snapshot, recall=found.recall)
        return found

    def put_in_place(self) -> StoreIndex:
        """Give this index the name of the index that it replaces."""
        self._engine.put_in_place()
        self.name = self._engine.name
        self.refresh()
        return self

    def close(self) -> None:
        self._engine.close()

    def remove(self, *, if_empty: bool = False) -> None:
        """Remove the index from its engine, with everything that belongs to it.

        An unfinished replacement of the index is removed too. ``if_empty``: whether to remove the
        index only if it has no documents. Raises :class:`VocabtoolError` if another index has the
        name of this index now.
        """
        self._check_same()
        if self._engine.remove(if_empty=if_empty):
            shutil.rmtree(self.path, ignore_errors=True)

    def _newest(self) -> CommitStore:
        return self._engine.snapshot(self._model, self._snapshot.cutter)

    def _check_same(self) -> Manifest:
        """Return the newest manifest. Raises an error if another index replaced this one."""
        newest = self._engine.manifest()
        if newest.index != self._snapshot.manifest.index:
            raise VocabtoolError(f"{self.name}: it was replaced by another index; open it again")
        return newest


def _again(work: Callable[[], Result]) -> Result:
    """Call ``work``. Repeat the call if other processes delete the documents that it reads."""
    for _ in range(MAX_TRIES - 1):
        with suppress(DocumentsChanged):
            return work()
    return work()


def cache_folder(engine: Engine, manifest: Manifest) -> Path:
    """Return the folder of an index in the user's cache.

    Raises :class:`InvalidFile` if the id of the index is invalid.
    """
    if re.fullmatch("[0-9a-f]{32}", manifest.index) is None:  # no path comes from a database
        what = f"damaged: wanted an id of 32 digits 0-9a-f, got {manifest.index[:50]!r}"
        raise InvalidFile(what, file=engine.name)
    shared = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "vocabtool")
    return Path(os.environ.get(CACHE) or shared).expanduser() / "stores" / manifest.index


def _copy_model_files(engine: Engine, manifest: Manifest) -> Path:
    """Copy the model's files to the user's cache, unless they are there; return their folder."""
    folder = cache_folder(engine, manifest)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot keep copies of the model's files: {error}; set ${CACHE} to another folder"
        raise VocabtoolError(f"{engine.name}: {what}") from error
    for name, crc32c in manifest.model_files.items():
        if MODEL_FILE.fullmatch(name) is None:
            raise InvalidFile(
                f"not allowed as the name of a model's file: {name[:50]!r}", file=engine.name
            )
        file = folder / name
        if file.exists() and google_crc32c.value(file.read_bytes()) == crc32c:
            continue
        content = engine.model_file(name)
        if google_crc32c.value(content) != crc32c:
            raise InvalidFile(f"damaged: {name} has another checksum", file=engine.name)
        with whole_file(file) as out:
            out.write(content)
    return folder
