"""What a search asks of an index: one commit of it, which stays as it is while it is asked.

The ``Snapshot`` of ``index/generation.py`` is one. Which engines stand behind it is not known here.
Several threads may ask at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from vocabtool.documents.batch import Document
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import KeywordQuery, Term
from vocabtool.keywords.cutter import Cutter
from vocabtool.system.ranking import Mask, Near, RankedRows, Rows
from vocabtool.tokenization.words import Words

MAX_REMEMBERED: Final = 1 << 16  # words; past it all are forgotten
MAX_REMEMBERED_LENGTH: Final = 100  # characters: longer ones hardly come twice


@dataclass(frozen=True, slots=True)
class WordStatus:
    """``known``: whether the model knows every key that it makes of the word.

    ``pieces``: into how many pieces a subword model cuts it; ``None`` for models of whole words.
    """

    known: bool
    pieces: int | None = None


class KnownWords:
    """Which words the model of the vectors knows, by its own rule; several threads may ask.

    Each word is judged once, as a text of its own: a key that the model makes of it and does not
    know makes it unknown, and so does making no key of it at all (a rule that deletes digits).
    ``subword``: whether the model is one of pieces, to which hardly any word is unknown.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._remembered: dict[str, WordStatus] = {}
        self.subword = words.look_up(["a"]).pieces is not None

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        """What the model knows of each word as it is written; new ones are judged in one call."""
        remembered, judged = self._remembered, dict[str, WordStatus]()
        if new := [each for each in dict.fromkeys(surfaces) if each not in remembered]:
            found = self._words.look_up(new)
            missed = np.append(0, np.cumsum(~found.known[found.codes]))
            pieces = None
            if found.pieces is not None:
                pieces = np.append(0, np.cumsum(found.pieces[found.codes], dtype=np.int64))
            for surface, (start, end) in zip(new, pairwise(found.offsets.tolist()), strict=True):
                known = start < end and bool(missed[start] == missed[end])
                count = None if pieces is None else int(pieces[end] - pieces[start])
                judged[surface] = WordStatus(known, count)
            kept = {each: judged[each] for each in new if len(each) <= MAX_REMEMBERED_LENGTH}
            # Another thread may still read the old dictionary, so it is replaced, never cleared.
            if len(self._remembered) + len(kept) > MAX_REMEMBERED:
                self._remembered = {}
            self._remembered.update(kept)
        return [judged.get(surface) or remembered[surface] for surface in surfaces]


class KeywordStore(Protocol):
    """The keyword leg. A mask says which rows may be found; rows past its end never are."""

    def search(self, query: KeywordQuery, limit: int, among: Mask) -> RankedRows:
        """The best documents by BM25; with a ``limit`` of all rows each that holds what it asks."""

    def document_frequencies(self, terms: Iterable[Term]) -> dict[Term, int]:
        """How many rows hold each term, deleted ones too until the next compaction."""

    def near_spellings(self, word: str, limit: int) -> list[str]:
        """Words of the corpus that are spelled nearly like this one, most frequent first."""


class VectorStore(Protocol):
    """The vector leg."""

    def near(self, vector: Vectors, rows: Rows, limit: int, among: Mask) -> Near:
        """The nearest documents to a vector of shape (dim,), never those without a vector.

        And how near some rows are, whatever ``among`` says: vectors are read once.
        """


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
