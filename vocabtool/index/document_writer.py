"""Documents added to an index: rows numbered in the order of adding, in few files.

A file that is committed never changes. When a new one is begun, the files at the end of the index
that are small beside it are written into it once more, so that a thousand commits of ten rows leave
a handful of files, and each row is copied a logarithmic number of times. What was merged stays on
the disk, for readers of earlier commits, until :func:`remove_unlisted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from vocabtool.documents.batch import BATCH_BYTES
from vocabtool.errors import VocabtoolError, reading
from vocabtool.index.document_columns import MOST_FIELDS, DocumentRows
from vocabtool.index.document_fields import FieldColumn, narrowest
from vocabtool.index.document_files import BESIDE, NAMES, DocumentFile, FileWriter, OpenFile

FILE_BYTES: Final = 1 << 30  # behind so many another file is begun
ALWAYS_MERGED: Final = 1 << 20  # bytes of a file that is merged with whatever follows it
MOST_MERGED: Final = 64 << 20  # bytes that are written once more for one commit
BATCH_ROWS: Final = 1 << 16


class DocumentWriter:
    """Adds to the files of a commit. One at a time in a folder; :meth:`close` it in the end.

    ``next_row``: the number of the row that is added next.
    """

    def __init__(self, folder: Path, files: Sequence[DocumentFile] = ()) -> None:
        self.next_row = files[-1].end if files else 0
        self._folder = folder
        self._files = list(files)
        self._names = {name for file in files for name in file.fields}
        self._file: FileWriter | None = None
        self._held: list[DocumentRows] = []
        self._held_bytes = 0

    def add(self, rows: DocumentRows) -> None:
        """Take the next rows. Raises :class:`VocabtoolError`, and takes none: too many fields."""
        names = self._names | set(rows.fields)
        if len(names) > MOST_FIELDS:
            raise VocabtoolError(f"wanted at most {MOST_FIELDS} fields in all, got {len(names):,}")
        self._names = names
        self.next_row += rows.rows
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= BATCH_BYTES or sum(each.rows for each in self._held) >= BATCH_ROWS:
            self._write()

    def finish(self) -> tuple[DocumentFile, ...]:
        """Put all rows onto the disk: the files that hold them and those of before."""
        self._write()
        self._end_file()
        return tuple(self._files)

    def close(self) -> None:
        """Let go of a file that is not finished."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _write(self) -> None:
        """Write what is held, into a file that has all its fields."""
        held, self._held, self._held_bytes = self._held, [], 0
        names = dict.fromkeys(name for rows in held for name in rows.fields)
        if self._file is not None and not self._file.has_room(names, FILE_BYTES):
            self._end_file()
        if held and self._file is None:
            taken = self._taken_over(sum(rows.nbytes for rows in held))
            self._file = self._begun(taken, names)
            self._file.write_all(gathered(self._stored(taken)))
        if self._file is not None:
            self._file.write_all(gathered(held))

    def _taken_over(self, size: int) -> list[DocumentFile]:
        """The last files, as far as they are small beside what follows them."""
        taken: list[DocumentFile] = []
        for file in reversed(self._files):
            if file.size > max(ALWAYS_MERGED, 2 * size) or size + file.size > MOST_MERGED:
                break
            taken.insert(0, file)
            size += file.size
        return taken

    def _begun(self, taken: Sequence[DocumentFile], names: Iterable[str]) -> FileWriter:
        """A new file in the place of those that it takes over, with their fields too."""
        del self._files[len(self._files) - len(taken) :]
        first = self._files[-1].end if self._files else 0
        earlier = (name for file in taken for name in file.fields)
        return FileWriter(self._folder, first, [*dict.fromkeys((*earlier, *names))])

    def _stored(self, files: Iterable[DocumentFile]) -> Iterator[DocumentRows]:
        """The rows of some files; damaged ones are not written on under a new checksum."""
        for facts in files:
            file = OpenFile(self._folder, facts)
            file.verify()
            yield from file.rows()

    def _end_file(self) -> None:
        if self._file is not None:
            self._files.append(self._file.close())
            self._file = None


def gathered(parts: Iterable[DocumentRows]) -> Iterator[DocumentRows]:
    """The same rows in batches that are not small: many small ones are slow to open."""
    held: list[DocumentRows] = []
    for part in parts:
        held.append(part)
        if sum(each.nbytes for each in held) >= BATCH_BYTES:
            yield joined(held)
            held = []
    if held:
        yield joined(held)


def joined(parts: Sequence[DocumentRows]) -> DocumentRows:
    """Rows that follow each other as one; those of a field that they lack are null."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.fields)
    fields = {}
    for name in names:
        columns = [part.fields.get(name) or _null(part.rows) for part in parts]
        texts = pa.concat_arrays([column.texts for column in columns])
        fields[name] = FieldColumn(texts, narrowest(column.kind for column in columns))
    ids, texts = (pa.concat_arrays([part[at] for part in parts]) for at in (0, 1))
    return DocumentRows(ids, texts, fields)


def _null(rows: int) -> FieldColumn:
    import pyarrow as pa

    return FieldColumn(pa.nulls(rows, pa.string()), "null")


def remove_unlisted(folder: Path, files: Iterable[DocumentFile]) -> int:
    """Remove files of documents that are none of these; how many there were.

    Of those that a killed writer left, and of those that were merged. Readers that have them open
    go on reading.
    """
    listed = {file.name for file in files}
    with reading(str(folder)):
        names = [each.name for each in folder.iterdir()]
        others = [name for name in names if NAMES.fullmatch(name) or name == BESIDE]
        unlisted = [name for name in others if name not in listed]
        for name in unlisted:
            (folder / name).unlink()
    return len(unlisted)
