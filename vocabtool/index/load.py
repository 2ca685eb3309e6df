"""Load documents from files into an index; an interrupted load can be resumed.

Each commit contains the state of the load, so that no document is lost or added twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from glob import has_magic
from itertools import chain, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Batch
from vocabtool.documents.files import (
    Input,
    can_be_read_again,
    changes,
    facts_of,
    files_outside,
    find,
)
from vocabtool.documents.options import PATH_FIRST, ReadOptions, weights_of
from vocabtool.documents.reading import (
    ReadLog,
    SeenIds,
    Skip,
    Sources,
    batches,
    left_out,
    names_of,
)
from vocabtool.documents.tables import as_strings
from vocabtool.documents.vectors import Given, Matcher, check_counts, checksum_of, open_vectors
from vocabtool.embedding.shards import ID, RUN, TEXT, VECTOR, Shards, vectors_of
from vocabtool.encoders.encoder import Pace, hash_files, naming_documents, same_for_documents
from vocabtool.errors import (
    FolderNotEmpty,
    InvalidFile,
    NotFound,
    OtherModel,
    VocabtoolError,
    reading,
)
from vocabtool.index.database import ENCODED
from vocabtool.index.documents import of_file, union, values_of
from vocabtool.index.folder import Load, Source, home
from vocabtool.index.measures import CANDIDATES, Canaries, compare_canaries, spread
from vocabtool.index.snapshot import DocumentsChanged, IndexSnapshot
from vocabtool.index.vectors import as_stored, prepare
from vocabtool.index.writer import Writer, check_choice
from vocabtool.system.messages import Progress, Speed, documents_done
from vocabtool.system.parallel import closed_after
from vocabtool.system.ranking import Rows, are_among
from vocabtool.tokenization.text_arrays import not_utf8
from vocabtool.tokenization.token_limit import CountTokens, cut_note

BATCH_BYTES: Final = 1 << 20  # of text that are encoded together
BATCH_ROWS: Final = 1024
COMPARED_ROWS: Final = 32  # at a time; most of them are not encoded
AS_SHIPPED: Final = ReadOptions(path_first=True)
WAS_READ: Final = ", but {0} was made from it; restore it, or name the FILEs to read"
MAX_REMOVED: Final = 1 / 3  # share of the documents of the FILEs; more need ``force``
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What to load, and how: see :meth:`Index.load` and :meth:`Index.update`.

    ``sources``: ``None`` to read the files of the index. ``read``: ``None`` to use the recorded
    options.
    """

    sources: Sources | None
    read: ReadOptions | None
    on_existing: OnExisting
    commit_rows: int
    threads: int | None
    sync: bool = False
    force: bool = False
    vectors: Given | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """FILE arguments that are read with the same options.

    - ``sources``: the inputs. If several inputs contain the same id, the last document is used.
    - ``files``: for each path, a pair: the file's name, as in ids and messages, and the number of
      the FILE argument.
    - ``notes``: messages about files that are not read.
    - ``shards``: the path of the input if it is a folder of shards.
    """

    sources: tuple[Sources, ...]
    read: ReadOptions
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    is_stream: bool = False
    notes: tuple[str, ...] = ()
    shards: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadBatch:
    """Documents on their way from a FILE into the index.

    - ``batch``: the documents; when they are encoded, only those to add, with their vectors.
    - ``source``: the number of the FILE of these documents.
    - ``counts``: what is counted of the documents that were read, by fields of :class:`LoadReport`.
    - ``estimated``: how many texts are too long by an estimate of their tokens.
    - ``existing``: rows of the index that have the id of a document that was read.
    - ``same``: the rows among ``existing`` whose content is unchanged.
    """

    batch: Batch
    source: int
    counts: Mapping[str, int]
    estimated: int
    existing: Rows
    same: Rows


