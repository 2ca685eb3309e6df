"""Load documents from files into an index; an interrupted load can be resumed.

Each commit contains the state of the load, so that no document is lost or added twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from vocabtool.choices import MAX_REMOVED, OnExisting
from vocabtool.documents.batch import Batch, Measure
from vocabtool.documents.files import (
    Input,
    can_be_read_again,
    changes,
    facts_of,
    files_outside,
    names_of,
)
from vocabtool.documents.options import ID, PATH_FIRST, TEXT, VECTOR, ReadOptions
from vocabtool.documents.reading import ReadLog, SeenIds, Skip, Sources, batches, documents, sample
from vocabtool.documents.tables import as_strings
from vocabtool.documents.vectors import Given, Matcher, check_counts, checksum_of, open_vectors
from vocabtool.embedding.shards import Shards, fitted_weights, vectors_of
from vocabtool.encoders.encoder import (
    FittedWeights,
    Pace,
    hash_files,
    naming_documents,
    same_for_documents,
)
from vocabtool.errors import (
    FolderNotEmpty,
    InvalidFile,
    NotFound,
    OtherModel,
    VocabtoolError,
    reading,
)
from vocabtool.index.database import ENCODED
from vocabtool.index.documents import (
    FileGroup,
    groups_of_index,
    groups_of_names,
    in_scope,
    of_file,
    shards_in,
)
from vocabtool.index.folder import CreationForSources, Load, home
from vocabtool.index.measures import CANDIDATES, Canaries, compare_canaries, spread
from vocabtool.index.snapshot import DocumentsChanged, IndexSnapshot, find_unchanged
from vocabtool.index.vectors import prepare
from vocabtool.index.writer import Writer, check_choice
from vocabtool.streams.stream import Stream
from vocabtool.system.messages import Progress, documents_done, measure_speed
from vocabtool.system.parallel import closed_after
from vocabtool.system.ranking import Rows, are_among
from vocabtool.tokenization.text_arrays import not_utf8
from vocabtool.tokenization.token_limit import cut_note

BATCH_BYTES: Final = 1 << 20  # of text that are encoded together
BATCH_ROWS: Final = 1024
COMPARED_ROWS: Final = 32  # at a time; most of them are not encoded
NO_ROWS: Final[Rows] = np.zeros(0, np.int64)
HASHED_BYTES: Final = 64 << 20  # of a larger file, the time is compared and not the content
HALF_DONE: Final = (
    "an earlier load was interrupted: finish it with the same command (the same unchanged FILEs, "
    "--field, --id-field, --input-format, --keep and --split), or read all FILEs "
    "again with `vocabtool update` without FILE"
)
NEWER: Final = "{0} is newer than that load: restore it if it changed, or read all FILEs again"

AS_EMBEDDED: Final = (
    "Use the model and the options of embed (also --prompt-document, --prompt-query and --dim), or "
    "embed the documents again"
)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Result of a load. The numbers count documents, unless stated otherwise.

    - ``read``: documents read, including the ``resumed`` documents.
    - ``resumed``: documents that an interrupted run had loaded.
    - ``added``: documents with new ids.
    - ``updated``: documents that replaced a document with the same id.
    - ``unchanged``: documents with the same content, or kept because ``on_existing`` is ``"skip"``.
    - ``removed``: documents deleted by a sync.
    - ``zero``: added or updated documents without a vector, which only keywords can find.
    - ``not_utf8``: documents whose text is not valid UTF-8.
    - ``skipped``, ``first_skipped``: number of invalid rows, and the first of these rows.
    - ``dropped``: documents with a repeated id.
    - ``left_out``, ``first_left_out``: number of values that were skipped because they did not fit
      their field, and the first of these values. Documents with such values were added.
    - ``seconds``: time of this run.
    - ``notes``: notes about the files, and about texts that are too long.
    - ``too_long``: encoded documents with more tokens than the model reads.
    - ``tokens_cut``: number of tokens that the model does not read, perhaps estimated.
    - ``encoded``: texts that the model encoded. A text that the index already has keeps its vector.
    """

    read: int
    resumed: int
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    zero: int = 0
    not_utf8: int = 0
    skipped: int = 0
    first_skipped: tuple[Skip, ...] = ()
    dropped: int = 0
    seconds: float = 0.0
    left_out: int = 0
    first_left_out: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    too_long: int = 0
    tokens_cut: int = 0
    encoded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingBatch:
    """Documents on their way from a FILE into the index.

    - ``batch``: the documents; after encoding, only those to add, with their vectors.
    - ``counts``: what is counted of the documents that were read, by fields of :class:`LoadReport`;
      ``estimated``: how many texts are too long by an estimate of their tokens.
    - ``existing``: rows of the index that have the id of a document that was read.
    - ``same``: the rows among ``existing`` whose content is unchanged.
    """

    batch: Batch
    source: int
    counts: Mapping[str, int] = field(default_factory=dict)
    existing: Rows = field(default_factory=NO_ROWS.copy)
    same: Rows = field(default_factory=NO_ROWS.copy)


