"""Endpoints that read an index without a search: facts, documents, words, vocabulary, report."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Query
from numpy.typing import NDArray
from starlette.responses import HTMLResponse, Response

from vocabtool.errors import VocabtoolError
from vocabtool.formats.files import split_kind
from vocabtool.index import contents
from vocabtool.index.index import Index
from vocabtool.oov.counter import OovCounter
from vocabtool.reports.oov import oov_report
from vocabtool.reports.renderers import write
from vocabtool.search.settings import Settings
from vocabtool.serve import schemas
from vocabtool.serve.catalog import Catalog, ServedIndex, document_of, known_words
from vocabtool.serve.problems import NotReady, told_outside
from vocabtool.serve.schemas import (
    MAX_ENTRIES,
    MAX_PREFIX,
    REFUSED,
    OovRequest,
    WordsRequest,
    json_answer,
)
from vocabtool.tokenization.lookup import without_blanks
from vocabtool.tokenization.mask import find_in_order
from vocabtool.tokenization.text_arrays import as_bytes
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import PREFIXES, Vocabulary, decode, plain, plain_strings, printable

PAGE: Final = 100  # entries of a vocabulary by default


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


def read_routes(catalog: Catalog, kept: FactCache) -> APIRouter:
    """Return the endpoints. ``kept``: a cache for their answers."""
    routes = APIRouter(prefix="/v1", responses=REFUSED)

    @routes.get("/indexes", tags=["indexes"], response_model=schemas.IndexesAnswer)
    async def indexes() -> Response:
        """List the indexes with their facts."""
        found = [await facts_of(catalog, each, kept) for each in catalog.indexes.values()]
        return json_answer({"indexes": found})

    @routes.get("/indexes/{name}", tags=["indexes"], response_model=schemas.IndexAnswer)
    async def index(name: str) -> Response:
        """Show the facts of an index."""
        return json_answer(await facts_of(catalog, catalog.find(name), kept))

    @routes.get(
        "/indexes/{name}/documents/{id:document}",
        tags=["documents"],
        response_model=schemas.DocumentAnswer,
    )
    async def document(name: str, id: str) -> Response:  # noqa: A002 - as the path names it
        """Show a document. The id is the rest of the path, percent-encoded."""
        opened = catalog.find(name).ready_index()
        return await catalog.run(lambda: json_answer(asdict(document_of(opened, name, id))))

    @routes.post("/words", tags=["words"], response_model=schemas.WordsAnswer)
    async def words(request: WordsRequest) -> Response:
        """Show the words of a text, as the model of an index makes them."""
        opened = catalog.find(request.index).ready_index()
        return await catalog.run(
            lambda: json_answer(words_of(known_words(opened, request.index), request.text))
        )

    @routes.post("/oov", tags=["words"], response_model=schemas.OovAnswer)
    async def oov(request: OovRequest) -> Response:
        """Report which words of some texts the model of an index does not know."""
        opened = catalog.find(request.index).ready_index()

        def report() -> Response:
            counter = OovCounter(known_words(opened, request.index))
            counter.count([pa.array(request.texts, pa.string())], threads=1)
            return json_answer(oov_report(counter.report(model=model_of(opened))).data())

        return await catalog.run(report)

    @routes.get(
        "/indexes/{name}/vocabulary", tags=["words"], response_model=schemas.VocabularyAnswer
    )
    async def vocabulary(
        name: str,
        prefix: Annotated[
            str, Query(max_length=MAX_PREFIX, description="The beginning of the entries.")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=1 << 32, description="Entries to skip.")] = 0,
        limit: Annotated[
            int, Query(ge=1, le=MAX_ENTRIES, description="Maximum number of entries.")
        ] = PAGE,
    ) -> Response:
        """List the entries of the model's vocabulary that begin with a prefix.

        Markers of subword pieces do not count: `the` finds `▁the`.
        """
        held = known_words(catalog.find(name).ready_index(), name).vocabulary
        found = await kept.get(
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
            counted = contents.count_unknown(snapshot, kept.go_on, model=model_of(opened))
            assert counted is not None  # noqa: S101 - it has a vocabulary
            write(oov_report(counted), page, "html")
            return page.getvalue()

        return HTMLResponse(await kept.get(name, "report", snapshot.version, make))

    return routes


MEMBERS: Final = tuple(schemas.IndexAnswer.model_fields)


async def facts_of(catalog: Catalog, served: ServedIndex, kept: FactCache) -> dict[str, Any]:
    """Return the facts of an index for JSON. If the index is not open, return only its status."""
    index = served.index
    facts = dict.fromkeys(MEMBERS) | {
        "name": served.name,
        "status": served.status,
        "problem": served.problem,
        "writable": catalog.writable,
    }
    if index is None:
        return facts
    snapshot = index.snapshot()
    version = snapshot.version, snapshot.number

    def count() -> contents.IndexStats:
        return index.stats()

    try:
        stats = await kept.get(served.name, "stats", version, count)
    except (VocabtoolError, OSError) as error:  # the other indexes can be listed
        return facts | {"status": "failed", "problem": told_outside(error)}
    facts |= {name: getattr(stats, name) for name in MEMBERS if hasattr(stats, name)}
    fields = [
        {"name": each.name, "kind": each.kind, "documents": each.documents, "values": each.frequent}
        for each in stats.fields
    ]
    known = snapshot.known_words
    settings = Settings(a=None if stats.calibration is None else stats.calibration.a)
    return facts | {
        "fields": fields,
        "model": model_of(index) or None,
        "calibration": members(stats.calibration, schemas.CalibrationAnswer),
        "verified": members(index.verified, schemas.VerifiedAnswer),
        "weight": settings.weight(known is not None and known.subword),
        "can_encode": index.can_encode,
        "has_vocabulary": known is not None,
    }


def members(value: object, answer: type[schemas.Answer]) -> dict[str, Any] | None:
    """Return the attributes of ``value`` that are members of ``answer``.

    If ``value`` is ``None``, return ``None``.
    """
    if value is None:
        return None
    return {name: getattr(value, name) for name in answer.model_fields}


def words_of(words: Words, text: str) -> dict[str, Any]:
    """Return the words of a text and, where possible, their places, as data for JSON."""
    found = without_blanks(words.look_up([text]))
    distinct = as_bytes(found.distinct)
    pieces: list[list[str] | None] = [None] * len(distinct)
    if found.spelled is not None:
        of_words = map(found.spelled.of_word, range(len(distinct)))
        pieces = [[printable(piece) for piece, _ in each] for each in of_words]
    codes = found.codes.tolist()
    written = [decode(distinct[code]) for code in codes]
    places = find_in_order(text, written)
    return {
        "words": [
            {
                "surface": printable(distinct[code]),
                "start": None if place is None else place.start,
                "end": None if place is None else place.end,
                "known": bool(found.known[code]),
                "pieces": pieces[code],
            }
            for code, place in zip(codes, places, strict=True)
        ],
        "rule": [*words.describe()],
    }


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

    def page(self, prefix: str, offset: int, limit: int) -> dict[str, Any]:
        """Return entries with a prefix, as data for JSON.

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
        return {
            "total": len(held),
            "matching": end - first,
            "offset": offset,
            "entries": [{"id": int(ids[at]), "text": shown_entry(held, at)} for at in shown],
        }


def shown_entry(vocabulary: Vocabulary, position: int) -> str:
    """Return the entry at a position as readable text. Byte-level entries are decoded."""
    entry, marker = vocabulary.stored[position], vocabulary.marker
    text = plain(entry, marker)
    if marker is None or text == entry:
        return printable(entry)
    has_marker = entry.startswith(marker.encode())
    if marker in PREFIXES:
        return f"{marker if has_marker else ''}{printable(text)}"
    return f"{printable(text)}{marker}"


def model_of(index: Index) -> str:
    """Return the model's name without folders and addresses; empty if there is no model."""
    prefix, model = split_kind(index.configuration.model or "")
    return prefix + (Path(model).name if model.startswith("/") else model.partition("@")[0])
