"""Run the application with uvicorn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from vocabtool.errors import VocabtoolError
from vocabtool.serve.application import application
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.serve.connection import Connection
from vocabtool.serve.guard import Protection
from vocabtool.system.messages import tell


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of ``vocabtool serve``.

    ``indexes``: folders by name. ``model``: arguments of ``Index.open`` for all indexes.
    ``protection``: who may ask, and how much.
    ``writable``: whether requests may change the indexes; needs a single worker.
    """

    indexes: Mapping[str, Path]
    host: str = "127.0.0.1"
    port: int = 8765
    model: Mapping[str, Any] = field(default_factory=dict)
    protection: Protection = field(default_factory=Protection)
    writable: bool = False
    workers: int = 1

    def __post_init__(self) -> None:
        if self.writable and self.workers > 1:
            raise ValueError(
                f"--writable needs one worker, got --workers {self.workers}: start one server "
                "without --workers that writes, and others without --writable"
            )


class Server(uvicorn.Server):
    """Tells its address when it listens. ``path``: of what it serves there."""

    path = ""

    async def startup(self, sockets: Any = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as error:  # uvicorn has logged the reason
            where = f"{self.config.host}:{self.config.port}"
            raise VocabtoolError(f"cannot listen at {where}; choose another --port") from error
        for server in getattr(self, "servers", ()):
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                tell(f"serving http://{shown}:{port}{self.path}; stop with Ctrl-C")


def run(options: ServeOptions) -> None:
    """Serve until a signal stops it; requests that run are finished first."""
    indexes = {name: ServedIndex(name, folder) for name, folder in options.indexes.items()}
    catalog = Catalog(indexes, options.model, writable=options.writable)
    app = application(catalog, options.protection)
    Server(settings(app, host=options.host, port=options.port)).run()


def settings(app: ASGIApp, **place: Any) -> uvicorn.Config:
    """Return how uvicorn runs the application. ``place``: ``host`` and ``port``."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        **place,
    )