class Loader:
    """Loads documents from files into an index.

    ``name``: the name of the index, for messages. ``path``: the folder of the index; files in this
    folder are not loaded. ``before``: the last commit before the load.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        before: IndexSnapshot,
        writer: Writer,
        request: LoadRequest,
        progress: Progress | None,
    ) -> None:
        if request.commit_rows < 1:
            raise ValueError(f"commit_rows must be at least 1, got {request.commit_rows}")
        check_choice(request.on_existing)
        self._name, self._path = name, path
        self._before = before
        self._writer = writer
        self._request = request
        self._progress = progress
        known, outside = writer.manifest.sources, home(path)
        if request.sources is not None and request.read is not None:
            self._parts, self._sources = parts_of_names(
                request.sources, request.read, known, outside, request.vectors
            )
        else:
            self._parts, self._sources = parts_of_index(
                request.sources, known, outside, sync=request.sync, vectors=request.vectors
            )
        for part in self._parts:
            if request.vectors is not None and (part.shards or part.read.vector_field):
                there = "the vectors in a folder of embed" if part.shards else "--vector-field"
                raise ValueError(f"--vectors (vectors=) cannot be combined with {there}")
        self._facts = _facts(self._parts)
        self._plan, self._content = _plan_of(self._parts, self._facts, request.vectors)
        self._places = {fact.name: place for place, fact in enumerate(self._facts, 1)}
        self._begun = 0  # FILEs with committed documents, or before these
        self._reached = 0  # the same for documents that are not committed yet
        self._compares = request.on_existing == "update"
        if self._compares:
            writer.pace = Pace(COMPARED_ROWS)
        self._seen = [NO_ROWS]  # rows of documents that were read
        self._ids: SeenIds | None = None  # of the FILEs read so far, if there are several
        self._log = ReadLog()
        self._measure: CountTokens | None = None
        self._start = 0
        self._began = datetime.now(UTC).isoformat(timespec="seconds")
        self._counts = Counter(read=0)  # by fields of LoadReport
        self._committed = 0  # documents read at the last commit
        self._alone = False
        self._is_compared = False  # whether the model agrees with given vectors
        self._notes: list[str] = []
        self._has_not_utf8 = False  # tells the first file only

    def run(self) -> LoadReport:
        """Load the documents, or resume; do nothing if all are loaded.

        Raises :class:`FolderNotEmpty` if a different load is unfinished.
        """
        self._before.model.check_given()
        last, request, writer = self._writer.manifest.load, self._request, self._writer
        if last is not None and (last.plan == self._plan or self._continues(last)):
            if last.finished and (last.synced or not request.sync):
                return LoadReport(
                    read=last.documents, resumed=last.documents, unchanged=last.documents
                )
            self._start = last.documents if request.read is not None else 0
            self._counts["read"] = self._committed = self._log.documents = self._start
            if not last.finished:
                self._began = last.began
                self._content, self._begun = last.content, last.begun
        elif last is not None and not last.finished and request.sources is not None:
            since = datetime.fromisoformat(last.began).timestamp() + 1  # it has no fraction
            stats = {fact.name: Path(fact.name).stat() for fact in self._facts[: last.begun]}
            changed = [
                NEWER.format(name)
                for name, stat in stats.items()
                if max(stat.st_mtime, stat.st_ctime) > since
            ]
            raise FolderNotEmpty(self._name, (*changed[:1], HALF_DONE))
        writer.transaction.register_sources(self._sources)
        for part in self._parts:
            searched = part.read.searched_fields
            if part.shards is not None and searched:
                field, names = Shards.open(part.shards).plan.read.field, (*weights_of(searched),)
                if field != names:
                    embedded = field if isinstance(field, str) else " and ".join(field or ("text",))
                    raise VocabtoolError(
                        f"{part.shards}: was embedded from the field {embedded}, "
                        f"not from {' and '.join(names)}"
                    )
            writer.set_searched_fields(searched)
        # Ids need no lookup if all rows are from this load, because reading finds repeated ids.
        self._alone = last.alone if self._start and last else writer.rows == 0
        if sum(len(part.sources) for part in self._parts) > 1:
            self._ids = SeenIds()
        began, before, counts, estimated = time.monotonic(), writer.rows, self._counts, 0
        was_there = NO_ROWS
        if request.sync:
            was_there = writer.transaction.rows_of_sources(in_scope(self._sources, self._parts))
        for part in reversed(self._parts):  # the last document with an id counts: read it first
            estimated += self._load_part(part)
        removed = self._remove(was_there) if request.sync else 0
        writer.commit(self._load(finished=True))
        notes = [*self._notes, *self._log.notes, *chain(*(part.notes for part in self._parts))]
        if counts["too_long"] and (encoder := self._before.model.encoder) is not None:
            cut = counts["too_long"], counts["tokens_cut"], encoder.max_tokens or 0
            notes.append(cut_note(*cut, estimated=estimated > 0))
        fields: dict[str, Any] = {**counts}
        return LoadReport(
            **fields,
            resumed=self._start,
            added=writer.rows - before - counts["updated"],
            removed=removed,
            skipped=self._log.skipped.count,
            first_skipped=tuple(self._log.skipped.first),
            dropped=self._log.repeated,
            seconds=time.monotonic() - began,
            left_out=writer.left_out.count,
            first_left_out=tuple(writer.left_out.first),
            notes=tuple(notes),
        )

    def _continues(self, last: Load) -> bool:
        """Whether an unfinished load has the same settings, and its files the same content.

        Only the files count that it has read.
        """
        if last.finished or self._plan is None:
            return False
        content = self._content
        for fact in self._facts[: last.begun]:
            content = _hash_file(content, fact)
        return content == last.content

    def _load_part(self, part: Part) -> int:
        """Read, encode and add documents; return how many lengths of texts were estimated."""
        from vocabtool.streams.stream import Stream  # a search needs no streams

        encoder, counts, given = self._before.model.encoder, self._counts, self._request.vectors
        threads = self._request.threads or (1 if encoder is None else encoder.threads)
        encodes = given is None and part.shards is None and part.read.vector_field is None
        shards, speed = None, Speed(counts["encoded"] if encodes else counts["read"] - self._start)
        if part.shards is not None:
            shards, threads = Shards.open(part.shards), 0  # there is little to do
        elif encoder is None and given is None and part.read.vector_field is None:
            raise VocabtoolError(
                f"{self._name}: contains your own vectors and has no encoder: pass the vectors of "
                "these documents (--vectors FILE, --vector-field FIELD, or a folder of `vocabtool "
                "embed`), or the model that made the vectors (--model)"
            )
        elif encoder is not None and self._before.manifest.configuration.encoder is not None:
            self._measure = CountTokens.of(encoder.words, encoder.max_tokens)
        read = Stream.from_generator(partial(self._read, part, shards))
        if given is not None:
            read = Stream.from_generator(partial(self._with_vectors, part, given, read))
        elif encodes:
            read = read.flat_map(self._in_pieces)
        prepared = read.map(partial(self._prepare, part))
        estimated, done = 0, counts["read"] - self._start
        size = sum(fact.size for fact in self._facts)
        with closed_after(prepared.map(self._encode, workers=threads)) as encoded:
            for batch in encoded:
                self._add(batch, part)
                self._log.done = counts["read"]
                estimated += batch.estimated
                rows = counts["read"] - self._committed
                if rows >= self._request.commit_rows or self._writer.is_due:
                    self._writer.commit(self._load(finished=False), codes=False)
                    self._committed = counts["read"]
                if self._progress is not None:
                    share = self._log.share(size)
                    if shards is not None:
                        share = (counts["read"] - done) / len(shards)
                    # An update encodes only some: what it leaves out takes no time.
                    new = counts["encoded"] if encodes else counts["read"] - self._start
                    others = counts["read"] - self._start > new
                    step = documents_done(counts["read"], speed(new), new if others else None)
                    self._progress(step, share)
        return estimated

    def _add(self, encoded: LoadBatch, part: Part) -> None:
        """Give documents to the writer, and count them."""
        writer = self._writer
        rows = writer.rows
        if encoded.batch.path_first:
            writer.set_searched_fields(PATH_FIRST)
        writer.add_batch(
            encoded.batch,
            encoded.batch.vectors,
            on_existing=self._request.on_existing,
            on_error=part.read.on_error,
            source=encoded.source,
            are_new=self._alone,
        )
        writer.set_source(encoded.same, max(encoded.source, 0))
        place = self._places.get(encoded.batch.source, len(self._places))
        self._reached = max(self._reached, place)
        self._seen.append(encoded.existing)
        self._counts.update(encoded.counts)
        self._counts.update(
            updated=len(encoded.existing) - len(encoded.same),
            unchanged=encoded.counts["read"] - (writer.rows - rows),
        )

    def _remove(self, rows: Rows) -> int:
        """Delete the documents that the files no longer contain; return how many.

        ``rows``: the rows of these files before the load. No other row is deleted.
        """
        gone = rows[~are_among(rows, np.concatenate(self._seen))]
        message = f"{self._name}: {len(gone):,} of the {len(rows):,} documents from these FILEs "
        message += "are no longer in them"
        if changed := changes(self._facts, _facts(self._parts)):
            raise VocabtoolError(
                f"{self._name}: a file changed during the load: {changed[0]}. Run the command again"
            )
        if len(gone) and self._log.skipped.count and not self._request.force:
            bad = self._log.skipped.first[0]
            raise VocabtoolError(
                f"{message}. Perhaps they are in rows that were skipped as invalid (first: "
                f"{bad.place}: {bad.reason}). Fix the rows, or use --force (force=True) to delete "
                "these documents"
            )
        if len(gone) > MAX_REMOVED * len(rows) and not self._request.force:
            raise VocabtoolError(
                f"{message}. This is more than a third, so nothing was changed. Check that no "
                "FILE is missing or incomplete. --force (force=True) deletes the documents"
            )
        self._writer.delete_rows(gone)
        return len(gone)

    def _load(self, *, finished: bool) -> Load | None:
        """Return the record of this load for a commit; ``None`` if the load has no plan."""
        if self._plan is None:
            return None
        # An update that was interrupted reads all documents again.
        is_counted = finished or self._request.read is not None
        if is_counted and not finished:
            for fact in self._facts[self._begun : self._reached]:
                self._content = _hash_file(self._content, fact)
            self._begun = max(self._begun, self._reached)
        return Load(
            plan=self._plan,
            documents=self._counts["read"] if is_counted else 0,
            finished=finished,
            alone=self._alone,
            synced=finished and self._request.sync,
            began=self._began,
            content=self._content,
            begun=self._begun,
        )

    def _read(self, part: Part, shards: Shards | None) -> Iterator[tuple[Batch, int]]:
        """Yield the documents that are not loaded yet, and the number of their FILE."""
        files = part.files
        if shards is not None:
            number = next((number for _, number in files.values()), 0)
            files = {str(shards.path): (str(shards.path), number)}
        for sources in reversed(part.sources):
            if shards is not None:
                read = self._read_shards(shards)
            else:
                read = batches(
                    sources,
                    part.read,
                    log=self._log,
                    size=BATCH_BYTES,
                    rows=BATCH_ROWS,
                    start=self._start,
                    measure=self._measure,
                )
            with closed_after(read):
                for batch in read:
                    self._log.documents += len(batch)
                    name, number = files.get(batch.source, (batch.source, ENCODED))
                    searched = PATH_FIRST if batch.path_first else part.read.fields
                    yield of_file(batch.with_source(name), searched=searched), number

    def _in_pieces(self, read: tuple[Batch, int]) -> Iterator[tuple[Batch, int]]:
        """Cut documents that the encoder would need too long for."""
        batch, source = read
        for piece in self._writer.cut(batch):
            yield piece, source

    def _with_vectors(
        self, part: Part, given: Given, read: Iterable[tuple[Batch, int]]
    ) -> Iterator[tuple[Batch, int]]:
        """Yield the documents with the vectors that the user gave."""
        skipped = self._log.skipped
        before = skipped.count
        with open_vectors(given, self._path) as vectors, closed_after(read) as remaining:
            if not vectors.has_ids and not part.is_stream and not self._start:
                check_counts(vectors, part.sources, part.read, self._measure)
            matcher = Matcher(vectors, self._start)
            for batch, source in remaining:
                if not vectors.has_ids and skipped.count > before:
                    place, reason = skipped.first[-1]
                    what = f"skipped row ({reason}). Correct it, because {vectors.name} has a "
                    raise InvalidFile(f"{what}vector for each row", file=place)
                for documents in matcher.attach(batch):
                    yield documents, source
            self._notes += filter(None, [matcher.finish()])

    def _prepare(self, part: Part, read: tuple[Batch, int]) -> LoadBatch:
        """Check documents, and leave out those whose id was read before, if they are compared."""
        batch, source = read
        if batch.vectors is not None and part.shards is None:
            self._check_given(batch)
            source = 0 if source == ENCODED else source
        bad = int(not_utf8(batch.texts))
        if bad and not self._has_not_utf8:
            self._has_not_utf8 = True
            what = "its text is not UTF-8; convert it, for example with iconv"
            self._notes.append(f"{batch.source}: {what}")
        if self._compares:
            batch = self._writer.of_kinds(batch, part.read.on_error)
        if self._compares and self._ids is not None:
            repeated = self._ids.add(batch.id_array(), "", batch.numbers)
            self._log.repeated += len(repeated)
            batch = batch.only(~np.isin(np.arange(len(batch)), repeated))
        return LoadBatch(
            batch=batch,
            source=source,
            counts={"read": len(batch), "not_utf8": bad},
            estimated=0,
            existing=NO_ROWS,
            same=NO_ROWS,
        )

    def _check_given(self, batch: Batch) -> None:
        """Check vectors that are not the encoder's; compare the first with those it makes."""
        vectors, configuration = batch.vectors, self._before.manifest.configuration
        if vectors is None or not len(batch):
            return
        if (dim := vectors.shape[1]) != configuration.dim:
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
            agreement = compare_canaries(self._name, canaries, encoder, configuration.metric)
            self._is_compared = agreement.documents > 0

    def _read_shards(self, shards: Shards) -> Iterator[Batch]:
        """Yield the documents of all shards that are not loaded yet."""
        configuration = self._writer.manifest.configuration
        if configuration.encoder not in (None, shards.plan.encoder):
            encoder = self._before.model.encoder
            if encoder is None or shards.plan.encoder not in same_for_documents(encoder):
                prints = str(configuration.encoder), shards.plan.encoder
                raise OtherModel(str(shards.path), "encoder", *prints, advice=AS_EMBEDDED)
        if shards.dim != configuration.dim:
            what = f"its vectors have {shards.dim:,} numbers, but the index needs "
            what += f"{configuration.dim:,}"
            raise VocabtoolError(f"{shards.path}: {what}")
        if not shards.plan.text:
            raise VocabtoolError(
                f"{shards.path}: contains no texts (text=False), but keyword search needs them"
            )
        end = 0
        for whole in shards.batches([ID, VECTOR, TEXT, *shards.plan.kept_fields]):
            end += len(whole)
            rows = whole.slice(max(len(whole) - (end - self._start), 0))
            if len(rows):
                yield Batch(
                    source=str(shards.path),
                    texts=rows.column(TEXT),
                    numbers=np.arange(end - len(rows), end) + 1,
                    ids=rows.column(ID),
                    columns={
                        name: as_strings(rows.column(name), name)
                        for name in shards.plan.kept_fields
                    },
                    vectors=vectors_of(rows),
                )

    def _encode(self, read: LoadBatch) -> LoadBatch:
        """Leave out the documents that have not changed; encode those without a vector."""
        batch, existing, same, counts = read.batch, NO_ROWS, NO_ROWS, Counter(read.counts)
        if self._compares:
            rows, is_same = find_unchanged(self._before, batch)
            existing, same, batch = rows[rows >= 0], rows[is_same], batch.only(~is_same)
        vectors, estimated = batch.vectors, 0
        if vectors is None:
            vectors = np.empty((len(batch), self._before.manifest.configuration.dim), np.float32)
            new, is_new = batch, np.ones(len(batch), np.bool_)
            if self._compares:  # an equal text in the index has the vector already
                twins = self._before.rows_of_texts(batch.texts.view(pa.binary()).to_pylist())
                is_new = twins < 0
                try:
                    vectors[~is_new] = self._before.take(twins[~is_new])
                except DocumentsChanged:  # a commit of this load has deleted some of them meanwhile
                    is_new[:] = True
                new = batch.only(is_new)
            if len(new):
                encoder = self._writer.encoder()
                with naming_documents(new.id_array()), self._writer.pace.timed(len(new)):
                    vectors[is_new], *cut = encoder.encode_counting(new.texts)
                counts["too_long"], counts["tokens_cut"], estimated = cut
            counts["encoded"] = len(new)
        counts["zero"] = int(np.count_nonzero(~vectors.any(axis=1)))
        return LoadBatch(
            batch=replace(batch, vectors=vectors),
            source=read.source,
            counts=counts,
            estimated=estimated,
            existing=existing,
            same=same,
        )


