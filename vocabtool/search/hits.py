"""What a search answers: documents in order, and why. How they are found is in ``search.py``.

Why a search answered as it did: what costs time, and is computed only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf
from vocabtool.keywords.cutter import highlights
from vocabtool.keywords.tokens import Span
from vocabtool.search.fusion import Candidates, Places, shared_ranks
from vocabtool.search.query import Query, WeighedWord, term_clauses
from vocabtool.search.store import Store
from vocabtool.system.ranking import Mask, Rows, Scores, mask_of


@dataclass(frozen=True, slots=True)
class WordSummary:
    """A word of the query.

    ``start``, ``end``: where it stands in the query, in characters.
    ``known``: whether the model of the vectors knows it; ``None`` where nothing tells.
    ``identifier``: a name, or code-like and unknown, so that the guarantee is for it.
    ``counts``: whether it is searched for; stop words are not, unless there is nothing else.
    ``pieces``: into how many a model of pieces cuts it.
    ``document_frequency``, ``part_frequency`` (of a joined word: of its rarest part),
    ``idf`` (of the rarest term that is searched for it), ``weight`` (how often it is counted): only
    when explained.
    """

    surface: str
    start: int
    end: int
    known: bool | None
    identifier: bool
    counts: bool
    pieces: int | None
    document_frequency: int | None = None
    part_frequency: int | None = None
    idf: float | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class QuerySummary:
    """The query as it was understood.

    ``a``: weight of the keyword leg as chosen; ``m``: share of the query's idf mass in words that
    the model does not know and documents hold; ``weight``: what the keyword leg counted in the
    end; ``None`` where the fusion has no such number.
    """

    text: str
    words: tuple[WordSummary, ...]
    fusion: str
    a: float | None
    m: float | None
    weight: float | None


@dataclass(frozen=True, slots=True)
class LegPlace:
    """Where a document stands in one leg.

    ``rank``: from 1, documents of equal score share one; ``None`` past the end of the leg's list.
    ``score``: ``None`` where the leg knows nothing of it.
    """

    rank: int | None
    score: float | None


@dataclass(frozen=True, slots=True)
class MatchedWord:
    """A word of the query that a document holds, and how much of its BM25 score that gives.

    ``whole``: as it is written; of an identifier, or of a run without blanks, it may hold some
    parts only.
    """

    surface: str
    score: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document stands where it stands.

    ``words``: those of the query that it holds. ``rank_without_keywords``: where it would stand by
    its vector alone; ``None``: so far down that nobody looks. ``highlights``: where in its text the
    words stand, from ``start`` to before ``end``, in characters.
    """

    dense: LegPlace
    keyword: LegPlace
    words: tuple[MatchedWord, ...]
    rank_without_keywords: int | None
    highlights: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    ``score``: by the fusion, higher is better; no two fusions have the same scale, and most scale
    it within one answer, whose best may have 1 however bad it is.
    ``tier``: 1 where it holds an identifier of the query whole, or the joined word that is all of
    it: such documents come first. 2 where the query has a name in mixed case whose stem is another,
    and it holds one to the last letter (asked for ``DataFrame``, ``DataFrames`` is 1).
    ``similarity``: how near it is to the query's vector, by the metric of the index (cosine, inner
    product, minus the squared distance); ``None`` where either has no vector.
    ``bm25``: of the query's words as they were weighed; ``None`` where the keyword leg did not find
    it. ``explanation``: only when asked for.
    """

    id: str
    text: str
    fields: Mapping[str, Any]
    score: float
    tier: int
    similarity: float | None = None
    bm25: float | None = None
    explanation: Explanation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        facts: dict[str, Any] = {"id": self.id, "score": self.score, "tier": self.tier}
        facts |= {"similarity": self.similarity, "bm25": self.bm25}
        facts |= {"text": self.text, "fields": _as_json(self.fields)}
        why = self.explanation
        if why is not None:
            facts["explanation"] = {
                "dense": asdict(why.dense),
                "keyword": asdict(why.keyword),
                "words": [asdict(word) for word in why.words],
                "rank_without_keywords": why.rank_without_keywords,
                "highlights": [list(span) for span in why.highlights],
            }
        return facts


class Suggestion(NamedTuple):
    """A word that is nowhere in the corpus, and words of the corpus spelled nearly like it."""

    word: str
    spellings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """Best first. ``notes``: what a person should know of this answer.

    ``guesses``: whether no word of the query is behind it, only vectors of words that the model
    does not know. ``suggestions``: where nothing is found of a query, how else it may be spelled.
    """

    hits: tuple[Hit, ...]
    query: QuerySummary
    notes: tuple[str, ...] = ()
    guesses: bool = False
    suggestions: tuple[Suggestion, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...

    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "query": {**asdict(self.query), "words": [asdict(word) for word in self.query.words]},
            "hits": [hit.to_dict() for hit in self.hits],
            "notes": list(self.notes),
            "guesses": self.guesses,
            "suggestions": [
                {"word": each.word, "spellings": list(each.spellings)} for each in self.suggestions
            ],
        }


def _as_json(value: Any) -> Any:
    """A field's value as JSON has it: dates and the like as texts, NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


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
