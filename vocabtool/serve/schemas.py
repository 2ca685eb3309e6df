"""Models of requests and answers. FastAPI uses them to check requests and to write OpenAPI."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from vocabtool.choices import FUSIONS, Fusion, Phrases
from vocabtool.keywords.cutter import text_in_utf8
from vocabtool.reports.hits_page import Mark
from vocabtool.search.conditions import MAX_CHARACTERS
from vocabtool.search.settings import Settings

MAX_K: Final = 1_000
MAX_QUERY: Final = 10_000  # characters
MAX_QUERIES: Final = 100  # in one request
MAX_DEPTH: Final = 10_000
MAX_DIM: Final = 65_536
MAX_FLOAT32: Final = 3.4e38
MAX_NAMES: Final = 20  # fields in sort or facets
MAX_NAME: Final = 1_000  # characters of a field's name or of an id
MAX_TEXT: Final = 100_000  # characters of a text whose words are shown or counted
MAX_TEXTS: Final = 1_000  # in one request
MAX_PREFIX: Final = 200  # characters
MAX_ENTRIES: Final = 1_000  # of a vocabulary in one answer

DEFAULT: Final = Settings()
Name = Annotated[str, Field(max_length=MAX_NAME)]
Query = Annotated[str, Field(max_length=MAX_QUERY)]
Number = Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32)]
NameList = Annotated[list[Name], Field(max_length=MAX_NAMES)]
Names = Annotated[
    NameList,
    BeforeValidator(
        lambda given: given.split(",") if isinstance(given, str) else given,
        json_schema_input_type=NameList | Annotated[str, Field(max_length=MAX_NAMES * MAX_NAME)],
    ),
]
# fail_fast: a body of a million wrong elements is one error, not a million.
Vector = Annotated[list[Number], Field(min_length=1, max_length=MAX_DIM, fail_fast=True)]


class IdConvertor(PathConvertor):
    """Matches the rest of a path, including line ends, in routes such as ``/{id:document}``."""

    regex = "(?s:.*)"


register_url_convertor("document", IdConvertor())


class Strict(BaseModel):
    """A request body that refuses unknown members and values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SearchSettings(Strict):
    """How vectors and keywords are searched and combined."""

    fusion: Fusion = Field(
        DEFAULT.fusion, description="How vector and keyword hits are combined.", examples=[*FUSIONS]
    )
    a: float | None = Field(
        None, ge=0, le=1, description="Weight of keyword search; null: the weight of the index."
    )
    boost: float = Field(
        DEFAULT.boost,
        ge=0,
        le=1e6,
        description="A word that the model does not know has the weight 1 + boost.",
    )
    code_boost: float = Field(
        DEFAULT.code_boost,
        ge=0,
        le=1e6,
        description="A whole identifier has at least the weight 1 + code_boost.",
    )
    k_rrf: int = Field(
        DEFAULT.k_rrf, ge=1, le=1_000_000, description="Constant of reciprocal rank fusion."
    )
    depth: int | None = Field(
        None,
        ge=1,
        le=MAX_DEPTH,
        description="Candidates of the vector search and of the keyword search; null: 100, or all "
        "if the index has at most 2,000 documents.",
    )
    guarantee: bool = Field(
        DEFAULT.guarantee, description="Rank documents with an identifier of the query first."
    )
    phrases: Phrases = Field(
        DEFAULT.phrases, description="Whether a document must contain the quoted phrases."
    )
    literal: bool = Field(
        DEFAULT.literal,
        description="Search for -, OR, FIELD: and brackets as text, not as operators.",
    )


class SearchRequest(SearchSettings):
    """A search with one query, or with several in ``queries``."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"query": "how to install Xapian", "k": 3, "explain": True},
                {"queries": ["Xapian", "install"], "fusion": "rrf"},
            ]
        },
    )

    query: str | None = Field(
        None, max_length=MAX_QUERY, description="The query, which may contain operators."
    )
    queries: Annotated[list[Query], Field(fail_fast=True)] | None = Field(
        None, min_length=1, max_length=MAX_QUERIES, description="Several queries, instead of one."
    )
    vector: Vector | None = Field(None, description="Your own vector of the query.")
    vectors: Annotated[list[Vector], Field(fail_fast=True)] | None = Field(
        None, max_length=MAX_QUERIES, description="Your own vectors, one for each of the queries."
    )
    k: int = Field(10, ge=1, le=MAX_K, description="Number of hits.")
    where: str | None = Field(
        None, max_length=MAX_CHARACTERS, description="A condition on fields, such as year >= 2020."
    )
    explain: bool = Field(False, description="Explain the words and the hits, with highlights.")
    sort: Names = Field([], description="Fields by which candidates are sorted, such as year:desc.")
    facets: Names = Field([], description="Fields whose values are counted.")
    offset: int = Field(
        0, ge=0, le=MAX_DEPTH, description="Number of hits before the first one to return."
    )
    group_by: Name | None = Field(
        None, description="A field; only the best hit with each value is returned."
    )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``Index.search``, except queries and vectors."""
        return self.model_dump(exclude={"query", "queries", "vector", "vectors"})


