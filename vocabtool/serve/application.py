"""The HTTP application: its endpoints and their descriptions.

FastAPI, because it checks requests against typed models and writes the OpenAPI document from the
same models. Searches run in threads beside the event loop: FAISS and tantivy release the GIL.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import Any, Final

import numpy as np
import orjson
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import vocabtool
from vocabtool.serve import problems, schemas
from vocabtool.serve.catalog import Catalog
from vocabtool.serve.schemas import Problem, SearchRequest
from vocabtool.serve.writes import Writes

REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": Problem, "description": told}
    for code, told in {
        400: "The request is wrong; `detail` says how.",
        404: "There is no such index or document.",
        429: "Too many requests; `Retry-After` says when to try again.",
        503: "The index or its model is not open; `Retry-After` says when to try again.",
    }.items()
}


def json_answer(content: Any, status: int = 200) -> Response:
    """Return an answer as JSON. Nothing is validated: the answer was made by our own types."""
    return Response(orjson.dumps(content), status, media_type="application/json")


def application(catalog: Catalog) -> FastAPI:
    """Return the application that serves these indexes."""
    writes = Writes(catalog)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(catalog.keep_open())
        yield
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        await asyncio.to_thread(writes.close)
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
    app.include_router(writes.routes())
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
        index = copy(catalog.find(name).opened())  # which stays at its commit
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
        return {**found.to_dict(), "index": name, "commit": commit}
    if request.query is not None or request.vector is not None or request.cursor is not None:
        raise ValueError("pass queries without query, vector and cursor")
    del asked["cursor"]
    results = index.search_many(request.queries, vectors=request.vectors, threads=1, **asked)
    return {"results": [each.to_dict() for each in results], "index": name, "commit": commit}
