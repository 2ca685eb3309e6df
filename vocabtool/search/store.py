"""What a search asks of an index: one commit of it, which stays as it is while it is asked.

``index/snapshot.py`` is one. Which engines stand behind it is not known here. Several threads may
ask at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vocabtool.documents.batch import Document
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.search.known_words import KnownWords
from vocabtool.system.ranking import Mask, Near, RankedRows, Rows


class KeywordStore(Protocol):
    """The keyword leg. A mask says which rows may be found; rows past its end never are."""

    def search(self, query: KeywordQuery, limit: int, among: Mask) -> RankedRows:
        """The best documents by BM25."""

    def matching_rows(self, clauses: Sequence[Clause], among: Mask) -> Rows:
        """Every row that holds all of these clauses, ascending."""

    def document_frequency(self, term: Term) -> int:
        """How many rows hold a term, deleted ones too until the next compaction."""

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Words of the corpus that are spelled nearly like this one, most frequent first."""


class VectorStore(Protocol):
    """The vector leg."""

    def search(self, vector: Vectors, limit: int, among: Mask) -> RankedRows:
        """The nearest documents to a vector of shape (dim,); never those without a vector."""

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Mask) -> Near:
        """The same, and how near some rows are, whatever ``among`` says: vectors are read once."""


class DocumentStore(Protocol):
    """The documents by their rows: int64, shape (n,)."""

    def ids(self, rows: Rows) -> list[str]:
        """Their ids."""

    def fetch_documents(self, rows: Rows) -> list[Document]:
        """The documents themselves."""


class Store(Protocol):
    """One commit of an index.

    ``rows``: how many it holds, N of the inverse document frequency. ``live``: which of them are
    not deleted. ``cutter``: cuts texts into the terms of the keyword leg. ``known_words``: which
    words the model of the vectors knows; ``None`` where nothing tells.
    """

    @property
    def rows(self) -> int: ...
    @property
    def live(self) -> Mask: ...
    @property
    def cutter(self) -> Cutter: ...
    @property
    def known_words(self) -> KnownWords | None: ...
    @property
    def keywords(self) -> KeywordStore: ...
    @property
    def vectors(self) -> VectorStore: ...
    @property
    def documents(self) -> DocumentStore: ...

    def where(self, condition: str) -> Mask:
        """Which rows fulfil a condition on fields; deleted ones never."""
