"""Embed documents with an encoder into a folder of vectors: the public :func:`embed`.

The documents are divided into shards, and each shard into slabs, which are encoded as a whole.
Slabs depend only on the documents, so a batch of the encoder contains the same texts in every run.
Slabs pass through one :class:`Stream`, in this process or in each Ray actor: look up words, encode,
write. Shards are written one after another. The vectors of a slow encoder are kept until their
shard is written, so a killed run loses a batch of each thread, or with Ray a shard of each actor.
With Ray, every node must see inputs and output under the same paths.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from threading import Lock
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import SHARD_ROWS, Dtype
from vocabtool.documents.batch import Batch, Measure, Skip, SkipCounter, as_utf8, bounds
from vocabtool.documents.files import STDIN, can_be_read_again, changes, facts_of, files_outside
from vocabtool.documents.options import ID, TEXT, VECTOR, OnError, ReadArguments, ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, batches, left_out, sample
from vocabtool.embedding.shards import (
    RESERVED,
    UNKNOWN,
    Counts,
    Folder,
    Plan,
    Shard,
    Slab,
    UnfinishedVectors,
    Vectors,
    cast_texts,
    fitted_weights,
    open_folder,
    read_manifest,
    read_plan,
    shard_schema,
    type_in_shards,
    vector_array,
    without_a_value,
    write_shard,
)
from vocabtool.encoders.encoder import Encoder, FittedWeights, Pace, naming_documents
from vocabtool.encoders.open_encoder import Model, open_encoder
from vocabtool.encoders.static import StaticEncoder
from vocabtool.errors import (
    FolderNotEmpty,
    InvalidFile,
    UnsupportedFormat,
    VocabtoolError,
    no_documents,
)
from vocabtool.streams.stream import Stream
from vocabtool.system.messages import Progress, documents_done, measure_speed, plural
from vocabtool.system.parallel import closed_after
from vocabtool.tokenization.lookup import WordLookup, without_blanks
from vocabtool.tokenization.token_limit import cut_note
from vocabtool.vocabulary import encode, printable

SLAB_ROWS: Final = 1024  # or one batch of the encoder, if that is larger
SLAB_BYTES: Final = 4 << 20  # of text, unless a single text is longer
SHARD_BYTES: Final = 256 << 20  # of text at which a shard ends, even with few rows
READ_BYTES: Final = 1 << 20  # of text read at a time; small, so that encoding starts early
READ_AHEAD: Final = 16  # slabs
ENCODED_AHEAD: Final = 4  # slabs, while a row group is written
BLANKS: Final = " \t\n\v\f\r"
RAY_READING_CPUS: Final = 0.5  # if it were an actor's 1, Ray would fuse reading into the actor
KEPT_SECONDS: Final = 30.0  # for a shard; if it takes longer, its vectors are kept at once
LAST: Final = -1  # number of the row with the read log, which is not a shard
ANOTHER_STREAM: Final = (
    "the documents: they come from a stream, which cannot be read again to compare it (in Python, "
    "give the same stream the same name with source='a name')"
)

Columns = dict[str, Any]
ReadSlabs = Callable[[ReadLog], Iterator[Slab]]
MakeMaker = Callable[[], "ShardMaker"]


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """The result of a run.

    - ``counts``: counts of all documents in the folder.
    - ``encoded``: number of documents encoded in this call.
    - ``resumed``: number of shards that existed before this call.
    - ``redone``: number of shards that an earlier call left unfinished and this call made again.
    - ``skipped``: number of invalid rows.
    - ``dropped``: number of documents with a repeated id.
    - ``seconds``: time from the first document to the manifest.
    - ``notes``: the notes of the encoder, and notes on unread files, on kept fields without any
      value, and on texts that are too long.
    """

    folder: str
    shards: int
    counts: Counts
    encoded: int
    resumed: int
    redone: int
    skipped: int
    first_skipped: tuple[Skip, ...]
    dropped: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Documents encoded per second in this call."""
        return self.encoded / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object, with ``rate`` and the counts as keys."""
        record = asdict(self)
        counts = record.pop("counts")
        first = [skip._asdict() for skip in self.first_skipped]
        return {**record, **counts, "first_skipped": first, "rate": self.rate}


def embed(
    sources: Sources,
    model: Model,
    output: str | Path,
    read: ReadOptions | None = None,
    *,
    text: bool = True,
    shard_rows: int = SHARD_ROWS,
    batch_size: int | None = None,
    dtype: Dtype = "float32",
    source: str | None = None,
    force: bool = False,
    threads: int | None = None,
    ray: int | None = None,
    ray_address: str | None = None,
    progress: Progress | None = None,
    **more: Unpack[ReadArguments],
) -> EmbedReport:
    """Write the vectors of documents into a folder of Parquet shards, or resume such a run.

    To resume an interrupted run, call this function again with the same arguments. It makes the
    missing shards, and the folder contains the same bytes as after a run without interruption.

    ``sources``: as in :func:`vocabtool.documents.batches`. A list of strings names files, so pass
    texts as ``iter(texts)``.
    ``model``: as in :func:`open_encoder`.
    ``read``: how documents are read. Other keyword arguments replace fields of these
    :class:`vocabtool.documents.ReadOptions`.
    ``text``: whether to store the texts.
    ``shard_rows``: number of rows of a shard. A shard ends earlier at 256 MB of text.
    ``batch_size``: number of texts encoded at once; by default the encoder decides.
    ``source``: a name for a stream that is not a file, so that the run can be resumed.
    ``force``: whether to start over instead of resuming a run.
    ``threads``: number of slabs (parts of a shard) encoded in parallel.
    ``ray``: number of Ray actors that make shards. By default, this process makes all shards.
    ``ray_address``: address of a Ray cluster. By default, the one that ``RAY_ADDRESS`` names; if it
    names none, Ray is started on this machine.
    ``progress``: a function that is called about every thousand documents, or every few seconds,
    with a line that says how many there are, and the share of the bytes that is done.

    Raises :class:`FolderNotEmpty` if the folder contains another run, :class:`FolderInUse` if a
    process already writes to it, :class:`NotFound` if there is no document, and
    :class:`VocabtoolError` for invalid documents, models or folders.
    """
    read = replace(read or ReadOptions(), **more)
    numbers = {"shard_rows": shard_rows, "batch_size": batch_size, "threads": threads, "ray": ray}
    _check_arguments(read, numbers, ray_address)
    with open_folder(Path(output)) as folder:
        files = files_outside(sources, folder.path, read)
        watched = facts_of(files or ())
        weights = None if force or not folder.has_shards() else fitted_weights(folder.path)
        encoder = fit_encoder(open_encoder(model), weights, files, read)
        words = None
        if encoder.words is not None:  # this decides which words of a text are unknown
            facts = f"{encoder.words.fingerprint}\n{encoder.words.vocabulary.fingerprint}"
            words = hashlib.sha256(facts.encode()).hexdigest()
        plan = Plan(
            encoder=encoder.fingerprint,
            words=words,
            dim=encoder.dim,
            inputs=watched,
            source=source,
            # Other files are seen in `inputs`; skipped rows in the number of documents.
            read=replace(read, on_error="raise", include=(), exclude=(), gitignore=True),
            text=text,
            shard_rows=shard_rows,
            batch_size=batch_size or encoder.max_batch,
            dtype=dtype,
        )
        if ray is not None and (files is None or STDIN in files):
            raise VocabtoolError("Ray reads files by name, so it cannot read a stream")
        if force or not _resumes(folder, plan, files):
            folder.begin(plan, encoder.fitted if isinstance(encoder, StaticEncoder) else None)
        redone, shards = folder.remove_unfinished(), folder.shards(plan)
        done = {number: shard.counts.documents for number, shard in shards.items()}
        read_slabs = partial(
            slabs_of, sources if files is None else files, read, plan, done, encoder.measure
        )
        # An actor may have another working directory.
        path, threads = folder.path.absolute(), threads or encoder.threads
        resumable = plan.source is not None or can_be_read_again(files)
        make_maker = partial(ShardMaker, path, plan, encoder, threads, resumable)
        size = sum(file.size for file in watched) if can_be_read_again(files) else 0
        log = ReadLog()
        tally = Tally(log, size, progress)
        manifest, notes = read_manifest(folder.path), encoder.notes
        # Nothing to do if the manifest lists exactly these shards.
        whole = tuple(shards[number] for number in sorted(shards))
        if manifest is None or manifest.run != plan.fingerprint or manifest.shards != whole:
            if ray is None:
                new_shards = make_maker().write(Stream.of(read_slabs(log)), tally)
            else:
                new_shards = run_ray(read_slabs, make_maker, tally, ray, ray_address)
            shards |= {shard.number: shard for shard in new_shards}
            if changed := changes(watched, facts_of(file.name for file in watched)):
                raise VocabtoolError(
                    f"{folder.path}: the run is not finished, because an input changed while it "
                    f"was read: {changed[0]}. Start over with --force"
                )
            redone += folder.remove_unfinished()  # left by killed actors
            if not shards:
                raise no_documents(files or ["the stream"], log.skipped.first)
            manifest = folder.finish(plan, shards, done, log)
            paths = (folder.path / shard.file for shard in manifest.shards)
            for name in without_a_value(paths, plan.read.kept_fields):  # probably a mistake
                notes += (f"no document has a value in the field '{printable(encode(name))}'",)
        counts = manifest.counts
        if counts.too_long and encoder.max_tokens is not None:
            notes += (cut_note(counts.too_long, counts.tokens_cut, encoder.max_tokens),)
        return EmbedReport(
            folder=str(folder.path),
            shards=len(manifest.shards),
            counts=counts,
            encoded=tally.counts.documents,
            resumed=len(done),
            redone=redone,
            skipped=manifest.skipped,
            first_skipped=tuple(Skip(*skip) for skip in manifest.first_skipped),
            dropped=manifest.dropped,
            seconds=time.monotonic() - tally.began,
            notes=(*notes, *log.notes, *left_out(sources, read, folder.path)),
        )


class Tally:
    """Counts and shows how much is encoded. ``size``: bytes of all files; 0 if unknown."""

    def __init__(self, log: ReadLog, size: int = 0, progress: Progress | None = None) -> None:
        self.counts, self.began = Counts(), time.monotonic()
        self.log, self._size, self._progress = log, size, progress
        self._rows, self._lock, self._speed = 0, Lock(), measure_speed()

    def add(self, counts: Counts) -> None:
        """Add the counts of a slab that is written, or of a shard of another process."""
        self.counts += counts
        self.tell(max(self.counts.documents - self._rows, 0))  # actors of Ray tell only this

    def tell(self, rows: int) -> None:
        """Count ``rows`` more encoded documents, and show it. Several threads may call this."""
        with self._lock:
            self._rows += rows
            self.log.done += rows
            if self._progress is not None:
                step = documents_done(self._rows, self._speed(self._rows))
                if self.counts.tokens:
                    share = self.counts.tokens_unknown / self.counts.tokens
                    step += f", {share:.1%} of words unknown"
                self._progress(step, self.log.share(self._size))


def _check_arguments(
    read: ReadOptions, numbers: Mapping[str, int | None], ray_address: str | None
) -> None:
    """Raise ``ValueError`` for arguments that do not fit. ``numbers`` must be at least 1."""
    read.refuse_weights()
    names = read.kept_fields
    if reserved := [name for name in names if name in RESERVED]:
        raise ValueError(
            f"keep: the name {reserved[0]!r} is reserved for a column of every shard "
            f"({', '.join(RESERVED)}): leave it out of --keep"
        )
    if len({*names}) < len(names):
        raise ValueError(f"keep: a field may be named only once, got {', '.join(names)}")
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{name}: wanted at least 1, got {number}")
    if numbers["ray"] is None and ray_address is not None:
        raise ValueError("ray_address needs ray, the number of actors")


def fit_encoder(
    encoder: Encoder,
    weights: FittedWeights | None,
    files: Sequence[str] | None,
    read: ReadOptions,
) -> Encoder:
    """Return the encoder with weights of its words, if it needs them.

    ``weights``: those of an earlier run; ``None`` to fit weights on a sample of ``files``. Raises
    :class:`VocabtoolError` if the files cannot be read twice.
    """
    if not isinstance(encoder, StaticEncoder) or not encoder.needs_fit:
        return encoder
    if weights is not None:
        return encoder.with_weights(weights)
    if files is None or not can_be_read_again(files):
        raise VocabtoolError(
            "weights must be fitted on a sample of the documents, but a stream is read once: give "
            "weights that were fitted on files (in Python fitted=FILE), or use --weights none"
        )
    return encoder.fit(sample(files, read))


def _resumes(folder: Folder, plan: Plan, files: list[str] | None) -> bool:
    """Return whether the folder has shards of the same plan, so that its run can be resumed.

    Raises :class:`FolderNotEmpty` for shards of another plan. ``files``: ``None`` for objects.
    """
    before = read_plan(folder.path)
    if before is None or not folder.has_shards():
        return False  # without shards, nothing is lost by starting anew
    different = before.differences(plan)
    if plan.source is None and not can_be_read_again(files):
        different = (*different, ANOTHER_STREAM)
    if different:
        raise FolderNotEmpty(str(folder.path), different)
    return True


# ---- slabs


def slabs_of(
    sources: Sources,
    read: ReadOptions,
    plan: Plan,
    done: Mapping[int, int],
    measure: Measure | None,
    log: ReadLog,
) -> Iterator[Slab]:
    """Yield the slabs of unfinished shards.

    ``done``: how many documents each finished shard has; the keys are the numbers of the shards.
    Raises :class:`VocabtoolError` if a finished shard would now have more or fewer documents.
    """
    documents, rows = Counter[int](), min(plan.shard_rows, SLAB_ROWS)
    texts = batches(sources, read, log=log, size=READ_BYTES, rows=rows, measure=measure)
    tables = tables_of(texts, plan.read.kept_fields, read.on_error, log)
    for slab in cut_slabs(tables, plan.shard_rows, plan.batch_size):
        log.documents += slab.table.num_rows
        if slab.shard in done:
            documents[slab.shard] += slab.table.num_rows
            log.done += slab.table.num_rows
        else:
            yield slab
    for number, count in done.items():
        if documents[number] != count:
            raise VocabtoolError(
                f"the sources changed: shard {number} contains {count:,} documents, but would now "
                f"contain {documents[number]:,}; start over with --force"
            )


def tables_of(
    batches: Iterator[Batch], keep: Sequence[str], on_error: OnError, log: ReadLog
) -> Iterator[pa.Table]:
    """Yield the columns ``id``, ``text`` and the kept fields of each batch.

    The first ``SLAB_ROWS`` documents decide the type of each kept field. A later value that does
    not fit raises :class:`InvalidFile`, or is left out and noted in ``log`` if ``on_error`` is
    ``"skip"``.
    """
    first, rows = list[Batch](), 0
    while rows < SLAB_ROWS and (batch := next(batches, None)) is not None:
        first.append(batch)
        rows += len(batch)
    types = {
        name: type_in_shards(batch.types.get(name, pa.string()) for batch in first) for name in keep
    }
    left_out = SkipCounter()
    for batch in chain(first, batches):
        columns = [batch.id_array(), batch.texts]
        for name, kind in types.items():
            column, misfits = cast_texts(batch.columns[name], kind)
            columns.append(column)
            for row in misfits:
                value = printable(bytes(batch.columns[name][row].as_buffer()))[:50]
                reason = f"the field {name!r} has the type {kind} in the shards, got {value!r}"
                if on_error == "raise":
                    raise InvalidFile(
                        f"{reason}. Omit --keep {name}, or use --on-error skip to leave such "
                        "values out",
                        file=batch.place(row),
                    )
                left_out.add(batch.place(row), reason)
        yield pa.table(columns, names=[ID, TEXT, *keep])
    if left_out.count:
        place, reason = left_out.first[0]
        values = plural(left_out.count, "value", "values")
        log.notes.append(f"{values} of kept fields left out; the first: {place}: {reason}")


def cut_slabs(tables: Iterable[pa.Table], shard_rows: int, batch_size: int) -> Iterator[Slab]:
    """Cut documents into slabs, whatever the tables in which they come.

    A slab ends after some whole batches of the encoder, at ``SLAB_BYTES`` of text, or with its
    shard. A shard ends after ``shard_rows`` documents, or at ``SHARD_BYTES`` of text.
    """
    slab_rows = batch_size * max(1, SLAB_ROWS // batch_size)
    shard = rows = size = 0  # number, rows and text bytes of the current shard
    rest = pa.table({})  # the documents that are in no slab yet
    for table in chain(tables, (None,)):  # ``None``: there are no more tables
        if table is not None:
            rest = pa.concat_tables([rest, table]).combine_chunks() if len(rest) else table
        start = 0
        ends = bounds(rest.column(TEXT).chunk(0)) if len(rest) else np.zeros(1, np.int32)
        while start < len(rest):
            most = start + min(slab_rows, shard_rows - rows)
            full = int(np.searchsorted(ends, int(ends[start]) + SLAB_BYTES, "right")) - 1
            end = min(most, max(full, start + 1), len(rest))
            if end == len(rest) != most and table is not None:
                break  # the next batch continues the slab
            rows += end - start
            size += int(ends[end]) - int(ends[start])
            is_full = rows == shard_rows or size >= SHARD_BYTES
            documents = rest.slice(start, end - start).combine_chunks()
            first_row = rows - (end - start)
            yield Slab(shard=shard, table=documents, full=is_full, start=first_row)
            if is_full:
                shard, rows, size = shard + 1, 0, 0
            start = end
        rest = rest.slice(start)


# ---- shards


def unknown_words(words: WordLookup, max_tokens: int | None = None) -> tuple[pa.ListArray, Counts]:
    """Return the distinct unknown words of n texts by first appearance, and the counts of words.

    The words are an Arrow list of ``string``, length n, and may be invalid UTF-8.
    """
    too_long, tokens_cut = words.count_cut(max_tokens)
    words = without_blanks(words)
    texts = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))
    codes, distinct = words.codes, words.distinct
    if not words.unique:
        encoded = distinct.view(pa.binary()).dictionary_encode()
        codes, distinct = encoded.indices.to_numpy()[codes], encoded.dictionary.view(pa.string())
    missing = ~words.known[words.codes]
    texts, codes = texts[missing], codes[missing].astype(np.int64)
    # The first occurrence of each word in each text.
    span = int(codes.max(initial=0)) + 1
    first = np.sort(np.unique(texts * span + codes, return_index=True)[1])
    offsets = np.searchsorted(texts[first], np.arange(len(words.offsets))).astype(np.int32)
    values = distinct.take(pa.array(codes[first]))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    return lists, Counts(
        tokens=len(words.codes),
        tokens_unknown=int(np.count_nonzero(missing)),
        too_long=too_long,
        tokens_cut=tokens_cut,
    )


class ShardMaker:
    """Encodes ``threads`` slabs in parallel. ``resumable``: a later run can use their vectors."""

    def __init__(
        self, folder: Path, plan: Plan, encoder: Encoder, threads: int, resumable: bool
    ) -> None:
        if encoder.fingerprint != plan.encoder:
            raise VocabtoolError("the model changed during the run: start over with --force")
        self._folder, self._plan, self._encoder, self._threads = folder, plan, encoder, threads
        self._pace, self._resumable = Pace(), resumable
        self._unfinished = UnfinishedVectors(folder, plan.fingerprint, plan.dim)
        self._tally = Tally(ReadLog())

    def write(self, slabs: Stream[Slab], tally: Tally) -> Iterator[Shard]:
        """Look up the words of slabs, encode them, and yield each shard when it is written."""
        self._tally = tally
        encoded = (
            slabs.map(self._look_up, workers=1)
            .prefetch(READ_AHEAD)
            .map(self._encode, workers=self._threads)
            .prefetch(ENCODED_AHEAD)
        )
        with closed_after(encoded) as remaining:
            for first in remaining:
                rows = _rest_of_shard(first, remaining, tally)
                run = self._plan.fingerprint
                shard = write_shard(self._folder, first.shard, run, first.table.schema, rows)
                self._unfinished.remove(shard.number)
                yield shard

    def _look_up(self, slab: Slab) -> Slab:
        words = self._encoder.words
        if words is None:
            return slab
        lookup = words.look_up(slab.table.column(TEXT).chunk(0))
        unknown, counts = unknown_words(lookup, self._encoder.max_tokens)
        # Other encoders do not use it, and it would take memory until the slab is encoded.
        shared = lookup if isinstance(self._encoder, StaticEncoder) else None
        return replace(slab, lookup=shared, unknown=unknown, counts=counts)

    def _encode(self, slab: Slab) -> Slab:
        texts, dtype, unknown = slab.table.column(TEXT).chunk(0), self._plan.dtype, slab.unknown
        with naming_documents(slab.table.column(ID).chunk(0)):
            vectors = self._encode_or_find(slab, texts)
        replaced: NDArray[np.bool_] = np.zeros(len(texts), np.bool_)
        columns: list[pa.Array | pa.ChunkedArray] = []
        schema = shard_schema(self._plan, slab.table.schema, words=unknown is not None)
        for field in schema:
            if field.name == VECTOR:
                columns.append(pa.chunked_array([vector_array(batch, dtype) for batch in vectors]))
            elif field.name == UNKNOWN and unknown is not None:
                words, _ = as_utf8(unknown.values)
                columns.append(pa.ListArray.from_arrays(unknown.offsets, words))
            else:
                column = slab.table.column(field.name).chunk(0)
                if pa.types.is_string(field.type):
                    column, strange = as_utf8(column)
                    replaced |= strange
                columns.append(column)
        lengths = pc.binary_length(pc.ascii_trim(texts, BLANKS)).to_numpy()
        counts = replace(
            slab.counts,
            documents=len(texts),
            empty=len(texts) - int(np.count_nonzero(lengths)),
            zero=sum(int(np.count_nonzero(~batch.any(axis=1))) for batch in vectors),
            not_utf8=int(np.count_nonzero(replaced)),
        )
        table = pa.Table.from_arrays(columns, schema=schema)
        return Slab(shard=slab.shard, table=table, full=slab.full, counts=counts)

    def _encode_or_find(self, slab: Slab, texts: pa.StringArray) -> list[Vectors]:
        """Return the vectors of each batch: those of an earlier run, or new ones.

        If the encoder is so slow that the whole shard takes long, new ones are kept at once.
        """
        size, vectors, row = self._plan.batch_size, list[Vectors](), 0
        while row < len(texts):
            batches: list[Vectors] = []
            if slab.start is not None:
                earlier = self._unfinished.find(
                    slab.shard, slab.start + row, texts[row : row + size]
                )
                if earlier is not None:
                    batches = [earlier]
            if not batches:
                _, count = next(self._pace.spans(len(texts) - row, size))
                began = time.monotonic()
                with self._pace.timed(count):
                    lookup = slab.lookup if count == len(texts) else None
                    batches = self._encoder.encode_batches(texts[row : row + count], size, lookup)
                shard_seconds = (time.monotonic() - began) * self._plan.shard_rows / count
                if self._resumable and slab.start is not None and shard_seconds > KEPT_SECONDS:
                    self._unfinished.add(slab.shard, slab.start + row, texts[row:], batches)
            count = sum(map(len, batches))
            row += count
            vectors += batches
            self._tally.tell(count)
        return vectors


def _rest_of_shard(first: Slab, others: Iterator[Slab], tally: Tally) -> Iterator[Slab]:
    """Yield the slabs of a shard, from its first one. Each is counted when it is written."""
    for slab in chain([first], others):
        yield slab
        tally.add(slab.counts)
        if slab.full:  # the shard does not wait for a slab of the next one
            return


# ---- Ray


def run_ray(
    read_slabs: ReadSlabs,
    make_maker: MakeMaker,
    tally: Tally,
    actors: int,
    address: str | None = None,
) -> Iterator[Shard]:
    """Make the missing shards in Ray actors; yield shards as they are finished.

    ``read_slabs``: a function that yields the slabs of the missing shards; Ray calls it in a worker
    of its own. ``make_maker``: makes the :class:`ShardMaker` of an actor. ``tally``: its log gets
    what was skipped while reading.
    ``address``: the address of a Ray cluster. If it is ``None`` and ``RAY_ADDRESS`` is not set, Ray
    is started on this machine, and stopped at the end.
    """
    with _ray(address, actors) as ray:
        rows = (
            ray.data.from_items([0])
            .map_batches(
                partial(read_shards, read_slabs), batch_size=None, num_cpus=RAY_READING_CPUS
            )
            .map_batches(
                Actor,
                fn_constructor_args=(ray.cloudpickle.dumps(make_maker),),
                batch_size=1,
                concurrency=actors,
                num_cpus=1,
            )
        )
        for row in rows.iter_rows():
            record = json.loads(row["record"])
            if row["number"] == LAST:
                log, skipped = tally.log, record["skipped"]
                log.skipped.count = skipped["count"]
                log.skipped.first = [Skip(*skip) for skip in skipped["first"]]
                log.repeated, log.notes = record["repeated"], record["notes"]
                continue
            shard = Shard(**{**record, "counts": Counts(**record["counts"])})
            tally.add(shard.counts)
            yield shard


def read_shards(read_slabs: ReadSlabs, _: Columns) -> Iterator[Columns]:
    """Yield the documents of each missing shard as one row, and the read log as the last row.

    Documents are an Arrow IPC stream of slabs. The only row that Ray passes says nothing.
    """
    log = ReadLog()
    for number, slabs in groupby(read_slabs(log), lambda slab: slab.shard):
        tables = [slab.table for slab in slabs]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, tables[0].schema) as writer:
            for table in tables:
                (rows,) = table.to_batches()  # an actor makes a slab of each batch
                writer.write_batch(rows)
        yield _row(number, sink.getvalue().to_pybytes(), b"")
    yield _row(LAST, b"", json.dumps(asdict(log)).encode())


class Actor:
    """Opens the encoder once, and makes a shard from each row. ``make_maker`` is pickled."""

    def __init__(self, make_maker: bytes) -> None:
        self._pickled = make_maker
        self._maker: ShardMaker | None = None

    def __call__(self, row: Columns) -> Columns:
        """Make the shard of a row of :func:`read_shards`. The row with the log is unchanged."""
        number, record = int(row["number"][0]), bytes(row["record"][0])
        if number != LAST:
            if self._maker is None:  # in __init__, Ray would hide an error
                self._maker = pickle.loads(self._pickled)()  # noqa: S301 - our parent wrote it
            slabs = Stream.of(pa.ipc.open_stream(bytes(row["slabs"][0]))).map(
                lambda rows: Slab(shard=number, table=pa.Table.from_batches([rows]))
            )
            (shard,) = self._maker.write(slabs, Tally(ReadLog()))
            record = json.dumps(asdict(shard)).encode()
        return _row(number, b"", record)


def _row(number: int, slabs: bytes, record: bytes) -> Columns:
    """Return a row for Ray. ``number``: of the shard. ``record``: a shard or a log, as JSON."""
    columns = {"slabs": np.array([slabs], object), "record": np.array([record], object)}
    return {"number": np.array([number], np.int64), **columns}


@contextmanager
def _ray(address: str | None, actors: int) -> Iterator[Any]:
    """Give Ray to the ``with`` block, connected and with the settings of :func:`run_ray`.

    Errors of Ray become :class:`VocabtoolError`; the errors of a worker are raised unchanged.
    """
    try:
        import ray.data
    except ImportError as error:
        raise UnsupportedFormat(
            f"--ray needs Ray, which cannot be imported ({error}): pip install '.[ray]'"
        ) from error
    was_there = ray.is_initialized()
    if not was_there:
        address = address or os.environ.get("RAY_ADDRESS")
        arguments: dict[str, Any] = {"address": address} if address else {"num_cpus": actors + 1}
        ray.init(**arguments, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    settings = {
        "target_max_block_size": 1,  # each shard is a block, and goes to any actor that is free
        "enable_progress_bars": False,
        "raise_original_map_exception": True,  # with its type, which decides the exit code
    }
    before = {name: getattr(context, name, None) for name in settings}
    for name, value in settings.items():
        setattr(context, name, value)
    try:
        yield ray
    except ray.exceptions.RayTaskError as error:  # without the traceback in Ray's message
        if isinstance(error.cause, VocabtoolError | OSError | MemoryError):
            raise error.cause from None
        raise VocabtoolError(f"a worker of Ray failed: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        raise VocabtoolError(f"Ray failed: {error}") from error
    finally:
        for name, earlier in before.items():
            setattr(context, name, earlier)
        if not was_there:
            ray.shutdown()
