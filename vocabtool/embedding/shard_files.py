"""One shard as a Parquet file: its columns; written beside, flushed, renamed; and checked again.

What a shard says of itself stands in the file's footer under ``vocabtool``: of which run it is,
its number, and what it holds. Pages carry checksums.
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
RESERVED: Final = (ID, VECTOR, UNKNOWN, TEXT)  # no kept field may be called so
REPLACE: Final = "replace"  # bytes that are no UTF-8 by U+FFFD
HEAD_BITS, CONTINUES = np.uint8(0xC0), np.uint8(0x80)  # of a byte inside a character


def shard_schema(
    dim: int, dtype: Dtype, keep: tuple[str, ...], *, words: bool, text: bool
) -> pa.Schema:
    """The columns of a shard; ``words``, ``text``: whether unknown words and texts are stored."""
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
    """Vectors as a column. Raises :class:`InvalidFile` where float16 does not hold a number."""
    if dtype == "float16":
        largest = np.finfo(np.float16).max
        if np.abs(vectors).max(initial=0) > largest:
            raise InvalidFile(f"a vector holds a number beyond {largest}: --dtype float32 holds it")
        vectors = vectors.astype(np.float16)
    numbers = pa.array(vectors.reshape(-1))
    element = pa.field("element", numbers.type, nullable=False)
    return pa.FixedSizeListArray.from_arrays(numbers, type=pa.list_(element, vectors.shape[1]))


def vectors_of(batch: pa.RecordBatch) -> Vectors:
    """The vectors of a batch of rows: float32, shape (n, dim)."""
    column = batch.column(VECTOR)
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
    return vectors.astype(np.float32, copy=False)


def as_utf8(strings: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.bool_]]:
    """The same strings with U+FFFD in place of bytes that are not UTF-8, and where that was done.

    Nulls stay. Returns an array of length n and bool, shape (n,).
    """
    nothing = np.zeros(len(strings), np.bool_)
    if not len(strings):
        return strings, nothing
    # The bytes may be UTF-8 as a whole, and no string begin inside a character.
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
PART: Final = ".part"  # ends the name of a shard that is being written
KEY: Final = b"vocabtool"
GROUP_ROWS: Final = 2048  # of a row group; a few more, as slabs stay whole
SYNC_BYTES: Final = 16 << 20  # flushed to the disk on the way, so that little is left at the end


@dataclass(frozen=True, slots=True)
class Counts:
    """What some rows of shards hold; the same whenever they are made.

    ``empty``: texts of nothing but blanks. ``zero``: vectors that are zero: no word is known.
    ``not_utf8``: documents stored with U+FFFD where bytes were no UTF-8.
    ``tokens``, ``tokens_unknown``: of the words of the model, both 0 where nothing tells them.
    """

    documents: int = 0
    empty: int = 0
    zero: int = 0
    not_utf8: int = 0
    tokens: int = 0
    tokens_unknown: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [each.name for each in fields(Counts)]
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts(Counts):
    """What a shard says of itself. ``run``: the fingerprint of its plan; ``shard``: its number."""

    run: str
    shard: int


@dataclass(frozen=True, slots=True)
class Shard:
    """``file``: its name in the folder; ``run``: the fingerprint of the plan it was made by."""

    file: str
    number: int
    run: str
    size: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one shard, ready to be written. ``hits``: vectors that the cache held."""

    table: pa.Table
    counts: Counts
    hits: int


def write_shard(
    folder: Path, number: int, run: str, schema: pa.Schema, rows: Iterable[Rows]
) -> Shard:
    """Write a shard from its rows, which may come one slab after the other.

    Raises :class:`OSError` where the disk is full; nothing of the shard is left then.
    """
    name = NAME.format(number)
    # A name of its own: a worker that outlives its killed parent cannot touch what the next writes.
    # With a dot in front: who reads the folder meanwhile, or after a kill, passes over it.
    part = folder / f".{name}.{os.urandom(6).hex()}{PART}"
    try:
        # Arrow writes without Python, which is encoding; Python flushes what Arrow made, or fails.
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
    """A new file that Arrow writes to."""
    return pa.OSFile(os.fsencode(path), "wb")


def flush(file: IO[bytes]) -> None:
    """To the disk, whoever wrote it: Arrow's file keeps nothing back."""
    os.fsync(file.fileno())


def _write(
    sink: pa.NativeFile,
    file: IO[bytes],
    number: int,
    run: str,
    schema: pa.Schema,
    rows: Iterable[Rows],
) -> Counts:
    """Write to ``sink``; ``file`` is the same one, to be flushed on the way."""
    counts, flushed = Counts(), 0
    lists = {VECTOR: f"{VECTOR}.list.element", UNKNOWN: f"{UNKNOWN}.list.element"}
    with parquet.ParquetWriter(
        sink,
        schema,
        # Random numbers are not made smaller, text is.
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
        facts = {"run": run, "shard": number, **asdict(counts)}
        writer.add_key_value_metadata({KEY: json.dumps(facts).encode()})
    return counts


def read_shard(path: Path) -> Shard:
    """What a shard says of itself, by its footer alone.

    Raises :class:`InvalidFile` where it is cut off, damaged there, or no shard of this number.
    """
    with reading(str(path)):
        with path.open("rb") as file, arrow_errors("cut off, or damaged"):
            footer = parquet.read_metadata(file)
        data = (footer.metadata or {}).get(KEY)
        if data is None:
            raise InvalidFile("a Parquet file that is no shard of `vocabtool embed`")
        facts: ShardFacts = from_json(
            ShardFacts, json_file.parse(data), "what the shard says of itself"
        )
        if NAME.format(facts.shard) != path.name:
            raise InvalidFile(f"the shard of number {facts.shard} under the name of another")
        if footer.num_rows != facts.documents:
            raise InvalidFile(f"{footer.num_rows:,} rows, wanted {facts.documents:,}")
        return Shard(path.name, facts.shard, facts.run, path.stat().st_size, facts + Counts())


def without_a_value(files: Iterable[Path], columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that are null in every row: a column is read until it has a value."""
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
    """A shard, a row group at a time; the checksum of each page is compared.

    Raises :class:`InvalidFile`, which names the file.
    """
    with reading(str(path)), arrow_errors("damaged"), path.open("rb") as file:
        rows = parquet.ParquetFile(file, page_checksum_verification=True)
        for group in range(rows.num_row_groups):
            yield rows.read_row_group(group, columns)
