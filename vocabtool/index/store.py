"""What both stores of an index have in common: commits to read, and the reports of checks.

``folder_store.py`` keeps an index in a folder, and ``postgres/store.py`` keeps it in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from vocabtool.documents.batch import Kind
from vocabtool.errors import VocabtoolError
from vocabtool.index.folder import Manifest
from vocabtool.index.model import Agreement, IndexModel
from vocabtool.search import store
from vocabtool.search.store import KnownWords, ValueCounts
from vocabtool.system.ranking import Rows


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
