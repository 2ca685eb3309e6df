"""A folder of shards, written by one run, and the public :class:`Shards` to read it.

_run.json          the plan of the run, written before the first shard
_weights.json      weights of word vectors, if they were fitted for the run
shard-….parquet    the rows
_manifest.json     all shards with their checksums; written last, when the run is finished

A shard is written to a temporary file, which is flushed and then renamed. Its footer has the key
``vocabtool``, whose value is JSON: the fingerprint of the run, the number of the shard, and the
counts of the shard. Pages have checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import IO, Any, Final

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of
from numpy.typing import NDArray
from pyarrow import parquet

from vocabtool.choices import Dtype
from vocabtool.documents.batch import Document, ReadLog
from vocabtool.documents.files import Input, arrow_errors, changes
from vocabtool.documents.options import ID, TEXT, VECTOR, ReadOptions
from vocabtool.encoders.encoder import FittedWeights
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.formats import json_file
from vocabtool.system.own_files import (
    checksum,
    compare,
    decode_record,
    encode_record,
    from_json,
    lock_folder,
    sync_folder,
    telling_full_disk,
    to_json,
    whole_file,
)
from vocabtool.system.parallel import in_batches
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import as_bytes

Vectors = NDArray[np.float32]

UNKNOWN: Final = "unknown"
RESERVED: Final = (ID, VECTOR, UNKNOWN, TEXT)  # names that kept fields must not have
RUN: Final = "_run.json"
MANIFEST: Final = "_manifest.json"
WEIGHTS: Final = "_weights.json"
KIND: Final = "manifest of embed"
NUMBERS: Final = (of.is_integer, of.is_floating, of.is_decimal)


def shard_schema(plan: Plan, kept: pa.Schema, *, words: bool) -> pa.Schema:
    number = pa.float16() if plan.dtype == "float16" else pa.float32()
    vector = pa.list_(pa.field("element", number, nullable=False), plan.dim)
    columns = [pa.field(ID, pa.string(), nullable=False), pa.field(VECTOR, vector, nullable=False)]
    if words:
        word = pa.field("element", pa.string(), nullable=False)
        columns.append(pa.field(UNKNOWN, pa.list_(word), nullable=False))
    if plan.text:
        columns.append(pa.field(TEXT, pa.string(), nullable=False))
    columns += [pa.field(name, kept.field(name).type) for name in plan.read.kept_fields]
    return pa.schema(columns)


def type_in_shards(types: Iterable[pa.DataType]) -> pa.DataType:
    """Return the type of a column whose values have these types: ``string`` for mixed ones.

    Integers and floats together are float64. Lists, objects and times without a date are strings.
    """
    distinct = {*types} - {pa.null()}
    kind = distinct.pop() if len(distinct) == 1 else pa.null()
    if any(check(kind) for check in (*NUMBERS, of.is_boolean, of.is_date, of.is_timestamp)):
        return kind
    is_number = bool(distinct) and all(any(check(kind) for check in NUMBERS) for kind in distinct)
    return pa.float64() if is_number else pa.string()


def cast_texts(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """A text that is no value of this type becomes null. Also return the rows of such texts."""
    is_exact = True
    if of.is_boolean(kind):  # Arrow would take the number 1 for true
        booleans = pa.array(["true", "false", None])
        is_exact = pc.all(pc.is_in(texts, value_set=booleans)).as_py()
    with suppress(pa.ArrowInvalid):
        if is_exact:
            return texts if of.is_string(kind) else texts.cast(kind), []
    if len(texts) == 1:
        return pa.nulls(1, kind), [0]
    middle = len(texts) // 2
    # Halves find the misfits fast, because there are few.
    left, left_misfits = cast_texts(texts[:middle], kind)
    right, right_misfits = cast_texts(texts[middle:], kind)
    return pa.concat_arrays([left, right]), [
        *left_misfits,
        *(middle + row for row in right_misfits),
    ]


def vector_array(vectors: Vectors, dtype: Dtype) -> pa.FixedSizeListArray:
    """Return a column of vectors. Raises :class:`InvalidFile` for numbers beyond float16."""
    if dtype == "float16":
        largest = np.finfo(np.float16).max
        if np.abs(vectors).max(initial=0) > largest:
            raise InvalidFile(
                f"a vector has a number above {largest}, the limit of float16: use --dtype float32"
            )
        vectors = vectors.astype(np.float16)
    numbers = pa.array(vectors.reshape(-1))
    element = pa.field("element", numbers.type, nullable=False)
    return pa.FixedSizeListArray.from_arrays(numbers, type=pa.list_(element, vectors.shape[1]))


def vectors_of(batch: pa.RecordBatch) -> Vectors:
    """Return the vectors of a batch of rows: float32, shape (n, dim)."""
    column = batch.column(VECTOR)
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
    return vectors.astype(np.float32, copy=False)


# ---- the plan: everything that decides the bytes of the shards; threads and Ray do not

VERSION: Final = 3
PLAN: Final = "plan of embed"
AGAIN: Final = "embed the documents again, with --force (force=True)"
NAMES_OF: Final = {  # in a message, of the fields that are no options of the same name
    "encoder": "the model (its files, signature, output, rule or weights)",
    "words": "the words of the model (--rule, --vocabulary)",
    "dim": "the length of the vectors",
    "format": "--input-format",
    "overlap": "overlap=",
    "on_duplicate": "on_duplicate=",
    "text": "text=False",
    "source": "source=",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides the bytes of the shards of a run.

    ``encoder``, ``words``: fingerprints of the encoder and of its words. ``source``: the name that
    the caller gave to a stream. ``read``: how rows are read, apart from bad rows; not which files.
    """

    encoder: str
    words: str | None
    dim: int
    inputs: tuple[Input, ...]
    source: str | None
    read: ReadOptions
    text: bool
    shard_rows: int
    batch_size: int
    dtype: Dtype

    @property
    def fingerprint(self) -> str:
        """A hash of the values of all fields, whatever the order of the fields."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()

    def differences(self, now: Plan) -> tuple[str, ...]:
        before, after = _values(self), _values(now)
        lines = [
            f"{NAMES_OF.get(name, '--' + name.replace('_', '-'))}: "
            f"was {_show_value(value)}, is {_show_value(after[name])}"
            for name, value in before.items()
            if value != after[name]
        ]
        return (*lines, *changes(self.inputs, now.inputs))


def _values(plan: Plan) -> dict[str, Any]:
    """Return the values of a plan by the names that a message shows, without its inputs."""
    values = {field.name: getattr(plan, field.name) for field in fields(plan)}
    read, _ = values.pop("read"), values.pop("inputs")
    values["text"] = not plan.text  # a message names `text=False`
    return values | {field.name: getattr(read, field.name) for field in fields(read)}


def _show_value(value: Any) -> str:
    match value:
        case None | False:
            return "not given"
        case True:
            return "given"
        case str() if len(value) == 64:  # a fingerprint
            return value[:16]
        case tuple():
            return ", ".join(map(str, value)) or "nothing"
    return str(value)


# ---- shards

NAME: Final = "shard-{:06}.parquet"
NAMES: Final = re.compile(r"shard-(\d{6,})\.parquet")
PART: Final = ".part"  # suffix of a shard that is being written
UNFINISHED: Final = ".vectors"  # suffix of the vectors of a shard that is not written yet
PLACE: Final = struct.Struct("<QII")  # first row, number of rows, CRC-32C
KEY: Final = b"vocabtool"
GROUP_ROWS: Final = 2048  # minimum of a row group; slabs are not split
SYNC_BYTES: Final = 16 << 20  # written between flushes, so that the last flush is short


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of documents in shards. Runs with the same plan have the same counts.

    - ``empty``: number of blank texts.
    - ``zero``: number of zero vectors, which belong to texts without a known word.
    - ``not_utf8``: number of documents with bytes that are not UTF-8. These bytes are stored as
      U+FFFD.
    - ``tokens``: number of words.
    - ``tokens_unknown``: number of words that the model does not know.
    - ``too_long``: number of documents with more tokens than the model reads.
    - ``tokens_cut``: total number of tokens that the model does not read.

    ``tokens`` and ``tokens_unknown`` are 0 if the words of the model are not available.
    """

    documents: int = 0
    empty: int = 0
    zero: int = 0
    not_utf8: int = 0
    tokens: int = 0
    tokens_unknown: int = 0
    too_long: int = 0
    tokens_cut: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [field.name for field in fields(Counts)]
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts(Counts):
    """The metadata in a shard's footer. ``run``: the fingerprint of the run's plan."""

    run: str
    shard: int


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard on disk. ``run``: the fingerprint of the plan. ``size``: bytes of the file."""

    file: str
    number: int
    run: str
    size: int
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Slab:
    """Consecutive documents of one shard, encoded together.

    - ``shard``: the number of the shard. ``full``: whether it ends after this slab.
    - ``start``: number of rows of the shard before this slab; ``None`` if that is not known.
    - ``table``: the columns ``id``, ``text`` and the kept fields. Each has one chunk. Strings may
      contain invalid UTF-8. Once encoded: the columns of the shard.
    - ``lookup``: the words of the texts, for word vectors. ``unknown``: those that the encoder does
      not know. Both are ``None`` until they are looked up.
    """

    shard: int
    table: pa.Table
    full: bool = False
    start: int | None = None
    lookup: WordLookup | None = None
    unknown: pa.ListArray | None = None
    counts: Counts = Counts()


def write_shard(
    folder: Path, number: int, run: str, schema: pa.Schema, slabs: Iterable[Slab]
) -> Shard:
    """Write a shard from its encoded slabs. If an error occurs, the partial file is removed."""
    name, counts, flushed = NAME.format(number), Counts(), 0
    lists = {VECTOR: f"{VECTOR}.list.element", UNKNOWN: f"{UNKNOWN}.list.element"}
    # Vectors hardly compress, text does.
    compression = {lists.get(column, column): "ZSTD" for column in schema.names}
    compression[lists[VECTOR]] = "NONE"
    # A random name: a worker that outlives its killed parent cannot damage a later run's file.
    # A leading dot: readers of the folder ignore the file, also after a kill.
    temporary = folder / f".{name}.{os.urandom(6).hex()}{PART}"
    try:
        # Arrow writes without the GIL, which encoding needs; Python flushes Arrow's file, or fails.
        with pa.OSFile(os.fsencode(temporary), "wb") as sink, temporary.open("rb+") as file:
            with parquet.ParquetWriter(
                sink,
                schema,
                compression=compression,
                use_dictionary=[lists[UNKNOWN]],
                write_statistics=False,
                write_page_checksum=True,
            ) as writer:
                for group in in_batches(
                    slabs, GROUP_ROWS, weight=lambda slab: slab.table.num_rows, most=GROUP_ROWS
                ):
                    rows = pa.concat_tables([slab.table for slab in group])
                    writer.write_table(rows, row_group_size=rows.num_rows)
                    counts = sum((slab.counts for slab in group), counts)
                    if sink.tell() - flushed > SYNC_BYTES:
                        flush(file)
                        flushed = sink.tell()
                facts = {"run": run, "shard": number, **asdict(counts)}
                writer.add_key_value_metadata({KEY: json.dumps(facts).encode()})
            flush(file)
            size = os.fstat(file.fileno()).st_size
        temporary.replace(folder / name)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(folder)
    return Shard(name, number, run, size, counts)


class UnfinishedVectors:
    """The vectors of shards that are not written yet: a killed run need not make them again.

    Each shard has a file: the fingerprint of the run, then for each batch of the encoder the first
    row, the number of rows, the CRC-32C of the texts and vectors, and the vectors: float32.
    Several threads may call the methods. The folder is locked: see :func:`open_folder`.
    """

    def __init__(self, folder: Path, run: str, dim: int) -> None:
        self._folder, self._run, self._dim = folder, run.encode(), dim
        self._lock = Lock()
        self._places: dict[
            int, dict[int, tuple[int, int, int]]
        ] = {}  # of each shard: see `_recover`

    def find(self, shard: int, start: int, texts: pa.StringArray) -> Vectors | None:
        """Return the vectors of texts that begin at a row of a shard, or ``None``."""
        with self._lock:
            if shard not in self._places:
                self._places[shard] = self._recover(shard)
            place = self._places[shard].get(start)
        if place is None:
            return None
        offset, rows, crc32c = place
        with self._path(shard).open("rb") as file:
            file.seek(offset)
            data = file.read(4 * rows * self._dim)
        if rows != len(texts) or _checksum(texts, data) != crc32c:
            return None
        return np.frombuffer(data, "<f4").reshape(rows, self._dim).astype(np.float32)

    def add(
        self, shard: int, start: int, texts: pa.StringArray, batches: Iterable[Vectors]
    ) -> None:
        """Write batches, and flush them to disk. ``texts``: those from the row ``start`` on."""
        with self._lock, self._path(shard).open("ab") as file:
            if not file.tell():
                file.write(self._run)
            for batch in batches:
                data = batch.astype("<f4", copy=False).tobytes()
                crc32c = _checksum(texts[: len(batch)], data)
                file.write(PLACE.pack(start, len(batch), crc32c) + data)
                start, texts = start + len(batch), texts[len(batch) :]
            file.flush()
            os.fsync(file.fileno())

    def remove(self, shard: int) -> None:
        self._path(shard).unlink(missing_ok=True)

    def _path(self, shard: int) -> Path:
        return self._folder / f".{NAME.format(shard)}{UNFINISHED}"

    def _recover(self, shard: int) -> dict[int, tuple[int, int, int]]:
        """Return (offset, rows, CRC-32C) by first row. What a kill left of a batch is cut off."""
        places: dict[int, tuple[int, int, int]] = {}
        path = self._path(shard)
        if not path.is_file():
            path.unlink(missing_ok=True)  # perhaps a link to nothing, which `add` would make
            return places
        with path.open("r+b") as file:
            size, end = os.fstat(file.fileno()).st_size, len(self._run)
            if file.read(end) != self._run:  # of another run, or a link to any file: it stays whole
                path.unlink()
                return places
            while end + PLACE.size <= size:
                file.seek(end)
                start, rows, crc32c = PLACE.unpack(file.read(PLACE.size))
                offset = end + PLACE.size
                if offset + 4 * rows * self._dim > size:
                    break
                places[start] = offset, rows, crc32c
                end = offset + 4 * rows * self._dim
            file.truncate(end)
        return places


def _checksum(texts: pa.StringArray, vectors: bytes) -> int:
    crc32c: int = google_crc32c.value(b"\0".join(as_bytes(texts)))
    return int(google_crc32c.extend(crc32c, vectors))


def flush(file: IO[bytes]) -> None:
    os.fsync(file.fileno())


def read_shard(path: Path) -> Shard:
    with reading(str(path)):
        with path.open("rb") as file, arrow_errors("truncated or damaged"):
            footer = parquet.read_metadata(file)
        data = (footer.metadata or {}).get(KEY)
        if data is None:
            raise InvalidFile("a Parquet file, but not a shard of `vocabtool embed`")
        facts: ShardFacts = from_json(
            ShardFacts, json_file.parse(data), "the metadata of the shard"
        )
        if NAME.format(facts.shard) != path.name:
            raise InvalidFile(f"contains shard {facts.shard}, but its file name has another number")
        if footer.num_rows != facts.documents:
            raise InvalidFile(f"wanted {facts.documents:,} rows, got {footer.num_rows:,}")
        return Shard(path.name, facts.shard, facts.run, path.stat().st_size, facts + Counts())


def read_row_groups(path: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield the row groups of a shard and verify the checksum of each page."""
    with reading(str(path)), arrow_errors("damaged"), path.open("rb") as file:
        rows = parquet.ParquetFile(file, page_checksum_verification=True)
        for group in range(rows.num_row_groups):
            yield rows.read_row_group(group, columns)


