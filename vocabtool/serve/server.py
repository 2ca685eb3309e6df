"""Run the application with uvicorn, in one process or in several.

Several worker processes accept connections on the same socket. Each worker opens the indexes
itself. The workers share the memory of read-only mapped files.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Final, NoReturn

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from vocabtool.errors import VocabtoolError
from vocabtool.serve.application import application
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.serve.connection import Connection
from vocabtool.serve.guard import Protection
from vocabtool.serve.observe import print_logs
from vocabtool.system.messages import tell

BACKLOG: Final = 2048  # connections that wait to be accepted
HEALTH_SECONDS: Final = 60  # a worker that says nothing for so long is replaced


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of ``vocabtool serve``.

    - ``indexes``: the path or the address of each index, by the index's name.
    - ``model``: arguments of ``Index.open`` for every index.
    - ``protection``: who may send requests, and the limits of requests.
    - ``writable``: whether requests may change the indexes. Only possible with a single worker.
    - ``workers``: number of processes that answer requests.
    - ``log_texts``: whether logs may contain queries.
    """

    indexes: Mapping[str, Path | str] = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8765
    model: Mapping[str, Any] = field(default_factory=dict)
    protection: Protection = field(default_factory=Protection)
    writable: bool = False
    workers: int = 1
    log_texts: bool = False

    def __post_init__(self) -> None:
        if self.writable and self.workers > 1:
            raise ValueError(
                f"--writable needs one worker, got --workers {self.workers}: start one server with "
                "--writable, and another one with --workers"
            )


def run(options: ServeOptions) -> None:
    """Serve until a signal arrives. Running requests are finished before the server stops."""
    print_logs(options.log_texts)
    several = options.workers > 1
    config = settings(
        partial(worker_application if several else application_of, options),
        factory=True,
        workers=options.workers,
        timeout_worker_healthcheck=HEALTH_SECONDS,
    )
    serve(config, options)


def settings(app: Any, **more: Any) -> uvicorn.Config:
    """Return the settings of uvicorn for an application. ``more``: further settings."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        **more,
    )


def serve(config: uvicorn.Config, options: ServeOptions, path: str = "") -> None:
    """Run the server, and print its address. ``path``: the path to print after the address."""
    with listen(options.host, options.port) as listening:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        tell(f"serving http://{shown}:{port}{path}; stop with Ctrl-C")
        if config.workers > 1:
            Workers(config, [listening]).run()
        else:
            signal.signal(signal.SIGTERM, end)  # uvicorn raises it again when it has stopped
            server = uvicorn.Server(config)
            server.run([listening])
            if not server.started:
                raise VocabtoolError("the server could not start: see the messages above")
            raise KeyboardInterrupt  # it has stopped, but SIGINT is ignored, as behind "&"


def end(*_: object) -> NoReturn:
    """End the process with exit code 0."""
    raise SystemExit(0)


class Workers(Multiprocess):
    """Worker processes that accept connections on the same socket."""

    was_interrupted = False

    def handle_int(self) -> None:
        self.was_interrupted = True
        super().handle_int()

    def run(self) -> None:
        """Run until a signal arrives. Raises :class:`KeyboardInterrupt` after SIGINT."""
        super().run()
        if self.was_interrupted:
            raise KeyboardInterrupt

    def terminate_all(self) -> None:
        """End the workers. Close the sockets, so that no new connection waits."""
        for each in self.sockets:
            each.close()
        super().terminate_all()


def application_of(options: ServeOptions) -> FastAPI:
    """Make the application of one process."""
    return application(catalog_of(options), options.protection, log_texts=options.log_texts)


def catalog_of(options: ServeOptions) -> Catalog:
    """Make the catalog of one process. No index is open yet."""
    indexes = {name: ServedIndex(name, folder) for name, folder in options.indexes.items()}
    waiting = options.protection.limits.waiting
    return Catalog(indexes, options.model, waiting=waiting, writable=options.writable)


def worker_application(options: ServeOptions) -> FastAPI:
    """Make the application of a worker process, which stops when its parent process ends."""
    parent = parent_process()

    def stop_with_parent() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=stop_with_parent, daemon=True).start()
    print_logs(options.log_texts)
    return application_of(options)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections.

    Raises :class:`VocabtoolError` if the server cannot use the address.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise VocabtoolError(
            f"cannot listen on {host}, port {port}: {error.strerror}; pass another --host or --port"
        ) from error
