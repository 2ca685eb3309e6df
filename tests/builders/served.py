"""A real server on a free port of this machine, in a thread of the test's process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from vocabtool.serve.application import application
from vocabtool.serve.catalog import Catalog, ServedIndex
from vocabtool.serve.server import settings


@contextmanager
def serving(
    folders: Mapping[str, Path], *, writable: bool = False, **options: Any
) -> Iterator[httpx.Client]:
    """Serve indexes; give a client when they are open."""
    served = {name: ServedIndex(name, path) for name, path in folders.items()}
    catalog = Catalog(served, writable=writable)
    server = uvicorn.Server(settings(application(catalog, **options), port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started or not catalog.is_ready:
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
