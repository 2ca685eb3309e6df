"""Problem documents (RFC 9457): which status an error gets, and what the answer says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from vocabtool.errors import (
    ChangedModel,
    FolderInUse,
    InvalidCondition,
    InvalidFile,
    NotFound,
    NoVocabulary,
    OtherModel,
    VocabtoolError,
)
from vocabtool.serve.measured import MEASURED

if TYPE_CHECKING:
    from starlette.requests import Request

RETRY_SECONDS: Final = 1
MAX_SHOWN: Final = 10  # faults of a request that are shown
LOG: Final = logging.getLogger("vocabtool.serve")


class ServeError(VocabtoolError):
    """An error that only a server has; ``status``: its HTTP status."""

    status = HTTPStatus.BAD_REQUEST


class UnknownIndex(ServeError):
    """No index has the name of a request."""

    status = HTTPStatus.NOT_FOUND


class UnknownDocument(ServeError):
    """No document has the id of a request."""

    status = HTTPStatus.NOT_FOUND


class NotReady(ServeError):
    """An index or its model is not open yet, or cannot be opened."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Busy(ServeError):
    """Too many requests run or wait."""

    status = HTTPStatus.TOO_MANY_REQUESTS


STATUSES: Final[dict[type[Exception], HTTPStatus]] = {
    **dict.fromkeys((FolderInUse, OtherModel, ChangedModel), HTTPStatus.CONFLICT),
    # Files of the server, not of the request.
    **dict.fromkeys((InvalidFile, NotFound), HTTPStatus.SERVICE_UNAVAILABLE),
    NoVocabulary: HTTPStatus.NOT_FOUND,
}


def problem(
    status: int, detail: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return a problem document."""
    status = HTTPStatus(status)
    given = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    headers = dict(headers or {})
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers.setdefault("Retry-After", str(RETRY_SECONDS))
    content = orjson.dumps(given | more)
    return Response(content, status, headers, "application/problem+json")


def of_error(request: Request, error: Exception) -> Response:
    """Return the problem document of an error that a request caused."""
    if isinstance(error, ServeError):
        return problem(error.status, str(error))
    if isinstance(error, InvalidCondition):
        return problem(HTTPStatus.BAD_REQUEST, str(error), position=error.position)
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return problem(status, str(error))
    if isinstance(error, VocabtoolError | ValueError | TypeError):
        return problem(HTTPStatus.BAD_REQUEST, str(error))
    LOG.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    detail, measured = "an error of the server; its log has the details", MEASURED.get()
    headers = {} if measured is None else {"X-Request-Id": measured.id}
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail, headers)


def of_refusal(_: Request, error: Exception) -> Response:
    """Return the problem document of what Starlette refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    return problem(error.status_code, error.detail, dict(error.headers or {}))


def of_invalid_request(_: Request, error: Exception) -> Response:
    """Return the problem document of a request that does not fit its description."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    faults = [*error.errors()]
    told = "; ".join(_told(faults))
    if len(faults) > MAX_SHOWN:
        told += f"; and {len(faults) - MAX_SHOWN:,} more"
    return problem(HTTPStatus.BAD_REQUEST, told)


def _told(faults: list[Any]) -> Iterator[str]:
    for fault in faults[:MAX_SHOWN]:
        place = ".".join(map(str, fault["loc"]))
        yield f"{place}: {fault['msg']}"
