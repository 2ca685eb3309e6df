"""The HTTP server: its application, the search page, and how uvicorn runs it.

The page uses no library and needs no build step: the files in ``page/`` are sent unchanged.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

import vocabtool
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.serve import answers
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.serve.guard import Guard, Protection
from vocabtool.serve.observe import Metrics, Observer, observe_routes, print_logs
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


class Application(FastAPI):
    """A FastAPI application whose OpenAPI document also describes errors and keys."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            answers.describe(super().openapi(), has_keys=self.state.has_keys)
        return super().openapi()


def application(
    catalog: Catalog, protection: Protection | None = None, *, log_texts: bool = False
) -> FastAPI:
    """Return the application that serves the indexes of a catalog.

    ``log_texts``: whether logs may contain queries.
    """
    protection = protection or Protection()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with catalog.lifespan():
            yield

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
    app.state.has_keys = protection.keys is not None
    app.add_exception_handler(RequestValidationError, answers.of_error)
    app.include_router(write_routes(catalog))
    app.include_router(read_routes(catalog))
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
    """Add to an application what all servers have: its guard, logs, metrics and problems."""
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
    app.include_router(observe_routes(catalog, metrics))
    app.add_middleware(Observer, metrics=metrics, log_texts=log_texts)  # the last is outermost


# How it runs.


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of ``vocabtool serve``.

    - ``indexes``: the path or the address of each index, by the index's name.
    - ``model``: arguments of ``Index.open`` for every index.
    - ``protection``: who may send requests, and the limits of requests.
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
        waiting = self.protection.waiting
        return Catalog(indexes, self.model, waiting=waiting, writable=self.writable)


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
                # What a write changes: its lock, and the files of a generation.
                changed = map(folder.glob, (".lock", "generation-*", "generation-*/*"))
                for path in (folder, *chain.from_iterable(changed)):
                    if path.exists() and not os.access(path, os.W_OK):
                        raise NotFound(f"{path}: {NOT_WRITABLE}")
                locks.enter_context(lock_folder(folder, name=SERVER_LOCK, busy=SERVED))
        serve(settings(app), options)


def settings(app: FastAPI, port: int = 0) -> uvicorn.Config:
    """Return the settings of uvicorn for an application."""
    return uvicorn.Config(
        app, port=port, log_config=None, access_log=False, server_header=False, ws="none"
    )


def serve(config: uvicorn.Config, options: ServeOptions, path: str = "") -> None:
    """Run the server, and print its address. ``path``: the path to print after the address.

    Raises :class:`VocabtoolError` if the server cannot use the address or cannot start.
    """
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
        server = uvicorn.Server(config)
        server.run([listening])
        if not server.started:
            raise VocabtoolError("the server could not start: see the messages above")
        raise KeyboardInterrupt  # it has stopped, but SIGINT is ignored, as behind "&"
