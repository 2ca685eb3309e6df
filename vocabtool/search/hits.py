"""Results of a search: documents in order, with explanations on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, overload

import pyarrow as pa

from vocabtool.documents.batch import Kind
from vocabtool.keywords.cutter import text_in_utf8
from vocabtool.keywords.tokens import Span
from vocabtool.search.store import ValueCount
from vocabtool.system.own_files import to_json
from vocabtool.system.results import TableResult

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

DEEP: Final = 10_000  # ranks by the vector alone that an explanation knows
# Notes by which reports tell why there is no similarity.
NO_VECTOR: Final = (
    "the query has no vector: only keywords were searched. Pass its vector, or open the index with "
    "the model that made the others"
)
ZERO_VECTOR: Final = "the query's vector is zero: vectors found nothing"


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


@dataclass(frozen=True, kw_only=True, slots=True)
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
    score: float
    tier: int
    similarity: float | None = None
    bm25: float | None = None
    text: str
    fields: Mapping[str, Any]
    rerank: float | None = None
    explanation: Explanation | None = None
    further: int | None = None

    def members(self) -> dict[str, Any]:
        """Return the values by name, without ``rerank``, ``explanation`` or ``further`` if none."""
        members = {name: getattr(self, name) for name in (*COLUMNS, "fields", *IF_KNOWN)}
        if self.explanation is not None:  # a span is [start, end]
            spans = [[*span] for span in self.explanation.highlights]
            members["explanation"] = to_json(self.explanation) | {"highlights": spans}
        left_out = [name for name in IF_KNOWN if members[name] is None]
        return {name: value for name, value in members.items() if name not in left_out}

    def to_json(self) -> dict[str, Any]:
        """Return :meth:`members` for JSON."""
        return {**to_json(self.members())}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A word that is not in the corpus, and words of the corpus with similar spellings."""

    word: str
    spellings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hits(TableResult, Sequence[Hit]):
    """The result of a search.

    - ``hits``: the documents found, best first.
    - ``notes``: notes for the user.
    - ``suggestions``: similar words of the documents for each word that stands in no document.
    - ``facets``: for each field named in the argument ``facets``, the most frequent values.
    - ``total``: the number of hits on all pages: of all candidates or groups, or of all documents
      that a query without text and vector lists.
    - ``seconds``: ``encode`` is the time to encode all queries of the call, ``search`` is the time
      to search for this query.
    - ``kinds``: the type of each field of the index.
    """

    query: QuerySummary
    hits: tuple[Hit, ...]
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

    def members(self) -> dict[str, Any]:
        """Return what :meth:`to_json` does, but leave its dataclasses: orjson converts them."""
        names = "notes", "suggestions", "facets", "total"
        values = {name: getattr(self, name) for name in names}
        return {"query": self.query, "hits": [hit.members() for hit in self.hits], **values}

    def to_json(self) -> dict[str, Any]:
        """Return the hits for JSON: what ``--format json``, the server and its tools answer."""
        return {**to_json(self.members())}


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
