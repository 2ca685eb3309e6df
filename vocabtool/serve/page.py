"""The search page: the files in ``page/``, which are sent to browsers unchanged.

The page uses no library and needs no build step.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX: Final = "index.html"


def page_routes() -> APIRouter:
    """Return the routes of the page at ``/`` and of its files under ``/page/``.

    The files are read once, when this function is called.
    """
    routes = APIRouter()
    for each in files("vocabtool.serve").joinpath("page").iterdir():
        path = "/" if each.name == INDEX else f"/page/{each.name}"
        answer = _answers(each.read_bytes(), TYPES[each.name.rpartition(".")[2]])
        routes.add_route(path, answer, include_in_schema=False)
    return routes


def _answers(content: bytes, kind: str) -> Callable[[Request], Response]:
    """Return an endpoint that sends a file. A browser that already has the file gets status 304."""
    headers = {
        "Content-Type": kind,
        "ETag": f'"{sha256(content).hexdigest()[:32]}"',
        "Cache-Control": "no-cache",  # ask each time: files change with the version
    }

    def answer(request: Request) -> Response:
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return answer
