"""Write and check one shard, a Parquet file.

The shard is written to a temporary file, which is flushed and then renamed.

The file's footer has the key ``vocabtool``, whose value is JSON: the fingerprint of the run, the
number of the shard, and the counts of the shard. Pages have checksums.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from vocabtool.choices import Dtype
from vocabtool.documents.batch import bounds
from vocabtool.documents.files import arrow_errors
from vocabtool.errors import InvalidFile, reading
from vocabtool.formats import json_file
from vocabtool.system.own_files import from_json, sync_folder
from vocabtool.vocabulary import is_utf8

Vectors = NDArray[np.float32]

ID: Final = "id"
TEXT: Final = "text"
VECTOR: Final = "vector"
UNKNOWN: Final = "unknown"
RESERVED: Final = (ID, VECTOR, UNKNOWN, TEXT)  # names that kept fields must not have
REPLACE: Final = "replace"  # error handler: bytes that are not UTF-8 become U+FFFD
HEAD_BITS, CONTINUES = np.uint8(0xC0), np.uint8(0x80)  # marks a continuation byte of UTF-8


def shard_schema(
    dim: int, dtype: Dtype, keep: tuple[str, ...], *, words: bool, text: bool
) -> pa.Schema:
    number = pa.float16() if dtype == "float16" else pa.float32()
    vector = pa.list_(pa.field("element", number, nullable=False), dim)
    columns = [pa.field(ID, pa.string(), nullable=False), pa.field(VECTOR, vector, nullable=False)]
    if words:
        word = pa.field("element", pa.string(), nullable=False)
        columns.append(pa.field(UNKNOWN, pa.list_(word), nullable=False))
    if text:
        columns.append(pa.field(TEXT, pa.string(), nullable=False))
    return pa.schema([*columns, *(pa.field(name, pa.string()) for name in keep)])


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


def as_utf8(strings: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.bool_]]:
    """Replace bytes that are not UTF-8 by U+FFFD; keep nulls.

    Returns the n strings, and whether each string was changed: bool, shape (n,).
    """
    nothing = np.zeros(len(strings), np.bool_)
    if not len(strings):
        return strings, nothing
    # Nothing to do if all bytes together are UTF-8 and no string begins inside a character.
    ends = bounds(strings)
    data = memoryview(strings.buffers()[2] or b"")[int(ends[0]) : int(ends[-1])]
    starts = ends[:-1][ends[:-1] < ends[-1]] - ends[0]
    inside = (np.frombuffer(data, np.uint8)[starts] & HEAD_BITS) == CONTINUES
    if not inside.any() and is_utf8(bytes(data)):
        return strings, nothing
    binary = strings.view(pa.binary()).to_pylist()
    replaced = np.array([text is not None and not is_utf8(text) for text in binary], np.bool_)
    texts = [None if text is None else text.decode("utf-8", REPLACE) for text in binary]
    return pa.array(texts, pa.string()), replaced


NAME: Final = "shard-{:06}.parquet"
NAMES: Final = re.compile(r"shard-(\d{6,})\.parquet")
PART: Final = ".part"  # suffix of a shard that is being written
KEY: Final = b"vocabtool"
GROUP_ROWS: Final = 2048  # minimum of a row group; slabs are not split
SYNC_BYTES: Final = 16 << 20  # written between flushes, so that the last flush is short


SINCE_0_2: Final = ("too_long", "tokens_cut")  # stored if not 0, so that older folders stay as is


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
        names = [each.name for each in fields(Counts)]
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def to_record(self) -> dict[str, int]:
        """Return the counts as stored in a file. Some are left out if they are 0."""
        counts = asdict(self)
        return {name: counts[name] for name in counts if counts[name] or name not in SINCE_0_2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts(Counts):
    """The metadata in a shard's footer.

    ``run``: the fingerprint of the run's plan. ``shard``: the number of the shard.
    """

    run: str
    shard: int


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard on disk.

    ``run``: the fingerprint of the run's plan. ``size``: the size of the file in bytes.
    """

    file: str
    number: int
    run: str
    size: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Rows:
    table: pa.Table
    counts: Counts
    hits: int


def write_shard(
    folder: Path, number: int, run: str, schema: pa.Schema, rows: Iterable[Rows]
) -> Shard:
    """Write a shard from its rows. If an error occurs, the partial file is removed."""
    name = NAME.format(number)
    # A random name: a worker that outlives its killed parent cannot damage a later run's file.
    # A leading dot: readers of the folder ignore the file, also after a kill.
    part = folder / f".{name}.{os.urandom(6).hex()}{PART}"
    try:
        # Arrow writes without the GIL, which encoding needs; Python flushes Arrow's file, or fails.
        with open_native(part) as sink, part.open("rb+") as file:
            counts = _write(sink, file, number, run, schema, rows)
            flush(file)
            size = os.fstat(file.fileno()).st_size
        part.replace(folder / name)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    sync_folder(folder)
    return Shard(name, number, run, size, counts)


def open_native(path: Path) -> pa.NativeFile:
    return pa.OSFile(os.fsencode(path), "wb")


def flush(file: IO[bytes]) -> None:
    """Force the data of a file to disk (``fsync``)."""
    os.fsync(file.fileno())


def _write(
    sink: pa.NativeFile,
    file: IO[bytes],
    number: int,
    run: str,
    schema: pa.Schema,
    rows: Iterable[Rows],
) -> Counts:
    """Write rows to ``sink``. ``sink`` and ``file`` are handles of the same file."""
    counts, flushed = Counts(), 0
    lists = {VECTOR: f"{VECTOR}.list.element", UNKNOWN: f"{UNKNOWN}.list.element"}
    with parquet.ParquetWriter(
        sink,
        schema,
        # Vectors hardly compress, text does.
        compression={
            lists.get(name, name): "NONE" if name == VECTOR else "ZSTD" for name in schema.names
        },
        use_dictionary=[lists[UNKNOWN]],
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        waiting: list[Rows] = []
        for slab in chain(rows, (None,)):
            if slab is not None:
                waiting.append(slab)
            if not waiting or (slab and sum(len(each.table) for each in waiting) < GROUP_ROWS):
                continue
            table = pa.concat_tables([each.table for each in waiting])
            writer.write_table(table, row_group_size=table.num_rows)
            counts += sum((each.counts for each in waiting), Counts())
            waiting = []
            if sink.tell() - flushed > SYNC_BYTES:
                flush(file)
                flushed = sink.tell()
        facts = {"run": run, "shard": number, **counts.to_record()}
        writer.add_key_value_metadata({KEY: json.dumps(facts).encode()})
    return counts


def read_shard(path: Path) -> Shard:
    """Read the description of a shard from its footer."""
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


def without_a_value(files: Iterable[Path], columns: Sequence[str]) -> tuple[str, ...]:
    missing = tuple(columns)
    for path in files:
        if not missing:
            break
        with reading(str(path)), arrow_errors("damaged"), path.open("rb") as file:
            rows = parquet.ParquetFile(file)
            for group in range(rows.num_row_groups):
                table = rows.read_row_group(group, list(missing))
                missing = tuple(n for n in missing if table[n].null_count == len(table))
                if not missing:
                    break
    return missing


def read_row_groups(path: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield the row groups of a shard and verify the checksum of each page."""
    with reading(str(path)), arrow_errors("damaged"), path.open("rb") as file:
        rows = parquet.ParquetFile(file, page_checksum_verification=True)
        for group in range(rows.num_row_groups):
            yield rows.read_row_group(group, columns)
