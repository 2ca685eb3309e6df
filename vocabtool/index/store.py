"""What an index asks of a store: commits to read, and transactions to write.

``folder_store.py`` keeps an index in a folder, and ``postgres/store.py`` keeps it in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vocabtool.documents.batch import Batch, Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import VocabtoolError
from vocabtool.index.folder import Manifest, Source
from vocabtool.index.model import Agreement, Canaries, IndexModel
from vocabtool.search import store
from vocabtool.search.store import KnownWords, ValueCounts
from vocabtool.system.ranking import Rows

Progress = Callable[[str, float], None]


class DocumentsChanged(VocabtoolError):
    """A document was deleted between two steps of a search: search again."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What :meth:`Index.verify` reports on an undamaged index.

    - ``recall``: recall@10 as measured now; 1 for exact search.
    - ``loading``: whether a load is unfinished.
    - ``others``: files in the folder that do not belong to the commit.
    - ``encoded``: the comparison of new vectors with stored ones; ``None`` if nothing was encoded.
    """

    documents: int
    deleted: int
    commit: int
    recall: float
    approximate: bool
    loading: bool
    others: tuple[str, ...]
    encoded: Agreement | None = None

    @classmethod
    def of(cls, manifest: Manifest, recall: float, others: tuple[str, ...] = ()) -> VerifyReport:
        load = manifest.load
        return cls(
            documents=manifest.live,
            deleted=manifest.deleted,
            commit=manifest.commit,
            recall=recall,
            approximate=manifest.codes is not None,
            loading=load is not None and not load.finished,
            others=others,
        )


class IndexSnapshot(store.Snapshot, Protocol):
    """A commit that can be searched, and whose documents can be listed and compared.

    A snapshot of a folder never changes. A snapshot of an engine always is the last commit: a
    method raises :class:`DocumentsChanged` if a document that it reads was deleted meanwhile.

    - ``number``: the number of the generation; 0 in an engine.
    """

    manifest: Manifest
    model: IndexModel

    @property
    def number(self) -> int: ...

    @property
    def version(self) -> tuple[str, int]:
        return self.manifest.index, self.manifest.commit

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def fields(self) -> Mapping[str, Kind]:
        return self.manifest.fields

    @property
    def searched_fields(self) -> tuple[str, ...]:
        return self.manifest.searched_fields

    @property
    def known_words(self) -> KnownWords | None:
        return self.model.known_words

    @property
    def mean_length(self) -> float:
        """The mean number of words per row, in the keyword field ``words``."""
        return self.manifest.words / max(self.manifest.rows, 1)

    def at_one_commit(self) -> AbstractContextManager[IndexSnapshot]:
        """Return a snapshot that never changes, for a ``with`` block."""

    def canaries(self) -> Canaries:
        """Return some documents from evenly spaced rows, with their vectors.

        If the index has a model, documents that were added in Python with vectors are left out.
        """

    def rows_in_order(self, where: str | None = None) -> Rows:
        """Return the rows of the documents that satisfy ``where`` (default: all), ascending."""

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists. Ids must be valid UTF-8."""

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        """For each text, return a row that has this text and comes from a file, or -1."""

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        """Return (row, [text, value of each kept field]) for each id that exists."""

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        """Return how many documents have the kept field ``name``, and its most frequent values.

        A list counts as one value: its JSON text. Each returned value is in at least two documents.
        """


class Transaction(Protocol):
    """Changes of an index, which a commit shows to readers. A store has one at a time.

    - ``manifest``: the manifest of the last commit, but with the FILEs that were registered since.
    - ``rows``: number of rows, committed or not.
    - ``searched_fields``: as in the manifest; may be set while there are no rows.
    """

    manifest: Manifest
    rows: int
    searched_fields: tuple[str, ...]

    def find_existing(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists. Uncommitted changes count too."""

    def append(self, batch: Batch, vectors: Vectors, sources: Sequence[int]) -> None:
        """Add documents with their vectors.

        ``batch``: ids and texts in UTF-8. ``vectors``: from :func:`prepare`, shape (n, dim).
        ``sources``: for each document, the number of its FILE. Raises ``ValueError`` for vectors
        that cannot be stored; after this error, do not add more rows.
        """

    def delete(self, rows: Rows) -> None: ...

    def set_source(self, rows: Rows, source: int) -> bool:
        """Record that rows are from the FILE number ``source``; return whether a row changed."""

    def rows_of_sources(self, numbers: Sequence[int]) -> Rows:
        """Return the committed rows of the FILEs with these ``numbers``, ascending."""

    def register_sources(self, sources: Sequence[Source]) -> None:
        """Record ``sources`` as the FILEs of the index, in the next commit."""

    def canaries(self) -> Canaries:
        """Return some documents of the commit before: see :meth:`IndexSnapshot.canaries`."""

    def commit(
        self, manifest: Manifest, *, codes: bool = True, progress: Progress | None = None
    ) -> None:
        """Commit all changes so far.

        - ``manifest``: the manifest to commit; its numbers and checksums are updated.
        - ``codes``: whether approximate search may be built, which may take long.
        """


class Store(Protocol):
    """Where one index is.

    - ``path``: the folder of the index, or of the copies of its model's files.
    - ``name``: the name of the index in messages.
    - ``notes``: messages to show whenever the index is opened.
    - ``snapshot``: the last commit when it was opened or refreshed.
    - ``is_build``: whether :meth:`put_in_place` will replace another index by this one.

    Every method raises :class:`VocabtoolError` if the index was replaced by another one.
    """

    path: Path
    name: str
    notes: tuple[str, ...]

    @property
    def snapshot(self) -> IndexSnapshot: ...
    @property
    def is_build(self) -> bool: ...

    def refresh(self) -> None:
        """Open the last commit, if it is newer than ``snapshot``."""

    def begin(self) -> AbstractContextManager[Transaction]:
        """Open a transaction for a ``with`` block; its end rolls back what was not committed.

        Raises :class:`FolderInUse` if another process or thread is writing.
        """

    def compact(self, progress: Progress | None = None) -> int:
        """Remove deleted rows; return how many there were."""

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Compare the last commit with its checksums and statistics."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk by purpose, such as ``vectors``."""

    def put_in_place(self) -> Store:
        """Replace the index that this one was built for; return the store of the new index."""

    def remove(self, *, if_empty: bool = False) -> None:
        """Remove the index. ``if_empty``: only if nobody has added documents."""

    def close(self) -> None: ...
