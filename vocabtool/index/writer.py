"""The public ``Writer``, which changes an index in one or more commits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.choices import OnExisting
from vocabtool.documents.batch import Batch, SkipCounter, as_utf8
from vocabtool.documents.options import PATH_FIRST, OnError
from vocabtool.encoders.encoder import Encoder, Pace, Vectors
from vocabtool.errors import DuplicateId, VocabtoolError
from vocabtool.index.database import ENCODED, MAX_FIELDS, PLAIN, id_in_utf8
from vocabtool.index.documents import Items, batches_of, fit_to_kind
from vocabtool.index.folder import Load, Manifest
from vocabtool.index.measures import compare_canaries
from vocabtool.index.model import IndexModel
from vocabtool.index.vectors import prepare
from vocabtool.search.settings import Calibration
from vocabtool.system.messages import Progress, plural
from vocabtool.system.ranking import Rows
from vocabtool.vocabulary import decode

if TYPE_CHECKING:
    from vocabtool.index.generation import FolderTransaction
    from vocabtool.index.postgres.transaction import PostgresTransaction

    Transaction: TypeAlias = FolderTransaction | PostgresTransaction

WHAT_NEXT: Final = "Fix it, or skip such values: --on-error skip, in Python on_error='skip'"
FAILED: Final = "an earlier change failed: close the writer; uncommitted changes are rolled back"


class Writer:
    """Changes an index; made by :meth:`Index.writer`. Commits at the end of its ``with`` block.

    An exception in the block rolls everything back that is not committed. One thread may use a
    writer at a time, while others search the index. To add many documents, call :meth:`commit` now
    and then, pass ``commit_seconds``, or use :meth:`Index.load`.

    - ``left_out``: number of skipped values that did not fit their fields, and the first of them.
    - ``transaction``: the changes, as the store writes them. Its ``rows`` are those of the index,
      committed or not.
    - ``pace``: the number of texts that are encoded together.
    """

    def __init__(
        self,
        name: str,
        transaction: Transaction,
        model: IndexModel,
        progress: Progress | None = None,
        commit_seconds: float | None = None,
    ) -> None:
        if commit_seconds is not None and commit_seconds < 0:
            raise ValueError(f"commit_seconds must be at least 0, got {commit_seconds}")
        self.left_out = SkipCounter()
        self._name = name
        self._model = model
        self._progress = progress
        self._lock = Lock()
        self._is_same_model = False  # as far as known
        self._changed = False
        self._deletes = False  # by ids
        self._failed = False
        self._commit_seconds, self._committed = commit_seconds, time.monotonic()
        self.transaction, self._configuration = transaction, transaction.manifest.configuration
        self.pace = Pace()

    @property
    def is_due(self) -> bool:
        """Whether the last commit will be ``commit_seconds`` ago when more texts are encoded."""
        seconds = time.monotonic() - self._committed + self.pace.seconds
        return self._commit_seconds is not None and seconds >= self._commit_seconds

    def add(
        self,
        documents: Items,
        vectors: NDArray[Any] | Sequence[Any] | None = None,
        *,
        on_existing: OnExisting = "error",
        on_error: OnError = "raise",
    ) -> int:
        """Add documents; return how many were added.

        - ``documents``: :class:`Document` objects, mappings with ``id`` and ``text`` (other keys
          are fields), texts, or an Arrow table.
        - ``vectors``: the vectors of the documents, shape (n, dim). By default, the encoder makes
          the vectors.
        - ``on_existing``: what to do with a document whose id is in the index.
        - ``on_error``: what to do with a value that does not fit its field. The first commit that
          contains a field determines its type. ``"skip"`` skips the value and counts it in
          :attr:`left_out`.

        Raises :class:`VocabtoolError` for values that do not fit and for errors of the encoder,
        :class:`OtherModel` if the encoder makes different vectors than before, and ``ValueError``
        for invalid vectors. After an error, this writer cannot commit.
        """
        check_choice(on_existing)
        if on_error not in get_args(OnError):
            raise ValueError(f"on_error must be one of {get_args(OnError)}, got {on_error!r}")
        matrix = None if vectors is None else _matrix(vectors, self._configuration.dim)
        rows_before, end = self.transaction.rows, 0
        with self._all_or_nothing():
            for batch in batches_of(documents, self.transaction.rows):
                first, end = end, end + len(batch)
                if matrix is not None and end > len(matrix):
                    break
                given = replace(batch, vectors=None if matrix is None else matrix[first:end])
                spans: Iterable[tuple[int, int]] = [(0, len(batch))]
                if matrix is None and self._commit_seconds is not None:
                    spans = self.pace.spans(len(batch))  # else rolled back as a whole
                for span in spans:
                    piece = given.part(*span)
                    self.add_batch(piece, on_existing=on_existing, on_error=on_error)
                    if self.is_due:
                        self.commit(codes=False)
            if matrix is not None and end != len(matrix):
                count = len(documents) if isinstance(documents, Sized) else end
                raise ValueError(f"{plural(len(matrix), 'vector')} for {count:,} documents")
        return self.transaction.rows - rows_before

    def update(
        self,
        documents: Items,
        vectors: NDArray[Any] | Sequence[Any] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> int:
        """Add documents; each replaces the document with the same id, if any."""
        return self.add(documents, vectors, on_existing="update", on_error=on_error)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete documents; return how many of these ids existed."""
        wanted = dict.fromkeys(map(id_in_utf8, [ids] if isinstance(ids, str) else ids))
        with self._all_or_nothing():
            existing = self.transaction.find_existing([*wanted])
            self.delete_rows(np.array([*existing.values()], np.int64))
        self._deletes |= bool(existing)
        return len(existing)

    def set_searched_fields(self, searched: tuple[str, ...]) -> None:
        """Set the fields that are joined into one text: see :class:`Manifest`.

        Raises :class:`VocabtoolError` if the index has rows with other fields or weights.
        """
        present = self.transaction.searched_fields
        if {present, searched} == {(), PATH_FIRST}:
            searched = PATH_FIRST
        elif present != searched and self.transaction.rows:
            shown = [" and ".join(names) or "one field" for names in (present, searched)]
            options = " ".join(f"--field {name}" for name in present) or "one --field"
            raise VocabtoolError(
                f"{self._name}: the index searches {shown[0]}, not {shown[1]}. Use {options}, or "
                "start over with --force, or name a new folder"
            )
        self.transaction.searched_fields = searched

    def delete_rows(self, rows: Rows) -> None:
        """Delete documents by their rows."""
        if len(rows):
            self.transaction.delete(rows)
            self._changed = True

    def set_source(self, rows: Rows, source: int) -> None:
        """Record that rows are from the FILE number ``source``."""
        if len(rows):
            with self._all_or_nothing():
                self._changed |= self.transaction.set_source(rows, source)

    def add_batch(
        self,
        batch: Batch,
        *,
        on_existing: OnExisting,
        on_error: OnError,
        source: int = 0,
        are_new: bool = False,
    ) -> None:
        """Add the documents of a batch, perhaps with their vectors, as :meth:`add` does.

        - ``source``: the number of the FILE of the documents.
        - ``are_new``: true if no id of the batch is in the index, so that ids need no lookup.
        """
        with self._all_or_nothing():
            batch = self.of_kinds(batch, on_error)
            ids: pa.StringArray = batch.id_array()
            # Even new ids may be equal if they have U+FFFD, which replaces all invalid bytes.
            if not are_new or pc.any(pc.match_substring(ids, "\ufffd")).as_py():
                chosen = self._choose(ids.to_pylist(), on_existing)
                if not chosen.all():
                    batch = batch.only(chosen)
            if not len(batch):
                return
            fields = {*self.transaction.kinds, *batch.columns}
            if len(fields) > MAX_FIELDS:
                raise VocabtoolError(
                    f"the index would have {len(fields):,} fields, but the limit is {MAX_FIELDS}"
                )
            vectors = batch.vectors
            if vectors is None:
                encoder = self.encoder()
                with self.pace.timed(len(batch)):
                    vectors, source = encoder.encode(batch.texts), source or ENCODED
            self.transaction.append(batch, prepare(vectors, self._configuration.metric), source)
            self._changed = True

    def encoder(self) -> Encoder:
        """Return the encoder of the index's model.

        The first call encodes some documents again, and compares the vectors with stored ones.
        Several threads may call this method. Raises :class:`OtherModel` if the vectors differ,
        and :class:`VocabtoolError` if the index has no model.
        """
        encoder = self._model.encoder
        if encoder is None:
            raise VocabtoolError(
                f"{self._name}: the index contains your own vectors and has no encoder: "
                "pass vectors=, or create an index with model="
            )
        with self._lock:
            if not self._is_same_model:
                canaries, metric = self._model.canaries(), self._configuration.metric
                compare_canaries(self._name, canaries, encoder, metric)
                self._is_same_model = True
        return encoder

    def of_kinds(self, batch: Batch, on_error: OnError) -> Batch:
        """Return the documents in UTF-8, with null for each value that does not fit its field."""
        for name, texts in batch.columns.items():
            kind = self.transaction.manifest.fields.get(name, "null")
            batch, others = fit_to_kind(batch, name, kind)
            for row in others:
                place = batch.place(row) if batch.source else f"document {batch.id_of(row)!r}"
                got = decode(bytes(texts[row].as_buffer()))[:50]
                reason = f"the field {name!r} contains {PLAIN[kind]}, got {got!r}"
                if on_error == "raise":
                    raise VocabtoolError(f"{place}: {reason}. {WHAT_NEXT}")
                self.left_out.add(place, reason)
        ids, texts = as_utf8(batch.id_array())[0], as_utf8(batch.texts)[0]
        return replace(batch, ids=ids, texts=texts)

    def commit(self, load: Load | None = None, *, codes: bool = True) -> None:
        """Commit all changes so far: write them to disk and show them to readers.

        - ``load``: the state from which a load resumes.
        - ``codes``: whether approximate search covers the new documents, which may take time.
          Otherwise, searches compare the new documents exactly.

        Raises :class:`VocabtoolError` after a failed change.
        """
        if self._failed:
            raise VocabtoolError(f"{self._name}: {FAILED}")
        if not self._changed and load is None:
            return
        last = self.transaction.manifest.load
        if load is None and last is not None:
            load = last.after_other_change(synced=not self._deletes)
        self._finish(replace(self.transaction.manifest, load=load), codes=codes)

    def store_calibration(self, calibration: Calibration | None) -> None:
        """Store the weight of keyword search (``None``: remove it), and commit all changes."""
        self.commit()
        manifest = self.transaction.manifest
        if calibration is not None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            calibration = replace(calibration, documents=manifest.live, time=now)
        self._finish(replace(manifest, calibration=calibration), codes=False)

    def _finish(self, manifest: Manifest, *, codes: bool) -> None:
        """Commit under the next number."""
        with self._all_or_nothing():
            manifest = replace(manifest, commit=self.transaction.manifest.commit + 1)
            self.transaction.commit(manifest, codes=codes, progress=self._progress)
        self._changed, self._committed = False, time.monotonic()

    def _choose(self, ids: list[str], on_existing: OnExisting) -> NDArray[np.bool_]:
        """Return a mask of the documents to add; delete the documents that they replace.

        If several documents have an id, an update adds the last of them, and a skip the first.
        """
        existing = self.transaction.find_existing(ids)
        places: dict[str, int] = {}  # of the document to add, by id
        for place, id_ in enumerate(ids):
            if on_existing == "error" and (id_ in existing or id_ in places):
                where = "twice among the documents" if id_ in places else "in the index already"
                raise DuplicateId(id_, where)
            if on_existing == "update" or (id_ not in existing and id_ not in places):
                places[id_] = place
        if on_existing == "update":
            self.delete_rows(np.array([*existing.values()], np.int64))
        chosen = np.zeros(len(ids), np.bool_)
        chosen[[*places.values()]] = True
        return chosen

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If the ``with`` block raises an exception, forbid all further commits."""
        if self._failed:
            raise VocabtoolError(f"{self._name}: {FAILED}")
        try:
            yield
        except BaseException:
            self._failed = True
            raise


def check_choice(on_existing: str) -> None:
    """Raise ``ValueError`` for an unknown value of ``on_existing``."""
    if on_existing not in get_args(OnExisting):
        raise ValueError(f"on_existing must be one of {get_args(OnExisting)}, got {on_existing!r}")


def _matrix(vectors: NDArray[Any] | Sequence[Any], dim: int) -> Vectors:
    """Return vectors as float32, shape (n, dim). Raises ``ValueError`` if they are invalid."""
    with np.errstate(over="ignore"):  # infinity is refused below
        matrix = np.asarray(vectors, np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != dim:
        raise ValueError(f"vectors must have shape (n, {dim}), got {matrix.shape}")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise ValueError(f"vector {int(np.argmin(finite)):,} contains NaN or infinity")
    return matrix
