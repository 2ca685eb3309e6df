"""The HTTP server: its application, the search page, logs and metrics, and how uvicorn runs it.

The log has a line of JSON for each request. The page uses no library and needs no build step: the
files in ``page/`` are sent unchanged.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import orjson
import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import vocabtool
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.serve import answers
from vocabtool.serve.answers import REFUSED, json_answer
from vocabtool.serve.catalog import REQUEST_FACTS, Catalog, RequestFacts, ServedIndex
from vocabtool.serve.guard import Guard, Protection
from vocabtool.serve.reads import read_routes
from vocabtool.serve.writes import write_routes
from vocabtool.system.messages import tell
from vocabtool.system.own_files import SERVER_LOCK, lock_folder

PAGE: Final = ("/", "/page/{name}")
SERVED: Final = (
    "another server with --writable serves this folder; start this one without --writable, or stop "
    "the other"
)
NOT_WRITABLE: Final = (
    "this process may not write here; start the server without --writable, or as the owner of the "
    "folder"
)
BACKLOG: Final = 2048  # connections that wait to be accepted
COLLECTION: Final = 50_000  # new objects between two collections of garbage; by default 700
LOG: Final = logging.getLogger("vocabtool.serve.requests")
REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
CLIENT_LEFT: Final = 499  # as nginx counts requests whose client leaves before the answer
NO_ROUTE: Final = "none"  # of a request for a path that is not there
BUCKETS: Final = tuple(
    step * 10.0**power for power in range(-4, 1) for step in (1, 2.5, 5)
)  # seconds


class Application(FastAPI):
    """A FastAPI application whose OpenAPI document also describes errors and keys."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            answers.describe(super().openapi(), has_keys=self.state.has_keys)
        return super().openapi()


def application(
    catalog: Catalog, protection: Protection | None = None, *, log_texts: bool = False
) -> FastAPI:
    """Return the server of a catalog. ``log_texts``: whether logs may contain queries."""
    protection = protection or Protection()

    app = Application(
        title="vocabtool",
        summary="Hybrid search in which words that the model does not know weigh more.",
        version=vocabtool.__version__,
        lifespan=catalog.lifespan,
        docs_url=None,  # their pages load scripts from other hosts
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,  # or the header Host decides where to
    )
    app.state.has_keys = protection.keys is not None
    app.add_exception_handler(RequestValidationError, answers.of_error)
    # Faster than `include_router`; reads are first, because most requests are searches.
    app.router.routes += read_routes(catalog).routes + write_routes(catalog).routes
    page = StaticFiles(directory=Path(__file__).with_name("page"))

    async def file(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        return await page.get_response(name, request.scope)

    app.router.routes += [Route(path, file, include_in_schema=False) for path in PAGE]
    watch(app, catalog, protection, log_texts=log_texts)
    return app


def watch(
    app: FastAPI, catalog: Catalog, protection: Protection, *, log_texts: bool = False
) -> None:
    """Add to an application what all servers have: its guard, logs, metrics, health, problems."""
    for kind in (HTTPException, VocabtoolError):
        app.add_exception_handler(kind, answers.of_error)
    app.add_middleware(Guard, protection=protection)
    if protection.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=protection.origins,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("Authorization", "Content-Type"),
            expose_headers=("Retry-After",),
        )
    metrics = Metrics(catalog)
    routes = APIRouter(tags=["server"])

    @routes.get("/health", response_model=dict[str, str])
    async def health() -> Response:
        """Answer as soon as the process listens."""
        return json_answer({"status": "alive"})

    @routes.get("/ready", response_model=dict[str, Any], responses={503: REFUSED[503]})
    async def ready() -> Response:
        """Answer 200 when all indexes and their models are open."""
        for served in catalog.indexes.values():
            served.ready_index()
        return json_answer({"status": "ready", "indexes": [*catalog.indexes]})

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> Response:
        """Show the metrics of this process in the text format of Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    app.include_router(routes)
    app.add_middleware(Observer, metrics=metrics, log_texts=log_texts)  # the last is outermost


# Logs and metrics.


class Metrics:
    """The Prometheus metrics of one application."""

    def __init__(self, catalog: Catalog) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "vocabtool_requests",
            "Requests by route and status.",
            ("route", "status"),
            registry=self.registry,
        )
        self.steps = Histogram(
            "vocabtool_step_seconds",
            "Time of a request by step: wait (for a thread), encode, search, write (the answer), "
            "total.",
            ("step",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        self._catalog = catalog
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        label = ("index",)
        ready, documents, commit, generation = (
            GaugeMetricFamily(f"vocabtool_index_{name}", text, labels=label)
            for name, text in (
                ("ready", "1 if the index can be searched."),
                ("documents", "Number of documents."),
                ("commit", "Number of the open commit."),
                ("generation", "Number of the open generation."),
            )
        )
        for name, served in self._catalog.indexes.items():
            index = served.index
            ready.add_metric((name,), float(index is not None))
            if index is not None:
                snapshot = index.snapshot()
                documents.add_metric((name,), snapshot.manifest.live)
                commit.add_metric((name,), snapshot.manifest.commit)
                generation.add_metric((name,), snapshot.number)
        yield from (ready, documents, commit, generation)


class Observer:
    """Middleware that logs and measures requests. It must be the outermost middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log_texts: bool = False) -> None:
        self.app = app
        self.metrics = metrics
        self.log_texts = log_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = perf_counter(), CLIENT_LEFT
        id_ = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        if not REQUEST_ID.fullmatch(id_):
            id_ = os.urandom(8).hex().encode()
        request = RequestFacts(id_.decode())
        REQUEST_FACTS.set(request)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id_)]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except BaseException:
            if status == CLIENT_LEFT:  # no answer had begun: it will be 500
                status = 500
            raise
        finally:
            ended = perf_counter()
            if request.searched is not None:
                request.seconds["write"] = ended - request.searched
            request.seconds["total"] = ended - began
            self._record(scope, status, request)

    def _record(self, scope: Scope, status: int, request: RequestFacts) -> None:
        """Count and measure a finished request, and log it."""
        route = getattr(scope.get("route"), "path_format", NO_ROUTE)
        self.metrics.requests.labels(route, str(status)).inc()
        for step, seconds in request.seconds.items():
            self.metrics.steps.labels(step).observe(seconds)
        if not LOG.isEnabledFor(logging.INFO):
            return
        facts = {
            "request": request.id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "key": scope.get("state", {}).get("key"),
            "milliseconds": {
                step: round(seconds * 1000, 3) for step, seconds in request.seconds.items()
            },
            "hits": request.hits,
        }
        if self.log_texts:
            facts["query"] = request.query
        LOG.info("request", extra={"facts": facts})


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON.

    The line contains the type and traceback of an exception. The message of the exception may quote
    a query or document, so it is included only if ``log_texts`` is true.
    """

    def __init__(self, log_texts: bool) -> None:
        super().__init__()
        self.log_texts = log_texts

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["error"] = type(error).__name__
            line["places"] = [frame.rstrip() for frame in traceback.format_tb(error.__traceback__)]
            if self.log_texts:
                line["told"] = str(error)
        return orjson.dumps(line, default=str).decode()


def print_logs(log_texts: bool) -> None:
    """Print logs on standard error, as :class:`JsonLines` formats them."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(log_texts))
    levels = {"vocabtool": logging.INFO, "uvicorn.error": logging.WARNING, "mcp": logging.WARNING}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False


