"""Both legs asked: which documents are ranked, and which of them hold an identifier.

What their scores become is in ``fusion.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.queries import KeywordQuery
from vocabtool.search.candidates import Candidates, are_among, joined, mask_of
from vocabtool.search.corpus import Among, Corpus
from vocabtool.search.query import Query
from vocabtool.system.ranked import Near, Ranked


class KeywordLeg(NamedTuple):
    """``found``: by BM25, then what only an identifier found; the first ``listed`` have a rank.

    ``holders``: documents that hold an identifier, perhaps not all: at most ``limit``.
    """

    found: Ranked
    listed: int
    holders: Ranked
    limit: int


NO_KEYWORDS = KeywordLeg(Ranked.none(), 0, Ranked.none(), 1)


def ask_keywords(corpus: Corpus, query: Query, limit: int, among: Among | None) -> KeywordLeg:
    """The best by BM25, and every document that holds an identifier, but no more than ``limit``.

    The identifiers are looked up by themselves, so that no list of better ones can miss them.
    """
    if not query.should:
        return NO_KEYWORDS
    if len(query.codes) == 1:
        leg = _of_one_code(corpus, query, limit, among)
        if leg is not None:
            return leg
    everything = KeywordQuery(query.should)
    found = corpus.keyword_search(everything, limit, among)
    listed = len(found.rows)
    if not query.codes:
        return KeywordLeg(found, listed, Ranked.none(), limit)
    holders = corpus.keyword_search(KeywordQuery(query.codes), limit, among)
    missed = holders.rows[~are_among(holders.rows, found.rows)]
    if len(missed):
        more = corpus.keyword_search(everything, len(missed), mask_of(missed))
        found = Ranked(
            np.concatenate((found.rows, more.rows)), np.concatenate((found.scores, more.scores))
        )
    return KeywordLeg(found, listed, holders, limit)


def _of_one_code(
    corpus: Corpus, query: Query, limit: int, among: Among | None
) -> KeywordLeg | None:
    """The same for a code that few documents hold, in less time; ``None`` where more hold it.

    Nor for a code that no single term finds, or that outdoes its parts. Its documents are found
    with all that they score, the others without it: a union of both.
    """
    (code,) = query.codes
    own = tuple(clause for clause in query.should if clause.terms == code.terms)
    if not own or own[0].parts:
        return None
    others = tuple(clause for clause in query.should if clause.terms != code.terms)
    holders = corpus.keyword_search(KeywordQuery(others, own), limit, among)
    if len(holders.rows) >= limit:
        return None
    found = holders
    if others:
        rest = corpus.keyword_search(KeywordQuery(others), limit, among)
        new = ~are_among(rest.rows, holders.rows)
        found = Ranked.of(
            np.concatenate((holders.rows, rest.rows[new])),
            np.concatenate((holders.scores, rest.scores[new])),
            limit + len(holders.rows),
        )
    return KeywordLeg(*_listed(found, holders, limit), holders, limit)


def _listed(found: Ranked, holders: Ranked, limit: int) -> tuple[Ranked, int]:
    """The first ``limit``, then what only the code found; and how many of them have a rank."""
    rows, scores = found
    past = limit + np.flatnonzero(are_among(rows[limit:], holders.rows))
    if not len(past):
        return Ranked(rows[:limit], scores[:limit]), min(limit, len(rows))
    kept = np.concatenate((np.arange(limit), past))
    return Ranked(rows[kept], scores[kept]), limit


def tiers(corpus: Corpus, query: Query, leg: KeywordLeg, among: Candidates) -> NDArray[np.int8]:
    """1 for candidates that hold an identifier, 2 for those that hold one to the last letter."""
    if not len(leg.holders.rows):
        return np.zeros(len(among.rows), np.int8)
    holders = leg.holders
    if len(holders.rows) >= leg.limit:  # there may be more of them
        every = KeywordQuery(query.codes)
        holders = corpus.keyword_search(every, len(among.rows), mask_of(among.rows))
    found = are_among(among.rows, holders.rows).astype(np.int8)
    if query.unstemmed:
        exact = KeywordQuery(query.unstemmed)
        rows = corpus.keyword_search(exact, len(among.rows), mask_of(among.rows)).rows
        found += are_among(among.rows, rows)
    return found


def candidates(
    corpus: Corpus, vector: Vectors | None, leg: KeywordLeg, limit: int, among: Among | None
) -> Candidates:
    """What both legs give; without a vector, what the keyword leg gives."""
    rows = leg.found.rows
    if vector is None:
        near = Near(Ranked.none(), np.full(len(rows), np.nan, np.float32))
    else:
        near = corpus.near(vector, rows, limit, among)
    return joined(near, leg.found, leg.listed)