def without_a_value(files: Iterable[Path], columns: Sequence[str]) -> list[str]:
    """Return the columns that are null in every row of all shards."""
    missing = list(columns)
    for path in files if missing else ():
        for table in read_row_groups(path, missing):
            missing = [name for name in missing if table[name].null_count == len(table)]
            if not missing:
                return []
    return missing


# ---- the folder


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a finished run. ``checksums``: CRC-32C of each shard's file.

    ``skipped``: number of invalid rows. ``dropped``: number of documents with a repeated id.
    """

    run: str
    counts: Counts
    shards: tuple[Shard, ...]
    checksums: tuple[int, ...]
    skipped: int
    dropped: int
    first_skipped: tuple[tuple[str, str], ...]


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; ``None`` if the run is not finished."""
    file = folder / MANIFEST
    if not file.exists():
        return None
    with reading(str(file)):
        manifest = decode_record(
            file.read_bytes(), Manifest, kind=KIND, version=VERSION, advice=AGAIN
        )
        names = list(map(NAME.format, range(len(manifest.shards))))
        if [shard.file for shard in manifest.shards] != names:
            raise InvalidFile("the file names of the shards must be numbered from 0 without gaps")
    return manifest


def read_plan(folder: Path) -> Plan | None:
    """Read the plan of the run in a folder; ``None`` if the folder has no run."""
    file = folder / RUN
    if not file.exists():
        return None
    with reading(str(file)):
        return decode_record(file.read_bytes(), Plan, kind=PLAN, version=VERSION, advice=AGAIN)


