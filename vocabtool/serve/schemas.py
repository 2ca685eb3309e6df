"""Requests, and answers that are no dataclasses elsewhere, for checks and the OpenAPI document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal, get_type_hints

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from vocabtool.choices import FUSIONS, Fusion, Phrases
from vocabtool.index.contents import FieldStats
from vocabtool.index.maintenance import Verification
from vocabtool.keywords.cutter import text_in_utf8
from vocabtool.search.conditions import MAX_CHARACTERS
from vocabtool.search.hits import Hits
from vocabtool.search.settings import Calibration, Settings

# Limits of more than one endpoint or tool; all others stand at their fields.
MAX_QUERY: Final = 10_000  # characters
MAX_DEPTH: Final = 10_000
MAX_NAME: Final = 1_000  # characters of a field's name or of an id
MAX_TEXT: Final = 100_000  # characters of a text whose words are shown or counted

DEFAULT: Final = Settings()
Name = Annotated[str, Field(max_length=MAX_NAME)]
Query = Annotated[str, Field(max_length=MAX_QUERY)]
Number = Annotated[float, Field(ge=-3.4e38, le=3.4e38)]  # as float32 has them
NameList = Annotated[list[Name], Field(max_length=20)]
Names = Annotated[
    NameList,
    BeforeValidator(
        lambda given: given.split(",") if isinstance(given, str) else given,
        json_schema_input_type=NameList | Annotated[str, Field(max_length=20 * MAX_NAME)],
    ),
]
# fail_fast: a body of a million wrong elements is one error, not a million.
Vector = Annotated[list[Number], Field(min_length=1, max_length=65_536, fail_fast=True)]


class IdConvertor(PathConvertor):
    """Matches the rest of a path, including line ends, in routes such as ``/{id:document}``."""

    regex = "(?s:.*)"


register_url_convertor("document", IdConvertor())


class Strict(BaseModel):
    """A request body that refuses unknown members and values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SearchRequest(Strict):
    """A search with one query, or with several in ``queries``."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "how to install Xapian", "k": 3, "explain": True},
                {"queries": ["Xapian", "install"], "fusion": "rrf"},
            ]
        },
    )

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
    query: str | None = Field(
        None, max_length=MAX_QUERY, description="The query, which may contain operators."
    )
    queries: Annotated[list[Query], Field(fail_fast=True)] | None = Field(
        None, min_length=1, max_length=100, description="Several queries, instead of one."
    )
    vector: Vector | None = Field(None, description="Your own vector of the query.")
    vectors: Annotated[list[Vector], Field(fail_fast=True)] | None = Field(
        None, max_length=100, description="Your own vectors, one for each of the queries."
    )
    k: int = Field(10, ge=1, le=1_000, description="Number of hits.")
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
        json_schema_extra={"examples": [{"index": "answers", "text": "How do I install Xapian?"}]},
    )

    index: Name = Field(description="The name of the index whose model makes the words.")
    text: str = Field(max_length=MAX_TEXT, description="The text.")


class OovRequest(Strict):
    """Texts whose unknown words are to be counted."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"index": "answers", "texts": ["install Xapian", "install Debian"]}]
        },
    )

    index: Name = Field(description="The name of the index whose model makes the words.")
    texts: list[Annotated[str, Field(max_length=MAX_TEXT)]] = Field(
        min_length=1, max_length=1_000, description="The texts."
    )


HITS: Final[dict[str, Any]] = {  # what `Hits.to_dict` returns
    name: (hint, ...)
    for name, hint in get_type_hints(Hits).items()
    if name not in ("seconds", "kinds")
}
SearchAnswer: Final = create_model(
    "SearchAnswer",
    __doc__="The result of a search: what `Hits` has, the index, and the number of the commit.",
    index=(str, ...),
    commit=(int, ...),
    **HITS,
)


@dataclass(frozen=True, kw_only=True)
class ManySearchAnswer:
    """The results of several queries, in the order of the queries. All are from one commit."""

    results: tuple[Hits, ...]
    index: str
    commit: int


@dataclass(frozen=True, kw_only=True)
class IndexAnswer:
    """An index.

    - ``status``: whether it can be searched.
    - ``problem``: why it cannot be searched; null if it can.
    - ``writable``: whether documents can be changed over HTTP.

    All other members are null while the index is not open:

    - ``documents``, ``deleted``, ``commit``, ``generation``, ``kind``, ``dim``, ``metric``,
      ``dtype``, ``language``, ``recall``, ``calibration``, ``searched_fields``, ``fields``,
      ``verified``: as in :class:`IndexStats`.
    - ``model``: name of the model, without folders; null if the vectors are your own.
    - ``weight``: the weight a of keyword search by default.
    - ``can_encode``: whether a model makes the vectors of queries.
    - ``has_vocabulary``: whether the index has a vocabulary of known words.
    """

    name: str
    status: Literal["ready", "loading", "failed"]
    problem: str | None
    writable: bool
    documents: int | None = None
    deleted: int | None = None
    commit: int | None = None
    generation: int | None = None
    model: str | None = None
    kind: str | None = None
    dim: int | None = None
    metric: str | None = None
    dtype: str | None = None
    language: str | None = None
    recall: float | None = None
    calibration: Calibration | None = None
    weight: float | None = None
    can_encode: bool | None = None
    has_vocabulary: bool | None = None
    searched_fields: tuple[str, ...] | None = None
    fields: tuple[FieldStats, ...] | None = None
    verified: Verification | None = None


@dataclass(frozen=True, kw_only=True)
class IndexesAnswer:
    """All served indexes, in the order of the command line."""

    indexes: tuple[IndexAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class ModelWord:
    """A word of a text, as the model looks it up.

    - ``start``, ``end``: its place in the text, in characters; null if it was not found there.
    - ``pieces``: its subword pieces; null if the model has none.
    """

    surface: str
    start: int | None
    end: int | None
    known: bool
    pieces: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class WordsAnswer:
    """The words of a text in their order. ``rule``: the steps that split a text into words."""

    words: tuple[ModelWord, ...]
    rule: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of a vocabulary. ``text``: characters that cannot be printed are escaped."""

    id: int
    text: str


@dataclass(frozen=True, kw_only=True)
class VocabularyAnswer:
    """Entries of a vocabulary, sorted by their texts without piece markers.

    - ``total``: number of entries in the vocabulary.
    - ``matching``: number of entries with the prefix.
    - ``offset``: number of matching entries that were skipped.
    """

    total: int
    matching: int
    offset: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class WriteAnswer:
    """What a request wrote.

    - ``added``: number of new documents.
    - ``replaced``: number of documents that replaced one with the same id.
    - ``skipped``: number of lines skipped because their id is in the index or in another line.
    - ``commit``: number of the commit that has the changes.
    """

    added: int
    replaced: int
    skipped: int
    commit: int


@dataclass(frozen=True, kw_only=True)
class DeleteAnswer:
    """What a request deleted, and the number of the commit that has the change."""

    deleted: int
    commit: int


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem document as in RFC 9457. ``detail``: what is wrong, and what to do."""

    type: str
    title: str
    status: int
    detail: str


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
    """Return an answer as JSON. Dataclasses become objects."""
    try:
        body = orjson.dumps(content)
    except orjson.JSONEncodeError:  # a field has bytes that are not UTF-8
        body = text_in_utf8(json.dumps(content, ensure_ascii=False, default=asdict)).encode()
    return Response(body, media_type="application/json")
