"""Changes to an index that become one commit, or several: the public ``Writer``.

Which files a commit consists of is told in ``folder.py``; when codes are built in ``coding.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.reading import OnError, Skipped
from vocabtool.embedding.columns import as_utf8
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index import coding, deletions, folder, sources
from vocabtool.index.appending import Appending
from vocabtool.index.belonging import Belonging
from vocabtool.index.document_columns import decoded, id_in_utf8
from vocabtool.index.document_fields import PLAIN, fitted
from vocabtool.index.document_files import kinds_of
from vocabtool.index.document_rows import DocumentRows, Items, document_rows
from vocabtool.index.manifest import Load, Manifest
from vocabtool.index.row_hashes import hashes_of
from vocabtool.index.vectors.metric import prepared
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TantivyReader
from vocabtool.search.calibration import Calibration
from vocabtool.system.ranked import Rows
from vocabtool.system.telling import plural

if TYPE_CHECKING:
    import pyarrow as pa

OnExisting = Literal["error", "skip", "update"]
Progress = Callable[[str, float], None]

WHAT_NEXT = "Mend it, or leave such values out: --on-error skip, in Python on_error='skip'"
FAILED = "an earlier change failed half-way: leave the writer, what is not committed is dropped"


class Writer:
    """Made by :meth:`Index.writer`, which commits at the end, or drops all after an exception.

    One thread may use it at a time, while others search the index. It remembers the ids of what is
    not committed: add many documents with a :meth:`commit` now and then, or by :meth:`Index.load`.
    ``left_out``: values that are not of their fields' kinds, how many, and the first with places.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        belonging: Belonging,
        cutter: Cutter,
        progress: Progress | None = None,
    ) -> None:
        folder.recover(path, manifest)
        self._path = path
        self._manifest = manifest
        self._belonging = belonging
        self._progress = progress
        self._files = folder.generation(path, manifest.generation)
        self._held = TantivyReader(self._files / folder.KEYWORDS)
        self._deleted = deletions.read(self._files, manifest.deleted, manifest.rows)
        self.sources = manifest.sources  # the FILEs that are known from the next commit on
        known = len(self.sources)
        self._numbers = sources.read(self._files, manifest.row_sources, manifest.rows, known)
        self._new_numbers: list[int] = []  # of rows that are not committed
        self._new: dict[str, int] = {}  # rows that are not committed, by id
        self._gone: list[int] = []  # those of them that are deleted again
        self._changed = False
        self._failed = False
        self._appending = Appending(path, manifest, cutter)
        self._kinds = kinds_of(manifest.documents)
        self.left_out = Skipped()

    @property
    def manifest(self) -> Manifest:
        """The last commit."""
        return self._manifest

    @property
    def rows(self) -> int:
        """How many rows there are, committed or not."""
        return self._appending.rows

    def add(
        self,
        documents: Items,
        vectors: NDArray[Any] | Sequence[Any] | None = None,
        *,
        on_existing: OnExisting = "error",
        on_error: OnError = "raise",
    ) -> int:
        """Add documents; how many were added.

        ``documents``: :class:`Document`, mappings with ``id`` and ``text`` (all else are fields),
        texts alone, or an Arrow table. ``vectors``: shape (n, dim), one for each document; without,
        the encoder makes them. ``on_existing``: what becomes of a document whose id is in the
        index. ``on_error``: what becomes of a value that is not of its field's kind, that of the
        first commit which has the field: ``"skip"`` leaves it out, counted in :attr:`left_out`.
        Raises :class:`VocabtoolError` for it, and for what the encoder refuses;
        ``ValueError`` for wrong vectors. After an error nothing of this writer is committed.
        """
        check_choice(on_existing)
        if on_error not in get_args(OnError):
            raise ValueError(f"on_error: wanted one of {get_args(OnError)}, got {on_error!r}")
        matrix = None if vectors is None else _matrix(vectors, self._manifest.configuration.dim)
        before, taken = self.rows, 0
        with self._failing():
            for rows in document_rows(documents, self.rows):
                part = None if matrix is None else matrix[taken : taken + rows.rows]
                taken += rows.rows
                if matrix is not None and taken > len(matrix):
                    raise ValueError(_unequal(len(matrix), documents, taken))
                self._add(self.kept(rows, on_error), part, on_existing)
            if matrix is not None and taken < len(matrix):
                raise ValueError(_unequal(len(matrix), documents, taken))
        return self.rows - before

    def update(
        self,
        documents: Items,
        vectors: NDArray[Any] | Sequence[Any] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> int:
        """Add documents, each in the place of the one that has its id, if there is one."""
        return self.add(documents, vectors, on_existing="update", on_error=on_error)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete documents; how many of these ids there were."""
        wanted = dict.fromkeys(map(id_in_utf8, [ids] if isinstance(ids, str) else ids))
        found = self._existing([*wanted])
        for id_, row in found.items():
            self._delete(id_, row)
        return len(found)

    def row_sources(self) -> sources.RowSources:
        """The number of the FILE that each committed row came from; 0: from none."""
        return self._numbers

    def are_of(self, rows: Rows, source: int) -> None:
        """Note that committed rows are of this FILE now."""
        if (self._numbers[rows] != source).any():
            self._numbers = self._numbers.copy()
            self._numbers[rows] = source
            self._changed = True

    def delete_rows(self, rows: Rows) -> None:
        """Delete committed rows."""
        self._deleted[rows] = True
        self._changed = True

    def append_new(
        self,
        rows: DocumentRows,
        vectors: Vectors,
        on_existing: OnExisting,
        on_error: OnError,
        source: int = 0,
    ) -> None:
        """Add documents of which the caller knows that no id is in the index: a first load.

        Only an id with U+FFFD may be that of another one, and is looked for. ``source``: the number
        of the FILE that they came from.
        """
        with self._failing():
            rows = self.kept(rows, on_error)
            if _any_replaced(rows.ids):
                self._add(rows, vectors, on_existing, source)
            else:
                self._append(rows, vectors, source)

    def add_rows(
        self,
        rows: DocumentRows,
        vectors: Vectors,
        on_existing: OnExisting,
        on_error: OnError,
        source: int = 0,
    ) -> None:
        """Add documents as :meth:`add` does. ``source``: the number of their FILE."""
        with self._failing():
            self._add(self.kept(rows, on_error), vectors, on_existing, source)

    def commit(self, load: Load | None = None, *, codes: bool = True) -> None:
        """Make everything so far the last commit: on disk, and seen by readers.

        ``load``: what a command notes to go on from. ``codes``: whether the approximate search is
        to cover what is new, which may take a while; else it is compared exactly.
        Raises :class:`VocabtoolError` after a change that failed.
        """
        if self._failed:
            raise VocabtoolError(f"{self._path}: {FAILED}")
        if not self._changed and load is None:
            return
        with self._failing():
            flushed = self._appending.flush()
            deleted = self._all_deleted(flushed.rows)
            number = flushed.commit + 1
            numbers = np.concatenate([self._numbers, np.array(self._new_numbers, np.uint32)])
            coded = coding.coded(self._files, flushed, self._progress) if codes else flushed
            self._finish(
                replace(
                    coded,
                    commit=number,
                    deleted=deletions.write(self._files, number, deleted),
                    load=load or disturbed(flushed.load),
                    sources=self.sources,
                    row_sources=sources.write(self._files, number, numbers),
                )
            )
        self._deleted = deleted
        self._numbers = numbers
        self._changed = False

    def store_calibration(self, calibration: Calibration | None) -> None:
        """Keep how much the keyword leg weighs, and of how many documents: a commit of its own."""
        self.commit()
        held = self._manifest
        if calibration is not None:
            calibration = replace(calibration, documents=held.live)
        self._finish(replace(held, commit=held.commit + 1, calibration=calibration))

    def close(self) -> None:
        """Let go of the files; what is not committed is dropped."""
        self._appending.close()

    def _finish(self, manifest: Manifest) -> None:
        folder.commit(self._path, manifest)
        self._manifest = manifest
        self._appending.committed(manifest)
        self._kinds = kinds_of(manifest.documents)
        folder.recover(self._path, manifest)  # what only earlier commits held
        self._held.refresh()
        self._new.clear()
        self._new_numbers.clear()
        self._gone.clear()

    def kept(self, rows: DocumentRows, on_error: OnError) -> DocumentRows:
        """The documents in UTF-8, each field's values of its kind."""
        fields = {}
        for name, column in rows.fields.items():
            kind = self._kinds.get(name, "null")
            fields[name], others = fitted(column, kind)
            for row in others:
                place = rows.place(row) if rows.place else f"document {decoded(rows.ids)[row]!r}"
                got = decoded(column.texts.slice(row, 1))[0][:50]
                reason = f"the field {name!r} holds {PLAIN[kind]}, got {got!r}"
                if on_error == "raise":
                    raise VocabtoolError(f"{place}: {reason}. {WHAT_NEXT}")
                self.left_out.add(place, reason)
        return in_utf8(rows._replace(fields=fields))

    def _add(
        self,
        rows: DocumentRows,
        vectors: Vectors | None,
        on_existing: OnExisting,
        source: int = 0,
    ) -> None:
        chosen = self._chosen(rows.ids.to_pylist(), on_existing)
        if not chosen.all():
            rows = rows.only(chosen)
            vectors = None if vectors is None else vectors[chosen]
        if rows.rows:
            first = self._append(rows, self._encoded(rows) if vectors is None else vectors, source)
            self._new.update(zip(rows.ids.to_pylist(), count(first), strict=False))

    def _chosen(self, ids: list[str], on_existing: OnExisting) -> NDArray[np.bool_]:
        """Which of some documents are added; those in whose place they come are deleted."""
        existing = self._existing(ids)
        places = {id_: place for place, id_ in enumerate(ids)}  # the last of each
        match on_existing:
            case "error":
                _refuse_repeated(ids, existing)
            case "skip":
                places = {id_: place for place, id_ in reversed(list(enumerate(ids)))}
                places = {id_: place for id_, place in places.items() if id_ not in existing}
            case "update":
                for id_, row in existing.items():
                    self._delete(id_, row)
            case _:
                assert_never(on_existing)
        chosen = np.zeros(len(ids), np.bool_)
        chosen[list(places.values())] = True
        return chosen

    def _existing(self, ids: list[str]) -> dict[str, int]:
        """The rows of those ids that the index holds, committed or not."""
        found = {id_: self._new[id_] for id_ in ids if id_ in self._new}
        if self._manifest.live:
            for id_, rows in self._held.rows_of(ids).items():
                for row in rows:
                    if row < len(self._deleted) and not self._deleted[row]:
                        found[id_] = row
        return found

    def _delete(self, id_: str, row: int) -> None:
        self._changed = True
        if row < len(self._deleted):
            self._deleted[row] = True
        else:
            self._gone.append(row)
            del self._new[id_]

    def _append(self, rows: DocumentRows, vectors: Vectors, source: int) -> int:
        """Put rows behind the others; the first one's number."""
        first = self._appending.rows
        self._appending.append(rows, self._prepared(vectors), hashes_of(rows))
        self._new_numbers += [source] * rows.rows
        self._changed = True
        return first

    def _prepared(self, vectors: Vectors) -> Vectors:
        return prepared(vectors, self._manifest.configuration.metric)

    def _encoded(self, rows: DocumentRows) -> Vectors:
        encoder = self._belonging.encoder
        if encoder is None:
            raise VocabtoolError(
                f"{self._path}: holds vectors of one's own: give vectors=, or create an index with "
                "model="
            )
        return encoder.encode(rows.texts)

    def _all_deleted(self, rows: int) -> deletions.Deleted:
        deleted = np.zeros(rows, np.bool_)
        deleted[: len(self._deleted)] = self._deleted
        deleted[self._gone] = True
        return deleted

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever is raised half-way through a change leaves nothing to commit."""
        if self._failed:
            raise VocabtoolError(f"{self._path}: {FAILED}")
        try:
            yield
        except BaseException:
            self._failed = True
            raise


def disturbed(load: Load | None) -> Load | None:
    """The last load after another change: rows may be of others now."""
    return None if load is None else load._replace(alone=False)


def check_choice(on_existing: str) -> None:
    """Raise ``ValueError`` for what is none."""
    if on_existing not in get_args(OnExisting):
        raise ValueError(f"on_existing: wanted one of {get_args(OnExisting)}, got {on_existing!r}")


def _any_replaced(ids: pa.StringArray) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring(ids, "\ufffd")).as_py())


def in_utf8(rows: DocumentRows) -> DocumentRows:
    """The documents with U+FFFD in ids and texts in place of bytes that are not UTF-8."""
    ids, texts = (as_utf8(column)[0] for column in (rows.ids, rows.texts))
    return rows._replace(ids=ids, texts=texts)


def _matrix(vectors: NDArray[Any] | Sequence[Any], dim: int) -> Vectors:
    with np.errstate(over="ignore"):  # infinity is refused below
        matrix = np.asarray(vectors, np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != dim:
        raise ValueError(f"vectors: wanted shape (n, {dim}), got {matrix.shape}")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise ValueError(f"vector {int(np.argmin(finite)):,} holds NaN or infinity")
    return matrix


def _unequal(vectors: int, documents: Items, taken: int) -> str:
    """Numbers that differ; an iterator may have more documents than were taken of it."""
    more = " or more" if taken > vectors else ""
    count = f"{len(documents):,}" if isinstance(documents, Sized) else f"{taken:,}{more}"
    return f"{plural(vectors, 'vector', 'vectors')} for {count} documents"


def _refuse_repeated(ids: list[str], existing: dict[str, int]) -> None:
    seen: set[str] = set()
    for id_ in ids:
        if id_ in existing or id_ in seen:
            where = "among the documents twice" if id_ in seen else "in the index already"
            raise VocabtoolError(
                f"document {id_!r} is {where}: put it in the place of the other (--existing "
                "update, in Python on_existing='update'), or leave it out ('skip')"
            )
        seen.add(id_)
