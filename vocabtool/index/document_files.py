"""The files that an index keeps its documents in: how one is written, opened and read.

Arrow IPC (arrow.apache.org/docs/format/Columnar.html), not compressed, so that a row is read where
it lies in the mapped file: columns ``id``, ``text`` and one for each field, all of them strings.
The kinds of the fields stand in the manifest. Which file holds which rows, and which are merged, is
not known here.

Nothing but the sizes is checked when a file is opened: offsets are checked when a row is read, all
of them before a column is handed to Arrow, and checksums by :meth:`OpenFile.verify`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from vocabtool.documents.files import arrow_errors
from vocabtool.errors import InvalidFile, reading
from vocabtool.index.document_columns import ID, MOST_FIELDS, TEXT, DocumentRows
from vocabtool.index.document_fields import FieldColumn, Kind, as_column, narrowest
from vocabtool.system.checksums import checksum, compare
from vocabtool.system.whole_file import sync_folder

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "documents-{:012}-{}.arrow"  # the first row, and how many
BESIDE: Final = "documents.part"  # of the one file that a writer is at
NAMES: Final = re.compile(r"documents-\d{12,}-\d+\.arrow")
DAMAGED: Final = "no file of documents, or damaged"
MOST_NUMBER: Final = 1 << 62


class DocumentFile(NamedTuple):
    """A file as the manifest tells of it.

    ``first``: its first row; ``fields``: the kinds of its fields, in the order of its columns.
    """

    first: int
    rows: int
    size: int
    crc32c: int
    fields: Mapping[str, Kind]

    @property
    def name(self) -> str:
        """What it is called in the folder."""
        return NAME.format(self.first, self.rows)

    @property
    def end(self) -> int:
        """The row behind its last one."""
        return self.first + self.rows


def kinds_of(files: Sequence[DocumentFile]) -> dict[str, Kind]:
    """The kind of each field: the narrowest that holds its values in all files."""
    names = dict.fromkeys(name for file in files for name in file.fields)
    return {name: narrowest(file.fields.get(name, "null") for file in files) for name in names}


def check(files: Sequence[DocumentFile]) -> None:
    """Raise :class:`InvalidFile` for facts out of a manifest that no writer gave."""
    end = 0
    for file in files:
        numbers = (file.first, file.rows, file.size, file.crc32c)
        if not all(type(number) is int and 0 <= number < MOST_NUMBER for number in numbers):
            raise InvalidFile(f"a file of documents has the numbers {numbers!r}")
        if file.first != end or not file.rows:
            raise InvalidFile(f"{file.name}: wanted row {end:,} to be its first")
        if not _are_fields(file.fields):
            raise InvalidFile(f"{file.name}: its fields are none")
        end = file.end


def _are_fields(fields: object) -> bool:
    if not isinstance(fields, Mapping) or len(fields) > MOST_FIELDS:
        return False
    kinds = get_args(Kind)
    return not {ID, TEXT} & set(fields) and all(
        type(name) is str and type(kind) is str and kind in kinds for name, kind in fields.items()
    )


class FileWriter:
    """One file on its way; it appears under its name when it is closed.

    ``names``: the fields that it has columns for.
    """

    def __init__(self, folder: Path, first: int, names: Sequence[str]) -> None:
        import pyarrow as pa

        self.names = tuple(names)
        self._folder = folder
        self._first = first
        self._rows = 0
        self._kinds: dict[str, Kind] = dict.fromkeys(names, "null")
        self._schema = _schema(names)
        self._file = (folder / BESIDE).open("wb")
        self._writer = pa.ipc.new_file(self._file, self._schema)

    def has_room(self, names: Iterable[str], size: int) -> bool:
        """Whether it has columns of these names, and not yet so many bytes."""
        return self._file.tell() < size and set(names) <= set(self.names)

    def write_all(self, parts: Iterable[DocumentRows]) -> None:
        """Add the rows of several batches."""
        for rows in parts:
            self.write(rows)

    def write(self, rows: DocumentRows) -> None:
        """Add rows; those of a field that they lack are null."""
        import pyarrow as pa

        null = FieldColumn(pa.nulls(rows.rows, pa.string()), "null")
        columns = {name: rows.fields.get(name, null) for name in self.names}
        arrays = [rows.ids, rows.texts, *(column.texts for column in columns.values())]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows += rows.rows
        for name, column in columns.items():
            self._kinds[name] = narrowest((self._kinds[name], column.kind))

    def close(self) -> DocumentFile:
        """Put it onto the disk, and give it its name."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        crc = checksum(self._folder / BESIDE)
        done = DocumentFile(self._first, self._rows, size, crc, dict(self._kinds))
        (self._folder / BESIDE).replace(self._folder / done.name)
        sync_folder(self._folder)
        return done

    def abandon(self) -> None:
        """Let go of it: nothing is left."""
        self._file.close()
        (self._folder / BESIDE).unlink(missing_ok=True)


