"""Answers as JSON; answers to errors are problem documents (RFC 9457) with a status and a text."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from vocabtool.errors import (
    FolderInUse,
    InvalidCondition,
    InvalidFile,
    NoSpace,
    NotFound,
    NoVocabulary,
    OtherModel,
    VocabtoolError,
)
from vocabtool.keywords.cutter import text_in_utf8
from vocabtool.system.own_files import to_json

if TYPE_CHECKING:
    from starlette.requests import Request

RETRY_SECONDS: Final = 1
MEDIA_TYPE: Final = "application/problem+json"
METHODS: Final = ("GET", "POST", "PUT", "DELETE")
MAX_PLACE: Final = 100  # characters of the name of a wrong member
MAX_SHOWN: Final = 10  # faults of a request that are shown
# Limits of more than one endpoint or tool; all others stand at their fields.
MAX_QUERY: Final = 10_000  # characters
MAX_DEPTH: Final = 10_000
MAX_NAME: Final = 1_000  # characters of a field's name or of an id
MAX_TEXT: Final = 100_000  # characters of a text whose words are shown or counted
LOG: Final = logging.getLogger("vocabtool.serve")

REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    code: {"description": description}
    for code, description in {
        400: "The request is wrong; `detail` says how.",
        401: "The server wants a key, and the request has none that is valid.",
        403: "The key may only read, or the request comes from a page of another site.",
        404: "There is no such index or document.",
        413: "The body of the request is too long.",
        415: "The body of the request is not JSON.",
        429: "Too many requests; `Retry-After` says when to try again.",
        503: "The index is not open, or the server or its model failed; `Retry-After` says when "
        "to try again.",
        504: "The request took too long; ask for less.",
    }.items()
}
PROBLEM: Final = {
    "description": "A problem document as in RFC 9457. `detail`: what is wrong, and what to do.",
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail")},
        "status": {"type": "integer"},
    },
    "required": ["type", "title", "status", "detail"],
}

ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"`,;]*[^\s'\"`,;:.)]")
# As libpq names the server of an engine.
SERVER: Final = re.compile(r'at "[^"]*"(?: \([^)]*\))?, port \d+|on socket "[^"]*"')
PATH: Final = re.compile(r"(?<![\w./:>-])/(?:[^/\s'\"`,;:]+/)*([^/\s'\"`,;:]+)/?")


class ServeError(VocabtoolError):
    """A request was refused. The answer has this ``status`` and these ``headers``."""

    def __init__(
        self, what: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, **headers: str
    ) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(what)


def not_ready(what: str) -> ServeError:
    """Return the error of an index or a model that is not open yet, or cannot be opened."""
    return ServeError(what, HTTPStatus.SERVICE_UNAVAILABLE)


@contextmanager
def wrong_arguments() -> Iterator[None]:
    """Turn a ``ValueError`` or ``TypeError`` that is not ours into a :class:`ServeError`."""
    try:
        yield
    except VocabtoolError:  # its class says whose fault it is
        raise
    except (ValueError, TypeError) as error:
        raise ServeError(str(error)) from error


STATUSES: Final[dict[type[Exception], HTTPStatus]] = {
    **dict.fromkeys((FolderInUse, OtherModel), HTTPStatus.CONFLICT),
    # Files of the server, not of the request.
    **dict.fromkeys((InvalidFile, NoSpace, NotFound), HTTPStatus.SERVICE_UNAVAILABLE),
    NoVocabulary: HTTPStatus.NOT_FOUND,
}


def message_for_clients(error: Exception) -> str:
    """Return the message of an error in the form that clients may read.

    If the message may name files of the server, addresses are removed, and only the last part of
    each absolute path is kept. If this shortens the message, the full message is logged. A plain
    :class:`VocabtoolError` is not logged, because it may quote a text.
    """
    message = str(error)
    is_of_files = isinstance(error, (*STATUSES, OSError))
    if isinstance(error, ServeError) or not (is_of_files or type(error) is VocabtoolError):
        return message
    shown = without_folders(message)
    if is_of_files and shown != message:
        LOG.warning("a request failed: %s", message)
    return shown


def without_folders(message: str) -> str:
    """Replace addresses by ``[address]``, and each absolute path by its last part."""
    return PATH.sub(r"\1", SERVER.sub("[address]", ADDRESS.sub("[address]", message)))


def json_answer(content: Any) -> Response:
    """Return an answer as JSON. Dataclasses become objects."""
    try:
        body = orjson.dumps(content)
    except orjson.JSONEncodeError:  # a field has bytes that are not UTF-8
        body = text_in_utf8(json.dumps(to_json(content), ensure_ascii=False)).encode()
    return Response(body, media_type="application/json")


def problem(
    status: int, detail: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return an answer with a problem document. ``more``: further members of the document."""
    status = HTTPStatus(status)
    members = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    headers = dict(headers or {})
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers.setdefault("Retry-After", str(RETRY_SECONDS))
    content = orjson.dumps(members | more)
    return Response(content, status, headers, MEDIA_TYPE)


