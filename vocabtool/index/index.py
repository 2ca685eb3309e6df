"""A folder to search in: the public ``Index``.

What lies in the folder is told in ``folder.py``, changing it in ``writer.py``, ranking in
``search/``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import (
    COMMIT_ROWS,
    EXACT_BELOW,
    RECALL,
    Language,
    Metric,
    OnExisting,
    StoredType,
)
from vocabtool.documents.options import ReadArguments, ReadOptions
from vocabtool.documents.reading import Document, ReadLog, Sources, documents, names_of
from vocabtool.embedding.plan import can_be_read_again, facts_of, files_outside, sample
from vocabtool.embedding.shards import WEIGHTS, Shards
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.encoders.open_encoder import Model
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.index import folder
from vocabtool.index.folder import Commit, Configuration, Manifest
from vocabtool.index.generation import (
    GenerationWriter,
    Progress,
    Snapshot,
    open_snapshot,
    read_version,
)
from vocabtool.index.load import Loader, LoadReport, LoadRequest
from vocabtool.index.maintenance import VerifyReport, compact, upgrade, verify
from vocabtool.index.model import open_model, vocabulary_alone
from vocabtool.index.sources import shards_in
from vocabtool.index.writer import Writer
from vocabtool.keywords.cutter import Cutter
from vocabtool.search.hits import Hits
from vocabtool.search.search import search
from vocabtool.search.settings import Calibration, Settings
from vocabtool.system.own_files import lock_folder
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    from types import TracebackType

CHOICES: Final = tuple(each.name for each in fields(Settings))
CALIBRATED_FROM: Final = 1_000  # documents
NO_VECTORS: Final = (
    "no --model: queries are searched by their words only. To search by vectors too, start over "
    "with --model and --force"
)


class Index:
    """An index, seen as of one commit until :meth:`refresh`. Made by :meth:`create`, :meth:`open`.

    Threads may search together. One process writes at a time, others read meanwhile.
    """

    def __init__(
        self, path: Path, model: Model | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self.path = path
        self._refreshing = Lock()
        self._snapshot = open_snapshot(path, None, model, options)
        self._model = self._snapshot.model

    @classmethod
    def create(
        cls,
        path: str | Path,
        model: Model | None = None,
        *,
        dim: int | None = None,
        vocabulary: Vocabulary | Iterable[str] | None = None,
        rule: str | None = None,
        sample: Iterable[str | bytes] | None = None,
        metric: Metric = "cosine",
        dtype: StoredType = "float16",
        language: Language = "english",
        recall: float = RECALL,
        exact_below: int = EXACT_BELOW,
        memory: int | None = None,
        force: bool = False,
        **options: Any,
    ) -> Index:
        """Make an index without documents in a new folder.

        ``model``: makes the vectors, as for :func:`open_encoder`, which takes the further
        ``options``; or ``dim``, the length of vectors of one's own, with the ``vocabulary`` that
        what makes them knows and the ``rule`` by which it cuts texts (as of :meth:`Words.of`), for
        entries that are pieces of words ``tokenizer:FILE``; that file is kept in the folder.
        ``sample``: texts that the weights of a file of word vectors are fitted on.
        ``metric``: what near means. ``dtype``: how vectors are stored. ``language``: of stems and
        stop words. ``recall``: of ten, that the approximate search must reach; ``exact_below``: up
        to so many documents every vector is compared. ``memory``: bytes that building may take.
        ``force``: take the place of an index that is there; it goes when all else was found good.
        Raises :class:`FolderNotEmpty` for a folder that holds something, an index without
        ``force``; :class:`VocabtoolError`, and ``ValueError`` for arguments that do not fit
        together.
        """
        if model is not None:
            if dim is not None or vocabulary is not None:
                raise ValueError("dim and vocabulary come from the model: do not pass them")
            opened = open_model(model, {**options, **({"rule": rule} if rule else {})}, sample)
        elif dim is None:
            raise ValueError("pass a model, or dim, the length of your own vectors")
        elif options:
            raise ValueError(f"{next(iter(options))}: this argument needs a model")
        else:
            opened = vocabulary_alone(vocabulary, rule)
        encoder, words, weights = opened.encoder, opened.words, opened.weights
        size = dim if encoder is None else encoder.dim
        assert size is not None  # noqa: S101 - without a model it is given
        cutter = Cutter(language)
        configuration = Configuration(
            dim=size,
            metric=metric,
            dtype=dtype,
            language=language,
            cutter=cutter.fingerprint,
            recall=float(recall),
            exact_below=exact_below,
            memory=memory,
            model=opened.model,
            kind=encoder.kind if encoder is not None else None,
            options=opened.options,
            encoder=encoder.fingerprint if encoder is not None else None,
            words=words.fingerprint if words is not None else None,
            vocabulary=words.vocabulary.fingerprint if words is not None else None,
            rule=opened.rule,
            weights=weights.fingerprint if weights is not None else None,
        )
        where = Path(path)
        replaces = force and folder.is_index(where)
        if replaces:
            folder.refuse_others(where, allow_index=True)
            where = folder.build_folder(where, uuid.uuid4().hex)
        folder.refuse_others(where)
        with reading(str(where)):
            where.mkdir(parents=True, exist_ok=True)
        with lock_folder(where):
            folder.refuse_others(where)
            manifest = Manifest(
                index=uuid.uuid4().hex,
                configuration=configuration,
                model_files=opened.save(where),
            )
            part, final = folder.new_generation(where)
            files = GenerationWriter.create(part, manifest, cutter)
            try:
                files.commit(manifest, np.zeros(0, np.bool_))
            finally:
                files.close()
            folder.make_current(part, final)
        given = encoder if model is not None else None  # not to be opened twice
        index = cls(where, given)
        return index.put_in_place() if replaces else index

    @classmethod
    def create_for(
        cls,
        path: str | Path,
        sources: Sources,
        model: Model | None = None,
        *,
        read: ReadOptions,
        notify: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Index:
        """Make an index to :meth:`load` these sources into, which tell what it needs to know.

        Of a folder that :func:`embed` wrote that is the length of its vectors, where there is no
        ``model``, or else the weights of its words; of files, texts that such weights are fitted
        on. Files that cannot be read are found before anything is made. ``read``: how they will be
        read. ``notify``: called with what the caller should know. ``options``: those of
        :meth:`create`, which raises the same.
        """
        outside = folder.home(Path(path))
        shards = shards_in(sources)
        texts, dim = None, None
        if model is None:
            if shards is None:
                raise ValueError(
                    "--model is missing; it may be omitted only if FILE is "
                    "one folder that embed wrote"
                )
            dim = Shards.open(shards).dim
            if notify is not None:
                notify(NO_VECTORS)
        elif shards is not None:
            weights = shards / WEIGHTS
            if "fitted" not in options and weights.is_file():
                options["fitted"] = FittedWeights.read(weights)
        elif names_of(sources) is not None and can_be_read_again(
            files := files_outside(sources, outside) or []
        ):
            plain = replace(read, keep=(), on_duplicate="error")
            first = next(iter(documents(files, plain, log=ReadLog())), None)
            facts_of(files, "stat")  # the others are there, too
            texts = sample(files, read)
            if notify is not None and read.id_field is None and first is not None:
                for name in ("id", "_id"):
                    if name in first.fields:
                        told = f"the documents have a field {name!r}: use it with --id-field {name}"
                        notify(f"the ids of documents are FILE:LINE; {told}")
        index = cls.create(path, model, dim=dim, sample=texts, **options)
        if notify is not None and index.encoder is not None:
            for note in index.encoder.notes:
                notify(note)
        return index

    @classmethod
    def open(cls, path: str | Path, model: Model | None = None, **options: Any) -> Index:
        """Open the last commit of an index.

        ``model``: what made its vectors, where that is not a file or folder that the index finds
        again; ``options``: those of :func:`open_encoder`. It is opened when it is needed.
        Raises :class:`NotFound`, :class:`InvalidFile` with the file that is damaged,
        :class:`VocabtoolError` for a model where the index holds vectors of one's own, and, when
        the model is opened, :class:`OtherModel` with both fingerprints.
        """
        return cls(Path(path), model, options)

    @classmethod
    def upgrade(cls, path: str | Path, progress: Progress | None = None) -> Index:
        """Make the index of version 0.1.0 in a folder one that this version reads, and open it.

        No model is needed. Raises what :meth:`open` does, :class:`VocabtoolError` where there is
        nothing to upgrade, and :class:`FolderInUse` where another process writes.
        """
        upgrade(Path(path), progress)
        return cls.open(path)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing: files are let go of with the object."""

    def __len__(self) -> int:
        return self._snapshot.manifest.live

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and self._snapshot.row_of(id_) is not None

    @property
    def manifest(self) -> Manifest:
        """The commit that is seen, with all that is told of it."""
        return self._snapshot.manifest

    @property
    def configuration(self) -> Configuration:
        """What the index was created as."""
        return self._snapshot.manifest.configuration

    @property
    def encoder(self) -> Encoder | None:
        """What makes its vectors; ``None`` where they are one's own. Opens the model."""
        return self._model.encoder

    @property
    def calibration(self) -> Calibration | None:
        """How much the keyword leg weighs; ``None``: not calibrated."""
        return self._snapshot.manifest.calibration

    def calibration_is_due(self, before: int) -> bool:
        """Whether the index is new, or holds twice as many documents as when it was calibrated.

        ``before``: how many it held before the last change. One that was not calibrated when there
        was enough to tell is meant to stay so.
        """
        held = self.calibration
        known = held.documents if held is not None else before if before >= CALIBRATED_FROM else 0
        return len(self) >= max(CALIBRATED_FROM, 2 * known)

    def snapshot(self) -> Snapshot:
        """The commit that is seen."""
        return self._snapshot

    def get(self, id_: str) -> Document | None:
        """A document by its id; ``None``: there is none."""
        snapshot = self._snapshot
        row = snapshot.row_of(id_)
        if row is None:
            return None
        return snapshot.documents.fetch_documents(np.array([row]))[0]

    def refresh(self) -> bool:
        """See the last commit from now on; whether it is another one."""
        with self._refreshing:  # else the slower of two threads might put back an earlier commit
            if self._last().manifest.commit == self.manifest.commit:
                return False
            self._snapshot = self._newest()
            return True

    @contextmanager
    def writer(
        self, progress: Progress | None = None, *, memory: int | None = None
    ) -> Iterator[Writer]:
        """Change the index: one commit at the end of the block, none after an exception.

        ``progress``: called with what is being done and its share, 0 to 1, while codes are built.
        ``memory``: bytes that building may take from now on, instead of what :meth:`create` said.
        Raises :class:`FolderInUse` where another process or thread writes.
        """
        with lock_folder(self.path):
            commit = self._last()
            if memory is not None:
                bounded = replace(commit.manifest.configuration, memory=memory)
                commit = replace(commit, manifest=replace(commit.manifest, configuration=bounded))
            writer = Writer(self.path, commit, self._model, self._snapshot.cutter, progress)
            try:
                yield writer
                writer.commit()
            finally:
                writer.close()
        self.refresh()

    def load(
        self,
        sources: Sources,
        options: ReadOptions | None = None,
        *,
        on_existing: OnExisting = "error",
        commit_rows: int = COMMIT_ROWS,
        threads: int | None = None,
        memory: int | None = None,
        progress: Progress | None = None,
        **read: Unpack[ReadArguments],
    ) -> LoadReport:
        """Add the documents of files, or of a folder that :func:`embed` wrote.

        Called again with the same arguments after a stop, it goes on where the last commit is;
        after its end it does nothing. ``sources`` is that of :func:`vocabtool.documents.batches`;
        how they are read is said by ``options`` or the same as keyword arguments: see
        :class:`vocabtool.documents.ReadOptions`.
        ``on_existing`` is that of :meth:`Writer.add`, but ``"update"`` lets documents of the same
        content be; ``memory`` is that of :meth:`writer`.
        ``commit_rows``: documents between commits.
        Raises :class:`ChangedRun` where another load is half done, and :class:`VocabtoolError`.
        """
        request = LoadRequest(
            sources=sources,
            options=replace(options or ReadOptions(), **read),
            on_existing=on_existing,
            commit_rows=commit_rows,
            threads=threads,
        )
        with self.writer(progress, memory=memory) as writer:
            return Loader(self.path, self._newest(), writer, request, progress).run()

    def update(
        self,
        sources: Sources | None = None,
        *,
        sync: bool = False,
        force: bool = False,
        commit_rows: int = COMMIT_ROWS,
        threads: int | None = None,
        memory: int | None = None,
        progress: Progress | None = None,
    ) -> LoadReport:
        """Read again the files that the index was made of, and take over what changed.

        Only documents whose text is another are encoded. ``sources``: some of these files, or
        further ones; each is read as :meth:`load` was told to, a new one as the last.
        ``sync``: delete the documents that came from these files and are in them no longer, all of
        them in the last commit; above a third of them only with ``force``.
        Stopped half-way, the same call reads all again and encodes what is left.
        Raises what :meth:`load` does, and :class:`VocabtoolError` where a sync could not tell what
        is gone: a stream, a file that is missing or unreadable, rows that were left out.
        """
        request = LoadRequest(
            sources=sources,
            options=None,
            on_existing="update",
            commit_rows=commit_rows,
            threads=threads,
            sync=sync,
            force=force,
        )
        with self.writer(progress, memory=memory) as writer:
            return Loader(self.path, self._newest(), writer, request, progress).run()

    def search(
        self,
        text: str | None = None,
        *,
        k: int = 10,
        vector: NDArray[Any] | Sequence[float] | None = None,
        where: str | None = None,
        explain: bool = False,
        **settings: Any,
    ) -> Hits:
        """The best ``k`` documents for a query.

        ``text``: may be left out where there is a ``vector``: of the query, where it is one's own,
        shape (dim,) or (1, dim). ``where``: a condition on fields, as
        ``year >= 2020 and lang = 'en'``. ``explain``: tell why, of words and of hits.
        ``settings``: those of :class:`~vocabtool.search.settings.Settings`, as ``fusion="rrf"``.
        Raises :class:`VocabtoolError`, ``ValueError`` for a wrong argument, ``TypeError`` for one
        that there is not.
        """
        dim = self._snapshot.manifest.configuration.dim
        if vector is None and text is None:
            raise ValueError("search needs a text, a vector, or both; got neither")
        if vector is not None:
            vector = np.asarray(vector)
            if vector.shape not in ((dim,), (1, dim)):
                raise ValueError(f"vector must have {dim} numbers, got shape {vector.shape}")
            vector = vector.reshape(1, dim)
        more = {"k": k, "where": where, "explain": explain}
        return self._search(self._snapshot, [text], vector, 1, settings, **more)[0]

    def search_many(
        self,
        texts: Sequence[str],
        *,
        vectors: NDArray[Any] | Sequence[Any] | None = None,
        threads: int | None = None,
        k: int = 10,
        where: str | None = None,
        explain: bool = False,
        **settings: Any,
    ) -> list[Hits]:
        """What :meth:`search` finds for each of several queries, in their order.

        They are encoded together, and searched in ``threads``, one a core unless said; in one
        commit, whatever :meth:`refresh` sees meanwhile.
        Raises what :meth:`search` does, ``ValueError`` also for one text alone.
        """
        snapshot = self._snapshot
        if isinstance(texts, str):
            raise ValueError("texts must be a list of texts, got one text; search() takes one")
        if vectors is not None and len(vectors) != len(texts):
            raise ValueError(f"{len(vectors):,} vectors for {len(texts):,} texts")
        more = {"k": k, "where": where, "explain": explain}
        return self._search(snapshot, texts, vectors, threads, settings, **more)

    def _search(
        self,
        snapshot: Snapshot,
        texts: Sequence[str | None],
        given: NDArray[Any] | Sequence[Any] | None,
        threads: int | None,
        settings: Mapping[str, Any],
        **more: Any,
    ) -> list[Hits]:
        """What is found for each text, or vector that is ``given`` for it, in one commit."""
        for name in settings:
            if name not in CHOICES:
                there = ", ".join(("k", "vector", "where", "explain", *CHOICES))
                raise TypeError(f"search has no argument {name!r}; its arguments are {there}")
        chosen, manifest = Settings(**settings), snapshot.manifest
        held = manifest.configuration
        if chosen.a is None and manifest.calibration is not None:
            chosen = replace(chosen, a=manifest.calibration.a)
        made: Vectors | list[None] = [None] * len(texts)
        if given is None and chosen.fusion != "keyword" and held.encoder is not None:
            encoder = self._model.encoder
            assert encoder is not None  # noqa: S101 - the configuration says so
            given = encoder.encode([text or "" for text in texts])
        if given is not None:
            with np.errstate(over="ignore"):  # infinity is refused by the vector leg
                made = np.asarray(given, np.float32)
            if made.shape != (len(texts), held.dim):
                wanted = f"shape ({len(texts)}, {held.dim})"
                raise ValueError(f"vectors must have {wanted}, got {made.shape}")

        def ask(text: str | None, vector: Vectors | None) -> Hits:
            chance = None
            if vector is not None and manifest.chance is not None:
                scale = np.linalg.norm(vector) if held.metric == "inner-product" else 1.0
                chance = manifest.chance.similarity * float(scale)
            return search(snapshot, text, vector, settings=chosen, chance=chance, **more)

        if len(texts) == 1:
            return [ask(texts[0], made[0])]
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            return [*pool.map(ask, texts, made)]

    def compact(self, progress: Progress | None = None) -> int:
        """Write the documents that are left into new files; how many deleted rows that removed.

        Raises :class:`FolderInUse` where another process writes.
        """
        self._last()  # of this index
        removed = compact(self.path, progress).removed
        self.refresh()
        return removed

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Look at every byte: checksums, both legs, and the recall measured again.

        Begun again where a writer took files away meanwhile.
        Raises :class:`InvalidFile`, which names the file that is not what was written.
        """
        while True:
            self.refresh()
            snapshot = self._snapshot
            before = read_version(snapshot.commit)
            try:
                return verify(self.path, snapshot, progress)
            except (InvalidFile, OSError):
                if read_version(self._last()) == before:
                    raise

    def put_in_place(self) -> Index:
        """Let an index that was built beside another one take its place: that one as it is then."""
        given = self._model.encoder
        self._snapshot.commit.database.close()
        path = folder.put_in_place(self.path)
        return Index(path, given)

    def store_calibration(self, calibration: Calibration | None) -> None:
        """Let every search from now on weigh the keyword leg by it."""
        with self.writer() as writer:
            writer.store_calibration(calibration)

    def _last(self) -> Commit:
        """The last commit. Raises :class:`VocabtoolError` where it is one of another index."""
        newest = folder.read_commit(self.path, self._snapshot.commit)
        if newest.manifest.index != self.manifest.index:
            raise VocabtoolError(f"{self.path}: it was replaced by another index; open it again")
        return newest

    def _newest(self) -> Snapshot:
        return open_snapshot(self.path, self._snapshot)


def open(path: str | Path, model: Model | None = None, **options: Any) -> Index:  # noqa: A001 - as `vocabtool.open(path)` reads
    """Open an index: :meth:`Index.open`."""
    return Index.open(path, model, **options)
