"""Both legs asked: which documents are ranked, and which of them hold an identifier.

What their scores become is in ``fusion.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.queries import KeywordQuery
from vocabtool.search.fusion import Candidates
from vocabtool.search.query import Query
from vocabtool.search.store import Store
from vocabtool.system.ranked import Mask, Near, Ranked, Rows, are_among, mask_of


@dataclass(frozen=True, slots=True)
class KeywordLeg:
    """``found``: by BM25, then what only an identifier found; the first ``listed`` have a rank.

    ``holders``: documents that hold an identifier, perhaps not all: at most ``limit``.
    """

    found: Ranked
    listed: int
    holders: Ranked
    limit: int


def ask_keywords(store: Store, query: Query, limit: int, allowed: Mask) -> KeywordLeg:
    """The best by BM25, and every document that holds an identifier, but no more than ``limit``.

    The identifiers are looked up by themselves, so that no list of better ones can miss them.
    """
    if not query.should:
        return KeywordLeg(Ranked.none(), 0, Ranked.none(), 1)
    if len(query.codes) == 1:
        leg = _ask_for_one_code(store, query, limit, allowed)
        if leg is not None:
            return leg
    keywords = store.keywords
    everything = KeywordQuery(query.should)
    found = keywords.search(everything, limit, allowed)
    listed = len(found.rows)
    if not query.codes:
        return KeywordLeg(found, listed, Ranked.none(), limit)
    holders = keywords.search(KeywordQuery(query.codes), limit, allowed)
    missed = holders.rows[~are_among(holders.rows, found.rows)]
    if len(missed):
        more = keywords.search(everything, len(missed), mask_of(missed))
        rows = np.concatenate((found.rows, more.rows))
        found = Ranked(rows, np.concatenate((found.scores, more.scores)))
    return KeywordLeg(found, listed, holders, limit)


def _ask_for_one_code(store: Store, query: Query, limit: int, allowed: Mask) -> KeywordLeg | None:
    """The same for a code that few documents hold, in less time; ``None`` where more hold it.

    Nor for a code that no single term finds, or that outdoes its parts. Its documents are found
    with all that they score, the others without it: a union of both.
    """
    (code,) = query.codes
    own = tuple(clause for clause in query.should if clause.terms == code.terms)
    if not own or own[0].parts:
        return None
    others = tuple(clause for clause in query.should if clause.terms != code.terms)
    holders = store.keywords.search(KeywordQuery(others, own), limit, allowed)
    if len(holders.rows) >= limit:
        return None
    found = holders
    if others:
        rest = store.keywords.search(KeywordQuery(others), limit, allowed)
        new = ~are_among(rest.rows, holders.rows)
        rows = np.concatenate((holders.rows, rest.rows[new]))
        scores = np.concatenate((holders.scores, rest.scores[new]))
        found = Ranked.of(rows, scores, limit + len(holders.rows))
    past = limit + np.flatnonzero(are_among(found.rows[limit:], holders.rows))
    kept = np.concatenate((np.arange(min(limit, len(found.rows))), past))
    listed = min(limit, len(found.rows))
    return KeywordLeg(Ranked(found.rows[kept], found.scores[kept]), listed, holders, limit)


def find_nearest(
    store: Store, vector: Vectors | None, rows: Rows, limit: int, allowed: Mask
) -> Near:
    """The nearest documents, and how near the keyword leg's ``rows`` are; none without a vector."""
    if vector is None:
        return Near(Ranked.none(), np.full(len(rows), np.nan, np.float32))
    return store.vectors.near(vector, rows, limit, allowed)


def find_tiers(
    store: Store, query: Query, leg: KeywordLeg, candidates: Candidates
) -> NDArray[np.int8]:
    """1 for candidates that hold an identifier, 2 for those that hold one to the last letter."""
    rows, holders = candidates.rows, leg.holders
    if not len(holders.rows):
        return np.zeros(len(rows), np.int8)
    if len(holders.rows) >= leg.limit:  # there may be more of them
        holders = store.keywords.search(KeywordQuery(query.codes), len(rows), mask_of(rows))
    tiers = are_among(rows, holders.rows).astype(np.int8)
    if query.unstemmed:
        exact = KeywordQuery(query.unstemmed)
        tiers += are_among(rows, store.keywords.search(exact, len(rows), mask_of(rows)).rows)
    return tiers