def _plan_of(
    parts: Sequence[Part], facts: Sequence[Input], vectors: Given | None
) -> tuple[str | None, str]:
    """Return a hash that identifies a load, or ``None`` if it reads a stream.

    The second hash is that of the settings alone, without the files.
    """
    if any(part.is_stream for part in parts):
        return None, ""
    plan: list[object] = [asdict(replace(part.read, on_error="raise")) for part in parts]
    if isinstance(vectors, str | os.PathLike):
        with reading(os.fspath(vectors)):
            stat = Path(vectors).stat()
        plan.append([os.fspath(vectors), stat.st_size, stat.st_mtime_ns])
    elif vectors is not None:
        plan.append(checksum_of(vectors))
    whole, settings = (
        hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
        for entries in ([*map(asdict, facts), *plan], plan)
    )
    return whole, settings


def _hash_file(content: str, file: Input) -> str:
    """Continue a hash with a file: its content, or its time if it is large or has changed."""
    start = os.fsencode(f"{content} {file.name}")
    with suppress(VocabtoolError):
        if file.size <= HASHED_BYTES:
            digest = hash_files(start, [Path(file.name)])
            if facts_of([file.name]) == (file,):  # else documents were read from other content
                return digest
    return hash_files(start + b" %d" % file.changed, [])


