"""Documents from files through the encoder into an index, gone on with after a stop.

Where a load stands is in the manifest of the same commit that holds its documents, so none is lost
and none is there twice. What a source may be is told in ``documents.py``.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vocabtool.documents import (
    Format,
    OnDuplicate,
    OnError,
    Repeated,
    Skip,
    Skipped,
    Sources,
    batches,
)
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.encoders.static_weights import FittedWeights
from vocabtool.errors import ChangedRun, OtherModel, VocabtoolError
from vocabtool.index.belonging import Belonging
from vocabtool.index.document_columns import DocumentRows
from vocabtool.index.document_fields import of_texts
from vocabtool.index.document_rows import of_batch, out_of_file
from vocabtool.index.manifest import Load
from vocabtool.index.writer import OnExisting, Writer, check_choice
from vocabtool.parallel import closed_after, parallel_map
from vocabtool.pipeline.embed import THREADS
from vocabtool.pipeline.encoding import VECTOR
from vocabtool.pipeline.folder import RUN, WEIGHTS
from vocabtool.pipeline.inputs import can_be_read_again, facts_of, files_outside
from vocabtool.pipeline.shards import Shards, vectors_of
from vocabtool.pipeline.slabs import ID, TEXT
from vocabtool.words.cut import not_utf8

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_ROWS: Final = 100_000  # documents between commits: what a stop can cost
BLOCK: Final = 1 << 20  # bytes of text that are encoded together
ROWS: Final = 1024
HALF_DONE: Final = (
    "another load is half done: finish it as it was begun (the same FILEs, unchanged, with the "
    "same --field, --id-field, --input-format, --keep and --on-duplicate)"
)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load did.

    ``read``: documents, with those of an earlier part that it went on from; ``resumed``: how many
    these were. ``added``: rows. Of what this part read, added or not: ``zero``: documents without a
    vector, found by keywords alone; ``not_utf8``: whose text is not UTF-8 (what ``embed`` wrote
    always is).
    ``skipped``: bad rows, the first of them in ``first_skipped``; ``dropped``: documents of an id
    that came before. ``seconds``: of this part. ``left_out``: values that are not of their field's
    kind, the first of them in ``first_left_out``; their documents are in.
    """

    read: int
    resumed: int
    added: int
    zero: int
    not_utf8: int
    skipped: int
    first_skipped: tuple[Skip, ...]
    dropped: int
    seconds: float
    left_out: int = 0
    first_left_out: tuple[Skip, ...] = ()


class Asked(NamedTuple):
    """What is loaded, and how: see :meth:`Index.load`."""

    sources: Sources
    field: str | None
    format: Format | None
    id_field: str | None
    keep: tuple[str, ...]
    on_error: OnError
    on_duplicate: OnDuplicate
    on_existing: OnExisting
    commit_rows: int
    threads: int | None


Block = tuple[DocumentRows, Vectors]


def loaded(
    path: Path,
    belonging: Belonging,
    writer: Writer,
    asked: Asked,
    progress: Callable[[str, float], None] | None,
) -> LoadReport:
    """Load documents, or go on. Raises :class:`ChangedRun` where another load is half done."""
    if asked.commit_rows < 1:
        raise ValueError(f"commit_rows: wanted at least 1, got {asked.commit_rows}")
    check_choice(asked.on_existing)
    files = files_outside(asked.sources, path)
    plan = _plan(asked, files)
    start = _start(path, writer, plan)
    if start is None:
        return _already_done(writer.manifest.load)
    return _Loading(path, belonging, asked, files, plan, start, writer, progress).done()


def _already_done(load: Load | None) -> LoadReport:
    read = load.documents if load is not None else 0
    return LoadReport(read, read, 0, 0, 0, 0, (), 0, 0.0)


def shards_in(sources: Sources) -> Path | None:
    """The folder of shards that is meant, if it is one."""
    names = [sources] if isinstance(sources, str | Path) else sources
    if isinstance(names, list | tuple) and len(names) == 1 and isinstance(names[0], str | Path):
        path = Path(names[0])
        if (path / RUN).is_file():
            return path
    return None


def weights_in(shards: Path) -> FittedWeights | None:
    """The weights that a folder of shards was encoded with; ``None``: none were fitted."""
    file = shards / WEIGHTS
    return FittedWeights.read(file) if file.is_file() else None


def _plan(asked: Asked, files: list[str] | None) -> str | None:
    """What tells this load from another; ``None``: a stream, which cannot be gone on with."""
    if not can_be_read_again(files) or files is None:
        return None
    inputs = [each._asdict() for each in facts_of(files, "stat")]
    told = (inputs, asked.field, asked.format, asked.id_field, asked.keep, asked.on_duplicate)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _start(path: Path, writer: Writer, plan: str | None) -> int | None:
    """How many documents are in already; ``None``: all of them."""
    before = writer.manifest.load
    if before is None:
        return 0
    if before.plan == plan:
        return None if before.finished else before.documents
    if not before.finished:
        raise ChangedRun(str(path), (HALF_DONE,))
    return 0


