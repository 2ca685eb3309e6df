"""Endpoints that read an index: searches, facts, documents, words, vocabulary and report.

FastAPI uses the requests and answers here to check requests and to write the OpenAPI document.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter
from fastapi import Query as Parameter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from vocabtool.choices import options_of
from vocabtool.documents.batch import Document
from vocabtool.errors import VocabtoolError
from vocabtool.formats.files import split_kind
from vocabtool.index.index import Index
from vocabtool.index.snapshot import IndexStats, count_unknown
from vocabtool.reports.hits import hits_for_page
from vocabtool.reports.oov import oov_report
from vocabtool.reports.report import write
from vocabtool.search.conditions import MAX_CHARACTERS
from vocabtool.search.hits import Hits
from vocabtool.search.settings import Settings
from vocabtool.serve.answers import (
    MAX_DEPTH,
    MAX_NAME,
    MAX_QUERY,
    MAX_TEXT,
    REFUSED,
    json_answer,
    message_for_clients,
    wrong_arguments,
)
from vocabtool.serve.catalog import Catalog, ServedIndex, document_of, known_words, note_search
from vocabtool.serve.guard import check_condition
from vocabtool.tokenization.lookup import find_in_order, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import PREFIXES, Vocabulary, decode, plain, plain_strings, printable

PAGE: Final = 100  # entries of a vocabulary by default
Name = Annotated[str, Field(max_length=MAX_NAME)]
Number = Annotated[float, Field(ge=-3.4e38, le=3.4e38)]  # as float32 has them
Names = Annotated[list[Name], Field(max_length=20)]
# fail_fast: a body of a million wrong elements is one error, not a million.
Vector = Annotated[list[Number], Field(min_length=1, max_length=65_536, fail_fast=True)]


class IdConvertor(PathConvertor):
    """Matches the rest of a path, including line ends, in routes such as ``/{id:document}``."""

    regex = "(?s:.*)"


register_url_convertor("document", IdConvertor())


class ParsedRoute(APIRoute):
    """A route that calls its endpoint with the JSON that the guard has parsed.

    This takes a third of the time of FastAPI, which gets only the requests without a body. The
    endpoint may take names from the path, and ``request``.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle_by_fastapi = super().get_route_handler()
        body_model = get_type_hints(self.endpoint).get("request")
        if body_model is None:
            return handle_by_fastapi

        async def handle(request: Request) -> Response:
            if not hasattr(request.state, "json"):
                return await handle_by_fastapi(request)
            try:
                body = body_model.model_validate(request.state.json, from_attributes=True)
            except ValidationError as error:
                faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
                raise RequestValidationError(faults) from error
            answer: Response = await self.endpoint(**request.path_params, request=body)
            return answer

        return handle


class Strict(BaseModel):
    """A request body that refuses unknown members and values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


# A request must not bring a regular expression or a path.
NOT_SERVED: Final = ("identifier", "rerank", "rerank_depth")
LIMITS: Final[dict[str, dict[str, int]]] = {  # of a server, besides those of the options
    "k": {"le": 1_000},
    "offset": {"le": MAX_DEPTH},
    "depth": {"le": MAX_DEPTH},
    "where": {"max_length": MAX_CHARACTERS},
    "group_by": {"max_length": MAX_NAME},
}


def request_fields(**limits: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a search, for pydantic. ``limits`` replace some of ``LIMITS``."""
    default, members = Settings(), dict[str, Any]()
    for name, hint in get_type_hints(Settings).items():
        value: Any = getattr(default, name)
        option = options_of(Settings)[name]
        range_ = {"ge": option.least, "le": option.most, **{**LIMITS, **limits}.get(name, {})}
        about = Field(description=option.full_help, **range_)
        if value == ():
            members[name] = (Annotated[Names, about], [])
        elif name not in NOT_SERVED:
            members[name] = (Annotated[hint, about], value)
    return members


class SearchRequest(create_model("Options", __base__=Strict, **request_fields())):  # type: ignore[misc] # made here
    """A search with a query, a vector, or both."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "how to install Xapian", "k": 3, "explain": True},
                {"query": "Xapian", "fusion": "rrf"},
            ]
        },
    )

    query: str | None = Field(
        None, max_length=MAX_QUERY, description="The query, which may contain operators."
    )
    vector: Vector | None = Field(None, description="Your own vector of the query.")


class WordsRequest(Strict):
    """A text to split into words."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"index": "answers", "text": "How do I install Xapian?"}]},
    )

    index: Name = Field(description="The name of the index whose model makes the words.")
    text: str = Field(max_length=MAX_TEXT, description="The text.")


# Answers that are no dataclasses elsewhere.