def fitted_weights(folder: Path) -> FittedWeights | None:
    """Return the word weights that were fitted for the run in a folder, if they were."""
    file = folder / WEIGHTS
    return FittedWeights.read(file) if file.is_file() else None


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
            written = read_shard(folder / shard.file)
            if written != shard:
                what = "not the shard that the manifest lists"
                if written.run != shard.run:
                    what = f"a shard of another run ({written.run[:16]})"
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

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, a row group at a time.

        ``columns``: names of the columns to read; by default, all columns. The columns are:

        - ``id``: string
        - ``vector``: fixed-size list of float32 or float16
        - ``unknown``: list of string; only if the model's words are known
        - ``text``: string; unless the run stored no texts
        - the kept fields: integers, floats, decimals, booleans, dates and timestamps in the type of
          the first documents; otherwise string; null where missing

        Raises :class:`InvalidFile` for a damaged file.
        """
        plan = self.plan
        names = list(columns) if columns is not None else None
        kept: pa.Schema | None = None  # of the first shard
        for shard in self.manifest.shards:
            file = self.path / shard.file
            with reading(str(file)), arrow_errors("damaged"):
                schema = parquet.read_schema(file)
            words = UNKNOWN in schema.names
            kept = schema if kept is None else kept
            is_whole = {*plan.read.kept_fields} <= {*schema.names}
            if not is_whole or schema != shard_schema(plan, kept, words=words):
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
    """An output folder of :func:`vocabtool.embed`, for the process that has locked it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has_shards(self) -> bool:
        """Whether the folder contains shards or their vectors, or its manifest lists shards."""
        manifest = read_manifest(self.path)
        if self._shard_names() or any(self.path.glob(f".shard-*{UNFINISHED}")):
            return True
        return manifest is not None and bool(manifest.shards)

    def begin(self, plan: Plan, weights: FittedWeights | None) -> None:
        """Remove the results of earlier runs, and write the plan and the weights of a new run."""
        others = [file.name for file in self.path.glob(f".shard-*{UNFINISHED}")]
        for name in (MANIFEST, *self._shard_names(), *others):
            (self.path / name).unlink(missing_ok=True)
        if weights is None:
            (self.path / WEIGHTS).unlink(missing_ok=True)
        else:
            weights.write(self.path / WEIGHTS)
        self._write(RUN, encode_record(plan, kind=PLAN, version=VERSION))

    def remove_unfinished(self) -> int:
        """Remove the files of killed writers; return the number of shards among them."""
        unfinished = [file for file in self.path.glob(f".shard-*{PART}") if file.is_file()]
        for file in (*unfinished, *self.path.glob(".vocabtool-*.tmp")):
            file.unlink()
        return len(unfinished)

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

        ``resumed``: shards of earlier calls. They are read first; a damaged one raises an error.
        """
        for number in resumed:
            for _ in read_row_groups(self.path / shards[number].file):
                pass
        ordered = tuple(shards[number] for number in sorted(shards))
        manifest = Manifest(
            run=plan.fingerprint,
            counts=sum((shard.counts for shard in ordered), Counts()),
            shards=ordered,
            checksums=tuple(checksum(self.path / shard.file) for shard in ordered),
            skipped=log.skipped.count,
            dropped=log.repeated,
            first_skipped=tuple((skip.place, skip.reason) for skip in log.skipped.first),
        )
        for file in self.path.glob(f".shard-*{UNFINISHED}"):
            file.unlink()
        self._write(MANIFEST, encode_record(manifest, kind=KIND, version=VERSION))
        return manifest

    def _write(self, name: str, data: bytes) -> None:
        with whole_file(self.path / name) as file:
            file.write(data)

    def _shard_names(self) -> list[str]:
        return sorted(file.name for file in self.path.iterdir() if NAMES.fullmatch(file.name))


@contextmanager
def open_folder(path: Path) -> Iterator[Folder]:
    """Lock an output folder. A new one is removed if the block fails before the first shard."""
    is_new = not path.exists()
    with telling_full_disk(path), reading(str(path)):
        path.mkdir(parents=True, exist_ok=True)
        others = sorted(file.name for file in path.iterdir() if not BEGINNING.fullmatch(file.name))
        if others and not (path / RUN).exists():
            raise NotFound(
                f"{path}: not empty, but not a run of `vocabtool embed` (it contains "
                f"{others[0]!r}): choose a new folder"
            )
    with telling_full_disk(path, "finished shards stay"), lock_folder(path):
        folder = Folder(path)
        try:
            yield folder
        except BaseException:
            if is_new and not folder.has_shards():
                rmtree(path)
            raise