class WordsRequest(Strict):
    """A text to split into words."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"index": "answers", "text": "How do I install Xapian?"}]},
    )

    index: Name = Field(description="The name of the index whose model makes the words.")
    text: str = Field(max_length=MAX_TEXT, description="The text.")


class OovRequest(Strict):
    """Texts whose unknown words are to be counted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"index": "answers", "texts": ["install Xapian", "install Debian"]}]
        },
    )

    index: Name = Field(description="The name of the index whose model makes the words.")
    texts: list[Annotated[str, Field(max_length=MAX_TEXT)]] = Field(
        min_length=1, max_length=MAX_TEXTS, description="The texts."
    )


class Answer(BaseModel):
    """An answer. The server may add members in later versions."""


class WordAnswer(Answer):
    """A word of the query. Frequencies, idf and weight are null without ``explain``."""

    surface: str = Field(description="The word as written.")
    start: int = Field(description="Offset of its first character in the query.")
    end: int = Field(description="Offset after its last character.")
    known: bool | None = Field(description="Whether the model knows it; null without a vocabulary.")
    identifier: bool = Field(description="Whether it is an identifier, such as a product code.")
    counts: bool = Field(description="Whether it is searched; stop words are not.")
    pieces: int | None = Field(description="Number of subword pieces, if the model has any.")
    document_frequency: int | None = Field(description="Number of documents that contain it.")
    part_frequency: int | None = Field(description="Number of documents with its rarest part.")
    idf: float | None = Field(description="Inverse document frequency.")
    weight: float | None = Field(description="Factor by which its score is multiplied.")
    weighs: float | None = Field(None, description="idf times weight; 0 if no document has it.")
    mark: Mark | None = Field(None, description="Its kind for display; null if that is unknown.")
    facts: list[str] = Field([], description="Facts about it, as text; only with explain.")


class QueryAnswer(Answer):
    """The query, as the server understood it."""

    text: str = Field(description="The query.")
    words: list[WordAnswer] = Field(description="Its words.")
    fusion: str = Field(description="How vector and keyword hits were combined.")
    a: float | None = Field(description="Weight of keyword search, as set or by default.")
    m: float | None = Field(
        description="Share of the query's idf that comes from words that documents contain, but "
        "the model does not know."
    )
    weight: float | None = Field(description="Final weight of keyword search.")
    excluded: list[str] = Field(description="Excluded words, as written.")
    fields: list[str] = Field(description="Fields with a required value, as written.")
    alternatives: list[str] = Field(description="Parts joined by OR, as written.")
    remarks: list[str] = Field(
        [], description="Restrictions and weight, as text; only with explain."
    )


class LegAnswer(Answer):
    """The rank and score of a document in the vector search or in the keyword search."""

    rank: int | None = Field(description="From 1; null if it is not among the candidates.")
    score: float | None = Field(description="Similarity or BM25.")
    part: float | None = Field(description="What it adds to the score of the hit.")


class MatchedWordAnswer(Answer):
    """A word of the query that the document contains."""

    surface: str = Field(description="The word as written in the query.")
    score: float = Field(description="Its part of the BM25 score.")
    whole: bool = Field(description="False if the document contains only parts of it.")


class ExplanationAnswer(Answer):
    """Why a document has its rank."""

    dense: LegAnswer = Field(description="Its rank and score by vectors.")
    keyword: LegAnswer = Field(description="Its rank and score by keywords.")
    words: list[MatchedWordAnswer] = Field(description="Words of the query that it contains.")
    rank_without_keywords: int | None = Field(description="Its rank by the vector alone.")
    highlights: list[tuple[int, int]] = Field(
        description="Start and end of these words in the text, in characters (code points)."
    )
    fused_rank: int | None = Field(None, description="Its rank before rerank; null without it.")
    highlight_fields: list[str] = Field([], description="The field of each highlight.")
    why: str = Field(description="The explanation as text.")
    title: str = Field(description="Its title, or its id.")
    scores: list[str] = Field(description="Its scores as text.")
    extract: tuple[int, int] = Field(
        description="Start and end of the part of its text to show, in characters (code points)."
    )
    other_fields: list[str] = Field(description="Fields that the extract does not contain.")


