"""Run the application with uvicorn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from vocabtool.serve.application import application
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.system.messages import tell


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of ``vocabtool serve``.

    ``indexes``: folders by name. ``model``: arguments of ``Index.open`` for all indexes.
    ``writable``: whether requests may change the indexes; needs a single worker.
    """

    indexes: Mapping[str, Path]
    host: str = "127.0.0.1"
    port: int = 8765
    model: Mapping[str, Any] = field(default_factory=dict)
    writable: bool = False
    workers: int = 1

    def __post_init__(self) -> None:
        if self.writable and self.workers > 1:
            raise ValueError(
                f"--writable needs one worker, got --workers {self.workers}: start one server "
                "without --workers that writes, and others without --writable"
            )


class Server(uvicorn.Server):
    """Tells its address when it listens."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in getattr(self, "servers", ()):
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                tell(f"serving http://{shown}:{port}; stop with Ctrl-C")


def run(options: ServeOptions) -> None:
    """Serve until a signal stops it; requests that run are finished first."""
    indexes = {name: ServedIndex(name, folder) for name, folder in options.indexes.items()}
    app = application(Catalog(indexes, options.model, writable=options.writable))
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    Server(config).run()
