"""One shard as a Parquet file: written beside, flushed to the disk, renamed; and checked again.

What a shard says of itself stands in the file's footer under ``vocabtool``: of which run it is,
its number, and what it holds. Pages carry checksums. The folder is ``folder.py``'s business.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from vocabtool.documents.files import arrow_errors
from vocabtool.embedding.encoding import UNKNOWN, VECTOR, Counts, Rows
from vocabtool.embedding.inputs import is_count
from vocabtool.errors import InvalidFile, reading
from vocabtool.formats import json_parsing
from vocabtool.system.whole_file import sync_folder

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "shard-{:06}.parquet"
NAMES: Final = re.compile(r"shard-(\d{6,})\.parquet")
BESIDE: Final = ".part"  # of a shard that is being written
KEY: Final = b"vocabtool"
GROUP_ROWS: Final = 2048  # of a row group; a few more, as slabs stay whole
SYNC_BYTES: Final = 16 << 20  # flushed to the disk on the way, so that little is left at the end


class Shard(NamedTuple):
    """``file``: its name in the folder; ``run``: the fingerprint of the plan it was made by."""

    file: str
    number: int
    run: str
    size: int
    counts: Counts


def write_shard(
    folder: Path, number: int, run: str, schema: pa.Schema, rows: Iterable[Rows]
) -> Shard:
    """Write a shard from its rows, which may come one slab after the other.

    Raises :class:`OSError` where the disk is full; nothing of the shard is left then.
    """
    name = NAME.format(number)
    # A name of its own: a worker that outlives its killed parent cannot touch what the next writes.
    # With a dot in front: who reads the folder meanwhile, or after a kill, passes over it.
    beside = folder / f".{name}.{os.urandom(6).hex()}{BESIDE}"
    try:
        # Arrow writes without Python, which is encoding; Python flushes what Arrow made, or fails.
        with _native(beside) as sink, beside.open("rb+") as file:
            counts = _write(sink, file, number, run, schema, rows)
            _flush(file)
            size = os.fstat(file.fileno()).st_size
        beside.replace(folder / name)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_folder(folder)
    return Shard(name, number, run, size, counts)


def _native(path: Path) -> pa.NativeFile:
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path), "wb")


def _write(
    sink: pa.NativeFile,
    file: IO[bytes],
    number: int,
    run: str,
    schema: pa.Schema,
    rows: Iterable[Rows],
) -> Counts:
    """Write to ``sink``; ``file`` is the same one, to be flushed on the way."""
    from pyarrow import parquet

    counts, flushed = Counts(), 0
    with parquet.ParquetWriter(
        sink,
        schema,
        compression=_compression(schema),
        use_dictionary=[f"{UNKNOWN}.list.element"],
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for table, part in _groups(rows):
            writer.write_table(table, row_group_size=table.num_rows)
            counts += part
            if sink.tell() - flushed > SYNC_BYTES:
                _flush(file)
                flushed = sink.tell()
        facts = {"run": run, "shard": number, **asdict(counts)}
        writer.add_key_value_metadata({KEY: json.dumps(facts).encode()})
    return counts


def _groups(rows: Iterable[Rows]) -> Iterator[tuple[pa.Table, Counts]]:
    """The rows of some slabs together, as a row group is made of them."""
    import pyarrow as pa

    held: list[Rows] = []
    for part in chain(rows, (None,)):
        if part is not None:
            held.append(part)
        if held and (part is None or sum(len(each.table) for each in held) >= GROUP_ROWS):
            counts = sum((each.counts for each in held), Counts())
            yield pa.concat_tables([each.table for each in held]), counts
            held = []


def _compression(schema: pa.Schema) -> dict[str, str]:
    """By column: random numbers are not made smaller, text is."""
    columns = {VECTOR: f"{VECTOR}.list.element", UNKNOWN: f"{UNKNOWN}.list.element"}
    return {columns.get(name, name): "NONE" if name == VECTOR else "ZSTD" for name in schema.names}


def _flush(file: IO[bytes]) -> None:
    """To the disk, whoever wrote it: Arrow's file keeps nothing back."""
    os.fsync(file.fileno())


def read_shard(path: Path) -> Shard:
    """What a shard says of itself, by its footer alone.

    Raises :class:`InvalidFile` where it is cut off, damaged there, or no shard of this number.
    """
    with reading(str(path)):
        footer = _footer(path)
        facts = (footer.metadata or {}).get(KEY)
        if facts is None:
            raise InvalidFile("a Parquet file that is no shard of `vocabtool embed`")
        try:
            told = json_parsing.parse(facts)
            run, number = told.pop("run"), told.pop("shard")
            counts = Counts.of(told)
        except (InvalidFile, TypeError, KeyError, AttributeError) as error:
            raise InvalidFile(f"what the shard says of itself is damaged: {error}") from error
        if not isinstance(run, str) or not is_count(number):
            raise InvalidFile("what the shard says of itself is damaged: its run or number")
        if NAME.format(number) != path.name:
            raise InvalidFile(f"the shard of number {number} under the name of another")
        if footer.num_rows != counts.documents:
            raise InvalidFile(f"{footer.num_rows:,} rows, wanted {counts.documents:,}")
        return Shard(path.name, number, run, path.stat().st_size, counts)


def _footer(path: Path) -> Any:
    from pyarrow import parquet

    with path.open("rb") as file, arrow_errors("cut off, or damaged"):
        return parquet.read_metadata(file)


def without_a_value(files: Iterable[Path], columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that are null in every row: a column is read until it has a value."""
    missing = tuple(columns)
    for path in files:
        if missing:
            missing = _null_in(path, missing)
    return missing


def _null_in(path: Path, columns: tuple[str, ...]) -> tuple[str, ...]:
    from pyarrow import parquet

    with reading(str(path)), arrow_errors("damaged"), path.open("rb") as file:
        rows = parquet.ParquetFile(file)
        for group in range(rows.num_row_groups):
            held = rows.read_row_group(group, list(columns))
            columns = tuple(name for name in columns if held[name].null_count == len(held))
            if not columns:
                break
    return columns


def check_pages(path: Path) -> None:
    """Read a shard and compare the checksum of each page. Raises :class:`InvalidFile`."""
    from pyarrow import parquet

    with reading(str(path)), arrow_errors("damaged"), path.open("rb") as file:
        rows = parquet.ParquetFile(file, page_checksum_verification=True)
        for group in range(rows.num_row_groups):
            rows.read_row_group(group)
