"""Endpoints that read an index: searches, facts, documents, words, vocabulary and report."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Query
from numpy.typing import NDArray
from starlette.responses import HTMLResponse, Response

from vocabtool.documents.batch import Document
from vocabtool.errors import VocabtoolError
from vocabtool.formats.files import split_kind
from vocabtool.index import contents
from vocabtool.index.contents import IndexStats
from vocabtool.index.index import Index
from vocabtool.oov.counter import OovCounter
from vocabtool.reports.hits import hits_for_page
from vocabtool.reports.oov import oov_report
from vocabtool.reports.report import write
from vocabtool.search.hits import Hits
from vocabtool.search.settings import Settings
from vocabtool.serve.catalog import (
    Catalog,
    ServedIndex,
    document_of,
    known_words,
    note_search,
)
from vocabtool.serve.guard import check_condition
from vocabtool.serve.problems import NotReady, ServeError, told_outside, wrong_arguments
from vocabtool.serve.schemas import (
    REFUSED,
    Entry,
    IndexAnswer,
    IndexesAnswer,
    ManySearchAnswer,
    ModelWord,
    OovRequest,
    SearchAnswer,
    SearchRequest,
    VocabularyAnswer,
    WordsAnswer,
    WordsRequest,
    json_answer,
)
from vocabtool.tokenization.lookup import find_in_order, without_blanks
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import PREFIXES, Vocabulary, decode, plain, plain_strings, printable

PAGE: Final = 100  # entries of a vocabulary by default
OF_STATS: Final = tuple(  # not the paths of sources
    {field.name for field in fields(IndexAnswer)} & {field.name for field in fields(IndexStats)}
)


@dataclass
class FactCache:
    """Computes facts about indexes once per commit. ``stops``: whether the server is stopping."""

    stops: bool = False
    _held: dict[tuple[str, str], tuple[object, asyncio.Future[Any]]] = field(default_factory=dict)

    async def get(self, index: str, what: str, version: object, make: Callable[[], Any]) -> Any:
        """Return the result of ``make`` for this version of an index. The result is kept.

        If the result for another version is being computed, wait for that result and return it.
        """
        held = self._held.get((index, what))
        if held is None or (held[1].done() and (held[0] != version or held[1].exception())):
            work = asyncio.get_running_loop().run_in_executor(None, make)
            held = self._held[index, what] = version, work
        return await asyncio.shield(held[1])  # other requests may wait for it

    def go_on(self, *_: object) -> None:
        """Raise :class:`NotReady` if the server is stopping."""
        if self.stops:
            raise NotReady("the server is stopping")


def read_routes(catalog: Catalog, cache: FactCache) -> APIRouter:
    """Return the endpoints. ``cache``: a cache for their answers."""
    routes = APIRouter(prefix="/v1", responses=REFUSED)

    @routes.post(
        "/indexes/{name}/search",
        tags=["search"],
        summary="Search an index",
        response_model=SearchAnswer | ManySearchAnswer,
    )
    async def search(name: str, request: SearchRequest) -> Response:
        """Find the documents that answer a query best, or several queries at once.

        To list documents, send `where`, `sort` or `facets` without a query and a vector.
        """
        index = copy(catalog.find(name).ready_index())  # which stays at its commit
        return await catalog.run(lambda: json_answer(answer(index, name, request)))

    @routes.get("/indexes", tags=["indexes"], response_model=IndexesAnswer)
    async def indexes() -> Response:
        """List the indexes with their facts."""
        answers = [await facts_of(catalog, each, cache) for each in catalog.indexes.values()]
        return json_answer(IndexesAnswer(indexes=tuple(answers)))

    @routes.get("/indexes/{name}", tags=["indexes"], response_model=IndexAnswer)
    async def index(name: str) -> Response:
        """Show the facts of an index."""
        return json_answer(await facts_of(catalog, catalog.find(name), cache))

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

    @routes.post("/oov", tags=["words"], response_model=dict[str, Any])
    async def oov(request: OovRequest) -> Response:
        """Report which words of some texts the model of an index does not know."""
        opened = catalog.find(request.index).ready_index()

        def report() -> Response:
            counter = OovCounter(known_words(opened, request.index))
            counter.count([pa.array(request.texts, pa.string())], threads=1)
            return json_answer(oov_report(counter.report(model=model_of(opened))).data())

        return await catalog.run(report)

    @routes.get("/indexes/{name}/vocabulary", tags=["words"], response_model=VocabularyAnswer)
    async def vocabulary(
        name: str,
        prefix: Annotated[
            str, Query(max_length=200, description="The beginning of the entries.")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=1 << 32, description="Entries to skip.")] = 0,
        limit: Annotated[
            int, Query(ge=1, le=1_000, description="Maximum number of entries.")
        ] = PAGE,
    ) -> Response:
        """List the entries of the model's vocabulary that begin with a prefix.

        Markers of subword pieces do not count: `the` finds `▁the`.
        """
        held = known_words(catalog.find(name).ready_index(), name).vocabulary
        found = await cache.get(
            name, "vocabulary", held.fingerprint, lambda: SortedVocabulary.of(held)
        )
        return json_answer(found.page(prefix, offset, limit))

    @routes.get("/indexes/{name}/report", tags=["words"], response_class=HTMLResponse)
    async def report(name: str) -> Response:
        """Show the HTML report of the unknown words of all documents."""
        opened = catalog.find(name).ready_index()
        known_words(opened, name)
        snapshot = opened.snapshot()

        def make() -> bytes:
            page = BytesIO()
            counted = contents.count_unknown(snapshot, cache.go_on, model=model_of(opened))
            assert counted is not None  # noqa: S101 - it has a vocabulary
            write(oov_report(counted), page, "html")
            return page.getvalue()

        return HTMLResponse(await cache.get(name, "report", snapshot.version, make))

    return routes


def answer(index: Index, name: str, request: SearchRequest) -> dict[str, Any]:
    """Run the search that a request describes. Return the answer as a dictionary for JSON."""
    if request.where is not None:
        check_condition(request.where)
    asked = request.arguments()
    as_json = hits_for_page if request.explain else Hits.to_dict
    commit = index.manifest.commit
    if request.queries is None:
        if request.vectors is not None:
            raise ServeError("'vectors' needs 'queries'; for a single query, pass 'vector'")
        vector = None if request.vector is None else np.asarray(request.vector, np.float32)
        with wrong_arguments():
            found = index.search(request.query, vector=vector, **asked)
        note_search([found])
        return {**as_json(found), "index": name, "commit": commit}
    if request.query is not None or request.vector is not None or request.offset:
        raise ServeError("queries cannot be combined with query, vector or offset")
    del asked["offset"]
    dim = index.configuration.dim
    for place, each in enumerate(request.vectors or ()):
        if len(each) != dim:
            raise ServeError(f"vectors.{place}: wanted {dim:,} numbers, got {len(each):,}")
    with wrong_arguments():
        results = index.search_many(request.queries, vectors=request.vectors, threads=1, **asked)
    note_search(results)
    return {"results": [as_json(each) for each in results], "index": name, "commit": commit}


async def facts_of(catalog: Catalog, served: ServedIndex, cache: FactCache) -> IndexAnswer:
    """Return the facts of an index. If the index is not open, return only its status."""
    index = served.index
    answer = IndexAnswer(
        name=served.name,
        status=served.status,
        problem=served.problem,
        writable=catalog.writable,
    )
    if index is None:
        return answer
    snapshot = index.snapshot()
    version = snapshot.version, snapshot.number
    try:
        stats = await cache.get(served.name, "stats", version, index.stats)
    except (VocabtoolError, OSError) as error:  # the other indexes can be listed
        return replace(answer, status="failed", problem=told_outside(error))
    known = snapshot.known_words
    settings = Settings(a=None if stats.calibration is None else stats.calibration.a)
    facts = {name: getattr(stats, name) for name in OF_STATS} | {
        "model": model_of(index) or None,
        "verified": index.verified,  # the cached one may be older
        "weight": settings.weight(known is not None and known.subword),
        "can_encode": index.can_encode,
        "has_vocabulary": known is not None,
    }
    return replace(answer, **facts)


def words_of(words: Words, text: str) -> WordsAnswer:
    """Return the words of a text and, where possible, their places."""
    lookup = without_blanks(words.look_up([text]))
    distinct = as_bytes(lookup.distinct)
    pieces: list[tuple[str, ...] | None] = [None] * len(distinct)
    if lookup.spelled is not None:
        of_words = map(lookup.spelled.of_word, range(len(distinct)))
        pieces = [tuple(printable(piece) for piece, _ in each) for each in of_words]
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


@dataclass(frozen=True)
class SortedVocabulary:
    """A vocabulary whose entries are sorted. Piece markers such as ``##`` are ignored.

    ``order``: for each sorted entry, its position in the vocabulary; int64, shape (n,). Equal
    entries are in the order of their positions.
    """

    vocabulary: Vocabulary
    order: NDArray[np.int64]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> SortedVocabulary:
        """Sort a vocabulary."""
        keys = plain_strings(vocabulary.stored, vocabulary.marker)
        array = pa.array([*keys], pa.large_binary())
        table = pa.table({"key": array, "at": np.arange(len(keys))})
        order = pc.sort_indices(table, [("key", "ascending"), ("at", "ascending")])
        return cls(vocabulary, order.to_numpy().astype(np.int64))

    def page(self, prefix: str, offset: int, limit: int) -> VocabularyAnswer:
        """Return entries with a prefix.

        - ``offset``: number of entries to skip.
        - ``limit``: maximum number of entries.
        """
        held, wanted = self.vocabulary, prefix.encode()

        def start(place: int) -> bytes:
            return plain(held.stored[place], held.marker)[: len(wanted)]

        first = bisect_left(self.order, wanted, key=start)
        end = bisect_right(self.order, wanted, lo=first, key=start)
        shown = self.order[first:end][offset : offset + limit].tolist()
        ids = held.id_array()
        entries = []
        for at in shown:
            entry = held.stored[at]
            text = plain(entry, held.marker)  # byte-level entries are decoded
            shown_text = printable(text)
            if held.marker is None or text == entry:
                shown_text = printable(entry)
            elif held.marker not in PREFIXES:
                shown_text += held.marker
            elif entry.startswith(held.marker.encode()):
                shown_text = held.marker + shown_text
            entries.append(Entry(id=int(ids[at]), text=shown_text))
        return VocabularyAnswer(
            total=len(held), matching=end - first, offset=offset, entries=tuple(entries)
        )


def model_of(index: Index) -> str:
    """Return the model's name without folders and addresses; empty if there is no model."""
    prefix, model = split_kind(index.configuration.model or "")
    return prefix + (Path(model).name if model.startswith("/") else model.partition("@")[0])