def _facts(parts: Sequence[Part]) -> tuple[Input, ...]:
    return tuple(
        replace(fact, name=name)
        for part in parts
        for fact, (name, _) in zip(facts_of(part.files), part.files.values(), strict=True)
    )


def find_unchanged(before: IndexSnapshot, batch: Batch) -> tuple[Rows, NDArray[np.bool_]]:
    """Return, for each document, its row in ``before`` (or -1), and whether it is unchanged."""
    kinds, vectors = before.manifest.fields, batch.vectors
    ids: list[str] = batch.id_array().to_pylist()
    rows_by_id = before.fetch_stored(ids)
    columns: list[list[object]] = [batch.texts.to_pylist()]
    for name in [*kinds, *(name for name in batch.columns if name not in kinds)]:
        values: list[object] = [None] * len(batch)
        if name in batch.columns:
            kind = union(kinds.get(name, "null"), batch.kinds[name])
            values = [
                value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
                for value in values_of(batch.columns[name], kind)
            ]
        columns.append(values)
    nothing = [None] * (len(columns) - 1 - len(kinds))
    existing, is_same = np.full(len(batch), -1), np.zeros(len(batch), np.bool_)
    for place, (id_, *values) in enumerate(zip(ids, *columns, strict=True)):
        if id_ in rows_by_id:
            existing[place], stored_values = rows_by_id[id_]
            is_same[place] = [*stored_values, *nothing] == values
    if vectors is not None:
        rows, configuration = np.flatnonzero(existing >= 0), before.manifest.configuration
        stored = as_stored(prepare(vectors[rows], configuration.metric), configuration.dtype)
        try:
            is_same[rows] &= (before.take(existing[rows]) == stored).all(axis=1)
        except DocumentsChanged:  # a commit of this load has deleted some of them meanwhile
            is_same[rows] = False
    return existing, is_same


