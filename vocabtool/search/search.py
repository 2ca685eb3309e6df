"""Search: weigh the query, search both legs, fuse the scores, fetch the best documents.

The code of a search uses ``np.count_nonzero`` instead of ``any`` and ``all``, because it is much
faster for short arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import isnan
from string import ascii_lowercase
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import ONE_LEG
from vocabtool.documents.batch import list_names
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.cutter import (
    OPENING,
    QUOTED,
    Clause,
    KeywordQuery,
    Term,
    highlights,
    idf,
    term_score,
)
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import (
    Candidates,
    Fused,
    FusedScores,
    Places,
    best_places,
    fuse,
    open_reranker,
    rerank,
)
from vocabtool.search.hits import (
    DEEP,
    NO_VECTOR,
    ZERO_VECTOR,
    Explanation,
    Hit,
    Hits,
    LegPlace,
    MatchedWord,
    QuerySummary,
    Suggestion,
    WordSummary,
)
from vocabtool.search.query import (
    MAX_WORDS,
    Query,
    WeighedWord,
    is_word,
    parse_query,
    term_clauses,
)
from vocabtool.search.settings import Settings
from vocabtool.search.store import Combination, Demand, Selection, Snapshot, ValueCount
from vocabtool.system.ranking import Rows

MAX_VALUES: Final = 20  # of a field in a facet


def parse_fields(
    settings: Settings, snapshot: Snapshot
) -> tuple[tuple[tuple[str, bool], ...], tuple[str, ...]]:
    """Return the keys of the option ``sort`` of a search, and the fields of its ``facets``.

    A key is (field, whether the order is descending); the most important one comes first.
    Raises ``ValueError`` if an option names a field that the index does not keep.
    """
    sort, facets = settings.sort, settings.facets
    keys = []
    for text in [sort] if isinstance(sort, str) else sort:
        name = text.removesuffix(":desc")
        is_descending = name != text
        keys.append((name if is_descending else text.removesuffix(":asc"), is_descending))
    names = facets.split(",") if isinstance(facets, str) else facets
    counted = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    fields = [("sort", name) for name, _ in keys] + [("facets", name) for name in counted]
    if settings.group_by is not None:
        fields.append(("group_by", settings.group_by))
    for option, name in fields:
        if name not in snapshot.fields:
            kept_fields = list_names([*snapshot.fields])
            raise ValueError(f"{option}: no field {name!r}; the kept fields are {kept_fields}")
    return tuple(keys), counted


def count_facets(
    snapshot: Snapshot, fields: Sequence[str], query: Query, allowed: Selection
) -> tuple[dict[str, tuple[ValueCount, ...]], list[str]]:
    """Count field values in the allowed documents that contain a word of the query.

    Returns the most frequent values of each field, and a note for one with over ``MAX_VALUES``.
    """
    words = [word for word in query.words if word.counts]
    terms = dict.fromkeys(chain.from_iterable(word.terms for word in words))
    spelled = chain.from_iterable(word.word.spellings for word in words)
    terms |= dict.fromkeys(spelling[0] for spelling in spelled if len(spelling) == 1)
    counted = snapshot.count_values(fields, [] if query.required else [*terms], allowed, MAX_VALUES)
    notes = [
        f"{name} has {counts.distinct:,} values; the {MAX_VALUES} most frequent are shown"
        for name, counts in counted.items()
        if counts.distinct > MAX_VALUES
    ]
    return {name: counts.frequent for name, counts in counted.items()}, notes


DEFAULTS: Final = Settings()
MAX_SUGGESTIONS: Final = 8  # words for which similar spellings are searched
MAX_SPELLINGS: Final = 5
MIN_EDITED: Final = 3  # letters of a word for which similar spellings are searched
MAX_EDITED: Final = 40  # letters of a word that are edited; longer ones are cut
DOCUMENTS_READ: Final = 5  # to find the written forms of a stem

NO_DOCUMENTS: Final = "the index has no documents"
NO_WORDS: Final = "the query has no word to search for"
NO_MATCH: Final = "no document satisfies the condition"
NO_PHRASE: Final = "no searchable document contains the quoted phrase"
OPERATORS: Final = "read as operators: {0} (with --literal, all is searched as words)"
NO_FULFILMENT: Final = "no searchable document fulfils all that the query asks for"
LONG: Final = f"only the first {MAX_WORDS:,} words of the query were searched"
BY_CHANCE: Final = (
    "no searchable document contains a word of the query, and the nearest one is no nearer "
    "than chance"
)
NOTHING: Final = "the model knows no word of the query, and no searchable document contains one"
PIECES: Final = "the model splits words into pieces, so it knows nearly all of them: m = 0"
NO_VOCABULARY: Final = (
    "it is unknown which words the model knows: m = 0, and every code counts as unknown"
)


def search(
    snapshot: Snapshot,
    text: str | None,
    vector: Vectors | None,
    *,
    settings: Settings = DEFAULTS,
    without: int | None = None,
    is_own: bool = False,
    encoding: float = 0.0,
) -> Hits:
    """Return the best documents of an index for a query.

    - ``text``: ``None`` to search by vector only.
    - ``vector``: float32, shape (dim,). Without it, or if it is zero, only keywords are searched.
      If there is neither a vector nor a text, all documents that satisfy the condition are listed.
    - ``without``: a row to leave out.
    - ``is_own``: whether the vector does not come from the words of ``text``. Otherwise it is not
      used if the model knows no word of the query.
    - ``encoding``: the seconds that it took to encode the query.

    The order is by tier, score and id, unless ``settings`` change it. Raises ``ValueError`` for
    invalid arguments.
    """
    began = perf_counter()
    query = parse_query(snapshot, text or "", settings)
    has_vector = vector is not None and np.count_nonzero(vector) > 0
    only_operators = bool(query.operators) and not query.for_vector
    is_list = not has_vector if only_operators else text is None and vector is None
    if settings.rerank is not None and (text is None or only_operators):
        raise ValueError("rerank needs the text of the query")
    if not is_list:
        if vector is None and settings.fusion == "dense":
            raise ValueError("fusion='dense' needs the query's vector")
        if vector is not None and vector.ndim != 1:
            raise ValueError(f"vector must have one axis, got shape {vector.shape}")
        if vector is not None and not np.isfinite(vector).all():
            raise ValueError("vector must contain finite numbers, got NaN or infinity")
        if text is None and settings.fusion == "keyword":
            raise ValueError("fusion='keyword' needs a text")
    demands: list[Demand] = [] if settings.where is None else [Where.of(settings.where)]
    demands += [operator.demand for operator in query.operators if operator.demand is not None]
    if query.required:
        demands.append(Combination("all", query.required))
    allowed = snapshot.select(demands, without)
    sort: tuple[tuple[str, bool], ...] = ()
    facets, notes = dict[str, tuple[ValueCount, ...]](), list[str]()
    if settings.sort != () or settings.facets or settings.group_by is not None:
        sort, counted = parse_fields(settings, snapshot)
        if counted:
            facets, notes = count_facets(snapshot, counted, query, allowed)
    retrieval = Retrieval(
        snapshot=snapshot,
        settings=settings,
        query=query,
        text=text,
        vector=vector if has_vector else None,
        vector_note=NO_VECTOR if vector is None else None if has_vector else ZERO_VECTOR,
        allowed=allowed,
        sort=sort,
        facets=facets,
        facet_notes=notes,
        began=began,
        encoding=encoding,
    )
    return retrieval.list_documents() if is_list else retrieval.rank(is_own=is_own)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrieval:
    """A search whose arguments were checked.

    - ``vector``: not zero. ``vector_note``: why there is none.
    - ``sort``: from :func:`parse_fields`.
    - ``began``: the time of ``perf_counter``. ``encoding``: the seconds before it.
    """

    snapshot: Snapshot
    settings: Settings
    query: Query
    text: str | None
    vector: Vectors | None
    vector_note: str | None
    allowed: Selection
    sort: tuple[tuple[str, bool], ...]
    facets: Mapping[str, tuple[ValueCount, ...]]
    facet_notes: Sequence[str]
    began: float
    encoding: float

    def list_documents(self) -> Hits:
        """Return the allowed documents, by default in the order of their ids."""
        snapshot, query, notes = self.snapshot, self.query, self.facet_notes
        rows = snapshot.in_order(self.allowed)
        places, further, total = self._arrange(rows, len(rows))
        hits = [
            Hit(
                id=document.id,
                text=document.text,
                fields=document.fields,
                score=0.0,
                tier=0,
                further=more,
            )
            for document, more in zip(snapshot.fetch_documents(rows[places]), further, strict=True)
        ]
        if query.operators:
            notes = [_operators_note(query), *notes]
        if not len(rows):
            nothing = NO_FULFILMENT if query.operators else NO_MATCH
            notes = [NO_DOCUMENTS if snapshot.is_empty(snapshot.live) else nothing, *notes]
        return self._result(self._summary(), hits, notes, total)

    def _result(
        self, summary: QuerySummary, hits: Sequence[Hit], notes: Sequence[str], total: int
    ) -> Hits:
        return Hits(
            query=summary,
            hits=tuple(hits),
            notes=tuple(notes),
            suggestions=_suggest_spellings(self.snapshot, self.query),
            facets=self.facets,
            total=total,
            seconds={"encode": self.encoding, "search": perf_counter() - self.began},
            kinds=self.snapshot.fields,
        )

    def rank(self, *, is_own: bool) -> Hits:
        """Search both legs and fuse their scores. ``is_own``: see :func:`search`."""
        snapshot, settings, query = self.snapshot, self.settings, self.query
        vector = None if settings.fusion == "keyword" else self.vector
        limit = max(settings.limit(snapshot.rows), settings.k)
        candidates, tiers = snapshot.legs(query.keywords, vector, limit, self.allowed)
        notes = self._notes(candidates, tiers)
        known_words = snapshot.known_words
        subword = known_words is not None and known_words.subword
        # A word that is not in a vocabulary still makes a good vector of its pieces.
        is_usable = is_own or subword or known_words is None or settings.fusion == "dense"
        has_keywords = len(candidates.keyword) > 0
        if query.is_unknown and not is_usable and not has_keywords:
            if not query.operators and NO_MATCH not in notes:
                notes.append(NOTHING)
            summary, hits, total = self._summary(), list[Hit](), 0
        else:
            a = settings.base_weight(subword, snapshot.calibrated)
            fused = fuse(candidates, settings.fusion, a, query.m)
            is_mixed = query.words and settings.fusion not in (*ONE_LEG, "unknown-only")
            if is_mixed and not has_keywords and candidates.dense and self.vector is not None:
                nearest, chance = float(candidates.similarities[0]), snapshot.by_chance(self.vector)
                if chance is not None and nearest <= chance:
                    reached = f"a nonsense query reaches {chance:.3f}"
                    notes.append(f"{BY_CHANCE}: similarity {nearest:.3f}; {reached}")
            hits, total = self._page(candidates, tiers, fused, vector)
            m = query.m if settings.fusion == "coverage" else None
            summary = self._summary(None if fused.weight is None else a, m, fused.weight)
        return self._result(summary, hits, notes, total)

    def _notes(self, candidates: Candidates, tiers: NDArray[np.int8]) -> list[str]:
        snapshot, settings, query = self.snapshot, self.settings, self.query
        notes = [LONG] if query.is_cut else []
        # Without the phrases, the first quotation mark is one that is never closed.
        quote = OPENING.search(QUOTED.sub(lambda phrase: " " * len(phrase[0]), self.text or ""))
        if quote is not None:
            at = quote.start() + 1
            notes.append(f"the quote at character {at} is never closed: it makes no phrase")
        if query.operators:
            notes.append(_operators_note(query))
        is_restricted = settings.where is not None or query.required or query.operators
        if is_restricted and not len(candidates.rows) and snapshot.is_empty(self.allowed):
            nothing = NO_PHRASE if query.required else NO_MATCH
            notes.append(NO_FULFILMENT if query.operators else nothing)
        if not len(candidates.rows) and not snapshot.rows:
            notes.append(NO_DOCUMENTS)
        if self.vector_note is not None and settings.fusion != "keyword":
            notes.append(self.vector_note)
        known_words = snapshot.known_words
        if settings.explain and known_words is None:
            notes.append(NO_VOCABULARY)
        elif settings.explain and known_words and known_words.subword:
            notes.append(PIECES)
        if self.text is not None and not query.words:
            notes.append(NO_WORDS)
        if known_words and known_words.notes and any(word.unknown for word in query.words):
            notes += known_words.notes
        notes += self.facet_notes
        if query.keywords.codes and not np.count_nonzero(tiers):
            words = [word for word in query.words if word.counts]
            codes = [word for word in words if word.identifier] or words
            names = " or ".join(dict.fromkeys(word.word.surface for word in codes))
            which = "searchable document"
            if query.operators:
                which = "document that fulfils the rest of the query"
            elif settings.where is not None:
                which = "document that satisfies the condition"
            notes.append(f"no {which} contains {names}")
        return notes

    def _page(
        self,
        candidates: Candidates,
        tiers: NDArray[np.int8],
        fused: FusedScores,
        vector: Vectors | None,
    ) -> tuple[list[Hit], int]:
        """Return a page of the best candidates, and the number of hits on all pages.

        If only keywords count, a document without a word of the query is no hit.
        """
        snapshot, settings = self.snapshot, self.settings
        rows, scores = candidates.rows, fused.dense + fused.keyword
        # Sorting and grouping need all candidates.
        needs_all = settings.sort or settings.group_by is not None
        count = len(rows) if needs_all else settings.offset + settings.k
        depth = count if settings.rerank is None else max(count, settings.rerank_depth)
        only_keywords = fused.weight == 1
        places, best = best_places(
            rows, scores, tiers, depth, snapshot.ids, keywords_alone=only_keywords
        )
        relevance: list[float | None] = [None] * len(places)
        fused_ranks: list[int | None] = [None] * len(places)
        if settings.rerank is not None:
            reranker, first = open_reranker(settings.rerank), rows[places[: settings.rerank_depth]]
            order, relevance = rerank(
                reranker,
                self.query.for_vector,
                [document.text for document in snapshot.fetch_documents(first)],
                rows[places],
                tiers[places],
                snapshot.ids,
            )
            fused_ranks = (order + 1).tolist()
            places, best = places[order][:count], best[order][:count]
        total = int(np.count_nonzero(scores > 0)) if only_keywords else len(rows)
        shown, further, total = self._arrange(rows[places], total)
        places, best = places[shown], best[shown]  # from here on, one entry for each hit
        relevance = [relevance[index] for index in shown.tolist()]
        fused_ranks = [fused_ranks[index] for index in shown.tolist()]
        columns = (
            snapshot.fetch_documents(rows[places]),
            best.tolist(),
            tiers[places].tolist(),
            candidates.similarities[places].tolist(),
            candidates.bm25[places].tolist(),
            relevance,
            further,
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
                rerank=reranked,
                further=more,
            )
            for document, score, tier, similarity, bm25, reranked, more in zip(
                *columns, strict=True
            )
        ]
        if settings.explain:
            hits = self._explain(hits, candidates, fused, places, fused_ranks, vector)
        return hits, total

    def _arrange(self, rows: Rows, total: int) -> tuple[Places, Sequence[int | None], int]:
        """Sort and group the candidates, and cut a page of at most ``k`` of them or of groups.

        ``rows``: the best of ``total`` candidates, best first. Returns the place of each hit in
        ``rows``; the number of other candidates in its group (``None`` without groups); and the
        number of hits on all pages.
        """
        snapshot, settings = self.snapshot, self.settings
        order = np.arange(len(rows))
        for field, is_descending in reversed(self.sort):
            codes = snapshot.value_ranks(field, rows[order])
            # A missing value, -1, comes last: 1 among codes <= 0, or the greatest unsigned number.
            ranks = -codes if is_descending else codes.view(np.uint64)
            order = order[ranks.argsort(kind="stable")]
        start, end = settings.offset, settings.offset + settings.k
        if settings.group_by is None:
            places = order[start:end]
            return places, [None] * len(places), total
        groups = snapshot.value_ranks(settings.group_by, rows[order])
        alone = np.flatnonzero(groups < 0)  # a document without the field is its own group
        groups[alone] -= alone
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        by_place = first.argsort()
        places = order[first[by_place]][start:end]
        return places, (counts[by_place] - 1)[start:end].tolist(), len(by_place)

    def _explain(
        self,
        hits: Sequence[Hit],
        candidates: Candidates,
        fused: FusedScores,
        places: Places,
        fused_ranks: Sequence[int | None],
        vector: Vectors | None,
    ) -> list[Hit]:
        """Return the hits with explanations. ``places``: theirs among the candidates."""
        snapshot, query = self.snapshot, self.query
        if not query.clauses:  # keywords were not searched: explain with plain BM25
            words = [word for word in query.words if word.counts]
            clauses, _ = term_clauses(words, snapshot, query.frequencies)
            query = replace(query, clauses=clauses)
        rows = candidates.rows[places]
        dense_ranks, keyword_ranks = candidates.ranks()
        bm25 = np.where(candidates.bm25 > 0, candidates.bm25, np.nan)
        dense = _leg_places(places, dense_ranks, candidates.similarities, fused.dense)
        keyword = _leg_places(places, keyword_ranks, bm25, fused.keyword)
        alone = [place.rank for place in dense]
        if vector is not None and None in alone:  # not among the candidates: search deeper
            deep, _ = snapshot.legs(KeywordQuery(()), vector, DEEP, self.allowed)
            ranks = dict(zip(deep.rows.tolist(), deep.ranks()[0].tolist(), strict=True))
            alone = [rank or ranks.get(row) for rank, row in zip(alone, rows.tolist(), strict=True)]
        marked_words = []  # the words that were searched
        for word in query.words:
            if word.word.phrase is not None:
                marked_words.append(word.word)
            elif word.counts:
                marked_words.append(word.word._replace(words=word.parts))
        marked = [tuple(highlights(hit.text, marked_words, snapshot.cutter)) for hit in hits]
        matched = matched_words(snapshot, query, rows)
        whys = map(Explanation, dense, keyword, matched, alone, marked, fused_ranks)
        return [replace(hit, explanation=why) for hit, why in zip(hits, whys, strict=True)]

    def _summary(
        self, a: float | None = None, m: float | None = None, weight: float | None = None
    ) -> QuerySummary:
        """Return a summary of the query, with frequencies and weights of words for ``explain``."""
        snapshot, query, is_explained = self.snapshot, self.query, self.settings.explain
        frequencies = query.frequencies
        if is_explained:
            terms: dict[Term, None] = {}
            for word in query.words:
                humps = (Term("words", hump) for hump in word.word.humps)
                terms |= dict.fromkeys((*word.terms, word.exact, *humps))
            frequencies, _ = snapshot.statistics(terms)
        summaries = []
        for word in query.words:
            summary = WordSummary(
                surface=word.word.surface,
                start=word.word.start,
                end=word.word.end,
                known=word.status.known if word.status else None,
                identifier=word.identifier,
                counts=word.counts,
                pieces=word.status.pieces if word.status else None,
            )
            if is_explained:
                summary = _explain_word(summary, word, snapshot, query, frequencies)
            summaries.append(summary)
        texts: dict[str, list[str]] = {"without": [], "with": [], "one of": []}
        for operator in query.operators:
            texts[operator.kind].append(operator.text)
        return QuerySummary(
            text=query.text,
            words=tuple(summaries),
            fusion=self.settings.fusion,
            a=a,
            m=m,
            weight=weight,
            excluded=tuple(text.removeprefix("-") for text in texts["without"]),
            fields=tuple(texts["with"]),
            alternatives=tuple(texts["one of"]),
        )


def _explain_word(
    summary: WordSummary,
    word: WeighedWord,
    snapshot: Snapshot,
    query: Query,
    frequencies: Mapping[Term, int],
) -> WordSummary:
    of_word = frequencies[word.exact]
    of_part = min((frequencies[Term("words", stem)] for stem in word.parts), default=None)
    if not word.word.surfaces and word.word.humps:
        of_part = min(frequencies[Term("words", hump)] for hump in word.word.humps)
    elif not word.word.surfaces and of_part is not None:
        of_word, of_part = of_part, None  # of a run without spaces: the rarest pair
    # The two terms of a word with accents share its weight; the rarer one has less.
    shares = dict(word.word.shares)
    main = [term for term in word.terms if shares.get(term.text, 1.0) > 1 / 2]
    weights = [
        query.clauses[term].boost / shares.get(term.text, 1.0)
        for term in main
        if word.counts and term in query.clauses
    ]
    return replace(
        summary,
        document_frequency=of_word,
        part_frequency=of_part,
        idf=idf(snapshot.rows, min(frequencies[term] for term in main)),
        weight=max(weights, default=0.0),
    )


def _leg_places(
    places: Places, ranks: Places, scores: NDArray[np.floating], parts: Fused
) -> list[LegPlace]:
    """``places``: indices in the arrays. ``ranks``: 0 for none. ``scores``: NaN for none."""
    columns = [array[places].tolist() for array in (ranks, scores, parts)]
    return [
        LegPlace(rank or None, None if isnan(score) else score, None if isnan(part) else part)
        for rank, score, part in zip(*columns, strict=True)
    ]


def _operators_note(query: Query) -> str:
    return OPERATORS.format(", ".join(operator.text for operator in query.operators))


def matched_words(snapshot: Snapshot, query: Query, rows: Rows) -> list[tuple[MatchedWord, ...]]:
    """Return, for each row, the words of the query that its document contains."""
    of_words: dict[str, KeywordQuery] = {}  # by the word: what finds the word or its parts
    of_wholes: dict[str, KeywordQuery] = {}  # the same for words with parts: what finds the whole
    for word in query.words:
        clauses = tuple(query.clauses[term] for term in word.terms if term in query.clauses)
        if word.counts and clauses:
            of_words[word.word.surface] = KeywordQuery(clauses)
            if word.word.surfaces or word.word.words[1:] or word.word.humps:
                of_wholes[word.word.surface] = KeywordQuery((Clause(word.in_a_row),))
    if not of_words or not len(rows):
        return [() for _ in rows]
    queries = [*of_words.values(), *of_wholes.values()]
    answers = snapshot.search_each(queries, len(rows), snapshot.only(rows))
    holders_of_words, holders_of_wholes = answers[: len(of_words)], answers[len(of_words) :]
    rows_of_wholes = {
        surface: set(holders.rows.tolist())
        for surface, holders in zip(of_wholes, holders_of_wholes, strict=True)
    }
    matched: dict[int, list[MatchedWord]] = {row: [] for row in rows.tolist()}
    for surface, holders in zip(of_words, holders_of_words, strict=True):
        for row, score in zip(holders.rows.tolist(), holders.scores.tolist(), strict=True):
            is_whole = surface not in rows_of_wholes or row in rows_of_wholes[surface]
            matched[row].append(MatchedWord(surface, score, is_whole))
    return [tuple(matched[row]) for row in rows.tolist()]


def _suggest_spellings(snapshot: Snapshot, query: Query) -> tuple[Suggestion, ...]:
    """Return words of the corpus for each word of the query that stands in no document.

    A joined word (``foo_bar``) is compared with joined words. If none is similar, its parts are
    compared with plain words.
    """

    def is_absent(term: Term) -> bool:
        return not query.frequencies.get(term)

    near_terms: dict[str, list[Term]] = {}  # by the word that is absent
    counted = [word for word in query.words if word.counts]
    candidates = [word for word in counted if not query.frequencies.get(word.exact)]
    absent = {word.word.surface: word for word in candidates if _has_no_form(word, is_absent)}
    for surface, word in islice(absent.items(), MAX_SUGGESTIONS):
        if word.word.surfaces:
            near_terms[surface] = snapshot.near_spellings(word.exact, MAX_SPELLINGS)
        if not near_terms.get(surface):
            for stem, place in snapshot.cutter.places(surface):
                run = surface[place.start : place.end]
                if is_word(run) and is_absent(Term("words", stem)) and stem in word.word.words:
                    near_terms[run] = _near_words(snapshot, run, stem)
    if not any(near_terms.values()):
        return ()
    spellings = _spell_terms(snapshot, set(chain.from_iterable(near_terms.values())))
    return tuple(
        Suggestion(surface, tuple(dict.fromkeys(spellings[term] for term in terms)))
        for surface, terms in near_terms.items()
        if terms
    )


def _has_no_form(word: WeighedWord, is_absent: Callable[[Term], bool]) -> bool:
    """Return whether no document has another spelling of a word, nor all parts of it."""
    if not is_word(word.word.surface):
        return False
    others = any(not any(map(is_absent, spelling)) for spelling in word.word.spellings)
    stems = [Term("words", stem) for stem in word.word.words]
    return any(map(is_absent, stems)) and not others


def _spell_terms(snapshot: Snapshot, terms: Collection[Term]) -> dict[Term, str]:
    """Return the spelling of each term that is the most frequent in the best documents with it.

    Only chunks of the texts that contain one of the terms are cut into words: most do not.
    """
    cutter, counts = snapshot.cutter, {term: Counter[str]() for term in terms}
    stems = {term.text for term in terms if term.field == "words"}
    surfaces = {term.text for term in terms if term.field == "surfaces"}
    queries = [KeywordQuery((Clause((term,)),)) for term in terms]
    best = snapshot.search_each(queries, DOCUMENTS_READ, snapshot.live)
    rows = np.unique(np.concatenate([ranked.rows for ranked in best]))
    for start in range(0, len(rows), DOCUMENTS_READ):  # texts may be long
        for document in snapshot.fetch_documents(rows[start : start + DOCUMENTS_READ]):
            chunks = Counter(document.text.split())
            cuts = cutter.terms([*chunks])
            for (chunk, count), cut in zip(chunks.items(), cuts, strict=True):
                if not stems.isdisjoint(cut.words.split()):
                    for stem, place in cutter.places(chunk):
                        if stem in stems:
                            counts[Term("words", stem)][chunk[place.start : place.end]] += count
                if not surfaces.isdisjoint(cut.surfaces.split()):
                    for word in cutter.spans(chunk):
                        folded = word.surface.lower()
                        if folded in surfaces.intersection(word.surfaces):
                            counts[Term("surfaces", folded)][word.surface] += count
    return {
        term: max(spelled, key=lambda spelling: (spelled[spelling], spelling), default=term.text)
        for term, spelled in counts.items()
    }


def _near_words(snapshot: Snapshot, word: str, stem: str) -> list[Term]:
    """Return the stems of words that one edit makes of a word; if none, those near its stem.

    Words are edited before they are stemmed, because the stem of a misspelt word can have many
    more letters: ``migratoin``, but ``migrat``.
    """
    folded = word.lower()[:MAX_EDITED]
    if len(folded) < MIN_EDITED:
        return []
    cuts = [(folded[:at], folded[at:]) for at in range(len(folded) + 1)]
    letters = sorted({*ascii_lowercase, *folded})
    spellings = {head + tail[1:] for head, tail in cuts if tail}
    spellings |= {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if tail[1:]}
    spellings |= {head + letter + tail for head, tail in cuts for letter in letters}
    spellings |= {head + letter + tail[1:] for head, tail in cuts if tail for letter in letters}
    terms = {Term("words", snapshot.cutter.term(spelling)) for spelling in spellings}
    frequencies, _ = snapshot.statistics(terms)
    near = [term for term in terms if frequencies.get(term) and len(term.text) >= MIN_EDITED]
    near.sort(key=lambda term: (-frequencies[term], term.text))
    return near[:MAX_SPELLINGS] or snapshot.near_spellings(Term("words", stem), MAX_SPELLINGS)


MAX_TELLING: Final = 25  # words; the default of Lucene's MoreLikeThis
MAX_CHARACTERS: Final = 100_000  # of a document; the rest is not read


def find_similar(snapshot: Snapshot, row: int, *, k: int, where: str | None, explain: bool) -> Hits:
    """Search by the vector and the words of highest BM25 weight of the document in ``row``."""
    rows = np.array([row])
    text = snapshot.fetch_documents(rows)[0].text[:MAX_CHARACTERS]
    words = telling_words(snapshot, text)
    return search(
        snapshot,
        " ".join(words) or None,
        snapshot.take(rows)[0],
        settings=Settings(k=k, where=where, explain=explain, guarantee=False, literal=True),
        without=row,
        is_own=True,
    )


def telling_words(snapshot: Snapshot, text: str) -> list[str]:
    """Return the words of a text that have the highest BM25 weights, best first, as written."""
    (terms,) = snapshot.cutter.terms([text])
    counts, spellings = Counter(terms.words.split()), dict[Term, str]()
    for word in snapshot.cutter.spans(text):
        if word.surfaces:
            spellings.setdefault(Term("surfaces", word.surfaces[0]), word.surface)
        elif not word.stop:
            for stem, place in snapshot.cutter.places(word.surface):
                if stem in word.words:
                    spelling = word.surface[place.start : place.end]
                    spellings.setdefault(Term("words", stem), spelling)
    frequencies, _ = snapshot.statistics(spellings)
    weights = dict[Term, float]()
    for term, frequency in frequencies.items():
        if frequency > 1:
            weight = idf(snapshot.rows, frequency)
            if term.field == "words":
                weight = term_score(weight, counts[term.text], terms.count, snapshot.mean_length)
            weights[term] = weight
    best = sorted(weights, key=weights.__getitem__, reverse=True)[:MAX_TELLING]
    return [spellings[term] for term in best]
