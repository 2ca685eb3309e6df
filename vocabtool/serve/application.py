"""The HTTP application: its endpoints and their descriptions.

FastAPI, because it checks requests against typed models and writes the OpenAPI document from the
same models. Searches run in threads beside the event loop: FAISS and tantivy release the GIL.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import vocabtool
from vocabtool.serve import problems, schemas
from vocabtool.serve.catalog import Catalog
from vocabtool.serve.measured import note_search
from vocabtool.serve.observe import Metrics, Observer, observe_routes
from vocabtool.serve.reads import Kept, read_routes
from vocabtool.serve.schemas import REFUSED, SearchRequest, json_answer


def application(catalog: Catalog, *, log_texts: bool = False) -> FastAPI:
    """Return the application that serves these indexes.

    ``log_texts``: whether logs may contain queries.
    """

    kept = Kept()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(catalog.keep_open())
        yield
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        kept.stops = True
        await asyncio.to_thread(catalog.close)

    app = FastAPI(
        title="vocabtool",
        summary="Hybrid search in which words that the model does not know weigh more.",
        version=vocabtool.__version__,
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts from other hosts
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.catalog = catalog
    app.add_exception_handler(RequestValidationError, problems.of_invalid_request)
    app.add_exception_handler(HTTPException, problems.of_refusal)
    for kind in (vocabtool.VocabtoolError, ValueError, TypeError, Exception):
        app.add_exception_handler(kind, problems.of_error)
    app.include_router(search_routes(catalog))
    app.include_router(read_routes(catalog, kept))
    metrics = Metrics(catalog)
    app.include_router(observe_routes(catalog, metrics))
    app.add_middleware(Observer, metrics=metrics, log_texts=log_texts)  # the last is outermost
    return app


def search_routes(catalog: Catalog) -> APIRouter:
    """Return the endpoint that searches."""
    routes = APIRouter(prefix="/v1/indexes/{name}", tags=["search"], responses=REFUSED)

    @routes.post(
        "/search",
        summary="Search an index",
        response_model=schemas.SearchAnswer | schemas.ManySearchAnswer,
    )
    async def search(name: str, request: SearchRequest) -> Response:
        """Find the documents that answer a query best, or several queries at once.

        Without a query and a vector, but with `where`, `sort` or `facets`, documents are listed.
        """
        index = catalog.find(name).opened()
        return await catalog.run(lambda: json_answer(answer(index, name, request)))

    return routes


def answer(index: vocabtool.Index, name: str, request: SearchRequest) -> dict[str, Any]:
    """Search and return the answer for JSON."""
    asked = request.arguments()
    commit = index.manifest.commit
    if request.queries is None:
        if request.vectors is not None:
            raise ValueError("vectors belong to queries; for one query pass vector")
        vector = None if request.vector is None else np.asarray(request.vector, np.float32)
        found = index.search(request.query, vector=vector, **asked)
        note_search([found])
        return {**found.to_dict(), "index": name, "commit": commit}
    if request.query is not None or request.vector is not None or request.cursor is not None:
        raise ValueError("pass queries without query, vector and cursor")
    del asked["cursor"]
    results = index.search_many(request.queries, vectors=request.vectors, threads=1, **asked)
    note_search(results)
    return {"results": [each.to_dict() for each in results], "index": name, "commit": commit}
