"""Search: weigh the query, search both legs, fuse the scores, fetch the best documents.

The code of a search uses ``np.count_nonzero`` instead of ``any`` and ``all``, because it is much
faster for short arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import isnan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.documents.batch import names_of
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf, term_score
from vocabtool.keywords.cutter import OPENING, QUOTED
from vocabtool.search.conditions import Where
from vocabtool.search.fusion import Candidates, Places, fuse
from vocabtool.search.hits import Hit, Hits, Suggestion, explain_hits, summarise
from vocabtool.search.query import MAX_WORDS, Query, parse_query
from vocabtool.search.rerank import BestHits, best_hits
from vocabtool.search.settings import Settings
from vocabtool.search.store import Asked, Combination, Selection, Snapshot, ValueCount
from vocabtool.system.ranking import Rows

MAX_VALUES: Final = 20  # of a field in a facet


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """The options of a search for sorting, facets, pages and groups, parsed.

    ``sort``: the keys, the most important one first: (field, whether its values fall). ``offset``:
    number of hits before the page.
    """

    sort: tuple[tuple[str, bool], ...] = ()
    facets: tuple[str, ...] = ()
    offset: int = 0
    group_by: str | None = None

    @classmethod
    def of(cls, settings: Settings, snapshot: Snapshot) -> Arrangement:
        """Parse the options ``sort`` and ``facets`` of a search.

        Raises ``ValueError`` if an option names a field that the index does not keep.
        """
        sort, facets = settings.sort, settings.facets
        keys = []
        for text in [sort] if isinstance(sort, str) else sort:
            name = text.removesuffix(":desc")
            falling = name != text
            keys.append((name if falling else text.removesuffix(":asc"), falling))
        names = facets.split(",") if isinstance(facets, str) else facets
        counted = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        fields = [("sort", name) for name, _ in keys] + [("facets", name) for name in counted]
        if settings.group_by is not None:
            fields.append(("group_by", settings.group_by))
        for option, name in fields:
            if name not in snapshot.fields:
                kept = f"the kept fields are {names_of([*snapshot.fields])}"
                raise ValueError(f"{option}: no field {name!r}; {kept}")
        return cls(
            sort=tuple(keys),
            facets=counted,
            offset=settings.offset,
            group_by=settings.group_by,
        )

    def page(
        self, snapshot: Snapshot, rows: Rows, k: int, total: int
    ) -> tuple[Places, Sequence[int | None], int]:
        """Return a page of at most ``k`` candidates or groups.

        ``rows``: the best candidates, best first. ``total``: the number of all candidates.

        Returns the place of each hit in ``rows``; for each hit, the number of other candidates in
        its group (``None`` without groups); and the number of hits on all pages.
        """
        order = np.arange(len(rows))
        for field, falling in reversed(self.sort):
            codes = snapshot.value_ranks(field, rows[order])
            ranks = -codes if falling else codes.view(np.uint64)  # -1, a missing value, is last
            order = order[ranks.argsort(kind="stable")]
        end = self.offset + k
        if self.group_by is None:
            places = order[self.offset : end]
            further: Sequence[int | None] = [None] * len(places)
        else:
            groups = snapshot.value_ranks(self.group_by, rows[order])
            alone = np.flatnonzero(groups < 0)  # a document without the field is its own group
            groups[alone] -= alone
            _, first, counts = np.unique(groups, return_index=True, return_counts=True)
            by_place = first.argsort()
            total = len(by_place)
            places = order[first[by_place]][self.offset : end]
            further = (counts[by_place] - 1)[self.offset : end].tolist()
        return places, further, total


def count_facets(
    snapshot: Snapshot, fields: Sequence[str], query: Query, allowed: Selection
) -> tuple[dict[str, tuple[ValueCount, ...]], list[str]]:
    """Count field values in the allowed documents that contain a word of the query.

    Returns the most frequent values of each field, and a note for each field with more values than
    ``MAX_VALUES``.
    """
    if not fields:
        return {}, []
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
DOCUMENTS_READ: Final = 5  # to find the written forms of a stem

MIXED: Final = ("coverage", "convex", "rrf")  # fusions in which both legs always count

NO_DOCUMENTS: Final = "the index has no documents"
NO_WORDS: Final = "the query has no word to search for"
NO_VECTOR: Final = (
    "the query has no vector: only keywords were searched. Pass its vector, or open the index with "
    "the model that made the others"
)
ZERO_VECTOR: Final = "the query's vector is zero: vectors found nothing"
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
    chance: float | None = None,
    without: int | None = None,
    is_own: bool = False,
) -> Hits:
    """Return the best documents of an index for a query.

    - ``text``: ``None`` to search by vector only.
    - ``vector``: float32, shape (dim,). Without it, or if it is zero, only keywords are searched.
      If there is neither a vector nor a text, all documents that satisfy the condition are listed.
    - ``chance``: the similarity that unrelated vectors reach by chance. If even the nearest
      document is no nearer than that, a note says so.
    - ``without``: a row to leave out.
    - ``is_own``: whether the vector does not come from the words of ``text``. Otherwise it is not
      used if the model knows no word of the query.

    The order is by tier, score and id, unless ``settings`` change it. Raises ``ValueError`` for
    invalid arguments.
    """
    k, where, explain = settings.k, settings.where, settings.explain
    query = parse_query(snapshot, text or "", settings)
    has_vector = vector is not None and np.count_nonzero(vector) > 0
    only_operators = bool(query.operators) and not query.searched
    is_list = not has_vector if only_operators else text is None and vector is None
    if settings.rerank is not None and (text is None or only_operators):
        raise ValueError("rerank needs the text of the query")
    if not is_list:
        _check_vector(text, vector, settings)
    demands: list[Asked] = [] if where is None else [Where.of(where)]
    demands += [operator.demand for operator in query.operators if operator.demand is not None]
    if query.required:
        demands.append(Combination("all", query.required))
    allowed = snapshot.select(demands, without)
    limit = max(settings.limit(snapshot.rows), k)
    arrangement = Arrangement.of(settings, snapshot)
    facets, facet_notes = count_facets(snapshot, arrangement.facets, query, allowed)
    if is_list:
        return _list_documents(snapshot, arrangement, query, settings, allowed, facets, facet_notes)
    used = vector if has_vector and settings.fusion != "keyword" else None
    candidates, tiers = snapshot.legs(query, used, limit, allowed)
    is_restricted = where is not None or bool(query.required or query.operators)
    is_empty = is_restricted and not len(candidates.rows) and snapshot.is_empty(allowed)
    notes = _first_notes(snapshot, query, settings, text, vector, is_empty, explain) + facet_notes
    if query.codes and not np.count_nonzero(tiers):
        notes.append(_no_document_contains(query, where))

    known_words = snapshot.known_words
    subword = known_words is not None and known_words.subword
    # A word that is not in a vocabulary still makes a good vector of its pieces.
    is_usable = is_own or subword or known_words is None or settings.fusion == "dense"
    if query.is_unknown and not is_usable and not len(candidates.keyword):
        suggestions = _suggest_spellings(snapshot, query)
        notes += [] if query.operators or NO_MATCH in notes else [NOTHING]
        understood = summarise(query, settings.fusion, snapshot=snapshot if explain else None)
        return Hits(
            (),
            understood,
            tuple(notes),
            suggestions=suggestions,
            facets=facets,
            kinds=snapshot.fields,
        )

    near, by_words, a, weight = fuse(candidates, settings, query.m, subword)
    scores = near + by_words
    is_mixed = query.words and settings.fusion in MIXED
    if chance is not None and is_mixed and not len(candidates.keyword):
        nearest = float(candidates.similarities[0]) if candidates.dense else np.inf
        if nearest <= chance:
            notes.append(
                f"{BY_CHANCE}: similarity {nearest:.3f}; a nonsense query reaches {chance:.3f}"
            )
    best = best_hits(
        snapshot,
        query.searched,
        candidates,
        scores,
        tiers,
        len(scores) if settings.sort or settings.group_by is not None else settings.offset + k,
        settings,
        keywords_alone=weight == 1,
    )
    total = int(np.count_nonzero(scores > 0)) if weight == 1 else len(scores)
    places, further, total = arrangement.page(snapshot, candidates.rows[best.places], k, total)
    best = best.take(places)
    hits = _make_hits(snapshot, candidates, tiers, best, further)
    if explain:
        hits = explain_hits(
            snapshot, query, used, allowed, candidates, (near, by_words), best, hits
        )
    m = query.m if settings.fusion == "coverage" else None
    understood = summarise(query, settings.fusion, a, m, weight, snapshot if explain else None)
    return Hits(hits, understood, tuple(notes), facets=facets, total=total, kinds=snapshot.fields)


def _list_documents(
    snapshot: Snapshot,
    arrangement: Arrangement,
    query: Query,
    settings: Settings,
    allowed: Selection,
    facets: Mapping[str, tuple[ValueCount, ...]],
    notes: Sequence[str],
) -> Hits:
    rows = snapshot.in_order(allowed)
    places, further, total = arrangement.page(snapshot, rows, settings.k, len(rows))
    documents = snapshot.fetch_documents(rows[places])
    hits = tuple(
        Hit(document.id, document.text, document.fields, 0.0, 0, further=more)
        for document, more in zip(documents, further, strict=True)
    )
    if query.operators:
        notes = [_operators_note(query), *notes]
    if not len(rows):
        nothing = NO_FULFILMENT if query.operators else NO_MATCH
        notes = [NO_DOCUMENTS if snapshot.is_empty(snapshot.live) else nothing, *notes]
    understood = summarise(query, settings.fusion)
    return Hits(hits, understood, (*notes,), facets=facets, total=total, kinds=snapshot.fields)


def _operators_note(query: Query) -> str:
    return OPERATORS.format(", ".join(operator.text for operator in query.operators))


def _no_document_contains(query: Query, where: str | None) -> str:
    words = [word for word in query.words if word.counts]
    codes = [word for word in words if word.identifier] or words
    names = dict.fromkeys(word.word.surface for word in codes)
    which = "searchable document" if where is None else "document that satisfies the condition"
    if query.operators:
        which = "document that fulfils the rest of the query"
    return f"no {which} contains {' or '.join(names)}"


def _make_hits(
    snapshot: Snapshot,
    candidates: Candidates,
    tiers: NDArray[np.int8],
    best: BestHits,
    further: Sequence[int | None],
) -> tuple[Hit, ...]:
    places = best.places
    documents = snapshot.fetch_documents(candidates.rows[places])
    similarities, bm25 = candidates.similarities[places], candidates.bm25[places]
    columns = best.scores.tolist(), tiers[places].tolist(), similarities.tolist(), bm25.tolist()
    hits = [
        Hit(
            id=document.id,
            text=document.text,
            fields=document.fields,
            score=score,
            tier=tier,
            similarity=None if isnan(similarity) else similarity,
            bm25=by_words or None,
            rerank=by_model,
            further=more,
        )
        for document, score, tier, similarity, by_words, by_model, more in zip(
            documents, *columns, best.reranked, further, strict=True
        )
    ]
    return tuple(hits)


def _check_vector(text: str | None, vector: Vectors | None, settings: Settings) -> None:
    if vector is None:
        if settings.fusion == "dense":
            raise ValueError("fusion='dense' needs the query's vector")
    elif vector.ndim != 1:
        raise ValueError(f"vector must have one axis, got shape {vector.shape}")
    elif not np.isfinite(vector).all():
        raise ValueError("vector must contain finite numbers, got NaN or infinity")
    if text is None and settings.fusion == "keyword":
        raise ValueError("fusion='keyword' needs a text")


def _first_notes(
    snapshot: Snapshot,
    query: Query,
    settings: Settings,
    text: str | None,
    vector: Vectors | None,
    is_empty: bool,
    explain: bool,
) -> list[str]:
    notes = [LONG] if query.is_cut else []
    # Without the phrases, the first quotation mark is one that is never closed.
    quote = OPENING.search(QUOTED.sub(lambda phrase: " " * len(phrase[0]), text or ""))
    if quote is not None:
        at = quote.start() + 1
        notes.append(f"the quote at character {at} is never closed: it makes no phrase")
    if query.operators:
        notes.append(_operators_note(query))
    if is_empty and query.operators:
        notes.append(NO_FULFILMENT)
    elif is_empty:
        notes.append(NO_PHRASE if query.required else NO_MATCH)
    if not snapshot.rows:
        notes.append(NO_DOCUMENTS)
    if settings.fusion != "keyword" and (vector is None or not np.count_nonzero(vector)):
        notes.append(NO_VECTOR if vector is None else ZERO_VECTOR)
    known_words = snapshot.known_words
    if explain and known_words is None:
        notes.append(NO_VOCABULARY)
    elif explain and known_words and known_words.subword:
        notes.append(PIECES)
    if text is not None and not query.words:
        notes.append(NO_WORDS)
    if known_words is not None and known_words.notes and any(word.unknown for word in query.words):
        notes += known_words.notes
    return notes


def _suggest_spellings(snapshot: Snapshot, query: Query) -> tuple[Suggestion, ...]:
    stems = dict[str, Term]()
    for word in query.words:
        if word.counts and len(word.word.words) == 1:  # no suggestions for compounds
            stems.setdefault(word.word.surface, Term("words", word.word.words[0]))
    near_of = {
        surface: snapshot.near_spellings(term.text, MAX_SPELLINGS)
        for surface, term in islice(stems.items(), MAX_SUGGESTIONS)
        if not query.frequencies.get(term)
    }
    ways: dict[str, Counter[str]] = {
        near: Counter() for near in chain.from_iterable(near_of.values())
    }
    queries = [KeywordQuery((Clause((Term("words", near),)),)) for near in ways]
    best = snapshot.search_each(queries, DOCUMENTS_READ, snapshot.live)
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(hits.rows for hits in best)]))
    for at in range(0, len(rows), DOCUMENTS_READ):  # texts may be long
        for document in snapshot.fetch_documents(rows[at : at + DOCUMENTS_READ]):
            for stem, place in snapshot.cutter.places(document.text):
                if stem in ways:
                    ways[stem][document.text[place.start : place.end].lower()] += 1
    written = {
        near: max(((n, way) for way, n in of.items()), default=(0, near))[1]
        for near, of in ways.items()
    }
    return tuple(
        Suggestion(surface, (*dict.fromkeys(map(written.__getitem__, nears)),))
        for surface, nears in near_of.items()
        if nears
    )


MAX_TELLING: Final = 25  # words; the default of Lucene's MoreLikeThis
MAX_CHARACTERS: Final = 100_000  # of a document; the rest is not read


def find_similar(
    snapshot: Snapshot,
    row: int,
    mean_length: float,
    *,
    k: int,
    a: float | None,
    where: str | None,
    explain: bool,
) -> Hits:
    """Search by the vector of the document in ``row``, and by its words of highest BM25 weight.

    ``mean_length``: mean number of terms per document. ``a``: weight of keyword search, or ``None``
    for its default.
    """
    rows = np.array([row])
    text = snapshot.fetch_documents(rows)[0].text[:MAX_CHARACTERS]
    words = telling_words(snapshot, text, mean_length)
    return search(
        snapshot,
        " ".join(words) or None,
        snapshot.take(rows)[0],
        settings=Settings(k=k, a=a, where=where, explain=explain, guarantee=False, literal=True),
        without=row,
        is_own=True,
    )


def telling_words(snapshot: Snapshot, text: str, mean_length: float) -> list[str]:
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
    frequencies = snapshot.document_frequencies(spellings)
    weights = dict[Term, float]()
    for term, frequency in frequencies.items():
        if frequency > 1:
            weight = idf(snapshot.rows, frequency)
            if term.field == "words":
                weight = term_score(weight, counts[term.text], terms.count, mean_length)
            weights[term] = weight
    best = sorted(weights, key=weights.__getitem__, reverse=True)[:MAX_TELLING]
    return [spellings[term] for term in best]
