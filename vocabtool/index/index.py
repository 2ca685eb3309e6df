"""The public ``Index``: documents that can be searched.

``folder_store.py`` and ``postgres/`` keep them, ``writer.py`` changes them, ``search/`` ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    NoReturn,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
)

import numpy as np

from vocabtool.choices import COMMIT_ROWS, COMMIT_SECONDS, MAX_REMOVED, OnExisting
from vocabtool.documents.batch import Document
from vocabtool.documents.options import ReadArguments, ReadOptions
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.index import folder_store
from vocabtool.index import snapshot as contents
from vocabtool.index.database import id_in_utf8
from vocabtool.index.folder import (
    Configuration,
    Creation,
    CreationForSources,
    Manifest,
    Opening,
    home,
    is_address,
)
from vocabtool.index.folder_store import FolderStore
from vocabtool.index.measures import compare_canaries
from vocabtool.index.model import open_model
from vocabtool.index.snapshot import DocumentsChanged, IndexSnapshot, IndexStats, VerifyReport
from vocabtool.search.hits import Hits
from vocabtool.search.search import find_similar
from vocabtool.search.settings import Calibration, Search, Searches
from vocabtool.system.arguments import check_arguments, takes
from vocabtool.system.messages import Progress, plural

if TYPE_CHECKING:
    from vocabtool.documents.files import Sources
    from vocabtool.documents.vectors import Given
    from vocabtool.index.load import LoadReport
    from vocabtool.index.postgres.store import PostgresStore
    from vocabtool.index.writer import Writer

    Store: TypeAlias = FolderStore | PostgresStore

CALIBRATED_FROM: Final = 1_000  # documents
TRIES: Final = 5  # to read documents that others delete meanwhile
NO_VECTORS: Final = (
    "no --model: queries are searched by their words only. To search by vectors too, pass the "
    "vector of the query (search --vector FILE) or the model that made the vectors (search --model)"
)
NO_STOP_WORDS: Final = (
    "no list of stop words for {language}: every word of a query is searched, however common it is"
)

P = ParamSpec("P")
Result = TypeVar("Result")


class Index:
    """A searchable index, made by :meth:`create` or :meth:`open`.

    An object reads one commit until it changes the index or :meth:`refresh` is called. Several
    threads may use one object at the same time: each call reads one commit from beginning to end,
    even if other threads call :meth:`refresh` or change the index. Only one thread of one process
    can write at a time; in any other thread, :meth:`writer` raises :class:`FolderInUse`.

    - ``path``: the folder of the index; of an index in an engine, a folder in the user's cache with
      copies of the model's files.
    - ``name``: the name of the index in messages: its folder, or its address without secrets.
    - ``notes``: messages to show whenever the index is opened, such as a recall that is too low.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path, self.name, self.notes = store.path, store.name, store.notes
        self._refreshing = Lock()
        self._snapshot: IndexSnapshot = store.snapshot

    def __repr__(self) -> str:
        return f"<Index {self.name!r}: {plural(len(self), 'document', 'documents')}>"

    def __reduce__(self) -> NoReturn:
        raise VocabtoolError(
            f"{self.name}: an open index cannot be pickled, as it has open files: send its path, "
            "and open it there with vocabtool.open(path)"
        )

    def __copy__(self) -> Index:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    @classmethod
    @takes(Creation)
    def create(cls, request: Creation) -> Index:
        """Create an empty index in a new folder.

        - ``path``: a new folder, or the address of an engine, such as
          ``postgresql://user@host/database?index=NAME``.
        - ``model``: the model that makes the vectors, as in :func:`open_encoder`.
        - ``sample``: texts on which the weights of word vectors are fitted.
        - ``force``: whether to replace an existing index, after all checks have passed.
        - ``in_place``: whether ``force`` replaces the existing index at once. Otherwise, other
          processes open the old index until :meth:`put_in_place` is called.
        - ``build``: a name that differs for other documents or options. With ``in_place=False``,
          an index that an interrupted process began to build under the same name is opened again,
          and :meth:`load` resumes.
        - The other arguments are the options of :class:`~vocabtool.index.folder.IndexOptions`, such
          as ``metric="l2"``, and those of the model:
          :class:`~vocabtool.encoders.encoder.EncoderOptions`. Without a ``model``, ``dim`` is the
          length of your own vectors. ``vocabulary`` and ``rule`` are the words that the model
          knows, as in :meth:`Words.of`, if it has no words of its own (a callable, a server, your
          own vectors). The index keeps a copy. If ``vocabulary`` is a model whose graph splits
          texts into words, the index also opens this model again, so do not move it.

        Raises :class:`FolderNotEmpty` if the folder is not empty; with ``force``, the folder may
        contain an index. Raises ``ValueError`` for conflicting arguments, and
        :class:`VocabtoolError` for other errors.
        """
        path, build = request.path, request.build
        store_type = store_class(path)
        if build is not None:
            if request.in_place or not request.force:
                raise ValueError("build needs force=True and in_place=False")
            options = request.given_options()
            if request.model is None:
                options.pop("dim", None)  # not an option of a model, but the length of own vectors
            store = store_type.open_build(path, build, request.model, options)
            if store is not None:
                return cls(store)
        opened = open_model(request)
        configuration = opened.configuration(request, store_type.exact_below)
        store = store_type.create(path, configuration, opened, replaces=request.force, build=build)
        replaces_now = store.is_build and request.force and request.in_place
        return cls(store.put_in_place() if replaces_now else store)

    @classmethod
    @takes(CreationForSources)
    def create_for(cls, request: CreationForSources) -> Index:
        """Create an empty index for these sources. Call :meth:`load` to add their documents.

        ``read``, ``vectors``: as in :meth:`load`. ``notify``: is called with each note for the
        user. The other arguments are those of :meth:`create`. Without a model, the number of
        dimensions is read from the vectors: those of ``vectors``, of the documents, or of a folder
        written by :func:`embed`.

        Word weights are fitted on a sample of the files, or taken from the folder of :func:`embed`.
        Unreadable files are found before anything is created. Raises the errors of :meth:`create`.
        """
        from vocabtool.index import load  # a search loads nothing

        sources, read, notify = request.sources, request.read, request.notify or (lambda note: None)
        names = {argument.name for argument in fields(Creation)} - {"sample"}
        arguments: dict[str, Any] = {name: getattr(request, name) for name in names}
        if request.model is None:
            arguments["dim"] = load.dim_of_own_vectors(sources, read, request.vectors)
            if request.dim is not None:
                raise ValueError("--dim needs --model: your own vectors are used as they are")
            notify(NO_VECTORS)
        else:
            outside = home(Path(request.path))  # an address is no folder that a FILE could be in
            sample, fitted = load.sample_or_weights(request, outside, notify)
            arguments |= {"sample": sample, "fitted": fitted}
        index = cls.create(**arguments)
        for note in index.encoder.notes if index.encoder is not None else ():
            notify(note)
        if index.snapshot().cutter.lacks_stop_words:
            notify(NO_STOP_WORDS.format(language=index.configuration.language))
        return index

    @classmethod
    @takes(Opening)
    def open(cls, request: Opening) -> Index:
        """Open the last commit of an index. The model is opened on first use.

        - ``model``: the model that made the vectors, as in :func:`open_encoder`, if the index
          cannot find it by its recorded path. If you passed the vectors yourself, up to 8 documents
          are encoded to check that the model makes the same vectors.
        - The other arguments are options of the model. ``vocabulary`` is needed only if the words
          are in the graph of a model that the index cannot find.

        Raises :class:`NotFound`, and :class:`InvalidFile` for a damaged file. The first use of the
        model raises :class:`OtherModel` if it did not make the vectors. A ``vocabulary`` that is
        not that of the index is refused at once.
        """
        options = request.given_options()
        index = cls(store_class(request.path).open(request.path, request.model, options))
        if request.vocabulary is not None:
            _ = index.snapshot().known_words  # another vocabulary is refused at once
        return index

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files of the index, or its connections to an engine.

        The object cannot be used afterwards. Garbage collection also closes it.
        """
        self._store.close()

    def __len__(self) -> int:
        return self._snapshot.manifest.live

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and bool(self._snapshot.rows_of([id_in_utf8(id_)]))

    @property
    def manifest(self) -> Manifest:
        """The manifest of the commit that this object reads."""
        return self._snapshot.manifest

    @property
    def configuration(self) -> Configuration:
        """The options with which the index was created."""
        return self._snapshot.manifest.configuration

    @property
    def encoder(self) -> Encoder | None:
        """The encoder that makes the vectors. The first use opens the model.

        ``None`` if the vectors are your own and no model was passed.
        """
        return self._snapshot.model.encoder

    @property
    def can_encode(self) -> bool:
        """Whether the index has a model that can encode queries."""
        return self._snapshot.model.can_encode

    @property
    def calibration(self) -> Calibration | None:
        """The calibrated weight of keyword search, or ``None``."""
        return self._snapshot.manifest.calibration

    def calibration_is_due(self, before: int) -> bool:
        """Return whether a calibration of the weight of keyword search is due.

        The first is due when a change makes the index large enough. If that calibration was not
        made, it is due when a change doubles the index. Another is due when the number of documents
        has doubled since the last calibration.

        ``before``: number of documents before the last change.
        """
        if self.calibration is not None:
            before = self.calibration.documents
        elif before < CALIBRATED_FROM:
            before = 0
        return len(self) >= max(CALIBRATED_FROM, 2 * before)

    def snapshot(self) -> IndexSnapshot:
        """Return the commit that this object reads."""
        return self._snapshot

    @check_arguments
    def get(self, id_: str) -> Document | None:
        """Return the document with this id, or ``None``."""
        return next(iter(self.get_many([id_]).values()), None)

    @check_arguments
    def get_many(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return a dictionary from id to document, in the order of ``ids``, without unknown ids."""
        wanted = [*dict.fromkeys(map(id_in_utf8, ids))]

        def read(snapshot: IndexSnapshot) -> dict[str, Document]:
            by_id = snapshot.rows_of(wanted)
            known = [id_ for id_ in wanted if id_ in by_id]
            rows = np.array([by_id[id_] for id_ in known], np.int64)
            return dict(zip(known, snapshot.fetch_documents(rows), strict=True))

        return self._read(read)

    @check_arguments
    def ids(self, where: str | None = None) -> Iterator[str]:
        """Yield the ids of all documents, or of the documents that satisfy ``where``, in row order.

        Rows are in the order in which documents were added or last updated. An engine leaves out
        documents that other processes delete or update during the iteration. Raises
        :class:`InvalidCondition` for an invalid ``where``.
        """
        return contents.ids(self._snapshot, where)

    @check_arguments
    def documents(self, where: str | None = None) -> Iterator[Document]:
        """Yield documents with all fields, in the order of :meth:`ids`, in bounded memory.

        In a folder, all documents are of one commit, even if a writer changes the index meanwhile.
        Raises :class:`InvalidCondition` for an invalid ``where``.
        """
        snapshot = self._snapshot
        blocks = contents.blocks(snapshot, snapshot.rows_in_order(where))
        return (document for _, documents in blocks for document in documents)

    @check_arguments
    def vectors(self, ids: Iterable[str]) -> dict[str, Vectors]:
        """Return a dictionary from id to stored vector, without unknown ids.

        Each vector is float32, shape (dim,). For ``cosine`` it has length 1. A document without a
        vector has zeros.
        """
        wanted = [*map(id_in_utf8, ids)]

        def read(snapshot: IndexSnapshot) -> dict[str, Vectors]:
            by_id = snapshot.rows_of(wanted)
            rows = np.array([*by_id.values()], np.int64)
            return dict(zip(by_id, snapshot.take(rows), strict=True))

        return self._read(read)

    def stats(self, *, unknown: bool = False, progress: Progress | None = None) -> IndexStats:
        """Return what the index contains: documents, values of fields, and sizes of files.

        ``unknown``: whether to count the words that the model does not know. They are not counted
        if the index has no vocabulary. Raises the errors of :meth:`open`.
        """
        with self._snapshot.at_one_commit() as snapshot:
            sizes, replacement = self._store.sizes(), self._store.replacement()
            return contents.stats(snapshot, sizes, replacement, unknown=unknown, progress=progress)

    def export(
        self,
        file: str | Path,
        *,
        where: str | None = None,
        vectors: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Write the documents that satisfy ``where`` to a new file; return their number.

        - ``file``: ends in ``.jsonl``, ``.parquet`` or ``.arrow``. Each row has ``id``, ``text``
          and all fields. The file appears when it is complete, and replaces an existing one.
        - ``vectors``: whether to write the stored vectors too, as float32. Parquet and Arrow files
          get a column ``vector`` of fixed-size lists. JSON lines get a second file
          ``NAME.vectors.npy``, shape (documents, dim), which appears just before them: if the
          process is killed between the two, the new vectors are beside the old JSON lines.

        Invalid UTF-8 in a field becomes U+FFFD. In Parquet and Arrow, a field of numbers that are
        not all integers becomes a column of 64-bit floating-point numbers. Raises ``ValueError``
        for another ending, :class:`NotFound` if the folder of ``file`` does not exist, and
        :class:`InvalidCondition` for an invalid ``where``.
        """
        with self._snapshot.at_one_commit() as snapshot:
            return contents.export(snapshot, file, where=where, vectors=vectors, progress=progress)

    def copy(self, new: str | Path, progress: Progress | None = None) -> Index:
        """Copy the last commit of a folder to a new folder; return the copy, without a model.

        All checksums are compared. The new folder appears when it is complete; until then, the
        copy is in the folder ``.NEW.part`` beside it. After an interruption, the same call begins
        again.

        Raises :class:`FolderNotEmpty` if ``new`` exists, :class:`InvalidFile` if the index is
        damaged, and :class:`FolderInUse` if a process is writing to the index or to the copy.
        """
        if is_address(new) or is_address(self.name):
            raise VocabtoolError(
                f"{self.name}: copy works only from a folder to a folder. From or to an address, "
                "use `vocabtool export DIR --vectors -o FILE`, which prints the command to index "
                "this file"
            )
        self.refresh()
        folder_store.copy(self.path, Path(new), progress)
        return Index.open(new)

    @check_arguments
    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        where: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Delete documents in one commit; return how many documents were deleted.

        - ``ids``: the ids of the documents; unknown ids are ignored. Or ``where``: a condition.
        - ``force``: whether to delete even if more than a third of all documents satisfy ``where``.
        - ``dry_run``: whether only to return the number, without deleting anything.

        Raises :class:`VocabtoolError` if ``force`` is needed, :class:`InvalidCondition` for an
        invalid ``where``, and :class:`FolderInUse` if another process is writing.
        """
        if (ids is None) == (where is None):
            raise ValueError("pass either ids or where (a condition)")
        ids = [ids] if isinstance(ids, str) else ids or ()
        if dry_run:
            self.refresh()
            if where is not None:
                return len(self._snapshot.rows_in_order(where))
            return len(self._snapshot.rows_of([*map(id_in_utf8, ids)]))
        with self.writer() as writer:
            if where is None:
                return writer.delete(ids)
            self.refresh()
            last = self._snapshot
            count, live = len(last.rows_in_order(where)), last.manifest.live
            if count > MAX_REMOVED * live and not force:
                raise VocabtoolError(
                    f"{self.name}: {count:,} of {live:,} documents satisfy the condition. This is "
                    f"more than a third, so nothing was deleted. Check {where!r}; --force "
                    "(force=True) deletes the documents"
                )
            return writer.delete(contents.ids(last, where))

    def refresh(self) -> bool:
        """Switch to the last commit; return whether it is newer than the commit read before."""
        with self._refreshing:  # else the slower of two threads might put back an earlier commit
            before = self.manifest.commit
            self._store.refresh()
            self._snapshot = self._store.snapshot
            return self.manifest.commit != before

    @contextmanager
    def writer(
        self, progress: Progress | None = None, *, commit_seconds: float | None = None
    ) -> Iterator[Writer]:
        """Open a :class:`Writer` for a ``with`` block.

        The end of the block commits the changes. An exception in the block rolls them back.

        - ``progress``: a function that is called while approximate search is built, with the name
          of the step and the share that is done.
        - ``commit_seconds``: while documents are added, also commit when the last commit was so
          long ago. What was committed stays, whatever happens later. By default, nothing is
          committed before the end of the block.

        Raises :class:`FolderInUse` if another process or thread is writing, and :class:`NoSpace`
        if the disk is full: what was committed before stays.
        """
        from vocabtool.index.writer import Writer  # a search writes nothing

        with self._store.begin() as transaction:
            model = self._snapshot.model
            writer = Writer(self.name, transaction, model, progress, commit_seconds)
            yield writer
            writer.commit()
        self.refresh()

    def load(
        self,
        sources: Sources,
        read: ReadOptions | None = None,
        *,
        on_existing: OnExisting = "error",
        commit_rows: int = COMMIT_ROWS,
        commit_seconds: float = COMMIT_SECONDS,
        threads: int | None = None,
        progress: Progress | None = None,
        vectors: Given | None = None,
        **more: Unpack[ReadArguments],
    ) -> LoadReport:
        """Add the documents of files, or of a folder written by :func:`embed`.

        After an interruption, the same call resumes after the last commit, unless files that it
        had read have another content. After a complete load, it does nothing.

        - ``sources``, ``read``: as in :func:`vocabtool.documents.batches`; the fields of ``read``
          may also be keyword arguments.
        - ``on_existing``: as in :meth:`Writer.add`, but ``"update"`` does not replace documents
          with the same content.
        - ``commit_rows``, ``commit_seconds``: there is a commit after so many documents, or so long
          after the last one, whichever comes first. The encoder is given texts for some seconds
          at a time, so a killed process has lost little more.
        - ``vectors``: the documents' vectors: a file (.npy, or Parquet, perhaps with ids) or an
          array, shape (n, dim). Vectors without ids must be in the order of
          the documents. If the index has a model, it must make the same vectors; up to 8
          documents are checked.

        Raises :class:`OtherModel` if the model does not agree with ``vectors``,
        :class:`FolderNotEmpty` if a different load is unfinished, and :class:`VocabtoolError` for
        other errors.
        """
        return self._load(
            progress,
            commit_seconds,
            sources=sources,
            read=replace(read or ReadOptions(), **more),
            on_existing=on_existing,
            commit_rows=commit_rows,
            threads=threads,
            vectors=vectors,
        )

    def update(
        self,
        sources: Sources | None = None,
        *,
        sync: bool = False,
        force: bool = False,
        commit_rows: int = COMMIT_ROWS,
        commit_seconds: float = COMMIT_SECONDS,
        threads: int | None = None,
        progress: Progress | None = None,
        vectors: Given | None = None,
    ) -> LoadReport:
        """Read the files of the index again and apply the changes.

        Only documents with a new text are encoded. Before this, up to 8 old documents are encoded
        again, to check that the model is the same. After an interruption, the same call reads all
        files again and encodes only the remaining documents.

        - ``sources``: the files to read: files of the index, or new files. The default is all files
          of the index. A known file is read with its recorded options, a new file with the options
          of the last known file.
        - ``sync``: whether to delete, in the final commit, the documents that the files no longer
          contain.
        - ``force``: whether to sync even if this deletes more than a third of the documents from
          these files, or if rows were skipped.

        The other arguments are those of :meth:`load`. Raises the errors of :meth:`load`, and
        :class:`VocabtoolError` if a sync cannot know which documents are gone: because of a stream,
        an unreadable file, or skipped rows.
        """
        return self._load(
            progress,
            commit_seconds,
            sources=sources,
            read=None,
            on_existing="update",
            commit_rows=commit_rows,
            threads=threads,
            vectors=vectors,
            sync=sync,
            force=force,
        )

    def _load(self, progress: Progress | None, commit_seconds: float, **more: Any) -> LoadReport:
        """Run a load. ``more``: the arguments of :class:`Loader` that only the caller knows."""
        from vocabtool.index.load import Loader  # a search loads nothing

        with self.writer(progress, commit_seconds=commit_seconds) as writer:
            self.refresh()
            loader = Loader(self.name, self.path, self._snapshot, writer, progress, **more)
            return loader.run()

    @takes(Search)
    def search(self, request: Search) -> Hits:
        """Return the best documents for a query.

        - ``text``: the query. Its operators are described in ``search/query.py``. Without
          ``text`` and ``vector``, pass ``where``, ``sort`` or ``facets``: then the documents that
          satisfy ``where`` are listed, by default in the order of their ids.
        - ``vector``: your own vector of the query, shape (dim,) or (1, dim); or the path of a .npy
          or Parquet file that contains it. ``queries.npy#3`` means row 3, counted from 0.
        - The other arguments are the options of :class:`~vocabtool.search.settings.Settings`, such
          as ``k=5``, ``where="year >= 2020"``, ``sort="year:desc"``, ``facets="lang,year"`` or
          ``fusion="rrf"``.

        Raises :class:`VocabtoolError`, ``ValueError`` for invalid arguments, and ``TypeError`` for
        unknown arguments.
        """
        dim, vector = self._snapshot.manifest.configuration.dim, request.vector
        lists = request.where or request.sort or request.facets
        if request.text is None and vector is None and not lists:
            raise ValueError(
                "search needs a text, a vector, 'where', 'sort' or 'facets'; got none of them"
            )
        if isinstance(vector, str | Path):
            from vocabtool.documents.vectors import read_vector  # most searches need no file

            vector = read_vector(str(vector))
        if vector is not None:
            vector = np.asarray(vector)
            if vector.shape not in ((dim,), (1, dim)):
                raise ValueError(f"vector must have {dim} numbers, got shape {vector.shape}")
            vector = vector.reshape(1, dim)
        return self._read(contents.search_texts, [request.text], vector, 1, request)[0]

    @takes(Searches)
    def search_many(self, request: Searches) -> list[Hits]:
        """Return the result of :meth:`search` for each of several queries, in their order.

        The queries are encoded together and searched in ``threads`` threads (default: one for each
        core), all in the same commit. Raises the errors of :meth:`search`, and ``ValueError`` if
        ``texts`` is a single string.
        """
        if isinstance(request.texts, str):
            raise ValueError("texts must be a list of texts, got one text; use search() for it")
        texts, vectors, threads = request.texts, request.vectors, request.threads
        return self._read(contents.search_texts, texts, vectors, threads, request)

    @check_arguments
    def similar(
        self, id_: str, k: int = 10, *, where: str | None = None, explain: bool = False
    ) -> Hits:
        """Return the ``k`` other documents that are most similar to the document ``id_``.

        The query consists of the stored vector and the most telling words of this document: see
        :mod:`vocabtool.search.search`. Raises :class:`NotFound` if no document has this id, and
        the errors of :meth:`search`.
        """

        def read(snapshot: IndexSnapshot) -> Hits:
            rows = [*snapshot.rows_of([id_in_utf8(id_)]).values()]
            if not rows:
                raise NotFound(f"{self.name}: no document has the id {id_!r}")
            return find_similar(snapshot, rows[0], k=k, where=where, explain=explain)

        return self._read(read)

    def _read(
        self,
        read: Callable[Concatenate[IndexSnapshot, P], Result],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Result:
        """Call ``read``, and again if another process deletes the documents that it reads."""
        for _ in range(TRIES - 1):
            try:
                return read(self._snapshot, *arguments, **named)
            except DocumentsChanged:
                continue
        return read(self._snapshot, *arguments, **named)

    def compact(self, progress: Progress | None = None) -> int:
        """Rewrite the index without deleted rows; return how many were removed.

        In an engine, vacuum the tables and index the vectors again; there are no deleted rows.
        Raises :class:`FolderInUse` if another process is writing.
        """
        removed = self._store.compact(progress)
        self.refresh()
        return removed

    def verify(self, progress: Progress | None = None, *, model: bool = False) -> VerifyReport:
        """Check all checksums, compare keywords with documents, and measure the recall.

        ``model``: whether also to compare the model: see :meth:`Writer.encoder`. Raises
        :class:`InvalidFile`, which names the damaged file, and :class:`OtherModel` if the model
        makes different vectors than before.
        """
        encoder = self.encoder if model else None
        report = self._store.verify(progress)
        self.refresh()
        if encoder is not None:
            canaries, metric = self._snapshot.model.canaries(), self.configuration.metric
            agreement = compare_canaries(self.name, canaries, encoder, metric)
            report = replace(report, encoded=agreement)
        return report

    @property
    def is_build(self) -> bool:
        """Whether :meth:`put_in_place` will replace another index by this one."""
        return self._store.is_build

    def put_in_place(self) -> Index:
        """Replace the index that this one was built for; return the new index, reopened."""
        return Index(self._store.put_in_place())

    def remove(self, *, if_empty: bool = False) -> None:
        """Remove the index with everything that belongs to it.

        ``if_empty``: remove it only if nobody has added documents. Raises :class:`VocabtoolError`
        if the index was replaced by another one.
        """
        self._store.remove(if_empty=if_empty)

    def store_calibration(self, calibration: Calibration | None) -> None:
        """Store the weight of keyword search for all later searches; ``None`` removes it."""
        with self.writer() as writer:
            writer.store_calibration(calibration)


def store_class(path: str | Path) -> type[FolderStore] | type[PostgresStore]:
    """Raises :class:`UnsupportedFormat` for the address of an unknown engine."""
    if not is_address(path):
        return FolderStore
    scheme = str(path).partition("://")[0].lower()
    if scheme not in ("postgresql", "postgres"):
        raise UnsupportedFormat(
            f"an address begins with postgresql://, got {scheme[:50]!r}; a folder needs its path"
        )
    from vocabtool.index.postgres.store import PostgresStore

    return PostgresStore


open: Final = Index.open  # noqa: A001 - as `vocabtool.open(path)` reads