# How it runs.


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of ``vocabtool serve``.

    - ``indexes``: the path or the address of each index, by the index's name.
    - ``model``: arguments of ``Index.open`` for every index.
    - ``writable``: whether requests may change the indexes.
    - ``log_texts``: whether logs may contain queries.
    """

    indexes: Mapping[str, Path | str] = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8765
    model: Mapping[str, Any] = field(default_factory=dict)
    protection: Protection = field(default_factory=Protection)
    writable: bool = False
    log_texts: bool = False

    def catalog(self) -> Catalog:
        """Return the catalog of the indexes. No index is open yet."""
        indexes = {name: ServedIndex(name, folder) for name, folder in self.indexes.items()}
        return Catalog(indexes, self.model, waiting=self.protection.waiting, writable=self.writable)


def run(options: ServeOptions) -> None:
    """Serve until a signal arrives. Running requests are finished before the server stops.

    Raises :class:`FolderInUse` if another server already writes to one of the folders, and
    :class:`NotFound` if this process may not write to a folder to which requests may write.
    """
    print_logs(options.log_texts)
    app = application(options.catalog(), options.protection, log_texts=options.log_texts)
    with ExitStack() as locks:
        for folder in options.indexes.values() if options.writable else ():
            if isinstance(folder, Path):
                # What a write changes or locks: files of a generation, and those that are locks.
                changed = map(folder.glob, ("*.lock", "generation-*", "generation-*/**/*"))
                for path in (folder, *chain.from_iterable(changed)):
                    if path.exists() and not os.access(path, os.W_OK):
                        raise NotFound(f"{path}: {NOT_WRITABLE}")
                locks.enter_context(lock_folder(folder, name=SERVER_LOCK, busy=SERVED))
        serve(settings(app), options)


def settings(app: FastAPI, port: int = 0) -> uvicorn.Config:
    """Return the settings of uvicorn. ``port``: only if uvicorn itself opens the socket."""
    return uvicorn.Config(
        app, port=port, log_config=None, access_log=False, server_header=False, ws="none"
    )


def serve(config: uvicorn.Config, options: ServeOptions, path: str = "") -> None:
    """Run the server, and print its address and ``path``, or raise :class:`VocabtoolError`."""
    host, port = options.host, options.port
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = addresses[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise VocabtoolError(
            f"cannot listen on {host}, port {port}: {error.strerror}; pass another --host or --port"
        ) from error
    with listening:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        tell(f"serving http://{shown}:{port}{path}; stop with Ctrl-C")
        # uvicorn raises the signal again when it has stopped: then the process ends with 0.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        gc.set_threshold(COLLECTION)
        server = uvicorn.Server(config)
        server.run([listening])
        if not server.started:
            raise VocabtoolError("the server could not start: see the messages above")
        raise KeyboardInterrupt  # it has stopped, but SIGINT is ignored, as behind "&"