HITS: Final[dict[str, Any]] = {  # what `Hits.to_json` returns
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
OF_STATS: Final = (  # not the paths of sources
    *("documents", "deleted", "commit", "generation", "model", "kind", "dim", "metric", "dtype"),
    *("language", "recall", "calibration", "searched_fields", "fields"),
)
STATS: Final[dict[str, Any]] = {
    name: (hint | None, None)
    for name, hint in get_type_hints(IndexStats).items()
    if name in OF_STATS
}
Status = Literal["ready", "loading", "failed"]
IndexAnswer: Final = create_model(
    "IndexAnswer",
    __doc__="""An index.

    - `status`: whether it can be searched.
    - `problem`: why it cannot be searched; null if it can.
    - `writable`: whether documents can be changed over HTTP.

    All other members are null while the index is not open:

    - `weight`: the weight a of keyword search by default.
    - `can_encode`: whether a model makes the vectors of queries.
    - `has_vocabulary`: whether the index has a vocabulary of known words.
    - `model`: name of the model, without folders; null if the vectors are your own.
    - all others: as in `IndexStats`.
    """,
    name=(str, ...),
    status=(Status, ...),
    problem=(str | None, ...),
    writable=(bool, ...),
    weight=(float | None, None),
    can_encode=(bool | None, None),
    has_vocabulary=(bool | None, None),
    **STATS,
)
IndexesAnswer: Final = create_model(
    "IndexesAnswer",
    __doc__="All served indexes, in the order of the command line.",
    indexes=(GenericAlias(tuple, (IndexAnswer, ...)), ...),  # type: ignore[arg-type] # made here
)


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


# Endpoints.


def read_routes(catalog: Catalog) -> APIRouter:
    routes = APIRouter(prefix="/v1", responses=REFUSED, route_class=ParsedRoute)

    @routes.post(
        "/indexes/{name}/search",
        tags=["search"],
        summary="Search an index",
        response_model=SearchAnswer,
    )
    async def search(name: str, request: SearchRequest) -> Response:
        """Find the documents that answer a query best.

        To list documents, send `where`, `sort` or `facets` without a query and a vector.
        """
        index = copy(catalog.find(name).ready_index())  # which stays at its commit
        return await catalog.run(lambda: json_answer(answer(index, name, request)))

    @routes.get("/indexes", tags=["indexes"], response_model=IndexesAnswer)
    async def indexes() -> Response:
        """List the indexes with their facts."""
        answers = [await facts_of(catalog, served) for served in catalog.indexes.values()]
        return json_answer({"indexes": answers})

    @routes.get("/indexes/{name}", tags=["indexes"], response_model=IndexAnswer)
    async def index(name: str) -> Response:
        """Show the facts of an index."""
        return json_answer(await facts_of(catalog, catalog.find(name)))

    @routes.get(
        "/indexes/{name}/documents/{id:document}",
        tags=["documents"],
        response_model=Document,
    )
    async def document(name: str, id: str) -> Response:  # noqa: A002 - as the path names it
        """Show a document. The id is the rest of the path, percent-encoded."""
        opened = catalog.find(name).ready_index()
        return await catalog.run(lambda: json_answer(document_of(opened, name, id)))

    @routes.post("/words", tags=["words"], response_model=WordsAnswer)
    async def words(request: WordsRequest) -> Response:
        """Show the words of a text, as the model of an index makes them."""
        opened = catalog.find(request.index).ready_index()
        return await catalog.run(
            lambda: json_answer(words_of(known_words(opened, request.index), request.text))
        )

    @routes.get("/indexes/{name}/vocabulary", tags=["words"], response_model=dict[str, Any])
    async def vocabulary(
        name: str,
        prefix: Annotated[
            str, Parameter(max_length=200, description="The beginning of the entries.")
        ] = "",
        offset: Annotated[int, Parameter(ge=0, le=1 << 32, description="Entries to skip.")] = 0,
        limit: Annotated[
            int, Parameter(ge=1, le=1_000, description="Maximum number of entries.")
        ] = PAGE,
    ) -> Response:
        """List the entries of the model's vocabulary that begin with a prefix, sorted.

        Markers of subword pieces do not count: `the` finds `▁the`. The answer has `total` (the
        number of all entries), `matching` (of those with the prefix), `offset`, and `entries`, each
        with `id` and `text`, in which characters that cannot be printed are escaped.
        """
        entries = known_words(catalog.find(name).ready_index(), name).vocabulary
        order = await catalog.fact(
            name, "vocabulary", entries.fingerprint, lambda: _order_of(entries)
        )
        return json_answer(_page(entries, order, prefix, offset, limit))

    @routes.get("/indexes/{name}/report", tags=["words"], response_class=HTMLResponse)
    async def report(name: str) -> Response:
        """Show the HTML report of the unknown words of all documents."""
        opened = catalog.find(name).ready_index()
        known_words(opened, name)
        snapshot = opened.snapshot()

        def make() -> bytes:
            page = BytesIO()
            counted = count_unknown(snapshot, catalog.go_on, model=model_of(opened))
            assert counted is not None  # noqa: S101 - it has a vocabulary
            write(oov_report(counted), page, "html")
            return page.getvalue()

        return HTMLResponse(await catalog.fact(name, "report", snapshot.version, make))

    return routes


def answer(index: Index, name: str, request: SearchRequest) -> dict[str, Any]:
    """Run the search that a request describes. Return the answer for :func:`json_answer`."""
    if request.where is not None:
        check_condition(request.where)
    vector = None if request.vector is None else np.asarray(request.vector, np.float32)
    arguments = request.model_dump(exclude={"query", "vector"})
    with wrong_arguments():
        hits = index.search(request.query, vector=vector, **arguments)
    note_search(hits)
    shown = hits_for_page(hits) if request.explain else hits.members()
    return {**shown, "index": name, "commit": index.manifest.commit}


async def facts_of(catalog: Catalog, served: ServedIndex) -> dict[str, Any]:
    """Return an ``IndexAnswer``. What only an open index knows is null if it is not open."""
    index = served.index
    facts: dict[str, Any] = dict.fromkeys(IndexAnswer.model_fields) | {
        "name": served.name,
        "status": served.status,
        "problem": served.problem,
        "writable": catalog.writable,
    }
    if index is None:
        return facts
    snapshot = index.snapshot()
    version = snapshot.version, snapshot.number
    try:
        stats = await catalog.fact(served.name, "stats", version, index.stats)
    except (VocabtoolError, OSError) as error:  # the other indexes can be listed
        return {**facts, "status": "failed", "problem": message_for_clients(error)}
    known = snapshot.known_words
    settings = Settings(a=None if stats.calibration is None else stats.calibration.a)
    return {
        **facts,
        **{name: getattr(stats, name) for name in OF_STATS},
        "model": model_of(index) or None,
        "weight": settings.base_weight(known is not None and known.subword),
        "can_encode": index.can_encode,
        "has_vocabulary": known is not None,
    }


def words_of(words: Words, text: str) -> WordsAnswer:
    """Return the words of a text and, where possible, their places."""
    lookup = without_blanks(words.look_up([text]))
    distinct = as_bytes(lookup.distinct)
    pieces: list[tuple[str, ...] | None] = [None] * len(distinct)
    if lookup.spelled is not None:
        of_words = map(lookup.spelled.of_word, range(len(distinct)))
        pieces = [tuple(printable(piece) for piece, _ in word) for word in of_words]
    codes = lookup.codes.tolist()
    places = find_in_order(text, [decode(distinct[code]) for code in codes])
    answers = [
        ModelWord(
            surface=printable(distinct[code]),
            start=None if place is None else place[0],
            end=None if place is None else place[1],
            known=bool(lookup.known[code]),
            pieces=pieces[code],
        )
        for code, place in zip(codes, places, strict=True)
    ]
    return WordsAnswer(words=tuple(answers), rule=tuple(words.describe()))


def _order_of(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the positions of the entries, sorted without piece markers such as ``##``."""
    keys = plain_strings(vocabulary.stored, vocabulary.marker)
    array = pa.array([*keys], pa.large_binary())
    table = pa.table({"key": array, "at": np.arange(len(keys))})
    order = pc.sort_indices(table, [("key", "ascending"), ("at", "ascending")])
    positions: NDArray[np.int64] = order.to_numpy().astype(np.int64)
    return positions


def _page(
    vocabulary: Vocabulary, order: NDArray[np.int64], prefix: str, offset: int, limit: int
) -> dict[str, Any]:
    """Return the answer of the endpoint ``vocabulary``. ``order``: of :func:`_order_of`."""
    stored, marker = vocabulary.stored, vocabulary.marker
    prefix_bytes = prefix.encode()

    def start(position: int) -> bytes:
        return plain(stored[position], marker)[: len(prefix_bytes)]

    first = bisect_left(order, prefix_bytes, key=start)
    end = bisect_right(order, prefix_bytes, lo=first, key=start)
    ids = vocabulary.id_array()
    entries = []
    for position in order[first:end][offset : offset + limit].tolist():
        entry = stored[position]
        word = plain(entry, marker)  # decodes byte-level entries, and cuts off the marker
        text = printable(word)
        if marker is not None and word != entry:
            if marker not in PREFIXES:
                text += marker
            elif entry.startswith(marker.encode()):
                text = marker + text
        entries.append({"id": int(ids[position]), "text": text})
    counts = {"total": len(stored), "matching": end - first, "offset": offset}
    return {**counts, "entries": entries}


def model_of(index: Index) -> str:
    """Return the model's name without folders and addresses; empty if there is no model."""
    prefix, model = split_kind(index.configuration.model or "")
    return prefix + (Path(model).name if model.startswith("/") else model.partition("@")[0])