def parts_of_names(
    sources: Sources,
    read: ReadOptions,
    known: Sequence[Source],
    index: Path,
    vectors: Given | None = None,
) -> tuple[list[Part], tuple[Source, ...]]:
    """Return a list of one part, which reads ``sources``, and all FILEs to record."""
    names = names_of(sources)
    read = replace(read, path_first=vectors is None)
    files = files_outside(sources, index, read)
    if files is None or names is None or not can_be_read_again(files):
        stream = sources if files is None else files
        return [Part((stream,), read, is_stream=True)], (*known,)
    named = [Source.from_name(name, index, read) for name in names]
    all_known, numbers = _remember(known, named)
    labels: dict[str, tuple[str, int]] = {}
    for source in named:
        inside = files_outside([source.name], index, read) or []
        for file in inside:
            labels.setdefault(file, (file, numbers[source.path]))
    if (shards := shards_in(sources)) is not None:
        return [Part((sources,), read, labels, shards=shards)], all_known
    notes = left_out(sources, read, index)
    return [Part((files,), read, labels, notes=notes)], all_known


def parts_of_index(
    sources: Sources | None,
    known: Sequence[Source],
    index: Path,
    *,
    sync: bool,
    vectors: Given | None = None,
) -> tuple[list[Part], tuple[Source, ...]]:
    """Return two values: the parts that an update reads, and all FILEs to record.

    ``sources``: the FILEs to read; ``None`` for all ``known`` FILEs. Raises :class:`NotFound` and
    :class:`VocabtoolError`.
    """
    known = [source.locate(index) for source in known]
    chosen, read = known, known[-1].options if known else AS_SHIPPED
    if sources is not None:
        names, given_files = names_of(sources), files_outside(sources, index, read)
        if names is None or not can_be_read_again(given_files):
            if sync:
                raise VocabtoolError("a stream cannot be synced: pass the names of files")
            stream = sources if given_files is None else given_files
            return [Part((stream,), read, is_stream=True)], (*known,)
        by_path = {source.path: source for source in known}
        named = [Source.from_name(name, index, read) for name in names]
        chosen = [by_path.get(source.path, source) for source in named]
        others = [source for source in known if source not in chosen]
        for source, other in product(chosen, others) if sync else ():
            if source in known:
                continue
            # Documents of this new FILE are recorded under the known folder or glob it is in.
            globbed = has_magic(other.path) and other.is_there()
            if Path(source.path).is_relative_to(other.path) or (
                globbed and source.path in find(other.path, other.options)
            ):
                raise VocabtoolError(
                    f"{source.name} is a part of {other.name} and cannot be synced alone: sync "
                    f"{other.name}, or omit FILE to sync all"
                )
    elif not chosen:
        raise VocabtoolError(f"{index}: the index has recorded no FILE; name the FILEs to read")
    all_known, numbers = _remember(known, chosen)
    parts: list[Part] = []
    taken: set[str] = set()
    for source in dict.fromkeys(chosen):
        if not source.is_there():
            is_known = any(source.path == other.path for other in known)
            raise NotFound(f"{source.path}: does not exist{WAS_READ.format(index) * is_known}")
        name = source.from_anywhere
        files = files_outside([name], index, source.options) or []
        by_real_path = {os.path.realpath(file): file for file in files}
        if not can_be_read_again(by_real_path.values()):
            raise VocabtoolError(f"{name}: is now a stream; name the FILEs to read")
        files = [file for real, file in by_real_path.items() if real not in taken]
        taken.update(by_real_path)
        start = "" if name == source.name else os.path.join(source.at, "")  # noqa: PTH118 - globs
        labels = {file: (file.removeprefix(start), numbers[source.path]) for file in files}
        if (shards := shards_in(name)) is not None:
            parts.append(Part((name,), source.options, labels, shards=shards))
            continue
        notes = left_out(name, source.options, index)
        inputs: tuple[Sources, ...] = (files,)
        last = parts[-1] if parts else None
        if last is not None and (last.read, last.shards) == (source.options, None):
            parts.pop()
            labels, notes = {**last.files, **labels}, (*last.notes, *notes)
            is_apart = source.options.on_duplicate == "error" and vectors is None
            inputs = (*last.sources, files) if is_apart else ([*labels],)
        parts.append(Part(inputs, source.options, labels, notes=notes))
    return parts, all_known


