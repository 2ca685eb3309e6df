"""The interface through which an index reads a commit, in a folder or in an engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from vocabtool.errors import VocabtoolError
from vocabtool.index.folder import Manifest
from vocabtool.index.model import Canaries, IndexModel
from vocabtool.search.store import IndexStore, ValueCounts
from vocabtool.system.ranking import Rows


class DocumentsChanged(VocabtoolError):
    """A document was deleted between two steps of a search: search again."""


class CommitStore(IndexStore, Protocol):
    """A commit with its model; several threads may use it.

    ``number``: the number of the generation; 0 in an engine. ``mean_lengths``: the mean number of
    terms per row in the fields ``words`` and ``surfaces``.
    """

    model: IndexModel

    @property
    def manifest(self) -> Manifest: ...
    @property
    def number(self) -> int: ...
    @property
    def mean_lengths(self) -> tuple[float, float]: ...

    def at_one_commit(self) -> AbstractContextManager[CommitStore]:
        """Open a store that reads one fixed commit, for exports.

        In contrast, each call of a method of ``self`` may read a newer commit.
        """

    def row_of(self, id_: str) -> int | None: ...

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each id that exists. Ids must be valid UTF-8."""

    def rows_in_order(self, where: str | None = None) -> Rows:
        """Return the rows of the documents that satisfy ``where`` (default: all), ascending."""

    def fetch_stored(self, ids: Sequence[str]) -> dict[str, tuple[int, list[Any]]]:
        """Return (row, [text, value of each kept field]) for each id that exists."""

    def rows_of_texts(self, texts: Sequence[bytes]) -> Rows:
        """For each text, return a row that has this text and comes from a file, or -1."""

    def canaries(self) -> Canaries: ...

    def value_facts(self, name: str, limit: int) -> tuple[int, ValueCounts]:
        """Return how many documents have the kept field ``name``, and its most frequent values.

        A list counts as one value: its JSON text. Each returned value is in at least two documents.
        """