class HitAnswer(Answer):
    """A document that was found."""

    id: str = Field(description="Its id.")
    score: float = Field(description="Score of the fusion; higher is better.")
    tier: int = Field(description="1 or 2 if it contains a whole identifier of the query, else 0.")
    similarity: float | None = Field(description="Similarity to the vector of the query.")
    bm25: float | None = Field(description="Weighted BM25 score.")
    text: str = Field(description="Its text.")
    fields: dict[str, Any] = Field(description="Its fields.")
    explanation: ExplanationAnswer | None = Field(None, description="Only with explain.")
    further: int | None = Field(
        None, description="Only with group_by: number of others in its group."
    )


class SuggestionAnswer(Answer):
    """A word that is in no document."""

    word: str = Field(description="The word.")
    spellings: list[str] = Field(description="Words of documents with similar spellings.")


class ValueAnswer(Answer):
    """A value of a field, and the number of documents that have it."""

    value: str | int | float | bool = Field(description="The value.")
    count: int = Field(description="Number of documents.")


class HitsAnswer(Answer):
    """The result of a search."""

    query: QueryAnswer = Field(description="The query, as the server understood it.")
    hits: list[HitAnswer] = Field(description="Documents, best first.")
    notes: list[str] = Field(description="Notes for the user.")
    suggestions: list[SuggestionAnswer] = Field(description="Other spellings of absent words.")
    facets: dict[str, list[ValueAnswer]] = Field(description="Values and their counts, by field.")
    total: int = Field(description="Number of hits on all pages.")


class SearchAnswer(HitsAnswer):
    """The result of a search, and the commit that was searched."""

    index: str = Field(description="The name of the index.")
    commit: int = Field(description="The number of the commit that was searched.")


class ManySearchAnswer(Answer):
    """The results of several queries, in the order of the queries. All are from one commit."""

    results: list[HitsAnswer] = Field(description="One result for each query.")
    index: str = Field(description="The name of the index.")
    commit: int = Field(description="The number of the commit that was searched.")


class CalibrationAnswer(Answer):
    """The weight of keyword search, as tuned or estimated for the index."""

    a: float = Field(description="The weight, from 0 to 1.")
    judged: int = Field(description="Number of judged queries that tuned it; 0: an estimate.")
    documents: int = Field(description="Number of documents when the weight was found.")
    time: str = Field(description="When it was found, in UTC (ISO 8601); empty: not recorded.")


class FieldAnswer(Answer):
    """A field of documents."""

    name: str = Field(description="Its name.")
    kind: str = Field(description="The type of its values.")
    documents: int = Field(description="Number of documents that have a value.")
    values: list[ValueAnswer] = Field(
        description="The most frequent values that at least two documents have."
    )


class VerifiedAnswer(Answer):
    """What the last verification of the index found."""

    time: str = Field(description="When it ended, in UTC (ISO 8601).")
    commit: int = Field(description="The number of the commit that was verified.")
    generation: int = Field(description="Number of the commit's folder (generation).")
    documents: int = Field(description="Number of documents that were verified.")
    recall: float | None = Field(description="Measured recall@10; null if there was a problem.")
    problem: str | None = Field(description="What is damaged; null if nothing is.")


class IndexAnswer(Answer):
    """An index. Most members are null while the index is not open."""

    name: str = Field(description="Its name in URLs.")
    status: Literal["ready", "loading", "failed"] = Field(description="Whether it can be searched.")
    problem: str | None = Field(description="Why it cannot be searched; null if it can.")
    writable: bool = Field(description="Whether documents can be changed over HTTP.")
    documents: int | None = Field(None, description="Number of documents.")
    deleted: int | None = Field(None, description="Number of deleted rows still on disk.")
    commit: int | None = Field(None, description="The number of the commit that is searched.")
    generation: int | None = Field(None, description="Number of the commit's folder (generation).")
    model: str | None = Field(None, description="Name of the model; null: your own vectors.")
    kind: str | None = Field(None, description="The kind of the model.")
    dim: int | None = Field(None, description="Numbers in each vector.")
    metric: str | None = Field(None, description="How vectors are compared.")
    dtype: str | None = Field(None, description="Type of the stored vectors.")
    language: str | None = Field(None, description="Language of stems and stop words.")
    recall: float | None = Field(
        None, description="Recall@10 of approximate search when it was built; null: exact search."
    )
    calibration: CalibrationAnswer | None = Field(
        None, description="How the weight was found; null: it is the default."
    )
    weight: float | None = Field(None, description="Weight a of keyword search by default.")
    can_encode: bool | None = Field(
        None, description="Whether a model makes the vectors of queries."
    )
    has_vocabulary: bool | None = Field(
        None, description="Whether the index has a vocabulary of known words."
    )
    searched_fields: list[str] | None = Field(
        None, description="Fields that are joined into one text, with weights; empty for one field."
    )
    fields: list[FieldAnswer] | None = Field(None, description="The fields of documents.")
    verified: VerifiedAnswer | None = Field(
        None, description="What the last `vocabtool verify` found; null if there was none."
    )


