"""What a search asks of an index: one commit of it, which stays as it is while it is asked.

``index/snapshot.py`` answers. Which engines stand behind it is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.rows import Document
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.cutting import Cutter
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.search.knowledge import Knowledge
from vocabtool.system.ranked import Near, Ranked, Rows

Among = NDArray[np.bool_]  # shape (rows,): which rows may be found


Stored = Document  # as it was added


class Corpus(Protocol):
    """One commit of an index. Several threads may ask at a time.

    ``documents``: how many rows it holds, N of the inverse document frequency.
    ``cutter``: cuts texts into the terms of the keyword leg.
    ``knowledge``: which words the model of the vectors knows; ``None`` where nothing tells.
    """

    @property
    def documents(self) -> int: ...

    @property
    def cutter(self) -> Cutter: ...

    @property
    def knowledge(self) -> Knowledge | None: ...

    def document_frequency(self, term: Term) -> int:
        """How many documents hold a term."""

    def keyword_search(self, query: KeywordQuery, limit: int, among: Among | None = None) -> Ranked:
        """The best documents by BM25, deleted ones never among them."""

    def matching(self, clauses: Sequence[Clause], among: Among | None = None) -> Rows:
        """Every row that holds all of these clauses, ascending."""

    def vector_search(self, vector: Vectors, limit: int, among: Among | None = None) -> Ranked:
        """The nearest documents to a vector of shape (dim,), deleted ones never among them.

        Documents without a vector (all zero) are never among them either.
        """

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Among | None = None) -> Near:
        """What :meth:`vector_search` finds, and how near these rows are, whatever ``among`` says.

        Together, since many vectors are then read once. NaN for documents without one.
        """

    def where(self, condition: str) -> Among:
        """Which rows fulfil a condition on fields; deleted ones never."""

    def ids(self, rows: Rows) -> list[str]:
        """The documents' ids."""

    def stored(self, rows: Rows) -> list[Stored]:
        """The documents themselves."""

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Words of the corpus that are spelled nearly like this one, most frequent first."""