def _schema(names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    required = [pa.field(name, pa.string(), nullable=False) for name in (ID, TEXT)]
    return pa.schema([*required, *(pa.field(name, pa.string()) for name in names)])


class Strings:
    """One column of a record batch, read where it lies: no byte outside of its buffers."""

    __slots__ = ("_data", "_ends", "_file", "_valid")

    def __init__(self, column: pa.StringArray, file: str) -> None:
        self._file = file
        valid, ends, data = column.buffers()
        self._valid = None if valid is None else memoryview(valid)
        self._ends = memoryview(ends).cast("B")[: 4 * (len(column) + 1)].cast("i")
        self._data = memoryview(b"" if data is None else data)

    def text(self, row: int) -> str:
        """Raises :class:`InvalidFile` for an offset that points outside."""
        start, end = self._ends[row], self._ends[row + 1]
        if not 0 <= start <= end <= len(self._data):
            what = f"damaged: a text of the bytes {start:,} to {end:,}"
            raise InvalidFile(what, file=self._file)
        return str(self._data[start:end], "utf-8", "surrogateescape")

    def is_there(self, row: int) -> bool:
        """Whether the row is not null."""
        return self._valid is None or bool(self._valid[row >> 3] >> (row & 7) & 1)


class OpenFile:
    """A file that is mapped into memory. Several threads may read."""

    def __init__(self, folder: Path, facts: DocumentFile) -> None:
        """Raises :class:`InvalidFile`, which names the file: cut off, another one, damaged."""
        self.facts = facts
        self.path = folder / facts.name
        with reading(str(self.path)), arrow_errors(DAMAGED):
            self._batches = _mapped(self.path, facts)
        starts = accumulate((len(batch) for batch in self._batches), initial=0)
        self._starts = list(starts)[:-1]
        self._columns = [_strings(batch, str(self.path)) for batch in self._batches]
        self._read: dict[tuple[str, Kind], list[pa.Array]] = {}

    def place(self, row: int) -> tuple[Mapping[str, Strings], int]:
        """The columns of the record batch that a row of this file is in, and where there."""
        at = bisect_right(self._starts, row) - 1
        return self._columns[at], row - self._starts[at]

    def column(self, name: str, kind: Kind) -> list[pa.Array]:
        """A column in parts, read as values of a kind; kept once it is read.

        Of a field that the file lacks all values are null. Raises :class:`InvalidFile`.
        """
        found = self._read.get((name, kind))
        if found is None:
            with reading(str(self.path)), arrow_errors(DAMAGED):
                parts = [_column(batch, name) for batch in self._batches]
                found = [as_column(part, kind) for part in parts]
            self._read[name, kind] = found
        return found

    def rows(self) -> Iterator[DocumentRows]:
        """All rows, each record batch after the other, their offsets checked."""
        with reading(str(self.path)), arrow_errors(DAMAGED):
            for batch in self._batches:
                fields = {
                    name: FieldColumn(_column(batch, name), kind)
                    for name, kind in self.facts.fields.items()
                }
                yield DocumentRows(_column(batch, ID), _column(batch, TEXT), fields)

    def verify(self) -> None:
        """Read everything: the checksum fits, and values are of their kinds.

        Raises :class:`InvalidFile`, which names the file.
        """
        compare(self.path, self.facts.crc32c)
        with reading(str(self.path)), arrow_errors(DAMAGED):
            for rows in self.rows():
                if rows.ids.null_count or rows.texts.null_count:
                    raise InvalidFile("a document without id or text")
                for column in rows.fields.values():
                    as_column(*column)


def _mapped(path: Path, facts: DocumentFile) -> list[Any]:
    import pyarrow as pa

    size = path.stat().st_size
    if size != facts.size:
        raise InvalidFile(f"{size:,} bytes, wanted {facts.size:,}")
    table = pa.ipc.open_file(pa.memory_map(str(path)))
    if table.schema != _schema([*facts.fields]):
        raise InvalidFile(f"{DAMAGED}: its columns are others than {[*facts.fields]}")
    batches = [table.get_batch(at) for at in range(table.num_record_batches)]
    for batch in batches:
        batch.validate()
    rows = sum(len(batch) for batch in batches)
    if rows != facts.rows:
        raise InvalidFile(f"{rows:,} rows, wanted {facts.rows:,}")
    return [batch for batch in batches if len(batch)]


def _strings(batch: pa.RecordBatch, file: str) -> dict[str, Strings]:
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return {name: Strings(column, file) for name, column in columns}


def _column(batch: pa.RecordBatch, name: str) -> pa.StringArray:
    """A column whose offsets are checked; strings need not be UTF-8."""
    import pyarrow as pa

    if name not in batch.schema.names:
        return pa.nulls(len(batch), pa.string())
    column = batch.column(name)
    column.view(pa.binary()).validate(full=True)
    return column