class IndexesAnswer(Answer):
    """All served indexes."""

    indexes: list[IndexAnswer] = Field(description="The indexes, in the order of the command line.")


class DocumentAnswer(Answer):
    """A document."""

    id: str = Field(description="Its id.")
    text: str = Field(description="Its text.")
    fields: dict[str, Any] = Field(description="Its fields.")


class ModelWordAnswer(Answer):
    """A word of a text, as the model looks it up."""

    surface: str = Field(description="The word as the model looks it up.")
    start: int | None = Field(
        description="Offset of its first character in the text; null if it was not found there."
    )
    end: int | None = Field(description="Offset after its last character.")
    known: bool = Field(description="Whether the model knows it.")
    pieces: list[str] | None = Field(description="Its subword pieces; null if the model has none.")


class WordsAnswer(Answer):
    """The words of a text."""

    words: list[ModelWordAnswer] = Field(description="The words in their order.")
    rule: list[str] = Field(description="The steps that split a text into words.")


class RatesAnswer(Answer):
    """How many texts or words there are, and how many of them are unknown."""

    all: int = Field(description="Number of texts or words.")
    unknown: int = Field(description="Number of unknown words, or of texts with unknown words.")
    unknown_rate: float = Field(description="unknown divided by all, from 0 to 1.")


class OovAnswer(Answer):
    """The report of unknown words, as ``vocabtool oov --format json`` prints it."""

    model: str = Field(description="The name of the model.")
    vocabulary: dict[str, Any] = Field(description="Name, size and used entries of the vocabulary.")
    rule: dict[str, Any] = Field(description="The steps that split a text into words.")
    sources: list[str] = Field(description="Always empty: the texts are not from files.")
    documents: RatesAnswer = Field(description="Texts, and those with unknown words.")
    tokens: RatesAnswer = Field(description="All words, with repetitions.")
    distinct_words: RatesAnswer = Field(description="Distinct words.")
    unknown_words: list[dict[str, Any]] = Field(description="Unknown words, most frequent first.")
    unknown_words_listed: int = Field(description="Number of words in this list.")
    unknown_words_in_all: int = Field(description="Number of distinct unknown words.")
    kinds: list[dict[str, Any]] = Field(description="Kinds of unknown words.")
    coverage: list[dict[str, Any]] = Field(description="How much the most frequent words cover.")
    pieces: dict[str, Any] | None = Field(description="Subword pieces; null if the model has none.")
    estimated: list[dict[str, Any]] = Field(description="Error bounds of inexact figures.")
    notes: list[str] = Field(description="Notes for the user.")
    others: list[dict[str, Any]] = Field(description="Reports on further vocabularies.")


class EntryAnswer(Answer):
    """An entry of a vocabulary."""

    id: int = Field(description="Its id.")
    text: str = Field(description="Its text; characters that cannot be printed are escaped.")


class VocabularyAnswer(Answer):
    """Entries of a vocabulary, sorted by their texts without piece markers."""

    total: int = Field(description="Number of entries in the vocabulary.")
    matching: int = Field(description="Number of entries with the prefix.")
    offset: int = Field(description="Number of matching entries that were skipped.")
    entries: list[EntryAnswer] = Field(description="The entries.")


class HealthAnswer(Answer):
    """The process is running."""

    status: Literal["alive"] = Field(description="Always `alive`.")


class ReadyAnswer(Answer):
    """All indexes are open."""

    status: Literal["ready"] = Field(description="Always `ready`.")
    indexes: list[str] = Field(description="The names of the indexes.")


class Problem(Answer):
    """A problem document as in RFC 9457."""

    type: str = Field("about:blank", description="A URI that identifies the kind of problem.")
    title: str = Field(description="The kind of problem.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, and what to do.")


REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": Problem, "description": told}
    for code, told in {
        400: "The request is wrong; `detail` says how.",
        401: "The server wants a key, and the request has none that is valid.",
        403: "The key may only read, or the request comes from a page of another site.",
        404: "There is no such index or document.",
        413: "The body of the request is too long.",
        415: "The body of the request is not JSON.",
        429: "Too many requests; `Retry-After` says when to try again.",
        503: "The index is not open, or the server or its model failed; `Retry-After` says when "
        "to try again.",
        504: "The request took too long; ask for less.",
    }.items()
}


def json_answer(content: Any) -> Response:
    """Return an answer as JSON, without validation."""
    try:
        body = orjson.dumps(content)
    except orjson.JSONEncodeError:  # a field has bytes that are not UTF-8
        body = text_in_utf8(json.dumps(content, ensure_ascii=False, default=asdict)).encode()
    return Response(body, media_type="application/json")
