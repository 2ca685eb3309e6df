"""The files of one generation, open at the end: rows added to all of them, committed together.

What is added and what is deleted is the business of ``writer.py``.

The files of vectors in a generation: raw ones, and the codes of the approximate search.

    vectors.bin    a fixed number of bytes a row: rows are added at the end, and never changed
    codes-000007.faiss    written by commit 7, never changed: codes of more rows are another file

When codes are built, when new rows are added to them, and when it is measured how near chance
brings vectors, is decided here at the end of a commit; how, in ``vectors/``. Bytes behind the
committed length are left by a writer that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.index.database import DatabaseWriter, column, text_hash
from vocabtool.index.documents import MAX_FIELDS, DocumentRows, Kind, union, values_of
from vocabtool.index.folder import KEYWORDS, VECTORS, Chance, FileFacts, Manifest
from vocabtool.index.raw_vectors import RawVectors, as_stored, similarity_by_chance
from vocabtool.index.vector_codes import VectorCodes, build_codes
from vocabtool.keywords import tantivy_index
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TantivyWriter
from vocabtool.system.own_files import checksum, compare, sync_folder

# Rows without a code are compared one by one. As many of them are worth what codes cost:
TAIL: Final = 0.01  # of all rows
MIN_TAIL: Final = 4096
OUTGROWN: Final = 4  # codes trained on so many times fewer rows are built anew

Progress = Callable[[str, float], None]


def with_codes(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    """The manifest with codes of its rows, as far as they are worth it; the next commit's."""
    manifest = _measure_chance(folder, manifest)
    if manifest.rows <= manifest.configuration.exact_below:
        return manifest
    facts = manifest.codes
    if facts is None or manifest.rows >= OUTGROWN * facts.coded:
        return _build(folder, manifest, progress)
    if manifest.rows - manifest.coded >= max(MIN_TAIL, int(TAIL * manifest.rows)):
        return _append(folder, manifest, progress)
    return manifest


def _measure_chance(folder: Path, manifest: Manifest) -> Manifest:
    """With what chance reaches, measured anew where the rows have doubled."""
    if not manifest.rows or (manifest.chance and manifest.rows < 2 * manifest.chance.rows):
        return manifest
    found = similarity_by_chance(raw_vectors(folder, manifest), manifest.configuration.metric)
    if found is None:
        return manifest
    return replace(manifest, chance=Chance(similarity=found, rows=manifest.rows))


def open_codes(folder: Path, manifest: Manifest) -> VectorCodes | None:
    """The codes of a commit, every byte compared with its checksum; ``None``: it has none.

    Raises :class:`InvalidFile`, which names the file.
    """
    if manifest.codes is None:
        return None
    check_codes(folder, manifest)
    file = folder / manifest.code_name
    try:
        return VectorCodes.read(file, manifest.coded)
    except RuntimeError as error:  # of FAISS: a compaction may have removed it meanwhile
        raise InvalidFile(f"no codes that FAISS can read: {error}", file=str(file)) from error


def check_codes(folder: Path, manifest: Manifest) -> None:
    """Compare every byte of the codes. Raises :class:`InvalidFile`, which names the file."""
    for name, written in manifest.code_files.items():
        compare(folder / name, written.crc32c)


def raw_vectors(folder: Path, manifest: Manifest) -> RawVectors:
    """The vectors of a commit. Raises :class:`InvalidFile` where the file is shorter."""
    held = manifest.configuration
    return RawVectors(folder / VECTORS, dim=held.dim, dtype=held.dtype, count=manifest.rows)


def _build(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    held = manifest.configuration
    codes, facts = build_codes(
        raw_vectors(folder, manifest),
        metric=held.metric,
        recall=held.recall,
        memory=held.memory,
        progress=_step_progress(progress, "building codes"),
    )
    return _write_codes(folder, replace(manifest, codes=facts), codes)


def _append(folder: Path, manifest: Manifest, progress: Progress | None) -> Manifest:
    codes = open_codes(folder, manifest)
    assert codes is not None  # noqa: S101 - there is something to append to
    codes.add_rows(raw_vectors(folder, manifest), _step_progress(progress, "adding codes"))
    return _write_codes(folder, manifest, codes)


def _write_codes(folder: Path, manifest: Manifest, codes: VectorCodes) -> Manifest:
    """The codes of all rows written as those of this commit."""
    manifest = replace(manifest, code_commit=manifest.commit, coded=manifest.rows)
    file = folder / manifest.code_name
    codes.write(file)
    written = FileFacts(size=file.stat().st_size, crc32c=checksum(file))
    return replace(manifest, code_files={file.name: written})


def _step_progress(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, of: progress(what, done / max(of, 1))


class AppendedFile:
    """A file, to be appended to. ``written``: how much of it is there."""

    def __init__(self, path: Path, written: FileFacts) -> None:
        """Open it where it was committed: what lies behind is cut off.

        Raises :class:`InvalidFile` where it is shorter.
        """
        with reading(str(path)):
            if written.size and (found := path.stat().st_size) < written.size:
                raise InvalidFile(f"cut off: {found:,} bytes, wanted {written.size:,}")
            self._file = path.open("r+b" if path.exists() else "x+b")
            self._file.truncate(written.size)
            self._file.seek(written.size)
        self.written = written

    def append(self, data: bytes) -> None:
        """Add rows."""
        import google_crc32c

        self._file.write(data)
        crc = google_crc32c.extend(self.written.crc32c, data)
        self.written = FileFacts(size=self.written.size + len(data), crc32c=crc)

    def flush(self) -> None:
        """Put everything onto the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


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
            keywords = tantivy_index.checksums(self.folder / KEYWORDS, keywords)
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
