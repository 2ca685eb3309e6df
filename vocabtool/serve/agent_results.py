"""The results of the tools for agents, as structured data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from math import isfinite
from typing import Annotated, Any, Final
from urllib.parse import quote

import numpy as np
from pydantic import BaseModel, Field

from vocabtool.choices import Fusion
from vocabtool.index.commit_store import CommitStore
from vocabtool.index.index import Index
from vocabtool.keywords.cutter import text_in_utf8
from vocabtool.reports.hits import (
    extract,
    facts_of,
    fields_outside,
    restrictions,
    weight_of_keywords,
    why_there,
)
from vocabtool.search.hits import Hits, matched_words
from vocabtool.search.query import parse_query
from vocabtool.search.settings import Settings
from vocabtool.serve.catalog import known_words
from vocabtool.serve.reads import model_of
from vocabtool.system.messages import plural

MAX_WORDS: Final = 100  # in one answer; and pieces of a word
MAX_FIELDS: Final = 20  # fields of a document, or of an index
MAX_VALUE: Final = 160  # characters of a value or a word
EXPLAINED: Final = 100  # hits in which `explain` looks for a document
SPLIT: Final = 3  # pieces of a word that is called split

Value = str | int | float | bool | None


class Result(BaseModel):
    """The result of a tool, as structured data."""

    def as_text(self) -> str:
        """Return the result as a text."""
        raise NotImplementedError


Fields = Annotated[
    dict[str, Value], Field(description="Fields of the document; long values are cut.")
]


class HitResult(BaseModel):
    """A document that was found."""

    id: str
    score: float = Field(description="Higher is better, within this result only.")
    excerpt: str = Field(description="The part of the text that matches the query best.")
    start: int = Field(description="Offset of the excerpt in the text, in characters.")
    length: int = Field(description="Length of the text, in characters.")
    fields: Fields


class SearchResult(Result):
    """The documents that answer a query best."""

    index: str
    commit: int = Field(description="Number of the commit that was searched.")
    hits: list[HitResult] = Field(description="Best first.")
    unknown_words: list[str] = Field(description="Words that the embedding model does not know.")
    absent_words: list[str] = Field(description="Words that are in no document.")
    spellings: dict[str, list[str]] = Field(description="Other spellings of absent words.")
    notes: list[str]
    total: int = Field(description="Number of hits on all pages.")
    next_offset: int | None = Field(description="The offset of the next page; null at the end.")

    def as_text(self) -> str:
        lines = [f"{plural(len(self.hits), 'hit', 'hits')} in index {self.index!r}"]
        for number, hit in enumerate(self.hits, 1):
            fields = "".join(f", {name}: {value}" for name, value in hit.fields.items())
            lines.append(f"{number}. id: {hit.id} (score {hit.score:.3f}{fields})")
            after = "…" * (hit.start + len(hit.excerpt) < hit.length)
            lines.append("…" * (hit.start > 0) + hit.excerpt + after)
        if self.unknown_words:
            lines.append(f"unknown to the model: {', '.join(self.unknown_words)}")
        if self.absent_words:
            lines.append(f"in no document: {', '.join(self.absent_words)}")
        for word, others in self.spellings.items():
            lines.append(f"{word}: did you mean {', '.join(others)}?")
        lines += [f"note: {each}" for each in self.notes]
        if self.next_offset is not None:
            lines.append(f"more hits: search again with offset {self.next_offset}")
        return "\n".join(lines)


class DocumentResult(Result):
    """A part of a document."""

    index: str
    id: str
    uri: str = Field(description="Address of the whole text as a resource.")
    fields: Fields
    text: str
    offset: int = Field(description="Offset of this part in the text, in characters.")
    length: int = Field(description="Length of the whole text, in characters.")
    left: int = Field(description="Number of characters after this part.")

    def as_text(self) -> str:
        end = self.offset + len(self.text)
        fields = "".join(f"{name}: {value}\n" for name, value in self.fields.items())
        rest = f"\n[{self.left} characters left: go on with offset {end}]" if self.left else ""
        place = f"characters {self.offset} to {end} of {self.length}"
        return f"{self.id} ({place})\n{fields}\n{self.text}{rest}"


class CutWord(BaseModel):
    """A word as the model looks it up."""

    word: str
    count: int = Field(description="How often the text contains it.")
    pieces: list[str] = Field(description="Its subword pieces; empty if the model has none.")

    def as_text(self) -> str:
        cut = f" = {' + '.join(self.pieces)}" if self.pieces else ""
        return f"{self.word}{cut}" + f" ({self.count} times)" * (self.count > 1)


class WordsResult(Result):
    """The words of a text that the model of an index does not know."""

    index: str
    words: int = Field(description="Number of words in the text.")
    unknown: list[CutWord] = Field(description="Words that the model does not know.")
    split: list[CutWord] = Field(description=f"Known words with {SPLIT} or more pieces.")
    left_out: int = Field(description="Unknown or split words that are not listed.")

    def as_text(self) -> str:
        lines = [plural(self.words, "word", "words")]
        for what, words in (("unknown to the model", self.unknown), ("split", self.split)):
            if words:
                lines.append(f"{what}: {'; '.join(each.as_text() for each in words)}")
        if not self.unknown:
            lines.append("the model knows all of them")
        if self.left_out:
            lines.append(f"and {self.left_out} more")
        return "\n".join(lines)


class ExplainedWord(BaseModel):
    """A word of the query."""

    word: str
    facts: str = Field(description="Facts about the word.")


class ExplainResult(Result):
    """Why a document is found for a query, or is not."""

    index: str
    id: str
    rank: int | None = Field(description=f"From 1; null if not among the first {EXPLAINED}.")
    score: float | None
    why: str = Field(description="Its ranks by meaning and by words, or why it is not found.")
    words: list[ExplainedWord] = Field(description="The words of the query.")
    notes: list[str]

    def as_text(self) -> str:
        place = "not found" if self.rank is None else f"rank {self.rank}, score {self.score:.3f}"
        words = [f"word {each.word}: {each.facts}" for each in self.words]
        notes = [f"note: {each}" for each in self.notes]
        return "\n".join((f"{self.id}: {place}; {self.why}", *words, *notes))


class FieldInfo(BaseModel):
    """A field that can be used in conditions."""

    name: str
    kind: str = Field(description="Type of its values.")
    documents: int = Field(description="Number of documents with a value.")
    frequent: list[Value] = Field(description="Its most frequent values.")


class IndexInfo(BaseModel):
    """An index."""

    name: str
    problem: str | None = Field(description="Why it cannot be searched; null if it can.")
    documents: int = 0
    fields: list[FieldInfo] = Field(default=[])
    searched_fields: list[str] = Field(
        default=[], description="Fields that are joined into one text."
    )
    model: str | None = Field(default=None, description="The embedding model; null without one.")
    by_meaning: bool = Field(
        default=False, description="Whether searches also compare meanings (vectors)."
    )
    knows_words: bool = Field(default=False, description="Whether unknown words can be listed.")

    def lines(self) -> Iterable[str]:
        if self.problem is not None:
            yield f"{self.name}: {self.problem}"
            return
        documents = plural(self.documents, "document", "documents")
        yield f"{self.name}: {documents}, model {self.model or 'none'}"
        for each in self.fields:
            values = ", ".join(map(str, each.frequent)) or "all values differ"
            held = plural(each.documents, "document", "documents")
            yield f"  field {each.name} ({each.kind}, in {held}): {values}"


class IndexesResult(Result):
    """The indexes that can be searched."""

    indexes: list[IndexInfo]

    def as_text(self) -> str:
        return "\n".join(line for each in self.indexes for line in each.lines())


def search_result(
    found: Hits, name: str, commit: int, characters: int, offset: int
) -> SearchResult:
    end = offset + len(found)
    hits = []
    for hit in found:
        start, end, _ = extract(hit, characters)
        outside = (each for each, _ in fields_outside(hit, start, end))
        hits.append(
            HitResult(
                id=hit.id,
                score=hit.score,
                excerpt=hit.text[start:end],
                start=start,
                length=len(hit.text),
                fields=short_fields(hit.fields, outside),
            )
        )
    words = {each.surface: each for each in found.query.words[:MAX_WORDS] if each.counts}
    return SearchResult(
        index=name,
        commit=commit,
        hits=hits,
        unknown_words=[word for word, each in words.items() if each.known is False],
        absent_words=[word for word, each in words.items() if each.document_frequency == 0],
        spellings={each.word: [*each.spellings] for each in found.suggestions},
        notes=[*found.notes],
        total=found.total,
        next_offset=end if end < found.total else None,
    )


def words_result(index: Index, name: str, text: str) -> WordsResult:
    model_words = known_words(index, name)
    unknown = Counter(model_words.unknown(text))
    split = Counter(model_words.split_words(text, SPLIT)) - unknown

    def cut(words: Mapping[str, int]) -> list[CutWord]:
        return [
            CutWord(
                word=word[:MAX_VALUE],
                count=count,
                pieces=model_words.pieces(word)[:MAX_WORDS],
            )
            for word, count in islice(words.items(), MAX_WORDS)
        ]

    return WordsResult(
        index=name,
        words=len(model_words.look_up([text]).codes),
        unknown=cut(unknown),
        split=cut(split),
        left_out=sum(max(0, len(each) - MAX_WORDS) for each in (unknown, split)),
    )


def explain_result(
    index: Index, name: str, query: str, id_: str, where: str | None, fusion: Fusion
) -> ExplainResult:
    found = index.search(query, k=EXPLAINED, where=where, fusion=fusion, explain=True)
    asked = found.query
    places = {hit.id: (rank, hit) for rank, hit in enumerate(found, 1)}
    rank, hit = places.get(id_, (None, None))
    if hit is not None and hit.explanation is not None:
        why = why_there(hit.explanation, found)
    else:
        why = why_not_there(index.snapshot(), query, id_, where)
    codes_first = any(each.tier for each in found)
    return ExplainResult(
        index=name,
        id=id_,
        rank=rank,
        score=None if hit is None else hit.score,
        why=why,
        words=[
            ExplainedWord(
                word=each.surface,
                facts=", ".join(facts_of(each, asked.fusion, codes_first=codes_first)),
            )
            for each in asked.words[:MAX_WORDS]
        ],
        notes=[*restrictions(asked), *weight_of_keywords(asked), *found.notes],
    )


def why_not_there(snapshot: CommitStore, query: str, id_: str, where: str | None) -> str:
    row = snapshot.row_of(id_)
    if row is None:
        return "it was deleted"
    if where is not None and row not in snapshot.rows_in_order(where):
        return "it does not satisfy the condition"
    parsed = parse_query(snapshot, query, Settings(fusion="keyword"))
    (contained,) = matched_words(snapshot, parsed, np.array([row]))
    words = ", ".join(f"{'' if each.whole else 'parts of '}{each.surface}" for each in contained)
    return f"not among the first {EXPLAINED} hits; it contains {words or 'no word of the query'}"


def index_info(name: str, index: Index) -> IndexInfo:
    found = index.stats()
    fields = [
        FieldInfo(
            name=each.name,
            kind=each.kind,
            documents=each.documents,
            frequent=[cut_value(counted.value) for counted in each.frequent],
        )
        for each in found.fields[:MAX_FIELDS]
    ]
    return IndexInfo(
        name=name,
        problem=None,
        documents=found.documents,
        fields=fields,
        searched_fields=[*found.searched_fields],
        model=model_of(index) or None,
        by_meaning=index.can_encode,
        knows_words=index.configuration.words is not None,
    )


def short_fields(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Value]:
    """Return the named fields, at most ``MAX_FIELDS``. Long values are cut."""
    return {name: cut_value(fields[name]) for name in islice(names, MAX_FIELDS)}


def cut_value(value: Any) -> Value:
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = text_in_utf8(str(value))
    return text[:MAX_VALUE] + "…" * (len(text) > MAX_VALUE)


def uri_of(name: str, id_: str) -> str:
    return f"vocabtool://{quote(name, safe='')}/{quote(id_, safe='')}"
