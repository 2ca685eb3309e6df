"""Why a search answered as it did: what costs time, and is computed only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.cutting import QueryWord
from vocabtool.keywords.highlights import highlights
from vocabtool.keywords.plain_bm25 import idf
from vocabtool.keywords.queries import Clause, KeywordQuery, Term
from vocabtool.search import weighing
from vocabtool.search.candidates import Candidates, Places, mask_of
from vocabtool.search.corpus import Among, Corpus
from vocabtool.search.fusion import shared_ranks
from vocabtool.search.hits import Asked, AskedWord, Explanation, MatchedWord, Place
from vocabtool.search.query import Query
from vocabtool.search.weighing import WeighedWord
from vocabtool.system.ranked import Ranked, Rows, Scores

DEEP: Final = 10_000  # how far down the dense leg's list a document is looked for


def asked_words(query: Query) -> tuple[AskedWord, ...]:
    """The words of a query, without what the corpus would have to be asked for."""
    return tuple(map(_asked_word, query.words))


def _asked_word(word: WeighedWord) -> AskedWord:
    knowing, written = word.knowing, word.word
    known, pieces = (None, None) if knowing is None else (knowing.known, knowing.pieces)
    place = (written.surface, written.start, written.end)
    return AskedWord(*place, known, word.identifier, word.counts, pieces)


def with_frequencies(asked: Asked, query: Query, corpus: Corpus) -> Asked:
    """The same with frequencies, idf and weight of each word."""
    counted = _counted(query, corpus)
    words = []
    for told, word in zip(asked.words, query.words, strict=True):
        frequency, of_parts = _frequencies(word, corpus)
        clauses = [counted[term] for term in word.searched() if word.counts and term in counted]
        weight = max((clause.boost for clause in clauses), default=0.0)
        rarity = idf(corpus.documents, min(map(corpus.document_frequency, word.searched())))
        words.append(
            told._replace(
                document_frequency=frequency, part_frequency=of_parts, idf=rarity, weight=weight
            )
        )
    return asked._replace(words=tuple(words))


def _frequencies(word: WeighedWord, corpus: Corpus) -> tuple[int, int | None]:
    """In how many documents a word is, and of a joined word the rarest of its parts.

    Of a run without blanks the rarest of its pairs of characters is told.
    """
    parts = [corpus.document_frequency(Term("words", part)) for part in word.parts()]
    rarest = min(parts, default=None)
    whole = word.word.exact()
    if word.word.surfaces or rarest is None:
        return corpus.document_frequency(whole), rarest
    if word.word.humps:
        humps = (Term("words", hump) for hump in word.word.humps)
        return corpus.document_frequency(whole), min(map(corpus.document_frequency, humps))
    return rarest, None


def _counted(query: Query, corpus: Corpus) -> Mapping[Term, Clause]:
    """Of the search; of plain BM25 where keywords were not searched."""
    return query.counted or weighing.counted(query.words, 0, 0, corpus)


def explanations(
    corpus: Corpus,
    query: Query,
    vector: Vectors | None,
    among: Among | None,
    candidates: Candidates,
    places: Places,
    texts: Sequence[str],
) -> list[Explanation]:
    """Why each hit stands where it stands. ``places``: which candidates the hits are."""
    rows = candidates.rows[places]
    dense = _dense_places(candidates, places)
    keyword = _keyword_places(candidates, places)
    alone = _ranks_alone(corpus, vector, among, rows, dense)
    matched = _matched(corpus, query, rows)
    written = [_marked(word) for word in query.words if word.counts or _is_quoted(word)]
    marked = [tuple(highlights(text, written, corpus.cutter)) for text in texts]
    return list(map(Explanation, dense, keyword, matched, alone, marked))


def _marked(word: WeighedWord) -> QueryWord:
    """What is marked of a word: what was searched for."""
    return word.word if _is_quoted(word) else word.word._replace(words=word.parts())


def _is_quoted(word: WeighedWord) -> bool:
    return word.word.phrase is not None


def _dense_places(candidates: Candidates, places: Places) -> list[Place]:
    near = candidates.similarities[places]
    return _told(candidates.dense_ranks()[places].tolist(), near, (~np.isnan(near)).tolist())


def _keyword_places(candidates: Candidates, places: Places) -> list[Place]:
    bm25 = candidates.bm25()[places]
    return _told(candidates.keyword_ranks()[places].tolist(), bm25, (bm25 > 0).tolist())


def _told(ranks: list[int], scores: Scores, is_told: list[bool]) -> list[Place]:
    return [
        Place(rank or None, float(score) if told else None)
        for rank, score, told in zip(ranks, scores, is_told, strict=True)
    ]


def _ranks_alone(
    corpus: Corpus, vector: Vectors | None, among: Among | None, rows: Rows, near: list[Place]
) -> list[int | None]:
    """Ranks in the dense leg alone, asked again and deeper where its list was too short."""
    ranks = [place.rank for place in near]
    if vector is None or None not in ranks:
        return ranks
    deep = corpus.vector_search(vector, DEEP, among)
    found = dict(zip(deep.rows.tolist(), shared_ranks(deep.scores).tolist(), strict=True))
    told = zip(ranks, rows.tolist(), strict=True)
    return [found.get(row) if rank is None else rank for rank, row in told]


def _matched(corpus: Corpus, query: Query, rows: Rows) -> list[tuple[MatchedWord, ...]]:
    """Of each row the words that it holds: each word is asked for by itself, among these rows."""
    matched: dict[int, list[MatchedWord]] = {row: [] for row in rows.tolist()}
    counted = _counted(query, corpus)
    for word in {word.word.surface: word for word in query.words if word.counts}.values():
        found = _holding(corpus, word, counted, rows)
        wholes = _rows_with_whole(corpus, word, rows)
        for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True):
            whole = wholes is None or row in wholes
            matched[row].append(MatchedWord(word.word.surface, score, whole))
    return [tuple(matched[row]) for row in rows.tolist()]


def _rows_with_whole(corpus: Corpus, word: WeighedWord, rows: Rows) -> set[int] | None:
    """Which of the rows hold a word that has parts as it is written; ``None``: it has none."""
    if not (word.word.surfaces or word.word.words[1:] or word.word.humps) or not len(rows):
        return None
    query = KeywordQuery((Clause(weighing.in_a_row(word.word)),))
    return set(corpus.keyword_search(query, len(rows), mask_of(rows)).rows.tolist())


def _holding(
    corpus: Corpus, word: WeighedWord, counted: Mapping[Term, Clause], rows: Rows
) -> Ranked:
    clauses = tuple(counted[term] for term in word.searched() if term in counted)
    if not clauses or not len(rows):
        return Ranked.none()
    return corpus.keyword_search(KeywordQuery(clauses), len(rows), mask_of(rows))