def in_scope(known: Sequence[Source], parts: Sequence[Part]) -> list[int]:
    """Return the numbers of the FILEs whose documents a sync of ``parts`` may remove."""
    numbers = {number for part in parts for _, number in part.files.values()}
    read = {os.path.abspath(file) for part in parts for file in part.files}  # noqa: PTH100 - links stay
    folders = [Path(known[number - 1].path) for number in numbers]
    seen = []
    for number, source in enumerate(known, 1):
        path = Path(source.path)
        inside = [path.relative_to(folder) for folder in folders if path.is_relative_to(folder)]
        shown = any(not any(part.startswith(".") for part in folder.parts) for folder in inside)
        is_seen = shown and (str(path) in read or path.is_dir() or not path.exists())
        if number in numbers or is_seen:
            seen.append(number)
    return seen


def shards_in(sources: Sources) -> Path | None:
    """Return the path of ``sources`` if it is one folder of shards, else ``None``."""
    names = names_of(sources)
    if names is not None and len(names) == 1 and (Path(names[0]) / RUN).is_file():
        return Path(names[0])
    return None


def _remember(
    known: Sequence[Source], now: Iterable[Source]
) -> tuple[tuple[Source, ...], dict[str, int]]:
    sources = {source.path: source for source in known} | {source.path: source for source in now}
    return (*sources.values(),), {path: number for number, path in enumerate(sources, 1)}