def of_error(request: Request, error: Exception) -> Response:
    """Return the problem document of an error. Log the error if the server failed.

    FastAPI raises ``RequestValidationError`` for a request that does not match its schema, and
    Starlette ``HTTPException`` for an unknown path or a method that is not allowed.
    """
    if isinstance(error, RequestValidationError):
        return problem(HTTPStatus.BAD_REQUEST, describe_faults([*error.errors()]))
    if isinstance(error, HTTPException):
        path, headers, detail = request.scope["path"], dict(error.headers or {}), error.detail
        if error.status_code == HTTPStatus.NOT_FOUND:
            detail = f"no such path: {path:.100}; see /openapi.json"
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            methods = {
                method
                for method in METHODS
                for route in request.app.routes
                if route.matches({**request.scope, "method": method})[0] is Match.FULL
            }
            allowed = headers["Allow"] = ", ".join(sorted(methods))
            detail = f"{request.method} is not allowed for {path:.100}; allowed: {allowed}"
        return problem(error.status_code, detail, headers)
    if isinstance(error, ServeError):
        return problem(error.status, str(error), error.headers)
    if isinstance(error, InvalidCondition):
        return problem(HTTPStatus.BAD_REQUEST, str(error), position=error.position)
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return problem(status, message_for_clients(error))
    # The root itself is raised when the server or its encoder fails, and its kinds for requests.
    is_ours = isinstance(error, VocabtoolError)
    if is_ours and type(error) is not VocabtoolError:
        return problem(HTTPStatus.BAD_REQUEST, message_for_clients(error))
    LOG.exception("%s %s failed", request.method, request.scope["path"], exc_info=error)
    if is_ours:
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, message_for_clients(error))
    detail = "an error of the server; its log has the details"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def describe_faults(faults: list[Any]) -> str:
    """Return a text about the first ``MAX_SHOWN`` errors that pydantic found in a request."""
    shown = []
    for fault in faults[:MAX_SHOWN]:
        is_extra = fault["type"] == "extra_forbidden"
        what = "there is no such member" if is_extra else fault["msg"]
        place = ".".join(map(str, fault["loc"]))
        shown.append(f"{place[:MAX_PLACE]}: {what}")
    message = "; ".join(shown)
    if len(faults) > MAX_SHOWN:
        message += f"; and {len(faults) - MAX_SHOWN:,} more"
    return message


def describe(document: dict[str, Any], *, has_keys: bool) -> None:
    """Correct what OpenAPI says about errors and keys. ``has_keys``: whether clients need a key."""
    # FastAPI describes all answers as application/json, and status 422 for wrong requests.
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            for status, answer in operation["responses"].items():
                if status >= "400":
                    schema = {"$ref": "#/components/schemas/Problem"}
                    answer["content"] = {MEDIA_TYPE: {"schema": schema}}
    if has_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
