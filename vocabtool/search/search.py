"""Search: a query weighed, both legs asked, their scores fused, the best documents fetched.

The words are in ``query.py``, the formulas in ``fusion.py``, what only an explanation needs in
``hits.py``.

Here and in what is called, ``np.count_nonzero`` stands for ``any`` and ``all``: of short arrays it
takes a fraction of their time, together 2 % of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isnan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term
from vocabtool.keywords.spellings import as_written
from vocabtool.search.fusion import (
    Candidates,
    Fused,
    best_places,
    convex_combination,
    coverage_weight,
    reciprocal_ranks,
)
from vocabtool.search.hits import (
    Explanation,
    Hit,
    Hits,
    QuerySummary,
    Suggestion,
    explain_hits,
    summarise_words,
)
from vocabtool.search.query import MAX_WORDS, Query, parse_query, unknown_share
from vocabtool.search.settings import Settings
from vocabtool.search.store import Store
from vocabtool.system.ranking import Mask, Near, RankedRows, Rows, are_among, mask_of

DEFAULTS: Final = Settings()
MAX_SUGGESTIONS: Final = 8  # words that other spellings are looked for
MAX_SPELLINGS: Final = 5
DOCUMENTS_READ: Final = 5  # for how they write a word

MIXED: Final = ("coverage", "convex", "rrf")  # fusions in which both legs always count

NO_DOCUMENTS: Final = "there are no documents to be found"
NO_WORDS: Final = "the query has no word to search for"
NO_VECTOR: Final = "the query has no vector: only keywords are searched"
ZERO_VECTOR: Final = "the query's vector is zero: by vectors nothing is found"
NO_MATCH: Final = "no document fulfils the condition"
NO_PHRASE: Final = "no document that may be found holds what is quoted"
LONG: Final = f"only the first {MAX_WORDS:,} words of the query are searched"
BY_CHANCE: Final = (
    "no document that may be found holds a word of the query, and the nearest is no nearer to it "
    "than by chance"
)
NOTHING: Final = "the model knows no word of the query, and no document that may be found holds one"
GUESSES: Final = f"{NOTHING}: these are guesses, the documents nearest to the query's vector"
PIECES: Final = "the model cuts words into pieces and so knows nearly all of them: m = 0"
NO_VOCABULARY: Final = (
    "nothing tells which words the model knows: m = 0, every code counts as unknown"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One search. ``vector``: ``None`` where only keywords are asked; ``limit``: of each leg."""

    store: Store
    query: Query
    vector: Vectors | None
    k: int
    limit: int
    settings: Settings
    allowed: Mask
    explain: bool


