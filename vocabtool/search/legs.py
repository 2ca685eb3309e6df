"""Run the vector leg and the keyword leg of a search on any store, in several calls.

``np.count_nonzero`` replaces ``any`` and ``all``, because it is much faster for short arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates
from vocabtool.search.store import (
    MAX_COMPARED,
    Asked,
    Combination,
    Exclusion,
    JoinedWord,
    KeywordStore,
    LegQuery,
    Selection,
)
from vocabtool.system.ranking import Mask, Near, RankedRows, Rows, are_among, mask_of


class MaskedKeywords(KeywordStore, Protocol):
    def rows_with_all(self, clauses: Iterable[Clause]) -> Rows:
        """Return the rows that contain every clause; deleted rows may be included."""


class SteppedLegs:
    """A base class of stores: runs both legs of a search by calls to ``keywords`` and ``vectors``.

    ``only``: see :class:`~vocabtool.search.store.Store`.
    """

    live: Any
    keywords: Any  # a KeywordStore
    vectors: Any  # a VectorStore
    only: Callable[[Rows], Selection]

    def at_one_commit(self) -> AbstractContextManager[Any]:
        return nullcontext(self)

    def statistics(
        self, terms: Iterable[Term], joined: Sequence[JoinedWord]
    ) -> tuple[Mapping[Term, int], Mapping[JoinedWord, float]]:
        frequencies = self.keywords.document_frequencies(terms)
        bests = {}
        for each in joined:
            if frequencies[each.whole]:
                asked = KeywordQuery((), each.parts)
                found = self.keywords.search(asked, MAX_COMPARED, self.live)
                whole = KeywordQuery((Clause((each.whole,)),))
                holders = self.keywords.search(whole, MAX_COMPARED, self.only(found.rows)).rows
                scores = found.scores[~are_among(found.rows, holders)]
                bests[each] = float(scores.max(initial=0.0))
        return frequencies, bests

    def legs(
        self, query: LegQuery, vector: Vectors | None, limit: int, among: Selection
    ) -> tuple[Candidates, NDArray[np.int8]]:
        found, listed, holders = self._ask_keywords(query, limit, among)
        if vector is None:
            near = Near(RankedRows.none(), np.full(len(found.rows), np.nan, np.float32))
        else:
            near = self.vectors.near(vector, found.rows, limit, among)
        candidates = Candidates.union(near, found, listed)
        rows = candidates.rows
        if not len(holders):
            return candidates, np.zeros(len(rows), np.int8)
        if len(holders) >= limit:  # there may be more of them
            holding = KeywordQuery(query.codes)
            holders = self.keywords.search(holding, len(rows), self.only(rows)).rows
        tiers = are_among(rows, holders).astype(np.int8)
        if query.unstemmed:
            exact = KeywordQuery(query.unstemmed)
            tiers += are_among(rows, self.keywords.search(exact, len(rows), self.only(rows)).rows)
        return candidates, tiers

    def _ask_keywords(
        self, query: LegQuery, limit: int, among: Selection
    ) -> tuple[RankedRows, int, Rows]:
        """Run the keyword leg.

        Returns the documents found, how many of them have a rank, and the rows that contain an
        identifier of the query. Documents with a rank come first. Documents with an identifier are
        searched separately, so that other documents do not displace them.
        """
        search, none = self.keywords.search, RankedRows.none()
        if not query.should:
            return none, 0, none.rows
        code = query.codes[0].terms if len(query.codes) == 1 else ()
        own = tuple(clause for clause in query.should if clause.terms == code and not clause.parts)
        if own:  # a single code: rank its documents by all words, the others without it
            others = tuple(clause for clause in query.should if clause.terms != code)
            holders = search(KeywordQuery(others, own), limit, among)
            if len(holders.rows) < limit:
                rest = search(KeywordQuery(others), limit, among) if others else none
                new = ~are_among(rest.rows, holders.rows)
                rows = np.concatenate((holders.rows, rest.rows[new]))
                scores = np.concatenate((holders.scores, rest.scores[new]))
                found = RankedRows.of(rows, scores, limit + len(holders.rows))
                kept = are_among(found.rows, holders.rows)
                kept[:limit] = True
                listed = min(limit, len(found.rows))
                return RankedRows(found.rows[kept], found.scores[kept]), listed, holders.rows
        everything = KeywordQuery(query.should)
        found = search(everything, limit, among)
        listed = len(found.rows)
        if not query.codes:
            return found, listed, none.rows
        holders = search(KeywordQuery(query.codes), limit, among)
        missed = holders.rows[~are_among(holders.rows, found.rows)]
        if len(missed):
            more = search(everything, len(missed), self.only(missed))
            rows = np.concatenate((found.rows, more.rows))
            found = RankedRows(rows, np.concatenate((found.scores, more.scores)))
        return found, listed, holders.rows


class MaskStore(SteppedLegs):
    """A store in this process, whose selections are masks: bool, shape (rows,).

    ``where``: returns the mask of the rows that satisfy a condition on fields, without deleted
    rows.
    """

    rows: int
    keywords: Any  # a MaskedKeywords
    where: Callable[[Where], Mask]
    only: Callable[[Rows], Selection] = staticmethod(mask_of)

    def select(self, asked: Sequence[Asked], without: int | None = None) -> Mask:
        allowed: Mask = self.live
        for each in asked:
            allowed = allowed & self._rows_of(each)
        if without is not None:
            allowed = allowed.copy()
            allowed[without] = False
        return allowed

    def is_empty(self, selection: Mask) -> bool:
        return not selection.any()

    def _rows_of(self, asked: Asked) -> Mask:
        match asked:
            case Clause():
                return self._rows_with((asked,))
            case Where():
                return self.where(asked)
            case Exclusion(part):
                return ~self._rows_of(part)
            case Combination(word, parts):
                clauses = tuple(part for part in parts if isinstance(part, Clause))
                if word == "all" and len(clauses) == len(parts):
                    return self._rows_with(clauses)
                masks = [self._rows_of(part) for part in parts]
                mask: Mask = np.all(masks, axis=0) if word == "all" else np.any(masks, axis=0)
                return mask
            case _:
                assert_never(asked)

    def _rows_with(self, clauses: tuple[Clause, ...]) -> Mask:
        mask = np.zeros(self.rows, np.bool_)
        rows = self.keywords.rows_with_all(clauses)
        mask[rows[rows < self.rows]] = True  # a later commit may have added rows
        return mask
