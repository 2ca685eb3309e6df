"""Why a search answered as it did: what costs time, and is computed only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import idf
from vocabtool.keywords.highlights import highlights
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.search.fusion import Candidates, Places, shared_ranks
from vocabtool.search.hits import Explanation, LegPlace, MatchedWord, WordSummary
from vocabtool.search.query import Query, WeighedWord, term_clauses
from vocabtool.search.store import Store
from vocabtool.system.ranking import Mask, Rows, Scores, mask_of

DEEP: Final = 10_000  # how far down the dense leg's list a document is looked for


def summarise_words(query: Query, store: Store | None = None) -> tuple[WordSummary, ...]:
    """The words of a query; with a ``store`` also their frequencies, idf and weight."""
    words = []
    for each in query.words:
        known, pieces = (each.status.known, each.status.pieces) if each.status else (None, None)
        place = each.word.surface, each.word.start, each.word.end
        words.append(WordSummary(*place, known, each.identifier, each.counts, pieces))
    if store is None:
        return tuple(words)
    counted = _search_clauses(query, store)
    frequency_of = store.keywords.document_frequency
    summaries = []
    for summary, word in zip(words, query.words, strict=True):
        whole, rarest_part = _frequencies(word, store)
        weights = [counted[term].boost for term in word.terms if word.counts and term in counted]
        summaries.append(
            replace(
                summary,
                document_frequency=whole,
                part_frequency=rarest_part,
                idf=idf(store.rows, min(map(frequency_of, word.terms))),
                weight=max(weights, default=0.0),
            )
        )
    return tuple(summaries)


def explain_hits(
    store: Store,
    query: Query,
    vector: Vectors | None,
    allowed: Mask,
    candidates: Candidates,
    places: Places,
    texts: Sequence[str],
) -> list[Explanation]:
    """Why each hit stands where it stands. ``places``: which candidates the hits are."""
    rows = candidates.rows[places]
    near, bm25 = candidates.similarities[places], candidates.bm25[places]
    dense = _leg_places(candidates.dense_ranks()[places], near, ~np.isnan(near))
    keyword = _leg_places(candidates.keyword_ranks()[places], bm25, bm25 > 0)
    alone = _ranks_alone(store, vector, allowed, rows, dense)
    matched = _matched_words(store, query, rows)
    marked_words = []  # what was searched for
    for word in query.words:
        if word.word.phrase is not None:
            marked_words.append(word.word)
        elif word.counts:
            marked_words.append(replace(word.word, words=word.parts))
    marked = [tuple(highlights(text, marked_words, store.cutter)) for text in texts]
    return list(map(Explanation, dense, keyword, matched, alone, marked))


def _search_clauses(query: Query, store: Store) -> Mapping[Term, Clause]:
    """The clauses of the search; those of plain BM25 where keywords were not searched."""
    return query.counted or term_clauses(query.words, store)


def _frequencies(word: WeighedWord, store: Store) -> tuple[int, int | None]:
    """In how many documents a word is, and of a joined word the rarest of its parts.

    Of a run without blanks the rarest of its pairs of characters is told.
    """
    frequency_of = store.keywords.document_frequency
    rarest = min((frequency_of(Term("words", part)) for part in word.parts), default=None)
    if word.word.surfaces or rarest is None:
        return frequency_of(word.word.exact), rarest
    if word.word.humps:
        humps = [Term("words", hump) for hump in word.word.humps]
        return frequency_of(word.word.exact), min(map(frequency_of, humps))
    return rarest, None


def _leg_places(
    ranks: NDArray[np.int64], scores: Scores, is_scored: NDArray[np.bool_]
) -> list[LegPlace]:
    columns = ranks.tolist(), scores.tolist(), is_scored.tolist()
    return [
        LegPlace(rank or None, score if there else None)
        for rank, score, there in zip(*columns, strict=True)
    ]


def _ranks_alone(
    store: Store, vector: Vectors | None, allowed: Mask, rows: Rows, near: list[LegPlace]
) -> list[int | None]:
    """Ranks in the dense leg alone, asked again and deeper where its list was too short."""
    ranks = [place.rank for place in near]
    if vector is None or None not in ranks:
        return ranks
    deep = store.vectors.search(vector, DEEP, allowed)
    found = dict(zip(deep.rows.tolist(), shared_ranks(deep.scores).tolist(), strict=True))
    rows_and_ranks = zip(rows.tolist(), ranks, strict=True)
    return [found.get(row) if rank is None else rank for row, rank in rows_and_ranks]


def _matched_words(store: Store, query: Query, rows: Rows) -> list[tuple[MatchedWord, ...]]:
    """Of each row the words that it holds: each word is asked for by itself, among these rows."""
    matched: dict[int, list[MatchedWord]] = {row: [] for row in rows.tolist()}
    counted, keywords, among = _search_clauses(query, store), store.keywords, mask_of(rows)
    for word in {word.word.surface: word for word in query.words if word.counts}.values():
        clauses = tuple(counted[term] for term in word.terms if term in counted)
        if not clauses or not len(rows):
            continue
        wholes = None  # rows that hold a word of several parts as it is written
        if word.word.surfaces or word.word.words[1:] or word.word.humps:
            whole = KeywordQuery((Clause(word.in_a_row),))
            wholes = set(keywords.search(whole, len(rows), among).rows.tolist())
        found = keywords.search(KeywordQuery(clauses), len(rows), among)
        for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True):
            is_whole = wholes is None or row in wholes
            matched[row].append(MatchedWord(word.word.surface, score, is_whole))
    return [tuple(matched[row]) for row in rows.tolist()]
