"""Run the application with uvicorn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from vocabtool.errors import VocabtoolError
from vocabtool.serve.application import application
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.system.messages import tell


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of ``vocabtool serve``.

    ``indexes``: folders by name. ``model``: arguments of ``Index.open`` for all indexes.
    """

    indexes: Mapping[str, Path]
    host: str = "127.0.0.1"
    port: int = 8765
    model: Mapping[str, Any] = field(default_factory=dict)


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
    app = application(Catalog(indexes, options.model))
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    Server(config).run()
