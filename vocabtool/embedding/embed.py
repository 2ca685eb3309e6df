"""Embed documents with an encoder into a folder of vectors: the public :func:`embed`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Unpack

from vocabtool.choices import SHARD_ROWS, Check, Dtype, EncoderKind, Runner
from vocabtool.documents.batch import Skip
from vocabtool.documents.files import STDIN
from vocabtool.documents.options import ReadArguments, ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, left_out
from vocabtool.embedding.plan import (
    Plan,
    can_be_read_again,
    changes,
    facts_of,
    files_outside,
    rules_of,
    sample,
)
from vocabtool.embedding.runners import Reading, run_processes, run_ray, run_threads
from vocabtool.embedding.shard_files import RESERVED, Counts, without_a_value
from vocabtool.embedding.shard_maker import ShardResult, Work
from vocabtool.embedding.shards import Folder, open_folder, read_manifest, read_plan
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import Model, open_encoder
from vocabtool.encoders.static import StaticEncoder
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import ChangedRun, VocabtoolError, no_documents
from vocabtool.tokenization.token_limit import CountTokens, cut_note
from vocabtool.vocabulary import encode, printable


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """The result of a run.

    - ``counts``: counts of all documents in the folder.
    - ``encoded``: number of documents encoded in this call.
    - ``resumed``: number of shards that existed before this call.
    - ``redone``: number of shards that an earlier call left unfinished and this call made again.
    - ``hits``: number of vectors found in the cache.
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
    hits: int
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


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    - ``counts``: counts of this call.
    - ``hits``: number of vectors found in the cache.
    - ``seconds``: elapsed time.
    - ``read``: number of bytes read so far.
    - ``to_do``: number of bytes to read in total; ``None`` for a stream.
    - ``passed``: value of ``seconds`` when the first documents had been encoded.
    - ``passed_read``: value of ``read`` when the first documents had been encoded.
    """

    counts: Counts
    hits: int
    seconds: float
    read: int
    to_do: int | None
    passed: float = 0.0
    passed_read: int = 0

    @property
    def rate(self) -> float:
        return self.counts.documents / self.seconds if self.seconds else 0.0

    @property
    def remaining(self) -> float | None:
        read = self.read - self.passed_read
        if not self.to_do or read <= 0:
            return None
        return (self.seconds - self.passed) * max(self.to_do - self.read, 0) / read


THREADS: Final[dict[EncoderKind, int]] = {
    "tensorflow": 3,  # one batch is tokenized while another is multiplied
    "static": 2,
    "model2vec": 2,  # one batch is tokenized while another is added up
    "onnx": 2,  # one batch is tokenized while another is multiplied
    "sentence-transformers": 1,
    "openai": 2,  # each sends several requests
    "python": 1,
}
ANOTHER_STREAM: Final = (
    "the documents: they come from a stream, which cannot be read again to compare it (in Python, "
    "give the same stream the same name with source='a name')"
)


def embed(
    sources: Sources,
    model: Model,
    output: str | Path,
    options: ReadOptions | None = None,
    *,
    text: bool = True,
    shard_rows: int = SHARD_ROWS,
    batch_size: int | None = None,
    dtype: Dtype = "float32",
    check: Check = "stat",
    source: str | None = None,
    force: bool = False,
    cache: str | Path | None = None,
    runner: Runner = "local",
    workers: int = 1,
    threads: int | None = None,
    ray_address: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    **read: Unpack[ReadArguments],
) -> EmbedReport:
    """Write the vectors of documents into a folder of Parquet shards, or resume such a run.

    To resume an interrupted run, call this function again with the same arguments. It makes the
    missing shards, and the folder contains the same bytes as after a run without interruption.

    ``sources``: as in :func:`vocabtool.documents.batches`. A list of strings names files, so pass
    texts as ``iter(texts)``.
    ``model``: as in :func:`open_encoder`.
    ``options``: how documents are read. Other keyword arguments replace fields of these
    :class:`vocabtool.documents.ReadOptions`.
    ``text``: whether to store the texts.
    ``shard_rows``: number of rows of a shard. A shard ends earlier at 256 MB of text.
    ``batch_size``: number of texts encoded at once; by default the encoder decides.
    ``check``: how changed files are detected: by size and time (``"stat"``), or by ``"content"``.
    ``source``: a name for a stream that is not a file, so that the run can be resumed.
    ``force``: whether to start over instead of resuming a run.
    ``cache``: a folder that caches vectors by encoder and text.
    ``workers``: number of processes or Ray actors. With 1, this process makes all shards.
    ``threads``: number of slabs (parts of a shard) encoded in parallel.
    ``progress``: a function that is called about every thousand documents.

    Raises :class:`ChangedRun` if the folder contains another run, :class:`FolderInUse` if a process
    already writes to it, :class:`NotFound` if there is no document, and :class:`VocabtoolError` for
    invalid documents, models or folders.
    """
    options = replace(options or ReadOptions(), **read)
    options.refuse_weights()
    numbers = {"shard_rows": shard_rows, "batch_size": batch_size}
    for name, number in (numbers | {"workers": workers, "threads": threads}).items():
        if number is not None and number < 1:
            raise ValueError(f"{name}: wanted at least 1, got {number}")
    for name in (keep := options.kept_fields):
        if name in RESERVED:
            raise ValueError(
                f"keep: the name {name!r} is reserved for a column of every shard "
                f"({', '.join(RESERVED)}): leave it out of --keep"
            )
    if len({*keep}) < len(keep):
        raise ValueError(f"keep: a field may be named only once, got {', '.join(keep)}")
    with open_folder(Path(output)) as folder:
        files = files_outside(sources, folder.path, options)
        watched = facts_of(files or (), "stat")
        weights = None if force else folder.weights()
        encoder = fit_encoder(open_encoder(model), weights, files, options)
        words = None
        if encoder.words is not None:  # these decide which words of a text are unknown
            parts = f"{encoder.words.fingerprint}\n{encoder.words.vocabulary.fingerprint}"
            words = hashlib.sha256(parts.encode()).hexdigest()
        plan = Plan(
            encoder=encoder.fingerprint,
            words=words,
            dim=encoder.dim,
            inputs=watched if check == "stat" else facts_of(files or (), check),
            source=source,
            field=options.field,
            format=options.format,
            id_field=options.id_field,
            keep=keep,
            text=text,
            keeps="last" if options.on_duplicate == "last" else "first",
            shard_rows=shard_rows,
            batch_size=batch_size or encoder.max_batch,
            dtype=dtype,
            check=check,
            split=options.split,
            split_size=options.split_size,
            overlap=options.overlap,
            rules=rules_of(files or (), options),
        )
        if runner == "ray" and (files is None or STDIN in files):
            raise VocabtoolError("the runner ray reads files by name, so it cannot read a stream")
        if force or not _resumes(folder, plan, files, batch_size):
            folder.begin(plan, encoder.fitted if isinstance(encoder, StaticEncoder) else None)
        redone, shards = folder.remove_unfinished(), folder.shards(plan)
        there = {number: shard.counts.documents for number, shard in shards.items()}
        measure = CountTokens.of(encoder.words, encoder.max_tokens)
        reading = Reading(sources if files is None else files, options, plan, there, measure)
        work = Work(
            folder=folder.path.absolute(),  # a worker may have another working directory
            plan=plan,
            encoder=encoder,
            cache=Path(cache) if cache is not None else None,
            threads=threads or THREADS[encoder.kind],
        )
        to_do = None  # bytes, if known
        if can_be_read_again(files):
            to_do = sum(each.size for each in watched) or None
        run = _Run(reading, work, to_do, progress)
        manifest, notes = read_manifest(folder.path), encoder.notes
        # Nothing to do if the manifest lists exactly these shards.
        whole = tuple(shards[number] for number in sorted(shards))
        if manifest is None or manifest.run != plan.fingerprint or manifest.shards != whole:
            for result in run.results(runner, workers, ray_address):
                shards[result.shard.number] = result.shard
            if changed := changes(watched, facts_of((each.name for each in watched), "stat")):
                raise VocabtoolError(
                    f"{folder.path}: the run is not finished, because an input changed while it "
                    f"was read: {changed[0]}. Start over with --force"
                )
            redone += folder.remove_unfinished()  # left by killed workers
            if not shards:
                raise no_documents(files or ["the stream"], run.log.skipped.first)
            manifest = folder.finish(plan, shards, there, run.log)
            paths = (folder.path / shard.file for shard in manifest.shards)
            for name in without_a_value(paths, plan.keep):  # probably a mistake
                notes += (f"no document has a value in the field '{printable(encode(name))}'",)
        counts = manifest.counts
        if counts.too_long and encoder.max_tokens is not None:
            notes += (cut_note(counts.too_long, counts.tokens_cut, encoder.max_tokens),)
        return EmbedReport(
            folder=str(folder.path),
            shards=len(manifest.shards),
            counts=manifest.counts,
            encoded=run.counts.documents,
            resumed=len(there),
            redone=redone,
            hits=run.hits,
            skipped=manifest.skipped,
            first_skipped=manifest.first_skipped,
            dropped=manifest.dropped,
            seconds=time.monotonic() - run.start,
            notes=notes + left_out(sources, options, folder.path),
        )


def fit_encoder(
    encoder: Encoder,
    weights: FittedWeights | None,
    files: Sequence[str] | None,
    options: ReadOptions,
) -> Encoder:
    if not isinstance(encoder, StaticEncoder) or not encoder.needs_fit:
        return encoder
    if weights is not None:
        return encoder.with_weights(weights)
    if files is None or not can_be_read_again(files):
        raise VocabtoolError(
            "weights must be fitted on a sample of the documents, but a stream is read once: give "
            "weights that were fitted on files (in Python fitted=FILE), or use --weights none"
        )
    return encoder.fit(sample(files, options))


class _Run:
    def __init__(
        self,
        reading: Reading,
        work: Work,
        to_do: int | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.log = ReadLog()
        self.counts = Counts()
        self.hits = 0
        self.start = time.monotonic()
        self._reading, self._work, self._to_do, self._progress = reading, work, to_do, progress
        self._first: tuple[float, int] | None = None  # elapsed seconds and bytes read

    def results(
        self, runner: Runner, workers: int, ray_address: str | None
    ) -> Iterator[ShardResult]:
        reading, work, log = self._reading, self._work, self.log
        if runner == "ray":
            return run_ray(reading, work, log, self._on_slab, workers, ray_address)
        if workers > 1:
            return run_processes(reading, work, log, self._on_slab, workers)
        return run_threads(reading, work, log, self._on_slab)

    def _on_slab(self, counts: Counts, hits: int) -> None:
        self.counts += counts
        self.hits += hits
        if self._progress is None:
            return
        seconds, read = time.monotonic() - self.start, self.log.bytes
        self._first = self._first or (seconds, read)
        progress = Progress(
            counts=self.counts,
            hits=self.hits,
            seconds=seconds,
            read=read,
            to_do=self._to_do,
            passed=self._first[0],
            passed_read=self._first[1],
        )
        self._progress(progress)


def _resumes(folder: Folder, plan: Plan, files: list[str] | None, batch_size: int | None) -> bool:
    before = read_plan(folder.path)
    if before is None or not folder.has_shards():
        return False  # without shards, nothing is lost by starting anew
    different = before.differences(plan, batch_size_given=batch_size is not None)
    if plan.source is None and not can_be_read_again(files):
        different = (*different, ANOTHER_STREAM)
    if different:
        raise ChangedRun(str(folder.path), different)
    return True