class Loader:
    """Loads documents from files into an index: see :meth:`Index.load` and :meth:`Index.update`.

    - ``path``: the folder of the index; files in this folder are not loaded.
    - ``sources``: ``None`` to read the files of the index.
    - ``read``: ``None`` to use the recorded options, which makes the load an update.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        before: IndexSnapshot,
        writer: Writer,
        progress: Progress | None,
        *,
        sources: Sources | None,
        read: ReadOptions | None,
        on_existing: OnExisting,
        commit_rows: int,
        threads: int | None,
        vectors: Given | None,
        sync: bool = False,
        force: bool = False,
    ) -> None:
        if commit_rows < 1:
            raise ValueError(f"commit_rows must be at least 1, got {commit_rows}")
        check_choice(on_existing)
        self._name, self._path = name, path
        self._before = before
        self._writer = writer
        self._progress = progress
        self._on_existing, self._commit_rows, self._threads = on_existing, commit_rows, threads
        self._given, self._syncs, self._force = vectors, sync, force
        self._is_update, self._names_files = read is None, sources is not None
        known, outside = writer.transaction.manifest.sources, home(path)
        if sources is not None and read is not None:
            self._groups, self._sources = groups_of_names(sources, read, known, outside, vectors)
        else:
            self._groups, self._sources = groups_of_index(
                sources, known, outside, sync=sync, vectors=vectors
            )
        for group in self._groups:
            if vectors is not None and (group.shards or group.read.vector_field):
                option = "the vectors in a folder of embed" if group.shards else "--vector-field"
                raise ValueError(f"--vectors (vectors=) cannot be combined with {option}")
        self._files = _facts(self._groups)
        self._plan, self._content = _plan_of(self._groups, self._files, vectors)
        self._numbers = {file.name: number for number, file in enumerate(self._files, 1)}
        self._hashed_files = 0  # number of files that are in the hash ``_content``
        self._reached = 0  # the largest number of a file whose documents were added
        self._compares = on_existing == "update"
        if self._compares:
            writer.pace = Pace(COMPARED_ROWS)
        self._rows_read = [NO_ROWS]  # rows of the index that have the ids of documents read
        self._ids: SeenIds | None = None  # of the documents read, if there are several inputs
        self._log = ReadLog()
        self._measure: Measure | None = None
        self._start = 0  # documents that an interrupted load had committed
        self._began_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._counts = Counter(read=0)  # by fields of LoadReport
        self._committed = 0  # documents read at the last commit
        self._alone = False  # whether every row of the index is from this load
        self._is_compared = False  # whether the model agrees with given vectors
        self._notes: list[str] = []
        self._has_not_utf8 = False  # only the first file that is not UTF-8 is noted

    def run(self) -> LoadReport:
        """Raises :class:`FolderNotEmpty` if a different load is unfinished."""
        self._before.model.check()
        writer, transaction = self._writer, self._writer.transaction
        last = transaction.manifest.load
        if last is not None and (last.plan == self._plan or self._continues(last)):
            if last.finished and (last.synced or not self._syncs):
                done = last.documents
                return LoadReport(read=done, resumed=done, unchanged=done)
            # An update reads all documents again.
            self._start = 0 if self._is_update else last.documents
            self._counts["read"] = self._committed = self._log.documents = self._start
            if not last.finished:
                self._began_at = last.began
                self._content, self._hashed_files = last.content, last.begun
        elif last is not None and not last.finished and self._names_files:
            since = datetime.fromisoformat(last.began).timestamp() + 1  # it has no fraction
            files = [(file.name, Path(file.name).stat()) for file in self._files[: last.begun]]
            newer = [name for name, stat in files if max(stat.st_mtime, stat.st_ctime) > since]
            raise FolderNotEmpty(self._name, (*map(NEWER.format, newer[:1]), HALF_DONE))
        transaction.manifest = replace(transaction.manifest, sources=self._sources)
        for group in self._groups:
            writer.set_searched_fields(group.read.searched_fields)
        # Ids need no lookup if all rows are from this load, because reading finds repeated ids.
        self._alone = last.alone if self._start and last else transaction.rows == 0
        if sum(len(group.sources) for group in self._groups) > 1:
            self._ids = SeenIds()
        started, rows_before, counts = time.monotonic(), transaction.rows, self._counts
        rows_to_sync = NO_ROWS
        if self._syncs:
            numbers = in_scope(self._sources, self._groups)
            rows_to_sync = transaction.rows_of_sources(numbers)
        for group in reversed(self._groups):  # the last document with an id counts: read it first
            self._load_group(group)
        removed = self._remove_missing(rows_to_sync) if self._syncs else 0
        writer.commit(self._record(finished=True))
        notes = [*self._notes, *self._log.notes, *chain(*(group.notes for group in self._groups))]
        encoder = self._before.model.encoder if counts["too_long"] else None
        if encoder is not None:
            cut = counts["too_long"], counts["tokens_cut"], encoder.max_tokens or 0
            notes.append(cut_note(*cut, estimated=counts["estimated"] > 0))
        fields: dict[str, Any] = {**counts}
        fields.pop("estimated", None)
        return LoadReport(
            **fields,
            resumed=self._start,
            added=transaction.rows - rows_before - counts["updated"],
            removed=removed,
            skipped=self._log.skipped.count,
            first_skipped=tuple(self._log.skipped.first),
            dropped=self._log.repeated,
            seconds=time.monotonic() - started,
            left_out=writer.left_out.count,
            first_left_out=tuple(writer.left_out.first),
            notes=tuple(notes),
        )

    def _continues(self, last: Load) -> bool:
        """Whether this load can resume an unfinished load whose files have other times.

        The settings must be the same, and the content of the files that the last load began.
        """
        if last.finished or self._plan is None:
            return False
        content = self._content
        for file in self._files[: last.begun]:
            content = _hash_file(content, file)
        return content == last.content

    def _load_group(self, group: FileGroup) -> None:
        """Read, encode and add documents."""
        counts, writer = self._counts, self._writer
        encoder, shards = self._before.model.encoder, None
        threads = self._threads or (1 if encoder is None else encoder.threads)
        has_vectors = self._given is not None or group.read.vector_field is not None
        if group.shards is not None:
            shards, has_vectors, threads = Shards.open(group.shards), True, 0  # little to do
        elif encoder is None and not has_vectors:
            raise VocabtoolError(
                f"{self._name}: contains your own vectors and has no encoder: pass the vectors of "
                "these documents (--vectors FILE, --vector-field FIELD, or a folder of `vocabtool "
                "embed`), or the model that made the vectors (--model)"
            )
        elif encoder is not None and self._before.manifest.configuration.encoder is not None:
            self._measure = encoder.measure
        pending = Stream.from_generator(
            partial(self._pending_batches, group, shards, cuts=not has_vectors)
        )
        read_before = counts["read"] - self._start
        size = sum(file.size for file in self._files)
        speed = measure_speed(read_before if has_vectors else counts["encoded"])
        with closed_after(pending.map(self._encode, workers=threads)) as encoded:
            for batch in encoded:
                self._add(batch, group)
                self._log.done = counts["read"]
                uncommitted = counts["read"] - self._committed
                if uncommitted >= self._commit_rows or writer.is_due:
                    writer.commit(self._record(finished=False), codes=False)
                    self._committed = counts["read"]
                if self._progress is not None:
                    share = self._log.share(size)
                    if shards is not None:
                        share = (counts["read"] - read_before) / len(shards)
                    read = counts["read"] - self._start
                    # An update encodes only some documents; the others take no time.
                    timed = read if has_vectors else counts["encoded"]
                    step = documents_done(
                        counts["read"], speed(timed), timed if timed < read else None
                    )
                    self._progress(step, share)

    def _add(self, pending: PendingBatch, group: FileGroup) -> None:
        writer, batch = self._writer, pending.batch
        rows_before = writer.transaction.rows
        if batch.path_first:
            writer.set_searched_fields(PATH_FIRST)
        writer.add_batch(
            batch,
            on_existing=self._on_existing,
            on_error=group.read.on_error,
            source=pending.source,
            are_new=self._alone,
        )
        writer.set_source(pending.same, max(pending.source, 0))
        self._reached = max(self._reached, self._numbers.get(batch.source, len(self._numbers)))
        self._rows_read.append(pending.existing)
        self._counts.update(pending.counts)
        self._counts.update(
            updated=len(pending.existing) - len(pending.same),
            unchanged=pending.counts["read"] - (writer.transaction.rows - rows_before),
        )

    def _remove_missing(self, rows: Rows) -> int:
        """Delete the documents that the files no longer contain; return how many.

        ``rows``: the rows of these files before the load. No other row is deleted.
        """
        missing = rows[~are_among(rows, np.concatenate(self._rows_read))]
        message = f"{self._name}: {len(missing):,} of the {len(rows):,} documents from these FILEs "
        message += "are no longer in them"
        changed = changes(self._files, _facts(self._groups))
        if changed:
            raise VocabtoolError(
                f"{self._name}: a file changed during the load: {changed[0]}. Run the command again"
            )
        if len(missing) and self._log.skipped.count and not self._force:
            bad = self._log.skipped.first[0]
            raise VocabtoolError(
                f"{message}. Perhaps they are in rows that were skipped as invalid (first: "
                f"{bad.place}: {bad.reason}). Fix the rows, or use --force (force=True) to delete "
                "these documents"
            )
        if len(missing) > MAX_REMOVED * len(rows) and not self._force:
            raise VocabtoolError(
                f"{message}. This is more than a third, so nothing was changed. Check that no "
                "FILE is missing or incomplete. --force (force=True) deletes the documents"
            )
        self._writer.delete_rows(missing)
        return len(missing)

    def _record(self, *, finished: bool) -> Load | None:
        """Return the record of this load for a commit; ``None`` if the load reads a stream."""
        if self._plan is None:
            return None
        # An update that was interrupted reads all documents again.
        is_counted = finished or not self._is_update
        if is_counted and not finished:
            for file in self._files[self._hashed_files : self._reached]:
                self._content = _hash_file(self._content, file)
            self._hashed_files = max(self._hashed_files, self._reached)
        return Load(
            plan=self._plan,
            documents=self._counts["read"] if is_counted else 0,
            finished=finished,
            alone=self._alone,
            synced=finished and self._syncs,
            began=self._began_at,
            content=self._content,
            begun=self._hashed_files,
        )

    def _pending_batches(
        self, group: FileGroup, shards: Shards | None, *, cuts: bool
    ) -> Iterator[PendingBatch]:
        """Yield the documents that are not loaded yet, checked.

        ``cuts``: whether to cut batches that the encoder would need too long for.
        """
        documents = self._read(group, shards)
        if self._given is not None:
            documents = self._attach_vectors(group, self._given, documents)
        with closed_after(documents) as remaining:
            for whole, source in remaining:
                spans = self._writer.pace.spans(len(whole)) if cuts else [(0, len(whole))]
                for start, end in spans:
                    yield self._check(group, whole.part(start, end), source)

    def _check(self, group: FileGroup, batch: Batch, source: int) -> PendingBatch:
        """Check documents. Leave out those whose id was read before, if they are compared."""
        if batch.vectors is not None and group.shards is None:
            self._check_vectors(batch)
            source = 0 if source == ENCODED else source
        bad = int(not_utf8(batch.texts))
        if bad and not self._has_not_utf8:
            self._has_not_utf8 = True
            what = "its text is not UTF-8; convert it, for example with iconv"
            self._notes.append(f"{batch.source}: {what}")
        if self._compares:
            batch = self._writer.of_kinds(batch, group.read.on_error)
            if self._ids is not None:
                repeated = self._ids.add(batch.id_array(), "", batch.numbers)
                self._log.repeated += len(repeated)
                batch = batch.only(~np.isin(np.arange(len(batch)), repeated))
        counts = {"read": len(batch), "not_utf8": bad}
        return PendingBatch(batch=batch, source=source, counts=counts)

    def _read(self, group: FileGroup, shards: Shards | None) -> Iterator[tuple[Batch, int]]:
        """Yield the documents that are not loaded yet, and the number of their FILE."""
        labels = group.files
        if shards is not None:
            number = next((number for _, number in labels.values()), 0)
            labels = {str(shards.path): (str(shards.path), number)}
        for sources in reversed(group.sources):
            if shards is not None:
                documents = self._read_shards(shards, group.read.fields)
            else:
                documents = batches(
                    sources,
                    group.read,
                    log=self._log,
                    size=BATCH_BYTES,
                    rows=BATCH_ROWS,
                    start=self._start,
                    measure=self._measure,
                )
            with closed_after(documents):
                for batch in documents:
                    self._log.documents += len(batch)
                    name, number = labels.get(batch.source, (batch.source, ENCODED))
                    searched = PATH_FIRST if batch.path_first else group.read.fields
                    yield of_file(batch.with_source(name), searched), number

    def _attach_vectors(
        self, group: FileGroup, given: Given, documents: Iterable[tuple[Batch, int]]
    ) -> Iterator[tuple[Batch, int]]:
        skipped = self._log.skipped
        skipped_before = skipped.count
        with open_vectors(given, self._path) as vectors, closed_after(documents) as remaining:
            if not vectors.has_ids and not group.is_stream and not self._start:
                check_counts(vectors, group.sources, group.read, self._measure)
            matcher = Matcher(vectors, self._start)
            for batch, source in remaining:
                if not vectors.has_ids and skipped.count > skipped_before:
                    place, reason = skipped.first[-1]
                    what = f"skipped row ({reason}). Correct it, because {vectors.name} has a "
                    raise InvalidFile(f"{what}vector for each row", file=place)
                for complete in matcher.attach(batch):
                    yield complete, source
            note = matcher.finish()
            if note:
                self._notes.append(note)

    def _check_vectors(self, batch: Batch) -> None:
        """Check vectors that are not the encoder's; compare the first with those it makes."""
        vectors, configuration = batch.vectors, self._before.manifest.configuration
        if vectors is None or not len(batch):
            return
        dim = vectors.shape[1]
        if dim != configuration.dim:
            what = f"the vector has {dim:,} numbers, but the index needs {configuration.dim:,}"
            raise InvalidFile(what, file=batch.place(0))
        encoder = self._before.model.encoder
        if encoder is not None and not self._is_compared:
            rows = spread(len(batch), CANDIDATES)
            texts = (batch.texts[row].as_buffer().to_pybytes() for row in rows)
            canaries = Canaries(
                [batch.id_of(int(row)) for row in rows],
                [text.decode("utf-8", "replace") for text in texts],
                prepare(vectors[rows], configuration.metric),
            )
            with naming_documents(batch.id_array()):
                agreement = compare_canaries(self._name, canaries, encoder, configuration.metric)
            self._is_compared = agreement.documents > 0

    def _read_shards(self, shards: Shards, searched: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the documents of all shards that are not loaded yet."""
        embedded = shards.plan.read.field
        if searched and embedded != searched:
            if not isinstance(embedded, str):
                embedded = " and ".join(embedded or ("text",))
            raise VocabtoolError(
                f"{shards.path}: was embedded from the field {embedded}, "
                f"not from {' and '.join(searched)}"
            )
        configuration = self._before.manifest.configuration
        if configuration.encoder not in (None, shards.plan.encoder):
            encoder = self._before.model.encoder
            if encoder is None or shards.plan.encoder not in same_for_documents(encoder):
                prints = str(configuration.encoder), shards.plan.encoder
                raise OtherModel(str(shards.path), "encoder", *prints, advice=AS_EMBEDDED)
        if shards.dim != configuration.dim:
            raise VocabtoolError(
                f"{shards.path}: its vectors have {shards.dim:,} numbers, but the index needs "
                f"{configuration.dim:,}"
            )
        if not shards.plan.text:
            raise VocabtoolError(
                f"{shards.path}: contains no texts (text=False), but keyword search needs them"
            )
        names, end = shards.plan.read.kept_fields, 0
        for whole in shards.batches([ID, VECTOR, TEXT, *names]):
            end += len(whole)
            rows = whole.slice(max(len(whole) - (end - self._start), 0))
            if len(rows):
                yield Batch(
                    source=str(shards.path),
                    texts=rows.column(TEXT),
                    numbers=np.arange(end - len(rows), end) + 1,
                    ids=rows.column(ID),
                    columns={name: as_strings(rows.column(name), name) for name in names},
                    vectors=vectors_of(rows),
                )

    def _encode(self, pending: PendingBatch) -> PendingBatch:
        """Leave out the documents that have not changed; encode those without a vector."""
        before, batch, counts = self._before, pending.batch, Counter(pending.counts)
        existing = same = NO_ROWS
        if self._compares:
            rows, is_same = find_unchanged(before, batch)
            existing, same, batch = rows[rows >= 0], rows[is_same], batch.only(~is_same)
        vectors = batch.vectors
        if vectors is None:
            vectors = np.empty((len(batch), before.manifest.configuration.dim), np.float32)
            is_new = np.ones(len(batch), np.bool_)
            if self._compares:  # an equal text in the index has the vector already
                twins = before.rows_of_texts(batch.texts.view(pa.binary()).to_pylist())
                is_new = twins < 0
                try:
                    vectors[~is_new] = before.take(twins[~is_new])
                except DocumentsChanged:  # a commit of this load has deleted some of them meanwhile
                    is_new[:] = True
            new = batch if is_new.all() else batch.only(is_new)
            if len(new):
                encoder = self._writer.encoder()
                with naming_documents(new.id_array()), self._writer.pace.timed(len(new)):
                    vectors[is_new], *cut = encoder.encode_counting(new.texts)
                counts["too_long"], counts["tokens_cut"], counts["estimated"] = cut
            counts["encoded"] = len(new)
        counts["zero"] = int(np.count_nonzero(~vectors.any(axis=1)))
        batch = replace(batch, vectors=vectors)
        return replace(pending, batch=batch, counts=counts, existing=existing, same=same)


def _facts(groups: Sequence[FileGroup]) -> tuple[Input, ...]:
    """Return the size and time of each file, with its name in ids."""
    return tuple(
        replace(file, name=name)
        for group in groups
        for file, (name, _) in zip(facts_of(group.files), group.files.values(), strict=True)
    )


def _plan_of(
    groups: Sequence[FileGroup], files: Sequence[Input], vectors: Given | None
) -> tuple[str | None, str]:
    """Return two hashes: of the settings and files of a load, and of its settings alone.

    The first identifies the load; it is ``None`` if the load reads a stream.
    """
    if any(group.is_stream for group in groups):
        return None, ""
    settings: list[object] = [asdict(replace(group.read, on_error="raise")) for group in groups]
    if isinstance(vectors, str | os.PathLike):
        with reading(os.fspath(vectors)):
            stat = Path(vectors).stat()
        settings.append([os.fspath(vectors), stat.st_size, stat.st_mtime_ns])
    elif vectors is not None:
        settings.append(checksum_of(vectors))
    plan, content = (
        hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
        for entries in ([*map(asdict, files), *settings], settings)
    )
    return plan, content


def _hash_file(content: str, file: Input) -> str:
    """Continue a hash with a file: its content, or its time if it is large or has changed."""
    start = os.fsencode(f"{content} {file.name}")
    with suppress(VocabtoolError):
        if file.size <= HASHED_BYTES:
            digest = hash_files(start, [Path(file.name)])
            if facts_of([file.name]) == (file,):  # else documents were read from other content
                return digest
    return hash_files(start + b" %d" % file.changed, [])


def dim_of_own_vectors(sources: Sources, read: ReadOptions, vectors: Given | None) -> int:
    """Return the length of the user's own vectors, for a new index without a model.

    They are in ``vectors``, in a field of the documents, or in a folder that :func:`embed` wrote.
    Raises ``ValueError`` without such vectors, and :class:`NotFound` if no document has a vector.
    """
    shards = shards_in(sources)
    if shards is not None:
        return Shards.open(shards).dim
    if vectors is not None:
        with open_vectors(vectors) as opened:
            return opened.dim
    if read.vector_field is None:
        raise ValueError(
            "--model is missing; it may be omitted only with --vectors or --vector-field, "
            "or if FILE is one folder that embed wrote. If you have no model, make one "
            "from your texts: vocabtool train FILE... -o words.npz, then --model words.npz"
        )
    for batch in batches(sources, replace(read, on_duplicate=None), log=ReadLog()):
        if batch.vectors is not None and len(batch):
            return int(batch.vectors.shape[1])
    raise NotFound("no document has a vector, so the length of the vectors is unknown")


def sample_or_weights(
    request: CreationForSources, index: Path, notify: Callable[[str], object]
) -> tuple[Iterable[bytes] | None, FittedWeights | str | Path | None]:
    """Return texts on which a new index fits word weights, or ``None``, and weights, or ``None``.

    There are no texts of what is read only once. The weights are those given, or of a run of embed.
    ``index``: the folder of the index, whose files are not read. Raises an error for a file that
    cannot be read. Notes if the documents have a field that could be their id.
    """
    sources, read, fitted = request.sources, request.read, request.fitted
    shards = shards_in(sources)
    if shards is not None:
        return None, fitted or fitted_weights(shards)
    files = files_outside(sources, index, read) or []
    if names_of(sources) is None or not can_be_read_again(files):
        return None, fitted
    first = next(documents(files, read, log=ReadLog(), size=1), None)
    facts_of(files)  # raises if another file is missing
    for name in ("id", "_id"):
        if read.id_field is None and first is not None and first.fields.get(name) is not None:
            use = f"the documents have a field {name!r}: use it with --id-field {name}"
            notify(f"the ids of documents are FILE:LINE; {use}")
    return sample(files, read), fitted
