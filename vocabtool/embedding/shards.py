"""A folder of shards, written by one run, and the public :class:`Shards` to read it.

_run.json          the plan of the run (``plan.py``), written before the first shard
_weights.json      weights of word vectors, if they were fitted for the run
shard-….parquet    the rows
_manifest.json     all shards with their checksums; written last, when the run is finished
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from vocabtool.documents.batch import Document, ReadLog, Skip
from vocabtool.documents.files import arrow_errors
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import (
    ID,
    NAME,
    NAMES,
    PART,
    TEXT,
    UNKNOWN,
    VECTOR,
    Counts,
    Shard,
    Vectors,
    read_row_groups,
    read_shard,
    shard_schema,
    vectors_of,
)
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.formats import json_file
from vocabtool.system.own_files import checksum, compare, from_json, lock_folder, whole_file

RUN: Final = "_run.json"
MANIFEST: Final = "_manifest.json"
WEIGHTS: Final = "_weights.json"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShardRecord(Counts):
    file: str
    bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _ManifestRecord(Counts):
    vocabtool_manifest: int
    run: str
    skipped: int
    dropped: int
    first_skipped: tuple[Mapping[str, str], ...]
    shards: tuple[_ShardRecord, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a finished run. ``checksums``: CRC-32C of each shard's file.

    ``skipped``: number of invalid rows. ``dropped``: number of documents with a repeated id.
    """

    run: str
    shards: tuple[Shard, ...]
    checksums: tuple[int, ...]
    skipped: int
    dropped: int
    first_skipped: tuple[Skip, ...]

    @property
    def counts(self) -> Counts:
        return sum((shard.counts for shard in self.shards), Counts())

    def to_json(self) -> bytes:
        """Return the content of ``_manifest.json``; the same run gives the same bytes."""
        shards = [
            {"file": shard.file, "bytes": shard.size, "crc32c": crc, **shard.counts.to_record()}
            for shard, crc in zip(self.shards, self.checksums, strict=True)
        ]
        record = {
            "vocabtool_manifest": VERSION,
            "run": self.run,
            **self.counts.to_record(),
            "skipped": self.skipped,
            "dropped": self.dropped,
            "first_skipped": [skip._asdict() for skip in self.first_skipped],
            "shards": shards,
        }
        return json.dumps(record, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        record: _ManifestRecord = from_json(_ManifestRecord, json_file.parse(data), "manifest")
        if record.vocabtool_manifest != VERSION:
            raise InvalidFile(
                f"manifest: wanted version {VERSION}, got {record.vocabtool_manifest}"
            )
        names = list(map(NAME.format, range(len(record.shards))))
        if [each.file for each in record.shards] != names:
            raise InvalidFile(
                "manifest: the file names of the shards must be numbered from 0 without gaps"
            )
        shards = tuple(
            Shard(each.file, number, record.run, each.bytes, each + Counts())
            for number, each in enumerate(record.shards)
        )
        checksums = tuple(each.crc32c for each in record.shards)
        first = tuple(Skip(skip["place"], skip["reason"]) for skip in record.first_skipped)
        return cls(record.run, shards, checksums, record.skipped, record.dropped, first)


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; ``None`` if the run is not finished."""
    file = folder / MANIFEST
    if not file.exists():
        return None
    with reading(str(file)):
        return Manifest.from_json(file.read_bytes())


def read_plan(folder: Path) -> Plan | None:
    file = folder / RUN
    if not file.exists():
        return None
    with reading(str(file)):
        return Plan.from_json(file.read_bytes())


class Shards:
    """The documents of a finished run and their vectors, opened with :meth:`open`.

    ``plan``: the model, inputs and options of the run. ``manifest``: the shards with their counts.
    """

    def __init__(self, path: Path, plan: Plan, manifest: Manifest) -> None:
        self.path = path
        self.plan = plan
        self.manifest = manifest

    @classmethod
    def open(cls, path: str | Path) -> Shards:
        """Open a folder and check that every shard exists, is complete and belongs to the run.

        Parquet's page checksums are checked when rows are read; :meth:`verify` checks every byte.
        Raises :class:`NotFound` if the folder contains no finished run. Raises
        :class:`InvalidFile`, whose message names the file, if a file was changed after the run.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        if manifest is None:
            what = "contains no run of `vocabtool embed`"
            if (folder / RUN).exists():
                what = "the run is not finished: run the same command again"
            raise NotFound(f"{folder}: {what}")
        plan = read_plan(folder)
        if plan is None or plan.fingerprint != manifest.run:
            what = "belongs to another run than the manifest" if plan else "missing"
            raise InvalidFile(what, file=str(folder / RUN))
        for shard in manifest.shards:
            found = read_shard(folder / shard.file)
            if found != shard:
                what = "not the shard that the manifest lists"
                if found.run != shard.run:
                    what = f"a shard of another run ({found.run[:16]})"
                raise InvalidFile(what, file=str(folder / shard.file))
        return cls(folder, plan, manifest)

    def __len__(self) -> int:
        return self.counts.documents

    @property
    def counts(self) -> Counts:
        """The counts of all rows."""
        return self.manifest.counts

    @property
    def dim(self) -> int:
        """The length of the vectors."""
        return self.plan.dim

    def verify(self) -> None:
        """Verify the checksum of each file. Raises :class:`InvalidFile` for a damaged file."""
        for shard, wanted in zip(self.manifest.shards, self.manifest.checksums, strict=True):
            compare(self.path / shard.file, wanted)

    def batches(
        self, columns: Sequence[str] | None = None, *, shard: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, a row group at a time.

        ``columns``: names of the columns to read. ``shard``: number of the one shard to read; the
        first shard is 0. By default, all columns of all shards are read. The columns are:

        - ``id``: string
        - ``vector``: fixed-size list of float32 or float16
        - ``unknown``: list of string; only if the model's words are known
        - ``text``: string; unless the run stored no texts
        - the kept fields: string, null where missing

        Raises :class:`InvalidFile` for a damaged file.
        """
        plan = self.plan
        names = list(columns) if columns is not None else None
        chosen = self.manifest.shards if shard is None else [self.manifest.shards[shard]]
        for each in chosen:
            file = self.path / each.file
            with reading(str(file)), arrow_errors("damaged"):
                schema = parquet.read_schema(file)
            words = UNKNOWN in schema.names
            if schema != shard_schema(plan.dim, plan.dtype, plan.keep, words=words, text=plan.text):
                raise InvalidFile(
                    "damaged: its columns differ from the columns of the run", file=str(file)
                )
            for table in read_row_groups(file, names):
                yield from table.to_batches()

    def vectors(self) -> Iterator[Vectors]:
        """Yield the vectors in order, a row group at a time: float32, shape (n, dim)."""
        for batch in self.batches([VECTOR]):
            yield vectors_of(batch)

    def documents(self) -> Iterator[Document]:
        """Yield the documents in order.

        All columns except ``id`` and ``text`` become the ``fields`` of a document. The field
        ``vector`` is an array, float32, shape (dim,).
        """
        for batch in self.batches():
            others = [name for name in batch.schema.names if name not in (ID, VECTOR, TEXT)]
            columns = [batch.column(name).to_pylist() for name in others]
            texts = batch.column(TEXT).to_pylist() if self.plan.text else [""] * len(batch)
            ids = batch.column(ID).to_pylist()
            for row, vector in enumerate(vectors_of(batch)):
                fields = {name: column[row] for name, column in zip(others, columns, strict=True)}
                yield Document(ids[row], texts[row], {VECTOR: vector, **fields})


# Files that a run leaves behind if it is killed while starting.
BEGINNING: Final = re.compile(r"\.lock|_weights\.json|\.vocabtool-.*\.tmp")


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def has_shards(self) -> bool:
        """Whether the folder contains shards, or its manifest lists shards."""
        manifest = read_manifest(self.path)
        return bool(self._shard_names()) or (manifest is not None and bool(manifest.shards))

    def weights(self) -> FittedWeights | None:
        file = self.path / WEIGHTS
        return FittedWeights.read(file) if file.exists() and self.has_shards() else None

    def begin(self, plan: Plan, weights: FittedWeights | None) -> None:
        for name in (MANIFEST, *self._shard_names()):
            (self.path / name).unlink(missing_ok=True)
        if weights is None:
            (self.path / WEIGHTS).unlink(missing_ok=True)
        else:
            weights.write(self.path / WEIGHTS)
        self._write(RUN, plan.to_json())

    def remove_unfinished(self) -> int:
        named = (*self.path.glob(f".shard-*{PART}"), *self.path.glob(f"shard-*{PART}"))
        parts = [file for file in named if file.is_file()]  # without the dot: of an earlier version
        for file in (*parts, *self.path.glob(".vocabtool-*.tmp")):
            file.unlink()
        return len(parts)

    def shards(self, plan: Plan) -> dict[int, Shard]:
        """Return the existing shards by number; raise an error for a shard of another run."""
        run, shards = plan.fingerprint, {}
        for name in self._shard_names():
            shard = read_shard(self.path / name)
            if shard.run != run:
                raise InvalidFile(
                    f"a shard of another run ({shard.run[:16]}, not {run[:16]}): remove the "
                    "file, then run again to make the shard anew",
                    file=str(self.path / name),
                )
            shards[shard.number] = shard
        return shards

    def finish(
        self, plan: Plan, shards: Mapping[int, Shard], resumed: Iterable[int], log: ReadLog
    ) -> Manifest:
        """Write the manifest, which marks the run as finished.

        ``resumed``: numbers of the shards that earlier calls wrote. They are read first. If one of
        them is damaged, an error is raised.
        """
        for number in resumed:
            for _ in read_row_groups(self.path / shards[number].file):
                pass
        ordered = tuple(shards[number] for number in sorted(shards))
        manifest = Manifest(
            plan.fingerprint,
            ordered,
            tuple(checksum(self.path / shard.file) for shard in ordered),
            log.skipped.count,
            log.repeated.count,
            tuple(log.skipped.first),
        )
        self._write(MANIFEST, manifest.to_json())
        return manifest

    def _write(self, name: str, data: bytes) -> None:
        with whole_file(self.path / name) as file:
            file.write(data)

    def _shard_names(self) -> list[str]:
        return sorted(file.name for file in self.path.iterdir() if NAMES.fullmatch(file.name))


@contextmanager
def open_folder(path: Path) -> Iterator[Folder]:
    """Create or open an output folder and lock it against other writers.

    A new folder is removed if the ``with`` block fails before the first shard.
    """
    is_new = not path.exists()
    with reading(str(path)):
        path.mkdir(parents=True, exist_ok=True)
        others = sorted(each.name for each in path.iterdir() if not BEGINNING.fullmatch(each.name))
        if others and not (path / RUN).exists():
            raise NotFound(
                f"{path}: not empty, but not a run of `vocabtool embed` (it contains "
                f"{others[0]!r}): choose a new folder"
            )
    with lock_folder(path):
        folder = Folder(path)
        try:
            yield folder
        except BaseException:
            if is_new and not folder.has_shards():
                rmtree(path)
            raise