@dataclass(frozen=True, slots=True)
class KeywordLeg:
    """``found``: by BM25, then what only an identifier found; the first ``listed`` have a rank.

    ``holders``: documents that hold an identifier, perhaps not all: at most ``limit``.
    """

    found: RankedRows
    listed: int
    holders: RankedRows
    limit: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of both legs, and how they are ranked.

    ``m``, ``weight`` of the keyword leg: ``None`` where the fusion has none.
    """

    candidates: Candidates
    tiers: NDArray[np.int8]
    scores: Fused
    m: float | None = None
    weight: float | None = None


def search(
    store: Store,
    text: str | None,
    vector: Vectors | None,
    *,
    k: int = 10,
    settings: Settings = DEFAULTS,
    where: str | None = None,
    explain: bool = False,
    chance: float | None = None,
) -> Hits:
    """The best ``k`` documents of an index for a query.

    ``text``: ``None`` where only the vector is searched. ``vector``: float32, shape (dim,), the
    query's; without, or where it is zero, only keywords are searched. ``where``: a condition on
    fields; no other document is found. ``chance``: a similarity which vectors reach by chance.
    The order is by tier, score and id. It does not depend on the order in which documents came
    into the index, unless scores tie where a leg's list ends.
    Raises ``ValueError`` for ``k`` < 1, for a vector that is no such row of numbers, for a
    condition that is no text, and for the fusion ``dense`` without a vector or ``keyword`` without
    a text.
    """
    _check_arguments(text, vector, k, where, settings)
    query = parse_query(store, text or "", settings)
    allowed = store.live if where is None else store.where(where)
    if query.required:
        allowed = mask_of(store.keywords.matching_rows(query.required, allowed))
    by_vector = settings.fusion != "keyword" and vector is not None and np.count_nonzero(vector)
    request = Request(
        store=store,
        query=query,
        vector=vector if by_vector else None,
        k=k,
        limit=max(settings.limit(store.rows), k),
        settings=settings,
        allowed=allowed,
        explain=explain,
    )
    notes = _first_notes(request, text, vector, is_filtered=where is not None)
    leg = ask_keywords(store, query, request.limit, allowed)
    if query.codes and not len(leg.holders.rows):
        notes.append(_codes_missing(query))
    if settings.fusion == "dense" or not query.is_unknown or len(leg.found.rows):
        ranking = _rank(request, leg)
        if chance is not None and query.words and settings.fusion in MIXED:
            candidates = ranking.candidates
            nearest = float(candidates.similarities[0]) if candidates.dense else np.inf
            if not len(candidates.keyword) and nearest <= chance:  # as near as nonsense is
                reached = f"similarity {nearest:.3f}; a nonsense query reaches {chance:.3f}"
                notes.append(f"{BY_CHANCE}: {reached}")
        return _answer(request, ranking, notes)
    # No word of the query is known to the model, and none is in a document.
    suggestions = _suggest_spellings(store, query)
    if settings.empty == "nearest" and request.vector is not None:
        guesses = _answer(request, _rank(request, leg), [*notes, GUESSES])
        return replace(guesses, guesses=True, suggestions=suggestions)
    if settings.empty == "spelling" and suggestions:
        respelled = _respell(query, suggestions)
        once = replace(settings, empty="nothing")
        hits = search(store, respelled, None, k=k, settings=once, where=where, explain=explain)
        note = f"no document holds a word of the query: searched for {respelled!r} instead"
        return replace(hits, notes=(note, *hits.notes), suggestions=suggestions)
    notes += [] if NO_MATCH in notes else [NOTHING]
    return Hits((), _summarise(request, None), tuple(notes), suggestions=suggestions)


def _check_arguments(
    text: str | None, vector: Vectors | None, k: int, where: str | None, settings: Settings
) -> None:
    if k < 1:
        raise ValueError(f"k: wanted 1 or more, got {k}")
    if where is not None and not isinstance(where, str):
        wanted = "where: wanted a condition as one text, as \"year >= 2020 and lang = 'en'\""
        raise ValueError(f"{wanted}, got {where!r}")
    if vector is None:
        if settings.fusion == "dense":
            raise ValueError("fusion='dense': wanted the query's vector, got none")
    elif vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(f"vector: wanted a row of finite numbers, got shape {vector.shape}")
    if text is None and settings.fusion == "keyword":
        raise ValueError("fusion='keyword': wanted a text, got none")


def _first_notes(
    request: Request, text: str | None, vector: Vectors | None, *, is_filtered: bool
) -> list[str]:
    """What a person should know of the answer before there is one."""
    query, store = request.query, request.store
    notes = [LONG] if query.is_cut else []
    if (is_filtered or query.required) and not request.allowed.any():
        notes.append(NO_PHRASE if query.required else NO_MATCH)
    if not store.rows:
        notes.append(NO_DOCUMENTS)
    if request.vector is None and request.settings.fusion != "keyword":
        notes.append(NO_VECTOR if vector is None else ZERO_VECTOR)
    if request.explain and store.known_words is None:
        notes.append(NO_VOCABULARY)
    elif request.explain and is_subword(store):
        notes.append(PIECES)
    if text is not None and not query.words:
        notes.append(NO_WORDS)
    return notes


def _codes_missing(query: Query) -> str:
    """Note that no document holds the codes of the query."""
    counting = [word for word in query.words if word.counts]
    named = [word for word in counting if word.identifier] or counting
    codes = dict.fromkeys(word.word.surface for word in named)
    return f"no document that may be found holds {' or '.join(codes)}"


def ask_keywords(store: Store, query: Query, limit: int, allowed: Mask) -> KeywordLeg:
    """The best by BM25, and every document that holds an identifier, but no more than ``limit``.

    The identifiers are looked up by themselves, so that no list of better ones can miss them.
    """
    if not query.should:
        return KeywordLeg(RankedRows.none(), 0, RankedRows.none(), 1)
    if len(query.codes) == 1:
        leg = _ask_for_one_code(store, query, limit, allowed)
        if leg is not None:
            return leg
    keywords = store.keywords
    everything = KeywordQuery(query.should)
    found = keywords.search(everything, limit, allowed)
    listed = len(found.rows)
    if not query.codes:
        return KeywordLeg(found, listed, RankedRows.none(), limit)
    holders = keywords.search(KeywordQuery(query.codes), limit, allowed)
    missed = holders.rows[~are_among(holders.rows, found.rows)]
    if len(missed):
        more = keywords.search(everything, len(missed), mask_of(missed))
        rows = np.concatenate((found.rows, more.rows))
        found = RankedRows(rows, np.concatenate((found.scores, more.scores)))
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
        found = RankedRows.of(rows, scores, limit + len(holders.rows))
    past = limit + np.flatnonzero(are_among(found.rows[limit:], holders.rows))
    kept = np.concatenate((np.arange(min(limit, len(found.rows))), past))
    listed = min(limit, len(found.rows))
    return KeywordLeg(RankedRows(found.rows[kept], found.scores[kept]), listed, holders, limit)


def find_nearest(
    store: Store, vector: Vectors | None, rows: Rows, limit: int, allowed: Mask
) -> Near:
    """The nearest documents, and how near the keyword leg's ``rows`` are; none without a vector."""
    if vector is None:
        return Near(RankedRows.none(), np.full(len(rows), np.nan, np.float32))
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


