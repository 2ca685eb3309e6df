"""Logs, health and metrics of a server. The log has a line of JSON for each request."""

from __future__ import annotations

import logging
import os
import re
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.responses import PlainTextResponse, Response

from vocabtool.serve.answers import REFUSED, json_answer
from vocabtool.serve.catalog import REQUEST_FACTS, Catalog, RequestFacts

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG: Final = logging.getLogger("vocabtool.serve.requests")
REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
CLIENT_LEFT: Final = 499  # as nginx counts requests whose client leaves before the answer
NO_ROUTE: Final = "none"  # of a request for a path that is not there
BUCKETS: Final = tuple(
    step * 10.0**power for power in range(-4, 1) for step in (1, 2.5, 5)
)  # seconds


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
        """Yield the metrics of all indexes."""
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


def observe_routes(catalog: Catalog, metrics: Metrics) -> APIRouter:
    """Return the endpoints ``/health``, ``/ready`` and ``/metrics``."""
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

    return routes


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
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        id_ = given if REQUEST_ID.fullmatch(given) else os.urandom(8).hex().encode()
        measured = RequestFacts(id_.decode())
        REQUEST_FACTS.set(measured)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id_)]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except BaseException:
            status = 500 if status == CLIENT_LEFT else status
            raise
        finally:
            ended = perf_counter()
            if measured.searched is not None:
                measured.seconds["write"] = ended - measured.searched
            measured.seconds["total"] = ended - began
            self._tell(scope, status, measured)

    def _tell(self, scope: Scope, status: int, measured: RequestFacts) -> None:
        route = getattr(scope.get("route"), "path_format", NO_ROUTE)
        self.metrics.requests.labels(route, str(status)).inc()
        for step, seconds in measured.seconds.items():
            self.metrics.steps.labels(step).observe(seconds)
        if not LOG.isEnabledFor(logging.INFO):
            return
        facts = {
            "request": measured.id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "key": scope.get("state", {}).get("key"),
            "milliseconds": {
                step: round(seconds * 1000, 3) for step, seconds in measured.seconds.items()
            },
            "hits": measured.hits,
        }
        if self.log_texts:
            facts["query"] = measured.query
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
    """Print logs to standard error from now on.

    ``log_texts``: whether the logs may contain queries and the messages of exceptions.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(log_texts))
    levels = {"vocabtool": logging.INFO, "uvicorn.error": logging.WARNING, "mcp": logging.WARNING}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
