"""Documents through an encoder into a folder of vectors: the public :func:`embed`.

What a run is stands in ``plan.py``, what lies in the folder in ``folder.py``, who makes its shards
in ``local_runner.py`` and ``ray_runner.py``.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, Unpack

from vocabtool.documents.files import STDIN
from vocabtool.documents.options import ReadArguments, ReadOptions
from vocabtool.documents.reading import ReadLog, Sources, left_out
from vocabtool.embedding import ray_runner
from vocabtool.embedding.encoding import OWN, Counts
from vocabtool.embedding.fitting import fitted, weights_of
from vocabtool.embedding.folder import Folder, Manifest, opened
from vocabtool.embedding.inputs import (
    Check,
    Input,
    can_be_read_again,
    changes,
    facts_of,
    files_of,
    files_outside,
)
from vocabtool.embedding.local_runner import Done, run_processes, run_threads
from vocabtool.embedding.making import Made, Work
from vocabtool.embedding.plan import Dtype, Plan
from vocabtool.embedding.reading import Reading
from vocabtool.embedding.report import EmbedReport, Progress
from vocabtool.embedding.shard_files import without_a_value
from vocabtool.encoders.choices import EncoderKind
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.opening import Model, open_encoder
from vocabtool.errors import ChangedRun, NotFound, VocabtoolError
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import encode, printable

Runner = Literal["local", "ray"]

SHARD_ROWS: Final = 65_536
THREADS: Final[dict[EncoderKind, int]] = {
    "tensorflow": 3,  # while one batch is cut into words, another is multiplied
    "static": 2,
    "sentence-transformers": 1,
    "python": 1,
}
ANOTHER_STREAM: Final = (
    "the documents: they come from a stream, which perhaps cannot be read again (in Python "
    "source='a name' says that it is the same one)"
)


class Options(NamedTuple):
    """How a run is done, which does not change what comes out."""

    cache: Path | None
    runner: Runner
    workers: int
    threads: int
    ray_address: str | None


def embed(
    sources: Sources,
    model: Model,
    output: str | Path,
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
    """Write the vectors of documents into a folder of Parquet shards, or go on with it.

    Called again with the same arguments after a stop at any moment, it makes the shards that are
    missing, and the folder ends with the same bytes as if nothing had happened.

    ``sources`` is that of :func:`vocabtool.documents.batches`, ``model`` that of
    :func:`open_encoder`; ``read``: ``field``, ``format``, ``id_field``, ``keep``, ``on_error`` and
    ``on_duplicate`` of :class:`vocabtool.documents.ReadOptions`.
    ``text``: whether the text is stored too. ``shard_rows``: rows of a shard, fewer where they hold
    256 MB of text. ``batch_size``: texts encoded at once, else what the encoder wants.
    ``check``: whether files are known again by size and time, or by their content.
    ``source``: what a stream that is no file is called: it can be gone on with under that name.
    ``force``: start over. ``cache``: a folder of vectors by encoder and text.
    ``workers``: processes, or Ray's actors; 1: threads of this process. ``threads``: slabs of a
    shard that are encoded at a time. ``progress``: called about once for a thousand documents.

    Raises :class:`ChangedRun` where the folder holds another run, :class:`FolderInUse`,
    :class:`NotFound` where there is no document, and :class:`VocabtoolError` for what is wrong
    with documents, model or folder.
    """
    _check_numbers(shard_rows, batch_size, workers, threads)
    options = ReadOptions(**read)
    _check_names(options.keep)
    with opened(Path(output)) as folder:
        files = files_outside(sources, folder.path)
        watched = facts_of(files or (), "stat")
        kept = None if force else folder.weights()
        encoder = fitted(open_encoder(model), kept, files, options.field, options.format)
        plan = Plan(
            encoder.fingerprint,
            _of_words(encoder.words),
            encoder.dim,
            watched if check == "stat" else facts_of(files or (), check),
            source,
            options.field,
            options.format,
            options.id_field,
            tuple(options.keep),
            text,
            encoder.exact,
            "last" if options.on_duplicate == "last" else "first",
            shard_rows,
            batch_size or encoder.max_batch,
            dtype,
            check,
        )
        how = Options(
            Path(cache) if cache is not None else None,
            runner,
            workers,
            threads or THREADS[encoder.kind],
            ray_address,
        )
        _check_together(plan, how, files)
        if force or not _goes_on(folder, plan, files, batch_size):
            folder.clear()
            folder.begin(plan, weights_of(encoder))
        reading = Reading(sources if files is None else files, plan, options)
        report = _Run(folder, encoder, reading, how, watched, progress).done()
        return replace(report, notes=report.notes + left_out(sources, folder.path))


class _Run:
    """One run on its way."""

    def __init__(
        self,
        folder: Folder,
        encoder: Encoder,
        reading: Reading,
        how: Options,
        watched: tuple[Input, ...],
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._folder = folder
        self._encoder = encoder
        self._reading = reading
        self._how = how
        self._watched = watched
        self._redone = folder.unfinished()
        self._progress = progress
        self._log = ReadLog()
        self._counts = Counts()
        self._hits = 0
        self._start = time.monotonic()
        self._to_do = self._bytes_to_read()
        self._begun: tuple[float, int] | None = None  # seconds gone and bytes read, at first

    def done(self) -> EmbedReport:
        """Make what is missing; tell of it."""
        plan = self._reading.plan
        shards = self._folder.done(plan)
        resumed, manifest = len(shards), self._folder.manifest()
        notes = self._encoder.notes
        if manifest is None or manifest.run != plan.fingerprint or not manifest.holds(shards):
            there = {number: shard.counts.documents for number, shard in shards.items()}
            for made in self._made(there):
                shards[made.shard.number] = made.shard
            self._check_inputs()
            self._redone += self._folder.unfinished()  # of workers that were killed
            if not shards:
                files = files_of(self._reading.sources) or ["the documents"]
                raise NotFound(f"{', '.join(files)}: no document in it")
            manifest = self._folder.finish(plan, shards, there, self._log)
            notes += self._without_a_value(manifest)
        return EmbedReport(
            str(self._folder.path),
            len(manifest.shards),
            manifest.counts,
            self._counts.documents,
            resumed,
            self._redone,
            self._hits,
            manifest.skipped,
            manifest.first_skipped,
            manifest.dropped,
            time.monotonic() - self._start,
            notes,
        )

    def _without_a_value(self, manifest: Manifest) -> tuple[str, ...]:
        """A note for each kept field that no document has: a mistake, most likely."""
        files = (self._folder.path / shard.file for shard in manifest.shards)
        missing = without_a_value(files, self._reading.plan.keep)
        shown = (printable(encode(name)) for name in missing)
        return tuple(f"no document has a value in the field '{name}'" for name in shown)

    def _check_inputs(self) -> None:
        """Raise :class:`VocabtoolError` where a file was written to while it was read."""
        changed = changes(self._watched, facts_of((each.name for each in self._watched), "stat"))
        if changed:
            raise VocabtoolError(
                f"{self._folder.path}: not finished, an input changed while it was read: "
                f"{changed[0]}. Start over with --force"
            )

    def _bytes_to_read(self) -> int | None:
        """``None`` where nothing tells."""
        reading = self._reading
        if not can_be_read_again(files_of(reading.sources)):
            return None
        passes = 2 if reading.options.on_duplicate == "last" else 1
        return passes * sum(each.size for each in self._watched) or None

    def _made(self, done: Done) -> Iterator[Made]:
        how, reading = self._how, self._reading
        folder = self._folder.path.absolute()  # a worker may be elsewhere
        work = Work(folder, reading.plan, self._encoder, how.cache, how.threads)
        if how.runner == "ray":
            return ray_runner.run_ray(
                reading, done, work, how.workers, self._log, self._passed, how.ray_address
            )
        slabs = reading.slabs(self._log)
        if how.workers > 1:
            return run_processes(slabs, done, work, how.workers, self._passed)
        return run_threads(slabs, done, work, self._passed)

    def _passed(self, counts: Counts, hits: int) -> None:
        self._counts += counts
        self._hits += hits
        if self._progress is not None:
            seconds = time.monotonic() - self._start
            read = self._log.bytes
            self._begun = self._begun or (seconds, read)
            self._progress(
                Progress(self._counts, self._hits, seconds, read, self._to_do, *self._begun)
            )


def _check_numbers(
    shard_rows: int, batch_size: int | None, workers: int, threads: int | None
) -> None:
    numbers = {
        "shard_rows": shard_rows,
        "batch_size": batch_size,
        "workers": workers,
        "threads": threads,
    }
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{name}: wanted at least 1, got {number}")


def _check_names(keep: Sequence[str]) -> None:
    for name in keep:
        if name in OWN:
            raise ValueError(
                f"keep: {name!r} is a column of every shard ({', '.join(OWN)}): leave it out of "
                "--keep"
            )
    if len({*keep}) < len(keep):
        raise ValueError(f"keep: a field twice among {', '.join(keep)}")


def _of_words(words: Words | None) -> str | None:
    """What decides which words of a text are unknown; ``None``: nothing tells them."""
    if words is None:
        return None
    told = (words.fingerprint, words.vocabulary.fingerprint)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _check_together(plan: Plan, how: Options, files: list[str] | None) -> None:
    if plan.exact and how.cache is not None:
        raise VocabtoolError(
            "exact words come from running the model, and a cached vector runs nothing: "
            "leave out either the cache or the exact words"
        )
    if how.runner == "ray" and (files is None or STDIN in files):
        raise VocabtoolError("the runner ray reads files by their names, wherever it runs")


def _goes_on(folder: Folder, plan: Plan, files: list[str] | None, batch_size: int | None) -> bool:
    """Whether the run is in the folder. Raises :class:`ChangedRun` where another is.

    One without a shard (it failed at once) has nothing to lose, so any is begun in its place; the
    same one, too: beside its description may be weights of another that was killed as it began.
    """
    before = folder.plan()
    if before is None or not folder.has_shards():
        return False
    told = before.differences(plan, batch_size_given=batch_size is not None)
    if plan.source is None and not can_be_read_again(files):
        told = (*told, ANOTHER_STREAM)
    if told:
        raise ChangedRun(str(folder.path), told)
    return True
