"""The HTTP application: its endpoints and their descriptions.

FastAPI uses the models in ``schemas.py`` to check requests and to write the OpenAPI document.
Searches run in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import numpy as np
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

import vocabtool
from vocabtool.reports.hits_page import hits_for_page
from vocabtool.search.hits import Hits
from vocabtool.serve import problems, schemas
from vocabtool.serve.catalog import Catalog
from vocabtool.serve.guard import Guard, Protection
from vocabtool.serve.limits import check_condition
from vocabtool.serve.observe import Metrics, Observer, observe_routes
from vocabtool.serve.page import page_routes
from vocabtool.serve.problems import ServeError, wrong_arguments
from vocabtool.serve.reads import FactCache, read_routes
from vocabtool.serve.request_facts import note_search
from vocabtool.serve.schemas import REFUSED, SearchRequest, json_answer
from vocabtool.serve.writes import MAX_HELD, Writes


class Application(FastAPI):
    """A FastAPI application whose OpenAPI document also describes errors and keys."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            problems.describe(document, has_keys=self.state.protection.keys is not None)
        return super().openapi()


def application(
    catalog: Catalog, protection: Protection | None = None, *, log_texts: bool = False
) -> FastAPI:
    """Return the application that serves the indexes of a catalog.

    ``log_texts``: whether logs may contain queries.
    """
    protection = protection or Protection()
    writes = Writes(catalog, max(MAX_HELD, protection.limits.documents_body))
    kept = FactCache()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with catalog.lifespan():
            yield {"limits": protection.limits}  # for each connection
            await asyncio.to_thread(writes.close)
            kept.stops = True

    app = Application(
        title="vocabtool",
        summary="Hybrid search in which words that the model does not know weigh more.",
        version=vocabtool.__version__,
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts from other hosts
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,  # or the header Host decides where to
    )
    app.state.protection = protection
    app.add_exception_handler(RequestValidationError, problems.of_invalid_request)
    app.add_exception_handler(HTTPException, problems.of_refusal)
    app.add_exception_handler(vocabtool.VocabtoolError, problems.of_error)
    app.add_middleware(Guard, protection=protection)
    if protection.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=protection.origins,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key"),
            expose_headers=("Retry-After",),
        )
    app.include_router(search_routes(catalog))
    app.include_router(writes.routes())
    app.include_router(read_routes(catalog, kept))
    app.include_router(page_routes())
    metrics = Metrics(catalog)
    app.include_router(observe_routes(catalog, metrics))
    app.add_middleware(Observer, metrics=metrics, log_texts=log_texts)  # the last is outermost
    return app


def search_routes(catalog: Catalog) -> APIRouter:
    """Return the search endpoint."""
    routes = APIRouter(prefix="/v1/indexes/{name}", tags=["search"], responses=REFUSED)

    @routes.post(
        "/search",
        summary="Search an index",
        response_model=schemas.SearchAnswer | schemas.ManySearchAnswer,
    )
    async def search(name: str, request: SearchRequest) -> Response:
        """Find the documents that answer a query best, or several queries at once.

        To list documents, send `where`, `sort` or `facets` without a query and a vector.
        """
        index = copy(catalog.find(name).ready_index())  # which stays at its commit
        return await catalog.run(lambda: json_answer(answer(index, name, request)))

    return routes


def answer(index: vocabtool.Index, name: str, request: SearchRequest) -> dict[str, Any]:
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
