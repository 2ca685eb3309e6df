"""A server of a folder's files, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer like a host without a favicon, which browsers request by themselves."""
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # a browser opens many connections at once


@contextmanager
def files_served(folder: Path) -> Iterator[str]:
    """Its address, without a slash at the end."""
    handler = partial(Handler, directory=str(folder))
    with Server(("127.0.0.1", 0), handler) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{serving.server_port}"
        finally:
            serving.shutdown()
