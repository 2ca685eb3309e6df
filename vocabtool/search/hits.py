"""Results of a search: documents in order, with explanations on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import pyarrow as pa

from vocabtool.choices import Fusion
from vocabtool.documents.batch import Kind
from vocabtool.encoders.encoder import Vectors
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, idf
from vocabtool.keywords.cutter import highlights, text_in_utf8
from vocabtool.keywords.tokens import Span
from vocabtool.search.fusion import Candidates, Fused, shared_ranks
from vocabtool.search.query import Query, term_clauses
from vocabtool.search.store import Selection, Snapshot, ValueCount
from vocabtool.system.own_files import to_json
from vocabtool.system.ranking import Rows
from vocabtool.system.results import TableResult

if TYPE_CHECKING:
    from vocabtool.search.rerank import BestHits

# The types of Arrow: of fields, and of the columns of Hits.to_arrow.
TYPES: Final[dict[Kind, pa.DataType]] = {
    **{"null": pa.string(), "integer": pa.int64(), "number": pa.float64()},
    **{"boolean": pa.bool_(), "string": pa.string()},
}
PLACE: Final = pa.struct({"rank": pa.int64(), "score": pa.float64(), "part": pa.float64()})
WORD: Final = pa.struct({"surface": pa.string(), "score": pa.float64(), "whole": pa.bool_()})
EXPLANATION: Final = pa.struct(
    {
        "dense": PLACE,
        "keyword": PLACE,
        "words": pa.list_(WORD),
        "rank_without_keywords": pa.int64(),
        "highlights": pa.list_(pa.struct({"start": pa.int64(), "end": pa.int64()})),
        "fused_rank": pa.int64(),
    }
)
COLUMNS: Final = {
    "id": pa.string(),
    "score": pa.float64(),
    "tier": pa.int64(),
    "similarity": pa.float64(),
    "bm25": pa.float64(),
    "text": pa.string(),
}
IF_KNOWN: Final = {"rerank": pa.float64(), "further": pa.int64(), "explanation": EXPLANATION}


@dataclass(frozen=True, slots=True)
class WordSummary:
    """A word of the query.

    - ``surface``: the word as written.
    - ``start``, ``end``: the place of the word in the query, in characters.
    - ``known``: whether the model knows the word; ``None`` without a vocabulary.
    - ``identifier``: whether the word is a name, such as ``foo_bar``, or a code that the model does
      not know, such as ``SKU-48``.
    - ``counts``: whether the word is searched. Stop words are searched only if the query has no
      other word.
    - ``pieces``: number of subword pieces.

    These are ``None`` without ``explain``:

    - ``document_frequency``: number of documents that contain the word.
    - ``part_frequency``: for a word of several parts, the document frequency of the rarest part.
    - ``idf``: the idf of the word's rarest term.
    - ``weight``: the factor by which the score of the word is multiplied.
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

    - ``a``: the weight of keyword search in the settings, or its default.
    - ``m``: the share of the query's idf that comes from words that are in the corpus, but unknown
      to the model.
    - ``weight``: the final weight of keyword search; the fusion ``coverage`` computes it from ``a``
      and ``m``.
    - ``excluded``: excluded words, phrases and fields, as written.
    - ``fields``: fields with a required value, as written.
    - ``alternatives``: parts joined by ``OR``, as written.

    ``a``, ``m`` and ``weight`` are ``None`` if the fusion does not use them.
    """

    text: str
    words: tuple[WordSummary, ...]
    fusion: str
    a: float | None
    m: float | None
    weight: float | None
    excluded: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LegPlace:
    """The rank of a document in vector search or in keyword search.

    - ``rank``: from 1; equal scores share a rank. ``None`` if the document is not among the
      candidates of this search.
    - ``score``: the score in this search, or ``None``. A document without a rank may have a score.
    - ``part``: the number that this search adds to the score of the hit.
    """

    rank: int | None
    score: float | None
    part: float | None = None


@dataclass(frozen=True, slots=True)
class MatchedWord:
    """A word of the query that a document contains.

    ``score``: the part of the document's BM25 score that comes from the word. ``whole``: whether
    the document contains the whole word (``foo_bar``), not only parts of it (``foo``).
    """

    surface: str
    score: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document has its rank.

    - ``dense``, ``keyword``: the rank in vector search and in keyword search.
    - ``words``: the words of the query that the document contains.
    - ``rank_without_keywords``: the rank by the vector alone; ``None`` if it exceeds 10,000.
    - ``highlights``: where the text contains words of the query: spans with a start and an
      exclusive end, in characters. In a text of more than 4,096 characters, those in the parts with
      the most words of the query.
    - ``fused_rank``: the rank before ``rerank`` changed the order; ``None`` if it was not used.
    """

    dense: LegPlace
    keyword: LegPlace
    words: tuple[MatchedWord, ...]
    rank_without_keywords: int | None
    highlights: tuple[Span, ...]
    fused_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    - ``score``: score of the fusion, higher is better. Most fusions scale the scores within one
      result, so the best hit may have the score 1 even if it is a poor match.
    - ``tier``: 1 if the document contains a whole identifier of the query (``foo_bar``), otherwise
      0. Hits in higher tiers come first. A query of only one joined word (``input/output``) counts
      as an identifier. If the query has a name in mixed case that stemming changes
      (``DataFrame``), the tier is 2 if the document contains this name in this spelling, or another
      identifier of the query.
    - ``similarity``: similarity to the query's vector in the metric of the index (cosine, inner
      product, negative squared distance); ``None`` without a vector.
    - ``bm25``: weighted BM25 score; ``None`` if keyword search did not find the document.
    - ``explanation``: ``None`` without ``explain``.
    - ``rerank``: score by ``rerank``, higher is better; ``None`` if ``rerank`` did not score the
      document.
    - ``further``: with ``group_by``, the number of other candidates in the group of this hit;
      otherwise ``None``.
    """

    id: str
    text: str
    fields: Mapping[str, Any]
    score: float
    tier: int
    similarity: float | None = None
    bm25: float | None = None
    explanation: Explanation | None = None
    rerank: float | None = None
    further: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        names = ["id", "score", "tier", "similarity", "bm25", "text", "fields"]
        shown = ("rerank", "explanation", "further")
        names += [each for each in shown if getattr(self, each) is not None]
        return {name: to_json(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A word that is not in the corpus, and words of the corpus with similar spellings."""

    word: str
    spellings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hits(TableResult, Sequence[Hit]):
    """The result of a search.

    - ``hits``: the documents found, best first.
    - ``notes``: notes for the user.
    - ``suggestions``: words with similar spellings, if no document contains a word of the query.
    - ``facets``: for each field named in the argument ``facets``, the most frequent values.
    - ``total``: the number of hits on all pages: of all candidates or groups, or of all documents
      that a query without text and vector lists.
    - ``seconds``: ``encode`` is the time to encode all queries of the call, ``search`` is the time
      to search for this query.
    - ``kinds``: the type of each field of the index.
    """

    hits: tuple[Hit, ...]
    query: QuerySummary
    notes: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    facets: Mapping[str, tuple[ValueCount, ...]] = field(default_factory=dict)
    total: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    kinds: Mapping[str, Kind] = field(default_factory=dict, compare=False)

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

    def __repr__(self) -> str:
        return f"<Hits: {len(self):,} for {self.query.text!r}>"

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with one row for each hit.

        The columns are ``id`` and ``text`` (string), ``score``, ``similarity`` and ``bm25``
        (float64), ``tier`` (int64), and all fields of the index by name: strings, int64, float64 or
        booleans. A field with the name of another column gets the name ``fields.NAME``. The
        columns ``rerank``, ``further`` and ``explanation`` (a struct) exist only if at least one
        hit has a value for them. Invalid UTF-8 in a field becomes U+FFFD.
        """
        columns = {
            name: _column([getattr(hit, name) for hit in self.hits], type_)
            for name, type_ in COLUMNS.items()
        }
        for name, kind in self.kinds.items():
            own = name
            while own in columns or own in IF_KNOWN:
                own = f"fields.{own}"
            columns[own] = _column([hit.fields.get(name) for hit in self.hits], TYPES[kind])
        for name, type_ in IF_KNOWN.items():
            values = [getattr(hit, name) for hit in self.hits]
            if any(value is not None for value in values):
                columns[name] = _column(values, type_)
        return pa.table(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "query": to_json(self.query),
            "hits": [hit.to_dict() for hit in self.hits],
            "notes": list(self.notes),
            "suggestions": to_json(self.suggestions),
            "facets": to_json(self.facets),
            "total": self.total,
        }


def _column(values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    cells: list[object] = []
    for value in values:
        if isinstance(value, Explanation):
            marked = [span._asdict() for span in value.highlights]
            cells.append(asdict(value) | {"highlights": marked})
        elif isinstance(value, str) and not value.isascii():
            cells.append(text_in_utf8(value))
        else:  # Arrow refuses integers that are not exactly a float
            cells.append(float(value) if type_ == pa.float64() and value is not None else value)
    return pa.array(cells, type_)


DEEP: Final = 10_000  # ranks of the dense leg among which a document is searched


def summarise(
    query: Query,
    fusion: Fusion,
    a: float | None = None,
    m: float | None = None,
    weight: float | None = None,
    snapshot: Snapshot | None = None,
) -> QuerySummary:
    """Return a summary of a query, with frequencies and weights of its words in ``snapshot``."""
    frequencies = query.frequencies
    if snapshot is not None:
        asked: dict[Term, None] = {}
        for each in query.words:
            humps = (Term("words", hump) for hump in each.word.humps)
            asked |= dict.fromkeys((*each.terms, each.exact, *humps))
        frequencies = snapshot.document_frequencies(asked)
    words = []
    for each in query.words:
        word, status = each.word, each.status
        summary = WordSummary(
            surface=word.surface,
            start=word.start,
            end=word.end,
            known=status.known if status else None,
            identifier=each.identifier,
            counts=each.counts,
            pieces=status.pieces if status else None,
        )
        if snapshot is not None:
            whole = frequencies[each.exact]
            of_parts = [frequencies[Term("words", part)] for part in each.parts]
            rarest = min(of_parts, default=None)
            if not word.surfaces and word.humps:
                rarest = min(frequencies[Term("words", hump)] for hump in word.humps)
            elif not word.surfaces and rarest is not None:
                whole, rarest = rarest, None  # of a run without spaces: the rarest pair
            # The two terms of a word with accents share its weight; the rarer one has less.
            shares = dict(word.shares)
            main = [term for term in each.terms if shares.get(term.text, 1.0) > 1 / 2]
            weights = [
                query.counted[term].boost / shares.get(term.text, 1.0)
                for term in main
                if each.counts and term in query.counted
            ]
            summary = replace(
                summary,
                document_frequency=whole,
                part_frequency=rarest,
                idf=idf(snapshot.rows, min(frequencies[term] for term in main)),
                weight=max(weights, default=0.0),
            )
        words.append(summary)
    restrictions = [
        tuple(each.text for each in query.operators if each.kind == kind)
        for kind in ("without", "with", "one of")
    ]
    restrictions[0] = tuple(text.removeprefix("-") for text in restrictions[0])
    return QuerySummary(query.text, tuple(words), fusion, a, m, weight, *restrictions)


def explain_hits(
    snapshot: Snapshot,
    query: Query,
    vector: Vectors | None,
    allowed: Selection,
    candidates: Candidates,
    parts: tuple[Fused, Fused],
    best: BestHits,
    hits: Sequence[Hit],
) -> tuple[Hit, ...]:
    """Return the hits with explanations.

    ``parts``: what each leg adds to the scores. ``best``: the places of ``hits`` among the
    candidates.
    """
    if not query.counted:  # keywords were not searched: explain with plain BM25
        words = [word for word in query.words if word.counts]
        counted, _ = term_clauses(words, snapshot, query.frequencies)
        query = replace(query, counted=counted)
    places = best.places
    rows = candidates.rows[places].tolist()
    legs = []
    scores = candidates.similarities, np.where(candidates.bm25 > 0, candidates.bm25, np.nan)
    for arrays in zip(candidates.ranks(), scores, parts, strict=True):
        columns = [array[places].tolist() for array in arrays]
        legs.append(
            [
                LegPlace(rank or None, *(None if isnan(each) else each for each in (score, part)))
                for rank, score, part in zip(*columns, strict=True)
            ]
        )
    alone = [place.rank for place in legs[0]]
    if vector is not None and None in alone:  # not among the candidates: search deeper
        deep = snapshot.nearest(vector, DEEP, allowed)
        found = dict(zip(deep.rows.tolist(), shared_ranks(deep.scores).tolist(), strict=True))
        alone = [rank or found.get(row) for rank, row in zip(alone, rows, strict=True)]
    matched = matched_words(snapshot, query, candidates.rows[places])
    marked_words = []  # the words that were searched
    for word in query.words:
        if word.word.phrase is not None:
            marked_words.append(word.word)
        elif word.counts:
            marked_words.append(word.word._replace(words=word.parts))
    marked = [tuple(highlights(hit.text, marked_words, snapshot.cutter)) for hit in hits]
    whys = map(Explanation, *legs, matched, alone, marked, best.fused_ranks)
    return tuple(replace(hit, explanation=why) for hit, why in zip(hits, whys, strict=True))


def matched_words(snapshot: Snapshot, query: Query, rows: Rows) -> list[tuple[MatchedWord, ...]]:
    """Return, for each row, the words of the query that the row contains."""
    matched: dict[int, list[MatchedWord]] = {row: [] for row in rows.tolist()}
    asked: list[tuple[str, KeywordQuery, KeywordQuery | None]] = []
    for word in {word.word.surface: word for word in query.words if word.counts}.values():
        clauses = tuple(query.counted[term] for term in word.terms if term in query.counted)
        has_parts = word.word.surfaces or word.word.words[1:] or word.word.humps
        whole = KeywordQuery((Clause(word.in_a_row),)) if has_parts else None
        if clauses:
            asked.append((word.word.surface, KeywordQuery(clauses), whole))
    if not asked or not len(rows):
        return [() for _ in rows]
    queries = [each for _, *both in asked for each in both if each is not None]
    answers = iter(snapshot.search_each(queries, len(rows), snapshot.only(rows)))
    for surface, _, whole in asked:
        found = next(answers)
        wholes = None if whole is None else set(next(answers).rows.tolist())
        for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True):
            is_whole = wholes is None or row in wholes
            matched[row].append(MatchedWord(surface, score, is_whole))
    return [tuple(matched[row]) for row in rows.tolist()]
