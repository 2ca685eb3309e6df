"""What a search answers: documents in order, and why. How they are found is in ``search.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NamedTuple, overload

from vocabtool.keywords.tokens import Span


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
