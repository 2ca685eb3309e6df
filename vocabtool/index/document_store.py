"""The documents of one commit by their row numbers: ids, texts, fields, and columns of all rows.

Files are mapped, so opening costs the same for ten documents and for a million. How one file is
read is in ``document_files.py``, how rows come into it in ``document_writer.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vocabtool.errors import reading
from vocabtool.index.document_columns import ID, TEXT, DocumentRows
from vocabtool.index.document_fields import Kind, value_of
from vocabtool.index.document_files import DocumentFile, OpenFile, Strings, check, kinds_of
from vocabtool.search.store import StoredDocument
from vocabtool.system.ranked import Rows

if TYPE_CHECKING:
    import pyarrow as pa


class DocumentStore:
    """Rows 0 to ``rows``, deleted ones too. Several threads may read."""

    def __init__(self, files: Sequence[OpenFile]) -> None:
        self._files = list(files)
        self._firsts = [file.facts.first for file in files]
        self.rows = files[-1].facts.end if files else 0

    @classmethod
    def open(
        cls, folder: Path, files: Sequence[DocumentFile], earlier: DocumentStore | None = None
    ) -> DocumentStore:
        """Map the files of a commit; those that ``earlier``, of the same folder, has are shared.

        Sizes and numbers of rows are compared. Raises :class:`InvalidFile`, which names the file,
        and :class:`NotFound`.
        """
        with reading(str(folder)):
            check(files)
        held = {} if earlier is None else {file.path: file for file in earlier._files}
        return cls([_opened(folder, facts, held.get(folder / facts.name)) for facts in files])

    @cached_property
    def fields(self) -> dict[str, Kind]:
        """The kind of each field."""
        return kinds_of([file.facts for file in self._files])

    def ids(self, rows: Rows) -> list[str]:
        """The ids of some rows: int64, shape (n,)."""
        return [self._id(row) for row in rows.tolist()]

    def stored(self, rows: Rows) -> list[StoredDocument]:
        """Some rows as they were added: int64, shape (n,); of nulls among the fields nothing."""
        return [self._stored(row) for row in rows.tolist()]

    def all_ids(self) -> Iterator[pa.StringArray]:
        """The ids of all rows, ascending by row, in blocks."""
        for file in self._files:
            yield from file.column(ID, "string")

    def texts(self, start: int = 0, stop: int | None = None) -> Iterator[pa.StringArray]:
        """The texts of the rows from ``start`` to ``stop``, in blocks."""
        first, stop = 0, self.rows if stop is None else stop
        for file in self._files:
            for block in file.column(TEXT, "string"):
                begin, end = max(start - first, 0), min(stop - first, len(block))
                if begin < end:
                    yield block.slice(begin, end - begin)
                first += len(block)

    def kind(self, name: str) -> Kind | None:
        """The kind of a field, of ``id`` or of ``text``; ``None``: there is none such."""
        return "string" if name in (ID, TEXT) else self.fields.get(name)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all rows, by its kind ``int64``, ``double``, ``bool`` or ``string``.

        Numbers are kept once they are read: 8 bytes a row. Raises ``KeyError`` for an unknown name.
        """
        import pyarrow as pa

        kind = self.kind(name)
        if kind is None:
            raise KeyError(name)
        parts = [part for file in self._files for part in file.column(name, kind)]
        return pa.chunked_array(parts) if parts else pa.chunked_array([[]], pa.string())

    def blocks(self) -> Iterator[DocumentRows]:
        """All documents, ascending by row."""
        for file in self._files:
            yield from file.rows()

    def verify(self) -> None:
        """Read all files and compare their checksums. Raises :class:`InvalidFile`."""
        for file in self._files:
            file.verify()

    def _at(self, row: int) -> tuple[OpenFile, Mapping[str, Strings], int]:
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row:,} of {self.rows:,}")
        file = self._files[bisect_right(self._firsts, row) - 1]
        columns, at = file.place(row - file.facts.first)
        return file, columns, at

    def _id(self, row: int) -> str:
        _, columns, at = self._at(row)
        return columns[ID].text(at)

    def _stored(self, row: int) -> StoredDocument:
        file, columns, at = self._at(row)
        fields = {}
        for name in file.facts.fields:
            if columns[name].is_there(at):
                text = columns[name].text(at)
                fields[name] = value_of(text, self.fields[name], file.path)
        return StoredDocument(columns[ID].text(at), columns[TEXT].text(at), fields)


def _opened(folder: Path, facts: DocumentFile, held: OpenFile | None) -> OpenFile:
    return held if held is not None and held.facts == facts else OpenFile(folder, facts)
