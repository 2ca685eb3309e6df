"""The files of one generation, open at the end: rows added to all of them, committed together.

What is added and what is deleted is the business of ``writer.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.database import DatabaseWriter, column, text_hash
from vocabtool.index.documents import MAX_FIELDS, DocumentRows
from vocabtool.index.fields import Kind, union, values_of
from vocabtool.index.folder import KEYWORDS, VECTORS
from vocabtool.index.manifest import FileFacts, Manifest
from vocabtool.index.vector_files import AppendedFile, with_codes
from vocabtool.index.vectors.raw import as_stored
from vocabtool.keywords import tantivy_files
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TantivyWriter
from vocabtool.system.whole_file import sync_folder

Progress = Callable[[str, float], None]

# Where a million documents are one commit, they are one segment of tantivy's: sooner written, and
# searched, than three.
KEYWORD_MEMORY: Final = 512 << 20
KEYWORD_SHARE: Final = 8  # of the memory that building may take, the part that keywords do


class GenerationWriter:
    """Adds rows to a generation; what lies behind the manifest's rows is removed first.

    ``manifest``: the last commit; ``rows``: how many rows there are, committed or not.
    """

    def __init__(self, folder: Path, manifest: Manifest, cutter: Cutter) -> None:
        self.folder = folder
        self.manifest = manifest
        self.rows = manifest.rows
        self._cutter = cutter
        self._words, self._surfaces = manifest.words, manifest.surfaces
        self._new_kinds: dict[str, Kind] = {}  # of fields in rows that are not committed
        self._columns = len(manifest.fields)
        memory, held = KEYWORD_MEMORY, manifest.configuration.memory
        if held is not None:
            memory = min(memory, held // KEYWORD_SHARE)
        with ExitStack() as opened:
            self.database = DatabaseWriter(folder)
            opened.callback(self.database.close)
            self._vectors = AppendedFile(folder / VECTORS, manifest.vectors)
            opened.callback(self._vectors.close)
            self._keywords = TantivyWriter(folder / KEYWORDS, memory=memory)
            opened.callback(self._keywords.close)
            self._keywords.remove_from(manifest.rows)
            self.database.add_columns(self._columns)
            self._opened = opened.pop_all()

    @classmethod
    def create(cls, folder: Path, manifest: Manifest, cutter: Cutter) -> GenerationWriter:
        """A generation without rows; ``manifest``: of the index that it is to be one of."""
        empty = replace(
            manifest,
            rows=0,
            deleted=0,
            words=0,
            surfaces=0,
            vectors=FileFacts(),
            codes=None,
            coded=0,
            code_commit=0,
            code_files={},
            keywords={},
            chance=None,
        )
        DatabaseWriter.create(folder).close()
        return cls(folder, empty, cutter)

    def append(self, rows: DocumentRows, vectors: Vectors, sources: Sequence[int]) -> None:
        """Add documents in UTF-8, each field of its kind, and their vectors: prepared, (n, dim).

        ``sources``: the number of the FILE of each.

        Raises ``ValueError`` for vectors that cannot be stored; nothing is to be added then.
        """
        names = [*self._fields(), *(name for name in rows.fields if name not in self._fields())]
        if len(names) > MAX_FIELDS:
            raise VocabtoolError(f"wanted at most {MAX_FIELDS} fields in all, got {len(names):,}")
        if len(names) > self._columns:
            self.database.add_columns(len(names))
            self._columns = len(names)
        columns = []
        for name, values in rows.fields.items():
            held = self.manifest.fields.get(name, "null")
            # What a new field holds is known when all its rows of this commit are there.
            columns.append(
                values_of(values, "null" if held == "null" else union(held, values.kind))
            )
            self._new_kinds[name] = union(self._new_kinds.get(name, held), values.kind)
        texts: list[bytes] = rows.texts.view(pa.binary()).to_pylist()
        facts = zip(sources, map(text_hash, texts), *columns, strict=True)
        all_columns: dict[str, Kind] = dict.fromkeys(names, "null")
        self.append_values(
            rows.ids.to_pylist(),
            rows.texts.to_pylist(),
            [*facts],
            [column(all_columns, name) for name in rows.fields],
            vectors,
        )

    def append_values(
        self,
        ids: list[str],
        texts: list[str],
        facts: Sequence[Sequence[object]],
        columns: Sequence[str],
        vectors: Vectors,
    ) -> None:
        """Add rows as :meth:`DatabaseWriter.append` takes them."""
        stored = as_stored(vectors, self.manifest.configuration.dtype)
        self.database.append(self.rows, ids, texts, facts, columns)
        self._vectors.append(stored.tobytes())
        terms = self._cutter.terms(texts)
        rows = range(self.rows, self.rows + len(ids))
        self._keywords.add(rows, ids, terms)
        self.rows = rows.stop
        self._words += sum(each.count for each in terms)
        self._surfaces += sum(each.surface_count for each in terms)

    def commit(
        self,
        manifest: Manifest,
        is_deleted: NDArray[np.bool_],
        *,
        codes: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Make all rows so far the last commit, with what else the ``manifest`` says.

        ``is_deleted``: shape (rows,). ``codes``: whether the approximate search is to cover what is
        new, which may take a while; else it is compared exactly.
        """
        self._vectors.flush()
        keywords = manifest.keywords
        if self.rows > self.manifest.rows or not keywords:
            # Only then, so that the files of tantivy tell which commit it is.
            self._keywords.commit()
            keywords = tantivy_files.checksums(self.folder / KEYWORDS, keywords)
        fields = self._fields()
        for name, kind in self._new_kinds.items():
            if self.manifest.fields.get(name, "null") == "null" != kind:
                self.database.set_kind(column(fields, name), kind, self.manifest.rows)
        done = replace(
            manifest,
            rows=self.rows,
            deleted=int(np.count_nonzero(is_deleted)),
            words=self._words,
            surfaces=self._surfaces,
            fields=fields,
            vectors=self._vectors.written,
            keywords=keywords,
        )
        if codes:
            done = with_codes(self.folder, done, progress)
        sync_folder(self.folder)
        self.database.commit(done.encode(), np.packbits(is_deleted).tobytes())
        self.manifest = done
        self._new_kinds.clear()

    def index_fields(self) -> None:
        """Index the columns of fields whose values were copied."""
        for name, kind in self.manifest.fields.items():
            if kind != "null":
                self.database.set_kind(column(self.manifest.fields, name), "string", self.rows)

    def close(self) -> None:
        """Let go of the files; what is not committed is lost."""
        self._opened.close()

    def _fields(self) -> dict[str, Kind]:
        """The kind of each field, as it will be."""
        return {**self.manifest.fields, **self._new_kinds}