def _rank(request: Request, leg: KeywordLeg) -> Ranking:
    """The candidates of both legs with their scores by the fusion."""
    store, query, settings = request.store, request.query, request.settings
    near = find_nearest(store, request.vector, leg.found.rows, request.limit, request.allowed)
    candidates = Candidates.union(near, leg.found, leg.listed)
    tiers = find_tiers(store, query, leg, candidates)
    match settings.fusion:
        case "dense":
            return Ranking(candidates, tiers, candidates.similarities.astype(np.float64))
        case "keyword":
            return Ranking(candidates, tiers, candidates.bm25.astype(np.float64))
        case "rrf":
            ranks = candidates.dense_ranks(), candidates.keyword_ranks()
            return Ranking(candidates, tiers, reciprocal_ranks(*ranks, settings.k_rrf))
    m, weight = None, settings.weight(is_subword(store))
    if settings.fusion == "coverage":
        m = unknown_share(query.words, store)
        weight = coverage_weight(weight, m)
    weight = weight_of_found(candidates, weight)
    scores = convex_combination(candidates.similarities, candidates.bm25, weight)
    return Ranking(candidates, tiers, scores, m, weight)


def weight_of_found(candidates: Candidates, weight: float) -> float:
    """The weight of the keyword leg; a leg that gave nothing leaves it to the other."""
    if not candidates.dense:
        return 1.0
    return weight if len(candidates.keyword) else 0.0


def is_subword(store: Store) -> bool:
    """Whether the model of an index is known to be one of pieces of words."""
    return store.known_words is not None and store.known_words.subword


def _summarise(request: Request, ranking: Ranking | None) -> QuerySummary:
    settings, a, m, weight = request.settings, None, None, None
    if ranking is not None:
        m, weight = ranking.m, ranking.weight
    if weight is not None:
        a = settings.weight(is_subword(request.store))
    words = summarise_words(request.query, request.store if request.explain and ranking else None)
    return QuerySummary(request.query.text, words, settings.fusion, a, m, weight)


def _answer(request: Request, ranking: Ranking, notes: list[str]) -> Hits:
    """The best documents fetched, and explained where that is wanted."""
    store, candidates = request.store, ranking.candidates
    places, scores = best_places(
        candidates.rows,
        ranking.scores,
        ranking.tiers,
        request.k,
        store.documents.ids,
        keywords_alone=ranking.weight == 1,
    )
    stored = store.documents.fetch_documents(candidates.rows[places])
    explanations: Sequence[Explanation | None] = [None] * len(stored)
    if request.explain:
        texts = [document.text for document in stored]
        explanations = explain_hits(
            store, request.query, request.vector, request.allowed, candidates, places, texts
        )
    columns = (
        scores.tolist(),
        ranking.tiers[places].tolist(),
        candidates.similarities[places].tolist(),
        candidates.bm25[places].tolist(),
    )
    hits = [
        Hit(
            id=document.id,
            text=document.text,
            fields=document.fields,
            score=score,
            tier=tier,
            similarity=None if isnan(similarity) else similarity,
            bm25=bm25 or None,
            explanation=explanation,
        )
        for document, score, tier, similarity, bm25, explanation in zip(
            stored, *columns, explanations, strict=True
        )
    ]
    return Hits(tuple(hits), _summarise(request, ranking), tuple(notes))


def _suggest_spellings(store: Store, query: Query) -> tuple[Suggestion, ...]:
    """Near spellings of the words that the corpus does not hold, as its documents write them."""
    keywords, stems = store.keywords, dict[str, str]()
    for word in query.words:
        if word.counts and len(word.word.words) == 1:  # a compound is not spelled out of words
            stems.setdefault(word.word.surface, word.word.words[0])
    suggestions = []
    for surface, stem in islice(stems.items(), MAX_SUGGESTIONS):
        if keywords.document_frequency(Term("words", stem)):
            continue
        spellings = dict.fromkeys(
            _as_documents_write(store, near)
            for near in keywords.near_spellings(stem, MAX_SPELLINGS)
        )
        if spellings:
            suggestions.append(Suggestion(surface, tuple(spellings)))
    return tuple(suggestions)


def _as_documents_write(store: Store, stem: str) -> str:
    """Stems are what is indexed, not what people read."""
    query = KeywordQuery((Clause((Term("words", stem),)),))
    rows = store.keywords.search(query, DOCUMENTS_READ, store.live).rows
    texts = [document.text for document in store.documents.fetch_documents(rows)]
    return as_written(stem, texts, store.cutter) or stem


def _respell(query: Query, suggestions: tuple[Suggestion, ...]) -> str:
    """The query with the best spelling of each word."""
    best = {each.word: each.spellings[0] for each in suggestions}
    parts, end = [], 0
    for word in (word.word for word in query.words if word.word.surface in best):
        parts += [query.text[end : word.start], best[word.surface]]
        end = word.end
    return "".join([*parts, query.text[end:]])