class _Loading:
    """One load on its way."""

    def __init__(
        self,
        path: Path,
        belonging: Belonging,
        asked: Asked,
        files: list[str] | None,
        plan: str | None,
        start: int,
        writer: Writer,
        progress: Callable[[str, float], None] | None,
    ) -> None:
        self._path = path
        self._belonging = belonging
        self._asked = asked
        self._files = files
        self._plan = plan
        self._start = start
        self._writer = writer
        self._progress = progress
        self._skipped = Skipped()
        self._repeated = Repeated()
        self._read = start
        self._zero = self._not_utf8 = 0
        # No id can be there yet: all rows are of this load, and its ids are compared as it reads.
        before = writer.manifest.load
        self._new = before.alone if start and before is not None else writer.rows == 0

    def done(self) -> LoadReport:
        """Load what is left, committing on the way."""
        began, before, committed = time.monotonic(), self._writer.rows, self._read
        with closed_after(self._blocks()) as blocks:
            for rows, vectors in blocks:
                self._take(rows, vectors)
                if self._read - committed >= self._asked.commit_rows:
                    self._writer.commit(self._load(finished=False), codes=False)
                    committed = self._read
                self._tell()
        self._writer.commit(self._load(finished=True))
        return LoadReport(
            self._read,
            self._start,
            self._writer.rows - before,
            self._zero,
            self._not_utf8,
            self._skipped.count,
            tuple(self._skipped.first),
            self._repeated.count,
            time.monotonic() - began,
            self._writer.left_out.count,
            tuple(self._writer.left_out.first),
        )

    def _take(self, rows: DocumentRows, vectors: Vectors) -> None:
        if self._new:
            self._writer.append_new(rows, vectors, self._asked.on_existing, self._asked.on_error)
        else:
            self._writer.add_rows(rows, vectors, self._asked.on_existing, self._asked.on_error)
        self._read += rows.rows
        self._zero += int(np.count_nonzero(~vectors.any(axis=1)))
        self._not_utf8 += not_utf8(rows.texts)

    def _load(self, *, finished: bool) -> Load | None:
        if self._plan is None:
            return None
        return Load(self._plan, self._read, finished, self._new)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(f"{self._read:,} documents", 0.0)

    def _blocks(self) -> Iterator[Block]:
        shards = shards_in(self._asked.sources)
        if shards is not None:
            return self._of_shards(Shards.open(shards))
        encoder = self._belonging.encoder
        if encoder is None:
            raise VocabtoolError(
                f"{self._path}: holds vectors of one's own: load a folder of `vocabtool "
                "embed`, add documents with vectors in Python, or index with --model"
            )
        return self._encoded(encoder)

    def _encoded(self, encoder: Encoder) -> Iterator[Block]:
        asked = self._asked
        found = batches(
            asked.sources if self._files is None else self._files,
            field=asked.field,
            format=asked.format,
            id_field=asked.id_field,
            keep=asked.keep,
            on_error=asked.on_error,
            skipped=self._skipped,
            on_duplicate=asked.on_duplicate,
            repeated=self._repeated,
            size=BLOCK,
            rows=ROWS,
            start=self._start,
        )

        def encoded(rows: DocumentRows) -> Block:
            return rows, encoder.encode(rows.texts)

        threads = asked.threads or THREADS[encoder.kind]
        return parallel_map(encoded, map(of_batch, found), workers=threads)

    def _of_shards(self, shards: Shards) -> Iterator[Block]:
        """The rows of a folder of shards, as they were encoded."""
        held = self._writer.manifest.configuration
        if held.encoder is not None and shards.plan.encoder != held.encoder:
            raise OtherModel(str(shards.path), "encoder", held.encoder, shards.plan.encoder)
        if shards.dim != held.dim:
            what = f"vectors of {shards.dim:,} numbers, those of the index have {held.dim:,}"
            raise VocabtoolError(f"{shards.path}: {what}")
        if not shards.plan.text:
            raise VocabtoolError(f"{shards.path}: holds no texts (--no-text), so no keywords")
        left = self._start
        for batch in shards.batches([ID, VECTOR, TEXT, *shards.plan.keep]):
            out = min(left, len(batch))
            left -= out
            if out < len(batch):
                yield _block(batch.slice(out), shards)


def _block(batch: pa.RecordBatch, shards: Shards) -> Block:
    fields = {name: of_texts(batch.column(name)) for name in shards.plan.keep}
    rows = DocumentRows(batch.column(ID), batch.column(TEXT), fields)
    return out_of_file(rows, lambda row: str(shards.path)), vectors_of(batch)
