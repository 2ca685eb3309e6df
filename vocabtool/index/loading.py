"""Documents from files through the encoder into an index, gone on with after a stop.

Where a load stands is in the manifest of the same commit that holds its documents, so none is lost
and none is there twice. An update reads all again instead: what is in already is unchanged, and is
not encoded. What a source may be is told in ``documents.py``, which FILEs an index knows in
``sources.py``.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.duplicates import SeenIds
from vocabtool.documents.reading import OnError, ReadLog, Skip, Sources, batches
from vocabtool.embedding.columns import ID, TEXT, VECTOR, vectors_of
from vocabtool.embedding.embed import THREADS
from vocabtool.embedding.inputs import Input, changes, facts_of
from vocabtool.embedding.shards import WEIGHTS, Shards
from vocabtool.encoders.encoder import Encoder, Vectors
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import ChangedRun, OtherModel, VocabtoolError
from vocabtool.index import folder
from vocabtool.index.belonging import Belonging
from vocabtool.index.document_columns import DocumentRows
from vocabtool.index.document_fields import of_texts
from vocabtool.index.document_rows import of_batch, out_of_file
from vocabtool.index.manifest import Load
from vocabtool.index.named_files import Part, in_scope, made_of, named
from vocabtool.index.snapshot import Snapshot
from vocabtool.index.sources import Reading
from vocabtool.index.unchanged import Held
from vocabtool.index.writer import OnExisting, Writer, check_choice
from vocabtool.system.parallel import closed_after, parallel_map
from vocabtool.system.ranked import Rows
from vocabtool.tokenization.text_arrays import not_utf8

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_ROWS: Final = 100_000  # documents between commits: what a stop can cost
BLOCK: Final = 1 << 20  # bytes of text that are encoded together
ROWS: Final = 1024
MOST_REMOVED: Final = 1 / 3  # of the documents of the FILEs; above, only where that is forced
NO_ROWS: Final[Rows] = np.zeros(0, np.int64)
HALF_DONE: Final = (
    "another load is half done: finish it as it was begun (the same FILEs, unchanged, with the "
    "same --field, --id-field, --input-format, --keep and --on-duplicate), or read all FILEs again "
    "(`vocabtool update` without FILE)"
)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load did.

    ``read``: documents, with those of an earlier part that it went on from; ``resumed``: how many
    these were. ``added``: documents of new ids; ``updated``: put in the place of one with other
    content; ``unchanged``: left as they were, as their content is the same or ``on_existing`` is
    ``"skip"``; ``removed``: those that a sync found in the FILEs no longer.
    Of what was added or updated ``zero``: documents without a vector, found by keywords alone;
    ``not_utf8``: documents read whose text is not UTF-8 (what ``embed`` wrote always is).
    ``skipped``: bad rows, the first of them in ``first_skipped``; ``dropped``: documents of an id
    that came before. ``seconds``: of this part. ``left_out``: values that are not of their field's
    kind, the first of them in ``first_left_out``; their documents are in.
    ``notes``: what is to be known of the FILEs.
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


class Asked(NamedTuple):
    """What is loaded, and how: see :meth:`Index.load` and :meth:`Index.update`.

    ``sources``: ``None``: the FILEs that the index was made of. ``reading``: ``None``: each FILE as
    before, a new one as the last.
    """

    sources: Sources | None
    reading: Reading | None
    on_existing: OnExisting
    commit_rows: int
    threads: int | None
    sync: bool = False
    force: bool = False


class Block(NamedTuple):
    """Documents that were read together.

    ``rows``, ``vectors``: those that are to be added, of FILE number ``source``. ``read``: how many
    were read. ``there``: rows of the index that have their ids; ``same``: those of them that are
    unchanged.
    """

    rows: DocumentRows
    vectors: Vectors
    source: int
    read: int
    not_utf8: int
    there: Rows = NO_ROWS
    same: Rows = NO_ROWS


def loaded(
    path: Path,
    belonging: Belonging,
    before: Snapshot,
    writer: Writer,
    asked: Asked,
    progress: Callable[[str, float], None] | None,
) -> LoadReport:
    """Load documents, or go on. Raises :class:`ChangedRun` where another load is half done."""
    if asked.commit_rows < 1:
        raise ValueError(f"commit_rows: wanted at least 1, got {asked.commit_rows}")
    check_choice(asked.on_existing)
    parts = _parts(path, writer, asked)
    plan = _plan(parts)
    start = _start(path, writer, plan, asked)
    if start is None:
        return _already_done(writer.manifest.load)
    return _Loading(path, belonging, before, asked, parts, plan, start, writer, progress).done()


def _already_done(load: Load | None) -> LoadReport:
    read = load.documents if load is not None else 0
    return LoadReport(read=read, resumed=read, unchanged=read)


def weights_in(shards: Path) -> FittedWeights | None:
    """The weights that a folder of shards was encoded with; ``None``: none were fitted."""
    file = shards / WEIGHTS
    return FittedWeights.read(file) if file.is_file() else None


def _parts(path: Path, writer: Writer, asked: Asked) -> list[Part]:
    """What is read; its FILEs are remembered. Raises :class:`VocabtoolError`: no sync of these."""
    known, path = writer.manifest.sources, folder.home(path)
    if asked.sources is not None and asked.reading is not None:
        parts, sources = named(asked.sources, asked.reading, known, path)
    else:
        parts, sources = made_of(asked.sources, known, path, sync=asked.sync)
    writer.sources = sources
    return parts


def _facts(parts: Sequence[Part]) -> tuple[Input, ...]:
    """Size and time of each file, by the name that it is told by."""
    return tuple(
        replace(fact, name=told)
        for part in parts
        for fact, (told, _) in zip(facts_of(part.files, "stat"), part.files.values(), strict=True)
    )


def _plan(parts: Sequence[Part]) -> str | None:
    """What tells this load from another; ``None``: a stream, which cannot be gone on with."""
    if any(part.is_stream for part in parts):
        return None
    inputs = [asdict(each) for each in _facts(parts)]
    read = [part.reading._replace(on_error="raise") for part in parts]
    return hashlib.sha256(json.dumps((inputs, read)).encode()).hexdigest()


def _start(path: Path, writer: Writer, plan: str | None, asked: Asked) -> int | None:
    """How many documents are in already; ``None``: all of them, and nothing is to be removed."""
    before = writer.manifest.load
    if before is None:
        return 0
    if before.plan == plan:
        if before.finished and (before.synced or not asked.sync):
            return None
        return before.documents if asked.reading is not None else 0
    if not before.finished and asked.sources is not None:
        raise ChangedRun(str(path), (HALF_DONE,))
    return 0


class _Loading:
    """One load on its way."""

    def __init__(
        self,
        path: Path,
        belonging: Belonging,
        before: Snapshot,
        asked: Asked,
        parts: Sequence[Part],
        plan: str | None,
        start: int,
        writer: Writer,
        progress: Callable[[str, float], None] | None,
    ) -> None:
        self._path = path
        self._belonging = belonging
        self._before = before
        self._asked = asked
        self._parts = parts
        self._plan = plan
        self._start = start
        self._writer = writer
        self._progress = progress
        self._facts = _facts(parts)
        self._held = None
        if asked.on_existing == "update":
            self._held = Held(before, writer.row_sources() > 0)
        self._seen = np.zeros(before.manifest.rows, np.bool_)
        several = sum(len(part.sources) for part in parts) > 1
        self._ids = SeenIds() if several else None
        self._log = ReadLog()
        self._read = start
        self._updated = self._unchanged = self._zero = self._not_utf8 = 0
        # No id can be there yet: all rows are of this load, and its ids are compared as it reads.
        load = writer.manifest.load
        self._new = load.alone if start and load is not None else writer.rows == 0

    def done(self) -> LoadReport:
        """Load what is left, committing on the way; what is to be removed goes with the last."""
        began, before, committed = time.monotonic(), self._writer.rows, self._read
        for part in reversed(self._parts):  # of one id the last counts, so it is read first
            with closed_after(self._blocks(part)) as blocks:
                for block in blocks:
                    self._take(block, part.reading.on_error)
                    if self._read - committed >= self._asked.commit_rows:
                        self._writer.commit(self._load(finished=False), codes=False)
                        committed = self._read
                    self._tell()
        removed = self._remove() if self._asked.sync else 0
        self._writer.commit(self._load(finished=True))
        return LoadReport(
            read=self._read,
            resumed=self._start,
            added=self._writer.rows - before - self._updated,
            updated=self._updated,
            unchanged=self._unchanged,
            removed=removed,
            zero=self._zero,
            not_utf8=self._not_utf8,
            skipped=self._log.skipped.count,
            first_skipped=tuple(self._log.skipped.first),
            dropped=self._log.repeated.count,
            seconds=time.monotonic() - began,
            left_out=self._writer.left_out.count,
            first_left_out=tuple(self._writer.left_out.first),
            notes=tuple(note for part in self._parts for note in part.notes),
        )

    def _take(self, block: Block, on_error: OnError) -> None:
        before = self._writer.rows
        add = self._writer.append_new if self._new else self._writer.add_rows
        add(block.rows, block.vectors, self._asked.on_existing, on_error, block.source)
        self._writer.are_of(block.same, block.source)
        self._seen[block.there] = True
        self._read += block.read
        self._updated += len(block.there) - len(block.same)
        self._unchanged += block.read - (self._writer.rows - before)
        self._zero += int(np.count_nonzero(~block.vectors.any(axis=1)))
        self._not_utf8 += block.not_utf8

    def _remove(self) -> int:
        """Delete the documents that the FILEs no longer hold; how many they are.

        Raises :class:`VocabtoolError`, and nothing since the last commit is kept: where these are
        more than a third, or bad rows were left out, unless that is forced; where files changed.
        """
        numbers = in_scope(self._writer.sources, self._parts)
        rows = self._before.live_rows()
        rows = rows[np.isin(self._writer.row_sources()[rows], numbers)]
        gone = rows[~self._seen[rows]]
        told = f"{self._path}: {len(gone):,} of the {len(rows):,} documents of these FILEs are in "
        told += "them no longer"
        if changed := changes(self._facts, _facts(self._parts)):
            raise VocabtoolError(f"{self._path}: {changed[0]}, while it was read: run it again")
        if len(gone) and self._log.skipped.count and not self._asked.force:
            bad = self._log.skipped.first[0]
            raise VocabtoolError(
                f"{told}, but rows were left out, which may be these ({bad.place}: {bad.reason}): "
                "mend them, or remove the documents with --force (force=True)"
            )
        if len(gone) > MOST_REMOVED * len(rows) and not self._asked.force:
            raise VocabtoolError(
                f"{told}, more than a third, so nothing is changed: are these all the FILEs, and "
                "whole? --force (force=True) removes the documents"
            )
        self._writer.delete_rows(gone)
        return len(gone)

    def _load(self, *, finished: bool) -> Load | None:
        if self._plan is None:
            return None
        goes_on = finished or self._asked.reading is not None  # an update reads all again
        read = self._read if goes_on else 0
        return Load(self._plan, read, finished, self._new, finished and self._asked.sync)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(f"{self._read:,} documents", 0.0)

    def _blocks(self, part: Part) -> Iterator[Block]:
        if part.shards is not None:
            return self._of_shards(Shards.open(part.shards), part)
        encoder = self._belonging.encoder
        if encoder is None:
            raise VocabtoolError(
                f"{self._path}: holds vectors of one's own: load a folder of `vocabtool "
                "embed`, add documents with vectors in Python, or index with --model"
            )
        return self._encoded(encoder, part)

    def _encoded(self, encoder: Encoder, part: Part) -> Iterator[Block]:
        reading = part.reading

        def rows_of() -> Iterator[tuple[DocumentRows, int, int]]:
            for sources in reversed(part.sources):
                found = batches(
                    sources,
                    reading.options(),
                    log=self._log,
                    size=BLOCK,
                    rows=ROWS,
                    start=self._start,
                )
                with closed_after(found):
                    for batch in found:
                        told, source = part.files.get(batch.source, (batch.source, 0))
                        rows = of_batch(replace(batch, source=told))
                        bad = int(not_utf8(rows.texts))
                        if self._held is not None:  # a value that is left out changes no row
                            rows = self._writer.kept(rows, reading.on_error)
                            rows = rows.only(self._not_met(rows))
                        yield rows, source, bad

        def encoded(read: tuple[DocumentRows, int, int]) -> Block:
            rows, source, bad = read
            if self._held is None:
                return Block(rows, encoder.encode(rows.texts), source, rows.rows, bad)
            return self._compared(rows, None, source, bad, encoder)

        threads = self._asked.threads or THREADS[encoder.kind]
        return parallel_map(encoded, rows_of(), workers=threads)

    def _not_met(self, rows: DocumentRows) -> NDArray[np.bool_]:
        """Which documents are of ids that no FILE had which was read before: shape (n,)."""
        chosen = np.ones(rows.rows, np.bool_)
        if self._ids is not None:
            chosen[self._ids.add(rows.ids, "", np.arange(rows.rows))] = False
            self._log.repeated.count += int(np.count_nonzero(~chosen))
        return chosen

    def _compared(
        self,
        rows: DocumentRows,
        vectors: Vectors | None,
        source: int,
        not_utf8: int,
        encoder: Encoder | None,
    ) -> Block:
        """What is new or changed of some documents; equal texts have one vector."""
        held = self._held
        assert held is not None  # noqa: S101 - only an update compares
        there, same, twin = held.compared(rows, vectors)
        changed, twin = rows.only(~same), twin[~same]
        if vectors is not None:
            made = vectors[~same]
        else:
            assert encoder is not None  # noqa: S101 - else the documents came with vectors
            made = np.empty((changed.rows, encoder.dim), np.float32)
            made[twin >= 0] = held.vectors(twin[twin >= 0])
            if (new := twin < 0).any():
                made[new] = encoder.encode(changed.only(new).texts)
        found = there[there >= 0]
        return Block(changed, made, source, rows.rows, not_utf8, found, there[same])

    def _of_shards(self, shards: Shards, part: Part) -> Iterator[Block]:
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
        source = next(iter(part.numbers), 0)
        for batch in shards.batches([ID, VECTOR, TEXT, *shards.plan.keep]):
            out = min(left, len(batch))
            left -= out
            if out < len(batch):
                rows, vectors = _rows(batch.slice(out), shards)
                if self._held is None:
                    yield Block(rows, vectors, source, rows.rows, 0)
                else:
                    rows = self._writer.kept(rows, part.reading.on_error)
                    new = self._not_met(rows)
                    yield self._compared(rows.only(new), vectors[new], source, 0, None)


def _rows(batch: pa.RecordBatch, shards: Shards) -> tuple[DocumentRows, Vectors]:
    fields = {name: of_texts(batch.column(name)) for name in shards.plan.keep}
    rows = DocumentRows(batch.column(ID), batch.column(TEXT), fields)
    return out_of_file(rows, lambda row: str(shards.path)), vectors_of(batch)
